/*
 * Finds the first far jobs of a topic: see store_far_page(). Blocks of slices are read one after
 * the other, in the order of their first jobs' due times, until no later one can have an earlier
 * job than those that were found; backwards likewise from the other end.
 *
 * Nobody outside this folder includes this.
 */
#ifndef LATERD_STORE_FAR_PAGE_H
#define LATERD_STORE_FAR_PAGE_H

#include <stdint.h>

struct far_pages;
struct store;

struct far_pages *far_pages_new(struct store *store);
/* Waits for the disk. All pages must have been ended before. NULL does nothing. */
void far_pages_free(struct far_pages *pages);

/* Pages whose next block is not known yet look at some more slices. */
void far_pages_turn(struct far_pages *pages);
int64_t far_pages_next_us(const struct far_pages *pages); /* wants a turn then; or INT64_MAX */

#endif
