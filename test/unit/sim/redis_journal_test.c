/*
 * The journal of a queue on a simulated Redis: daemons change jobs and are killed at any moment,
 * and what a simulated database has at the end is the queue. Its commits succeed or are undone as a
 * whole, may arrive when their daemon is dead, and fence as MySQL's do. Time is simulated.
 */
#include "base/mem.h"
#include "redis_bed.h"
#include "sim/random.h"
#include "store/record.h"

enum { NAMES = 40, STEPS = 1500, PARTITIONS = 2, LIVES = 6 };

static struct sim_random chance;
static char large[2000];
static bool paired, second; /* the second daemon is what all is about */

/* ---- the database ---- */

struct row {
    bool there, ended;
    enum job_state state;
    uint32_t priority;
    int64_t due_us;
    uint64_t seq;
};

static struct {
    uint64_t epoch, batch;
    bool has_cursor;
    uint8_t store[JOURNAL_STORE_BYTES];
    struct journal_stream at[PARTITIONS];
    struct row rows[NAMES];
    uint64_t changes; /* rows of the log */
} database;

struct fake {
    struct journal journal;
    struct fake *next; /* of those that live */
    struct journal_begin begin;
    struct queue held; // journal_batch::place
    size_t held_bytes;
    uint64_t epoch;
    enum journal_phase phase;
    bool known, made;
    struct journal_stream begun[PARTITIONS];
};

static struct fake *fakes;
static unsigned stopped; /* journals that were told to: out of step */

static struct journal_batch *batch_of(struct queue_node *node)
{
    return LIST_ENTRY(node, struct journal_batch, place);
}

static void drop_held(struct fake *fake)
{
    struct queue_node *node;
    while ((node = queue_take(&fake->held)))
        mem_free(batch_of(node));
    fake->held_bytes = 0;
}

/* A large body, and properties, lie elsewhere in Redis than the job's record. */
static void expect_body(const struct event *event)
{
    bool is_large = bytes_eq(event->body, bytes_of(large, sizeof(large)));
    bool is_other = bytes_eq(event->body, BYTES("another")); /* it keeps the properties */
    assert_true(is_large || is_other || bytes_eq(event->body, BYTES("body")));
    assert_true(is_other || is_large == bytes_eq(event->properties, BYTES("p")));
}

static void apply(const struct journal_batch *batch)
{
    struct batch_walk walk;
    assert_true(batch->number == database.batch + 1);
    database.batch = batch->number;
    database.at[batch->stream] =
        (struct journal_stream){.entry = batch->entry, .mark = batch->mark};
    batch_walk_init(&walk, batch->at, batch->payload_bytes);
    while (batch_walk_next(&walk) == OK) {
        const struct event *event = &walk.record.event;
        assert_int_equal(event->id.len, 2);
        struct row *row = &database.rows[(event->id.at[1] - 'A') % NAMES];
        database.changes++;
        if (event->kind == EVENT_JOB) {
            row->there = true;
            expect_body(event);
        }
        assert_true(row->there); /* of a change: its job was entered before it */
        if (event->kind == EVENT_MOVE)
            assert_int_equal(row->seq, event->job.seq);
        row->seq = event->job.seq;
        row->ended = event->kind == EVENT_GONE;
        row->state = event->job.state;
        row->priority = event->job.priority;
        row->due_us = event->job.due_us;
    }
}

/* All that it holds, or nothing. */
static void commit(struct fake *fake)
{
    if (!fake->known || !fake->held.first)
        return;
    if (database.epoch != fake->epoch) {
        fake->phase = JOURNAL_FENCED;
        return;
    }
    for (struct queue_node *node = fake->held.first; node; node = node->next)
        apply(batch_of(node));
    drop_held(fake);
}

static void take_cursor(struct fake *fake)
{
    if (database.has_cursor)
        assert_memory_equal(database.store, fake->begin.store, sizeof(database.store));
    memcpy(database.store, fake->begin.store, sizeof(database.store));
    fake->made = !database.has_cursor;
    database.has_cursor = fake->known = true;
    fake->epoch = ++database.epoch;
    fake->phase = JOURNAL_WRITES;
    memcpy(fake->begun, database.at, sizeof(fake->begun));
}

