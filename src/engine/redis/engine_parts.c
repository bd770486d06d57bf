/*
 * Makes the engine's parts, and passes events between them: a part knows no other one that is not
 * among its options. Which event concerns whom is said here alone.
 */
#include "engine/redis/engine_parts.h"

#include "base/log.h"
#include "base/mem.h"

enum {
    ALIVE_US = 5 * 1000 * 1000, /* a daemon without a heartbeat for this long is dead */
    BELIEVE_US = 1000 * 1000,   /* see consumers_options::believe_us */
};

bool redis_reaches_all(const struct redis_engine *redis)
{
    bool all = true;
    for (uint32_t i = 0; i < redis->space.partitions; i++)
        all = all && script_requests_is_open(&redis->calls, i);
    return all;
}

/* ---- events ---- */

static void server_is_fit(void *owner)
{
    struct redis_engine *redis = owner;
    if (redis->leave_sent)
        return; /* others forget us now: nothing may be left there any more */
    partition_init_start(&redis->partition_init);
    if (!redis->members.started)
        members_start(&redis->members);
    if (!redis->standby)
        redis_journal_start(&redis->journal);
}

static void node_ready(struct topology_callbacks *callbacks, struct node *node)
{
    struct redis_engine *redis = LIST_ENTRY(callbacks, struct redis_engine, topology_callbacks);
    preflight_check_node(&redis->preflight, node);
    script_requests_node_ready(&redis->calls, node);
    partition_init_moved(&redis->partition_init);
    subscription_look(&redis->subscription);
    /* It may have been a replica, without our last marks. */
    consumers_forget(&redis->consumers);
}

static void node_lost(struct topology_callbacks *callbacks, struct node *node)
{
    struct redis_engine *redis = LIST_ENTRY(callbacks, struct redis_engine, topology_callbacks);
    preflight_node_lost(&redis->preflight, node);
    subscription_lost(&redis->subscription, &node->link.address);
    script_requests_node_lost(&redis->calls, node);
}

static void slots_moved(struct topology_callbacks *callbacks)
{
    struct redis_engine *redis = LIST_ENTRY(callbacks, struct redis_engine, topology_callbacks);
    script_requests_moved(&redis->calls);
    partition_init_moved(&redis->partition_init);
    subscription_look(&redis->subscription);
}

static void partition_to_open(void *owner, uint32_t partition)
{
    partition_init_look(&((struct redis_engine *)owner)->partition_init, partition);
}

static void sentinel_refused(struct topology_callbacks *callbacks, const struct link *link)
{
    preflight_lost(&LIST_ENTRY(callbacks, struct redis_engine, topology_callbacks)->preflight,
                   link);
}

static void partition_refused(void *owner, uint32_t stored)
{
    struct redis_engine *redis = owner;
    preflight_refuse_queue(&redis->preflight, stored);
}

static void key_refused(void *owner, struct bytes key)
{
    struct redis_engine *redis = owner;
    preflight_refuse_key(&redis->preflight, key);
}

static void key_lost(void *owner, uint32_t partition, bool is_set)
{
    struct redis_engine *redis = owner;
    if (is_set)
        partition_init_rebuild(&redis->partition_init, partition);
    else
        partition_init_missing(partition);
}

/* Notes the policy of partition 0's server, from a heartbeat, and reads those of the others. */
static void look_at_policies(struct redis_engine *redis, struct bytes policy)
{
    struct node *nodes[REDIS_NODES_MAX];
    const struct node *first = script_requests_node(&redis->calls, 0);
    uint32_t count = 0;
    bool all = true;
    if (first)
        preflight_policy(&redis->preflight, &first->link.address, policy);
    for (uint32_t i = 0; i < redis->space.partitions; i++) {
        struct node *node = script_requests_node(&redis->calls, i);
        all = all && node;
        if (node && node != first)
            preflight_look(&redis->preflight, node);
        for (uint32_t n = 0; node && n < count; n++)
            node = nodes[n] == node ? NULL : node;
        if (node)
            nodes[count++] = node;
    }
    if (all)
        preflight_keep_policies(&redis->preflight, nodes, count);
}

