/*
 * Owns both ends of every connection: one `sim_peer` each, whose first member is the stream that
 * the process has.
 *
 * What is in transit between a process and a host are `flight`s, in the order sent. Between a
 * process and a client of the test, bytes arrive at once.
 */
#include "sim/loop.h"
#include "sim/loop_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum { MOVED_BYTES = 4096 }; /* so much is not copied on its way to a host */

static struct sim_peer *self(struct stream *stream)
{
    return (struct sim_peer *)stream; /* its first member */
}

static struct sim_loop *of_loop(struct loop *loop)
{
    return (struct sim_loop *)loop; /* its first member */
}

/* ---- the end ---- */

static void forget_timer(struct sim_peer *peer)
{
    if (peer->loop)
        loop_cancel(&peer->loop->loop, &peer->timer);
}

/* The process closes its end. The end is on its way to the host. */
static void process_leaves(struct sim_peer *peer, enum stream_close how)
{
    struct sim_net *network = peer->network;
    peer->process_closed = true;
    forget_timer(peer);
    if (peer->is_client)
        return;
    if (peer->state == LOOKING_UP || peer->state == CONNECTING || peer->reset)
        peer->peer_closed =
            true; /* the host has not accepted it, or the end has reached it already */
    if (peer->peer_closed)
        return;
    if (how == STREAM_LINGER && peer->kept.len)
        (void)way_add(network, &peer->to_host, FLIGHT_BYTES, buf_bytes(&peer->kept));
    if (how == STREAM_RESET)
        way_cut(&peer->to_host, sim_random_below(&network->random, way_count(&peer->to_host) + 1));
    (void)way_add(network, &peer->to_host, how == STREAM_RESET ? FLIGHT_RESET : FLIGHT_SHUT,
                  BYTES(""));
}

/* The last callback of the stream's handler. */
static void notify_lost(struct sim_peer *peer, const char *error)
{
    peer->stream.error = error;
    forget_timer(peer);
    peer->stream.handler->gone(&peer->stream, false);
    if (!peer->process_closed)
        process_leaves(peer, STREAM_DROP);
}

/* ---- the process' side of an open connection ---- */

static void buf_move(struct buf *to, struct buf *from)
{
    buf_fini(to);
    *to = *from;
    *from = (struct buf){0};
}

/* Sends kept bytes as far as the window allows. True: there were some, and all were sent. */
static bool peer_flow(struct sim_peer *peer)
{
    struct sim_net *network = peer->network;
    unsigned resets = peer->is_client ? 0 : network->faults.reset_per_mille;
    size_t count = peer->kept.len < peer->window ? peer->kept.len : peer->window;
    if (count == 0 || peer->reset || peer->state != OPEN)
        return false;
    if (!peer->is_client && peer->peer_closed) {
        peer->kept.len = 0; /* sent and lost: the peer is closed */
        return true;
    }
    if (peer->is_client)
        buf_add(&peer->received, peer->kept.at, count);
    else if (count >= MOVED_BYTES && count == peer->kept.len)
        buf_move(&way_add(network, &peer->to_host, FLIGHT_BYTES, BYTES(""))->bytes, &peer->kept);
    else
        (void)way_add(network, &peer->to_host, FLIGHT_BYTES, bytes_of(peer->kept.at, count));
    if (peer->kept.len)
        buf_drop(&peer->kept, count);
    if (resets && sim_random_chance(&network->random, resets) && !peer->peer_closed)
        peer_tear(peer);
    if (peer->window != SIZE_MAX)
        peer->window -= count;
    return peer->kept.len == 0;
}

static void peer_show(struct sim_peer *peer)
{
    struct sim_net *network = peer->network;
    if (peer->shown.len && !peer->again)
        return; /* the bytes shown before must be used first */
    size_t count = peer->to_server.len < SHOW_BYTES ? peer->to_server.len : SHOW_BYTES;
    if (peer->shown.len)
        count = 0;
    if (count > 1 && network->split)
        count = 1 + (size_t)sim_random_below(&network->random, count);
    if (count == 0 && !peer->again)
        return;
    peer->again = false;
    buf_add(&peer->shown, peer->to_server.at, count);
    buf_drop(&peer->to_server, count);
    if (peer->shown.len == 0)
        return;
    struct buf now = peer->shown; /* the handler may close the stream */
    peer->shown = (struct buf){0};
    size_t used = peer->stream.handler->input(&peer->stream, buf_bytes(&now));
    CHECK(used <= now.len);
    if (!peer->process_closed)
        buf_add(&peer->shown, now.at + used, now.len - used);
    peer->again = peer->again && peer->shown.len > 0;
    buf_fini(&now);
}

