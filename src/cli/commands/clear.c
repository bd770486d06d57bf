/*
 * The commands that delete a topic's jobs: clear and delete-topic. On a terminal, both ask for
 * confirmation; without one they need --yes, because nothing brings the jobs back.
 */
#include <unistd.h>

#include "cli/limits.h"
#include "cli/show.h"
#include "cli/text.h"
#include "core/job.h"

struct clear {
    struct cli *cli;
    const char *topic;
    const char *state; /* "all", or the name of a job_state */
    bool yes;
    uint64_t expected; /* jobs that were there when it began */
    uint64_t deleted;
};

/* Counts the jobs that would be deleted. An exit code. */
static int count_jobs(struct clear *clear)
{
    json_t *answer = NULL;
    int code = cli_call_topic(clear->cli, "GET", clear->topic, "", NULL, &answer);
    for (enum job_state state = JOB_DELAYED; state < JOB_STATES; state++) {
        const char *name = job_state_name(state);
        if (strcmp(clear->state, "all") == 0 || strcmp(clear->state, name) == 0)
            clear->expected += show_count(answer, name);
    }
    json_decref(answer);
    return code;
}

/* Is it confirmed, by --yes or by the user at the terminal? */
static bool agreed(const struct clear *clear, const char *them)
{
    struct buf question = {0};
    char room[TEXT_ROOM];
    if (clear->yes)
        return true;
    if (!isatty(STDIN_FILENO))
        cli_bad_value(clear->cli, "there is no terminal to ask on: use --yes");
    bool all = strcmp(clear->state, "all") == 0;
    text_add_safe(&question, bytes_str(clear->topic));
    buf_addf(&question, ": %s %s%sjob%s. Delete %s? [y/N] ", count_text(clear->expected, room),
             all ? "" : clear->state, all ? "" : " ", plural(clear->expected), them);
    (void)fwrite(question.at, 1, question.len, stderr);
    buf_fini(&question);
    int answer = getchar();
    return answer == 'y' || answer == 'Y';
}

static void show_progress(const struct clear *clear)
{
    char done[TEXT_ROOM], all[TEXT_ROOM];
    if (isatty(STDERR_FILENO) && !clear->cli->json)
        (void)fprintf(stderr, "\r\x1b[K%s of %s jobs deleted", count_text(clear->deleted, done),
                      count_text(clear->expected, all));
}

/* All jobs of a state, as many at a time as the server deletes at once. */
static int clear_state(struct clear *clear, const char *state)
{
    struct cli *cli = clear->cli;
    uint64_t some = limits_of(cli, LIMIT_RESERVE);
    bool more = true;
    int code = EXIT_DONE;
    while (code == EXIT_DONE && more) {
        json_t *answer = NULL;
        do {
            json_t *body = json_pack("{sssI}", "state", state, "max", (json_int_t)some);
            cli->may_halve = some > 1;
            code = cli_call_topic(cli, "POST", clear->topic, "/clear", body, &answer);
        } while (limits_halve(cli, code, &some));
        clear->deleted += show_count(answer, "jobs");
        more = json_is_true(json_object_get(answer, "more"));
        json_decref(answer);
        if (more)
            show_progress(clear);
    }
    return code;
}

static int clear_all(struct clear *clear)
{
    struct cli *cli = clear->cli;
    if (strcmp(clear->state, "all") != 0)
        return clear_state(clear, clear->state);
    cli->expects = "bad_field"; /* an older server knows no "all" */
    int code = clear_state(clear, "all");
    cli->expects = NULL;
    if (!exit_is_refusal(code) || clear->deleted > 0 || !cli->expected)
        return code; /* another refusal, which has been printed, would only be printed again */
    code = EXIT_DONE;
    for (enum job_state state = JOB_DELAYED; state < JOB_STATES && code == EXIT_DONE; state++)
        code = clear_state(clear, job_state_name(state));
    return code;
}

