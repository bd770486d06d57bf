/*
 * Bad days of the Redis engine: fifteen that were once seen with real servers, each played from
 * several seeds, which choose the kind of Redis, daemons, partitions and moments. docs/testing.md
 * has a table of them, and of the planted bug that each one finds. Time is simulated.
 *
 * DAY_SEEDS: how many seeds for each day, SIM_FIRST: from which on; SIM_SEED: that one alone, with
 * the engine's log. DAY: the number of the only day to play.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "redis_days_bed.h"

enum {
    BODIES_MAX = 400 * 1024, /* bytes that a script reads */
    BELIEVED_US = 1050 * MS,
};

/* ---- 1: notices that are lost ---- */

/* Is it by this connection that the daemon hears notices? */
static bool is_ear_of(const struct sim_redis_conn *conn, const struct daemon *daemon)
{
    struct bytes name = bytes_of(daemon->engine->space.daemon, SCRIPT_NAME);
    for (unsigned i = 0; i < conn->channel_count; i++) {
        struct bytes channel = conn->channels[i].name;
        if (memmem(channel.at, channel.len, name.at, name.len))
            return true;
    }
    return false;
}

/* Connections that hear notices end, at some servers or at all, and none is made again; but not
 * those of `spared`, if it is not NULL. */
static void deafen(struct life *day, const struct daemon *spared)
{
    bool all = chance(day, 500);
    day->cluster.lost_per_mille = spared ? 0 : 1000;
    for (unsigned i = 0; i < day->server_count; i++) {
        if (!all && chance(day, 300))
            continue;
        sim_redis_settings(day->servers[i])->denied = " ssubscribe ";
        struct list *conns = &day->servers[i]->conns;
        for (struct list *at = conns->next; at != conns; at = at->next) {
            struct sim_redis_conn *conn = LIST_ENTRY(at, struct sim_redis_conn, place);
            conn->closed =
                conn->closed || (conn->channel_count > 0 && !(spared && is_ear_of(conn, spared)));
        }
    }
}

static void play_lost_notices(struct life *day)
{
    enum { WAITING = 6 };
    static struct client takers[WAITING];
    char topic[8];
    int64_t due_us[WAITING];
    day_begin(day, ON_ANY, between(day, 2, 3), between(day, 1, 8));
    /* Daemons for which nobody waits must look, too: they make others' jobs ready. */
    unsigned waited_at = chance(day, 700) ? 1 : day->daemon_count;
    for (unsigned i = 0; i < WAITING; i++) {
        (void)snprintf(topic, sizeof(topic), "t%u", i);
        day_make_topic(day, topic);
        day_reserve(day, i % waited_at, topic, 1, MINUTE_US, &takers[i]);
    }
    day_pass(day, span(day, 2 * SECOND_US));
    /* Who hears all does not look by itself: others must, who make ready what it waits for. */
    bool hears = waited_at == 1 && chance(day, 500);
    deafen(day, hears ? &day->daemons[0] : NULL);
    day_pass(day, 100 * MS + span(day, 5 * SECOND_US));
    for (unsigned i = 0; i < WAITING; i++) {
        int64_t delay_us = chance(day, 500) ? 0 : span(day, 2 * SECOND_US);
        (void)snprintf(topic, sizeof(topic), "t%u", i);
        day_push(day, (unsigned)below(day, day->daemon_count), topic, "", delay_us, NULL);
        due_us[i] = day->now_us + delay_us;
    }
    for (unsigned i = 0; i < WAITING; i++) {
        while (!takers[i].answers && day->now_us < due_us[i] + BELIEVED_US)
            day_pass(day, 20 * MS);
        ended_well(day, &takers[i], "a consumer who hears no notice");
    }
}

static void p2_day_1_no_consumer_is_deaf_for_lost_notices(void **state)
{
    (void)state;
    each_seed(play_lost_notices);
}

/* ---- 2: full rings ---- */

