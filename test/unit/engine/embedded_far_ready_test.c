/*
 * Ready jobs that are not in memory, through the embedded engine: they are handed out in order, all
 * commands work on them as on others, and a restart finds them where they were.
 */
#include <stdlib.h>

#include "core/far.h"
#include "core/front.h"
#include "embedded_far_bed.h"
#include "engine/embedded/parts.h"
#include "store/far.h"

enum { OF_T = JOBS / 3 * 2, MANY_MAX = 2 * JOBS + 100 };

static int set_up_ready(bool cold)
{
    memset(&bed, 0, sizeof(bed));
    bed.readies = true;
    fill(cold);
    assert_int_equal(totals().far_ready, JOBS);
    assert_int_equal(totals().jobs[JOB_READY], JOBS);
    assert_int_equal(totals().far + totals().far_buried, 0);
    return 0;
}

static int setup_ready_cold(void **state)
{
    (void)state;
    return set_up_ready(true);
}

static int setup_ready_warm(void **state)
{
    (void)state;
    return set_up_ready(false);
}

/* ---- the order in which they are handed out ---- */

/* The numbers of jobs in that order, which are in `in`: the seq of number n is that of the bed's
   pushes, so they grow together. */
static int compare(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    if (x % 4 != y % 4)
        return x % 4 < y % 4 ? -1 : 1;
    if (due_of(x) != due_of(y))
        return due_of(x) < due_of(y) ? -1 : 1;
    return x < y ? -1 : x > y;
}

struct order {
    unsigned numbers[MANY_MAX];
    unsigned count, next;
};

static void expect_some(struct order *order, unsigned from, unsigned to, bool t, bool u)
{
    for (unsigned number = from; number < to; number++)
        if (number % 3 ? t : u)
            order->numbers[order->count++] = number;
    qsort(order->numbers + order->next, order->count - order->next, sizeof(unsigned), compare);
}

static enum err reserve(bool t, bool u, uint32_t max, int64_t wait_us)
{
    struct bytes topics[2] = {BYTES("t"), BYTES("u")};
    struct cmd cmd = {.kind = CMD_RESERVE,
                      .reserve = {.topics = t ? topics : topics + 1,
                                  .topic_count = (uint32_t)(t && u ? 2 : 1),
                                  .max = max,
                                  .wait_us = wait_us,
                                  .ttr_us = 1000 * HOUR_US}};
    return ask(&cmd);
}

static void check_reserved(struct order *order)
{
    char body[40];
    assert_int_equal(bed.answer.reply.err, OK);
    assert_true(bed.answer.reply.count > 0);
    for (uint32_t i = 0; i < bed.answer.reply.count; i++) {
        assert_true(order->next < order->count);
        struct cmd get = {.kind = CMD_GET, .job.ref.seq = bed.answer.seqs[i]};
        struct answer reserved = bed.answer;
        assert_int_equal(ask(&get), OK);
        (void)snprintf(body, sizeof(body), "body of %u", order->numbers[order->next++]);
        assert_string_equal(bed.answer.body, body);
        assert_int_equal(bed.answer.job.state, JOB_RESERVED);
        bed.answer = reserved;
    }
}

/* Takes the next ones, some at a time. */
static void take(struct order *order, bool t, bool u, unsigned count)
{
    for (unsigned end = order->next + count; order->next < end;) {
        unsigned left = end - order->next;
        assert_int_equal(reserve(t, u, left < 7 ? left : 7, 0), OK);
        check_reserved(order);
    }
}

static void they_are_handed_out_in_order(void **state)
{
    (void)state;
    struct order order = {0};
    expect_some(&order, 0, JOBS, true, false);
    take(&order, true, false, 20);
    assert_true(totals().far_ready >= JOBS - 20 - 2 * CORE_FRONT_LEAST); /* not many come ahead */
    /* New ones find their place among them, in front of all others or behind. */
    for (unsigned number = JOBS; number < JOBS + 30; number++)
        assert_int_equal(push(number, due_of(number), IF_EXISTS_REJECT), OK);
    expect_some(&order, JOBS, JOBS + 30, true, false);
    take(&order, true, false, 100);
    restart();
    take(&order, true, false, order.count - order.next);
    assert_int_equal(reserve(true, false, 7, 0), ERR_EMPTY);
    assert_int_equal(totals().jobs[JOB_READY], JOBS / 3 + 10);
    assert_true(totals().far_ready >= JOBS / 3);
    assert_int_equal(totals().jobs[JOB_RESERVED], OF_T + 20);
}

