/*
 * The simulated Redis beside a real one: the same random sequences of the engine's scripts and of
 * plain commands go to both, and each answer, and all that lies there in the end, must be the same
 * bytes. Only the clock is taken out of the scripts' texts: the time is a hash that the test sets.
 *
 * Skipped unless LATERD_REDIS_PORT names the port of a server that is the test's alone:
 * test/black/redis/test_redis_simulated.py starts one. SIM_SEEDS: how many sequences.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../engine/redis_scripted.h"
#include "base/cursor.h"
#include "client/redis/resp.h"
#include "engine/redis/fanout.h"
#include "sim/random.h"
#include "sim/redis/server.h"

enum { SEEDS = 100, STEPS = 120, SEEN = 16, PARTITIONS = 2, READ_S = 20, FRESH_EVERY = 10 };
enum { SECOND_US = 1000000 };

static const int64_t EPOCH_US = INT64_C(1700000000000000);

struct seen {
    uint64_t seq, lease;
};

struct pair {
    struct sim_random random;
    struct sim_redis *redis;
    struct sim_redis_conn *conn;
    int real; /* a socket */
    struct script_space space[2];
    uint64_t number;
    int64_t now_us;
    struct seen seen[SEEN];
    unsigned seen_count;
    struct buf request, answer; /* the last ones */
    uint64_t seed;
    unsigned step;
};

static uint64_t below(struct pair *pair, uint64_t limit)
{
    return sim_random_below(&pair->random, limit);
}

static bool chance(struct pair *pair, unsigned per_mille)
{
    return sim_random_chance(&pair->random, per_mille);
}

/* ---- both ---- */

/* How long the answer at the beginning is; 0: it is not whole. */
static size_t answer_len(struct bytes in)
{
    const char *end = in.len ? memchr(in.at, '\n', in.len) : NULL;
    if (!end)
        return 0;
    size_t len = (size_t)(end - in.at) + 1;
    long number = strtol(in.at + 1, NULL, 10);
    if (in.at[0] == '$' && number >= 0)
        return in.len >= len + (size_t)number + 2 ? len + (size_t)number + 2 : 0;
    for (long i = 0; in.at[0] == '*' && i < number; i++) {
        size_t part = answer_len(bytes_of(in.at + len, in.len - len));
        if (!part)
            return 0;
        len += part;
    }
    return len;
}

static void ask_real(struct pair *pair)
{
    size_t sent = 0;
    while (sent < pair->request.len) {
        ssize_t now = send(pair->real, pair->request.at + sent, pair->request.len - sent, 0);
        assert_true(now > 0);
        sent += (size_t)now;
    }
    pair->answer.len = 0;
    while (!answer_len(buf_bytes(&pair->answer))) {
        buf_reserve(&pair->answer, 65536);
        ssize_t now = recv(pair->real, pair->answer.at + pair->answer.len, 65536, 0);
        assert_true(now > 0);
        pair->answer.len += (size_t)now;
    }
}

static void show(const char *who, struct bytes bytes)
{
    (void)fprintf(stderr, "%s: ", who);
    for (size_t i = 0; i < bytes.len && i < 2000; i++) {
        unsigned char c = (unsigned char)bytes.at[i];
        (void)fprintf(stderr, c >= ' ' && c < 127 ? "%c" : "\\x%02x", c);
    }
    (void)fprintf(stderr, "\n");
}

/* Sends pair->request to both and compares the answers. */
static void ask(struct pair *pair)
{
    struct buf *out = sim_redis_output(pair->conn);
    ask_real(pair);
    sim_redis_time(pair->redis, pair->now_us);
    sim_redis_input(pair->conn, buf_bytes(&pair->request));
    if (out->len == 0) /* WAIT */
        sim_redis_time(pair->redis, sim_redis_next_us(pair->redis));
    if (!bytes_eq(buf_bytes(out), buf_bytes(&pair->answer))) {
        (void)fprintf(stderr, "seed %llu step %u\n", (unsigned long long)pair->seed, pair->step);
        show("asked", buf_bytes(&pair->request));
        show("redis", buf_bytes(&pair->answer));
        show("  sim", buf_bytes(out));
        fail();
    }
    out->len = 0;
    pair->request.len = 0;
}

static void ask_words(struct pair *pair, const char *const *words)
{
    unsigned count = 0;
    while (words[count])
        count++;
    resp_begin(&pair->request, count);
    for (unsigned i = 0; i < count; i++)
        resp_add_str(&pair->request, words[i]);
    ask(pair);
}

