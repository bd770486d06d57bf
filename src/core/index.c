/*
 * Two hash tables over the jobs' pool. The hash of a client's id is keyed, because clients choose
 * ids. The server makes the numbers, so their hash needs no key (multiplicative hashing: D. Knuth,
 * "The Art of Computer Programming" 3, 6.4).
 *
 * Jobs of neighbouring numbers are pushed, and leave memory, at about the same time. So numbers of
 * one group have the same segment of the table, which stays in the processor's cache meanwhile, and
 * its pages' addresses with it; where they lie in the segment, they are spread. The segment is
 * chosen by the high bits of a product, which depend on all bits of the group's number: the jobs
 * that live long may be every 256th, or every millionth. The map takes the lowest of these 16 bits.
 * With the golden ratio these would not be spread evenly (eight of a hundred groups that follow
 * each other in one segment), and would be bits of the place, too: jobs in steps of 4,096 would lie
 * in a sixteenth of their segment. SEGMENTS was found by search: three of such groups share a
 * segment, or four of groups in small steps.
 */
#include "core/index.h"

#include <xxhash.h>

#include "base/check.h"

#define GOLDEN   UINT64_C(0x9e3779b97f4a7c15) /* 2^64 over the golden ratio */
#define SEGMENTS UINT64_C(0xc4ab0b0726f5fe5d)

enum {
    GROUP_BITS = 12, /* of numbers: a group is as large as a segment */
    HALF_BITS = 16,  /* of the bits that the table uses: for the place, and for the segment */
};

uint64_t index_hash_id(const struct index *index, struct bytes id)
{
    return XXH3_64bits_withSeed(id.at, id.len, index->key);
}

static uint64_t hash_seq(uint64_t seq)
{
    uint64_t place = seq * GOLDEN >> (64 - HALF_BITS);
    uint64_t segment = (seq >> GROUP_BITS) * SEGMENTS >> (64 - HALF_BITS);
    return place << HALF_BITS | segment;
}

static bool id_is(const void *ctx, uint32_t number, const void *key)
{
    return bytes_eq(job_id(pool_at(ctx, number)), *(const struct bytes *)key);
}

static bool seq_is(const void *ctx, uint32_t number, const void *key)
{
    return ((const struct job *)pool_at(ctx, number))->seq == *(const uint64_t *)key;
}

void index_init(struct index *index, const struct pool *jobs, uint64_t hash_key)
{
    *index = (struct index){.jobs = jobs, .key = hash_key};
    map_init(&index->by_id, id_is, jobs);
    map_init(&index->by_seq, seq_is, jobs);
}

void index_fini(struct index *index)
{
    map_fini(&index->by_id);
    map_fini(&index->by_seq);
}

uint32_t index_find(const struct index *index, const struct job_ref *ref)
{
    uint32_t number = ref->id.len ? map_find(&index->by_id, index_hash_id(index, ref->id), &ref->id)
                                  : map_find(&index->by_seq, hash_seq(ref->seq), &ref->seq);
    return number == MAP_NONE ? POOL_NONE : number;
}

void index_prefetch(const struct index *index, uint64_t seq)
{
    map_prefetch(&index->by_seq, hash_seq(seq));
}

void index_prefetch_removal(const struct index *index, uint64_t seq, uint64_t id_hash)
{
    map_prefetch_removal(&index->by_id, id_hash);
    map_prefetch_removal(&index->by_seq, hash_seq(seq));
}

void index_prefetch_id(const struct index *index, struct bytes id)
{
    map_prefetch(&index->by_id, index_hash_id(index, id));
}

uint32_t index_guess(const struct index *index, uint64_t seq)
{
    uint32_t number = map_guess(&index->by_seq, hash_seq(seq));
    return number == MAP_NONE ? POOL_NONE : number;
}

void index_add(struct index *index, uint32_t number)
{
    const struct job *job = pool_at(index->jobs, number);
    if (job->id_len)
        map_add(&index->by_id, index_hash_id(index, job_id(job)), number);
    map_add(&index->by_seq, hash_seq(job->seq), number);
}

void index_remove_hashed(struct index *index, uint32_t number, uint64_t id_hash)
{
    const struct job *job = pool_at(index->jobs, number);
    if (job->id_len)
        map_remove(&index->by_id, id_hash, number);
    map_remove(&index->by_seq, hash_seq(job->seq), number);
}

void index_remove(struct index *index, uint32_t number)
{
    const struct job *job = pool_at(index->jobs, number);
    index_remove_hashed(index, number, job->id_len ? index_hash_id(index, job_id(job)) : 0);
}

void index_valid(const struct index *index)
{
    size_t with_id = 0;
    for (uint32_t i = pool_next(index->jobs, 0); i != POOL_NONE;
         i = pool_next(index->jobs, i + 1)) {
        const struct job *job = pool_at(index->jobs, i);
        if (job->state == JOB_GONE)
            continue;
        CHECK(index_find(index, &(struct job_ref){.seq = job->seq}) == i);
        if (job->id_len) {
            with_id++;
            CHECK(index_find(index, &(struct job_ref){.id = job_id(job)}) == i);
        }
    }
    map_valid(&index->by_id);
    map_valid(&index->by_seq);
    CHECK(map_count(&index->by_seq) == index->jobs->count);
    CHECK(map_count(&index->by_id) == with_id);
}
