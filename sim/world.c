/*
 * Owns the three simulated parts of the world and, while it is up, the server and its engine.
 *
 * Invariant: `server` and `embedded` are both there, or neither.
 */
#include "sim/world.h"

#include <stdio.h>
#include <xxhash.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "engine/embedded/embedded.h"
#include "server/assemble.h"
#include "server/pipeline.h"
#include "sim/clock.h"
#include "sim/valid.h"
#include "sim/worker.h"

enum {
    READERS = 4, /* reads that the disk does at a time */
    DISK_THREADS = LANE_READ + READERS,
    TURNS_MAX = 100000,      /* without a change of the clock; with more, the server spins */
    DRAIN_MAX_US = 60000000, /* until a stop ends connections that are not answered */
    SLOW_PER_MILLE = 20,     /* disk operations that take SLOW_TIMES longer */
    SLOW_TIMES = 50,
    CRASH_POINTS = 4,         /* a crash comes before one of so many primitives */
    BIRTH_S = 1700000000,     /* the clock at the start */
    RECENT_BYTES = 16 * 1024, /* small, so that bodies are read from the disk, too */
};

struct world {
    struct world_options options;
    struct config config;
    struct sim_random random;
    struct sim_clock clock;
    struct sim_net *network;
    struct sim_loop *loop;
    struct sim_disk *disk;
    struct sim_worker worker;
    struct sim_sink *sink;
    struct embedded *embedded;
    struct server *server; /* NULL: down */
    struct store_error error;
    int64_t ends_us[DISK_THREADS]; /* when each thread's operation ends; INT64_MAX: it has none */
    int64_t wanted_us;             /* when the next turn is */
    unsigned turns;                /* since the clock changed */
    bool held;
    bool ended_well; /* the last end was orderly, at the present time, with `digest` */
    uint64_t digest;
    uint64_t trace;
};

/* ---- what tests read ---- */

void world_note(struct world *world, struct bytes what)
{
    world->trace = XXH3_64bits_withSeed(what.at, what.len, world->trace);
}

static void note_number(struct world *world, uint64_t number)
{
    world_note(world, bytes_of(&number, sizeof(number)));
}

uint64_t world_trace(const struct world *world)
{
    return world->trace;
}

bool world_is_up(const struct world *world)
{
    return world->server;
}

const char *world_error(const struct world *world)
{
    return world->error.text;
}

int64_t world_now_us(const struct world *world)
{
    return world->clock.now_us;
}

struct sim_disk *world_disk(struct world *world)
{
    return world->disk;
}

struct sim_loop *world_loop(struct world *world)
{
    return world->loop;
}

struct sim_sink *world_sink(struct world *world)
{
    return world->sink;
}

struct sim_net *world_network(struct world *world)
{
    return world->network;
}

const struct core *world_core(const struct world *world)
{
    return embedded_core(world->embedded);
}

const struct server *world_server(const struct world *world)
{
    CHECK(world->server);
    return world->server;
}

struct embedded *world_embedded(struct world *world)
{
    return world->embedded;
}

const struct store *world_store(const struct world *world)
{
    return embedded_store(world->embedded);
}

uint64_t world_digest(const struct world *world)
{
    struct core_totals totals;
    if (world->options.horizon_us == 0)
        return core_digest(world_core(world));
    core_totals(world_core(world), &totals);
    uint64_t counts[] = {totals.jobs[JOB_DELAYED] + totals.jobs[JOB_READY],
                         totals.jobs[JOB_RESERVED], totals.jobs[JOB_BURIED]};
    return hash_of(counts, sizeof(counts));
}

struct sim_random *world_random(struct world *world)
{
    return &world->random;
}

static void disk_rests(struct world *world)
{
    for (int thread = 0; thread < DISK_THREADS; thread++)
        world->ends_us[thread] = INT64_MAX;
}

/* Schedules a turn now. */
static void want_turn(struct world *world)
{
    world->wanted_us = world->clock.now_us;
}

/* ---- beginnings ---- */

static void configure(struct world *world)
{
    const struct world_options *options = &world->options;
    struct config *config = &world->config;
    config_init(config);
    config->recent_bytes = RECENT_BYTES;
    config->max_bytes = (int64_t)options->max_bytes;
    config->buffer_bytes = (int64_t)options->buffer_bytes;
    if (options->segment_bytes)
        config->segment_bytes = (int64_t)options->segment_bytes;
    if (options->body_bytes)
        config->body_bytes = options->body_bytes;
    if (options->beanstalk_body_bytes)
        config->job_bytes = options->beanstalk_body_bytes;
    if (options->block_us)
        config->block_us = options->block_us;
    if (options->topics)
        config->topics = options->topics;
    if (options->connections)
        config->connections = options->connections;
    if (options->push_concurrency)
        config->push_concurrency = options->push_concurrency;
    if (options->host_concurrency)
        config->push_host_concurrency = options->host_concurrency;
    if (options->host_rate)
        (void)snprintf(config->push_host_rate, sizeof(config->push_host_rate), "%s",
                       options->host_rate);
    config->sdmq_clear_all = 1;
    config->sdmq_machine = 65; /* sdmq's default */
    if (options->disable_after_us)
        config->push_disable_after_us = options->disable_after_us;
}

