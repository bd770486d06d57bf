/*
 * Replay, which turns events into state, and the checkpoint, which writes the state again.
 *
 * During replay jobs are only in the pool and the index, with the fields of the newest event: no
 * event depends on one before it, so order between jobs does not matter and replaying twice changes
 * nothing. core_replayed() then links each job where it belongs, in one pass.
 */
#include "core/replay.h"
#include "base/check.h"
#include "core/core_internal.h"

void core_drop_job(struct core *core, uint32_t number)
{
    struct job *job = core_job(core, number);
    index_remove(&core->index, number);
    job_move(job, JOB_GONE);
    core_forget(core, number);
}

static void set_now(struct core *core, struct job *job, const struct job_now *now)
{
    bool reserved = now->state == JOB_RESERVED;
    job_restore(job, now->state);
    /*
     * A version that logged no time also logged jobs as ready that were reserved by name before
     * their due time. So "ready" is used only for a job that was due when it was pushed.
     */
    bool believed = !core->replay_untimed || now->due_us <= job->created_us;
    job->was_due = now->state == JOB_READY && believed;
    job->priority = now->priority;
    job->due_us = now->due_us;
    job->failures = now->failures;
    job_set_counts(&core->extras, job, &now->counts);
    if (reserved)
        job_set_lease(&core->extras, job, now->lease, now->until_us);
    else
        job_drop_lease(&core->extras, job);
}

/* Could this program have emitted the event? Bytes from the disk may be anything. */
static enum err check_now(const struct job_now *now)
{
    if (now->seq == 0 || now->seq == UINT64_MAX || now->lease == UINT64_MAX ||
        now->state <= JOB_GONE || now->state >= JOB_STATES)
        return ERR_CORRUPT;
    return OK;
}

enum err core_check_job_event(const struct event *event)
{
    if (check_now(&event->job) || event->id.len > JOB_ID_MAX ||
        event->content_type.len > CONTENT_TYPE_MAX || event->body.len > UINT32_MAX ||
        event->properties.len > JOB_PROPERTIES_MAX || event->retry_count > RETRY_STEPS_MAX ||
        event->ttr_us < 1 || event->topic.len == 0 || event->topic.len > TOPIC_NAME_MAX)
        return ERR_CORRUPT;
    return OK;
}

uint32_t core_restore_apart(struct core *core, const struct event *event, const struct topic *topic)
{
    uint32_t number = job_take(&core->jobs, event->id.len);
    struct job *job = core_job(core, number);
    *job = (struct job){
        .seq = event->job.seq,
        .topic = topic->number,
        .retry = retries_take(&core->retries, event->retry_us, event->retry_count),
        .body_kind = event->body_kind,
        .order = event->order,
        .has_properties = event->properties.len > 0,
        .has_notes = notes_find(&core->notes, event->job.seq) != NULL,
        .content_type_len = (uint8_t)event->content_type.len,
        .ttr_us = event->ttr_us,
        .created_us = event->created_us,
        .delay_s = event->delay_s,
        .where = event->record.where,
        .record_bytes = event->record.bytes,
        .body_len = (uint32_t)event->body.len,
    };
    job_id_set(job, event->id);
    set_now(core, job, &event->job);
    return number;
}

uint32_t core_restore_job(struct core *core, const struct event *event, const struct topic *topic)
{
    uint32_t number = core_restore_apart(core, event, topic);
    index_add(&core->index, number);
    return number;
}

static enum err replay_job(struct core *core, const struct event *event)
{
    struct topic *topic;
    enum err err = core_check_job_event(event);
    if (!err)
        err = topics_get_or_create(&core->topics, event->topic, &topic);
    if (err)
        return err;
    uint32_t number = index_find(&core->index, &(struct job_ref){.seq = event->job.seq});
    if (number != POOL_NONE) {                     /* an older record of the same job */
        core_job(core, number)->has_notes = false; /* its notes stay */
        core_drop_job(core, number);
    }
    if (event->id.len) {
        /*
         * Another live job has the id: the end of one of them is missing here, so it was never
         * durable. Numbers go up, so the higher one was pushed later and replaced the other.
         */
        number = index_find(&core->index, &(struct job_ref){.id = event->id});
        if (number != POOL_NONE && core_job(core, number)->seq > event->job.seq)
            return OK;
        if (number != POOL_NONE)
            core_drop_job(core, number);
    }
    if (!core_has_free_number(core))
        return ERR_JOBS_LIMIT;
    (void)core_restore_job(core, event, topic);
    return OK;
}

static enum err replay_pause(struct core *core, const struct event *event)
{
    struct topic *topic;
    enum err err = topics_get_or_create(&core->topics, event->topic, &topic);
    if (err)
        return err == ERR_INVALID ? ERR_CORRUPT : err;
    topic->pause_until_us = event->pause_until_us; /* core_replayed() adds it to the wheel */
    return OK;
}

