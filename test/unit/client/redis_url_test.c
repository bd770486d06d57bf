/* Where Redis is, what its errors mean, and which slot a key has: the pure parts of the engine. */
#include "client/redis/url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/redis/failure.h"
#include "client/redis/topology.h"

static struct redis_url read_url(const char *text)
{
    struct redis_url url;
    struct redis_error error;
    assert_int_equal(redis_url_read(bytes_str(text), &url, &error), OK);
    return url;
}

static void refused(const char *text, enum err err, const char *says)
{
    struct redis_url url;
    struct redis_error error;
    assert_int_equal(redis_url_read(bytes_str(text), &url, &error), err);
    assert_non_null(strstr(error.text, says));
}

static void one_server_has_a_host_a_port_and_a_database(void **state)
{
    (void)state;
    struct redis_url url = read_url("redis://queue.example:7000/3");
    assert_int_equal(url.topology, REDIS_SINGLE);
    assert_int_equal(url.address_count, 1);
    assert_string_equal(url.addresses[0].host, "queue.example");
    assert_int_equal(url.addresses[0].port, 7000);
    assert_int_equal(url.db, 3);
    assert_false(url.tls);
    assert_string_equal(url.password, "");
    assert_int_equal(read_url("redis://h").addresses[0].port, REDIS_PORT);
    assert_int_equal(read_url("redis://h/").db, 0);
    assert_string_equal(read_url("redis://[::1]:1").addresses[0].host, "::1");
}

static void rediss_is_tls_in_each_form(void **state)
{
    (void)state;
    assert_true(read_url("rediss://h").tls);
    assert_true(read_url("rediss+cluster://a,b").tls);
    assert_true(read_url("rediss+sentinel://a,b/jobs").tls);
    assert_int_equal(read_url("rediss+sentinel://a,b/jobs").topology, REDIS_SENTINEL);
}

static void user_and_password_are_percent_encoded(void **state)
{
    (void)state;
    struct redis_url url = read_url("redis://al%69ce:p%40ss%3aw%2Frd@h");
    assert_string_equal(url.user, "alice");
    assert_string_equal(url.password, "p@ss:w/rd");
    url = read_url("redis://:only@h");
    assert_string_equal(url.user, "");
    assert_string_equal(url.password, "only");
    refused("redis://u:%zz@h", ERR_INVALID, "percent");
    refused("redis://u:%4@h", ERR_INVALID, "percent");
    refused("redis://u:%00@h", ERR_INVALID, "percent");
}

static void sentinels_are_several_and_have_a_name(void **state)
{
    (void)state;
    struct redis_url url = read_url("redis+sentinel://:x@a,b:1,c/jobs/2");
    assert_int_equal(url.topology, REDIS_SENTINEL);
    assert_int_equal(url.address_count, 3);
    assert_int_equal(url.addresses[0].port, REDIS_SENTINEL_PORT);
    assert_int_equal(url.addresses[1].port, 1);
    assert_string_equal(url.service, "jobs");
    assert_int_equal(url.db, 2);
    refused("redis+sentinel://a,b", ERR_INVALID, "NAME");
}

static void what_is_no_url_is_refused_with_the_reason(void **state)
{
    (void)state;
    refused("localhost:6379", ERR_INVALID, "must begin");
    refused("redis://", ERR_INVALID, "no host");
    refused("redis://h:99999", ERR_INVALID, "port");
    refused("redis://h/many", ERR_INVALID, "database");
    refused("redis+cluster://h/1", ERR_INVALID, "only 0");
    refused("unix://", ERR_INVALID, "path");
    assert_string_equal(read_url("unix:///run/redis.sock").addresses[0].host, "/run/redis.sock");
    assert_int_equal(read_url("redis+cluster://a,b,c").topology, REDIS_CLUSTER);
}

static struct failure failure_of(const char *text)
{
    return failure_read(bytes_str(text));
}

