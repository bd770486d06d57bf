/*
 * /metrics in the Prometheus text format. The number of topics shown one by one is bounded
 * (server.metrics_topics), and their text is written apart; all totals are over all topics.
 */
#include <stdio.h>

#include "base/mem.h"
#include "server/admin/pages.h"
#include "server/door.h"

static void family(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_addf(out, "# HELP laterd_%s %s\n# TYPE laterd_%s %s\n", name, help, name, type);
}

static void single(struct buf *out, const char *name, const char *type, const char *help,
                   uint64_t value)
{
    family(out, name, type, help);
    buf_addf(out, "laterd_%s %llu\n", name, (unsigned long long)value);
}

/* Microseconds as decimal seconds, exactly. */
static void add_seconds(struct buf *out, uint64_t us)
{
    buf_addf(out, "%llu.%06llu", (unsigned long long)(us / 1000000),
             (unsigned long long)(us % 1000000));
}

static void add_label(struct buf *out, struct bytes value)
{
    for (size_t i = 0; i < value.len; i++) {
        if (value.at[i] == '"' || value.at[i] == '\\')
            buf_add_char(out, '\\');
        if (value.at[i] == '\n')
            buf_add_str(out, "\\n");
        else
            buf_add_char(out, value.at[i]);
    }
}

static void histogram(struct buf *out, const char *name, const char *help,
                      const struct durations *durations)
{
    uint64_t seen = 0;
    family(out, name, "histogram", help);
    for (unsigned bucket = 0; bucket < durations->bucket_count; bucket++) {
        int64_t bound_us = durations->bound_us(bucket);
        seen += durations->counts[bucket];
        buf_addf(out, "laterd_%s_bucket{le=\"", name);
        if (bound_us == INT64_MAX)
            buf_add_str(out, "+Inf");
        else
            add_seconds(out, (uint64_t)bound_us);
        buf_addf(out, "\"} %llu\n", (unsigned long long)seen);
    }
    buf_addf(out, "laterd_%s_sum ", name);
    add_seconds(out, durations->sum_us);
    buf_addf(out, "\nlaterd_%s_count %llu\n", name, (unsigned long long)seen);
}

static void add_lateness(struct buf *out, const struct lateness_histogram *lateness)
{
    histogram(out, "lateness_seconds",
              "How long after its due time a job was handed to a consumer.",
              &(struct durations){lateness->counts, LATENESS_BUCKETS, lateness_bound_us,
                                  lateness->sum_us});
}

static void add_turns(struct buf *out, const struct server_counts *counts)
{
    histogram(
        out, "turn_seconds",
        "How long a turn of the event loop took: nothing else is served meanwhile.",
        &(struct durations){counts->turn_us, TURN_BUCKETS, turn_bound_us, counts->turn_us_sum});
}

struct metrics_writer {
    struct metric_sink sink;
    struct buf *out;
};

static void add_number(struct buf *out, const struct metric *metric, const char *type)
{
    if (!metric->more)
        family(out, metric->name, type, metric->help);
    buf_addf(out, "laterd_%s", metric->name);
    if (metric->broker) {
        buf_add_str(out, "{broker=\"");
        add_label(out, bytes_str(metric->broker));
        buf_add_str(out, "\"}");
    }
    buf_addf(out, " %llu\n", (unsigned long long)metric->value);
}

static void write_metric(struct metric_sink *sink, const struct metric *metric)
{
    struct buf *out = ((struct metrics_writer *)sink)->out;
    switch (metric->type) {
    case METRIC_GAUGE: add_number(out, metric, "gauge"); break;
    case METRIC_COUNTER: add_number(out, metric, "counter"); break;
    case METRIC_HISTOGRAM: histogram(out, metric->name, metric->help, metric->durations); break;
    }
}

/* Metrics that only this engine has, and those of the election. */
static void add_engine(struct server *server, struct buf *out)
{
    struct metrics_writer writer = {.sink.metric = write_metric, .out = out};
    server->engine->verbs->describe(server->engine, &writer.sink);
    cluster_describe(server, &writer.sink);
    restores_describe(server, &writer.sink);
}

