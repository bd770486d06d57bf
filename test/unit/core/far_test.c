/* Far jobs: what is refused, what a restart finds, and moves of jobs whose records lie in slices.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/far_hash.h"
#include "base/mem.h"
#include "core/core_internal.h"
#include "core/far_image.h"
#include "core/replay.h"
#include "far_bed.h"
#include "far_ends.h"

static uint64_t delayed(void)
{
    struct core_totals totals;
    core_totals(bed.core, &totals);
    return totals.jobs[JOB_DELAYED];
}

/* Two ids of which the index keeps the same bits, with the test's key: found by trying. */
static const char far_id[] = "id-597663", twin_id[] = "id-919607";

static bool delete_far(const struct event *event, struct cmd_job job, int64_t now_us)
{
    struct cmd cmd = {.kind = CMD_DELETE, .job = job};
    bed.reply = (struct reply){.err = ERR_INVALID};
    return core_delete_far(bed.core, now_us, &cmd, event, &bed);
}

/* The clock was set back: this one has been due. */
static int64_t was_later(void *ctx, uint64_t where)
{
    (void)ctx;
    return where == slice.where ? START + SECOND : INT64_MIN;
}

/* A delete needs no job in memory: it ends where it is, with the same event and counts. */
static void a_far_job_is_deleted_where_it_is(void **state)
{
    (void)state;
    uint64_t places[FAR_CANDIDATES_MAX];
    struct core_totals totals;
    assert_int_equal(push(far_id, START + SECOND), OK);
    struct event event = depart(1, far_id), other = event;
    struct cmd_job by_id = {.ref = {.id = bytes_str(far_id)}};
    struct cmd finish = {.kind = CMD_FINISH, .job = by_id};
    unsigned before = emitted;
    other.record.where += 8;
    assert_false(delete_far(&other, by_id, START)); /* it is not there */
    assert_false(core_delete_far(bed.core, START, &finish, &event, &bed));
    assert_false(delete_far(&event, by_id, START + SECOND)); /* it is due */
    struct cmd_job leased = by_id;
    leased.lease = 7;
    assert_false(delete_far(&event, leased, START));
    core_use_far_due(bed.core, was_later, NULL);
    assert_false(delete_far(&event, by_id, START)); /* it is ready */
    core_use_far_due(bed.core, NULL, NULL);
    assert_int_equal(emitted, before);
    assert_int_equal(delayed(), 1);
    assert_true(delete_far(&event, by_id, START));
    assert_int_equal(bed.reply.err, OK);
    assert_int_equal(bed.first.ref.seq, 1);
    assert_int_equal(emitted, before + 1);
    assert_true(last.kind == EVENT_GONE && last.end == END_DELETED && last.job.seq == 1);
    assert_true(last.record.where == slice.where && last.record.bytes == slice.bytes);
    core_totals(bed.core, &totals);
    assert_int_equal(totals.deleted, 1);
    assert_int_equal(delayed(), 0);
    assert_int_equal(core_far_count(bed.core, BYTES("t"), JOB_DELAYED), 0);
    assert_int_equal(core_far_find(bed.core, &by_id.ref, places), 0);
    assert_false(delete_far(&event, by_id, START));
    core_valid(bed.core);
}

/* A buried one is not: its place among the buried jobs is more than a count. */
static void a_far_job_that_is_buried_is_not_deleted_where_it_is(void **state)
{
    (void)state;
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.id = bytes_str(far_id),
                               .topic = BYTES("t"),
                               .due_us = START + SECOND,
                               .ttr_us = TTR,
                               .buried = true}};
    (void)core_apply(bed.core, START, &cmd, &bed);
    struct event event = record_of(1, far_id), out;
    event.job.state = JOB_BURIED;
    assert_true(core_spill(bed.core, &event, 1, START, &out));
    assert_true(core_depart(bed.core, 1, slice));
    assert_false(delete_far(&event, (struct cmd_job){.ref.seq = 1}, START));
    assert_true(core_is_far(bed.core, 1, slice.where));
    assert_true(core_arrive(bed.core, &event));
    assert_int_equal(ask(CMD_DELETE, 1), OK);
}

