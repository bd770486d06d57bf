/*
 * The segments: which there are, their files, how much of each still lives. Files are made ahead
 * (spares), because making one costs a hundred commits, and because a disk that turns out full must
 * leave room enough for ending jobs and for cleaning.
 *
 * Numbers are names only, never used twice; the log's order is that of the batches.
 *
 * Invariants
 * G1 The log's segments are in the order of their first batches; of the log all before a HEADED one
 *    are HEADED.
 * G2 What lives in all segments of the log is the sum of what lives in each; so is what they tell
 *    of slices.
 * G3 A file is open or not; those that are open are in one list, at most options.files_max, but for
 *    those that cannot be closed.
 */
#ifndef LATERD_STORE_SEGMENTS_H
#define LATERD_STORE_SEGMENTS_H

#include "base/err.h"
#include "base/list.h"
#include "core/job.h"
#include "port/disk.h"

struct segments;
struct slice;
struct store;
struct store_stats;

/*
 *     STALLED ◀─no room── MAKING ──▶ READY ──header durable──▶ HEADED
 *        └────tried again────▲
 */
enum segment_state {
    SEGMENT_MAKING,
    SEGMENT_STALLED,
    SEGMENT_READY,
    SEGMENT_HEADED,
    SEGMENT_SLICE, /* it is no segment of the log: the file of a slice, which never changes */
};

/* For others to read; only segments*.c write to it. */
struct segment {
    struct list link; /* segments::log or segments::spares */
    struct segments *segments;
    uint32_t number;
    enum segment_state state;
    uint64_t size_bytes;
    uint64_t batch_first; /* in the log: number of its first batch */
    uint64_t least_bytes; /* in the log: room for the batch that it was taken for */
    uint64_t end;         /* offset behind the last sealed batch */
    uint64_t filled;      /* up to here its blocks have been written to, if only with zeros */
    uint64_t live_bytes;  /* of records that are some job's newest image */
    uint64_t live_jobs;
    uint64_t record_max;    /* bytes of the largest record of a job in it */
    uint64_t told_bytes;    /* of records that say what is so of slices, and of jobs in them; … */
    uint64_t told_moves;    /* … so many are MOVEs */
    struct slice *slice;    /* SEGMENT_SLICE; else NULL */
    struct disk_file *file; /* NULL: not open */
    struct list open_link;  /* segments::open_files, while the file is open */
    bool damaged;           /* some batch of it is; counted in segments::damaged */
    uint32_t pins;          /* segments_pin() and segments_read(), not yet taken back */
    uint32_t reading;       /* segments_read() alone */
    bool close_after_reads; /* its file would have been closed, but for those */
    struct disk_op make;
};

/* From the oldest segment's number to the next new one. */
#define SEGMENT_SPAN_MAX (UINT32_C(1) << 24)

struct segments *segments_new(struct store *store);
void segments_free(struct segments *segments); /* NULL does nothing; none may be being made */

/* ---- opening: what recovery has found ---- */

/* Numbers from `base` up to (not with) `next` are or were in use. */
void segments_begin(struct segments *segments, uint32_t base, uint32_t next);
/* One of the log, at its end; its batches are found by segments_grow(). */
struct segment *segments_take(struct segments *segments, uint32_t number, uint64_t size_bytes,
                              uint64_t batch_first);
/* One of zeros, with its file. */
void segments_take_spare(struct segments *segments, uint32_t number, uint64_t size_bytes,
                         struct disk_file *file);
bool segments_want_spare(const struct segments *segments); /* are there fewer than wanted? */
/* A damaged place was found in it, and there is nothing to tell. */
void segments_note_damage(struct segments *segments, struct segment *segment);
/* So many segments are out of the log, under another name. */
void segments_set_aside(struct segments *segments, uint32_t count);

/* ---- which there are ---- */

struct segment *segments_tail(const struct segments *segments);  /* or NULL */
struct segment *segments_first(const struct segments *segments); /* or NULL */
struct segment *segments_after(const struct segments *segments, const struct segment *segment);
struct segment *segments_before(const struct segments *segments, const struct segment *segment);
struct segment *segments_find(const struct segments *segments, uint32_t number); /* or NULL */
uint32_t segments_number_next(const struct segments *segments);
uint64_t segments_bytes(const struct segments *segments); /* of all files, made or being made */
uint64_t segments_live_jobs(const struct segments *segments);
uint64_t segments_live_bytes(const struct segments *segments);
uint64_t segments_told_bytes(const struct segments *segments);
/* Puts a segment with room for `bytes` at the log's end; its file may still have to be made. */
struct segment *segments_next(struct segments *segments, uint64_t bytes, uint64_t batch_first);
/* So many bytes more of it are taken by batches. */
void segments_grow(struct segment *segment, uint64_t bytes);
/*
 * Its header is durable. The one before it gets no batch any more, and all of its batches are
 * durable.
 */
void segments_headed(struct segments *segments, struct segment *segment);
/* The oldest one is gone from the disk. */
void segments_drop_first(struct segments *segments);

/* ---- slices: their files; what of them lives is known to slices.h ---- */

/* A number for a new one. */
uint32_t segments_take_number(struct segments *segments);
/*
 * Opening: the log names this number, so it has been given, and is not given again. False: so high
 * a number cannot have been given.
 */
