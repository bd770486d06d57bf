#include "cli/consume.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/check.h"
#include "cli/child.h"
#include "cli/show.h"
#include "cli/text.h"
#include "port/clock.h"

#define SECOND_US INT64_C(1000000)

enum {
    UNSCHEDULED_DELAY_MS = 30 * 1000, /* of a failed job without a retry schedule: else it would
                                         come at once, and so on without an end */
    AGAIN_MIN_MS = 1000, /* between tries to reach a server that is away: doubled each time */
    AGAIN_MAX_MS = 10 * 1000,
    RENEW_MIN_MS = 100,        /* between two renewals of a lease */
    KILL_AFTER_MS = 10 * 1000, /* from SIGTERM to SIGKILL */
};

static struct {
    int fd; /* a signalfd */
    sigset_t before;
    unsigned stops; /* signals that ask for the end */
} signals = {.fd = -1};

struct consumer {
    struct cli *cli;
    const struct consume_options *options;
    uint64_t done; /* jobs, failed ones included */
    bool failed;   /* a command did */
    bool broken; /* no more jobs: the command cannot be run at all, or our messages reach nobody */
    int code;    /* of a job that could not be settled: the first one */
};

/* A job that is held while its command runs. Times are those of now_us(). */
struct held {
    const json_t *job;
    const char *id, *lease;
    int64_t ttr_us;
    int64_t until_us; /* the lease is good at least until then */
    int64_t renew_us; /* when to renew it next */
    bool lost;        /* it is not ours any more */
    bool refused;     /* the last renewal was, but not because of the lease (401, 403) */
    bool away;        /* the last renewal was not answered, which was printed */
};

static int64_t now_us(void)
{
    return clock_monotonic_us();
}

/* ---- signals ---- */

static void signals_take(void)
{
    static const int stops[] = {SIGTERM, SIGINT, SIGHUP};
    struct sigaction action;
    sigset_t taken;
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, commands would be gone when we ask for their end */
    (void)sigemptyset(&taken);
    (void)sigaddset(&taken, SIGCHLD);
    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
        CHECK(sigaction(stops[i], NULL, &action) == 0);
        if (action.sa_handler != SIG_IGN) /* nohup's SIGHUP stays ignored */
            (void)sigaddset(&taken, stops[i]);
    }
    signals.fd = signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC);
    CHECK(signals.fd >= 0);
    /* A reader of our messages that has gone (tee ends first at a Ctrl-C) must not end us while a
     * job is held. Nobody reads this one: it stays pending. */
    (void)sigaddset(&taken, SIGPIPE);
    CHECK(sigprocmask(SIG_BLOCK, &taken, &signals.before) == 0);
}

