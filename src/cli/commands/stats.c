/*
 * later stats: the server's figures, once; and the same as text for later top.
 */
#include "cli/stats.h"
#include "cli/screen.h"
#include "cli/show.h"
#include "cli/text.h"

enum { STATS_OLD_S = 3 }; /* sums of an engine that sums rarely are as old in good times */

static const char *const totals[STATS_TOTALS] = {"pushed",   "reserved", "finished", "timeouts",
                                                 "released", "deleted",  "buried",   "kicked"};

static void add_count(struct buf *out, const char *name, uint64_t count)
{
    char room[TEXT_ROOM];
    buf_addf(out, "  %s %s", name, count_text(count, room));
}

/* Names above their numbers, which stay in their columns while they grow. */
static void add_names(struct buf *out, const char *const *names, size_t count)
{
    buf_addf(out, "%-10s", "");
    for (size_t i = 0; i < count; i++)
        buf_addf(out, "%11s", names[i]);
    buf_add_char(out, '\n');
}

static void add_counts(struct buf *out, const json_t *stats, const char *title, const char *group,
                       const char *const *names, size_t count)
{
    const json_t *object = json_object_get(stats, group);
    char room[TEXT_ROOM];
    buf_addf(out, "%-10s", title);
    for (size_t i = 0; i < count; i++)
        buf_addf(out, " %10s", count_text(show_count(object, names[i]), room));
    buf_add_char(out, '\n');
}

static double real_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void add_store(struct buf *out, const json_t *stats)
{
    const json_t *store = json_object_get(stats, "store");
    char disk[TEXT_ROOM], live[TEXT_ROOM], syncs[TEXT_ROOM];
    struct buf kind = {0};
    double age_s = store ? real_of(store, "stats_age_ms") / 1000 : 0;
    if (age_s >= STATS_OLD_S)
        buf_addf(out, "%-10s  jobs and totals are those of %.0f s ago: /readyz tells why\n",
                 "store", age_s);
    if (!store || strcmp(show_string(store, "kind"), "shared") == 0)
        return; /* another engine has other figures */
    uint64_t segments = show_count(store, "segments"), sync_count = show_count(store, "syncs");
    buf_addf(out, "%-10s  %s: %s on disk, %s live, %llu segment%s, %s sync%s of %.2f ms%s%s\n",
             "store", show_safe(store, "kind", &kind),
             size_text(show_count(store, "disk_bytes"), disk),
             size_text(show_count(store, "live_bytes"), live), (unsigned long long)segments,
             plural(segments), count_text(sync_count, syncs), plural(sync_count),
             real_of(store, "sync_ms_avg"),
             json_is_true(json_object_get(store, "full")) ? "  FULL: pushes are refused" : "",
             json_is_true(json_object_get(store, "failed")) ? "  FAILED: restart laterd" : "");
    buf_fini(&kind);
}

/* A count that takes up to `width` bytes: "1,234,567" or "1,234K". */
static const char *fitting(uint64_t count, size_t width, char *room)
{
    static const char units[] = "KMGTPE";
    const char *text = count_text(count, room);
    for (size_t i = 0; strlen(text) > width && units[i]; i++) {
        char digits[TEXT_ROOM];
        count /= 1000;
        (void)snprintf(room, TEXT_ROOM, "%s%c", count_text(count, digits), units[i]); /* it fits */
        text = room;
    }
    return text;
}

/* How the totals are laid out: a label, then columns of one width, in one or more rows. */
struct totals_layout {
    int label, width;
    size_t row; /* columns in a row */
};

static void add_total_rates(struct buf *out, const json_t *object,
                            const struct stats_sample *before, double seconds,
                            const struct totals_layout *layout, size_t first)
{
    char room[TEXT_ROOM];
    buf_addf(out, "%-*s", layout->label, "a second");
    for (size_t i = first; i < first + layout->row; i++) {
        uint64_t now = show_count(object, totals[i]);
        /* The total has decreased: the server was restarted in between. */
        double rate = now < before->totals[i] ? 0 : (double)(now - before->totals[i]) / seconds;
        if (rate < 100000)
            buf_addf(out, " %*.1f", layout->width - 1, rate);
        else
            buf_addf(out, " %*s", layout->width - 1,
                     fitting((uint64_t)rate, (size_t)layout->width - 1, room));
    }
    buf_add_char(out, '\n');
}

