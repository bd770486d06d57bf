#include "engine/embedded/describe.h"
#include "base/hex.h"
#include "store/far.h"
#include "store/format.h"
#include "store/stats.h"

#include <string.h>

/* ---- metrics ---- */

static int64_t sync_bound_us(unsigned bucket)
{
    return bucket == SYNC_BUCKETS - 1 ? INT64_MAX : (int64_t)16 << bucket;
}

static void describe_syncs(const struct store_stats *stats, struct metric_sink *sink)
{
    struct durations durations = {stats->sync_us, SYNC_BUCKETS, sync_bound_us, stats->sync_us_sum};
    sink->metric(sink, &(struct metric){.name = "sync_seconds",
                                        .help = "How long the disk took to make a batch durable.",
                                        .type = METRIC_HISTOGRAM,
                                        .durations = &durations});
}

static void describe_history(const struct store_stats *stats, struct metric_sink *sink)
{
    metric_gauge(sink, "history_files", "Files of what happened to jobs.", stats->history_files);
    metric_gauge(sink, "history_bytes", "Bytes of them.", stats->history_bytes);
    metric_gauge(sink, "history_entries", "Things that happened, kept in files and in memory.",
                 stats->history_entries);
    metric_gauge(sink, "history_memory_bytes", "Memory for those that are not in files yet.",
                 stats->history_table_bytes);
    metric_gauge(sink, "history_oldest_seconds",
                 "When the oldest in a file happened, since the Unix epoch; 0: there is none.",
                 (uint64_t)(stats->history_oldest_us > 0 ? stats->history_oldest_us / 1000000 : 0));
    metric_counter(sink, "history_lost_total", "Those not kept, because the disk was full.",
                   stats->history_lost);
}

static void describe_metrics(const struct store *store, const struct store_stats *stats,
                             const struct core_totals *totals, struct metric_sink *sink)
{
    metric_gauge(sink, "wal_bytes", "Bytes of all log segments on disk.", stats->disk_bytes);
    metric_gauge(sink, "wal_live_bytes", "Bytes of them that live jobs need.", stats->live_bytes);
    metric_gauge(sink, "wal_segments", "Log segments on disk.", stats->segments);
    metric_counter(sink, "wal_written_bytes_total", "Bytes written to the log.",
                   stats->bytes_written);
    metric_counter(sink, "wal_batches_total", "Batches written to the log.", stats->batches);
    metric_counter(sink, "wal_records_total", "Records written to the log.", stats->records);
    metric_counter(sink, "checkpoints_total", "Segments cleaned and removed.", stats->checkpoints);
    metric_counter(sink, "reused_segments_total", "Cleaned segments whose files became spares.",
                   stats->segments_reused);
    metric_counter(sink, "carried_jobs_total", "Jobs written again by a checkpoint.",
                   stats->relocated_jobs);
    metric_gauge(sink, "damaged_segments", "Segments with damage, in the log or set aside.",
                 stats->damaged_segments);
    metric_counter(sink, "cold_reads_total",
                   "Bodies that were read from the disk, not from memory.", stats->cold_reads);
    metric_gauge(sink, "far_jobs", "Delayed jobs that are in slices on disk, not in memory.",
                 totals->far);
    metric_gauge(sink, "far_ready_jobs", "Ready jobs that are in slices on disk, not in memory.",
                 totals->far_ready);
    metric_gauge(sink, "far_buried_jobs", "Buried jobs that are in slices on disk, not in memory.",
                 totals->far_buried);
    metric_gauge(sink, "slices", "Files of far jobs.", stats->slices);
    metric_gauge(sink, "slice_bytes", "Bytes of them.", stats->slice_bytes);
    metric_gauge(sink, "far_waiting", "1 while far jobs that draw near wait for memory.",
                 stats->far_waits);
    metric_gauge(sink, "far_late_jobs", "Far jobs that are due and not in memory yet, about.",
                 stats->far_late_jobs);
    metric_counter(sink, "far_departed_total", "Jobs that left the log for a slice.",
                   stats->spilled_jobs);
    metric_counter(sink, "far_arrived_total", "Jobs that came back as they drew near.",
                   stats->loaded_jobs);
    if (stats->keeps_history)
        describe_history(stats, sink);
    metric_gauge(sink, "store_failed", "1 after a failed write: restart to recover.",
                 store_failed(store));
    metric_gauge(sink, "store_full",
                 "1 while the disk, or store.max_bytes, has no room for new jobs.",
                 store_full(store));
    describe_syncs(stats, sink);
}

