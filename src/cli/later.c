/*
 * later: the command line of a laterd. Finds the command in the table and runs it.
 */
#include <locale.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"

static const struct command *const commands[] = {
    &command_push,       &command_pop,    &command_finish, &command_release, &command_touch,
    &command_bury,       &command_kick,   &command_get,    &command_rm,      &command_run,
    &command_reschedule, &command_topics, &command_list,   &command_pause,   &command_resume,
    &command_stats,      &command_top,    &command_verify, &command_bench,
};

static const char examples[] =
    "\nA first walk:\n"
    "  later push mail 'hello' --delay 5s      prints the job's id\n"
    "  later pop mail --wait 10s               waits, prints the job with its lease\n"
    "  later finish ID --lease LEASE           done; without this it comes again\n"
    "  later list mail --state delayed         what is still to come\n"
    "  later top                               the whole server, live\n"
    "\nExit codes:\n"
    "  0 done               1 nothing there: no such job, or none came in time\n"
    "  2 bad usage          3 conflict: id taken, stale lease, wrong state\n"
    "  4 refused            5 no connection, or no answer in time\n"
    "  6 verify found damage, or bench saw a job early, lost or twice\n"
    "\nThe server is --server URL, or else LATER_SERVER, or else http://127.0.0.1:9277.\n"
    "`later COMMAND --help` teaches a command; `man later` has it all.\n";

static void help(FILE *to)
{
    (void)fputs("usage: later COMMAND [options] …\n\n"
                "Push jobs now, get them back at their due time, from the laterd server.\n\n",
                to);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        (void)fprintf(to, "  %-11s %s\n", commands[i]->name, commands[i]->summary);
    (void)fputs(examples, to);
}

/* True: the program was asked about itself, and has answered. */
static bool about(const char *word)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        help(stdout);
        return true;
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        (void)printf("later %s\n", LATERD_VERSION);
        return true;
    }
    return false;
}

static int run(const struct command *command, int argc, char **argv)
{
    const char *server = getenv("LATER_SERVER");
    struct cli cli = {
        .command = command,
        .server = server && *server ? server : "http://127.0.0.1:9277",
        .terminal = isatty(STDOUT_FILENO),
        .timeout_us = 10 * INT64_C(1000000),
    };
    int code = command->run(&cli, argc, argv);
    if (cli.has_client)
        client_fini(&cli.client);
    /* A full disk or a closed pipe behind standard output must not look like success. */
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == EXIT_DONE) {
        cli_say(&cli, "cannot write the output");
        code = EXIT_REFUSED;
    }
    return code;
}

int main(int argc, char **argv)
{
    (void)setlocale(LC_TIME, ""); /* without it times look American, no harm done */
    if (argc < 2) {
        help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 && argc == 3) { /* `later help push` */
        argv[1] = argv[2];
        static char flag[] = "--help";
        argv[2] = flag;
    }
    if (about(argv[1]))
        return EXIT_DONE;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(argv[1], commands[i]->name) == 0)
            return run(commands[i], argc - 1, argv + 1);
    }
    (void)fprintf(stderr, "later: no command '%s'; later --help lists them\n", argv[1]);
    return EXIT_USAGE;
}
