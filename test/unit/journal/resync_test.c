/*
 * A resync of the journal of an embedded engine on a simulated disk: jobs are pushed, taken, moved
 * and ended, rows are damaged, the database goes away, the machine ends, and at the end the rows
 * are what the queue holds. The database is a model: what is given is committed in groups, rows and
 * cursor as one step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "core/core.h"
#include "engine/embedded/embedded.h"
#include "journal/group.h"
#include "port/journal_control.h"
#include "sim/random.h"
#include "sim/world.h"
#include "store/store.h"
#include "test/unit/support/every.h"

enum {
    NAMES = 300,
    MANY = 100000, /* rows that the database has room for */
    ID_BYTES = 16,
    BODY_MAX = 3000,
    MS = 1000,
    SEEDS = 40,
};

struct row {
    bool there, ended, buried;
    uint32_t priority;
    int64_t due_us;
    uint64_t body; /* a number that is in it */
};

/* What outlives the process. */
static struct {
    struct row rows[MANY];
    uint64_t cursor, epoch;
    bool has_cursor, resyncing;
    uint64_t changes; /* rows of the log */
} database;

static struct restore_row *row_of_run(unsigned i);

struct restore_run {
    struct restore_reader *reader;
    struct row snapshot[NAMES];
    unsigned next;
    struct restore_row row;
};

/* What does not. */
struct fake {
    struct journal journal;
    struct restore restore;
    struct journal_status status;
    struct journal_begin begin;
    struct queue held; // journal_batch::place
    size_t held_bytes;
    struct restore_run run;
    bool reads, away, stopped;
};

static struct world *world;
static struct fake *fake;
static struct sim_random chance;
static char ids[NAMES][ID_BYTES];
static uint64_t bodies;

static bool once_in(uint64_t times)
{
    return sim_random_below(&chance, times) == 0;
}

/* ---- the database ---- */

static struct fake *of(struct journal *journal)
{
    return (struct fake *)journal;
}

static void free_held(void)
{
    struct queue_node *node;
    while ((node = queue_take(&fake->held)))
        mem_free(LIST_ENTRY(node, struct journal_batch, place));
    fake->held_bytes = 0;
}

static void take_cursor(void)
{
    struct journal_status *status = &fake->status;
    if (fake->begin.resync || !database.has_cursor) {
        database.cursor = fake->begin.batch;
        database.resyncing |= fake->begin.resync;
        status->made = !database.has_cursor;
        database.has_cursor = true;
    }
    status->known = true;
    status->phase = JOURNAL_WRITES;
    status->done = database.cursor;
    status->resyncing = database.resyncing;
}

static void journal_begin(struct journal *journal, const struct journal_begin *begin)
{
    of(journal)->begin = *begin;
    of(journal)->status = (struct journal_status){.phase = JOURNAL_AWAY};
    of(journal)->stopped = false;
}

static bool journal_again(struct journal *journal, const struct journal_begin *begin)
{
    uint64_t resyncs = of(journal)->status.resyncs;
    if (once_in(2))
        return false;
    free_held();
    journal_begin(journal, begin);
    of(journal)->status.resyncs = resyncs;
    return true;
}

static void journal_give(struct journal *journal, struct journal_batch *batch)
{
    queue_add(&of(journal)->held, &batch->place);
    of(journal)->held_bytes += batch->bytes;
}

static void journal_status(struct journal *journal, struct journal_status *out_status)
{
    *out_status = of(journal)->status;
    out_status->held_bytes = of(journal)->held_bytes;
}

static void journal_stop(struct journal *journal, const char *why)
{
    (void)why;
    of(journal)->stopped = true;
    of(journal)->status.phase = JOURNAL_STOPPED;
    free_held();
}

static void journal_ended(struct journal *journal, struct bytes id, uint64_t seq)
{
    (void)journal;
    (void)id;
    (void)seq;
}

static struct row *row_named(struct bytes id)
{
    assert_true(id.len > 1 && id.at[0] == 'j');
    return &database.rows[strtoul(id.at + 1, NULL, 10)];
}

static bool is_end(enum journal_status_number status)
{
    return status == STATUS_FINISHED || status == STATUS_DELETED;
}

