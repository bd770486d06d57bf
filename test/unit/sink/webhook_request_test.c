/* sink/webhook/request and secrets: which headers an attempt has, and where its keys come from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sink/webhook/request.h"

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define OTHER  "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static struct request request;
static struct secrets secrets;
static struct secret_problem problem;
static struct target target;
static struct delivery delivery;

static int set_up(void **state)
{
    (void)state;
    request_init(&request);
    target = (struct target){.type = TARGET_HTTP};
    delivery = (struct delivery){
        .target = &target,
        .topic = BYTES("pay/\xe4\xbd\xa0 %"),
        .id = BYTES("@17"),
        .message_id = BYTES("msg_p5jXN8AQM9LWM0D4loKWxJek"),
        .body = BYTES("{\"test\": 2432232314}"),
        .attempt = 3,
        .due_us = INT64_C(1700000000123000),
    };
    problem.text[0] = '\0';
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    request_fini(&request);
    secrets_forget(&secrets);
    return 0;
}

static int64_t now_s = 1614265330;

static enum err make(void)
{
    return request_make(&request, &delivery, now_s, &secrets, &problem);
}

/* The value of a header; NULL: there is none. It must not be there twice. */
static const char *header(const char *name)
{
    const char *found = NULL;
    size_t len = strlen(name);
    for (const struct curl_slist *at = request.list; at; at = at->next) {
        if (strncasecmp(at->data, name, len) == 0 && at->data[len] == ':') {
            assert_null(found);
            found = at->data + len + 1 + (at->data[len + 1] == ' ');
        }
    }
    return found;
}

static void an_attempt_has_its_headers(void **state)
{
    (void)state;
    assert_int_equal(make(), OK);
    assert_string_equal(header("webhook-id"), "msg_p5jXN8AQM9LWM0D4loKWxJek");
    assert_string_equal(header("idempotency-key"), "msg_p5jXN8AQM9LWM0D4loKWxJek");
    assert_string_equal(header("webhook-timestamp"), "1614265330");
    assert_string_equal(header("laterd-job-id"), "@17");
    assert_string_equal(header("laterd-topic"), "pay/%E4%BD%A0%20%25");
    assert_string_equal(header("laterd-attempt"), "3");
    assert_string_equal(header("laterd-due"), "2023-11-14T22:13:20.123Z");
    assert_string_equal(header("content-type"), "application/octet-stream");
    assert_string_equal(header("user-agent"), "laterd/" LATERD_VERSION);
    assert_string_equal(header("Expect"), "");
    assert_int_equal(strlen(header("traceparent")), 55);
    assert_null(header("webhook-signature"));
    assert_null(header("ce-id"));
}

static void the_trace_is_the_messages_and_the_span_the_attempts(void **state)
{
    (void)state;
    char first[64];
    assert_int_equal(make(), OK);
    (void)snprintf(first, sizeof(first), "%s", header("traceparent"));
    delivery.attempt = 4;
    assert_int_equal(make(), OK);
    assert_memory_equal(first, header("traceparent"), 35);
    assert_string_not_equal(first, header("traceparent"));
    (void)snprintf(first, sizeof(first), "%s", header("traceparent"));
    now_s++; /* replayed */
    assert_int_equal(make(), OK);
    assert_memory_equal(first, header("traceparent"), 35);
    assert_string_not_equal(first, header("traceparent"));
    now_s--;
    struct target_header own = {BYTES("Traceparent"), BYTES("00-1-2-00")};
    delivery.headers = &own;
    delivery.header_count = 1;
    assert_int_equal(make(), OK);
    assert_string_equal(header("traceparent"), "00-1-2-00");
}

static void the_content_type_is_the_jobs_then_the_bodys(void **state)
{
    (void)state;
    delivery.body_kind = BODY_JSON;
    assert_int_equal(make(), OK);
    assert_string_equal(header("content-type"), "application/json");
    delivery.content_type = BYTES("text/plain; charset=utf-8");
    assert_int_equal(make(), OK);
    assert_string_equal(header("content-type"), "text/plain; charset=utf-8");
    delivery.content_type = BYTES("text/plain\r\nX-Evil: 1");
    assert_int_equal(make(), OK);
    assert_string_equal(header("content-type"), "application/octet-stream");
}

