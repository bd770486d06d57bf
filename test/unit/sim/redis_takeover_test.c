/*
 * Who makes due jobs ready when a daemon has gone, and how soon: the world of redis_life_world.h
 * without its random clients and faults. Each test is played from several seeds (DAY_SEEDS,
 * SIM_FIRST; SIM_SEED: that one alone, with the log).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "redis_days_bed.h"

enum {
    TOPIC_COUNT = 24,
    TAKEN_OVER_US = 2 * SECOND_US, /* docs/redis.md */
    PROMPT_US = 150 * MS,          /* notices and calls take a few milliseconds each */
};

/* Daemon 0 waits for a job of each topic, and pushes them: all are due after `delay_us`. */
static void wait_for_jobs(struct life *day, struct client takers[TOPIC_COUNT], int64_t delay_us)
{
    for (unsigned i = 0; i < TOPIC_COUNT; i++) {
        char topic[8], id[8];
        (void)snprintf(topic, sizeof(topic), "t%u", i);
        (void)snprintf(id, sizeof(id), "id%u", i);
        day_reserve(day, 0, topic, 1, MINUTE_US, &takers[i]);
        day_push(day, 0, topic, id, delay_us, NULL);
    }
}

/* How many jobs are in partitions of this daemon. */
static unsigned owned_by(const struct life *day, unsigned number)
{
    unsigned count = 0;
    for (unsigned p = 0; p < day->partitions; p++)
        count += members_own(&day->daemons[number].engine->members, p);
    return count;
}

/* Each partition is one of these daemons'. */
static void each_has_an_owner(const struct life *day, unsigned daemons)
{
    for (unsigned p = 0; p < day->partitions; p++) {
        unsigned owners = 0;
        for (unsigned i = 0; i < daemons; i++)
            owners += members_own(&day->daemons[i].engine->members, p);
        if (owners != 1)
            BROKEN(&day->oracle, "two seconds after a daemon was killed %u others own partition %u",
                   owners, p);
    }
}

static void kill_for_good(struct life *day, unsigned number)
{
    daemon_stop(&day->daemons[number], true);
    day->daemons[number].boot_at_us = INT64_MAX;
}

static void all_have_come(struct life *day, const struct client takers[TOPIC_COUNT])
{
    for (unsigned i = 0; i < TOPIC_COUNT; i++) {
        if (takers[i].count != 1)
            BROKEN(&day->oracle, "the job of topic %u is due, and does not come", i);
    }
}

/* One of three is killed or hangs. Of the two others one waits for the jobs of its partitions, and
 * the other one has nothing to do, so nothing but the take-over has it look. */
static void play_one_goes(struct life *day)
{
    static struct client takers[TOPIC_COUNT];
    unsigned victim = between(day, 1, 2);
    day_begin(day, ON_ANY, 3, 16);
    day_pass(day, 3 * SECOND_US + span(day, SECOND_US));
    if (owned_by(day, victim) == 0)
        return; /* no partition changes hands */
    wait_for_jobs(day, takers, 4 * SECOND_US);
    int64_t due_us = day->now_us + 4 * SECOND_US;
    day_pass(day, 100 * MS + span(day, SECOND_US));
    if (chance(day, 500))
        kill_for_good(day, victim);
    else
        day->daemons[victim].frozen_until_us = INT64_MAX;
    day_pass(day, due_us - day->now_us + PROMPT_US);
    all_have_come(day, takers);
}

static void jobs_of_one_that_is_killed_or_hangs_are_ready_when_they_are_due(void **state)
{
    (void)state;
    each_seed(play_one_goes);
}

/* It has just said that it serves, so it has partitions, and has not sent a heartbeat yet that is
 * published only to the daemon that watches it. */
static void play_newcomer_goes(struct life *day)
{
    static struct client takers[TOPIC_COUNT];
    unsigned others = between(day, 1, 2);
    struct daemon *newcomer = &day->daemons[others];
    day_servers(day, ON_ANY);
    day_daemons(day, others + 1, 16);
    newcomer->boot_at_us = INT64_MAX;
    day_pass(day, 12 * SECOND_US + span(day, 10 * SECOND_US));
    wait_for_jobs(day, takers, 6 * SECOND_US);
    day_pass(day, 100 * MS);
    newcomer->boot_at_us = day->now_us;
    int64_t until_us = day->now_us + SOON_US;
    while (!newcomer->engine || newcomer->engine->members.how != SCRIPT_SERVES) {
        if (day->now_us >= until_us)
            BROKEN(&day->oracle, "a daemon that has started does not serve");
        day_pass(day, MS);
    }
    day_pass(day, 10 * MS + span(day, 900 * MS));
    kill_for_good(day, others);
    day_pass(day, TAKEN_OVER_US);
    each_has_an_owner(day, others);
    day_pass(day, 6 * SECOND_US);
    all_have_come(day, takers);
}

static void one_that_is_killed_when_it_has_just_come_is_replaced_within_two_seconds(void **state)
{
    (void)state;
    each_seed(play_newcomer_goes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_of_one_that_is_killed_or_hangs_are_ready_when_they_are_due),
        cmocka_unit_test(one_that_is_killed_when_it_has_just_come_is_replaced_within_two_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
