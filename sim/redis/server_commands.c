/*
 * The commands of a server and of a sentinel that do not work on keys.
 */
#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"
#include "sim/redis/server_parts.h"

static struct sim_redis_conn *conn_of(const struct command_run *run)
{
    return ((struct server_run *)run->owner)->conn;
}

static struct sim_redis *redis_of(const struct command_run *run)
{
    return conn_of(run)->redis;
}

static bool is_word(const struct command_run *run, uint32_t at, const char *text)
{
    return at < run->count && bytes_eq_nocase(run->words[at], bytes_str(text));
}

/* ---- the connection ---- */

static void run_auth(struct command_run *run)
{
    struct sim_redis_conn *conn = conn_of(run);
    const char *password = conn->redis->settings.password;
    bool named = run->count == 3;
    if (run->count > 3) {
        resp_error(run->out, "ERR syntax error");
    } else if (!named && !password) {
        resp_error(run->out,
                   "ERR AUTH <password> called without any password configured for the default "
                   "user. Are you sure your configuration is correct?");
    } else if ((!named || bytes_eq(run->words[1], BYTES("default"))) &&
               (!password || bytes_eq(run->words[run->count - 1], bytes_str(password)))) {
        conn->authorized = true;
        resp_ok(run->out);
    } else {
        resp_error(run->out, "WRONGPASS invalid username-password pair or user is disabled.");
    }
}

static void run_select(struct command_run *run)
{
    uint64_t db;
    if (!bytes_to_u64(run->words[1], &db)) {
        resp_error(run->out, "ERR value is not an integer or out of range");
    } else if (redis_of(run)->cluster && db) {
        resp_error(run->out, "ERR SELECT is not allowed in cluster mode");
    } else if (db >= SIM_REDIS_DBS) {
        resp_error(run->out, "ERR DB index is out of range");
    } else {
        conn_of(run)->db = (unsigned)db;
        resp_ok(run->out);
    }
}

static void run_ping(struct command_run *run)
{
    if (conn_of(run)->channel_count) {
        resp_array(run->out, 2);
        resp_bulk(run->out, BYTES("pong"));
        resp_bulk(run->out, run->count > 1 ? run->words[1] : BYTES(""));
    } else if (run->count > 1) {
        resp_bulk(run->out, run->words[1]);
    } else {
        buf_add_str(run->out, "+PONG\r\n");
    }
}

/* ---- the server's role and INFO ---- */

static void add_replica(struct buf *out, const struct sim_redis *replica)
{
    char port[16], offset[32];
    int port_len = snprintf(port, sizeof(port), "%u", replica->options.port);
    int offset_len = snprintf(offset, sizeof(offset), "%zu", replica->log.len);
    resp_array(out, 3);
    resp_bulk(out, bytes_str(replica->options.host));
    resp_bulk(out, bytes_of(port, (size_t)port_len));
    resp_bulk(out, bytes_of(offset, (size_t)offset_len));
}

static void run_role(struct command_run *run)
{
    const struct sim_redis *redis = redis_of(run);
    if (redis->options.sentinel) {
        resp_array(run->out, 2);
        resp_bulk(run->out, BYTES("sentinel"));
        resp_array(run->out, 1);
        resp_bulk(run->out, bytes_str(redis->options.service));
    } else if (redis->master) {
        resp_array(run->out, 5);
        resp_bulk(run->out, BYTES("slave"));
        resp_bulk(run->out, bytes_str(redis->master->options.host));
        resp_integer(run->out, redis->master->options.port);
        resp_bulk(run->out, BYTES("connected"));
        resp_integer(run->out, (int64_t)redis->log.len);
    } else {
        resp_array(run->out, 3);
        resp_bulk(run->out, BYTES("master"));
        resp_integer(run->out, (int64_t)redis->log.len);
        resp_array(run->out, redis->replica_count);
        for (unsigned i = 0; i < redis->replica_count; i++)
            add_replica(run->out, redis->replicas[i]);
    }
}

static void run_info(struct command_run *run)
{
    const struct sim_redis *redis = redis_of(run);
    char text[512];
    const char *mode = redis->options.sentinel ? "sentinel"
                       : redis->cluster        ? "cluster"
                                               : "standalone";
    const struct sim_redis *master = redis;
    while (master->master)
        master = master->master;
    int len = snprintf(text, sizeof(text),
                       "# Server\r\nredis_version:%s\r\nredis_mode:%s\r\nrun_id:%u%u\r\n\r\n"
                       "# Memory\r\nmaxmemory:%u\r\nmaxmemory_policy:%s\r\n\r\n"
                       "# Persistence\r\nloading:%u\r\n\r\n"
                       "# Replication\r\nrole:%s\r\nconnected_slaves:%u\r\nmaster_replid:%u%u\r\n",
                       redis->settings.version ? redis->settings.version : "7.0.15", mode,
                       redis->options.port, redis->starts,
                       redis->settings.full || redis->settings.evicts ? 1000000U : 0U,
                       redis->settings.evicts ? "allkeys-lru" : "noeviction",
                       redis->settings.loading, redis->master ? "slave" : "master",
                       redis->replica_count, master->options.port, master->promotions);
    resp_bulk(run->out, bytes_of(text, (size_t)len));
}

