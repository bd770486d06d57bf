/*
 * Settings of topics on a simulated Redis, with one daemon or two: who is told of them, and when.
 * Time is simulated: what is waited for takes none.
 */
#include <stdio.h>
#include <stdlib.h>

#include "redis_bed.h"

enum {
    TOPICS_MAX = 2000,
    HEARD_US = 1300 * MS, /* a heartbeat, and the way to Redis and back */
};

/* ---- who is told ---- */

struct told_settings {
    struct settings_observer observer;
    struct {
        uint64_t version;
        char text[16];
    } topics[TOPICS_MAX]; /* "t0", "t1", … */
    unsigned calls;
};

static struct told_settings here, there;

static unsigned number_of(struct bytes topic)
{
    char text[16] = "";
    assert_in_range(topic.len, 2, sizeof(text) - 1);
    memcpy(text, topic.at, topic.len);
    return (unsigned)strtoul(text + 1, NULL, 10);
}

static void receive(struct settings_observer *observer, struct bytes topic, uint64_t version,
                    struct bytes settings)
{
    struct told_settings *told = (struct told_settings *)observer; /* its first member */
    unsigned number = number_of(topic);
    assert_in_range(number, 0, TOPICS_MAX - 1);
    assert_in_range(settings.len, 0, sizeof(told->topics[0].text) - 1);
    memset(told->topics[number].text, 0, sizeof(told->topics[0].text));
    if (settings.len)
        memcpy(told->topics[number].text, settings.at, settings.len);
    told->topics[number].version = version;
    told->calls++;
}

static void observe(struct told_settings *told)
{
    struct engine *port = redis_engine_port(engine);
    memset(told, 0, sizeof(*told));
    told->observer.changed = receive;
    port->verbs->observe_settings(port, &told->observer);
}

/* ---- who changes them ---- */

struct setter {
    struct ticket ticket;
    unsigned answers;
    enum err err;
    bool more;
    uint64_t version;
};

static void setter_answered(struct ticket *ticket, const struct reply *reply)
{
    struct setter *setter = (struct setter *)ticket; /* its first member */
    setter->answers++;
    setter->err = reply->err;
    setter->version = reply->version;
    setter->more = reply->more;
}

static struct setter submit(const struct cmd *cmd)
{
    struct engine *port = redis_engine_port(engine);
    struct setter setter = {.ticket.answered = setter_answered};
    (void)port->verbs->submit(port, cmd, &setter.ticket); /* the setter is told */
    for (int i = 0; i < 5000 && !setter.answers; i++)
        turn();
    assert_int_equal(setter.answers, 1);
    return setter;
}

static struct cmd configure(const char *topic, const char *settings)
{
    return (struct cmd){.kind = CMD_CONFIGURE_TOPIC,
                        .topic = {.topic = bytes_str(topic), .settings = bytes_str(settings)}};
}

static uint64_t set(const char *topic, const char *settings)
{
    struct cmd cmd = configure(topic, settings);
    struct setter setter = submit(&cmd);
    assert_int_equal(setter.err, OK);
    return setter.version;
}

static void set_many(unsigned from, unsigned upto, const char *settings)
{
    for (unsigned i = from; i < upto; i++) {
        char topic[16];
        (void)snprintf(topic, sizeof(topic), "t%u", i);
        (void)set(topic, settings);
    }
}

static struct setter remove_topic(const char *topic)
{
    struct cmd cmd = {.kind = CMD_REMOVE_TOPIC, .topic.topic = bytes_str(topic)};
    return submit(&cmd);
}

/* A command straight to the server. */
static void redis_does(const char *words)
{
    struct sim_redis_conn *conn = sim_redis_accept(servers[0]);
    sim_redis_input(conn, bytes_str(words));
    assert_int_not_equal(sim_redis_output(conn)->at[0], '-');
    sim_redis_hang_up(conn);
}

static void start_one(void)
{
    add_address(7000);
    assert_int_equal(start(), OK);
    observe(&here);
}

static void start_two(void)
{
    add_address(7000);
    start_pair();
    observe(&there);
    change_daemon();
    observe(&here);
    turns_of_both(2 * SECOND_US);
}

