/*
 * What salvage and recovery make of properties, notes and settings in a damaged log: what is intact
 * is found, what is damaged is not believed, and a note that is lost harms no job.
 */
#include <stdio.h>

#include "base/log.h"
#include "delivery_ask.h"
#include "store/recovery/salvage.h"
#include "store/stats.h"

/* What the salvage of a log told. */
static struct salvaged {
    struct salvage_callbacks callbacks;
    uint64_t job_seq, job_where, note_where[3];
    unsigned jobs, notes, moves, settings;
} salvaged;

static enum err replay(struct salvage_callbacks *callbacks, const struct event *event,
                       enum salvage_trust trust)
{
    (void)callbacks;
    (void)trust;
    if (event->kind == EVENT_JOB) {
        salvaged.job_seq = event->job.seq;
        salvaged.job_where = event->record.where;
        salvaged.jobs++;
    } else if (event->kind == EVENT_NOTE && salvaged.notes < 3) {
        salvaged.note_where[salvaged.notes++] = event->record.where;
    } else if (event->kind == EVENT_SETTINGS) {
        assert_true(bytes_eq(event->body, BYTES("one")) && bytes_eq(event->topic, BYTES("t1")));
        salvaged.settings++;
    } else if (event->kind == EVENT_MOVE) {
        salvaged.moves++;
    }
    return OK;
}

static void no_clock(struct salvage_callbacks *callbacks, int64_t clock_us)
{
    (void)callbacks;
    (void)clock_us;
}

static void no_line(struct salvage_callbacks *callbacks, const char *line)
{
    (void)callbacks;
    assert_true(line[0] != '\0');
}

/* A job with properties and two notes, a topic with settings; each in a batch of its own. */
static void make_store(void)
{
    struct cmd put = a_push("j", BYTES("target"), BYTES("body"));
    struct cmd set = {.kind = CMD_CONFIGURE_TOPIC,
                      .topic = {.topic = BYTES("t1"), .settings = BYTES("one")}};
    delivery_bed_open(&bed, true, 1);
    assert_int_equal(delivery_do(&bed, &put), OK);
    assert_int_equal(delivery_do(&bed, &set), OK);
    for (unsigned i = 1; i <= 2; i++) {
        struct cmd end = {.kind = CMD_BURY,
                          .job = {.ref.id = BYTES("j"),
                                  .note = i == 1 ? BYTES("first note") : BYTES("second note")}};
        assert_int_equal(of_job(CMD_RESERVE_JOB, "j"), OK);
        assert_int_equal(delivery_do(&bed, &end), OK);
    }
    delivery_settle(&bed, 20);
    embedded_close(bed.embedded);
    bed.embedded = NULL;
}

/* Flips a bit of the first place in the log where the text is. */
static void damage(const char *text)
{
    uint64_t bytes;
    const char *segment = sim_disk_file(bed.disk, "wal-00000001", &bytes);
    size_t len = strlen(text);
    uint64_t at = 0;
    while (at + len <= bytes && memcmp(segment + at, text, len) != 0)
        at++;
    assert_true(at + len <= bytes);
    assert_true(sim_disk_flip(bed.disk, "wal-00000001", at * 8 + 2));
}

static void salvage(struct salvage **out_salvage)
{
    struct store_error error;
    salvaged = (struct salvaged){
        .callbacks = {.replay = replay, .clock = no_clock, .print_line = no_line}};
    assert_int_equal(
        salvage_open(sim_disk_port(bed.disk), true, &salvaged.callbacks, out_salvage, &error), OK);
    assert_int_equal(salvage_replay(*out_salvage), OK);
}

static void expect_job(struct salvage *from)
{
    struct arena arena = {0};
    struct salvage_body body;
    assert_int_equal(salvaged.jobs, 1);
    assert_int_equal(salvage_read(from, salvaged.job_seq, salvaged.job_where, &arena, &body), OK);
    assert_true(bytes_eq(body.event.properties, BYTES("target")));
    assert_true(bytes_eq(body.event.body, BYTES("body")));
    arena_fini(&arena);
}

