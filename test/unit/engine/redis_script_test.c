/*
 * The scripts' requests and answers, without a Redis: what goes out is RESP with the arguments in
 * their places, what comes in is believed only when it is whole.
 * test/black/redis/test_redis_scripts.py runs the scripts themselves.
 */
#include <stdio.h>

#include "engine/redis/notice_codec.h"
#include "engine/redis/server_info.h"
#include "redis_scripted.h"

/* ---- the space ---- */

static void a_script_is_named_by_its_sha1(void **state)
{
    char hex[SCRIPT_DIGEST];
    (void)state;
    script_sha1(BYTES("abc"), hex);
    assert_memory_equal(hex, "a9993e364706816aba3e25717850c26c9cd0d89d", SCRIPT_DIGEST);
    script_sha1(BYTES(""), hex);
    assert_memory_equal(hex, "da39a3ee5e6b4b0d3255bfef95601890afd80709", SCRIPT_DIGEST);
    script_sha1(BYTES("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), hex);
    assert_memory_equal(hex, "84983e441c3bd26ebaae4aa1f95129e5e54670f1", SCRIPT_DIGEST);
    for (enum script_kind kind = 0; kind < SCRIPT_COUNT; kind++) {
        assert_true(script_text(&space, kind).len > 500);
        for (enum script_kind other = 0; other < kind; other++)
            assert_memory_not_equal(script_digest(&space, kind), script_digest(&space, other),
                                    SCRIPT_DIGEST);
    }
}

static void a_line_of_a_script_loses_its_indentation_and_its_comment(void **state)
{
    static const struct {
        const char *line, *code;
    } lines[] = {
        {"", ""},
        {"    ", ""},
        {"-- all of it", ""},
        {"        local a = b - c -- why", "local a = b - c"},
        {"x = '--' .. \"--\" --", "x = '--' .. \"--\""},
        {"x = 'it\\'s --' -- 'a'", "x = 'it\\'s --'"},
        {"x = \"'\" .. y -- \"", "x = \"'\" .. y"},
        {"x = '\\\\' -- y", "x = '\\\\'"},
        {"a(b[c[1]])  ", "a(b[c[1]])"},
        {"x = 1 - -1", "x = 1 - -1"},
        {"x = 'open\\", "x = 'open\\"},
        {"-", "-"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        assert_true(bytes_eq(script_code(bytes_str(lines[i].line)), bytes_str(lines[i].code)));
}

static size_t lines_of(struct bytes text)
{
    size_t lines = 0;
    for (size_t i = 0; i < text.len; i++)
        lines += text.at[i] == '\n';
    return lines;
}

static size_t lines_of_file(const char *path)
{
    char part[4096];
    size_t lines = 0, got;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while ((got = fread(part, 1, sizeof(part), file)) > 0)
        lines += lines_of(bytes_of(part, got));
    (void)fclose(file);
    return lines;
}

static void scripts_are_sent_without_comments_and_keep_their_lines(void **state)
{
    const struct bytes comment = BYTES("--"), indented = BYTES("\n ");
    (void)state;
    for (enum script_kind kind = 0; kind < SCRIPT_COUNT; kind++) {
        struct bytes text = script_text(&space, kind);
        assert_null(memmem(text.at, text.len, comment.at, comment.len));
        assert_null(memmem(text.at, text.len, indented.at, indented.len));
    }
    assert_int_equal(lines_of(script_text(&space, SCRIPT_HEARTBEAT)),
                     lines_of_file("src/engine/redis/scripts/clock.lua") +
                         lines_of_file("src/engine/redis/scripts/marks.lua") +
                         lines_of_file("src/engine/redis/scripts/common.lua") +
                         lines_of_file("src/engine/redis/scripts/heartbeat.lua"));
}

static void a_prefix_that_breaks_the_hash_tag_is_refused(void **state)
{
    struct script_space other;
    char longest[SCRIPT_PREFIX_MAX + 1];
    (void)state;
    memset(longest, 'x', sizeof(longest));
    assert_int_equal(script_space_init(&other, BYTES("a{b"), 4, "daemon-1"), ERR_INVALID);
    assert_int_equal(script_space_init(&other, BYTES("a}b"), 4, "daemon-1"), ERR_INVALID);
    assert_int_equal(script_space_init(&other, BYTES(""), 4, "daemon-1"), ERR_INVALID);
    assert_int_equal(script_space_init(&other, bytes_of(longest, sizeof(longest)), 4, "daemon-1"),
                     ERR_INVALID);
    assert_int_equal(script_space_init(&other, BYTES("x"), 0, "daemon-1"), ERR_INVALID);
    assert_int_equal(script_space_init(&other, BYTES("x"), SCRIPT_PARTITIONS_MAX + 1, "daemon-1"),
                     ERR_INVALID);
}

static void times_outside_a_double_are_clamped(void **state)
{
    (void)state;
    assert_int_equal(script_time_in(&space, 1, -5), 0);
    assert_int_equal(script_time_in(&space, 1, INT64_MAX), SCRIPT_FOREVER);
    assert_int_equal(script_time_in(&space, 1, INT64_MAX - 1), SCRIPT_FOREVER - 1);
    assert_int_equal(script_time_out(&space, 1, SCRIPT_FOREVER), INT64_MAX);
    space.ahead_us[1] = 40;
    assert_int_equal(script_time_in(&space, 1, 100), 140);
    assert_int_equal(script_time_out(&space, 1, 140), 100);
    assert_int_equal(script_time_in(&space, 1, INT64_MAX - 1), SCRIPT_FOREVER - 1);
    assert_int_equal(script_time_out(&space, 1, SCRIPT_FOREVER), INT64_MAX);
    space.ahead_us[1] = 0;
}

/* ---- where commands go ---- */

static void both_names_of_a_job_lead_to_its_partition(void **state)
{
    uint32_t partition = 9;
    enum err err = OK;
    struct bytes topic = BYTES("t");
    (void)state;
    struct cmd cmd = {.kind = CMD_FINISH, .job = {.ref.seq = 4 * 1000 + 3}};
    assert_int_equal(script_route(&space, &cmd, &partition, &err), SCRIPT_ONE);
    assert_int_equal(partition, 3);
    struct cmd push = {.kind = CMD_PUSH, .push = {.id = BYTES("a"), .topic = topic, .ttr_us = 1}};
    uint32_t pushed = 9;
    assert_int_equal(script_route(&space, &push, &pushed, &err), SCRIPT_ONE);
    cmd.job.ref.id = BYTES("a");
    assert_int_equal(script_route(&space, &cmd, &partition, &err), SCRIPT_ONE);
    assert_int_equal(partition, pushed);
    push.push.id.len = 0;
    assert_int_equal(script_route(&space, &push, &pushed, &err), SCRIPT_ANY);
    cmd = (struct cmd){.kind = CMD_TOPIC, .topic = {.topic = topic}};
    assert_int_equal(script_route(&space, &cmd, &partition, &err), SCRIPT_ALL);
    cmd = (struct cmd){.kind = CMD_RESERVE, .reserve = {.topics = &topic, .topic_count = 1}};
    assert_int_equal(script_route(&space, &cmd, &partition, &err), SCRIPT_READY);
}

static void what_the_core_refuses_is_refused_before_redis(void **state)
{
    uint32_t partition;
    enum err err = OK;
    (void)state;
    struct cmd push = {.kind = CMD_PUSH, .push = {.topic = BYTES("t"), .ttr_us = 0}};
    assert_int_equal(script_route(&space, &push, &partition, &err), SCRIPT_REFUSED);
    assert_int_equal(err, ERR_INVALID);
    push.push.ttr_us = 1;
    push.push.id = BYTES("@12"); /* a name the server may give */
    assert_int_equal(script_route(&space, &push, &partition, &err), SCRIPT_REFUSED);
    struct cmd peek = {.kind = CMD_PEEK, .topic = {.topic = BYTES("t"), .state = JOB_GONE}};
    assert_int_equal(script_route(&space, &peek, &partition, &err), SCRIPT_REFUSED);
}

/* ---- requests ---- */

static void a_push_carries_its_head_and_its_checksum(void **state)
{
    struct buf out = {0};
    int64_t retry_us[] = {1000, INT64_MAX};
    (void)state;
    struct cmd cmd = {
        .kind = CMD_PUSH,
        .push = {.id = BYTES("order-1"),
                 .topic = BYTES("orders"),
                 .due_us = 123456789,
                 .ttr_us = 60,
                 .priority = 0x01020304,
                 .order = ORDER_ARRIVAL,
                 .body_kind = BODY_JSON,
                 .content_type = BYTES("text/x"),
                 .body = BYTES("{}\r\n"),
                 .retry_us = retry_us,
                 .retry_count = 2},
    };
    script_encode(&out, &space,
                  &(struct script_call){.partition = 2,
                                        .place = 258,
                                        .number = 4097,
                                        .least_us = 5,
                                        .most_us = 6,
                                        .queue_us = 7},
                  &cmd);
    struct args args = args_of(&out);
    assert_int_equal(args.count, 7 + 13);
    assert_bytes(args.at[0], BYTES("EVALSHA"));
    assert_bytes(args.at[1], bytes_of(script_digest(&space, SCRIPT_PUSH), SCRIPT_DIGEST));
    assert_bytes(args.at[3], BYTES("{laterd:2}:h"));
    assert_bytes(args.at[6], BYTES("{laterd:2}:o"));
    assert_bytes(argv(&args, 1), BYTES("0adaemon-1\1\2\1\x10\0\0\0\0\0\0"
                                       "\5\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0"));
    assert_int_equal(argv(&args, 2).len, JOB_LONG_CREATED); /* its ttr is no number of seconds */
    struct bytes rest = argv(&args, 3);
    assert_int_equal(rest.len, JOB_LONG_BYTES - JOB_LONG_CONTENT_SUM + 13 + 16 + 10);
    assert_memory_equal(rest.at + 13, "ordersorder-1", 13);
    assert_int_equal(get_u64(rest.at + rest.len - 18), SCRIPT_FOREVER);
    assert_memory_equal(rest.at + rest.len - 10, "text/x{}\r\n", 10);
    assert_bytes(argv(&args, 4), BYTES(""));
    assert_bytes(argv(&args, 5), BYTES("123456789"));
    assert_bytes(argv(&args, 6), BYTES("\6orders\1\2\3\4")); /* by arrival: not by due time */
    assert_bytes(argv(&args, 7), BYTES("#porders"));
    assert_bytes(argv(&args, 8), BYTES("iorder-1"));
    assert_bytes(argv(&args, 9), BYTES("a"));
    assert_bytes(argv(&args, 10), BYTES("j"));
    assert_bytes(argv(&args, 11), BYTES("9007199254740991"));
    assert_bytes(argv(&args, 12), BYTES("0"));
    assert_bytes(argv(&args, 13), BYTES("w\6orders\0\0\0\0\x07\x5b\xcd\x15\1\2\3\4"));
    for (uint32_t i = 1; i <= 13; i++)
        assert_bytes(script_argument(buf_bytes(&out), i), argv(&args, i));
    struct arena arena = {0};
    struct script_head read;
    struct buf whole = {0};
    buf_add(&whole, "\0\0\0\0\0\0\0\2", 8);
    buf_add_bytes(&whole, argv(&args, 2));
    buf_add(&whole, "\0\0\0\0\0\0", SCRIPT_MADE_BYTES);
    buf_add_bytes(&whole, rest);
    assert_int_equal(script_read_head(&space, buf_bytes(&whole), true, 0, &arena, &read), OK);
    assert_int_equal(read.view.priority, 0x01020304);
    assert_int_equal(read.view.due_us, 123456789);
    assert_bytes(read.view.ref.id, BYTES("order-1"));
    assert_int_equal(script_read_content(&read), OK);
    assert_bytes(read.view.body, BYTES("{}\r\n"));
    buf_fini(&whole);
    arena_fini(&arena);
    buf_fini(&out);
}

/* What script_read() makes of `first` alone as the answer to a push. */
static struct script_answer read_push(const struct buf *request, const char *first,
                                      struct arena *arena)
{
    struct script_answer answer, none;
    struct bytes part = bytes_of(first, SCRIPT_ANSWER_BYTES);
    struct script_parts parts = {.at = &part, .count = 1, .request = buf_bytes(request)};
    assert_int_equal(script_read(&space, CMD_PUSH, &parts, arena, &answer), OK);
    assert_int_equal(answer.reply.count, 1);
    parts.request = (struct bytes){0};
    assert_int_equal(script_read(&space, CMD_PUSH, &parts, arena, &none), ERR_CORRUPT);
    return answer;
}

static void a_pushed_job_is_read_from_its_request(void **state)
{
    char first[SCRIPT_ANSWER_BYTES];
    struct arena arena = {0};
    struct buf out = {0};
    (void)state;
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.id = BYTES("id"),
                               .topic = BYTES("t"),
                               .due_us = NOW_US + 1500000,
                               .ttr_us = 60,
                               .priority = 7}};
    script_encode(&out, &space, &(struct script_call){.number = 1, .now_us = NOW_US - 1}, &cmd);
    (void)first_part(first, 0, 0, 1);
    put_u8(first + 1, JOB_DELAYED);
    put_u64(first + 16, 48);
    struct args args = args_of(&out);
    assert_bytes(argv(&args, 6), BYTES("\1t\0\0\0\x07\0\0\0\0\0\x26\x25\xa0"));
    assert_bytes(argv(&args, 9), BYTES("d"));
    struct script_answer answer = read_push(&out, first, &arena);
    const struct job_view *job = answer.reply.jobs;
    assert_int_equal(job->ref.seq, 48);
    assert_bytes(job->ref.id, BYTES("id"));
    assert_bytes(job->topic, BYTES("t"));
    assert_int_equal(job->state, JOB_DELAYED);
    assert_int_equal(job->created_us, NOW_US);
    assert_int_equal(job->due_us, NOW_US + 1500000);
    assert_int_equal(job->delay_s, 2);
    assert_int_equal(job->priority, 7);
    put_u8(first + 1, JOB_BURIED);
    assert_int_equal(read_push(&out, first, &arena).reply.jobs->state, JOB_BURIED);
    put_u64(first + 24, NOW_US + 1500000);
    put_u8(first + 1, JOB_READY);
    assert_int_equal(read_push(&out, first, &arena).reply.jobs->state, JOB_READY);
    arena_fini(&arena);
    buf_fini(&out);
}

/* Which job that is a restore does not ask; anybody else does. */
static void a_restore_alone_is_told_no_job_that_is_kept(void **state)
{
    char first[SCRIPT_ANSWER_BYTES];
    struct arena arena = {0};
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct buf out = {0};
        struct script_answer answer;
        struct bytes part = bytes_of(first, sizeof(first));
        struct cmd cmd = {.kind = CMD_PUSH,
                          .push = {.id = BYTES("id"),
                                   .topic = BYTES("t"),
                                   .ttr_us = 60,
                                   .failures = i & 1,
                                   .restore = i & 2 ? 7 : 0,
                                   .written = i & 4}};
        script_encode(&out, &space, &(struct script_call){.number = 1, .now_us = NOW_US}, &cmd);
        (void)first_part(first, 0, 0, 0);
        put_u8(first + 2, 1);
        struct script_parts parts = {.at = &part, .count = 1, .request = buf_bytes(&out)};
        enum err err = script_read(&space, CMD_PUSH, &parts, &arena, &answer);
        assert_int_equal(err, cmd.push.restore ? OK : ERR_CORRUPT);
        assert_true(err || (answer.reply.kept && !answer.reply.jobs && !answer.reply.count));
        buf_fini(&out);
    }
    arena_fini(&arena);
}

static void a_request_sent_again_differs_in_one_byte(void **state)
{
    struct buf out = {0}, again = {0};
    (void)state;
    struct cmd cmd = {.kind = CMD_FINISH, .job = {.ref.seq = 5, .lease = UINT64_MAX}};
    script_encode(&out, &space, &(struct script_call){.partition = 1, .number = 10}, &cmd);
    buf_add_bytes(&again, buf_bytes(&out));
    script_mark_again(again.at, again.len);
    struct args before = args_of(&out), after = args_of(&again);
    assert_int_equal(before.count, after.count);
    for (uint32_t i = 0; i < before.count; i++) {
        if (i != 7)
            assert_bytes(after.at[i], before.at[i]);
    }
    assert_memory_equal(argv(&after, 1).at, "1", 1);
    assert_memory_equal(argv(&after, 1).at + 1, argv(&before, 1).at + 1, 19);
    buf_fini(&out);
    buf_fini(&again);
}

static void a_number_with_a_line_end_in_it_does_not_mislead_the_mark(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < 70000; number += 13) {
        struct buf out = {0};
        struct cmd cmd = {.kind = CMD_GET, .job = {.ref.seq = 5}};
        script_encode(&out, &space, &(struct script_call){.partition = 1, .number = number}, &cmd);
        script_mark_again(out.at, out.len);
        struct args args = args_of(&out);
        assert_memory_equal(argv(&args, 1).at, "1", 1);
        buf_fini(&out);
    }
}

