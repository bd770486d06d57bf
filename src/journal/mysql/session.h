/*
 * The checks on a new connection before anything is written: whether the tables exist and match,
 * and the position of the cursor.
 *
 * Writer's thread only; each call waits for the server, for a few statements. Outputs are set if
 * the result is DONE. After any other result the caller must close the connection, because a
 * transaction may still be open.
 */
#ifndef LATERD_JOURNAL_MYSQL_SESSION_H
#define LATERD_JOURNAL_MYSQL_SESSION_H

#include "journal/mysql/link.h"
#include "journal/sql.h"
#include "port/journal.h"

/* Why nothing may be written. The caller logs it, because connecting is tried repeatedly. */
struct session_refusal {
    char why[JOURNAL_WHY_MAX]; /* a clause for people; empty: it is not refused */
    const char *event;         /* of the line for the log; static */
    struct buf facts;          /* … its facts; buf_fini() */
};

/*
 * Makes what tables are missing (`streams`: that of streams, too), and compares the others.
 * REFUSED: *refusal has what must be run; AWAY, or REFUSED by the server: link->error.
 */
enum link_result session_check_tables(struct link *link, bool streams,
                                      struct session_refusal *refusal);

struct session_cursor {
    uint64_t epoch, batch;
    bool made; /* by session_take_cursor(), now or before, and it was not moved since */
};

/* Reads the cursor of the store. *out_there false: it has none. */
enum link_result session_read_cursor(struct link *link, const uint8_t store[JOURNAL_STORE_BYTES],
                                     bool *out_there, struct session_cursor *out_cursor);

/* Makes the table that notes resyncs, if it is missing. REFUSED: as session_check_tables(). */
enum link_result session_make_resyncs(struct link *link, struct session_refusal *refusal);
/* Reads whether a resync of the store has begun and not ended. */
enum link_result session_read_resync(struct link *link, const uint8_t store[JOURNAL_STORE_BYTES],
                                     bool *out_goes_on);

/* Further arguments for taking a cursor. */
struct session_place {
    const struct sql_place *sql;
    int64_t at_us; /* the time, of one that is set */
    /* False: by the election another laterd leads, and the cursor is that one's. Called before
       anything is written, and if the cursor is set, again before that is committed. */
    bool (*may_take)(void *owner);
    void *owner;
};

/*
 * The first time: takes the cursor over, so that whoever wrote before writes no more (its epoch
 * grows), or makes it. With begin->resync one that is there is set to begin->batch, and noted as a
 * resync that goes on. REFUSED with a refusal: the tables belong to another store. AWAY with one:
 * place->may_take() says no.
 */
enum link_result session_take_cursor(struct link *link, const struct journal_begin *begin,
                                     const struct session_place *place,
                                     struct session_cursor *out_cursor,
                                     struct session_refusal *refusal);

/* Makes the cursor as *cursor says, which does not exist; `moved`: when it was moved last; NULL:
   never. Of a log, also one whose row was deleted while it was ours, with a new epoch. AWAY and
   REFUSED as session_take_cursor(): another store may have one by now. Never ROW, which the writer
   would take for another laterd that writes. */
enum link_result session_make_cursor(struct link *link, const struct journal_begin *begin,
                                     const struct session_place *moved,
                                     const struct session_cursor *cursor,
                                     struct session_refusal *refusal);

/* Takes it over from whoever has it, if it is still as it was read: then its epoch is ours, one
   more. AWAY: it was moved meanwhile, look again; or the connection was lost. */
enum link_result session_raise_epoch(struct link *link, const uint8_t store[JOURNAL_STORE_BYTES],
                                     struct session_cursor *cursor);

/* Of a cursor that is ours: where it stands in its streams. */
enum link_result session_read_streams(struct link *link, const struct journal_begin *begin,
                                      struct journal_stream *out_streams);

#endif