/* As the statements do. */
static void apply(const struct group_job *job)
{
    struct row *row = row_named(job->id);
    struct record record;
    if (job->change == GROUP_IMAGE) {
        assert_int_equal(record_decode(job->record, job->record_bytes, &record), OK);
        row->there = true;
        row->body = strtoull(record.event.body.at, NULL, 10);
    }
    if (!row->there || (job->change == GROUP_ABSENT && row->ended))
        return;
    row->ended = is_end(job->status);
    row->buried = job->status == STATUS_BURIED;
    if (job->change == GROUP_IMAGE || job->change == GROUP_MOVE) {
        row->due_us = job->due_us;
        row->priority = job->priority;
    }
}

/* Some of what is held, as one step. */
static void commit(void)
{
    struct group group;
    unsigned count = 1 + (unsigned)sim_random_below(&chance, 40);
    struct queue done = {0};
    struct queue_node *node;
    group_init(&group, fake->begin.store, true);
    for (unsigned i = 0; i < count && (node = queue_take(&fake->held)); i++) {
        struct journal_batch *batch = LIST_ENTRY(node, struct journal_batch, place);
        assert_int_equal(group_add(&group, batch), OK);
        fake->held_bytes -= batch->bytes;
        queue_add(&done, node);
    }
    for (unsigned i = 0; i < group.job_count; i++)
        apply(&group.jobs[i]);
    database.changes += group.log_count;
    database.cursor = group.batch ? group.batch : database.cursor;
    if (group.resync_begins || group.resync_ends)
        database.resyncing = !group.resync_ends;
    fake->status.resyncing = database.resyncing;
    fake->status.resyncs += group.resync_ends;
    fake->status.done = database.cursor;
    group_fini(&group);
    while ((node = queue_take(&done)))
        mem_free(LIST_ENTRY(node, struct journal_batch, place));
}

static void database_lives(void)
{
    fake->away = once_in(20) ? !fake->away : fake->away;
    if (fake->away || fake->stopped)
        return;
    if (!fake->status.known)
        take_cursor();
    else if (fake->held.first)
        commit();
    if (fake->reads)
        fake->run.reader->arrived(fake->run.reader);
    if (fake->journal.changed)
        fake->journal.changed(&fake->journal);
}

/* ---- its rows, read back ---- */

static enum err rows_begin(struct restore *restore, const struct restore_query *query,
                           struct restore_reader *reader, struct restore_run **out_run,
                           const char **out_why)
{
    (void)restore;
    assert_true(query->only_ids);
    *out_why = "away";
    if (fake->away)
        return ERR_AGAIN;
    fake->run = (struct restore_run){.reader = reader};
    memcpy(fake->run.snapshot, database.rows, sizeof(fake->run.snapshot));
    fake->reads = true;
    *out_run = &fake->run;
    return OK;
}

static struct restore_row *rows_take(struct restore_run *run)
{
    while (run->next < NAMES) {
        unsigned i = run->next++;
        if (run->snapshot[i].there && !run->snapshot[i].ended)
            return row_of_run(i);
        if (once_in(30))
            return NULL; /* the next have not come yet */
    }
    return NULL;
}

static struct restore_row *row_of_run(unsigned i)
{
    fake->run.row = (struct restore_row){.push.id = bytes_str(ids[i])};
    return &fake->run.row;
}

static void rows_settle(struct restore_run *run, struct restore_row *row)
{
    assert_ptr_equal(row, &run->row);
}

static bool rows_ended(const struct restore_run *run, enum err *out_err, const char **out_why)
{
    *out_err = once_in(3) ? ERR_AGAIN : OK; /* the connection was lost */
    *out_why = "lost";
    return run->next == NAMES;
}

static void rows_close(struct restore_run *run)
{
    assert_ptr_equal(run, &fake->run);
    fake->reads = false;
}

static const struct restore_verbs rows_verbs = {.begin = rows_begin,
                                                .take = rows_take,
                                                .settle = rows_settle,
                                                .ended = rows_ended,
                                                .close = rows_close};

static struct restore *journal_restore(struct journal *journal)
{
    return &of(journal)->restore;
}

static const struct journal_verbs verbs = {.begin = journal_begin,
                                           .again = journal_again,
                                           .give = journal_give,
                                           .status = journal_status,
                                           .stop = journal_stop,
                                           .restore = journal_restore,
                                           .ended = journal_ended};

/* ---- the queue ---- */

