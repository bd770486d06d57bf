/*
 * Each item is a GET with a ticket of its own, up to UNANSWERED_MAX at a time; its JSON waits in
 * the arena for those before it. The bodies that the engine returns with the properties are not
 * kept. A job that has gone meanwhile is left out; one that cannot be shown now ends the listing
 * with that error, because the cursor goes past it: a client would take it for gone.
 *
 * An answered() callback must not submit commands: it adds the listing to server::listings, and
 * listings_step() submits the next GETs.
 */
#include "server/http/listing.h"

#include "base/mem.h"
#include "server/http/encode.h"

enum {
    UNANSWERED_MAX = 64,
    GET_NS = 1000,           /* work for a GET, without the engine's */
    LONG_TEXTS = 256 * 1024, /* the worker joins more than that: 2 MB took 3 ms in one turn */
};

struct listing_item {
    struct ticket ticket;
    struct listing *listing;
    struct job_view view; /* as it was listed; what it borrows lies in the arena */
    bool unanswered;      /* it is submitted, and not answered */
    struct bytes text;    /* JSON; empty: not answered, or gone */
};

struct listing {
    struct list place; // server::listings, while GETs can be submitted
    struct request *request;
    struct arena arena;
    struct listing_item *items;
    uint32_t count, next, unanswered; /* items; the next to submit; submitted and not answered */
    struct bytes cursor;
    enum err err;         /* of a job that cannot be shown now: no more GETs, and no list */
    const char *why;      /* as reply::why; in the arena */
    size_t text_bytes;    /* of all items */
    size_t counted_bytes; /* in pipeline::working_bytes */
};

void listing_free(struct listing *listing)
{
    if (!listing)
        return;
    listing->request->http->pipeline.working_bytes -= listing->counted_bytes;
    list_remove(&listing->place);
    arena_fini_deferred(&listing->arena, &http_server(listing->request->http)->discard);
    mem_free(listing);
}

void listing_cancel(struct listing *listing)
{
    struct server *server = http_server(listing->request->http);
    for (uint32_t i = 0; i < listing->next; i++) {
        if (listing->items[i].unanswered)
            server_cancel(server, &listing->items[i].ticket);
    }
}

static void count_memory(struct listing *listing)
{
    struct http_session *http = listing->request->http;
    http->pipeline.working_bytes += listing->arena.held - listing->counted_bytes;
    listing->counted_bytes = listing->arena.held;
    buffers_changed(&http->pipeline.session);
}

/* The parts of the answer: what it points to is in the arena. */
struct listing_texts {
    const struct listing_item *items;
    uint32_t count;
    struct bytes cursor;
};

/* On the worker's thread, if they are long. */
static void write_texts(const void *from, const struct response_format *format, struct bytes date,
                        struct buf *out)
{
    const struct listing_texts *texts = from;
    struct buf jobs = {0};
    for (uint32_t i = 0; i < texts->count; i++) {
        if (texts->items[i].text.len == 0)
            continue;
        if (jobs.len)
            buf_add_char(&jobs, ',');
        buf_add_bytes(&jobs, texts->items[i].text);
    }
    api_list_reply(format, buf_bytes(&jobs), texts->cursor, date, out);
    buf_fini(&jobs);
}

static void finish(struct listing *listing)
{
    struct request *request = listing->request;
    if (listing->err) {
        request_answer(request,
                       &(struct reply){.err = listing->err, .why = listing->why, .kind = CMD_LIST});
        return; /* it is freed */
    }
    struct listing_texts texts = {
        .items = listing->items, .count = listing->count, .cursor = listing->cursor};
    struct encode_source source = {.write = write_texts,
                                   .from = &texts,
                                   .from_bytes = sizeof(texts),
                                   .bytes = listing->text_bytes};
    request_answer_source(request, &source, &listing->arena, LONG_TEXTS); /* frees the listing */
}

static void queue_next_step(struct listing *listing)
{
    struct server *server = http_server(listing->request->http);
    list_remove(&listing->place);
    list_add_tail(&server->listings, &listing->place);
    server->turn_again = true;
}

/* ---- the jobs ---- */

static void show(struct listing_item *item, const struct job_view *job)
{
    struct buf text = {0};
    api_list_job(&text, job);
    item->text = arena_copy(&item->listing->arena, buf_bytes(&text));
    item->listing->text_bytes += text.len;
    buf_fini(&text);
}

