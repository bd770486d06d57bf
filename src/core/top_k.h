/*
 * Selects the first k entries of a long unordered sequence: a max-heap of the best k so far. One
 * pass over n entries takes O(n log k) and O(k) memory. Single-threaded. Pure, except that it
 * allocates memory.
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

/* By due time, then by number; and the reverse order. They do not use `ctx`. */
static inline bool top_k_due_before(const void *ctx, const struct top_k_entry *a,
                                    const struct top_k_entry *b)
{
    (void)ctx;
    return a->due_us != b->due_us ? a->due_us < b->due_us : a->seq < b->seq;
}

static inline bool top_k_due_after(const void *ctx, const struct top_k_entry *a,
                                   const struct top_k_entry *b)
{
    return top_k_due_before(ctx, b, a);
}

struct top_k {
    struct top_k_entry *entries;
    uint32_t count;
    uint32_t cap;
    uint32_t max;
    bool more; /* something was left out */
    top_k_before *before;
    const void *ctx;
};

void top_k_init(struct top_k *top, uint32_t max, top_k_before *before, const void *ctx);
void top_k_fini(struct top_k *top);
/* Adds the entry if it is among the first `max` so far. O(log max). */
void top_k_offer(struct top_k *top, const struct top_k_entry *entry);
/* Sorts `entries` after the last offer. O(max log max). */
void top_k_sort(struct top_k *top);

#endif
