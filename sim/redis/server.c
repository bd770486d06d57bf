/*
 * Connections, the checks before a command runs (in Redis' order), and scripts.
 */
#include "sim/redis/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <xxhash.h>

#include "base/check.h"
#include "base/mem.h"
#include "sim/redis/server_parts.h"

enum { WORDS_MAX = 8192, NAME_MAX_BYTES = 64, SHOWN_BYTES = 128 };

static const char OOM[] = "OOM command not allowed when used memory > 'maxmemory'.";
static const char READ_ONLY[] = "READONLY You can't write against a read only replica.";
static const char FEW_REPLICAS[] = "NOREPLICAS Not enough good replicas to write.";
static const char CANNOT_SAVE[] =
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to "
    "disk. Commands that may modify the data set are disabled, because this instance is configured "
    "to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option)."
    " Please check the Redis logs for details about the RDB error.";

/* ---- life ---- */

struct sim_redis *sim_redis_new(const struct sim_redis_options *options, int64_t now_us)
{
    struct sim_redis *redis = mem_zalloc(sizeof(*redis));
    redis->options = *options;
    redis->now_us = now_us;
    redis->keys.scan_order = options->port;
    list_init(&redis->conns);
    return redis;
}

void sim_redis_free(struct sim_redis *redis)
{
    while (!list_empty(&redis->conns))
        sim_redis_hang_up(LIST_ENTRY(redis->conns.next, struct sim_redis_conn, place));
    replica_leave(redis);
    for (unsigned i = 0; i < redis->replica_count; i++)
        redis->replicas[i]->master = NULL;
    keyspace_clear(&redis->keys);
    buf_fini(&redis->log);
    mem_free(redis->marks);
    mem_free(redis);
}

struct sim_redis_settings *sim_redis_settings(struct sim_redis *redis)
{
    return &redis->settings;
}

const char *sim_redis_host(const struct sim_redis *redis)
{
    return redis->options.host;
}

uint16_t sim_redis_port(const struct sim_redis *redis)
{
    return redis->options.port;
}

bool sim_redis_is_replica(const struct sim_redis *redis)
{
    return redis->master;
}

static int by_name(const void *a, const void *b)
{
    return keyspace_compare(*(struct value *const *)a, *(struct value *const *)b);
}

uint64_t sim_redis_digest(const struct sim_redis *redis)
{
    uint64_t digest = 0;
    struct value **values = mem_alloc((redis->keys.count + 1) * sizeof(struct value *));
    for (size_t i = 0; i < redis->keys.count; i++)
        values[i] = redis->keys.values[i];
    qsort(values, redis->keys.count, sizeof(struct value *), by_name);
    for (size_t i = 0; i < redis->keys.count; i++) {
        const struct value *value = values[i];
        digest = XXH3_64bits_withSeed(value->name.at, value->name.len, digest + value->db);
        for (size_t at = 0; at < value->count; at++) {
            const struct value_item *item = &value->items[at];
            digest = XXH3_64bits_withSeed(item->member.at, item->member.len, digest);
            digest = XXH3_64bits_withSeed(&item->score, sizeof(item->score), digest);
            digest = XXH3_64bits_withSeed(item->value.at, item->value.len, digest);
        }
    }
    mem_free(values);
    return digest;
}

/* ---- connections ---- */

struct sim_redis_conn *sim_redis_accept(struct sim_redis *redis)
{
    struct sim_redis_conn *conn = mem_zalloc(sizeof(*conn));
    conn->redis = redis;
    list_add_tail(&redis->conns, &conn->place);
    return conn;
}

void sim_redis_unsubscribe(struct sim_redis_conn *conn)
{
    for (unsigned i = 0; i < conn->channel_count; i++)
        mem_free((void *)(uintptr_t)conn->channels[i].name.at);
    conn->channel_count = 0;
}

