/*
 * The transitions of a job: where it is linked in each state, what each move changes, and its
 * events. All other files change jobs only through these functions.
 */
#include "base/check.h"
#include "base/mem.h"
#include "core/core_internal.h"

/* ---- events ---- */

/* The state for the log: a connection's lease does not survive a restart, so the log has the job as
   waiting. Written directly to its destination, field by field, because this is called often. */
static inline __attribute__((always_inline)) void write_now(const struct core *core,
                                                            const struct job *job,
                                                            struct job_now *out_now)
{
    out_now->seq = job->seq;
    out_now->state = job->bound ? core_waiting_state(core, job) : (enum job_state)job->state;
    out_now->priority = job->priority;
    out_now->due_us = job->due_us;
    out_now->until_us = 0;
    out_now->lease = 0;
    out_now->failures = job->failures;
    out_now->counts = (struct job_counts){.reserves = job->reserves};
    if (!job->extra) /* true of most jobs that wait */
        return;
    const struct job_extra *extra = job_extra(&core->extras, job);
    if (!job->bound) {
        out_now->until_us = extra->until_us;
        out_now->lease = extra->lease;
    }
    job_add_rare_counts(&core->extras, job, &out_now->counts);
}

struct job_now core_job_now(const struct core *core, const struct job *job)
{
    struct job_now now;
    write_now(core, job, &now);
    return now;
}

static struct stored record_of(const struct job *job)
{
    return (struct stored){.where = job->where, .bytes = job->record_bytes};
}

void core_emit_job(struct core *core, struct job *job, const struct job_content *content,
                   bool promised)
{
    const struct retry *retry = job->retry ? retries_at(&core->retries, job->retry) : NULL;
    struct event event; /* not zeroed, because it is long: all fields that a JOB has are set */
    event.kind = EVENT_JOB;
    event.promised = promised;
    write_now(core, job, &event.job);
    event.id = job->id_len ? job_id(job) : (struct bytes){0};
    event.topic = topics_at(&core->topics, job->topic)->name;
    event.ttr_us = job->ttr_us;
    event.created_us = job->created_us;
    event.delay_s = job->delay_s;
    event.retry_us = retry ? retry->waits_us : NULL;
    event.retry_count = retry ? retry->count : 0;
    event.body_kind = job->body_kind;
    event.order = job->order;
    event.content_type = content->content_type;
    event.body = content->body;
    event.memory = content->memory;
    event.properties = content->properties;
    event.pause_until_us = 0;
    event.record = record_of(job);
    struct stored stored = core->sink->emit(core->sink, &event);
    job->where = stored.where;
    job->record_bytes = stored.bytes;
    job->leaving = job->in_slice = false;
}

/* The sink returns no place for the following events. */

void core_emit_move(struct core *core, const struct job *job, bool promised)
{
    (void)core->sink->emit(core->sink, &(struct event){.kind = EVENT_MOVE,
                                                       .promised = promised,
                                                       .job = core_job_now(core, job),
                                                       .id = job_id(job),
                                                       .record = record_of(job)});
}

static void emit_gone(struct core *core, const struct job *job, enum event_end end)
{
    (void)core->sink->emit(core->sink, &(struct event){.kind = EVENT_GONE,
                                                       .promised = true,
                                                       .job = {.seq = job->seq},
                                                       .end = end,
                                                       .id = job_id(job),
                                                       .record = record_of(job)});
}

void core_emit_pause(struct core *core, const struct topic *topic)
{
    (void)core->sink->emit(core->sink, &(struct event){.kind = EVENT_TOPIC,
                                                       .promised = true,
                                                       .topic = topic->name,
                                                       .pause_until_us = topic->pause_until_us});
}

/* ---- where a job is linked ---- */

/* Adds it in front: it comes from a slice, so it was most likely buried before the others. */
static void buried_add_first(struct core *core, struct topic *topic, uint32_t number)
{
    struct job *job = core_job(core, number);
    job->prev = POOL_NONE;
    job->next = topic->buried_first;
    if (topic->buried_first != POOL_NONE)
        core_job(core, topic->buried_first)->prev = number;
    else
        topic->buried_last = number;
    topic->buried_first = number;
}

static void buried_add(struct core *core, struct topic *topic, uint32_t number)
{
    struct job *job = core_job(core, number);
    if (job->leaving) { /* by core_arrive() */
        buried_add_first(core, topic, number);
        return;
    }
    job->prev = topic->buried_last;
    job->next = POOL_NONE;
    if (topic->buried_last != POOL_NONE)
        core_job(core, topic->buried_last)->next = number;
    else
        topic->buried_first = number;
    topic->buried_last = number;
}

static void buried_remove(struct core *core, struct topic *topic, const struct job *job)
{
    if (job->prev != POOL_NONE)
        core_job(core, job->prev)->next = job->next;
    else
        topic->buried_first = job->next;
    if (job->next != POOL_NONE)
        core_job(core, job->next)->prev = job->prev;
    else
        topic->buried_last = job->prev;
}