static void run_cluster(struct command_run *run)
{
    const struct sim_cluster *cluster = redis_of(run)->cluster;
    if (!cluster) {
        resp_error(run->out, "ERR This instance has cluster support disabled");
    } else if (is_word(run, 1, "slots")) {
        cluster_show_slots(redis_of(run), run->out);
    } else if (is_word(run, 1, "info")) {
        cluster_show_info(redis_of(run), run->out);
    } else {
        resp_error(run->out, "ERR unknown subcommand. Try CLUSTER HELP.");
    }
}

static void run_asking(struct command_run *run)
{
    if (!redis_of(run)->cluster) {
        resp_error(run->out, "ERR This instance has cluster support disabled");
        return;
    }
    conn_of(run)->asking = true;
    resp_ok(run->out);
}

static void run_wait(struct command_run *run)
{
    struct sim_redis_conn *conn = conn_of(run);
    uint64_t wanted, timeout_ms;
    if (conn->redis->master) {
        resp_error(run->out,
                   "ERR WAIT cannot be used with replica instances. Please also note that since "
                   "Redis 4.0 if a replica is configured to be writable (which is not the default) "
                   "writes to replicas are just local and are not propagated.");
        return;
    }
    if (!bytes_to_u64(run->words[1], &wanted)) {
        resp_error(run->out, "ERR value is not an integer or out of range");
        return;
    }
    if (!bytes_to_u64(run->words[2], &timeout_ms)) {
        resp_error(run->out, "ERR timeout is not an integer or out of range");
        return;
    }
    conn->wanted = (int64_t)wanted;
    conn->until_us = timeout_ms ? conn->redis->now_us + 1000 * (int64_t)timeout_ms : INT64_MAX;
    answer_wait(conn);
}

/* ---- channels ---- */

static void run_publish(struct command_run *run)
{
    struct sim_redis *redis = redis_of(run);
    unsigned heard = sim_redis_publish(redis, run->words[1], run->words[2]);
    if (redis->cluster)
        cluster_publish(redis, run->words[1], run->words[2]);
    else
        run->dirty = redis->replica_count > 0; /* replicas publish it, too */
    resp_integer(run->out, heard);
}

static void run_spublish(struct command_run *run)
{
    struct sim_redis *redis = redis_of(run);
    run->dirty = !redis->cluster && redis->replica_count > 0;
    resp_integer(run->out, sim_redis_spublish(redis, run->words[1], run->words[2]));
}

static void subscribe(struct command_run *run, bool sharded)
{
    struct sim_redis_conn *conn = conn_of(run);
    for (uint32_t i = 1; i < run->count; i++) {
        if (!is_subscribed(conn, run->words[i], sharded)) {
            struct buf name = {0};
            CHECK(conn->channel_count < CHANNELS_MAX);
            buf_add_bytes(&name, run->words[i]);
            conn->channels[conn->channel_count++] =
                (struct sim_channel){.name = buf_bytes(&name), .sharded = sharded};
        }
        resp_array(run->out, 3);
        resp_bulk(run->out, sharded ? BYTES("ssubscribe") : BYTES("subscribe"));
        resp_bulk(run->out, run->words[i]);
        resp_integer(run->out, conn->channel_count);
    }
}

static void run_subscribe(struct command_run *run)
{
    subscribe(run, false);
}

static void run_ssubscribe(struct command_run *run)
{
    subscribe(run, true);
}

static void run_sunsubscribe(struct command_run *run)
{
    struct sim_redis_conn *conn = conn_of(run);
    for (uint32_t word = 1; word < run->count; word++) {
        for (unsigned i = conn->channel_count; i-- > 0;) {
            if (conn->channels[i].sharded && bytes_eq(conn->channels[i].name, run->words[word]))
                take_channel(conn, i);
        }
    }
}

/* ---- scripts ---- */

static void run_script_load(struct command_run *run)
{
    uint32_t script;
    if (sim_lua_load(run->words[2], &script, run->out))
        return;
    redis_of(run)->known[script] = true;
    resp_bulk(run->out, bytes_of(sim_lua_sha(script), LUA_SHA_DIGITS));
}

static void run_scripts(struct command_run *run)
{
    struct sim_redis *redis = redis_of(run);
    if (is_word(run, 1, "load") && run->count == 3) {
        run_script_load(run);
    } else if (is_word(run, 1, "flush")) {
        memset(redis->known, 0, sizeof(redis->known));
        resp_ok(run->out);
    } else if (is_word(run, 1, "exists") && run->count > 2) {
        resp_array(run->out, run->count - 2);
        for (uint32_t i = 2; i < run->count; i++) {
            uint32_t script = sim_lua_find(run->words[i]);
            resp_integer(run->out, script != UINT32_MAX && redis->known[script]);
        }
    } else {
        resp_error(run->out, "ERR unknown subcommand. Try SCRIPT HELP.");
    }
}

