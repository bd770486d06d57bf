/*
 * The scripts on a simulated Redis, one call after another, without an engine: what they do, and
 * that no call does more than its share, however much there is (sim_lua_work counts it).
 */
#include <stdio.h>

#include "../engine/redis_scripted.h"
#include "sim/redis/lua_run.h"
#include "sim/redis/server.h"

enum {
    DAEMONS = 3,
    PARTS_MAX = 4096,
    SECOND_US = 1000000,
    /* Of any call, in words and parts. Redis takes 0.2 to 0.5 us for one: 2 ms at most. */
    WORK_MAX = 4000,
};

static const int64_t EPOCH_US = INT64_C(1700000000) * SECOND_US;

static struct sim_redis *redis;
static struct sim_redis_conn *conn, *listener;
static struct script_space spaces[DAEMONS];
static struct buf request;
static struct bytes parts[PARTS_MAX]; /* of the last answer */
static uint32_t part_count;
static uint64_t number, most_work;
static int64_t now_us;

/* ---- asking ---- */

static struct bytes take_part(struct bytes *in)
{
    uint64_t len = take_count(in, '$');
    struct bytes part = bytes_of(in->at, len);
    *in = bytes_of(in->at + len + 2, in->len - len - 2);
    return part;
}

/* Sends `request`; the answer's parts are good until the next one. */
static struct script_answer ask(uint32_t partition)
{
    struct buf *out = sim_redis_output(conn);
    struct script_answer answer;
    out->len = 0;
    sim_redis_time(redis, now_us);
    sim_redis_input(conn, buf_bytes(&request));
    request.len = 0;
    struct bytes in = buf_bytes(out);
    assert_true(in.len > 0);
    if (in.at[0] == '-')
        fail_msg("%.*s", (int)in.len, in.at);
    part_count = in.at[0] == '$' ? 1 : (uint32_t)take_count(&in, '*');
    assert_in_range(part_count, 1, PARTS_MAX);
    for (uint32_t i = 0; i < part_count; i++)
        parts[i] = take_part(&in);
    struct script_parts said = {.partition = partition, .at = parts, .count = part_count};
    assert_int_equal(script_read_answer(&spaces[0], &said, &answer), OK);
    if (sim_lua_work() > most_work)
        most_work = sim_lua_work();
    return answer;
}

static struct script_call next_call(void)
{
    number++;
    return (struct script_call){
        .place = (uint32_t)(number % 256), .number = number, .now_us = now_us};
}

static struct script_answer open_as(unsigned daemon, uint32_t places)
{
    struct script_call call = next_call();
    script_ask_open(&request, &spaces[daemon], &call, places, 0);
    return ask(0);
}

static struct script_answer push(const char *topic, int64_t due_us)
{
    struct script_call call = next_call();
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.topic = bytes_str(topic),
                               .due_us = due_us,
                               .ttr_us = SECOND_US,
                               .body = BYTES("body")}};
    script_ask(&request, &spaces[0], &call, &cmd);
    return ask(0);
}

static struct script_answer reserve_marking(unsigned daemon, const char *topic, uint32_t max,
                                            bool bound, enum script_mark mark)
{
    struct bytes name = bytes_str(topic);
    struct script_call call = next_call();
    struct cmd_reserve cmd = {.topics = &name, .topic_count = 1, .max = max, .bound = bound};
    script_ask_reserve(&request, &spaces[daemon], &call, &cmd, max, mark);
    return ask(0);
}

static struct script_answer reserve_as(unsigned daemon, const char *topic, uint32_t max, bool bound,
                                       bool wait)
{
    return reserve_marking(daemon, topic, max, bound, wait ? SCRIPT_MARK_WAIT : SCRIPT_NO_MARK);
}

static struct script_answer reserve(unsigned daemon, const char *topic, uint32_t max, bool bound)
{
    return reserve_as(daemon, topic, max, bound, false);
}

