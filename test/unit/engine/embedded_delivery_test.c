/*
 * What the embedded engine keeps for push delivery, over whatever happens to it.
 */
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "delivery_ask.h"
#include "store/stats.h"

static void push(const char *id, struct bytes properties, struct bytes body)
{
    struct cmd cmd = a_push(id, properties, body);
    assert_int_equal(delivery_do(&bed, &cmd), OK);
}

static enum err reserve(int64_t ttr_us, int64_t wait_us)
{
    struct bytes topic = BYTES("t");
    struct cmd cmd = {
        .kind = CMD_RESERVE,
        .reserve = {
            .topics = &topic, .topic_count = 1, .max = 1, .ttr_us = ttr_us, .wait_us = wait_us}};
    return delivery_do(&bed, &cmd);
}

static void expect_shown(struct bytes properties, struct bytes body)
{
    assert_true(bytes_eq(bed.answer.job.content_type, BYTES("text/plain")));
    assert_true(bytes_eq(bed.answer.job.body, body));
    assert_true(bytes_eq(bed.answer.job.properties, properties));
}

/* ---- properties ---- */

/* By GET, PEEK, RESERVE and RESERVE_JOB. */
static void expect_everywhere(const char *id, struct bytes properties, struct bytes body)
{
    struct cmd peek = {.kind = CMD_PEEK, .topic = {.topic = BYTES("t"), .state = JOB_READY}};
    assert_int_equal(of_job(CMD_GET, id), OK);
    expect_shown(properties, body);
    assert_int_equal(delivery_do(&bed, &peek), OK);
    expect_shown(properties, body);
    assert_int_equal(reserve(0, 0), OK);
    expect_shown(properties, body);
    assert_int_equal(of_job(CMD_RELEASE, id), OK);
    assert_int_equal(of_job(CMD_RESERVE_JOB, id), OK);
    expect_shown(properties, body);
    assert_int_equal(of_job(CMD_RELEASE, id), OK);
}

static void properties_come_with_the_body_wherever_it_is_shown(void **state)
{
    (void)state;
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        delivery_bed_open(&bed, on_disk, 1);
        push("j", BYTES("target"), BYTES("body"));
        expect_everywhere("j", BYTES("target"), BYTES("body"));
        push("j", BYTES("another target"), BYTES("")); /* the new job's */
        expect_everywhere("j", BYTES("another target"), BYTES(""));
        push("j", BYTES(""), BYTES("body"));
        expect_everywhere("j", BYTES(""), BYTES("body"));
        delivery_bed_close(&bed);
    }
}

static void p8_properties_above_their_limit_are_refused(void **state)
{
    (void)state;
    static char text[JOB_PROPERTIES_MAX + 1];
    delivery_bed_open(&bed, true, 1);
    struct cmd cmd = a_push("j", bytes_of(text, sizeof(text)), BYTES("body"));
    assert_int_equal(delivery_do(&bed, &cmd), ERR_INVALID);
    push("j", bytes_of(text, JOB_PROPERTIES_MAX), BYTES("body"));
    expect_everywhere("j", bytes_of(text, JOB_PROPERTIES_MAX), BYTES("body"));
    delivery_bed_close(&bed);
}

static void p2_properties_outlive_restarts_and_relocation(void **state)
{
    (void)state;
    delivery_bed_open(&bed, true, 2);
    push("j", BYTES("target"), BYTES("body"));
    for (int how = DELIVERY_IN_ORDER; how < DELIVERY_ENDS; how++) {
        uint64_t where;
        assert_int_equal(of_job(CMD_GET, "j"), OK);
        where = bed.answer.job.where;
        delivery_churn(&bed, 120); /* several times what the log may hold of dead records */
        assert_int_equal(of_job(CMD_GET, "j"), OK);
        assert_true(bed.answer.job.where != where); /* it has moved */
        delivery_restart(&bed, how);
        sim_disk_cold(bed.disk, how == DELIVERY_KILL); /* the disk's threads read it */
        expect_everywhere("j", BYTES("target"), BYTES("body"));
    }
    delivery_bed_close(&bed);
}

static enum err reschedule(const char *id, struct bytes body)
{
    struct cmd cmd = {.kind = CMD_RESCHEDULE,
                      .job = {.ref.id = bytes_str(id),
                              .has_body = true,
                              .content_type = BYTES("text/plain"),
                              .body = body}};
    return delivery_do(&bed, &cmd);
}

