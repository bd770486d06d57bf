/*
 * The commands about failed attempts: attempts replay.
 */
#include "cli/show.h"
#include "cli/text.h"

enum { RESPONSE_COLUMNS = 60, REPLAY_MAX = 1000000 };

static void show_attempts(const json_t *attempts)
{
    static const char *const names[] = {"TIME", "CODE", "MS", "ADDRESS", "REASON", "RESPONSE"};
    struct table table = {
        .columns = 6, .right = {false, true, true}, .most = {0, 0, 0, 0, 0, RESPONSE_COLUMNS}};
    struct buf out = {0};
    const json_t *attempt;
    size_t i;
    for (i = 0; i < 6; i++)
        table_cell_str(&table, names[i]);
    json_array_foreach(attempts, i, attempt)
    {
        struct buf response = {0};
        show_response(attempt, &response);
        show_time_cell(&table, attempt, "time");
        show_cell(&table, attempt, "code");
        show_cell(&table, attempt, "ms");
        show_cell(&table, attempt, "address");
        show_cell(&table, attempt, "reason");
        table_cell(&table, buf_bytes(&response));
        buf_fini(&response);
    }
    table_write(&table, &out);
    cli_flush(&out);
    table_fini(&table);
    buf_fini(&out);
}

static int attempts_run(struct cli *cli, int argc, char **argv)
{
    json_t *answer = NULL;
    int code = cli_get_of_job(cli, argc, argv, "/attempts", &answer);
    if (code != EXIT_DONE)
        return code;
    const json_t *attempts = json_object_get(answer, "attempts");
    bool any = json_array_size(attempts) > 0;
    if (cli->json)
        cli_print_json(answer);
    else if (any)
        show_attempts(attempts);
    else
        cli_message(cli,
                    "no attempt has failed with a reason or code; `later get %s` shows the job",
                    argv[optind]);
    json_decref(answer);
    return any ? EXIT_DONE : EXIT_NOTHING;
}

const struct command command_attempts = {
    .name = "attempts",
    .synopsis = "ID",
    .summary = "Show a job's last failed attempts, and why they failed",
    .help =
        "The last five that gave a reason or a code, oldest first: deliveries to a target, and\n"
        "what consumers say with release and bury. Exit 1 if there is none, or no such job.\n"
        "\nExample:\n"
        "  later attempts order-17\n",
    .run = attempts_run,
};

/* Reads the options: what the server is asked for. */
static json_t *replay_body(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {
        {"code", required_argument, NULL, 'C'}, {"since", required_argument, NULL, 'S'},
        {"from", required_argument, NULL, 'F'}, {"to", required_argument, NULL, 'O'},
        {"max", required_argument, NULL, 'n'},  CLI_OPTIONS};
    json_t *body = json_object();
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;) {
        json_t *value;
        const char *key;
        switch (c) {
        case 'C':
            key = "code";
            value = cli_string(cli, "--code", optarg);
            break;
        case 'F':
            key = "from";
            value = cli_time(cli, "--from", optarg);
            break;
        case 'O':
            key = "to";
            value = cli_time(cli, "--to", optarg);
            break;
        case 'S':
            key = "since";
            value = cli_duration(cli, "--since", optarg);
            break;
        case 'n':
            key = "max";
            value = json_integer((json_int_t)cli_number(cli, "--max", optarg, REPLAY_MAX));
            break;
        default: continue;
        }
        json_object_set_new(body, key, value);
    }
    if (json_object_get(body, "since") && json_object_get(body, "from"))
        cli_usage(cli, "--since or --from, not both");
    cli_words(cli, argc, argv, 1, 1);
    return body;
}

static int replay_run(struct cli *cli, int argc, char **argv)
{
    json_t *body = replay_body(cli, argc, argv), *answer = NULL;
    cli->wait_us = INT64_C(3600) * 1000000; /* it may go through millions */
    int code = cli_call_topic(cli, "POST", argv[optind], "/replay", body, &answer);
    if (code != EXIT_DONE)
        return code;
    uint64_t kicked = show_count(answer, "kicked"), looked_at = show_count(answer, "looked_at");
    char looked_room[TEXT_ROOM], kicked_room[TEXT_ROOM];
    if (cli->json)
        cli_print_json(answer);
    else
        (void)printf("kicked %s of %s buried job%s%s\n", count_text(kicked, kicked_room),
                     count_text(looked_at, looked_room), plural(looked_at),
                     json_is_true(json_object_get(answer, "more")) ? "; there may be more" : "");
    if (kicked == 0 && looked_at > 0 && !cli->json)
        cli_message(cli,
                    "none failed so: `later list %s --state buried` shows when, and with which "
                    "code",
                    argv[optind]);
    json_decref(answer);
    return kicked ? EXIT_DONE : EXIT_NOTHING;
}

const struct command command_replay = {
    .name = "replay",
    .synopsis = "[options] TOPIC",
    .summary = "Make buried jobs ready again, by code and time of their failure",
    .help =
        "      --code CODE    whose last failure has this code: 503, or 5xx (500 to 599). "
        "Consumers\n"
        "                     choose theirs, up to 65535 (release and bury --code); 0: without\n"
        "                     a code, as after a time-out\n"
        "      --since D      that failed within the last D: 1h\n"
        "      --from TIME    that failed then or later: 2026-12-24T18:00:00Z, or epoch\n"
        "                     milliseconds\n"
        "      --to TIME      that failed before then\n"
        "  -n, --max N        at most N (the server's limits.batch_jobs)\n"
        "\nAll of these must be true of a job. Without --code and times it is any buried job, N\n"
        "at most. Exit 1 if none matches.\n"
        "\nExample:\n"
        "  later replay hooks --code 503 --since 1h\n",
    .run = replay_run,
};
