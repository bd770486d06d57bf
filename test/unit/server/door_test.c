/* The one door: who asks is counted, and what the server does not take now is refused there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "server/door.h"
#include "server/server.h"

struct bed {
    struct server server;
    struct engine engine;
    unsigned submitted, cancelled;
    enum err health;
};

/* A ticket that keeps what it was answered. */
struct asked {
    struct ticket ticket;
    unsigned answers;
    enum err err;
    enum cmd_kind kind;
};

static struct bed *bed_of(const struct engine *engine)
{
    return LIST_ENTRY(engine, struct bed, engine);
}

static enum submitted engine_submit(struct engine *engine, const struct cmd *cmd,
                                    struct ticket *ticket)
{
    (void)cmd;
    (void)ticket;
    bed_of(engine)->submitted++;
    return SUBMIT_PARKED;
}

static void engine_cancel(struct engine *engine, struct ticket *ticket)
{
    (void)ticket;
    bed_of(engine)->cancelled++;
}

static enum err engine_health(const struct engine *engine)
{
    return bed_of(engine)->health;
}

static const struct engine_verbs verbs = {
    .submit = engine_submit, .cancel = engine_cancel, .health = engine_health};

static void open_bed(struct bed *bed)
{
    *bed = (struct bed){.engine.verbs = &verbs};
    bed->server.engine = &bed->engine;
}

static void note_answer(struct ticket *ticket, const struct reply *reply)
{
    struct asked *asked = LIST_ENTRY(ticket, struct asked, ticket);
    asked->answers++;
    asked->err = reply->err;
    asked->kind = reply->kind;
}

static const struct principal http = {.protocol = PROTOCOL_HTTP};
static const struct principal worker = {.protocol = PROTOCOL_BEANSTALK};
static const struct principal ourselves = {.protocol = PROTOCOL_KINDS};

static void commands_are_counted_by_who_asks(void **state)
{
    struct bed bed;
    struct asked asked = {.ticket.answered = note_answer};
    (void)state;
    open_bed(&bed);
    for (int kind = 0; kind < CMD_KINDS; kind++) {
        struct cmd cmd = {.kind = (enum cmd_kind)kind};
        for (int times = 0; times <= kind; times++)
            assert_int_equal(server_submit(&bed.server, &http, &cmd, &asked.ticket), SUBMIT_PARKED);
        assert_int_equal(server_submit(&bed.server, &worker, &cmd, &asked.ticket), SUBMIT_PARKED);
        assert_int_equal(server_submit(&bed.server, &ourselves, &cmd, NULL), SUBMIT_PARKED);
        assert_int_equal(bed.server.counts.commands[PROTOCOL_HTTP][kind], kind + 1);
        assert_int_equal(bed.server.counts.commands[PROTOCOL_BEANSTALK][kind], 1);
        assert_int_equal(bed.server.counts.commands[PROTOCOL_KINDS][kind], 1);
    }
    assert_int_equal(bed.submitted, CMD_KINDS * (CMD_KINDS + 1) / 2 + 2 * CMD_KINDS);
    assert_int_equal(asked.answers, 0);
    server_cancel(&bed.server, &asked.ticket);
    assert_int_equal(bed.cancelled, 1);
}

static void pushes_are_refused_and_nothing_else(void **state)
{
    struct bed bed;
    (void)state;
    open_bed(&bed);
    assert_int_equal(server_health(&bed.server), OK);
    server_refuse_pushes(&bed.server);
    assert_int_equal(server_health(&bed.server), ERR_DRAINING);
    for (int kind = 0; kind < CMD_KINDS; kind++) {
        struct cmd cmd = {.kind = (enum cmd_kind)kind};
        struct asked asked = {.ticket.answered = note_answer};
        bool refused = kind == CMD_PUSH;
        enum submitted submitted = server_submit(&bed.server, &worker, &cmd, &asked.ticket);
        assert_int_equal(submitted, refused ? SUBMIT_ANSWERED : SUBMIT_PARKED);
        assert_int_equal(asked.answers, refused);
        assert_int_equal(asked.err, refused ? ERR_DRAINING : OK);
        assert_int_equal(asked.kind, refused ? kind : 0);
    }
    struct cmd push = {.kind = CMD_PUSH};
    assert_int_equal(server_submit(&bed.server, &http, &push, NULL), SUBMIT_ANSWERED);
    assert_int_equal(bed.submitted, CMD_KINDS - 1);
}

static void the_engine_says_why_it_takes_no_pushes(void **state)
{
    struct bed bed;
    (void)state;
    open_bed(&bed);
    bed.health = ERR_DISK_FULL;
    assert_int_equal(server_health(&bed.server), ERR_DISK_FULL);
    bed.server.draining = true;
    assert_int_equal(server_health(&bed.server), ERR_DRAINING);
}

static void memory_is_admitted_up_to_its_limit(void **state)
{
    struct bed bed;
    (void)state;
    open_bed(&bed);
    char *some = mem_alloc(1000);
    assert_int_equal(server_admit_memory(&bed.server), OK); /* no limit */
    bed.server.options.limits.memory_bytes = mem_used();
    assert_int_equal(server_admit_memory(&bed.server), OK);
    bed.server.options.limits.memory_bytes = mem_used() - 1;
    assert_int_equal(server_admit_memory(&bed.server), ERR_MEMORY_LIMIT);
    mem_free(some);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_counted_by_who_asks),
        cmocka_unit_test(pushes_are_refused_and_nothing_else),
        cmocka_unit_test(the_engine_says_why_it_takes_no_pushes),
        cmocka_unit_test(memory_is_admitted_up_to_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
