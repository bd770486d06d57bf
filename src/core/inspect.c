/*
 * Looks at the state without changing it: one job, totals, due jobs, validity, and the digest of
 * what must survive.
 */
#include <xxhash.h>

#include "base/check.h"
#include "core/core_internal.h"

void core_totals(const struct core *core, struct core_totals *out_totals)
{
    *out_totals = core->totals;
    out_totals->far = core->far.in_state[JOB_DELAYED];
    out_totals->far_ready = core->far.in_state[JOB_READY];
    out_totals->far_buried = core->far.in_state[JOB_BURIED];
    out_totals->topics = core->topics.pool.count;
    out_totals->waiters = core->waiters.count;
    out_totals->seq_next = core->seq_next;
    out_totals->lease_next = core->lease_next;
}

void core_due_until(const struct core *core, const int64_t *until_us, uint64_t *out_counts,
                    uint32_t count)
{
    enum { LOOKS = 4096, SLOT_LOOKS = 1000 }; /* jobs examined: for all times, and in one slot */
    uint32_t looks = count * SLOT_LOOKS > LOOKS ? LOOKS / count : SLOT_LOOKS;
    for (uint32_t i = 0; i < count; i++)
        out_counts[i] = wheel_count_until(&core->delays, until_us[i], looks);
}

bool core_show(const struct core *core, const struct job_ref *ref, struct job_view *out_view)
{
    uint32_t number = index_find(&core->index, ref);
    if (number != POOL_NONE)
        core_view(core, core_job(core, number), out_view);
    return number != POOL_NONE;
}

bool core_has(const struct core *core, uint64_t seq, struct bytes id)
{
    return index_find(&core->index, &(struct job_ref){.seq = seq}) != POOL_NONE ||
           (id.len && index_find(&core->index, &(struct job_ref){.id = id}) != POOL_NONE) ||
           core_has_far(core, seq, id);
}

/* ---- validity ---- */

static void valid_waiters(const struct core *core)
{
    uint32_t count = 0, gone = 0;
    uint64_t links = 0, topic_links = 0;
    for (uint32_t i = pool_next(&core->waiters, 0); i != POOL_NONE;
         i = pool_next(&core->waiters, i + 1)) {
        const struct waiter *waiter = pool_at(&core->waiters, i);
        if (!waiter->generation)
            continue;
        count++;
        gone += waiter->gone;
        CHECK(waiter->link_count > 0 || waiter->gone);
        for (uint32_t link = 0; link < waiter->link_count; link++) {
            bool listed = !list_empty(&waiter->links[link].of_topic);
            CHECK(waiter->links[link].waiter == i && (listed || waiter->gone));
            links += listed;
        }
    }
    const struct topics *topics = &core->topics;
    for (uint32_t i = topics_next(topics, 0); i != POOL_NONE; i = topics_next(topics, i + 1)) {
        const struct topic *topic = topics_at(topics, i);
        topic_links += topic->waiters;
        for (struct list *at = topic->waiting.next; at != &topic->waiting; at = at->next) {
            const struct wait_link *link = LIST_ENTRY(at, struct wait_link, of_topic);
            const struct waiter *waiter = pool_at(&core->waiters, link->waiter);
            CHECK(link->topic == i && waiter->generation);
        }
    }
    CHECK(count == core->waiters.count && count == core->waits.count + gone);
    CHECK(links == topic_links);
}

static void valid_job(const struct core *core, const struct job *job)
{
    bool reserved = job->state == JOB_RESERVED;
    CHECK(job->state > JOB_GONE && job->state < JOB_STATES);
    uint64_t lease = job_lease(&core->extras, job);
    CHECK((lease != 0) == reserved && lease < core->lease_next);
    CHECK(reserved || job_until_us(&core->extras, job) == 0);
    CHECK(job->seq > 0 && job->seq < core->seq_next);
    CHECK(job->state != JOB_READY || job->was_due);
    CHECK(job->state != JOB_DELAYED || !job->was_due);
    CHECK(job->has_notes == (notes_find(&core->notes, job->seq) != NULL));
    CHECK(pool_has(&core->topics.pool, job->topic) &&
          topics_at(&core->topics, job->topic)->name.len);
}

