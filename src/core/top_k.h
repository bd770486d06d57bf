/*
 * The first so many of a long unordered row: a heap of the best seen so far, the worst on top, so
 * that a row of n is read once, in O(n log size) and O(size) memory.
 */
#ifndef LATERD_CORE_TOP_K_H
#define LATERD_CORE_TOP_K_H

#include <stdbool.h>
#include <stdint.h>

struct top_k_entry {
    int64_t due_us;
    uint64_t seq;
    uint32_t number;
};

/* Does a come before b? A total order: one of two different entries does. */
typedef bool top_k_before(const void *ctx, const struct top_k_entry *a,
                          const struct top_k_entry *b);

struct top_k {
    struct top_k_entry *entries;
    uint32_t count;
    uint32_t cap;
    uint32_t max;
    bool more; /* something was left out */
    top_k_before *before;
    const void *ctx;
};

void top_k_init(struct top_k *page, uint32_t max, top_k_before *before, const void *ctx);
void top_k_fini(struct top_k *page);
void top_k_offer(struct top_k *page, const struct top_k_entry *entry);
void top_k_sort(struct top_k *page); /* at the end: first comes first; no offers after it */

#endif
