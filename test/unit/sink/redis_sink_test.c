/*
 * The sink for Redis on a simulated network, against a host that answers as it is told: which
 * answer is which outcome, and that each delivery has exactly one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "client/redis/link.h"
#include "sim/loop.h"
#include "sink/redis_sink.h"

enum { SECOND_US = 1000 * 1000, MANY = 3000 };

/* ---- a Redis that answers as it is told ---- */

struct fake {
    struct sim_host host;
    redisReader *reader;
    struct sim_peer *peer;
    char answers[8][160]; /* to what is neither PING, ROLE nor CLUSTER, in turn; then the last */
    unsigned answer_count, next;
    const char *role;
    struct buf seen;   /* the commands that count, words apart by blanks */
    unsigned commands; /* how many those are */
    const char *slots; /* CLUSTER SLOTS */
};

static void accepted(struct sim_host *host, struct sim_peer *peer)
{
    struct fake *fake = LIST_ENTRY(host, struct fake, host);
    if (fake->reader)
        redisReaderFree(fake->reader);
    fake->reader = redisReaderCreate();
    fake->peer = peer;
}

static void report(struct sim_peer *peer, const char *text)
{
    sim_peer_send(peer, bytes_str(text));
}

static void answer(struct fake *fake, const redisReply *words)
{
    const char *verb = words->element[0]->str;
    if (strcmp(verb, "PING") == 0) {
        report(fake->peer, "+PONG\r\n");
    } else if (strcmp(verb, "ROLE") == 0) {
        report(fake->peer, fake->role);
    } else if (strcmp(verb, "CLUSTER") == 0) {
        if (strcmp(words->element[1]->str, "INFO") == 0)
            report(fake->peer, "$41\r\ncluster_state:ok\r\ncluster_current_epoch:1\r\n");
        else
            report(fake->peer, fake->slots);
    } else {
        for (size_t i = 0; i < words->elements; i++) {
            buf_add(&fake->seen, words->element[i]->str, (size_t)words->element[i]->len);
            buf_add_char(&fake->seen, i + 1 < words->elements ? ' ' : '\n');
        }
        fake->commands++;
        unsigned which = fake->next < fake->answer_count ? fake->next++ : fake->answer_count - 1;
        report(fake->peer, fake->answers[which]);
    }
}

static void input(struct sim_host *host, struct sim_peer *peer, struct bytes bytes)
{
    struct fake *fake = LIST_ENTRY(host, struct fake, host);
    void *words = NULL;
    (void)peer;
    assert_int_equal(redisReaderFeed(fake->reader, bytes.at, bytes.len), REDIS_OK);
    while (redisReaderGetReply(fake->reader, &words) == REDIS_OK && words) {
        answer(fake, words);
        freeReplyObject(words);
    }
}

static void closed(struct sim_host *host, struct sim_peer *peer, bool reset)
{
    (void)host;
    (void)peer;
    (void)reset;
}

static const struct sim_host_handler handler = {
    .accepted = accepted, .input = input, .closed = closed};

#define MASTER "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"

/* ---- the bed ---- */

struct bed {
    struct sim_clock clock;
    struct sim_net *net;
    struct sim_loop *sim;
    struct loop *loop;
    struct fake fakes[2];
    struct sink *sink;
    unsigned changes;
    unsigned turns; /* that run_for() has taken */
};

struct sent {
    struct delivery delivery;
    unsigned done;
    enum outcome_kind kind;
    bool unhealthy;
    char reason[OUTCOME_REASON_MAX + 1];
};

static void changed(struct sink *sink)
{
    ((struct bed *)sink->user)->changes++;
}

