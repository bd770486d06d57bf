/*
 * What heals by itself, and how soon: clusters whose nodes lose each other, notices that nobody
 * hears, daemons that end. Time is simulated: what is waited for takes none.
 */
#include "base/hash.h"
#include "engine/redis/clock_sync.h"
#include "redis_bed.h"

static struct sim_cluster cluster;

/* Three masters and a replica of each. */
static void in_a_cluster(void)
{
    options.url.topology = REDIS_CLUSTER;
    options.partitions = 16;
    for (uint16_t i = 0; i < MASTERS; i++)
        add_address((uint16_t)(7000 + i));
    sim_cluster_init(&cluster, servers, SERVERS, MASTERS, 1);
    for (unsigned i = 0; i < MASTERS; i++)
        sim_redis_follow(servers[MASTERS + i], servers[i]);
}

/* The partition's node, by its port; 0: none that takes commands. */
static unsigned port_of(uint32_t partition)
{
    const struct node *node = script_requests_node(&engine->calls, partition);
    return node ? node->link.address.port : 0;
}

static uint32_t partition_at(unsigned port)
{
    uint32_t partition = 0;
    while (port_of(partition) != port)
        partition++;
    return partition;
}

/* A push to this partition, by an id of its own. */
static enum err push_to(uint32_t partition)
{
    static unsigned last;
    char id[16];
    uint32_t found;
    enum err err;
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = BYTES("t"), .due_us = 1, .ttr_us = 1}};
    do {
        int len = snprintf(id, sizeof(id), "%u", ++last);
        push.push.id = bytes_of(id, (size_t)len);
    } while (script_route(&engine->space, &push, &found, &err) != SCRIPT_ONE || found != partition);
    struct engine *port = redis_engine_port(engine);
    struct client client = {.ticket.answered = client_answered};
    (void)port->verbs->submit(port, &push, &client.ticket); /* the client is told */
    while (!client.answers)
        turn();
    return client.err;
}

/* The bus loses a master that clients reach; after 3.6 s its replica takes over. */
static void a_master_cut_off_on_the_bus_is_left_when_its_replica_takes_over(void **state)
{
    (void)state;
    in_a_cluster();
    assert_int_equal(start(), OK);
    uint32_t partition = partition_at(7001);
    assert_int_equal(push_to(partition), OK);
    sim_cluster_cut_off(&cluster, 1, true);
    assert_int_equal(push_to(partition), ERR_AGAIN);
    turns(1600 * MS);
    sim_cluster_take_over(&cluster, servers[4], servers[1]);
    int64_t healed_us = now_us;
    while (push_to(partition) != OK)
        assert_true(now_us - healed_us < 2 * SECOND_US);
    assert_true(now_us - healed_us < 2 * SECOND_US);
    assert_int_equal(port_of(partition), 7004);
    sim_cluster_cut_off(&cluster, 1, false);
    turns(SECOND_US);
    assert_int_equal(push_to(partition), OK);
}

/* Nobody says anything there: it neither refuses nor ends. */
static void a_master_that_hangs_is_left_when_its_replica_takes_over(void **state)
{
    (void)state;
    in_a_cluster();
    assert_int_equal(start(), OK);
    uint32_t partition = partition_at(7002);
    sim_network_cut(network, 0, 2, SIM_CUT_ALL);
    sim_cluster_cut_off(&cluster, 2, true);
    assert_int_equal(push_to(partition), ERR_AGAIN);
    turns(7 * SECOND_US);
    for (int64_t asked_us = engine->topology.requested_us;
         engine->topology.requested_us == asked_us;)
        turn();
    turns(50 * MS); /* the worst moment: the answer was still the old map */
    sim_cluster_take_over(&cluster, servers[5], servers[2]);
    int64_t healed_us = now_us;
    while (port_of(partition) != 7005) {
        assert_true(now_us - healed_us < 2 * SECOND_US);
        turn();
    }
    assert_int_equal(push_to(partition), OK);
    sim_cluster_cut_off(&cluster, 2, false);
}