void take_channel(struct sim_redis_conn *conn, unsigned place)
{
    struct sim_channel channel = conn->channels[place];
    conn->channels[place] = conn->channels[--conn->channel_count];
    resp_array(&conn->out, 3);
    resp_bulk(&conn->out, channel.sharded ? BYTES("sunsubscribe") : BYTES("unsubscribe"));
    resp_bulk(&conn->out, channel.name);
    resp_integer(&conn->out, conn->channel_count);
    mem_free((void *)(uintptr_t)channel.name.at);
}

void sim_redis_hang_up(struct sim_redis_conn *conn)
{
    list_remove(&conn->place);
    sim_redis_unsubscribe(conn);
    buf_fini(&conn->in);
    buf_fini(&conn->out);
    mem_free(conn);
}

struct buf *sim_redis_output(struct sim_redis_conn *conn)
{
    return &conn->out;
}

bool sim_redis_closed(const struct sim_redis_conn *conn)
{
    return conn->closed;
}

bool is_subscribed(const struct sim_redis_conn *conn, struct bytes channel, bool sharded)
{
    for (unsigned i = 0; i < conn->channel_count; i++) {
        if (conn->channels[i].sharded == sharded && bytes_eq(conn->channels[i].name, channel))
            return true;
    }
    return false;
}

static unsigned publish(struct sim_redis *redis, struct bytes channel, struct bytes message,
                        bool sharded)
{
    unsigned count = 0;
    for (struct list *at = redis->conns.next; at != &redis->conns; at = at->next) {
        struct sim_redis_conn *conn = LIST_ENTRY(at, struct sim_redis_conn, place);
        if (!is_subscribed(conn, channel, sharded))
            continue;
        resp_array(&conn->out, 3);
        resp_bulk(&conn->out, sharded ? BYTES("smessage") : BYTES("message"));
        resp_bulk(&conn->out, channel);
        resp_bulk(&conn->out, message);
        count++;
    }
    redis->messages += count;
    return count;
}

unsigned sim_redis_publish(struct sim_redis *redis, struct bytes channel, struct bytes message)
{
    return publish(redis, channel, message, false);
}

unsigned sim_redis_spublish(struct sim_redis *redis, struct bytes channel, struct bytes message)
{
    return publish(redis, channel, message, true);
}

/* ---- checks before a command ---- */

static void lower(struct bytes word, char *room, size_t room_bytes)
{
    size_t len = word.len < room_bytes - 1 ? word.len : room_bytes - 1;
    for (size_t i = 0; i < len; i++)
        room[i] = word.at[i] >= 'A' && word.at[i] <= 'Z' ? (char)(word.at[i] | 32) : word.at[i];
    room[len] = '\0';
}

static bool is_listed(const char *list, const char *name)
{
    char word[NAME_MAX_BYTES + 2];
    if (!list)
        return false;
    (void)snprintf(word, sizeof(word), " %s ", name);
    return strstr(list, word);
}

static bool denied(const struct sim_redis *redis, const char *name)
{
    return is_listed(redis->settings.denied, name);
}

static const struct command *look_up(const struct sim_redis *redis, struct bytes name)
{
    const struct command *command = server_command(redis, name);
    return command || redis->options.sentinel ? command : command_find(name);
}

/* Caches commands by name, because scripts call the same few commands again and again. */
static const struct command *find(const struct sim_redis *redis, struct bytes name)
{
    enum { KEPT = 256, KEPT_BYTES = 16 };
    static struct kept {
        char name[KEPT_BYTES];
        const struct command *command;
    } kept[2][KEPT];
    if (name.len >= KEPT_BYTES)
        return look_up(redis, name);
    struct kept *place = &kept[redis->options.sentinel][XXH3_64bits(name.at, name.len) % KEPT];
    if (!place->command || !bytes_eq(name, bytes_str(place->name))) {
        place->command = look_up(redis, name);
        memset(place->name, 0, sizeof(place->name));
        memcpy(place->name, name.at, name.len);
    }
    return place->command;
}

static void add_unknown(const struct bytes *words, uint32_t count, struct buf *out)
{
    size_t shown = 0;
    buf_addf(out, "-ERR unknown command '%.*s', with args beginning with: ",
             words[0].len < SHOWN_BYTES ? (int)words[0].len : SHOWN_BYTES, words[0].at);
    for (uint32_t i = 1; i < count && shown < SHOWN_BYTES; i++) {
        size_t room = SHOWN_BYTES - shown, len = words[i].len < room ? words[i].len : room;
        buf_addf(out, "'%.*s' ", (int)len, words[i].at);
        shown += len + 3;
    }
    buf_add_str(out, "\r\n");
}

