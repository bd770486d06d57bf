/* The load generator's look at an answer: status and length, wherever the input is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/bench/load.h"

#define FIRST "HTTP/1.1 200 OK\r\nDate: x\r\ncontent-length:  5\r\nServer: y\r\n\r\nhello"
#define EMPTY "HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n"

static void an_answer_is_taken_only_when_it_is_whole(void **state)
{
    const struct bytes whole = BYTES(FIRST EMPTY);
    const size_t first = sizeof(FIRST) - 1;
    struct load_answer answer = {0};
    size_t len = 0;
    bool bad;
    (void)state;
    for (size_t cut = 0; cut < first; cut++) {
        assert_false(load_scan_http(bytes_of(whole.at, cut), &answer, &len, &bad));
        assert_false(bad);
    }
    for (size_t cut = first; cut <= whole.len; cut++) {
        assert_true(load_scan_http(bytes_of(whole.at, cut), &answer, &len, &bad));
        assert_int_equal(answer.status, 200);
        assert_true(bytes_eq(answer.body, BYTES("hello")));
        assert_int_equal(len, first);
    }
    assert_true(load_scan_http(bytes_of(whole.at + first, whole.len - first), &answer, &len, &bad));
    assert_int_equal(answer.status, 204);
    assert_int_equal(answer.body.len, 0);
    assert_int_equal(len, whole.len - first);
}

static void an_answer_of_unknown_length_is_bad(void **state)
{
    static const char *const texts[] = {
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1\r\n\r\n",
        "x\r\n\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct load_answer answer;
        size_t len;
        bool bad = false;
        assert_false(load_scan_http(bytes_str(texts[i]), &answer, &len, &bad));
        assert_true(bad);
    }
}

static void an_answer_of_beanstalkd_is_taken_only_when_it_is_whole(void **state)
{
    static const struct {
        const char *text, *id, *body;
        int status;
    } answers[] = {
        {"INSERTED 17\r\n", "17", "", 201},
        {"RESERVED 18 5\r\na\r\nb!\r\n", "18", "a\r\nb!", 200},
        {"RESERVED 19 0\r\n\r\n", "19", "", 200},
        {"DELETED\r\n", "", "", 200},
        {"WATCHING 2\r\n", "", "", 200},
        {"OK 3\r\nabc\r\n", "", "abc", 200},
        {"TIMED_OUT\r\n", "", "", 204},
        {"NOT_FOUND\r\n", "", "", 400},
        {"OUT_OF_MEMORY\r\n", "", "", 400},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        const struct bytes one = bytes_str(answers[i].text);
        struct load_answer answer = {0};
        struct buf in = {0};
        size_t len = 0;
        bool bad;
        buf_add_bytes(&in, one);
        buf_add_bytes(&in, BYTES("DELETED\r\n"));
        for (size_t cut = 0; cut < one.len; cut++) {
            assert_false(load_scan_beanstalk(bytes_of(in.at, cut), &answer, &len, &bad));
            assert_false(bad);
        }
        for (size_t cut = one.len; cut <= in.len; cut++) {
            assert_true(load_scan_beanstalk(bytes_of(in.at, cut), &answer, &len, &bad));
            assert_int_equal(answer.status, answers[i].status);
            assert_true(bytes_eq(answer.id, bytes_str(answers[i].id)));
            assert_true(bytes_eq(answer.body, bytes_str(answers[i].body)));
            assert_int_equal(len, one.len);
        }
        buf_fini(&in);
    }
}

static void what_beanstalkd_would_never_say_is_bad(void **state)
{
    static const char *const texts[] = {
        "\r\n",
        "\n",
        "DELETED\n",
        "deleted\r\n",
        "RESERVED 1\r\n",
        "RESERVED 1 x\r\n",
        "INSERTED\r\n",
        "OK\r\n",
        "RESERVED 1 99999999999999999999\r\n",
        "HTTP/1.1 400 Bad Request\r\n",
        "SSH-2.0-OpenSSH\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct load_answer answer;
        size_t len;
        bool bad = false;
        assert_false(load_scan_beanstalk(bytes_str(texts[i]), &answer, &len, &bad));
        assert_true(bad);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_taken_only_when_it_is_whole),
        cmocka_unit_test(an_answer_of_unknown_length_is_bad),
        cmocka_unit_test(an_answer_of_beanstalkd_is_taken_only_when_it_is_whole),
        cmocka_unit_test(what_beanstalkd_would_never_say_is_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
