/* engine/redis/fanout.c: one answer out of many partitions'. */
#include "base/cursor.h"
#include "engine/redis/fanout.h"
#include "redis_scripted.h"

static struct listing listing_of(enum job_state state)
{
    return (struct listing){.engine = CURSOR_REDIS, .state = (uint8_t)state, .topic = BYTES("t")};
}

/* How many partitions were asked. */
static unsigned ask_all(struct fanout *fanout)
{
    unsigned asked = 0;
    for (uint32_t i = 0; i < space.partitions; i++) {
        if (!fanout_wants(fanout, i))
            continue;
        struct buf out = {0};
        fanout_encode(fanout, &out, &(struct script_call){.partition = i, .number = 1});
        (void)args_of(&out); /* it is a whole request */
        buf_fini(&out);
        asked++;
    }
    return asked;
}

static void a_page_holds_the_soonest_of_all_partitions(void **state)
{
    struct cmd cmd = {.kind = CMD_LIST,
                      .topic = {.topic = BYTES("t"), .state = JOB_DELAYED, .max = 3}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    (void)state;
    (void)ask_all(fanout);
    for (uint32_t i = 0; i < 4; i++) {
        char first[SCRIPT_ANSWER_BYTES], one[HEAD_ROOM], two[HEAD_ROOM];
        struct bytes parts[] = {
            first_part(first, 0, 0, 2),
            BYTES("9 1"),
            job_part(one, (struct head){JOB_DELAYED, 4 + i, 2000000 + 10 - i, BYTES("")}),
            job_part(two, (struct head){JOB_DELAYED, 8 + i, 2000000 + 20 - i, BYTES("")}),
        };
        assert_false(fanout_done(fanout));
        assert_int_equal(fanout_take(fanout, i, parts, 4), OK);
    }
    assert_true(fanout_done(fanout));
    struct reply reply;
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.err, OK);
    assert_int_equal(reply.count, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(reply.jobs[i].due_us, 2000000 + 7 + i);
    struct listing listing = listing_of(JOB_DELAYED);
    struct cursor cursor;
    assert_int_equal(cursor_read(&listing, reply.cursor, &cursor), OK);
    assert_int_equal(cursor.first, 2000009);
    assert_int_equal(cursor.seq, 5);
    fanout_free(fanout, NULL);
}

/* The next page is another daemon's, whose estimate of the partitions' clocks is another: it begins
 * exactly behind the job with which the first one ended. */
static void a_page_goes_on_where_the_last_one_ended_whatever_the_clocks_show(void **state)
{
    static const int64_t ahead_us[2][4] = {{70000, 70030, 70090, 70010},
                                           {70020, 70050, 70000, 70070}};
    struct cmd cmd = {.kind = CMD_LIST,
                      .topic = {.topic = BYTES("t"), .state = JOB_DELAYED, .max = 3}};
    char room[CURSOR_BYTES];
    (void)state;
    memcpy(space.ahead_us, ahead_us[0], sizeof(ahead_us[0]));
    struct fanout *fanout = fanout_new(&space, &cmd);
    (void)ask_all(fanout);
    for (uint32_t i = 0; i < 4; i++) {
        char first[SCRIPT_ANSWER_BYTES], one[HEAD_ROOM];
        struct bytes parts[] = {
            first_part(first, 0, 0, 1),
            BYTES(""),
            job_part(one, (struct head){JOB_DELAYED, 4 + i, 2000000, BYTES("")}),
        };
        assert_int_equal(fanout_take(fanout, i, parts, 3), OK);
    }
    struct reply reply;
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(reply.jobs[i].ref.seq, 4 + i);
        assert_int_equal(reply.jobs[i].due_us, 2000000 - ahead_us[0][i]);
    }
    memcpy(room, reply.cursor.at, CURSOR_BYTES);
    fanout_free(fanout, NULL);
    memcpy(space.ahead_us, ahead_us[1], sizeof(ahead_us[1]));
    cmd.topic.cursor = bytes_of(room, CURSOR_BYTES);
    fanout = fanout_new(&space, &cmd);
    for (uint32_t i = 0; i < 4; i++) {
        struct buf out = {0};
        fanout_encode(fanout, &out, &(struct script_call){.partition = i, .number = 1});
        struct args args = args_of(&out);
        assert_bytes(argv(&args, 5),
                     BYTES("w\1t\0\0\0\0\0\x1e\x84\x80\0\0\0\5\0\0\0\0\0\0\0\6\xff"));
        buf_fini(&out);
    }
    struct bytes none[] = {BYTES(""), BYTES("")};
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(fanout_take(fanout, i, none, 2), ERR_CORRUPT); /* it ends here */
    fanout_free(fanout, NULL);
    memset(space.ahead_us, 0, sizeof(ahead_us[1]));
}

