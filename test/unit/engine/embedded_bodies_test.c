/*
 * Jobs whose bodies the disk cannot read, and what a full disk still takes: both without a server
 * around the engine.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "delivery_ask.h"
#include "engine/embedded/parts.h"

/* ---- bodies that cannot be read ---- */

/* Jobs of a topic, in the order of their ids, of which no body is in memory. */
static void open_cold(uint64_t seed)
{
    static const char *const ids[] = {"a", "b", "c"};
    delivery_bed_open(&bed, true, seed);
    for (size_t i = 0; i < 3; i++) {
        char body[32];
        (void)snprintf(body, sizeof(body), "the body of %s", ids[i]);
        struct cmd cmd = a_push(ids[i], BYTES(""), bytes_str(body));
        cmd.push.due_us = 1000 + (int64_t)i;
        assert_int_equal(delivery_do(&bed, &cmd), OK);
    }
    delivery_restart(&bed, DELIVERY_IN_ORDER);
    delivery_settle(&bed, 20);
    sim_disk_cold(bed.disk, true);
}

/* Where the text is in the log. */
static uint64_t offset_of(const char *text, char name[32])
{
    for (unsigned number = 1; number < 20; number++) {
        uint64_t len = 0;
        (void)snprintf(name, 32, "wal-%08x", number);
        const char *at = sim_disk_file(bed.disk, name, &len);
        const char *found = at ? memmem(at, len, text, strlen(text)) : NULL;
        if (found)
            return (uint64_t)(found - at);
    }
    fail_msg("%s is not in the log", text);
    return 0;
}

static enum err reserve(uint32_t max)
{
    struct bytes topic = BYTES("t");
    struct cmd cmd = {.kind = CMD_RESERVE,
                      .reserve = {.topics = &topic, .topic_count = 1, .max = max}};
    return delivery_do(&bed, &cmd);
}

static struct job_view shown(const char *id)
{
    struct job_view view;
    assert_true(
        core_show(embedded_core(bed.embedded), &(struct job_ref){.id = bytes_str(id)}, &view));
    return view;
}

/* The others come, each with its own body; an operator sees it among the buried ones. */
static void p2_a_job_whose_body_is_damaged_is_buried_and_holds_up_nobody(void **state)
{
    static const char *const ids[] = {"a", "b", "c"};
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        const char *damaged = ids[i / 2];
        char name[32], body[32];
        open_cold(1 + i);
        sim_disk_cold(bed.disk, i % 2); /* or read in the turn itself, from the page cache */
        (void)snprintf(body, sizeof(body), "the body of %s", damaged);
        assert_true(sim_disk_flip(bed.disk, name, 8 * offset_of(body, name)));
        assert_int_equal(reserve(3), OK);
        assert_int_equal(bed.answer.count, 2);
        assert_true(bytes_eq(bed.answer.job.body,
                             i / 2 == 0 ? BYTES("the body of b") : BYTES("the body of a")));
        delivery_settle(&bed, 5);
        for (unsigned job = 0; job < 3; job++)
            assert_int_equal(shown(ids[job]).state,
                             ids[job] == damaged ? JOB_BURIED : JOB_RESERVED);
        delivery_bed_close(&bed);
    }
}

static void p2_jobs_that_turn_out_damaged_one_after_another_are_all_buried(void **state)
{
    static const char *const bodies[] = {"the body of a", "the body of b"};
    (void)state;
    char name[32];
    open_cold(7);
    for (unsigned i = 0; i < 2; i++)
        assert_true(sim_disk_flip(bed.disk, name, 8 * offset_of(bodies[i], name)));
    for (unsigned i = 0; i < 2; i++) {
        (void)reserve(1);
        assert_int_equal(bed.answer.count, 0);
        delivery_settle(&bed, 5);
        assert_int_equal(shown(i ? "b" : "a").state, JOB_BURIED);
    }
    assert_int_equal(reserve(1), OK);
    assert_true(bytes_eq(bed.answer.job.body, BYTES("the body of c")));
    delivery_bed_close(&bed);
}

/* It is tried again after a while: others go first meanwhile. No attempt is counted. */
static void a_job_whose_body_cannot_be_read_now_comes_back_later(void **state)
{
    (void)state;
    char name[32];
    open_cold(2);
    uint64_t at = offset_of("the body of a", name);
    sim_disk_bad(bed.disk, name, at, at + 1);
    (void)reserve(1);
    assert_int_equal(bed.answer.count, 0);
    delivery_settle(&bed, 5);
    struct job_view job = shown("a");
    assert_true(job.state == JOB_DELAYED || job.state == JOB_READY);
    assert_true(job.due_us > bed.loop.now_us);
    assert_int_equal(job.attempt, 0);
    sim_disk_bad(bed.disk, name, 0, 0);
    assert_int_equal(reserve(1), OK);
    assert_true(bytes_eq(bed.answer.job.body, BYTES("the body of b")));
    bed.loop.now_us += 2000000;
    assert_int_equal(reserve(2), OK);
    assert_int_equal(bed.answer.count, 2);
    assert_int_equal(shown("a").state, JOB_RESERVED);
    delivery_bed_close(&bed);
}

