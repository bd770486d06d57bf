/* How many clients a turn accepts. Sockets on this machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/list.h"
#include "test/unit/os/clients.h"

enum {
    LISTENERS = 2,
    EACH = 100,  /* clients of each listener */
    LEAST = 16,  /* of one listener in a turn */
    TURNS = 200, /* more than enough */
};

struct small_share {
    struct loop_share share;
    int64_t left_ns;
};

static struct small_share *of(const struct loop_share *share)
{
    return LIST_ENTRY(share, struct small_share, share);
}

static bool spent(const struct loop_share *share)
{
    return of(share)->left_ns <= 0;
}

static void visit(struct loop_share *share)
{
    (void)share;
}

static void moved(struct loop_share *share, size_t bytes)
{
    (void)share, (void)bytes;
}

static void worked(struct loop_share *share, int64_t ns)
{
    assert_true(ns > 0);
    of(share)->left_ns -= ns;
}

static unsigned accepted_count;
static unsigned shown; /* inputs */

static size_t note_input(struct stream *stream, struct bytes bytes)
{
    (void)stream;
    shown++;
    return bytes.len;
}

static const struct stream_handler notes = {.input = note_input, .gone = ignore_gone};

static void accepted(struct acceptor *acceptor, struct stream *stream, unsigned listener)
{
    (void)acceptor, (void)listener;
    stream->handler = &notes;
    accepted_count++;
}

struct bed {
    struct os_clock clock;
    struct acceptor acceptor;
    struct os_loop *os;
    int first_fd, fds[LISTENERS][EACH];
};

/* One client is there, and has sent something; the others wait. */
static void open_bed(struct bed *bed)
{
    struct sockaddr_in addresses[LISTENERS];
    int unused;
    bed->acceptor = (struct acceptor){.accepted = accepted};
    bed->os = accepting_loop(&bed->clock, &bed->acceptor);
    struct loop *loop = os_loop_port(bed->os);
    for (int i = 0; i < LISTENERS; i++)
        addresses[i] = listen_here(bed->os, EACH, &unused);
    accepted_count = shown = 0;
    bed->first_fd = connect_to(&addresses[0]);
    for (int turn = 0; turn < TURNS && !accepted_count; turn++)
        loop_turn(loop, loop->now_us + 10 * 1000);
    assert_int_equal(accepted_count, 1);
    for (int i = 0; i < LISTENERS * EACH; i++)
        bed->fds[i % LISTENERS][i / LISTENERS] = connect_to(&addresses[i % LISTENERS]);
    assert_int_equal(send(bed->first_fd, "x", 1, 0), 1);
    accepted_count = 0;
}

static void close_bed(struct bed *bed)
{
    (void)close(bed->first_fd);
    for (int i = 0; i < LISTENERS * EACH; i++)
        (void)close(bed->fds[i % LISTENERS][i / LISTENERS]);
    os_loop_free(bed->os);
}

/* Returns how many were accepted. */
static unsigned gather(struct bed *bed, int64_t left_ns)
{
    struct loop *loop = os_loop_port(bed->os);
    unsigned before = accepted_count;
    struct small_share share = {
        .share = {.spent = spent, .visit = visit, .moved = moved, .worked = worked},
        .left_ns = left_ns};
    loop_sleep(loop, loop_update_time(loop)); /* a past time: only collects events */
    (void)loop->verbs->gather(loop, &share.share);
    return accepted_count - before;
}

/* Clients that come do not lengthen a turn beyond its share, but for a few of each listener. */
static void a_turn_accepts_what_its_share_allows_and_a_few_of_each_listener(void **state)
{
    (void)state;
    struct bed bed;
    open_bed(&bed);
    assert_int_equal(gather(&bed, 0), LISTENERS * LEAST);
    unsigned count = gather(&bed, 400 * 1000);
    assert_in_range(count, LISTENERS * LEAST, LEAST + 100); /* 4 µs each, or more */
    for (int turn = 0; turn < TURNS && accepted_count < LISTENERS * EACH; turn++)
        (void)gather(&bed, 0);
    assert_int_equal(accepted_count, LISTENERS * EACH); /* none waits forever */
    close_bed(&bed);
}

/* Who comes does not take the turn of who is there. */
static void clients_that_are_there_are_served_before_others_are_accepted(void **state)
{
    (void)state;
    struct bed bed;
    open_bed(&bed);
    (void)gather(&bed, 100 * 1000);
    assert_int_equal(shown, 1);
    close_bed(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_turn_accepts_what_its_share_allows_and_a_few_of_each_listener),
        cmocka_unit_test(clients_that_are_there_are_served_before_others_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