/* Where a page of jobs in that state begins, in partition 0, behind (backwards: before) the job 7
   at 5 and 6. */
static void assert_begins(enum job_state state, bool backwards, struct bytes place,
                          struct bytes after)
{
    struct listing listing = listing_of(state);
    listing.backwards = backwards;
    char room[CURSOR_BYTES];
    struct bytes cursor = cursor_write(&listing, &(struct cursor){5, 6, 7}, room);
    struct cmd cmd = {.kind = CMD_LIST,
                      .topic = {.topic = BYTES("t"),
                                .state = state,
                                .backwards = backwards,
                                .max = 3,
                                .cursor = cursor}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    memset(room, 0, sizeof(room)); /* it was borrowed */
    struct buf out = {0};
    fanout_encode(fanout, &out, &(struct script_call){.number = 1});
    struct args args = args_of(&out);
    assert_bytes(argv(&args, 5), place);
    assert_bytes(argv(&args, 6), after);
    assert_bytes(argv(&args, 9), backwards ? BYTES("r") : BYTES(""));
    buf_fini(&out);
    struct bytes none[] = {BYTES(""), BYTES("")};
    assert_int_equal(fanout_take(fanout, 0, none, 2), ERR_CORRUPT); /* it ends here */
    fanout_free(fanout, NULL);
}

static void a_page_begins_in_the_place_where_the_last_one_ended(void **state)
{
    (void)state;
    assert_begins(JOB_DELAYED, false, BYTES("w\1t\0\0\0\0\0\0\0\5\0\0\0\6\0\0\0\0\0\0\0\7\xff"),
                  BYTES("-1"));
    assert_begins(JOB_DELAYED, true, BYTES("w\1t\0\0\0\0\0\0\0\5\0\0\0\6\0\0\0\0\0\0\0\7"),
                  BYTES("-1"));
    assert_begins(JOB_RESERVED, false, BYTES("5 "), BYTES("5"));
    assert_begins(JOB_RESERVED, true, BYTES("5 "), BYTES("5"));
    assert_begins(JOB_READY, false, BYTES("r\1t\0\0\0\5\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0\7"),
                  BYTES("-1"));
    assert_begins(JOB_BURIED, true, BYTES("b\1t\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\7"), BYTES("-1"));
}

static void assert_refused(struct bytes cursor)
{
    struct cmd cmd = {
        .kind = CMD_LIST,
        .topic = {.topic = BYTES("t"), .state = JOB_READY, .max = 3, .cursor = cursor}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    struct reply reply;
    assert_false(fanout_wants(fanout, 0));
    assert_true(fanout_done(fanout)); /* without a call to Redis */
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.err, ERR_INVALID);
    fanout_free(fanout, NULL);
}

static void a_cursor_of_another_listing_is_refused_and_nobody_is_asked(void **state)
{
    struct listing listing = listing_of(JOB_READY), other = listing_of(JOB_BURIED);
    struct cursor cursor = {5, 6, 7};
    char room[CURSOR_BYTES];
    (void)state;
    assert_refused(cursor_write(&other, &cursor, room));
    other = listing;
    other.engine = CURSOR_EMBEDDED;
    assert_refused(cursor_write(&other, &cursor, room));
    other = listing;
    other.topic = BYTES("u");
    assert_refused(cursor_write(&other, &cursor, room));
    assert_refused(bytes_of(cursor_write(&listing, &cursor, room).at, CURSOR_BYTES - 1));
    room[CURSOR_BYTES - 1] ^= 1;
    assert_refused(bytes_of(room, CURSOR_BYTES));
    /* Made up, with a checksum that is right. */
    assert_refused(cursor_write(&listing, &(struct cursor){-1, 6, 7}, room));
    assert_refused(cursor_write(&listing, &(struct cursor){5, -1, 7}, room));
    assert_refused(cursor_write(&listing, &(struct cursor){5, 6, UINT64_MAX}, room));
}

static void a_partition_goes_on_while_jobs_of_one_instant_may_be_missing(void **state)
{
    struct cmd cmd = {.kind = CMD_LIST,
                      .topic = {.topic = BYTES("t"), .state = JOB_RESERVED, .max = 1}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    char first[SCRIPT_ANSWER_BYTES], head[HEAD_ROOM];
    (void)state;
    (void)ask_all(fanout);
    struct bytes parts[] = {
        first_part(first, 0, 4, 1),
        BYTES("9 1"),
        job_part(head, (struct head){JOB_RESERVED, 8, 2000000, BYTES("")}),
    };
    assert_int_equal(fanout_take(fanout, 0, parts, 3), OK);
    assert_true(fanout_wants(fanout, 0)); /* another may end then, with a lower number */
    (void)ask_all(fanout);
    parts[2] = job_part(head, (struct head){JOB_RESERVED, 4, 2000000, BYTES("")});
    assert_int_equal(fanout_take(fanout, 0, parts, 3), OK);
    (void)ask_all(fanout);
    parts[1] = BYTES("78 1"); /* they all end at 77 */
    parts[2] = job_part(head, (struct head){JOB_RESERVED, 12, 2000001, BYTES("")});
    assert_int_equal(fanout_take(fanout, 0, parts, 3), OK);
    assert_false(fanout_wants(fanout, 0));
    for (uint32_t i = 1; i < 4; i++) {
        struct bytes none[] = {first_part(first, 1, 0, 0), BYTES("")};
        assert_int_equal(fanout_take(fanout, i, none, 2), OK);
    }
    struct reply reply;
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.count, 1);
    assert_int_equal(reply.jobs[0].ref.seq, 4);
    fanout_free(fanout, NULL);
}

static struct bytes sums(char *room, uint64_t pushed, uint64_t ready, uint64_t held)
{
    memset(room, 0, 8 * SCRIPT_FIGURES);
    put_u64(room, ready);
    put_u64(room + 32, held);
    put_u64(room + 40, pushed);
    put_u64(room + 14 * 8, 2); /* pauses */
    return bytes_of(room, 8 * SCRIPT_FIGURES);
}

static void counts_are_added_up(void **state)
{
    struct cmd cmd = {.kind = CMD_TOPIC, .topic = {.topic = BYTES("t"), .brief = true}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    char first[SCRIPT_ANSWER_BYTES], room[8 * SCRIPT_FIGURES];
    (void)state;
    (void)ask_all(fanout);
    for (uint32_t i = 0; i < 4; i++) {
        struct bytes parts[] = {first_part(first, i == 3, 0, 1), BYTES("t"), sums(room, 10, 2, 1)};
        assert_int_equal(fanout_take(fanout, i, parts, i == 3 ? 1 : 3), OK);
    }
    struct reply reply;
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.err, OK);
    assert_int_equal(reply.count, 1);
    assert_int_equal(reply.topics[0].pushed, 30);
    assert_int_equal(reply.topics[0].jobs[JOB_READY], 6);
    assert_int_equal(reply.topics[0].jobs[JOB_RESERVED], 3);
    assert_int_equal(reply.topics[0].jobs[JOB_DELAYED], 21);
    assert_int_equal(reply.topics[0].pauses, 2); /* each partition is paused each time */
    fanout_free(fanout, NULL);
}

static void a_topics_next_due_time_is_the_soonest_of_its_partitions(void **state)
{
    struct cmd cmd = {.kind = CMD_TOPIC, .topic = {.topic = BYTES("t")}};
    static const uint64_t due_us[4] = {0, 2000070, 2000050, 2000060}; /* the first has none */
    char first[SCRIPT_ANSWER_BYTES], room[8 * SCRIPT_FIGURES];
    (void)state;
    for (int brief = 0; brief < 2; brief++) {
        cmd.topic.brief = brief;
        struct fanout *fanout = fanout_new(&space, &cmd);
        (void)ask_all(fanout);
        for (uint32_t i = 0; i < 4; i++) {
            struct bytes parts[] = {first_part(first, 0, 0, 1), BYTES("t"), sums(room, 10, 2, 1)};
            put_u64(room + 17 * 8, due_us[i]);
            assert_int_equal(fanout_take(fanout, i, parts, 3), OK);
        }
        assert_true(fanout_done(fanout));
        struct reply reply;
        fanout_reply(fanout, &reply);
        assert_int_equal(reply.topics[0].next_due_us, brief ? 0 : 2000050);
        fanout_free(fanout, NULL);
    }
}

static void a_page_of_topics_ends_where_a_partitions_page_does(void **state)
{
    struct cmd cmd = {.kind = CMD_TOPICS, .topic = {.max = 2}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    static const char *const names[4][2] = {{"a", "b"}, {"b", "z"}, {"x", "y"}, {"a", "z"}};
    char first[SCRIPT_ANSWER_BYTES], room[8 * SCRIPT_FIGURES];
    (void)state;
    (void)ask_all(fanout);
    for (uint32_t i = 0; i < 4; i++) {
        struct bytes of = sums(room, 1, 0, 0);
        struct bytes parts[] = {first_part(first, 0, i == 0 ? 4 : 0, 2), bytes_str(names[i][0]), of,
                                bytes_str(names[i][1]), of};
        assert_int_equal(fanout_take(fanout, i, parts, 5), OK);
    }
    struct reply reply;
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.count, 2);
    assert_true(reply.more);
    assert_bytes(reply.topics[0].name, BYTES("a"));
    assert_int_equal(reply.topics[0].pushed, 2);
    assert_bytes(reply.topics[1].name, BYTES("b"));
    fanout_free(fanout, NULL);
}

static void assert_page(struct fanout *fanout, const char *names, bool more)
{
    struct reply reply;
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.err, OK);
    assert_int_equal(reply.count, strlen(names));
    for (uint32_t i = 0; i < reply.count; i++)
        assert_bytes(reply.topics[i].name, bytes_of(names + i, 1));
    assert_true(reply.more == more);
}