static void notify_end(struct sim_peer *peer)
{
    if (peer->end_reported || peer->shutdown_reported)
        return;
    peer->end_reported = true;
    if (peer->stream.handler->leaving)
        peer->stream.handler->leaving(&peer->stream);
}

static void notify_leaving(struct sim_peer *peer)
{
    peer->leaving_reported = true;
    notify_end(peer);
}

static void take_arrived(struct sim_peer *peer)
{
    struct way *way = &peer->to_process;
    for (struct flight *first = way_first(way);
         first && first->at_us <= sim_now_us(peer->network) && peer_receives(peer);
         first = way_first(way)) {
        switch (first->kind) {
        case FLIGHT_BYTES: buf_add_bytes(&peer->to_server, buf_bytes(&first->bytes)); break;
        case FLIGHT_SHUT: peer->shut = true; break;
        case FLIGHT_RESET: peer->reset = true; break;
        }
        way_drop_first(way);
    }
}

/* Ends are reported before other clients are answered (P6). */
static void notify_end_if_over(struct sim_peer *peer)
{
    if (!peer->opened || peer->process_closed)
        return;
    take_arrived(peer);
    bool over = peer->shut || (peer->reset && peer_receives(peer));
    if (over && peer->state == OPEN && !peer->broken)
        notify_end(peer);
}

static void serve_open(struct sim_peer *peer)
{
    if (peer_flow(peer) && peer->stream.handler->drained)
        peer->stream.handler->drained(&peer->stream);
    if (!peer->process_closed)
        peer_show(peer);
    if (!peer->shut || peer->process_closed)
        return;
    bool shown_all = peer->to_server.len == 0 && peer->shown.len == 0;
    if (!shown_all && peer->shown.len && !peer->leaving_reported)
        notify_leaving(peer);
    if (shown_all && !peer->shutdown_reported && !peer->process_closed) {
        peer->shutdown_reported = true;
        peer->stream.handler->gone(&peer->stream, true);
    }
}

/* ---- opening ---- */

static void restart_timeout(struct sim_peer *peer)
{
    loop_arm(&peer->loop->loop, &peer->timer, peer->loop->loop.now_us + peer->timeout_us);
}

static void begin_connecting(struct sim_peer *peer)
{
    peer->state = CONNECTING;
    peer->state_at_us = sim_now_us(peer->network) + sim_delay_us(peer->network);
    restart_timeout(peer);
}

static void serve_opening(struct sim_peer *peer)
{
    if (peer->state_at_us > sim_now_us(peer->network))
        return;
    switch (peer->state) {
    case LOOKING_UP:
        if (peer->address[0])
            begin_connecting(peer);
        else
            notify_lost(peer, "Name or service not known");
        break;
    case CONNECTING: /* sim_net_run() has the host accept it */
        if (!peer_is_silent(peer) && peer_is_refused(peer))
            notify_lost(peer, "Connection refused");
        break;
    case ACCEPTED:
        if (!peer_receives(peer))
            break;
        peer->state = OPEN;
        forget_timer(peer);
        peer->stream.handler->opened(&peer->stream);
        break;
    case OPEN: break;
    }
}

static void peer_gather(struct sim_peer *peer)
{
    if (peer->process_closed)
        return;
    if (!peer->opened) {
        peer->opened = true;
        if (peer->is_client) {
            struct acceptor *acceptor = peer->loop->loop.acceptor;
            acceptor->accepted(acceptor, &peer->stream, peer->listener);
        }
    }
    notify_end_if_over(peer);
    if (peer->process_closed)
        return;
    if (peer->broken || (peer->reset && peer_receives(peer))) {
        notify_lost(peer, peer->broken ? peer->stream.error : "Connection reset by peer");
        return;
    }
    if (peer->state != OPEN)
        serve_opening(peer);
    if (peer->state == OPEN && !peer->process_closed)
        serve_open(peer);
}

/* ---- the stream port ---- */

