/*
 * Jobs come back from the journal of a queue on a simulated Redis, while daemons change jobs, are
 * killed, stand still and take the journal over from each other at any moment. As long as Redis
 * loses nothing, no restore has anything to bring back: what it brings had ended. Time is
 * simulated.
 */
#include <stdio.h>

#include "redis_journal_bed.h"
#include "test/unit/support/every.h"

enum {
    STEPS = 2500,
    LIVES = 4,
    NAME_BYTES = 24,
    ROWS = NAMES + NUMBERED,
    STILL_US = 8 * SECOND_US, /* longer than the journal is one daemon's that is silent */
};

/* ---- who reads rows back ---- */

struct restore_run {
    struct restore_run *next;
    struct restore_reader *reader;
    bool snapped; /* the rows are as they were then */
    unsigned count, shown, taken, unsettled;
    struct restore_row rows[ROWS];
    char names[ROWS][NAME_BYTES];
};

static struct restore_run *reading;

static enum err begin_reading(struct restore *restore, const struct restore_query *query,
                              struct restore_reader *reader, struct restore_run **out_run,
                              const char **out_why)
{
    struct restore_run *run = mem_zalloc(sizeof(*run));
    (void)restore;
    (void)out_why;
    assert_int_equal(query->id.len, 0);
    run->reader = reader;
    run->next = reading;
    reading = *out_run = run;
    return OK;
}

/* Some of those that a push would not change leave no entry. */
static void show_row(struct restore_run *run, struct row *row, const char *name)
{
    unsigned i = run->count++;
    bool written = row->state != JOB_BURIED && i % 3;
    row->brought |= written && database.stores > 1; /* else the job is there, or has ended */
    (void)snprintf(run->names[i], NAME_BYTES, "%s", name);
    run->rows[i] = (struct restore_row){
        .push = {.id = bytes_str(run->names[i]),
                 .topic = BYTES("t"),
                 .due_us = row->due_us,
                 .ttr_us = SECOND_US,
                 .priority = row->priority,
                 .failures = (uint16_t)(i % 2),
                 .body = BYTES("restored")},
        .written = written,
        .seq = row->name && row->store == database.stores ? row->name : 0,
    };
}

static void snap(struct restore_run *run)
{
    char name[NAME_BYTES];
    run->snapped = true;
    for (unsigned i = 0; i < NAMES; i++) {
        (void)snprintf(name, sizeof(name), "k%c", (char)('A' + i));
        if (database.rows[i].there && !database.rows[i].ended)
            show_row(run, &database.rows[i], name);
    }
    for (unsigned i = 0; i < database.numbered_count; i++) {
        struct row *row = &database.numbered[i];
        (void)snprintf(name, sizeof(name), "@%llu.s", (unsigned long long)row->name);
        if (!row->ended)
            show_row(run, row, name);
    }
}

static struct restore_row *take_row(struct restore_run *run)
{
    if (run->taken == run->shown)
        return NULL;
    run->unsettled++;
    return &run->rows[run->taken++];
}

static void settle_row(struct restore_run *run, struct restore_row *row)
{
    (void)row;
    assert_true(run->unsettled > 0);
    run->unsettled--;
}

static bool all_read(const struct restore_run *run, enum err *out_err, const char **out_why)
{
    *out_err = OK;
    *out_why = "";
    return run->snapped && run->taken == run->count;
}

static void close_reading(struct restore_run *run)
{
    struct restore_run **at = &reading;
    assert_int_equal(run->unsettled, 0);
    while (*at != run)
        at = &(*at)->next;
    *at = run->next;
    mem_free(run);
}

static const struct restore_verbs fake_readers = {.begin = begin_reading,
                                                  .take = take_row,
                                                  .settle = settle_row,
                                                  .ended = all_read,
                                                  .close = close_reading};

static void read_some(void)
{
    for (struct restore_run *run = reading; run; run = run->next) {
        if (!run->snapped && sim_random_chance(&chance, 300))
            snap(run);
        if (run->snapped && run->shown < run->count)
            run->shown += (unsigned)sim_random_below(&chance, 3) % (run->count - run->shown + 1);
        if (run->snapped)
            run->reader->arrived(run->reader);
    }
}

/* ---- the server's part of it, in each daemon ---- */

static struct restoring {
    struct restore_reader reader;
    struct redis_engine *of; /* NULL: it restores nothing */
    struct restore_run *run;
    struct brought {
        struct ticket ticket;
        bool waits;
    } pushes[64];
    unsigned waiting;
} restorings[2];

