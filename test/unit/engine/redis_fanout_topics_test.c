/*
 * engine/redis/fanout_topics.c: what partitions are asked of topics, each in the time of its own
 * clock, and what their figures add up to.
 */
#include "engine/redis/fanout.h"
#include "redis_scripted.h"

enum { PARTITIONS = 4 };

/* The places of the figures in an answer of scripts/topic.lua. */
enum {
    READY,
    URGENT,
    BURIED,
    OLDEST,
    HELD,
    PUSHED,
    RESERVED,
    FINISHED,
    DELETED,
    LOST,
    TIMEOUTS,
    RELEASED,
    BURIES,
    KICKS,
    PAUSES,
    PAUSE_END,
    PAUSE_US,
    NEXT_DUE
};

static const int64_t ahead_us[PARTITIONS] = {100, 200, 300, 400};

/* What the partition is asked now. */
static struct args ask(struct fanout *fanout, uint32_t partition, struct buf *out)
{
    assert_true(fanout_wants(fanout, partition));
    out->len = 0;
    fanout_encode(fanout, out, &(struct script_call){.partition = partition, .number = 1});
    return args_of(out);
}

static void a_topic_is_paused_until_one_instant_whatever_the_clocks_show(void **state)
{
    (void)state;
    struct cmd cmd = {.kind = CMD_PAUSE,
                      .topic = {.topic = BYTES("t"), .pause_until_us = 1000, .must_exist = true}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    struct buf out = {0};
    char first[SCRIPT_ANSWER_BYTES];
    memcpy(space.ahead_us, ahead_us, sizeof(ahead_us));
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        static const char *const until[] = {"1100", "1200", "1300", "1400"};
        struct args args = ask(fanout, i, &out);
        assert_bytes(argv(&args, 2), BYTES("p"));
        assert_bytes(argv(&args, 4), bytes_str(until[i]));
        assert_bytes(argv(&args, 6), BYTES("e")); /* only if it is there */
        struct bytes part = first_part(first, i != 2, 0, 0);
        assert_int_equal(fanout_take(fanout, i, &part, 1), OK);
    }
    struct args args = ask(fanout, 0, &out); /* one has it: so the others make it */
    assert_bytes(argv(&args, 6), BYTES(""));
    fanout_free(fanout, NULL);
    buf_fini(&out);
    memset(space.ahead_us, 0, sizeof(ahead_us));
}

/* With what is due at that instant. */
static void due_jobs_are_counted_up_to_one_instant_whatever_the_clocks_show(void **state)
{
    (void)state;
    int64_t until_us[] = {0x1000, 0x2000};
    struct cmd cmd = {.kind = CMD_DUE, .topic = {.until_us = until_us, .until_count = 2}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    struct buf out = {0};
    memcpy(space.ahead_us, ahead_us, sizeof(ahead_us));
    struct args args = ask(fanout, 1, &out);
    assert_bytes(argv(&args, 4), BYTES("\0\0\0\0\0\0\x10\xc9\0\0\0\0\0\0\x20\xc9"));
    fanout_free(fanout, NULL);
    buf_fini(&out);
    memset(space.ahead_us, 0, sizeof(ahead_us));
}

/* The topic's figures, of partitions that answer these. */
static struct topic_view added_up(struct fanout *fanout, uint64_t of[PARTITIONS][SCRIPT_FIGURES])
{
    struct buf out = {0};
    struct reply reply;
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        char first[SCRIPT_ANSWER_BYTES], room[8 * SCRIPT_FIGURES];
        for (size_t figure = 0; figure < SCRIPT_FIGURES; figure++)
            put_u64(room + 8 * figure, of[i][figure]);
        struct bytes parts[] = {first_part(first, 0, 0, 1), BYTES("t"),
                                bytes_of(room, sizeof(room))};
        (void)ask(fanout, i, &out);
        assert_int_equal(fanout_take(fanout, i, parts, 3), OK);
    }
    buf_fini(&out);
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.err, OK);
    assert_int_equal(reply.count, 1);
    return reply.topics[0];
}