static void keep_error(struct listing *listing, const struct reply *reply)
{
    if (listing->err)
        return;
    listing->err = reply->err;
    if (reply->why)
        listing->why = arena_copy(&listing->arena, bytes_of(reply->why, strlen(reply->why) + 1)).at;
}

static void got(struct ticket *ticket, const struct reply *reply)
{
    struct listing_item *item = LIST_ENTRY(ticket, struct listing_item, ticket);
    struct listing *listing = item->listing;
    item->unanswered = false;
    listing->unanswered--;
    if (reply->err == OK && reply->count > 0)
        show(item, &reply->jobs[0]);
    else if (reply->err == ERR_DAMAGED) /* its properties are lost with its body, for good */
        show(item, &item->view);
    else if (reply->err != OK && reply->err != ERR_NOT_FOUND)
        keep_error(listing, reply);
    queue_next_step(listing);
}

static void submit_next(struct listing *listing)
{
    struct session *session = &listing->request->http->pipeline.session;
    struct listing_item *item = &listing->items[listing->next++];
    struct cmd cmd = {.kind = CMD_GET, .job.ref = item->view.ref};
    item->unanswered = true;
    listing->unanswered++;
    budget_spend(&session->server->budget, GET_NS);
    (void)server_submit(session->server, &session->principal, &cmd, &item->ticket);
}

/* One slice. True: the budget is spent, and it must continue in the next turn. May end the
   listing. */
static bool step(struct list *item)
{
    struct listing *listing = LIST_ENTRY(item, struct listing, place);
    const struct server *server = http_server(listing->request->http);
    for (unsigned steps = 0;
         !listing->err && listing->next < listing->count && listing->unanswered < UNANSWERED_MAX;
         steps++) {
        if (steps > 0 && budget_spent(&server->budget)) {
            list_remove(&listing->place); /* as below; server_step_each() puts it back */
            return true;
        }
        submit_next(listing);
    }
    list_remove(&listing->place); /* a GET that was answered at once may have put it there */
    count_memory(listing);
    if ((listing->err || listing->next == listing->count) && listing->unanswered == 0)
        finish(listing);
    return false;
}

bool listings_step(struct server *server)
{
    return server_step_each(server, &server->listings, step);
}

/* ---- the list ---- */

/* `topic`: in the arena. All jobs of a list are of one. */
static struct job_view keep_view(struct arena *arena, const struct job_view *job,
                                 struct bytes topic)
{
    struct job_view view = *job;
    struct bytes waits = bytes_of(job->retry_us, job->retry_count * sizeof(int64_t));
    view.ref.id = arena_copy(arena, job->ref.id);
    view.topic = topic;
    view.retry_us = (const int64_t *)(const void *)arena_copy(arena, waits).at;
    view.content_type = view.body = view.properties = (struct bytes){0};
    view.notes = NULL;
    view.note_count = 0;
    return view;
}

static void keep(struct listing *listing, const struct reply *reply)
{
    struct bytes topic = {0};
    if (reply->count)
        topic = arena_copy(&listing->arena, reply->jobs[0].topic);
    listing->count = reply->count;
    listing->cursor = arena_copy(&listing->arena, reply->cursor);
    listing->items = arena_alloc(&listing->arena, reply->count * sizeof(*listing->items));
    for (uint32_t i = 0; i < reply->count; i++) {
        listing->items[i] = (struct listing_item){
            .ticket.answered = got,
            .listing = listing,
            .view = keep_view(&listing->arena, &reply->jobs[i], topic),
        };
    }
}

static void listed(struct ticket *ticket, const struct reply *reply)
{
    struct request *request = LIST_ENTRY(ticket, struct request, pending.ticket);
    if (reply->err) {
        request_answer(request, reply);
        return;
    }
    keep(request->more.listing, reply);
    queue_next_step(request->more.listing);
}

void listing_begin(struct request *request, const struct cmd *cmd)
{
    struct listing *listing = mem_zalloc(sizeof(*listing));
    listing->request = request;
    list_init(&listing->place);
    request->more = (struct long_command){.kind = LONG_LISTING, .listing = listing};
    request->pending.ticket.answered = listed;
    request->pending.state = PENDING_EXCLUSIVE;
    pipeline_submit(&request->pending, cmd);
}