/* A sink whose timer is always due would never let the time go on. */
static void run_for(struct bed *bed, int64_t us)
{
    int64_t until_us = bed->clock.now_us + us;
    unsigned turns_max = bed->turns + 100 * 1000;
    while (bed->clock.now_us < until_us) {
        assert_true(bed->turns++ < turns_max);
        int64_t next_us = sim_net_next_us(bed->net), timer_us = timers_next_us(&bed->loop->timers);
        next_us = timer_us < next_us ? timer_us : next_us;
        if (next_us > bed->clock.now_us)
            bed->clock.now_us = next_us < until_us ? next_us : until_us;
        sim_net_run(bed->net);
        (void)loop_update_time(bed->loop);
        (void)bed->loop->verbs->gather(bed->loop, NULL);
        (void)loop_expire(bed->loop, NULL);
    }
}

static void tell_fake(struct fake *fake, const char *text)
{
    (void)snprintf(fake->answers[fake->answer_count++], sizeof(fake->answers[0]), "%s", text);
}

static void open_bed(struct bed *bed, const char *url_text)
{
    static const char *const addresses[] = {"10.0.0.1:6379", "10.0.0.2:6379"};
    struct redis_url url;
    struct redis_error error;
    *bed = (struct bed){.changes = 0};
    log_level_set(LOG_ERROR);
    sim_clock_init(&bed->clock, 1000 * SECOND_US);
    bed->net = sim_net_new(&bed->clock, 1);
    bed->sim = sim_loop_new(bed->net, &bed->clock.clock);
    bed->loop = sim_loop_port(bed->sim);
    for (unsigned i = 0; i < 2; i++) {
        sim_host_add(bed->net, &bed->fakes[i].host, addresses[i], &handler);
        bed->fakes[i].role = MASTER;
        bed->fakes[i].slots = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$8\r\n10.0.0.1\r\n:6379\r\n";
    }
    assert_int_equal(redis_url_read(bytes_str(url_text), &url, &error), OK);
    bed->sink = redis_sink_new(&(struct redis_sink_options){.loop = bed->loop,
                                                            .name = "cache",
                                                            .url = &url,
                                                            .sentinel_user = "",
                                                            .sentinel_password = "",
                                                            .timeout_us = 2 * SECOND_US});
    bed->sink->changed = changed;
    bed->sink->user = bed;
    run_for(bed, SECOND_US);
}

static void close_bed(struct bed *bed)
{
    if (bed->sink)
        bed->sink->verbs->close(bed->sink, 0);
    sim_loop_free(bed->sim);
    sim_net_free(bed->net);
    for (unsigned i = 0; i < 2; i++) {
        if (bed->fakes[i].reader)
            redisReaderFree(bed->fakes[i].reader);
        buf_fini(&bed->fakes[i].seen);
    }
}

static void done(struct delivery *delivery, const struct outcome *outcome)
{
    struct sent *sent = LIST_ENTRY(delivery, struct sent, delivery);
    sent->done++;
    sent->kind = outcome->kind;
    sent->unhealthy = outcome->unhealthy;
    (void)snprintf(sent->reason, sizeof(sent->reason), "%.*s", (int)outcome->reason.len,
                   outcome->reason.at);
    assert_true(bytes_eq(outcome->address, BYTES("cache")));
}

static const struct target stream = {
    .type = TARGET_REDIS,
    .broker = {"cache", 5},
    .redis = {.kind = TARGET_REDIS_STREAM, .key = {"orders", 6}, .maxlen = 1000}};
static const struct target list = {.type = TARGET_REDIS,
                                   .broker = {"cache", 5},
                                   .redis = {.kind = TARGET_REDIS_LIST, .key = {"orders", 6}}};

static void prepare(struct sent *sent, const struct target *target)
{
    *sent = (struct sent){.delivery = {.done = done,
                                       .target = target,
                                       .topic = BYTES("pay"),
                                       .id = BYTES("o-1"),
                                       .body = BYTES("hello"),
                                       .message_id = BYTES("msg_7"),
                                       .attempt = 2,
                                       .due_us = 1000 * SECOND_US,
                                       .timeout_us = 5 * SECOND_US}};
}

static void give(struct bed *bed, struct sent *sent)
{
    bed->sink->verbs->send(bed->sink, &sent->delivery);
    assert_int_equal(sent->done, 0); /* never from inside send() */
}

