/*
 * The embedded engine on a simulated disk: what its held replies cost, and disks that fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "server/embedded.h"
#include "sim/disk.h"

enum {
    SEGMENT_BYTES = 1024 * 1024,
    ROUNDS = 4000,
    UNDER_WAY = 16,
    MANY_JOBS = 25000 /* a kick searches them over several turns */
};

struct bed {
    struct sim_disk *disk;
    struct embedded *embedded;
    struct engine *engine;
    int64_t now_us;
    struct ticket tickets[UNDER_WAY];
};

static unsigned answers; /* tickets know nothing of their bed */

static void count_answer(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    assert_int_equal(reply->err, OK);
    answers++;
}

static void open_bed(struct bed *bed, enum durability durability)
{
    if (!bed->disk)
        bed->disk = sim_disk_new();
    bed->now_us = 1000000;
    struct store_trouble trouble;
    struct embedded_options options = {
        .limits = {.jobs = 1000000, .topics = 10, .waiters = 10},
        .store = {.disk = sim_disk_port(bed->disk),
                  .segment_bytes = SEGMENT_BYTES,
                  .buffered = durability != DURABILITY_SYNC,
                  .recent_bytes = SEGMENT_BYTES,
                  .body_max = 1000,
                  .now_us = bed->now_us,
                  .id_seed = 1},
        .durability = durability,
        .now_us = bed->now_us,
    };
    sim_disk_eager(bed->disk, true);
    assert_int_equal(embedded_open(&options, &bed->embedded, &trouble), OK);
    sim_disk_eager(bed->disk, false);
    bed->engine = embedded_engine(bed->embedded);
    answers = 0;
}

static void close_bed(struct bed *bed)
{
    sim_disk_eager(bed->disk, true);
    embedded_close(bed->embedded);
    sim_disk_free(bed->disk);
}

/* A push with durability sync, and at once the job's end, so that no jobs pile up. */
static void push_and_end(struct bed *bed, struct ticket *ticket)
{
    static struct ticket ending = {.answered = count_answer};
    struct cmd push = {
        .kind = CMD_PUSH,
        .push = {
            .id = BYTES("a job"), .topic = BYTES("t"), .ttr_us = 1, .durability = DURABILITY_SYNC}};
    struct cmd delete = {.kind = CMD_DELETE, .job.ref.id = BYTES("a job")};
    *ticket = (struct ticket){.answered = count_answer};
    bed->engine->verbs->submit(bed->engine, &push, ticket);
    bed->engine->verbs->submit(bed->engine, &delete, &ending);
}

/* Each turn one operation of the disk ends while a new push has come: some are always held. */
static void p8_a_steady_stream_of_synced_pushes_takes_no_more_and_more_memory(void **state)
{
    (void)state;
    struct bed bed = {0};
    size_t early_bytes = 0;
    open_bed(&bed, DURABILITY_INTERVAL);
    for (unsigned i = 0; i < ROUNDS; i++) {
        bed.now_us += 1000;
        bed.engine->verbs->time(bed.engine, bed.now_us);
        bed.engine->verbs->begin(bed.engine);
        push_and_end(&bed, &bed.tickets[i % UNDER_WAY]);
        bed.engine->verbs->match(bed.engine);
        (void)bed.engine->verbs->end(bed.engine);
        (void)sim_disk_step(bed.disk, LANE_COMMIT);
        (void)sim_disk_step(bed.disk, LANE_BACKGROUND);
        assert_true(embedded_held(bed.embedded) < UNDER_WAY);
        if (i == ROUNDS / 4)
            early_bytes = mem_used();
    }
    assert_true(answers > ROUNDS);
    assert_true(mem_used() < early_bytes + 200000);
    close_bed(&bed);
}

static struct reply last_reply;
static char last_body[16];

static void keep_answer(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    answers++;
    last_reply = *reply;
    if (reply->kind == CMD_RESERVE && reply->count)
        memcpy(last_body, reply->jobs[0].body.at, reply->jobs[0].body.len);
}

static void do_turn(struct bed *bed, const struct cmd *cmd, struct ticket *ticket)
{
    bed->now_us += 1000;
    bed->engine->verbs->time(bed->engine, bed->now_us);
    bed->engine->verbs->begin(bed->engine);
    if (cmd)
        bed->engine->verbs->submit(bed->engine, cmd, ticket);
    bed->engine->verbs->match(bed->engine);
    (void)bed->engine->verbs->end(bed->engine);
}

static void do_command(struct bed *bed, const struct cmd *cmd)
{
    struct ticket ticket = {.answered = keep_answer};
    unsigned before = answers;
    sim_disk_eager(bed->disk, true);
    do_turn(bed, cmd, &ticket);
    for (int turns = 0; turns < 20 && answers == before; turns++)
        do_turn(bed, NULL, NULL);
    assert_int_equal(answers, before + 1);
}