static void push_delayed(const char *id, struct bytes properties, struct bytes body)
{
    struct cmd cmd = a_push(id, properties, body);
    cmd.push.due_us = INT64_MAX / 2;
    assert_int_equal(delivery_do(&bed, &cmd), OK);
}

static void a_new_body_keeps_the_properties(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) { /* in memory; on disk, at hand; on disk, to be read */
        delivery_bed_open(&bed, kind > 0, 3);
        push_delayed("j", BYTES("target"), BYTES("body"));
        push_delayed("bare", BYTES(""), BYTES("body"));
        if (kind > 0)
            delivery_restart(&bed, DELIVERY_KILL);
        if (kind == 2)
            sim_disk_cold(bed.disk, true);
        assert_int_equal(reschedule("j", BYTES("another body")), OK);
        assert_int_equal(reschedule("bare", BYTES("another body")), OK);
        assert_int_equal(of_job(CMD_GET, "j"), OK);
        expect_shown(BYTES("target"), BYTES("another body"));
        if (kind > 0)
            delivery_restart(&bed, DELIVERY_POWER);
        assert_int_equal(of_job(CMD_GET, "j"), OK);
        expect_shown(BYTES("target"), BYTES("another body"));
        assert_int_equal(of_job(CMD_GET, "bare"), OK);
        expect_shown(BYTES(""), BYTES("another body"));
        delivery_bed_close(&bed);
    }
}

/* A new body that lies in memory of its own is not copied in the turn: while it waits for the
   properties, and when it is written. */
static void a_large_new_body_is_taken_over(void **state)
{
    enum { LARGE_BYTES = 300 * 1024 };
    (void)state;
    for (int kind = 0; kind < 3; kind++) { /* at hand; to be read; and its client goes meanwhile */
        struct buf body = {0}, expected = {0};
        for (unsigned i = 0; i < LARGE_BYTES; i++)
            buf_add_char(&expected, (char)('a' + i % 23));
        buf_add_bytes(&body, buf_bytes(&expected));
        struct cmd change = {.kind = CMD_RESCHEDULE,
                             .job = {.ref.id = BYTES("j"),
                                     .has_body = true,
                                     .content_type = BYTES("text/plain"),
                                     .body = buf_bytes(&body),
                                     .memory = &body}};
        delivery_bed_open(&bed, true, 4);
        push_delayed("j", BYTES("target"), BYTES("body"));
        delivery_restart(&bed, DELIVERY_KILL);
        sim_disk_cold(bed.disk, kind > 0);
        assert_false(delivery_submit(&bed, &change, 0));
        assert_null(body.at);
        if (kind == 2)
            bed.engine->verbs->cancel(bed.engine, &bed.ticket);
        delivery_settle(&bed, 20);
        assert_int_equal(bed.answer.came, kind < 2);
        assert_int_equal(of_job(CMD_GET, "j"), OK);
        expect_shown(BYTES("target"), buf_bytes(&expected)); /* in any case */
        buf_fini(&expected);
        delivery_bed_close(&bed);
    }
}

/* While the properties are being read the job is replaced, deleted, or its client goes. */
static void a_new_body_that_waits_meets_what_has_happened_meanwhile(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct cmd change = {.kind = CMD_RESCHEDULE,
                             .job = {.ref.id = BYTES("j"), .has_body = true, .body = BYTES("new")}};
        struct cmd end = {.kind = CMD_DELETE, .job.ref.id = BYTES("j")};
        struct cmd again = a_push("j", BYTES("second"), BYTES("body"));
        again.push.due_us = INT64_MAX / 2;
        delivery_bed_open(&bed, true, 4);
        push_delayed("j", BYTES("first"), BYTES("body"));
        delivery_restart(&bed, DELIVERY_KILL);
        sim_disk_cold(bed.disk, true);
        assert_false(delivery_submit(&bed, &change, 0));
        assert_int_equal(embedded_waiting_replies(bed.embedded), 1);
        if (kind == 2)
            bed.engine->verbs->cancel(bed.engine, &bed.ticket);
        else
            (void)bed.engine->verbs->submit(bed.engine, kind ? &again : &end, NULL);
        delivery_settle(&bed, 20);
        assert_int_equal(embedded_waiting_replies(bed.embedded), 0);
        assert_int_equal(bed.answer.came, kind < 2);
        assert_int_equal(bed.answer.err, kind == 0 ? ERR_NOT_FOUND : OK);
        assert_int_equal(of_job(CMD_GET, "j"), kind == 0 ? ERR_NOT_FOUND : OK);
        if (kind > 0) {
            assert_true(bytes_eq(bed.answer.job.body, BYTES("new")));
            assert_true(
                bytes_eq(bed.answer.job.properties, kind == 1 ? BYTES("second") : BYTES("first")));
        }
        delivery_bed_close(&bed);
    }
}

