/*
 * How a part of the program reports its metrics and facts to /metrics, /readyz and /v1/stats of the
 * server, which does not know the part. Strings are borrowed until the call of the sink returns.
 * Single-threaded.
 */
#ifndef LATERD_PORT_METRIC_H
#define LATERD_PORT_METRIC_H

#include <stdbool.h>
#include <stdint.h>

/* A histogram of durations. */
struct durations {
    const uint64_t *counts; /* by bucket: those that took longer than the bucket before */
    unsigned bucket_count;
    int64_t (*bound_us)(unsigned bucket); /* its upper bound; INT64_MAX for the last one */
    uint64_t sum_us;
};

enum metric_type { METRIC_GAUGE, METRIC_COUNTER, METRIC_HISTOGRAM };

/* One of docs/metrics.md. */
struct metric {
    const char *name; /* without the `laterd_` before it */
    const char *help; /* a sentence */
    enum metric_type type;
    uint64_t value;                    /* GAUGE, COUNTER */
    const char *broker;                /* the value of the label `broker`; NULL: no such label */
    bool more;                         /* the metric reported before this one has the same name */
    const struct durations *durations; /* HISTOGRAM */
};

enum fact_type { FACT_TEXT, FACT_FLAG, FACT_COUNT, FACT_DURATION };

/* A field of "store" in /v1/stats. */
struct fact {
    const char *name;
    enum fact_type type;
    const char *text; /* TEXT */
    uint64_t value;   /* FLAG: 0 or 1; DURATION: microseconds */
};

/* Functions may be NULL: then nothing of that kind is wanted. */
struct metric_sink {
    void (*metric)(struct metric_sink *sink, const struct metric *metric);
    void (*fact)(struct metric_sink *sink, const struct fact *fact);
    /* A condition that an operator should look at, and that does not stop the service; `count`:
       how many of them. */
    void (*warning)(struct metric_sink *sink, const char *what, uint64_t count);
    /* Why the service does not serve, or what it waits for: a clause without passwords. */
    void (*reason)(struct metric_sink *sink, const char *text);
};

/* One number, under a name and help that outlive the call. */
static inline void metric_gauge(struct metric_sink *sink, const char *name, const char *help,
                                uint64_t value)
{
    sink->metric(
        sink, &(struct metric){.name = name, .help = help, .type = METRIC_GAUGE, .value = value});
}

static inline void metric_counter(struct metric_sink *sink, const char *name, const char *help,
                                  uint64_t value)
{
    sink->metric(
        sink, &(struct metric){.name = name, .help = help, .type = METRIC_COUNTER, .value = value});
}

#endif
