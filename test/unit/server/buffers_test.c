/*
 * Connections that take more memory than there is for them, or more time: on the simulated clock
 * and network. Both protocols.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "beanstalk_peer.h"
#include "server/server.h"
#include "server/session.h"
#include "wire.h"

enum { KIB = 1024, MIB = 1024 * 1024, LIMIT = MIB };

static struct sim_peer *join_http(struct world *world)
{
    return sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
}

static void send_some_of(struct sim_peer *peer, size_t len)
{
    struct buf some = {0};
    buf_reserve(&some, len);
    memset(some.at, 'x', len);
    some.len = len;
    sim_peer_send(peer, buf_bytes(&some));
    buf_fini(&some);
}

/* The beginning of a push whose body is that long. */
static void begin_push(struct sim_peer *peer, bool http, size_t len)
{
    struct buf head = {0};
    if (http)
        buf_addf(&head,
                 "POST /v1/topics/t/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                 "application/json\r\n"
                 "Content-Length: %zu\r\n\r\n",
                 len);
    else
        buf_addf(&head, "put 0 0 60 %zu\r\n", len);
    sim_peer_send(peer, buf_bytes(&head));
    buf_fini(&head);
}

static int status_of(struct sim_peer *peer)
{
    struct wire_answer answer;
    return wire_cut(sim_peer_received(peer), &answer) ? answer.status : 0;
}

static bool has(struct sim_peer *peer, const char *text)
{
    return wire_find(sim_peer_received(peer), bytes_str(text)) != NULL;
}

static void push_is_taken(struct world *world, struct sim_peer *honest)
{
    static const char push[] = "{\"body\":1}";
    struct buf asked = {0};
    wire_request(&asked, BYTES("POST"), BYTES("/v1/topics/honest/jobs"), "application/json",
                 bytes_str(push));
    sim_peer_send(honest, buf_bytes(&asked));
    settle(world);
    assert_int_equal(status_of(honest), 201);
    sim_peer_take(honest, sim_peer_received(honest).len);
    buf_fini(&asked);
}

/* ---- time ---- */

static void a_request_that_dribbles_is_ended(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join_http(world), *bob = join(world), *cid = join_http(world);
    (void)state;
    begin_push(ann, true, 1000);
    begin_push(bob, false, 1000);
    send_text(cid, "G");
    for (int second = 0; second < 36; second++) { /* timers may be 5 s late */
        pass(world, SECOND_US);
        send_text(ann, "x");
        send_text(bob, "x");
        send_text(cid, "E");
        if (second == 28)
            assert_false(sim_peer_closed(ann) || sim_peer_closed(bob) || sim_peer_closed(cid));
    }
    assert_int_equal(status_of(ann), 408);
    assert_int_equal(status_of(cid), 408);
    assert_true(sim_peer_closed(ann) && sim_peer_closed(bob) && sim_peer_closed(cid));
    world_free(world);
}

static bool is_taken_at(bool http, size_t bytes_per_s)
{
    enum { BODY = 5 * MIB };
    struct world *world = begin(&(struct world_options){
        .seed = 1, .body_bytes = BODY, .beanstalk_body_bytes = BODY, .segment_bytes = 16 * MIB});
    struct sim_peer *ann = http ? join_http(world) : join(world);
    begin_push(ann, http, http ? BODY + 11 : BODY);
    if (http)
        send_text(ann, "{\"body\":\"");
    for (size_t sent = 0; sent < BODY && !sim_peer_closed(ann); sent += bytes_per_s) {
        size_t left = BODY - sent;
        send_some_of(ann, left < bytes_per_s ? left : bytes_per_s);
        pass(world, SECOND_US);
    }
    send_text(ann, http ? "\"}" : "\r\n");
    pass(world, SECOND_US);
    bool taken = http ? status_of(ann) == 201 : has(ann, "INSERTED 1\r\n");
    assert_int_equal(sim_peer_closed(ann), !taken);
    world_free(world);
    return taken;
}

static void a_large_request_may_come_slowly_but_not_at_any_speed(void **state)
{
    (void)state;
    assert_true(is_taken_at(true, 80 * KIB)); /* 64 s */
    assert_true(is_taken_at(false, 80 * KIB));
    assert_false(is_taken_at(true, 20 * KIB));
    assert_false(is_taken_at(false, 20 * KIB));
}

