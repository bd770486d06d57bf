/*
 * Owns the codec, the answers that are owed and their order, and the end of a connection.
 *
 * Invariants: `owed` holds every command that is not answered to the client's bytes, oldest first;
 * the oldest is never `answered`. An answered() callback calls no verb of the engine.
 */
#include "server/beanstalk/session.h"

#include "base/check.h"
#include "server/beanstalk/survey.h"
#include "server/requeue.h"

enum {
    OWED_MAX = 1024,               /* pipelined commands that may wait for their answers */
    UNSENT_MAX_BYTES = 256 * 1024, /* more than this not taken by the client: read no further */
    SPARE_EARLY_BYTES = 4 * 1024,
    COMMAND_NS = 300,        /* work for a command, besides what the engine does */
    OWED_BYTES = 1024,       /* memory of a command, with a reply that the engine holds */
    PAGE_BYTES = 240 * 1000, /* memory of the jobs that a kick has found */
    WAIT_BYTES = 32,         /* memory of a tube that a reserve waits for */
    BYTES_PER_NS = 2,        /* of a command, and of its answer */
};

static struct beanstalk_session *of(struct session *session)
{
    return (struct beanstalk_session *)session; /* its first member */
}

static const struct beanstalk_session *of_const(const struct session *session)
{
    return (const struct beanstalk_session *)session;
}

static struct beanstalk_shared *shared_of(const struct beanstalk_session *beanstalk)
{
    return &beanstalk->session.server->beanstalk;
}

static size_t unsent(const struct session *session)
{
    const struct net *net = session->server->net;
    return net->verbs->unsent(net, session->conn);
}

/* ---- answers out, in order ---- */

struct beanstalk_owed *beanstalk_owed_new(struct beanstalk_session *beanstalk,
                                          enum beanstalk_cmd cmd, uint64_t id)
{
    struct beanstalk_shared *shared = shared_of(beanstalk);
    uint32_t number = pool_take(&shared->owed);
    struct beanstalk_owed *owed = pool_at(&shared->owed, number);
    owed->number = number;
    owed->session = beanstalk;
    owed->cmd = cmd;
    owed->id = id;
    list_add_tail(&beanstalk->owed, &owed->place);
    beanstalk->owed_count++;
    return owed;
}

static void owed_free(struct beanstalk_owed *owed)
{
    struct beanstalk_session *beanstalk = owed->session;
    list_remove(&owed->place);
    beanstalk->owed_count--;
    if (owed->answered && --beanstalk->early_count == 0) {
        beanstalk->early.len = 0;
        buf_shrink(&beanstalk->early, SPARE_EARLY_BYTES);
    }
    buf_fini(&owed->tube);
    beanstalk_survey_free(owed->survey);
    pool_give(&shared_of(beanstalk)->owed, owed->number);
}

/* There must be one. */
static struct beanstalk_owed *oldest(const struct beanstalk_session *beanstalk)
{
    return LIST_ENTRY(beanstalk->owed.next, struct beanstalk_owed, place);
}

static struct buf *out_of(struct beanstalk_session *beanstalk, bool first)
{
    return first ? &beanstalk->session.out : &beanstalk->early;
}

static void keep_early(struct beanstalk_owed *owed, size_t at)
{
    struct beanstalk_session *beanstalk = owed->session;
    owed->answered = true;
    owed->early_at = at;
    owed->early_len = beanstalk->early.len - at;
    beanstalk->early_count++;
    buffers_changed(&beanstalk->session);
}

static bool is_reserve(enum beanstalk_cmd cmd)
{
    return cmd == BEANSTALK_RESERVE || cmd == BEANSTALK_RESERVE_WITH_TIMEOUT ||
           cmd == BEANSTALK_RESERVE_JOB;
}

