#include "server/http/request.h"

#include "base/check.h"
#include "server/admin/pages.h"
#include "server/http/batch.h"
#include "server/http/clear_all.h"
#include "server/http/clearing.h"
#include "server/http/decode.h"
#include "server/http/encode.h"
#include "server/http/listing.h"
#include "server/http/replay.h"
#include "server/http/restore.h"
#include "server/http/scrape.h"
#include "server/http/target_trial.h"
#include "server/requeue.h"

enum {
    WRITTEN_BYTES_PER_NS = 1,      /* numbers, escapes, copies */
    BODY_SPARE_BYTES = 16 * 1024,  /* the memory of a longer body is not kept */
    SPARE_DELIVERIES_BYTES = 1024, /* nor that of more reservations */
};

static void answered_single(struct ticket *ticket, const struct reply *reply);

static struct request *of_ticket(struct ticket *ticket)
{
    return request_of(LIST_ENTRY(ticket, struct pending, ticket));
}

struct request *request_new(struct http_session *http, const struct response_format *format)
{
    struct server *server = http_server(http);
    uint32_t number = pool_take(&server->requests);
    struct request *request = pool_at(&server->requests, number);
    request->number = number;
    request->http = http;
    request->format = *format;
    request->pending.ticket.answered = answered_single;
    pipeline_add(&http->pipeline, &request->pending);
    return request;
}

static void drop_encoding(struct request *request)
{
    if (!request->encoding)
        return;
    request->http->pipeline.working_bytes -= encode_bytes(request->encoding);
    encode_free(request->encoding);
    request->encoding = NULL;
}

static void drop_more(struct request *request)
{
    struct long_command more = request->more;
    switch (more.kind) {
    case LONG_NONE: break;
    case LONG_BATCH: batch_free(more.batch); break;
    case LONG_CLEARING: clearing_free(more.clearing); break;
    case LONG_REPLAY: replay_free(more.replay); break;
    case LONG_LISTING: listing_free(more.listing); break;
    case LONG_CLEAR_ALL: clear_all_free(more.clear_all); break;
    case LONG_RESTORE: restore_forget(request); break;
    case LONG_TRIAL: target_trial_free(more.trial); break;
    case LONG_SCRAPE: scrape_free(more.scrape); break;
    }
    request->more = (struct long_command){.kind = LONG_NONE};
}

/* Most reserves bring one job or a few: memory for that goes from request to request. */
static void take_deliveries(struct request *request)
{
    struct buf *spare = &http_server(request->http)->spare_deliveries;
    request->deliveries = *spare;
    *spare = (struct buf){0};
}

static void give_deliveries(struct request *request)
{
    struct buf *spare = &http_server(request->http)->spare_deliveries;
    if (spare->at || request->deliveries.cap > SPARE_DELIVERIES_BYTES) {
        buf_fini(&request->deliveries);
        return;
    }
    *spare = request->deliveries;
    spare->len = 0;
}

void request_free(struct pending *pending)
{
    struct request *request = request_of(pending);
    give_deliveries(request);
    decode_free(request->decoding);
    drop_encoding(request);
    drop_more(request);
    pool_give(&http_server(request->http)->requests, request->number);
}

/* ---- reservations whose answers may not arrive ---- */

static void note_deliveries(struct request *request, const struct reply *reply)
{
    if (reply->count > 0 && !request->deliveries.at)
        take_deliveries(request);
    for (uint32_t i = 0; i < reply->count; i++) {
        struct unsent_job delivery = {
            .seq = reply->jobs[i].ref.seq, .lease = reply->jobs[i].lease, .end = UINT64_MAX};
        buf_add(&request->deliveries, &delivery, sizeof(delivery));
    }
}

/* The answer is in session::out: notes its reservations until the client has received it. */
void request_delivered(struct pending *pending)
{
    struct request *request = request_of(pending);
    struct http_session *http = request->http;
    for (size_t i = 0; i < request->deliveries.len; i += sizeof(struct unsent_job)) {
        struct unsent_job delivery;
        memcpy(&delivery, request->deliveries.at + i, sizeof(delivery));
        delivery.end = session_end(&http->pipeline.session);
        buf_add(&http->deliveries, &delivery, sizeof(delivery));
    }
}

void request_abandon(struct pending *pending)
{
    struct request *request = request_of(pending);
    struct server *server = http_server(request->http);
    const struct long_command *more = &request->more;
    if (more->kind == LONG_REPLAY)
        replay_cancel(more->replay);
    if (more->kind == LONG_LISTING)
        listing_cancel(more->listing);
    if (more->kind == LONG_BATCH)
        batch_cancel(more->batch);
    else if (pending->state != PENDING_BUFFERED && !request->encoding)
        server_cancel(server, &pending->ticket);
    requeue_deliveries(server, &request->deliveries, 0);
}

