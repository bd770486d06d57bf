#include "server/pipeline.h"

#include "base/check.h"
#include "server/door.h"

enum {
    SPARE_BYTES = 4 * 1024,  /* of `buffered`, kept for the next */
    SWAP_BYTES = 4 * 1024,   /* a longer answer is not copied, if its memory can be passed on */
    HELD_BYTES = 64 * 1024,  /* a longer answer waits until the client has taken all before it */
    COPIED_BYTES_PER_NS = 3, /* from one buffer to the other */
};

static struct pipeline *of(struct session *session)
{
    return (struct pipeline *)session; /* its first member */
}

static const struct pipeline_kind *kind_of(const struct pipeline *pipeline)
{
    return (const struct pipeline_kind *)pipeline->session.kind; /* its first member */
}

static size_t unsent(const struct session *session)
{
    return stream_unsent(session->stream);
}

/* ---- requests ---- */

void pipeline_init(struct pipeline *pipeline)
{
    list_init(&pipeline->pending);
}

void pipeline_add(struct pipeline *pipeline, struct pending *pending)
{
    pending->pipeline = pipeline;
    pending->state = PENDING_OPEN;
    list_add_tail(&pipeline->pending, &pending->place);
    pipeline->count++;
}

static struct pending *oldest(const struct pipeline *pipeline)
{
    return LIST_ENTRY(pipeline->pending.next, struct pending, place);
}

static bool is_oldest(const struct pending *pending)
{
    return pending->pipeline->pending.next == &pending->place;
}

/* Its answer is no longer in `buffered`. */
static void unbuffer(struct pending *pending)
{
    struct pipeline *pipeline = pending->pipeline;
    if (pending->is_long) {
        pipeline->working_bytes -= pending->text.cap;
        discard_buf(&pipeline->session.server->discard, &pending->text);
    } else if (--pipeline->buffered_count == 0) {
        pipeline->buffered.len = 0;
        buf_shrink(&pipeline->buffered, SPARE_BYTES);
    }
}

static void remove_pending(struct pending *pending)
{
    struct pipeline *pipeline = pending->pipeline;
    if (pending->state == PENDING_BUFFERED)
        unbuffer(pending);
    list_remove(&pending->place);
    pipeline->count--;
    kind_of(pipeline)->free(pending);
}

void pipeline_abandon(struct pending *pending)
{
    kind_of(pending->pipeline)->abandon(pending);
    remove_pending(pending);
}

void pipeline_fini(struct pipeline *pipeline)
{
    while (!list_empty(&pipeline->pending))
        pipeline_abandon(oldest(pipeline));
    discard_buf(&pipeline->session.server->discard, &pipeline->buffered);
}

void pipeline_submit(struct pending *pending, const struct cmd *cmd)
{
    struct session *session = &pending->pipeline->session;
    if (server_submit(session->server, &session->principal, cmd, &pending->ticket) == SUBMIT_PARKED)
        pending->state = PENDING_PARKED;
}

/* ---- when to read on ---- */

/* Everything that waits for the client, or for older answers. */
static size_t waiting_bytes(const struct pipeline *pipeline, size_t unsent_bytes)
{
    return pipeline->buffered.len + pipeline->working_bytes + pipeline->session.out.len +
           unsent_bytes;
}

static bool is_blocked(const struct pipeline *pipeline)
{
    enum pending_state newest = pipeline_newest(pipeline)->state;
    return newest == PENDING_EXCLUSIVE || newest == PENDING_PARKED ||
           pipeline->count >= PIPELINE_PENDING_MAX ||
           buffers_tight(pipeline->session.server); /* read on when it is answered */
}

static bool may_take(const struct pipeline *pipeline, size_t unsent_bytes)
{
    return session_state_takes(pipeline->session.state) &&
           waiting_bytes(pipeline, unsent_bytes) < PIPELINE_WAITING_MAX_BYTES &&
           (pipeline->count == 0 || !is_blocked(pipeline));
}

void pipeline_read_on(struct pipeline *pipeline)
{
    struct session *session = &pipeline->session;
    if (pipeline->unread && may_take(pipeline, unsent(session)))
        stream_resume(session->stream);
}

/* ---- answers ---- */

