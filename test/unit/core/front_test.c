/*
 * Ready jobs that are not in memory: who waits for them, what cannot be read, entries that are not
 * needed any more, and what each takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/far_hash.h"
#include "base/mem.h"
#include "core/far.h"
#include "core/front.h"
#include "core_bed.h"

enum { SECOND = 1000000, START = 1000 * SECOND, TTR = 10 * SECOND, KEY = 5 };

static struct core_bed bed;
static char id_room[32];

static void open_bed(struct core_limits limits)
{
    limits.topics = limits.waiters = 10;
    limits.jobs = 10000000;
    core_bed_open(&bed, limits, START);
    core_use_far_key(bed.core, KEY);
}

static int setup(void **state)
{
    (void)state;
    open_bed((struct core_limits){0});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    core_bed_close(&bed);
    return mem_used() == 0 ? 0 : -1;
}

static void do_cmd(const struct cmd *cmd)
{
    (void)core_apply(bed.core, START, cmd, &bed);
}

/* Of the job of this number, as a store would have read it. */
static struct event record_of(uint64_t seq, uint32_t priority)
{
    (void)snprintf(id_room, sizeof(id_room), "an-id-of-order-%05llx", (unsigned long long)seq);
    return (struct event){
        .kind = EVENT_JOB,
        .job = {.seq = seq, .state = JOB_READY, .due_us = START, .priority = priority},
        .id = bytes_str(id_room),
        .topic = BYTES("t"),
        .ttr_us = TTR,
        .created_us = START,
        .record = {.where = UINT64_C(9) << 32 | seq, .bytes = 50}};
}

/* Numbers count up from 1. */
static void push(uint64_t seq, uint32_t priority)
{
    struct event event = record_of(seq, priority);
    do_cmd(&(struct cmd){.kind = CMD_PUSH,
                         .push = {.id = event.id,
                                  .topic = event.topic,
                                  .due_us = START,
                                  .ttr_us = TTR,
                                  .priority = priority}});
    assert_int_equal(bed.reply.err, OK);
    assert_int_equal(bed.first.ref.seq, seq);
}

static bool depart(uint64_t seq, uint32_t priority)
{
    struct event event = record_of(seq, priority), out;
    return core_spill(bed.core, &event, 1, START, &out) && core_depart(bed.core, seq, event.record);
}

static void push_far(uint64_t seq, uint32_t priority)
{
    push(seq, priority);
    assert_true(depart(seq, priority));
}

static struct core_totals totals(void)
{
    struct core_totals now;
    core_totals(bed.core, &now);
    return now;
}

static uint64_t reserve_many(uint32_t max, int64_t wait_us)
{
    struct bytes topic = BYTES("t");
    struct cmd cmd = {
        .kind = CMD_RESERVE,
        .reserve = {.topics = &topic, .topic_count = 1, .max = max, .wait_us = wait_us}};
    bed.reply.err = ERR_IO;
    bed.first.ref.seq = 0;
    return core_apply(bed.core, START, &cmd, &bed);
}

static uint64_t reserve(int64_t wait_us)
{
    return reserve_many(1, wait_us);
}

/* Ten million jobs of a consumer that is down: the bar is 64 bytes each. */
static void p8_a_far_ready_job_takes_at_most_64_bytes(void **state)
{
    (void)state;
    enum { MANY = 300000 };
    size_t before_bytes = mem_used();
    for (uint64_t seq = 1; seq <= MANY; seq++)
        push_far(seq, 0);
    while (core_tick(bed.core, START, 1000))
        ;
    assert_int_equal(totals().far_ready, MANY);
    assert_in_range((mem_used() - before_bytes) / MANY, 40, 64);
}

