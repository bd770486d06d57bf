/*
 * Owns the codec, a connection's part in the statistics, and when its reservations end; pipeline.c
 * keeps the order of answers.
 *
 * Invariant: an answered() callback calls no verb of the engine.
 */
#include "server/beanstalk/session.h"

#include "base/check.h"
#include "server/beanstalk/long_body.h"
#include "server/beanstalk/survey.h"
#include "server/requeue.h"

enum {
    COMMAND_NS = 300,        /* work for a command, without the engine's */
    PENDING_BYTES = 1024,    /* memory of a command, with a reply that the engine holds */
    PAGE_BYTES = 240 * 1000, /* memory of the jobs that a kick has found */
    DROP_NS = 250,           /* work for forgetting a reservation */
    WAIT_BYTES = 32,         /* memory of a tube that a reserve waits for */
    BYTES_PER_NS = 2,        /* of a command, and of its answer */
};

static struct beanstalk_session *of(struct session *session)
{
    return (struct beanstalk_session *)session; /* the first member of its first member */
}

static const struct beanstalk_session *of_const(const struct session *session)
{
    return (const struct beanstalk_session *)session;
}

static struct beanstalk_session *of_pipeline(struct pipeline *pipeline)
{
    return (struct beanstalk_session *)pipeline; /* its first member */
}

static struct beanstalk_pending *of_pending(struct pending *pending)
{
    return (struct beanstalk_pending *)pending; /* its first member */
}

static struct beanstalk_shared *shared_of(const struct beanstalk_session *beanstalk)
{
    return &beanstalk_server(beanstalk)->beanstalk;
}

/* ---- commands that are pending ---- */

static bool is_reserve(enum beanstalk_cmd cmd)
{
    return cmd == BEANSTALK_RESERVE || cmd == BEANSTALK_RESERVE_WITH_TIMEOUT ||
           cmd == BEANSTALK_RESERVE_JOB;
}

static void answered(struct ticket *ticket, const struct reply *reply)
{
    beanstalk_answered(LIST_ENTRY(ticket, struct beanstalk_pending, pending.ticket), reply);
}

struct beanstalk_pending *beanstalk_pending_new(struct beanstalk_session *beanstalk,
                                                enum beanstalk_cmd cmd, uint64_t id)
{
    struct beanstalk_shared *shared = shared_of(beanstalk);
    uint32_t number = pool_take_dirty(&shared->pending);
    struct beanstalk_pending *pending = pool_at(&shared->pending, number);
    pending->pending.ticket = (struct ticket){.answered = answered, .brief = true};
    pending->session = beanstalk;
    pending->number = number;
    pending->cmd = cmd;
    pending->id = id;
    pending->tube = (struct buf){0};
    pending->survey = NULL;
    pending->long_body = NULL;
    pending->ended.lease = 0;
    pending->waits = false;
    pending->deadline_soon = false;
    pending->noted = false;
    pipeline_add(&beanstalk->pipeline, &pending->pending);
    if (is_reserve(cmd)) /* its answer makes the reservation that later commands need */
        pending->pending.state = PENDING_EXCLUSIVE;
    return pending;
}

static struct pending *add_answered(struct pipeline *pipeline)
{
    return &beanstalk_pending_new(of_pipeline(pipeline), BEANSTALK_QUIT, 0)->pending;
}

static void free_pending(struct pending *pending)
{
    struct beanstalk_pending *own = of_pending(pending);
    if (own->tube.at)
        buf_fini(&own->tube);
    if (own->survey)
        beanstalk_survey_free(own->survey);
    if (own->long_body)
        long_body_free(own->long_body);
    pool_give(&shared_of(own->session)->pending, own->number);
}

/* The answer to a reserve, which was buffered, is among the bytes for the client now: the
 * reservation notes where. */
static void delivered(struct pending *pending)
{
    const struct beanstalk_pending *own = of_pending(pending);
    struct beanstalk_session *beanstalk = own->session;
    if (own->noted || !is_reserve(own->cmd))
        return;
    struct beanstalk_reservation *reservation =
        beanstalk_reservations_find(&shared_of(beanstalk)->reservations, beanstalk->held, own->id);
    if (reservation && reservation->end == UINT64_MAX)
        reservation->end = session_end(&beanstalk->pipeline.session);
}

static void abandon(struct pending *pending)
{
    if (pending->state != PENDING_BUFFERED && !of_pending(pending)->long_body)
        server_cancel(beanstalk_server(of_pending(pending)->session), &pending->ticket);
}

