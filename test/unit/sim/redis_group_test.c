/*
 * What comes in one turn goes to Redis in few calls, and each request is done as if it was alone:
 * on a simulated Redis. Time is simulated: what is waited for takes none.
 */
#include <stdio.h>

#include "redis_bed.h"
#include "sim/redis/lua_run.h"

enum { MANY = 40 };

static const struct bytes topic = {"v", 1};
static struct sim_cluster cluster;
static struct client clients[MANY];
static char names[MANY][16];

static void start_on_one_server(uint32_t partitions)
{
    options.partitions = partitions;
    add_address(7000);
    assert_int_equal(start(), OK);
    memset(clients, 0, sizeof(clients));
}

static struct cmd push_of(const char *id)
{
    return (struct cmd){.kind = CMD_PUSH,
                        .push = {.topic = topic,
                                 .id = bytes_str(id),
                                 .due_us = 1,
                                 .ttr_us = INT64_C(3600) * SECOND_US,
                                 .body = bytes_str(id)}};
}

static struct cmd end_of(enum cmd_kind kind, const char *id, uint64_t lease)
{
    return (struct cmd){.kind = kind, .job = {.ref.id = bytes_str(id), .lease = lease}};
}

static struct client *begin(unsigned number, const struct cmd *cmd)
{
    struct engine *port = redis_engine_port(engine);
    clients[number] = (struct client){.ticket.answered = client_answered};
    (void)port->verbs->submit(port, cmd, &clients[number].ticket); /* the client is told */
    return &clients[number];
}

/* How many calls are under way to the node of the partition, once the turn has ended. */
static unsigned calls_sent(uint32_t partition)
{
    struct engine *port = redis_engine_port(engine);
    unsigned count = 0;
    (void)port->verbs->end(port);
    const struct list *calls = &script_requests_node(&engine->calls, partition)->link.calls;
    for (const struct list *at = calls->next; at != calls; at = at->next)
        count++;
    return count;
}

static uint64_t jobs_there(void)
{
    struct cmd look = {.kind = CMD_TOPIC, .topic = {.topic = topic}};
    struct client seen = ask_for(&look, MS);
    return seen.jobs[JOB_DELAYED] + seen.jobs[JOB_READY] + seen.jobs[JOB_RESERVED] +
           seen.jobs[JOB_BURIED];
}

static void is_answered(unsigned number, enum err err)
{
    assert_int_equal(clients[number].answers, 1);
    assert_int_equal(clients[number].err, err);
}

static void push_names(unsigned from, unsigned upto)
{
    for (unsigned i = from; i < upto; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "id-%u", i);
        struct cmd push = push_of(names[i]);
        (void)begin(i, &push);
    }
}

/* The number of the job of names[number]; 0: there is none. */
static uint64_t seq_of(unsigned number)
{
    struct cmd look = {.kind = CMD_GET, .job.ref.id = bytes_str(names[number])};
    return ask_for(&look, MS).seq;
}

/* The first job of a topic, one whose id is known, one of the same turn: they are not the common
 * case, and are done in their turn all the same. */
static void pushes_of_one_turn_are_one_call_and_each_has_its_answer(void **state)
{
    static const char *const ids[] = {"a", "b", "a", "c", "known", "d"};
    static const enum err errors[] = {OK, OK, ERR_EXISTS, OK, ERR_EXISTS, OK};
    struct cmd known = push_of("known");
    (void)state;
    start_on_one_server(1);
    turns(SECOND_US);
    assert_int_equal(ask(&known, false).err, OK);
    for (unsigned i = 0; i < 6; i++) {
        struct cmd push = push_of(ids[i]);
        (void)begin(i, &push);
    }
    assert_int_equal(calls_sent(0), 1);
    turns(20 * MS);
    for (unsigned i = 0; i < 6; i++)
        is_answered(i, errors[i]);
    assert_true(clients[0].seq < clients[1].seq && clients[1].seq < clients[3].seq &&
                clients[3].seq < clients[5].seq);
    assert_int_equal(jobs_there(), 5);
}

