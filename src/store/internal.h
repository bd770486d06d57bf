/*
 * What the store's own files share: the store's parts and who owns which. Nobody else includes
 * this.
 *
 *     append ─▶ open batch ─seal▶ sealed queue ─hand over▶ disk ─▶ durable ─▶ ear
 *                  │                                            │
 *                  └── lies in a slab, an image of a stretch of the segment's file
 *
 * A batch has its place (segment, offset) from the moment it is opened, because store_append
 * answers at once where a record is. So a segment may be in the log before its file is made; its
 * batches wait in the queue until then.
 */
#ifndef LATERD_STORE_INTERNAL_H
#define LATERD_STORE_INTERNAL_H

#include "base/bytes.h"
#include "base/list.h"
#include "store/format.h"
#include "store/record.h"
#include "store/store.h"

enum {
    SPARES = 2,                     /* segments made ahead: one to write, one for the cleaner */
    BATCH_FULL = 256 * 1024,        /* bytes: a batch has no more, unless one record has */
    INLINE_BYTES = 256 * 1024,      /* of batches that a turn writes itself */
    SLAB_BYTES = 1024 * 1024,       /* of one image */
    FILES_OPEN_MAX = 64,            /* segments' files kept open, if options do not say */
    FILES_OPEN_MIN = 4,             /* the last segment's, the next one's, a spare's, a reader's */
    OPEN_AGE_US = 100 * 1000,       /* unpromised events wait so long for company */
    CLOCK_AGE_US = 1000 * 1000,     /* one batch in so long at most is written for its time alone */
    PROOF_AGE_US = 100 * 1000,      /* so long after the last batch an empty one proves it */
    FULL_AGE_US = 10 * 1000,        /* on a full disk commits gather, not to be mostly padding */
    HURRIED_RECORDS = 4,            /* in a hurry, a commit of more is left to the thread */
    CLEAN_AGE_US = 200 * 1000,      /* the same while the cleaner is about to give room back */
    RETRY_US = 1000 * 1000,         /* a full disk is asked again so often */
    REOPEN_US = 100 * 1000,         /* no descriptor was free: tried again so often */
    ENDING_BYTES = 64,              /* kept back for ending a live job */
    BACKLOG_MAX = 64 * 1024 * 1024, /* bytes that wait for the disk before pushes must wait */
};

/*
 *     STALLED ◀─no room── MAKING ──▶ READY ──header durable──▶ HEADED
 *        └────tried again────▲
 */
enum segment_state { SEGMENT_MAKING, SEGMENT_STALLED, SEGMENT_READY, SEGMENT_HEADED };

struct segment {
    struct list link; /* store::log or store::spares */
    struct store *store;
    uint32_t number;
    enum segment_state state;
    uint64_t size_bytes;
    uint64_t batch_first; /* in the log: number of its first batch */
    uint64_t least_bytes; /* in the log: room for the batch that it was taken for */
    uint64_t end;         /* offset behind the last sealed batch */
    uint64_t live_bytes;  /* of records that are some job's newest image */
    uint64_t live_jobs;
    uint64_t record_max;    /* bytes of the largest record of a job in it */
    struct disk_file *file; /* NULL: not open */
    struct list open_link;  /* store::open_files, while the file is open */
    bool damaged;           /* some batch of it is; counted in store::damaged_segments */
    struct disk_op make;
};

/* Bytes [start, start + used) of a segment's file, as they are or will be on disk. */
struct write_buffer {
    uint32_t number;  /* of the segment */
    struct list link; /* store::slabs, oldest first */
    uint64_t start;
    size_t used; /* sealed batches; the open one lies behind */
    size_t cap;
    uint64_t batch_last; /* the last sealed batch in it; 0 = none */
    char *at;
};

struct batch {
    struct list link; /* store::sealed */
    uint64_t number;
    struct segment *segment;
    uint64_t offset;
    char *at; /* in a slab */
    uint32_t payload_bytes;
    uint32_t record_count;
    bool wanted; /* an answer waits for it */
    int64_t opened_us;
    uint64_t durable;  /* as its header says, once handed over */
    uint64_t seq_mark; /* the same */
};