static void send(struct bed *bed, struct sent *sent, const struct target *target)
{
    prepare(sent, target);
    give(bed, sent);
}

/* One delivery, one answer. */
static void expect(const char *answer_text, enum outcome_kind kind, const char *words)
{
    struct bed bed;
    struct sent sent;
    open_bed(&bed, "redis://10.0.0.1");
    tell_fake(&bed.fakes[0], answer_text);
    send(&bed, &sent, &stream);
    run_for(&bed, SECOND_US / 20);
    assert_int_equal(sent.done, 1);
    assert_int_equal(sent.kind, kind);
    if (!strstr(sent.reason, words))
        fail_msg("'%s' is not in '%s'", words, sent.reason);
    close_bed(&bed);
}

/* ---- tests ---- */

static void a_stream_gets_the_body_and_what_is_known_of_the_job(void **state)
{
    static const struct target_header headers[] = {{{"X-A", 3}, {"1", 1}},
                                                   {{"laterd-topic", 12}, {"forged", 6}}};
    struct bed bed;
    struct sent sent;
    (void)state;
    open_bed(&bed, "redis://10.0.0.1");
    assert_true(bed.sink->verbs->ready(bed.sink, NULL));
    assert_int_equal(bed.changes, 1);
    tell_fake(&bed.fakes[0], "$15\r\n1526919030474-0\r\n");
    prepare(&sent, &stream);
    sent.delivery.headers = headers;
    sent.delivery.header_count = 2;
    sent.delivery.key = BYTES("customer 9");
    give(&bed, &sent);
    run_for(&bed, SECOND_US / 10);
    assert_int_equal(sent.done, 1);
    assert_int_equal(sent.kind, OUTCOME_DELIVERED);
    buf_add_char(&bed.fakes[0].seen, '\0');
    assert_string_equal(bed.fakes[0].seen.at,
                        "XADD orders MAXLEN ~ 1000 * body hello id o-1 topic pay message_id msg_7 "
                        "content_type application/octet-stream attempt 2 due "
                        "1970-01-01T00:16:40.000Z key customer 9 header:X-A 1\n");
    close_bed(&bed);
}

static void a_list_gets_the_body(void **state)
{
    struct bed bed;
    struct sent sent;
    (void)state;
    open_bed(&bed, "redis://10.0.0.1");
    tell_fake(&bed.fakes[0], ":1\r\n");
    send(&bed, &sent, &list);
    run_for(&bed, SECOND_US / 10);
    assert_int_equal(sent.kind, OUTCOME_DELIVERED);
    assert_true(bytes_eq(buf_bytes(&bed.fakes[0].seen), BYTES("LPUSH orders hello\n")));
    close_bed(&bed);
}

static void each_error_of_redis_has_its_outcome_and_reason(void **state)
{
    (void)state;
    expect("-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
           OUTCOME_REFUSED, "WRONGTYPE");
    expect("-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n", OUTCOME_REFUSED,
           "maximum allowed size");
    expect("-ERR Protocol error: invalid bulk length\r\n", OUTCOME_REFUSED, "bulk length");
    expect("-NOPERM this user has no permissions to access one of the keys\r\n", OUTCOME_FAILED,
           "NOPERM");
    expect("-ERR unknown command 'XADD'\r\n", OUTCOME_FAILED, "unknown command");
    expect("-OOM command not allowed when used memory > 'maxmemory'.\r\n", OUTCOME_UNSENT, "OOM");
    expect("-READONLY You can't write against a read only replica.\r\n", OUTCOME_UNSENT,
           "READONLY");
    expect("-MISCONF Redis is configured to save RDB snapshots\r\n", OUTCOME_UNSENT, "MISCONF");
    expect("-LOADING Redis is loading the dataset in memory\r\n", OUTCOME_UNSENT, "LOADING");
    expect("-MOVED 3999 10.0.0.2:6379\r\n", OUTCOME_FAILED, "redis+cluster://");
}

