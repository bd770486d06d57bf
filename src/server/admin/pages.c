#include "server/admin/pages.h"

#include "base/check.h"
#include "server/door.h"

static void respond(struct server *server, const struct response_format *format, int status,
                    const char *content_type, struct bytes body, struct buf *out)
{
    server->counts.requests[status]++;
    api_send(&(struct api_output){.format = format, .date = server_date(server), .out = out},
             status, content_type, body);
}

struct text_sink {
    struct metric_sink sink;
    struct buf *out;
    bool reasoned; /* a reason was reported */
};

static void add_warning(struct metric_sink *sink, const char *what, uint64_t count)
{
    buf_addf(((struct text_sink *)sink)->out, "%s: %llu\n", what, (unsigned long long)count);
}

static void add_reason(struct metric_sink *sink, const char *text)
{
    struct text_sink *text_sink = (struct text_sink *)sink; /* its first member */
    buf_addf(text_sink->out, "%s\n", text);
    text_sink->reasoned = true;
}

static void ready_page(struct server *server, const struct response_format *format, struct buf *out)
{
    enum err err = server_health(server);
    struct buf body = {0}, facts = {0};
    struct text_sink sink = {.sink.warning = add_warning, .sink.reason = add_reason, .out = &facts};
    server->engine->verbs->describe(server->engine, &sink.sink);
    /* A reason is more precise than "not ready". */
    if (err != ERR_AGAIN || !sink.reasoned)
        buf_addf(&body, "%s\n", err ? err_text(err) : "ready");
    buf_add_bytes(&body, buf_bytes(&facts));
    respond(server, format, err ? 503 : 200, "text/plain; charset=utf-8", buf_bytes(&body), out);
    buf_fini(&facts);
    buf_fini(&body);
}

struct cmd page_question(const struct server *server, enum call_kind page)
{
    int64_t shown = page == CALL_METRICS ? server->options.config->metrics_topics : 0;
    return (struct cmd){
        .kind = CMD_TOPICS,
        .topic = {.max = shown ? (uint32_t)shown : 1, /* at least, for the statistics */
                  .stats = true,
                  .due_within = page == CALL_STATS},
    };
}

const struct engine_stats *page_stats(const struct reply *topics)
{
    static const struct engine_stats none;
    return topics->stats ? topics->stats : &none;
}

/* ---- pages that are one text ---- */

static void healthz_write(struct server *server, const struct reply *topics, struct buf *out)
{
    (void)server; /* whoever answers is alive */
    (void)topics;
    buf_add_str(out, "ok\n");
}

/* For people who open the port in a browser. */
static void root_write(struct server *server, const struct reply *topics, struct buf *out)
{
    (void)server;
    (void)topics;
    buf_addf(out,
             "{\"server\":\"laterd\",\"version\":\"%s\",\"what\":\"a delay queue: hand it a job "
             "now, get it back at its due time\",\"api\":\"/v1\",\"openapi\":\"/v1/openapi.json\","
             "\"pages\":[\"/healthz\",\"/readyz\",\"/metrics\",\"/v1/stats\",\"/v1/"
             "due?within=1h,1d\",\"/v1/limits\","
             "\"/v1/topics\",\"/v1/cluster\",\"/v1/journal\"]}\n",
             LATERD_VERSION);
}

static void limits_write(struct server *server, const struct reply *topics, struct buf *out)
{
    (void)topics;
    const struct server_options *options = &server->options;
    const struct {
        const char *name;
        int64_t value;
    } limits[] = {
        {"batch_jobs", options->api.batch_jobs},
        {"body_bytes", options->api.body_bytes},
        {"request_bytes", (int64_t)options->http.body_bytes},
        {"reserve_topics", options->api.reserve_topics},
        {"reserve_max", options->api.batch_jobs},
        {"list_limit", options->api.batch_jobs},
        {"wait_ms", options->api.wait_us / 1000},
        {"ttr_ms", options->api.ttr_max_us / 1000},
        {"default_ttr_ms", options->api.ttr_us / 1000},
        {"json_depth", options->api.json_depth},
        {"id_bytes", JOB_ID_MAX},
        {"topic_bytes", TOPIC_NAME_MAX},
        {"content_type_bytes", CONTENT_TYPE_MAX},
        {"retry_steps", RETRY_STEPS_MAX},
        {"beanstalk_job_bytes", options->config->job_bytes},
    };
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        buf_addf(out, "%c\"%s\":%lld", i ? ',' : '{', limits[i].name, (long long)limits[i].value);
    buf_add_char(out, '}');
}

void page_add_text(struct buf *out, const char *name, const char *text)
{
    buf_addf(out, ",\"%s\":", name);
    if (text[0])
        json_add_text(out, bytes_str(text), JSON_STYLE_PLAIN);
    else
        buf_add_str(out, "null");
}

/* By call_kind; all are answered with 200. */
static const struct page {
    const char *content_type;
    void (*write)(struct server *server, const struct reply *topics, struct buf *out);
} pages[] = {
    [CALL_HEALTHZ] = {"text/plain; charset=utf-8", healthz_write},
    [CALL_METRICS] = {METRICS_CONTENT_TYPE, metrics_write},
    [CALL_STATS] = {"application/json", stats_write},
    [CALL_ROOT] = {"application/json", root_write},
    [CALL_LIMITS] = {"application/json", limits_write},
    [CALL_CLUSTER] = {"application/json", cluster_write},
    [CALL_JOURNAL] = {"application/json", journal_write},
};

void page_write(struct server *server, enum call_kind kind, const struct response_format *format,
                const struct reply *topics, struct buf *out)
{
    if (kind == CALL_READYZ) {
        ready_page(server, format, out);
        return;
    }
    if (kind == CALL_OPENAPI) {
        respond(server, format, 200, "application/json", api_openapi(), out);
        return;
    }
    CHECK((size_t)kind < sizeof(pages) / sizeof(pages[0]) && pages[kind].write);
    struct buf body = {0};
    pages[kind].write(server, topics, &body);
    respond(server, format, 200, pages[kind].content_type, buf_bytes(&body), out);
    buf_fini(&body);
}
