/*
 * Buried jobs that are not in memory, through the embedded engine: all commands work on them as on
 * others, they do not come back by themselves, and a restart finds them where they were.
 */
#include "embedded_far_bed.h"

enum { OF_T = JOBS / 3 * 2 };

static int set_up_buried(bool cold)
{
    memset(&bed, 0, sizeof(bed));
    bed.buries = true;
    fill(cold);
    assert_int_equal(totals().far_buried, JOBS);
    assert_int_equal(totals().jobs[JOB_BURIED], JOBS);
    assert_int_equal(totals().far, 0);
    return 0;
}

static int setup_buried_cold(void **state)
{
    (void)state;
    return set_up_buried(true);
}

static int setup_buried_warm(void **state)
{
    (void)state;
    return set_up_buried(false);
}

static void ignore(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    assert_int_equal(reply->err, OK);
}

static void a_listing_shows_buried_jobs_once_each_in_order(void **state)
{
    (void)state;
    bed.buries = false;
    assert_int_equal(push(JOBS + 1, due_of(JOBS + 1), IF_EXISTS_REJECT), OK); /* it is not shown */
    bed.buries = true;
    for (unsigned number = JOBS + 3; number < JOBS + 33; number++) /* 20 of t, in memory */
        assert_int_equal(push(number, due_of(number), IF_EXISTS_REJECT), OK);
    lists_have(JOB_BURIED, OF_T + 20);
    rest(10);
    assert_true(totals().far_buried >= JOBS); /* those that were brought in have left again */
}

/* The first two of t are kicked by their ids while a listing has them in memory, and nothing else
   has told the slice so: their records stay there, and are not those of buried jobs any more. */
static void kick_two_of_a_listing(void)
{
    struct budget none = {0};
    struct cmd list = on_t(CMD_LIST, JOB_BURIED, 40);
    struct ticket ticket = {.answered = receive}, kicks[2] = {{0}};
    char ids[2][32];
    bed.engine->verbs->use_budget(bed.engine, &none); /* so that it takes some turns */
    bed.answer.there = false;
    turn(&list, &ticket);
    for (int i = 0; totals().far_buried == JOBS; i++) {
        assert_true(i < TURNS_MAX && !bed.answer.there);
        turn(NULL, NULL);
    }
    for (unsigned i = 0; i < 2; i++) {
        struct cmd kick = {.kind = CMD_KICK, .job.ref.id = id_of(7 + 7 * i, ids[i])};
        kicks[i].answered = ignore;
        turn(&kick, &kicks[i]);
    }
    for (int i = 0; !bed.answer.there; i++) {
        assert_true(i < TURNS_MAX);
        turn(NULL, NULL);
    }
    rest(20);
    bed.engine->verbs->use_budget(bed.engine, NULL);
    assert_int_equal(totals().jobs[JOB_READY], 2);
}

/* The last two of t are in memory, and so are two of the others, whose records stay in their slice
 * though they have been kicked. */
static void kick_two_that_stay_in_memory(void)
{
    bed.ready_stay = bed.buried_stay = JOBS;
    restart();
    for (unsigned number = JOBS + 3; number < JOBS + 6; number++)
        assert_int_equal(push(number, due_of(number) + 1000 * HOUR_US, IF_EXISTS_REJECT), OK);
    kick_two_of_a_listing();
}

static void small_lists_have(unsigned count)
{
    static const uint32_t sizes[] = {1, 2, 3, 17, 2 * JOBS};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        assert_int_equal(list_in_order(JOB_BURIED, sizes[i], false), count);
        assert_int_equal(list_in_order(JOB_BURIED, sizes[i], true), count);
    }
}

static void jobs_that_were_kicked_during_a_listing_hide_no_others(void **state)
{
    (void)state;
    kick_two_that_stay_in_memory();
    for (int life = 0; life < 2; life++) {
        small_lists_have(OF_T);
        struct cmd peek = on_t(CMD_PEEK, JOB_BURIED, 1);
        assert_int_equal(ask(&peek), OK);
        assert_int_equal(bed.answer.job.due_us, due_of(28));
        restart();
    }
    struct cmd kick = on_t(CMD_KICK_TOPIC, JOB_BURIED, 1);
    assert_int_equal(ask(&kick), OK);
    assert_int_equal(bed.answer.reply.count, 1);
    assert_int_equal(totals().far_buried, JOBS - 3);
}

