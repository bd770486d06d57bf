/*
 * port/sink.h in memory: a receiver whose answers a test makes up, on the simulated clock. What is
 * sent is received at once; the answer comes when the receiver says, or the delivery times out.
 *
 * Kinder than the world: nothing that was sent is lost on the way there, and there is no queue in
 * it.
 */
#ifndef LATERD_SIM_SINK_H
#define LATERD_SIM_SINK_H

#include "port/loop.h"
#include "port/sink.h"

struct sim_sink;

struct sim_answer {
    int64_t after_us; /* beyond the delivery's timeout: FAILED and unhealthy, then */
    struct outcome outcome;
};

struct sim_receiver {
    /* It has it; fills in the answer, which is DELIVERED at once unless it says otherwise. */
    void (*received)(struct sim_receiver *receiver, const struct delivery *delivery,
                     struct sim_answer *answer);
    /* The answer is about to be told; NULL: nobody wants to know. */
    void (*ended)(struct sim_receiver *receiver, const struct delivery *delivery);
};

struct sim_sink *sim_sink_new(struct loop *loop);
void sim_sink_free(struct sim_sink *sink); /* nothing is under way */
struct sink *sim_sink_port(struct sim_sink *sink);
void sim_sink_receiver(struct sim_sink *sink,
                       struct sim_receiver *receiver); /* NULL: 200 at once */

/* The broker is away, or back: ready() changes. What is under way goes on. */
void sim_sink_away(struct sim_sink *sink, bool away);
/* The process is killed: what is under way is forgotten, and never done. */
void sim_sink_kill(struct sim_sink *sink);
unsigned sim_sink_under_way(const struct sim_sink *sink);

#endif
