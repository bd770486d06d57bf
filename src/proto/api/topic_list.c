#include "proto/api/topic_list.h"

#include "base/hash.h"

enum {
    COMPARED_MAX = 32, /* names that are compared with each other: quicker than to hash them */
};

void topic_list_init(struct topic_list *list, struct arena *scratch, uint32_t most)
{
    *list = (struct topic_list){.scratch = scratch, .most = most};
}

/* Where the name is, or would be. */
static uint32_t *slot_of(const struct topic_list *list, struct bytes name)
{
    uint32_t mask = list->slot_count - 1;
    uint32_t slot = (uint32_t)hash_of(name.at, name.len) & mask;
    while (list->slots[slot] && !bytes_eq(list->at[list->slots[slot] - 1], name))
        slot = (slot + 1) & mask;
    return &list->slots[slot];
}

/* Larger ones than before, never more than half full. */
static void make_slots(struct topic_list *list)
{
    list->slot_count = 2 * list->cap;
    list->slots = arena_alloc(list->scratch, list->slot_count * sizeof(*list->slots));
    memset(list->slots, 0, list->slot_count * sizeof(*list->slots));
    for (uint32_t i = 0; i < list->count; i++)
        *slot_of(list, list->at[i]) = i + 1;
}

/* Doubles the room, and grows the hash table with it: memory depends on the number of names, not on
 * `most`. */
static void grow(struct topic_list *list)
{
    const struct bytes *old = list->at;
    list->cap = list->cap ? 2 * list->cap : COMPARED_MAX;
    list->at = arena_alloc(list->scratch, list->cap * sizeof(*list->at));
    if (!old)
        return;
    memcpy(list->at, old, list->count * sizeof(*list->at));
    make_slots(list);
}

static bool is_listed(const struct topic_list *list, struct bytes name)
{
    if (list->slots)
        return *slot_of(list, name) != 0;
    for (uint32_t i = 0; i < list->count; i++) {
        if (bytes_eq(list->at[i], name))
            return true;
    }
    return false;
}

bool topic_list_add(struct topic_list *list, struct bytes name)
{
    if (is_listed(list, name))
        return true;
    if (list->count == list->most)
        return false;
    if (list->count == list->cap)
        grow(list);
    if (list->slots)
        *slot_of(list, name) = list->count + 1;
    list->at[list->count++] = name;
    return true;
}
