/*
 * Compares the columns of the database's tables with the required ones, and writes the statements
 * that correct them. Pure.
 *
 * sdmq's own tables must be changed: their ids compare without case and trailing blanks, and their
 * character set cannot represent all of UTF-8.
 */
#ifndef LATERD_JOURNAL_SCHEMA_H
#define LATERD_JOURNAL_SCHEMA_H

#include "base/bytes.h"

#define JOURNAL_JOBS     "t_delay_queue_job"
#define JOURNAL_LOGS     "t_delay_queue_job_log"
#define JOURNAL_CURSORS  "laterd_journal_cursor"
#define JOURNAL_REJECTED "laterd_journal_rejected"
#define JOURNAL_STREAMS  "laterd_journal_stream"
#define JOURNAL_RESYNCS  "laterd_journal_resync"

/* Those of every queue come first, then one for queues in Redis alone, and one that is made when a
   resync begins. */
enum schema_table {
    SCHEMA_JOBS,
    SCHEMA_LOGS,
    SCHEMA_CURSORS,
    SCHEMA_REJECTED,
    SCHEMA_STREAMS,
    SCHEMA_RESYNCS,
    SCHEMA_TABLES,
    SCHEMA_TABLES_OF_LOG = SCHEMA_STREAMS,
    SCHEMA_TABLES_OF_STREAMS = SCHEMA_RESYNCS,
};

/* One row of information_schema.COLUMNS, with its table's engine. Borrowed. */
struct schema_column {
    struct bytes table, name, type;
    uint64_t characters; /* at most; 0: no text */
    struct bytes charset, collation;
    uint64_t fraction; /* digits of a second */
    bool primary;      /* it is the whole primary key, or a part of it */
    struct bytes engine;
};

#define SCHEMA_QUERY                                                                               \
    "SELECT c.TABLE_NAME,c.COLUMN_NAME,c.DATA_TYPE,IFNULL(c.CHARACTER_MAXIMUM_LENGTH,0),"          \
    "IFNULL(c.CHARACTER_SET_NAME,''),IFNULL(c.COLLATION_NAME,''),IFNULL(c.DATETIME_PRECISION,0),"  \
    "c.COLUMN_KEY='PRI',IFNULL(t.ENGINE,'') FROM information_schema.COLUMNS c "                    \
    "JOIN information_schema.TABLES t ON t.TABLE_SCHEMA=c.TABLE_SCHEMA AND "                       \
    "t.TABLE_NAME=c.TABLE_NAME WHERE c.TABLE_SCHEMA=DATABASE() AND c.TABLE_NAME IN("               \
    "'" JOURNAL_JOBS "','" JOURNAL_LOGS "','" JOURNAL_CURSORS "','" JOURNAL_REJECTED               \
    "','" JOURNAL_STREAMS "','" JOURNAL_RESYNCS "')"

/* The binary collation that sees blanks at the end: MariaDB's, or MySQL's. */
const char *schema_collation(bool mariadb);

/* The statement that makes a table, an enum schema_table. */
void schema_create(struct buf *out, unsigned table, bool mariadb);
bool schema_has(const struct schema_column *columns, size_t count, unsigned table);

/*
 * Appends, for each table that is there and does not fit, an ALTER TABLE that makes it fit, a
 * semicolon behind each. Nothing: they fit. O(columns).
 */
void schema_alter(struct buf *out, const struct schema_column *columns, size_t count, bool mariadb);

#endif