static void begin_replay(struct core *core)
{
    if (core->replaying)
        return;
    CHECK(core->totals.pushed == 0 && core->jobs.count == 0); /* only into a new core */
    core->replaying = true;
    core->topics.max = UINT32_MAX; /* keeps accepted topics, even if the limit is lower now */
}

enum err core_replay(struct core *core, const struct event *event)
{
    begin_replay(core);
    if (event->kind == EVENT_TOPIC)
        return replay_pause(core, event);
    if (event->kind == EVENT_SETTINGS)
        return core_replay_settings(core, event);
    if (event->kind == EVENT_NOTE)
        return core_replay_note(core, event);
    enum err err = event->kind == EVENT_GONE ? OK : check_now(&event->job);
    if (err || event->job.seq == UINT64_MAX)
        return ERR_CORRUPT;
    core_number_from(core, event->job.seq + 1, event->job.lease + 1); /* so none is given again */
    if (event->kind == EVENT_JOB)
        return replay_job(core, event);
    uint32_t number = index_find(&core->index, &(struct job_ref){.seq = event->job.seq});
    if (event->kind == EVENT_GONE)
        core_drop_notes(core, event->job.seq);
    if (number != POOL_NONE && event->kind == EVENT_GONE)
        core_job(core, number)->has_notes = false;
    if (number == POOL_NONE)
        return OK; /* its job has ended already; relocated records may be out of order */
    if (event->kind == EVENT_MOVE)
        set_now(core, core_job(core, number), &event->job);
    else
        core_drop_job(core, number);
    return OK;
}

void core_prefetch(const struct core *core, const struct job_ref *ref)
{
    index_prefetch(&core->index, ref->seq);
    if (ref->id.len)
        index_prefetch_id(&core->index, ref->id);
}

/* Applies the log's clock: what was due by it has become ready, or has ended. */
static void settle(struct core *core)
{
    for (uint32_t i = pool_next(&core->jobs, 0); i != POOL_NONE;
         i = pool_next(&core->jobs, i + 1)) {
        struct job *job = core_job(core, i);
        if (job->state != JOB_GONE && job->due_us <= core->replay_clock_us)
            job->was_due = true;
    }
    const struct topics *topics = &core->topics;
    for (uint32_t i = topics_next(topics, 0); i != POOL_NONE; i = topics_next(topics, i + 1)) {
        if (topics_at(topics, i)->pause_until_us <= core->replay_clock_us)
            topics_at(topics, i)->pause_until_us = 0;
    }
}

void core_replay_clock(struct core *core, int64_t clock_us)
{
    begin_replay(core);
    core->replay_untimed = clock_us == 0;
    if (clock_us == 0)
        return;
    if (clock_us < core->replay_clock_us)
        settle(core); /* the clock was set back: later events must not use the later time */
    core->replay_clock_us = clock_us;
}

/* Whether a waiting job is ready follows from the clocks; every other state is in the log. */
static enum job_state resting_state(const struct core *core, const struct job *job)
{
    bool waits = job->state == JOB_DELAYED || job->state == JOB_READY;
    return waits ? core_waiting_state(core, job) : (enum job_state)job->state;
}

static int64_t earlier(int64_t time_us, int64_t span_us) /* stops at INT64_MIN */
{
    int64_t difference;
    return __builtin_sub_overflow(time_us, span_us, &difference) ? INT64_MIN : difference;
}

static void place_jobs(struct core *core, int64_t back_us)
{
    for (uint32_t i = pool_next(&core->jobs, 0); i != POOL_NONE;
         i = pool_next(&core->jobs, i + 1)) {
        struct job *job = core_job(core, i);
        if (job->state == JOB_GONE)
            continue;
        bool moved = back_us > 0 && job->state == JOB_RESERVED;
        if (moved) {
            struct job_extra *extra = job_extra(&core->extras, job);
            extra->until_us = earlier(extra->until_us, back_us);
        }
        job_restore(job, resting_state(core, job));
        core_link(core, i, (enum job_state)job->state);
        if (moved)
            core_emit_move(core, job, NOT_PROMISED);
    }
}

static void place_pauses(struct core *core, int64_t back_us)
{
    struct topics *topics = &core->topics;
    for (uint32_t i = topics_next(topics, 0); i != POOL_NONE; i = topics_next(topics, i + 1)) {
        struct topic *topic = topics_at(topics, i);
        int64_t until_us = topic->pause_until_us;
        bool moved = back_us > 0 && until_us && until_us != INT64_MAX;
        if (moved)
            until_us = earlier(until_us, back_us);
        topic->pause_until_us = 0;
        core_set_pause(core, topic, until_us > core->now_us ? until_us : 0);
        if (moved)
            core_emit_pause(core, topic);
        if (topic->idle)
            topics_forget(topics, topic); /* only the log had it; its counters are 0 */
    }
}

