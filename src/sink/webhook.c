/*
 * The sink's verbs, on the loop's thread, and the sink's own thread: it waits by epoll for the
 * mailbox and for libcurl's sockets, and passes socket events to libcurl's multi handle.
 */
#include "sink/webhook.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time_us.h"
#include "os/mailbox.h"
#include "os/thread.h"
#include "port/clock.h"
#include "sink/webhook/exchange.h"

struct webhook {
    struct sink sink;
    struct webhook_options options;
    struct webhook_counts counts;
    pthread_t thread;
    bool started;                    /* the thread was started, and not joined yet */
    bool stopping;                   /* stop() was called */
    char broken[OUTCOME_REASON_MAX]; /* why nothing can be sent; empty: nothing is wrong */
    struct list under_way;           // exchange::under_way
    struct mailbox mailbox;          // exchange::place, and `stop`
    struct queue_node stop;          /* posted once, behind all exchanges */
    int64_t grace_us;                /* set before `stop` is posted */
};

static struct webhook *self(const struct sink *sink)
{
    return LIST_ENTRY(sink, struct webhook, sink);
}

/* ---- the thread ---- */

struct worker_thread {
    struct webhook *webhook;
    struct sender sender;
    CURLM *multi;
    int epoll_fd;
    int64_t timer_us;   /* when to call libcurl; INT64_MAX: no time is set */
    int64_t end_us;     /* when remaining exchanges are abandoned; INT64_MAX: not stopping */
    struct list wire;   // exchange::wire
    const char *broken; /* why it cannot work at all */
};

/* Gives the exchange back to the loop's thread. */
static void hand_back(struct worker_thread *thread, struct exchange *exchange)
{
    struct loop *loop = thread->webhook->options.loop;
    exchange->finished = true;
    loop->verbs->post(loop, &exchange->message);
}

static void begin(struct worker_thread *thread, struct exchange *exchange)
{
    struct sender *sender = &thread->sender;
    if (thread->broken) {
        exchange->broken = true;
        exchange_abandon(sender, exchange, thread->broken);
    } else if (exchange_begin(sender, exchange)) {
        CURL *easy = exchange->transfer->easy;
        if (sender->curl->multi_add_handle(thread->multi, easy) == CURLM_OK) {
            list_add_tail(&thread->wire, &exchange->wire);
            return;
        }
        exchange_abandon(sender, exchange, "libcurl has no memory");
    }
    hand_back(thread, exchange);
}

static struct exchange *exchange_of(const struct worker_thread *thread, CURL *easy)
{
    struct transfer *transfer = NULL;
    (void)thread->sender.curl->easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
    return transfer->exchange;
}

static void take_finished(struct worker_thread *thread)
{
    const struct curl_api *curl = thread->sender.curl;
    CURLMsg *message;
    int left;
    while ((message = curl->multi_info_read(thread->multi, &left))) {
        CURLcode result = message->data.result;
        CURL *easy = message->easy_handle; /* removing the handle frees the message */
        struct exchange *exchange = exchange_of(thread, easy);
        (void)curl->multi_remove_handle(thread->multi, easy);
        list_remove(&exchange->wire);
        exchange_end(&thread->sender, exchange, result);
        hand_back(thread, exchange);
    }
}

static void take_mail(struct worker_thread *thread)
{
    struct webhook *webhook = thread->webhook;
    struct queue_node *node = mailbox_take_all(&webhook->mailbox);
    while (node) {
        struct queue_node *next = node->next; /* the receiver of done() may free it */
        if (node == &webhook->stop)
            thread->end_us = clock_monotonic_us() + webhook->grace_us;
        else
            begin(thread, LIST_ENTRY(node, struct exchange, place));
        node = next;
    }
}

/* libcurl's socket callback: watch the socket, or stop watching it. `known`: it is watched. */
static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *known)
{
    struct worker_thread *thread = user;
    struct epoll_event event = {.data.fd = fd};
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        (void)epoll_ctl(thread->epoll_fd, EPOLL_CTL_DEL, fd, NULL); /* it may be closed */
        return 0;
    }
    event.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
    int failed = epoll_ctl(thread->epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
    if (!failed && !known)
        (void)thread->sender.curl->multi_assign(thread->multi, fd, thread);
    return failed ? -1 : 0; /* -1: libcurl fails the transfers on this socket */
}

static int set_timer(CURLM *multi, long after_ms, void *user)
{
    struct worker_thread *thread = user;
    (void)multi;
    thread->timer_us = after_ms < 0 ? INT64_MAX : clock_monotonic_us() + (int64_t)after_ms * 1000;
    return 0;
}