/* Each answer to a client is a call of the system, which Redis need not wait for. */
static void a_turns_requests_are_sent_before_its_answers(void **state)
{
    struct engine *port;
    const struct link *link;
    (void)state;
    start_on_one_server(1);
    turns(SECOND_US);
    link = &script_requests_node(&engine->calls, 0)->link;
    push_names(0, 3);
    assert_true(list_empty(&link->calls));
    port = redis_engine_port(engine);
    port->verbs->match(port);
    assert_false(list_empty(&link->calls));
    assert_int_equal(link->out.len, 0);
    assert_int_equal(calls_sent(0), 1);
    turns(20 * MS);
    for (unsigned i = 0; i < 3; i++)
        is_answered(i, OK);
}

static void a_call_takes_no_more_than_its_share(void **state)
{
    (void)state;
    start_on_one_server(1);
    turns(SECOND_US);
    push_names(0, MANY);
    assert_int_equal(calls_sent(0), 2);
    turns(20 * MS);
    for (unsigned i = 0; i < MANY; i++)
        is_answered(i, OK);
    assert_int_equal(jobs_there(), MANY);
}

/* No restore goes on: it is refused. `sooner`: each is due by so much before the last one. */
static void bring(unsigned count, bool buried, int sooner, unsigned calls)
{
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "id-%u", i);
        struct cmd push = push_of(names[i]);
        push.push.if_exists = IF_EXISTS_KEEP;
        push.push.restore = 7;
        push.push.failures = i % 2;
        push.push.buried = buried;
        push.push.due_us = 1000 - (int64_t)i * sooner;
        push.push.topic = sooner < 0 ? bytes_str(names[i]) : topic;
        (void)begin(i, &push);
    }
    assert_int_equal(calls_sent(0), calls);
    turns(20 * MS);
    for (unsigned i = 0; i < count; i++)
        is_answered(i, ERR_STALE_LEASE);
    assert_int_equal(jobs_there(), 0);
}

/* What a restore brings may take Redis several times as long as other pushes. */
static void a_call_takes_fewer_of_those_that_take_longer(void **state)
{
    (void)state;
    start_on_one_server(1);
    turns(SECOND_US);
    bring(30, false, 0, 1);
    bring(34, false, 0, 2);
    bring(16, false, 1, 1);
    bring(18, false, 1, 2);
    bring(16, false, -1, 1); /* each of another topic */
    bring(18, false, -1, 2);
    bring(10, true, 0, 1);
    bring(MANY, true, 0, 4);
}