#define ASK(pair, ...) ask_words((pair), (const char *const[]){__VA_ARGS__, NULL})

/* ---- what is in the answers ---- */

static void note(struct pair *pair, struct bytes part)
{
    struct seen seen = {0};
    if (part.len == SCRIPT_ANSWER_BYTES)
        seen.seq = get_u64(part.at + 16);
    else if (part.len >= 8 + JOB_HEAD_BYTES)
        seen = (struct seen){.seq = __builtin_bswap64(get_u64(part.at)),
                             .lease = get_u64(part.at + 8 + JOB_HEAD_LEASE)};
    if (seen.seq)
        pair->seen[pair->seen_count++ % SEEN] = seen;
}

static void note_all(struct pair *pair)
{
    struct bytes in = buf_bytes(&pair->answer);
    while (in.len) {
        const char *end = memchr(in.at, '\n', in.len);
        size_t len = (size_t)(end - in.at) + 1;
        long number = in.at[0] == '$' ? strtol(in.at + 1, NULL, 10) : -1;
        if (number >= 0)
            note(pair, bytes_of(in.at + len, (size_t)number));
        len += number >= 0 ? (size_t)number + 2 : 0;
        in = bytes_of(in.at + len, in.len - len);
    }
}

/* ---- scripts ---- */

static struct script_call next_call(struct pair *pair, uint32_t partition)
{
    return (struct script_call){.partition = partition,
                                .place = (uint32_t)below(pair, 4),
                                .number = ++pair->number,
                                .now_us = pair->now_us};
}

static struct bytes topic_name(struct pair *pair)
{
    static const char *const names[] = {"t", "orders", "a\xc3\xa4 b", "t2"};
    return bytes_str(names[below(pair, 4)]);
}

static struct cmd push_cmd(struct pair *pair)
{
    static const char body[] = "some bytes\r\n\0 and more";
    static const int64_t retry[] = {0, SECOND_US, 3000};
    static const char *const ids[] = {"", "one", "two", "three", ""};
    return (struct cmd){
        .kind = CMD_PUSH,
        .push = {.id = bytes_str(ids[below(pair, 5)]),
                 .topic = topic_name(pair),
                 .due_us = pair->now_us + (int64_t)below(pair, 4) * 700000 - 700000,
                 .ttr_us = 1 + (int64_t)below(pair, 3 * SECOND_US),
                 .priority = (uint32_t)(below(pair, 3) * 1023),
                 .buried = chance(pair, 50),
                 .if_exists = (enum if_exists)below(pair, 3),
                 .order = (enum ready_order)below(pair, 2),
                 .content_type = chance(pair, 300) ? BYTES("text/plain") : BYTES(""),
                 .body = bytes_of(body, below(pair, sizeof(body))),
                 .properties = chance(pair, 300) ? BYTES("{\"key\":\"k\"}") : BYTES(""),
                 .retry_us = retry,
                 .retry_count = (uint8_t)below(pair, 4)}};
}

static struct cmd job_cmd(struct pair *pair)
{
    static const enum cmd_kind kinds[] = {CMD_RESERVE_JOB, CMD_FINISH, CMD_FINISH, CMD_RELEASE,
                                          CMD_TOUCH,       CMD_BURY,   CMD_KICK,   CMD_RUN,
                                          CMD_RESCHEDULE,  CMD_GET,    CMD_DELETE};
    struct seen seen =
        pair->seen_count
            ? pair->seen[below(pair, pair->seen_count < SEEN ? pair->seen_count : SEEN)]
            : (struct seen){.seq = 5};
    struct cmd cmd = {.kind = kinds[below(pair, sizeof(kinds) / sizeof(kinds[0]))]};
    cmd.job = (struct cmd_job){.ref = {.seq = seen.seq},
                               .lease = chance(pair, 800) ? seen.lease : below(pair, 3),
                               .is_done = chance(pair, 500),
                               .bound = chance(pair, 500),
                               .if_free = chance(pair, 300),
                               .brief = chance(pair, 300),
                               .why = (enum release_why)below(pair, 3),
                               .has_delay = chance(pair, 500),
                               .has_priority = chance(pair, 500),
                               .has_due = chance(pair, 500),
                               .has_body = chance(pair, 500),
                               .has_ttr = chance(pair, 500),
                               .note = chance(pair, 500) ? BYTES("why it failed") : BYTES(""),
                               .note_code = 503,
                               .priority = (uint32_t)below(pair, 2000),
                               .due_us = pair->now_us + (int64_t)below(pair, 2 * SECOND_US),
                               .ttr_us = 1 + (int64_t)below(pair, SECOND_US),
                               .body = BYTES("another body")};
    if (cmd.kind == CMD_FINISH && !cmd.job.lease)
        cmd.job.lease = 1;
    return cmd;
}