static void add_totals(struct server *server, const struct engine_stats *totals, struct buf *out)
{
    family(out, "jobs", "gauge", "Live jobs by state.");
    for (enum job_state state = JOB_DELAYED; state < JOB_STATES; state++)
        buf_addf(out, "laterd_jobs{state=\"%s\"} %llu\n", job_state_name(state),
                 (unsigned long long)totals->jobs[state]);
    single(out, "pushed_total", "counter", "Jobs accepted.", totals->pushed);
    single(out, "reserved_total", "counter", "Reservations given.", totals->reserved);
    single(out, "finished_total", "counter", "Jobs finished.", totals->finished);
    single(out, "deleted_total", "counter", "Jobs deleted.", totals->deleted);
    single(out, "timeouts_total", "counter", "Reservations whose ttr ran out.", totals->timeouts);
    single(out, "released_total", "counter", "Reservations released.", totals->released);
    single(out, "buried_total", "counter", "Jobs buried.", totals->buried);
    single(out, "kicked_total", "counter", "Jobs kicked.", totals->kicked);
    single(out, "topics", "gauge", "Topics.", totals->topics);
    single(out, "waiting", "gauge", "Parked reserves.", totals->waiters);
    single(out, "connections", "gauge", "Open connections.", server_sessions(server));
    single(out, "connections_accepted_total", "counter", "Connections accepted.",
           server->counts.accepted);
    single(out, "connections_refused_total", "counter", "Connections over limits.connections.",
           server->counts.refused);
    single(out, "connections_timed_out_total", "counter", "Idle or slow connections closed.",
           server->counts.timed_out);
    single(out, "connections_evicted_total", "counter",
           "Connections closed because buffers took too much memory.", server->counts.evicted);
    single(out, "buffer_bytes", "gauge", "Memory of connections' buffers.", server->buffers.bytes);
    single(out, "undelivered_total", "counter", "Reservations given back: the client had gone.",
           server->counts.undelivered);
    single(out, "abandoned_total", "counter",
           "Reservations given back: their beanstalkd client ended its connection.",
           server->counts.abandoned);
    family(out, "intake_messages_total", "counter",
           "Messages that brokers brought to be jobs, by what became of them.");
    for (enum intake_verdict i = 0; i < INTAKE_VERDICTS; i++)
        buf_addf(out, "laterd_intake_messages_total{verdict=\"%s\"} %llu\n", intake_verdict_name(i),
                 (unsigned long long)server->counts.intake[i]);
    single(out, "turns_total", "counter", "Turns of the event loop.", server->counts.turns);
    single(out, "memory_bytes", "gauge", "Heap in use.", mem_used());
    family(out, "http_requests_total", "counter", "Requests answered, by HTTP status.");
    for (int status = 100; status < SERVER_STATUS_MAX; status++) {
        if (server->counts.requests[status])
            buf_addf(out, "laterd_http_requests_total{status=\"%d\"} %llu\n", status,
                     (unsigned long long)server->counts.requests[status]);
    }
}

/* Counts of the commands submitted by server_submit(). */
static void add_commands(const struct server_counts *counts, struct buf *out)
{
    family(out, "commands_total", "counter",
           "Commands given to the queue, by the protocol of who asked; server: laterd itself.");
    for (int row = 0; row <= PROTOCOL_KINDS; row++) {
        for (int kind = 0; kind < CMD_KINDS; kind++) {
            if (counts->commands[row][kind])
                buf_addf(out, "laterd_commands_total{protocol=\"%s\",command=\"%s\"} %llu\n",
                         row < PROTOCOL_KINDS ? protocols[row].name : "server",
                         cmd_traits((enum cmd_kind)kind)->name,
                         (unsigned long long)counts->commands[row][kind]);
        }
    }
}

