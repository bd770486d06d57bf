/*
 * An embedded engine with a horizon on a simulated disk, whose jobs, of the topics t and u, are all
 * far ones, and what its tests ask of it.
 */
#ifndef LATERD_TEST_EMBEDDED_FAR_BED_H
#define LATERD_TEST_EMBEDDED_FAR_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/cursor.h"
#include "base/list.h"
#include "base/mem.h"
#include "engine/embedded/embedded.h"
#include "sim/disk.h"
#include "sim/valid.h"

enum {
    SEGMENT_BYTES = 256 * 1024,
    JOBS = 300,
    NUMBERS_MAX = 4 * JOBS, /* of all jobs that a test may push */
    TURNS_MAX = 20000,
    LISTERS = 3,
    LISTED = 10,
};

#define SECOND_US  INT64_C(1000000)
#define HOUR_US    (3600 * SECOND_US)
#define START_US   (1000000 * SECOND_US)
#define HORIZON_US (HOUR_US / 2)

/* What an answer said; its bytes are copies. */
struct answer {
    bool there;
    struct reply reply;
    struct job_view job; /* the first */
    char body[64], properties[64], id[64];
    uint64_t seqs[JOBS];
    char cursor[CURSOR_BYTES];
    int64_t retry_us[2]; /* the first of its waits */
    int64_t next_due_us;
    uint64_t delayed;
    uint64_t due[DUE_TIMES_MAX];
};

/* A client that lists a topic again and again. */
struct lister {
    struct ticket ticket;
    bool asks;
    unsigned answers;
};

struct far_bed {
    struct lister listers[LISTERS];
    bool lists;
    void (*beside)(void); /* what others submit in each turn; or NULL */
    struct sim_disk *disk;
    struct embedded *embedded;
    struct engine *engine;
    struct loop loop;      /* its time alone */
    uint64_t memory_bytes; /* the limit; 0: none */
    bool no_horizon, keeps_history;
    bool buries;           /* all jobs are pushed as buried ones; … */
    uint64_t buried_stay;  /* … so many of them stay in memory */
    bool readies;          /* all jobs are pushed as ready ones, of few priorities, or … */
    bool falls_due;        /* … as delayed ones with such priorities; … */
    uint64_t ready_stay;   /* … so many of them stay in memory */
    uint64_t put_off_stay; /* as in store_options::put_off_in_memory */
    size_t batch_full;     /* the same; 0: its default */
    struct answer answer;
};

static struct far_bed bed;

/* ---- asking ---- */

static inline void copy(char *room, struct bytes from)
{
    assert_true(from.len < 64);
    if (from.len)
        memcpy(room, from.at, from.len);
    room[from.len] = 0;
}

static inline void receive(struct ticket *ticket, const struct reply *reply)
{
    struct answer *answer = &bed.answer;
    (void)ticket;
    assert_false(answer->there);
    *answer = (struct answer){.there = true, .reply = *reply};
    for (uint32_t i = 0; reply->jobs && i < reply->count; i++)
        answer->seqs[i] = reply->jobs[i].ref.seq;
    if (reply->jobs && reply->count) {
        answer->job = reply->jobs[0];
        copy(answer->id, reply->jobs[0].ref.id);
        for (unsigned i = 0; i < reply->jobs[0].retry_count && i < 2; i++)
            answer->retry_us[i] = reply->jobs[0].retry_us[i];
        if (cmd_traits(reply->kind)->shows_bodies) {
            copy(answer->body, reply->jobs[0].body);
            copy(answer->properties, reply->jobs[0].properties);
        }
    }
    if (reply->topics) {
        answer->next_due_us = reply->topics->next_due_us;
        answer->delayed = reply->topics->jobs[JOB_DELAYED];
    }
    if (reply->due)
        memcpy(answer->due, reply->due, reply->count * sizeof(*reply->due));
    if (reply->cursor.len)
        memcpy(answer->cursor, reply->cursor.at, reply->cursor.len);
    answer->reply.cursor.at = answer->cursor;
}

static inline void hear_list(struct ticket *ticket, const struct reply *reply)
{
    struct lister *lister = LIST_ENTRY(ticket, struct lister, ticket);
    assert_int_equal(reply->err, OK);
    assert_int_equal(reply->count, LISTED);
    assert_true(reply->jobs[0].due_us == START_US + 2 * HOUR_US + 7 * SECOND_US); /* the first */
    lister->asks = false;
    lister->answers++;
}

static inline void list_again(struct lister *lister)
{
    struct cmd list = {.kind = CMD_LIST,
                       .topic = {.topic = BYTES("t"), .state = JOB_DELAYED, .max = LISTED}};
    lister->ticket = (struct ticket){.answered = hear_list};
    lister->asks = true;
    (void)bed.engine->verbs->submit(bed.engine, &list, &lister->ticket);
}