/* A command as a client of Redis sends it; its answer, if that is a number. */
static uint64_t redis_says(const char *const *words)
{
    struct buf *out = sim_redis_output(conn);
    uint32_t count = 0;
    while (words[count])
        count++;
    request.len = 0;
    buf_addf(&request, "*%u\r\n", count);
    for (uint32_t i = 0; i < count; i++)
        script_add(&request, bytes_str(words[i]));
    out->len = 0;
    sim_redis_input(conn, buf_bytes(&request));
    request.len = 0;
    struct bytes in = buf_bytes(out);
    return in.len && in.at[0] == ':' ? take_count(&in, ':') : 0;
}

#define REDIS(...) redis_says((const char *const[]){__VA_ARGS__, NULL})

static uint64_t fields(void)
{
    return REDIS("HLEN", "{laterd:0}:h");
}

/* How many notices have come that say `words`, since the last time. */
static unsigned heard_by(struct sim_redis_conn *who, const char *words)
{
    struct buf *out = sim_redis_output(who);
    struct bytes in = buf_bytes(out);
    size_t len = strlen(words);
    const char *at;
    unsigned count = 0;
    for (; (at = memmem(in.at, in.len, words, len)); count++)
        in = bytes_of(at + len, in.len - (size_t)(at - in.at) - len);
    out->len = 0;
    return count;
}

static unsigned notices(const char *words)
{
    return heard_by(listener, words);
}

/* A connection that hears what is told to the daemon alone. */
static struct sim_redis_conn *listen_as(unsigned daemon)
{
    char room[SCRIPT_CHANNEL_MAX];
    struct sim_redis_conn *who = sim_redis_accept(redis);
    struct buf words = {0};
    buf_addf(&words, "*2\r\n$10\r\nSSUBSCRIBE\r\n");
    script_add(&words, script_channel(&spaces[daemon], 0, true, room));
    sim_redis_input(who, buf_bytes(&words));
    buf_fini(&words);
    sim_redis_output(who)->len = 0;
    return who;
}

static void load_scripts(void)
{
    for (enum script_kind kind = 0; kind < SCRIPT_COUNT; kind++) {
        buf_addf(&request, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n");
        script_add(&request, script_text(&spaces[0], kind));
    }
    sim_redis_input(conn, buf_bytes(&request));
    request.len = 0;
}

static int start(void **state)
{
    (void)state;
    now_us = EPOCH_US;
    number = most_work = 0;
    redis = sim_redis_new(&(struct sim_redis_options){.host = "10.0.0.1", .port = 7000}, now_us);
    conn = sim_redis_accept(redis);
    listener = sim_redis_accept(redis);
    sim_redis_input(listener, BYTES("*2\r\n$10\r\nSSUBSCRIBE\r\n$17\r\n{laterd:0}:notice\r\n"));
    for (unsigned i = 0; i < DAEMONS; i++) {
        char name[9] = "daemon-0";
        name[7] = (char)('1' + i);
        if (script_space_init(&spaces[i], BYTES("laterd"), 1, name))
            return -1;
    }
    load_scripts();
    assert_int_equal(open_as(0, 256).err, OK);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (unsigned i = 0; i < DAEMONS; i++)
        script_space_fini(&spaces[i]);
    buf_fini(&request);
    sim_redis_free(redis);
    return 0;
}

/* ---- daemons that are dead ---- */

/* All who are not named. How many calls it took. */
static unsigned forget_all_but(struct bytes living)
{
    struct script_answer answer = {.more = true};
    unsigned calls = 0;
    while (answer.more) {
        struct script_call call = next_call();
        script_ask_reap_dead(
            &request, &spaces[0], &call,
            &(struct script_reap){
                .living = living, .young_us = 5 * SECOND_US, .from = answer.seq, .max = 20});
        answer = ask(0);
        assert_in_range(++calls, 1, 100000);
    }
    return calls;
}

static unsigned forget_others(void)
{
    return forget_all_but(bytes_of(spaces[0].daemon, SCRIPT_NAME));
}

static void many_dead_daemons_are_forgotten_in_small_steps(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 300; i++)
        (void)push("t", 1);
    uint64_t before = fields();
    for (unsigned i = 0; i < 300; i++) {
        memcpy(spaces[1].daemon, "dead-", 5);
        (void)snprintf(spaces[1].daemon + 5, 3, "%02x", i % 256);
        spaces[1].daemon[7] = (char)(i / 256);
        assert_int_equal(open_as(1, i == 7 ? 4096 : 256).count, 1);
        assert_int_equal(reserve(1, "t", 1, true).count, 1);
    }
    now_us += 6 * SECOND_US;
    (void)open_as(0, 256);
    most_work = 0;
    assert_in_range(forget_others(), 300 / 20, 300);
    assert_in_range(most_work, 1, WORK_MAX);
    /* The topic has two counters more, of jobs that are and were reserved; the answers that the
       first daemon's pushes left are still there. */
    assert_int_equal(fields(), before + 2);
    assert_int_equal(reserve(0, "t", 300, false).count, 300);
}

