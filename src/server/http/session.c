/*
 * Owns the parser and the reservations whose answers may not have arrived; pipeline.c keeps the
 * order of answers.
 */
#include "server/http/session.h"

#include <stdio.h>

#include "base/check.h"
#include "base/rfc3339.h"
#include "server/admin/pages.h"
#include "server/http/batch.h"
#include "server/http/clear_all.h"
#include "server/http/clearing.h"
#include "server/http/decode.h"
#include "server/http/listing.h"
#include "server/http/replay.h"
#include "server/http/restore.h"
#include "server/http/scrape.h"
#include "server/http/target_trial.h"
#include "server/requeue.h"

enum {
    DETAIL_BYTES = 200,     /* of a refusal, as struct problem has */
    REQUEST_NS = 1500,      /* work for a request, without the engine's */
    READ_BYTES_PER_NS = 1,  /* framed, checked, and read as JSON */
    REQUEST_BYTES = 1024,   /* memory of a request, with a reply that the engine holds */
    SCAN_BYTES = 24 * 1024, /* memory of a page that the engine gathers */
    WAIT_BYTES = 32,        /* memory of a topic that a reserve waits for */
};

static struct http_session *of(struct session *session)
{
    return (struct http_session *)session; /* the first member of its first member */
}

static const struct http_session *of_const(const struct session *session)
{
    return (const struct http_session *)session;
}

static struct http_session *of_pipeline(struct pipeline *pipeline)
{
    return (struct http_session *)pipeline; /* its first member */
}

/* ---- requests in ---- */

static void answer_page(struct request *request, enum call_kind page)
{
    struct pipeline_text text = request_begin(request);
    page_write(http_server(request->http), page, &request->format, NULL, text.out);
    request_done_uncounted(request, text);
}

/* Submits a command; a push of the sdmq dialect without an id gets one, which the server makes. */
static void submit_cmd(struct request *request, struct call *call)
{
    struct server *server = http_server(request->http);
    struct buf id = {0};
    if (call->id_begin.len) {
        sdmq_id_write(&id, call->id_begin, bytes_str(server_host(server)),
                      snowflake_next(&server->snowflake, server->loop->now_us));
        call->cmd.push.id = buf_bytes(&id);
    }
    request->topics = call->cmd.kind == CMD_RESERVE ? call->cmd.reserve.topic_count : 0;
    pipeline_submit(&request->pending, &call->cmd);
    buf_fini(&id);
}

static void clear_all(struct request *request)
{
    struct problem problem = {.status = 200, .err = ERR_INVALID, .code = "not_allowed"};
    if (http_server(request->http)->options.config->sdmq_clear_all) {
        clear_all_begin(request);
        return;
    }
    (void)snprintf(problem.detail, sizeof(problem.detail),
                   "this would delete all jobs: it needs clear_all = 1 under [sdmq] in laterd's "
                   "configuration");
    request_refuse(request, &problem);
}

static void metrics(struct request *request)
{
    if (http_server(request->http)->options.config->metrics_topics)
        scrape_begin(request);
    else
        request_page(request, CALL_METRICS);
}

struct waiting_reason {
    struct metric_sink sink;
    char text[320];
};

static void keep_reason(struct metric_sink *sink, const char *text)
{
    struct waiting_reason *waiting = (struct waiting_reason *)sink; /* its first member */
    (void)snprintf(waiting->text, sizeof(waiting->text), "%s", text);
}

static bool is_unknown_host(const struct call *call)
{
    return call->kind == CALL_PROBLEM && strcmp(call->problem.code, "unknown_host") == 0;
}

/*
 * A laterd that waits to lead, or reads its store, answers a few pages and refuses everything else,
 * in all dialects. Connections cannot be kept when it begins to serve, so each is closed.
 */
static void refuse_as_waiting(struct server *server, struct call *call)
{
    bool page = call->kind == CALL_HEALTHZ || call->kind == CALL_READYZ ||
                call->kind == CALL_METRICS || call->kind == CALL_CLUSTER;
    struct waiting_reason waiting = {.sink.reason = keep_reason};
    enum err err = server->engine->verbs->health(server->engine);
    call->format.close |= err == ERR_RECOVERING;
    if (page || is_unknown_host(call)) /* which is not told who leads either */
        return;
    server->engine->verbs->describe(server->engine, &waiting.sink);
    call->kind = CALL_PROBLEM;
    call->problem = (struct problem){.status = 503, .err = err, .code = err_name(err)};
    (void)snprintf(call->problem.detail, sizeof(call->problem.detail), "%s: %.140s", err_text(err),
                   waiting.text);
}