static void end_two(void)
{
    change_daemon();
    stop_pair();
}

/* Versions of settings that are gone may differ: who never knew them was not told. */
static void both_know_the_same(void)
{
    for (unsigned i = 0; i < TOPICS_MAX; i++) {
        assert_string_equal(there.topics[i].text, here.topics[i].text);
        if (here.topics[i].text[0])
            assert_int_equal(there.topics[i].version, here.topics[i].version);
    }
}

/* ---- tests ---- */

static void who_sets_is_told_with_the_answer_and_others_within_a_heartbeat(void **state)
{
    (void)state;
    start_two();
    uint64_t version = set("t1", "one");
    assert_string_equal(here.topics[1].text, "one");
    assert_int_equal(here.topics[1].version, version);
    turns_of_both(HEARD_US);
    assert_string_equal(there.topics[1].text, "one");
    assert_int_equal(there.topics[1].version, version);
    assert_int_equal(here.calls, 1);

    change_daemon();
    uint64_t next = set("t1", "two");
    assert_true(next > version);
    assert_string_equal(there.topics[1].text, "two");
    assert_int_equal(set("t1", ""), 0);
    assert_string_equal(there.topics[1].text, "");
    change_daemon();
    turns_of_both(HEARD_US);
    assert_string_equal(here.topics[1].text, "");
    assert_true(here.topics[1].version > next);
    unsigned calls = here.calls + there.calls;
    turns_of_both(3 * SECOND_US);
    assert_int_equal(here.calls + there.calls, calls);
    end_two();
}

static void settings_are_changed_only_if_they_have_the_version_that_is_given(void **state)
{
    (void)state;
    start_one();
    struct cmd cmd = configure("t1", "one");
    cmd.topic.if_version = true;
    cmd.topic.version = 7;
    assert_int_equal(submit(&cmd).err, ERR_VERSION);
    cmd.topic.version = 0;
    struct setter first = submit(&cmd);
    assert_int_equal(first.err, OK);
    struct setter again = submit(&cmd);
    assert_int_equal(again.err, ERR_VERSION);
    assert_int_equal(again.version, first.version);
    cmd.topic.version = UINT64_MAX;
    assert_int_equal(submit(&cmd).err, ERR_VERSION);
    cmd.topic.version = first.version;
    cmd.topic.settings = BYTES("");
    assert_int_equal(submit(&cmd).err, OK);
    assert_string_equal(here.topics[1].text, "");
    cmd = configure("", "no topic");
    assert_int_equal(submit(&cmd).err, ERR_INVALID);
}

static void all_settings_are_known_before_the_engine_serves(void **state)
{
    (void)state;
    options.topics_max = TOPICS_MAX;
    start_one();
    set_many(0, 700, "all");
    stop();
    assert_int_equal(start(), OK);
    observe(&here);
    assert_int_equal(here.calls, 700);
    assert_string_equal(here.topics[699].text, "all");
}

static void a_daemon_that_was_cut_off_catches_up(void **state)
{
    (void)state;
    options.topics_max = TOPICS_MAX;
    start_two();
    set_many(0, 30, "old");
    turns_of_both(HEARD_US);
    for (unsigned count = 20; count < 1000; count += 700) { /* some, and more than are listed */
        sim_network_cut(network, 1, 0, SIM_CUT_ALL);
        set_many(10, 10 + count, "new");
        (void)set("t1", "");
        turns_of_both(3 * SECOND_US);
        sim_network_cut(network, 1, 0, SIM_WHOLE);
        turns_of_both(5 * SECOND_US);
        assert_string_equal(there.topics[0].text, "old");
        assert_string_equal(there.topics[1].text, "");
        for (unsigned i = 10; i < 10 + count; i++)
            assert_string_equal(there.topics[i].text, "new");
        both_know_the_same();
        set_many(0, 800, "old");
        turns_of_both(2 * SECOND_US);
    }
    end_two();
}

