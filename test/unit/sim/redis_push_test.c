/*
 * Lives of pushed topics on one simulated Redis with up to three daemons that all push: receivers
 * fail, are slow or hang, daemons are killed, frozen, end and start again, connections break, Redis
 * forgets daemons, its clock leaps.
 * Whatever happens: an ordered topic has one sender; no job is sent before its time, of one key one
 * at a time and in the order of their times, by whichever daemon (but for lives in which Redis'
 * clock leaps); and in the end each was delivered. SIM_SEEDS: how many lives; LIFE_SEED: one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "dispatch/pump_parts.h"
#include "redis_forget.h"
#include "sim/random.h"
#include "sim/redis/network.h"
#include "sim/sink.h"

enum {
    DAEMONS = 3,
    JOBS = 48,
    KEYS = 3,
    MS = 1000,
    SECOND_US = 1000 * MS,
    LEASE_US = 25 * SECOND_US, /* push.timeout, and 10 s */
    TURNS_MAX = 20000,
};

struct life;

struct daemon {
    struct life *life;
    unsigned number;
    struct clock clock;
    struct loop *loop;
    struct redis_engine *engine; /* NULL: down */
    bool opening, leaving, dead; /* dead: what is submitted is not done any more */
    struct registry *registry;
    struct pump *pump;
    struct sim_sink *sink;
    struct sim_receiver receiver;
    struct pump_door door;
    struct budget budget;
    uint64_t order_changes;
    bool again;
    int64_t wanted_us, frozen_until_us, boot_at_us;
};

struct pushed {
    int64_t due_us;
    unsigned key;           /* 0: none */
    struct daemon *sent_by; /* under way; NULL: it is not, or its daemon was killed or frozen */
    unsigned fails, sent;
    bool told[DAEMONS]; /* the last answer to each was a success */
    bool unsure;        /* it was being reserved when its daemon was killed: see disown() */
    bool delivered;     /* and the daemon has heard it, though perhaps too late */
};

struct life {
    struct sim_random random;
    uint64_t seed;
    int64_t now_us;
    struct sim_network *network;
    struct sim_redis *server;
    struct daemon daemons[DAEMONS];
    unsigned daemon_count, turns, kept_twice;
    struct pushed jobs[JOBS];
    bool leaps; /* Redis' clock does: who starts then takes it for right, so a job may be early */
};

static int64_t span(struct life *life, int64_t most_us)
{
    return (int64_t)sim_random_below(&life->random, (uint64_t)most_us);
}

static void fail_life(const struct life *life, const char *what, unsigned job)
{
    fail_msg("seed %llu: %s (job %u, %lld ms)", (unsigned long long)life->seed, what, job,
             (long long)((life->now_us - INT64_C(1700000000) * SECOND_US) / MS));
}

/* ---- the receiver ---- */

static unsigned number_of(const struct delivery *delivery)
{
    uint64_t number = 0;
    assert_true(bytes_to_u64(delivery->body, &number) && number < JOBS);
    return (unsigned)number;
}

/* Of its key it must be the first that was not delivered, and alone. */
static void check_key(const struct life *life, unsigned number)
{
    const struct pushed *job = &life->jobs[number];
    for (unsigned i = 0; i < JOBS && job->key; i++) {
        const struct pushed *other = &life->jobs[i];
        if (other == job || other->key != job->key)
            continue;
        if (other->sent_by)
            fail_life(life, "two of one key at once", number);
        if (other->due_us < job->due_us && !other->delivered && !other->unsure && !job->unsure)
            fail_life(life, "before another of its key that is due earlier", number);
    }
}

static void check_job(const struct life *life, unsigned number)
{
    if (life->now_us < life->jobs[number].due_us)
        fail_life(life, "sent before its time", number);
    if (life->jobs[number].sent_by)
        fail_life(life, "sent twice at once", number);
    check_key(life, number);
}

