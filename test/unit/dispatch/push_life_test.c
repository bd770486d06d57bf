/*
 * Lives of pushed topics: jobs with and without keys, a receiver that refuses, fails, hangs, asks
 * for waits, a server that is killed, drained and started again, a sink that goes away, settings
 * that change. Whatever happens: no job is sent before its time, none twice at once, attempts match
 * the schedule, of one key one job is sent at a time and in the order of their times, and in the
 * end each job was delivered, or is buried. SIM_SEEDS: how many lives; LIFE_SEED: one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pump_bed.h"

enum { JOBS = 60, KEYS = 4, ATTEMPTS = 3 };

struct life_job {
    uint64_t seq; /* known when it is sent first */
    int64_t due_us;
    unsigned key;   /* 0: none */
    unsigned fails; /* answers that were no success, and were told */
    bool under_way, delivered, told;
};

struct life {
    struct bed bed;
    struct sim_random random;
    struct life_job jobs[JOBS];
    unsigned crashes;
    uint64_t seed;
};

static struct life *life_of(struct bed *bed)
{
    return LIST_ENTRY(bed, struct life, bed);
}

/* Its body says which it is. */
static unsigned number_of(const struct delivery *delivery)
{
    uint64_t number = 0;
    assert_true(bytes_to_u64(delivery->body, &number) && number < JOBS);
    return (unsigned)number;
}

static void fail_life(const struct life *life, const char *what, unsigned job)
{
    fail_msg("seed %llu: %s (job %u)", (unsigned long long)life->seed, what, job);
}

/* Of its key it must be the first that has not ended; and alone. */
static void check_key(const struct life *life, unsigned number)
{
    const struct life_job *job = &life->jobs[number];
    for (unsigned i = 0; i < JOBS && job->key; i++) {
        const struct life_job *other = &life->jobs[i];
        if (other == job || other->key != job->key)
            continue;
        if (other->under_way)
            fail_life(life, "two of one key at once", number);
        bool ended = other->delivered || other->fails >= ATTEMPTS;
        if (other->due_us < job->due_us && !ended)
            fail_life(life, "before another of its key that is due earlier", number);
    }
}

static void answer(struct bed *bed, const struct delivery *delivery, struct sim_answer *answer)
{
    struct life *life = life_of(bed);
    unsigned number = number_of(delivery);
    struct life_job *job = &life->jobs[number];
    if (job->under_way)
        fail_life(life, "sent twice at once", number);
    if (bed_now(bed) < job->due_us)
        fail_life(life, "sent before its time", number);
    if (job->delivered && !life->crashes)
        fail_life(life, "sent again though it was delivered", number);
    if (life->crashes ? delivery->attempt > job->fails + 1 : delivery->attempt != job->fails + 1)
        fail_life(life, "its attempts do not match", number);
    check_key(life, number);
    job->under_way = true;
    unsigned dice = (unsigned)sim_random_below(&life->random, 100);
    int64_t after_us = (int64_t)sim_random_below(&life->random, SECOND_US);
    bed_say(answer, dice < 65 ? 200 : dice < 85 ? 404 : 500, after_us);
    if (dice >= 92)
        answer->outcome.retry_after_us = (int64_t)sim_random_below(&life->random, 9 * SECOND_US);
    if (dice >= 97)
        answer->after_us = INT64_MAX; /* hangs */
    job->told = dice < 65;
}

static void ended(struct sim_receiver *receiver, const struct delivery *delivery)
{
    struct bed *bed = LIST_ENTRY(receiver, struct bed, receiver);
    struct life *life = life_of(bed);
    struct life_job *job = &life->jobs[number_of(delivery)];
    bed->under_way--;
    job->under_way = false;
    job->delivered |= job->told;
    job->fails += !job->told;
}

#define SETTINGS(more)                                                                             \
    "{\"target\":{\"type\":\"http\",\"url\":\"https://shop.example/\"},\"jitter\":0," more "}"

static void set_up(struct life *life)
{
    struct bed *bed = &life->bed;
    bed_settings(bed, "keyed", SETTINGS("\"concurrency\":3,\"order\":\"key\""));
    bed_settings(bed, "plain", SETTINGS("\"concurrency\":2"));
}