/* Others have removed the settings since: all are being read, and no page has them. */
static void an_older_change_of_ours_that_is_answered_late_is_not_kept(void **state)
{
    (void)state;
    start_one();
    uint64_t version = set("t1", "one");
    (void)set("t1", "");
    settings_sync_opened(&engine->settings);
    for (int i = 0; i < 5000 && !engine->settings.walks; i++)
        turn();
    assert_true(engine->settings.walks);
    settings_sync_changed(&engine->settings, BYTES("t1"), version, BYTES("one"), false);
    assert_string_equal(here.topics[1].text, "one");
    turns(2 * SECOND_US);
    assert_false(engine->settings.walks);
    assert_string_equal(here.topics[1].text, "");
    stop();
}

static void changes_that_are_not_listed_any_more_are_found_by_going_through_all(void **state)
{
    (void)state;
    options.topics_max = TOPICS_MAX;
    start_two();
    for (int i = 0; i < 2; i++) {
        uint64_t pages = other_engine->settings.pages;
        set_many(0, 600, i ? "two" : "one"); /* while the other one has no turn */
        (void)set("t3", "");
        turns_of_both(HEARD_US + 200 * MS);
        both_know_the_same();
        assert_string_equal(there.topics[599].text, i ? "two" : "one");
        assert_in_range(other_engine->settings.pages - pages, 600 / 40, 600);
    }
    end_two();
}

static enum err health(void)
{
    struct engine *port = redis_engine_port(engine);
    return port->verbs->health(port);
}

/* Three sentinels, a master and its replica. */
static void start_behind_sentinels(void)
{
    options.url.topology = REDIS_SENTINEL;
    (void)snprintf(options.url.service, sizeof(options.url.service), "jobs");
    for (uint16_t i = 0; i < SENTINELS; i++)
        add_address((uint16_t)(7100 + i));
    sim_redis_follow(servers[1], servers[0]);
    options.topics_max = TOPICS_MAX;
    assert_int_equal(start(), OK);
    observe(&here);
}

static void replica_takes_over(void)
{
    sim_redis_catch_up(servers[1]);
    sim_redis_follow(servers[1], NULL);
    sim_redis_follow(servers[0], servers[1]);
    for (unsigned i = 0; i < SENTINELS; i++)
        sim_redis_name_master(sentinels[i], servers[1], true);
    sim_network_down(network, 0, true);
}

/* A cursor of HSCAN is good at the server that gave it: at another it leaves out topics, whose
   settings would be taken away until all are read once more. */
static void no_settings_are_taken_away_when_a_replica_takes_over_while_all_are_read(void **state)
{
    (void)state;
    start_behind_sentinels();
    set_many(0, 200, "one");
    unsigned calls = here.calls;
    partition_init_again(&engine->partition_init, 0);
    while (!engine->settings.walks || engine->settings.from.len < 2)
        turn();
    replica_takes_over();
    turns(5 * SECOND_US);
    assert_int_equal(health(), OK);
    assert_false(engine->settings.walks);
    assert_int_equal(here.calls, calls);
    for (unsigned i = 0; i < 200; i++)
        assert_string_equal(here.topics[i].text, "one");
}

/* How many keys of the slot the server has. */
static unsigned keys_of(const struct sim_redis *server, unsigned slot)
{
    unsigned count = 0;
    for (size_t i = 0; i < server->keys.count; i++)
        count += sim_cluster_slot(server->keys.values[i]->name) == slot;
    return count;
}

/* All keys are at another node then, but the slot is not, so each request is redirected. That node
   reads keys in another order, so the cursor is not valid there. */
static void move_all_keys(struct sim_cluster *cluster, unsigned slot)
{
    unsigned from = cluster->owner[slot], to = from ? from - 1 : 1;
    assert_int_not_equal(servers[from]->keys.scan_order, servers[to]->keys.scan_order);
    sim_cluster_begin_move(cluster, slot, to);
    while (keys_of(servers[from], slot) > 0)
        assert_true(sim_cluster_move_key(cluster, slot));
}

