/*
 * What the files of slices share: slices.c knows which there are and what lives, slice_load.c
 * brings jobs back as their time draws near, slice_due.c counts how many do, slice_recover.c opens.
 * far_page.c goes through them, too. Nobody else includes this.
 */
#ifndef LATERD_STORE_SLICES_PARTS_H
#define LATERD_STORE_SLICES_PARTS_H

#include "store/internal.h"
#include "store/record.h"
#include "store/slices/slices.h"

/* What is being read: one block of records at a time. */
struct slice_load {
    struct slice *slice; /* NULL: nothing */
    uint32_t block;      /* of its blocks of records */
    bool emptying;       /* what lives of it goes back to the log */
    char *bytes;         /* LOAD_BYTES, or more for a long record; kept between blocks */
    size_t cap;
    bool reading;
    struct disk_op op;
    bool there;   /* the block is in memory: its records are being told of */
    bool damaged; /* some of them are not as they were written */
    struct batch_walk walk;
    unsigned tries;
    int64_t retry_at_us;
    struct slice *sparse; /* is being emptied; NULL: none … */
    uint32_t sparse_block;
    bool waits;              /* blocks whose time has come wait for memory … */
    int64_t report_waits_us; /* … and that may be said again then */
    int64_t sparse_us;       /* … and when it goes on, or one may be chosen */
};

enum { DUE_SPANS = 6 };

/* How many far jobs are due by some times after `at_us`: see slice_due.c. */
struct slice_due {
    int64_t at_us;
    uint64_t jobs[DUE_SPANS];
};

struct slices {
    struct store *store;
    struct segments *segments;
    struct list all;  /* slice::link */
    struct list dead; /* slice::dead_link: to be removed */
    uint32_t count;
    uint64_t live_jobs, dead_jobs;
    uint64_t live_bytes;               /* of the records of those that live */
    const struct directory *directory; /* while opening */
    uint32_t left_last;  /* the segment that jobs left last for a slice, as the log says; 0: none */
    bool from_image;     /* the opening took the far jobs' index from an image */
    bool opened;         /* all are known: they may be put into the heaps */
    struct heap by_load; /* slice::load_node; by when the next block is to be loaded */
    struct heap by_dead; /* slice::empty_node; the one with the largest part of dead bytes first */
    uint64_t looks; /* slices that somebody who goes through all has looked at: tests read it */
    uint64_t words; /* of slice::dead, read to write SLICE records again: likewise */
    struct slice_load load;
    struct slice_due due;      /* the last survey that was whole; at_us INT64_MIN: there is none */
    struct slice_due counting; /* … and the one under way, … */
    uint32_t due_next;         /* … which has come to this number; UINT32_MAX: none is */
    struct disk_op remove;
    bool removing;
    uint64_t loaded_jobs, emptied;
};

static inline struct slice *slice_of(struct list *link)
{
    return LIST_ENTRY(link, struct slice, link);
}

static inline uint64_t slice_block_end(const struct slice *slice, uint32_t block)
{
    bool last = block + 1 == slice->head.blocks;
    return last ? slice->head.data_end : (uint64_t)slice->fences[block + 1].offset * BLOCK;
}

/* ---- slices.c ---- */

/* Forgets it; its file stays. */
void slices_drop(struct slices *slices, struct slice *slice);
/* A record of so many bytes at this place tells of the slice: all that is to be told, … */
void slice_told_first(struct slices *slices, struct slice *slice, struct told_at at, size_t bytes);
/* … or what comes after that. */
void slice_told_more(struct slices *slices, struct slice *slice, size_t bytes);
/* Of its dead jobs, or of all. */
void slice_forget_moves(struct slices *slices, struct slice *slice, bool all);
/* Sets the bits of the dead records that the record names; false: one cannot be. */
bool slice_set_dead(struct slice *slice, const struct slice_record *record);

/* ---- slice_recover.c ---- */

/*
 * The log has been replayed, and an image has all that lives in slices: has the callbacks drop the
 * older records of those jobs that the log told of, too, because they left a segment which is still
 * there. ERR_NOT_FOUND: an index cannot be read; others are the callbacks'. O(jobs in those
 * slices).
 */
enum err slices_drop_older(struct slices *slices) MUST_USE;

/* ---- slice_load.c ---- */

void slice_load_init(struct slices *slices);
void slice_load_fini(struct slices *slices);
void slice_load_turn(struct slices *slices);
int64_t slice_load_next_us(const struct slices *slices);
/* What is to be done with the slice, or when, may have changed. O(log slices). */
void slice_load_order(struct slices *slices, struct slice *slice);
/* Is the slice where it belongs in the heaps? For tests. */
bool slice_load_ordered(const struct slices *slices, const struct slice *slice);
/* The slice is about to be dropped. */
void slice_load_forget(struct slices *slices, struct slice *slice);

/* ---- slice_due.c ---- */

void slice_due_init(struct slices *slices);
void slice_due_all(struct slices *slices); /* a whole survey. O(blocks of all slices) */
void slice_due_turn(struct slices *slices);
int64_t slice_due_next_us(const struct slices *slices);

#endif
