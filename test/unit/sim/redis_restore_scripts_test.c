/*
 * What a restore from the journal and the scripts tell each other in Redis (scripts/restore.lua):
 * which jobs have ended, and when nobody can know. Time is simulated.
 */
#include "redis_scripts_bed.h"

enum { SPAN_US = 10 * SECOND_US, GOES_ON = 1, IS_FULL = 2 };

static struct script_answer step(enum script_restore_step what, uint64_t restore, uint64_t most)
{
    struct script_call call = next_call();
    struct script_restore of = {.step = what, .restore = restore, .span_us = SPAN_US, .most = most};
    script_encode_restore(&request, &spaces[0], &call, &of);
    return ask(0);
}

static void begin(uint64_t restore, uint64_t most)
{
    struct script_answer answer = step(SCRIPT_RESTORE_BEGIN, restore, most);
    assert_int_equal((int)answer.state, GOES_ON);
    assert_false(answer.more);
}

static int goes_on(uint64_t restore)
{
    return (int)step(SCRIPT_RESTORE_GO_ON, restore, 0).state;
}

static enum err bring(const char *id, uint64_t restore)
{
    struct script_call call = next_call();
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.id = bytes_str(id),
                               .topic = BYTES("t"),
                               .due_us = now_us,
                               .ttr_us = SECOND_US,
                               .failures = number % 2,
                               .if_exists = IF_EXISTS_KEEP,
                               .restore = restore}};
    script_encode(&request, &spaces[0], &call, &cmd);
    return ask(0).err;
}

static void end(const char *id, uint64_t seq)
{
    struct script_call call = next_call();
    struct cmd cmd = {.kind = CMD_DELETE, .job.ref = {.id = bytes_str(id), .seq = seq}};
    script_encode(&request, &spaces[0], &call, &cmd);
    assert_int_equal(ask(0).err, OK);
}

static struct script_answer look(uint64_t seq, uint64_t restore)
{
    struct script_call call = next_call();
    struct script_restore of = {.step = SCRIPT_RESTORE_LOOK, .restore = restore, .seq = seq};
    script_encode_restore(&request, &spaces[0], &call, &of);
    return ask(0);
}

static uint64_t members(void)
{
    return REDIS("ZLEXCOUNT", "{laterd:0}:o", "[e", "(f");
}

static void journal(uint64_t bytes)
{
    spaces[0].journal_bytes = bytes;
    spaces[0].journal_detaches = true;
    (void)open_as(0, 256);
}

static void without_a_journal_none_begins(void **state)
{
    (void)state;
    assert_int_equal((int)step(SCRIPT_RESTORE_BEGIN, 7, 10).state, 0);
    assert_int_equal(goes_on(7), 0);
    assert_int_equal(bring("a", 7), ERR_STALE_LEASE);
}

static void what_has_ended_is_left_out(void **state)
{
    (void)state;
    journal(1 << 20);
    assert_int_equal(bring("before", 0), OK);
    end("before", 0);
    begin(7, 10);
    assert_int_equal(bring("before", 7),
                     OK); /* the journal knows that end, and gives no such row */
    assert_int_equal(bring("before", 7), OK); /* it is kept */
    end("before", 0);
    assert_int_equal(bring("before", 7), ERR_NOT_FOUND);
    assert_int_equal(bring("before", 0), OK); /* its client pushes it again */
    assert_int_equal(bring("before", 7), OK); /* so it is there */
    uint64_t seq = push("t", now_us).seq;
    assert_int_equal((int)look(seq, 7).state, 1);
    assert_int_equal((int)look(seq, 0).state, 1);
    end("", seq);
    assert_int_equal((int)look(seq, 7).state, 1);
    assert_int_equal((int)look(seq, 0).state, 0);
    assert_int_equal((int)look(seq + 1, 7).state, 0);
    (void)step(SCRIPT_RESTORE_END, 7, 0);
    assert_int_equal(members(), 0);
    assert_int_equal(bring("c", 7), ERR_STALE_LEASE);
    assert_int_equal(look(seq, 7).err, ERR_STALE_LEASE);
    end("before", 0);
    assert_int_equal(members(), 0); /* nothing is left when none goes on */
}