/* The partition is not opened again for that. */
static void no_settings_are_taken_away_when_a_slot_moves_while_all_are_read(void **state)
{
    static struct sim_cluster cluster;
    (void)state;
    options.url.topology = REDIS_CLUSTER;
    options.topics_max = TOPICS_MAX;
    sim_cluster_init(&cluster, servers, MASTERS, MASTERS, 1);
    start_one();
    set_many(0, 200, "one");
    unsigned calls = here.calls;
    partition_init_again(&engine->partition_init, 0);
    while (!engine->settings.walks || engine->settings.from.len < 2)
        turn();
    move_all_keys(&cluster, sim_cluster_slot(BYTES("{q:0}:s")));
    while (engine->settings.walks)
        turn();
    assert_int_equal(here.calls, calls);
    turns(2 * SECOND_US);
    assert_int_equal(here.calls, calls);
}

/* The key alone; while there are none again the engine says that it is unfit. */
static void settings_that_were_lost_are_taken_away_and_later_ones_are_newer(void **state)
{
    (void)state;
    start_two();
    uint64_t version = set("t1", "one");
    turns_of_both(HEARD_US);
    redis_does("*2\r\n$3\r\nDEL\r\n$7\r\n{q:0}:s\r\n");
    turns_of_both(HEARD_US + 200 * MS);
    assert_string_equal(here.topics[1].text, "");
    assert_string_equal(there.topics[1].text, "");
    assert_true(engine->settings.lost && other_engine->settings.lost);
    assert_int_equal(health(), ERR_AGAIN);
    turns_of_both(3 * SECOND_US);
    assert_int_equal(health(), ERR_AGAIN);
    assert_true(set("t1", "two") > version);
    for (int i = 0; i < 9; i++)
        (void)set("t2", i % 2 ? "a" : "b");
    turns_of_both(HEARD_US);
    assert_string_equal(there.topics[1].text, "two");
    assert_string_equal(there.topics[2].text, "b");
    assert_false(engine->settings.lost || other_engine->settings.lost);
    assert_int_equal(health(), OK);
    end_two();
}

/* No heartbeat has told of a change yet: what we know of the key is that we have written it. */
static void settings_that_are_lost_before_a_heartbeat_tells_of_them_are_missed(void **state)
{
    (void)state;
    start_one();
    turns(SECOND_US);
    uint64_t heartbeats = engine->members.heartbeats;
    while (engine->members.heartbeats == heartbeats)
        turn();
    heartbeats = engine->members.heartbeats;
    (void)set("t1", "one");
    redis_does("*2\r\n$3\r\nDEL\r\n$7\r\n{q:0}:s\r\n");
    assert_int_equal(engine->members.heartbeats, heartbeats);
    assert_int_equal(engine->settings.changes, 0);
    turns(HEARD_US);
    assert_string_equal(here.topics[1].text, "");
    assert_true(engine->settings.lost);
    assert_int_equal(health(), ERR_AGAIN);
    (void)set("t1", "two");
    turns(HEARD_US);
    assert_int_equal(health(), OK);
}

/* How many topics lose their settings is decided by who deletes the key: a turn takes a share. */
static void lost_settings_of_many_topics_are_taken_away_in_slices(void **state)
{
    enum { MANY = 1800, SLICE_MOST = 500 };
    unsigned slices = 0;
    (void)state;
    options.topics_max = TOPICS_MAX;
    start_one();
    set_many(0, MANY, "one");
    redis_does("*2\r\n$3\r\nDEL\r\n$7\r\n{q:0}:s\r\n");
    unsigned begun = here.calls;
    for (int i = 0; i < 3000 && here.calls - begun < MANY; i++) {
        unsigned before = here.calls;
        assert_false(before > begun && settings_sync_is_whole(&engine->settings));
        turn();
        assert_in_range(here.calls - before, 0, SLICE_MOST);
        slices += here.calls > before;
    }
    assert_in_range(slices, MANY / SLICE_MOST, MANY / SLICE_MOST + 1);
    turns(3 * MS);
    assert_true(settings_sync_is_whole(&engine->settings));
    assert_string_equal(here.topics[0].text, "");
    assert_string_equal(here.topics[MANY - 1].text, "");
    (void)set("t7", "two");
    assert_string_equal(here.topics[7].text, "two");
    stop();
}

