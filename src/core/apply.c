/*
 * Push, and the commands that name one job. Each checks everything first, then changes the state,
 * then emits the event, then replies.
 */
#include "base/check.h"
#include "core/core_internal.h"
#include "core/far.h"

/* Estimated work: */
enum {
    COMMAND_NS = 600,      /* of a command, … */
    BODY_BYTES_PER_NS = 4, /* … and of storing a body */
};

/* ---- push ---- */

static enum err check_push(const struct cmd_push *push)
{
    struct job_ref ref;
    if (push->id.len && (!job_ref_parse(push->id, &ref) || !ref.id.len))
        return ERR_INVALID; /* too long, or a name that the server may use for another job */
    if (push->content_type.len > CONTENT_TYPE_MAX || push->retry_count > RETRY_STEPS_MAX ||
        push->body.len > UINT32_MAX || push->properties.len > JOB_PROPERTIES_MAX ||
        push->ttr_us < 1)
        return ERR_INVALID;
    return OK;
}

static enum err check_room(const struct core *core, bool replaces)
{
    if (!replaces &&
        (core->jobs.count + core->far.count >= core->limits.jobs || !core_has_free_number(core)))
        return ERR_JOBS_LIMIT;
    return core->far.waits || !core_has_memory(core) ? ERR_MEMORY_LIMIT : OK;
}

static struct job *make_job(struct core *core, const struct cmd_push *push, uint32_t topic,
                            uint32_t *out_number)
{
    *out_number = job_take(&core->jobs, push->id.len);
    struct job *job = core_job(core, *out_number);
    *job = (struct job){
        .seq = core->seq_next++,
        .due_us = push->due_us,
        .topic = topic,
        .priority = push->priority,
        .retry =
            push->retry_count ? retries_take(&core->retries, push->retry_us, push->retry_count) : 0,
        .state = JOB_GONE,
        .body_kind = push->body_kind,
        .order = push->order,
        .has_properties = push->properties.len > 0,
        .content_type_len = (uint8_t)push->content_type.len,
        .ttr_us = push->ttr_us,
        .created_us = push->created_us ? push->created_us : core->now_us,
        .failures = push->failures,
        .reserves = push->reserves,
        .delay_s = seconds_until(core->now_us, push->due_us),
        .body_len = (uint32_t)push->body.len,
    };
    if (push->id.len)
        job_id_set(job, push->id);
    return job;
}

/* The push has passed all checks. Its job takes the place of `old`, unless that is POOL_NONE. */
static void push_job(struct core *core, const struct cmd_push *push, struct topic *topic,
                     uint32_t old, void *ctx)
{
    struct stored replaced = {0};
    uint64_t old_seq = 0;
    bool exists = old != POOL_NONE;
    if (exists) {
        old_seq = core_job(core, old)->seq;
        replaced = core_retire_unlogged(core, old);
        core_forget(core, old);
    }
    uint32_t number;
    struct job *job = make_job(core, push, topic->number, &number);
    /* One event ends the old job and begins the new: between two a crash could leave neither. */
    job->where = replaced.where;
    job->record_bytes = replaced.bytes;
    index_add(&core->index, number);
    topic->pushed++;
    rate_add(&topic->push_rate, core->now_us);
    core->totals.pushed++;
    core_link(core, number, push->buried ? JOB_BURIED : core_waiting_state(core, job));
    core_emit_job(
        core, job,
        &(struct job_content){push->content_type, push->body, push->properties, push->memory},
        PROMISED);
    if (exists && core->sink->happened)
        core_emit_replaced(core, old_seq, job);
    core_happened(core, job, HAPPENED_PUSHED, NULL);
    budget_spend(core->budget, (int64_t)push->body.len / BODY_BYTES_PER_NS);
    struct job_view view;
    struct job_view *shown = core_view_for(core, job, push->brief, &view);
    core_reply(core, ctx,
               &(struct reply){.kind = CMD_PUSH, .replaced = exists, .count = 1, .jobs = shown});
}

static void push(struct core *core, const struct cmd_push *push, void *ctx)
{
    struct topic *topic = NULL;
    uint32_t old = POOL_NONE;
    enum err err = check_push(push);
    index_prefetch(&core->index, core->seq_next);
    if (!err && push->id.len)
        old = index_find(&core->index, &(struct job_ref){.id = push->id});
    bool exists = old != POOL_NONE;
    if (exists && push->if_exists == IF_EXISTS_KEEP) {
        struct job_view view;
        core_view(core, core_job(core, old), &view);
        core_reply(core, ctx,
                   &(struct reply){.kind = CMD_PUSH, .kept = true, .count = 1, .jobs = &view});
        return;
    }
    if (exists && push->if_exists == IF_EXISTS_REJECT)
        err = ERR_EXISTS;
    if (!err)
        err = check_room(core, exists);
    if (!err)
        err = topics_get_or_create(&core->topics, push->topic, &topic);
    if (err) {
        core_reply_err(core, CMD_PUSH, ctx, err);
        return;
    }
    push_job(core, push, topic, old, ctx);
}