static void run_evalsha(struct command_run *run)
{
    uint32_t script = sim_lua_find(run->words[1]);
    if (script == UINT32_MAX || !redis_of(run)->known[script])
        resp_error(run->out, "NOSCRIPT No matching script. Please use EVAL.");
    else
        run_script(run, script);
}

static void run_eval(struct command_run *run)
{
    uint32_t script, keys;
    if (!script_keys(run, &keys) || sim_lua_load(run->words[1], &script, run->out))
        return;
    redis_of(run)->known[script] = true;
    run_script(run, script);
}

/* ---- sentinels ---- */

static void add_master(const struct sim_redis *sentinel, struct buf *out)
{
    char port[16];
    int len = snprintf(port, sizeof(port), "%u", sentinel->master_port);
    resp_array(out, 2);
    resp_bulk(out, bytes_str(sentinel->master_host));
    resp_bulk(out, bytes_of(port, (size_t)len));
}

static void run_sentinel(struct command_run *run)
{
    const struct sim_redis *redis = redis_of(run);
    if (!is_word(run, 1, "get-master-addr-by-name") || run->count != 3) {
        resp_error(run->out, "ERR unknown subcommand. Try SENTINEL HELP.");
        return;
    }
    bool known = bytes_eq(run->words[2], bytes_str(redis->options.service));
    if (known && redis->master_host[0])
        add_master(redis, run->out);
    else
        buf_add_str(run->out, "*-1\r\n");
}

void sim_redis_name_master(struct sim_redis *sentinel, const struct sim_redis *master, bool report)
{
    struct buf message = {0};
    buf_addf(&message, "%s %s %u %s %u", sentinel->options.service, sentinel->master_host,
             sentinel->master_port, master->options.host, master->options.port);
    (void)snprintf(sentinel->master_host, sizeof(sentinel->master_host), "%s",
                   master->options.host);
    sentinel->master_port = master->options.port;
    if (report)
        (void)sim_redis_publish(sentinel, BYTES("+switch-master"), buf_bytes(&message));
    buf_fini(&message);
}

/* ---- the table of commands ---- */

enum {
    LOADS = COMMAND_LOADING,
    HIDDEN = COMMAND_NO_SCRIPT,
    OPEN = COMMAND_NO_AUTH,
    HEARS = COMMAND_SUBSCRIBER
};

static const struct command commands[] = {
    {"auth", -2, LOADS | HIDDEN | OPEN, 0, 0, run_auth},
    {"ping", -1, HEARS, 0, 0, run_ping},
    {"select", 2, LOADS, 0, 0, run_select},
    {"role", 1, LOADS | HIDDEN, 0, 0, run_role},
    {"info", -1, LOADS, 0, 0, run_info},
    {"cluster", -2, LOADS | HIDDEN, 0, 0, run_cluster},
    {"asking", 1, 0, 0, 0, run_asking},
    {"wait", 3, HIDDEN, 0, 0, run_wait},
    {"publish", 3, LOADS, 0, 0, run_publish},
    {"subscribe", -2, LOADS | HIDDEN | HEARS, 0, 0, run_subscribe},
    {"spublish", 3, LOADS | COMMAND_CHANNELS, 1, 1, run_spublish},
    {"ssubscribe", -2, LOADS | HIDDEN | HEARS | COMMAND_CHANNELS, 1, -1, run_ssubscribe},
    {"sunsubscribe", -2, LOADS | HIDDEN | HEARS, 0, 0, run_sunsubscribe},
    {"script", -2, HIDDEN, 0, 0, run_scripts},
    {"evalsha", -3, HIDDEN, 0, 0, run_evalsha},
    {"eval", -3, HIDDEN, 0, 0, run_eval},
};

static const struct command sentinel_commands[] = {
    {"auth", -2, LOADS | HIDDEN | OPEN, 0, 0, run_auth},
    {"ping", -1, HEARS, 0, 0, run_ping},
    {"role", 1, LOADS | HIDDEN, 0, 0, run_role},
    {"info", -1, LOADS, 0, 0, run_info},
    {"subscribe", -2, LOADS | HIDDEN | HEARS, 0, 0, run_subscribe},
    {"sentinel", -2, 0, 0, 0, run_sentinel},
};

static const struct command *find_in(const struct command *list, size_t count, struct bytes name)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes_eq_nocase(name, bytes_str(list[i].name)))
            return &list[i];
    }
    return NULL;
}

const struct command *server_command(const struct sim_redis *redis, struct bytes name)
{
    if (redis->options.sentinel)
        return find_in(sentinel_commands, sizeof(sentinel_commands) / sizeof(sentinel_commands[0]),
                       name);
    return find_in(commands, sizeof(commands) / sizeof(commands[0]), name);
}
