#include "os/thread.h"

#include <signal.h>
#include <time.h>

int thread_start(pthread_t *out_thread, const pthread_attr_t *attributes, void *(*run)(void *arg),
                 void *arg)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(out_thread, attributes, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

bool thread_join_within(pthread_t thread, int64_t us)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until); /* cannot fail on Linux */
    int64_t until_us = (int64_t)until.tv_sec * 1000000 + until.tv_nsec / 1000 + (us > 0 ? us : 0);
    until = (struct timespec){.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000};
    return pthread_timedjoin_np(thread, NULL, &until) == 0;
}
