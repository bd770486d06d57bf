/*
 * The world of redis_life_test.c: daemons (the Redis engine, whole, behind its port), simulated
 * servers, sentinels or a cluster, and the network between them, on one clock.
 */
#ifndef LATERD_TEST_REDIS_LIFE_WORLD_H
#define LATERD_TEST_REDIS_LIFE_WORLD_H

#include <string.h>

#include "base/check.h"
#include "engine/redis/engine_parts.h"
#include "engine/redis/script_parts.h"
#include "redis_life_oracle.h"
#include "sim/redis/cluster.h"
#include "sim/redis/network.h"

enum {
    DAEMONS = 3, /* of a life; there is room for more */
    DAEMONS_MAX = 20,
    ACTORS = 8,
    TOPICS = 2,
    HELD_MAX = 4,
    SERVERS_MAX = 6,
    LIFE_PARTITIONS = 4,
    MENDERS_MAX = 64,
    MS = 1000,
    SECOND_US = 1000 * MS,
    TURNS_MAX = 20000, /* at one moment; more is a daemon that spins */
};

enum shape { SHAPE_SINGLE, SHAPE_SENTINEL, SHAPE_CLUSTER };

struct life;

/* What a daemon was told of topics' settings. */
struct told_settings {
    struct settings_observer observer;
    struct {
        uint64_t version;
        uint64_t text; /* 0: it has none */
    } topics[TOPICS];
};

struct daemon {
    struct told_settings told;
    struct life *life;
    unsigned number;
    struct clock clock; /* of the daemon: see daemon_now */
    int64_t ahead_us;
    struct loop *loop;
    struct redis_engine *engine; /* NULL: down */
    unsigned born;               /* how often it was started */
    bool opening, leaving;
    int64_t wanted_us, frozen_until_us, boot_at_us;
};

struct held {
    unsigned version;
    uint64_t seq, lease;
    bool bound;
    unsigned daemon, born;
};

enum op { OP_NONE, OP_PUSH, OP_RESERVE, OP_END, OP_CHANGE, OP_TOUCH, OP_LOOK };

struct actor {
    struct ticket ticket;
    struct life *life;
    unsigned daemon, born;
    enum op op;
    bool busy, parked, drains, rests;
    unsigned version;
    uint64_t seq;   /* of END, CHANGE, TOUCH: the job that was named */
    uint64_t lease; /* that was given, or 0 */
    bool stale;     /* a newer one had been seen */
    bool sure;      /* nothing but a fault can make it stale */
    int64_t due_us; /* a release asked for */
    int64_t sent_us, next_us;
    int64_t ttr_us; /* of RESERVE: in place of the jobs' own; or 0 */
    bool bound;
    bool waits_for[TOPICS]; /* of RESERVE */
    struct held held[HELD_MAX];
    unsigned held_count;
    uint16_t note;        /* of CHANGE: its code; 0: none */
    struct held changing; /* of CHANGE: held again if nobody knows whether it was done */
    enum err err;         /* of its last command */
};

/* ---- faults that end, see redis_life_faults.h ---- */

enum mending {
    MEND_CUT,
    MEND_DOWN,
    MEND_FULL,
    MEND_LOADING,
    MEND_BUSY,
    MEND_SAVE,
    MEND_FEW,
    MEND_LEAVE,
    MEND_LAG,
    MEND_FAIL_OVER,
    MEND_LEAP,
    MEND_LOSE,
};

struct mender {
    int64_t at_us;
    enum mending what;
    unsigned a, b;
    int64_t by_us; /* LEAP; LOSE: how long it still looks for its moment */
};

/* ---- lateness, see redis_life_late.h ---- */

enum {
    LEAP_RECOVERY_US = 1000000,
    LOSS_RECOVERY_US = 4000000,  /* noticed by a heartbeat; half a second; another daemon has to */
    FAULT_RECOVERY_US = 2000000, /* link.c: BACK_OFF_MAX_US; members.h: a silent daemon is found */
};

struct due_job {
    char number[8];   /* as in its key */
    int64_t since_us; /* it is due, and nobody has it; 0: there is none */
};

/* Of a partition. */
struct late_clock {
    bool known;
    bool leapt; /* what Redis shows now is not the queue's time */
    bool wild;  /* the same, and its server's clock has leapt, or it may have lost data */
    int64_t ahead_us, server_us; /* of the world: the queue's clock, and its server's by then */
};

