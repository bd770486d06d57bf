#include "engine/redis/topic_cache.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum { KNOWN_KEPT = 1 << 20 }; /* of 32 bytes, each of a topic in a partition */

struct bytes topic_name(const struct topic *topic)
{
    return bytes_of(topic->name, topic->name_len);
}

static uint64_t name_hash(struct bytes name)
{
    return hash_of(name.at, name.len);
}

static bool topic_has_name(const void *ctx, uint32_t number, const void *key)
{
    const struct watched *watched = ctx;
    const struct topic *topic = pool_at(&watched->all, number);
    return bytes_eq(topic_name(topic), *(const struct bytes *)key);
}

static void topic_free(struct watched *watched, struct topic *topic)
{
    map_remove(&watched->by_name, name_hash(topic_name(topic)), topic->number);
    list_remove(&topic->idle);
    mem_free(topic->name);
    mem_free(topic->known);
    pool_give(&watched->all, topic->number);
}

void watched_init(struct watched *watched, uint32_t partitions)
{
    *watched = (struct watched){.partitions = partitions};
    pool_init(&watched->all, sizeof(struct topic));
    map_init(&watched->by_name, topic_has_name, watched);
    list_init(&watched->idle);
}

void watched_fini(struct watched *watched)
{
    while (!list_empty(&watched->idle))
        topic_free(watched, LIST_ENTRY(watched->idle.next, struct topic, idle));
    pool_fini(&watched->all);
    map_fini(&watched->by_name);
}

struct topic *watched_find(const struct watched *watched, struct bytes name)
{
    uint32_t number = map_find(&watched->by_name, name_hash(name), &name);
    return number == MAP_NONE ? NULL : pool_at(&watched->all, number);
}

static struct topic *topic_new(struct watched *watched, struct bytes name)
{
    uint32_t number = pool_take(&watched->all);
    struct topic *topic = pool_at(&watched->all, number);
    topic->number = number;
    topic->name = mem_alloc(name.len + 1);
    memcpy(topic->name, name.at, name.len);
    topic->name_len = (uint8_t)name.len;
    topic->known = mem_zalloc(watched->partitions * sizeof(*topic->known));
    topic_forget(topic, watched->partitions);
    list_init(&topic->lines);
    list_init(&topic->idle);
    map_add(&watched->by_name, name_hash(name), number);
    return topic;
}

struct topic *watched_need(struct watched *watched, struct bytes name)
{
    struct topic *topic = watched_find(watched, name);
    uint32_t kept = KNOWN_KEPT / watched->partitions;
    if (!topic && watched->all.count >= kept && !list_empty(&watched->idle))
        topic_free(watched, LIST_ENTRY(watched->idle.next, struct topic, idle));
    if (!topic)
        topic = topic_new(watched, name);
    list_remove(&topic->idle);
    return topic;
}

void watched_rest(struct watched *watched, struct topic *topic)
{
    list_add_tail(&watched->idle, &topic->idle);
}

/* ---- what is known ---- */

int rank_compare(struct script_rank a, struct script_rank b)
{
    if (a.priority != b.priority)
        return a.priority < b.priority ? -1 : 1;
    return (a.us > b.us) - (a.us < b.us);
}

void topic_notice(struct topic *topic, uint32_t partition)
{
    struct known *known = &topic->known[partition];
    known->news = true;
    if (known->what != READY)
        known->what = NOTICED;
}

void topic_promoted(struct topic *topic, uint32_t partition)
{
    struct known *known = &topic->known[partition];
    if (known->what != READY)
        known->what = NOTICED;
}

void topic_see(struct topic *topic, uint32_t partition, struct script_rank rank, int64_t now_us)
{
    struct known *known = &topic->known[partition];
    switch ((enum knowledge)known->what) {
    case EMPTY:
    case TAKEN: *known = (struct known){.what = READY, .first = rank, .at_us = now_us}; break;
    case UNKNOWN:
    case NOTICED: break; /* there may be better ones */
    case READY:
        if (rank_compare(rank, known->first) < 0)
            known->first = rank;
        break;
    }
}

void topic_forget(struct topic *topic, uint32_t partitions)
{
    for (uint32_t i = 0; i < partitions; i++)
        topic->known[i] = (struct known){.what = UNKNOWN, .news = true};
    topic->again_us = INT64_MAX;
}
