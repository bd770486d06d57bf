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
/* Sends a WAIT behind what was sent to the node, if some of that waits for replicas. */
void replicas_ask(struct script_requests *calls, struct node *node);
/* OK: what is in this list is on enough replicas; else nobody will be told that it is done. */
void replicas_release(struct list *waiting, enum err err);

static inline int64_t script_request_now(const struct script_request *call)
{
    return call->calls->options.loop->now_us;
}

static inline struct partition *script_request_partition(const struct script_request *call)
{
    return &call->calls->partitions[call->id.partition];
}

/* It is sent after a while, if its partition has a node then that takes it; else when it has one.
 */
void script_request_wait(struct script_request *call, int64_t for_us);
/* Tells the owner, if nobody has yet. */
void script_request_finish(struct script_request *call, enum err err, const struct bytes *parts,
                           uint32_t count);
void script_request_free(struct script_request *call);
/* It goes to a node that its slot is on its way to, or not any more. */
void script_request_mark_asked(struct script_request *call, bool asked);
/* The answer to what was sent last is of no interest. */
void script_request_expect_nothing(struct node *node);
/* What is sent to the node from now on finds the scripts there, unless they are refused. */
void script_requests_load(struct script_requests *calls, struct node *node);
bool script_requests_scripts_refused(struct script_requests *calls, const struct node *node);
/* Callbacks: of link_call::done, of partition::mend. */
void script_request_on_link(struct link_call *on_link, redisReply *reply);
void script_request_mend(struct timer *timer);

/* Tells the owner, and frees it. */
void script_request_answer(struct script_request *call, const redisReply *reply);
void script_request_fail(struct script_request *call, enum err err);
/* Does its partition still take it from this node? False: it waits until one does. */
bool script_request_may_go(struct script_request *call, const struct node *node);
/* Sends it alone. */
void script_request_send_to(struct script_request *call, struct node *node);
/* It is sent there, as part of a call. */
void script_request_is_sent(struct script_request *call, struct node *node);
/* The answer, which is taken over; NULL: there is none. */
void script_request_replied(struct script_request *call, redisReply *reply);
/* An error that says that it was not done. */
void script_request_refused(struct script_request *call, struct bytes text);
/* Nobody knows whether it was done: it is sent again, alone and marked. */
void script_request_lost(struct script_request *call);

#endif
