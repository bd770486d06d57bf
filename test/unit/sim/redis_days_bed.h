/*
 * A bed for bad days of the Redis engine: the world of redis_life_world.h without its random
 * clients. From one seed come the kind of Redis, how many daemons and partitions there are, and how
 * long bytes take; what goes wrong, and who asks for what, the test says. BROKEN() tells the seed.
 */
#ifndef LATERD_TEST_REDIS_DAYS_BED_H
#define LATERD_TEST_REDIS_DAYS_BED_H

#include "redis_client.h"
#include "redis_life_keys.h"

enum {
    ON_SINGLE = 1 << SHAPE_SINGLE,
    ON_SENTINEL = 1 << SHAPE_SENTINEL,
    ON_CLUSTER = 1 << SHAPE_CLUSTER,
    ON_ANY = ON_SINGLE | ON_SENTINEL | ON_CLUSTER,
    SEEDS = 6,                /* for each day */
    SOON_US = 10 * SECOND_US, /* what should come at once has come by then, or never does */
};

static const int64_t MINUTE_US = 60 * INT64_C(1000000);

/* From `least` to `most`. */
static inline unsigned between(struct life *day, unsigned least, unsigned most)
{
    return least + (unsigned)below(day, most - least + 1);
}

static inline struct life *day_new(uint64_t seed)
{
    struct life *day = mem_zalloc(sizeof(*day));
    day->oracle.seed = day->random.state = seed;
    day->now_us = INT64_C(1700000000) * SECOND_US + span(day, 1000 * INT64_C(1000000));
    struct sim_network_options options = {.seed = sim_random_next(&day->random),
                                          .latency_us = MS / 2 + span(day, MS),
                                          .split = chance(day, 200)};
    day->network = sim_network_new(&options, day->now_us);
    *sim_lua_ledger() = (struct sim_lua_ledger){0};
    return day;
}

static inline void day_pass(struct life *day, int64_t us)
{
    int64_t until_us = day->now_us + us;
    do {
        boot_daemons(day);
        settle(day);
        int64_t next_us = world_next_us(day);
        next_us = next_us <= day->now_us ? day->now_us + 1 : next_us;
        move_clock(day, next_us < until_us ? next_us : until_us);
    } while (day->now_us < until_us);
    settle(day);
}

static inline bool is_well(const struct daemon *daemon)
{
    struct engine *engine = daemon->engine ? redis_engine_port(daemon->engine) : NULL;
    return engine && is_awake(daemon) && engine->verbs->health(engine) == OK;
}

static inline bool all_are_well(const struct life *day)
{
    bool well = true;
    for (unsigned i = 0; i < day->daemon_count; i++)
        well = well && is_well(&day->daemons[i]);
    return well;
}

/* Who has lost a server, and found it again, has not read yet whether its policy is another. */
static inline void evicts_while_servers_come_and_go(struct life *day)
{
    for (unsigned i = 0; i < day->server_count; i++) {
        sim_redis_restart(day->servers[i], SIM_REDIS_KEEPS_ALL);
        for (unsigned steps = 0; steps < 200; steps++) {
            day_pass(day, 10 * MS);
            if (is_well(&day->daemons[0]))
                BROKEN(&day->oracle, "Redis has started again, may evict keys, and all is well");
        }
    }
}

/* Until all daemons serve. */
static inline void day_serve(struct life *day, int64_t most_us)
{
    int64_t until_us = day->now_us + most_us;
    while (!all_are_well(day)) {
        if (day->now_us >= until_us)
            BROKEN(&day->oracle, "a daemon does not serve after %lld ms", (long long)most_us / MS);
        day_pass(day, 20 * MS);
    }
}

/* The servers, one of these kinds (bits). */
static inline void day_servers(struct life *day, unsigned kinds)
{
    do {
        day->shape = (enum shape)below(day, 3);
    } while (!(kinds & (1u << day->shape)));
    switch (day->shape) {
    case SHAPE_SINGLE: make_single(day); break;
    case SHAPE_SENTINEL: make_sentinel(day); break;
    case SHAPE_CLUSTER: make_cluster(day); break;
    }
    for (unsigned i = 0; i < day->server_count; i++)
        sim_redis_settings(day->servers[i])->lag_us = MS;
}

static inline void day_daemons(struct life *day, unsigned daemons, unsigned partitions)
{
    day->daemon_count = daemons;
    day->partitions = partitions;
    for (unsigned i = 0; i < daemons; i++) {
        day->daemons[i].life = day;
        day->daemons[i].number = i;
    }
}