static void play_full_ring(struct life *day)
{
    enum { PUSHES = SCRIPT_RING + 800, WAITING = 5 };
    static struct client pushers[PUSHES], waiting[WAITING], asking;
    day_begin(day, ON_ANY, between(day, 1, 2), 1);
    day_make_topic(day, "t");
    for (unsigned i = 0; i < WAITING; i++)
        day_reserve(day, i % day->daemon_count, "t", 1, MINUTE_US, &waiting[i]);
    day_pass(day, span(day, SECOND_US));
    unsigned count = between(day, SCRIPT_RING + 100, PUSHES);
    for (unsigned i = 0; i < count; i++)
        day_push(day, 0, "t", "", 0, &pushers[i]);
    while (!pushers[10 * WAITING].answers) /* more jobs are there than the others take */
        day_pass(day, 50);
    day_reserve(day, 0, "t", 1, 0, &asking);
    day_pass(day, 900 * MS);
    for (unsigned i = 0; i < count; i++)
        ended_well(day, &pushers[i], "a push that found the ring full");
    for (unsigned i = 0; i < WAITING; i++)
        ended_well(day, &waiting[i], "who waits while the ring is full");
    if (!asking.answers || asking.err == ERR_EMPTY)
        BROKEN(&day->oracle, "a request that found no room was told \"empty\"");
    unsigned left = day_take_all(day, 0, "t") + WAITING + asking.count;
    if (left != count)
        BROKEN(&day->oracle, "of %u jobs %u came", count, left);
}

static void p2_day_2_a_full_ring_is_waited_for_and_is_not_empty(void **state)
{
    (void)state;
    each_seed(play_full_ring);
}

/* ---- 3: a master that its cluster has lost ---- */

static void push_anywhere(struct life *day, unsigned number, struct client *client)
{
    char id[24];
    (void)snprintf(id, sizeof(id), "id-%llu",
                   (unsigned long long)below(day, UINT64_C(1000000000000)));
    day_push(day, number, "t", id, 0, client);
}

static void play_lost_master(struct life *day)
{
    enum { AT_ONCE = 24 };
    static struct client pushers[DAEMONS][AT_ONCE];
    day_begin(day, ON_CLUSTER, between(day, 1, DAEMONS), between(day, 4, 16));
    day_pass(day, span(day, 3 * SECOND_US));
    unsigned old = (unsigned)below(day, 3), hangs = chance(day, 500);
    for (unsigned i = 0; hangs && i < day->daemon_count; i++)
        sim_network_cut(day->network, i, old, SIM_CUT_ALL);
    sim_cluster_cut_off(&day->cluster, old, true);
    /* No replica takes over sooner from one that hangs; a request needs two seconds to tell. */
    for (unsigned steps = hangs ? between(day, 60, 120) : between(day, 20, 80); steps; steps--) {
        for (unsigned i = 0; i < day->daemon_count; i++)
            push_anywhere(day, i, NULL);
        day_pass(day, 50 * MS);
    }
    sim_redis_catch_up(day->servers[old + 3]);
    sim_cluster_take_over(&day->cluster, day->servers[old + 3], day->servers[old]);
    day_pass(day, 2 * SECOND_US);
    for (unsigned i = 0; i < day->daemon_count; i++) {
        for (unsigned n = 0; n < AT_ONCE; n++)
            push_anywhere(day, i, &pushers[i][n]);
    }
    day_pass(day, 100 * MS);
    for (unsigned i = 0; i < day->daemon_count; i++) {
        for (unsigned n = 0; n < AT_ONCE; n++)
            ended_well(day, &pushers[i][n], "a push two seconds after a replica took over");
    }
    sim_cluster_cut_off(&day->cluster, old, false);
}

static void day_3_a_cluster_heals_within_two_seconds_of_redis(void **state)
{
    (void)state;
    each_seed(play_lost_master);
}

/* ---- 4: a crowd of dead daemons ---- */

/* A request of a daemon that is none of ours: nobody sees the answer. */
static void send_foreign(struct life *day, unsigned partition, struct buf *request)
{
    struct sim_redis_conn *conn = sim_redis_accept(server_of(day, partition));
    sim_redis_input(conn, buf_bytes(request));
    if (sim_redis_output(conn)->at[0] == '-')
        BROKEN(&day->oracle, "a foreign request was refused");
    sim_redis_hang_up(conn);
    buf_fini(request);
    *request = (struct buf){0};
}

/* It came, and took a job in each partition. */
static void one_dies(struct life *day, unsigned who)
{
    struct script_space space;
    struct bytes topic = BYTES("t");
    struct cmd_reserve take = {.topics = &topic, .topic_count = 1, .max = 1, .bound = true};
    char name[SCRIPT_NAME + 1];
    struct buf request = {0};
    (void)snprintf(name, sizeof(name), "dead-%03u", who);
    if (script_space_init(&space, BYTES("q"), day->partitions, name))
        BROKEN(&day->oracle, "no space");
    for (unsigned p = 0; p < day->partitions; p++) {
        struct script_call call = {.partition = p, .number = 1, .now_us = day->now_us};
        script_encode_open(&request, &space, &call, chance(day, 100) ? SCRIPT_RING : 256, 0);
        send_foreign(day, p, &request);
        call.number++;
        script_encode_reserve(&request, &space, &call, &take,
                              &(struct script_share){.max = 1, .mark = SCRIPT_NO_MARK});
        send_foreign(day, p, &request);
    }
    script_space_fini(&space);
}

