/*
 * Owns the connections and one `struct push` for each command whose reply is pending.
 *
 *     send ▶ waiting ▶ sent (its command is in a link) ▶ reply ▶ done
 *     waiting ─its slot has no server─▶ put off ─a little later─▶ waiting
 *     sent ─MOVED, ASK─▶ waiting, ─TRYAGAIN─▶ put off
 *     sent, put off ─stop()─▶ waiting ─▶ done: UNSENT
 *
 * Invariants: a push is in `waiting` or `put_off`, or its call is in a link. One whose delivery has
 * ended already (time-out, close) has no delivery, and is freed with its call. The links hold at
 * most WINDOW_BYTES plus one delivery. `done` is never called from send(), but by a timer or a
 * reply.
 */
#include "sink/redis_sink.h"

#include <stdio.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/rfc3339.h"
#include "client/redis/resp.h"
#include "client/redis/topology.h"
#include "sink/headers.h"

enum {
    WINDOW_BYTES = 4 * 1024 * 1024, /* of commands whose replies are pending */
    EACH_BYTES = 512,               /* estimated size of a command's words and our headers */
    TURN_MAX = 256,                 /* deliveries that are sent or ended in one turn, … */
    TURN_BYTES = 512 * 1024,        /* … and bytes that are copied for them, besides the last */
    AGAIN_US = 20 * 1000,           /* before a slot that is moving is tried again */
    REST_US = 100 * 1000,           /* "not now" */
    REST_MAX_US = 5000 * 1000,
};

#define ENDING "laterd is ending"

struct redis_sink {
    struct sink sink;
    struct redis_sink_options options;
    struct redis_url url;
    char *name;
    struct topology_callbacks callbacks;
    struct topology topology;
    struct list waiting; // push::place
    struct list put_off; // push::place; `again` brings them back to `waiting`
    struct list sent;    // push::place
    size_t sent_bytes;
    uint64_t in_flight; /* pushes that have a delivery */
    struct timer work;  /* armed: send what waits, end deliveries */
    struct timer again; /* armed: some pushes are put off */
    struct timer rest;  /* armed: Redis refuses all commands for now: see rest() */
    int64_t rest_us;    /* how long the next rest is */
    bool was_ready;     /* as reported last */
    bool closing;       /* since stop(): nothing is sent, there are no connections */
    char rest_why[OUTCOME_REASON_MAX];
    char why[OUTCOME_REASON_MAX];
};

struct push {
    struct link_call call, asking; /* `asking`: of the ASKING before it */
    struct list place;             // redis_sink::waiting, ::put_off or ::sent
    struct redis_sink *owner;
    struct node *node;         /* sent: to where */
    struct delivery *delivery; /* NULL: its outcome was reported */
    struct timer late;
    int64_t begun_us;
    size_t bytes;
    bool tried; /* it was sent, perhaps to a server that does not have its slot */
    bool asks;  /* waiting: to be sent after ASKING, to `ask_at` */
    struct redis_address ask_at;
};

static struct redis_sink *self(const struct sink *sink)
{
    return LIST_ENTRY(sink, struct redis_sink, sink);
}

static struct loop *loop_of(const struct redis_sink *redis)
{
    return redis->options.loop;
}

/* ---- readiness ---- */

static bool is_ready(struct redis_sink *redis)
{
    return !redis->closing && !timer_is_armed(&redis->rest) && topology_any(&redis->topology);
}

static void look_whether_ready(struct redis_sink *redis)
{
    bool ready = is_ready(redis);
    if (ready == redis->was_ready)
        return;
    redis->was_ready = ready;
    if (redis->sink.changed && !redis->closing)
        redis->sink.changed(&redis->sink);
}