/* Until an end finds its time up nothing was missed, whatever the clock shows. */
static void an_end_that_comes_too_late_ends_it(void **state)
{
    (void)state;
    journal(1 << 20);
    assert_int_equal(bring("a", 0), OK);
    begin(7, 10);
    now_us += SPAN_US + SECOND_US;
    assert_int_equal(bring("b", 7), OK);
    assert_int_equal(goes_on(7), GOES_ON);
    now_us += SPAN_US - SECOND_US;
    end("b", 0);
    assert_int_equal(bring("b", 7), ERR_NOT_FOUND);
    now_us += 2 * SECOND_US;
    end("a", 0);
    assert_int_equal(bring("a", 7), ERR_STALE_LEASE);
    assert_int_equal(goes_on(7), 0);
}

static void another_takes_its_place(void **state)
{
    (void)state;
    journal(1 << 20);
    begin(7, 10);
    assert_int_equal(bring("a", 0), OK);
    end("a", 0);
    begin(8, 10);
    assert_int_equal(bring("a", 8), OK); /* that end was before it */
    assert_int_equal(bring("b", 7), ERR_STALE_LEASE);
    assert_int_equal(goes_on(7), 0);
    end("a", 0);
    (void)step(SCRIPT_RESTORE_END, 7, 0); /* it comes late, and is not about this one */
    assert_int_equal(bring("a", 8), ERR_NOT_FOUND);
    (void)step(SCRIPT_RESTORE_END, 0, 0); /* of any */
    assert_int_equal(goes_on(8), 0);
}

/* What an end between the two has not left nobody knows. */
static void one_that_is_sent_again_begins_no_second_time(void **state)
{
    (void)state;
    journal(1 << 20);
    assert_int_equal(bring("a", 0), OK);
    struct script_call call = next_call();
    struct script_restore of = {
        .step = SCRIPT_RESTORE_BEGIN, .restore = 7, .span_us = SPAN_US, .most = 9};
    script_encode_restore(&request, &spaces[0], &call, &of);
    assert_int_equal((int)ask(0).state, GOES_ON);
    now_us += 2 * SPAN_US;
    end("a", 0);
    script_encode_restore(&request, &spaces[0], &call, &of);
    script_mark_again(request.at, request.len);
    assert_int_equal((int)ask(0).state, GOES_ON);
    assert_int_equal(bring("a", 7), ERR_STALE_LEASE);
}

static void beyond_its_room_it_ends(void **state)
{
    (void)state;
    journal(1 << 20);
    assert_int_equal(bring("a", 0), OK);
    assert_int_equal(bring("b", 0), OK);
    begin(7, 1);
    end("a", 0);
    assert_int_equal(goes_on(7), IS_FULL);
    assert_int_equal(bring("c", 7), ERR_STALE_LEASE);
    end("b", 0);
    assert_int_equal(members(), 2); /* that of "a", and its own */
}

/* ---- several in one call ---- */

enum { BATCH_MAX = 32 };

struct brought {
    const char *id;
    uint64_t restore;
    bool written, buried;
    uint16_t failures;
    enum ready_order order;
    int64_t made_us; /* 0: now */
    enum err err;    /* what is expected, */
    bool kept;
    uint64_t seq; /* and what came: 0, it is not new */
};

static struct bytes said_of_one(struct bytes *in)
{
    uint64_t count = in->at[0] == '*' ? take_count(in, '*') : 1;
    struct bytes first = take_part(in);
    while (--count)
        (void)take_part(in);
    return first;
}

