/* What a page asks of the engine before it is written, and what GET / tells of the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "beanstalk_peer.h"
#include "server/admin/pages.h"
#include "wire.h"

/* The page shows none, and `later top` asks for it each second. */
static void only_metrics_ask_for_the_topics_that_they_show(void **state)
{
    static struct config config;
    static struct server server = {.options.config = &config};
    (void)state;
    config_init(&config);
    assert_int_equal(page_question(&server, CALL_METRICS).topic.max, 100);
    assert_int_equal(page_question(&server, CALL_STATS).topic.max, 1);
    assert_true(page_question(&server, CALL_STATS).topic.due_within);
    config.metrics_topics = 0;
    assert_int_equal(page_question(&server, CALL_METRICS).topic.max, 1);
    assert_true(page_question(&server, CALL_METRICS).topic.stats);
}

/* The status of its answer, whose JSON is the caller's; NULL: it is not JSON. */
static int get(struct world *world, const char *path, json_t **out_body)
{
    struct sim_peer *peer = sim_loop_client(world_loop(world), WORLD_DELAY_QUEUE);
    struct buf request = {0};
    struct wire_answer answer;
    wire_request(&request, BYTES("GET"), bytes_str(path), NULL, (struct bytes){0});
    sim_peer_send(peer, buf_bytes(&request));
    buf_fini(&request);
    pass(world, SECOND_US);
    assert_true(wire_cut(sim_peer_received(peer), &answer) > 0);
    *out_body = json_loadb(answer.body.at, answer.body.len, 0, NULL);
    sim_peer_free(peer);
    return answer.status;
}

/* Each as it can be asked. */
static void the_root_names_all_pages(void **state)
{
    static const char *const want[] = {"/healthz",        "/readyz",     "/metrics",
                                       "/v1/stats",       "/v1/limits",  "/v1/due?within=1h,1d",
                                       "/v1/topics",      "/v1/cluster", "/v1/journal",
                                       "/v1/openapi.json"};
    enum { WANT = sizeof(want) / sizeof(want[0]) };
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 1});
    json_t *root, *body;
    assert_int_equal(get(world, "/", &root), 200);
    json_t *pages = json_object_get(root, "pages");
    assert_int_equal(json_array_append(pages, json_object_get(root, "openapi")), 0);
    assert_int_equal(json_array_size(pages), WANT);
    for (size_t i = 0; i < WANT; i++) {
        bool named = false;
        for (size_t k = 0; k < WANT && !named; k++)
            named = strcmp(json_string_value(json_array_get(pages, k)), want[i]) == 0;
        if (!named)
            fail_msg("GET / does not name %s", want[i]);
        int status = get(world, want[i], &body);
        json_decref(body);
        if (status != 200)
            fail_msg("GET / names %s, which is answered with %d", want[i], status);
    }
    json_decref(root);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_metrics_ask_for_the_topics_that_they_show),
        cmocka_unit_test(the_root_names_all_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