/* Why nothing is sent now: the last refusal, or why there is no connection. */
static const char *why_not(struct redis_sink *redis)
{
    if (redis->closing)
        return ENDING;
    const struct link *link = topology_error(&redis->topology);
    if (timer_is_armed(&redis->rest))
        return redis->rest_why;
    if (link && link->error[0])
        (void)snprintf(redis->why, sizeof(redis->why), "Redis is away: %s", link->error);
    else
        (void)snprintf(redis->why, sizeof(redis->why), "Redis is not connected yet");
    return redis->why;
}

static bool sink_ready(const struct sink *sink, const char **out_why)
{
    struct redis_sink *redis = self(sink);
    bool ready = is_ready(redis);
    if (!ready && out_why)
        *out_why = why_not(redis);
    return ready;
}

/* ---- outcomes ---- */

static void free_push(struct push *push)
{
    list_remove(&push->place);
    loop_cancel(loop_of(push->owner), &push->late);
    mem_free(push);
}

static void report(struct push *push, enum outcome_kind kind, bool unhealthy, const char *reason)
{
    struct redis_sink *redis = push->owner;
    struct delivery *delivery = push->delivery;
    if (!delivery)
        return;
    struct outcome outcome = {.kind = kind,
                              .unhealthy = unhealthy,
                              .untried = kind == OUTCOME_REFUSED, /* as of other brokers */
                              .retry_after_us = -1,
                              .took_us = loop_of(redis)->now_us - push->begun_us,
                              .address = bytes_str(redis->name),
                              .reason = bytes_str(reason)};
    push->delivery = NULL;
    redis->in_flight--;
    loop_cancel(loop_of(redis), &push->late);
    delivery->done(delivery, &outcome);
}

static void be_late(struct timer *timer)
{
    struct push *push = LIST_ENTRY(timer, struct push, late);
    struct redis_sink *redis = push->owner;
    bool sent = push->node != NULL;
    if (redis->closing)
        return; /* `work` reports it */
    if (push->tried)
        report(push, OUTCOME_FAILED, true,
               sent ? "Redis did not answer in time" : "it could not be sent to Redis in time");
    else
        report(push, OUTCOME_UNSENT, true, "no server of Redis had room for it in time");
    if (!sent)
        free_push(push);
    look_whether_ready(redis);
}

static void put_off(struct push *push)
{
    struct redis_sink *redis = push->owner;
    list_remove(&push->place);
    list_add_tail(&redis->put_off, &push->place);
    loop_arm_by(loop_of(redis), &redis->again, loop_of(redis)->now_us + AGAIN_US);
}

/* Moves the put-off pushes to the front of `waiting`: they are older than the others there. */
static void bring_back(struct redis_sink *redis)
{
    while (!list_empty(&redis->put_off)) {
        struct list *place = redis->put_off.prev;
        list_remove(place);
        list_add_head(&redis->waiting, place);
    }
    loop_cancel(loop_of(redis), &redis->again);
    if (!list_empty(&redis->waiting))
        loop_arm_by(loop_of(redis), &redis->work, loop_of(redis)->now_us);
}

static void try_again(struct timer *timer)
{
    bring_back(LIST_ENTRY(timer, struct redis_sink, again));
}

static void wait_again(struct push *push)
{
    struct redis_sink *redis = push->owner;
    list_remove(&push->place);
    list_add_tail(&redis->waiting, &push->place);
    loop_arm_by(loop_of(redis), &redis->work, loop_of(redis)->now_us);
}

/* Queues the push again: the server no longer has its slot, or (`later`) cannot serve it now. */
static void send_again(struct push *push, bool later)
{
    if (!push->delivery)
        free_push(push);
    else if (later)
        put_off(push);
    else
        wait_again(push);
}

/* Redis refuses the command for a reason that holds for all commands: sends nothing for a while. */
static void rest(struct redis_sink *redis, const char *error)
{
    (void)snprintf(redis->rest_why, sizeof(redis->rest_why), "Redis takes nothing now: %s", error);
    if (timer_is_armed(&redis->rest))
        return;
    loop_arm(loop_of(redis), &redis->rest, loop_of(redis)->now_us + redis->rest_us);
    redis->rest_us = backoff_after(redis->rest_us, REST_MAX_US);
    loop_arm_by(loop_of(redis), &redis->work, loop_of(redis)->now_us); /* reports what waits */
    look_whether_ready(redis);
}

