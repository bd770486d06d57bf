/*
 * The queue itself: a pure state machine. The caller gives it the time, a sink for events and a
 * callback for replies; it reads no clock, opens nothing, logs nothing. The same calls have the
 * same effects: that is promise P9, and the simulator needs it.
 *
 * One thread. A turn calls core_tick, core_apply for each command, core_match, core_next_us.
 */
#ifndef LATERD_CORE_CORE_H
#define LATERD_CORE_CORE_H

#include "base/budget.h"
#include "base/far_index.h"
#include "core/cmd.h"
#include "core/event.h"

struct core;

#define CORE_JOBS_MAX UINT64_C(268435455) /* their numbers have 28 bits on the timing wheel */

struct core_limits {
    uint64_t jobs; /* live jobs; above CORE_JOBS_MAX it counts as that */
    uint32_t topics;
    uint32_t waiters;          /* parked commands */
    uint64_t memory_bytes;     /* pushes are refused while mem_used() is above; 0 = no limit */
    uint64_t ready_in_memory;  /* no ready job becomes far while no more are in memory, … */
    uint64_t buried_in_memory; /* … and no buried one */
};

/*
 * Every command is answered exactly once, through `reply`: before core_apply returns, or, for a
 * parked command, from core_match (a job came), core_tick (the wait ended: ERR_EMPTY; or the scan
 * is through) or core_drain. `ctx` is what core_apply was given. The callback must not call the
 * core.
 */
