/*
 * Internal declarations of this plugin: nats.c has the thread and the plugin, connection.c the
 * connection to NATS, names.c the look-ups of its servers, publisher.c the messages under way.
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
#include "sink/broker_url.h"
#include "sink/plugin.h"

enum {
    WINDOW_BYTES = 32 << 20, /* bytes of bodies that libnats holds, about */
    REST_MS = 200,           /* the first pause between two attempts to connect; then it doubles */
    BUCKETS_LOG2 = 12,       /* of nats::by_message: 10,000 lost messages are 3 in each */
};

struct name_look_up;

struct nats {
    struct list dead; // in `all_dead`: ended, but libnats threads may still call back
    struct broker_options options;
    struct broker_thread *thread;
    natsConnection *connection; /* NULL: there is none */
    jsCtx *stream;
    int event_fd;
    int64_t open_at_us; /* not connected: do not connect before this time */
    int64_t rest_ms;
    struct name_look_up *look_ups[BROKER_HOSTS_MAX]; /* NULL: none */
    bool left_out; /* libnats knows not all servers: a name was not answered in time */
    bool ready;
    struct list pushes;                         // push::place, oldest first
    struct push *by_message[1 << BUCKETS_LOG2]; // push::alike: all of them, by hash
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
    struct push *alike;       /* the next one in its bucket */
    natsMsg *message;         /* libnats'; only compared */
    struct broker_item *item; /* NULL: its outcome was reported */
    size_t bytes;
};

/* ---- nats.c ---- */

/* Wakes the broker's thread. Any thread. */
void jetstream_wake(struct nats *nats);

/* ---- connection.c ---- */

/* As plugin::check. On the loop's thread. */
enum err jetstream_check(const struct broker_options *options,
                         struct broker_error *out_error) MUST_USE;
/* Connects; waits up to 2 s for names, and 2 s for servers. If that fails, libnats goes on trying
   by itself, if it knows all servers. */
void jetstream_connect(struct nats *nats);
/* Closes the connection and drops all messages, whose items the caller has finished before. */
void jetstream_close(struct nats *nats);
/* Handles what libnats' threads have reported about the connection. */
void jetstream_look_at_connection(struct nats *nats);
bool jetstream_is_closed(struct nats *nats);
/* A context of JetStream, nats::stream, on the connection that is there. */
natsStatus jetstream_make_stream(struct nats *nats);

/* ---- names.c ---- */

/* Waits up to `limit_us` until the servers' names are looked up, and less if the thread must end.
   Those that are not answered are taken out of the URL. False: none is left. */
bool jetstream_look_up(struct nats *nats, struct broker_url *url, int64_t limit_us);
/* Detaches from the look-ups: their threads end by themselves. Any thread, if the broker's has
   ended. */
void jetstream_forget_look_ups(struct nats *nats);

/* ---- publisher.c ---- */

/* jsOptions::PublishAsync.AckHandler: on a thread of libnats. */
void jetstream_on_answer(jsCtx *stream, natsMsg *message, jsPubAck *ack, jsPubAckErr *error,
                         void *closure);
/* The item's message is libnats' from now on, until it is answered. O(1) */
struct push *jetstream_add_push(struct nats *nats, struct broker_item *item, natsMsg *message);
/* Finishes the items that the stream has answered. O(answers) */
void jetstream_take_answers(struct nats *nats);
/* Publishes what waits, as long as there is room in the window. */
void jetstream_take_items(struct nats *nats);
/* Finishes the items whose deadline has passed. */
void jetstream_report_late(struct nats *nats);
/* All items under way that the stream has not answered are OUTCOME_UNSENT. Their messages stay
   until libnats has answered. */
void jetstream_unsend_all(struct nats *nats, const char *why);
/* Drops the context of JetStream, if too many messages without items were never answered. */
void jetstream_forget_lost(struct nats *nats);
/* Frees all of nats::pushes; libnats must be done with them. */
void jetstream_forget_pushes(struct nats *nats);

#endif
