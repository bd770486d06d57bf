/*
 * Signals as counters that the event loop reads, and a descriptor that wakes it: SIGTERM and SIGINT
 * ask to stop, SIGUSR1 asks to take no more jobs (beanstalkd's drain mode), SIGHUP asks to read the
 * configuration again.
 *
 * Process-wide. Counters never go back: the caller remembers the value that it saw last. Main
 * thread only; O(1).
 */
#ifndef LATERD_OS_SIGNALS_H
#define LATERD_OS_SIGNALS_H

#include <stdbool.h>

/* Catches them from now on and ignores SIGPIPE and SIGXFSZ. Returns the descriptor to watch, or -1
 * (errno). */
int signals_catch(void);

/*
 * How many stop signals have come. Those within 500 ms of a counted one are not counted: they are
 * the same request, sent to the process and to its group (as coreutils' timeout does), or to the
 * group by a terminal and to the process by a wrapper.
 */
unsigned signals_count(void);

/*
 * From now on the handler of the second stop signal logs `stopped_at_once` with these facts and
 * ends the process with that exit status; at once if the second has come already. For the shutdown,
 * when the program frees memory and waits for threads, and no longer reads signals_count(). `facts`
 * must live forever.
 */
void signals_end_at_second(const char *facts, int status);

/* How many SIGHUPs have come. */
unsigned signals_reloads(void);

/* True: SIGUSR1 has come. It cannot be undone. */
bool signals_refuse(void);

#endif
