/*
 * The slices: files of far jobs, sorted by due time, that are written once and never changed. What
 * of each is in use and what has died is known here, and told in the log: parts as its jobs leave
 * the log for it, deaths by the GONE and JOB records that name places in it, and all of that again,
 * as one whole SLICE record, when the segment with what was told first is cleaned.
 *
 *     spill ──parts──▶ in use ──loaded block by block as their time draws near──▶ nothing lives
 *                        │                                                            │
 *                        └─ mostly dead: the rest goes back to the log ───────────────┴▶ removed
 *
 * Invariants
 * T1 Records before slice::named are in use; of those `live_jobs` live and the others' bits in
 *    `dead` are set, one for each SLICE_UNIT of the file.
 * T2 The log has, from batch `told` on, all that makes T1 so. A file goes only when nothing in it
 *    lives and the batch that told of the last death is on disk.
 *    Which records of the log say so is known, too: slice::told_bytes of its SLICE records, and the
 *    last MOVE of each of its jobs (slice::moves). They live as long as what they tell of, and are
 *    counted in their segments (segments_add_slice_bytes()).
 * T3 No slice is removed that somebody reads from.
 * T4 A turn looks at few slices, however many there are: those that something is to be done with
 * are in heaps, by when a block is to be loaded and by how much of them is dead; who goes through
 * all does so by their numbers, some in each turn.
 */
#ifndef LATERD_STORE_SLICES_H
#define LATERD_STORE_SLICES_H

#include "base/err.h"
#include "base/heap.h"
#include "base/list.h"
#include "store/log/segments.h"
#include "store/recovery/directory.h"
#include "store/slices/slice_format.h"
#include "store/slices/slice_moves.h"

struct far_due;
struct slices;
struct record;

/* For others to read; only the files of slices write to it. */
struct slice {
    struct list link;            /* slices::all */
    struct list dead_link;       /* slices::dead, when nothing of it lives any more */
    struct heap_node load_node;  /* slices::by_load, while it has blocks that are not loaded */
    struct heap_node empty_node; /* slices::by_dead, if it is mostly dead and can be emptied */
    struct segment *segment;
    struct slice_head head;
    struct slice_fence *fences; /* head.blocks of them; NULL: the file is missing (recovery) */
    uint64_t *dead;             /* bits; NULL: none is set */
    uint32_t named;             /* blocks of BLOCK bytes of the file that are in use */
    uint32_t live_jobs, dead_jobs;
    uint64_t live_bytes, dead_bytes; /* of their records; not known before slices_replayed() */
    uint64_t told;                   /* T2; 0: the log has not told of it yet (recovery) */
    uint32_t told_segment;           /* where that batch is; */
    uint64_t told_bytes;             /* so many are all SLICE records from there on */
    struct slice_moves moves;        /* of jobs in it that changed, and live */
    uint64_t death_last;             /* the batch that tells of the last death */
    uint64_t topics[4]; /* bits by the hashes of topics that have jobs in it: slice_may_have() */
    uint32_t loaded;    /* so many of its blocks of records have been loaded, … */
    uint64_t *unread;   /* … but for these: bits of blocks that the disk could not read */
    uint32_t unread_count;
    uint32_t unread_next; /* the first of them from here on is tried next, … */
    int64_t retry_at_us;  /* … then */
    uint32_t left;        /* the segment that its jobs left, if the log says so (recovery) */
    bool making;          /* its jobs are still leaving the log */
    bool order_known;     /* slice_fence::seq and this are all that they will ever be: */
    uint64_t seq_last;    /* the number of its last job; 0: not known */
    bool index_unread;    /* it was reported that the disk cannot read its index */
    bool stuck;           /* it could not be emptied: some of it is damaged */
};

struct slices *slices_new(struct store *store); /* segments are there already */
void slices_free(struct slices *slices);        /* NULL does nothing; not while busy */

/* The slice has jobs of that topic. */
void slice_note_topic(struct slice *slice, struct bytes topic);
/* The same in the bits of a slice that is being built. Any thread. */
void slice_topic_bits(uint64_t bits[static 4], struct bytes topic);
/* False: it has none of that topic. */
bool slice_may_have(const struct slice *slice, struct bytes topic);

