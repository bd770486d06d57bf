#include "engine/redis/topic_cache.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum {
    KNOWN_KEPT = 1 << 20, /* hints of 48 bytes: one for each topic and partition */
    OVER_MOST = 3,        /* answers in a row whose jobs are given back because their ttr is over */
};

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
    const struct topic_cache *topic_cache = ctx;
    const struct topic *topic = pool_at(&topic_cache->all, number);
    return bytes_eq(topic_name(topic), *(const struct bytes *)key);
}

static void topic_free(struct topic_cache *topic_cache, struct topic *topic)
{
    map_remove(&topic_cache->by_name, name_hash(topic_name(topic)), topic->number);
    list_remove(&topic->idle);
    list_remove(&topic->notified_alone);
    mem_free(topic->name);
    mem_free(topic->hints);
    pool_give(&topic_cache->all, topic->number);
}

void topic_cache_init(struct topic_cache *topic_cache, uint32_t partitions)
{
    *topic_cache = (struct topic_cache){.partitions = partitions};
    pool_init(&topic_cache->all, sizeof(struct topic));
    map_init(&topic_cache->by_name, topic_has_name, topic_cache);
    list_init(&topic_cache->idle);
}

void topic_cache_fini(struct topic_cache *topic_cache)
{
    while (!list_empty(&topic_cache->idle))
        topic_free(topic_cache, LIST_ENTRY(topic_cache->idle.next, struct topic, idle));
    pool_fini(&topic_cache->all);
    map_fini(&topic_cache->by_name);
}

struct topic *topic_cache_find(const struct topic_cache *topic_cache, struct bytes name)
{
    uint32_t number = map_find(&topic_cache->by_name, name_hash(name), &name);
    return number == MAP_NONE ? NULL : pool_at(&topic_cache->all, number);
}

static struct topic *topic_new(struct topic_cache *topic_cache, struct bytes name)
{
    uint32_t number = pool_take(&topic_cache->all);
    struct topic *topic = pool_at(&topic_cache->all, number);
    topic->number = number;
    topic->name = mem_alloc(name.len + 1);
    memcpy(topic->name, name.at, name.len);
    topic->name_len = (uint8_t)name.len;
    topic->hints = mem_zalloc(topic_cache->partitions * sizeof(*topic->hints));
    topic_forget(topic, topic_cache->partitions);
    list_init(&topic->groups);
    list_init(&topic->idle);
    list_init(&topic->notified_alone);
    map_add(&topic_cache->by_name, name_hash(name), number);
    return topic;
}

/* The longest idle one without pushes under way; NULL: there is none. O(those with pushes) */
static struct topic *longest_idle(const struct topic_cache *topic_cache)
{
    const struct list *idle = &topic_cache->idle;
    for (struct list *at = idle->next; at != idle; at = at->next) {
        struct topic *topic = LIST_ENTRY(at, struct topic, idle);
        if (!topic->pushes)
            return topic;
    }
    return NULL;
}

struct topic *topic_cache_need(struct topic_cache *topic_cache, struct bytes name)
{
    struct topic *topic = topic_cache_find(topic_cache, name), *idle = NULL;
    if (!topic && topic_cache->all.count >= KNOWN_KEPT / topic_cache->partitions)
        idle = longest_idle(topic_cache);
    if (idle)
        topic_free(topic_cache, idle);
    if (!topic)
        topic = topic_new(topic_cache, name);
    list_remove(&topic->idle);
    return topic;
}

void topic_cache_rest(struct topic_cache *topic_cache, struct topic *topic)
{
    list_add_tail(&topic_cache->idle, &topic->idle);
}

/* ---- hints ---- */

void hint_set(struct hint *hint, enum hint_kind what)
{
    *hint = (struct hint){.what = (uint8_t)what,
                          .outdated_calls = hint->outdated_calls,
                          .alone_call = hint->alone_call,
                          .notified_alone = hint->notified_alone,
                          .over_answers = hint->over_answers};
}

