/*
 * The commands about jobs by id: get rm finish release touch bury kick run reschedule. Each
 * takes one or more ids and does them one after another; the first failure is the exit code, the
 * other ids are still tried. If the server does not answer they are not: each would wait as long.
 */
#include "base/check.h"
#include "base/mem.h"
#include "cli/body.h"
#include "cli/finish.h"
#include "cli/limits.h"
#include "cli/show.h"
#include "cli/text.h"

struct job_call {
    const char *method;
    const char *after;     /* of the path, behind the id */
    json_t *body;          /* NULL: none */
    struct bytes text;     /* the same as a text of JSON; empty: see `body` */
    const char *done;      /* the message after success; NULL: show the job */
    const char *hint;      /* if the job is in another state than the call needs: cli::state_hint */
    unsigned topics_asked; /* of the ids that no job has, so many are asked for as topics */
};

static int call_one(struct cli *cli, const struct job_call *call, const char *id)
{
    json_t *answer = NULL;
    cli->state_hint = call->hint;
    int code =
        call->text.len > 0
            ? cli_call_job_text(cli, call->method, id, call->after, call->text, &answer)
            : cli_call_job(cli, call->method, id, call->after, json_incref(call->body), &answer);
    cli->state_hint = NULL;
    if (code == EXIT_DONE && cli->json && answer) {
        cli_print_json(answer);
    } else if (code == EXIT_DONE && !cli->json) {
        struct buf out = {0};
        if (call->done) {
            buf_addf(&out, "%s ", call->done);
            text_add_safe(&out, bytes_str(id));
            buf_add_char(&out, '\n');
        } else {
            show_job(answer, &out);
        }
        cli_flush(&out);
        buf_fini(&out);
    }
    json_decref(answer);
    return code;
}

/* An empty one would be another path: that of no job. */
static void check_id(const struct cli *cli, const char *id)
{
    if (!*id)
        cli_bad_value(cli, "an ID is empty");
}

/* No job has this id: if it is a topic's name, prints a hint how to kick its buried jobs. */
static void report_topic(struct cli *cli, const char *id)
{
    json_t *answer = NULL;
    cli->quiet = true;
    int code = cli_call_topic(cli, "GET", id, "", NULL, &answer);
    cli->quiet = false;
    if (code == EXIT_DONE)
        cli_message(cli, "'%s' is a topic: later kick --topic %s makes its buried jobs ready", id,
                    id);
    json_decref(answer);
}

/* A client of beanstalkd calls the job @17 17. */
static void report_number(const struct cli *cli, const char *id)
{
    enum { DIGITS_MAX = 20 };
    size_t len = strspn(id, "0123456789");
    if (len > 0 && len <= DIGITS_MAX && !id[len])
        cli_message(cli, "ids that laterd makes begin with @: was @%s meant?", id);
}

/* The call for each id on the command line. Returns the first exit code that is not EXIT_DONE. */
static int call_each(struct cli *cli, int argc, char **argv, const struct job_call *call)
{
    int first = EXIT_DONE;
    unsigned asks = call->topics_asked;
    cli_words(cli, argc, argv, 1, INT32_MAX);
    for (int i = optind; i < argc; i++) {
        check_id(cli, argv[i]);
        int code = call_one(cli, call, argv[i]);
        if (code == EXIT_NOTHING)
            report_number(cli, argv[i]);
        if (code == EXIT_NOTHING && asks > 0) {
            report_topic(cli, argv[i]);
            asks--;
        }
        if (first == EXIT_DONE)
            first = code;
        if (code == EXIT_UNREACHABLE) {
            int left = argc - i - 1;
            if (left > 0)
                cli_message(cli, "stopped: nothing was asked about the %d id%s behind it", left,
                            plural((uint64_t)left));
            first = code; /* whatever was wrong before: some ids are still to be done */
            break;
        }
    }
    json_decref(call->body);
    return first;
}

/* What `later reschedule` alone has. */
struct reschedule {
    const char *body; /* NULL: it stays */
    bool is_json;
};

