/*
 * Reads of bodies that are not in memory: see store_fetch() and store_read_ahead(). A read serves
 * every fetch whose record lies in the bytes that it brings, and its bytes are kept for a while,
 * because jobs that were pushed one after the other are mostly wanted one after the other.
 *
 *     fetch ─▶ queue ─▶ a read: WAITING ─▶ UNDER_WAY (disk's threads) ─▶ KEPT ─▶ forgotten
 *                                               └─ fails: its fetches are read again, each alone
 *
 * Nobody outside this folder includes this.
 */
#ifndef LATERD_STORE_BODY_READ_H
#define LATERD_STORE_BODY_READ_H

#include <stddef.h>
#include <stdint.h>

enum { BODY_READS_UNDER_WAY_MAX = 8 }; /* so that the disk's threads always find the next one */

struct body_reads;
struct store;

struct body_reads *body_reads_new(struct store *store);
/* Waits for the disk. All fetches must have been ended before. NULL does nothing. */
void body_reads_free(struct body_reads *reads);

/* Starts the reads that may be started now. */
void body_reads_turn(struct body_reads *reads);
/* When a read can be tried again for which no descriptor was free; INT64_MAX: none waits. */
int64_t body_reads_next_us(const struct body_reads *reads);

/* `len` bytes at `where` that an earlier read brought; NULL: it did not. Good until the next call
 * of any function of the store. O(1). */
const char *body_reads_kept(struct body_reads *reads, uint64_t where, size_t len);
/* How many reads have been looked at so far to find those that have some bytes. For tests. */
uint64_t body_reads_looks(const struct body_reads *reads);

/* Every list and count in order? CHECKs. O(reads and fetches). */
void body_reads_valid(const struct body_reads *reads);

#endif
