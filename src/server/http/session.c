/*
 * Owns the parser, the requests that are owed answers and the reservations that are on their way.
 */
#include "server/http/session.h"

#include <stdio.h>

#include "base/check.h"
#include "base/rfc3339.h"
#include "server/admin/pages.h"
#include "server/batch.h"
#include "server/clearing.h"
#include "server/decode.h"
#include "server/requeue.h"

enum {
    DETAIL_BYTES = 200,            /* of a refusal, as struct problem has */
    OWED_MAX = 1024,               /* pipelined requests that may wait for their answers */
    UNSENT_MAX_BYTES = 256 * 1024, /* more than this not taken by the client: read no further */
    REQUEST_NS = 1500,             /* work for a request, besides what the engine does */
    READ_BYTES_PER_NS = 1,         /* framed, checked, and read as JSON */
    REQUEST_BYTES = 1024,          /* memory of a request, with a reply that the engine holds */
    SCAN_BYTES = 24 * 1024,        /* memory of a page that the engine gathers */
};

static struct http_session *of(struct session *session)
{
    return (struct http_session *)session; /* its first member */
}

static const struct http_session *of_const(const struct session *session)
{
    return (const struct http_session *)session;
}

/* ---- requests in ---- */

/* There must be one. */
static struct request *newest(const struct http_session *http)
{
    return LIST_ENTRY(http->requests.prev, struct request, place);
}

/* The newest request, if it is one that waits (a long poll, listing or clearing); else NULL. */
static struct request *parked(const struct http_session *http)
{
    struct request *request = list_empty(&http->requests) ? NULL : newest(http);
    bool waits = request && !request->answered && (request->parked || request->clearing);
    return waits ? request : NULL;
}

/* Is the newest request still being decoded, or submitted? Nothing behind it may be done first. */
static bool unfinished(const struct http_session *http)
{
    if (list_empty(&http->requests))
        return false;
    return newest(http)->undecoded || batch_is_unfinished(newest(http)->batch);
}

static size_t unsent(const struct session *session)
{
    const struct net *net = session->server->net;
    return net->verbs->unsent(net, session->conn);
}

static bool may_take(const struct http_session *http)
{
    const struct session *session = &http->session;
    size_t waiting = http->early_bytes + http->batch_bytes + session->out.len + unsent(session);
    if (http->request_count && buffers_tight(&session->server->buffers))
        return false; /* it will be read on when it is answered */
    return !session->closing && !http->last && http->request_count < OWED_MAX &&
           waiting < UNSENT_MAX_BYTES && !parked(http) && !unfinished(http);
}

static void answer_problem(struct request *request, const struct problem *problem)
{
    struct server *server = request->http->session.server;
    api_problem(&request->format, problem, server_date(server), request_out(request));
    if ((unsigned)problem->status < SERVER_STATUS_MAX)
        server->counts.requests[problem->status]++;
    request_done(request);
}

/* Does what the request asks for. It may be answered and freed when this returns. */
static void submit(struct request *request, struct call *call, struct bytes host)
{
    struct http_session *http = request->http;
    struct server *server = http->session.server;
    call->format.close |= request->format.close || server->draining;
    request->format = call->format;
    request->format.limits = &server->options.api; /* those of a decoding end with it */
    if (call->format.close)
        http->last = true;
    switch (call->kind) {
    case CALL_CMD: request_ask(request, &call->cmd); break;
    case CALL_CLEAR: clearing_begin(request, &call->cmd); break;
    case CALL_BATCH: batch_begin(request, &call->batch); break;
    case CALL_METRICS:
    case CALL_STATS: request_page(request, call->kind); break;
    case CALL_HEALTHZ:
    case CALL_READYZ:
    case CALL_OPENAPI:
    case CALL_LIMITS:
    case CALL_ROOT:
        page_write(server, call->kind, &request->format, NULL, request_out(request));
        request_done(request);
        break;
    case CALL_PROBLEM:
        if (strcmp(call->problem.code, "unknown_host") == 0)
            misdirected_note(server, MISDIRECTED_HOST, host);
        answer_problem(request, &call->problem);
        break;
    }
}

static void take_request(struct http_session *http)
{
    struct server *server = http->session.server;
    const struct server_listener *listener = http->session.listener;
    struct api_site site = {.root = listener->dialect,
                            .any_host = listener->any_host,
                            .hosts = buf_bytes(&server->hosts)};
    struct call call;
    struct request *request =
        request_new(http, &(struct response_format){.dialect = DIALECT_COUNT});
    budget_spend(&server->budget, REQUEST_NS);
    if (decode_is_long(http)) {
        decode_begin(request, &site);
        return;
    }
    arena_reset(&server->scratch);
    api_decode(&site, &server->options.api, &http->http.request, server->now_us, &server->scratch,
               &call);
    submit(request, &call, http->http.request.host);
}

static void see_end(struct http_session *http);