/* DAY_SEEDS, SIM_FIRST, SIM_SEED: see redis_bad_days_test.c. */
static inline void each_seed(void (*play)(struct life *day))
{
    const char *only = getenv("SIM_SEED");
    uint64_t first = env_number("SIM_SEED", env_number("SIM_FIRST", 1));
    uint64_t count = only && *only ? 1 : env_number("DAY_SEEDS", SEEDS);
    if (!only || !*only)
        log_level_set((enum log_level)(LOG_ERROR + 1));
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct life *day = day_new(seed);
        play(day);
        (void)life_free(day);
    }
}

/* The usual beginning. */
static inline void day_begin(struct life *day, unsigned kinds, unsigned daemons,
                             unsigned partitions)
{
    day_servers(day, kinds);
    day_daemons(day, daemons, partitions);
    day_serve(day, SOON_US);
}

/* ---- servers ---- */

/* Somebody else's command: DEL or SET of one key of the partition. */
static inline void spoil_key(struct life *day, unsigned partition, const char *which, bool set)
{
    char tag[16], name[32];
    struct sim_redis_conn *conn = sim_redis_accept(server_of(day, partition));
    struct buf command = {0};
    int len = snprintf(name, sizeof(name), "%s:%s", tag_of(partition, tag), which);
    if (set)
        buf_addf(&command, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$1\r\nx\r\n", len, name);
    else
        buf_addf(&command, "*2\r\n$3\r\nDEL\r\n$%d\r\n%s\r\n", len, name);
    sim_redis_input(conn, buf_bytes(&command));
    if (sim_redis_output(conn)->at[0] == '-')
        BROKEN(&day->oracle, "a command of the test was refused");
    buf_fini(&command);
    sim_redis_hang_up(conn);
}

/* ---- clients ---- */

static inline void day_submit(struct life *day, unsigned number, const struct cmd *cmd,
                              struct client *client)
{
    struct daemon *daemon = &day->daemons[number];
    struct engine *engine = redis_engine_port(daemon->engine);
    if (client)
        *client = (struct client){.ticket.answered = client_answered, .clock_us = &day->now_us};
    (void)loop_update_time(daemon->loop);
    (void)engine->verbs->submit(engine, cmd, client ? &client->ticket : NULL);
    engine->verbs->match(engine);
    daemon->wanted_us = day->now_us;
}

static inline void day_cancel(struct life *day, unsigned number, struct client *client)
{
    struct engine *engine = redis_engine_port(day->daemons[number].engine);
    engine->verbs->cancel(engine, &client->ticket);
    day->daemons[number].wanted_us = day->now_us;
}

/* `client`: or NULL, nobody wants to know. */
static inline void day_push(struct life *day, unsigned number, const char *topic, const char *id,
                            int64_t delay_us, struct client *client)
{
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = bytes_str(topic),
                                .id = bytes_str(id),
                                .due_us = daemon_now(&day->daemons[number]) + delay_us,
                                .ttr_us = MINUTE_US,
                                .body = BYTES("body")}};
    day_submit(day, number, &push, client);
}

static inline void day_reserve(struct life *day, unsigned number, const char *topic, uint32_t max,
                               int64_t wait_us, struct client *client)
{
    struct bytes name = bytes_str(topic);
    struct cmd take = {
        .kind = CMD_RESERVE,
        .reserve = {.topics = &name, .topic_count = 1, .max = max, .wait_us = wait_us}};
    day_submit(day, number, &take, client);
}

/* Until it was answered. */
static inline void day_await(struct life *day, const struct client *client, int64_t most_us)
{
    int64_t until_us = day->now_us + most_us;
    while (!client->answers && day->now_us < until_us)
        day_pass(day, MS);
    if (!client->answers)
        BROKEN(&day->oracle, "a client has no answer after %lld ms", (long long)most_us / MS);
}

static inline void ended_well(struct life *day, const struct client *client, const char *what)
{
    if (!client->answers || client->err)
        BROKEN(&day->oracle, "%s: %u answers, error %d", what, client->answers, (int)client->err);
}

/* Takes all of the topic that is ready: how many. */
static inline unsigned day_take_all(struct life *day, unsigned number, const char *topic)
{
    struct client client;
    unsigned count = 0;
    do {
        day_reserve(day, number, topic, 100, 0, &client);
        day_await(day, &client, SOON_US);
        count += client.count;
    } while (client.count);
    return count;
}

/* A job was pushed to the topic, and has gone. */
static inline void day_make_topic(struct life *day, const char *topic)
{
    struct client client;
    day_push(day, 0, topic, "", 0, &client);
    day_await(day, &client, SOON_US);
    day_reserve(day, 0, topic, 1, SECOND_US, &client);
    day_await(day, &client, SOON_US);
    struct cmd finish = {.kind = CMD_FINISH, .job = {.ref.seq = client.seq, .lease = client.lease}};
    day_submit(day, 0, &finish, &client);
    day_await(day, &client, SOON_US);
    if (client.err)
        BROKEN(&day->oracle, "a job cannot be finished: %d", (int)client.err);
}

#endif
