/*
 * later bench: reads the options, prepares, runs the measured part, cleans up. What the figures
 * mean is said in docs/performance.md.
 */
#include "cli/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/text.h"

enum {
    SECOND_US = 1000000,
    PUSHES_PER_SECOND = 20000, /* what any server should manage: it sets the default lead */
    GRACE_US = 10 * SECOND_US, /* how late a job may come before it counts as lost */
    CLEAR_ROUNDS = 100000,     /* bounds the clean-up, at up to 1,000 jobs each */
};

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
    CLI_OPTIONS,
};

const char *bench_scenario_name(enum bench_scenario scenario)
{
    static const char *const names[BENCH_COUNT] = {"put", "cycle", "due", "burst", "idle"};
    return names[scenario];
}

static enum bench_scenario scenario_of(const struct cli *cli, const char *name)
{
    for (unsigned i = 0; i < BENCH_COUNT; i++) {
        if (strcmp(name, bench_scenario_name((enum bench_scenario)i)) == 0)
            return (enum bench_scenario)i;
    }
    cli_usage(cli, "no scenario '%s': put, cycle, due, burst or idle", name);
}

static void topic_of(const struct cli *cli, struct bench_options *out, const char *name)
{
    if (strlen(name) >= sizeof(out->topic) || name[0] == '\0' ||
        name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")])
        cli_usage(cli, "--topic of a bench: up to 63 letters, digits, '.', '_' and '-'");
    memcpy(out->topic, name, strlen(name) + 1);
}

/* One option of ours. */
static void take_option(struct cli *cli, struct bench_options *out, int option)
{
    switch (option) {
    case 'c': out->connections = (uint32_t)cli_number(cli, "--connections", optarg, 15000); break;
    case 'D': out->depth = (uint32_t)cli_number(cli, "--depth", optarg, 1024); break;
    case 'n': out->jobs = cli_number(cli, "--jobs", optarg, 100000000); break;
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
            cli_usage(cli, "--dialect v1 or delay-queue");
        break;
    case 'P':
        if (out->pid_count == BENCH_PIDS)
            cli_usage(cli, "at most %d times --server-pid", BENCH_PIDS);
        out->pids[out->pid_count++] = (pid_t)cli_number(cli, "--server-pid", optarg, INT32_MAX);
        break;
    case 'k': out->keep = true; break;
    default: break;
    }
}

static void options_of(struct cli *cli, int argc, char **argv, struct bench_options *out)
{
    *out = (struct bench_options){.connections = 64,
                                  .depth = 1,
                                  .batch = 1,
                                  .body_bytes = 256,
                                  .id_bytes = 20,
                                  .rate = 1000,
                                  .limit_us = 60 * (int64_t)SECOND_US};
    (void)snprintf(out->topic, sizeof(out->topic), "later-bench-%d", (int)getpid()); /* it fits */
    for (int c; (c = cli_option(cli, argc, argv, options)) != -1;)
        take_option(cli, out, c);
    cli_words(cli, argc, argv, 1, 1);
    out->scenario = scenario_of(cli, argv[optind]);
    bool timed = out->scenario == BENCH_DUE || out->scenario == BENCH_BURST;
    if (out->jobs == 0)
        out->jobs = out->scenario == BENCH_DUE     ? (uint64_t)out->rate * 10
                    : out->scenario == BENCH_BURST ? 100000
                                                   : 200000;
    if (out->connections == 0 || out->depth == 0 || out->rate == 0 || out->batch == 0)
        cli_usage(cli, "--connections, --depth, --rate and --batch are at least 1");
    if ((timed || out->dialect == SPEAK_DELAY_QUEUE || out->id_bytes > 0) &&
        out->id_bytes < BENCH_ID_MIN)
        cli_usage(cli, "--id-bytes is at least %d here", BENCH_ID_MIN);
    if (out->dialect == SPEAK_DELAY_QUEUE && out->scenario != BENCH_PUT &&
        out->scenario != BENCH_CYCLE)
        cli_usage(cli, "--dialect delay-queue has the scenarios put and cycle");
}

/* Forgets the counts of the phase before. */
static void phase(struct bench *bench, const char *name, uint64_t target)
{
    bench->phase = name;
    bench->target = target;
    bench->asked = bench->answered = 0;
}

/* Reads all server processes. */
static void usage_of(const struct bench *bench, struct usage *out_usage)
{
    *out_usage = (struct usage){0};
    for (uint32_t i = 0; i < bench->options.pid_count; i++) {
        if (!usage_add(bench->options.pids[i], out_usage))
            cli_usage(bench->cli, "--server-pid %d: no such process", (int)bench->options.pids[i]);
    }
}

/* Runs the script that is set up, as the measured part. */
static void measure(struct bench *bench, struct load *load, int64_t until_us)
{
    memset(load->latency, 0, LOAD_KINDS * sizeof(*load->latency)); /* preparing does not count */
    usage_of(bench, &bench->before);
    uint64_t own_us = usage_own_us();
    int64_t start_us = load_clock(load);
    load_run(load, &bench->script, until_us);
    bench->elapsed_us = load_clock(load) - start_us;
    bench->own_us = usage_own_us() - own_us;
    usage_of(bench, &bench->after);
}

static void sleep_until(struct load *load, int64_t until_us)
{
    while (load_clock(load) < until_us) {
        int64_t left_us = until_us - load->now_us;
        const struct timespec nap = {.tv_sec = left_us / SECOND_US,
                                     .tv_nsec = left_us % SECOND_US * 1000};
        (void)nanosleep(&nap, NULL); /* cut short: the loop goes on */
    }
}

static void run_cycle(struct bench *bench, struct load *load)
{
    if (bench->options.dialect == SPEAK_DELAY_QUEUE) {
        /*
         * A delay of 0 is refused there. So jobs to take are pushed first and fall due; then each
         * lane pushes a job for later, and takes and finishes one of those.
         */
        phase(bench, "prepare", bench->options.jobs);
        bench_script_put(bench);
        load_run(load, &bench->script, load_clock(load) + bench->options.limit_us);
        sleep_until(load, load_clock(load) + 2 * SECOND_US);
        bench->mark = (bench->mark + 1) & 0xffffff; /* fresh ids: a second push would replace */
        bench_forms_fini(bench);
        bench_forms(bench, bench->cli->client.authority);
    }
    phase(bench, "cycle", bench->options.jobs);
    bench_script_cycle(bench);
    measure(bench, load, load_clock(load) + bench->options.limit_us);
}

/* DUE and BURST: push all, then wait as consumers for them to fall due. False: no figures. */
static bool run_due(struct bench *bench, struct load *load)
{
    const struct bench_options *o = &bench->options;
    int64_t lead_us = o->lead_us;
    if (lead_us == 0)
        lead_us = 2 * SECOND_US + (int64_t)(o->jobs * SECOND_US / PUSHES_PER_SECOND);
    bench->seen = mem_zalloc(o->jobs);
    bench->base_us = (load_clock(load) + lead_us) / 1000 * 1000; /* the wire has milliseconds */
    phase(bench, "push", o->jobs);
    bench_script_put(bench);
    load_run(load, &bench->script, bench->base_us);
    if (load->failed)
        return false;
    if (bench->answered < bench->target || load->now_us > bench->base_us - SECOND_US / 10) {
        cli_say(bench->cli, "the pushes took longer than %lld ms: give a longer --lead",
                (long long)(lead_us / 1000));
        return false;
    }
    phase(bench, "consume", bench->answered - bench->refused);
    bench_script_drain(bench);
    load->quiet_us = 0; /* jobs may be far apart */
    measure(bench, load, bench_due_us(bench, o->jobs - 1) + GRACE_US);
    return true;
}

static bool run_scenario(struct bench *bench, struct load *load)
{
    switch (bench->options.scenario) {
    case BENCH_PUT:
        phase(bench, "put", bench->options.jobs);
        bench_script_put(bench);
        measure(bench, load, load_clock(load) + bench->options.limit_us);
        return true;
    case BENCH_CYCLE: run_cycle(bench, load); return true;
    case BENCH_DUE:
    case BENCH_BURST: return run_due(bench, load);
    case BENCH_IDLE:
        phase(bench, "idle", bench->options.connections);
        bench_script_idle(bench);
        load->quiet_us = 0;
        measure(bench, load, load_clock(load) + bench->options.limit_us);
        return true;
    case BENCH_COUNT: break;
    }
    return false;
}

/* Deletes what is left in the topic, in every state. */
static void clean_up(struct bench *bench)
{
    static const char *const states[] = {"delayed", "ready", "reserved", "buried"};
    char *target = cli_target("/v1/topics/", bench->options.topic, "/clear");
    if (bench->progress)
        (void)fputs("\rclean up \x1b[K", stderr);
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        bool more = true;
        for (unsigned round = 0; more && round < CLEAR_ROUNDS; round++) {
            json_t *answer = NULL;
            if (cli_call(bench->cli, "POST", target, json_pack("{ss}", "state", states[i]),
                         &answer)) {
                cli_say(bench->cli, "jobs are left in topic %s", bench->options.topic);
                mem_free(target);
                return;
            }
            more = json_is_true(json_object_get(answer, "more"));
            json_decref(answer);
        }
    }
    mem_free(target);
}

