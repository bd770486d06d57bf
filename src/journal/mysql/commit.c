/* One transaction: rows of jobs, of changes, and the cursor, in few statements of many rows. */
#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "journal/mysql/writer.h"

enum {
    ROWS_MAX = 512,            /* of a statement */
    STATEMENT_BYTES = 1 << 20, /* it takes no further row beyond this */
    REJECTED_SAID = 10,        /* rows that are logged one by one */
};

enum part { PART_IMAGES, PART_MOVES, PART_STATUS, PART_ABSENT, PART_LOGS };

/* Rows of one kind, being written. */
struct writing {
    struct writer *writer;
    enum part part;
    enum journal_status_number status; /* STATUS */
    unsigned count;                    /* of all rows of the kind */
};

static const struct group_job *job_at(const struct writing *writing, unsigned i)
{
    return &writing->writer->group.jobs[writing->writer->picked[i]];
}

static struct bytes id_at(const struct writing *writing, unsigned i)
{
    return writing->part == PART_LOGS ? writing->writer->group.logs[i].id : job_at(writing, i)->id;
}

static void begin(const struct writing *writing)
{
    struct writer *writer = writing->writer;
    writer->sql.len = 0;
    switch (writing->part) {
    case PART_IMAGES: sql_begin_jobs(&writer->sql); break;
    case PART_MOVES: sql_begin_moves(&writer->sql); break;
    case PART_STATUS:
        sql_begin_status(&writer->sql, writing->status, writer->group.at_us, &writer->place);
        break;
    case PART_ABSENT: sql_begin_absent(&writer->sql, writer->group.at_us, &writer->place); break;
    case PART_LOGS: sql_begin_logs(&writer->sql); break;
    }
}

static void add(const struct writing *writing, unsigned i, bool first)
{
    struct writer *writer = writing->writer;
    if (!first && writing->part != PART_MOVES)
        buf_add_char(&writer->sql, ',');
    switch (writing->part) {
    case PART_IMAGES: {
        enum err err = sql_add_job(&writer->sql, job_at(writing, i), &writer->place);
        CHECK(!err); /* group_add() has decoded it */
        break;
    }
    case PART_MOVES: sql_add_move(&writer->sql, job_at(writing, i), &writer->place, first); break;
    case PART_STATUS:
    case PART_ABSENT: sql_add_text(&writer->sql, id_at(writing, i)); break;
    case PART_LOGS: sql_add_log(&writer->sql, &writer->group.logs[i], &writer->place); break;
    }
}

static void end(const struct writing *writing)
{
    struct writer *writer = writing->writer;
    switch (writing->part) {
    case PART_IMAGES: sql_end_jobs(&writer->sql); break;
    case PART_MOVES: sql_end_moves(&writer->sql); break;
    case PART_STATUS:
    case PART_ABSENT: sql_end_status(&writer->sql); break;
    case PART_LOGS: break;
    }
}

/* The statement of rows from `at` on, `most` at most. Returns how many. */
static unsigned build(const struct writing *writing, unsigned at, unsigned most)
{
    struct writer *writer = writing->writer;
    size_t bytes_max = writer->link.packet_max / 2;
    unsigned count = 0;
    if (bytes_max > STATEMENT_BYTES)
        bytes_max = STATEMENT_BYTES;
    begin(writing);
    while (count < most && at + count < writing->count && (!count || writer->sql.len < bytes_max)) {
        add(writing, at + count, count == 0);
        count++;
    }
    end(writing);
    return count;
}

/* Writes a refused row to laterd_journal_rejected, for the operator. */
static enum link_result reject(const struct writing *writing, unsigned i)
{
    struct writer *writer = writing->writer;
    struct buf sql = {0};
    char error[320];
    uint64_t ignored;
    bool log = writing->part == PART_LOGS;
    struct sql_rejected row = {
        .batch = log ? writer->group.batch : job_at(writing, i)->batch,
        .id = id_at(writing, i),
        .error = error,
        .event = buf_bytes(&writer->sql),
        .at_us = log ? writer->group.logs[i].at_us : job_at(writing, i)->at_us,
    };
    (void)snprintf(error, sizeof(error), "%u %s", writer->link.errnum, writer->link.error);
    if (writer->status.rejected + writer->rejected < REJECTED_SAID)
        log_event(LOG_WARN, "journal_row_rejected",
                  "id=\"%.*s\" batch=%llu error=\"%s\" hint=\"the row is in %s: change the table "
                  "so that it fits, then run its event\"",
                  (int)(bytes_is_utf8(row.id) ? row.id.len : 0), row.id.at,
                  (unsigned long long)row.batch, error, JOURNAL_REJECTED);
    if (row.event.len > writer->link.packet_max / 4) /* in the statement it has two digits a byte */
        row.event.len = writer->link.packet_max / 4;
    sql_add_rejected(&sql, &row, &writer->place);
    enum link_result result = link_run(&writer->link, buf_bytes(&sql), &ignored);
    buf_fini(&sql);
    writer->rejected++;
    return result == LINK_ROW ? LINK_REFUSED : result;
}

