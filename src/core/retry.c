/*
 * A schedule's number is its number in the pool plus one, so that 0 is free.
 */
#include "core/retry.h"

#include <string.h>

#include <xxhash.h>

#include "base/check.h"
#include "base/mem.h"

static bool waits_are(const void *ctx, uint32_t number, const void *key)
{
    const struct retry *have = pool_at(ctx, number), *want = key;
    return have->count == want->count &&
           memcmp(have->waits_us, want->waits_us, have->count * sizeof(*have->waits_us)) == 0;
}

void retries_init(struct retries *retries, uint64_t hash_key)
{
    *retries = (struct retries){.key = hash_key};
    pool_init(&retries->pool, sizeof(struct retry));
    map_init(&retries->by_waits, waits_are, &retries->pool);
}

void retries_fini(struct retries *retries)
{
    for (uint32_t i = pool_next(&retries->pool, 0); i != POOL_NONE;
         i = pool_next(&retries->pool, i + 1)) {
        struct retry *retry = pool_at(&retries->pool, i);
        if (retry->users)
            mem_free(retry->waits_us);
    }
    map_fini(&retries->by_waits);
    pool_fini(&retries->pool);
}

uint32_t retries_take(struct retries *retries, const int64_t *waits_us, uint8_t count)
{
    if (count == 0)
        return 0;
    size_t size = count * sizeof(*waits_us);
    uint64_t hash = XXH3_64bits_withSeed(waits_us, size, retries->key);
    struct retry key = {.waits_us = (int64_t *)(uintptr_t)waits_us, .count = count};
    uint32_t number = map_find(&retries->by_waits, hash, &key);
    if (number == MAP_NONE) {
        number = pool_take(&retries->pool);
        struct retry *retry = pool_at(&retries->pool, number);
        *retry = (struct retry){.waits_us = mem_alloc(size), .hash = hash, .count = count};
        memcpy(retry->waits_us, waits_us, size);
        map_add(&retries->by_waits, hash, number);
    }
    ((struct retry *)pool_at(&retries->pool, number))->users++;
    return number + 1;
}

void retries_give(struct retries *retries, uint32_t number)
{
    if (number == 0)
        return;
    struct retry *retry = pool_at(&retries->pool, number - 1);
    CHECK(retry->users > 0);
    if (--retry->users > 0)
        return;
    map_remove(&retries->by_waits, retry->hash, number - 1);
    mem_free(retry->waits_us);
    pool_give(&retries->pool, number - 1);
}

const struct retry *retries_at(const struct retries *retries, uint32_t number)
{
    return number ? pool_at(&retries->pool, number - 1) : NULL;
}
