/*
 * Topics with far jobs, through the embedded engine: listings show far and near jobs as one, kicks
 * and clears find both, and damage to some of them stays theirs.
 */
#include "base/list.h"
#include "core/far.h"
#include "embedded_far_bed.h"

/* ---- a topic's jobs ---- */

static bool is_of_t(unsigned number)
{
    return number % 3 != 0;
}

static int64_t first_due_of_t(void)
{
    int64_t first_us = INT64_MAX;
    for (unsigned number = 0; number < JOBS; number++) {
        if (is_of_t(number) && due_of(number) < first_us)
            first_us = due_of(number);
    }
    return first_us;
}

static unsigned list_all(uint32_t max)
{
    unsigned shown = list_in_order(JOB_DELAYED, max, false);
    assert_int_equal(list_in_order(JOB_DELAYED, max, true), shown);
    return shown;
}

static void a_listing_shows_far_and_near_jobs_once_each_in_order(void **state)
{
    (void)state;
    assert_int_equal(list_all(17), JOBS / 3 * 2);
    for (unsigned number = JOBS; number < JOBS + 40; number++) /* near ones between them */
        assert_int_equal(push(number, due_of(number), IF_EXISTS_REJECT), OK);
    unsigned all = JOBS / 3 * 2 + 26;
    assert_int_equal(list_all(1), all);
    assert_int_equal(list_all(13), all);
    assert_int_equal(list_all(JOBS), all);
    rest(10);
    assert_true(totals().far >= JOBS); /* those that were brought in have left again */
}

/* Memory is short, so that the loader waits; some are due and none is loaded yet. Those that are
   delayed are shown, however many of a page are not any more. */
static void a_listing_passes_over_no_far_jobs_behind_late_ones(void **state)
{
    (void)state;
    enum { LIMIT = 64 * 1024 * 1024, LATER = JOBS * 3 + 1 };
    unsigned expected = 1;
    bed.memory_bytes = LIMIT;
    restart();
    assert_int_equal(push(LATER, START_US + 400 * HOUR_US, IF_EXISTS_REJECT), OK);
    char *ballast = mem_alloc(LIMIT);
    bed.loop.now_us = first_due_of_t() + JOBS / 2 * SECOND_US;
    for (unsigned number = 0; number < JOBS; number++)
        expected += is_of_t(number) && due_of(number) > bed.loop.now_us;
    assert_true(expected < JOBS / 3 * 2);
    assert_int_equal(list_in_order(JOB_DELAYED, 20, false), expected);
    mem_free(ballast);
}

/* The same: when the next one is due is not told of those that are late. */
static void a_topics_next_due_time_is_never_in_the_past(void **state)
{
    (void)state;
    enum { LIMIT = 64 * 1024 * 1024 };
    struct cmd view = {.kind = CMD_TOPIC, .topic.topic = BYTES("t")};
    int64_t next_us = INT64_MAX;
    bed.memory_bytes = LIMIT;
    restart();
    char *ballast = mem_alloc(LIMIT);
    bed.loop.now_us = first_due_of_t() + JOBS / 2 * SECOND_US;
    for (unsigned number = 0; number < JOBS; number++)
        if (is_of_t(number) && due_of(number) > bed.loop.now_us + 1000 && due_of(number) < next_us)
            next_us = due_of(number);
    assert_int_equal(ask(&view), OK);
    assert_true(totals().far > JOBS / 2);
    assert_int_equal(bed.answer.next_due_us, next_us);
    bed.loop.now_us = START_US + 500 * HOUR_US; /* all are late */
    assert_int_equal(ask(&view), OK);
    assert_int_equal(bed.answer.next_due_us, 0);
    mem_free(ballast);
}

static void jobs_depart_while_clients_list_without_a_pause(void **state)
{
    (void)state;
    bed.lists = true;
    for (unsigned number = JOBS; number < 2 * JOBS; number++)
        assert_int_equal(push(number, due_of(number), IF_EXISTS_REJECT), OK);
    grow_log();
    unsigned answers = bed.listers[0].answers;
    print_message("%u far jobs of %u, %u listings\n", (unsigned)totals().far, 2 * JOBS, answers);
    assert_true(totals().far > 2 * JOBS - 10 && answers > JOBS / 2);
    bed.lists = false;
    for (int i = 0; bed.listers[0].asks || bed.listers[1].asks || bed.listers[2].asks; i++) {
        assert_true(i < TURNS_MAX);
        turn(NULL, NULL);
    }
    restart();
    assert_int_equal(totals().jobs[JOB_DELAYED], 2 * JOBS);
}

