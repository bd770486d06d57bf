/*
 * The cleaner makes checkpoints (log compaction, oldest segment first): it appends the live records
 * of the oldest segment to the end of the log again. When these are durable and the manifest no
 * longer names the segment, its file is removed (S4). docs/decisions/0004 says why the oldest and
 * not the emptiest segment.
 *
 * Jobs that are due beyond the horizon are moved to slices instead (spill.h). SLICE records of the
 * segment are written again.
 *
 * A read that fails, or a batch with a wrong checksum, is retried past the page cache, with growing
 * delays. If that does not help, the batch is skipped. The core still knows the jobs whose records
 * were in it: they are relocated without their bodies, marked so that they are never delivered, and
 * the segment's file is renamed ("set aside") instead of removed. MOVEs in such a batch of jobs
 * whose records lie in slices are not lost, because those jobs are in memory.
 *
 * Invariant: a segment is removed only when no live job is left in it and all bodies were
 * relocated.
 *
 * Main thread only; the disk's threads read for it.
 */
#ifndef LATERD_STORE_CLEANER_H
#define LATERD_STORE_CLEANER_H

#include <stdbool.h>
#include <stdint.h>

#include "store/stats.h"

struct cleaner;
struct store;
struct store_stats;

struct cleaner *cleaner_new(struct store *store); /* log and segments are there already */
void cleaner_free(struct cleaner *cleaner);       /* NULL does nothing; not while busy */

void cleaner_turn(struct cleaner *cleaner); /* a bounded portion of its work */
/* How many microseconds the next cleaner_turn() takes at most, besides one step; see decision 102.
 */
int64_t cleaner_allowed_us(const struct cleaner *cleaner);
int64_t cleaner_next_us(const struct cleaner *cleaner); /* when it has work; INT64_MAX: never */
bool cleaner_idle(const struct cleaner *cleaner);       /* for tests: no segment is being cleaned */
/*
 * On a full disk: will room become free (a segment be removed, or a file be made) even if this
 * batch is not written first? Then its commit should wait, because each commit takes a block of the
 * room that cleaning needs, and be written together with relocated jobs or later events.
 */
bool cleaner_gives_room(const struct cleaner *cleaner, uint64_t batch);
/* As spill_held_up(); NULL, too, while it is the disk, perhaps a full one, that keeps the cleaner
   from going on. */
const struct slice *cleaner_held_up(const struct cleaner *cleaner);
bool cleaner_removing(const struct cleaner *cleaner); /* the file is being removed */
bool cleaner_busy(const struct cleaner *cleaner);     /* a disk operation is under way */
/* Is the log larger than options.checkpoint_bytes, so that far jobs should leave it? */
bool cleaner_wants_checkpoint(const struct cleaner *cleaner);
/* Can it be, if the store's files leave `room` bytes below options.max_bytes? */
bool cleaner_may_want_checkpoint(const struct cleaner *cleaner, uint64_t room);
/* See store_move_unread(). */
bool cleaner_wants_move(const struct cleaner *cleaner, uint64_t where);
void cleaner_stats(const struct cleaner *cleaner, struct store_stats *out_stats);
void cleaner_valid(const struct cleaner *cleaner); /* CHECKs the invariants. O(1) */

#endif