static inline void turn(const struct cmd *cmd, struct ticket *ticket)
{
    bed.engine->verbs->begin(bed.engine);
    for (unsigned i = 0; bed.lists && i < LISTERS; i++)
        if (!bed.listers[i].asks)
            list_again(&bed.listers[i]);
    if (bed.beside)
        bed.beside();
    if (cmd)
        (void)bed.engine->verbs->submit(bed.engine, cmd, ticket);
    bed.engine->verbs->match(bed.engine);
    (void)bed.engine->verbs->end(bed.engine);
    (void)sim_disk_step(bed.disk, LANE_COMMIT);
    (void)sim_disk_step(bed.disk, LANE_BACKGROUND);
    (void)sim_disk_step(bed.disk, LANE_READ);
    bed.loop.now_us += 10;
}

static inline enum err ask(const struct cmd *cmd)
{
    struct ticket ticket = {.answered = receive};
    bed.answer.there = false;
    turn(cmd, &ticket);
    for (int i = 0; !bed.answer.there; i++) {
        assert_true(i < TURNS_MAX);
        turn(NULL, NULL);
    }
    if (valid_now())
        core_valid(embedded_core(bed.embedded));
    return bed.answer.reply.err;
}

static inline void rest(int turns)
{
    for (int i = 0; i < turns; i++)
        turn(NULL, NULL);
}

static inline struct bytes id_of(unsigned number, char room[32])
{
    (void)snprintf(room, 32, "%s-%03u", number % 2 ? "a-long-id-of-a-client" : "job", number);
    return bytes_str(room);
}

static inline enum err ask_job(enum cmd_kind kind, unsigned number)
{
    char id[32];
    return ask(&(struct cmd){.kind = kind, .job = {.ref.id = id_of(number, id)}});
}

static inline int64_t due_of(unsigned number)
{
    return START_US + (2 + number % 7 * 24) * HOUR_US + number * SECOND_US;
}

static inline enum err push(unsigned number, int64_t due_us, enum if_exists if_exists)
{
    static const int64_t waits_us[] = {5, 7};
    char id[32], body[40];
    (void)snprintf(body, sizeof(body), "body of %u", number);
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.id = id_of(number, id),
                               .topic = number % 3 ? BYTES("t") : BYTES("u"),
                               .due_us = bed.readies ? due_us - 1000 * HOUR_US : due_us,
                               .ttr_us = 60 * SECOND_US,
                               .priority = bed.readies || bed.falls_due ? number % 4 : number,
                               .buried = bed.buries,
                               .if_exists = if_exists,
                               .body = bytes_str(body),
                               .properties = number % 5 ? BYTES("") : BYTES("target"),
                               .retry_us = waits_us,
                               .retry_count = number % 4 ? 0 : 2}};
    return ask(&cmd);
}

/* ---- the bed ---- */

static inline void open_engine(void)
{
    struct store_error error;
    struct embedded_options options = {
        .limits = {.jobs = 1000000,
                   .topics = 10,
                   .waiters = 100,
                   .memory_bytes = bed.memory_bytes,
                   .ready_in_memory = bed.ready_stay,
                   .buried_in_memory = bed.buried_stay},
        .store = {.disk = sim_disk_port(bed.disk),
                  .segment_bytes = SEGMENT_BYTES,
                  .horizon_us = bed.no_horizon ? 0 : HORIZON_US,
                  .checkpoint_bytes = 1,
                  .image_jobs = 1,
                  .put_off_in_memory = bed.put_off_stay,
                  .batch_full = bed.batch_full,
                  .history_us = bed.keeps_history ? 24 * HOUR_US : 0,
                  .recent_bytes = SEGMENT_BYTES,
                  .body_max = 100000,
                  .now_us = bed.loop.now_us,
                  .id_seed = 1},
        .durability = DURABILITY_SYNC,
        .now_us = bed.loop.now_us,
        .loop = &bed.loop,
    };
    sim_disk_eager(bed.disk, true);
    assert_int_equal(embedded_open(&options, &bed.embedded, &error), OK);
    sim_disk_eager(bed.disk, false);
    bed.engine = embedded_engine(bed.embedded);
}

static inline struct core_totals totals(void)
{
    struct core_totals now;
    core_totals(embedded_core(bed.embedded), &now);
    return now;
}

/* The log grows until the cleaner has come by all that is in it. */
static inline void grow_log(void)
{
    static char body[60000];
    for (int i = 0; i < 30; i++) {
        struct cmd filler = {.kind = CMD_PUSH,
                             .push = {.id = BYTES("filler"),
                                      .topic = BYTES("f"),
                                      .due_us = bed.loop.now_us,
                                      .ttr_us = SECOND_US,
                                      .body = bytes_of(body, sizeof(body))}};
        assert_int_equal(ask(&filler), OK);
        assert_int_equal(ask(&(struct cmd){.kind = CMD_DELETE, .job.ref.id = BYTES("filler")}), OK);
        rest(50);
    }
}

