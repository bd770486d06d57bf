/*
 * What Redis has lost of a partition, and loses again while it is put back: the script that does so
 * (rebuild.lua), one call after another. And what a lost bucket, which nobody can put back, hides.
 */
#include "redis_scripts_bed.h"

enum {
    JOBS = 240,
    BUCKET_US = 70 * 1000, /* jobs that were pushed so long after each other are in two buckets */
    SETS = 3,
};

static const int64_t HOUR_US = 3600 * INT64_C(1000000);
static const char *const sets[SETS] = {"{laterd:0}:d", "{laterd:0}:l", "{laterd:0}:o"};

struct sizes {
    uint64_t of[SETS];
};

static struct sizes sizes_of_sets(void)
{
    struct sizes sizes;
    for (unsigned i = 0; i < SETS; i++)
        sizes.of[i] = REDIS("ZCARD", sets[i]);
    return sizes;
}

static void assert_sizes(struct sizes expected)
{
    for (unsigned i = 0; i < SETS; i++)
        assert_int_equal(REDIS("ZCARD", sets[i]), expected.of[i]);
}

static uint64_t push_for_hours(int64_t due_us)
{
    struct script_call call = next_call();
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.topic = BYTES("t"), .due_us = due_us, .ttr_us = HOUR_US}};
    script_encode(&request, &spaces[0], &call, &cmd);
    struct script_answer answer = ask(0);
    assert_int_equal(answer.err, OK);
    return answer.seq;
}

/* Jobs that are ready, reserved and delayed, as many of each. */
static struct sizes push_jobs(int64_t apart_us)
{
    for (unsigned i = 0; i < JOBS; i++) {
        (void)push_for_hours(i % 3 ? 1 : now_us + HOUR_US);
        if (i % 3 == 2)
            assert_int_equal(reserve(0, "t", 1, false).count, 1);
        now_us += apart_us;
    }
    assert_int_equal(open_as(1, 256).err, OK);
    struct sizes sizes = sizes_of_sets();
    assert_int_equal(sizes.of[1], JOBS / 3 + 1); /* and the filler */
    return sizes;
}

static bool promote_says_lost(void)
{
    struct script_call call = next_call();
    script_encode_promote(&request, &spaces[1], &call, 0, false);
    return ask(0).lost;
}

static bool rebuild_lost(unsigned daemon)
{
    struct buf from = {0};
    buf_add_str(&from, "0"); /* Redis knows where to continue */
    bool more = rebuild_as(daemon, REBUILD_LOST, &from);
    buf_fini(&from);
    return more;
}

/* Until all is put back: in how many calls. */
static unsigned rebuild_the_rest(unsigned daemon)
{
    unsigned calls = 1;
    while (rebuild_lost(daemon))
        calls++;
    return calls;
}

static unsigned calls_for(const char *set)
{
    (void)REDIS("DEL", set);
    return rebuild_the_rest(0);
}

static void assert_whole(struct sizes expected)
{
    assert_sizes(expected); /* without what said that they were being put back */
    assert_false(promote_says_lost());
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "f"), 0);
}

/* Whichever was lost first, and whichever then: at first, in the middle, and when only the last
 * call is left. */
static void p2_a_set_that_is_lost_again_while_it_is_put_back_is_put_back_whole(void **state)
{
    (void)state;
    struct sizes before = push_jobs(BUCKET_US);
    for (unsigned i = 0; i < 3 * SETS * SETS; i++) {
        unsigned calls = calls_for(sets[i % SETS]);
        assert_whole(before);
        unsigned done = i / SETS / SETS == 0 ? 1 : i / SETS / SETS == 1 ? calls / 2 : calls - 1;
        (void)REDIS("DEL", sets[i % SETS]);
        for (unsigned n = 0; n < done; n++)
            assert_true(rebuild_lost(0));
        (void)REDIS("DEL", sets[i / SETS % SETS]);
        assert_in_range(rebuild_the_rest(0), calls, calls + 3); /* once more, from the start */
        assert_whole(before);
    }
    assert_in_range(most_work, 1, WORK_MAX);
}