static void begin(struct journal *journal, const struct journal_begin *begin)
{
    ((struct fake *)journal)->begin = *begin; /* its first member */
}

static void give(struct journal *journal, struct journal_batch *batch)
{
    struct fake *fake = (struct fake *)journal;
    queue_add(&fake->held, &batch->place);
    fake->held_bytes += batch->bytes;
}

static void status(struct journal *journal, struct journal_status *out_status)
{
    struct fake *fake = (struct fake *)journal;
    *out_status = (struct journal_status){.phase = fake->phase,
                                          .known = fake->known,
                                          .made = fake->made,
                                          .done = database.batch,
                                          .held_bytes = fake->held_bytes};
}

static void streams(struct journal *journal, struct journal_stream *out_streams)
{
    memcpy(out_streams, ((struct fake *)journal)->begun, sizeof(database.at));
}

static void stop_it(struct journal *journal, const char *why)
{
    (void)why;
    stopped++;
    drop_held((struct fake *)journal);
}

static void close_it(struct journal *journal, int64_t grace_us)
{
    struct fake **at = &fakes, *fake = (struct fake *)journal;
    (void)grace_us;
    if (sim_random_chance(&chance, 500))
        commit(fake); /* what was on its way arrives all the same */
    drop_held(fake);
    while (*at != fake)
        at = &(*at)->next;
    *at = fake->next;
    mem_free(fake);
}

static const struct journal_verbs fake_verbs = {.begin = begin,
                                                .give = give,
                                                .status = status,
                                                .streams = streams,
                                                .stop = stop_it,
                                                .close = close_it};

static struct journal *make(struct journal_maker *maker)
{
    (void)maker;
    struct fake *fake = mem_zalloc(sizeof(*fake));
    fake->journal.verbs = &fake_verbs;
    fake->phase = JOURNAL_AWAY;
    fake->next = fakes;
    fakes = fake;
    return &fake->journal;
}

static struct journal_maker maker = {.make = make};

/* The database works, for whom it likes. */
static void work(unsigned per_mille)
{
    for (struct fake *fake = fakes; fake; fake = fake->next) {
        if (!sim_random_chance(&chance, per_mille))
            continue;
        if (!fake->known)
            take_cursor(fake);
        else
            commit(fake);
        if (fake->journal.changed)
            fake->journal.changed(&fake->journal);
    }
}

/* ---- clients ---- */

struct asked {
    struct ticket ticket;
    bool answered;
    enum err err;
    struct row row; /* of its job */
};

static void asked_answered(struct ticket *ticket, const struct reply *reply)
{
    struct asked *asked = (struct asked *)ticket; /* its first member */
    asked->answered = true;
    asked->err = reply->err;
    if (!reply->err && reply->count && reply->jobs)
        asked->row = (struct row){.there = true,
                                  .state = reply->jobs->state,
                                  .priority = reply->jobs->priority,
                                  .due_us = reply->jobs->due_us,
                                  .seq = reply->jobs->ref.seq};
}

static void submit(const struct cmd *cmd, struct asked *asked)
{
    struct engine *port = redis_engine_port(engine);
    *asked = (struct asked){.ticket.answered = asked_answered};
    (void)port->verbs->submit(port, cmd, &asked->ticket); /* it is told */
}

static struct cmd some_push(struct bytes id)
{
    bool is_large = sim_random_chance(&chance, 300);
    return (struct cmd){
        .kind = CMD_PUSH,
        .push = {.id = id,
                 .topic = BYTES("t"),
                 .due_us = now_us + (int64_t)sim_random_below(&chance, 3) * SECOND_US,
                 .ttr_us = SECOND_US,
                 .priority = (uint32_t)sim_random_below(&chance, 9),
                 .if_exists = sim_random_chance(&chance, 300) ? IF_EXISTS_REPLACE : IF_EXISTS_KEEP,
                 .body = is_large ? bytes_of(large, sizeof(large)) : BYTES("body"),
                 .properties = is_large ? BYTES("p") : (struct bytes){0}}};
}

