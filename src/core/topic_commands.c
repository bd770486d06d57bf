/*
 * Commands on a topic. Those that may take long (visit all jobs, or change many) continue in
 * scan.c.
 */
#include "base/check.h"
#include "base/mem.h"
#include "core/core_internal.h"

enum {
    PAGE_MAX = 1000,
    VIEW_NS = 150, /* estimated work for one topic shown */
};

void core_view_topic(const struct core *core, const struct topic *topic,
                     struct topic_view *out_view)
{
    *out_view = (struct topic_view){
        .name = topic->name,
        .waiters = topic->waiters,
        .pause_until_us = topic->pause_until_us,
        .pause_us = topic->pause_until_us ? topic->pause_us : 0,
        .urgent = topic->urgent,
        .oldest_ready_us = core_front_due_us(core, topic),
        .pushed = topic->pushed,
        .reserved = topic->reserved,
        .finished = topic->finished,
        .deleted = topic->deleted,
        .timeouts = topic->timeouts,
        .released = topic->released,
        .buried = topic->buried,
        .kicked = topic->kicked,
        .pauses = topic->pauses,
        .pushed_10s = rate_last(&topic->push_rate, core->now_us),
        .reserved_10s = rate_last(&topic->reserve_rate, core->now_us),
        .finished_10s = rate_last(&topic->finish_rate, core->now_us),
        .lateness = &topic->lateness,
    };
    for (int state = 0; state < JOB_STATES; state++)
        out_view->jobs[state] = topic->jobs[state];
}

static void list_topics(struct core *core, const struct cmd_topic *cmd, void *ctx)
{
    const struct name_order *order = &core->topics.order;
    struct name_place place = name_order_after(order, cmd->topic);
    uint32_t max = cmd->max < PAGE_MAX ? cmd->max : PAGE_MAX, number;
    struct topic_view *views = mem_alloc(max * sizeof(*views));
    struct reply reply = {.kind = CMD_TOPICS, .topics = views};
    while (reply.count < max && name_order_next(order, &place, &number))
        core_view_topic(core, topics_at(&core->topics, number), &views[reply.count++]);
    reply.more = name_order_next(order, &place, &number);
    budget_spend(core->budget, (int64_t)reply.count * VIEW_NS);
    core_reply(core, ctx, &reply);
    mem_free(views);
}

void core_set_pause(struct core *core, struct topic *topic, int64_t until_us)
{
    if (topic->pause_until_us && topic->pause_until_us != INT64_MAX)
        wheel_remove(&core->pauses, topic->number);
    topic->pause_until_us = until_us;
    if (__builtin_sub_overflow(until_us, core->now_us, &topic->pause_us))
        topic->pause_us = INT64_MAX;
    if (until_us && until_us != INT64_MAX)
        wheel_add(&core->pauses, topic->number);
    topics_relist(&core->topics, topic);
}

static void pause_topic(struct core *core, const struct cmd *cmd, void *ctx)
{
    struct topic *topic;
    int64_t until_us = cmd->kind == CMD_PAUSE ? cmd->topic.pause_until_us : 0;
    if (until_us <= core->now_us)
        until_us = 0; /* the pause is over already */
    enum err err = topics_get_or_create(&core->topics, cmd->topic.topic, &topic);
    if (!err)
        topic->pauses += cmd->kind == CMD_PAUSE;
    if (!err && topic->pause_until_us != until_us) {
        core_set_pause(core, topic, until_us);
        core_emit_pause(core, topic);
    }
    core_reply_err(core, cmd->kind, ctx, err);
}

static void remove_topic(struct core *core, struct topic *topic, void *ctx)
{
    if (topic->pause_until_us) {
        core_set_pause(core, topic, 0);
        core_emit_pause(core, topic);
    }
    core_unset_settings(core, topic);
    bool idle = topic->idle;
    if (idle)
        topics_forget(&core->topics, topic);
    core_reply(core, ctx, &(struct reply){.kind = CMD_REMOVE_TOPIC, .more = !idle});
}

static const struct cmd *first_in(enum cmd_kind kind, enum job_state state, struct cmd *room)
{
    *room = (struct cmd){
        .kind = kind,
        .topic = {.state = state, .max = 1},
    };
    return room;
}

static void view_or_scan(struct core *core, struct topic *topic, const struct cmd *cmd, void *ctx,
                         uint64_t *out_parked)
{
    struct cmd scan;
    if (!cmd->topic.brief) {
        core_scan(core, topic, first_in(CMD_TOPIC, JOB_DELAYED, &scan), NULL, ctx, out_parked);
        return;
    }
    struct topic_view view;
    core_view_topic(core, topic, &view);
    core_reply(core, ctx, &(struct reply){.kind = CMD_TOPIC, .count = 1, .topics = &view});
}

