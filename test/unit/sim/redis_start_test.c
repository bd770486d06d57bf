/*
 * The engine's start, and how it finds its servers, on a simulated network: preflight, node,
 * sentinels, subscription, and the commands of clients that leave. Time is simulated: what is
 * waited for takes none.
 */
#include "redis_bed.h"

static void behind_sentinels(void)
{
    options.url.topology = REDIS_SENTINEL;
    (void)snprintf(options.url.service, sizeof(options.url.service), "jobs");
    for (uint16_t i = 0; i < SENTINELS; i++)
        add_address((uint16_t)(7100 + i));
}

static void refused_with(enum err err, const char *words)
{
    assert_int_equal(start(), err);
    if (!strstr(error.text, words))
        fail_msg("'%s' does not say '%s'", error.text, words);
}

/* ---- preflight ---- */

static void a_right_that_is_missing_is_named(void **state)
{
    (void)state;
    add_address(7000);
    sim_redis_settings(servers[0])->denied = " spublish zadd ";
    refused_with(ERR_UNSUPPORTED, "ACL SETUSER default +spublish +zadd");
}

/* A Redis before 7 has no SPUBLISH: scripts use PUBLISH there. */
static void an_older_redis_needs_the_right_to_publish_otherwise(void **state)
{
    (void)state;
    add_address(7000);
    sim_redis_settings(servers[0])->version = "6.2.14";
    sim_redis_settings(servers[0])->unknown = " spublish ssubscribe ";
    sim_redis_settings(servers[0])->denied = " publish zadd ";
    refused_with(ERR_UNSUPPORTED, "ACL SETUSER default +zadd +publish");
    sim_redis_settings(servers[0])->denied = NULL;
    assert_int_equal(start(), OK);
    stop();
    sim_redis_settings(servers[0])->version = sim_redis_settings(servers[0])->unknown = NULL;
    sim_redis_settings(servers[0])->denied = " publish "; /* nothing of ours needs it */
    assert_int_equal(start(), OK);
}

/* Its configuration says rename-command. */
static void a_command_that_redis_does_not_know_is_named_at_once(void **state)
{
    (void)state;
    add_address(7000);
    sim_redis_settings(servers[0])->unknown = " evalsha hscan ";
    refused_with(ERR_UNSUPPORTED, "unknown command 'EVALSHA': laterd needs it: see rename-command");
    sim_redis_settings(servers[0])->unknown = " hscan ";
    refused_with(ERR_UNSUPPORTED, "unknown command 'HSCAN'");
    sim_redis_settings(servers[0])->unknown = " info ";
    refused_with(ERR_UNSUPPORTED, "unknown command 'INFO'");
    /* Each alone, or both: no notice would be heard. */
    sim_redis_settings(servers[0])->unknown = " ssubscribe ";
    refused_with(ERR_UNSUPPORTED, "unknown command 'SSUBSCRIBE'");
    sim_redis_settings(servers[0])->unknown = " spublish ssubscribe ";
    refused_with(ERR_UNSUPPORTED, "unknown command 'SPUBLISH'");
    assert_true(now_us < EPOCH_US + SECOND_US);
}

/* It answers everything, but no queue can be made there: not that it is silent is told. */
static void a_redis_that_is_full_is_told_as_such(void **state)
{
    (void)state;
    add_address(7000);
    sim_redis_settings(servers[0])->full = true;
    refused_with(ERR_IO, "OOM command not allowed");
    refused_with(ERR_IO, "raise its maxmemory");
}

static void a_wrong_password_is_told_at_once(void **state)
{
    (void)state;
    add_address(7000);
    sim_redis_settings(servers[0])->password = "secret";
    refused_with(ERR_UNSUPPORTED, "NOAUTH");
    (void)snprintf(options.url.password, sizeof(options.url.password), "wrong");
    refused_with(ERR_UNSUPPORTED, "WRONGPASS");
    assert_true(now_us < EPOCH_US + SECOND_US);
    (void)snprintf(options.url.password, sizeof(options.url.password), "secret");
    assert_int_equal(start(), OK);
}

static void a_lone_replica_is_refused(void **state)
{
    (void)state;
    sim_redis_follow(servers[1], servers[0]);
    add_address(7001);
    refused_with(ERR_UNSUPPORTED, "it is a replica");
}

