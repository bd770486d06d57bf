/*
 * Finds jobs: by the client's id (keyed hash, so that clients cannot choose ids that collide)
 * and by the server-made number. Memory: 9.4 to 12 bytes a job, per table (see base/map.h).
 */
#ifndef LATERD_CORE_INDEX_H
#define LATERD_CORE_INDEX_H

#include "base/map.h"
#include "base/pool.h"
#include "core/job.h"

struct index {
    struct map by_id;
    struct map by_seq;
    const struct pool *jobs;
    uint64_t key;
};

void index_init(struct index *index, const struct pool *jobs, uint64_t hash_key);
void index_fini(struct index *index);
uint32_t index_find(const struct index *index, const struct job_ref *ref); /* or POOL_NONE */
/* Prefetch for a look-up or an addition. */
void index_prefetch(const struct index *index, uint64_t seq);
void index_prefetch_id(const struct index *index, struct bytes id);
/* The job that index_find() would look at first for this number, or POOL_NONE: most likely the
   right one, so good for prefetching. */
uint32_t index_guess(const struct index *index, uint64_t seq);
void index_add(struct index *index, uint32_t number); /* id and seq must be set and unused */
void index_remove(struct index *index, uint32_t number);
void index_valid(const struct index *index); /* CHECKs that each job is found by its names */

#endif
