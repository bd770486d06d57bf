/*
 * Lives of several daemons on one simulated Redis, sentinel group or cluster, one from each seed:
 * clients push, reserve, end and leave, while connections are cut at any byte, answers are late or
 * lost, servers die, fail over, move their slots, forget their scripts or are full, and daemons are
 * killed, frozen and started again, and sorted sets are lost, once or twice. Then all is healed,
 * and what was promised must be so: nothing acknowledged is lost (P2), nothing came early (P3),
 * nothing was held twice (P4), nothing ended came back (P5), no job is kept for a client that left
 * (P6), no more jobs were there than may be, only pushes are refused for it or for a full Redis
 * (P8), nobody waits without end, and no job comes late while nothing is wrong (redis_life_late.h).
 * And Redis is tidy in the end: each job is in its bucket, nothing is left of topics that are not
 * there and, unless Redis lost data, of daemons that have gone; no script did more than its share.
 *
 * SIM_SEEDS: how many, SIM_FIRST: from which on, SIM_JOBS: in how many processes; SIM_SEED: that
 * one alone, with the engine's log. In some lives servers' clocks leap by up to an hour:
 * these are long, so they are among every fourth seed only, or, by SIM_LEAPS=1, among all. Every
 * eleventh seed has a calm time after the faults, with at most one more; by SIM_CALM=1 all have it.
 * Every seventh loses sorted sets; by SIM_LOSSES=1 all do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "redis_life_actor.h"
#include "redis_life_late.h"

enum {
    KEPT_BYTES = 32 << 20,
    SEEDS = 500, /* script/test plays 10,000, without sanitizers */
    JOBS_MAX = 64,
    CROWDED_EVERY = 5, /* has a limit of jobs, */
    CROWD = 6,         /* in each partition */
    LOSING_EVERY = 7,  /* loses sorted sets */
    CALM_EVERY = 11,   /* has some time in which clients wait for each other: see live_calmly() */
    CALM_US = 7 * SECOND_US, /* two faults, one after the other, are over for three */
    ALONE_US = 5500 * MS,    /* … and for each other's jobs alone: see live_alone() */
    GONE_BEFORE_US = 2300 * MS,
    SHORT_US = 700 * MS, /* most are short: so more of them can be lived */
    LIVE_US = 4 * SECOND_US,
    LEAPING_US = 6 * SECOND_US, /* in the first two a clock is not sure */
    HEAL_US = 9 * SECOND_US,    /* a daemon is dead after five, and its place is cleared */
    HEAL_GENTLE_US = 2500 * MS, /* connections are made again, at the latest after two */
    DRAIN_US = 8 * SECOND_US,   /* the longest ttr of what nobody holds, and some more */
    IN_VAIN_US = 1500 * MS,
    FORGOTTEN_US = 12 * SECOND_US, /* what a daemon had that has gone is forgotten by then */
    HEARD_US = 2500 * MS,          /* a consumer that waits is served within that time */
};

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
        late_look(life, topic_names);
        int64_t next_us = sooner(world_next_us(life), sooner(actors_next_us(life), fault_us));
        for (unsigned i = 0; i < life->mender_count; i++)
            next_us = sooner(next_us, life->menders[i].at_us);
        next_us = next_us <= life->now_us ? life->now_us + 1 : next_us;
        move_clock(life, sooner(next_us, until_us));
    }
}

/* Faults end. */
static void mend_all(struct life *life)
{
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
}

/* One thing goes wrong. */
static void one_fault(struct life *life)
{
    struct daemon *daemon = &life->daemons[below(life, life->daemon_count)];
    if (life->leap_us) {
        leap(life);
    } else if (!life->gentle && life->daemon_count > 1 && chance(life, 600)) {
        oracle_silence(&life->oracle);
        daemon->frozen_until_us = life->now_us + CALM_US;
    } else {
        fault(life);
    }
}

/* Clients wait for each other's jobs, and nothing is wrong, or one thing. */
static void live_calmly(struct life *life)
{
    int64_t fault_us = span(life, SECOND_US);
    life->calm = true;
    live(life, fault_us, 0);
    if (chance(life, 600))
        one_fault(life);
    live(life, CALM_US - fault_us, 0);
    life->calm = false;
}

/* ---- alone ---- */

/* A daemon hangs, or is killed, for so long: mostly that which has waited longest, so that it is
 * told of the jobs. */
