/*
 * later stats and later top: the server's figures, once or live. Both show GET /v1/stats; top
 * adds rates, which are differences between two looks, and a table of topics.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/show.h"
#include "cli/text.h"

enum { TOP_ROWS = 20, WIDTH_LEAST = 20, WIDTH_USUAL = 100 };

/* How much of a terminal there is; lines 0: no terminal, and no bound but TOP_ROWS. */
struct screen {
    unsigned columns, lines;
};

static const char *const totals[] = {"pushed",   "reserved", "finished", "timeouts",
                                     "released", "deleted",  "buried",   "kicked"};
enum { TOTALS = sizeof(totals) / sizeof(totals[0]) };

/* What is remembered from the last look. */
struct look {
    uint64_t totals[TOTALS];
    int64_t at_ms;
    bool valid;
};

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
    if (!store || strcmp(show_string(store, "kind"), "shared") == 0)
        return; /* that of others has figures of its own */
    uint64_t segments = show_count(store, "segments"), sync_count = show_count(store, "syncs");
    buf_addf(out, "%-10s  %s: %s on disk, %s live, %llu segment%s, %s sync%s of %.2f ms%s%s\n",
             "store", show_string(store, "kind"), size_text(show_count(store, "disk_bytes"), disk),
             size_text(show_count(store, "live_bytes"), live), (unsigned long long)segments,
             plural(segments), count_text(sync_count, syncs), plural(sync_count),
             real_of(store, "sync_ms_avg"),
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
        buf_addf(out, " %10.1f", rate);
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
    add_names(out, states, 4);
    add_counts(out, stats, "jobs", "jobs", states, 4);
    add_names(out, spans, 4);
    add_counts(out, stats, "due within", "due_within", spans, 4);
    buf_addf(out, "%-10s  p50 %.2f ms  p90 %.2f ms  p99 %.2f ms\n", "lateness",
             real_of(lateness, "p50"), real_of(lateness, "p90"), real_of(lateness, "p99"));
    buf_addf(out, "%-10s", "clients");
    add_count(out, "connections", show_count(stats, "connections"));
    add_count(out, "waiting", show_count(stats, "waiting"));
    add_count(out, "topics", show_count(stats, "topics"));
    buf_add_char(out, '\n');
    add_names(out, totals, TOTALS);
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

/* What goes on in a topic now, by the server's figures of the last ten seconds. */
static double activity_of(const json_t *topic)
{
    const json_t *rates = json_object_get(topic, "rates");
    return real_of(rates, "pushed") + real_of(rates, "reserved") + real_of(rates, "finished");
}

/* For qsort: the busiest first, then those with most jobs, then by name. */
static int by_activity(const void *left, const void *right)
{
    const json_t *a = *(json_t *const *)left, *b = *(json_t *const *)right;
    double busy_a = activity_of(a), busy_b = activity_of(b);
    uint64_t jobs_a = show_count(a, "delayed") + show_count(a, "ready");
    uint64_t jobs_b = show_count(b, "delayed") + show_count(b, "ready");
    if (busy_a > busy_b || busy_b > busy_a)
        return busy_a > busy_b ? -1 : 1;
    if (jobs_a != jobs_b)
        return jobs_a > jobs_b ? -1 : 1;
    return strcmp(show_string(a, "name"), show_string(b, "name"));
}

static void add_topic(struct table *table, const json_t *topic)
{
    static const char *const rates[] = {"pushed", "finished"};
    static const char *const counts[] = {"delayed", "ready", "reserved", "buried", "waiters"};
    char room[TEXT_ROOM];
    table_cell_str(table, show_string(topic, "name"));
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        double rate = real_of(json_object_get(topic, "rates"), rates[i]);
        (void)snprintf(room, sizeof(room), "%.1f", rate); /* cut short if absurd */
        table_cell_str(table, room);
    }
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        table_cell_str(table, count_text(show_count(topic, counts[i]), room));
}

/* The busiest topics, as many as there are lines left for. */
static void add_topics(struct buf *out, const json_t *answer, size_t rows_max)
{
    static const char *const names[] = {"TOPIC", "PUSHED/S", "FINISHED/S", "DELAYED",
                                        "READY", "RESERVED", "BURIED",     "WAITING"};
    enum { COLUMNS = sizeof(names) / sizeof(names[0]) };
    const json_t *topics = json_object_get(answer, "topics");
    struct table table = {.columns = COLUMNS,
                          .right = {false, true, true, true, true, true, true, true}};
    size_t count = json_array_size(topics);
    const json_t **sorted = mem_zalloc((count + 1) * sizeof(*sorted));
    for (size_t i = 0; i < count; i++)
        sorted[i] = json_array_get(topics, i);
    qsort(sorted, count, sizeof(json_t *), by_activity);
    buf_addf(out, "%-10s  rates of the last 10 s, those above since the last look\n\n", "topics");
    for (size_t column = 0; column < COLUMNS; column++)
        table_cell_str(&table, names[column]);
    for (size_t i = 0; i < count && i < rows_max; i++)
        add_topic(&table, sorted[i]);
    table_write(&table, out);
    if (count > rows_max)
        buf_addf(out, "… and %zu more: later topics\n", count - rows_max);
    table_fini(&table);
    mem_free(sorted);
}