int rank_compare(struct script_rank a, struct script_rank b)
{
    if (a.priority != b.priority)
        return a.priority < b.priority ? -1 : 1;
    return (a.us > b.us) - (a.us < b.us);
}

bool rank_is_close(struct script_rank first, struct script_rank later)
{
    return first.priority == later.priority && later.us - first.us <= RANK_CLOSE_US;
}

/* Jobs that are close to the first that is left. */
static uint32_t close_left(const struct hint *hint, const struct topic_rest *rest)
{
    bool counts = hint->what == READY && rank_compare(hint->first, rest->first) <= 0 &&
                  rank_is_close(hint->first, rest->first);
    uint32_t counted =
        counts && hint->close_jobs > rest->taken ? hint->close_jobs - rest->taken : 1;
    bool is_complete = rest->close_jobs && rest->close_jobs < SCRIPT_CLOSE_JOBS_MAX;
    return is_complete || rest->close_jobs > counted ? rest->close_jobs : counted;
}

void topic_left(struct topic *topic, uint32_t partition, const struct topic_rest *rest,
                int64_t now_us)
{
    struct hint *hint = &topic->hints[partition];
    uint32_t close_jobs = close_left(hint, rest);
    hint_set(hint, READY);
    hint->first = rest->first;
    hint->close_jobs = (uint8_t)close_jobs;
    hint->at_us = now_us;
}

/* Counts a job that was seen beside the first, before it, or as the first one. After a new first
 * job those counted before may not be close to it, except the former first. */
static void see_another(struct hint *hint, struct script_rank rank, bool became)
{
    bool first = rank_compare(rank, hint->first) < 0;
    bool close = first ? rank_is_close(rank, hint->first) : rank_is_close(hint->first, rank);
    if (first)
        hint->close_jobs = 1;
    if (became && close && hint->close_jobs < UINT8_MAX)
        hint->close_jobs++;
    if (first)
        hint->first = rank;
}

void topic_notice(struct topic *topic, uint32_t partition)
{
    struct hint *hint = &topic->hints[partition];
    hint->outdated_calls = ALL_CALLS;
    if (hint->what != READY)
        hint->what = NOTICED;
}

void topic_promoted(struct topic *topic, uint32_t partition)
{
    struct hint *hint = &topic->hints[partition];
    if (hint->what != READY)
        hint->what = NOTICED;
}

void topic_requested_alone(struct topic *topic, uint32_t partition, uint64_t call)
{
    struct hint *hint = &topic->hints[partition];
    hint->alone_call = call > hint->alone_call ? call : hint->alone_call;
}

void topic_see(struct topic *topic, uint32_t partition, struct script_rank rank, bool became,
               int64_t now_us)
{
    struct hint *hint = &topic->hints[partition];
    switch ((enum hint_kind)hint->what) {
    case EMPTY:
    case TAKEN:
        hint_set(hint, READY);
        hint->first = rank;
        hint->close_jobs = 1;
        hint->at_us = now_us;
        break;
    case UNKNOWN:
    case NOTICED: break; /* there may be better jobs */
    case READY: see_another(hint, rank, became); break;
    }
}

void topic_note_over(struct topic *topic, uint32_t partition, bool over)
{
    uint8_t *over_answers = topic ? &topic->hints[partition].over_answers : NULL;
    if (over_answers && !over)
        *over_answers = 0;
    else if (over_answers)
        *over_answers = *over_answers < OVER_MOST ? *over_answers + 1 : OVER_MOST + 1;
}

bool topic_is_always_over(const struct topic *topic, uint32_t partition)
{
    return topic && topic->hints[partition].over_answers > OVER_MOST;
}

void topic_forget_at(struct topic *topic, uint32_t partition)
{
    struct hint *hint = &topic->hints[partition];
    bool failed = hint->failed;
    hint_set(hint, UNKNOWN);
    hint->outdated_calls = ALL_CALLS;
    hint->failed = failed;
}

void topic_forget(struct topic *topic, uint32_t partitions)
{
    for (uint32_t i = 0; i < partitions; i++)
        topic_forget_at(topic, i);
    topic->again_us = INT64_MAX;
}