/* Answers were written: ends the connection if it is closing and this was the last one, or reads on
 * if there is room. */
static void answers_left(struct pipeline *pipeline)
{
    struct session *session = &pipeline->session;
    if (list_empty(&pipeline->pending))
        session_state_move(&session->state, SESSION_ANSWERED);
    if (kind_of(pipeline)->progressed)
        kind_of(pipeline)->progressed(pipeline);
    pipeline_read_on(pipeline);
    session_mark_dirty(session);
}

static void deliver(struct pending *pending)
{
    const struct pipeline_kind *kind = kind_of(pending->pipeline);
    if (kind->delivered)
        kind->delivered(pending);
    remove_pending(pending);
}

/* Copying a long answer behind others would take milliseconds, so it waits for them to be sent. */
static bool must_wait(const struct pipeline *pipeline, size_t len)
{
    return len > HELD_BYTES && pipeline_unsent(pipeline) > 0;
}

/* Appends the text to session::out, which takes over its memory if it is empty. */
static void send_long(struct session *session, struct buf *text)
{
    if (session->out.len == 0 && text->len > SWAP_BYTES) {
        struct buf spare = session->out;
        session->out = *text;
        *text = spare;
        text->len = 0;
        return;
    }
    buf_add_bytes(&session->out, buf_bytes(text));
    budget_spend(&session->server->budget, (int64_t)text->len / COPIED_BYTES_PER_NS);
}

static void send_buffered(struct pending *pending)
{
    struct pipeline *pipeline = pending->pipeline;
    if (pending->is_long) {
        pipeline->working_bytes -= pending->text.cap;
        send_long(&pipeline->session, &pending->text);
        buf_fini(&pending->text); /* it was copied, or exchanged for what `out` had */
        return;
    }
    buf_add(&pipeline->session.out, pipeline->buffered.at + pending->part.at, pending->part.len);
    budget_spend(&pipeline->session.server->budget,
                 (int64_t)pending->part.len / COPIED_BYTES_PER_NS);
}

static bool may_send_oldest(const struct pipeline *pipeline)
{
    if (list_empty(&pipeline->pending) || oldest(pipeline)->state != PENDING_BUFFERED)
        return false;
    return !oldest(pipeline)->is_long || !must_wait(pipeline, oldest(pipeline)->text.len);
}

/* Moves to `out` what is answered, up to the first request that is not. */
static void send_answered(struct pipeline *pipeline)
{
    while (may_send_oldest(pipeline)) {
        send_buffered(oldest(pipeline));
        deliver(oldest(pipeline));
    }
    answers_left(pipeline);
}

/* The answer to the oldest request is in `out`. */
static void oldest_answered(struct pending *pending)
{
    struct pipeline *pipeline = pending->pipeline;
    deliver(pending);
    send_answered(pipeline);
}

struct pipeline_text pipeline_begin(struct pending *pending)
{
    struct pipeline *pipeline = pending->pipeline;
    struct buf *out = is_oldest(pending) ? session_out(&pipeline->session) : &pipeline->buffered;
    return (struct pipeline_text){.out = out, .at = out->len};
}

static void keep_buffered(struct pending *pending, size_t at)
{
    struct pipeline *pipeline = pending->pipeline;
    pending->state = PENDING_BUFFERED;
    pending->is_long = false;
    pending->part.at = at;
    pending->part.len = pipeline->buffered.len - at;
    pipeline->buffered_count++;
    buffers_changed(&pipeline->session);
}

void pipeline_end(struct pending *pending, struct pipeline_text text)
{
    if (text.out == &pending->pipeline->session.out)
        oldest_answered(pending);
    else
        keep_buffered(pending, text.at);
}

void pipeline_end_long(struct pending *pending, struct buf *text)
{
    struct pipeline *pipeline = pending->pipeline;
    if (is_oldest(pending) && !must_wait(pipeline, text->len)) {
        send_long(&pipeline->session, text);
        oldest_answered(pending);
        return;
    }
    pending->state = PENDING_BUFFERED;
    pending->is_long = true;
    pending->text = *text;
    *text = (struct buf){0};
    pipeline->working_bytes += pending->text.cap;
    buffers_changed(&pipeline->session);
}

