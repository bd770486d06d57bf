/*
 * Takes part in one election without a queue: prints its state on standard output for tests, and
 * takes commands from them as lines on standard input.
 *
 *   member_drive URL NAME TIMEOUT_MS ADVERTISE
 *
 *   raise EPOCH | resign MS | close
 *
 *   leading EPOCH US | waiting EPOCH US LEADER; WHY     whenever it changes; US of CLOCK_BOOTTIME
 *   holds EPOCH US | lost US                            the same, looked at every 5 ms
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "laterd/election.h"
#include "member/member_thread.h"
#include "os/clock.h"
#include "os/loop.h"
#include "os/signals.h"

enum { LOOK_US = 5000 };

static struct config config;
static struct election election;
static struct loop *loop;
static struct timer timer;
static uint64_t held;
static bool closing;

static void show(struct member *member)
{
    struct member_view view;
    member->verbs->look(member, &view);
    if (view.role == MEMBER_LEADING)
        (void)printf("leading %llu %lld\n", (unsigned long long)view.epoch,
                     (long long)member_now_us());
    else
        (void)printf("waiting %llu %lld %s; %s\n", (unsigned long long)view.epoch,
                     (long long)member_now_us(), view.leader, view.why);
    (void)fflush(stdout);
}

static void look_again(struct timer *again)
{
    struct member_view view;
    election.member->verbs->look(election.member, &view);
    uint64_t now = election.member->verbs->holds(election.member, view.epoch) ? view.epoch : 0;
    if (now != held) {
        if (now)
            (void)printf("holds %llu %lld\n", (unsigned long long)now, (long long)member_now_us());
        else
            (void)printf("lost %lld\n", (long long)member_now_us());
        (void)fflush(stdout);
    }
    held = now;
    loop_arm(loop, again, loop->now_us + LOOK_US);
}

static void do_line(const char *line)
{
    const struct member_verbs *verbs = election.member->verbs;
    long long number = 0;
    if (sscanf(line, "raise %lld", &number) == 1)
        verbs->raise(election.member, (uint64_t)number);
    else if (sscanf(line, "resign %lld", &number) == 1)
        verbs->resign(election.member, number * 1000);
    else
        closing = true;
}

/* A line comes whole: tests write it at once. */
static void readable(struct watch *watch, unsigned what)
{
    char line[256];
    ssize_t len = read(watch->fd, line, sizeof(line) - 1);
    (void)what;
    if (len <= 0) {
        closing = true;
        return;
    }
    line[len] = '\0';
    do_line(line);
}

int main(int argc, char **argv)
{
    struct os_clock clock;
    struct watch input = {.ready = readable, .fd = STDIN_FILENO};
    if (argc != 5)
        return EXIT_FAILURE;
    (void)signals_catch();
    os_clock_init(&clock);
    config_init(&config);
    (void)snprintf(config.member_url, sizeof(config.member_url), "%s", argv[1]);
    (void)snprintf(config.member_name, sizeof(config.member_name), "%s", argv[2]);
    config.member_timeout_us = strtoll(argv[3], NULL, 10) * 1000;
    (void)snprintf(config.member_advertise, sizeof(config.member_advertise), "%s", argv[4]);
    struct os_loop *os_loop = os_loop_new(&clock.clock, 0);
    loop = os_loop_port(os_loop);
    (void)loop_update_time(loop);
    if (election_load(&config, &election) ||
        election_open(&election, &config, loop, (uint64_t)getpid() << 32 | (uint64_t)loop->now_us,
                      ""))
        return EXIT_FAILURE;
    election.member->changed = show;
    timer.expired = look_again;
    loop_arm(loop, &timer, loop->now_us);
    if (loop->verbs->watch(loop, &input, LOOP_READ))
        return EXIT_FAILURE;
    while (!closing)
        loop_turn(loop, INT64_MAX);
    (void)loop->verbs->watch(loop, &input, 0);
    loop_cancel(loop, &timer);
    if (held)
        (void)printf("lost %lld\n", (long long)member_now_us());
    election_close(&election);
    os_loop_free(os_loop);
    return EXIT_SUCCESS;
}