/* The answer to a reserve is among the bytes for the client now: the reservation notes where. */
static void note_end(const struct beanstalk_owed *owed)
{
    struct beanstalk_session *beanstalk = owed->session;
    if (!is_reserve(owed->cmd))
        return;
    struct beanstalk_reservation *reservation =
        beanstalk_reservations_find(&shared_of(beanstalk)->reservations, beanstalk->held, owed->id);
    if (reservation && reservation->end == UINT64_MAX)
        reservation->end = session_end(&beanstalk->session);
}

/*
 * The newest command, if nothing behind it may be done before it is answered: a reserve, whose
 * answer makes the reservation that later commands look for, or what takes several steps; else
 * NULL.
 */
static struct beanstalk_owed *waiting(const struct beanstalk_session *beanstalk)
{
    if (list_empty(&beanstalk->owed))
        return NULL;
    struct beanstalk_owed *newest = LIST_ENTRY(beanstalk->owed.prev, struct beanstalk_owed, place);
    if (newest->answered)
        return NULL;
    bool holds_up = newest->parked || newest->survey || is_reserve(newest->cmd);
    return holds_up ? newest : NULL;
}

static bool may_take(const struct beanstalk_session *beanstalk)
{
    const struct session *session = &beanstalk->session;
    if (beanstalk->owed_count && buffers_tight(&session->server->buffers))
        return false; /* it will be read on when it is answered */
    return !session->closing && !beanstalk->last && beanstalk->owed_count < OWED_MAX &&
           beanstalk->early.len + session->out.len < UNSENT_MAX_BYTES && !waiting(beanstalk);
}

static void read_on(struct beanstalk_session *beanstalk)
{
    struct session *session = &beanstalk->session;
    if (beanstalk->unread && !beanstalk->in_input && may_take(beanstalk))
        session->server->net->verbs->resume(session->server->net, session->conn);
}

/* Something was written for the client. Is it the end, or is there room to read on? */
static void went_out(struct beanstalk_session *beanstalk)
{
    struct session *session = &beanstalk->session;
    if (beanstalk->last && list_empty(&beanstalk->owed))
        session->closing = true;
    read_on(beanstalk);
    session_touch(session);
}

/* The oldest one's text is in `out`: so may be now what waited behind it. */
static void oldest_done(struct beanstalk_session *beanstalk)
{
    struct buf *out = &beanstalk->session.out;
    note_end(oldest(beanstalk));
    owed_free(oldest(beanstalk));
    while (!list_empty(&beanstalk->owed) && oldest(beanstalk)->answered) {
        struct beanstalk_owed *owed = oldest(beanstalk);
        buf_add(out, beanstalk->early.at + owed->early_at, owed->early_len);
        budget_spend(&beanstalk->session.server->budget, (int64_t)owed->early_len / BYTES_PER_NS);
        note_end(owed);
        owed_free(owed);
    }
    went_out(beanstalk);
}

void beanstalk_answered(struct beanstalk_owed *owed, const struct reply *reply)
{
    struct beanstalk_session *beanstalk = owed->session;
    bool first = oldest(beanstalk) == owed;
    struct buf *out = out_of(beanstalk, first);
    size_t at = out->len;
    beanstalk_answer(owed, reply, out);
    budget_spend(&beanstalk->session.server->budget, (int64_t)(out->len - at) / BYTES_PER_NS);
    if (first)
        oldest_done(beanstalk);
    else
        keep_early(owed, at);
}

static void answered(struct ticket *ticket, const struct reply *reply)
{
    beanstalk_answered(LIST_ENTRY(ticket, struct beanstalk_owed, ticket), reply);
}

void beanstalk_ask(struct beanstalk_session *beanstalk, struct beanstalk_owed *owed,
                   const struct cmd *cmd)
{
    struct engine *engine = beanstalk->session.server->engine;
    owed->ticket.answered = answered;
    owed->ticket.brief = true;
    if (engine->verbs->submit(engine, cmd, &owed->ticket) == SUBMIT_PARKED)
        owed->parked = true;
}

struct beanstalk_text beanstalk_text_begin(struct beanstalk_session *beanstalk)
{
    struct buf *out = out_of(beanstalk, list_empty(&beanstalk->owed));
    return (struct beanstalk_text){.out = out, .at = out->len};
}