static void received(struct sim_receiver *receiver, const struct delivery *delivery,
                     struct sim_answer *answer)
{
    struct daemon *daemon = LIST_ENTRY(receiver, struct daemon, receiver);
    struct life *life = daemon->life;
    unsigned number = number_of(delivery);
    struct pushed *job = &life->jobs[number];
    if (!life->leaps)
        check_job(life, number);
    job->sent_by = daemon;
    job->sent++;
    unsigned dice = (unsigned)sim_random_below(&life->random, 100);
    answer->after_us = span(life, 300 * MS);
    if (dice >= 97)
        answer->after_us = INT64_MAX; /* hangs */
    bool good = job->told[daemon->number] = dice < 75 || (dice < 97 && job->fails > 3);
    if (good || dice >= 97)
        return;
    answer->outcome = (struct outcome){
        .kind = OUTCOME_FAILED, .code = 404, .retry_after_us = -1, .address = BYTES("sim")};
}

static void ended(struct sim_receiver *receiver, const struct delivery *delivery)
{
    struct daemon *daemon = LIST_ENTRY(receiver, struct daemon, receiver);
    struct pushed *job = &daemon->life->jobs[number_of(delivery)];
    bool good = job->told[daemon->number];
    job->delivered |= good;
    if (job->sent_by != daemon)
        return; /* it was frozen meanwhile */
    job->sent_by = NULL;
    job->fails += !good;
}

/*
 * Nobody can say any more what becomes of what it has on its way. A job that was reserved then, and
 * not put off yet, is found as one that waits since its due time: whether it was before or behind
 * those that were put off before, nobody knows.
 */
static void disown(struct daemon *daemon)
{
    struct life *life = daemon->life;
    for (unsigned i = 0; i < JOBS; i++) {
        struct pushed *job = &life->jobs[i];
        if (job->sent_by == daemon)
            job->sent_by = NULL;
        job->unsure |= job->due_us <= life->now_us && job->due_us > life->now_us - 500 * MS;
    }
    struct list *node = daemon->pump->shipments.next;
    for (; node != &daemon->pump->shipments; node = node->next) {
        const struct shipment *shipment = LIST_ENTRY(node, struct shipment, all);
        if (shipment->state != SHIP_SENT && shipment->delivery.body.len)
            life->jobs[number_of(&shipment->delivery)].unsure = true;
    }
}

/* ---- a daemon ---- */

static int64_t daemon_clock(struct clock *clock)
{
    return LIST_ENTRY(clock, struct daemon, clock)->life->now_us;
}

static struct daemon *of_door(struct pump_door *door)
{
    return LIST_ENTRY(door, struct daemon, door);
}

static enum submitted submit(struct pump_door *door, const struct cmd *cmd, struct ticket *ticket)
{
    struct daemon *daemon = of_door(door);
    struct engine *engine = redis_engine_port(daemon->engine);
    if (daemon->dead)
        return SUBMIT_ANSWERED; /* nobody waits for it: the pump ends */
    return engine->verbs->submit(engine, cmd, ticket);
}

static void cancel(struct pump_door *door, struct ticket *ticket)
{
    struct engine *engine = redis_engine_port(of_door(door)->engine);
    engine->verbs->cancel(engine, ticket);
}

static void wake(struct pump_door *door)
{
    of_door(door)->again = true;
}

static uint64_t keeps_order(struct pump_door *door, struct bytes topic)
{
    struct engine *engine = redis_engine_port(of_door(door)->engine);
    return engine->verbs->keeps_order(engine, topic);
}