/* However many topics there are, an answer with sums of all costs no more than its page. */
static void p8_sums_of_all_topics_are_answered_with_a_page_of_them(void **state)
{
    struct cmd cmd = {.kind = CMD_TOPICS, .topic = {.max = 2, .stats = true}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    static const char *const names[4][2] = {{"a", "d"}, {"b", "e"}, {"c", "e"}, {"a", "b"}};
    char first[SCRIPT_ANSWER_BYTES], room[8 * SCRIPT_FIGURES];
    uint32_t topics;
    (void)state;
    (void)ask_all(fanout);
    for (uint32_t i = 0; i < 4; i++) {
        struct bytes of = sums(room, 10, 2, 1);
        struct bytes parts[] = {first_part(first, 0, 0, 2), bytes_str(names[i][0]), of,
                                bytes_str(names[i][1]), of};
        assert_int_equal(fanout_take(fanout, i, parts, 5), OK);
    }
    assert_int_equal(fanout_sums(fanout, &topics)->pushed, 80);
    assert_int_equal(fanout_sums(fanout, &topics)->jobs[JOB_READY], 16);
    assert_int_equal(fanout_sums(fanout, &topics)->jobs[JOB_DELAYED], 56);
    assert_int_equal(topics, 5);
    assert_page(fanout, "ab", true);
    fanout_turn_to(fanout, BYTES("b"), 2);
    assert_page(fanout, "cd", true);
    fanout_turn_to(fanout, BYTES("cc"), 2); /* a topic that has gone */
    assert_page(fanout, "de", false);
    fanout_turn_to(fanout, BYTES("e"), 2);
    assert_page(fanout, "", false);
    fanout_turn_to(fanout, BYTES(""), 10);
    assert_page(fanout, "abcde", false);
    fanout_free(fanout, NULL);
}

/* A partition with more topics than a call counts is asked again, behind the last of them. */
static void due_jobs_of_all_topics_of_all_partitions_are_added_up(void **state)
{
    int64_t until_us[] = {NOW_US, NOW_US + 5};
    struct cmd cmd = {.kind = CMD_DUE, .topic = {.until_us = until_us, .until_count = 2}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    char first[SCRIPT_ANSWER_BYTES], counts[16];
    (void)state;
    (void)ask_all(fanout);
    for (uint32_t call = 0; call < 5; call++) {
        uint32_t partition = call < 4 ? call : 0;
        put_u64(counts, call);
        put_u64(counts + 8, 10 + call);
        struct bytes parts[] = {first_part(first, 0, call == 0 ? 4 : 0, 0), BYTES("last"),
                                bytes_of(counts, sizeof(counts))};
        if (call == 4) {
            struct buf out = {0};
            assert_true(fanout_wants(fanout, 0) && !fanout_wants(fanout, 1));
            fanout_encode(fanout, &out, &(struct script_call){.partition = 0, .number = 2});
            assert_non_null(memmem(out.at, out.len, "$4\r\nlast\r\n", 10));
            buf_fini(&out);
        }
        assert_int_equal(fanout_take(fanout, partition, parts, 3), OK);
    }
    struct reply reply;
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.count, 2);
    assert_int_equal(reply.due[0], 0 + 1 + 2 + 3 + 4);
    assert_int_equal(reply.due[1], 50 + 10);
    assert_int_equal(reply.until_us[1], NOW_US + 5);
    fanout_free(fanout, NULL);
}

static enum err take_kicked(struct fanout *fanout, uint32_t partition, bool more, uint32_t kicked)
{
    char first[SCRIPT_ANSWER_BYTES];
    struct bytes parts[] = {first_part(first, 0, more ? 4 : 0, kicked), BYTES("from")};
    return fanout_take(fanout, partition, parts, 2);
}

/* All are asked at once how many jobs they have. */
static void take_counts(struct fanout *fanout, const uint32_t counts[4])
{
    assert_int_equal(ask_all(fanout), 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_false(fanout_done(fanout) || fanout_wants(fanout, i));
        assert_int_equal(take_kicked(fanout, i, false, counts[i]), OK);
    }
}

/* 60 of 50, 30, 0 and 90: two partitions are asked at once, for 40 and for 20; then for what these
   two leave. */
static void partitions_are_kicked_at_once_each_for_a_share_of_max(void **state)
{
    struct cmd cmd = {.kind = CMD_KICK_TOPIC,
                      .topic = {.topic = BYTES("t"), .state = JOB_BURIED, .max = 60}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    struct reply reply;
    (void)state;
    take_counts(fanout, (const uint32_t[]){50, 30, 0, 90});
    assert_int_equal(ask_all(fanout), 2);
    assert_int_equal(take_kicked(fanout, 1, true, 20), OK);
    assert_false(fanout_wants(fanout, 1) || fanout_wants(fanout, 3));
    assert_int_equal(take_kicked(fanout, 0, false, 30), OK);
    assert_true(fanout_wants(fanout, 1)); /* it has more: from where it was */
    assert_int_equal(ask_all(fanout), 1);
    assert_int_equal(take_kicked(fanout, 1, false, 4), OK);
    assert_int_equal(ask_all(fanout), 1);
    assert_int_equal(take_kicked(fanout, 3, true, 6), OK);
    assert_true(fanout_done(fanout));
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.count, 60);
    assert_true(reply.more);
    fanout_free(fanout, NULL);
}

/* With a share for each, nothing is counted. */
static void partitions_are_not_counted_if_there_is_a_share_for_each(void **state)
{
    struct cmd cmd = {.kind = CMD_CLEAR_TOPIC,
                      .topic = {.topic = BYTES("t"), .state = JOB_READY, .max = 160}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    struct reply reply;
    (void)state;
    assert_int_equal(ask_all(fanout), 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(take_kicked(fanout, i, false, 40), OK);
    assert_true(fanout_done(fanout));
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.count, 160);
    assert_false(reply.more);
    fanout_free(fanout, NULL);
}

/* How many of 20 partitions are asked at first to clear so many jobs, and each for how many? */
static unsigned asked_of_many(uint32_t max, uint64_t *out_share)
{
    struct script_space many = space;
    many.partitions = 20;
    struct cmd cmd = {.kind = CMD_CLEAR_TOPIC,
                      .topic = {.topic = BYTES("t"), .state = JOB_READY, .max = max}};
    struct fanout *fanout = fanout_new(&many, &cmd);
    unsigned asked = 0;
    for (uint32_t i = 0; i < many.partitions; i++) {
        if (!fanout_wants(fanout, i))
            continue;
        struct buf out = {0};
        fanout_encode(fanout, &out, &(struct script_call){.partition = i, .number = 1});
        struct args args = args_of(&out);
        assert_true(bytes_to_u64(argv(&args, 6), out_share));
        buf_fini(&out);
        asked++;
    }
    fanout_free(fanout, NULL);
    return asked;
}

/* Else each slice of a large clear would cost a call more to every partition. */
static void more_jobs_than_can_be_asked_for_at_once_are_not_counted(void **state)
{
    uint64_t share;
    (void)state;
    assert_int_equal(asked_of_many(640, &share), 20);
    assert_int_equal(share, 0);
    assert_int_equal(asked_of_many(641, &share), 16);
    assert_int_equal(share, 40);
}

/* What a partition has is its share: as many as are needed are asked at once. */
static void few_jobs_are_kicked_where_they_are_in_two_rounds(void **state)
{
    struct cmd cmd = {.kind = CMD_KICK_TOPIC,
                      .topic = {.topic = BYTES("t"), .state = JOB_GONE, .max = 3}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    struct reply reply;
    (void)state;
    take_counts(fanout, (const uint32_t[]){0, 1, 0, 9});
    assert_int_equal(ask_all(fanout), 2);
    assert_int_equal(take_kicked(fanout, 1, false, 1), OK);
    assert_false(fanout_done(fanout));
    assert_int_equal(take_kicked(fanout, 3, true, 2), OK);
    assert_true(fanout_done(fanout));
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.count, 3);
    assert_true(reply.more);
    fanout_free(fanout, NULL);
}

/* A kick of one job after another: only the first has all counted, and the one that the counts are
 * not enough for. */
static void the_next_kick_of_few_jobs_goes_by_what_was_counted(void **state)
{
    struct cmd cmd = {.kind = CMD_KICK_TOPIC,
                      .topic = {.topic = BYTES("t"), .state = JOB_GONE, .max = 1}};
    uint32_t jobs[4] = {0};
    struct fanout_counts counts = {.jobs = jobs};
    (void)state;
    for (uint32_t n = 0; n < 3; n++) {
        struct fanout *fanout = fanout_new(&space, &cmd);
        struct reply reply;
        fanout_direct(fanout, &counts);
        if (n == 0)
            take_counts(fanout, (const uint32_t[]){0, 0, 3, 0});
        assert_int_equal(ask_all(fanout), 1);
        assert_int_equal(take_kicked(fanout, 2, n < 2, 1), OK);
        assert_true(fanout_done(fanout));
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(fanout_touched(fanout, i), i == 2);
        fanout_reply(fanout, &reply);
        assert_int_equal(reply.count, 1);
        assert_true(n == 2 || reply.more);
        fanout_keep_counts(fanout, &counts);
        assert_int_equal(jobs[2], 2 - n);
        fanout_free(fanout, NULL);
    }
    struct fanout *fanout = fanout_new(&space, &cmd);
    fanout_direct(fanout, &counts);
    assert_int_equal(ask_all(fanout), 4);
    fanout_free(fanout, NULL);
}

/* They were kicked or deleted by another client: all are asked how many they have now. */
static void a_kick_by_counts_that_are_not_true_any_more_counts_again(void **state)
{
    struct cmd cmd = {.kind = CMD_KICK_TOPIC,
                      .topic = {.topic = BYTES("t"), .state = JOB_GONE, .max = 3}};
    uint32_t jobs[4] = {1, 0, 2, 0};
    struct fanout_counts counts = {.topic = hash_of("t", 1), .state = JOB_BURIED, .jobs = jobs};
    struct fanout *fanout = fanout_new(&space, &cmd);
    struct reply reply;
    (void)state;
    fanout_direct(fanout, &counts);
    assert_int_equal(ask_all(fanout), 2);
    assert_int_equal(take_kicked(fanout, 0, false, 1), OK);
    assert_int_equal(take_kicked(fanout, 2, false, 0), OK);
    take_counts(fanout, (const uint32_t[]){0, 5, 0, 0});
    assert_int_equal(ask_all(fanout), 1);
    assert_int_equal(take_kicked(fanout, 1, true, 2), OK);
    assert_true(fanout_done(fanout));
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.count, 3);
    fanout_keep_counts(fanout, &counts);
    assert_memory_equal(jobs, ((const uint32_t[]){0, 3, 0, 0}), sizeof(jobs));
    fanout_free(fanout, NULL);
}

static void counts_of_another_topic_or_too_few_direct_no_kick(void **state)
{
    static const struct cmd cmds[] = {
        {.kind = CMD_KICK_TOPIC, .topic = {.topic = {"u", 1}, .state = JOB_GONE, .max = 1}},
        {.kind = CMD_KICK_TOPIC, .topic = {.topic = {"t", 1}, .state = JOB_DELAYED, .max = 1}},
        {.kind = CMD_KICK_TOPIC, .topic = {.topic = {"t", 1}, .state = JOB_GONE, .max = 4}},
        {.kind = CMD_KICK_TOPIC, .topic = {.topic = {"t", 1}, .state = JOB_GONE, .max = 0}},
        {.kind = CMD_CLEAR_TOPIC, .topic = {.topic = {"t", 1}, .state = JOB_BURIED, .max = 1}},
    };
    uint32_t jobs[4] = {1, 0, 2, 0};
    struct fanout_counts counts = {.topic = hash_of("t", 1), .state = JOB_BURIED, .jobs = jobs};
    (void)state;
    for (size_t i = 0; i < sizeof(cmds) / sizeof(*cmds); i++) {
        struct fanout *fanout = fanout_new(&space, &cmds[i]);
        fanout_direct(fanout, &counts);
        assert_int_equal(ask_all(fanout), 4);
        fanout_free(fanout, NULL);
    }
}

/* Another client was sooner: those in the next partition are kicked. */
static void a_job_that_was_counted_and_has_gone_is_made_up_for(void **state)
{
    struct cmd cmd = {.kind = CMD_KICK_TOPIC,
                      .topic = {.topic = BYTES("t"), .state = JOB_GONE, .max = 1}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    struct reply reply;
    (void)state;
    take_counts(fanout, (const uint32_t[]){0, 1, 1, 0});
    assert_int_equal(ask_all(fanout), 1);
    assert_int_equal(take_kicked(fanout, 1, false, 0), OK);
    assert_int_equal(ask_all(fanout), 1);
    assert_int_equal(take_kicked(fanout, 2, false, 0), OK);
    take_counts(fanout, (const uint32_t[]){0, 0, 0, 0}); /* no buried ones are left: delayed ones */
    assert_true(fanout_done(fanout));
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.err, OK);
    assert_int_equal(reply.count, 0);
    assert_false(reply.more);
    fanout_free(fanout, NULL);
}

static void a_partition_that_kicks_more_than_it_was_asked_for_is_corrupt(void **state)
{
    struct cmd cmd = {.kind = CMD_KICK_TOPIC,
                      .topic = {.topic = BYTES("t"), .state = JOB_BURIED, .max = 5}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    (void)state;
    take_counts(fanout, (const uint32_t[]){9, 0, 0, 0});
    assert_int_equal(ask_all(fanout), 1);
    assert_int_equal(take_kicked(fanout, 0, false, 6), ERR_CORRUPT);
    fanout_free(fanout, NULL);
}

static void delayed_jobs_are_kicked_if_no_partition_has_a_buried_one(void **state)
{
    struct cmd cmd = {.kind = CMD_KICK_TOPIC,
                      .topic = {.topic = BYTES("t"), .state = JOB_GONE, .max = 5}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    (void)state;
    take_counts(fanout, (const uint32_t[]){0, 0, 0, 0});
    take_counts(fanout, (const uint32_t[]){3, 0, 7, 1});
    assert_int_equal(ask_all(fanout), 2);
    assert_int_equal(take_kicked(fanout, 0, false, 3), OK);
    assert_int_equal(take_kicked(fanout, 2, true, 2), OK);
    assert_true(fanout_done(fanout));
    struct reply reply;
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.count, 5);
    assert_true(reply.more);
    fanout_free(fanout, NULL);
}

static void a_topic_is_gone_when_no_partition_keeps_it(void **state)
{
    (void)state;
    for (unsigned keeper = 0; keeper <= 4; keeper++) {
        struct cmd cmd = {.kind = CMD_REMOVE_TOPIC, .topic = {.topic = BYTES("t")}};
        struct fanout *fanout = fanout_new(&space, &cmd);
        char first[SCRIPT_ANSWER_BYTES];
        struct reply reply;
        (void)ask_all(fanout);
        for (uint32_t i = 0; i < 4; i++) { /* the last one does not know it */
            struct bytes parts[] = {
                first_part(first, i == 3 ? 1 : 0, i == keeper && i < 3 ? 4 : 0, 0)};
            assert_int_equal(fanout_take(fanout, i, parts, 1), OK);
        }
        assert_true(fanout_done(fanout));
        fanout_reply(fanout, &reply);
        assert_int_equal(reply.err, OK);
        assert_int_equal(reply.more, keeper < 3);
        fanout_free(fanout, NULL);
    }
}

static void a_topic_that_one_partition_has_is_paused_in_all(void **state)
{
    (void)state;
    struct cmd cmd = {.kind = CMD_PAUSE,
                      .topic = {.topic = BYTES("t"), .pause_until_us = 9, .must_exist = true}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    char first[SCRIPT_ANSWER_BYTES];
    struct reply reply;
    (void)ask_all(fanout);
    for (uint32_t i = 0; i < 4; i++) {
        struct bytes parts[] = {first_part(first, i == 2 ? 0 : 1, 0, 0)};
        assert_int_equal(fanout_take(fanout, i, parts, 1), OK);
    }
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(fanout_wants(fanout, i), i != 2);
    (void)ask_all(fanout);
    for (uint32_t i = 0; i < 4; i++) {
        struct bytes parts[] = {first_part(first, 0, 0, 0)};
        if (i != 2)
            assert_int_equal(fanout_take(fanout, i, parts, 1), OK);
    }
    assert_true(fanout_done(fanout));
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.err, OK);
    fanout_free(fanout, NULL);
}

static void the_first_error_ends_a_gathering(void **state)
{
    struct cmd cmd = {.kind = CMD_PAUSE, .topic = {.topic = BYTES("t"), .pause_until_us = 9}};
    struct fanout *fanout = fanout_new(&space, &cmd);
    char first[SCRIPT_ANSWER_BYTES];
    (void)state;
    (void)ask_all(fanout);
    for (uint32_t i = 0; i < 4; i++) {
        struct bytes parts[] = {first_part(first, i == 2 ? 8 : 0, 0, 0)};
        assert_int_equal(fanout_take(fanout, i, parts, 1), OK);
    }
    struct reply reply;
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.err, ERR_TOPICS_LIMIT);
    fanout_free(fanout, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_holds_the_soonest_of_all_partitions),
        cmocka_unit_test(a_page_begins_in_the_place_where_the_last_one_ended),
        cmocka_unit_test(a_page_goes_on_where_the_last_one_ended_whatever_the_clocks_show),
        cmocka_unit_test(a_cursor_of_another_listing_is_refused_and_nobody_is_asked),
        cmocka_unit_test(a_partition_goes_on_while_jobs_of_one_instant_may_be_missing),
        cmocka_unit_test(counts_are_added_up),
        cmocka_unit_test(a_topics_next_due_time_is_the_soonest_of_its_partitions),
        cmocka_unit_test(a_page_of_topics_ends_where_a_partitions_page_does),
        cmocka_unit_test(p8_sums_of_all_topics_are_answered_with_a_page_of_them),
        cmocka_unit_test(due_jobs_of_all_topics_of_all_partitions_are_added_up),
        cmocka_unit_test(partitions_are_kicked_at_once_each_for_a_share_of_max),
        cmocka_unit_test(partitions_are_not_counted_if_there_is_a_share_for_each),
        cmocka_unit_test(more_jobs_than_can_be_asked_for_at_once_are_not_counted),
        cmocka_unit_test(few_jobs_are_kicked_where_they_are_in_two_rounds),
        cmocka_unit_test(the_next_kick_of_few_jobs_goes_by_what_was_counted),
        cmocka_unit_test(a_kick_by_counts_that_are_not_true_any_more_counts_again),
        cmocka_unit_test(counts_of_another_topic_or_too_few_direct_no_kick),
        cmocka_unit_test(a_job_that_was_counted_and_has_gone_is_made_up_for),
        cmocka_unit_test(delayed_jobs_are_kicked_if_no_partition_has_a_buried_one),
        cmocka_unit_test(a_partition_that_kicks_more_than_it_was_asked_for_is_corrupt),
        cmocka_unit_test(a_topic_is_gone_when_no_partition_keeps_it),
        cmocka_unit_test(a_topic_that_one_partition_has_is_paused_in_all),
        cmocka_unit_test(the_first_error_ends_a_gathering),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