/* ---- one job ---- */

/* Is the command allowed on a job in this state, with this lease (0: none)? */
static enum err check(const struct core *core, const struct job *job, const struct cmd *cmd)
{
    const struct cmd_traits *traits = cmd_traits(cmd->kind);
    const struct cmd_job *args = &cmd->job;
    bool reserved = job->state == JOB_RESERVED;
    if (args->note.len > JOB_NOTE_MAX && (cmd->kind == CMD_RELEASE || cmd->kind == CMD_BURY))
        return ERR_INVALID;
    if (cmd->kind == CMD_RESCHEDULE && args->has_body &&
        (args->content_type.len > CONTENT_TYPE_MAX || args->body.len > UINT32_MAX))
        return ERR_INVALID;
    if (cmd->kind == CMD_DELETE && args->if_free && reserved)
        return ERR_WRONG_STATE;
    if (traits->takes_lease && args->lease &&
        (!reserved || args->lease != job_lease(&core->extras, job)))
        return ERR_STALE_LEASE;
    bool moved = cmd->kind == CMD_RUN && args->has_due &&
                 (job->due_us > time_add(args->due_us, DUE_SAME_US) ||
                  args->due_us > time_add(job->due_us, DUE_SAME_US));
    return traits->states >> job->state & 1 && !moved ? OK : ERR_WRONG_STATE;
}

bool core_allows(const struct core *core, const struct cmd *cmd)
{
    uint32_t number = index_find(&core->index, &cmd->job.ref);
    return number != POOL_NONE && check(core, core_job(core, number), cmd) == OK;
}

/* Finish and delete: the reply shows the job as it was before. */
static void end_job(struct core *core, uint32_t number, const struct cmd *cmd, void *ctx,
                    void (*retire)(struct core *, uint32_t, enum event_end))
{
    struct job *job = core_job(core, number);
    struct topic *topic = topics_at(&core->topics, job->topic);
    struct job_view view;
    struct job_view *shown = core_view_for(core, job, cmd->job.brief, &view);
    bool done = cmd->kind == CMD_FINISH || cmd->job.is_done;
    if (done) {
        topic->finished++;
        rate_add(&topic->finish_rate, core->now_us);
        core->totals.finished++;
    } else {
        topic->deleted++;
        core->totals.deleted++;
    }
    retire(core, number, done ? END_FINISHED : END_DELETED);
    core_reply(core, ctx, &(struct reply){.kind = cmd->kind, .count = 1, .jobs = shown});
    core_forget(core, number);
}

/* Undoes the count of a reservation that was never delivered. */
static void uncount_reserve(struct job *job)
{
    if (job->reserves > 0 && job->reserves < UINT16_MAX)
        job->reserves--;
}

/*
 * A job that the client never received goes back where it was: same due time, so the same place in
 * the order, and the attempt is not counted.
 */
static void put_back(struct core *core, uint32_t number)
{
    struct job *job = core_unlink(core, number);
    core_end_lease(core, job);
    uncount_reserve(job);
    core_link(core, number, core_waiting_state(core, job));
    core_emit_move(core, job, PROMISED);
}

static void release(struct core *core, uint32_t number, const struct cmd_job *cmd)
{
    struct job *job = core_job(core, number);
    if (cmd->why == RELEASE_ASKED)
        core_note(core, job, cmd->note, cmd->note_code);
    if (cmd->has_priority)
        job->priority = cmd->priority; /* a reserved job's place does not depend on it */
    if (cmd->why == RELEASE_UNDELIVERED && !cmd->has_delay) {
        put_back(core, number);
        core_happened(core, job, HAPPENED_UNDELIVERED, NULL);
        return;
    }
    if (cmd->why == RELEASE_ABANDONED) {
        core_fail(core, number, PROMISED);
        core_happened(core, job, HAPPENED_ABANDONED, NULL);
        return;
    }
    struct job_note why = {.code = cmd->note_code, .text = cmd->note};
    enum happening_kind what = cmd->why == RELEASE_ASKED ? HAPPENED_RELEASED : HAPPENED_UNDELIVERED;
    count_up(&job_rare_counts(&core->extras, job)->releases);
    topics_at(&core->topics, job->topic)->released++;
    core->totals.released++;
    if (!cmd->has_delay) {
        job->delay_s = 0;
        core_fail(core, number, PROMISED);
        core_happened(core, job, what, &why);
        return;
    }
    if (cmd->why == RELEASE_UNDELIVERED)
        uncount_reserve(job);
    else
        count_up(&job->failures);
    (void)core_unlink(core, number); /* it is `job` */
    core_end_lease(core, job);
    bool untouched = cmd->why == RELEASE_UNDELIVERED && !job->was_due && job->due_us > cmd->due_us;
    if (!untouched) /* else it was reserved by its name, and keeps its due time */
        core_set_due(job, cmd->due_us > core->now_us ? cmd->due_us : core->now_us);
    job->delay_s = seconds_until(core->now_us, job->due_us);
    core_link(core, number, core_waiting_state(core, job));
    core_emit_move(core, job, PROMISED);
    core_happened(core, job, what, &why);
}

