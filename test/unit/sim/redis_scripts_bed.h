/*
 * The scripts on a simulated Redis, one call after another, without an engine: what tests of them
 * share.
 */
#ifndef LATERD_TEST_REDIS_SCRIPTS_BED_H
#define LATERD_TEST_REDIS_SCRIPTS_BED_H

#include <stdio.h>

#include "../engine/redis_scripted.h"
#include "engine/redis/notice_codec.h"
#include "sim/redis/lua_run.h"
#include "sim/redis/server.h"

enum {
    DAEMONS = 3,
    PARTS_MAX = 4096,
    SECOND_US = 1000000,
    /* Of any call, in words and parts. Redis takes 0.2 to 0.5 us for one: 2 ms at most. */
    WORK_MAX = 4000,
};

static const int64_t EPOCH_US = INT64_C(1700000000) * SECOND_US;

static struct sim_redis *redis;
static struct sim_redis_conn *conn, *listener;
static struct script_space spaces[DAEMONS];
static struct buf request;
static struct bytes parts[PARTS_MAX]; /* of the last answer */
static uint32_t part_count;
static uint64_t number, most_work;
static int64_t now_us;

/* ---- asking ---- */

static inline struct bytes take_part(struct bytes *in)
{
    uint64_t len = take_count(in, '$');
    struct bytes part = bytes_of(in->at, len);
    *in = bytes_of(in->at + len + 2, in->len - len - 2);
    return part;
}

/* A job that comes in two parts, as one: the first is moved up to the second. */
static inline struct bytes job_of(struct bytes front, struct bytes rest)
{
    size_t len = front.len - 3; /* without what says so */
    char *at = (char *)(uintptr_t)rest.at - len;
    memmove(at, front.at + 3, len);
    return bytes_of(at, len + rest.len);
}

/* Sends `request`; the answer's parts are good until the next one. */
static inline struct script_answer ask(uint32_t partition)
{
    struct buf *out = sim_redis_output(conn);
    struct script_answer answer;
    out->len = 0;
    sim_redis_time(redis, now_us);
    sim_redis_input(conn, buf_bytes(&request));
    request.len = 0;
    struct bytes in = buf_bytes(out);
    assert_true(in.len > 0);
    if (in.at[0] == '-')
        fail_msg("%.*s", (int)in.len, in.at);
    uint32_t left = in.at[0] == '$' ? 1 : (uint32_t)take_count(&in, '*');
    assert_in_range(left, 1, PARTS_MAX);
    for (part_count = 0; left > 0; left--) {
        parts[part_count] = take_part(&in);
        if (part_count > 0 && left > 2 && bytes_starts(parts[part_count], bytes_of("r\0\0", 3))) {
            parts[part_count] = job_of(parts[part_count], take_part(&in));
            left--;
        }
        part_count++;
    }
    struct script_parts said = {.partition = partition, .at = parts, .count = part_count};
    assert_int_equal(script_read_answer(&spaces[0], &said, &answer), OK);
    if (sim_lua_work() > most_work)
        most_work = sim_lua_work();
    return answer;
}

/* The request is sent as to a node that its slot is being moved to. True: it is refused, as a
 * bucket of jobs may not have arrived there yet. */
static inline bool is_missing_while_importing(void)
{
    struct buf *out = sim_redis_output(conn);
    script_mark_importing(request.at, request.len, true);
    out->len = 0;
    sim_redis_input(conn, buf_bytes(&request));
    request.len = 0;
    struct bytes said = buf_bytes(out);
    return memmem(said.at, said.len, "LATERDMISSING", 13);
}

static inline struct script_call next_call(void)
{
    number++;
    return (struct script_call){
        .place = (uint32_t)(number % 256), .number = number, .now_us = now_us};
}

/* Puts back some of what can be made again of partition 0 from its jobs and settings; `from`: where
 * to go on, "0" at first. False: that was all. */
static inline bool rebuild_as(unsigned daemon, enum script_rebuild what, struct buf *from)
{
    struct script_call call = next_call();
    script_encode_rebuild(&request, &spaces[daemon], &call, buf_bytes(from), what);
    bool more = ask(0).more;
    from->len = 0;
    buf_add_bytes(from, parts[1]);
    return more;
}

static inline bool rebuild_some(struct buf *from)
{
    return rebuild_as(0, REBUILD_ALL, from);
}

static inline void rebuild_all(void)
{
    struct buf from = {0};
    buf_add_str(&from, "0");
    while (rebuild_some(&from)) {
    }
    buf_fini(&from);
}

static inline struct script_answer open_as(unsigned daemon, uint32_t places)
{
    struct script_call call = next_call();
    script_encode_open(&request, &spaces[daemon], &call, places, 0);
    return ask(0);
}

static inline struct script_answer push(const char *topic, int64_t due_us)
{
    struct script_call call = next_call();
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.topic = bytes_str(topic),
                               .due_us = due_us,
                               .ttr_us = SECOND_US,
                               .body = BYTES("body")}};
    script_encode(&request, &spaces[0], &call, &cmd);
    return ask(0);
}