/* Takes `count` jobs; their leases and ids. */
static void take_jobs(unsigned count, uint64_t *out_leases, uint64_t *out_seqs)
{
    struct cmd take = {.kind = CMD_RESERVE,
                       .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
    for (unsigned i = 0; i < count; i++) {
        struct client taker = ask_for(&take, MS);
        assert_int_equal(taker.count, 1);
        out_leases[i] = taker.lease;
        out_seqs[i] = taker.seq;
    }
}

/* One's error is not another's. */
static void p4_ends_of_one_turn_are_one_call_and_a_stale_lease_ends_nothing(void **state)
{
    uint64_t leases[5], seqs[5];
    (void)state;
    start_on_one_server(1);
    push_names(0, 5);
    turns(20 * MS);
    take_jobs(5, leases, seqs);
    turns(SECOND_US);
    const struct cmd ends[] = {
        {.kind = CMD_FINISH, .job = {.ref.seq = seqs[0], .lease = leases[0], .brief = true}},
        {.kind = CMD_FINISH, .job = {.ref.seq = seqs[1], .lease = leases[2], .brief = true}},
        end_of(CMD_FINISH, "id-2", leases[2]),
        {.kind = CMD_DELETE, .job = {.ref.seq = seqs[0]}},
        end_of(CMD_DELETE, "id-3", 0),
        end_of(CMD_DELETE, "none", 0),
        {.kind = CMD_FINISH, .job = {.ref.seq = seqs[4], .lease = leases[4]}},
    };
    static const enum err errors[] = {OK, ERR_STALE_LEASE, OK, ERR_NOT_FOUND,
                                      OK, ERR_NOT_FOUND,   OK};
    for (unsigned i = 0; i < 7; i++)
        (void)begin(i, &ends[i]);
    assert_int_equal(calls_sent(0), 1);
    turns(20 * MS);
    for (unsigned i = 0; i < 7; i++)
        is_answered(i, errors[i]);
    assert_int_equal(clients[0].seq, seqs[0]);
    assert_int_equal(clients[6].seq, seqs[4]);
    assert_int_equal(jobs_there(), 1);
}

/* Those about one job keep their order: by its id a client may end what it has just pushed, and
 * push again what it has just ended. */
static void a_turns_requests_about_one_job_keep_their_order(void **state)
{
    struct cmd push = push_of("x"), other = push_of("y"), end = end_of(CMD_DELETE, "x", 0);
    (void)state;
    start_on_one_server(1);
    turns(SECOND_US);
    (void)begin(0, &push);
    (void)begin(1, &other);
    (void)begin(2, &end);
    (void)begin(3, &push);
    (void)begin(4, &end);
    (void)begin(5, &push);
    turns(20 * MS);
    for (unsigned i = 0; i < 6; i++)
        is_answered(i, OK);
    assert_int_equal(jobs_there(), 2);
}

/* One of one topic is in one partition, one of the other in the other: each changes the counts of
 * its own, whatever was read for the one before. */
static void ends_of_one_call_are_counted_in_their_topics(void **state)
{
    enum { JOBS = 16, FIRST = 4 };
    const struct bytes topics[] = {BYTES("v"), BYTES("w")};
    uint64_t held[2] = {FIRST, JOBS - FIRST};
    (void)state;
    start_on_one_server(2);
    for (unsigned i = 0; i < JOBS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "id-%u", i);
        struct cmd push = push_of(names[i]);
        push.push.topic = topics[i >= FIRST];
        assert_int_equal(ask_for(&push, MS).err, OK);
    }
    struct cmd ends[2];
    unsigned ended = 0;
    for (unsigned i = 0; i < JOBS; i++) {
        struct cmd take = {.kind = CMD_RESERVE,
                           .reserve = {.topics = &topics[i >= FIRST], .topic_count = 1, .max = 1}};
        struct client taker = ask_for(&take, MS);
        assert_int_equal(taker.count, 1);
        if (taker.seq % 2 != (i >= FIRST) || ended > (i >= FIRST))
            continue; /* others of its topic stay reserved there */
        ends[ended++] =
            (struct cmd){.kind = CMD_FINISH, .job = {.ref.seq = taker.seq, .lease = taker.lease}};
        held[i >= FIRST]--;
    }
    assert_int_equal(ended, 2);
    turns(SECOND_US);
    for (unsigned i = 0; i < ended; i++)
        (void)begin(i, &ends[i]);
    assert_int_equal(calls_sent(0), 1);
    turns(20 * MS);
    for (unsigned i = 0; i < ended; i++)
        is_answered(i, OK);
    for (unsigned i = 0; i < 2; i++) {
        struct cmd look = {.kind = CMD_TOPIC, .topic = {.topic = topics[i]}};
        struct client seen = ask_for(&look, MS);
        assert_int_equal(seen.jobs[JOB_RESERVED], held[i]);
        assert_int_equal(seen.jobs[JOB_READY] + seen.jobs[JOB_DELAYED], 0);
    }
}

/* ---- several kinds ---- */