void beanstalk_text_end(struct beanstalk_session *beanstalk, struct beanstalk_text text)
{
    if (text.out == &beanstalk->session.out)
        went_out(beanstalk);
    else /* any command without a hold will do */
        keep_early(beanstalk_owed_new(beanstalk, BEANSTALK_STATS, 0), text.at);
}

void beanstalk_word(struct beanstalk_session *beanstalk, enum beanstalk_word word)
{
    struct beanstalk_text text = beanstalk_text_begin(beanstalk);
    beanstalk_encode(text.out, word);
    beanstalk_text_end(beanstalk, text);
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
    misdirected_note(beanstalk->session.server, MISDIRECTED_HTTP, bytes);
    beanstalk->last = true;
    struct beanstalk_text text = beanstalk_text_begin(beanstalk);
    beanstalk_encode_http(text.out);
    beanstalk_text_end(beanstalk, text);
}

/* Feeds the codec once; false: no more can be done with these bytes now. */
static bool feed(struct beanstalk_session *beanstalk, struct bytes bytes, size_t *used)
{
    struct beanstalk *codec = &beanstalk->codec;
    size_t step = 0;
    enum beanstalk_progress progress = beanstalk_feed(codec, bytes, &step);
    *used += step;
    budget_spend(&beanstalk->session.server->budget, COMMAND_NS + (int64_t)step / BYTES_PER_NS);
    switch (progress) {
    case BEANSTALK_MORE:
        session_fed(&beanstalk->session, step, beanstalk_midway(codec));
        return false;
    case BEANSTALK_READY: beanstalk_do(beanstalk, &codec->request); break;
    case BEANSTALK_BAD: refuse_command(beanstalk); break;
    case BEANSTALK_HTTP: refuse_http(beanstalk, bytes); break;
    }
    beanstalk_next(codec);
    session_fed(&beanstalk->session, 0, false);
    if (beanstalk->session.server->draining)
        beanstalk->last = true; /* one that had begun before the drain is done yet */
    return true;
}

/* No command is taken any more: the connection ends when all are answered. */
static void end_input(struct beanstalk_session *beanstalk)
{
    beanstalk->last = true;
    if (list_empty(&beanstalk->owed))
        beanstalk->session.closing = true;
    session_touch(&beanstalk->session);
}

/*
 * The client sends no more. As the protocol has it, a reserve that waits is answered TIMED_OUT:
 * whoever has ended its side may have gone, and must not be handed a job (P6). All else that it
 * sent is done and answered.
 */
static void see_end(struct beanstalk_session *beanstalk)
{
    struct beanstalk_owed *waits = beanstalk->leaving ? waiting(beanstalk) : NULL;
    if (waits && waits->parked && is_reserve(waits->cmd)) {
        struct engine *engine = beanstalk->session.server->engine;
        engine->verbs->cancel(engine, &waits->ticket);
        waits->deadline_soon = false; /* that is not why */
        beanstalk_answered(waits, &(struct reply){.err = ERR_EMPTY, .kind = CMD_RESERVE});
    }
    if (beanstalk->ended && !beanstalk->unread)
        end_input(beanstalk);
}

static size_t input(struct session *session, struct bytes bytes)
{
    struct beanstalk_session *beanstalk = of(session);
    size_t used = 0;
    bool takes = unsent(session) < UNSENT_MAX_BYTES;
    beanstalk->in_input = true;
    while (takes && used < bytes.len && may_take(beanstalk) && session_may_go_on(session)) {
        if (!feed(beanstalk, bytes_of(bytes.at + used, bytes.len - used), &used))
            break;
    }
    beanstalk->in_input = false;
    beanstalk->unread = used < bytes.len;
    see_end(beanstalk);
    if (beanstalk->last) {
        end_input(beanstalk);
        used = bytes.len; /* what a client sends after its last command is not looked at */
    }
    return used;
}

