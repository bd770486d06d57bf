/*
 * Finds the first far jobs of a topic: see store_far_page(). Blocks of slices are read one after
 * the other, in the order of their first jobs' due times and numbers, until no later one can have
 * an earlier job than those that were found; backwards likewise from the other end.
 *
 * What was read and not shown stays in memory for a while (a walk: far_merge.h), for the page that
 * begins where this one ends: who goes through all pages reads each block once. Any page can be
 * read without that, too: after a restart, when memory is short, when new blocks have come.
 *
 * Nobody outside this folder includes this.
 */
#ifndef LATERD_STORE_FAR_PAGE_H
#define LATERD_STORE_FAR_PAGE_H

#include <stddef.h>
#include <stdint.h>

struct far_pages;
struct slice;
struct store;

/* All walks that no page is being read for, together; and as much again while pages are. */
enum { FAR_WALKS_BYTES = 32 * 1024 * 1024, FAR_WALKS_MAX = 4 };

struct far_pages *far_pages_new(struct store *store);
/* Waits for the disk. All pages must have been ended before. NULL does nothing. */
void far_pages_free(struct far_pages *pages);

/* This block of a slice is in use from now on: walks that have passed it end. O(walks, pages). */
void far_pages_named(struct far_pages *pages, const struct slice *slice, uint32_t block);

/* Pages whose next block is not known yet look at some more slices, those that have read many jobs
   that have ended since leave out some more; walks that nobody has gone on
   with for a while end. */
void far_pages_turn(struct far_pages *pages);
int64_t far_pages_next_us(const struct far_pages *pages); /* wants a turn then; or INT64_MAX */

/* In place of FAR_WALKS_BYTES: for tests. */
void far_pages_limit(struct far_pages *pages, size_t bytes);
/* So many jobs that have ended are left out of pages in a turn: for tests. */
void far_pages_limit_drops(struct far_pages *pages, uint32_t drops);
/* Bytes of memory that walks hold now, and of blocks that were read since opening. */
size_t far_pages_held_bytes(const struct far_pages *pages);
uint64_t far_pages_read_bytes(const struct far_pages *pages);
void far_pages_valid(const struct far_pages *pages); /* CHECKs. O(jobs in memory) */

#endif