/* In one call; each is answered as expected. */
static void bring_all(struct brought *all, unsigned count)
{
    static struct buf texts[BATCH_MAX];
    struct bytes requests[BATCH_MAX];
    for (unsigned i = 0; i < count; i++) {
        struct script_call call = next_call();
        struct cmd cmd = {.kind = CMD_PUSH,
                          .push = {.id = bytes_str(all[i].id),
                                   .topic = BYTES("t"),
                                   .due_us = now_us + SECOND_US,
                                   .ttr_us = SECOND_US,
                                   .priority = 5 + i,
                                   .order = all[i].order,
                                   .created_us = all[i].made_us,
                                   .buried = all[i].buried,
                                   .failures = all[i].failures,
                                   .if_exists = IF_EXISTS_KEEP,
                                   .restore = all[i].restore,
                                   .written = all[i].written}};
        texts[i].len = 0;
        script_encode(&texts[i], &spaces[0], &call, &cmd);
        requests[i] = buf_bytes(&texts[i]);
    }
    script_join(&request, &spaces[0],
                &(struct script_joined){
                    .requests = requests, .pushes = count, .partitions = (uint32_t[BATCH_MAX]){0}});
    struct buf *out = sim_redis_output(conn);
    out->len = 0;
    sim_redis_time(redis, now_us);
    sim_redis_input(conn, buf_bytes(&request));
    request.len = 0;
    struct bytes in = buf_bytes(out);
    assert_int_equal(take_count(&in, '*'), count);
    for (unsigned i = 0; i < count; i++) {
        struct script_answer answer;
        struct bytes part = said_of_one(&in);
        struct script_parts said = {.at = &part, .count = 1};
        assert_int_equal(script_read_answer(&spaces[0], &said, &answer), OK);
        assert_int_equal(answer.err, all[i].err);
        assert_int_equal(answer.kept, all[i].kept);
        all[i].seq = answer.seq;
        buf_fini(&texts[i]);
    }
}

static uint64_t entries(void)
{
    return REDIS("ZLEXCOUNT", "{laterd:0}:o", "[j", "(k");
}

static uint64_t jobs_of_topic(void)
{
    return REDIS("ZLEXCOUNT", "{laterd:0}:o", "[w", "(x") +
           REDIS("ZLEXCOUNT", "{laterd:0}:o", "[r", "(s") +
           REDIS("ZLEXCOUNT", "{laterd:0}:o", "[b", "(c");
}

/* Those that live and those that ended, of another restore and of none, stand between new ones. */
static void a_batch_is_done_as_if_each_came_alone(void **state)
{
    struct brought all[] = {
        {.id = "n0", .restore = 7},
        {.id = "live", .restore = 7, .kept = true},
        {.id = "live", .restore = 7, .written = true, .kept = true},
        {.id = "ended", .restore = 7, .err = ERR_NOT_FOUND},
        {.id = "n1", .restore = 7, .written = true},
        {.id = "n2", .restore = 7, .written = true},
        {.id = "n2", .restore = 7, .written = true, .kept = true},
        {.id = "ended", .restore = 7, .written = true, .err = ERR_NOT_FOUND},
        {.id = "n3", .restore = 6, .written = true, .err = ERR_STALE_LEASE},
        {.id = "ended"}, /* its client pushes it again */
        {.id = "live", .restore = 6, .kept = true},
        {.id = "n4", .restore = 7, .written = true, .failures = 3},
        {.id = "n5", .restore = 7, .buried = true},
        {.id = "ended", .restore = 7, .kept = true},
        {.id = "", .restore = 7},
    };
    (void)state;
    journal(1 << 20);
    assert_int_equal(bring("live", 0), OK);
    assert_int_equal(bring("ended", 0), OK);
    begin(7, 10);
    end("ended", 0);
    uint64_t before = entries();
    bring_all(all, sizeof(all) / sizeof(all[0]));
    assert_int_equal(entries() - before, 4); /* of n0, the second "ended", n5 and the nameless */
    assert_int_equal(jobs_of_topic(), 8);
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        assert_int_equal(all[i].seq != 0, all[i].err == OK && !all[i].kept);
}

