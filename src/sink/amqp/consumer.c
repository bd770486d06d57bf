/*
 * Takes the messages of one queue of RabbitMQ to the loop, and acknowledges each when it is a job.
 *
 *   thread: deliver ─▶ `brought` ─▶ loop: take() … settle() ─▶ `settled` ─▶ thread: ack
 *
 * Acknowledgements are sent in the order of the delivery tags, many in one frame (multiple). The
 * thread has the ring of tags. A message knows its tag and its connection, because its verdict may
 * come when that connection has ended: then it is ignored, and RabbitMQ delivers the message again.
 *
 * While the store takes no jobs, the consumer is cancelled: RabbitMQ closes a channel on which a
 * message stays unacknowledged for 30 minutes. It consumes again when all messages are settled: a
 * new consumer has a prefetch of its own, so with those of the former one there would be more than
 * the ring has places for, and messages would be acknowledged that are no jobs yet.
 */
#include <amqp.h>
#include <amqp_framing.h>
#include <stdio.h>
#include <sys/eventfd.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "os/mailbox.h"
#include "os/thread.h"
#include "sink/amqp/delay.h"
#include "sink/amqp/link.h"
#include "sink/amqp/message.h"
#include "sink/amqp/parts.h"
#include "sink/broker_thread.h"

enum {
    CHANNEL = 1,
    FRAMES_AT_ONCE = 500,
    SLEEP_MS = 100,
    BYTES_OUT_MAX = 64 << 20, /* of bodies that are not settled, at most */
    APART_BYTES = 256 << 10,  /* larger bodies have memory of their own: intake_message::memory */
    BACKOFF_FIRST_US = 100000,
    BACKOFF_MOST_US = 10000000,
    PAUSE_FIRST_US = 1000000,
    PAUSE_MOST_US = 30000000,
    INTERRUPT_US = 2000000, /* after stop(): then the thread's call is interrupted */
    WATCH_US = 1000000,
};

/* Its bytes lie behind it, but for a large body. */
struct brought {
    struct intake_message message;
    uint64_t tag, connection;
    enum intake_verdict verdict;
    size_t bytes;
    struct buf body;
    char text[];
};

enum tag_state { TAG_OPEN, TAG_STORED, TAG_REFUSED, TAG_LATER };

struct consumer {
    struct intake intake;
    struct intake_options options;
    struct rabbit_link link;
    pthread_t thread;
    struct mailbox settled; // brought::message.place; to the thread
    atomic_bool closing;
    /* Both: under the mutex. */
    pthread_mutex_t mutex;
    struct queue brought; // the same; to the loop
    bool posted;
    struct message message;
    /* The loop's. */
    bool closed, joined, interrupted;
    int64_t interrupt_us; /* while closing: when to interrupt what the thread waits in */
    struct timer watch;   /* interrupts a call that writes for too long */
    /* The thread's. */
    uint64_t connection; /* its number */
    uint64_t run;        /* intake_message::run: how often it has begun to consume */
    uint8_t *ring;       /* enum tag_state, by tag */
    uint64_t ring_size, oldest_tag, next_tag;
    size_t bytes_out;
    bool consuming;
    bool cancelling; /* basic.cancel was sent: messages may come until it is answered */
    int64_t resume_us, pause_us;
    struct brought *reading; /* a message whose body is being received; NULL: it is skipped */
    uint64_t reading_tag, reading_left;
    char *reading_to; /* where the next bytes of its body belong */
    bool in_body;
    struct bytes exchange, key; /* of the message that comes; in `route` */
    char route[2 * RABBIT_NAME_MAX];
    struct buf kept;
    char logged[RABBIT_WHY_MAX];
};

static struct consumer *self(struct intake *intake)
{
    return LIST_ENTRY(intake, struct consumer, intake);
}

static void free_brought(struct brought *one)
{
    if (one)
        buf_fini(&one->body);
    mem_free(one);
}

/* ---- acknowledging ---- */

static uint8_t *state_of(struct consumer *consumer, uint64_t tag)
{
    return &consumer->ring[tag & (consumer->ring_size - 1)];
}

static bool sent(struct consumer *consumer, int status)
{
    return rabbit_link_end_send(&consumer->link, status);
}

