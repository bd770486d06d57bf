/*
 * A Redis that has reached maxmemory: what needs no more memory, or makes some free, goes on, and
 * what needs more is refused, whole (P8). And what a Redis that has lost a partition's counts of
 * topics says of room for them. The scripts, one call after another.
 */
#include "engine/redis/fanout_parts.h"
#include "redis_scripts_bed.h"

static void set_full(bool full)
{
    sim_redis_settings(redis)->full = full;
}

/* Sends `request`. True: it was refused because memory is full. */
static bool is_refused(void)
{
    struct buf *out = sim_redis_output(conn);
    out->len = 0;
    sim_redis_time(redis, now_us);
    sim_redis_input(conn, buf_bytes(&request));
    request.len = 0;
    return bytes_starts(buf_bytes(out), BYTES("-OOM"));
}

/* Of a command on topics; the jobs that it has changed. */
static uint32_t on_topic(const struct cmd *cmd)
{
    struct fanout *fanout = fanout_new(&spaces[0], cmd);
    struct reply reply;
    while (fanout_wants(fanout, 0)) {
        struct script_call call = next_call();
        fanout_encode(fanout, &request, &call);
        (void)ask(0);
        assert_int_equal(fanout_take(fanout, 0, parts, part_count), OK);
    }
    fanout_reply(fanout, &reply);
    assert_int_equal(reply.err, OK);
    uint32_t count = reply.count;
    fanout_free(fanout, NULL);
    return count;
}

static uint32_t sweep(enum cmd_kind kind, const char *topic, enum job_state state)
{
    return on_topic(&(struct cmd){
        .kind = kind, .topic = {.topic = bytes_str(topic), .state = state, .max = UINT32_MAX}});
}

static void encode_job(enum cmd_kind kind, struct cmd_job job)
{
    struct script_call call = next_call();
    script_encode(&request, &spaces[0], &call, &(struct cmd){.kind = kind, .job = job});
}

static uint64_t push_seq(const char *topic, int64_t due_us)
{
    struct script_answer answer = push(topic, due_us);
    assert_int_equal(answer.err, OK);
    return answer.seq;
}

/* Else consumers could not take the jobs that fill it. */
static void p8_a_topic_of_a_full_redis_is_paused_and_resumed(void **state)
{
    struct cmd pause = {.kind = CMD_PAUSE, .topic = {.topic = BYTES("t")}};
    struct cmd resume = {.kind = CMD_RESUME, .topic = {.topic = BYTES("t")}};
    (void)state;
    (void)push_seq("t", 1);
    pause.topic.pause_until_us = now_us + 60 * SECOND_US;
    set_full(true);
    (void)on_topic(&pause);
    assert_int_equal(reserve(0, "t", 1, false).count, 0);
    (void)on_topic(&resume);
    assert_int_equal(reserve(0, "t", 1, false).count, 1);
}

static void p8_a_paused_topic_of_a_full_redis_is_removed(void **state)
{
    struct cmd pause = {.kind = CMD_PAUSE, .topic = {.topic = BYTES("t")}};
    struct cmd remove = {.kind = CMD_REMOVE_TOPIC, .topic = {.topic = BYTES("t")}};
    (void)state;
    (void)push_seq("t", 1);
    pause.topic.pause_until_us = now_us + 60 * SECOND_US;
    (void)on_topic(&pause);
    set_full(true);
    (void)on_topic(&remove); /* it still has a job, so only its pause ends */
    assert_int_equal(reserve(0, "t", 1, false).count, 1);
}

static void p8_buried_jobs_of_a_full_redis_are_kicked(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        uint64_t seq = push_seq("t", 1);
        assert_int_equal(reserve(0, "t", 1, false).count, 1);
        encode_job(CMD_BURY, (struct cmd_job){.ref.seq = seq, .lease = seq + 1});
        assert_int_equal(ask(0).err, OK);
    }
    set_full(true);
    assert_int_equal(sweep(CMD_KICK_TOPIC, "t", JOB_BURIED), 3);
    assert_int_equal(reserve(0, "t", 3, false).count, 3);
}

/* More reserved jobs of another topic than one call reads come first: it changes nothing. */
static void p8_reserved_jobs_of_a_full_redis_are_deleted_behind_those_of_others(void **state)
{
    enum { OTHERS = 700 };
    (void)state;
    for (unsigned i = 0; i < OTHERS; i++)
        (void)push_seq("others", 1);
    assert_int_equal(reserve(0, "others", OTHERS, false).count, OTHERS);
    now_us += 1000;
    (void)push_seq("t", 1);
    assert_int_equal(reserve(0, "t", 1, false).count, 1);
    set_full(true);
    assert_int_equal(sweep(CMD_CLEAR_TOPIC, "t", JOB_RESERVED), 1);
}

