/*
 * Fields that only some jobs need, kept outside of struct job: a reservation (16 bytes), or a
 * reservation and the rare counts (24 bytes). A job has at most one such record; job::extra is its
 * number in the pool.
 *
 *   - A RESERVED job has one.
 *   - A job that was timed out, released, buried or kicked once has one with counts until it ends.
 *
 * All calls are O(1). Only these functions write a job's record.
 */
#ifndef LATERD_CORE_JOB_EXTRA_H
#define LATERD_CORE_JOB_EXTRA_H

#include "base/pool.h"
#include "core/job.h"

/* The counts of struct job_counts that are 0 for most jobs; `reserves` is in struct job. */
struct job_rare_counts {
    uint16_t timeouts;
    uint16_t releases;
    uint16_t buries;
    uint16_t kicks;
};

struct job_extra {
    int64_t until_us;            /* RESERVED: when the ttr runs out; else 0 */
    uint64_t lease;              /* RESERVED: token of the one live reservation; else 0 */
    struct job_rare_counts rare; /* only in records of the larger size */
};

/* A pool of struct job_extra, of two sizes: without `rare` and with it. */
void job_extras_init(struct pool *extras);

/* The job's record, or NULL. */
static inline struct job_extra *job_extra(const struct pool *extras, const struct job *job)
{
    return job->extra ? pool_at(extras, job->extra - 1) : NULL;
}

static inline int64_t job_until_us(const struct pool *extras, const struct job *job)
{
    const struct job_extra *extra = job_extra(extras, job);
    return extra ? extra->until_us : 0;
}

static inline uint64_t job_lease(const struct pool *extras, const struct job *job)
{
    const struct job_extra *extra = job_extra(extras, job);
    return extra ? extra->lease : 0;
}

/* Sets all counts but `reserves`. */
void job_add_rare_counts(const struct pool *extras, const struct job *job,
                         struct job_counts *counts);

static inline struct job_counts job_counts(const struct pool *extras, const struct job *job)
{
    struct job_counts counts = {.reserves = job->reserves};
    if (job->extra) /* most waiting jobs have none */
        job_add_rare_counts(extras, job, &counts);
    return counts;
}

/* Sets the reservation. */
void job_set_lease(struct pool *extras, struct job *job, uint64_t lease, int64_t until_us);
/* Ends the reservation. */
void job_drop_lease(struct pool *extras, struct job *job);
/* The rare counts, to increment one; makes room for them. Valid until the next call. */
struct job_rare_counts *job_rare_counts(struct pool *extras, struct job *job);
/* Replaces all counts. */
void job_set_counts(struct pool *extras, struct job *job, const struct job_counts *counts);
/* Frees the record: the job has ended. */
void job_drop_extra(struct pool *extras, struct job *job);

#endif