static void play_dead_crowd(struct life *day)
{
    struct client client;
    unsigned dead = between(day, 40, 120);
    day_begin(day, ON_ANY, between(day, 1, DAEMONS), between(day, 1, 2));
    for (unsigned i = 0; i < 2 * dead; i++)
        day_push(day, 0, "t", "", 0, NULL);
    day_pass(day, SECOND_US);
    for (unsigned i = 0; i < dead; i++)
        one_dies(day, i);
    *sim_lua_ledger() = (struct sim_lua_ledger){0};
    daemon_stop(&day->daemons[0], true); /* one that comes finds what they left */
    day->daemons[0].boot_at_us = day->now_us;
    day_serve(day, SOON_US);
    for (int i = 0; i < 75; i++) {
        day_push(day, 0, "u", "", 0, &client);
        day_await(day, &client, 100 * MS);
        ended_well(day, &client, "a push while dead daemons are forgotten");
        day_pass(day, 200 * MS);
    }
    no_script_did_too_much(day);
    for (unsigned p = 0; p < day->partitions; p++) {
        if (fields_with(day, p, BYTES("ddead-")) || fields_with(day, p, BYTES("adead-")))
            BROKEN(&day->oracle, "what a dead daemon had is still there");
    }
    if (day_take_all(day, 0, "t") != 2 * dead)
        BROKEN(&day->oracle, "P2: a dead daemon keeps a job");
}

static void day_4_a_crowd_of_dead_daemons_is_forgotten_in_small_steps(void **state)
{
    (void)state;
    each_seed(play_dead_crowd);
}

/* ---- 5: marks ---- */

static void play_marks(struct life *day)
{
    enum { ASKING = 150 };
    static struct client clients[ASKING];
    char topic[16];
    size_t marks = 0;
    day_begin(day, ON_ANY, between(day, 1, DAEMONS), between(day, 1, 4));
    day_make_topic(day, "known");
    for (unsigned i = 0; i < ASKING; i++) {
        bool known = chance(day, 50);
        (void)snprintf(topic, sizeof(topic), "nobody-%u", i);
        day_reserve(day, i % day->daemon_count, known ? "known" : topic, between(day, 1, 40),
                    chance(day, 500) ? span(day, SECOND_US) : 0, &clients[i]);
        if (chance(day, 100))
            day_cancel(day, i % day->daemon_count, &clients[i]);
        day_pass(day, span(day, 20 * MS));
    }
    day_pass(day, 2 * SECOND_US);
    for (unsigned p = 0; p < day->partitions; p++)
        marks += fields_with(day, p, BYTES("#wnobody-"));
    if (marks)
        BROKEN(&day->oracle, "%zu marks are left of topics that are not there", marks);
}

static void day_5_who_asks_for_topics_that_are_not_there_leaves_nothing(void **state)
{
    (void)state;
    each_seed(play_marks);
}

/* ---- 6: one key for all ---- */

static void play_buckets(struct life *day)
{
    enum { EACH_US = 12 * MS };
    day_begin(day, ON_ANY, between(day, 1, 2), 1);
    for (int64_t until_us = day->now_us + 10 * SECOND_US; day->now_us < until_us;) {
        push_anywhere(day, (unsigned)below(day, day->daemon_count), NULL);
        day_pass(day, span(day, 2 * EACH_US));
    }
    size_t most = 0, all = 0;
    for (unsigned i = 0; i < 256; i++) {
        char which[8];
        (void)snprintf(which, sizeof(which), "j%u", i);
        const struct value *bucket = key_of(day, 0, which);
        size_t count = bucket ? bucket->count : 0;
        most = count > most ? count : most;
        all += count;
    }
    if (all < 700 || most > all / 32)
        BROKEN(&day->oracle, "one key has %zu of %zu fields", most, all);
}

static void day_6_no_key_has_more_than_a_small_share_of_the_jobs(void **state)
{
    (void)state;
    each_seed(play_buckets);
}

/* ---- 7: a thundering herd ---- */