static void of_several_topics_the_first_of_all_comes_first(void **state)
{
    (void)state;
    struct order order = {0};
    expect_some(&order, 0, JOBS, true, true);
    take(&order, true, true, JOBS);
    assert_int_equal(reserve(true, true, 7, 0), ERR_EMPTY);
    assert_int_equal(totals().far_ready, 0);
}

static void a_failed_attempt_and_its_end_are_kept(void **state)
{
    (void)state;
    struct order order = {0};
    uint64_t seqs[3];
    expect_some(&order, 0, JOBS, true, false);
    for (unsigned i = 0; i < 3; i++) {
        take(&order, true, false, 1);
        seqs[i] = bed.answer.seqs[0];
    }
    struct cmd finish = {.kind = CMD_FINISH, .job.ref.seq = seqs[0]};
    struct cmd bury = {.kind = CMD_BURY, .job.ref.seq = seqs[1]};
    struct cmd back = {.kind = CMD_RELEASE,
                       .job = {.ref.seq = seqs[2], .why = RELEASE_UNDELIVERED}};
    assert_int_equal(ask(&finish), OK);
    assert_int_equal(ask(&bury), OK);
    assert_int_equal(ask(&back), OK);
    for (int life = 0; life < 2; life++) {
        assert_int_equal(totals().jobs[JOB_READY], JOBS - 2);
        assert_int_equal(totals().jobs[JOB_BURIED], 1);
        assert_int_equal(ask(&(struct cmd){.kind = CMD_GET, .job.ref.seq = seqs[0]}),
                         ERR_NOT_FOUND);
        restart();
    }
    order.next = 2; /* the third one, again */
    take(&order, true, false, OF_T - 2);
}

/* Nobody is told that there is none while one is being read, and who waits gets it. */
static void who_waits_is_served_in_turn(void **state)
{
    (void)state;
    struct order order = {0};
    struct bytes t = BYTES("t");
    struct ticket tickets[2] = {{.answered = receive}, {.answered = receive}};
    expect_some(&order, 0, JOBS, true, false);
    struct cmd pause = {.kind = CMD_PAUSE,
                        .topic = {.topic = t, .pause_until_us = bed.loop.now_us + SECOND_US}};
    assert_int_equal(ask(&pause), OK);
    assert_int_equal(reserve(true, false, 1, 0), ERR_EMPTY); /* it is paused */
    bed.answer.there = false;
    struct cmd cmd = {
        .kind = CMD_RESERVE,
        .reserve = {
            .topics = &t, .topic_count = 1, .max = 1, .wait_us = HOUR_US, .ttr_us = HOUR_US}};
    turn(&cmd, &tickets[0]);
    turn(&cmd, &tickets[1]);
    bed.engine->verbs->cancel(bed.engine, &tickets[1]); /* P6 */
    rest(50);
    assert_false(bed.answer.there);
    assert_int_equal(totals().far_ready, JOBS);
    bed.loop.now_us += SECOND_US;
    for (int i = 0; !bed.answer.there; i++) {
        assert_true(i < TURNS_MAX);
        turn(NULL, NULL);
    }
    check_reserved(&order);
    rest(50);
    assert_int_equal(totals().jobs[JOB_RESERVED], 1);
}

/* Not only those that happen to be read first. */
static void who_wants_many_gets_many(void **state)
{
    (void)state;
    struct order order = {0};
    expect_some(&order, 0, JOBS, true, false);
    assert_int_equal(reserve(true, false, JOBS, 0), OK);
    assert_true(bed.answer.reply.count >= 60);
    check_reserved(&order);
    take(&order, true, false, order.count - order.next);
}

static struct cmd reserve_of(const struct bytes *topics, uint32_t count, uint32_t max)
{
    return (struct cmd){.kind = CMD_RESERVE,
                        .reserve = {.topics = topics,
                                    .topic_count = count,
                                    .max = max,
                                    .wait_us = 1000 * HOUR_US,
                                    .ttr_us = HOUR_US}};
}

