/*
 * An engine's journal, as the server sees it: its health, for people and metrics, and a resync,
 * which makes the journal match the queue: rows of jobs are overwritten with the jobs, and
 * unfinished rows whose jobs do not exist are marked deleted. A resync runs in the background, and
 * continues by itself after a restart. Single-threaded.
 */
#ifndef LATERD_PORT_JOURNAL_CONTROL_H
#define LATERD_PORT_JOURNAL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "port/metric.h"

enum journal_state {
    JOURNAL_STATE_WRITES,
    JOURNAL_STATE_WAITS,       /* the database is unreachable, or refuses: it keeps trying */
    JOURNAL_STATE_FENCED,      /* another process writes for this queue: this one writes no more */
    JOURNAL_STATE_OUT_OF_STEP, /* database and queue do not match: nothing is written any more */
    JOURNAL_STATE_ELSEWHERE,   /* another daemon of the queue writes the journal: normal */
};

enum { JOURNAL_ERROR_MAX = 200, JOURNAL_HINT_MAX = 320, JOURNAL_WRITER_MAX = 96 };

/* The journal's health now. Texts are clauses for people, without passwords, or empty. */
struct journal_health {
    enum journal_state state;
    int64_t since_us;                /* the loop's time when it came into the state */
    char error[JOURNAL_ERROR_MAX];   /* why it does not write */
    char hint[JOURNAL_HINT_MAX];     /* what an operator should do about it */
    char writer[JOURNAL_WRITER_MAX]; /* ELSEWHERE: the label of the daemon that writes it */
    bool refuses_pushes;             /* it lags by more than its limits */
    bool knows_cursor;               /* since the start; else `cursor` and `epoch` are 0 */
    uint64_t cursor;      /* the last batch in the database: of the log, or a count of batches */
    uint64_t epoch;       /* of the writer that has the cursor */
    bool knows_lag;       /* else the three below are 0: this process does not follow the journal
                             now, or partitions of Redis have not reported their lag yet and the
                             others have none. If others have some, the three are lower bounds */
    uint64_t lag_entries; /* batches of the log, or changes of a queue in Redis, not committed */
    uint64_t lag_bytes;   /* of them, kept for the database */
    int64_t lag_us;       /* age of the oldest of them */
    uint64_t rejected;    /* rows that MySQL refused, set aside, since this process writes it */
    uint32_t partitions;  /* that this daemon writes, numbered from 0; 0: a log, or ELSEWHERE */
};

/* Of one partition of a queue in Redis. */
struct journal_partition {
    uint64_t entry;       /* the last one in the database; 0: not known, or none */
    bool knows_lag;       /* else the two below are 0: Redis has not reported them yet */
    uint64_t lag_entries; /* not in the database yet, as Redis reported last */
    uint64_t lag_bytes;   /* of entries that wait in Redis */
    bool refuses_pushes;
};

/* Reports the metrics of the journal that every engine has; no lag while it is not known. */
static inline void journal_health_describe(const struct journal_health *health,
                                           struct metric_sink *sink)
{
    metric_gauge(sink, "journal_up", "1 while changes are being written to MySQL.",
                 health->state == JOURNAL_STATE_WRITES);
    if (!health->knows_lag)
        return;
    metric_gauge(
        sink, "journal_lag_batches",
        "Batches of the log, or changes of a queue in Redis, that MySQL has not committed.",
        health->lag_entries);
    metric_gauge(sink, "journal_lag_bytes", "Bytes of them that are kept for MySQL.",
                 health->lag_bytes);
    metric_gauge(sink, "journal_lag_seconds", "Age of the oldest change that MySQL lacks.",
                 (uint64_t)health->lag_us / 1000000);
}

enum resync_state {
    RESYNC_NONE, /* none since the start */
    RESYNC_RUNS,
    RESYNC_DONE,   /* the journal matches the queue, and follows it */
    RESYNC_FAILED, /* resync_status::why; the journal does not match the queue */
};

/* The current step of a resync that runs. */
enum resync_step {
    RESYNC_STEP_WAITS,   /* for the journal to begin again */
    RESYNC_STEP_JOBS,    /* reads the jobs of the queue, and gives them to the journal */
    RESYNC_STEP_ROWS,    /* compares unfinished rows with the queue */
    RESYNC_STEP_COMMITS, /* waits until the database has committed all */
};

/* Of the last resync since the start; counts of one that a restart interrupted begin at 0 again. */
struct resync_status {
    enum resync_state state;
    enum resync_step step; /* RUNS */
    uint64_t jobs_total;   /* that the queue had when it began; 0: not known */
    uint64_t jobs;       /* read and given to the journal; once it is DONE their rows are written */
    uint64_t rows_total; /* unfinished rows that there are to compare; 0: not known yet */
    uint64_t rows;       /* unfinished rows that have been compared with the queue … */
    uint64_t closed;     /* … and had no job there: marked deleted */
    uint64_t unread;     /* jobs whose bodies cannot be read: their rows were not changed */
    int64_t begun_us, ended_us;
    char why[200]; /* FAILED, or RUNS and it waits: a clause for people */
};

static inline void resync_describe(const struct resync_status *status, struct metric_sink *sink)
{
    if (sink->metric) {
        metric_gauge(sink, "journal_resyncing",
                     "1 while the journal is being brought to what the queue holds.",
                     status->state == RESYNC_RUNS);
        metric_gauge(sink, "journal_resync_jobs",
                     "Jobs that the last resync has read for their rows.", status->jobs);
        metric_gauge(sink, "journal_resync_rows",
                     "Unfinished rows that the last resync has compared with the queue.",
                     status->rows);
        metric_gauge(sink, "journal_resync_closed",
                     "Rows that the last resync has marked deleted, as their jobs were not there.",
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
    /* Begins a resync. ERR_EXISTS: one is under way. ERR_AGAIN: not possible now; *out_why says why
       (a clause for people, valid until the next call). ERR_NOT_LEADER: another process writes the
       journal; *out_why says which one. */
    enum err (*resync)(struct journal_control *control, const char **out_why);
    void (*resync_status)(const struct journal_control *control, struct resync_status *out_status);
    /* O(partitions). */
    void (*health)(const struct journal_control *control, struct journal_health *out_health);
    /* `partition` is below journal_health::partitions, of a call in the same turn. NULL: the engine
       has no partitions. */
    void (*partition)(const struct journal_control *control, uint32_t partition,
                      struct journal_partition *out_partition);
};

#endif