/* ---- answers ---- */

static void a_reserves_jobs_are_read_and_checked(void **state)
{
    char first[SCRIPT_ANSWER_BYTES], one[HEAD_ROOM], two[HEAD_ROOM];
    struct arena arena = {0};
    struct script_answer answer;
    struct job_view damaged[2];
    (void)state;
    struct bytes parts[] = {
        first_part(first, 0, 4, 2),
        job_part(one, (struct head){JOB_RESERVED, 8, 50, BYTES("hello")}),
        job_part(two, (struct head){JOB_RESERVED, 12, 60, BYTES("world")}),
        BYTES(""),
    };
    two[parts[2].len - 4] = 'p';
    struct script_parts said = {.at = parts, .count = 4}, taken = {.at = parts, .count = 3};
    assert_int_equal(script_read(&space, CMD_RESERVE, &said, &arena, &answer), OK);
    assert_true(answer.more);
    assert_int_equal(answer.reply.err, OK);
    assert_int_equal(answer.reply.count, 1);
    assert_bytes(answer.reply.jobs[0].body, BYTES("hello"));
    assert_bytes(answer.reply.jobs[0].ref.id, BYTES("id"));
    assert_int_equal(answer.reply.jobs[0].lease, 99);
    assert_int_equal(answer.reply.jobs[0].until_us, 77);
    assert_int_equal(answer.reply.jobs[0].retry_us[0], 1234);
    assert_int_equal(script_damaged(&space, &taken, damaged, 2), 1);
    assert_int_equal(damaged[0].ref.seq, 12);
    assert_int_equal(damaged[0].lease, 99);
    said.at = parts + 1; /* only the damaged one is left */
    said.count = 3;
    parts[1] = parts[0];
    assert_int_equal(script_read(&space, CMD_RESERVE, &said, &arena, &answer), OK);
    assert_int_equal(answer.reply.err, ERR_DAMAGED);
    assert_int_equal(answer.reply.count, 0);
    said.count = 1; /* the last part is missing */
    assert_int_equal(script_read(&space, CMD_RESERVE, &said, &arena, &answer), ERR_CORRUPT);
    arena_fini(&arena);
}

