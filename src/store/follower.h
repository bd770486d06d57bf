/*
 * A follower reads the log: every event once, in the order of the batches, when its batch is
 * durable. It has a name, and a cursor in the manifest: the last batch that it has acknowledged.
 * Segments with later batches are kept. The journal to MySQL is a follower.
 *
 *                  follower_ack ▼        ▼ follower_read       ▼ store_synced
 *     … gone │ kept for it ─────cursor───read──────────────────┴─ not durable yet
 *
 * It receives all events as the core emitted them, without the copies that the cleaner writes.
 * Damaged batches in which nothing lived are missing; the batch numbers then have a gap.
 *
 * The cursor on disk is written lazily, with the next write of the manifest. So after a crash a
 * follower may receive events again that it had acknowledged. A follower that must apply each event
 * exactly once stores the batch number with its own data, and passes it to follower_ack() after
 * opening.
 *
 * Retention is bounded. If the cleaner wants to remove a segment that a follower has not read, and
 * the log is larger than options.follower_bytes or the disk is full, the follower is dropped, so
 * that clients are not affected. follower_state() tells; it may start over.
 *
 * Main thread only.
 *
 * Invariants
 * F1 cursor ≤ read ≤ the last batch appended.
 * F2 If a follower was not dropped, the batch behind its cursor is in the log, or not written yet.
 */
#ifndef LATERD_STORE_FOLLOWER_H
#define LATERD_STORE_FOLLOWER_H

#include "base/bytes.h"
#include "base/err.h"
#include "core/event.h"
#include "store/format.h"
#include "store/stats.h"

struct follower; /* belongs to the store, until it is closed */
struct followers;
struct store;
struct store_stats;

enum follower_state {
    FOLLOWER_READS,
    FOLLOWER_DROPPED, /* batches behind its cursor are or will be removed */
};

/* Callbacks must not append to the store, because that may move the memory that they borrow. */
struct follower_callbacks {
    /* Called before the events of each batch, also for a batch without events. `epoch`: of the
       leader who wrote it, or 0; `clock_us`: when it was written, or 0. */
    void (*batch)(struct follower_callbacks *callbacks, uint64_t batch, uint64_t epoch,
                  int64_t clock_us);
    /* The bytes are borrowed until this returns. event->record is not set. */
    void (*event)(struct follower_callbacks *callbacks, uint64_t batch, const struct event *event);
    /*
     * If set, called instead of both: the batch as it is in the log, header and records (for
     * batch_walk_init()), borrowed until this returns. For a follower that decodes on another
     * thread; it has to skip copies itself.
     */
    void (*whole)(struct follower_callbacks *callbacks, const struct batch_head *head,
                  const char *batch);
    /*
     * If set, called instead of whole() for a batch of more than large_bytes: the disk's threads
     * have read and checked it, since copying it and its checksum take too long for a turn. The
     * bytes are the callback's, to be freed by mem_free().
     */
    void (*large)(struct follower_callbacks *callbacks, const struct batch_head *head, char *batch);
    size_t large_bytes;
};

/*
 * Opens the follower of that name (1 to FOLLOWER_NAME_MAX bytes, without NUL). A new one begins
 * behind everything appended so far. Creating one waits for the disk, so do it at start and not in
 * a turn. ERR_INVALID: not a valid name. ERR_JOBS_LIMIT: there are FOLLOWERS_MAX. ERR_STORE_FAILED,
 * ERR_DISK_FULL: what was appended cannot be written.
 */
enum err follower_open(struct store *store, struct bytes name,
                       struct follower **out_follower) MUST_USE;
/* Starts over, behind everything appended so far: for a follower that was dropped or cannot
   continue. */
void follower_restart(struct follower *follower);
/*
 * Continues a dropped follower behind this batch, which it had read. False: the batches behind it
 * are not in the log any more, or might be removed (they may be in the segment that is being
 * cleaned).
 */
bool follower_resume(struct follower *follower, uint64_t batch);
/* Removes the follower and frees it. laterd never does: a journal that was switched off may be
   switched on again. For tests and benches. */
void follower_remove(struct follower *follower);

enum follower_state follower_state(const struct follower *follower);
/* The last batch that it has acknowledged. */
uint64_t follower_cursor(const struct follower *follower);

/*
 * Calls the callbacks for the next durable batches, until `budget_bytes` of the log were read, but
 * for one batch at least. Never waits for the disk. OK: `*out_more` says whether more can be read
 * at once. ERR_AGAIN: the disk is reading, or no descriptor is free; call again after store_poll().
 * ERR_WRONG_STATE: the follower was dropped. ERR_IO: the disk cannot read; a later call tries
 * again.
 */
enum err follower_read(struct follower *follower, struct follower_callbacks *callbacks,
                       size_t budget_bytes, bool *out_more) MUST_USE;
/* Acknowledges batches up to this one, which must be durable: the follower will never need them
   again. */
void follower_ack(struct follower *follower, uint64_t batch);
/* Bytes of the log behind its cursor, in whole segments; 0: it has everything that is durable.
   O(segments). */
uint64_t follower_lag_bytes(const struct follower *follower);

/* ---- for the store's parts ---- */

struct followers *followers_new(struct store *store);
void followers_free(struct followers *followers); /* NULL does nothing; not while one is reading */
/* Opening, after the log: takes the followers that are in the manifest. */
void followers_begin(struct followers *followers, const struct manifest *manifest);
/* Sets their cursors in the manifest that is about to be written. */
void followers_fill(const struct followers *followers, struct manifest *manifest);
/* Has any follower not acknowledged all batches up to this one? */
bool followers_need(const struct followers *followers, uint64_t batch);
/* Drops those. */
void followers_drop(struct followers *followers, uint64_t batch);
bool followers_reading(const struct followers *followers); /* is a read under way? */
/* Segments that were looked at to find a follower's place, since opening: for tests. */
uint64_t followers_looks(const struct followers *followers);
void followers_stats(const struct followers *followers, struct store_stats *out_stats);
void followers_valid(const struct followers *followers); /* CHECKs the invariants. O(1) */

#endif