enum commit_step { COMMIT_IDLE, COMMIT_HEADER, COMMIT_BATCH, COMMIT_SYNC };

enum checkpoint_step {
    CHECKPOINT_IDLE,
    CHECKPOINT_WALK,     /* carrying the live jobs of the oldest segment */
    CHECKPOINT_UNREAD,   /* carrying those whose records cannot be read */
    CHECKPOINT_REST,     /* carrying what has no place of its own */
    CHECKPOINT_DURABLE,  /* waiting for the batch with the last of them */
    CHECKPOINT_MANIFEST, /* waiting for the manifest that no longer names it */
    CHECKPOINT_REMOVE,   /* waiting for the file to go */
};

/* Reads batches out of a segment's file through a window that grows to the largest batch. */
struct scan {
    struct disk *disk;
    struct disk_file *file;
    uint64_t size_bytes; /* of the file */
    uint32_t number;     /* of the segment */
    uint32_t tag;        /* of the store */
    char *window;
    size_t cap;
    uint64_t start; /* the window holds bytes [start, start + len) of the file */
    size_t len;
    bool narrow; /* read no more than is asked for: what is beyond may be unreadable */
};

struct checkpoint {
    enum checkpoint_step step;
    struct segment *segment;
    uint64_t offset;         /* CHECKPOINT_WALK: the batch being carried, or the next */
    uint64_t batch_next;     /* its number */
    const char *batch;       /* it, in the scan's window; NULL: not read yet … */
    size_t at, end;          /* … and its records that are still to be carried */
    bool seeking;            /* the batch at `offset` is damaged: looking for the next good one */
    unsigned tries;          /* how often it could not be read … */
    int64_t retry_at_us;     /* … and when it is tried again */
    struct disk_file *fresh; /* the same segment past the page cache, while retrying */
    bool body_lost;          /* the job being appended has a body that does not hold */
    uint64_t lost_jobs;      /* so many had none that can be read */
    uint32_t cursor;         /* CHECKPOINT_UNREAD, REST */
    uint64_t batch_last;     /* CHECKPOINT_DURABLE: wait for this one */
    uint64_t round_end;      /* full: batches before this are of the round under way … */
    uint64_t round_dead;     /* … and when it was over, so many bytes were still not alive */
    bool round_over;
    struct scan scan;
    struct disk_op remove;
    char aside_name[DISK_NAME_MAX];
};

struct store {
    struct store_options options;
    struct disk *disk;
    struct store_callbacks *callbacks;
    struct store_id id;
    uint32_t tag;
    int64_t now_us;

    /* manifest.c */
    struct manifest manifest;        /* as last handed to the disk */
    uint64_t manifest_writing_first; /* batch_first of the one under way … */
    uint64_t manifest_durable_first; /* … and of the one that is durable */
    struct disk_file *manifest_file;
    char *manifest_slot; /* BLOCK bytes, under way while manifest_busy */
    struct disk_op manifest_op;
    bool manifest_busy, manifest_again;

    /* segment.c */
    struct list log;            /* segment::link; by batch_first; the last takes new batches */
    struct list spares;         /* segment::link; by number */
    struct segment **by_number; /* [number - number_base]; NULL: gone */
    uint32_t number_base, number_next;
    struct list open_files; /* segment::open_link; the one not used for longest first */
    uint32_t spare_count, log_count, files_open;
    uint32_t damaged_segments; /* of the log, with those that were set aside */
    uint64_t disk_bytes;       /* of all segments' files, made or being made */
    uint64_t live_bytes, live_jobs;
    enum err full;         /* OK, ERR_DISK_FULL or ERR_DISK_LIMIT */
    bool starved;          /* no descriptor was free for a new segment's file */
    int64_t retry_at_us;   /* full or starved: when to ask again */
    uint64_t free_bytes;   /* what the disk said it has, in this turn; UINT64_MAX: was not asked */
    uint64_t wanted_bytes; /* full: the cleaner could work with a spare of so many; 0: it can */