static bool send_ack(struct consumer *consumer, uint64_t tag)
{
    if (tag == 0)
        return true;
    rabbit_link_begin_send(&consumer->link);
    return sent(consumer, amqp_basic_ack(consumer->link.state, CHANNEL, tag, 1));
}

/* Sends all acknowledgements that are possible in order. False: the connection is lost. */
static bool flush(struct consumer *consumer)
{
    uint64_t stored = 0;
    bool good = true;
    while (good && consumer->oldest_tag != consumer->next_tag) {
        uint64_t tag = consumer->oldest_tag;
        uint8_t state = *state_of(consumer, tag);
        if (state == TAG_OPEN)
            break;
        consumer->oldest_tag++;
        if (state == TAG_STORED) {
            stored = tag;
            continue;
        }
        good = send_ack(consumer, stored);
        stored = 0;
        rabbit_link_begin_send(&consumer->link);
        good = good && sent(consumer, amqp_basic_reject(consumer->link.state, CHANNEL, tag,
                                                        state == TAG_LATER));
    }
    return good && send_ack(consumer, stored);
}

/* Cancels the consumer for a while. False: the connection is lost. */
static bool pause(struct consumer *consumer)
{
    amqp_basic_cancel_t cancel = {.consumer_tag = amqp_cstring_bytes("laterd"), .nowait = 0};
    if (!consumer->consuming)
        return true;
    consumer->consuming = false;
    consumer->cancelling = true;
    consumer->pause_us =
        consumer->pause_us ? backoff_after(consumer->pause_us, PAUSE_MOST_US) : PAUSE_FIRST_US;
    consumer->resume_us = broker_now_us() + consumer->pause_us;
    log_event(
        LOG_WARN, "amqp_in_paused",
        "name=%s ms=%lld hint=\"the queue takes no jobs now, see /readyz; the messages stay in "
        "RabbitMQ\"",
        consumer->options.name, (long long)(consumer->pause_us / 1000));
    rabbit_link_begin_send(&consumer->link);
    return sent(consumer,
                amqp_send_method(consumer->link.state, CHANNEL, AMQP_BASIC_CANCEL_METHOD, &cancel));
}

/* The loop's verdicts. */
static bool take_settled(struct consumer *consumer)
{
    eventfd_t ignored;
    bool good = true;
    (void)eventfd_read(mailbox_fd(&consumer->settled), &ignored); /* EAGAIN: nothing new */
    struct queue_node *node = mailbox_take_all(&consumer->settled);
    while (node) {
        struct brought *one = LIST_ENTRY(node, struct brought, message.place);
        node = node->next;
        consumer->bytes_out -= one->bytes;
        if (one->connection == consumer->connection && consumer->link.state) {
            *state_of(consumer, one->tag) = one->verdict == INTAKE_STORED    ? TAG_STORED
                                            : one->verdict == INTAKE_REFUSED ? TAG_REFUSED
                                                                             : TAG_LATER;
            if (one->verdict == INTAKE_STORED && consumer->consuming)
                consumer->pause_us = 0;
            if (one->verdict == INTAKE_LATER)
                good = good && pause(consumer);
        }
        free_brought(one);
    }
    return good;
}

/* ---- deliveries from RabbitMQ ---- */

static void bring(struct consumer *consumer, struct brought *one)
{
    struct loop *loop = consumer->options.broker.loop;
    (void)pthread_mutex_lock(&consumer->mutex);
    queue_add(&consumer->brought, &one->message.place);
    bool first = !consumer->posted;
    consumer->posted = true;
    (void)pthread_mutex_unlock(&consumer->mutex);
    if (first)
        loop->verbs->post(loop, &consumer->message);
}

static void begin_message(struct consumer *consumer, const amqp_basic_deliver_t *deliver)
{
    size_t exchange = deliver->exchange.len, key = deliver->routing_key.len;
    CHECK(exchange <= RABBIT_NAME_MAX && key <= RABBIT_NAME_MAX); /* a byte holds their lengths */
    memcpy(consumer->route, deliver->exchange.bytes, exchange);
    memcpy(consumer->route + exchange, deliver->routing_key.bytes, key);
    consumer->exchange = bytes_of(consumer->route, exchange);
    consumer->key = bytes_of(consumer->route + exchange, key);
    consumer->reading_tag = deliver->delivery_tag;
    consumer->next_tag = deliver->delivery_tag + 1;
    *state_of(consumer, deliver->delivery_tag) = TAG_OPEN;
}

