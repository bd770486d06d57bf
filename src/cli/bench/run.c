/*
 * The phases of a scenario: prepare, the measured part, the verdict, clean up. The jobs of `due`
 * and `burst` are all there before the measured part begins, shortly before the first falls due.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "cli/bench/bench.h"
#include "port/clock.h"

enum {
    SECOND_US = 1000000,
    PUSHES_PER_SECOND = 20000, /* what any server should manage: it sets the default lead */
    GRACE_US = 10 * SECOND_US, /* how late a job may come before it counts as lost */
    CLEAR_ROUNDS = 100000,     /* bounds the clean-up, at up to 1,000 jobs each */
    KICK_ROUNDS = 1000,        /* the same over beanstalkd's protocol, at up to 1,000,000 */
    SETTLE_US = 50 * 1000,     /* the consumers' reserves are parked before the first due time */
    TWICE_US = 100 * 1000,     /* a signal so soon after the first is the same one: timeout(1) */
};

/* The servers that are stopped now. They go on when this program ends, but by SIGKILL or a bug. */
static struct {
    pid_t pids[BENCH_PIDS];
    volatile sig_atomic_t count;
} stopped;

/* The signal that came: what is measured ends, and the jobs are deleted. A second one ends all. */
static volatile sig_atomic_t interrupted;

static void continue_servers(void)
{
    for (int i = 0; i < stopped.count; i++)
        (void)kill(stopped.pids[i], SIGCONT); /* usage_of() tells of one that is gone */
    stopped.count = 0;
}

static void end_by_signal(int number)
{
    continue_servers();
    (void)signal(number, SIG_DFL);
    (void)raise(number); /* when this handler returns */
}

static void interrupt(int number)
{
    static int64_t first_us;
    int64_t now_us = clock_monotonic_us();
    continue_servers();
    if (!interrupted) {
        first_us = now_us;
        interrupted = number;
    } else if (now_us - first_us > TWICE_US) {
        end_by_signal(number);
    }
}

/* Leaves alone what whoever started this program ignores. */
static void handle(int number, void (*handler)(int))
{
    if (signal(number, handler) == SIG_IGN)
        (void)signal(number, SIG_IGN);
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
            cli_bad_value(bench->cli, "--server-pid %d: no such process",
                          (int)bench->options.pids[i]);
    }
}

/* The measured part begins; what came before does not count. */
static void open_measured(struct bench *bench, struct load *load)
{
    memset(load->latency, 0, LOAD_KINDS * sizeof(*load->latency));
    usage_of(bench, &bench->before);
    bench->own_us = usage_own_us();
    bench->start_us = load_clock(load);
}

static void close_measured(struct bench *bench, struct load *load)
{
    bench->elapsed_us = load_clock(load) - bench->start_us;
    bench->own_us = usage_own_us() - bench->own_us;
    usage_of(bench, &bench->after);
}

/* Runs the script that is set up, as the measured part. */
static void measure(struct bench *bench, struct load *load, int64_t until_us)
{
    open_measured(bench, load);
    load_run(load, &bench->script, until_us);
    close_measured(bench, load);
}

static void sleep_until(struct load *load, int64_t until_us)
{
    while (load_clock(load) < until_us && !interrupted) {
        int64_t left_us = until_us - load->now_us;
        const struct timespec nap = {.tv_sec = left_us / SECOND_US,
                                     .tv_nsec = left_us % SECOND_US * 1000};
        (void)nanosleep(&nap, NULL); /* cut short: the loop goes on */
    }
}

/* False: no figures. */
static bool run_cycle(struct bench *bench, struct load *load)
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
        if (interrupted)
            return false;
        bench->mark = (bench->mark + 1) & 0xffffff; /* fresh ids: a second push would replace */
        bench_forms_fini(bench);
        bench_forms(bench, bench->dial.authority);
    }
    phase(bench, "cycle", bench->options.jobs);
    bench_script_cycle(bench);
    measure(bench, load, load_clock(load) + bench->options.limit_us);
    return true;
}

static void stop_servers(const struct bench *bench)
{
    static bool guarded;
    memcpy(stopped.pids, bench->options.pids, sizeof(stopped.pids));
    stopped.count = (sig_atomic_t)bench->options.pid_count;
    if (!guarded) {
        handle(SIGQUIT, end_by_signal);
        handle(SIGPIPE, end_by_signal);
    }
    if (!guarded && atexit(continue_servers) != 0)
        return; /* no memory: they are not stopped, and the figures say so */
    guarded = true;
    for (int i = 0; i < stopped.count; i++)
        (void)kill(stopped.pids[i], SIGSTOP); /* as above */
    if (interrupted) { /* just now: the handler may have let them go on before they were stopped */
        stopped.count = (sig_atomic_t)bench->options.pid_count;
        continue_servers();
    }
}

