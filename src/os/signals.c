#include "os/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static volatile sig_atomic_t stops; /* a signal handler can reach nothing else */
static int wake_fd = -1;

static void on_stop(int signal)
{
    int kept = errno;
    uint64_t one = 1;
    (void)signal;
    stops++;
    ssize_t written = write(wake_fd, &one, sizeof(one));
    (void)written; /* full means that the loop is woken already */
    errno = kept;
}

int signals_catch(void)
{
    struct sigaction stop = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_fd < 0)
        return -1;
    (void)sigaction(SIGTERM, &stop, NULL); /* cannot fail: the numbers are good */
    (void)sigaction(SIGINT, &stop, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    return wake_fd;
}

unsigned signals_count(void)
{
    return (unsigned)stops;
}
