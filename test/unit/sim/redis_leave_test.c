/*
 * Daemons that come and leave while another one is not told of it, or while Redis refuses what they
 * leave with: the world of redis_life_world.h without its random clients and faults. Each test is
 * played from several seeds (DAY_SEEDS, SIM_FIRST; SIM_SEED: that one alone, with the log).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "redis_days_bed.h"

enum { ALIVE_US = 5 * SECOND_US, STEP_US = 200 };

static const struct members *members_of(const struct life *day, unsigned number)
{
    return &day->daemons[number].engine->members;
}

/* ---- notices that one daemon is not told ---- */

/* The connection by which the daemon hears the notices of partition 0. */
static struct sim_redis_conn *subscriber_of(const struct life *day, unsigned number)
{
    const char *name = day->daemons[number].engine->space.daemon;
    struct list *conns = &server_of(day, 0)->conns;
    for (struct list *at = conns->next; at != conns; at = at->next) {
        struct sim_redis_conn *conn = LIST_ENTRY(at, struct sim_redis_conn, place);
        for (unsigned i = 0; i < conn->channel_count; i++) {
            struct bytes channel = conn->channels[i].name;
            if (channel.len > SCRIPT_NAME &&
                memcmp(channel.at + channel.len - SCRIPT_NAME, name, SCRIPT_NAME) == 0)
                return conn;
        }
    }
    BROKEN(&day->oracle, "daemon %u hears nothing", number);
    return NULL;
}

/* It sends its first heartbeat, or the next one within a moment, or one is under way. */
static bool is_about_to_tell(const struct life *day, const struct members *members)
{
    int64_t next_us = members->heartbeat_sent_us + MEMBERS_HEARTBEAT_US;
    return !members->contact_us || members->heartbeats_pending || day->now_us >= next_us - MS;
}

/* What the newcomer says of itself, until it has said that it serves, is not heard by one. */
static void come_unheard(struct life *day, unsigned newcomer, unsigned deaf)
{
    struct sim_redis_conn *subscriber = subscriber_of(day, deaf);
    unsigned channels = subscriber->channel_count;
    int64_t until_us = day->now_us + SOON_US;
    day->daemons[newcomer].boot_at_us = day->now_us;
    bool told = false;
    while (!told) {
        const struct members *members =
            day->daemons[newcomer].engine ? members_of(day, newcomer) : NULL;
        subscriber->channel_count = members && is_about_to_tell(day, members) ? 0 : channels;
        told = members && members->how == SCRIPT_SERVES && !members->heartbeats_pending;
        day_pass(day, STEP_US);
        if (day->now_us > until_us)
            BROKEN(&day->oracle, "daemon %u does not serve", newcomer);
    }
    subscriber->channel_count = channels;
}

/* Two daemons, of which the second has just read the list of all, and then a third, of which the
 * second is not told: the first is told of its heartbeats. */
static void begin_with_one_unheard(struct life *day)
{
    day_servers(day, ON_SINGLE);
    day_daemons(day, 3, between(day, 1, 4));
    day->daemons[1].boot_at_us = day->now_us + SECOND_US;
    day->daemons[2].boot_at_us = INT64_MAX;
    day_pass(day, 4 * ALIVE_US); /* the second has looked twice whether others are dead */
    int64_t list_us = members_of(day, 1)->list_sent_us;
    while (members_of(day, 1)->list_sent_us == list_us)
        day_pass(day, 10 * MS);
    /* Between two heartbeats of the first, which the second is told of. */
    while ((day->now_us - members_of(day, 0)->heartbeat_sent_us) / (100 * MS) != 2)
        day_pass(day, 10 * MS);
    come_unheard(day, 2, 1);
}

/* The first daemon leaves while the second has not heard of the third, which is not young any more.
 */
static void play_unheard_newcomer(struct life *day)
{
    static struct client holder, taker;
    struct bytes topic = BYTES("t");
    struct cmd take = {.kind = CMD_RESERVE,
                       .reserve = {.topics = &topic, .topic_count = 1, .max = 1, .bound = true}};
    begin_with_one_unheard(day);
    day_pass(day, ALIVE_US + span(day, SECOND_US));
    day_push(day, 2, "t", "", 0, NULL);
    day_pass(day, 100 * MS);
    day_submit(day, 2, &take, &holder);
    day_await(day, &holder, SOON_US);
    day_reserve(day, 1, "t", 1, MINUTE_US, &taker);
    day_pass(day, 100 * MS);
    if (members_of(day, 1)->count != 1)
        BROKEN(&day->oracle, "daemon 1 knows %u others", members_of(day, 1)->count);
    day->quiet = true;
    daemon_stop(&day->daemons[0], false);
    day_pass(day, 2 * SECOND_US);
    struct cmd finish = {.kind = CMD_FINISH, .job = {.ref.seq = holder.seq, .lease = holder.lease}};
    day_submit(day, 2, &finish, &holder);
    day_await(day, &holder, SOON_US);
    ended_well(day, &holder, "P4: a daemon that lives was taken for dead");
    if (taker.answers)
        BROKEN(&day->oracle, "P4: a job was given to another");
}