/* When the last one of those that are read together has come they are not held any more. */
static void what_has_been_read_whole_is_not_held(void **state)
{
    (void)state;
    enum { HELD_US = 2000 };
    struct bytes t = BYTES("t");
    struct ticket ticket = {.answered = receive};
    struct cmd cmd = reserve_of(&t, 1, 4);
    bed.answer.there = false;
    int64_t begin_us = bed.loop.now_us;
    turn(&cmd, &ticket);
    while (totals().jobs[JOB_RESERVED] == 0 && bed.loop.now_us < begin_us + HELD_US)
        turn(NULL, NULL);
    assert_true(bed.loop.now_us < begin_us + HELD_US / 2); /* each takes a turn, of 10 us */
    rest(50);
    assert_true(bed.answer.there && bed.answer.reply.count == 4);
}

/* What has been read is held for two milliseconds at most. */
static void a_read_that_hangs_holds_up_what_came_before_it_for_a_moment(void **state)
{
    (void)state;
    struct order order = {0};
    struct bytes t = BYTES("t");
    struct ticket ticket = {.answered = receive};
    struct cmd cmd = {
        .kind = CMD_RESERVE,
        .reserve = {
            .topics = &t, .topic_count = 1, .max = 100, .wait_us = HOUR_US, .ttr_us = HOUR_US}};
    expect_some(&order, 0, JOBS, true, false);
    bed.answer.there = false;
    turn(&cmd, &ticket);
    rest(2); /* some are read, and from now on none */
    bed.engine->verbs->begin(bed.engine);
    assert_true(front_next_us(bed.embedded) <= bed.loop.now_us + 2000);
    bed.loop.now_us = front_next_us(bed.embedded);
    assert_false(bed.answer.there);
    bed.engine->verbs->begin(bed.engine);
    bed.engine->verbs->match(bed.engine);
    (void)bed.engine->verbs->end(bed.engine);
    assert_in_range(totals().jobs[JOB_RESERVED], 1, 10);
    rest(300); /* now the others are read, and its body */
    assert_true(bed.answer.there);
    check_reserved(&order);
}

/* While all that one topic may have read is being read, others begin. */
static void a_topic_does_not_wait_for_the_reads_of_another(void **state)
{
    (void)state;
    struct bytes topics[2] = {BYTES("t"), BYTES("u")};
    struct ticket tickets[2] = {{.answered = receive}, {.answered = receive}};
    uint32_t reads = 0;
    for (unsigned i = 0; i < 2; i++) {
        struct cmd cmd = {.kind = CMD_RESERVE,
                          .reserve = {.topics = &topics[i],
                                      .topic_count = 1,
                                      .max = JOBS,
                                      .wait_us = HOUR_US,
                                      .ttr_us = HOUR_US}};
        bed.engine->verbs->begin(bed.engine);
        (void)bed.engine->verbs->submit(bed.engine, &cmd, &tickets[i]);
        bed.engine->verbs->match(bed.engine);
        (void)bed.engine->verbs->end(bed.engine);
        assert_true(bed.embedded->fronts.count > reads);
        reads = bed.embedded->fronts.count;
    }
    for (unsigned i = 0; i < 2; i++)
        bed.engine->verbs->cancel(bed.engine, &tickets[i]);
    rest(300);
    assert_int_equal(bed.embedded->fronts.count, 0);
    assert_int_equal(totals().jobs[JOB_RESERVED], 0);
}

/* The turn's budget is spent before the first one has been asked for: another turn comes. */
static void p2_who_waits_is_not_forgotten_when_the_budget_is_spent(void **state)
{
    (void)state;
    struct bytes t = BYTES("t");
    struct budget budget = {.left_ns = BUDGET_UNLIMITED};
    struct ticket ticket = {.answered = receive};
    struct cmd cmd = {
        .kind = CMD_RESERVE,
        .reserve = {
            .topics = &t, .topic_count = 1, .max = 1, .wait_us = HOUR_US, .ttr_us = HOUR_US}};
    rest(200);
    bed.answer.there = false;
    bed.engine->verbs->use_budget(bed.engine, &budget);
    bed.engine->verbs->begin(bed.engine);
    (void)bed.engine->verbs->submit(bed.engine, &cmd, &ticket);
    bed.engine->verbs->match(bed.engine);
    budget.left_ns = 0;
    assert_true(bed.engine->verbs->end(bed.engine) <= bed.loop.now_us);
    bed.engine->verbs->use_budget(bed.engine, NULL);
    for (int i = 0; !bed.answer.there; i++) {
        assert_true(i < TURNS_MAX);
        turn(NULL, NULL);
    }
    assert_int_equal(bed.answer.reply.count, 1);
}

