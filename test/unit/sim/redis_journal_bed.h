/*
 * A simulated database that a journal of simulated daemons writes to, and clients that change jobs.
 * Its commits succeed or are undone as a whole, may arrive when their daemon is dead, and fence as
 * MySQL's do.
 */
#ifndef LATERD_TEST_REDIS_JOURNAL_BED_H
#define LATERD_TEST_REDIS_JOURNAL_BED_H

#include <stdlib.h>

#include "base/mem.h"
#include "redis_bed.h"
#include "sim/random.h"
#include "store/record.h"

enum { NAMES = 40, NUMBERED = 4096, PARTITIONS = 2 };

static struct sim_random chance;
static char large[2000];

/* ---- the database ---- */

struct row {
    bool there, ended;
    bool brought; /* by a restore that left no entry, so that it may have another number by now */
    enum job_state state;
    uint32_t priority;
    int64_t due_us;
    uint64_t seq;
    uint64_t name;  /* of a job without an id: the number by which it is called ever after */
    unsigned store; /* the store that gave that: database.stores then */
};

static struct {
    uint64_t epoch, batch;
    bool has_cursor;
    uint8_t store[JOURNAL_STORE_BYTES];
    struct journal_stream at[PARTITIONS];
    struct row rows[NAMES];
    struct row numbered[NUMBERED]; /* of jobs without ids, by their seq */
    unsigned numbered_count, stores;
    uint64_t changes;  /* rows of the log */
    uint64_t restored; /* jobs that a restore has pushed */
} database;

struct fake {
    struct journal journal;
    struct restore restore; /* a test's, who reads rows back */
    struct fake *next;      /* of those that live */
    struct journal_begin begin;
    struct queue held; // journal_batch::place
    size_t held_bytes;
    uint64_t epoch;
    enum journal_phase phase;
    bool known, made;
    bool leaves; /* it takes no cursor any more */
    bool over;   /* it has ended, so that to close it waits for nothing */
    struct journal_stream begun[PARTITIONS];
};

static struct fake *fakes;
static bool turning;     /* daemons run: nobody may wait for a journal's end */
static unsigned stopped; /* journals that were told to: out of step */

static inline struct journal_batch *batch_of(struct queue_node *node)
{
    return LIST_ENTRY(node, struct journal_batch, place);
}

static inline void drop_held(struct fake *fake)
{
    struct queue_node *node;
    while ((node = queue_take(&fake->held)))
        mem_free(batch_of(node));
    fake->held_bytes = 0;
}

/* A large body, and properties, lie elsewhere in Redis than the job's record. */
static inline void expect_body(const struct event *event)
{
    bool is_large = bytes_eq(event->body, bytes_of(large, sizeof(large)));
    bool is_other = bytes_eq(event->body, BYTES("another")); /* it keeps the properties */
    assert_true(is_large || is_other || bytes_eq(event->body, BYTES("body")));
    assert_true(is_other || is_large == bytes_eq(event->properties, BYTES("p")));
}

/* The row of that job. */
static inline struct row *row_of(const struct event *event)
{
    if (event->id.len == 2)
        return &database.rows[(event->id.at[1] - 'A') % NAMES];
    char text[24] = "";
    memcpy(text, event->id.at, event->id.len < sizeof(text) ? event->id.len : sizeof(text) - 1);
    uint64_t name = event->id.len ? strtoull(text + 1, NULL, 10) : event->job.seq;
    for (unsigned i = 0; i < database.numbered_count; i++) {
        if (database.numbered[i].name == name)
            return &database.numbered[i];
    }
    assert_true(database.numbered_count < NUMBERED && !event->id.len);
    struct row *row = &database.numbered[database.numbered_count++];
    *row = (struct row){.name = name, .store = database.stores};
    return row;
}

static inline void apply(const struct journal_batch *batch)
{
    struct batch_walk walk;
    assert_true(batch->number == database.batch + 1);
    database.batch = batch->number;
    database.at[batch->stream] =
        (struct journal_stream){.entry = batch->entry, .mark = batch->mark};
    batch_walk_init(&walk, batch->at, batch->payload_bytes);
    while (batch_walk_next(&walk) == OK) {
        const struct event *event = &walk.record.event;
        struct row *row = row_of(event);
        bool restored = bytes_eq(event->body, BYTES("restored"));
        database.changes++;
        database.restored += restored;
        row->there |= event->kind == EVENT_JOB;
        if (event->kind == EVENT_JOB && !restored)
            expect_body(event);
        assert_true(row->there); /* of a change: its job was entered before it */
        if (event->kind == EVENT_MOVE && !row->brought)
            assert_int_equal(row->seq, event->job.seq);
        row->brought = false;
        row->seq = event->job.seq;
        row->ended = event->kind == EVENT_GONE;
        row->state = event->job.state;
        row->priority = event->job.priority;
        row->due_us = event->job.due_us;
    }
}