/* As if all others had said CLUSTERDOWN: this one is asked next. */
static void prefer(unsigned port)
{
    struct topology *topology = &engine->topology;
    for (unsigned i = 0; i < topology->node_count; i++) {
        if (topology->nodes[i].link.address.port == port)
            topology->questions[i].suspect_us = 0;
        else
            topology_suspect(topology, &topology->nodes[i]);
    }
}

/* The one that was cut off has the map of before; it must not bring that back. */
static void an_older_map_does_not_replace_a_newer_one(void **state)
{
    (void)state;
    in_a_cluster();
    assert_int_equal(start(), OK);
    uint32_t partition = partition_at(7001), other = partition_at(7000);
    sim_cluster_cut_off(&cluster, 0, true);
    sim_cluster_take_over(&cluster, servers[4], servers[1]);
    (void)push_to(other); /* refused there */
    assert_int_equal(port_of(partition), 7004);
    for (int i = 0; i < 50; i++) {
        prefer(7000);
        turns(100 * MS);
        assert_int_equal(port_of(partition), 7004);
    }
    sim_cluster_cut_off(&cluster, 0, false);
}

static unsigned maps_asked(int64_t for_us)
{
    unsigned count = 0;
    for (int64_t until_us = now_us + for_us; now_us < until_us;) {
        int64_t before_us = engine->topology.requested_us;
        turn();
        count += engine->topology.requested_us != before_us;
    }
    return count;
}

/* Ten a second at first, and one a second in the long run; none when all is well. */
static void a_cluster_that_is_down_is_asked_with_measure(void **state)
{
    (void)state;
    in_a_cluster();
    assert_int_equal(start(), OK);
    turns(SECOND_US);
    assert_int_equal(maps_asked(5 * SECOND_US), 0);
    cluster.down = true;
    assert_int_not_equal(maps_asked(SECOND_US + 300 * MS), 0);
    unsigned first = maps_asked(SECOND_US);
    assert_true(first > 1 && first <= 10);
    turns(10 * SECOND_US);
    assert_true(maps_asked(10 * SECOND_US) <= 11);
    cluster.down = false;
    turns(5 * SECOND_US);
    assert_int_equal(maps_asked(5 * SECOND_US), 0);
    assert_int_equal(push_to(0), OK);
}

/* ---- a sorted set that is lost ---- */

enum { LOST_JOBS = 300 };

static struct value *set_of(struct sim_redis *server, uint32_t partition, char which)
{
    char tag[SCRIPT_PREFIX_MAX + 16], name[SCRIPT_PREFIX_MAX + 20];
    struct bytes at = script_tag(&engine->space, partition, tag);
    int len = snprintf(name, sizeof(name), "%.*s:%c", (int)at.len, at.at, which);
    return keyspace_find(&server->keys, 0, bytes_of(name, (size_t)len));
}

/* Its jobs that wait or are ready, with some members more. */
static size_t members_of(struct sim_redis *server, uint32_t partition)
{
    return set_of(server, partition, 'o')->count + set_of(server, partition, 'd')->count;
}

/* A cursor of HSCAN is good at the server that gave it: at another it would leave out jobs. */
static void p2_a_set_is_put_back_from_the_start_when_a_replica_takes_over(void **state)
{
    (void)state;
    in_a_cluster();
    assert_int_equal(start(), OK);
    uint32_t partition = partition_at(7000);
    for (int i = 0; i < LOST_JOBS; i++)
        assert_int_equal(push_to(partition), OK);
    turns(SECOND_US);
    size_t before = members_of(servers[0], partition);
    assert_true(before > LOST_JOBS);
    sim_redis_catch_up(servers[3]);
    keyspace_drop(&servers[0]->keys, set_of(servers[0], partition, 'o'));
    keyspace_drop(&servers[3]->keys, set_of(servers[3], partition, 'o'));
    partition_init_rebuild(&engine->partition_init, partition);
    turns(5 * MS);
    assert_string_not_equal(engine->partition_init.openings[partition].from, "0");
    sim_cluster_take_over(&cluster, servers[3], servers[0]);
    while (engine->partition_init.rebuilding || port_of(partition) != 7003)
        turn();
    turns(3 * SECOND_US);
    assert_int_equal(members_of(servers[3], partition), before);
}

