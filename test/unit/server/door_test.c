/* The one door: who asks is counted, and what the server does not take now is refused there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "server/door.h"
#include "server/push_url.h"
#include "server/server.h"

struct bed {
    struct server server;
    struct engine engine;
    unsigned submitted, cancelled;
    uint8_t retry_count; /* of the push submitted last */
    int64_t retry_us, ttr_us;
    enum err health;
};

/* A ticket that keeps what it was answered. */
struct asked {
    struct ticket ticket;
    unsigned answers;
    enum err err;
    enum cmd_kind kind;
    char why[PUSH_URL_WHY];
};

static struct bed *bed_of(const struct engine *engine)
{
    return LIST_ENTRY(engine, struct bed, engine);
}

static enum submitted engine_submit(struct engine *engine, const struct cmd *cmd,
                                    struct ticket *ticket)
{
    struct bed *bed = bed_of(engine);
    (void)ticket;
    bed->submitted++;
    if (cmd->kind == CMD_PUSH) {
        bed->retry_count = cmd->push.retry_count;
        bed->retry_us = bed->retry_count ? cmd->push.retry_us[0] : -1;
        bed->ttr_us = cmd->push.ttr_us;
    }
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
    (void)snprintf(asked->why, sizeof(asked->why), "%s", reply->why ? reply->why : "");
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

/* ---- settings of topics ---- */

static void open_with_settings(struct bed *bed, const char *settings)
{
    open_bed(bed);
    bed->server.registry =
        registry_new(&(struct registry_options){.hash_key = 1, .read = topic_settings_read});
    struct settings_observer *observer = registry_observer(bed->server.registry);
    observer->changed(observer, BYTES("t"), 1, bytes_str(settings));
}

static void push_to(struct bed *bed, struct cmd_push push)
{
    struct cmd cmd = {.kind = CMD_PUSH, .push = push};
    (void)server_submit(&bed->server, &worker, &cmd, NULL);
}

static void a_push_gets_what_it_does_not_say_from_its_topic(void **state)
{
    const int64_t own_us[] = {5};
    struct bed bed;
    (void)state;
    open_with_settings(&bed, "{\"retry\":[\"1s\",\"2s\"],\"attempts\":2,\"ttr\":\"9s\"}");
    bed.server.options.api.ttr_max_us = INT64_MAX;
    push_to(&bed, (struct cmd_push){.topic = BYTES("t"), .ttr_us = 7, .ttr_is_default = true});
    assert_int_equal(bed.retry_count, 1);
    assert_int_equal(bed.retry_us, 1000000);
    assert_int_equal(bed.ttr_us, 9000000);
    push_to(&bed, (struct cmd_push){
                      .topic = BYTES("t"), .ttr_us = 7, .retry_us = own_us, .retry_count = 1});
    assert_int_equal(bed.retry_us, 5);
    assert_int_equal(bed.ttr_us, 7);
    push_to(&bed, (struct cmd_push){.topic = BYTES("t"), .ttr_us = 7, .retry_given = true});
    assert_int_equal(bed.retry_count, 0);
    push_to(&bed, (struct cmd_push){.topic = BYTES("u"), .ttr_us = 7});
    assert_int_equal(bed.retry_count, 0);
    bed.server.options.api.ttr_max_us = 3000000; /* limits.ttr_seconds */
    push_to(&bed, (struct cmd_push){.topic = BYTES("t"), .ttr_us = 7, .ttr_is_default = true});
    assert_int_equal(bed.ttr_us, 3000000);
    registry_free(bed.server.registry);
}

static void topics_without_a_schedule_have_that_of_the_server(void **state)
{
    struct bed bed;
    (void)state;
    open_with_settings(&bed, "{\"attempts\":4}");
    bed.server.retry = (struct schedule){.waits_us = {3000000}, .count = 1};
    push_to(&bed, (struct cmd_push){.topic = BYTES("u"), .ttr_us = 7});
    assert_int_equal(bed.retry_count, 1);
    push_to(&bed, (struct cmd_push){.topic = BYTES("t"), .ttr_us = 7});
    assert_int_equal(bed.retry_count, 3);
    assert_int_equal(bed.retry_us, 3000000);
    registry_free(bed.server.registry);
}

static void a_topic_with_a_target_has_waits_of_its_own_if_nobody_says_any(void **state)
{
    struct bed bed;
    (void)state;
    open_with_settings(&bed, "{\"target\":{\"type\":\"http\"},\"attempts\":3}");
    push_to(&bed, (struct cmd_push){.topic = BYTES("t"), .ttr_us = 7});
    assert_int_equal(bed.retry_count, 2);
    assert_int_equal(bed.retry_us, 5000000);
    bed.server.retry = (struct schedule){.waits_us = {3000000}, .count = 1};
    push_to(&bed, (struct cmd_push){.topic = BYTES("t"), .ttr_us = 7});
    assert_int_equal(bed.retry_us, 3000000);
    registry_free(bed.server.registry);
}

static void only_the_server_reserves_on_a_topic_with_a_target(void **state)
{
    const struct bytes topics[] = {BYTES("u"), BYTES("t")};
    struct cmd cmd = {.kind = CMD_RESERVE, .reserve = {.topics = topics, .topic_count = 2}};
    struct asked asked = {.ticket.answered = note_answer};
    struct bed bed;
    (void)state;
    open_with_settings(&bed, "{\"target\":{\"type\":\"http\"}}");
    assert_int_equal(server_submit(&bed.server, &http, &cmd, &asked.ticket), SUBMIT_ANSWERED);
    assert_int_equal(asked.err, ERR_PUSHED_TOPIC);
    assert_int_equal(server_submit(&bed.server, &worker, &cmd, &asked.ticket), SUBMIT_ANSWERED);
    assert_int_equal(server_submit(&bed.server, &ourselves, &cmd, &asked.ticket), SUBMIT_PARKED);
    cmd.reserve.topic_count = 1;
    assert_int_equal(server_submit(&bed.server, &http, &cmd, &asked.ticket), SUBMIT_PARKED);
    registry_free(bed.server.registry);
}

static void push_job_targets_decides_on_jobs_with_a_url(void **state)
{
    static const struct {
        enum config_job_targets policy;
        const char *topic;
        enum err err;
    } cases[] = {
        {JOB_TARGETS_TOPIC, "t", OK},
        {JOB_TARGETS_TOPIC, "u", ERR_JOB_TARGET},
        {JOB_TARGETS_ANY, "t", OK},
        {JOB_TARGETS_ANY, "u", OK},
        {JOB_TARGETS_OFF, "t", ERR_JOB_TARGET},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config config = {.job_targets = cases[i].policy};
        struct asked asked = {.ticket.answered = note_answer};
        struct cmd cmd = {.kind = CMD_PUSH,
                          .push = {.topic = bytes_str(cases[i].topic), .own_target = true}};
        struct bed bed;
        open_with_settings(&bed, "{\"target\":{\"type\":\"http\"}}");
        bed.server.options.config = &config;
        enum submitted submitted = server_submit(&bed.server, &http, &cmd, &asked.ticket);
        assert_int_equal(submitted, cases[i].err ? SUBMIT_ANSWERED : SUBMIT_PARKED);
        assert_int_equal(asked.err, cases[i].err);
        registry_free(bed.server.registry);
    }
}

/* Why the push is refused; "": it is not. The text is good until the next call. */
static const char *refusal_of(struct bed *bed, const struct principal *who, const struct cmd *cmd)
{
    static struct asked asked;
    asked = (struct asked){.ticket.answered = note_answer};
    (void)server_submit(&bed->server, who, cmd, &asked.ticket);
    assert_int_equal(asked.err, asked.why[0] ? ERR_JOB_TARGET : OK);
    return asked.why;
}

/* What fails at each delivery is refused at once, with the words of [push]. */
static void a_job_with_an_address_that_is_never_allowed_is_refused(void **state)
{
    static const struct {
        const char *url, *why; /* NULL: it is taken */
    } cases[] = {
        {"http://10.0.0.5/hook",
         "the address 10.0.0.5 is not public, and push.allow does not list it"},
        {"http://[::1]/", "the address ::1 is not public, and push.allow does not list it"},
        {"http://192.168.7.9/", NULL},
        {"https://a.example:444/", "push.ports does not have port 444"},
        {"https://a.example/", NULL},
        {"http://localhost/", NULL}, /* a name: its delivery decides */
        {"http://8.8.8.8/", NULL},
    };
    const char *problem;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config config = {.job_targets = JOB_TARGETS_TOPIC};
        struct buf text = {0};
        struct bed bed;
        buf_addf(&text, "{\"url\":\"%s\"}", cases[i].url);
        struct cmd cmd = {
            .kind = CMD_PUSH,
            .push = {.topic = BYTES("t"), .own_target = true, .properties = buf_bytes(&text)}};
        open_with_settings(&bed, "{\"target\":{\"type\":\"http\"}}");
        bed.server.options.config = &config;
        assert_int_equal(address_rule_set_ports(&config.push_rule, BYTES("80, 443"), &problem), OK);
        assert_int_equal(address_rule_add_allow(&config.push_rule, BYTES("192.168.7.9"), &problem),
                         OK);
        const char *why = cases[i].why ? cases[i].why : "";
        assert_string_equal(refusal_of(&bed, &http, &cmd), why);
        assert_string_equal(refusal_of(&bed, &ourselves, &cmd), ""); /* as from the journal */
        memcpy(config.push_proxy, "http://p:1", sizeof("http://p:1"));
        assert_string_equal(refusal_of(&bed, &http, &cmd), strstr(why, "ports") ? why : "");
        registry_free(bed.server.registry);
        buf_fini(&text);
    }
}