/* Eight columns of 11 if there is room, of 9 on 80 columns; two rows of four on fewer. */
static void add_totals(struct buf *out, const json_t *stats, const struct stats_sample *before,
                       unsigned columns)
{
    const json_t *object = json_object_get(stats, "totals");
    double seconds = (double)((int64_t)show_count(stats, "now_ms") - before->at_ms) / 1000;
    bool wide = columns == 0 || columns >= 98;
    struct totals_layout layout = {.label = wide ? 10 : 8,
                                   .width = wide ? 11 : 9,
                                   .row = wide || columns >= 80 ? STATS_TOTALS : STATS_TOTALS / 2};
    char room[TEXT_ROOM];
    for (size_t first = 0; first < STATS_TOTALS; first += layout.row) {
        buf_addf(out, "%-*s", layout.label, "");
        for (size_t i = first; i < first + layout.row; i++)
            buf_addf(out, "%*s", layout.width, totals[i]);
        buf_addf(out, "\n%-*s", layout.label, "totals");
        for (size_t i = first; i < first + layout.row; i++)
            buf_addf(out, " %*s", layout.width - 1,
                     fitting(show_count(object, totals[i]), (size_t)layout.width - 1, room));
        buf_add_char(out, '\n');
        if (before->valid && seconds > 0)
            add_total_rates(out, object, before, seconds, &layout, first);
    }
}

void stats_add(struct buf *out, const json_t *stats, const struct stats_sample *before,
               unsigned columns)
{
    static const char *const states[] = {"delayed", "ready", "reserved", "buried"};
    static const char *const spans[] = {"1m", "5m", "1h", "1d"};
    char up[TEXT_ROOM], memory[TEXT_ROOM];
    buf_add_str(out, "laterd ");
    show_value(stats, "version", out);
    buf_addf(out, ", up %s, %s%s\n",
             duration_text((int64_t)show_count(stats, "uptime_ms") * 1000, up),
             size_text(show_count(stats, "memory_bytes"), memory),
             json_is_false(json_object_get(stats, "ready")) ? ", NOT READY" : "");
    add_names(out, states, 4);
    add_counts(out, stats, "jobs", "jobs", states, 4);
    add_names(out, spans, 4);
    add_counts(out, stats, "due within", "due_within", spans, 4);
    show_lateness(stats, 11, out);
    buf_addf(out, "%-10s", "clients");
    add_count(out, "connections", show_count(stats, "connections"));
    add_count(out, "waiting", show_count(stats, "waiting"));
    add_count(out, "topics", show_count(stats, "topics"));
    buf_add_char(out, '\n');
    add_totals(out, stats, before, columns);
    add_store(out, stats);
}

void stats_remember(struct stats_sample *look, const json_t *stats)
{
    const json_t *object = json_object_get(stats, "totals");
    for (size_t i = 0; i < STATS_TOTALS; i++)
        look->totals[i] = show_count(object, totals[i]);
    look->at_ms = (int64_t)show_count(stats, "now_ms");
    look->valid = true;
}

static int run_stats(struct cli *cli, int argc, char **argv)
{
    const struct stats_sample none = {0};
    struct buf out = {0};
    json_t *stats = NULL;
    cli_only_words(cli, argc, argv, 0, INT32_MAX);
    if (optind < argc)
        cli_usage(cli, "one word too many: '%s'; a topic's figures: later topics %s", argv[optind],
                  argv[optind]);
    int code = cli_call(cli, "GET", "/v1/stats", NULL, &stats);
    if (code == EXIT_DONE && cli->json)
        cli_print_stats(stats);
    else if (code == EXIT_DONE)
        stats_add(&out, stats, &none, cli->terminal ? screen_size().columns : 0);
    cli_flush(&out);
    buf_fini(&out);
    json_decref(stats);
    return code;
}

const struct command command_stats = {
    .name = "stats",
    .synopsis = "",
    .summary = "Show the whole server's figures, once",
    .help = "Lateness is from the due time to the hand-over: it grows, too, while nobody waits\n"
            "for jobs. Each percentile is the upper bound of a bucket: up to 43 % more than the\n"
            "jobs' own, and above 26 seconds up to twice as much.\n"
            "\nExample:\n"
            "  later stats --json | jq .due_within\n",
    .run = run_stats,
};