static void a_reserve_tells_what_it_left(void **state)
{
    char first[SCRIPT_ANSWER_BYTES];
    char firsts[] = "\0\0\0\7\0\0\0\0\0\0\1\1\3"
                    "\377\377\377\377\377\377\377\377\377\377\377\377\0"
                    "\377\377\377\377\377\377\377\377\377\377\377\376\0";
    struct arena arena = {0};
    struct script_answer answer;
    struct script_rank rank = {0};
    uint32_t close_jobs = 0;
    (void)state;
    struct bytes parts[] = {
        first_part(first, 5, 16, 0),
        bytes_of(firsts, sizeof(firsts) - 1),
    };
    struct script_parts said = {.partition = 2, .at = parts, .count = 2};
    space.ahead_us[2] = 57;
    assert_int_equal(script_read(&space, CMD_RESERVE, &said, &arena, &answer), OK);
    assert_int_equal(answer.reply.err, ERR_EMPTY);
    assert_true(answer.marked);
    assert_int_equal(script_first(&space, 2, &answer, 0, &rank, &close_jobs), SCRIPT_FIRST);
    assert_int_equal(rank.priority, 7);
    assert_int_equal(rank.us, 257 - 57);
    assert_int_equal(close_jobs, 3);
    assert_int_equal(script_first(&space, 2, &answer, 1, &rank, &close_jobs), SCRIPT_NONE);
    assert_int_equal(script_first(&space, 2, &answer, 2, &rank, &close_jobs), SCRIPT_UNSEEN);
    assert_int_equal(script_first(&space, 2, &answer, 3, &rank, &close_jobs), SCRIPT_UNSEEN);
    parts[1].len--;
    assert_int_equal(script_read(&space, CMD_RESERVE, &said, &arena, &answer), ERR_CORRUPT);
    space.ahead_us[2] = 0;
    arena_fini(&arena);
}