static inline struct script_answer reserve_marking(unsigned daemon, const char *topic, uint32_t max,
                                                   bool bound, enum script_mark mark)
{
    struct bytes name = bytes_str(topic);
    struct script_call call = next_call();
    struct cmd_reserve cmd = {.topics = &name, .topic_count = 1, .max = max, .bound = bound};
    script_encode_reserve(&request, &spaces[daemon], &call, &cmd,
                          &(struct script_share){.max = max, .mark = mark});
    return ask(0);
}

static inline struct script_answer reserve_as(unsigned daemon, const char *topic, uint32_t max,
                                              bool bound, bool wait)
{
    return reserve_marking(daemon, topic, max, bound, wait ? SCRIPT_MARK_WAIT : SCRIPT_NO_MARK);
}

static inline struct script_answer reserve(unsigned daemon, const char *topic, uint32_t max,
                                           bool bound)
{
    return reserve_as(daemon, topic, max, bound, false);
}

/* A command as a client of Redis sends it; its answer, if that is a number. */
static inline uint64_t redis_says(const char *const *words)
{
    struct buf *out = sim_redis_output(conn);
    uint32_t count = 0;
    while (words[count])
        count++;
    request.len = 0;
    buf_addf(&request, "*%u\r\n", count);
    for (uint32_t i = 0; i < count; i++)
        script_add(&request, bytes_str(words[i]));
    out->len = 0;
    sim_redis_input(conn, buf_bytes(&request));
    request.len = 0;
    struct bytes in = buf_bytes(out);
    return in.len && in.at[0] == ':' ? take_count(&in, ':') : 0;
}

#define REDIS(...) redis_says((const char *const[]){__VA_ARGS__, NULL})

/* The number that was given last. */
static inline void give_last(int64_t last)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)last);
    (void)REDIS("EVAL",
                "local at = redis.call('HGET', KEYS[1], 'p')\n"
                "redis.call('HSET', KEYS[1], 'p',\n"
                "    struct.pack('<I8', tonumber(ARGV[1])) .. string.sub(at, 9))\n",
                "1", "{laterd:0}:h", text);
}

static inline uint64_t fields(void)
{
    return REDIS("HLEN", "{laterd:0}:h");
}

/* How many notices have come that say `words`, since the last time. */
static inline unsigned heard_by(struct sim_redis_conn *who, const char *words)
{
    struct buf *out = sim_redis_output(who);
    struct bytes in = buf_bytes(out);
    size_t len = strlen(words);
    const char *at;
    unsigned count = 0;
    for (; (at = memmem(in.at, in.len, words, len)); count++)
        in = bytes_of(at + len, in.len - (size_t)(at - in.at) - len);
    out->len = 0;
    return count;
}

static inline unsigned notices(const char *words)
{
    return heard_by(listener, words);
}

/* A connection that hears what is told to the daemon alone. */
static inline struct sim_redis_conn *listen_as(unsigned daemon)
{
    char room[SCRIPT_CHANNEL_MAX];
    struct sim_redis_conn *who = sim_redis_accept(redis);
    struct buf words = {0};
    buf_addf(&words, "*2\r\n$10\r\nSSUBSCRIBE\r\n");
    script_add(&words, notice_channel(&spaces[daemon], 0, NOTICE_TO_US, room));
    sim_redis_input(who, buf_bytes(&words));
    buf_fini(&words);
    sim_redis_output(who)->len = 0;
    return who;
}

static inline void load_scripts(void)
{
    for (enum script_kind kind = 0; kind < SCRIPT_COUNT; kind++) {
        buf_addf(&request, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n");
        script_add(&request, script_text(&spaces[0], kind));
    }
    sim_redis_input(conn, buf_bytes(&request));
    request.len = 0;
}

static inline int start(void **state)
{
    (void)state;
    now_us = EPOCH_US;
    number = most_work = 0;
    redis = sim_redis_new(&(struct sim_redis_options){.host = "10.0.0.1", .port = 7000}, now_us);
    conn = sim_redis_accept(redis);
    listener = sim_redis_accept(redis);
    sim_redis_input(listener, BYTES("*2\r\n$10\r\nSSUBSCRIBE\r\n$17\r\n{laterd:0}:notice\r\n"));
    for (unsigned i = 0; i < DAEMONS; i++) {
        char name[9] = "daemon-0";
        name[7] = (char)('1' + i);
        if (script_space_init(&spaces[i], BYTES("laterd"), 1, name))
            return -1;
    }
    load_scripts();
    assert_int_equal(open_as(0, 256).err, OK);
    return 0;
}

static inline int stop(void **state)
{
    (void)state;
    for (unsigned i = 0; i < DAEMONS; i++)
        script_space_fini(&spaces[i]);
    buf_fini(&request);
    sim_redis_free(redis);
    return 0;
}

#endif
