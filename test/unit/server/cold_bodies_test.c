/*
 * Jobs whose bodies are on the disk only, which takes 20 ms for a read: turns stay short, and what
 * is in memory does not wait for what is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "beanstalk_peer.h"
#include "engine/embedded/parts.h"
#include "server/server.h"
#include "store/body.h"
#include "store/stats.h"
#include "store/store.h"

enum {
    JOBS = 100000,
    PUT_AT_A_TIME = 500,
    READ_US = 20 * 1000,
    TURN_MAX_US = 5000,
    MEGA_SEGMENT_BYTES = 16 * 1024 * 1024,
};

/* How many turns took longer than the promised time. The clock stands still but for reads. */
static uint64_t long_turns(const struct world *world)
{
    struct server_counts counts;
    uint64_t count = 0;
    counts = world_server(world)->counts;
    for (unsigned bucket = 0; bucket < TURN_BUCKETS; bucket++)
        if (turn_bound_us(bucket) > TURN_MAX_US)
            count += counts.turn_us[bucket];
    return count;
}

/* A world with so many ready jobs in "default", none of whose bodies is in memory. */
static struct world *begin_cold(unsigned jobs, size_t body_len, struct world_options options)
{
    options.read_us = READ_US;
    options.segment_bytes = MEGA_SEGMENT_BYTES;
    struct world *world = begin(&options);
    struct sim_peer *peer = join(world);
    struct buf puts = {0};
    for (unsigned put = 0; put < jobs;) {
        for (unsigned i = 0; i < PUT_AT_A_TIME && put < jobs; i++, put++) {
            buf_addf(&puts, "put 0 0 3600 %zu\r\n%08u", body_len, put);
            for (size_t at = 8; at < body_len; at++)
                buf_add_char(&puts, 'x');
            buf_add_str(&puts, "\r\n");
        }
        sim_peer_send(peer, buf_bytes(&puts));
        puts.len = 0;
        pass(world, 1000);
        sim_peer_take(peer, sim_peer_received(peer).len);
    }
    buf_fini(&puts);
    pass(world, SECOND_US);
    assert_true(world_stop(world));
    assert_int_equal(world_boot(world), OK);
    sim_disk_cold(world_disk(world), true);
    return world;
}

/* Takes the answers that are there; checks that they are jobs; returns how many. */
static unsigned take_jobs(struct sim_peer *peer, size_t body_len, unsigned *io_next)
{
    unsigned count = 0;
    struct bytes have = sim_peer_received(peer);
    size_t at = 0;
    while (have.len - at > 0) {
        unsigned long long id;
        size_t len;
        unsigned number;
        const char *end = memmem(have.at + at, have.len - at, "\r\n", 2);
        if (!end || sscanf(have.at + at, "RESERVED %llu %zu", &id, &len) != 2)
            break;
        size_t head = (size_t)(end - (have.at + at)) + 2;
        if (have.len - at < head + len + 2)
            break;
        assert_int_equal(len, body_len);
        assert_int_equal(sscanf(have.at + at + head, "%8u", &number), 1);
        assert_int_equal(number + 1, id); /* the right body for the job */
        if (io_next)
            assert_int_equal(number, (*io_next)++);
        at += head + len + 2;
        count++;
    }
    sim_peer_take(peer, at);
    return count;
}

