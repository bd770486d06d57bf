/*
 * Executes commands in Redis, except reserves (consumers.h): one call for a command on a job, calls
 * to all partitions for one on topics.
 */
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/redis/engine_parts.h"
#include "engine/redis/script_parts.h"

/*
 * Statistics that took more than STATS_CALLS extra calls are kept, and used for later answers; so
 * are those with more topics than an answer shows, for its further pages.
 * While clients request them, they are renewed in the background, one call at a time, with pauses,
 * so that they take 1 % of Redis' time. If they are older than such a renewal takes, because no
 * client requested them, they are gathered at once.
 */
enum {
    STATS_CALLS = 40,     /* beyond one for each partition: some 50 ms of Redis */
    STATS_CALL_US = 2000, /* the most that one call takes Redis; the rest was other work */
    STATS_PAUSE = 99,     /* a pause takes this many times as long as the call before */
    STATS_REST_US = 1000 * 1000,
    STATS_OLD_US = 60 * 1000 * 1000,
};

/* What ticket::held points to. */
struct pending_command {
    struct redis_engine *redis;
    struct ticket *ticket; /* NULL: there is none, or it was cancelled */
    enum cmd_kind kind;
    bool orphaned; /* it had a ticket, which was cancelled */
};

/* A command that is one call. */
struct job_command {
    struct pending_command pending;
    struct topic *pushes; /* see consumers_pushing(); NULL: nothing */
};

/* A command on topics: calls to all partitions. */
struct gathering {
    struct pending_command pending;
    struct fanout *fanout;
    struct cmd cmd; /* its bytes point to `topic` */
    struct buf topic;
    uint32_t under_way;
    enum err err;
    bool unconfigured;  /* REMOVE_TOPIC: script_encode_unconfigure() was sent */
    struct timer pause; /* redis_engine::renewed_stats: until the next call */
    int64_t asked_us;
    uint32_t calls;
    bool many; /* statistics that took so many calls that they are kept for whoever asks */
};

/* ---- answers ---- */

static void pending_begin(struct pending_command *pending, struct redis_engine *redis,
                          enum cmd_kind kind, struct ticket *ticket)
{
    *pending = (struct pending_command){.redis = redis, .ticket = ticket, .kind = kind};
    if (ticket)
        ticket->held = pending;
}

static void pending_answer(struct pending_command *pending, const struct reply *reply)
{
    struct ticket *ticket = pending->ticket;
    struct reply explained;
    pending->ticket = NULL;
    if (!ticket)
        return;
    const char *why = reply->err == ERR_AGAIN ? redis_reason_of_turn(pending->redis) : NULL;
    if (why) {
        explained = *reply;
        explained.why = why;
        reply = &explained;
    }
    ticket->held = NULL;
    ticket->answered(ticket, reply);
}

static void pending_fail(struct pending_command *pending, enum err err)
{
    pending_answer(pending, &(struct reply){.err = err, .kind = pending->kind});
}

/* ---- commands that are one call ---- */

void command_give_back(void *owner, const struct job_view *job)
{
    struct redis_engine *redis = owner;
    struct cmd_job release = {
        .ref.seq = job->ref.seq,
        .lease = job->lease,
        .why = RELEASE_UNDELIVERED,
    };
    redis_requeue_add(&redis->requeue, &release);
}

void command_bury_damaged(void *owner, const struct job_view *job)
{
    struct redis_engine *redis = owner;
    struct cmd cmd = {.kind = CMD_BURY, .job = {.ref.seq = job->ref.seq, .lease = job->lease}};
    log_event(LOG_ERROR, "body_damaged", "job=%llu hint=\"it is buried in its topic\"",
              (unsigned long long)job->ref.seq);
    (void)command_on_job(redis, (uint32_t)(job->ref.seq % redis->space.partitions), &cmd, NULL);
}

