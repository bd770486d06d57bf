#include "server/admin/pages.h"

#include "base/mem.h"
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
    uint32_t shown = (uint32_t)server->options.config->metrics_topics;
    return (struct cmd){
        .kind = CMD_TOPICS,
        .topic = {.max = shown ? shown : 1, .stats = true, .due_within = page == CALL_STATS},
    };
}

const struct engine_stats *page_stats(const struct reply *topics)
{
    static const struct engine_stats none;
    return topics->stats ? topics->stats : &none;
}

static void metrics_page(struct server *server, const struct response_format *format,
                         const struct reply *topics, struct buf *out)
{
    struct buf body = {0};
    metrics_write(server, topics, &body);
    respond(server, format, 200, "text/plain; version=0.0.4; charset=utf-8", buf_bytes(&body), out);
    buf_fini(&body);
}

static void stats_page(struct server *server, const struct response_format *format,
                       const struct reply *topics, struct buf *out)
{
    struct buf body = {0};
    stats_write(server, topics, &body);
    respond(server, format, 200, "application/json", buf_bytes(&body), out);
    buf_fini(&body);
}

/* For people who open the port in a browser. */
static void root_page(struct server *server, const struct response_format *format, struct buf *out)
{
    struct buf body = {0};
    buf_addf(&body,
             "{\"server\":\"laterd\",\"version\":\"%s\",\"what\":\"a delay queue: hand it a job "
             "now, get it back at its due time\",\"api\":\"/v1\",\"openapi\":\"/v1/openapi.json\","
             "\"pages\":[\"/healthz\",\"/readyz\",\"/metrics\",\"/v1/stats\",\"/v1/limits\",\"/v1/"
             "cluster\",\"/v1/journal\"]}\n",
             LATERD_VERSION);
    respond(server, format, 200, "application/json", buf_bytes(&body), out);
    buf_fini(&body);
}

static void limits_page(struct server *server, const struct response_format *format,
                        struct buf *out)
{
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
    struct buf body = {0};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        buf_addf(&body, "%c\"%s\":%lld", i ? ',' : '{', limits[i].name, (long long)limits[i].value);
    buf_add_char(&body, '}');
    respond(server, format, 200, "application/json", buf_bytes(&body), out);
    buf_fini(&body);
}

static void cluster_page(struct server *server, const struct response_format *format,
                         struct buf *out)
{
    struct buf body = {0};
    cluster_write(server, &body);
    respond(server, format, 200, "application/json", buf_bytes(&body), out);
    buf_fini(&body);
}

static void journal_page(struct server *server, const struct response_format *format,
                         struct buf *out)
{
    struct buf body = {0};
    journal_write(server, &body);
    respond(server, format, 200, "application/json", buf_bytes(&body), out);
    buf_fini(&body);
}

void page_add_text(struct buf *out, const char *name, const char *text)
{
    buf_addf(out, ",\"%s\":", name);
    if (text[0])
        json_add_text(out, bytes_str(text), JSON_STYLE_PLAIN);
    else
        buf_add_str(out, "null");
}

void page_write(struct server *server, enum call_kind kind, const struct response_format *format,
                const struct reply *topics, struct buf *out)
{
    switch (kind) {
    case CALL_READYZ: ready_page(server, format, out); break;
    case CALL_METRICS: metrics_page(server, format, topics, out); break;
    case CALL_STATS: stats_page(server, format, topics, out); break;
    case CALL_ROOT: root_page(server, format, out); break;
    case CALL_LIMITS: limits_page(server, format, out); break;
    case CALL_CLUSTER: cluster_page(server, format, out); break;
    case CALL_JOURNAL: journal_page(server, format, out); break;
    case CALL_OPENAPI: respond(server, format, 200, "application/json", api_openapi(), out); break;
    case CALL_HEALTHZ:
    case CALL_CMD:
    case CALL_BATCH:
    case CALL_CLEAR:
    case CALL_REPLAY:
    case CALL_TEST:
    case CALL_LIST:
    case CALL_DELETE:
    case CALL_RESYNC:
    case CALL_RESTORE:
    case CALL_CLEAR_ALL:
    case CALL_PROBLEM:
        respond(server, format, 200, "text/plain; charset=utf-8", BYTES("ok\n"), out);
        break;
    }
}

