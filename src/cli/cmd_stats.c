/*
 * later stats and later top: the server's figures, once or live. Both show GET /v1/stats; top
 * adds rates, which are differences between two looks, and a table of topics.
 */
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cli/show.h"
#include "cli/text.h"

enum { TOP_ROWS = 20 };

static const char *const totals[] = {"pushed",   "reserved", "finished", "deleted",
                                     "timeouts", "released", "buried",   "kicked"};
enum { TOTALS = sizeof(totals) / sizeof(totals[0]) };

/* What is remembered from the last look. */
struct look {
    uint64_t totals[TOTALS];
    int64_t at_ms;
    bool valid;
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    stopped = number;
}

static void add_count(struct buf *out, const char *name, uint64_t count)
{
    char room[TEXT_ROOM];
    buf_addf(out, "  %s %s", name, count_text(count, room));
}

static void add_counts(struct buf *out, const json_t *stats, const char *title, const char *group,
                       const char *const *names, size_t count)
{
    const json_t *object = json_object_get(stats, group);
    buf_addf(out, "%-10s", title);
    for (size_t i = 0; i < count; i++)
        add_count(out, names[i], show_count(object, names[i]));
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
    if (!store)
        return;
    buf_addf(out, "%-10s  %s: %s on disk, %s live, %llu segments, %s syncs of %.2f ms%s%s\n",
             "store", show_string(store, "kind"), size_text(show_count(store, "disk_bytes"), disk),
             size_text(show_count(store, "live_bytes"), live),
             (unsigned long long)show_count(store, "segments"),
             count_text(show_count(store, "syncs"), syncs), real_of(store, "sync_ms_avg"),
             json_is_true(json_object_get(store, "full")) ? "  FULL: pushes are refused" : "",
             json_is_true(json_object_get(store, "failed")) ? "  FAILED: restart laterd" : "");
}

static void add_rates(struct buf *out, const json_t *stats, const struct look *before)
{
    const json_t *object = json_object_get(stats, "totals");
    double seconds = (double)((int64_t)show_count(stats, "now_ms") - before->at_ms) / 1000;
    if (!before->valid || seconds <= 0)
        return;
    buf_addf(out, "%-10s", "a second");
    for (size_t i = 0; i < TOTALS; i++) {
        double rate = (double)(show_count(object, totals[i]) - before->totals[i]) / seconds;
        if (show_count(object, totals[i]) < before->totals[i])
            rate = 0; /* the server was restarted between the looks */
        buf_addf(out, rate < 100 ? "  %s %.1f" : "  %s %.0f", totals[i], rate);
    }
    buf_add_char(out, '\n');
}

static void add_stats(struct buf *out, const json_t *stats, const struct look *before)
{
    static const char *const states[] = {"delayed", "ready", "reserved", "buried"};
    static const char *const spans[] = {"1m", "5m", "1h", "1d"};
    const json_t *lateness = json_object_get(stats, "lateness_ms");
    char up[TEXT_ROOM], memory[TEXT_ROOM];
    buf_add_str(out, "laterd ");
    show_value(stats, "version", out);
    buf_addf(out, ", up %s, %s%s\n",
             duration_text((int64_t)show_count(stats, "uptime_ms") * 1000, up),
             size_text(show_count(stats, "memory_bytes"), memory),
             json_is_false(json_object_get(stats, "ready")) ? ", NOT READY" : "");
    add_counts(out, stats, "jobs", "jobs", states, 4);
    add_counts(out, stats, "due within", "due_within", spans, 4);
    buf_addf(out, "%-10s  p50 %.2f ms  p90 %.2f ms  p99 %.2f ms\n", "lateness",
             real_of(lateness, "p50"), real_of(lateness, "p90"), real_of(lateness, "p99"));
    buf_addf(out, "%-10s", "clients");
    add_count(out, "connections", show_count(stats, "connections"));
    add_count(out, "waiting", show_count(stats, "waiting"));
    add_count(out, "topics", show_count(stats, "topics"));
    buf_add_char(out, '\n');
    add_counts(out, stats, "totals", "totals", totals, TOTALS);
    add_rates(out, stats, before);
    add_store(out, stats);
}

static void remember(struct look *look, const json_t *stats)
{
    const json_t *object = json_object_get(stats, "totals");
    for (size_t i = 0; i < TOTALS; i++)
        look->totals[i] = show_count(object, totals[i]);
    look->at_ms = (int64_t)show_count(stats, "now_ms");
    look->valid = true;
}

static int run_stats(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {CLI_OPTIONS};
    const struct look none = {0};
    struct buf out = {0};
    json_t *stats = NULL;
    while (cli_option(cli, argc, argv, options) != -1)
        continue; /* only the common ones */
    cli_words(cli, argc, argv, 0, 0);
    int code = cli_call(cli, "GET", "/v1/stats", NULL, &stats);
    if (code == EXIT_DONE && cli->json)
        cli_print_json(stats);
    else if (code == EXIT_DONE)
        add_stats(&out, stats, &none);
    cli_flush(&out);
    buf_fini(&out);
    json_decref(stats);
    return code;
}