struct pipeline_text pipeline_begin_now(struct pipeline *pipeline)
{
    struct buf *out =
        list_empty(&pipeline->pending) ? session_out(&pipeline->session) : &pipeline->buffered;
    return (struct pipeline_text){.out = out, .at = out->len};
}

void pipeline_end_now(struct pipeline *pipeline, struct pipeline_text text)
{
    if (text.out == &pipeline->session.out)
        answers_left(pipeline);
    else
        keep_buffered(kind_of(pipeline)->add(pipeline), text.at);
}

/* ---- the life of the connection ---- */

void pipeline_stop(struct pipeline *pipeline)
{
    session_state_move(&pipeline->session.state, SESSION_STOPS);
    if (list_empty(&pipeline->pending))
        session_state_move(&pipeline->session.state, SESSION_ANSWERED);
    session_mark_dirty(&pipeline->session);
}

/*
 * The client sends no more. Its earlier requests are still executed and answered, with one
 * exception: a client that waits for a job and has ended its sending has probably gone; if it got a
 * job, the job would not be worked on (P6). So the wait ends at once, before jobs are matched.
 */
void pipeline_check_client_end(struct pipeline *pipeline)
{
    const struct session *session = &pipeline->session;
    struct pending *parked = session_state_left(session->state) ? pipeline_parked(pipeline) : NULL;
    if (parked)
        kind_of(pipeline)->end_wait(parked);
    if (session->state == SESSION_ENDED && !pipeline->unread)
        pipeline_stop(pipeline);
}

size_t pipeline_input(struct session *session, struct bytes bytes)
{
    struct pipeline *pipeline = of(session);
    size_t used = 0, unsent_bytes = unsent(session);
    pipeline->unread = false; /* answers meanwhile need not resume reading */
    while (used < bytes.len && may_take(pipeline, unsent_bytes) && session_has_budget(session)) {
        if (!kind_of(pipeline)->feed(pipeline, bytes_of(bytes.at + used, bytes.len - used), &used))
            break;
    }
    pipeline->unread = used < bytes.len;
    pipeline_check_client_end(pipeline);
    if (!session_state_takes(session->state))
        used = bytes.len; /* bytes after the client's last request are ignored */
    return used;
}

void pipeline_leaving(struct session *session)
{
    session_state_move(&session->state, SESSION_LEAVES);
    pipeline_check_client_end(of(session));
}

void pipeline_ended(struct session *session)
{
    session_state_move(&session->state, SESSION_ENDS);
    pipeline_check_client_end(of(session));
}

void pipeline_drained(struct session *session)
{
    struct pipeline *pipeline = of(session);
    if (may_send_oldest(pipeline))
        send_answered(pipeline);
    else
        pipeline_read_on(pipeline);
}

size_t pipeline_unsent(const struct pipeline *pipeline)
{
    return pipeline->session.out.len + unsent(&pipeline->session);
}

size_t pipeline_footprint(const struct pipeline *pipeline)
{
    return pipeline->buffered.cap + pipeline->working_bytes;
}

void pipeline_valid(const struct pipeline *pipeline)
{
    uint32_t count = 0, buffered = 0;
    for (struct list *node = pipeline->pending.next; node != &pipeline->pending;
         node = node->next) {
        const struct pending *pending = LIST_ENTRY(node, struct pending, place);
        bool alone = pending->state == PENDING_EXCLUSIVE || pending->state == PENDING_PARKED;
        CHECK(pending->pipeline == pipeline);
        CHECK(count > 0 || !may_send_oldest(pipeline));
        CHECK(!alone || node->next == &pipeline->pending);
        count++;
        buffered += pending->state == PENDING_BUFFERED && !pending->is_long;
    }
    CHECK(count == pipeline->count && buffered == pipeline->buffered_count);
    CHECK(buffered > 0 || pipeline->buffered.len == 0);
    CHECK(count == 0 || pipeline->session.state != SESSION_CLOSING);
}

void pipelines_valid(const struct server *server)
{
    for (const struct list *node = server->all.next; node != &server->all; node = node->next)
        pipeline_valid((const struct pipeline *)LIST_ENTRY(node, const struct session, all));
}
