/*
 * The newest entries of the history, in memory until they are in a history file: a hash table with
 * chaining, each bucket from the newest entry to the oldest. 24 bytes an entry besides its own.
 * Main thread only.
 */
#ifndef LATERD_STORE_HISTORY_TABLE_H
#define LATERD_STORE_HISTORY_TABLE_H

#include "base/bytes.h"

enum { HISTORY_BUCKETS = 4096 };

struct history_node {
    struct history_node *older; /* in the same bucket */
    uint64_t key;
    uint32_t number; /* of the table's entries, in order of the log */
    uint32_t len;
    char entry[];
};

struct history_table {
    struct history_node **buckets; /* by the upper bits of the key; NULL: it is empty */
    struct buf chunks;             /* char *: memory that the nodes lie in */
    size_t chunk_used, chunk_size; /* of the last one */
    size_t bytes;                  /* of all nodes */
    uint32_t count;
    uint64_t batch_first; /* of the first entry; 0: there is none */
};

void history_table_add(struct history_table *table, uint64_t key, struct bytes entry,
                       uint64_t batch);
/* The newest entry of the key's bucket, or NULL; then follow history_node::older. A bucket also has
   entries of other keys. O(1). */
const struct history_node *history_table_first(const struct history_table *table, uint64_t key);
void history_table_clear(struct history_table *table); /* frees all; the table is empty then */

/*
 * Sorts one bucket by key and age, in bounded steps, because all entries of a busy job are in one
 * bucket: an external merge sort in memory. Groups of 1,000 are sorted first, and merged while the
 * entries are taken. A struct of zeros is empty. The table must not change meanwhile.
 */
struct history_sort {
    const struct history_node *left; /* of the bucket: the next to be put into a group */
    struct buf nodes;                /* const struct history_node *: group by group */
    struct buf groups;               /* a heap by their next nodes */
};

/* Begins a bucket. All entries of the bucket before must have been taken. */
void history_sort_begin(struct history_sort *sort, const struct history_table *table,
                        uint32_t bucket);
/* Sorts the next group. Returns its number of entries; 0: all entries are in groups. At most 1,000
   entries. */
uint32_t history_sort_group(struct history_sort *sort);
/* Takes the next entry in order; NULL: that was all. Only after history_sort_group() returned 0.
   O(log groups). */
const struct history_node *history_sort_next(struct history_sort *sort);
void history_sort_fini(struct history_sort *sort);

#endif