/* The options that these commands have, and how each becomes a member of the request. */
static json_t *body_of(struct cli *cli, int argc, char **argv, const struct option *options,
                       struct reschedule *reschedule)
{
    json_t *body = json_object();
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;) {
        json_t *value = NULL;
        const char *key = NULL;
        switch (c) {
        case 'L':
            key = "lease";
            value = cli_string(cli, "--lease", optarg);
            break;
        case 'd':
            key = "delay";
            value = cli_duration(cli, "--delay", optarg);
            break;
        case 'T':
            key = "ttr";
            value = cli_duration(cli, "--ttr", optarg);
            break;
        case 'u':
            key = "due";
            value = cli_time(cli, "--due", optarg);
            break;
        case 'p':
            key = "priority";
            value = json_integer((json_int_t)cli_number(cli, "--priority", optarg, UINT32_MAX));
            break;
        case 'R':
            key = "reason";
            value = cli_string(cli, "--reason", optarg);
            break;
        case 'C':
            key = "code";
            value = json_integer((json_int_t)cli_number(cli, "--code", optarg, UINT16_MAX));
            break;
        case 'b':
            CHECK(reschedule);
            reschedule->body = optarg;
            continue;
        case 'J':
            CHECK(reschedule);
            reschedule->is_json = true;
            continue;
        default: continue;
        }
        json_object_set_new(body, key, value);
    }
    if (json_object_get(body, "delay") && json_object_get(body, "due"))
        cli_usage(cli, "--delay or --due, not both");
    if (json_object_size(body) > 0)
        return body;
    json_decref(body);
    return NULL;
}

#define OPTION_LEASE                                                                               \
    {                                                                                              \
        "lease", required_argument, NULL, 'L'                                                      \
    }
#define HELP_LEASE "  -L, --lease LEASE    as pop gave it: a stale lease is refused (exit 3)\n"

/* Why an attempt failed. */
#define OPTIONS_WHY                                                                                \
    {"reason", required_argument, NULL, 'R'},                                                      \
    {                                                                                              \
        "code", required_argument, NULL, 'C'                                                       \
    }
#define HELP_WHY                                                                                   \
    "      --reason TEXT    why it failed: shown with the job and by `later attempts`\n"           \
    "      --code N         a number for it, such as a status: `later replay` finds it\n"

/* The call for each id, with the options as the members of its body. */
static int call_with_options(struct cli *cli, int argc, char **argv, const struct option *options,
                             struct job_call call)
{
    call.body = body_of(cli, argc, argv, options, NULL);
    return call_each(cli, argc, argv, &call);
}

static const struct option no_options[] = {CLI_OPTIONS};

static int run_get(struct cli *cli, int argc, char **argv)
{
    struct job_call call = {.method = "GET", .after = ""};
    return call_with_options(cli, argc, argv, no_options, call);
}

const struct command command_get = {
    .name = "get",
    .synopsis = "ID…",
    .summary = "Show a job, in whatever state it is",
    .help = "Exit 1 if there is no such job: it is finished, deleted, or never was.\n"
            "\nExample:\n"
            "  later get xmas --json | jq -r .state\n",
    .run = run_get,
};

static int run_rm(struct cli *cli, int argc, char **argv)
{
    struct job_call call = {.method = "DELETE", .after = "", .done = "deleted"};
    return call_with_options(cli, argc, argv, no_options, call);
}

const struct command command_rm = {
    .name = "rm",
    .synopsis = "ID…",
    .summary = "Delete a job from any state: cancel it",
    .help = "A job that somebody holds is deleted too; its lease is stale then.\n"
            "\nExample:\n"
            "  later rm xmas order-17\n",
    .run = run_rm,
};

static void print_finished(const char *id)
{
    struct buf out = {0};
    buf_add_str(&out, "finished ");
    text_add_safe(&out, bytes_str(id));
    buf_add_char(&out, '\n');
    cli_flush(&out);
    buf_fini(&out);
}

/* The n-th lease is the n-th job's: a lease is of one reservation of one job. */
static int run_finish(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {OPTION_LEASE, CLI_OPTIONS};
    struct finish_job *jobs = mem_zalloc((size_t)argc * sizeof(*jobs));
    int leases = 0;
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;) {
        if (c != 'L')
            continue;
        cli_utf8(cli, "--lease", optarg);
        jobs[leases++].lease = optarg;
    }
    cli_words(cli, argc, argv, 1, INT32_MAX);
    int count = argc - optind;
    if (leases != 0 && leases != count) {
        mem_free(jobs);
        cli_usage(cli, "%d id%s and %d lease%s: give each job its own, in the same order, or none",
                  count, plural((uint64_t)count), leases, plural((uint64_t)leases));
    }
    for (int i = 0; i < count; i++) {
        jobs[i].id = argv[optind + i];
        cli_utf8(cli, "ID", jobs[i].id);
        check_id(cli, jobs[i].id);
    }
    int code = finish_jobs(cli, jobs, (size_t)count, cli->json ? NULL : print_finished);
    if (code == EXIT_NOTHING && count == 1)
        report_number(cli, jobs[0].id);
    mem_free(jobs);
    return code;
}

