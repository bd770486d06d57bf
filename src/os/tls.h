/*
 * TLS over a socket that is connected: bytes as they are on the one side, OpenSSL's on the other.
 * A server must prove by a certificate of an authority that we trust that it is the host that we
 * asked for. Of OpenSSL nobody else knows; built with TLS=0 there is none of it, and
 * tls_client_new() and tls_server_new() say so.
 *
 * A `struct tls` decides which side we are: tls_client_new() for streams that we open
 * (stream_options::tls), tls_server_new() for listeners (os_loop_listen_tls).
 *
 * One thread.
 */
#ifndef LATERD_OS_TLS_H
#define LATERD_OS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct tls;         /* what all connections have in common */
struct tls_session; /* of one connection */

enum { TLS_ERROR_MAX = 384 };

struct tls_options {
    const char *keys; /* of the configuration: what stands before "ca" and the others in errors */
    const char *ca;   /* a file of authorities; empty: those of the system */
    const char *certificate, *key; /* files by which we prove who we are; empty: we do not */
};

struct tls_error {
    char text[TLS_ERROR_MAX];
};

/* ERR_UNSUPPORTED, ERR_IO: a file that cannot be read or used; out_error says which. */
enum err tls_client_new(const struct tls_options *options, struct tls **out_tls,
                        struct tls_error *out_error) MUST_USE;
/*
 * The same, of those who connect to us: `certificate` is needed, with its chain; `key` empty: it is
 * in the same file. `ca` empty: clients are not asked who they are; else each must prove it by a
 * certificate of these authorities, or its handshake fails.
 */
enum err tls_server_new(const struct tls_options *options, struct tls **out_tls,
                        struct tls_error *out_error) MUST_USE;
void tls_free(struct tls *tls); /* all its sessions have ended; NULL does nothing */

/*
 * From now on all memory of OpenSSL counts in mem_used(), so that limits.memory_bytes bounds it,
 * too. Before anything else uses OpenSSL; no thread but this one is there. tls_client_new() and
 * tls_server_new() do it, for those that did not.
 */
void tls_count_memory(void);

/* `host`: who the server must be; NULL: we are the server. NULL is returned: out of memory. */
struct tls_session *tls_begin(struct tls *tls, int fd, const char *host);
void tls_end(struct tls_session *session); /* NULL does nothing */

enum tls_agreed { TLS_DONE, TLS_WANTS_INPUT, TLS_WANTS_ROOM, TLS_FAILED };

/* The handshake, as far as it goes now; first of all, until it is TLS_DONE. */
enum tls_agreed tls_agree(struct tls_session *session);

/*
 * As send() and recv() of a socket that does not block: -1 and EAGAIN is "later", for whatever
 * reason: what could not be sent is worth another try whenever something was received. Of any other
 * -1, tls_error() says why, as long as the session lives.
 */
ssize_t tls_send(struct tls_session *session, const void *at, size_t len);
ssize_t tls_receive(struct tls_session *session, void *room, size_t room_bytes);
/* It could not send for want of something to receive: room in the socket would not help. */
bool tls_waits(const struct tls_session *session);
/* It holds bytes that were received and not read yet: the socket does not report them. */
bool tls_holds(const struct tls_session *session);
/* Memory of the session, as far as it is known: for who counts what a connection takes. mem_used()
   counts all that OpenSSL has. O(1). */
size_t tls_held_bytes(const struct tls_session *session);
/* Tells the other side that nothing more will be sent. */
void tls_shut(struct tls_session *session);
const char *tls_error(const struct tls_session *session);

#endif
