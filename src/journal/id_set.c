#include "journal/id_set.h"

#include "base/hash.h"
#include "base/mem.h"

enum { SLOTS_FIRST = 1024 };

static uint64_t key_of(struct bytes id)
{
    uint64_t key = hash_of(id.at, id.len);
    return key ? key : 1;
}

/* Where it is, or would be. */
static uint64_t *find(uint64_t *slots, size_t slot_count, uint64_t key)
{
    size_t mask = slot_count - 1, at = key & mask;
    while (slots[at] && slots[at] != key)
        at = (at + 1) & mask;
    return &slots[at];
}

/* Moves some hashes; the old slots are not changed until all are moved, so look-ups still find
 * them. */
static void move_some(struct id_set *set)
{
    for (unsigned i = 0; i < ID_SET_MOVES && set->moved < set->old_count; i++) {
        uint64_t key = set->old[set->moved++];
        if (key)
            *find(set->slots, set->slot_count, key) = key;
    }
    if (set->moved < set->old_count)
        return;
    mem_free(set->old);
    set->old = NULL;
    set->old_count = set->moved = 0;
}

/* Begins to grow. The last growth is finished: enough additions were made since to move all
   slots. */
static void grow(struct id_set *set)
{
    set->old = set->slots;
    set->old_count = set->slot_count;
    set->moved = 0;
    set->slot_count = set->slot_count ? 2 * set->slot_count : SLOTS_FIRST;
    set->slots = mem_zalloc(set->slot_count * sizeof(*set->slots));
}

void id_set_add(struct id_set *set, struct bytes id)
{
    uint64_t key = key_of(id);
    if (set->old)
        move_some(set);
    if (2 * set->count >= set->slot_count)
        grow(set);
    if (set->old && *find(set->old, set->old_count, key))
        return; /* it is moved, or will be */
    uint64_t *slot = find(set->slots, set->slot_count, key);
    set->count += *slot == 0;
    *slot = key;
}

bool id_set_has(const struct id_set *set, struct bytes id)
{
    uint64_t key = key_of(id);
    return (set->slots && *find(set->slots, set->slot_count, key)) ||
           (set->old && *find(set->old, set->old_count, key));
}

void id_set_fini(struct id_set *set)
{
    mem_free(set->slots);
    mem_free(set->old);
    *set = (struct id_set){.count = 0};
}