/* As a GET shows it. */
static struct job_view seen(const char *id, struct arena *arena)
{
    struct script_call call = next_call();
    struct cmd cmd = {.kind = CMD_GET, .job.ref.id = bytes_str(id)};
    struct script_answer answer;
    script_encode(&request, &spaces[0], &call, &cmd);
    (void)ask(0);
    struct script_parts said = {.at = parts, .count = part_count};
    assert_int_equal(script_read(&spaces[0], CMD_GET, &said, arena, &answer), OK);
    assert_int_equal(answer.reply.count, 1);
    return answer.reply.jobs[0];
}

/* Those of one call, beside the same by calls of their own. */
static void jobs_with_a_past_are_what_they_are_alone(void **state)
{
    struct brought together[] = {
        {.id = "a", .restore = 7, .failures = 3},
        {.id = "b", .restore = 7, .failures = 9, .order = ORDER_ARRIVAL},
        {.id = "c", .restore = 7, .failures = 1, .written = true},
        {.id = "d", .restore = 7, .failures = 2, .written = true, .order = ORDER_ARRIVAL},
        {.id = "e", .restore = 7, .failures = 4, .buried = true},
        {.id = "f", .restore = 7, .failures = 5, .made_us = EPOCH_US - SECOND_US},
        {.id = "g", .restore = 7, .failures = 6, .made_us = EPOCH_US - SECOND_US},
    };
    enum { COUNT = sizeof(together) / sizeof(together[0]) };
    struct brought all[2 * COUNT];
    char ids[COUNT][4];
    struct arena arena = {0};
    (void)state;
    journal(1 << 20);
    struct brought first[] = {{.id = "x"}, {.id = "y"}};
    bring_all(first, 2);
    begin(7, 10);
    for (unsigned i = 0; i < COUNT; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "%s1", together[i].id);
        all[i] = all[COUNT + i] = together[i];
        all[COUNT + i].id = ids[i];
    }
    uint64_t before = entries();
    bring_all(all, COUNT);
    assert_int_equal(entries() - before, 5);
    (void)REDIS("HDEL", "{laterd:0}:h", "#pt"); /* as if the topic was new: the long way */
    for (unsigned i = COUNT; i < 2 * COUNT; i++) {
        struct brought two[] = {all[i], all[i]};
        two[1].kept = true;
        two[0].seq = 0;
        bring_all(two, 2);
        (void)REDIS("HDEL", "{laterd:0}:h", "#pt");
    }
    for (unsigned i = 0; i < COUNT; i++) {
        struct job_view one = seen(all[i].id, &arena), other = seen(all[COUNT + i].id, &arena);
        assert_int_equal(one.failures, together[i].failures);
        assert_int_equal(one.failures, other.failures);
        assert_int_equal(one.state, other.state);
        assert_int_equal(one.state == JOB_BURIED, together[i].buried);
        assert_int_equal(one.priority, 5 + i);
        assert_int_equal(one.due_us, other.due_us);
        assert_int_equal(one.delay_s, other.delay_s);
        assert_int_equal(one.created_us, other.created_us);
        assert_int_equal(one.attempt, other.attempt);
        end(all[i].id, 0);
        end(all[COUNT + i].id, 0);
    }
    assert_int_equal(jobs_of_topic(), 2); /* each was found in its place */
    arena_fini(&arena);
}

/* A second time all are kept, and the third time the restore is over. */
static void a_batch_twice_is_harmless(void **state)
{
    struct brought all[BATCH_MAX];
    char ids[BATCH_MAX][4];
    (void)state;
    journal(1 << 20);
    assert_int_equal(bring("live", 0), OK);
    begin(7, 10);
    for (unsigned i = 0; i < BATCH_MAX; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "%u", i);
        all[i] = (struct brought){.id = ids[i], .restore = 7, .written = i % 2};
    }
    bring_all(all, BATCH_MAX);
    for (unsigned i = 0; i < BATCH_MAX; i++)
        all[i].kept = true;
    uint64_t before = entries();
    bring_all(all, BATCH_MAX);
    assert_int_equal(entries(), before);
    assert_int_equal(jobs_of_topic(), BATCH_MAX + 1);
    end("5", 0);
    (void)step(SCRIPT_RESTORE_END, 7, 0);
    all[5].kept = false;
    all[5].err = ERR_STALE_LEASE;
    bring_all(all, BATCH_MAX);
    assert_int_equal(jobs_of_topic(), BATCH_MAX);
}