/* Takes a job of t, and buries it. False: there is none. */
static bool take_and_bury(void)
{
    struct bytes t = BYTES("t");
    struct cmd take = {
        .kind = CMD_RESERVE,
        .reserve = {.topics = &t, .topic_count = 1, .max = 1, .ttr_us = 1000 * HOUR_US}};
    if (ask(&take) != OK)
        return false;
    struct cmd bury = {.kind = CMD_BURY,
                       .job = {.ref.seq = bed.answer.job.ref.seq, .lease = bed.answer.job.lease}};
    assert_int_equal(ask(&bury), OK);
    return true;
}

/* They are buried again, but due at another time than their records say. */
static void jobs_that_are_buried_again_hide_no_others(void **state)
{
    (void)state;
    kick_two_that_stay_in_memory();
    for (int i = 0; i < 2; i++)
        assert_true(take_and_bury());
    small_lists_have(OF_T + 2);
}

static void they_do_not_come_back_when_they_are_due(void **state)
{
    (void)state;
    bed.loop.now_us += 1000 * HOUR_US;
    rest(200);
    assert_int_equal(totals().far_buried, JOBS);
    restart();
    assert_int_equal(totals().far_buried, JOBS);
    assert_int_equal(totals().jobs[JOB_BURIED], JOBS);
    bed.loop.now_us += 1000 * HOUR_US;
    rest(200);
    assert_int_equal(totals().far_buried, JOBS);
    assert_int_equal(totals().jobs[JOB_READY], 0);
}

static void commands_that_name_one_find_it(void **state)
{
    (void)state;
    assert_int_equal(ask_job(CMD_GET, 7), OK);
    assert_int_equal(bed.answer.job.state, JOB_BURIED);
    assert_string_equal(bed.answer.body, "body of 7");
    assert_int_equal(ask_job(CMD_RUN, 7), ERR_WRONG_STATE);
    assert_int_equal(ask_job(CMD_RESCHEDULE, 7), ERR_WRONG_STATE);
    assert_int_equal(ask_job(CMD_FINISH, 7), ERR_WRONG_STATE);
    assert_int_equal(push(7, due_of(7), IF_EXISTS_REJECT), ERR_EXISTS);
    rest(5);
    assert_int_equal(totals().far_buried, JOBS); /* none of that has changed it */
    assert_int_equal(ask_job(CMD_KICK, 7), OK);
    assert_int_equal(bed.answer.job.state, JOB_READY);
    assert_int_equal(bed.answer.job.counts.kicks, 1);
    assert_int_equal(ask_job(CMD_RESERVE_JOB, 8), OK);
    assert_string_equal(bed.answer.body, "body of 8");
    assert_int_equal(ask_job(CMD_DELETE, 9), OK);
    assert_int_equal(ask_job(CMD_GET, 9), ERR_NOT_FOUND);
    assert_int_equal(push(10, due_of(10), IF_EXISTS_REPLACE), OK);
    assert_int_equal(totals().far_buried, JOBS - 4);
    restart();
    assert_int_equal(totals().far_buried, JOBS - 4);
    assert_int_equal(totals().jobs[JOB_READY], 1);
    assert_int_equal(totals().jobs[JOB_RESERVED], 1);
    assert_int_equal(totals().jobs[JOB_BURIED], JOBS - 3);
    assert_int_equal(ask_job(CMD_GET, 9), ERR_NOT_FOUND);
}

/* The far ones come first, by due time: they were buried before those in memory. */
static void the_first_one_is_shown_and_kicked(void **state)
{
    (void)state;
    struct cmd peek = on_t(CMD_PEEK, JOB_BURIED, 1), kick = on_t(CMD_KICK_TOPIC, JOB_BURIED, 1);
    assert_int_equal(push(JOBS + 1, START_US, IF_EXISTS_REJECT), OK);
    uint64_t last = 0;
    int64_t last_us = 0;
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(ask(&peek), OK);
        assert_true(bed.answer.job.due_us >= last_us && bed.answer.job.ref.seq != last);
        assert_true(strncmp(bed.answer.body, "body of ", 8) == 0);
        last = bed.answer.job.ref.seq;
        last_us = bed.answer.job.due_us;
        assert_int_equal(totals().jobs[JOB_READY], i);
        assert_int_equal(ask(&kick), OK);
        assert_int_equal(bed.answer.reply.count, 1);
        struct cmd get = {.kind = CMD_GET, .job.ref.seq = last};
        assert_int_equal(ask(&get), OK);
        assert_int_equal(bed.answer.job.state, JOB_READY);
    }
    assert_true(last_us > START_US);
}