/* A new body may be larger: else a Redis that is full could be filled on. */
static void p8_a_full_redis_refuses_a_new_body_and_takes_a_new_time(void **state)
{
    struct cmd_job job = {.has_due = true};
    (void)state;
    job.ref.seq = push_seq("t", now_us + SECOND_US);
    job.due_us = now_us + 60 * SECOND_US;
    set_full(true);
    struct cmd_job with_body = job;
    with_body.has_body = true;
    with_body.body = BYTES("another body");
    encode_job(CMD_RESCHEDULE, with_body);
    assert_true(is_refused());
    set_full(false);
    encode_job(CMD_GET, (struct cmd_job){.ref.seq = job.ref.seq});
    (void)ask(0);
    assert_non_null(memmem(parts[1].at, parts[1].len, "body", 4)); /* it is as it was */
    assert_null(memmem(parts[1].at, parts[1].len, "another", 7));
    set_full(true);
    encode_job(CMD_RESCHEDULE, job);
    assert_int_equal(ask(0).err, OK);
    set_full(false);
    encode_job(CMD_RESCHEDULE, with_body);
    assert_int_equal(ask(0).err, OK);
    now_us += 2 * SECOND_US;
    struct script_call call = next_call();
    script_encode_promote(&request, &spaces[0], &call, 10, false);
    assert_int_equal(ask(0).count, 0); /* it has the new time, and one place */
    now_us += 60 * SECOND_US;
    call = next_call();
    script_encode_promote(&request, &spaces[0], &call, 10, false);
    assert_int_equal(ask(0).count, 1);
    assert_int_equal(reserve(0, "t", 2, false).count, 1);
    assert_non_null(memmem(parts[1].at, parts[1].len, "another body", 12));
}

static void encode_push(const char *topic, const char *id, enum if_exists if_exists)
{
    struct script_call call = next_call();
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.topic = bytes_str(topic),
                               .id = bytes_str(id),
                               .if_exists = if_exists,
                               .due_us = 1,
                               .ttr_us = SECOND_US,
                               .body = BYTES("a body")}};
    script_encode(&request, &spaces[0], &call, &cmd);
}

static void p8_a_full_redis_refuses_a_push_that_replaces_a_job(void **state)
{
    (void)state;
    encode_push("t", "x", IF_EXISTS_REPLACE);
    uint64_t seq = ask(0).seq;
    set_full(true);
    encode_push("t", "x", IF_EXISTS_REPLACE);
    assert_true(is_refused());
    struct script_answer there = reserve(0, "t", 2, false);
    assert_int_equal(there.count, 1); /* it is there as it was */
    encode_job(CMD_FINISH, (struct cmd_job){.ref.id = BYTES("x")});
    assert_int_equal(ask(0).seq, seq);
}

/* An idle topic would have to go for it. */
static void p8_a_full_redis_refuses_a_push_that_makes_a_topic(void **state)
{
    (void)state;
    spaces[0].topics_max = 1;
    encode_push("idle", "x", IF_EXISTS_REJECT);
    assert_int_equal(ask(0).err, OK);
    encode_job(CMD_DELETE, (struct cmd_job){.ref.id = BYTES("x")});
    assert_int_equal(ask(0).err, OK);
    set_full(true);
    encode_push("t", "", IF_EXISTS_REJECT);
    assert_true(is_refused());
    set_full(false);
    assert_int_equal(REDIS("ZLEXCOUNT", "{laterd:0}:o", "[tidle", "[tidle"), 1);
    encode_push("t", "", IF_EXISTS_REJECT);
    assert_int_equal(ask(0).err, OK);
    assert_int_equal(REDIS("ZLEXCOUNT", "{laterd:0}:o", "[tidle", "[tidle"), 0);
}

/* The hash with all counts is lost, a topic's job is not. */
static void lose_the_hash_of_a_job(void)
{
    assert_int_equal(push("t", now_us + SECOND_US).err, OK);
    (void)REDIS("DEL", "{laterd:0}:h");
    assert_true(open_as(0, 256).lost);
}