const struct command command_stats = {
    .name = "stats",
    .synopsis = "",
    .summary = "Show the whole server's figures, once",
    .help = "Example:\n"
            "  later stats --json | jq .due_within\n",
    .run = run_stats,
};

static void add_topics(struct buf *out, const json_t *answer)
{
    static const char *const names[] = {"TOPIC", "DELAYED", "READY", "RESERVED", "BURIED"};
    static const char *const keys[] = {"delayed", "ready", "reserved", "buried"};
    const json_t *topics = json_object_get(answer, "topics");
    struct table table = {.columns = 5, .right = {false, true, true, true, true}};
    const json_t *topic;
    size_t i;
    char room[TEXT_ROOM];
    for (size_t column = 0; column < 5; column++)
        table_cell_str(&table, names[column]);
    json_array_foreach(topics, i, topic)
    {
        if (i == TOP_ROWS)
            break;
        table_cell_str(&table, show_string(topic, "name"));
        for (size_t column = 0; column < 4; column++)
            table_cell_str(&table, count_text(show_count(topic, keys[column]), room));
    }
    buf_add_char(out, '\n');
    table_write(&table, out);
    if (json_array_size(topics) > TOP_ROWS)
        buf_addf(out, "… and %zu more: later topics\n", json_array_size(topics) - TOP_ROWS);
    table_fini(&table);
}

/* One look at the server. */
static int look_at(struct cli *cli, struct look *look, struct buf *out)
{
    json_t *stats = NULL, *topics = NULL;
    int code = cli_call(cli, "GET", "/v1/stats", NULL, &stats);
    if (code == EXIT_DONE)
        code = cli_call(cli, "GET", "/v1/topics?limit=1000", NULL, &topics);
    if (code == EXIT_DONE && cli->json) {
        json_object_set(stats, "topic_list", json_object_get(topics, "topics"));
        cli_print_json(stats);
    } else if (code == EXIT_DONE) {
        add_stats(out, stats, look);
        add_topics(out, topics);
    }
    if (code == EXIT_DONE)
        remember(look, stats);
    json_decref(stats);
    json_decref(topics);
    return code;
}

static void nap(int64_t us)
{
    const struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    (void)nanosleep(&time, NULL); /* cut short by a signal: that is what we want */
}

/* Draws again and again, over the old picture, until a signal ends it. */
static int live(struct cli *cli, int64_t every_us)
{
    const struct sigaction action = {.sa_handler = on_signal};
    struct look look = {0};
    struct buf page = {0}, frame = {0};
    int code = EXIT_DONE;
    (void)sigaction(SIGINT, &action, NULL);      /* cannot fail for these signals; */
    (void)sigaction(SIGTERM, &action, NULL);     /* the screen is put back at the end */
    (void)fputs("\x1b[?1049h\x1b[?25l", stdout); /* the other screen, without a cursor */
    while (!stopped && code == EXIT_DONE && !ferror(stdout)) {
        page.len = 0;
        code = look_at(cli, &look, &page);
        buf_add_str(&frame, "\x1b[H");
        for (size_t i = 0; i < page.len; i++) { /* each line wipes what was behind it */
            if (page.at[i] == '\n')
                buf_add_str(&frame, "\x1b[K");
            buf_add_char(&frame, page.at[i]);
        }
        buf_add_str(&frame, "\x1b[J");
        cli_flush(&frame);
        if (!stopped && code == EXIT_DONE)
            nap(every_us);
    }
    (void)fputs("\x1b[?25h\x1b[?1049l", stdout);
    buf_fini(&page);
    buf_fini(&frame);
    return code;
}

static int run_top(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {
        {"once", no_argument, NULL, 'o'}, {"every", required_argument, NULL, 'e'}, CLI_OPTIONS};
    bool once = false;
    int64_t every_us = 1000000;
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;) {
        switch (c) {
        case 'o': once = true; break;
        case 'e': every_us = cli_duration_us(cli, "--every", optarg); break;
        default: break;
        }
    }
    cli_words(cli, argc, argv, 0, 0);
    if (every_us < 100000)
        cli_usage(cli, "--every is at least 100ms");
    if (cli->terminal && !once && !cli->json)
        return live(cli, every_us);
    /* For a script: two looks a moment apart, so that there are rates; the second is shown. */
    struct look look = {0};
    struct buf out = {0};
    bool json = cli->json;
    cli->json = false;
    int code = look_at(cli, &look, &out);
    cli->json = json;
    if (code == EXIT_DONE) {
        out.len = 0;
        nap(every_us);
        code = look_at(cli, &look, &out);
    }
    cli_flush(&out);
    buf_fini(&out);
    return code;
}

const struct command command_top = {
    .name = "top",
    .synopsis = "[--once] [--every D]",
    .summary = "Watch a server live: rates, counts, what falls due, lateness",
    .help = "  -e, --every D    look so often (1s)\n"
            "  -o, --once       print one look and end; so it is when output is no terminal\n"
            "\nExample:\n"
            "  later top --every 2s\n",
    .run = run_top,
};
