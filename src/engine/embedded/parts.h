/*
 * What the files of the embedded engine share. Nobody else includes this.
 *
 *     core ─reply▶ engine.c ─┬─▶ the ticket, at once
 *                            ├─▶ commit_waiters.c: until a change is durable (P1)
 *                            └─▶ bodies.c: until bodies that it shows are in memory
 */
#ifndef LATERD_ENGINE_EMBEDDED_PARTS_H
#define LATERD_ENGINE_EMBEDDED_PARTS_H

#include "base/arena.h"
#include "base/blocks.h"
#include "base/list.h"
#include "engine/embedded/embedded.h"

/* What ticket::held points to: the reply's ticket, NULL when it was cancelled. */
struct waiting_reply {
    struct ticket *ticket;
    bool for_bodies; /* it is a struct body_waiter, else a struct commit_waiter */
    bool may_park;   /* a RESERVE that waits again if its jobs are gone when their bodies come */
};

struct commit_waiter_list {
    struct commit_waiter *first;
    struct commit_waiter **last;
    struct arena arena;
};

/*
 * Replies that wait for one kind of durability, in the order of their batches. New ones gather
 * while older ones wait, so that an arena falls empty however steady the stream is.
 */
struct commit_waiters {
    struct commit_waiter_list waiting;
    struct commit_waiter_list gathering; /* all of them later than those that wait */
};

enum { AHEAD_TOPICS = 4 };

/* Replies that wait for bodies, and jobs that were reserved and do not reach who asked. */
struct bodies {
    struct list reading;  // body_waiter::link: some body is still to be read
    struct list whole;    // body_waiter::link: can be answered
    struct list given_up; // body_waiter::link: cancelled; the jobs are to go back
    uint64_t count;       /* of all three */
    size_t held_bytes;    /* of memory of theirs, without what the store holds for them */
    int64_t renew_at_us;  /* before then no lease of a waiting reply's jobs runs out */
    struct buf unread;    /* struct unread: jobs reserved and not handed out … */
    size_t settled_bytes; /* … of which so much has been settled */
    struct arena scratch; /* bodies of the reply being given */
    struct blocks memory; // struct memory_body: all of them, when there is no disk
    /* Topics whose next jobs' bodies should be read ahead. */
    uint32_t ahead_count;
    struct {
        size_t len;
        char name[TOPIC_NAME_MAX];
    } ahead[AHEAD_TOPICS];
};

struct embedded {
    struct engine engine;
    struct event_sink sink;
    struct core_callbacks core_callbacks;
    struct store_callbacks store_callbacks;
    struct core *core;
    struct store *store;
    struct budget *budget; /* see engine_verbs::use_budget */
    struct budget unlimited;
    enum durability durability;
    enum durability asked; /* by the command being applied; between commands the server's own */
    const struct cmd_topic *stats; /* the CMD_TOPICS with `stats` that is being applied; or NULL */
    const struct loop *loop;       /* its time is ours */
    bool busy;                     /* the last slice of work left some over */
    bool draining;
    uint64_t durable, synced;      /* batches up to these are, as the store has told */
    uint64_t commit_waiter_count;  /* of both: */
    struct commit_waiters writing; /* for the server's durability */
    struct commit_waiters syncing; /* pushes that want more than that */
    struct job_view brief_view;    /* of brief replies that have waited: the rest stays zero */
    struct bodies bodies;
    bool said_full;  /* that the store has no room, and not yet that it has some again */
    int64_t full_us; /* when it was seen to have none */
};

/* ---- commit_waiters.c ---- */

void commit_waiters_init(struct commit_waiters *waiters);
void commit_waiters_fini(struct commit_waiters *waiters);
/* Keeps the reply until all that was promised so far is as durable as the command being applied
   asks for. False: it is. */
bool commit_wait(struct embedded *embedded, struct ticket *ticket, const struct reply *reply);
/* Answers what is durable and, once the store has failed, all the rest with ERR_STORE_FAILED; as
   far as the budget goes: the rest in the next turn, without sleep. */
void commit_release(struct embedded *embedded);
/* The same of all of them, now; what is not durable has failed. For the end. */
void commit_release_all(struct embedded *embedded);
/* The end of a turn: what has gathered waits from now on, if nothing older does. */
void commit_advance(struct embedded *embedded);

/* ---- bodies.c ---- */

void bodies_init(struct bodies *bodies);
void bodies_fini(struct bodies *bodies);
/* No disk: the event's body is kept in memory, and what it takes the place of is forgotten. */
struct stored bodies_keep_in_memory(struct bodies *bodies, const struct event *event);
void bodies_forget_in_memory(struct bodies *bodies, uint64_t where);
/* Fills in the bodies and answers: at once, if they are in memory, else when they have come. */
void bodies_reply(struct embedded *embedded, struct ticket *ticket, const struct reply *reply);
/* A reply that waits for bodies is cancelled: its jobs go back (P6). */
void bodies_cancel(struct embedded *embedded, struct waiting_reply *reply);
/* The beginning of a turn: leases of jobs that wait for their bodies do not run out. */
void bodies_renew_leases(struct embedded *embedded);
/* Answers whose bodies have come, and gives back what is not handed out, as far as the budget goes:
   the rest in the next turn, without sleep. */
void bodies_turn(struct embedded *embedded);
/* Tells the store what will be wanted next. */
void bodies_read_ahead(struct embedded *embedded);
/* The end: nothing waits any more. Jobs that were not handed out go back. */
void bodies_give_up_all(struct embedded *embedded);

/* ---- relocate.c ---- */

/* The store's callbacks for recovery and for cleaning, which are the core's matter. */
void relocate_callbacks(struct store_callbacks *callbacks);

#endif
