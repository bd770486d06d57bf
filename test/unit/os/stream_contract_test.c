/*
 * The same cases over streams of os/loop (sockets on this machine) and sim/loop (in memory, late
 * and split anywhere, on some seeds): what port/stream.h says of streams that we open.
 */
#include "stream_bed.h"

/* ---- the cases ---- */

static void bytes_go_both_ways(struct bed *bed)
{
    open_stream(bed);
    send_text(bed, "hello");
    UNTIL(bed, got(&bed->far_got, "hello"));
    far_send(bed, "good day");
    UNTIL(bed, got(&bed->got, "good day"));
    assert_int_equal(bed->opened, 1);
    stream_close(bed->stream, STREAM_DROP);
    bed->stream = NULL;
    UNTIL(bed, bed->far_closed);
}

static void nothing_overtakes(struct bed *bed)
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz";
    open_stream(bed);
    for (size_t i = 0; i < 26; i++) {
        char text[2] = {alphabet[i], '\0'};
        send_text(bed, text);
        far_send(bed, text);
        if (i % 3 == 0)
            turn(bed);
    }
    UNTIL(bed, bed->far_got.len == 26 && bed->got.len == 26);
    assert_true(got(&bed->far_got, alphabet));
    assert_true(got(&bed->got, alphabet));
}

static void what_is_sent_before_it_is_open_arrives(struct bed *bed)
{
    connect_to(bed, "127.0.0.1");
    send_text(bed, "early ");
    send_text(bed, "bird");
    assert_int_equal(stream_unsent(bed->stream), 10);
    UNTIL(bed, got(&bed->far_got, "early bird"));
    assert_int_equal(stream_unsent(bed->stream), 0);
}

/* It may be ::1 as well, where nobody listens. */
static void a_name_is_looked_up(struct bed *bed)
{
    for (bed->attempt = 0; !bed->opened && bed->attempt < 2; bed->attempt++) {
        bed->gone = false;
        connect_to(bed, "localhost");
        UNTIL(bed, bed->opened || bed->gone);
    }
    assert_int_equal(bed->opened, 1);
}

static void nobody_there_is_refused(struct bed *bed)
{
    far_stop_listening(bed);
    connect_to(bed, "127.0.0.1");
    UNTIL(bed, bed->gone);
    assert_string_equal(bed->error, "Connection refused");
    assert_int_equal(bed->opened, 0);
}

static void the_end_of_input_comes_after_all_bytes(struct bed *bed)
{
    open_stream(bed);
    far_send(bed, "last words");
    far_shut(bed);
    UNTIL(bed, bed->halves == 1);
    assert_true(got(&bed->got, "last words"));
    send_text(bed, "answer"); /* it may still read */
    UNTIL(bed, got(&bed->far_got, "answer"));
    turns(bed, 5);
    assert_int_equal(bed->halves, 1);
    assert_false(bed->gone);
}

/* Who has gone is known in the gather that shows the last bytes, not in the next one (P6). */
static void the_end_is_told_with_the_last_bytes(struct bed *bed)
{
    open_stream(bed);
    far_send(bed, "last words");
    far_shut(bed);
    wait_for_system(bed);
    if (bed->is_sim)
        turns(bed, 100); /* both are in flight, maybe not for equally long */
    else
        UNTIL(bed, bed->got.len > 0);
    assert_true(got(&bed->got, "last words"));
    assert_true(bed->left + bed->halves > 0);
}

static void the_end_is_told_before_bytes_that_wait(struct bed *bed)
{
    open_stream(bed);
    bed->use_most = 2;
    far_send(bed, "abcdef");
    far_shut(bed);
    UNTIL(bed, bed->left == 1);
    assert_int_equal(bed->halves, 0);
    bed->use_most = SIZE_MAX;
    for (int turns_left = 100; !bed->halves && turns_left; turns_left--) {
        stream_resume(bed->stream);
        turn(bed);
    }
    assert_true(got(&bed->got, "abcdef"));
    assert_int_equal(bed->halves, 1);
    assert_int_equal(bed->left, 1);
}

/* Answers come over one stream, a message is posted, and another stream's other side goes: that is
   known first, in whatever order they came. */
