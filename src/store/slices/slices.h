/*
 * The slices: immutable files of far jobs, sorted by due time. This module knows which slices there
 * are, which part of each is in use, and which of its records are dead. The same is in the log: a
 * SLICE record for each part that comes into use (as its jobs leave the log), and a GONE or JOB
 * record for each death, which names the place of the dead record. When the segment with the oldest
 * such record is cleaned, one whole SLICE record repeats everything.
 *
 *     spill ──parts──▶ in use ──loaded block by block before the due times──▶ no live record left
 *                        │                                                          │
 *                        ├─ mostly dead: live records go back to the log ───────────┴▶ removed
 *                        └─ of jobs that are buried, ready or put off since, if many are: the same
 *
 * Invariants
 * T1 Records before slice::named are in use. `live_jobs` of them live; the others have their bit in
 *    the bitmap `dead` set, which has one bit for each SLICE_UNIT of the file.
 * T2 The log describes the state of T1 from batch `logged` on. A file is removed only when none of
 *    its records lives and the batch with the last death is on disk. The records of the log that
 *    describe a slice are counted as live in their segments (segments_add_slice_log()): its SLICE
 *    records (slice::logged_bytes), and the last MOVE of each of its jobs (slice::moves).
 * T3 No slice is removed while somebody reads from it.
 * T4 The work of a turn does not grow with the number of slices. Heaps order them by the time when
 *    the next block has to be loaded, and by the share of dead bytes. Whoever visits all slices
 *    does so in the order of their numbers, a portion in each turn.
 *
 * Main thread only. Used by src/store only.
 */
#ifndef LATERD_STORE_SLICES_H
#define LATERD_STORE_SLICES_H

#include "base/err.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/prefetch.h"
#include "store/log/segments.h"
#include "store/recovery/directory.h"
#include "store/slices/slice_format.h"
#include "store/slices/slice_moves.h"

enum {
    SLICE_LOADS_MAX = 4,                   /* blocks that are loaded at once */
    SLICE_READS_MAX = SLICE_LOADS_MAX + 2, /* and one to empty a slice, one for changed jobs */
};

struct far_due;
struct slices;
struct record;

/* Jobs of a slice that have changed, are of one kind since then, and may leave memory. */
struct slice_leavers {
    struct list link;   /* slice_changed::slices, if there are some, and they can be read */
    uint32_t count;     /* without those of blocks that are not worth a read for them */
    uint32_t *in_block; /* so many in each block; NULL: there was none */
};

/* Other files may read it; only the files of src/store/slices write to it. */
struct slice {
    struct list link;            /* slices::all */
    struct list dead_link;       /* slices::dead, when nothing of it lives any more */
    struct heap_node load_node;  /* slices::by_load, while it has blocks that are not loaded */
    struct heap_node empty_node; /* slices::by_dead, if it is mostly dead and can be emptied */
    struct segment *segment;
    struct slice_head head;
    struct slice_fence *fences; /* head.blocks of them; NULL: the file is missing (recovery) */
    uint64_t *dead;             /* bits; NULL: none is set */
    uint32_t named;             /* the file is in use up to this offset, in blocks of BLOCK bytes */
    uint32_t live_jobs, dead_jobs;
    uint64_t live_bytes, dead_bytes; /* of their records; not known before slices_replayed() */
    uint64_t logged;                 /* T2: the log describes it from this batch on; 0: not yet */
    uint32_t logged_segment;         /* the segment of that batch */
    uint64_t logged_bytes;           /* bytes of its SLICE records from that batch on */
    struct slice_moves moves;        /* the last MOVEs of its live jobs */
    struct slice_leavers leavers[MOVE_LEAVER_KINDS];
    bool leavers_stay;   /* because a block could not be read */
    uint64_t death_last; /* the batch with the last death */
    uint64_t topics[4];  /* bloom filter of the topics of its jobs: slice_may_have() */
    uint32_t loaded;     /* number of its first blocks that have been loaded, … */
    uint64_t *unread;    /* … except these: bitmap of blocks that the disk could not read */
    uint32_t begun;      /* number of its first blocks that are loaded or being loaded */
    uint32_t requested;  /* number of its first blocks that were read ahead for loading */
    uint32_t listed;     /* the block that a listing has read last, plus one; 0: none … */
    uint32_t listed_to;  /* … and the first one that was not read ahead for it */
    uint64_t *in_memory; /* bitmap of blocks whose jobs were all in memory after the replay; NULL:
                            there is none */
    uint32_t unread_count;
    uint32_t unread_next; /* the first unread block at or after this is tried next, … */
    int64_t retry_at_us;  /* … at this time */
    int64_t due_by_us;    /* jobs that are due by then have been due, by the clock of an earlier
                             process; INT64_MIN: none is known of */
    uint32_t left;        /* recovery: the segment that its jobs left, if the log says so; … */
    uint64_t replayed;    /* … where the last changed record was read, and … */
    uint64_t fetched;     /* … up to where the disk was asked to read ahead for that */
    bool making;          /* its jobs are still leaving the log */
    bool order_known;     /* slice_fence::seq and seq_last will not change any more */
    uint64_t seq_last;    /* the number of its last job; 0: not known */
    bool index_unread;    /* it was reported that the disk cannot read its index, … */
    bool block_unread;    /* … or a block, and not all have been read since */
    bool stuck;           /* it cannot be emptied, because some of its records are damaged */
};