static void add_push(const struct server *server, struct buf *out)
{
    const struct pump_counts *counts = pump_counts(server->pump_stage.pump);
    struct metrics_writer writer = {.sink.metric = write_metric, .out = out};
    single(out, "push_topics", "gauge", "Topics whose jobs laterd sends by itself.",
           counts->topics);
    single(out, "push_in_flight", "gauge", "Deliveries under way.", counts->in_flight);
    single(out, "push_memory_bytes", "gauge", "Memory of the jobs that are being delivered.",
           counts->bytes);
    single(out, "push_keyed_jobs", "gauge",
           "Jobs of ordered topics that have a place in the order of their key.", counts->keyed);
    family(out, "push_attempts_total", "counter", "Deliveries by what became of them.");
    for (enum outcome_kind kind = 0; kind < OUTCOME_KINDS; kind++)
        buf_addf(out, "laterd_push_attempts_total{outcome=\"%s\"} %llu\n", outcome_name(kind),
                 (unsigned long long)counts->outcomes[kind]);
    histogram(
        out, "push_seconds", "How long a delivery took, from sending to the answer.",
        &(struct durations){counts->took_us, PUMP_BUCKETS, pump_bound_us, counts->took_us_sum});
    family(out, "push_held_topics", "gauge", "Topics whose jobs are not sent now, and why.");
    for (enum held_why why = HELD_NOT + 1; why < HELD_WHYS; why++)
        buf_addf(out, "laterd_push_held_topics{why=\"%s\"} %u\n", held_why_name(why),
                 counts->held[why]);
    single(out, "push_returned_total", "counter",
           "Jobs reserved for a delivery and given back without an attempt.", counts->returned);
    single(out, "push_stale_total", "counter",
           "Deliveries whose lease had ended before their outcome was known.", counts->stale);
    single(out, "push_buried_total", "counter",
           "Jobs buried by deliveries: refused for good, or the retry schedule was used up.",
           counts->buried);
    single(out, "push_breakers_opened_total", "counter",
           "How often a receiver's circuit breaker has opened.", counts->opened);
    single(out, "push_targets_paused_total", "counter",
           "Targets that laterd has paused: they answered 410, or only failed for long.",
           counts->targets_paused);
    pump_describe_sinks(server->pump_stage.pump, &writer.sink);
}

static void add_beanstalk(const struct beanstalk_shared *beanstalk, struct buf *out)
{
    single(out, "beanstalk_connections", "gauge", "Open connections of beanstalkd clients.",
           beanstalk->connections);
    family(out, "beanstalk_commands_total", "counter", "Commands of beanstalkd clients.");
    for (int cmd = 0; cmd < BEANSTALK_CMDS; cmd++) {
        if (beanstalk->cmds[cmd])
            buf_addf(out, "laterd_beanstalk_commands_total{command=\"%s\"} %llu\n",
                     beanstalk_cmd_name((enum beanstalk_cmd)cmd),
                     (unsigned long long)beanstalk->cmds[cmd]);
    }
}

static void add_misdirected(const struct server *server, struct buf *out)
{
    family(out, "misdirected_total", "counter",
           "Requests refused: for another host, or of another protocol.");
    for (enum misdirected_kind kind = 0; kind < MISDIRECTED_KINDS; kind++)
        buf_addf(out, "laterd_misdirected_total{kind=\"%s\"} %llu\n", misdirected_name(kind),
                 (unsigned long long)server->misdirected.counts[kind]);
}

static void add_limits(struct server *server, struct buf *out)
{
    const struct server_options *options = &server->options;
    const struct {
        const char *name;
        uint64_t value;
    } limits[] = {
        {"jobs", options->limits.jobs},
        {"topics", options->limits.topics},
        {"waiters", options->limits.waiters},
        {"memory_bytes", options->limits.memory_bytes},
        {"buffer_bytes", server->buffers.max_bytes},
        {"body_bytes", options->api.body_bytes},
        {"beanstalk_body_bytes", (uint64_t)options->config->job_bytes},
        {"batch_jobs", options->api.batch_jobs},
        {"reserve_topics", options->api.reserve_topics},
        {"connections", (uint64_t)options->config->connections},
        {"request_bytes", options->http.body_bytes},
    };
    family(out, "limit", "gauge", "The configured limits.");
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        buf_addf(out, "laterd_limit{name=\"%s\"} %llu\n", limits[i].name,
                 (unsigned long long)limits[i].value);
}

/* ---- single topics ---- */

