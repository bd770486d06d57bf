/*
 * The HTTP interfaces: converts requests to commands, and replies to responses. Each dialect has
 * one file (delay_queue.c, delayqueue_java.c) or several (v1*.c, proto/sdmq); api.c chooses. Pure.
 */
#ifndef LATERD_PROTO_API_API_H
#define LATERD_PROTO_API_API_H

#include "base/arena.h"
#include "core/cmd.h"
#include "proto/http/http1.h"
#include "proto/settings/attempt_note.h"

enum api_dialect {
    DIALECT_DELAY_QUEUE,
    DIALECT_DELAYQUEUE_JAVA,
    DIALECT_NONE /* only /v1 */,
    DIALECT_SDMQ,
    DIALECT_COUNT
};

const char *api_dialect_name(enum api_dialect dialect); /* "delay-queue" … */

struct api_limits {
    /* Ranges and defaults are those of the keys in server/config/config_keys.c. */
    uint32_t body_bytes;     /* of a job: limits.body_bytes */
    uint32_t json_depth;     /* limits.json_depth */
    uint32_t batch_jobs;     /* jobs in one push, finish or reserve: limits.batch_jobs */
    uint32_t reserve_topics; /* topics in one reserve: limits.reserve_topics */
    int64_t wait_us;         /* longest long poll of /v1: limits.wait_seconds */
    int64_t block_us;        /* long poll of delay-queue and sdmq: defaults.block_timeout */
    int64_t ttr_us;          /* of a push to /v1 that names none: defaults.ttr */
    int64_t ttr_max_us;      /* limits.ttr_seconds */
    /* The offset of local time from UTC at a time, in microseconds, positive to the east, for
       delayqueue-java's dates; NULL: UTC. */
    int64_t (*east_us)(int64_t at_us);
    bool keeps_history; /* of jobs: store.history */
    bool no_history;    /* the engine cannot keep one */
    /* The engine's limits, for errors to name; 0: not named. */
    uint64_t jobs, topics, waiters, memory_bytes, disk_bytes;
};

/* The listener that a request came to. */
struct api_site {
    enum api_dialect root; /* the dialect of the paths outside /v1 */
    bool any_host;         /* Host is not checked: browsers cannot connect here */
    struct bytes hosts;    /* our names, for host_is_known() */
};

enum call_kind {
    CALL_CMD,    /* `cmd` goes to the engine; api_reply writes its reply */
    CALL_BATCH,  /* many commands of one kind; see api_batch_next */
    CALL_CLEAR,  /* `cmd` (CLEAR_TOPIC of all states, or REMOVE_TOPIC) takes several commands, one
                    after another: first CLEAR_TOPIC of each state; api_reply writes the sum */
    CALL_REPLAY, /* `replay`: kicks the matching buried jobs of a topic, page after page;
                  * api_replay_reply writes the result */
    CALL_TEST, /* `cmd` is a PUSH that is not executed: its body is sent to the topic's target now,
                * and api_test_reply writes the outcome */
    CALL_LIST, /* `cmd` is a LIST whose jobs are shown with their properties: each is read by a GET,
                * and api_list_reply writes them all */
    CALL_DELETE,  /* `cmd` is a DELETE; if the job does not exist and there is a journal, the server
                   * looks up whether it has finished, which is an error then */
    CALL_RESYNC,  /* begins a resync, which makes the journal match the queue */
    CALL_RESTORE, /* `restore`: restores jobs from the journal; api_restored writes the counts */
    CALL_CLEAR_ALL, /* deletes all jobs; api_cleared writes the count */
    CALL_PROBLEM,   /* the request is refused: `problem` */
    CALL_HEALTHZ,   /* the server answers these itself */
    CALL_READYZ,
    CALL_METRICS,
    CALL_OPENAPI,
    CALL_STATS,   /* GET /v1/stats: statistics of the server, for `later top` and `later stats` */
    CALL_ROOT,    /* GET /: name, version and links */
    CALL_LIMITS,  /* GET /v1/limits: the limits that clients must keep */
    CALL_CLUSTER, /* GET /v1/cluster: which laterd leads */
    CALL_JOURNAL, /* GET /v1/journal: health of the journal, progress of restore and resync */
};

/* What api_reply needs to write the response; kept by the session, owns nothing. */
struct response_format {
    const struct api_limits *limits; /* shown in errors; NULL: none. Borrowed */
    uint8_t dialect;                 /* enum api_dialect, or DIALECT_COUNT for /v1 */
    uint8_t cmd;                     /* enum cmd_kind */
    bool close;
    bool http10;
    bool head_only;
    uint8_t variant; /* for the codec's own use: e.g. push and get answer with different texts */
};

struct problem {
    int status;        /* HTTP status in /v1 */
    enum err err;      /* the engine's error; ERR_INVALID: no command was submitted */
    const char *code;  /* stable word, e.g. "bad_field" */
    char field[64];    /* JSON path of the bad field, or "" */
    char detail[200];  /* one sentence for people */
    const char *allow; /* 405 */
    /* The key of the server's configuration that does not allow what was sent, such as
       "limits.ttr_seconds"; NULL: it is not refused for a key, or `code` says enough. */
    const char *config_key;
};

/* The items of a batch that are still to be decoded. */
struct api_batch {
    enum cmd_kind kind; /* PUSH, FINISH or GET */
    struct bytes rest;
    bool ndjson; /* else: the inside of a JSON array */
    uint32_t done;
    uint32_t line;      /* NDJSON: of the item decoded last, the first being 1 */
    struct bytes topic; /* PUSH */
    size_t longest;     /* bytes of its longest item */
};

