/* sink/broker_thread: deadlines of what a broker's thread has not taken, on a real thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <stdatomic.h>
#include <time.h>

#include "plugin_bed.h"
#include "sink/broker_thread.h"

enum {
    DEADLINE_US = 50 * 1000,
    LONG_US = 600 * 1000 * 1000,
    MANY = 20000,
    LATE_CPU_US = 100 * 1000, /* for MANY, which take 3 ms; a walk for each took 1.4 s */
};

static uint32_t window = 1;
static atomic_bool away;
static atomic_bool hangs, hanging; /* the thread is to be, or is, in a call that does not end */
static atomic_llong late_cpu_us; /* of the thread, the most in which it ended what was late once */
static atomic_uint looks; /* rounds in which the thread took what it could and found what is late */

static int64_t cpu_us(void)
{
    struct timespec used;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return used.tv_sec * (int64_t)1000000 + used.tv_nsec / 1000;
}

/* A broker that confirms nothing, and is there until `away`. */
static void run(struct broker_thread *thread, void *user)
{
    struct broker_item *item;
    int64_t until_us;
    (void)user;
    while (!broker_closing(thread, &until_us)) {
        bool is_away = atomic_load(&away); /* once: it hangs only if it has said so */
        broker_set_ready(thread, !is_away, "nobody answers");
        while (is_away && atomic_load(&hangs)) {
            atomic_store(&hanging, true);
            (void)poll(NULL, 0, 1);
        }
        struct pollfd wake = {.fd = broker_wake_fd(thread), .events = POLLIN};
        (void)poll(&wake, 1, 10);
        while ((item = broker_take(thread))) {
        }
        int64_t from_us = cpu_us();
        while ((item = broker_late(thread, broker_now_us()))) {
            item->unhealthy = true;
            broker_finish(thread, item, OUTCOME_FAILED, "not confirmed");
        }
        if (cpu_us() - from_us > atomic_load(&late_cpu_us))
            atomic_store(&late_cpu_us, cpu_us() - from_us);
        atomic_fetch_add(&looks, 1);
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
    *out_sink = broker_thread_open(&(struct broker_thread_options){.loop = options->loop,
                                                                   .name = options->name,
                                                                   .window = window,
                                                                   .run = run,
                                                                   .ended = ended});
    return *out_sink ? OK : ERR_IO;
}

const struct plugin laterd_plugin = {.open = open_hanging};

static void send_one(struct sent *sent, int64_t timeout_us)
{
    *sent = (struct sent){.delivery = {.done = done, .timeout_us = timeout_us}};
    sink->verbs->send(sink, &sent->delivery);
}

/* Until the thread has done a whole round that began after this call, and the loop has heard of it:
   what is not done then is never done. */
static void turn_until_looked(void)
{
    unsigned from = atomic_load(&looks);
    int64_t until_us = loop_update_time(loop) + WAIT_US;
    while (atomic_load(&looks) - from < 2 && loop->now_us < until_us)
        loop_turn(loop, loop->now_us + TURN_US);
    assert_true(atomic_load(&looks) - from >= 2);
    loop_turn(loop, loop_update_time(loop));
}

static void turn_until_deadline_passed(void)
{
    int64_t until_us = broker_now_us() + DEADLINE_US;
    while (broker_now_us() < until_us)
        loop_turn(loop, loop_update_time(loop) + TURN_US);
    turn_until_looked();
}

/* A broker that is there, and whose window is full. */
static void open_full(struct sent *taken)
{
    atomic_store(&away, false);
    bed_open("");
    assert_true(turn_until_ready(true));
    send_one(taken, 0);
    turn_until_looked();
}

static void expect_now(struct sent *sent, enum outcome_kind kind, const char *words)
{
    assert_int_equal(sent->done, 1);
    expect(sent, kind, words);
}

static void close_all(struct sent *sent)
{
    sink->verbs->close(sink, 0);
    expect(sent, OUTCOME_UNSENT, "ending");
    loop_turn(loop, loop_update_time(loop)); /* for a message that is under way */
    os_loop_free(os);
}

static void what_was_not_sent_by_its_deadline_counts_no_attempt(void **state)
{
    struct sent taken, waits[2], later;
    (void)state;
    open_full(&taken);
    send_one(&waits[0], DEADLINE_US);
    send_one(&waits[1], DEADLINE_US);
    send_one(&later, LONG_US);
    turn_until_deadline_passed();
    expect_now(&waits[0], OUTCOME_UNSENT, "no room");
    expect_now(&waits[1], OUTCOME_UNSENT, "no room");
    assert_int_equal(taken.done + later.done, 0);
    close_all(&taken);
    assert_int_equal(later.done, 1);
    assert_int_equal(later.kind, OUTCOME_UNSENT);
}

static void what_waits_for_room_while_the_broker_goes_away_counts_no_attempt(void **state)
{
    struct sent taken, waits;
    (void)state;
    open_full(&taken);
    atomic_store(&away, true);
    assert_true(turn_until_ready(false));
    send_one(&waits, DEADLINE_US);
    turn_until_deadline_passed();
    expect_now(&waits, OUTCOME_UNSENT, "nobody answers");
    assert_int_equal(taken.done, 0);
    close_all(&taken);
}

/* The thread connects again, looks the broker's name up, and hangs. The loop has not heard of it
   yet. Else the lease of the job could end, which counts an attempt. */
static void what_is_sent_while_the_thread_hangs_in_a_connect_counts_no_attempt(void **state)
{
    struct sent sent;
    (void)state;
    atomic_store(&away, false);
    bed_open("");
    assert_true(turn_until_ready(true));
    atomic_store(&hangs, true);
    atomic_store(&away, true);
    while (!atomic_load(&hanging))
        (void)poll(NULL, 0, 1);
    assert_true(sink->verbs->ready(sink, NULL));
    send_one(&sent, LONG_US);
    int64_t until_us = loop_update_time(loop) + WAIT_US; /* for the thread's message */
    while (!sent.done && loop->now_us < until_us)
        loop_turn(loop, loop->now_us + TURN_US);
    unsigned was_done = sent.done;
    atomic_store(&hangs, false);
    assert_int_equal(was_done, 1);
    expect_now(&sent, OUTCOME_UNSENT, "nobody answers");
    sink->verbs->close(sink, 0);
    loop_turn(loop, loop_update_time(loop)); /* for a message that is under way */
    os_loop_free(os);
}

/* Topics have time-outs of their own: what waits in front may have time left. */
static void what_waits_behind_a_longer_time_out_has_its_own(void **state)
{
    struct sent taken, longer[2], waits[2];
    (void)state;
    open_full(&taken);
    for (unsigned i = 0; i < 2; i++) {
        send_one(&longer[i], i ? 0 : LONG_US);
        send_one(&waits[i], DEADLINE_US);
    }
    turn_until_deadline_passed();
    expect_now(&waits[0], OUTCOME_UNSENT, "no room");
    expect_now(&waits[1], OUTCOME_UNSENT, "no room");
    assert_int_equal(taken.done + longer[0].done + longer[1].done, 0);
    send_one(&waits[0], DEADLINE_US); /* and also behind what was looked at before */
    turn_until_deadline_passed();
    expect_now(&waits[0], OUTCOME_UNSENT, "no room");
    close_all(&taken);
    assert_int_equal(longer[0].done + longer[1].done, 2);
}

/* Of those in the window every second one, and of those that wait as well; more become late while
 * one walks. */
static void many_late_ones_between_others_are_found_in_one_walk(void **state)
{
    static struct sent sent[4 * MANY];
    unsigned done_count = 0;
    (void)state;
    window = 2 * MANY;
    atomic_store(&away, false);
    bed_open("");
    assert_true(turn_until_ready(true));
    int64_t late_us = broker_now_us() + 20 * DEADLINE_US; /* the first of both kinds */
    for (unsigned i = 0; i < 4 * MANY; i++)
        send_one(&sent[i], i / MANY % 2 ? late_us + i % MANY - broker_now_us() : LONG_US);
    turn_until_done(&sent[MANY], MANY);
    turn_until_done(&sent[3 * (size_t)MANY], MANY);
    for (unsigned i = 0; i < 4 * MANY; i++)
        done_count += sent[i].done;
    assert_int_equal(done_count, 2 * MANY);
    assert_in_range(atomic_load(&late_cpu_us), 1, LATE_CPU_US);
    close_all(&sent[0]);
    window = 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_sent_by_its_deadline_counts_no_attempt),
        cmocka_unit_test(what_waits_for_room_while_the_broker_goes_away_counts_no_attempt),
        cmocka_unit_test(what_is_sent_while_the_thread_hangs_in_a_connect_counts_no_attempt),
        cmocka_unit_test(what_waits_behind_a_longer_time_out_has_its_own),
        cmocka_unit_test(many_late_ones_between_others_are_found_in_one_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
