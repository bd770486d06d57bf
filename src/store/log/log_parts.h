/*
 * What the log's two files share: log.c gathers events into batches, log_commit.c writes the
 * batches. Nobody else includes this.
 */
#ifndef LATERD_STORE_LOG_PARTS_H
#define LATERD_STORE_LOG_PARTS_H

#include "store/internal.h"
#include "store/log/write_buffer.h"
#include "store/record.h"

/*
 * The body of a record that the thread that writes the batch copies to its place: megabytes would
 * make a turn long. The record is the only one of its batch.
 */
struct late_body {
    char *record; /* in the batch; NULL: there is none */
    struct bytes body;
    struct buf memory; /* which the body is in; freed when the batch is written */
};

struct batch {
    struct list link; /* log::sealed */
    uint64_t number;
    struct segment *segment;
    uint64_t offset;
    char *at;             /* in a write buffer */
    uint64_t payload_max; /* payload that fits without moving it, in memory and on disk */
    uint32_t payload_bytes;
    uint64_t copied_bytes;
    uint32_t record_count; /* without the EPOCH record */
    bool wanted;           /* an answer waits for it */
    uint32_t features;     /* its records use them: the manifest must name them before */
    int64_t opened_us;
    struct late_body late;
    uint64_t durable;  /* of its header; set by start_batch() */
    uint64_t seq_mark; /* the same */
};

enum commit_step { COMMIT_IDLE, COMMIT_HEADER, COMMIT_BATCH, COMMIT_SYNC };

struct log {
    struct store *store;
    const struct store_options *options;
    struct disk *disk;
    struct segments *segments;

    struct write_buffers buffers;
    struct batch *open; /* or NULL */
    struct batch *idle; /* a free one, or NULL */
    struct list sealed; /* batch::link; the first may be under way */
    uint64_t sealed_bytes, sealed_copies;
    enum relocating relocating;
    bool marks_copies; /* the cleaner's copies are marked, so that followers can skip them */

    uint64_t batch_next; /* number for the next batch to be opened */
    uint64_t own_from;   /* batches from this one on are of this process */
    uint64_t promised;   /* the last batch with a promised event; 0: none since the start */
    uint64_t written;    /* batches up to this one are written … */
    uint64_t synced;     /* … and up to this one durable */
    uint64_t proven;     /* the highest batch_head::durable in a durable batch */
    uint64_t last_full;  /* the last written batch with records */
    int64_t last_commit_us, last_sync_us;
    uint64_t seq_next;
    uint64_t seq_mark; /* durable: numbers below may be given */

    enum commit_step step;
    unsigned threads_commits; /* the thread makes this many of the next commits */
    uint64_t inline_left;     /* bytes that this turn may still write itself, … */
    bool ends_turn;           /* … while log_turn() runs */
    bool latency_first;       /* see store_latency_first */
    int64_t reopen_at_us;     /* no descriptor was free for a commit: when to try again */
    int64_t clock_us;         /* the time in the last batch since opening; INT64_MIN = none yet */
    int64_t clock_wanted_us;  /* log_clock_note(): a batch with this time or later is wanted … */
    int64_t clock_requested_us; /* … and was first requested at this time */
    struct disk_op commit;
    uint64_t commit_key;                 /* of its segment */
    const struct late_body *commit_late; /* of its batch */
    uint64_t sync_number;                /* COMMIT_SYNC: what is durable when it is done … */
    uint64_t sync_mark;                  /* … and the seq mark then */
    uint64_t written_mark;
    struct segment *written_segment; /* buffered: of the last written batch */
    char *head_block;                /* BLOCK bytes for a segment's header */
    uint64_t sync_wanted;            /* buffered: sync as soon as this batch is written, … */
    uint64_t sync_wanted_last;       /* … and the last batch of which a sync was requested */

    uint64_t batches, bytes_written, records, bodies_lost;
    uint64_t new_bytes;    /* of records, without the cleaner's copies */
    uint64_t bytes_synced; /* of bytes_written */
    uint64_t commit_sum;   /* COMMITS_MEANT times the moving mean of what a sync has written */
    uint64_t syncs, sync_us_sum;
    uint64_t sync_us[SYNC_BUCKETS];
};

static inline struct batch *first_sealed(const struct log *log)
{
    return list_empty(&log->sealed) ? NULL : LIST_ENTRY(log->sealed.next, struct batch, link);
}

/* Length of the EPOCH record that each batch begins with, or 0. */
static inline uint32_t lead_bytes(const struct log *log)
{
    return log->options->epoch ? RECORD_EPOCH_BYTES : 0;
}

/* ---- log.c ---- */

/* Opens the next batch, with room for `payload_bytes` of records. */
void log_open_batch(struct log *log, size_t payload_bytes);
void log_free_batch(struct log *log, struct batch *batch); /* it is in no list */
void log_drop_late_body(const struct log *log, struct batch *batch);
/* Seals the open batch: it gets no more records and waits for the disk. */
void log_seal(struct log *log);

#endif