static void push_job_targets_decides_on_jobs_with_a_route_of_rabbitmq(void **state)
{
    static const struct {
        enum config_job_targets policy;
        const char *target, *topic;
        enum err err;
    } cases[] = {
        {JOB_TARGETS_TOPIC, "amqp", "t", OK},
        {JOB_TARGETS_TOPIC, "amqp", "u", ERR_JOB_TARGET},
        {JOB_TARGETS_ANY, "amqp", "t", OK},
        {JOB_TARGETS_ANY, "amqp", "u", ERR_JOB_TARGET}, /* nobody could say which broker */
        {JOB_TARGETS_ANY, "http", "t", ERR_JOB_TARGET},
        {JOB_TARGETS_OFF, "amqp", "t", ERR_JOB_TARGET},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config config = {.job_targets = cases[i].policy};
        struct asked asked = {.ticket.answered = note_answer};
        struct cmd cmd = {.kind = CMD_PUSH,
                          .push = {.topic = bytes_str(cases[i].topic), .own_route = true}};
        struct bed bed;
        open_with_settings(
            &bed, strcmp(cases[i].target, "http") == 0
                      ? "{\"target\":{\"type\":\"http\"}}"
                      : "{\"target\":{\"type\":\"amqp\",\"broker\":\"b\",\"routing_key\":\"k\"}}");
        bed.server.options.config = &config;
        (void)server_submit(&bed.server, &http, &cmd, &asked.ticket);
        assert_int_equal(asked.err, cases[i].err);
        cmd.push.own_target = true; /* both are nowhere allowed */
        (void)server_submit(&bed.server, &http, &cmd, &asked.ticket);
        assert_int_equal(asked.err, ERR_JOB_TARGET);
        registry_free(bed.server.registry);
    }
}

