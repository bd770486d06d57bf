/*
 * What far.c and far_replay.c share: the entries of a far job in the index and in the order of
 * ready far jobs.
 */
#ifndef LATERD_CORE_FAR_PARTS_H
#define LATERD_CORE_FAR_PARTS_H

#include "core/core_internal.h"

enum {
    SEQ_GROUP_BITS = 8,  /* of numbers: jobs that were pushed one after the other */
    SEQ_SHARD_BITS = 12, /* the highest of a hash: see base/far_index.c */
};

/*
 * The server makes the numbers, so the hash needs no key (finalizer of Murmur 3). Jobs of
 * neighbouring numbers become far at about the same time, so those of one group share a shard of
 * the index: its lines and pages stay in the processor's cache meanwhile, and groups that follow
 * each other are spread evenly over the shards (by the golden ratio). On disk in the image of far
 * jobs.
 */
static inline uint64_t far_hash_seq(uint64_t seq)
{
    uint64_t shard =
        (seq >> SEQ_GROUP_BITS) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SEQ_SHARD_BITS);
    uint64_t hash = seq * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 33) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ hash >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    hash ^= hash >> 33;
    return shard << (64 - SEQ_SHARD_BITS) | hash >> SEQ_SHARD_BITS;
}

#define FAR_IS_READY (FAR_OFFSET_END / 2)

/* The job's value in the index. */
static inline uint64_t far_place_of(const struct far_job *job)
{
    return job->where | (job->state == JOB_READY ? FAR_IS_READY : 0);
}

static inline bool far_state_possible(enum job_state state)
{
    return state == JOB_DELAYED || state == JOB_READY || state == JOB_BURIED;
}

/* For a ready job that departs to a new place, or that became ready at its place. */
static inline void far_add_entry(struct topic *topic, const struct far_job *job)
{
    far_ready_add(&topic->far_ready, &(struct far_ready_entry){.priority = job->priority,
                                                               .rank_us = job->rank_us,
                                                               .seq = job->seq,
                                                               .where = job->where});
}

#endif
