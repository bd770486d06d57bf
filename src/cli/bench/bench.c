/*
 * later bench: reads the options. What the figures mean is said in docs/performance.md.
 */
#include "cli/bench/bench.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

enum { SECOND_US = 1000000 };

static const struct option options[] = {
    {"connections", required_argument, NULL, 'c'},
    {"depth", required_argument, NULL, 'D'},
    {"jobs", required_argument, NULL, 'n'},
    {"seconds", required_argument, NULL, 'S'},
    {"body", required_argument, NULL, 'b'},
    {"id-bytes", required_argument, NULL, 'I'},
    {"rate", required_argument, NULL, 'r'},
    {"batch", required_argument, NULL, 'B'},
    {"lead", required_argument, NULL, 'l'},
    {"topic", required_argument, NULL, 'o'},
    {"dialect", required_argument, NULL, 'd'},
    {"server-pid", required_argument, NULL, 'P'},
    {"keep", no_argument, NULL, 'k'},
    {"shared", no_argument, NULL, 'H'},
    {"within", required_argument, NULL, 'w'},
    {"random", no_argument, NULL, 'R'},
    {"mark", required_argument, NULL, 'm'},
    {"there", required_argument, NULL, 'T'},
    {"skip", required_argument, NULL, 'K'},
    {"beanstalk", required_argument, NULL, 'A'},
    {"stop", no_argument, NULL, 'X'},
    CLI_OPTIONS,
};

const char *bench_scenario_name(enum bench_scenario scenario)
{
    static const char *const names[BENCH_COUNT] = {"put", "cycle", "cancel",
                                                   "due", "burst", "idle"};
    return names[scenario];
}

static enum bench_scenario scenario_of(const struct cli *cli, const char *name)
{
    for (unsigned i = 0; i < BENCH_COUNT; i++) {
        if (strcmp(name, bench_scenario_name((enum bench_scenario)i)) == 0)
            return (enum bench_scenario)i;
    }
    cli_usage(cli, "no scenario '%s': put, cycle, cancel, due, burst or idle", name);
}

