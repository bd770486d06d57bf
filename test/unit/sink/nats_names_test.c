/*
 * The look-ups of NATS' servers, of names that are not answered in time or not at all. Their
 * threads, the name server and the time are this file's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "os/thread.h"
#include "sink/nats/parts.h"

enum { LIMIT_US = 2000 * 1000, THREADS_MAX = 8 };

static struct {
    struct {
        void *(*run)(void *arg);
        void *arg;
    } threads[THREADS_MAX]; /* that the name server has not answered */
    unsigned started, waiting;
    bool silent, refuses; /* names that begin with "slow" are not answered; no thread starts */
    int64_t now_us;
} fake;

int64_t broker_now_us(void)
{
    return fake.now_us;
}

bool broker_closing(struct broker_thread *thread, int64_t *out_until_us)
{
    (void)thread, (void)out_until_us;
    return false;
}

int poll(struct pollfd *fds, nfds_t count, int ms)
{
    (void)fds, (void)count;
    fake.now_us += ms * INT64_C(1000);
    return 0;
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **out_found)
{
    (void)name, (void)service, (void)hints, (void)out_found;
    return EAI_NONAME; /* that is an answer, too */
}

/* All look-ups begin with their names. */
int thread_start_detached(void *(*run)(void *arg), void *arg)
{
    if (fake.refuses)
        return EAGAIN;
    fake.started++;
    if (!fake.silent || strncmp(arg, "slow", 4) != 0) {
        (void)run(arg);
        return 0;
    }
    assert_true(fake.waiting < THREADS_MAX);
    fake.threads[fake.waiting].run = run;
    fake.threads[fake.waiting++].arg = arg;
    return 0;
}

static void answer_all(void)
{
    while (fake.waiting > 0) {
        fake.waiting--;
        (void)fake.threads[fake.waiting].run(fake.threads[fake.waiting].arg);
    }
}

static struct nats nats;
static struct broker_url url;

static int setup(void **state)
{
    (void)state;
    memset(&nats, 0, sizeof(nats));
    memset(&fake, 0, sizeof(fake));
    fake.silent = true;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    jetstream_forget_look_ups(&nats);
    answer_all(); /* threads may end long after the sink */
    return mem_used() == 0 ? 0 : -1;
}

/* As each attempt to connect has it. */
static bool look_up(const char *first, const char *second, const char *third)
{
    const char *const hosts[] = {first, second, third};
    url = (struct broker_url){.host_count = 3};
    for (unsigned i = 0; i < 3; i++)
        (void)snprintf(url.hosts[i], sizeof(url.hosts[i]), "%s", hosts[i]);
    return jetstream_look_up(&nats, &url, LIMIT_US);
}

static void those_that_are_not_answered_in_time_are_left_out(void **state)
{
    (void)state;
    assert_true(look_up("slow.test:1", "192.0.2.1:2", "fast.test:3"));
    assert_int_equal(url.host_count, 2);
    assert_string_equal(url.hosts[0], "192.0.2.1:2");
    assert_string_equal(url.hosts[1], "fast.test:3");
    assert_true(nats.left_out); /* so that laterd connects again with all of them */
    assert_true(fake.now_us >= LIMIT_US && fake.now_us < 2 * LIMIT_US);
    assert_true(fake.started == 2 && fake.waiting == 1);
}

static void one_look_up_is_under_way_until_it_is_answered(void **state)
{
    (void)state;
    for (int attempt = 0; attempt < 3; attempt++) {
        assert_true(look_up("slow.test:1", "[2001:db8::1]:2", "fast.test:3"));
        assert_int_equal(url.host_count, 2);
        assert_int_equal(fake.waiting, 1);
    }
    int64_t before_us = fake.now_us;
    fake.silent = false;
    answer_all();
    assert_true(look_up("slow.test:1", "[2001:db8::1]:2", "fast.test:3"));
    assert_int_equal(url.host_count, 3);
    assert_string_equal(url.hosts[0], "slow.test:1");
    assert_false(nats.left_out);
    assert_true(fake.now_us == before_us);
}

/* libnats would look it up where nothing limits how long that takes. */
static void a_name_whose_look_up_has_no_thread_is_left_out(void **state)
{
    (void)state;
    fake.refuses = true;
    assert_true(look_up("slow.test:1", "192.0.2.1:2", "fast.test:3"));
    assert_int_equal(url.host_count, 1);
    assert_string_equal(url.hosts[0], "192.0.2.1:2");
    assert_false(look_up("slow.test:1", "a.test:2", "fast.test:3"));
    fake.refuses = fake.silent = false;
    assert_true(look_up("slow.test:1", "a.test:2", "fast.test:3")); /* tried again */
    assert_int_equal(url.host_count, 3);
    assert_int_equal(fake.started, 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(those_that_are_not_answered_in_time_are_left_out),
        TEST(one_look_up_is_under_way_until_it_is_answered),
        TEST(a_name_whose_look_up_has_no_thread_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