struct late_state {
    struct late_clock clocks[LIFE_PARTITIONS];
    int64_t hung_us;            /* when a daemon was seen last that hung; 0: never */
    int64_t well_us;            /* nothing is wrong from then on, if nothing more happens */
    int64_t look_us;            /* the next look */
    unsigned born[DAEMONS_MAX]; /* of daemons that served at the last one; 0: it did not */
    struct due_job due[LIFE_PARTITIONS][TOPICS];
};

struct life {
    struct oracle oracle;
    struct late_state late;
    struct sim_random random;
    int64_t now_us;
    enum shape shape;
    unsigned wait_replicas, partitions;
    bool gentle; /* no daemon dies or is silent: reservations may be for hours */
    bool risky;  /* Redis may lose data */
    bool loses;  /* Redis loses sorted sets now and then */
    bool slow;   /* it is long, and its clients take their time */
    bool moving; /* slots move; else replicas that are behind may take over: Redis itself loses keys
                    if a slot's new master dies before its replica has them */
    bool quiet;  /* no more faults, no more pushes */
    bool healed; /* nothing is wrong any more, but for at most one fault */
    bool calm;   /* clients do little, and wait for each other */
    struct sim_network *network;
    struct sim_redis *servers[SERVERS_MAX], *sentinels[3];
    unsigned server_count, sentinel_count, master;
    struct sim_cluster cluster;
    struct redis_url url;
    struct daemon daemons[DAEMONS_MAX];
    unsigned daemon_count;
    struct actor actors[ACTORS];
    int64_t late_us;  /* bytes may be */
    int64_t leap_us;  /* the servers' clocks are set now and then by up to so much, and no daemon
                         ends, for one that starts during a leap knows nothing of it; 0: never */
    int64_t uncut_us; /* gentle: no path is cut before */
    unsigned turns;   /* since the clock moved */
    struct mender menders[MENDERS_MAX];
    unsigned mender_count;
};

/* No job is late until so long after now. */
static inline void late_excuse(struct life *life, int64_t recovery_us)
{
    int64_t well_us = life->now_us + recovery_us;
    if (life->late.well_us < well_us)
        life->late.well_us = well_us;
}

static inline uint64_t env_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static inline uint64_t below(struct life *life, uint64_t limit)
{
    return sim_random_below(&life->random, limit);
}

static inline bool chance(struct life *life, unsigned per_mille)
{
    return sim_random_chance(&life->random, per_mille);
}

static inline int64_t span(struct life *life, int64_t most_us)
{
    return (int64_t)below(life, (uint64_t)most_us);
}

static inline int64_t daemon_now(const struct daemon *daemon)
{
    return daemon->life->now_us + daemon->ahead_us;
}

static inline int64_t daemon_clock(struct clock *clock)
{
    return daemon_now(LIST_ENTRY(clock, struct daemon, clock));
}

/* ---- time ---- */

static inline bool runs(const struct daemon *daemon)
{
    return daemon->engine && daemon->frozen_until_us <= daemon->life->now_us;
}

/* It serves clients. */
static inline bool is_awake(const struct daemon *daemon)
{
    return runs(daemon) && !daemon->opening && !daemon->leaving;
}

/* Its engine is no more. Answers that came with its end reached its clients. */
static inline void daemon_end(struct daemon *daemon)
{
    struct life *life = daemon->life;
    redis_engine_free(daemon->engine);
    sim_network_end(life->network, daemon->number);
    daemon->engine = NULL;
    daemon->opening = daemon->leaving = false;
    for (unsigned i = 0; i < ACTORS; i++) {
        struct actor *actor = &life->actors[i];
        if (actor->daemon == daemon->number)
            actor->busy = actor->parked = false;
    }
}

static inline void daemon_leave(struct daemon *daemon)
{
    struct engine *engine = redis_engine_port(daemon->engine);
    daemon->opening = false;
    daemon->leaving = true;
    engine->verbs->drain(engine);
    daemon->wanted_us = daemon->life->now_us;
    redis_engine_leave(daemon->engine);
}