/* The error for a command that writes; NULL: it may run. */
static const char *write_refused(const struct sim_redis *redis)
{
    if (redis->settings.cannot_save && !redis->master)
        return CANNOT_SAVE;
    if (redis->settings.few_replicas && !redis->master)
        return FEW_REPLICAS;
    return redis->master ? READ_ONLY : NULL;
}

/* Returns how many of `words` are keys; *out_first: the index of the first. */
static uint32_t keys_of(const struct command *command, const struct bytes *words, uint32_t count,
                        uint32_t *out_first)
{
    uint64_t keys;
    bool script = strcmp(command->name, "evalsha") == 0 || strcmp(command->name, "eval") == 0;
    if (script) {
        *out_first = 3;
        return bytes_to_u64(words[2], &keys) && keys <= count - 3 ? (uint32_t)keys : 0;
    }
    *out_first = (uint32_t)command->first_key;
    if (command->first_key == 0)
        return 0;
    return command->last_key < 0 ? count - 1 : 1;
}

/* The error for the command; NULL: it may run. "": the error was appended to `out`. */
static const char *refused(const struct sim_redis_conn *conn, const struct command *command,
                           const struct bytes *words, uint32_t count, struct buf *out)
{
    const struct sim_redis *redis = conn->redis;
    const struct sim_redis_settings *settings = &redis->settings;
    uint32_t first, keys = keys_of(command, words, count, &first);
    if (settings->password && !conn->authorized && !(command->flags & COMMAND_NO_AUTH))
        return "NOAUTH Authentication required.";
    if (denied(redis, command->name) && !(command->flags & COMMAND_NO_AUTH)) {
        buf_addf(out, "-NOPERM this user has no permissions to run the '%s' command\r\n",
                 command->name);
        return "";
    }
    if (redis->cluster && keys &&
        !(command->flags & COMMAND_CHANNELS
              ? cluster_allows_channels(conn, words + first, keys, out)
              : cluster_allows(conn, words + first, keys, out)))
        return "";
    if (settings->full && (command->flags & COMMAND_DENY_OOM))
        return OOM;
    if (command->flags & COMMAND_WRITE && write_refused(redis))
        return write_refused(redis);
    if (conn->channel_count && !(command->flags & COMMAND_SUBSCRIBER)) {
        buf_addf(out,
                 "-ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / "
                 "RESET are allowed in this context\r\n",
                 command->name);
        return "";
    }
    if (settings->loading && !(command->flags & COMMAND_LOADING))
        return "LOADING Redis is loading the dataset in memory";
    if (settings->busy && !(command->flags & COMMAND_NO_AUTH))
        return "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN "
               "NOSAVE.";
    return NULL;
}

static bool right_count(const struct command *command, uint32_t count)
{
    return command->arity < 0 ? count >= (uint32_t)-command->arity
                              : count == (uint32_t)command->arity;
}

/* ---- one command ---- */

static void run_it(struct sim_redis_conn *conn, const struct command *command,
                   const struct bytes *words, uint32_t count)
{
    struct sim_redis *redis = conn->redis;
    struct server_run server = {.conn = conn};
    struct command_run run = {.keys = &redis->keys,
                              .db = conn->db,
                              .now_us = redis->now_us + redis->settings.ahead_us,
                              .words = words,
                              .count = count,
                              .out = &conn->out,
                              .owner = &server};
    command->run(&run);
    if (run.dirty)
        log_add(redis, conn->db, words, count);
    size_t before = redis->mark_count;
    log_mark(redis);
    if (redis->mark_count != before)
        conn->written = redis->log.len;
}