static void a_redis_that_is_full_rests_longer_and_longer_and_is_tried_again(void **state)
{
    struct bed bed;
    struct sent sent;
    const char *why = NULL;
    int64_t rested_us = 0;
    (void)state;
    open_bed(&bed, "redis://10.0.0.1");
    tell_fake(&bed.fakes[0], "-OOM command not allowed\r\n");
    for (int round = 0; round < 10; round++) {
        send(&bed, &sent, &stream);
        run_for(&bed, 1000);
        assert_int_equal(sent.kind, OUTCOME_UNSENT);
        assert_false(bed.sink->verbs->ready(bed.sink, &why));
        assert_non_null(strstr(why, "OOM"));
        int64_t since_us = bed.clock.now_us;
        while (!bed.sink->verbs->ready(bed.sink, NULL))
            run_for(&bed, 1000);
        assert_true(bed.clock.now_us - since_us >= rested_us - 2000);
        rested_us = bed.clock.now_us - since_us;
        assert_true(rested_us <= 5 * SECOND_US + 2000);
    }
    assert_true(rested_us > 4 * SECOND_US);
    assert_int_equal(bed.changes, 1 + 2 * 10);
    close_bed(&bed);
}

static void without_a_connection_all_is_unsent_and_it_is_ready_when_it_is_back(void **state)
{
    static struct sent sent[MANY];
    struct bed bed;
    const char *why = NULL;
    (void)state;
    open_bed(&bed, "redis://10.0.0.1");
    tell_fake(&bed.fakes[0], ":1\r\n");
    sim_host_reach(&bed.fakes[0].host, SIM_SILENT);
    for (int i = 0; i < MANY; i++)
        send(&bed, &sent[i], &list);
    run_for(&bed, SECOND_US);
    sim_host_reach(&bed.fakes[0].host, SIM_REFUSES);
    sim_host_cut(&bed.fakes[0].host);
    run_for(&bed, SECOND_US);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(sent[i].done, 1);
        assert_int_equal(sent[i].kind, OUTCOME_UNSENT);
    }
    assert_false(bed.sink->verbs->ready(bed.sink, &why));
    assert_non_null(strstr(why, "Redis is away"));
    send(&bed, &sent[0], &list);
    run_for(&bed, 1000);
    assert_int_equal(sent[0].kind, OUTCOME_UNSENT);
    sim_host_reach(&bed.fakes[0].host, SIM_UP);
    run_for(&bed, 3 * SECOND_US);
    assert_true(bed.sink->verbs->ready(bed.sink, NULL));
    send(&bed, &sent[0], &list);
    run_for(&bed, SECOND_US);
    assert_int_equal(sent[0].kind, OUTCOME_DELIVERED);
    close_bed(&bed);
}

static void a_delivery_that_takes_too_long_fails_and_its_late_reply_is_ignored(void **state)
{
    struct bed bed;
    struct sent sent;
    (void)state;
    open_bed(&bed, "redis://10.0.0.1");
    tell_fake(&bed.fakes[0], ":1\r\n");
    sim_host_reach(&bed.fakes[0].host, SIM_SILENT);
    send(&bed, &sent, &list);
    sent.delivery.timeout_us = 0; /* was read by send() */
    bed.sink->verbs->close(bed.sink, 0);
    assert_int_equal(sent.done, 1);
    bed.sink = NULL;
    close_bed(&bed);

    open_bed(&bed, "redis://10.0.0.1");
    tell_fake(&bed.fakes[0], ":1\r\n");
    sim_host_reach(&bed.fakes[0].host, SIM_SILENT);
    sent = (struct sent){
        .delivery = {
            .done = done, .target = &list, .body = BYTES("x"), .timeout_us = SECOND_US / 2}};
    bed.sink->verbs->send(bed.sink, &sent.delivery);
    run_for(&bed, SECOND_US);
    assert_int_equal(sent.done, 1);
    assert_int_equal(sent.kind, OUTCOME_FAILED);
    assert_true(sent.unhealthy);
    sim_host_reach(&bed.fakes[0].host, SIM_UP);
    run_for(&bed, SECOND_US);
    assert_int_equal(sent.done, 1);
    close_bed(&bed);
}