static void p8_no_turn_waits_for_cold_bodies_of_a_hundred_thousand_jobs(void **state)
{
    enum { CONSUMERS = 50, AT_ONCE = 20, SECONDS = 20, BODY = 100 };
    (void)state;
    struct world *world = begin_cold(JOBS, BODY, (struct world_options){.seed = 1});
    struct sim_peer *consumers[CONSUMERS];
    struct buf asks = {0};
    for (unsigned i = 0; i < AT_ONCE; i++)
        buf_add_str(&asks, "reserve\r\n");
    for (unsigned i = 0; i < CONSUMERS; i++)
        consumers[i] = join(world);
    unsigned got = 0;
    int64_t start_us = world_now_us(world);
    unsigned asked[CONSUMERS] = {0};
    while (got < JOBS && world_now_us(world) < start_us + SECONDS * (int64_t)SECOND_US) {
        for (unsigned i = 0; i < CONSUMERS; i++) {
            unsigned had = take_jobs(consumers[i], BODY, NULL);
            got += had;
            asked[i] -= had;
            if (asked[i] == 0) {
                sim_peer_send(consumers[i], buf_bytes(&asks));
                asked[i] = AT_ONCE;
            }
        }
        pass(world, 1000);
    }
    buf_fini(&asks);
    print_message("%u jobs in %lld ms\n", got, (long long)(world_now_us(world) - start_us) / 1000);
    assert_int_equal(got, JOBS);
    assert_int_equal(long_turns(world), 0);
    assert_true(store_read_bytes(world_store(world)) < 16 * 1024 * 1024);
    world_free(world);
}

static void one_consumer_is_served_in_order_faster_than_the_disk_reads(void **state)
{
    enum { SOME = 5000, BODY = 100 };
    (void)state;
    struct world *world = begin_cold(SOME, BODY, (struct world_options){.seed = 2});
    struct sim_peer *peer = join(world);
    int64_t start_us = world_now_us(world);
    unsigned got = 0;
    while (got < SOME) {
        send_text(peer, "reserve\r\n");
        unsigned before = got;
        while (got == before && world_now_us(world) < start_us + 100 * (int64_t)SECOND_US) {
            pass(world, 100);
            unsigned next = got;
            got += take_jobs(peer, BODY, &next);
        }
        assert_int_equal(got, before + 1);
    }
    int64_t took_us = world_now_us(world) - start_us;
    print_message("%u jobs in %lld ms\n", got, (long long)took_us / 1000);
    assert_true(took_us < SOME * (int64_t)READ_US / 10);
    assert_int_equal(long_turns(world), 0);
    world_free(world);
}

static void p6_who_leaves_while_a_body_is_read_leaves_its_job_in_its_place(void **state)
{
    (void)state;
    struct world *world = begin_cold(3, 10, (struct world_options){.seed = 3});
    struct sim_peer *leaver = join(world), *other = join(world);
    send_text(leaver, "reserve\r\n");
    pass(world, READ_US / 2);
    sim_peer_reset(leaver);
    pass(world, 10);
    unsigned next = 0;
    send_text(other, "reserve\r\n");
    pass(world, 2 * READ_US);
    assert_int_equal(take_jobs(other, 10, &next), 1); /* the first */
    pass(world, SECOND_US);
    world_free(world);
}

static void what_is_in_memory_overtakes_what_is_read(void **state)
{
    (void)state;
    struct world *world = begin_cold(1, 10, (struct world_options){.seed = 4});
    struct sim_peer *cold = join(world), *warm = join(world);
    send_text(cold, "reserve\r\n");
    send_text(warm, "reserve\r\n");
    settle(world);
    send_line(world, join(world), "put 0 0 60 8\r\n00000001\r\n", "INSERTED 2\r\n");
    pass(world, 1000);
    assert_int_equal(take_jobs(warm, 8, NULL), 1);
    assert_int_equal(sim_peer_received(cold).len, 0);
    pass(world, 2 * READ_US);
    assert_int_equal(take_jobs(cold, 10, NULL), 1);
    world_free(world);
}

/* Deletes the jobs from the first up to this one. */
static void delete_first(struct world *world, unsigned count)
{
    struct sim_peer *admin = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    for (unsigned job = 1; job <= count; job++) {
        struct buf request = {0};
        buf_addf(&request, "DELETE /v1/jobs/@%u HTTP/1.1\r\nHost: localhost\r\n\r\n", job);
        sim_peer_send(admin, buf_bytes(&request));
        buf_fini(&request);
        pass(world, READ_US / 10);
        assert_true(bytes_starts(sim_peer_received(admin), BYTES("HTTP/1.1 20")));
        sim_peer_take(admin, sim_peer_received(admin).len);
    }
    sim_peer_free(admin);
}

