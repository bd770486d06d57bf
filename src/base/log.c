#include "base/log.h"

#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/rfc3339.h"

static _Atomic(enum log_level) least_level = LOG_INFO;

const char *log_level_name(enum log_level level)
{
    static const char *const names[LOG_LEVELS] = {
        [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error"};
    return names[level];
}

void log_level_set(enum log_level least)
{
    atomic_store(&least_level, least);
}

/* A line that grows up to its room; what does not fit is cut off. */
struct line {
    char text[1024];
    size_t len;
};

static void put(struct line *line, const char *text, size_t len)
{
    size_t room = sizeof(line->text) - 1 - line->len; /* the newline has its place */
    if (len > room)
        len = room;
    memcpy(line->text + line->len, text, len);
    line->len += len;
}

/*
 * Text from outside must not look like a log line, nor end the quotes around it: a control
 * character is written as \xNN, and within quotes there is a backslash before " and backslash.
 */
static void put_text(struct line *line, const char *text, size_t len, bool quoted)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        char escaped[8];
        if (c < ' ' || c == 0x7f)
            (void)snprintf(escaped, sizeof(escaped), "\\x%02x", c); /* it fits */
        else
            (void)snprintf(escaped, sizeof(escaped), "%s%c",
                           quoted && (c == '"' || c == '\\') ? "\\" : "", c); /* so does this */
        if (line->len + strlen(escaped) > sizeof(line->text) - 1)
            return; /* no half of an escape */
        put(line, escaped, strlen(escaped));
    }
}

/* A conversion such as %.*s, %04o or %llu: what stands between the percent sign and its letter. */
struct conversion {
    bool zeros;
    int width;
    int precision; /* -1: none */
    unsigned longs;
    bool of_size;
};

static const char *read_conversion(const char *at, va_list *args, struct conversion *conversion)
{
    *conversion = (struct conversion){.zeros = *at == '0', .precision = -1};
    for (; *at >= '0' && *at <= '9'; at++)
        conversion->width = conversion->width * 10 + (*at - '0');
    if (*at == '.' && at[1] == '*') {
        conversion->precision = va_arg(*args, int);
        at += 2;
    } else if (*at == '.') {
        conversion->precision = 0;
        for (at++; *at >= '0' && *at <= '9'; at++)
            conversion->precision = conversion->precision * 10 + (*at - '0');
    }
    for (; *at == 'l'; at++)
        conversion->longs++;
    conversion->of_size = *at == 'z';
    return at + conversion->of_size;
}

static void put_number(struct line *line, const struct conversion *conversion, char letter,
                       va_list *args)
{
    char number[64];
    int width = conversion->width;
    long long value = conversion->of_size      ? (long long)va_arg(*args, size_t)
                      : conversion->longs >= 2 ? va_arg(*args, long long)
                      : conversion->longs == 1 ? va_arg(*args, long)
                      : letter == 'd'          ? va_arg(*args, int)
                                               : (long long)va_arg(*args, unsigned);
    if (letter == 'd')
        (void)snprintf(number, sizeof(number), conversion->zeros ? "%0*lld" : "%*lld", width,
                       value);
    else if (letter == 'o')
        (void)snprintf(number, sizeof(number), conversion->zeros ? "%0*llo" : "%*llo", width,
                       (unsigned long long)value);
    else
        (void)snprintf(number, sizeof(number), conversion->zeros ? "%0*llu" : "%*llu", width,
                       (unsigned long long)value);
    put(line, number, strlen(number));
}

/* A printf of our own, because it must know which text is within quotes. */
static void put_facts(struct line *line, const char *format, va_list *args)
{
    bool quoted = false;
    while (*format) {
        if (*format != '%') {
            quoted ^= *format == '"';
            put(line, format++, 1);
            continue;
        }
        struct conversion conversion;
        const char *letter = read_conversion(format + 1, args, &conversion);
        if (*letter == 's') {
            const char *text = va_arg(*args, const char *);
            size_t most = conversion.precision < 0 ? SIZE_MAX : (size_t)conversion.precision;
            put_text(line, text, strnlen(text, most), quoted);
        } else if (*letter == 'd' || *letter == 'u' || *letter == 'o') {
            put_number(line, &conversion, *letter, args);
        } else if (*letter == '%') {
            put(line, "%", 1);
        } else { /* an unknown conversion: the arguments behind it cannot be found */
            put(line, format, strlen(format));
            return;
        }
        format = letter + 1;
    }
}

/* ---- out ---- */

static _Atomic(unsigned long) lost; /* lines since the last one that was written */
/* Held from has_room() on until the line is written, so that no other thread takes that room. */
static pthread_mutex_t out_lock = PTHREAD_MUTEX_INITIALIZER;

/* False: whoever reads the log does not, and a write would wait for that. A pipe that has room has
   room for 4 KiB, more than two lines. */
static bool has_room(void)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) != 0; /* an error is the write's to find */
}

static void write_line(struct line *line)
{
    line->text[line->len++] = '\n';
    ssize_t written = write(STDERR_FILENO, line->text, line->len);
    (void)written; /* there is nowhere to report it */
}

static void begin_line(struct line *line, enum log_level level, const char *event)
{
    char start[64];
    struct timespec now;
    struct tm parts;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &parts);
    put(line, start, strftime(start, sizeof(start), "%Y-%m-%dT%H:%M:%S", &parts));
    (void)snprintf(start, sizeof(start), ".%03ldZ %s ", now.tv_nsec / 1000000,
                   log_level_name(level));
    put(line, start, strlen(start));
    put_text(line, event, strlen(event), false);
    put(line, " ", 1);
}

static void report_lost(void)
{
    char facts[128];
    struct line line = {.len = 0};
    unsigned long count = atomic_exchange(&lost, 0);
    if (!count)
        return; /* another thread was faster */
    begin_line(&line, LOG_WARN, "log_lines_lost");
    (void)snprintf(facts, sizeof(facts), "count=%lu hint=\"the log was not read for a while\"",
                   count);
    put(&line, facts, strlen(facts));
    write_line(&line);
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    struct line line = {.len = 0};
    va_list args;

    if (level < atomic_load_explicit(&least_level, memory_order_relaxed))
        return;
    begin_line(&line, level, event);
    va_start(args, format);
    put_facts(&line, format, &args);
    va_end(args);
    (void)pthread_mutex_lock(&out_lock); /* fails for no lock of this kind */
    bool written = has_room();
    if (written && atomic_load_explicit(&lost, memory_order_relaxed))
        report_lost();
    if (written)
        write_line(&line);
    else
        atomic_fetch_add(&lost, 1);
    (void)pthread_mutex_unlock(&out_lock);
}

void log_event_in_handler(enum log_level level, const char *event, const char *facts)
{
    const char *parts[] = {" ", log_level_name(level), " ", event, " ", facts};
    struct line line = {.len = 0};
    char start[RFC3339_ROOM];
    struct timespec now;
    if (level < atomic_load_explicit(&least_level, memory_order_relaxed))
        return;
    if (!has_room()) {
        atomic_fetch_add(&lost, 1);
        return;
    }
    (void)clock_gettime(CLOCK_REALTIME, &now);
    int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    put(&line, start, rfc3339_print(now_ms * 1000, start));
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        put(&line, parts[i], strlen(parts[i]));
    write_line(&line);
}