static void it_is_handed_out_only_when_those_before_it_have_come(void **state)
{
    (void)state;
    struct core_front front;
    push_far(1, 7);
    push_far(2, 5);
    push_far(3, 9);
    push(4, 8);
    assert_false(core_front(bed.core, &front)); /* nobody wants any */
    uint64_t parked = reserve(0);
    assert_true(parked != 0); /* it waits, though it would not wait for a job to be pushed */
    assert_true(core_front(bed.core, &front));
    assert_true(front.count == 3 && front.jobs[0].seq == 2 && front.jobs[1].seq == 1);
    struct event event = record_of(1, 7);
    assert_true(core_front_arrive(bed.core, &event)); /* the disk is not in order */
    assert_false(core_match(bed.core, START, 10));
    assert_int_equal(bed.first.ref.seq, 0);
    event = record_of(2, 5);
    assert_true(core_front_arrive(bed.core, &event));
    assert_false(core_front_arrive(bed.core, &event));
    assert_false(core_match(bed.core, START, 10));
    assert_int_equal(bed.first.ref.seq, 2);
    static const uint64_t then[] = {1, 4};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(reserve(0), 0); /* at once */
        assert_int_equal(bed.first.ref.seq, then[i]);
    }
    parked = reserve(SECOND);
    core_cancel(bed.core, parked);
    assert_false(core_front(bed.core, &front)); /* P6: nobody wants it any more */
    core_valid(bed.core);
}

/* Nobody gets the job in memory before the far one of the other topic: it may come at the end of a
   turn, when all that was to be handed out has been. */
static void p2_what_held_up_who_waits_makes_a_turn_when_it_comes(void **state)
{
    (void)state;
    struct bytes topics[2] = {BYTES("t"), BYTES("u")};
    struct core_front front;
    struct cmd push_to_u = {.kind = CMD_PUSH,
                            .push = {.topic = topics[1], .ttr_us = TTR, .priority = 9}};
    struct cmd both = {
        .kind = CMD_RESERVE,
        .reserve = {.topics = topics, .topic_count = 2, .max = 1, .wait_us = SECOND}};
    push_far(1, 5);
    do_cmd(&push_to_u);
    push_far(3, 6);
    struct event event = record_of(1, 5);
    for (int readable = 1; readable >= 0; readable--) {
        assert_true(core_apply(bed.core, START, &both, &bed) != 0);
        assert_true(core_front(bed.core, &front));
        assert_false(core_match(bed.core, START, 10));
        assert_true(core_next_us(bed.core) > START);
        if (readable)
            assert_true(core_front_arrive(bed.core, &event));
        else
            core_front_unread(bed.core, front.topic, 3, front.jobs[0].where);
        assert_true(core_next_us(bed.core) <= START);
        (void)core_match(bed.core, START, 10);
        assert_int_equal(bed.first.ref.seq, readable ? 1 : 2);
    }
    core_valid(bed.core);
}

static void as_many_are_to_come_as_consumers_want(void **state)
{
    (void)state;
    enum { JOBS = CORE_FRONT_MAX + 20 };
    struct core_front front;
    for (uint64_t seq = 1; seq <= JOBS; seq++)
        push_far(seq, 0);
    uint64_t one = reserve(SECOND);
    assert_true(core_front(bed.core, &front));
    assert_true(front.count == CORE_FRONT_LEAST && !front.many);
    uint64_t some = reserve_many(70, SECOND);
    assert_true(core_front(bed.core, &front));
    assert_true(front.count == 71 && front.many && front.jobs[70].seq == 71);
    uint64_t all = reserve_many(UINT32_MAX, SECOND);
    assert_true(core_front(bed.core, &front));
    assert_true(front.count == CORE_FRONT_MAX &&
                front.jobs[CORE_FRONT_MAX - 1].seq == CORE_FRONT_MAX);
    core_cancel(bed.core, one);
    core_cancel(bed.core, some);
    core_cancel(bed.core, all);
    core_valid(bed.core);
}

static void what_cannot_be_read_is_left_out_for_a_while(void **state)
{
    (void)state;
    struct core_front front;
    push_far(1, 7);
    push(2, 8);
    uint64_t parked = reserve(0);
    assert_true(parked != 0 && core_front(bed.core, &front));
    core_front_unread(bed.core, front.topic, 1, front.jobs[0].where);
    core_front_unread(bed.core, front.topic, 1, front.jobs[0].where); /* which it is already */
    core_valid(bed.core);
    assert_false(core_match(bed.core, START, 10));
    assert_int_equal(bed.first.ref.seq, 2);
    assert_int_equal(reserve(0), 0);
    assert_int_equal(bed.reply.err, ERR_EMPTY);
    assert_int_equal(totals().jobs[JOB_READY], 1);
    parked = reserve(SECOND);
    assert_true(parked != 0 && !core_front(bed.core, &front));
    assert_false(core_front_retry(bed.core));
    assert_true(core_front(bed.core, &front)); /* for who waits already */
    core_cancel(bed.core, parked);
    assert_true(reserve(0) != 0 && core_front(bed.core, &front));
    assert_int_equal(front.jobs[0].seq, 1);
    core_front_unread(bed.core, front.topic, 1, front.jobs[0].where);
    struct event event = record_of(1, 7); /* somebody could read it, and deletes it */
    assert_true(core_arrive(bed.core, &event));
    do_cmd(&(struct cmd){.kind = CMD_DELETE, .job.ref.seq = 1});
    assert_false(core_front_retry(bed.core));
    assert_false(core_front(bed.core, &front));
    core_valid(bed.core);
}

