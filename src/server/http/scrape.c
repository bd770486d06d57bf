/*
 * An answered() callback must not submit commands: it adds the scrape to server::scrapes, and
 * scrapes_step() asks for the next page.
 */
#include "server/http/scrape.h"

#include "base/mem.h"
#include "server/admin/pages.h"
#include "server/http/encode.h"

enum {
    PAGE_TOPICS = 500,     /* asked for at a time */
    KEEP_NS = 100,         /* work for keeping what is shown of one */
    LONG_TEXT = 64 * 1024, /* the worker writes a longer text */
    TOPIC_TEXT = 8 * 48,   /* what is written of a topic without its name, about … */
    TOPIC_NAMES = 8,       /* … and how often its name */
};

struct scrape {
    struct list place; // server::scrapes, while the next page is to be asked for
    struct request *request;
    struct arena arena;
    struct bytes head;          /* the text in front of single topics; in the arena */
    struct metrics_page *first; /* in the arena */
    struct metrics_page *last;
    uint32_t count;       /* topics so far */
    bool more;            /* there are others */
    size_t text_bytes;    /* of what is written, about */
    size_t counted_bytes; /* in pipeline::working_bytes */
};

void scrape_free(struct scrape *scrape)
{
    if (!scrape)
        return;
    scrape->request->http->pipeline.working_bytes -= scrape->counted_bytes;
    list_remove(&scrape->place);
    arena_fini_deferred(&scrape->arena, &http_server(scrape->request->http)->discard);
    mem_free(scrape);
}

static void count_memory(struct scrape *scrape)
{
    struct http_session *http = scrape->request->http;
    http->pipeline.working_bytes += scrape->arena.held - scrape->counted_bytes;
    scrape->counted_bytes = scrape->arena.held;
    buffers_changed(&http->pipeline.session);
}

/* ---- the text ---- */

/* The parts of the answer: what it points to is in the arena. */
struct scrape_texts {
    struct bytes head;
    const struct metrics_page *first;
    bool more;
};

/* On the worker's thread, if it is long. */
static void write_texts(const void *from, const struct response_format *format, struct bytes date,
                        struct buf *out)
{
    const struct scrape_texts *texts = from;
    struct buf body = {0};
    buf_add_bytes(&body, texts->head);
    metrics_topics_write(texts->first, texts->more, &body);
    api_send(&(struct api_output){.format = format, .date = date, .out = out}, 200,
             METRICS_CONTENT_TYPE, buf_bytes(&body));
    buf_fini(&body);
}

static void finish(struct scrape *scrape)
{
    struct scrape_texts texts = {
        .head = scrape->head, .first = scrape->first, .more = scrape->more};
    struct encode_source source = {.write = write_texts,
                                   .from = &texts,
                                   .from_bytes = sizeof(texts),
                                   .bytes = scrape->text_bytes};
    request_answer_source(scrape->request, &source, &scrape->arena,
                          LONG_TEXT); /* frees the scrape */
}

/* ---- topics ---- */

static uint32_t shown_most(const struct scrape *scrape)
{
    return (uint32_t)http_server(scrape->request->http)->options.config->metrics_topics;
}

static void keep_head(struct scrape *scrape, const struct reply *reply)
{
    struct buf head = {0};
    metrics_write(http_server(scrape->request->http), reply, &head);
    scrape->head = arena_copy(&scrape->arena, buf_bytes(&head));
    scrape->text_bytes = head.len;
    buf_fini(&head);
}

static void keep_topics(struct scrape *scrape, const struct topic_view *topics, uint32_t count)
{
    struct server *server = http_server(scrape->request->http);
    struct metrics_page *page =
        arena_alloc(&scrape->arena, sizeof(*page) + count * sizeof(page->topics[0]));
    page->next = NULL;
    page->count = count;
    for (uint32_t i = 0; i < count; i++) {
        metrics_topic_take(server, &topics[i], &page->topics[i]);
        page->topics[i].name = arena_copy(&scrape->arena, topics[i].name);
        scrape->text_bytes += TOPIC_TEXT + TOPIC_NAMES * topics[i].name.len;
    }
    if (scrape->last)
        scrape->last->next = page;
    else
        scrape->first = page;
    scrape->last = page;
    scrape->count += count;
    budget_spend(&server->budget, (int64_t)count * KEEP_NS);
}

static void answered(struct ticket *ticket, const struct reply *reply)
{
    struct request *request = LIST_ENTRY(ticket, struct request, pending.ticket);
    struct scrape *scrape = request->more.scrape;
    struct server *server = http_server(request->http);
    uint32_t left = shown_most(scrape) - scrape->count;
    uint32_t count = reply->err ? 0 : reply->count < left ? reply->count : left;
    if (!scrape->head.len)
        keep_head(scrape, reply);
    if (count)
        keep_topics(scrape, reply->topics, count);
    if (!reply->err)
        scrape->more = reply->more || reply->count > count;
    count_memory(scrape);
    if (!count || count == left || !scrape->more) {
        finish(scrape);
        return;
    }
    list_add_tail(&server->scrapes, &scrape->place);
    server->turn_again = true; /* the engine may have answered at a turn's end */
}

static void ask(struct scrape *scrape)
{
    struct request *request = scrape->request;
    struct cmd question = page_question(http_server(request->http), CALL_METRICS);
    uint32_t left = shown_most(scrape) - scrape->count;
    question.topic.max = left < PAGE_TOPICS ? left : PAGE_TOPICS;
    if (scrape->last)
        question.topic.topic = scrape->last->topics[scrape->last->count - 1].name;
    pipeline_submit(&request->pending, &question);
}

/* One page. */
static bool step(struct list *item)
{
    ask(LIST_ENTRY(item, struct scrape, place));
    return false;
}

bool scrapes_step(struct server *server)
{
    return server_step_each(server, &server->scrapes, step);
}

void scrape_begin(struct request *request)
{
    struct scrape *scrape = mem_zalloc(sizeof(*scrape));
    scrape->request = request;
    list_init(&scrape->place);
    request->more = (struct long_command){.kind = LONG_SCRAPE, .scrape = scrape};
    request->pending.ticket.answered = answered;
    request->pending.state = PENDING_EXCLUSIVE;
    ask(scrape);
}