struct slices *slices_new(struct store *store); /* after store::segments was made */
void slices_free(struct slices *slices);        /* NULL does nothing; not while slices_busy() */

/* Adds a topic to the slice's bloom filter. */
void slice_note_topic(struct slice *slice, struct bytes topic);
/* Adds a topic to a bloom filter, of a slice that is being built. Any thread. */
void slice_topic_bits(uint64_t bits[static 4], struct bytes topic);
/* False: the slice has no job of that topic. True may be a false positive. O(name). */
bool slice_may_have(const struct slice *slice, struct bytes topic);

/* ---- opening ---- */

/* Before the log is replayed: which files exist. `directory` is borrowed until slices_replayed().
   O(files). */
enum err slices_begin(struct slices *slices, const struct directory *directory) MUST_USE;
/* Replays the clock of a batch, before its records; 0: it is not known. O(1), but O(slices) where
   the clock was set back. */
void slices_replay_clock(struct slices *slices, int64_t clock_us);
/* Where a record about slices lies in the log. */
struct log_place {
    uint64_t batch;
    uint32_t segment;
};

/* Replays a SLICE record, in the order of the log. ERR_CORRUPT, ERR_IO; out_error says more. */
enum err slices_replay(struct slices *slices, const struct slice_record *record,
                       struct log_place at, struct store_error *out_error) MUST_USE;
/* The next event is a MOVE of a job whose record is at this place in a slice: reads that record and
   replays it first. */
enum err slices_replay_placed(struct slices *slices, uint64_t seq, uint64_t where,
                              struct store_error *out_error) MUST_USE;
/* After the log was replayed: passes all far jobs to the callbacks, from the image or from the
   slices' indexes. `clean`: the manifest, if the store was closed cleanly; else NULL. */
enum err slices_replayed(struct slices *slices, const struct manifest *clean,
                         struct store_error *out_error) MUST_USE;
/* Removes slices without a live record, unfinished files, and the image of the far jobs' index. */
enum err slices_remove_leftovers(struct slices *slices) MUST_USE;

/* ---- what lives ---- */

/* The record at this place died. False: there can be no live record there. O(log slices). */
bool slices_record_died(struct slices *slices, struct slice *slice, struct stored record);
/* Segment `segment` has this MOVE, of `bytes` bytes, of the job whose record is at event->record;
   it is the job's last one. `copy`: the cleaner wrote it again, nothing has changed. Does nothing
   if no such job lives. O(log slices). */
void slices_moved(struct slices *slices, const struct event *event, uint32_t segment, size_t bytes,
                  bool copy);
/* Is the last MOVE of the job whose record is at this place in that segment? */
bool slices_move_lives(const struct slices *slices, uint64_t where, uint32_t segment);
uint64_t slices_live_jobs(const struct slices *slices);
uint32_t slices_count(const struct slices *slices);

/* ---- making, for spill.c ---- */

/* Adds a slice whose file has been written. Takes over `fences`, head->blocks of them. */
struct slice *slices_add(struct slices *slices, const struct slice_head *head,
                         struct slice_fence *fences);
/* The next part of the slice comes into use: appends the SLICE record to the log. `live_bytes`,
   `dead_bytes`: of the part's live and dead records. O(blocks of the slice). */
void slices_name_part(struct slices *slices, struct slice *slice, const struct slice_record *part,
                      uint64_t live_bytes, uint64_t dead_bytes);
/* The last part of the slice is in use. */
void slices_made(struct slices *slices, struct slice *slice);

/* ---- cleaning ---- */

/*
 * Batches before `batch` are going to be removed: appends whole SLICE records for the slices that
 * are described in them. True: there is more to do; a call writes about 64 KiB of records and reads
 * 2 MiB of bitmaps of dead records at most, or one slice more.
 */
bool slices_write_again(struct slices *slices, uint64_t batch);

/* ---- the turn ---- */

/* Loads blocks whose jobs become due soon, empties slices that are mostly dead, moves changed jobs
   out of slices, counts due jobs and removes files: a bounded piece of each. */
void slices_turn(struct slices *slices);
int64_t slices_next_us(const struct slices *slices); /* when it has work; INT64_MAX: never */
bool slices_busy(const struct slices *slices);       /* a disk operation is under way */

/* See store_far_due_until(). */
uint64_t slices_far_due_until(const struct slices *slices, int64_t limit_us);
/* See store_far_due(). */
bool slices_far_due(struct slices *slices, struct far_due *due, uint32_t most);
void slices_stats(const struct slices *slices, struct store_stats *out_stats);
void slices_valid(const struct slices *slices); /* CHECKs the invariants. O(bytes of all bitmaps) */

static inline bool slice_is_unread(const struct slice *slice, uint32_t block)
{
    return slice->unread_count > 0 && slice->unread[block / 64] >> block % 64 & 1;
}

static inline bool slice_is_loaded(const struct slice *slice, uint32_t block)
{
    return block < slice->loaded && !slice_is_unread(slice, block);
}

/* Prefetches what slices_record_died() changes for a record there. */
static inline void slice_prefetch_death(const struct slice *slice, uint64_t offset)
{
    if (slice->dead)
        prefetch_write(&slice->dead[slice_unit(offset) / 64]);
}

static inline bool slice_is_dead(const struct slice *slice, uint64_t offset)
{
    uint32_t unit = slice_unit(offset);
    return slice->dead && slice->dead[unit / 64] >> unit % 64 & 1;
}

#endif
