/*
 * A follower reads the log: every event once, in the order of the batches, when its batch is
 * durable. It has a name, and a cursor in the manifest that says how far it has read; segments
 * behind the cursor are kept until it has. A journal, a standby or a history is a follower.
 *
 *                  follower_ack ▼        ▼ follower_read       ▼ store_synced
 *     … gone │ kept for it ─────cursor───read──────────────────┴─ not durable yet
 *
 * What it is told: all events, as the core emitted them. Copies that the
 * cleaner makes are no events, and are not shown. Batches that were damaged when nothing that lives
 * was in them are missing: batch numbers jump there.
 *
 * The cursor on disk is lazy: it goes with the manifest's next writing, so after a crash a follower
 * may be told again what it had acknowledged. Who must apply each event once keeps the batch number
 * with what it writes, and says it with follower_ack() after opening.
 *
 * Retention is bounded: while the cleaner wants a segment that a follower has not read, and the log
 * is larger than options.follower_bytes or the disk is full, the follower is dropped: a follower
 * loses before a client does. It learns of it by its state, and may start over.
 *
 * Invariants
 * F1 cursor ≤ read ≤ the last batch appended.
 * F2 The batch behind the cursor of a follower that was not dropped is in the log, or not written.
 */
#ifndef LATERD_STORE_FOLLOWER_H
#define LATERD_STORE_FOLLOWER_H

#include "base/bytes.h"
#include "base/err.h"
#include "core/event.h"
#include "store/format.h"

struct follower; /* belongs to the store, until it is closed */
struct followers;
struct store;
struct store_stats;

enum follower_state {
    FOLLOWER_READS,
    FOLLOWER_DROPPED, /* what is behind its cursor is gone, or will be */
};

/* They must not append to the store: what they are shown lies in memory that this may move. */
struct follower_callbacks {
    /* Before a batch's events, also if there are none. */
    void (*batch)(struct follower_callbacks *callbacks, uint64_t batch, uint64_t epoch,
                  int64_t clock_us);
    /* Its bytes are borrowed until it returns; event->record says nothing. */
    void (*event)(struct follower_callbacks *callbacks, uint64_t batch, const struct event *event);
    /*
     * If set, in place of both: the batch as it is in the log, header and records (what
     * batch_walk_init() takes), borrowed until it returns. For a follower that decodes on another
     * thread; copies are its own to step over.
     */
    void (*whole)(struct follower_callbacks *callbacks, const struct batch_head *head,
                  const char *batch);
};

/*
 * The follower of that name (1 to FOLLOWER_NAME_MAX bytes, no zero); a new one begins behind all
 * that was appended so far. Making one waits for the disk: it is for the start, not for a turn.
 * ERR_INVALID: no such name can be. ERR_JOBS_LIMIT: there are FOLLOWERS_MAX. ERR_STORE_FAILED,
 * ERR_DISK_FULL: what was appended cannot be written.
 */
enum err follower_open(struct store *store, struct bytes name,
                       struct follower **out_follower) MUST_USE;
/* It is dropped, or of no use any more: it starts over, behind all that was appended so far. */
void follower_restart(struct follower *follower);
/* It is dropped, and goes on behind this batch, which it had read. False: what is behind that is
   not in the log any more, or not for sure: it may be in the segment that is being cleaned. */
bool follower_resume(struct follower *follower, uint64_t batch);
/* It ends; the pointer is not valid any more. */
void follower_remove(struct follower *follower);

enum follower_state follower_state(const struct follower *follower);
uint64_t follower_cursor(
    const struct follower *follower); /* it has acknowledged up to this batch */

/*
 * Tells of the next durable batches, until `budget_bytes` of the log were looked at (one batch at
 * least), and never waits for the disk. OK: `*out_more` says whether there is more at once.
 * ERR_AGAIN: the disk is reading, or no descriptor is free; ask again after store_poll().
 * ERR_WRONG_STATE: it was dropped. ERR_IO: the disk cannot read; asking again tries again.
 */
enum err follower_read(struct follower *follower, struct follower_callbacks *callbacks,
                       size_t budget_bytes, bool *out_more) MUST_USE;
/* It will never ask again for batches up to this one, which must be durable. */
void follower_ack(struct follower *follower, uint64_t batch);
/* Bytes of the log behind its cursor, by segments; 0: it has all that is durable. O(segments). */
uint64_t follower_lag_bytes(const struct follower *follower);

/* ---- for the store's parts ---- */

struct followers *followers_new(struct store *store);
void followers_free(struct followers *all); /* NULL does nothing; not while one is reading */
/* From what was found in the manifest; the log is known. */
void followers_begin(struct followers *all, const struct manifest *manifest);
/* Their cursors, into the manifest that is about to be written. */
void followers_fill(const struct followers *all, struct manifest *manifest);
/* Has one of them not read all batches up to this one? */
bool followers_need(const struct followers *all, uint64_t batch);
/* Drops those. */
void followers_drop(struct followers *all, uint64_t batch);
bool followers_reading(const struct followers *all); /* is a read under way? */
void followers_stats(const struct followers *all, struct store_stats *out_stats);
void followers_valid(const struct followers *all); /* CHECKs the invariants. O(1) */

#endif