/* With no budget left one is written in a turn, and the next turn comes at once. */
static void p8_new_bodies_whose_properties_came_are_written_one_a_turn(void **state)
{
    (void)state;
    enum { JOBS = 3 };
    static const char *const ids[JOBS] = {"i", "j", "k"};
    struct budget budget = {.left_ns = BUDGET_UNLIMITED};
    delivery_bed_open(&bed, true, 6);
    for (int i = 0; i < JOBS; i++)
        push_delayed(ids[i], BYTES("target"), BYTES("body"));
    delivery_restart(&bed, DELIVERY_KILL);
    delivery_settle(&bed, 20);
    sim_disk_cold(bed.disk, true);
    bed.engine->verbs->use_budget(bed.engine, &budget);
    bed.engine->verbs->begin(bed.engine);
    for (int i = 0; i < JOBS; i++) {
        struct cmd change = {
            .kind = CMD_RESCHEDULE,
            .job = {.ref.id = bytes_str(ids[i]), .has_body = true, .body = BYTES("new")}};
        (void)bed.engine->verbs->submit(bed.engine, &change, NULL);
    }
    (void)bed.engine->verbs->end(bed.engine);
    assert_int_equal(embedded_waiting_replies(bed.embedded), JOBS);
    while (sim_disk_step(bed.disk, LANE_READ))
        continue;
    budget.left_ns = 0;
    for (unsigned left = JOBS - 1; left > 0; left--) {
        bed.engine->verbs->begin(bed.engine);
        assert_int_equal(embedded_waiting_replies(bed.embedded), left);
        assert_int_equal(bed.engine->verbs->end(bed.engine), bed.loop.now_us);
    }
    bed.engine->verbs->use_budget(bed.engine, NULL);
    delivery_settle(&bed, 20);
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(of_job(CMD_GET, ids[i]), OK);
        assert_true(bytes_eq(bed.answer.job.body, BYTES("new")));
        assert_true(bytes_eq(bed.answer.job.properties, BYTES("target")));
    }
    delivery_bed_close(&bed);
}

static void p7_a_new_body_that_waits_when_the_engine_ends_has_failed(void **state)
{
    (void)state;
    struct cmd change = {.kind = CMD_RESCHEDULE, .job = {.ref.id = BYTES("j"), .has_body = true}};
    delivery_bed_open(&bed, true, 5);
    push_delayed("j", BYTES("first"), BYTES("body"));
    delivery_restart(&bed, DELIVERY_IN_ORDER);
    sim_disk_cold(bed.disk, true);
    assert_false(delivery_submit(&bed, &change, 0));
    delivery_restart(&bed, DELIVERY_IN_ORDER);
    assert_true(bed.answer.came);
    assert_int_equal(bed.answer.err, ERR_STORE_FAILED);
    delivery_bed_close(&bed);
}

/* ---- settings ---- */

static void expect_settings(unsigned topic, const char *text)
{
    assert_true(bytes_eq(bytes_of(told.text[topic], told.len[topic]), bytes_str(text)));
}

static enum err configure(const char *topic, struct bytes settings, int64_t if_version)
{
    struct cmd cmd = {.kind = CMD_CONFIGURE_TOPIC,
                      .topic = {.topic = bytes_str(topic),
                                .settings = settings,
                                .if_version = if_version >= 0,
                                .version = (uint64_t)if_version}};
    return delivery_do(&bed, &cmd);
}

static void settings_have_a_version_that_can_be_asked_for(void **state)
{
    (void)state;
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        delivery_bed_open(&bed, on_disk, 8);
        observe();
        assert_int_equal(configure("t1", BYTES("one"), -1), OK);
        uint64_t first = bed.answer.version;
        assert_true(first > 0 && first == told.version[1]);
        expect_settings(1, "one");
        assert_int_equal(configure("t2", BYTES("two"), 0), OK);
        assert_true(bed.answer.version > first); /* over all topics */
        assert_int_equal(configure("t1", BYTES("x"), 0), ERR_VERSION);
        assert_int_equal(bed.answer.version, first);
        assert_int_equal(configure("t1", BYTES("x"), (int64_t)first + 1), ERR_VERSION);
        assert_int_equal(configure("t1", BYTES("three"), (int64_t)first), OK);
        assert_int_equal(configure("t3", BYTES("x"), 5), ERR_VERSION);
        assert_int_equal(bed.answer.version, 0);
        uint64_t third = told.version[1];
        assert_int_equal(configure("t1", BYTES(""), (int64_t)third), OK);
        assert_int_equal(bed.answer.version, 0); /* it has none now … */
        assert_true(told.version[1] > third);    /* … and that is a change */
        expect_settings(1, "");
        unsigned calls = told.calls;
        assert_int_equal(configure("t1", BYTES(""), 0), OK);
        assert_int_equal(told.calls, calls); /* nothing has changed */
        assert_int_equal(configure("t1", BYTES("four"), 0), OK);
        delivery_bed_close(&bed);
    }
}