/* A replica takes over, whose clock is off by so much: a job that was pushed before is due when it
   was to be. */
static void p3_a_failover_to_another_clock_makes_no_job_early_or_late(void **state)
{
    static struct client taker, pusher;
    (void)state;
    in_a_cluster();
    for (int i = 0; i < SERVERS; i++)
        sim_redis_settings(servers[i])->ahead_us = i < MASTERS ? 2 * SECOND_US : -5 * SECOND_US;
    assert_int_equal(start(), OK);
    turns(3 * SECOND_US);
    int64_t due_us = now_us + 10 * SECOND_US;
    a_job_for_who_waits(&taker, &pusher, due_us);
    turns(SECOND_US);
    for (int i = 0; i < MASTERS; i++) {
        sim_redis_catch_up(servers[MASTERS + i]);
        sim_cluster_take_over(&cluster, servers[MASTERS + i], servers[i]);
    }
    turns(due_us - now_us - 10 * MS);
    assert_int_equal(taker.answers, 0);
    turns(200 * MS);
    assert_int_equal(taker.count, 1);
}

/* It was taken for dead, and the clock of one server has leapt meanwhile. Those of the others tell
   that its own did not stand still. */
static void p4_a_daemon_that_froze_does_not_believe_one_clock_against_the_others(void **state)
{
    (void)state;
    in_a_cluster();
    assert_int_equal(start(), OK);
    turns(3 * SECOND_US);
    uint32_t leapt = partition_at(port_of(0) == 7000 ? 7001 : 7000);
    sim_redis_settings(servers[port_of(leapt) - 7000])->ahead_us += 3600 * INT64_C(1000000);
    for (uint32_t i = 0; i < options.partitions; i++) {
        clock_sync_forgotten(&engine->calls, i);
        partition_init_again(&engine->partition_init, i);
    }
    turns(4500 * MS);
    const struct queue_clock *clock = &engine->calls.partitions[leapt].clock;
    assert_true(clock->most_us < SECOND_US && clock->least_us > -SECOND_US);
    assert_int_equal(clock->set_count, 1);
}

/* ---- notices ---- */

enum { TOPICS = 12 };

static const struct bytes topics[TOPICS] = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1},
                                            {"e", 1}, {"f", 1}, {"g", 1}, {"h", 1},
                                            {"i", 1}, {"j", 1}, {"k", 1}, {"l", 1}};

/* One who waits for each topic. */
static void park(struct client *takers)
{
    struct engine *port = redis_engine_port(engine);
    for (unsigned i = 0; i < TOPICS; i++) {
        struct cmd take = {.kind = CMD_RESERVE,
                           .reserve = {.topics = &topics[i],
                                       .topic_count = 1,
                                       .max = 1,
                                       .wait_us = 60 * INT64_C(1000000)}};
        takers[i] = (struct client){.ticket.answered = client_answered};
        (void)port->verbs->submit(port, &take, &takers[i].ticket); /* the client is told */
    }
}

/* As a daemon that is none of these would: nobody here sees an answer. */
static void push_to_all_topics(int64_t due_us)
{
    static uint64_t number;
    struct script_space foreign = engine->space;
    memcpy(foreign.daemon, "foreign!", SCRIPT_NAME);
    for (unsigned i = 0; i < TOPICS; i++) {
        struct script_call call = {.number = ++number, .now_us = now_us};
        struct cmd push = {
            .kind = CMD_PUSH,
            .push = {.topic = topics[i], .due_us = due_us, .ttr_us = 60 * INT64_C(1000000)}};
        char tag[16];
        struct buf request = {0};
        call.partition = (uint32_t)(hash_of(topics[i].at, topics[i].len) % options.partitions);
        int len = snprintf(tag, sizeof(tag), "{q:%u}", call.partition);
        unsigned owner = cluster.owner[sim_cluster_slot(bytes_of(tag, (size_t)len))];
        struct sim_redis_conn *conn = sim_redis_accept(servers[owner]);
        script_encode(&request, &foreign, &call, &push);
        sim_redis_input(conn, buf_bytes(&request));
        assert_int_not_equal(sim_redis_output(conn)->at[0], '-');
        sim_redis_hang_up(conn);
        buf_fini(&request);
    }
}