struct world *world_new(const struct world_options *options)
{
    struct world *world = mem_zalloc(sizeof(*world));
    world->options = *options;
    world->random.state = options->seed;
    configure(world);
    sim_clock_init(&world->clock, INT64_C(1000000) * BIRTH_S);
    world->network = sim_net_new(&world->clock, sim_random_next(&world->random));
    sim_net_split(world->network, options->split);
    world->loop = sim_loop_new(world->network, &world->clock.clock);
    world->sink = sim_sink_new(sim_loop_port(world->loop));
    world->disk = sim_disk_new();
    sim_disk_read_waits(world->disk, &world->clock.now_us, options->read_us);
    sim_disk_shuffle_reads(world->disk, options->seed);
    sim_worker_init(&world->worker);
    disk_rests(world);
    return world;
}

/* Everything that differs from the program laterd. */
static struct platform platform_of(struct world *world)
{
    uint64_t seed = world->options.seed;
    return (struct platform){
        .clock = &world->clock.clock,
        .loop = sim_loop_port(world->loop),
        .worker = &world->worker.port,
        .webhook = sim_sink_port(world->sink),
        .disk = sim_disk_port(world->disk),
        .hash_key = seed,
        .instance = seed,
        .store_id = seed | 1, /* 0 would be random */
    };
}

static enum err open_engine(struct world *world)
{
    struct platform platform = platform_of(world);
    struct embedded_options options = assemble_embedded(&world->config, &platform);
    options.store.horizon_us = world->options.horizon_us;
    options.store.checkpoint_bytes = world->options.checkpoint_bytes;
    options.store.image_jobs = 1;
    options.limits.ready_in_memory = world->options.ready_in_memory;
    options.limits.buried_in_memory = world->options.buried_in_memory;
    world->error.text[0] = 0;
    return embedded_open(&options, &world->embedded, &world->error);
}

static void make_server(struct world *world)
{
    struct platform platform = platform_of(world);
    struct server_options options = assemble_server(&world->config, &platform);
    options.engine = embedded_engine(world->embedded);
    options.listeners[WORLD_DELAY_QUEUE].dialect = DIALECT_DELAY_QUEUE;
    options.listeners[WORLD_DELAYQUEUE_JAVA].dialect = DIALECT_DELAYQUEUE_JAVA;
    options.listeners[WORLD_BEANSTALK].protocol = PROTOCOL_BEANSTALK;
    options.listeners[WORLD_SDMQ] =
        (struct server_listener){.protocol = PROTOCOL_SDMQ, .dialect = DIALECT_SDMQ};
    options.restore = world->options.restore;
    options.journal = world->options.journal;
    options.turn_ns = world->options.turn_ns;
    world->server = server_new(&options);
}

enum err world_boot(struct world *world)
{
    CHECK(!world->server);
    enum err err = open_engine(world);
    note_number(world, err);
    if (err)
        return err;
    core_valid(world_core(world));
    uint64_t digest = world_digest(world);
    CHECK(!world->ended_well || digest == world->digest); /* P9 */
    note_number(world, digest);
    world->ended_well = false;
    sim_loop_listen(world->loop);
    make_server(world);
    want_turn(world);
    return OK;
}

/* ---- ends ---- */

/* The disk is cut already, so nothing that is freed here is written. */
static void end_without_a_word(struct world *world, enum world_crash how)
{
    sim_sink_kill(world->sink);
    server_free(world->server);
    embedded_close(world->embedded);
    world->server = NULL;
    world->embedded = NULL;
    disk_rests(world);
    world->held = false;
    sim_disk_fail_at(world->disk, UINT64_MAX, 0);
    if (how == WORLD_POWER)
        sim_disk_power(world->disk, sim_random_next(&world->random));
    else
        sim_disk_kill(world->disk);
}

void world_crash(struct world *world, enum world_crash how)
{
    CHECK(world->server);
    note_number(world, how);
    if (!world->held) {
        sim_disk_cut_at(world->disk, sim_disk_points(world->disk) +
                                         sim_random_below(&world->random, CRASH_POINTS));
        (void)sim_disk_step(world->disk, LANE_COMMIT);
        (void)sim_disk_step(world->disk, LANE_BACKGROUND);
        (void)sim_disk_step(world->disk, LANE_READ);
    }
    sim_disk_cut_at(world->disk, 0);
    end_without_a_word(world, how);
}

void world_boot_cut(struct world *world, uint64_t points, enum world_crash how)
{
    CHECK(!world->server);
    sim_disk_cut_at(world->disk, sim_disk_points(world->disk) + points);
    note_number(world, open_engine(world));
    sim_disk_cut_at(world->disk, 0);
    end_without_a_word(world, how);
}

static void end_in_order(struct world *world)
{
    const struct store *store = world_store(world);
    sim_sink_port(world->sink)->verbs->close(sim_sink_port(world->sink), 0);
    server_free(world->server); /* requeues what did not reach its client */
    world->server = NULL;
    core_valid(world_core(world));
    world->digest = world_digest(world);
    world->ended_well = !store_failed(store) && !store_full(store);
    embedded_close(world->embedded);
    world->embedded = NULL;
    disk_rests(world);
    note_number(world, world->digest);
}

