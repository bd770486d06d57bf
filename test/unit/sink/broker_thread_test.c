/* sink/broker_thread: deadlines of what a broker's thread has not taken, on a real thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>

#include "plugin_bed.h"
#include "sink/broker_thread.h"

enum { DEADLINE_US = 50 * 1000 };

/* A broker that is ready and confirms nothing. */
static void run(struct broker_thread *thread, void *user)
{
    struct broker_item *item;
    int64_t until_us;
    (void)user;
    broker_set_ready(thread, true, "");
    while (!broker_closing(thread, &until_us)) {
        struct pollfd wake = {.fd = broker_wake_fd(thread), .events = POLLIN};
        (void)poll(&wake, 1, 10);
        while ((item = broker_take(thread))) {
        }
        while ((item = broker_late(thread, broker_now_us())))
            broker_finish(thread, item, OUTCOME_FAILED, true, "not confirmed");
    }
}

static void ended(void *user)
{
    (void)user;
}

static enum err open_hanging(const struct broker_options *options, struct sink **out_sink,
                             struct broker_error *out_error)
{
    (void)out_error;
    *out_sink = broker_thread_open(&(struct broker_thread_options){
        .loop = options->loop, .name = options->name, .window = 1, .run = run, .ended = ended});
    return *out_sink ? OK : ERR_IO;
}

const struct plugin laterd_plugin = {.open = open_hanging};

static void send_one(struct sent *sent, int64_t timeout_us)
{
    *sent = (struct sent){.delivery = {.done = done, .timeout_us = timeout_us}};
    sink->verbs->send(sink, &sent->delivery);
}

static void what_was_not_sent_by_its_deadline_has_failed(void **state)
{
    struct sent taken, waits[2], later;
    (void)state;
    bed_open("");
    assert_true(turn_until_ready(true));
    send_one(&taken, 0);
    loop_turn(loop, loop_update_time(loop) + DEADLINE_US); /* it fills the window */
    send_one(&waits[0], DEADLINE_US);
    send_one(&waits[1], DEADLINE_US);
    send_one(&later, 600 * (int64_t)1000000);
    expect(&waits[0], OUTCOME_FAILED, "it could not be sent to the broker in time");
    expect(&waits[1], OUTCOME_FAILED, "it could not be sent to the broker in time");
    assert_int_equal(taken.done + later.done, 0);
    sink->verbs->close(sink, 0);
    expect(&taken, OUTCOME_UNSENT, "ending");
    expect(&later, OUTCOME_UNSENT, "ending");
    loop_turn(loop, loop_update_time(loop)); /* for a message that is under way */
    os_loop_free(os);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_sent_by_its_deadline_has_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
