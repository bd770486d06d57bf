#include "os/thread.h"

#include <signal.h>

#include "port/clock.h"

enum { DETACHED_STACK_BYTES = 512 * 1024 /* enough for the NSS modules of getaddrinfo() */ };

static int start(pthread_t *out_thread, const pthread_attr_t *attributes, void *(*run)(void *arg),
                 void *arg)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(out_thread, attributes, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

int thread_start(pthread_t *out_thread, void *(*run)(void *arg), void *arg)
{
    return start(out_thread, NULL, run, arg);
}

int thread_start_detached(void *(*run)(void *arg), void *arg)
{
    pthread_attr_t attributes;
    pthread_t thread;
    (void)pthread_attr_init(&attributes); /* on Linux, these cannot fail: */
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, DETACHED_STACK_BYTES);
    int failed = start(&thread, &attributes, run, arg);
    (void)pthread_attr_destroy(&attributes);
    return failed;
}

bool thread_join_within(pthread_t thread, int64_t us)
{
    int64_t until_us = clock_monotonic_us() + (us > 0 ? us : 0); /* the wall clock may be set */
    struct timespec until = {.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000};
    return pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) == 0;
}
