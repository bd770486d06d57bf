/*
 * later pop: takes the next due jobs of one or more topics.
 */
#include <unistd.h>

#include "base/mem.h"
#include "cli/consume.h"
#include "cli/finish.h"
#include "cli/limits.h"
#include "cli/show.h"
#include "cli/text.h"
#include "core/job.h"

struct pop {
    struct cli *cli;
    int64_t wait_us;
    uint64_t max;
    bool finish;
    bool body_only;
    bool refused;   /* the last reserve was refused or not answered, which was printed */
    uint64_t shown; /* jobs */
    unsigned asks;  /* for why a job failed last, that are left */
};

/* Each may take as long as --timeout, while the ttr of the jobs runs. */
enum { REASONS_ASKED = 10 };

enum { TOPIC_ASKED_US = 1000000 /* the time limit for reading the topic when no job came */ };

static const struct option options[] = {
    {"wait", required_argument, NULL, 'w'},
    {"max", required_argument, NULL, 'n'},
    {"finish", no_argument, NULL, 'f'},
    {"body", no_argument, NULL, 'b'},
    {"exec", required_argument, NULL, 'x'},
    {"forever", no_argument, NULL, 'F'},
    {"delay", required_argument, NULL, 'd'},
    {"kill-after", required_argument, NULL, 'k'},
    CLI_OPTIONS,
};

enum { FOREVER_WAIT_US = 30 * 1000000 }; /* with --forever and without --wait */

/* Ends the jobs that have been written out: one that did not reach its reader comes again. */
static int finish(struct pop *pop, const json_t *jobs)
{
    size_t count = json_array_size(jobs), i;
    struct finish_job *list = mem_zalloc((count + 1) * sizeof(*list));
    const json_t *job;
    if (ferror(stdout)) {
        cli_message(pop->cli, "cannot write the output: the jobs are not finished");
        mem_free(list);
        return EXIT_REFUSED;
    }
    json_array_foreach(jobs, i, job)
    {
        list[i].id = show_string(job, "id");
        list[i].lease = json_string_value(json_object_get(job, "lease"));
    }
    int code = finish_jobs(pop->cli, list, count, NULL);
    mem_free(list);
    return code;
}

/*
 * Adds why the job failed last. A reserve returns only the time and code; the reason is on the
 * server's disk, so for people it is read by one request for each of the first jobs that have
 * failed, until one request is not answered.
 */
static void add_reason(struct pop *pop, const json_t *job)
{
    struct cli *cli = pop->cli;
    json_t *failure = json_object_get(job, "last_failure"), *answer = NULL;
    if (pop->asks == 0 || !failure || json_object_get(failure, "reason"))
        return;
    const char *id = show_string(job, "id");
    cli->quiet = true;
    bool answered = cli_call_job(cli, "GET", id, "", NULL, &answer) == EXIT_DONE;
    pop->asks = answered ? pop->asks - 1 : 0;
    if (answered)
        (void)json_object_update_missing(failure, json_object_get(answer, "last_failure"));
    cli->quiet = false;
    json_decref(answer);
}

static void show(struct pop *pop, const json_t *jobs)
{
    struct buf out = {0};
    const json_t *job;
    size_t i;
    json_array_foreach(jobs, i, job)
    {
        if (pop->cli->json) {
            cli_print_json(job);
        } else if (pop->body_only) {
            show_body(job, &out);
            buf_add_char(&out, '\n');
        } else {
            if (pop->shown > 0)
                buf_add_char(&out, '\n');
            add_reason(pop, job);
            show_job(job, &out);
        }
        cli_flush(&out);
        pop->shown++;
    }
    buf_fini(&out);
}

/* One reserve, for up to `max` jobs. */
static int reserve(struct pop *pop, json_t *topics, int64_t wait_us, uint64_t max, json_t **out)
{
    struct cli *cli = pop->cli;
    int code;
    cli->wait_us = wait_us;
    do {
        json_t *body = json_pack("{sOsosI}", "topics", topics, "wait", cli_duration_json(wait_us),
                                 "max", (json_int_t)max);
        cli->may_halve = max > 1;
        code = cli_call(cli, "POST", "/v1/reserve", body, out);
    } while (limits_halve(cli, code, &max));
    cli->wait_us = 0;
    pop->refused = code != EXIT_DONE;
    return code;
}

/*
 * Reserves repeatedly if more jobs are wanted than the server returns at once; only the first
 * reserve waits.
 */