/* What is already put back by one need not be put back by the other. */
static void who_takes_over_continues_where_the_other_one_stopped(void **state)
{
    (void)state;
    struct sizes before = push_jobs(BUCKET_US);
    unsigned calls = calls_for(sets[2]), done = calls / 2;
    (void)REDIS("DEL", sets[2]);
    for (unsigned n = 0; n < done; n++)
        assert_true(rebuild_lost(0));
    now_us += 2 * SECOND_US + 1;
    assert_in_range(rebuild_the_rest(1), 1, calls - done);
    assert_whole(before);
}

/* Whoever does something has lost its turn before it can do more: else they would begin again and
 * again. */
static void daemons_that_are_slow_put_back_all_the_same(void **state)
{
    (void)state;
    struct sizes before = push_jobs(BUCKET_US);
    unsigned most = calls_for(sets[2]), calls = 1;
    (void)REDIS("DEL", sets[2]);
    for (; rebuild_lost(calls % 2); calls++) {
        now_us += 2 * SECOND_US + 1;
        assert_in_range(calls, 1, most);
    }
    assert_whole(before);
}

static void restart(void)
{
    sim_redis_restart(redis, SIM_REDIS_KEEPS_ALL);
    conn = sim_redis_accept(redis);
    listener = sim_redis_accept(redis);
    load_scripts();
    assert_int_equal(open_as(0, 256).err, OK);
}

/* All jobs are in few buckets. The new server's HSCAN has another order, so that what the old one
 * has not returned may be before the cursor. */
static void p2_a_cursor_of_before_redis_was_started_again_is_not_used(void **state)
{
    (void)state;
    struct sizes before = push_jobs(0);
    unsigned calls = calls_for(sets[2]);
    for (unsigned done = 1; done < calls; done++) {
        (void)REDIS("DEL", sets[2]);
        for (unsigned n = 0; n < done; n++)
            assert_true(rebuild_lost(0));
        restart();
        (void)rebuild_the_rest(0);
        assert_whole(before);
    }
}

/* It looks at all jobs because a script was stopped halfway. */
static void p2_who_looks_at_all_jobs_hides_no_lost_set(void **state)
{
    struct buf from = {0};
    (void)state;
    struct sizes before = push_jobs(BUCKET_US);
    buf_add_str(&from, "0");
    assert_true(rebuild_some(&from));
    for (unsigned n = 0; n < 5; n++)
        assert_true(rebuild_some(&from));
    (void)REDIS("DEL", sets[2]);
    bool lost = false;
    for (bool more = true; more;) {
        struct script_call call = next_call();
        script_encode_rebuild(&request, &spaces[0], &call, buf_bytes(&from), REBUILD_ALL);
        struct script_answer answer = ask(0);
        more = answer.more;
        lost = answer.lost;
        from.len = 0;
        buf_add_bytes(&from, parts[1]);
    }
    buf_fini(&from);
    assert_true(lost);
    assert_true(promote_says_lost());
    (void)rebuild_the_rest(0);
    assert_whole(before);
}

/* Without jobs: a mark is no job, and nothing is due when it is. */
static void nobody_sees_what_says_that_a_set_is_being_put_back(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SETS; i++)
        (void)REDIS("DEL", sets[i]);
    assert_true(rebuild_lost(0));
    for (unsigned i = 0; i < SETS; i++)
        assert_int_equal(REDIS("ZCARD", sets[i]), i == 2 ? 3 : 1); /* :o has this daemon, and 'd' */
    struct script_call call = next_call();
    script_encode_promote(&request, &spaces[0], &call, 100, true);
    struct script_answer answer = ask(0);
    assert_int_equal(answer.count, 0);
    assert_false(answer.more);
    assert_int_equal(answer.next_us, INT64_MAX);
    assert_int_equal(reserve(0, "t", 1, false).count, 0);
    (void)rebuild_the_rest(0);
}

