/*
 * Pushes, finishes and deletes, and reserves of one topic, that come in one turn of the loop for
 * one node: they go there together, up to GROUP_TOGETHER_MAX in one call. What a call costs Redis
 * before its script does anything is paid once then, and the script reads and writes once for those
 * of a kind that go to one partition. Each is a request as if it was sent alone: it has its own
 * place in the ring and its own answer, and if that got lost, or the call failed as a whole, it is
 * sent again alone.
 *
 * Nothing waits here for longer than the turn. Two requests about the same job keep their order:
 * what ends jobs is done before what pushes, and that before what reserves; before an end by an id
 * that a gathered push has, all is sent.
 */
#ifndef LATERD_ENGINE_REDIS_REQUEST_GROUP_H
#define LATERD_ENGINE_REDIS_REQUEST_GROUP_H

#include "base/list.h"
#include "client/redis/node.h"
#include "engine/redis/script.h"

struct script_request;
struct script_requests;

enum {
    GROUP_MAX = 32,               /* requests of a kind: then all are sent */
    GROUP_TOGETHER_MAX = 48,      /* in a call: a millisecond of Redis, mostly */
    GROUP_JOBS_MAX = 64,          /* of a call: ten microseconds of Redis each */
    GROUP_BYTES_MAX = 128 * 1024, /* of requests: then they are sent */
};

/* In the order in which they are done. */
enum group_kind { GROUP_ENDS, GROUP_PUSHES, GROUP_RESERVES, GROUP_KINDS };

/* What is gathered for one node. */
struct request_group {
    struct list lists[GROUP_KINDS]; // script_request::unsent
    uint32_t counts[GROUP_KINDS];   /* of the lists */
    uint32_t jobs;                  /* of all, and each reserve for one more */
    uint64_t push_ids[GROUP_MAX];   /* script_request::id_hash of the pushes */
    size_t bytes;
};

void request_group_init(struct request_group *group);

/* The request (its `joins` says how) is to be sent to that node, in this turn. */
void request_group_add(struct script_requests *calls, struct node *node,
                       struct script_request *call);
/* Sends what is gathered: before anything else is sent there, and at the end of the turn. */
void request_group_send(struct script_requests *calls, struct node *node);

#endif
