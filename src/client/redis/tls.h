/*
 * TLS over a socket that is connected: bytes as they are on the one side, OpenSSL's on the other.
 * The server must prove by a certificate of an authority that we trust that it is the host that we
 * asked for. Of OpenSSL nobody else knows; built with TLS=0 there is none of it, and tls_new says
 * so.
 *
 * One thread.
 */
#ifndef LATERD_CLIENT_REDIS_TLS_H
#define LATERD_CLIENT_REDIS_TLS_H

#include <sys/types.h>

#include "client/redis/url.h"

struct tls;         /* what all connections have in common */
struct tls_session; /* of one connection */

struct tls_options {
    const char *ca;                /* a file of authorities; empty: those of the system */
    const char *certificate, *key; /* files by which we prove who we are; empty: we do not */
};

/* ERR_UNSUPPORTED, ERR_IO: a file that cannot be read or used; out_trouble says which. */
enum err tls_new(const struct tls_options *options, struct tls **out_tls,
                 struct redis_error *out_error) MUST_USE;
void tls_free(struct tls *tls);

/* NULL: out of memory. The handshake is done by the first bytes that are sent or received. */
struct tls_session *tls_begin(struct tls *tls, int fd, const char *host);
void tls_end(struct tls_session *session);

/*
 * As send() and recv() of a socket that does not block: -1 and EAGAIN is "later", for whatever
 * reason: what could not be sent is worth another try whenever something was received. Of any other
 * -1, tls_trouble() says why. Receive until EAGAIN: what OpenSSL holds back wakes nobody.
 */
ssize_t tls_send(struct tls_session *session, const void *at, size_t len);
ssize_t tls_receive(struct tls_session *session, void *room, size_t room_bytes);
/* It could not send for want of something to receive: room in the socket would not help. */
bool tls_waits(const struct tls_session *session);
const char *tls_error(const struct tls_session *session);

#endif