static void one_goes(struct life *life, int64_t away_us)
{
    unsigned any = (unsigned)below(life, life->daemon_count);
    struct daemon *daemon = &life->daemons[chance(life, 700) ? life->actors[0].daemon : any];
    if (!is_awake(daemon))
        return;
    oracle_silence(&life->oracle);
    if (chance(life, 700)) {
        daemon->frozen_until_us = life->now_us + away_us;
    } else {
        daemon_stop(daemon, true);
        daemon->boot_at_us = life->now_us + away_us;
    }
}

/* No job is left, but for those that are due later, and then nobody does anything. */
static void all_rest(struct life *life)
{
    life->quiet = true;
    for (int step = 0; step < 2; step++) {
        for (unsigned i = 0; i < ACTORS; i++) {
            struct actor *actor = &life->actors[i];
            if (actor->busy && actor->parked && is_awake(&life->daemons[actor->daemon]))
                cancel(actor);
            actor->drains = step == 0;
            actor->rests = step == 1;
            actor->next_us = step == 0 ? life->now_us : INT64_MAX;
        }
        live(life, step == 0 ? FAULT_RECOVERY_US : 100 * MS, 0);
    }
    life->quiet = false;
}

/* Up to three, each at another daemon, and each for all topics. */
static void some_wait(struct life *life)
{
    unsigned daemon = (unsigned)below(life, life->daemon_count);
    unsigned waiters = 1 + (unsigned)below(life, 3);
    for (unsigned i = 0; i < waiters; i++) {
        struct actor *actor = &life->actors[i];
        actor->daemon = (daemon + i) % life->daemon_count;
        if (!actor->busy && actor->held_count < HELD_MAX && is_awake(&life->daemons[actor->daemon]))
            ask_reserve_of(actor, true, 1, 2 * ALONE_US);
        live(life, 20 * MS + span(life, 100 * MS), 0);
    }
}

/*
 * A few wait for long, and two jobs come; nothing else happens that would wake who was forgotten.
 * Perhaps a daemon goes, which is to make the jobs ready, or is told of them; they are due when
 * others must have taken its place.
 */
static void live_alone(struct life *life)
{
    bool goes = !life->gentle && !life->leap_us && life->daemon_count > 1 && chance(life, 700);
    life->calm = true;
    all_rest(life);
    some_wait(life);
    for (unsigned i = ACTORS - 2; i < ACTORS; i++) {
        struct actor *actor = &life->actors[i];
        int64_t delay_us = chance(life, 500) ? 0 : span(life, SECOND_US);
        if (!actor->busy && pick_daemon(actor))
            push_later(actor, goes ? GONE_BEFORE_US + delay_us : delay_us);
    }
    live(life, 50 * MS + span(life, 100 * MS), 0);
    if (goes)
        one_goes(life, ALONE_US);
    live(life, ALONE_US, 0);
    for (unsigned i = 0; i < ACTORS; i++) {
        life->actors[i].rests = false;
        life->actors[i].next_us = life->now_us;
    }
    life->calm = false;
}

/* Clients do nothing new, but in some lives a little for a while, and faults end: each in its time,
   or all at once. */
static void heal(struct life *life)
{
    int64_t last_us = life->now_us;
    life->quiet = true;
    for (unsigned i = 0; i < life->mender_count; i++)
        last_us = last_us > life->menders[i].at_us ? last_us : life->menders[i].at_us;
    if (chance(life, 500))
        live(life, last_us - life->now_us, 0);
    mend_all(life);
    life->healed = true;
    late_excuse(life, FAULT_RECOVERY_US);
    if (life->oracle.seed % CALM_EVERY == 1 || env_number("SIM_CALM", 0)) {
        life->quiet = false;
        live_calmly(life);
        mend_all(life);
        live_alone(life);
        mend_all(life);
        live_alone(life);
        life->quiet = true;
        mend_all(life);
    }
    live(life, life->gentle && !life->loses ? HEAL_GENTLE_US : HEAL_US, 0);
    for (unsigned i = 0; i < life->daemon_count; i++) {
        struct engine *engine =
            life->daemons[i].engine ? redis_engine_port(life->daemons[i].engine) : NULL;
        if (!engine || engine->verbs->health(engine) != OK)
            BROKEN(&life->oracle, "daemon %u does not serve, and all is well", i);
    }
}