static void park_in_a_cluster(struct client takers[TOPICS])
{
    in_a_cluster();
    options.waiters_max = options.topics_max = 100;
    assert_int_equal(start(), OK);
    park(takers);
    turns(2 * SECOND_US);
}

/* How many connections hear notices at each server. */
static void count_hearers(unsigned counts[SERVERS])
{
    for (unsigned i = 0; i < SERVERS; i++) {
        struct list *all = &servers[i]->conns;
        counts[i] = 0;
        for (struct list *at = all->next; at != all; at = at->next)
            counts[i] += LIST_ENTRY(at, struct sim_redis_conn, place)->channel_count > 0;
    }
}

/* The servers end all connections that hear notices but for the oldest ones, so many at each, and
 * let none come back. */
static void deafen_but(const unsigned oldest[SERVERS])
{
    for (unsigned i = 0; i < SERVERS; i++) {
        struct list *all = &servers[i]->conns;
        unsigned seen = 0;
        sim_redis_settings(servers[i])->denied = " ssubscribe ";
        for (struct list *at = all->next; at != all; at = at->next) {
            struct sim_redis_conn *conn = LIST_ENTRY(at, struct sim_redis_conn, place);
            seen += conn->channel_count > 0;
            conn->closed = conn->closed || (conn->channel_count && seen > oldest[i]);
        }
    }
}

static void deafen(void)
{
    static const unsigned none[SERVERS];
    deafen_but(none);
}

/* Notices alone tell the promoter when to look, and those who wait that something was pushed. */
static void p2_jobs_are_found_within_a_second_though_no_notice_is_heard(void **state)
{
    static struct client takers[TOPICS];
    (void)state;
    park_in_a_cluster(takers);
    deafen();
    turns(100 * MS);
    assert_false(subscription_is_complete(&engine->subscription));
    push_to_all_topics(now_us + 300 * MS);
    turns(290 * MS);
    for (unsigned i = 0; i < TOPICS; i++)
        assert_int_equal(takers[i].answers, 0);
    turns(1810 * MS);
    for (unsigned i = 0; i < TOPICS; i++)
        assert_int_equal(takers[i].count, 1);
    for (unsigned i = 0; i < SERVERS; i++)
        sim_redis_settings(servers[i])->denied = NULL;
    turns(4 * SECOND_US);
    assert_true(subscription_is_complete(&engine->subscription));
}

/* All else works then, only later: without a line in the log nobody would know why. */
static void a_server_that_tells_nothing_is_logged(void **state)
{
    (void)state;
    in_a_cluster();
    assert_int_equal(start(), OK);
    struct listener *listener = &engine->subscription.listeners[0];
    deafen();
    turns(100 * MS);
    assert_true(listener->deaf_logged); /* a right that was taken does not come back by itself */
    for (unsigned i = 0; i < SERVERS; i++)
        sim_redis_settings(servers[i])->denied = NULL;
    turns(4 * SECOND_US);
    assert_true(subscription_is_complete(&engine->subscription));
    assert_false(listener->deaf_logged);
    sim_redis_settings(servers[0])->unknown = " ssubscribe subscribe ";
    link_fail(&listener->link, "its connection was reset");
    turns(4 * SECOND_US);
    assert_false(listener->deaf_logged);
    turns(3 * SECOND_US);
    assert_true(listener->deaf_logged);
    sim_redis_settings(servers[0])->unknown = NULL;
    link_fail(&listener->link, "its connection was reset");
    turns(2 * SECOND_US);
    assert_false(listener->deaf_logged);
}