/* What a command asks first: a job in memory is not looked for in a slice, wherever it is looked
   for first, though the index may have a place for its name. */
static void a_name_in_memory_is_not_looked_for_among_far_jobs(void **state)
{
    (void)state;
    uint64_t places[FAR_CANDIDATES_MAX];
    struct job_ref far = {.id = bytes_str(far_id)}, twin = {.id = bytes_str(twin_id)};
    assert_int_equal(core_far_only(bed.core, &far, true, places), 0); /* nothing is far */
    assert_int_equal(push(far_id, START + SECOND), OK);
    (void)depart(1, far_id);
    assert_int_equal(core_far_find(bed.core, &twin, places), 1);
    for (int is_new = 0; is_new < 2; is_new++) {
        assert_int_equal(core_far_only(bed.core, &far, is_new, places), 1);
        assert_true(places[0] == slice.where);
        assert_int_equal(core_far_only(bed.core, &twin, is_new, places), 1);
        assert_int_equal(core_far_only(bed.core, &(struct job_ref){.seq = 1}, is_new, places), 1);
    }
    assert_int_equal(push(twin_id, START + SECOND), OK);
    for (int is_new = 0; is_new < 2; is_new++) {
        assert_int_equal(core_far_only(bed.core, &twin, is_new, places), 0);
        assert_int_equal(core_far_only(bed.core, &far, is_new, places), 1);
    }
}

static void a_far_job_takes_its_index_entries_alone_and_counts_as_delayed(void **state)
{
    (void)state;
    uint64_t places[FAR_CANDIDATES_MAX];
    assert_int_equal(push("a-long-id-that-does-not-fit-into-the-job", START + SECOND), OK);
    unsigned before = emitted;
    struct event event = depart(1, "a-long-id-that-does-not-fit-into-the-job");
    assert_int_equal(emitted, before); /* no event tells of it */
    assert_int_equal(delayed(), 1);
    assert_int_equal(core_far_count(bed.core, BYTES("t"), JOB_DELAYED), 1);
    assert_int_equal(core_far_count(bed.core, BYTES("u"), JOB_DELAYED), 0);
    assert_int_equal(ask(CMD_GET, 1), ERR_NOT_FOUND); /* until it is brought back */
    assert_int_equal(core_far_find(bed.core, &(struct job_ref){.seq = 1}, places), 1);
    assert_true(places[0] == slice.where);
    assert_int_equal(core_far_find(bed.core, &(struct job_ref){.id = event.id}, places), 1);
    assert_true(core_has(bed.core, 1, BYTES("")));
    assert_true(core_has(bed.core, 7, event.id));
    assert_false(core_has(bed.core, 7, BYTES("x")));
    core_valid(bed.core);
    assert_true(core_arrive(bed.core, &event));
    assert_int_equal(ask(CMD_GET, 1), OK);
    assert_true(bytes_eq(bed.first.topic, BYTES("t")));
    assert_int_equal(delayed(), 1);
    assert_true(core_depart(bed.core, 1, slice)); /* as it was */
    assert_true(core_arrive(bed.core, &event));
    assert_false(core_arrive(bed.core, &event)); /* somebody else wants it here: it stays */
    assert_false(core_depart(bed.core, 1, slice));
}

static void p8_far_jobs_count_against_the_limit_of_jobs(void **state)
{
    (void)state;
    assert_int_equal(push("a", START + SECOND), OK);
    (void)depart(1, "a");
    assert_int_equal(push("b", START), OK);
    assert_int_equal(push("c", START), OK);
    assert_int_equal(push("d", START), ERR_JOBS_LIMIT);
}

