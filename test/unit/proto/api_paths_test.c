/* Which paths are calls of /v1. */
#include "api_fixture.h"

static void without_a_root_dialect_calls_are_below_v1_only(void **state)
{
    (void)state;
    static const struct {
        enum http_method method;
        const char *target;
    } cases[] = {
        {HTTP_M_POST, "/abcreserve"},  {HTTP_M_POST, "/abctopics/t/jobs"},
        {HTTP_M_DELETE, "/v1xjobs/a"}, {HTTP_M_GET, "/v2/topics"},
        {HTTP_M_GET, "/abc"},          {HTTP_M_GET, "/v1"},
        {HTTP_M_DELETE, "/V1/jobs/a"}, {HTTP_M_GET, "//v1/topics"},
        {HTTP_M_GET, "/v1//topics"},   {HTTP_M_GET, "/v1/topics/"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct call call =
            ask(DIALECT_NONE,
                (struct ask){.method = cases[i].method, .target = cases[i].target, .body = "{}"});
        if (call.kind != CALL_PROBLEM)
            fail_msg("%s: taken", cases[i].target);
        (void)refusal(&call);
        if (strncmp(cases[i].target, "/v1/topics/", 11) != 0) /* that one is of a topic "" */
            assert_int_equal(status(), 404);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_root_dialect_calls_are_below_v1_only),
    };
    return cmocka_run_group_tests(tests, NULL, fixture_tear_down);
}