static void each_figure_of_a_topic_is_the_sum_of_its_own(void **state)
{
    (void)state;
    static uint64_t of[PARTITIONS][SCRIPT_FIGURES];
    struct cmd cmd = {.kind = CMD_TOPIC, .topic = {.topic = BYTES("t")}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    for (uint32_t i = 0; i < 2; i++) { /* two have none */
        for (unsigned figure = 0; figure < PAUSE_END; figure++)
            of[i][figure] = 1 + figure;
        of[i][PUSHED] = 1000;
        of[i][OLDEST] = of[i][NEXT_DUE] = 70 - 10 * i;
    }
    struct topic_view topic = added_up(fanout, of);
    assert_int_equal(topic.jobs[JOB_READY], 2 * 1);
    assert_int_equal(topic.urgent, 2 * 2);
    assert_int_equal(topic.jobs[JOB_BURIED], 2 * 3);
    assert_int_equal(topic.oldest_ready_us, 60); /* of those that have one */
    assert_int_equal(topic.jobs[JOB_RESERVED], 2 * 5);
    assert_int_equal(topic.pushed, 2 * 1000);
    assert_int_equal(topic.reserved, 2 * 7);
    assert_int_equal(topic.finished, 2 * 8);
    assert_int_equal(topic.deleted, 2 * 9);
    assert_int_equal(topic.jobs[JOB_DELAYED], 2 * (1000 - 1 - 3 - 5 - 8 - 9 - 10));
    assert_int_equal(topic.timeouts, 2 * 11);
    assert_int_equal(topic.released, 2 * 12);
    assert_int_equal(topic.buried, 2 * 13);
    assert_int_equal(topic.kicked, 2 * 14);
    assert_int_equal(topic.pauses, 15); /* each pause counts in every partition */
    assert_int_equal(topic.next_due_us, 60);
    fanout_free(fanout, NULL);
}

/* A hash that Redis has lost, and what was done since to jobs that were pushed before. */
static void figures_below_zero_count_as_none(void **state)
{
    (void)state;
    static uint64_t of[PARTITIONS][SCRIPT_FIGURES];
    struct cmd cmd = {.kind = CMD_TOPIC, .topic = {.topic = BYTES("t")}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    of[0][READY] = UINT64_MAX; /* -1 */
    of[0][PUSHED] = of[1][PUSHED] = 5;
    of[0][FINISHED] = 7;
    of[1][FINISHED] = 2;
    struct topic_view topic = added_up(fanout, of);
    assert_int_equal(topic.jobs[JOB_READY], 0);
    assert_int_equal(topic.jobs[JOB_DELAYED], 3);
    assert_int_equal(topic.finished, 9);
    fanout_free(fanout, NULL);
}

static void a_topic_is_paused_until_the_last_of_its_partitions_goes_on(void **state)
{
    (void)state;
    static uint64_t of[PARTITIONS][SCRIPT_FIGURES];
    struct cmd cmd = {.kind = CMD_TOPIC, .topic = {.topic = BYTES("t")}};
    for (unsigned forever = 0; forever < 2; forever++) {
        struct fanout *fanout = fanout_new(&space, &cmd);
        of[0][PAUSE_END] = NOW_US + 10;
        of[1][PAUSE_END] = NOW_US + 20;
        of[2][PAUSE_END] = forever ? (uint64_t)SCRIPT_FOREVER : NOW_US + 5;
        of[3][PAUSE_END] = NOW_US; /* is over */
        for (unsigned i = 0; i < PARTITIONS; i++)
            of[i][PAUSE_US] = 1000 + i;
        struct topic_view topic = added_up(fanout, of);
        assert_true(topic.pause_until_us == (forever ? INT64_MAX : NOW_US + 20));
        assert_true(topic.pause_us == (forever ? INT64_MAX - NOW_US : 1001));
        fanout_free(fanout, NULL);
    }
    memset(of, 0, sizeof(of));
    of[0][PAUSE_END] = NOW_US;
    struct fanout *fanout = fanout_new(&space, &cmd);
    assert_int_equal(added_up(fanout, of).pause_until_us, 0);
    fanout_free(fanout, NULL);
}

/* Behind the first name at which a partition's page ended, names of that one may be missing. */
static void a_list_ends_where_the_first_of_the_partitions_pages_does(void **state)
{
    static const char *const ends[] = {"d", "b", "c", "e"};
    (void)state;
    struct cmd cmd = {.kind = CMD_TOPICS, .topic = {.max = 10}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    struct buf out = {0};
    struct reply reply;
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        enum { MORE = 4 };
        char first[SCRIPT_ANSWER_BYTES], room[8 * SCRIPT_FIGURES] = {0};
        struct bytes sums = bytes_of(room, sizeof(room));
        struct bytes parts[] = {first_part(first, 0, MORE, 2), BYTES("a"), sums, bytes_str(ends[i]),
                                sums};
        (void)ask(fanout, i, &out);
        assert_int_equal(fanout_take(fanout, i, parts, 5), OK);
    }
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.count, 2);
    assert_bytes(reply.topics[1].name, BYTES("b"));
    assert_true(reply.more);
    fanout_free(fanout, NULL);
    buf_fini(&out);
}

static void what_is_no_list_of_topics_is_corrupt(void **state)
{
    static char name[TOPIC_NAME_MAX + 1], room[8 * SCRIPT_FIGURES];
    (void)state;
    struct cmd cmd = {.kind = CMD_TOPIC, .topic = {.topic = BYTES("t")}};
    char first[SCRIPT_ANSWER_BYTES];
    struct bytes sums = bytes_of(room, sizeof(room)), all = first_part(first, 0, 0, 1);
    const struct {
        struct bytes parts[3];
        uint32_t count;
        enum err want;
    } answers[] = {
        {{all, bytes_of(name, TOPIC_NAME_MAX), sums}, 3, OK},
        {{all}, 1, OK},
        {{all, BYTES("t")}, 2, ERR_CORRUPT},
        {{all, BYTES(""), sums}, 3, ERR_CORRUPT},
        {{all, bytes_of(name, TOPIC_NAME_MAX + 1), sums}, 3, ERR_CORRUPT},
        {{all, BYTES("t"), bytes_of(room, sizeof(room) - 8)}, 3, ERR_CORRUPT},
    };
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct fanout *fanout = fanout_new(&space, &cmd);
        struct buf out = {0};
        (void)ask(fanout, 0, &out);
        assert_int_equal(fanout_take(fanout, 0, answers[i].parts, answers[i].count),
                         answers[i].want);
        fanout_free(fanout, NULL);
        buf_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topic_is_paused_until_one_instant_whatever_the_clocks_show),
        cmocka_unit_test(due_jobs_are_counted_up_to_one_instant_whatever_the_clocks_show),
        cmocka_unit_test(each_figure_of_a_topic_is_the_sum_of_its_own),
        cmocka_unit_test(figures_below_zero_count_as_none),
        cmocka_unit_test(a_topic_is_paused_until_the_last_of_its_partitions_goes_on),
        cmocka_unit_test(a_list_ends_where_the_first_of_the_partitions_pages_does),
        cmocka_unit_test(what_is_no_list_of_topics_is_corrupt),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
