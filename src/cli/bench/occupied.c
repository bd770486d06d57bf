/*
 * Keeps a bench off other people's jobs: it takes what it finds in its topic, and deletes what is
 * left there. A topic that --topic names must not have jobs; the bench's own name is of this run
 * alone.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/bench/bench.h"
#include "cli/show.h"
#include "cli/text.h"

static const char *const states[] = {"delayed", "ready", "reserved", "buried"};
enum { STATES = sizeof(states) / sizeof(states[0]), ANSWER_MAX = 16 * 1024 };

/* 0 if the server does not say: the load will meet the same error, and report it. */
static uint64_t jobs_by_http(struct bench *bench)
{
    struct cli *cli = bench->cli;
    json_t *answer = NULL;
    uint64_t jobs = 0;
    cli->quiet = true;
    (void)cli_call_topic(cli, "GET", bench->options.topic, "", NULL, &answer);
    cli->quiet = false;
    for (size_t i = 0; i < STATES; i++)
        jobs += show_count(answer, states[i]);
    json_decref(answer);
    return jobs;
}

/* The whole answer to one command of beanstalkd, as far as it comes in time; NUL-terminated. */
static void ask_beanstalk(struct bench *bench, const char *command, char answer[ANSWER_MAX])
{
    static const char end[] = "\r\n";
    int64_t timeout_us = bench->cli->timeout_us;
    size_t len = 0, command_len = strlen(command), wanted = ANSWER_MAX;
    int fd, timeout_ms = timeout_us > 60000000 ? 60000 : (int)(timeout_us / 1000);
    answer[0] = '\0';
    if (dial_connect(&bench->dial, timeout_us, &fd))
        return;
    bool on = send(fd, command, command_len, MSG_NOSIGNAL) == (ssize_t)command_len;
    while (on && len < wanted && len < ANSWER_MAX - 1) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        on = poll(&one, 1, timeout_ms) > 0;
        ssize_t got = on ? recv(fd, answer + len, ANSWER_MAX - 1 - len, 0) : 0;
        on = got > 0;
        len += on ? (size_t)got : 0;
        answer[len] = '\0';
        const char *line_end = strstr(answer, end);
        if (line_end) /* "OK BYTES", or a line alone */
            wanted = (size_t)(line_end - answer) + 2 +
                     (strncmp(answer, "OK ", 3) == 0 ? strtoul(answer + 3, NULL, 10) + 2 : 0);
    }
    (void)close(fd); /* nothing is under way any more */
}

static uint64_t jobs_by_beanstalk(struct bench *bench)
{
    char command[sizeof(bench->options.topic) + 16], *answer = mem_alloc(ANSWER_MAX);
    uint64_t jobs = 0;
    (void)snprintf(command, sizeof(command), "stats-tube %s\r\n", bench->options.topic); /* fits */
    ask_beanstalk(bench, command, answer);
    for (size_t i = 0; i < STATES; i++) {
        char name[32];
        int len = snprintf(name, sizeof(name), "\ncurrent-jobs-%s: ", states[i]);
        const char *line = strstr(answer, name);
        jobs += line ? strtoull(line + len, NULL, 10) : 0;
    }
    mem_free(answer);
    return jobs;
}

int bench_check_topic(struct bench *bench)
{
    const struct bench_options *o = &bench->options;
    bool adds = o->scenario == BENCH_PUT || o->scenario == BENCH_CANCEL; /* and takes none */
    bool beanstalk = o->dialect == SPEAK_BEANSTALK;
    char jobs_room[TEXT_ROOM];
    if (!o->named || o->shared || (adds && o->keep))
        return EXIT_DONE;
    uint64_t jobs = beanstalk ? jobs_by_beanstalk(bench) : jobs_by_http(bench);
    if (jobs <= (o->there ? o->there - o->skip : 0))
        return EXIT_DONE;
    cli_message(bench->cli,
                "%s %s has %s job%s%s, and a bench %s: name one without jobs, or leave --topic "
                "out%s",
                beanstalk ? "tube" : "topic", o->topic, count_text(jobs, jobs_room), plural(jobs),
                o->there ? ", more than --there and --skip leave" : "",
                adds ? "deletes all that are there at its end" : "takes and deletes all it finds",
                adds ? ", or give --keep" : "");
    return EXIT_CONFLICT;
}