static void p5_a_job_that_is_deleted_while_its_body_is_read_is_not_delivered(void **state)
{
    (void)state;
    struct world *world = begin_cold(1, 10, (struct world_options){.seed = 5});
    struct sim_peer *peer = join(world);
    int64_t asked_us = world_now_us(world);
    send_text(peer, "reserve-with-timeout 5\r\n");
    pass(world, READ_US / 2);
    delete_first(world, 1);
    world_run(world, asked_us + 5 * (int64_t)SECOND_US - 10000);
    expect(peer, ""); /* it waits again, for the rest of its time */
    pass(world, 20000);
    expect(peer, "TIMED_OUT\r\n");
    world_free(world);
}

static void p5_a_job_that_is_deleted_while_it_is_read_for_who_named_it_is_not_found(void **state)
{
    (void)state;
    struct world *world = begin_cold(2, 10, (struct world_options){.seed = 14});
    struct sim_peer *peer = join(world);
    send_text(peer, "reserve-job 1\r\n");
    pass(world, READ_US / 2);
    delete_first(world, 1);
    pass(world, 2 * READ_US);
    expect(peer, "NOT_FOUND\r\n"); /* and no other job */
    world_free(world);
}

static void who_waits_on_for_a_deleted_job_gets_the_next_one(void **state)
{
    (void)state;
    struct world *world = begin_cold(2, 10, (struct world_options){.seed = 7});
    struct sim_peer *peer = join(world), *other = join(world), *hurried = join(world);
    send_text(hurried, "reserve-with-timeout 0\r\n");
    send_text(peer, "watch more\r\nreserve\r\ndelete 7\r\n");
    send_text(other, "use more\r\n");
    pass(world, READ_US / 4);
    delete_first(world, 2);
    pass(world, 2 * READ_US);
    expect(hurried, "TIMED_OUT\r\n");
    expect(peer, "WATCHING 2\r\n"); /* what it asked next waits, as behind any wait */
    pass(world, SECOND_US);
    send_text(other, "put 0 0 60 8\r\n00000002\r\n");
    pass(world, 10000);
    expect(peer, "RESERVED 3 8\r\n00000002\r\nNOT_FOUND\r\n");
    world_free(world);
}

static void a_deleted_job_leaves_the_wait_to_the_next_ready_one(void **state)
{
    (void)state;
    struct world *world = begin_cold(2, 10, (struct world_options){.seed = 8});
    struct sim_peer *peer = join(world);
    send_text(peer, "reserve-with-timeout 0\r\n");
    pass(world, READ_US / 2);
    delete_first(world, 1);
    pass(world, 2 * READ_US);
    unsigned next = 1;
    assert_int_equal(take_jobs(peer, 10, &next), 1);
    world_free(world);
}

static void p6_who_leaves_after_its_job_was_deleted_is_handed_no_other(void **state)
{
    (void)state;
    struct world *world = begin_cold(1, 10, (struct world_options){.seed = 9});
    struct sim_peer *leaver = join(world), *ended = join(world), *other = join(world);
    send_text(leaver, "reserve\r\n");
    pass(world, READ_US / 4);
    delete_first(world, 1);
    pass(world, 2 * READ_US);
    expect(leaver, "");
    sim_peer_reset(leaver);
    send_text(ended, "reserve\r\n");
    pass(world, 1000);
    sim_peer_shut(ended);
    pass(world, 1000);
    expect(ended, "TIMED_OUT\r\n");
    send_line(world, other, "put 0 0 60 8\r\n00000001\r\n", "INSERTED 2\r\n");
    send_text(other, "reserve-with-timeout 0\r\n");
    pass(world, 1000);
    assert_int_equal(take_jobs(other, 8, NULL), 1);
    world_free(world);
}

/* ---- an engine that brings jobs late, as that in Redis does ---- */

static struct {
    const struct engine_verbs *real;
    struct engine_verbs verbs;
    struct cmd cmd;
    struct ticket *ticket; /* of the reserve that is held back */
} late;