/* Writes all rows of the kind; refused rows are found by splitting the statement in halves. */
static enum link_result write_rows(const struct writing *writing)
{
    struct writer *writer = writing->writer;
    unsigned most = ROWS_MAX;
    for (unsigned at = 0; at < writing->count;) {
        uint64_t changed;
        unsigned count = build(writing, at, most);
        enum link_result result = link_run(&writer->link, buf_bytes(&writer->sql), &changed);
        if (result == LINK_ROW && !link_in_transaction(&writer->link))
            return LINK_AWAY; /* earlier statements of the transaction are lost as well */
        if (result == LINK_ROW && count > 1) {
            most = count / 2;
            continue;
        }
        if (result == LINK_ROW)
            result = reject(writing, at);
        else if (writing->part == PART_LOGS)
            writer->log_rows += count;
        else
            writer->job_rows += count;
        if (result != LINK_DONE)
            return result;
        at += count;
        most = most * 2 < ROWS_MAX ? most * 2 : ROWS_MAX;
    }
    return LINK_DONE;
}

static bool is_picked(const struct group_job *job, const struct writing *writing)
{
    switch (writing->part) {
    case PART_IMAGES: return job->change == GROUP_IMAGE;
    case PART_MOVES: return job->change == GROUP_MOVE;
    case PART_STATUS: return job->change == GROUP_STATUS && job->status == writing->status;
    case PART_ABSENT: return job->change == GROUP_ABSENT;
    case PART_LOGS: break;
    }
    return false;
}

static enum link_result write_jobs(struct writer *writer, enum part part,
                                   enum journal_status_number status)
{
    struct writing writing = {.writer = writer, .part = part, .status = status};
    const struct group *group = &writer->group;
    if (writer->picked_cap < group->job_cap) {
        writer->picked_cap = group->job_cap;
        writer->picked = mem_realloc(writer->picked, group->job_cap * sizeof(*writer->picked));
    }
    for (unsigned i = 0; i < group->job_count; i++) {
        if (is_picked(&group->jobs[i], &writing))
            writer->picked[writing.count++] = i;
    }
    return write_rows(&writing);
}

static enum link_result write_logs(struct writer *writer)
{
    struct writing writing = {
        .writer = writer, .part = PART_LOGS, .count = writer->group.log_count};
    return write_rows(&writing);
}

/* Runs a statement without rows, which cannot be split. */
static enum link_result run_word(struct writer *writer, struct bytes sql)
{
    uint64_t ignored;
    enum link_result result = link_run(&writer->link, sql, &ignored);
    return result == LINK_ROW ? LINK_REFUSED : result;
}

/*
 * The cursor was not as expected: finds out who has moved it. The transaction is rolled back.
 * LINK_ROW: another writer. LINK_AWAY: the connection was lost, or an earlier COMMIT of ours, whose
 * answer was lost, has succeeded: the next connection reads the cursor again.
 */
static enum link_result set_fenced(struct writer *writer, char why[JOURNAL_WHY_MAX])
{
    struct session_cursor cursor = {0};
    bool there = false;
    uint64_t ignored;
    (void)link_run(&writer->link, BYTES("ROLLBACK"), &ignored); /* or the connection ends */
    enum link_result result =
        session_read_cursor(&writer->link, writer->begin.store, &there, &cursor);
    if (result == LINK_DONE && there && cursor.epoch == writer->epoch &&
        cursor.batch > writer->done)
        return LINK_AWAY;
    if (result != LINK_DONE)
        return result;
    if (!there)
        (void)snprintf(
            why, JOURNAL_WHY_MAX,
            "the cursor was taken away: somebody deleted it, or another queue has the tables");
    else
        (void)snprintf(why, JOURNAL_WHY_MAX,
                       "another laterd writes for this queue: epoch %llu, ours is %llu",
                       (unsigned long long)cursor.epoch, (unsigned long long)writer->epoch);
    return LINK_ROW;
}