static void valid_counts(const struct core *core)
{
    uint64_t jobs[JOB_STATES] = {0}, urgent = 0, far[JOB_STATES] = {0};
    const struct topics *topics = &core->topics;
    for (uint32_t i = topics_next(topics, 0); i != POOL_NONE; i = topics_next(topics, i + 1)) {
        const struct topic *topic = topics_at(topics, i);
        CHECK(topic->jobs[JOB_GONE] == 0);
        urgent += topic->urgent;
        for (int state = 0; state < JOB_STATES; state++) {
            CHECK(topic->far[state] <= topic->jobs[state]);
            jobs[state] += topic->jobs[state];
            far[state] += topic->far[state];
        }
    }
    uint64_t all = 0;
    for (int state = 0; state < JOB_STATES; state++) {
        CHECK(jobs[state] == core->totals.jobs[state]);
        CHECK(far[state] == core->far.in_state[state]);
        all += jobs[state];
    }
    CHECK(all == core->jobs.count + core->far.count && urgent == core->totals.urgent);
    CHECK(far[JOB_DELAYED] + far[JOB_READY] + far[JOB_BURIED] == core->far.count);
    CHECK(jobs[JOB_DELAYED] == core->delays.count + far[JOB_DELAYED] &&
          jobs[JOB_RESERVED] == core->leases.count);
}

/* CHECKs that each ready far job has its entry. */
static void valid_front(const struct core *core)
{
    const struct topics *topics = &core->topics;
    const struct far_unread *unread = (const void *)core->far.unread.at;
    size_t count = core->far.unread.len / sizeof(*unread);
    uint64_t far = 0;
    for (uint32_t i = topics_next(topics, 0); i != POOL_NONE; i = topics_next(topics, i + 1)) {
        const struct far_ready *heap = &topics_at(topics, i)->far_ready;
        for (uint32_t place = 0; place < heap->count; place++)
            far += core_is_far_ready(core, heap->entries[place].seq, heap->entries[place].where);
    }
    for (size_t i = 0; i < count; i++)
        far += core_is_far_ready(core, unread[i].entry.seq, unread[i].entry.where);
    CHECK(far == core->far.in_state[JOB_READY]);
}

void core_valid(const struct core *core)
{
    uint64_t jobs[JOB_STATES] = {0}, noted = 0, extras = 0;
    if (core->replaying)
        return; /* jobs are not linked yet */
    for (uint32_t i = pool_next(&core->jobs, 0); i != POOL_NONE;
         i = pool_next(&core->jobs, i + 1)) {
        const struct job *job = core_job(core, i);
        if (job->state == JOB_GONE)
            continue;
        valid_job(core, job);
        noted += job->has_notes;
        extras += job->extra != 0;
        jobs[job->state]++;
    }
    for (int state = 0; state < JOB_STATES; state++)
        CHECK(jobs[state] + core->far.in_state[state] == core->totals.jobs[state]);
    valid_front(core);
    CHECK(core->far.places.count == core->far.count + core->far.with_id);
    far_index_valid(&core->far.places);
    CHECK(extras == core->extras.count); /* so no two jobs share one, and none is leaked */
    pool_valid(&core->extras);
    CHECK(noted == map_count(&core->notes.by_seq) && noted == core->notes.pool.count);
    valid_counts(core);
    valid_waiters(core);
    index_valid(&core->index);
    topics_valid(&core->topics);
    wheel_valid(&core->delays);
    wheel_valid(&core->leases);
    wheel_valid(&core->waits);
    wheel_valid(&core->pauses);
}

/* ---- digest ---- */