const struct command command_finish = {
    .name = "finish",
    .synopsis = "[--lease LEASE]… ID…",
    .summary = "A job is done: it never comes again",
    .help =
        "  -L, --lease LEASE    as pop gave it: a stale lease is refused (exit 3). For several\n"
        "                       jobs: once for each, in the order of the ids\n"
        "\nSeveral jobs are finished in one request.\n"
        "\nExamples:\n"
        "  later finish @12 --lease 77\n"
        "  later finish @12 @13 --lease 77 --lease 78\n",
    .run = run_finish,
};

static int run_release(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {OPTION_LEASE,
                                            {"delay", required_argument, NULL, 'd'},
                                            {"priority", required_argument, NULL, 'p'},
                                            OPTIONS_WHY,
                                            CLI_OPTIONS};
    struct job_call call = {
        .method = "POST",
        .after = "/release",
        .done = "released",
        .hint =
            "only a job that is reserved can be released: after its ttr it is the next consumer's"};
    return call_with_options(cli, argc, argv, options, call);
}

const struct command command_release = {
    .name = "release",
    .synopsis = "[options] ID…",
    .summary = "Give a job back: it comes again",
    .help =
        HELP_LEASE "  -d, --delay D        after D (else as its retry schedule says)\n"
                   "  -p, --priority N     with this priority from now on\n" HELP_WHY "\nExample:\n"
                   "  later release @12 --lease 77 --delay 5m --reason 'no connection'\n",
    .run = run_release,
};

static int run_touch(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {
        OPTION_LEASE, {"ttr", required_argument, NULL, 'T'}, CLI_OPTIONS};
    struct job_call call = {
        .method = "POST",
        .after = "/touch",
        .done = "touched",
        .hint =
            "only a job that is reserved can be touched: after its ttr it is the next consumer's"};
    return call_with_options(cli, argc, argv, options, call);
}

const struct command command_touch = {
    .name = "touch",
    .synopsis = "[options] ID…",
    .summary = "Ask for more time for a job that you hold",
    .help = HELP_LEASE "  -T, --ttr D          D from now (its ttr again)\n"
                       "\nExample:\n"
                       "  later touch @12 --lease 77 --ttr 10m\n",
    .run = run_touch,
};

static int run_bury(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {
        OPTION_LEASE, {"priority", required_argument, NULL, 'p'}, OPTIONS_WHY, CLI_OPTIONS};
    struct job_call call = {
        .method = "POST",
        .after = "/bury",
        .done = "buried",
        .hint =
            "only a job that is reserved can be buried: after its ttr it is the next consumer's"};
    return call_with_options(cli, argc, argv, options, call);
}

const struct command command_bury = {
    .name = "bury",
    .synopsis = "[options] ID…",
    .summary = "Set a job that you hold aside until somebody kicks it",
    .help =
        HELP_LEASE "  -p, --priority N     with this priority from now on\n" HELP_WHY "\nExample:\n"
                   "  later bury @12 --lease 77 && later list mail --state buried\n",
    .run = run_bury,
};

enum {
    KICKS_USUAL = 1000, /* buried jobs of a topic */
    TOPICS_ASKED = 10   /* each is a request more */
};

/* A topic's buried jobs, up to `max` of them, as many at a time as the server kicks at once. */
static int kick_topic(struct cli *cli, const char *topic, uint64_t max)
{
    uint64_t kicked = 0, most = limits_of(cli, LIMIT_RESERVE);
    bool more = true;
    int code = EXIT_DONE;
    while (code == EXIT_DONE && more && kicked < max) {
        json_t *answer = NULL;
        uint64_t some = max - kicked < most ? max - kicked : most;
        do {
            json_t *body = json_pack("{sI}", "max", (json_int_t)some);
            cli->may_halve = some > 1;
            code = cli_call_topic(cli, "POST", topic, "/kick", body, &answer);
        } while (limits_halve(cli, code, &some));
        kicked += show_count(answer, "jobs");
        more = json_is_true(json_object_get(answer, "more"));
        json_decref(answer);
    }
    if (kicked == 0 && code != EXIT_DONE)
        return code;
    if (cli->json)
        (void)printf("{\"jobs\":%llu,\"more\":%s}\n", (unsigned long long)kicked,
                     more ? "true" : "false");
    else
        (void)printf("kicked %llu job%s\n", (unsigned long long)kicked, plural(kicked));
    return code;
}