static void stream_verb_send(struct stream *base, struct buf *data)
{
    struct sim_peer *peer = self(base);
    if (!peer->is_client && peer->kept.len == 0 && data->len >= MOVED_BYTES)
        buf_move(&peer->kept, data);
    else
        buf_add_bytes(&peer->kept, buf_bytes(data));
    data->len = 0;
    (void)peer_flow(peer); /* bytes that are sent at once need no `drained` */
}

static size_t stream_verb_unsent(const struct stream *base)
{
    return ((const struct sim_peer *)base)->kept.len;
}

static size_t stream_verb_held(const struct stream *base)
{
    const struct sim_peer *peer = (const struct sim_peer *)base;
    return peer->shown.cap + peer->kept.cap;
}

static void stream_verb_resume(struct stream *base)
{
    self(base)->again = true; /* if called by input(): peer_show() checks it afterwards */
}

static void stream_verb_close(struct stream *base, enum stream_close how)
{
    struct sim_peer *peer = self(base);
    if (peer->process_closed)
        return;
    process_leaves(peer, how);
    peer->lingering = how == STREAM_LINGER && peer->is_client;
    if (!peer->lingering)
        peer->kept.len = 0;
}

/* Simulated clients have no address. */
static void stream_verb_peer(const struct stream *base, char out_text[STREAM_PEER_MAX])
{
    (void)base;
    (void)snprintf(out_text, STREAM_PEER_MAX, "192.0.2.1:9");
}

static const struct stream_verbs stream_verbs = {
    .send = stream_verb_send,
    .unsent = stream_verb_unsent,
    .held = stream_verb_held,
    .resume = stream_verb_resume,
    .close = stream_verb_close,
    .peer = stream_verb_peer,
};

/* ---- the loop port ---- */

static void loop_verb_sleep(struct loop *base, int64_t until_us)
{
    (void)base;
    (void)until_us;
}

static void take_messages(struct sim_loop *loop)
{
    struct queue_node *node;
    while ((node = queue_take(&loop->messages))) {
        struct message *message = LIST_ENTRY(node, struct message, place);
        message->arrived(message);
    }
}

/* Served streams move to the end of the list, so the next gather begins with those that this one
   did not reach. */
static bool loop_verb_gather(struct loop *base, struct loop_share *share)
{
    struct sim_loop *loop = of_loop(base);
    struct list served;
    list_init(&served);
    for (struct list *node = loop->streams.next; node != &loop->streams; node = node->next)
        notify_end_if_over(LIST_ENTRY(node, struct sim_peer, place));
    take_messages(loop);
    while (!list_empty(&loop->streams) && !(share && share->spent(share))) {
        struct sim_peer *peer = LIST_ENTRY(loop->streams.next, struct sim_peer, place);
        list_remove(&peer->place);
        list_add_tail(&served, &peer->place);
        if (share)
            share->visit(share);
        peer_gather(peer);
        if (peer->process_closed && peer->lingering)
            (void)peer_flow(peer);
        peer_free_if_over(peer);
    }
    bool cut = !list_empty(&loop->streams);
    while (!list_empty(&served)) {
        struct list *node = served.next;
        list_remove(node);
        list_add_tail(&loop->streams, node);
    }
    return cut;
}

static void too_slow(struct timer *timer)
{
    struct sim_peer *peer = LIST_ENTRY(timer, struct sim_peer, timer);
    peer->broken = true;
    peer->stream.error = peer->state == LOOKING_UP ? STREAM_NAME_SLOW : STREAM_SLOW;
}

static struct sim_peer *peer_new(struct sim_loop *loop)
{
    struct sim_peer *peer = mem_zalloc(sizeof(*peer));
    peer->stream.verbs = &stream_verbs;
    peer->network = loop->network;
    peer->loop = loop;
    peer->window = SIZE_MAX;
    peer->timer.expired = too_slow;
    list_add_tail(&loop->network->peers, &peer->all);
    list_add_tail(&loop->streams, &peer->place);
    return peer;
}