/* A place in memory that a topic has left is nobody's: reading all again must not take it for one.
 */
static void all_settings_are_read_again_after_some_were_removed(void **state)
{
    (void)state;
    start_one();
    set_many(0, 3, "one");
    (void)set("t0", "");
    turns(2 * HEARD_US);
    redis_does("*2\r\n$3\r\nDEL\r\n$7\r\n{q:0}:s\r\n");
    for (int k = 0; k < 3000 && here.calls < 6; k++)
        turn();
    turns(3 * MS);
    assert_true(settings_sync_is_whole(&engine->settings));
    assert_int_equal(here.calls, 3 + 1 + 2);
    (void)set("t1", "two");
    assert_string_equal(here.topics[1].text, "two");
    stop();
}

/* The master comes back with what it had: versions and counts are lower than what was told. */
static void settings_of_a_redis_that_was_restored_are_told_again(void **state)
{
    (void)state;
    start_two();
    (void)set("t1", "one");
    (void)set("t2", "one");
    turns_of_both(HEARD_US);
    redis_does("*3\r\n$6\r\nRENAME\r\n$7\r\n{q:0}:s\r\n$4\r\nsave\r\n");
    turns_of_both(HEARD_US + 200 * MS);
    (void)set("t1", "two");
    (void)set("t3", "two");
    turns_of_both(HEARD_US);
    assert_string_equal(there.topics[2].text, "");
    assert_string_equal(there.topics[3].text, "two");
    redis_does("*2\r\n$3\r\nDEL\r\n$7\r\n{q:0}:s\r\n");
    redis_does("*3\r\n$6\r\nRENAME\r\n$4\r\nsave\r\n$7\r\n{q:0}:s\r\n");
    turns_of_both(HEARD_US + 200 * MS);
    for (const struct told_settings *told = &here; told; told = told == &here ? &there : NULL) {
        assert_string_equal(told->topics[1].text, "one");
        assert_string_equal(told->topics[2].text, "one");
        assert_string_equal(told->topics[3].text, "");
    }
    end_two();
}

static void p5_a_change_whose_answer_is_lost_is_made_once(void **state)
{
    struct setter setter = {.ticket.answered = setter_answered};
    (void)state;
    start_one();
    (void)set("t1", "one");
    uint64_t changes = engine->settings.own;
    sim_network_cut(network, 0, 0, SIM_CUT_ANSWERS);
    struct cmd cmd = configure("t1", "two");
    cmd.topic.if_version = true;
    cmd.topic.version = here.topics[1].version;
    struct engine *port = redis_engine_port(engine);
    (void)port->verbs->submit(port, &cmd, &setter.ticket);
    turns(20 * MS);
    assert_int_equal(setter.answers, 0);
    sim_network_reset(network, 0, 0);
    sim_network_cut(network, 0, 0, SIM_WHOLE);
    turns(2 * SECOND_US);
    assert_int_equal(setter.answers, 1);
    assert_int_equal(setter.err, OK); /* not ERR_VERSION: it is the answer of the first time */
    assert_int_equal(here.topics[1].version, setter.version);
    assert_string_equal(here.topics[1].text, "two");
    assert_int_equal(engine->settings.own, changes + 1);
}

static void a_topic_with_settings_is_not_forgotten_for_another(void **state)
{
    (void)state;
    options.topics_max = 4;
    options.partitions = 1;
    start_one();
    set_many(0, 3, "kept");
    for (int i = 10; i < 16; i++) { /* each takes the place of the one before, which is empty */
        char name[16];
        (void)snprintf(name, sizeof(name), "t%d", i);
        struct cmd push = {.kind = CMD_PUSH,
                           .push = {.topic = bytes_str(name), .due_us = 1, .ttr_us = SECOND_US}};
        uint64_t seq = ask(&push, false).seq;
        struct cmd end = {.kind = CMD_DELETE, .job.ref.seq = seq};
        assert_int_equal(ask(&end, false).err, OK);
    }
    for (unsigned i = 0; i < 3; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "t%u", i);
        struct cmd look = {.kind = CMD_TOPIC, .topic.topic = bytes_str(name)};
        assert_int_equal(ask(&look, false).err, OK);
    }
    (void)set("t3", "the last");
    struct cmd more = configure("t4", "too many");
    assert_int_equal(submit(&more).err, ERR_TOPICS_LIMIT);
    (void)set("t3", "");
    assert_int_equal(submit(&more).err, OK);
}