/* ---- facts ---- */

static void describe_kind(struct metric_sink *sink, const char *kind)
{
    sink->fact(sink, &(struct fact){.name = "kind", .type = FACT_TEXT, .text = kind});
}

static void describe_facts(const struct store *store, const struct store_stats *stats,
                           struct metric_sink *sink)
{
    uint64_t sync_us_avg = stats->syncs ? stats->sync_us_sum / stats->syncs : 0;
    char id[2 * sizeof(struct store_id) + 1];
    hex_write(store_identity(store), sizeof(struct store_id), id);
    const struct fact facts[] = {
        {.name = "id", .type = FACT_TEXT, .text = id}, /* by which `later backup` knows it */
        {.name = "failed", .type = FACT_FLAG, .value = store_failed(store)},
        {.name = "full", .type = FACT_FLAG, .value = store_full(store)},
        {.name = "disk_bytes", .type = FACT_COUNT, .value = stats->disk_bytes},
        {.name = "live_bytes", .type = FACT_COUNT, .value = stats->live_bytes},
        {.name = "segments", .type = FACT_COUNT, .value = stats->segments},
        {.name = "syncs", .type = FACT_COUNT, .value = stats->syncs},
        {.name = "sync_ms_avg", .type = FACT_DURATION, .value = sync_us_avg},
    };
    describe_kind(sink, "embedded");
    for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
        sink->fact(sink, &facts[i]);
}

void embedded_describe(const struct core *core, const struct store *store, struct metric_sink *sink)
{
    struct store_stats stats = {0};
    struct core_totals totals;
    if (!store) {
        if (sink->fact)
            describe_kind(sink, "memory");
        return;
    }
    store_stats(store, &stats);
    core_totals(core, &totals);
    if (sink->metric)
        describe_metrics(store, &stats, &totals, sink);
    if (sink->fact)
        describe_facts(store, &stats, sink);
    if (sink->warning && stats.damaged_segments)
        sink->warning(sink, "damaged segments", stats.damaged_segments);
}

/* ---- statistics ---- */

static void add_log(const struct store *store, struct engine_log_stats *log)
{
    struct store_stats stats = {0};
    store_stats(store, &stats);
    *log = (struct engine_log_stats){
        .file_first = stats.segment_first,
        .file_last = stats.segment_tail,
        .file_bytes_max = stats.segment_bytes,
        .records_written = stats.records,
        .jobs_relocated = stats.relocated_jobs,
    };
}

/* `store`: that of far jobs; NULL: there are none. */
static void add_due(const struct core *core, const struct store *store, int64_t now_us,
                    uint64_t counts[STATS_SPANS])
{
    static const int64_t spans_us[STATS_SPANS] = {60000000, 300000000, 3600000000, 86400000000};
    int64_t until_us[STATS_SPANS];
    for (unsigned i = 0; i < STATS_SPANS; i++)
        until_us[i] = time_add(now_us, spans_us[i]);
    core_due_until(core, until_us, counts, STATS_SPANS);
    for (unsigned i = 0; store && i < STATS_SPANS; i++)
        counts[i] += store_far_due_until(store, until_us[i]);
}

void embedded_stats(const struct core *core, const struct store *store, int64_t now_us,
                    bool due_within, struct engine_stats *out_stats)
{
    struct core_totals totals;
    core_totals(core, &totals);
    *out_stats = (struct engine_stats){
        .urgent = totals.urgent,
        .topics = totals.topics,
        .waiters = totals.waiters,
        .pushed = totals.pushed,
        .reserved = totals.reserved,
        .finished = totals.finished,
        .deleted = totals.deleted,
        .timeouts = totals.timeouts,
        .released = totals.released,
        .buried = totals.buried,
        .kicked = totals.kicked,
        .lateness = totals.lateness,
        .lateness_histogram = totals.lateness_histogram,
    };
    memcpy(out_stats->jobs, totals.jobs, sizeof(totals.jobs));
    if (due_within)
        add_due(core, totals.far ? store : NULL, now_us, out_stats->due_within);
    if (store)
        add_log(store, &out_stats->log);
}