/* ---- commands ---- */

static void commands_that_name_one_find_it(void **state)
{
    (void)state;
    struct order order = {0};
    assert_int_equal(ask_job(CMD_GET, 7), OK);
    assert_int_equal(bed.answer.job.state, JOB_READY);
    assert_string_equal(bed.answer.body, "body of 7");
    assert_int_equal(ask_job(CMD_RUN, 7), ERR_WRONG_STATE);
    assert_int_equal(ask_job(CMD_KICK, 7), ERR_WRONG_STATE);
    assert_int_equal(ask_job(CMD_RESCHEDULE, 7), ERR_WRONG_STATE);
    assert_int_equal(ask_job(CMD_FINISH, 7), ERR_WRONG_STATE);
    assert_int_equal(push(7, due_of(7), IF_EXISTS_REJECT), ERR_EXISTS);
    rest(5);
    assert_int_equal(totals().far_ready, JOBS); /* none of that has changed it */
    assert_int_equal(ask_job(CMD_RESERVE_JOB, 8), OK);
    assert_string_equal(bed.answer.body, "body of 8");
    assert_int_equal(ask_job(CMD_DELETE, 28), OK); /* one of the first */
    assert_int_equal(ask_job(CMD_GET, 28), ERR_NOT_FOUND);
    assert_int_equal(push(10, due_of(10), IF_EXISTS_REPLACE), OK);
    assert_int_equal(totals().far_ready, JOBS - 3);
    restart();
    assert_int_equal(totals().far_ready, JOBS - 3);
    assert_int_equal(totals().jobs[JOB_READY], JOBS - 2);
    assert_int_equal(totals().jobs[JOB_RESERVED], 1);
    expect_some(&order, 0, 8, true, false);
    expect_some(&order, 9, 28, true, false);
    expect_some(&order, 29, JOBS, true, false);
    take(&order, true, false, order.count);
    assert_int_equal(reserve(true, false, 1, 0), ERR_EMPTY);
}

static void a_listing_shows_ready_jobs_once_each_in_order(void **state)
{
    (void)state;
    for (unsigned number = JOBS; number < JOBS + 30; number++) /* 20 of t, in memory */
        assert_int_equal(push(number, due_of(number), IF_EXISTS_REJECT), OK);
    lists_have(JOB_READY, OF_T + 20);
    rest(10);
    assert_true(totals().far_ready >= JOBS); /* those that were brought in have left again */
    struct order order = {0};
    expect_some(&order, 0, JOBS + 30, true, false);
    take(&order, true, false, 50); /* the order is what it was */
}

/* It is the one that is handed out next, not the one that was due first. */
static void the_first_one_is_shown(void **state)
{
    (void)state;
    struct order order = {0};
    struct cmd peek = on_t(CMD_PEEK, JOB_READY, 1);
    char body[40];
    expect_some(&order, 0, JOBS, true, false);
    for (unsigned i = 0; i < 40; i++) {
        (void)snprintf(body, sizeof(body), "body of %u", order.numbers[order.next]);
        assert_int_equal(ask(&peek), OK);
        assert_string_equal(bed.answer.body, body);
        take(&order, true, false, 1);
    }
}

static void ignore(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    assert_int_equal(reply->err, OK);
}

/* Its record is being read when it ends: the next one is shown. */
static void the_next_one_is_shown_if_the_first_one_ends_meanwhile(void **state)
{
    (void)state;
    struct order order = {0};
    struct ticket tickets[2] = {{.answered = ignore}, {.answered = receive}};
    struct cmd peek = on_t(CMD_PEEK, JOB_READY, 1), delete = {.kind = CMD_DELETE};
    char id[32], body[40];
    expect_some(&order, 0, JOBS, true, false);
    delete.job.ref.id = id_of(order.numbers[0], id);
    (void)snprintf(body, sizeof(body), "body of %u", order.numbers[1]);
    bed.answer.there = false;
    bed.engine->verbs->begin(bed.engine);
    (void)bed.engine->verbs->submit(bed.engine, &delete, &tickets[0]);
    (void)bed.engine->verbs->submit(bed.engine, &peek, &tickets[1]);
    (void)bed.engine->verbs->end(bed.engine);
    bed.engine->verbs->begin(bed.engine); /* both of the first one are being read now */
    (void)bed.engine->verbs->end(bed.engine);
    for (int i = 0; !bed.answer.there; i++) {
        assert_true(i < TURNS_MAX);
        turn(NULL, NULL);
    }
    assert_int_equal(bed.answer.reply.err, OK);
    assert_string_equal(bed.answer.body, body);
    rest(5);
    assert_int_equal(totals().jobs[JOB_READY], JOBS - 1);
}

