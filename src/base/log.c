#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static _Atomic(enum log_level) least_level = LOG_INFO;

void log_level_set(enum log_level least)
{
    atomic_store(&least_level, least);
}

/* What others say must not look like lines of ours. */
static void keep_on_one_line(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            text[i] = '?';
    }
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    char line[1024];
    struct timespec now;
    struct tm parts;
    va_list args;

    if (level < atomic_load_explicit(&least_level, memory_order_relaxed))
        return;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &parts);
    size_t len = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &parts);
    int more = snprintf(line + len, sizeof(line) - len, ".%03ldZ %s %s ", now.tv_nsec / 1000000,
                        names[level], event);
    if (more > 0)
        len += (size_t)more;
    va_start(args, format);
    more = vsnprintf(line + len, sizeof(line) - len - 1, format, args);
    va_end(args);
    if (more > 0)
        len += (size_t)more;
    if (len > sizeof(line) - 2)
        len = sizeof(line) - 2; /* the line was cut; its newline is not */
    keep_on_one_line(line, len);
    line[len++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, len);
    (void)written; /* nobody is left to tell */
}
