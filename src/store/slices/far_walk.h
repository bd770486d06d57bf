/*
 * Walks: the state of a client's iteration over a topic's far jobs, kept between its pages (see
 * far_page.h): jobs that were read and not returned, and which blocks are to be read next.
 *
 *     far_walks_take ─▶ of a page ──far_walks_give_back──▶ idle ─▶ far_walks_take …
 *                           │ stale                         │ ten seconds, or memory is short
 *                           └───────────▶ ended ◀───────────┘
 *                                           └▶ freed, a piece in each turn
 *
 * Main thread only. Used by far_page.c alone.
 */
#ifndef LATERD_STORE_FAR_WALK_H
#define LATERD_STORE_FAR_WALK_H

#include "base/list.h"
#include "store/slices/far_blocks.h"
#include "store/slices/far_merge.h"

struct far_page;
struct slice;
struct store;

/* Of a page's jobs, unless the first one has more; and of its walk, while memory is short. */
enum { FAR_PAGE_BYTES_MAX = 4 * 1024 * 1024 };

struct far_walk {
    struct list link; /* far_walks::idle or ::ended; a page's walk is alone */
    struct bytes topic;
    struct far_merge merge;
    struct far_blocks blocks; /* the blocks to read, in order */
    uint64_t looked_bytes;    /* of all records that were read so far; … */
    uint64_t matched_bytes;   /* … of those that belong to the topic */
    bool stale;               /* it may lack jobs of a block: not kept for the next page */
    int64_t until_us;         /* when it ends, while it is idle */
};

/* The walks of a store that no page has. */
struct far_walks {
    struct store *store;
    struct list idle; // far_walk::link, the oldest first
    uint32_t idle_count;
    struct list ended;     // far_walk::link: their memory must be freed
    size_t idle_bytes_max; /* that the idle walks may hold together */
};

void far_walks_init(struct far_walks *walks, struct store *store);
void far_walks_fini(struct far_walks *walks); /* no page may have a walk */

/* The walk that goes on where the page begins, or a new one. The caller owns it. O(idle walks). */
struct far_walk *far_walks_take(struct far_walks *walks, const struct far_page *page);
/* A page needs its walk no more. `keep`: a next page may go on with it, unless it is stale. */
void far_walks_give_back(struct far_walks *walks, struct far_walk *walk, bool keep);

/* A block of a slice is in use since now: idle walks that have passed its position go back to it.
   O(idle walks * log slices). */
void far_walks_named(struct far_walks *walks, const struct slice *slice, uint32_t block);
/* Has the walk come past the block, which may have jobs for its next page, or for this one? */
bool far_walk_has_passed(const struct far_walk *walk, const struct slice *slice, uint32_t block);

/* Ends walks that were idle for ten seconds, or all of them while memory is short; frees some
   memory of those that have ended. */
void far_walks_turn(struct far_walks *walks);
/* When far_walks_turn() has work; INT64_MAX: never. */
int64_t far_walks_next_us(const struct far_walks *walks);

/*
 * How many bytes of a block's records a page may add to its walk; the rest of the block is read
 * later. SIZE_MAX if the walk's memory is enough for a block of each slice, since all may have jobs
 * that are due at the same time.
 */
size_t far_walks_block_share(const struct far_walks *walks, const struct far_walk *walk);
/* Drops the later half of a page's walk if it holds more than its share. To be called once after
   each part that was read, because it visits all runs. */
void far_walks_limit(const struct far_walks *walks, struct far_walk *walk);
/* Bytes that the idle walks hold. O(idle walks). */
size_t far_walks_held_bytes(const struct far_walks *walks);
void far_walks_valid(const struct far_walks *walks); /* CHECKs. O(jobs in idle walks) */

#endif