static void rested(struct timer *timer)
{
    look_whether_ready(LIST_ENTRY(timer, struct redis_sink, rest));
}

static bool has_words(const char *text, const char *words)
{
    return strstr(text, words) != NULL;
}

/* "MOVED 1 ?:6379": the node of this one slot has no name that could be connected to. */
static bool is_nameless(const struct redis_sink *redis, const char *error)
{
    bool redirects = strncmp(error, "MOVED ", 6) == 0 || strncmp(error, "ASK ", 4) == 0;
    return redirects && redis->url.topology == REDIS_CLUSTER;
}

/* Nothing was done for this push, which is no fault of its job; those for other slots go on. */
static void refused_for_its_slot(struct push *push, struct node *node, const char *error)
{
    struct redis_sink *redis = push->owner;
    char reason[OUTCOME_REASON_MAX];
    topology_suspect(&redis->topology, node); /* its map is asked for */
    (void)snprintf(reason, sizeof(reason), "the cluster names no server of its slot: %s", error);
    report(push, OUTCOME_UNSENT, true, reason);
    free_push(push);
}

/* Redis refuses all commands of this sink for this reason, until an operator corrects it. */
static void refused_for_now(struct push *push, struct node *node, const struct failure *failure,
                            const char *error)
{
    struct redis_sink *redis = push->owner;
    if (failure->kind == FAILURE_NO_MASTER)
        (void)topology_moved(&redis->topology, node, failure);
    else if (failure->kind == FAILURE_CLUSTER_DOWN)
        topology_suspect(&redis->topology, node);
    rest(redis, error);
    report(push, OUTCOME_UNSENT, false, redis->rest_why);
    free_push(push);
}

static void refused(struct push *push, struct node *node, const char *error)
{
    struct redis_sink *redis = push->owner;
    struct failure failure = failure_read(bytes_str(error));
    bool too_large = has_words(error, "proto-max-bulk-len") || has_words(error, "bulk length") ||
                     has_words(error, "exceeds maximum allowed");
    char reason[OUTCOME_REASON_MAX];
    switch (failure.kind) {
    case FAILURE_MOVED:
        if (redis->url.topology != REDIS_CLUSTER)
            break;
        send_again(push, !topology_moved(&redis->topology, node, &failure));
        return;
    case FAILURE_ASK:
        if (redis->url.topology != REDIS_CLUSTER)
            break;
        push->asks = true;
        push->ask_at = failure.address;
        if (!push->ask_at.host[0]) /* an empty host means that of the node which answered */
            memcpy(push->ask_at.host, node->link.address.host, sizeof(push->ask_at.host));
        send_again(push, false);
        return;
    case FAILURE_LATER:
        if (has_words(error, "TRYAGAIN"))
            send_again(push, true);
        else if (is_nameless(redis, error))
            refused_for_its_slot(push, node, error);
        else
            refused_for_now(push, node, &failure, error);
        return;
    case FAILURE_CLUSTER_DOWN:
        if (is_nameless(redis, error))
            refused_for_its_slot(push, node, error);
        else
            refused_for_now(push, node, &failure, error);
        return;
    case FAILURE_NO_MASTER:
    case FAILURE_FULL: refused_for_now(push, node, &failure, error); return;
    case FAILURE_WRONG_TYPE:
    case FAILURE_DENIED:
    case FAILURE_NO_SCRIPT:
    case FAILURE_OTHER: break;
    }
    (void)snprintf(reason, sizeof(reason), "Redis refused it: %s%s", error,
                   failure.kind == FAILURE_MOVED || failure.kind == FAILURE_ASK
                       ? ": it is a cluster, write redis+cluster:// in the broker's url"
                       : "");
    report(push, failure.kind == FAILURE_WRONG_TYPE || too_large ? OUTCOME_REFUSED : OUTCOME_FAILED,
           false, reason);
    free_push(push);
}