static void a_due_job_is_shown_as_ready(void **state)
{
    char first[SCRIPT_ANSWER_BYTES], head[HEAD_ROOM];
    struct arena arena = {0};
    struct script_answer answer;
    (void)state;
    struct bytes parts[] = {
        first_part(first, 0, 0, 1),
        job_part(head, (struct head){JOB_DELAYED, 8, NOW_US, BYTES("x")}),
    };
    assert_int_equal(script_read(&space, CMD_GET, &(struct script_parts){.at = parts, .count = 2},
                                 &arena, &answer),
                     OK);
    assert_int_equal(answer.reply.jobs[0].state, JOB_READY);
    put_u64(head + 8 + JOB_HEAD_DUE, NOW_US + 1);
    assert_int_equal(script_read(&space, CMD_GET, &(struct script_parts){.at = parts, .count = 2},
                                 &arena, &answer),
                     OK);
    assert_int_equal(answer.reply.jobs[0].state, JOB_DELAYED);
    arena_fini(&arena);
}

static void an_answer_that_is_cut_anywhere_is_corrupt(void **state)
{
    char first[SCRIPT_ANSWER_BYTES], head[HEAD_ROOM];
    struct arena arena = {0};
    struct script_answer answer;
    (void)state;
    struct bytes whole = job_part(head, (struct head){JOB_BURIED, 8, 50, BYTES("")});
    struct bytes parts[2] = {first_part(first, 0, 0, 1), whole};
    assert_int_equal(script_read(&space, CMD_KICK, &(struct script_parts){.at = parts, .count = 2},
                                 &arena, &answer),
                     OK);
    for (size_t len = 0; len < whole.len; len++) {
        parts[1] = bytes_of(head, len);
        assert_int_equal(script_read(&space, CMD_KICK,
                                     &(struct script_parts){.at = parts, .count = 2}, &arena,
                                     &answer),
                         ERR_CORRUPT);
    }
    assert_int_equal(script_read(&space, CMD_KICK, &(struct script_parts){.at = parts, .count = 1},
                                 &arena, &answer),
                     ERR_CORRUPT);
    assert_int_equal(script_read(&space, CMD_KICK, &(struct script_parts){.at = parts, .count = 0},
                                 &arena, &answer),
                     ERR_CORRUPT);
    for (size_t len = 0; len < SCRIPT_ANSWER_BYTES; len++) {
        parts[0] = bytes_of(first, len);
        assert_int_equal(
            script_read_answer(&space, &(struct script_parts){.at = parts, .count = 1}, &answer),
            ERR_CORRUPT);
    }
    parts[1] = whole;
    for (size_t field = 8; field <= 24; field += 16) { /* no script says a time beyond forever */
        parts[0] = first_part(first, 0, 0, 1);
        put_u64(first + field, UINT64_MAX);
        assert_int_equal(
            script_read_answer(&space, &(struct script_parts){.at = parts, .count = 1}, &answer),
            ERR_CORRUPT);
    }
    parts[0] = first_part(first, 0, 0, 1);
    for (size_t field = 8 + JOB_HEAD_UNTIL; field <= 8 + JOB_HEAD_DUE;
         field += JOB_HEAD_DUE - JOB_HEAD_UNTIL) {
        uint64_t was = get_u64(head + field);
        put_u64(head + field, (uint64_t)SCRIPT_FOREVER + 1);
        assert_int_equal(script_read(&space, CMD_KICK,
                                     &(struct script_parts){.at = parts, .count = 2}, &arena,
                                     &answer),
                         ERR_CORRUPT);
        put_u64(head + field, was);
    }
    put_u8(first, 200);
    parts[0] = bytes_of(first, SCRIPT_ANSWER_BYTES);
    assert_int_equal(
        script_read_answer(&space, &(struct script_parts){.at = parts, .count = 1}, &answer),
        ERR_CORRUPT);
    arena_fini(&arena);
}