static bool rebuild_is_closed(void)
{
    struct buf *out = sim_redis_output(conn);
    struct script_call call = next_call();
    script_encode_rebuild(&request, &spaces[0], &call, BYTES("0"), REBUILD_LOST);
    out->len = 0;
    sim_redis_input(conn, buf_bytes(&request));
    request.len = 0;
    return bytes_starts(buf_bytes(out), BYTES("-LATERDCLOSED"));
}

/* Without it the script would stop halfway: the partition is opened, and all begins again. */
static void the_hash_may_be_lost_while_a_set_is_put_back(void **state)
{
    (void)state;
    struct sizes before = push_jobs(BUCKET_US);
    (void)REDIS("DEL", sets[2]);
    for (unsigned n = 0; n < 5; n++)
        assert_true(rebuild_lost(0));
    (void)REDIS("DEL", "{laterd:0}:h");
    assert_true(rebuild_is_closed());
    assert_int_equal(open_as(1, 256).err, OK);
    assert_true(open_as(0, 256).lost);
    (void)rebuild_the_rest(0);
    assert_whole(before);
}

static uint64_t counted(void)
{
    return REDIS("HINCRBY", "{laterd:0}:h", "#ht", "0");
}

static void finish(uint64_t seq)
{
    struct script_call call = next_call();
    script_encode(&request, &spaces[0], &call,
                  &(struct cmd){.kind = CMD_FINISH, .job = {.ref.seq = seq}});
    assert_int_equal(ask(0).err, OK);
}

/* One call cannot go through them. Until it can, at most those are missing in the count that ended
 * before they were found; none is counted twice. */
static void p2_more_reserved_jobs_than_one_call_can_count_are_counted(void **state)
{
    enum { MANY = 4600, ENDED = 30, LATER = 60, LEFT = 1000 };
    static uint64_t seqs[MANY];
    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        seqs[i] = push_for_hours(1);
        assert_int_equal(reserve(0, "t", 1, false).count, 1);
        now_us += 4 * 1000;
    }
    (void)REDIS("DEL", "{laterd:0}:h");
    assert_true(open_as(0, 256).lost);
    assert_int_equal(counted(), 0);
    for (unsigned i = 0; i < LATER; i++)
        (void)push_for_hours(1);
    assert_int_equal(reserve(0, "t", LATER, false).count, LATER);
    for (unsigned i = 0; i < ENDED; i++)
        finish(seqs[i]);
    for (unsigned i = 0; i < 100; i++)
        assert_true(rebuild_lost(0));
    (void)REDIS("DEL", sets[0]); /* the same jobs are found twice */
    (void)rebuild_the_rest(0);
    uint64_t all = MANY + LATER - ENDED;
    assert_in_range(counted(), all - ENDED - 60, all);
    for (unsigned i = ENDED; i < MANY - LEFT; i++)
        finish(seqs[i]);
    assert_false(promote_says_lost());
    assert_int_equal(counted(), LEFT + LATER);
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "z"), 0);
    assert_in_range(most_work, 1, WORK_MAX);
}

static enum err push_one(uint64_t *out_seq)
{
    struct script_answer answer = push("t", 1);
    *out_seq = answer.seq;
    return answer.err;
}

/* They are in no count of jobs that were pushed, and counted when they end. */
static void p2_the_end_of_jobs_that_were_put_back_does_not_end_all_pushes(void **state)
{
    enum { MOST = 20, BEFORE = 15 };
    uint64_t before[BEFORE], seq;
    (void)state;
    spaces[0].jobs_max = MOST;
    for (unsigned i = 0; i < BEFORE; i++)
        assert_int_equal(push_one(&before[i]), OK);
    (void)REDIS("DEL", "{laterd:0}:h");
    assert_true(open_as(0, 256).lost);
    (void)rebuild_the_rest(0);
    assert_int_equal(reserve(0, "t", BEFORE, false).count, BEFORE);
    for (unsigned i = 0; i < BEFORE; i++)
        finish(before[i]);
    for (unsigned i = 0; i < 3 * MOST; i++) {
        assert_int_equal(push_one(&seq), OK);
        assert_int_equal(reserve(0, "t", 1, false).count, 1);
        finish(seq);
    }
    for (unsigned i = 0; i < MOST; i++)
        assert_int_equal(push_one(&seq), OK);
    assert_int_equal(push_one(&seq), ERR_JOBS_LIMIT);
}