void core_replayed(struct core *core, int64_t now_us)
{
    if (now_us > core->now_us)
        core->now_us = now_us;
    if (!core->replaying)
        return;
    settle(core);
    int64_t back_us = 0; /* how far the clock was set back */
    if (core->replay_clock_us > core->now_us)
        back_us = core->replay_clock_us - core->now_us;
    core->replaying = core->replay_untimed = false;
    core->topics.max = core->limits.topics;
    core_replayed_notes(core);
    place_jobs(core, back_us);
    place_pauses(core, back_us);
}

/* Relocates a MOVE of a job whose record is in a slice, and stays there. */
static bool relocate_move(struct core *core, const struct event *event, uint64_t where)
{
    uint32_t number = index_find(&core->index, &(struct job_ref){.seq = event->job.seq});
    if (number == POOL_NONE)
        return false;
    const struct job *job = core_job(core, number);
    if (job->where != where)
        return false;
    core_emit_move(core, job, NOT_PROMISED);
    return true;
}

bool core_relocate(struct core *core, const struct event *event, uint64_t where)
{
    if (event->kind == EVENT_MOVE)
        return relocate_move(core, event, where);
    if (event->kind == EVENT_SETTINGS) {
        struct topic *topic = topics_find(&core->topics, event->topic);
        return topic && core_relocate_settings(core, topic, where, where + 1);
    }
    if (event->kind == EVENT_NOTE)
        return core_relocate_note(core, event, where);
    if (event->kind != EVENT_JOB)
        return false;
    uint32_t number = index_find(&core->index, &(struct job_ref){.seq = event->job.seq});
    if (number == POOL_NONE || core_job(core, number)->where != where)
        return false;
    core_emit_job(
        core, core_job(core, number),
        &(struct job_content){event->content_type, event->body, event->properties, event->memory},
        NOT_PROMISED);
    return true;
}

enum changed_verdict core_relocate_changed(struct core *core, const struct event *event,
                                           uint64_t where, int64_t due_after_us)
{
    uint32_t number = index_find(&core->index, &(struct job_ref){.seq = event->job.seq});
    const struct job *job = number == POOL_NONE ? NULL : core_job(core, number);
    if (!job || job->state == JOB_RESERVED ||
        (job->state == JOB_DELAYED && job->due_us <= due_after_us))
        return CHANGED_WAITS; /* a consumer has it, or it is due soon */
    if (job->has_notes)
        return CHANGED_STAYS;
    if (job->state == JOB_READY && !core_is_behind_front(core, job))
        return CHANGED_WAITS;
    return core_relocate(core, event, where) ? CHANGED_LEAVES : CHANGED_WAITS;
}

bool core_relocate_unread(struct core *core, uint64_t first, uint64_t end, uint32_t *cursor,
                          uint32_t budget)
{
    enum {
        EMIT_STEPS = 16,      /* counts as this many jobs that are only visited */
        NOTES_FROM = 1 << 30, /* the cursor's place in the notes, behind the jobs */
    };
    if (*cursor >= NOTES_FROM) {
        uint32_t place = *cursor - NOTES_FROM;
        bool more = core_drop_unread_notes(core, first, end, &place, budget);
        *cursor = NOTES_FROM + place;
        return more;
    }
    for (uint32_t steps = 0; steps < budget; steps++, ++*cursor) {
        *cursor = pool_next(&core->jobs, *cursor);
        if (*cursor == POOL_NONE) {
            *cursor = NOTES_FROM;
            return true;
        }
        struct job *job = core_job(core, *cursor);
        if (job->state == JOB_GONE || job->where < first || job->where >= end)
            continue;
        job->content_type_len = 0;
        job->body_len = 0;
        job->has_properties = false;
        core_emit_job(core, job, &(struct job_content){0}, NOT_PROMISED);
        steps += EMIT_STEPS;
    }
    return true;
}

bool core_relocate_moves(struct core *core, bool (*unread)(void *ctx, uint64_t where), void *ctx,
                         uint32_t *cursor, uint32_t budget)
{
    for (uint32_t steps = 0; steps < budget; steps++, ++*cursor) {
        *cursor = pool_next(&core->jobs, *cursor);
        if (*cursor == POOL_NONE)
            return false;
        const struct job *job = core_job(core, *cursor);
        if (job->state != JOB_GONE && unread(ctx, job->where))
            core_emit_move(core, job, NOT_PROMISED);
    }
    return true;
}

bool core_relocate_topics(struct core *core, uint64_t first, uint64_t end, uint32_t *cursor,
                          uint32_t budget)
{
    enum { EMIT_STEPS = 16 }; /* settings may be long */
    const struct topics *topics = &core->topics;
    for (uint32_t steps = 0; steps < budget; steps++, ++*cursor) {
        *cursor = topics_next(topics, *cursor);
        if (*cursor == POOL_NONE)
            return false;
        struct topic *topic = topics_at(topics, *cursor);
        if (topic->pause_until_us)
            core_emit_pause(core, topic);
        if (core_relocate_settings(core, topic, first, end))
            steps += EMIT_STEPS;
    }
    return true;
}
