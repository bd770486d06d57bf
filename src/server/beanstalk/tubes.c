/*
 * Owns the tubes and their names. Invariant: every tube but "default" has a user or a watcher,
 * except between need() and settle().
 */
#include "server/beanstalk/tubes.h"

#include <xxhash.h>

#include "base/check.h"
#include "base/mem.h"

static bool name_is(const void *ctx, uint32_t number, const void *key)
{
    const struct beanstalk_tube *tube = pool_at(ctx, number);
    return bytes_eq(tube->name, *(const struct bytes *)key);
}

static uint64_t hash_name(const struct beanstalk_tubes *tubes, struct bytes name)
{
    return XXH3_64bits_withSeed(name.at, name.len, tubes->key);
}

void beanstalk_tubes_init(struct beanstalk_tubes *tubes, uint32_t max, uint64_t hash_key)
{
    *tubes = (struct beanstalk_tubes){.max = max, .key = hash_key};
    pool_init(&tubes->pool, sizeof(struct beanstalk_tube));
    map_init(&tubes->by_name, name_is, &tubes->pool);
    enum err err = beanstalk_tubes_get_or_create(tubes, BYTES("default"), &tubes->standard);
    CHECK(!err); /* it is the first */
}

void beanstalk_tubes_fini(struct beanstalk_tubes *tubes)
{
    for (uint32_t i = pool_next(&tubes->pool, 0); i != POOL_NONE;
         i = pool_next(&tubes->pool, i + 1)) {
        const struct beanstalk_tube *tube = pool_at(&tubes->pool, i);
        if (tube->name.len)
            mem_free((char *)(uintptr_t)tube->name.at);
    }
    map_fini(&tubes->by_name);
    pool_fini(&tubes->pool);
}

static struct beanstalk_tube *find(const struct beanstalk_tubes *tubes, uint64_t hash,
                                   struct bytes name)
{
    uint32_t number = map_find(&tubes->by_name, hash, &name);
    return number == MAP_NONE ? NULL : pool_at(&tubes->pool, number);
}

struct beanstalk_tube *beanstalk_tubes_find(const struct beanstalk_tubes *tubes, struct bytes name)
{
    return find(tubes, hash_name(tubes, name), name);
}

enum err beanstalk_tubes_get_or_create(struct beanstalk_tubes *tubes, struct bytes name,
                                       struct beanstalk_tube **out_tube)
{
    uint64_t hash = hash_name(tubes, name);
    struct beanstalk_tube *tube = find(tubes, hash, name);
    CHECK(name.len > 0);
    if (!tube) {
        if (tubes->pool.count > tubes->max) /* "default" comes on top */
            return ERR_TOPICS_LIMIT;
        uint32_t number = pool_take(&tubes->pool);
        char *own = mem_alloc(name.len);
        memcpy(own, name.at, name.len);
        tube = pool_at(&tubes->pool, number);
        tube->name = bytes_of(own, name.len);
        tube->hash = hash;
        tube->number = number;
        map_add(&tubes->by_name, hash, number);
    }
    *out_tube = tube;
    return OK;
}

void beanstalk_tubes_drop_unused(struct beanstalk_tubes *tubes, struct beanstalk_tube *tube)
{
    if (tube->users || tube->watchers || tube == tubes->standard)
        return;
    map_remove(&tubes->by_name, tube->hash, tube->number);
    mem_free((char *)(uintptr_t)tube->name.at);
    tube->name.len = 0;
    pool_give(&tubes->pool, tube->number);
}

struct beanstalk_tube *beanstalk_tubes_next(const struct beanstalk_tubes *tubes, uint32_t number)
{
    const struct pool *pool = &tubes->pool;
    for (number = pool_next(pool, number); number != POOL_NONE;
         number = pool_next(pool, number + 1)) {
        struct beanstalk_tube *tube = pool_at(pool, number);
        if (tube->name.len)
            return tube;
    }
    return NULL;
}
