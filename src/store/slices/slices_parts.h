/*
 * Internals that the files of src/store/slices share. slices.c: which slices there are, and which
 * records live. slice_load.c: loads jobs into memory before their due time. slice_changed.c: moves
 * changed jobs out of slices. slice_due.c: counts due jobs. slice_recover.c: opening.
 * far_page.c, far_walk.c and far_blocks.c: search slices. Only these and block_read.c include it.
 */
#ifndef LATERD_STORE_SLICES_PARTS_H
#define LATERD_STORE_SLICES_PARTS_H

#include "store/internal.h"
#include "store/record.h"
#include "store/slices/block_read.h"
#include "store/slices/slices.h"

/* A block that is being loaded: it is read, then its records are passed to the callbacks. */
struct block_load {
    struct list link; /* slice_load::blocks, unless the slice is being emptied */
    struct block_read read;
    bool again;    /* it could not be read at once, and is overtaken: slice_is_unread() */
    bool emptying; /* the slice is being emptied: live records go back to the log */
    bool damaged;  /* the block's checksum does not match */
    bool begun;    /* some of its records have been passed on */
};

struct slice_load {
    struct list blocks;          /* block_load::link, in the order of their due times, … */
    unsigned count;              /* … so many, … */
    size_t bytes;                /* … of so many bytes */
    int64_t room_at_us;          /* before this time memory is short */
    struct block_load *emptying; /* NULL: none */
    struct slice *sparse;        /* the slice that is being emptied; NULL: none … */
    uint32_t sparse_block;       /* … its next block … */
    int64_t sparse_us;           /* … and when to continue, or to choose a slice */
    bool waits;                  /* blocks that should be loaded wait for memory; … */
    int64_t report_waits_us;     /* … not reported again before this time */
};

/* Changed jobs that may leave memory, and the block that is read to move some of them. */
struct slice_changed {
    struct list slices[MOVE_LEAVER_KINDS]; /* slice_leavers::link; the first has its turn next */
    uint64_t jobs[MOVE_LEAVER_KINDS];      /* of all slices that can be read */
    enum slice_move_kind kind;             /* whose turn it is, or was last; … */
    struct slice *slice;                   /* … which slice's; NULL: none's; … */
    uint32_t block;                        /* … and its next block; … */
    struct block_read read;                /* … if it is set, it is of that block */
    int64_t at_us;                         /* the next block is not read before this time */
    uint64_t moved;                        /* for tests: records appended to the log */
};

enum { DUE_SPANS = 6 };

/* A survey: how many far jobs are due at `at_us` plus each of the spans of slice_due.c. */
struct slice_due {
    int64_t at_us;
    uint64_t jobs[DUE_SPANS];
};

struct slices {
    struct store *store;
    struct segments *segments;
    struct list all;  /* slice::link */
    struct list dead; /* slice::dead_link: to be removed, oldest death first */
    uint32_t count;
    uint64_t live_jobs, dead_jobs;
    uint64_t live_bytes;               /* of the live records */
    const struct directory *directory; /* while opening */
    uint32_t left_last;   /* the last segment that jobs left for a slice, by the log; 0: none */
    int64_t log_clock_us; /* while opening: that of the log's last batch so far */
    int64_t due_by_us;    /* the highest of the slices' */
    bool from_image;      /* the opening took the far jobs' index from an image */
    bool opened;          /* recovery is over: slices are in the heaps */
    struct heap by_load;  /* slice::load_node, by the time to load the next block */
    struct heap by_dead;  /* slice::empty_node, the largest share of dead bytes first */
    uint64_t looks;       /* for tests: slices examined by whoever visits all of them */
    uint64_t words;       /* for tests: words of slice::dead read to write SLICE records again */
    struct slice_load load;
    struct slice_changed changed;
    struct slice_due due;      /* the last complete survey; at_us INT64_MIN: none */
    struct slice_due counting; /* the survey under way, … */
    uint32_t due_next;         /* … the next slice number it examines; UINT32_MAX: no survey */
    struct disk_op remove;
    bool removing;
    uint64_t loaded_jobs, emptied;
};

static inline struct slice *slice_of(struct list *link)
{
    return LIST_ENTRY(link, struct slice, link);
}

static inline uint64_t slice_block_begin(const struct slice *slice, uint32_t block)
{
    return (uint64_t)slice->fences[block].offset * BLOCK;
}

static inline uint64_t slice_block_end(const struct slice *slice, uint32_t block)
{
    bool last = block + 1 == slice->head.blocks;
    return last ? slice->head.data_end : slice_block_begin(slice, block + 1);
}

static inline size_t slice_block_bytes(const struct slice *slice, uint32_t block)
{
    return (size_t)(slice_block_end(slice, block) - slice_block_begin(slice, block));
}

/* ---- slices.c ---- */