/* A job of 600 KB is asked for; the client takes so much of it at once, and then each second. */
static bool is_served_at(bool http, size_t bytes_per_s)
{
    enum { BODY = 600 * KIB };
    struct world *world = begin(&(struct world_options){
        .seed = 1, .beanstalk_body_bytes = BODY, .segment_bytes = 16 * MIB});
    struct sim_peer *ann = http ? join_http(world) : join(world), *bob = join(world);
    begin_push(bob, false, BODY);
    send_some_of(bob, BODY);
    send_line(world, bob, "\r\n", "INSERTED 1\r\n");
    sim_peer_window(ann, bytes_per_s);
    send_text(ann, http ? "GET /v1/jobs/@1 HTTP/1.1\r\nHost: localhost\r\n\r\n" : "peek 1\r\n");
    for (int second = 0; second < 200 && !sim_peer_closed(ann); second++) {
        pass(world, SECOND_US);
        sim_peer_window(ann, bytes_per_s);
    }
    bool served = sim_peer_received(ann).len > BODY;
    world_free(world);
    return served;
}

static void an_answer_may_be_taken_slowly_but_not_byte_by_byte(void **state)
{
    (void)state;
    assert_true(is_served_at(true, 4 * KIB));
    assert_true(is_served_at(false, 4 * KIB));
    assert_false(is_served_at(true, 10));
    assert_false(is_served_at(false, 10));
    assert_false(is_served_at(true, KIB));
}

/* ---- memory ---- */

enum { ATTACKERS = 40, PART = 100 * KIB };

static void p8_requests_that_are_not_whole_stay_inside_the_limit(bool http)
{
    struct world *world = begin(&(struct world_options){
        .seed = 1, .buffer_bytes = LIMIT, .beanstalk_body_bytes = 2 * PART});
    struct sim_peer *attackers[ATTACKERS], *honest = join_http(world);
    push_is_taken(world, honest);
    for (int i = 0; i < ATTACKERS; i++) {
        attackers[i] = http ? join_http(world) : join(world);
        begin_push(attackers[i], http, 2 * PART);
        send_some_of(attackers[i], PART);
        settle(world);
        assert_true(world_server(world)->buffers.bytes <= LIMIT);
        push_is_taken(world, honest);
    }
    assert_true(sim_peer_closed(attackers[0])); /* of equals, who did nothing for longest */
    assert_false(sim_peer_closed(attackers[ATTACKERS - 1]));
    assert_false(sim_peer_closed(honest));
    assert_true(world_server(world)->counts.evicted >= ATTACKERS / 2);
    if (http)
        assert_int_equal(status_of(attackers[0]), 503);
    assert_true(has(attackers[0], http ? "memory_limit" : "OUT_OF_MEMORY\r\n"));
    for (int i = 0; i < ATTACKERS; i++)
        sim_peer_free(attackers[i]);
    settle(world);
    assert_int_equal(world_server(world)->buffers.bytes, 0);
    world_free(world);
}

static void p8_http_requests_that_are_not_whole_stay_inside_the_limit(void **state)
{
    (void)state;
    p8_requests_that_are_not_whole_stay_inside_the_limit(true);
}

static void p8_puts_that_are_not_whole_stay_inside_the_limit(void **state)
{
    (void)state;
    p8_requests_that_are_not_whole_stay_inside_the_limit(false);
}

/* Jobs that were handed to clients which take no answers go back when these are closed. */
static void p6_p8_answers_that_nobody_takes_stay_inside_the_limit(bool http)
{
    struct world *world = begin(&(struct world_options){
        .seed = 1, .buffer_bytes = LIMIT, .beanstalk_body_bytes = PART, .segment_bytes = 16 * MIB});
    struct sim_peer *attackers[ATTACKERS], *honest = join_http(world), *bob = join(world);
    for (int i = 0; i < ATTACKERS; i++) {
        begin_push(bob, false, PART);
        send_some_of(bob, PART);
        send_text(bob, "\r\n");
        settle(world);
    }
    push_is_taken(world, honest);
    for (int i = 0; i < ATTACKERS; i++) {
        attackers[i] = http ? join_http(world) : join(world);
        sim_peer_window(attackers[i], 10);
        send_text(attackers[i], http ? "POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\n"
                                       "Content-Length: 22\r\n\r\n{\"topics\":[\"default\"]}"
                                     : "reserve\r\n");
        settle(world);
        assert_true(world_server(world)->buffers.bytes <= LIMIT);
        push_is_taken(world, honest);
    }
    uint64_t evicted = world_server(world)->counts.evicted;
    assert_in_range(evicted, ATTACKERS / 2, ATTACKERS - 1);
    assert_true(sim_peer_closed(attackers[0]));
    char left[24];
    (void)snprintf(left, sizeof(left), "%llu", (unsigned long long)(ATTACKERS - evicted));
    expect_figure(world, "stats-tube default\r\n", "current-jobs-reserved", left);
    world_free(world);
}