static void a_cluster_wants_its_own_url_and_no_other_server_takes_it(void **state)
{
    static struct sim_cluster cluster;
    (void)state;
    add_address(7000);
    options.url.topology = REDIS_CLUSTER;
    refused_with(ERR_UNSUPPORTED, "use redis://");
    sim_cluster_init(&cluster, servers, MASTERS, MASTERS, 1);
    assert_int_equal(start(), OK);
    stop();
    options.url.topology = REDIS_SINGLE;
    refused_with(ERR_UNSUPPORTED, "use redis+cluster://");
}

static void another_number_of_partitions_is_refused(void **state)
{
    (void)state;
    add_address(7000);
    assert_int_equal(start(), OK);
    stop();
    options.partitions = 4;
    refused_with(ERR_INVALID, "redis.partitions = 2");
}

static void a_server_that_loads_is_waited_for(void **state)
{
    (void)state;
    add_address(7000);
    sim_redis_settings(servers[0])->loading = true;
    loaded_at_us = now_us + 2 * SECOND_US;
    assert_int_equal(start(), OK);
    assert_true(now_us >= EPOCH_US + 2 * SECOND_US && now_us < EPOCH_US + 5 * SECOND_US);
}

static void nobody_there_is_told_after_five_seconds(void **state)
{
    (void)state;
    add_address(7000);
    sim_network_down(network, 0, true);
    refused_with(ERR_IO, "Connection refused");
    assert_true(now_us >= EPOCH_US + 5 * SECOND_US && now_us < EPOCH_US + 6 * SECOND_US);
}

/* ---- sentinels and nodes ---- */

static const struct redis_address *master_address(void)
{
    struct node *node = script_requests_node(&engine->calls, 0);
    return node ? &node->link.address : NULL;
}

static void the_master_is_whom_most_sentinels_name(void **state)
{
    (void)state;
    behind_sentinels();
    sim_redis_name_master(sentinels[0], servers[1], false); /* it has not heard of the last one */
    assert_int_equal(start(), OK);
    assert_int_equal(master_address()->port, 7000);
}

static void sentinels_that_know_no_such_master_say_so(void **state)
{
    (void)state;
    behind_sentinels();
    (void)snprintf(options.url.service, sizeof(options.url.service), "other");
    refused_with(ERR_UNSUPPORTED, "No such master");
}

static void a_failover_is_followed_although_the_old_master_only_hangs(void **state)
{
    (void)state;
    behind_sentinels();
    sim_redis_follow(servers[1], servers[0]);
    assert_int_equal(start(), OK);
    sim_network_cut(network, 0, 0, SIM_CUT_ALL);
    sim_redis_follow(servers[1], NULL);
    for (int i = 0; i < SENTINELS; i++)
        sim_redis_name_master(sentinels[i], servers[1], true);
    turns(100 * MS);
    assert_int_equal(master_address()->port, 7001);
}

static void a_node_that_became_a_replica_is_left(void **state)
{
    (void)state;
    add_address(7000);
    assert_int_equal(start(), OK);
    sim_redis_follow(servers[0], servers[1]);
    turns(SECOND_US);
    assert_null(master_address());
    sim_redis_follow(servers[0], NULL);
    turns(3 * SECOND_US);
    assert_non_null(master_address());
}

/* ---- subscription ---- */

static void a_subscription_that_hears_nothing_is_made_anew(void **state)
{
    (void)state;
    add_address(7000);
    assert_int_equal(start(), OK);
    turns(2 * SECOND_US);
    assert_int_equal(sim_redis_spublish(servers[0], BYTES("{q:0}:notice"), BYTES("-")), 1);
    struct list *all = &servers[0]->conns;
    for (struct list *at = all->next; at != all; at = at->next)
        sim_redis_unsubscribe(LIST_ENTRY(at, struct sim_redis_conn, place));
    assert_int_equal(sim_redis_spublish(servers[0], BYTES("{q:0}:notice"), BYTES("-")), 0);
    turns(5 * SECOND_US);
    assert_int_equal(sim_redis_spublish(servers[0], BYTES("{q:0}:notice"), BYTES("-")), 1);
    assert_true(subscription_is_complete(&engine->subscription));
}

/* ---- commands ---- */