static void p8_settings_have_limits(void **state)
{
    (void)state;
    static char text[TOPIC_SETTINGS_MAX + 1];
    delivery_bed_open(&bed, true, 9);
    memset(text, 's', sizeof(text));
    size_t before = mem_used();
    assert_int_equal(configure("t1", bytes_of(text, sizeof(text)), -1), ERR_INVALID);
    assert_int_equal(configure("t1", bytes_of(text, TOPIC_SETTINGS_MAX), -1), OK);
    assert_true(mem_used() >= before + TOPIC_SETTINGS_MAX);
    assert_int_equal(configure("", BYTES("x"), -1), ERR_INVALID);
    delivery_bed_close(&bed);
    bed = (struct delivery_bed){.memory_bytes = 1, .loop.now_us = 1000000000};
    assert_int_equal(delivery_open(&bed), OK); /* no room, and to unset is allowed */
    assert_int_equal(configure("t1", BYTES("x"), -1), ERR_MEMORY_LIMIT);
    assert_int_equal(configure("t1", BYTES(""), -1), OK);
    delivery_bed_close(&bed);
}

static void a_topic_with_settings_is_not_evicted(void **state)
{
    (void)state;
    delivery_bed_open(&bed, true, 10);
    assert_int_equal(configure("t1", BYTES("one"), -1), OK);
    for (unsigned i = 0; i < 60; i++) { /* there may be 20 topics */
        char name[8];
        (void)snprintf(name, sizeof(name), "n%u", i);
        struct cmd cmd = {.kind = CMD_PAUSE, .topic = {.topic = bytes_str(name)}};
        assert_int_equal(delivery_do(&bed, &cmd), OK); /* over already: it is idle */
    }
    observe();
    expect_settings(1, "one");
    for (unsigned i = 0; i < 19; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "s%u", i);
        assert_int_equal(configure(name, BYTES("x"), -1), OK);
    }
    assert_int_equal(configure("t9", BYTES("x"), -1), ERR_TOPICS_LIMIT);
    delivery_bed_close(&bed);
}

static void a_removed_topic_has_no_settings(void **state)
{
    (void)state;
    delivery_bed_open(&bed, true, 11);
    observe();
    struct cmd cmd = {.kind = CMD_REMOVE_TOPIC, .topic = {.topic = BYTES("t1")}};
    assert_int_equal(configure("t1", BYTES("one"), -1), OK);
    assert_int_equal(delivery_do(&bed, &cmd), OK);
    assert_false(bed.answer.more);
    expect_settings(1, "");
    assert_int_equal(delivery_do(&bed, &cmd), ERR_NOT_FOUND);
    delivery_restart(&bed, DELIVERY_KILL);
    observe();
    assert_int_equal(told.calls, 0);
    delivery_bed_close(&bed);
}

/* The segment that they were in is cleaned many times over; one of them is set while others rest.
 */
static void p2_settings_outlive_restarts_and_relocation(void **state)
{
    (void)state;
    uint64_t highest = 0;
    delivery_bed_open(&bed, true, 12);
    assert_int_equal(configure("t1", BYTES("one"), -1), OK);
    assert_int_equal(configure("t2", BYTES("two"), -1), OK);
    assert_int_equal(configure("t2", BYTES(""), -1), OK);
    for (int how = DELIVERY_IN_ORDER; how < 2 * DELIVERY_ENDS; how++) {
        char text[16];
        delivery_churn(&bed, 100);
        (void)snprintf(text, sizeof(text), "%d", how);
        assert_int_equal(configure("t3", bytes_str(text), -1), OK);
        assert_true(bed.answer.version > highest); /* never used twice */
        highest = bed.answer.version;
        delivery_restart(&bed, how % DELIVERY_ENDS);
        observe();
        assert_int_equal(told.calls, 2);
        expect_settings(1, "one");
        expect_settings(3, text);
        assert_int_equal(told.version[3], highest);
        struct store_stats stats;
        store_stats(embedded_store(bed.embedded), &stats);
        assert_int_equal(stats.live_jobs, 3); /* the two, and the job that comes and goes */
        assert_int_equal(stats.damaged_segments, 0);
    }
    delivery_bed_close(&bed);
}