void metrics_topic_take(const struct server *server, const struct topic_view *topic,
                        struct metrics_topic *out_topic)
{
    int64_t now_us = server->loop->now_us, since_us = topic->oldest_ready_us;
    *out_topic = (struct metrics_topic){
        .name = topic->name,
        .pushed = topic->pushed,
        .reserved = topic->reserved,
        .finished = topic->finished,
        .oldest_ready_us = since_us && since_us < now_us ? (uint64_t)(now_us - since_us) : 0,
    };
    memcpy(out_topic->jobs, topic->jobs, sizeof(out_topic->jobs));
}

static void topic_row(struct buf *out, const char *name, struct bytes topic, const char *state,
                      uint64_t value)
{
    buf_addf(out, "laterd_%s{topic=\"", name);
    add_label(out, topic);
    if (state)
        buf_addf(out, "\",state=\"%s", state);
    buf_addf(out, "\"} %llu\n", (unsigned long long)value);
}

static void jobs_rows(struct buf *out, const struct metrics_topic *topic)
{
    for (enum job_state state = JOB_DELAYED; state < JOB_STATES; state++)
        topic_row(out, "topic_jobs", topic->name, job_state_name(state), topic->jobs[state]);
}

static void pushed_row(struct buf *out, const struct metrics_topic *topic)
{
    topic_row(out, "topic_pushed_total", topic->name, NULL, topic->pushed);
}

static void reserved_row(struct buf *out, const struct metrics_topic *topic)
{
    topic_row(out, "topic_reserved_total", topic->name, NULL, topic->reserved);
}

static void finished_row(struct buf *out, const struct metrics_topic *topic)
{
    topic_row(out, "topic_finished_total", topic->name, NULL, topic->finished);
}

static void oldest_row(struct buf *out, const struct metrics_topic *topic)
{
    buf_add_str(out, "laterd_topic_oldest_ready_seconds{topic=\"");
    add_label(out, topic->name);
    buf_add_str(out, "\"} ");
    add_seconds(out, topic->oldest_ready_us);
    buf_add_char(out, '\n');
}

/* A family's rows must be together. */
void metrics_topics_write(const struct metrics_page *first, bool more, struct buf *out)
{
    static const struct {
        const char *name, *type, *help;
        void (*rows)(struct buf *out, const struct metrics_topic *topic);
    } families[] = {
        {"topic_jobs", "gauge", "Live jobs by topic and state.", jobs_rows},
        {"topic_pushed_total", "counter", "Jobs accepted, by topic.", pushed_row},
        {"topic_reserved_total", "counter", "Reservations given, by topic.", reserved_row},
        {"topic_finished_total", "counter", "Jobs finished, by topic.", finished_row},
        {"topic_oldest_ready_seconds", "gauge",
         "How long the head of the ready queue has been due.", oldest_row},
    };
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        family(out, families[i].name, families[i].type, families[i].help);
        for (const struct metrics_page *page = first; page; page = page->next) {
            for (uint32_t topic = 0; topic < page->count; topic++)
                families[i].rows(out, &page->topics[topic]);
        }
    }
    single(out, "topics_not_shown", "gauge",
           "1 if there are more topics than server.metrics_topics.", more);
}

void metrics_write(struct server *server, const struct reply *topics, struct buf *out)
{
    const struct engine_stats *totals = page_stats(topics);
    family(out, "info", "gauge", "The version that runs.");
    buf_addf(out, "laterd_info{version=\"%s\"} 1\n", LATERD_VERSION);
    family(out, "ready", "gauge", "1 if pushes are accepted.");
    buf_addf(out, "laterd_ready %d\n", !server_health(server));
    family(out, "uptime_seconds", "gauge", "Since the start.");
    buf_add_str(out, "laterd_uptime_seconds ");
    add_seconds(out, (uint64_t)(server->loop->now_us - server->started_us));
    buf_add_char(out, '\n');
    add_totals(server, totals, out);
    add_commands(&server->counts, out);
    add_push(server, out);
    add_beanstalk(&server->beanstalk, out);
    add_misdirected(server, out);
    add_limits(server, out);
    add_lateness(out, &totals->lateness_histogram);
    add_turns(out, &server->counts);
    add_engine(server, out);
}
