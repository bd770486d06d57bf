/*
 * Finds the first far jobs of a topic: see store_far_page(). Blocks of slices are read one after
 * the other, in the order of their first jobs' due times, until no later one can have an earlier
 * job than those that were found.
 *
 * Nobody outside this folder includes this.
 */
#ifndef LATERD_STORE_FAR_PAGE_H
#define LATERD_STORE_FAR_PAGE_H

struct store;

/* Waits for the disk to end what it reads for pages that nobody wants any more. */
void far_pages_fini(struct store *store);

#endif
