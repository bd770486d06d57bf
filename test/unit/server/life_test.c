/*
 * Whole lives: per seed two dozen clients of both HTTP dialects do random things to one server,
 * with their bytes cut anywhere, small windows, resets and half closes, while syncs are held back,
 * writes fail, the disk fills up, and the server is killed, loses its power or ends in order. Then
 * all faults end, everything is drained, and the oracle (life_oracle.h) must agree with all that
 * any client was told. Every fourth seed, and one that is asked for, is lived twice and must leave
 * the same trace.
 *
 *   SIM_SEEDS=2000 build/test/server/life_test     the first so many seeds
 *   SIM_SEED=7 build/test/server/life_test         this one
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "core/core.h"
#include "life_answer.h"
#include "store/stats.h"
#include "store/store.h"

enum {
    TINY_TURN_NS = 4000, /* every third life: nearly all is done in slices */
    SEEDS = 400,         /* unless SIM_SEEDS says otherwise */
    TWICE_EVERY = 4,     /* seeds */
    ROUNDS = 700,
    SEGMENT_BYTES = 64 * 1024,
    LARGEST_BODY = 8 * 1024,
    FAR_SEGMENT_BYTES = 32 * 1024,
    HORIZON_US = 200 * 1000,
};

/* ---- what clients do ---- */

static void ask_something(struct life *life, struct client *client)
{
    unsigned dice = (unsigned)below(life, 100);
    if (client->job_count && chance(life, 500)) {
        ask_held(life, client);
    } else if (dice < 30) {
        ask_push(life, client);
    } else if (dice < 40) {
        ask_old_push(life, client);
    } else if (dice < 75) {
        ask_reserve(life, client);
    } else if (dice < 82) {
        unsigned id = take_id(life);
        if (id != NO_ID)
            ask_delete(life, client, id);
    } else if (dice < 88) {
        ask_move(life, client);
    } else if (dice < 95) {
        ask_get(life, client);
    } else {
        ask_topic(life, client);
    }
}

static void act(struct life *life, struct client *client)
{
    if (!client->peer) {
        client->peer = sim_loop_client(world_loop(life->world), WORLD_DELAY_QUEUE);
        client->slow = chance(life, 150);
    }
    if (client->slow)
        sim_peer_window(client->peer, (size_t)below(life, 400));
    if (client->ask_count && chance(life, 60)) {
        leave(life, client);
    } else if (chance(life, 15)) {
        sim_peer_shut(client->peer);
        client->shut = true;
    } else if (!client->shut && client->ask_count < ASKS_MAX &&
               (client->ask_count == 0 || chance(life, 200))) {
        ask_something(life, client);
    }
}

/* ---- what happens to the server ---- */

static void leave_all(struct life *life)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        leave(life, &life->clients[i]);
}

static void boot(struct life *life)
{
    sim_disk_fail_at(world_disk(life->world), UINT64_MAX, 0); /* a fault that has not come yet */
    if (world_boot(life->world))
        BROKEN(&life->oracle, "it does not start: %s", world_error(life->world));
    life->faulty = false;
    life->lease_first = lease_next(life->world);
}

static enum world_crash some_crash(struct life *life)
{
    return chance(life, 500) ? WORLD_KILL : WORLD_POWER;
}

static void set_clock_back(struct life *life)
{
    int64_t before_us = world_now_us(life->world);
    int64_t step_us = (int64_t)below(life, 600) * SECOND_US;
    world_set_clock(life->world, before_us - step_us);
    oracle_set_back(&life->oracle, before_us, step_us);
}

/* A start, now and then after one that did not get far; what is recovered is recovered for good. */
static void start(struct life *life)
{
    if (chance(life, 200))
        set_clock_back(life);
    while (chance(life, 300))
        world_boot_cut(life->world, below(life, 60), some_crash(life));
    boot(life);
    if (chance(life, 500))
        return;
    uint64_t digest = world_digest(life->world);
    world_crash(life->world, some_crash(life));
    boot(life);
    if (world_digest(life->world) != digest)
        BROKEN(&life->oracle, "P9: a second recovery gives another state");
}

static void count_far(struct life *life)
{
    struct store_stats stats;
    struct core_totals totals;
    store_stats(world_store(life->world), &stats);
    life->departed += stats.spilled_jobs;
    life->loaded += stats.loaded_jobs;
    core_totals(world_core(life->world), &totals);
    life->ready += totals.far_ready;
    life->buried += totals.far_buried;
}

static void crash(struct life *life)
{
    count_far(life);
    world_crash(life->world, some_crash(life));
    oracle_crashed(&life->oracle);
    leave_all(life);
}