/* How many ready jobs the topic has, anywhere. */
static uint64_t ready_jobs(struct life *life, struct bytes topic)
{
    uint64_t all = 0;
    for (unsigned i = 0; i < life->server_count * life->partitions; i++) {
        struct sim_redis *server = life->servers[i / life->partitions];
        struct sim_redis_conn *conn = sim_redis_accept(server);
        struct buf command = {0};
        uint64_t count = 0;
        buf_addf(&command, "*4\r\n$9\r\nZLEXCOUNT\r\n$7\r\n{q:%u}:o\r\n", i % life->partitions);
        buf_addf(&command, "$%zu\r\n[r%c%.*s\r\n", topic.len + 3, (char)topic.len, (int)topic.len,
                 topic.at);
        buf_addf(&command, "$%zu\r\n(r%c%.*s\xff\r\n", topic.len + 4, (char)topic.len,
                 (int)topic.len, topic.at);
        sim_redis_input(conn, buf_bytes(&command));
        struct bytes answer = buf_bytes(sim_redis_output(conn));
        if (!sim_redis_is_replica(server) && answer.len > 3 && answer.at[0] == ':' &&
            bytes_to_u64(bytes_of(answer.at + 1, answer.len - 3), &count))
            all += count;
        sim_redis_hang_up(conn);
        buf_fini(&command);
    }
    return all;
}

static const struct actor *one_in_vain(struct life *life)
{
    for (unsigned i = 0; i < ACTORS; i++) {
        const struct actor *actor = &life->actors[i];
        bool waits = actor->busy && actor->parked && life->now_us - actor->sent_us >= IN_VAIN_US;
        for (unsigned topic = 0; waits && topic < TOPICS; topic++) {
            if (actor->waits_for[topic] && ready_jobs(life, topic_names[topic]))
                return actor;
        }
    }
    return NULL;
}

/* Now that nothing is wrong any more: nobody waits for what is there. */
static void nobody_waits_in_vain(struct life *life)
{
    const struct actor *actor = one_in_vain(life);
    int64_t sent_us = actor ? actor->sent_us : 0;
    live(life, IN_VAIN_US, 0);
    if (actor && actor == one_in_vain(life) && actor->sent_us == sent_us)
        BROKEN(&life->oracle, "a consumer of daemon %u waits, and a job is there", actor->daemon);
}

