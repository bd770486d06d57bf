/*
 * Makes the text of all SQL statements of the journal, and of the values in them. Pure.
 *
 * Text is escaped for a session whose character set is utf8mb4 and whose sql_mode has no
 * NO_BACKSLASH_ESCAPES, which each connection sets (SQL_SESSION).
 */
#ifndef LATERD_JOURNAL_SQL_H
#define LATERD_JOURNAL_SQL_H

#include "journal/group.h"
#include "journal/schema.h"

#define SQL_SESSION                                                                                \
    "SET SESSION time_zone='+00:00',sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',"          \
    "autocommit=1"

/* Values that are the same in all rows. */
struct sql_place {
    const char *host; /* of the log table: name/address */
    int32_t east_s;   /* of UTC, of the times */
};

/* 'text', with what has a meaning in it escaped. Any bytes. */
void sql_add_text(struct buf *out, struct bytes text);
/* '2026-11-21 05:00:00.123': cut to milliseconds, because MySQL would round and MariaDB cut. */
void sql_add_time(struct buf *out, int64_t us, int32_t east_s);
/* x'0a0b…' */
void sql_add_hex(struct buf *out, const uint8_t *at, size_t len);

/*
 * Statements in parts: begin, then rows, each preceded by a comma if it is not the first, then end.
 * Rows of jobs are GROUP_IMAGE, of moves GROUP_MOVE.
 */
void sql_begin_jobs(struct buf *out);
/* ERR_CORRUPT: the bytes are not a record. */
enum err sql_add_job(struct buf *out, const struct group_job *job,
                     const struct sql_place *place) MUST_USE;
void sql_end_jobs(struct buf *out);

void sql_begin_moves(struct buf *out);
void sql_add_move(struct buf *out, const struct group_job *job, const struct sql_place *place,
                  bool first);
void sql_end_moves(struct buf *out);

/* UPDATE … WHERE id IN ( … ): rows are ids. */
void sql_begin_status(struct buf *out, enum journal_status_number status, int64_t at_us,
                      const struct sql_place *place);
void sql_end_status(struct buf *out);
/* The same, of rows that are unfinished. */
void sql_begin_absent(struct buf *out, int64_t at_us, const struct sql_place *place);

void sql_begin_logs(struct buf *out);
void sql_add_log(struct buf *out, const struct group_log *log, const struct sql_place *place);

/* A step of the cursor: moves it to `to`, only if it has `epoch` and is at `from`. */
struct sql_step {
    const uint8_t *store; /* JOURNAL_STORE_BYTES */
    uint64_t epoch, from, to;
    int64_t at_us;
};
/* It changes one row, or none. */
void sql_add_cursor(struct buf *out, const struct sql_step *step, const struct sql_place *place);
/* A statement that changes nothing, but fails on a read-only server. */
void sql_add_probe(struct buf *out, const uint8_t store[JOURNAL_STORE_BYTES]);

/* Where the database stands in streams: rows, as above. */
void sql_begin_streams(struct buf *out);
void sql_add_stream(struct buf *out, const uint8_t store[JOURNAL_STORE_BYTES], uint32_t stream,
                    const struct journal_stream *at);
void sql_end_streams(struct buf *out);

/* A resync of the store begins, or has ended. */
void sql_add_resync_begin(struct buf *out, const uint8_t store[JOURNAL_STORE_BYTES], int64_t at_us,
                          const struct sql_place *place);
void sql_add_resync_end(struct buf *out, const uint8_t store[JOURNAL_STORE_BYTES], int64_t at_us,
                        const struct sql_place *place);

/* A row that the database refused. */
struct sql_rejected {
    uint64_t batch;
    struct bytes id;
    const char *error;  /* cut where it is not UTF-8, as one that was cut in a character */
    struct bytes event; /* the statement that it was to be; cut to 64 KiB */
    int64_t at_us;
};
void sql_add_rejected(struct buf *out, const struct sql_rejected *row,
                      const struct sql_place *place);

#endif
