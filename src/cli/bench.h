/*
 * later bench: what is measured (options), the requests as prebuilt text, the scripts that the
 * load engine runs, and what came out. bench.c reads options and reports, bench_request.c builds
 * text, bench_script.c is the scenarios.
 */
#ifndef LATERD_CLI_BENCH_H
#define LATERD_CLI_BENCH_H

#include "cli/cli.h"
#include "cli/load.h"
#include "cli/usage.h"

enum bench_scenario { BENCH_PUT, BENCH_CYCLE, BENCH_DUE, BENCH_BURST, BENCH_IDLE, BENCH_COUNT };
enum bench_dialect { SPEAK_V1, SPEAK_DELAY_QUEUE };

enum {
    BENCH_ID_MIN = 16, /* room for the run's own mark and the job's number */
    BENCH_ID_MAX = 128,
    BENCH_PIDS = 8,
};

struct bench_options {
    enum bench_scenario scenario;
    enum bench_dialect dialect;
    char topic[64];
    uint32_t connections, depth, batch;
    uint64_t jobs;
    uint32_t rate; /* jobs falling due a second */
    uint32_t body_bytes, id_bytes;
    int64_t limit_us; /* of the measured part */
    int64_t lead_us;  /* DUE, BURST: from the first push to the first due time; 0 = by count */
    bool keep;
    pid_t pids[BENCH_PIDS];
    uint32_t pid_count;
};

/* A request in which only a few places of fixed width change. */
struct form {
    struct buf text;
    size_t id_at;  /* 0: none */
    size_t due_at; /* 0: none */
};

struct bench {
    struct load_script script; /* first: the engine hands it back */
    struct bench_options options;
    struct cli *cli;
    bool progress;
    uint32_t mark; /* of this run, in every id: a second run's ids are others */
    struct form push, reserve;
    struct buf finish_before, finish_after; /* around the id, and the lease */
    /* How far we are. */
    const char *phase;
    uint64_t target; /* jobs of this phase */
    uint64_t asked, answered, refused, empty;
    int first_refusal; /* HTTP status */
    int64_t base_us;   /* DUE, BURST: the first due time */
    uint8_t *seen;     /* DUE, BURST: a byte a job: 1 received, 2 finished */
    uint64_t received, finished, early, twice, foreign;
    int64_t first_us, last_us; /* received, after base_us */
    struct histogram *lateness;
    int64_t told_us; /* when progress was last told */
    /* The measured part. */
    int64_t elapsed_us;
    struct usage before, after;
    uint64_t own_us;
};

/* Builds push, reserve and finish for the options; `authority` is the Host. */
void bench_forms(struct bench *bench, const char *authority);
void bench_forms_fini(struct bench *bench);

/* Append one request. */
void bench_add_push(const struct bench *bench, uint64_t number, struct buf *out);
void bench_add_reserve(const struct bench *bench, struct buf *out);
void bench_add_finish(const struct bench *bench, struct bytes id, struct bytes lease,
                      struct buf *out);

/* The next job in an answer to a reserve: takes it off `rest`. The lease is JSON, or empty. */
bool bench_next_job(struct bytes *rest, struct bytes *out_id, struct bytes *out_lease);
/* The number that bench_add_push put into an id; false: not of this run. */
bool bench_number_of(const struct bench *bench, struct bytes id, uint64_t *out_number);

int64_t bench_due_us(const struct bench *bench, uint64_t number);

/* The scripts. Each expects a bench whose counters are zero. */
void bench_script_put(struct bench *bench);
void bench_script_cycle(struct bench *bench);
void bench_script_drain(struct bench *bench); /* the consumers of DUE and BURST */
void bench_script_idle(struct bench *bench);

/* Writes what was measured. */
void bench_report(const struct bench *bench, const struct load *load, struct buf *out);
void bench_report_json(const struct bench *bench, const struct load *load);
const char *bench_scenario_name(enum bench_scenario scenario);

#endif
