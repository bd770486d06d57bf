/*
 * later history: what happened to a job, if the server keeps that.
 */
#include "cli/show.h"
#include "cli/text.h"

static void show_events(const json_t *events)
{
    static const char *const names[] = {"TIME",         "EVENT", "STATE",       "DUE OR UNTIL",
                                        "TOPIC, LEASE", "CODE",  "REASON OR BY"};
    enum { COLUMNS = sizeof(names) / sizeof(names[0]) };
    struct table table = {.columns = COLUMNS, .right = {[5] = true}};
    struct buf out = {0};
    const json_t *event;
    size_t i;
    for (i = 0; i < COLUMNS; i++)
        table_cell_str(&table, names[i]);
    json_array_foreach(events, i, event)
    {
        show_time_cell(&table, event, "time");
        show_cell(&table, event, "event");
        show_cell(&table, event, "state");
        show_time_cell(&table, event, json_object_get(event, "until") ? "until" : "due");
        show_cell(&table, event, json_object_get(event, "lease") ? "lease" : "topic");
        show_cell(&table, event, "code");
        show_cell(&table, event, json_object_get(event, "by") ? "by" : "reason");
    }
    table_write(&table, &out);
    cli_flush(&out);
    table_fini(&table);
    buf_fini(&out);
}

static int run(struct cli *cli, int argc, char **argv)
{
    json_t *answer = NULL;
    int code = cli_get_of_job(cli, argc, argv, "/history", &answer);
    if (code != EXIT_DONE)
        return code;
    if (cli->json)
        cli_print_json(answer);
    else
        show_events(json_object_get(answer, "events"));
    if (!cli->json && json_is_true(json_object_get(answer, "more")))
        cli_message(cli, "there is more; these are the newest");
    if (!cli->json && json_is_true(json_object_get(answer, "damaged")))
        cli_message(cli, "a part of the history is damaged: this may not be all");
    json_decref(answer);
    return EXIT_DONE;
}

const struct command command_history = {
    .name = "history",
    .synopsis = "ID",
    .summary = "Show what happened to a job, though it has ended",
    .help =
        "Pushed, due, reserved (by whom), released, buried, finished …, oldest first, of all jobs\n"
        "that had this id, the newest thousand. The server must keep it: [store] history = 30d.\n"
        "Exit 1 if it does not, or if nothing is known of such a job.\n"
        "\nExample:\n"
        "  later history order-17\n",
    .run = run,
};
