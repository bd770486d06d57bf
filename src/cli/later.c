/*
 * later: the command line of a laterd. Finds the command in the table and runs it.
 */
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/typo.h"
#include "cli/cli.h"
#include "cli/text.h"
#include "os/standard_streams.h"

/* In groups, with NULL between them, as help shows them. */
static const struct command *const commands[] = {
    &command_push,
    &command_pop,
    &command_finish,
    &command_release,
    &command_touch,
    &command_bury,
    NULL,

    &command_get,
    &command_attempts,
    &command_history,
    &command_rm,
    &command_reschedule,
    &command_run,
    &command_kick,
    &command_replay,
    NULL,

    &command_topics,
    &command_list,
    &command_due,
    &command_topic,
    &command_pause,
    &command_resume,
    &command_clear,
    &command_delete_topic,
    NULL,

    &command_stats,
    &command_top,
    &command_cluster,
    &command_journal,
    &command_bench,
    NULL,

    &command_backup,
    &command_restore,
    &command_verify,
    &command_salvage,
    &command_export,
    &command_import,
};

static const char usage[] =
    "usage: later [general options] COMMAND [options] …\n\n"
    "Push jobs now, get them back at their due time, from the laterd server.\n\n";

static const char first_steps[] =
    "First steps:\n"
    "  later push mail 'hello' --delay 5s      prints the job's id\n"
    "  later pop mail --wait 10s               waits, prints the job with its lease\n"
    "  later finish ID --lease LEASE           done; without this it comes again\n"
    "  later pop mail --forever --exec 'cat'   a consumer: a command for each job that comes\n"
    "  later list mail --state delayed         what is still to come\n"
    "  later top                               the whole server, live\n";

static const char more_examples[] =
    "\nComing from beanstalkd, whose clients laterd serves on port 11300:\n"
    "  later import beanstalkd /var/lib/beanstalkd --dry-run\n"
    "  later bench put --beanstalk 127.0.0.1:11300\n"
    "\nExit codes:\n"
    "  0 done               1 nothing there: no such job, or none came in time\n"
    "  2 bad usage, or a bad value, whoever finds it: later or the server\n"
    "  3 conflict: id taken, stale lease, wrong state\n"
    "  4 refused: a limit, a rule of the server, a full disk\n"
    "  5 no connection, or no answer in time\n"
    "  6 verify, salvage, backup, restore, export or import found damage, journal restore had\n"
    "    rows refused, bench saw a job early, lost or twice, or a command of pop --exec failed\n"
    "\nGeneral options, before or behind the command:\n"
    "  -s, --server URL       http://HOST:PORT, https://HOST/PREFIX or unix:/run/laterd.sock;\n"
    "                         else LATER_SERVER, else http://127.0.0.1:9277\n"
    "  -j, --json             output for programs\n"
    "  -t, --timeout D        wait at most D for an answer (10s)\n"
    "  -V, --version          the version, as `later version`\n";

static const char more_help[] =
    "\n`later COMMAND --help` explains a command; `man later` has them all.\n";

static void help(FILE *to)
{
    (void)fputs(usage, to);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (commands[i])
            (void)fprintf(to, "  %-13s %s\n", commands[i]->name, commands[i]->summary);
        else
            (void)fputc('\n', to);
    }
    (void)fprintf(to, "\n%s%s", first_steps, more_examples);
    (void)fputs(access_help, to);
    (void)fputs(more_help, to);
}

/* What `later` alone says: it fits a small terminal, which the help does not. */
static void overview(FILE *to)
{
    static const char *const groups[] = {"jobs", "one by its id", "topics", "server",
                                         "backup, moves"};
    size_t group = 0;
    (void)fprintf(to, "%s%s\nCommands:", usage, first_steps);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (i == 0 || !commands[i])
            (void)fprintf(to, "\n  %-13s", groups[group++]);
        if (commands[i])
            (void)fprintf(to, " %s", commands[i]->name);
    }
    (void)fputs(
        "\n\n`later --help` has a line for each of them, `later COMMAND --help` its options and\n"
        "examples. -s URL or LATER_SERVER says where laterd is (http://127.0.0.1:9277).\n",
        to);
}

/* The options before the command; the command's own words begin at optind. */
static void general_options(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {CLI_OPTIONS};
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;) {
        if (c != 'h')
            continue;
        help(stdout);
        cli_end_shown(cli);
    }
}

static const struct command *command_named(const char *name)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (commands[i] && strcmp(name, commands[i]->name) == 0)
            return commands[i];
    }
    return NULL;
}

/* An unknown command: suggests the one that other queues call so, or one with a similar name. */
_Noreturn static void no_command(const struct cli *cli, const char *word)
{
    static const struct {
        const char *theirs;
        const char *ours;
    } others[] = {
        {"put", "push"},    {"publish", "push"}, {"reserve", "pop"},  {"ack", "finish"},
        {"done", "finish"}, {"nack", "release"}, {"delete", "rm"},    {"cancel", "rm"},
        {"peek", "get"},    {"show", "get"},     {"ls", "list"},      {"purge", "clear"},
        {"flush", "clear"}, {"config", "topic"}, {"retry", "replay"}, {"redrive", "replay"},
    };
    struct typo typo;
    typo_begin(&typo, word, strlen(word));
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (commands[i])
            typo_add(&typo, commands[i]->name);
    }
    const char *meant = typo.meant;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        meant = strcmp(word, others[i].theirs) == 0 ? others[i].ours : meant;
    if (meant)
        cli_usage(cli, "there is no command '%s'; did you mean %s?", word, meant);
    cli_usage(cli, "there is no command '%s'", word);
}

static int run(struct cli *cli, int argc, char **argv)
{
    optind = 0; /* getopt starts again, with the command's name as the program's */
    int code = cli->command->run(cli, argc, argv);
    if (cli->has_client)
        client_fini(&cli->client);
    access_fini(&cli->access);
    json_decref(cli->limits);
    return code == EXIT_DONE && !cli_shown(cli) ? EXIT_REFUSED : code;
}

int main(int argc, char **argv)
{
    struct cli cli = {
        .terminal = isatty(STDOUT_FILENO),
        .timeout_us = 10 * INT64_C(1000000),
    };
    standard_streams_occupy();
    (void)signal(SIGXFSZ, SIG_IGN); /* a write beyond `ulimit -f` is an error like others */
    access_init(&cli.access);
    (void)setlocale(LC_TIME, "");         /* without it times look American, no harm done */
    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* the server's texts are UTF-8, for text_width() */
    general_options(&cli, argc, argv);
    if (optind >= argc) {
        overview(stderr);
        return EXIT_USAGE;
    }
    argc -= optind;
    argv += optind;
    if (strcmp(argv[0], "version") == 0) {
        if (argc > 1)
            cli_usage(&cli, "version takes nothing: '%s'", argv[1]);
        cli_show_version(&cli);
    }
    if (strcmp(argv[0], "help") == 0) {
        static char flag[] = "--help";
        if (argc == 1) {
            help(stdout);
            cli_end_shown(&cli);
        }
        argv[0] = argv[1]; /* `later help push` */
        argv[1] = flag;
        argc = 2;
    }
    cli.command = command_named(argv[0]);
    if (!cli.command)
        no_command(&cli, argv[0]);
    return run(&cli, argc, argv);
}