/* P1: an answer that came is kept, one that did not come may be. */
static void p1_settings_are_answered_when_they_are_durable(void **state)
{
    (void)state;
    for (unsigned points = 0; points < 30; points++) {
        delivery_bed_open(&bed, true, points);
        struct cmd cmd = {.kind = CMD_CONFIGURE_TOPIC,
                          .topic = {.topic = BYTES("t1"), .settings = BYTES("one")}};
        sim_disk_cut_at(bed.disk, sim_disk_points(bed.disk) + points);
        bool answered = delivery_submit(&bed, &cmd, 10) && bed.answer.err == OK;
        uint64_t version = bed.answer.version;
        sim_disk_cut_at(bed.disk, 0);
        embedded_close(bed.embedded);
        sim_disk_power(bed.disk, points);
        assert_int_equal(delivery_open(&bed), OK);
        observe();
        assert_true(told.calls == 1 || !answered);
        assert_true(!answered || told.version[1] == version);
        assert_int_equal(configure("t2", BYTES("two"), -1), OK);
        assert_true(!answered || bed.answer.version > version);
        delivery_bed_close(&bed);
    }
}

/* ---- notes ---- */

/* Reserves it by name and ends the attempt. */
static enum err attempt(enum cmd_kind end, const char *id, struct bytes note, uint16_t code)
{
    struct cmd cmd = {
        .kind = end,
        .job = {.ref.id = bytes_str(id), .note = note, .note_code = code, .has_delay = true}};
    assert_int_equal(of_job(CMD_RESERVE_JOB, id), OK);
    return delivery_do(&bed, &cmd);
}

/* Notes "n1", "n2" … with codes 501, 502 …; of the latter as many as there may be are there. */
static void expect_notes(const char *id, unsigned last)
{
    unsigned first = last > JOB_NOTES_MAX ? last - JOB_NOTES_MAX + 1 : 1;
    assert_int_equal(of_job(CMD_GET, id), OK);
    const struct job_view *job = &bed.answer.job;
    assert_int_equal(job->note_count, last - first + 1);
    assert_int_equal(job->last_code, 500 + last);
    assert_int_equal(job->last_note_us, bed.answer.notes[job->note_count - 1].at_us);
    for (unsigned i = 0; i < job->note_count; i++) {
        char text[8];
        (void)snprintf(text, sizeof(text), "n%u", first + i);
        assert_true(bytes_eq(bed.answer.notes[i].text, bytes_str(text)));
        assert_int_equal(bed.answer.notes[i].code, 500 + first + i);
        assert_true(i == 0 || bed.answer.notes[i].at_us > bed.answer.notes[i - 1].at_us);
    }
}

static void note(const char *id, unsigned number)
{
    char text[8];
    (void)snprintf(text, sizeof(text), "n%u", number);
    assert_int_equal(
        attempt(number % 2 ? CMD_RELEASE : CMD_BURY, id, bytes_str(text), (uint16_t)(500 + number)),
        OK);
    assert_int_equal(bed.answer.job.last_code, 500 + number); /* each view shows it */
}

static void the_last_notes_of_failed_attempts_are_kept(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) { /* without a disk; with one; and all is to be read */
        delivery_bed_open(&bed, kind > 0, 13);
        if (kind == 2)
            sim_disk_cold(bed.disk, true);
        push("j", BYTES("target"), BYTES("body"));
        push("k", BYTES(""), BYTES("body"));
        for (unsigned i = 1; i <= 2 * JOB_NOTES_MAX + 2; i++) {
            note("j", i);
            expect_notes("j", i);
            if (kind == 2)
                delivery_restart(&bed, DELIVERY_KILL);
        }
        expect_shown(BYTES("target"), BYTES("body"));
        struct cmd kick = {.kind = CMD_KICK, .job.ref.id = BYTES("j")}; /* buried by the last one */
        assert_int_equal(delivery_do(&bed, &kick), OK);
        expect_notes("j", 2 * JOB_NOTES_MAX + 2);
        assert_int_equal(of_job(CMD_GET, "k"), OK);
        assert_int_equal(bed.answer.job.note_count + bed.answer.job.last_note_us, 0);
        assert_int_equal(attempt(CMD_RELEASE, "k", BYTES(""), 500), OK); /* nothing is kept */
        assert_int_equal(bed.answer.job.last_note_us, 0);
        push("j", BYTES(""), BYTES("body")); /* another job */
        assert_int_equal(of_job(CMD_GET, "j"), OK);
        assert_int_equal(bed.answer.job.last_note_us, 0);
        delivery_bed_close(&bed);
    }
}

