/*
 * Looks up the addresses of host names by getaddrinfo(), on threads of its own, because that call
 * can take as long as DNS does (docs/decisions/0018-one-loop-of-our-own.md). Queries for a name
 * that is being looked up share the answer.
 *
 * A thread shares nothing with us but its look-up, which it posts back. One that DNS delays ends
 * when getaddrinfo() returns, perhaps long after all its queries were cancelled, or with the
 * process. At most RESOLVER_THREADS look-ups run; further names wait.
 *
 * All functions are called on the owner's thread.
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

/* A query for one name. Owned by the caller, zeroed at first. */
struct name_query {
    /* The answer; never called before resolver_look_up() returned. `address` is borrowed; NULL:
       there is none, and `error`, valid forever, says why. The query may be asked again, or freed.
     */
    void (*answered)(struct name_query *query, const struct socket_address *address,
                     const char *error);
    uint16_t port;
    unsigned attempt;        /* which of several addresses: this number modulo their count */
    struct name_look_up *of; /* NULL: not under way */
    struct list place;       // name_look_up::queries
};

struct resolver {
    struct shared_mailbox *mailbox; /* the loop's */
    struct list look_ups;           // name_look_up::place: on a thread
    struct list waiting;            // name_look_up::place: for a thread
    unsigned threads;
};

void resolver_init(struct resolver *resolver, struct shared_mailbox *mailbox);
/* All queries must have been cancelled. Answers that threads post later are dropped. */
void resolver_fini(struct resolver *resolver);

/* Begins the query, which must not be under way. `name` is copied, and shorter than
   RESOLVER_NAME_MAX. O(look-ups). */
void resolver_look_up(struct resolver *resolver, struct name_query *query, const char *name);
/* Ends the query, if it is under way: `answered` will not be called. */
void resolver_cancel(struct name_query *query);

/* Reads a numeric IPv4 or IPv6 address, which needs no look-up. False: it is not one. */
bool address_of_digits(const char *text, uint16_t port, struct socket_address *out_address);

#endif
