#include "journal/mysql/session.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "journal/schema.h"
#include "journal/sql.h"

enum { COLUMNS_MAX = 128, FIELDS = 9, NO_SUCH_TABLE = 1146 };

/* ---- tables ---- */

static struct bytes field(MYSQL_ROW row, const unsigned long *lengths, unsigned i)
{
    return bytes_of(row[i] ? row[i] : "", row[i] ? lengths[i] : 0);
}

static uint64_t number(MYSQL_ROW row, unsigned i)
{
    return row[i] ? strtoull(row[i], NULL, 10) : 0;
}

static size_t read_columns(MYSQL_RES *rows, struct schema_column *columns)
{
    size_t count = 0;
    MYSQL_ROW row;
    while (count < COLUMNS_MAX && (row = mysql_fetch_row(rows))) {
        const unsigned long *lengths = mysql_fetch_lengths(rows);
        columns[count++] = (struct schema_column){
            .table = field(row, lengths, 0),
            .name = field(row, lengths, 1),
            .type = field(row, lengths, 2),
            .characters = number(row, 3),
            .charset = field(row, lengths, 4),
            .collation = field(row, lengths, 5),
            .fraction = number(row, 6),
            .primary = number(row, 7) != 0,
            .engine = field(row, lengths, 8),
        };
    }
    return count;
}

static enum link_result make_table(struct link *link, unsigned table,
                                   struct session_refusal *refusal)
{
    struct buf sql = {0};
    uint64_t ignored;
    schema_create(&sql, table, link->mariadb);
    enum link_result result = link_run(link, buf_bytes(&sql), &ignored);
    if (result == LINK_DONE) {
        log_event(LOG_INFO, "journal_table_made", "sql=\"%.*s\"", (int)sql.len, sql.at);
    } else if (result == LINK_REFUSED || result == LINK_ROW) {
        result = LINK_REFUSED;
        (void)snprintf(refusal->why, sizeof(refusal->why),
                       "a table is missing, and cannot be made: %.100s", link->error);
        refusal->event = "journal_table_missing";
        buf_addf(&refusal->facts, "error=\"%s\" hint=\"run in its database: %.*s\"", link->error,
                 (int)sql.len, sql.at);
    }
    buf_fini(&sql);
    return result;
}

static enum link_result make_tables(struct link *link, const struct schema_column *columns,
                                    size_t count, unsigned tables, struct session_refusal *refusal)
{
    enum link_result result = LINK_DONE;
    for (unsigned table = 0; table < tables && result == LINK_DONE; table++) {
        if (!schema_has(columns, count, table))
            result = make_table(link, table, refusal);
    }
    return result;
}

enum link_result session_check_tables(struct link *link, bool streams,
                                      struct session_refusal *refusal)
{
    enum link_result result;
    MYSQL_RES *rows = link_query(link, SCHEMA_QUERY, &result);
    if (!rows)
        return result == LINK_ROW ? LINK_REFUSED : result;
    struct schema_column *columns = mem_alloc(COLUMNS_MAX * sizeof(*columns));
    size_t count = read_columns(rows, columns);
    struct buf sql = {0};
    schema_alter(&sql, columns, count, link->mariadb);
    if (sql.len) {
        result = LINK_REFUSED;
        (void)snprintf(refusal->why, sizeof(refusal->why), "the tables do not fit; run: %.150s",
                       sql.at);
        refusal->event = "journal_tables_unfit";
        buf_addf(&refusal->facts, "hint=\"run in its database: %.*s\"", (int)sql.len, sql.at);
    } else {
        unsigned tables = streams ? SCHEMA_TABLES_OF_STREAMS : SCHEMA_TABLES_OF_LOG;
        result = make_tables(link, columns, count, tables, refusal);
    }
    buf_fini(&sql);
    mem_free(columns);
    mysql_free_result(rows);
    return result;
}

/* ---- the cursor ---- */

static void add_where(struct buf *sql, const uint8_t store[JOURNAL_STORE_BYTES])
{
    buf_add_str(sql, " WHERE store_id=");
    sql_add_hex(sql, store, JOURNAL_STORE_BYTES);
}

enum link_result session_read_cursor(struct link *link, const uint8_t store[JOURNAL_STORE_BYTES],
                                     bool *out_there, struct session_cursor *out_cursor)
{
    struct buf sql = {0};
    enum link_result result;
    buf_add_str(&sql, "SELECT epoch,batch,updated IS NULL FROM " JOURNAL_CURSORS);
    add_where(&sql, store);
    buf_add_char(&sql, '\0');
    MYSQL_RES *rows = link_query(link, sql.at, &result);
    buf_fini(&sql);
    if (!rows)
        return result == LINK_ROW ? LINK_REFUSED : result;
    MYSQL_ROW row = mysql_fetch_row(rows);
    *out_there = row != NULL;
    if (row)
        *out_cursor = (struct session_cursor){
            .epoch = number(row, 0), .batch = number(row, 1), .made = number(row, 2) != 0};
    mysql_free_result(rows);
    return LINK_DONE;
}

