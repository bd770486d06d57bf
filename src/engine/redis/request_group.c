#include "engine/redis/request_group.h"

#include <string.h>

#include "base/mem.h"
#include "engine/redis/script_request_parts.h"

/* A call that carries several requests. */
struct group_call {
    struct link_call on_link;
    uint32_t count;
    struct script_request *requests[]; /* in the order of the answers */
};

/* ---- answers ---- */

/* It may have been done for some of them, before it failed. */
static bool may_be_done(struct bytes text)
{
    enum failure_kind kind = failure_read(text).kind;
    if (memmem(text.at, text.len, SCRIPT_MISSING, strlen(SCRIPT_MISSING)))
        return false; /* each is sent again, marked as such, when the bucket may be there */
    return kind == FAILURE_OTHER || kind == FAILURE_WRONG_TYPE || kind == FAILURE_DENIED;
}

static void group_refused(struct group_call *group, struct bytes text)
{
    struct script_requests *calls = group->requests[0]->calls;
    bool unsure = may_be_done(text);
    if (bytes_starts(text, BYTES("CROSSSLOT"))) /* a cluster that does not look like one */
        calls->apart = true;
    for (uint32_t i = 0; i < group->count; i++) {
        if (unsure)
            script_request_lost(group->requests[i]);
        else
            script_request_refused(group->requests[i], text);
    }
}

static void group_replied(struct link_call *on_link, redisReply *reply)
{
    struct group_call *group = LIST_ENTRY(on_link, struct group_call, on_link);
    bool whole =
        reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == (size_t)group->count;
    if (reply && reply->type == REDIS_REPLY_ERROR) {
        group_refused(group, bytes_of(reply->str, (size_t)reply->len));
    } else {
        for (uint32_t i = 0; i < group->count; i++) {
            redisReply *own = whole ? reply->element[i] : NULL;
            if (whole)
                reply->element[i] = NULL; /* it is taken over */
            script_request_replied(group->requests[i], own);
        }
    }
    if (reply)
        freeReplyObject(reply);
    mem_free(group);
}

/* ---- sending ---- */

static void send_together(struct node *node, struct script_request **requests, uint32_t count)
{
    struct group_call *group = mem_alloc(sizeof(*group) + count * sizeof(struct script_request *));
    struct bytes texts[GROUP_MAX];
    bool one_partition = true;
    *group = (struct group_call){.on_link.done = group_replied, .count = count};
    list_init(&group->on_link.place);
    for (uint32_t i = 0; i < count; i++) {
        struct script_request *request = requests[i];
        group->requests[i] = request;
        texts[i] = buf_bytes(&request->request);
        one_partition = one_partition && request->joins != SCRIPT_RESERVE &&
                        request->id.partition == requests[0]->id.partition;
        script_request_is_sent(request, node);
    }
    script_join(link_out(&node->link), texts, count, one_partition);
    link_expect(&node->link, &group->on_link);
    link_flush_early(&node->link);
}

/* Takes up to GROUP_MAX requests off the list that may go in one call: those to one partition stand
 * together. */
static uint32_t take_together(struct script_requests *calls, struct node *node, struct list *list,
                              struct script_request **out_requests)
{
    uint32_t count = 0;
    while (!list_empty(list) && count < GROUP_MAX && (count == 0 || !calls->apart)) {
        uint32_t partition = LIST_ENTRY(list->next, struct script_request, unsent)->id.partition;
        struct list *next;
        for (struct list *at = list->next; at != list && count < GROUP_MAX; at = next) {
            struct script_request *request = LIST_ENTRY(at, struct script_request, unsent);
            next = at->next;
            if (request->id.partition != partition)
                continue;
            list_remove(&request->unsent);
            if (script_request_may_go(request, node)) /* else it waits in its partition */
                out_requests[count++] = request;
        }
    }
    return count;
}

static void send_list(struct script_requests *calls, struct node *node, struct list *list)
{
    struct script_request *requests[GROUP_MAX];
    while (!list_empty(list)) {
        uint32_t count = take_together(calls, node, list, requests);
        if (count == 1)
            script_request_send_to(requests[0], node);
        else if (count > 1)
            send_together(node, requests, count);
    }
}

void request_group_send(struct script_requests *calls, struct node *node)
{
    struct request_group *group = script_requests_group(calls, node);
    group->end_count = group->push_count = group->reserve_count = 0;
    group->jobs = 0;
    group->bytes = 0;
    send_list(calls, node, &group->ends);
    send_list(calls, node, &group->pushes);
    send_list(calls, node, &group->reserves);
}

/* ---- gathering ---- */

static bool has_push_of(const struct request_group *group, uint64_t id_hash)
{
    for (uint32_t i = 0; i < group->push_count && id_hash; i++) {
        if (group->push_ids[i] == id_hash)
            return true;
    }
    return false;
}

void request_group_add(struct script_requests *calls, struct node *node,
                       struct script_request *call)
{
    struct request_group *group = script_requests_group(calls, node);
    list_remove(&call->unsent);
    if (call->joins == SCRIPT_END && has_push_of(group, call->id_hash))
        request_group_send(calls, node);
    if (call->joins == SCRIPT_RESERVE && group->jobs + 1 + call->jobs > GROUP_JOBS_MAX)
        request_group_send(calls, node);
    if (call->joins == SCRIPT_END) {
        group->end_count++;
        list_add_tail(&group->ends, &call->unsent);
    } else if (call->joins == SCRIPT_RESERVE) {
        group->reserve_count++;
        group->jobs += 1 + call->jobs;
        list_add_tail(&group->reserves, &call->unsent);
    } else {
        group->push_ids[group->push_count++] = call->id_hash;
        list_add_tail(&group->pushes, &call->unsent);
    }
    group->bytes += call->request.len;
    if (group->end_count == GROUP_MAX || group->push_count == GROUP_MAX ||
        group->reserve_count == GROUP_MAX || group->bytes >= GROUP_BYTES_MAX)
        request_group_send(calls, node);
}

void request_group_init(struct request_group *group)
{
    *group = (struct request_group){.bytes = 0};
    list_init(&group->ends);
    list_init(&group->pushes);
    list_init(&group->reserves);
}
