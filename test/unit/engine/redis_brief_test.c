/*
 * What calls of scripts and their answers leave out: keys that several requests share, jobs that
 * nobody looks at, copies of bodies.
 */
#include <stdio.h>

#include "redis_scripted.h"

/* Which script, and the arguments in front of the requests' own. */
static void a_call_names_the_keys_of_each_partition_once(void **state)
{
    static const struct {
        uint32_t ends, pushes, reserves, partitions[6], keys;
        enum script_kind kind;
        const char *which; /* of the partitions each request is for */
    } calls[] = {
        {2, 1, 1, {3, 3, 3, 3}, 4, SCRIPT_TURN, ""},
        {2, 1, 1, {3, 0, 3, 1}, 12, SCRIPT_TURN, "\0\1\0\2"},
        {0, 3, 0, {2, 2, 2}, 4, SCRIPT_PUSH, NULL},
        {0, 3, 0, {2, 1, 1}, 8, SCRIPT_TURN, "\0\1\1"},
        {2, 0, 0, {1, 1}, 4, SCRIPT_END, NULL},
        {0, 0, 2, {1, 1}, 4, SCRIPT_TURN, ""},
        {3, 3, 0, {0, 1, 2, 0, 1, 2}, 12, SCRIPT_TURN, "\0\1\2\0\1\2"},
    };
    struct bytes topic = BYTES("t");
    (void)state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct buf texts[6] = {{0}}, out = {0};
        struct bytes requests[6];
        uint32_t count = calls[i].ends + calls[i].pushes + calls[i].reserves;
        for (uint32_t j = 0; j < count; j++) {
            struct script_call call = {.partition = calls[i].partitions[j], .number = 1};
            struct cmd end = {.kind = CMD_FINISH, .job.ref.seq = call.partition};
            struct cmd push = {.kind = CMD_PUSH, .push = {.topic = topic, .ttr_us = 60}};
            if (j < calls[i].ends + calls[i].pushes)
                script_encode(&texts[j], &space, &call, j < calls[i].ends ? &end : &push);
            else
                script_encode_reserve(&texts[j], &space, &call,
                                      &(struct cmd_reserve){.topics = &topic, .topic_count = 1},
                                      &(struct script_share){.max = 1});
            requests[j] = buf_bytes(&texts[j]);
        }
        script_join(&out, &space,
                    &(struct script_joined){.requests = requests,
                                            .ends = calls[i].ends,
                                            .pushes = calls[i].pushes,
                                            .reserves = calls[i].reserves,
                                            .partitions = calls[i].partitions});
        struct args args = args_of(&out);
        char digits[4];
        (void)snprintf(digits, sizeof(digits), "%u", calls[i].keys);
        assert_bytes(args.at[1], bytes_of(script_digest(&space, calls[i].kind), SCRIPT_DIGEST));
        assert_bytes(args.at[2], bytes_str(digits));
        for (uint32_t key = 4; key < calls[i].keys; key++)
            assert_false(bytes_eq(args.at[3 + key], args.at[3 + key - 4]));
        if (calls[i].which) {
            struct bytes about = args.at[3 + calls[i].keys];
            assert_int_equal(about.len, 6 + (calls[i].keys > 4 ? count : 0));
            assert_memory_equal(about.at + 6, calls[i].which, about.len - 6);
            assert_int_equal(about.at[1], calls[i].pushes);
        } else {
            assert_bytes(args.at[3 + calls[i].keys], script_argument(requests[0], 1));
        }
        for (uint32_t j = 0; j < count; j++)
            buf_fini(&texts[j]);
        buf_fini(&out);
    }
}