static void kicks_end_when_all_are_kicked(void **state)
{
    (void)state;
    struct cmd kick = on_t(CMD_KICK_TOPIC, JOB_GONE, 45); /* as beanstalkd: buried ones, if any */
    unsigned kicked = 0;
    for (unsigned number = JOBS; number < JOBS + 30; number++)
        assert_int_equal(push(number, due_of(number), IF_EXISTS_REJECT), OK);
    do {
        assert_int_equal(ask(&kick), OK);
        assert_true(bed.answer.reply.count > 0 && bed.answer.reply.count <= 45);
        kicked += bed.answer.reply.count;
    } while (bed.answer.reply.more);
    assert_int_equal(kicked, OF_T + 20);
    assert_int_equal(totals().jobs[JOB_READY], kicked);
    assert_int_equal(totals().jobs[JOB_BURIED], JOBS / 3 + 10);
    restart();
    assert_int_equal(totals().jobs[JOB_READY], kicked);
    assert_int_equal(totals().jobs[JOB_BURIED], JOBS / 3 + 10);
}

static void submit(const struct cmd *cmd, struct ticket *ticket)
{
    ticket->answered = ignore;
    (void)bed.engine->verbs->submit(bed.engine, cmd, ticket);
}

/*
 * A kick looks for the first buried job; that and the last other one end in the turn in which its
 * record comes. Then it is the turn of the delayed ones, of which the first is due before both.
 */
static void a_kick_whose_buried_jobs_end_goes_on_with_the_first_delayed_one(void **state)
{
    (void)state;
    enum { FIRST = 1, LAST = 2, DELAYED = 20 }; /* both are of t */
    char id[32];
    for (unsigned number = 0; number < JOBS; number++)
        if (number != FIRST && number != LAST)
            assert_int_equal(ask_job(CMD_DELETE, number), OK);
    bed.buries = false;
    for (unsigned i = 0; i < DELAYED; i++)
        assert_int_equal(push(JOBS + 1 + 3 * i, START_US + HOUR_US + (int64_t)i, IF_EXISTS_REJECT),
                         OK);
    grow_log();
    assert_int_equal(totals().far_buried, 2);
    assert_int_equal(totals().far, DELAYED);
    struct cmd kick = on_t(CMD_KICK_TOPIC, JOB_GONE, 1);
    struct cmd first = {.kind = CMD_DELETE, .job.ref.id = id_of(FIRST, id)};
    struct ticket of_kick = {.answered = receive}, of_first, of_last;
    bed.answer.there = false;
    bed.engine->verbs->begin(bed.engine);
    (void)bed.engine->verbs->submit(bed.engine, &kick, &of_kick);
    submit(&first, &of_first);
    struct cmd last = {.kind = CMD_DELETE, .job.ref.id = id_of(LAST, id)};
    submit(&last, &of_last);
    (void)bed.engine->verbs->end(bed.engine);
    turn(NULL, NULL); /* the kick begins */
    for (int i = 0; i < 10; i++)
        (void)sim_disk_step(bed.disk, LANE_READ);
    for (int i = 0; !bed.answer.there; i++) {
        assert_true(i < TURNS_MAX);
        turn(NULL, NULL);
    }
    assert_int_equal(totals().jobs[JOB_BURIED], 0);
    assert_int_equal(bed.answer.reply.err, OK);
    assert_int_equal(bed.answer.reply.count, 1);
    struct cmd get = {.kind = CMD_GET, .job.ref.id = id_of(JOBS + 1, id)};
    assert_int_equal(ask(&get), OK);
    assert_int_equal(bed.answer.job.state, JOB_READY);
}

