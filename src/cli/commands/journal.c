/*
 * The command about the journal in MySQL: journal restore. The server does it, because only it
 * knows which jobs end meanwhile.
 */
#include "cli/show.h"
#include "cli/text.h"

static void report(const json_t *answer)
{
    char rows[TEXT_ROOM], created[TEXT_ROOM], kept[TEXT_ROOM], refused[TEXT_ROOM];
    (void)printf("%s row%s: %s restored, %s there already, %s refused, %llu ms\n",
                 count_text(show_count(answer, "rows"), rows), plural(show_count(answer, "rows")),
                 count_text(show_count(answer, "created"), created),
                 count_text(show_count(answer, "kept"), kept),
                 count_text(show_count(answer, "refused"), refused),
                 (unsigned long long)show_count(answer, "ms"));
}

static int run(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {{"no-expire", no_argument, NULL, 'E'}, CLI_OPTIONS};
    json_t *body = json_object(), *answer = NULL;
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;) {
        if (c == 'E')
            json_object_set_new(body, "expire", json_false());
    }
    cli_words(cli, argc, argv, 1, 2);
    if (strcmp(argv[optind], "restore") != 0)
        cli_usage(cli, "it is 'later journal restore', not '%s'", argv[optind]);
    if (optind + 1 < argc) {
        cli->subject = argv[optind + 1];
        json_object_set_new(body, "id", json_string(argv[optind + 1]));
    }
    cli->wait_us = INT64_C(24) * 3600 * 1000000; /* there may be millions of rows */
    int code = cli_call(cli, "POST", "/v1/restore", body, &answer);
    cli->subject = NULL;
    if (code != EXIT_DONE)
        return code;
    bool wrong = show_count(answer, "refused") > 0;
    if (cli->json)
        cli_print_json(answer);
    else
        report(answer);
    json_decref(answer);
    return wrong ? EXIT_WRONG : EXIT_DONE;
}

const struct command command_journal = {
    .name = "journal",
    .synopsis = "restore [--no-expire] [ID]",
    .summary = "Bring jobs back from the journal in MySQL",
    .help =
        "  -E, --no-expire    leave out those whose due time is past\n"
        "\nPushes what the journal has as unfinished: all, or this one. What is there is kept, so\n"
        "it is harmless twice and beside pushes. The server does it, and goes on if this command\n"
        "is ended. Exit 1 if the journal has no such job, 3 if there is no journal, a restore\n"
        "is under way, or another server on the same Redis writes the journal, 4 if MySQL is "
        "away,\n"
        "6 if the queue refused rows: its log says why.\n"
        "\nExamples:\n"
        "  later journal restore\n"
        "  later journal restore order-17\n",
    .run = run,
};
