/*
 * The queue itself: a pure state machine. The caller passes in the time, a sink for events and a
 * callback for replies. The core reads no clock, opens nothing and logs nothing, so the same calls
 * always have the same effects (promise P9); the simulator depends on that.
 *
 * Single-threaded. A turn calls core_tick, core_apply for each command, core_match, core_next_us.
 */
#ifndef LATERD_CORE_CORE_H
#define LATERD_CORE_CORE_H

#include "base/budget.h"
#include "base/far_index.h"
#include "core/cmd.h"
#include "core/event.h"

struct core;

/* The timing wheel stores a job's pool number in 28 bits. */
#define CORE_JOBS_MAX UINT64_C(268435455)

struct core_limits {
    uint64_t jobs; /* live jobs; a value above CORE_JOBS_MAX means CORE_JOBS_MAX */
    uint32_t topics;
    uint32_t waiters;         /* parked commands */
    uint64_t memory_bytes;    /* pushes are refused while mem_used() is above; 0 = no limit */
    uint64_t ready_in_memory; /* a ready job leaves memory only while more than this are in it; … */
    uint64_t buried_in_memory; /* … and the same for buried jobs */
};

/*
 * Every command is answered exactly once, through `reply`: before core_apply returns, or, if it was
 * parked, from core_match (a job came), core_tick (the wait ended: ERR_EMPTY; or the scan finished)
 * or core_drain. `ctx` is the one that was passed to core_apply. The callback must not call the
 * core.
 */
struct core_callbacks {
    void (*reply)(struct core_callbacks *callbacks, void *ctx, const struct reply *reply);
    /* A topic's settings have changed (not called during replay); empty: they were removed. The
       bytes are borrowed. Must not call the core either. May be NULL. */
    void (*settings)(struct core_callbacks *callbacks, struct bytes topic, uint64_t version,
                     struct bytes settings);
};

struct core_options {
    struct core_limits limits;
    struct event_sink *sink;
    struct core_callbacks *callbacks;
    int64_t now_us;
    uint64_t hash_key;    /* random: keys the hash tables */
    uint64_t lease_first; /* leases count up from here; must be above any lease ever given */
    uint64_t seq_first;   /* so do server-made numbers; at least 1 */
};

/* An empty core. The options are copied; sink and callbacks are borrowed for its life. */
struct core *core_new(const struct core_options *options);
/* Answers nobody. NULL does nothing. O(topics + waiters + chunks of memory). */
void core_free(struct core *core);

/*
 * From now on work is charged to this budget, which the caller refills and the core lowers. Work
 * that exceeds it is done in slices by core_tick and core_match. NULL, the initial value: no limit.
 * Borrowed until the next call of this function.
 */
void core_use_budget(struct core *core, struct budget *budget);

/*
 * Executes the command. Returns 0 if it was answered. Otherwise it is parked, and the return value
 * is a handle for core_cancel: a reserve that waits for a job, or for earlier waiters to be served
 * first; or LIST, PEEK, TOPIC, KICK_TOPIC or CLEAR_TOPIC with many jobs to look at or to change.
 * Complexity: O(log ready jobs of the topic); TOPICS: O(max).
 *
 * LIST, TOPIC (of a topic with delayed jobs) and commands that look for delayed or reserved jobs
 * read the whole pool of jobs: at once if it is small, else a slice in each core_tick. A job that
 * keeps its state and due time during a whole listing, over all its pages, is shown exactly once. A
 * job that changes meanwhile may be shown or not, but never twice on one page, nor in a state that
 * it is not in. A page may hold fewer jobs than asked for although there are more: `more` and the
 * cursor tell.
 */
uint64_t core_apply(struct core *core, int64_t now_us, const struct cmd *cmd, void *ctx);

/*
 * The client of a parked command has gone: it gets no job and no reply (P6). Does nothing if the
 * command was answered meanwhile: handles are never reused.
 */
void core_cancel(struct core *core, uint64_t parked);

/*
 * Applies what has become due: delayed jobs become ready, reserved jobs whose ttr ran out fail
 * their attempt, waits and pauses end. Does about `steps` steps; true = more is due now (P3: never
 * early).
 */
bool core_tick(struct core *core, int64_t now_us, uint32_t steps);

/* Whether core_tick leaves leases that end to a later tick. */
void core_hold_leases(struct core *core, bool held);

/*
 * Gives ready jobs to waiting consumers, first come, first served within a topic, at most `jobs` of
 * them; true = more can be given.
 */
bool core_match(struct core *core, int64_t now_us, uint32_t jobs);

/* When core_tick or core_match has something to do next; INT64_MAX = never. O(1). */
int64_t core_next_us(const struct core *core);

/*
 * The time of the latest change that no event records but a restart must know: a job became ready,
 * or a pause ended, because its time came. INT64_MIN = none. See core_replay_clock().
 */
