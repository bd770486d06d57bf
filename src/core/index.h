/*
 * Hash tables of the jobs in memory: by the client's id (with a keyed hash, so that clients cannot
 * choose colliding ids) and by the server-made number. 9.4 to 12 bytes a job in each table
 * (base/map.h). All functions but index_valid() are O(1). Single-threaded.
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
/* The keyed hash of an id, and the two functions that need it for a caller that knows it. */
uint64_t index_hash_id(const struct index *index, struct bytes id);
/* For the removal of a job that has an id. */
void index_prefetch_removal(const struct index *index, uint64_t seq, uint64_t id_hash);
void index_remove_hashed(struct index *index, uint32_t number, uint64_t id_hash);
/* For prefetching: the first candidate that index_find() would compare for this number, most likely
   the right job; or POOL_NONE. */
uint32_t index_guess(const struct index *index, uint64_t seq);
void index_add(struct index *index, uint32_t number); /* id and seq must be set and unused */
void index_remove(struct index *index, uint32_t number);
void index_valid(const struct index *index); /* CHECKs that each job is found by its names */

#endif