static enum submitted submit_late(struct engine *engine, const struct cmd *cmd,
                                  struct ticket *ticket)
{
    static const struct bytes topic = {.at = "default", .len = 7};
    if (cmd->kind != CMD_RESERVE && cmd->kind != CMD_RESERVE_JOB)
        return late.real->submit(engine, cmd, ticket);
    late.cmd = *cmd;
    if (cmd->kind == CMD_RESERVE)
        late.cmd.reserve.topics = &topic;
    late.ticket = ticket;
    return SUBMIT_PARKED;
}

static void cancel_late(struct engine *engine, struct ticket *ticket)
{
    if (late.ticket == ticket)
        late.ticket = NULL;
    else
        late.real->cancel(engine, ticket);
}

static void bring_late(struct world *world)
{
    struct engine *engine = embedded_engine(world_embedded(world));
    assert_non_null(late.ticket);
    (void)late.real->submit(engine, &late.cmd, late.ticket);
    late.ticket = NULL;
    settle(world);
}

/* As `printf '…' | nc -N` ends its sending at once. What is ready it may have, though it comes from
   far; it waits for no other. */
static void a_half_closed_client_gets_what_comes_late(void **state)
{
    static const char *const lines[] = {"reserve-with-timeout 0\r\nlist-tube-used\r\n",
                                        "reserve-job 1\r\nlist-tube-used\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct world *world = begin(&(struct world_options){.seed = 11});
        struct engine *engine = embedded_engine(world_embedded(world));
        struct sim_peer *peer = join(world), *waiting = join(world);
        late.real = engine->verbs;
        late.verbs = *engine->verbs;
        late.verbs.submit = submit_late;
        late.verbs.cancel = cancel_late;
        engine->verbs = &late.verbs;
        send_line(world, peer, "put 0 0 60 1\r\na\r\n", "INSERTED 1\r\n");
        send_line(world, waiting, "reserve-with-timeout 1\r\n", "");
        sim_peer_shut(waiting);
        settle(world);
        expect(waiting, "TIMED_OUT\r\n");
        send_line(world, peer, lines[i], "");
        sim_peer_shut(peer);
        settle(world);
        expect(peer, "");
        bring_late(world);
        expect(peer, "RESERVED 1 1\r\na\r\nUSING default\r\n");
        assert_true(sim_peer_closed(peer));
        engine->verbs = late.real;
        world_free(world);
    }
}

static void a_long_poll_waits_on_when_its_job_is_deleted(void **state)
{
    (void)state;
    struct world *world = begin_cold(1, 10, (struct world_options){.seed = 10});
    struct sim_peer *poller = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    send_text(poller, "POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\n"
                      "Content-Length: 34\r\n\r\n{\"topics\":[\"default\"],\"wait\":\"5s\"}");
    pass(world, READ_US / 2);
    delete_first(world, 1);
    pass(world, SECOND_US);
    expect(poller, "");
    send_line(world, join(world), "put 0 0 60 8\r\n00000001\r\n", "INSERTED 2\r\n");
    pass(world, 1000);
    assert_true(bytes_starts(sim_peer_received(poller), BYTES("HTTP/1.1 200")));
    world_free(world);
}

static void the_whole_ttr_is_left_when_a_job_is_handed_out_late(void **state)
{
    (void)state;
    struct world_options options = {.seed = 6, .read_us = READ_US};
    struct world *world = begin(&options);
    struct sim_peer *peer = join(world);
    send_line(world, peer, "put 0 0 1 8\r\n00000000\r\n", "INSERTED 1\r\n");
    pass(world, SECOND_US);
    assert_true(world_stop(world));
    assert_int_equal(world_boot(world), OK);
    sim_disk_cold(world_disk(world), true);
    peer = join(world);
    send_text(peer, "reserve\r\n");
    settle(world);
    world_hold_disk(world, true);
    pass(world, 5 * (int64_t)SECOND_US); /* the read takes longer than the ttr */
    assert_int_equal(sim_peer_received(peer).len, 0);
    world_hold_disk(world, false);
    pass(world, 1000);
    assert_int_equal(take_jobs(peer, 8, NULL), 1);
    assert_string_equal(figure(world, peer, "stats-job 1\r\n", "timeouts"), "0");
    pass(world, SECOND_US * 9 / 10);
    send_line(world, peer, "touch 1\r\n", "TOUCHED\r\n");
    world_free(world);
}