/* Which buried jobs are kicked. */
struct api_replay {
    struct bytes topic;
    bool has_code;
    uint16_t code_first, code_last; /* of the last failure */
    bool has_time;
    int64_t from_us, to_us; /* when that was: from ≤ t < to */
    uint32_t max;           /* jobs to kick, at most */
};

/* Which jobs are restored from the journal. */
struct api_restore {
    struct bytes id;   /* empty: all that have not ended */
    bool skip_overdue; /* leave out jobs that are past their due time */
};

/* The result of a restore. */
struct api_restored {
    int64_t took_us;
    uint64_t rows;                   /* rows that were read … */
    uint64_t created, kept, refused; /* … and their results */
    bool single;                     /* the restore was of one job, by its id */
};

struct replay_counts {
    uint64_t looked_at;
    uint64_t kicked;
    bool more; /* `max` were kicked, and not all buried jobs were examined */
};

struct call {
    enum call_kind kind;
    struct response_format format;
    struct cmd cmd;
    struct api_batch batch;
    struct api_replay replay;
    struct api_restore restore;
    /* CMD, a PUSH without an id: the beginning of an id that the server must make in sdmq's form
       (see proto/sdmq/job_id.h); empty: the engine makes the id. */
    struct bytes id_begin;
    /* CONFIGURE_TOPIC: references in the settings must be checked before they are stored. */
    bool probes;
    struct problem problem;
};

/*
 * Decodes a request that came at `now_us` (µs since 1970), and sets all fields of *call that its
 * kind uses. Memory comes from `scratch`; `call` borrows from that, from the request and from
 * `limits`. A request that is refused becomes a CALL_PROBLEM. Any thread. O(length)
 */
void api_decode(const struct api_site *site, const struct api_limits *limits,
                const struct http_request *request, int64_t now_us, struct arena *scratch,
                struct call *call);

/*
 * The client's id in the path of a request that begins with these bytes, if it gets or deletes a
 * job of /v1; else, or if that is not clear so far, nothing. A guess, to prefetch by: nothing is
 * verified. O(JOB_ID_MAX)
 */
struct bytes api_guess_id(struct bytes request);
/*
 * What are most likely clients' ids in the JSON of requests in these bytes, whole or not: strings
 * that are the value of a member "id". At most `max` of them. A guess, as above. O(length)
 */
uint32_t api_guess_ids(struct bytes text, struct bytes *out_ids, uint32_t max);

/* Where a response goes. */
struct api_output {
    const struct response_format *format;
    struct bytes date;
    struct buf *body; /* of api_reply_through(), else NULL */
    struct buf *out;
};

/* A whole response with this body. */
void api_send(const struct api_output *output, int status, const char *content_type,
              struct bytes body);

/* A whole HTTP response for a command's reply. `date` as in http_response. */
void api_reply(const struct response_format *format, const struct reply *reply, int64_t now_us,
               struct bytes date, struct buf *out);
/* The same with a buffer to write the response's body to first, whose memory serves all responses.
 */
void api_reply_through(const struct response_format *format, const struct reply *reply,
                       int64_t now_us, struct bytes date, struct buf *body, struct buf *out);
/* Writes the answer to a finished CALL_REPLAY. */
void api_replay_reply(const struct response_format *format, const struct replay_counts *counts,
                      struct bytes date, struct buf *out);
/* The outcome of a CALL_TEST. */
struct api_test_result {
    const char *outcome; /* "delivered" … */
    uint16_t code;       /* of the answer; 0: none */
    struct attempt_note note;
};

void api_test_reply(const struct response_format *format, const struct api_test_result *result,
                    struct bytes date, struct buf *out);
/* One job of a CALL_LIST as JSON, and the whole answer around them. */
void api_list_job(struct buf *out, const struct job_view *job);
void api_list_reply(const struct response_format *format, struct bytes jobs, struct bytes cursor,
                    struct bytes date, struct buf *out);
/* The answers to CALL_RESTORE and CALL_CLEAR_ALL. */
void api_restored(const struct response_format *format, const struct api_restored *restored,
                  struct bytes date, struct buf *out);
void api_cleared(const struct response_format *format, int64_t took_us, uint64_t jobs,
                 struct bytes date, struct buf *out);
/* The response to a refused request: problem+json in /v1, the dialect's own form elsewhere. */
void api_problem(const struct response_format *format, const struct problem *problem,
                 struct bytes date, struct buf *out);

/*
 * Batch: the next item's command into `out_cmd`; false at the end. A bad item gives
 * out_problem->status != 0 and the batch goes on; so does a line of NDJSON that is not JSON. (A
 * broken array: one problem for the whole.) What is allocated for the item lives in `scratch`.
 */
bool api_batch_next(struct api_batch *batch, const struct api_limits *limits, int64_t now_us,
                    struct arena *scratch, struct cmd *out_cmd, struct problem *out_problem);
/* Goes past the next item without decoding it; *out_bytes: how long it is. False at the end. */
bool api_batch_skip(struct api_batch *batch, size_t *out_bytes);
/*
 * Appends the item's result to `results` (with a comma if it is not the first): that of the
 * engine's `reply`, or of `problem` if that is not NULL; then `reply` may be NULL.
 */
void api_batch_result(const struct response_format *format, struct buf *results,
                      const struct reply *reply, const struct problem *problem);
/* The whole response around the results: 200, and each result has a status of its own. */
void api_batch_reply(const struct response_format *format, struct bytes results, uint32_t failed,
                     struct bytes date, struct buf *out);

/* How an engine's error shows in /v1: HTTP status and code. */
int api_status(enum err err);

/* ,"lateness_ms":{…}: percentiles of the last minute before now and of all time. */
void api_add_lateness(struct buf *out, const struct lateness *lateness, int64_t now_us);

/* The OpenAPI 3.1 document (JSON). */
struct bytes api_openapi(void);

#endif