static void a_ring_is_forgotten_as_far_as_it_was_announced(void **state)
{
    (void)state;
    uint64_t before = fields();
    (void)open_as(1, 4096);
    struct script_call call = next_call();
    struct cmd cmd = {.kind = CMD_PUSH, .push = {.topic = BYTES("t"), .ttr_us = SECOND_US}};
    call.place = SCRIPT_RING - 1;
    script_ask(&request, &spaces[1], &call, &cmd);
    (void)ask(0);
    now_us += 6 * SECOND_US;
    (void)forget_others();
    assert_int_equal(fields(), before + 3); /* the job, its content, its topic's counter */
}

/* Who left word a moment ago is left alone, and said when it may be looked at again. */
/* Answers that were kept for it are gone: what it sends again would be done once more. */
static void one_that_comes_back_while_it_is_forgotten_is_told_so(void **state)
{
    struct script_call call;
    (void)state;
    (void)open_as(1, 4096);
    now_us += 10 * SECOND_US;
    (void)open_as(1, 4096);
    assert_int_equal(open_as(1, 4096).count, 0); /* it is known */
    now_us += 10 * SECOND_US;
    call = next_call();
    script_ask_reap_dead(
        &request, &spaces[0], &call,
        &(struct script_reap){.living = bytes_of(spaces[0].daemon, SCRIPT_NAME), .max = 20});
    assert_true(ask(0).more);
    assert_int_equal(open_as(1, 4096).count, 1);
    assert_int_equal(open_as(1, 4096).count, 0);
    (void)forget_others(); /* it is young again */
    assert_int_equal(open_as(1, 4096).count, 0);
}

static void the_living_and_the_young_do_not_hide_the_dead(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 200; i++) { /* older ones, which come first by name */
        (void)snprintf(spaces[1].daemon, SCRIPT_NAME, "a-%03u", i);
        (void)open_as(1, 256);
    }
    now_us += 6 * SECOND_US;
    for (unsigned i = 0; i < 199; i++) {
        (void)snprintf(spaces[1].daemon, SCRIPT_NAME, "a-%03u", i);
        (void)open_as(1, 256);
    }
    uint64_t before = fields();
    (void)forget_others();
    assert_int_equal(fields(), before - 1);
}

/* What a connection holds goes back when its daemon is dead: not while that lives, nor while it has
   just come, when others may not have heard of it. */