/* More than are tidied up at a time were deleted behind the first. */
static void the_first_one_is_shown_behind_many_that_have_ended(void **state)
{
    (void)state;
    enum { MORE = 300, ENDED = 190 };
    struct order order = {0};
    struct cmd peek = on_t(CMD_PEEK, JOB_READY, 1);
    char body[40];
    for (unsigned number = JOBS; number < JOBS + MORE; number++)
        assert_int_equal(push(number, due_of(number), IF_EXISTS_REJECT), OK);
    grow_log();
    assert_true(totals().far_ready >= JOBS + MORE);
    expect_some(&order, 0, JOBS + MORE, true, false);
    for (unsigned i = 1; i <= ENDED; i++)
        assert_int_equal(ask_job(CMD_DELETE, order.numbers[i]), OK);
    assert_int_equal(ask_job(CMD_DELETE, order.numbers[0]), OK);
    assert_int_equal(ask(&peek), OK);
    (void)snprintf(body, sizeof(body), "body of %u", order.numbers[ENDED + 1]);
    assert_string_equal(bed.answer.body, body);
}

static void a_topic_is_cleared_of_them(void **state)
{
    (void)state;
    struct cmd peek = on_t(CMD_PEEK, JOB_READY, 1);
    for (unsigned number = JOBS; number < JOBS + 30; number++)
        assert_int_equal(push(number, due_of(number), IF_EXISTS_REJECT), OK);
    assert_int_equal(clear_t(JOB_READY), OF_T + 20);
    assert_int_equal(reserve(true, false, 1, 0), ERR_EMPTY);
    restart();
    assert_int_equal(totals().jobs[JOB_READY], JOBS / 3 + 10);
    assert_int_equal(ask(&peek), ERR_NOT_FOUND);
    assert_int_equal(reserve(true, false, 1, 0), ERR_EMPTY);
}

/* ---- what cannot be read ---- */

static void damaged_ones_hold_up_nobody(void **state)
{
    (void)state;
    damage_slices();
    assert_int_equal(push(JOBS + 3, due_of(JOBS + 3), IF_EXISTS_REJECT), OK);
    for (unsigned i = 0; i < 3; i++) {
        unsigned taken = 0;
        while (reserve(true, true, 7, 0) == OK)
            taken += bed.answer.reply.count;
        assert_int_equal(bed.answer.reply.err, ERR_EMPTY);
        assert_true(i == 0 ? taken >= 1 : taken == 0);
        bed.loop.now_us += 60 * SECOND_US; /* they are tried again */
        rest(10);
    }
    assert_true(totals().far_ready > JOBS / 2); /* they are told of, not hidden */
    struct cmd peek = on_t(CMD_PEEK, JOB_READY, 1), clear = on_t(CMD_CLEAR_TOPIC, JOB_READY, 60);
    (void)ask(&peek);
    unsigned asked = 0;
    do {
        assert_int_equal(ask(&clear), OK);
        assert_true(asked++ < 100);
    } while (bed.answer.reply.more);
}

/* Each takes the disk a second: those behind them come when all have been tried once. */
static void p2_a_disk_that_fails_slowly_holds_up_nobody_for_ever(void **state)
{
    (void)state;
    struct bytes t = BYTES("t");
    struct ticket ticket = {.answered = receive};
    struct cmd cmd = reserve_of(&t, 1, 1);
    unsigned tried = 0;
    damage_slices();
    assert_int_equal(push(JOBS + 7, due_of(JOBS + 7), IF_EXISTS_REJECT), OK); /* the last of t */
    bed.answer.there = false;
    for (turn(&cmd, &ticket); !bed.answer.there; tried++) {
        assert_true(tried < 2 * OF_T);
        bed.loop.now_us += SECOND_US;
        turn(NULL, NULL);
    }
    assert_int_equal(bed.answer.reply.count, 1);
    assert_string_equal(bed.answer.body, "body of 307");
    /* They are tried again when much more time than that has gone by. */
    assert_true(front_next_us(bed.embedded) > bed.loop.now_us + 5 * (int64_t)tried * SECOND_US);
    assert_true(front_next_us(bed.embedded) < bed.loop.now_us + HOUR_US);
}