/* Nobody changes settings any more: all daemons know the same ones. */
static void settings_are_known_to_all(struct life *life)
{
    const struct daemon *first = &life->daemons[0];
    for (unsigned i = 1; i < life->daemon_count; i++) {
        for (unsigned topic = 0; topic < TOPICS; topic++) {
            const struct daemon *daemon = &life->daemons[i];
            bool has = first->told.topics[topic].text != 0;
            if (first->told.topics[topic].text != daemon->told.topics[topic].text ||
                (has && first->told.topics[topic].version != daemon->told.topics[topic].version))
                BROKEN(&life->oracle, "daemons 0 and %u know different settings", i);
        }
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
        life->actors[i].rests = true;
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
        consumer->parked = consumer->busy;
        for (unsigned t = 0; t < TOPICS; t++)
            consumer->waits_for[t] = bytes_eq(topic, topic_names[t]);
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
        for (int64_t until_us = life->now_us + delay_us + HEARD_US;
             consumer->busy && life->now_us < until_us;)
            live(life, 100 * MS, 0);
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

/* Clocks that differ; those of servers that may take over from another are one, if daemons may end:
   what they knew of the clock before is lost then. */
static void set_clocks(struct life *life)
{
    const int64_t hour_us = 3600 * INT64_C(1000000);
    const char *leaps = getenv("SIM_LEAPS");
    int64_t server_us = span(life, 4 * SECOND_US) - 2 * SECOND_US;
    if (chance(life, 600))
        return;
    for (unsigned i = 0; i < life->server_count; i++)
        sim_redis_settings(life->servers[i])->ahead_us = server_us;
    for (unsigned i = 0; i < life->daemon_count; i++)
        life->daemons[i].ahead_us = span(life, 3 * SECOND_US);
    life->oracle.slack_us = 20 * MS + 2 * life->late_us;
    if (chance(life, 300) && (life->oracle.seed % 4 == 0 || (leaps && *leaps)))
        life->leap_us = hour_us;
    for (unsigned i = 0; life->leap_us && i < life->server_count; i++)
        sim_redis_settings(life->servers[i])->ahead_us += span(life, 2 * SECOND_US);
}

static struct life *life_new(uint64_t seed)
{
    struct life *life = mem_zalloc(sizeof(*life));
    life->oracle.seed = life->random.state = seed;
    life->now_us = INT64_C(1700000000) * SECOND_US;
    life->late_us = span(life, 400 * MS);
    life->oracle.way_us = life->late_us + 2 * SECOND_US; /* it is given up then */
    struct sim_network_options options = {.seed = sim_random_next(&life->random),
                                          .latency_us = 1 + span(life, 2 * MS),
                                          .faults = {.late_us = life->late_us,
                                                     .late_per_mille = (unsigned)below(life, 30),
                                                     .reset_per_mille = (unsigned)below(life, 8)},
                                          .split = chance(life, 200)};
    life->network = sim_network_new(&options, life->now_us);
    shape_life(life);
    set_clocks(life);
    if (seed % CROWDED_EVERY == 3)
        life->oracle.jobs_max = CROWD * (uint64_t)life->partitions;
    life->loses = seed % LOSING_EVERY == 2 || env_number("SIM_LOSSES", 0);
    for (unsigned i = 0; i < ACTORS; i++)
        life->actors[i] = (struct actor){.life = life, .next_us = life->now_us};
    for (unsigned i = 0; i < life->daemon_count; i++) {
        life->daemons[i].life = life;
        life->daemons[i].number = i;
        if (i && chance(life, 300))
            life->daemons[i].boot_at_us = life->now_us + span(life, SHORT_US);
    }
    return life;
}

/* What is left in Redis, and what the dearest script did. */
static void redis_is_tidy(struct life *life)
{
    /* Redis may have forgotten a daemon that went on and then died: nobody else knows of it. */
    bool keeps = !life->risky && (life->shape == SHAPE_SINGLE || life->wait_replicas);
    live(life, FORGOTTEN_US, 0);
    no_script_did_too_much(life);
    for (unsigned p = 0; p < life->partitions; p++) {
        jobs_are_in_their_buckets(life, p);
        marks_are_of_topics(life, p, topic_names, TOPICS);
        if (keeps)
            the_dead_have_nothing(life, p);
    }
}

static uint64_t one_life(uint64_t seed)
{
    *sim_lua_ledger() = (struct sim_lua_ledger){0};
    struct life *life = life_new(seed);
    int64_t live_us = life->slow || chance(life, 300) ? LIVE_US : SHORT_US;
    if (life->leap_us)
        live_us = LEAPING_US;
    live(life, live_us, life->slow ? SECOND_US : 350 * MS);
    heal(life);
    nobody_waits_in_vain(life);
    settings_are_known_to_all(life);
    drain(life);
    nobody_is_deaf(life);
    redis_is_tidy(life);
    return life_free(life);
}

/* Each process lives every so many of them. */
static void live_some(uint64_t first, uint64_t count, unsigned step)
{
    for (uint64_t i = 0; i < count; i += step)
        (void)one_life(first + i);
}

static void live_side_by_side(uint64_t first, uint64_t count, unsigned jobs)
{
    pid_t children[JOBS_MAX];
    bool good = true;
    (void)fflush(NULL);
    for (unsigned i = 0; i < jobs; i++) {
        children[i] = fork();
        assert_return_code(children[i], errno);
        if (children[i] == 0) {
            live_some(first + i, count > i ? count - i : 0, jobs);
            exit(EXIT_SUCCESS);
        }
    }
    for (unsigned i = 0; i < jobs; i++) {
        int status = 0;
        while (waitpid(children[i], &status, 0) < 0)
            assert_int_equal(errno, EINTR);
        good = good && status == 0;
    }
    assert_true(good); /* else a life has told its seed */
}

static void p2_p3_p4_p5_p6_p8_hold_on_redis_whatever_happens(void **state)
{
    const char *seed = getenv("SIM_SEED");
    (void)state;
    if (seed && *seed) {
        (void)one_life(strtoull(seed, NULL, 10));
        return;
    }
    uint64_t jobs = env_number("SIM_JOBS", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
    log_level_set((enum log_level)(LOG_ERROR + 1));
    live_side_by_side(env_number("SIM_FIRST", 1), env_number("SIM_SEEDS", SEEDS),
                      jobs < JOBS_MAX ? (unsigned)jobs : JOBS_MAX);
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
    /* Buffers of scripts grow and end all the time: the kernel need not clear their pages each
     * time. */
    (void)mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p2_p3_p4_p5_p6_p8_hold_on_redis_whatever_happens),
        cmocka_unit_test(a_seed_is_one_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
