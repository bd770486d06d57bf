/*
 * Gathers the pushes, finishes, deletes, and reserves of one topic that one turn of the loop makes
 * for one node, and sends up to GROUP_TOGETHER_MAX of them in one call. So Redis pays the fixed
 * cost of a call only once, and the script reads and writes once for all requests of a kind to one
 * partition. Each request has its own place in the ring and its own answer, as if it was sent
 * alone. If the answer is lost, or the call fails as a whole, the request is sent again alone.
 *
 * No request is kept here beyond the turn. Two requests about the same job keep their order: the
 * script does ends first, then pushes, then reserves; before an end by the id of a gathered push is
 * added, everything gathered is sent.
 */
#ifndef LATERD_ENGINE_REDIS_REQUEST_GROUP_H
#define LATERD_ENGINE_REDIS_REQUEST_GROUP_H

#include "base/list.h"
#include "client/redis/node.h"
#include "engine/redis/script.h"

struct script_request;
struct script_requests;

enum {
    GROUP_MAX = 32,               /* requests of a kind: when there are so many, all are sent */
    GROUP_TOGETHER_MAX = 48,      /* requests in a call: they mostly take Redis a millisecond */
    GROUP_JOBS_MAX = 64,          /* jobs in a call: each takes Redis ten microseconds */
    GROUP_BYTES_MAX = 128 * 1024, /* of requests: when there are so many, all are sent */
};

/* In the order in which they are done. */
enum group_kind { GROUP_ENDS, GROUP_PUSHES, GROUP_RESERVES, GROUP_KINDS };

/* What is gathered for one node. */
struct request_group {
    struct list lists[GROUP_KINDS]; // script_request::unsent
    uint32_t counts[GROUP_KINDS];   /* of the lists */
    uint32_t jobs;                  /* of all requests; each reserve counts as one more */
    uint64_t push_ids[GROUP_MAX];   /* script_request::id_hash of the pushes */
    size_t bytes;
};

void request_group_init(struct request_group *group);

/* Adds a request, of the kind that its `joins` says; it is sent to that node in this turn. */
void request_group_add(struct script_requests *calls, struct node *node,
                       struct script_request *call);
/* Sends the gathered requests. To be called before anything else is sent to the node, and at the
 * end of the turn. */
void request_group_send(struct script_requests *calls, struct node *node);

#endif