/* 20 and 200 seconds after the first one: the last fails when the others have long been tried. */
static void p2_one_that_fails_much_later_does_not_put_the_others_off(void **state)
{
    (void)state;
    struct bytes t = BYTES("t");
    struct ticket ticket = {.answered = receive};
    struct cmd cmd = reserve_of(&t, 1, 1);
    const struct fronts *fronts = &bed.embedded->fronts;
    damage_slices();
    bed.answer.there = false;
    turn(&cmd, &ticket);
    for (int i = 0; fronts->retry_at_us == INT64_MAX; i++) {
        assert_true(i < TURNS_MAX);
        turn(NULL, NULL);
    }
    int64_t first_us = bed.loop.now_us, retry_us = fronts->retry_at_us;
    bed.loop.now_us = first_us + 20 * SECOND_US;
    turn(NULL, NULL);
    assert_true(fronts->retry_at_us > retry_us); /* it has failed, too */
    retry_us = fronts->retry_at_us;
    assert_in_range(retry_us - first_us, 229 * SECOND_US, 231 * SECOND_US);
    bed.loop.now_us = first_us + 200 * SECOND_US;
    int64_t before_us = fronts->report_us;
    turn(NULL, NULL);
    assert_true(fronts->report_us > before_us); /* it has failed */
    assert_int_equal(fronts->retry_at_us, retry_us);
    bed.engine->verbs->cancel(bed.engine, &ticket);
}

/* Whole records that are not those that the index tells of: here their ids have other hashes. */
static void records_that_do_not_fit_their_entries_hold_up_nobody(void **state)
{
    (void)state;
    struct core *core = bed.embedded->core;
    unsigned taken = 0;
    bool far;
    core_use_far_key(core, store_far_key(bed.embedded->store) + 1);
    assert_int_equal(push(JOBS + 3, due_of(JOBS + 3), IF_EXISTS_REJECT), OK);
    do {
        far = reserve(true, true, 7, 0) != OK;
        taken += far ? 0 : bed.answer.reply.count;
    } while (!far);
    assert_int_equal(bed.answer.reply.err, ERR_EMPTY);
    assert_true(taken >= 1 && totals().far_ready > JOBS / 2);
    rest(3);
    bed.engine->verbs->begin(bed.engine);
    assert_true(bed.engine->verbs->end(bed.engine) > bed.loop.now_us); /* it sleeps */
    core_use_far_key(core, store_far_key(bed.embedded->store));
    bed.loop.now_us += 60 * SECOND_US; /* they are tried again */
    rest(10);
    while (reserve(true, true, 7, 0) == OK)
        taken += bed.answer.reply.count;
    assert_int_equal(taken, JOBS + 1);
}

/* ---- memory ---- */

static void p8_so_many_stay_in_memory(void **state)
{
    (void)state;
    memset(&bed, 0, sizeof(bed));
    bed.readies = true;
    bed.ready_stay = JOBS + 1; /* and the filler */
    fill(false);
    assert_int_equal(totals().far_ready, 0);
    for (unsigned number = JOBS; number < 2 * JOBS; number++)
        assert_int_equal(push(number, due_of(number), IF_EXISTS_REJECT), OK);
    grow_log();
    assert_true(totals().far_ready > JOBS / 2 && totals().far_ready <= JOBS);
    restart();
    struct order order = {0};
    expect_some(&order, 0, 2 * JOBS, true, true);
    take(&order, true, true, 2 * JOBS);
}

/* A consumer fails with each of them, one after the other: that of number 0, 4, 8 … waits a moment
   then, as its schedule says. */
static void give_back_all(const struct order *order)
{
    char id[32];
    for (unsigned i = 0; i < order->count; i++) {
        struct cmd cmd = {.kind = CMD_RELEASE, .job.ref.id = id_of(order->numbers[i], id)};
        assert_int_equal(ask(&cmd), OK);
    }
}