static void stop(struct life *life)
{
    bool errord = life->faulty || life->crowded;
    world_hold_disk(life->world, false);
    world_drain(life->world);
    for (unsigned i = 0; i < CLIENTS; i++)
        life->clients[i].shut = true; /* whatever is asked now may not be looked at */
    life->faulty = true;              /* and 503 is a fair answer */
    run(life, 40 * SECOND_US);
    /* On a full disk an answer may have to wait for room, for longer than we do. */
    if (world_is_up(life->world) && !world_stop(life->world) && !life->crowded)
        BROKEN(&life->oracle, "it does not end");
    listen(life);
    leave_all(life);
    if (errord) /* the last reservations, which nobody waited for, may not have been written */
        oracle_crashed(&life->oracle);
}

static void crowd(struct life *life)
{
    struct sim_disk *disk = world_disk(life->world);
    life->crowded = !life->crowded;
    life->oracle.full += life->crowded;
    sim_disk_capacity(disk,
                      life->crowded ? sim_disk_used(disk) + below(life, SEGMENT_BYTES * 2) : 0);
}

/* Until all that the client asked is answered, or the time is over. */
static void await(struct life *life, struct client *client, int64_t span_us)
{
    int64_t until_us = world_now_us(life->world) + span_us;
    while (client->ask_count && world_step(life->world, until_us))
        listen(life);
}

/* Everybody leaves, and the turns have ended what they have begun; then nothing may be reserved
   that nobody had. */
static void census(struct life *life)
{
    struct client *client = &life->clients[0];
    char path[60];
    leave_all(life);
    world_run(life->world, world_now_us(life->world));
    if (store_failed(world_store(life->world)))
        return; /* just now: nothing is given back any more */
    client->peer = sim_loop_client(world_loop(life->world), WORLD_DELAY_QUEUE);
    client->slow = false;
    for (unsigned topic = 0; topic < TOPICS; topic++) {
        struct ask ask = {.op = OP_CENSUS, .id = NO_ID};
        (void)snprintf(path, sizeof(path), "/v1/topics/t%u/jobs?state=reserved&limit=100", topic);
        send_ask(life, client, &ask, "GET", path, NULL);
    }
    await(life, client, SECOND_US);
}

static void befall(struct life *life)
{
    unsigned dice = (unsigned)below(life, 1000);
    struct sim_disk *disk = world_disk(life->world);
    if (!world_is_up(life->world)) {
        start(life);
    } else if (dice < 12 || (store_failed(world_store(life->world)) && dice < 120)) {
        crash(life);
    } else if (dice < 16) {
        stop(life);
    } else if (dice < 30) {
        world_hold_disk(life->world, chance(life, 500));
    } else if (dice < 36) {
        sim_disk_fail_at(disk, sim_disk_points(disk) + below(life, 8), EIO);
        life->faulty = true;
        life->oracle.failures++;
    } else if (dice < 46) {
        crowd(life);
    } else if (dice < 56 && !store_failed(world_store(life->world))) {
        census(life);
    }
}

/* ---- a life ---- */

static void live(struct life *life)
{
    static const int64_t spans_us[] = {1, 300, 5000, 200000, 3 * SECOND_US};
    for (unsigned round = 0; round < ROUNDS; round++) {
        befall(life);
        for (uint64_t i = below(life, 4); i > 0 && world_is_up(life->world); i--)
            act(life, &life->clients[below(life, CLIENTS)]);
        run(life, (int64_t)below(life, (uint64_t)spans_us[below(life, 5)]));
    }
}

static void drain_some(struct life *life, struct client *client, unsigned topic)
{
    struct buf body = {0};
    char path[40];
    for (unsigned i = 0; i < 2; i++) {
        struct ask other = {.op = OP_OTHER, .id = NO_ID};
        (void)snprintf(path, sizeof(path), "/v1/topics/t%u/%s", topic, i ? "kick" : "resume");
        send_ask(life, client, &other, "POST", path, NULL);
    }
    await(life, client, 10 * SECOND_US);
    struct ask reserve = {.op = OP_RESERVE, .id = NO_ID};
    buf_add_str(&body, "{\"topics\":[\"t0\",\"t1\",\"t2\"],\"wait\":\"20s\",\"max\":4}");
    send_ask(life, client, &reserve, "POST", "/v1/reserve", &body);
    buf_fini(&body);
    await(life, client, 30 * SECOND_US);
    while (client->job_count)
        ask_of_job(life, client, &client->jobs[--client->job_count], OP_FINISH);
    await(life, client, 10 * SECOND_US);
    if (client->ask_count)
        BROKEN(&life->oracle, "an answer does not come, though all is well");
}

/* The one client that is left takes every job and finishes it. */
static void drain_all(struct life *life)
{
    struct client *client = &life->clients[0];
    struct core_totals totals;
    client->slow = false;
    client->job_count = 0;
    for (unsigned i = 0; i < 10000; i++) {
        core_totals(world_core(life->world), &totals);
        if (totals.jobs[JOB_DELAYED] + totals.jobs[JOB_READY] + totals.jobs[JOB_RESERVED] +
                totals.jobs[JOB_BURIED] ==
            0)
            return;
        if (!client->peer)
            client->peer = sim_loop_client(world_loop(life->world), WORLD_DELAY_QUEUE);
        drain_some(life, client, i % TOPICS);
    }
    BROKEN(&life->oracle, "it cannot be drained");
}

