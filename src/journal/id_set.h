/*
 * A set of ids, stored as 64-bit hashes: ids with equal hashes (a probability of 2^-64 for each
 * pair) are not distinguished. It grows in slices, so that no addition takes long. Pure.
 */
#ifndef LATERD_JOURNAL_ID_SET_H
#define LATERD_JOURNAL_ID_SET_H

#include "base/bytes.h"

struct id_set {      /* zeroed: empty */
    uint64_t *slots; /* 0 is free */
    uint64_t *old;   /* NULL, or the slots before it grew, whose hashes are moved from … */
    size_t slot_count, old_count;
    size_t moved; /* … here on */
    size_t count;
};

enum { ID_SET_MOVES = 8 }; /* slots that one addition moves at most */

void id_set_fini(struct id_set *set); /* leaves it empty */
/* Adds an id. O(1), except for allocating twice the memory at each doubling. */
void id_set_add(struct id_set *set, struct bytes id);
bool id_set_has(const struct id_set *set, struct bytes id);

#endif
