/*
 * Creation and end of the core, its ticks, and when the next tick must run.
 */
#include "core/core.h"

#include "base/check.h"
#include "base/mem.h"
#include "core/core_internal.h"

_Static_assert(CORE_JOBS_MAX <= WHEEL_ITEMS_MAX, "each job has a number that the wheel can hold");

/* Estimated work of one step of a wheel, for a job that is not in the processor's cache. */
enum {
    DELAY_STEP_NS = 1200,
    LEASE_STEP_NS = 2000,
    HUNGRY_US = 10 * 1000, /* between checks for memory for far jobs for which consumers wait */
};

static int64_t due_of(const void *ctx, const void *item)
{
    (void)ctx;
    return ((const struct job *)item)->due_us;
}

static int64_t lease_end_of(const void *ctx, const void *item)
{
    return job_until_us(ctx, item);
}

static int64_t wait_end_of(const void *ctx, const void *item)
{
    (void)ctx;
    return ((const struct waiter *)item)->until_us;
}

static int64_t pause_end_of(const void *ctx, const void *item)
{
    (void)ctx;
    return ((const struct topic *)item)->pause_until_us;
}

struct core *core_new(const struct core_options *options)
{
    struct core *core = mem_zalloc(sizeof(*core));
    core->limits = options->limits;
    if (core->limits.jobs > CORE_JOBS_MAX)
        core->limits.jobs = CORE_JOBS_MAX;
    core->sink = options->sink;
    core->callbacks = options->callbacks;
    core_use_budget(core, NULL);
    core->now_us = options->now_us;
    core->unlogged_us = core->replay_clock_us = INT64_MIN;
    core->seq_next = core->lease_next = 1;
    core_number_from(core, options->seq_first, options->lease_first);
    job_pool_init(&core->jobs);
    job_extras_init(&core->extras);
    pool_init(&core->waiters, sizeof(struct waiter));
    index_init(&core->index, &core->jobs, options->hash_key);
    far_index_init(&core->far.places);
    notes_init(&core->notes);
    topics_init(&core->topics, &core->jobs, options->limits.topics, options->hash_key);
    retries_init(&core->retries, options->hash_key);
    wheel_init(&core->delays, &core->jobs, offsetof(struct job, prev), due_of, NULL, core->now_us);
    wheel_init(&core->leases, &core->jobs, offsetof(struct job, prev), lease_end_of, &core->extras,
               core->now_us);
    wheel_init(&core->waits, &core->waiters, offsetof(struct waiter, prev), wait_end_of, NULL,
               core->now_us);
    wheel_init(&core->pauses, &core->topics.pool, offsetof(struct topic, timer_prev), pause_end_of,
               NULL, core->now_us);
    pool_init(&core->scan_pool, sizeof(struct scan));
    list_init(&core->gone);
    list_init(&core->scans);
    list_init(&core->walks);
    return core;
}

void core_free(struct core *core)
{
    if (!core)
        return;
    while (!list_empty(&core->scans))
        core_scan_free(core, LIST_ENTRY(core->scans.next, struct scan, of_core));
    list_walks_fini(core);
    for (uint32_t i = pool_next(&core->waiters, 0); i != POOL_NONE;
         i = pool_next(&core->waiters, i + 1)) {
        struct waiter *waiter = pool_at(&core->waiters, i);
        if (waiter->generation && waiter->links != &waiter->one)
            mem_free(waiter->links);
    }
    topics_fini(&core->topics);
    retries_fini(&core->retries);
    index_fini(&core->index);
    far_index_fini(&core->far.places);
    mem_pages_free(core->far.replay.in_memory, core->far.replay.bytes);
    buf_fini(&core->far.unread);
    buf_fini(&core->far.taking.counts);
    notes_fini(&core->notes);
    pool_fini(&core->waiters);
    pool_fini(&core->scan_pool);
    pool_fini(&core->jobs);
    pool_fini(&core->extras);
    mem_free(core->candidates);
    mem_free(core->candidate_names);
    mem_free(core->views);
    mem_free(core);
}

void core_use_budget(struct core *core, struct budget *budget)
{
    core->unlimited.left_ns = BUDGET_UNLIMITED;
    core->budget = budget ? budget : &core->unlimited;
}

void core_number_from(struct core *core, uint64_t seq_first, uint64_t lease_first)
{
    if (seq_first > core->seq_next)
        core->seq_next = seq_first;
    if (lease_first > core->lease_next)
        core->lease_next = lease_first;
}

uint32_t core_next_generation(struct core *core)
{
    if (++core->generation == 0)
        core->generation = 1;
    return core->generation;
}

/* Ends the pauses that are over. No event: the pause's own event has the time of its end. */
static bool end_pauses(struct core *core, uint32_t budget)
{
    for (;;) {
        uint32_t number = wheel_pop(&core->pauses, core->now_us, &budget);
        if (number == POOL_NONE)
            return budget == 0;
        struct topic *topic = topics_at(&core->topics, number);
        topic->pause_until_us = 0;
        core->unlogged_us = core->now_us;
        topics_relist(&core->topics, topic);
    }
}

/*
 * Delayed jobs become ready. No event: replay sees that the log's clock has passed the due time.
 */
static bool promote_due(struct core *core, uint32_t *budget)
{
    for (;;) {
        uint32_t number = wheel_pop(&core->delays, core->now_us, budget);
        if (number == POOL_NONE)
            return *budget == 0;
        struct job *job = core_job(core, number);
        CHECK(job->due_us <= core->now_us); /* P3: never before its due time */
        core->unlogged_us = core->now_us;
        core_unlink_popped(core, job);
        if (core_depart_due(core, number))
            continue;
        job->leaving = false; /* slices of ready jobs are separate */
        core_link(core, number, JOB_READY);
    }
}