static int run_kick(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {{"topic", required_argument, NULL, 'o'},
                                            {"max", required_argument, NULL, 'n'},
                                            CLI_OPTIONS};
    struct job_call call = {
        .method = "POST", .after = "/kick", .done = "kicked", .topics_asked = TOPICS_ASKED};
    const char *topic = NULL;
    uint64_t max = 0;
    bool bounded = false;
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;) {
        switch (c) {
        case 'o': topic = optarg; break;
        case 'n':
            max = cli_number(cli, "--max", optarg, UINT32_MAX);
            bounded = true;
            break;
        default: break;
        }
    }
    if (bounded && max == 0)
        cli_bad_value(cli, "--max is at least 1");
    if (topic && optind < argc)
        cli_usage(cli, "ids or --topic, not both: '%s'", argv[optind]);
    if (topic)
        return kick_topic(cli, topic, bounded ? max : KICKS_USUAL);
    cli_words(cli, argc, argv, 1, INT32_MAX);
    if (bounded)
        cli_usage(cli, "--max is for a topic's buried jobs: later kick --topic %s --max %llu",
                  argv[optind], (unsigned long long)max);
    return call_each(cli, argc, argv, &call);
}

const struct command command_kick = {
    .name = "kick",
    .synopsis = "ID… | --topic TOPIC [--max N]",
    .summary = "Make buried jobs, or delayed ones by id, ready",
    .help = "  -o, --topic TOPIC    the topic's buried jobs, oldest first\n"
            "  -n, --max N          at most N of them (1000)\n"
            "\nExamples:\n"
            "  later kick @12\n"
            "  later kick --topic mail --max 100\n",
    .run = run_kick,
};

static int run_run(struct cli *cli, int argc, char **argv)
{
    struct job_call call = {.method = "POST", .after = "/run", .done = "ready:"};
    return call_with_options(cli, argc, argv, no_options, call);
}

const struct command command_run = {
    .name = "run",
    .synopsis = "ID…",
    .summary = "Make a delayed job ready now",
    .help = "Example:\n"
            "  later run xmas\n",
    .run = run_run,
};

/* The new body, and what `fields` has, as a text of JSON. */
static int add_body(struct cli *cli, const char *argument, bool is_json, const json_t *fields,
                    struct buf *out)
{
    struct buf body = {0};
    body_read(cli, argument, is_json, &body);
    int code = limits_body_over(cli, body.len) ? EXIT_REFUSED : EXIT_DONE;
    if (code == EXIT_DONE)
        body_add_good(cli, fields, buf_bytes(&body), is_json, out);
    buf_fini(&body);
    return code;
}

static int run_reschedule(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {
        {"delay", required_argument, NULL, 'd'},    {"due", required_argument, NULL, 'u'},
        {"priority", required_argument, NULL, 'p'}, {"body", required_argument, NULL, 'b'},
        {"json-body", no_argument, NULL, 'J'},      CLI_OPTIONS};
    struct job_call call = {.method = "PATCH", .after = "", .done = "rescheduled"};
    struct reschedule reschedule = {0};
    struct buf text = {0};
    int code = EXIT_DONE;
    call.hint = "only a delayed job can be rescheduled; `later push TOPIC BODY --id ID "
                "--if-exists replace` puts a new one in its place";
    call.body = body_of(cli, argc, argv, options, &reschedule);
    if (reschedule.is_json && !reschedule.body)
        cli_usage(cli, "--json-body belongs to --body");
    if (!call.body && !reschedule.body)
        cli_usage(cli, "what should change? --delay, --due, --priority or --body");
    cli_words(cli, argc, argv, 1, INT32_MAX); /* before standard input is read */
    if (reschedule.body)
        code = add_body(cli, reschedule.body, reschedule.is_json, call.body, &text);
    call.text = buf_bytes(&text);
    if (code == EXIT_DONE)
        code = call_each(cli, argc, argv, &call);
    else
        json_decref(call.body);
    buf_fini(&text);
    return code;
}

const struct command command_reschedule = {
    .name = "reschedule",
    .synopsis = "[options] ID…",
    .summary = "Move a delayed job's due time, or change its priority or body",
    .help = "  -d, --delay D       due D from now\n"
            "  -u, --due TIME      due then: RFC 3339, or epoch milliseconds\n"
            "  -p, --priority N    lower goes first\n"
            "  -b, --body BODY     a new body: BODY itself, @FILE, or - for standard input\n"
            "  -J, --json-body     BODY is JSON, and is handed out as such\n"
            "\nExamples:\n"
            "  later reschedule xmas --due 2026-12-25T08:00:00Z\n"
            "  later reschedule order-17 --body '{\"order\":17}' --json-body\n",
    .run = run_reschedule,
};