/* One that cannot start leaves, and tries again later. */
static inline void daemon_look(struct daemon *daemon)
{
    struct life *life = daemon->life;
    struct redis_error error;
    if (daemon->opening) {
        enum err err = redis_engine_started(daemon->engine, &error);
        daemon->opening = err == ERR_AGAIN;
        if (err && err != ERR_AGAIN)
            daemon_leave(daemon);
    }
    if (daemon->leaving && redis_engine_left(daemon->engine)) {
        if (daemon->engine->late)
            oracle_left_late(&life->oracle);
        daemon_end(daemon);
        daemon->boot_at_us = life->now_us + (life->quiet ? 0 : span(life, 2 * SECOND_US));
    }
}

static inline void daemon_turn(struct daemon *daemon)
{
    struct life *life = daemon->life;
    struct engine *engine = redis_engine_port(daemon->engine);
    struct loop *loop = daemon->loop;
    (void)loop_update_time(loop);
    engine->verbs->begin(engine);
    bool more = loop->verbs->gather(loop, NULL) | loop_expire(loop, NULL);
    engine->verbs->match(engine);
    int64_t next_us = engine->verbs->end(engine), timer_us = timers_next_us(&loop->timers);
    next_us = timer_us < next_us ? timer_us : next_us;
    daemon->wanted_us = next_us == INT64_MAX ? INT64_MAX : next_us - daemon->ahead_us;
    if (daemon->wanted_us > life->now_us && daemon->wanted_us < INT64_MAX)
        daemon->wanted_us += span(life, 300);
    if (more)
        daemon->wanted_us = life->now_us;
    daemon_look(daemon);
}

static inline int64_t daemon_next_us(const struct daemon *daemon)
{
    struct life *life = daemon->life;
    if (!daemon->engine)
        return INT64_MAX;
    if (daemon->frozen_until_us > life->now_us)
        return daemon->frozen_until_us;
    int64_t input_us = sim_network_daemon_us(life->network, daemon->number);
    return input_us < daemon->wanted_us ? input_us : daemon->wanted_us;
}

static inline bool wants_turn(const struct daemon *daemon)
{
    return runs(daemon) && daemon_next_us(daemon) <= daemon->life->now_us;
}

/* Everything happens that is due now: bytes arrive, daemons have their turns. */
static inline void settle(struct life *life)
{
    bool again = true;
    while (again) {
        again = false;
        sim_network_run(life->network, life->now_us);
        for (unsigned i = 0; i < life->daemon_count; i++) {
            if (wants_turn(&life->daemons[i])) {
                daemon_turn(&life->daemons[i]);
                again = true;
            }
        }
        if (++life->turns > TURNS_MAX)
            BROKEN(&life->oracle, "a daemon spins");
    }
}

static inline int64_t world_next_us(const struct life *life)
{
    int64_t next_us = sim_network_next_us(life->network);
    for (unsigned i = 0; i < life->daemon_count; i++) {
        int64_t daemon_us = daemon_next_us(&life->daemons[i]);
        next_us = daemon_us < next_us ? daemon_us : next_us;
    }
    return next_us;
}

static inline void move_clock(struct life *life, int64_t now_us)
{
    if (now_us > life->now_us) {
        life->now_us = now_us;
        life->turns = 0;
    }
}

/* ---- daemons ---- */

/* Topics are "a" and "bb". */
static inline void hear_settings(struct settings_observer *observer, struct bytes topic,
                                 uint64_t version, struct bytes settings)
{
    struct told_settings *told = (struct told_settings *)observer; /* its first member */
    uint64_t text = 0;
    if (settings.len && !bytes_to_u64(settings, &text))
        text = UINT64_MAX;
    told->topics[topic.len - 1].version = version;
    told->topics[topic.len - 1].text = text;
}

static inline void daemon_start(struct daemon *daemon)
{
    struct life *life = daemon->life;
    struct redis_error error;
    daemon->clock = (struct clock){.now_us = daemon_clock};
    daemon->loop = sim_network_start(life->network, daemon->number, &daemon->clock);
    struct redis_options options = {.url = life->url,
                                    .sentinel_user = "",
                                    .sentinel_password = "",
                                    .prefix = "q",
                                    .partitions = life->partitions,
                                    .timeout_us = 2 * SECOND_US,
                                    .wait_replicas = life->wait_replicas,
                                    .jobs_max = life->oracle.jobs_max,
                                    .topics_max = 100,
                                    .waiters_max = 100,
                                    .loop = daemon->loop};
    daemon->opening = true;
    daemon->born++;
    daemon->wanted_us = life->now_us;
    daemon->boot_at_us = INT64_MAX;
    if (redis_engine_new(&options, &daemon->engine, &error))
        BROKEN(&life->oracle, "daemon %u cannot be made", daemon->number);
    struct engine *port = redis_engine_port(daemon->engine);
    daemon->told = (struct told_settings){.observer.changed = hear_settings};
    port->verbs->observe_settings(port, &daemon->told.observer);
}

