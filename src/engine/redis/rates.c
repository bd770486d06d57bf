/*
 * Owns the samples. A topic is known by its name's hash alone: were two to share one, their rates
 * would be wrong, and nothing else.
 */
#include "engine/redis/rates.h"

#include "base/hash.h"

enum {
    SPAN_US = 10 * 1000 * 1000, /* what is shown is of so long */
    SHORTEST_US = 1000 * 1000,  /* jobs of a moment are not taken for those of ten seconds' */
    COUNTS = 3,
};

struct sample {
    int64_t at_us;
    uint64_t counts[COUNTS]; /* pushed, reserved, finished */
};

struct topic_rates {
    struct list seen; // rates::seen
    uint64_t name_hash;
    struct sample older, newer;
};

static bool hash_is(const void *ctx, uint32_t number, const void *key)
{
    const struct topic_rates *topic = pool_at(ctx, number);
    return topic->name_hash == *(const uint64_t *)key;
}

void rates_init(struct rates *rates)
{
    pool_init(&rates->topics, sizeof(struct topic_rates));
    map_init(&rates->by_name, hash_is, &rates->topics);
    list_init(&rates->seen);
}

void rates_fini(struct rates *rates)
{
    map_fini(&rates->by_name);
    pool_fini(&rates->topics);
}

static void forget(struct rates *rates, struct topic_rates *topic)
{
    uint32_t number = map_find(&rates->by_name, topic->name_hash, &topic->name_hash);
    map_remove(&rates->by_name, topic->name_hash, number);
    list_remove(&topic->seen);
    pool_give(&rates->topics, number);
}

static struct topic_rates *make(struct rates *rates, uint64_t hash, const struct sample *first)
{
    if (rates->topics.count >= RATES_TOPICS_MAX)
        forget(rates, LIST_ENTRY(rates->seen.next, struct topic_rates, seen));
    uint32_t number = pool_take(&rates->topics);
    struct topic_rates *topic = pool_at(&rates->topics, number);
    topic->name_hash = hash;
    topic->older = topic->newer = *first;
    list_init(&topic->seen);
    map_add(&rates->by_name, hash, number);
    return topic;
}

/* Has the topic been forgotten by Redis, and made again, since the sample? */
static bool is_behind(const struct sample *now, const struct sample *sample)
{
    for (int i = 0; i < COUNTS; i++) {
        if (now->counts[i] < sample->counts[i])
            return true;
    }
    return false;
}

/* What ten seconds have of what happened since the sample; stops at its largest value. */
static uint32_t in_ten_seconds(const struct sample *now, const struct sample *since, int count)
{
    uint64_t happened = now->counts[count] - since->counts[count];
    int64_t took_us = now->at_us - since->at_us;
    uint64_t span_us = (uint64_t)(took_us > SHORTEST_US ? took_us : SHORTEST_US);
    uint64_t most = UINT64_MAX / SPAN_US;
    uint64_t rate = (happened < most ? happened : most) * SPAN_US / span_us;
    return rate < UINT32_MAX ? (uint32_t)rate : UINT32_MAX;
}

void rates_look(struct rates *rates, struct topic_view *view, int64_t now_us)
{
    struct sample now = {now_us, {view->pushed, view->reserved, view->finished}};
    uint64_t hash = hash_of(view->name.at, view->name.len);
    uint32_t number = map_find(&rates->by_name, hash, &hash);
    struct topic_rates *topic =
        number == MAP_NONE ? make(rates, hash, &now) : pool_at(&rates->topics, number);
    list_remove(&topic->seen);
    list_add_tail(&rates->seen, &topic->seen);
    if (is_behind(&now, &topic->newer) || now_us < topic->newer.at_us)
        topic->older = topic->newer = now;
    if (now_us - topic->newer.at_us >= SPAN_US) {
        topic->older = topic->newer;
        topic->newer = now;
    }
    view->pushed_10s = in_ten_seconds(&now, &topic->older, 0);
    view->reserved_10s = in_ten_seconds(&now, &topic->older, 1);
    view->finished_10s = in_ten_seconds(&now, &topic->older, 2);
}
