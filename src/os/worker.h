/* port/worker.h by one thread, which begins with the first work that is submitted. */
#ifndef LATERD_OS_WORKER_H
#define LATERD_OS_WORKER_H

#include "port/worker.h"

struct os_worker;

struct os_worker *os_worker_new(void); /* NULL: errno says why */
/* All submitted work must be done: worker_verbs::wait. NULL does nothing. */
void os_worker_free(struct os_worker *worker);
struct worker *os_worker_port(struct os_worker *worker);
/* Becomes readable when work has been run: for os_loop_wake_by. */
int os_worker_eventfd(const struct os_worker *worker);

#endif
