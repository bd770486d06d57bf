/*
 * Preloaded into a process, shifts its wall clock by CLOCK_SHIFT_MS milliseconds; the monotonic
 * clock runs on. libfaketime cannot do that to a redis-server: jemalloc reads a clock while it
 * begins, and libfaketime allocates while it begins. This allocates nothing.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { MS_PER_S = 1000, NS_PER_MS = 1000000, NS_PER_S = 1000000000 };

int clock_gettime(clockid_t clock, struct timespec *out_now)
{
    if (syscall(SYS_clock_gettime, clock, out_now) != 0)
        return -1;
    const char *shift = getenv("CLOCK_SHIFT_MS");
    if (!shift || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return 0;
    long shift_ms = strtol(shift, NULL, 10);
    out_now->tv_sec += shift_ms / MS_PER_S;
    out_now->tv_nsec += shift_ms % MS_PER_S * NS_PER_MS;
    if (out_now->tv_nsec >= NS_PER_S) {
        out_now->tv_nsec -= NS_PER_S;
        out_now->tv_sec++;
    } else if (out_now->tv_nsec < 0) {
        out_now->tv_nsec += NS_PER_S;
        out_now->tv_sec--;
    }
    return 0;
}

int gettimeofday(struct timeval *restrict out_now, void *restrict zone)
{
    struct timespec now;
    (void)zone; /* nobody has used it for decades */
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    *out_now = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *out_now)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    if (out_now)
        *out_now = now.tv_sec;
    return now.tv_sec;
}