static void ask_job(struct pair *pair)
{
    struct cmd cmd = chance(pair, 450) ? push_cmd(pair) : job_cmd(pair);
    const struct script_space *from = &pair->space[below(pair, 2)];
    uint32_t partition = (uint32_t)below(pair, PARTITIONS);
    enum err err;
    if (script_route(from, &cmd, &partition, &err) == SCRIPT_REFUSED)
        return;
    struct script_call call = next_call(pair, partition);
    script_encode(&pair->request, from, &call, &cmd);
    if (chance(pair, 100)) { /* twice: as it is, and as one that is sent again */
        struct buf twice = {0};
        buf_add_bytes(&twice, buf_bytes(&pair->request));
        ask(pair);
        buf_add_bytes(&pair->request, buf_bytes(&twice));
        script_mark_again(pair->request.at, pair->request.len);
        buf_fini(&twice);
    }
    ask(pair);
    note_all(pair);
}

static void ask_reserve(struct pair *pair)
{
    struct bytes topics[3] = {topic_name(pair), topic_name(pair), topic_name(pair)};
    struct cmd_reserve reserve = {.topics = topics,
                                  .topic_count = 1 + (uint32_t)below(pair, 3),
                                  .max = 1,
                                  .ttr_us = (int64_t)below(pair, 3) * 2345678,
                                  .listed_order = chance(pair, 300),
                                  .bound = chance(pair, 400)};
    struct script_call call = next_call(pair, (uint32_t)below(pair, PARTITIONS));
    script_encode_reserve(&pair->request, &pair->space[below(pair, 2)], &call, &reserve,
                          &(struct script_share){.max = (uint32_t)below(pair, 4),
                                                 .mark = (enum script_mark)below(pair, 4)});
    if (chance(pair, 100))
        script_mark_again(pair->request.at, pair->request.len);
    ask(pair);
    note_all(pair);
}

/* Where a page may have ended: among the times and priorities of the jobs that there are. */
static struct bytes any_cursor(struct pair *pair, const struct cmd_topic *cmd, char *room)
{
    struct listing listing = {
        .engine = CURSOR_REDIS,
        .state = (uint8_t)cmd->state,
        .backwards = cmd->backwards,
        .topic = cmd->topic,
    };
    int64_t at_us = pair->now_us + (int64_t)below(pair, SECOND_US);
    struct cursor cursor = {.first = cmd->state == JOB_READY ? (int64_t)below(pair, 2000) : at_us,
                            .second = cmd->state == JOB_READY ? at_us : 0,
                            .seq = below(pair, 50)};
    return cursor_write(&listing, &cursor, room);
}

static void ask_topics(struct pair *pair)
{
    static const enum cmd_kind kinds[] = {CMD_PEEK,   CMD_KICK_TOPIC,   CMD_CLEAR_TOPIC, CMD_PAUSE,
                                          CMD_RESUME, CMD_REMOVE_TOPIC, CMD_TOPICS,      CMD_TOPIC,
                                          CMD_LIST,   CMD_DUE};
    struct cmd cmd = {.kind = kinds[below(pair, sizeof(kinds) / sizeof(kinds[0]))]};
    int64_t until_us[] = {pair->now_us, pair->now_us + (int64_t)below(pair, SECOND_US), INT64_MAX};
    cmd.topic =
        (struct cmd_topic){.topic = topic_name(pair),
                           .until_us = until_us,
                           .until_count = 3,
                           .max = 1 + (uint32_t)below(pair, 3),
                           .stats = chance(pair, 200),
                           .in_use = chance(pair, 300),
                           .must_exist = chance(pair, 300),
                           .backwards = cmd.kind == CMD_LIST && chance(pair, 400),
                           .state = (enum job_state)(1 + below(pair, 4)),
                           .pause_until_us = pair->now_us + (int64_t)below(pair, SECOND_US)};
    const struct script_space *from = &pair->space[below(pair, 2)];
    char room[CURSOR_BYTES];
    if (cmd.kind == CMD_LIST && chance(pair, 500))
        cmd.topic.cursor = any_cursor(pair, &cmd.topic, room);
    struct fanout *fanout = fanout_new(from, &cmd);
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        if (!fanout_wants(fanout, i))
            continue;
        struct script_call call = next_call(pair, i);
        fanout_encode(fanout, &pair->request, &call);
        ask(pair);
        note_all(pair);
        struct bytes empty = BYTES("");
        assert_int_equal(fanout_take(fanout, i, &empty, 1), ERR_CORRUPT); /* one call is enough */
    }
    fanout_free(fanout, NULL);
}

