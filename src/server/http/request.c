#include "server/http/request.h"

#include "base/check.h"
#include "server/admin/pages.h"
#include "server/batch.h"
#include "server/clearing.h"
#include "server/decode.h"
#include "server/encode.h"
#include "server/requeue.h"

enum {
    WRITTEN_BYTES_PER_NS = 1, /* numbers, escapes, copies */
    COPIED_BYTES_PER_NS = 3,
    SWAP_BYTES = 4096,
};

static void answered_single(struct ticket *ticket, const struct reply *reply);

struct request *request_new(struct http_session *http, const struct response_format *format)
{
    struct server *server = http->session.server;
    uint32_t number = pool_take(&server->requests);
    struct request *request = pool_at(&server->requests, number);
    request->number = number;
    request->http = http;
    request->format = *format;
    request->ticket.answered = answered_single;
    list_add_tail(&http->requests, &request->place);
    http->request_count++;
    return request;
}

static void drop_encoding(struct request *request)
{
    if (!request->encoding)
        return;
    request->http->early_bytes -= encode_bytes(request->encoding);
    encode_free(request->encoding);
    request->encoding = NULL;
}

void request_free(struct request *request)
{
    struct server *server = request->http->session.server;
    list_remove(&request->place);
    request->http->request_count--;
    if (request->answered)
        request->http->early_bytes -= request->early.len;
    buf_fini(&request->early);
    buf_fini(&request->handed);
    batch_free(request->batch);
    decode_free(request->decoding);
    drop_encoding(request);
    clearing_free(request->clearing);
    pool_give(&server->requests, request->number);
}

/* ---- reservations that may not arrive ---- */

static void note_handed(struct request *request, const struct reply *reply)
{
    for (uint32_t i = 0; i < reply->count; i++) {
        struct delivery handed = {
            .seq = reply->jobs[i].ref.seq, .lease = reply->jobs[i].lease, .end = UINT64_MAX};
        buf_add(&request->handed, &handed, sizeof(handed));
    }
}

/* The answer is in the session's bytes now: the session watches over its reservations. */
static void pass_handed(struct request *request)
{
    struct http_session *http = request->http;
    for (size_t i = 0; i < request->handed.len; i += sizeof(struct delivery)) {
        struct delivery handed;
        memcpy(&handed, request->handed.at + i, sizeof(handed));
        handed.end = session_end(&http->session);
        buf_add(&http->handed, &handed, sizeof(handed));
    }
}

void request_abandon(struct request *request)
{
    struct server *server = request->http->session.server;
    struct engine *engine = server->engine;
    if (request->batch)
        batch_cancel(request->batch, engine);
    else if (!request->answered && !request->undecoded && !request->encoding)
        engine->verbs->cancel(engine, &request->ticket);
    requeue_deliveries(server, &request->handed, 0);
    request_free(request);
}

/* ---- answers ---- */

static bool is_first(const struct request *request)
{
    return request->http->requests.next == &request->place;
}

struct buf *request_out(struct request *request)
{
    return is_first(request) ? &request->http->session.out : &request->early;
}

/* To the end of `out`; an empty one takes the memory over. */
static void move_answer(struct session *session, struct buf *answer)
{
    if (session->out.len == 0 && answer->len > SWAP_BYTES) {
        struct buf spare = session->out;
        session->out = *answer;
        *answer = spare;
        return;
    }
    buf_add_bytes(&session->out, buf_bytes(answer));
    budget_spend(&session->server->budget, (int64_t)answer->len / COPIED_BYTES_PER_NS);
}

void request_done(struct request *request)
{
    struct http_session *http = request->http;
    struct session *session = &http->session;
    request->answered = true;
    http->early_bytes += request->early.len;
    if (!is_first(request)) {
        buffers_changed(session);
        return;
    }
    while (!list_empty(&http->requests)) {
        struct request *first = LIST_ENTRY(http->requests.next, struct request, place);
        if (!first->answered)
            break;
        move_answer(session, &first->early);
        pass_handed(first);
        if (first->format.close)
            session->closing = true;
        request_free(first);
        if (session->closing)
            break;
    }
    http_session_answered(http);
}

static void count_status(struct server *server, struct bytes answer)
{
    /* "HTTP/1.1 200 …" */
    uint64_t status;
    if (answer.len >= 12 && bytes_to_u64(bytes_of(answer.at + 9, 3), &status) &&
        status < SERVER_STATUS_MAX)
        server->counts.requests[status]++;
}

void request_answer(struct request *request, const struct reply *reply)
{
    struct server *server = request->http->session.server;
    request->parked = false;
    if (reply->kind == CMD_RESERVE && reply->err == OK)
        note_handed(request, reply);
    if (encode_is_long(server, reply)) {
        encode_begin(request, reply);
        request->http->early_bytes += encode_bytes(request->encoding);
        return;
    }
    struct buf *out = request_out(request);
    size_t before = out->len;
    api_reply(&request->format, reply, server->now_us, server_date(server), out);
    budget_spend(&server->budget, (int64_t)(out->len - before) / WRITTEN_BYTES_PER_NS);
    count_status(server, bytes_of(out->at + before, out->len - before));
    request_done(request);
}

void request_encoded(struct request *request, struct buf *answer)
{
    struct buf *out = request_out(request);
    count_status(request->http->session.server, buf_bytes(answer));
    if (out->len == 0) {
        struct buf spare = *out;
        *out = *answer;
        *answer = spare;
    } else {
        buf_add_bytes(out, buf_bytes(answer));
        budget_spend(&request->http->session.server->budget,
                     (int64_t)answer->len / COPIED_BYTES_PER_NS);
    }
    drop_encoding(request);
    request_done(request);
}

static void answered_single(struct ticket *ticket, const struct reply *reply)
{
    request_answer(LIST_ENTRY(ticket, struct request, ticket), reply);
}

static void answered_page(struct ticket *ticket, const struct reply *reply)
{
    struct request *request = LIST_ENTRY(ticket, struct request, ticket);
    struct server *server = request->http->session.server;
    struct buf *out = request_out(request);
    size_t before = out->len;
    page_write(server, request->page, &request->format, reply, out);
    budget_spend(&server->budget, (int64_t)(out->len - before) / WRITTEN_BYTES_PER_NS);
    request_done(request);
}

void request_ask(struct request *request, const struct cmd *cmd)
{
    struct engine *engine = request->http->session.server->engine;
    if (engine->verbs->submit(engine, cmd, &request->ticket) == SUBMIT_PARKED)
        request->parked = true;
}

void request_page(struct request *request, enum call_kind page)
{
    struct server *server = request->http->session.server;
    struct cmd question = page_question(server);
    request->page = page;
    request->ticket.answered = answered_page;
    request_ask(request, &question);
}

void request_answer_batch(struct request *request, struct bytes results, uint32_t failed)
{
    struct server *server = request->http->session.server;
    struct buf *out = request_out(request);
    size_t before = out->len;
    api_batch_reply(&request->format, results, failed, server_date(server), out);
    count_status(server, bytes_of(out->at + before, out->len - before));
    request_done(request);
}
