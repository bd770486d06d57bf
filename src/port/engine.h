/*
 * A queue engine, as the server sees it: the embedded engine (core and store, engine/embedded) or
 * one that several daemons share (engine/redis). Commands go in; each is answered once.
 * Single-threaded.
 *
 * Commands are executed at the loop's time (loop::now_us); an engine may use timers of the loop.
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
    /* Called with the command's reply, whose bytes are valid until this returns. It may call no
       verbs of the engine except health and describe. */
    void (*answered)(struct ticket *ticket, const struct reply *reply);
    bool brief; /* of the reply to a change only err, kept, count and the job's .ref.seq and .state
                   are used, so the rest need not be kept until the change is on disk */
    uint64_t parked; /* the engine's: a command that waits */
    void *held;      /* the engine's: a reply that waits for the disk */
};

enum { STATS_SPANS = 4 };

/* For an engine that writes a log of its own; else all 0. */
struct engine_log_stats {
    uint64_t file_first, file_last; /* numbers of the oldest and newest segment */
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
 * Follows the settings of topics, which the engine stores without reading them. A shared engine
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
    /* Sets the budget that work is charged to; work that exceeds it is done in slices. Borrowed
       until another one is set. NULL, the initial value: no limit. */
    void (*use_budget)(struct engine *engine, struct budget *budget);
    /* Begins a turn: answers the commands whose changes are durable now, and applies due times. */
    void (*begin)(struct engine *engine);
    /*
     * Executes the command; `answered` is called once, now or later. Keeps nothing of `cmd`. After
     * SUBMIT_ANSWERED the ticket may have been freed. `ticket` NULL: the result is dropped; not
     * allowed for commands that reserve.
     */
    enum submitted (*submit)(struct engine *engine, const struct cmd *cmd, struct ticket *ticket);
    /* Prefetch hint: a command on the job of this client's id is likely to come next. NULL: none is
       needed. */
    void (*soon)(struct engine *engine, struct bytes id);
    /* The same for several: jobs of these ids are likely to be pushed next. NULL: none is needed.
     */
    void (*soon_new)(struct engine *engine, const struct bytes *ids, uint32_t count);
    /* Does soon_new() do anything now? If not, the ids need not be looked for. */
    bool (*wants_new)(const struct engine *engine);
    /* Forgets the ticket: `answered` will not be called, and a parked reserve takes no job (P6). */
    void (*cancel)(struct engine *engine, struct ticket *ticket);
    /* Gives ready jobs to waiting consumers, and sends what the turn has for servers, so that these
       work while clients are answered. */
    void (*match)(struct engine *engine);
    /*
     * Ends a turn: writes its changes to the disk together, which may take a while. Returns when
     * begin() should be called next: a past time means at once; INT64_MAX means not before input
     * comes or a timer expires.
     */
    int64_t (*end)(struct engine *engine);
    /* Answers parked and all later reserves with ERR_DRAINING instead of letting them wait. */
    void (*drain)(struct engine *engine);
    /* OK, or why the engine cannot take pushes now. */
    enum err (*health)(const struct engine *engine);
    /*
     * Registers an observer: calls it for all existing settings before this returns, and for each
     * change from then on. Borrowed until the engine ends or another one is registered. NULL:
     * unregisters it.
     */
    void (*observe_settings)(struct engine *engine, struct settings_observer *observer);
    /*
     * For topics whose jobs must be sent in order: only one of the processes that share the queue
     * sends a topic's jobs at a time. Returns 0 if this process may not send them now, else a
     * number that changes if another process may have sent them in between. A process that loses a
     * topic stops before the next one begins; jobs that it was sending stay RESERVED. NULL: the
     * queue is not shared. O(processes)
     */
    uint64_t (*keeps_order)(const struct engine *engine, struct bytes topic);
    /* Increases when a result of keeps_order() may have changed; NULL: never. Read once a turn. */
    uint64_t (*order_changes)(const struct engine *engine);
    /* Reports to `sink`, before it returns, the metrics, facts and warnings that are specific to
       this kind of engine. */
    void (*describe)(const struct engine *engine, struct metric_sink *sink);
};

#endif
