/*
 * What is read from the headers of a message of AMQP, how a message is kept with its job, what a
 * channel counts, and when a connection ends because of a message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <poll.h>
#include <stdatomic.h>

#include "plugin_bed.h"
#include "sink/amqp/channel.h"
#include "sink/amqp/delay.h"
#include "sink/amqp/link.h"
#include "sink/amqp/message.h"

static amqp_bytes_t text(const char *words)
{
    return amqp_cstring_bytes(words);
}

static amqp_field_value_t utf8(const char *words)
{
    return (amqp_field_value_t){.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = text(words)};
}

static void x_delay_is_read_as_the_plugin_did(void **state)
{
    const struct {
        amqp_field_value_t value;
        int64_t ms;
    } good[] = {
        {{.kind = AMQP_FIELD_KIND_I8, .value.i8 = -5}, -5},
        {{.kind = AMQP_FIELD_KIND_U8, .value.u8 = 200}, 200},
        {{.kind = AMQP_FIELD_KIND_I16, .value.i16 = 5000}, 5000},
        {{.kind = AMQP_FIELD_KIND_U16, .value.u16 = 60000}, 60000},
        {{.kind = AMQP_FIELD_KIND_I32, .value.i32 = 5000}, 5000},
        {{.kind = AMQP_FIELD_KIND_U32, .value.u32 = 4294967295}, 4294967295},
        {{.kind = AMQP_FIELD_KIND_I64, .value.i64 = 4294967296}, 4294967296},
        {{.kind = AMQP_FIELD_KIND_U64, .value.u64 = UINT64_MAX}, INT64_MAX},
        {{.kind = AMQP_FIELD_KIND_F32, .value.f32 = 1999.9f}, 1999},
        {{.kind = AMQP_FIELD_KIND_F64, .value.f64 = -1.9}, -1},
        {{.kind = AMQP_FIELD_KIND_F64, .value.f64 = 1e300}, INT64_MAX},
        {{.kind = AMQP_FIELD_KIND_F64, .value.f64 = -1e300}, INT64_MIN},
        {{.kind = AMQP_FIELD_KIND_F64, .value.f64 = (double)NAN}, 0},
        {{.kind = AMQP_FIELD_KIND_DECIMAL, .value.decimal = {.decimals = 1, .value = 15}}, 1},
        {{.kind = AMQP_FIELD_KIND_DECIMAL, .value.decimal = {.decimals = 255, .value = 9}}, 0},
        {utf8("5000"), 5000},
        {utf8("-5000"), -5000},
        {utf8("+7"), 7},
        {utf8("0"), 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        int64_t ms = 77;
        assert_true(rabbit_delay_read(&good[i].value, &ms));
        assert_int_equal(ms, good[i].ms);
    }
    int64_t ms;
    amqp_field_value_t huge = utf8("99999999999999999999999999999999");
    assert_true(rabbit_delay_read(&huge, &ms) && ms > RABBIT_DELAY_MOST_MS);
}

static void what_is_no_number_is_no_delay(void **state)
{
    const amqp_field_value_t bad[] = {utf8(""),
                                      utf8("-"),
                                      utf8("soon"),
                                      utf8("5 000"),
                                      utf8("1.5"),
                                      {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1},
                                      {.kind = AMQP_FIELD_KIND_VOID},
                                      {.kind = AMQP_FIELD_KIND_TIMESTAMP, .value.u64 = 5},
                                      {.kind = AMQP_FIELD_KIND_TABLE},
                                      {.kind = AMQP_FIELD_KIND_ARRAY},
                                      {.kind = 0}};
    int64_t ms = 77;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(rabbit_delay_read(&bad[i], &ms));
    assert_int_equal(ms, 77);
}

static void x_delay_goes_on_with_its_sign_turned(void **state)
{
    (void)state;
    assert_int_equal(rabbit_delay_turned(5000).kind, AMQP_FIELD_KIND_I32);
    assert_int_equal(rabbit_delay_turned(5000).value.i32, -5000);
    assert_int_equal(rabbit_delay_turned(INT64_C(1) << 40).kind, AMQP_FIELD_KIND_I64);
    assert_int_equal(rabbit_delay_turned(INT64_C(1) << 40).value.i64, -(INT64_C(1) << 40));
    assert_int_equal(rabbit_delay_turned(INT64_MIN).value.i64, INT64_MAX);
}

static const char *take(struct intake_message *message, amqp_table_entry_t *entries, int count)
{
    amqp_table_t headers = {.num_entries = count, .entries = entries};
    return rabbit_headers_take(&headers, message);
}

static void only_a_delay_that_lasts_is_turned(void **state)
{
    struct intake_message message;
    amqp_table_entry_t delay = {.key = text("x-delay"), .value = utf8("-5000")};
    (void)state;
    assert_null(take(&message, &delay, 1));
    assert_int_equal(message.delay_us, 0);
    assert_int_equal(delay.value.kind, AMQP_FIELD_KIND_UTF8);
    delay.value = (amqp_field_value_t){.kind = AMQP_FIELD_KIND_I64, .value.i64 = 5000};
    assert_null(take(&message, &delay, 1));
    assert_int_equal(message.delay_us, 5000000);
    assert_int_equal(delay.value.value.i32, -5000);
    assert_null(take(&message, NULL, 0));
    assert_int_equal(message.delay_us, 0);
    assert_int_equal(message.id.len, 0);
}

static void an_id_replaces_unless_it_says_otherwise(void **state)
{
    struct intake_message message;
    amqp_table_entry_t entries[] = {{.key = text("x-laterd-id"), .value = utf8("order-1")},
                                    {.key = text("x-laterd-if-exists"), .value = utf8("keep")},
                                    {.key = text("x-laterd-cancel"), .value = utf8("true")}};
    (void)state;
    assert_null(take(&message, entries, 1));
    assert_true(bytes_eq(message.id, BYTES("order-1")) && !message.cancel);
    assert_int_equal(message.if_exists, IF_EXISTS_REPLACE);
    assert_null(take(&message, entries, 3));
    assert_true(message.cancel && message.if_exists == IF_EXISTS_KEEP);
    entries[1].value = utf8("maybe");
    assert_non_null(take(&message, entries, 2));
    assert_non_null(take(&message, &entries[2], 1)); /* cancel what? */
    entries[0].value = utf8("@17");
    assert_non_null(take(&message, entries, 1));
    entries[0].value = utf8("");
    assert_non_null(take(&message, entries, 1));
    entries[0].value = utf8("a\nb"); /* as in all dialects */
    assert_non_null(take(&message, entries, 1));
}

