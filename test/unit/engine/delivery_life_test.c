/*
 * Whole lives of an embedded engine that keeps properties, notes and settings: random commands on a
 * few jobs and topics, cut off by kills, power cuts and orderly ends, with segments that are
 * cleaned meanwhile. What was answered must be there after each start, byte for byte; of a command
 * that was not answered, all or nothing.
 *
 *   SIM_SEED=7 build/test/engine/delivery_life_test        this life alone
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "delivery_ask.h"
#include "test/unit/support/every.h"

enum { NAMES = 6, PER_LIFE = 250, LIVES = 150, KEEP = 5 };

/* What one name's job or topic must be like; two, while nobody knows which. */
struct known {
    bool there;
    unsigned version;         /* of the push: body and properties follow from it */
    unsigned body;            /* of the last body */
    unsigned notes[PER_LIFE]; /* their texts are these numbers */
    unsigned note_count;
};

static struct known jobs[NAMES], wanted[NAMES];
static unsigned settings_now[NAMES], settings_wanted[NAMES]; /* 0: none */

static struct bytes text_of(const char *what, unsigned number, unsigned longest, char *room)
{
    size_t len = (size_t)snprintf(room, 32, "%s%u.", what, number);
    size_t more = number * 2654435761u % (longest - 32);
    memset(room + len, 'a' + (int)(number % 26), more);
    return bytes_of(room, len + more);
}

static struct bytes properties_of(unsigned version, char *room)
{
    return version % 3 ? text_of("p", version, version % 4 ? 200 : JOB_PROPERTIES_MAX, room)
                       : (struct bytes){0};
}

static bool is_as(const struct known *known, const char *id)
{
    static char room[8192];
    enum err err = of_job(CMD_GET, id);
    assert_true(err == OK || err == ERR_NOT_FOUND);
    if (err || !known->there)
        return err == ERR_NOT_FOUND && !known->there;
    const struct job_view *job = &bed.answer.job;
    bool good = bytes_eq(job->body, text_of("b", known->body, 3000, room));
    good = good && bytes_eq(job->properties, properties_of(known->version, room));
    unsigned count = known->note_count < KEEP ? known->note_count : KEEP;
    good = good && job->note_count == count;
    for (unsigned i = 0; good && i < count; i++) {
        unsigned number = known->notes[known->note_count - count + i];
        good = bytes_eq(bed.answer.notes[i].text, text_of("n", number, JOB_NOTE_MAX, room)) &&
               bed.answer.notes[i].code == number % 1000;
    }
    return good;
}

/* One random command, and what it makes of the name if it is done. */
static struct cmd some_command(unsigned name, unsigned number, const char *id, struct known *out)
{
    static char body[8192], properties[8192], text[8192];
    struct cmd cmd = {.kind = CMD_PUSH};
    unsigned dice = (unsigned)sim_random_below(&bed.random, 100);
    *out = jobs[name];
    if (!out->there || dice < 25) {
        *out = (struct known){.there = true, .version = number, .body = number};
        cmd = a_push(id, properties_of(number, properties), text_of("b", number, 3000, body));
        cmd.push.due_us = INT64_MAX / 2;
    } else if (dice < 35) {
        out->there = false;
        cmd = (struct cmd){.kind = CMD_DELETE, .job.ref.id = bytes_str(id)};
    } else if (dice < 60) {
        out->body = number;
        cmd = (struct cmd){.kind = CMD_RESCHEDULE,
                           .job = {.ref.id = bytes_str(id),
                                   .has_body = true,
                                   .body = text_of("b", number, 3000, body)}};
    } else {
        assert_int_equal(of_job(CMD_RESERVE_JOB, id), OK);
        out->notes[out->note_count++] = number;
        cmd = (struct cmd){.kind = CMD_RELEASE,
                           .job = {.ref.id = bytes_str(id),
                                   .has_delay = true,
                                   .due_us = INT64_MAX / 2,
                                   .note = text_of("n", number, JOB_NOTE_MAX, text),
                                   .note_code = (uint16_t)(number % 1000)}};
    }
    return cmd;
}

static unsigned number_told(unsigned name)
{
    uint64_t number = 0;
    assert_true(bytes_to_u64(bytes_of(told.text[name], told.len[name]), &number));
    return (unsigned)number;
}

/* After an end that a command was cut off by: which of the two is it? Lost reservations are over.
 */
