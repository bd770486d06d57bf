/* Jobs of an export as pushes: what is kept byte for byte, what is left out, and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "cli/import/ndjson_line.h"

static struct arena arena;
static struct buf line;

static int reset(void **state)
{
    (void)state;
    arena_fini(&arena);
    buf_fini(&line);
    return 0;
}

static struct ndjson_job push_of(const char *job, const char *prefix, const char *wanted)
{
    struct ndjson_job found;
    const char *why = NULL;
    line.len = 0;
    assert_int_equal(ndjson_push_line(bytes_str(job), prefix, &arena, &line, &found, &why), OK);
    assert_null(why);
    buf_add_char(&line, '\0');
    assert_string_equal(line.at, wanted);
    return found;
}

static void members_are_copied_as_they_are(void **state)
{
    (void)state;
    struct ndjson_job job =
        push_of("{\"id\":\"a\\u00e4\",\"topic\":\"t\",\"state\":\"delayed\",\"due\":\"2200-01-"
                "01T00:00:00.000001Z\","
                "\"due_ms\":7,\"priority\":3,\"ttr_ms\":0.250,\"created\":\"x\",\"attempt\":2,"
                "\"failures\":1,"
                "\"retry\":[1,\"5us\"],\"later field\":{\"b\": 1.0},\"body\":{\"n\" : "
                "1e3,\"n\":[12345678901234567890]}}",
                NULL,
                "{\"id\":\"a\xc3\xa4\",\"if_exists\":\"keep\",\"due\":\"2200-01-01T00:00:00."
                "000001Z\",\"priority\":3,"
                "\"created\":\"x\",\"attempt\":2,\"failures\":1,\"retry\":[1,\"5us\"],\"later "
                "field\":{\"b\": 1.0},"
                "\"body\":{\"n\" : 1e3,\"n\":[12345678901234567890]},\"ttr\":\"250us\"}\n");
    assert_false(job.renamed || job.reserved || job.noted);
    assert_true(bytes_eq(job.topic, BYTES("t")));
}

static void a_state_is_said_where_a_push_can_say_it(void **state)
{
    (void)state;
    struct ndjson_job job = push_of("{\"topic\":\"t\",\"id\":\"a\",\"state\":\"buried\",\"ttr_ms\":"
                                    "60000,\"last_failure\":{\"code\":1}}",
                                    NULL,
                                    "{\"id\":\"a\",\"if_exists\":\"keep\",\"state\":\"buried\","
                                    "\"retry\":[],\"ttr\":\"60000000us\"}\n");
    assert_true(job.noted);
    job = push_of(
        "{\"topic\":\"t\",\"id\":\"a\",\"state\":\"reserved\",\"lease\":\"7\",\"deadline\":\"x\","
        "\"deadline_ms\":1,\"body_bytes\":1,\"result\":\"kept\"}",
        NULL, "{\"id\":\"a\",\"if_exists\":\"keep\",\"retry\":[]}\n");
    assert_true(job.reserved);
}

static void ids_that_the_server_made_get_names(void **state)
{
    (void)state;
    static const char text[] = "{\"id\":\"@17\",\"topic\":\"t\",\"state\":\"ready\","
                               "\"created\":\"1970-01-01T00:00:01.000002Z\"}";
    struct ndjson_job job = push_of(text, NULL,
                                    "{\"id\":\"x17.1000002\",\"if_exists\":\"keep\",\"retry\":[],"
                                    "\"created\":\"1970-01-01T00:00:01.000002Z\"}\n");
    assert_true(job.renamed && bytes_eq(job.old_id, BYTES("@17")));
    job = push_of(text, "old-",
                  "{\"id\":\"old-17.1000002\",\"if_exists\":\"keep\",\"retry\":[],"
                  "\"created\":\"1970-01-01T00:00:01.000002Z\"}\n");
    assert_true(bytes_eq(job.id, BYTES("old-17.1000002")));
}

static void what_is_no_job_says_why(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "[]",
        "{",
        "{}",
        "{\"id\":\"a\",\"topic\":\"t\"}",
        "{\"id\":7,\"topic\":\"t\",\"state\":\"ready\"}",
        "{\"id\":\"a\",\"topic\":\"t\",\"state\":\"flying\"}",
        "{\"id\":\"a\",\"topic\":\"t\",\"state\":\"gone\"}",
        "{\"id\":\"\",\"topic\":\"t\",\"state\":\"ready\"}",
        "{\"id\":\"@17\",\"topic\":\"t\",\"state\":\"ready\"}",
        "{\"id\":\"@17\",\"topic\":\"t\",\"state\":\"ready\",\"created\":\"today\"}",
        "{\"id\":\"a\",\"topic\":\"t\",\"state\":\"ready\",\"ttr_ms\":1.5}",
        "{\"id\":\"a\",\"topic\":\"t\",\"state\":\"ready\",\"ttr_ms\":-1}",
        "{\"id\":\"a\",\"topic\":\"t\",\"state\":\"ready\",\"ttr_ms\":99999999999999999999}",
        "{\"id\":\"a\",\"topic\":\"t\",\"state\":\"ready\"",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct ndjson_job found;
        const char *why = NULL;
        assert_int_equal(ndjson_push_line(bytes_str(wrong[i]), NULL, &arena, &line, &found, &why),
                         ERR_INVALID);
        assert_non_null(why);
        assert_int_equal(line.len, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(members_are_copied_as_they_are, reset),
        cmocka_unit_test_teardown(a_state_is_said_where_a_push_can_say_it, reset),
        cmocka_unit_test_teardown(ids_that_the_server_made_get_names, reset),
        cmocka_unit_test_teardown(what_is_no_job_says_why, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