    /* wal.c */
    struct list write_buffers; /* slab::link */
    uint64_t write_buffer_bytes;
    size_t write_buffer_usual;              /* SLAB_BYTES, or less for tiny segments */
    struct write_buffer *write_buffer_idle; /* one kept for the next use, or NULL */
    struct batch *open;                     /* or NULL */
    struct list sealed;                     /* batch::link; the first may be under way */
    uint64_t sealed_bytes;
    uint64_t batch_next; /* number for the next batch to be opened */
    uint64_t promised;   /* the last batch with a promised event; 0: none since the start */
    uint64_t written;    /* batches up to this one are written … */
    uint64_t synced;     /* … and up to this one durable */
    uint64_t proven;     /* the highest durable number that a durable batch tells */
    uint64_t last_full;  /* the last written batch with records */
    int64_t last_commit_us, last_sync_us;
    uint64_t seq_next;
    uint64_t seq_mark; /* durable: numbers below may be given */
    enum commit_step step;
    int64_t last_took_us; /* the last batch's commit */
    uint64_t inline_left; /* bytes that this turn may still write itself */
    bool latency_first;   /* see store_latency_first */
    struct disk_op commit;
    uint64_t sync_number; /* COMMIT_SYNC: what is durable when it is done … */
    uint64_t sync_mark;   /* … and the seq mark then */
    uint64_t written_mark;
    struct segment *written_segment; /* buffered: of the last written batch */
    char *head_block;                /* BLOCK bytes for a segment's header */
    uint64_t sync_wanted;            /* buffered: the first batch that somebody wants on disk … */
    uint64_t sync_wanted_last;       /* … and the last one; one sync need not wait for both */
    int64_t reopen_at_us;            /* no descriptor was free for a commit: when to try again */
    bool failed, closing;

    struct checkpoint checkpoint;
    uint64_t seq_first, boot;
    uint64_t lease_first, lease_next;
    int64_t clock_us;        /* the time in the last batch of this life; INT64_MIN = none yet */
    int64_t clock_wanted_us; /* a batch must have this time or a later one … */
    int64_t clock_asked_us;  /* … since then */
    struct store_stats stats;
};

/* ---- manifest.c ---- */

/* Writes the store's present state into the next slot, soon; several wishes become one. */
void manifest_write(struct store *store);
/* The same at once, for opening and closing. */
enum err manifest_write_now(struct store *store, bool clean) MUST_USE;
/* Makes the file, with its first slot. */
enum err manifest_create(struct disk *disk, const struct manifest *manifest) MUST_USE;

/* ---- segment.c ---- */

struct segment *segment_add(struct store *store, uint32_t number, uint64_t size_bytes);
void segment_drop(struct store *store, struct segment *segment);
/* Puts a segment with room for `bytes` at the log's end; its file may still have to be made. */
struct segment *segment_next(struct store *store, uint64_t bytes, uint64_t batch_first);
struct segment *segment_tail(const struct store *store);  /* or NULL */
struct segment *segment_first(const struct store *store); /* or NULL */
struct segment *segment_after(const struct store *store, const struct segment *segment);
struct segment *segment_find(const struct store *store, uint32_t number); /* or NULL */
/* Makes spares and tries stalled ones again. */
void segment_provide(struct store *store);
/* Bytes of the files of the log's last segment and of the spares, made or being made. */
uint64_t segment_unused(const struct store *store);
/* Bytes that can surely be written: in files that are there, less what is placed already. */
uint64_t segment_room(const struct store *store);
/* Can records of up to `record_max` bytes, all together `bytes`, surely be written? */
bool segment_fits(const struct store *store, uint64_t bytes, uint64_t record_max);
/* Is there less room in hand, and to be had, than must be kept back for ends and for cleaning? */
bool segment_scarce(const struct store *store);
/* The file that was opened or made for it; others may be closed for it. */
void segment_opened(struct store *store, struct segment *segment, struct disk_file *file);
/* Closes its file, if open: it must not hold anything that is still to be synced. */
void segment_close(struct store *store, struct segment *segment);
/* Its open file, opened if need be; others may be closed for it. ERR_AGAIN: see DISK's open. */
enum err segment_file(struct store *store, struct segment *segment,
                      struct disk_file **out_file) MUST_USE;
