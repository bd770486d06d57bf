/*
 * Far jobs at a start, after the log has been replayed: the store says which jobs have records in
 * its slices, and the core enters those that are not in memory in its index, counts them, and adds
 * the ready ones to the order of their topics. far_image.c does the same from the image that a
 * clean close has left.
 */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "core/far_parts.h"

enum { PAIRS_AT_ONCE = 128 }; /* added to the index in one call */

/* Appends hashes of the numbers of all jobs in memory that may be far as well. */
static void find_those_in_memory(const struct core *core, const struct far_places *places,
                                 struct buf *out_hashes)
{
    uint32_t file = 0;
    bool may_be = !places || places->may_be_twice(places->ctx, 0);
    for (uint32_t i = pool_next(&core->jobs, 0); i != POOL_NONE;
         i = pool_next(&core->jobs, i + 1)) {
        const struct job *job = pool_at(&core->jobs, i);
        if (job->where >> 32 != file && places) { /* adjacent jobs are mostly in the same file */
            file = (uint32_t)(job->where >> 32);
            may_be = places->may_be_twice(places->ctx, job->where);
        }
        if (!may_be || job->state == JOB_GONE)
            continue;
        uint64_t hash = far_hash_seq(job->seq);
        buf_add(out_hashes, &hash, sizeof(hash));
    }
}

/*
 * For recovery: a one-hash bloom filter of the jobs in memory that may be far as well, 16 bits for
 * each. Few far jobs are in memory, and looking up the others in the hash table would take a cache
 * miss each; the filter mostly stays in the processor's cache.
 */
static void note_those_in_memory(struct core *core, const struct far_places *places)
{
    struct far_replay *replay = &core->far.replay;
    struct buf hashes = {0};
    find_those_in_memory(core, places, &hashes);
    uint64_t bits = 64, hash;
    while (bits < hashes.len / sizeof(hash) * 16)
        bits *= 2;
    replay->mask = bits - 1;
    replay->bytes = bits / 8;
    replay->in_memory = mem_pages(replay->bytes);
    for (size_t at = 0; at < hashes.len; at += sizeof(hash)) {
        memcpy(&hash, hashes.at + at, sizeof(hash));
        uint64_t bit = hash & replay->mask;
        replay->in_memory[bit / 64] |= UINT64_C(1) << bit % 64;
    }
    buf_fini(&hashes);
}

static bool may_be_in_memory(const struct core *core, uint64_t hash)
{
    uint64_t bit = hash & core->far.replay.mask;
    return core->far.replay.in_memory[bit / 64] >> bit % 64 & 1;
}

void core_far_begin(struct core *core, uint64_t jobs, const struct far_places *places)
{
    CHECK(!core->far.replay.in_memory);
    note_those_in_memory(core, places);
    far_index_gather(&core->far.places, jobs * 2);
}

/* True: it is in memory, with its record at this place. If it is in memory with another record, it
   is dropped from memory. */
static bool stays_in_memory(struct core *core, const struct far_job *job)
{
    uint32_t number = index_find(&core->index, &(struct job_ref){.seq = job->seq});
    if (number == POOL_NONE)
        return false;
    if (core_job(core, number)->where == job->where)
        return true;
    core_drop_job(core, number);
    return false;
}

void core_drop_older(struct core *core, const struct far_job *jobs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        (void)stays_in_memory(core, &jobs[i]);
}

/* Successive jobs of one topic in one state. */
struct far_run {
    struct bytes name;
    struct topic *topic; /* NULL: none yet */
    struct far_count count;
    struct far_pair pairs[PAIRS_AT_ONCE]; /* to add to the index: of these jobs or earlier ones */
    uint32_t pair_count;
};

static bool add_pairs(struct core *core, struct far_run *run)
{
    uint32_t count = run->pair_count;
    run->pair_count = 0;
    return far_index_gather_add(&core->far.places, run->pairs, count);
}

static void count_run(struct core *core, struct far_run *run)
{
    if (run->count.jobs)
        core_count_far(core, run->topic, &run->count);
    run->count = (struct far_count){.state = run->count.state};
}

static enum err begin_run(struct core *core, struct far_run *run, const struct far_job *job)
{
    count_run(core, run);
    if (!far_state_possible(job->state))
        return ERR_CORRUPT;
    run->name = job->topic;
    run->count.state = job->state;
    enum err err = topics_get_or_create(&core->topics, job->topic, &run->topic);
    return err == ERR_INVALID ? ERR_CORRUPT : err;
}

static bool in_run(const struct far_run *run, const struct far_job *job)
{
    return run->topic && run->name.at == job->topic.at && run->name.len == job->topic.len &&
           run->count.state == job->state;
}

static enum err replay_one(struct core *core, struct far_run *run, const struct far_job *job)
{
    uint64_t hash = far_hash_seq(job->seq), place = far_place_of(job);
    if (job->seq == 0 || job->seq == UINT64_MAX || (uint32_t)job->where >= FAR_IS_READY)
        return ERR_CORRUPT;
    if (may_be_in_memory(core, hash) && stays_in_memory(core, job))
        return OK;
    enum err err = in_run(run, job) ? OK : begin_run(core, run, job);
    if (err)
        return err;
    if (core->jobs.count + core->far.count + run->count.jobs >= CORE_JOBS_MAX)
        return ERR_JOBS_LIMIT;
    if (run->pair_count > PAIRS_AT_ONCE - 2 && !add_pairs(core, run))
        return ERR_CORRUPT;
    run->pairs[run->pair_count++] = (struct far_pair){hash, place};
    if (job->id_hash)
        run->pairs[run->pair_count++] = (struct far_pair){job->id_hash, place};
    if (job->state == JOB_READY)
        far_add_entry(run->topic, job);
    run->count.jobs++;
    run->count.with_id += job->id_hash != 0;
    run->count.urgent += job->state == JOB_READY && job->priority < PRIORITY_URGENT;
    return OK;
}

enum err core_replay_far(struct core *core, const struct far_job *jobs, uint32_t count)
{
    struct far_run run;
    uint64_t seq_max = 0;
    enum err err = OK;
    CHECK(core->far.replay.in_memory);
    run.topic = NULL;
    run.count = (struct far_count){.jobs = 0};
    run.pair_count = 0;
    for (uint32_t i = 0; i < count && !err; i++) {
        err = replay_one(core, &run, &jobs[i]);
        seq_max = jobs[i].seq > seq_max ? jobs[i].seq : seq_max;
    }
    count_run(core, &run);
    if (!add_pairs(core, &run) && !err)
        err = ERR_CORRUPT;
    if (!err && count)
        core_number_from(core, seq_max + 1, 0);
    return err;
}

enum err core_far_end(struct core *core, bool *out_more)
{
    struct far_replay *replay = &core->far.replay;
    mem_pages_free(replay->in_memory, replay->bytes);
    *replay = (struct far_replay){0};
    return far_index_gather_end(&core->far.places, out_more) ? OK : ERR_CORRUPT;
}
