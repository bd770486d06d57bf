/* What a page asks of the engine before it is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/admin/pages.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_metrics_ask_for_the_topics_that_they_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