/* ---- notices and fitness ---- */

static void members_are_read_or_refused(void **state)
{
    char first[SCRIPT_ANSWER_BYTES], records[2 * SCRIPT_MEMBER_BYTES];
    struct script_member members[SCRIPT_MEMBERS_MAX];
    uint32_t count = 0;
    (void)state;
    memcpy(records, "daemon-1y", 9);
    put_u64(records + 9, NOW_US - 5);
    memcpy(records + 17, "daemon-2n", 9);
    put_u64(records + 26, NOW_US + 5); /* of a clock before a failover */
    struct bytes parts[] = {first_part(first, 0, 0, 2), bytes_of(records, sizeof(records))};
    struct script_parts said = {.at = parts, .count = 2};
    assert_int_equal(script_read_members(&said, members, &count), OK);
    assert_int_equal(count, 2);
    assert_memory_equal(members[1].name, "daemon-2", SCRIPT_NAME);
    assert_true(members[0].how == SCRIPT_SERVES && members[0].age_us == 5);
    assert_true(members[1].how == SCRIPT_LIVES && members[1].age_us == 0);
    parts[1].len--;
    assert_int_equal(script_read_members(&said, members, &count), ERR_CORRUPT);
    parts[1].len++;
    put_u64(records + 9, UINT64_MAX);
    assert_int_equal(script_read_members(&said, members, &count), ERR_CORRUPT);
    said.count = 1;
    assert_int_equal(script_read_members(&said, members, &count), ERR_CORRUPT);
}

