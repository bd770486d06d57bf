/*
 * What script_request.c, script_reply.c, request_group.c and replicas.c share, and nobody else: one
 * request on its way, and what is kept for each node.
 */
#ifndef LATERD_ENGINE_REDIS_SCRIPT_REQUEST_PARTS_H
#define LATERD_ENGINE_REDIS_SCRIPT_REQUEST_PARTS_H

#include "engine/redis/script_request.h"

struct request_group *script_requests_group(struct script_requests *calls, const struct node *node);
struct replicas *script_requests_replicas(struct script_requests *calls, const struct node *node);

void replicas_init(struct replicas *replicas, struct script_requests *calls, struct node *node);
/* Sends a WAIT to the node, if calls that were sent there wait for replicas. */
void replicas_check(struct script_requests *calls, struct node *node);
/* Ends the wait of the calls in this list. OK: enough replicas have them, and they are answered;
   else they fail, because none may be answered as done. */
void replicas_release(struct list *waiting, enum err err);

static inline int64_t script_request_now(const struct script_request *call)
{
    return call->calls->options.loop->now_us;
}

static inline struct partition *script_request_partition(const struct script_request *call)
{
    return &call->calls->partitions[call->id.partition];
}

/* Sends it again after `for_us` microseconds, or as soon after that as its partition has a node. */
void script_request_wait(struct script_request *call, int64_t for_us);
/* Calls done(), if it was not called yet. */
void script_request_finish(struct script_request *call, enum err err, const struct bytes *parts,
                           uint32_t count);
void script_request_free(struct script_request *call);
/* See script_mark_importing(). */
void script_request_mark_importing(struct script_request *call, bool importing);
/* Ignores the answer to what was sent last. */
void script_request_expect_nothing(struct node *node);
/* Sends SCRIPT LOADs to the node, before any later call. */
void script_requests_load(struct script_requests *calls, struct node *node);
bool script_requests_scripts_refused(struct script_requests *calls, const struct node *node);
/* Callbacks: of link_call::done, of partition::mend. */
void script_request_on_link(struct link_call *on_link, redisReply *reply);
void script_request_mend(struct timer *timer);

/* Calls done() with the reply, or the error, and frees the call. */
void script_request_answer(struct script_request *call, const redisReply *reply);
void script_request_fail(struct script_request *call, enum err err);
/* May it be sent to this node now? False: it waits until its partition is open at a node. */
bool script_request_may_go(struct script_request *call, const struct node *node);
/* Sends it alone. */
void script_request_send_to(struct script_request *call, struct node *node);
/* Notes that it was sent to this node, as part of a joined call. */
void script_request_is_sent(struct script_request *call, struct node *node);
/* Handles its reply, which it owns from now on. NULL: the connection has ended. */
void script_request_replied(struct script_request *call, redisReply *reply);
/* Handles an error which shows that the script did not run. */
void script_request_refused(struct script_request *call, struct bytes text);
/* It is unknown whether the script ran: sends it again, alone and marked. */
void script_request_lost(struct script_request *call);

#endif