static void take_command(struct sim_redis_conn *conn, const struct bytes *words, uint32_t count)
{
    char name[NAME_MAX_BYTES];
    const struct command *command = find(conn->redis, words[0]);
    lower(words[0], name, sizeof(name));
    if (!command || is_listed(conn->redis->settings.unknown, name)) {
        add_unknown(words, count, &conn->out);
        return;
    }
    if (!right_count(command, count)) {
        buf_addf(&conn->out, "-ERR wrong number of arguments for '%s' command\r\n", name);
        return;
    }
    const char *error = refused(conn, command, words, count, &conn->out);
    if (error && error[0])
        resp_error(&conn->out, error);
    if (!error)
        run_it(conn, command, words, count);
    if (strcmp(command->name, "asking") != 0)
        conn->asking = false;
}

/* ---- bytes in ---- */

/* Parses "*3\r\n" or "$5\r\n" at the beginning of `in`, and removes it. */
enum taken { TAKEN, MISSING, NONSENSE };

static enum taken take_count(struct bytes *in, char mark, uint64_t *out_count)
{
    if (in->len == 0)
        return MISSING;
    if (in->at[0] != mark)
        return NONSENSE;
    const char *end = memchr(in->at, '\r', in->len);
    if (!end || (size_t)(end - in->at) + 2 > in->len)
        return in->len > 32 ? NONSENSE : MISSING;
    size_t used = (size_t)(end - in->at) + 2;
    if (!bytes_to_u64(bytes_of(in->at + 1, used - 3), out_count))
        return NONSENSE;
    *in = bytes_of(in->at + used, in->len - used);
    return TAKEN;
}

static enum taken take_words(struct bytes *in, struct bytes *words, uint32_t *out_count)
{
    struct bytes rest = *in;
    uint64_t count, len;
    enum taken taken = take_count(&rest, '*', &count);
    if (taken != TAKEN)
        return taken;
    if (count > WORDS_MAX)
        return NONSENSE;
    for (uint64_t i = 0; i < count; i++) {
        taken = take_count(&rest, '$', &len);
        if (taken != TAKEN)
            return taken;
        if (rest.len < len + 2)
            return MISSING;
        words[i] = bytes_of(rest.at, len);
        rest = bytes_of(rest.at + len + 2, rest.len - len - 2);
    }
    *out_count = (uint32_t)count;
    *in = rest;
    return TAKEN;
}

/* Runs the commands at the beginning of `in`, and returns the rest. */
static struct bytes take_commands(struct sim_redis_conn *conn, struct bytes in)
{
    static struct bytes words[WORDS_MAX];
    while (!conn->blocked && !conn->closed) {
        uint32_t count = 0;
        enum taken taken = take_words(&in, words, &count);
        if (taken == MISSING)
            break;
        if (taken == NONSENSE) {
            resp_error(&conn->out, "ERR Protocol error: unbalanced quotes in request");
            conn->closed = true;
            break;
        }
        if (count)
            take_command(conn, words, count);
    }
    return in;
}

static void take_input(struct sim_redis_conn *conn)
{
    struct bytes rest = take_commands(conn, buf_bytes(&conn->in));
    buf_drop(&conn->in, conn->in.len - rest.len);
}

void sim_redis_input(struct sim_redis_conn *conn, struct bytes bytes)
{
    if (conn->closed)
        return;
    if (conn->in.len == 0) { /* mostly: what has come need not be copied first */
        buf_add_bytes(&conn->in, take_commands(conn, bytes));
        return;
    }
    buf_add_bytes(&conn->in, bytes);
    take_input(conn);
}

/* ---- time ---- */

void answer_wait(struct sim_redis_conn *conn)
{
    int64_t have = replicas_with(conn->redis, conn->written);
    conn->blocked = have < conn->wanted && conn->redis->now_us < conn->until_us;
    if (!conn->blocked)
        resp_integer(&conn->out, have);
}

void sim_redis_time(struct sim_redis *redis, int64_t now_us)
{
    redis->now_us = now_us;
    replica_take(redis);
    for (struct list *at = redis->conns.next; at != &redis->conns; at = at->next) {
        struct sim_redis_conn *conn = LIST_ENTRY(at, struct sim_redis_conn, place);
        if (!conn->blocked || conn->closed)
            continue;
        answer_wait(conn);
        if (!conn->blocked)
            take_input(conn);
    }
}