static void a_topic_that_is_removed_loses_its_settings_whatever_it_holds(void **state)
{
    static const struct bytes topic = {"t1", 2};
    (void)state;
    start_two();
    (void)set("t1", "one");
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = topic, .due_us = 1, .ttr_us = SECOND_US}};
    uint64_t seq = ask(&push, false).seq;
    struct setter removed = remove_topic("t1");
    assert_int_equal(removed.err, OK);
    assert_true(removed.more);
    assert_string_equal(here.topics[1].text, ""); /* as the embedded engine does it */
    (void)set("t1", "two");
    struct cmd end = {.kind = CMD_DELETE, .job.ref.seq = seq};
    assert_int_equal(ask(&end, false).err, OK);
    removed = remove_topic("t1");
    assert_int_equal(removed.err, OK);
    assert_false(removed.more);
    assert_string_equal(here.topics[1].text, "");
    struct cmd look = {.kind = CMD_TOPIC, .topic.topic = topic};
    assert_int_equal(ask(&look, false).err, ERR_NOT_FOUND);
    assert_int_equal(remove_topic("t1").err, ERR_NOT_FOUND);
    turns_of_both(HEARD_US);
    assert_string_equal(there.topics[1].text, "");
    end_two();
}

static uint64_t sent_while_idle(void)
{
    uint64_t sent;
    turns(5 * SECOND_US);
    sent = scripts_sent();
    turns(10 * SECOND_US);
    return scripts_sent() - sent;
}

static void an_idle_daemon_with_settings_sends_no_more_than_one_without(void **state)
{
    (void)state;
    start_one();
    uint64_t without = sent_while_idle();
    set_many(0, 9, "some");
    turns(2 * SECOND_US);
    uint64_t pages = engine->settings.pages;
    assert_in_range(sent_while_idle(), 9, without);
    assert_int_equal(engine->settings.pages, pages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            who_sets_is_told_with_the_answer_and_others_within_a_heartbeat, setup, teardown),
        cmocka_unit_test_setup_teardown(
            settings_are_changed_only_if_they_have_the_version_that_is_given, setup, teardown),
        cmocka_unit_test_setup_teardown(all_settings_are_known_before_the_engine_serves, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_daemon_that_was_cut_off_catches_up, setup, teardown),
        cmocka_unit_test_setup_teardown(an_older_change_of_ours_that_is_answered_late_is_not_kept,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            changes_that_are_not_listed_any_more_are_found_by_going_through_all, setup, teardown),
        cmocka_unit_test_setup_teardown(
            no_settings_are_taken_away_when_a_replica_takes_over_while_all_are_read, setup,
            teardown),
        cmocka_unit_test_setup_teardown(
            no_settings_are_taken_away_when_a_slot_moves_while_all_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(
            settings_that_were_lost_are_taken_away_and_later_ones_are_newer, setup, teardown),
        cmocka_unit_test_setup_teardown(
            settings_that_are_lost_before_a_heartbeat_tells_of_them_are_missed, setup, teardown),
        cmocka_unit_test_setup_teardown(lost_settings_of_many_topics_are_taken_away_in_slices,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(all_settings_are_read_again_after_some_were_removed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(settings_of_a_redis_that_was_restored_are_told_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(p5_a_change_whose_answer_is_lost_is_made_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_topic_with_settings_is_not_forgotten_for_another, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_topic_that_is_removed_loses_its_settings_whatever_it_holds, setup, teardown),
        cmocka_unit_test_setup_teardown(an_idle_daemon_with_settings_sends_no_more_than_one_without,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