/*
 * The consumers wait; now it begins. A server to be stopped is stopped first, and goes on when all
 * jobs are overdue: that is the instant at which they fall due, as far as it can know.
 */
static void wake_drain(struct load_script *script, struct load *load)
{
    struct bench *bench = bench_of(script);
    if (bench->options.stop && bench->resume_us > 0 && load->now_us < bench->resume_us) {
        stop_servers(bench);
        load->wake_us = bench->resume_us;
        return;
    }
    open_measured(bench, load);
    if (bench->options.stop) {
        bench->base_us = load_clock(load);
        continue_servers();
    }
}

/* Are all jobs there in time? */
static bool all_pushed(struct bench *bench, struct load *load, int64_t first_due_us)
{
    if (load->failed || interrupted)
        return false;
    if (bench->answered == bench->target && load->now_us < first_due_us - SECOND_US / 10)
        return true;
    cli_message(bench->cli, "the pushes took too long: give a longer --lead, or fewer --jobs");
    return false;
}

/* The consumers of DUE and BURST. */
static void consume(struct bench *bench, struct load *load, int64_t last_due_us)
{
    phase(bench, "consume", bench->answered - bench->refused);
    bench_script_drain(bench, wake_drain);
    load->quiet_us = 0; /* jobs may be far apart */
    load_run(load, &bench->script, last_due_us + GRACE_US);
    close_measured(bench, load);
    continue_servers(); /* if it failed before */
}

static int64_t lead_us(const struct bench *bench)
{
    const struct bench_options *o = &bench->options;
    if (o->lead_us > 0)
        return o->lead_us;
    return 2 * SECOND_US + (int64_t)(o->jobs * SECOND_US / PUSHES_PER_SECOND);
}

/* DUE and BURST: push all, then wait as consumers for them to fall due. False: no figures. */
static bool run_due(struct bench *bench, struct load *load)
{
    const struct bench_options *o = &bench->options;
    bench->base_us = (load_clock(load) + lead_us(bench)) / 1000 * 1000; /* the wire has ms */
    phase(bench, "push", o->jobs);
    bench_script_put(bench);
    load_run(load, &bench->script, bench->base_us);
    if (!all_pushed(bench, load, bench->base_us))
        return false;
    bench->opens_us = bench->base_us - SETTLE_US;
    consume(bench, load, bench_due_us(bench, o->jobs - 1));
    return true;
}

/* The same over beanstalkd's protocol: the puts are as far apart as the due times. */
static bool run_due_beanstalk(struct bench *bench, struct load *load)
{
    uint64_t jobs = bench->options.jobs;
    int64_t first_due_us = load_clock(load) + (int64_t)bench->delay_s * SECOND_US;
    phase(bench, "put", jobs);
    bench->due_us = mem_zalloc(jobs * sizeof(*bench->due_us));
    bench_script_paced(bench);
    load_run(load, &bench->script, first_due_us);
    if (!all_pushed(bench, load, first_due_us))
        return false;
    bench->base_us = bench->due_us[0];
    bench->opens_us = bench->base_us - SETTLE_US;
    consume(bench, load, bench->due_us[jobs - 1]);
    return true;
}

/*
 * Over beanstalkd's protocol no two jobs can be put to fall due at one instant. So either they are
 * ready in a paused tube, and the instant is the pause's end; or they fall due one after the other
 * while the server is stopped, and the instant is when it goes on.
 */
static bool run_burst_beanstalk(struct bench *bench, struct load *load)
{
    const struct bench_options *o = &bench->options;
    int64_t held_us = (lead_us(bench) + SECOND_US - 1) / SECOND_US * SECOND_US;
    if (!o->stop) {
        phase(bench, "pause", 0);
        bench->hello.len = 0;
        buf_addf(&bench->hello, "pause-tube %s %lld\r\n", o->topic,
                 (long long)(held_us / SECOND_US));
        bench_script_hello_once(bench);
    }
    int64_t first_due_us = load_clock(load) + held_us;
    if (!o->stop)
        load_run(load, &bench->script, first_due_us);
    phase(bench, "put", o->jobs);
    bench_script_put(bench);
    load_run(load, &bench->script, first_due_us);
    if (!all_pushed(bench, load, first_due_us))
        return false;
    bench->base_us = first_due_us;
    bench->opens_us = first_due_us - SETTLE_US;
    bench->resume_us = load->now_us + held_us + SETTLE_US;
    consume(bench, load, bench->resume_us);
    return true;
}