bool segments_note_number(struct segments *segments, uint32_t number) MUST_USE;
/* The file is there. O(slices). */
struct segment *segments_add_slice(struct segments *segments, uint32_t number, uint64_t size_bytes,
                                   struct slice *slice);
/* The one with the lowest number from `number` on, or NULL. O(log slices). */
struct segment *segments_slice_from(const struct segments *segments, uint32_t number);
/* Is this place in a slice? O(log slices). */
bool segments_is_slice(const struct segments *segments, uint64_t where);
/* Nobody reads from it. O(slices). */
void segments_drop_slice(struct segments *segments, struct segment *segment);
uint64_t segments_slice_bytes(const struct segments *segments); /* of their files */

/* So many bytes are taken by files of the jobs' history. */
void segments_note_history(struct segments *segments, uint64_t bytes);

/* ---- room ---- */

/* Are commits so large that zeros written ahead cost more than they spare? */
bool segments_in_bulk(struct segments *segments);
/* Makes spares and tries stalled ones again. */
void segments_make_spares(struct segments *segments);
/* OK, ERR_DISK_FULL or ERR_DISK_LIMIT: new segments are refused. */
enum err segments_full(const struct segments *segments);
int64_t segments_next_us(const struct segments *segments); /* wants a turn then; or INT64_MAX */
bool segments_making(const struct segments *segments);     /* is any file being made? */
/* A store's first segment must be made before it is open. OK: it is there. */
enum err segments_make_first(struct segments *segments) MUST_USE;
/* Bytes of the files of the log's last segment and of the spares, made or being made. */
uint64_t segments_unused(const struct segments *segments);
/* Bytes that can surely be written: in files that are there, less what is placed already. */
uint64_t segments_room(const struct segments *segments);
/*
 * 0: records of up to `record_max` bytes, all together `bytes`, can surely be written. Else so many
 * bytes one more file must have for that.
 */
uint64_t segments_lack(const struct segments *segments, uint64_t bytes, uint64_t record_max);
/* Is there less room, in files and on the disk, than must be kept back for ends and for cleaning?
 */
bool segments_scarce(const struct segments *segments);
/* On a full disk the cleaner could work with a spare of so many bytes; 0: it can as it is. */
void segments_cleaner_wants(struct segments *segments, uint64_t bytes);

/* ---- files ---- */

/* The name of its file. */
void segments_file_name(const struct segment *segment, char out_name[DISK_NAME_MAX]);
/* Is its file there, to be read up to segment::end? */
static inline bool segment_readable(const struct segment *segment)
{
    return segment->state == SEGMENT_HEADED || segment->state == SEGMENT_SLICE;
}

/* Its open file, opened if need be; others may be closed for it. ERR_AGAIN: see disk's open. */
enum err segments_file(struct segments *segments, struct segment *segment,
                       struct disk_file **out_file) MUST_USE;
/* The file that was opened or made for it; others may be closed for it. */
void segments_opened(struct segments *segments, struct segment *segment, struct disk_file *file);

/* Somebody is going to read from it: until segments_unpin() its file must stay on the disk. */
void segments_pin(struct segment *segment);
void segments_unpin(struct segment *segment);
/*
 * Has the disk's threads read op->len bytes at op->offset of its file into op->into; the caller
 * fills in those, `done`, `inspect` and `owner`. Until segments_read_end(), which `done` must call,
 * the file is neither removed nor closed. With op->fresh it is read past the page cache, through
 * op->file (NULL: it is opened), which is the caller's.
 */
void segments_read(struct segments *segments, struct segment *segment, struct disk_op *op);
void segments_read_end(struct segments *segments, struct segment *segment, struct disk_op *op);
/* Reads at once what is in memory. ERR_AGAIN: it is not all there, or the file is not open. */
enum err segments_read_cached(struct segments *segments, struct segment *segment, uint64_t offset,
                              void *at, size_t len, size_t *out_len) MUST_USE;

/* ---- what lives ---- */

/* Notes that it is damaged, and tells the callbacks, once. */
void segments_damaged(struct segments *segments, struct segment *segment, uint64_t offset,
                      const char *text);
/* A job's newest record is there now. */
void segments_record_lives(struct segments *segments, struct segment *segment,
                           struct stored stored);
/* A record died. False: no such record can be (a bug, or a false record in the log while
 * replaying). */
bool segments_record_died(struct segments *segments, struct stored stored);

/* So many jobs of the segment of that number, if it is still there, live in a slice from now on.
   False: it never had so many. */
bool segments_leave(struct segments *segments, uint32_t number, uint64_t jobs,
                    uint64_t bytes) MUST_USE;

/* The segment of that number has so many bytes more, or fewer, that tell of slices: the newest word
   on that matter. Nothing if it has gone. */
void segments_add_slice_bytes(struct segments *segments, uint32_t number, uint64_t bytes,
                              uint64_t moves);
void segments_untell(struct segments *segments, uint32_t number, uint64_t bytes, uint64_t moves);

void segments_stats(const struct segments *segments, struct store_stats *out_stats);
void segments_valid(const struct segments *segments); /* CHECKs the invariants. O(segments) */

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

#endif
