/*
 * Implements the port: a command goes to the part that does it, and the parts are called in the
 * order of a turn. Begins and ends the engine: a start, a standby that begins to lead, leaving. The
 * parts are made, and hear of each other, in engine_parts.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/codec.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/redis/engine_parts.h"

enum {
    OPEN_US = 5 * 1000 * 1000,         /* the time limit of a start */
    OPEN_LOG_US = 1000 * 1000,         /* when a start logs that it waits */
    STANDBY_LOG_US = 60 * 1000 * 1000, /* the same for a standby, which has no limit; repeated */
    SPREAD_US = 250 * 1000,            /* a topic's jobs go to one partition for this long */
    COMMAND_NS = 3000,                 /* work for a command in this process, … */
    COPIED_BYTES_PER_NS = 1,           /* … and for a job's body, copied to memory that is new */
};

static struct redis_engine *of_engine(struct engine *engine)
{
    return (struct redis_engine *)engine; /* its first member */
}

static int64_t now_of(const struct redis_engine *redis)
{
    return redis->options.loop->now_us;
}

/* ---- the engine port ---- */

/* Did the last heartbeats succeed? They are changes, once a second. */
static bool takes_changes(const struct redis_engine *redis)
{
    const struct node *node = script_requests_node(&redis->calls, 0);
    return node && !node->stalled_logged && !script_requests_lacks_replicas(&redis->calls, 0);
}

static void engine_use_budget(struct engine *engine, struct budget *budget)
{
    of_engine(engine)->budget = budget;
}

/* Replies and timers are handled later in the turn, by the loop. */
static void engine_begin(struct engine *engine)
{
    (void)engine;
}

/*
 * Are jobs of the topic spread over partitions, by time and daemon? Not with settings, because a
 * target may need the order of the jobs of a key; nor restored ones, which are looked up in one
 * partition.
 */
static bool spreads(const struct redis_engine *redis, const struct cmd_push *push)
{
    const struct redis_options *options = &redis->options;
    if (push->restore || options->order == REDIS_ORDER_TOPIC)
        return false;
    return options->order == REDIS_ORDER_SPREAD ||
           (options->url.topology == REDIS_CLUSTER &&
            !settings_sync_has(&redis->settings, push->topic));
}

/* The first partition from `first` on that is open; `first` if none is. */
static uint32_t open_partition(const struct redis_engine *redis, uint32_t first)
{
    for (uint32_t i = 0; i < redis->space.partitions; i++) {
        uint32_t partition = (first + i) % redis->space.partitions;
        if (script_requests_is_open(&redis->calls, partition))
            return partition;
    }
    return first;
}

/* The partition for a job without a client's id. */
static uint32_t partition_for(const struct redis_engine *redis, const struct cmd_push *push)
{
    uint64_t hash = hash_of(push->topic.at, push->topic.len);
    if (!spreads(redis, push))
        return (uint32_t)(hash % redis->space.partitions);
    uint64_t turn[] = {hash, get_u64(redis->space.daemon), (uint64_t)now_of(redis) / SPREAD_US};
    return open_partition(redis, (uint32_t)(hash_of(turn, sizeof(turn)) % redis->space.partitions));
}

/* A release without a client: it must not fail, and is repeated until it succeeds. */
static bool must_return(const struct cmd *cmd)
{
    return cmd->kind == CMD_RELEASE && cmd->job.why != RELEASE_ASKED && cmd->job.lease;
}

static enum submitted answer_at_once(const struct cmd *cmd, struct ticket *ticket, enum err err)
{
    struct reply reply = {.err = err, .kind = cmd->kind};
    struct redis_error reason;
    if (err == ERR_UNSUPPORTED) {
        redis_why_refused(cmd, &reason);
        reply.why = reason.text;
    }
    if (ticket)
        ticket->answered(ticket, &reply);
    return SUBMIT_ANSWERED;
}

