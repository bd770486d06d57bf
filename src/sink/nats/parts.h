/*
 * What the files of this plugin know of each other: nats.c has the thread and the plugin,
 * connection.c the connection to NATS, publisher.c the messages under way.
 *
 * All functions are for the broker's thread alone, but where it says otherwise.
 */
#ifndef LATERD_SINK_NATS_PARTS_H
#define LATERD_SINK_NATS_PARTS_H

#include <nats/nats.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "sink/broker_thread.h"
#include "sink/plugin.h"

enum {
    WINDOW_BYTES = 32 << 20, /* bodies that libnats holds, at most about so many */
    REST_MS = 200,           /* the first rest between two attempts to connect; then it doubles */
};

struct nats {
    struct list dead; // in `all_dead`: ended, but libnats' threads may still call
    char *url_text;
    struct broker_options options;
    struct broker_thread *thread;
    natsConnection *connection; /* NULL: there is none */
    jsCtx *stream;
    int event_fd;
    int64_t open_at_us; /* without a connection: not before this */
    int64_t rest_ms;
    bool ready;
    struct list pushes; // push::place, oldest first
    size_t bytes;
    atomic_ullong duplicates; /* acknowledged, and the stream had them already */
    unsigned lost;            /* pushes without an item */
    pthread_mutex_t mutex;    /* of what follows, which libnats' threads write */
    struct queue answers;     // answer::place
    bool connected, dropped, closed;
    char why[160];
};

struct push {
    struct list place;
    natsMsg *message;         /* libnats'; only compared */
    struct broker_item *item; /* NULL: it was told */
    size_t bytes;
};

/* ---- nats.c ---- */

/* Has the broker's thread look at what happened. On any thread. */
void jetstream_wake(struct nats *nats);

/* ---- connection.c ---- */

/* As plugin::check. On the loop's thread. */
enum err jetstream_check(const struct broker_options *options,
                         struct broker_error *out_error) MUST_USE;
/* Waits up to 2 s for each of its addresses; then libnats goes on trying by itself. */
void jetstream_connect(struct nats *nats);
/* Forgets all messages, too: the caller has said what became of them. */
void jetstream_close(struct nats *nats);
/* What libnats' threads have said of the connection: is it there, has it ended? */
void jetstream_look_at_connection(struct nats *nats);
bool jetstream_is_closed(struct nats *nats);
/* A context of JetStream, nats::stream, on the connection that is there. */
natsStatus jetstream_make_stream(struct nats *nats);

/* ---- publisher.c ---- */

/* jsOptions::PublishAsync.AckHandler: on a thread of libnats. */
void jetstream_on_answer(jsCtx *stream, natsMsg *message, jsPubAck *ack, jsPubAckErr *error,
                         void *closure);
/* Finishes the items that the stream has answered. */
void jetstream_take_answers(struct nats *nats);
/* Publishes what waits, as long as there is room in the window. */
void jetstream_take_items(struct nats *nats);
/* Finishes the items whose deadline has passed. */
void jetstream_report_late(struct nats *nats);
/* All items under way are OUTCOME_UNSENT. Their messages stay until libnats has answered. */
void jetstream_unsend_all(struct nats *nats, const char *why);
/* libnats keeps what was not answered; nobody here waits for it any more. */
void jetstream_forget_lost(struct nats *nats);
/* Frees all of nats::pushes; libnats must be done with them. */
void jetstream_forget_pushes(struct nats *nats);

#endif
