#include "server/session.h"

#include "base/check.h"
#include "base/mem.h"
#include "server/protocol.h"

enum {
    TIMER_GRAIN_US = 5000000, /* deadlines are rounded up: idle connections wake us once in 5 s */
    SPARE_OUT_BYTES = 1024,
    VISIT_NS = 150 * 1000,  /* work for one connection in a turn, if others wait */
    RECEIVE_NS = 2500,      /* the system's time to receive once, … */
    SEND_NS = 3500,         /* … to send once, … */
    CLOSE_NS = 10000,       /* … and to close a connection */
    FREED_BYTES_PER_NS = 8, /* of its buffers */
    REQUEST_BYTES_PER_S = 64 * 1024,
    ANSWER_BYTES_MIN = 64 * 1024, /* in each limits.request_seconds */
    EXPIRE_NS = 100,
    DRAIN_NS = 300,
    SENT_MAX_BYTES = 64 * 1024, /* the network sends no more at once */
    BYTES_PER_NS = 4,           /* copied, here and in the system */
};

static struct server *of_acceptor(struct acceptor *acceptor)
{
    return LIST_ENTRY(acceptor, struct server, acceptor);
}

static struct session *of_stream(const struct stream *stream)
{
    return stream->user;
}

void session_mark_dirty(struct session *session)
{
    buffers_changed(session);
    if (list_empty(&session->dirty))
        list_add_tail(&session->server->dirty, &session->dirty);
}

/* Arms the timer for deadline_us(). To be called when the deadline has become earlier. */
static void arm(struct session *session)
{
    struct server *server = session->server;
    int64_t deadline_us = session->kind->deadline_us(session);
    bool armed = timer_is_armed(&session->timer) && session->timer.at_us <= deadline_us;
    if (deadline_us == INT64_MAX || armed)
        return;
    int64_t grain = TIMER_GRAIN_US;
    bool exact = server->options.config->request_us < 2 * grain; /* short limits (tests) */
    loop_arm(server->loop, &session->timer,
             exact ? deadline_us : (deadline_us / grain + 1) * grain);
}

static size_t unsent(const struct session *session)
{
    return stream_unsent(session->stream);
}

uint64_t session_end(const struct session *session)
{
    return session->passed + session->out.len;
}

uint64_t session_sent(const struct session *session)
{
    return session->passed - unsent(session);
}

/* ---- time limits of a client ---- */

void session_request_grew(struct session *session, size_t bytes)
{
    if (session->request_begun_us == 0) {
        session->request_begun_us = session->server->loop->now_us;
        session->request_bytes = 0;
        arm(session);
    }
    session->request_bytes += bytes;
}

int64_t session_request_deadline_us(const struct session *session)
{
    if (session->request_begun_us == 0)
        return INT64_MAX;
    int64_t for_bytes_us = (int64_t)(session->request_bytes * 1000000 / REQUEST_BYTES_PER_S);
    return time_add(session->request_begun_us,
                    session->server->options.config->request_us + for_bytes_us);
}

static void open_window(struct session *session)
{
    session->window_us = session->server->loop->now_us;
    session->window_sent = session_sent(session);
}

/* If the client has read enough of what waited for it, its time limit starts again. */
static void renew_window(struct session *session)
{
    if (session_answer_deadline_us(session) <= session->server->loop->now_us &&
        session_sent(session) - session->window_sent >= ANSWER_BYTES_MIN)
        open_window(session);
}

int64_t session_answer_deadline_us(const struct session *session)
{
    if (session->window_us == 0)
        return INT64_MAX;
    return time_add(session->window_us, session->server->options.config->request_us);
}