/* They are, for minutes after Redis has started; the daemon that opens the partition then may never
 * have seen one. A number that is given twice would overwrite a job. */
static void p2_numbers_ahead_of_the_clock_are_given_once_though_the_hash_is_lost(void **state)
{
    (void)state;
    restart();
    uint64_t older = push_for_hours(1);
    now_us += SECOND_US;
    assert_true(older > (uint64_t)now_us);
    (void)REDIS("DEL", "{laterd:0}:h");
    assert_true(open_as(0, 256).lost);
    assert_true(push_for_hours(1) > older);
    for (unsigned i = 0; i < 3; i++) { /* they are further ahead than one start makes them */
        now_us += SECOND_US;
        restart();
    }
    older = push_for_hours(1);
    (void)REDIS("DEL", "{laterd:0}:h");
    assert_true(open_as(0, 256).lost);
    (void)rebuild_the_rest(0);
    assert_true(push_for_hours(1) > older);
}

static uint64_t push_named(const char *id, int64_t ttr_us, uint32_t body_bytes)
{
    static char body[2000];
    struct script_call call = next_call();
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.id = bytes_str(id),
                               .topic = BYTES("t"),
                               .due_us = 1,
                               .ttr_us = ttr_us,
                               .retry_us = &HOUR_US,
                               .retry_count = 1,
                               .body = bytes_of(body, body_bytes)}};
    script_encode(&request, &spaces[0], &call, &cmd);
    struct script_answer answer = ask(0);
    assert_int_equal(answer.err, OK);
    assert_false(answer.kept || answer.replaced);
    return answer.seq;
}

/* Of the only job that is ready. */
static struct script_head reserve_one(struct arena *arena)
{
    struct script_head head;
    assert_int_equal(reserve(0, "t", 1, false).count, 1);
    assert_int_equal(script_read_head(&spaces[0], parts[1], true, now_us, arena, &head), OK);
    assert_int_equal(script_read_content(&head), OK);
    return head;
}

/* Consumers end jobs by the id that they were shown: each of the two can be ended, in any order. A
 * job's record has one of three forms. */
static void an_id_that_is_used_again_before_it_was_put_back_names_one_job(void **state)
{
    static const struct {
        int64_t ttr_us;
        uint32_t body_bytes;
    } forms[] = {{SECOND_US, 10}, {SECOND_US + 1, 10}, {SECOND_US, 2000}};
    struct arena arena = {0};
    (void)state;
    for (unsigned i = 0; i < 2 * sizeof(forms) / sizeof(forms[0]); i++) {
        uint64_t seqs[2], older;
        unsigned form = i / 2, newer_first = i % 2;
        older = push_named("x", forms[form].ttr_us, forms[form].body_bytes);
        (void)REDIS("DEL", "{laterd:0}:h");
        now_us += SECOND_US;
        assert_true(open_as(0, 256).lost);
        assert_true(push_named("x", HOUR_US, 0) > older);
        (void)rebuild_the_rest(0);
        rebuild_all(); /* once more, which changes nothing */
        struct script_head heads[2] = {reserve_one(&arena)};
        heads[1] = reserve_one(&arena);
        assert_int_equal(heads[0].view.ref.seq, older);
        assert_int_equal(heads[0].view.ref.id.len, 0);
        assert_int_equal(heads[0].view.body_len, forms[form].body_bytes);
        assert_int_equal(heads[0].view.ttr_us, forms[form].ttr_us);
        assert_int_equal(heads[0].view.retry_us[0], HOUR_US);
        for (unsigned n = 0; n < 2; n++) {
            const struct job_view *job = &heads[n ^ newer_first].view;
            struct script_call call = next_call();
            struct cmd cmd = {.kind = CMD_FINISH, .job = {.ref = job->ref, .lease = job->lease}};
            if (job->ref.seq != older)
                cmd.job.ref = (struct job_ref){.id = BYTES("x")};
            script_encode(&request, &spaces[0], &call, &cmd);
            struct script_answer answer = ask(0);
            assert_int_equal(answer.err, OK);
            seqs[n] = answer.seq;
        }
        assert_int_not_equal(seqs[0], seqs[1]);
        assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "ix"), 0);
    }
    arena_fini(&arena);
}

