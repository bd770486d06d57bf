/*
 * A connection of any protocol, as the server sees it. Its protocol is a `session_kind`: see
 * http/session.h and beanstalk/session.h.
 *
 * Bytes to send are collected in `out` during a turn and sent in one write at its end.
 */
#ifndef LATERD_SERVER_SESSION_H
#define LATERD_SERVER_SESSION_H

#include "server/door.h"
#include "server/server.h"
#include "server/session_state.h"

/* How a connection ends. */
enum session_end {
    SESSION_ORDERLY, /* by us, when all is sent */
    SESSION_DROPPED, /* by us; what is unsent is lost */
    SESSION_RESET,   /* by the client or the network: what was sent last may be lost, too */
};

/* A client that resets its connection within this time after an answer has not read that answer. */
enum { RESET_SOON_US = 1000 * 1000 };

struct session_kind {
    void (*init)(struct session *session); /* the rest of it is zeroed */
    /* Called instead of serving the connection when there are too many: sends an error, if the
       protocol has one, and closes. */
    void (*refuse)(struct session *session);
    size_t (*input)(struct session *session, struct bytes bytes); /* as stream_handler::input */
    void (*leaving)(struct session *session);                     /* as stream_handler::leaving */
    void (*ended)(struct session *session);   /* the client sends no more; it may still read */
    void (*drained)(struct session *session); /* the client has taken all that was sent */
    /* The session ends: cancels commands in progress, and gives back reservations that did not
       reach the client. */
    void (*fini)(struct session *session, enum session_end end);
    /* When to close the connection if nothing happens until then; INT64_MAX = never. */
    int64_t (*deadline_us)(const struct session *session);
    void (*expired)(struct session *session); /* that time has come */
    /* The server is shutting down: close once everything is answered. */
    void (*drain)(struct session *session);
    /* Memory of the session, in bytes, without `out` and the network's buffers. O(1). */
    size_t (*footprint)(const struct session *session);
    /*
     * The session uses too much memory. If no part of an answer has been sent, and its request was
     * certainly not executed: frees its memory, sends the client an error, closes once that is
     * sent, and returns true. Else returns false, and the caller drops the session.
     */
    bool (*evict)(struct session *session);
};

struct session {
    uint32_t number;          /* in server::sessions */
    enum session_state state; /* see session_state_move() */
    struct timer timer;       /* checks deadline_us() again */
    const struct session_kind *kind;
    struct server *server;
    struct stream *stream;
    struct principal principal; /* the sender of its commands */
    struct buf out;
    uint64_t passed;          /* bytes ever passed from `out` to the network */
    int64_t request_begun_us; /* when the first byte of the incomplete request came; 0 = none */
    int64_t window_us;   /* when bytes began to wait for the client to take them; 0 = none wait */
    size_t footprint;    /* as counted by buffers.c; 0 = too small to be counted */
    struct list changed; // buffers::changed
    struct list dirty;   // server::dirty
    /* What few requests need: */
    char *peer;             /* the principal's name; NULL: no history of jobs is kept */
    uint64_t request_bytes; /* of the incomplete request that have come */
    uint64_t window_sent;   /* session_sent() at window_us */
    struct list of_size;    // buffers::sizes
    struct list all;        // server::all
};

/* Begins to serve a connection, with a share of the stage's budget. */
void server_begin_visit(struct server *server);

/*
 * True: the connection being served may do one more step in this turn. Each has a share of the
 * budget, so that one that sends a thousand requests at once does not delay the others.
 */
static inline bool session_has_budget(const struct session *session)
{
    return session->server->budget.left_ns > session->server->visit_ns;
}

/* `out`, to append an answer: with memory of answers that other connections have sent, so that it
 * need not grow from nothing in each turn. */
static inline struct buf *session_out(struct session *session)
{
    struct server *server = session->server;
    if (session->out.cap == 0 && server->spare_outs.count > 0) {
        session->out = server->spare_outs.bufs[--server->spare_outs.count];
        server->buffers.bytes -= session->out.cap; /* counted again as the session's */
    }
    return &session->out;
}

/* For buffers.h: the session's footprint may have changed. */
static inline void buffers_changed(struct session *session)
{
    if (list_empty(&session->changed))
        list_add_tail(&session->server->buffers.changed, &session->changed);
}

/* The session has bytes in `out`, or is to be closed: it is flushed at the turn's end. */
void session_mark_dirty(struct session *session);

/*
 * Sends what is in `out`. True: the session was closing and everything is sent: it has ended, and
 * must not be used any more.
 */
bool session_flush(struct session *session);

/*
 * Notes that this many bytes of an incomplete request have come. A request must be complete within
 * limits.request_seconds of its first byte, plus one second for each 64 KiB.
 */
void session_request_grew(struct session *session, size_t bytes);
/* The request is complete, or was refused; its time limit ends. */
static inline void session_request_over(struct session *session)
{
    session->request_begun_us = 0;
}
/* INT64_MAX: no request is incomplete. */
int64_t session_request_deadline_us(const struct session *session);
/*
 * The time by which the client must have read what waits for it: it has limits.request_seconds for
 * each 64 KiB, or for less. INT64_MAX: nothing waits.
 */
int64_t session_answer_deadline_us(const struct session *session);

/*
 * Positions in the stream of all bytes for this client: the end of `out`, and how far the system
 * has accepted them (whether they arrive cannot be known).
 */
uint64_t session_end(const struct session *session);
uint64_t session_sent(const struct session *session);

/*
 * For turn.c: sets the handler functions of streams, and sends at a turn's end. True: the budget is
 * spent, and there is more to send.
 */
void sessions_init(struct server *server);
bool sessions_flush(struct server *server);
/* For turn.c: tells some connections, and after the last one the engine, that the server drains, as
   far as the budget goes. True: there are more. */
bool sessions_drain(struct server *server);
/* Frees server::spare_outs. */
void sessions_drop_spares(struct server *server);
void session_free(struct session *session, enum session_end end);

#endif
