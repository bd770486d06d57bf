/*
 * The scripts on a simulated Redis, one call after another, without an engine: what they do, and
 * that no call does more than its share, however much there is (sim_lua_work counts it).
 */
#include "engine/redis/script_parts.h"
#include "redis_scripts_bed.h"

/* ---- marks ---- */

/* A topic that nobody has pushed to costs nothing: its first job is announced anyway. */
static void who_waits_for_topics_that_are_not_there_leaves_nothing(void **state)
{
    char name[16];
    (void)state;
    uint64_t before = fields();
    for (unsigned i = 0; i < 500; i++) {
        (void)snprintf(name, sizeof(name), "none-%u", i);
        struct script_answer answer = reserve_as(0, name, 1, false, true);
        assert_int_equal(answer.err, ERR_EMPTY);
        assert_true(answer.marked);
    }
    const struct bytes both[] = {BYTES("none-0"), BYTES("none-1")};
    struct cmd_reserve cmd = {.topics = both, .topic_count = 2, .max = 1};
    struct script_call call = next_call();
    script_encode_reserve(&request, &spaces[0], &call, &cmd,
                          &(struct script_share){.max = 1, .mark = SCRIPT_MARK_WAIT});
    assert_true(ask(0).marked);
    assert_int_equal(fields(), before);
    (void)notices("r");
    (void)push("none-7", 1);
    assert_int_equal(notices("r0 none-7"), 1);
    (void)push("none-8", now_us + SECOND_US); /* who waits for it asks, and leaves a mark now */
    assert_int_equal(notices("r0 none-8"), 1);
    (void)push("none-8", 1);
    assert_int_equal(notices("r0 none-8"), 0);
}

/* They wait for a topic that is there. */
static struct script_answer wait_as(unsigned daemon)
{
    return reserve_as(daemon, "t", 1, false, true);
}

static void make_topic(void)
{
    (void)push("t", 1);
    assert_int_equal(reserve(0, "t", 1, false).count, 1);
}

static void each_job_is_told_to_one_daemon_in_the_order_in_which_they_wait(void **state)
{
    struct sim_redis_conn *listeners[DAEMONS];
    (void)state;
    make_topic();
    uint64_t before = fields();
    for (unsigned i = 0; i < DAEMONS; i++) {
        struct script_answer answer = wait_as(i);
        listeners[i] = listen_as(i);
        assert_true(answer.marked);
        assert_int_equal(answer.shared, i > 0);
    }
    assert_true(wait_as(1).marked); /* once more: it keeps its place */
    assert_int_equal(fields(), before + 1);
    (void)notices("r");
    for (unsigned told = 0; told < DAEMONS; told++) {
        (void)push("t", 1);
        for (unsigned i = 0; i < DAEMONS; i++)
            assert_int_equal(heard_by(listeners[i], "0 t"), i == told);
    }
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "#wt"), 0);
    (void)push("t", 1);
    assert_int_equal(notices("r0 t"), 0);
}

/* In one call of a daemon that does not wait: each is told to another one. */
static void p2_jobs_that_are_pushed_together_are_told_to_one_daemon_each(void **state)
{
    enum { PUSHES = 2 };
    struct cmd cmd = {.kind = CMD_PUSH, .push = {.topic = BYTES("t"), .due_us = 1, .ttr_us = 1}};
    struct sim_redis_conn *listeners[DAEMONS];
    struct bytes texts[PUSHES];
    struct buf pushes[PUSHES] = {0};
    (void)state;
    make_topic();
    for (unsigned i = 0; i < DAEMONS; i++) {
        listeners[i] = listen_as(i);
        (void)wait_as(i);
    }
    for (unsigned i = 0; i < PUSHES; i++) {
        struct script_call call = next_call();
        script_encode(&pushes[i], &spaces[0], &call, &cmd);
        texts[i] = buf_bytes(&pushes[i]);
    }
    script_join(&request, &spaces[0],
                &(struct script_joined){
                    .requests = texts, .pushes = PUSHES, .partitions = (uint32_t[PUSHES]){0}});
    sim_redis_input(conn, buf_bytes(&request));
    request.len = sim_redis_output(conn)->len = 0;
    for (unsigned i = 0; i < DAEMONS; i++)
        assert_int_equal(heard_by(listeners[i], "0 t"), i < PUSHES);
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "#wt"), 1); /* who is left */
    for (unsigned i = 0; i < PUSHES; i++)
        buf_fini(&pushes[i]);
}

