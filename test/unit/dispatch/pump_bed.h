/*
 * A world (server, embedded engine, simulated receiver) and commands to its server without a
 * client: what tests of the pump share. Included behind cmocka.
 */
#ifndef LATERD_TEST_PUMP_BED_H
#define LATERD_TEST_PUMP_BED_H

#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"
#include "core/core.h"
#include "proto/settings/job_properties.h"
#include "server/door.h"
#include "server/server.h"
#include "sim/world.h"

enum { SECOND_US = 1000 * 1000, SEEN_MAX = 4096 };

/* One delivery as the receiver saw it. */
struct seen {
    int64_t at_us;
    uint64_t seq; /* by its id, "@7" */
    uint32_t attempt;
    char body[32];
};

struct bed {
    struct world *world;
    struct sim_receiver receiver;
    /* The test's answer; NULL: 200 at once. */
    void (*answer)(struct bed *bed, const struct delivery *delivery, struct sim_answer *answer);
    struct seen seen[SEEN_MAX];
    unsigned seen_count, under_way, under_way_most;
    uint64_t version;
    int64_t set_back_us; /* the clock was, so much, while the server was down */
};

static inline int64_t bed_now(const struct bed *bed)
{
    return world_now_us(bed->world);
}

static inline struct server *bed_server(const struct bed *bed)
{
    return (struct server *)(uintptr_t)world_server(bed->world);
}

static inline void bed_received(struct sim_receiver *receiver, const struct delivery *delivery,
                                struct sim_answer *answer)
{
    struct bed *bed = LIST_ENTRY(receiver, struct bed, receiver);
    struct seen *seen = &bed->seen[bed->seen_count++ % SEEN_MAX];
    struct job_ref ref = {0};
    (void)job_ref_parse(delivery->id, &ref);
    size_t len = delivery->body.len < 31 ? delivery->body.len : 31;
    *seen = (struct seen){.at_us = bed_now(bed), .seq = ref.seq, .attempt = delivery->attempt};
    memcpy(seen->body, delivery->body.at, len);
    assert_true(delivery->due_us <= bed_now(bed) + bed->set_back_us); /* never early */
    if (++bed->under_way > bed->under_way_most)
        bed->under_way_most = bed->under_way;
    if (bed->answer)
        bed->answer(bed, delivery, answer);
}

static inline void bed_ended(struct sim_receiver *receiver, const struct delivery *delivery)
{
    (void)delivery;
    LIST_ENTRY(receiver, struct bed, receiver)->under_way--;
}

static inline void bed_open(struct bed *bed, const struct world_options *options)
{
    memset(bed, 0, sizeof(*bed));
    bed->world = world_new(options);
    bed->receiver = (struct sim_receiver){.received = bed_received, .ended = bed_ended};
    sim_sink_receiver(world_sink(bed->world), &bed->receiver);
    assert_int_equal(world_boot(bed->world), OK);
}

static inline void bed_close(struct bed *bed)
{
    world_free(bed->world);
}

/*
 * A test's state is its bed: BED_TEST(test) in the list of tests, or BED_TEST_OF(test, options),
 * which are those of the world.
 */
static inline int bed_set_up(void **state)
{
    static const struct world_options plain = {.seed = 1};
    const struct world_options *options = *state ? *state : &plain;
    struct bed *bed = mem_alloc(sizeof(*bed));
    bed_open(bed, options);
    *state = bed;
    return 0;
}

static inline int bed_tear_down(void **state)
{
    bed_close(*state);
    mem_free(*state);
    return 0;
}

#define BED_TEST(test) cmocka_unit_test_setup_teardown(test, bed_set_up, bed_tear_down)
#define BED_TEST_OF(test, options)                                                                 \
    cmocka_unit_test_prestate_setup_teardown(test, bed_set_up, bed_tear_down,                      \
                                             (void *)(uintptr_t)(options))

static inline void bed_pass(struct bed *bed, int64_t us)
{
    world_run(bed->world, bed_now(bed) + us);
}

static inline const struct pump_counts *bed_counts(const struct bed *bed)
{
    return pump_counts(bed_server(bed)->pump_stage.pump);
}

static inline enum held_why bed_held(const struct bed *bed, const char *topic)
{
    return pump_held(bed_server(bed)->pump_stage.pump, bytes_str(topic));
}

/* As the engine tells them. */
static inline void bed_settings(struct bed *bed, const char *topic, const char *json)
{
    struct settings_observer *observer = registry_observer(bed_server(bed)->registry);
    observer->changed(observer, bytes_str(topic), ++bed->version, bytes_str(json));
    bed_pass(bed, 0);
    assert_true(!json[0] || registry_find(bed_server(bed)->registry, bytes_str(topic), NULL));
}

static inline void bed_submit(struct bed *bed, const struct cmd *cmd)
{
    static const struct principal nobody = {.protocol = PROTOCOL_KINDS};
    (void)server_submit(bed_server(bed), &nobody, cmd, NULL);
}

/* Due in so long, with retries after these waits (up to a 0). */
static inline void bed_push(struct bed *bed, const char *topic, const char *body, int64_t in_us,
                            const char *properties)
{
    static const int64_t waits_us[] = {SECOND_US, 5 * SECOND_US};
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.topic = bytes_str(topic),
                               .due_us = bed_now(bed) + in_us,
                               .ttr_us = 60 * SECOND_US,
                               .priority = 1024,
                               .body = bytes_str(body),
                               .properties = bytes_str(properties),
                               .retry_us = waits_us,
                               .retry_count = 2}};
    bed_submit(bed, &cmd);
}

/* Jobs of all topics in this state. */
struct bed_tally {
    struct ticket ticket;
    uint64_t jobs[JOB_STATES];
};

static inline void bed_tallied(struct ticket *ticket, const struct reply *reply)
{
    struct bed_tally *tally = LIST_ENTRY(ticket, struct bed_tally, ticket);
    assert_int_equal(reply->err, OK);
    memcpy(tally->jobs, reply->stats->jobs, sizeof(tally->jobs));
}

static inline uint64_t bed_jobs(struct bed *bed, enum job_state state)
{
    static const struct principal nobody = {.protocol = PROTOCOL_KINDS};
    struct bed_tally tally = {.ticket.answered = bed_tallied};
    struct cmd cmd = {.kind = CMD_TOPICS, .topic = {.max = 1, .stats = true}};
    (void)server_submit(bed_server(bed), &nobody, &cmd, &tally.ticket);
    bed_pass(bed, 0);
    return tally.jobs[state];
}

static inline void bed_say(struct sim_answer *answer, uint16_t status, int64_t after_us)
{
    bool good = status >= 200 && status < 300;
    answer->after_us = after_us;
    answer->outcome.kind = status == 410 ? OUTCOME_GONE : good ? OUTCOME_DELIVERED : OUTCOME_FAILED;
    answer->outcome.code = status;
    answer->outcome.unhealthy = status == 429 || status >= 500;
    answer->outcome.reason = good ? (struct bytes){0} : BYTES("the receiver refused");
}

#endif