void http_session_decoded(struct request *request, struct call *call, struct bytes host)
{
    struct http_session *http = request->http;
    struct server *server = http->session.server;
    arena_reset(&server->scratch);
    server_begin_visit(server);
    request->undecoded = false;
    submit(request, call, host);
    see_end(http); /* it may have ended while this was decoded: then it waits for no job (P6) */
    http_session_read_on(http);
}

/* A stable word for programs; in docs/http-api.md. */
static const char *refusal_code(enum err err, int status)
{
    switch (status) {
    case 408: return "request_timeout";
    case 413: return "body_too_large";
    case 414: return "line_too_long";
    case 417: return "expectation_failed";
    case 431: return "headers_too_large";
    case 501: return "not_implemented";
    case 503: return err == ERR_MEMORY_LIMIT ? "memory_limit" : "connections_limit";
    case 505: return "http_version";
    default: return "bad_request";
    }
}

void http_session_refuse(struct session *session, enum err err, int status, const char *detail)
{
    struct http_session *http = of(session);
    struct response_format format = {.dialect = DIALECT_COUNT, .close = true};
    struct problem problem = {.status = status, .err = err, .code = refusal_code(err, status)};
    size_t len = strnlen(detail, sizeof(problem.detail) - 1);
    memcpy(problem.detail, detail, len);
    http->last = true;
    answer_problem(request_new(http, &format), &problem);
}

static void say_continue(struct http_session *http)
{
    if (!http->owes_continue || !list_empty(&http->requests))
        return;
    http->owes_continue = false;
    buf_add_str(&http->session.out, "HTTP/1.1 100 Continue\r\n\r\n");
    session_touch(&http->session);
}

/* What came is no request, or over a limit, whose value is named. */
static void refuse_bytes(struct http_session *http)
{
    const struct http1 *codec = &http->http;
    unsigned long long asked = codec->asked, limit = codec->limit;
    char detail[DETAIL_BYTES], value[DETAIL_BYTES] = "";
    if (asked)
        (void)snprintf(value, sizeof(value), ": it has %llu bytes, the limit is %llu", asked,
                       limit);
    else if (limit)
        (void)snprintf(value, sizeof(value), ", which is %llu", limit);
    (void)snprintf(detail, sizeof(detail), "%s%s", codec->reason, value); /* cut to fit */
    http_session_refuse(&http->session, ERR_INVALID, codec->status, detail);
}

/* Feeds the parser once; false: no more can be done with these bytes now. */
static bool feed(struct http_session *http, struct bytes bytes, size_t *used)
{
    size_t step = 0;
    enum http_progress progress = http1_feed(&http->http, bytes, &step);
    *used += step;
    budget_spend(&http->session.server->budget, (int64_t)step / READ_BYTES_PER_NS);
    switch (progress) {
    case HTTP_MORE: session_fed(&http->session, step, http1_midway(&http->http)); return false;
    case HTTP_CONTINUE:
        session_fed(&http->session, step, true);
        http->owes_continue = true;
        say_continue(http);
        return true;
    case HTTP_READY:
        take_request(http);
        http1_next(&http->http);
        session_fed(&http->session, 0, false);
        return true;
    case HTTP_BAD: break;
    }
    session_fed(&http->session, 0, false);
    if (http->http.beanstalk)
        misdirected_note(http->session.server, MISDIRECTED_BEANSTALK, bytes);
    refuse_bytes(http);
    return false;
}

/*
 * The client sends no more. What it sent before is still answered, with one exception: a client
 * that waits for a job and has ended its side has gone, as far as anybody can tell; if it were
 * handed a job, nobody would work on it (P6). So the wait ends at once, before jobs are matched,
 * and what was asked behind it with it.
 */
static void see_end(struct http_session *http)
{
    if (!http->leaving)
        return;
    struct request *waits = parked(http);
    bool waits_for_job = waits && waits->format.cmd == CMD_RESERVE;
    if ((http->unread || !http->ended) && !waits_for_job)
        return;
    if (waits_for_job)
        request_abandon(waits);
    http->last = true;
    if (list_empty(&http->requests))
        http->session.closing = true;
    session_touch(&http->session);
}

/* A client that asks on has, in all likelihood, read what the system had taken for it. */
static void forget_handed(struct http_session *http)
{
    uint64_t sent = http->handed.len ? session_sent(&http->session) : 0;
    size_t count = 0;
    for (; count < http->handed.len; count += sizeof(struct delivery)) {
        struct delivery handed;
        memcpy(&handed, http->handed.at + count, sizeof(handed));
        if (handed.end > sent)
            break;
    }
    buf_drop(&http->handed, count);
}

static size_t input(struct session *session, struct bytes bytes)
{
    struct http_session *http = of(session);
    size_t used = 0;
    forget_handed(http);
    http->in_input = true;
    while (used < bytes.len && may_take(http) && session_may_go_on(session)) {
        if (!feed(http, bytes_of(bytes.at + used, bytes.len - used), &used))
            break;
    }
    http->in_input = false;
    http->unread = used < bytes.len;
    see_end(http);
    if (session->closing || http->last)
        used = bytes.len; /* what a client sends after its last request is not looked at */
    http->active_us = session->server->now_us;
    return used;
}