static void p8_notes_have_limits(void **state)
{
    (void)state;
    static char text[JOB_NOTE_MAX + 1];
    for (int on_disk = 0; on_disk < 2; on_disk++) {
        delivery_bed_open(&bed, on_disk, 14);
        push("j", BYTES(""), BYTES("body"));
        assert_int_equal(attempt(CMD_RELEASE, "j", bytes_of(text, sizeof(text)), 1), ERR_INVALID);
        assert_int_equal(of_job(CMD_RELEASE, "j"), OK);
        for (unsigned i = 0; i < 6; i++)
            assert_int_equal(attempt(CMD_RELEASE, "j", bytes_of(text, JOB_NOTE_MAX), 1), OK);
        assert_int_equal(of_job(CMD_GET, "j"), OK);
        assert_int_equal(bed.answer.job.note_count, JOB_NOTES_MAX);
        assert_int_equal(bed.answer.notes[0].text.len, JOB_NOTE_MAX);
        delivery_bed_close(&bed);
    }
}

static uint64_t live_records(void)
{
    struct store_stats stats;
    store_stats(embedded_store(bed.embedded), &stats);
    assert_int_equal(stats.damaged_segments, 0);
    return stats.live_jobs;
}

static void p2_notes_outlive_restarts_and_relocation_and_end_with_their_job(void **state)
{
    (void)state;
    delivery_bed_open(&bed, true, 15);
    push("j", BYTES(""), BYTES("body"));
    for (unsigned i = 1; i <= 7; i++)
        note("j", i);
    for (int how = DELIVERY_IN_ORDER; how < 2 * DELIVERY_ENDS; how++) {
        delivery_churn(&bed, 120);
        assert_int_equal(live_records(), 1 + JOB_NOTES_MAX + 1); /* the churning one */
        expect_notes("j", 7);
        delivery_restart(&bed, how % DELIVERY_ENDS);
        expect_notes("j", 7);
        assert_int_equal(live_records(), 1 + JOB_NOTES_MAX + 1);
    }
    assert_int_equal(of_job(CMD_DELETE, "j"), OK);
    assert_int_equal(live_records(), 1);
    delivery_restart(&bed, DELIVERY_KILL);
    assert_int_equal(live_records(), 1);
    delivery_churn(&bed, 120);
    delivery_bed_close(&bed);
}

/* A new body makes a new record, behind the notes: the log tells of them before their job. */
static void p2_notes_outlive_a_new_body(void **state)
{
    (void)state;
    delivery_bed_open(&bed, true, 16);
    push("j", BYTES("target"), BYTES("body"));
    for (unsigned i = 1; i <= 3; i++)
        note("j", i);
    struct cmd delay = {.kind = CMD_RELEASE,
                        .job = {.ref.id = BYTES("j"), .has_delay = true, .due_us = INT64_MAX / 2}};
    assert_int_equal(of_job(CMD_RESERVE_JOB, "j"), OK);
    assert_int_equal(delivery_do(&bed, &delay), OK);
    for (int how = DELIVERY_IN_ORDER; how < 2 * DELIVERY_ENDS; how++) {
        assert_int_equal(reschedule("j", BYTES("another body")), OK);
        delivery_churn(&bed, 30);
        delivery_restart(&bed, how % DELIVERY_ENDS);
        expect_notes("j", 3);
        expect_shown(BYTES("target"), BYTES("another body"));
    }
    delivery_bed_close(&bed);
}

/* Damage to a note is no damage to its job: it is shown as lost. */
static void a_note_that_cannot_be_read_is_shown_as_lost(void **state)
{
    (void)state;
    delivery_bed_open(&bed, true, 17);
    push("j", BYTES("target"), BYTES("body"));
    note("j", 1);
    note("j", 2);
    delivery_restart(&bed, DELIVERY_IN_ORDER);
    struct note_place places[JOB_NOTES_MAX];
    assert_int_equal(of_job(CMD_GET, "j"), OK);
    assert_int_equal(core_note_places(embedded_core(bed.embedded), bed.answer.job.ref.seq, places),
                     2);
    uint64_t at = (places[0].stored.where & UINT32_MAX) * 8 + 40;
    char name[16];
    (void)snprintf(name, sizeof(name), "wal-%08x", (unsigned)(places[0].stored.where >> 32));
    assert_true(sim_disk_flip(bed.disk, name, at * 8));
    for (int cold = 0; cold < 2; cold++) {
        sim_disk_cold(bed.disk, cold);
        assert_int_equal(of_job(CMD_GET, "j"), OK);
        expect_shown(BYTES("target"), BYTES("body"));
        assert_int_equal(bed.answer.job.note_count, 2);
        assert_int_equal(bed.answer.notes[0].text.len, 0);
        assert_true(bytes_eq(bed.answer.notes[1].text, BYTES("n2")));
        assert_int_equal(bed.answer.job.last_code, 502);
    }
    delivery_bed_close(&bed);
}