/* Whether the older one is reserved, which end.lua ends by itself, or ready. */
static void an_end_by_number_takes_the_id_from_no_newer_job(void **state)
{
    struct arena arena = {0};
    (void)state;
    for (unsigned reserved = 0; reserved < 2; reserved++) {
        struct script_head head = {.view = {.lease = 0}};
        uint64_t older = push_named("x", HOUR_US, 10);
        (void)REDIS("DEL", "{laterd:0}:h");
        now_us += SECOND_US;
        assert_true(open_as(0, 256).lost);
        uint64_t newer = push_named("x", HOUR_US, 10);
        if (reserved)
            head = reserve_one(&arena);
        struct cmd cmd = {.kind = CMD_DELETE,
                          .job = {.ref = {.seq = older}, .lease = head.view.lease}};
        struct script_call call = next_call();
        script_encode(&request, &spaces[0], &call, &cmd);
        assert_int_equal(ask(0).seq, older);
        cmd.job = (struct cmd_job){.ref = {.id = BYTES("x")}};
        call = next_call();
        script_encode(&request, &spaces[0], &call, &cmd);
        assert_int_equal(ask(0).seq, newer);
        assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "ix"), 0);
        (void)rebuild_the_rest(0);
    }
    arena_fini(&arena);
}

static enum err pause_or_resume(const char *what, const char *topic, int64_t until_us)
{
    struct script_call call = next_call();
    script_begin(&request, &spaces[0], &call, SCRIPT_TOPIC, 5);
    script_add(&request, bytes_str(what));
    script_add(&request, bytes_str(topic));
    script_add_i64(&request, until_us);
    script_add_i64(&request, 0);
    script_add(&request, BYTES(""));
    return ask(0).err;
}

/* Else nobody could end the pause before the topic's first job, which it then holds. */
static void a_topic_that_was_made_by_its_pause_is_put_back(void **state)
{
    (void)state;
    assert_int_equal(pause_or_resume("p", "later", now_us + HOUR_US), OK);
    struct sizes before = push_jobs(BUCKET_US);
    (void)REDIS("DEL", sets[2]);
    (void)rebuild_the_rest(0);
    assert_whole(before);
    assert_int_equal(pause_or_resume("u", "never", 0), ERR_NOT_FOUND);
    assert_int_equal(pause_or_resume("u", "later", 0), OK);
}

/* ---- a bucket that is lost ---- */

/* The first jobs of topic "a", of which only the places are left; then one that is whole. */
static void push_behind_lost_ones(unsigned lost)
{
    char key[32];
    uint64_t seq = 0;
    for (unsigned i = 0; i < lost; i++)
        seq = push("a", 1).seq;
    (void)snprintf(key, sizeof(key), "{laterd:0}:j%u", (unsigned)(seq >> 16 & 255));
    assert_int_equal(REDIS("DEL", key), 1);
    assert_int_equal(open_as(1, 256).err, OK); /* makes the bucket again */
    now_us += BUCKET_US;
    (void)push("a", 1);
}