static void closing_tells_what_waits_and_what_is_under_way(void **state)
{
    struct bed bed;
    struct sent sent[2];
    (void)state;
    open_bed(&bed, "redis://10.0.0.1");
    sim_host_reach(&bed.fakes[0].host, SIM_SILENT);
    send(&bed, &sent[0], &list);
    run_for(&bed, 1000);
    send(&bed, &sent[1], &list);
    bed.sink->verbs->close(bed.sink, 0);
    bed.sink = NULL;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sent[i].done, 1);
        assert_int_equal(sent[i].kind, OUTCOME_UNSENT);
    }
    close_bed(&bed);
}

static void a_cluster_s_redirections_are_followed(void **state)
{
    struct bed bed;
    struct sent sent;
    (void)state;
    open_bed(&bed, "redis+cluster://10.0.0.1");
    tell_fake(&bed.fakes[0], "-ASK 105 10.0.0.2:6379\r\n");
    tell_fake(&bed.fakes[0], "-TRYAGAIN Multiple keys request during rehashing of slot\r\n");
    tell_fake(&bed.fakes[0], "-MOVED 105 10.0.0.2:6379\r\n");
    tell_fake(&bed.fakes[1], "+OK\r\n");
    tell_fake(&bed.fakes[1], ":1\r\n");
    send(&bed, &sent, &list);
    run_for(&bed, SECOND_US);
    assert_int_equal(sent.kind, OUTCOME_DELIVERED);
    assert_true(bytes_eq(buf_bytes(&bed.fakes[1].seen), BYTES("ASKING\nLPUSH orders hello\n")));
    bed.fakes[0].slots = bed.fakes[1].slots =
        "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$8\r\n10.0.0.2\r\n:6379\r\n";
    send(&bed, &sent, &list);
    run_for(&bed, SECOND_US);
    assert_int_equal(sent.kind, OUTCOME_DELIVERED);
    assert_int_equal(bed.fakes[1].commands, 3);
    close_bed(&bed);
}

/* A node that is to be called by a name, and has none: what is for its slot was not tried, so it
   must not be buried after some attempts; all else goes on. */
static void a_redirection_to_a_node_without_a_name_is_for_its_slot_alone(void **state)
{
    static const char *const answers[] = {"-MOVED 105 ?:6379\r\n", "-ASK 105 ?:6379\r\n"};
    for (unsigned i = 0; i < 2; i++) {
        struct bed bed;
        struct sent refused, sent;
        (void)state;
        open_bed(&bed, "redis+cluster://10.0.0.1");
        tell_fake(&bed.fakes[0], answers[i]);
        tell_fake(&bed.fakes[0], ":1\r\n");
        send(&bed, &refused, &list);
        run_for(&bed, SECOND_US / 10);
        assert_int_equal(refused.done, 1);
        assert_int_equal(refused.kind, OUTCOME_UNSENT);
        assert_true(refused.unhealthy); /* else such jobs would take all slots */
        send(&bed, &sent, &list);
        run_for(&bed, SECOND_US / 10);
        assert_int_equal(sent.kind, OUTCOME_DELIVERED);
        close_bed(&bed);
    }
}

/* The first one is told who should have it, and then the second one is not sent to anybody. */
static void what_no_server_was_sent_in_time_counts_no_attempt(void **state)
{
    struct sent sent[2];
    struct bed bed;
    (void)state;
    open_bed(&bed, "redis+cluster://10.0.0.1");
    sim_host_reach(&bed.fakes[1].host, SIM_REFUSES);
    tell_fake(&bed.fakes[0], "-MOVED 105 10.0.0.2:6379\r\n");
    send(&bed, &sent[0], &list);
    run_for(&bed, 1); /* it is on its way */
    bed.fakes[0].slots = "*2\r\n*3\r\n:0\r\n:8191\r\n*2\r\n$8\r\n10.0.0.2\r\n:6379\r\n"
                         "*3\r\n:8192\r\n:16383\r\n*2\r\n$8\r\n10.0.0.1\r\n:6379\r\n";
    run_for(&bed, SECOND_US);
    send(&bed, &sent[1], &list);
    assert_int_equal(bed.fakes[0].commands, 1);
    run_for(&bed, 6 * SECOND_US);
    assert_int_equal(sent[0].kind, OUTCOME_FAILED);
    assert_int_equal(sent[1].kind, OUTCOME_UNSENT);
    assert_true(sent[1].unhealthy); /* else such jobs would take all slots */
    close_bed(&bed);
}