static void boot(void)
{
    assert_int_equal(world_boot(world), OK);
    fake = mem_zalloc(sizeof(*fake));
    fake->journal.verbs = &verbs;
    fake->restore.verbs = &rows_verbs;
    struct embedded_journal options = {
        .journal = &fake->journal, .max_lag_bytes = UINT64_MAX, .max_lag_us = INT64_MAX / 2};
    assert_int_equal(embedded_follow(world_embedded(world), &options), OK);
}

static void end(bool crash)
{
    if (crash)
        world_crash(world, once_in(2) ? WORLD_KILL : WORLD_POWER);
    else
        assert_true(world_stop(world));
    free_held();
    mem_free(fake);
    fake = NULL;
}

struct asked {
    struct ticket ticket;
    bool answered, found;
    struct row row;
    uint64_t lease;
};

static void answered(struct ticket *ticket, const struct reply *reply)
{
    struct asked *asked = LIST_ENTRY(ticket, struct asked, ticket);
    asked->answered = true;
    asked->found = reply->err == OK && reply->count;
    if (!asked->found)
        return;
    const struct job_view *job = reply->jobs;
    asked->lease = job->lease;
    asked->row = (struct row){.there = true,
                              .buried = job->state == JOB_BURIED,
                              .priority = job->priority,
                              .due_us = job->due_us,
                              .body = job->body.len ? strtoull(job->body.at, NULL, 10) : 0};
}

/* Gives it; its answer is waited for if `asked`. */
static void submit(const struct cmd *cmd, struct asked *asked)
{
    struct engine *engine = embedded_engine(world_embedded(world));
    if (asked)
        *asked = (struct asked){.ticket.answered = answered};
    (void)engine->verbs->submit(engine, cmd, asked ? &asked->ticket : NULL);
    for (unsigned i = 0; asked && !asked->answered && i < 1000; i++)
        world_run(world, world_now_us(world) + MS);
    assert_true(!asked || asked->answered);
}

static void push(unsigned i)
{
    char body[BODY_MAX + 1];
    size_t len = 24 + (once_in(3) ? sim_random_below(&chance, BODY_MAX - 24) : 0);
    memset(body, ' ', sizeof(body));
    (void)snprintf(body, 22, "%llu", (unsigned long long)++bodies);
    int64_t delay_us = once_in(2) ? (int64_t)sim_random_below(&chance, 7200) * 1000 * MS : 0;
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.id = bytes_str(ids[i]),
                               .topic = i % 2 ? BYTES("odd") : BYTES("even"),
                               .due_us = world_now_us(world) + delay_us,
                               .ttr_us = INT64_C(3600) * 1000 * MS,
                               .priority = (uint32_t)sim_random_below(&chance, 9),
                               .if_exists = once_in(2) ? IF_EXISTS_REPLACE : IF_EXISTS_KEEP,
                               .body = bytes_of(body, len)}};
    submit(&cmd, NULL);
}

static void take_one(void)
{
    struct bytes topics[] = {BYTES("odd"), BYTES("even")};
    static const enum cmd_kind kinds[] = {CMD_FINISH, CMD_BURY, CMD_RELEASE};
    struct asked asked;
    struct cmd cmd = {
        .kind = CMD_RESERVE,
        .reserve = {.topics = topics, .topic_count = 2, .max = 1, .bound = once_in(3)}};
    struct engine *engine = embedded_engine(world_embedded(world));
    asked = (struct asked){.ticket.answered = answered};
    (void)engine->verbs->submit(engine, &cmd, &asked.ticket);
    for (unsigned i = 0; !asked.answered && i < 1000; i++)
        world_run(world, world_now_us(world) + MS);
    if (!asked.found || once_in(4))
        return;
    unsigned i = 0;
    while (i < NAMES && !core_holds(world_core(world), &(struct job_ref){.id = bytes_str(ids[i])}))
        i++;
    for (; i < NAMES; i++) { /* whose it is, nobody said: the lease fits one alone */
        struct cmd next = {.kind = kinds[sim_random_below(&chance, 3)],
                           .job = {.ref.id = bytes_str(ids[i]), .lease = asked.lease}};
        submit(&next, NULL);
    }
}

