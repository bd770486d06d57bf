/*
 * What happened of late, in memory: entries of the log's newest HISTORY records, by key, until they
 * are in a history file. 24 bytes an entry besides its own.
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
/* The newest of the bucket; then history_node::older. */
const struct history_node *history_table_first(const struct history_table *table, uint64_t key);
void history_table_clear(struct history_table *table); /* and fini */

/*
 * Goes through the entries of a bucket in order of key, then of the log, in slices: all entries of
 * a job that much happens to are in one. Groups of them are sorted, and merged as they are taken.
 * Zeroed it is empty; the table must not change meanwhile.
 */
struct history_sort {
    const struct history_node *left; /* of the bucket: the next to be put into a group */
    struct buf nodes;                /* const struct history_node *: group by group */
    struct buf groups;               /* a heap by their next nodes */
};

/* Begins with another bucket; the one before must be through. */
void history_sort_begin(struct history_sort *sort, const struct history_table *table,
                        uint32_t bucket);
/* Sorts one more group. Returns how many entries it has; 0: all are in groups. O(1000 log 1000). */
uint32_t history_sort_group(struct history_sort *sort);
/* The next in order, or NULL: it is through. Not before all are in groups. O(log groups). */
const struct history_node *history_sort_next(struct history_sort *sort);
void history_sort_fini(struct history_sort *sort);

#endif
