/*
 * The topics of a reserve, in order, without duplicates. A few names are compared with each other;
 * for more there is a hash table, so that as many as limits.reserve_topics allows are decoded
 * within a turn. Pure.
 */
#ifndef LATERD_PROTO_API_TOPIC_LIST_H
#define LATERD_PROTO_API_TOPIC_LIST_H

#include "base/arena.h"

struct topic_list {
    struct bytes *at; /* `count` names, borrowed; in the arena */
    uint32_t count, cap, most;
    struct arena *scratch;
    uint32_t *slots; /* hash table of numbers in `at`, from 1 on, 0 is free; NULL: not needed yet */
    uint32_t slot_count;
};

/* For up to `most` names (at least 1). What it needs for those that are added lives in
   `scratch`, some 100 bytes for each at most. O(1) */
void topic_list_init(struct topic_list *list, struct arena *scratch, uint32_t most);

/* Adds the name, unless it is there; its bytes are borrowed as long as the list is used. False:
   `most` others are there. O(1), on average */
bool topic_list_add(struct topic_list *list, struct bytes name);

#endif