struct core_callbacks {
    void (*reply)(struct core_callbacks *callbacks, void *ctx, const struct reply *reply);
    /* A topic's settings have changed, but not in replay; empty: it has none any more. Bytes are
       borrowed. The same holds for it. May be NULL. */
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

struct core *core_new(const struct core_options *options);
void core_free(struct core *core);

/*
 * From now on work is counted against this budget, which the caller fills up and the core lowers:
 * what is longer than the budget is done in slices, by core_tick and core_match. NULL, as at first:
 * there is no limit. Borrowed until the next call of this.
 */
void core_use_budget(struct core *core, struct budget *budget);

/*
 * Does the command. 0: it was answered. Else it cannot be answered now, and this is a handle for
 * core_cancel: a reserve that must wait (for a job, or for those who wait
 * already to be served first), or LIST, PEEK, TOPIC, KICK_TOPIC and CLEAR_TOPIC when there is much
 * to look at or to change. Complexity: O(log ready jobs of the topic); TOPICS: O(max).
 *
 * LIST, TOPIC (of one that has delayed jobs) and what looks for delayed or reserved jobs read the
 * whole pool of jobs, at once if it is small, else a slice in each core_tick. A job that keeps its
 * state and due time from beginning to end of a listing, over all its pages, is shown exactly once;
 * one that changes meanwhile may be shown or not; none is shown twice on one page, nor in a state
 * that it is not in. A page may hold fewer jobs than asked for though there are more: `more` and
 * the cursor say so.
 */
uint64_t core_apply(struct core *core, int64_t now_us, const struct cmd *cmd, void *ctx);

/*
 * The client of a parked command has gone: it gets no job and no reply (P6). Does nothing if the
 * command was answered meanwhile: handles are not used again.
 */
void core_cancel(struct core *core, uint64_t parked);

/*
 * Moves what is due: delayed jobs to ready, reserved jobs whose ttr ran out onward, ends waits and
 * pauses. Does about `steps` steps; true = there is more to do at once (P3: never early).
 */
bool core_tick(struct core *core, int64_t now_us, uint32_t steps);

/*
 * Gives ready jobs to waiting consumers, first come first served within a topic, at most `jobs` of
 * them; true = there is more to give.
 */
bool core_match(struct core *core, int64_t now_us, uint32_t jobs);

/* When core_tick or core_match has something to do next; INT64_MAX = never. O(1). */
int64_t core_next_us(const struct core *core);

/*
 * When something happened last that no event records and that a restart must know: a job became
 * ready or a pause ended, because the clock reached a time. INT64_MIN = never. See
 * core_replay_clock().
 */
int64_t core_unlogged_us(const struct core *core);

uint64_t core_lease_next(const struct core *core); /* the lease that will be given next */

/* Do consumers wait while jobs are delayed, so that a late turn would make a job late? O(1). */
bool core_is_awaited(const struct core *core);

/*
 * Answers parked reserves with this error (ERR_DRAINING, ERR_STORE_FAILED, ERR_JOURNAL_DOWN), as
 * far as the budget goes. True: there are more.
 */
bool core_drain(struct core *core, enum err err);

/*
 * Server-made numbers and leases count on from at least these (the store knows them once it is
 * open). Before the first core_apply.
 */
void core_number_from(struct core *core, uint64_t seq_first, uint64_t lease_first);

/*
 * Replay, into a new core: applies one event to the state. EVENT_JOB's place is event->record.
 * ERR_CORRUPT: no core emits such an event.
 */
enum err core_replay(struct core *core, const struct event *event) MUST_USE;
/*
 * Events of such a job will be replayed soon: has the processor fetch what they need. Does nothing
 * else, so what it is told need not be true; but a million jobs are replayed in two thirds of the
 * time if it is told of each some ten events ahead. The id may be empty.
 */
void core_expect(const struct core *core, const struct job_ref *ref);
/*
 * Between events: what the clock showed when the events that follow were logged, up to the next
 * call. A job that was due by the log's clock is ready after the restart, whatever the clock says
 * then; and so is one that was logged as ready. Without any call, that is all that is known. A
 * clock of 0: the events that follow are of a version that did not log the time, and by those the
 * clock at the restart alone says what is ready. O(1), but O(jobs) where the log's clock was set
 * back.
 */
void core_replay_clock(struct core *core, int64_t clock_us);

/* Shows a job. False: there is no such one. Good until the core is called again. O(1). */
bool core_show(const struct core *core, const struct job_ref *ref, struct job_view *out_view);

/* Is there a live job with this number, or this id? Of a far one it can only be said that there may
   be: true, too. */
bool core_has(const struct core *core, uint64_t seq, struct bytes id);

/*
 * After the last one: hangs every job where it belongs at this time, in one pass (about 0.2 µs a
 * job). Reserved jobs keep their lease and what is left of their ttr: their consumers may still be
 * running. If the clock is behind the log's, it was set back; leases and pauses then end so
 * much earlier on it, and events say so. Buried jobs of a topic lose their order.
 */
void core_replayed(struct core *core, int64_t now_us);

/*
 * Checkpoint: is the newest record of what the event tells of still the one at `where`? If so,
 * emits it again, with what only the record has (content type, body, properties; the store has just
 * read them), and takes the new place. For a MOVE of a job whose record lies elsewhere, at `where`,
 * one is emitted that says how the job is now: the caller knows whether there is a later one. Other
 * events that have no place of their own do nothing.
 */
bool core_relocate(struct core *core, const struct event *event, uint64_t where);
/*
 * Checkpoint: emits again, with an empty body, each job whose record is at a place from `first` up
 * to (not with) `end`: those records cannot be read. Goes through all jobs in slices of `budget`
 * steps, from *cursor on, which is 0 at first; true = there is more. Notes of attempts at those
 * places are lost.
 */
bool core_relocate_unread(struct core *core, uint64_t first, uint64_t end, uint32_t *cursor,
                          uint32_t budget);
/*
 * Checkpoint: emits how it is now (EVENT_MOVE) of each job for whose record's place `unread` says
 * true: its record stays, the event that said so cannot be read. In slices as above.
 */
bool core_relocate_moves(struct core *core, bool (*unread)(void *ctx, uint64_t where), void *ctx,
                         uint32_t *cursor, uint32_t budget);
/*
 * The same for topics: emits all pauses, which have no place of their own, and the settings whose
 * record is at a place from `first` up to (not with) `end`: the core has their bytes.
 */
bool core_relocate_topics(struct core *core, uint64_t first, uint64_t end, uint32_t *cursor,
                          uint32_t budget);

/*
 * The body of the job that is reserved under this lease turned out damaged: it is buried, so that
 * an operator can see it, and never handed out.
 */
void core_bury_damaged(struct core *core, int64_t now_us, uint64_t seq, uint64_t lease);

/*
 * The consumer of a reserved job has not got it yet: the lease runs for `run_us` from now. Sets
 * *out_until_us. False: the job is not reserved under this lease any more.
 */
bool core_restart_lease(struct core *core, int64_t now_us, uint64_t seq, uint64_t lease,
                        int64_t run_us, int64_t *out_until_us);

/* Where the note of an attempt is. */
struct note_place {
    uint32_t number;
    struct stored stored; /* .where 0: it is lost */
};
/* The notes of a job that are kept, oldest first. Returns how many. O(1). */
uint32_t core_note_places(const struct core *core, uint64_t seq,
                          struct note_place out_places[static JOB_NOTES_MAX]);
/* All notes die. Before core_free(), for an engine that has their texts in memory. */
void core_drop_all_notes(struct core *core);

/*
 * Far jobs: delayed, ready and buried ones that are not in memory, whose records lie in slices of
 * the store, at places whose low 32 bits are below FAR_OFFSET_END / 2. They count as what they are
 * in every count, and are looked at by nothing else: who wants to do anything with one reads its
 * record and has it arrive first. All of these but those for
 * recovery after replay.
 */

/* store_far_key(). Before the first of the others. */
void core_use_far_key(struct core *core, uint64_t key);
/*
 * May the job, whose record is the event's and lies at `where`, depart? Only if that is its newest
 * record, and it is delayed until after `due_after_us`; or buried or ready and more are in memory
 * than core_limits says, and it is not among its topic's share of those, in front. True: `out_job`
 * is all of it as it is now, its bytes borrowed from `event` and the core. Jobs with notes of
 * attempts stay.
 */
bool core_spill(struct core *core, const struct event *event, uint64_t where, int64_t due_after_us,
                struct event *out_job);
enum { CORE_SOON_MAX = 16 };

/*
 * The processor is asked to fetch what is known of jobs that are going to depart, or (`departs`
 * false) to be looked at: each would be waited for several times. CORE_SOON_MAX at most.
 */
void core_fetch(const struct core *core, const uint64_t *seqs, uint32_t count, bool departs);
/*
 * The job is far from now on, its record at this place. False: it has changed since core_spill() or
 * core_arrive(), or such a place cannot be kept; nothing has changed. Emits nothing. O(1).
 */
bool core_depart(struct core *core, uint64_t seq, struct stored record);
/*
 * The same with a job that has arrived, and goes back to where it came from. False, too: its record
 * is another one by now (it may have been relocated, and be about to leave the log again).
 */
bool core_return(struct core *core, uint64_t seq, struct stored record);
/*
 * A far job's record is `event`, with its place: the core has it in memory from now on. Emits
 * nothing. Until something about it changes it may depart again, to the same place. A buried one is
 * the first of its topic's buried jobs: those in memory were buried later, as a rule. False: no job
 * is far at that place; if one that was is in memory, it does not depart again. O(1), of a ready
 * one O(log ready jobs of the topic in memory).
 */
bool core_arrive(struct core *core, const struct event *event);
/*
 * Deletes a far job that is delayed, without having it in memory as any other job: that would cost
 * more than its end. The command names it, `event` is its record, with its place; replies through
 * the callbacks with `ctx`. False: not so simple (another command, one with a lease, a job in
 * another state, or due); nothing has changed, and core_arrive() and core_apply() do it. O(1).
 */
bool core_delete_far(struct core *core, int64_t now_us, const struct cmd *cmd,
                     const struct event *event, void *ctx);
/*
 * As core_arrive(), of a delayed job that draws near, and nothing of another one: it may be ready
 * already. If it is due, nobody waits for it, and more ready jobs are in memory than are to stay,
 * it is far as before, and ready. True: something has changed. A job that arrives thus and falls
 * due later leaves memory in core_tick() under the same conditions, unless something about it has
 * changed.
 */
bool core_near(struct core *core, const struct event *event);

enum { CORE_FRONT_MAX = 32 };

/* Far jobs that are handed out next from a topic: a number and the place of its record each. */
struct core_front {
    uint32_t topic, count;
    struct {
        uint64_t seq, where;
    } jobs[CORE_FRONT_MAX];
};

/*
 * The next topic of those that consumers wait for and whose first ready job is far: the first of
 * its ready jobs that are far, in order. They are to arrive, by core_front_arrive(), until then
 * nothing of the topic is handed out. False: there is none, or no far job may come: there is
 * neither memory (core_limits::memory_bytes), nor are fewer than 1,024 jobs reserved. O(max^2),
 * some 10 µs.
 */
bool core_front(struct core *core, struct core_front *out_front);
/* Is there such a topic, and may far jobs come? O(1). */
bool core_front_wanted(const struct core *core);
/* As core_arrive(), but the job stays. False: it is not far any more; or it is still, and the
   record is not that of which the index tells: it has to be told of by core_front_unread(), else it
   is asked for without an end. */
bool core_front_arrive(struct core *core, const struct event *event);
/* The record of such a job cannot be read: others are handed out before it, until
   core_front_retry(). O(1). */
void core_front_unread(struct core *core, uint32_t topic_number, uint64_t seq, uint64_t where);
/* Those are handed out at their place again, some thousand of them; true = there are more. */
bool core_front_retry(struct core *core);
/* The first ready job of the topic, if that is far: its number, and the place of its record, for
   who peeks at it. False: it is not. O(1). */
bool core_front_first(struct core *core, struct bytes topic, uint64_t *out_seq,
                      uint64_t *out_where);
/*
 * The places where the record of a far job of this name may lie; whoever reads it there knows.
 * Returns how many. O(1).
 */
uint32_t core_far_find(const struct core *core, const struct job_ref *ref,
                       uint64_t out_where[static FAR_CANDIDATES_MAX]);
/*
 * The same of a name that no job in memory has; 0 if one has it. `is_new` says where to look first,
 * and changes nothing else: true = most likely nobody has the name, false = most likely a job has.
 * O(1).
 */
uint32_t core_far_only(const struct core *core, const struct job_ref *ref, bool is_new,
                       uint64_t out_where[static FAR_CANDIDATES_MAX]);
/* Is any job far? O(1). */
bool core_any_far(const struct core *core);
/* Has the core a job of this name in memory? O(1). */
bool core_holds(const struct core *core, const struct job_ref *ref);
/* Is the job of this number far, at this place? As good as certain. O(1). */
bool core_is_far(const struct core *core, uint64_t seq, uint64_t where);
/* Where records of far jobs lie. */
struct far_places {
    /* The state of the jobs in the slice that the place is in; JOB_GONE: it is in none. */
    enum job_state (*state_at)(void *ctx, uint64_t where);
    /* May a job whose record is at this place, in a slice or in the log, be far as well? It is the
       same for all places in a file. */
    bool (*may_be_twice)(void *ctx, uint64_t where);
    void *ctx;
};
/*
 * Recovery, after all events and before core_replayed(): about so many far jobs will be told of.
 * Until core_far_end() no job is looked for. `places`, used by this call alone, says which jobs in
 * memory may be far as well; NULL: any may. O(jobs in memory).
 */
void core_far_begin(struct core *core, uint64_t jobs, const struct far_places *places);
/*
 * These are far, but for those that the core has in memory, and their records there. An older
 * record of one in memory goes. Cheaper if those of a topic come together, and names that are the
 * same bytes in memory. ERR_CORRUPT: no such place is given out. ERR_JOBS_LIMIT. O(count).
 */
enum err core_replay_far(struct core *core, const struct far_job *jobs, uint32_t count) MUST_USE;
/* All were told of. Does a part of what is left to do, a 512th of it all: milliseconds with a
   hundred million jobs. `*out_more`: there is more. ERR_CORRUPT: one of them came twice. */
enum err core_far_end(struct core *core, bool *out_more) MUST_USE;
/*
 * The image of all that is known of jobs whose records lie in slices, in parts, for the next start:
 * docs/disk-format.md. All parts in order, and no other call between them. Appends to `out`. False:
 * there can be none now, or the limit of memory is reached; no part more is asked for.
 */
enum { CORE_FAR_IMAGE_PARTS = 98 };
bool core_far_image(struct core *core, const struct far_places *places, uint32_t part,
                    struct buf *out) MUST_USE;
/*
 * Instead of core_far_begin() to core_far_end(), if the store is as it was when the image was made,
 * and the log has been replayed: each part in order. ERR_CORRUPT: it is no such image, and nothing
 * was taken of any part.
 */
enum err core_far_image_take(struct core *core, const struct far_places *places, uint32_t part,
                             struct bytes image) MUST_USE;
/* No more parts come: what has come is forgotten. */
void core_far_image_drop(struct core *core);
/* How many of the topic's jobs in this state are far. O(1). */
uint64_t core_far_count(const struct core *core, struct bytes topic, enum job_state state);
/* How many of its jobs are in this state, far ones too. O(1). */
uint64_t core_state_count(const struct core *core, struct bytes topic, enum job_state state);

/* From where on a command goes through a topic's delayed, ready or buried jobs. */
struct far_after {
    enum job_state state;
    int64_t due_us; /* the first one after this due time and number, … */
    uint64_t seq;
    bool backwards; /* … or the last one before it; … */
    bool one;       /* … it needs that one alone */
};
/* Does the command go through jobs of a topic of which some are far? O(1). */
bool core_wants_far(const struct core *core, const struct cmd *cmd, struct far_after *out_after);

/* A command on one job, in memory: would it be done, and not refused? O(1). */
bool core_allows(const struct core *core, const struct cmd *cmd);
/* Is there memory for more jobs (core_limits::memory_bytes)? O(1). */
bool core_has_memory(const struct core *core);
/* How many bytes more there may be; UINT64_MAX without a limit. O(1). */
uint64_t core_memory_left(const struct core *core);
/* Far jobs that draw near wait for memory: until they do not, pushes are refused as if there were
   none. */
void core_far_waits(struct core *core, bool waits);

enum { NEXT_READY_MAX = 32 };

/*
 * The jobs that will be taken next from a topic, in order: at most `max`, which is at most
 * NEXT_READY_MAX. Returns how many. Good until the core is called again. O(max^2), some 5 µs.
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
 * Delayed jobs in memory that are due at or before each of these times. O(times * wheel slots), and
 * some thousand jobs at most are looked at: see wheel_count_until(). Near enough for people, exact
 * for small numbers.
 */
void core_due_until(const struct core *core, const int64_t *until_us, uint64_t *out_counts,
                    uint32_t count);

/* Shows every job, in no order. O(jobs). The core must not be called from inside. */
void core_each(const struct core *core, void (*each)(void *ctx, const struct job *job), void *ctx);

/*
 * Shows jobs in memory, in no order, a slice at a time: `budget` places are looked at. *cursor is 0
 * at first. False: that was all. A job that is in memory from the first call to the last one is
 * shown. The core must not be called from inside.
 */
bool core_visit(const struct core *core, uint32_t *cursor, uint32_t budget,
                void (*each)(void *ctx, const struct job *job), void *ctx);

/* Tells of the settings of all topics that have any. The core must not be called from inside. */
void core_each_settings(const struct core *core,
                        void (*each)(void *ctx, struct bytes topic, uint64_t version,
                                     struct bytes settings),
                        void *ctx);

/* CHECKs every invariant of the whole state. O(everything): tests and the simulator only. */
void core_valid(const struct core *core);

/* A hash of all that must survive a crash, whatever the order of the jobs in memory. */
uint64_t core_digest(const struct core *core);

#endif