/* An id whose job was lost with its bucket stays behind: it is no job. */
static void a_batch_believes_no_id_whose_job_is_lost(void **state)
{
    struct brought all[] = {{.id = "a", .restore = 7}, {.id = "lost", .restore = 7}};
    (void)state;
    journal(1 << 20);
    assert_int_equal(bring("lost", 0), OK);
    begin(7, 10);
    (void)REDIS("EVAL",
                "local name = redis.call('HGET', KEYS[1], 'ilost')\n"
                "local bucket = '{laterd:0}:j' .. string.byte(name, 6)\n"
                "return redis.call('HDEL', bucket, name, '+' .. name)",
                "1", "{laterd:0}:h");
    bring_all(all, 2);
    assert_true(all[0].seq && all[1].seq);
}

static void a_batch_of_a_restore_that_is_over_brings_nothing(void **state)
{
    struct brought all[] = {{.id = "a", .restore = 7, .written = true, .err = ERR_STALE_LEASE},
                            {.id = "b", .restore = 7, .err = ERR_STALE_LEASE}};
    struct brought first[] = {{.id = "x"}, {.id = "y"}}; /* that no later one is due sooner */
    (void)state;
    journal(1 << 20);
    bring_all(first, 2);
    bring_all(all, 2); /* none goes on */
    begin(8, 10);
    bring_all(all, 2); /* another does */
    begin(7, 1);
    assert_int_equal(bring("c", 0), OK);
    end("c", 0);
    bring_all(all, 2); /* more have ended than it had room for */
    begin(7, 10);
    (void)REDIS("EVAL", "redis.call('ZREMRANGEBYLEX', KEYS[1], '[er', '(es')", "1", "{laterd:0}:o");
    bring_all(all, 2); /* nobody knows what has ended */
    assert_int_equal(jobs_of_topic(), 2);
}

/* Of those with a past, too: an older restore does not know what has ended since this one began. */
static void in_a_batch_each_is_of_its_own_restore(void **state)
{
    struct brought first[] = {{.id = "x"}, {.id = "y"}};
    struct brought all[] = {
        {.id = "a", .restore = 7, .failures = 3},
        {.id = "b", .restore = 6, .failures = 3, .err = ERR_STALE_LEASE},
        {.id = "c", .restore = 6, .failures = 3, .written = true, .err = ERR_STALE_LEASE}};
    (void)state;
    journal(1 << 20);
    bring_all(first, 2);
    begin(7, 10);
    bring_all(all, 3);
    assert_int_equal(jobs_of_topic(), 3);
}

/* Pushes are refused, as MySQL lacks too much: those that leave no entry need not be. */
static void what_leaves_no_entry_is_not_refused_for_a_journal_that_is_behind(void **state)
{
    struct brought all[] = {{.id = "live", .restore = 7, .written = true, .kept = true},
                            {.id = "a", .restore = 7, .written = true},
                            {.id = "b", .restore = 7, .err = ERR_JOURNAL_BEHIND},
                            {.id = "c", .restore = 7, .failures = 2, .written = true},
                            {.id = "e", .restore = 7, .buried = true, .written = true},
                            {.id = "d", .err = ERR_JOURNAL_BEHIND}};
    struct brought rows[] = {{.id = "r0", .restore = 7, .written = true},
                             {.id = "r1", .restore = 7, .written = true}};
    enum err err = OK;
    (void)state;
    spaces[0].journal_bytes = 1 << 10;
    (void)open_as(0, 256);
    assert_int_equal(bring("live", 0), OK);
    begin(7, 10);
    bring_all(rows, 2);
    uint64_t work = sim_lua_work();
    for (unsigned i = 0; i < 100 && !err; i++) {
        char id[8];
        (void)snprintf(id, sizeof(id), "p%u", i);
        err = bring(id, 0);
    }
    assert_int_equal(err, ERR_JOURNAL_BEHIND);
    uint64_t before = entries();
    rows[0] = (struct brought){.id = "s0", .restore = 7, .written = true};
    rows[1] = (struct brought){.id = "s1", .restore = 7, .written = true};
    bring_all(rows, 2);
    assert_in_range(sim_lua_work(), 1, work + 4); /* it is the common case, too */
    bring_all(all, sizeof(all) / sizeof(all[0]));
    assert_int_equal(entries(), before);
}

