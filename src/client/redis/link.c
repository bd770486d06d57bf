/*
 * Owns the stream, the reader and the bytes to send.
 *
 * Invariants: `calls` is in the order in which the commands were written, greetings first; a link
 * that is DOWN has no stream, no bytes and no calls; the timer `silence` is armed while calls are
 * pending, for the time when the oldest one is overdue, or an earlier one.
 */
#include "client/redis/link.h"

#include <stdio.h>
#include <sys/random.h>

#include "base/backoff.h"
#include "base/check.h"
#include "client/redis/resp.h"

enum {
    SPARE_OUT_BYTES = 256 * 1024,
    EARLY_BYTES = 16 * 1024, /* what Redis reads at once */
    IDLE_READER_BYTES = 1024 * 1024,
    ELEMENTS_MAX = 64 * 1024, /* of an array; a cluster has 16384 slots */
    BACK_OFF_US = 50 * 1000,
    BACK_OFF_MAX_US = 2000 * 1000,
    SILENT_S = 15, /* keep-alive: subscriptions have no other way to notice a dead peer */
};

static void greeted(struct link_call *call, redisReply *reply);
static void try_again(struct timer *timer);
static void look_for_silence(struct timer *timer);

void link_init(struct link *link, const struct link_options *options)
{
    *link = (struct link){.options = *options};
    list_init(&link->calls);
    link->greeting.done = greeted;
    link->retry.expired = try_again;
    link->silence.expired = look_for_silence;
}

/* ---- the end of a connection ---- */

/*
 * Pending commands will be sent again elsewhere, so bytes that have not reached the server must not
 * reach it after that: the connection is reset.
 */
static void forget_stream(struct link *link)
{
    if (link->stream)
        stream_close(link->stream, list_empty(&link->calls) ? STREAM_DROP : STREAM_RESET);
    link->stream = NULL;
    if (link->reader)
        redisReaderFree(link->reader);
    link->reader = NULL;
    loop_cancel(link->options.loop, &link->silence);
    link->out.len = 0;
    link->greetings = 0;
    link->doomed = false;
    link->state = LINK_DOWN;
}

static void notify_calls(struct link *link)
{
    struct list pending;
    list_init(&pending); /* `done` may send again, to another link or to this one when it is back */
    while (!list_empty(&link->calls)) {
        struct list *node = link->calls.next;
        list_remove(node);
        list_add_tail(&pending, node);
    }
    while (!list_empty(&pending)) {
        struct link_call *call = LIST_ENTRY(pending.next, struct link_call, place);
        list_remove(&call->place);
        call->done(call, NULL);
    }
}

/* Up to a quarter more or less, so that many daemons do not reconnect at the same moment. */
static int64_t with_jitter(int64_t us)
{
    uint32_t dice;
    if (getrandom(&dice, sizeof(dice), 0) != sizeof(dice))
        dice = 0;
    return us - us / 4 + (int64_t)dice % (us / 2 + 1);
}

static void end(struct link *link)
{
    struct loop *loop = link->options.loop;
    bool was_open = link->state != LINK_DOWN;
    link->attempt += link->state == LINK_CONNECTING; /* its name may have other addresses */
    forget_stream(link);
    if (link->wanted) {
        loop_arm(loop, &link->retry, loop->now_us + with_jitter(link->back_off_us));
        link->back_off_us = backoff_after(link->back_off_us, BACK_OFF_MAX_US);
    }
    if (was_open && !link->rested && link->options.ended)
        link->options.ended(link->options.owner);
    if (was_open)
        link->options.callbacks->down(link->options.callbacks, link);
    if (link->rested) /* no error to report when it is wanted again */
        link->error[0] = '\0';
    link->rested = false;
    notify_calls(link);
}

void link_fail(struct link *link, const char *why)
{
    if (link->doomed)
        return;
    (void)snprintf(link->error, sizeof(link->error), "%s", why);
    if (link->dispatching)
        link->doomed = true;
    else
        end(link);
}

static void want_no_more(struct link *link)
{
    link->wanted = false;
    loop_cancel(link->options.loop, &link->retry);
}

void link_rest(struct link *link)
{
    want_no_more(link);
    if (link->state == LINK_DOWN)
        return;
    if (!link->doomed) /* the first reason counts */
        link->rested = true;
    link_fail(link, "not needed any more");
}

void link_fini(struct link *link)
{
    if (!link->options.callbacks)
        return; /* never begun */
    want_no_more(link);
    if (link->state != LINK_DOWN)
        forget_stream(link);
    notify_calls(link);
    buf_fini(&link->out);
}

