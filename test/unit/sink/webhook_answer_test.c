/* sink/webhook/answer: what an answer means, in whatever pieces it comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <curl/curl.h>
#include <stdio.h>

#include "sink/webhook/answer.h"

#define NOW_US (INT64_C(784111777) * 1000000) /* Sun, 06 Nov 1994 08:49:37 GMT */

static int64_t retry_after(const char *value)
{
    return retry_after_read(bytes_str(value), curl_getdate, NOW_US);
}

static void retry_after_is_seconds_or_one_of_three_forms_of_a_date(void **state)
{
    (void)state;
    assert_int_equal(retry_after("120"), 120000000);
    assert_int_equal(retry_after("0"), 0);
    assert_int_equal(retry_after("Sun, 06 Nov 1994 08:50:37 GMT"), 60000000);
    assert_int_equal(retry_after("Sunday, 06-Nov-94 08:50:37 GMT"), 60000000);
    assert_int_equal(retry_after("Sun Nov  6 08:50:37 1994"), 60000000);
    assert_int_equal(retry_after("Sun, 06 Nov 1994 08:49:36 GMT"), 0); /* has passed */
    assert_int_equal(retry_after("Mon, 07 Nov 1994 08:49:37 GMT"), INT64_C(86400) * 1000000);
}

static void retry_after_that_is_neither_says_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "soon",
                                      "-1",
                                      "1.5",
                                      "12 seconds",
                                      "1h",
                                      "+1",
                                      "\xff",
                                      "0x10",
                                      "Sun",
                                      "Someday, 99 Foo 2000 25:61:61 GMT"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_true(retry_after(bad[i]) <= 0);
    assert_int_equal(retry_after("soon"), -1);
    assert_true(retry_after("99999999999999999999") == -1);
    assert_true(retry_after("18446744073709551615") > 0); /* is bounded */
}

static struct outcome outcome;
static char reason[OUTCOME_REASON_MAX];
static struct answer answer;

/* The body in pieces of `piece` bytes; judged. */
static enum outcome_kind judge(const struct target_http *http, unsigned status, const char *body,
                               size_t piece)
{
    answer_fini(&answer);
    answer_init(&answer, http, 1000);
    size_t len = strlen(body);
    for (size_t at = 0; at < len; at += piece) {
        if (!answer_body(&answer, bytes_of(body + at, piece < len - at ? piece : len - at)))
            break;
    }
    outcome = (struct outcome){0};
    answer_judge(&answer, status, &outcome, reason);
    assert_true((outcome.kind == OUTCOME_DELIVERED) == (reason[0] == '\0'));
    assert_int_equal(outcome.reason.len, strlen(reason));
    return outcome.kind;
}

static bool is_stray(const char *const lines[static 4])
{
    answer_fini(&answer);
    answer_init(&answer, &(struct target_http){.success_first = 0}, 1000);
    for (size_t i = 0; i < 4 && lines[i]; i++)
        assert_true(answer_header(&answer, bytes_str(lines[i]), curl_getdate, NOW_US));
    return answer.stray;
}

static void a_body_that_204_must_not_have_is_noticed(void **state)
{
    (void)state;
    assert_true(is_stray((const char *[4]){"HTTP/1.1 204 No\r\n", "content-length: 5\r\n"}));
    assert_true(is_stray((const char *[4]){"HTTP/1.0 304\r\n", "Transfer-Encoding: chunked\r\n"}));
    assert_true(is_stray((const char *[4]){"HTTP/1.1 100 Continue\r\n", "\r\n",
                                           "HTTP/1.1 204 No\r\n", "Content-Length:7\r\n"}));
    assert_false(is_stray((const char *[4]){"HTTP/1.1 204 No\r\n", "Content-Length: 0\r\n"}));
    assert_false(is_stray((const char *[4]){"HTTP/1.1 200 OK\r\n", "Content-Length: 5\r\n"}));
    assert_false(is_stray((const char *[4]){"HTTP/2 204\r\n", "content-length: 5\r\n"}));
    assert_false(is_stray((const char *[4]){"HTTP/1.1 204 No\r\n", "Content-Length: 5\r\n",
                                            "HTTP/1.1 200 OK\r\n", "Content-Length: 5\r\n"}));
}