static void p6_a_job_reserved_by_its_id_for_who_has_left_is_given_back(void **state)
{
    static const struct bytes topic = {"t", 1};
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = topic, .due_us = 1, .ttr_us = 3600 * INT64_C(1000000)}};
    struct cmd reserve = {.kind = CMD_RESERVE,
                          .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
    (void)state;
    add_address(7000);
    assert_int_equal(start(), OK);
    uint64_t seq = ask(&push, false).seq;
    struct cmd take = {.kind = CMD_RESERVE_JOB, .job = {.ref.seq = seq}};
    (void)ask(&take, true);
    struct client second = ask(&reserve, false);
    assert_int_equal(second.count, 1);
    assert_int_equal(second.seq, seq);
    assert_int_equal(ask(&reserve, false).err, ERR_EMPTY);
}

static void a_command_while_redis_is_away_is_answered_within_its_time(void **state)
{
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = BYTES("t"), .ttr_us = SECOND_US}};
    (void)state;
    add_address(7000);
    assert_int_equal(start(), OK);
    sim_network_cut(network, 0, 0, SIM_CUT_ALL);
    struct engine *port = redis_engine_port(engine);
    struct client client = {.ticket.answered = client_answered};
    (void)port->verbs->submit(port, &push, &client.ticket);
    turns(1900 * MS);
    assert_int_equal(client.answers, 0);
    turns(200 * MS);
    assert_int_equal(client.answers, 1);
    assert_int_equal(client.err, ERR_AGAIN);
}

static enum err poll_for(int64_t wait_us)
{
    static const struct bytes topic = {"t", 1};
    struct cmd take = {
        .kind = CMD_RESERVE,
        .reserve = {.topics = &topic, .topic_count = 1, .max = 1, .wait_us = wait_us}};
    int64_t began_us = now_us;
    enum err err = ask_for(&take, MS).err;
    assert_in_range(now_us - began_us, 0, 2 * SECOND_US + 10 * MS);
    return err;
}

/* Nobody knows whether there are jobs: not while the look is under way, nor after it has failed. */
static void who_waits_while_redis_does_not_answer_is_told_so_not_empty(void **state)
{
    (void)state;
    add_address(7000);
    assert_int_equal(start(), OK);
    assert_int_equal(poll_for(100 * MS), ERR_EMPTY);
    assert_int_equal(poll_for(0), ERR_EMPTY);
    turns(SECOND_US);
    sim_network_cut(network, 0, 0, SIM_CUT_ALL);
    assert_int_equal(poll_for(100 * MS),
                     ERR_EMPTY); /* by notices, which are heard until 2 s later */
    turns(3 * SECOND_US);
    for (int i = 0; i < 30; i++) { /* calls fail, and are sent again, at other times */
        assert_int_equal(poll_for(170 * MS), ERR_AGAIN);
        assert_int_equal(poll_for(MS), ERR_AGAIN);
    }
    assert_int_equal(poll_for(3 * SECOND_US / 2), ERR_AGAIN);
    assert_int_equal(poll_for(0), ERR_AGAIN);
    sim_network_cut(network, 0, 0, 0);
    turns(5 * SECOND_US);
    assert_int_equal(poll_for(100 * MS), ERR_EMPTY);
    assert_int_equal(poll_for(0), ERR_EMPTY);
}

/* A topic of which nothing is known: its first look stalls. */
static void who_waits_less_long_than_redis_hangs_is_told_so_not_empty(void **state)
{
    (void)state;
    add_address(7000);
    assert_int_equal(start(), OK);
    sim_network_cut(network, 0, 0, SIM_CUT_ALL);
    assert_int_equal(poll_for(100 * MS), ERR_AGAIN);
    assert_int_equal(poll_for(40 * MS), ERR_AGAIN);
    sim_network_cut(network, 0, 0, 0);
    turns(5 * SECOND_US);
    assert_int_equal(poll_for(40 * MS), ERR_EMPTY);
}

/* ---- keys that are lost, and others' ---- */