/* ---- connecting ---- */

/* When to check for a reply. */
static int64_t look_after_us(const struct link *link)
{
    return link->options.callbacks->slow ? link->options.timeout_us / 4 : link->options.timeout_us;
}

/* Adds the call to those whose replies are pending. */
static void add_pending(struct link *link, struct link_call *call)
{
    struct loop *loop = link->options.loop;
    call->sent_us = loop->now_us;
    list_add_tail(&link->calls, &call->place);
    if (!timer_is_armed(&link->silence))
        loop_arm(loop, &link->silence, call->sent_us + look_after_us(link));
}

static void greet(struct link *link)
{
    const struct link_options *options = &link->options;
    struct buf *out = &link->out;
    link->state = LINK_GREETING;
    if (options->password[0] || options->user[0]) {
        resp_begin(out, options->user[0] ? 3 : 2);
        resp_add_str(out, "AUTH");
        if (options->user[0])
            resp_add_str(out, options->user);
        resp_add_str(out, options->password);
        link->greetings++;
    }
    if (options->db) {
        resp_begin(out, 2);
        resp_add_str(out, "SELECT");
        resp_add_u64(out, options->db);
        link->greetings++;
    }
    resp_begin(out, 1);
    resp_add_str(out, "PING"); /* so that there is always a reply to wait for */
    link->greetings++;
    add_pending(link, &link->greeting);
    link_flush(link);
}

/* A server that is not Redis, or that has no AUTH, may return what we sent in its error: the
 * password must not get into the log. */
static void hide_password(redisReply *reply)
{
    char *quoted = strstr(reply->str, "with args beginning");
    if (quoted)
        *quoted = '\0';
}

/* LOADING and the like come as the reply to PING; they also make us reconnect later. */
static void greeted(struct link_call *call, redisReply *reply)
{
    struct link *link = LIST_ENTRY(call, struct link, greeting);
    if (!reply)
        return;
    link->greetings--;
    if (reply->type == REDIS_REPLY_ERROR) {
        hide_password(reply);
        link_fail(link, reply->str);
    }
    freeReplyObject(reply);
    if (link->doomed)
        return;
    if (link->greetings) {
        list_add_tail(&link->calls, &link->greeting.place);
        return;
    }
    link->state = LINK_UP;
    link->options.callbacks->up(link->options.callbacks, link);
}

/* hiredis trusts any length of an array, and allocates and frees that many elements: after a line
 * of nonsense that takes seconds. */
#if HIREDIS_MAJOR >= 1

static void bound_arrays(redisReader *reader)
{
    reader->maxelements = ELEMENTS_MAX;
}

#else

static void *make_array(const redisReadTask *task, int elements)
{
    const redisReplyObjectFunctions *own = task->privdata;
    return elements > ELEMENTS_MAX ? NULL : own->createArray(task, elements);
}

static void bound_arrays(redisReader *reader)
{
    static redisReplyObjectFunctions functions; /* hiredis' own, but for arrays */
    functions = *reader->fn;
    functions.createArray = make_array;
    reader->privdata = reader->fn;
    reader->fn = &functions;
}

#endif

static void stream_opened(struct stream *stream)
{
    greet(stream->user);
}

static size_t stream_input(struct stream *stream, struct bytes bytes);
static void stream_gone(struct stream *stream, bool half);

static const struct stream_handler handler = {
    .opened = stream_opened,
    .input = stream_input,
    .gone = stream_gone,
};

static void open_link(struct link *link)
{
    struct stream_options options = {.host = link->address.host,
                                     .port = link->address.port,
                                     .attempt = link->attempt,
                                     .tls = link->options.tls,
                                     .timeout_us = link->options.timeout_us,
                                     .silent_s = SILENT_S,
                                     .handler = &handler,
                                     .user = link};
    link->state = LINK_CONNECTING;
    link->reader = redisReaderCreate();
    CHECK(link->reader); /* out of memory */
    link->reader->maxbuf = IDLE_READER_BYTES;
    bound_arrays(link->reader);
    link->stream = link->options.loop->verbs->connect(link->options.loop, &options);
}

static void try_again(struct timer *timer)
{
    open_link(LIST_ENTRY(timer, struct link, retry));
}

void link_want(struct link *link, const struct redis_address *address)
{
    bool same = redis_address_eq(&link->address, address);
    if (same && link->wanted)
        return;
    link_rest(link);
    link->address = *address;
    link->back_off_us = BACK_OFF_US;
    link->wanted = true;
    if (link->state == LINK_DOWN) /* else it is being closed, and end() connects again */
        loop_arm(link->options.loop, &link->retry, link->options.loop->now_us);
}