static struct cmd some_change(struct bytes id)
{
    static const enum cmd_kind kinds[] = {CMD_DELETE,  CMD_KICK, CMD_RESERVE_JOB, CMD_RESCHEDULE,
                                          CMD_RELEASE, CMD_BURY, CMD_FINISH,      CMD_TOUCH};
    enum cmd_kind kind = kinds[sim_random_below(&chance, 8)];
    return (struct cmd){.kind = kind,
                        .job = {.ref.id = id,
                                .has_due = kind == CMD_RESCHEDULE,
                                .due_us = now_us + SECOND_US,
                                .has_priority = true,
                                .priority = 3,
                                .has_body = kind == CMD_RESCHEDULE && now_us % 2,
                                .body = BYTES("another")}};
}

static void some_command(void)
{
    static const struct bytes topic = {"t", 1};
    static struct asked asked[64];
    static unsigned at;
    char name[2] = {'k', (char)('A' + sim_random_below(&chance, NAMES))};
    struct bytes id = bytes_of(name, sizeof(name));
    struct cmd cmd = {
        .kind = CMD_RESERVE,
        .reserve = {.topics = &topic, .topic_count = 1, .max = 3, .bound = at % 3 == 0}};
    unsigned way = (unsigned)sim_random_below(&chance, 10);
    if (way < 4)
        cmd = some_push(id);
    else if (way < 8)
        cmd = some_change(id);
    struct asked *next = &asked[at++ % 64];
    if (next->answered || !next->ticket.answered)
        submit(&cmd, next);
}

/* ---- daemons ---- */

static void kill_daemon(unsigned daemon)
{
    redis_engine_free(engine);
    engine = NULL;
    sim_network_end(network, daemon);
    options.loop = sim_network_start(network, daemon, &clock_of_all);
    assert_int_equal(start(), OK);
}

static void both_turn(unsigned per_mille)
{
    for (unsigned i = 0; i < 2; i++) {
        turn();
        change_daemon();
    }
    work(per_mille);
}

/* As the queue is now; its daemons have time. */
static void expect_rows(void)
{
    for (unsigned i = 0; i < NAMES; i++) {
        char name[2] = {'k', (char)('A' + i)};
        struct cmd cmd = {.kind = CMD_GET, .job.ref.id = bytes_of(name, sizeof(name))};
        struct asked asked;
        submit(&cmd, &asked);
        while (!asked.answered)
            both_turn(1000);
        const struct row *row = &database.rows[i];
        assert_int_equal(asked.err == OK, row->there && !row->ended);
        if (asked.err)
            continue;
        assert_int_equal(row->seq, asked.row.seq);
        assert_int_equal(row->priority, asked.row.priority);
        assert_int_equal(row->due_us, asked.row.due_us);
        assert_int_equal(row->state == JOB_BURIED, asked.row.state == JOB_BURIED);
    }
}

/* Entries that changes have left, both partitions'. */
static uint64_t entries_left(void)
{
    return database.at[0].entry + database.at[1].entry - PARTITIONS; /* each begins with one */
}

/* A database of nobody, and a journal that may be so far behind. */
static void set_journal(uint64_t seed, uint64_t bytes)
{
    chance = (struct sim_random){.state = seed};
    memset(&database, 0, sizeof(database));
    stopped = 0;
    add_address(7000);
    options.partitions = PARTITIONS;
    options.topics_max = 10;
    options.journal = &maker;
    options.journal_bytes = bytes;
}

static void one_life(uint64_t seed)
{
    set_journal(seed, 1 << 30);
    start_pair();
    paired = second = true;
    for (unsigned step = 0; step < STEPS; step++) {
        if (sim_random_chance(&chance, 500)) {
            change_daemon();
            second = !second;
        }
        for (unsigned i = 0; i <= sim_random_below(&chance, 4); i++) /* some go in one call */
            some_command();
        both_turn(200);
        if (sim_random_chance(&chance, 4))
            kill_daemon(second);
    }
    for (unsigned i = 0; i < 15000; i++) /* leases end, jobs fall due, the database catches up */
        both_turn(500);
    expect_rows();
    assert_int_equal(stopped, 0);
    assert_true(database.changes > STEPS / 5);
    assert_int_equal(database.changes, entries_left()); /* each once */
}

