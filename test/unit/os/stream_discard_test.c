/*
 * What a client had not taken when its stream was closed: it is counted until it is freed, a piece
 * a turn. Sockets on this machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/clock.h"
#include "test/unit/os/clients.h"

enum { ANSWER_BYTES = 64 * 1024 * 1024, SOCKETS_BYTES = 16 * 1024 * 1024, TURNS_MAX = 1000 };

static struct stream *came;

static void accepted(struct acceptor *acceptor, struct stream *stream, unsigned listener)
{
    (void)acceptor, (void)listener;
    stream->handler = &drop_all;
    came = stream;
}

/* A client that reads nothing. */
static int join(struct loop *loop, struct os_loop *os)
{
    int listen_fd;
    struct sockaddr_in address = listen_here(os, 1, &listen_fd);
    int fd = connect_to(&address);
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
    struct os_loop *os = accepting_loop(&clock, &acceptor);
    struct loop *loop = os_loop_port(os);
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

/* Or ten thousand clients that take no answers would pin 16 KiB each. */
static void a_short_answer_that_is_not_taken_does_not_keep_a_large_buffer(void **state)
{
    enum { CAP = 16 * 1024, LEN = 300, SENDS = 1000 * 1000 };
    (void)state;
    struct os_clock clock;
    struct acceptor acceptor = {.accepted = accepted};
    struct os_loop *os = accepting_loop(&clock, &acceptor);
    struct buf answer = {0};
    came = NULL;
    int fd = join(os_loop_port(os), os);
    for (int i = 0; i < SENDS && came->verbs->unsent(came) == 0; i++) {
        buf_reserve_to(&answer, CAP, CAP);
        memset(answer.at, 'a', LEN);
        answer.len = LEN;
        came->verbs->send(came, &answer);
        assert_int_equal(answer.len, 0);
    }
    assert_in_range(came->verbs->unsent(came), 1, LEN);
    assert_true(came->verbs->held(came) <= 2 * LEN);
    assert_int_equal(answer.cap, CAP);
    buf_fini(&answer);
    (void)close(fd);
    os_loop_free(os);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_slow_reader_leaves_is_counted_and_freed_a_piece_a_turn),
        cmocka_unit_test(a_short_answer_that_is_not_taken_does_not_keep_a_large_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