static void subscription_are_read_or_refused(void **state)
{
    struct notice notice;
    (void)state;
    assert_int_equal(notice_decode(&space, BYTES("r3 a topic"), &notice), OK);
    assert_true(notice.kind == NOTICE_READY && notice.partition == 3);
    assert_bytes(notice.topic, BYTES("a topic"));
    assert_false(notice.only_we_wait);
    assert_int_equal(notice_decode(&space, BYTES("r03 a topic"), &notice), OK);
    assert_true(notice.only_we_wait && notice.partition == 3);
    assert_int_equal(notice_decode(&space, BYTES("w0 1234"), &notice), OK);
    assert_true(notice.kind == NOTICE_DUE && notice.due_us == 1234);
    assert_int_equal(notice_decode(&space, BYTES("n2 daemon-7"), &notice), OK);
    assert_true(notice.kind == NOTICE_MADE && notice.partition == 2 && !notice.by_us);
    assert_int_equal(notice_decode(&space, BYTES("bydaemon-7"), &notice), OK);
    assert_true(notice.kind == NOTICE_MEMBER && notice.member.how == SCRIPT_SERVES);
    assert_memory_equal(notice.member.name, "daemon-7", SCRIPT_NAME);
    const struct bytes bad[] = {
        BYTES(""),           BYTES("r3 "),         BYTES("r4 t"),
        BYTES("x3 t"),       BYTES("w3 "),         BYTES("w3 x"),
        BYTES("r t"),        BYTES("r3t t"),       BYTES("w3 99999999999999999"),
        BYTES("w1 -1"),      BYTES("n4 daemon-1"), BYTES("n2 "),
        BYTES("n"),          BYTES("bydaemon"),    BYTES("b?daemon-7"),
        BYTES("bydaemon-77")};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(notice_decode(&space, bad[i], &notice), ERR_CORRUPT);
}

