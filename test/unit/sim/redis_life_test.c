/*
 * Lives of several daemons on one simulated Redis, sentinel group or cluster, one from each seed:
 * clients push, reserve, end and leave, while connections are cut at any byte, answers are late or
 * lost, servers die, fail over, move their slots, forget their scripts or are full, and daemons are
 * killed, frozen and started again. Then all is healed, and what was promised must be so: nothing
 * acknowledged is lost (P2), nothing came early (P3), nothing was held twice (P4), nothing ended
 * came back (P5), no job is kept for a client that left (P6), and nobody waits in vain.
 *
 * SIM_SEEDS: how many; SIM_SEED: that one alone, with the engine's log.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "redis_life_actor.h"

enum {
    SEEDS = 300, /* in CI; make sim-redis asks for more */
    TIMERS_MAX = 64,
    LIVE_US = 3 * SECOND_US,
    HEAL_US = 9 * SECOND_US,    /* a daemon is dead after five, and its place is cleared */
    HEAL_GENTLE_US = 2500 * MS, /* connections are made again, at the latest after two */
    DRAIN_US = 8 * SECOND_US,   /* the longest ttr of what nobody holds, and some more */
    HEARD_US = 2500 * MS,       /* a consumer that waits is served within that time */
};

/* ---- faults that end ---- */

enum mending {
    MEND_CUT,
    MEND_DOWN,
    MEND_FULL,
    MEND_LOADING,
    MEND_BUSY,
    MEND_SAVE,
    MEND_LAG,
    MEND_FAIL_OVER
};

struct mender {
    int64_t at_us;
    enum mending what;
    unsigned a, b;
};

static struct mender menders[TIMERS_MAX];
static unsigned mender_count;

static void mend_at(const struct life *life, int64_t after_us, enum mending what, unsigned a,
                    unsigned b)
{
    if (mender_count < TIMERS_MAX)
        menders[mender_count++] =
            (struct mender){.at_us = life->now_us + after_us, .what = what, .a = a, .b = b};
}

static void take_over(struct life *life, unsigned old, unsigned new, bool orderly);

static void mend(struct life *life, const struct mender *mender)
{
    struct sim_redis_settings *settings =
        mender->what == MEND_CUT ? NULL : sim_redis_settings(life->servers[mender->a]);
    switch (mender->what) {
    case MEND_CUT: sim_network_cut(life->network, mender->a, mender->b, SIM_WHOLE); break;
    case MEND_DOWN: sim_network_down(life->network, mender->a, false); break;
    case MEND_LAG: settings->lag_us = 1 + span(life, 20 * MS); break;
    case MEND_FULL: settings->full = false; break;
    case MEND_LOADING: settings->loading = false; break;
    case MEND_BUSY: settings->busy = false; break;
    case MEND_SAVE: settings->cannot_save = false; break;
    case MEND_FAIL_OVER: take_over(life, mender->a, mender->b, false); break;
    }
}

static void mend_due(struct life *life, bool all)
{
    for (unsigned i = mender_count; i-- > 0;) {
        struct mender mender = menders[i];
        if (!all && mender.at_us > life->now_us)
            continue;
        menders[i] = menders[--mender_count];
        mend(life, &mender);
    }
}

/* ---- faults ---- */

static unsigned any_server(struct life *life)
{
    return (unsigned)below(life, life->server_count + life->sentinel_count);
}

static unsigned any_master(struct life *life)
{
    unsigned server = (unsigned)below(life, life->server_count);
    return sim_redis_is_replica(life->servers[server]) ? life->master : server;
}

static void cut_path(struct life *life)
{
    unsigned daemon = (unsigned)below(life, life->daemon_count), server = any_server(life);
    int64_t us = life->gentle ? span(life, chance(life, 500) ? 900 * MS : 2600 * MS)
                              : span(life, 6 * SECOND_US);
    if (!life->gentle)
        oracle_silence(&life->oracle);
    else if (life->now_us < life->uncut_us) /* two would be a silence */
        return;
    life->uncut_us = life->now_us + us + 2 * SECOND_US;
    sim_network_cut(life->network, daemon, server,
                    chance(life, 600) ? SIM_CUT_ANSWERS : SIM_CUT_ALL);
    mend_at(life, us, MEND_CUT, daemon, server);
}

