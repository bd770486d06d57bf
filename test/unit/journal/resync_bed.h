/*
 * The database of resync_test.c: a model, in which what is given is committed in groups, rows and
 * cursor as one step. For it alone.
 */
#ifndef LATERD_TEST_JOURNAL_RESYNC_BED_H
#define LATERD_TEST_JOURNAL_RESYNC_BED_H

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

static inline bool once_in(uint64_t times)
{
    return sim_random_below(&chance, times) == 0;
}

/* ---- the database ---- */

static inline struct fake *of(struct journal *journal)
{
    return (struct fake *)journal;
}

static inline void free_held(void)
{
    struct queue_node *node;
    while ((node = queue_take(&fake->held)))
        journal_batch_free(LIST_ENTRY(node, struct journal_batch, place));
    fake->held_bytes = 0;
}

static inline void take_cursor(void)
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

static inline void journal_begin(struct journal *journal, const struct journal_begin *begin)
{
    of(journal)->begin = *begin;
    of(journal)->status = (struct journal_status){.phase = JOURNAL_AWAY};
    of(journal)->stopped = false;
}

static inline bool journal_again(struct journal *journal, const struct journal_begin *begin)
{
    uint64_t resyncs = of(journal)->status.resyncs;
    if (once_in(2))
        return false;
    free_held();
    journal_begin(journal, begin);
    of(journal)->status.resyncs = resyncs;
    return true;
}

static inline void journal_give(struct journal *journal, struct journal_batch *batch)
{
    queue_add(&of(journal)->held, &batch->place);
    of(journal)->held_bytes += batch->bytes;
}

static inline void journal_status(struct journal *journal, struct journal_status *out_status)
{
    *out_status = of(journal)->status;
    out_status->held_bytes = of(journal)->held_bytes;
}

static inline void journal_stop(struct journal *journal, const char *why)
{
    (void)why;
    of(journal)->stopped = true;
    of(journal)->status.phase = JOURNAL_STOPPED;
    free_held();
}

static inline void journal_ended(struct journal *journal, struct bytes id, uint64_t seq)
{
    (void)journal;
    (void)id;
    (void)seq;
}

static inline struct row *row_named(struct bytes id)
{
    assert_true(id.len > 1 && id.at[0] == 'j');
    return &database.rows[strtoul(id.at + 1, NULL, 10)];
}

static inline bool is_end(enum journal_status_number status)
{
    return status == STATUS_FINISHED || status == STATUS_DELETED;
}

/* As the statements do. */
static inline void apply(const struct group_job *job)
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
static inline void commit(void)
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
        journal_batch_free(LIST_ENTRY(node, struct journal_batch, place));
}

static inline void database_lives(void)
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

static inline enum err rows_begin(struct restore *restore, const struct restore_query *query,
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

static inline struct restore_row *rows_take(struct restore_run *run)
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

static inline struct restore_row *row_of_run(unsigned i)
{
    fake->run.row = (struct restore_row){.push.id = bytes_str(ids[i])};
    return &fake->run.row;
}

static inline void rows_settle(struct restore_run *run, struct restore_row *row)
{
    assert_ptr_equal(row, &run->row);
}

static inline bool rows_ended(const struct restore_run *run, enum err *out_err,
                              const char **out_why)
{
    *out_err = once_in(3) ? ERR_AGAIN : OK; /* the connection was lost */
    *out_why = "lost";
    return run->next == NAMES;
}

static inline void rows_close(struct restore_run *run)
{
    assert_ptr_equal(run, &fake->run);
    fake->reads = false;
}

static const struct restore_verbs rows_verbs = {.begin = rows_begin,
                                                .take = rows_take,
                                                .settle = rows_settle,
                                                .ended = rows_ended,
                                                .close = rows_close};

static inline struct restore *journal_restore(struct journal *journal)
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

#endif