/* All that is left of them in memory, with ids of 20 bytes. */
static void take_at_most_24_bytes(bool buried)
{
    enum { MANY = 300000 };
    static struct core_bed large;
    char id[21];
    core_bed_open(&large, (struct core_limits){.jobs = MANY, .topics = 1, .waiters = 1}, START);
    core_use_far_key(large.core, KEY);
    size_t before_bytes = mem_used();
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(id, sizeof(id), "an-id-of-order-%05x", i);
        struct cmd_push push = {.id = bytes_str(id),
                                .topic = BYTES("t"),
                                .due_us = buried ? START : START + SECOND,
                                .ttr_us = TTR,
                                .buried = buried};
        (void)core_apply(large.core, START, &(struct cmd){.kind = CMD_PUSH, .push = push}, &large);
        struct event event = record_of(large.first.ref.seq, id), out;
        assert_true(core_spill(large.core, &event, 1, START, &out));
        struct stored place = {.where = UINT64_C(9) << 32 | i, .bytes = 50};
        assert_true(core_depart(large.core, large.first.ref.seq, place));
    }
    while (core_tick(large.core, START, 1000))
        ;
    enum job_state state = buried ? JOB_BURIED : JOB_DELAYED;
    assert_int_equal(core_far_count(large.core, BYTES("t"), state), MANY);
    assert_in_range((mem_used() - before_bytes) / MANY, 15, 24);
    core_bed_close(&large);
}

static void p8_a_far_job_takes_at_most_24_bytes(void **state)
{
    (void)state;
    take_at_most_24_bytes(false);
}

/* Ten million dead letters. */
static void p8_a_far_buried_job_takes_at_most_24_bytes(void **state)
{
    (void)state;
    take_at_most_24_bytes(true);
}

/* Those who were pushed one after the other become far one after the other: meanwhile few shards of
 * the index are in use, though of many of them each has its share. */
static void numbers_of_one_group_share_a_shard(void **state)
{
    (void)state;
    enum { GROUP = 256, GROUPS = 64, MANY = GROUP * GROUPS };
    static struct core_bed large;
    core_bed_open(&large, (struct core_limits){.jobs = MANY, .topics = 1, .waiters = 1}, START);
    for (uint64_t seq = 1; seq <= MANY; seq++) {
        struct cmd_push push = {.topic = BYTES("t"), .due_us = START + SECOND, .ttr_us = TTR};
        (void)core_apply(large.core, START, &(struct cmd){.kind = CMD_PUSH, .push = push}, &large);
        struct event event = record_of(seq, ""), out;
        assert_true(core_spill(large.core, &event, 1, START, &out));
        struct stored place = {.where = UINT64_C(9) << 32 | seq, .bytes = 50};
        assert_true(core_depart(large.core, seq, place));
    }
    unsigned used = 0;
    for (unsigned i = 0; i < 4096; i++) {
        uint32_t count = large.core->far.places.shards[i].count;
        used += count > 0;
        assert_true(count <= GROUP);
    }
    assert_int_equal(used, GROUPS + 1); /* numbers begin with 1, not with a group */
    core_bed_close(&large);
}

/* What is far is looked for in no list: who goes through them has them arrive first. */
static void buried_jobs_that_are_far_are_found_by_nobody_until_they_arrive(void **state)
{
    (void)state;
    struct cmd_push push = {.topic = BYTES("t"), .due_us = START, .ttr_us = TTR, .buried = true};
    struct cmd on_t = {.kind = CMD_PEEK,
                       .topic = {.topic = BYTES("t"), .state = JOB_BURIED, .max = 5}};
    (void)core_apply(bed.core, START, &(struct cmd){.kind = CMD_PUSH, .push = push}, &bed);
    (void)core_apply(bed.core, START, &(struct cmd){.kind = CMD_PUSH, .push = push}, &bed);
    struct event first = record_of(1, ""), out;
    assert_true(core_spill(bed.core, &first, 1, START, &out));
    assert_int_equal(out.job.state, JOB_BURIED);
    assert_true(core_depart(bed.core, 1, slice));
    (void)core_apply(bed.core, START, &on_t, &bed);
    assert_int_equal(bed.first.ref.seq, 2);
    assert_int_equal(ask(CMD_DELETE, 2), OK);
    (void)core_apply(bed.core, START, &on_t, &bed);
    assert_int_equal(bed.reply.err, ERR_NOT_FOUND);
    on_t.kind = CMD_KICK_TOPIC;
    (void)core_apply(bed.core, START, &on_t, &bed);
    assert_true(bed.reply.count == 0 && bed.reply.more);
    struct event arrives = out;
    arrives.record = slice;
    assert_true(core_arrive(bed.core, &arrives));
    (void)core_apply(bed.core, START, &on_t, &bed);
    assert_true(bed.reply.count == 1 && !bed.reply.more);
}

