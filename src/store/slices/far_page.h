/*
 * Pages of a topic's far jobs: store_far_page(). A page is a k-way merge: blocks of slices are read
 * one by one, in the order of the due time and number of their first jobs (far_blocks.h), and
 * merged (far_merge.h), until no unread block can contain an earlier job than those found.
 * Backwards pages start from the other end.
 *
 * Jobs that were read but not returned are cached for ten seconds in a walk, for the page that
 * begins where this one ends. So a client that reads all pages in order reads each block once: with
 * thousands of slices part by part, since there is no memory for a block of each. The
 * cache is optional: a page can be read without a walk (after a restart, or when memory is short).
 *
 * Main thread only, except that the disk's read threads search the blocks. Used by src/store only.
 */
#ifndef LATERD_STORE_FAR_PAGE_H
#define LATERD_STORE_FAR_PAGE_H

#include <stddef.h>
#include <stdint.h>

struct far_pages;
struct slice;
struct store;

/* Bytes that the idle walks may hold together, and how many idle walks there may be. Walks of pages
   that are being read may hold as much again. */
enum { FAR_WALKS_BYTES = 32 * 1024 * 1024, FAR_WALKS_MAX = 4 };

struct far_pages *far_pages_new(struct store *store);
/* Waits for reads under way. All pages must have been ended. NULL does nothing. */
void far_pages_free(struct far_pages *pages);

/* The log now says that this block of a slice is in use. Walks that have already passed its
   position go back to it; one of a page that is being read ends with that page. O(walks * log
   slices + jobs of a page). */
void far_pages_named(struct far_pages *pages, const struct slice *slice, uint32_t block);

/* A portion of work: continues pages that have not found their next block yet (256 slices in a
   turn) or that skip jobs that have ended since they were read (4,096 jobs in a turn), ends walks
   that were not used for ten seconds, and frees some of the memory of those that have ended. */
void far_pages_turn(struct far_pages *pages);
/* When far_pages_turn() has work; INT64_MAX: never. */
int64_t far_pages_next_us(const struct far_pages *pages);

/* For tests: replaces FAR_WALKS_BYTES. */
void far_pages_limit(struct far_pages *pages, size_t bytes);
/* For tests: how many ended jobs may be skipped in a turn. */
void far_pages_limit_drops(struct far_pages *pages, uint32_t drops);
/* Bytes of memory that idle walks hold now, as they are limited: jobs and the order of blocks; and
   bytes of blocks read since opening. */
size_t far_pages_held_bytes(const struct far_pages *pages);
uint64_t far_pages_read_bytes(const struct far_pages *pages);
/* CHECKs the invariants. O(jobs in walks). */
void far_pages_valid(const struct far_pages *pages);

#endif
