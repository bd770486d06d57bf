/*
 * What the server needs of a queue, wherever it is kept: the embedded engine (core and store, in
 * engine/embedded) or one shared by several daemons. Commands go in; each is answered once.
 * Single-threaded.
 *
 * Everything is done at the loop's time (loop::now_us); an engine that needs times of its own may
 * use timers of the loop.
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
    bool brief; /* of a reply to a change only err, count and a job's .ref.seq and .state are used,
                   so the rest need not be kept until the disk is done */
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

/* Totals of all topics: the answer to CMD_TOPICS with `stats`. */
struct engine_stats {
    uint64_t jobs[JOB_STATES]; /* live ones now, by state */
    uint64_t urgent;           /* of the ready ones, those with a priority below PRIORITY_URGENT */
    uint64_t topics, waiters;
    /* Counted since this process started; a shared engine counts what all daemons did: */
    uint64_t pushed, reserved, finished, deleted, timeouts, released, buried, kicked;
    struct lateness lateness;
    struct lateness_histogram lateness_histogram;
    /* If asked for: delayed jobs that are due within a minute, five, an hour, a day. */
    uint64_t due_within[STATS_SPANS];
    struct engine_log_stats log;
};

/* What became of a command when submit returns. */
enum submitted {
    SUBMIT_ANSWERED, /* `answered` was called before submit returned, or the ticket was NULL */
    SUBMIT_PENDING,  /* the answer comes later, from a disk or a server; a command submitted after
                        this one about the same job takes effect after it */
    SUBMIT_PARKED,   /* it waits for a job, or may have to (its job's body is being read), or takes
                        several steps between which other commands run: a caller that needs an order
                        must submit nothing more before the answer */
};

/*
 * Follows the settings of topics. The engine stores them without looking at them. A shared engine
 * also reports changes that other daemons made, within about a second.
 */
struct settings_observer {
    /*
     * The topic's settings are now these; empty: it has none. `version` grows with each change of
     * any topic and is never reused. The latest call counts, even if its version is lower: a server
     * that failed over or was restored may have lost a change. Bytes are borrowed. Must not call a
     * verb.
     */
    void (*changed)(struct settings_observer *observer, struct bytes topic, uint64_t version,
                    struct bytes settings);
};

struct engine_verbs {
    /* From now on work is charged to this budget; work that exceeds the rest of it is done in
       slices. Borrowed. NULL, the initial value: no limit. */
    void (*use_budget)(struct engine *engine, struct budget *budget);
    /* Begins a turn: releases the replies that may go now, and applies what is due. */
    void (*begin)(struct engine *engine);
    /*
     * Executes the command; `answered` is called once, now or later. Keeps nothing of `cmd`. After
     * SUBMIT_ANSWERED the ticket may be gone. `ticket` NULL: nobody learns of the result; not
     * allowed for commands that reserve.
     */
    enum submitted (*submit)(struct engine *engine, const struct cmd *cmd, struct ticket *ticket);
    /* The caller no longer waits: `answered` will not be called, and a parked reserve takes no job
       (P6). */
    void (*cancel)(struct engine *engine, struct ticket *ticket);
    /* Gives ready jobs to waiting consumers. */
    void (*match)(struct engine *engine);
    /*
     * Ends a turn: writes its changes to the disk together, which may take a while. Returns when
     * begin() should be called next: a past time means at once; INT64_MAX means not before input
     * comes or a timer expires.
     */
    int64_t (*end)(struct engine *engine);
    /* Answers parked and all later reserves with ERR_DRAINING instead of letting them wait. */
    void (*drain)(struct engine *engine);
    /* OK, or why it cannot take pushes now. */
    enum err (*health)(const struct engine *engine);
    /*
     * Registers an observer. It is called for all settings that exist before this returns, and for
     * each change from then on. Borrowed until the engine ends or another one is registered; NULL:
     * unregisters it.
     */
    void (*observe_settings)(struct engine *engine, struct settings_observer *observer);
    /*
     * For topics whose jobs must be sent in order: of the processes that share the queue, one at a
     * time sends a topic's jobs. Returns 0 if that is not us now, else a number that changes if
     * another process may have sent them in between. A process that loses a topic stops before the
     * next one begins; the jobs that it was sending are RESERVED. NULL: the queue is not shared.
     * O(processes)
     */
    uint64_t (*keeps_order)(const struct engine *engine, struct bytes topic);
    /* Increases when a result of keeps_order() may have changed; NULL: never. Read once a turn. */
    uint64_t (*order_changes)(const struct engine *engine);
    /* Reports, before it returns, the metrics, facts and warnings that only this kind of engine
       has. */
    void (*describe)(const struct engine *engine, struct metric_sink *sink);
};

#endif
