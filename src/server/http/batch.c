#include "server/http/batch.h"

#include "base/mem.h"
#include "proto/api/api_parts.h"
#include "server/http/decode.h"
#include "server/http/encode.h"

enum {
    HELD_BYTES = 768, /* memory of a reply that the engine holds, and of an item's result */
    SLICE_MIN = 16,   /* commands that are submitted at once even if the budget is spent, … */
    SLICE_BYTES = 64 * 1024, /* … unless they are as long as this together */
    COMMAND_NS = 1000,       /* work for reading a small command and writing its result */
    BYTES_PER_NS = 1,        /* of its text, read as JSON */
    /* Unanswered commands in the engine, at most: each may keep its body in memory there. */
    UNANSWERED_MAX = 4096,
    /* Nothing behind a job with a larger body is submitted until that is stored, as with a put over
       beanstalkd's protocol: several would fill the memory of the log. */
    LONE_BODY_BYTES = 1024 * 1024,
    /* Bytes of bodies of jobs in the answer, at most: a turn must be able to copy them. */
    SHOWN_BODY_MAX = 64 * 1024,
    SHOWN_MAX = 1024 * 1024, /* bytes of all results; exceeded by one result at most */
    /* Above this many bytes of results the worker joins them: 4 MB took more than 5 ms in a
       turn. */
    LONG_RESULTS = 256 * 1024,
};

/* One command of a batch. */
struct batch_item {
    struct ticket ticket;
    struct request *request;
    struct batch_item *next; /* in the order sent */
    struct list unanswered;  // batch::unanswered
    struct bytes result;     /* JSON, in the batch's arena */
};

struct batch {
    struct request *request;
    struct list place;      // server::batches, while unfinished, not `full`, and not all in its
                            // first slice
    struct api_batch items; /* not decoded yet */
    struct arena arena;     /* of the items, their results, and the text that is left */
    struct batch_item *first;
    struct batch_item **last;
    struct list unanswered; // batch_item::unanswered: a few thousand of all at most
    uint32_t waiting;       /* how many these are */
    uint32_t failed;
    size_t result_bytes;
    size_t counted_bytes; /* in pipeline::working_bytes */
    bool decoded;         /* all items are in the list */
    bool full;            /* UNANSWERED_MAX was reached: goes on when half of them are answered */
    bool lone;            /* the last one is a LONE_BODY: the same, goes on when all are answered */
};

void batch_free(struct batch *batch)
{
    if (!batch)
        return;
    batch->request->http->pipeline.working_bytes -= batch->counted_bytes;
    list_remove(&batch->place);
    arena_fini_deferred(&batch->arena, &http_server(batch->request->http)->discard);
    mem_free(batch);
}

void batch_cancel(struct batch *batch)
{
    struct server *server = http_server(batch->request->http);
    while (!list_empty(&batch->unanswered)) {
        struct batch_item *item = LIST_ENTRY(batch->unanswered.next, struct batch_item, unanswered);
        list_remove(&item->unanswered);
        server_cancel(server, &item->ticket);
    }
}

/* Of a batch that is done; the items are in its arena. */
struct batch_results {
    const struct batch_item *first;
    uint32_t failed;
};

/* On the worker's thread, if they are long: megabytes are copied several times. */
static void write_results(const void *from, const struct response_format *format, struct bytes date,
                          struct buf *out)
{
    const struct batch_results *results = from;
    struct buf text = {0};
    for (const struct batch_item *item = results->first; item; item = item->next) {
        if (item != results->first)
            buf_add_char(&text, ',');
        buf_add_bytes(&text, item->result);
    }
    api_batch_reply(format, buf_bytes(&text), results->failed, date, out);
    buf_fini(&text);
}

/* Frees the batch, if all is done. */
static void finish(struct batch *batch)
{
    if (batch->waiting || !batch->decoded)
        return;
    struct batch_results results = {.first = batch->first, .failed = batch->failed};
    struct encode_source source = {.write = write_results,
                                   .from = &results,
                                   .from_bytes = sizeof(results),
                                   .bytes = batch->result_bytes};
    request_answer_source(batch->request, &source, &batch->arena, LONG_RESULTS);
}

static void item_done(struct batch_item *item, const struct reply *reply,
                      const struct problem *problem)
{
    struct batch *batch = item->request->more.batch;
    struct buf text = {0};
    api_batch_result(&item->request->format, &text, reply, problem);
    item->result = arena_copy(&batch->arena, buf_bytes(&text));
    batch->failed += problem || !reply || reply->err != OK;
    batch->result_bytes += text.len;
    budget_spend(&http_server(batch->request->http)->budget, (int64_t)text.len / BYTES_PER_NS);
    list_remove(&item->unanswered);
    batch->waiting--;
    buf_fini(&text);
}

/* Refuses a job in the answer whose body is too large for it. */
static bool refuse_large(const struct batch *batch, const struct reply *reply,
                         struct problem *out_problem)
{
    if (batch->items.kind != CMD_GET || reply->err != OK ||
        (reply->jobs[0].body_len <= SHOWN_BODY_MAX && batch->result_bytes <= SHOWN_MAX))
        return false;
    *out_problem = (struct problem){0};
    api_problem_set(out_problem, 413, "answer_too_large", "",
                    "this answer has no room for the job: get it alone, or with others");
    return true;
}