static void p6_who_has_gone_is_known_before_others_are_answered(struct bed *bed, bool first_answers,
                                                                bool resets)
{
    open_stream(bed);
    struct stream *streams[2] = {bed->stream};
    int fds[2] = {bed->far_fd};
    struct sim_peer *peers[2] = {bed->peer};
    bed->far_fd = -1;
    bed->far_accepted = false;
    connect_to(bed, "127.0.0.1");
    UNTIL(bed, bed->opened == 2 && bed->far_accepted);
    streams[1] = bed->stream, fds[1] = bed->far_fd, peers[1] = bed->peer;
    bed->message.arrived = message_arrived;
    for (int i = 0; i < 2; i++) {
        bed->far_fd = fds[i];
        bed->peer = peers[i];
        if ((i == 0) == first_answers)
            far_send(bed, "an answer");
        else
            resets ? far_reset(bed) : far_shut(bed);
        fds[i] = bed->far_fd;
    }
    bed->loop->verbs->post(bed->loop, &bed->message);
    bed->sim_clock.now_us += 10000; /* all of it has arrived */
    wait_for_system(bed);
    loop_turn(bed->loop, 0);
    assert_int_equal(bed->log[0], 'l');
    assert_true(strchr(bed->log, 'm') && strchr(bed->log, 'i'));
    for (int i = 0; i < 2; i++) {
        bool closed = resets && (i == 0) != first_answers;
        if (!closed)
            stream_close(streams[i], STREAM_DROP);
        if (!bed->is_sim && fds[i] >= 0)
            (void)close(fds[i]);
    }
    bed->far_fd = -1;
    bed->peer = NULL;
    bed->stream = NULL;
}

static void p6_an_end_is_known_before_an_answer(struct bed *bed)
{
    p6_who_has_gone_is_known_before_others_are_answered(bed, true, false);
}

static void p6_an_end_is_known_before_a_later_answer(struct bed *bed)
{
    p6_who_has_gone_is_known_before_others_are_answered(bed, false, false);
}

static void p6_a_reset_is_known_before_an_answer(struct bed *bed)
{
    p6_who_has_gone_is_known_before_others_are_answered(bed, true, true);
}

static void a_reset_says_so(struct bed *bed)
{
    open_stream(bed);
    far_reset(bed);
    UNTIL(bed, bed->gone);
    assert_string_equal(bed->error, "Connection reset by peer");
}

static void what_is_left_is_shown_again_when_asked_for(struct bed *bed)
{
    open_stream(bed);
    bed->use_most = 2;
    far_send(bed, "abcdef");
    UNTIL(bed, got(&bed->got, "ab"));
    far_send(bed, "ghi"); /* waits behind */
    wait_for_system(bed);
    turns(bed, 5);
    bed->use_most = SIZE_MAX;
    turns(bed, 5);
    if (!bed->is_sim) /* a piece that ended just there had nothing left to be kept */
        assert_true(got(&bed->got, "ab"));
    for (int turns_left = 100; !got(&bed->got, "abcdefghi") && turns_left; turns_left--) {
        stream_resume(bed->stream);
        turn(bed);
    }
    assert_true(got(&bed->got, "abcdefghi"));
    assert_true(stream_held(bed->stream) < 4096);
}

static void it_may_be_closed_from_within_input(struct bed *bed)
{
    open_stream(bed);
    bed->close_at_input = true;
    far_send(bed, "x");
    UNTIL(bed, !bed->stream);
    turns(bed, 5);
    assert_false(bed->gone); /* no call follows */
    UNTIL(bed, bed->far_closed);
}

static void what_does_not_fit_waits_and_the_end_of_it_is_told(struct bed *bed)
{
    struct buf data = {0};
    open_stream(bed);
    if (bed->is_sim)
        sim_peer_window(bed->peer, 1000);
    for (size_t i = 0; i < BIG_BYTES; i++)
        buf_add_char(&data, (char)(i * 31 / 7));
    struct buf want = {0};
    buf_add(&want, data.at, data.len);
    stream_send(bed->stream, &data);
    assert_true(stream_unsent(bed->stream) > 0);
    assert_true(stream_held(bed->stream) >= stream_unsent(bed->stream));
    assert_int_equal(bed->drained, 0);
    if (bed->is_sim)
        sim_peer_window(bed->peer, SIZE_MAX);
    UNTIL(bed, bed->far_got.len == BIG_BYTES);
    UNTIL(bed, bed->drained == 1);
    assert_true(bytes_eq(buf_bytes(&bed->far_got), buf_bytes(&want)));
    assert_int_equal(stream_unsent(bed->stream), 0);
    buf_fini(&want);
    buf_fini(&data);
}

static void lingering_sends_what_is_kept_first(struct bed *bed)
{
    open_stream(bed);
    send_text(bed, "farewell");
    stream_close(bed->stream, STREAM_LINGER);
    bed->stream = NULL;
    UNTIL(bed, bed->far_closed);
    assert_true(got(&bed->far_got, "farewell"));
}

typedef void (*contract_case)(struct bed *bed);

static const contract_case cases[] = {
    bytes_go_both_ways,
    nothing_overtakes,
    what_is_sent_before_it_is_open_arrives,
    a_name_is_looked_up,
    nobody_there_is_refused,
    the_end_of_input_comes_after_all_bytes,
    the_end_is_told_with_the_last_bytes,
    the_end_is_told_before_bytes_that_wait,
    p6_an_end_is_known_before_an_answer,
    p6_an_end_is_known_before_a_later_answer,
    p6_a_reset_is_known_before_an_answer,
    a_reset_says_so,
    what_is_left_is_shown_again_when_asked_for,
    it_may_be_closed_from_within_input,
    what_does_not_fit_waits_and_the_end_of_it_is_told,
    lingering_sends_what_is_kept_first,
};