/* target with its own exchange filled in. False: too long. */
static bool due_exchange(const struct consumer *consumer, char room[RABBIT_NAME_MAX],
                         struct bytes *out)
{
    const struct bytes mark = BYTES("<exchange>");
    struct bytes rest = bytes_str(consumer->options.target);
    size_t used = 0;
    while (rest.len) {
        bool own = bytes_starts(rest, mark);
        struct bytes part = own ? consumer->exchange : bytes_of(rest.at, 1);
        if (part.len > RABBIT_NAME_MAX - used)
            return false;
        memcpy(room + used, part.at, part.len);
        used += part.len;
        rest = bytes_of(rest.at + (own ? mark.len : 1), rest.len - (own ? mark.len : 1));
    }
    *out = bytes_of(room, used);
    return true;
}

static struct bytes put(struct brought *one, size_t *used, struct bytes text)
{
    char *at = one->text + *used;
    if (text.len)
        memcpy(at, text.at, text.len);
    *used += text.len;
    return bytes_of(at, text.len);
}

/* `why`: a static text. Its body, which may follow, is skipped. */
static void bring_refused(struct consumer *consumer, const char *why)
{
    struct bytes from = consumer->exchange;
    struct brought *one = mem_alloc(sizeof(*one) + from.len);
    *one = (struct brought){.message = {.run = consumer->run, .refused = why},
                            .tag = consumer->reading_tag,
                            .connection = consumer->connection,
                            .bytes = from.len};
    size_t used = 0;
    one->message.from = put(one, &used, from);
    consumer->bytes_out += one->bytes;
    bring(consumer, one);
}

/* Room for a body that the receiver can take over. */
static char *room_apart(struct brought *one, size_t body_bytes)
{
    buf_reserve_to(&one->body, body_bytes, body_bytes);
    one->body.len = body_bytes;
    one->message.memory = &one->body;
    return one->body.at;
}

/* Makes a message, of which all but the body is known. NULL: it is refused, and was brought so. */
static struct brought *make_message(struct consumer *consumer, amqp_basic_properties_t *properties,
                                    uint64_t body_bytes)
{
    struct intake_message head = {.run = consumer->run};
    amqp_table_t none = {.num_entries = 0};
    bool has_headers = properties->_flags & AMQP_BASIC_HEADERS_FLAG;
    char room[RABBIT_NAME_MAX];
    struct bytes exchange, type = bytes_of("", 0);
    const char *why = rabbit_headers_take(has_headers ? &properties->headers : &none, &head);
    consumer->kept.len = 0;
    if (!why && body_bytes > consumer->options.body_max)
        why = "its body is larger than limits.body_bytes";
    if (!why && !due_exchange(consumer, room, &exchange))
        why = "the name of its target is too long";
    if (!why && !rabbit_keep(exchange, consumer->key, properties, &consumer->kept))
        why = "its properties cannot be kept";
    if (why) {
        bring_refused(consumer, why);
        return NULL;
    }
    if (properties->_flags & AMQP_BASIC_CONTENT_TYPE_FLAG)
        type = bytes_of(properties->content_type.bytes, properties->content_type.len);
    if (type.len > CONTENT_TYPE_MAX || !bytes_is_utf8(type) || !bytes_is_printable(type))
        type.len = 0; /* the job gets none; it stays in the kept AMQP properties */
    size_t used = 0, bytes = head.id.len + type.len + consumer->kept.len;
    bool apart = body_bytes > APART_BYTES;
    struct brought *one = mem_alloc(sizeof(*one) + bytes + (apart ? 0 : (size_t)body_bytes));
    *one = (struct brought){.message = head,
                            .tag = consumer->reading_tag,
                            .connection = consumer->connection,
                            .bytes = bytes + (size_t)body_bytes};
    one->message.id = put(one, &used, head.id);
    one->message.content_type = put(one, &used, type);
    one->message.amqp = put(one, &used, buf_bytes(&consumer->kept));
    consumer->reading_to = one->text + used;
    if (apart)
        consumer->reading_to = room_apart(one, (size_t)body_bytes);
    one->message.body = bytes_of(consumer->reading_to, (size_t)body_bytes);
    return one;
}