/* Executes the request. It may be answered and freed when this returns. */
static void submit(struct request *request, struct call *call, struct bytes host)
{
    struct http_session *http = request->http;
    struct server *server = http_server(http);
    if (server->options.waits)
        refuse_as_waiting(server, call);
    call->format.close |= request->format.close || server->draining;
    request->format = call->format;
    request->format.limits = &server->options.api; /* those of a decoding end with it */
    if (call->format.close)
        pipeline_stop(&http->pipeline);
    switch (call->kind) {
    case CALL_CMD: submit_cmd(request, call); break;
    case CALL_LIST: listing_begin(request, &call->cmd); break;
    case CALL_DELETE: restore_delete(request, &call->cmd); break;
    case CALL_RESYNC: resync_begin(request); break;
    case CALL_RESTORE: restore_begin(request, &call->restore); break;
    case CALL_CLEAR_ALL: clear_all(request); break;
    case CALL_CLEAR: clearing_begin(request, &call->cmd); break;
    case CALL_REPLAY: replay_begin(request, &call->replay); break;
    case CALL_TEST: target_trial_begin(request, &call->cmd.push); break;
    case CALL_BATCH: batch_begin(request, &call->batch); break;
    case CALL_METRICS: metrics(request); break;
    case CALL_STATS: request_page(request, call->kind); break;
    case CALL_HEALTHZ:
    case CALL_READYZ:
    case CALL_OPENAPI:
    case CALL_LIMITS:
    case CALL_CLUSTER:
    case CALL_JOURNAL:
    case CALL_ROOT: answer_page(request, call->kind); break;
    case CALL_PROBLEM:
        if (is_unknown_host(call))
            misdirected_note(&request->http->pipeline.session, MISDIRECTED_HOST, host);
        request_refuse(request, &call->problem);
        break;
    }
}

static void take_request(struct http_session *http)
{
    struct server *server = http_server(http);
    const struct server_listener *listener = http->pipeline.session.principal.listener;
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
    api_decode(&site, &server->options.api, &http->http.request, server->loop->now_us,
               &server->scratch, &call);
    submit(request, &call, http->http.request.host);
}

void http_session_decoded(struct request *request, struct call *call, struct bytes host)
{
    struct http_session *http = request->http;
    struct server *server = http_server(http);
    arena_reset(&server->scratch);
    server_begin_visit(server);
    request->pending.state = PENDING_OPEN;
    submit(request, call, host);
    /* The client may have left meanwhile: then it must not wait for a job (P6). */
    pipeline_check_client_end(&http->pipeline);
    pipeline_read_on(&http->pipeline);
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

/* Answers with a problem, and closes. */
static void refuse_with(struct http_session *http, enum err err, int status, const char *detail)
{
    struct response_format format = {.dialect = DIALECT_COUNT, .close = true};
    struct problem problem = {.status = status,
                              .err = err,
                              .code = refusal_code(err, status),
                              .config_key = status == 413 ? "limits.request_bytes" : NULL};
    size_t len = strnlen(detail, sizeof(problem.detail) - 1);
    memcpy(problem.detail, detail, len);
    struct request *request = request_new(http, &format);
    pipeline_stop(&http->pipeline);
    request_refuse(request, &problem);
}

static void send_continue(struct http_session *http)
{
    struct pipeline *pipeline = &http->pipeline;
    if (!http->continue_pending || pipeline->count > 0)
        return;
    http->continue_pending = false;
    buf_add_str(&pipeline->session.out, "HTTP/1.1 100 Continue\r\n\r\n");
    session_mark_dirty(&pipeline->session);
}

/* Refuses bytes that are no valid request, or over a limit, which the answer names. */
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
    refuse_with(http, ERR_INVALID, codec->status, detail);
}

/* The next request, of which these bytes have come: what it needs comes from memory while the one
   before it is executed. */
static void announce_next(const struct server *server, struct bytes bytes)
{
    struct engine *engine = server->engine;
    struct bytes id = engine->verbs->soon ? api_guess_id(bytes) : (struct bytes){0};
    if (id.len)
        engine->verbs->soon(engine, id);
}