static void change(void)
{
    unsigned i = (unsigned)sim_random_below(&chance, NAMES);
    struct cmd cmd = {.job.ref.id = bytes_str(ids[i])};
    switch (sim_random_below(&chance, 6)) {
    case 0:
    case 1: push(i); return;
    case 2: take_one(); return;
    case 3: cmd.kind = CMD_DELETE; break;
    case 4: cmd.kind = CMD_KICK; break;
    default:
        cmd.kind = CMD_RESCHEDULE;
        cmd.job.has_due = true;
        cmd.job.due_us = world_now_us(world) + (int64_t)sim_random_below(&chance, 7200) * 1000 * MS;
    }
    submit(&cmd, NULL);
}

static void damage(void)
{
    struct row *row = &database.rows[sim_random_below(&chance, NAMES)];
    switch (sim_random_below(&chance, 4)) {
    case 0: row->there = false; break;
    case 1: row->ended = !row->ended; break;
    case 2: row->body++; break;
    default: *row = (struct row){.there = true, .body = 1, .due_us = 5};
    }
}

static void live(unsigned changes)
{
    for (unsigned i = 0; i < changes; i++) {
        if (once_in(3))
            change();
        if (once_in(2))
            database_lives();
        if (once_in(2))
            world_run(world, world_now_us(world) + (int64_t)sim_random_below(&chance, 3 * MS));
    }
}

/* ---- at the end ---- */

static struct resync_status status_of(void)
{
    struct resync_status status;
    struct journal_control *control = embedded_journal_control(world_embedded(world));
    control->verbs->resync_status(control, &status);
    return status;
}

/* A command may still wait for a disk that reads. */
static void catch_up(void)
{
    unsigned idle_steps = 0;
    fake->away = false;
    for (unsigned i = 0; i < 20000; i++) {
        world_run(world, world_now_us(world) + 5 * MS);
        if (fake->away)
            fake->away = false;
        database_lives();
        bool idle = !fake->held.first && status_of().state != RESYNC_RUNS &&
                    database.cursor >= store_batch(world_store(world));
        idle_steps = idle ? idle_steps + 1 : 0;
        if (idle_steps == 20)
            return;
    }
    fail_msg("it does not come to an end: %s", status_of().why);
}

static void compare(uint64_t seed)
{
    for (unsigned i = 0; i < NAMES; i++) {
        struct asked asked;
        struct cmd cmd = {.kind = CMD_GET, .job.ref.id = bytes_str(ids[i])};
        submit(&cmd, &asked);
        const struct row *row = &database.rows[i];
        bool lives = row->there && !row->ended;
        if (lives != asked.found)
            fail_msg("seed %llu: %s is %s the queue", (unsigned long long)seed, ids[i],
                     lives ? "not in" : "only in");
        if (!lives)
            continue;
        if (row->body != asked.row.body || row->due_us != asked.row.due_us ||
            row->priority != asked.row.priority || row->buried != asked.row.buried)
            fail_msg("seed %llu: %s differs: body %llu, %llu; due %lld, %lld; buried %d, %d",
                     (unsigned long long)seed, ids[i], (unsigned long long)row->body,
                     (unsigned long long)asked.row.body, (long long)row->due_us,
                     (long long)asked.row.due_us, row->buried, asked.row.buried);
    }
}

static void begin_resync(void)
{
    struct journal_control *control = embedded_journal_control(world_embedded(world));
    const char *why;
    while (control->verbs->resync(control, &why) == ERR_AGAIN) {
        fake->away = false;
        database_lives();
    }
}

static void begin(uint64_t seed, bool far)
{
    memset(&database, 0, sizeof(database));
    chance.state = seed;
    bodies = 0;
    world = world_new(&(struct world_options){.seed = seed,
                                              .disk_us = 2 * MS,
                                              .read_us = 4 * MS,
                                              .segment_bytes = 64 * 1024,
                                              .checkpoint_bytes = far ? 64 * 1024 : 0,
                                              .horizon_us = far ? INT64_C(60) * 1000 * MS : 0});
    for (unsigned i = 0; i < NAMES; i++)
        (void)snprintf(ids[i], ID_BYTES, "j%u", i);
    boot();
}

