/*
 * Owns all topics. Each is in at most one of three lists: idle (it holds nothing, is not paused and
 * may be evicted), servable (core_match has work there) or hungry (it waits for a far job).
 */
#include "core/topic.h"

#include <xxhash.h>

#include "base/check.h"
#include "base/mem.h"

static bool name_is(const void *ctx, uint32_t number, const void *key)
{
    const struct topic *topic = pool_at(ctx, number);
    return bytes_eq(topic->name, *(const struct bytes *)key);
}

static struct bytes name_of(const void *ctx, uint32_t number)
{
    return ((const struct topic *)pool_at(ctx, number))->name;
}

void topics_init(struct topics *topics, const struct pool *jobs, uint32_t max, uint64_t hash_key)
{
    *topics = (struct topics){.max = max, .key = hash_key, .jobs = jobs};
    pool_init(&topics->pool, sizeof(struct topic));
    map_init(&topics->by_name, name_is, &topics->pool);
    name_order_init(&topics->order, name_of, &topics->pool);
    list_init(&topics->idle);
    list_init(&topics->servable);
    list_init(&topics->hungry);
}

void topics_fini(struct topics *topics)
{
    for (uint32_t i = topics_next(topics, 0); i != POOL_NONE; i = topics_next(topics, i + 1)) {
        struct topic *topic = topics_at(topics, i);
        ready_heap_fini(&topic->ready);
        far_ready_fini(&topic->far_ready);
        mem_free(topic->settings);
        mem_free((char *)(uintptr_t)topic->name.at);
    }
    map_fini(&topics->by_name);
    name_order_fini(&topics->order);
    pool_fini(&topics->pool);
}

uint32_t topics_next(const struct topics *topics, uint32_t number)
{
    number = pool_next(&topics->pool, number);
    while (number != POOL_NONE && topics_at(topics, number)->name.len == 0) /* it was forgotten */
        number = pool_next(&topics->pool, number + 1);
    return number;
}

static uint64_t hash_name(const struct topics *topics, struct bytes name)
{
    return XXH3_64bits_withSeed(name.at, name.len, topics->key);
}

/* A cache: most commands name the topic of the command before. */
static inline bool is_recent(const struct topics *topics, struct bytes name)
{
    return topics->recent && bytes_eq(topics->recent->name, name);
}

struct topic *topics_find(const struct topics *topics, struct bytes name)
{
    if (is_recent(topics, name))
        return topics->recent;
    uint32_t number = map_find(&topics->by_name, hash_name(topics, name), &name);
    return number == MAP_NONE ? NULL : topics_at(topics, number);
}

void topics_forget(struct topics *topics, struct topic *topic)
{
    CHECK(topic->idle);
    if (topics->recent == topic)
        topics->recent = NULL;
    list_remove(&topic->place);
    map_remove(&topics->by_name, topic->name_hash, topic->number);
    name_order_remove(&topics->order, topic->number);
    ready_heap_fini(&topic->ready);
    far_ready_fini(&topic->far_ready);
    mem_free((char *)(uintptr_t)topic->name.at);
    topic->name.len = 0;
    topic->made = 0;
    pool_give(&topics->pool, topic->number);
}

static struct topic *make(struct topics *topics, struct bytes name)
{
    uint32_t number = pool_take(&topics->pool);
    struct topic *topic = topics_at(topics, number);
    char *own = mem_alloc(name.len);
    memcpy(own, name.at, name.len);
    topic->name = bytes_of(own, name.len);
    topic->name_hash = hash_name(topics, name);
    topic->number = number;
    topic->made = ++topics->made;
    topic->buried_first = topic->buried_last = POOL_NONE;
    list_init(&topic->waiting);
    list_init(&topic->place);
    map_add(&topics->by_name, topic->name_hash, number);
    name_order_add(&topics->order, number);
    topics_relist(topics, topic);
    return topic;
}