static void a_topic_with_far_jobs_alone_is_not_forgotten(void **state)
{
    (void)state;
    assert_int_equal(push("a", START + SECOND), OK);
    (void)depart(1, "a");
    for (int i = 0; i < 5; i++) {
        char name[] = {(char)('u' + i), 0};
        struct cmd_push push = {.topic = bytes_str(name), .due_us = START, .ttr_us = TTR};
        (void)core_apply(bed.core, START, &(struct cmd){.kind = CMD_PUSH, .push = push}, &bed);
        assert_int_equal(bed.reply.err, OK);
        assert_int_equal(ask(CMD_DELETE, bed.first.ref.seq), OK);
    }
    assert_int_equal(core_far_count(bed.core, BYTES("t"), JOB_DELAYED), 1);
}

static void who_has_changed_or_has_a_note_or_is_due_does_not_depart(void **state)
{
    (void)state;
    struct event event = record_of(1, "a"), out;
    assert_int_equal(push("a", START + SECOND), OK);
    assert_false(core_spill(bed.core, &event, 2, START, &out));          /* not its record */
    assert_false(core_spill(bed.core, &event, 1, START + SECOND, &out)); /* it is due by then */
    assert_false(core_depart(bed.core, 1, slice));                       /* nobody has asked */
    assert_true(core_spill(bed.core, &event, 1, START, &out));
    assert_false(core_depart(bed.core, 1, (struct stored){.where = FAR_OFFSET_END}));
    assert_true(core_relocate(bed.core, &event, 1));
    assert_false(core_depart(bed.core, 1, slice)); /* it has another record */
    assert_true(core_spill(bed.core, &event, 1, START, &out));
    assert_int_equal(ask(CMD_RUN, 1), OK);
    assert_false(core_depart(bed.core, 1, slice));
    assert_int_equal(ask(CMD_RESERVE_JOB, 1), OK);
    struct cmd release = {
        .kind = CMD_RELEASE,
        .job = {
            .ref.seq = 1, .has_delay = true, .due_us = START + SECOND, .note = BYTES("it failed")}};
    (void)core_apply(bed.core, START, &release, &bed);
    assert_int_equal(bed.first.state, JOB_DELAYED);
    assert_false(core_spill(bed.core, &event, 1, START, &out));
    assert_int_equal(ask(CMD_DELETE, 1), OK);
}

/* It was visited, written to the log meanwhile, and is about to leave that again. */
static void who_has_another_record_does_not_go_back_to_the_old_one(void **state)
{
    (void)state;
    assert_int_equal(push("a", START + SECOND), OK);
    struct event event = depart(1, "a"), out;
    assert_true(core_arrive(bed.core, &event));
    assert_true(core_return(bed.core, 1, slice)); /* as it was */
    assert_true(core_arrive(bed.core, &event));
    assert_true(core_relocate(bed.core, &event, slice.where));
    struct event again = record_of(1, "a");
    assert_true(core_spill(bed.core, &again, 1, START, &out)); /* where the sink has put it */
    assert_false(core_return(bed.core, 1, slice));
    assert_int_equal(ask(CMD_GET, 1), OK);
    assert_true(core_depart(bed.core, 1, (struct stored){.where = slice.where + 8}));
}

static struct far_job far_of(const struct event *event)
{
    return (struct far_job){.seq = event->job.seq,
                            .id_hash = far_hash_id(KEY, event->id),
                            .where = event->record.where,
                            .topic = event->topic,
                            .state = event->job.state};
}

