/*
 * Retry schedules. Jobs of one kind mostly have the same one, so each distinct schedule is kept
 * once and counted; a job carries its number. 0 is "no schedule".
 */
#ifndef LATERD_CORE_RETRY_H
#define LATERD_CORE_RETRY_H

#include <stdint.h>

#include "base/map.h"
#include "base/pool.h"
#include "core/job.h"

struct retries {
    struct pool pool;
    struct map by_waits;
    uint64_t key;
};

struct retry {
    int64_t *waits_us; /* [n - 1]: after the n-th failure; mem_alloc'd */
    uint64_t hash;
    uint32_t users;
    uint8_t count;
};

void retries_init(struct retries *retries, uint64_t hash_key);
void retries_fini(struct retries *retries);

/* The number of the schedule, one user more. Copies. `count` up to RETRY_STEPS_MAX. */
uint32_t retries_take(struct retries *retries, const int64_t *waits_us, uint8_t count);
void retries_give(struct retries *retries, uint32_t number); /* one user less */

/* NULL for number 0. Good while the schedule has a user. */
const struct retry *retries_at(const struct retries *retries, uint32_t number);

#endif