static void what_is_kept_is_put_back_exactly(void **state)
{
    amqp_table_entry_t entries[] = {
        {.key = text("u8"), .value = {.kind = AMQP_FIELD_KIND_U8, .value.u8 = 255}},
        {.key = text("f"), .value = {.kind = AMQP_FIELD_KIND_F64, .value.f64 = 0.1}},
        {.key = text("t"), .value = {.kind = AMQP_FIELD_KIND_TIMESTAMP, .value.u64 = 1}},
        {.key = text("b"), .value = {.kind = AMQP_FIELD_KIND_BYTES, .value.bytes = text("x")}},
    };
    amqp_basic_properties_t properties = {
        ._flags = AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_PRIORITY_FLAG | AMQP_BASIC_USER_ID_FLAG,
        .headers = {.num_entries = 4, .entries = entries},
        .priority = 7,
        .user_id = text("guest"),
    };
    struct buf kept = {0}, again = {0};
    amqp_bytes_t exchange, key;
    amqp_basic_properties_t read;
    amqp_pool_t pool;
    (void)state;
    init_amqp_pool(&pool, 4096);
    assert_true(rabbit_keep(BYTES("X.due"), BYTES("k"), &properties, &kept));
    assert_true(rabbit_kept_read(buf_bytes(&kept), &pool, &exchange, &key, &read));
    assert_memory_equal(exchange.bytes, "X.due", 5);
    assert_true(rabbit_keep(bytes_of(exchange.bytes, exchange.len), bytes_of(key.bytes, key.len),
                            &read, &again));
    assert_true(bytes_eq(buf_bytes(&kept), buf_bytes(&again)));
    for (size_t len = 0; len < 10; len++) /* cut short, it is not read */
        assert_false(rabbit_kept_read(bytes_of(kept.at, len), &pool, &exchange, &key, &read));
    kept.at[0] = 2;
    assert_false(rabbit_kept_read(buf_bytes(&kept), &pool, &exchange, &key, &read));
    empty_amqp_pool(&pool);
    buf_fini(&kept);
    buf_fini(&again);
}

/* ---- a connection ---- */

/* Whether the messages under way count as refused, if RabbitMQ ends the connection with this code
   instead of opening a channel. */
static bool refuses(uint16_t code)
{
    struct rabbit_link link = {.fd = -1};
    amqp_connection_close_t end = {.reply_code = code, .reply_text = text("it says why")};
    amqp_rpc_reply_t reply = {
        .reply_type = AMQP_RESPONSE_SERVER_EXCEPTION,
        .reply = {.id = AMQP_CONNECTION_CLOSE_METHOD, .decoded = &end},
    };
    assert_false(rabbit_link_explain(&link, "it opens no channel", reply));
    assert_non_null(strstr(link.why, "it says why"));
    return link.refused;
}

