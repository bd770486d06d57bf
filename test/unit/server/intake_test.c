/* Messages that a broker brings: how many of them a turn takes, and in which order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "beanstalk_peer.h"
#include "server/door.h"
#include "server/intake.h"

enum {
    MESSAGES = 200,
    IDS = MESSAGES / 2,
    ID_BYTES = 16,
    SHORT_TURN_NS = 20000,
    LOG_NONE = LOG_ERROR + 1
};

/* A broker with messages; each id has two. */
static struct source {
    struct intake intake;
    struct intake_message messages[MESSAGES];
    char ids[IDS][ID_BYTES];
    unsigned taken, settled[INTAKE_VERDICTS];
} source;

static struct intake_message *take(struct intake *intake)
{
    (void)intake;
    return source.taken < MESSAGES ? &source.messages[source.taken++] : NULL;
}

static void settle_message(struct intake *intake, struct intake_message *message,
                           enum intake_verdict verdict)
{
    (void)intake;
    (void)message;
    source.settled[verdict]++;
}

static void stop(struct intake *intake)
{
    (void)intake;
}

static bool stopped(struct intake *intake)
{
    (void)intake;
    return true;
}

static const struct intake_verbs verbs = {
    .take = take, .settle = settle_message, .stop = stop, .stopped = stopped, .close = stop};

/* Tests alone have one that is not the program's. */
static struct server *server_of(struct world *world)
{
    return (struct server *)(uintptr_t)world_server(world);
}

static struct server_intake *begin_intake(struct world *world)
{
    static const struct server_intake_options options = {
        .name = "shop", .topic = "orders", .broker = "main"};
    source = (struct source){.intake.verbs = &verbs};
    for (unsigned i = 0; i < MESSAGES; i++) {
        char *id = source.ids[i % IDS];
        int len = snprintf(id, ID_BYTES, "order-%u", i % IDS);
        source.messages[i] = (struct intake_message){.run = 1,
                                                     .id = bytes_of(id, (size_t)len),
                                                     .if_exists = IF_EXISTS_REPLACE,
                                                     .delay_us = INT64_C(3600) * SECOND_US,
                                                     .body = BYTES("body")};
    }
    return server_intake_new(server_of(world), &options, &source.intake);
}

static void p8_one_message_is_taken_when_the_budget_is_spent(void **state)
{
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 1});
    struct server_intake *intake = begin_intake(world);
    struct budget *budget = &server_of(world)->budget;
    budget->left_ns = 0;
    source.intake.arrived(&source.intake);
    assert_int_equal(source.taken, 1);
    budget->left_ns = 0;
    source.intake.arrived(&source.intake);
    assert_int_equal(source.taken, 2);
    budget->left_ns = BUDGET_UNLIMITED;
    source.intake.arrived(&source.intake);
    assert_int_equal(source.taken, MESSAGES);
    pass(world, SECOND_US);
    assert_int_equal(source.settled[INTAKE_STORED], MESSAGES);
    server_intake_free(intake);
    world_free(world);
}

/* Else no client of ours would be served while a broker has more. */
static void p8_messages_leave_half_of_the_budget_to_clients(void **state)
{
    (void)state;
    enum { LEFT_NS = 400 * 1000 };
    struct world *world = begin(&(struct world_options){.seed = 3});
    struct server_intake *intake = begin_intake(world);
    struct budget *budget = &server_of(world)->budget;
    budget->left_ns = LEFT_NS;
    source.intake.arrived(&source.intake);
    assert_in_range(source.taken, 1, MESSAGES - 1);
    assert_true(budget->left_ns > LEFT_NS / 4);
    budget->left_ns = BUDGET_UNLIMITED;
    source.intake.arrived(&source.intake);
    pass(world, SECOND_US);
    assert_int_equal(source.settled[INTAKE_STORED], MESSAGES);
    server_intake_free(intake);
    world_free(world);
}

static uint64_t pushes(struct world *world)
{
    return server_of(world)->counts.commands[PROTOCOL_KINDS][CMD_PUSH];
}

/* All older ones of their ids are answered in one turn: the younger ones go on in many. */
static void p8_those_that_waited_for_an_older_one_go_on_a_few_a_turn(void **state)
{
    enum { A_FEW = 4 };
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 2, .turn_ns = SHORT_TURN_NS});
    struct server_intake *intake = begin_intake(world);
    world_hold_disk(world, true);
    server_of(world)->budget.left_ns = BUDGET_UNLIMITED;
    source.intake.arrived(&source.intake);
    settle(world);
    assert_in_range(pushes(world), IDS - IDS / 10, IDS); /* a few ids may share a slot */
    world_hold_disk(world, false);
    uint64_t most = 0;
    for (unsigned turns = 0; pushes(world) < MESSAGES; turns++) {
        uint64_t before = pushes(world);
        assert_true(turns < 100000);
        (void)world_step(world, world_now_us(world) + SECOND_US);
        most = pushes(world) - before > most ? pushes(world) - before : most;
    }
    assert_in_range(most, 1, A_FEW);
    pass(world, SECOND_US);
    assert_int_equal(source.settled[INTAKE_STORED], MESSAGES);
    server_intake_free(intake);
    world_free(world);
}

