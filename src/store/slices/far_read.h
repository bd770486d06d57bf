/*
 * Reads single records of slices, on the disk's read threads: store_far_fetch(). Most records need
 * one read; a long one needs a second read for the rest.
 *
 * Main thread only. Used by src/store only.
 */
#ifndef LATERD_STORE_FAR_READ_H
#define LATERD_STORE_FAR_READ_H

#include <stdint.h>

enum {
    /* As many as the disk's read threads may end between two turns: with fewer they would wait for
       the next turn. With more, bodies and slices that draw near would wait behind them. */
    FAR_READS_UNDER_WAY_MAX = 32,
    FAR_READS_BYTES = 512 * 1024, /* under way, at most; one longer record alone may have more */
};

struct far_reads;
struct store;

struct far_reads *far_reads_new(struct store *store);
/* Waits for reads under way. All fetches must have been ended. NULL does nothing. */
void far_reads_free(struct far_reads *reads);

/* Serves waiting fetches, in order: from the page cache, or by starting a read, while there is
   room. */
void far_reads_turn(struct far_reads *reads);
/* When far_reads_turn() has work; INT64_MAX: never. */
int64_t far_reads_next_us(const struct far_reads *reads);
void far_reads_valid(const struct far_reads *reads); /* CHECKs the invariants. O(reads) */

#endif
