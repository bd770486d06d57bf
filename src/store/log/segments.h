/*
 * The segments: their list, their files, and how much of each still lives. Files are made ahead
 * (spares), because making one takes as long as a hundred commits, and because on a disk that turns
 * out to be full there must be room left for ending jobs and for cleaning.
 *
 * Numbers are only names, never reused; the log's order is that of the batches.
 *
 * Invariants
 * G1 The log's segments are in the order of their first batches; all segments of the log before a
 * HEADED one are HEADED.
 * G2 What lives in all segments of the log is the sum of what lives in each; so are the bytes of
 * records about slices.
 * G3 Open files are in one list, options.files_max at most, except those that cannot be closed.
 */
#ifndef LATERD_STORE_SEGMENTS_H
#define LATERD_STORE_SEGMENTS_H

#include "base/err.h"
#include "base/list.h"
#include "core/job.h"
#include "port/disk.h"
#include "store/stats.h"

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
    SEGMENT_SLICE, /* not a segment of the log: the file of a slice, which never changes */
};

/* For others to read; only segments*.c write to it. */
struct segment {
    struct list link; /* segments::log or segments::spares */
    struct segments *segments;
    uint32_t number;
    enum segment_state state;
    uint64_t size_bytes;
    uint64_t batch_first; /* in the log: number of its first batch */
    uint64_t least_bytes; /* room for the batch that it was added for; 0: it was made ahead */
    uint64_t end;         /* offset behind the last sealed batch */
    uint64_t filled;      /* its blocks up to here have been written to, maybe with zeros only */
    uint64_t key;         /* segment_key(), if its file was another segment's before, else 0 */
    uint64_t live_bytes;  /* of records that are the newest image of a job */
    uint64_t live_jobs;
    uint64_t record_max;      /* bytes of the largest record of a job in it */
    uint64_t slice_log_bytes; /* of live records about slices and about jobs in them; … */
    uint64_t slice_log_moves; /* … how many of them are MOVEs */
    struct slice *slice;      /* SEGMENT_SLICE; else NULL */
    struct disk_file *file;   /* NULL: not open */
    struct list open_link;    /* segments::open_files, while the file is open */
    bool damaged;             /* some batch of it is; counted in segments::damaged */
    uint32_t pins;            /* segments_pin() and segments_read() that were not undone yet */
    uint32_t reading;         /* segments_read() alone */
    bool close_after_reads;   /* its file is to be closed as soon as nothing reads it */
    struct disk_op make;
};

/* At most so many numbers lie between the oldest segment's and the next new one. */
#define SEGMENT_SPAN_MAX (UINT32_C(1) << 24)

struct segments *segments_new(struct store *store);
void segments_free(struct segments *segments); /* NULL does nothing; none may be being made */

/* ---- opening: what recovery has found ---- */

/* Numbers from `base` up to (not including) `next` are or were in use. */
void segments_begin(struct segments *segments, uint32_t base, uint32_t next);
/* Adds a segment at the end of the log; segments_grow() then adds its batches. */
struct segment *segments_take(struct segments *segments, uint32_t number, uint64_t size_bytes,
                              uint64_t batch_first, uint64_t key);
/* Adds a spare: a file of zeros. */
void segments_take_spare(struct segments *segments, uint32_t number, uint64_t size_bytes,
                         struct disk_file *file);
bool segments_want_spare(const struct segments *segments); /* are there fewer than wanted? */
/* Notes that it has a damaged place, without a callback. */
void segments_note_damage(struct segments *segments, struct segment *segment);
/* Sets how many damaged segments were taken out of the log and kept under another name. */
void segments_set_aside(struct segments *segments, uint32_t count);

/* ---- which there are ---- */

