/*
 * HTTP/1.1: the corpus of test/wire/hostile, whole and cut at every byte, and what requests and
 * responses look like. make runs tests from the repository's root, where the corpus is found.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rfc3339.h"
#include "proto/http/http1.h"

static const struct http_limits limits = {
    .line_bytes = 8192, .headers = 64, .header_bytes = 16384, .body_bytes = 1048576};

/* ---- the corpus ---- */

struct wire_case {
    char name[100];
    char want[100];
    struct buf input;
};

static int hex(char c)
{
    return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

static void unescape(struct buf *out, const char *text)
{
    for (const char *at = text; *at && *at != '\n'; at++) {
        char c = *at;
        if (c == '\\') {
            c = *++at;
            if (c == 'r') {
                c = '\r';
            } else if (c == 'n') {
                c = '\n';
            } else if (c == 't') {
                c = '\t';
            } else if (c == 'x') {
                c = (char)(hex(at[1]) << 4 | hex(at[2]));
                at += 2;
            }
        }
        buf_add_char(out, c);
    }
}

static bool read_line(struct wire_case *one, const char *line)
{
    char *rest;
    if (strncmp(line, "case ", 5) == 0) {
        (void)snprintf(one->name, sizeof(one->name), "%.*s", (int)strcspn(line + 5, "\n"),
                       line + 5);
    } else if (strncmp(line, "want ", 5) == 0) {
        (void)snprintf(one->want, sizeof(one->want), "%.*s", (int)strcspn(line + 5, "\n"),
                       line + 5);
    } else if (strncmp(line, "send ", 5) == 0) {
        unescape(&one->input, line + 5);
    } else if (strncmp(line, "repeat ", 7) == 0) {
        for (long count = strtol(line + 7, &rest, 10); count > 0; count--)
            unescape(&one->input, rest + 1);
    } else {
        return line[0] != '\n' && line[0] != '#';
    }
    return true;
}

/* Calls `each` with every case; how many there were. */
static unsigned each_case(void (*each)(const struct wire_case *one))
{
    static char line[65536];
    struct wire_case one = {.name = ""};
    unsigned count = 0;
    FILE *file = fopen("test/wire/hostile/http1.txt", "r");
    assert_non_null(file);
    for (bool more = true; more;) {
        more = fgets(line, sizeof(line), file) != NULL;
        if (more && read_line(&one, line))
            continue;
        if (one.name[0]) {
            each(&one);
            count++;
        }
        buf_fini(&one.input);
        one = (struct wire_case){.name = ""};
    }
    (void)fclose(file); /* it was only read */
    return count;
}

/* ---- running a stream through the parser ---- */

/* Everything that came out, as text: outcomes, and a digest of each request. */
struct outcome {
    struct buf words;
    struct buf details;
};

static void outcome_fini(struct outcome *outcome)
{
    buf_fini(&outcome->words);
    buf_fini(&outcome->details);
}

static void note(struct outcome *outcome, const struct http1 *http, enum http_progress progress)
{
    const struct http_request *request = &http->request;
    if (outcome->words.len)
        buf_add_char(&outcome->words, ' ');
    if (progress == HTTP_BAD) {
        buf_addf(&outcome->words, "%d", http->status);
        buf_addf(&outcome->details, "%d %s;", http->status, http->reason);
        return;
    }
    buf_add_str(&outcome->words, "ok");
    buf_addf(&outcome->details, "%d %d %d [", request->method, request->keep_alive,
             request->http10);
    const struct bytes texts[] = {request->target,        request->path,         request->query,
                                  request->authorization, request->content_type, request->host,
                                  request->body};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        buf_add_bytes(&outcome->details, texts[i]);
        buf_add_char(&outcome->details, '|');
    }
    buf_add_str(&outcome->details, "];");
}

/* Feeds one piece, which lies in memory of its own so that reading past it is noticed. */
static bool feed(struct http1 *http, struct bytes piece, struct outcome *outcome)
{
    char *copy = malloc(piece.len ? piece.len : 1);
    size_t used = 0;
    bool good = true;
    assert_non_null(copy);
    if (piece.len)
        memcpy(copy, piece.at, piece.len);
    while (used < piece.len && good) {
        size_t step = 0;
        enum http_progress progress =
            http1_feed(http, bytes_of(copy + used, piece.len - used), &step);
        used += step;
        assert_true(used <= piece.len);
        if (progress == HTTP_READY) {
            note(outcome, http, progress);
            http1_next(http);
        } else if (progress == HTTP_BAD) {
            note(outcome, http, progress);
            good = false;
        } else if (progress == HTTP_MORE) {
            assert_int_equal(used, piece.len);
        }
    }
    free(copy);
    return good;
}