/* Else such a message would be sent again forever, if each time a channel is opened behind it. */
static void a_refused_message_is_noticed_while_a_channel_is_opened(void **state)
{
    (void)state;
    assert_true(refuses(AMQP_SYNTAX_ERROR));
    assert_true(refuses(AMQP_INTERNAL_ERROR));
    assert_false(refuses(AMQP_CONNECTION_FORCED)); /* RabbitMQ stops */
    assert_false(refuses(AMQP_NOT_ALLOWED));       /* one channel too many */
}

/* ---- a channel ---- */

static struct publish_counts counts;

/* Publishes as many messages as the test sends. */
static void publish(struct broker_thread *thread, struct rabbit_channel *channel, unsigned count)
{
    static struct rabbit_message message;
    struct broker_item *item;
    unsigned published = 0;
    int64_t until_us;
    while (published < count && !broker_closing(thread, &until_us)) {
        struct pollfd wake = {.fd = broker_wake_fd(thread), .events = POLLIN};
        (void)poll(&wake, 1, 10);
        for (; published < count && (item = broker_take(thread)); published++)
            rabbit_channel_add(channel, item, &message);
    }
}

/* The next one that is not confirmed by its deadline. */
static void end_late(struct broker_thread *thread)
{
    struct broker_item *item;
    while (!(item = broker_late(thread, broker_now_us())))
        (void)poll(NULL, 0, 1);
    rabbit_channel_forget(item);
    atomic_fetch_add(&counts.uncertain, 1);
    item->unhealthy = true;
    broker_finish(thread, item, OUTCOME_FAILED, "not confirmed");
}

/* Of two messages the first is not confirmed by its deadline; then the connection is lost. */
static void lose_the_connection(struct broker_thread *thread, void *user)
{
    struct rabbit_channel channel;
    (void)user;
    rabbit_channel_init(&channel, 1, 10, thread, &counts);
    rabbit_channel_opened(&channel);
    publish(thread, &channel, 2);
    end_late(thread);
    rabbit_channel_lost(&channel, OUTCOME_UNSENT, "the connection was lost");
    rabbit_channel_fini(&channel);
}

static void acknowledge(struct rabbit_channel *channel, uint64_t tag, bool multiple)
{
    amqp_basic_ack_t ack = {.delivery_tag = tag, .multiple = multiple};
    amqp_frame_t frame = {.frame_type = AMQP_FRAME_METHOD,
                          .payload.method = {.id = AMQP_BASIC_ACK_METHOD, .decoded = &ack}};
    (void)rabbit_channel_take(channel, &frame);
}

/* Whether the ring had room: when it was full, when the deadlines of the oldest had passed, full
   again, and when the others were confirmed. */
static bool had_room[4];

/* Nothing is confirmed until the ring is full of messages whose deadlines have passed. */
static void confirm_nothing_in_time(struct broker_thread *thread, void *user)
{
    struct rabbit_channel channel;
    (void)user;
    rabbit_channel_init(&channel, 1, 2, thread, &counts);
    rabbit_channel_opened(&channel);
    publish(thread, &channel, 4);
    had_room[0] = rabbit_channel_has_room(&channel);
    end_late(thread);
    end_late(thread);
    had_room[1] = rabbit_channel_has_room(&channel);
    publish(thread, &channel, 2);
    had_room[2] = rabbit_channel_has_room(&channel);
    acknowledge(&channel, 2, false); /* of a message that is forgotten */
    acknowledge(&channel, 5, true);
    had_room[3] = rabbit_channel_has_room(&channel);
    acknowledge(&channel, 6, false);
    rabbit_channel_fini(&channel);
}

/* ---- messages that come back ---- */

struct returnable {
    const char *key, *id, *body, *properties; /* id: NULL, it has none */
};

static amqp_basic_properties_t properties_of(const struct returnable *message)
{
    amqp_basic_properties_t properties = {._flags = 0};
    if (message->id) {
        properties._flags = AMQP_BASIC_MESSAGE_ID_FLAG;
        properties.message_id = text(message->id);
    }
    return properties;
}

static void publish_one(struct broker_thread *thread, struct rabbit_channel *channel,
                        const struct returnable *message)
{
    static struct rabbit_message room;
    struct broker_item *item;
    room.exchange = text("x");
    room.key = text(message->key);
    room.body = text(message->body);
    room.encoded = bytes_str(message->properties);
    room.properties = properties_of(message);
    while (!(item = broker_take(thread)))
        (void)poll(NULL, 0, 1);
    rabbit_channel_add(channel, item, &room);
}