static void p6_p8_http_answers_that_nobody_takes_stay_inside_the_limit(void **state)
{
    (void)state;
    p6_p8_answers_that_nobody_takes_stay_inside_the_limit(true);
}

static void p6_p8_reserved_jobs_that_nobody_takes_stay_inside_the_limit(void **state)
{
    (void)state;
    p6_p8_answers_that_nobody_takes_stay_inside_the_limit(false);
}

/* What closed connections had is freed in slices, but as fast as others fill more. */
static void p8_memory_of_closed_connections_is_freed_as_fast_as_it_comes(bool http)
{
    enum { COUNT = 120, HALF = 3 * MIB, ROOM = 12 * MIB, BACKLOG = 8 * MIB };
    struct world *world = begin(&(struct world_options){
        .seed = 1, .buffer_bytes = ROOM, .body_bytes = 2 * HALF, .beanstalk_body_bytes = 2 * HALF});
    const struct server *server = world_server(world);
    size_t most = 0;
    for (int i = 0; i < COUNT; i++) {
        struct sim_peer *peer = http ? join_http(world) : join(world);
        begin_push(peer, http, 2 * HALF);
        send_some_of(peer, HALF);
    }
    int64_t until_us = world_now_us(world) + SECOND_US;
    while (world_step(world, until_us)) {
        if (server->discard.bytes > most)
            most = server->discard.bytes;
    }
    assert_true(server->counts.evicted >= COUNT / 2);
    assert_in_range(most, MIB, BACKLOG);
    assert_int_equal(server->discard.bytes, 0);
    world_free(world);
}

static void p8_memory_of_closed_http_clients_is_freed_as_fast_as_it_comes(void **state)
{
    (void)state;
    p8_memory_of_closed_connections_is_freed_as_fast_as_it_comes(true);
}

static void p8_memory_of_closed_beanstalk_clients_is_freed_as_fast_as_it_comes(void **state)
{
    (void)state;
    p8_memory_of_closed_connections_is_freed_as_fast_as_it_comes(false);
}

/* The network keeps what evicted clients had not taken. */
static void p8_what_the_network_has_still_to_free_counts_and_is_freed(void **state)
{
    enum { ROOM = 12 * MIB, KEPT = 7 * MIB };
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 1, .buffer_bytes = ROOM});
    const struct server *server = world_server(world);
    struct loop *loop = sim_loop_port(world_loop(world));
    struct buf kept = {0};
    settle(world);
    assert_false(buffers_tight(server));
    buf_reserve_to(&kept, KEPT, KEPT);
    discard_buf(&loop->discard, &kept);
    assert_true(buffers_tight(server)); /* so that less is read meanwhile */
    (void)join(world);                  /* for a turn: others follow by themselves */
    settle(world);
    assert_int_equal(loop->discard.bytes, 0);
    assert_false(buffers_tight(server));
    world_free(world);
}

static void who_has_left_keeps_no_memory_of_its_connections(void **state)
{
    enum { PUT = 3 * MIB };
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 1, .beanstalk_body_bytes = PUT});
    struct sim_peer *peer = join(world);
    begin_push(peer, false, PUT);
    send_some_of(peer, PUT - 1);
    settle(world);
    struct acceptor *acceptor = sim_loop_port(world_loop(world))->acceptor;
    size_t before = mem_used();
    server_abandon(LIST_ENTRY(acceptor, struct server, acceptor)); /* it has no more turns */
    assert_true(mem_used() < before - PUT / 2);
    assert_int_equal(world_server(world)->discard.bytes, 0);
    world_free(world);
}