/* One job of the topics "a" and "b", or of a listed first. */
static struct script_answer reserve_of_both(bool listed)
{
    struct bytes names[] = {BYTES("a"), BYTES("b")};
    struct script_call call = next_call();
    struct cmd_reserve cmd = {.topics = names, .topic_count = 2, .max = 1, .listed_order = listed};
    script_encode_reserve(&request, &spaces[0], &call, &cmd,
                          &(struct script_share){.max = 1, .mark = SCRIPT_MARK_WAIT});
    return ask(0);
}

/* What the last reserve has left in the topic at `place` of its list. */
static enum script_first left_in(uint32_t place)
{
    const struct script_answer answer = {.firsts = parts[part_count - 1]};
    struct script_rank rank;
    uint32_t close_jobs;
    return script_first(&spaces[0], 0, &answer, place, &rank, &close_jobs);
}

/* Whoever is told that a topic has no job does not ask again until one is pushed. */
static void p2_jobs_behind_lost_ones_are_not_hidden(void **state)
{
    unsigned calls = 0;
    (void)state;
    push_behind_lost_ones(40);
    struct script_answer answer = reserve_as(0, "a", 1, false, true);
    for (; answer.count == 0 && calls < 40; calls++) {
        assert_int_equal(left_in(0), SCRIPT_FIRST);
        assert_true(answer.more);
        answer = reserve_as(0, "a", 1, false, true);
    }
    assert_int_equal(answer.count, 1);
    assert_in_range(calls, 1, 10);
    (void)reserve_as(0, "a", 1, false, true);
    assert_int_equal(left_in(0), SCRIPT_NONE);
}

/* Nor by what the other topic has: jobs that are handed out instead, or, while it is paused, none.
 */
static void p2_jobs_behind_lost_ones_are_not_hidden_by_another_topic(void **state)
{
    (void)state;
    push_behind_lost_ones(40);
    (void)push("b", 1), (void)push("b", 1);
    assert_int_equal(reserve_of_both(false).count, 1);
    assert_int_equal(left_in(0), SCRIPT_FIRST);
    assert_int_equal(left_in(1), SCRIPT_FIRST);
    assert_int_equal(reserve_of_both(true).count, 0);
    assert_int_equal(left_in(0), SCRIPT_FIRST);
    assert_int_equal(left_in(1), SCRIPT_UNSEEN);
    assert_int_equal(pause_or_resume("p", "b", now_us + HOUR_US), OK);
    assert_int_equal(reserve_of_both(false).count, 0);
    assert_int_equal(left_in(0), SCRIPT_FIRST);
    assert_int_equal(left_in(1), SCRIPT_NONE);
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        STARTED(p2_a_set_that_is_lost_again_while_it_is_put_back_is_put_back_whole),
        STARTED(who_takes_over_continues_where_the_other_one_stopped),
        STARTED(daemons_that_are_slow_put_back_all_the_same),
        STARTED(p2_a_cursor_of_before_redis_was_started_again_is_not_used),
        STARTED(p2_who_looks_at_all_jobs_hides_no_lost_set),
        STARTED(nobody_sees_what_says_that_a_set_is_being_put_back),
        STARTED(the_hash_may_be_lost_while_a_set_is_put_back),
        STARTED(p2_more_reserved_jobs_than_one_call_can_count_are_counted),
        STARTED(p2_the_end_of_jobs_that_were_put_back_does_not_end_all_pushes),
        STARTED(p2_numbers_ahead_of_the_clock_are_given_once_though_the_hash_is_lost),
        STARTED(an_id_that_is_used_again_before_it_was_put_back_names_one_job),
        STARTED(an_end_by_number_takes_the_id_from_no_newer_job),
        STARTED(a_topic_that_was_made_by_its_pause_is_put_back),
        STARTED(p2_jobs_behind_lost_ones_are_not_hidden),
        STARTED(p2_jobs_behind_lost_ones_are_not_hidden_by_another_topic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
