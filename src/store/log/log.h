/*
 * The write-ahead log: an event's way to the disk.
 *
 *     append ─▶ open batch ─seal▶ sealed queue ─hand over▶ disk ─▶ durable ─▶ callbacks
 *                  │                                            │
 *                  └── lies in a write buffer, an image of a stretch of the segment's file
 *
 * A batch gets its place (segment, offset) when it is opened, because log_append() returns the
 * place of a record at once. So a segment may be in the log before its file is made; its batches
 * wait in the queue until then.
 *
 * Invariants
 * L1 Of batch numbers: proven ≤ synced ≤ written < sealed batches < open batch < batch_next.
 *    Batches up to `proven` are known to be durable from what is on disk.
 * L2 The numbers of the sealed batches follow `written` without a gap.
 * L3 The write buffers have the bytes of their batches, in the order of their places.
 *
 * Main thread only; the commit thread writes the batch that it was given.
 */
#ifndef LATERD_STORE_LOG_H
#define LATERD_STORE_LOG_H

#include "base/err.h"
#include "core/event.h"
#include "port/disk.h"
#include "store/stats.h"

enum {
    BATCH_FULL = 256 * 1024,       /* bytes: a batch has no more, unless one record has */
    LOG_INLINE_BYTES = 256 * 1024, /* of batches that a turn writes itself */
    LOG_REOPEN_US = 100 * 1000,    /* pause before a retry when no descriptor was free */
};

struct log;
struct segment;
struct slice_record;
struct store;
struct store_stats;

struct log *log_new(struct store *store);
void log_free(struct log *log); /* NULL does nothing */

/* Where recovery found the log's end. */
struct log_begin {
    uint64_t batch_next; /* all batches before are durable */
    uint64_t seq_next;
};
void log_begin(struct log *log, const struct log_begin *begin);
/* Server-made numbers below the mark may be given: the manifest that this opening wrote reserves
   them. */
void log_begin_marks(struct log *log, uint64_t seq_mark);

/* See store_append(). */
struct stored log_append(struct log *log, const struct event *event);

/* Appends a record about a slice; returns the number of its batch. */
uint64_t log_append_slice(struct log *log, const struct slice_record *record);

/* Appends what happened to a job. `promised` as event::promised. */
void log_append_history(struct log *log, struct bytes entry, bool promised);
/* Is a batch open, which what is appended now will join? */
bool log_is_open(const struct log *log);

/* What is appended now is … */
enum relocating {
    RELOCATING_NOTHING,   /* … new */
    RELOCATING,           /* … a copy of what the log has already */
    RELOCATING_BODY_LOST, /* … the same, for a job whose body is lost */
};
void log_relocating(struct log *log, enum relocating what);
/* From now on copies are marked as such: FEATURE_FOLLOWERS. */
void log_mark_copies(struct log *log);

/* See the functions of the same name in store.h. */
void log_seq_note(struct log *log, uint64_t seq_next);
void log_clock_note(struct log *log, int64_t at_us);
uint64_t log_batch(const struct log *log);
uint64_t log_promised(const struct log *log);
uint64_t log_written(const struct log *log);
uint64_t log_synced(const struct log *log);
void log_want_sync(struct log *log);
void log_latency_first(struct log *log, bool latency_first);

/* Seals the open batch, if there is one: what is appended from now on goes into a new batch. */
void log_seal_open(struct log *log);
/* Has the open batch, if there is one, written as soon as possible. */
void log_want_open(struct log *log);
uint64_t log_seq_next(const struct log *log);
/* Must pushes wait? True if many bytes wait for the disk, or so few reserved numbers are left that
   a batch with a new mark must be written first. */
bool log_is_behind(const struct log *log);
uint64_t log_records(const struct log *log);     /* appended since opening */
uint64_t log_bodies_lost(const struct log *log); /* jobs appended without their bodies */
/* True: this process has appended the batch, and never a job without its body. So if the batch
   matches its checksum, its records match theirs, which need not be computed. O(1). */
bool log_has_bodies(const struct log *log, uint64_t batch);
uint64_t log_backlog_bytes(const struct log *log);  /* sealed and not written yet */
uint64_t log_backlog_copies(const struct log *log); /* of these, bytes of log_relocating() */
uint64_t log_bytes_written(const struct log *log);  /* since opening */
/* The moving mean of the bytes that recent syncs made durable. 0: no sync yet. */
uint64_t log_commit_bytes(const struct log *log);
/* Bytes of records appended since opening, without the cleaner's copies. */
uint64_t log_new_bytes(const struct log *log);
/* Bytes that the open batch takes in this segment; 0: it is in another, or there is none. */
uint64_t log_open_bytes(const struct log *log, const struct segment *segment);
/* The segment, whose file is not made yet, will be smaller: keeps the open batch within it. */
void log_segment_shrunk(struct log *log, const struct segment *segment);
/* Is a commit under way that writes to this file? */
bool log_writes_to(const struct log *log, const struct disk_file *file);
bool log_busy(const struct log *log);  /* a commit is under way */
bool log_empty(const struct log *log); /* all that was appended is written and synced */

/* Starts what can be started: a sync, a header, the first sealed batch. */
void log_start_next(struct log *log);
/* The end of a turn: seals the open batch if it is time, and starts what can be started. */
void log_turn(struct log *log);
int64_t log_next_us(const struct log *log); /* wants a turn then; or INT64_MAX */
/* Opens an empty batch for the time it carries, if log_clock_note() asked and none is open. */
void log_write_clock(struct log *log);
/* The record at `where` from memory; NULL: not there. At most *out_len bytes are readable. */
const char *log_recent(const struct log *log, uint64_t where, size_t *out_len);

/* The offset in the segment before which its bytes are in the file and will not change; those
   behind are not written yet. O(batches that wait for the disk). */
uint64_t log_settled_end(const struct log *log, const struct segment *segment);

void log_stats(const struct log *log, struct store_stats *out_stats); /* its part of them */
/* CHECKs the invariants. O(sealed batches and write buffers). */
void log_valid(const struct log *log);

#endif
