/* The journal's connection, to a server of the test's own that answers as MySQL does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/check.h"
#include "journal/mysql/session.h"

/* Commands of the protocol. */
#define QUERY "\x03"
#define PING  "\x0e"

static struct {
    int fd; /* listens */
    uint16_t port;
    pthread_t thread;
    const char *refuses; /* commands that begin with this, … */
    uint16_t error;      /* … with this error */
} server;

/* ---- the server ---- */

static bool read_all(int fd, void *room, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t got = read(fd, (char *)room + at, len - at);
        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

/* False: the client has gone. */
static bool send_packet(int fd, uint8_t number, const void *at, size_t len)
{
    uint8_t packet[256] = {(uint8_t)len, (uint8_t)(len >> 8), 0, number};
    CHECK(len + 4 <= sizeof(packet));
    memcpy(packet + 4, at, len);
    return write(fd, packet, len + 4) == (ssize_t)(len + 4);
}

/* The body of the next packet, cut to the room. False: the client has gone. */
static bool take_packet(int fd, char *room, size_t room_bytes, size_t *out_len)
{
    uint8_t head[4];
    char rest;
    if (!read_all(fd, head, sizeof(head)))
        return false;
    size_t len = (size_t)head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16;
    *out_len = len < room_bytes ? len : room_bytes;
    if (!read_all(fd, room, *out_len))
        return false;
    for (size_t more = len - *out_len; more; more--) {
        if (!read_all(fd, &rest, 1))
            return false;
    }
    return true;
}

static bool greet(int fd)
{
    static const char hello[] = "\x0a"
                                "8.0.36\0"                     /* its version */
                                "\x01\0\0\0"                   /* the connection's number */
                                "12345678\0"                   /* what scrambles the password, */
                                "\x0f\xa2\xff\x02\0\x08\0\x15" /* what it can do */
                                "\0\0\0\0\0\0\0\0\0\0"         /* reserved */
                                "123456789012\0"               /* and the rest of that */
                                "mysql_native_password";       /* with its NUL */
    return send_packet(fd, 0, hello, sizeof(hello));
}

static bool send_ok(int fd, uint8_t number)
{
    return send_packet(fd, number, "\0\0\0\x02\0\0\0", 7);
}

/* One row of one column. */
static bool send_number(int fd)
{
    static const char column[] = "\x03"
                                 "def\0\0\0\x01"
                                 "n\0\x0c\x3f\0\x14\0\0\0\xfd\0\0\0\0"; /* and a NUL */
    static const char end[] = "\xfe\0\0\x02";                           /* the same */
    return send_packet(fd, 1, "\x01", 1) && send_packet(fd, 2, column, sizeof(column)) &&
           send_packet(fd, 3, end, sizeof(end)) &&
           send_packet(fd, 4,
                       "\x08"
                       "16777216",
                       9) &&
           send_packet(fd, 5, end, sizeof(end));
}

static bool send_error(int fd)
{
    char text[64] = "\xff";
    text[1] = (char)server.error;
    text[2] = (char)(server.error >> 8);
    int len = snprintf(text + 3, sizeof(text) - 3, "#HY000not now");
    return send_packet(fd, 1, text, 3 + (size_t)len);
}

/* False: the client ends the connection. */
static bool answer(int fd, struct bytes command)
{
    if (bytes_starts(command, bytes_str(server.refuses)))
        return send_error(fd);
    if (bytes_starts(command, BYTES(QUERY "SELECT")))
        return send_number(fd);
    return bytes_starts(command, BYTES(QUERY)) && send_ok(fd, 1);
}

static void *serve(void *arg)
{
    char room[256];
    size_t len;
    (void)arg;
    int fd = accept(server.fd, NULL, NULL);
    bool on = fd >= 0 && greet(fd) && take_packet(fd, room, sizeof(room), &len) && send_ok(fd, 2);
    while (on)
        on = take_packet(fd, room, sizeof(room), &len) && answer(fd, bytes_of(room, len));
    if (fd >= 0)
        (void)close(fd);
    return NULL;
}

static void start_server(const char *refuses, uint16_t error)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    server.refuses = refuses;
    server.error = error;
    server.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(server.fd >= 0);
    assert_int_equal(bind(server.fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(server.fd, 1), 0);
    assert_int_equal(getsockname(server.fd, (struct sockaddr *)&address, &len), 0);
    server.port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&server.thread, NULL, serve, NULL), 0);
}

static void stop_server(void)
{
    assert_int_equal(pthread_join(server.thread, NULL), 0);
    assert_int_equal(close(server.fd), 0);
}

/* ---- tests ---- */

static void open_link(struct link *link, const char *refuses, uint16_t error)
{
    struct link_options options = {
        .url_text = "mysql://laterd@127.0.0.1/jobs", .password_text = "", .timeout_s = 30};
    start_server(refuses, error);
    options.url.port = server.port;
    (void)snprintf(options.url.host, sizeof(options.url.host), "127.0.0.1");
    (void)snprintf(options.url.user, sizeof(options.url.user), "laterd");
    (void)snprintf(options.url.database, sizeof(options.url.database), "jobs");
    link_init(link);
    assert_int_equal(link_open(link, &options), LINK_DONE);
    assert_int_equal(link->packet_max, 16777216);
}

static void close_link(struct link *link, uint16_t error)
{
    assert_int_equal(link->errnum, error);
    link_fini(link);
    stop_server();
}

/* What a ping returns that the server answers with this error. */
static enum link_result pinged(uint16_t error)
{
    struct link link;
    open_link(&link, PING, error);
    enum link_result result = link_ping(&link);
    close_link(&link, error);
    return result;
}

/* The writer's thread ends at a ROW outside of a group, and nothing would be written any more. */
static void a_ping_never_refuses_a_row(void **state)
{
    (void)state;
    assert_int_equal(pinged(4031), LINK_AWAY); /* MySQL ends a connection that was idle */
    assert_int_equal(pinged(9001), LINK_AWAY); /* a proxy has no server */
    assert_int_equal(pinged(1045), LINK_REFUSED);
}

/* What making a cursor returns if the server answers a statement with an unknown error. */
static enum link_result made(const char *statement)
{
    static const struct journal_begin begin = {.batch = 1};
    static const struct session_cursor cursor = {.epoch = 1, .batch = 1};
    struct session_refusal refusal = {.why = ""};
    struct link link;
    open_link(&link, statement, 9001);
    enum link_result result = session_make_cursor(&link, &begin, NULL, &cursor, &refusal);
    close_link(&link, 9001);
    return result;
}

/* ROW would mean that another laterd writes. */
static void a_cursor_that_cannot_be_made_is_tried_again(void **state)
{
    (void)state;
    assert_int_equal(made(QUERY "SET TRANSACTION"), LINK_REFUSED);
    assert_int_equal(made(QUERY "START TRANSACTION"), LINK_REFUSED);
    assert_int_equal(made(QUERY "SELECT LOWER"), LINK_REFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ping_never_refuses_a_row),
        cmocka_unit_test(a_cursor_that_cannot_be_made_is_tried_again),
    };
    return cmocka_run_group_tests_name("journal/mysql_link", tests, NULL, NULL);
}