/* One that says "not now" has that logged, and nothing else. */
static void a_server_that_is_busy_is_not_logged_as_one_that_tells_nothing(void **state)
{
    (void)state;
    in_a_cluster();
    assert_int_equal(start(), OK);
    unsigned at = port_of(0) == 7001 ? 2 : 1; /* heartbeats go on */
    uint32_t partition = partition_at(7000 + at);
    const struct node *node = script_requests_node(&engine->calls, partition);
    const struct listener *listener =
        &engine->subscription.listeners[node - engine->topology.nodes];
    sim_redis_settings(servers[at])->busy = true;
    turns(9 * SECOND_US);
    assert_true(node->ready && !subscription_is_complete(&engine->subscription));
    assert_false(listener->deaf_logged);
}

/* Each server tells its partitions' notices itself; and whoever waits alone need not look. */
static void p2_jobs_are_found_at_once_though_no_message_goes_from_node_to_node(void **state)
{
    static struct client takers[TOPICS];
    (void)state;
    park_in_a_cluster(takers);
    cluster.lost_per_mille = 1000;
    turns(5 * SECOND_US);
    uint64_t before = scripts_sent();
    turns(10 * SECOND_US);
    assert_in_range(scripts_sent() - before, 9, 11); /* heartbeats */
    push_to_all_topics(now_us + 300 * MS);
    turns(330 * MS);
    for (unsigned i = 0; i < TOPICS; i++)
        assert_int_equal(takers[i].count, 1);
    cluster.lost_per_mille = 0;
}

/* What the servers say to those who hear notices gets lost. */
static void lose_what_hearers_are_told(void)
{
    for (unsigned i = 0; i < SERVERS; i++) {
        struct list *all = &servers[i]->conns;
        for (struct list *at = all->next; at != all; at = at->next) {
            struct buf *out = sim_redis_output(LIST_ENTRY(at, struct sim_redis_conn, place));
            if (out->len && memmem(out->at, out->len, "sunsubscribe", 12))
                buf_drop(out, out->len);
        }
    }
}

static void move_all_slots(bool told)
{
    static struct client takers[TOPICS];
    char tag[16];
    park_in_a_cluster(takers);
    for (uint32_t partition = 0; partition < options.partitions; partition++) {
        int len = snprintf(tag, sizeof(tag), "{q:%u}", partition);
        unsigned slot = sim_cluster_slot(bytes_of(tag, (size_t)len));
        sim_cluster_begin_move(&cluster, slot, (cluster.owner[slot] + 1u) % MASTERS);
        while (sim_cluster_move_key(&cluster, slot))
            continue;
    }
    if (!told)
        lose_what_hearers_are_told();
    /* Nobody asks for anything there but the heartbeat. */
    turns(told ? 200 * MS : SECOND_US);
    assert_true(subscription_is_complete(&engine->subscription));
    push_to_all_topics(1);
    turns(20 * MS);
    for (unsigned i = 0; i < TOPICS; i++)
        assert_int_equal(takers[i].count, 1);
}

static void a_slot_is_heard_where_it_moves(void **state)
{
    (void)state;
    move_all_slots(true);
}

/* The map tells it, too: before Redis 7 nobody is told that a channel has left. */
static void a_slot_is_heard_where_it_moves_though_its_server_says_nothing(void **state)
{
    (void)state;
    move_all_slots(false);
}