static void a_topic_is_cleared_of_them(void **state)
{
    (void)state;
    for (unsigned number = JOBS; number < JOBS + 30; number++)
        assert_int_equal(push(number, due_of(number), IF_EXISTS_REJECT), OK);
    assert_int_equal(clear_t(JOB_BURIED), OF_T + 20);
    restart();
    assert_int_equal(totals().jobs[JOB_BURIED], JOBS / 3 + 10);
    assert_true(totals().far_buried >= JOBS / 3);
    struct cmd peek = on_t(CMD_PEEK, JOB_BURIED, 1);
    assert_int_equal(ask(&peek), ERR_NOT_FOUND);
}

static void what_goes_through_them_ends_though_none_can_be_read(void **state)
{
    (void)state;
    struct cmd clear = on_t(CMD_CLEAR_TOPIC, JOB_BURIED, 60), peek = on_t(CMD_PEEK, JOB_BURIED, 1);
    struct cmd kick = on_t(CMD_KICK_TOPIC, JOB_BURIED, 60), list = on_t(CMD_LIST, JOB_BURIED, 60);
    damage_slices();
    assert_int_equal(ask(&list), OK);
    assert_int_equal(ask(&peek), bed.answer.reply.count ? OK : ERR_NOT_FOUND);
    assert_int_equal(ask(&kick), OK);
    unsigned asked = 0;
    do {
        assert_int_equal(ask(&clear), OK);
        assert_true(asked++ < 100);
    } while (bed.answer.reply.more);
    assert_true(totals().jobs[JOB_BURIED] > JOBS / 3); /* they are told of, not hidden */
}

static void p8_so_many_stay_in_memory(void **state)
{
    (void)state;
    memset(&bed, 0, sizeof(bed));
    bed.buries = true;
    bed.buried_stay = JOBS;
    fill(false);
    assert_int_equal(totals().far_buried, 0);
    for (unsigned number = JOBS; number < 2 * JOBS; number++)
        assert_int_equal(push(number, due_of(number), IF_EXISTS_REJECT), OK);
    grow_log();
    assert_true(totals().far_buried > 0);
    assert_int_equal(totals().jobs[JOB_BURIED], 2 * JOBS);
    restart();
    assert_int_equal(totals().jobs[JOB_BURIED], 2 * JOBS);
}

/* Far jobs that came back because they were due: their records lie in slices of delayed jobs. */
static void p8_those_that_came_back_leave_memory_as_others_do(void **state)
{
    enum { STAY = 20 };
    (void)state;
    memset(&bed, 0, sizeof(bed));
    bed.buried_stay = STAY;
    (void)set_up(false);
    bed.loop.now_us += 1000 * HOUR_US;
    rest(100);
    for (unsigned i = 0; i < OF_T; i++)
        assert_true(take_and_bury());
    assert_false(take_and_bury());
    assert_int_equal(totals().jobs[JOB_BURIED], OF_T);
    for (int i = 0; i < 200; i++) {
        bed.loop.now_us += 10000;
        rest(1);
    }
    grow_log();
    assert_int_equal(totals().jobs[JOB_BURIED], OF_T);
    assert_in_range(totals().far_buried, OF_T - STAY, OF_T);
    restart();
    lists_have(JOB_BURIED, OF_T);
}

#define BURIED(name)                                                                               \
    cmocka_unit_test_setup_teardown(name, setup_buried_cold, teardown),                            \
        cmocka_unit_test_setup_teardown(name, setup_buried_warm, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BURIED(a_listing_shows_buried_jobs_once_each_in_order),
        BURIED(jobs_that_were_kicked_during_a_listing_hide_no_others),
        BURIED(jobs_that_are_buried_again_hide_no_others),
        BURIED(they_do_not_come_back_when_they_are_due),
        BURIED(commands_that_name_one_find_it),
        BURIED(the_first_one_is_shown_and_kicked),
        BURIED(kicks_end_when_all_are_kicked),
        cmocka_unit_test_setup_teardown(
            a_kick_whose_buried_jobs_end_goes_on_with_the_first_delayed_one, setup_buried_cold,
            teardown),
        BURIED(a_topic_is_cleared_of_them),
        BURIED(what_goes_through_them_ends_though_none_can_be_read),
        cmocka_unit_test_teardown(p8_so_many_stay_in_memory, teardown),
        cmocka_unit_test_teardown(p8_those_that_came_back_leave_memory_as_others_do, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