/* The others stay where they are, for who asks next. */
static void p8_a_reply_that_waits_while_others_hold_much_memory_has_one_job(void **state)
{
    enum { MUCH = 16 * 1024 * 1024 };
    (void)state;
    open_cold(9);
    bed.embedded->bodies.held_bytes = MUCH;
    assert_int_equal(reserve(3), OK);
    assert_int_equal(bed.answer.count, 1);
    assert_true(bytes_eq(bed.answer.job.body, BYTES("the body of a")));
    assert_int_equal(bed.embedded->bodies.held_bytes,
                     MUCH); /* without its own, which is answered */
    bed.embedded->bodies.held_bytes = 0;
    delivery_settle(&bed, 5);
    assert_int_equal(reserve(3), OK);
    assert_int_equal(bed.answer.count, 2);
    assert_true(bytes_eq(bed.answer.job.body, BYTES("the body of b")));
    delivery_bed_close(&bed);
}

/* ---- a full disk ---- */

static enum err configure(struct bytes settings)
{
    struct cmd cmd = {.kind = CMD_CONFIGURE_TOPIC,
                      .topic = {.topic = BYTES("t"), .settings = settings}};
    return delivery_do(&bed, &cmd);
}

static enum err reschedule(const char *id, bool has_body)
{
    struct cmd cmd = {.kind = CMD_RESCHEDULE,
                      .job = {.ref.id = bytes_str(id),
                              .has_body = has_body,
                              .has_due = !has_body,
                              .due_us = INT64_MAX / 2 - 1,
                              .body = BYTES("new")}};
    return delivery_do(&bed, &cmd);
}

static void p8_without_a_disk_a_new_body_takes_the_place_of_the_old_one(void **state)
{
    static char body[4000];
    size_t used = 0;
    (void)state;
    delivery_bed_open(&bed, false, 8);
    struct cmd push = a_push("a", BYTES(""), bytes_of(body, sizeof(body)));
    push.push.due_us = INT64_MAX / 2;
    assert_int_equal(delivery_do(&bed, &push), OK);
    for (unsigned i = 0; i < 300; i++) {
        struct cmd change = {
            .kind = CMD_RESCHEDULE,
            .job = {.ref.id = BYTES("a"), .has_body = true, .body = bytes_of(body, sizeof(body))}};
        assert_int_equal(delivery_do(&bed, &change), OK);
        used = i == 10 ? mem_used() : used;
    }
    assert_int_equal(mem_used(), used);
    delivery_bed_close(&bed);
}

/* What is left of it is for the ends of jobs: no settings, no new bodies, no notes of failures. */
static void p8_a_full_disk_takes_what_makes_room_alone(void **state)
{
    static char filler[4000];
    (void)state;
    delivery_bed_open(&bed, true, 3);
    sim_disk_capacity(bed.disk, 10 * DELIVERY_SEGMENT + 8192);
    assert_int_equal(configure(BYTES("one")), OK);
    struct cmd later = a_push("later", BYTES(""), BYTES("body"));
    later.push.due_us = INT64_MAX / 2;
    assert_int_equal(delivery_do(&bed, &later), OK);
    enum err err = OK;
    for (unsigned i = 0; i < 1000 && !err; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "job-%u", i);
        struct cmd push = a_push(id, BYTES(""), bytes_of(filler, sizeof(filler)));
        err = delivery_do(&bed, &push);
    }
    assert_int_equal(err, ERR_DISK_FULL);
    assert_int_equal(bed.engine->verbs->health(bed.engine), ERR_DISK_FULL);
    assert_int_equal(configure(BYTES("two")), ERR_DISK_FULL);
    assert_int_equal(reschedule("later", true), ERR_DISK_FULL);
    assert_int_equal(reschedule("later", false), OK);
    assert_int_equal(of_job(CMD_RESERVE_JOB, "job-1"), OK);
    struct cmd release = {.kind = CMD_RELEASE,
                          .job = {.ref.id = BYTES("job-1"),
                                  .lease = bed.answer.job.lease,
                                  .note = BYTES("why"),
                                  .note_code = 500}};
    assert_int_equal(delivery_do(&bed, &release), OK);
    assert_int_equal(of_job(CMD_GET, "job-1"), OK);
    assert_int_equal(bed.answer.job.failures, 1);
    for (unsigned i = 0; i < bed.answer.job.note_count; i++)
        assert_int_equal(bed.answer.notes[i].text.len, 0);
    assert_int_equal(configure(BYTES("")), OK); /* to take them away makes room */
    assert_int_equal(of_job(CMD_DELETE, "job-1"), OK);
    delivery_bed_close(&bed);
}

static int tear_down(void **state)
{
    (void)state;
    return mem_used() == 0 ? 0 : -1;
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    log_level_set((enum log_level)(LOG_ERROR + 1)); /* bodies that are damaged are no news here */
    const struct CMUnitTest tests[] = {
        TEST(p2_a_job_whose_body_is_damaged_is_buried_and_holds_up_nobody),
        TEST(p2_jobs_that_turn_out_damaged_one_after_another_are_all_buried),
        TEST(a_job_whose_body_cannot_be_read_now_comes_back_later),
        TEST(p8_a_reply_that_waits_while_others_hold_much_memory_has_one_job),
        TEST(p8_without_a_disk_a_new_body_takes_the_place_of_the_old_one),
        TEST(p8_a_full_disk_takes_what_makes_room_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