/* Were all promises kept, as far as this scenario can see? */
static int verdict(const struct bench *bench)
{
    bool timed = bench->options.scenario == BENCH_DUE || bench->options.scenario == BENCH_BURST;
    if (bench->refused > 0)
        return EXIT_REFUSED;
    if (timed && (bench->early > 0 || bench->twice > 0 || bench->received < bench->target))
        return EXIT_WRONG;
    return EXIT_DONE;
}

static int run_with(struct bench *bench, struct load *load)
{
    struct cli *cli = bench->cli;
    uint32_t deep = bench->options.depth + bench->options.batch + 1;
    struct buf out = {0};
    if (load_open(load, &cli->client, bench->options.connections, deep)) {
        cli_say(cli, "%s", *cli->client.trouble ? cli->client.trouble : strerror(errno));
        return EXIT_UNREACHABLE;
    }
    bench_forms(bench, cli->client.authority);
    bool measured = run_scenario(bench, load);
    if (bench->progress)
        (void)fputs("\r\x1b[K", stderr);
    if (load->failed) {
        cli_say(cli, "%s", load->trouble);
        return EXIT_UNREACHABLE;
    }
    if (measured && cli->json)
        bench_report_json(bench, load);
    else if (measured)
        bench_report(bench, load, &out);
    cli_flush(&out);
    buf_fini(&out);
    return measured ? verdict(bench) : EXIT_REFUSED;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct bench bench = {.cli = cli, .progress = isatty(STDERR_FILENO) != 0};
    struct load load;
    options_of(cli, argc, argv, &bench.options);
    if (client_init(&cli->client, cli->server))
        cli_usage(cli, "%s", cli->client.trouble);
    cli->has_client = true;
    bench.lateness = mem_zalloc(sizeof(*bench.lateness));
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with this clock */
    bench.mark = (uint32_t)(now.tv_nsec / 1000 ^ now.tv_sec ^ getpid() << 8) & 0xffffff;

    int code = run_with(&bench, &load);
    load_close(&load); /* before the clean-up: parked polls must take no job */
    if (!bench.options.keep && code != EXIT_UNREACHABLE && bench.options.scenario != BENCH_IDLE)
        clean_up(&bench);
    if (bench.progress)
        (void)fputs("\r\x1b[K", stderr);
    bench_forms_fini(&bench);
    mem_free(bench.lateness);
    mem_free(bench.seen);
    return code;
}