static struct {
    unsigned done, failed, created, kept, ended, lapsed;
} counts;

static void row_arrived(struct restore_reader *reader)
{
    (void)reader; /* it is looked at each turn */
}

static void was_brought(struct ticket *ticket, const struct reply *reply)
{
    struct brought *brought = (struct brought *)ticket; /* its first member */
    brought->waits = false;
    for (unsigned i = 0; i < 2; i++) {
        if (brought >= restorings[i].pushes && brought < restorings[i].pushes + 64)
            restorings[i].waiting--;
    }
    counts.created += !reply->err && !reply->kept;
    counts.kept += !reply->err && reply->kept;
    counts.ended += reply->err == ERR_NOT_FOUND;
    counts.lapsed += reply->err == ERR_STALE_LEASE;
}

static void bring(struct restoring *restoring, struct restore_row *row)
{
    struct engine *port = redis_engine_port(engine);
    struct brought *brought = restoring->pushes;
    struct cmd cmd = {.kind = CMD_PUSH, .push = row->push};
    cmd.push.if_exists = IF_EXISTS_KEEP;
    while (brought->waits)
        brought++;
    *brought = (struct brought){.ticket.answered = was_brought, .waits = true};
    restoring->waiting++;
    (void)port->verbs->submit(port, &cmd, &brought->ticket); /* it is told */
}

static void end_restoring(struct restoring *restoring)
{
    struct restore *restore = redis_engine_restore(restoring->of);
    restore->verbs->close(restoring->run);
    restoring->of = NULL;
}

static struct restoring *restoring_of(const struct redis_engine *of)
{
    for (unsigned i = 0; i < 2; i++) {
        if (restorings[i].of == of)
            return &restorings[i];
    }
    return NULL;
}

static void restore_on(void)
{
    struct restoring *restoring = restoring_of(engine);
    struct restore *restore = redis_engine_restore(engine);
    struct restore_row *row;
    enum err err;
    const char *why;
    if (!restoring)
        return;
    while (restoring->waiting < 64 && (row = restore->verbs->take(restoring->run))) {
        bring(restoring, row);
        restore->verbs->settle(restoring->run, row);
    }
    if (restoring->waiting || !restore->verbs->ended(restoring->run, &err, &why))
        return;
    counts.done += !err;
    counts.failed += err != OK;
    end_restoring(restoring);
}

/* True: one has begun, in the daemon that all is about. */
static bool begin_restore(void)
{
    struct restore *restore = redis_engine_restore(engine);
    struct restoring *restoring = restoring_of(NULL);
    struct restore_query query = {.now_us = now_us};
    const char *why;
    if (!restoring || restoring->waiting || restoring_of(engine))
        return false;
    restoring->reader.arrived = row_arrived;
    if (restore->verbs->begin(restore, &query, &restoring->reader, &restoring->run, &why))
        return false;
    restoring->of = engine;
    return true;
}

/* ---- lives ---- */

static bool still; /* the daemon that nothing is about now makes no turns */

static void all_turn(unsigned per_mille)
{
    turning = true;
    for (unsigned i = 0; i < 2; i++) {
        if (i == 0 || !still) {
            turn();
            restore_on();
        }
        change_daemon();
    }
    work(per_mille);
    read_some();
}

static void kill_restoring(unsigned daemon)
{
    struct restoring *restoring = restoring_of(engine);
    if (restoring)
        end_restoring(restoring);
    kill_daemon(daemon);
}

/* Jobs without ids come and go. */
static void some_numbered(void)
{
    static struct asked asked[64];
    static unsigned at;
    struct asked *next = &asked[at++ % 64];
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.topic = BYTES("t"),
                               .due_us = now_us + 1000 * (int64_t)SECOND_US,
                               .ttr_us = SECOND_US,
                               .body = BYTES("another")}};
    if (database.numbered_count && sim_random_chance(&chance, 500)) {
        uint64_t i = sim_random_below(&chance, database.numbered_count);
        cmd = (struct cmd){.kind = CMD_DELETE, .job.ref.seq = database.numbered[i].name};
    }
    if (next->answered || !next->ticket.answered)
        submit(&cmd, next);
}

static void begin_life(uint64_t seed)
{
    chance = (struct sim_random){.state = seed};
    memset(&database, 0, sizeof(database));
    memset(restorings, 0, sizeof(restorings));
    database.stores = 1;
    stopped = 0;
    still = false;
    readers = &fake_readers;
    add_address(7000);
    options.partitions = PARTITIONS;
    options.topics_max = 10;
    options.journal = &maker;
    options.journal_bytes = 1 << 30;
    start_pair();
    paired = second = true;
}