/* The stream cut at `cut`, and then into pieces of `piece` bytes (0: not). */
static struct outcome run(struct bytes input, size_t cut, size_t piece)
{
    struct http1 http;
    struct outcome outcome = {0};
    http1_init(&http, &limits);
    bool good = feed(&http, bytes_of(input.at, cut), &outcome);
    for (size_t at = cut; good && at < input.len;) {
        size_t len = piece && piece < input.len - at ? piece : input.len - at;
        good = feed(&http, bytes_of(input.at + at, len), &outcome);
        at += len;
    }
    if (good && (outcome.words.len == 0 || http1_midway(&http)))
        buf_add_str(&outcome.words, outcome.words.len ? " more" : "more");
    http1_fini(&http);
    return outcome;
}

static bool is_wanted(struct bytes got, const char *want)
{
    while (*want) {
        size_t len = strcspn(want, "|");
        if (bytes_eq(got, bytes_of(want, len)))
            return true;
        want += len + (want[len] == '|');
    }
    return false;
}

static unsigned wrong_cases;

static void check_outcome(const struct wire_case *one)
{
    struct outcome outcome = run(buf_bytes(&one->input), 0, 0);
    if (!is_wanted(buf_bytes(&outcome.words), one->want)) /* tell all, then fail */
        print_error("%s: want %s, got %.*s\n", one->name, one->want, (int)outcome.words.len,
                    outcome.words.at);
    wrong_cases += !is_wanted(buf_bytes(&outcome.words), one->want);
    outcome_fini(&outcome);
}

static void check_cuts(const struct wire_case *one)
{
    struct bytes input = buf_bytes(&one->input);
    struct outcome whole = run(input, 0, 0);
    size_t step = input.len > 4096 ? 97 : 1; /* the long ones are long for one reason only */
    for (size_t cut = 0; cut <= input.len + 2; cut += step) {
        /* the last two rounds: all in single bytes, all in threes */
        struct outcome part =
            cut <= input.len ? run(input, cut, 0) : run(input, 0, cut == input.len + 1 ? 1 : 3);
        bool same = bytes_eq(buf_bytes(&whole.words), buf_bytes(&part.words)) &&
                    bytes_eq(buf_bytes(&whole.details), buf_bytes(&part.details));
        if (!same)
            print_error("%s: cut at %zu: %.*s\n", one->name, cut, (int)part.words.len,
                        part.words.at);
        wrong_cases += !same;
        outcome_fini(&part);
    }
    outcome_fini(&whole);
}

static void every_hostile_case_has_its_answer(void **state)
{
    (void)state;
    wrong_cases = 0;
    assert_true(each_case(check_outcome) >= 300);
    assert_int_equal(wrong_cases, 0);
}

/* Lines are searched in blocks of sixteen bytes: a CR or LF is found wherever it is. */
static void a_wrong_line_end_is_found_anywhere(void **state)
{
    (void)state;
    static const char wrong[] = {'a', '\r', '\n'};
    static const char *const reasons[] = {NULL, "a CR is not followed by LF",
                                          "a line ends in LF without CR"};
    for (size_t i = 0; i < 50 * 50 * sizeof(wrong); i++) {
        size_t len = i / 3 / 50 + 1, at = i / 3 % 50 % len, used;
        char value[51] = "";
        struct buf text = {0};
        struct http1 http;
        memset(value, 'a', len);
        value[at] = wrong[i % 3];
        buf_addf(&text, "GET / HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n", value);
        http1_init(&http, &limits);
        enum http_progress progress = http1_feed(&http, buf_bytes(&text), &used);
        assert_int_equal(progress, reasons[i % 3] ? HTTP_BAD : HTTP_READY);
        if (reasons[i % 3])
            assert_string_equal(http.reason, reasons[i % 3]);
        http1_fini(&http);
        buf_fini(&text);
    }
}

static void the_stream_may_be_cut_anywhere(void **state)
{
    (void)state;
    wrong_cases = 0;
    (void)each_case(check_cuts);
    assert_int_equal(wrong_cases, 0);
}