/* A queue is full: its next message would be refused, too. */
static void refuse_one(struct broker_thread *thread, void *user)
{
    const struct returnable message = {"k", "1", "a", "p"};
    amqp_basic_nack_t nack = {.delivery_tag = 1};
    amqp_frame_t frame = {.frame_type = AMQP_FRAME_METHOD,
                          .payload.method = {.id = AMQP_BASIC_NACK_METHOD, .decoded = &nack}};
    struct rabbit_channel channel;
    (void)user;
    rabbit_channel_init(&channel, 1, 10, thread, &counts);
    rabbit_channel_opened(&channel);
    publish_one(thread, &channel, &message);
    (void)rabbit_channel_take(&channel, &frame);
    rabbit_channel_fini(&channel);
}

static void take_frame(struct rabbit_channel *channel, uint8_t type, amqp_frame_t frame)
{
    frame.frame_type = type;
    assert_true(rabbit_channel_take(channel, &frame));
}

/* RabbitMQ sends it back, with these properties. */
static void return_one(struct rabbit_channel *channel, const struct returnable *message,
                       const char *properties)
{
    amqp_basic_return_t what = {.reply_code = AMQP_NO_ROUTE,
                                .reply_text = text("NO_ROUTE"),
                                .exchange = text("x"),
                                .routing_key = text(message->key)};
    amqp_basic_properties_t decoded = properties_of(message);
    amqp_frame_t frame = {.payload.method = {.id = AMQP_BASIC_RETURN_METHOD, .decoded = &what}};
    take_frame(channel, AMQP_FRAME_METHOD, frame);
    frame.payload.properties.body_size = strlen(message->body);
    frame.payload.properties.decoded = &decoded;
    frame.payload.properties.raw = text(properties);
    take_frame(channel, AMQP_FRAME_HEADER, frame);
    frame.payload.body_fragment = text(message->body);
    if (message->body[0])
        take_frame(channel, AMQP_FRAME_BODY, frame);
}

static struct returnable messages[4];
static unsigned message_count, comes_back; /* the number of the one that does */
static const char *comes_back_with;        /* … with these properties */

static void return_and_confirm(struct broker_thread *thread, void *user)
{
    struct rabbit_channel channel;
    (void)user;
    rabbit_channel_init(&channel, 1, 10, thread, &counts);
    rabbit_channel_opened(&channel);
    for (unsigned i = 0; i < message_count; i++)
        publish_one(thread, &channel, &messages[i]);
    return_one(&channel, &messages[comes_back], comes_back_with);
    acknowledge(&channel, message_count, true);
    rabbit_channel_fini(&channel);
}

static void ended(void *user)
{
    (void)user;
}

static void (*run)(struct broker_thread *thread, void *user); /* of the next sink */

static void run_ready(struct broker_thread *thread, void *user)
{
    broker_set_ready(thread, true, "");
    run(thread, user);
}

/* A sink that runs `with`, and is ready. */
static void open_running(void (*with)(struct broker_thread *thread, void *user))
{
    counts = (struct publish_counts){0};
    run = with;
    bed_open("amqp://localhost");
    assert_true(turn_until_ready(true));
}

static enum err open_channel(const struct broker_options *options, struct sink **out_sink,
                             struct broker_error *out_error)
{
    (void)out_error;
    *out_sink = broker_thread_open(&(struct broker_thread_options){.loop = options->loop,
                                                                   .name = options->name,
                                                                   .window = 10,
                                                                   .run = run_ready,
                                                                   .ended = ended});
    return *out_sink ? OK : ERR_IO;
}

const struct plugin laterd_plugin = {.open = open_channel};

static void a_message_is_counted_as_uncertain_once(void **state)
{
    struct sent sent[] = {{.delivery = {.done = done, .timeout_us = 1000}},
                          {.delivery = {.done = done, .timeout_us = WAIT_US}}};
    (void)state;
    open_running(lose_the_connection);
    for (unsigned i = 0; i < 2; i++)
        sink->verbs->send(sink, &sent[i].delivery);
    expect(&sent[0], OUTCOME_FAILED, "not confirmed");
    expect(&sent[1], OUTCOME_UNSENT, "the connection was lost");
    sink->verbs->close(sink, 0);
    os_loop_free(os);
    assert_int_equal(atomic_load(&counts.published), 2);
    assert_int_equal(atomic_load(&counts.uncertain), 2);
}