static void p4_a_daemon_that_another_was_not_told_of_keeps_its_jobs_when_a_third_leaves(
    void **state)
{
    (void)state;
    each_seed(play_unheard_newcomer);
}

/* ---- a farewell that does not reach all partitions ---- */

/* A partition that another server has than partition 0, where all are told who leaves. */
static unsigned partition_apart(const struct life *day)
{
    unsigned partition = 1;
    while (partition < day->partitions && server_of(day, partition) == server_of(day, 0))
        partition++;
    if (partition == day->partitions)
        BROKEN(&day->oracle, "all partitions are on one server");
    return partition;
}

static unsigned place_of(const struct life *day, const struct sim_redis *server)
{
    unsigned place = 0;
    while (day->servers[place] != server)
        place++;
    return place;
}

/* What Redis has in the partition of who had this name. */
static size_t left_by(const struct life *day, unsigned partition, const char *name)
{
    struct buf start = {0};
    size_t count = 0;
    for (const char *kind = "ad"; *kind; kind++) {
        start.len = 0;
        buf_add_char(&start, *kind);
        buf_add(&start, name, SCRIPT_NAME);
        count += fields_with(day, partition, buf_bytes(&start));
    }
    buf_fini(&start);
    return count;
}

struct leaver {
    unsigned partition, server;
    char name[SCRIPT_NAME];
};

/* Daemon 1 is connected again to a server, and has sent what opens a partition there. */
static struct leaver begin_with_a_new_connection(struct life *day)
{
    day_begin(day, ON_CLUSTER, 2, 8);
    struct redis_engine *engine = day->daemons[1].engine;
    struct leaver leaver = {.partition = partition_apart(day)};
    leaver.server = place_of(day, server_of(day, leaver.partition));
    memcpy(leaver.name, engine->space.daemon, SCRIPT_NAME);
    day_pass(day, 2 * ALIVE_US + span(day, SECOND_US));
    sim_network_reset(day->network, 1, leaver.server);
    return leaver;
}

static void leave_for_good(struct life *day)
{
    struct daemon *daemon = &day->daemons[1];
    int64_t until_us = day->now_us + SOON_US;
    daemon_stop(daemon, false);
    while (daemon->engine && day->now_us < until_us)
        day_pass(day, STEP_US);
    if (daemon->engine)
        BROKEN(&day->oracle, "a daemon does not end");
    daemon->boot_at_us = INT64_MAX;
}

static void nothing_is_left(const struct life *day, const struct leaver *leaver)
{
    for (unsigned p = 0; p < day->partitions; p++) {
        size_t count = left_by(day, p, leaver->name);
        if (count)
            BROKEN(&day->oracle, "partition %u has %zu fields of who left", p, count);
    }
}

/* It leaves before it is connected again, and is then. */
static void play_leaver_connected_again(struct life *day)
{
    struct leaver leaver = begin_with_a_new_connection(day);
    leave_for_good(day);
    day_pass(day, 100 * MS);
    nothing_is_left(day, &leaver);
}

static void who_has_left_does_not_register_again_when_a_server_is_back(void **state)
{
    (void)state;
    each_seed(play_leaver_connected_again);
}

static unsigned came_late;

/* What it has sent arrives when others have been told that it leaves, and have forgotten it. */
static void play_late_registration(struct life *day)
{
    struct leaver leaver = begin_with_a_new_connection(day);
    const struct opening *opening =
        &day->daemons[1].engine->partition_init.openings[leaver.partition];
    sim_network_faults(day->network,
                       &(struct sim_faults){.late_us = 300 * MS, .late_per_mille = 1000});
    while (!opening->pending)
        day_pass(day, STEP_US / 4);
    sim_network_faults(day->network, &(struct sim_faults){.late_us = 0});
    leave_for_good(day);
    came_late += left_by(day, leaver.partition, leaver.name) > 0;
    day_pass(day, 2 * ALIVE_US + SECOND_US);
    nothing_is_left(day, &leaver);
}

static void what_comes_late_of_who_has_left_is_looked_for_again(void **state)
{
    (void)state;
    each_seed(play_late_registration);
    assert_true(came_late > 0 || getenv("SIM_SEED"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            p4_a_daemon_that_another_was_not_told_of_keeps_its_jobs_when_a_third_leaves),
        cmocka_unit_test(who_has_left_does_not_register_again_when_a_server_is_back),
        cmocka_unit_test(what_comes_late_of_who_has_left_is_looked_for_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