/* What a call of so many pushes takes, of words and parts: a restore costs two more for each. */
static void a_batch_that_is_restored_costs_little_more(void **state)
{
    struct brought all[BATCH_MAX];
    char ids[2 * BATCH_MAX][8];
    (void)state;
    journal(1 << 20);
    assert_int_equal(bring("live", 0), OK);
    begin(7, 10);
    for (unsigned i = 0; i < BATCH_MAX; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "p%u", i);
        all[i] = (struct brought){.id = ids[i]};
    }
    bring_all(all, BATCH_MAX);
    uint64_t pushed = sim_lua_work();
    for (unsigned i = 0; i < BATCH_MAX; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "r%u", i);
        all[i] = (struct brought){.id = ids[i], .restore = 7, .written = true};
    }
    bring_all(all, BATCH_MAX);
    assert_in_range(sim_lua_work(), 1, pushed + 8);
    for (unsigned i = 0; i < BATCH_MAX; i++)
        all[i].kept = true;
    bring_all(all, BATCH_MAX);
    assert_in_range(sim_lua_work(), 1, pushed);
}

static void a_journal_that_is_given_up_ends_it(void **state)
{
    (void)state;
    journal(1 << 10);
    begin(7, 10);
    for (unsigned i = 0; i < 100; i++)
        (void)push("t", now_us);
    assert_int_equal(goes_on(7), 0);
    assert_int_equal(bring("a", 7), ERR_STALE_LEASE);
}

static void a_lost_set_ends_it(void **state)
{
    (void)state;
    journal(1 << 20);
    assert_int_equal(bring("a", 0), OK);
    begin(7, 10);
    end("a", 0);
    (void)REDIS("DEL", "{laterd:0}:o");
    rebuild_all();
    assert_int_equal(bring("a", 7), ERR_STALE_LEASE);
    assert_int_equal(look(1, 7).err, ERR_STALE_LEASE);
}

static void what_one_has_left_goes_in_small_steps(void **state)
{
    char id[8];
    unsigned steps = 0;
    (void)state;
    journal(1 << 30);
    begin(7, 10000);
    for (unsigned i = 0; i < 2500; i++) {
        (void)snprintf(id, sizeof(id), "j%u", i);
        assert_int_equal(bring(id, 0), OK);
        end(id, 0);
    }
    most_work = 0;
    while (step(SCRIPT_RESTORE_BEGIN, 8, 10).more)
        steps++;
    assert_int_equal(steps, 2);
    assert_int_equal(members(), 1);
    assert_in_range(most_work, 1, WORK_MAX);
    assert_int_equal(bring("j7", 8), OK);
}

/* MySQL has all. */
static void take_entries(void)
{
    (void)REDIS("EVAL",
                "local field = redis.call('HGET', KEYS[1], 'j')\n"
                "redis.call('HSET', KEYS[1], 'j', string.sub(field, 1, 16) ..\n"
                "    string.sub(field, 9, 16) .. string.sub(field, 25))\n",
                "1", "{laterd:0}:h");
}

/* Jobs that were there before the journal. Of those with large bodies a call takes so few that
 * their entries are not more than the journal may have. */
