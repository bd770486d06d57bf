/*
 * A resync of the journal of an embedded engine on a simulated disk: jobs are pushed, taken, moved
 * and ended, rows are damaged, the database goes away, the machine ends, and at the end the rows
 * are what the queue holds.
 */
#include "core/far.h"
#include "core/list_walk.h"
#include "resync_bed.h"

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
    enum { RESERVE_MIN = 64 }; /* one takes as many though the turn's budget is spent */
    for (unsigned calls = 0; calls <= NAMES / 2 / RESERVE_MIN; calls++) {
        (void)engine->verbs->submit(engine, &reserve, &taken->ticket);
        catch_up();
    }
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
    enum { ROOM = 512 * 1024 + LIST_WALK_MAX * sizeof(struct top_k_entry) }; /* a listing's */
    const unsigned many = sim_every() == 1 ? MANY : MANY / 4;
    begin(1, false);
    for (unsigned i = 0; i < many; i++) {
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
    assert_int_equal(status_of().jobs, many);
    if (most > before + ROOM)
        fail_msg("a resync of %u jobs takes %zu bytes", many, most - before);
    finish(1);
}

/* ---- ready jobs that may leave memory ---- */

static void push_ready(unsigned from, unsigned to)
{
    static char body[BODY_MAX / 2];
    memset(body, ' ', sizeof(body));
    body[0] = '7';
    for (unsigned i = from; i < to; i++) {
        char id[ID_BYTES];
        (void)snprintf(id, sizeof(id), "j%u", i);
        struct cmd cmd = {.kind = CMD_PUSH,
                          .push = {.id = bytes_str(id),
                                   .topic = BYTES("even"),
                                   .due_us = world_now_us(world),
                                   .ttr_us = INT64_C(3600) * 1000 * MS,
                                   .body = bytes_of(body, sizeof(body))}};
        submit(&cmd, NULL);
    }
}

static uint64_t far_ready(void)
{
    struct core_totals totals;
    core_totals(world_core(world), &totals);
    return totals.far_ready;
}

static void commit_all(void)
{
    do {
        fake->away = false;
        database_lives();
    } while (fake->held.first);
    fake->away = false;
}

/* It has listed the far ones, and looks at those in memory: none may go from the one to the other,
   neither one that is being written to a slice when it begins, nor one that the cleaner comes to.
 */
static void ready_jobs_stay_in_memory_meanwhile(void **state)
{
    (void)state;
    enum { FIRST = 500, ALL = 1000, STEP_US = 500 };
    unsigned writing = 0;
    for (unsigned after = 0; after < 150; after += 5 * sim_every()) {
        begin(after + 1, true);
        push_ready(0, FIRST);
        for (unsigned i = 0; i < after; i++) {
            world_run(world, world_now_us(world) + STEP_US);
            commit_all();
        }
        begin_resync();
        uint64_t before = far_ready();
        writing += before > 0 && before < FIRST * 3 / 4;
        push_ready(FIRST, ALL);
        for (unsigned i = 0; i < 400; i++) {
            world_run(world, world_now_us(world) + STEP_US);
            fake->away = true; /* so that it does not end */
            assert_int_equal(status_of().state, RESYNC_RUNS);
            assert_true(far_ready() <= before);
        }
        for (unsigned i = 0; status_of().state == RESYNC_RUNS; i++) {
            assert_true(i < 20000);
            commit_all();
            world_run(world, world_now_us(world) + MS);
        }
        push_ready(ALL, 3 * ALL); /* so that the log is cleaned */
        for (unsigned i = 0; far_ready() <= before; i++) {
            assert_true(i < 20000);
            world_run(world, world_now_us(world) + MS);
            commit_all();
        }
        finish(after + 1);
    }
    assert_true(writing > 0 || sim_every() > 1); /* then hardly any moment is tried */
}