#define INFO(version, policy, mode)                                                                \
    "# Server\r\nredis_version:" version "\r\nredis_mode:" mode                                    \
    "\r\nmaxmemory:100\r\nmaxmemory_policy:" policy "\r\nrole:master\r\n"

static void an_unfit_server_is_refused_with_a_reason(void **state)
{
    const char *reason = NULL;
    struct bytes none = {0};
    (void)state;
    assert_int_equal(
        server_info_judge(BYTES(INFO("7.0.15", "noeviction", "standalone")), none, &reason), OK);
    assert_int_equal(
        server_info_judge(BYTES(INFO("6.2.0", "noeviction", "standalone")), none, &reason), OK);
    assert_null(reason);
    assert_int_equal(
        server_info_judge(BYTES(INFO("6.0.16", "noeviction", "standalone")), none, &reason),
        ERR_UNSUPPORTED);
    assert_non_null(reason);
    assert_int_equal(
        server_info_judge(BYTES(INFO("7.0.15", "allkeys-lru", "standalone")), none, &reason),
        ERR_UNSUPPORTED);
    assert_int_equal(server_info_judge(none, none, &reason), ERR_UNSUPPORTED);
    struct bytes cluster = BYTES(INFO("7.0.15", "noeviction", "cluster"));
    assert_true(server_info_is_cluster(cluster));
    assert_int_equal(server_info_judge(cluster, none, &reason), ERR_UNSUPPORTED);
    assert_int_equal(
        server_info_judge(cluster, BYTES("cluster_state:ok\r\ncluster_slots_assigned:16384\r\n"),
                          &reason),
        OK);
    struct bytes partial = BYTES("cluster_state:ok\r\ncluster_slots_assigned:16383\r\n");
    assert_int_equal(server_info_judge(cluster, partial, &reason), ERR_UNSUPPORTED);
    struct bytes down = BYTES("cluster_state:fail\r\ncluster_slots_assigned:16384\r\n");
    assert_int_equal(server_info_judge(cluster, down, &reason), ERR_AGAIN);
    assert_int_equal(server_info_judge(cluster,
                                       BYTES("cluster_state:fail\r\ncluster_slots_assigned:0\r\n"),
                                       &reason),
                     ERR_AGAIN);
}

/* It says redis_version:7.2.4, and server_mode where Redis says redis_mode. */
static void valkey_is_judged_as_redis_is(void **state)
{
    const char *reason = NULL;
    struct bytes none = {0};
    struct bytes cluster = BYTES("# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\n"
                                 "server_mode:cluster\r\nmaxmemory:0\r\nrole:master\r\n");
    struct bytes sentinel = BYTES("# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\n"
                                  "server_mode:sentinel\r\nmaxmemory:0\r\n");
    (void)state;
    assert_true(server_info_is_cluster(cluster) && !server_info_is_cluster(sentinel));
    assert_int_equal(server_info_judge(cluster, none, &reason), ERR_UNSUPPORTED);
    assert_int_equal(
        server_info_judge(cluster, BYTES("cluster_state:ok\r\ncluster_slots_assigned:16384\r\n"),
                          &reason),
        OK);
    assert_int_equal(server_info_judge(sentinel, none, &reason), ERR_UNSUPPORTED);
}

/* What lies in Redis may not change: docs/redis-layout.md. */
_Static_assert(JOB_HEAD_BYTES == 54 && JOB_SHORT_BYTES == 33 && JOB_LONG_BYTES == 46, "stored");
_Static_assert(JOB_COMPACT_BYTES == 28 && JOB_COMPACT_DUE == 11 && JOB_COMPACT_AHEAD == 18 &&
                   JOB_COMPACT_CONTENT_SUM == 20,
               "stored");