/* Updates the consumers' cache by an answer that has a job. */
static void see_job(struct redis_engine *redis, const struct reply *reply, uint32_t partition)
{
    bool one_more = cmd_traits(reply->kind)->changes && !reply->kept && !reply->replaced;
    if (reply->kind == CMD_DELETE || reply->kind == CMD_FINISH)
        return; /* as it was before: it is gone */
    if (cmd_traits(reply->kind)->takes_jobs && reply->count)
        consumers_delivered(&redis->consumers, reply->jobs);
    else if (reply->jobs && reply->jobs->state == JOB_READY)
        consumers_see(&redis->consumers, reply->jobs, partition, one_more);
}

/* Redis has changed a topic's settings; the request has the new ones: see settings.lua. */
static void see_settings(struct redis_engine *redis, const struct script_request *call,
                         const struct bytes *parts, uint32_t count)
{
    struct bytes request = buf_bytes(&call->request);
    settings_sync_changed(&redis->settings, script_argument(request, 3),
                          script_settings_mark(parts, count), script_argument(request, 5),
                          call->resent);
}

static void job_command_answered(struct job_command *command, struct script_request *call,
                                 const struct bytes *parts, uint32_t count)
{
    struct redis_engine *redis = command->pending.redis;
    struct script_answer answer = {.err = OK};
    struct script_parts received = {.partition = call->id.partition,
                                    .at = parts,
                                    .count = count,
                                    .request = buf_bytes(&call->request)};
    enum err err =
        script_read(&redis->space, command->pending.kind, &received, &redis->scratch, &answer);
    if (err) {
        pending_fail(&command->pending, err);
        return;
    }
    if (answer.reply.err == ERR_JOURNAL_BEHIND)
        redis->journal_behind = true; /* until the next heartbeat's answer */
    if (!answer.reply.err && command->pending.kind == CMD_CONFIGURE_TOPIC)
        see_settings(redis, call, parts, count);
    if (!answer.reply.err)
        see_job(redis, &answer.reply, call->id.partition);
    if (command->pending.kind == CMD_RESERVE_JOB && answer.reply.err == ERR_DAMAGED) {
        struct job_view job;
        if (script_damaged(&redis->space, &received, &job, 1))
            command_bury_damaged(redis, &job);
    }
    if (command->pending.kind == CMD_RESERVE_JOB && !command->pending.ticket && !answer.reply.err)
        command_give_back(redis, answer.reply.jobs);
    pending_answer(&command->pending, &answer.reply);
}

/* The push may have been executed, and used up our mark, without a notice for us. */
static void see_unsure_push(struct redis_engine *redis, const struct script_request *call)
{
    consumers_ready(&redis->consumers, script_pushed_topic(buf_bytes(&call->request)),
                    call->id.partition, NOTIFIED_ALL);
}

static void job_command_done(void *owner, struct script_request *call, enum err err,
                             const struct bytes *parts, uint32_t count)
{
    struct job_command *command = owner;
    if (command->pushes)
        consumers_pushed(command->pushes);
    if (err && command->pending.kind == CMD_PUSH)
        see_unsure_push(command->pending.redis, call);
    if (err)
        pending_fail(&command->pending, err);
    else
        job_command_answered(command, call, parts, count);
    arena_reset(&command->pending.redis->scratch);
    mem_free(command);
}

static void job_command_late(void *owner)
{
    struct job_command *command = owner;
    pending_fail(&command->pending, ERR_AGAIN);
}

/* The cost of a restoring push, in reserved jobs, by which the size of a joined call is limited.
 * The script's slow path is taken by buried jobs, by the first job of a topic, and by one that is
 * due before the last one, which may be all if they come in descending order. */
enum { RESTORED_JOBS = 2, RESTORED_LONG_JOBS = 4, RESTORED_BURIED_JOBS = 6 };

