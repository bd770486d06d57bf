#include "store/history_table.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"

enum { CHUNK_BYTES = 64 * 1024, BUCKET_BITS = 12 };
_Static_assert(1 << BUCKET_BITS == HISTORY_BUCKETS, "a bucket is the upper bits of a key");

static uint32_t bucket_of(uint64_t key)
{
    return (uint32_t)(key >> (64 - BUCKET_BITS));
}

static void *take(struct history_table *table, size_t len)
{
    char *chunk;
    len = (len + 7) & ~(size_t)7;
    if (table->chunks.len == 0 || table->chunk_size - table->chunk_used < len) {
        table->chunk_size = len > CHUNK_BYTES ? len : CHUNK_BYTES;
        chunk = mem_alloc(table->chunk_size);
        buf_add(&table->chunks, &chunk, sizeof(chunk));
        table->chunk_used = 0;
    }
    CHECK(table->chunk_used + len <= table->chunk_size);
    memcpy(&chunk, table->chunks.at + table->chunks.len - sizeof(chunk), sizeof(chunk));
    table->chunk_used += len;
    table->bytes += len;
    return chunk + table->chunk_used - len;
}

void history_table_add(struct history_table *table, uint64_t key, struct bytes entry,
                       uint64_t batch)
{
    CHECK(entry.len > 0 && entry.len <= UINT32_MAX && table->count < UINT32_MAX);
    struct history_node *node = take(table, sizeof(*node) + entry.len);
    if (!table->buckets)
        table->buckets = mem_zalloc(HISTORY_BUCKETS * sizeof(struct history_node *));
    if (table->count == 0)
        table->batch_first = batch;
    struct history_node **bucket = &table->buckets[bucket_of(key)];
    *node = (struct history_node){
        .older = *bucket, .key = key, .number = table->count++, .len = (uint32_t)entry.len};
    memcpy(node->entry, entry.at, entry.len);
    *bucket = node;
}

const struct history_node *history_table_first(const struct history_table *table, uint64_t key)
{
    return table->buckets ? table->buckets[bucket_of(key)] : NULL;
}

static int by_key(const void *left, const void *right)
{
    const struct history_node *a = *(const struct history_node *const *)left;
    const struct history_node *b = *(const struct history_node *const *)right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

void history_table_sorted(const struct history_table *table, uint32_t bucket, struct buf *out)
{
    CHECK(bucket < HISTORY_BUCKETS);
    out->len = 0;
    if (!table->buckets)
        return;
    for (const struct history_node *node = table->buckets[bucket]; node; node = node->older)
        buf_add(out, &node, sizeof(struct history_node *));
    if (out->len)
        qsort(out->at, out->len / sizeof(struct history_node *), sizeof(struct history_node *),
              by_key);
}

void history_table_clear(struct history_table *table)
{
    for (size_t at = 0; at < table->chunks.len; at += sizeof(char *)) {
        char *chunk;
        memcpy(&chunk, table->chunks.at + at, sizeof(chunk));
        mem_free(chunk);
    }
    buf_fini(&table->chunks);
    mem_free(table->buckets);
    *table = (struct history_table){0};
}