/* Of how many replies that wait the jobs' leases end by then. */
static unsigned renewals_by(const struct world *world, int64_t until_us)
{
    const struct embedded *embedded = (const void *)world_server(world)->engine;
    const struct heap *heap = &embedded->bodies.renewals;
    unsigned count = 0;
    for (uint32_t i = 0; i < heap->count; i++)
        count += heap->nodes[i]->key <= until_us;
    return count;
}

static void p8_leases_of_replies_that_wait_are_renewed_in_slices(void **state)
{
    enum { PEERS = 60, TTR_S = 20 };
    (void)state;
    struct world_options options = {.seed = 14, .read_us = READ_US, .turn_ns = 2000};
    struct world *world = begin(&options);
    struct sim_peer *peer = join(world), *peers[PEERS];
    unsigned most = 0, due;
    char put[40];
    for (unsigned i = 0; i < PEERS; i++) {
        (void)snprintf(put, sizeof(put), "put 0 0 %d 8\r\n%08u\r\n", TTR_S, i);
        send_text(peer, put);
    }
    pass(world, SECOND_US);
    assert_true(world_stop(world));
    assert_int_equal(world_boot(world), OK);
    sim_disk_cold(world_disk(world), true);
    world_hold_disk(world, true);
    for (unsigned i = 0; i < PEERS; i++) {
        peers[i] = join(world);
        send_text(peers[i], "reserve\r\n");
    }
    pass(world, 1000);
    int64_t end_us = world_now_us(world) + TTR_S * (int64_t)SECOND_US;
    assert_int_equal(renewals_by(world, end_us), PEERS);
    for (unsigned left = PEERS; (due = renewals_by(world, end_us)) > 0; left = due) {
        most = left - due > most ? left - due : most;
        assert_true(world_now_us(world) < end_us);
        (void)world_step(world, world_now_us(world) + SECOND_US / 20);
    }
    assert_in_range(most, 1, PEERS / 2);
    pass(world, 5 * (int64_t)SECOND_US);
    world_hold_disk(world, false);
    pass(world, SECOND_US);
    for (unsigned i = 0; i < PEERS; i++)
        assert_int_equal(take_jobs(peers[i], 8, NULL), 1);
    world_free(world);
}

/* So many large ones that the disk's threads do not read all of the second reply's at once. */
static void a_reply_waits_for_the_bodies_of_all_its_jobs(void **state)
{
    enum { EACH = 9, LARGE = 60 * 1000 };
    (void)state;
    struct world *world = begin_cold(2 * EACH, LARGE, (struct world_options){.seed = 11});
    struct sim_peer *peers[2];
    for (unsigned i = 0; i < 2; i++) {
        peers[i] = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
        send_text(peers[i], "POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\n"
                            "Content-Length: 30\r\n\r\n{\"topics\":[\"default\"],\"max\":9}");
        settle(world);
    }
    pass(world, SECOND_US);
    for (unsigned job = 0; job < 2 * EACH; job++) {
        char want[16];
        int len = snprintf(want, sizeof(want), "%08uxxx", job);
        struct bytes have = sim_peer_received(peers[job / EACH]);
        assert_non_null(memmem(have.at, have.len, want, (size_t)len));
    }
    world_free(world);
}

/* The second job's lease would end long before the first one's. */
static void p4_each_job_of_a_reply_is_held_while_bodies_are_read(void **state)
{
    (void)state;
    struct world_options options = {.seed = 15, .read_us = 5 * SECOND_US / 2};
    struct world *world = begin(&options);
    struct sim_peer *peer = join(world);
    send_text(peer, "put 0 0 3600 5\r\nfirst\r\nput 0 0 1 6\r\nsecond\r\n");
    pass(world, SECOND_US);
    assert_true(world_stop(world));
    assert_int_equal(world_boot(world), OK);
    sim_disk_cold(world_disk(world), true);
    peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    send_text(peer, "POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\n"
                    "Content-Length: 30\r\n\r\n{\"topics\":[\"default\"],\"max\":2}");
    pass(world, 10 * SECOND_US);
    struct bytes have = sim_peer_received(peer);
    assert_non_null(memmem(have.at, have.len, "first", strlen("first")));
    assert_non_null(memmem(have.at, have.len, "second", strlen("second")));
    world_free(world);
}