/* 'l' goes through a hash in an order that is each server's own. */
static void ask_settings(struct pair *pair)
{
    const struct script_space *from = &pair->space[below(pair, 2)];
    struct script_call call = next_call(pair, 0);
    struct cmd cmd = {.kind = CMD_CONFIGURE_TOPIC,
                      .topic = {.topic = topic_name(pair),
                                .settings = chance(pair, 700) ? BYTES("{}") : BYTES(""),
                                .if_version = chance(pair, 200)}};
    if (chance(pair, 600))
        script_encode(&pair->request, from, &call, &cmd);
    else if (chance(pair, 700))
        script_encode_settings(&pair->request, from, &call,
                               below(pair, 2) * (uint64_t)EPOCH_US / 1000, (struct bytes){0});
    else
        script_encode_unconfigure(&pair->request, from, &call, cmd.topic.topic);
    if (chance(pair, 100))
        script_mark_again(pair->request.at, pair->request.len);
    ask(pair);
}

static void ask_care(struct pair *pair)
{
    const struct script_space *from = &pair->space[below(pair, 2)];
    struct script_call call = next_call(pair, (uint32_t)below(pair, PARTITIONS));
    struct buf living = {0};
    switch (below(pair, 5)) {
    case 0: script_encode_open(&pair->request, from, &call, 256, 0); break;
    case 1:
        script_encode_heartbeat(
            &pair->request, from, &call,
            &(struct script_heartbeat){.how = SCRIPT_SERVES, .look = chance(pair, 500)});
        break;
    case 2:
        if (chance(pair, 700))
            buf_add(&living, "daemon-1daemon-2", 8 * (1 + below(pair, 2)));
        script_encode_reap_dead(
            &pair->request, from, &call,
            &(struct script_reap){.living = buf_bytes(&living),
                                  .young_us = (int64_t)below(pair, 5 * SECOND_US),
                                  .max = 10});
        break;
    default:
        script_encode_promote(&pair->request, from, &call, 1 + (uint32_t)below(pair, 40), false);
        break;
    }
    buf_fini(&living);
    ask(pair);
    note_all(pair);
}

/* ---- plain commands ---- */