static void start_pump(struct daemon *daemon)
{
    struct engine *engine = redis_engine_port(daemon->engine);
    daemon->registry =
        registry_new(&(struct registry_options){.hash_key = 5, .read = topic_settings_read});
    daemon->door = (struct pump_door){
        .submit = submit, .cancel = cancel, .wake = wake, .keeps_order = keeps_order};
    daemon->budget.left_ns = BUDGET_UNLIMITED;
    daemon->pump = pump_new(&(struct pump_options){.loop = daemon->loop,
                                                   .registry = daemon->registry,
                                                   .door = &daemon->door,
                                                   .budget = &daemon->budget,
                                                   .random = daemon->life->seed + daemon->number,
                                                   .concurrency = 16,
                                                   .host_concurrency = 16,
                                                   .breaker_failures = 1000,
                                                   .shared = true,
                                                   .timeout_us = 15 * SECOND_US,
                                                   .retry_after_max_us = 60 * SECOND_US,
                                                   .memory_bytes = 1 << 20});
    daemon->sink = sim_sink_new(daemon->loop);
    daemon->receiver = (struct sim_receiver){.received = received, .ended = ended};
    sim_sink_receiver(daemon->sink, &daemon->receiver);
    pump_add_sink(daemon->pump, TARGET_HTTP, (struct bytes){0}, sim_sink_port(daemon->sink));
    engine->verbs->observe_settings(engine, registry_observer(daemon->registry));
}

static void daemon_start(struct daemon *daemon)
{
    struct life *life = daemon->life;
    struct redis_error error;
    daemon->clock.now_us = daemon_clock;
    daemon->loop = sim_network_start(life->network, daemon->number, &daemon->clock);
    (void)loop_update_time(daemon->loop);
    struct redis_options options = {.url.topology = REDIS_SINGLE,
                                    .url.address_count = 1,
                                    .url.addresses[0] = {.host = "10.0.0.1", .port = 7000},
                                    .sentinel_user = "",
                                    .sentinel_password = "",
                                    .prefix = "q",
                                    .partitions = 2,
                                    .timeout_us = 2 * SECOND_US,
                                    .topics_max = 100,
                                    .waiters_max = 100,
                                    .loop = daemon->loop};
    assert_int_equal(redis_engine_new(&options, &daemon->engine, &error), OK);
    daemon->opening = true;
    daemon->leaving = daemon->dead = false;
    daemon->order_changes = 0;
    daemon->wanted_us = life->now_us;
    daemon->boot_at_us = INT64_MAX;
    start_pump(daemon);
}

static void daemon_end(struct daemon *daemon)
{
    daemon->dead = true;
    disown(daemon);
    sim_sink_kill(daemon->sink);
    struct engine *engine = redis_engine_port(daemon->engine);
    engine->verbs->observe_settings(engine, NULL);
    pump_free(daemon->pump);
    sim_sink_free(daemon->sink);
    registry_free(daemon->registry);
    redis_engine_free(daemon->engine);
    sim_network_end(daemon->life->network, daemon->number);
    daemon->engine = NULL;
    daemon->boot_at_us = daemon->life->now_us + span(daemon->life, 20 * SECOND_US);
}

static void daemon_leave(struct daemon *daemon)
{
    pump_drain(daemon->pump);
    daemon->leaving = true;
    daemon->wanted_us = daemon->life->now_us;
}

static void daemon_look(struct daemon *daemon)
{
    struct redis_error error;
    if (daemon->opening)
        daemon->opening = redis_engine_started(daemon->engine, &error) == ERR_AGAIN;
    if (!daemon->leaving || !pump_idle(daemon->pump))
        return;
    if (!daemon->dead)
        redis_engine_leave(daemon->engine);
    daemon->dead = true;
    if (redis_engine_left(daemon->engine))
        daemon_end(daemon);
}

static void push_turn(struct daemon *daemon)
{
    struct engine *engine = redis_engine_port(daemon->engine);
    uint64_t changes = engine->verbs->order_changes(engine);
    if (daemon->dead)
        return;
    if (changes != daemon->order_changes)
        pump_order_changed(daemon->pump);
    daemon->order_changes = changes;
    daemon->again |= registry_step(daemon->registry, NULL) | pump_step(daemon->pump);
}