static void play_herd(struct life *day)
{
    enum { EACH = 12, JOBS = 10, HERD = 8 };
    static struct client clients[HERD][EACH];
    unsigned served = 0;
    day_begin(day, ON_ANY, between(day, 4, HERD), between(day, 1, 4));
    day_make_topic(day, "t");
    for (unsigned i = 0; i < EACH * day->daemon_count; i++)
        day_reserve(day, i / EACH, "t", 1, MINUTE_US, &clients[i / EACH][i % EACH]);
    day_pass(day, 2 * SECOND_US);
    uint64_t before = sim_lua_ledger()->runs;
    int64_t began_us = day->now_us;
    for (unsigned i = 0; i < JOBS; i++) {
        day_push(day, (unsigned)below(day, day->daemon_count), "t", "", 0, NULL);
        day_pass(day, 20 * MS + span(day, 20 * MS));
    }
    uint64_t runs = sim_lua_ledger()->runs - before;
    /* And behind a heartbeat a promote in each partition that was used. */
    uint64_t heartbeats = (1 + (uint64_t)((day->now_us - began_us) / SECOND_US)) *
                          (day->daemon_count + day->partitions);
    for (unsigned i = 0; i < EACH * day->daemon_count; i++)
        served += clients[i / EACH][i % EACH].answers;
    if (served != JOBS)
        BROKEN(&day->oracle, "%u of %u jobs came", served, JOBS);
    if (runs > JOBS * 4 + heartbeats)
        BROKEN(&day->oracle, "%llu scripts for %u jobs of %u daemons", (unsigned long long)runs,
               JOBS, day->daemon_count);
}

static void day_7_a_job_costs_a_few_scripts_however_many_daemons_wait(void **state)
{
    (void)state;
    each_seed(play_herd);
}

/* ---- 8: a clock that is ahead ---- */

static void play_ahead(struct life *day)
{
    struct client taker;
    day_servers(day, ON_ANY);
    day_daemons(day, 1, 1);
    int64_t ahead_us = 5 * MS + span(day, 4 * MS);
    day->daemons[0].ahead_us = ahead_us;
    day_serve(day, SOON_US);
    day_make_topic(day, "t");
    day_reserve(day, 0, "t", 1, MINUTE_US, &taker);
    day_pass(day, span(day, SECOND_US));
    int64_t delay_us = 300 * MS + span(day, 2 * SECOND_US);
    day_push(day, 0, "t", "", delay_us, NULL);
    int64_t due_us = daemon_now(&day->daemons[0]) + delay_us;
    day_pass(day, delay_us - 20 * MS);
    uint64_t before = sim_lua_ledger()->runs;
    day_await(day, &taker, 50 * MS);
    if (sim_lua_ledger()->runs - before > 6) /* a reserve, perhaps a heartbeat and its like */
        BROKEN(&day->oracle, "%llu scripts for a job that falls due",
               (unsigned long long)(sim_lua_ledger()->runs - before));
    if (taker.answered_us < due_us - ahead_us - MS)
        BROKEN(&day->oracle, "P3: a job comes %lld us early",
               (long long)(due_us - ahead_us - taker.answered_us));
}

static void p3_day_8_a_clock_that_is_ahead_makes_nobody_spin(void **state)
{
    (void)state;
    each_seed(play_ahead);
}

/* ---- 9: clocks that leap ---- */

static void leap_all(struct life *day, int64_t by_us)
{
    for (unsigned i = 0; i < day->server_count; i++)
        sim_redis_settings(day->servers[i])->ahead_us += by_us;
}

static void play_leap(struct life *day)
{
    enum { JOBS = 8 };
    static struct client takers[JOBS];
    int64_t due_us[JOBS], most_us = chance(day, 500) ? 60 * MINUTE_US : 20 * SECOND_US;
    int64_t by_us = (chance(day, 500) ? 1 : -1) * (most_us / 2 + span(day, most_us / 2));
    char topic[8];
    day_begin(day, ON_ANY, between(day, 1, DAEMONS), between(day, 1, 4));
    day_pass(day, 3 * SECOND_US); /* until they are sure of the clocks */
    for (unsigned i = 0; i < JOBS; i++) {
        int64_t delay_us = 500 * MS + span(day, 6 * SECOND_US);
        (void)snprintf(topic, sizeof(topic), "t%u", i);
        day_push(day, (unsigned)below(day, day->daemon_count), topic, "", delay_us, NULL);
        day_reserve(day, (unsigned)below(day, day->daemon_count), topic, 1, MINUTE_US, &takers[i]);
        due_us[i] = day->now_us + delay_us;
    }
    day_pass(day, 300 * MS + span(day, SECOND_US));
    leap_all(day, by_us);
    day_pass(day, SECOND_US + span(day, 2 * SECOND_US));
    leap_all(day, -by_us);
    day_pass(day, 9 * SECOND_US);
    for (unsigned i = 0; i < JOBS; i++) {
        ended_well(day, &takers[i], "a job that was due around a leap");
        int64_t late_us = takers[i].answered_us - due_us[i];
        if (late_us < -20 * MS || late_us > SECOND_US + 50 * MS)
            BROKEN(&day->oracle, "P3: a job comes %lld us late", (long long)late_us);
    }
}