static void expect_note(struct salvage *from, unsigned place, struct bytes text)
{
    struct arena arena = {0};
    struct event event;
    assert_int_equal(
        salvage_read_note(from, salvaged.job_seq, salvaged.note_where[place], &arena, &event), OK);
    assert_true(bytes_eq(event.body, text));
    assert_int_equal(
        salvage_read_note(from, salvaged.job_seq + 1, salvaged.note_where[place], &arena, &event),
        ERR_DAMAGED); /* it is that job's alone */
    arena_fini(&arena);
}

static void salvage_finds_all_that_push_delivery_needs(void **state)
{
    (void)state;
    struct salvage *from;
    make_store();
    salvage(&from);
    expect_job(from);
    assert_int_equal(salvaged.notes, 2);
    expect_note(from, 0, BYTES("first note"));
    expect_note(from, 1, BYTES("second note"));
    assert_int_equal(salvaged.settings, 1);
    salvage_close(from);
    delivery_bed_close(&bed);
}

static void a_damaged_note_costs_salvage_nothing_else(void **state)
{
    (void)state;
    struct salvage *from;
    make_store();
    damage("first note");
    salvage(&from);
    expect_job(from);
    assert_int_equal(salvaged.notes, 1); /* the other one */
    expect_note(from, 0, BYTES("second note"));
    assert_int_equal(salvaged.settings, 1);
    salvage_close(from);
    delivery_bed_close(&bed);
}

/* Its batch has a change of the job's state, too; later ones repeat all that it says. */
static void a_damaged_note_does_not_keep_a_store_from_opening(void **state)
{
    (void)state;
    make_store();
    damage("first note");
    assert_int_equal(delivery_open(&bed), OK);
    assert_int_equal(of_job(CMD_GET, "j"), OK);
    assert_int_equal(bed.answer.job.note_count, 2);
    assert_int_equal(bed.answer.notes[0].text.len, 0); /* shown as lost */
    assert_true(bytes_eq(bed.answer.notes[1].text, BYTES("second note")));
    assert_true(bytes_eq(bed.answer.job.properties, BYTES("target")));
    delivery_bed_close(&bed);
}

static void p2_damaged_properties_and_settings_are_not_passed_over(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        struct salvage *from;
        make_store();
        damage(kind ? "one" : "target");
        assert_int_equal(delivery_open(&bed), ERR_CORRUPT); /* they were acknowledged */
        salvage(&from);
        assert_int_equal(salvaged.settings, kind ? 0 : 1);
        assert_int_equal(salvaged.jobs, kind ? 1 : 0);
        salvage_close(from);
        delivery_bed_close(&bed);
    }
}

/* A later record says all of it again: nothing is lost. */
static void damaged_settings_that_were_replaced_do_no_harm(void **state)
{
    (void)state;
    struct cmd set = {.kind = CMD_CONFIGURE_TOPIC,
                      .topic = {.topic = BYTES("t1"), .settings = BYTES("another")}};
    make_store();
    assert_int_equal(delivery_open(&bed), OK);
    assert_int_equal(delivery_do(&bed, &set), OK);
    delivery_settle(&bed, 20);
    embedded_close(bed.embedded);
    uint64_t bytes;
    const char *segment = sim_disk_file(bed.disk, "wal-00000001", &bytes);
    uint64_t at = 0;
    while (memcmp(segment + at, "onet1", 5) != 0)
        at++;
    uint64_t batch = at / 4096 * 4096; /* its header: the record itself is intact */
    assert_true(sim_disk_flip(bed.disk, "wal-00000001", (batch + 3) * 8));
    assert_int_equal(delivery_open(&bed), OK);
    observe();
    assert_true(bytes_eq(bytes_of(told.text[1], told.len[1]), BYTES("another")));
    struct store_stats stats;
    store_stats(embedded_store(bed.embedded), &stats);
    assert_int_equal(stats.live_jobs, 4); /* the job, two notes, the settings */
    delivery_bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(salvage_finds_all_that_push_delivery_needs),
        cmocka_unit_test(a_damaged_note_costs_salvage_nothing_else),
        cmocka_unit_test(a_damaged_note_does_not_keep_a_store_from_opening),
        cmocka_unit_test(p2_damaged_properties_and_settings_are_not_passed_over),
        cmocka_unit_test(damaged_settings_that_were_replaced_do_no_harm),
    };
    log_level_set((enum log_level)(LOG_ERROR + 1)); /* damage is not news here */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
