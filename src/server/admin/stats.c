/* The JSON of /v1/stats, for `later stats` and `later top`. */
#include "base/mem.h"
#include "server/admin/pages.h"
#include "server/door.h"

/* Facts of the engine as members of an object. */
struct fact_writer {
    struct metric_sink sink;
    struct buf *out;
};

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
    struct buf *out = ((struct fact_writer *)sink)->out; /* its first member */
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
    struct fact_writer writer = {.sink.fact = add_fact, .out = out};
    buf_add_str(out, ",\"store\":{");
    server->engine->verbs->describe(server->engine, &writer.sink);
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
