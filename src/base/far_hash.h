/*
 * The hash of a job's id for jobs whose records lie in slices. It is kept on disk, so its key is
 * fixed for the life of a store. It is keyed because clients choose ids, and could choose colliding
 * ones. Pure; O(bytes).
 */
#ifndef LATERD_BASE_FAR_HASH_H
#define LATERD_BASE_FAR_HASH_H

#include <stdint.h>

#include <xxhash.h>

#include "base/bytes.h"

/* On disk: never change it. 0: the job has no id from its client. */
static inline uint64_t far_hash_id(uint64_t key, struct bytes id)
{
    uint64_t hash = id.len ? XXH3_64bits_withSeed(id.at, id.len, key) : 0;
    return hash || !id.len ? hash : 1;
}

#endif