static void restart_server(struct life *life)
{
    unsigned server = any_master(life);
    enum sim_redis_kept kept = SIM_REDIS_KEEPS_ALL;
    if (life->risky && chance(life, 500)) {
        kept = chance(life, 500) ? SIM_REDIS_KEEPS_SAVED : SIM_REDIS_KEEPS_NOTHING;
        oracle_lost(&life->oracle);
    }
    sim_network_down(life->network, server, true);
    sim_redis_restart(life->servers[server], kept);
    mend_at(life, span(life, 1200 * MS), MEND_DOWN, server, 0);
    if (chance(life, 300)) {
        sim_redis_settings(life->servers[server])->loading = true;
        mend_at(life, span(life, 1500 * MS), MEND_LOADING, server, 0);
    }
}

static void break_settings(struct life *life)
{
    unsigned server = any_master(life);
    struct sim_redis_settings *settings = sim_redis_settings(life->servers[server]);
    int64_t us = span(life, 1200 * MS);
    switch (below(life, 3)) {
    case 0:
        settings->full = true;
        mend_at(life, us, MEND_FULL, server, 0);
        break;
    case 1:
        settings->busy = true;
        mend_at(life, us, MEND_BUSY, server, 0);
        break;
    default: settings->cannot_save = true; mend_at(life, us, MEND_SAVE, server, 0);
    }
}

static void flush_scripts(struct life *life)
{
    struct sim_redis_conn *conn = sim_redis_accept(life->servers[any_master(life)]);
    sim_redis_input(conn, BYTES("*2\r\n$6\r\nSCRIPT\r\n$5\r\nFLUSH\r\n"));
    sim_redis_hang_up(conn);
}

/*
 * The replica takes over. What was acknowledged is there: the change of hands was orderly, or the
 * daemons wait for replicas; else what it had not got is lost.
 */
static void take_over(struct life *life, unsigned old, unsigned new, bool orderly)
{
    if (!sim_redis_is_replica(life->servers[new]) || sim_redis_is_replica(life->servers[old]))
        return;
    if (orderly)
        sim_redis_catch_up(life->servers[new]);
    else
        oracle_failed_over(&life->oracle, life->now_us);
    if (!orderly && !life->wait_replicas)
        oracle_lost(&life->oracle);
    if (life->shape == SHAPE_CLUSTER) {
        sim_cluster_take_over(&life->cluster, life->servers[new], life->servers[old]);
    } else {
        sim_redis_follow(life->servers[new], NULL);
        sim_redis_follow(life->servers[old], life->servers[new]);
        for (unsigned i = 0; i < life->sentinel_count; i++)
            sim_redis_name_master(life->sentinels[i], life->servers[new], true);
        life->master = new;
    }
    sim_network_down(life->network, old, true);
    mend_at(life, span(life, SECOND_US), MEND_DOWN, old, 0);
}

/* In disorder: the replica hears nothing any more for a while, and then its master dies. */
static void fail_over(struct life *life)
{
    unsigned old = life->shape == SHAPE_SENTINEL ? life->master : any_master(life);
    unsigned new = life->shape == SHAPE_SENTINEL ? 1 - old : (old + 3) % 6;
    bool orderly = chance(life, 300) || life->moving || !(life->wait_replicas || life->risky);
    if (orderly) {
        take_over(life, old, new, true);
        return;
    }
    int64_t us = span(life, 600 * MS);
    sim_redis_settings(life->servers[new])->lag_us = INT64_MAX;
    mend_at(life, us, MEND_LAG, new, 0);
    mend_at(life, us, MEND_FAIL_OVER, old, new);
}

