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

/*
 * Replay, into a new core: applies one event to the state. The place of an EVENT_JOB is
 * event->record. ERR_CORRUPT: no core emits such an event.
 */
enum err core_replay(struct core *core, const struct event *event) MUST_USE;
/*
 * Prefetch hint: an event of this job will be replayed soon. Has no other effect, so a wrong hint
 * does no harm. With a hint some ten events ahead of each event, replay of a million jobs takes two
 * thirds of the time. The id may be empty.
 */
void core_prefetch(const struct core *core, const struct job_ref *ref);
/*
 * Replay, between events: the time at which the following events were logged, up to the next call.
 * A job that was due at that time is ready after the restart, even if the clock is behind then; so
 * is a job that was logged as ready. Without any call only the latter is known. 0: the following
 * events come from a version that did not log the time, and the clock at the restart alone decides
 * what is ready. O(1), but O(jobs) where the log's clock was set back.
 */
void core_replay_clock(struct core *core, int64_t clock_us);

/* Shows a job. False: there is none. The view is valid until the next call of the core. O(1). */
bool core_show(const struct core *core, const struct job_ref *ref, struct job_view *out_view);

/* Is there a live job with this number or this id? For a far job the answer may be a false
   positive. */
bool core_has(const struct core *core, uint64_t seq, struct bytes id);

/*
 * Ends the replay: links every job where it belongs at this time, in one pass (about 0.2 µs a job).
 * Reserved jobs keep their lease and the rest of their ttr, because their consumers may still be
 * running. If the clock is behind the log's, it was set back: leases and pauses are shortened by
 * the difference, and events record that. The order of a topic's buried jobs is lost.
 */
void core_replayed(struct core *core, int64_t now_us);

/*
 * Checkpoint: if the record at `where` is still the newest one of what the event describes, emits
 * it again, with the parts that only the record has (content type, body, properties; the store has
 * just read them), and keeps the new place. A MOVE of a job whose record lies elsewhere, at
 * `where`: emits a MOVE with the job's present state; the caller knows whether there is a later
 * one. True: an event was emitted. False: the record is not the newest one any more, or the event
 * has no place of its own; nothing was emitted.
 */
bool core_relocate(struct core *core, const struct event *event, uint64_t where);
/* The same of a JOB, only if the job is buried and has no notes of attempts, so that it may leave
   memory (core_spill()). */
bool core_relocate_buried(struct core *core, const struct event *event, uint64_t where);
/*
 * Checkpoint: the records at places from `first` up to (not including) `end` cannot be read. Emits
 * each job whose record is there again, with an empty body; notes of attempts at those places are
 * lost. Goes through all jobs in slices of `budget` steps, from *cursor on, which is 0 at first;
 * true = there is more.
 */
bool core_relocate_unread(struct core *core, uint64_t first, uint64_t end, uint32_t *cursor,
                          uint32_t budget);
/*
 * Checkpoint: emits an EVENT_MOVE with the present state of each job for whose record's place
 * `unread` returns true: the record stays, but its last MOVE cannot be read. In slices as above.
 */
bool core_relocate_moves(struct core *core, bool (*unread)(void *ctx, uint64_t where), void *ctx,
                         uint32_t *cursor, uint32_t budget);
/*
 * Checkpoint: emits all pauses, which have no place of their own, and the settings whose records
 * are at places from `first` up to (not including) `end`: the core has their bytes. In slices as
 * above.
 */
bool core_relocate_topics(struct core *core, uint64_t first, uint64_t end, uint32_t *cursor,
                          uint32_t budget);

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

/*
 * Far jobs: delayed, ready and buried jobs that are not in memory. Their records lie in slices of
 * the store, at places whose low 32 bits are below FAR_OFFSET_END / 2. All counts include them, but
 * commands do not see them: to apply a command to one, the caller reads its record and calls
 * core_arrive() first. Only for use after replay, except the functions marked "Recovery".
 */

/* Sets store_far_key(). Before any other function for far jobs. */
void core_use_far_key(struct core *core, uint64_t key);
/*
 * May this job leave memory? `event` is a record of it that lies at `where`. True only if that is
 * its newest record, it has no notes of attempts, and it is either delayed until after
 * `due_after_us`, or ready or buried, with more such jobs in memory than core_limits allows and not
 * among those at the front of its topic that stay. Then `out_job` is the whole job as it is now;
 * its bytes are borrowed from `event` and the core.
 */
bool core_spill(struct core *core, const struct event *event, uint64_t where, int64_t due_after_us,
                struct event *out_job);
