/*
 * Reads of single records in slices: see store_far_fetch(). One read of the disk brings most
 * records, a second one the rest of a long one.
 *
 * Nobody outside this folder includes this.
 */
#ifndef LATERD_STORE_FAR_READ_H
#define LATERD_STORE_FAR_READ_H

#include <stdint.h>

enum { FAR_READS_UNDER_WAY_MAX = 8 };

struct far_reads;
struct store;

struct far_reads *far_reads_new(struct store *store);
/* Waits for the disk. All fetches must have been ended before. NULL does nothing. */
void far_reads_free(struct far_reads *reads);

/* Starts the reads that may be started now, and ends those whose bytes are in memory. */
void far_reads_turn(struct far_reads *reads);
int64_t far_reads_next_us(const struct far_reads *reads); /* wants a turn then; or INT64_MAX */
void far_reads_valid(const struct far_reads *reads);      /* CHECKs. O(reads under way) */

#endif