/* The script has not put record and head together: a copy less of the body in Redis. */
static void a_reserved_job_comes_in_two_parts(void **state)
{
    char first[SCRIPT_ANSWER_BYTES], one[HEAD_ROOM], two[HEAD_ROOM], front[HEAD_ROOM] = "r\0\0";
    struct arena arena = {0};
    struct script_answer answer;
    struct job_view damaged[2];
    (void)state;
    struct bytes whole = job_part(one, (struct head){JOB_RESERVED, 8, 50, BYTES("hello")});
    memcpy(front + 3, one, 8 + JOB_HEAD_BYTES);
    struct bytes parts[] = {
        first_part(first, 0, 4, 2),
        bytes_of(front, 3 + 8 + JOB_HEAD_BYTES),
        bytes_of(one + 8 + JOB_HEAD_BYTES, whole.len - 8 - JOB_HEAD_BYTES),
        job_part(two, (struct head){JOB_RESERVED, 12, 60, BYTES("world")}),
        BYTES(""),
    };
    struct script_parts said = {.at = parts, .count = 5}, taken = {.at = parts, .count = 4};
    assert_int_equal(script_read(&space, CMD_RESERVE, &said, &arena, &answer), OK);
    assert_int_equal(answer.reply.count, 2);
    assert_int_equal(answer.reply.jobs[0].ref.seq, 8);
    assert_int_equal(answer.reply.jobs[0].lease, 99);
    assert_bytes(answer.reply.jobs[0].body, BYTES("hello"));
    assert_bytes(answer.reply.jobs[1].body, BYTES("world"));
    parts[2].len--;
    assert_int_equal(script_damaged(&space, &taken, damaged, 2), 1);
    assert_int_equal(damaged[0].ref.seq, 8);
    parts[2] = parts[4]; /* the second part is missing */
    said.count = 3;
    assert_int_equal(script_read(&space, CMD_RESERVE, &said, &arena, &answer), ERR_CORRUPT);
    arena_fini(&arena);
}

/* Only if it was asked for. A repeated request gets an empty second part. */
static void a_brief_answer_to_an_end_has_number_state_and_lease(void **state)
{
    static const struct {
        enum cmd_kind kind;
        bool is_done, if_free;
        const char *options;
    } ends[] = {{CMD_FINISH, false, false, "b"},
                {CMD_DELETE, false, false, "b"},
                {CMD_DELETE, true, false, "db"},
                {CMD_DELETE, false, true, "fb"}};
    char first[SCRIPT_ANSWER_BYTES];
    struct arena arena = {0};
    struct script_answer answer;
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct buf out = {0};
        struct cmd cmd = {.kind = ends[i / 2].kind,
                          .job = {.ref.seq = 7,
                                  .lease = 99,
                                  .is_done = ends[i / 2].is_done,
                                  .if_free = ends[i / 2].if_free,
                                  .brief = i % 2}};
        script_encode(&out, &space, &(struct script_call){.number = 1}, &cmd);
        struct args args = args_of(&out);
        struct bytes options = bytes_str(ends[i / 2].options), parts[2] = {{0}, BYTES("")};
        options.len -= !cmd.job.brief;
        assert_bytes(argv(&args, 6), options);
        parts[0] = first_part(first, 0, 0, 1);
        put_u8(first + 1, JOB_RESERVED);
        put_u64(first + 16, 7);
        for (uint32_t count = 1; count <= 2; count++) {
            struct script_parts said = {.at = parts, .count = count, .request = buf_bytes(&out)};
            enum err err = script_read(&space, cmd.kind, &said, &arena, &answer);
            assert_int_equal(err, cmd.job.brief ? OK : ERR_CORRUPT);
            if (err)
                continue;
            assert_int_equal(answer.reply.count, 1);
            assert_int_equal(answer.reply.jobs[0].ref.seq, 7);
            assert_int_equal(answer.reply.jobs[0].state, JOB_RESERVED);
            assert_int_equal(answer.reply.jobs[0].lease, 99);
            put_u8(first + 1, JOB_GONE);
            assert_int_equal(script_read(&space, cmd.kind, &said, &arena, &answer), ERR_CORRUPT);
            put_u8(first + 1, JOB_RESERVED);
        }
        buf_fini(&out);
    }
    arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_names_the_keys_of_each_partition_once),
        cmocka_unit_test(a_reserved_job_comes_in_two_parts),
        cmocka_unit_test(a_brief_answer_to_an_end_has_number_state_and_lease),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
