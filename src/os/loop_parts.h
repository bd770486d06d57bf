/*
 * What the files of the loop share, and nobody else: loop.c (epoll, turns, listeners), stream.c
 * (bytes in and out), stream_open.c (opening streams, and TLS with those that clients opened).
 *
 * A stream for which there is something to do hangs on `ready`; gather() serves that queue from its
 * front, so that each gets its turn however much others send. One that is closed is only marked and
 * hung on `dead`: it is freed when gather() is over.
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
    EVENTS = 512, /* at once. The others' turn comes: what was told of goes to the end of epoll's
                     list, and the next sleep ends at once while anything is in it */
    READ_BYTES = 256 * 1024,     /* read at once from somebody whose bytes are all taken */
    READ_FIRST_BYTES = 4 * 1024, /* and from one that is new, or whose bytes had to wait */
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
    bool waiting;       /* somebody wants to be accepted */
};

struct watch_source {
    struct source source;
    struct watch *watch; /* NULL: not any more */
    uint32_t events;     /* not dealt with yet */
    struct list place;   // os_loop::watches, triggered or dead_watches
};

struct opening;

struct os_stream {
    struct stream stream;
    struct source source;
    struct os_loop *loop;
    uint32_t interest; /* what epoll watches for; 0: nothing, or it is not in epoll */
    uint32_t events;   /* what it has reported, not dealt with yet */
    struct buf in;     /* shown to the handler but not used yet; nothing is read meanwhile */
    struct buf out;    /* [out_at, len) is still to be sent */
    size_t out_at;
    struct list place; // hangs on open, lingering or dead
    struct list ready; // os_loop::ready, or nowhere
    int64_t linger_until_us;
    struct tls_session *tls;   /* NULL: none */
    struct opening *connector; /* NULL: a client's without TLS */
    bool client;               /* that opened it */
    bool opening;              /* by stream_open.c */
    bool ended, broken, closing, dead;
    bool resumed;        /* kept input is to be shown again */
    bool shown;          /* `in` is under the handler's eyes */
    bool full;           /* epoll does not watch for input, while some is kept */
    bool leaving;        /* the other side ended its sending, and bytes before that wait */
    bool end_told;       /* the handler was told of that end */
    uint32_t read_bytes; /* read at once: between READ_FIRST_BYTES and READ_BYTES */
};

struct os_loop {
    struct loop loop;
    int epoll;
    int event_count;
    unsigned stream_count;
    unsigned client_count;
    unsigned client_max; /* more would take the descriptors that the store needs */
    struct list open;    // os_stream::place
    struct list ready;   // os_stream::ready: something is to be done for them, oldest first
    unsigned ready_count;
    struct list lingering;    // os_stream::place: closing(), first to end first
    struct list dead;         // os_stream::place
    struct loop_share *share; /* of the gather under way; NULL: no limit */
    int64_t accept_again_us;  /* accepting pauses until then; 0 = it does not */
    int64_t accept_report_us; /* a pause is not logged before this */
    bool coarse_sleep;        /* the kernel sleeps in milliseconds only */
    bool mail;                /* the mailbox may have something */
    unsigned listener_count;
    struct listener listeners[LOOP_LISTENERS_MAX];
    struct source wakers[WAKERS_MAX];
    unsigned waker_count;
    struct list watches;            // watch_source::place
    struct list triggered;          // watch_source::place: something came
    struct list dead_watches;       // watch_source::place
    struct shared_mailbox *mailbox; // message::place
    struct source mail_source;
    struct resolver resolver;
    struct epoll_event events[EVENTS];
    char read_room[READ_BYTES];
};

/* ---- loop.c ---- */

/* The descriptor is watched from now on. False: the system will not. */
bool loop_watch_source(struct os_loop *loop, struct source *source, uint32_t interest);

/* ---- stream.c ---- */

extern const struct stream_verbs os_stream_verbs;

/* Not in epoll yet. `fd` -1: none yet. */
struct os_stream *stream_new(struct os_loop *loop, int fd);
/* Puts it on the list of those that gather() serves next, at the end or in front; does nothing if
   it is on the list. */
void stream_make_ready(struct os_stream *stream);
void stream_make_ready_first(struct os_stream *stream);
void stream_unready(struct os_stream *stream);
/* Tells epoll what there is to wait for now. */
void stream_update(struct os_stream *stream);
/* Closes the socket; the memory goes when gather() is over. */
void stream_discard(struct os_stream *stream);
/* The next gather tells the handler that it is no more, and why. `error` stays as long as it. */
void stream_break(struct os_stream *stream, const char *error);
/* Its other side has ended its sending, or more: tells the handler, if nobody did. */
void stream_notify_end(struct os_stream *stream);
/* Does what is to be done for the stream; it has just left `ready`. */
void stream_serve(struct os_stream *stream);
void streams_free_dead(struct os_loop *loop);
/* Those whose time to linger is up are closed. */
void streams_end_lingering(struct os_loop *loop);
/* TCP keepalive: after `silent_s` without input the system probes the other side, again each
   `again_s`, and breaks the connection after so many probes. Sockets that a listening one accepts
   inherit this; for Unix sockets it means nothing. */
void socket_keepalive(int fd, int silent_s, int again_s, int times);
/* What the system says; good forever. */
const char *errno_text(int number);

/* ---- stream_open.c ---- */

struct stream *stream_open(struct loop *base, const struct stream_options *options);
/* A client came to the listener, who is to agree on TLS; the acceptor is told when it has. */
void stream_agree_with_client(struct os_stream *stream, const struct listener *listener);
/* Something came for a stream that is being opened. */
void stream_open_serve(struct os_stream *stream, uint32_t what);
/* The stream is buried: nobody waits any more. */
void stream_open_end(struct os_stream *stream);
void stream_open_free(struct os_stream *stream);

#endif