static void p8_the_largest_is_closed_first(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1, .buffer_bytes = 3 * LIMIT / 2});
    struct sim_peer *small = join_http(world), *large = join_http(world), *last = join_http(world);
    (void)state;
    begin_push(small, true, MIB);
    send_some_of(small, 200 * KIB);
    settle(world);
    begin_push(large, true, MIB);
    send_some_of(large, 600 * KIB);
    settle(world);
    assert_false(sim_peer_closed(small) || sim_peer_closed(large));
    begin_push(last, true, MIB);
    send_some_of(last, 300 * KIB);
    settle(world);
    assert_true(sim_peer_closed(large));
    assert_false(sim_peer_closed(small) || sim_peer_closed(last));
    world_free(world);
}

static void p8_input_behind_parked_polls_stays_inside_the_limit(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1, .buffer_bytes = LIMIT});
    struct sim_peer *polls[ATTACKERS], *honest = join_http(world);
    (void)state;
    for (int i = 0; i < ATTACKERS; i++) {
        polls[i] = join_http(world);
        send_text(polls[i], "POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\n"
                            "Content-Length: 29\r\n\r\n{\"topics\":[\"t\"],\"wait\":\"60s\"}");
        send_some_of(polls[i], PART);
        settle(world);
        assert_true(world_server(world)->buffers.bytes <= LIMIT);
        push_is_taken(world, honest);
    }
    assert_true(sim_peer_closed(polls[0]));
    assert_int_equal(status_of(polls[0]), 503);
    world_free(world);
}

/* limits.reserve_topics may be thousands. */
static void p8_what_a_poll_waits_for_counts(void **state)
{
    enum { TOPICS = 64, LINK_BYTES = 24 };
    struct world *world = begin(&(struct world_options){.seed = 1});
    const struct server *server = world_server(world);
    struct buf body = {0}, request = {0};
    (void)state;
    buf_add_str(&body, "{\"wait\":\"60s\",\"topics\":[\"t\"");
    for (unsigned i = 1; i < TOPICS; i++)
        buf_addf(&body, ",\"t%u\"", i);
    buf_add_str(&body, "]}");
    buf_addf(&request,
             "POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
             body.len);
    buf_add_bytes(&request, buf_bytes(&body));
    struct sim_peer *poll = join_http(world);
    sim_peer_send(poll, buf_bytes(&request));
    settle(world);
    assert_true(server->buffers.bytes >= TOPICS * LINK_BYTES + KIB);
    sim_peer_reset(poll);
    settle(world);
    assert_int_equal(server->buffers.bytes, 0);
    buf_fini(&body);
    buf_fini(&request);
    world_free(world);
}

static void p8_some_memory_of_answers_that_were_sent_is_kept_for_others(void **state)
{
    enum { PEERS = SPARE_OUTS + 4, LONG = 3 * SPARE_OUT_MAX_BYTES };
    struct world *world = begin(&(struct world_options){.seed = 1});
    const struct server *server = world_server(world);
    const struct spare_outs *spares = &server->spare_outs;
    struct sim_peer *peers[PEERS];
    (void)state;
    for (int i = 0; i < PEERS; i++)
        peers[i] = join(world);
    begin_push(peers[0], false, LONG);
    send_some_of(peers[0], LONG);
    send_text(peers[0], "\r\n");
    settle(world);
    expect(peers[0], "INSERTED 1\r\n");
    send_text(peers[0], "reserve\r\n");
    settle(world);
    assert_true(has(peers[0], "RESERVED 1 "));
    assert_int_equal(spares->count, 0); /* such a long one is not kept */
    for (int i = 0; i < PEERS; i++)
        send_text(peers[i], "stats\r\nstats\r\n"); /* two KiB */
    settle(world);
    assert_int_equal(spares->count, SPARE_OUTS);
    for (unsigned i = 0; i < SPARE_OUTS; i++) {
        assert_in_range(spares->bufs[i].cap, 1, SPARE_OUT_MAX_BYTES);
        for (unsigned j = 0; j < i; j++)
            assert_ptr_not_equal(spares->bufs[i].at, spares->bufs[j].at);
    }
    for (const struct list *link = server->all.next; link != &server->all; link = link->next)
        assert_in_range(LIST_ENTRY(link, const struct session, all)->out.cap, 0, KIB);
    world_free(world);
}

