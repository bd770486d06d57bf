/* Token buckets and circuit breakers by themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/mem.h"
#include "dispatch/bucket.h"
#include "dispatch/origin.h"
#include "sim/random.h"

enum { SECOND_US = 1000000 };

static void a_bucket_begins_full_and_fills_at_its_rate(void **state)
{
    (void)state;
    struct bucket bucket;
    bucket_init(&bucket, 10, SECOND_US, 3, 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(bucket_tokens(&bucket, 0), 3 - i);
        bucket_take(&bucket);
    }
    assert_int_equal(bucket_tokens(&bucket, 0), 0);
    assert_int_equal(bucket_next_us(&bucket), 100000);
    assert_int_equal(bucket_tokens(&bucket, 99999), 0);
    assert_int_equal(bucket_tokens(&bucket, 100000), 1);
    assert_int_equal(bucket_tokens(&bucket, 100 * (int64_t)SECOND_US), 3);
}

static void a_bucket_in_debt_has_no_tokens_until_it_is_paid(void **state)
{
    (void)state;
    struct bucket bucket;
    bucket_init(&bucket, 10, SECOND_US, 1, 0);
    for (unsigned i = 0; i < 4; i++)
        bucket_take(&bucket);
    assert_int_equal(bucket_tokens(&bucket, 0), 0);
    assert_int_equal(bucket_next_us(&bucket), 400000);
    assert_int_equal(bucket_tokens(&bucket, 399999), 0);
    assert_int_equal(bucket_tokens(&bucket, 400000), 1);
}

static void a_bucket_keeps_its_tokens_if_its_limits_stay(void **state)
{
    struct bucket bucket = {0};
    (void)state;
    bucket_limit(&bucket, 10, SECOND_US, 3, 0);
    assert_int_equal(bucket_tokens(&bucket, 0), 3);
    for (unsigned i = 0; i < 3; i++)
        bucket_take(&bucket);
    bucket_limit(&bucket, 10, SECOND_US, 3, 0);
    assert_int_equal(bucket_tokens(&bucket, 0), 0);
    bucket_limit(&bucket, 10, SECOND_US, 4, 0);
    assert_int_equal(bucket_tokens(&bucket, 0), 4);
    bucket_limit(&bucket, 0, 0, 0, 0);
    assert_int_equal(bucket_tokens(&bucket, 0), BUCKET_UNLIMITED);
}

static void a_bucket_loses_nothing_in_rounding(void **state)
{
    (void)state;
    struct sim_random random = {.state = 5};
    struct bucket bucket;
    bucket_init(&bucket, 7, 3 * SECOND_US, 1, 0);
    uint64_t taken = 0;
    int64_t now_us = 0;
    while (now_us < 3000 * (int64_t)SECOND_US) { /* 7,000 and the one at the start */
        if (bucket_tokens(&bucket, now_us)) {
            bucket_take(&bucket);
            taken++;
        }
        int64_t next_us = bucket_next_us(&bucket);
        now_us = next_us > now_us ? next_us : now_us + (int64_t)sim_random_below(&random, 100);
    }
    assert_in_range(taken, 6995, 7001);
}

static void limits_that_are_far_too_large_do_not_overflow(void **state)
{
    (void)state;
    struct bucket bucket;
    bucket_init(&bucket, UINT32_MAX, INT64_C(86400000000), UINT32_MAX, 0);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(bucket_tokens(&bucket, (int64_t)i * INT64_C(86400000000)),
                         BUCKET_UNLIMITED);
        bucket_take(&bucket);
    }
    bucket_init(&bucket, 0, 0, 0, 0);
    assert_int_equal(bucket_tokens(&bucket, 0), BUCKET_UNLIMITED);
}