static void a_restart_knows_far_jobs_from_those_that_came_back(void **state)
{
    (void)state;
    struct event log = record_of(1, "a"), loaded = record_of(2, "b"), gone = record_of(3, "c");
    log.record.where = 77;
    loaded.record.where++;
    gone.record.where += 2;
    assert_int_equal(core_replay(bed.core, &log), OK);
    assert_int_equal(core_replay(bed.core, &loaded), OK);
    struct event in_slice = record_of(1, "a");
    struct far_job one = far_of(&in_slice), two = far_of(&loaded), three = far_of(&gone);
    struct far_job all[] = {one, two, three}; /* of the first the log's record is an older one */
    core_far_begin(bed.core, 3, NULL);
    assert_int_equal(core_replay_far(bed.core, all, 3), OK);
    struct far_job bad = three;
    bad.seq = 0;
    assert_int_equal(core_replay_far(bed.core, &bad, 1), ERR_CORRUPT);
    bad = three;
    bad.seq = 9;
    bad.where |= FAR_OFFSET_END;
    assert_int_equal(core_replay_far(bed.core, &bad, 1), ERR_CORRUPT);
    bad = three;
    bad.seq = 9;
    bad.topic.len = 0;
    assert_int_equal(core_replay_far(bed.core, &bad, 1), ERR_CORRUPT);
    assert_int_equal(end_far(bed.core), OK);
    core_replayed(bed.core, START);
    core_valid(bed.core);
    assert_int_equal(delayed(), 3);
    assert_true(core_is_far(bed.core, 1, slice.where));
    assert_false(core_is_far(bed.core, 2, loaded.record.where));
    assert_int_equal(ask(CMD_GET, 2), OK);
    assert_int_equal(push("d", START), ERR_JOBS_LIMIT);
    assert_int_equal(ask(CMD_DELETE, 2), OK);
    assert_int_equal(delayed(), 2);
    assert_int_equal(push("d", START), OK);
    assert_true(bed.first.ref.seq > 3); /* their numbers are not given again */
    assert_true(core_arrive(bed.core, &in_slice));
}

static bool is_not_in_77(void *ctx, uint64_t where)
{
    uint32_t *asked = ctx;
    ++*asked;
    return where >> 32 != 77;
}

/* Those whose records cannot be of far jobs as well are not looked for, the others are. */
static void a_restart_looks_for_those_that_may_be_far_alone(void **state)
{
    (void)state;
    uint32_t asked = 0;
    struct far_places places = {.may_be_twice = is_not_in_77, .ctx = &asked};
    struct event near = record_of(1, "a"), log = record_of(2, "b"), loaded = record_of(3, "c");
    near.record.where = UINT64_C(77) << 32;
    log.record.where = UINT64_C(78) << 32;
    loaded.record.where += 2;
    assert_int_equal(core_replay(bed.core, &near), OK);
    assert_int_equal(core_replay(bed.core, &log), OK);
    assert_int_equal(core_replay(bed.core, &loaded), OK);
    struct event in_slice = record_of(2, "b");
    struct far_job far[] = {far_of(&in_slice), far_of(&loaded)};
    core_far_begin(bed.core, 2, &places);
    assert_true(asked >= 3 && asked <= 4);
    assert_int_equal(core_replay_far(bed.core, far, 2), OK);
    assert_int_equal(end_far(bed.core), OK);
    core_replayed(bed.core, START);
    core_valid(bed.core);
    assert_int_equal(delayed(), 3);
    assert_true(core_is_far(bed.core, 2, slice.where));
    assert_false(core_is_far(bed.core, 3, loaded.record.where));
    assert_int_equal(ask(CMD_GET, 1), OK);
    assert_int_equal(ask(CMD_GET, 3), OK);
}

static void a_far_job_that_is_told_of_twice_is_noticed(void **state)
{
    (void)state;
    struct event event = record_of(1, "a");
    struct far_job job = far_of(&event), twice[] = {job, job};
    struct core_bed opening; /* that fails: its core is not asked for anything more */
    core_bed_open(&opening, limits, START);
    core_far_begin(opening.core, 2, NULL);
    assert_int_equal(core_replay_far(opening.core, twice, 2), OK);
    assert_int_equal(end_far(opening.core), ERR_CORRUPT);
    core_free(opening.core);
}

static void an_opening_that_fails_among_far_jobs_keeps_nothing(void **state)
{
    (void)state;
    struct event event = record_of(1, "a");
    struct far_job job = far_of(&event);
    struct core_bed opening;
    core_bed_open(&opening, limits, START);
    core_far_begin(opening.core, 100000, NULL);
    assert_int_equal(core_replay_far(opening.core, &job, 1), OK);
    core_free(opening.core); /* the teardown looks whether memory is left */
}