struct segment *segments_tail(const struct segments *segments);  /* or NULL */
struct segment *segments_first(const struct segments *segments); /* or NULL */
struct segment *segments_after(const struct segments *segments, const struct segment *segment);
struct segment *segments_before(const struct segments *segments, const struct segment *segment);
struct segment *segments_find(const struct segments *segments, uint32_t number); /* or NULL */
uint32_t segments_number_next(const struct segments *segments);
uint64_t segments_bytes(const struct segments *segments); /* of all files, made or being made */
/* Of all files of the store, those of slices and of history too: what max_bytes limits. */
uint64_t segments_store_bytes(const struct segments *segments);
uint64_t segments_live_jobs(const struct segments *segments);
uint64_t segments_live_bytes(const struct segments *segments);
uint64_t segments_slice_log_bytes(const struct segments *segments);
/* Adds a segment with room for `bytes` at the log's end; its file may still have to be made. */
struct segment *segments_next(struct segments *segments, uint64_t bytes, uint64_t batch_first);
/* Batches take this many bytes more of it. */
void segments_grow(struct segment *segment, uint64_t bytes);
/* Its file has been written to up to this offset, with batches or with zeros. */
void segments_note_filled(struct segment *segment, uint64_t end);
/*
 * The header of this segment is durable. The segment before it gets no more batches, and all of its
 * batches are durable.
 */
void segments_headed(struct segments *segments, struct segment *segment);
/* The oldest segment was removed from the disk. */
void segments_drop_first(struct segments *segments);

/*
 * May the segment's file become a spare when the segment leaves the log? All blocks of such a file
 * have been written before, so commits to it do not change its extents and take half as long. Not
 * if damage was found in it.
 */
bool segments_may_reuse(const struct segments *segments, const struct segment *segment);
/* Its file has become a spare with this number: segments_take_number(). */
void segments_reused(struct segments *segments, uint32_t number, uint64_t size_bytes,
                     struct disk_file *file);

/* ---- slices: their files; what of them lives is known to slices.h ---- */

/* Takes the number of a new slice. */
uint32_t segments_take_number(struct segments *segments);
/*
 * Opening: the log names this number, so it is in use and must not be given again. False: it is
 * higher than any number that can have been given.
 */
bool segments_note_number(struct segments *segments, uint32_t number) MUST_USE;
/* The file is there. O(slices). */
struct segment *segments_add_slice(struct segments *segments, uint32_t number, uint64_t size_bytes,
                                   struct slice *slice);
/* The slice with the lowest number at or after `number`, or NULL. O(log slices). */
struct segment *segments_slice_from(const struct segments *segments, uint32_t number);
/* Is this place in a slice? O(log slices). */
bool segments_is_slice(const struct segments *segments, uint64_t where);
/* Removes a slice, from which nobody reads. O(slices). */
void segments_drop_slice(struct segments *segments, struct segment *segment);
uint64_t segments_slice_bytes(const struct segments *segments); /* of their files */

/* Sets how many bytes the files of the jobs' history take. */
void segments_note_history(struct segments *segments, uint64_t bytes);

/* ---- room ---- */

/* Are commits so large now that writing zeros ahead costs more than it saves? */
bool segments_in_bulk(struct segments *segments);
/* Makes spares and tries stalled ones again. */
void segments_make_spares(struct segments *segments);
/* OK, or why no new segments can be made: ERR_DISK_FULL, ERR_DISK_LIMIT. */
enum err segments_full(const struct segments *segments);
/* Is it the limit of a file's size (RLIMIT_FSIZE, or the file system's) that leaves no room? */
bool segments_too_large(const struct segments *segments);
/* Bytes that the disk or max_bytes must have left, else it counts as full: for ends of jobs and for
   cleaning. */
uint64_t segments_kept_bytes(const struct segments *segments);
int64_t segments_next_us(const struct segments *segments); /* wants a turn then; or INT64_MAX */
bool segments_making(const struct segments *segments);     /* is any file being made? */
/* Waits until the first segment of a new store has been made. OK: it has. */
enum err segments_make_first(struct segments *segments) MUST_USE;
/* Bytes of the files of the log's last segment and of the spares, made or being made. */
uint64_t segments_unused(const struct segments *segments);
/* How many bytes can certainly be written: in existing files, less what is placed there already. */
uint64_t segments_room(const struct segments *segments);
/*
 * How large one more file must be so that records of up to `record_max` bytes, `bytes` in all, can
 * certainly be written. 0: no further file is needed.
 */