static void a_breaker_opens_for_twice_as_long_each_time_its_probe_fails(void **state)
{
    (void)state;
    struct breaker breaker = {0};
    int64_t now_us = 1, open_us = BREAKER_FIRST_US;
    for (unsigned i = 0; i < 9; i++)
        assert_int_equal(breaker_outcome(&breaker, true, now_us, 10), BREAKER_SAME);
    assert_int_equal(breaker_admits(&breaker, now_us, 3, 20), 17);
    assert_int_equal(breaker_outcome(&breaker, true, now_us, 10), BREAKER_OPENED);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(breaker_outcome(&breaker, true, now_us, 10), BREAKER_SAME); /* older */
        assert_int_equal(breaker_admits(&breaker, now_us + open_us - 1, 0, 20), 0);
        now_us += open_us;
        assert_int_equal(breaker_admits(&breaker, now_us, 1, 20), 0); /* one probe */
        assert_int_equal(breaker_admits(&breaker, now_us, 0, 20), 1);
        assert_int_equal(breaker_outcome(&breaker, true, now_us, 10), BREAKER_OPENED);
        open_us = open_us * 2 < BREAKER_MOST_US ? open_us * 2 : BREAKER_MOST_US;
    }
    assert_int_equal(breaker_outcome(&breaker, false, now_us, 10), BREAKER_CLOSED);
    assert_int_equal(breaker_admits(&breaker, now_us, 0, 20), 20);
}

static void a_healthy_answer_begins_the_count_again(void **state)
{
    (void)state;
    struct breaker breaker = {0};
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(breaker_outcome(&breaker, i % 10 != 9, 1, 10), BREAKER_SAME);
}

static void expect_name(const char *url, const char *want)
{
    struct target target = {.type = TARGET_HTTP};
    struct buf name = {0};
    bool named = origin_name(&target, BYTES("t"), bytes_str(url), &name);
    assert_int_equal(named, want != NULL);
    if (want)
        assert_true(bytes_eq(buf_bytes(&name), bytes_str(want)));
    buf_fini(&name);
}

static void receivers_are_scheme_host_and_port(void **state)
{
    (void)state;
    expect_name("https://Shop.Example/a?b", "https://shop.example:443");
    expect_name("http://shop.example:8080/", "http://shop.example:8080");
    expect_name("HTTP://u:p@shop.example", "http://shop.example:80");
    expect_name("http://[::1]/x", "http://[::1]:80");
    expect_name("http://[::1]:81/x", "http://[::1]:81");
    expect_name("https://a?x=//b:1/", "https://a:443");
    expect_name("https:///x", NULL);
    expect_name("nonsense", NULL);
    expect_name("", NULL);
}

static void expect_place(struct target target, const char *want)
{
    struct buf name = {0};
    target.broker = BYTES("it");
    assert_true(origin_name(&target, BYTES("to\"pic"), BYTES(""), &name));
    buf_add_char(&name, '\0');
    assert_string_equal(name.at, want);
    buf_fini(&name);
}

static void each_place_of_a_broker_is_a_receiver(void **state)
{
    (void)state;
    expect_place((struct target){.type = TARGET_AMQP,
                                 .amqp = {.exchange = BYTES("e"), .routing_key = BYTES("r\n")}},
                 "amqp:it/e/r?");
    expect_place((struct target){.type = TARGET_AMQP, .amqp.routing_key = BYTES("{topic}")},
                 "amqp:it//to?pic");
    expect_place((struct target){.type = TARGET_KAFKA, .kafka.topic = BYTES("orders")},
                 "kafka:it/orders");
    expect_place(
        (struct target){.type = TARGET_KAFKA,
                        .kafka = {.topic = BYTES("orders"), .has_partition = true, .partition = 7}},
        "kafka:it/orders/7");
    expect_place((struct target){.type = TARGET_NATS, .nats.subject = BYTES("a.{topic}.{key}.{to")},
                 "nats:it/a.to?pic.{key}.{to");
    expect_place((struct target){.type = TARGET_REDIS, .redis.key = BYTES("{topic}{topic}")},
                 "redis:it/to?picto?pic");
}