static void p3_day_9_a_leap_of_redis_clock_makes_no_job_early_nor_late(void **state)
{
    (void)state;
    each_seed(play_leap);
}

/* ---- 10: reads ---- */

static uint64_t list(struct life *day, const char *topic, enum job_state of, struct client *client)
{
    struct cmd cmd = {.kind = CMD_LIST,
                      .topic = {.topic = bytes_str(topic), .state = of, .max = 1000}};
    uint64_t before = sim_lua_ledger()->runs;
    day_submit(day, 0, &cmd, client);
    day_await(day, client, SOON_US);
    return sim_lua_ledger()->runs - before;
}

static void play_reads(struct life *day)
{
    struct client client, leaver;
    unsigned count = between(day, 1900, 2500);
    day_begin(day, ON_ANY, 1, 1);
    for (unsigned i = 0; i < count; i++)
        day_push(day, 0, "many", "", i < count / 4 ? 60 * SECOND_US + i : 0, NULL);
    day_push(day, 0, "one", "", 0, NULL);
    day_pass(day, SECOND_US);
    if (day_take_all(day, 0, "many") != count - count / 4)
        BROKEN(&day->oracle, "P2: jobs are missing");
    uint64_t runs = list(day, "one", JOB_READY, &client);
    if (runs > 2 || client.count != 1) /* a heartbeat may be among them */
        BROKEN(&day->oracle, "%llu scripts list one job", (unsigned long long)runs);
    runs = list(day, "one", JOB_RESERVED, &client);
    if (runs > 2 || client.count)
        BROKEN(&day->oracle, "%llu scripts list nothing", (unsigned long long)runs);
    struct cmd all = {.kind = CMD_LIST,
                      .topic = {.topic = BYTES("many"), .state = JOB_RESERVED, .max = 1000}};
    runs = sim_lua_ledger()->runs;
    day_submit(day, 0, &all, &leaver);
    day_pass(day, span(day, 2 * MS));
    day_cancel(day, 0, &leaver);
    day_pass(day, 200 * MS);
    if (sim_lua_ledger()->runs - runs > 6)
        BROKEN(&day->oracle, "%llu scripts for one who has gone",
               (unsigned long long)(sim_lua_ledger()->runs - runs));
    no_script_did_too_much(day);
}

static void day_10_a_listing_costs_what_it_shows_and_ends_with_its_asker(void **state)
{
    (void)state;
    each_seed(play_reads);
}

/* ---- 11: a burst ---- */

static void play_burst(struct life *day)
{
    enum { OTHERS = 40 };
    static struct client takers[OTHERS];
    unsigned burst = between(day, 1800, 2400), last = OTHERS - 1;
    const char *other = chance(day, 500) ? "a" : "zzz"; /* before and behind it, by name */
    day_begin(day, ON_ANY, between(day, 1, 2), 1);
    day_make_topic(day, other);
    for (unsigned i = 0; i < OTHERS; i++)
        day_reserve(day, 0, other, 1, MINUTE_US, &takers[i]);
    int64_t due_us = day->now_us + 2 * SECOND_US;
    for (unsigned i = 0; i < burst; i++)
        day_push(day, 0, "burst", "", due_us - day->now_us, NULL);
    for (unsigned i = 0; i < OTHERS; i++)
        day_push(day, 0, other, "", due_us - day->now_us + span(day, 100) - 50, NULL);
    day_pass(day, due_us - day->now_us - MS);
    uint64_t before = sim_lua_ledger()->runs;
    day_await(day, &takers[last], SECOND_US);
    uint64_t runs = sim_lua_ledger()->runs - before;
    /* Promotes go on until the reserve is there; the burst alone takes nine or more of them. */
    if (runs > 10 || takers[last].answered_us - due_us > 50 * MS)
        BROKEN(&day->oracle, "%llu scripts before another topic's jobs, which were due as well",
               (unsigned long long)runs);
    day_pass(day, SECOND_US);
    if (day_take_all(day, 0, "burst") != burst || sim_lua_ledger()->most_work > WORK_MAX)
        BROKEN(&day->oracle, "a burst was not served in small steps");
}

