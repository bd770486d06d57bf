/* What older servers keep in Redis: names of keys, ids, scores, and jobs, whole and broken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/import/redis_layout.h"

static struct arena arena;

static int reset(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static void keys_have_their_roles_by_name_and_type(void **state)
{
    static const struct {
        enum redis_layout layout;
        const char *key;
        enum redis_type type;
        enum redis_role role;
    } keys[] = {
        {LAYOUT_DELAY_QUEUE, "dq_bucket_12", TYPE_ZSET, ROLE_BUCKET},
        {LAYOUT_DELAY_QUEUE, "dq_bucket_", TYPE_ZSET, ROLE_FOREIGN},
        {LAYOUT_DELAY_QUEUE, "dq_bucket_1x", TYPE_ZSET, ROLE_FOREIGN},
        {LAYOUT_DELAY_QUEUE, "dq_bucket_1", TYPE_LIST, ROLE_FOREIGN},
        {LAYOUT_DELAY_QUEUE, "dq_queue_a:b", TYPE_LIST, ROLE_READY},
        {LAYOUT_DELAY_QUEUE, "dq_queue", TYPE_LIST, ROLE_FOREIGN},
        {LAYOUT_DELAY_QUEUE, "dq_bucket_1", TYPE_STRING, ROLE_JOB},
        {LAYOUT_DELAY_QUEUE, "any", TYPE_HASH, ROLE_FOREIGN},
        {LAYOUT_DELAY_QUEUE, "any", TYPE_OTHER, ROLE_FOREIGN},
        {LAYOUT_SDMQ, "io.sdmq:main:pools", TYPE_HASH, ROLE_POOL},
        {LAYOUT_SDMQ, "io.sdmq:a:b:3", TYPE_ZSET, ROLE_BUCKET},
        {LAYOUT_SDMQ, "io.sdmq:main:ready", TYPE_LIST, ROLE_READY},
        {LAYOUT_SDMQ, "io.sdmq:main:ready:LOCK", TYPE_STRING, ROLE_LOCK},
        {LAYOUT_SDMQ, "io.sdmq:pools", TYPE_HASH, ROLE_FOREIGN},
        {LAYOUT_SDMQ, "io.sdmqx:main:pools", TYPE_HASH, ROLE_FOREIGN},
        {LAYOUT_SDMQ, "io.sdmq", TYPE_HASH, ROLE_FOREIGN},
        {LAYOUT_DELAYQUEUE_JAVA, "delayQueueJobPool", TYPE_HASH, ROLE_POOL},
        {LAYOUT_DELAYQUEUE_JAVA, "delayBucket9", TYPE_ZSET, ROLE_BUCKET},
        {LAYOUT_DELAYQUEUE_JAVA, "orders", TYPE_LIST, ROLE_READY},
        {LAYOUT_DELAYQUEUE_JAVA, "orders", TYPE_HASH, ROLE_FOREIGN},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct redis_names names = {
            .layout = keys[i].layout,
            .bucket = "dq_bucket_%d",
            .queue = "dq_queue_%s",
            .prefix = "io.sdmq",
        };
        assert_true(redis_names_good(&names));
        if (redis_role_of(&names, bytes_str(keys[i].key), keys[i].type) != keys[i].role)
            fail_msg("%s", keys[i].key);
    }
}

static void a_name_with_no_percent_or_two_is_refused(void **state)
{
    static const char *const bad[] = {"", "b", "b%", "b%s", "b%d%d", "%%d"};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct redis_names names = {.bucket = bad[i], .queue = "q%s", .prefix = "p"};
        assert_false(redis_names_good(&names));
    }
}

static void expect_id(enum redis_layout layout, const char *member, const char *wanted)
{
    struct bytes id = BYTES("untouched");
    enum err err = redis_member_id(layout, bytes_str(member), &arena, &id);
    assert_int_equal(err, wanted ? OK : ERR_CORRUPT);
    assert_true(bytes_eq(id, bytes_str(wanted ? wanted : "untouched")));
}

static void ids_are_found_in_all_ways_of_writing_them(void **state)
{
    (void)state;
    expect_id(LAYOUT_DELAY_QUEUE, "[1]", "[1]");
    expect_id(LAYOUT_SDMQ, "", NULL);
    expect_id(LAYOUT_DELAYQUEUE_JAVA, "7", "7");
    expect_id(LAYOUT_DELAYQUEUE_JAVA, "\"7\"", "7");
    expect_id(LAYOUT_DELAYQUEUE_JAVA, "[\"java.lang.Long\",9223372036854775807]",
              "9223372036854775807");
    expect_id(LAYOUT_DELAYQUEUE_JAVA, "{\"@class\":\"x\",\"delayQueueJobId\":8}", "8");
    expect_id(LAYOUT_DELAYQUEUE_JAVA, "{\"id\":[\"java.lang.Long\",9],\"delayTime\":1}", "9");
    static const char *const bad[] = {"",   "x",    "7.5", "[7]",  "[\"java.lang.Long\"]",
                                      "{}", "null", "7 7", "\"\"", "9223372036854775808"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_id(LAYOUT_DELAYQUEUE_JAVA, bad[i], NULL);
}

static void scores_are_times_in_the_layouts_unit(void **state)
{
    int64_t us = 42;
    (void)state;
    assert_int_equal(redis_score_us(LAYOUT_DELAY_QUEUE, BYTES("1516000000"), &us), OK);
    assert_int_equal(us, INT64_C(1516000000) * 1000000);
    assert_int_equal(redis_score_us(LAYOUT_SDMQ, BYTES("1.516000000123e+12"), &us), OK);
    assert_int_equal(us, INT64_C(1516000000123) * 1000);
    us = 42;
    static const char *const bad[] = {"", "-1", "inf", "nan", "1e15", "x", "999999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(redis_score_us(LAYOUT_DELAY_QUEUE, bytes_str(bad[i]), &us), ERR_CORRUPT);
    assert_int_equal(us, 42);
}

/* As the Go server's encoder writes it: id "a", topic "t", due at 7, ttr 60, body "b". */
static const char packed[] = "\x85"
                             "\xa1\x31\xa1t"
                             "\xa1\x32\xa1"
                             "a"
                             "\xa1\x33\xd3\0\0\0\0\0\0\0\x07"
                             "\xa1\x34\x3c"
                             "\xa1\x35\xd9\x01"
                             "b";