/* All that it holds, or nothing. */
static inline void commit(struct fake *fake)
{
    if (!fake->known || !fake->held.first)
        return;
    if (!database.has_cursor || database.epoch != fake->epoch) {
        fake->phase = JOURNAL_FENCED;
        return;
    }
    for (struct queue_node *node = fake->held.first; node; node = node->next)
        apply(batch_of(node));
    drop_held(fake);
}

static inline void take_cursor(struct fake *fake)
{
    if (database.has_cursor)
        assert_memory_equal(database.store, fake->begin.store, sizeof(database.store));
    memcpy(database.store, fake->begin.store, sizeof(database.store));
    fake->made = !database.has_cursor;
    if (fake->made) { /* nobody's places are in a new one */
        database.batch = 0;
        memset(database.at, 0, sizeof(database.at));
    }
    database.has_cursor = fake->known = true;
    fake->epoch = ++database.epoch;
    fake->phase = JOURNAL_WRITES;
    memcpy(fake->begun, database.at, sizeof(fake->begun));
}

static inline void begin(struct journal *journal, const struct journal_begin *begin)
{
    ((struct fake *)journal)->begin = *begin; /* its first member */
}

static inline void give(struct journal *journal, struct journal_batch *batch)
{
    struct fake *fake = (struct fake *)journal;
    queue_add(&fake->held, &batch->place);
    fake->held_bytes += batch->bytes;
}

static inline void status(struct journal *journal, struct journal_status *out_status)
{
    struct fake *fake = (struct fake *)journal;
    *out_status = (struct journal_status){.phase = fake->phase,
                                          .known = fake->known,
                                          .made = fake->made,
                                          .done = database.batch,
                                          .held_bytes = fake->held_bytes};
}

static inline void streams(struct journal *journal, struct journal_stream *out_streams)
{
    memcpy(out_streams, ((struct fake *)journal)->begun, sizeof(database.at));
}

static inline void stop_it(struct journal *journal, const char *why)
{
    (void)why;
    stopped++;
    drop_held((struct fake *)journal);
}

static inline void close_it(struct journal *journal, int64_t grace_us)
{
    struct fake **at = &fakes, *fake = (struct fake *)journal;
    (void)grace_us;
    assert_true(fake->over || !turning);
    if (sim_random_chance(&chance, 500))
        commit(fake); /* what was on its way arrives all the same */
    drop_held(fake);
    while (*at != fake)
        at = &(*at)->next;
    *at = fake->next;
    mem_free(fake);
}

/* It may be a while until it has ended. */
static inline bool leave_it(struct journal *journal, bool at_once)
{
    struct fake *fake = (struct fake *)journal;
    fake->leaves = true;
    fake->over |= at_once || sim_random_chance(&chance, 200);
    return fake->over;
}

static const struct restore_verbs *readers; /* a test's */

static inline struct restore *restore_of(struct journal *journal)
{
    struct fake *fake = (struct fake *)journal;
    fake->restore.verbs = readers;
    return &fake->restore;
}

static const struct journal_verbs fake_verbs = {.begin = begin,
                                                .give = give,
                                                .status = status,
                                                .streams = streams,
                                                .stop = stop_it,
                                                .restore = restore_of,
                                                .leave = leave_it,
                                                .close = close_it};

static inline struct journal *make(struct journal_maker *maker)
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
static inline void work(unsigned per_mille)
{
    for (struct fake *fake = fakes; fake; fake = fake->next) {
        if (!sim_random_chance(&chance, per_mille))
            continue;
        if (fake->known)
            commit(fake);
        else if (!fake->leaves)
            take_cursor(fake);
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

static inline void asked_answered(struct ticket *ticket, const struct reply *reply)
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

static inline void submit(const struct cmd *cmd, struct asked *asked)
{
    struct engine *port = redis_engine_port(engine);
    *asked = (struct asked){.ticket.answered = asked_answered};
    (void)port->verbs->submit(port, cmd, &asked->ticket); /* it is told */
}

static inline struct cmd some_push(struct bytes id)
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

static inline struct cmd some_change(struct bytes id)
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

static inline void some_command(void)
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

static bool paired, second; /* the second daemon is what all is about */

static inline void kill_daemon(unsigned daemon)
{
    turning = false;
    redis_engine_free(engine);
    engine = NULL;
    sim_network_end(network, daemon);
    options.loop = sim_network_start(network, daemon, &clock_of_all);
    assert_int_equal(start(), OK);
}

static inline void both_turn(unsigned per_mille)
{
    turning = true;
    for (unsigned i = 0; i < 2; i++) {
        turn();
        change_daemon();
    }
    work(per_mille);
}

/* As the queue is now; its daemons have time. */
static inline void expect_rows(void)
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
        if (!row->brought)
            assert_int_equal(row->seq, asked.row.seq);
        assert_int_equal(row->priority, asked.row.priority);
        assert_int_equal(row->due_us, asked.row.due_us);
        assert_int_equal(row->state == JOB_BURIED, asked.row.state == JOB_BURIED);
    }
}

static inline int end_pair(void **state)
{
    turning = false;
    if (paired && !second)
        change_daemon();
    if (paired)
        stop_pair();
    paired = false;
    return teardown(state);
}

#endif