/* The server answers commands, but what it sends to who hears notices gets lost. */
static void p2_a_connection_on_which_nothing_comes_any_more_is_made_again(void **state)
{
    static struct client takers[TOPICS];
    (void)state;
    park_in_a_cluster(takers);
    for (unsigned i = 0; i < SERVERS; i++) {
        struct list *all = &servers[i]->conns;
        for (struct list *at = all->next; at != all; at = at->next) {
            struct sim_redis_conn *conn = LIST_ENTRY(at, struct sim_redis_conn, place);
            if (conn->channel_count) {
                sim_redis_unsubscribe(conn);
                conn->blocked = true; /* as if it waited for replicas, without end */
                conn->wanted = conn->until_us = INT64_MAX;
            }
        }
    }
    turns(3 * SECOND_US);
    push_to_all_topics(1);
    turns(20 * MS);
    for (unsigned i = 0; i < TOPICS; i++)
        assert_int_equal(takers[i].count, 1);
}

static void start_two(void)
{
    in_a_cluster();
    options.waiters_max = options.topics_max = 100;
    start_pair();
    turns_of_both(3 * SECOND_US);
}

/* One daemon's jobs are made ready by the other, who must look for itself; then so must the first,
 * for whom they are. */
static void p2_two_daemons_find_their_jobs_though_no_notice_is_heard(void **state)
{
    static struct client takers[TOPICS];
    (void)state;
    start_two();
    park(takers);
    turns_of_both(SECOND_US);
    deafen();
    push_to_all_topics(now_us + 300 * MS);
    turns_of_both(2600 * MS);
    for (unsigned i = 0; i < TOPICS; i++)
        assert_int_equal(takers[i].count, 1);
    for (unsigned i = 0; i < SERVERS; i++)
        sim_redis_settings(servers[i])->denied = NULL;
    stop_pair();
}

/* The consumers are of a daemon that hears all; the other one, which hears nothing, makes half of
 * their jobs ready, and has no consumer for whom it would look. */
static void p2_a_daemon_that_hears_nothing_looks_for_what_is_due(void **state)
{
    static struct client takers[TOPICS];
    unsigned first[SERVERS];
    (void)state;
    in_a_cluster();
    options.waiters_max = options.topics_max = 100;
    assert_int_equal(start(), OK);
    turns(SECOND_US);
    count_hearers(first);
    start_second();
    turns_of_both(3 * SECOND_US);
    deafen_but(first);
    change_daemon();
    park(takers);
    turns_of_both(5 * SECOND_US);
    push_to_all_topics(now_us + 300 * MS);
    turns_of_both(1400 * MS);
    for (unsigned i = 0; i < TOPICS; i++)
        assert_int_equal(takers[i].count, 1);
    change_daemon();
    for (unsigned i = 0; i < SERVERS; i++)
        sim_redis_settings(servers[i])->denied = NULL;
    stop_pair();
}

/* Both wait for all topics, and the one that waits longer, so that it is told, does nothing. */
static void p2_who_waits_behind_a_daemon_that_is_told_and_hangs_looks_within_a_second(void **state)
{
    static struct client takers[TOPICS], hung[TOPICS];
    (void)state;
    start_two();
    push_to_all_topics(1);
    park(takers); /* they take the first ones: the topics are there */
    turns_of_both(100 * MS);
    change_daemon();
    park(hung);
    turns_of_both(100 * MS);
    change_daemon();
    park(takers);
    turns_of_both(100 * MS);
    push_to_all_topics(1);
    turns(1200 * MS); /* of the second one alone */
    for (unsigned i = 0; i < TOPICS; i++)
        assert_int_equal(takers[i].count, 1);
    stop_pair();
}

/* Nobody is there any more for whom the daemon that is told had waited: it is told by a notice, or,
 * of the half of the jobs that it makes ready itself, by its own promote. */
static void tell_in_vain(int64_t delay_us)
{
    static struct client takers[TOPICS], leavers[TOPICS];
    start_two();
    push_to_all_topics(1);
    park(takers);
    turns_of_both(100 * MS);
    change_daemon();
    park(leavers);
    turns_of_both(100 * MS);
    for (unsigned i = 0; i < TOPICS; i++)
        redis_engine_port(engine)->verbs->cancel(redis_engine_port(engine), &leavers[i].ticket);
    change_daemon();
    park(takers);
    turns_of_both(100 * MS);
    push_to_all_topics(delay_us ? now_us + delay_us : 1);
    turns_of_both(delay_us + 20 * MS);
    for (unsigned i = 0; i < TOPICS; i++)
        assert_int_equal(takers[i].count, 1);
    stop_pair();
}