static void resolve(unsigned name, bool answered)
{
    char id[8], topic[8];
    (void)snprintf(id, sizeof(id), "j%u", name);
    (void)snprintf(topic, sizeof(topic), "t%u", name);
    if (is_as(&wanted[name], id))
        jobs[name] = wanted[name];
    else
        assert_true(!answered && is_as(&jobs[name], id));
    wanted[name] = jobs[name];
    unsigned told_now = told.len[name] ? number_told(name) : 0;
    assert_true(told_now == settings_wanted[name] || (!answered && told_now == settings_now[name]));
    settings_now[name] = settings_wanted[name] = told_now;
}

static void start_again(unsigned name, bool answered)
{
    static uint64_t highest;
    enum delivery_end how = (enum delivery_end)sim_random_below(&bed.random, DELIVERY_ENDS);
    delivery_restart(&bed, how);
    uint64_t digest = core_digest(embedded_core(bed.embedded));
    if (sim_random_chance(&bed.random, 300)) {
        delivery_restart(&bed, how);
        assert_int_equal(core_digest(embedded_core(bed.embedded)), digest);
    }
    sim_disk_cold(bed.disk, sim_random_chance(&bed.random, 500));
    uint64_t before = highest = told.version[name];
    observe();
    assert_true(!answered || told.len[name] == 0 || told.version[name] >= before);
    for (unsigned i = 0; i < NAMES; i++)
        resolve(i, i != name || answered);
    bed.loop.now_us += DELIVERY_TTR_US + 1; /* what was reserved comes back */
    delivery_settle(&bed, 5);
}

static void live(uint64_t seed)
{
    char text[16], id[8], topic[8];
    delivery_bed_open(&bed, true, seed);
    bed.buffered = false;
    observe();
    memset(jobs, 0, sizeof(jobs));
    memset(wanted, 0, sizeof(wanted));
    memset(settings_now, 0, sizeof(settings_now));
    memset(settings_wanted, 0, sizeof(settings_wanted));
    for (unsigned number = 1; number < PER_LIFE; number++) {
        unsigned name = (unsigned)sim_random_below(&bed.random, NAMES);
        (void)snprintf(id, sizeof(id), "j%u", name);
        (void)snprintf(topic, sizeof(topic), "t%u", name);
        struct cmd cmd;
        if (sim_random_chance(&bed.random, 200)) {
            settings_wanted[name] = sim_random_chance(&bed.random, 300) ? 0 : number;
            (void)snprintf(text, sizeof(text), "%u", number);
            cmd = (struct cmd){
                .kind = CMD_CONFIGURE_TOPIC,
                .topic = {.topic = bytes_str(topic),
                          .settings = settings_wanted[name] ? bytes_str(text) : (struct bytes){0}}};
        } else {
            cmd = some_command(name, number, id, &wanted[name]);
        }
        bool cut = sim_random_chance(&bed.random, 100);
        if (delivery_submit(&bed, &cmd, cut ? (unsigned)sim_random_below(&bed.random, 5) : 10000)) {
            /* A lost release left it to its ttr: it is ready, and cannot be rescheduled. */
            bool ready = cmd.kind == CMD_RESCHEDULE && bed.answer.err == ERR_WRONG_STATE;
            assert_true(ready || bed.answer.err == OK);
            jobs[name] = ready ? jobs[name] : wanted[name];
            wanted[name] = jobs[name];
            settings_now[name] = settings_wanted[name];
        }
        if (cut || !bed.answer.came)
            start_again(name, bed.answer.came);
        else if (sim_random_chance(&bed.random, 100))
            delivery_churn(&bed, 40);
        assert_true(is_as(&jobs[name], id));
        if (valid_now())
            core_valid(embedded_core(bed.embedded));
    }
    delivery_restart(&bed, DELIVERY_IN_ORDER);
    observe();
    for (unsigned name = 0; name < NAMES; name++)
        resolve(name, true);
    delivery_bed_close(&bed);
}

static void p2_whole_lives_lose_nothing_that_push_delivery_needs(void **state)
{
    (void)state;
    const char *alone = getenv("SIM_SEED");
    uint64_t first = alone ? strtoull(alone, NULL, 10) : 1;
    for (uint64_t seed = first; seed < first + (alone ? 1 : sim_lives(LIVES)); seed++) {
        if (alone)
            print_message("seed %s\n", alone);
        live(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p2_whole_lives_lose_nothing_that_push_delivery_needs),
    };
    log_level_set((enum log_level)(LOG_ERROR + 1)); /* broken disks are not news here */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
