/*
 * Requests of many commands (/v1/get, pushes of an array): what an answer shows, and what may
 * happen before such a request is done.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "beanstalk_peer.h"
#include "core/core.h"
#include "server/server.h"
#include "wire.h"

enum { SHOWN_BODY_MAX = 64 * 1024, SHOWN_MAX = 1024 * 1024 };

static void send_buf(struct sim_peer *peer, struct buf *data)
{
    sim_peer_send(peer, buf_bytes(data));
    buf_fini(data);
}

static void post(struct sim_peer *peer, const char *path, struct buf *body)
{
    struct buf data = {0};
    wire_request(&data, BYTES("POST"), bytes_str(path), "application/json", buf_bytes(body));
    send_buf(peer, &data);
    buf_fini(body);
}

/* The jobs "j0", "j1" … as an array, with bodies of so many bytes. */
static void add_jobs(struct buf *out, unsigned count, size_t body_bytes)
{
    for (unsigned i = 0; i < count; i++) {
        buf_addf(out, "%c{\"id\":\"j%u\",\"body\":\"", i ? ',' : '[', i);
        for (size_t at = 0; at < body_bytes; at++)
            buf_add_char(out, 'x');
        buf_add_str(out, "\"}");
    }
    buf_add_char(out, ']');
}

/* The answer to /v1/get of these jobs; borrowed from the peer. */
static struct bytes get_jobs(struct world *world, struct sim_peer *peer, unsigned count)
{
    struct buf body = {0};
    sim_peer_take(peer, sim_peer_received(peer).len);
    for (unsigned i = 0; i < count; i++)
        buf_addf(&body, "%s{\"id\":\"j%u\"}", i ? "," : "{\"jobs\":[", i);
    buf_add_str(&body, "]}");
    post(peer, "/v1/get", &body);
    pass(world, SECOND_US);
    struct wire_answer answer = {0};
    assert_true(wire_cut(sim_peer_received(peer), &answer) > 0);
    assert_int_equal(answer.status, 200);
    return answer.body;
}

static unsigned count_of(struct bytes in, const char *what)
{
    unsigned count = 0;
    const char *at;
    while ((at = wire_find(in, bytes_str(what)))) {
        count++;
        in = bytes_of(at + 1, in.len - (size_t)(at + 1 - in.at));
    }
    return count;
}

static void a_job_whose_body_is_too_large_for_the_answer_is_refused_alone(void **state)
{
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct sim_peer *peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    for (size_t i = 0; i < 2; i++) { /* the second one has a byte too many */
        struct buf body = {0};
        buf_addf(&body, "{\"id\":\"j%zu\",\"body\":\"", i);
        for (size_t at = 0; at < SHOWN_BODY_MAX + i; at++)
            buf_add_char(&body, 'x');
        buf_add_str(&body, "\"}");
        post(peer, "/v1/topics/t/jobs", &body);
        pass(world, SECOND_US);
    }
    struct bytes answer = get_jobs(world, peer, 3); /* there is no third one */
    assert_non_null(wire_find(answer, BYTES("{\"failed\":2,")));
    assert_int_equal(count_of(answer, "\"body\":"), 1);
    assert_int_equal(count_of(answer, "\"answer_too_large\""), 1);
    assert_int_equal(count_of(answer, "\"not_found\""), 1);
    world_free(world);
}

static void an_answer_shows_a_megabyte_of_jobs_and_refuses_the_others(void **state)
{
    enum { JOBS = 40, BODY = 60000, AT_ONCE = SHOWN_MAX / BODY + 1 };
    (void)state;
    struct world *world =
        begin(&(struct world_options){.seed = 2, .buffer_bytes = 100 * 1000 * 1000});
    struct sim_peer *peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct buf body = {0};
    add_jobs(&body, JOBS, BODY);
    post(peer, "/v1/topics/t/jobs", &body);
    pass(world, SECOND_US);
    uint64_t counted = 0;
    for (unsigned i = 0; i < 2; i++) {
        struct bytes answer = get_jobs(world, peer, JOBS);
        assert_int_equal(count_of(answer, "\"body\":"), AT_ONCE);
        assert_int_equal(count_of(answer, "\"answer_too_large\""), JOBS - AT_ONCE);
        sim_peer_take(peer, sim_peer_received(peer).len);
        pass(world, SECOND_US);
        counted = i == 0 ? world_server(world)->buffers.bytes : counted;
    }
    assert_true(world_server(world)->buffers.bytes == counted); /* of the first nothing is left */
    world_free(world);
}

/* The batch takes many turns; bytes that come meanwhile lie where its text lay. */
static void what_comes_behind_a_batch_is_done_after_all_of_it(void **state)
{
    enum { JOBS = 400, BODY = 200 };
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 3, .turn_ns = 20000});
    struct sim_peer *peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct buf body = {0}, data = {0};
    struct core_totals totals;
    struct wire_answer answer = {0};
    add_jobs(&body, JOBS, BODY);
    post(peer, "/v1/topics/t/jobs", &body);
    for (unsigned turn = 0; turn < 3; turn++)
        (void)world_step(world, world_now_us(world) + SECOND_US);
    core_totals(world_core(world), &totals);
    assert_in_range(totals.pushed, 1, JOBS - 1);
    wire_request(&data, BYTES("GET"), BYTES("/v1/jobs/j399"), NULL, (struct bytes){0});
    send_buf(peer, &data);
    pass(world, SECOND_US);
    size_t len = wire_cut(sim_peer_received(peer), &answer);
    assert_true(len > 0 && wire_find(answer.body, BYTES("{\"failed\":0,")) != NULL);
    sim_peer_take(peer, len);
    assert_true(wire_cut(sim_peer_received(peer), &answer) > 0);
    assert_int_equal(answer.status, 200);
    world_free(world);
}

/* As of requests of one command: several are under way at once. */
static void what_comes_behind_a_batch_does_not_wait_for_the_disk(void **state)
{
    enum { JOBS = 20 };
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 4});
    struct sim_peer *peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct core_totals totals;
    struct buf body = {0};
    world_hold_disk(world, true);
    add_jobs(&body, JOBS, 1);
    post(peer, "/v1/topics/t/jobs", &body);
    buf_add_str(&body, "{\"body\":\"x\"}");
    post(peer, "/v1/topics/t/jobs", &body);
    settle(world);
    core_totals(world_core(world), &totals);
    assert_int_equal(totals.pushed, JOBS + 1);
    world_hold_disk(world, false);
    pass(world, SECOND_US);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_whose_body_is_too_large_for_the_answer_is_refused_alone),
        cmocka_unit_test(an_answer_shows_a_megabyte_of_jobs_and_refuses_the_others),
        cmocka_unit_test(what_comes_behind_a_batch_is_done_after_all_of_it),
        cmocka_unit_test(what_comes_behind_a_batch_does_not_wait_for_the_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
