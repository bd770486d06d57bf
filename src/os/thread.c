#include "os/thread.h"

#include <signal.h>

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