/* ---- single claims ---- */

static enum http_progress feed_all(struct http1 *http, const char *text)
{
    size_t used;
    return http1_feed(http, bytes_str(text), &used);
}

static void a_body_in_one_piece_is_not_copied(void **state)
{
    (void)state;
    static const char text[] = "POST /push HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    struct http1 http;
    http1_init(&http, &limits);
    assert_int_equal(feed_all(&http, text), HTTP_READY);
    assert_ptr_equal(http.request.body.at, text + sizeof(text) - 6);
    assert_int_equal(http.head.cap + http.body.cap, 0);
    http1_fini(&http);
}

static void continue_is_asked_for_once_and_only_if_the_body_waits(void **state)
{
    (void)state;
    struct http1 http;
    http1_init(&http, &limits);
    assert_int_equal(feed_all(&http, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                                     "Content-Length: 2\r\n\r\n"),
                     HTTP_CONTINUE);
    assert_int_equal(feed_all(&http, "h"), HTTP_MORE);
    assert_int_equal(feed_all(&http, "i"), HTTP_READY);
    assert_true(bytes_eq(http.request.body, BYTES("hi")));
    http1_next(&http);
    assert_int_equal(feed_all(&http, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                                     "Content-Length: 0\r\n\r\n"),
                     HTTP_READY);
    http1_fini(&http);
}