static void add_name(struct buf *out, const char *name)
{
    if (out->at[out->len - 1] != '{')
        buf_add_char(out, ',');
    buf_addf(out, "\"%s\":", name);
}

static void add_field(struct buf *out, const char *name, uint64_t number)
{
    add_name(out, name);
    buf_addf(out, "%llu", (unsigned long long)number);
}

static void add_ms(struct buf *out, const char *name, int64_t us)
{
    add_name(out, name);
    buf_addf(out, "%lld.%03lld", (long long)(us / 1000), (long long)(us % 1000));
}

static void add_due(const uint64_t *counts, struct buf *out)
{
    static const char *const names[STATS_SPANS] = {"1m", "5m", "1h", "1d"};
    buf_add_str(out, ",\"due_within\":{");
    for (int i = 0; i < STATS_SPANS; i++)
        add_field(out, names[i], counts[i]);
    buf_add_char(out, '}');
}

static void add_fact(struct metric_sink *sink, const struct fact *fact)
{
    struct buf *out = ((struct text_sink *)sink)->out;
    switch (fact->type) {
    case FACT_COUNT: add_field(out, fact->name, fact->value); break;
    case FACT_DURATION: add_ms(out, fact->name, (int64_t)fact->value); break;
    case FACT_FLAG:
        add_name(out, fact->name);
        buf_add_str(out, fact->value ? "true" : "false");
        break;
    case FACT_TEXT:
        if (!bytes_is_utf8(bytes_str(fact->text))) /* JSON has no other text */
            break;
        add_name(out, fact->name);
        json_add_text(out, bytes_str(fact->text), JSON_STYLE_PLAIN);
        break;
    }
}

static void add_store(const struct server *server, struct buf *out)
{
    struct text_sink sink = {.sink.fact = add_fact, .out = out};
    buf_add_str(out, ",\"store\":{");
    server->engine->verbs->describe(server->engine, &sink.sink);
    buf_add_char(out, '}');
}

void stats_write(struct server *server, const struct reply *topics, struct buf *out)
{
    const struct engine_stats *totals = page_stats(topics);
    bool ready = !server_health(server);
    buf_addf(out, "{\"version\":\"%s\"", LATERD_VERSION);
    add_field(out, "uptime_ms", (uint64_t)((server->loop->now_us - server->started_us) / 1000));
    add_field(out, "now_ms", (uint64_t)(server->loop->now_us / 1000));
    buf_addf(out, ",\"ready\":%s,\"jobs\":{", ready ? "true" : "false");
    for (enum job_state state = JOB_DELAYED; state < JOB_STATES; state++)
        add_field(out, job_state_name(state), totals->jobs[state]);
    buf_add_char(out, '}');
    add_field(out, "topics", totals->topics);
    add_field(out, "waiting", totals->waiters);
    add_field(out, "connections", server_sessions(server));
    add_field(out, "memory_bytes", mem_used());
    buf_add_str(out, ",\"totals\":{");
    add_field(out, "pushed", totals->pushed);
    add_field(out, "reserved", totals->reserved);
    add_field(out, "finished", totals->finished);
    add_field(out, "deleted", totals->deleted);
    add_field(out, "timeouts", totals->timeouts);
    add_field(out, "released", totals->released);
    add_field(out, "buried", totals->buried);
    add_field(out, "kicked", totals->kicked);
    buf_add_char(out, '}');
    add_due(totals->due_within, out);
    api_add_lateness(out, &totals->lateness, server->loop->now_us);
    add_store(server, out);
    buf_add_char(out, '}');
}