/* P1: a release that was answered has its note, wherever the power goes. */
static void p1_a_release_that_is_durable_has_its_note(void **state)
{
    (void)state;
    for (unsigned points = 0; points < 20; points++) {
        delivery_bed_open(&bed, true, points);
        push("j", BYTES(""), BYTES("body"));
        assert_int_equal(of_job(CMD_RESERVE_JOB, "j"), OK);
        struct cmd cmd = {.kind = CMD_RELEASE,
                          .job = {.ref.id = BYTES("j"), .note = BYTES("n1"), .note_code = 501}};
        sim_disk_cut_at(bed.disk, sim_disk_points(bed.disk) + points);
        bool answered = delivery_submit(&bed, &cmd, 10) && bed.answer.err == OK;
        sim_disk_cut_at(bed.disk, 0);
        embedded_close(bed.embedded);
        sim_disk_power(bed.disk, points);
        assert_int_equal(delivery_open(&bed), OK);
        assert_int_equal(of_job(CMD_GET, "j"), OK);
        if (answered || bed.answer.job.failures > 0)
            expect_notes("j", 1);
        delivery_bed_close(&bed);
    }
}

static void jobs_without_notes_take_no_memory_for_them(void **state)
{
    (void)state;
    enum { JOBS = 2000 };
    struct cmd cmd = {.kind = CMD_RELEASE, .job = {.note = BYTES("n"), .note_code = 500}};
    delivery_bed_open(&bed, false, 18); /* a simulated disk would be counted, too */
    for (unsigned i = 0; i < JOBS; i++) {
        struct cmd put = a_push("", BYTES(""), BYTES("body"));
        assert_int_equal(delivery_do(&bed, &put), OK);
    }
    size_t before = mem_used();
    for (unsigned round = 0; round < JOB_NOTES_MAX; round++) {
        for (unsigned i = 0; i < JOBS; i++) {
            assert_int_equal(reserve(0, 0), OK);
            cmd.job.ref.seq = bed.answer.job.ref.seq;
            assert_int_equal(delivery_do(&bed, &cmd), OK);
        }
    }
    size_t texts = (size_t)JOBS * JOB_NOTES_MAX * 32;
    assert_true(mem_used() - before < texts + (size_t)JOBS * 100 + 256 * 1024); /* and chunks */
    delivery_bed_close(&bed);
}

/* ---- the format ---- */

static uint32_t features(void)
{
    uint64_t bytes;
    uint32_t all = 0;
    const char *manifest = sim_disk_file(bed.disk, "MANIFEST", &bytes);
    for (int slot = 0; slot < 2; slot++) {
        uint32_t these;
        memcpy(&these, manifest + slot * 4096 + 92, sizeof(these));
        all |= these;
    }
    return all;
}

static void a_store_without_properties_uses_no_feature(void **state)
{
    (void)state;
    delivery_bed_open(&bed, true, 6);
    push("j", BYTES(""), BYTES("body"));
    delivery_restart(&bed, DELIVERY_IN_ORDER);
    assert_int_equal(features(), 0);
    push("k", BYTES("target"), BYTES("body"));
    assert_int_equal(features(), 4);
    delivery_restart(&bed, DELIVERY_IN_ORDER);
    assert_int_equal(features(), 4);
    delivery_bed_close(&bed);
}