static int pop_all(struct pop *pop, json_t *topics)
{
    uint64_t most = pop->max > 1 ? limits_of(pop->cli, LIMIT_RESERVE) : 1;
    int code = EXIT_DONE;
    while (code == EXIT_DONE && pop->shown < pop->max) {
        uint64_t left = pop->max - pop->shown;
        json_t *answer = NULL;
        code = reserve(pop, topics, pop->shown > 0 ? 0 : pop->wait_us, left < most ? left : most,
                       &answer);
        const json_t *jobs = json_object_get(answer, "jobs");
        bool none = json_array_size(jobs) == 0;
        if (code == EXIT_DONE && !none) {
            show(pop, jobs);
            code = pop->finish ? finish(pop, jobs) : EXIT_DONE;
        }
        json_decref(answer);
        if (none || ferror(stdout))
            break;
    }
    return code == EXIT_DONE && pop->shown == 0 ? EXIT_NOTHING : code;
}

/* ---- no job came ---- */

/* Adds what a topic has, and why it delivers no job. */
static void add_topic(struct buf *line, const json_t *topic)
{
    const char *between = "; it has ";
    char room[TEXT_ROOM];
    for (enum job_state state = JOB_DELAYED; state < JOB_STATES; state++) {
        uint64_t jobs = show_count(topic, job_state_name(state));
        if (jobs > 0) {
            buf_addf(line, "%s%s %s", between, count_text(jobs, room), job_state_name(state));
            between = ", ";
        }
    }
    if (*between == ';')
        buf_add_str(line, "; it has no jobs");
    if (json_object_get(topic, "next_due")) {
        buf_add_str(line, "; the next is due ");
        show_time(topic, "next_due", line);
    }
    if (json_is_true(json_object_get(topic, "paused"))) {
        buf_add_str(line, "; it is paused: later resume ");
        show_value(topic, "name", line);
    }
}

/* Gets a topic. The server may search all its jobs for the topic's next one, so the time limit is
   short. */
static int get_topic(struct cli *cli, const char *name, json_t **out_topic)
{
    int64_t timeout_us = cli->timeout_us;
    cli->quiet = true;
    cli->timeout_us = timeout_us < TOPIC_ASKED_US ? timeout_us : TOPIC_ASKED_US;
    int code = cli_call_topic(cli, "GET", name, "", NULL, out_topic);
    cli->timeout_us = timeout_us;
    cli->quiet = false;
    return code;
}

/* At a terminal, prints why no job came; scripts use the exit code. A reserve does not report a
 * topic that does not exist, because a job may be pushed to it, so the topic is read. */
static void report_none(struct pop *pop, const json_t *topics)
{
    struct cli *cli = pop->cli;
    const char *name = json_string_value(json_array_get(topics, 0));
    bool alone = json_array_size(topics) == 1;
    struct buf line = {0};
    char room[TEXT_ROOM];
    json_t *topic = NULL;
    int code = EXIT_USAGE;
    if (cli->json || !isatty(STDERR_FILENO))
        return;
    if (alone && !pop->body_only)
        code = get_topic(cli, name, &topic);
    if (code == EXIT_NOTHING)
        buf_add_str(&line, "no such topic");
    else if (pop->wait_us > 0)
        buf_addf(&line, "no job came within %s", duration_text(pop->wait_us, room));
    else
        buf_add_str(&line, "no job is ready");
    if (code == EXIT_DONE)
        add_topic(&line, topic);
    cli->subject = alone ? name : NULL;
    cli_message(cli, "%.*s", (int)line.len, line.at);
    cli->subject = NULL;
    json_decref(topic);
    buf_fini(&line);
}

static int64_t kill_after_us(const struct cli *cli, const char *text)
{
    int64_t us = cli_duration_us(cli, "--kill-after", text);
    if (us == 0)
        cli_bad_value(cli,
                      "--kill-after must be more than 0; without it a command may take any time");
    return us;
}

/* An empty one, of a variable that is not set, would succeed, and finish all jobs. */
static const char *command_of(const struct cli *cli, const char *text)
{
    if (strspn(text, " \t\n") == strlen(text))
        cli_bad_value(cli, "--exec: the command is empty");
    return text;
}