static void touch(struct core *core, uint32_t number, const struct cmd_job *cmd)
{
    struct job *job = core_unlink(core, number);
    job_extra(&core->extras, job)->until_us =
        time_add(core->now_us, cmd->has_ttr ? cmd->ttr_us : job->ttr_us);
    core_link(core, number, JOB_RESERVED);
    core_emit_move(core, job, PROMISED);
}

static void run(struct core *core, uint32_t number)
{
    core_make_ready(core, number);
    core_happened(core, core_job(core, number), HAPPENED_RUN, NULL);
}

static void bury(struct core *core, uint32_t number, const struct cmd_job *cmd)
{
    struct job *job = core_job(core, number);
    core_note(core, job, cmd->note, cmd->note_code);
    if (cmd->has_priority)
        job->priority = cmd->priority;
    core_bury(core, number, PROMISED);
    core_happened(core, job, HAPPENED_BURIED,
                  &(struct job_note){.code = cmd->note_code, .text = cmd->note});
}

/* A new body, due time or priority: the job waits again. */
static void rewrite(struct core *core, uint32_t number, const struct cmd_job *cmd)
{
    struct job *job = core_unlink(core, number);
    if (cmd->has_due)
        core_set_due(job, cmd->due_us);
    if (cmd->has_priority)
        job->priority = cmd->priority;
    core_link(core, number, core_waiting_state(core, job));
    if (!cmd->has_body) {
        core_emit_move(core, job, PROMISED);
        return;
    }
    job->body_kind = cmd->body_kind;
    job->content_type_len = (uint8_t)cmd->content_type.len;
    job->body_len = (uint32_t)cmd->body.len;
    CHECK(job->has_properties ==
          (cmd->properties.len > 0)); /* the engine has set cmd->properties to the job's own */
    core_emit_job(core, job,
                  &(struct job_content){cmd->content_type, cmd->body, cmd->properties, cmd->memory},
                  PROMISED);
}

static void reschedule(struct core *core, uint32_t number, const struct cmd_job *cmd)
{
    rewrite(core, number, cmd);
    core_happened(core, core_job(core, number), HAPPENED_RESCHEDULED, NULL);
}

static void job_cmd(struct core *core, const struct cmd *cmd, void *ctx)
{
    uint32_t number = index_find(&core->index, &cmd->job.ref);
    if (number == POOL_NONE) {
        core_reply_err(core, cmd->kind, ctx, ERR_NOT_FOUND);
        return;
    }
    const struct job *job = core_job(core, number);
    enum err err = check(core, job, cmd);
    if (err) {
        struct reply no = {.err = err, .kind = cmd->kind, .state = (enum job_state)job->state};
        core_reply(core, ctx, &no);
        return;
    }
    if (cmd->kind == CMD_FINISH || cmd->kind == CMD_DELETE) {
        end_job(core, number, cmd, ctx, core_retire);
        return;
    }
    switch ((int)cmd->kind) {
    case CMD_RELEASE: release(core, number, &cmd->job); break;
    case CMD_TOUCH: touch(core, number, &cmd->job); break;
    case CMD_RESERVE_JOB: core_lease(core, number, cmd->job.bound, 0, cmd->job.by); break;
    case CMD_KICK: core_kick(core, number); break;
    case CMD_RUN: run(core, number); break;
    case CMD_RESCHEDULE: reschedule(core, number, &cmd->job); break;
    case CMD_BURY: bury(core, number, &cmd->job); break;
    default: break; /* CMD_GET: the reply is all */
    }
    core_reply_job(core, cmd->kind, ctx, core_job(core, number));
}

__attribute__((always_inline)) static inline void begin_command(struct core *core, int64_t now_us)
{
    CHECK(!core->replaying);
    budget_spend(core->budget, COMMAND_NS);
    if (now_us > core->now_us)
        core->now_us = now_us;
}

bool core_delete_far(struct core *core, int64_t now_us, const struct cmd *cmd,
                     const struct event *event, void *ctx)
{
    bool plain = cmd->kind == CMD_DELETE && cmd->job.lease == 0 && event->job.due_us > now_us &&
                 !core_far_is_due(core, event);
    uint32_t number = plain ? core_take_apart(core, event) : POOL_NONE;
    if (number == POOL_NONE)
        return false;
    begin_command(core, now_us);
    end_job(core, number, cmd, ctx, core_retire_apart);
    return true;
}

uint64_t core_apply(struct core *core, int64_t now_us, const struct cmd *cmd, void *ctx)
{
    begin_command(core, now_us);
    switch (cmd_traits(cmd->kind)->subject) {
    case CMD_ON_NEW_JOB: push(core, &cmd->push, ctx); break;
    case CMD_ON_READY_JOBS: return core_reserve(core, &cmd->reserve, ctx);
    case CMD_ON_JOB: job_cmd(core, cmd, ctx); break;
    case CMD_ON_TOPICS: return core_topic_cmd(core, cmd, ctx);
    }
    return 0;
}