static uint32_t restored_weight(struct redis_engine *redis, const struct cmd_push *push)
{
    uint64_t topic = hash_of(push->topic.at, push->topic.len);
    bool is_long = topic != redis->restored_topic || push->due_us < redis->restored_due_us;
    redis->restored_topic = topic;
    redis->restored_due_us = push->due_us;
    return push->buried ? RESTORED_BURIED_JOBS : is_long ? RESTORED_LONG_JOBS : RESTORED_JOBS;
}

/* Lets ends and pushes be joined: many come in one turn, and joined they cost Redis much less. */
static void join_others(struct redis_engine *redis, struct script_request *call,
                        const struct cmd *cmd)
{
    bool ends = cmd->kind == CMD_FINISH || cmd->kind == CMD_DELETE;
    if (!ends && cmd->kind != CMD_PUSH)
        return;
    if (!ends && cmd->push.restore)
        call->jobs = restored_weight(redis, &cmd->push);
    struct bytes id = ends ? cmd->job.ref.id : cmd->push.id;
    call->joins = ends ? SCRIPT_END : SCRIPT_PUSH;
    call->id_hash = id.len ? hash_of(id.at, id.len) : 0;
}

/* It will make a job ready, which consumers who wait here can have as soon as it is answered. */
static struct topic *count_push(struct redis_engine *redis, const struct cmd *cmd)
{
    const struct cmd_push *push = &cmd->push;
    if (cmd->kind != CMD_PUSH || push->buried || push->restore ||
        push->due_us > redis->options.loop->now_us)
        return NULL;
    return consumers_pushing(&redis->consumers, push->topic);
}

enum submitted command_on_job(struct redis_engine *redis, uint32_t partition, const struct cmd *cmd,
                              struct ticket *ticket)
{
    struct script_request *call = script_requests_new(&redis->calls, partition);
    struct job_command *command = mem_alloc(sizeof(*command));
    pending_begin(&command->pending, redis, cmd->kind, ticket);
    command->pushes = count_push(redis, cmd);
    script_encode(&call->request, &redis->space, &call->id, cmd);
    call->changes = cmd_traits(cmd->kind)->changes;
    call->at_most_once = cmd_traits(cmd->kind)->takes_jobs;
    call->on_timeout = job_command_late;
    join_others(redis, call, cmd);
    script_requests_send(call, command, job_command_done);
    return ticket ? SUBMIT_PENDING : SUBMIT_ANSWERED;
}

/* ---- commands on topics ---- */

/* Adds what Redis does not have. `stats`: no rates, because the answer does not show them, and many
 * topics would displace the recent ones. */
static void add_view(struct redis_engine *redis, struct topic_view *view, bool stats)
{
    static const struct lateness none;
    const struct topic *topic = consumers_topic(&redis->consumers, view->name);
    view->lateness = topic ? &topic->lateness : &none;
    view->waiters = topic ? topic->waiters : 0;
    if (!stats)
        rates_look(&redis->rates, view, redis->options.loop->now_us);
}

static struct engine_stats stats_of(const struct fanout *fanout)
{
    uint32_t topics;
    const struct topic_view *sums = fanout_sums(fanout, &topics);
    struct engine_stats stats = {
        .topics = topics,
        .urgent = sums->urgent,
        .pushed = sums->pushed,
        .reserved = sums->reserved,
        .finished = sums->finished,
        .deleted = sums->deleted,
        .timeouts = sums->timeouts,
        .released = sums->released,
        .buried = sums->buried,
        .kicked = sums->kicked,
    };
    for (int state = JOB_DELAYED; state < JOB_STATES; state++)
        stats.jobs[state] = sums->jobs[state];
    memcpy(stats.due_within, fanout_due_within(fanout), sizeof(stats.due_within));
    return stats;
}

/* If the command failed, the last statistics are shown. */
static void add_stats(const struct gathering *gathering, struct reply *reply)
{
    struct redis_engine *redis = gathering->pending.redis;
    struct engine_stats *stats = &redis->stats;
    if (!reply->err)
        *stats = stats_of(gathering->fanout);
    stats->waiters = consumers_count(&redis->consumers);
    stats->lateness = redis->consumers.lateness;
    stats->lateness_histogram = redis->consumers.lateness_histogram;
    reply->stats = stats;
}