void link_good(struct link *link)
{
    link->back_off_us = BACK_OFF_US;
}

/* ---- sending commands ---- */

struct buf *link_out(struct link *link)
{
    return &link->out;
}

void link_expect(struct link *link, struct link_call *call)
{
    CHECK(link->state == LINK_UP);
    add_pending(link, call);
}

void link_flush_early(struct link *link)
{
    bool enough = link->out.len >= EARLY_BYTES;
    if (enough && link->state == LINK_UP && !link->doomed && stream_unsent(link->stream) == 0)
        stream_send(link->stream, &link->out);
}

void link_flush(struct link *link)
{
    if (link->state < LINK_GREETING || link->out.len == 0)
        return;
    stream_send(link->stream, &link->out); /* `gone` reports errors */
    buf_shrink(&link->out, SPARE_OUT_BYTES);
}

/* ---- receiving replies ---- */

int64_t link_counts_bound_us(unsigned bucket)
{
    return bucket == LINK_TIMES - 1 ? INT64_MAX : (int64_t)64 << bucket;
}

static void count_round_trip(struct link_counts *counts, int64_t took_us)
{
    uint64_t us = took_us > 0 ? (uint64_t)took_us : 0;
    unsigned bucket = us <= 64 ? 0 : 58 - (unsigned)__builtin_clzll(us - 1);
    counts->round_trips[bucket < LINK_TIMES ? bucket : LINK_TIMES - 1]++;
    counts->round_trips_us += us;
}

static void hand_out(struct link *link, redisReply *reply)
{
    bool is_message = link->options.subscriber && link->state == LINK_UP;
    if (is_message || list_empty(&link->calls)) {
        if (is_message)
            link->options.callbacks->message(link->options.callbacks, link, reply);
        else
            link_fail(link, reply->type == REDIS_REPLY_ERROR ? reply->str
                                                             : "it answered what nobody had asked");
        freeReplyObject(reply);
        return;
    }
    struct link_call *call = LIST_ENTRY(link->calls.next, struct link_call, place);
    list_remove(&call->place);
    if (link->options.counts)
        count_round_trip(link->options.counts, link->options.loop->now_us - call->sent_us);
    call->done(call, reply);
}

static void dispatch(struct link *link)
{
    void *reply = NULL;
    while (!link->doomed) {
        if (redisReaderGetReply(link->reader, &reply) != REDIS_OK) {
            link_fail(link, link->reader->errstr);
            return;
        }
        if (!reply)
            return;
        hand_out(link, reply);
    }
}

static size_t stream_input(struct stream *stream, struct bytes bytes)
{
    struct link *link = stream->user;
    link->received_us = link->options.loop->now_us;
    link->dispatching = true;
    if (redisReaderFeed(link->reader, bytes.at, bytes.len) != REDIS_OK)
        link_fail(link, link->reader->errstr);
    else
        dispatch(link);
    link->dispatching = false;
    if (link->doomed)
        end(link);
    else if (list_empty(&link->calls))
        loop_cancel(link->options.loop, &link->silence); /* no wake-ups of an idle daemon */
    return bytes.len;
}

static void stream_gone(struct stream *stream, bool half)
{
    struct link *link = stream->user;
    if (!half)
        link->stream = NULL;
    link_fail(link, half ? STREAM_CLOSED : stream->error);
}

/* ---- time ---- */

static void look_for_silence(struct timer *timer)
{
    struct link *link = LIST_ENTRY(timer, struct link, silence);
    struct loop *loop = link->options.loop;
    if (list_empty(&link->calls))
        return;
    int64_t since_us = LIST_ENTRY(link->calls.next, struct link_call, place)->sent_us;
    if (since_us < link->received_us)
        since_us = link->received_us; /* it is still answering the calls before this one */
    int64_t late_us = since_us + link->options.timeout_us;
    int64_t slow_us = since_us + look_after_us(link);
    if (slow_us > loop->now_us) {
        loop_arm(loop, timer, slow_us);
        return;
    }
    if (late_us > loop->now_us) {
        int64_t next_us = loop->now_us + look_after_us(link);
        loop_arm(loop, timer, next_us < late_us ? next_us : late_us);
        link->options.callbacks->slow(link->options.callbacks, link);
        return;
    }
    link_fail(link, link->state == LINK_UP ? "it does not answer" : STREAM_SLOW);
}