enum { PACKED_BYTES = sizeof(packed) - 1 };

static enum err read_packed(struct bytes value, struct redis_job *out_job)
{
    const char *why = NULL;
    enum err err = redis_job_read(LAYOUT_DELAY_QUEUE, BYTES("a"), value, &arena, out_job, &why);
    assert_true((err == ERR_CORRUPT) == (why != NULL));
    return err;
}

static void a_job_in_messagepack_is_read(void **state)
{
    struct redis_job job;
    (void)state;
    assert_int_equal(read_packed(bytes_of(packed, PACKED_BYTES), &job), OK);
    assert_true(bytes_eq(job.id, BYTES("a")) && bytes_eq(job.topic, BYTES("t")));
    assert_true(bytes_eq(job.body, BYTES("b")));
    assert_int_equal(job.due_us, 7000000);
    assert_int_equal(job.ttr_us, 60000000);
}

static void a_job_that_is_cut_anywhere_or_goes_on_is_corrupt(void **state)
{
    struct redis_job job;
    char longer[PACKED_BYTES + 1];
    (void)state;
    for (size_t len = 1; len < PACKED_BYTES; len++) {
        char *exact = test_malloc(len); /* so that a sanitizer sees a read past the end */
        memcpy(exact, packed, len);
        assert_int_equal(read_packed(bytes_of(exact, len), &job), ERR_CORRUPT);
        test_free(exact);
    }
    memcpy(longer, packed, PACKED_BYTES + 1);
    assert_int_equal(read_packed(bytes_of(longer, sizeof(longer)), &job), ERR_CORRUPT);
    assert_int_equal(read_packed(BYTES(""), &job), ERR_INVALID);
    assert_int_equal(read_packed(BYTES("hello"), &job), ERR_INVALID);
}

