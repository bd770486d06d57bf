/*
 * What only some jobs have, beside their 84 bytes and their ids: a reservation (16 bytes), or that
 * and counts of what seldom happens (24). A job has at most one such record, named by job::extra:
 *
 *   - RESERVED: it has one;
 *   - timed out, released, buried or kicked once: it has one with counts from then on, to its end.
 *
 * All calls are O(1). A job's record is written by these functions alone.
 */
#ifndef LATERD_CORE_JOB_EXTRA_H
#define LATERD_CORE_JOB_EXTRA_H

#include "base/pool.h"
#include "core/job.h"

/* The counts of struct job_counts that most jobs have not; the job itself has its reserves. */
struct job_past {
    uint16_t timeouts;
    uint16_t releases;
    uint16_t buries;
    uint16_t kicks;
};

struct job_extra {
    int64_t until_us;     /* RESERVED: when the ttr runs out; else 0 */
    uint64_t lease;       /* RESERVED: token of the one live reservation; else 0 */
    struct job_past past; /* there in the larger records alone */
};

/* A pool of struct job_extra, of two sizes: without `past` and with it. */
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

/* The counts but for reserves, which job_counts() knows. */
void job_add_past(const struct pool *extras, const struct job *job, struct job_counts *counts);

static inline struct job_counts job_counts(const struct pool *extras, const struct job *job)
{
    struct job_counts counts = {.reserves = job->reserves};
    if (job->extra) /* of most jobs that wait this is all */
        job_add_past(extras, job, &counts);
    return counts;
}

/* The job gets this reservation. */
void job_set_lease(struct pool *extras, struct job *job, uint64_t lease, int64_t until_us);
/* It has none any more. */
void job_drop_lease(struct pool *extras, struct job *job);
/* Its seldom counts, to count one up: makes room for them. Good until the next of these calls. */
struct job_past *job_past(struct pool *extras, struct job *job);
/* All its counts are these. */
void job_set_counts(struct pool *extras, struct job *job, const struct job_counts *counts);
/* The job ends. */
void job_drop_extra(struct pool *extras, struct job *job);

#endif
