/* Listings of jobs with their properties: what they say of jobs that cannot be shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "beanstalk_peer.h"
#include "engine/embedded/embedded.h"
#include "server/server.h"
#include "wire.h"

enum { JOBS = 200 };

/* The engine of a world, but for one GET. */
static struct {
    const struct engine_verbs *real;
    struct engine_verbs verbs;
    unsigned gets;
    unsigned at; /* the one that fails, counted from 1 */
    enum err err;
    const char *why;
} faulty;

static enum submitted submit(struct engine *engine, const struct cmd *cmd, struct ticket *ticket)
{
    if (cmd->kind != CMD_GET || ++faulty.gets != faulty.at)
        return faulty.real->submit(engine, cmd, ticket);
    ticket->answered(ticket,
                     &(struct reply){.err = faulty.err, .why = faulty.why, .kind = CMD_GET});
    return SUBMIT_ANSWERED;
}

static struct world *world;
static struct sim_peer *peer;

static int set_up(void **state)
{
    struct buf jobs = {0}, data = {0};
    (void)state;
    world = begin(&(struct world_options){.seed = 1});
    peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    for (unsigned i = 1; i <= JOBS; i++)
        buf_addf(
            &jobs,
            "%c{\"id\":\"job-%u\",\"delay\":\"%us\",\"retry\":[\"7s\"],\"biz_key\":\"key-%u\"}",
            i > 1 ? ',' : '[', i, 100 + i, i);
    buf_add_char(&jobs, ']');
    wire_request(&data, BYTES("POST"), BYTES("/v1/topics/t/jobs"), "application/json",
                 buf_bytes(&jobs));
    sim_peer_send(peer, buf_bytes(&data));
    buf_fini(&data);
    buf_fini(&jobs);
    pass(world, SECOND_US);
    sim_peer_take(peer, sim_peer_received(peer).len);
    struct engine *engine = world_server(world)->engine;
    memset(&faulty, 0, sizeof(faulty));
    faulty.real = engine->verbs;
    faulty.verbs = *engine->verbs;
    faulty.verbs.submit = submit;
    engine->verbs = &faulty.verbs;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_free(world);
    return 0;
}

/* The answer to a request; valid until the next one. */
static struct wire_answer answer_to(const char *method, const char *path)
{
    struct wire_answer answer = {0};
    struct buf data = {0};
    sim_peer_take(peer, sim_peer_received(peer).len);
    wire_request(&data, bytes_str(method), bytes_str(path), NULL, (struct bytes){0});
    sim_peer_send(peer, buf_bytes(&data));
    buf_fini(&data);
    pass(world, SECOND_US);
    assert_true(wire_cut(sim_peer_received(peer), &answer) > 0);
    return answer;
}

/* To a listing of all jobs. */
static struct wire_answer list(void)
{
    return answer_to("GET", "/v1/topics/t/jobs?limit=1000&properties=true");
}

static unsigned count_of(struct bytes in, const char *what)
{
    unsigned count = 0;
    struct bytes wanted = bytes_str(what);
    for (const char *at; (at = wire_find(in, wanted)); count++)
        in = bytes_of(at + wanted.len, (size_t)(in.at + in.len - at) - wanted.len);
    return count;
}

/* A client would take the jobs for gone, whose listing goes on behind them. */
static void a_job_that_cannot_be_read_now_is_not_left_out(void **state)
{
    (void)state;
    faulty.at = 3;
    faulty.err = ERR_AGAIN;
    faulty.why = "Redis is away";
    struct wire_answer answer = list();
    assert_int_equal(answer.status, 503);
    assert_int_equal(count_of(answer.head, "Retry-After: "), 1);
    assert_int_equal(count_of(answer.body, "\"code\":\"again\""), 1);
    assert_int_equal(count_of(answer.body, "Redis is away"), 1);
    assert_true(faulty.gets < JOBS / 2); /* the rest is not asked for any more */
    answer = list();
    assert_int_equal(answer.status, 200);
    assert_int_equal(count_of(answer.body, "\"biz_key\":\"key-"), JOBS);
}

static void a_job_whose_body_is_damaged_is_shown_without_its_properties(void **state)
{
    (void)state;
    faulty.at = 3;
    faulty.err = ERR_DAMAGED;
    struct wire_answer answer = list();
    assert_int_equal(answer.status, 200);
    assert_int_equal(count_of(answer.body, "{\"id\":\"job-"), JOBS);
    assert_int_equal(count_of(answer.body, "\"topic\":\"t\",\"state\":\"delayed\""), JOBS);
    assert_int_equal(count_of(answer.body, "\"retry\":[7000]"), JOBS);
    assert_int_equal(count_of(answer.body, "\"id\":\"job-3\""), 1);
    assert_int_equal(count_of(answer.body, "\"biz_key\":\"key-"), JOBS - 1);
    assert_int_equal(count_of(answer.body, "\"biz_key\":\"key-3\""), 0);
}

static void a_job_that_has_gone_is_left_out(void **state)
{
    (void)state;
    faulty.at = 3;
    faulty.err = ERR_NOT_FOUND;
    struct wire_answer answer = list();
    assert_int_equal(answer.status, 200);
    assert_int_equal(count_of(answer.body, "{\"id\":\"job-"), JOBS - 1);
    assert_int_equal(count_of(answer.body, "\"id\":\"job-3\""), 0);
}

/* What they take while they are under way counts for the connection, and no longer: it would not be
   read any more. */
static void p8_one_connection_has_any_number_of_listings_and_replays(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 12; i++)
        assert_int_equal(list().status, 200);
    for (unsigned i = 0; i < 80; i++)
        assert_int_equal(answer_to("POST", "/v1/topics/t/replay").status, 200);
}

/* Nothing is read for it any more, and no answer comes to what has gone. */
static void who_leaves_while_its_jobs_are_read_is_forgotten(void **state)
{
    struct buf data = {0};
    (void)state;
    assert_true(world_stop(world));
    assert_int_equal(world_boot(world), OK);
    sim_disk_cold(world_disk(world), true);
    world_hold_disk(world, true);
    peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    wire_request(&data, BYTES("GET"), BYTES("/v1/topics/t/jobs?limit=1000&properties=true"), NULL,
                 (struct bytes){0});
    sim_peer_send(peer, buf_bytes(&data));
    buf_fini(&data);
    pass(world, SECOND_US);
    assert_in_range(embedded_waiting_replies(world_embedded(world)), 1, JOBS / 2);
    sim_peer_reset(peer);
    pass(world, SECOND_US);
    assert_int_equal(embedded_waiting_replies(world_embedded(world)), 0);
    world_hold_disk(world, false);
    pass(world, SECOND_US);
    assert_int_equal(server_sessions(world_server(world)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_job_that_cannot_be_read_now_is_not_left_out, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_job_whose_body_is_damaged_is_shown_without_its_properties,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_job_that_has_gone_is_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_leaves_while_its_jobs_are_read_is_forgotten, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(p8_one_connection_has_any_number_of_listings_and_replays,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