static void keep_alive_follows_version_and_header(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool keep;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: CLOSE\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, close\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", true},
        {"GET / HTTP/1.0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
        {"GET / HTTP/1.0\r\nConnection: close\r\n\r\n", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct http1 http;
        http1_init(&http, &limits);
        assert_int_equal(feed_all(&http, cases[i].text), HTTP_READY);
        assert_int_equal(http.request.keep_alive, cases[i].keep);
        http1_fini(&http);
    }
}

static void midway_means_that_a_request_has_begun(void **state)
{
    (void)state;
    struct http1 http;
    http1_init(&http, &limits);
    assert_false(http1_midway(&http));
    (void)feed_all(&http, "GET / HT");
    assert_true(http1_midway(&http));
    assert_int_equal(feed_all(&http, "TP/1.1\r\nHost: a\r\n\r\n"), HTTP_READY);
    http1_next(&http);
    assert_false(http1_midway(&http));
    (void)feed_all(&http, "\r");
    assert_true(http1_midway(&http));
    (void)feed_all(&http, "\n"); /* which some clients send behind a body */
    assert_false(http1_midway(&http));
    assert_int_equal(feed_all(&http, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), HTTP_READY);
    http1_fini(&http);
}

/* Its client waits for an answer, and would never send the empty line that ends a head. */
static void a_command_of_beanstalkd_is_known_at_its_lines_end(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool beanstalk;
    } cases[] = {
        {"put 0 0 60 5\r\nhello\r\n", true},
        {"reserve\r\n", true},
        {"stats\r\n", true},
        {"delete 5\r\n", true},
        {"list-tubes\r\n", true},
        {"reserve-with-timeout 0\r\n", true},
        {"GET / HTTP/1.1\r\n", false},
        {"stats / HTTP/1.1\r\n", false},
        {"putter\r\n", false},
        {"reserve", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct http1 http;
        http1_init(&http, &limits);
        enum http_progress progress = feed_all(&http, cases[i].text);
        assert_int_equal(progress, cases[i].beanstalk ? HTTP_BAD : HTTP_MORE);
        assert_int_equal(http.beanstalk, cases[i].beanstalk);
        assert_true(!http.beanstalk || strstr(http.reason, "server.beanstalk") != NULL);
        http1_fini(&http);
    }
}

/* Its client would wait, too: a hello may have no line end, and is shorter than a line may be. */
static void a_hello_of_tls_is_known_at_its_first_byte(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool tls;
    } cases[] = {
        {"\x16", true},        {"\x16\x03\x01\x02", true}, {"\r\n\x16\x03", true},
        {"GET /\x16 ", false}, {"\x15\x03\x01", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct http1 http;
        http1_init(&http, &limits);
        assert_int_equal(feed_all(&http, cases[i].text), cases[i].tls ? HTTP_BAD : HTTP_MORE);
        assert_int_equal(http.tls, cases[i].tls);
        assert_true(!http.tls || (http.status == 400 && strstr(http.reason, "http://")));
        http1_fini(&http);
    }
}

/* What lies there is a body that is longer than its client said, or what else went wrong. */
static void behind_a_request_no_hello_of_tls_is_looked_for(void **state)
{
    (void)state;
    struct http1 http;
    http1_init(&http, &limits);
    assert_int_equal(feed_all(&http, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), HTTP_READY);
    http1_next(&http);
    assert_int_equal(feed_all(&http, "\x16\x03"), HTTP_MORE);
    assert_int_equal(feed_all(&http, "\x01 / HTTP/1.1\r\n\r\n"), HTTP_BAD);
    assert_true(!http.tls && http.status == 400);
    http1_fini(&http);
}

static void a_target_is_taken_apart(void **state)
{
    (void)state;
    struct http1 http;
    http1_init(&http, &limits);
    (void)feed_all(&http,
                   "GET http://a:1/b/c?d=e HTTP/1.1\r\nHost: a\r\nContent-Type: x/y \r\n\r\n");
    assert_true(bytes_eq(http.request.target, BYTES("http://a:1/b/c?d=e")));
    assert_true(bytes_eq(http.request.path, BYTES("/b/c")));
    assert_true(bytes_eq(http.request.query, BYTES("d=e")));
    assert_true(bytes_eq(http.request.content_type, BYTES("x/y")));
    assert_true(bytes_eq(http.request.host, BYTES("a:1"))); /* not that of the header */
    http1_fini(&http);
}

static void a_target_with_a_byte_to_escape_is_refused_wherever_that_is(void **state)
{
    (void)state;
    enum { LONGEST = 40 };
    for (size_t len = 1; len <= LONGEST; len++) {
        for (size_t place = 1; place <= len; place++) { /* `len`: nowhere */
            char target[LONGEST + 1] = "/", text[100];
            struct http1 http;
            memset(target + 1, 'a', len - 1);
            if (place < len)
                target[place] = place % 2 ? '#' : '\x7f';
            (void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", target);
            http1_init(&http, &limits);
            assert_int_equal(feed_all(&http, text), place < len ? HTTP_BAD : HTTP_READY);
            http1_fini(&http);
        }
    }
}

static void a_body_that_is_compressed_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        bool compressed;
    } cases[] = {
        {"", false},
        {"Content-Encoding: gzip\r\n", true},
        {"content-ENCODING:\tbr \r\n", true},
        {"Content-Encoding: Identity\r\n", false},
        {"Content-Encoding: identity\r\nContent-Encoding: gzip\r\n", true},
        {"Content-Encoding: gzip\r\nContent-Encoding: identity\r\n", true},
        {"Content-Encoding:\r\n", false},
        {"Content-Encoding: UTF-8\r\n", false},
        {"Content-Encoding: identity , zstd\r\n", true},
        {"Accept-Encodings: gzip\r\n", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct http1 http;
        char text[200];
        (void)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", cases[i].line);
        http1_init(&http, &limits);
        (void)feed_all(&http, text);
        assert_int_equal(http.request.compressed, cases[i].compressed);
        http1_fini(&http);
    }
}

static void a_request_of_another_sites_page_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *lines;
        bool cross_site;
    } cases[] = {
        {"Host: a:1\r\n", false},
        {"Host: a:1\r\nOrigin: http://a:1\r\n", false},
        {"ORIGIN: http://A:1 \r\nhost: a:1\r\n", false},
        {"Host: a\r\nOrigin: https://a\r\n", false},
        {"Host: a:1\r\nOrigin: http://a:2\r\n", true},
        {"Host: a:1\r\nOrigin: http://a\r\n", true},
        {"Host: a:1\r\nOrigin: http://evil.example\r\n", true},
        {"Host: a:1\r\nOrigin: http://a:1.evil.example\r\n", true},
        {"Host: a:1\r\nOrigin: ftp://a:1\r\n", true},
        {"Host: a:1\r\nOrigin: null\r\n", true},
        {"Host: a:1\r\nOrigin:\r\n", true},
        {"Host: a:1\r\nSec-Fetch-Site: cross-site\r\n", true},
        {"Host: a:1\r\nSec-Fetch-Site: same-site\r\n", true},
        {"Host: a:1\r\nSec-Fetch-Site: same-origin\r\nOrigin: http://a:1\r\n", false},
        {"Host: a:1\r\nSec-Fetch-Site: none\r\n", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct http1 http;
        char text[200];
        (void)snprintf(text, sizeof(text), "POST / HTTP/1.1\r\n%s\r\n", cases[i].lines);
        http1_init(&http, &limits);
        assert_int_equal(feed_all(&http, text), HTTP_READY);
        if (http.request.cross_site != cases[i].cross_site)
            fail_msg("%s", cases[i].lines);
        http1_fini(&http);
    }
}