static enum submitted engine_submit(struct engine *engine, const struct cmd *cmd,
                                    struct ticket *ticket)
{
    struct redis_engine *redis = of_engine(engine);
    uint32_t partition = 0;
    enum err err = OK;
    CHECK(ticket || !cmd_traits(cmd->kind)->takes_jobs);
    if (ticket) {
        ticket->parked = 0;
        ticket->held = NULL;
    }
    if (redis->budget)
        budget_spend(redis->budget,
                     COMMAND_NS + (int64_t)cmd_body_bytes(cmd) / COPIED_BYTES_PER_NS);
    if (must_return(cmd)) {
        redis_requeue_add(&redis->requeue, &cmd->job);
        return answer_at_once(cmd, ticket, OK); /* it will be done */
    }
    switch (script_route(&redis->space, cmd, &partition, &err)) {
    case SCRIPT_ONE: return command_on_job(redis, partition, cmd, ticket);
    case SCRIPT_ANY: return command_on_job(redis, partition_for(redis, &cmd->push), cmd, ticket);
    case SCRIPT_READY: return consumers_reserve(&redis->consumers, &cmd->reserve, ticket);
    case SCRIPT_ALL: return command_on_topics(redis, cmd, ticket);
    case SCRIPT_REFUSED: break;
    }
    return answer_at_once(cmd, ticket, err);
}

static void engine_cancel(struct engine *engine, struct ticket *ticket)
{
    struct redis_engine *redis = of_engine(engine);
    if (ticket->held && ticket->parked)
        consumers_cancel(&redis->consumers, ticket->held);
    else if (ticket->held)
        command_orphan(ticket->held);
    ticket->held = NULL;
    ticket->parked = 0;
}

static void send_requests(struct redis_engine *redis)
{
    script_requests_flush(&redis->calls);
    topology_flush(&redis->topology);
}

static void engine_match(struct engine *engine)
{
    struct redis_engine *redis = of_engine(engine);
    if (!redis->leaving)
        consumers_match(&redis->consumers, redis->budget);
    send_requests(redis); /* in front of the turn's answers to clients, a call of the system each */
}

/* Returns no other times, because the engine's timers are the loop's. */
static int64_t engine_end(struct engine *engine)
{
    struct redis_engine *redis = of_engine(engine);
    bool again = !redis->leaving && consumers_wait_for_match(&redis->consumers);
    send_requests(redis); /* those made since: connections that were closed give back their jobs */
    subscription_flush(&redis->subscription);
    return again ? now_of(redis) : INT64_MAX;
}

static void engine_drain(struct engine *engine)
{
    struct redis_engine *redis = of_engine(engine);
    redis->draining = true;
    consumers_drain(&redis->consumers, ERR_DRAINING, redis->budget);
}

static enum err engine_health(const struct engine *engine)
{
    const struct redis_engine *redis = (const struct redis_engine *)engine;
    if (redis->draining)
        return ERR_DRAINING;
    bool whole =
        redis->partition_init.rebuilding == 0 && !redis->preflight.evicts && !redis->settings.lost;
    if (!whole || !redis_reaches_all(redis) || !takes_changes(redis))
        return ERR_AGAIN;
    return redis->journal_behind || redis_journal_refuses(&redis->journal) ? ERR_JOURNAL_BEHIND
                                                                           : OK;
}

static void engine_describe(const struct engine *engine, struct metric_sink *sink)
{
    redis_describe((const struct redis_engine *)engine, sink);
}

static void engine_observe_settings(struct engine *engine, struct settings_observer *observer)
{
    settings_sync_observe(&of_engine(engine)->settings, observer);
}

static uint64_t engine_keeps_order(const struct engine *engine, struct bytes topic)
{
    const struct redis_engine *redis = (const struct redis_engine *)engine;
    return members_keep_order(&redis->members, hash_of(topic.at, topic.len));
}

static uint64_t engine_order_changes(const struct engine *engine)
{
    return members_order_changes(&((const struct redis_engine *)engine)->members);
}

static const struct engine_verbs verbs = {
    .use_budget = engine_use_budget,
    .begin = engine_begin,
    .submit = engine_submit,
    .cancel = engine_cancel,
    .match = engine_match,
    .end = engine_end,
    .drain = engine_drain,
    .health = engine_health,
    .observe_settings = engine_observe_settings,
    .keeps_order = engine_keeps_order,
    .order_changes = engine_order_changes,
    .describe = engine_describe,
};

/* ---- life ---- */

static bool serves(const struct redis_engine *redis)
{
    return redis_reaches_all(redis) && takes_changes(redis) &&
           settings_sync_is_whole(&redis->settings) &&
           redis->members.heartbeats > redis->serves_after &&
           subscription_is_complete(&redis->subscription);
}

