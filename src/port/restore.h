/*
 * Reads back the copy of the jobs that a journal keeps outside of the engine, in MySQL. It reads on
 * a thread of its own; all its functions and callbacks are called on the loop's thread. The server
 * pushes what it reads, with if_exists = keep, so that a restore may run twice, and beside pushes
 * of clients.
 */
#ifndef LATERD_PORT_RESTORE_H
#define LATERD_PORT_RESTORE_H

#include "core/cmd.h"

/* Which rows. Borrowed until begin() returns. */
struct restore_query {
    struct bytes id;   /* the row of this id, even if it has ended; empty: all unfinished rows */
    bool skip_overdue; /* leave out rows that are due before now_us */
    bool only_ids;     /* only cmd_push::id and restore_row::seq of each row are needed */
    int64_t now_us;
};

/* Why a row has ended. */
enum restore_end { RESTORE_LIVES, RESTORE_FINISHED, RESTORE_DELETED };

/* What a row's push adds to the journal's lag. Opaque to the server, but bytes = 0: not counted. */
struct restore_cost {
    uint32_t place;
    uint32_t look;
    uint64_t bytes;
};

/* Owned by the server between take() and settle(). */
struct restore_row {
    struct cmd_push push; /* all but if_exists and brief, which the server sets */
    enum restore_end end;
    bool written; /* the push would write this same row again, except for its creation time */
    bool lives;   /* query for one id: the job exists, by its number; it must not be pushed */
    /* The number that this queue gave the job. If that job lives, or has ended since, a query for
       all leaves the row out, and a query for one sets `lives`; where journal::lives cannot tell,
       cmd_push::number makes the push check it. 0: the row has no number of this queue. */
    uint64_t seq;
    struct restore_cost cost; /* set by take(), for push_skipped() */
};

struct restore_run; /* one query under way; owned by the implementation */

/* The server's part of a query; must not move until close(). */
struct restore_reader {
    /* Called when there are rows to take, or when the query has ended: see ended(). Called again
       as long as rows are left. It must not call close(). */
    void (*arrived)(struct restore_reader *reader);
};

struct restore {
    const struct restore_verbs *verbs;
};

struct restore_verbs {
    /* Begins a query. ERR_NOT_LEADER: another process reads the rows; *out_why says which one.
       ERR_AGAIN: the database is unreachable, or too many queries are under way; *out_why says so
       (a clause for people, valid until the next call). An implementation takes at least two
       queries at a time: deletes look up single jobs while a restore runs. */
    enum err (*begin)(struct restore *restore, const struct restore_query *query,
                      struct restore_reader *reader, struct restore_run **out_run,
                      const char **out_why);
    struct restore_row *(*take)(struct restore_run *run); /* the next row; NULL: none now */
    /* Gives the row back to the run. */
    void (*settle)(struct restore_run *run, struct restore_row *row);
    /* The row's push, whose cost take() has counted, changed nothing: the job existed, or must not
       come back. May be called after settle(). NULL: costs are not counted. */
    void (*push_skipped)(struct restore_run *run, const struct restore_cost *cost);
    /* True: every row was taken, *out_err is OK; or the query failed, *out_err and the clause
     *out_why say why. */
    bool (*ended)(const struct restore_run *run, enum err *out_err, const char **out_why);
    /* The number of rows to read; 0: not known yet. NULL: never known. */
    uint64_t (*expected)(const struct restore_run *run);
    void (*close)(struct restore_run *run); /* at any time, after all taken rows were settled */
};

#endif