static void headers_of_the_job_go_before_those_of_the_target_and_ours_before_both(void **state)
{
    (void)state;
    struct target_header own[] = {{BYTES("X-A"), BYTES("job")},
                                  {BYTES("Webhook-Id"), BYTES("forged")},
                                  {BYTES("laterd-topic"), BYTES("no")},
                                  {BYTES("Content-Length"), BYTES("1")},
                                  {BYTES("X-Bad\r\nX-Evil"), BYTES("1")},
                                  {BYTES("X-Split"), BYTES("1\r\nX-Evil: 1")},
                                  {BYTES("X-Empty"), BYTES("")},
                                  {BYTES("Host"), BYTES("elsewhere")},
                                  {BYTES("Transfer-Encoding"), BYTES("chunked")}};
    delivery.headers = own;
    delivery.header_count = sizeof(own) / sizeof(own[0]);
    target.header_count = 3;
    target.headers[0] = (struct target_header){BYTES("x-a"), BYTES("target")};
    target.headers[1] = (struct target_header){BYTES("X-B"), BYTES("target")};
    target.headers[2] = (struct target_header){BYTES("User-Agent"), BYTES("mine")};
    assert_int_equal(make(), OK);
    assert_string_equal(header("X-A"), "job");
    assert_string_equal(header("X-B"), "target");
    assert_string_equal(header("User-Agent"), "mine");
    assert_string_equal(header("webhook-id"), "msg_p5jXN8AQM9LWM0D4loKWxJek");
    assert_string_not_equal(header("laterd-topic"), "no");
    assert_null(header("Content-Length"));
    assert_null(header("Transfer-Encoding"));
    assert_null(header("Host"));
    assert_null(header("X-Evil"));
    assert_null(header("X-Split"));
    for (const struct curl_slist *at = request.list; at; at = at->next)
        assert_null(strpbrk(at->data, "\r\n"));
}

/* They frame the request, or say what only laterd may say; a value that cannot be sent does not
   keep the target's header away. */
static void a_job_cannot_set_the_headers_of_others(void **state)
{
    static const char *const names[] = {
        "Host",    "content-length", "Transfer-Encoding", "Connection", "Proxy-Authorization", "TE",
        "Upgrade", "Expect",         "Trailer",           "keep-alive"};
    struct target_header own = {.value = BYTES("1")};
    (void)state;
    delivery.headers = &own;
    delivery.header_count = 1;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        own.name = bytes_str(names[i]);
        assert_int_equal(make(), OK);
        const char *value = header(names[i]);
        assert_true(!value || !value[0]); /* "Expect:" keeps libcurl from adding one */
    }
    own.name = BYTES("Ce-Id");
    assert_int_equal(make(), OK);
    assert_string_equal(header("ce-id"), "1");
    target.http.encoding = ENCODING_CLOUDEVENTS;
    target.http.event_type = BYTES("t");
    assert_int_equal(make(), OK);
    assert_string_equal(header("ce-id"), "msg_p5jXN8AQM9LWM0D4loKWxJek");
    target.http.encoding = ENCODING_PLAIN;
    target.headers[0] = (struct target_header){BYTES("X-A"), BYTES("targets")};
    target.header_count = 1;
    own = (struct target_header){BYTES("x-a"), BYTES("a\x7f")};
    assert_int_equal(make(), OK);
    assert_string_equal(header("X-A"), "targets");
    own.value = BYTES("jobs");
    assert_int_equal(make(), OK);
    assert_string_equal(header("X-A"), "jobs");
}

static void as_a_cloud_event_it_has_its_attributes(void **state)
{
    (void)state;
    target.http.encoding = ENCODING_CLOUDEVENTS;
    target.http.event_type = BYTES("com.example.due");
    delivery.id = BYTES("a \"b\"");
    assert_int_equal(make(), OK);
    assert_string_equal(header("ce-specversion"), "1.0");
    assert_string_equal(header("ce-id"), header("webhook-id"));
    assert_string_equal(header("ce-source"), "/laterd/pay/%25E4%25BD%25A0%2520%2525");
    assert_string_equal(header("ce-type"), "com.example.due");
    assert_string_equal(header("ce-time"), "2023-11-14T22:13:20.123Z");
    assert_string_equal(header("ce-subject"), "a%20%22b%22");
}

static void labels_are_headers_and_attributes(void **state)
{
    (void)state;
    target.http.encoding = ENCODING_CLOUDEVENTS;
    target.http.event_type = BYTES("com.example.due");
    assert_int_equal(make(), OK);
    assert_null(header("laterd-biz-key"));
    assert_null(header("ce-bizkey"));
    delivery.labels[DELIVERY_BIZ_KEY] = BYTES("17 a");
    delivery.labels[DELIVERY_SUBTOPIC] = BYTES("eu");
    delivery.labels[DELIVERY_TAGS] = BYTES("a,b");
    delivery.labels[DELIVERY_EXTEND_DATA] = BYTES("{\"n\":\n1}");
    assert_int_equal(make(), OK);
    assert_string_equal(header("laterd-biz-key"), "17%20a");
    assert_string_equal(header("laterd-subtopic"), "eu");
    assert_string_equal(header("laterd-tags"), "a%2Cb");
    assert_string_equal(header("laterd-extend-data"), "%7B%22n%22:%0A1%7D");
    assert_string_equal(header("ce-bizkey"), "17%20a");
    assert_string_equal(header("ce-subtopic"), "eu");
    assert_string_equal(header("ce-tags"), "a,b");
    assert_string_equal(header("ce-extenddata"), "{%22n%22:%0A1}");
}

