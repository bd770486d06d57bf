/* /v1/journal, and the same as metrics: how far a restore and a resync are. */
#include "proto/json.h"
#include "server/admin/pages.h"
#include "server/server.h"

static void add_count(struct buf *out, const char *name, uint64_t value)
{
    buf_addf(out, ",\"%s\":%llu", name, (unsigned long long)value);
}

/* How long it has gone on, or took. */
static void add_span(const struct server *server, struct buf *out, int64_t begun_us,
                     int64_t ended_us)
{
    int64_t until_us = ended_us ? ended_us : server->loop->now_us;
    add_count(out, "ms", (uint64_t)(until_us > begun_us ? until_us - begun_us : 0) / 1000);
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
        add_count(out, "rows", counts->rows);
        add_count(out, "created", counts->created);
        add_count(out, "kept", counts->kept);
        add_count(out, "refused", counts->refused);
        add_span(server, out, counts->begun_us, counts->ended_us);
    }
    buf_add_char(out, '}');
}

static void add_resync(const struct server *server, struct buf *out)
{
    static const char *const names[] = {"none", "running", "done", "failed"};
    struct journal_control *control = server->options.journal;
    struct resync_status status = {.state = RESYNC_NONE};
    if (control)
        control->verbs->resync_status(control, &status);
    buf_addf(out, "{\"state\":\"%s\"", names[status.state]);
    if (status.state != RESYNC_NONE) {
        add_count(out, "of", status.jobs_total);
        add_count(out, "jobs", status.jobs);
        add_count(out, "rows", status.rows);
        add_count(out, "closed", status.closed);
        add_count(out, "unread", status.unread);
        add_span(server, out, status.begun_us, status.ended_us);
        buf_add_str(out, ",\"why\":");
        if (status.why[0])
            json_add_text(out, bytes_str(status.why), JSON_STYLE_PLAIN);
        else
            buf_add_str(out, "null");
    }
    buf_add_char(out, '}');
}

void journal_write(struct server *server, struct buf *out)
{
    buf_addf(out, "{\"journal\":%s,\"restore\":", server->options.restore ? "true" : "false");
    add_restore(server, out);
    buf_add_str(out, ",\"resync\":");
    add_resync(server, out);
    buf_add_str(out, "}\n");
}

void journal_pages_describe(const struct server *server, struct metric_sink *sink)
{
    const struct restore_counts *counts = &server->restored;
    if (!server->options.restore)
        return;
    metric_gauge(sink, "restoring", "1 while all jobs of the journal are being restored.",
                 counts->runs);
    metric_counter(sink, "restore_rows_total", "Rows of the journal that restores have read.",
                   counts->all_rows);
    metric_counter(sink, "restore_created_total", "Jobs that restores have brought back.",
                   counts->all_created);
    metric_counter(sink, "restore_kept_total",
                   "Rows that restores have skipped, as their jobs were there.", counts->all_kept);
    metric_counter(sink, "restore_refused_total",
                   "Rows that restores have read and the queue has refused.", counts->all_refused);
}