void beanstalk_answered(struct beanstalk_pending *pending, const struct reply *reply)
{
    if (reply->hold && long_body_begin(pending, reply))
        return;
    struct pipeline_text text = pipeline_begin(&pending->pending);
    beanstalk_answer(pending, reply, text.out);
    budget_spend(&beanstalk_server(pending->session)->budget,
                 (int64_t)(text.out->len - text.at) / BYTES_PER_NS);
    pipeline_end(&pending->pending, text);
}

void beanstalk_submit(struct beanstalk_pending *pending, const struct cmd *cmd)
{
    pipeline_submit(&pending->pending, cmd);
}

void beanstalk_word(struct beanstalk_session *beanstalk, enum beanstalk_word word)
{
    struct pipeline_text text = pipeline_begin_now(&beanstalk->pipeline);
    beanstalk_encode(text.out, word);
    pipeline_end_now(&beanstalk->pipeline, text);
}

/* ---- commands in ---- */

void beanstalk_is_producer(struct beanstalk_session *beanstalk)
{
    shared_of(beanstalk)->producers += !beanstalk->producer;
    beanstalk->producer = true;
}

void beanstalk_is_worker(struct beanstalk_session *beanstalk)
{
    shared_of(beanstalk)->workers += !beanstalk->worker;
    beanstalk->worker = true;
}

static void refuse_command(struct beanstalk_session *beanstalk)
{
    enum beanstalk_word refusal = beanstalk->codec.refusal;
    if (refusal == BEANSTALK_JOB_TOO_BIG || refusal == BEANSTALK_EXPECTED_CRLF)
        shared_of(beanstalk)->cmds[BEANSTALK_PUT]++; /* beanstalkd counts these, too */
    if (refusal == BEANSTALK_EXPECTED_CRLF)
        beanstalk_is_producer(beanstalk);
    beanstalk_word(beanstalk, refusal);
}

/* A page in a browser may have sent it: the commands in its body must not be done. */
static void refuse_http(struct beanstalk_session *beanstalk, struct bytes bytes)
{
    misdirected_note(&beanstalk->pipeline.session, MISDIRECTED_HTTP, bytes);
    struct pipeline_text text = pipeline_begin_now(&beanstalk->pipeline);
    beanstalk_encode_http(text.out);
    pipeline_end_now(&beanstalk->pipeline, text);
    pipeline_stop(&beanstalk->pipeline);
}

/* How long a reserve may wait depends on the reservation that ends first. A million others may have
 * ended before it: they are dropped in slices. False: there are more. */
static bool drop_ended(const struct beanstalk_session *beanstalk)
{
    const struct session *session = &beanstalk->pipeline.session;
    struct server *server = session->server;
    struct beanstalk_reservation *ended;
    while ((ended = beanstalk_reservations_ended(beanstalk->held, server->loop->now_us))) {
        if (!session_has_budget(session))
            return false;
        beanstalk_reservations_drop(&server->beanstalk.reservations, ended);
        budget_spend(&server->budget, DROP_NS);
    }
    return true;
}

/* Feeds the codec once; false: no more can be done with these bytes now. */
static bool feed(struct pipeline *pipeline, struct bytes bytes, size_t *used)
{
    struct beanstalk_session *beanstalk = of_pipeline(pipeline);
    struct session *session = &pipeline->session;
    struct beanstalk *codec = &beanstalk->codec;
    size_t step = 0;
    if (!drop_ended(beanstalk))
        return false;
    enum beanstalk_progress progress = beanstalk_feed(codec, bytes, &step);
    *used += step;
    budget_spend(&session->server->budget, COMMAND_NS + (int64_t)step / BYTES_PER_NS);
    switch (progress) {
    case BEANSTALK_MORE:
        if (beanstalk_midway(codec))
            session_request_grew(session, step);
        else
            session_request_over(session);
        return false;
    case BEANSTALK_READY: beanstalk_do(beanstalk, &codec->request); break;
    case BEANSTALK_BAD: refuse_command(beanstalk); break;
    case BEANSTALK_HTTP: refuse_http(beanstalk, bytes); break;
    }
    if (codec->body.cap > DISCARD_SMALL_BYTES) /* a body that the engine has not taken over */
        discard_buf(&session->server->discard, &codec->body);
    beanstalk_next(codec);
    session_request_over(session);
    if (session->server->draining)
        pipeline_stop(pipeline); /* one that began before the drain is still done */
    return true;
}

/* ---- the end, in its several forms ---- */

/* As the protocol requires, a reserve that waits is answered TIMED_OUT. One that waits for
   Redis alone, or the disk, is answered by the engine. */
static void end_wait(struct pending *parked)
{
    struct beanstalk_pending *pending = of_pending(parked);
    if (!pending->waits)
        return;
    server_cancel(beanstalk_server(pending->session), &parked->ticket);
    pending->deadline_soon = false; /* that is not why */
    beanstalk_answered(pending, &(struct reply){.err = ERR_EMPTY, .kind = CMD_RESERVE});
}