static void a_daemon_that_nobody_hears_for_is_not_told(void **state)
{
    (void)state;
    make_topic();
    for (unsigned i = 0; i < DAEMONS; i++)
        assert_true(wait_as(i).marked);
    struct sim_redis_conn *last = listen_as(DAEMONS - 1);
    (void)push("t", 1);
    assert_int_equal(heard_by(last, "0 t"), 1);
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "#wt"), 0);
}

/* The right to publish was taken away for a while: who waits stays in the mark. */
static void p2_a_mark_outlasts_a_notice_that_redis_refused(void **state)
{
    (void)state;
    make_topic();
    struct sim_redis_conn *waits = listen_as(1);
    assert_true(wait_as(1).marked);
    sim_redis_settings(redis)->denied = " publish spublish ";
    (void)push("t", 1);
    sim_redis_settings(redis)->denied = NULL;
    assert_int_equal(heard_by(waits, "0 t"), 0);
    (void)push("t", 1);
    assert_int_equal(heard_by(waits, "0 t"), 1);
}

/* Who alone waited need not have another one told. */
static void p2_who_is_told_learns_whether_others_wait(void **state)
{
    (void)state;
    make_topic();
    struct sim_redis_conn *first = listen_as(0), *second = listen_as(1);
    (void)wait_as(0);
    (void)wait_as(1);
    (void)reserve_marking(2, "t", 1, false, SCRIPT_MARK_HINT);
    (void)push("t", 1);
    assert_int_equal(heard_by(first, "r0 t"), 1);
    (void)push("t", 1);
    assert_int_equal(heard_by(second, "r00 t"), 1);
}

static void who_was_told_and_needs_no_job_has_the_next_one_told(void **state)
{
    (void)state;
    make_topic();
    struct sim_redis_conn *first = listen_as(0), *second = listen_as(1);
    (void)wait_as(0);
    (void)wait_as(1);
    (void)push("t", 1);
    assert_int_equal(heard_by(first, "0 t"), 1);
    assert_int_equal(heard_by(second, "0 t"), 0);
    (void)reserve_marking(0, "t", 0, false, SCRIPT_PASS_ON);
    assert_int_equal(heard_by(second, "0 t"), 1);
    assert_int_equal(reserve(1, "t", 1, false).count, 1);
    (void)wait_as(1);
    (void)reserve_marking(0, "t", 0, false, SCRIPT_PASS_ON); /* there is none any more */
    assert_int_equal(heard_by(second, "0 t"), 0);
}

/* Who only looked is not woken, but learns that its knowledge is over. */
static void who_does_not_wait_is_told_by_a_hint(void **state)
{
    (void)state;
    make_topic();
    struct sim_redis_conn *waits = listen_as(0);
    assert_false(reserve_marking(1, "t", 1, false, SCRIPT_MARK_HINT).shared);
    assert_false(wait_as(0).shared);
    (void)notices("r");
    (void)push("t", 1);
    assert_int_equal(heard_by(waits, "0 t"), 1);
    assert_int_equal(notices("h0 t"), 1);
    assert_int_equal(notices("r0 t"), 0);
}

/* More than a mark has room for: when those whom it names are all told, all others are. */
static void no_daemon_is_one_too_many_to_wait(void **state)
{
    enum { MARKS = 64 };
    char name[9];
    (void)state;
    make_topic();
    struct script_space own = spaces[0];
    for (unsigned i = 0; i < MARKS + 3; i++) {
        (void)snprintf(name, sizeof(name), "d-%06u", i);
        memcpy(spaces[0].daemon, name, SCRIPT_NAME);
        assert_true(wait_as(0).marked);
    }
    spaces[0] = own;
    (void)notices("r");
    (void)push("t", 1); /* none of those who are named hears it */
    assert_int_equal(notices("r0 t"), 1);
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "#wt"), 0);
}

/* Who alone waits and pushes the job itself knows by the answer; but not if it has asked once more
 * since the push was sent, which came late: then it may have been told that there is none. */