static void answered(struct link_call *call, redisReply *reply)
{
    struct push *push = LIST_ENTRY(call, struct push, call);
    struct redis_sink *redis = push->owner;
    struct node *node = push->node;
    push->node = NULL;
    redis->sent_bytes -= push->bytes;
    if (redis->closing) {
        send_again(push, false); /* it then ends as UNSENT */
    } else if (!reply) {
        char reason[OUTCOME_REASON_MAX];
        (void)snprintf(reason, sizeof(reason), "the connection to Redis ended: %s",
                       node->link.error);
        report(push, OUTCOME_UNSENT, false, reason);
        free_push(push);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        refused(push, node, reply->str);
    } else {
        redis->rest_us = REST_US;
        report(push, OUTCOME_DELIVERED, false, "");
        free_push(push);
    }
    if (reply)
        freeReplyObject(reply);
    if (!list_empty(&redis->waiting))
        loop_arm_by(loop_of(redis), &redis->work, loop_of(redis)->now_us);
}

static void asking_answered(struct link_call *call, redisReply *reply)
{
    (void)call; /* the answer to ASKING; the push behind it has an answer of its own */
    if (reply)
        freeReplyObject(reply);
}

/* ---- the command ---- */

static void write_list(struct buf *out, const struct delivery *delivery)
{
    resp_begin(out, 3);
    resp_add_str(out, "LPUSH");
    resp_add(out, delivery->target->redis.key);
    resp_add(out, delivery->body);
}

static void add_field(struct buf *out, const char *name, struct bytes value)
{
    resp_add_str(out, name);
    resp_add(out, value);
}

static void add_headers(struct buf *out, const struct sink_headers *headers)
{
    struct buf name = {0};
    for (unsigned i = headers->own_count; i < headers->count; i++) {
        name.len = 0;
        buf_add_str(&name, "header:");
        buf_add_bytes(&name, headers->all[i].name);
        resp_add(out, buf_bytes(&name));
        resp_add(out, headers->all[i].value);
    }
    buf_fini(&name);
}

static unsigned label_count(const struct delivery *delivery)
{
    unsigned count = 0;
    for (enum delivery_label i = 0; i < DELIVERY_LABELS; i++)
        count += delivery->labels[i].len ? 1u : 0u;
    return count;
}

static void add_labels(struct buf *out, const struct delivery *delivery)
{
    static const char *const names[DELIVERY_LABELS] = {
        [DELIVERY_BIZ_KEY] = "biz_key",
        [DELIVERY_SUBTOPIC] = "subtopic",
        [DELIVERY_TAGS] = "tags",
        [DELIVERY_EXTEND_DATA] = "extend_data",
    };
    for (enum delivery_label i = 0; i < DELIVERY_LABELS; i++) {
        if (delivery->labels[i].len)
            add_field(out, names[i], delivery->labels[i]);
    }
}

static void write_stream(struct buf *out, const struct delivery *delivery)
{
    const struct target_redis *target = &delivery->target->redis;
    unsigned fields = (delivery->key.len ? 8u : 7u) + label_count(delivery);
    struct sink_headers headers;
    struct buf due = {0};
    sink_headers_make(&headers, delivery);
    rfc3339_add(&due, delivery->due_us);
    fields += headers.count - headers.own_count;
    resp_begin(out, (target->maxlen ? 6u : 3u) + 2 * fields);
    resp_add_str(out, "XADD");
    resp_add(out, target->key);
    if (target->maxlen) {
        resp_add_str(out, "MAXLEN");
        resp_add_str(out, "~");
        resp_add_u64(out, target->maxlen);
    }
    resp_add_str(out, "*");
    add_field(out, "body", delivery->body);
    add_field(out, "id", delivery->id);
    add_field(out, "topic", delivery->topic);
    add_field(out, "message_id", delivery->message_id);
    add_field(out, "content_type", sink_content_type(delivery));
    resp_add_str(out, "attempt");
    resp_add_u64(out, delivery->attempt);
    add_field(out, "due", buf_bytes(&due));
    if (delivery->key.len)
        add_field(out, "key", delivery->key);
    add_labels(out, delivery);
    add_headers(out, &headers);
    buf_fini(&due);
}

