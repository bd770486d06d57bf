/*
 * beanstalkd clients that want too much, or too little: limits, and patience, on the simulated
 * clock, network and disk.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "beanstalk_peer.h"
#include "core/core.h"
#include "server/server.h"

enum { WATCH_MAX = 4000 /* as the server has it */, MANY_JOBS = 25000 };

static void p8_limits_have_their_words(void **state)
{
    struct world *world = begin(&(struct world_options){
        .seed = 1, .max_bytes = 4 * SEGMENT_BYTES, .topics = 3, .connections = 2});
    struct sim_peer *ann = join(world), *bob = join(world);
    struct buf big = {0};
    (void)state;
    settle(world);
    struct sim_peer *cid = join(world);
    settle(world);
    expect(cid, "OUT_OF_MEMORY\r\n");
    assert_true(sim_peer_closed(cid));
    send_line(
        world, ann, "watch a\r\nwatch b\r\nuse c\r\nuse d\r\nwatch d\r\nlist-tube-used\r\n",
        "WATCHING 2\r\nWATCHING 3\r\nUSING c\r\nOUT_OF_MEMORY\r\nOUT_OF_MEMORY\r\nUSING c\r\n");
    send_line(world, bob, "use c\r\nwatch c\r\n", "USING c\r\nWATCHING 2\r\n");
    buf_addf(&big, "put 0 0 60 60000\r\n%060000d\r\n", 0);
    bool full = false;
    for (int i = 0; i < 30 && !full; i++) {
        sim_peer_send(bob, buf_bytes(&big));
        pass(world, SECOND_US);
        struct bytes have = sim_peer_received(bob);
        full = bytes_eq(have, BYTES("OUT_OF_MEMORY\r\n"));
        assert_true(full || bytes_starts(have, BYTES("INSERTED ")));
        sim_peer_take(bob, have.len);
    }
    assert_true(full);
    buf_fini(&big);
    world_free(world);
}

/* What is there must be worked off: a worker that was started again has its tubes to watch. */
static void p8_above_the_memory_limit_workers_can_begin(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct server *server = (struct server *)(uintptr_t)world_server(world);
    struct sim_peer *ann = join(world), *bob = join(world);
    char line[64];
    (void)state;
    send_line(world, ann, "use work\r\nput 0 0 60 1\r\na\r\n", "USING work\r\nINSERTED 1\r\n");
    server->options.limits.memory_bytes = 1;
    send_line(world, bob, "watch work\r\nignore default\r\nuse other\r\nreserve\r\ndelete 1\r\n",
              "WATCHING 2\r\nWATCHING 1\r\nUSING other\r\nRESERVED 1 1\r\na\r\nDELETED\r\n");
    for (int i = 2; i <= 16; i++) {
        (void)snprintf(line, sizeof(line), "watch t%d\r\n", i);
        send_text(bob, line);
    }
    settle(world);
    sim_peer_take(bob, sim_peer_received(bob).len);
    send_line(world, bob, "watch one-more\r\nignore t2\r\nwatch one-more\r\n",
              "OUT_OF_MEMORY\r\nWATCHING 15\r\nWATCHING 16\r\n");
    world_free(world);
}

static void p8_a_connection_watches_so_many_tubes_and_no_more(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1, .topics = 2 * WATCH_MAX});
    struct sim_peer *ann = join(world);
    struct buf asked = {0};
    (void)state;
    for (int i = 1; i < WATCH_MAX; i++) /* it watches "default" from the start */
        buf_addf(&asked, "watch t%d\r\n", i);
    sim_peer_send(ann, buf_bytes(&asked));
    settle(world);
    sim_peer_take(ann, sim_peer_received(ann).len);
    send_line(world, ann, "watch one-more\r\nwatch t1\r\nignore t1\r\nwatch one-more\r\n",
              "OUT_OF_MEMORY\r\nWATCHING 4000\r\nWATCHING 3999\r\nWATCHING 4000\r\n");
    sim_peer_free(ann);
    settle(world);
    expect_figure(world, "stats\r\n", "current-tubes", "1");
    buf_fini(&asked);
    world_free(world);
}

static void silence_is_no_fault_but_half_a_command_is(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world), *bob = join(world), *cid = join(world);
    (void)state;
    send_line(world, ann, "use t\r\n", "USING t\r\n");
    send_line(world, bob, "put 0 0 60 5\r\nab", "");
    send_line(world, cid, "reserve\r\n", "");
    pass(world, 29 * SECOND_US);
    send_line(world, bob, "c", "");
    assert_false(sim_peer_closed(bob));
    pass(world, 10 * SECOND_US); /* a byte now and then does not help */
    assert_true(sim_peer_closed(bob));
    pass(world, (int64_t)86400 * SECOND_US);
    assert_false(sim_peer_closed(ann));
    assert_false(sim_peer_closed(cid));
    send_line(world, ann, "use default\r\nput 0 0 60 0\r\n\r\n", "USING default\r\nINSERTED 1\r\n");
    expect(cid, "RESERVED 1 0\r\n\r\n");
    world_free(world);
}