static void p2_who_pushes_is_told_unless_its_mark_is_older_than_the_push(void **state)
{
    (void)state;
    make_topic();
    struct sim_redis_conn *waits = listen_as(0);
    (void)wait_as(0);
    (void)push("t", 1);
    assert_int_equal(heard_by(waits, "0 t"), 0);
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "#wt"), 0);
    assert_int_equal(reserve(0, "t", 1, false).count, 1);
    (void)wait_as(0);
    number -= 2; /* as if the push was made before that */
    (void)push("t", 1);
    number += 2;
    assert_int_equal(heard_by(waits, "0 t"), 1);
    assert_int_equal(reserve(0, "t", 1, false).count, 1);
    struct sim_redis_conn *other = listen_as(1);
    (void)wait_as(1);
    (void)push("t", 1);
    assert_int_equal(heard_by(other, "0 t"), 1);
}

/* ---- reserves ---- */

static void large_bodies_are_not_read_before_they_are_wanted(void **state)
{
    static char body[100 * 1024];
    struct cmd cmd = {
        .kind = CMD_PUSH,
        .push = {.topic = BYTES("t"), .ttr_us = SECOND_US, .body = bytes_of(body, sizeof(body))}};
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        struct script_call call = next_call();
        script_encode(&request, &spaces[0], &call, &cmd);
        (void)ask(0);
    }
    struct script_answer answer = reserve(0, "t", 20, false);
    assert_int_equal(answer.count, 3); /* a quarter of a megabyte */
    assert_true(answer.more);
    assert_in_range(sim_lua_bytes(), 1, 400 * 1024);
}

static void a_reserve_of_very_many_topics_is_done(void **state)
{
    static char names[2000][8];
    static struct bytes topics[2000];
    (void)state;
    for (unsigned i = 0; i < 2000; i++) {
        int len = snprintf(names[i], sizeof(names[i]), "t%u", i);
        topics[i] = bytes_of(names[i], (size_t)len);
    }
    (void)push("t1999", 1);
    (void)push("t7", 1);
    struct script_call call = next_call();
    struct cmd_reserve cmd = {.topics = topics, .topic_count = 2000, .max = 2};
    script_encode_reserve(&request, &spaces[0], &call, &cmd,
                          &(struct script_share){.max = 2, .mark = SCRIPT_MARK_WAIT});
    assert_int_equal(ask(0).count, 2);
}

static void a_due_time_that_lua_cannot_count_is_refused(void **state)
{
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.topic = BYTES("t"), .ttr_us = 1, .due_us = SCRIPT_FOREVER}};
    uint32_t partition;
    enum err err = OK;
    (void)state;
    assert_int_equal(script_route(&spaces[0], &cmd, &partition, &err), SCRIPT_REFUSED);
    assert_int_equal(err, ERR_UNSUPPORTED);
    cmd.push.due_us--;
    assert_int_equal(script_route(&spaces[0], &cmd, &partition, &err), SCRIPT_ANY);
    cmd = (struct cmd){.kind = CMD_RESCHEDULE,
                       .job = {.ref.seq = 1, .has_due = true, .due_us = INT64_MAX - 1}};
    assert_int_equal(script_route(&spaces[0], &cmd, &partition, &err), SCRIPT_REFUSED);
}

/* ---- numbers and leases ---- */

static void connect_again(void)
{
    conn = sim_redis_accept(redis);
    listener = sim_redis_accept(redis);
    load_scripts();
}

/* Redis starts again, with what it had saved or with nothing. */
static void restart(enum sim_redis_kept kept)
{
    sim_redis_restart(redis, kept);
    connect_again();
}

/* A job is pushed and reserved. Returns its number, *out_lease is its lease. */
static uint64_t cycle(uint64_t *out_lease)
{
    uint64_t seq = push("t", 1).seq;
    assert_int_equal(reserve(0, "t", 1, false).count, 1);
    *out_lease = get_u64(parts[1].at + 8 + JOB_HEAD_LEASE);
    return seq;
}

/* With many partitions, each number of one takes so many microseconds of them all: in one that is
   busy, numbers run ahead of the clock, and it does not tell any more which were given. */