static void each_status_means_what_the_page_says(void **state)
{
    (void)state;
    struct target_http http = {.bury_on = {400, 422}, .bury_on_count = 2};
    static const struct {
        unsigned status;
        enum outcome_kind kind;
        bool unhealthy;
    } rows[] = {
        {200, OUTCOME_DELIVERED, false}, {204, OUTCOME_DELIVERED, false},
        {299, OUTCOME_DELIVERED, false}, {302, OUTCOME_FAILED, false},
        {400, OUTCOME_REFUSED, false},   {401, OUTCOME_FAILED, false},
        {410, OUTCOME_GONE, false},      {422, OUTCOME_REFUSED, false},
        {429, OUTCOME_FAILED, true},     {500, OUTCOME_FAILED, true},
        {503, OUTCOME_FAILED, true},     {999, OUTCOME_FAILED, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(judge(&http, rows[i].status, "x", 1), rows[i].kind);
        assert_int_equal(outcome.unhealthy, rows[i].unhealthy);
        assert_int_equal(outcome.code, rows[i].status);
    }
    assert_int_equal(judge(&http, 302, "", 1), OUTCOME_FAILED);
    assert_string_equal(reason, "answered 302; redirects are not followed");
    http.success_first = 200;
    http.success_last = 499;
    assert_int_equal(judge(&http, 404, "", 1), OUTCOME_DELIVERED);
    http.success_last = 599;
    assert_int_equal(judge(&http, 503, "", 1), OUTCOME_DELIVERED);
    assert_false(outcome.unhealthy); /* the topic goes on at its full pace */
}

/* It ends all deliveries to the receiver, which "bury_on" must not make less of. */
static void a_receiver_that_has_gone_is_gone_even_if_its_code_buries(void **state)
{
    (void)state;
    struct target_http http = {.bury_on = {410}, .bury_on_count = 1};
    assert_int_equal(judge(&http, 410, "", 1), OUTCOME_GONE);
}

static void a_success_body_is_compared_without_blanks_and_case_in_any_pieces(void **state)
{
    (void)state;
    struct target_http http = {.success_body = BYTES("success")};
    struct target_http words = {.success_body = BYTES(" all  is well ")};
    static const struct {
        const char *body;
        bool good;
    } rows[] = {
        {"success", true},
        {"SUCCESS", true},
        {" \r\n\tSuccess \n", true},
        {"", false},
        {"succes", false},
        {"successs", false},
        {"success success", false},
        {"success .", false},
        {"suc cess", false},
        {"\"success\"", false},
        {"fail", false},
        {"   ", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t piece = 1; piece < 20; piece++)
            assert_int_equal(judge(&http, 200, rows[i].body, piece),
                             rows[i].good ? OUTCOME_DELIVERED : OUTCOME_FAILED);
    }
    assert_int_equal(judge(&words, 200, "\nALL  IS WELL\n", 3), OUTCOME_DELIVERED);
    assert_int_equal(judge(&words, 200, "all is well", 3), OUTCOME_FAILED);
    assert_int_equal(judge(&http, 500, "success", 3), OUTCOME_FAILED);
}

static void a_body_is_read_to_its_limit_and_its_beginning_kept(void **state)
{
    (void)state;
    static char much[20000];
    struct target_http any = {0}, http = {.success_body = BYTES("success")};
    memset(much, ' ', sizeof(much) - 1);
    memcpy(much, "success", 7);
    assert_int_equal(judge(&any, 200, much, 300), OUTCOME_DELIVERED); /* the status says it */
    assert_true(answer.cut && answer.body_bytes == 1000 && outcome.response.len == 1000);
    assert_int_equal(judge(&http, 200, much, 300), OUTCOME_FAILED);
    assert_non_null(strstr(reason, "more than 1000 bytes"));
    answer_fini(&answer);
    answer_init(&answer, &any, sizeof(much));
    assert_true(answer_body(&answer, bytes_of(much, sizeof(much))));
    assert_int_equal(answer.kept.len, OUTCOME_RESPONSE_MAX);
}

static bool header(const char *line)
{
    return answer_header(&answer, bytes_str(line), curl_getdate, NOW_US);
}

static void retry_after_counts_for_429_and_503_of_the_last_answer(void **state)
{
    (void)state;
    struct target_http any = {0};
    answer_fini(&answer);
    answer_init(&answer, &any, 1000);
    assert_true(header("HTTP/1.1 100 Continue\r\n") && header("Retry-After: 5\r\n"));
    assert_true(header("HTTP/1.1 503 No\r\n"));
    assert_int_equal(answer.retry_after_us, -1);
    assert_true(header("RETRY-after:  7 \r\n") && header("\r\n"));
    answer_judge(&answer, 503, &outcome, reason);
    assert_int_equal(outcome.retry_after_us, 7000000);
    answer_judge(&answer, 429, &outcome, reason);
    assert_int_equal(outcome.retry_after_us, 7000000);
    answer_judge(&answer, 500, &outcome, reason);
    assert_int_equal(outcome.retry_after_us, -1);
}

static void headers_without_end_are_not_taken(void **state)
{
    (void)state;
    struct target_http any = {0};
    unsigned lines = 0;
    answer_fini(&answer);
    answer_init(&answer, &any, 1000);
    while (lines < 100000 && header("HTTP/1.1 100 Continue\r\n"))
        lines++;
    assert_true(answer.flooded && lines < 5000);
}

static int forget(void **state)
{
    (void)state;
    answer_fini(&answer);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(retry_after_is_seconds_or_one_of_three_forms_of_a_date),
        cmocka_unit_test(retry_after_that_is_neither_says_nothing),
        cmocka_unit_test(each_status_means_what_the_page_says),
        cmocka_unit_test(a_receiver_that_has_gone_is_gone_even_if_its_code_buries),
        cmocka_unit_test(a_success_body_is_compared_without_blanks_and_case_in_any_pieces),
        cmocka_unit_test(a_body_is_read_to_its_limit_and_its_beginning_kept),
        cmocka_unit_test(retry_after_counts_for_429_and_503_of_the_last_answer),
        cmocka_unit_test(headers_without_end_are_not_taken),
        cmocka_unit_test(a_body_that_204_must_not_have_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, forget);
}