static void push_all(struct life *life)
{
    for (unsigned i = 0; i < JOBS; i++) {
        struct life_job *job = &life->jobs[i];
        char body[16], properties[32] = "";
        int64_t in_us = 1000 + (int64_t)sim_random_below(&life->random, 20000) * 1000 + i * 10;
        job->key = (unsigned)sim_random_below(&life->random, KEYS + 1);
        job->due_us = bed_now(&life->bed) + in_us;
        (void)snprintf(body, sizeof(body), "%u", i);
        if (job->key)
            (void)snprintf(properties, sizeof(properties), "{\"key\":\"k%u\"}", job->key);
        bed_push(&life->bed, job->key ? "keyed" : "plain", body, in_us, properties);
    }
}

/* What was on its way is forgotten; its answer is never heard. */
static void restart(struct life *life)
{
    for (unsigned i = 0; i < JOBS; i++)
        life->jobs[i].under_way = false;
    life->bed.under_way = 0;
    life->crashes++;
    assert_int_equal(world_boot(life->bed.world), OK);
    set_up(life);
}

static void happen(struct life *life)
{
    struct bed *bed = &life->bed;
    switch (sim_random_below(&life->random, 12)) {
    case 0:
        world_crash(bed->world, WORLD_KILL);
        restart(life);
        break;
    case 1:
        (void)world_stop(bed->world);
        restart(life);
        break;
    case 2:
        sim_sink_away(world_sink(bed->world), true);
        bed_pass(bed, (int64_t)sim_random_below(&life->random, 5 * SECOND_US));
        sim_sink_away(world_sink(bed->world), false);
        break;
    case 3: bed_settings(bed, "plain", SETTINGS("\"concurrency\":5,\"rate\":\"3/s\"")); break;
    default: break;
    }
}

static void live(struct life *life, uint64_t seed)
{
    struct world_options options = {.seed = seed, .disk_us = seed % 3 ? 2000 : 0};
    memset(life, 0, sizeof(*life));
    bed_open(&life->bed, &options);
    life->seed = seed;
    life->random.state = seed * 77 + 1;
    life->bed.answer = answer;
    life->bed.receiver.ended = ended;
    set_up(life);
    push_all(life);
    bed_pass(&life->bed, 0);
    for (unsigned i = 0; i < 30; i++) {
        bed_pass(&life->bed, (int64_t)sim_random_below(&life->random, 3 * SECOND_US));
        if (seed % 4)
            happen(life);
    }
    bed_pass(&life->bed, 1200 * (int64_t)SECOND_US);
    unsigned buried = 0, lost = 0;
    for (unsigned i = 0; i < JOBS; i++) {
        buried += !life->jobs[i].delivered;
        lost += !life->jobs[i].delivered && life->jobs[i].fails < ATTEMPTS;
    }
    if (lost)
        fail_life(life, "neither delivered nor buried", lost);
    for (enum job_state each = JOB_DELAYED; each < JOB_BURIED; each++)
        if (bed_jobs(&life->bed, each))
            fail_life(life, "jobs are left", (unsigned)each);
    if (life->crashes ? bed_jobs(&life->bed, JOB_BURIED) < buried
                      : bed_jobs(&life->bed, JOB_BURIED) != buried)
        fail_life(life, "not the right number is buried", buried);
    assert_int_equal(bed_counts(&life->bed)->bytes, 0);
    /* Two for each attempt, some for what is put off for its key, some for the start. */
    if (bed_counts(&life->bed)->commands > 2000)
        fail_life(life, "too many commands", (unsigned)bed_counts(&life->bed)->commands);
    bed_close(&life->bed);
}

static void p2_p3_p4_p5_every_pushed_job_is_delivered_or_buried_whatever_happens(void **state)
{
    (void)state;
    struct life *life = mem_alloc(sizeof(*life));
    const char *one = getenv("LIFE_SEED"), *many = getenv("SIM_SEEDS");
    uint64_t seeds = many ? strtoull(many, NULL, 10) / 4 : 60;
    if (one)
        live(life, strtoull(one, NULL, 10));
    for (uint64_t seed = 1; seed <= seeds && !one; seed++)
        live(life, seed);
    mem_free(life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p2_p3_p4_p5_every_pushed_job_is_delivered_or_buried_whatever_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