/* Who has looked before the job was found again has left no mark, so all are told. */
static void consumers_of_a_topic_whose_counts_were_lost_leave_marks(void **state)
{
    (void)state;
    lose_the_hash_of_a_job();
    (void)reserve_as(0, "t", 1, false, true);
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "#wt"), 0);
    (void)notices("r0 t");
    rebuild_all();
    assert_int_equal(notices("r0 t"), 1);
    (void)reserve_as(0, "t", 1, false, true);
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "#wt"), 1);
    rebuild_all();
    assert_int_equal(notices("r0 t"), 0);
}

/* Neither a count nor a place says that it has a job: reserved ones have theirs among all leases.
 */
static void p2_a_topic_with_a_reserved_job_does_not_make_room_for_another(void **state)
{
    struct buf from = {0};
    bool more = true;
    (void)state;
    assert_int_equal(push("t", now_us).err, OK);
    assert_int_equal(reserve_as(0, "t", 1, false, false).err, OK);
    (void)REDIS("DEL", "{laterd:0}:h");
    assert_true(open_as(0, 256).lost);
    buf_add_str(&from, "0");
    while (more && REDIS("HINCRBY", "{laterd:0}:h", "#ht", "0") == 0)
        more = rebuild_some(&from);
    assert_true(more); /* it is known before all are counted */
    buf_fini(&from);
    spaces[0].topics_max = 1;
    assert_int_equal(push("u", now_us).err, ERR_TOPICS_LIMIT);
}

static void finish(uint64_t seq)
{
    encode_job(CMD_FINISH, (struct cmd_job){.ref.seq = seq});
    assert_int_equal(ask(0).err, OK);
}

/* Two of them end before they are found again, of a topic with others and of one without. If too
   few were counted, the topic would seem to have none while it has some. */
static void p2_all_reserved_jobs_of_a_topic_whose_counts_were_lost_are_counted(void **state)
{
    uint64_t seqs[4], other;
    (void)state;
    for (unsigned i = 0; i < 4; i++)
        seqs[i] = push_seq("t", 1);
    other = push_seq("u", 1);
    assert_int_equal(reserve(0, "t", 4, false).count, 4);
    assert_int_equal(reserve(0, "u", 1, false).count, 1);
    (void)REDIS("DEL", "{laterd:0}:h");
    assert_true(open_as(0, 256).lost);
    finish(seqs[0]);
    finish(other);
    rebuild_all();
    rebuild_all(); /* counts each once */
    assert_int_equal(REDIS("HINCRBY", "{laterd:0}:h", "#ht", "0"), 3);
    other = push_seq("u", 1);
    assert_int_equal(reserve(0, "u", 1, false).count, 1);
    assert_int_equal(REDIS("HINCRBY", "{laterd:0}:h", "#hu", "0"), 1);
    spaces[0].topics_max = 2;
    finish(seqs[1]);
    assert_int_equal(push("v", 1).err, ERR_TOPICS_LIMIT);
    finish(seqs[2]);
    finish(seqs[3]);
    assert_int_equal(push("v", 1).err, OK); /* in the place of "t" */
}

static void from_the_start(struct buf *from)
{
    from->len = 0;
    buf_add_str(from, "0");
}

static bool promote_says_lost(void)
{
    struct script_call call = next_call();
    script_encode_promote(&request, &spaces[1], &call, 10, false);
    return ask(0).lost;
}

/* It was the only one to which it was said that the hash was lost. */
static void p5_ids_are_put_back_though_the_daemon_that_began_is_killed(void **state)
{
    struct buf from = {0};
    (void)state;
    encode_push("t", "x", IF_EXISTS_REJECT);
    assert_int_equal(ask(0).err, OK);
    (void)REDIS("DEL", "{laterd:0}:h");
    assert_true(open_as(0, 256).lost);
    buf_add_str(&from, "0");
    assert_true(rebuild_some(&from));
    assert_true(open_as(1, 256).lost);
    assert_true(promote_says_lost());
    from_the_start(&from);
    while (rebuild_as(1, REBUILD_LOST, &from)) {
    }
    buf_fini(&from);
    assert_false(open_as(1, 256).lost);
    assert_false(promote_says_lost());
    encode_push("t", "x", IF_EXISTS_REJECT);
    assert_int_equal(ask(0).err, ERR_EXISTS);
}

static bool waits_for_another(struct buf *from)
{
    return rebuild_as(1, REBUILD_LOST, from) && bytes_eq(buf_bytes(from), BYTES("0"));
}

static void lose_order(void)
{
    assert_int_equal(push("t", now_us).err, OK);
    (void)REDIS("DEL", "{laterd:0}:o");
}