/* Puts what is to be cancelled, or takes what an earlier run has put. Returns how many. */
static uint64_t prepare_cancel(struct bench *bench, struct load *load)
{
    if (bench->options.there)
        return bench->options.jobs;
    phase(bench, "prepare", bench->options.jobs);
    if (bench->options.dialect == SPEAK_BEANSTALK)
        bench->ids = mem_alloc(bench->options.jobs * sizeof(*bench->ids));
    bench_script_put(bench);
    load_run(load, &bench->script, load_clock(load) + bench->options.limit_us);
    return bench->ids ? bench->id_count : bench->answered;
}

static bool run_cancel(struct bench *bench, struct load *load)
{
    uint64_t there = prepare_cancel(bench, load);
    if (interrupted)
        return false;
    if (load->failed || there == 0) {
        cli_message(bench->cli, "no jobs could be prepared");
        return false;
    }
    phase(bench, "cancel", there);
    bench_script_cancel(bench);
    measure(bench, load, load_clock(load) + bench->options.limit_us);
    return true;
}

static bool run_scenario(struct bench *bench, struct load *load)
{
    const struct bench_options *o = &bench->options;
    bool beanstalk = o->dialect == SPEAK_BEANSTALK;
    if (o->within_us)
        bench->base_us = load_clock(load) / 1000000 * 1000000;
    switch (o->scenario) {
    case BENCH_PUT:
        phase(bench, "put", o->jobs);
        bench_script_put(bench);
        measure(bench, load, load_clock(load) + o->limit_us);
        return true;
    case BENCH_CYCLE: return run_cycle(bench, load);
    case BENCH_CANCEL: return run_cancel(bench, load);
    case BENCH_DUE: return beanstalk ? run_due_beanstalk(bench, load) : run_due(bench, load);
    case BENCH_BURST: return beanstalk ? run_burst_beanstalk(bench, load) : run_due(bench, load);
    case BENCH_IDLE:
        phase(bench, "idle", o->connections);
        bench_script_idle(bench);
        load->quiet_us = 0;
        measure(bench, load, load_clock(load) + o->limit_us);
        return true;
    case BENCH_COUNT: break;
    }
    return false;
}

/* Connects, and over beanstalkd's protocol turns to the topic. EXIT_DONE, or the code. */
static int connect_all(struct bench *bench, struct load *load, uint32_t connections, uint32_t deep)
{
    struct cli *cli = bench->cli;
    bool beanstalk = bench->options.dialect == SPEAK_BEANSTALK;
    load_scan *scan = beanstalk ? load_scan_beanstalk : load_scan_http;
    if (load_open(load, &bench->dial, scan, connections, deep)) {
        cli_message(cli, "%s", *bench->dial.error ? bench->dial.error : strerror(errno));
        return EXIT_UNREACHABLE;
    }
    bench_forms_fini(bench);
    bench_forms(bench, bench->dial.authority);
    if (!beanstalk)
        return EXIT_DONE;
    uint64_t refused_before = bench->refused; /* cleaning up comes after a run */
    phase(bench, "hello", 0);
    bench_script_hello(bench);
    load_run(load, &bench->script, load_clock(load) + GRACE_US);
    if (!load->failed && bench->refused == refused_before)
        return EXIT_DONE;
    cli_message(cli, "%s", load->failed ? load->error : bench->first_refusal);
    return EXIT_UNREACHABLE;
}

/* All jobs of the tube are made ready, and taken. */
static void clean_up_beanstalk(struct bench *bench)
{
    struct load load;
    bool left = true;
    bench->options.depth = 16;
    bench->options.scenario = BENCH_CYCLE; /* nothing is timed any more */
    if (connect_all(bench, &load, 4, bench->options.depth + 4) == EXIT_DONE) {
        bench->hello.len = 0;
        buf_add_str(&bench->hello, "kick 1000000\r\n");
        for (unsigned round = 0; left && !load.failed && round < KICK_ROUNDS; round++) {
            phase(bench, "clean up", 0);
            bench_script_hello_once(bench);
            load_run(&load, &bench->script, load_clock(&load) + GRACE_US);
            left = !bench->nothing_kicked;
            phase(bench, "clean up", 0);
            bench_script_clear(bench);
            load_run(&load, &bench->script, load_clock(&load) + bench->options.limit_us);
            left = left || bench->answered < bench->target;
        }
    }
    if (left)
        cli_message(bench->cli, "jobs are left in tube %s", bench->options.topic);
    load_close(&load);
}

/*
 * Deletes the topic, if it is of this run alone. Polls that the load had parked may wait on it for
 * a moment more; a topic that stays is empty, and does no harm.
 */
