/*
 * The first so many of a long unordered row: a heap of the best seen so far, the worst on top, so
 * that a row of n is read once, in O(n log size) and O(size) memory.
 */
#ifndef LATERD_CORE_TOP_K_H
#define LATERD_CORE_TOP_K_H

#include <stdbool.h>
#include <stdint.h>

struct page_entry {
    int64_t due_us;
    uint64_t seq;
    uint32_t number;
};

/* Does a come before b? A total order: one of two different entries does. */
typedef bool page_before(const void *ctx, const struct page_entry *a, const struct page_entry *b);

struct page {
    struct page_entry *entries;
    uint32_t count;
    uint32_t cap;
    uint32_t max;
    bool more; /* something was left out */
    page_before *before;
    const void *ctx;
};

void page_init(struct page *page, uint32_t max, page_before *before, const void *ctx);
void page_fini(struct page *page);
void page_offer(struct page *page, const struct page_entry *entry);
void page_sort(struct page *page); /* at the end: first comes first; no offers after it */

#endif
