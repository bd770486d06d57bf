/*
 * The cleaner makes checkpoints: it cleans the log first in, first out. The oldest segment's live
 * jobs are appended again at its end, and when they are durable there and the manifest no longer
 * names the segment, its file goes (S4). docs/decisions/0004 says why in this order and not by
 * emptiness.
 *
 * Before that, jobs that are due beyond the horizon go to slices (spill.h), and what batches of the
 * segment told of slices is told again.
 *
 * A read that fails, or a batch that does not match its checksum, is tried again, later and later,
 * past the page cache. If that does not help the walk goes round the batch. Jobs whose records were
 * in it are known to the core all the same; they are relocated without their bodies, marked so that
 * they are never delivered, and the segment's file is not removed but set aside. Changes in such a
 * batch of jobs whose records lie in slices are not lost: those jobs are in memory.
 *
 * Invariant: a segment is removed only when no live job is left in it and all bodies were
 * relocated.
 */
#ifndef LATERD_STORE_CLEANER_H
#define LATERD_STORE_CLEANER_H

#include <stdbool.h>
#include <stdint.h>

struct cleaner;
struct store;
struct store_stats;

struct cleaner *cleaner_new(struct store *store); /* log and segments are there already */
void cleaner_free(struct cleaner *cleaner);       /* NULL does nothing; not while busy */

void cleaner_turn(struct cleaner *cleaner); /* a bounded slice of its work */
/* The next turn goes on for so long at most, and one step besides. */
int64_t cleaner_allowed_us(const struct cleaner *cleaner);
int64_t cleaner_next_us(const struct cleaner *cleaner); /* wants a turn then; or INT64_MAX */
bool cleaner_idle(const struct cleaner *cleaner);       /* no segment is being cleaned */
/*
 * Is a segment about to go, or a file about to come, without this batch being written first? Each
 * commit takes a block of the room that cleaning a full disk needs: it should wait for that, and go
 * with the jobs that are relocated, or with what comes meanwhile.
 */
bool cleaner_gives_room(const struct cleaner *cleaner, uint64_t batch);
bool cleaner_held_up(const struct cleaner *cleaner);  /* jobs depart when a visit is over */
bool cleaner_removing(const struct cleaner *cleaner); /* the disk removes the segment */
bool cleaner_busy(const struct cleaner *cleaner);     /* the disk reads or removes for it */
/* Is the log larger than it need be when far jobs leave it? Else none does. */
bool cleaner_wants_checkpoint(const struct cleaner *cleaner);
/* See store_move_unread(). */
bool cleaner_wants_move(const struct cleaner *cleaner, uint64_t where);
void cleaner_stats(const struct cleaner *cleaner, struct store_stats *out_stats);
void cleaner_valid(const struct cleaner *cleaner); /* CHECKs the invariants. O(1) */

#endif
