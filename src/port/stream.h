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

/* What happens to streams of one kind. Constant. */
struct stream_handler {
    /* One that we opened is connected, and TLS is agreed upon. Not called of accepted ones. */
    void (*opened)(struct stream *stream);
    /*
     * Bytes came. They are borrowed; returns how many were used. The rest is kept, and until it is
     * used no more is read from the other side: the handler calls resume() when it can go on.
     */
    size_t (*input)(struct stream *stream, struct bytes bytes);
    /*
     * The other side has ended its sending: it may have gone, and is to be handed nothing that it
     * would wait for (P6). Bytes that were not shown yet, and then `gone`, follow as the handler
     * takes them. Called once at most, and in the first gather after the end had come, before that
     * gather tells anybody of anything else: what others are answered goes to nobody who has gone.
     * NULL: no matter.
     */
    void (*leaving)(struct stream *stream);
    /*
     * `half`: the other side has only ended its sending and may still read; all its bytes were
     * shown; the stream stays until close(). Else the stream is no more: stream->error says why,
     * until this returns. One that could not be opened ends so, too.
     */
    void (*gone)(struct stream *stream, bool half);
    /* All that send() had kept is sent; NULL: no matter. */
    void (*drained)(struct stream *stream);
};

struct stream {
    const struct stream_verbs *verbs;
    const struct stream_handler *handler; /* may be changed at any time */
    void *user;                           /* the handler's */
    const char *error; /* why it ended or was not opened, in words; NULL: it did not end yet */
};

enum stream_close {
    STREAM_DROP,   /* what is kept is lost; what the system took is still sent */
    STREAM_LINGER, /* what is kept is sent first, and what the other side still sends is read and
                      dropped for a while, so that our last bytes are not lost to a reset (RFC 9112,
                      9.6) */
    STREAM_RESET,  /* nothing that has not left the machine reaches the other side any more */
};

struct stream_verbs {
    /*
     * Sends what it can now, keeps the rest, and sends that as the other side reads. Of a stream
     * that is being opened all is kept until it is open. Empties `data`, or takes its memory over.
     */
    void (*send)(struct stream *stream, struct buf *data);
    /* Bytes kept. A broken stream keeps them forever; `gone` follows in the next gather. */
    size_t (*unsent)(const struct stream *stream);
    /* Memory that its buffers take, in both directions, in bytes. O(1). */
    size_t (*held)(const struct stream *stream);
    /*
     * Shows kept input to the handler again at the next gather, which comes without sleep. From
     * within input() it means the bytes that this call leaves.
     */
    void (*resume)(struct stream *stream);
    /* Ends the stream: no handler call follows. May be called from within its handler. */
    void (*close)(struct stream *stream, enum stream_close how);
    /*
     * Who is at the other side of one that a client opened, for people: "192.0.2.7:5123",
     * "[2001:db8::7]:5123", "unix"; "unknown" if it has gone already. Ends with a zero. O(1).
     */
    void (*peer)(const struct stream *stream, char out_text[STREAM_PEER_MAX]);
};

/* How to open one; copied. */
struct stream_options {
    const char *host; /* a name, an address in digits, or the path of a Unix socket: with a slash at
                         its beginning */
    uint16_t port;    /* of a Unix socket: no matter */
    unsigned attempt; /* of a name's addresses the one at this number, modulo how many it has: so
                         that each gets its turn */
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