static void set_address(struct sim_peer *peer, const char *host, uint16_t port)
{
    int len = host[0] == '/' ? snprintf(peer->address, sizeof(peer->address), "%s", host)
                             : snprintf(peer->address, sizeof(peer->address),
                                        strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
    CHECK(len > 0 && (size_t)len < sizeof(peer->address));
}

static struct stream *loop_verb_connect(struct loop *base, const struct stream_options *options)
{
    struct sim_loop *loop = of_loop(base);
    struct sim_net *network = loop->network;
    struct sim_peer *peer = peer_new(loop);
    const struct name *name = sim_name_of(network, options->host);
    peer->stream.handler = options->handler;
    peer->stream.user = options->user;
    peer->timeout_us = options->timeout_us;
    if (!name)
        set_address(peer, options->host, options->port);
    else if (name->address[0])
        set_address(peer, name->address, options->port);
    if (!name) {
        begin_connecting(peer);
        return &peer->stream;
    }
    peer->state = LOOKING_UP;
    peer->state_at_us =
        name->after_us == INT64_MAX ? INT64_MAX : sim_now_us(network) + name->after_us;
    restart_timeout(peer);
    return &peer->stream;
}

static void loop_verb_stop_listening(struct loop *base)
{
    of_loop(base)->listening = false;
}

static enum err loop_verb_watch(struct loop *base, struct watch *watch, unsigned what)
{
    (void)base;
    (void)watch;
    return what ? ERR_UNSUPPORTED : OK; /* there are no descriptors here */
}

static void loop_verb_post(struct loop *base, struct message *message)
{
    queue_add(&of_loop(base)->messages, &message->place);
}

static const struct loop_verbs loop_verbs = {
    .sleep = loop_verb_sleep,
    .gather = loop_verb_gather,
    .connect = loop_verb_connect,
    .stop_listening = loop_verb_stop_listening,
    .watch = loop_verb_watch,
    .post = loop_verb_post,
};

struct sim_loop *sim_loop_new(struct sim_net *network, struct clock *clock)
{
    struct sim_loop *loop = mem_zalloc(sizeof(*loop));
    loop->loop.verbs = &loop_verbs;
    loop->loop.clock = clock;
    loop->loop.now_us = clock->now_us(clock);
    timers_init(&loop->loop.timers, loop->loop.now_us);
    loop->network = network;
    loop->listening = true;
    list_init(&loop->streams);
    list_add_tail(&network->loops, &loop->place);
    return loop;
}

void sim_loop_free(struct sim_loop *loop)
{
    if (!loop)
        return;
    while (!list_empty(&loop->streams)) {
        struct sim_peer *peer = LIST_ENTRY(loop->streams.next, struct sim_peer, place);
        if (!peer->process_closed)
            process_leaves(peer, STREAM_RESET);
        list_remove(&peer->place);
        peer->loop = NULL;
        peer_free_if_over(peer);
    }
    list_remove(&loop->place);
    timers_fini(&loop->loop.timers);
    discard_fini(&loop->loop.discard);
    mem_free(loop);
}

struct loop *sim_loop_port(struct sim_loop *loop)
{
    return &loop->loop;
}

void sim_loop_listen(struct sim_loop *loop)
{
    struct timers *timers = &loop->loop.timers;
    loop->listening = true;
    CHECK(timers_next_us(timers) ==
          INT64_MAX); /* the process that ended has cancelled its timers */
    timers_fini(timers);
    timers_init(timers, loop_update_time(&loop->loop)); /* the clock may have been set back */
    for (struct list *node = loop->streams.next; node != &loop->streams; node = node->next) {
        struct sim_peer *peer = LIST_ENTRY(node, struct sim_peer, place);
        peer->process_closed |= peer->is_client;
    }
}

struct sim_peer *sim_loop_client(struct sim_loop *loop, unsigned listener)
{
    struct sim_peer *peer = peer_new(loop);
    peer->is_client = true;
    peer->state = OPEN;
    peer->listener = listener;
    peer->process_closed = !loop->listening;
    return peer;
}

int64_t sim_loop_next_us(const struct sim_loop *loop)
{
    int64_t next_us = loop->messages.first ? INT64_MIN : INT64_MAX;
    for (const struct list *node = loop->streams.next; node != &loop->streams; node = node->next) {
        int64_t peer_us = peer_gather_us(LIST_ENTRY(node, struct sim_peer, place));
        next_us = peer_us < next_us ? peer_us : next_us;
    }
    return next_us;
}

bool sim_loop_pending(const struct sim_loop *loop)
{
    return sim_loop_next_us(loop) <= sim_now_us(loop->network);
}