/* Shows a topic that is not in Redis, but has waiting consumers here. */
static void view_waiters(const struct gathering *gathering, struct topic_view *view,
                         struct reply *reply)
{
    const struct consumers *consumers = &gathering->pending.redis->consumers;
    const struct topic *topic = consumers_topic(consumers, buf_bytes(&gathering->topic));
    if (reply->err != ERR_NOT_FOUND || reply->kind != CMD_TOPIC || !topic || !topic->waiters)
        return;
    *view = (struct topic_view){.name = buf_bytes(&gathering->topic)};
    *reply = (struct reply){.kind = CMD_TOPIC, .count = 1, .topics = view};
}

static void gathering_reply(struct gathering *gathering)
{
    struct topic_view view;
    struct redis_engine *redis = gathering->pending.redis;
    struct reply reply = {.err = gathering->err, .kind = gathering->pending.kind};
    if (!reply.err)
        fanout_reply(gathering->fanout, &reply);
    view_waiters(gathering, &view, &reply);
    for (uint32_t i = 0; i < reply.count && reply.topics; i++)
        add_view(redis, &reply.topics[i], gathering->cmd.topic.stats);
    if (reply.kind == CMD_TOPICS && gathering->cmd.topic.stats)
        add_stats(gathering, &reply);
    bool kicks = reply.kind == CMD_KICK_TOPIC;
    bool frees = kicks || reply.kind == CMD_RESUME || reply.kind == CMD_REMOVE_TOPIC;
    if (!reply.err)
        fanout_keep_counts(gathering->fanout, &redis->kicked);
    /* One that failed or was cancelled may have made some ready. */
    for (uint32_t i = 0; i < redis->space.partitions && frees; i++) {
        if (!kicks || fanout_touched(gathering->fanout, i))
            consumers_ready(&redis->consumers, buf_bytes(&gathering->topic), i, NOTIFIED_ALL);
    }
    pending_answer(&gathering->pending, &reply);
}

static void gathering_free(struct gathering *gathering)
{
    if (!gathering)
        return;
    fanout_free(gathering->fanout, &gathering->pending.redis->options.loop->discard);
    buf_fini(&gathering->topic);
    mem_free(gathering);
}

static bool gathering_step(struct gathering *gathering);

static bool is_renewal(const struct gathering *gathering)
{
    return gathering == gathering->pending.redis->renewed_stats;
}

static void pause_ended(struct timer *timer)
{
    (void)gathering_step(LIST_ENTRY(timer, struct gathering, pause));
}

static void pause_renewal(struct gathering *gathering)
{
    struct loop *loop = gathering->pending.redis->options.loop;
    int64_t took_us = loop->now_us - gathering->asked_us;
    took_us = took_us < STATS_CALL_US ? took_us : STATS_CALL_US;
    gathering->pause.expired = pause_ended;
    loop_arm(loop, &gathering->pause, loop->now_us + STATS_PAUSE * took_us);
}

static void gathered(void *owner, struct script_request *call, enum err err,
                     const struct bytes *parts, uint32_t count)
{
    struct gathering *gathering = owner;
    gathering->under_way--;
    if (!err)
        err = fanout_take(gathering->fanout, call->id.partition, parts, count);
    if (err && !gathering->err)
        gathering->err = err;
    if (is_renewal(gathering) && !gathering->err && !fanout_done(gathering->fanout))
        pause_renewal(gathering);
    else
        (void)gathering_step(gathering);
}

static void gathering_ask(struct gathering *gathering, uint32_t partition)
{
    struct redis_engine *redis = gathering->pending.redis;
    struct script_request *call = script_requests_new(&redis->calls, partition);
    fanout_encode(gathering->fanout, &call->request, &call->id);
    call->changes = cmd_traits(gathering->pending.kind)->changes;
    gathering->under_way++;
    gathering->calls++;
    gathering->asked_us = redis->options.loop->now_us;
    script_requests_send(call, gathering, gathered);
}