/* Drops a partly received command, which may be many MiB. */
static void forget_command(struct beanstalk_session *beanstalk)
{
    discard_buf(&beanstalk->pipeline.session.server->discard, &beanstalk->codec.body);
    beanstalk_fini(&beanstalk->codec);
}

static void fini(struct session *session, enum session_end end)
{
    struct beanstalk_session *beanstalk = of(session);
    struct beanstalk_shared *shared = shared_of(beanstalk);
    pipeline_fini(&beanstalk->pipeline);
    requeue_reserved(session->server, beanstalk->held, session_sent(session), end);
    beanstalk_forget_tubes(beanstalk);
    shared->connections--;
    shared->producers -= beanstalk->producer;
    shared->workers -= beanstalk->worker;
    forget_command(beanstalk);
}

/*
 * A client may be silent between commands forever, as with beanstalkd. One that stops in the midst
 * of a command, or does not read its answers, holds memory: its connection ends at a deadline.
 */
static int64_t deadline_us(const struct session *session)
{
    const struct beanstalk_session *beanstalk = of_const(session);
    int64_t answer_us = session_answer_deadline_us(session);
    int64_t request_us = session_request_deadline_us(session);
    if (beanstalk->pipeline.unread) /* the client waits for us */
        return answer_us;
    return time_earlier(answer_us, request_us);
}

static void expired(struct session *session)
{
    session->server->counts.timed_out++;
    session_free(session, SESSION_DROPPED);
}

static void drain(struct session *session)
{
    struct beanstalk_session *beanstalk = of(session);
    if (!beanstalk_midway(&beanstalk->codec)) /* else feed() makes it the last one */
        pipeline_stop(&beanstalk->pipeline);
}

static void refuse(struct session *session)
{
    beanstalk_encode(&session->out, BEANSTALK_OUT_OF_MEMORY);
    pipeline_stop(&of(session)->pipeline);
}

static size_t footprint(const struct session *session)
{
    const struct beanstalk_session *beanstalk = of_const(session);
    const struct pipeline *pipeline = &beanstalk->pipeline;
    size_t extra = 0;
    if (pipeline->count) {
        struct beanstalk_pending *newest = of_pending(pipeline_newest(pipeline));
        bool searches = pipeline_parked(pipeline) && newest->cmd == BEANSTALK_KICK;
        extra = (newest->survey ? newest->survey->names.cap : 0) + (searches ? PAGE_BYTES : 0);
    }
    size_t tubes = beanstalk->watch_cap * (sizeof(struct beanstalk_tube *) + WAIT_BYTES);
    return beanstalk->codec.body.cap + pipeline_footprint(pipeline) + extra + tubes +
           pipeline->count * (size_t)PENDING_BYTES;
}

static bool evict(struct session *session)
{
    struct beanstalk_session *beanstalk = of(session);
    struct pending *parked = pipeline_parked(&beanstalk->pipeline);
    if (parked && !is_reserve(of_pending(parked)->cmd))
        parked = NULL;
    if (pipeline_unsent(&beanstalk->pipeline) || beanstalk->pipeline.count > (parked ? 1 : 0))
        return false; /* the command may have been executed */
    if (parked)
        pipeline_abandon(parked);
    forget_command(beanstalk);
    session_request_over(session);
    refuse(session);
    return true;
}

static void init(struct session *session)
{
    struct beanstalk_session *beanstalk = of(session);
    struct beanstalk_shared *shared = shared_of(beanstalk);
    struct beanstalk_tube *tube = shared->tubes.standard;
    pipeline_init(&beanstalk->pipeline);
    beanstalk_init(&beanstalk->codec, (uint32_t)session->server->options.config->job_bytes);
    tube->users++;
    tube->watchers++;
    beanstalk->used = tube;
    beanstalk->one = tube;
    beanstalk->watched = &beanstalk->one;
    beanstalk->watch_count = beanstalk->watch_cap = 1;
    shared->connections++;
    shared->accepted++;
}

const struct pipeline_kind beanstalk_session_kind = {
    .session =
        {
            .init = init,
            .refuse = refuse,
            .input = pipeline_input,
            .leaving = pipeline_leaving,
            .ended = pipeline_ended,
            .drained = pipeline_drained,
            .fini = fini,
            .deadline_us = deadline_us,
            .expired = expired,
            .drain = drain,
            .footprint = footprint,
            .evict = evict,
        },
    .feed = feed,
    .add = add_answered,
    .delivered = delivered,
    .end_wait = end_wait,
    .abandon = abandon,
    .free = free_pending,
};