static void finish(uint64_t seed)
{
    bool noted = database.resyncing;
    catch_up();
    enum resync_state done = status_of().state;
    assert_true(!noted || done == RESYNC_DONE || done == RESYNC_FAILED);
    if (done != RESYNC_DONE || fake->stopped) { /* the end came before it was noted */
        begin_resync();
        catch_up();
    }
    assert_false(database.resyncing);
    compare(seed);
    end(false);
    world_free(world);
}

static void rows_are_made_right_beside_a_load(void **state)
{
    (void)state;
    for (uint64_t seed = 200; seed < 200 + sim_lives(SEEDS); seed++) {
        begin(seed, seed % 2);
        for (unsigned i = 0; i < NAMES; i++)
            push(i);
        live(600);
        for (unsigned i = 0; i < NAMES / 2; i++)
            damage();
        begin_resync();
        live(600);
        finish(seed);
    }
}

static void it_begins_again_after_a_crash(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 100 + sim_lives(SEEDS); seed++) {
        begin(seed, seed % 2);
        for (unsigned i = 0; i < NAMES; i++)
            push(i);
        live(200);
        for (unsigned i = 0; i < NAMES / 2; i++)
            damage();
        begin_resync();
        for (unsigned round = 0; round < 4; round++) {
            live((unsigned)sim_random_below(&chance, 150));
            end(true);
            boot();
        }
        finish(seed);
    }
}

static void a_database_that_is_an_older_copy_is_made_right(void **state)
{
    (void)state;
    for (uint64_t seed = 200; seed < 200 + sim_lives(SEEDS); seed++) {
        begin(seed, seed % 2);
        for (unsigned i = 0; i < NAMES; i++)
            push(i);
        live(300);
        struct row *older = mem_alloc(sizeof(database.rows));
        memcpy(older, database.rows, sizeof(database.rows));
        uint64_t cursor = database.cursor;
        live(400);
        catch_up();
        end(once_in(2));
        memcpy(database.rows, older, sizeof(database.rows));
        mem_free(older);
        database.cursor = cursor;
        boot();
        live(50);
        begin_resync();
        live(200);
        finish(seed);
    }
}

struct taken {
    struct ticket ticket;
    unsigned count;
    char ids[NAMES][ID_BYTES];
    uint64_t leases[NAMES];
};

static void jobs_taken(struct ticket *ticket, const struct reply *reply)
{
    struct taken *taken = LIST_ENTRY(ticket, struct taken, ticket);
    for (uint32_t i = 0; i < reply->count; i++, taken->count++) {
        struct bytes id = reply->jobs[i].ref.id;
        (void)snprintf(taken->ids[taken->count], ID_BYTES, "%.*s", (int)id.len, id.at);
        taken->leases[taken->count] = reply->jobs[i].lease;
    }
}

/* Takes and gives back one job so often, while the database is away. */
static void move_one(unsigned moves)
{
    struct job_ref ref = {.id = bytes_str(ids[1])};
    struct engine *engine = embedded_engine(world_embedded(world));
    struct taken *taken = mem_zalloc(sizeof(*taken));
    for (unsigned i = 0; i < moves; i++) {
        struct cmd reserve = {.kind = CMD_RESERVE_JOB, .job.ref = ref};
        taken->count = 0;
        taken->ticket.answered = jobs_taken;
        (void)engine->verbs->submit(engine, &reserve, &taken->ticket);
        struct cmd release = {.kind = CMD_RELEASE, .job = {.ref = ref, .lease = taken->leases[0]}};
        submit(&release, NULL);
    }
    mem_free(taken);
}