void session_free(struct session *session, enum session_end end)
{
    struct server *server = session->server;
    budget_spend(&server->budget,
                 CLOSE_NS + (int64_t)(session->stream ? unsent(session) : 0) / FREED_BYTES_PER_NS);
    session->kind->fini(session, end);
    loop_cancel(server->loop, &session->timer);
    if (session->stream)
        stream_close(session->stream, end == SESSION_ORDERLY ? STREAM_LINGER : STREAM_DROP);
    buffers_forget(session);
    list_remove(&session->dirty);
    if (server->drain_next == &session->all)
        server->drain_next = session->all.next;
    list_remove(&session->all);
    discard_buf(&server->discard, &session->out);
    mem_free(session->peer);
    pool_give(&server->sessions, session->number);
}

/* ---- callbacks of streams ---- */

static bool is_closing(const struct session *session)
{
    return session->state == SESSION_CLOSING;
}

/* The timer has expired. The deadline may have moved later since it was armed. */
static void check_deadline(struct timer *timer)
{
    struct session *session = LIST_ENTRY(timer, struct session, timer);
    budget_spend(&session->server->budget, EXPIRE_NS);
    renew_window(session);
    if (session->kind->deadline_us(session) <= session->server->loop->now_us)
        session->kind->expired(session);
    else
        arm(session);
}

static const struct stream_handler stream_handler;

static void handle_accepted(struct acceptor *acceptor, struct stream *stream, unsigned listener)
{
    struct server *server = of_acceptor(acceptor);
    uint32_t number = pool_take(&server->sessions);
    struct session *session = pool_at(&server->sessions, number);
    session->number = number;
    session->server = server;
    session->stream = stream;
    session->timer.expired = check_deadline;
    stream->handler = &stream_handler;
    stream->user = session;
    const struct server_listener *where = &server->options.listeners[listener];
    CHECK(where->protocol < PROTOCOL_KINDS);
    session->principal = (struct principal){.protocol = where->protocol, .listener = where};
    if (server->options.api.keeps_history) {
        char *name = mem_alloc(STREAM_PEER_MAX);
        stream_peer(stream, name);
        session->principal.name = session->peer = name;
    }
    session->kind = protocols[where->protocol].session;
    list_init(&session->dirty);
    list_init(&session->changed);
    list_init(&session->of_size);
    list_add_tail(&server->all, &session->all);
    server->counts.accepted++;
    session->kind->init(session);
    if (server->sessions.count > (uint64_t)server->options.config->connections) {
        server->counts.refused++;
        session->kind->refuse(session);
    }
    arm(session);
}

void server_begin_visit(struct server *server)
{
    int64_t stop_ns = server->budget.left_ns - VISIT_NS;
    server->visit_ns = stop_ns > 0 ? stop_ns : 0;
}

static size_t handle_input(struct stream *stream, struct bytes bytes)
{
    struct session *session = of_stream(stream);
    struct server *server = session->server;
    if (is_closing(session))
        return bytes.len;
    (void)loop_update_time(server->loop);
    size_t used = session->kind->input(session, bytes);
    bool cut = used < bytes.len && !session_has_budget(session);
    if (cut)
        stream_resume(stream);
    budget_spend(&server->budget, RECEIVE_NS);
    buffers_changed(session);
    return used;
}

static void count_moved(struct loop_share *share, size_t bytes)
{
    struct server *server = LIST_ENTRY(share, struct server, share);
    budget_spend(&server->budget, SEND_NS + (int64_t)bytes / BYTES_PER_NS);
}

static void count_worked(struct loop_share *share, int64_t ns)
{
    budget_spend(&LIST_ENTRY(share, struct server, share)->budget, ns);
}

static bool share_spent(const struct loop_share *share)
{
    return budget_spent(&LIST_ENTRY(share, const struct server, share)->budget);
}

static void begin_visit(struct loop_share *share)
{
    server_begin_visit(LIST_ENTRY(share, struct server, share));
}

static void handle_leaving(struct stream *stream)
{
    struct session *session = of_stream(stream);
    if (!is_closing(session))
        session->kind->leaving(session);
}