/* What is true of them is in the log, and not in the slices that they came from. */
static void p8_those_that_were_given_back_leave_memory_as_others_do(void **state)
{
    enum { STAY = 20 };
    (void)state;
    memset(&bed, 0, sizeof(bed));
    bed.readies = true;
    bed.ready_stay = STAY;
    fill(false);
    for (int life = 0; life < 2; life++) {
        struct order order = {0};
        expect_some(&order, 0, JOBS, true, false);
        take(&order, true, false, OF_T);
        assert_int_equal(reserve(true, false, 1, 0), ERR_EMPTY);
        give_back_all(&order);
        assert_int_equal(totals().jobs[JOB_READY], JOBS);
        for (int i = 0; i < 3; i++) {
            grow_log();
            bed.loop.now_us += SECOND_US;
        }
        assert_int_equal(totals().jobs[JOB_READY], JOBS);
        assert_in_range(totals().far_ready, JOBS - 3 * STAY, JOBS - STAY);
        if (life)
            restart();
        lists_have(JOB_READY, OF_T);
    }
    struct order order = {0};
    expect_some(&order, 0, JOBS, true, false);
    take(&order, true, false, OF_T); /* in the order in which they were given back */
    assert_int_equal(reserve(true, false, 1, 0), ERR_EMPTY);
}

/* Consumers take what has left memory though there is none for pushes. */
static void p8_they_are_handed_out_when_memory_is_short(void **state)
{
    (void)state;
    struct order order = {0};
    expect_some(&order, 0, JOBS, true, true);
    bed.memory_bytes = 1;
    restart();
    assert_int_equal(push(JOBS, due_of(JOBS), IF_EXISTS_REJECT), ERR_MEMORY_LIMIT);
    take(&order, true, true, JOBS);
}

/* ---- delayed ones that fall due ---- */

static int set_up_due(bool cold)
{
    memset(&bed, 0, sizeof(bed));
    bed.falls_due = true;
    fill(cold);
    assert_int_equal(totals().far, JOBS);
    return 0;
}

static int setup_due_cold(void **state)
{
    (void)state;
    return set_up_due(true);
}

static int setup_due_warm(void **state)
{
    (void)state;
    return set_up_due(false);
}

/* Some are near first and then due, others are due when they are loaded. */
static void fall_due(bool slowly)
{
    for (int64_t hours = 0; slowly && hours < 200; hours++) {
        bed.loop.now_us = START_US + hours * HOUR_US - 60 * SECOND_US;
        rest(60);
        bed.loop.now_us += 45 * SECOND_US;
        rest(20);
    }
    bed.loop.now_us = START_US + 300 * HOUR_US;
    rest(1000);
}

static void check_due(void)
{
    struct order order = {0};
    assert_int_equal(totals().jobs[JOB_READY], JOBS);
    assert_int_equal(totals().far_ready, JOBS); /* nobody has waited for them */
    lists_have(JOB_READY, OF_T);
    assert_int_equal(totals().far_ready, JOBS);
    assert_int_equal(ask_job(CMD_GET, 7), OK);
    assert_int_equal(bed.answer.job.state, JOB_READY);
    assert_int_equal(ask_job(CMD_DELETE, 299), OK);
    expect_some(&order, 0, 299, true, true);
    take(&order, true, true, 100);
    restart();
    rest(1000);
    assert_int_equal(totals().jobs[JOB_READY], 199);
    assert_true(totals().far_ready > 100);
    take(&order, true, true, 199);
    assert_int_equal(reserve(true, true, 1, 0), ERR_EMPTY);
}

static void p8_what_falls_due_while_nobody_waits_stays_out_of_memory(void **state)
{
    (void)state;
    fall_due(false);
    check_due();
}

static void p8_so_does_what_was_near_before(void **state)
{
    (void)state;
    fall_due(true);
    check_due();
}

static bool happens_on;

static void receive_history(struct ticket *ticket, const struct reply *reply)
{
    (void)ticket;
    assert_int_equal(reply->err, OK);
    happens_on = reply->happens_on;
    bed.answer.there = true;
}