/* A call with others to one topic reads the counts of that before it knows which job ends. */
static void an_end_is_counted_in_its_topic_whatever_else_the_turn_has(void **state)
{
    static const struct bytes other = {"w", 1};
    uint64_t lease, seq;
    (void)state;
    start_on_one_server(1);
    struct cmd push = push_of("first");
    assert_int_equal(ask_for(&push, MS).err, OK);
    push = push_of("other's first");
    push.push.topic = other;
    assert_int_equal(ask_for(&push, MS).err, OK);
    take_jobs(1, &lease, &seq);
    turns(SECOND_US);
    struct cmd end = {.kind = CMD_FINISH, .job = {.ref.seq = seq, .lease = lease}};
    (void)begin(0, &end);
    push = push_of("another");
    push.push.topic = other;
    (void)begin(1, &push);
    assert_int_equal(calls_sent(0), 1);
    turns(20 * MS);
    is_answered(0, OK);
    is_answered(1, OK);
    for (unsigned i = 0; i < 2; i++) {
        struct cmd look = {.kind = CMD_TOPIC, .topic = {.topic = i ? other : topic}};
        struct client seen = ask_for(&look, MS);
        assert_int_equal(seen.jobs[JOB_RESERVED], 0);
        assert_int_equal(seen.jobs[JOB_READY], i ? 2 : 0);
    }
}

/* A turn's finishes of the first `ends` jobs, pushes of as many others and two reserves: two jobs
 * are ready, none of which is ended. */
