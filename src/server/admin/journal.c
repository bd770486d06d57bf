/* /v1/journal: the health of the journal, and the progress of restores and resyncs; also the
   metrics of restores. */
#include "server/admin/pages.h"
#include "server/server.h"

static void add_count(struct buf *out, const char *name, uint64_t value)
{
    buf_addf(out, ",\"%s\":%llu", name, (unsigned long long)value);
}

/* Adds how long it has been running, or took. */
static void add_span(const struct server *server, struct buf *out, const char *name,
                     int64_t begun_us, int64_t ended_us)
{
    int64_t until_us = ended_us ? ended_us : server->loop->now_us;
    add_count(out, name, (uint64_t)(until_us > begun_us ? until_us - begun_us : 0) / 1000);
}

static const char *restore_state(const struct restore_counts *counts)
{
    if (!counts->begun_us)
        return "none";
    return counts->runs ? "running" : counts->failed ? "failed" : "done";
}

static void add_restore(const struct server *server, struct buf *out)
{
    const struct restore_counts *counts = &server->restored;
    buf_addf(out, "{\"state\":\"%s\"", restore_state(counts));
    if (counts->begun_us) {
        add_count(out, "of", counts->of);
        add_count(out, "rows", counts->last.rows);
        add_count(out, "created", counts->last.created);
        add_count(out, "kept", counts->last.kept);
        add_count(out, "refused", counts->last.refused);
        add_span(server, out, "ms", counts->begun_us, counts->ended_us);
    }
    buf_add_char(out, '}');
}

static void add_flag(struct buf *out, const char *name, bool value)
{
    buf_addf(out, ",\"%s\":%s", name, value ? "true" : "false");
}

static void add_resync(const struct server *server, struct buf *out)
{
    static const char *const names[] = {[RESYNC_NONE] = "none",
                                        [RESYNC_RUNS] = "running",
                                        [RESYNC_DONE] = "done",
                                        [RESYNC_FAILED] = "failed"};
    static const char *const steps[] = {[RESYNC_STEP_WAITS] = "waits",
                                        [RESYNC_STEP_JOBS] = "jobs",
                                        [RESYNC_STEP_ROWS] = "rows",
                                        [RESYNC_STEP_COMMITS] = "commits"};
    struct journal_control *control = server->options.journal;
    struct resync_status status = {.state = RESYNC_NONE};
    if (control)
        control->verbs->resync_status(control, &status);
    buf_addf(out, "{\"state\":\"%s\"", names[status.state]);
    if (status.state != RESYNC_NONE) {
        page_add_text(out, "step", status.state == RESYNC_RUNS ? steps[status.step] : "");
        add_count(out, "of", status.jobs_total);
        add_count(out, "jobs", status.jobs);
        add_count(out, "rows_of", status.rows_total);
        add_count(out, "rows", status.rows);
        add_count(out, "closed", status.closed);
        add_count(out, "unread", status.unread);
        add_span(server, out, "ms", status.begun_us, status.ended_us);
        page_add_text(out, "why", status.why);
    }
    buf_add_char(out, '}');
}

static void add_partitions(struct journal_control *control, const struct journal_health *health,
                           struct buf *out)
{
    if (!control->verbs->partition) {
        buf_add_str(out, ",\"partitions\":null");
        return;
    }
    buf_add_str(out, ",\"partitions\":[");
    for (uint32_t i = 0; i < health->partitions; i++) {
        struct journal_partition partition;
        control->verbs->partition(control, i, &partition);
        buf_addf(out, "%s{\"partition\":%u", i ? "," : "", i);
        add_count(out, "cursor", partition.entry);
        if (partition.knows_lag) {
            add_count(out, "entries", partition.lag_entries);
            add_count(out, "bytes", partition.lag_bytes);
        } else {
            buf_add_str(out, ",\"entries\":null,\"bytes\":null");
        }
        add_flag(out, "refuses_pushes", partition.refuses_pushes);
        buf_add_char(out, '}');
    }
    buf_add_char(out, ']');
}

static void add_lag(const struct journal_health *health, struct buf *out)
{
    if (!health->knows_lag) {
        buf_add_str(out, ",\"lag\":null");
        return;
    }
    buf_addf(out, ",\"lag\":{\"entries\":%llu", (unsigned long long)health->lag_entries);
    add_count(out, "bytes", health->lag_bytes);
    add_count(out, "seconds", (uint64_t)health->lag_us / 1000000);
    buf_add_char(out, '}');
}

static void add_health(const struct server *server, struct buf *out)
{
    static const char *const states[] = {[JOURNAL_STATE_WRITES] = "writes",
                                         [JOURNAL_STATE_WAITS] = "waits",
                                         [JOURNAL_STATE_FENCED] = "fenced",
                                         [JOURNAL_STATE_OUT_OF_STEP] = "out_of_step",
                                         [JOURNAL_STATE_ELSEWHERE] = "elsewhere"};
    const struct config *config = server->options.config;
    struct journal_control *control = server->options.journal;
    struct journal_health health;
    if (!control) {
        buf_add_str(out, ",\"state\":\"none\"");
        return;
    }
    control->verbs->health(control, &health);
    buf_addf(out, ",\"state\":\"%s\"", states[health.state]);
    add_span(server, out, "state_ms", health.since_us, 0);
    page_add_text(out, "error", health.error);
    page_add_text(out, "hint", health.hint);
    page_add_text(out, "writer", health.writer);
    add_flag(out, "refuses_pushes", health.refuses_pushes);
    page_add_text(out, "mode", config->journal_mode == JOURNAL_MODE_BEFORE ? "before" : "after");
    page_add_text(out, "on_lag",
                  config->journal_on_lag == JOURNAL_ON_LAG_REFUSE ? "refuse" : "detach");
    add_lag(&health, out);
    if (health.knows_cursor) {
        add_count(out, "cursor", health.cursor);
        add_count(out, "epoch", health.epoch);
    } else {
        buf_add_str(out, ",\"cursor\":null,\"epoch\":null");
    }
    add_count(out, "rejected", health.rejected);
    add_partitions(control, &health, out);
}

void journal_write(struct server *server, const struct reply *topics, struct buf *out)
{
    (void)topics;
    buf_addf(out, "{\"journal\":%s", server->options.restore ? "true" : "false");
    add_health(server, out);
    buf_add_str(out, ",\"restore\":");
    add_restore(server, out);
    buf_add_str(out, ",\"resync\":");
    add_resync(server, out);
    buf_add_str(out, "}\n");
}

void restores_describe(const struct server *server, struct metric_sink *sink)
{
    const struct restore_counts *counts = &server->restored;
    if (!server->options.restore)
        return;
    metric_gauge(sink, "restoring", "1 while all jobs of the journal are being restored.",
                 counts->runs);
    metric_counter(sink, "restore_rows_total", "Rows of the journal that restores have read.",
                   counts->all.rows);
    metric_counter(sink, "restore_created_total", "Jobs that restores have brought back.",
                   counts->all.created);
    metric_counter(sink, "restore_kept_total",
                   "Rows that restores have skipped, as their jobs were there.", counts->all.kept);
    metric_counter(sink, "restore_refused_total",
                   "Rows that restores have read and the queue has refused.", counts->all.refused);
}
