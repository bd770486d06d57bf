/*
 * What a client had not taken when its stream was closed: it is counted until it is freed, a piece
 * a turn. Sockets on this machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/clock.h"
#include "os/loop.h"

enum { ANSWER_BYTES = 64 * 1024 * 1024, SOCKETS_BYTES = 16 * 1024 * 1024, TURNS_MAX = 1000 };

static struct stream *came;

static size_t input(struct stream *stream, struct bytes bytes)
{
    (void)stream;
    return bytes.len;
}

static void gone(struct stream *stream, bool half)
{
    (void)stream, (void)half;
}

static const struct stream_handler handler = {.input = input, .gone = gone};

static void accepted(struct acceptor *acceptor, struct stream *stream, unsigned listener)
{
    (void)acceptor, (void)listener;
    stream->handler = &handler;
    came = stream;
}

/* A client that reads nothing. */
static int join(struct loop *loop, struct os_loop *os)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listen_fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listen_fd, 1), 0);
    assert_int_equal(getsockname(listen_fd, (struct sockaddr *)&address, &len), 0);
    os_loop_listen(os, listen_fd, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, len), 0);
    for (int turn = 0; turn < TURNS_MAX && !came; turn++)
        loop_turn(loop, loop->now_us + 10000);
    assert_non_null(came);
    return fd;
}

static void what_a_slow_reader_leaves_is_counted_and_freed_a_piece_a_turn(void **state)
{
    (void)state;
    struct os_clock clock;
    struct acceptor acceptor = {.accepted = accepted};
    os_clock_init(&clock);
    struct os_loop *os = os_loop_new(&clock.clock, 0);
    struct loop *loop = os_loop_port(os);
    loop->acceptor = &acceptor;
    int fd = join(loop, os);
    struct buf answer = {0};
    buf_reserve_to(&answer, ANSWER_BYTES, ANSWER_BYTES);
    memset(answer.at, 'a', ANSWER_BYTES);
    answer.len = ANSWER_BYTES;
    came->verbs->send(came, &answer);
    loop_turn(loop, loop->now_us);
    assert_true(came->verbs->held(came) >= ANSWER_BYTES - SOCKETS_BYTES);
    size_t before = mem_used();
    came->verbs->close(came, STREAM_RESET);
    assert_true(loop->discard.bytes >= ANSWER_BYTES - SOCKETS_BYTES);
    for (size_t left = loop->discard.bytes; left > 0; left = loop->discard.bytes) {
        loop_turn(loop, loop->now_us);
        assert_true(left - loop->discard.bytes <= 2 * DISCARD_PIECE_BYTES);
        assert_true(loop->discard.bytes < left);
    }
    assert_true(mem_used() <= before - (ANSWER_BYTES - SOCKETS_BYTES));
    buf_fini(&answer);
    (void)close(fd);
    os_loop_free(os);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_slow_reader_leaves_is_counted_and_freed_a_piece_a_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