/* Refuses tables that have cursors of other stores: two queues in one table would mix their
   jobs. */
static enum link_result refuse_others(struct link *link, struct session_refusal *refusal)
{
    enum link_result result;
    MYSQL_RES *rows = link_query(
        link, "SELECT LOWER(HEX(store_id)),batch FROM " JOURNAL_CURSORS " LIMIT 1", &result);
    MYSQL_ROW row = rows ? mysql_fetch_row(rows) : NULL;
    if (row) {
        result = LINK_REFUSED;
        (void)snprintf(refusal->why, sizeof(refusal->why),
                       "the tables are those of another queue, %.32s", row[0]);
        refusal->event = "journal_of_another_store";
        buf_addf(&refusal->facts,
                 "store=%s batch=%s hint=\"give this queue a database of its own; or, if that "
                 "queue is gone for good, take its tables over: DELETE FROM %s WHERE "
                 "store_id=x'%s'\"",
                 row[0], row[1], JOURNAL_CURSORS, row[0]);
    }
    if (rows)
        mysql_free_result(rows);
    return result;
}

/* Resets the positions in streams, for a new cursor; their rows are never deleted. */
static enum link_result forget_streams(struct link *link, const uint8_t store[JOURNAL_STORE_BYTES])
{
    struct buf sql = {0};
    uint64_t ignored;
    buf_add_str(&sql, "UPDATE " JOURNAL_STREAMS " SET entry=0,mark=0");
    add_where(&sql, store);
    enum link_result result = link_run(link, buf_bytes(&sql), &ignored);
    buf_fini(&sql);
    return result;
}

/* CREATE TABLE IF NOT EXISTS needs the right to CREATE also where the table exists. */
enum link_result session_make_resyncs(struct link *link, struct session_refusal *refusal)
{
    enum link_result result;
    MYSQL_RES *rows = link_query(link, "SELECT 1 FROM " JOURNAL_RESYNCS " LIMIT 1", &result);
    if (rows)
        mysql_free_result(rows);
    else if (link->errnum == NO_SUCH_TABLE)
        result = make_table(link, SCHEMA_RESYNCS, refusal);
    return result == LINK_ROW ? LINK_REFUSED : result;
}

enum link_result session_read_resync(struct link *link, const uint8_t store[JOURNAL_STORE_BYTES],
                                     bool *out_goes_on)
{
    struct buf sql = {0};
    enum link_result result;
    buf_add_str(&sql, "SELECT 1 FROM " JOURNAL_RESYNCS);
    add_where(&sql, store);
    buf_add_str(&sql, " AND ended IS NULL");
    buf_add_char(&sql, '\0');
    MYSQL_RES *rows = link_query(link, sql.at, &result);
    buf_fini(&sql);
    *out_goes_on = rows && mysql_fetch_row(rows);
    if (rows)
        mysql_free_result(rows);
    if (!rows && link->errnum == NO_SUCH_TABLE) { /* there was never any */
        link_forget_error(link);
        return LINK_DONE;
    }
    return result == LINK_ROW ? LINK_REFUSED : result;
}

enum link_result session_read_streams(struct link *link, const struct journal_begin *begin,
                                      struct journal_stream *out_streams)
{
    struct buf sql = {0};
    enum link_result result;
    MYSQL_ROW row;
    buf_add_str(&sql, "SELECT stream,entry,mark FROM " JOURNAL_STREAMS);
    add_where(&sql, begin->store);
    buf_add_char(&sql, '\0');
    MYSQL_RES *rows = link_query(link, sql.at, &result);
    buf_fini(&sql);
    if (!rows)
        return result == LINK_ROW ? LINK_REFUSED : result;
    while ((row = mysql_fetch_row(rows))) {
        if (number(row, 0) < begin->streams)
            out_streams[number(row, 0)] =
                (struct journal_stream){.entry = number(row, 1), .mark = number(row, 2)};
    }
    mysql_free_result(rows);
    return LINK_DONE;
}

static enum link_result run_words(struct link *link, const char *words)
{
    uint64_t ignored;
    return link_run(link, bytes_str(words), &ignored);
}

/*
 * Reads and writes in one transaction. Otherwise, of two queues that begin in the same empty
 * tables, neither would see the other: each locks the gap that the other inserts into, and the
 * database ends one of them as a deadlock, which reads again.
 */