/* Counts an urgent job that becomes (+1) or is no longer (-1) ready. */
static void count_urgent(struct core *core, struct topic *topic, const struct job *job, int change)
{
    if (job->state != JOB_READY || job->priority >= PRIORITY_URGENT)
        return;
    topic->urgent += (uint64_t)change;
    core->totals.urgent += (uint64_t)change;
}

void core_unlink_popped(struct core *core, const struct job *job)
{
    struct topic *topic = topics_at(&core->topics, job->topic);
    CHECK(topic->jobs[job->state] > 0);
    topic->jobs[job->state]--;
    core->totals.jobs[job->state]--;
    count_urgent(core, topic, job, -1);
}

struct job *core_unlink(struct core *core, uint32_t number)
{
    struct job *job = core_job(core, number);
    struct topic *topic = topics_at(&core->topics, job->topic);
    core_unlink_popped(core, job);
    job->leaving = false;
    switch ((enum job_state)job->state) {
    case JOB_DELAYED: wheel_remove(&core->delays, number); break;
    case JOB_READY:
        ready_heap_remove(&topic->ready, &core->jobs, number);
        if (topic->far_ready.count)
            core_front_settle(core, topic);
        break;
    case JOB_RESERVED: wheel_remove(&core->leases, number); break;
    case JOB_BURIED: buried_remove(core, topic, job); break;
    case JOB_GONE:
    case JOB_STATES: CHECK(job->state == JOB_DELAYED); /* a job that is gone is not linked */
    }
    return job;
}

void core_link(struct core *core, uint32_t number, enum job_state state)
{
    struct job *job = core_job(core, number);
    struct topic *topic = topics_at(&core->topics, job->topic);
    if (job->state != state)
        job_move(job, state);
    topic->jobs[state]++;
    core->totals.jobs[state]++;
    count_urgent(core, topic, job, +1);
    switch (state) {
    case JOB_DELAYED: wheel_add(&core->delays, number); break;
    case JOB_READY:
        job->was_due = true;
        ready_heap_add(&topic->ready, &core->jobs, number);
        break;
    case JOB_RESERVED: wheel_add(&core->leases, number); break;
    case JOB_BURIED: buried_add(core, topic, number); break;
    case JOB_GONE:
    case JOB_STATES: CHECK(state == JOB_DELAYED); /* a job that is gone has no place */
    }
    if (!list_empty(&core->walks))
        list_walks_entered(core, number);
    topics_relist(&core->topics, topic);
}

enum job_state core_waiting_state(const struct core *core, const struct job *job)
{
    return job->was_due || job->due_us <= core->now_us ? JOB_READY : JOB_DELAYED;
}

/* ---- moves ---- */

static void note_lateness(struct core *core, struct topic *topic, int64_t late_us)
{
    unsigned bucket = lateness_bucket(late_us);
    lateness_add(&topic->lateness, core->now_us, bucket);
    lateness_add(&core->totals.lateness, core->now_us, bucket);
    lateness_count(&core->totals.lateness_histogram, bucket, late_us);
}

void core_lease(struct core *core, uint32_t number, bool bound, int64_t ttr_us, struct bytes by)
{
    struct job *job = core_unlink(core, number);
    struct topic *topic = topics_at(&core->topics, job->topic);
    if (job->state == JOB_BURIED)
        job->failures = 0; /* as after a kick */
    bool by_name = job->state != JOB_READY;
    job_set_lease(&core->extras, job, core->lease_next++,
                  time_add(core->now_us, ttr_us > 0 ? ttr_us : job->ttr_us));
    count_up(&job->reserves);
    note_lateness(core, topic,
                  by_name ? 0 : lateness_us(job->due_us, job->created_us, core->now_us));
    topic->reserved++;
    rate_add(&topic->reserve_rate, core->now_us);
    core->totals.reserved++;
    job->bound = bound;
    core_link(core, number, JOB_RESERVED);
    if (!bound)
        core_emit_move(core, job, NOT_PROMISED);
    CHECK(by.len <= HAPPENING_BY_MAX);
    core_happened(core, job, HAPPENED_RESERVED, &(struct job_note){.text = by});
}

void core_end_lease(struct core *core, struct job *job)
{
    job->bound = false;
    job_drop_lease(&core->extras, job);
}

void core_bury(struct core *core, uint32_t number, bool promised)
{
    struct job *job = core_unlink(core, number);
    count_up(&job_rare_counts(&core->extras, job)->buries);
    core_end_lease(core, job);
    topics_at(&core->topics, job->topic)->buried++;
    core->totals.buried++;
    core_link(core, number, JOB_BURIED);
    core_emit_move(core, job, promised);
}