static void p3_day_11_a_burst_makes_no_other_topics_job_late(void **state)
{
    (void)state;
    each_seed(play_burst);
}

/* ---- 12: heartbeats ---- */

static void play_heartbeats(struct life *day)
{
    enum { WATCHED = 10 };
    uint64_t messages = 0;
    day_begin(day, ON_ANY, between(day, 12, DAEMONS_MAX), between(day, 1, 4));
    day_pass(day, 8 * SECOND_US);
    for (unsigned i = 0; i < day->server_count; i++)
        messages -= day->servers[i]->messages;
    uint64_t runs = sim_lua_ledger()->runs;
    day_pass(day, WATCHED * SECOND_US);
    for (unsigned i = 0; i < day->server_count; i++)
        messages += day->servers[i]->messages;
    runs = sim_lua_ledger()->runs - runs;
    if (messages > (WATCHED + 2) * day->daemon_count || runs > (WATCHED + 2) * day->daemon_count)
        BROKEN(&day->oracle, "%u idle daemons: %llu messages, %llu scripts in %u s",
               day->daemon_count, (unsigned long long)messages, (unsigned long long)runs, WATCHED);
}

static void day_12_an_idle_daemon_is_one_script_and_one_message_a_second(void **state)
{
    (void)state;
    each_seed(play_heartbeats);
}

/* ---- 13: lost keys, and a policy that loses them ---- */

static void play_lost_keys(struct life *day)
{
    static const char *const sets[] = {"d", "l", "o"};
    unsigned count = between(day, 50, 200);
    day_begin(day, ON_ANY, between(day, 1, DAEMONS), between(day, 1, 4));
    for (unsigned i = 0; i < count; i++)
        day_push(day, i % day->daemon_count, "t", "",
                 chance(day, 500) ? 0 : span(day, 4 * SECOND_US), NULL);
    day_pass(day, span(day, SECOND_US));
    for (unsigned times = between(day, 1, 3); times; times--)
        spoil_key(day, (unsigned)below(day, day->partitions), sets[below(day, 3)], false);
    day_pass(day, 7 * SECOND_US);
    day_serve(day, 0);
    unsigned left = day_take_all(day, 0, "t");
    if (left != count)
        BROKEN(&day->oracle, "P2: of %u jobs %u came after a set was lost", count, left);
    for (unsigned i = 0; i < day->server_count; i++)
        sim_redis_settings(day->servers[i])->evicts = true;
    day_pass(day, 11 * SECOND_US);
    for (unsigned i = 0; i < day->daemon_count; i++) {
        if (is_well(&day->daemons[i]))
            BROKEN(&day->oracle, "Redis may evict keys, and daemon %u says that all is well", i);
    }
    evicts_while_servers_come_and_go(day);
    for (unsigned i = 0; i < day->server_count; i++)
        sim_redis_settings(day->servers[i])->evicts = false;
    day_serve(day, 11 * SECOND_US);
}

static void p2_day_13_a_lost_set_is_put_back_and_a_policy_that_evicts_is_told(void **state)
{
    (void)state;
    each_seed(play_lost_keys);
}

/* ---- 14: a save that comes back ---- */

struct numbers {
    struct ticket ticket;
    unsigned answers, jobs;
    uint64_t least, most;
};

static void numbers_told(struct ticket *ticket, const struct reply *reply)
{
    struct numbers *numbers = (struct numbers *)ticket; /* its first member */
    numbers->answers++;
    for (uint32_t i = 0; i < reply->count; i++) {
        uint64_t lease = reply->jobs[i].lease;
        numbers->most = lease > numbers->most ? lease : numbers->most;
        numbers->least = lease < numbers->least ? lease : numbers->least;
        numbers->jobs++;
    }
}

