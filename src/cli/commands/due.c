/*
 * later due: how many delayed jobs are due within some durations.
 */
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/show.h"
#include "cli/text.h"

static const char *const usual[] = {"1m", "10m", "1h", "6h", "1d", "7d", "30d"};
enum { USUAL = sizeof(usual) / sizeof(usual[0]), SPANS_MAX = 64 /* the server's */ };

/* The last two columns: by then, and of those how many are not due by the one before. */
static void show_due(const json_t *answer, const char *const *spans, size_t count)
{
    static const char *const names[] = {"WITHIN", "UNTIL", "JOBS", "MORE"};
    struct table table = {.columns = 4, .right = {true, false, true, true}};
    struct buf out = {0}, until = {0};
    uint64_t before = 0;
    size_t i;
    json_t *time;
    char room[TEXT_ROOM];
    for (size_t column = 0; column < table.columns; column++)
        table_cell_str(&table, names[column]);
    json_array_foreach(json_object_get(answer, "due"), i, time)
    {
        if (i == count)
            break; /* not an answer of laterd */
        uint64_t jobs = show_count(time, "jobs");
        until.len = 0;
        show_time_alone(time, "until", &until);
        table_cell_str(&table, spans[i]);
        table_cell(&table, bytes_of(until.at, until.len));
        table_cell_str(&table, count_text(jobs, room));
        table_cell_str(&table, count_text(jobs > before ? jobs - before : 0, room));
        before = jobs;
    }
    table_write(&table, &out);
    cli_flush(&out);
    buf_fini(&out);
    buf_fini(&until);
    table_fini(&table);
}

static int due_run(struct cli *cli, int argc, char **argv)
{
    struct buf list = {0};
    json_t *answer = NULL;
    cli_only_words(cli, argc, argv, 0, INT32_MAX);
    const char *const *spans = optind < argc ? (const char *const *)(argv + optind) : usual;
    int count = optind < argc ? argc - optind : USUAL;
    int64_t before_us = 0;
    if (count > SPANS_MAX)
        cli_bad_value(cli, "%d durations are too many: %d at most", count, SPANS_MAX);
    for (int i = 0; i < count; i++) {
        int64_t us = cli_duration_us(cli, "DURATION", spans[i]);
        if (i > 0 && us < before_us)
            cli_bad_value(cli, "%s is shorter than %s before it: write them from short to long",
                          spans[i], spans[i - 1]);
        before_us = us;
        buf_addf(&list, "%s%lldus", i ? "," : "", (long long)us);
    }
    buf_add_char(&list, '\0');
    char *target = cli_target("/v1/due?within=", list.at, "");
    cli->repeats = true;
    int code = cli_call(cli, "GET", target, NULL, &answer);
    if (code == EXIT_DONE && cli->json)
        cli_print_json(answer);
    else if (code == EXIT_DONE)
        show_due(answer, spans, (size_t)count);
    mem_free(target);
    buf_fini(&list);
    json_decref(answer);
    return code;
}

const struct command command_due = {
    .name = "due",
    .synopsis = "[DURATION …]",
    .summary = "Show how many delayed jobs are due within some durations",
    .help = "Of all topics. JOBS are due by then, MORE of them not by the time of the line above.\n"
            "Without a DURATION: 1m 10m 1h 6h 1d 7d 30d. Up to 64, from short to long.\n"
            "Where more than 1000 are due about the same time a count may be an estimate: see\n"
            "man later.\n"
            "\nExamples:\n"
            "  later due\n"
            "  later due 5m 90d 3650d\n",
    .run = due_run,
};