/* They leave those that are not delayed, and come to the delayed behind the listing of these. */
static void move_meanwhile(unsigned moves_of_one)
{
    struct taken *taken = mem_zalloc(sizeof(*taken));
    struct bytes topic = BYTES("even");
    begin(1, false);
    for (unsigned i = 0; i < NAMES; i += 2) {
        struct cmd cmd = {.kind = CMD_PUSH,
                          .push = {.id = bytes_str(ids[i]),
                                   .topic = topic,
                                   .ttr_us = INT64_C(3600) * 1000 * MS,
                                   .body = BYTES("7 ")}};
        submit(&cmd, NULL);
    }
    push(1);
    catch_up();
    struct engine *engine = embedded_engine(world_embedded(world));
    struct cmd reserve = {.kind = CMD_RESERVE,
                          .reserve = {.topics = &topic, .topic_count = 1, .max = NAMES}};
    taken->ticket.answered = jobs_taken;
    (void)engine->verbs->submit(engine, &reserve, &taken->ticket);
    catch_up();
    assert_int_equal(taken->count, NAMES / 2);
    memset(database.rows, 0, sizeof(database.rows));
    begin_resync();
    while (moves_of_one && status_of().jobs_total == 0) /* then it looks for jobs */
        (void)world_step(world, world_now_us(world) + MS);
    for (unsigned listed = 0; moves_of_one && listed < 3; listed++)
        (void)world_step(world, world_now_us(world) + MS);
    move_one(moves_of_one);
    for (unsigned i = 0; i < taken->count; i++) {
        struct cmd release = {.kind = CMD_RELEASE,
                              .job = {.ref.id = bytes_str(taken->ids[i]),
                                      .lease = taken->leases[i],
                                      .has_delay = true,
                                      .due_us = world_now_us(world) + INT64_C(3600) * 1000 * MS}};
        submit(&release, NULL);
        if (i % 4 == 0)
            (void)world_step(world, world_now_us(world) + MS);
    }
    mem_free(taken);
    catch_up();
    compare(1);
    finish(1);
}

static void jobs_that_move_meanwhile_are_not_missed(void **state)
{
    (void)state;
    move_meanwhile(0);
}

/* More than are noted: then all are looked for again. */
static void nor_if_more_move_than_are_noted(void **state)
{
    (void)state;
    move_meanwhile(70000);
}

/* Its images may be ahead of the disk: until that has what they say it is not over. */
static void it_ends_no_sooner_than_the_disk_has_what_it_gave(void **state)
{
    (void)state;
    begin(1, false);
    for (unsigned i = 0; i < NAMES; i++)
        push(i);
    catch_up();
    world_hold_disk(world, true);
    for (unsigned i = 0; i < NAMES; i++)
        push(i);
    begin_resync();
    fake->away = false;
    for (unsigned i = 0; i < 200; i++) {
        world_run(world, world_now_us(world) + MS);
        fake->away = false;
        database_lives();
    }
    assert_true(database.resyncing);
    assert_int_equal(status_of().state, RESYNC_RUNS);
    world_hold_disk(world, false);
    end(true);
    boot();
    finish(1);
}

/* The second time, when the store has read all bodies once, and keeps what it keeps of them. */
static void numbers_that_were_got_take_no_memory(void **state)
{
    (void)state;
    enum { ROOM = 512 * 1024 };
    begin(1, false);
    for (unsigned i = 0; i < MANY; i++) {
        char id[ID_BYTES];
        (void)snprintf(id, sizeof(id), "j%u", i);
        struct cmd cmd = {.kind = CMD_PUSH,
                          .push = {.id = bytes_str(id),
                                   .topic = BYTES("even"),
                                   .due_us = world_now_us(world) + INT64_C(7200) * 1000 * MS,
                                   .ttr_us = INT64_C(3600) * 1000 * MS,
                                   .body = BYTES("7 ")}};
        submit(&cmd, NULL);
        if (i % 500 == 0)
            world_run(world, world_now_us(world) + MS);
    }
    catch_up();
    begin_resync();
    catch_up();
    begin_resync();
    size_t before = mem_used(), most = 0;
    while (status_of().state == RESYNC_RUNS) {
        world_run(world, world_now_us(world) + MS);
        do {
            fake->away = false;
            database_lives();
        } while (fake->held.first);
        most = mem_used() > most ? mem_used() : most;
    }
    assert_int_equal(status_of().state, RESYNC_DONE);
    assert_int_equal(status_of().jobs, MANY);
    if (most > before + ROOM)
        fail_msg("a resync of %d jobs takes %zu bytes", MANY, most - before);
    finish(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_were_got_take_no_memory),
        cmocka_unit_test(jobs_that_move_meanwhile_are_not_missed),
        cmocka_unit_test(nor_if_more_move_than_are_noted),
        cmocka_unit_test(it_ends_no_sooner_than_the_disk_has_what_it_gave),
        cmocka_unit_test(rows_are_made_right_beside_a_load),
        cmocka_unit_test(it_begins_again_after_a_crash),
        cmocka_unit_test(a_database_that_is_an_older_copy_is_made_right),
    };
    return cmocka_run_group_tests_name("journal/resync", tests, NULL, NULL);
}