/* No more faults: every job comes and is finished, the server ends, and starts empty. */
static void heal(struct life *life)
{
    sim_disk_capacity(world_disk(life->world), 0);
    sim_disk_fail_at(world_disk(life->world), UINT64_MAX, 0);
    if (world_is_up(life->world))
        crash(life);
    boot(life);
    drain_all(life);
    oracle_finish(&life->oracle);
    stop(life);
    boot(life);
    core_valid(world_core(life->world));
}

struct sums {
    uint64_t departed, loaded; /* jobs became far, and drew near again */
    uint64_t ready, buried;    /* far ones that were there at crashes and stops */
    uint64_t pushed, delivered, finished, crashes, full, failures, large_pushed;
};

/* The trace of a whole life. */
static uint64_t live_once(uint64_t seed, struct sums *sums)
{
    struct life life = {.oracle.seed = seed};
    bool tiny = seed % 3 == 0;
    bool far = seed % 5 < 2; /* jobs depart to slices all the time, and come back */
    bool exact = seed % 2;   /* half of the lives see no delay but what is asked for */
    bool large = seed % 16 == 5;
    life.world = world_new(&(struct world_options){
        .seed = seed,
        .split = true,
        .disk_us = exact ? 0 : 400,
        .oversleep_us = exact ? 0 : 300,
        .segment_bytes = far ? FAR_SEGMENT_BYTES : SEGMENT_BYTES,
        .horizon_us = far ? HORIZON_US : 0,
        .checkpoint_bytes = 1,
        .body_bytes = large ? LARGEST_BODY + LARGE_BODY : LARGEST_BODY,
        .block_us = 5 * SECOND_US,
        .turn_ns = tiny ? TINY_TURN_NS : 0,
    });
    bool cold = seed % 4 != 0; /* bodies are read by the disk's threads: answers wait for them */
    life.oracle.late_answers = tiny || cold || far || large;
    life.oracle.large = large;
    sim_disk_cold(world_disk(life.world), cold);
    boot(&life);
    live(&life);
    heal(&life);
    leave_all(&life);
    sums->pushed += life.oracle.pushed;
    sums->delivered += life.oracle.delivered;
    sums->finished += life.oracle.finished;
    sums->crashes += life.oracle.crashes;
    sums->full += life.oracle.full;
    sums->departed += life.departed;
    sums->loaded += life.loaded;
    sums->ready += life.ready;
    sums->buried += life.buried;
    sums->failures += life.oracle.failures;
    sums->large_pushed += life.oracle.large_pushed;
    uint64_t trace = world_trace(life.world);
    world_free(life.world);
    oracle_fini(&life.oracle);
    return trace;
}

/* ---- seeds ---- */

static uint64_t seed_now; /* for the handler below, which gets no arguments */

/* A CHECK of the server has failed, or a claim of ours: say how to see it again. */
static void say_seed(int signal)
{
    char line[100];
    int len =
        snprintf(line, sizeof(line), "run it alone: SIM_SEED=%llu build/test/server/life_test\n",
                 (unsigned long long)seed_now);
    ssize_t written = write(STDERR_FILENO, line, (size_t)len);
    (void)written; /* it was worth a try */
    (void)signal;  /* SIGABRT goes on by itself */
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void whole_lives_keep_every_promise(void **state)
{
    struct sums sums = {0};
    uint64_t alone = number_of("SIM_SEED", 0), seeds = number_of("SIM_SEEDS", SEEDS);
    uint64_t first = alone ? alone : 1, last = alone ? alone : seeds;
    struct timespec begin, end;
    (void)state;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    for (seed_now = first; seed_now <= last; seed_now++) {
        struct sums again = {0};
        uint64_t trace = live_once(seed_now, &sums);
        bool twice = alone || seed_now % TWICE_EVERY == 0;
        if (twice && live_once(seed_now, &again) != trace) {
            (void)fprintf(stderr, "seed %llu: two traces\n", (unsigned long long)seed_now);
            abort();
        }
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    (void)printf("%llu lives in %lld s: %llu pushes, %llu deliveries, %llu finishes, "
                 "%llu crashes, %llu failing calls, %llu full disks, %llu far, %llu near again, "
                 "%llu far and ready, %llu far and buried, %llu large\n",
                 (unsigned long long)(last - first + 1), (long long)(end.tv_sec - begin.tv_sec),
                 (unsigned long long)sums.pushed, (unsigned long long)sums.delivered,
                 (unsigned long long)sums.finished, (unsigned long long)sums.crashes,
                 (unsigned long long)sums.failures, (unsigned long long)sums.full,
                 (unsigned long long)sums.departed, (unsigned long long)sums.loaded,
                 (unsigned long long)sums.ready, (unsigned long long)sums.buried,
                 (unsigned long long)sums.large_pushed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_lives_keep_every_promise)};
    log_level_set((enum log_level)(LOG_ERROR + 1)); /* broken disks are not news here */
    (void)signal(SIGABRT, say_seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