static enum job_state state_at(void *ctx, uint64_t where)
{
    (void)ctx;
    return where >> 32 == slice.where >> 32 ? JOB_DELAYED : JOB_GONE;
}

static const struct far_places places = {.state_at = state_at};

/* Of three jobs the first is far, the second came back, and the third never left. */
static void make_image(struct buf parts[static CORE_FAR_IMAGE_PARTS], struct event *out_second,
                       struct event *out_third)
{
    assert_int_equal(push("a", START + SECOND), OK);
    assert_int_equal(push("b", START + SECOND), OK);
    assert_int_equal(push("c", START + SECOND), OK);
    struct stored other = {.where = slice.where + 16, .bytes = 50};
    struct event event = record_of(1, "a"), out;
    assert_true(core_spill(bed.core, &event, 1, START, &out));
    assert_true(core_depart(bed.core, 1, slice));
    event = record_of(2, "b");
    assert_true(core_spill(bed.core, &event, 1, START, &out));
    assert_true(core_depart(bed.core, 2, other));
    *out_second = record_of(2, "b");
    out_second->record = other;
    assert_true(core_arrive(bed.core, out_second));
    *out_third = record_of(3, "c");
    out_third->record = (struct stored){.where = 1, .bytes = 50};
    for (uint32_t part = 0; part < CORE_FAR_IMAGE_PARTS; part++)
        assert_true(core_far_image(bed.core, &places, part, &parts[part]));
    core_valid(bed.core); /* nothing has changed */
    assert_true(core_is_far(bed.core, 1, slice.where));
    assert_false(core_is_far(bed.core, 2, other.where));
}

static enum err take_image(struct core *core, const struct buf *parts)
{
    enum err err = OK;
    for (uint32_t part = 0; part < CORE_FAR_IMAGE_PARTS && !err; part++)
        err = core_far_image_take(core, &places, part, buf_bytes(&parts[part]));
    return err;
}

static void an_image_is_as_good_as_telling_of_each_job(void **state)
{
    (void)state;
    struct buf parts[CORE_FAR_IMAGE_PARTS] = {0};
    struct event second, third;
    make_image(parts, &second, &third);
    for (int moved = 0; moved < 2; moved++) { /* by the log the second one is in memory */
        struct core_bed next;
        struct core_totals totals;
        core_bed_open(&next, limits, START);
        core_use_far_key(next.core, KEY);
        if (moved)
            assert_int_equal(core_replay(next.core, &second), OK);
        assert_int_equal(core_replay(next.core, &third), OK);
        assert_int_equal(take_image(next.core, parts), OK);
        core_replayed(next.core, START);
        core_valid(next.core);
        core_totals(next.core, &totals);
        assert_int_equal(totals.jobs[JOB_DELAYED], 3);
        assert_int_equal(totals.far, moved ? 1 : 2);
        assert_int_equal(totals.seq_next, 4);
        assert_true(core_is_far(next.core, 1, slice.where));
        assert_int_equal(core_is_far(next.core, 2, second.record.where), !moved);
        assert_int_equal(core_arrive(next.core, &second), !moved);
        core_bed_close(&next);
    }
    for (uint32_t part = 0; part < CORE_FAR_IMAGE_PARTS; part++)
        buf_fini(&parts[part]);
}