static inline void boot_daemons(struct life *life)
{
    for (unsigned i = 0; i < life->daemon_count; i++) {
        struct daemon *daemon = &life->daemons[i];
        if (!daemon->engine && daemon->boot_at_us <= life->now_us)
            daemon_start(daemon);
    }
}

/* Answers that its end brings reach nobody. */
static inline void forget_actors(struct daemon *daemon)
{
    for (unsigned i = 0; i < ACTORS; i++) {
        struct actor *actor = &daemon->life->actors[i];
        if (actor->busy && actor->daemon == daemon->number)
            actor->born = 0;
    }
}

static inline void daemon_stop(struct daemon *daemon, bool killed)
{
    struct life *life = daemon->life;
    if (!killed) {
        daemon_leave(daemon);
        return;
    }
    forget_actors(daemon);
    daemon_end(daemon);
    daemon->boot_at_us = life->now_us + span(life, 3 * SECOND_US);
}

/* ---- servers ---- */

static inline void add_server(struct life *life, uint16_t port)
{
    struct sim_redis *server =
        sim_redis_new(&(struct sim_redis_options){.host = "10.0.0.1", .port = port}, life->now_us);
    life->servers[life->server_count++] = server;
    sim_network_add(life->network, server);
}

static inline void add_address(struct life *life, uint16_t port)
{
    struct redis_address *address = &life->url.addresses[life->url.address_count++];
    (void)snprintf(address->host, sizeof(address->host), "10.0.0.1");
    address->port = port;
}

static inline void make_single(struct life *life)
{
    life->url.topology = REDIS_SINGLE;
    add_server(life, 7000);
    add_address(life, 7000);
}

static inline void make_sentinel(struct life *life)
{
    life->url.topology = REDIS_SENTINEL;
    (void)snprintf(life->url.service, sizeof(life->url.service), "jobs");
    add_server(life, 7000);
    add_server(life, 7001);
    sim_redis_follow(life->servers[1], life->servers[0]);
    for (uint16_t i = 0; i < 3; i++) {
        life->sentinels[i] = sim_redis_new(&(struct sim_redis_options){.host = "10.0.0.1",
                                                                       .port = (uint16_t)(7100 + i),
                                                                       .sentinel = true,
                                                                       .service = "jobs"},
                                           life->now_us);
        sim_redis_name_master(life->sentinels[i], life->servers[0], false);
        sim_network_add(life->network, life->sentinels[i]);
        add_address(life, (uint16_t)(7100 + i));
    }
    life->sentinel_count = 3;
}

static inline void make_cluster(struct life *life)
{
    life->url.topology = REDIS_CLUSTER;
    for (uint16_t i = 0; i < 6; i++) {
        add_server(life, (uint16_t)(7000 + i));
        if (i < 3)
            add_address(life, (uint16_t)(7000 + i));
    }
    sim_cluster_init(&life->cluster, life->servers, 6, 3, sim_random_next(&life->random));
    if (chance(life, 300)) /* notices on the bus; a few, or most of them */
        life->cluster.lost_per_mille = chance(life, 500) ? 50 : 800;
    for (unsigned i = 0; i < 3; i++)
        sim_redis_follow(life->servers[3 + i], life->servers[i]);
}

/* Its trace. */
static inline uint64_t life_free(struct life *life)
{
    uint64_t trace = life->oracle.trace;
    for (unsigned i = 0; i < life->daemon_count; i++) {
        if (life->daemons[i].engine)
            daemon_stop(&life->daemons[i], true);
    }
    sim_network_free(life->network);
    for (unsigned i = 0; i < life->server_count; i++)
        sim_redis_free(life->servers[i]);
    for (unsigned i = 0; i < life->sentinel_count; i++)
        sim_redis_free(life->sentinels[i]);
    oracle_fini(&life->oracle);
    mem_free(life);
    return trace;
}

#endif