static void begin_all_kinds(uint32_t partitions, unsigned ends)
{
    uint64_t leases[MANY], seqs[MANY];
    struct cmd take = {.kind = CMD_RESERVE,
                       .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
    start_on_one_server(partitions);
    push_names(0, ends + 2);
    turns(20 * MS);
    take_jobs(ends, leases, seqs);
    turns(SECOND_US);
    for (unsigned i = 0; i < ends; i++) {
        struct cmd end = {.kind = CMD_FINISH, .job = {.ref.seq = seqs[i], .lease = leases[i]}};
        (void)begin(i, &end);
    }
    push_names(ends + 2, 2 * ends + 2);
    for (unsigned i = ends; i < ends + 2; i++)
        (void)begin(i, &take);
    struct engine *port = redis_engine_port(engine);
    port->verbs->match(port);
}

static void each_kind_is_done(uint32_t partitions)
{
    enum { ENDS = 5 };
    begin_all_kinds(partitions, ENDS);
    assert_int_equal(calls_sent(0), 1);
    turns(50 * MS);
    for (unsigned i = 0; i < 2 * ENDS + 2; i++)
        is_answered(i, OK);
    assert_int_equal(clients[ENDS].count + clients[ENDS + 1].count, 2);
    assert_int_not_equal(clients[ENDS].seq, clients[ENDS + 1].seq);
    assert_int_equal(jobs_there(), ENDS + 2);
    for (unsigned i = ENDS + 2; i < 2 * ENDS + 2; i++)
        assert_int_equal(seq_of(i), clients[i].seq);
}

static void p4_a_turns_ends_pushes_and_reserves_are_one_call(void **state)
{
    (void)state;
    each_kind_is_done(1);
}

static void p4_requests_of_all_kinds_to_several_partitions_are_one_call(void **state)
{
    (void)state;
    each_kind_is_done(16);
}

static void a_call_of_all_kinds_does_no_more_than_its_share(void **state)
{
    enum { ENDS = 18, WORK_MAX = 4000 }; /* words: see redis_scripts_bed.h */
    (void)state;
    begin_all_kinds(16, ENDS);
    assert_int_equal(calls_sent(0), 1);
    *sim_lua_ledger() = (struct sim_lua_ledger){0};
    turns(50 * MS);
    for (unsigned i = 0; i < 2 * ENDS + 2; i++)
        is_answered(i, OK);
    assert_in_range(sim_lua_ledger()->most_work, WORK_MAX / 10, WORK_MAX);
}

/* Redis refuses only a script's first write: what is behind that one has to be refused here. */
static void p8_a_full_redis_refuses_pushes_that_go_behind_ends(void **state)
{
    enum { ENDS = 5 };
    (void)state;
    begin_all_kinds(1, ENDS);
    sim_redis_settings(servers[0])->full = true;
    assert_int_equal(calls_sent(0), 1);
    turns(50 * MS);
    for (unsigned i = 0; i < ENDS + 2; i++)
        is_answered(i, OK);
    for (unsigned i = ENDS + 2; i < 2 * ENDS + 2; i++)
        is_answered(i, ERR_MEMORY_LIMIT);
    assert_int_equal(jobs_there(), 2);
}

/* ---- answers that are lost ---- */

/* Each is sent again, and the answer that was kept for it comes. */
static void p2_p5_a_call_whose_answer_is_lost_is_done_once_for_each(void **state)
{
    uint64_t leases[4], seqs[4];
    (void)state;
    start_on_one_server(2);
    push_names(0, 4);
    turns(20 * MS);
    take_jobs(4, leases, seqs);
    turns(SECOND_US);
    sim_network_cut(network, 0, 0, SIM_CUT_ANSWERS);
    for (unsigned i = 0; i < 4; i++) {
        struct cmd end = {.kind = CMD_FINISH,
                          .job = {.ref.seq = seqs[i], .lease = leases[i], .brief = i % 2}};
        (void)begin(i, &end);
    }
    push_names(4, 12);
    turns(10 * MS);
    sim_network_reset(network, 0, 0);
    sim_network_cut(network, 0, 0, SIM_WHOLE);
    turns(SECOND_US);
    for (unsigned i = 0; i < 12; i++)
        is_answered(i, OK);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(clients[i].seq, seqs[i]);
    for (unsigned i = 4; i < 12; i++)
        assert_int_equal(seq_of(i), clients[i].seq);
    assert_int_equal(jobs_there(), 8);
}

/* The connection ends before the turn does: they go when there is another one. */
static void what_was_gathered_for_a_lost_connection_is_sent_over_the_next(void **state)
{
    (void)state;
    start_on_one_server(2);
    turns(SECOND_US);
    push_names(0, 8);
    sim_network_reset(network, 0, 0);
    pass(MS);
    turns(SECOND_US); /* their time is not up */
    for (unsigned i = 0; i < 8; i++)
        is_answered(i, OK);
    assert_int_equal(jobs_there(), 8);
}

/* ---- several partitions ---- */

static void requests_to_partitions_of_one_server_are_one_call(void **state)
{
    (void)state;
    start_on_one_server(16);
    turns(SECOND_US);
    push_names(0, 32);
    assert_int_equal(calls_sent(0), 1);
    turns(20 * MS);
    for (unsigned i = 0; i < 32; i++)
        is_answered(i, OK);
    assert_int_equal(jobs_there(), 32);
}

/* All partitions are looked at, and then asked, in a call each time; nobody gets another's job. */
static void p4_reserves_from_partitions_of_one_server_are_one_call(void **state)
{
    struct cmd take = {.kind = CMD_RESERVE,
                       .reserve = {.topics = &topic, .topic_count = 1, .max = 1}};
    struct engine *port;
    (void)state;
    start_on_one_server(16);
    turns(SECOND_US);
    push_names(0, 12);
    turns(20 * MS);
    for (unsigned i = 0; i < 12; i++)
        (void)begin(i, &take);
    port = redis_engine_port(engine);
    port->verbs->match(port);
    assert_int_equal(calls_sent(0), 1);
    turns(50 * MS);
    for (unsigned i = 0; i < 12; i++) {
        is_answered(i, OK);
        assert_int_equal(clients[i].count, 1);
        for (unsigned before = 0; before < i; before++)
            assert_int_not_equal(clients[before].seq, clients[i].seq);
    }
}

/* A cluster refuses a call of several slots. */
static void requests_to_a_cluster_are_a_call_for_each_partition(void **state)
{
    (void)state;
    options.url.topology = REDIS_CLUSTER;
    options.partitions = 4;
    sim_cluster_init(&cluster, servers, SERVERS, MASTERS, 0);
    for (uint16_t i = 0; i < MASTERS; i++)
        add_address((uint16_t)(7000 + i));
    assert_int_equal(start(), OK);
    turns(SECOND_US);
    push_names(0, 32);
    unsigned sent = 0;
    for (uint32_t i = 0; i < 4; i++) {
        const struct node *node = script_requests_node(&engine->calls, i);
        bool counted = false;
        for (uint32_t before = 0; before < i; before++)
            counted = counted || script_requests_node(&engine->calls, before) == node;
        sent += counted ? 0 : calls_sent(i);
    }
    assert_int_equal(sent, 4);
    turns(20 * MS);
    for (unsigned i = 0; i < 32; i++)
        is_answered(i, OK);
    assert_int_equal(jobs_there(), 32);
}

static void run_on_server(struct bytes command)
{
    struct sim_redis_conn *conn = sim_redis_accept(servers[0]);
    sim_redis_input(conn, command);
    sim_redis_hang_up(conn);
}

/* What fails in one partition fails there alone, and what was done before it is not done twice. */
static void p2_a_partition_that_fails_does_not_take_others_with_it(void **state)
{
    (void)state;
    start_on_one_server(2);
    push_names(0, 8);
    turns(SECOND_US);
    run_on_server(BYTES("*2\r\n$3\r\nDEL\r\n$7\r\n{q:1}:d\r\n"));
    run_on_server(BYTES("*3\r\n$3\r\nSET\r\n$7\r\n{q:1}:d\r\n$1\r\nx\r\n"));
    unsigned done = 0, failed = 0;
    for (unsigned i = 8; i < 24; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "id-%u", i);
        struct cmd push = push_of(names[i]);
        push.push.due_us = now_us + 10 * (int64_t)SECOND_US;
        (void)begin(i, &push);
    }
    turns(50 * MS);
    for (unsigned i = 8; i < 24; i++) {
        assert_int_equal(clients[i].answers, 1);
        done += clients[i].err == OK;
        failed += clients[i].err == ERR_AGAIN;
    }
    assert_int_equal(done + failed, 16);
    assert_in_range(done, 1, 15);
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        STARTED(pushes_of_one_turn_are_one_call_and_each_has_its_answer),
        STARTED(a_turns_requests_are_sent_before_its_answers),
        STARTED(a_call_takes_no_more_than_its_share),
        STARTED(a_call_takes_fewer_of_those_that_take_longer),
        STARTED(p4_ends_of_one_turn_are_one_call_and_a_stale_lease_ends_nothing),
        STARTED(a_turns_requests_about_one_job_keep_their_order),
        STARTED(ends_of_one_call_are_counted_in_their_topics),
        STARTED(an_end_is_counted_in_its_topic_whatever_else_the_turn_has),
        STARTED(p4_a_turns_ends_pushes_and_reserves_are_one_call),
        STARTED(p4_requests_of_all_kinds_to_several_partitions_are_one_call),
        STARTED(a_call_of_all_kinds_does_no_more_than_its_share),
        STARTED(p8_a_full_redis_refuses_pushes_that_go_behind_ends),
        STARTED(p2_p5_a_call_whose_answer_is_lost_is_done_once_for_each),
        STARTED(what_was_gathered_for_a_lost_connection_is_sent_over_the_next),
        STARTED(requests_to_partitions_of_one_server_are_one_call),
        STARTED(p4_reserves_from_partitions_of_one_server_are_one_call),
        STARTED(requests_to_a_cluster_are_a_call_for_each_partition),
        STARTED(p2_a_partition_that_fails_does_not_take_others_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