static void jobs_that_are_given_back_come_as_fast_as_the_receiver_takes_them(void **state)
{
    (void)state;
    struct origins origins;
    size_t before = mem_used();
    origins_init(&origins, 3);
    struct origin *origin = origins_take(&origins, BYTES("http://a:80"));
    origin->most = 20;
    for (unsigned i = 0; i < 200; i++)
        origin_took(origin, 2 * SECOND_US); /* ten a second */
    int64_t last_us = 0;
    for (unsigned i = 0; i < 500; i++)
        last_us = origin_slot(origin, 1);
    assert_in_range(last_us, 49 * SECOND_US, 51 * (int64_t)SECOND_US);
    for (unsigned i = 0; i < 1000; i++) /* it is a guess: never more than a minute */
        assert_in_range(origin_slot(origin, 1), 1, 61 * (int64_t)SECOND_US);
    origin->breaker.open_us = 1;
    origin->breaker.until_us = 500 * (int64_t)SECOND_US;
    assert_in_range(origin_slot(origin, 1), 500 * (int64_t)SECOND_US, 501 * (int64_t)SECOND_US);
    origins_give(&origins, origin, 0);
    assert_ptr_equal(origins_take(&origins, BYTES("http://a:80")), origin); /* its breaker lives */
    origins_give(&origins, origin, 0);
    char name[32];
    for (unsigned i = 0; i < 5000; i++) {
        int len = snprintf(name, sizeof(name), "http://h%u:80", i);
        origins_give(&origins, origins_take(&origins, bytes_of(name, (size_t)len)), 0);
    }
    assert_int_equal(origins.idle_count, ORIGINS_IDLE);
    origins_fini(&origins);
    assert_int_equal(mem_used(), before);
}

static void what_an_outage_has_taught_is_forgotten_when_the_breaker_closes(void **state)
{
    (void)state;
    struct origins origins;
    int64_t now_us = 1000 * (int64_t)SECOND_US;
    origins_init(&origins, 1);
    struct origin *origin = origins_take(&origins, BYTES("http://slow:80"));
    origin->most = 1;
    for (unsigned i = 0; i < 100; i++)
        origin_took(origin, 14 * (int64_t)SECOND_US);
    for (unsigned i = 0; i < 3; i++)
        (void)origin_slot(origin, now_us);
    assert_true(origin_slot(origin, now_us) > now_us + 30 * (int64_t)SECOND_US);
    assert_int_equal(origin_outcome(origin, true, now_us, 1), BREAKER_OPENED);
    assert_true(origin_slot(origin, now_us) >= now_us + BREAKER_FIRST_US);
    now_us += BREAKER_FIRST_US;
    assert_int_equal(origin_outcome(origin, false, now_us, 1), BREAKER_CLOSED);
    assert_in_range(origin_slot(origin, now_us), now_us, now_us + SECOND_US);
    assert_in_range(origin_slot(origin, now_us), now_us, now_us + SECOND_US);
    origins_give(&origins, origin, 0);
    origins_fini(&origins);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_begins_full_and_fills_at_its_rate),
        cmocka_unit_test(a_bucket_in_debt_has_no_tokens_until_it_is_paid),
        cmocka_unit_test(a_bucket_keeps_its_tokens_if_its_limits_stay),
        cmocka_unit_test(a_bucket_loses_nothing_in_rounding),
        cmocka_unit_test(limits_that_are_far_too_large_do_not_overflow),
        cmocka_unit_test(what_an_outage_has_taught_is_forgotten_when_the_breaker_closes),
        cmocka_unit_test(a_breaker_opens_for_twice_as_long_each_time_its_probe_fails),
        cmocka_unit_test(a_healthy_answer_begins_the_count_again),
        cmocka_unit_test(receivers_are_scheme_host_and_port),
        cmocka_unit_test(each_place_of_a_broker_is_a_receiver),
        cmocka_unit_test(jobs_that_are_given_back_come_as_fast_as_the_receiver_takes_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