/* Pushes so many jobs, all to partition 0, and reserves what is ready. */
static struct numbers cycle(struct life *day, unsigned count)
{
    struct numbers numbers = {.ticket.answered = numbers_told, .least = UINT64_MAX};
    struct redis_engine *engine = day->daemons[0].engine;
    struct bytes topic = BYTES("t");
    struct cmd take = {.kind = CMD_RESERVE,
                       .reserve = {.topics = &topic, .topic_count = 1, .max = 100}};
    char id[16];
    for (unsigned n = 0; count; n++) {
        uint32_t partition;
        enum err err;
        (void)snprintf(id, sizeof(id), "%llx", (unsigned long long)below(day, UINT64_C(1) << 48));
        struct cmd push = {.kind = CMD_PUSH,
                           .push = {.topic = topic,
                                    .id = bytes_str(id),
                                    .due_us = daemon_now(&day->daemons[0]),
                                    .ttr_us = MINUTE_US}};
        if (script_route(&engine->space, &push, &partition, &err) != SCRIPT_ONE || partition)
            continue;
        day_submit(day, 0, &push, NULL);
        count--;
    }
    day_pass(day, 5 * MS);
    for (unsigned jobs = 1; jobs;) {
        jobs = numbers.jobs;
        unsigned answers = numbers.answers;
        (void)loop_update_time(day->daemons[0].loop);
        (void)redis_engine_port(engine)->verbs->submit(redis_engine_port(engine), &take,
                                                       &numbers.ticket);
        redis_engine_port(engine)->verbs->match(redis_engine_port(engine));
        day->daemons[0].wanted_us = day->now_us;
        while (numbers.answers == answers)
            day_pass(day, 100);
        jobs = numbers.jobs - jobs;
    }
    return numbers;
}

static void play_old_save(struct life *day)
{
    day_begin(day, ON_SINGLE, 1, between(day, 48, 64));
    struct numbers first = cycle(day, between(day, 50, 200));
    sim_redis_save(day->servers[0]);
    struct numbers second = cycle(day, between(day, 800, 1000));
    uint64_t given = second.most;
    daemon_stop(&day->daemons[0], true);
    sim_redis_restart(day->servers[0], SIM_REDIS_KEEPS_SAVED);
    day->daemons[0].boot_at_us = day->now_us;
    day_serve(day, SOON_US);
    struct numbers third = cycle(day, between(day, 1, 20));
    if (!first.jobs || !third.jobs || third.least <= given)
        BROKEN(&day->oracle, "P4: a lease was given again after a save came back");
}

static void p4_day_14_no_lease_is_given_again_after_a_save_came_back(void **state)
{
    (void)state;
    each_seed(play_old_save);
}

/* ---- 15: what is too large, too late, or of another type ---- */

static void reserve_very_many(struct life *day)
{
    enum { MOST = SCRIPT_TOPICS_MAX + 10 };
    static char names[MOST][8];
    static struct bytes topics[MOST];
    struct client client;
    unsigned count = chance(day, 600) ? SCRIPT_TOPICS_MAX : between(day, 1000, MOST);
    unsigned jobs = between(day, 1, 5);
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "t%u", i);
        topics[i] = bytes_str(names[i]);
    }
    for (unsigned i = 0; i < jobs; i++)
        day_push(day, 0, names[below(day, count)], "", 0, NULL);
    day_pass(day, 100 * MS);
    struct cmd take = {.kind = CMD_RESERVE,
                       .reserve = {.topics = topics, .topic_count = count, .max = 10}};
    day_submit(day, 0, &take, &client);
    day_await(day, &client, SOON_US);
    enum err expected = count > SCRIPT_TOPICS_MAX ? ERR_UNSUPPORTED : OK;
    if (client.err != expected || client.count > jobs || (client.count == 0) != (expected != OK))
        BROKEN(&day->oracle, "a reserve of %u topics: error %d, %u of %u jobs", count,
               (int)client.err, client.count, jobs);
}

/* They are taken together, and their leases end together. */
static void take_large_ones(struct life *day)
{
    static char body[100 * 1024];
    unsigned count = between(day, 20, 40), small = between(day, 251, 400);
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = BYTES("large"),
                                .due_us = daemon_now(&day->daemons[0]),
                                .ttr_us = SECOND_US,
                                .body = bytes_of(body, sizeof(body))}};
    for (unsigned i = 0; i < count + small; i++) {
        if (i == count)
            push.push.body = BYTES("small");
        day_submit(day, 0, &push, NULL);
    }
    day_pass(day, SECOND_US);
    if (day_take_all(day, 0, "large") != count + small)
        BROKEN(&day->oracle, "P2: jobs are missing");
    day_pass(day, 2 * SECOND_US);
    if (day_take_all(day, 0, "large") != count + small)
        BROKEN(&day->oracle, "P2: not all leases have ended");
    if (sim_lua_ledger()->most_bytes > BODIES_MAX)
        BROKEN(&day->oracle, "a script read %llu bytes",
               (unsigned long long)sim_lua_ledger()->most_bytes);
}