/* Whatever becomes of jobs that are asked for by name, in whatever order. */
static void p8_entries_of_jobs_that_are_gone_go_too(void **state)
{
    (void)state;
    enum { MANY = 50000 };
    for (int backwards = 0; backwards < 2; backwards++) {
        uint64_t first = totals().seq_next;
        size_t before_bytes = mem_used();
        for (uint64_t i = 0; i < MANY; i++)
            push_far(first + i, 0);
        for (uint64_t i = 0; i < MANY - 10; i++) {
            struct event event = record_of(backwards ? first + MANY - 1 - i : first + i, 0);
            assert_true(core_arrive(bed.core, &event));
            if (i % 3 == 0)
                assert_true(core_return(bed.core, event.job.seq, event.record) &&
                            core_arrive(bed.core, &event));
            do_cmd(&(struct cmd){.kind = CMD_DELETE, .job.ref.seq = event.job.seq});
            assert_int_equal(bed.reply.err, OK);
        }
        while (core_tick(bed.core, START, 1000))
            ;
        core_valid(bed.core);
        assert_in_range(mem_used() - before_bytes, 0, 1024 * 1024); /* what tables keep */
    }
    assert_int_equal(totals().far_ready, 20);
}

static int64_t oldest_ready_us(void)
{
    do_cmd(&(struct cmd){.kind = CMD_TOPIC, .topic = {.topic = BYTES("t"), .brief = true}});
    assert_int_equal(bed.reply.err, OK);
    return bed.topic.oldest_ready_us;
}

static void push_due(uint64_t seq, int64_t due_us, enum ready_order order)
{
    struct event event = record_of(seq, 5);
    do_cmd(&(struct cmd){.kind = CMD_PUSH,
                         .push = {.id = event.id,
                                  .topic = event.topic,
                                  .due_us = due_us,
                                  .ttr_us = TTR,
                                  .priority = 5,
                                  .order = order}});
    assert_int_equal(bed.first.ref.seq, seq);
}

static void delete_far(uint64_t seq)
{
    struct event event = record_of(seq, 5);
    assert_true(core_arrive(bed.core, &event));
    do_cmd(&(struct cmd){.kind = CMD_DELETE, .job.ref.seq = seq});
    assert_int_equal(bed.reply.err, OK);
}

/* Consumers may be down, and all jobs of a topic far: it must not look as if none waited. */
static void how_long_the_first_one_waits_is_told_wherever_it_is(void **state)
{
    (void)state;
    enum { FAR = 20 };
    push_due(1, START - SECOND, ORDER_DUE);
    assert_true(oldest_ready_us() == START - SECOND);
    for (uint64_t seq = 2; seq <= FAR; seq++) {
        push_due(seq, START - (int64_t)(100 - seq) * SECOND, ORDER_DUE);
        assert_true(depart(seq, 5));
        assert_true(oldest_ready_us() == START - 98 * (int64_t)SECOND);
    }
    delete_far(3); /* behind the first: their entries stay for a while */
    delete_far(4);
    delete_far(2);
    assert_true(oldest_ready_us() == START - 95 * (int64_t)SECOND);
    assert_true(depart(1, 5));
    assert_true(oldest_ready_us() == START - 95 * (int64_t)SECOND);
    for (uint64_t seq = 5; seq <= FAR; seq++)
        delete_far(seq);
    assert_true(oldest_ready_us() == START - SECOND);
    delete_far(1);
    assert_true(oldest_ready_us() == 0);
    push_due(FAR + 1, START - SECOND, ORDER_ARRIVAL);
    assert_true(depart(FAR + 1, 5));
    assert_true(oldest_ready_us() == START); /* since then at the latest */
}

