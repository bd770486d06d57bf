/*
 * A bed for one engine on simulated servers and sentinels: its turns, and the time that they share.
 * Time is simulated: what is waited for takes none.
 */
#ifndef LATERD_TEST_REDIS_BED_H
#define LATERD_TEST_REDIS_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "engine/redis/engine_parts.h"
#include "redis_client.h"
#include "sim/redis/cluster.h"
#include "sim/redis/network.h"
#include "sim/redis/server_parts.h"

enum { SERVERS = 6, MASTERS = 3, SENTINELS = 3, SECOND_US = 1000000, MS = 1000 };

static const int64_t EPOCH_US = INT64_C(1700000000) * SECOND_US;

static struct sim_network *network;
static struct sim_redis *servers[SERVERS], *sentinels[SENTINELS];
static struct redis_options options;
static struct redis_engine *engine, *other_engine;
static struct loop *other_loop; /* NULL: there is no second daemon */
static struct redis_error error;
static int64_t now_us, loaded_at_us;
static int64_t ahead_us; /* the daemon's clock against the world's */

static inline int64_t clock_now(struct clock *clock)
{
    (void)clock;
    return now_us + ahead_us;
}

static struct clock clock_of_all = {.now_us = clock_now};

static inline void pass(int64_t us)
{
    int64_t until_us = now_us + us;
    while (now_us < until_us) {
        int64_t next_us = sim_network_next_us(network);
        next_us = next_us <= now_us ? now_us + 1 : next_us;
        now_us = next_us < until_us ? next_us : until_us;
        if (now_us >= loaded_at_us)
            sim_redis_settings(servers[0])->loading = false;
        sim_network_run(network, now_us);
    }
}

/* What it sends is on its way behind it. */
static inline void turn_alone(void)
{
    struct engine *port = redis_engine_port(engine);
    (void)loop_update_time(options.loop);
    port->verbs->begin(port);
    (void)options.loop->verbs->gather(options.loop, NULL); /* all of it */
    (void)loop_expire(options.loop, NULL);                 /* the same */
    port->verbs->match(port);
    (void)port->verbs->end(port);
}

/* A turn, and a millisecond: which is soon enough for the next one. */
static inline void turn(void)
{
    turn_alone();
    pass(MS);
}

/* The engine's turns for so long. */
static inline void turns(int64_t us)
{
    for (int64_t until_us = now_us + us; now_us < until_us;)
        turn();
}

static inline void add_address(uint16_t port)
{
    struct redis_address *address = &options.url.addresses[options.url.address_count++];
    *address = (struct redis_address){.host = "10.0.0.1", .port = port};
}

static inline int setup(void **state)
{
    (void)state;
    now_us = EPOCH_US;
    ahead_us = 0;
    loaded_at_us = INT64_MAX;
    log_level_set((enum log_level)(LOG_ERROR + 1));
    network = sim_network_new(&(struct sim_network_options){.seed = 1, .latency_us = 100}, now_us);
    for (uint16_t i = 0; i < SERVERS; i++) {
        servers[i] = sim_redis_new(
            &(struct sim_redis_options){.host = "10.0.0.1", .port = (uint16_t)(7000 + i)}, now_us);
        sim_network_add(network, servers[i]);
    }
    for (uint16_t i = 0; i < SENTINELS; i++) {
        sentinels[i] = sim_redis_new(&(struct sim_redis_options){.host = "10.0.0.1",
                                                                 .port = (uint16_t)(7100 + i),
                                                                 .sentinel = true,
                                                                 .service = "jobs"},
                                     now_us);
        sim_redis_name_master(sentinels[i], servers[0], false);
        sim_network_add(network, sentinels[i]);
    }
    options = (struct redis_options){.sentinel_user = "",
                                     .sentinel_password = "",
                                     .prefix = "q",
                                     .partitions = 2,
                                     .timeout_us = 2 * SECOND_US,
                                     .waiters_max = 10,
                                     .topics_max = 10,
                                     .loop = sim_network_start(network, 0, &clock_of_all)};
    error.text[0] = '\0';
    return 0;
}