static uint64_t mix(uint64_t hash, const void *at, size_t len)
{
    return XXH3_64bits_withSeed(at, len, hash);
}

static uint64_t mix_bytes(uint64_t hash, struct bytes bytes)
{
    return mix(mix(hash, &bytes.len, sizeof(bytes.len)), bytes.at, bytes.len);
}

/*
 * DELAYED and READY count as one here, because the clock decides between them. A job with a lease
 * of a connection is hashed as reserved while it is held; only when the lease has ended does the
 * digest equal that of a replay.
 */
static uint64_t digest_job(const struct core *core, const struct job *job)
{
    const struct retry *retry = retries_at(&core->retries, job->retry);
    enum job_state state = job->state == JOB_READY ? JOB_DELAYED : (enum job_state)job->state;
    struct job_counts counts = job_counts(&core->extras, job);
    uint64_t numbers[] = {
        job->seq,
        state,
        job->priority,
        (uint64_t)job->due_us,
        (uint64_t)job_until_us(&core->extras, job),
        (uint64_t)job->ttr_us,
        (uint64_t)job->created_us,
        job_lease(&core->extras, job),
        job->failures,
        counts.reserves,
        counts.timeouts,
        counts.releases,
        counts.buries,
        counts.kicks,
        job->body_kind,
        job->order,
        job->content_type_len,
        job->body_len,
        job->has_properties,
        retry ? retry->count : 0,
    };
    uint64_t hash = mix(1, numbers, sizeof(numbers));
    const struct job_notes *notes = job->has_notes ? notes_find(&core->notes, job->seq) : NULL;
    if (notes) {
        uint64_t last[] = {notes->last, (uint64_t)notes->last_us, notes->last_code};
        hash = mix(hash, last, sizeof(last));
    }
    if (retry)
        hash = mix(hash, retry->waits_us, retry->count * sizeof(*retry->waits_us));
    hash = mix_bytes(hash, job_id(job));
    return mix_bytes(hash, topics_at(&core->topics, job->topic)->name);
}

void core_each(const struct core *core, void (*each)(void *ctx, const struct job *job), void *ctx)
{
    for (uint32_t i = pool_next(&core->jobs, 0); i != POOL_NONE;
         i = pool_next(&core->jobs, i + 1)) {
        const struct job *job = core_job(core, i);
        if (job->state != JOB_GONE)
            each(ctx, job);
    }
}

bool core_visit(const struct core *core, uint32_t *cursor, uint32_t budget,
                void (*each)(void *ctx, const struct job *job), void *ctx)
{
    for (uint32_t steps = 0; steps < budget; steps++, ++*cursor) {
        *cursor = pool_next(&core->jobs, *cursor);
        if (*cursor == POOL_NONE)
            return false;
        const struct job *job = core_job(core, *cursor);
        if (job->state != JOB_GONE)
            each(ctx, job);
    }
    return true;
}

uint64_t core_digest(const struct core *core)
{
    uint64_t sum = 0; /* a sum does not depend on the order */
    for (uint32_t i = pool_next(&core->jobs, 0); i != POOL_NONE;
         i = pool_next(&core->jobs, i + 1)) {
        const struct job *job = core_job(core, i);
        if (job->state != JOB_GONE)
            sum += digest_job(core, job);
    }
    const struct topics *topics = &core->topics;
    for (uint32_t i = topics_next(topics, 0); i != POOL_NONE; i = topics_next(topics, i + 1)) {
        const struct topic *topic = topics_at(topics, i);
        if (topic->pause_until_us)
            sum += mix_bytes(mix(2, &topic->pause_until_us, sizeof(topic->pause_until_us)),
                             topic->name);
        if (topic->settings)
            sum += mix_bytes(mix_bytes(topic->settings->version,
                                       bytes_of(topic->settings->bytes, topic->settings->len)),
                             topic->name);
    }
    return sum;
}
