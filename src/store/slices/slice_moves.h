/*
 * A hash table of the jobs of one slice that have changed since the slice was written (MOVE records
 * in the log), and of the segment that has the last MOVE of each. That MOVE lives until the job's
 * record in the slice dies. Open addressing, 8 bytes a slot, at most 3/4 full. Growing is
 * O(entries): less than a millisecond for some ten thousand jobs.
 *
 * Main thread only. Used by src/store/slices only.
 */
#ifndef LATERD_STORE_SLICE_MOVES_H
#define LATERD_STORE_SLICE_MOVES_H

#include <stdbool.h>
#include <stdint.h>

/* What is known of the job since then. */
enum slice_move_kind {
    MOVE_BURIED, /* it is buried, … */
    MOVE_READY,  /* … or ready, or held by a connection, of which the log says nothing, … */
    MOVE_FAR,    /* … or delayed until far beyond the horizon: … */
    MOVE_LEAVER_KINDS,              /* … it may leave memory, by slice_changed.c */
    MOVE_STAYS = MOVE_LEAVER_KINDS, /* it must stay in memory until it changes */
    MOVE_OTHER,
};

/* A record of the log. */
struct slice_move {
    uint32_t segment;
    uint32_t bytes; /* a multiple of 8, below 512 */
    enum slice_move_kind kind;
};

struct slice_moves {
    uint64_t *slots; /* NULL: there is none */
    uint32_t mask, count;
};

void slice_moves_fini(struct slice_moves *moves);
/* Finds the last MOVE of the job whose record begins at this unit of the slice. False: there is
   none. O(1), as are the next two. */
bool slice_moves_find(const struct slice_moves *moves, uint32_t unit, struct slice_move *out_move);
/* Adds or replaces the last MOVE of that job. */
void slice_moves_set(struct slice_moves *moves, uint32_t unit, struct slice_move move);
/* Removes the job's entry, if there is one. */
void slice_moves_remove(struct slice_moves *moves, uint32_t unit);
/* Iterates over all entries: *at is 0 at first. The table must not change meanwhile. False: that
   was all. */
bool slice_moves_next(const struct slice_moves *moves, uint32_t *at, uint32_t *out_unit,
                      struct slice_move *out_move);

#endif
