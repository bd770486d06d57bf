/*
 * Internal declarations of the loop: loop.c (epoll, turns, listeners), stream.c
 * (bytes in and out), stream_open.c (opening streams, and TLS with those that clients opened).
 *
 * A stream that has something to do is on the list `ready`; gather() serves that list from its
 * front, so that each stream gets its turn however much others send. A closed stream is marked and
 * moved to the list `dead`: it is freed at the end of gather().
 */
#ifndef LATERD_OS_LOOP_PARTS_H
#define LATERD_OS_LOOP_PARTS_H

#include <sys/epoll.h>

#include "base/list.h"
#include "os/loop.h"
#include "os/mailbox.h"
#include "os/resolve.h"
#include "os/tls.h"

enum {
    EVENTS = 512, /* of one sleep. More are reported by the next one, at once: epoll moves what it
                     has reported to the end of its list */
    READ_BYTES = 256 * 1024,     /* in one read, at most, if the handler takes all bytes */
    READ_FIRST_BYTES = 4 * 1024, /* of a new stream, or one whose bytes had to wait */
    LITTLE_READS = 16,           /* in a row, after which the next read is half as long */
    WAKERS_MAX = 4,
};

enum source_kind { SOURCE_STREAM, SOURCE_LISTENER, SOURCE_WATCH, SOURCE_WAKER };

struct source {
    enum source_kind kind;
    int fd; /* -1: none yet */
};

struct listener {
    struct source source;
    unsigned number;
    struct tls *tls;    /* NULL: none */
    int64_t timeout_us; /* tls: of a handshake */
    bool waiting;       /* clients wait to be accepted */
};

struct watch_source {
    struct source source;
    struct watch *watch; /* NULL: no longer watched */
    uint32_t events;     /* reported by epoll, not handled yet */
    struct list place;   // os_loop::watches, triggered or dead_watches
};

struct opening;

struct os_stream {
    struct stream stream;
    struct source source;
    struct os_loop *loop;
    uint32_t interest; /* what epoll watches for; 0: nothing, or it is not in epoll */
    uint32_t events;   /* reported by epoll, not handled yet */
    struct list ready; // os_loop::ready, or in no list
    struct buf in;     /* shown to the handler but not used yet; nothing is read meanwhile */
    struct buf out;    /* [out_at, len) is still to be sent */
    size_t out_at;
    struct tls_session *tls; /* NULL: none */
    bool client;             /* a client opened it */
    bool opening;            /* not open yet: stream_open.c handles its events */
    bool ended, broken, closing, dead;
    bool resumed;          /* kept input is to be shown again */
    bool shown;            /* the handler is looking at `in` now */
    bool full;             /* epoll does not watch for input, while some is kept */
    bool leaving;          /* the other side ended its sending, and bytes before that wait */
    bool end_reported;     /* the handler's leaving() was called for that end */
    uint32_t read_bytes;   /* read at once: between READ_FIRST_BYTES and READ_BYTES */
    uint32_t little_reads; /* in a row that brought less than an eighth of that */
    /* What few events need: */
    struct opening *connector; /* NULL: accepted without TLS */
    struct list place;         // os_loop::open, lingering or dead
    int64_t linger_until_us;
};

struct os_loop {
    struct loop loop;
    int epoll;
    int event_count;
    unsigned stream_count;
    unsigned client_count;
    unsigned client_max; /* so that the store and others have descriptors left */
    struct list open;    // os_stream::place
    struct list ready;   // os_stream::ready: something is to be done for them, oldest first
    unsigned ready_count;
    struct list lingering;        // os_stream::place: STREAM_LINGER, ordered by linger_until_us
    struct list dead;             // os_stream::place
    struct loop_share *share;     /* of the gather under way; NULL: no limit */
    int64_t accept_again_us;      /* accepting pauses until then; 0 = it does not */
    int64_t accept_report_us;     /* a pause is not logged before this */
    bool coarse_sleep;            /* the kernel sleeps in milliseconds only */
    bool mail;                    /* the mailbox may have something */
    bool clients_wait;            /* to be accepted, by one of the listeners at least */
    struct queue_node *mail_left; /* message::place: taken from it, and not arrived yet */
    unsigned first_listener;      /* modulo their count: accepts before the others */
    unsigned listener_count;
    struct listener listeners[LOOP_LISTENERS_MAX];
    struct source wakers[WAKERS_MAX];
    unsigned waker_count;
    struct list watches;            // watch_source::place
    struct list triggered;          // watch_source::place: with events
    struct list dead_watches;       // watch_source::place
    struct shared_mailbox *mailbox; // message::place
    struct source mail_source;
    struct resolver resolver;
    struct epoll_event events[EVENTS];
    char read_buffer[READ_BYTES];
};

/* ---- loop.c ---- */

/* Adds the descriptor to epoll. False: the system refuses, errno says why. */
bool loop_watch_source(struct os_loop *loop, struct source *source, uint32_t interest);

/* ---- stream.c ---- */

/* Not in epoll yet. `fd` -1: none yet. */
struct os_stream *stream_new(struct os_loop *loop, int fd);
/* Adds the stream to os_loop::ready, at the end or in front; does nothing if it is on the list. */
void stream_make_ready(struct os_stream *stream);
void stream_make_ready_first(struct os_stream *stream);
void stream_unready(struct os_stream *stream);
/* Sets what epoll watches for, from the stream's state. */
void stream_update(struct os_stream *stream);
/* Closes the socket; the memory is freed at the end of gather(). */
void stream_discard(struct os_stream *stream);
/* Ends the stream: the next gather calls the handler's gone(). `error` says why, and must live as
   long as the stream. */
void stream_break(struct os_stream *stream, const char *error);
/* The other side has ended its sending, or has gone: calls the handler's leaving(), once. */
void stream_notify_end(struct os_stream *stream);
/* Handles the stream's events, after it was taken off `ready`. */
void stream_serve(struct os_stream *stream);
void streams_free_dead(struct os_loop *loop);
/* Closes the streams that have lingered long enough. */
void streams_end_lingering(struct os_loop *loop);
/* TCP keepalive: after `silent_s` seconds without input the system probes the other side, again
   every `again_s` seconds, and ends the connection after `times` unanswered probes. Accepted
   sockets inherit this from the listening one; on Unix sockets it has no effect. */
void socket_keepalive(int fd, int silent_s, int again_s, int times);
/* The system's text for an errno; valid forever. */
const char *errno_text(int number);

/* ---- stream_open.c ---- */

struct stream *stream_open(struct loop *base, const struct stream_options *options);
/* Begins the TLS handshake with a client that connected; the acceptor is called when it is done. */
void stream_accept_tls(struct os_stream *stream, const struct listener *listener);
/* Handles epoll's events `what` of a stream that is being opened. */
void stream_open_serve(struct os_stream *stream, uint32_t what);
/* The stream is discarded: cancels its timer and its name look-up. */
void stream_open_end(struct os_stream *stream);
void stream_open_free(struct os_stream *stream);

#endif