/* Removes it from memory; its file stays. */
void slices_drop(struct slices *slices, struct slice *slice);
/* A SLICE record of `bytes` bytes at this place describes the whole slice; earlier ones are dead.
 */
void slice_set_logged(struct slices *slices, struct slice *slice, struct log_place at,
                      size_t bytes);
/* A SLICE record of `bytes` bytes adds a part to that. */
void slice_add_logged(struct slices *slices, struct slice *slice, size_t bytes);
/* Removes the MOVEs of its dead jobs, or of all its jobs, from slice::moves. O(slots). */
void slice_forget_moves(struct slices *slices, struct slice *slice, bool all);
/* Sets the bits of the dead records that a SLICE record lists. False: it lists an impossible one.
 */
bool slice_set_dead(struct slice *slice, const struct slice_record *record);
/* Changes what is known of the job whose record begins at this unit since its last MOVE. Does
   nothing if it has none. */
void slices_set_kind(struct slices *slices, struct slice *slice, uint32_t unit,
                     enum slice_move_kind kind);

/* ---- slice_recover.c ---- */

/*
 * After the log was replayed, before an image is taken: jobs that left a segment which still exists
 * were replayed from their older record there. Has the callbacks drop those. ERR_NOT_FOUND: the
 * index of a slice cannot be read. Other errors come from the callbacks. O(jobs in those slices).
 */
enum err slices_drop_older(struct slices *slices) MUST_USE;

/* ---- slice_blocks.c ---- */

/* The block in which this offset of the file is. O(log blocks) */
uint32_t slice_block_at(const struct slice *slice, uint64_t offset);
/* How many records of the block live. O(bytes of the block / 512) */
uint32_t slice_block_live(const struct slice *slice, uint32_t block);
/* The block could not be read: it is tried again later. A slice's unread blocks are tried one by
   one, and other blocks are loaded in the meantime. */
void slice_note_unread(struct slice *slice, uint32_t block, int64_t retry_at_us);
void slice_note_read(struct slice *slice, uint32_t block);
/* The unread block to try next; there must be one. */
uint32_t slice_next_unread(const struct slice *slice);
/* After the replay: notes the blocks whose live jobs all have a MOVE, so that the replay has put
   them into memory. O(moves * log blocks + bytes of the file / 512) */
void slice_note_in_memory(struct slice *slice);
/* A listing reads the block, up to offset `end`: how many bytes behind that are to be read ahead.
   O(their blocks) */
uint64_t slice_listing_ahead(struct slice *slice, uint32_t block, uint64_t end);
/* No job has to come from the block: all have ended, or were in memory after the replay, where a
   job that has a MOVE stays until it ends or leaves for another slice. O(as slice_block_live) */
bool slice_block_has_come(const struct slice *slice, uint32_t block);

/* ---- slice_load.c ---- */

void slice_load_init(struct slices *slices);
void slice_load_fini(struct slices *slices);
void slice_load_turn(struct slices *slices);
bool slice_load_busy(const struct slices *slices);  /* blocks are being read */
void slice_load_valid(const struct slices *slices); /* CHECKs what is under way */
int64_t slice_load_next_us(const struct slices *slices);
/* Updates the slice's place in both heaps. Call after any change of it. O(log slices). */
void slice_load_order(struct slices *slices, struct slice *slice);
/* The same, if nothing has changed since but that a job has died. */
void slice_load_order_death(struct slices *slices, struct slice *slice);
/* For tests: is the slice's place in both heaps up to date? */
bool slice_load_ordered(const struct slices *slices, const struct slice *slice);
/* Before the slice is dropped: removes it from the heaps and from struct slice_load. */
void slice_load_forget(struct slices *slices, struct slice *slice);

/* ---- slice_changed.c ---- */

void slice_changed_init(struct slices *slices);
void slice_changed_add(struct slice *slice); /* it is new */
/* The last MOVE of the job whose record begins at this unit is of this kind from now on; or is no
   longer. O(log blocks) */
void slice_changed_count(struct slices *slices, struct slice *slice, uint32_t unit,
                         enum slice_move_kind kind);
void slice_changed_uncount(struct slices *slices, struct slice *slice, uint32_t unit,
                           enum slice_move_kind kind);
void slice_changed_turn(struct slices *slices);
int64_t slice_changed_next_us(const struct slices *slices);
bool slice_changed_busy(const struct slices *slices); /* a block is being read */
/* Before the slice is dropped, when its moves are forgotten. */
void slice_changed_forget(struct slices *slices, struct slice *slice);
void slice_changed_valid(const struct slices *slices); /* O(slots of all moves) */

/* ---- slice_due.c ---- */

void slice_due_init(struct slices *slices);
/* At opening: a whole survey; reports progress. Errors are the callback's. O(blocks of all). */
enum err slice_due_all(struct slices *slices) MUST_USE;
void slice_due_turn(struct slices *slices);
int64_t slice_due_next_us(const struct slices *slices);

#endif