void core_fail(struct core *core, uint32_t number, bool promised)
{
    struct job *job = core_job(core, number);
    const struct retry *retry = retries_at(&core->retries, job->retry);
    count_up(&job->failures);
    if (retry && job->failures > retry->count) {
        core_bury(core, number, promised);
        return;
    }
    (void)core_unlink(core, number); /* it is `job` */
    core_end_lease(core, job);
    core_set_due(job, time_add(core->now_us, retry ? retry->waits_us[job->failures - 1] : 0));
    core_link(core, number, core_waiting_state(core, job));
    core_emit_move(core, job, promised);
}

void core_make_ready(struct core *core, uint32_t number)
{
    struct job *job = core_unlink(core, number);
    core_set_due(job, core->now_us);
    core_link(core, number, JOB_READY);
    core_emit_move(core, job, PROMISED);
}

void core_kick(struct core *core, uint32_t number)
{
    struct job *job = core_job(core, number);
    count_up(&job_rare_counts(&core->extras, job)->kicks);
    topics_at(&core->topics, job->topic)->kicked++;
    core->totals.kicked++;
    if (job->state == JOB_BURIED)
        job->failures = 0; /* the schedule begins again, or the next failure would bury it */
    core_make_ready(core, number);
    core_happened(core, job, HAPPENED_KICKED, NULL);
}

struct stored core_retire_unlogged(struct core *core, uint32_t number)
{
    struct job *job = core_unlink(core, number);
    index_remove(&core->index, number);
    job_move(job, JOB_GONE);
    topics_relist(&core->topics, topics_at(&core->topics, job->topic));
    return record_of(job);
}

static void emit_end(struct core *core, const struct job *job, enum event_end end)
{
    emit_gone(core, job, end);
    core_happened(core, job, end == END_FINISHED ? HAPPENED_FINISHED : HAPPENED_DELETED, NULL);
}

void core_retire(struct core *core, uint32_t number, enum event_end end)
{
    (void)core_retire_unlogged(core, number); /* the event names the record */
    emit_end(core, core_job(core, number), end);
}

void core_retire_apart(struct core *core, uint32_t number, enum event_end end)
{
    job_move(core_job(core, number), JOB_GONE);
    emit_end(core, core_job(core, number), end);
}

void core_forget(struct core *core, uint32_t number)
{
    struct job *job = core_job(core, number);
    CHECK(job->state == JOB_GONE);
    if (job->has_notes)
        core_drop_notes(core, job->seq);
    job_drop_extra(&core->extras, job);
    retries_give(&core->retries, job->retry);
    pool_give(&core->jobs, number);
}

/* ---- replies ---- */

void core_view(const struct core *core, const struct job *job, struct job_view *out_view)
{
    const struct retry *retry = retries_at(&core->retries, job->retry);
    *out_view = (struct job_view){
        .ref = {.id = job_id(job), .seq = job->seq},
        .topic = topics_at(&core->topics, job->topic)->name,
        .state = (enum job_state)job->state,
        .priority = job->priority,
        .due_us = job->due_us,
        .ttr_us = job->ttr_us,
        .created_us = job->created_us,
        .delay_s = job->delay_s,
        .attempt = job->reserves,
        .failures = job->failures,
        .counts.reserves = job->reserves,
        .retry_us = retry ? retry->waits_us : NULL,
        .retry_count = retry ? retry->count : 0,
        .order = job->order,
        .body_kind = job->body_kind,
        .where = job->where,
        .record_bytes = job->has_properties ? job->record_bytes : 0,
        .body_len = job->body_len,
        .content_type_len = job->content_type_len,
    };
    if (job->extra) {
        const struct job_extra *extra = job_extra(&core->extras, job);
        out_view->until_us = extra->until_us;
        out_view->lease = extra->lease;
        job_add_rare_counts(&core->extras, job, &out_view->counts);
    }
    if (job->has_notes)
        core_view_notes(core, job, out_view);
}

struct job_view *core_views(struct core *core, uint32_t count)
{
    if (count > core->views_cap) {
        core->views_cap = count < 16 ? 16 : count > UINT32_MAX / 2 ? count : count * 2;
        core->views = mem_realloc(core->views, core->views_cap * sizeof(*core->views));
    }
    return core->views;
}

void core_reply(struct core *core, void *ctx, const struct reply *reply)
{
    core->callbacks->reply(core->callbacks, ctx, reply);
}

void core_reply_err(struct core *core, enum cmd_kind kind, void *ctx, enum err err)
{
    core_reply(core, ctx, &(struct reply){.err = err, .kind = kind});
}

void core_reply_job(struct core *core, enum cmd_kind kind, void *ctx, const struct job *job)
{
    struct job_view view;
    core_view(core, job, &view);
    core_reply(core, ctx, &(struct reply){.kind = kind, .count = 1, .jobs = &view});
}
