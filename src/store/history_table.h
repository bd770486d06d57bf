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
/* The entries of a bucket in order of key, then of the log: pointers, in `out`. */
void history_table_sorted(const struct history_table *table, uint32_t bucket, struct buf *out);
void history_table_clear(struct history_table *table); /* and fini */

#endif