static void redis_does(const char *const *words)
{
    struct sim_redis_conn *conn = sim_redis_accept(servers[0]);
    struct buf out = {0};
    uint32_t count = 0;
    while (words[count])
        count++;
    buf_addf(&out, "*%u\r\n", count);
    for (uint32_t i = 0; i < count; i++)
        buf_addf(&out, "$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
    sim_redis_input(conn, buf_bytes(&out));
    assert_true(sim_redis_output(conn)->len && sim_redis_output(conn)->at[0] != '-');
    buf_fini(&out);
    sim_redis_hang_up(conn);
}

#define REDIS_DOES(...) redis_does((const char *const[]){__VA_ARGS__, NULL})

static enum err health(void)
{
    struct engine *port = redis_engine_port(engine);
    return port->verbs->health(port);
}

/* ---- passwords that are replaced ---- */

static unsigned ended_count;

static void count_ended(void *owner)
{
    (void)owner;
    ended_count++;
}

static void all_ask_for(const char *password)
{
    for (int i = 0; i < SERVERS; i++)
        sim_redis_settings(servers[i])->password = password;
    for (int i = 0; i < SENTINELS; i++)
        sim_redis_settings(sentinels[i])->password = password;
}

static unsigned sentinels_up(void)
{
    unsigned up = 0;
    for (unsigned i = 0; i < SENTINELS; i++)
        up += engine->topology.sentinels.all[i].link.state == LINK_UP;
    return up;
}

/* Of the server, of its notices, and of three sentinels. Those that there are stay. */
static void later_connections_log_in_with_a_password_that_was_replaced(void **state)
{
    char sentinel_password[] = "0ld";
    (void)state;
    behind_sentinels();
    all_ask_for("0ld");
    memcpy(options.url.password, "0ld", 4);
    options.sentinel_password = sentinel_password;
    options.connection_ended = count_ended;
    ended_count = 0;
    assert_int_equal(start(), OK);
    struct redis_url url = options.url;
    all_ask_for("n3w");
    memcpy(url.password, "n3w", 4);
    turns(2 * SECOND_US);
    assert_int_equal(health(), OK);
    assert_int_equal(ended_count, 0);
    link_fail(&engine->subscription.listeners[0].link, "the test ends it");
    assert_int_equal(ended_count, 1);
    for (unsigned i = 0; i < SENTINELS; i++)
        link_fail(&engine->topology.sentinels.all[i].link, "the test ends it");
    assert_int_equal(ended_count, 1 + SENTINELS);
    link_fail(&script_requests_node(&engine->calls, 0)->link, "the test ends it");
    assert_int_equal(ended_count, 2 + SENTINELS);
    turns(SECOND_US);
    assert_int_equal(health(), ERR_AGAIN);
    assert_int_equal(sentinels_up(), 0);
    assert_true(ended_count > 2 * (2 + SENTINELS)); /* those that are refused as well */
    redis_engine_log_in_as(engine, &url);
    memcpy(sentinel_password, "n3w", 4);
    turns(5 * SECOND_US);
    assert_int_equal(health(), OK);
    assert_int_equal(sentinels_up(), SENTINELS);
    assert_true(subscription_is_complete(&engine->subscription));
    stop(); /* `sentinel_password` ends with us */
}

static void a_key_of_another_type_is_named_and_nothing_is_written(void **state)
{
    (void)state;
    add_address(7000);
    REDIS_DOES("SET", "{q:1}:d", "somebody's");
    uint64_t before = sim_redis_digest(servers[0]);
    options.partitions = 2;
    refused_with(ERR_INVALID, "{q:1}:d");
    REDIS_DOES("FLUSHALL"); /* the other one could be made */
    REDIS_DOES("SET", "{q:1}:d", "somebody's");
    assert_true(before == sim_redis_digest(servers[0]));
}

/* Noticed by who needs the key; then asked for ten times a second, and served when it is right. */
static void a_key_that_gets_another_type_makes_it_unfit_while_it_lasts(void **state)
{
    static const char *const keys[] = {"{q:0}:d", "{q:0}:l", "{q:0}:o", "{q:0}:h"};
    static const struct bytes topic = {"t", 1};
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = topic, .due_us = 1, .ttr_us = 60 * SECOND_US}};
    struct cmd reserve = {.kind = CMD_RESERVE,
                          .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
    (void)state;
    options.partitions = 1;
    add_address(7000);
    assert_int_equal(start(), OK);
    struct partition *partition = &engine->calls.partitions[0];
    for (int i = 0; i < 4; i++) {
        turns(SECOND_US);
        assert_int_equal(ask_for(&push, MS).err, OK);
        REDIS_DOES("SET", keys[i], "somebody's");
        assert_int_not_equal(ask_for(i == 1 ? &reserve : &push, MS).err, ERR_IO);
        turns(SECOND_US);
        assert_int_equal(health(), ERR_AGAIN);
        assert_true(engine->preflight.stray);
        assert_int_equal(ask_for(&push, MS).err, ERR_AGAIN);
        uint64_t before = partition->number;
        turns(10 * SECOND_US);
        assert_in_range(partition->number - before, 90, 150); /* opens, and heartbeats */
        REDIS_DOES("DEL", keys[i]);
        if (i == 3) /* the jobs are lost */
            REDIS_DOES("DEL", keys[0], keys[1], keys[2]);
        turns(2 * SECOND_US);
        assert_int_equal(health(), OK);
        assert_false(engine->preflight.stray);
        assert_int_equal(ask_for(&push, MS).err, OK);
        assert_int_equal(ask_for(&reserve, MS).count, 1);
    }
}

