/* Stop signals (SIGTERM, SIGINT) as a count and a descriptor that wakes the event loop. */
#ifndef LATERD_OS_SIGNALS_H
#define LATERD_OS_SIGNALS_H

/* Catches them from now on and ignores SIGPIPE. Returns the descriptor to watch, or -1 (errno). */
int signals_catch(void);

/* How many stop signals have come. */
unsigned signals_count(void);

#endif