static void p4_nothing_is_taken_from_a_daemon_that_lives_or_has_just_come(void **state)
{
    char living[2 * SCRIPT_NAME];
    (void)state;
    (void)push("t", 1);
    (void)open_as(1, 256);
    assert_int_equal(reserve(1, "t", 1, true).count, 1);
    now_us += SECOND_US / 2; /* of its ttr of a second */
    (void)forget_others();
    assert_int_equal(reserve(0, "t", 1, true).count, 0);
    now_us -= SECOND_US / 2;
    (void)open_as(2, 256);
    now_us += 6 * SECOND_US;
    (void)open_as(0, 256);
    (void)push("u", 1);
    assert_int_equal(reserve(1, "u", 1, true).count, 1);
    memcpy(living, spaces[0].daemon, SCRIPT_NAME);
    memcpy(living + SCRIPT_NAME, spaces[1].daemon, SCRIPT_NAME);
    uint64_t before = fields();
    (void)forget_all_but(bytes_of(living, sizeof(living)));
    assert_int_equal(fields(), before - 1); /* the third one is dead */
    assert_int_equal(reserve(0, "u", 1, true).count, 0);
    (void)forget_others();
    assert_int_equal(reserve(0, "u", 1, true).count, 1);
}

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
            assert_int_equal(heard_by(listeners[i], "r0 t"), i == told);
    }
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "#wt"), 0);
    (void)push("t", 1);
    assert_int_equal(notices("r0 t"), 0);
}

static void a_daemon_that_nobody_hears_for_is_not_told(void **state)
{
    (void)state;
    make_topic();
    for (unsigned i = 0; i < DAEMONS; i++)
        assert_true(wait_as(i).marked);
    struct sim_redis_conn *last = listen_as(DAEMONS - 1);
    (void)push("t", 1);
    assert_int_equal(heard_by(last, "r0 t"), 1);
    assert_int_equal(REDIS("HEXISTS", "{laterd:0}:h", "#wt"), 0);
}

