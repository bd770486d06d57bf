#include "client/redis/node.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "client/redis/failure.h"
#include "client/redis/resp.h"

enum {
    STALL_US = 500 * 1000,  /* shorter refusals are normal, e.g. while a slot moves: not logged */
    QUIET_US = 1500 * 1000, /* without the error, after a command worked: it is over */
    IDLE_US = 5000 * 1000,  /* without the error, when no command was sent: it is over */
    NAME_ROOM = REDIS_HOST_MAX + 8,
};

static struct loop *loop_of(const struct node *node)
{
    return node->link.options.loop;
}

static struct bytes name_of(const struct node *node, char room[NAME_ROOM])
{
    return redis_address_text(&node->link.address, room, NAME_ROOM);
}

/* Logs redis_away once when the server becomes unreachable, and once more when it has an error text
 * of its own (it is loading, or denies access), however often it is tried until it is back. */
static void report_away(struct node *node)
{
    char room[NAME_ROOM];
    const char *error = node->link.error;
    enum failure_kind kind = failure_read(bytes_str(error)).kind;
    bool words = kind == FAILURE_LATER || kind == FAILURE_CLUSTER_DOWN || kind == FAILURE_DENIED;
    if (!node->link.wanted || (node->away_logged && (!words || node->reason_logged)))
        return;
    const char *event = node->away_logged ? "redis_stalled" : "redis_away";
    node->away_logged = true;
    node->reason_logged = node->reason_logged || words;
    struct bytes name = name_of(node, room);
    log_event(LOG_WARN, event, "node=%.*s error=\"%s\" hint=\"%s\"", (int)name.len, name.at, error,
              failure_hint(bytes_str(error)));
}

static void report_here(struct node *node)
{
    char room[NAME_ROOM];
    struct bytes name = name_of(node, room);
    log_event(LOG_INFO, node->away_logged ? "redis_back" : "redis_connected", "node=%.*s",
              (int)name.len, name.at);
    node->away_logged = node->reason_logged = false;
}

/* ---- readiness ---- */

void node_suspect(struct node *node, const char *why)
{
    node->suspect = true;
    link_fail(&node->link, why);
}

void node_accept(struct node *node)
{
    if (node->suspect)
        report_here(node);
    node->suspect = false;
}

/* ---- "not now" ---- */

/* When the stall is over, unless another error comes. */
static int64_t stall_ends_us(const struct node *node)
{
    return node->refused_us + (node->worked_us > node->refused_us ? QUIET_US : IDLE_US);
}

void node_refused(struct node *node, const char *error)
{
    char room[NAME_ROOM];
    int64_t now_us = loop_of(node)->now_us;
    if (!node->stalled_us)
        node->stalled_us = now_us;
    node->refused_us = now_us;
    loop_arm_by(loop_of(node), &node->quiet, stall_ends_us(node));
    (void)snprintf(node->link.error, sizeof(node->link.error), "%s", error);
    if (node->stalled_logged || now_us - node->stalled_us < STALL_US)
        return;
    node->stalled_logged = true;
    struct bytes name = name_of(node, room);
    log_event(LOG_WARN, "redis_stalled", "node=%.*s error=\"%s\" hint=\"%s\"", (int)name.len,
              name.at, node->link.error, failure_hint(bytes_str(error)));
}

void node_worked(struct node *node)
{
    node->worked_us = loop_of(node)->now_us;
    if (node->stalled_us)
        loop_arm_by(loop_of(node), &node->quiet, stall_ends_us(node));
}

static void end_stall(struct node *node)
{
    char room[NAME_ROOM];
    struct bytes name = name_of(node, room);
    if (node->stalled_logged)
        log_event(LOG_INFO, "redis_resumed", "node=%.*s after_ms=%lld", (int)name.len, name.at,
                  (long long)(node->refused_us - node->stalled_us) / 1000);
    node->stalled_us = 0;
    node->stalled_logged = false;
    loop_cancel(loop_of(node), &node->quiet);
}