static void end_message(struct consumer *consumer)
{
    consumer->in_body = false;
    if (!consumer->reading)
        return;
    consumer->bytes_out += consumer->reading->bytes;
    bring(consumer, consumer->reading);
    consumer->reading = NULL;
}

static void take_header(struct consumer *consumer, const amqp_frame_t *frame)
{
    consumer->reading_left = frame->payload.properties.body_size;
    consumer->reading =
        make_message(consumer, frame->payload.properties.decoded, consumer->reading_left);
    consumer->in_body = true;
    if (consumer->reading_left == 0)
        end_message(consumer);
}

static void take_body(struct consumer *consumer, const amqp_frame_t *frame)
{
    amqp_bytes_t part = frame->payload.body_fragment;
    size_t len = part.len < consumer->reading_left ? part.len : (size_t)consumer->reading_left;
    if (consumer->reading)
        consumer->reading_to = bytes_put(consumer->reading_to, bytes_of(part.bytes, len));
    consumer->reading_left -= len;
    if (consumer->reading_left == 0)
        end_message(consumer);
}

/* False: the ring has no place for it. */
static bool has_place(const struct consumer *consumer, const amqp_basic_deliver_t *deliver)
{
    return deliver->delivery_tag == consumer->next_tag &&
           consumer->next_tag - consumer->oldest_tag < consumer->ring_size;
}

/* False: the channel or the queue is gone, or the connection must be closed. */
static bool take_method(struct consumer *consumer, const amqp_method_t *method)
{
    struct rabbit_link *link = &consumer->link;
    if (method->id == AMQP_BASIC_DELIVER_METHOD) {
        if (!has_place(consumer, method->decoded)) {
            (void)snprintf(link->why, sizeof(link->why), "RabbitMQ does not keep to the prefetch");
            return false;
        }
        begin_message(consumer, method->decoded);
    } else if (method->id == AMQP_BASIC_CANCEL_OK_METHOD) {
        consumer->cancelling = false;
    } else if (method->id == AMQP_BASIC_CANCEL_METHOD) {
        (void)snprintf(link->why, sizeof(link->why), "its queue \"%.100s\" was deleted",
                       consumer->options.queue);
        return false;
    } else if (method->id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *end = method->decoded;
        (void)snprintf(link->why, sizeof(link->why), "RabbitMQ closed the channel: %d %.*s",
                       end->reply_code, end->reply_text.len > 140 ? 140 : (int)end->reply_text.len,
                       (const char *)end->reply_text.bytes);
        return false;
    }
    return true;
}

/* True: the bodies that are not settled take all the memory that they may. The next message waits
   in the socket, and then at the sender. */
static bool is_full(const struct consumer *consumer)
{
    return consumer->bytes_out > BYTES_OUT_MAX && !consumer->in_body;
}

static bool take_frames(struct consumer *consumer)
{
    struct rabbit_link *link = &consumer->link;
    enum rabbit_next next = RABBIT_NOTHING;
    amqp_frame_t frame;
    for (unsigned i = 0; i < FRAMES_AT_ONCE; i++) {
        if (is_full(consumer))
            break;
        next = rabbit_link_next(link, &frame);
        if (next != RABBIT_FRAME)
            break;
        if (frame.frame_type == AMQP_FRAME_METHOD && !take_method(consumer, &frame.payload.method))
            return false;
        if (frame.frame_type == AMQP_FRAME_HEADER)
            take_header(consumer, &frame);
        if (frame.frame_type == AMQP_FRAME_BODY && consumer->in_body)
            take_body(consumer, &frame);
    }
    rabbit_link_release(link);
    return next != RABBIT_BROKEN;
}

/* ---- the thread ---- */

static bool explain(struct consumer *consumer, const char *what)
{
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(consumer->link.state);
    return rabbit_link_explain(&consumer->link, what, reply);
}

static bool consume(struct consumer *consumer)
{
    struct rabbit_link *link = &consumer->link;
    consumer->consuming = true;
    consumer->run++;
    (void)amqp_basic_consume(link->state, CHANNEL, amqp_cstring_bytes(consumer->options.queue),
                             amqp_cstring_bytes("laterd"), 0, 0, 0, amqp_empty_table);
    return explain(consumer, "its queue cannot be consumed");
}

