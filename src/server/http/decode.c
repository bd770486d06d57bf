#include "server/http/decode.h"

#include "base/mem.h"
#include "server/http/settings_probe.h"
#include "server/offload.h"

enum {
    LONG_BYTES = 128 * 1024, /* a body above this goes to the worker; … */
    LONG_FORM_BYTES =
        32 * 1024, /* … a form above this, which may have a parameter in each two bytes */
    APART_BYTES = 256 * 1024, /* a longer body of a job lies in memory of its own */
    BYTES_OF_TEXT = 2,        /* memory for each byte of a text: the text and the decoded values */
};

/* Owns all that its work touches. */
struct decoding {
    struct offload offload;
    struct request *request; /* NULL: the client has gone; freed when it is not in use */
    size_t bytes;            /* of the body, then also of the decoded values; counted in
                                pipeline::working_bytes */
    bool in_use;             /* by the worker, or by the command that it became */
    struct api_site site;
    struct api_limits limits;
    reference_probe *probe;      /* or NULL */
    const struct config *config; /* not changed while this is there */
    int64_t now_us;              /* when the request was whole */
    struct http_request http;
    struct buf body;
    struct arena arena;
    struct buf job_body;                    /* of a large job, for the engine to take over */
    struct decoded_item *items, *next_item; /* of a batch, its long ones; in the arena */
    struct call call;
};

bool decode_is_long(const struct http_session *http)
{
    const struct server *server = http_server(http);
    const struct http_request *request = &http->http.request;
    bool probes = server->options.probe && request->method == HTTP_M_PUT;
    bool forms = http->pipeline.session.principal.listener->dialect == DIALECT_DELAYQUEUE_JAVA;
    size_t most = forms ? LONG_FORM_BYTES : LONG_BYTES;
    return server->worker && (probes || request->body.len > most);
}

static void free_it(struct decoding *decoding)
{
    struct discard *discard = &decoding->offload.server->discard;
    for (struct decoded_item *item = decoding->items; item; item = item->next)
        discard_buf(discard, &item->body);
    arena_fini_deferred(&decoding->arena, discard);
    discard_buf(discard, &decoding->job_body);
    discard_buf(discard, &decoding->body);
    mem_free(decoding);
}

/* Moves a large body to `own`: the engine would have to copy it in the turn otherwise. */
static void set_apart(struct cmd *cmd, struct buf *own)
{
    bool is_push = cmd->kind == CMD_PUSH;
    struct bytes *body = is_push ? &cmd->push.body : &cmd->job.body;
    if ((!is_push && cmd->kind != CMD_RESCHEDULE) || body->len <= APART_BYTES)
        return;
    buf_reserve_to(own, body->len, body->len);
    buf_add_bytes(own, *body);
    *body = buf_bytes(own);
    *(is_push ? &cmd->push.memory : &cmd->job.memory) = own;
}

/* The long items of a batch; the others are decoded in turns. */
static void decode_items(struct decoding *decoding)
{
    struct api_batch batch = decoding->call.batch, before = batch;
    struct decoded_item **last = &decoding->items;
    size_t bytes;
    if (decoding->call.kind != CALL_BATCH || batch.longest <= APART_BYTES)
        return;
    for (; api_batch_skip(&batch, &bytes); before = batch) {
        if (bytes <= APART_BYTES)
            continue;
        struct decoded_item *item = arena_alloc(&decoding->arena, sizeof(*item));
        *item = (struct decoded_item){.after = batch};
        (void)api_batch_next(&before, &decoding->limits, decoding->now_us, &decoding->arena,
                             &item->cmd, &item->problem); /* it is there */
        if (!item->problem.status)
            set_apart(&item->cmd, &item->body);
        *last = item;
        last = &item->next;
    }
    decoding->next_item = decoding->items;
}

const struct decoded_item *decode_next_item(struct decoding *decoding, struct api_batch *batch)
{
    const struct decoded_item *item = decoding ? decoding->next_item : NULL;
    if (!item || item->after.done != batch->done + 1)
        return NULL;
    decoding->next_item = item->next;
    *batch = item->after;
    return item;
}

int64_t decode_time_us(const struct decoding *decoding, const struct server *server)
{
    return decoding ? decoding->now_us : server->loop->now_us;
}

static void run(struct work *work)
{
    struct decoding *decoding = LIST_ENTRY(work, struct decoding, offload.work);
    api_decode(&decoding->site, &decoding->limits, &decoding->http, decoding->now_us,
               &decoding->arena, &decoding->call);
    if (decoding->call.kind == CALL_CMD)
        set_apart(&decoding->call.cmd, &decoding->job_body);
    decode_items(decoding);
    if (decoding->probe)
        settings_probe(decoding->probe, decoding->config, &decoding->arena, &decoding->call);
}

/* Counts what decoding has allocated: a request may keep it for long, such as the topics of a
 * parked reserve. */
static void count_decoded(struct decoding *decoding)
{
    struct pipeline *pipeline = &decoding->request->http->pipeline;
    size_t decoded = decoding->arena.held + decoding->job_body.cap;
    for (const struct decoded_item *item = decoding->items; item; item = item->next)
        decoded += item->body.cap;
    decoding->bytes += decoded;
    pipeline->working_bytes += decoded;
    buffers_changed(&pipeline->session);
}

static void done(struct work *work)
{
    struct decoding *decoding = LIST_ENTRY(work, struct decoding, offload.work);
    offload_done(&decoding->offload);
    if (decoding->request) {
        count_decoded(decoding);
        http_session_decoded(decoding->request, &decoding->call, decoding->http.host);
    }
    decoding->in_use = false;
    if (!decoding->request)
        free_it(decoding);
}

void decode_begin(struct request *request, const struct api_site *site)
{
    struct http_session *http = request->http;
    struct server *server = http_server(http);
    struct decoding *decoding = mem_zalloc(sizeof(*decoding));
    decoding->request = request;
    decoding->in_use = true;
    decoding->site = *site;
    decoding->limits = server->options.api;
    decoding->probe = server->options.probe;
    decoding->config = server->options.config;
    decoding->now_us = server->loop->now_us;
    decoding->bytes = http->http.request.body.len;
    http1_detach(&http->http, &decoding->arena, &decoding->http, &decoding->body);
    http->pipeline.working_bytes += decoding->bytes;
    request->decoding = decoding;
    request->pending.state = PENDING_EXCLUSIVE;
    offload_submit(&decoding->offload, server, decoding->bytes * BYTES_OF_TEXT, run, done);
}

void decode_free(struct decoding *decoding)
{
    if (!decoding)
        return;
    decoding->request->http->pipeline.working_bytes -= decoding->bytes;
    decoding->request = NULL;
    if (offload_withdraw(&decoding->offload) || !decoding->in_use) /* else done() does it */
        free_it(decoding);
}