static void move_slot(struct life *life)
{
    struct sim_cluster *cluster = &life->cluster;
    char tag[16];
    int len = snprintf(tag, sizeof(tag), "{q:%u}", (unsigned)below(life, life->partitions));
    unsigned slot = sim_cluster_slot(bytes_of(tag, (size_t)len));
    unsigned to = (unsigned)below(life, life->server_count);
    if (cluster->to[slot] != SIM_CLUSTER_NONE)
        (void)sim_cluster_move_key(cluster, slot); /* one more */
    else if (to != cluster->owner[slot] && !sim_redis_is_replica(life->servers[to]))
        sim_cluster_begin_move(cluster, slot, to);
}

static void disturb_daemon(struct life *life)
{
    struct daemon *daemon = &life->daemons[below(life, life->daemon_count)];
    if (!is_awake(daemon))
        return;
    oracle_silence(&life->oracle);
    if (chance(life, 500))
        daemon_stop(daemon, true);
    else if (chance(life, 500))
        daemon_stop(daemon, false);
    else
        daemon->frozen_until_us = life->now_us + span(life, 8 * SECOND_US);
}

static void fault(struct life *life)
{
    uint64_t dice = below(life, 1000);
    if (dice < 200)
        sim_network_reset(life->network, (unsigned)below(life, life->daemon_count),
                          any_server(life));
    else if (dice < 350)
        cut_path(life);
    else if (dice < 450)
        restart_server(life);
    else if (dice < 550)
        break_settings(life);
    else if (dice < 600)
        flush_scripts(life);
    else if (dice < 650 && life->risky)
        sim_redis_save(life->servers[any_master(life)]);
    else if (dice < 750 && life->shape != SHAPE_SINGLE)
        fail_over(life);
    else if (dice < 900 && life->shape == SHAPE_CLUSTER && life->moving)
        move_slot(life);
    else if (!life->gentle)
        disturb_daemon(life);
}

/* ---- living ---- */

static int64_t actors_next_us(const struct life *life)
{
    int64_t next_us = INT64_MAX;
    for (unsigned i = 0; i < ACTORS; i++) {
        if (life->actors[i].next_us < next_us)
            next_us = life->actors[i].next_us;
    }
    return next_us;
}

static void boot_daemons(struct life *life)
{
    for (unsigned i = 0; i < life->daemon_count; i++) {
        struct daemon *daemon = &life->daemons[i];
        if (!daemon->engine && daemon->boot_at_us <= life->now_us)
            daemon_start(daemon);
    }
}