_Static_assert((int)JOB_AHEAD_BASE >= (int)SCRIPT_PARTITIONS_MAX, "no number is behind by more");
_Static_assert(JOB_HEAD_STATE == 0 && JOB_HEAD_FLAGS == 1 && JOB_HEAD_RESERVES == 2, "stored");
_Static_assert(JOB_HEAD_UNTIL == 4 && JOB_HEAD_LEASE == 12 && JOB_HEAD_HOLDER == 20, "stored");
_Static_assert(JOB_HEAD_FAILURES == 28 && JOB_HEAD_PRIORITY == 38 && JOB_HEAD_DUE == 46, "stored");
_Static_assert(JOB_SHORT_PRIORITY == 4 && JOB_SHORT_TTR == 6 && JOB_SHORT_DELAY_S == 8, "stored");
_Static_assert(JOB_SHORT_DUE == 11 && JOB_SHORT_CREATED == 18 && JOB_SHORT_CONTENT_SUM == 25,
               "stored");
_Static_assert(JOB_LONG_PRIORITY == 4 && JOB_LONG_TTR == 8 && JOB_LONG_DELAY_S == 15, "stored");
_Static_assert(JOB_LONG_DUE == 19 && JOB_LONG_CREATED == 26 && JOB_LONG_CONTENT_SUM == 33,
               "stored");
_Static_assert(JOB_LONG_TYPE_LEN == 41 && JOB_LONG_BODY_LEN == 42, "stored");
_Static_assert(JOB_SHORT_RETRIES == 3 && JOB_LONG_RETRIES == 3 && JOB_LONG_TOPIC_LEN == 2,
               "read before the form is known");

static bool text_has(enum script_kind kind, const char *what)
{
    struct bytes text = script_text(&space, kind);
    return memmem(text.at, text.len, what, strlen(what)) != NULL;
}

static void scripts_have_the_places_of_the_job_head_as_literals(void **state)
{
    (void)state;
    for (enum script_kind kind = 0; kind < SCRIPT_COUNT; kind++)
        assert_false(text_has(kind, "HEAD.") || text_has(kind, "SHORT.") ||
                     text_has(kind, "LONG."));
    assert_true(text_has(SCRIPT_CHANGE, "'<BBHI8I8c8HHHHHI4I4I8', head)"));
    assert_true(text_has(SCRIPT_CHANGE, "'<BBBBHHI3I7', record)"));
    assert_true(text_has(SCRIPT_CHANGE, "unpack_bytes('<H', record, 19)"));
    assert_true(text_has(SCRIPT_CHANGE, "AHEAD = 1024\n") && JOB_AHEAD_BASE == 1024);
    assert_true(text_has(SCRIPT_PUSH, "seq - made_at + 1024\n"));
    assert_true(text_has(SCRIPT_CHANGE, "INLINE_MAX = 1024\n") && JOB_INLINE_MAX == 1024);
    assert_true(text_has(SCRIPT_OPEN, "BUCKETS = 256\n") && SCRIPT_BUCKETS == 256);
    assert_true(text_has(SCRIPT_END, "sub(head, 21, 28)"));
    assert_true(text_has(SCRIPT_RESERVE, "'<I4I7I4I7', record, 5)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts_have_the_places_of_the_job_head_as_literals),
        cmocka_unit_test(a_script_is_named_by_its_sha1),
        cmocka_unit_test(a_line_of_a_script_loses_its_indentation_and_its_comment),
        cmocka_unit_test(scripts_are_sent_without_comments_and_keep_their_lines),
        cmocka_unit_test(a_prefix_that_breaks_the_hash_tag_is_refused),
        cmocka_unit_test(times_outside_a_double_are_clamped),
        cmocka_unit_test(both_names_of_a_job_lead_to_its_partition),
        cmocka_unit_test(what_the_core_refuses_is_refused_before_redis),
        cmocka_unit_test(a_push_carries_its_head_and_its_checksum),
        cmocka_unit_test(a_pushed_job_is_read_from_its_request),
        cmocka_unit_test(a_restore_alone_is_told_no_job_that_is_kept),
        cmocka_unit_test(a_request_sent_again_differs_in_one_byte),
        cmocka_unit_test(a_number_with_a_line_end_in_it_does_not_mislead_the_mark),
        cmocka_unit_test(a_reserves_jobs_are_read_and_checked),
        cmocka_unit_test(a_reserve_tells_what_it_left),
        cmocka_unit_test(a_due_job_is_shown_as_ready),
        cmocka_unit_test(an_answer_that_is_cut_anywhere_is_corrupt),
        cmocka_unit_test(members_are_read_or_refused),
        cmocka_unit_test(subscription_are_read_or_refused),
        cmocka_unit_test(an_unfit_server_is_refused_with_a_reason),
        cmocka_unit_test(valkey_is_judged_as_redis_is),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