/* Jobs of t that are due at once, in one block, which takes two turns to be passed to the core. */
static void fill_a_block(void)
{
    bed.disk = sim_disk_new();
    sim_disk_cold(bed.disk, true);
    bed.loop.now_us = START_US;
    open_engine();
    for (unsigned i = 0; i < JOBS; i++) {
        struct cmd cmd = {.kind = CMD_PUSH,
                          .push = {.topic = BYTES("t"), .due_us = due_of(7), .ttr_us = SECOND_US}};
        (void)bed.engine->verbs->submit(bed.engine, &cmd, NULL);
    }
    rest(10);
    grow_log();
    assert_int_equal(totals().far, JOBS);
}

static void ready_ones_are_listed_though_memory_is_short_while_they_fall_due(void **state)
{
    enum { LIMIT = 64 * 1024 * 1024 };
    (void)state;
    memset(&bed, 0, sizeof(bed));
    bed.memory_bytes = LIMIT;
    fill_a_block();
    bed.loop.now_us = START_US + 300 * HOUR_US;
    for (int i = 0; totals().far_ready == 0; i++) {
        assert_true(i < TURNS_MAX);
        turn(NULL, NULL);
    }
    assert_true(totals().far_ready < JOBS);
    char *ballast = mem_alloc(LIMIT);
    for (int i = 0; i < 20; i++) {
        rest(20);
        bed.loop.now_us += SECOND_US;
    }
    uint64_t ready = core_state_count(embedded_core(bed.embedded), BYTES("t"), JOB_READY);
    assert_true(ready > 0);
    lists_have(JOB_READY, (unsigned)ready);
    mem_free(ballast);
}

static void the_first_delayed_job_is_found_among_far_ones(void **state)
{
    (void)state;
    struct cmd peek = {.kind = CMD_PEEK, .topic = {.topic = BYTES("t"), .state = JOB_DELAYED}};
    struct cmd view = {.kind = CMD_TOPIC, .topic.topic = BYTES("t")};
    assert_int_equal(ask(&peek), OK);
    assert_int_equal(bed.answer.job.due_us, first_due_of_t());
    assert_true(strncmp(bed.answer.body, "body of ", 8) == 0);
    assert_int_equal(ask(&view), OK);
    assert_int_equal(bed.answer.next_due_us, first_due_of_t());
    assert_int_equal(bed.answer.delayed, JOBS / 3 * 2);
    rest(10);
    assert_int_equal(totals().far, JOBS);
}

enum { WATCHERS = 400 };

/* A client that asks once for all about a topic. */
struct watcher {
    struct ticket ticket;
    unsigned answers;
};

static struct watcher watchers[WATCHERS];

static void hear_topic(struct ticket *ticket, const struct reply *reply)
{
    struct watcher *watcher = LIST_ENTRY(ticket, struct watcher, ticket);
    watcher->answers++;
    if (reply->err != ERR_STORE_FAILED)
        assert_int_equal(reply->topics->next_due_us, first_due_of_t());
}

static void watch_all(void)
{
    struct cmd view = {.kind = CMD_TOPIC, .topic.topic = BYTES("t")};
    memset(watchers, 0, sizeof(watchers));
    bed.engine->verbs->begin(bed.engine);
    for (unsigned i = 0; i < WATCHERS; i++) {
        watchers[i].ticket = (struct ticket){.answered = hear_topic};
        assert_int_equal(bed.engine->verbs->submit(bed.engine, &view, &watchers[i].ticket),
                         SUBMIT_PARKED);
    }
    (void)bed.engine->verbs->end(bed.engine);
}

static unsigned watchers_answered(void)
{
    unsigned answered = 0;
    for (unsigned i = 0; i < WATCHERS; i++) {
        assert_true(watchers[i].answers <= 1);
        answered += watchers[i].answers;
    }
    return answered;
}