static int end_pair(void **state)
{
    if (paired && !second)
        change_daemon();
    if (paired)
        stop_pair();
    paired = false;
    return teardown(state);
}

static void rows_are_the_queue_whoever_was_killed(void **state)
{
    for (uint64_t seed = 1; seed <= LIVES; seed++) {
        one_life(seed);
        end_pair(state);
        setup(state);
    }
}

/* The database is away. */
static void push_many(unsigned count, struct bytes body)
{
    static struct asked pool[64];
    for (unsigned i = 0; i < count; i++) {
        char name[2] = {'k', (char)('A' + i % NAMES)};
        struct asked *asked = &pool[i % 64];
        while (i >= 64 && !asked->answered)
            turn();
        submit(&(struct cmd){.kind = CMD_PUSH,
                             .push = {.id = bytes_of(name, sizeof(name)),
                                      .topic = BYTES("t"),
                                      .due_us = now_us,
                                      .ttr_us = SECOND_US,
                                      .if_exists = IF_EXISTS_REPLACE,
                                      .body = body}},
               asked);
    }
    turns(SECOND_US);
}

static void turns_and_work(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        turn();
        work(1000);
    }
}

static void an_answer_has_a_bound(void **state)
{
    static char body[100000];
    (void)state;
    set_journal(1, 1 << 30);
    options.journal_detaches = true;
    assert_int_equal(start(), OK);
    push_many(40, bytes_of(body, sizeof(body)));
    work(1000); /* it is joined, and commits nothing */
    assert_true(engine->journal.joined);
    size_t before = 0;
    for (unsigned i = 0; i < 1000; i++) {
        turn();
        assert_true(engine->journal.held_bytes - before < (256 * 1024 + 110000) * PARTITIONS);
        before = engine->journal.held_bytes;
    }
    assert_true(before > 40 * sizeof(body));
}

static void expect_journal(void)
{
    push_many(NAMES, BYTES("another"));
    turns_and_work(2000);
    for (unsigned i = 0; i < NAMES; i++)
        assert_true(database.rows[i].there);
}

/* First while no cursor is known, then with entries in the database. */
static void one_that_was_given_up_can_begin_again(void **state)
{
    (void)state;
    set_journal(1, 1 << 20);
    options.journal_detaches = true;
    assert_int_equal(start(), OK);
    push_many(14000, BYTES("another"));
    turns(20 * SECOND_US);
    expect_journal();
    assert_int_equal(stopped, 0);
    push_many(14000, BYTES("another"));
    turns(20 * SECOND_US);
    assert_int_equal(stopped, 1);
    stop();
    memset(&database, 0, sizeof(database)); /* somebody begins again */
    assert_int_equal(start(), OK);
    turns_and_work(8000);
    expect_journal();
    assert_int_equal(stopped, 1);
}

/* The database knows its cursor, and both partitions have their first entry in it. */
static void start_journal(void)
{
    set_journal(1, 1 << 30);
    options.journal_detaches = true;
    assert_int_equal(start(), OK);
    turns_and_work(3000);
    assert_int_equal(database.at[0].entry + database.at[1].entry, PARTITIONS);
}

/* Of partition 0: its owner is the first stream. */
static bool is_reading(void)
{
    const struct list *calls = &engine->calls.partitions[0].calls;
    for (const struct list *node = calls->next; node != calls; node = node->next) {
        if (LIST_ENTRY(node, struct script_request, place)->owner == engine->journal.streams)
            return true;
    }
    return false;
}

/* The engine ends while Redis owes the answer of a read. */
static void ends_during_a_read(void **state)
{
    (void)state;
    start_journal();
    while (!is_reading())
        turn();
    redis_engine_free(engine);
    engine = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ends_during_a_read, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_has_a_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_was_given_up_can_begin_again, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_are_the_queue_whoever_was_killed, setup, end_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