static void forget_kept(struct redis_engine *redis)
{
    gathering_free(redis->kept_stats);
    redis->kept_stats = NULL;
}

void command_forget_stats(struct redis_engine *redis)
{
    forget_kept(redis);
    if (redis->renewed_stats)
        loop_cancel(redis->options.loop, &redis->renewed_stats->pause);
    gathering_free(redis->renewed_stats);
    redis->renewed_stats = NULL;
}

static bool gathers_stats(const struct gathering *gathering)
{
    return gathering->pending.kind == CMD_TOPICS && gathering->cmd.topic.stats;
}

/* Do its statistics have more topics than it has shown, for who goes on asking? */
static bool has_more_pages(const struct gathering *gathering)
{
    uint32_t topics;
    (void)fanout_sums(gathering->fanout, &topics);
    return gathering->cmd.topic.max > 1 && topics > gathering->cmd.topic.max;
}

/* Frees the command after its answer, or keeps it if its statistics took many calls, or have more
   pages. */
static void gathering_end(struct gathering *gathering)
{
    struct redis_engine *redis = gathering->pending.redis;
    int64_t now_us = redis->options.loop->now_us;
    bool stats = gathers_stats(gathering);
    gathering->many = gathering->calls > redis->space.partitions + STATS_CALLS;
    if (is_renewal(gathering)) {
        redis->renewed_stats = NULL;
        redis->renew_stats_at_us = now_us + STATS_REST_US;
        if (!gathering->err)
            forget_kept(redis);
    }
    if (!stats || gathering->err || (!gathering->many && !has_more_pages(gathering))) {
        gathering_free(gathering);
        return;
    }
    forget_kept(redis);
    redis->kept_stats = gathering;
    redis->kept_stats_us = now_us;
    redis->renew_stats_at_us = now_us + STATS_REST_US;
}

static struct gathering *gathering_new(struct redis_engine *redis, const struct cmd *cmd,
                                       struct ticket *ticket)
{
    struct gathering *gathering = mem_zalloc(sizeof(*gathering));
    pending_begin(&gathering->pending, redis, cmd->kind, ticket);
    buf_add_bytes(&gathering->topic, cmd->topic.topic);
    gathering->cmd = *cmd;
    gathering->cmd.topic.topic = buf_bytes(&gathering->topic);
    gathering->fanout = fanout_new(&redis->space, &gathering->cmd);
    fanout_direct(gathering->fanout, &redis->kicked);
    return gathering;
}

static void renew_stats(struct redis_engine *redis, const struct cmd *cmd)
{
    struct cmd all = *cmd;
    if (redis->renewed_stats || redis->leaving ||
        redis->options.loop->now_us < redis->renew_stats_at_us)
        return;
    all.topic.due_within = true;
    redis->renewed_stats = gathering_new(redis, &all, NULL);
    (void)gathering_step(redis->renewed_stats);
}

/* Are the kept statistics new enough, and of the kind that is asked for? */
static bool kept_will_do(const struct redis_engine *redis, const struct cmd *cmd)
{
    const struct gathering *kept = redis->kept_stats;
    int64_t walk_us = (int64_t)kept->calls * STATS_CALL_US * (1 + STATS_PAUSE);
    int64_t old_us = walk_us > STATS_OLD_US ? walk_us : STATS_OLD_US;
    bool old = redis->options.loop->now_us - redis->kept_stats_us > old_us;
    return kept->many && (!cmd->topic.due_within || kept->cmd.topic.due_within) &&
           (redis->renewed_stats || !old);
}

/* False: there are no kept statistics, or they will not do. A further page comes from what the
   first one came from. */