/* A job in each state; afterwards all is as it was, but for what was ready: that is due. */
static void p2_what_a_lost_set_held_is_put_back(void **state)
{
    static const char *const sets[] = {"{q:0}:d", "{q:0}:l", "{q:0}:o"};
    static const struct bytes topic = {"t", 1};
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = topic, .ttr_us = 60 * SECOND_US}};
    struct cmd reserve = {.kind = CMD_RESERVE,
                          .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
    (void)state;
    options.partitions = 1;
    options.topics_max = 1000;
    add_address(7000);
    assert_int_equal(start(), OK);
    for (int i = 0; i < 3; i++) {
        for (int n = 0; n < 60; n++) {
            push.push.due_us = now_us + 3600 * INT64_C(1000000);
            (void)ask_for(&push, MS);
        }
        push.push.due_us = 1;
        (void)ask_for(&push, MS);
        (void)ask_for(&push, MS);
        assert_int_equal(ask_for(&reserve, MS).count, 1);
        push.push.buried = true;
        (void)ask_for(&push, MS);
        push.push.buried = false;
        REDIS_DOES("DEL", sets[i]);
        struct cmd look = {.kind = CMD_TOPIC, .topic = {.topic = topic}};
        turns(2 * SECOND_US); /* somebody did something here, so it is noticed */
        assert_int_equal(health(), OK);
        struct client seen = ask_for(&look, MS);
        assert_int_equal(seen.jobs[JOB_DELAYED], 60 * (i + 1));
        assert_int_equal(seen.jobs[JOB_READY], i + 1);
        assert_int_equal(seen.jobs[JOB_RESERVED], i + 1);
        assert_int_equal(seen.jobs[JOB_BURIED], i + 1);
    }
    assert_int_equal(ask_for(&reserve, MS).count, 1);
}

static void a_policy_that_evicts_makes_it_unfit_while_it_lasts(void **state)
{
    (void)state;
    add_address(7000);
    assert_int_equal(start(), OK);
    turns(SECOND_US);
    assert_int_equal(health(), OK);
    sim_redis_settings(servers[0])->evicts = true;
    turns(11 * SECOND_US);
    assert_int_equal(health(), ERR_AGAIN);
    sim_redis_settings(servers[0])->evicts = false;
    turns(11 * SECOND_US);
    assert_int_equal(health(), OK);
}

/* Within some ten seconds all of them, not the one that a promote happens to look at. */
static void buckets_that_are_lost_are_made_again(void **state)
{
    static const char *const buckets[] = {"{q:0}:j3", "{q:0}:j77", "{q:0}:j141", "{q:0}:j255"};
    static const struct bytes topic = {"t", 1};
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = topic, .ttr_us = SECOND_US}};
    (void)state;
    options.partitions = 1;
    add_address(7000);
    assert_int_equal(start(), OK);
    turns(SECOND_US);
    for (size_t i = 0; i < sizeof(buckets) / sizeof(buckets[0]); i++)
        REDIS_DOES("DEL", buckets[i]);
    turns(9 * SECOND_US);
    (void)ask_for(&push, MS); /* where all is idle nothing is asked */
    turns(3 * SECOND_US / 2);
    for (size_t i = 0; i < sizeof(buckets) / sizeof(buckets[0]); i++)
        REDIS_DOES("RENAME", buckets[i], buckets[i]); /* an error if it is not there */
}