static void answered(struct ticket *ticket, const struct reply *reply)
{
    struct batch_item *item = LIST_ENTRY(ticket, struct batch_item, ticket);
    struct batch *batch = item->request->more.batch;
    struct server *server = http_server(batch->request->http);
    struct problem problem;
    item_done(item, reply, refuse_large(batch, reply, &problem) ? &problem : NULL);
    if (batch->full && batch->waiting <= (batch->lone ? 0 : UNANSWERED_MAX / 2)) {
        batch->full = false;
        list_add_tail(&server->batches, &batch->place);
        server->turn_again = true; /* the turn's stage for batches may be over */
    }
    finish(batch);
}

/* What it takes now, for the session's footprint. */
static void count_memory(struct batch *batch)
{
    struct http_session *http = batch->request->http;
    http->pipeline.working_bytes -= batch->counted_bytes;
    batch->counted_bytes = batch->arena.held + batch->waiting * (size_t)HELD_BYTES;
    http->pipeline.working_bytes += batch->counted_bytes;
    buffers_changed(&http->pipeline.session);
}

static struct batch_item *item_new(struct batch *batch)
{
    struct batch_item *item = arena_alloc(&batch->arena, sizeof(*item));
    *item = (struct batch_item){.ticket.answered = answered, .request = batch->request};
    item->ticket.brief = batch->items.kind == CMD_FINISH;
    *batch->last = item;
    batch->last = &item->next;
    list_add_tail(&batch->unanswered, &item->unanswered);
    batch->waiting++;
    return item;
}

/* Reads the next command and submits it. False: there is none. */
static bool step(struct batch *batch)
{
    struct session *session = &batch->request->http->pipeline.session;
    struct server *server = session->server;
    struct problem problem = {0};
    struct cmd cmd;
    size_t before = batch->items.rest.len, read = 0;
    const struct decoded_item *decoded = decode_next_item(batch->request->decoding, &batch->items);
    if (decoded) {
        cmd = decoded->cmd;
        problem = decoded->problem;
        batch->lone = decoded->body.len > LONE_BODY_BYTES;
    } else {
        int64_t now_us = decode_time_us(batch->request->decoding, server);
        if (!api_batch_next(&batch->items, &server->options.api, now_us, &server->scratch, &cmd,
                            &problem))
            return false;
        read = before - batch->items.rest.len;
        batch->lone = false;
    }
    budget_spend(&server->budget, COMMAND_NS + (int64_t)read / BYTES_PER_NS);
    struct batch_item *item = item_new(batch);
    if (problem.status)
        item_done(item, NULL, &problem);
    else
        (void)server_submit(server, &session->principal, &cmd, &item->ticket);
    return true;
}

/* One slice. True: all commands are submitted (and the batch may have been answered and freed). */
static bool continue_batch(struct batch *batch)
{
    const struct session *session = &batch->request->http->pipeline.session;
    size_t begun = batch->items.rest.len;
    for (unsigned count = 0; session_has_budget(session) ||
                             (count < SLICE_MIN && begun - batch->items.rest.len < SLICE_BYTES);
         count++) {
        batch->full = batch->waiting >= (batch->lone ? 1 : UNANSWERED_MAX);
        if (batch->full)
            return false;
        if (!step(batch)) {
            batch->decoded = true;
            batch->request->pending.state = PENDING_OPEN;
            count_memory(batch);
            list_remove(&batch->place);
            finish(batch);
            return true;
        }
    }
    return false;
}

void batch_begin(struct request *request, const struct api_batch *items)
{
    struct server *server = http_server(request->http);
    struct batch *batch = mem_zalloc(sizeof(*batch));
    batch->request = request;
    batch->items = *items;
    batch->last = &batch->first;
    list_init(&batch->place);
    list_init(&batch->unanswered);
    request->more = (struct long_command){.kind = LONG_BATCH, .batch = batch};
    request->pending.state = PENDING_EXCLUSIVE; /* until all its commands are submitted */
    if (continue_batch(batch))
        return;
    if (!request->decoding) /* the parser reuses the text's memory for the next request */
        batch->items.rest = arena_copy(&batch->arena, batch->items.rest);
    batch->items.topic = arena_copy(&batch->arena, batch->items.topic);
    count_memory(batch);
    if (!batch->full)
        list_add_tail(&server->batches, &batch->place);
}

bool batches_step(struct server *server)
{
    struct list *batches = &server->batches;
    for (unsigned steps = 0; !list_empty(batches) && (steps == 0 || !budget_spent(&server->budget));
         steps++) {
        struct batch *batch = LIST_ENTRY(batches->next, struct batch, place);
        struct http_session *http = batch->request->http;
        list_remove(&batch->place);
        arena_reset(&server->scratch);
        (void)loop_update_time(server->loop);
        server_begin_visit(server);
        if (continue_batch(batch)) {
            pipeline_read_on(&http->pipeline);
            continue;
        }
        if (!batch->full)
            list_add_tail(batches, &batch->place); /* the others' turn */
        count_memory(batch);
    }
    return !list_empty(batches);
}