/* Jobs have been pushed, and the log has been cleaned of them. */
static inline void fill(bool cold)
{
    bed.disk = sim_disk_new();
    sim_disk_cold(bed.disk, cold); /* the disk's threads read whatever is not in the process */
    bed.loop.now_us = START_US;
    open_engine();
    for (unsigned number = 0; number < JOBS; number++)
        assert_int_equal(push(number, due_of(number), IF_EXISTS_REJECT), OK);
    grow_log();
}

static inline int set_up(bool cold)
{
    fill(cold);
    assert_int_equal(totals().far, JOBS);
    assert_int_equal(totals().jobs[JOB_DELAYED], JOBS);
    return 0;
}

static inline int setup_cold(void **state)
{
    (void)state;
    memset(&bed, 0, sizeof(bed));
    return set_up(true);
}

/* What is read is in the page cache, mostly: commands on far jobs are done at once. */
static inline int setup_warm(void **state)
{
    (void)state;
    memset(&bed, 0, sizeof(bed));
    return set_up(false);
}

static inline int teardown(void **state)
{
    (void)state;
    core_valid(embedded_core(bed.embedded));
    sim_disk_eager(bed.disk, true);
    embedded_close(bed.embedded);
    sim_disk_free(bed.disk);
    return mem_used() == 0 ? 0 : -1;
}

static inline void restart(void)
{
    sim_disk_eager(bed.disk, true);
    embedded_close(bed.embedded);
    open_engine();
    core_valid(embedded_core(bed.embedded));
}

#define COLD(name) cmocka_unit_test_setup_teardown(name, setup_cold, teardown)
#define WARM(name) cmocka_unit_test_setup_teardown(name, setup_warm, teardown)
#define TEST(name) COLD(name), WARM(name)

/* ---- commands on the topic t ---- */

static inline struct cmd on_t(enum cmd_kind kind, enum job_state state, uint32_t max)
{
    return (struct cmd){.kind = kind, .topic = {.topic = BYTES("t"), .state = state, .max = max}};
}

/* All pages of those in this state: each job once, in order of due time, or backwards. */
static inline unsigned list_in_order(enum job_state state, uint32_t max, bool backwards)
{
    bool seen[NUMBERS_MAX] = {0};
    struct cmd cmd = on_t(CMD_LIST, state, max);
    int64_t last_us = backwards ? INT64_MAX : INT64_MIN;
    unsigned shown = 0;
    cmd.topic.backwards = backwards;
    for (int page = 0; page < 2 * JOBS; page++) {
        assert_int_equal(ask(&cmd), OK);
        assert_true(bed.answer.reply.count <= max);
        for (uint32_t i = 0; i < bed.answer.reply.count; i++) {
            assert_true(bed.answer.seqs[i] < NUMBERS_MAX);
            assert_false(seen[bed.answer.seqs[i]]);
            seen[bed.answer.seqs[i]] = true;
        }
        if (bed.answer.reply.count) {
            int64_t due_us = bed.answer.job.due_us;
            assert_int_equal(bed.answer.job.state, state);
            assert_true(backwards ? due_us <= last_us : due_us >= last_us);
            last_us = due_us;
        }
        shown += bed.answer.reply.count;
        if (bed.answer.reply.cursor.len == 0)
            return shown;
        static char cursor[CURSOR_BYTES];
        memcpy(cursor, bed.answer.cursor, CURSOR_BYTES);
        cmd.topic.cursor = bytes_of(cursor, CURSOR_BYTES);
    }
    fail_msg("the listing does not end");
    return 0;
}

/* With small pages, and with one. */
static inline void lists_have(enum job_state state, unsigned count)
{
    static const uint32_t sizes[] = {1, 17, 2 * JOBS};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        assert_int_equal(list_in_order(state, sizes[i], false), count);
        assert_int_equal(list_in_order(state, sizes[i], true), count);
    }
}

/* Deletes all that are in this state, some at a time; returns how many there were. */
static inline unsigned clear_t(enum job_state state)
{
    struct cmd clear = on_t(CMD_CLEAR_TOPIC, state, 60);
    unsigned cleared = 0;
    do {
        assert_int_equal(ask(&clear), OK);
        assert_true(bed.answer.reply.count > 0 && bed.answer.reply.count <= 60);
        cleared += bed.answer.reply.count;
    } while (bed.answer.reply.more);
    return cleared;
}

/* ---- damage ---- */

static inline void damage_slice(void *ctx, const char *name)
{
    (void)ctx;
    if (strncmp(name, "slice-", 6) != 0)
        return;
    for (uint64_t byte = 4096; sim_disk_flip(bed.disk, name, byte * 8); byte += 64)
        continue;
}

/* No record in a slice can be read any more. */
static inline void damage_slices(void)
{
    struct disk *disk = sim_disk_port(bed.disk);
    assert_int_equal(disk->verbs->list(disk, damage_slice, NULL), OK);
}

#endif