static void p4_numbers_and_leases_are_not_given_again(enum sim_redis_kept kept, bool remembered)
{
    uint64_t lease, lease_before = 0, before = 0;
    script_space_fini(&spaces[0]);
    assert_int_equal(script_space_init(&spaces[0], BYTES("wide"), 256, "daemon-1"), OK);
    assert_int_equal(open_as(0, 256).err, OK);
    for (int i = 0; i < 2000; i++) {
        if (i == 1000)
            sim_redis_save(redis);
        before = cycle(&lease_before);
        now_us += 10;
    }
    assert_true((int64_t)before > now_us + SECOND_US / 2);
    restart(kept);
    spaces[0].newest[0] = remembered ? lease_before : 0;
    struct script_answer answer = open_as(0, 256);
    assert_int_equal(answer.err, OK);
    assert_true(answer.replaced || answer.state);
    assert_true(cycle(&lease) > lease_before);
    assert_true(lease > lease_before && lease % 256 == 0);
    assert_int_equal(open_as(0, 256).state, 0); /* it is the same Redis */
    uint64_t after = cycle(&lease);
    assert_int_equal(open_as(0, 256).state, 0);
    assert_int_equal(cycle(&lease), after + 512); /* nothing is left out for that */
}

static void p4_numbers_are_not_given_again_after_a_save_came_back(void **state)
{
    (void)state;
    p4_numbers_and_leases_are_not_given_again(SIM_REDIS_KEEPS_SAVED, false);
}

static void p4_numbers_are_not_given_again_while_somebody_remembers_them(void **state)
{
    (void)state;
    p4_numbers_and_leases_are_not_given_again(SIM_REDIS_KEEPS_NOTHING, true);
}

/* A replica that was behind took over, and the old master is one again before any daemon looked: it
   never ended, but has forgotten what the replica had not got. */
static void p4_leases_are_not_given_again_after_a_failover_there_and_back(void **state)
{
    uint64_t lease, lease_before = 0, before = 0;
    struct sim_redis *replica =
        sim_redis_new(&(struct sim_redis_options){.host = "10.0.0.1", .port = 7001}, now_us);
    (void)state;
    script_space_fini(&spaces[0]);
    assert_int_equal(script_space_init(&spaces[0], BYTES("wide"), 256, "daemon-1"), OK);
    assert_int_equal(open_as(0, 256).err, OK);
    sim_redis_follow(replica, redis);
    for (int i = 0; i < 2000; i++) {
        if (i == 1000) {
            sim_redis_catch_up(replica);
            sim_redis_settings(replica)->lag_us = INT64_MAX;
        }
        before = cycle(&lease_before);
        now_us += 10;
    }
    assert_true((int64_t)before > now_us + SECOND_US / 2);
    sim_redis_follow(replica, NULL);
    sim_redis_follow(redis, replica);
    sim_redis_catch_up(redis);
    sim_redis_follow(redis, NULL);
    connect_again();
    spaces[0].newest[0] = 0; /* it is another daemon that looks */
    struct script_answer answer = open_as(0, 256);
    assert_int_equal(answer.err, OK);
    assert_int_equal(answer.state, 1);
    assert_true(cycle(&lease) > before && lease > lease_before);
    sim_redis_free(replica);
}

/* Both of two servers go on from the same number, the second because it has forgotten the first
   one's time as the master: what they give differs. */
static void p4_leases_of_two_histories_differ(void **state)
{
    uint64_t leases[2];
    struct sim_redis *old = redis;
    struct sim_redis *replica =
        sim_redis_new(&(struct sim_redis_options){.host = "10.0.0.1", .port = 7001}, now_us);
    (void)state;
    sim_redis_follow(replica, redis);
    sim_redis_catch_up(replica);
    sim_redis_settings(old)->lag_us = INT64_MAX;
    for (int i = 0; i < 2; i++) {
        sim_redis_follow(i ? old : replica, NULL);
        sim_redis_follow(i ? replica : old, i ? old : replica);
        redis = i ? old : replica;
        connect_again();
        spaces[0].newest[0] = 0;
        assert_int_equal(open_as(0, 1).state, 1);
        (void)cycle(&leases[i]);
    }
    assert_true(leases[0] > leases[1] + 1000 || leases[1] > leases[0] + 1000);
    sim_redis_free(replica);
}