static void errors_say_what_to_do(void **state)
{
    (void)state;
    assert_int_equal(failure_of("NOSCRIPT No matching script.").kind, FAILURE_NO_SCRIPT);
    assert_int_equal(failure_of("LOADING Redis is loading").kind, FAILURE_LATER);
    assert_int_equal(failure_of("ERR max number of clients reached").kind, FAILURE_LATER);
    assert_int_equal(failure_of("CLUSTERDOWN Hash slot not served").kind, FAILURE_CLUSTER_DOWN);
    assert_int_equal(failure_of("READONLY You can't write").kind, FAILURE_NO_MASTER);
    assert_int_equal(failure_of("OOM command not allowed").kind, FAILURE_FULL);
    assert_int_equal(failure_of("WRONGPASS invalid").kind, FAILURE_DENIED);
    assert_int_equal(failure_of("WRONGTYPE Operation against").kind, FAILURE_WRONG_TYPE);
    assert_int_equal(failure_of("ERR whatever").kind, FAILURE_OTHER);
    assert_int_equal(failure_of("").kind, FAILURE_OTHER);
    /* A script passes on what it met inside. */
    assert_int_equal(
        failure_of("ERR Error running script: 3: -NOREPLICAS Not enough good replicas").kind,
        FAILURE_LATER);
    assert_int_equal(failure_of("ERR Error running script: 3: -MISCONF Redis is not").kind,
                     FAILURE_LATER);
    assert_int_equal(
        failure_of("ERR Error running script: 3: WRONGTYPE Operation against a key").kind,
        FAILURE_WRONG_TYPE);
    assert_int_equal(failure_of("ERR Error running script: OOM command not allowed when").kind,
                     FAILURE_FULL);
}

static void redirections_say_where(void **state)
{
    (void)state;
    struct failure failure = failure_of("MOVED 3999 127.0.0.1:6381");
    assert_int_equal(failure.kind, FAILURE_MOVED);
    assert_int_equal(failure.slot, 3999);
    assert_string_equal(failure.address.host, "127.0.0.1");
    assert_int_equal(failure.address.port, 6381);
    failure = failure_of("ASK 16383 :7002");
    assert_int_equal(failure.kind, FAILURE_ASK);
    assert_string_equal(failure.address.host, "");
    assert_int_equal(failure.address.port, 7002);
    /* Nonsense: the map of slots will tell. */
    assert_int_equal(failure_of("MOVED 16384 h:1").kind, FAILURE_CLUSTER_DOWN);
    assert_int_equal(failure_of("MOVED").kind, FAILURE_CLUSTER_DOWN);
    assert_int_equal(failure_of("MOVED 1 ?:6379").kind, FAILURE_CLUSTER_DOWN);
    assert_int_equal(failure_of("ASK 1 ?:6379").kind, FAILURE_LATER);
    assert_int_equal(failure_of("ASK 1 nowhere").kind, FAILURE_LATER);
    assert_int_equal(failure_of("ASK 1 /run/redis.sock:1").kind, FAILURE_LATER);
    assert_int_equal(failure_of("ASK 1 a\nb:1").kind, FAILURE_LATER);
}

static void slots_are_those_of_the_specification(void **state)
{
    (void)state;
    assert_int_equal(topology_slot(BYTES("123456789")), 0x31c3);
    assert_int_equal(topology_slot(BYTES("foo")), 12182);
    assert_int_equal(topology_slot(BYTES("{foo}bar")), 12182);
    assert_int_equal(topology_slot(BYTES("a{foo}{bar}")), 12182);
    assert_int_equal(topology_slot(BYTES("{}foo")), topology_slot(BYTES("{}foo")));
    assert_int_not_equal(topology_slot(BYTES("{}foo")), topology_slot(BYTES("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_server_has_a_host_a_port_and_a_database),
        cmocka_unit_test(rediss_is_tls_in_each_form),
        cmocka_unit_test(user_and_password_are_percent_encoded),
        cmocka_unit_test(sentinels_are_several_and_have_a_name),
        cmocka_unit_test(what_is_no_url_is_refused_with_the_reason),
        cmocka_unit_test(errors_say_what_to_do),
        cmocka_unit_test(redirections_say_where),
        cmocka_unit_test(slots_are_those_of_the_specification),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