static const char *const plain[][10] = {
    {"ZADD", "z", "1", "a", "2", "b", "2", "aa"},
    {"ZADD", "z", "XX", "5", "a"},
    {"ZADD", "z", "NX", "7", "a", "7", "c"},
    {"ZADD", "z", "x", "a"},
    {"ZADD", "z", "1"},
    {"ZADD", "z", "1", "a", "2"},
    {"ZADD", "h", "1", "a"},
    {"ZADD", "z", "+inf", "top", "-inf", "low", "1.5", "half", "9007199254740991", "big"},
    {"ZREM", "z", "a", "nobody", "top"},
    {"ZRANGE", "z", "0", "-1", "WITHSCORES"},
    {"ZRANGE", "z", "-2", "7"},
    {"ZRANGE", "z", "2", "1"},
    {"ZRANGE", "z", "a", "1"},
    {"ZRANGEBYSCORE", "z", "-inf", "+inf", "LIMIT", "1", "2"},
    {"ZRANGEBYSCORE", "z", "(1", "2", "WITHSCORES"},
    {"ZRANGEBYSCORE", "z", "x", "2"},
    {"ZADD", "z", "LT", "1", "half", "3", "b", "9", "less"},
    {"ZREVRANGEBYSCORE", "z", "+inf", "0", "WITHSCORES", "LIMIT", "0", "3"},
    {"ZREVRANGEBYSCORE", "z", "(2", "-inf", "LIMIT", "1", "2"},
    {"ZREVRANGEBYSCORE", "z", "2", "y"},
    {"ZRANGEBYSCORE", "z", "1", "2", "LIMIT", "a", "1"},
    {"ZRANGEBYLEX", "z", "-", "+"},
    {"ZRANGEBYLEX", "z", "a", "+"},
    {"ZRANGEBYLEX", "lex", "[a", "(c", "LIMIT", "1", "1"},
    {"ZADD", "lex", "0", "a", "0", "b", "0", "bb", "0", "c"},
    {"ZREVRANGEBYLEX", "lex", "+", "-"},
    {"ZREVRANGEBYLEX", "lex", "(c", "[a", "LIMIT", "1", "5"},
    {"ZREVRANGEBYLEX", "lex", "[bb", "(b"},
    {"ZREVRANGEBYLEX", "lex", "c", "-"},
    {"ZREMRANGEBYLEX", "lex", "[b", "(bb"},
    {"ZREMRANGEBYLEX", "lex", "b", "+"},
    {"ZLEXCOUNT", "lex", "(a", "[c"},
    {"ZLEXCOUNT", "lex", "+", "-"},
    {"ZCOUNT", "z", "1", "(2"},
    {"ZCOUNT", "z", "1", "two"},
    {"ZSCORE", "z", "half"},
    {"ZSCORE", "z", "nobody"},
    {"ZSCORE", "h", "a"},
    {"ZMSCORE", "z", "half", "nobody", "a"},
    {"ZMSCORE", "none", "a", "b"},
    {"ZMSCORE", "h", "a"},
    {"ZMSCORE", "z"},
    {"ZCARD", "z"},
    {"HSET", "h", "a", "1", "b", "two"},
    {"HSET", "h", "a"},
    {"HSET", "h", "a", "1", "b"},
    {"HSET", "z", "a", "1"},
    {"HGET", "h", "a"},
    {"HGET", "nothing", "a"},
    {"HMGET", "h", "a", "nobody", "b"},
    {"HMGET", "nothing", "a"},
    {"HDEL", "h", "a", "nobody"},
    {"HDEL", "h", "a", "b", "n"},
    {"HEXISTS", "h", "a"},
    {"HLEN", "h"},
    {"HINCRBY", "h", "a", "5"},
    {"HINCRBY", "h", "n", "-7"},
    {"HINCRBY", "h", "b", "1"},
    {"HINCRBY", "h", "n", "one"},
    {"HINCRBY", "h", "n", "9223372036854775807"},
    {"HINCRBY", "h", "n", " 1"},
    {"SET", "s", "text"},
    {"GET", "s"},
    {"GET", "h"},
    {"HGET", "s", "a"},
    {"DEL", "s", "h", "nothing"},
    {"EXISTS", "z", "h", "s"},
    {"PING"},
    {"PING", "hello"},
    {"SELECT", "3"},
    {"SELECT", "0"},
    {"SELECT", "99"},
    {"SELECT", "x"},
    {"NOSUCH", "command", "given"},
    {"NOSUCH"},
    {"AUTH", "password"},
    {"PUBLISH", "channel", "message"},
    {"WAIT", "0", "0"},
    {"WAIT", "1", "1"},
    {"WAIT", "x", "1"},
    {"CLUSTER", "INFO"},
    {"ASKING"},
    {"EVALSHA", "=", "1", "key"},
    {"EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", "0"},
    {"SCRIPT", "LOAD", "="},
    {"SCRIPT", "LOAD", "return 1"},
    {"SCRIPT", "EXISTS", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "f"},
    {"EVAL", "return {1, 'two', 3.9, true, false, 'never'}", "0"},
    {"EVAL", "return {1, nil, 3}", "0"},
    {"EVAL", "return {KEYS, ARGV, {}}", "1", "k", "a", "b"},
    {"EVAL", "return redis.status_reply('FINE')", "0"},
    {"EVAL", "return redis.error_reply('MY words')", "0"},
    {"EVAL", "return redis.error_reply('-MY words')", "0"},
    {"EVAL", "return redis.call('HSET', 'z', 'a', 1)", "0"},
    {"EVAL", "local a = 1\n\nredis.call('ZADD', 'z', 'x', 'a')", "0"},
    {"EVAL", "return redis.pcall('HGET', 'z', 'a')", "0"},
    {"EVAL", "return redis.call('NOSUCH', 1)", "0"},
    {"EVAL", "return redis.call('HGET', 1)", "0"},
    {"EVAL", "return redis.call('WAIT', 0, 0)", "0"},
    {"EVAL", "return nosuch", "0"},
    {"EVAL", "return nil .. 'a'", "0"},
    {"EVAL", "return 1", "x"},
    {"EVAL", "return 1", "2", "k"},
    {"EVAL", "return redis.call('HSET', 'n', 'a', 1e15, 'b', 0.1, 'c', 2^53 - 1, 'd', -0.5)", "0"},
    {"HMGET", "n", "a", "b", "c", "d"},
    {"EVAL", "return {struct.pack('>I4I8BHc3', 258, 2^40, 7, 513, 'abcd')}", "0"},
    {"EVAL", "return {struct.unpack('<BHI4I8', 'abcdefghijklmnopqrst', 3)}", "0"},
    {"EVAL", "return {struct.unpack('<I8', 'abc')}", "0"},
    {"EVAL", "return struct.pack('<c3', 'ab')", "0"},
    {"EVAL", "return struct.pack('<z', 'ab')", "0"},
    {"EVAL", "return redis.sha1hex('')", "0"},
    {"EVAL", "return tostring(redis.call('HGET', 'nothing', 'a'))", "0"},
    {"EVAL", "return {redis.call('ZSCORE', 'z', 'a')}", "0"},
    {"EVAL",
     "local r = redis.call('ZMSCORE', 'z', 'a', 'no', 'b') return {r[1], r[2] == false, r[3]}",
     "0"},
    {"EVAL", "return redis.call('HDEL', 'n', 'a')", "0"},
};