static void streams_of_the_system_keep_the_contract(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bed bed;
        open_os(&bed);
        cases[i](&bed);
        close_bed(&bed);
    }
}

static void simulated_streams_keep_the_contract(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            struct bed bed;
            bool big = cases[i] == what_does_not_fit_waits_and_the_end_of_it_is_told;
            if (big && seed > 1)
                continue; /* it is long */
            open_sim(&bed, seed);
            cases[i](&bed);
            close_bed(&bed);
        }
    }
}

/* ---- what only one of them can show ---- */

static void a_silent_host_is_given_up_in_time(void **state)
{
    (void)state;
    struct bed bed;
    open_sim(&bed, 1);
    sim_host_reach(&bed.host, SIM_SILENT);
    connect_to(&bed, "127.0.0.1");
    int64_t began_us = bed.sim_clock.now_us;
    UNTIL(&bed, bed.gone);
    assert_string_equal(bed.error, STREAM_SLOW);
    assert_true(bed.sim_clock.now_us - began_us >= 5000000);
    close_bed(&bed);
}

static void names_that_are_not_there_or_never_answered_fail(void **state)
{
    (void)state;
    struct bed bed;
    open_sim(&bed, 1);
    sim_net_name(bed.net, "gone.example", NULL, 100);
    connect_to(&bed, "gone.example");
    UNTIL(&bed, bed.gone);
    assert_string_equal(bed.error, "Name or service not known");
    bed.gone = false;
    sim_net_name(bed.net, "slow.example", "127.0.0.1", INT64_MAX);
    connect_to(&bed, "slow.example");
    UNTIL(&bed, bed.gone);
    assert_string_equal(bed.error, STREAM_NAME_SLOW);
    close_bed(&bed);
}

static void a_host_that_was_silent_gets_what_was_sent_meanwhile(void **state)
{
    (void)state;
    struct bed bed;
    open_sim(&bed, 3);
    open_stream(&bed);
    sim_host_reach(&bed.host, SIM_SILENT);
    send_text(&bed, "are you there");
    turns(&bed, 20);
    assert_int_equal(bed.far_got.len, 0);
    sim_host_reach(&bed.host, SIM_UP);
    UNTIL(&bed, got(&bed.far_got, "are you there"));
    sim_host_cut(&bed.host);
    assert_true(bed.far_closed);
    UNTIL(&bed, bed.gone);
    close_bed(&bed);
}

struct watched {
    struct watch watch;
    struct loop *loop;
    unsigned count;
};

static void read_byte(struct watch *watch, unsigned what)
{
    struct watched *watched = LIST_ENTRY(watch, struct watched, watch);
    char byte;
    assert_true(what & LOOP_READ);
    assert_int_equal(read(watch->fd, &byte, 1), 1);
    if (++watched->count == 2)
        assert_int_equal(watched->loop->verbs->watch(watched->loop, watch, 0), OK);
}

static void descriptors_of_others_are_watched_until_told_otherwise(void **state)
{
    (void)state;
    struct bed bed;
    int pair[2];
    open_os(&bed);
    assert_int_equal(pipe(pair), 0);
    struct watched watched = {.watch = {.ready = read_byte, .fd = pair[0]}, .loop = bed.loop};
    assert_int_equal(bed.loop->verbs->watch(bed.loop, &watched.watch, LOOP_READ), OK);
    assert_int_equal(write(pair[1], "abc", 3), 3);
    UNTIL(&bed, watched.count == 2);
    turns(&bed, 5);
    assert_int_equal(watched.count, 2);
    (void)close(pair[0]);
    (void)close(pair[1]);
    close_bed(&bed);
}

static unsigned arrivals;

static void note_arrival(struct message *message)
{
    (void)message;
    arrivals++;
}

static void a_message_ends_the_sleep(void **state)
{
    (void)state;
    struct bed bed;
    struct message message = {.arrived = note_arrival};
    open_os(&bed);
    bed.loop->verbs->post(bed.loop, &message);
    loop_turn(bed.loop, INT64_MAX); /* else it would never end */
    assert_int_equal(arrivals, 1);
    close_bed(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_of_the_system_keep_the_contract),
        cmocka_unit_test(simulated_streams_keep_the_contract),
        cmocka_unit_test(a_silent_host_is_given_up_in_time),
        cmocka_unit_test(names_that_are_not_there_or_never_answered_fail),
        cmocka_unit_test(a_host_that_was_silent_gets_what_was_sent_meanwhile),
        cmocka_unit_test(descriptors_of_others_are_watched_until_told_otherwise),
        cmocka_unit_test(a_message_ends_the_sleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