/* ---- what a client gets of a turn, and what answers leave ---- */

static struct session *session_of(const struct world *world)
{
    return LIST_ENTRY(world_server(world)->all.next, struct session, all);
}

static void all_input_of_a_visit_shares_its_part_of_the_turn(void **state)
{
    enum { PART_NS = 150 * 1000, STEP_NS = 20 * 1000, PIECES = 100 };
    static const char piece[] = "use a\r\nuse b\r\nuse c\r\nuse d\r\nuse e\r\nuse f\r\n";
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world);
    (void)state;
    send_line(world, ann, "use a\r\n", "USING a\r\n");
    struct session *session = session_of(world);
    struct server *server = session->server;
    budget_begin(&server->budget, 10 * PART_NS);
    server->share.visit(&server->share);
    for (int i = 0; i < PIECES && server->budget.left_ns > 9 * PART_NS; i++) {
        size_t used = session->stream->handler->input(session->stream, bytes_str(piece));
        assert_true(used == strlen(piece) || server->budget.left_ns < 9 * PART_NS + STEP_NS);
    }
    int64_t left_ns = server->budget.left_ns;
    size_t used = session->stream->handler->input(session->stream, bytes_str(piece));
    assert_int_equal(used, 0);
    assert_in_range(left_ns, 9 * PART_NS - STEP_NS, 9 * PART_NS);
    world_free(world);
}

static void p8_memory_of_sent_answers_counts_and_is_freed_before_a_client_is_closed(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1, .buffer_bytes = LIMIT});
    struct sim_peer *ann = join(world);
    (void)state;
    begin_push(ann, false, 6 * KIB);
    send_some_of(ann, 6 * KIB);
    send_line(world, ann, "\r\n", "INSERTED 1\r\n");
    send_text(ann, "peek 1\r\n");
    settle(world);
    sim_peer_take(ann, sim_peer_received(ann).len);
    struct session *session = session_of(world);
    struct server *server = session->server;
    assert_int_equal(server->spare_outs.count, 1);
    size_t spare = server->spare_outs.bufs[0].cap;
    assert_in_range(spare, 6 * KIB, SPARE_OUT_MAX_BYTES);
    assert_int_equal(server->buffers.bytes, session->footprint + spare);
    server->buffers.max_bytes = server->buffers.bytes - spare / 2;
    send_line(world, ann, "use a\r\n", "USING a\r\n");
    assert_int_equal(server->spare_outs.count, 0);
    assert_int_equal(server->buffers.bytes, session->footprint);
    assert_int_equal(server->counts.evicted, 0);
    assert_false(sim_peer_closed(ann));
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_that_dribbles_is_ended),
        cmocka_unit_test(a_large_request_may_come_slowly_but_not_at_any_speed),
        cmocka_unit_test(an_answer_may_be_taken_slowly_but_not_byte_by_byte),
        cmocka_unit_test(p8_http_requests_that_are_not_whole_stay_inside_the_limit),
        cmocka_unit_test(p8_puts_that_are_not_whole_stay_inside_the_limit),
        cmocka_unit_test(p6_p8_http_answers_that_nobody_takes_stay_inside_the_limit),
        cmocka_unit_test(p6_p8_reserved_jobs_that_nobody_takes_stay_inside_the_limit),
        cmocka_unit_test(p8_memory_of_closed_http_clients_is_freed_as_fast_as_it_comes),
        cmocka_unit_test(p8_memory_of_closed_beanstalk_clients_is_freed_as_fast_as_it_comes),
        cmocka_unit_test(p8_what_the_network_has_still_to_free_counts_and_is_freed),
        cmocka_unit_test(who_has_left_keeps_no_memory_of_its_connections),
        cmocka_unit_test(p8_the_largest_is_closed_first),
        cmocka_unit_test(p8_input_behind_parked_polls_stays_inside_the_limit),
        cmocka_unit_test(p8_what_a_poll_waits_for_counts),
        cmocka_unit_test(p8_some_memory_of_answers_that_were_sent_is_kept_for_others),
        cmocka_unit_test(all_input_of_a_visit_shares_its_part_of_the_turn),
        cmocka_unit_test(p8_memory_of_sent_answers_counts_and_is_freed_before_a_client_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