static void who_does_not_read_is_not_read(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world);
    struct buf asked = {0}, wanted = {0};
    (void)state;
    buf_addf(&asked, "put 0 0 60 60000\r\n%060000d\r\n", 0);
    sim_peer_send(ann, buf_bytes(&asked));
    settle(world);
    expect(ann, "INSERTED 1\r\n");
    asked.len = 0;
    for (int i = 0; i < 100; i++) {
        buf_add_str(&asked, "peek 1\r\n");
        buf_addf(&wanted, "FOUND 1 60000\r\n%060000d\r\n", 0);
    }
    buf_add_char(&wanted, 0);
    sim_peer_window(ann, 10);
    size_t before = mem_used();
    sim_peer_send(ann, buf_bytes(&asked));
    settle(world);
    assert_in_range(mem_used() - before, 0, 1024 * 1024); /* 6 MB are asked for */
    sim_peer_window(ann, SIZE_MAX);
    settle(world);
    expect(ann, wanted.at);
    buf_fini(&asked);
    buf_fini(&wanted);
    world_free(world);
}

/* Else a byte now and then would keep the answers of one who never reads forever. */
static void who_only_writes_is_given_up_as_well(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world);
    struct buf asked = {0};
    (void)state;
    buf_addf(&asked, "put 0 0 60 60000\r\n%060000d\r\n", 0);
    for (int i = 0; i < 10; i++)
        buf_add_str(&asked, "peek 1\r\n");
    sim_peer_window(ann, 10);
    sim_peer_send(ann, buf_bytes(&asked));
    for (int i = 0; i < 8; i++) {
        pass(world, 5 * SECOND_US);
        assert_int_equal(sim_peer_closed(ann), i * 5 >= 30);
        send_text(ann, "p");
    }
    assert_true(sim_peer_closed(ann));
    buf_fini(&asked);
    world_free(world);
}

enum { MANY_TUBES = 2000, MANY_TIMES = 500 };

static void send_often(struct sim_peer *peer, const char *text)
{
    struct buf asked = {0};
    for (int i = 0; i < MANY_TIMES; i++)
        buf_add_str(&asked, text);
    sim_peer_send(peer, buf_bytes(&asked));
    buf_fini(&asked);
}

/* One client asks this so often that it would take long; another has one short question. */
static void expect_no_hold_up(struct world *world, struct sim_peer *ann, const char *asked,
                              const char *end)
{
    struct sim_peer *bob = join(world);
    send_often(ann, asked);
    send_text(ann, "use the-end\r\n");
    send_text(bob, "list-tube-used\r\n");
    while (sim_peer_received(bob).len == 0)
        assert_true(world_step(world, world_now_us(world)));
    struct bytes early = sim_peer_received(ann);
    size_t early_len = early.len;
    settle(world);
    struct bytes have = sim_peer_received(ann);
    assert_in_range(early_len, 1, have.len / 4);
    assert_true(have.len > strlen(end));
    assert_memory_equal(have.at + have.len - strlen(end), end, strlen(end));
    sim_peer_take(ann, have.len);
    sim_peer_free(bob);
}

/* Work, not commands, is what a turn takes a bounded slice of. */
static void commands_that_take_long_do_not_hold_up_others(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1, .topics = 2 * MANY_TUBES});
    struct sim_peer *ann = join(world);
    struct buf asked = {0};
    (void)state;
    for (int i = 0; i < MANY_TUBES; i++)
        buf_addf(&asked, "watch t%d\r\nuse t%d\r\nput 0 9 60 0\r\n\r\n", i, i);
    sim_peer_send(ann, buf_bytes(&asked));
    pass(world, SECOND_US);
    sim_peer_take(ann, sim_peer_received(ann).len);
    expect_no_hold_up(world, ann, "reserve-with-timeout 0\r\n", "TIMED_OUT\r\nUSING the-end\r\n");
    struct sim_peer *cid = join(world);
    sim_peer_free(ann); /* from now on the tubes are only topics with jobs */
    expect_no_hold_up(world, cid, "stats\r\n", "USING the-end\r\n");
    buf_fini(&asked);
    world_free(world);
}

static size_t reservations(const struct world *world)
{
    return map_count(&world_server(world)->beanstalk.reservations.by_seq);
}

/* A client reserves so many jobs, and asks again when they have all run out. */
static void reservations_that_have_run_out_are_dropped_over_several_turns(void **state)
{
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *ann = join(world);
    struct buf asked = {0};
    (void)state;
    for (unsigned i = 0; i < MANY_JOBS; i++)
        buf_add_str(&asked, "put 0 0 100 0\r\n\r\nreserve\r\n");
    sim_peer_send(ann, buf_bytes(&asked));
    while (pass(world, SECOND_US), sim_peer_received(ann).len > 0)
        sim_peer_take(ann, sim_peer_received(ann).len);
    assert_int_equal(reservations(world), MANY_JOBS);
    pass(world, 200 * (int64_t)SECOND_US);
    assert_int_equal(reservations(world), MANY_JOBS);
    send_text(ann, "reserve-with-timeout 0\r\n");
    for (size_t left = MANY_JOBS; left > 1; left = reservations(world)) {
        assert_true(world_step(world, world_now_us(world)));
        assert_in_range(left - reservations(world), 0, MANY_JOBS / 2);
    }
    settle(world);
    expect(ann, "RESERVED 1 0\r\n\r\n");
    buf_fini(&asked);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p8_limits_have_their_words),
        cmocka_unit_test(p8_above_the_memory_limit_workers_can_begin),
        cmocka_unit_test(p8_a_connection_watches_so_many_tubes_and_no_more),
        cmocka_unit_test(silence_is_no_fault_but_half_a_command_is),
        cmocka_unit_test(who_does_not_read_is_not_read),
        cmocka_unit_test(who_only_writes_is_given_up_as_well),
        cmocka_unit_test(commands_that_take_long_do_not_hold_up_others),
        cmocka_unit_test(reservations_that_have_run_out_are_dropped_over_several_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