static void urgent_ones_count_wherever_they_are(void **state)
{
    (void)state;
    push_far(1, 7);
    push_far(2, PRIORITY_URGENT);
    push(3, 0);
    assert_int_equal(totals().urgent, 2);
    struct event event = record_of(1, 7);
    assert_true(core_arrive(bed.core, &event));
    assert_int_equal(totals().urgent, 2);
    assert_true(core_return(bed.core, 1, event.record));
    assert_true(core_arrive(bed.core, &event));
    do_cmd(&(struct cmd){.kind = CMD_DELETE, .job.ref.seq = 1});
    assert_int_equal(totals().urgent, 1);
    core_valid(bed.core);
}

/* Those in front stay, of each topic its share. */
static void p8_the_first_ones_stay_in_memory(void **state)
{
    (void)state;
    core_bed_close(&bed);
    open_bed((struct core_limits){.ready_in_memory = 100});
    for (uint64_t seq = 1; seq <= 300; seq++)
        push(seq, 0);
    for (uint64_t seq = 1; seq <= 300; seq++)
        assert_int_equal(depart(seq, 0), seq > 100); /* they were pushed in order */
    push(301, 0);
    assert_true(depart(301, 0)); /* the last one, and there are 101 */
    push(302, 0);
    do_cmd(&(struct cmd){.kind = CMD_DELETE, .job.ref.seq = 1});
    assert_false(depart(302, 0));
    core_valid(bed.core);
}

/* Above the limit of memory they come while few are reserved; else what is in memory is given. */
static void p8_when_memory_is_short_few_come(void **state)
{
    (void)state;
    struct core_front front;
    enum { LIMIT = 64 * 1024 * 1024 };
    core_bed_close(&bed);
    open_bed((struct core_limits){.memory_bytes = LIMIT});
    for (uint64_t seq = 1; seq <= 1100; seq++)
        push(seq, 0);
    for (uint64_t seq = 1101; seq <= 1105; seq++)
        push_far(seq, 0);
    push(1106, 1);
    char *ballast = mem_alloc(LIMIT);
    for (unsigned i = 0; i < 1023; i++)
        assert_int_equal(reserve(0), 0);
    for (unsigned i = 1023; i < 1100; i++) {
        assert_int_equal(reserve(0), 0);
        assert_int_equal(bed.first.ref.seq, i + 1);
    }
    assert_int_equal(reserve(0), 0);
    assert_int_equal(bed.first.ref.seq, 1106);
    assert_int_equal(reserve(0), 0);
    assert_int_equal(bed.reply.err, ERR_EMPTY);
    uint64_t parked = reserve(SECOND);
    assert_true(parked != 0 && !core_front(bed.core, &front));
    for (uint64_t seq = 1; seq <= 100; seq++)
        do_cmd(&(struct cmd){.kind = CMD_DELETE, .job.ref.seq = seq});
    assert_true(core_front(bed.core, &front) && front.count == 5);
    mem_free(ballast);
}

/* So many jobs are reserved, memory is short, two are far, and somebody waits. Returns what is to
   be freed. */
static char *wait_without_memory(uint64_t *out_parked)
{
    enum { LIMIT = 64 * 1024 * 1024, RESERVED = 1025 };
    core_bed_close(&bed);
    open_bed((struct core_limits){.memory_bytes = LIMIT});
    for (uint64_t seq = 1; seq <= RESERVED; seq++) {
        push(seq, 0);
        assert_int_equal(reserve(0), 0);
    }
    push_far(RESERVED + 1, 0);
    push_far(RESERVED + 2, 0);
    char *ballast = mem_alloc(LIMIT);
    *out_parked = reserve(60 * (int64_t)SECOND);
    struct core_front front;
    assert_true(*out_parked != 0 && !core_front(bed.core, &front));
    assert_false(core_match(bed.core, START, 10));
    return ballast;
}

/* What frees memory need not be a command: another thread, or what a turn does in the end. */
static void p2_who_waits_is_asked_for_again_when_memory_is_short(void **state)
{
    (void)state;
    uint64_t parked;
    struct core_front front;
    char *ballast = wait_without_memory(&parked);
    int64_t next_us = core_next_us(bed.core);
    assert_in_range(next_us, START + 1, START + SECOND / 100);
    mem_free(ballast);
    (void)core_tick(bed.core, next_us, 1000);
    assert_true(core_front(bed.core, &front) && front.count == 2);
    core_cancel(bed.core, parked);
    assert_true(core_next_us(bed.core) > next_us + SECOND / 10); /* nobody waits any more */
}