static void delete_topic(struct bench *bench)
{
    enum { TRIES = 50, APART_MS = 10 };
    const struct timespec apart = {.tv_nsec = APART_MS * 1000000};
    char *target = cli_target("/v1/topics/", bench->options.topic, "");
    bool removed = bench->options.named;
    int code = EXIT_DONE;
    bench->cli->quiet = true;
    for (int i = 0; i < TRIES && code == EXIT_DONE && !removed; i++) {
        json_t *answer = NULL;
        if (i > 0)
            (void)nanosleep(&apart, NULL); /* cut short it only asks sooner */
        code = cli_call(bench->cli, "DELETE", target, NULL, &answer);
        removed = json_is_true(json_object_get(answer, "removed"));
        json_decref(answer);
    }
    bench->cli->quiet = false;
    mem_free(target);
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
            bench->cli->expects = "not_found"; /* every push was refused: nothing is left */
            int code = cli_call(bench->cli, "POST", target, json_pack("{ss}", "state", states[i]),
                                &answer);
            bench->cli->expects = NULL;
            if (code != EXIT_DONE) {
                if (code != EXIT_NOTHING)
                    cli_message(bench->cli, "jobs may be left in topic %s", bench->options.topic);
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
    bool timed = bench_timed(&bench->options);
    if (bench->refused > 0)
        return EXIT_REFUSED;
    if (timed && (bench->early > 0 || bench->twice > 0 || bench->received < bench->target))
        return EXIT_WRONG;
    return EXIT_DONE;
}

/* Seconds of every put's delay. */
static uint32_t delay_of(const struct bench *bench)
{
    const struct bench_options *o = &bench->options;
    int64_t delay_us = 0;
    switch (o->scenario) {
    case BENCH_PUT:
    case BENCH_CANCEL: delay_us = 24 * 3600 * (int64_t)SECOND_US; break;
    case BENCH_DUE:
        /* All puts are sent before the first is due. */
        delay_us = (int64_t)(o->jobs * SECOND_US / o->rate) + SECOND_US / 2;
        if (o->lead_us > delay_us)
            delay_us = o->lead_us;
        break;
    case BENCH_BURST: delay_us = o->stop ? lead_us(bench) : 0; break;
    case BENCH_CYCLE:
    case BENCH_IDLE:
    case BENCH_COUNT: break;
    }
    return (uint32_t)((delay_us + SECOND_US - 1) / SECOND_US);
}

static int run_with(struct bench *bench, struct load *load)
{
    enum {
        PUTS_WAITING = 256
    }; /* DUE over beanstalkd's protocol: puts under way on a connection */
    const struct bench_options *o = &bench->options;
    struct cli *cli = bench->cli;
    struct buf out = {0};
    bool paced = o->dialect == SPEAK_BEANSTALK && o->scenario == BENCH_DUE;
    uint32_t deep = paced ? PUTS_WAITING : o->depth + o->batch + 2;
    int code = connect_all(bench, load, o->connections, deep);
    if (code != EXIT_DONE)
        return code;
    handle(SIGINT, interrupt); /* from here on there is something to delete */
    handle(SIGTERM, interrupt);
    handle(SIGHUP, interrupt);
    load->interrupted = &interrupted;
    bool measured = run_scenario(bench, load);
    if (interrupted && bench_timed(o))
        measured = false; /* jobs that have not come yet are not lost */
    if (bench->progress)
        (void)fputs("\r\x1b[K", stderr);
    if (load->failed) {
        if (bench->refused > 0 && bench->refused == bench->answered)
            cli_message(cli, "%s, after this answer: %s", load->error, bench->first_refusal);
        else
            cli_message(cli, "%s", load->error);
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

static void clean_up_all(struct bench *bench)
{
    const struct bench_options *o = &bench->options;
    if (o->dialect != SPEAK_BEANSTALK) {
        if (o->scenario != BENCH_IDLE) /* which pushes nothing */
            clean_up(bench);
        delete_topic(bench);
    } else if (o->scenario != BENCH_IDLE)
        clean_up_beanstalk(bench);
}

int bench_run(struct bench *bench)
{
    const struct bench_options *o = &bench->options;
    struct load load;
    if (bench_timed(o))
        bench->seen = mem_zalloc(o->jobs);
    bench->delay_s = delay_of(bench);
    int code = run_with(bench, &load);
    load_close(&load); /* before the clean-up: parked polls must take no job */
    bool cleans = !o->keep && code != EXIT_UNREACHABLE;
    if (cleans && interrupted)
        cli_message(bench->cli, "interrupted: its jobs are being deleted; once more leaves them");
    if (cleans)
        clean_up_all(bench);
    if (interrupted)
        end_by_signal(interrupted); /* so that a shell's loop ends, too */
    return code;
}