static void kick_topic(struct core *core, struct topic *topic, const struct cmd *cmd, void *ctx,
                       uint64_t *out_parked)
{
    struct cmd kick = *cmd;
    bool buried = cmd->topic.state == JOB_BURIED;
    if (cmd->topic.state == JOB_GONE)
        buried = topic->jobs[JOB_BURIED] > 0;
    kick.topic.state = buried ? JOB_BURIED : JOB_DELAYED;
    core_scan(core, topic, &kick, NULL, ctx, out_parked);
}

/* The first READY and BURIED jobs are in lists; the others must be searched. */
static void peek(struct core *core, struct topic *topic, const struct cmd *cmd, void *ctx,
                 uint64_t *out_parked)
{
    struct cmd scan;
    enum job_state state = cmd->topic.state;
    if (topic_in_memory(topic, state) == 0)
        core_reply_err(core, CMD_PEEK, ctx, ERR_NOT_FOUND);
    else if (state == JOB_READY || state == JOB_BURIED)
        core_reply_job(core, CMD_PEEK, ctx, core_job(core, core_topic_first(topic, state)));
    else
        core_scan(core, topic, first_in(CMD_PEEK, state, &scan), NULL, ctx, out_parked);
}

/* Writes nothing if the command has no cursor. */
static enum err read_cursor(const struct cmd *cmd, struct cursor *out_after)
{
    struct listing listing = core_listing(cmd->topic.topic, cmd->topic.state, cmd->topic.backwards);
    if (cmd->kind != CMD_LIST || cmd->topic.cursor.len == 0)
        return OK;
    return cursor_read(&listing, cmd->topic.cursor, out_after);
}

/* Counts jobs in memory; the engine adds far jobs. */
static void count_due(struct core *core, const struct cmd_topic *cmd, void *ctx)
{
    uint64_t due[DUE_TIMES_MAX];
    CHECK(cmd->until_count >= 1 && cmd->until_count <= DUE_TIMES_MAX);
    core_due_until(core, cmd->until_us, due, cmd->until_count);
    core_reply(
        core, ctx,
        &(struct reply){
            .kind = CMD_DUE, .count = cmd->until_count, .until_us = cmd->until_us, .due = due});
}

/* Commands on all topics. False: it is on one. */
static bool all_topics_cmd(struct core *core, const struct cmd *cmd, void *ctx)
{
    if (cmd->kind == CMD_TOPICS)
        list_topics(core, &cmd->topic, ctx);
    else if (cmd->kind == CMD_DUE)
        count_due(core, &cmd->topic, ctx);
    else
        return false;
    return true;
}

uint64_t core_topic_cmd(struct core *core, const struct cmd *cmd, void *ctx)
{
    uint64_t parked = 0;
    if (all_topics_cmd(core, cmd, ctx))
        return 0;
    if (cmd->kind == CMD_CONFIGURE_TOPIC) {
        core_configure(core, &cmd->topic, ctx);
        return 0;
    }
    struct cursor after;
    if (read_cursor(cmd, &after)) {
        core_reply_err(core, cmd->kind, ctx, ERR_INVALID);
        return 0;
    }
    struct topic *topic = topics_find(&core->topics, cmd->topic.topic);
    if (topic && topic->idle && cmd->topic.in_use)
        topic = NULL; /* it exists only for its counters */
    bool makes = !cmd->topic.in_use && !cmd->topic.must_exist;
    if (cmd->kind == CMD_PAUSE && (topic || makes)) {
        pause_topic(core, cmd, ctx);
        return 0;
    }
    if (!topic) {
        core_reply_err(core, cmd->kind, ctx, ERR_NOT_FOUND);
        return 0;
    }
    if (cmd->kind == CMD_RESUME) {
        pause_topic(core, cmd, ctx);
    } else if (cmd->kind == CMD_REMOVE_TOPIC) {
        remove_topic(core, topic, ctx);
    } else if (cmd->kind == CMD_TOPIC) {
        view_or_scan(core, topic, cmd, ctx, &parked);
    } else if (cmd->kind == CMD_KICK_TOPIC) {
        kick_topic(core, topic, cmd, ctx, &parked);
    } else if (cmd->topic.state <= JOB_GONE || cmd->topic.state >= JOB_STATES) {
        core_reply_err(core, cmd->kind, ctx, ERR_INVALID);
    } else if (cmd->kind == CMD_PEEK) {
        peek(core, topic, cmd, ctx, &parked);
    } else {
        core_scan(core, topic, cmd, cmd->topic.cursor.len ? &after : NULL, ctx, &parked);
    }
    return parked;
}