/* Notes that it is damaged, and tells the ear, once. */
void segment_damaged(struct store *store, struct segment *segment, uint64_t offset,
                     const char *text);
void segment_live(struct store *store, struct segment *segment, struct stored stored);
/* A record died. False: no such record can be (a bug, or a lie in the log while replaying). */
bool segment_dies(struct store *store, struct stored stored);

static inline uint32_t where_segment(uint64_t where)
{
    return (uint32_t)(where >> 32);
}

static inline uint64_t where_offset(uint64_t where)
{
    return (where & UINT32_MAX) * 8;
}

static inline uint64_t where_of(uint32_t segment, uint64_t offset)
{
    return (uint64_t)segment << 32 | offset / 8;
}

/* ---- scan.c ---- */

void scan_init(struct scan *scan, struct disk *disk, struct disk_file *file, uint64_t size_bytes,
               size_t window_bytes);
void scan_fini(struct scan *scan);
/* Makes `len` bytes at `offset` (a multiple of BLOCK) visible; fewer at the end of the file. */
enum err scan_bytes(struct scan *scan, uint64_t offset, size_t len, const char **out_at,
                    size_t *out_len) MUST_USE;
/*
 * Looks for a whole batch of this store and segment at `offset`. Outputs on FORMAT_GOOD; good until
 * the next call.
 */
enum err scan_batch(struct scan *scan, uint64_t offset, enum format_verdict *out_verdict,
                    struct batch_head *out_head, const char **out_batch) MUST_USE;

/*
 * Is there a whole batch of this store and segment? What cannot be read is none; it is asked for a
 * second time, block by block. Outputs on true; good until the next call.
 */
bool scan_good(struct scan *scan, uint64_t offset, struct batch_head *out_head,
               const char **out_batch);

/* ---- wal.c ---- */

void wal_init(struct store *store);
void wal_fini(struct store *store);
/* Starts what can be started: a sync, a header, the first sealed batch. */
void wal_start_next(struct store *store);
void wal_seal(struct store *store);
void wal_turn(struct store *store);
/* Opens an empty batch for the time it carries, if store_clock_note() asked and nothing is open. */
void wal_write_clock(struct store *store);
int64_t wal_next_us(const struct store *store);
/* Nothing will become durable any more (S5). */
void wal_fail(struct store *store, int sys_errno);
/* The record at `where` from memory; NULL: not there. At most *out_len bytes are readable. */
const char *wal_recent(const struct store *store, uint64_t where, size_t *out_len);

/* ---- checkpoint.c ---- */

void checkpoint_turn(struct store *store);
int64_t checkpoint_next_us(const struct store *store); /* wants a turn then; or INT64_MAX */
void checkpoint_fini(struct store *store);

/* ---- load.c: what is in the directory ---- */

struct found {
    uint32_t number;
    enum format_verdict verdict; /* of its header */
    uint64_t size_bytes;
    struct segment_head head; /* FORMAT_GOOD */
    const char *fault;        /* load_leniently(): why it is not used, for people; or NULL */
};

struct loaded {
    bool manifest_there;
    bool slot_damaged;  /* one of the manifest's two slots is */
    uint32_t set_aside; /* damaged segments that were taken out of the log */
    struct manifest manifest;
    struct found *found; /* by batch_first those with a good header, then the others by number */
    size_t count;
    size_t used; /* how many have a good header */
};

/* ERR_CORRUPT, ERR_UNSUPPORTED (a newer version), ERR_IO; out_trouble says more. */
enum err load(struct disk *disk, struct loaded *out_loaded, struct store_error *out_error) MUST_USE;
/*
 * The same for salvage: what is damaged, or not of this store, is as if it were not there, if
 * anything is left. Without a manifest its id and version are those of a segment.
 */
enum err load_leniently(struct disk *disk, struct loaded *out_loaded,
                        struct store_error *out_error) MUST_USE;
/* Puts `found` in its order again, and counts `used` anew. */
void loaded_sort(struct loaded *loaded);
void loaded_fini(struct loaded *loaded);

void store_error_set(struct store_error *error, const char *file, uint64_t offset,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

/* ---- recover.c ---- */

enum err recover(struct store *store, struct store_error *out_error) MUST_USE;

#endif