/* Else the image of the job that was would be given behind the batch that has the new one. */
static void a_job_replaced_while_its_body_is_read_keeps_its_new_row(void **state)
{
    (void)state;
    struct sim_disk *disk;
    begin(1, false);
    for (unsigned i = 0; i < NAMES; i++)
        push(i);
    catch_up();
    disk = world_disk(world);
    sim_disk_cold(disk, true);
    begin_resync();
    for (unsigned i = 0; sim_disk_waiting(disk, LANE_READ) == 0; i++) {
        assert_true(i < 1000);
        commit_all();
        world_run(world, world_now_us(world) + MS / 10);
    }
    uint64_t before = status_of().jobs;
    for (unsigned i = 0; i < NAMES; i++) {
        struct cmd cmd = {.kind = CMD_PUSH,
                          .push = {.id = bytes_str(ids[i]),
                                   .topic = i % 2 ? BYTES("odd") : BYTES("even"),
                                   .due_us = world_now_us(world) + INT64_C(3600) * 1000 * MS,
                                   .ttr_us = INT64_C(3600) * 1000 * MS,
                                   .if_exists = IF_EXISTS_REPLACE,
                                   .body = BYTES("7 ")}};
        submit(&cmd, NULL);
    }
    uint64_t pushed = store_batch(world_store(world));
    for (unsigned i = 0; database.cursor < pushed; i++) {
        assert_true(i < 1000);
        world_run(world, world_now_us(world) + MS / 10);
        commit_all();
    }
    assert_true(sim_disk_waiting(disk, LANE_READ) > 0); /* of jobs that are no more */
    assert_int_equal(status_of().jobs, before);
    finish(1);
}

/* Else a turn would copy it. */
static void a_large_batch_is_given_as_the_disks_threads_have_read_it(void **state)
{
    enum { LARGE = 300 * 1024 };
    uint64_t before = mem_used();
    char *body = mem_alloc(LARGE);
    unsigned large = 0;
    (void)state;
    memset(&database, 0, sizeof(database));
    chance.state = 1;
    world = world_new(&(struct world_options){.seed = 1, .disk_us = MS, .read_us = 4 * MS});
    boot();
    catch_up();
    memset(body, ' ', LARGE);
    body[0] = '7';
    (void)snprintf(ids[0], ID_BYTES, "j0");
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.id = bytes_str(ids[0]),
                               .topic = BYTES("odd"),
                               .ttr_us = INT64_C(3600) * 1000 * MS,
                               .body = bytes_of(body, LARGE)}};
    submit(&cmd, NULL);
    for (unsigned i = 0; i < 100; i++) {
        world_run(world, world_now_us(world) + MS);
        large = 0;
        for (struct queue_node *node = fake->held.first; node; node = node->next)
            large += LIST_ENTRY(node, struct journal_batch, place)->apart != NULL;
    }
    assert_int_equal(large, 1);
    catch_up();
    assert_true(database.rows[0].there && database.rows[0].body == 7);
    end(false);
    world_free(world);
    mem_free(body);
    assert_int_equal(mem_used(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_were_got_take_no_memory),
        cmocka_unit_test(jobs_that_move_meanwhile_are_not_missed),
        cmocka_unit_test(nor_if_more_move_than_are_noted),
        cmocka_unit_test(it_ends_no_sooner_than_the_disk_has_what_it_gave),
        cmocka_unit_test(ready_jobs_stay_in_memory_meanwhile),
        cmocka_unit_test(a_job_replaced_while_its_body_is_read_keeps_its_new_row),
        cmocka_unit_test(rows_are_made_right_beside_a_load),
        cmocka_unit_test(it_begins_again_after_a_crash),
        cmocka_unit_test(a_database_that_is_an_older_copy_is_made_right),
        cmocka_unit_test(a_large_batch_is_given_as_the_disks_threads_have_read_it),
    };
    return cmocka_run_group_tests_name("journal/resync", tests, NULL, NULL);
}