static void p2_a_job_of_which_a_daemon_was_told_in_vain_is_the_next_ones_at_once(void **state)
{
    (void)state;
    tell_in_vain(0);
}

static void p2_a_due_job_for_which_its_promoter_had_waited_is_the_next_ones_at_once(void **state)
{
    (void)state;
    tell_in_vain(100 * MS);
}

static uint32_t owned(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < options.partitions; i++)
        count += members_own(&engine->members, i);
    return count;
}

/* One of three ends without a word: of the others one had watched it, and both take over. */
static void a_daemon_that_is_killed_is_replaced_within_two_seconds(void **state)
{
    (void)state;
    start_two();
    struct redis_engine *own_engine = engine;
    struct loop *own_loop = options.loop,
                *third_loop = sim_network_start(network, 2, &clock_of_all);
    engine = NULL;
    options.loop = third_loop;
    assert_int_equal(start(), OK);
    struct redis_engine *third = engine;
    for (int i = 0; i < 3000; i++) {
        turn();
        engine = own_engine;
        options.loop = own_loop;
        turns_of_both(1);
        engine = third;
        options.loop = third_loop;
    }
    uint32_t shared = owned();
    redis_engine_free(third);
    sim_network_end(network, 2);
    engine = own_engine;
    options.loop = own_loop;
    turns_of_both(2 * SECOND_US);
    uint32_t both = owned();
    change_daemon();
    both += owned();
    assert_true(shared > 0 && shared < options.partitions);
    assert_int_equal(both, options.partitions);
    change_daemon();
    stop_pair();
}

/* What is refused at once is asked again after a while, not at once. */
static void who_waits_does_not_ask_a_cluster_that_refuses_without_pause(void **state)
{
    static struct client takers[TOPICS];
    (void)state;
    park_in_a_cluster(takers);
    for (unsigned i = 0; i < SERVERS; i++)
        sim_redis_settings(servers[i])->denied = " evalsha ";
    turns(SECOND_US);
    uint64_t before = scripts_sent();
    turns(2 * SECOND_US);
    /* Each topic twice a second, promotes ten times, in each partition; heartbeats ten times. */
    assert_true(scripts_sent() - before <= 2 * ((TOPICS * 2 + 10) * options.partitions + 10));
}

/* How many groups one turn has to look at, at most, in a second. */
static uint32_t most_groups_of_a_turn(void)
{
    struct engine *port = redis_engine_port(engine);
    const struct list *dirty = &engine->consumers.dirty;
    uint32_t most = 0;
    for (int64_t until_us = now_us + SECOND_US; now_us < until_us; pass(MS)) {
        (void)loop_update_time(options.loop);
        (void)options.loop->verbs->gather(options.loop, NULL);
        port->verbs->match(port); /* for what was answered */
        (void)loop_expire(options.loop, NULL);
        uint32_t count = 0;
        for (const struct list *at = dirty->next; at != dirty; at = at->next)
            count++;
        most = count > most ? count : most;
        port->verbs->match(port);
        (void)port->verbs->end(port);
    }
    return most;
}

/* Each of them doubts what it believes, and looks; but a turn has to end. */
static void who_waits_for_very_many_topics_looks_at_some_in_each_turn(void **state)
{
    enum { MANY = 1000 };
    static struct client takers[MANY];
    static char names[MANY][8];
    (void)state;
    add_address(7000);
    options.partitions = 1;
    options.waiters_max = MANY;
    assert_int_equal(start(), OK);
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "t-%u", i);
        struct bytes name = bytes_str(names[i]);
        struct cmd take = {
            .kind = CMD_RESERVE,
            .reserve = {
                .topics = &name, .topic_count = 1, .max = 1, .wait_us = 60 * INT64_C(1000000)}};
        takers[i].ticket.answered = client_answered;
        (void)redis_engine_port(engine)->verbs->submit(redis_engine_port(engine), &take,
                                                       &takers[i].ticket); /* it waits */
    }
    turns(SECOND_US);
    deafen();
    turns(2 * SECOND_US);
    uint64_t before = scripts_sent();
    assert_in_range(most_groups_of_a_turn(), 1, 300);
    assert_true(scripts_sent() - before >= MANY);
}