static void heartbeat_answered(void *owner, const struct heartbeat_answer *answer)
{
    struct redis_engine *redis = owner;
    redis->journal_behind = answer->journal_behind;
    settings_sync_heartbeat(&redis->settings, answer->settings_changes);
    if (answer->policy)
        look_at_policies(redis, *answer->policy);
    promoter_check(&redis->promoter);
}

/* The server may lack the last changes, so our plans for the partition may be wrong. */
static void partition_opened(void *owner, uint32_t partition, bool buckets_checked)
{
    struct redis_engine *redis = owner;
    promoter_opened(&redis->promoter, partition, buckets_checked);
    if (partition == 0) {
        settings_sync_opened(&redis->settings);
        members_note_opened(&redis->members);
    }
    if (redis->preflight.stray && redis_reaches_all(redis))
        preflight_accept_keys(&redis->preflight);
}

static void partition_forgot_us(void *owner)
{
    consumers_forget(&((struct redis_engine *)owner)->consumers);
}

static void clock_leapt(void *owner)
{
    struct redis_engine *redis = owner;
    promoter_look(&redis->promoter);
    consumers_forget(&redis->consumers);
}

static void looks_at_partition(void *owner, uint32_t partition)
{
    promoter_help(&((struct redis_engine *)owner)->promoter, partition);
}

static void promote_sent(void *owner, uint32_t partition)
{
    consumers_promoting(&((struct redis_engine *)owner)->consumers, partition);
}

static void jobs_promoted(void *owner, struct bytes topic, uint32_t partition)
{
    consumers_promoted(&((struct redis_engine *)owner)->consumers, topic, partition);
}

static void given_back(void *owner, const struct job_view *job, uint32_t partition)
{
    struct redis_engine *redis = owner;
    if (job->state == JOB_READY)
        consumers_see(&redis->consumers, job, partition, true);
}

static bool we_serve(void *owner)
{
    const struct redis_engine *redis = owner;
    return !redis->standby && redis_reaches_all(redis);
}

static void journal_given_up(void *owner, uint32_t partition)
{
    partition_init_again(&((struct redis_engine *)owner)->partition_init, partition);
}

/* Other daemons may have given back jobs that our connections held, and deleted answers kept for
 * us: registers in every partition again. */
static void we_were_silent(void *owner, int64_t silent_us)
{
    struct redis_engine *redis = owner;
    log_event(LOG_WARN, "redis_silent", "ms=%lld hint=\"%s\"", (long long)(silent_us / 1000),
              "others may have given back what clients of beanstalkd held here");
    for (uint32_t i = 0; i < redis->space.partitions; i++)
        partition_init_again(&redis->partition_init, i);
}

static void members_changed(void *owner)
{
    struct redis_engine *redis = owner;
    promoter_members_changed(&redis->promoter);
    subscription_look(&redis->subscription);
}

/* How long a silent daemon counts as alive: longer than a request can be sent again, because the
 * answers kept for a dead one are deleted. */
static int64_t alive_us(const struct redis_options *options)
{
    int64_t least_us = options->timeout_us + 2 * MEMBERS_HEARTBEAT_US;
    return least_us > ALIVE_US ? least_us : ALIVE_US;
}

/* ---- making them ---- */

/* Initialises the parts that connect to servers and send requests. */
static void make_client(struct redis_engine *redis)
{
    const struct redis_options *options = &redis->options;
    rates_init(&redis->rates);
    redis->topology_callbacks = (struct topology_callbacks){
        .ready = node_ready, .lost = node_lost, .moved = slots_moved, .refused = sentinel_refused};
    preflight_init(&redis->preflight,
                   &(struct preflight_options){.url = &options->url,
                                               .space = &redis->space,
                                               .wait_replicas = options->wait_replicas > 0,
                                               .fit = server_is_fit,
                                               .owner = redis});
    topology_init(&redis->topology,
                  &(struct topology_options){.url = &options->url,
                                             .callbacks = &redis->topology_callbacks,
                                             .sentinel_user = options->sentinel_user,
                                             .sentinel_password = options->sentinel_password,
                                             .tls = options->tls,
                                             .loop = options->loop,
                                             .ended = options->connection_ended,
                                             .owner = options->owner,
                                             .timeout_us = options->timeout_us});
    script_requests_init(&redis->calls, &(struct script_requests_options){
                                            .space = &redis->space,
                                            .topology = &redis->topology,
                                            .loop = options->loop,
                                            .timeout_us = options->timeout_us,
                                            .wait_replicas = options->wait_replicas,
                                            .apart = options->url.topology == REDIS_CLUSTER,
                                            .to_open = partition_to_open,
                                            .clock_leapt = clock_leapt,
                                            .owner = redis});
}

