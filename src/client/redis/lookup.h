/*
 * Looks up the address of a name on a thread of its own, for that takes as long as DNS likes.
 *
 * The thread shares nothing with us: it is given a copy of the question, sends its answer through a
 * socket, and ends. Who does not want the answer any more closes the socket.
 */
#ifndef LATERD_CLIENT_REDIS_LOOKUP_H
#define LATERD_CLIENT_REDIS_LOOKUP_H

#include <sys/socket.h>

#include "client/redis/url.h"

struct lookup_answer {
    int error; /* of getaddrinfo(); then the rest is 0 */
    socklen_t len;
    struct sockaddr_storage address;
};

/* An address in digits needs no look-up. */
bool lookup_numeric(const struct redis_address *address, struct lookup_answer *out_answer);

/*
 * Returns a socket that becomes readable when the answer is there; errno and -1: there are too many
 * look-ups under way, or no threads. Of several addresses it is to be the one at `which`, modulo
 * their number, so that each gets its turn.
 */
int lookup_start(const struct redis_address *address, unsigned which);
/* Takes the answer; false: there is none. The socket is still the caller's to close. */
bool lookup_take(int fd, struct lookup_answer *out_answer);

#endif