static bool begin(struct consumer *consumer)
{
    struct rabbit_link *link = &consumer->link;
    consumer->connection++;
    consumer->oldest_tag = consumer->next_tag = 1;
    consumer->in_body = consumer->cancelling = false;
    if (!rabbit_link_open(link) || !rabbit_link_open_channel(link, CHANNEL, false))
        return false;
    (void)amqp_basic_qos(link->state, CHANNEL, 0, (uint16_t)consumer->options.prefetch, 0);
    if (!explain(consumer, "its prefetch is refused") || !consume(consumer))
        return false;
    log_event(LOG_INFO, "amqp_in_consuming", "name=%s queue=%s", consumer->options.name,
              consumer->options.queue);
    consumer->logged[0] = '\0';
    return true;
}

/* True: the pause is over, and RabbitMQ has no message out. */
static bool may_resume(const struct consumer *consumer)
{
    return !consumer->consuming && !consumer->cancelling &&
           consumer->oldest_tag == consumer->next_tag && broker_now_us() >= consumer->resume_us;
}

/* Sleeps until there is something to do. False: the connection is lost. */
static bool rest(struct consumer *consumer)
{
    int settled_fd = mailbox_fd(&consumer->settled);
    if (!is_full(consumer)) {
        rabbit_link_sleep(&consumer->link, settled_fd, SLEEP_MS);
        return true;
    }
    rabbit_sleep_on(settled_fd, SLEEP_MS); /* the next message would end each sleep at once */
    return rabbit_link_keep_alive(&consumer->link);
}

static bool serve(struct consumer *consumer)
{
    while (!atomic_load(&consumer->closing)) {
        if (!take_settled(consumer) || !flush(consumer))
            return false;
        if (may_resume(consumer) && !consume(consumer))
            return false;
        if (!take_frames(consumer))
            return false;
        if (!rest(consumer))
            return false;
    }
    return take_settled(consumer) && flush(consumer);
}

static void wait_to_connect(struct consumer *consumer, int64_t backoff_us)
{
    int64_t end_us = broker_now_us() + backoff_us;
    if (strcmp(consumer->logged, consumer->link.why) != 0)
        log_event(LOG_WARN, "amqp_in_away", "name=%s reason=\"%s\"", consumer->options.name,
                  consumer->link.why);
    memcpy(consumer->logged, consumer->link.why, sizeof(consumer->logged));
    while (broker_now_us() < end_us && !atomic_load(&consumer->closing)) {
        (void)take_settled(consumer); /* verdicts for connections that have ended */
        rabbit_sleep_on(mailbox_fd(&consumer->settled), SLEEP_MS);
    }
}

static void *thread_main(void *arg)
{
    struct consumer *consumer = arg;
    int64_t backoff_us = BACKOFF_FIRST_US;
    while (!atomic_load(&consumer->closing)) {
        bool well = begin(consumer);
        int64_t begun_us = broker_now_us();
        well = well && serve(consumer);
        if (broker_now_us() - begun_us > BACKOFF_MOST_US) /* else the broker may end each at once */
            backoff_us = BACKOFF_FIRST_US;
        free_brought(consumer->reading);
        consumer->reading = NULL;
        rabbit_link_close(&consumer->link, well);
        if (!well)
            wait_to_connect(consumer, backoff_us);
        backoff_us = backoff_after(backoff_us, BACKOFF_MOST_US);
    }
    return NULL;
}

/* ---- on the loop's thread ---- */

static void free_consumer(struct consumer *consumer)
{
    struct queue_node *node;
    while ((node = queue_take(&consumer->brought)))
        free_brought(LIST_ENTRY(node, struct brought, message.place));
    while ((node = mailbox_take(&consumer->settled)))
        free_brought(LIST_ENTRY(node, struct brought, message.place));
    rabbit_link_fini(&consumer->link);
    mailbox_fini(&consumer->settled);
    (void)pthread_mutex_destroy(&consumer->mutex);
    buf_fini(&consumer->kept);
    mem_free(consumer->ring);
    mem_free(consumer);
}