/* ---- opening ---- */

/* Which files there are; borrowed until slices_replayed(). Errors are the callbacks'. O(files). */
enum err slices_begin(struct slices *slices, const struct directory *directory) MUST_USE;
/* Where a record about slices lies in the log. */
struct told_at {
    uint64_t batch;
    uint32_t segment;
};

/* What the log says, in its order. ERR_CORRUPT, ERR_IO; the error says more. */
enum err slices_replay(struct slices *slices, const struct slice_record *record, struct told_at at,
                       struct store_error *out_error) MUST_USE;
/* A MOVE of the job whose record is at this place comes next: replays that record. */
enum err slices_replay_placed(struct slices *slices, uint64_t seq, uint64_t where,
                              struct store_error *out_error) MUST_USE;
/* The log has been replayed: tells the callbacks of far jobs. `clean`: the manifest, if the store
   was closed in order; else NULL. */
enum err slices_replayed(struct slices *slices, const struct manifest *clean,
                         struct store_error *out_error) MUST_USE;
/* Removes files of which nothing lives, half-made ones, and the image of the far jobs' index. */
enum err slices_remove_leftovers(struct slices *slices) MUST_USE;

/* ---- what lives ---- */

/* The record at this place died. False: no such record can be. */
bool slices_record_died(struct slices *slices, struct slice *slice, struct stored record);
/* A MOVE of so many bytes, of the job whose record is at this place, is in that segment: the job's
   last one. Nothing if no such job lives. */
void slices_moved(struct slices *slices, uint64_t where, uint32_t segment, size_t bytes);
/* Is the last MOVE of the job whose record is at this place in that segment? */
bool slices_move_lives(const struct slices *slices, uint64_t where, uint32_t segment);
uint64_t slices_live_jobs(const struct slices *slices);
uint32_t slices_count(const struct slices *slices);

/* ---- making, for spill.c ---- */

/* A file with these parts is there. `fences` is the slices' from now on. */
struct slice *slices_add(struct slices *slices, const struct slice_head *head,
                         struct slice_fence *fences);
/* The part's records are in use from now on: appends that to the log. Those that live have so many
   bytes, the others so many. */
void slices_name_part(struct slices *slices, struct slice *slice, const struct slice_record *part,
                      uint64_t live_bytes, uint64_t dead_bytes);
/* No more parts come. */
void slices_made(struct slices *slices, struct slice *slice);

/* ---- cleaning ---- */

/*
 * Batches before this one are to go: what they told of slices is told again, a bounded piece of the
 * work. True: there is more.
 */
bool slices_write_again(struct slices *slices, uint64_t batch);

/* ---- the turn ---- */

void slices_turn(struct slices *slices); /* loads, cleans and removes: a bounded piece of it */
int64_t slices_next_us(const struct slices *slices); /* wants a turn then; or INT64_MAX */
bool slices_busy(const struct slices *slices);       /* the disk reads or removes for it */

/* See store_far_due_until(). */
uint64_t slices_far_due_until(const struct slices *slices, int64_t limit_us);
/* See store_far_due(). */
bool slices_far_due(struct slices *slices, struct far_due *due, uint32_t most);
void slices_stats(const struct slices *slices, struct store_stats *out_stats);
void slices_valid(const struct slices *slices); /* CHECKs the invariants. O(slices) */

static inline bool slice_is_unread(const struct slice *slice, uint32_t block)
{
    return slice->unread_count > 0 && slice->unread[block / 64] >> block % 64 & 1;
}

static inline bool slice_is_loaded(const struct slice *slice, uint32_t block)
{
    return block < slice->loaded && !slice_is_unread(slice, block);
}

/* Prefetches what slices_record_died() changes for a record there. */
static inline void slice_expect_death(const struct slice *slice, uint64_t offset)
{
    if (slice->dead)
        __builtin_prefetch(&slice->dead[slice_unit(offset) / 64], 1);
}

static inline bool slice_is_dead(const struct slice *slice, uint64_t offset)
{
    uint32_t unit = slice_unit(offset);
    return slice->dead && slice->dead[unit / 64] >> unit % 64 & 1;
}

#endif