/* Initialises the parts that own partitions, promote jobs and follow changes. */
static void make_owners(struct redis_engine *redis)
{
    partition_init_init(&redis->partition_init,
                        &(struct partition_init_options){.space = &redis->space,
                                                         .calls = &redis->calls,
                                                         .loop = redis->options.loop,
                                                         .refused = partition_refused,
                                                         .stray = key_refused,
                                                         .opened = partition_opened,
                                                         .forgotten = partition_forgot_us,
                                                         .owner = redis});
    members_init(&redis->members,
                 &(struct members_options){.space = &redis->space,
                                           .calls = &redis->calls,
                                           .loop = redis->options.loop,
                                           .alive_us = alive_us(&redis->options),
                                           .serves = we_serve,
                                           .heartbeat_answered = heartbeat_answered,
                                           .missed = we_were_silent,
                                           .changed = members_changed,
                                           .owner = redis});
    promoter_init(&redis->promoter,
                  &(struct promoter_options){.space = &redis->space,
                                             .calls = &redis->calls,
                                             .loop = redis->options.loop,
                                             .members = &redis->members,
                                             .subscribed = redis->consumers.subscribed,
                                             .believe_us = BELIEVE_US,
                                             .promoting = promote_sent,
                                             .promoted = jobs_promoted,
                                             .lost = key_lost,
                                             .missed = partition_forgot_us,
                                             .owner = redis});
    settings_sync_init(&redis->settings,
                       &(struct settings_sync_options){.space = &redis->space,
                                                       .calls = &redis->calls,
                                                       .loop = redis->options.loop});
    redis_journal_init(&redis->journal,
                       &(struct journal_feed_options){.space = &redis->space,
                                                      .calls = &redis->calls,
                                                      .loop = redis->options.loop,
                                                      .maker = redis->options.journal,
                                                      .label = redis->options.label,
                                                      .given_up = journal_given_up,
                                                      .owner = redis});
    redis_requeue_init(&redis->requeue, &(struct redis_requeue_options){.space = &redis->space,
                                                                        .calls = &redis->calls,
                                                                        .loop = redis->options.loop,
                                                                        .returned = given_back,
                                                                        .owner = redis});
}

void redis_make_parts(struct redis_engine *redis)
{
    const struct redis_options *options = &redis->options;
    make_client(redis);
    redis->kicked.jobs = mem_zalloc(redis->space.partitions * sizeof(uint32_t));
    consumers_init(&redis->consumers,
                   &(struct consumers_options){.space = &redis->space,
                                               .calls = &redis->calls,
                                               .loop = options->loop,
                                               .waiters_max = options->waiters_max,
                                               .timeout_us = options->timeout_us,
                                               .believe_us = BELIEVE_US,
                                               .looking = looks_at_partition,
                                               .give_back = command_give_back,
                                               .damaged = command_bury_damaged,
                                               .owner = redis});
    make_owners(redis);
    subscription_init(&redis->subscription,
                      &(struct subscription_options){.space = &redis->space,
                                                     .topology = &redis->topology,
                                                     .consumers = &redis->consumers,
                                                     .partition_init = &redis->partition_init,
                                                     .members = &redis->members,
                                                     .promoter = &redis->promoter,
                                                     .preflight = &redis->preflight,
                                                     .link = {.loop = options->loop,
                                                              .user = options->url.user,
                                                              .password = options->url.password,
                                                              .db = options->url.db,
                                                              .tls = options->tls,
                                                              .ended = options->connection_ended,
                                                              .owner = options->owner,
                                                              .timeout_us = options->timeout_us}});
}
