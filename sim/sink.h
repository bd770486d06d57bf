/*
 * port/sink.h in memory, on the simulated clock: the test chooses a receiver's answers. A delivery
 * is received at once; the answer comes after the time that the receiver chose, or the delivery
 * times out.
 *
 * Unlike reality: no delivery is lost on its way, and the sink has no queue.
 */
#ifndef LATERD_SIM_SINK_H
#define LATERD_SIM_SINK_H

#include "port/loop.h"
#include "port/sink.h"

struct sim_sink;

struct sim_answer {
    int64_t after_us; /* if above the delivery's timeout: FAILED and unhealthy at that time */
    struct outcome outcome;
};

struct sim_receiver {
    /* A delivery was received. May change *answer, which is DELIVERED at once by default. */
    void (*received)(struct sim_receiver *receiver, const struct delivery *delivery,
                     struct sim_answer *answer);
    /* Called before the answer is reported. May be NULL. */
    void (*ended)(struct sim_receiver *receiver, const struct delivery *delivery);
};

struct sim_sink *sim_sink_new(struct loop *loop);
void sim_sink_free(struct sim_sink *sink); /* nothing is under way */
struct sink *sim_sink_port(struct sim_sink *sink);
void sim_sink_receiver(struct sim_sink *sink,
                       struct sim_receiver *receiver); /* NULL: 200 at once */

/* Sets what ready() returns. Deliveries under way are not affected. */
void sim_sink_away(struct sim_sink *sink, bool away);
/* The process is killed: drops what is under way, without reporting it. */
void sim_sink_kill(struct sim_sink *sink);
unsigned sim_sink_under_way(const struct sim_sink *sink);

#endif
