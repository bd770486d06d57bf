/*
 * What Redis means when it answers with an error: is it worth another try, and where? Pure.
 */
#ifndef LATERD_CLIENT_REDIS_FAILURE_H
#define LATERD_CLIENT_REDIS_FAILURE_H

#include "client/redis/url.h"

enum failure_kind {
    FAILURE_OTHER,        /* it will not get better by itself: an unknown error, a bug */
    FAILURE_NO_SCRIPT,    /* the server does not know the script's digest (any more) */
    FAILURE_MOVED,        /* the slot is another node's now */
    FAILURE_ASK,          /* this one key has moved already, its slot has not yet */
    FAILURE_LATER,        /* loading, busy, keys on the move …: soon again */
    FAILURE_CLUSTER_DOWN, /* soon again; it, or all, may have lost the cluster's majority */
    FAILURE_NO_MASTER,    /* we talk to a replica: a failover has been */
    FAILURE_FULL,         /* maxmemory is reached */
    FAILURE_WRONG_TYPE,   /* a key has another type: somebody else wrote it */
    FAILURE_DENIED,       /* wrong user, password, database or master's name, or not allowed to */
};

struct failure {
    enum failure_kind kind;
    uint16_t slot;                /* MOVED, ASK */
    struct redis_address address; /* MOVED, ASK; an empty host is the node that answered */
};

/* Reads the text of an error reply, without its "-". What cannot be read is FAILURE_OTHER.
 * O(length). */
struct failure failure_read(struct bytes text);
/* What people can do about an error of this text: a clause, good forever; empty: nothing that we
   know. */
const char *failure_hint(struct bytes text);
/* The text, and behind a colon the hint, if there is one, cut to the room and ended by NUL: for who
   reads no more than one line. */
void failure_write(const char *error, char *room, size_t room_bytes);

#endif
