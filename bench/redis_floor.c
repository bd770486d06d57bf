/*
 * The baseline of the Redis engine: a minimal queue of three small Lua scripts in one Redis, and
 * clients that call them directly. It has no checks, no retries, no partitions and no way to repeat
 * a request: the least that any queue in Redis costs. The load engine is that of `later bench`, and
 * so are options, bodies and the JSON that is printed.
 *
 * usage: redis_floor put|cycle [--server ADDR] [--pid N] [--connections N] [--depth N] [--jobs N]
 */
#include <getopt.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/check.h"
#include "cli/bench/cpu_usage.h"
#include "cli/bench/load.h"

enum {
    BODY_BYTES = 256,
    ID_DIGITS = 20,
    DAY_MS = 24 * 3600 * 1000,
    RUN_US = 60 * 1000 * 1000,
};

/* A job is in `pool`, and its id in one of the others. */
#define KEYS "4", "floor:pool", "floor:delay", "floor:ready", "floor:held"
static const char *const scripts[] = {
    [LOAD_PUSH] = ("redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) "
                   "if ARGV[3] == '0' then return redis.call('RPUSH', KEYS[3], ARGV[1]) end "
                   "local now = redis.call('TIME') "
                   "local due = now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[3] "
                   "return redis.call('ZADD', KEYS[2], due, ARGV[1])"),
    [LOAD_RESERVE] = ("local id = redis.call('LPOP', KEYS[3]) "
                      "if not id then return nil end "
                      "redis.call('ZADD', KEYS[4], redis.call('TIME')[1] + 60, id) "
                      "return {id, redis.call('HGET', KEYS[1], id)}"),
    [LOAD_FINISH] = ("redis.call('ZREM', KEYS[4], ARGV[1]) "
                     "return redis.call('HDEL', KEYS[1], ARGV[1])"),
};

struct floor {
    struct load_script script; /* first: the engine hands it back */
    bool cycle;
    uint32_t depth;
    uint64_t jobs, asked, answered, refused;
    char digests[LOAD_FINISH + 1][41];
    char body[BODY_BYTES];
};

static _Noreturn void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "redis_floor: %s: %s\n", what, why); /* nobody to tell if that fails */
    exit(1);
}

/* ---- what Redis says ---- */

/* The number behind the first byte of a line, which ends at *at then; false: it is not whole. */
static bool take_line(struct bytes in, size_t *at, int64_t *out_number)
{
    const char *end = memmem(in.at + *at, in.len - *at, "\r\n", 2);
    if (!end)
        return false;
    *out_number = strtoll(in.at + *at + 1, NULL, 10); /* stops at the CR */
    *at = (size_t)(end - in.at) + 2;
    return true;
}

static bool take_string(struct bytes in, size_t *at, struct bytes *out_string)
{
    int64_t len = 0;
    if (!take_line(in, at, &len))
        return false;
    size_t size = len > 0 ? (size_t)len : 0;
    if (in.len - *at < size + 2)
        return false;
    *out_string = bytes_of(in.at + *at, size);
    *at += size + 2;
    return true;
}

/* A number, an error, nothing, or the pair of id and body that a reserve gives. */
static bool scan(struct bytes in, struct load_answer *out_answer, size_t *out_len, bool *out_bad)
{
    size_t at = 0;
    int64_t number = 0;
    *out_bad = in.len > 0 && !memchr(":-$*", in.at[0], 4);
    if (in.len == 0 || *out_bad || !take_line(in, &at, &number))
        return false;
    *out_answer = (struct load_answer){.line = bytes_of(in.at, at - 2)};
    out_answer->status = in.at[0] == '-' ? 500 : number < 0 ? 204 : 200;
    if (in.at[0] == '*' && number == 2 &&
        (!take_string(in, &at, &out_answer->id) || !take_string(in, &at, &out_answer->body)))
        return false;
    *out_len = at;
    return true;
}

/* ---- what the clients say ---- */

static void add_bulk(struct buf *out, struct bytes text)
{
    buf_addf(out, "$%zu\r\n", text.len);
    buf_add_bytes(out, text);
    buf_add_str(out, "\r\n");
}

static void ask(struct floor *floor, struct load *load, struct load_conn *conn, enum load_kind kind,
                const struct bytes *arguments, unsigned count)
{
    static const char *const keys[] = {KEYS};
    enum { KEY_WORDS = sizeof(keys) / sizeof(keys[0]) };
    buf_addf(&conn->out, "*%u\r\n$7\r\nEVALSHA\r\n", 2 + KEY_WORDS + count);
    add_bulk(&conn->out, bytes_str(floor->digests[kind]));
    for (unsigned i = 0; i < KEY_WORDS; i++)
        add_bulk(&conn->out, bytes_str(keys[i]));
    for (unsigned i = 0; i < count; i++)
        add_bulk(&conn->out, arguments[i]);
    load_expect(load, conn, kind);
}

