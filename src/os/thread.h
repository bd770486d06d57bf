/* Threads. Only the main thread handles signals: in others all are blocked. */
#ifndef LATERD_OS_THREAD_H
#define LATERD_OS_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Starts a thread, which must be joined. 0, or an errno: the system has no threads left. */
int thread_start(pthread_t *out_thread, void *(*run)(void *arg), void *arg);
/* The same for one that nobody joins, with a stack of 512 KiB. */
int thread_start_detached(void *(*run)(void *arg), void *arg);

/* Joins the thread; waits up to `us` microseconds (0 or less: not at all). False: it still runs. */
bool thread_join_within(pthread_t thread, int64_t us);

#endif