static void arrived(struct message *message)
{
    struct consumer *consumer = LIST_ENTRY(message, struct consumer, message);
    struct loop *loop = consumer->options.broker.loop;
    if (consumer->closed) {
        free_consumer(consumer);
        return;
    }
    bool closing = atomic_load(&consumer->closing); /* then no more messages are taken */
    if (!closing)
        consumer->intake.arrived(&consumer->intake);
    (void)pthread_mutex_lock(&consumer->mutex);
    bool more = consumer->brought.first && !closing;
    consumer->posted = more;
    (void)pthread_mutex_unlock(&consumer->mutex);
    if (more)
        loop->verbs->post(loop, message);
}

/* RabbitMQ reads nothing, and the messages that it has to settle wait without a limit. */
static void watch(struct timer *timer)
{
    struct consumer *consumer = LIST_ENTRY(timer, struct consumer, watch);
    const struct broker_options *options = &consumer->options.broker;
    if (rabbit_link_stuck_us(&consumer->link) > 2 * options->timeout_us)
        rabbit_link_interrupt(&consumer->link);
    loop_arm(options->loop, &consumer->watch, options->loop->now_us + WATCH_US);
}

static struct intake_message *take(struct intake *intake)
{
    struct consumer *consumer = self(intake);
    (void)pthread_mutex_lock(&consumer->mutex);
    struct queue_node *node = queue_take(&consumer->brought);
    (void)pthread_mutex_unlock(&consumer->mutex);
    return node ? LIST_ENTRY(node, struct intake_message, place) : NULL;
}

static void settle(struct intake *intake, struct intake_message *message,
                   enum intake_verdict verdict)
{
    LIST_ENTRY(message, struct brought, message)->verdict = verdict;
    mailbox_post(&self(intake)->settled, &message->place);
}

static void stop_intake(struct intake *intake)
{
    struct consumer *consumer = self(intake);
    consumer->interrupt_us = broker_now_us() + INTERRUPT_US;
    atomic_store(&consumer->closing, true);
}

static bool intake_stopped(struct intake *intake)
{
    struct consumer *consumer = self(intake);
    consumer->joined = consumer->joined || pthread_tryjoin_np(consumer->thread, NULL) == 0;
    if (!consumer->joined && !consumer->interrupted && broker_now_us() >= consumer->interrupt_us) {
        consumer->interrupted = true;
        rabbit_link_interrupt(&consumer->link);
    }
    return consumer->joined;
}

static void close_intake(struct intake *intake)
{
    struct consumer *consumer = self(intake);
    loop_cancel(consumer->options.broker.loop, &consumer->watch);
    if (!atomic_load(&consumer->closing))
        stop_intake(intake);
    if (!consumer->joined &&
        !thread_join_within(consumer->thread, consumer->interrupt_us - broker_now_us())) {
        rabbit_link_interrupt(&consumer->link);
        (void)pthread_join(consumer->thread, NULL);
    }
    consumer->closed = true;
    if (!consumer->posted) /* else the message that is under way frees it */
        free_consumer(consumer);
}

static const struct intake_verbs verbs = {.take = take,
                                          .settle = settle,
                                          .stop = stop_intake,
                                          .stopped = intake_stopped,
                                          .close = close_intake};

enum err rabbit_consumer_open(const struct intake_options *options, struct intake **out_intake,
                              struct broker_error *out_error)
{
    struct consumer *consumer = mem_zalloc(sizeof(*consumer));
    consumer->intake.verbs = &verbs;
    consumer->options = *options;
    consumer->message.arrived = arrived;
    consumer->ring_size = 2;
    while (consumer->ring_size <= options->prefetch)
        consumer->ring_size *= 2;
    consumer->ring = mem_zalloc(consumer->ring_size);
    rabbit_link_init(&consumer->link, &consumer->options.broker, "consumes");
    (void)pthread_mutex_init(&consumer->mutex, NULL); /* cannot fail on Linux */
    bool watched = mailbox_init(&consumer->settled);
    if (watched && thread_start(&consumer->thread, thread_main, consumer) == 0) {
        struct loop *loop = options->broker.loop;
        consumer->watch.expired = watch;
        loop_arm(loop, &consumer->watch, loop->now_us + WATCH_US);
        *out_intake = &consumer->intake;
        return OK;
    }
    (void)snprintf(out_error->text, sizeof(out_error->text), "the system has no thread left");
    if (!watched)
        mailbox_init_unwatched(&consumer->settled); /* for free_consumer() */
    free_consumer(consumer);
    return ERR_IO;
}
