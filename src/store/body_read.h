/*
 * Reads job bodies from segments and slices, on the disk's read threads: store_fetch() and
 * store_read_ahead(). A read serves all fetches whose records lie in its bytes. The bytes are
 * cached for a while, because jobs that were pushed together are often reserved together.
 *
 *     fetch ─▶ queue ─▶ a read: WAITING ─▶ UNDER_WAY (disk's threads) ─▶ read_cache.h
 *                                               └─ failed: each of its fetches is read alone
 *
 * Main thread only. Used by src/store only.
 */
#ifndef LATERD_STORE_BODY_READ_H
#define LATERD_STORE_BODY_READ_H

#include <stdint.h>

enum { BODY_READS_UNDER_WAY_MAX = 8 }; /* more than there are read threads, so that none idles */

struct body_reads;
struct store;

struct body_reads *body_reads_new(struct store *store);
/* Waits for reads under way. All fetches must have been ended. NULL does nothing. */
void body_reads_free(struct body_reads *reads);

/* Starts waiting reads, BODY_READS_UNDER_WAY_MAX at a time. */
void body_reads_turn(struct body_reads *reads);
/* When to retry a read for which no descriptor was free; INT64_MAX: no read waits for that. */
int64_t body_reads_next_us(const struct body_reads *reads);

/* For tests: how many cached reads were examined so far to find bytes. */
uint64_t body_reads_looks(const struct body_reads *reads);

/* CHECKs the invariants. O(reads + fetches). */
void body_reads_valid(const struct body_reads *reads);

#endif