/* Who has gone is shown nothing: Redis is not asked on. */
static void a_listing_ends_with_its_asker(void **state)
{
    static const struct bytes topic = {"t", 1}, other = {"other", 5};
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = other, .ttr_us = SECOND_US}};
    struct cmd list = {.kind = CMD_LIST,
                       .topic = {.topic = other, .state = JOB_DELAYED, .max = 1000}};
    struct client client = {.ticket.answered = client_answered};
    (void)state;
    options.partitions = 1;
    add_address(7000);
    assert_int_equal(start(), OK);
    struct engine *port = redis_engine_port(engine);
    for (int i = 0; i < 5000; i++) {
        push.push.due_us = now_us + 100 * SECOND_US + i;
        (void)port->verbs->submit(port, &push, NULL);
    }
    turns(SECOND_US);
    push.push.topic = topic;
    (void)ask_for(&push, MS);
    uint64_t before = engine->calls.partitions[0].used;
    (void)port->verbs->submit(port, &list, &client.ticket);
    port->verbs->cancel(port, &client.ticket);
    turns(SECOND_US);
    assert_int_equal(engine->calls.partitions[0].used, before + 1);
    assert_int_equal(ask_for(&list, MS).count, 1000);
    assert_in_range(engine->calls.partitions[0].used, before + 10, before + 12);
    list.topic.topic = topic; /* others' jobs are not looked through for it */
    before = engine->calls.partitions[0].used;
    assert_int_equal(ask_for(&list, MS).count, 1);
    assert_int_equal(engine->calls.partitions[0].used, before + 1);
}

/* It is cancelled after the call that is under way; one that nobody asked to be told of goes on. */
static void a_clear_or_a_kick_ends_with_its_client(void **state)
{
    enum { JOBS = 400 };
    static const struct bytes topic = {"t", 1};
    static const enum cmd_kind kinds[] = {CMD_CLEAR_TOPIC, CMD_KICK_TOPIC};
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = topic, .ttr_us = SECOND_US}};
    struct cmd look = {.kind = CMD_TOPIC, .topic = {.topic = topic}};
    (void)state;
    options.partitions = 1;
    add_address(7000);
    assert_int_equal(start(), OK);
    struct engine *port = redis_engine_port(engine);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct cmd sweep = {.kind = kinds[i],
                            .topic = {.topic = topic, .state = JOB_DELAYED, .max = UINT32_MAX}};
        struct client client = {.ticket.answered = client_answered};
        for (int n = 0; n < JOBS; n++) {
            push.push.due_us = now_us + 1000 * INT64_C(1000000) + n;
            (void)port->verbs->submit(port, &push, NULL);
        }
        turns(SECOND_US);
        (void)port->verbs->submit(port, &sweep, &client.ticket);
        turn();
        port->verbs->cancel(port, &client.ticket);
        turns(SECOND_US);
        assert_int_equal(client.answers, 0);
        assert_in_range(ask_for(&look, MS).jobs[JOB_DELAYED], JOBS / 2, JOBS - 1);
        (void)port->verbs->submit(port, &sweep, NULL);
        turns(SECOND_US);
        assert_int_equal(ask_for(&look, MS).jobs[JOB_DELAYED], 0);
    }
}

/* The partitions are asked together: not one after the other until one has such a job. */
static void p9_a_kick_of_few_jobs_takes_two_calls_one_after_the_other(void **state)
{
    enum { JOBS = 64, KICKED = 3, TWO_CALLS_US = 6 * MS };
    static const struct bytes topic = {"t", 1};
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = topic, .ttr_us = SECOND_US}};
    struct cmd look = {.kind = CMD_TOPIC, .topic = {.topic = topic}};
    struct cmd kick = {.kind = CMD_KICK_TOPIC, .topic = {.topic = topic, .state = JOB_DELAYED}};
    (void)state;
    options.partitions = 16;
    add_address(7000);
    assert_int_equal(start(), OK);
    struct engine *port = redis_engine_port(engine);
    for (int n = 0; n < JOBS; n++) {
        char id[8];
        push.push.id = bytes_of(id, (size_t)snprintf(id, sizeof(id), "%d", n));
        push.push.due_us = now_us + 1000 * INT64_C(1000000);
        (void)port->verbs->submit(port, &push, NULL);
        turn();
    }
    turns(SECOND_US);
    for (uint32_t left = JOBS; left > 0; left -= kick.topic.max) {
        int64_t asked_us = now_us;
        kick.topic.max = left < KICKED ? left : KICKED;
        assert_int_equal(ask_for(&kick, MS).count, kick.topic.max);
        assert_in_range(now_us - asked_us, 0, TWO_CALLS_US);
    }
    assert_int_equal(ask_for(&look, MS).jobs[JOB_READY], JOBS);
    kick.topic.state = JOB_GONE; /* there is nothing left: neither buried nor delayed */
    assert_int_equal(ask_for(&kick, MS).count, 0);
}