static void send_to(struct push *push, struct node *node)
{
    struct redis_sink *redis = push->owner;
    const struct delivery *delivery = push->delivery;
    struct buf *out = link_out(&node->link);
    if (push->asks) {
        resp_begin(out, 1);
        resp_add_str(out, "ASKING");
        link_expect(&node->link, &push->asking);
        push->asks = false;
    }
    if (delivery->target->redis.kind == TARGET_REDIS_STREAM)
        write_stream(out, delivery);
    else
        write_list(out, delivery);
    link_expect(&node->link, &push->call);
    push->node = node;
    push->tried = true;
    list_remove(&push->place);
    list_add_tail(&redis->sent, &push->place);
    redis->sent_bytes += push->bytes;
    link_flush_early(&node->link);
}

static struct node *node_for(struct push *push)
{
    struct topology *topology = &push->owner->topology;
    if (push->asks)
        return topology_at(topology, &push->ask_at);
    return topology_node(topology, topology_slot(push->delivery->target->redis.key));
}

/* Sends what waits, oldest first. A push without a server is put off while other servers are
   connected (a cluster that moves slots); without any server it is UNSENT. */
static void send_waiting(struct timer *timer)
{
    struct redis_sink *redis = LIST_ENTRY(timer, struct redis_sink, work);
    bool ready = is_ready(redis);
    unsigned left = TURN_MAX;
    size_t bytes = 0;
    while (!list_empty(&redis->waiting) && redis->sent_bytes < WINDOW_BYTES && left &&
           bytes < TURN_BYTES) {
        struct push *push = LIST_ENTRY(redis->waiting.next, struct push, place);
        struct node *node = ready ? node_for(push) : NULL;
        left--;
        if (node) {
            bytes += push->bytes;
            send_to(push, node);
        } else if (ready) {
            put_off(push);
        } else {
            report(push, OUTCOME_UNSENT, false, why_not(redis));
            free_push(push);
        }
    }
    if ((!left || bytes >= TURN_BYTES) && !list_empty(&redis->waiting)) /* not in this turn */
        loop_arm_by(loop_of(redis), &redis->work, loop_of(redis)->now_us + 1);
    if (!redis->closing)
        topology_flush(&redis->topology);
    look_whether_ready(redis);
}

static void sink_send(struct sink *sink, struct delivery *delivery)
{
    struct redis_sink *redis = self(sink);
    struct push *push = mem_zalloc(sizeof(*push));
    int64_t now_us = loop_of(redis)->now_us;
    CHECK(delivery->target->type == TARGET_REDIS);
    push->owner = redis;
    push->delivery = delivery;
    push->call.done = answered;
    push->asking.done = asking_answered;
    push->late.expired = be_late;
    push->begun_us = now_us;
    push->bytes = EACH_BYTES + delivery->body.len;
    list_add_tail(&redis->waiting, &push->place);
    redis->in_flight++;
    if (delivery->timeout_us > 0)
        loop_arm(loop_of(redis), &push->late, now_us + delivery->timeout_us);
    loop_arm_by(loop_of(redis), &redis->work, now_us);
}

/* ---- callbacks of the topology ---- */

static struct redis_sink *of_callbacks(struct topology_callbacks *callbacks)
{
    return LIST_ENTRY(callbacks, struct redis_sink, callbacks);
}

static void node_ready(struct topology_callbacks *callbacks, struct node *node)
{
    struct redis_sink *redis = of_callbacks(callbacks);
    (void)node;
    look_whether_ready(redis);
    bring_back(redis);
}