static void handle_gone(struct stream *stream, bool half)
{
    struct session *session = of_stream(stream);
    if (half) {
        session->kind->ended(session);
        return;
    }
    session_free(session, SESSION_RESET);
}

static void handle_drained(struct stream *stream)
{
    struct session *session = of_stream(stream);
    session->window_us = 0;
    buffers_changed(session);
    session->kind->drained(session);
    if (is_closing(session))
        session_mark_dirty(session);
}

static const struct stream_handler stream_handler = {
    .input = handle_input,
    .leaving = handle_leaving,
    .gone = handle_gone,
    .drained = handle_drained,
};

void sessions_init(struct server *server)
{
    server->acceptor.accepted = handle_accepted;
    server->loop->acceptor = &server->acceptor;
    server->share = (struct loop_share){
        .spent = share_spent, .visit = begin_visit, .moved = count_moved, .worked = count_worked};
    size_t session_bytes = 0; /* a place in the pool holds a session of any kind */
    for (int i = 0; i < PROTOCOL_KINDS; i++)
        if (protocols[i].session_bytes > session_bytes)
            session_bytes = protocols[i].session_bytes;
    pool_init(&server->sessions, session_bytes);
    list_init(&server->dirty);
    list_init(&server->all);
}

/* ---- calls of the turn ---- */

/* After `out` was sent: a connection that is idle keeps little memory, and leaves more to others.
 */
static void leave_spare(struct session *session)
{
    struct server *server = session->server;
    struct buf *out = &session->out;
    bool is_spare = out->len == 0 && out->cap > SPARE_OUT_BYTES && out->cap <= SPARE_OUT_MAX_BYTES;
    if (is_spare && server->spare_outs.count < SPARE_OUTS) {
        server->spare_outs.bufs[server->spare_outs.count++] = *out;
        server->buffers.bytes += out->cap;
        *out = (struct buf){0};
        return;
    }
    buf_shrink(out, SPARE_OUT_BYTES);
}

void sessions_drop_spares(struct server *server)
{
    while (server->spare_outs.count > 0) {
        struct buf *spare = &server->spare_outs.bufs[--server->spare_outs.count];
        server->buffers.bytes -= spare->cap;
        buf_fini(spare);
    }
}

static void send_out(struct session *session)
{
    size_t sent = session->out.len < SENT_MAX_BYTES ? session->out.len : SENT_MAX_BYTES;
    budget_spend(&session->server->budget, SEND_NS + (int64_t)sent / BYTES_PER_NS);
    session->passed += session->out.len;
    stream_send(session->stream, &session->out);
    leave_spare(session);
    buffers_changed(session);
    bool waits = unsent(session) > 0; /* for the client to take it */
    if (waits && !session->window_us)
        open_window(session);
    if (!waits)
        session->kind->drained(session); /* the stream calls drained() only for bytes it had kept */
}

bool session_flush(struct session *session)
{
    list_remove(&session->dirty);
    if (session->out.len)
        send_out(session);
    if (is_closing(session) && session->out.len == 0 && unsent(session) == 0) {
        session_free(session, SESSION_ORDERLY);
        return true;
    }
    arm(session);
    return false;
}

bool sessions_drain(struct server *server)
{
    for (unsigned steps = 0; server->drain_next; steps++) {
        struct list *node = server->drain_next;
        if (steps > 0 && budget_spent(&server->budget))
            return true;
        budget_spend(&server->budget, DRAIN_NS);
        server->drain_next = node == &server->all ? NULL : node->next;
        if (node == &server->all) { /* now the engine's answers say that they are the last */
            server->engine->verbs->drain(server->engine);
            return false;
        }
        struct session *session = LIST_ENTRY(node, struct session, all);
        session->kind->drain(session);
    }
    return false;
}

bool sessions_flush(struct server *server)
{
    while (!list_empty(&server->dirty) && !budget_spent(&server->budget))
        (void)session_flush(LIST_ENTRY(server->dirty.next, struct session, dirty));
    return !list_empty(&server->dirty);
}