/* Ends reservations whose ttr ran out, as failed attempts. No answer waits for their events. */
static bool end_leases(struct core *core, uint32_t *budget)
{
    for (;;) {
        uint32_t number = wheel_pop(&core->leases, core->now_us, budget);
        if (number == POOL_NONE)
            return *budget == 0;
        wheel_add(&core->leases, number); /* core_fail() removes it again */
        struct job *job = core_job(core, number);
        count_up(&job_rare_counts(&core->extras, job)->timeouts);
        topics_at(&core->topics, job->topic)->timeouts++;
        core->totals.timeouts++;
        core_fail(core, number, NOT_PROMISED);
        core_happened(core, job, HAPPENED_TIMED_OUT, NULL);
    }
}

/*
 * Memory of jobs that have departed is kept for the next ones, for as long as the store keeps its
 * own for the next run (spill.c): while jobs come and depart as fast, each would have new pages.
 * Not if less memory is left than that, because it counts as used.
 */
static bool keeps_spare_jobs(const struct core *core)
{
    enum { KEPT_CHUNKS = 64, CHUNK_BYTES = 512 * 1024 }; /* 1,024 jobs each; at most so long */
    return core->jobs.spare_count <= KEPT_CHUNKS && core->now_us < core->far.spare_until_us &&
           core_memory_left(core) >= core->jobs.spare_count * (uint64_t)CHUNK_BYTES;
}

/* Returns memory of ended jobs to the system, in small pieces. True: there is more. */
static bool trim(struct core *core)
{
    enum { JOB_CHUNKS = 4 }; /* of 100 KiB and up: the memory of some thousand jobs */
    bool more = true;
    for (int i = 0; i < JOB_CHUNKS && more; i++)
        more = !keeps_spare_jobs(core) && pool_trim(&core->jobs);
    more |= pool_trim(&core->extras);
    more |= pool_trim(&core->notes.pool);
    more |= pool_trim(&core->waiters);
    more |= pool_trim(&core->scan_pool);
    more |= pool_trim(&core->topics.pool);
    more |= pool_trim(&core->retries.pool);
    return more;
}

static bool has_spare(const struct core *core)
{
    bool of_jobs = pool_has_spare(&core->jobs) && !keeps_spare_jobs(core);
    return of_jobs || pool_has_spare(&core->extras) || pool_has_spare(&core->notes.pool) ||
           pool_has_spare(&core->waiters) || pool_has_spare(&core->scan_pool) ||
           pool_has_spare(&core->topics.pool) || pool_has_spare(&core->retries.pool);
}

void core_hold_leases(struct core *core, bool held)
{
    core->holds_leases = held;
}

bool core_tick(struct core *core, int64_t now_us, uint32_t steps)
{
    CHECK(!core->replaying);
    if (now_us > core->now_us)
        core->now_us = now_us;
    /*
     * Each kind has its own part of the steps, so that a flood of one cannot hold up the others.
     * Waits come last: a job that falls due at the moment a wait ends is still given to it.
     */
    uint32_t for_leases = steps / 2 + 1, for_delays = steps;
    bool more = !list_empty(&core->gone) && core_leave_topics(core);
    more |= end_pauses(core, steps);
    if (!core->holds_leases)
        more |= end_leases(core, &for_leases);
    more |= promote_due(core, &for_delays);
    budget_spend(core->budget, (int64_t)(steps / 2 + 1 - for_leases) * LEASE_STEP_NS +
                                   (int64_t)(steps - for_delays) * DELAY_STEP_NS);
    if (core->now_us >= wheel_next_us(&core->waits))
        more |= core_end_waits(core, steps);
    if (!list_empty(&core->scans))
        more |= core_scan_step(core);
    if (!list_empty(&core->walks))
        list_walks_expire(core);
    more |= trim(core);
    return more;
}

void core_cancel(struct core *core, uint64_t parked)
{
    uint32_t number = (uint32_t)parked, generation = (uint32_t)(parked >> 32);
    if (generation == 0)
        return;
    if (number & SCAN_HANDLE)
        core_scan_cancel(core, number & ~SCAN_HANDLE, generation);
    else
        core_cancel_wait(core, number, generation);
}

int64_t core_unlogged_us(const struct core *core)
{
    return core->unlogged_us;
}

uint64_t core_lease_next(const struct core *core)
{
    return core->lease_next;
}

bool core_is_awaited(const struct core *core)
{
    return core->waiters.count > 0 && core->delays.count > 0;
}

int64_t core_next_us(const struct core *core)
{
    bool gives = !list_empty(&core->topics.servable) && !core->held;
    if (!list_empty(&core->scans) || !list_empty(&core->gone) || gives || has_spare(core))
        return core->now_us;
    const struct wheel *const wheels[] = {&core->delays, &core->leases, &core->waits,
                                          &core->pauses};
    int64_t next_us = list_empty(&core->walks) ? INT64_MAX : list_walks_next_us(core);
    if (pool_has_spare(&core->jobs) && core->far.spare_until_us < next_us)
        next_us = core->far.spare_until_us;
    int64_t hungry_us = time_add(core->now_us, HUNGRY_US);
    if (!list_empty(&core->topics.hungry) && hungry_us < next_us)
        next_us = hungry_us; /* no event reports that memory is free again */
    for (size_t i = 0; i < sizeof(wheels) / sizeof(wheels[0]); i++) {
        int64_t wheel_us = wheel_next_us(wheels[i]);
        if (wheel_us < next_us)
            next_us = wheel_us;
    }
    return next_us;
}