static void each_secret_signs_newest_first(void **state)
{
    (void)state;
    assert_int_equal(setenv("HOOK_NEW", OTHER, 1), 0);
    assert_int_equal(setenv("HOOK_OLD", SECRET, 1), 0);
    target.http.sign[0] = BYTES("$HOOK_NEW");
    target.http.sign[1] = BYTES("$HOOK_OLD");
    target.http.sign_count = 2;
    assert_int_equal(make(), OK);
    const char *both = header("webhook-signature");
    assert_int_equal(strlen(both), 2 * SIGNATURE_TEXT_BYTES + 1);
    assert_string_equal(both + SIGNATURE_TEXT_BYTES,
                        " v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

/* ---- secrets ---- */

static void expect_refused(const char *reference, const char *why)
{
    const struct signing_key *key;
    assert_int_equal(secrets_find(&secrets, bytes_str(reference), &key, &problem), ERR_INVALID);
    assert_string_equal(problem.text, why);
}

static void a_secret_that_cannot_be_used_is_named_and_not_shown(void **state)
{
    (void)state;
    assert_int_equal(unsetenv("HOOK_NONE"), 0);
    assert_int_equal(setenv("HOOK_BAD", "hunter2", 1), 0);
    expect_refused("$HOOK_NONE", "the secret $HOOK_NONE is not in the environment of laterd");
    expect_refused("$HOOK_BAD",
                   "the secret $HOOK_BAD is malformed: it must be whsec_ and 24 to 64 bytes as "
                   "base64");
    expect_refused("file:/nonexistent/x",
                   "the secret file:/nonexistent/x cannot be read: No such file or directory");
    expect_refused("file:x", "the secret file:x must be an absolute path");
    expect_refused("file:/dev/zero", "the secret file:/dev/zero is not a file of less than 1 KiB");
    expect_refused(SECRET, "a secret must be named as $NAME or file:/PATH");
    expect_refused("$", "a secret must be named as $NAME or file:/PATH");
    expect_refused("", "a secret must be named as $NAME or file:/PATH");
}

/* As long as settings accept it. */
static void the_longest_reference_is_looked_for(void **state)
{
    char reference[TARGET_PATH_MAX + 1] = "file:/";
    const struct signing_key *key;
    (void)state;
    memset(reference + 6, 'x', TARGET_PATH_MAX - 6);
    assert_int_equal(secrets_find(&secrets, bytes_str(reference), &key, &problem), ERR_INVALID);
    assert_non_null(strstr(problem.text, "cannot be read: File name too long"));
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void a_file_is_read_again_when_it_has_changed(void **state)
{
    (void)state;
    char path[] = "/tmp/laterd-secret-XXXXXX", reference[64], next[64];
    const struct signing_key *key;
    uint8_t first[24];
    int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    (void)snprintf(reference, sizeof(reference), "file:%s", path);
    (void)snprintf(next, sizeof(next), "%s.next", path);
    write_file(path, SECRET "\n");
    assert_int_equal(secrets_find(&secrets, bytes_str(reference), &key, &problem), OK);
    memcpy(first, key->at, sizeof(first));
    assert_int_equal(secrets_find(&secrets, bytes_str(reference), &key, &problem), OK);
    assert_memory_equal(first, key->at, sizeof(first));
    write_file(next, OTHER);
    assert_int_equal(rename(next, path), 0); /* as secrets are replaced: another inode */
    assert_int_equal(secrets_find(&secrets, bytes_str(reference), &key, &problem), OK);
    assert_memory_not_equal(first, key->at, sizeof(first));
    write_file(next, "nonsense");
    assert_int_equal(rename(next, path), 0);
    assert_int_equal(secrets_find(&secrets, bytes_str(reference), &key, &problem), ERR_INVALID);
    assert_null(strstr(problem.text, "nonsense"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(secrets_find(&secrets, bytes_str(reference), &key, &problem), ERR_INVALID);
}

static void more_secrets_than_are_kept_are_found(void **state)
{
    (void)state;
    const struct signing_key *key;
    char name[32], reference[40];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3 * SECRETS_KEPT; i++) {
            (void)snprintf(name, sizeof(name), "HOOK_%d", i);
            (void)snprintf(reference, sizeof(reference), "$%s", name);
            assert_int_equal(setenv(name, i % 2 ? OTHER : SECRET, 1), 0);
            assert_int_equal(secrets_find(&secrets, bytes_str(reference), &key, &problem), OK);
            assert_true((key->at[0] == 0) == (i % 2));
        }
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(an_attempt_has_its_headers),
        TEST(the_trace_is_the_messages_and_the_span_the_attempts),
        TEST(the_content_type_is_the_jobs_then_the_bodys),
        TEST(headers_of_the_job_go_before_those_of_the_target_and_ours_before_both),
        TEST(a_job_cannot_set_the_headers_of_others),
        TEST(as_a_cloud_event_it_has_its_attributes),
        TEST(labels_are_headers_and_attributes),
        TEST(each_secret_signs_newest_first),
        TEST(a_secret_that_cannot_be_used_is_named_and_not_shown),
        TEST(the_longest_reference_is_looked_for),
        TEST(a_file_is_read_again_when_it_has_changed),
        TEST(more_secrets_than_are_kept_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