/* ---- what comes late ---- */

/* Bounds as a daemon gives them that knows the clock. */
static struct script_call bounded_call(uint32_t place)
{
    struct script_call call = next_call();
    call.place = place;
    call.least_us = call.queue_us = now_us - 10000;
    call.most_us = now_us + 10000;
    return call;
}

static void write_push(struct bytes id, uint32_t place)
{
    struct script_call call = bounded_call(place);
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.topic = BYTES("t"), .id = id, .ttr_us = 60 * SECOND_US}};
    script_encode(&request, &spaces[0], &call, &cmd);
}

/* `request` is lost, and sent again. `first` is then what was sent first. */
static struct script_answer lose_and_ask(struct buf *first)
{
    first->len = 0;
    buf_add_bytes(first, buf_bytes(&request));
    script_mark_again(request.at, request.len);
    return ask(0);
}

/* `first` comes by a connection that was given up. Is it refused? */
static bool is_refused_late(const struct buf *first, int64_t ahead_us)
{
    struct buf *out = sim_redis_output(conn);
    out->len = 0;
    sim_redis_settings(redis)->ahead_us = ahead_us;
    sim_redis_time(redis, now_us);
    sim_redis_input(conn, buf_bytes(first));
    sim_redis_settings(redis)->ahead_us = 0;
    assert_true(out->len > 0);
    bool refused = out->at[0] == '-';
    if (refused)
        assert_non_null(memmem(out->at, out->len, "LATERDOVER", 10));
    return refused;
}

static uint64_t jobs_given_to(unsigned daemon)
{
    return reserve(daemon, "t", 100, false).count;
}

static void p2_a_push_that_comes_behind_itself_is_one_job(void **state)
{
    static const int64_t aheads_us[] = {0, -3600 * INT64_C(1000000), 3600 * INT64_C(1000000)};
    struct buf first = {0};
    (void)state;
    (void)push("t", 1); /* the topic is known: the others are pushed the common way */
    assert_int_equal(jobs_given_to(0), 1);
    for (unsigned i = 0; i < 3; i++) {
        write_push(BYTES(""), 255);
        assert_int_equal(lose_and_ask(&first).err, OK);
        now_us += aheads_us[i] ? 1000 : 100 * 1000;
        assert_false(is_refused_late(&first, aheads_us[i]));
        assert_int_equal(jobs_given_to(0), 1);
        write_push(BYTES(""), 255); /* the place of its answer is another's */
        assert_int_equal(ask(0).err, OK);
        assert_true(is_refused_late(&first, aheads_us[i]));
        assert_int_equal(jobs_given_to(0), 1);
    }
    buf_fini(&first);
}

static void p4_a_reserve_that_comes_behind_itself_takes_nothing_more(void **state)
{
    struct bytes topic = BYTES("t");
    struct cmd_reserve cmd = {.topics = &topic, .topic_count = 1, .max = 1};
    struct buf first = {0};
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        (void)push("t", 1);
    struct script_call call = bounded_call(255);
    script_encode_reserve(&request, &spaces[0], &call, &cmd,
                          &(struct script_share){.max = 1, .mark = SCRIPT_NO_MARK});
    assert_int_equal(lose_and_ask(&first).count, 1);
    now_us += 100 * 1000;
    assert_false(is_refused_late(&first, 0));
    assert_int_equal(jobs_given_to(1), 2);
    buf_fini(&first);
}

static void p2_a_delete_that_comes_behind_itself_spares_the_next_job_of_the_id(void **state)
{
    struct cmd cmd = {.kind = CMD_DELETE, .job.ref.id = BYTES("x")};
    struct buf first = {0};
    (void)state;
    for (unsigned i = 0; i < 2; i++) { /* that waits, that is reserved */
        write_push(BYTES("x"), 254);
        assert_int_equal(ask(0).err, OK);
        struct script_call call = bounded_call(255);
        script_encode(&request, &spaces[0], &call, &cmd);
        assert_int_equal(lose_and_ask(&first).err, OK);
        now_us += 100 * 1000;
        write_push(BYTES("x"), 253);
        assert_int_equal(ask(0).err, OK);
        if (i)
            assert_int_equal(jobs_given_to(0), 1);
        assert_false(is_refused_late(&first, 0));
        call = bounded_call(252);
        script_encode(&request, &spaces[0], &call, &cmd);
        assert_int_equal(ask(0).err, OK);
    }
    buf_fini(&first);
}