/* ---- answers ---- */

static void count_status(struct server *server, struct bytes answer)
{
    /* "HTTP/1.1 200 …" */
    uint64_t status;
    if (answer.len >= 12 && bytes_to_u64(bytes_of(answer.at + 9, 3), &status) &&
        status < SERVER_STATUS_MAX)
        server->counts.requests[status]++;
}

struct pipeline_text request_begin(struct request *request)
{
    return pipeline_begin(&request->pending);
}

static struct bytes written(struct pipeline_text text)
{
    return bytes_of(text.out->at + text.at, text.out->len - text.at);
}

void request_done_uncounted(struct request *request, struct pipeline_text text)
{
    budget_spend(&http_server(request->http)->budget,
                 (int64_t)written(text).len / WRITTEN_BYTES_PER_NS);
    pipeline_end(&request->pending, text);
}

void request_done(struct request *request, struct pipeline_text text)
{
    count_status(http_server(request->http), written(text));
    request_done_uncounted(request, text);
}

/* The engine's view of one topic, with its settings, and why they do not let its jobs be sent. */
static struct topic_view with_settings(struct server *server, const struct topic_view *from)
{
    struct topic_view topic = *from;
    enum held_why why = pump_held(server->pump_stage.pump, topic.name);
    topic.held = why == HELD_NOT ? NULL : held_why_name(why);
    topic.held_by = pump_held_by(server->pump_stage.pump, topic.name);
    topic.settings = (struct bytes){0};
    topic.version = 0;
    (void)registry_text(server->registry, topic.name, &topic.settings, &topic.version);
    return topic;
}

static void wait_for_encoding(struct request *request)
{
    request->http->pipeline.working_bytes += encode_bytes(request->encoding);
    request->pending.state = PENDING_OPEN; /* not parked any more: only the answer is missing */
}

void request_answer_source(struct request *request, const struct encode_source *source,
                           struct arena *arena, size_t long_bytes)
{
    struct server *server = http_server(request->http);
    if (server->worker && source->bytes > long_bytes) {
        encode_begin_source(request, source, arena);
        wait_for_encoding(request);
        drop_more(request);
        return;
    }
    struct pipeline_text text = request_begin(request);
    source->write(source->from, &request->format, server_date(server), text.out);
    request_done(request, text);
}

void request_answer(struct request *request, const struct reply *reply)
{
    struct server *server = http_server(request->http);
    if (reply->kind == CMD_RESERVE && reply->err == OK)
        note_deliveries(request, reply);
    if (reply->kind == CMD_TOUCH && reply->err == OK && reply->count)
        beanstalk_reservations_touched(&server->beanstalk.reservations, reply->jobs);
    if (encode_is_long(server, reply)) {
        encode_begin(request, reply);
        wait_for_encoding(request);
        return;
    }
    struct reply shown = *reply;
    struct topic_view topic;
    if (reply->kind == CMD_TOPIC && reply->err == OK) {
        topic = with_settings(server, &reply->topics[0]);
        shown.topics = &topic;
    }
    struct pipeline_text text = request_begin(request);
    api_reply_through(&request->format, &shown, server->loop->now_us, server_date(server),
                      &server->answer_body, text.out);
    buf_reset(&server->answer_body, BODY_SPARE_BYTES);
    request_done(request, text);
}

void request_encoded(struct request *request, struct buf *answer)
{
    count_status(http_server(request->http), buf_bytes(answer));
    struct buf text = *answer;
    *answer = (struct buf){0};
    drop_encoding(request); /* with it goes what `answer` pointed into */
    pipeline_end_long(&request->pending, &text);
    buf_fini(&text);
}

static void answered_single(struct ticket *ticket, const struct reply *reply)
{
    request_answer(of_ticket(ticket), reply);
}

static void answered_page(struct ticket *ticket, const struct reply *reply)
{
    struct request *request = of_ticket(ticket);
    struct pipeline_text text = request_begin(request);
    page_write(http_server(request->http), request->page, &request->format, reply, text.out);
    request_done_uncounted(request, text);
}

void request_refuse(struct request *request, const struct problem *problem)
{
    struct pipeline_text text = request_begin(request);
    api_problem(&request->format, problem, server_date(http_server(request->http)), text.out);
    request_done(request, text);
}

void request_page(struct request *request, enum call_kind page)
{
    struct cmd question = page_question(http_server(request->http), page);
    request->page = page;
    request->pending.ticket.answered = answered_page;
    pipeline_submit(&request->pending, &question);
}
