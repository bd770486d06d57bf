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

/* True: the script may have done some of the requests before it failed. */
static bool may_be_done(struct bytes text)
{
    enum failure_kind kind = failure_read(text).kind;
    if (memmem(text.at, text.len, SCRIPT_MISSING, strlen(SCRIPT_MISSING)))
        return false; /* each is sent again alone, marked as a repetition, when its bucket may have
                         arrived */
    return kind == FAILURE_OTHER || kind == FAILURE_WRONG_TYPE || kind == FAILURE_DENIED;
}

static void group_refused(struct group_call *group, struct bytes text)
{
    struct script_requests *calls = group->requests[0]->calls;
    bool unsure = may_be_done(text);
    if (bytes_starts(text, BYTES("CROSSSLOT"))) /* a cluster that was not recognized as one */
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
                reply->element[i] = NULL; /* script_request_replied() owns it */
            script_request_replied(group->requests[i], own);
        }
    }
    if (reply)
        freeReplyObject(reply);
    mem_free(group);
}

/* ---- sending ---- */

/* Requests that are sent in one call, in the order in which the script does them. */
struct together {
    struct script_request *requests[GROUP_TOGETHER_MAX];
    uint32_t counts[GROUP_KINDS];
    uint32_t count;
};

static void send_together(const struct script_requests *calls, struct node *node,
                          const struct together *together)
{
    uint32_t count = together->count, partitions[GROUP_TOGETHER_MAX];
    struct group_call *group = mem_alloc(sizeof(*group) + count * sizeof(struct script_request *));
    struct bytes texts[GROUP_TOGETHER_MAX];
    *group = (struct group_call){.on_link.done = group_replied, .count = count};
    list_init(&group->on_link.place);
    for (uint32_t i = 0; i < count; i++) {
        struct script_request *request = together->requests[i];
        group->requests[i] = request;
        texts[i] = buf_bytes(&request->request);
        partitions[i] = request->id.partition;
        script_request_is_sent(request, node);
    }
    script_join(link_out(&node->link), calls->options.space,
                &(struct script_joined){.requests = texts,
                                        .ends = together->counts[GROUP_ENDS],
                                        .pushes = together->counts[GROUP_PUSHES],
                                        .reserves = together->counts[GROUP_RESERVES],
                                        .partitions = partitions});
    link_expect(&node->link, &group->on_link);
    link_flush_early(&node->link);
}

/* Moves the partition's requests from the list to the call, as many as it has room for. */
static void take_of_partition(struct node *node, struct list *list, enum group_kind kind,
                              uint32_t partition, struct together *together)
{
    struct list *next;
    for (struct list *at = list->next; at != list && together->count < GROUP_TOGETHER_MAX;
         at = next) {
        struct script_request *request = LIST_ENTRY(at, struct script_request, unsent);
        next = at->next;
        if (request->id.partition != partition)
            continue;
        list_remove(&request->unsent);
        if (!script_request_may_go(request, node)) /* it is queued in its partition */
            continue;
        together->requests[together->count++] = request;
        together->counts[kind]++;
    }
}

static uint32_t first_partition(const struct list *list)
{
    return LIST_ENTRY(list->next, struct script_request, unsent)->id.partition;
}

/* Takes up to GROUP_TOGETHER_MAX requests that may be sent in one call, by kind, and within a kind
 * by partition. False: nothing is left. */
static bool take_together(struct script_requests *calls, struct node *node,
                          struct request_group *group, struct together *together)
{
    struct list *lists = group->lists;
    bool apart = calls->apart;
    enum group_kind first = 0;
    *together = (struct together){.count = 0};
    while (first < GROUP_KINDS && list_empty(&lists[first]))
        first++;
    if (first == GROUP_KINDS)
        return false;
    uint32_t partition = first_partition(&lists[first]);
    for (enum group_kind kind = first; kind < GROUP_KINDS; kind++) {
        if (apart)
            take_of_partition(node, &lists[kind], kind, partition, together);
        while (!apart && !list_empty(&lists[kind]) && together->count < GROUP_TOGETHER_MAX)
            take_of_partition(node, &lists[kind], kind, first_partition(&lists[kind]), together);
    }
    return true;
}

void request_group_send(struct script_requests *calls, struct node *node)
{
    struct request_group *group = script_requests_group(calls, node);
    struct together together;
    for (enum group_kind kind = 0; kind < GROUP_KINDS; kind++)
        group->counts[kind] = 0;
    group->jobs = 0;
    group->bytes = 0;
    while (take_together(calls, node, group, &together)) {
        if (together.count == 1)
            script_request_send_to(together.requests[0], node);
        else if (together.count > 1)
            send_together(calls, node, &together);
    }
}

/* ---- gathering ---- */

static bool has_push_of(const struct request_group *group, uint64_t id_hash)
{
    for (uint32_t i = 0; i < group->counts[GROUP_PUSHES] && id_hash; i++) {
        if (group->push_ids[i] == id_hash)
            return true;
    }
    return false;
}

static enum group_kind kind_of(const struct script_request *request)
{
    return request->joins == SCRIPT_END    ? GROUP_ENDS
           : request->joins == SCRIPT_PUSH ? GROUP_PUSHES
                                           : GROUP_RESERVES;
}

void request_group_add(struct script_requests *calls, struct node *node,
                       struct script_request *call)
{
    struct request_group *group = script_requests_group(calls, node);
    enum group_kind kind = kind_of(call);
    uint32_t jobs = kind == GROUP_RESERVES ? 1 + call->jobs : call->jobs;
    list_remove(&call->unsent);
    if (kind == GROUP_ENDS && has_push_of(group, call->id_hash))
        request_group_send(calls, node);
    if (jobs && group->jobs + jobs > GROUP_JOBS_MAX)
        request_group_send(calls, node);
    if (kind == GROUP_PUSHES)
        group->push_ids[group->counts[kind]] = call->id_hash;
    list_add_tail(&group->lists[kind], &call->unsent);
    group->jobs += jobs;
    group->bytes += call->request.len;
    if (++group->counts[kind] == GROUP_MAX || group->bytes >= GROUP_BYTES_MAX)
        request_group_send(calls, node);
}

void request_group_init(struct request_group *group)
{
    *group = (struct request_group){.bytes = 0};
    for (enum group_kind kind = 0; kind < GROUP_KINDS; kind++)
        list_init(&group->lists[kind]);
}
