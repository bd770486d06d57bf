/*
 * One line an event: time, level, event name, facts as key=value. Only the outer folders log;
 * an error is logged once, where it stops. Lines go to standard error in one write each, so
 * lines of several threads do not mix. A line for which the pipe or socket has no room is dropped,
 * and counted in the next line that fits (log_lines_lost): laterd must not hang when the reader of
 * its log does.
 */
#ifndef LATERD_BASE_LOG_H
#define LATERD_BASE_LOG_H

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_LEVELS };

const char *log_level_name(
    enum log_level level); /* "debug", as the log and server.log_level write it */

void log_level_set(enum log_level least); /* default LOG_INFO */

/* `event` is a stable word ("store_opened"); `format` gives the facts ("jobs=%zu ms=%d").
 * Of printf's conversions there are %s %d %u %o, with l, ll, z, a width and a precision. */
void log_event(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a signal handler: allocates nothing, takes no lock. `facts` is written without
 * escapes. */
void log_event_in_handler(enum log_level level, const char *event, const char *facts);

#endif
