/*
 * A binary heap with the last in order on top.
 */
#include "core/top_k.h"

#include "base/mem.h"

enum { FIRST_CAP = 32 };

void top_k_init(struct top_k *page, uint32_t max, top_k_before *before, const void *ctx)
{
    *page = (struct top_k){.max = max, .before = before, .ctx = ctx};
}

void top_k_fini(struct top_k *page)
{
    mem_free(page->entries);
    page->entries = NULL;
    page->count = page->cap = 0;
}

static bool before(const struct top_k *page, const struct top_k_entry *a,
                   const struct top_k_entry *b)
{
    return page->before(page->ctx, a, b);
}

/* Sifts the entry down from the free top of the heap of `count` entries. */
static void sift_down(struct top_k *page, uint32_t count, struct top_k_entry entry)
{
    uint32_t place = 0;
    for (;;) {
        uint32_t child = place * 2 + 1;
        if (child >= count)
            break;
        if (child + 1 < count && before(page, &page->entries[child], &page->entries[child + 1]))
            child++;
        if (!before(page, &entry, &page->entries[child]))
            break;
        page->entries[place] = page->entries[child];
        place = child;
    }
    page->entries[place] = entry;
}

static void sift_up(struct top_k *page, uint32_t place, struct top_k_entry entry)
{
    while (place > 0) {
        uint32_t parent = (place - 1) / 2;
        if (!before(page, &page->entries[parent], &entry))
            break;
        page->entries[place] = page->entries[parent];
        place = parent;
    }
    page->entries[place] = entry;
}

void top_k_offer(struct top_k *page, const struct top_k_entry *entry)
{
    if (page->count == page->max) {
        page->more = true;
        if (page->max && before(page, entry, &page->entries[0]))
            sift_down(page, page->count, *entry);
        return;
    }
    if (page->count == page->cap) {
        page->cap = page->cap ? page->cap * 2 : FIRST_CAP;
        page->entries = mem_realloc(page->entries, page->cap * sizeof(*page->entries));
    }
    page->count++;
    sift_up(page, page->count - 1, *entry);
}

void top_k_sort(struct top_k *page)
{
    for (uint32_t left = page->count; left > 1; left--) {
        struct top_k_entry last = page->entries[0];
        sift_down(page, left - 1, page->entries[left - 1]);
        page->entries[left - 1] = last;
    }
}
