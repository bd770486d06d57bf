/*
 * Handles replies to requests: an answer is passed to the owner; by an error the request is sent
 * again, there or elsewhere, now or later, or fails.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "client/redis/resp.h"
#include "engine/redis/clock_sync.h"
#include "engine/redis/script_request_parts.h"

enum {
    RETRY_US = 20 * 1000, /* after a temporary error */
    /* After one that stays, if jobs may be reserved: a quarter of the request's age between these.
     */
    UNSURE_LEAST_US = 500 * 1000,
    UNSURE_MOST_US = 10 * 1000 * 1000,
    REOPEN_US = 100 * 1000,    /* between openings of a partition with a key of a wrong type */
    MEND_US = 5 * 1000 * 1000, /* after other errors, until the partition checks all its jobs */
    LOG_EVERY_US = 10 * 1000 * 1000, /* between log lines of an error */
    CLOCK_UNSURE_US = 2 * 1000,      /* of a longer round trip only this much counts: see next_us */
};

/* The call of an answer that is ignored. */
struct ignored {
    struct link_call call;
};

static void ignore(struct link_call *call, redisReply *reply)
{
    if (reply)
        freeReplyObject(reply);
    mem_free(LIST_ENTRY(call, struct ignored, call));
}

void script_request_expect_nothing(struct node *node)
{
    struct ignored *ignored = mem_zalloc(sizeof(*ignored));
    ignored->call.done = ignore;
    link_expect(&node->link, &ignored->call);
}

/* ---- answers ---- */

int64_t script_request_next_us(const struct script_request *call,
                               const struct script_answer *answer)
{
    int64_t answered_us = script_request_now(call), wait_us;
    if (answered_us - call->on_link.sent_us > CLOCK_UNSURE_US)
        answered_us = call->on_link.sent_us + CLOCK_UNSURE_US;
    if (answer->next_us == INT64_MAX || !answer->now_us || call->resent ||
        __builtin_sub_overflow(answer->next_us, answer->now_us, &wait_us) ||
        __builtin_add_overflow(answered_us, wait_us, &wait_us))
        return answer->next_us;
    return wait_us;
}

static struct bytes part_of(const redisReply *part)
{
    return part->type == REDIS_REPLY_STRING ? bytes_of(part->str, (size_t)part->len)
                                            : bytes_of("", 0);
}

void script_request_answer(struct script_request *call, const redisReply *reply)
{
    struct bytes parts[SCRIPT_PARTS_MAX];
    uint32_t count = 1;
    if (reply->type == REDIS_REPLY_STRING) {
        parts[0] = part_of(reply);
    } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements <= SCRIPT_PARTS_MAX) {
        count = (uint32_t)reply->elements;
        for (uint32_t i = 0; i < count; i++)
            parts[i] = part_of(reply->element[i]);
    } else {
        script_request_fail(call, ERR_CORRUPT);
        return;
    }
    clock_sync_note_answer(call, parts, count);
    script_request_finish(call, OK, parts, count);
    script_request_free(call);
}

static void report(struct script_requests *calls, const struct node *node, const char *text)
{
    struct script_refusal *refusal = &calls->refusal;
    *refusal = (struct script_refusal){.by = node, .us = calls->options.loop->now_us};
    (void)snprintf(refusal->text, sizeof(refusal->text), "%s", text);
    if (calls->logged_us && calls->options.loop->now_us - calls->logged_us < LOG_EVERY_US)
        return;
    calls->logged_us = calls->options.loop->now_us;
    log_event(LOG_ERROR, "redis_error", "error=\"%.200s\" hint=\"%s\"", text,
              failure_hint(bytes_str(text)));
}

/* The slot is being moved to another node (ASK), which may have the partition's keys already. */
static void ask_there(struct script_request *call, const struct node *by,
                      const struct failure *failure)
{
    struct redis_address address = failure->address;
    if (!address.host[0]) /* an empty host means that of the node which answered */
        memcpy(address.host, by->link.address.host, sizeof(address.host));
    struct node *node = topology_at(call->calls->options.topology, &address);
    if (!node) {
        script_request_wait(call, RETRY_US);
        return;
    }
    struct buf *out = link_out(&node->link);
    resp_begin(out, 1);
    resp_add_str(out, "ASKING");
    script_request_expect_nothing(node);
    script_request_mark_importing(call, true);
    script_request_send_to(call, node);
}

static bool has_words(struct bytes text, const char *words)
{
    return memmem(text.at, text.len, words, strlen(words)) != NULL;
}

/* It fails. But a reserve that was sent before may have been executed then: it is repeated until
 * Redis says which jobs it has reserved, as nobody would have them until their leases end. Somebody
 * can end such an error: another one might never end, so it is not waited for. There are at most as
 * many as the ring has places. */
static void refused_for_good(struct script_request *call, enum err err)
{
    int64_t sent_us = call->deadline_us - call->calls->options.timeout_us;
    int64_t wait_us = (script_request_now(call) - sent_us) / 4;
    if (wait_us < UNSURE_LEAST_US)
        wait_us = UNSURE_LEAST_US;
    else if (wait_us > UNSURE_MOST_US)
        wait_us = UNSURE_MOST_US;
    if (call->at_most_once && call->resent)
        script_request_wait(call, wait_us);
    else
        script_request_fail(call, err);
}