/* The power goes at every point: who finds the record finds the bit. */
static void p1_the_feature_is_on_disk_before_the_first_byte_that_needs_it(void **state)
{
    (void)state;
    for (unsigned points = 0; points < 30; points++) {
        delivery_bed_open(&bed, true, points);
        struct cmd cmd = a_push("j", BYTES("target"), BYTES("body"));
        sim_disk_cut_at(bed.disk, sim_disk_points(bed.disk) + points);
        bool answered = delivery_submit(&bed, &cmd, 10) && bed.answer.err == OK;
        sim_disk_cut_at(bed.disk, 0);
        embedded_close(bed.embedded);
        sim_disk_power(bed.disk, points);
        uint64_t bytes;
        const char *segment = sim_disk_file(bed.disk, "wal-00000001", &bytes);
        for (uint64_t at = 0; segment && at + 6 < bytes; at++)
            assert_false(memcmp(segment + at, "target", 6) == 0 && !(features() & 4));
        assert_int_equal(delivery_open(&bed), OK);
        enum err err = of_job(CMD_GET, "j");
        assert_true(err == OK || (err == ERR_NOT_FOUND && !answered));
        delivery_bed_close(&bed);
    }
}

/* ---- ttr_us ---- */

static void p4_a_reservation_runs_for_the_ttr_it_was_asked_with(void **state)
{
    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        for (int on_disk = 0; on_disk < 2; on_disk++) {
            delivery_bed_open(&bed, on_disk, 7);
            if (!waits)
                push("j", BYTES(""), BYTES("body"));
            if (on_disk)
                delivery_restart(&bed, DELIVERY_KILL);
            if (on_disk)
                sim_disk_cold(bed.disk, true); /* the lease begins when the body has come */
            struct bytes topic = BYTES("t");
            struct cmd cmd = {.kind = CMD_RESERVE,
                              .reserve = {.topics = &topic,
                                          .topic_count = 1,
                                          .max = 1,
                                          .wait_us = waits ? 60000000 : 0,
                                          .ttr_us = 3000000}};
            struct cmd put = a_push("j", BYTES(""), BYTES("body"));
            if (waits) {
                assert_false(delivery_submit(&bed, &cmd, 5));
                (void)bed.engine->verbs->submit(bed.engine, &put, NULL);
                delivery_settle(&bed, 10);
            } else {
                (void)delivery_do(&bed, &cmd);
            }
            assert_true(bed.answer.came);
            assert_int_equal(bed.answer.err, OK);
            assert_in_range(bed.answer.job.until_us, bed.loop.now_us + 3000000 - 20000,
                            bed.loop.now_us + 3000000);
            assert_int_equal(bed.answer.job.ttr_us, DELIVERY_TTR_US); /* the job's own stays */
            bed.loop.now_us += 3000000;
            delivery_turn(&bed);
            assert_int_equal(reserve(0, 0), OK); /* it came back */
            assert_int_equal(bed.answer.job.until_us, bed.loop.now_us + DELIVERY_TTR_US);
            delivery_bed_close(&bed);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(properties_come_with_the_body_wherever_it_is_shown),
        cmocka_unit_test(p8_properties_above_their_limit_are_refused),
        cmocka_unit_test(p2_properties_outlive_restarts_and_relocation),
        cmocka_unit_test(a_new_body_keeps_the_properties),
        cmocka_unit_test(a_large_new_body_is_taken_over),
        cmocka_unit_test(a_new_body_that_waits_meets_what_has_happened_meanwhile),
        cmocka_unit_test(p8_new_bodies_whose_properties_came_are_written_one_a_turn),
        cmocka_unit_test(p7_a_new_body_that_waits_when_the_engine_ends_has_failed),
        cmocka_unit_test(settings_have_a_version_that_can_be_asked_for),
        cmocka_unit_test(p8_settings_have_limits),
        cmocka_unit_test(a_topic_with_settings_is_not_evicted),
        cmocka_unit_test(a_removed_topic_has_no_settings),
        cmocka_unit_test(p2_settings_outlive_restarts_and_relocation),
        cmocka_unit_test(p1_settings_are_answered_when_they_are_durable),
        cmocka_unit_test(the_last_notes_of_failed_attempts_are_kept),
        cmocka_unit_test(p8_notes_have_limits),
        cmocka_unit_test(p2_notes_outlive_restarts_and_relocation_and_end_with_their_job),
        cmocka_unit_test(p2_notes_outlive_a_new_body),
        cmocka_unit_test(a_note_that_cannot_be_read_is_shown_as_lost),
        cmocka_unit_test(p1_a_release_that_is_durable_has_its_note),
        cmocka_unit_test(jobs_without_notes_take_no_memory_for_them),
        cmocka_unit_test(a_store_without_properties_uses_no_feature),
        cmocka_unit_test(p1_the_feature_is_on_disk_before_the_first_byte_that_needs_it),
        cmocka_unit_test(p4_a_reservation_runs_for_the_ttr_it_was_asked_with),
    };
    log_level_set((enum log_level)(LOG_ERROR + 1)); /* broken disks are not news here */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