/* The first kick has asked all partitions what they have; who waits looks where one was kicked. */
static void a_kick_of_one_job_after_another_takes_one_script_and_its_consumer_another(void **state)
{
    enum { JOBS = 20 };
    static const struct bytes topic = {"t", 1};
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = topic, .buried = true, .ttr_us = 60 * INT64_C(1000000)}};
    struct cmd kick = {.kind = CMD_KICK_TOPIC,
                       .topic = {.topic = topic, .state = JOB_BURIED, .max = 1}};
    struct cmd take = {
        .kind = CMD_RESERVE,
        .reserve = {
            .topics = &topic, .topic_count = 1, .max = 1, .wait_us = 60 * INT64_C(1000000)}};
    static struct client takers[JOBS];
    (void)state;
    options.partitions = 256;
    options.waiters_max = JOBS;
    add_address(7000);
    assert_int_equal(start(), OK);
    struct engine *port = redis_engine_port(engine);
    for (int n = 0; n < JOBS; n++) {
        (void)ask_for(&push, MS);
        takers[n] = (struct client){.ticket.answered = client_answered};
        (void)port->verbs->submit(port, &take, &takers[n].ticket); /* it waits */
    }
    turns(100 * MS);
    for (int n = 0; n < JOBS; n++) {
        uint64_t before = scripts_sent();
        assert_int_equal(ask_for(&kick, MS).count, 1);
        turns(10 * MS);
        assert_int_equal(takers[n].count, 1);
        assert_in_range(scripts_sent() - before, 2, n == 0 ? options.partitions + 3 : 4);
    }
}

/*
 * Who asks for sums of very many topics is answered at once from those that are kept; they are
 * renewed in the background, slowly, and gathered at once when they are old.
 */
static void statistics_of_many_topics_are_renewed_while_they_are_asked_for(void **state)
{
    enum { TOPICS = 2600, ROUNDS = 400 };
    struct cmd stats = {.kind = CMD_TOPICS, .topic = {.max = 1, .stats = true}};
    struct client client = {.ticket.answered = client_answered};
    struct cmd push = {.kind = CMD_PUSH, .push = {.ttr_us = SECOND_US}};
    char name[16];
    (void)state;
    options.partitions = 1;
    options.topics_max = 0;
    add_address(7000);
    assert_int_equal(start(), OK);
    struct engine *port = redis_engine_port(engine);
    (void)ask_for(&stats, MS);
    assert_null(engine->kept_stats); /* there are few */
    for (int i = 0; i < TOPICS; i++) {
        int len = snprintf(name, sizeof(name), "t%04d", i);
        push.push.topic = bytes_of(name, (size_t)len);
        (void)port->verbs->submit(port, &push, NULL);
    }
    turns(SECOND_US);
    (void)ask_for(&stats, MS);
    assert_non_null(engine->kept_stats);
    assert_int_equal(engine->stats.jobs[JOB_READY], TOPICS);
    (void)port->verbs->submit(port, &push, NULL);
    uint64_t before = engine->calls.partitions[0].used;
    assert_int_equal(port->verbs->submit(port, &stats, &client.ticket), SUBMIT_ANSWERED);
    turns(SECOND_US / 10);
    assert_in_range(engine->calls.partitions[0].used - before, 0, 2); /* a second has not passed */
    unsigned rounds = 0;
    for (; engine->stats.jobs[JOB_READY] == TOPICS; rounds++) {
        assert_in_range(rounds, 0, ROUNDS);
        assert_int_equal(port->verbs->submit(port, &stats, &client.ticket), SUBMIT_ANSWERED);
        turns(SECOND_US / 10);
    }
    assert_in_range(rounds, 20, ROUNDS); /* 44 pages of a millisecond of simulated time */
    assert_in_range(engine->calls.partitions[0].used - before, TOPICS / 60, 2 * TOPICS / 60);
    assert_int_equal(engine->stats.jobs[JOB_READY], TOPICS + 1);
    turns(70 * SECOND_US); /* a walk that had begun has ended, and nobody asks */
    assert_int_equal(port->verbs->submit(port, &stats, &client.ticket), SUBMIT_PARKED);
    turns(SECOND_US);
}