static void refused(struct script_request *call, struct node *node, struct bytes text)
{
    struct script_requests *calls = call->calls;
    struct failure failure = failure_read(text);
    list_remove(&call->held);
    calls->retried++;
    if (bytes_starts(text, bytes_str(SCRIPT_CLOSED))) {
        script_requests_close(calls, call->id.partition);
        script_request_wait(call, 0);
        return;
    }
    bool missing = has_words(text, SCRIPT_MISSING);
    if (missing || has_words(text, "non local key")) /* some of its jobs may be done */
        script_mark_again(call->request.at, call->request.len);
    if (missing) {
        if (!call->importing &&
            script_request_now(call) - script_request_partition(call)->opened_us >= REOPEN_US)
            script_requests_close(calls, call->id.partition);
        script_request_wait(call, RETRY_US);
        return;
    }
    switch (failure.kind) {
    case FAILURE_NO_SCRIPT:
        script_requests_load(calls, node);
        if (script_requests_scripts_refused(calls, node))
            script_request_wait(call, RETRY_US);
        else
            script_request_send_to(call, node);
        break;
    case FAILURE_MOVED:
    case FAILURE_NO_MASTER:
        script_request_wait(call, failure.kind == FAILURE_MOVED ? 0 : RETRY_US);
        if (!topology_moved(calls->options.topology, node, &failure))
            script_request_wait(call, RETRY_US);
        break;
    case FAILURE_ASK: ask_there(call, node, &failure); break;
    case FAILURE_CLUSTER_DOWN:
        topology_suspect(calls->options.topology, node);
        node_refused(node, text.at);
        script_request_wait(call, RETRY_US);
        break;
    case FAILURE_LATER:
        node_refused(node, text.at);
        script_request_wait(call, RETRY_US);
        break;
    case FAILURE_FULL:
        report(calls, node, text.at);
        refused_for_good(call, ERR_MEMORY_LIMIT);
        break;
    case FAILURE_WRONG_TYPE:
        report(calls, node, text.at);
        script_requests_halfway(calls, call->id.partition);
        if (script_request_now(call) - script_request_partition(call)->opened_us >= REOPEN_US)
            script_requests_close(calls, call->id.partition); /* `open` names the key */
        refused_for_good(call, ERR_AGAIN);
        break;
    case FAILURE_DENIED: /* until the permission is granted again */
        report(calls, node, text.at);
        script_requests_halfway(calls, call->id.partition);
        refused_for_good(call, ERR_AGAIN);
        break;
    case FAILURE_OTHER:
        report(calls, node, text.at);
        script_requests_halfway(calls, call->id.partition);
        script_request_fail(call, ERR_IO);
        break;
    }
}

void script_request_mend(struct timer *timer)
{
    struct partition *partition = LIST_ENTRY(timer, struct partition, mend);
    struct script_requests *calls = partition->requests;
    if (partition->halfway && !calls->left)
        script_requests_close(calls, (uint32_t)(partition - calls->partitions));
}

void script_requests_halfway(struct script_requests *calls, uint32_t partition)
{
    struct partition *at = &calls->partitions[partition];
    at->halfway = true;
    if (!timer_is_armed(&at->mend))
        loop_arm(calls->options.loop, &at->mend, calls->options.loop->now_us + MEND_US);
}

/* It is unknown whether the script ran: sends the same request again. After the deadline it fails
   with ERR_AGAIN, by the timer of deadlines, which is due: a connection that ends may lose ten
   thousand calls at once. */
void script_request_lost(struct script_request *call)
{
    struct script_requests *calls = call->calls;
    call->sent_to = NULL;
    list_remove(&call->held);
    call->resent = true;
    if (!call->at_most_once && !call->owner) {
        script_request_fail(call, ERR_AGAIN);
        return;
    }
    if (!call->at_most_once && call->deadline_us <= script_request_now(call))
        return;
    calls->retried++;
    script_mark_again(call->request.at, call->request.len);
    script_request_wait(call, 0);
}

void script_request_refused(struct script_request *call, struct bytes text)
{
    struct node *node = call->sent_to;
    call->sent_to = NULL;
    call->answered_by = node;
    refused(call, node, text);
}

void script_request_replied(struct script_request *call, redisReply *reply)
{
    struct node *node = call->sent_to;
    if (!reply) {
        script_request_lost(call);
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        script_request_refused(call, bytes_of(reply->str, (size_t)reply->len));
        freeReplyObject(reply);
        return;
    }
    call->sent_to = NULL;
    call->answered_by = node;
    if (call->changes || call->urgent || call->probes) /* open and heartbeat write, too */
        node_worked(node);
    if (!list_empty(&call->held)) {
        call->reply = reply; /* until the replicas have it */
        return;
    }
    script_request_answer(call, reply);
    freeReplyObject(reply);
}

void script_request_on_link(struct link_call *on_link, redisReply *reply)
{
    script_request_replied(LIST_ENTRY(on_link, struct script_request, on_link), reply);
}