static void a_response_is_whole(void **state)
{
    (void)state;
    struct buf out = {0};
    struct http_response response = {
        .status = 405, .content_type = "a/b", .allow = BYTES("GET"), .date = BYTES("today")};
    http_respond(&out, &response, BYTES("hi"));
    assert_true(bytes_eq(buf_bytes(&out),
                         BYTES("HTTP/1.1 405 Method Not Allowed\r\nDate: today\r\n"
                               "Content-Type: a/b\r\nAllow: GET\r\nContent-Length: 2\r\n\r\nhi")));
    out.len = 0;
    http_respond(&out, &(struct http_response){.status = 204, .close = true}, BYTES(""));
    assert_true(
        bytes_eq(buf_bytes(&out), BYTES("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")));
    out.len = 0;
    http_respond(&out,
                 &(struct http_response){.status = 503, .head_only = true, .retry_after_s = 10},
                 BYTES("hello"));
    assert_true(bytes_eq(buf_bytes(&out), BYTES("HTTP/1.1 503 Service Unavailable\r\n"
                                                "Retry-After: 10\r\nContent-Length: 5\r\n\r\n")));
    buf_fini(&out);
}

static void a_date_is_written_as_the_rfc_does(void **state)
{
    (void)state;
    char room[30];
    assert_string_equal(http_date(784111777, room).at, "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_string_equal(http_date(0, room).at, "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_string_equal(http_date(951782400, room).at, "Tue, 29 Feb 2000 00:00:00 GMT");
    assert_string_equal(http_date(4107542400, room).at, "Mon, 01 Mar 2100 00:00:00 GMT");
}

/* All chunks together; the last of them may fill the limit. */
static void a_chunked_body_may_be_as_long_as_the_limit(void **state)
{
    static const struct {
        const char *chunks;
        enum http_progress wanted;
    } cases[] = {
        {"8\r\n01234567\r\n0\r\n\r\n", HTTP_READY},
        {"4\r\n0123\r\n4\r\n4567\r\n0\r\n\r\n", HTTP_READY},
        {"9\r\n", HTTP_BAD},
        {"4\r\n0123\r\n5\r\n", HTTP_BAD},
    };
    struct http_limits small = limits;
    (void)state;
    small.body_bytes = 8;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct http1 http;
        size_t used;
        struct buf text = {0};
        buf_add_str(&text, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        buf_add_str(&text, cases[i].chunks);
        http1_init(&http, &small);
        assert_int_equal(http1_feed(&http, buf_bytes(&text), &used), cases[i].wanted);
        if (cases[i].wanted == HTTP_READY)
            assert_true(bytes_eq(http.request.body, BYTES("01234567")));
        http1_fini(&http);
        buf_fini(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunked_body_may_be_as_long_as_the_limit),
        cmocka_unit_test(every_hostile_case_has_its_answer),
        cmocka_unit_test(a_wrong_line_end_is_found_anywhere),
        cmocka_unit_test(the_stream_may_be_cut_anywhere),
        cmocka_unit_test(a_body_in_one_piece_is_not_copied),
        cmocka_unit_test(continue_is_asked_for_once_and_only_if_the_body_waits),
        cmocka_unit_test(keep_alive_follows_version_and_header),
        cmocka_unit_test(midway_means_that_a_request_has_begun),
        cmocka_unit_test(a_command_of_beanstalkd_is_known_at_its_lines_end),
        cmocka_unit_test(a_hello_of_tls_is_known_at_its_first_byte),
        cmocka_unit_test(behind_a_request_no_hello_of_tls_is_looked_for),
        cmocka_unit_test(a_target_is_taken_apart),
        cmocka_unit_test(a_target_with_a_byte_to_escape_is_refused_wherever_that_is),
        cmocka_unit_test(a_body_that_is_compressed_is_known),
        cmocka_unit_test(a_request_of_another_sites_page_is_known),
        cmocka_unit_test(a_response_is_whole),
        cmocka_unit_test(a_date_is_written_as_the_rfc_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