/* A disk that hangs holds up nobody without a limit; who has time goes on waiting. */
static void who_does_not_wait_waits_a_second_for_the_disk(void **state)
{
    (void)state;
    enum { TIMES = 2000, STEP_US = 1000 };
    push_far(1, 0);
    uint64_t patient = reserve(60 * (int64_t)SECOND);
    assert_true(reserve(0) != 0);
    int64_t now_us = START;
    for (int i = 0; i < TIMES && bed.reply.err == ERR_IO; i++) {
        now_us += STEP_US;
        (void)core_tick(bed.core, now_us, 1000);
        (void)core_match(bed.core, now_us, 10);
    }
    assert_int_equal(bed.reply.err, ERR_EMPTY);
    assert_in_range(now_us - START, SECOND, SECOND + 10 * STEP_US);
    struct event record = record_of(1, 0);
    assert_true(core_front_arrive(bed.core, &record));
    (void)core_match(bed.core, now_us, 10);
    assert_int_equal(bed.reply.err, OK);
    assert_int_equal(bed.first.ref.seq, 1);
    core_cancel(bed.core, patient); /* it has been served: that is nobody's */
}

/* As who asks now does: the order gives way. */
static void p2_who_waits_gets_what_is_in_memory_when_that_is_short(void **state)
{
    (void)state;
    uint64_t parked;
    char *ballast = wait_without_memory(&parked);
    do_cmd(&(struct cmd){.kind = CMD_RELEASE,
                         .job = {.ref.seq = 1,
                                 .lease = 1,
                                 .has_priority = true,
                                 .priority = 7,
                                 .has_delay = true,
                                 .due_us = START}});
    assert_int_equal(bed.reply.err, OK);
    assert_false(core_match(bed.core, START, 10));
    assert_int_equal(bed.reply.kind, CMD_RESERVE);
    assert_int_equal(bed.first.ref.seq, 1);
    mem_free(ballast);
}

/* Who has one in memory for a while must not send it back behind who loads it: nobody would come
   for it again. */
static void p2_a_visitor_that_is_loaded_when_it_is_due_stays(void **state)
{
    (void)state;
    struct event event = record_of(1, 0), out;
    event.job.state = JOB_DELAYED;
    event.job.due_us = START + SECOND;
    do_cmd(&(struct cmd){
        .kind = CMD_PUSH,
        .push = {.id = event.id, .topic = event.topic, .due_us = event.job.due_us, .ttr_us = TTR}});
    assert_true(core_spill(bed.core, &event, 1, START, &out) &&
                core_depart(bed.core, 1, event.record));
    assert_true(core_arrive(bed.core, &event)); /* it visits */
    assert_false(core_match(bed.core, START + 2 * SECOND, 10));
    assert_false(core_near(bed.core, &event)); /* before a tick has come by it */
    assert_false(core_return(bed.core, 1, event.record));
    while (core_tick(bed.core, START + 2 * SECOND, 1000))
        ;
    assert_int_equal(totals().jobs[JOB_READY], 1);
    core_valid(bed.core);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(p8_a_far_ready_job_takes_at_most_64_bytes),
        TEST(it_is_handed_out_only_when_those_before_it_have_come),
        TEST(p2_what_held_up_who_waits_makes_a_turn_when_it_comes),
        TEST(as_many_are_to_come_as_consumers_want),
        TEST(what_cannot_be_read_is_left_out_for_a_while),
        TEST(p8_entries_of_jobs_that_are_gone_go_too),
        TEST(how_long_the_first_one_waits_is_told_wherever_it_is),
        TEST(urgent_ones_count_wherever_they_are),
        TEST(p8_the_first_ones_stay_in_memory),
        TEST(p8_when_memory_is_short_few_come),
        TEST(p2_who_waits_is_asked_for_again_when_memory_is_short),
        TEST(p2_who_waits_gets_what_is_in_memory_when_that_is_short),
        TEST(who_does_not_wait_waits_a_second_for_the_disk),
        TEST(p2_a_visitor_that_is_loaded_when_it_is_due_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
