#include "server/request.h"

#include "base/check.h"
#include "base/mem.h"
#include "server/pages.h"
#include "server/requeue.h"

enum { WRITTEN_BYTES_PER_NS = 1 }; /* numbers, escapes, copies */

static void answered_single(struct ticket *ticket, const struct reply *reply);

struct request *request_new(struct http_session *http, const struct call_style *style)
{
    struct server *server = http->session.server;
    uint32_t number = pool_take(&server->requests);
    struct request *request = pool_at(&server->requests, number);
    request->number = number;
    request->http = http;
    request->style = *style;
    request->ticket.answered = answered_single;
    list_add_tail(&http->requests, &request->place);
    http->request_count++;
    return request;
}

static void batch_free(struct batch *batch)
{
    if (!batch)
        return;
    arena_fini(&batch->arena);
    mem_free(batch);
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
    pool_give(&server->requests, request->number);
}

/* ---- reservations that may not arrive ---- */

static void note_handed(struct request *request, const struct reply *reply)
{
    for (uint32_t i = 0; i < reply->count; i++) {
        struct handed handed = {
            .seq = reply->jobs[i].ref.seq, .lease = reply->jobs[i].lease, .end = UINT64_MAX};
        buf_add(&request->handed, &handed, sizeof(handed));
    }
}

/* The answer is in the session's bytes now: the session watches over its reservations. */
static void pass_handed(struct request *request)
{
    struct http_session *http = request->http;
    for (size_t i = 0; i < request->handed.len; i += sizeof(struct handed)) {
        struct handed handed;
        memcpy(&handed, request->handed.at + i, sizeof(handed));
        handed.end = session_end(&http->session);
        http->handed_us = http->session.server->now_us;
        buf_add(&http->handed, &handed, sizeof(handed));
    }
}

void request_abandon(struct request *request)
{
    struct server *server = request->http->session.server;
    struct engine *engine = server->engine;
    if (!request->answered && !request->batch)
        engine->verbs->cancel(engine, &request->ticket);
    for (struct batch_item *item = request->batch ? request->batch->first : NULL; item;
         item = item->next) {
        if (!item->answered)
            engine->verbs->cancel(engine, &item->ticket);
    }
    requeue_handed(server, &request->handed, 0);
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

void request_done(struct request *request)
{
    struct http_session *http = request->http;
    struct session *session = &http->session;
    request->answered = true;
    http->early_bytes += request->early.len;
    if (!is_first(request))
        return;
    while (!list_empty(&http->requests)) {
        struct request *first = LIST_ENTRY(http->requests.next, struct request, place);
        if (!first->answered)
            break;
        buf_add_bytes(&session->out, buf_bytes(&first->early));
        pass_handed(first);
        if (first->style.close)
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

static void answered_single(struct ticket *ticket, const struct reply *reply)
{
    struct request *request = LIST_ENTRY(ticket, struct request, ticket);
    struct server *server = request->http->session.server;
    struct buf *out = request_out(request);
    size_t before = out->len;
    api_reply(&request->style, reply, server->now_us, server_date(server), out);
    budget_spend(&server->budget, (int64_t)(out->len - before) / WRITTEN_BYTES_PER_NS);
    count_status(server, bytes_of(out->at + before, out->len - before));
    if (reply->kind == CMD_RESERVE && reply->err == OK)
        note_handed(request, reply);
    request_done(request);
}

static void answered_page(struct ticket *ticket, const struct reply *reply)
{
    struct request *request = LIST_ENTRY(ticket, struct request, ticket);
    struct server *server = request->http->session.server;
    struct buf *out = request_out(request);
    size_t before = out->len;
    page_write(server, request->page, &request->style, reply, out);
    budget_spend(&server->budget, (int64_t)(out->len - before) / WRITTEN_BYTES_PER_NS);
    request_done(request);
}

void request_page(struct request *request, enum call_kind page)
{
    struct server *server = request->http->session.server;
    struct cmd question = page_question(server);
    request->page = page;
    request->ticket.answered = answered_page;
    server->engine->verbs->submit(server->engine, &question, &request->ticket);
}

/* ---- batches ---- */

static void batch_finish(struct request *request)
{
    struct batch *batch = request->batch;
    struct server *server = request->http->session.server;
    struct buf results = {0};
    uint32_t failed = 0;
    if (batch->waiting || !batch->decoded)
        return;
    for (struct batch_item *item = batch->first; item; item = item->next) {
        if (results.len)
            buf_add_char(&results, ',');
        buf_add_bytes(&results, item->result);
        failed += item->failed;
    }
    struct buf *out = request_out(request);
    size_t before = out->len;
    api_batch_reply(&request->style, buf_bytes(&results), failed, server_date(server), out);
    count_status(server, bytes_of(out->at + before, out->len - before));
    buf_fini(&results);
    request_done(request);
}

static void item_done(struct batch_item *item, const struct reply *reply,
                      const struct problem *problem)
{
    struct batch *batch = item->request->batch;
    struct buf text = {0};
    api_batch_result(&text, reply, problem);
    item->result = arena_copy(&batch->arena, buf_bytes(&text));
    item->failed = problem || reply->err != OK;
    item->answered = true;
    batch->waiting--;
    buf_fini(&text);
}

static void answered_item(struct ticket *ticket, const struct reply *reply)
{
    struct batch_item *item = LIST_ENTRY(ticket, struct batch_item, ticket);
    item_done(item, reply, NULL);
    batch_finish(item->request);
}

static struct batch_item *item_new(struct request *request)
{
    struct batch *batch = request->batch;
    struct batch_item *item = arena_alloc(&batch->arena, sizeof(*item));
    *item = (struct batch_item){.ticket.answered = answered_item, .request = request};
    *batch->last = item;
    batch->last = &item->next;
    batch->waiting++;
    return item;
}

void request_batch(struct request *request, struct api_batch *items)
{
    struct server *server = request->http->session.server;
    struct batch *batch = mem_zalloc(sizeof(*batch));
    struct problem problem = {0};
    struct cmd cmd;
    batch->last = &batch->first;
    request->batch = batch;
    while (api_batch_next(items, &server->options.api, server->now_us, &server->scratch, &cmd,
                          &problem)) {
        struct batch_item *item = item_new(request);
        item->ticket.brief = items->kind == CMD_FINISH;
        if (problem.status)
            item_done(item, NULL, &problem);
        else
            server->engine->verbs->submit(server->engine, &cmd, &item->ticket);
        problem = (struct problem){0};
    }
    batch->decoded = true;
    batch_finish(request);
}
