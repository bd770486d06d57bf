/*
 * What the server needs of an engine with a journal. It can bring the journal to what the queue
 * holds (a resync): rows of jobs are made as the jobs are, and unfinished rows whose jobs are not
 * there are marked deleted. That goes on beside all else, and by itself after a restart. One
 * thread.
 */
#ifndef LATERD_PORT_JOURNAL_CONTROL_H
#define LATERD_PORT_JOURNAL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "port/metric.h"

enum resync_state {
    RESYNC_NONE, /* none since the start */
    RESYNC_RUNS,
    RESYNC_DONE,   /* the journal has what the queue holds, and follows it */
    RESYNC_FAILED, /* resync_status::why; the journal is not right */
};

/* Counts are of the last resync since the start; one that goes on after a restart begins at 0. */
struct resync_status {
    enum resync_state state;
    uint64_t jobs_total; /* that the queue had when it began */
    uint64_t jobs;       /* whose rows have been written … */
    uint64_t rows;       /* unfinished rows that have been looked for in the queue … */
    uint64_t closed;     /* … and were not there */
    uint64_t unread;     /* jobs whose bodies cannot be read: their rows are as they were */
    int64_t begun_us, ended_us;
    char why[200]; /* FAILED, or RUNS and it waits: a clause for people */
};

static inline void resync_describe(const struct resync_status *status, struct metric_sink *sink)
{
    if (sink->metric) {
        metric_gauge(sink, "journal_resyncing",
                     "1 while the journal is being brought to what the queue holds.",
                     status->state == RESYNC_RUNS);
        metric_gauge(sink, "journal_resync_jobs", "Jobs whose rows the last resync has written.",
                     status->jobs);
        metric_gauge(sink, "journal_resync_rows",
                     "Unfinished rows whose jobs the last resync has looked for in the queue.",
                     status->rows);
        metric_gauge(sink, "journal_resync_closed",
                     "Rows that the last resync has ended, as their jobs were not there.",
                     status->closed);
    }
    if (sink->warning && status->state == RESYNC_RUNS)
        sink->warning(sink, "journal resync under way", 1);
    if (sink->warning && status->state == RESYNC_FAILED)
        sink->warning(sink, "journal resync failed", 1);
}

struct journal_control {
    const struct journal_control_verbs *verbs;
};

struct journal_control_verbs {
    /* Begins a resync. ERR_EXISTS: one is under way. ERR_AGAIN: not now, *out_why says so (a clause
       for people, good until the next call). ERR_NOT_LEADER: another process writes the journal,
       and *out_why says which one. */
    enum err (*resync)(struct journal_control *control, const char **out_why);
    void (*resync_status)(const struct journal_control *control, struct resync_status *out_status);
};

#endif