static void look_elsewhere(void)
{
    change_daemon();
    second = !second;
}

static void one_step(void)
{
    if (!still && sim_random_chance(&chance, 500))
        look_elsewhere();
    for (unsigned i = 0; i <= sim_random_below(&chance, 4); i++)
        some_command();
    if (sim_random_chance(&chance, 200))
        some_numbered();
    if (sim_random_chance(&chance, 50))
        (void)begin_restore();
    all_turn(100);
    if (!still && sim_random_chance(&chance, 2))
        kill_restoring(second);
}

/* One daemon stands still in a restore, and what it had sent may be on its way. */
static void one_stands_still(void)
{
    for (unsigned i = 0; i < 3000 && !begin_restore(); i++) {
        one_step();
        look_elsewhere();
    }
    for (uint64_t turns_left = sim_random_below(&chance, 15); turns_left > 0; turns_left--)
        all_turn(100);
    if (restoring_of(engine))
        look_elsewhere();
    still = true;
    for (int64_t until_us = now_us + STILL_US; now_us < until_us;) {
        if (sim_random_chance(&chance, 20))
            one_step();
        else
            all_turn(100);
    }
    still = false;
}

/* What any daemon had under way ends. */
static void settle_all(unsigned count)
{
    for (unsigned i = 0; i < count || restoring_of(engine) || restoring_of(other_engine); i++)
        all_turn(1000);
}

static void one_life(uint64_t seed)
{
    begin_life(seed);
    for (unsigned step = 0; step < STEPS; step++) {
        one_step();
        if (step % 1000 == 500)
            one_stands_still();
    }
    settle_all(6000);
    expect_rows();
    assert_int_equal(database.restored, 0);
    assert_int_equal(stopped, 0);
}

static int end_life(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        if (restorings[i].of)
            end_restoring(&restorings[i]);
    }
    return end_pair(state);
}

static void nothing_that_has_ended_comes_back(void **state)
{
    const unsigned lives = sim_lives(LIVES);
    memset(&counts, 0, sizeof(counts));
    for (uint64_t seed = 1; seed <= lives; seed++) {
        one_life(seed);
        end_life(state);
        setup(state);
    }
    assert_int_equal(counts.created, 0);
    /* So that this says something: */
    assert_true(counts.done > 5 * lives && counts.failed > lives / 2);
    assert_true(counts.kept > 125 * lives && counts.ended > 7 * lives);
}

static void restore_now(void)
{
    unsigned before = counts.done;
    settle_all(3000);
    for (unsigned i = 0; i < 20000 && !begin_restore(); i++) {
        all_turn(1000);
        look_elsewhere();
    }
    settle_all(100);
    assert_int_equal(counts.done, before + 1);
}

static unsigned unfinished(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < NAMES; i++)
        count += database.rows[i].there && !database.rows[i].ended;
    for (unsigned i = 0; i < database.numbered_count; i++)
        count += !database.numbered[i].ended;
    return count;
}

/* Rows that a restore has brought without an entry. */
static unsigned brought(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < NAMES; i++)
        count += database.rows[i].brought && !database.rows[i].ended;
    for (unsigned i = 0; i < database.numbered_count; i++)
        count += database.numbered[i].brought && !database.numbered[i].ended;
    return count;
}

static void a_queue_that_lost_its_redis_comes_back(void **state)
{
    (void)state;
    begin_life(3);
    for (unsigned step = 0; step < 1000; step++)
        one_step();
    settle_all(6000);
    unsigned count = unfinished();
    assert_true(count > 30);
    sim_redis_restart(servers[0], SIM_REDIS_KEEPS_NOTHING);
    database.has_cursor = false; /* an operator says that the journal is the new queue's now */
    memset(database.at, 0, sizeof(database.at));
    database.stores++;
    settle_all(3000); /* they notice, and make another queue */
    memset(&counts, 0, sizeof(counts));
    restore_now();
    assert_int_equal(counts.created, count);
    settle_all(3000);
    assert_true(brought() > count / 3 && brought() < count);
    assert_int_equal(database.restored, count - brought()); /* and the journal has the others */
    assert_int_equal(unfinished(), count);
    expect_rows();
    restore_now();
    assert_int_equal(counts.created, count);
    assert_int_equal(counts.kept, count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_queue_that_lost_its_redis_comes_back, setup, end_life),
        cmocka_unit_test_setup_teardown(nothing_that_has_ended_comes_back, setup, end_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
