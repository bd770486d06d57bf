#include "store/history/history_table.h"

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

/* ---- a bucket in order ---- */

enum { GROUP_MAX = 1000 };

/* Of history_sort::nodes: those that were not taken. There is one. */
struct group {
    uint32_t next, end;
};

void history_sort_begin(struct history_sort *sort, const struct history_table *table,
                        uint32_t bucket)
{
    CHECK(bucket < HISTORY_BUCKETS && !sort->left && sort->groups.len == 0);
    sort->left = table->buckets ? table->buckets[bucket] : NULL;
    sort->nodes.len = 0;
}

static const struct history_node **node_at(const struct history_sort *sort, uint32_t place)
{
    return (const struct history_node **)(void *)sort->nodes.at + place;
}

static struct group *group_at(const struct history_sort *sort, uint32_t place)
{
    return (struct group *)(void *)sort->groups.at + place;
}

static bool is_before(const struct history_sort *sort, const struct group *a, const struct group *b)
{
    return by_key(node_at(sort, a->next), node_at(sort, b->next)) < 0;
}

static void sift_up(struct history_sort *sort, uint32_t at)
{
    struct group group = *group_at(sort, at);
    for (; at > 0 && is_before(sort, &group, group_at(sort, (at - 1) / 2)); at = (at - 1) / 2)
        *group_at(sort, at) = *group_at(sort, (at - 1) / 2);
    *group_at(sort, at) = group;
}

static void sift_down(struct history_sort *sort, uint32_t count)
{
    struct group group = *group_at(sort, 0);
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_before(sort, group_at(sort, child + 1), group_at(sort, child)))
            child++;
        if (!is_before(sort, group_at(sort, child), &group))
            break;
        *group_at(sort, at) = *group_at(sort, child);
    }
    *group_at(sort, at) = group;
}

uint32_t history_sort_group(struct history_sort *sort)
{
    struct group group = {.next = (uint32_t)(sort->nodes.len / sizeof(struct history_node *))};
    uint32_t count = 0;
    for (; sort->left && count < GROUP_MAX; sort->left = sort->left->older, count++)
        buf_add(&sort->nodes, &sort->left, sizeof(struct history_node *));
    if (count == 0)
        return 0;
    group.end = group.next + count;
    qsort(node_at(sort, group.next), count, sizeof(struct history_node *), by_key);
    buf_add(&sort->groups, &group, sizeof(group));
    sift_up(sort, (uint32_t)(sort->groups.len / sizeof(group)) - 1);
    return count;
}

const struct history_node *history_sort_next(struct history_sort *sort)
{
    uint32_t count = (uint32_t)(sort->groups.len / sizeof(struct group));
    CHECK(!sort->left);
    if (count == 0)
        return NULL;
    struct group *first = group_at(sort, 0);
    const struct history_node *node = *node_at(sort, first->next);
    if (++first->next == first->end) {
        *first = *group_at(sort, --count);
        sort->groups.len -= sizeof(*first);
    }
    if (count > 0)
        sift_down(sort, count);
    return node;
}

void history_sort_fini(struct history_sort *sort)
{
    buf_fini(&sort->nodes);
    buf_fini(&sort->groups);
    *sort = (struct history_sort){0};
}