static void any_byte_that_is_changed_is_survived(void **state)
{
    struct redis_job job;
    char copy[PACKED_BYTES];
    (void)state;
    for (size_t at = 0; at < PACKED_BYTES; at++) {
        for (unsigned byte = 0; byte < 256; byte++) {
            memcpy(copy, packed, PACKED_BYTES);
            copy[at] = (char)byte;
            enum err err = read_packed(bytes_of(copy, PACKED_BYTES), &job);
            if (!err)
                assert_true(job.due_us >= 0 && job.ttr_us >= 0);
        }
    }
}

static enum err read_json(enum redis_layout layout, const char *value, struct redis_job *out_job)
{
    const char *why;
    return redis_job_read(layout, BYTES("7"), bytes_str(value), &arena, out_job, &why);
}

static void jobs_in_json_are_read_and_broken_ones_refused(void **state)
{
    struct redis_job job;
    (void)state;
    assert_int_equal(
        read_json(LAYOUT_SDMQ,
                  "{\"body\":\"a\\n\",\"createTime\":1000,\"delay\":500,\"id\":\"7\","
                  "\"priority\":2,\"status\":4,\"topic\":\"t\",\"ttl\":12,\"bizKey\":\"k\","
                  "\"subtopic\":\"s\",\"extendData\":null}",
                  &job),
        OK);
    assert_int_equal(job.due_us, 1500000);
    assert_int_equal(job.priority, 0);
    assert_int_equal(job.labels.rank, 2);
    assert_int_equal(job.labels.create_ms, 1000);
    assert_int_equal(job.ttr_us, 12000000);
    assert_true(bytes_eq(job.labels.biz_key, BYTES("k")));
    assert_true(bytes_eq(job.labels.subtopic, BYTES("s")));
    assert_int_equal(job.labels.extend_data.len, 0);
    assert_true(job.finished && bytes_eq(job.body, BYTES("a\n")));
    assert_int_equal(read_json(LAYOUT_DELAYQUEUE_JAVA,
                               "{\"delayTime\":[\"java.lang.Long\",9],\"id\":7,\"message\":null,"
                               "\"topic\":\"t\",\"ttrTime\":30}",
                               &job),
                     OK);
    assert_int_equal(job.due_us, 9000);
    assert_int_equal(job.ttr_us, 30000000);
    static const char *const sdmq[] = {
        "",
        "7",
        "[]",
        "{}",
        "{\"createTime\":1,\"delay\":5,\"id\":\"8\",\"topic\":\"t\"}",
        "{\"createTime\":1,\"delay\":5,\"id\":7,\"topic\":\"t\"}",
        "{\"createTime\":1,\"delay\":9223372036854775807,\"id\":\"7\",\"topic\":\"t\"}",
        "{\"createTime\":-1,\"delay\":5,\"id\":\"7\",\"topic\":\"t\"}",
        "{\"delay\":5,\"id\":\"7\",\"topic\":\"t\"}",
    };
    for (size_t i = 0; i < sizeof(sdmq) / sizeof(sdmq[0]); i++)
        assert_int_equal(read_json(LAYOUT_SDMQ, sdmq[i], &job), ERR_CORRUPT);
    assert_int_equal(read_json(LAYOUT_DELAYQUEUE_JAVA, "{\"id\":8}", &job), ERR_CORRUPT);
    assert_int_equal(read_json(LAYOUT_DELAYQUEUE_JAVA, "{\"id\":7,\"topic\":\"t\"}", &job),
                     ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_have_their_roles_by_name_and_type),
        cmocka_unit_test(a_name_with_no_percent_or_two_is_refused),
        cmocka_unit_test_teardown(ids_are_found_in_all_ways_of_writing_them, reset),
        cmocka_unit_test(scores_are_times_in_the_layouts_unit),
        cmocka_unit_test_teardown(a_job_in_messagepack_is_read, reset),
        cmocka_unit_test_teardown(a_job_that_is_cut_anywhere_or_goes_on_is_corrupt, reset),
        cmocka_unit_test_teardown(any_byte_that_is_changed_is_survived, reset),
        cmocka_unit_test_teardown(jobs_in_json_are_read_and_broken_ones_refused, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
