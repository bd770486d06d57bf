/* The disk that takes no write after the deadline, and the engine of who waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/waiting/waiting.h"
#include "laterd/fence.h"

static bool holding;
static struct member_view view;
static unsigned given, done;

static bool holds(const struct member *member, uint64_t epoch)
{
    (void)member;
    return holding && epoch == 7;
}

static void look(const struct member *member, struct member_view *out_view)
{
    (void)member;
    *out_view = view;
}

static const struct member_verbs member_verbs = {.look = look, .holds = holds};
static const struct member member = {.verbs = &member_verbs};

static void take_op(struct disk *disk, struct disk_op *op)
{
    (void)disk;
    (void)op;
    given++;
}

static unsigned poll_nothing(struct disk *disk)
{
    (void)disk;
    return 0;
}

static void wait_forever(struct disk *disk)
{
    (void)disk;
    fail_msg("%s", "waits for an operation that is not under way");
}

static const struct disk_verbs disk_verbs = {
    .run = take_op, .submit = take_op, .poll = poll_nothing, .wait = wait_forever};
static struct disk behind = {.verbs = &disk_verbs};

static void note_done(struct disk_op *op)
{
    assert_int_equal(op->err, ERR_IO);
    assert_int_equal(op->sys_errno, ESTALE);
    done++;
}

static int begin(void **state)
{
    (void)state;
    holding = true;
    given = done = 0;
    view = (struct member_view){.role = MEMBER_WAITING, .connected = true};
    return 0;
}

static void while_we_lead_all_goes_to_the_disk_behind(void **state)
{
    (void)state;
    struct fence *fence = fence_new(&behind, &member, 7);
    struct disk *disk = fence_port(fence);
    struct disk_op op = {.verb = DISK_WRITE_SYNC, .done = note_done};
    disk->verbs->submit(disk, &op);
    disk->verbs->run(disk, &op);
    assert_int_equal(given, 2);
    fence_free(fence);
}

static void after_the_deadline_what_would_write_fails_and_reads_go_on(void **state)
{
    static const enum disk_verb writes[] = {DISK_WRITE_SYNC, DISK_WRITE,  DISK_SYNC,  DISK_MAKE,
                                            DISK_REPLACE,    DISK_REMOVE, DISK_RENAME};
    (void)state;
    struct fence *fence = fence_new(&behind, &member, 7);
    struct disk *disk = fence_port(fence);
    holding = false;
    for (unsigned i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
        struct disk_op op = {.verb = writes[i], .done = note_done};
        disk->verbs->submit(disk, &op);
        disk->verbs->wait(disk); /* there is something to poll */
        assert_int_equal(disk->verbs->poll(disk), 1);
    }
    assert_int_equal(done, sizeof(writes) / sizeof(writes[0]));
    assert_int_equal(given, 0);
    struct disk_op read = {.verb = DISK_READ, .done = note_done};
    disk->verbs->submit(disk, &read);
    assert_int_equal(given, 1);
    fence_free(fence);
}

static void who_runs_an_operation_need_not_want_to_be_called(void **state)
{
    (void)state;
    struct fence *fence = fence_new(&behind, &member, 7);
    struct disk *disk = fence_port(fence);
    struct disk_op op = {.verb = DISK_REPLACE};
    holding = false;
    disk->verbs->run(disk, &op);
    assert_int_equal(op.err, ERR_IO);
    fence_free(fence);
}

static void another_epoch_is_not_ours(void **state)
{
    (void)state;
    struct fence *fence = fence_new(&behind, &member, 6);
    struct disk *disk = fence_port(fence);
    struct disk_op op = {.verb = DISK_WRITE};
    disk->verbs->run(disk, &op);
    assert_int_equal(given, 0);
    assert_int_equal(op.err, ERR_IO);
    fence_free(fence);
}

/* ---- who waits ---- */

struct question {
    struct ticket ticket;
    enum err err;
    char why[400];
};

static void answered(struct ticket *ticket, const struct reply *reply)
{
    struct question *question = (struct question *)ticket; /* its first member */
    question->err = reply->err;
    (void)snprintf(question->why, sizeof(question->why), "%s", reply->why);
}

static struct question ask(enum cmd_kind kind)
{
    static struct waiting_engine waiting;
    struct question question = {.ticket.answered = answered};
    struct cmd cmd = {.kind = kind};
    waiting_init(&waiting, &member, "http://own");
    assert_int_equal(waiting.engine.verbs->submit(&waiting.engine, &cmd, &question.ticket),
                     SUBMIT_ANSWERED);
    assert_int_equal(waiting.engine.verbs->health(&waiting.engine), ERR_NOT_LEADER);
    return question;
}

static void who_waits_refuses_every_command(void **state)
{
    (void)state;
    for (int kind = 0; kind < CMD_KINDS; kind++)
        assert_int_equal(ask((enum cmd_kind)kind).err, ERR_NOT_LEADER);
}

static void who_waits_says_where_the_leader_is_or_why_there_is_none(void **state)
{
    (void)state;
    assert_string_equal(ask(CMD_PUSH).why, "nobody leads yet");
    (void)snprintf(view.leader, sizeof(view.leader), "http://a");
    assert_string_equal(ask(CMD_PUSH).why, "the leader is http://a");
    (void)snprintf(view.leader, sizeof(view.leader), "http://own");
    assert_string_equal(ask(CMD_PUSH).why,
                        "an earlier life of this laterd led, and its session has not ended yet");
    view = (struct member_view){.role = MEMBER_WAITING, .why = "it is away"};
    assert_string_equal(ask(CMD_PUSH).why, "it is away");
    view.role = MEMBER_LEADING;
    assert_string_equal(ask(CMD_PUSH).why, "this laterd is about to lead");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(while_we_lead_all_goes_to_the_disk_behind, begin),
        cmocka_unit_test_setup(after_the_deadline_what_would_write_fails_and_reads_go_on, begin),
        cmocka_unit_test_setup(who_runs_an_operation_need_not_want_to_be_called, begin),
        cmocka_unit_test_setup(another_epoch_is_not_ours, begin),
        cmocka_unit_test_setup(who_waits_refuses_every_command, begin),
        cmocka_unit_test_setup(who_waits_says_where_the_leader_is_or_why_there_is_none, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
