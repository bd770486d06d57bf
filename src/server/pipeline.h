/*
 * The pipeline of a connection: a client may send many requests before it reads an answer. They are
 * executed as they come, and their answers are sent in the order of the requests. Every protocol
 * here is a pipeline: see http/session.h and beanstalk/session.h.
 *
 * Each request that is not answered yet, or whose answer cannot be sent yet, is a `struct pending`.
 * The answer to the oldest one is written directly to session::out; a later one waits in `buffered`
 * until all before it have been sent. A long one keeps its own memory, and waits until the client
 * has taken what was sent before it: so it is never copied. A pipeline reads on only while few
 * requests are pending, few bytes wait for the client, and no pending request has to be executed
 * alone.
 *
 * Invariants: `pending` has every request without a delivered answer, oldest first, and `count` is
 * their number; the oldest is BUFFERED only if it is long and waits for the client; only the newest
 * is EXCLUSIVE or PARKED. pipeline_valid() checks them.
 */
#ifndef LATERD_SERVER_PIPELINE_H
#define LATERD_SERVER_PIPELINE_H

#include "server/session.h"

enum {
    PIPELINE_PENDING_MAX = 1024,             /* requests that may be pending */
    PIPELINE_WAITING_MAX_BYTES = 256 * 1024, /* more than this waits for the client: not read on */
};

struct pipeline;

enum pending_state {
    PENDING_OPEN,      /* in progress; requests behind it may begin */
    PENDING_EXCLUSIVE, /* in progress; requests behind it begin only when it is answered */
    PENDING_PARKED,    /* the same, and the engine may keep it for long: it waits for a job, or
                          searches */
    PENDING_BUFFERED,  /* answered; its answer waits for older ones */
};

/* A request; the first member of the protocol's own struct. */
struct pending {
    struct ticket ticket; /* of its command, if it is a single one */
    struct pipeline *pipeline;
    struct list place; // pipeline::pending
    enum pending_state state;
    bool is_long; /* BUFFERED: its answer is in `text`, else in pipeline::buffered */
    union {
        struct {
            size_t at, len;
        } part;
        struct buf text;
    };
};

struct pipeline {
    struct session session;
    struct list pending;     // pending::place, oldest first
    uint32_t count;          /* of them */
    uint32_t buffered_count; /* answers in `buffered` */
    struct buf buffered;     /* emptied when the last of them has left */
    size_t working_bytes; /* memory of long answers, and what the protocol adds: texts under way */
    bool unread;          /* some input of the network has not been taken yet */
};

/* A protocol. Its functions get what is pending on its own connections only. */
struct pipeline_kind {
    struct session_kind session; /* first: session::kind points to it */
    /*
     * Reads one request, or a part of one, and begins it. Adds the number of bytes taken to *used.
     * False: nothing more can be done with these bytes now.
     */
    bool (*feed)(struct pipeline *pipeline, struct bytes bytes, size_t *used);
    /* Makes a pending for an answer that is known at once. Calls pipeline_add(). */
    struct pending *(*add)(struct pipeline *pipeline);
    /* Called when its answer is at the end of session::out. May be NULL. */
    void (*delivered)(struct pending *pending);
    /* Answers were sent, so there is room. May be NULL. */
    void (*progressed)(struct pipeline *pipeline);
    /* The client has ended its sending: ends this parked request, if it waits for a job (P6). */
    void (*end_wait)(struct pending *pending);
    /* The client will not get the answer: cancels what is in progress, and gives back what it
       reserved. */
    void (*abandon)(struct pending *pending);
    /* Frees it; it is in no list. */
    void (*free)(struct pending *pending);
};

void pipeline_init(struct pipeline *pipeline);
void pipeline_fini(struct pipeline *pipeline); /* abandons all that is pending */

/* ---- requests ---- */

/* A request has come: the newest. The rest of `pending` is the caller's to fill in. */
void pipeline_add(struct pipeline *pipeline, struct pending *pending);
/* Submits a command with the request's ticket, whose `answered` is set. The request may be answered
   and freed when this returns. */
void pipeline_submit(struct pending *pending, const struct cmd *cmd);
/* Abandons the request and frees it. Requests behind it are not resumed: it is the newest, or all
   are abandoned. */
void pipeline_abandon(struct pending *pending);

/* There must be one. */
static inline struct pending *pipeline_newest(const struct pipeline *pipeline)
{
    return LIST_ENTRY(pipeline->pending.prev, struct pending, place);
}
/* The newest request, if it is parked; else NULL. */
static inline struct pending *pipeline_parked(const struct pipeline *pipeline)
{
    bool some = pipeline->count > 0 && pipeline_newest(pipeline)->state == PENDING_PARKED;
    return some ? pipeline_newest(pipeline) : NULL;
}

/* ---- answers ---- */

/*
 * Where an answer is written. Between begin and end nothing else may be written for this
 * connection.
 */
struct pipeline_text {
    struct buf *out;
    size_t at;
};

struct pipeline_text pipeline_begin(struct pending *pending);
/* The answer is complete. Frees `pending`, now or when its answer is sent, and sends buffered
   answers that waited for it. */
void pipeline_end(struct pending *pending, struct pipeline_text text);
/* pipeline_end() for an answer that is complete in `text`, whose memory may be taken over. */
void pipeline_end_long(struct pending *pending, struct buf *text);
/* For an answer that is known as soon as the request is read. */
struct pipeline_text pipeline_begin_now(struct pipeline *pipeline);
void pipeline_end_now(struct pipeline *pipeline, struct pipeline_text text);

/* ---- the life of the connection ---- */

/* Takes no further requests: the connection closes when all are answered. */
void pipeline_stop(struct pipeline *pipeline);
/* Resumes reading, if there is room again. */
void pipeline_read_on(struct pipeline *pipeline);
/*
 * If the client has ended its sending, ends its wait, and maybe the connection. Call it when a
 * request became parked other than in input().
 */
void pipeline_check_client_end(struct pipeline *pipeline);

/* For session_kind: */
size_t pipeline_input(struct session *session, struct bytes bytes);
void pipeline_leaving(struct session *session);
void pipeline_ended(struct session *session);
void pipeline_drained(struct session *session);
/* Bytes of answers that the network has not taken, including those in session::out. */
size_t pipeline_unsent(const struct pipeline *pipeline);
/* Memory of answers that wait and of `working_bytes`. O(1). */
size_t pipeline_footprint(const struct pipeline *pipeline);

void pipeline_valid(const struct pipeline *pipeline); /* CHECKs the invariants. O(pending) */
void pipelines_valid(const struct server *server);    /* of all connections */

#endif
