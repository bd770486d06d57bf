/* Files of a target of webhooks that cannot be used: nothing is sent, whatever the system has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "os/clock.h"
#include "os/loop.h"
#include "sink/webhook.h"

enum { WAIT_US = 60 * 1000 * 1000 };

struct sent {
    struct delivery delivery;
    unsigned done;
    enum outcome_kind kind;
    bool untried;
    char reason[OUTCOME_REASON_MAX + 1];
};

static void done(struct delivery *delivery, const struct outcome *outcome)
{
    struct sent *sent = LIST_ENTRY(delivery, struct sent, delivery);
    sent->done++;
    sent->kind = outcome->kind;
    sent->untried = outcome->untried;
    (void)snprintf(sent->reason, sizeof(sent->reason), "%.*s", (int)outcome->reason.len,
                   outcome->reason.at);
}

/* To a port where nobody listens: whoever connects says so. */
static void deliver(const struct target *target, struct sent *sent)
{
    static const struct address_rule here = {
        .allow = {{.at = {[10] = 0xff, 0xff, 127, 0, 0, 1}, .bits = 128, .is_v4 = true}},
        .allow_count = 1,
        .ports = {{.first = 1, .last = UINT16_MAX}},
        .port_count = 1,
    };
    struct os_clock os_clock;
    os_clock_init(&os_clock);
    struct os_loop *os = os_loop_new(&os_clock.clock, 0);
    struct loop *loop = os_loop_port(os);
    struct sink *sink = webhook_new(&(struct webhook_options){.loop = loop,
                                                              .rule = &here,
                                                              .timeout_us = WAIT_US,
                                                              .connect_timeout_us = WAIT_US,
                                                              .response_bytes = 1024,
                                                              .proxy = "",
                                                              .unix_sockets = ""});
    *sent = (struct sent){.delivery = {.done = done,
                                       .target = target,
                                       .url = target->http.url,
                                       .topic = BYTES("t"),
                                       .id = BYTES("@1"),
                                       .message_id = BYTES("msg_1"),
                                       .attempt = 1}};
    int64_t until_us = loop_update_time(loop) + WAIT_US;
    sink->verbs->send(sink, &sent->delivery);
    while (!sent->done && loop->now_us < until_us)
        loop_turn(loop, loop->now_us + 5000);
    sink->verbs->close(sink, 0);
    os_loop_free(os);
    assert_int_equal(sent->done, 1);
}

/* The name of a folder: as many slashes as it has bytes. */
static void expect_no_file(size_t len)
{
    static char slashes[TARGET_PATH_MAX];
    struct target target = {.type = TARGET_HTTP, .http.url = BYTES("https://127.0.0.1:1/")};
    struct sent sent;
    memset(slashes, '/', sizeof(slashes));
    target.http.ca = bytes_of(slashes, len);
    deliver(&target, &sent);
    assert_int_equal(sent.kind, OUTCOME_FAILED);
    assert_true(sent.untried);
    if (!strstr(sent.reason, "it is not a regular file"))
        fail_msg("%zu: %s", len, sent.reason);
}

static void the_longest_name_of_a_file_is_not_left_out(void **state)
{
    (void)state;
    log_level_set(LOG_ERROR);
    expect_no_file(1);
    expect_no_file(TARGET_PATH_MAX - 1);
    expect_no_file(TARGET_PATH_MAX);
}

/* A breaker is told only of receivers that were tried. */
static void who_was_asked_was_tried(void **state)
{
    struct target nobody = {.type = TARGET_HTTP, .http.url = BYTES("http://127.0.0.1:1/")};
    struct target private = {.type = TARGET_HTTP, .http.url = BYTES("http://127.0.0.2:1/")};
    struct target no_secret = nobody;
    struct sent sent;
    (void)state;
    log_level_set(LOG_ERROR);
    deliver(&nobody, &sent);
    assert_true(sent.kind == OUTCOME_FAILED && !sent.untried);
    assert_non_null(strstr(sent.reason, "no connection"));
    deliver(&private, &sent);
    assert_true(sent.kind == OUTCOME_FAILED && sent.untried);
    assert_non_null(strstr(sent.reason, "not allowed"));
    no_secret.http.sign_count = 1;
    no_secret.http.sign[0] = BYTES("file:/nowhere/secret");
    deliver(&no_secret, &sent);
    assert_true(sent.kind == OUTCOME_FAILED && sent.untried);
    assert_non_null(strstr(sent.reason, "cannot be read"));
}

/* libcurl reads it only when there is a connection. */
static void a_file_that_is_missing_says_nothing_of_the_receiver(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char url[64];
    struct sent sent;
    (void)state;
    assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(url, sizeof(url), "https://127.0.0.1:%u/", ntohs(at.sin_port));
    struct target target = {.type = TARGET_HTTP,
                            .http = {.url = bytes_str(url), .ca = BYTES("/nowhere/ca.pem")}};
    deliver(&target, &sent);
    (void)close(fd);
    assert_true(sent.kind == OUTCOME_FAILED && sent.untried);
    assert_non_null(strstr(sent.reason, "cannot be used"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_was_asked_was_tried),
        cmocka_unit_test(a_file_that_is_missing_says_nothing_of_the_receiver),
        cmocka_unit_test(the_longest_name_of_a_file_is_not_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