enum link_result session_make_cursor(struct link *link, const struct journal_begin *begin,
                                     const struct session_place *moved,
                                     const struct session_cursor *cursor,
                                     struct session_refusal *refusal)
{
    struct buf sql = {0};
    uint64_t ignored;
    enum link_result result = run_words(link, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE");
    if (result == LINK_DONE)
        result = run_words(link, "START TRANSACTION");
    if (result == LINK_DONE)
        result = refuse_others(link, refusal);
    if (result != LINK_DONE) /* the connection is closed, and with it the transaction */
        return result == LINK_ROW ? LINK_REFUSED : result;
    buf_add_str(&sql, "INSERT INTO " JOURNAL_CURSORS "(store_id,epoch,batch,updated) VALUES(");
    sql_add_hex(&sql, begin->store, JOURNAL_STORE_BYTES);
    buf_addf(&sql, ",%llu,%llu,", (unsigned long long)cursor->epoch,
             (unsigned long long)cursor->batch);
    if (moved)
        sql_add_time(&sql, moved->at_us, moved->sql->east_s);
    else
        buf_add_str(&sql, "NULL");
    buf_add_char(&sql, ')');
    result = link_run(link, buf_bytes(&sql), &ignored);
    buf_fini(&sql);
    if (result == LINK_DONE && begin->streams)
        result = forget_streams(link, begin->store);
    if (result == LINK_DONE)
        result = run_words(link, "COMMIT");
    return result == LINK_ROW ? LINK_AWAY : result; /* another writer made it: read it again */
}

enum link_result session_raise_epoch(struct link *link, const uint8_t store[JOURNAL_STORE_BYTES],
                                     struct session_cursor *cursor)
{
    struct buf sql = {0};
    uint64_t changed = 0;
    buf_addf(&sql, "UPDATE " JOURNAL_CURSORS " SET epoch=%llu",
             (unsigned long long)cursor->epoch + 1);
    add_where(&sql, store);
    buf_addf(&sql, " AND epoch=%llu AND batch=%llu", (unsigned long long)cursor->epoch,
             (unsigned long long)cursor->batch);
    enum link_result result = link_run(link, buf_bytes(&sql), &changed);
    buf_fini(&sql);
    if (result == LINK_DONE && changed != 1)
        return LINK_AWAY;
    if (result == LINK_DONE)
        cursor->epoch++;
    return result;
}

/* Checks again that we may take the cursor: statements may have taken long. */
static enum link_result ask_lead(const struct session_place *place, struct session_refusal *refusal)
{
    if (place->may_take(place->owner))
        return LINK_DONE;
    (void)snprintf(refusal->why, sizeof(refusal->why),
                   "another laterd leads: the cursor is for that one to take");
    return LINK_AWAY;
}

/* All in one transaction: a cursor that was set is valid only while the resync is noted. */
static enum link_result set_cursor(struct link *link, const struct journal_begin *begin,
                                   const struct session_place *place, struct session_cursor *cursor,
                                   struct session_refusal *refusal)
{
    struct buf sql = {0};
    uint64_t changed = 0, ignored;
    uint64_t batch = begin->streams ? cursor->batch : begin->batch; /* that is only a count */
    enum link_result result = session_make_resyncs(link, refusal);
    if (result == LINK_DONE)
        result = run_words(link, "START TRANSACTION");
    buf_addf(&sql, "UPDATE " JOURNAL_CURSORS " SET epoch=%llu,batch=%llu,updated=",
             (unsigned long long)cursor->epoch + 1, (unsigned long long)batch);
    sql_add_time(&sql, place->at_us, place->sql->east_s);
    add_where(&sql, begin->store);
    buf_addf(&sql, " AND epoch=%llu", (unsigned long long)cursor->epoch);
    if (result == LINK_DONE)
        result = link_run(link, buf_bytes(&sql), &changed);
    if (result == LINK_DONE && changed != 1)
        result = LINK_AWAY; /* another writer took it meanwhile: read it again */
    sql.len = 0;
    sql_add_resync_begin(&sql, begin->store, place->at_us, place->sql);
    if (result == LINK_DONE)
        result = link_run(link, buf_bytes(&sql), &ignored);
    buf_fini(&sql);
    if (result == LINK_DONE && begin->streams)
        result = forget_streams(link, begin->store);
    if (result == LINK_DONE)
        result = ask_lead(place, refusal);
    if (result == LINK_DONE)
        result = run_words(link, "COMMIT");
    *cursor = (struct session_cursor){.epoch = cursor->epoch + 1, .batch = batch};
    return result;
}

enum link_result session_take_cursor(struct link *link, const struct journal_begin *begin,
                                     const struct session_place *place,
                                     struct session_cursor *out_cursor,
                                     struct session_refusal *refusal)
{
    struct session_cursor cursor = {0};
    bool there = false;
    enum link_result result = session_read_cursor(link, begin->store, &there, &cursor);
    if (result == LINK_DONE)
        result = ask_lead(place, refusal);
    if (result != LINK_DONE)
        return result;
    if (!there) {
        cursor = (struct session_cursor){.epoch = 1, .batch = begin->batch, .made = true};
        result = session_make_cursor(link, begin, NULL, &cursor, refusal);
    } else if (begin->resync) {
        result = set_cursor(link, begin, place, &cursor, refusal);
    } else {
        result = session_raise_epoch(link, begin->store, &cursor);
    }
    if (result == LINK_DONE)
        *out_cursor = cursor;
    return result == LINK_ROW ? LINK_REFUSED : result;
}