/* Each call may take Redis 2 ms. */
static void what_was_lost_is_put_back_by_one_daemon(void **state)
{
    struct buf from = {0}, others = {0};
    (void)state;
    assert_int_equal(open_as(1, 256).err, OK);
    lose_order();
    from_the_start(&from);
    from_the_start(&others);
    while (rebuild_as(0, REBUILD_LOST, &from)) {
        now_us += SECOND_US; /* it is slow, but lives */
        assert_true(waits_for_another(&others));
    }
    assert_false(rebuild_as(1, REBUILD_LOST, &others)); /* nothing is lost */
    assert_false(promote_says_lost());
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "f"), 0);
    assert_int_equal(reserve_as(1, "t", 1, false, false).count, 1);
    buf_fini(&from);
    buf_fini(&others);
}

/* The first one, if it has only stood still, leaves it to the other one. */
static void another_takes_over_from_a_daemon_that_puts_back_nothing_more(void **state)
{
    struct buf from = {0}, others = {0};
    (void)state;
    assert_int_equal(open_as(1, 256).err, OK);
    lose_order();
    from_the_start(&from);
    from_the_start(&others);
    assert_true(rebuild_as(0, REBUILD_LOST, &from));
    assert_true(waits_for_another(&others));
    now_us += 2 * SECOND_US + 1;
    assert_false(waits_for_another(&others));
    assert_true(rebuild_as(0, REBUILD_LOST, &from));
    assert_true(bytes_eq(buf_bytes(&from), BYTES("0")));
    while (rebuild_as(1, REBUILD_LOST, &others)) {
    }
    assert_false(promote_says_lost());
    assert_int_equal(reserve_as(1, "t", 1, false, false).count, 1);
    assert_false(rebuild_as(0, REBUILD_LOST, &from));
    buf_fini(&from);
    buf_fini(&others);
}

/* What was put back before is lost, too: it does not go on behind that. */
static void a_hash_that_is_lost_once_more_is_put_back_from_the_start(void **state)
{
    struct buf from = {0};
    (void)state;
    encode_push("t", "x", IF_EXISTS_REJECT);
    assert_int_equal(ask(0).err, OK);
    (void)REDIS("DEL", "{laterd:0}:h");
    assert_true(open_as(0, 256).lost);
    from_the_start(&from);
    while (rebuild_as(0, REBUILD_LOST, &from) && REDIS("HEXISTS", "{laterd:0}:h", "ix") == 0) {
    }
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "ix"), 1);
    (void)REDIS("DEL", "{laterd:0}:h");
    assert_true(open_as(0, 256).lost);
    while (rebuild_as(0, REBUILD_LOST, &from)) {
    }
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "ix"), 1);
    buf_fini(&from);
}

/* No count says that it has a job. */
static void p2_a_topic_whose_counts_were_lost_does_not_make_room_for_another(void **state)
{
    (void)state;
    lose_the_hash_of_a_job();
    rebuild_all();
    spaces[0].topics_max = 1;
    assert_int_equal(push("u", now_us).err, ERR_TOPICS_LIMIT);
    assert_int_equal(REDIS("ZCARD", "{laterd:0}:d"), 2); /* of these one is the filler */
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        STARTED(p8_a_topic_of_a_full_redis_is_paused_and_resumed),
        STARTED(p8_a_paused_topic_of_a_full_redis_is_removed),
        STARTED(p8_buried_jobs_of_a_full_redis_are_kicked),
        STARTED(p8_reserved_jobs_of_a_full_redis_are_deleted_behind_those_of_others),
        STARTED(p8_a_full_redis_refuses_a_new_body_and_takes_a_new_time),
        STARTED(p8_a_full_redis_refuses_a_push_that_replaces_a_job),
        STARTED(p8_a_full_redis_refuses_a_push_that_makes_a_topic),
        STARTED(consumers_of_a_topic_whose_counts_were_lost_leave_marks),
        STARTED(p2_a_topic_with_a_reserved_job_does_not_make_room_for_another),
        STARTED(p2_all_reserved_jobs_of_a_topic_whose_counts_were_lost_are_counted),
        STARTED(p5_ids_are_put_back_though_the_daemon_that_began_is_killed),
        STARTED(what_was_lost_is_put_back_by_one_daemon),
        STARTED(another_takes_over_from_a_daemon_that_puts_back_nothing_more),
        STARTED(a_hash_that_is_lost_once_more_is_put_back_from_the_start),
        STARTED(p2_a_topic_whose_counts_were_lost_does_not_make_room_for_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