static void daemon_turn(struct daemon *daemon)
{
    struct engine *engine = redis_engine_port(daemon->engine);
    struct loop *loop = daemon->loop;
    (void)loop_update_time(loop);
    daemon->again = false;
    engine->verbs->begin(engine);
    daemon->again |= loop->verbs->gather(loop, NULL) | loop_expire(loop, NULL);
    push_turn(daemon);
    engine->verbs->match(engine);
    int64_t next_us = engine->verbs->end(engine), timer_us = timers_next_us(&loop->timers);
    daemon->wanted_us = timer_us < next_us ? timer_us : next_us;
    if (daemon->again)
        daemon->wanted_us = daemon->life->now_us;
    daemon_look(daemon);
}

static int64_t daemon_next_us(const struct daemon *daemon)
{
    const struct life *life = daemon->life;
    if (!daemon->engine)
        return daemon->boot_at_us;
    if (daemon->frozen_until_us > life->now_us)
        return daemon->frozen_until_us;
    int64_t input_us = sim_network_daemon_us(life->network, daemon->number);
    return input_us < daemon->wanted_us ? input_us : daemon->wanted_us;
}

/* ---- the world ---- */

/* Of all daemons one at most may send an ordered topic's jobs. */
static void check_keeper(struct life *life)
{
    unsigned keepers = 0;
    for (unsigned i = 0; i < life->daemon_count; i++) {
        struct daemon *daemon = &life->daemons[i];
        bool awake = daemon->engine && !daemon->dead && daemon->frozen_until_us <= life->now_us;
        if (!awake)
            continue;
        (void)loop_update_time(daemon->loop);
        keepers += keeps_order(&daemon->door, BYTES("keyed")) != 0;
    }
    if (keepers > 1)
        fail_life(life, "two daemons keep the order", keepers);
}

static int64_t settle(struct life *life)
{
    for (bool again = true; again;) {
        again = false;
        sim_network_run(life->network, life->now_us);
        for (unsigned i = 0; i < life->daemon_count; i++) {
            struct daemon *daemon = &life->daemons[i];
            if (daemon_next_us(daemon) > life->now_us)
                continue;
            if (daemon->engine)
                daemon_turn(daemon);
            else
                daemon_start(daemon);
            again = true;
        }
        if (++life->turns > TURNS_MAX)
            fail_life(life, "a daemon spins", 0);
    }
    check_keeper(life);
    int64_t next_us = sim_network_next_us(life->network);
    for (unsigned i = 0; i < life->daemon_count; i++) {
        int64_t daemon_us = daemon_next_us(&life->daemons[i]);
        next_us = daemon_us < next_us ? daemon_us : next_us;
    }
    return next_us;
}

static void pass(struct life *life, int64_t us)
{
    int64_t until_us = life->now_us + us;
    while (life->now_us < until_us) {
        int64_t next_us = settle(life);
        if (next_us <= life->now_us)
            next_us = life->now_us + 1;
        life->now_us = next_us < until_us ? next_us : until_us;
        life->turns = 0;
    }
}

static void forget_members(struct life *life)
{
    for (unsigned i = 0; i < life->daemon_count; i++) {
        if (life->daemons[i].engine)
            forget_heartbeats_of(life->server, life->daemons[i].engine);
    }
}

static void happen(struct life *life)
{
    struct daemon *daemon = &life->daemons[sim_random_below(&life->random, life->daemon_count)];
    if (!daemon->engine || daemon->opening || daemon->leaving)
        return;
    switch (sim_random_below(&life->random, 8)) {
    case 0: daemon_end(daemon); break;
    case 1: daemon_leave(daemon); break;
    case 2:
        daemon->frozen_until_us = life->now_us + span(life, 20 * SECOND_US);
        disown(daemon);
        break;
    case 3: sim_network_reset(life->network, daemon->number, 0); break;
    case 4: forget_members(life); break;
    case 5: forget_heartbeats_of(life->server, daemon->engine); break;
    case 6:
        if (!life->leaps)
            break;
        sim_redis_settings(life->server)->ahead_us = span(life, 20 * SECOND_US) - 10 * SECOND_US;
        break;
    default: break;
    }
}

