/*
 * A plugin's sink on a real loop, and what became of what it was given: what tests of the plugins
 * for Kafka and NATS share. Included behind cmocka.
 */
#ifndef LATERD_TEST_PLUGIN_BED_H
#define LATERD_TEST_PLUGIN_BED_H

#include <stdio.h>

#include "base/list.h"
#include "base/log.h"
#include "os/clock.h"
#include "os/loop.h"
#include "sink/plugin.h"

enum { TURN_US = 5000, WAIT_US = 60 * 1000 * 1000 };

static struct os_clock os_clock;
static struct os_loop *os;
static struct loop *loop;
static struct sink *sink;
static unsigned changes; /* that the sink has told of */

struct sent {
    struct delivery delivery;
    unsigned done;
    enum outcome_kind kind;
    bool unhealthy;
    char reason[OUTCOME_REASON_MAX + 1];
};

static inline void changed(struct sink *of)
{
    (void)of;
    changes++;
}

static inline void done(struct delivery *delivery, const struct outcome *outcome)
{
    struct sent *sent = LIST_ENTRY(delivery, struct sent, delivery);
    sent->done++;
    sent->kind = outcome->kind;
    sent->unhealthy = outcome->unhealthy;
    (void)snprintf(sent->reason, sizeof(sent->reason), "%.*s", (int)outcome->reason.len,
                   outcome->reason.at);
}

static inline bool turn_until_ready(bool ready)
{
    int64_t until_us = loop_update_time(loop) + WAIT_US;
    while (sink->verbs->ready(sink, NULL) != ready && loop->now_us < until_us)
        loop_turn(loop, loop->now_us + TURN_US);
    return sink->verbs->ready(sink, NULL) == ready;
}

static inline void turn_until_done(struct sent *sent, unsigned count)
{
    int64_t until_us = loop_update_time(loop) + WAIT_US;
    for (unsigned i = 0; i < count; i++) {
        while (!sent[i].done && loop->now_us < until_us)
            loop_turn(loop, loop->now_us + TURN_US);
        assert_int_equal(sent[i].done, 1);
    }
}

static inline void expect(struct sent *sent, enum outcome_kind kind, const char *words)
{
    turn_until_done(sent, 1);
    if (sent->kind != kind || !strstr(sent->reason, words))
        fail_msg("outcome %d, reason '%s'", (int)sent->kind, sent->reason);
}

/* Begins to connect to the broker "events" there. */
static inline void bed_open(const char *url)
{
    struct broker_error why;
    os_clock_init(&os_clock);
    os = os_loop_new(&os_clock.clock, 0);
    loop = os_loop_port(os);
    (void)loop_update_time(loop);
    assert_int_equal(laterd_plugin.open(&(struct broker_options){.name = "events",
                                                                 .url = url,
                                                                 .ca = "",
                                                                 .certificate = "",
                                                                 .key = "",
                                                                 .window = 1000,
                                                                 .heartbeat_us = 2000000,
                                                                 .timeout_us = 20000000,
                                                                 .loop = loop},
                                        &sink, &why),
                     OK);
    changes = 0;
    sink->changed = changed;
}

#endif