/* The ring of answers is full then: what finds no place waits, and nobody is told "empty". */
static void more_commands_than_the_ring_has_places_are_all_done(void **state)
{
    enum { PUSHES = 2 * SCRIPT_RING }; /* the ring grows meanwhile, and has fewer at first */
    static const struct bytes topic = {"t", 1};
    static struct client clients[PUSHES], taker, waiter;
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = topic, .due_us = 1, .ttr_us = 1}};
    struct cmd take = {.kind = CMD_RESERVE,
                       .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
    (void)state;
    add_address(7000);
    assert_int_equal(start(), OK);
    struct engine *port = redis_engine_port(engine);
    taker = waiter = (struct client){.ticket.answered = client_answered};
    for (unsigned i = 0; i < PUSHES; i++) {
        clients[i] = (struct client){.ticket.answered = client_answered};
        (void)port->verbs->submit(port, &push, &clients[i].ticket);
    }
    (void)port->verbs->submit(port, &take, &taker.ticket);
    take.reserve.wait_us = SECOND_US;
    (void)port->verbs->submit(port, &take, &waiter.ticket);
    turns(SECOND_US / 2);
    for (unsigned i = 0; i < PUSHES; i++) {
        assert_int_equal(clients[i].answers, 1);
        assert_int_equal(clients[i].err, OK);
    }
    assert_int_equal(taker.err, OK);
    assert_int_equal(taker.count, 1);
    assert_int_equal(waiter.count, 1);
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        STARTED(a_right_that_is_missing_is_named),
        STARTED(an_older_redis_needs_the_right_to_publish_otherwise),
        STARTED(a_command_that_redis_does_not_know_is_named_at_once),
        STARTED(a_redis_that_is_full_is_told_as_such),
        STARTED(a_wrong_password_is_told_at_once),
        STARTED(a_lone_replica_is_refused),
        STARTED(a_cluster_wants_its_own_url_and_no_other_server_takes_it),
        STARTED(another_number_of_partitions_is_refused),
        STARTED(a_server_that_loads_is_waited_for),
        STARTED(nobody_there_is_told_after_five_seconds),
        STARTED(the_master_is_whom_most_sentinels_name),
        STARTED(sentinels_that_know_no_such_master_say_so),
        STARTED(a_failover_is_followed_although_the_old_master_only_hangs),
        STARTED(a_node_that_became_a_replica_is_left),
        STARTED(a_subscription_that_hears_nothing_is_made_anew),
        STARTED(p6_a_job_reserved_by_its_id_for_who_has_left_is_given_back),
        STARTED(a_command_while_redis_is_away_is_answered_within_its_time),
        STARTED(who_waits_while_redis_does_not_answer_is_told_so_not_empty),
        STARTED(who_waits_less_long_than_redis_hangs_is_told_so_not_empty),
        STARTED(later_connections_log_in_with_a_password_that_was_replaced),
        STARTED(a_key_of_another_type_is_named_and_nothing_is_written),
        STARTED(a_key_that_gets_another_type_makes_it_unfit_while_it_lasts),
        STARTED(p2_what_a_lost_set_held_is_put_back),
        STARTED(a_policy_that_evicts_makes_it_unfit_while_it_lasts),
        STARTED(buckets_that_are_lost_are_made_again),
        STARTED(a_listing_ends_with_its_asker),
        STARTED(a_clear_or_a_kick_ends_with_its_client),
        STARTED(p9_a_kick_of_few_jobs_takes_two_calls_one_after_the_other),
        STARTED(a_kick_of_one_job_after_another_takes_one_script_and_its_consumer_another),
        STARTED(statistics_of_many_topics_are_renewed_while_they_are_asked_for),
        STARTED(more_commands_than_the_ring_has_places_are_all_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