static void check_exec(const struct cli *cli, const struct pop *pop,
                       const struct consume_options *exec, bool max_given)
{
    if (!exec->command && (exec->forever || exec->delay_us >= 0 || exec->limit_us > 0))
        cli_usage(cli, "%s belongs to --exec",
                  exec->forever         ? "--forever"
                  : exec->delay_us >= 0 ? "--delay"
                                        : "--kill-after");
    if (exec->command && (pop->finish || pop->body_only))
        cli_usage(
            cli,
            "%s and --exec, not both: the command gets the body, and its success finishes the job",
            pop->finish ? "--finish" : "--body");
    if (exec->forever && max_given)
        cli_usage(cli, "--forever or --max, not both");
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct pop pop = {.cli = cli, .max = 1, .asks = REASONS_ASKED};
    struct consume_options exec = {.delay_us = -1};
    bool max_given = false, wait_given = false, none;
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;) {
        switch (c) {
        case 'w':
            pop.wait_us = cli_duration_us(cli, "--wait", optarg);
            wait_given = true;
            break;
        case 'n':
            pop.max = cli_number(cli, "--max", optarg, UINT32_MAX);
            max_given = true;
            break;
        case 'f': pop.finish = true; break;
        case 'b': pop.body_only = true; break;
        case 'x': exec.command = command_of(cli, optarg); break;
        case 'F': exec.forever = true; break;
        case 'd': exec.delay_us = cli_duration_us(cli, "--delay", optarg); break;
        case 'k': exec.limit_us = kill_after_us(cli, optarg); break;
        default: break;
        }
    }
    cli_words(cli, argc, argv, 1, INT32_MAX);
    check_exec(cli, &pop, &exec, max_given);
    if (pop.max == 0)
        cli_bad_value(cli, "--max is at least 1");
    json_t *topics = json_array();
    for (int i = optind; i < argc; i++)
        json_array_append_new(topics, cli_string(cli, "TOPIC", argv[i]));
    exec.topics = topics;
    exec.jobs_max = pop.max;
    exec.wait_us = exec.forever && !wait_given ? FOREVER_WAIT_US : pop.wait_us;
    int code = exec.command ? consume_run(cli, &exec, &none) : pop_all(&pop, topics);
    if (!exec.command)
        none = code == EXIT_NOTHING && pop.shown == 0 && !pop.refused;
    if (none)
        report_none(&pop, topics);
    json_decref(topics);
    return code;
}

const struct command command_pop = {
    .name = "pop",
    .synopsis = "[options] TOPIC…",
    .summary = "Take the next due job, yours until its ttr runs out, or run a command for it",
    .help =
        "  -w, --wait D    wait up to D for a job (0: take what is there, or exit 1)\n"
        "  -n, --max N     up to N jobs at once, or one after another for a command (1)\n"
        "  -f, --finish    finish the jobs once they have been written out\n"
        "  -b, --body      only the body, byte for byte, and a line end\n"
        "\nA complete consumer: it runs a command for each job, one after another\n"
        "  -x, --exec COMMAND    run COMMAND by sh -c, with the body on its standard input (with\n"
        "                        --json the whole job). If it exits with 0, the job is finished;\n"
        "                        else it is released, with the exit status as its code\n"
        "  -F, --forever         go on until SIGTERM or Ctrl-C, also when no job comes (within\n"
        "                        --wait, 30s) or the server is away\n"
        "  -d, --delay D         a failed job comes again after D, and is never buried (else as\n"
        "                        its retry schedule says, or after 30s if it has none)\n"
        "  -k, --kill-after D    a command that takes longer than D is ended and counts as failed\n"
        "While COMMAND runs, the job is held: its lease is renewed. If the job is\n"
        "deleted or given to another meanwhile, COMMAND is ended. It has LATER_JOB_ID, _TOPIC,\n"
        "_LEASE, _ATTEMPT, _FAILURES and LATER_SERVER in its environment. After a signal later\n"
        "waits for the running command and then ends; a second signal ends the command. After\n"
        "exit status 126 or 127 (COMMAND cannot be run) no more jobs are taken.\n"
        "\nExit 1 if no job came; on a terminal standard error says what the topic has. With "
        "--json,\n"
        "one job a line, with its lease, and nothing if none came. Exit 6 if a command failed.\n"
        "\nExamples:\n"
        "  later pop mail --wait 1m\n"
        "  later pop urgent mail --max 10 --json\n"
        "  later pop mail --wait 1m --exec '/usr/sbin/sendmail -t'\n"
        "  later pop orders --forever --kill-after 5m --exec './close \"$LATER_JOB_ID\"'\n",
    .run = run,
};
