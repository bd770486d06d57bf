/*
 * Which jobs of a slice have changed since it was written, as MOVEs in the log say, and which of
 * the log's segments has the last MOVE of each: that one lives until its job's record dies. Eight
 * bytes a slot, at most 3/4 full. A slice has at most some ten thousand jobs, so that the table
 * grows in less than a millisecond.
 *
 * Nobody outside this folder includes this.
 */
#ifndef LATERD_STORE_SLICE_MOVES_H
#define LATERD_STORE_SLICE_MOVES_H

#include <stdbool.h>
#include <stdint.h>

/* A record of the log. */
struct slice_move {
    uint32_t segment;
    uint32_t bytes; /* a multiple of 8, below 2048 */
};

struct slice_moves {
    uint64_t *slots; /* NULL: there is none */
    uint32_t mask, count;
};

void slice_moves_fini(struct slice_moves *moves);
/* The last MOVE of the job whose record begins at this unit of the slice. False: it has none. */
bool slice_moves_find(const struct slice_moves *moves, uint32_t unit, struct slice_move *out_move);
/* That is its last one now. */
void slice_moves_set(struct slice_moves *moves, uint32_t unit, struct slice_move move);
/* Forgets it, if there is one. */
void slice_moves_remove(struct slice_moves *moves, uint32_t unit);
/* Goes through all: *at is 0 at first. Nothing may change meanwhile. False: there are no more. */
bool slice_moves_next(const struct slice_moves *moves, uint32_t *at, uint32_t *out_unit,
                      struct slice_move *out_move);

#endif