static void who_was_told_and_needs_no_job_has_the_next_one_told(void **state)
{
    (void)state;
    make_topic();
    struct sim_redis_conn *first = listen_as(0), *second = listen_as(1);
    (void)wait_as(0);
    (void)wait_as(1);
    (void)push("t", 1);
    assert_int_equal(heard_by(first, "r0 t"), 1);
    assert_int_equal(heard_by(second, "r0 t"), 0);
    (void)reserve_marking(0, "t", 0, false, SCRIPT_PASS_ON);
    assert_int_equal(heard_by(second, "r0 t"), 1);
    assert_int_equal(reserve(1, "t", 1, false).count, 1);
    (void)wait_as(1);
    (void)reserve_marking(0, "t", 0, false, SCRIPT_PASS_ON); /* there is none any more */
    assert_int_equal(heard_by(second, "r0 t"), 0);
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
    assert_int_equal(heard_by(waits, "r0 t"), 1);
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

/* ---- what is due ---- */

static struct script_answer promote(void)
{
    struct script_call call = next_call();
    script_ask_promote(&request, &spaces[0], &call, 200);
    return ask(0);
}

/* Two topics have far more at one instant than a call makes ready; others have a job then, before,
 * between and behind these. */
static void p3_a_burst_of_one_topic_makes_no_other_late(void **state)
{
    static const char *const others[] = {"a", "cc", "zzzz"};
    int64_t due_us = now_us + SECOND_US;
    (void)state;
    for (unsigned i = 0; i < 4000; i++) {
        (void)push("b", due_us);
        (void)push("ddd", due_us);
    }
    for (unsigned i = 0; i < 3; i++)
        (void)push(others[i], due_us);
    now_us = due_us + 10;
    most_work = 0;
    struct script_answer answer = promote();
    assert_true(answer.more);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(reserve(0, others[i], 1, false).count, 1);
    unsigned calls = 1;
    for (; answer.more; calls++)
        answer = promote();
    assert_in_range(calls, 8000 / 200, 8000 / 200 + 1); /* it loses nothing by that */
    assert_in_range(most_work, 1, WORK_MAX);
    now_us++;
    assert_int_equal(reserve(0, "b", 1000, false).count, 1000);
}

static void p3_what_is_due_behind_a_burst_is_not_late(void **state)
{
    int64_t due_us = now_us + SECOND_US;
    (void)state;
    for (unsigned i = 0; i < 4000; i++)
        (void)push("burst", due_us + i);
    (void)push("later", due_us + 4001);
    now_us = due_us + 5000;
    most_work = 0;
    assert_true(promote().more);
    assert_int_equal(reserve(0, "later", 1, false).count, 1);
    assert_in_range(most_work, 1, WORK_MAX);
}

/* What one topic has is made ready in the order in which it is due. */
static void a_topics_jobs_become_ready_in_their_order(void **state)
{
    int64_t due_us = now_us + SECOND_US;
    (void)state;
    for (int64_t i = 0; i < 600; i++) {
        (void)push("t", due_us + i / 3);
        (void)push("u", due_us + i);
    }
    now_us = due_us + 1000;
    struct script_answer answer = {.more = true};
    int64_t last_us = 0;
    while (answer.more) {
        answer = promote();
        (void)reserve(0, "t", 1000, false);
        for (uint32_t i = 1; i + 1 < part_count; i += 2) {
            int64_t at_us = (int64_t)get_u64(parts[i].at + JOB_HEAD_DUE);
            assert_true(at_us >= last_us);
            last_us = at_us;
        }
    }
    assert_int_equal(last_us, due_us + 199);
}

static void many_leases_end_in_small_steps(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 300; i++)
        (void)push("t", 1);
    assert_int_equal(reserve(0, "t", 300, false).count, 300);
    now_us += 2 * SECOND_US;
    most_work = 0;
    unsigned calls = 1;
    while (promote().more)
        calls++;
    assert_int_equal(calls, 30);
    assert_in_range(most_work, 1, WORK_MAX / 4); /* its commands are all changes */
    assert_int_equal(reserve(0, "t", 300, false).count, 300);
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
        script_ask(&request, &spaces[0], &call, &cmd);
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
    script_ask_reserve(&request, &spaces[0], &call, &cmd, 2, SCRIPT_MARK_WAIT);
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

/* Redis starts again, with what it had saved or with nothing. */
static void restart(enum sim_redis_kept kept)
{
    sim_redis_restart(redis, kept);
    conn = sim_redis_accept(redis);
    listener = sim_redis_accept(redis);
    load_scripts();
}

/* A job is pushed and reserved. Returns its number, *out_lease is its lease. */
static uint64_t cycle(uint64_t *out_lease)
{
    uint64_t seq = push("t", 1).seq;
    assert_int_equal(reserve(0, "t", 1, false).count, 1);
    *out_lease = get_u64(parts[1].at + JOB_HEAD_LEASE);
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

int main(void)
{
#define STARTED(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        STARTED(many_dead_daemons_are_forgotten_in_small_steps),
        STARTED(a_ring_is_forgotten_as_far_as_it_was_announced),
        STARTED(one_that_comes_back_while_it_is_forgotten_is_told_so),
        STARTED(the_living_and_the_young_do_not_hide_the_dead),
        STARTED(p4_nothing_is_taken_from_a_daemon_that_lives_or_has_just_come),
        STARTED(who_waits_for_topics_that_are_not_there_leaves_nothing),
        STARTED(each_job_is_told_to_one_daemon_in_the_order_in_which_they_wait),
        STARTED(a_daemon_that_nobody_hears_for_is_not_told),
        STARTED(who_was_told_and_needs_no_job_has_the_next_one_told),
        STARTED(who_does_not_wait_is_told_by_a_hint),
        STARTED(no_daemon_is_one_too_many_to_wait),
        STARTED(p3_a_burst_of_one_topic_makes_no_other_late),
        STARTED(p3_what_is_due_behind_a_burst_is_not_late),
        STARTED(a_topics_jobs_become_ready_in_their_order),
        STARTED(many_leases_end_in_small_steps),
        STARTED(large_bodies_are_not_read_before_they_are_wanted),
        STARTED(a_reserve_of_very_many_topics_is_done),
        STARTED(a_due_time_that_lua_cannot_count_is_refused),
        STARTED(p4_numbers_are_not_given_again_after_a_save_came_back),
        STARTED(p4_numbers_are_not_given_again_while_somebody_remembers_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
