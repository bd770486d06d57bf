/*
 * A daemon's view of the others without a Redis: heartbeats are not sent, the test writes their
 * answers, and time is what the test says.
 */
#ifndef LATERD_TEST_REDIS_MEMBERS_BED_H
#define LATERD_TEST_REDIS_MEMBERS_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/codec.h"
#include "base/mem.h"
#include "engine/redis/members.h"
#include "engine/redis/script_parts.h"

enum {
    PARTITIONS = 64,
    ALIVE_US = 5 * 1000 * 1000,
    SECOND_US = 1000 * 1000,
    REDIS_US = 20 * SECOND_US, /* by the clock of all answers it is that late */
};

static struct loop loop; /* its time and its timers alone */
static unsigned changes;

/* It is so late now: what is due is done. */
static inline void at(int64_t now_us)
{
    loop.now_us = now_us;
    while (loop_expire(&loop, NULL))
        ;
}

static inline void note_change(void *owner)
{
    (void)owner;
    changes++;
}

static bool serves_now;

static inline bool serves(void *owner)
{
    (void)owner;
    return serves_now;
}

static inline void begin_time(void)
{
    serves_now = true;
    loop = (struct loop){.now_us = 1000 * SECOND_US};
    timers_init(&loop.timers, loop.now_us);
    changes = 0;
}

static inline int end_time(void)
{
    assert_true(timers_next_us(&loop.timers) == INT64_MAX); /* all are cancelled */
    timers_fini(&loop.timers);
    return 0;
}

/* ---- a daemon whose heartbeats the test answers ---- */

static unsigned words_left;
static int64_t silent_for_us;

static inline void ignore_beat(void *owner, const struct heartbeat_answer *told)
{
    (void)owner;
    (void)told;
}

static inline void leave_word(void *owner, int64_t silent_us)
{
    (void)owner;
    words_left++;
    silent_for_us = silent_us;
}

/* The only call under way is a heartbeat: it is answered, with these records. */
static inline void answer_beat_with(struct script_requests *calls, struct bytes records)
{
    struct script_request *call =
        LIST_ENTRY(calls->partitions[0].calls.next, struct script_request, place);
    char first[SCRIPT_ANSWER_BYTES] = {0};
    put_u64(first + 24, REDIS_US);
    struct bytes parts[2] = {bytes_of(first, sizeof(first)), records};
    void *owner = call->owner;
    call->owner = NULL;
    call->done(owner, call, OK, parts, 2);
    list_remove(&call->place);
    list_remove(&call->unsent);
    buf_fini(&call->request);
    mem_free(call);
}

static inline void answer_beat(struct script_requests *calls)
{
    answer_beat_with(calls, BYTES(""));
}

struct bed {
    struct redis_url url;
    struct topology topology; /* of no nodes */
    struct script_space space;
    struct script_requests calls;
    struct members us;
};

static inline void make_bed(struct bed *bed)
{
    *bed = (struct bed){.url.topology = REDIS_SINGLE, .topology.options.url = &bed->url};
    begin_time();
    assert_int_equal(script_space_init(&bed->space, BYTES("laterd"), 1, "daemon-0"), OK);
    script_requests_init(&bed->calls,
                         &(struct script_requests_options){.space = &bed->space,
                                                           .topology = &bed->topology,
                                                           .loop = &loop,
                                                           .timeout_us = 10 * ALIVE_US});
    members_init(&bed->us, &(struct members_options){.space = &bed->space,
                                                     .calls = &bed->calls,
                                                     .loop = &loop,
                                                     .alive_us = ALIVE_US,
                                                     .serves = serves,
                                                     .missed = leave_word,
                                                     .heartbeat_answered = ignore_beat,
                                                     .changed = note_change});
    words_left = 0;
    members_start(&bed->us);
}

static inline void end_bed(struct bed *bed)
{
    members_fini(&bed->us);
    script_requests_fini(&bed->calls);
    script_space_fini(&bed->space);
    (void)end_time();
}

/* Does the heartbeat that is under way ask for all? */
static inline bool looks(const struct script_requests *calls)
{
    const struct script_request *call =
        LIST_ENTRY(calls->partitions[0].calls.next, struct script_request, place);
    return memmem(call->request.at, call->request.len, "\r\nl", 3);
}

static inline bool none_under_way(const struct script_requests *calls)
{
    return list_empty(&calls->partitions[0].calls);
}

static inline void put_record(char *record, const char *name, enum script_how how)
{
    memcpy(record, name, SCRIPT_NAME);
    record[SCRIPT_NAME] = (char)how;
    int64_t ago_us = how == SCRIPT_SILENT ? SCRIPT_FRESH_US : 0;
    put_u64(record + SCRIPT_NAME + 1, (uint64_t)(REDIS_US - ago_us));
}

/* A heartbeat a second, whose answers say nothing, until then. */
static inline void beat_until(struct bed *bed, int64_t until_us)
{
    while (loop.now_us < until_us) {
        if (!none_under_way(&bed->calls))
            answer_beat(&bed->calls);
        int64_t next_us = timers_next_us(&loop.timers);
        at(next_us < until_us ? next_us : until_us);
    }
}

/* What Redis has noted: ours, and how the other one is. */
static inline struct bytes records_of_two(enum script_how how)
{
    static char records[2 * SCRIPT_MEMBER_BYTES];
    put_record(records, "daemon-2", how);
    if (how == SCRIPT_SILENT)
        put_u64(records + SCRIPT_NAME + 1, (uint64_t)(REDIS_US - ALIVE_US));
    put_record(records + SCRIPT_MEMBER_BYTES, "daemon-0", SCRIPT_SERVES);
    return bytes_of(records, sizeof(records));
}

#endif
