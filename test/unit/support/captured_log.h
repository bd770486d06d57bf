/*
 * What laterd logs while a test runs: standard error goes to a file meanwhile.
 */
#ifndef LATERD_TEST_CAPTURED_LOG_H
#define LATERD_TEST_CAPTURED_LOG_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

/* Collects what is logged at `level` from now on. */
static inline FILE *log_open(enum log_level level, int *out_before)
{
    FILE *log = tmpfile();
    *out_before = dup(STDERR_FILENO);
    log_level_set(level);
    assert_true(log && *out_before >= 0 && dup2(fileno(log), STDERR_FILENO) >= 0);
    return log;
}

static inline void log_close(FILE *log, int before, char *text, size_t room)
{
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    (void)close(before); /* nothing is lost with it */
    rewind(log);
    text[fread(text, 1, room - 1, log)] = '\0';
    (void)fclose(log);
}

static inline unsigned log_count(const char *text, const char *words)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, words)); at++)
        count++;
    return count;
}

#endif