/* The log still has what the first job was before it left, and of the second the newest record. */
static void older_records_of_jobs_in_an_image_are_dropped(void **state)
{
    (void)state;
    struct buf parts[CORE_FAR_IMAGE_PARTS] = {0};
    struct event first = record_of(1, "a"), second, third;
    make_image(parts, &second, &third);
    first.record.where = 1;
    struct far_job left[] = {far_of(&first), far_of(&second), far_of(&third)};
    left[0].where = slice.where;
    struct core_bed next;
    struct core_totals totals;
    core_bed_open(&next, limits, START);
    core_use_far_key(next.core, KEY);
    assert_int_equal(core_replay(next.core, &first), OK);
    assert_int_equal(core_replay(next.core, &second), OK);
    assert_int_equal(core_replay(next.core, &third), OK);
    core_drop_older(next.core, left, 3);
    core_drop_older(next.core, left, 3); /* an image may be refused behind it */
    assert_false(core_holds(next.core, &(struct job_ref){.seq = 1}));
    assert_true(core_holds(next.core, &(struct job_ref){.seq = 2}));
    assert_true(core_holds(next.core, &(struct job_ref){.seq = 3}));
    assert_int_equal(take_image(next.core, parts), OK);
    core_replayed(next.core, START);
    core_valid(next.core);
    core_totals(next.core, &totals);
    assert_int_equal(totals.jobs[JOB_DELAYED], 3);
    assert_int_equal(totals.far, 1);
    assert_true(core_is_far(next.core, 1, slice.where));
    core_bed_close(&next);
    for (uint32_t part = 0; part < CORE_FAR_IMAGE_PARTS; part++)
        buf_fini(&parts[part]);
}

static void p8_no_image_is_made_above_the_limit_of_memory(void **state)
{
    (void)state;
    struct core_limits few = limits;
    struct core_bed full;
    struct buf image = {0};
    few.memory_bytes = 1;
    core_bed_open(&full, few, START);
    assert_false(core_far_image(full.core, &places, 0, &image));
    core_bed_close(&full);
    buf_fini(&image);
}

static void of_an_image_that_is_refused_nothing_is_left(void **state)
{
    (void)state;
    struct buf parts[CORE_FAR_IMAGE_PARTS] = {0};
    struct event second, third;
    make_image(parts, &second, &third);
    struct buf *counts = &parts[FAR_IMAGE_PARTS + 1];
    unsigned refused = 0;
    for (size_t byte = 0; byte < counts->len; byte++) {
        struct core_bed next;
        struct far_job job = {.seq = 1, .where = slice.where, .topic = BYTES("t")};
        core_bed_open(&next, limits, START);
        assert_int_equal(core_replay(next.core, &third), OK);
        job.state = JOB_DELAYED;
        counts->at[byte] ^= 1;
        if (take_image(next.core, parts)) {
            refused++;
            core_far_begin(next.core, 1, NULL);
            assert_int_equal(core_replay_far(next.core, &job, 1), OK);
            assert_int_equal(end_far(next.core), OK);
            assert_true(core_is_far(next.core, 1, slice.where));
        }
        core_replayed(next.core, START);
        core_bed_close(&next);
        counts->at[byte] ^= 1;
    }
    assert_true(refused > counts->len / 2);
    for (uint32_t part = 0; part < CORE_FAR_IMAGE_PARTS; part++)
        buf_fini(&parts[part]);
}

static void what_a_store_reads_wrongly_does_not_arrive(void **state)
{
    (void)state;
    assert_int_equal(push("a", START + SECOND), OK);
    struct event good = depart(1, "a"), bad = good;
    bad.kind = EVENT_MOVE;
    assert_false(core_arrive(bed.core, &bad));
    bad = good;
    bad.job.state = JOB_RESERVED;
    assert_false(core_arrive(bed.core, &bad));
    bad = good;
    bad.topic = BYTES("u");
    assert_false(core_arrive(bed.core, &bad));
    bad = good;
    bad.id = BYTES("b");
    assert_false(core_arrive(bed.core, &bad));
    bad = good;
    bad.job.seq = 2;
    assert_false(core_arrive(bed.core, &bad));
    bad = good;
    bad.ttr_us = 0;
    assert_false(core_arrive(bed.core, &bad));
    bad = good;
    bad.record.where++;
    assert_false(core_arrive(bed.core, &bad));
    assert_true(core_arrive(bed.core, &good));
}