static void ask_plain(struct pair *pair)
{
    ask_words(pair, plain[below(pair, sizeof(plain) / sizeof(plain[0]))]);
}

/* ---- what a full server and a replica say ---- */

static void ask_refused(struct pair *pair)
{
    struct sim_redis_settings *settings = sim_redis_settings(pair->redis);
    ASK(pair, "SELECT", "0");
    resp_begin(&pair->request, 4);
    resp_add_str(&pair->request, "CONFIG");
    resp_add_str(&pair->request, "SET");
    resp_add_str(&pair->request, "maxmemory");
    resp_add_str(&pair->request, "1");
    ask_real(pair);
    pair->request.len = 0;
    settings->full = true;
    for (int i = 0; i < 12; i++) {
        if (chance(pair, 500))
            ask_plain(pair);
        ask_job(pair);
        ask_care(pair);
    }
    settings->full = false;
    resp_begin(&pair->request, 4);
    resp_add_str(&pair->request, "CONFIG");
    resp_add_str(&pair->request, "SET");
    resp_add_str(&pair->request, "maxmemory");
    resp_add_str(&pair->request, "0");
    ask_real(pair);
    pair->request.len = 0;
}

/* ---- a sequence ---- */

static void set_clock(struct pair *pair, int64_t by_us)
{
    char seconds[32], rest[32];
    pair->now_us += by_us;
    (void)snprintf(seconds, sizeof(seconds), "%lld", (long long)(pair->now_us / SECOND_US));
    (void)snprintf(rest, sizeof(rest), "%lld", (long long)(pair->now_us % SECOND_US));
    ASK(pair, "SELECT", "0");
    ASK(pair, "HSET", "clock", "s", seconds, "u", rest);
}

/* The scripts' texts with another clock. */
static void take_out_clock(struct script_space *from)
{
    static const char clock_call[] = "call('TIME')", other[] = "call('HMGET', 'clock', 's', 'u')";
    for (int kind = 0; kind < SCRIPT_COUNT; kind++) {
        struct buf text = {0};
        const char *at = from->scripts[kind].text.at;
        const char *end = at + from->scripts[kind].text.len, *found;
        while ((found = memmem(at, (size_t)(end - at), clock_call, sizeof(clock_call) - 1))) {
            buf_add(&text, at, (size_t)(found - at));
            buf_add_str(&text, other);
            at = found + sizeof(clock_call) - 1;
        }
        buf_add(&text, at, (size_t)(end - at));
        buf_fini(&from->scripts[kind].text);
        from->scripts[kind].text = text;
        script_sha1(buf_bytes(&text), from->scripts[kind].digest);
    }
}

static void load_script(struct pair *pair, enum script_kind kind)
{
    resp_begin(&pair->request, 3);
    resp_add_str(&pair->request, "SCRIPT");
    resp_add_str(&pair->request, "LOAD");
    resp_add(&pair->request, script_text(&pair->space[0], kind));
    ask(pair);
}

