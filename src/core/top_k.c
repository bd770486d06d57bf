/*
 * A binary heap with the last in order on top.
 */
#include "core/top_k.h"

#include "base/mem.h"

enum { FIRST_CAP = 32 };

void top_k_init(struct top_k *top, uint32_t max, top_k_before *before, const void *ctx)
{
    *top = (struct top_k){.max = max, .before = before, .ctx = ctx};
}

void top_k_fini(struct top_k *top)
{
    mem_free(top->entries);
    top->entries = NULL;
    top->count = top->cap = 0;
}

static bool before(const struct top_k *top, const struct top_k_entry *a,
                   const struct top_k_entry *b)
{
    return top->before(top->ctx, a, b);
}

/* Sifts the entry down from the free top of the heap of `count` entries. */
static void sift_down(struct top_k *top, uint32_t count, struct top_k_entry entry)
{
    uint32_t place = 0;
    for (;;) {
        uint32_t child = place * 2 + 1;
        if (child >= count)
            break;
        if (child + 1 < count && before(top, &top->entries[child], &top->entries[child + 1]))
            child++;
        if (!before(top, &entry, &top->entries[child]))
            break;
        top->entries[place] = top->entries[child];
        place = child;
    }
    top->entries[place] = entry;
}

static void sift_up(struct top_k *top, uint32_t place, struct top_k_entry entry)
{
    while (place > 0) {
        uint32_t parent = (place - 1) / 2;
        if (!before(top, &top->entries[parent], &entry))
            break;
        top->entries[place] = top->entries[parent];
        place = parent;
    }
    top->entries[place] = entry;
}

void top_k_offer(struct top_k *top, const struct top_k_entry *entry)
{
    if (top->count == top->max) {
        top->more = true;
        if (top->max && before(top, entry, &top->entries[0]))
            sift_down(top, top->count, *entry);
        return;
    }
    if (top->count == top->cap) {
        top->cap = top->cap ? top->cap * 2 : FIRST_CAP;
        top->entries = mem_realloc(top->entries, top->cap * sizeof(*top->entries));
    }
    top->count++;
    sift_up(top, top->count - 1, *entry);
}

void top_k_sort(struct top_k *top)
{
    for (uint32_t left = top->count; left > 1; left--) {
        struct top_k_entry last = top->entries[0];
        sift_down(top, left - 1, top->entries[left - 1]);
        top->entries[left - 1] = last;
    }
}