static void leaving(struct session *session)
{
    struct beanstalk_session *beanstalk = of(session);
    beanstalk->leaving = true;
    see_end(beanstalk);
}

static void ended(struct session *session)
{
    struct beanstalk_session *beanstalk = of(session);
    beanstalk->leaving = true;
    beanstalk->ended = true;
    see_end(beanstalk);
}

static void drained(struct session *session)
{
    struct beanstalk_session *beanstalk = of(session);
    read_on(beanstalk);
}

/* ---- the end, in its several forms ---- */

static void fini(struct session *session, enum session_end end)
{
    struct beanstalk_session *beanstalk = of(session);
    struct beanstalk_shared *shared = shared_of(beanstalk);
    struct engine *engine = session->server->engine;
    while (!list_empty(&beanstalk->owed)) {
        if (!oldest(beanstalk)->answered)
            engine->verbs->cancel(engine, &oldest(beanstalk)->ticket);
        owed_free(oldest(beanstalk));
    }
    requeue_reserved(session->server, beanstalk->held, session_sent(session), end);
    beanstalk_forget_tubes(beanstalk);
    shared->connections--;
    shared->producers -= beanstalk->producer;
    shared->workers -= beanstalk->worker;
    buf_fini(&beanstalk->early);
    beanstalk_fini(&beanstalk->codec);
}

/*
 * A client that is silent between commands may be so for ever, as with beanstalkd. One that stops
 * in the midst of a command, or does not read its answers, holds memory: it is given up in time.
 */
static int64_t deadline_us(const struct session *session)
{
    const struct beanstalk_session *beanstalk = of_const(session);
    int64_t answer_us = session_answer_deadline_us(session);
    int64_t request_us = session_request_deadline_us(session);
    if (beanstalk->unread) /* it is we who keep it waiting */
        return answer_us;
    return answer_us < request_us ? answer_us : request_us;
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
        end_input(beanstalk);
}

static void refuse(struct session *session)
{
    beanstalk_encode(&session->out, BEANSTALK_OUT_OF_MEMORY);
    end_input(of(session));
}

static size_t footprint(const struct session *session)
{
    const struct beanstalk_session *beanstalk = of_const(session);
    const struct beanstalk_owed *waits = waiting(beanstalk);
    size_t survey = waits && waits->survey ? waits->survey->names.cap : 0;
    size_t page = waits && waits->parked && waits->cmd == BEANSTALK_KICK ? PAGE_BYTES : 0;
    size_t tubes = beanstalk->watch_cap * (sizeof(struct beanstalk_tube *) + WAIT_BYTES);
    return beanstalk->codec.body.cap + beanstalk->early.cap + survey + page + tubes +
           beanstalk->owed_count * (size_t)OWED_BYTES;
}

static bool evict(struct session *session)
{
    struct beanstalk_session *beanstalk = of(session);
    struct beanstalk_owed *waits = waiting(beanstalk);
    bool parked = waits && waits->parked && is_reserve(waits->cmd);
    if (session->out.len || unsent(session) || beanstalk->owed_count > (parked ? 1 : 0))
        return false; /* what was asked may have been done */
    if (parked) {
        session->server->engine->verbs->cancel(session->server->engine, &waits->ticket);
        owed_free(waits);
    }
    beanstalk_fini(&beanstalk->codec);
    session->begun_us = 0;
    refuse(session);
    return true;
}

static void init(struct session *session)
{
    struct beanstalk_session *beanstalk = of(session);
    struct beanstalk_shared *shared = shared_of(beanstalk);
    struct beanstalk_tube *tube = shared->tubes.standard;
    list_init(&beanstalk->owed);
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

const struct session_kind beanstalk_session_kind = {
    .init = init,
    .refuse = refuse,
    .input = input,
    .leaving = leaving,
    .ended = ended,
    .drained = drained,
    .fini = fini,
    .deadline_us = deadline_us,
    .expired = expired,
    .drain = drain,
    .footprint = footprint,
    .evict = evict,
};
