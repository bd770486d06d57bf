/*
 * Signals as facts that the event loop looks at, and a descriptor that wakes it: SIGTERM and SIGINT
 * ask to end, SIGUSR1 asks to take no more jobs (beanstalkd calls that drain mode), SIGHUP asks to
 * read the configuration again.
 *
 * One for the process. What has come is counted and never taken back: who asks keeps the number
 * that it saw last. The main thread asks; O(1).
 */
#ifndef LATERD_OS_SIGNALS_H
#define LATERD_OS_SIGNALS_H

#include <stdbool.h>

/* Catches them from now on and ignores SIGPIPE and SIGXFSZ. Returns the descriptor to watch, or -1
 * (errno). */
int signals_catch(void);

/*
 * How many stop signals have come. Those within 500 ms of one that was counted are not: they are
 * the same wish, sent to the process and to its group as coreutils' timeout does, or to the
 * group by a terminal and to the process by who wrapped it.
 */
unsigned signals_count(void);

/*
 * From now on the second stop signal logs `stopped_at_once` with these facts and ends the process
 * in its handler, with that exit status; at once if it has come already. For the end of the
 * program, when nobody looks at signals_count(): it frees memory, and waits for threads. `facts`
 * is borrowed forever.
 */
void signals_end_at_second(const char *facts, int status);

/* How many SIGHUPs have come. */
unsigned signals_reloads(void);

/* Has SIGUSR1 come? There is no way back. */
bool signals_refuse(void);

#endif