static void report(const struct clear *clear, const char *what)
{
    char room[TEXT_ROOM];
    if (isatty(STDERR_FILENO) && !clear->cli->json)
        (void)fputs("\r\x1b[K", stderr);
    if (clear->cli->json)
        (void)printf("{\"jobs\":%llu}\n", (unsigned long long)clear->deleted);
    else
        (void)printf("deleted %s job%s%s\n", count_text(clear->deleted, room),
                     plural(clear->deleted), what);
}

static void options_of(struct clear *clear, int argc, char **argv, const struct option *options)
{
    for (int c; (c = cli_option(clear->cli, argc, argv, options)) != -1;) {
        if (c == 'S')
            clear->state = optarg;
        else if (c == 'y')
            clear->yes = true;
    }
    cli_words(clear->cli, argc, argv, 1, 1);
    if (strcmp(clear->state, "all") != 0 && !cli_is_state(clear->state))
        cli_bad_value(clear->cli, "--state is all, delayed, ready, reserved or buried, not '%s'",
                      clear->state);
    clear->topic = argv[optind];
}

static int run_clear(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {
        {"state", required_argument, NULL, 'S'}, {"yes", no_argument, NULL, 'y'}, CLI_OPTIONS};
    struct clear clear = {.cli = cli, .state = "all"};
    options_of(&clear, argc, argv, options);
    int code = count_jobs(&clear);
    if (code != EXIT_DONE)
        return code;
    if (clear.expected > 0 && !agreed(&clear, "them"))
        return EXIT_REFUSED;
    code = clear_all(&clear);
    if (code == EXIT_DONE || clear.deleted > 0)
        report(&clear, "");
    return code;
}

const struct command command_clear = {
    .name = "clear",
    .synopsis = "[--state STATE] [--yes] TOPIC",
    .summary = "Delete a topic's jobs, all of them or those of one state",
    .help =
        "  -S, --state STATE    only delayed, ready, reserved or buried ones (all)\n"
        "  -y, --yes            do not ask; needed where nobody can be asked\n"
        "\nPrints how many. Consumers that hold a deleted job get a stale lease. Jobs that are\n"
        "pushed meanwhile may stay. Exit 1 if there is no such topic, 4 if you say no.\n"
        "\nExamples:\n"
        "  later clear mail\n"
        "  later clear mail --state buried --yes\n",
    .run = run_clear,
};

static int run_delete_topic(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {{"yes", no_argument, NULL, 'y'}, CLI_OPTIONS};
    struct clear clear = {.cli = cli, .state = "all"};
    json_t *answer = NULL;
    options_of(&clear, argc, argv, options);
    int code = count_jobs(&clear);
    if (code != EXIT_DONE)
        return code;
    if (!agreed(&clear, "them and the topic"))
        return EXIT_REFUSED;
    code = cli_call_topic(cli, "DELETE", clear.topic, "", NULL, &answer);
    if (code == EXIT_DONE) {
        bool removed = json_is_true(json_object_get(answer, "removed"));
        clear.deleted = show_count(answer, "jobs");
        if (cli->json)
            cli_print_json(answer);
        else
            report(&clear, removed ? " and the topic" : "");
        if (!removed) {
            cli_message(cli,
                        "the topic stays: a consumer waits on it, or a job was pushed meanwhile");
            code = EXIT_CONFLICT;
        }
    }
    json_decref(answer);
    return code;
}

const struct command command_delete_topic = {
    .name = "delete-topic",
    .synopsis = "[--yes] TOPIC",
    .summary = "Delete a topic with its jobs, settings, counts and pause",
    .help =
        "  -y, --yes    do not ask; needed where nobody can be asked\n"
        "\nExit 1 if there is no such topic; 3 if it stays, because a consumer waits on it or a\n"
        "job was pushed meanwhile (its jobs are gone all the same).\n"
        "\nExample:\n"
        "  later delete-topic old-mail --yes\n",
    .run = run_delete_topic,
};
