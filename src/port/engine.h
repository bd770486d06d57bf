/*
 * What the server needs of a queue, wherever it lives: the embedded engine (core and store, in
 * engine/embedded) or a shared one. Commands go in, each is answered once. One thread.
 *
 * What is done is done at the loop's time (loop::now_us), and what has a time of its own may be a
 * timer of the loop.
 */
#ifndef LATERD_PORT_ENGINE_H
#define LATERD_PORT_ENGINE_H

#include "base/budget.h"
#include "core/cmd.h"
#include "port/metric.h"

struct engine {
    const struct engine_verbs *verbs;
};

/* One command under way. The caller owns it and keeps it until answered or cancelled. */
struct ticket {
    /* The command's reply, whose bytes are good until this returns; it must call no verb but
       health and describe. */
    void (*answered)(struct ticket *ticket, const struct reply *reply);
    bool brief;      /* of the reply to a change it wants no more than err, count, and a job's
                        .ref.seq and .state: saves keeping the rest until the disk is done */
    uint64_t parked; /* the engine's: a command that waits */
    void *held;      /* the engine's: a reply that waits for the disk */
};

enum { STATS_SPANS = 4 };

/* Of an engine that writes a log of its own; else 0. */
struct engine_log_stats {
    uint64_t file_first, file_last; /* numbers */
    uint64_t file_bytes_max;
    uint64_t records_written, jobs_relocated; /* since the start */
};

/* Sums over all topics: the answer to CMD_TOPICS with `stats`. */
struct engine_stats {
    uint64_t jobs[JOB_STATES]; /* live ones now, by state */
    uint64_t urgent;           /* of the ready ones, those with a priority below PRIORITY_URGENT */
    uint64_t topics, waiters;
    /* What this process has done since its start; of a shared engine, all that serve it: */
    uint64_t pushed, reserved, finished, deleted, timeouts, released, buried, kicked;
    struct lateness lateness;
    struct lateness_histogram lateness_histogram;
    /* If asked for: delayed jobs that are due within a minute, five, an hour, a day. */
    uint64_t due_within[STATS_SPANS];
    struct engine_log_stats log;
};

/* What became of a command when submit returns. */
enum submitted {
    SUBMIT_ANSWERED, /* `answered` was called before submit returned; of no ticket: always this */
    SUBMIT_PENDING,  /* the answer comes by itself, from a disk or a server; what is submitted later
                        about the same job is done after it */
    SUBMIT_PARKED,   /* waits for a job, or may yet have to (its job's body is being read), or takes
                        several steps between which other commands are done: who must keep an order
                        submits nothing more before the answer */
};

/*
 * Who follows the settings of topics. The engine keeps them, and does not look into them; a shared
 * engine tells of what others have changed, too, within about a second.
 */
struct settings_observer {
    /* The topic's settings are these now; empty: it has none. `version` grows with each change of
       any topic and is never used twice. What is told last holds, even if its version is an older
       one: a server that failed over or was restored may have lost a change. Bytes are borrowed.
       It must call no verb. */
    void (*changed)(struct settings_observer *observer, struct bytes topic, uint64_t version,
                    struct bytes settings);
};

struct engine_verbs {
    /* From now on work is counted against this budget; what is longer than what is left of it is
       done in slices. Borrowed. NULL, as at first: no limit. */
    void (*use_budget)(struct engine *engine, struct budget *budget);
    /* The beginning of a turn: releases the replies that may go now, moves what is due. */
    void (*begin)(struct engine *engine);
    /*
     * Does the command; `answered` comes once, now or later. Nothing of `cmd` is kept. After
     * SUBMIT_ANSWERED the ticket may be gone. NULL for `ticket`: it is done, and nobody is told
     * whether it could be; not for commands that reserve.
     */
    enum submitted (*submit)(struct engine *engine, const struct cmd *cmd, struct ticket *ticket);
    /* Nobody waits for it any more: a parked reserve takes no job; no answer comes (P6). */
    void (*cancel)(struct engine *engine, struct ticket *ticket);
    /* Ready jobs meet waiting consumers. */
    void (*match)(struct engine *engine);
    /*
     * The end of a turn: changes go to the disk together, which may take a while. When begin() is
     * wanted next: a past time is at once, INT64_MAX only when something comes in, or for a timer.
     */
    int64_t (*end)(struct engine *engine);
    /* No more waiting: parked reserves are answered ERR_DRAINING, and so are later ones. */
    void (*drain)(struct engine *engine);
    /* OK, or why it cannot take pushes now. */
    enum err (*health)(const struct engine *engine);
    /* From now on `observer` is told of settings, of all that there are before this returns.
       Borrowed until the engine ends, or is given another; NULL: nobody. */
    void (*observe_settings)(struct engine *engine, struct settings_observer *observer);
    /* Several processes share the queue: of each topic whose jobs must be sent in an order one at a
       time sends them. Is it we, now? 0: no. Else a number that is another one if it may have been
       somebody else in between. Who does no longer has stopped before another one begins; what it
       has under way is RESERVED. NULL: there are no others. O(processes) */
    uint64_t (*keeps_order)(const struct engine *engine, struct bytes topic);
    /* Grows when what that says may have changed; NULL: never. Looked at once a turn. */
    uint64_t (*order_changes)(const struct engine *engine);
    /* Its own metrics, facts and warnings, at once: what it has that other engines have not. */
    void (*describe)(const struct engine *engine, struct metric_sink *sink);
};

#endif