static void write_on_job(enum cmd_kind kind, uint32_t place)
{
    struct script_call call = bounded_call(place);
    struct cmd cmd = {.kind = kind, .job.ref.id = BYTES("x")};
    script_encode(&request, &spaces[0], &call, &cmd);
}

/* … nor a delete that was answered that there is no such job. */
static void p2_a_delete_that_found_nothing_spares_the_next_job_of_the_id(void **state)
{
    struct buf first = {0};
    (void)state;
    write_on_job(CMD_DELETE, 255);
    assert_int_equal(lose_and_ask(&first).err, ERR_NOT_FOUND);
    now_us += 100 * 1000;
    write_push(BYTES("x"), 254);
    assert_int_equal(ask(0).err, OK);
    assert_false(is_refused_late(&first, 0));
    assert_int_equal(jobs_given_to(0), 1);
    buf_fini(&first);
}

/* … nor does a finish without a lease, which was refused, end a later reservation. */
static void p2_a_finish_that_was_refused_spares_a_later_reservation(void **state)
{
    struct cmd cmd = {.kind = CMD_FINISH, .job.ref.seq = push("t", 1).seq};
    struct buf first = {0};
    (void)state;
    struct script_call call = bounded_call(255);
    script_encode(&request, &spaces[0], &call, &cmd);
    assert_int_equal(lose_and_ask(&first).err, ERR_WRONG_STATE);
    now_us += 100 * 1000;
    assert_int_equal(jobs_given_to(0), 1);
    assert_false(is_refused_late(&first, 0));
    call = bounded_call(254);
    script_encode(&request, &spaces[0], &call, &cmd);
    assert_int_equal(ask(0).err, OK);
    buf_fini(&first);
}

static void p3_a_run_that_found_nothing_makes_no_later_job_due(void **state)
{
    struct script_call call;
    struct cmd later = {.kind = CMD_PUSH,
                        .push = {.topic = BYTES("t"), .id = BYTES("x"), .ttr_us = SECOND_US}};
    struct buf first = {0};
    (void)state;
    write_on_job(CMD_RUN, 255);
    assert_int_equal(lose_and_ask(&first).err, ERR_NOT_FOUND);
    now_us += 100 * 1000;
    later.push.due_us = now_us + 3600 * INT64_C(1000000);
    call = bounded_call(254);
    script_encode(&request, &spaces[0], &call, &later);
    assert_int_equal(ask(0).err, OK);
    assert_false(is_refused_late(&first, 0));
    assert_int_equal(jobs_given_to(0), 0);
    buf_fini(&first);
}

/* As fanout_topics.c: "p" pauses the topic "t", "u" resumes it. */
static void write_on_topic(const char *what, int64_t until_us, uint32_t place)
{
    struct script_call call = bounded_call(place);
    script_begin(&request, &spaces[0], &call, SCRIPT_TOPIC, 5);
    script_add(&request, bytes_str(what));
    script_add(&request, BYTES("t"));
    script_add_i64(&request, until_us);
    script_add_i64(&request, 100);
    script_add(&request, BYTES(""));
}

static void a_resume_that_found_no_topic_ends_no_later_pause(void **state)
{
    struct buf first = {0};
    (void)state;
    write_on_topic("u", 0, 255);
    assert_int_equal(lose_and_ask(&first).err, ERR_NOT_FOUND);
    now_us += 100 * 1000;
    write_on_topic("p", now_us + 3600 * INT64_C(1000000), 254);
    assert_int_equal(ask(0).err, OK);
    (void)push("t", 1);
    assert_false(is_refused_late(&first, 0));
    assert_int_equal(jobs_given_to(0), 0);
    buf_fini(&first);
}

