/* What each part is told of the configuration, for laterd and for the simulator alike. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "server/assemble.h"
#include "sim/clock.h"

struct fixture {
    struct config config;
    struct sim_clock clock;
    struct platform platform;
};

static struct fixture *fixture(void)
{
    static struct fixture made;
    made = (struct fixture){0};
    config_init(&made.config);
    sim_clock_init(&made.clock, 1000);
    made.platform.clock = &made.clock.clock;
    return &made;
}

static void the_memory_limit_is_three_quarters_of_what_is_available_if_none_is_set(void **state)
{
    struct fixture *it = fixture();
    (void)state;
    assert_int_equal(assemble_memory_bytes(&it->config, &it->platform), 0);
    it->platform.memory_available = 4000;
    assert_int_equal(assemble_memory_bytes(&it->config, &it->platform), 3000);
    it->config.memory_bytes = 5000;
    assert_int_equal(assemble_limits(&it->config, &it->platform).memory_bytes, 5000);
}

static void the_store_keeps_files_open_with_half_of_what_connections_leave(void **state)
{
    struct fixture *it = fixture();
    (void)state;
    it->config.connections = 10000;
    assert_int_equal(assemble_store_files(&it->config, 20000), 4872);
    assert_int_equal(assemble_store_files(&it->config, 65536), 16384);
    assert_int_equal(assemble_store_files(&it->config, UINT64_MAX), 16384);
    assert_int_equal(assemble_store_files(&it->config, 10100), 631); /* a sixteenth of all */
    assert_int_equal(assemble_store_files(&it->config, 1024), 64);
    it->config.connections = 1000000;
    assert_int_equal(assemble_store_files(&it->config, 65536), 1024); /* as much of it as that */
    assert_int_equal(assemble_store_files(&it->config, 0), 1);
}

static void the_store_keeps_the_largest_body_of_either_protocol(void **state)
{
    struct fixture *it = fixture();
    (void)state;
    it->config.body_bytes = 100;
    it->config.job_bytes = 200;
    assert_int_equal(assemble_embedded(&it->config, &it->platform).store.body_max, 200);
    it->config.body_bytes = 300;
    assert_int_equal(assemble_embedded(&it->config, &it->platform).store.body_max, 300);
}

/* The configured one may be relative, and who reads it in /v1/stats is in another folder. */
static void the_engine_tells_of_the_absolute_directory(void **state)
{
    struct fixture *it = fixture();
    (void)state;
    (void)snprintf(it->config.data_dir, sizeof(it->config.data_dir), "jobs");
    assert_string_equal(assemble_embedded(&it->config, &it->platform).directory, "jobs");
    it->platform.data_dir = "/srv/queue/jobs";
    assert_string_equal(assemble_embedded(&it->config, &it->platform).directory, "/srv/queue/jobs");
}

static void durability_reaches_engine_and_store(void **state)
{
    struct fixture *it = fixture();
    (void)state;
    struct embedded_options sync = assemble_embedded(&it->config, &it->platform);
    assert_int_equal(sync.durability, DURABILITY_SYNC);
    assert_false(sync.store.buffered);
    it->config.durability = DURABILITY_INTERVAL;
    it->config.interval_us = 7000;
    struct embedded_options interval = assemble_embedded(&it->config, &it->platform);
    assert_int_equal(interval.durability, DURABILITY_INTERVAL);
    assert_true(interval.store.buffered);
    assert_int_equal(interval.store.interval_us, 7000);
}

static void errors_of_http_name_the_limits_of_the_engine(void **state)
{
    struct fixture *it = fixture();
    (void)state;
    it->config.jobs = 11;
    it->config.topics = 12;
    it->config.waiters = 13;
    it->config.memory_bytes = 14;
    it->config.max_bytes = 15;
    struct api_limits api = assemble_server(&it->config, &it->platform).api;
    assert_int_equal(api.jobs, 11);
    assert_int_equal(api.topics, 12);
    assert_int_equal(api.waiters, 13);
    assert_int_equal(api.memory_bytes, 14);
    assert_int_equal(api.disk_bytes, 15);
    it->config.engine = ENGINE_REDIS; /* whose memory is not ours */
    assert_int_equal(assemble_server(&it->config, &it->platform).api.memory_bytes, 0);
}

#ifndef LATERD_NO_REDIS
static void the_redis_engine_is_told_who_it_is_by_what_the_keys_stand_for(void **state)
{
    struct fixture *it = fixture();
    const struct redis_url url = {.db = 3};
    struct loop loop;
    (void)state;
    it->platform.loop = &loop;
    it->config.redis_partitions = 4;
    (void)snprintf(it->config.sentinel_password, sizeof(it->config.sentinel_password), "file:/p");
    struct redis_options options = assemble_redis(&it->config, &it->platform, &url, "guard");
    assert_int_equal(options.partitions, 4);
    assert_int_equal(options.url.db, 3);
    assert_string_equal(options.sentinel_password, "guard");
    assert_ptr_equal(options.loop, &loop);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_memory_limit_is_three_quarters_of_what_is_available_if_none_is_set),
        cmocka_unit_test(the_store_keeps_files_open_with_half_of_what_connections_leave),
        cmocka_unit_test(the_store_keeps_the_largest_body_of_either_protocol),
        cmocka_unit_test(the_engine_tells_of_the_absolute_directory),
        cmocka_unit_test(durability_reaches_engine_and_store),
        cmocka_unit_test(errors_of_http_name_the_limits_of_the_engine),
#ifndef LATERD_NO_REDIS
        cmocka_unit_test(the_redis_engine_is_told_who_it_is_by_what_the_keys_stand_for),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