/* ---- commands ---- */

struct asked {
    struct ticket ticket;
    bool done;
    enum err err;
};

static void told(struct ticket *ticket, const struct reply *reply)
{
    struct asked *asked = LIST_ENTRY(ticket, struct asked, ticket);
    asked->done = true;
    asked->err = reply->err;
}

static void ask(struct life *life, const struct cmd *cmd)
{
    struct asked asked = {.ticket.answered = told};
    struct daemon *daemon = &life->daemons[0];
    (void)submit(&daemon->door, cmd, &asked.ticket);
    daemon->wanted_us = life->now_us;
    while (!asked.done)
        pass(life, 10 * MS);
    assert_int_equal(asked.err, OK);
}

#define SETTINGS(more)                                                                             \
    "{\"target\":{\"type\":\"http\",\"url\":\"https://shop.example/\"},\"jitter\":0" more "}"

static void configure(struct life *life, const char *topic, const char *settings)
{
    ask(life, &(struct cmd){.kind = CMD_CONFIGURE_TOPIC,
                            .topic = {.topic = bytes_str(topic), .settings = bytes_str(settings)}});
}

/* Nobody is buried: leases that ran out count as attempts, too, and how many is not known here. */
static void push_all(struct life *life, int64_t within_us)
{
    static int64_t waits_us[60];
    for (unsigned i = 0; i < 60; i++)
        waits_us[i] = SECOND_US;
    for (unsigned i = 0; i < JOBS; i++) {
        struct pushed *job = &life->jobs[i];
        char body[16], properties[32] = "";
        job->key = (unsigned)sim_random_below(&life->random, KEYS + 1);
        job->due_us = life->now_us + SECOND_US + span(life, within_us / MS) * MS + i * 10;
        (void)snprintf(body, sizeof(body), "%u", i);
        if (job->key)
            (void)snprintf(properties, sizeof(properties), "{\"key\":\"k%u\"}", job->key);
        ask(life, &(struct cmd){.kind = CMD_PUSH,
                                .push = {.topic = job->key ? BYTES("keyed") : BYTES("plain"),
                                         .due_us = job->due_us,
                                         .ttr_us = 60 * (int64_t)SECOND_US,
                                         .priority = 1024,
                                         .body = bytes_str(body),
                                         .properties = bytes_str(properties),
                                         .retry_us = waits_us,
                                         .retry_count = 60}});
    }
}

static struct life *life_new(uint64_t seed, unsigned daemons)
{
    struct life *life = mem_zalloc(sizeof(*life));
    life->seed = seed;
    life->random.state = seed * 91 + 7;
    life->now_us = INT64_C(1700000000) * SECOND_US;
    life->daemon_count = daemons ? daemons : 1 + (unsigned)sim_random_below(&life->random, DAEMONS);
    life->network = sim_network_new(
        &(struct sim_network_options){
            .seed = seed,
            .latency_us = 1 + span(life, 2 * MS),
            .faults = {.late_us = span(life, 300 * MS), .late_per_mille = daemons ? 0 : 5}},
        life->now_us);
    life->server =
        sim_redis_new(&(struct sim_redis_options){.host = "10.0.0.1", .port = 7000}, life->now_us);
    sim_network_add(life->network, life->server);
    for (unsigned i = 0; i < life->daemon_count; i++) {
        life->daemons[i] =
            (struct daemon){.life = life, .number = i, .boot_at_us = life->now_us + i * MS};
    }
    while (!life->daemons[0].engine || life->daemons[0].opening)
        pass(life, 10 * MS);
    configure(life, "keyed", SETTINGS(",\"concurrency\":3,\"order\":\"key\""));
    configure(life, "plain", SETTINGS(",\"concurrency\":2"));
    return life;
}

static void life_free(struct life *life)
{
    for (unsigned i = 0; i < life->daemon_count; i++) {
        if (life->daemons[i].engine)
            daemon_end(&life->daemons[i]);
    }
    sim_network_free(life->network);
    sim_redis_free(life->server);
    mem_free(life);
}