/* Else it would be copied in the turn. */
static void p8_a_large_body_is_taken_over(void **state)
{
    enum { LARGE = 512 * 1024 };
    struct buf body = {0};
    uint64_t before = mem_used();
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 4, .body_bytes = LARGE});
    struct server_intake *intake = begin_intake(world);
    struct intake_message *message = &source.messages[MESSAGES - 1];
    buf_reserve_to(&body, LARGE, LARGE);
    memset(body.at, 'x', LARGE);
    body.len = LARGE;
    message->id = BYTES("");
    message->body = buf_bytes(&body);
    message->memory = &body;
    source.taken = MESSAGES - 1;
    server_of(world)->budget.left_ns = BUDGET_UNLIMITED;
    source.intake.arrived(&source.intake);
    assert_null(body.at);
    pass(world, SECOND_US);
    assert_int_equal(source.settled[INTAKE_STORED], 1);
    server_intake_free(intake);
    world_free(world);
    assert_int_equal(mem_used(), before);
}

/* Returns how often the word is in the log, and empties it. */
static unsigned logged(FILE *log, const char *word)
{
    static char text[65536];
    unsigned count = 0;
    ssize_t len = pread(fileno(log), text, sizeof(text) - 1, 0);
    assert_in_range(len, 0, sizeof(text) - 1);
    text[len] = '\0';
    for (const char *at = text; (at = strstr(at, word)); at++)
        count++;
    assert_int_equal(ftruncate(fileno(log), 0), 0);
    assert_int_equal(lseek(fileno(log), 0, SEEK_SET), 0);
    return count;
}

/* Those that the broker's thread refuses and those that the engine does, all but one, in turn. */
static void refused_messages_are_all_counted_and_a_few_logged(void **state)
{
    enum { LINES = 10 };
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 5});
    struct server_intake *intake = begin_intake(world);
    FILE *log = tmpfile();
    int kept = dup(STDERR_FILENO);
    assert_true(log && kept >= 0 && dup2(fileno(log), STDERR_FILENO) == STDERR_FILENO);
    log_level_set(LOG_INFO);
    for (unsigned i = 0; i < MESSAGES; i++) {
        bool here = i % 2 == 0;
        source.messages[i] = (struct intake_message){.run = 1,
                                                     .refused = here ? "it is too large" : NULL,
                                                     .from = BYTES("trade"),
                                                     .id = here ? BYTES("") : BYTES("one"),
                                                     .if_exists = IF_EXISTS_REJECT};
    }
    server_of(world)->budget.left_ns = BUDGET_UNLIMITED;
    source.intake.arrived(&source.intake);
    settle(world);
    unsigned refused = source.settled[INTAKE_REFUSED];
    uint64_t counted = server_of(world)->counts.intake[INTAKE_REFUSED];
    unsigned at_once = logged(log, "amqp_in_refused name=shop exchange=\"trade\" "
                                   "why=\"it is too large\" more=0\n");
    pass(world, 9 * SECOND_US);
    (void)loop_update_time(server_of(world)->loop);
    source.taken = MESSAGES - 1;
    source.intake.arrived(&source.intake);
    settle(world);
    unsigned soon = logged(log, "amqp_in_refused");
    pass(world, 2 * SECOND_US);
    (void)loop_update_time(server_of(world)->loop);
    source.taken = MESSAGES - 2;
    source.intake.arrived(&source.intake);
    settle(world);
    log_level_set((enum log_level)LOG_NONE);
    assert_true(dup2(kept, STDERR_FILENO) == STDERR_FILENO && close(kept) == 0);
    assert_int_equal(refused, MESSAGES - 1);
    assert_int_equal(counted, MESSAGES - 1);
    assert_int_equal(at_once, LINES);
    assert_int_equal(soon, 0);
    assert_int_equal(logged(log, "amqp_in_refused"), 2);
    (void)fclose(log); /* it was only read */
    server_intake_free(intake);
    world_free(world);
}

/* Its jobs go nowhere meanwhile, and nobody would know. */
static void a_topic_that_gets_no_target_is_logged_once(void **state)
{
    static const struct principal nobody = {.protocol = PROTOCOL_KINDS};
    struct cmd push = {.kind = CMD_PUSH,
                       .push = {.topic = BYTES("other"), .ttr_us = SECOND_US, .body = BYTES("x")}};
    (void)state;
    struct world *world = begin(&(struct world_options){.seed = 6, .topics = 1});
    (void)server_submit(server_of(world), &nobody, &push, NULL);
    settle(world);
    FILE *log = tmpfile();
    int kept = dup(STDERR_FILENO);
    assert_true(log && kept >= 0 && dup2(fileno(log), STDERR_FILENO) == STDERR_FILENO);
    log_level_set(LOG_INFO);
    struct server_intake *intake = begin_intake(world);
    pass(world, SECOND_US / 2);
    unsigned at_once = logged(log, "amqp_in_topic_refused");
    pass(world, 60 * SECOND_US);
    log_level_set((enum log_level)LOG_NONE);
    assert_true(dup2(kept, STDERR_FILENO) == STDERR_FILENO && close(kept) == 0);
    assert_int_equal(at_once, 0);
    assert_int_equal(logged(log, "amqp_in_topic_refused name=shop topic=orders broker=main"), 1);
    (void)fclose(log); /* it was only read */
    server_intake_free(intake);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topic_that_gets_no_target_is_logged_once),
        cmocka_unit_test(p8_a_large_body_is_taken_over),
        cmocka_unit_test(p8_one_message_is_taken_when_the_budget_is_spent),
        cmocka_unit_test(p8_messages_leave_half_of_the_budget_to_clients),
        cmocka_unit_test(refused_messages_are_all_counted_and_a_few_logged),
        cmocka_unit_test(p8_those_that_waited_for_an_older_one_go_on_a_few_a_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
