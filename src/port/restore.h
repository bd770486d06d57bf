/*
 * What the server needs of whoever keeps a copy of the jobs outside of the engine and can give them
 * back: a journal in MySQL. It reads on a thread of its own; all calls of it, and all calls that it
 * makes, are on the loop's thread. The server pushes what it reads, with if_exists keep, so that a
 * restore is harmless twice and beside pushes.
 */
#ifndef LATERD_PORT_RESTORE_H
#define LATERD_PORT_RESTORE_H

#include "core/cmd.h"

/* Which rows. Borrowed until begin() returns. */
struct restore_query {
    struct bytes id; /* this one, whatever became of it; empty: all that have not ended */
    bool leave_past; /* not those that are due before now_us */
    bool only_ids;   /* of each row cmd_push::id and restore_row::seq are all that is wanted */
    int64_t now_us;
};

/* Why a row has ended. */
enum restore_end { RESTORE_LIVES, RESTORE_FINISHED, RESTORE_DELETED };

/* What a row's push adds to what waits for the database, as far as the implementation counts that.
 */
struct restore_cost {
    uint32_t place; /* its own words */
    uint32_t look;
    uint64_t bytes; /* 0: it does not */
};

/* The server's between take() and settle(). */
struct restore_row {
    struct cmd_push push; /* all but if_exists and brief, which the server sets */
    enum restore_end end;
    bool written; /* the journal would write no other row for the push, but for when it was made */
    bool lives; /* of a query for one id: the job is there, by its number; it is not to be pushed */
    /* Of a job that this very queue named by its number: if it lives, or has ended since, the row
       is to be left out (of all; of one: `lives`); cmd_push::number asks for that where
       journal::lives cannot tell. 0: it has none. */
    uint64_t seq;
    struct restore_cost cost; /* set by take(), for unspent() */
};

struct restore_run; /* one query under way, the implementation's */

/* The server's part of it, which stays where it is until close(). */
struct restore_reader {
    /* There are rows to take, or all have been taken: ended() knows. Called again as long as there
       is something left after a call. It must not call close(). */
    void (*arrived)(struct restore_reader *reader);
};

struct restore {
    const struct restore_verbs *verbs;
};

struct restore_verbs {
    /* ERR_NOT_LEADER: another process reads, *out_why says which one. ERR_AGAIN: not now, *out_why
       says so (a clause for people, good until the next call): its database is away, or as many
       queries are under way as it takes. One more than one should do: deletes ask for single jobs
       while a restore goes on. */
    enum err (*begin)(struct restore *restore, const struct restore_query *query,
                      struct restore_reader *reader, struct restore_run **out_run,
                      const char **out_why);
    struct restore_row *(*take)(struct restore_run *run); /* the next; NULL: there is none now */
    void (*settle)(struct restore_run *run,
                   struct restore_row *row); /* its memory is run's again */
    /* The row's push, with the cost that take() had set, was answered, and changed nothing: its job
       was there, or is not to come back. May be called after settle(). NULL: there are no costs. */
    void (*unspent)(struct restore_run *run, const struct restore_cost *cost);
    /* Has every row been taken, or has it failed? *out_err: OK, or why not, with a clause. */
    bool (*ended)(const struct restore_run *run, enum err *out_err, const char **out_why);
    /* How many rows there are to read, once that is known; 0: it is not. NULL: it never is. */
    uint64_t (*expected)(const struct restore_run *run);
    void (*close)(struct restore_run *run); /* at any time; rows that were taken are settled */
};

#endif