int64_t core_unlogged_us(const struct core *core);

uint64_t core_lease_next(const struct core *core); /* the lease that will be given next */

/* True if consumers wait and jobs are delayed, so that a late turn would deliver a job late.
   O(1). */
bool core_is_awaited(const struct core *core);

/*
 * Answers parked reserves with this error (ERR_DRAINING, ERR_STORE_FAILED, ERR_JOURNAL_DOWN), as
 * far as the budget goes. True: some are left.
 */
bool core_drain(struct core *core, enum err err);

/*
 * Sets the next server-made number and the next lease, which the store knows once it is open.
 * Values lower than the present ones are ignored. Before the first core_apply.
 */
void core_number_from(struct core *core, uint64_t seq_first, uint64_t lease_first);

/* Shows a job. False: there is none. The view is valid until the next call of the core. O(1). */
bool core_show(const struct core *core, const struct job_ref *ref, struct job_view *out_view);

/* Is there a live job with this number or this id? For a far job the answer may be a false
   positive. */
bool core_has(const struct core *core, uint64_t seq, struct bytes id);

/*
 * The body of the job that is reserved under this lease is damaged: buries the job, so that an
 * operator can see it and no consumer gets it.
 */
void core_bury_damaged(struct core *core, int64_t now_us, uint64_t seq, uint64_t lease);

/*
 * The consumer of a reserved job has not received it yet: restarts its lease, to run for `run_us`
 * from now, and sets *out_until_us. False: the job is no longer reserved under this lease.
 */
bool core_restart_lease(struct core *core, int64_t now_us, uint64_t seq, uint64_t lease,
                        int64_t run_us, int64_t *out_until_us);

/* Where the note of an attempt is. */
struct note_place {
    uint32_t number;
    struct stored stored; /* .where 0: it is lost */
};
/* The places of a job's notes, oldest first. Returns how many. O(1). */
uint32_t core_note_places(const struct core *core, uint64_t seq,
                          struct note_place out_places[static JOB_NOTES_MAX]);
/* Drops all notes. Called before core_free(), by an engine that has their texts in memory. */
void core_drop_all_notes(struct core *core);

/* Would this command on one job, which is in memory, succeed? O(1). */
bool core_allows(const struct core *core, const struct cmd *cmd);
/* Is there memory for more jobs (core_limits::memory_bytes)? O(1). */
bool core_has_memory(const struct core *core);
/* How much memory is left, in bytes; UINT64_MAX without a limit. O(1). */
uint64_t core_memory_left(const struct core *core);
enum { NEXT_READY_MAX = 32 };

/*
 * The jobs that will be handed out next from a topic, in order: up to `max`, which is at most
 * NEXT_READY_MAX. Returns how many. Valid until the next call of the core. O(max^2), some 5 µs.
 */
uint32_t core_next_ready(const struct core *core, struct bytes topic, const struct job **out_jobs,
                         uint32_t max);

struct core_totals {
    uint64_t jobs[JOB_STATES], urgent;
    uint64_t far;        /* of the delayed ones, those that are not in memory; … */
    uint64_t far_ready;  /* … of the ready ones, … */
    uint64_t far_buried; /* … and of the buried ones */
    uint64_t topics, waiters;
    uint64_t pushed, reserved, finished, deleted, timeouts, released, buried, kicked;
    uint64_t seq_next, lease_next;
    struct lateness lateness;
    struct lateness_histogram lateness_histogram;
};
void core_totals(const struct core *core, struct core_totals *out_totals);

/*
 * How many delayed jobs in memory are due at or before each of these times. An estimate for large
 * numbers, exact for small ones (see wheel_count_until()). O(times * wheel slots); visits some
 * thousand jobs at most.
 */
void core_due_until(const struct core *core, const int64_t *until_us, uint64_t *out_counts,
                    uint32_t count);

/* Calls `each` for every job in memory, in no order. O(jobs). `each` must not call the core. */
void core_each(const struct core *core, void (*each)(void *ctx, const struct job *job), void *ctx);

/*
 * Calls `each` for jobs in memory, in no order, in slices of `budget` places. *cursor is 0 at
 * first. False: that was all. A job that is in memory from the first call to the last is shown.
 * `each` must not call the core.
 */
bool core_visit(const struct core *core, uint32_t *cursor, uint32_t budget,
                void (*each)(void *ctx, const struct job *job), void *ctx);

/* Calls `each` for the settings of every topic that has any. `each` must not call the core. */
void core_each_settings(const struct core *core,
                        void (*each)(void *ctx, struct bytes topic, uint64_t version,
                                     struct bytes settings),
                        void *ctx);

/* CHECKs every invariant of the whole state. O(everything): tests and the simulator only. */
void core_valid(const struct core *core);

/* A hash of everything that must survive a crash, independent of the order of jobs in memory. */
uint64_t core_digest(const struct core *core);

#endif