static void p5_a_push_that_was_refused_is_not_done_when_it_comes_late(void **state)
{
    struct buf first = {0};
    (void)state;
    write_push(BYTES("x"), 254);
    assert_int_equal(ask(0).err, OK);
    write_push(BYTES("x"), 255);
    assert_int_equal(lose_and_ask(&first).err, ERR_EXISTS);
    write_on_job(CMD_DELETE, 253);
    assert_int_equal(ask(0).err, OK);
    now_us += 100 * 1000;
    assert_false(is_refused_late(&first, 0));
    assert_int_equal(jobs_given_to(0), 0);
    buf_fini(&first);
}

/* A push that keeps the job which is there has this job in its answer, however often it comes. */
static void a_push_that_keeps_another_job_gives_its_answer_again(void **state)
{
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.topic = BYTES("t"),
                               .id = BYTES("x"),
                               .ttr_us = SECOND_US,
                               .if_exists = IF_EXISTS_KEEP}};
    struct buf again = {0};
    (void)state;
    write_push(BYTES("x"), 254);
    uint64_t seq = ask(0).seq;
    struct script_call call = bounded_call(255);
    script_encode(&request, &spaces[0], &call, &cmd);
    script_mark_again(request.at, request.len);
    buf_add_bytes(&again, buf_bytes(&request));
    for (unsigned i = 0; i < 2; i++) {
        request.len = 0;
        buf_add_bytes(&request, buf_bytes(&again));
        assert_true(ask(0).kept);
        assert_int_equal(part_count, 2);
        assert_int_equal(__builtin_bswap64(get_u64(parts[1].at)), seq);
    }
    buf_fini(&again);
}

static void p6_a_reserve_that_found_nothing_takes_nothing_when_it_comes_late(void **state)
{
    struct bytes topic = BYTES("t");
    struct cmd_reserve cmd = {.topics = &topic, .topic_count = 1, .max = 1};
    struct buf first = {0};
    (void)state;
    (void)push("t", 1);
    assert_int_equal(jobs_given_to(0), 1);
    struct script_call call = bounded_call(255);
    script_encode_reserve(&request, &spaces[0], &call, &cmd,
                          &(struct script_share){.max = 1, .mark = SCRIPT_NO_MARK});
    assert_int_equal(lose_and_ask(&first).err, ERR_EMPTY);
    now_us += 100 * 1000;
    (void)push("t", 1);
    assert_false(is_refused_late(&first, 0));
    assert_int_equal(jobs_given_to(1), 1);
    buf_fini(&first);
}

/* ---- settings of topics ---- */

enum { CONFIGURED = 3000 };

static uint64_t configure(unsigned topic, size_t bytes)
{
    static char settings[TOPIC_SETTINGS_MAX];
    char name[16];
    memset(settings, 's', bytes);
    (void)snprintf(name, sizeof(name), "t%u", topic);
    struct script_call call = next_call();
    struct cmd cmd = {.kind = CMD_CONFIGURE_TOPIC,
                      .topic = {.topic = bytes_str(name), .settings = bytes_of(settings, bytes)}};
    script_encode(&request, &spaces[0], &call, &cmd);
    struct script_answer answer = ask(0);
    assert_int_equal(answer.err, OK);
    return answer.seq;
}

/* How many topics the calls brought: all there are (from "0"), or what changed since. */
static uint32_t read_settings(uint64_t known, bool all, unsigned *out_calls)
{
    struct script_settings page = {.more = true, .changes = known};
    struct buf from = {0};
    uint32_t count = 0;
    for (buf_add_str(&from, all ? "0" : ""), *out_calls = 0; page.more; ++*out_calls) {
        struct script_call call = next_call();
        script_encode_settings(&request, &spaces[0], &call, page.changes, buf_bytes(&from));
        (void)ask(0);
        struct script_parts said = {.at = parts, .count = part_count};
        assert_int_equal(script_read_settings(&said, all, &page), OK);
        assert_int_equal(page.err, OK);
        assert_in_range(page.count, 0, 200);
        count += page.count;
        from.len = 0;
        buf_add_bytes(&from, page.from);
    }
    buf_fini(&from);
    return count;
}

static uint64_t heartbeat_says(void)
{
    struct script_call call = next_call();
    script_encode_heartbeat(&request, &spaces[0], &call,
                            &(struct script_heartbeat){.how = SCRIPT_SERVES});
    (void)ask(0);
    return script_settings_mark(parts, part_count);
}