/* Bytes with several requests, or with many jobs: what their ids need comes from memory together.
 */
static void announce_new(const struct server *server, struct bytes bytes)
{
    enum { IDS_MAX = 16, LOOKED_THROUGH = 16 * 1024 };
    struct engine *engine = server->engine;
    struct bytes ids[IDS_MAX];
    if (!engine->verbs->soon_new || !engine->verbs->wants_new(engine))
        return;
    size_t len = bytes.len < LOOKED_THROUGH ? bytes.len : LOOKED_THROUGH;
    uint32_t count = api_guess_ids(bytes_of(bytes.at, len), ids, IDS_MAX);
    if (count > 0)
        engine->verbs->soon_new(engine, ids, count);
}

/* Feeds the parser once; false: no more can be done with these bytes now. */
static bool feed(struct pipeline *pipeline, struct bytes bytes, size_t *used)
{
    struct http_session *http = of_pipeline(pipeline);
    struct session *session = &pipeline->session;
    size_t step = 0;
    enum http_progress progress = http1_feed(&http->http, bytes, &step);
    *used += step;
    budget_spend(&session->server->budget, (int64_t)step / READ_BYTES_PER_NS);
    switch (progress) {
    case HTTP_MORE:
        if (http1_midway(&http->http))
            session_request_grew(session, step);
        else
            session_request_over(session);
        return false;
    case HTTP_CONTINUE:
        session_request_grew(session, step);
        http->continue_pending = true;
        send_continue(http);
        return true;
    case HTTP_READY:
        http->continue_pending = false; /* its body has come without 100 Continue */
        if (step < bytes.len)
            announce_next(session->server, bytes_of(bytes.at + step, bytes.len - step));
        take_request(http);
        http1_next(&http->http);
        session_request_over(session);
        return true;
    case HTTP_BAD: break;
    }
    http->continue_pending = false;
    session_request_over(session);
    if (http->http.beanstalk)
        misdirected_note(session, MISDIRECTED_BEANSTALK, bytes);
    if (http->http.tls)
        misdirected_note(session, MISDIRECTED_TLS, (struct bytes){0});
    refuse_bytes(http);
    return false;
}

/* A client that sends another request has very likely read the answers that were sent before. */
static void forget_deliveries(struct http_session *http)
{
    uint64_t sent = http->deliveries.len ? session_sent(&http->pipeline.session) : 0;
    size_t count = 0;
    for (; count < http->deliveries.len; count += sizeof(struct unsent_job)) {
        struct unsent_job delivery;
        memcpy(&delivery, http->deliveries.at + count, sizeof(delivery));
        if (delivery.end > sent)
            break;
    }
    buf_drop(&http->deliveries, count);
}

static size_t input(struct session *session, struct bytes bytes)
{
    struct http_session *http = of(session);
    forget_deliveries(http);
    announce_new(session->server, bytes);
    size_t used = pipeline_input(session, bytes);
    http->active_us = session->server->loop->now_us;
    return used;
}

/* ---- the end of a connection ---- */

static void drained(struct session *session)
{
    of(session)->active_us = session->server->loop->now_us;
    pipeline_drained(session);
}

/* Ends a parked request; requests behind it are not executed. */
static void end_wait(struct pending *parked)
{
    struct pipeline *pipeline = parked->pipeline;
    if (request_of(parked)->format.cmd != CMD_RESERVE)
        return;
    pipeline_abandon(parked);
    pipeline_stop(pipeline);
}

static void progressed(struct pipeline *pipeline)
{
    struct http_session *http = of_pipeline(pipeline);
    http->active_us = pipeline->session.server->loop->now_us;
    send_continue(http);
}

/*
 * The position up to which the client is assumed to have its bytes: all that the system has
 * accepted, even if a reset comes right afterwards. A client that closes without reading sends a
 * reset, but so does a proxy that has passed the answer on. If a job were given to another client
 * each time while the proxy's client works on it, it could never be finished; so its ttr decides.
 */
static uint64_t arrived(const struct session *session, enum session_end end)
{
    return end == SESSION_ORDERLY ? session_end(session) : session_sent(session);
}

/* Frees the bytes of an incomplete request, which may be many MiB. */
static void forget_request(struct http_session *http)
{
    discard_buf(&http_server(http)->discard, &http->http.body);
    http1_fini(&http->http);
}

