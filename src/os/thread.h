/* Starting a thread: signals are the main thread's, so all are blocked in it. */
#ifndef LATERD_OS_THREAD_H
#define LATERD_OS_THREAD_H

#include <pthread.h>

/* 0, or an errno: the system has no threads left. `attributes`: NULL is the default. */
int thread_start(pthread_t *out_thread, const pthread_attr_t *attributes, void *(*run)(void *arg),
                 void *arg);

#endif