static void topic_of(const struct cli *cli, struct bench_options *out, const char *name)
{
    if (strlen(name) >= sizeof(out->topic) || name[0] == '\0' ||
        name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")])
        cli_bad_value(cli, "--topic of a bench: up to 63 letters, digits, '.', '_' and '-'");
    memcpy(out->topic, name, strlen(name) + 1);
    out->named = true;
}

/* Six hexadecimal digits. */
static uint32_t mark_of(const struct cli *cli, const char *text)
{
    if (strlen(text) != 6 || strspn(text, "0123456789abcdef") != 6)
        cli_bad_value(cli, "--mark is six digits, of 0-9 and a-f");
    return (uint32_t)strtoul(text, NULL, 16);
}

/* One option of ours. */
static void take_option(struct cli *cli, struct bench *bench, int option)
{
    struct bench_options *out = &bench->options;
    switch (option) {
    case 'c': out->connections = (uint32_t)cli_number(cli, "--connections", optarg, 15000); break;
    case 'D': out->depth = (uint32_t)cli_number(cli, "--depth", optarg, 1024); break;
    case 'n':
        out->jobs = cli_number(cli, "--jobs", optarg, 100000000);
        if (out->jobs == 0)
            cli_bad_value(cli, "--jobs is at least 1");
        break;
    case 'S':
        out->limit_us = (int64_t)cli_number(cli, "--seconds", optarg, 86400) * SECOND_US;
        break;
    case 'b': out->body_bytes = (uint32_t)cli_number(cli, "--body", optarg, 1000000); break;
    case 'I': out->id_bytes = (uint32_t)cli_number(cli, "--id-bytes", optarg, BENCH_ID_MAX); break;
    case 'r': out->rate = (uint32_t)cli_number(cli, "--rate", optarg, 1000000); break;
    case 'B': out->batch = (uint32_t)cli_number(cli, "--batch", optarg, 1000); break;
    case 'l': out->lead_us = cli_duration_us(cli, "--lead", optarg); break;
    case 'o': topic_of(cli, out, optarg); break;
    case 'd':
        out->dialect = strcmp(optarg, "delay-queue") == 0 ? SPEAK_DELAY_QUEUE : SPEAK_V1;
        if (out->dialect == SPEAK_V1 && strcmp(optarg, "v1") != 0)
            cli_bad_value(cli, "--dialect v1 or delay-queue");
        break;
    case 'P':
        if (out->pid_count == BENCH_PIDS)
            cli_bad_value(cli, "at most %d times --server-pid", BENCH_PIDS);
        out->pids[out->pid_count++] = (pid_t)cli_number(cli, "--server-pid", optarg, INT32_MAX);
        break;
    case 'k': out->keep = true; break;
    case 'H': out->shared = true; break;
    case 'w': out->within_us = cli_duration_us(cli, "--within", optarg); break;
    case 'R': out->random = true; break;
    case 'm': bench->mark = mark_of(cli, optarg); break;
    case 'T': out->there = cli_number(cli, "--there", optarg, 100000000); break;
    case 'K': out->skip = cli_number(cli, "--skip", optarg, 100000000); break;
    case 'A': out->beanstalk = optarg; break;
    case 'X': out->stop = true; break;
    default: break;
    }
}

/* What does not go together is bad usage. */
static void check_options(const struct cli *cli, const struct bench_options *o)
{
    bool beanstalk = o->dialect == SPEAK_BEANSTALK, timed = bench_timed(o);
    bool far = o->scenario == BENCH_PUT || o->scenario == BENCH_CANCEL;
    if (o->connections == 0 || o->depth == 0 || o->rate == 0 || o->batch == 0)
        cli_bad_value(cli, "--connections, --depth, --rate and --batch are at least 1");
    if ((timed || o->dialect == SPEAK_DELAY_QUEUE || o->id_bytes > 0 ||
         o->scenario == BENCH_CANCEL) &&
        o->id_bytes < BENCH_ID_MIN)
        cli_bad_value(cli, "--id-bytes is at least %d here", BENCH_ID_MIN);
    if (o->dialect == SPEAK_DELAY_QUEUE && o->scenario != BENCH_PUT && o->scenario != BENCH_CYCLE)
        cli_usage(cli, "--dialect delay-queue has the scenarios put and cycle");
    if (beanstalk && o->batch > 1)
        cli_usage(cli, "--batch: beanstalkd's protocol reserves one job at a time");
    if (beanstalk && timed && o->body_bytes < o->id_bytes)
        cli_usage(cli, "--body is at least --id-bytes (%u) here: a job's number stands in it",
                  o->id_bytes);
    if (o->within_us && (!far || o->dialect == SPEAK_DELAY_QUEUE))
        cli_usage(cli, "--within is for put and cancel, by /v1 or --beanstalk");
    if ((o->random || o->there) && o->scenario != BENCH_CANCEL)
        cli_usage(cli, "--random and --there are for cancel");
    if (o->there && (beanstalk || o->there < o->skip + o->jobs))
        cli_usage(cli, "--there: at least --skip and --jobs, by /v1, which has ids of ours");
    if (o->skip && !o->there)
        cli_usage(cli, "--skip is for cancel with --there");
    if (o->stop && (!beanstalk || o->scenario != BENCH_BURST || o->pid_count == 0))
        cli_usage(cli, "--stop is for burst with --beanstalk, and needs --server-pid");
}

static void options_of(struct cli *cli, int argc, char **argv, struct bench *bench)
{
    struct bench_options *out = &bench->options;
    *out = (struct bench_options){.connections = 64,
                                  .depth = 1,
                                  .batch = 1,
                                  .body_bytes = 256,
                                  .id_bytes = 20,
                                  .rate = 1000,
                                  .limit_us = 60 * (int64_t)SECOND_US};
    (void)snprintf(out->topic, sizeof(out->topic), "later-bench-%d-%06x", (int)getpid(),
                   bench->mark); /* it fits */
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;)
        take_option(cli, bench, c);
    cli_words(cli, argc, argv, 1, 1);
    out->scenario = scenario_of(cli, argv[optind]);
    if (out->beanstalk)
        out->dialect = SPEAK_BEANSTALK;
    if (out->jobs == 0)
        out->jobs = out->scenario == BENCH_DUE     ? (uint64_t)out->rate * 10
                    : out->scenario == BENCH_BURST ? 100000
                                                   : 200000;
    check_options(cli, out);
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct bench bench = {.cli = cli, .progress = isatty(STDERR_FILENO) != 0};
    char address[DIAL_HOST_ROOM];
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with this clock */
    bench.mark = (uint32_t)(now.tv_nsec / 1000 ^ now.tv_sec ^ getpid() << 8) & 0xffffff;
    options_of(cli, argc, argv, &bench);
    const char *server = cli->access.client.url;
    if (bench.options.beanstalk) {
        bool whole = strchr(bench.options.beanstalk, ':') != NULL;
        (void)snprintf(address, sizeof(address), "%s%s", bench.options.beanstalk,
                       whole ? "" : ":11300"); /* cut short it is no host's name */
        server = address;
    } else if (access_has_secret(&cli->access))
        cli_bad_value(
            cli, "the load goes to laterd itself, without user and token: give its own HOST:PORT");
    if (dial_init(&bench.dial, server))
        cli_bad_value(cli, "%s", bench.dial.error);
    bench.lateness = mem_zalloc(sizeof(*bench.lateness));
    int code = bench_check_topic(&bench);
    if (code == EXIT_DONE)
        code = bench_run(&bench);
    if (bench.progress)
        (void)fputs("\r\x1b[K", stderr);
    bench_forms_fini(&bench);
    mem_free(bench.lateness);
    mem_free(bench.seen);
    mem_free(bench.ids);
    mem_free(bench.due_us);
    return code;
}

