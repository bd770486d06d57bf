/*
 * Far jobs: delayed, ready and buried jobs that are not in memory. Their records lie in slices of
 * the store, at places whose low 32 bits are below FAR_OFFSET_END / 2. All counts include them, but
 * commands do not see them: to apply a command to one, the caller reads its record and calls
 * core_arrive() first. Only for use after replay, except the functions under "recovery".
 */
#ifndef LATERD_CORE_FAR_H
#define LATERD_CORE_FAR_H

#include "core/core.h"

/* Sets store_far_key(). Before any other function for far jobs. */
void core_use_far_key(struct core *core, uint64_t key);
/*
 * For a clock that was set back over a restart: a delayed far job whose record is at `where` and
 * which is due by due_by() has been due before, and is ready when it arrives.
 */
void core_use_far_due(struct core *core, int64_t (*due_by)(void *ctx, uint64_t where), void *ctx);
/*
 * May this job leave memory? `event` is a record of it that lies at `where`. True only if that is
 * its newest record, the job has no notes of attempts, and
 * - it is delayed until after `due_after_us`, or
 * - it is ready or buried, more such jobs are in memory than core_limits allows, and it is not one
 *   of those at the front of its topic that stay.
 * Then `out_job` is the whole job as it is now; its bytes are borrowed from `event` and the core.
 * `out_job` may be `event` itself, which saves a copy.
 */
bool core_spill(struct core *core, const struct event *event, uint64_t where, int64_t due_after_us,
                struct event *out_job);

enum { CORE_SOON_MAX = 16 };
/*
 * Prefetches what core_depart() will change (`departs`), or what core_spill() and core_relocate()
 * will read, for up to CORE_SOON_MAX jobs. Without it each job waits several times for memory.
 */
void core_fetch(struct core *core, const uint64_t *seqs, uint32_t count, bool departs);
/* Prefetches what is looked up, or changed, for a command on a job of this name, which is most
   likely far. */
void core_fetch_far(const struct core *core, const struct job_ref *ref);
/* Prefetches what is looked up for pushes of jobs of these ids, CORE_SOON_MAX at most: one beside
   the other, so that the processor waits for the addresses of several pages at once. */
void core_fetch_new(const struct core *core, const struct bytes *ids, uint32_t count);
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
/*
 * Is a LIST, PEEK, KICK_TOPIC or CLEAR_TOPIC parked that searches the jobs of a topic for which
 * `may_have` is true? It finds only jobs that stay in memory. Of more than some dozen it asks no
 * details, and is true. O(scans).
 */
bool core_searches(const struct core *core, bool (*may_have)(const void *ctx, struct bytes topic),
                   const void *ctx);
/* Would one search more, of any topic, make it true for all topics? O(1). */
bool core_searches_many(const struct core *core);
/* Far jobs whose due time is near wait for memory: while `waits`, pushes are refused with
   ERR_MEMORY_LIMIT, so that they get it. */
void core_far_waits(struct core *core, bool waits);

/* ---- recovery ---- */

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
 * After all events and before core_replayed(): about `jobs` far jobs will follow. No job
 * may be looked up until core_far_end() is done. `places` is used during this call only and says
 * which jobs in memory may be far as well; NULL: any may. O(jobs in memory).
 */
void core_far_begin(struct core *core, uint64_t jobs, const struct far_places *places);
/*
 * These jobs are far, with their records at these places, except those that the core has
 * in memory. An older record of a job in memory is dropped. Faster if the jobs of a topic come
 * together and their names are the same bytes in memory. ERR_CORRUPT: no such place exists.
 * ERR_JOBS_LIMIT. O(count).
 */
enum err core_replay_far(struct core *core, const struct far_job *jobs, uint32_t count) MUST_USE;
/* Ends the far jobs. Call again while *out_more is true: each call does a 512th of the
   remaining work, milliseconds with a hundred million jobs. ERR_CORRUPT: a job came twice. */
enum err core_far_end(struct core *core, bool *out_more) MUST_USE;
/*
 * Before an image is taken or core_far_begin(): the records of these jobs are at these
 * places, in slices. An older record of one that is in memory is dropped, as by core_replay_far().
 * O(count).
 */
void core_drop_older(struct core *core, const struct far_job *jobs, uint32_t count);

#endif