static void report_waiting(struct timer *timer)
{
    struct redis_engine *redis = LIST_ENTRY(timer, struct redis_engine, report);
    struct redis_error error = {.text = ""};
    if (redis->preflight.serving || redis->preflight.unfit)
        return;
    redis_why_waits(redis, &error);
    if (redis->standby) {
        if (partition_init_leaves_older(&redis->partition_init))
            log_event(
                LOG_INFO, "standby_older", "hint=\"%s\"",
                "the queue has the layout of an older version: this laterd converts it when it "
                "leads");
        else
            log_event(
                LOG_WARN, "standby_waiting", "for=\"%.300s\" hint=\"%s\"", error.text,
                "this laterd waits to lead, and could not serve now: look at redis.url, and at "
                "that Redis");
        loop_arm(redis->options.loop, timer, now_of(redis) + STANDBY_LOG_US);
        return;
    }
    log_event(LOG_WARN, "redis_waiting", "at_most_s=%d for=\"%.300s\"", OPEN_US / 1000000,
              error.text);
}

static void give_up(struct timer *timer)
{
    LIST_ENTRY(timer, struct redis_engine, give_up)->late = true;
}

enum err redis_engine_started(struct redis_engine *redis, struct redis_error *out_error)
{
    struct preflight *preflight = &redis->preflight;
    if (preflight->unfit) {
        *out_error = preflight->error;
        return preflight->unfit;
    }
    preflight->serving = serves(redis);
    if (preflight->serving)
        return OK;
    if (!redis->late)
        return ERR_AGAIN;
    redis_why_waits(redis, out_error);
    return ERR_IO;
}

/* The share of limits.jobs for each partition, rounded up. */
static uint64_t share_of(uint64_t limit, uint32_t partitions)
{
    return limit / partitions + (limit % partitions != 0);
}

/* Of a new queue. One server runs one script at a time, and requests to one partition share its
 * reads and writes; a cluster's masters can have a partition each. See decision 160. */
static uint32_t usual_partitions(const struct redis_url *url)
{
    enum { IN_CLUSTER = 16 };
    return url->topology == REDIS_CLUSTER ? IN_CLUSTER : 1;
}

enum err redis_engine_new(const struct redis_options *options, struct redis_engine **out_redis,
                          struct redis_error *out_error)
{
    struct redis_engine *redis = mem_zalloc(sizeof(*redis));
    char daemon[8];
    redis->engine.verbs = &verbs;
    redis->options = *options;
    if (!options->partitions)
        redis->options.partitions = usual_partitions(&options->url);
    redis->give_up.expired = give_up;
    redis->report.expired = report_waiting;
    bool random = getrandom(daemon, sizeof(daemon), 0) == sizeof(daemon);
    enum err err = !random ? ERR_IO
                           : script_space_init(&redis->space, bytes_str(options->prefix),
                                               redis->options.partitions, daemon);
    if (err) {
        (void)snprintf(out_error->text, sizeof(out_error->text), "%s",
                       err == ERR_INVALID ? "redis.prefix must be 1 to 64 bytes without { and }"
                                          : strerror(errno));
        script_space_fini(&redis->space);
        mem_free(redis);
        return err;
    }
    redis->space.db = options->url.db;
    redis->space.guessed = !options->partitions;
    redis->space.one_server = options->url.topology != REDIS_CLUSTER;
    redis->space.jobs_max = share_of(options->jobs_max, redis->options.partitions);
    redis->space.topics_max = options->topics_max; /* a topic may be in each partition */
    redis->space.journal_bytes = options->journal_bytes;
    redis->space.journal_job_bytes = options->journal_job_bytes;
    redis->space.journal_lag_us = options->journal_lag_us;
    redis->space.journal_detaches = options->journal_detaches;
    int64_t now_us = loop_update_time(options->loop);
    redis_make_parts(redis);
    redis->standby = redis->space.leaves_older = options->standby;
    if (!redis->standby)
        loop_arm(options->loop, &redis->give_up, now_us + OPEN_US);
    loop_arm(options->loop, &redis->report, now_us + OPEN_LOG_US);
    *out_redis = redis;
    return OK;
}

