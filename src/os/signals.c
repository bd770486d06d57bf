#include "os/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "port/clock.h"

enum { SAME_STOP_MS = 500 }; /* stop signals within this of a counted one are that one */

/* A signal handler can reach nothing else. */
static volatile sig_atomic_t stops;
static volatile int64_t stop_ms; /* when the last one was counted; the handler's alone */
static volatile sig_atomic_t refuse;
static volatile sig_atomic_t reloads;
static int wake_fd = -1;
/* Of signals_end_at_second(); the facts are set last. */
static volatile int last_status;
static const char *volatile last_facts;

/* As end_if_second(). */
static void count_stop(void)
{
    int64_t now_ms = clock_monotonic_us() / 1000;
    if (stops && now_ms - stop_ms < SAME_STOP_MS)
        return;
    stop_ms = now_ms;
    stops++;
}

/* Nothing but what a handler may call. */
static void end_if_second(void)
{
    const char *facts = last_facts;
    if (!facts || stops < 2)
        return;
    log_event_in_handler(LOG_WARN, "stopped_at_once", facts);
    _exit(last_status);
}

static void on_signal(int signal)
{
    int kept = errno;
    uint64_t one = 1;
    if (signal == SIGUSR1)
        refuse = 1;
    else if (signal == SIGHUP)
        reloads++;
    else
        count_stop();
    end_if_second();
    ssize_t written = write(wake_fd, &one, sizeof(one));
    (void)written; /* full means that the loop is woken already */
    errno = kept;
}

int signals_catch(void)
{
    struct sigaction wake = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigfillset(&wake.sa_mask); /* one handler at a time */
    wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_fd < 0)
        return -1;
    (void)sigaction(SIGTERM, &wake, NULL); /* cannot fail: the numbers are good */
    (void)sigaction(SIGINT, &wake, NULL);
    (void)sigaction(SIGUSR1, &wake, NULL);
    (void)sigaction(SIGHUP, &wake, NULL); /* by default it would end us without a drain */
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigaction(SIGXFSZ, &ignore, NULL); /* `ulimit -f`: the write fails */
    return wake_fd;
}

unsigned signals_count(void)
{
    return (unsigned)stops;
}

void signals_end_at_second(const char *facts, int status)
{
    last_status = status;
    last_facts = facts;
    end_if_second();
}

unsigned signals_reloads(void)
{
    return (unsigned)reloads;
}

bool signals_refuse(void)
{
    return refuse;
}
