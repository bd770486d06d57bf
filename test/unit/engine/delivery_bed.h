/*
 * An embedded engine on a simulated disk (or on none), one command at a time, for what push
 * delivery has it keep: properties, settings and notes. It can be killed, lose its power, and start
 * again.
 */
#ifndef LATERD_TEST_DELIVERY_BED_H
#define LATERD_TEST_DELIVERY_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "engine/embedded/embedded.h"
#include "sim/disk.h"
#include "sim/random.h"
#include "sim/valid.h"

enum { DELIVERY_SEGMENT = 64 * 1024, DELIVERY_TTR_US = 10 * 1000 * 1000 };

/* The answer that came last; its job's bytes are copies. */
struct delivery_answer {
    bool came;
    enum err err;
    uint32_t count;
    uint64_t version;
    bool more;
    struct job_view job;
    struct buf content_type, body, properties;
    struct job_note notes[JOB_NOTES_MAX];
    struct buf note_texts[JOB_NOTES_MAX];
};

struct delivery_bed {
    struct sim_disk *disk; /* NULL: without one */
    struct embedded *embedded;
    struct engine *engine;
    struct loop loop; /* its time alone */
    struct ticket ticket;
    struct sim_random random;
    struct delivery_answer answer;
    uint64_t memory_bytes;
    uint64_t recent_bytes;
    bool buffered;
};

static inline void delivery_keep(struct buf *to, struct bytes *from)
{
    to->len = 0;
    buf_add(to, from->at, from->len);
    *from = buf_bytes(to);
}

static inline void delivery_answered(struct ticket *ticket, const struct reply *reply)
{
    struct delivery_bed *bed = LIST_ENTRY(ticket, struct delivery_bed, ticket);
    struct delivery_answer *answer = &bed->answer;
    assert_false(answer->came);
    answer->came = true;
    answer->err = reply->err;
    answer->count = reply->count;
    answer->version = reply->version;
    answer->more = reply->more;
    if (!reply->jobs || !reply->count)
        return;
    answer->job = reply->jobs[0];
    delivery_keep(&answer->content_type, &answer->job.content_type);
    delivery_keep(&answer->body, &answer->job.body);
    delivery_keep(&answer->properties, &answer->job.properties);
    for (unsigned i = 0; i < answer->job.note_count; i++) {
        answer->notes[i] = answer->job.notes[i];
        delivery_keep(&answer->note_texts[i], &answer->notes[i].text);
    }
}

static inline enum err delivery_open(struct delivery_bed *bed)
{
    struct store_error error = {0};
    struct embedded_options options = {
        .limits = {.jobs = 100000, .topics = 20, .waiters = 10, .memory_bytes = bed->memory_bytes},
        .store = {.disk = bed->disk ? sim_disk_port(bed->disk) : NULL,
                  .segment_bytes = DELIVERY_SEGMENT,
                  .buffered = bed->buffered,
                  .interval_us = bed->buffered ? 100000 : 0,
                  .recent_bytes = bed->recent_bytes,
                  .body_max = 8192,
                  .now_us = bed->loop.now_us,
                  .id_seed = 1},
        .durability = bed->buffered ? DURABILITY_INTERVAL : DURABILITY_SYNC,
        .hash_key = 1,
        .now_us = bed->loop.now_us,
        .loop = &bed->loop,
    };
    bed->ticket = (struct ticket){.answered = delivery_answered};
    enum err err = embedded_open(&options, &bed->embedded, &error);
    if (!err)
        bed->engine = embedded_engine(bed->embedded);
    return err;
}

static inline void delivery_bed_open(struct delivery_bed *bed, bool on_disk, uint64_t seed)
{
    *bed = (struct delivery_bed){.loop.now_us = 1000000000, .random.state = seed};
    if (on_disk)
        bed->disk = sim_disk_new();
    assert_int_equal(delivery_open(bed), OK);
}

