/*
 * Events back into state: the replay of a log into a new core. And the checkpoint: what lives in an
 * old part of the log is emitted again.
 */
#ifndef LATERD_CORE_REPLAY_H
#define LATERD_CORE_REPLAY_H

#include "core/core.h"

/*
 * Into a new core: applies one event to the state. The place of an EVENT_JOB is
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
 * Between events: the time at which the following events were logged, up to the next call.
 * A job that was due at that time is ready after the restart, even if the clock is behind then; so
 * is a job that was logged as ready. Without any call only the latter is known. 0: the following
 * events come from a version that did not log the time, and the clock at the restart alone decides
 * what is ready. O(1), but O(jobs) where the log's clock was set back.
 */
void core_replay_clock(struct core *core, int64_t clock_us);
/*
 * Ends the replay: links every job where it belongs at this time, in one pass (about 0.2 µs a job).
 * Reserved jobs keep their lease and the rest of their ttr, because their consumers may still be
 * running. If the clock is behind the log's, it was set back: leases and pauses are shortened by
 * the difference, and events record that. The order of a topic's buried jobs is lost.
 */
void core_replayed(struct core *core, int64_t now_us);

/* ---- checkpoint ---- */

/*
 * If the record at `where` is still the newest one of what the event describes, emits
 * it again, with the parts that only the record has (content type, body, properties; the store has
 * just read them), and keeps the new place. A MOVE of a job whose record lies elsewhere, at
 * `where`: emits a MOVE with the job's present state; the caller knows whether there is a later
 * one. True: an event was emitted. False: the record is not the newest one any more, or the event
 * has no place of its own; nothing was emitted.
 */
bool core_relocate(struct core *core, const struct event *event, uint64_t where);
/* The same of a JOB, only if the job may leave memory (core_spill()): it is delayed until after
   `due_after_us`, or buried, or ready and not among those at the front of its topic that stay, and
   has no notes of attempts. O(1). */
enum changed_verdict core_relocate_changed(struct core *core, const struct event *event,
                                           uint64_t where, int64_t due_after_us);
/*
 * The records at places from `first` up to (not including) `end` cannot be read. Emits
 * each job whose record is there again, with an empty body; notes of attempts at those places are
 * lost. Goes through all jobs in slices of `budget` steps, from *cursor on, which is 0 at first;
 * true = there is more.
 */
bool core_relocate_unread(struct core *core, uint64_t first, uint64_t end, uint32_t *cursor,
                          uint32_t budget);
/*
 * Emits an EVENT_MOVE with the present state of each job for whose record's place
 * `unread` returns true: the record stays, but its last MOVE cannot be read. In slices as above.
 */
bool core_relocate_moves(struct core *core, bool (*unread)(void *ctx, uint64_t where), void *ctx,
                         uint32_t *cursor, uint32_t budget);
/*
 * Emits all pauses, which have no place of their own, and the settings whose records
 * are at places from `first` up to (not including) `end`: the core has their bytes. In slices as
 * above.
 */
bool core_relocate_topics(struct core *core, uint64_t first, uint64_t end, uint32_t *cursor,
                          uint32_t budget);

#endif