/* Written before the cursor; rolled back if we are fenced. */
static enum link_result move_streams(struct writer *writer)
{
    const char *comma = "";
    writer->sql.len = 0;
    sql_begin_streams(&writer->sql);
    for (uint32_t i = 0; i < writer->begin.streams; i++) {
        if (!writer->streams[i].moved)
            continue;
        buf_add_str(&writer->sql, comma);
        sql_add_stream(&writer->sql, writer->begin.store, i, &writer->streams[i].at);
        comma = ",";
    }
    if (!comma[0])
        return LINK_DONE;
    sql_end_streams(&writer->sql);
    return run_word(writer, buf_bytes(&writer->sql));
}

uint64_t writer_group_end(const struct writer *writer)
{
    return writer->group.batch ? writer->group.batch : writer->done;
}

/* A resync begins or ends with the group. */
static enum link_result note_resync(struct writer *writer)
{
    const struct group *group = &writer->group;
    enum link_result result = LINK_DONE;
    writer->sql.len = 0;
    if (group->resync_begins) {
        sql_add_resync_begin(&writer->sql, group->store, group->at_us, &writer->place);
        result = run_word(writer, buf_bytes(&writer->sql));
    }
    writer->sql.len = 0;
    if (group->resync_ends && result == LINK_DONE) {
        sql_add_resync_end(&writer->sql, group->store, group->at_us, &writer->place);
        result = run_word(writer, buf_bytes(&writer->sql));
    }
    return result;
}

static enum link_result move_cursor(struct writer *writer, char why[JOURNAL_WHY_MAX])
{
    uint64_t changed = 0;
    writer->sql.len = 0;
    struct sql_step step = {.store = writer->begin.store,
                            .epoch = writer->epoch,
                            .from = writer->done,
                            .to = writer_group_end(writer),
                            .at_us = writer->group.at_us};
    sql_add_cursor(&writer->sql, &step, &writer->place);
    enum link_result result = link_run(&writer->link, buf_bytes(&writer->sql), &changed);
    if (result == LINK_DONE && changed != 1)
        return set_fenced(writer, why); /* no row was it: see writer_commit() */
    return result == LINK_ROW ? LINK_REFUSED : result;
}

enum link_result writer_commit(struct writer *writer, struct session_refusal *refusal)
{
    static const enum journal_status_number statuses[] = {
        STATUS_READY, STATUS_FINISHED, STATUS_DELETED, STATUS_DELAYED, STATUS_BURIED};
    writer->job_rows = writer->log_rows = writer->rejected = 0;
    enum link_result result = LINK_DONE;
    if (writer->group.resync_begins) /* before: it would end a transaction */
        result = session_make_resyncs(&writer->link, refusal);
    if (result == LINK_DONE)
        result = run_word(writer, BYTES("START TRANSACTION"));
    if (result == LINK_DONE)
        result = write_jobs(writer, PART_IMAGES, STATUS_DELAYED);
    if (result == LINK_DONE)
        result = write_jobs(writer, PART_MOVES, STATUS_DELAYED);
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]) && result == LINK_DONE; i++)
        result = write_jobs(writer, PART_STATUS, statuses[i]);
    if (result == LINK_DONE)
        result = write_jobs(writer, PART_ABSENT, STATUS_DELETED);
    if (result == LINK_DONE)
        result = write_logs(writer);
    if (result == LINK_DONE)
        result = note_resync(writer);
    if (result == LINK_DONE && writer->begin.streams)
        result = move_streams(writer);
    if (result == LINK_DONE)
        result = move_cursor(writer, refusal->why);
    if (result == LINK_DONE)
        result = run_word(writer, BYTES("COMMIT"));
    return result;
}

enum link_result writer_probe(struct writer *writer)
{
    enum link_result result = run_word(writer, BYTES("START TRANSACTION"));
    writer->sql.len = 0;
    sql_add_probe(&writer->sql, writer->begin.store);
    if (result == LINK_DONE)
        result = run_word(writer, buf_bytes(&writer->sql));
    if (result == LINK_DONE)
        result = run_word(writer, BYTES("COMMIT"));
    return result;
}