uint32_t redis_engine_queue_partitions(const struct redis_engine *redis)
{
    uint32_t queue = redis->preflight.queue_partitions;
    return redis->space.guessed && queue <= SCRIPT_PARTITIONS_MAX ? queue : 0;
}

uint32_t redis_engine_partitions(const struct redis_engine *redis)
{
    return redis->space.partitions;
}

void redis_engine_serve(struct redis_engine *redis)
{
    int64_t now_us = loop_update_time(redis->options.loop);
    redis->standby = redis->late = redis->preflight.serving = redis->space.leaves_older = false;
    redis->serves_after = redis->members.heartbeats + redis->members.heartbeats_pending;
    if (redis->preflight.fit) {
        partition_init_convert(&redis->partition_init);
        members_heartbeat(&redis->members);
        redis_journal_start(&redis->journal);
    }
    loop_arm(redis->options.loop, &redis->give_up, now_us + OPEN_US);
    loop_arm(redis->options.loop, &redis->report, now_us + OPEN_LOG_US);
}

/* All connections have a pointer to our URL. */
void redis_engine_log_in_as(struct redis_engine *redis, const struct redis_url *url)
{
    struct redis_url *own = &redis->options.url;
    memcpy(own->user, url->user, sizeof(own->user));
    memcpy(own->password, url->password, sizeof(own->password));
}

/* Others know of it. A partition may have been refused since: it, or others, may serve again. */
static bool is_known(const struct redis_engine *redis)
{
    const struct preflight *preflight = &redis->preflight;
    return preflight->fit && (!preflight->unfit || preflight->serving);
}

/* Gives back jobs that our connections hold, and has others take over our partitions. */
static void announce_leaving(struct redis_engine *redis)
{
    redis_requeue_leave(&redis->requeue);
    if (is_known(redis)) {
        redis_journal_leave(&redis->journal);
        promoter_leave(&redis->promoter);
        members_leave(&redis->members);
    }
    script_requests_leave(&redis->calls);
    partition_init_stop(&redis->partition_init);
    redis->leave_sent = true;
}

static void leave_until(struct redis_engine *redis, int64_t span_us)
{
    redis->late = false;
    loop_arm(redis->options.loop, &redis->give_up, now_of(redis) + span_us);
}

/* First waits for reserves under way: the jobs that they return must be given back, or they would
 * be reserved until their ttr ends. */
void redis_engine_leave(struct redis_engine *redis)
{
    redis->leaving = true;
    leave_until(redis, redis->options.timeout_us / 4);
}

bool redis_engine_left(struct redis_engine *redis)
{
    bool is_pending = is_known(redis) && (script_requests_pending(&redis->calls) ||
                                          redis_requeue_is_pending(&redis->requeue));
    if (!redis->leave_sent && (!is_pending || redis->late)) {
        announce_leaving(redis);
        leave_until(redis, redis->options.timeout_us / 4);
    }
    return redis->leave_sent &&
           (!(redis->promoter.leaving || redis->members.heartbeats_pending) || redis->late);
}

void redis_engine_free(struct redis_engine *redis)
{
    if (!redis)
        return;
    subscription_fini(&redis->subscription);
    topology_fini(&redis->topology);
    script_requests_fini(&redis->calls);
    redis_journal_fini(&redis->journal); /* script_requests_fini() has ended its reads */
    consumers_fini(&redis->consumers);
    redis_requeue_fini(&redis->requeue);
    settings_sync_fini(&redis->settings);
    promoter_fini(&redis->promoter);
    members_fini(&redis->members);
    partition_init_fini(&redis->partition_init);
    loop_cancel(redis->options.loop, &redis->give_up);
    loop_cancel(redis->options.loop, &redis->report);
    script_space_fini(&redis->space);
    arena_fini(&redis->scratch);
    command_forget_stats(redis);
    mem_free(redis->kicked.jobs);
    rates_fini(&redis->rates);
    mem_free(redis);
}

struct engine *redis_engine_port(struct redis_engine *redis)
{
    return &redis->engine;
}

struct restore *redis_engine_restore(struct redis_engine *redis)
{
    return redis_journal_restore(&redis->journal);
}

struct journal_control *redis_engine_journal_control(struct redis_engine *redis)
{
    return redis_journal_control(&redis->journal);
}
