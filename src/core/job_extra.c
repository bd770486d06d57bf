/*
 * job::extra is the record's number in the pool plus one; 0: none. Invariant: a record
 * without counts belongs to a reserved job.
 */
#include "core/job_extra.h"

#include <stddef.h>

enum { LEASE_ONLY, WITH_RARE_COUNTS, SIZES };

_Static_assert(sizeof(struct job_extra) - offsetof(struct job_extra, rare) ==
                   sizeof(struct job_rare_counts),
               "the smaller record ends where the counts begin");

void job_extras_init(struct pool *extras)
{
    pool_init_sizes(extras, offsetof(struct job_extra, rare), sizeof(struct job_rare_counts),
                    SIZES);
}

static bool has_rare_counts(const struct pool *extras, const struct job *job)
{
    return job->extra && pool_bytes_of(extras, job->extra - 1) == sizeof(struct job_extra);
}

void job_add_rare_counts(const struct pool *extras, const struct job *job,
                         struct job_counts *counts)
{
    if (!has_rare_counts(extras, job))
        return;
    const struct job_rare_counts *rare = &job_extra(extras, job)->rare;
    counts->timeouts = rare->timeouts;
    counts->releases = rare->releases;
    counts->buries = rare->buries;
    counts->kicks = rare->kicks;
}

void job_set_lease(struct pool *extras, struct job *job, uint64_t lease, int64_t until_us)
{
    if (!job->extra)
        job->extra = pool_take_sized(extras, LEASE_ONLY) + 1;
    struct job_extra *extra = job_extra(extras, job);
    extra->until_us = until_us;
    extra->lease = lease;
}

void job_drop_lease(struct pool *extras, struct job *job)
{
    if (!has_rare_counts(extras, job)) {
        job_drop_extra(extras, job);
        return;
    }
    struct job_extra *extra = job_extra(extras, job);
    extra->until_us = 0;
    extra->lease = 0;
}

struct job_rare_counts *job_rare_counts(struct pool *extras, struct job *job)
{
    if (!has_rare_counts(extras, job)) {
        uint32_t number = pool_take_sized(extras, WITH_RARE_COUNTS);
        struct job_extra *extra = pool_at(extras, number);
        *extra = (struct job_extra){.until_us = job_until_us(extras, job),
                                    .lease = job_lease(extras, job)};
        job_drop_extra(extras, job);
        job->extra = number + 1;
    }
    return &job_extra(extras, job)->rare;
}

void job_set_counts(struct pool *extras, struct job *job, const struct job_counts *counts)
{
    job->reserves = counts->reserves;
    bool any = counts->timeouts || counts->releases || counts->buries || counts->kicks;
    if (any || has_rare_counts(extras, job))
        *job_rare_counts(extras, job) = (struct job_rare_counts){.timeouts = counts->timeouts,
                                                                 .releases = counts->releases,
                                                                 .buries = counts->buries,
                                                                 .kicks = counts->kicks};
}

void job_drop_extra(struct pool *extras, struct job *job)
{
    if (job->extra)
        pool_give(extras, job->extra - 1);
    job->extra = 0;
}