/* Else its history would not say that it has fallen due. */
static void its_history_goes_on_while_it_is_not_in_memory(void **state)
{
    (void)state;
    char id[32];
    struct ticket ticket = {.answered = receive_history};
    struct cmd cmd = {.kind = CMD_GET, .job = {.ref.id = id_of(7, id), .history = true}};
    memset(&bed, 0, sizeof(bed));
    bed.falls_due = bed.keeps_history = true;
    fill(true);
    bed.loop.now_us = due_of(7) + 5 * SECOND_US;
    rest(1000);
    assert_true(totals().far_ready > 0);
    for (int lives = 1; lives >= 0; lives--) {
        bed.answer.there = false;
        turn(&cmd, &ticket);
        for (int i = 0; !bed.answer.there; i++) {
            assert_true(i < TURNS_MAX);
            turn(NULL, NULL);
        }
        assert_int_equal(happens_on, lives);
        assert_int_equal(ask_job(CMD_DELETE, 7), lives ? OK : ERR_NOT_FOUND);
    }
}

static void p3_who_waits_gets_what_falls_due(void **state)
{
    (void)state;
    struct bytes t = BYTES("t");
    struct ticket ticket = {.answered = receive};
    struct cmd cmd = {.kind = CMD_RESERVE,
                      .reserve = {.topics = &t,
                                  .topic_count = 1,
                                  .max = 1,
                                  .wait_us = 1000 * HOUR_US,
                                  .ttr_us = HOUR_US}};
    bed.answer.there = false;
    turn(&cmd, &ticket);
    bed.loop.now_us = due_of(7) - SECOND_US;
    rest(100);
    assert_false(bed.answer.there);
    bed.loop.now_us = due_of(7);
    rest(3);
    assert_true(bed.answer.there && bed.answer.reply.count == 1);
    assert_true(bed.answer.job.due_us == due_of(7));
}

#define READY(name)                                                                                \
    cmocka_unit_test_setup_teardown(name, setup_ready_cold, teardown),                             \
        cmocka_unit_test_setup_teardown(name, setup_ready_warm, teardown)
#define DUE(name)                                                                                  \
    cmocka_unit_test_setup_teardown(name, setup_due_cold, teardown),                               \
        cmocka_unit_test_setup_teardown(name, setup_due_warm, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        READY(they_are_handed_out_in_order),
        READY(of_several_topics_the_first_of_all_comes_first),
        READY(a_failed_attempt_and_its_end_are_kept),
        READY(who_waits_is_served_in_turn),
        READY(who_wants_many_gets_many),
        cmocka_unit_test_setup_teardown(what_has_been_read_whole_is_not_held, setup_ready_cold,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_read_that_hangs_holds_up_what_came_before_it_for_a_moment,
                                        setup_ready_cold, teardown),
        cmocka_unit_test_setup_teardown(a_topic_does_not_wait_for_the_reads_of_another,
                                        setup_ready_cold, teardown),
        READY(p2_who_waits_is_not_forgotten_when_the_budget_is_spent),
        READY(commands_that_name_one_find_it),
        READY(a_listing_shows_ready_jobs_once_each_in_order),
        READY(the_first_one_is_shown),
        cmocka_unit_test_setup_teardown(the_next_one_is_shown_if_the_first_one_ends_meanwhile,
                                        setup_ready_cold, teardown),
        READY(the_first_one_is_shown_behind_many_that_have_ended),
        READY(a_topic_is_cleared_of_them),
        READY(damaged_ones_hold_up_nobody),
        cmocka_unit_test_setup_teardown(p2_a_disk_that_fails_slowly_holds_up_nobody_for_ever,
                                        setup_ready_cold, teardown),
        cmocka_unit_test_setup_teardown(p2_one_that_fails_much_later_does_not_put_the_others_off,
                                        setup_ready_cold, teardown),
        READY(records_that_do_not_fit_their_entries_hold_up_nobody),
        READY(p8_they_are_handed_out_when_memory_is_short),
        cmocka_unit_test_teardown(p8_so_many_stay_in_memory, teardown),
        cmocka_unit_test_teardown(p8_those_that_were_given_back_leave_memory_as_others_do,
                                  teardown),
        DUE(p8_what_falls_due_while_nobody_waits_stays_out_of_memory),
        DUE(p8_so_does_what_was_near_before),
        DUE(p3_who_waits_gets_what_falls_due),
        cmocka_unit_test_teardown(its_history_goes_on_while_it_is_not_in_memory, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
