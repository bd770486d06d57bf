/* Describes the engine: why it cannot serve, its metrics, and facts for /v1/stats. */
#include <stdio.h>
#include <string.h>

#include "base/rfc3339.h"
#include "engine/redis/engine_parts.h"
#include "port/stream.h"

enum { REFUSED_US = 1000 * 1000 }; /* an opening that is refused is tried again sooner */

/* ---- the reason ---- */

static unsigned unreached(const struct redis_engine *redis)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < redis->space.partitions; i++)
        count += !script_requests_is_open(&redis->calls, i);
    return count;
}

/* How much of an error text may be shown to clients. Our own texts, and those of the system and
 * of TLS, have no names. Redis' may have some: only the first word, the kind of the error, is
 * shown. */
static int public_len(const char *error)
{
    size_t word = strspn(error, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return (int)(word > 1 && error[word] == ' ' ? word : strlen(error));
}

/* "Redis is away since 2026-11-22T18:00:00.000Z: Connection refused". */
static void add_bad_node(struct buf *out, const struct node *node)
{
    buf_add_str(out, node->ready ? "Redis says \"not now\"" : "Redis is away");
    int64_t since_us = node->ready ? node->stalled_us : node->since_us;
    if (since_us) {
        buf_add_str(out, " since ");
        rfc3339_add(out, since_us);
    }
    if (node->link.error[0])
        buf_addf(out, ": %.*s", public_len(node->link.error), node->link.error);
}

static void add_no_master(struct buf *out, const char *error)
{
    buf_addf(out, "no sentinel names a master: %.*s", public_len(error), error);
}

static void add_reason(const struct redis_engine *redis, struct buf *out)
{
    const struct node *node = topology_bad_node(&redis->topology);
    unsigned count = unreached(redis);
    bool speaks = node && (!node->ready || node->stalled_logged);
    if (speaks)
        add_bad_node(out, node);
    else if (count && redis->topology.node_count == 0)
        add_no_master(out, topology_error(&redis->topology)->error);
    else if (redis->preflight.stray)
        buf_add_str(out, "a key of the queue is none of laterd's: the log has redis_unfit");
    else if (count && redis->topology.left_out)
        buf_addf(out, "the cluster has more than %d masters: the log has redis_too_many_masters",
                 REDIS_NODES_MAX);
    else if (count)
        buf_addf(out, "%u of %u partitions of the queue have not answered yet", count,
                 redis->space.partitions);
    else if (redis->preflight.evicts)
        buf_add_str(out, "Redis may evict keys: set its maxmemory-policy to noeviction");
    else if (redis->settings.lost)
        buf_add_str(out, "the settings of topics were lost: set them again");
    else if (redis->partition_init.rebuilding)
        buf_add_str(out, "a part of the queue that Redis lost is put back");
    else if (script_requests_lacks_replicas(&redis->calls, 0))
        buf_addf(out, "fewer than redis.wait_replicas = %u replicas have the last change",
                 redis->options.wait_replicas);
}

bool redis_reason(const struct redis_engine *redis, struct redis_error *out_reason)
{
    struct buf text = {0};
    add_reason(redis, &text);
    if (text.len)
        (void)snprintf(out_reason->text, sizeof(out_reason->text), "%.*s", (int)text.len, text.at);
    bool known = text.len > 0;
    buf_fini(&text);
    return known;
}

const char *redis_reason_of_turn(struct redis_engine *redis)
{
    int64_t now_us = redis->options.loop->now_us;
    if (redis->reason_us != now_us)
        redis->has_reason = redis_reason(redis, &redis->reason);
    redis->reason_us = now_us;
    return redis->has_reason ? redis->reason.text : NULL;
}

/* NULL: none was refused in the last moment. */
static const struct script_refusal *last_refusal(const struct redis_engine *redis)
{
    const struct script_refusal *last = &redis->calls.refusal;
    bool lately = last->by && redis->options.loop->now_us - last->us < REFUSED_US;
    return lately && unreached(redis) ? last : NULL;
}

/* A cluster's map may have rows that cannot be read, or masters that are too many: then no server
 * is wrong, and none is asked. Returns the server whose map lacks a partition's master, and writes
 * why; NULL: each partition has one. */
static const struct link *without_master(const struct redis_engine *redis, const char *silent,
                                         char *why, size_t cap)
{
    const struct topology *topology = &redis->topology;
    if (redis->options.url.topology != REDIS_CLUSTER || !topology->node_count)
        return NULL;
    for (uint32_t i = 0; i < redis->space.partitions; i++) {
        unsigned slot = redis->calls.partitions[i].slot;
        if (topology->slots[slot] != REDIS_NO_NODE)
            continue;
        if (topology->questions[topology->map_place].pending)
            (void)snprintf(why, cap, "%s", silent);
        else if (topology->left_out)
            (void)snprintf(why, cap, "the cluster has more than %d masters", REDIS_NODES_MAX);
        else
            (void)snprintf(why, cap,
                           "its CLUSTER SLOTS has no master of slot %u with an address "
                           "that laterd can use",
                           slot);
        return &topology->nodes[topology->map_place].link;
    }
    return NULL;
}

void redis_why_waits(const struct redis_engine *redis, struct redis_error *out_error)
{
    char room[REDIS_HOST_MAX + 8], cause[REDIS_ERROR_MAX], map_text[REDIS_ERROR_MAX];
    const char *silent = redis->options.url.tls ? STREAM_TLS_SLOW : "it does not answer";
    const struct link *link = topology_error(&redis->topology);
    const struct script_refusal *refusal = link ? NULL : last_refusal(redis);
    const struct link *mapless =
        link || refusal ? NULL : without_master(redis, silent, map_text, sizeof(map_text));
    if (mapless)
        link = mapless;
    else if (refusal)
        link = &refusal->by->link;
    else if (!link)
        link = subscription_error(&redis->subscription);
    const char *error = mapless ? map_text : refusal ? refusal->text : link->error;
    struct bytes name = redis_address_text(&link->address, room, sizeof(room));
    failure_write(error[0] ? error : silent, cause, sizeof(cause));
    (void)snprintf(out_error->text, sizeof(out_error->text), "%.*s: %.300s", (int)name.len, name.at,
                   cause);
}

void redis_why_refused(const struct cmd *cmd, struct redis_error *out_reason)
{
    struct buf text = {0};
    if (cmd->kind == CMD_RESERVE) {
        buf_addf(&text, "a reserve on Redis names up to %u topics", (unsigned)SCRIPT_TOPICS_MAX);
    } else {
        buf_add_str(&text, "due at ");
        rfc3339_add(&text, cmd->kind == CMD_PUSH ? cmd->push.due_us : cmd->job.due_us);
        buf_add_str(&text, "; the latest due time on Redis is ");
        rfc3339_add(&text, SCRIPT_FOREVER - 1);
    }
    (void)snprintf(out_reason->text, sizeof(out_reason->text), "%.*s", (int)text.len, text.at);
    buf_fini(&text);
}

/* ---- metrics ---- */

/* How long all needed servers have been taking commands; 0: one does not. */
static int64_t connected_us(const struct redis_engine *redis)
{
    const struct topology *topology = &redis->topology;
    int64_t since_us = 0;
    if (unreached(redis))
        return 0;
    for (unsigned i = 0; i < topology->node_count; i++) {
        const struct node *node = &topology->nodes[i];
        if (node->ready && node->since_us > since_us)
            since_us = node->since_us;
    }
    return redis->options.loop->now_us - since_us;
}

static int64_t stats_age_us(const struct redis_engine *redis)
{
    return redis->stats_us ? redis->options.loop->now_us - redis->stats_us : 0;
}

static void describe_metrics(const struct redis_engine *redis, struct metric_sink *sink)
{
    const struct link_counts *counts = &redis->topology.counts;
    struct durations trips = {counts->round_trips, LINK_TIMES, link_counts_bound_us,
                              counts->round_trips_us};
    unsigned nodes = 0;
    for (unsigned i = 0; i < redis->topology.node_count; i++)
        nodes += redis->topology.nodes[i].ready;
    metric_gauge(sink, "redis_connected", "1 if every partition of the queue is reached.",
                 !unreached(redis));
    metric_gauge(sink, "redis_connected_seconds",
                 "For how long the servers have all been connected.",
                 (uint64_t)(connected_us(redis) / 1000000));
    metric_gauge(sink, "redis_servers", "Redis servers that take commands.", nodes);
    metric_counter(sink, "redis_connects_total", "Connections to servers that took commands.",
                   counts->connects);
    metric_counter(sink, "redis_losses_total", "Those of them that have ended.", counts->losses);
    sink->metric(sink, &(struct metric){.name = "redis_round_trip_seconds",
                                        .help = "From a command to its reply from Redis.",
                                        .type = METRIC_HISTOGRAM,
                                        .durations = &trips});
    metric_gauge(sink, "redis_stats_age_seconds", "How old the sums over all topics are.",
                 (uint64_t)(stats_age_us(redis) / 1000000));
}

void redis_describe(const struct redis_engine *redis, struct metric_sink *sink)
{
    struct redis_error reason;
    if (sink->fact) {
        sink->fact(sink, &(struct fact){.name = "kind", .type = FACT_TEXT, .text = "shared"});
        sink->fact(sink, &(struct fact){.name = "stats_age_ms",
                                        .type = FACT_DURATION,
                                        .value = (uint64_t)stats_age_us(redis)});
    }
    if (sink->metric)
        describe_metrics(redis, sink);
    redis_journal_describe(&redis->journal, sink);
    if (sink->reason && redis_reason(redis, &reason))
        sink->reason(sink, reason.text);
}