enum { CORE_SOON_MAX = 16 };

/*
 * Prefetches what core_depart() will change (`departs`), or what core_spill() and core_relocate()
 * will read, for up to CORE_SOON_MAX jobs. Without it each job waits several times for memory.
 */
void core_fetch(const struct core *core, const uint64_t *seqs, uint32_t count, bool departs);
/*
 * The job leaves memory: from now on it is far, with its record at this place. False, and nothing
 * has changed: the job has changed since core_spill() or core_arrive(), or the index cannot hold
 * such a place. Emits nothing. O(1).
 */
bool core_depart(struct core *core, uint64_t seq, struct stored record);
/*
 * core_depart() for a job that has arrived: it returns to the place it came from. Also false if its
 * record is a different one by now (it may have been relocated, and be about to leave the log
 * again).
 */
bool core_return(struct core *core, uint64_t seq, struct stored record);
/*
 * A far job comes back to memory; `event` is its record, with its place. Emits nothing. As long as
 * the job does not change it may depart again, to the same place. A buried job becomes the first of
 * its topic's buried jobs, because those in memory were, as a rule, buried later. False: no job is
 * far at that place; if the job that was far there is in memory, it will not depart again. O(1); a
 * ready job: O(log ready jobs of the topic in memory).
 */
bool core_arrive(struct core *core, const struct event *event);
/*
 * Deletes a delayed far job without bringing it to memory first, which would cost more than the
 * deletion. `cmd` names the job, `event` is its record, with its place; replies through the
 * callbacks with `ctx`. False, and nothing has changed: this shortcut does not apply (another
 * command, one with a lease, a job in another state, or due); use core_arrive() and core_apply().
 * O(1).
 */
bool core_delete_far(struct core *core, int64_t now_us, const struct cmd *cmd,
                     const struct event *event, void *ctx);
/*
 * core_arrive() for a delayed job whose due time is near; does nothing for others, because they may
 * be ready already. If the job is due, no consumer waits for it and more ready jobs are in memory
 * than should be, it stays far and becomes ready. True: something has changed. A job that arrived
 * this way and becomes due later leaves memory in core_tick() under the same conditions, unless it
 * has changed.
 */
bool core_near(struct core *core, const struct event *event);

enum { CORE_FRONT_LEAST = 32, CORE_FRONT_MAX = 256 };

/* The far jobs that are handed out next from a topic, in order: as many as its waiting consumers
   want, but CORE_FRONT_LEAST at least and CORE_FRONT_MAX at most. */
struct core_front {
    uint32_t topic, count;
    bool many; /* they want more than one */
    struct {
        uint64_t seq, where;
    } jobs[CORE_FRONT_MAX];
};

/*
 * Finds the next topic with waiting consumers whose first ready job is far, and the first of its
 * far ready jobs, in order. Their records should be read and passed to core_front_arrive(); until
 * then no job of the topic is handed out. False: there is no such topic, or no far job may come:
 * core_limits::memory_bytes is exceeded and 1,024 jobs or more are reserved. O(count log count):
 * some 10 µs for 32 jobs.
 */
bool core_front(struct core *core, struct core_front *out_front);
/* Would core_front() return true? O(1). */
bool core_front_wanted(const struct core *core);
/*
 * core_arrive() for a job named by core_front(): it does not depart again. False: it is not far any
 * more; or it is, but the record is not the one in the index. In the second case call
 * core_front_unread(), or core_front() will return the job forever.
 */
bool core_front_arrive(struct core *core, const struct event *event);
/* The record of a job named by core_front() cannot be read: other jobs are handed out before it
   until core_front_retry(). O(CORE_FRONT_MAX). */
void core_front_unread(struct core *core, uint32_t topic_number, uint64_t seq, uint64_t where);
/* Puts jobs that core_front_unread() took out of the order back, up to 1,000 a call; true = there
   are more. */
bool core_front_retry(struct core *core);
/* The first ready job of the topic, if it is far: its number and the place of its record, for a
   PEEK. False: it is not far. O(1). */
bool core_front_first(struct core *core, struct bytes topic, uint64_t *out_seq,
                      uint64_t *out_where);
/*
 * The places where the record of a far job of this name may lie; only reading the records decides.
 * Returns how many. O(1).
 */
uint32_t core_far_find(const struct core *core, const struct job_ref *ref,
                       uint64_t out_where[static FAR_CANDIDATES_MAX]);
/*
 * As core_far_find(), for a name that no job in memory has; 0 if one has it. `is_new` is a hint
 * where to search first: true = most likely no job has this name. O(1).
 */
