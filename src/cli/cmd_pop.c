/*
 * later pop: takes the next due jobs of one or more topics.
 */
#include "cli/show.h"

#include "base/mem.h"
#include "cli/text.h"

struct pop {
    struct cli *cli;
    int64_t wait_us;
    uint64_t max;
    bool finish;
    bool body_only;
};

static const struct option options[] = {
    {"wait", required_argument, NULL, 'w'},
    {"max", required_argument, NULL, 'n'},
    {"finish", no_argument, NULL, 'f'},
    {"body", no_argument, NULL, 'b'},
    CLI_OPTIONS,
};

/* Finishes a job that has been written out. */
static int finish(struct pop *pop, const json_t *job)
{
    json_t *lease = json_object_get(job, "lease"), *answer = NULL;
    char *target = cli_target("/v1/jobs/", show_string(job, "id"), "/finish");
    int code = cli_call(pop->cli, "POST", target, lease ? json_pack("{sO}", "lease", lease) : NULL,
                        &answer);
    json_decref(answer);
    mem_free(target);
    return code;
}

static int show(struct pop *pop, const json_t *jobs)
{
    struct buf out = {0};
    const json_t *job;
    size_t i;
    int code = EXIT_DONE;
    json_array_foreach(jobs, i, job)
    {
        if (pop->cli->json) {
            cli_print_json(job);
        } else if (pop->body_only) {
            show_body(job, &out);
            buf_add_char(&out, '\n');
        } else {
            if (i > 0)
                buf_add_char(&out, '\n');
            show_job(job, &out);
        }
        cli_flush(&out);
        if (pop->finish && code == EXIT_DONE) {
            /* Only what has reached its reader is done; else the job comes again. */
            if (ferror(stdout))
                code = EXIT_REFUSED;
            else
                code = finish(pop, job);
        }
    }
    buf_fini(&out);
    return code;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct pop pop = {.cli = cli, .max = 1};
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;) {
        switch (c) {
        case 'w': pop.wait_us = cli_duration_us(cli, "--wait", optarg); break;
        case 'n': pop.max = cli_number(cli, "--max", optarg, 1000); break;
        case 'f': pop.finish = true; break;
        case 'b': pop.body_only = true; break;
        default: break;
        }
    }
    cli_words(cli, argc, argv, 1, 64);
    json_t *topics = json_array(), *answer = NULL;
    for (int i = optind; i < argc; i++)
        json_array_append_new(topics, json_string(argv[i]));
    if (json_array_size(topics) != (size_t)(argc - optind))
        cli_usage(cli, "a topic's name is not UTF-8");
    json_t *body = json_pack("{sosIsI}", "topics", topics, "wait", (json_int_t)(pop.wait_us / 1000),
                             "max", (json_int_t)pop.max);
    cli->timeout_us += pop.wait_us;
    int code = cli_call(cli, "POST", "/v1/reserve", body, &answer);
    if (code == EXIT_DONE) {
        const json_t *jobs = json_object_get(answer, "jobs");
        if (json_array_size(jobs) > 0)
            code = show(&pop, jobs);
        else
            code = EXIT_NOTHING;
        json_decref(answer);
    }
    return code;
}

const struct command command_pop = {
    .name = "pop",
    .synopsis = "[options] TOPIC…",
    .summary = "Take the next due job: it is yours until its ttr runs out",
    .help = "  -w, --wait D    wait so long for a job (0: take what is there, or exit 1)\n"
            "  -n, --max N     up to N jobs at once (1)\n"
            "  -f, --finish    finish each job once it has been written out\n"
            "  -b, --body      only the body, byte for byte, and a line end\n"
            "\nExit 1 if no job came. With --json, one job a line, with its lease.\n"
            "\nExamples:\n"
            "  later pop mail --wait 1m\n"
            "  later pop urgent mail --max 10 --json\n"
            "  while later pop mail --wait 1m --finish --body; do :; done\n",
    .run = run,
};
