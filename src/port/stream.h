/*
 * A bidirectional stream of bytes: a TCP connection or a Unix socket, with or without TLS, that a
 * client opened to us or that we open to a server. Implemented by os/stream (sockets) and sim/loop
 * (in memory, delayed, split anywhere, cut at any moment).
 *
 *     loop->connect() ─▶ (name looked up, connected, TLS agreed) ─▶ opened() ─┐
 *     a client came ─▶ acceptor->accepted() ──────────────────────────────────┴▶ input() … gone()
 *
 * Single-threaded. The handler's functions are only called by the loop's gather(), never from
 * within a call of stream_verbs. A stream is valid until its `gone` returns from a call with half =
 * false, or until close().
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

/* The functions that handle streams of one kind. A constant. */
struct stream_handler {
    /* A stream that we opened is connected, and its TLS handshake is done. Not called for accepted
       streams. */
    void (*opened)(struct stream *stream);
    /*
     * Handles input. The bytes are borrowed; returns how many were used. The stream keeps the rest,
     * and reads no more until it is used: call resume() when the handler can go on.
     */
    size_t (*input)(struct stream *stream, struct bytes bytes);
    /*
     * The peer has ended its sending. It may have gone, so it must not be handed a job (P6). Bytes
     * that `input` has not seen yet, and then `gone`, follow as the handler uses them. Called at
     * most once, in the first gather after the end came and before that gather calls any other
     * handler function, so that nothing in that gather is answered to a client that has gone. May
     * be NULL.
     */
    void (*leaving)(struct stream *stream);
    /*
     * `half`: the peer has ended its sending but may still read; all its bytes were given to
     * `input`, and the stream stays until close(). Otherwise the stream ends when this returns, and
     * stream->error says why. Also called, with half = false, for a stream that could not be
     * opened.
     */
    void (*gone)(struct stream *stream, bool half);
    /* All bytes that send() had kept are sent. May be NULL. */
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
    STREAM_LINGER, /* sends what is kept first, then for a while reads and drops what the peer still
                      sends, so that our last bytes are not lost to a reset (RFC 9112, 9.6) */
    STREAM_RESET,  /* nothing more reaches the peer, except what has already left this machine */
};

struct stream_verbs {
    /*
     * Sends what it can now and keeps the rest, which is sent as the peer reads. While the stream
     * is being opened everything is kept. Empties `data`, or takes over its memory.
     */
    void (*send)(struct stream *stream, struct buf *data);
    /* Bytes that send() keeps. In a broken stream they stay, and the next gather calls `gone`. */
    size_t (*unsent)(const struct stream *stream);
    /* Memory of its buffers in both directions, in bytes. O(1). */
    size_t (*held)(const struct stream *stream);
    /*
     * The next gather, which comes without a sleep, gives the kept input to the handler again. May
     * be called within input(): then it concerns the bytes that that call leaves unused.
     */
    void (*resume)(struct stream *stream);
    /* Ends the stream: no handler function is called any more. May be called by its handler. */
    void (*close)(struct stream *stream, enum stream_close how);
    /*
     * The address of the client that opened the stream, for logs: "192.0.2.7:5123",
     * "[2001:db8::7]:5123", "unix"; "unknown" if the client has gone. Zero-terminated. O(1).
     */
    void (*peer)(const struct stream *stream, char out_text[STREAM_PEER_MAX]);
};

/* How to open a stream; copied. */
struct stream_options {
    const char *host; /* a name, an address in digits, or the path of a Unix socket: with a slash at
                         its beginning */
    uint16_t port;    /* ignored for a Unix socket */
    unsigned attempt; /* which address to use if the name has several, modulo their number, so that
                         callers can try each in turn */
    struct tls *tls;  /* NULL: none. The server must prove that it is `host`. Ignored for a Unix
                         socket. Borrowed for the stream's life. */
    int64_t timeout_us; /* for the look-up of the name, and again for connecting with TLS */
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

/* Values of stream->error that other code compares; else it is the text of the system or of TLS. */
#define STREAM_NAME_SLOW "looking up its name takes too long"
#define STREAM_SLOW      "it does not answer a new connection"
#define STREAM_TLS_SLOW  "it does not answer a TLS hello"
#define STREAM_CLOSED    "it closed the connection"

#endif