static int64_t sooner(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

static void live(struct life *life, int64_t for_us, int64_t faults_us)
{
    int64_t until_us = life->now_us + for_us;
    int64_t fault_us = faults_us ? life->now_us + span(life, faults_us) : INT64_MAX;
    while (life->now_us < until_us) {
        mend_due(life, false);
        boot_daemons(life);
        settle(life);
        for (unsigned i = 0; i < ACTORS; i++) {
            if (life->actors[i].next_us <= life->now_us)
                act(&life->actors[i]);
        }
        if (fault_us <= life->now_us) {
            fault(life);
            fault_us = life->now_us + span(life, faults_us);
        }
        settle(life);
        int64_t next_us = sooner(world_next_us(life), sooner(actors_next_us(life), fault_us));
        for (unsigned i = 0; i < mender_count; i++)
            next_us = sooner(next_us, menders[i].at_us);
        next_us = next_us <= life->now_us ? life->now_us + 1 : next_us;
        move_clock(life, sooner(next_us, until_us));
    }
}

static void heal(struct life *life)
{
    life->quiet = true;
    mend_due(life, true);
    sim_network_faults(life->network, &(struct sim_faults){0});
    for (unsigned slot = 0; life->shape == SHAPE_CLUSTER && slot < SIM_CLUSTER_SLOTS; slot++) {
        while (life->cluster.to[slot] != SIM_CLUSTER_NONE &&
               sim_cluster_move_key(&life->cluster, slot))
            continue;
    }
    for (unsigned i = 0; i < life->daemon_count; i++) {
        life->daemons[i].frozen_until_us = 0;
        if (!life->daemons[i].engine)
            life->daemons[i].boot_at_us = life->now_us;
    }
    live(life, life->gentle ? HEAL_GENTLE_US : HEAL_US, 0);
    for (unsigned i = 0; i < life->daemon_count; i++) {
        struct engine *engine =
            life->daemons[i].engine ? redis_engine_port(life->daemons[i].engine) : NULL;
        if (!engine || engine->verbs->health(engine) != OK)
            BROKEN(&life->oracle, "daemon %u does not serve, and all is well", i);
    }
}

static void kick_buried(struct life *life)
{
    struct actor *actor = &life->actors[0];
    for (unsigned i = 0; i < TOPICS; i++) {
        struct cmd cmd = {.kind = CMD_KICK_TOPIC,
                          .topic = {.topic = topic_names[i], .max = 1000, .state = JOB_GONE}};
        for (int tries = 0; actor->busy && tries < 10; tries++)
            live(life, 500 * MS, 0);
        actor->daemon = 0;
        actor->next_us = INT64_MAX;
        submit(actor, OP_LOOK, &cmd);
        for (int tries = 0; actor->busy && tries < 10; tries++)
            live(life, 20 * MS, 0);
    }
    actor->next_us = life->now_us;
}

static void drain(struct life *life)
{
    for (unsigned i = 0; i < ACTORS; i++) {
        struct actor *actor = &life->actors[i];
        if (actor->busy && actor->parked)
            cancel(actor);
        actor->drains = true;
        actor->next_us = life->now_us;
    }
    live(life, 600 * MS, 0);
    kick_buried(life);
    int64_t until_us = life->now_us + DRAIN_US;
    while (life->now_us < until_us && oracle_owed(&life->oracle) < life->oracle.count)
        live(life, 200 * MS, 0);
    unsigned number = oracle_owed(&life->oracle);
    if (number < life->oracle.count)
        BROKEN(&life->oracle, "P2: version %u (job %llu) was acknowledged and never came", number,
               (unsigned long long)life->oracle.versions[number].seq);
}

/* One waits at one daemon, and a job is pushed through another, now or for soon: it comes. */
static void nobody_is_deaf(struct life *life)
{
    for (unsigned i = 0; i < ACTORS; i++) {
        life->actors[i].drains = false;
        life->actors[i].next_us = INT64_MAX;
    }
    live(life, 100 * MS, 0);
    for (unsigned i = 0; i < life->daemon_count; i++) {
        struct actor *consumer = &life->actors[0], *producer = &life->actors[1];
        struct bytes topic = topic_names[below(life, TOPICS)];
        struct cmd reserve = {
            .kind = CMD_RESERVE,
            .reserve = {.topics = &topic, .topic_count = 1, .max = 1, .wait_us = 30 * SECOND_US}};
        consumer->daemon = i;
        submit(consumer, OP_LOOK, &reserve);
        live(life, span(life, 300 * MS), 0);
        int64_t delay_us = chance(life, 500) ? span(life, 400 * MS) : 0;
        producer->daemon = (unsigned)below(life, life->daemon_count);
        struct cmd push = {
            .kind = CMD_PUSH,
            .push = {.topic = topic,
                     .due_us = daemon_now(&life->daemons[producer->daemon]) + delay_us,
                     .ttr_us = 3600 * INT64_C(1000000),
                     .body = BYTES("v")}};
        submit(producer, OP_LOOK, &push);
        live(life, delay_us + HEARD_US, 0);
        if (consumer->busy || consumer->err)
            BROKEN(&life->oracle, "daemon %u is deaf: a job waits, and so does its consumer", i);
    }
}

/* ---- a life ---- */

static void shape_life(struct life *life)
{
    life->shape = (enum shape)below(life, 3);
    life->gentle = chance(life, 400);
    life->moving = chance(life, 500);
    life->slow = chance(life, 150);
    life->risky = !life->gentle && chance(life, 200);
    life->partitions = life->shape == SHAPE_CLUSTER ? 4 : 1 + (unsigned)below(life, 3);
    life->daemon_count = 1 + (unsigned)below(life, DAEMONS);
    life->wait_replicas = life->shape != SHAPE_SINGLE && chance(life, 500);
    switch (life->shape) {
    case SHAPE_SINGLE: make_single(life); break;
    case SHAPE_SENTINEL: make_sentinel(life); break;
    case SHAPE_CLUSTER: make_cluster(life); break;
    }
    for (unsigned i = 0; i < life->server_count; i++)
        sim_redis_settings(life->servers[i])->lag_us = 1 + span(life, 20 * MS);
}

/* Clocks that differ; those of servers that may take over from another are one. */
static void set_clocks(struct life *life)
{
    int64_t server_us = span(life, 4 * SECOND_US) - 2 * SECOND_US;
    if (chance(life, 600))
        return;
    for (unsigned i = 0; i < life->server_count; i++)
        sim_redis_settings(life->servers[i])->ahead_us = server_us;
    for (unsigned i = 0; i < life->daemon_count; i++)
        life->daemons[i].ahead_us = span(life, 3 * SECOND_US);
    life->oracle.slack_us = 20 * MS + 2 * life->late_us;
}

static struct life *life_new(uint64_t seed)
{
    struct life *life = mem_zalloc(sizeof(*life));
    life->oracle.seed = life->random.state = seed;
    life->now_us = INT64_C(1700000000) * SECOND_US;
    life->late_us = span(life, 400 * MS);
    struct sim_network_options options = {.seed = sim_random_next(&life->random),
                                          .latency_us = 1 + span(life, 2 * MS),
                                          .faults = {.late_us = life->late_us,
                                                     .late_per_mille = (unsigned)below(life, 30),
                                                     .reset_per_mille = (unsigned)below(life, 8)},
                                          .split = chance(life, 200)};
    life->network = sim_network_new(&options, life->now_us);
    mender_count = 0;
    shape_life(life);
    set_clocks(life);
    for (unsigned i = 0; i < ACTORS; i++)
        life->actors[i] = (struct actor){.life = life, .next_us = life->now_us};
    for (unsigned i = 0; i < life->daemon_count; i++) {
        life->daemons[i].life = life;
        life->daemons[i].number = i;
    }
    return life;
}

static uint64_t life_free(struct life *life)
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

static uint64_t one_life(uint64_t seed)
{
    struct life *life = life_new(seed);
    live(life, life->slow ? 3 * LIVE_US : LIVE_US, life->slow ? SECOND_US : 350 * MS);
    heal(life);
    drain(life);
    nobody_is_deaf(life);
    return life_free(life);
}

static void p2_p3_p4_p5_p6_hold_on_redis_whatever_happens(void **state)
{
    const char *seeds = getenv("SIM_SEEDS"), *seed = getenv("SIM_SEED");
    (void)state;
    if (seed && *seed) {
        (void)one_life(strtoull(seed, NULL, 10));
        return;
    }
    uint64_t count = seeds && *seeds ? strtoull(seeds, NULL, 10) : SEEDS;
    log_level_set((enum log_level)(LOG_ERROR + 1));
    for (uint64_t i = 1; i <= count; i++)
        (void)one_life(i);
}

static void a_seed_is_one_life(void **state)
{
    const char *only = getenv("SIM_SEED");
    (void)state;
    if (only && *only)
        skip();
    log_level_set((enum log_level)(LOG_ERROR + 1));
    for (uint64_t seed = 1; seed <= 5; seed++)
        assert_int_equal(one_life(seed), one_life(seed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p2_p3_p4_p5_p6_hold_on_redis_whatever_happens),
        cmocka_unit_test(a_seed_is_one_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