/* The record of a job that has come back stays in its slice: its last move must stay in the log. */
static void the_last_move_of_a_job_whose_record_is_in_a_slice_is_emitted_again(void **state)
{
    (void)state;
    struct event run = run_returned_job();
    assert_int_equal(run.kind, EVENT_MOVE);
    assert_true(run.record.where == slice.where);
    assert_int_equal(ask(CMD_RESERVE_JOB, 1), OK);
    struct event reserved = last;
    unsigned before = emitted;
    assert_false(core_relocate(bed.core, &reserved, 1)); /* its record is elsewhere */
    assert_int_equal(emitted, before);
    assert_true(core_relocate(bed.core, &run, slice.where)); /* whichever: it is as it is now */
    assert_int_equal(emitted, before + 1);
    assert_true(last.kind == EVENT_MOVE && last.job.lease == reserved.job.lease);
    assert_int_equal(ask(CMD_FINISH, 1), OK);
    assert_true(last.kind == EVENT_GONE && last.record.where == slice.where);
    assert_false(core_relocate(bed.core, &reserved, slice.where));
}

/* Of a connection's lease the log knows nothing: what it knows must stay in it. */
static void the_move_before_a_connections_lease_is_emitted_again(void **state)
{
    (void)state;
    struct event run = run_returned_job();
    struct cmd cmd = {.kind = CMD_RESERVE_JOB, .job = {.ref.seq = 1, .bound = true}};
    (void)core_apply(bed.core, START, &cmd, &bed);
    assert_int_equal(bed.reply.err, OK);
    assert_true(core_relocate(bed.core, &run, slice.where));
    assert_int_equal(last.job.state, JOB_READY);
}

static bool is_at(void *ctx, uint64_t where)
{
    return where == *(uint64_t *)ctx;
}

/* Events of them that cannot be read: all jobs are gone through, some at a time. */
static void changes_that_cannot_be_read_are_emitted_again(void **state)
{
    (void)state;
    uint64_t where = slice.where;
    uint32_t cursor = 0;
    unsigned slices = 1;
    assert_int_equal(push("a", START + SECOND), OK);
    struct event event = depart(1, "a");
    assert_int_equal(push("b", START + SECOND), OK);
    assert_true(core_arrive(bed.core, &event));
    emitted = 0;
    while (core_relocate_moves(bed.core, is_at, &where, &cursor, 1))
        slices++;
    assert_true(slices > 2);
    assert_int_equal(emitted, 1);
    assert_int_equal(last.kind, EVENT_MOVE);
    assert_int_equal(last.job.seq, event.job.seq);
    assert_int_equal(last.job.due_us, START + SECOND);
    assert_int_equal(last.record.where, where); /* the record lives on */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_far_job_is_deleted_where_it_is),
        TEST(a_far_job_that_is_buried_is_not_deleted_where_it_is),
        TEST(a_name_in_memory_is_not_looked_for_among_far_jobs),
        TEST(a_far_job_takes_its_index_entries_alone_and_counts_as_delayed),
        TEST(p8_far_jobs_count_against_the_limit_of_jobs),
        TEST(p8_a_far_job_takes_at_most_24_bytes),
        TEST(p8_a_far_buried_job_takes_at_most_24_bytes),
        TEST(numbers_of_one_group_share_a_shard),
        TEST(buried_jobs_that_are_far_are_found_by_nobody_until_they_arrive),
        TEST(a_topic_with_far_jobs_alone_is_not_forgotten),
        TEST(who_has_another_record_does_not_go_back_to_the_old_one),
        TEST(who_has_changed_or_has_a_note_or_is_due_does_not_depart),
        TEST(a_restart_knows_far_jobs_from_those_that_came_back),
        TEST(a_restart_looks_for_those_that_may_be_far_alone),
        TEST(a_far_job_that_is_told_of_twice_is_noticed),
        TEST(an_opening_that_fails_among_far_jobs_keeps_nothing),
        TEST(an_image_is_as_good_as_telling_of_each_job),
        TEST(older_records_of_jobs_in_an_image_are_dropped),
        TEST(p8_no_image_is_made_above_the_limit_of_memory),
        TEST(of_an_image_that_is_refused_nothing_is_left),
        TEST(what_a_store_reads_wrongly_does_not_arrive),
        TEST(the_last_move_of_a_job_whose_record_is_in_a_slice_is_emitted_again),
        TEST(the_move_before_a_connections_lease_is_emitted_again),
        TEST(changes_that_cannot_be_read_are_emitted_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