int64_t sim_redis_next_us(const struct sim_redis *redis)
{
    int64_t next_us = replica_next_us(redis);
    for (struct list *at = redis->conns.next; at != &redis->conns; at = at->next) {
        const struct sim_redis_conn *conn = LIST_ENTRY(at, struct sim_redis_conn, place);
        if (conn->blocked && !conn->closed && conn->until_us < next_us)
            next_us = conn->until_us;
    }
    return next_us;
}

/* ---- scripts ---- */

struct script_run {
    struct sim_lua_host host;
    struct sim_redis_conn *conn;
    bool full; /* memory was full at the script's begin: Redis checks only then */
    bool written;
};

/* The same checks as in scriptCall() of Redis 7.0. */
static const char *script_refused(const struct script_run *script, const struct command *command)
{
    const struct sim_redis *redis = script->conn->redis;
    if (command->flags & COMMAND_NO_SCRIPT)
        return "ERR This Redis command is not allowed from script";
    if (denied(redis, command->name))
        return "NOPERM The user executing the script can't run this command or subcommand";
    if (script->written)
        return NULL;
    if (command->flags & COMMAND_WRITE) {
        if (redis->master)
            return READ_ONLY;
        if (write_refused(redis))
            return write_refused(redis);
    }
    return script->full && (command->flags & COMMAND_DENY_OOM) ? OOM : NULL;
}

/* The same check as in scriptVerifyClusterState(): also of keys that the script did not declare. */
static bool has_keys(const struct sim_redis_conn *conn, const struct command *command,
                     struct sim_lua_words words)
{
    static struct buf unused;
    uint32_t first, keys = keys_of(command, words.at, words.count, &first);
    unused.len = 0;
    return !keys || cluster_allows(conn, words.at + first, keys, &unused);
}

static void script_calls(struct sim_lua_host *host, struct sim_lua_words words, struct buf *out)
{
    struct script_run *script = (struct script_run *)host; /* its first member */
    struct sim_redis *redis = script->conn->redis;
    const struct command *command = find(redis, words.at[0]);
    const char *error = NULL;
    if (!command)
        error = "ERR Unknown Redis command called from script";
    else if (!right_count(command, words.count))
        error = "ERR Wrong number of args calling Redis command from script";
    else
        error = script_refused(script, command);
    if (!error && redis->cluster && !has_keys(script->conn, command, words))
        error = "ERR Script attempted to access a non local key in a cluster node";
    if (error) {
        resp_error(out, error);
        return;
    }
    struct server_run server = {.conn = script->conn, .scripted = true};
    struct command_run run = {.keys = &redis->keys,
                              .db = script->conn->db,
                              .now_us = redis->now_us + redis->settings.ahead_us,
                              .words = words.at,
                              .count = words.count,
                              .out = out,
                              .owner = &server};
    script->written = script->written || (command->flags & COMMAND_WRITE);
    command->run(&run);
    if (run.dirty)
        log_add(redis, script->conn->db, words.at, words.count);
}

bool script_keys(struct command_run *run, uint32_t *out_count)
{
    uint64_t keys;
    if (!bytes_to_u64(run->words[2], &keys)) {
        resp_error(run->out, "ERR value is not an integer or out of range");
        return false;
    }
    if (keys > run->count - 3) {
        resp_error(run->out, "ERR Number of keys can't be greater than number of args");
        return false;
    }
    *out_count = (uint32_t)keys;
    return true;
}

void run_script(struct command_run *run, uint32_t script)
{
    struct server_run *server = run->owner;
    uint32_t count;
    if (!script_keys(run, &count))
        return;
    struct script_run own = {.host.call = script_calls,
                             .conn = server->conn,
                             .full = server->conn->redis->settings.full};
    sim_lua_run(
        script, (struct sim_lua_words){.at = run->words + 3, .count = count},
        (struct sim_lua_words){.at = run->words + 3 + count, .count = run->count - 3 - count},
        &own.host, run->out);
}
