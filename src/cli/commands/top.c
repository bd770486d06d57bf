/*
 * later top: the server's figures and the busiest of all its topics, live or once. Each refresh
 * calls GET /v1/stats and walks through the pages of /v1/topics; with very many topics a walk takes
 * several refreshes, and the busiest of the last complete walk are shown meanwhile.
 */
#include <stdlib.h>
#include <time.h>

#include "cli/limits.h"
#include "cli/screen.h"
#include "cli/show.h"
#include "cli/text.h"
#include "cli/top_view.h"

enum { PAGES_A_LOOK = 20 };

struct top {
    struct cli *cli;
    json_t *stats; /* of the last successful refresh; NULL: there was none */
    struct stats_sample look, before;
    struct busiest shown;   /* of the last whole walk */
    struct busiest walking; /* of the one under way */
    struct buf cursor;      /* of its next page; empty: it begins */
    uint64_t shown_seen, walking_seen;
    bool walked; /* there was a whole one */
};

/* ---- looking ---- */

/* One page more of the walk; behind the last one its busiest take the place of the old ones. */
static int walk(struct top *top)
{
    json_t *answer = NULL, *topic;
    size_t i;
    int code =
        limits_get_page(top->cli, "/v1/topics?", buf_bytes(&top->cursor), UINT64_MAX, &answer);
    if (code != EXIT_DONE)
        return code;
    json_array_foreach(json_object_get(answer, "topics"), i, topic)
    {
        busiest_add(&top->walking, topic);
        top->walking_seen++;
    }
    top->cursor.len = 0;
    buf_add_str(&top->cursor, show_string(answer, "cursor"));
    json_decref(answer);
    if (top->cursor.len > 0)
        return EXIT_DONE;
    struct busiest old = top->shown;
    top->shown = top->walking;
    top->shown_seen = top->walking_seen;
    top->walked = true;
    top->walking = old;
    busiest_clear(&top->walking);
    top->walking_seen = 0;
    return EXIT_DONE;
}

/* `whole`: to the end of a walk, however long it is. */
static int refresh(struct top *top, bool whole)
{
    json_t *stats = NULL;
    int code = cli_call(top->cli, "GET", "/v1/stats", NULL, &stats);
    if (code == EXIT_DONE)
        code = walk(top);
    for (unsigned page = 1; code == EXIT_DONE && top->cursor.len > 0; page++) {
        if (page >= PAGES_A_LOOK && !whole)
            break;
        code = walk(top);
    }
    if (code != EXIT_DONE) {
        json_decref(stats);
        return code;
    }
    json_decref(top->stats);
    top->stats = stats;
    top->before = top->look;
    stats_remember(&top->look, stats);
    return EXIT_DONE;
}

static void add_view(const struct top *top, struct buf *out, unsigned columns, unsigned lines)
{
    const struct top_view view = {
        .stats = top->stats,
        .before = top->before,
        .busiest = top->walked ? &top->shown : &top->walking,
        /* Topics may have come since the walk began: a whole one has seen all. */
        .seen = top->walked ? UINT64_MAX : top->walking_seen,
    };
    top_view_add(out, &view, columns, lines);
}

static void top_fini(struct top *top)
{
    json_decref(top->stats);
    busiest_fini(&top->shown);
    busiest_fini(&top->walking);
    buf_fini(&top->cursor);
}

/* ---- showing ---- */

static void draw(const struct top *top, int code)
{
    struct screen_size size = screen_size();
    struct buf page = {0}, frame = {0};
    const char *error = top->cli->client.error;
    if (code != EXIT_DONE)
        buf_addf(&page, "%s; trying again\n", error[0] ? error : "no good answer");
    add_view(top, &page, size.columns, size.lines);
    screen_frame(buf_bytes(&page), size, &frame);
    cli_flush(&frame);
    buf_fini(&frame);
    buf_fini(&page);
}

/* Refreshes until the user ends it. Waits for a server that cannot be reached. */
static int live(struct top *top, int64_t every_us)
{
    struct cli *cli = top->cli;
    int code = refresh(top, false); /* a wrong address is reported before the screen is taken */
    if (code != EXIT_DONE)
        return code;
    screen_begin();
    cli->quiet = true; /* errors are shown on the screen */
    cli->client.watch = screen_quits;
    cli->client.watch_fd = screen_keys();
    enum screen_event event = SCREEN_TIME;
    while (event != SCREEN_QUIT && !cli->client.interrupted && !ferror(stdout)) {
        draw(top, code);
        event = screen_wait(every_us);
        if (event == SCREEN_TIME)
            code = refresh(top, false);
    }
    screen_end();
    return ferror(stdout) ? EXIT_REFUSED : EXIT_DONE;
}

static void nap(int64_t us)
{
    const struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    (void)nanosleep(&time, NULL); /* cut short by a signal that ends us */
}

static void print_json(const struct top *top)
{
    json_t *list = json_array();
    for (size_t i = 0; i < top->shown.count; i++)
        json_array_append(list, top->shown.topics[i]);
    json_object_set_new(top->stats, "topic_list", list);
    cli_print_stats(top->stats);
}

/* For scripts: two refreshes a short time apart, so that there are rates; the second is shown. */
static int once(struct top *top, int64_t every_us)
{
    struct buf out = {0};
    int code = refresh(top, true);
    if (code == EXIT_DONE) {
        nap(every_us);
        code = refresh(top, true);
    }
    if (code == EXIT_DONE && top->cli->json)
        print_json(top);
    else if (code == EXIT_DONE)
        add_view(top, &out, 0, 0);
    cli_flush(&out);
    buf_fini(&out);
    return code;
}

static int run(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {
        {"once", no_argument, NULL, 'o'}, {"every", required_argument, NULL, 'e'}, CLI_OPTIONS};
    struct top top = {.cli = cli};
    bool one = false;
    int64_t every_us = 1000000;
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;) {
        switch (c) {
        case 'o': one = true; break;
        case 'e': every_us = cli_duration_us(cli, "--every", optarg); break;
        default: break;
        }
    }
    cli_words(cli, argc, argv, 0, 0);
    if (every_us < 100000)
        cli_bad_value(cli, "--every is at least 100ms");
    bool lives = cli->terminal && !one && !cli->json;
    int code = lives ? live(&top, every_us) : once(&top, every_us);
    top_fini(&top);
    return code;
}

const struct command command_top = {
    .name = "top",
    .synopsis = "[--once] [--every D]",
    .summary = "Watch a server live: rates, counts, what falls due, lateness",
    .help =
        "  -e, --every D    look so often (1s)\n"
        "  -o, --once       print one look and end: the default when output is not a terminal\n"
        "\nq or Ctrl-C ends it. \"a second\" counts since the last look; a topic's rates, those\n"
        "of `later topics NAME`, are of the last ten seconds. The busiest of all topics stand\n"
        "first; with more than 20,000 topics they are looked for in several looks. With --json\n"
        "the 1,000 busiest are in topic_list. Lateness is from the due time to the hand-over:\n"
        "it grows, too, while nobody waits for jobs.\n"
        "\nExample:\n"
        "  later top --every 2s\n",
    .run = run,
};