static void load_scripts(struct pair *pair)
{
    for (enum script_kind kind = 0; kind < SCRIPT_COUNT; kind++)
        load_script(pair, kind);
}

static void compare_data(struct pair *pair)
{
    char key[64];
    ASK(pair, "SELECT", "0");
    ASK(pair, "ZRANGE", "z", "0", "-1", "WITHSCORES");
    for (int partition = 0; partition < PARTITIONS; partition++) {
        for (const char *part = "dlo"; *part; part++) {
            (void)snprintf(key, sizeof(key), "{laterd:%d}:%c", partition, *part);
            ASK(pair, "ZRANGE", key, "0", "-1", "WITHSCORES");
        }
        static const char sorted[] = "local a, b = redis.call('HGETALL', KEYS[1]), {} "
                                     "for i = 1, #a, 2 do if a[i] ~= 'y' then " /* run_id */
                                     "b[#b + 1] = struct.pack('>I4', #a[i]) .. "
                                     "a[i] .. a[i + 1] end end table.sort(b, function(x, y) "
                                     "for i = 1, math.min(#x, #y) do "
                                     "local p, q = string.byte(x, i), string.byte(y, i) "
                                     "if p ~= q then return p < q end end return #x < #y end) "
                                     "return b";
        for (const char *part = "hs"; *part; part++) {
            (void)snprintf(key, sizeof(key), "{laterd:%d}:%c", partition, *part);
            ASK(pair, "EVAL", sorted, "1", key);
        }
    }
}

/* `fresh`: all scripts are loaded first, which takes longer than all the rest. */
static void sequence(struct pair *pair, uint64_t seed, bool fresh)
{
    pair->seed = pair->random.state = seed;
    pair->now_us = EPOCH_US;
    pair->seen_count = 0;
    pair->number = 0;
    ASK(pair, "FLUSHALL");
    if (fresh)
        ASK(pair, "SCRIPT", "FLUSH");
    set_clock(pair, 0);
    if (fresh)
        load_scripts(pair);
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        struct script_call call = next_call(pair, i);
        script_encode_open(&pair->request, &pair->space[0], &call, 256, 0);
        ask(pair);
    }
    for (pair->step = 0; pair->step < STEPS; pair->step++) {
        if (chance(pair, 500))
            set_clock(pair, (int64_t)below(pair, chance(pair, 100) ? 2 * SECOND_US : 900));
        uint64_t dice = below(pair, 1000);
        if (dice < 450)
            ask_job(pair);
        else if (dice < 600)
            ask_reserve(pair);
        else if (dice < 700)
            ask_topics(pair);
        else if (dice < 730)
            ask_settings(pair);
        else if (dice < 840)
            ask_care(pair);
        else if (dice < 990)
            ask_plain(pair);
        else if (dice < 995)
            ask_refused(pair);
        else
            load_script(pair, (enum script_kind)below(pair, SCRIPT_COUNT));
    }
    compare_data(pair);
}

static int connect_to(const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = READ_S};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void the_simulated_redis_answers_as_a_real_one(void **state)
{
    const char *port = getenv("LATERD_REDIS_PORT"), *seeds = getenv("SIM_SEEDS");
    const char *seed = getenv("SIM_SEED");
    uint64_t first = seed && *seed ? strtoull(seed, NULL, 10) : 1;
    uint64_t count = seed && *seed ? 1 : seeds ? strtoull(seeds, NULL, 10) : SEEDS;
    struct pair pair = {0};
    (void)state;
    if (!port)
        skip();
    pair.real = connect_to(port);
    pair.redis = sim_redis_new(&(struct sim_redis_options){.host = "127.0.0.1"}, EPOCH_US);
    pair.conn = sim_redis_accept(pair.redis);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(script_space_init(&pair.space[i], BYTES("laterd"), PARTITIONS,
                                           i ? "daemon-2" : "daemon-1"),
                         OK);
        pair.space[i].jobs_max = 40;
        pair.space[i].topics_max = 3;
        take_out_clock(&pair.space[i]);
    }
    for (uint64_t i = 0; i < count; i++)
        sequence(&pair, first + i, i % FRESH_EVERY == 0);
    for (int i = 0; i < 2; i++)
        script_space_fini(&pair.space[i]);
    sim_redis_free(pair.redis);
    buf_fini(&pair.request);
    buf_fini(&pair.answer);
    (void)close(pair.real);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_simulated_redis_answers_as_a_real_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