void world_refuse_pushes(struct world *world)
{
    server_refuse_pushes(world->server);
    want_turn(world);
}

void world_drain(struct world *world)
{
    server_drain(world->server);
    want_turn(world);
}

bool world_stop(struct world *world)
{
    CHECK(world->server);
    int64_t give_up_us = world->clock.now_us + DRAIN_MAX_US;
    world->held = false;
    world_drain(world);
    while (world->server && world->clock.now_us < give_up_us)
        world_run(world, world->clock.now_us + DRAIN_MAX_US / 60);
    if (!world->server)
        return true;
    end_in_order(world);
    return false;
}

void world_free(struct world *world)
{
    if (!world)
        return;
    if (world->server)
        world_crash(world, WORLD_KILL);
    sim_sink_free(world->sink);
    sim_loop_free(world->loop);
    sim_net_free(world->network);
    sim_disk_free(world->disk);
    mem_free(world);
}

/* ---- running ---- */

void world_hold_disk(struct world *world, bool hold)
{
    world->held = hold;
    want_turn(world);
}

static int64_t operation_us(struct world *world, enum disk_lane lane)
{
    if (lane == LANE_READ && world->options.read_us)
        return world->options.read_us;
    if (!world->options.disk_us)
        return 0;
    int64_t took_us =
        1 + (int64_t)sim_random_below(&world->random, (uint64_t)world->options.disk_us);
    return sim_random_chance(&world->random, SLOW_PER_MILLE) ? took_us * SLOW_TIMES : took_us;
}

/* LANE_READ has all threads from its number on, the other lanes one each. */
static enum disk_lane lane_of(int thread)
{
    return thread < LANE_READ ? (enum disk_lane)thread : LANE_READ;
}

/* Does the lane have an operation that no thread works on? */
static bool finds_work(const struct world *world, enum disk_lane lane)
{
    unsigned busy = 0;
    for (int thread = 0; thread < DISK_THREADS; thread++)
        busy += lane_of(thread) == lane && world->ends_us[thread] != INT64_MAX;
    return sim_disk_waiting(world->disk, lane) > busy;
}

/* Starts an operation, or ends one whose time has come. Returns when to call again. */
static int64_t thread_turn(struct world *world, int thread)
{
    enum disk_lane lane = lane_of(thread);
    int64_t *ends_us = &world->ends_us[thread];
    if (*ends_us == INT64_MAX && !finds_work(world, lane))
        return INT64_MAX;
    if (*ends_us == INT64_MAX)
        *ends_us = world->clock.now_us + operation_us(world, lane);
    if (world->held)
        return INT64_MAX;
    if (*ends_us > world->clock.now_us)
        return *ends_us;
    (void)sim_disk_step(world->disk, lane); /* true: the operation exists */
    *ends_us = INT64_MAX;
    return world->clock.now_us; /* a turn must handle its end */
}

/* One turn, then the disk's work; returns when the next turn must run. */
static int64_t turn(struct world *world)
{
    int64_t next_us = server_turn(world->server);
    if (valid_now()) {
        store_valid(world_store(world));
        pipelines_valid(world->server);
        pump_valid(world->server->pump_stage.pump);
    }
    note_number(world, (uint64_t)world->clock.now_us);
    note_number(world, (uint64_t)next_us);
    if (server_drained(world->server)) {
        end_in_order(world);
        return INT64_MAX;
    }
    if (next_us > world->clock.now_us && next_us < INT64_MAX && world->options.oversleep_us)
        next_us += (int64_t)sim_random_below(&world->random, (uint64_t)world->options.oversleep_us);
    for (int thread = 0; thread < DISK_THREADS; thread++) {
        int64_t thread_us = thread_turn(world, thread);
        if (thread_us < next_us)
            next_us = thread_us;
    }
    bool pending = sim_loop_pending(world->loop) || sim_worker_pending(&world->worker);
    return pending ? world->clock.now_us : next_us;
}

static void move_clock(struct world *world, int64_t now_us)
{
    CHECK(++world->turns < TURNS_MAX);
    if (now_us <= world->clock.now_us)
        return;
    world->clock.now_us = now_us;
    world->turns = 0;
    world->ended_well = false;
}

bool world_step(struct world *world, int64_t until_us)
{
    int64_t next_us = sim_loop_pending(world->loop) ? world->clock.now_us : world->wanted_us;
    if (!world->server || next_us > until_us) {
        move_clock(world, until_us);
        return false;
    }
    move_clock(world, next_us);
    world->wanted_us = turn(world);
    return true;
}

void world_run(struct world *world, int64_t until_us)
{
    want_turn(world);
    while (world_step(world, until_us))
        continue;
}

void world_drift_clock(struct world *world, int64_t drift_us)
{
    world->clock.drift_us = drift_us;
}

void world_set_clock(struct world *world, int64_t now_us)
{
    CHECK(!world->server);
    world->clock.now_us = now_us;
    world->ended_well = false;
}