static bool answer_from_kept(struct redis_engine *redis, const struct cmd *cmd,
                             struct ticket *ticket)
{
    struct gathering *kept = redis->kept_stats;
    bool goes_on = cmd->topic.topic.len > 0;
    if (cmd->kind != CMD_TOPICS || !cmd->topic.stats || !kept || !ticket ||
        (!goes_on && !kept_will_do(redis, cmd)))
        return false;
    kept->pending.ticket = ticket;
    fanout_turn_to(kept->fanout, cmd->topic.topic, cmd->topic.max);
    gathering_reply(kept);
    if (!goes_on)
        renew_stats(redis, cmd);
    return true;
}

static void unconfigured(void *owner, struct script_request *call, enum err err,
                         const struct bytes *parts, uint32_t count)
{
    struct gathering *gathering = owner;
    struct script_parts received = {.at = parts, .count = count};
    struct script_answer answer = {.err = OK};
    gathering->under_way--;
    if (!err)
        err = script_read_answer(&gathering->pending.redis->space, &received, &answer);
    if (!err && !answer.err)
        see_settings(gathering->pending.redis, call, parts, count);
    gathering->err = err ? err : answer.err;
    (void)gathering_step(gathering);
}

/* REMOVE_TOPIC, after all partitions have ended the topic's pause: deletes its settings in
 * partition 0, and the topic there, if it is empty. If that fails, the client repeats the command.
 * False: nothing was sent. */
static bool unconfigure(struct gathering *gathering)
{
    struct redis_engine *redis = gathering->pending.redis;
    struct reply reply;
    if (gathering->pending.kind != CMD_REMOVE_TOPIC || gathering->unconfigured || gathering->err)
        return false;
    gathering->unconfigured = true;
    fanout_reply(gathering->fanout, &reply);
    if (reply.err)
        return false;
    struct script_request *call = script_requests_new(&redis->calls, 0);
    script_encode_unconfigure(&call->request, &redis->space, &call->id,
                              buf_bytes(&gathering->topic));
    call->changes = true;
    gathering->under_way++;
    script_requests_send(call, gathering, unconfigured);
    return true;
}

/* Should the command end because its ticket was cancelled? Yes if it changes nothing, and
 * KICK_TOPIC and CLEAR_TOPIC, which may end anywhere. Other changes are completed in all
 * partitions. */
static bool is_cancelled(const struct gathering *gathering)
{
    const struct pending_command *pending = &gathering->pending;
    if (pending->kind == CMD_KICK_TOPIC || pending->kind == CMD_CLEAR_TOPIC)
        return pending->orphaned;
    return !cmd_traits(pending->kind)->changes && !pending->ticket && !is_renewal(gathering);
}

/* True: it was answered, and is gone. */
static bool gathering_step(struct gathering *gathering)
{
    uint32_t partitions = gathering->pending.redis->space.partitions;
    bool renewal = is_renewal(gathering);
    if (is_cancelled(gathering) && !gathering->err)
        gathering->err = ERR_AGAIN;
    for (uint32_t i = 0; i < partitions && !gathering->err; i++) {
        if (fanout_wants(gathering->fanout, i) && !(renewal && gathering->under_way))
            gathering_ask(gathering, i);
    }
    if (gathering->under_way || unconfigure(gathering))
        return false;
    if (gathers_stats(gathering) && !gathering->err)
        gathering->pending.redis->stats_us = gathering->pending.redis->options.loop->now_us;
    gathering_reply(gathering);
    gathering_end(gathering);
    return true;
}

enum submitted command_on_topics(struct redis_engine *redis, const struct cmd *cmd,
                                 struct ticket *ticket)
{
    if (answer_from_kept(redis, cmd, ticket))
        return SUBMIT_ANSWERED;
    struct gathering *gathering = gathering_new(redis, cmd, ticket);
    return gathering_step(gathering) || !ticket ? SUBMIT_ANSWERED : SUBMIT_PARKED;
}

void command_orphan(void *held)
{
    struct pending_command *pending = held;
    pending->ticket = NULL;
    pending->orphaned = true;
}