const struct command command_bench = {
    .name = "bench",
    .synopsis = "[options] put | cycle | due | burst | idle",
    .summary = "Measure a server: rates, latencies, lateness, CPU per operation",
    .help =
        "  put     push jobs that are due tomorrow\n"
        "  cycle   push, reserve, finish, over and over\n"
        "  due     --rate jobs fall due each second, consumers wait: how late, any early?\n"
        "  burst   --jobs jobs fall due at one instant: first after, all within\n"
        "  idle    --connections parked polls and nothing to do: what does that cost?\n"
        "\n"
        "  -c, --connections N     (64)      -D, --depth N      requests under way on each (1)\n"
        "  -n, --jobs N            (200000; due: 10 seconds' worth; burst: 100000)\n"
        "  -S, --seconds N         end the measured part after so long (60)\n"
        "  -b, --body BYTES        (256)     -I, --id-bytes N   0: the server makes ids (20)\n"
        "  -r, --rate N            (1000)    -B, --batch N      jobs in one reserve (1)\n"
        "  -l, --lead D            due, burst: from the first push to the first due time\n"
        "  -o, --topic NAME        (one of its own)\n"
        "  -d, --dialect WHAT      v1 or delay-queue (v1)\n"
        "  -P, --server-pid PID    report this process' CPU; may be given again\n"
        "  -k, --keep              leave the jobs there\n"
        "\nExit 6 if a job came early, twice or never.\n"
        "\nExamples:\n"
        "  later bench put --connections 16 --depth 16\n"
        "  later bench cycle --server-pid $(pidof laterd)\n"
        "  later bench due --rate 10000 --json | jq .lateness_us\n",
    .run = run,
};