static void fini(struct session *session, enum session_end end)
{
    struct http_session *http = of(session);
    requeue_deliveries(session->server, &http->deliveries, arrived(session, end));
    pipeline_fini(&http->pipeline);
    forget_request(http);
}

static int64_t deadline_us(const struct session *session)
{
    const struct http_session *http = of_const(session);
    int64_t answer_us = session_answer_deadline_us(session);
    int64_t request_us = session_request_deadline_us(session);
    if (request_us != INT64_MAX && !http->pipeline.unread) /* unread: it waits for us, not we */
        return time_earlier(answer_us, request_us);
    if (answer_us != INT64_MAX)
        return answer_us;
    if (http->pipeline.count > 0)
        return INT64_MAX; /* it waits for us */
    return http->active_us + session->server->options.config->idle_us;
}

static void expired(struct session *session)
{
    struct http_session *http = of(session);
    session->server->counts.timed_out++;
    bool answers_wait =
        session->window_us || http->pipeline.count > 0 || session->state == SESSION_CLOSING;
    if (session->request_begun_us && !answers_wait) {
        char detail[DETAIL_BYTES], room[DURATION_ROOM];
        (void)snprintf(
            detail, sizeof(detail),
            "the request was not whole within limits.request_seconds, which is %s",
            duration_print(session->server->options.config->request_us, room)); /* it fits */
        refuse_with(http, ERR_INVALID, 408, detail);
        return;
    }
    session_free(session, SESSION_DROPPED);
}

static void drain(struct session *session)
{
    struct pipeline *pipeline = &of(session)->pipeline;
    if (session->request_begun_us)
        return; /* submit() makes it the last one */
    if (pipeline->count > 0)
        request_of(pipeline_newest(pipeline))->format.close = true;
    pipeline_stop(pipeline);
}

static void refuse(struct session *session)
{
    char detail[DETAIL_BYTES];
    (void)snprintf(detail, sizeof(detail),
                   "limits.connections is reached, which is %u; try again later",
                   (unsigned)session->server->options.config->connections);
    refuse_with(of(session), ERR_INVALID, 503, detail);
}

static size_t footprint(const struct session *session)
{
    const struct http_session *http = of_const(session);
    const struct pipeline *pipeline = &http->pipeline;
    struct pending *parked = pipeline_parked(pipeline);
    bool scans = parked && request_of(parked)->format.cmd != CMD_RESERVE;
    size_t waits = parked ? request_of(parked)->topics * (size_t)WAIT_BYTES : 0;
    return http->http.head.cap + http->http.body.cap + http->deliveries.cap +
           pipeline_footprint(pipeline) + pipeline->count * (size_t)REQUEST_BYTES +
           scans * SCAN_BYTES + waits;
}

static bool evict(struct session *session)
{
    struct http_session *http = of(session);
    struct pending *parked = pipeline_parked(&http->pipeline);
    if (parked && cmd_traits(request_of(parked)->format.cmd)->changes)
        return false; /* a part of it was executed */
    if (pipeline_unsent(&http->pipeline) || http->pipeline.count > (parked ? 1 : 0))
        return false; /* the command may have been executed */
    if (parked)
        pipeline_abandon(parked);
    forget_request(http);
    session_request_over(session);
    refuse_with(http, ERR_MEMORY_LIMIT, 503,
                "limits.buffer_bytes is reached: too many requests are not whole, or too "
                "many answers not taken; try again later");
    return true;
}

static void init(struct session *session)
{
    struct http_session *http = of(session);
    http->active_us = session->server->loop->now_us;
    pipeline_init(&http->pipeline);
    http1_init(&http->http, &session->server->options.http);
}

const struct pipeline_kind http_session_kind = {
    .session =
        {
            .init = init,
            .refuse = refuse,
            .input = input,
            .leaving = pipeline_leaving,
            .ended = pipeline_ended,
            .drained = drained,
            .fini = fini,
            .deadline_us = deadline_us,
            .expired = expired,
            .drain = drain,
            .footprint = footprint,
            .evict = evict,
        },
    .feed = feed,
    .delivered = request_delivered,
    .progressed = progressed,
    .end_wait = end_wait,
    .abandon = request_abandon,
    .free = request_free,
};