/* Each reads blocks of slices into memory of its own: a few of them at a time. */
static void p8_many_who_ask_for_a_topic_at_once_take_little_memory(void **state)
{
    (void)state;
    enum { FOR_EACH = 2048, FOR_READS = 2 * 1024 * 1024 };
    size_t before = mem_used(), most = 0;
    unsigned gone = 0;
    watch_all();
    for (int i = 0; watchers_answered() + gone < WATCHERS; i++) {
        assert_true(i < TURNS_MAX);
        turn(NULL, NULL);
        most = mem_used() - before > most ? mem_used() - before : most;
        for (unsigned of = 3; i == 3 && of < WATCHERS; of += 4) { /* of all ages */
            gone += !watchers[of].answers;
            bed.engine->verbs->cancel(bed.engine, &watchers[of].ticket);
        }
    }
    assert_true(gone > WATCHERS / 8);
    print_message("%zu bytes at most\n", most);
    assert_true(most < WATCHERS * FOR_EACH + FOR_READS);
    rest(10);
    assert_int_equal(watchers_answered() + gone, WATCHERS);
    assert_int_equal(embedded_waiting_replies(bed.embedded), 0);
    watch_all();
    rest(2);
    restart(); /* tells those who still wait */
    assert_int_equal(watchers_answered(), WATCHERS);
}

static void far_jobs_are_kicked_in_order_of_their_due_time(void **state)
{
    (void)state;
    struct cmd kick = {.kind = CMD_KICK_TOPIC,
                       .topic = {.topic = BYTES("t"), .state = JOB_DELAYED, .max = 10}};
    assert_int_equal(ask(&kick), OK);
    assert_int_equal(bed.answer.reply.count, 10);
    assert_true(bed.answer.reply.more);
    assert_int_equal(totals().jobs[JOB_READY], 10);
    restart();
    assert_int_equal(totals().jobs[JOB_READY], 10);
    struct cmd peek = {.kind = CMD_PEEK, .topic = {.topic = BYTES("t"), .state = JOB_DELAYED}};
    assert_int_equal(ask(&peek), OK);
    unsigned earlier = 0; /* than the first that is left */
    for (unsigned number = 0; number < JOBS; number++)
        earlier += is_of_t(number) && due_of(number) < bed.answer.job.due_us;
    assert_int_equal(earlier, 10);
}

/* In the order of due times. */
static unsigned nth_of_t(unsigned n)
{
    for (unsigned number = 0; number < JOBS; number++) {
        unsigned earlier = 0;
        for (unsigned other = 0; other < JOBS; other++)
            earlier += is_of_t(other) && due_of(other) < due_of(number);
        if (is_of_t(number) && earlier == n)
            return number;
    }
    fail_msg("there are not so many");
    return 0;
}

static bool is_near(unsigned number)
{
    char id[32];
    return core_holds(embedded_core(bed.embedded), &(struct job_ref){.id = id_of(number, id)});
}

/* They are loaded while somebody kicks them, and then memory is short: none of them goes back, for
   nobody would load it again. */
static void p2_far_jobs_that_are_loaded_during_a_kick_come_due(void **state)
{
    (void)state;
    enum { LIMIT = 64 * 1024 * 1024, STEPS = 16 }; /* of a turn */
    struct budget spent = {0};
    struct ticket ticket = {.answered = receive};
    struct cmd kick = {.kind = CMD_KICK_TOPIC,
                       .topic = {.topic = BYTES("t"), .state = JOB_DELAYED, .max = JOBS}};
    bed.memory_bytes = LIMIT;
    restart();
    bed.engine->verbs->use_budget(bed.engine, &spent); /* a few of them in each turn */
    bed.answer.there = false;
    turn(&kick, &ticket);
    for (int i = 0; totals().far == JOBS; i++) {
        assert_true(i < TURNS_MAX);
        turn(NULL, NULL);
    }
    bed.loop.now_us = first_due_of_t() - HORIZON_US / 2;
    turn(NULL, NULL);
    for (unsigned taken = 2 * STEPS; !is_near(nth_of_t(taken)); taken += STEPS) {
        assert_true(taken < JOBS / 3 * 2 - STEPS && !bed.answer.there);
        turn(NULL, NULL);
    }
    uint64_t far = totals().far;
    char *ballast = mem_alloc(LIMIT);
    for (int i = 0; !bed.answer.there; i++) {
        assert_true(i < TURNS_MAX);
        turn(NULL, NULL);
    }
    rest(20);
    assert_int_equal(bed.answer.reply.err, ERR_MEMORY_LIMIT);
    assert_int_equal(totals().far, far);
    mem_free(ballast);
    bed.engine->verbs->use_budget(bed.engine, NULL);
}

