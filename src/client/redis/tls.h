/*
 * TLS over a socket that is connected: bytes as they are on the one side, OpenSSL's on the other.
 * The server must prove by a certificate of an authority that we trust that it is the host that we
 * asked for. Of OpenSSL nobody else knows; built with TLS=0 there is none of it, and redis_tls_new
 * says so.
 *
 * One thread.
 */
#ifndef LATERD_CLIENT_REDIS_TLS_H
#define LATERD_CLIENT_REDIS_TLS_H

#include <sys/types.h>

#include "client/redis/url.h"

struct redis_tls;         /* what all connections have in common */
struct redis_tls_session; /* of one connection */

struct redis_tls_options {
    const char *ca;                /* a file of authorities; empty: those of the system */
    const char *certificate, *key; /* files by which we prove who we are; empty: we do not */
};

/* ERR_UNSUPPORTED, ERR_IO: a file that cannot be read or used; out_trouble says which. */
enum err redis_tls_new(const struct redis_tls_options *options, struct redis_tls **out_tls,
                       struct redis_error *out_error) MUST_USE;
void redis_tls_free(struct redis_tls *tls);

/* NULL: out of memory. The handshake is done by the first bytes that are sent or received. */
struct redis_tls_session *redis_tls_begin(struct redis_tls *tls, int fd, const char *host);
void redis_tls_end(struct redis_tls_session *session);

/*
 * As send() and recv() of a socket that does not block: -1 and EAGAIN is "later", for whatever
 * reason: what could not be sent is worth another try whenever something was received. Of any other
 * -1, tls_trouble() says why. Receive until EAGAIN: what OpenSSL holds back wakes nobody.
 */
ssize_t redis_tls_send(struct redis_tls_session *session, const void *at, size_t len);
ssize_t redis_tls_receive(struct redis_tls_session *session, void *room, size_t room_bytes);
/* It could not send for want of something to receive: room in the socket would not help. */
bool redis_tls_waits(const struct redis_tls_session *session);
const char *redis_tls_error(const struct redis_tls_session *session);

#endif
