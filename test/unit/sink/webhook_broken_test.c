/* A webhook sink whose thread cannot work: it says so, and costs nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "os/clock.h"
#include "os/loop.h"
#include "sink/webhook.h"

struct sent {
    struct delivery delivery;
    unsigned done;
    enum outcome_kind kind;
};

static void done(struct delivery *delivery, const struct outcome *outcome)
{
    struct sent *sent = LIST_ENTRY(delivery, struct sent, delivery);
    sent->done++;
    sent->kind = outcome->kind;
}

/* No descriptor above those that are open now. Returns the limit before. */
static struct rlimit use_up_descriptors(void)
{
    struct rlimit before, none;
    int next = dup(STDERR_FILENO);
    assert_true(next >= 0);
    assert_int_equal(close(next), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    return before;
}

static void without_a_descriptor_it_returns_deliveries_and_sleeps(void **state)
{
    static const struct address_rule rule = {.allow_count = 0};
    static const struct target target = {.type = TARGET_HTTP};
    const struct timespec pause = {.tv_nsec = 300 * 1000 * 1000};
    struct os_clock os_clock;
    struct sent sent = {.delivery = {.done = done, .target = &target}};
    const char *why = "";
    (void)state;
    log_level_set(LOG_ERROR);
    os_clock_init(&os_clock);
    struct os_loop *os = os_loop_new(&os_clock.clock, 0);
    struct loop *loop = os_loop_port(os);
    struct sink *sink = webhook_new(
        &(struct webhook_options){.loop = loop, .rule = &rule, .proxy = "", .unix_sockets = ""});
    struct rlimit before = use_up_descriptors();
    sink->verbs->send(sink, &sent.delivery);
    for (int i = 0; i < 1000 && !sent.done; i++)
        loop_turn(loop, loop_update_time(loop) + 5000);
    assert_int_equal(sent.done, 1);
    assert_int_equal(sent.kind, OUTCOME_UNSENT);
    assert_false(sink->verbs->ready(sink, &why));
    assert_non_null(strstr(why, "no descriptor left"));
    clock_t begun = clock();
    (void)nanosleep(&pause, NULL);
    assert_true(clock() - begun < CLOCKS_PER_SEC / 100);
    sink->verbs->close(sink, 0);
    os_loop_free(os);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_descriptor_it_returns_deliveries_and_sleeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