/* A thousand jobs that stay in the oldest segments, while others come and go behind them. */
static void p8_no_turn_waits_while_cold_segments_are_cleaned(void **state)
{
    enum { STAY = 1000, ROUNDS = 4000, BODY = 1000 };
    (void)state;
    struct world_options options = {.seed = 12, .read_us = READ_US};
    struct world *world = begin(&options);
    struct sim_peer *peer = join(world);
    struct buf puts = {0};
    for (unsigned i = 0; i < STAY; i++)
        buf_addf(&puts, "put 0 1000 60 %u\r\n%0*u\r\n", BODY, BODY, i);
    sim_peer_send(peer, buf_bytes(&puts));
    pass(world, SECOND_US);
    sim_peer_take(peer, sim_peer_received(peer).len);
    assert_true(world_stop(world));
    assert_int_equal(world_boot(world), OK);
    sim_disk_cold(world_disk(world), true);
    peer = join(world);
    for (unsigned round = 0; round < ROUNDS; round++) {
        char text[48];
        puts.len = 0;
        buf_addf(&puts, "put 1 0 60 %u\r\n%0*u\r\n", BODY, BODY, round);
        sim_peer_send(peer, buf_bytes(&puts));
        pass(world, 1000);
        unsigned long long id;
        assert_int_equal(sscanf(sim_peer_received(peer).at, "INSERTED %llu", &id), 1);
        sim_peer_take(peer, sim_peer_received(peer).len);
        (void)snprintf(text, sizeof(text), "delete %llu\r\n", id);
        send_line(world, peer, text, "DELETED\r\n");
    }
    buf_fini(&puts);
    struct store_stats stats;
    store_stats(world_store(world), &stats);
    print_message("%llu segments cleaned, %llu jobs relocated\n",
                  (unsigned long long)stats.checkpoints, (unsigned long long)stats.relocated_jobs);
    assert_true(stats.checkpoints > 10 && stats.relocated_jobs >= STAY);
    assert_int_equal(long_turns(world), 0);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p6_who_leaves_while_a_body_is_read_leaves_its_job_in_its_place),
        cmocka_unit_test(what_is_in_memory_overtakes_what_is_read),
        cmocka_unit_test(p5_a_job_that_is_deleted_while_its_body_is_read_is_not_delivered),
        cmocka_unit_test(p5_a_job_that_is_deleted_while_it_is_read_for_who_named_it_is_not_found),
        cmocka_unit_test(who_waits_on_for_a_deleted_job_gets_the_next_one),
        cmocka_unit_test(a_deleted_job_leaves_the_wait_to_the_next_ready_one),
        cmocka_unit_test(p6_who_leaves_after_its_job_was_deleted_is_handed_no_other),
        cmocka_unit_test(a_half_closed_client_gets_what_comes_late),
        cmocka_unit_test(a_long_poll_waits_on_when_its_job_is_deleted),
        cmocka_unit_test(a_reply_waits_for_the_bodies_of_all_its_jobs),
        cmocka_unit_test(p4_each_job_of_a_reply_is_held_while_bodies_are_read),
        cmocka_unit_test(p8_no_turn_waits_while_cold_segments_are_cleaned),
        cmocka_unit_test(the_whole_ttr_is_left_when_a_job_is_handed_out_late),
        cmocka_unit_test(p8_leases_of_replies_that_wait_are_renewed_in_slices),
        cmocka_unit_test(one_consumer_is_served_in_order_faster_than_the_disk_reads),
        cmocka_unit_test(p8_no_turn_waits_for_cold_bodies_of_a_hundred_thousand_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