static unsigned delivered(const struct life *life)
{
    unsigned count = 0;
    for (unsigned i = 0; i < JOBS; i++)
        count += life->jobs[i].delivered;
    return count;
}

static void live(uint64_t seed)
{
    struct life *life = life_new(seed, 0);
    life->leaps = seed % 3 == 0;
    push_all(life, 60 * SECOND_US);
    for (unsigned i = 0; i < 30; i++) {
        pass(life, span(life, 6 * SECOND_US));
        if (seed % 4)
            happen(life);
    }
    for (unsigned i = 0; i < life->daemon_count; i++)
        life->daemons[i].frozen_until_us = 0;
    for (unsigned i = 0; i < 40 && delivered(life) < JOBS; i++)
        pass(life, 60 * SECOND_US);
    for (unsigned i = 0; i < JOBS; i++) {
        if (!life->jobs[i].delivered)
            fail_life(life, "never delivered", i);
    }
    life_free(life);
}

static void p2_p3_and_the_order_of_keys_hold_with_several_daemons(void **state)
{
    (void)state;
    const char *one = getenv("LIFE_SEED"), *many = getenv("SIM_SEEDS");
    uint64_t seeds = many ? strtoull(many, NULL, 10) / 10 : 40;
    log_level_set((enum log_level)(LOG_ERROR + 1));
    if (one)
        live(strtoull(one, NULL, 10));
    for (uint64_t seed = 1; seed <= seeds && !one; seed++)
        live(seed);
}

static struct daemon *keeper(struct life *life)
{
    for (unsigned i = 0; i < life->daemon_count; i++) {
        struct daemon *daemon = &life->daemons[i];
        if (daemon->engine && keeps_order(&daemon->door, BYTES("keyed")))
            return daemon;
    }
    return NULL;
}

static void an_ordered_topic_has_one_sender_and_another_when_that_is_killed(void **state)
{
    (void)state;
    log_level_set((enum log_level)(LOG_ERROR + 1));
    struct life *life = life_new(1, 2);
    pass(life, 30 * SECOND_US);
    struct daemon *first = keeper(life);
    assert_non_null(first);
    struct daemon *second = &life->daemons[first == &life->daemons[0]];
    push_all(life, SECOND_US);
    pass(life, SECOND_US);
    assert_int_equal(pump_held(second->pump, BYTES("keyed")), HELD_OTHERS);
    assert_int_equal(pump_held(second->pump, BYTES("plain")), HELD_NOT);
    daemon_end(first);
    first->boot_at_us = INT64_MAX;
    pass(life, 5 * SECOND_US); /* it is known by all already: 1.4 s, and the next heartbeat */
    assert_ptr_equal(keeper(life), second);
    pass(life, 60 * SECOND_US);
    assert_int_equal(delivered(life), JOBS);
    /* It comes again, and takes its topic back only when all know of it. */
    first->boot_at_us = life->now_us;
    pass(life, 5 * SECOND_US);
    assert_ptr_equal(first->engine ? keeper(life) : NULL, NULL);
    pass(life, 15 * SECOND_US);
    assert_ptr_equal(keeper(life), first);
    life_free(life);
}

static void an_ordered_topic_has_one_sender_though_redis_forgets_who_is_there(void **state)
{
    (void)state;
    log_level_set((enum log_level)(LOG_ERROR + 1));
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct life *life = life_new(seed, 2);
        pass(life, 20 * SECOND_US);
        for (unsigned i = 0; i < 10; i++) {
            pass(life, span(life, 3 * SECOND_US));
            forget_members(life);
            members_request_list(&life->daemons[i % 2].engine->members); /* one soon looks */
        }
        pass(life, 20 * SECOND_US);
        assert_non_null(keeper(life));
        life_free(life);
    }
}