static void node_lost(struct topology_callbacks *callbacks, struct node *node)
{
    const struct redis_sink *redis = of_callbacks(callbacks);
    node_ready(callbacks, node); /* waiting pushes may have another server now, or none */
    if (redis->options.lost && !redis->closing)
        redis->options.lost(redis->options.owner);
}

static void slots_moved(struct topology_callbacks *callbacks)
{
    bring_back(of_callbacks(callbacks));
}

/* ---- the sink ---- */

static void describe(const struct sink *sink, struct metric_sink *metrics)
{
    const struct redis_sink *redis = self(sink);
    if (!metrics->metric)
        return;
    metric_gauge(metrics, "broker_in_flight",
                 "Jobs that were given to the broker's client and have no outcome yet.",
                 redis->in_flight);
    metric_counter(metrics, "broker_connects_total",
                   "Times that a connection to the broker was made.",
                   redis->topology.counts.connects);
}

/* The grace time is not used: a caller that wants one lets deliveries end first. Closes the
   connections, dropping what they had not written yet; `work` ends all deliveries in its turns. */
static void sink_stop(struct sink *sink, int64_t grace_us)
{
    struct redis_sink *redis = self(sink);
    (void)grace_us;
    redis->closing = true;
    topology_fini(&redis->topology); /* `sent` is waiting then */
    bring_back(redis);
    loop_cancel(loop_of(redis), &redis->rest);
}

static bool sink_stopped(struct sink *sink)
{
    return self(sink)->in_flight == 0;
}

static void sink_close(struct sink *sink, int64_t grace_us)
{
    struct redis_sink *redis = self(sink);
    if (!redis->closing)
        sink_stop(sink, grace_us);
    while (!list_empty(&redis->waiting)) {
        struct push *push = LIST_ENTRY(redis->waiting.next, struct push, place);
        report(push, OUTCOME_UNSENT, false, ENDING);
        free_push(push);
    }
    CHECK(list_empty(&redis->sent) && list_empty(&redis->put_off) && redis->in_flight == 0);
    loop_cancel(loop_of(redis), &redis->work);
    loop_cancel(loop_of(redis), &redis->again);
    if (redis->options.closed)
        redis->options.closed(redis->options.owner);
    mem_free(redis->name);
    mem_free(redis);
}

static const struct sink_verbs verbs = {
    .send = sink_send,
    .ready = sink_ready,
    .describe = describe,
    .stop = sink_stop,
    .stopped = sink_stopped,
    .close = sink_close,
    .threadless = true,
};

/* All connections have a pointer to our URL. */
void redis_sink_log_in_as(struct sink *sink, const struct redis_url *url)
{
    struct redis_sink *redis = self(sink);
    memcpy(redis->url.user, url->user, sizeof(url->user));
    memcpy(redis->url.password, url->password, sizeof(url->password));
}

struct sink *redis_sink_new(const struct redis_sink_options *options)
{
    struct redis_sink *redis = mem_zalloc(sizeof(*redis));
    size_t name_bytes = strlen(options->name) + 1;
    redis->sink.verbs = &verbs;
    redis->options = *options;
    redis->url = *options->url;
    redis->name = mem_alloc(name_bytes);
    memcpy(redis->name, options->name, name_bytes);
    redis->rest_us = REST_US;
    redis->work.expired = send_waiting;
    redis->again.expired = try_again;
    redis->rest.expired = rested;
    list_init(&redis->waiting);
    list_init(&redis->put_off);
    list_init(&redis->sent);
    redis->callbacks =
        (struct topology_callbacks){.ready = node_ready, .lost = node_lost, .moved = slots_moved};
    topology_init(&redis->topology,
                  &(struct topology_options){.url = &redis->url,
                                             .callbacks = &redis->callbacks,
                                             .sentinel_user = options->sentinel_user,
                                             .sentinel_password = options->sentinel_password,
                                             .tls = options->tls,
                                             .loop = options->loop,
                                             .timeout_us = options->timeout_us});
    return &redis->sink;
}
