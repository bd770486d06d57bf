/*
 * Classifies error replies of Redis: whether to try again, and where. Pure.
 */
#ifndef LATERD_CLIENT_REDIS_FAILURE_H
#define LATERD_CLIENT_REDIS_FAILURE_H

#include "client/redis/url.h"

enum failure_kind {
    FAILURE_OTHER,     /* permanent: an unknown error, or a bug */
    FAILURE_NO_SCRIPT, /* the server does not have the script (any more) */
    FAILURE_MOVED,     /* another node has the slot now */
    FAILURE_ASK,       /* this key has moved already, its slot has not yet */
    FAILURE_LATER,     /* loading, busy, moving keys …: try again soon */
    /* Try again soon: this node, or all, may have lost the majority. Or it does not say where the
       node is that has the slot. */
    FAILURE_CLUSTER_DOWN,
    FAILURE_NO_MASTER,  /* the server is a replica: there was a failover */
    FAILURE_FULL,       /* maxmemory is reached */
    FAILURE_WRONG_TYPE, /* a key has another type: another program wrote it */
    FAILURE_DENIED,     /* wrong user, password, database or master name, or no permission */
};

struct failure {
    enum failure_kind kind;
    uint16_t slot;                /* MOVED, ASK */
    struct redis_address address; /* MOVED, ASK; an empty host: the node that answered */
};

/* Reads the text of an error reply, without its "-". An unknown text is FAILURE_OTHER. O(length).
 */
struct failure failure_read(struct bytes text);
/* What an operator can do about an error of this text: a clause, valid forever; empty: not known.
 */
const char *failure_hint(struct bytes text);
/* Writes the text and, after a colon, the hint if there is one, cut to the room, NUL-terminated. */
void failure_write(const char *error, char *room, size_t room_bytes);

#endif