/* It starts again at once with a file that is two seconds old, by which all are silent. */
static void an_ordered_topic_has_one_sender_though_redis_comes_back_with_old_heartbeats(
    void **state)
{
    (void)state;
    log_level_set((enum log_level)(LOG_ERROR + 1));
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct life *life = life_new(seed, 2);
        for (unsigned i = 0; i < 4; i++) {
            pass(life, 20 * SECOND_US + span(life, SECOND_US));
            assert_non_null(keeper(life));
            sim_redis_save(life->server);
            pass(life, 2 * SECOND_US);
            sim_redis_restart(life->server, SIM_REDIS_KEEPS_SAVED);
        }
        pass(life, 20 * SECOND_US);
        life_free(life);
    }
}

/* One starts, and reads who is there when Redis has just lost that. */
static void who_starts_when_redis_forgets_the_sender_is_no_second_one(void **state)
{
    (void)state;
    log_level_set((enum log_level)(LOG_ERROR + 1));
    for (uint64_t seed = 1; seed <= 16; seed++) {
        struct life *life = life_new(seed, 2);
        daemon_end(&life->daemons[1]);
        life->daemons[1].boot_at_us = life->now_us + 20 * SECOND_US + span(life, SECOND_US);
        pass(life, 20 * SECOND_US);
        assert_ptr_equal(keeper(life), &life->daemons[0]);
        while (!life->daemons[1].engine || !life->daemons[1].engine->members.heartbeats_pending)
            pass(life, 1);
        forget_heartbeats_of(life->server, life->daemons[0].engine);
        pass(life, 20 * SECOND_US);
        assert_non_null(keeper(life));
        life_free(life);
    }
}

/* It was alone when it was frozen. Meanwhile another one came, and found nobody. */
static void who_wakes_up_does_not_take_itself_for_alone(void **state)
{
    (void)state;
    log_level_set((enum log_level)(LOG_ERROR + 1));
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct life *life = life_new(seed, 2);
        struct daemon *first = &life->daemons[0], *second = &life->daemons[1];
        daemon_end(second);
        second->boot_at_us = life->now_us + 30 * SECOND_US;
        pass(life, 20 * SECOND_US + span(life, SECOND_US));
        first->frozen_until_us = life->now_us + 30 * SECOND_US;
        pass(life, 29 * SECOND_US);
        assert_true(keeps_order(&second->door, BYTES("keyed")) != 0);
        pass(life, 30 * SECOND_US);
        assert_non_null(keeper(life));
        life_free(life);
    }
}

static void who_is_alone_waits_for_nobody(void **state)
{
    (void)state;
    log_level_set((enum log_level)(LOG_ERROR + 1));
    struct life *life = life_new(2, 1);
    push_all(life, SECOND_US);
    pass(life, 2 * SECOND_US); /* its second heartbeat says that it serves */
    assert_ptr_equal(keeper(life), &life->daemons[0]);
    daemon_leave(&life->daemons[0]);
    pass(life, 30 * SECOND_US);
    while (!life->daemons[0].engine || life->daemons[0].opening)
        pass(life, 10 * MS);
    pass(life, 2 * SECOND_US);
    assert_ptr_equal(keeper(life), &life->daemons[0]);
    pass(life, 60 * SECOND_US);
    assert_int_equal(delivered(life), JOBS);
    life_free(life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ordered_topic_has_one_sender_and_another_when_that_is_killed),
        cmocka_unit_test(an_ordered_topic_has_one_sender_though_redis_forgets_who_is_there),
        cmocka_unit_test(
            an_ordered_topic_has_one_sender_though_redis_comes_back_with_old_heartbeats),
        cmocka_unit_test(who_starts_when_redis_forgets_the_sender_is_no_second_one),
        cmocka_unit_test(who_wakes_up_does_not_take_itself_for_alone),
        cmocka_unit_test(who_is_alone_waits_for_nobody),
        cmocka_unit_test(p2_p3_and_the_order_of_keys_hold_with_several_daemons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