static void a_resync_goes_in_small_steps(void **state)
{
    enum { JOBS = 1000, LARGE = 256 * 1024, LARGE_JOBS = 40 };
    static char body[LARGE];
    uint64_t entered = 0, entered_at_once = 0;
    struct script_answer answer = {.more = true};
    struct buf from = {0};
    (void)state;
    for (unsigned i = 0; i < JOBS; i++)
        (void)push("t", now_us);
    now_us += SECOND_US; /* in another bucket */
    for (unsigned i = 0; i < LARGE_JOBS; i++) {
        struct script_call call = next_call();
        struct cmd cmd = {.kind = CMD_PUSH,
                          .push = {.topic = BYTES("large"),
                                   .due_us = now_us,
                                   .ttr_us = SECOND_US,
                                   .body = bytes_of(body, LARGE)}};
        script_encode(&request, &spaces[0], &call, &cmd);
        assert_int_equal(ask(0).err, OK);
    }
    journal(1 << 20);
    most_work = 0;
    for (buf_add_str(&from, "0"); answer.more;) {
        struct script_resync resync = {
            .from = buf_bytes(&from), .fields = 400, .waiting_most = 1 << 18};
        struct script_call call = next_call();
        script_encode_resync(&request, &spaces[0], &call, &resync);
        answer = ask(0);
        assert_int_equal((int)answer.state, 1);
        entered += answer.count;
        if (answer.count > entered_at_once)
            entered_at_once = answer.count;
        from.len = 0;
        buf_add_bytes(&from, parts[1]);
        take_entries();
    }
    assert_int_equal(entered, JOBS + LARGE_JOBS);
    assert_in_range(entered_at_once, 20, 60); /* some 20 us of Redis each */
    assert_in_range(most_work, 1, WORK_MAX / 2);
    buf_fini(&from);
}

/* Buckets that have not arrived yet look empty: their jobs would be left out. */
static void a_resync_waits_while_a_slot_comes_to_the_node(void **state)
{
    const struct script_resync resync = {
        .from = BYTES("0"), .fields = 400, .waiting_most = 1 << 18};
    (void)state;
    (void)push("t", now_us);
    journal(1 << 20);
    struct script_call call = next_call();
    script_encode_resync(&request, &spaces[0], &call, &resync);
    assert_true(is_missing_while_importing());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_journal_none_begins, start, stop),
        cmocka_unit_test_setup_teardown(what_has_ended_is_left_out, start, stop),
        cmocka_unit_test_setup_teardown(an_end_that_comes_too_late_ends_it, start, stop),
        cmocka_unit_test_setup_teardown(another_takes_its_place, start, stop),
        cmocka_unit_test_setup_teardown(one_that_is_sent_again_begins_no_second_time, start, stop),
        cmocka_unit_test_setup_teardown(beyond_its_room_it_ends, start, stop),
        cmocka_unit_test_setup_teardown(a_batch_is_done_as_if_each_came_alone, start, stop),
        cmocka_unit_test_setup_teardown(a_batch_twice_is_harmless, start, stop),
        cmocka_unit_test_setup_teardown(jobs_with_a_past_are_what_they_are_alone, start, stop),
        cmocka_unit_test_setup_teardown(a_batch_believes_no_id_whose_job_is_lost, start, stop),
        cmocka_unit_test_setup_teardown(a_batch_of_a_restore_that_is_over_brings_nothing, start,
                                        stop),
        cmocka_unit_test_setup_teardown(in_a_batch_each_is_of_its_own_restore, start, stop),
        cmocka_unit_test_setup_teardown(
            what_leaves_no_entry_is_not_refused_for_a_journal_that_is_behind, start, stop),
        cmocka_unit_test_setup_teardown(a_batch_that_is_restored_costs_little_more, start, stop),
        cmocka_unit_test_setup_teardown(a_journal_that_is_given_up_ends_it, start, stop),
        cmocka_unit_test_setup_teardown(a_lost_set_ends_it, start, stop),
        cmocka_unit_test_setup_teardown(what_one_has_left_goes_in_small_steps, start, stop),
        cmocka_unit_test_setup_teardown(a_resync_goes_in_small_steps, start, stop),
        cmocka_unit_test_setup_teardown(a_resync_waits_while_a_slot_comes_to_the_node, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