/* It has been done for some of the jobs, and others would be told of it later. */
static void p5_a_clear_or_kick_whose_client_has_gone_meanwhile_goes_no_further(void **state)
{
    (void)state;
    enum { STEPS = 16 }; /* of a turn */
    static const enum cmd_kind kinds[] = {CMD_CLEAR_TOPIC, CMD_KICK_TOPIC, CMD_LIST};
    struct budget spent = {0};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        struct ticket ticket = {.answered = receive};
        struct cmd cmd = on_t(kinds[i], JOB_DELAYED, JOBS);
        struct core_totals before = totals();
        bed.answer.there = false;
        bed.engine->verbs->use_budget(bed.engine, &spent); /* a few of them in each turn */
        turn(&cmd, &ticket);
        for (int turns = 0; totals().far == before.far; turns++) {
            assert_true(turns < TURNS_MAX);
            turn(NULL, NULL);
        }
        assert_false(bed.answer.there);
        bed.engine->verbs->cancel(bed.engine, &ticket);
        bed.engine->verbs->use_budget(bed.engine, NULL); /* all that is left in one */
        rest(200);
        assert_int_equal(embedded_waiting_replies(bed.embedded), 0);
        assert_int_equal(totals().jobs[JOB_READY], 0);
        assert_true(totals().jobs[JOB_DELAYED] + STEPS + 1 >= before.jobs[JOB_DELAYED]);
    }
    assert_false(bed.answer.there);
}

static void a_topic_is_cleared_of_far_jobs(void **state)
{
    (void)state;
    assert_int_equal(push(JOBS, due_of(JOBS - 1), IF_EXISTS_REJECT), OK); /* of u */
    assert_int_equal(push(JOBS + 1, due_of(JOBS - 1), IF_EXISTS_REJECT), OK);
    assert_int_equal(clear_t(JOB_DELAYED), JOBS / 3 * 2 + 1);
    assert_int_equal(totals().jobs[JOB_DELAYED], JOBS / 3 + 1);
    restart();
    assert_int_equal(totals().jobs[JOB_DELAYED], JOBS / 3 + 1);
    assert_int_equal(totals().far, JOBS / 3);
}

static void clearing_ends_though_far_jobs_cannot_be_read(void **state)
{
    (void)state;
    struct cmd clear = {.kind = CMD_CLEAR_TOPIC,
                        .topic = {.topic = BYTES("t"), .state = JOB_DELAYED, .max = 60}};
    damage_slices();
    unsigned asked = 0;
    do {
        assert_int_equal(ask(&clear), OK);
        assert_true(asked++ < 100);
    } while (bed.answer.reply.more);
    assert_true(totals().jobs[JOB_DELAYED] > JOBS / 3); /* they are told of, not hidden */
}

/* A byte of a job in the middle of its first block. */
static void damage_one(void *ctx, const char *name)
{
    uint64_t len = 0;
    if (strncmp(name, "slice-", 6) != 0)
        return;
    const char *at = sim_disk_file(bed.disk, name, &len);
    for (uint64_t byte = 2 * 4096; at && byte + 8 < len; byte++) {
        if (memcmp(at + byte, "body of ", 8) != 0)
            continue;
        assert_true(sim_disk_flip(bed.disk, name, byte * 8));
        ++*(unsigned *)ctx;
        return;
    }
}

static void jobs_beside_a_damaged_one_are_listed(void **state)
{
    (void)state;
    struct disk *disk = sim_disk_port(bed.disk);
    unsigned damaged = 0, listed = 0;
    assert_int_equal(disk->verbs->list(disk, damage_one, &damaged), OK);
    assert_true(damaged > 0 && damaged < 10);
    struct bytes topics[] = {BYTES("t"), BYTES("u")};
    for (unsigned i = 0; i < 2; i++) {
        struct cmd list = {.kind = CMD_LIST,
                           .topic = {.topic = topics[i], .state = JOB_DELAYED, .max = JOBS}};
        assert_int_equal(ask(&list), OK);
        listed += bed.answer.reply.count;
    }
    assert_int_equal(listed, JOBS - damaged);
}

enum { LONG_BYTES = 90000 };

static bool long_body_shown;

static void see_long_body(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    assert_int_equal(reply->err, OK);
    assert_int_equal(reply->jobs->state, JOB_READY);
    assert_int_equal(reply->jobs->body.len, LONG_BYTES);
    for (size_t i = 0; i < LONG_BYTES; i++)
        assert_int_equal(reply->jobs->body.at[i], 'a' + i % 7);
    long_body_shown = true;
}