static inline void delivery_bed_close(struct delivery_bed *bed)
{
    embedded_close(bed->embedded);
    if (bed->disk)
        sim_disk_free(bed->disk);
    buf_fini(&bed->answer.content_type);
    buf_fini(&bed->answer.body);
    buf_fini(&bed->answer.properties);
    for (unsigned i = 0; i < JOB_NOTES_MAX; i++)
        buf_fini(&bed->answer.note_texts[i]);
}

static inline void delivery_turn(struct delivery_bed *bed)
{
    bed->loop.now_us += 1000;
    bed->engine->verbs->begin(bed->engine);
    bed->engine->verbs->match(bed->engine);
    (void)bed->engine->verbs->end(bed->engine);
    if (bed->disk && valid_now())
        store_valid(embedded_store(bed->embedded));
}

static inline void delivery_disk_step(struct delivery_bed *bed)
{
    (void)sim_disk_step(bed->disk, LANE_COMMIT);
    (void)sim_disk_step(bed->disk, LANE_BACKGROUND);
    (void)sim_disk_step(bed->disk, LANE_READ);
}

/* Submits, and lets up to so many turns pass until the answer. */
static inline bool delivery_submit(struct delivery_bed *bed, const struct cmd *cmd, unsigned turns)
{
    bed->answer.came = false;
    bed->loop.now_us += 1000;
    bed->engine->verbs->begin(bed->engine);
    (void)bed->engine->verbs->submit(bed->engine, cmd, &bed->ticket);
    bed->engine->verbs->match(bed->engine);
    (void)bed->engine->verbs->end(bed->engine);
    for (unsigned i = 0; i < turns && !bed->answer.came; i++) {
        if (bed->disk)
            delivery_disk_step(bed);
        delivery_turn(bed);
    }
    return bed->answer.came;
}

static inline enum err delivery_do(struct delivery_bed *bed, const struct cmd *cmd)
{
    assert_true(delivery_submit(bed, cmd, 10000));
    return bed->answer.err;
}

static inline void delivery_settle(struct delivery_bed *bed, unsigned turns)
{
    for (unsigned i = 0; i < turns; i++) {
        if (bed->disk)
            delivery_disk_step(bed);
        delivery_turn(bed);
    }
}

enum delivery_end { DELIVERY_IN_ORDER, DELIVERY_KILL, DELIVERY_POWER, DELIVERY_ENDS };

/* Ends the process that way, and starts the next one. */
static inline void delivery_restart(struct delivery_bed *bed, enum delivery_end how)
{
    if (how != DELIVERY_IN_ORDER) { /* in the midst of what the disk does */
        sim_disk_cut_at(bed->disk, sim_disk_points(bed->disk) + sim_random_below(&bed->random, 4));
        delivery_disk_step(bed);
        sim_disk_cut_at(bed->disk, 0);
    }
    embedded_close(bed->embedded);
    if (how == DELIVERY_KILL)
        sim_disk_kill(bed->disk);
    else if (how == DELIVERY_POWER)
        sim_disk_power(bed->disk, sim_random_next(&bed->random));
    assert_int_equal(delivery_open(bed), OK);
    core_valid(embedded_core(bed->embedded));
}

/* So many bytes of jobs come and go: segments fill up, and are cleaned. */
static inline void delivery_churn(struct delivery_bed *bed, unsigned jobs)
{
    static char filler[4000];
    for (unsigned i = 0; i < jobs; i++) {
        struct cmd push = {.kind = CMD_PUSH,
                           .push = {.id = BYTES("churn"),
                                    .topic = BYTES("churn"),
                                    .ttr_us = 1,
                                    .if_exists = IF_EXISTS_REPLACE,
                                    .body = bytes_of(filler, sizeof(filler))}};
        assert_int_equal(delivery_do(bed, &push), OK);
    }
    delivery_settle(bed, 20);
}

#endif