/* For client.h's `watch`: has a signal asked for the end? */
static bool signals_read(void)
{
    struct signalfd_siginfo info;
    while (read(signals.fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        signals.stops += info.ssi_signo != SIGCHLD;
    return signals.stops > 0;
}

/* Has the reader of our messages gone (a pipe's other end)? What the command prints goes there,
 * too: each would fail. */
static bool reader_has_gone(void)
{
    struct pollfd messages = {.fd = STDERR_FILENO};
    return poll(&messages, 1, 0) > 0 && (messages.revents & POLLERR);
}

/* Until a signal comes, or the time. */
static void wait_until(int64_t time_us)
{
    struct pollfd poll_fd = {.fd = signals.fd, .events = POLLIN};
    int64_t left_ms = (time_us - now_us() + 999) / 1000;
    int ms = left_ms < 0 ? 0 : left_ms < 3600 * 1000 ? (int)left_ms : 3600 * 1000;
    (void)poll(&poll_fd, 1, ms); /* the caller looks at the time and the signals again */
    (void)signals_read();
}

/* ---- a job's lease ---- */

static int64_t renewal_interval_us(const struct held *held)
{
    int64_t third_us = held->ttr_us / 3;
    return third_us > RENEW_MIN_MS * 1000 ? third_us : RENEW_MIN_MS * 1000;
}

/* The call `after` on the held job, with its lease. Takes ownership of `body`. */
static int call_held(struct consumer *consumer, const struct held *held, const char *after,
                     json_t *body, json_t **out_answer)
{
    json_object_set_new(body, "lease", json_string(held->lease));
    return cli_call_job(consumer->cli, "POST", held->id, after, body, out_answer);
}

/* Is it worth another try? A server that is starting or has no room answers later. */
static bool may_pass(const struct cli *cli, int code)
{
    return code == EXIT_UNREACHABLE ||
           (code == EXIT_REFUSED && (cli->refused_status >= 500 || cli->refused_status == 429));
}

static void renew(struct consumer *consumer, struct held *held)
{
    struct cli *cli = consumer->cli;
    int64_t timeout_us = cli->timeout_us, asked_us = now_us(),
            interval_us = renewal_interval_us(held);
    json_t *answer = NULL;
    cli->quiet = held->away;
    cli->timeout_us = timeout_us < interval_us ? timeout_us : interval_us;
    int code = call_held(consumer, held, "/touch", json_object(), &answer);
    cli->timeout_us = timeout_us;
    cli->quiet = false;
    json_decref(answer);
    held->away = code != EXIT_DONE;
    held->refused = exit_is_refusal(code) && !may_pass(cli, code);
    if (code == EXIT_DONE)
        held->until_us = asked_us + held->ttr_us;
    else
        held->lost = code == EXIT_NOTHING || code == EXIT_CONFLICT;
    held->renew_us = now_us() + interval_us;
}

/* ---- the command ---- */

/* What the command is told of its job, in its environment. */
static void set_environment(const struct cli *cli, const json_t *job)
{
    static const char *const names[][2] = {{"LATER_JOB_ID", "id"},
                                           {"LATER_JOB_TOPIC", "topic"},
                                           {"LATER_JOB_LEASE", "lease"},
                                           {"LATER_JOB_ATTEMPT", "attempt"},
                                           {"LATER_JOB_FAILURES", "failures"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct buf value = {0};
        const char *text = show_string(job, names[i][1]);
        buf_add_str(&value, text); /* as it is: by it the command may ask for its job */
        if (!*text)
            show_value(job, names[i][1], &value); /* a number */
        buf_add_char(&value, '\0');
        CHECK(setenv(names[i][0], value.at, 1) == 0);
        buf_fini(&value);
    }
    CHECK(setenv("LATER_SERVER", cli->access.client.url, 1) == 0); /* so that it can call later */
}

/* Waits for the command's end, and holds the job meanwhile. False: it took too long, and was ended.
 * When the shell of a command that is to end has ended, what is left of its group is killed: the
 * job is given back then. */
static bool wait_for(struct consumer *consumer, struct child *child, struct held *held)
{
    int64_t run_us = consumer->options->limit_us;
    int64_t limit_us = run_us ? now_us() + run_us : INT64_MAX, kill_us = INT64_MAX;
    bool terminated = false, in_time = true;
    while (!child_ended(child)) {
        int64_t now = now_us();
        held->lost |= held->refused && now >= held->until_us;
        if (!terminated && (now >= limit_us || held->lost || signals.stops > 1)) {
            child_signal(child, SIGTERM);
            in_time = now < limit_us;
            terminated = true;
            limit_us = INT64_MAX;
            kill_us = now + KILL_AFTER_MS * 1000;
        } else if (now >= kill_us) {
            child_signal(child, SIGKILL);
            kill_us = INT64_MAX;
        }
        if (!held->lost && now >= held->renew_us) {
            renew(consumer, held);
            continue;
        }
        int64_t next_us = limit_us < kill_us ? limit_us : kill_us;
        if (held->refused && !held->lost && held->until_us < next_us)
            next_us = held->until_us;
        wait_until(!held->lost && held->renew_us < next_us ? held->renew_us : next_us);
    }
    if (terminated)
        child_signal(child, SIGKILL);
    return in_time;
}

/* ---- the job's end ---- */

/*
 * Finishes or releases the job, and tries again while its lease is good. A repeated call may find
 * the job gone, because an earlier one was done and only its answer was lost: that is success. It
 * may also find the job without the lease: released by an earlier call, or by a server that was
 * killed and had not kept it.
 */
static int settle(struct consumer *consumer, struct held *held, const char *after, json_t *body,
                  json_t **out_answer)
{
    struct cli *cli = consumer->cli;
    int64_t pause_ms = AGAIN_MIN_MS;
    bool repeated = false;
    int code;
    for (;;) {
        cli->quiet = repeated;
        code = call_held(consumer, held, after, json_deep_copy(body), out_answer);
        cli->quiet = false;
        if (!may_pass(cli, code) || now_us() >= held->until_us || signals.stops > 1)
            break;
        int64_t again_us = now_us() + pause_ms * 1000;
        while (now_us() < again_us && signals.stops < 2)
            wait_until(again_us);
        if (now_us() >= held->renew_us && !held->lost)
            renew(consumer, held); /* that may work while this is refused */
        pause_ms = pause_ms * 2 < AGAIN_MAX_MS ? pause_ms * 2 : AGAIN_MAX_MS;
        repeated = true;
    }
    json_decref(body);
    if (repeated && code == EXIT_NOTHING)
        code = EXIT_DONE;
    cli->subject = held->id;
    if (code == EXIT_UNREACHABLE || exit_is_refusal(code))
        cli_message(cli, "it comes again when its ttr ends");
    else if (repeated && code == EXIT_CONFLICT)
        cli_message(cli, "the server no longer knows its lease: the job comes again");
    cli->subject = NULL;
    if (consumer->code == EXIT_DONE)
        consumer->code = code;
    return code;
}

/* `job`: after its release; NULL if the answer was lost. */
static void report_released(const struct consumer *consumer, const struct held *held,
                            struct bytes reason, const json_t *job)
{
    struct cli *cli = consumer->cli;
    const char *state = show_string(job, "state");
    struct buf line = {0};
    buf_add_bytes(&line, reason);
    if (strcmp(state, "delayed") == 0) {
        buf_add_str(&line, "; it comes again ");
        show_time(job, "due_ms", &line);
    } else if (strcmp(state, "buried") == 0) {
        buf_add_str(&line, "; it has failed too often and is buried: later kick ");
        text_add_safe(&line, bytes_str(held->id));
    } else {
        buf_add_str(&line, "; it is released");
    }
    cli->subject = held->id;
    cli_message(cli, "%.*s", (int)line.len, line.at);
    cli->subject = NULL;
    buf_fini(&line);
}

static void release(struct consumer *consumer, struct held *held, struct bytes reason,
                    int exit_status)
{
    const struct consume_options *options = consumer->options;
    json_t *body = json_object(), *answer = NULL;
    json_object_set_new(body, "reason", json_stringn(reason.at, reason.len));
    if (exit_status > 0)
        json_object_set_new(body, "code", json_integer(exit_status));
    if (options->delay_us >= 0)
        json_object_set_new(body, "delay", cli_duration_json(options->delay_us));
    else if (!json_object_get(held->job, "retry"))
        json_object_set_new(body, "delay", json_integer(UNSCHEDULED_DELAY_MS));
    consumer->failed = true;
    if (settle(consumer, held, "/release", body, &answer) == EXIT_DONE)
        report_released(consumer, held, reason, answer);
    json_decref(answer);
}

/* The command has ended. */
static void conclude(struct consumer *consumer, struct held *held, const struct child *child,
                     bool in_time)
{
    struct cli *cli = consumer->cli;
    int status = child_exit_status(child);
    json_t *answer = NULL;
    struct buf reason = {0};
    char room[TEXT_ROOM];
    if (held->lost) {
        cli->subject = held->id;
        cli_message(cli, "%s: the command was ended",
                    held->refused ? "its lease could not be renewed, and has ended"
                                  : "its lease was lost (the job was deleted or given to another)");
        cli->subject = NULL;
        consumer->failed = true;
        return;
    }
    if (status == 0 && in_time) {
        (void)settle(consumer, held, "/finish", json_object(), &answer); /* its code is kept */
        json_decref(answer);
        return;
    }
    if (in_time)
        child_add_end(child, &reason);
    else
        buf_addf(&reason, "it ran for more than %s and was ended",
                 duration_text(consumer->options->limit_us, room));
    release(consumer, held, buf_bytes(&reason), in_time ? status : 0); /* as other time-outs */
    buf_fini(&reason);
    consumer->broken = in_time && (status == CHILD_NOT_FOUND || status == CHILD_NOT_EXECUTABLE);
}

static void run_job(struct consumer *consumer, const json_t *job)
{
    struct cli *cli = consumer->cli;
    struct held held = {
        .job = job,
        .id = show_string(job, "id"),
        .lease = show_string(job, "lease"),
        .ttr_us = (int64_t)show_count(job, "ttr_ms") * 1000,
    };
    struct child child;
    struct buf input = {0};
    held.until_us = now_us() + held.ttr_us;
    held.renew_us = now_us() + renewal_interval_us(&held);
    if (cli->json)
        cli_add_json(job, &input);
    else
        show_body(job, &input);
    set_environment(cli, job);
    if (child_start(&child, consumer->options->command, buf_bytes(&input), &signals.before)) {
        struct buf reason = {0};
        buf_addf(&reason, "the command cannot be started: %s", strerror(errno));
        release(consumer, &held, buf_bytes(&reason), 0);
        consumer->broken = true;
        buf_fini(&reason);
    } else {
        bool in_time = wait_for(consumer, &child, &held);
        conclude(consumer, &held, &child, in_time);
    }
    consumer->broken |= reader_has_gone();
    consumer->done++;
    buf_fini(&input);
}

/* ---- the loop ---- */

static int reserve(struct consumer *consumer, json_t **out_answer)
{
    struct cli *cli = consumer->cli;
    int64_t wait_us = consumer->options->wait_us;
    json_t *body = json_pack("{sOsosi}", "topics", consumer->options->topics, "wait",
                             cli_duration_json(wait_us), "max", 1);
    cli->wait_us = wait_us;
    cli->client.watch = signals_read;
    int code = cli_call(cli, "POST", "/v1/reserve", body, out_answer);
    cli->client.watch = NULL;
    cli->client.interrupted = false; /* the calls about a job are not given up */
    cli->wait_us = 0;
    return code;
}

/* Takes a job and runs the command. False: there was none; *out_code: of the reserve. */
static bool take_job(struct consumer *consumer, int *out_code)
{
    json_t *answer = NULL;
    *out_code = reserve(consumer, &answer);
    consumer->cli->quiet = false; /* it was, if the server was away before */
    const json_t *job = json_array_get(json_object_get(answer, "jobs"), 0);
    if (job)
        run_job(consumer, job);
    json_decref(answer);
    return job != NULL;
}

/* Goes on after a server that is away, and after no job. The code that ends it. */
static int consume_forever(struct consumer *consumer)
{
    struct cli *cli = consumer->cli;
    int64_t pause_ms = AGAIN_MIN_MS;
    while (!signals_read() && !consumer->broken) {
        int code;
        bool taken = take_job(consumer, &code);
        if (code == EXIT_DONE) {
            pause_ms = AGAIN_MIN_MS;
            /* With --wait 0 an empty queue would be asked without a rest. */
            if (!taken && consumer->options->wait_us == 0)
                wait_until(now_us() + AGAIN_MIN_MS * 1000);
            continue;
        }
        if (signals.stops > 0)
            break;
        if (!may_pass(cli, code))
            return code;
        if (pause_ms == AGAIN_MIN_MS)
            cli_message(cli, "trying again until it answers");
        wait_until(now_us() + pause_ms * 1000);
        pause_ms = pause_ms * 2 < AGAIN_MAX_MS ? pause_ms * 2 : AGAIN_MAX_MS;
        cli->quiet = true; /* only the first failure is printed */
    }
    return consumer->broken ? EXIT_WRONG : EXIT_DONE;
}

static int consume_some(struct consumer *consumer, bool *out_none)
{
    int code = EXIT_DONE;
    bool taken = true;
    while (taken && consumer->done < consumer->options->jobs_max && !signals_read() &&
           !consumer->broken)
        taken = take_job(consumer, &code);
    if (signals.stops > 0)
        code = EXIT_DONE;
    *out_none = code == EXIT_DONE && consumer->done == 0 && signals.stops == 0;
    if (code != EXIT_DONE)
        return code;
    if (*out_none)
        return EXIT_NOTHING;
    return consumer->failed || consumer->broken ? EXIT_WRONG : consumer->code;
}

int consume_run(struct cli *cli, const struct consume_options *options, bool *out_none)
{
    struct consumer consumer = {.cli = cli, .options = options};
    *out_none = false;
    signals_take();
    cli_begin(cli);
    cli->client.watch_fd = signals.fd;
    return options->forever ? consume_forever(&consumer) : consume_some(&consumer, out_none);
}
