/*
 * later bench: what is measured (options), the requests as prebuilt text, the scripts that the
 * load engine runs, and what came out. bench.c reads options, run.c goes through the phases of a
 * scenario, script.c is what the connections say in each, request.c and bench_beanstalk.c build the
 * text, occupied.c looks whether the topic has jobs already, report.c shows the figures.
 */
#ifndef LATERD_CLI_BENCH_BENCH_H
#define LATERD_CLI_BENCH_BENCH_H

#include "base/list.h"
#include "cli/bench/cpu_usage.h"
#include "cli/bench/load.h"
#include "cli/cli.h"

enum bench_scenario {
    BENCH_PUT,
    BENCH_CYCLE,
    BENCH_CANCEL,
    BENCH_DUE,
    BENCH_BURST,
    BENCH_IDLE,
    BENCH_COUNT
};
enum bench_dialect { SPEAK_V1, SPEAK_DELAY_QUEUE, SPEAK_BEANSTALK };

enum {
    BENCH_ID_MIN = 16, /* room for the run's own mark and the job's number */
    BENCH_ID_MAX = 128,
    BENCH_PIDS = 8,
    BENCH_DELAY_DIGITS = 10, /* of seconds */
};

struct bench_options {
    enum bench_scenario scenario;
    enum bench_dialect dialect;
    const char *beanstalk; /* the address of a server that speaks so; NULL: HTTP */
    char topic[64];
    bool named;  /* by --topic: others may know it */
    bool shared; /* other benches use the topic at the same time */
    uint32_t connections, depth, batch;
    uint64_t jobs;
    uint32_t rate; /* jobs falling due a second */
    uint32_t body_bytes, id_bytes;
    int64_t limit_us;  /* of the measured part */
    int64_t lead_us;   /* DUE, BURST: from the first push to the first due time; 0 = by count */
    int64_t within_us; /* PUT, CANCEL: due at random times so soon; 0 = all tomorrow */
    uint64_t there;    /* CANCEL: jobs that an earlier run with the same mark has put; 0 = none */
    uint64_t skip;     /* CANCEL with `there`: so many were cancelled by earlier runs */
    bool random;       /* CANCEL: not in the order of the puts */
    bool keep;
    bool stop; /* BURST: the servers are stopped while the jobs fall due */
    pid_t pids[BENCH_PIDS];
    uint32_t pid_count;
};

/* A request in which only a few places of fixed width change. */
struct form {
    struct buf text;
    size_t id_at;  /* 0: none; of beanstalkd's protocol it is in the body */
    size_t due_at; /* 0: none; of beanstalkd's protocol it is the delay */
};

/* A job in an answer to a reserve. */
struct bench_job {
    struct bytes id;    /* to finish it by */
    struct bytes lease; /* JSON, or empty */
    struct bytes name;  /* in which our number stands */
};

struct bench {
    struct load_script script;
    struct bench_options options;
    struct cli *cli;  /* for messages, and to clean up afterwards */
    struct dial dial; /* of the load's own connections */
    bool progress;
    uint32_t mark; /* of this run, in every id: a second run's ids are others, unless --mark */
    struct form push, reserve, cancel;
    struct buf finish_before, finish_after; /* around the id, and the lease */
    struct buf hello;                       /* beanstalkd: the first commands of each connection */
    uint32_t delay_s;                       /* beanstalkd: of every put */
    /* How far we are. */
    const char *phase;
    uint64_t target; /* jobs of this phase */
    uint64_t asked, answered, refused, empty;
    char first_refusal[128]; /* what is shown of it */
    uint64_t *ids;           /* CANCEL, beanstalkd: those the server gave, in the order they came */
    uint64_t id_count;
    bool nothing_kicked; /* the last kick found no job */
    int64_t base_us;     /* DUE, BURST: the first due time */
    int64_t *due_us;     /* DUE, beanstalkd: of each job */
    uint8_t *seen;       /* DUE, BURST: a byte a job: 1 received, 2 finished */
    uint64_t received, finished, early, twice, foreign;
    int64_t earliest_us;       /* the most that a job came early by */
    int64_t first_us, last_us; /* received, after base_us */
    struct histogram *lateness;
    int64_t printed_us; /* when progress was last printed */
    /* The measured part. */
    int64_t opens_us;  /* DUE, BURST: when it begins */
    int64_t resume_us; /* BURST with `stop`: when the servers are continued; 0 = they run */
    int64_t start_us, elapsed_us;
    struct usage before, after;
    uint64_t own_us;
};

static inline struct bench *bench_of(struct load_script *script)
{
    return LIST_ENTRY(script, struct bench, script);
}

static inline bool bench_timed(const struct bench_options *options)
{
    return options->scenario == BENCH_DUE || options->scenario == BENCH_BURST;
}

/* Builds all requests for the options; `authority` is the Host. */
void bench_forms(struct bench *bench, const char *authority);
void bench_forms_beanstalk(struct bench *bench); /* bench_forms() calls it */
void bench_forms_fini(struct bench *bench);

/* Append one request. */
void bench_add_push(const struct bench *bench, uint64_t number, struct buf *out);
void bench_add_reserve(const struct bench *bench, struct buf *out);
void bench_add_finish(const struct bench *bench, const struct bench_job *job, struct buf *out);
void bench_add_cancel(const struct bench *bench, uint64_t number, struct buf *out);

/* The next job in an answer to a reserve: takes it off answer->body. */
bool bench_next_job(const struct bench *bench, struct load_answer *answer,
                    struct bench_job *out_job);
/* The number that bench_add_push put into a name; false: not of this run. */
bool bench_number_of(const struct bench *bench, struct bytes name, uint64_t *out_number);

int64_t bench_due_us(const struct bench *bench, uint64_t number);
/* The number of the job that is cancelled as number `turn`. */
uint64_t bench_victim(const struct bench *bench, uint64_t turn);

/* The scripts. Each expects a bench whose counters are zero. */
void bench_script_put(struct bench *bench);
void bench_script_paced(struct bench *bench); /* puts of DUE, spread as they are to fall due */
void bench_script_cycle(struct bench *bench);
void bench_script_cancel(struct bench *bench);
/* The consumers of DUE and BURST; `wake` is called at bench->opens_us. */
void bench_script_drain(struct bench *bench, void (*wake)(struct load_script *, struct load *));
void bench_script_idle(struct bench *bench);
/* beanstalkd: each connection sends bench->hello; the first one alone sends `hello`. */
void bench_script_hello(struct bench *bench);
void bench_script_hello_once(struct bench *bench);
void bench_script_clear(struct bench *bench); /* takes and deletes until nothing is ready */

/* May the bench take and delete the jobs of its topic? EXIT_DONE, or the exit code: somebody else's
   are there, which has been printed. */
int bench_check_topic(struct bench *bench);

/* Runs the phases of the scenario. Returns the exit code; errors have been printed. */
int bench_run(struct bench *bench);

/* Writes what was measured. */
void bench_report(const struct bench *bench, const struct load *load, struct buf *out);
void bench_report_json(const struct bench *bench, const struct load *load);
const char *bench_scenario_name(enum bench_scenario scenario);

#endif
