/*
 * With wait_replicas, the answer to a change waits until enough replicas have the change: until the
 * WAIT is answered that is sent at the end of the turn, one for all calls to the node since the
 * last.
 */
#include "base/log.h"
#include "client/redis/resp.h"
#include "engine/redis/script_request_parts.h"

enum {
    PROBE_US = 200 * 1000, /* later calls on the connection wait for it, too */
};

struct replicas *script_requests_replicas(struct script_requests *calls, const struct node *node)
{
    return &calls->replicas[node - calls->options.topology->nodes];
}

/* Answers the calls that waited for the WAIT, or (`err`) fails them. */
void replicas_release(struct list *waiting, enum err err)
{
    struct list pending;
    list_init(&pending);
    while (!list_empty(waiting)) {
        struct list *node = waiting->next;
        list_remove(node);
        list_add_tail(&pending, node);
    }
    while (!list_empty(&pending)) {
        struct script_request *call = LIST_ENTRY(pending.next, struct script_request, held);
        list_remove(&call->held);
        if (!call->reply)
            continue; /* refused or lost, which was handled already */
        redisReply *reply = call->reply;
        call->reply = NULL;
        if (err)
            script_request_fail(call, err);
        else
            script_request_answer(call, reply);
        freeReplyObject(reply);
    }
}

/* Logs once when there are too few replicas, and once when there are enough again, because Redis
 * itself does not report it. */
static void report_replicas(struct replicas *replicas, long long have)
{
    char room[REDIS_HOST_MAX + 8];
    struct bytes name = redis_address_text(&replicas->node->link.address, room, sizeof(room));
    unsigned wanted = replicas->calls->options.wait_replicas;
    bool few = have < (long long)wanted;
    if (few == replicas->shortage_logged)
        return;
    replicas->shortage_logged = few;
    if (few)
        log_event(LOG_WARN, "redis_replicas_few", "node=%.*s answered=%lld wanted=%u hint=\"%s\"",
                  (int)name.len, name.at, have, wanted,
                  "bring its replicas back, or lower redis.wait_replicas");
    else
        log_event(LOG_INFO, "redis_replicas_enough", "node=%.*s answered=%lld wanted=%u",
                  (int)name.len, name.at, have, wanted);
}

static void waited(struct link_call *on_link, redisReply *reply)
{
    struct replicas *replicas = LIST_ENTRY(on_link, struct replicas, wait);
    struct script_requests *calls = replicas->calls;
    bool is_count = reply && reply->type == REDIS_REPLY_INTEGER;
    bool enough = is_count && reply->integer >= (long long)calls->options.wait_replicas;
    replicas->pending = false;
    if (is_count)
        report_replicas(replicas, reply->integer);
    replicas_release(&replicas->waiting, enough ? OK : ERR_AGAIN);
    if (reply)
        freeReplyObject(reply);
}

void replicas_check(struct script_requests *calls, struct node *node)
{
    struct replicas *replicas = script_requests_replicas(calls, node);
    struct buf *out = link_out(&node->link);
    bool only_probes = list_empty(&replicas->gathered);
    int64_t most_us = calls->options.timeout_us / 2;
    if (replicas->pending || !node->ready || node->link.doomed || (only_probes && !replicas->probe))
        return;
    if (only_probes && most_us > PROBE_US)
        most_us = PROBE_US;
    replicas->probe = false;
    resp_begin(out, 3);
    resp_add_str(out, "WAIT");
    resp_add_u64(out, calls->options.wait_replicas);
    resp_add_u64(out, (uint64_t)most_us / 1000);
    while (!list_empty(&replicas->gathered)) {
        struct list *held = replicas->gathered.next;
        list_remove(held);
        list_add_tail(&replicas->waiting, held);
    }
    replicas->pending = true;
    link_expect(&node->link, &replicas->wait);
}

void replicas_init(struct replicas *replicas, struct script_requests *calls, struct node *node)
{
    *replicas = (struct replicas){.wait.done = waited, .node = node, .calls = calls};
    list_init(&replicas->gathered);
    list_init(&replicas->waiting);
}
