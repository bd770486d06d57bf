/* Bursts that are longer than the first read of a stream: how much a turn takes of them. */
#include "stream_bed.h"

/* Else its parts would be served and answered in different turns from then on. */
static void a_burst_is_taken_in_one_turn_and_short_input_between_does_not_tear_the_next(
    void **state)
{
    (void)state;
    struct bed bed;
    char burst[5001] = {0}; /* longer than the first read */
    memset(burst, 'x', sizeof(burst) - 1);
    open_os(&bed);
    open_stream(&bed);
    far_send(&bed, burst);
    turn(&bed);
    assert_int_equal(bed.got.len, sizeof(burst) - 1);
    for (int round = 0; round < 40; round++) { /* short ones are not in a row */
        far_send(&bed, "short");
        turn(&bed);
        memset(bed.log, 0, sizeof(bed.log));
        far_send(&bed, burst);
        turn(&bed);
        assert_string_equal(bed.log, "i"); /* in one read */
    }
    close_bed(&bed);
}

/* As much as the sockets take. */
static void far_fill(struct bed *bed)
{
    static const char room[65536];
    while (send(bed->far_fd, room, sizeof(room), MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
        continue;
}

/* Else others would wait for it, or its reads would be longer than the loop's memory for them. */
static void a_stream_with_much_input_has_two_reads_a_turn(void **state)
{
    (void)state;
    struct bed bed;
    open_os(&bed);
    open_stream(&bed);
    for (int round = 0; round < 40; round++) {
        memset(bed.log, 0, sizeof(bed.log));
        far_fill(&bed);
        turn(&bed);
        assert_true(strlen(bed.log) <= 2);
    }
    assert_in_range(bed.longest, 5000, READ_BYTES);
    close_bed(&bed);
}

static void p8_little_is_read_behind_bytes_that_had_to_wait(void **state)
{
    (void)state;
    struct bed bed;
    open_os(&bed);
    open_stream(&bed);
    for (int round = 0; round < 8; round++) {
        far_fill(&bed);
        turn(&bed);
    }
    bed.use_most = bed.got.len;
    far_fill(&bed);
    UNTIL(&bed, stream_held(bed.stream) > 2 * READ_FIRST_BYTES); /* reads had become long */
    bed.use_most = SIZE_MAX;
    stream_resume(bed.stream);
    turn(&bed);
    bed.use_most = bed.got.len;
    turns(&bed, 3);
    UNTIL(&bed, stream_held(bed.stream) >= READ_FIRST_BYTES);
    assert_true(stream_held(bed.stream) <= 2 * READ_FIRST_BYTES);
    close_bed(&bed);
}

/* A share that is spent as soon as a stream was shown input. */
struct small_share {
    struct loop_share share;
    const struct bed *bed;
    unsigned visits;
};

static bool shown_something(const struct loop_share *share)
{
    return LIST_ENTRY(share, const struct small_share, share)->bed->got.len > 0;
}

static bool never(const struct loop_share *share)
{
    (void)share;
    return false;
}

static void count_visit(struct loop_share *share)
{
    LIST_ENTRY(share, struct small_share, share)->visits++;
}

/* What one turn takes of a burst that is longer than the first read. */
static void take_burst(bool (*spent)(const struct loop_share *share), const char *log, size_t len)
{
    struct bed bed;
    struct small_share small = {.share = {.spent = spent, .visit = count_visit}, .bed = &bed};
    char burst[5001] = {0};
    memset(burst, 'x', sizeof(burst) - 1);
    open_os(&bed);
    open_stream(&bed);
    far_send(&bed, burst);
    bed.loop->verbs->sleep(bed.loop, bed.loop->clock->now_us(bed.loop->clock) + 1000000);
    (void)bed.loop->verbs->gather(bed.loop, &small.share);
    assert_string_equal(bed.log, log);
    assert_int_equal(bed.got.len, len);
    assert_int_equal(small.visits, 1);
    UNTIL(&bed, bed.got.len == sizeof(burst) - 1);
    close_bed(&bed);
}

static void both_reads_of_a_burst_are_one_visit_and_the_second_needs_a_share(void **state)
{
    (void)state;
    take_burst(never, "ii", 5000);
    take_burst(shown_something, "i", 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_burst_is_taken_in_one_turn_and_short_input_between_does_not_tear_the_next),
        cmocka_unit_test(a_stream_with_much_input_has_two_reads_a_turn),
        cmocka_unit_test(p8_little_is_read_behind_bytes_that_had_to_wait),
        cmocka_unit_test(both_reads_of_a_burst_are_one_visit_and_the_second_needs_a_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