uint64_t segments_lack(const struct segments *segments, uint64_t bytes, uint64_t record_max);
/*
 * How many bytes of files must be made for copies of what lives in the segment, because they do not
 * fit into the two usual ones that are kept: it is larger than a usual one. An upper bound. 0: they
 * fit.
 */
uint64_t segments_copies(const struct segments *segments, const struct segment *segment);
/* Do the disk and max_bytes leave room for such files? */
bool segments_copies_fit(const struct segments *segments, const struct segment *segment);
/* The most that any segment needs, or somewhat more: it is kept free. */
uint64_t segments_copies_max(const struct segments *segments);
/* Room in files that are there, without the last segment: a job that is alone in its file is the
   last in that. */
uint64_t segments_spare_room(const struct segments *segments);
/* Is a batch of so many bytes longer than a usual segment, so that it gets one of its own? */
bool segments_alone(const struct segments *segments, uint64_t bytes);
/*
 * Is less room left, in files and on the disk, than must be reserved for ending jobs and for
 * cleaning? `bytes`: of a batch that is to come; it counts if it is alone, because no spare has
 * room for it. Others go into the spares.
 */
bool segments_scarce(const struct segments *segments, uint64_t bytes);
/* Why: is it max_bytes, or the disk? */
enum err segments_scarce_why(const struct segments *segments, uint64_t bytes);
/* On a full disk: how large a spare the cleaner needs to go on; 0: it needs none. */
void segments_cleaner_wants(struct segments *segments, uint64_t bytes);

/* ---- files ---- */

/* The name of its file. */
void segments_file_name(const struct segment *segment, char out_name[DISK_NAME_MAX]);
/* Does its file exist, so that it can be read up to segment::end? */
static inline bool segment_readable(const struct segment *segment)
{
    return segment->state == SEGMENT_HEADED || segment->state == SEGMENT_SLICE;
}

/* Gets its file, and opens it if necessary, for which another one may be closed. ERR_AGAIN: see
   disk's open(). */
enum err segments_file(struct segments *segments, struct segment *segment,
                       struct disk_file **out_file) MUST_USE;
/* Sets its file, which the caller has opened or made; another one may be closed for it. */
void segments_opened(struct segments *segments, struct segment *segment, struct disk_file *file);

/* Closes its file, now or when the reads that are under way have ended. It need not be open. */
void segments_close_file(struct segments *segments, struct segment *segment);
/* Keeps its file on the disk until segments_unpin(), because somebody is going to read from it. */
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
/* Should its bytes be read past the page cache (disk_op::direct)? Only of one that is written no
   more, and not while it is read so. Its file need not be open. */
bool segments_is_direct(const struct segments *segments, const struct segment *segment);
/* Reads what is in the page cache, without waiting. ERR_AGAIN: not all of it is, or the file is not
   open. */
enum err segments_read_cached(struct segments *segments, struct segment *segment, uint64_t offset,
                              void *at, size_t len, size_t *out_len) MUST_USE;

/* ---- what lives ---- */

/* Notes that it is damaged, and calls callbacks->notice once. */
void segments_damaged(struct segments *segments, struct segment *segment, uint64_t offset,
                      const char *text);
/* Counts a record that is now the newest one of its job. */
void segments_record_lives(struct segments *segments, struct segment *segment,
                           struct stored stored);
/* A record died. False: there can be no such record (a bug, or, in replay, a false record in the
   log). */
bool segments_record_died(struct segments *segments, struct stored stored);

/* This many jobs of segment `number`, if it still exists, live in a slice from now on. False: it
   never had that many. */
bool segments_leave(struct segments *segments, uint32_t number, uint64_t jobs,
                    uint64_t bytes) MUST_USE;

/* Adds to, or subtracts from, the bytes of live records about slices in segment `number`. Does
   nothing if it no longer exists. */
void segments_add_slice_log(struct segments *segments, uint32_t number, uint64_t bytes,
                            uint64_t moves);
void segments_remove_slice_log(struct segments *segments, uint32_t number, uint64_t bytes,
                               uint64_t moves);

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
