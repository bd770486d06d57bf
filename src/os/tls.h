/*
 * TLS over a connected socket, by OpenSSL, which no other file uses. A server must prove by a
 * certificate of an authority that we trust that it is the host that we connected to. In a build
 * with TLS=0, tls_client_new() and tls_server_new() return ERR_UNSUPPORTED.
 *
 * A `struct tls` decides which side we are: tls_client_new() for streams that we open
 * (stream_options::tls), tls_server_new() for listeners (os_loop_listen_tls), which laterd's
 * configuration does not have yet. A server answers no ALPN: every client speaks the one protocol
 * of its listener.
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

/* ERR_UNSUPPORTED: built with TLS=0. ERR_IO: a file cannot be read or used, out_error says
   which. */
enum err tls_client_new(const struct tls_options *options, struct tls **out_tls,
                        struct tls_error *out_error) MUST_USE;
/*
 * The same for clients that connect to us: `certificate` is needed, with its chain; `key` empty: it
 * is in the same file. `ca` empty: clients need no certificate; else each must have one of these
 * authorities, or its handshake fails.
 */
enum err tls_server_new(const struct tls_options *options, struct tls **out_tls,
                        struct tls_error *out_error) MUST_USE;
void tls_free(struct tls *tls); /* all its sessions have ended; NULL does nothing */

/*
 * From now on all memory of OpenSSL counts in mem_used(), so that limits.memory_bytes bounds it,
 * too. Must be called before anything else uses OpenSSL and before there are other threads;
 * tls_client_new() and tls_server_new() call it as well.
 */
void tls_count_memory(void);

/* Begins a session on the connected, non-blocking socket `fd`, which the caller closes after
   tls_end(). `host`: the name or address that the server's certificate must have; NULL: we are the
   server. Returns NULL: out of memory. */
struct tls_session *tls_begin(struct tls *tls, int fd, const char *host);
void tls_end(struct tls_session *session); /* NULL does nothing */

enum tls_handshake_result { TLS_DONE, TLS_WANTS_INPUT, TLS_WANTS_ROOM, TLS_FAILED };

/* Goes on with the handshake as far as possible without waiting. Must be called until it returns
   TLS_DONE, before anything is sent or received. One step takes up to 0.5 ms of processor time. */
enum tls_handshake_result tls_handshake(struct tls_session *session);

/*
 * As send() and recv() of a non-blocking socket: -1 with EAGAIN means "try again later". Bytes that
 * could not be sent may be sendable after something was received (see tls_needs_input()). After any
 * other -1, tls_error() says why; its text lives as long as the session.
 */
ssize_t tls_send(struct tls_session *session, const void *at, size_t len);
ssize_t tls_receive(struct tls_session *session, void *room, size_t room_bytes);
/* True: tls_send() has to receive something first; waiting for room in the socket does not help. */
bool tls_needs_input(const struct tls_session *session);
/* True: the session holds decrypted bytes that were not read yet; epoll does not report them. Of a
   record that came only in part it reports the rest. */
bool tls_has_pending(const struct tls_session *session);
/* An estimate of the session's memory in bytes, for the accounting of a connection; mem_used()
   counts OpenSSL's memory exactly. O(1). */
size_t tls_held_bytes(const struct tls_session *session);
/* Sends close_notify: nothing more will be sent. */
void tls_close_notify(struct tls_session *session);
const char *tls_error(const struct tls_session *session);

#endif
