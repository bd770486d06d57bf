/* Threads. Only the main thread handles signals: in others all are blocked. */
#ifndef LATERD_OS_THREAD_H
#define LATERD_OS_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Starts a thread. 0, or an errno: the system has no threads left. `attributes`: NULL: default. */
int thread_start(pthread_t *out_thread, const pthread_attr_t *attributes, void *(*run)(void *arg),
                 void *arg);

/* Joins the thread; waits up to `us` microseconds (0 or less: not at all). False: it still runs. */
bool thread_join_within(pthread_t thread, int64_t us);

#endif