/* ---- the end, in its several forms ---- */

void http_session_read_on(struct http_session *http)
{
    struct session *session = &http->session;
    if (!http->in_input && may_take(http))
        session->server->net->verbs->resume(session->server->net, session->conn);
}

static void drained(struct session *session)
{
    struct http_session *http = of(session);
    http->active_us = session->server->now_us;
    http_session_read_on(http);
}

static void abandon_all(struct http_session *http)
{
    while (!list_empty(&http->requests))
        request_abandon(LIST_ENTRY(http->requests.next, struct request, place));
}

static void leaving(struct session *session)
{
    struct http_session *http = of(session);
    http->leaving = true;
    see_end(http);
}

static void ended(struct session *session)
{
    struct http_session *http = of(session);
    http->leaving = true;
    http->ended = true;
    see_end(http);
}

/*
 * Up to where the client has its bytes, as far as anybody can tell: what the system has taken, even
 * if a reset comes right behind it. That is what a client does that closes without reading, but
 * also a proxy that has passed the answer on. Were a job given to another while the proxy's client
 * is at work on it, each time, it could never be finished; so its ttr decides.
 */
static uint64_t arrived(const struct session *session, enum session_end end)
{
    return end == SESSION_POLITE ? session_end(session) : session_sent(session);
}

static void fini(struct session *session, enum session_end end)
{
    struct http_session *http = of(session);
    requeue_deliveries(session->server, &http->handed, arrived(session, end));
    abandon_all(http);
    http1_fini(&http->http);
}

static int64_t deadline_us(const struct session *session)
{
    const struct http_session *http = of_const(session);
    int64_t answer_us = session_answer_deadline_us(session);
    int64_t request_us = session_request_deadline_us(session);
    if (request_us != INT64_MAX && !http->unread) /* else it is we who keep it waiting */
        return answer_us < request_us ? answer_us : request_us;
    if (answer_us != INT64_MAX)
        return answer_us;
    if (!list_empty(&http->requests))
        return INT64_MAX; /* it waits for us */
    return http->active_us + session->server->options.config->idle_us;
}

static void expired(struct session *session)
{
    struct http_session *http = of(session);
    session->server->counts.timed_out++;
    bool answers_wait = session->window_us || !list_empty(&http->requests) || session->closing;
    if (session->begun_us && !answers_wait) {
        char detail[DETAIL_BYTES], room[DURATION_ROOM];
        (void)snprintf(
            detail, sizeof(detail),
            "the request was not whole within limits.request_seconds, which is %s",
            duration_print(session->server->options.config->request_us, room)); /* it fits */
        http_session_refuse(session, ERR_INVALID, 408, detail);
        return;
    }
    session_free(session, SESSION_DROPPED);
}

static void drain(struct session *session)
{
    struct http_session *http = of(session);
    if (session->begun_us)
        return; /* take_request() makes it the last one */
    if (list_empty(&http->requests)) {
        session->closing = true;
        session_touch(session);
        return;
    }
    newest(http)->format.close = true;
    http->last = true;
}

/* An answer has gone out: is there room to go on? Called by request.c. */
void http_session_answered(struct http_session *http)
{
    struct session *session = &http->session;
    http->active_us = session->server->now_us;
    if (http->last && list_empty(&http->requests))
        session->closing = true;
    say_continue(http);
    http_session_read_on(http);
    session_touch(session);
}

static void refuse(struct session *session)
{
    char detail[DETAIL_BYTES];
    (void)snprintf(detail, sizeof(detail),
                   "limits.connections is reached, which is %u; try again later",
                   (unsigned)session->server->options.config->connections);
    http_session_refuse(session, ERR_INVALID, 503, detail);
}

static size_t footprint(const struct session *session)
{
    const struct http_session *http = of_const(session);
    const struct request *waits = parked(http);
    bool scans = waits && waits->format.cmd != CMD_RESERVE;
    return http->http.head.cap + http->http.body.cap + http->early_bytes + http->handed.cap +
           http->batch_bytes + http->request_count * (size_t)REQUEST_BYTES + scans * SCAN_BYTES;
}

static bool evict(struct session *session)
{
    struct http_session *http = of(session);
    struct request *waits = parked(http);
    if (waits && cmd_traits(waits->format.cmd)->changes)
        return false; /* some of it has been done */
    if (session->out.len || unsent(session) || http->request_count > (waits ? 1 : 0))
        return false; /* what was asked may have been done */
    if (waits)
        request_abandon(waits);
    http1_fini(&http->http);
    session->begun_us = 0;
    http_session_refuse(session, ERR_MEMORY_LIMIT, 503,
                        "limits.buffer_bytes is reached: too many requests are not whole, or too "
                        "many answers not taken; try again later");
    return true;
}

static void init(struct session *session)
{
    struct http_session *http = of(session);
    http->active_us = session->server->now_us;
    list_init(&http->requests);
    http1_init(&http->http, &session->server->options.http);
}

const struct session_kind http_session_kind = {
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