static void run_timer(struct worker_thread *thread)
{
    int running;
    if (thread->timer_us > clock_monotonic_us())
        return;
    thread->timer_us = INT64_MAX; /* the call below may set it */
    (void)thread->sender.curl->multi_socket_action(thread->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

static void run_event(struct worker_thread *thread, const struct epoll_event *event)
{
    int running, what = 0;
    if (event->data.fd == mailbox_fd(&thread->webhook->mailbox))
        return; /* the mailbox is read in each round anyway */
    what |= event->events & EPOLLIN ? CURL_CSELECT_IN : 0;
    what |= event->events & EPOLLOUT ? CURL_CSELECT_OUT : 0;
    what |= event->events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0;
    (void)thread->sender.curl->multi_socket_action(thread->multi, event->data.fd, what, &running);
}

static int sleep_ms(const struct worker_thread *thread)
{
    int64_t until_us = time_earlier(thread->timer_us, thread->end_us);
    if (until_us == INT64_MAX)
        return -1;
    int64_t us = until_us - clock_monotonic_us();
    return us <= 0 ? 0 : us > 60000000 ? 60000 : (int)((us + 999) / 1000);
}

/* Works until `stop` has come, and all exchanges have ended or were abandoned. */
static void run(struct worker_thread *thread)
{
    enum { EVENTS = 64 };
    struct epoll_event events[EVENTS];
    while (thread->end_us == INT64_MAX ||
           (!list_empty(&thread->wire) && clock_monotonic_us() < thread->end_us)) {
        if (thread->broken) { /* epoll may be missing */
            mailbox_wait_filled(&thread->webhook->mailbox);
            take_mail(thread);
            continue;
        }
        int count = epoll_wait(thread->epoll_fd, events, EVENTS, sleep_ms(thread));
        for (int i = 0; i < count; i++)
            run_event(thread, &events[i]);
        take_mail(thread);
        run_timer(thread);
        take_finished(thread);
    }
}

static void give_up(struct worker_thread *thread)
{
    while (!list_empty(&thread->wire)) {
        struct exchange *exchange = LIST_ENTRY(thread->wire.next, struct exchange, wire);
        (void)thread->sender.curl->multi_remove_handle(thread->multi, exchange->transfer->easy);
        list_remove(&exchange->wire);
        exchange_abandon(&thread->sender, exchange, "laterd is stopping");
    }
}

/* True: it can work. */
static bool prepare(struct worker_thread *thread)
{
    struct webhook *webhook = thread->webhook;
    struct sender *sender = &thread->sender;
    sender->curl = curl_api_load(&thread->broken);
    if (!sender->curl)
        return false;
    const struct curl_api *curl = sender->curl;
    thread->multi = curl->multi_init();
    CHECK(thread->multi); /* fails only without memory, and mem_alloc() never fails */
    CURLMcode code = curl->multi_setopt(thread->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    CHECK(code == CURLM_OK);
    (void)curl->multi_setopt(thread->multi, CURLMOPT_SOCKETDATA, thread);
    (void)curl->multi_setopt(thread->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    (void)curl->multi_setopt(thread->multi, CURLMOPT_TIMERDATA, thread);
    (void)curl->multi_setopt(thread->multi, CURLMOPT_MAXCONNECTS,
                             (long)webhook->options.idle_connections);
    return true;
}

static void *thread_main(void *arg)
{
    struct webhook *webhook = arg;
    struct worker_thread *thread = mem_zalloc(sizeof(*thread));
    struct epoll_event mail = {.events = EPOLLIN | EPOLLET,
                               .data.fd = mailbox_fd(&webhook->mailbox)};
    thread->webhook = webhook;
    thread->timer_us = thread->end_us = INT64_MAX;
    list_init(&thread->wire);
    thread->sender.options = &webhook->options;
    thread->sender.counts = &webhook->counts;
    thread->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (thread->epoll_fd < 0 ||
        epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, mail.data.fd, &mail) != 0)
        thread->broken = "the system has no descriptor left for webhooks; restart laterd";
    else if (prepare(thread))
        log_event(LOG_INFO, "webhooks_ready", "libcurl=%s",
                  thread->sender.curl->version_info(CURLVERSION_NOW)->version);
    if (thread->broken)
        log_event(LOG_ERROR, "webhooks_broken", "reason=\"%s\"", thread->broken);
    run(thread);
    give_up(thread);
    sender_fini(&thread->sender);
    if (thread->multi)
        (void)thread->sender.curl->multi_cleanup(thread->multi);
    if (thread->epoll_fd >= 0)
        (void)close(thread->epoll_fd);
    mem_free(thread);
    return NULL;
}

/* ---- the loop's thread ---- */

static void arrived(struct message *message)
{
    struct exchange *exchange = LIST_ENTRY(message, struct exchange, message);
    struct delivery *delivery = exchange->delivery;
    if (!delivery) { /* the sink is closed */
        exchange_free(exchange);
        return;
    }
    struct webhook *webhook = exchange->webhook;
    bool breaks = exchange->broken && !webhook->broken[0];
    list_remove(&exchange->under_way);
    if (breaks)
        (void)snprintf(webhook->broken, sizeof(webhook->broken), "%s", exchange->reason);
    delivery->sink_data = NULL;
    delivery->done(delivery, &exchange->outcome);
    exchange_free(exchange);
    if (breaks && webhook->sink.changed)
        webhook->sink.changed(&webhook->sink);
}

static void webhook_send(struct sink *sink, struct delivery *delivery)
{
    struct webhook *webhook = self(sink);
    struct exchange *exchange = mem_zalloc(sizeof(*exchange));
    exchange->message.arrived = arrived;
    exchange->webhook = webhook;
    exchange->delivery = delivery;
    delivery->sink_data = exchange;
    list_add_tail(&webhook->under_way, &exchange->under_way);
    if (!webhook->started && !webhook->stopping)
        webhook->started = thread_start(&webhook->thread, thread_main, webhook) == 0;
    if (webhook->started) {
        mailbox_post(&webhook->mailbox, &exchange->place);
        return;
    }
    const char *why = webhook->stopping ? "laterd is stopping" : "the system has no thread left";
    exchange->outcome =
        (struct outcome){.kind = OUTCOME_UNSENT, .retry_after_us = -1, .reason = bytes_str(why)};
    exchange->finished = true;
    webhook->options.loop->verbs->post(webhook->options.loop, &exchange->message);
}

static bool webhook_ready(const struct sink *sink, const char **out_why)
{
    const struct webhook *webhook = self(sink);
    if (webhook->broken[0] && out_why)
        *out_why = webhook->broken;
    return !webhook->broken[0];
}

static void webhook_describe(const struct sink *sink, struct metric_sink *metrics)
{
    const struct webhook_counts *counts = &self(sink)->counts;
    if (!metrics->metric)
        return;
    metric_counter(metrics, "webhook_requests_total", "Webhooks that were sent.",
                   atomic_load(&counts->requests));
    metric_counter(metrics, "webhook_connections_total",
                   "Connections that were begun to send webhooks.",
                   atomic_load(&counts->connections));
    metric_counter(metrics, "webhook_refused_addresses_total",
                   "Addresses that a webhook would have been sent to and that are not allowed.",
                   atomic_load(&counts->refused));
    metric_counter(metrics, "webhook_response_bytes_total",
                   "Bytes read of the bodies of webhooks' answers.",
                   atomic_load(&counts->response_bytes));
}

/* The thread has ended: ends the delivery now, even if the exchange's message is still in the
   loop's mailbox; when that arrives it finds no delivery. */
static void end_exchange(struct exchange *exchange)
{
    struct delivery *delivery = exchange->delivery;
    bool finished = exchange->finished; /* its message was posted */
    list_remove(&exchange->under_way);
    if (!finished)
        exchange->outcome = (struct outcome){
            .kind = OUTCOME_UNSENT, .retry_after_us = -1, .reason = BYTES("laterd is stopping")};
    exchange->delivery = NULL;
    delivery->sink_data = NULL;
    delivery->done(delivery, &exchange->outcome);
    if (!finished)
        exchange_free(exchange);
}

static void webhook_stop(struct sink *sink, int64_t grace_us)
{
    struct webhook *webhook = self(sink);
    webhook->stopping = true;
    webhook->grace_us = grace_us;
    if (webhook->started)
        mailbox_post(&webhook->mailbox, &webhook->stop);
}

static bool webhook_stopped(struct sink *sink)
{
    struct webhook *webhook = self(sink);
    if (webhook->started && pthread_tryjoin_np(webhook->thread, NULL) == 0)
        webhook->started = false;
    return !webhook->started;
}

static void webhook_close(struct sink *sink, int64_t grace_us)
{
    struct webhook *webhook = self(sink);
    if (!webhook->stopping)
        webhook_stop(sink, grace_us);
    if (webhook->started)
        (void)pthread_join(webhook->thread, NULL);
    while (!list_empty(&webhook->under_way))
        end_exchange(LIST_ENTRY(webhook->under_way.next, struct exchange, under_way));
    mailbox_fini(&webhook->mailbox);
    mem_free(webhook);
}

static const struct sink_verbs verbs = {
    .send = webhook_send,
    .ready = webhook_ready,
    .describe = webhook_describe,
    .stop = webhook_stop,
    .stopped = webhook_stopped,
    .close = webhook_close,
};

struct sink *webhook_new(const struct webhook_options *options)
{
    struct webhook *webhook = mem_zalloc(sizeof(*webhook));
    bool made = mailbox_init(&webhook->mailbox);
    if (!made) {
        mem_free(webhook);
        return NULL;
    }
    webhook->sink.verbs = &verbs;
    webhook->options = *options;
    list_init(&webhook->under_way);
    return &webhook->sink;
}