/* Nobody waits, and no bus loses anything: a heartbeat, and no more. */
static enum err health(void)
{
    struct engine *port = redis_engine_port(engine);
    return port->verbs->health(port);
}

static void any_master_that_may_evict_makes_it_unfit_while_it_may(void **state)
{
    (void)state;
    in_a_cluster();
    assert_int_equal(start(), OK);
    turns(2 * SECOND_US);
    for (unsigned i = 0; i < MASTERS; i++) {
        assert_int_equal(health(), i == 0 ? OK : ERR_AGAIN);
        sim_redis_settings(servers[i])->evicts = true;
        turns(11 * SECOND_US);
        assert_int_equal(health(), ERR_AGAIN);
    }
    for (unsigned i = 0; i < MASTERS; i++) {
        assert_int_equal(health(), ERR_AGAIN);
        sim_redis_settings(servers[i])->evicts = false;
        turns(11 * SECOND_US);
    }
    assert_int_equal(health(), OK);
}

static void an_idle_daemon_sends_one_command_a_second(void **state)
{
    (void)state;
    add_address(7000);
    options.partitions = 16;
    assert_int_equal(start(), OK);
    turns(15 * SECOND_US);
    uint64_t before = scripts_sent();
    turns(10 * SECOND_US);
    assert_in_range(scripts_sent() - before, 9, 11);
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        STARTED(a_master_cut_off_on_the_bus_is_left_when_its_replica_takes_over),
        STARTED(a_master_that_hangs_is_left_when_its_replica_takes_over),
        STARTED(an_older_map_does_not_replace_a_newer_one),
        STARTED(a_cluster_that_is_down_is_asked_with_measure),
        STARTED(p2_a_set_is_put_back_from_the_start_when_a_replica_takes_over),
        STARTED(p3_a_failover_to_another_clock_makes_no_job_early_or_late),
        STARTED(p4_a_daemon_that_froze_does_not_believe_one_clock_against_the_others),
        STARTED(p2_jobs_are_found_within_a_second_though_no_notice_is_heard),
        STARTED(a_server_that_tells_nothing_is_logged),
        STARTED(a_server_that_is_busy_is_not_logged_as_one_that_tells_nothing),
        STARTED(p2_jobs_are_found_at_once_though_no_message_goes_from_node_to_node),
        STARTED(a_slot_is_heard_where_it_moves),
        STARTED(a_slot_is_heard_where_it_moves_though_its_server_says_nothing),
        STARTED(p2_a_connection_on_which_nothing_comes_any_more_is_made_again),
        STARTED(p2_two_daemons_find_their_jobs_though_no_notice_is_heard),
        STARTED(p2_a_daemon_that_hears_nothing_looks_for_what_is_due),
        STARTED(p2_who_waits_behind_a_daemon_that_is_told_and_hangs_looks_within_a_second),
        STARTED(p2_a_job_of_which_a_daemon_was_told_in_vain_is_the_next_ones_at_once),
        STARTED(p2_a_due_job_for_which_its_promoter_had_waited_is_the_next_ones_at_once),
        STARTED(a_daemon_that_is_killed_is_replaced_within_two_seconds),
        STARTED(who_waits_does_not_ask_a_cluster_that_refuses_without_pause),
        STARTED(who_waits_for_very_many_topics_looks_at_some_in_each_turn),
        STARTED(any_master_that_may_evict_makes_it_unfit_while_it_may),
        STARTED(an_idle_daemon_sends_one_command_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