/* The server of their slot does not answer, and another one of the cluster does. */
static void what_waits_for_the_server_of_its_slot_is_looked_at_now_and_then(void **state)
{
    enum { COUNT = 600 }; /* more than are sent in one turn */
    static struct sent sent[COUNT];
    struct bed bed;
    (void)state;
    open_bed(&bed, "redis+cluster://10.0.0.1");
    sim_host_reach(&bed.fakes[1].host, SIM_REFUSES);
    bed.fakes[0].slots = "*2\r\n*3\r\n:0\r\n:8191\r\n*2\r\n$8\r\n10.0.0.2\r\n:6379\r\n"
                         "*3\r\n:8192\r\n:16383\r\n*2\r\n$8\r\n10.0.0.1\r\n:6379\r\n";
    tell_fake(&bed.fakes[0], "-MOVED 105 10.0.0.2:6379\r\n");
    tell_fake(&bed.fakes[1], ":1\r\n");
    for (int i = 0; i < COUNT; i++)
        send(&bed, &sent[i], &list);
    run_for(&bed, SECOND_US / 10);
    assert_true(bed.sink->verbs->ready(bed.sink, NULL));
    unsigned before = bed.turns;
    run_for(&bed, SECOND_US);
    assert_true(bed.turns - before < 300); /* each 20 ms, and what the connections do */
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(sent[i].done, 0);
    sim_host_reach(&bed.fakes[1].host, SIM_UP);
    run_for(&bed, 3 * SECOND_US);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(sent[i].kind, OUTCOME_DELIVERED);
    close_bed(&bed);
}

static void what_is_in_the_connection_is_bounded_however_much_is_sent(void **state)
{
    static struct sent sent[64];
    static char body[1024 * 1024];
    struct bed bed;
    (void)state;
    open_bed(&bed, "redis://10.0.0.1");
    tell_fake(&bed.fakes[0], ":1\r\n");
    sim_host_reach(&bed.fakes[0].host, SIM_SILENT);
    size_t before = mem_used();
    for (int i = 0; i < 64; i++) {
        prepare(&sent[i], &list);
        sent[i].delivery.body = bytes_of(body, sizeof(body));
        give(&bed, &sent[i]);
    }
    run_for(&bed, SECOND_US);
    assert_true(mem_used() - before < 48u * 1024 * 1024);
    sim_host_reach(&bed.fakes[0].host, SIM_UP);
    run_for(&bed, 4 * SECOND_US);
    for (int i = 0; i < 64; i++)
        assert_int_equal(sent[i].kind, OUTCOME_DELIVERED);
    close_bed(&bed);
}

/* Copying takes the time of all clients. */
static void a_turn_copies_no_more_than_half_a_mebibyte_and_a_body(void **state)
{
    static struct sent sent[16];
    static char body[256 * 1024];
    struct bed bed;
    (void)state;
    open_bed(&bed, "redis://10.0.0.1");
    tell_fake(&bed.fakes[0], ":1\r\n");
    for (int i = 0; i < 16; i++) {
        prepare(&sent[i], &list);
        sent[i].delivery.body = bytes_of(body, sizeof(body));
        give(&bed, &sent[i]);
    }
    size_t before = mem_used();
    (void)loop_expire(bed.loop, NULL);
    assert_in_range(mem_used() - before, sizeof(body), 1536 * 1024);
    run_for(&bed, SECOND_US);
    for (int i = 0; i < 16; i++)
        assert_int_equal(sent[i].kind, OUTCOME_DELIVERED);
    close_bed(&bed);
}