/* The delivery connects to the socket, whose path is what is checked. */
static void a_jobs_url_is_not_checked_where_its_topic_has_a_unix_socket(void **state)
{
    struct config config = {.job_targets = JOB_TARGETS_TOPIC};
    struct bed bed;
    struct cmd cmd = {.kind = CMD_PUSH,
                      .push = {.topic = BYTES("t"),
                               .own_target = true,
                               .properties = BYTES("{\"url\":\"http://127.0.0.1:8080/a\"}")}};
    (void)state;
    open_with_settings(&bed, "{\"target\":{\"type\":\"http\",\"unix_socket\":\"/run/a\"}}");
    bed.server.options.config = &config;
    assert_string_equal(refusal_of(&bed, &http, &cmd), "");
    registry_free(bed.server.registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_counted_by_who_asks),
        cmocka_unit_test(pushes_are_refused_and_nothing_else),
        cmocka_unit_test(the_engine_says_why_it_takes_no_pushes),
        cmocka_unit_test(a_push_gets_what_it_does_not_say_from_its_topic),
        cmocka_unit_test(topics_without_a_schedule_have_that_of_the_server),
        cmocka_unit_test(a_topic_with_a_target_has_waits_of_its_own_if_nobody_says_any),
        cmocka_unit_test(only_the_server_reserves_on_a_topic_with_a_target),
        cmocka_unit_test(push_job_targets_decides_on_jobs_with_a_url),
        cmocka_unit_test(a_job_with_an_address_that_is_never_allowed_is_refused),
        cmocka_unit_test(a_jobs_url_is_not_checked_where_its_topic_has_a_unix_socket),
        cmocka_unit_test(push_job_targets_decides_on_jobs_with_a_route_of_rabbitmq),
        cmocka_unit_test(memory_is_admitted_up_to_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