/* They are not copied with the page: each is read apart. */
static void long_far_jobs_are_kicked_with_the_others_of_their_topic(void **state)
{
    (void)state;
    static char body[LONG_BYTES];
    struct core_totals before = totals();
    for (size_t i = 0; i < LONG_BYTES; i++)
        body[i] = (char)('a' + i % 7);
    for (unsigned i = 0; i < 2; i++) {
        struct cmd push = {.kind = CMD_PUSH,
                           .push = {.id = i ? BYTES("long-1") : BYTES("long-0"),
                                    .topic = BYTES("t"),
                                    .due_us = START_US + (i ? 30 : 3) * HOUR_US,
                                    .ttr_us = SECOND_US,
                                    .body = bytes_of(body, sizeof(body))}};
        assert_int_equal(ask(&push), OK);
    }
    grow_log();
    assert_int_equal(totals().far, before.far + 2);
    uint64_t in_t = core_far_count(embedded_core(bed.embedded), BYTES("t"), JOB_DELAYED);
    struct cmd kick = on_t(CMD_KICK_TOPIC, JOB_DELAYED, 1000);
    uint64_t kicked = 0;
    for (bool more = true; more; kicked += bed.answer.reply.count) {
        assert_int_equal(ask(&kick), OK);
        more = bed.answer.reply.more;
    }
    assert_int_equal(kicked, in_t);
    restart();
    for (unsigned i = 0; i < 2; i++) {
        struct ticket ticket = {.answered = see_long_body};
        struct cmd get = {.kind = CMD_GET, .job.ref.id = i ? BYTES("long-1") : BYTES("long-0")};
        long_body_shown = false;
        turn(&get, &ticket);
        for (int j = 0; j < TURNS_MAX && !long_body_shown; j++)
            turn(NULL, NULL);
        assert_true(long_body_shown);
    }
}

/* Each is read and written again by itself, while other visits wait: a kick takes 4 MiB of them. */
static void a_kick_takes_few_long_far_jobs_at_a_time(void **state)
{
    (void)state;
    enum { LONG_JOBS = 60, MOST = 4 * 1024 * 1024 / LONG_BYTES + 1 };
    static char body[LONG_BYTES];
    uint64_t kicked = 0;
    unsigned answers = 0;
    memset(body, 'l', sizeof(body));
    for (unsigned i = 0; i < LONG_JOBS; i++) {
        struct cmd push = {.kind = CMD_PUSH,
                           .push = {.topic = BYTES("long"),
                                    .due_us = START_US + (9 + i) * HOUR_US,
                                    .ttr_us = SECOND_US,
                                    .body = bytes_of(body, sizeof(body))}};
        assert_int_equal(ask(&push), OK);
    }
    for (int i = 0; i < 10 && core_far_count(embedded_core(bed.embedded), BYTES("long"),
                                             JOB_DELAYED) < LONG_JOBS;
         i++)
        grow_log();
    assert_int_equal(core_far_count(embedded_core(bed.embedded), BYTES("long"), JOB_DELAYED),
                     LONG_JOBS);
    struct cmd kick = {.kind = CMD_KICK_TOPIC,
                       .topic = {.topic = BYTES("long"), .state = JOB_DELAYED, .max = 1000}};
    for (bool more = true; more; answers++) {
        assert_int_equal(ask(&kick), OK);
        assert_true(bed.answer.reply.count > 0 && bed.answer.reply.count <= MOST);
        kicked += bed.answer.reply.count;
        more = bed.answer.reply.more;
    }
    assert_int_equal(kicked, LONG_JOBS);
    assert_true(answers >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_listing_shows_far_and_near_jobs_once_each_in_order),
        TEST(a_listing_passes_over_no_far_jobs_behind_late_ones),
        TEST(a_topics_next_due_time_is_never_in_the_past),
        TEST(jobs_depart_while_clients_list_without_a_pause),
        cmocka_unit_test_teardown(ready_ones_are_listed_though_memory_is_short_while_they_fall_due,
                                  teardown),
        TEST(the_first_delayed_job_is_found_among_far_ones),
        COLD(p8_many_who_ask_for_a_topic_at_once_take_little_memory),
        TEST(far_jobs_are_kicked_in_order_of_their_due_time),
        TEST(long_far_jobs_are_kicked_with_the_others_of_their_topic),
        TEST(a_kick_takes_few_long_far_jobs_at_a_time),
        TEST(p2_far_jobs_that_are_loaded_during_a_kick_come_due),
        TEST(p5_a_clear_or_kick_whose_client_has_gone_meanwhile_goes_no_further),
        TEST(a_topic_is_cleared_of_far_jobs),
        TEST(clearing_ends_though_far_jobs_cannot_be_read),
        TEST(jobs_beside_a_damaged_one_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