static void p2_a_job_is_not_buried_because_one_read_failed(void **state)
{
    (void)state;
    struct bed bed = {0};
    struct bytes topic = BYTES("t");
    struct cmd push = {
        .kind = CMD_PUSH,
        .push = {
            .id = BYTES("a job"), .topic = topic, .ttr_us = 3600000000, .body = BYTES("body")}};
    struct cmd reserve = {.kind = CMD_RESERVE,
                          .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
    open_bed(&bed, DURABILITY_SYNC);
    do_command(&bed, &push);
    assert_int_equal(last_reply.err, OK);
    embedded_close(bed.embedded); /* so that the body is on the disk only */
    open_bed(&bed, DURABILITY_SYNC);
    sim_disk_eager(bed.disk, true);
    for (int turns = 0; turns < 20; turns++)
        do_turn(&bed, NULL, NULL); /* until the disk has nothing else to do */
    sim_disk_fail_at(bed.disk, sim_disk_points(bed.disk), EIO);
    do_command(&bed, &reserve);
    assert_int_equal(last_reply.err, ERR_IO);
    bed.now_us += 2000000; /* long before its ttr would bring it back */
    sim_disk_fail_at(bed.disk, UINT64_MAX, 0);
    do_command(&bed, &reserve);
    assert_int_equal(last_reply.err, OK);
    assert_int_equal(last_reply.count, 1);
    assert_memory_equal(last_body, "body", 4);
    close_bed(&bed);
}

/* A reservation that is logged makes no haste, and no answer tells of it. */
static void what_nobody_was_promised_holds_up_no_answer(void **state)
{
    (void)state;
    struct bed bed = {0};
    struct bytes topic = BYTES("t");
    struct ticket ticket = {.answered = keep_answer};
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = topic, .ttr_us = 3600000000}};
    struct cmd reserve = {.kind = CMD_RESERVE,
                          .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
    struct cmd delete = {.kind = CMD_DELETE, .job.ref.id = BYTES("nobody")};
    open_bed(&bed, DURABILITY_SYNC);
    do_command(&bed, &push);
    do_command(&bed, &reserve);
    assert_int_equal(last_reply.err, OK);
    answers = 0;
    do_turn(&bed, &delete, &ticket);
    assert_int_equal(answers, 1);
    assert_int_equal(last_reply.err, ERR_NOT_FOUND);
    close_bed(&bed);
}

static void fill_with_delayed_jobs(struct bed *bed)
{
    static struct ticket pushing = {.answered = count_answer};
    struct cmd push = {
        .kind = CMD_PUSH,
        .push = {.topic = BYTES("t"), .due_us = INT64_MAX / 2, .ttr_us = 1},
    };
    sim_disk_eager(bed->disk, true);
    for (unsigned i = 0; i < MANY_JOBS; i++)
        bed->engine->verbs->submit(bed->engine, &push, &pushing);
    for (int turns = 0; turns < 200; turns++)
        do_turn(bed, NULL, NULL); /* until the disk has nothing else to do */
    assert_int_equal(answers, MANY_JOBS);
}

/* The search began before the failure, and what waited for the disk then has been told of it. */
static void p7_a_search_that_ends_on_a_failed_store_is_no_success(void **state)
{
    (void)state;
    struct bed bed = {0};
    struct ticket kicking = {.answered = keep_answer}, pushing = {.answered = keep_answer};
    struct cmd kick = {
        .kind = CMD_KICK_TOPIC,
        .topic = {.topic = BYTES("t"), .max = 1, .state = JOB_DELAYED},
    };
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = BYTES("t"), .ttr_us = 1}};
    open_bed(&bed, DURABILITY_SYNC);
    fill_with_delayed_jobs(&bed);
    answers = 0;
    do_turn(&bed, &kick, &kicking);
    sim_disk_fail_at(bed.disk, sim_disk_points(bed.disk), EIO);
    bed.engine->verbs->submit(bed.engine, &push, &pushing);
    for (int turns = 0; turns < 20; turns++) {
        do_turn(&bed, NULL, NULL);
        if (answers > 0)
            assert_int_equal(last_reply.err, ERR_STORE_FAILED);
    }
    assert_int_equal(answers, 2);
    assert_int_equal(embedded_held(bed.embedded), 0);
    close_bed(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_was_promised_holds_up_no_answer),
        cmocka_unit_test(p7_a_search_that_ends_on_a_failed_store_is_no_success),
        cmocka_unit_test(p2_a_job_is_not_buried_because_one_read_failed),
        cmocka_unit_test(p8_a_steady_stream_of_synced_pushes_takes_no_more_and_more_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