static void end_stall_if_quiet(struct timer *timer)
{
    struct node *node = LIST_ENTRY(timer, struct node, quiet);
    if (stall_ends_us(node) <= loop_of(node)->now_us)
        end_stall(node);
    else
        loop_arm(loop_of(node), timer, stall_ends_us(node));
}

/* ---- the link ---- */

static bool has_role(const redisReply *reply, const char *role)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
           reply->element[0]->type == REDIS_REPLY_STRING &&
           strcmp(reply->element[0]->str, role) == 0;
}

/* ROLE of a replica: "slave", host and port of its master, … */
static struct redis_address master_of(const redisReply *reply)
{
    struct redis_address address = {.host = ""};
    const redisReply *host = reply->elements > 2 ? reply->element[1] : NULL;
    const redisReply *port = reply->elements > 2 ? reply->element[2] : NULL;
    if (host && host->type == REDIS_REPLY_STRING && port->type == REDIS_REPLY_INTEGER)
        (void)redis_address_make(bytes_of(host->str, (size_t)host->len), (uint64_t)port->integer,
                                 &address); /* otherwise it is not known */
    return address;
}

static void role_answered(struct link_call *call, redisReply *reply)
{
    struct node *node = LIST_ENTRY(call, struct node, role);
    if (!reply)
        return;
    bool master = has_role(reply, "master"), sentinel = has_role(reply, "sentinel");
    node->replica = reply->type == REDIS_REPLY_ARRAY && !master && !sentinel;
    if (node->replica)
        node->master = master_of(reply);
    if (master) {
        node->ready = true;
        node->since_us = loop_of(node)->now_us;
        if (node->link.options.counts)
            node->link.options.counts->connects++;
        link_good(&node->link);
        if (!node->suspect)
            report_here(node);
        node->callbacks->ready(node->callbacks, node);
    } else if (sentinel) {
        link_fail(&node->link, "it is a sentinel");
    } else {
        link_fail(&node->link, reply->type == REDIS_REPLY_ERROR ? reply->str : "it is a replica");
    }
    freeReplyObject(reply);
}

static void link_up(struct link_callbacks *callbacks, struct link *link)
{
    struct node *node = LIST_ENTRY(callbacks, struct node, link_callbacks);
    struct buf *out = link_out(link);
    resp_begin(out, 1);
    resp_add_str(out, "ROLE");
    link_expect(link, &node->role);
    link_flush(link);
}

static void link_down(struct link_callbacks *callbacks, struct link *link)
{
    (void)link;
    struct node *node = LIST_ENTRY(callbacks, struct node, link_callbacks);
    if (node->ready || !node->since_us)
        node->since_us = loop_of(node)->now_us;
    if (node->ready && node->link.options.counts)
        node->link.options.counts->losses++;
    node->ready = false;
    end_stall(node);
    report_away(node);
    node->callbacks->lost(node->callbacks, node);
}

static void link_slow(struct link_callbacks *callbacks, struct link *link)
{
    (void)link;
    struct node *node = LIST_ENTRY(callbacks, struct node, link_callbacks);
    if (node->callbacks->slow)
        node->callbacks->slow(node->callbacks, node);
}

void node_init(struct node *node, const struct link_options *options,
               struct node_callbacks *callbacks)
{
    struct link_options own = *options;
    *node = (struct node){
        .link_callbacks = {.up = link_up, .down = link_down, .slow = link_slow},
        .role.done = role_answered,
        .quiet.expired = end_stall_if_quiet,
        .callbacks = callbacks,
    };
    own.callbacks = &node->link_callbacks;
    link_init(&node->link, &own);
}

void node_renew(struct node *node)
{
    node->since_us = 0;
    node->replica = node->suspect = node->away_logged = node->reason_logged = false;
}

void node_fini(struct node *node)
{
    node->ready = false;
    loop_cancel(loop_of(node), &node->quiet);
    link_fini(&node->link);
}
