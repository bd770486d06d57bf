/* What the core tells of what happens to jobs: who reserved them. */
#include "core_recorder.h"

static struct {
    unsigned count;
    char by[HAPPENING_BY_MAX + 1];
    uint64_t seq;
} told;

/* Who asked, as the last reply to a RESERVE says: for whoever has to ask again. */
static char asked_by[HAPPENING_BY_MAX + 1];

/* What the command was is borrowed for the call. */
static void receive_and_look(struct core_callbacks *callbacks, void *ctx, const struct reply *reply)
{
    memset(asked_by, 0, sizeof(asked_by));
    if (reply->reserve && reply->reserve->by.len) {
        assert_true(reply->reserve->by.len <= HAPPENING_BY_MAX);
        memcpy(asked_by, reply->reserve->by.at, reply->reserve->by.len);
    }
    receive(callbacks, ctx, reply);
}

static void tell(struct event_sink *sink, const struct happening *happening)
{
    (void)sink;
    if (happening->what != HAPPENED_RESERVED)
        return;
    assert_true(happening->note.len <= HAPPENING_BY_MAX);
    told.count++;
    told.seq = happening->seq;
    memset(told.by, 0, sizeof(told.by));
    if (happening->note.len)
        memcpy(told.by, happening->note.at, happening->note.len);
}

static int setup_telling(void **state)
{
    memset(&told, 0, sizeof(told));
    int failed = setup(state);
    bed.sink.happened = tell;
    bed.callbacks.reply = receive_and_look;
    return failed;
}

static struct cmd reserve_by(const struct bytes *topic, const char *by, int64_t wait_us)
{
    return (struct cmd){
        .kind = CMD_RESERVE,
        .reserve = {
            .topics = topic, .topic_count = 1, .max = 1, .wait_us = wait_us, .by = bytes_str(by)}};
}

static void who_reserves_a_ready_job_is_told(void **state)
{
    (void)state;
    struct bytes topic = BYTES("t");
    struct cmd cmd = reserve_by(&topic, "192.0.2.7:5123", 0);
    uint64_t seq = push_due(0);
    assert_int_equal(apply(&cmd), OK);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.seq, seq);
    assert_string_equal(told.by, "192.0.2.7:5123");
    assert_string_equal(asked_by, "192.0.2.7:5123");
}

/* Two wait; each gets one, and is told of by its own name. */
static void who_waited_for_a_job_is_told(void **state)
{
    (void)state;
    struct bytes topic = BYTES("t");
    static const char *const names[] = {"[2001:db8::7]:5123", "unix"};
    for (int i = 0; i < 2; i++) {
        struct cmd cmd = reserve_by(&topic, names[i], SECOND);
        assert_true(core_apply(bed.core, bed.now_us, &cmd, &bed) != 0);
    }
    for (int i = 0; i < 2; i++) {
        uint64_t seq = push_due(0);
        (void)core_match(bed.core, bed.now_us, 10);
        assert_int_equal(told.count, i + 1);
        assert_int_equal(told.seq, seq);
        assert_string_equal(told.by, names[i]);
        assert_string_equal(asked_by, names[i]);
    }
}

static void who_reserves_a_job_by_name_is_told(void **state)
{
    (void)state;
    uint64_t seq = push_due(bed.now_us + SECOND);
    assert_int_equal(
        apply(&(struct cmd){.kind = CMD_RESERVE_JOB,
                            .job = {.ref = {.seq = seq}, .bound = true, .by = BYTES("unix")}}),
        OK);
    assert_string_equal(told.by, "unix");
}

static void nobody_is_told_of_if_no_name_came(void **state)
{
    (void)state;
    (void)push_due(0);
    assert_int_equal(reserve(), OK);
    assert_int_equal(told.count, 1);
    assert_string_equal(told.by, "");
}

#define TELLS(name) cmocka_unit_test_setup_teardown(name, setup_telling, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TELLS(who_reserves_a_ready_job_is_told),
        TELLS(who_waited_for_a_job_is_told),
        TELLS(who_reserves_a_job_by_name_is_told),
        TELLS(nobody_is_told_of_if_no_name_came),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