const struct command command_bench = {
    .name = "bench",
    .synopsis = "[options] put | cycle | cancel | due | burst | idle",
    .summary = "Measure a server: rates, latencies, lateness, CPU per operation",
    .help =
        "  put     push jobs that are due tomorrow\n"
        "  cycle   push, reserve, finish, over and over\n"
        "  cancel  delete by id jobs that are due tomorrow\n"
        "  due     --rate jobs fall due each second, consumers wait: how late, any early?\n"
        "  burst   --jobs jobs fall due at one instant: first after, all within\n"
        "  idle    --connections parked polls and nothing to do: what does that cost?\n"
        "\n"
        "  -c, --connections N     (64)      -D, --depth N      requests under way on each (1)\n"
        "  -n, --jobs N            (200000; due: 10 seconds' worth; burst: 100000)\n"
        "  -S, --seconds N         end the measured part after N seconds (60)\n"
        "  -b, --body BYTES        (256)     -I, --id-bytes N   0: the server makes ids (20)\n"
        "  -r, --rate N            (1000)    -B, --batch N      jobs in one reserve (1)\n"
        "  -l, --lead D            due, burst: from the first push to the first due time\n"
        "  -o, --topic NAME        (one of its own) one without jobs: what is there is taken,\n"
        "                          and deleted at the end. Nobody else may use it meanwhile\n"
        "  -d, --dialect WHAT      v1 or delay-queue (v1)\n"
        "  -A, --beanstalk ADDR    speak beanstalkd's protocol, to any server that does\n"
        "  -X, --stop              burst: halt --server-pid until its jobs are all overdue\n"
        "  -P, --server-pid PID    report this process' CPU; may be given again\n"
        "  -k, --keep              leave the jobs there\n"
        "  -H, --shared            other benches use --topic at the same time: it may have jobs\n"
        "  -w, --within D          put, cancel: due at random times within D, not tomorrow\n"
        "  -R, --random            cancel: in random order, not in that of the puts\n"
        "  -m, --mark HEX          the six digits that ids begin with (random)\n"
        "  -T, --there N           cancel: --jobs of the N that a put with this --mark has kept "
        "there\n"
        "  -K, --skip N            cancel --there: the first N in its order are gone already\n"
        "\nOver beanstalkd's protocol, whose delays are whole seconds: due puts each job a whole\n"
        "number of seconds before it is due; the jobs of burst are ready in a paused tube, or all\n"
        "overdue (--stop).\n"
        "\nIts own topic, and in any topic the jobs that are left, are deleted at the end, after\n"
        "Ctrl-C, too (a second Ctrl-C leaves them). Over beanstalkd's protocol laterd keeps the\n"
        "empty topic.\n"
        "\nExit 6 if a job came early, twice or never, 3 if the topic has jobs already (put and\n"
        "cancel take one that has with --keep).\n"
        "\nExamples:\n"
        "  later bench put --connections 16 --depth 16\n"
        "  later bench cycle --server-pid $(pidof laterd)\n"
        "  later bench due --rate 10000 --json | jq .lateness_us\n"
        "  later bench put --beanstalk 127.0.0.1:11300 --server-pid $(pidof beanstalkd)\n",
    .run = run,
};
