/* Which paths are calls of /v1. */
#include "api_fixture.h"
#include "base/mem.h"

static void without_a_root_dialect_calls_are_below_v1_only(void **state)
{
    (void)state;
    static const struct {
        enum http_method method;
        const char *target;
    } cases[] = {
        {HTTP_M_POST, "/abcreserve"},  {HTTP_M_POST, "/abctopics/t/jobs"},
        {HTTP_M_DELETE, "/v1xjobs/a"}, {HTTP_M_GET, "/v2/topics"},
        {HTTP_M_GET, "/abc"},          {HTTP_M_GET, "/v1"},
        {HTTP_M_DELETE, "/V1/jobs/a"}, {HTTP_M_GET, "//v1/topics"},
        {HTTP_M_GET, "/v1//topics"},   {HTTP_M_GET, "/v1/topics/"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct call call =
            ask(DIALECT_NONE,
                (struct ask){.method = cases[i].method, .target = cases[i].target, .body = "{}"});
        if (call.kind != CALL_PROBLEM)
            fail_msg("%s: taken", cases[i].target);
        (void)refusal(&call);
        if (strncmp(cases[i].target, "/v1/topics/", 11) != 0) /* that one is of a topic "" */
            assert_int_equal(status(), 404);
    }
}

static void an_id_is_guessed_of_a_get_or_a_delete_alone(void **state)
{
    static const struct {
        const char *bytes, *id;
    } cases[] = {
        {"DELETE /v1/jobs/an-id HTTP/1.1\r\n", "an-id"},
        {"GET /v1/jobs/1 ", "1"},
        {"GET /v1/jobs/ HTTP/1.1", ""},
        {"GET /v1/jobs/%31 HTTP/1.1", ""},
        {"GET /v1/jobs/@7 HTTP/1.1", ""}, /* a number that the server has made */
        {"GET /v1/topics/t HTTP/1.1", ""},
        {"POST /v1/jobs/an-id/finish HTTP/1.1", ""},
        {"", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes all = bytes_str(cases[i].bytes), id = bytes_str(cases[i].id);
        assert_true(bytes_eq(api_guess_id(all), id));
        size_t whole = id.len ? (size_t)(strstr(all.at, cases[i].id) - all.at) + id.len + 1 : 0;
        for (size_t len = 0; len < whole; len++) { /* what has come of it: it may be longer */
            char *part = mem_alloc(len);
            memcpy(part, all.at, len);
            assert_int_equal(api_guess_id(bytes_of(part, len)).len, 0);
            mem_free(part);
        }
    }
    char room[400] = "GET /v1/jobs/";
    memset(room + strlen(room), 'x', 300);
    assert_int_equal(api_guess_id(bytes_of(room, sizeof(room))).len, 0);
}

/* The ids that are guessed of these bytes, each with a comma behind it; in memory that ends there.
 */
static void assert_guessed(const char *text, size_t len, uint32_t max, const char *wanted)
{
    struct bytes ids[4];
    char *copy = mem_alloc(len);
    struct buf all = {0};
    memcpy(copy, text, len);
    uint32_t count = api_guess_ids(bytes_of(copy, len), ids, max);
    assert_true(count <= max);
    for (uint32_t i = 0; i < count; i++) {
        buf_add(&all, ids[i].at, ids[i].len);
        buf_add_char(&all, ',');
    }
    assert_true(bytes_eq(buf_bytes(&all), bytes_str(wanted)));
    buf_fini(&all);
    mem_free(copy);
}

static void ids_are_guessed_of_pushes_that_come_together(void **state)
{
    static const char two[] = "POST /v1/topics/t/jobs HTTP/1.1\r\nContent-Length: 33\r\n\r\n"
                              "{\"id\":\"first\",\"delay\":1,\"body\":1}"
                              "POST /v1/topics/t/jobs HTTP/1.1\r\nContent-Length: 33\r\n\r\n"
                              "{\"topic\":\"t\", \"id\": \"second\", \"body\": \"long enough\"}";
    static const struct {
        const char *text, *ids;
    } cases[] = {
        {two, "first,second,"},
        {"[{\"id\":\"a\",\"body\":1},{\"id\":\"b\",\"body\":1},{\"id\":\"c\",\"body\":1}]  ",
         "a,b,c,"},
        {"{\"id\":\"a\"}                  ", "a,"},
        {"{\"id\":17,\"idx\":\"i\",\"xid\":\"i\",\"id\" :\"i\",\"id\":\"\",\"id\":\"cut", ""},
        {"{\"id\":        ", ""},
        {"\"id\"\"id\"\"id\"\"id\"\"id\"", ""},
        {"", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_guessed(cases[i].text, strlen(cases[i].text), 4, cases[i].ids);
    assert_guessed(two, strlen(two), 1, "first,");
    for (size_t len = 0; len < strlen(two); len++) { /* of the same id nothing else is guessed */
        struct bytes ids[4];
        char *copy = mem_alloc(len);
        memcpy(copy, two, len);
        uint32_t count = api_guess_ids(bytes_of(copy, len), ids, 4);
        assert_true(count <= 2 && (count < 1 || bytes_eq(ids[0], BYTES("first"))) &&
                    (count < 2 || bytes_eq(ids[1], BYTES("second"))));
        mem_free(copy);
    }
}

/* Wherever a member stands among the sixteen bytes that are looked at together. */
static void an_id_is_guessed_at_each_place(void **state)
{
    (void)state;
    for (size_t before = 0; before < 40; before++) {
        char text[128];
        memset(text, '"', before);
        memcpy(text + before, "\"id\":\"an-id\"", 12);
        memset(text + before + 12, 'x', 20);
        assert_guessed(text, before + 32, 4, "an-id,");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_root_dialect_calls_are_below_v1_only),
        cmocka_unit_test(an_id_is_guessed_of_a_get_or_a_delete_alone),
        cmocka_unit_test(ids_are_guessed_of_pushes_that_come_together),
        cmocka_unit_test(an_id_is_guessed_at_each_place),
    };
    return cmocka_run_group_tests(tests, NULL, fixture_tear_down);
}