static void push(struct floor *floor, struct load *load, struct load_conn *conn)
{
    char id[ID_DIGITS + 1], delay_ms[16];
    if (floor->asked == floor->jobs)
        return;
    (void)snprintf(id, sizeof(id), "%0*" PRIu64, ID_DIGITS, floor->asked++); /* it fits */
    (void)snprintf(delay_ms, sizeof(delay_ms), "%d", floor->cycle ? 0 : DAY_MS);
    const struct bytes arguments[] = {bytes_of(id, ID_DIGITS), bytes_of(floor->body, BODY_BYTES),
                                      bytes_str(delay_ms)};
    ask(floor, load, conn, LOAD_PUSH, arguments, 3);
}

static void begin(struct load_script *script, struct load *load, struct load_conn *conn)
{
    struct floor *floor = (struct floor *)script;
    for (uint32_t i = 0; i < floor->depth; i++)
        push(floor, load, conn);
}

static void answer(struct load_script *script, struct load *load, struct load_conn *conn,
                   const struct load_answer *answer)
{
    struct floor *floor = (struct floor *)script;
    bool fine = answer->status == 200;
    floor->refused += !fine;
    if (floor->cycle && answer->kind == LOAD_PUSH && fine) {
        ask(floor, load, conn, LOAD_RESERVE, NULL, 0);
        return;
    }
    if (answer->kind == LOAD_RESERVE && fine) {
        ask(floor, load, conn, LOAD_FINISH, &answer->id, 1);
        return;
    }
    load->done = ++floor->answered == floor->jobs;
    push(floor, load, conn);
}

static void tick(struct load_script *script, struct load *load)
{
    (void)script; /* nobody watches */
    (void)load;
}

/* ---- a run ---- */

static void load_scripts(struct floor *floor, const struct dial *dial)
{
    redisContext *redis = redisConnect(dial->host, (int)strtol(dial->port, NULL, 10));
    if (!redis || redis->err)
        die(dial->authority, redis ? redis->errstr : "no memory");
    for (enum load_kind kind = LOAD_PUSH; kind <= LOAD_FINISH; kind++) {
        redisReply *reply = redisCommand(redis, "SCRIPT LOAD %s", scripts[kind]);
        if (!reply || reply->type != REDIS_REPLY_STRING || reply->len != 40)
            die("SCRIPT LOAD", reply ? reply->str : redis->errstr);
        memcpy(floor->digests[kind], reply->str, 41);
        freeReplyObject(reply);
    }
    redisFree(redis);
}

static void report(const struct floor *floor, int64_t elapsed_us, uint64_t server_us,
                   uint64_t own_us)
{
    double seconds = (double)elapsed_us / 1e6;
    (void)printf("{\"operations\":%" PRIu64 ",\"elapsed_us\":%" PRId64
                 ",\"per_second\":%.1f,\"refused\":%" PRIu64
                 ",\"server_us_per_operation\":%.3f,\"generator_core_share\":%.3f}\n",
                 floor->answered, elapsed_us, (double)floor->answered / seconds, floor->refused,
                 (double)server_us / (double)floor->answered, (double)own_us / 1e6 / seconds);
}

static void run(struct floor *floor, struct load *load, const struct dial *dial, pid_t pid)
{
    struct usage before = {0}, after = {0};
    load_scripts(floor, dial);
    memset(floor->body, 'x', sizeof(floor->body));
    floor->script = (struct load_script){.begin = begin, .answer = answer, .tick = tick};
    if (pid && !usage_add(pid, &before))
        die("--pid", "there is no such process");
    uint64_t own_us = usage_own_us();
    int64_t start_us = load_clock(load);
    load_run(load, &floor->script, start_us + RUN_US);
    int64_t elapsed_us = load->now_us - start_us;
    own_us = usage_own_us() - own_us;
    if (pid && !usage_add(pid, &after))
        die("--pid", "it has ended");
    if (load->failed || floor->answered == 0)
        die("load", load->failed ? load->error : "nothing was answered");
    report(floor, elapsed_us, after.cpu_us - before.cpu_us, own_us);
}

static uint64_t number_of(const char *text)
{
    uint64_t number = 0;
    if (!bytes_to_u64(bytes_str(text), &number) || number == 0 || number > 1000000000)
        die(text, "a number from 1 on was expected");
    return number;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"server", required_argument, NULL, 's'},      {"pid", required_argument, NULL, 'p'},
        {"connections", required_argument, NULL, 'c'}, {"depth", required_argument, NULL, 'd'},
        {"jobs", required_argument, NULL, 'n'},        {0},
    };
    struct floor floor = {.depth = 1, .jobs = 100000};
    struct dial dial;
    struct load load;
    const char *server = "127.0.0.1:6379";
    uint32_t connections = 64;
    pid_t pid = 0;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 's': server = optarg; break;
        case 'p': pid = (pid_t)number_of(optarg); break;
        case 'c': connections = (uint32_t)number_of(optarg); break;
        case 'd': floor.depth = (uint32_t)number_of(optarg); break;
        case 'n': floor.jobs = number_of(optarg); break;
        default: return 2;
        }
    }
    if (optind + 1 != argc)
        die("usage", "put or cycle was expected");
    floor.cycle = strcmp(argv[optind], "cycle") == 0;
    if (dial_init(&dial, server))
        die(server, dial.error);
    if (load_open(&load, &dial, scan, connections, floor.depth))
        die(server, dial.error);
    run(&floor, &load, &dial, pid);
    load_close(&load);
    return floor.refused ? 1 : 0;
}
