/*
 * A stream of bytes to somebody and back: a TCP connection or a Unix socket, with or without TLS,
 * that a client opened to us or that we open to a server. Implemented by os/stream (sockets) and
 * sim/loop (in memory, late, split anywhere, cut at any moment).
 *
 *     loop->connect() ─▶ (name looked up, connected, TLS agreed) ─▶ opened() ─┐
 *     a client came ─▶ acceptor->accepted() ──────────────────────────────────┴▶ input() … gone()
 *
 * One thread. The handler's functions are called by the loop's gather() alone, never from within a
 * call of these. A stream is good until its `gone` was called with half = false, or close() was.
 */
#ifndef LATERD_PORT_STREAM_H
#define LATERD_PORT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct stream;
struct stream_verbs;
struct tls; /* what connections by TLS have in common: os/tls.h */

enum { STREAM_PEER_MAX = 64 }; /* an address as text, with its port and a zero */

/* The functions that handle streams of one kind. Constant. */
struct stream_handler {
    /* A stream that we opened is connected, and its TLS handshake is done. Not called for accepted
       streams. */
    void (*opened)(struct stream *stream);
    /*
     * Input came. The bytes are borrowed; returns how many were used. The rest is kept, and no more
     * is read from the peer until it is used: call resume() when the handler can go on.
     */
    size_t (*input)(struct stream *stream, struct bytes bytes);
    /*
     * The peer has ended its sending. It may have gone, so it must not be given anything that it
     * would wait for (P6). Bytes that were not shown yet, and then `gone`, follow as the handler
     * takes them. Called at most once, in the first gather after the end came and before that
     * gather calls any other handler function, so that nothing in that gather is answered to a
     * client that has gone. May be NULL.
     */
    void (*leaving)(struct stream *stream);
    /*
     * `half`: the peer has ended its sending but may still read; all its bytes were shown, and the
     * stream stays until close(). Otherwise the stream ends when this returns; stream->error says
     * why. Also called so for a stream that could not be opened.
     */
    void (*gone)(struct stream *stream, bool half);
    /* Everything that send() had kept is sent. May be NULL. */
    void (*drained)(struct stream *stream);
};

struct stream {
    const struct stream_verbs *verbs;
    const struct stream_handler *handler; /* may be changed at any time */
    void *user;                           /* the handler's */
    const char *error; /* why it ended or was not opened, in words; NULL: it did not end yet */
};

enum stream_close {
    STREAM_DROP,   /* drops what send() keeps; what the system has taken is still sent */
    STREAM_LINGER, /* what is kept is sent first, and what the other side still sends is read and
                      dropped for a while, so that our last bytes are not lost to a reset (RFC 9112,
                      9.6) */
    STREAM_RESET,  /* nothing more reaches the peer, except what has already left this machine */
};

struct stream_verbs {
    /*
     * Sends what it can now and keeps the rest, which is sent as the peer reads. While the stream
     * is being opened everything is kept. Empties `data`, or takes over its memory.
     */
    void (*send)(struct stream *stream, struct buf *data);
    /* Bytes that send() keeps. Those of a broken stream stay; `gone` follows in the next gather. */
    size_t (*unsent)(const struct stream *stream);
    /* Memory of its buffers in both directions, in bytes. O(1). */
    size_t (*held)(const struct stream *stream);
    /*
     * Shows the kept input to the handler again in the next gather, which comes without a sleep.
     * Called within input(): the bytes that this call leaves unused.
     */
    void (*resume)(struct stream *stream);
    /* Ends the stream: no handler function is called any more. May be called by its handler. */
    void (*close)(struct stream *stream, enum stream_close how);
    /*
     * The address of the client that opened the stream, for logs: "192.0.2.7:5123",
     * "[2001:db8::7]:5123", "unix"; "unknown" if it has gone already. Zero-terminated. O(1).
     */
    void (*peer)(const struct stream *stream, char out_text[STREAM_PEER_MAX]);
};

/* How to open one; copied. */
struct stream_options {
    const char *host; /* a name, an address in digits, or the path of a Unix socket: with a slash at
                         its beginning */
    uint16_t port;    /* of a Unix socket: no matter */
    unsigned attempt; /* which address to use if the name has several, modulo their number, so that
                         callers can try each in turn */
    struct tls *tls;  /* NULL: none. The server must prove that it is `host`. Not with Unix sockets.
                         Borrowed for the stream's life. */
    int64_t timeout_us; /* for the look-up of the name, and again for the rest */
    int silent_s;       /* TCP keepalive: probes begin after so long without input, in seconds */
    const struct stream_handler *handler;
    void *user;
};

static inline void stream_send(struct stream *stream, struct buf *data)
{
    stream->verbs->send(stream, data);
}

static inline size_t stream_unsent(const struct stream *stream)
{
    return stream->verbs->unsent(stream);
}

static inline size_t stream_held(const struct stream *stream)
{
    return stream->verbs->held(stream);
}

static inline void stream_resume(struct stream *stream)
{
    stream->verbs->resume(stream);
}

static inline void stream_close(struct stream *stream, enum stream_close how)
{
    stream->verbs->close(stream, how);
}

static inline void stream_peer(const struct stream *stream, char out_text[STREAM_PEER_MAX])
{
    stream->verbs->peer(stream, out_text);
}

/* Texts of stream->error that others look for; else it is what the system or TLS says. */
#define STREAM_NAME_SLOW "looking up its name takes too long"
#define STREAM_SLOW      "it does not answer a new connection"
#define STREAM_TLS_SLOW  "it does not answer a TLS hello"
#define STREAM_CLOSED    "it closed the connection"

#endif