enum err topics_get_or_create(struct topics *topics, struct bytes name, struct topic **out_topic)
{
    if (is_recent(topics, name)) {
        *out_topic = topics->recent;
        return OK;
    }
    if (name.len == 0 || name.len > TOPIC_NAME_MAX)
        return ERR_INVALID;
    struct topic *topic = topics_find(topics, name);
    if (!topic) {
        if (topics->pool.count >= topics->max) {
            if (list_empty(&topics->idle))
                return ERR_TOPICS_LIMIT;
            topics_forget(topics, LIST_ENTRY(topics->idle.next, struct topic, place));
        }
        topic = make(topics, name);
    }
    topics->recent = topic;
    *out_topic = topic;
    return OK;
}

static bool is_idle(const struct topic *topic)
{
    if (topic->jobs[JOB_DELAYED]) /* the common case first */
        return false;
    uint64_t held = topic->waiters + topic->pins;
    for (int state = JOB_DELAYED; state < JOB_STATES; state++)
        held += topic->jobs[state];
    return held == 0 && topic->pause_until_us == 0 && !topic->settings;
}

static bool is_awaited(const struct topic *topic)
{
    return topic->waiters > 0 && topic->pause_until_us == 0;
}

static bool is_servable(const struct topics *topics, const struct topic *topic)
{
    return topic->ready.count > 0 && is_awaited(topic) &&
           topic_first_ready(topic, topics->jobs) != POOL_NONE;
}

static bool is_hungry(const struct topics *topics, const struct topic *topic)
{
    return topic->far_ready.count > 0 && is_awaited(topic) &&
           topic_first_far(topic, topics->jobs) != NULL;
}

void topics_relist(struct topics *topics, struct topic *topic)
{
    bool idle = is_idle(topic), servable = is_servable(topics, topic);
    bool hungry = is_hungry(topics, topic);
    if (idle == topic->idle && servable == topic->servable && hungry == topic->hungry)
        return;
    list_remove(&topic->place);
    topic->idle = idle;
    topic->servable = servable;
    topic->hungry = hungry;
    if (idle)
        list_add_tail(&topics->idle, &topic->place);
    else if (servable)
        list_add_tail(&topics->servable, &topic->place);
    else if (hungry)
        list_add_tail(&topics->hungry, &topic->place);
}

void topics_valid(const struct topics *topics)
{
    const struct pool *jobs = topics->jobs;
    uint32_t count = 0;
    for (uint32_t i = topics_next(topics, 0); i != POOL_NONE; i = topics_next(topics, i + 1)) {
        const struct topic *topic = topics_at(topics, i);
        count++;
        CHECK(topic->number == i && topics_find(topics, topic->name) == topic);
        CHECK(topic->idle == is_idle(topic) && topic->servable == is_servable(topics, topic));
        CHECK(topic->hungry == is_hungry(topics, topic));
        CHECK(list_empty(&topic->place) == !(topic->idle || topic->servable || topic->hungry));
        CHECK(topic->ready.count == topic_in_memory(topic, JOB_READY));
        far_ready_valid(&topic->far_ready);
        CHECK(!topic->settings || (topic->settings->len && topic->settings->version));
        ready_heap_valid(&topic->ready, jobs);
        uint64_t waiters = 0, buried = 0, urgent = 0;
        for (uint32_t ready = 0; ready < topic->ready.count; ready++)
            urgent += topic->ready.entries[ready].priority < PRIORITY_URGENT;
        CHECK(urgent <= topic->urgent && (urgent == topic->urgent || topic->far[JOB_READY] > 0));
        for (const struct list *at = topic->waiting.next; at != &topic->waiting; at = at->next)
            waiters++;
        CHECK(waiters == topic->waiters);
        uint32_t prev = POOL_NONE;
        for (uint32_t job = topic->buried_first; job != POOL_NONE; buried++) {
            const struct job *at = pool_at(jobs, job);
            CHECK(at->state == JOB_BURIED && at->topic == i && at->prev == prev);
            prev = job;
            job = at->next;
        }
        CHECK(topic->buried_last == prev && buried == topic_in_memory(topic, JOB_BURIED));
    }
    CHECK(count == topics->pool.count && count == map_count(&topics->by_name));
    name_order_valid(&topics->order, count);
}
