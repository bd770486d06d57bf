/* os/mailbox: nothing is lost between threads, in order, and whoever waits is woken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>

#include "base/list.h"
#include "os/clock.h"
#include "os/loop.h"
#include "os/mailbox.h"
#include "os/thread.h"

enum { THREADS = 4, EACH = 5000 };

struct parcel {
    struct queue_node place;
    unsigned from, number;
};

struct sender {
    pthread_t thread;
    struct mailbox *mailbox;
    struct parcel parcels[EACH];
};

static struct sender senders[THREADS];

static void *send_all(void *arg)
{
    struct sender *sender = arg;
    for (unsigned i = 0; i < EACH; i++)
        mailbox_post(sender->mailbox, &sender->parcels[i].place);
    return NULL;
}

static void what_threads_post_is_taken_once_and_in_order(void **state)
{
    (void)state;
    struct mailbox mailbox;
    unsigned next[THREADS] = {0};
    assert_true(mailbox_init(&mailbox));
    for (unsigned i = 0; i < THREADS; i++) {
        senders[i].mailbox = &mailbox;
        for (unsigned j = 0; j < EACH; j++)
            senders[i].parcels[j] = (struct parcel){.from = i, .number = j};
        assert_int_equal(thread_start(&senders[i].thread, send_all, &senders[i]), 0);
    }
    for (unsigned count = 0; count < THREADS * EACH; count++) {
        struct parcel *parcel = LIST_ENTRY(mailbox_wait(&mailbox), struct parcel, place);
        assert_int_equal(parcel->number, next[parcel->from]++);
    }
    assert_null(mailbox_take(&mailbox));
    for (unsigned i = 0; i < THREADS; i++)
        (void)pthread_join(senders[i].thread, NULL);
    mailbox_fini(&mailbox);
}

static void its_descriptor_tells_that_something_came(void **state)
{
    (void)state;
    struct mailbox mailbox;
    struct parcel first = {.number = 1}, second = {.number = 2};
    assert_true(mailbox_init(&mailbox));
    struct pollfd fd = {.fd = mailbox_fd(&mailbox), .events = POLLIN};
    assert_int_equal(poll(&fd, 1, 0), 0);
    mailbox_post(&mailbox, &first.place);
    mailbox_post(&mailbox, &second.place);
    assert_int_equal(poll(&fd, 1, 0), 1);
    struct queue_node *all = mailbox_take_all(&mailbox);
    assert_ptr_equal(all, &first.place);
    assert_ptr_equal(all->next, &second.place);
    assert_null(all->next->next);
    assert_null(mailbox_take_all(&mailbox));
    mailbox_fini(&mailbox);
}

static void *wait_for_one(void *arg)
{
    return mailbox_wait(arg);
}

static void who_waits_is_told_that_it_was_closed(void **state)
{
    (void)state;
    struct mailbox mailbox;
    pthread_t thread;
    void *got = &mailbox;
    mailbox_init_unwatched(&mailbox);
    assert_int_equal(mailbox_fd(&mailbox), -1);
    assert_int_equal(thread_start(&thread, wait_for_one, &mailbox), 0);
    mailbox_close(&mailbox);
    (void)pthread_join(thread, &got);
    assert_null(got);
    mailbox_fini(&mailbox);
}

static unsigned arrived;

static void count(struct message *message)
{
    (void)message;
    arrived++;
}

/* So it is when a server that does not lead any more ends its turn before it gathers. */
static void what_came_before_a_sleep_that_nobody_gathered_after_arrives(void **state)
{
    (void)state;
    struct os_clock clock;
    struct message message = {.arrived = count};
    os_clock_init(&clock);
    struct os_loop *os_loop = os_loop_new(&clock.clock, 0);
    assert_non_null(os_loop);
    struct loop *loop = os_loop_port(os_loop);
    loop->verbs->post(loop, &message);
    loop_sleep(loop, INT64_MAX);
    loop_sleep(loop, loop_update_time(loop) + 1000 * 1000); /* not if it knows what has come */
    (void)loop->verbs->gather(loop, NULL);
    assert_int_equal(arrived, 1);
    os_loop_free(os_loop);
}

enum { MANY = 250 };

static struct numbered {
    struct message message;
    unsigned number;
} many[MANY];

static int64_t worked_ns;

/* In the order posted. */
static void arrive_in_order(struct message *message)
{
    assert_int_equal(LIST_ENTRY(message, struct numbered, message)->number, arrived);
    arrived++;
}

static bool never_spent(const struct loop_share *share)
{
    (void)share;
    return false;
}