static void push_too_late(struct life *day)
{
    struct client client;
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = BYTES("t"),
                                .due_us = SCRIPT_FOREVER + span(day, INT64_MAX - SCRIPT_FOREVER),
                                .ttr_us = MINUTE_US}};
    day_submit(day, 0, &push, &client);
    day_await(day, &client, SOON_US);
    if (client.err != ERR_UNSUPPORTED)
        BROKEN(&day->oracle, "a due time after 2255 is no error");
}

static void says_that_a_key_is_not_ours(struct life *day)
{
    struct redis_error said;
    if (is_well(&day->daemons[0]) || !redis_reason(day->daemons[0].engine, &said))
        BROKEN(&day->oracle, "a key of another type, and all is well");
    if (!strstr(said.text, "none of laterd's"))
        BROKEN(&day->oracle, "a key of another type reads '%s'", said.text);
}

static void play_odd_ones(struct life *day)
{
    static const char *const keys[] = {"d", "l", "o", "h"};
    day_servers(day, ON_ANY);
    day_daemons(day, 1, between(day, 1, 3));
    unsigned partition = (unsigned)below(day, day->partitions), which = (unsigned)below(day, 4);
    spoil_key(day, partition, keys[which], true);
    day_pass(day, 3 * SECOND_US);
    if (is_well(&day->daemons[0]))
        BROKEN(&day->oracle, "a daemon serves over somebody else's key");
    for (unsigned i = 0; i < 4; i++) {
        if (i != which && key_of(day, partition, keys[i]))
            BROKEN(&day->oracle, "a partition was half made over somebody else's key");
    }
    spoil_key(day, partition, keys[which], false);
    day_serve(day, SOON_US);
    take_large_ones(day);
    no_script_did_too_much(day);
    reserve_very_many(day); /* the one that may cost more: its words are its client's */
    push_too_late(day);
    which = (unsigned)below(day, 3);
    spoil_key(day, partition, keys[which], true);
    for (unsigned i = 0; i < 40; i++) { /* somebody needs the key */
        struct client client;
        push_anywhere(day, 0, NULL);
        day_reserve(day, 0, "t", 1, 0, &client);
        day_await(day, &client, SOON_US);
    }
    day_pass(day, SECOND_US);
    says_that_a_key_is_not_ours(day);
    spoil_key(day, partition, keys[which], false);
    day_serve(day, 3 * SECOND_US);
}

static void day_15_what_cannot_be_is_named_and_very_many_topics_can(void **state)
{
    (void)state;
    each_seed(play_odd_ones);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p2_day_1_no_consumer_is_deaf_for_lost_notices),
        cmocka_unit_test(p2_day_2_a_full_ring_is_waited_for_and_is_not_empty),
        cmocka_unit_test(day_3_a_cluster_heals_within_two_seconds_of_redis),
        cmocka_unit_test(day_4_a_crowd_of_dead_daemons_is_forgotten_in_small_steps),
        cmocka_unit_test(day_5_who_asks_for_topics_that_are_not_there_leaves_nothing),
        cmocka_unit_test(day_6_no_key_has_more_than_a_small_share_of_the_jobs),
        cmocka_unit_test(day_7_a_job_costs_a_few_scripts_however_many_daemons_wait),
        cmocka_unit_test(p3_day_8_a_clock_that_is_ahead_makes_nobody_spin),
        cmocka_unit_test(p3_day_9_a_leap_of_redis_clock_makes_no_job_early_nor_late),
        cmocka_unit_test(day_10_a_listing_costs_what_it_shows_and_ends_with_its_asker),
        cmocka_unit_test(p3_day_11_a_burst_makes_no_other_topics_job_late),
        cmocka_unit_test(day_12_an_idle_daemon_is_one_script_and_one_message_a_second),
        cmocka_unit_test(p2_day_13_a_lost_set_is_put_back_and_a_policy_that_evicts_is_told),
        cmocka_unit_test(p4_day_14_no_lease_is_given_again_after_a_save_came_back),
        cmocka_unit_test(day_15_what_cannot_be_is_named_and_very_many_topics_can),
    };
    char only[16];
    (void)snprintf(only, sizeof(only), "*day_%s_*", getenv("DAY") ? getenv("DAY") : "*");
    cmocka_set_test_filter(only);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