static void messages_that_are_never_confirmed_hold_up_no_others(void **state)
{
    enum { COUNT = 6, LATE = 2 };
    struct sent sent[COUNT] = {0};
    (void)state;
    open_running(confirm_nothing_in_time);
    for (unsigned i = 0; i < COUNT; i++) {
        sent[i].delivery.done = done;
        sent[i].delivery.timeout_us = i < LATE ? 1000 : WAIT_US;
        sink->verbs->send(sink, &sent[i].delivery);
    }
    for (unsigned i = 0; i < COUNT; i++)
        expect(&sent[i], i < LATE ? OUTCOME_FAILED : OUTCOME_DELIVERED, "");
    sink->verbs->close(sink, 0);
    os_loop_free(os);
    assert_false(had_room[0]);
    assert_true(had_room[1]);
    assert_false(had_room[2]);
    assert_true(had_room[3]);
    assert_int_equal(atomic_load(&counts.confirmed), COUNT - LATE);
    assert_int_equal(atomic_load(&counts.uncertain), LATE);
}

/* Which messages fail, as a text of 0 and 1. */
static void expect_returned(const struct returnable *all, unsigned back, const char *with,
                            const char *failed)
{
    struct sent sent[4] = {0};
    message_count = (unsigned)strlen(failed);
    memcpy(messages, all, message_count * sizeof(messages[0]));
    comes_back = back;
    comes_back_with = with;
    open_running(return_and_confirm);
    for (unsigned i = 0; i < message_count; i++) {
        sent[i].delivery = (struct delivery){.done = done, .timeout_us = WAIT_US};
        sink->verbs->send(sink, &sent[i].delivery);
    }
    for (unsigned i = 0; i < message_count; i++) {
        expect(&sent[i], failed[i] == '1' ? OUTCOME_FAILED : OUTCOME_DELIVERED,
               failed[i] == '1' ? "no queue takes it" : "");
        assert_false(sent[i].unhealthy);
    }
    sink->verbs->close(sink, 0);
    os_loop_free(os);
}

/* An exchange of type headers takes some and returns others of the same routing key. */
static void a_returned_message_is_never_taken_for_another(void **state)
{
    const struct returnable with_ids[] = {
        {"k", "1", "a", "p1"}, {"k", "2", "b", "p2"}, {"k", "3", "a", "p3"}, {"l", "2", "b", "p2"}};
    const struct returnable without[] = {
        {"k", NULL, "", "p1"}, {"k", NULL, "", "p2"}, {"k", NULL, "b", "p2"}};
    (void)state;
    expect_returned(with_ids, 1, "p2", "0100");
    expect_returned(with_ids, 1, "p2 and a time", "0100"); /* RabbitMQ has set one */
    expect_returned(with_ids, 2, "p3 and a time", "0010");
    expect_returned(without, 1, "p2", "010");
    expect_returned(without, 1, "p2 and a time", "110"); /* it may be either one */
}

static void of_equal_messages_one_is_returned(void **state)
{
    const struct returnable equal[] = {{"k", "1", "a", "p"}, {"k", "1", "a", "p"}};
    (void)state;
    expect_returned(equal, 1, "p", "10");
}

static void what_a_full_queue_refuses_counts_for_its_breaker(void **state)
{
    struct sent sent = {.delivery = {.done = done, .timeout_us = WAIT_US}};
    (void)state;
    open_running(refuse_one);
    sink->verbs->send(sink, &sent.delivery);
    expect(&sent, OUTCOME_FAILED, "basic.nack");
    assert_true(sent.unhealthy);
    sink->verbs->close(sink, 0);
    os_loop_free(os);
    assert_int_equal(atomic_load(&counts.refused), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_full_queue_refuses_counts_for_its_breaker),
        cmocka_unit_test(a_returned_message_is_never_taken_for_another),
        cmocka_unit_test(of_equal_messages_one_is_returned),
        cmocka_unit_test(x_delay_is_read_as_the_plugin_did),
        cmocka_unit_test(what_is_no_number_is_no_delay),
        cmocka_unit_test(x_delay_goes_on_with_its_sign_turned),
        cmocka_unit_test(only_a_delay_that_lasts_is_turned),
        cmocka_unit_test(an_id_replaces_unless_it_says_otherwise),
        cmocka_unit_test(what_is_kept_is_put_back_exactly),
        cmocka_unit_test(a_refused_message_is_noticed_while_a_channel_is_opened),
        cmocka_unit_test(a_message_is_counted_as_uncertain_once),
        cmocka_unit_test(messages_that_are_never_confirmed_hold_up_no_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