uint32_t core_far_only(const struct core *core, const struct job_ref *ref, bool is_new,
                       uint64_t out_where[static FAR_CANDIDATES_MAX]);
/* Is any job far? O(1). */
bool core_any_far(const struct core *core);
/* Is a job of this name in memory? O(1). */
bool core_holds(const struct core *core, const struct job_ref *ref);
/* Is the job of this number far, at this place? Wrong answers are as rare as equal hashes. O(1). */
bool core_is_far(const struct core *core, uint64_t seq, uint64_t where);
/* Where records of far jobs lie. */
struct far_places {
    /* The state of the jobs in the slice at this place; JOB_GONE: no slice is there. */
    enum job_state (*state_at)(void *ctx, uint64_t where);
    /* May a job whose record is at this place, in a slice or in the log, be far as well? The answer
       is the same for all places in a file. */
    bool (*may_be_twice)(void *ctx, uint64_t where);
    void *ctx;
};
/*
 * Recovery, after all events and before core_replayed(): about `jobs` far jobs will follow. No job
 * may be looked up until core_far_end() is done. `places` is used during this call only and says
 * which jobs in memory may be far as well; NULL: any may. O(jobs in memory).
 */
void core_far_begin(struct core *core, uint64_t jobs, const struct far_places *places);
/*
 * Recovery: these jobs are far, with their records at these places, except those that the core has
 * in memory. An older record of a job in memory is dropped. Faster if the jobs of a topic come
 * together and their names are the same bytes in memory. ERR_CORRUPT: no such place exists.
 * ERR_JOBS_LIMIT. O(count).
 */
enum err core_replay_far(struct core *core, const struct far_job *jobs, uint32_t count) MUST_USE;
/* Recovery: ends the far jobs. Call again while *out_more is true: each call does a 512th of the
   remaining work, milliseconds with a hundred million jobs. ERR_CORRUPT: a job came twice. */
enum err core_far_end(struct core *core, bool *out_more) MUST_USE;
/*
 * Closing: appends one part of an image of all jobs whose records lie in slices to `out`, for the
 * next start (docs/disk-format.md). Call it for all parts in order, with no other call between
 * them. False: no image can be made now, or the memory limit is reached; request no more parts.
 */
enum { CORE_FAR_IMAGE_PARTS = 98 };
bool core_far_image(struct core *core, const struct far_places *places, uint32_t part,
                    struct buf *out) MUST_USE;
/*
 * Recovery, before an image is taken or core_far_begin(): the records of these jobs are at these
 * places, in slices. An older record of one that is in memory is dropped, as by core_replay_far().
 * O(count).
 */
void core_drop_older(struct core *core, const struct far_job *jobs, uint32_t count);
/*
 * Recovery, after the log has been replayed, instead of core_far_begin() to core_far_end(): takes
 * the parts of the image in order. The store must be as it was when the image was made.
 * ERR_CORRUPT: not a valid image; no part of it was kept.
 */
enum err core_far_image_take(struct core *core, const struct far_places *places, uint32_t part,
                             struct bytes image) MUST_USE;
/* Discards the parts of an image that were taken so far. */
void core_far_image_drop(struct core *core);
/* How many of the topic's jobs in this state are far. O(1). */
uint64_t core_far_count(const struct core *core, struct bytes topic, enum job_state state);
/* How many of its jobs are in this state, far ones too. O(1). */
uint64_t core_state_count(const struct core *core, struct bytes topic, enum job_state state);

/* The position in a topic's delayed, ready or buried jobs where a command begins. */
struct far_after {
    enum job_state state;
    int64_t due_us; /* the first job after this due time and number; … */
    uint64_t seq;
    bool backwards; /* … or the last one before it; … */
    bool one;       /* … only that one job is needed */
};
/* Does the command go through jobs of a topic some of which are far? O(1). */
bool core_wants_far(const struct core *core, const struct cmd *cmd, struct far_after *out_after);

/* Would this command on one job, which is in memory, succeed? O(1). */
bool core_allows(const struct core *core, const struct cmd *cmd);
/* Is there memory for more jobs (core_limits::memory_bytes)? O(1). */
bool core_has_memory(const struct core *core);
/* How much memory is left, in bytes; UINT64_MAX without a limit. O(1). */
uint64_t core_memory_left(const struct core *core);
/* Far jobs whose due time is near wait for memory: while `waits`, pushes are refused with
   ERR_MEMORY_LIMIT, so that they get it. */
void core_far_waits(struct core *core, bool waits);

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