static void note_work(struct loop_share *share, int64_t ns)
{
    (void)share;
    worked_ns += ns;
}

/* As when the outcomes of many deliveries come together: they must not make one long turn. */
static void p8_a_turn_takes_some_of_many_messages_in_their_order(void **state)
{
    (void)state;
    struct os_clock clock;
    struct loop_share share = {.spent = never_spent, .worked = note_work};
    os_clock_init(&clock);
    struct os_loop *os_loop = os_loop_new(&clock.clock, 0);
    assert_non_null(os_loop);
    struct loop *loop = os_loop_port(os_loop);
    arrived = 0;
    for (unsigned i = 0; i < MANY - 1; i++) {
        many[i] = (struct numbered){.message.arrived = arrive_in_order, .number = i};
        loop->verbs->post(loop, &many[i].message);
    }
    loop_sleep(loop, INT64_MAX);
    assert_true(loop->verbs->gather(loop, &share));
    assert_int_equal(arrived, 100);
    assert_true(worked_ns > 0);
    many[MANY - 1] = (struct numbered){.message.arrived = arrive_in_order, .number = MANY - 1};
    loop->verbs->post(loop, &many[MANY - 1].message);
    loop_sleep(loop, INT64_MAX); /* not for long: it has some */
    assert_true(loop->verbs->gather(loop, &share));
    assert_int_equal(arrived, 200);
    loop_sleep(loop, INT64_MAX);
    assert_false(loop->verbs->gather(loop, &share));
    assert_int_equal(arrived, MANY);
    os_loop_free(os_loop);
}

/* Spent when so many have arrived. */
static unsigned share_of;

static bool spent_by_arrivals(const struct loop_share *share)
{
    (void)share;
    return arrived >= share_of;
}

/* One may bring the outcomes of hundreds of deliveries. */
static void p8_a_turn_takes_no_message_but_one_when_its_share_is_spent(void **state)
{
    enum { SOME = 10 };
    (void)state;
    struct os_clock clock;
    struct loop_share share = {.spent = spent_by_arrivals, .worked = note_work};
    os_clock_init(&clock);
    struct os_loop *os_loop = os_loop_new(&clock.clock, 0);
    assert_non_null(os_loop);
    struct loop *loop = os_loop_port(os_loop);
    arrived = 0;
    for (unsigned i = 0; i < SOME; i++) {
        many[i] = (struct numbered){.message.arrived = arrive_in_order, .number = i};
        loop->verbs->post(loop, &many[i].message);
    }
    share_of = 3;
    loop_sleep(loop, INT64_MAX);
    assert_true(loop->verbs->gather(loop, &share));
    assert_int_equal(arrived, 3);
    share_of = 0; /* what came before has taken it all */
    loop_sleep(loop, INT64_MAX);
    assert_true(loop->verbs->gather(loop, &share));
    assert_int_equal(arrived, 4);
    share_of = SOME + 1;
    loop_sleep(loop, INT64_MAX);
    assert_false(loop->verbs->gather(loop, &share));
    assert_int_equal(arrived, SOME);
    os_loop_free(os_loop);
}

struct letter {
    struct message message;
    unsigned arrivals;
};

static void count_arrival(struct message *message)
{
    LIST_ENTRY(message, struct letter, message)->arrivals++;
}

/* Their senders wait for nothing else. */
static void all_that_came_too_late_is_told_so_when_the_last_user_leaves(void **state)
{
    (void)state;
    struct letter letters[3];
    struct shared_mailbox *shared = shared_mailbox_new();
    assert_non_null(shared);
    shared_mailbox_share(shared);
    for (unsigned i = 0; i < 3; i++) {
        letters[i] = (struct letter){.message.arrived = count_arrival};
        mailbox_post(&shared->mailbox, &letters[i].message.place);
    }
    shared_mailbox_drop(shared);
    assert_int_equal(letters[0].arrivals, 0); /* another one may still take them */
    shared_mailbox_drop(shared);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(letters[i].arrivals, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_threads_post_is_taken_once_and_in_order),
        cmocka_unit_test(all_that_came_too_late_is_told_so_when_the_last_user_leaves),
        cmocka_unit_test(its_descriptor_tells_that_something_came),
        cmocka_unit_test(what_came_before_a_sleep_that_nobody_gathered_after_arrives),
        cmocka_unit_test(p8_a_turn_takes_some_of_many_messages_in_their_order),
        cmocka_unit_test(p8_a_turn_takes_no_message_but_one_when_its_share_is_spent),
        cmocka_unit_test(who_waits_is_told_that_it_was_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