static void settings_of_many_topics_are_read_in_small_steps(void **state)
{
    unsigned calls;
    (void)state;
    assert_int_equal(heartbeat_says(), 0);
    most_work = 0;
    uint64_t last = 0;
    for (unsigned i = 0; i < CONFIGURED; i++) {
        uint64_t version = configure(i, i % 1000 ? 300 : TOPIC_SETTINGS_MAX);
        assert_true(version > last); /* and the clock stands still */
        last = version;
    }
    uint64_t known = heartbeat_says();
    assert_in_range(read_settings(0, true, &calls), CONFIGURED, CONFIGURED + CONFIGURED / 10);
    assert_in_range(calls, CONFIGURED / 60, CONFIGURED / 10);
    for (unsigned i = 0; i < 100; i++)
        (void)configure(i % 60, 300);
    assert_int_equal(heartbeat_says(), known + 100);
    assert_in_range(read_settings(known, false, &calls), 60, 100);
    assert_in_range(calls, 5, 10);
    assert_in_range(most_work, 1, WORK_MAX);
}

/* The hash with all names is lost, the settings are not: their topics are known again. */
static void topics_with_settings_are_put_back_from_them(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100; i++)
        (void)configure(i, 10);
    (void)REDIS("DEL", "{laterd:0}:h");
    (void)REDIS("DEL", "{laterd:0}:o");
    struct script_answer answer = open_as(0, 256);
    assert_true(answer.lost);
    rebuild_all();
    assert_int_equal(REDIS("ZLEXCOUNT", "{laterd:0}:o", "[t", "(u"), 100);
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "#ct99"), 1);
}

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        STARTED(who_waits_for_topics_that_are_not_there_leaves_nothing),
        STARTED(each_job_is_told_to_one_daemon_in_the_order_in_which_they_wait),
        STARTED(a_daemon_that_nobody_hears_for_is_not_told),
        STARTED(p2_jobs_that_are_pushed_together_are_told_to_one_daemon_each),
        STARTED(p2_a_mark_outlasts_a_notice_that_redis_refused),
        STARTED(p2_who_is_told_learns_whether_others_wait),
        STARTED(who_was_told_and_needs_no_job_has_the_next_one_told),
        STARTED(who_does_not_wait_is_told_by_a_hint),
        STARTED(no_daemon_is_one_too_many_to_wait),
        STARTED(p2_who_pushes_is_told_unless_its_mark_is_older_than_the_push),
        STARTED(large_bodies_are_not_read_before_they_are_wanted),
        STARTED(a_reserve_of_very_many_topics_is_done),
        STARTED(a_due_time_that_lua_cannot_count_is_refused),
        STARTED(p4_numbers_are_not_given_again_after_a_save_came_back),
        STARTED(p4_numbers_are_not_given_again_while_somebody_remembers_them),
        STARTED(p4_leases_are_not_given_again_after_a_failover_there_and_back),
        STARTED(p4_leases_of_two_histories_differ),
        STARTED(p2_a_push_that_comes_behind_itself_is_one_job),
        STARTED(p4_a_reserve_that_comes_behind_itself_takes_nothing_more),
        STARTED(p2_a_delete_that_comes_behind_itself_spares_the_next_job_of_the_id),
        STARTED(p2_a_delete_that_found_nothing_spares_the_next_job_of_the_id),
        STARTED(p2_a_finish_that_was_refused_spares_a_later_reservation),
        STARTED(p3_a_run_that_found_nothing_makes_no_later_job_due),
        STARTED(a_resume_that_found_no_topic_ends_no_later_pause),
        STARTED(p5_a_push_that_was_refused_is_not_done_when_it_comes_late),
        STARTED(a_push_that_keeps_another_job_gives_its_answer_again),
        STARTED(p6_a_reserve_that_found_nothing_takes_nothing_when_it_comes_late),
        cmocka_unit_test_setup_teardown(settings_of_many_topics_are_read_in_small_steps, start,
                                        stop),
        cmocka_unit_test_setup_teardown(topics_with_settings_are_put_back_from_them, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