/* One look at the server. */
static int look_at(struct cli *cli, struct look *look, const struct screen *screen, struct buf *out)
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
        size_t used =
            5; /* a title, an empty line, the heading, how many more there are, the note */
        for (size_t i = 0; i < out->len; i++)
            used += out->at[i] == '\n';
        add_topics(out, topics,
                   screen->lines == 0     ? TOP_ROWS
                   : screen->lines > used ? screen->lines - used
                                          : 0);
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

/* The other screen, without a cursor; and back again. */
static const char screen_on[] = "\x1b[?1049h\x1b[?25l", screen_off[] = "\x1b[?25h\x1b[?1049l";

/*
 * Ends the program from wherever it is, because a server that does not answer must not keep
 * anybody from leaving. Only calls that are safe in a signal handler.
 */
static void on_end(int number)
{
    (void)!write(STDOUT_FILENO, screen_off, sizeof(screen_off) - 1); /* a terminal takes it */
    _exit(number == SIGINT ? EXIT_DONE : 128 + number);
}

static void on_resize(int number)
{
    (void)number; /* it cuts the nap short */
}

static struct screen screen_now(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < WIDTH_LEAST ||
        size.ws_row == 0)
        return (struct screen){.columns = 80, .lines = 24};
    return (struct screen){.columns = size.ws_col, .lines = size.ws_row};
}

/* The page cut to the screen, over the old picture: each line wipes what was behind it. */
static void draw(struct bytes page, const struct screen *screen)
{
    struct buf frame = {0};
    unsigned column = 0, line = 1;
    buf_add_str(&frame, "\x1b[H");
    for (size_t i = 0; i < page.len && line <= screen->lines; i++) {
        bool starts = ((unsigned char)page.at[i] & 0xc0) != 0x80; /* a character, in UTF-8 */
        if (page.at[i] == '\n') {
            /* No line end behind the last line: the screen would roll. */
            buf_add_str(&frame, column < screen->columns ? "\x1b[K" : "");
            buf_add_str(&frame, line < screen->lines ? "\r\n" : "");
            line++;
            column = 0;
            continue;
        }
        column += starts;
        if (column <= screen->columns)
            buf_add_char(&frame, page.at[i]);
    }
    buf_add_str(&frame, line <= screen->lines ? "\x1b[J" : "");
    cli_flush(&frame);
    buf_fini(&frame);
}

/* Draws again and again until a signal ends it. A server that goes away is waited for. */
static int live(struct cli *cli, int64_t every_us)
{
    const struct sigaction end = {.sa_handler = on_end}, resize = {.sa_handler = on_resize};
    struct screen screen = screen_now();
    struct look look = {0};
    struct buf page = {0}, last = {0};
    int code = look_at(cli, &look, &screen, &last); /* a wrong address is said without a screen */
    if (code != EXIT_DONE) {
        buf_fini(&last);
        return code;
    }
    (void)sigaction(SIGINT, &end, NULL); /* cannot fail for these signals */
    (void)sigaction(SIGTERM, &end, NULL);
    (void)sigaction(SIGHUP, &end, NULL);
    (void)sigaction(SIGWINCH, &resize, NULL);
    cli->quiet = true; /* what goes wrong is part of the picture */
    (void)fputs(screen_on, stdout);
    while (!ferror(stdout)) {
        page.len = 0;
        if (code != EXIT_DONE)
            buf_addf(&page, "%s; trying again\n",
                     cli->client.trouble[0] ? cli->client.trouble : "no good answer");
        buf_add_bytes(&page, buf_bytes(&last));
        draw(buf_bytes(&page), &screen);
        nap(every_us);
        screen = screen_now();
        page.len = 0;
        code = look_at(cli, &look, &screen, &page);
        if (code == EXIT_DONE) {
            last.len = 0;
            buf_add_bytes(&last, buf_bytes(&page));
        }
    }
    buf_fini(&page);
    buf_fini(&last);
    return EXIT_REFUSED;
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
    const struct screen none = {.columns = WIDTH_USUAL};
    struct look look = {0};
    struct buf out = {0};
    bool json = cli->json;
    cli->json = false;
    int code = look_at(cli, &look, &none, &out);
    cli->json = json;
    if (code == EXIT_DONE) {
        out.len = 0;
        nap(every_us);
        code = look_at(cli, &look, &none, &out);
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
            "\nCtrl-C ends it. \"a second\" counts since the last look; a topic's rates, those of\n"
            "`later topics NAME`, are of the last ten seconds, and the busiest stands first.\n"
            "\nExample:\n"
            "  later top --every 2s\n",
    .run = run_top,
};