static inline void stop(void)
{
    if (!engine)
        return;
    redis_engine_leave(engine);
    while (!redis_engine_left(engine))
        turn();
    redis_engine_free(engine);
    engine = NULL;
}

/* The other daemon is the one that all here is about, until the next change. */
static inline void change_daemon(void)
{
    struct redis_engine *own_engine = engine;
    struct loop *own_loop = options.loop;
    engine = other_engine;
    options.loop = other_loop;
    other_engine = own_engine;
    other_loop = own_loop;
}

/* A check that failed has left both daemons: without this nobody would read which one it was. */
static inline void stop_what_is_left_of_a_pair(void)
{
    if (!other_loop)
        return;
    stop();
    change_daemon();
    stop();
    sim_network_end(network, 1);
    other_loop = NULL;
}

static inline int teardown(void **state)
{
    (void)state;
    stop_what_is_left_of_a_pair();
    stop();
    sim_network_end(network, 0);
    sim_network_free(network);
    for (int i = 0; i < SERVERS; i++)
        sim_redis_free(servers[i]);
    for (int i = 0; i < SENTINELS; i++)
        sim_redis_free(sentinels[i]);
    return 0;
}

static inline enum err start(void)
{
    assert_int_equal(redis_engine_new(&options, &engine, &error), OK);
    enum err err = redis_engine_started(engine, &error);
    for (; err == ERR_AGAIN; err = redis_engine_started(engine, &error))
        turn();
    if (err)
        stop();
    return err;
}

/* ---- two daemons ---- */

static inline void turns_of_both(int64_t us)
{
    for (int64_t until_us = now_us + us; now_us < until_us;) {
        turn();
        change_daemon();
        turn();
        change_daemon();
    }
}

/* Another one, as `options` say: it is the one that all is about. */
static inline void start_second(void)
{
    other_engine = NULL;
    other_loop = sim_network_start(network, 1, &clock_of_all);
    change_daemon();
    assert_int_equal(start(), OK);
}

static inline void start_pair(void)
{
    assert_int_equal(start(), OK);
    start_second();
}

/* The second one, and the first one is again what all is about, for teardown() to stop. */
static inline void stop_pair(void)
{
    stop();
    change_daemon();
    sim_network_end(network, 1);
    other_loop = NULL;
}

/* ---- commands ---- */

static inline struct client ask_for(const struct cmd *cmd, int64_t us)
{
    struct engine *port = redis_engine_port(engine);
    struct client client = {.ticket.answered = client_answered};
    (void)port->verbs->submit(port, cmd, &client.ticket); /* the client is told */
    while (client.answers == 0)
        turns(us);
    return client;
}

static inline struct client ask(const struct cmd *cmd, bool leaves)
{
    struct engine *port = redis_engine_port(engine);
    struct client client = {.ticket.answered = client_answered};
    (void)port->verbs->submit(port, cmd, &client.ticket); /* the client is told */
    if (leaves)
        port->verbs->cancel(port, &client.ticket);
    turns(SECOND_US);
    assert_int_equal(client.answers, leaves ? 0 : 1);
    return client;
}

static inline uint64_t scripts_sent(void)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < options.partitions; i++)
        count += engine->calls.partitions[i].number;
    return count;
}

/* Pushes a job, with a consumer who waits for it. */
static inline void a_job_for_who_waits(struct client *taker, struct client *pusher, int64_t due_us)
{
    static const struct bytes topic = {"t", 1};
    struct cmd take = {
        .kind = CMD_RESERVE,
        .reserve = {
            .topics = &topic, .topic_count = 1, .max = 1, .wait_us = 60 * INT64_C(1000000)}};
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = topic, .due_us = due_us, .ttr_us = 60 * INT64_C(1000000)}};
    struct engine *port = redis_engine_port(engine);
    *pusher = *taker = (struct client){.ticket.answered = client_answered};
    (void)port->verbs->submit(port, &push, &pusher->ticket); /* both are told */
    (void)port->verbs->submit(port, &take, &taker->ticket);
}

#endif
