/*
 * Looks up the addresses of names, by getaddrinfo() on threads of its own, for that takes as long
 * as DNS likes (docs/decisions/0018-one-loop-of-our-own.md). Who asks for a name that
 * is being looked up shares the answer.
 *
 * A thread shares nothing with us but its question, which it posts back: one that DNS holds up ends
 * when that gives up, long after everybody has forgotten it, or with the process. At most
 * RESOLVER_THREADS are under way; further names wait.
 *
 * The functions are the owner's thread's.
 */
#ifndef LATERD_OS_RESOLVE_H
#define LATERD_OS_RESOLVE_H

#include <stdint.h>
#include <sys/socket.h>

#include "base/list.h"
#include "os/mailbox.h"

enum { RESOLVER_THREADS = 32, RESOLVER_NAME_MAX = 256 };

struct socket_address {
    socklen_t len;
    struct sockaddr_storage any;
};

/* A question. Owned by the caller, zeroed at first. */
struct name_query {
    /* Not called before resolver_ask() returned. `error`: why there is no address, good forever;
       then `address` is NULL. The query may be asked again, or freed. */
    void (*answered)(struct name_query *query, const struct socket_address *address,
                     const char *error);
    uint16_t port;
    unsigned attempt;        /* of several addresses, the one at this number, modulo their number */
    struct name_look_up *of; /* NULL: it is not asked */
    struct list place;       // name_look_up::queries
};

struct resolver {
    struct shared_mailbox *mailbox; /* the loop's */
    struct list look_ups;           // name_look_up::place: on a thread
    struct list waiting;            // name_look_up::place: for a thread
    unsigned threads;
};

void resolver_init(struct resolver *resolver, struct shared_mailbox *mailbox);
/* All queries must have been cancelled. Answers that are taken from the mailbox afterwards, and
   those that still come, are dropped. */
void resolver_fini(struct resolver *resolver);

/* `name` is shorter than RESOLVER_NAME_MAX. */
void resolver_ask(struct resolver *resolver, struct name_query *query, const char *name);
void resolver_cancel(struct resolver *resolver, struct name_query *query); /* if it is asked */

/* Digits need no look-up: false, it is none. */
bool address_of_digits(const char *text, uint16_t port, struct socket_address *out_address);

#endif