/* As a leader does that has lost its lease: others may send the same jobs by now. */
static void nothing_is_sent_after_it_was_stopped(void **state)
{
    enum { COUNT = 1000 };
    static struct sent sent[COUNT + 1];
    struct bed bed;
    (void)state;
    open_bed(&bed, "redis://10.0.0.1");
    tell_fake(&bed.fakes[0], "+1-1\r\n");
    tell_fake(&bed.fakes[0], "-TRYAGAIN\r\n");
    send(&bed, &sent[0], &stream);
    run_for(&bed, SECOND_US / 20);
    assert_int_equal(sent[0].kind, OUTCOME_DELIVERED);
    unsigned before = bed.fakes[0].commands;
    send(&bed, &sent[1], &stream);
    run_for(&bed, SECOND_US / 200); /* it is put off */
    assert_int_equal(bed.fakes[0].commands, before + 1);
    assert_int_equal(sent[1].done, 0);
    for (int i = 2; i < COUNT; i++)
        send(&bed, &sent[i], &stream);
    bed.sink->verbs->stop(bed.sink, 0);
    assert_false(bed.sink->verbs->ready(bed.sink, NULL));
    assert_false(bed.sink->verbs->stopped(bed.sink));
    send(&bed, &sent[COUNT], &stream);
    run_for(&bed, 6 * SECOND_US);
    assert_true(bed.sink->verbs->stopped(bed.sink));
    assert_int_equal(bed.fakes[0].commands, before + 1);
    for (int i = 1; i <= COUNT; i++) {
        assert_int_equal(sent[i].done, 1);
        assert_int_equal(sent[i].kind, OUTCOME_UNSENT);
        assert_string_equal(sent[i].reason, "laterd is ending");
    }
    close_bed(&bed);
}

static void what_is_under_way_when_it_is_stopped_is_unsent(void **state)
{
    struct bed bed;
    struct sent sent;
    (void)state;
    open_bed(&bed, "redis://10.0.0.1");
    tell_fake(&bed.fakes[0], "+1-1\r\n");
    sim_host_reach(&bed.fakes[0].host, SIM_SILENT);
    send(&bed, &sent, &stream);
    run_for(&bed, SECOND_US / 20);
    bed.sink->verbs->stop(bed.sink, 0);
    assert_int_equal(sent.done, 0);
    run_for(&bed, SECOND_US / 20);
    assert_int_equal(sent.done, 1);
    assert_int_equal(sent.kind, OUTCOME_UNSENT);
    assert_true(bed.sink->verbs->stopped(bed.sink));
    close_bed(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_gets_the_body_and_what_is_known_of_the_job),
        cmocka_unit_test(a_list_gets_the_body),
        cmocka_unit_test(each_error_of_redis_has_its_outcome_and_reason),
        cmocka_unit_test(a_redis_that_is_full_rests_longer_and_longer_and_is_tried_again),
        cmocka_unit_test(without_a_connection_all_is_unsent_and_it_is_ready_when_it_is_back),
        cmocka_unit_test(a_delivery_that_takes_too_long_fails_and_its_late_reply_is_ignored),
        cmocka_unit_test(closing_tells_what_waits_and_what_is_under_way),
        cmocka_unit_test(a_cluster_s_redirections_are_followed),
        cmocka_unit_test(a_redirection_to_a_node_without_a_name_is_for_its_slot_alone),
        cmocka_unit_test(what_no_server_was_sent_in_time_counts_no_attempt),
        cmocka_unit_test(what_waits_for_the_server_of_its_slot_is_looked_at_now_and_then),
        cmocka_unit_test(what_is_in_the_connection_is_bounded_however_much_is_sent),
        cmocka_unit_test(a_turn_copies_no_more_than_half_a_mebibyte_and_a_body),
        cmocka_unit_test(nothing_is_sent_after_it_was_stopped),
        cmocka_unit_test(what_is_under_way_when_it_is_stopped_is_unsent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
