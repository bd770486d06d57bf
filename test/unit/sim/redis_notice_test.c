/*
 * Who is told of a ready job, when several daemons wait: the world of redis_life_world.h without
 * its random clients and faults. Each test is played from several seeds (DAY_SEEDS, SIM_FIRST;
 * SIM_SEED: that one alone, with the log).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "redis_days_bed.h"

enum { PROMPT_US = 50 * MS, STREAK = 6 };

static void push_ranked(struct life *day, const char *topic, uint32_t priority, int64_t delay_us,
                        struct client *client)
{
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = bytes_str(topic),
                                .priority = priority,
                                .due_us = daemon_now(&day->daemons[2]) + delay_us,
                                .ttr_us = MINUTE_US,
                                .body = BYTES("body")}};
    day_submit(day, 2, &push, client);
}

static void wait_for_both(struct life *day, struct client *client)
{
    struct bytes topics[] = {BYTES("a"), BYTES("b")};
    struct cmd take = {
        .kind = CMD_RESERVE,
        .reserve = {.topics = topics, .topic_count = 2, .max = 1, .wait_us = MINUTE_US}};
    day_submit(day, 0, &take, client);
}

/* One waits, for whom there are others that get delayed jobs before: so a reserve for it is sent
 * right behind each promote, if its daemon is the promoter. */
static struct client *wait_behind_others(struct life *day)
{
    static struct client clients[STREAK + 1];
    wait_for_both(day, &clients[0]);
    for (unsigned i = 0; i < STREAK; i++) {
        wait_for_both(day, &clients[i + 1]);
        push_ranked(day, "b", 1, 100 * MS, NULL);
        day_await(day, &clients[i], SOON_US);
    }
    return &clients[STREAK];
}

/* Daemon 0 waits for either topic, and is told of a job of each; it takes the better one. Daemon 1
 * waits behind it for the other one, of which only daemon 0 was told. */
static void play_better_one(struct life *day, int64_t delay_us)
{
    static struct client behind;
    day_begin(day, ON_ANY, 3, 1);
    day_make_topic(day, "a");
    day_make_topic(day, "b");
    const struct client *either = wait_behind_others(day);
    day_pass(day, 100 * MS);
    day_reserve(day, 1, "a", 1, MINUTE_US, &behind);
    day_pass(day, 50 * MS);
    push_ranked(day, "a", 2, delay_us, NULL);
    push_ranked(day, "b", 1, delay_us, NULL);
    day_pass(day, delay_us + PROMPT_US);
    if (either->count != 1)
        BROKEN(&day->oracle, "who waits for both topics got %u jobs", either->count);
    if (behind.count != 1)
        BROKEN(&day->oracle, "a job waits, and so does its consumer, who was not told of it");
}

static void play_better_one_now(struct life *day)
{
    play_better_one(day, 0);
}

static void play_better_one_later(struct life *day)
{
    play_better_one(day, 300 * MS);
}

static void a_job_beside_a_better_one_of_another_topic_is_the_next_ones_at_once(void **state)
{
    (void)state;
    each_seed(play_better_one_now);
    each_seed(play_better_one_later);
}

static void wait_in_listed_order(struct life *day, unsigned number, struct client *client)
{
    struct bytes topics[] = {BYTES("a"), BYTES("b")};
    struct cmd take = {.kind = CMD_RESERVE,
                       .reserve = {.topics = topics,
                                   .topic_count = 2,
                                   .listed_order = true,
                                   .max = 1,
                                   .wait_us = MINUTE_US}};
    day_submit(day, number, &take, client);
}

static int64_t sooner_us;

/* The promoter waits for the first topic, then for the second one. While it requests a job of the
 * first one, it makes one of the second ready, for which another daemon waits, too. */
static void play_promoted_beside_a_request(struct life *day)
{
    static struct client either, behind, second;
    unsigned promoter = 0;
    day_begin(day, ON_ANY, 3, 1);
    day_make_topic(day, "a");
    day_make_topic(day, "b");
    while (promoter < 2 && !members_own(&day->daemons[promoter].engine->members, 0))
        promoter++;
    unsigned other = (promoter + 1) % 3;
    wait_in_listed_order(day, promoter, &either);
    day_pass(day, 100 * MS);
    day_reserve(day, other, "b", 1, MINUTE_US, &behind);
    day_pass(day, 50 * MS);
    push_ranked(day, "b", 1, 300 * MS, &second);
    day_pass(day, 300 * MS - sooner_us);
    push_ranked(day, "a", 1, 0, NULL);
    day_pass(day, sooner_us + PROMPT_US);
    if (either.count != 1)
        BROKEN(&day->oracle, "who waits for both topics got %u jobs", either.count);
    if (either.seq != second.seq && behind.count != 1)
        BROKEN(&day->oracle, "a job waits, and so does its consumer, who was not told of it");
}

static void a_job_made_ready_while_another_topic_is_requested_is_the_next_ones_at_once(void **state)
{
    (void)state;
    for (sooner_us = 0; sooner_us < 5 * MS; sooner_us += MS / 2)
        each_seed(play_promoted_beside_a_request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_beside_a_better_one_of_another_topic_is_the_next_ones_at_once),
        cmocka_unit_test(
            a_job_made_ready_while_another_topic_is_requested_is_the_next_ones_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
