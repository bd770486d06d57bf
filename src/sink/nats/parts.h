/*
 * Internal declarations of this plugin: nats.c has the thread and the plugin, connection.c the
 * connection to NATS, publisher.c the messages under way.
 *
 * All functions are called on the broker's thread, unless they say otherwise.
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
    WINDOW_BYTES = 32 << 20, /* bytes of bodies that libnats holds, about */
    REST_MS = 200,           /* the first pause between two attempts to connect; then it doubles */
};

struct nats {
    struct list dead; // in `all_dead`: ended, but libnats threads may still call back
    char *url_text;
    struct broker_options options;
    struct broker_thread *thread;
    natsConnection *connection; /* NULL: there is none */
    jsCtx *stream;
    int event_fd;
    int64_t open_at_us; /* not connected: do not connect before this time */
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

/* Wakes the broker's thread. Any thread. */
void jetstream_wake(struct nats *nats);

/* ---- connection.c ---- */

/* As plugin::check. On the loop's thread. */
enum err jetstream_check(const struct broker_options *options,
                         struct broker_error *out_error) MUST_USE;
/* Connects; waits up to 2 s. If that fails, libnats goes on trying by itself. */
void jetstream_connect(struct nats *nats);
/* Closes the connection and drops all messages, whose items the caller has finished before. */
void jetstream_close(struct nats *nats);
/* Handles what libnats' threads have reported about the connection. */
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
/* Drops the context of JetStream, if too many messages without items were never answered. */
void jetstream_forget_lost(struct nats *nats);
/* Frees all of nats::pushes; libnats must be done with them. */
void jetstream_forget_pushes(struct nats *nats);

#endif
