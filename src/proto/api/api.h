/*
 * The HTTP interfaces: which path means which command, and how its reply looks. Each dialect is
 * one file (api_delay_queue.c, api_delayqueue_java.c, api_v1*.c); api.c chooses. Pure.
 */
#ifndef LATERD_PROTO_API_API_H
#define LATERD_PROTO_API_API_H

#include "base/arena.h"
#include "core/cmd.h"
#include "proto/http/http1.h"

enum api_dialect {
    DIALECT_DELAY_QUEUE,
    DIALECT_DELAYQUEUE_JAVA,
    DIALECT_NONE /* only /v1 */,
    DIALECT_COUNT
};

const char *api_dialect_name(enum api_dialect dialect); /* "delay-queue" … */

struct api_limits {
    uint32_t body_bytes;     /* of a job; default 1 MiB */
    uint32_t json_depth;     /* default 32 */
    uint32_t batch_jobs;     /* jobs in one push, finish or reserve; default 1000 */
    uint32_t reserve_topics; /* topics in one reserve; default 64 */
    int64_t wait_us;         /* longest long poll of /v1; default 10 minutes */
    int64_t block_us;        /* long poll of the delay-queue dialect; default 178 s */
    int64_t ttr_us;          /* default ttr of /v1; 60 s */
    int64_t ttr_max_us;
    /* How far local time is east of UTC at a time, for delayqueue-java's dates; NULL: UTC. */
    int64_t (*east_us)(int64_t at_us);
    /* The engine's limits, for errors to name; 0: not named. */
    uint64_t jobs, topics, waiters, memory_bytes, disk_bytes;
};

/* Where a request came in. */
struct api_site {
    enum api_dialect root; /* who owns the paths outside /v1 */
    bool any_host;         /* the request's Host does not matter: no browser gets here */
    struct bytes hosts;    /* names that are ours, for host_is_known() */
};

enum call_kind {
    CALL_CMD,     /* `cmd` goes to the engine; api_reply writes its reply */
    CALL_BATCH,   /* many commands of one kind; see api_batch_next */
    CALL_CLEAR,   /* `cmd` (CLEAR_TOPIC of all states, or REMOVE_TOPIC) takes several commands, one
                     after another: first CLEAR_TOPIC of each state; api_reply writes the sum */
    CALL_PROBLEM, /* the request is refused: `problem` */
    CALL_HEALTHZ, /* the server answers these itself */
    CALL_READYZ,
    CALL_METRICS,
    CALL_OPENAPI,
    CALL_STATS,  /* GET /v1/stats: the whole server's figures, for `later top` and `later stats` */
    CALL_ROOT,   /* GET /: what this is, and where to look */
    CALL_LIMITS, /* GET /v1/limits: the limits that a client must know to stay within them */
};

/* What api_reply must know later; kept by the session, owns nothing. */
struct response_format {
    const struct api_limits *limits; /* whose values errors name; NULL: none. Borrowed */
    uint8_t dialect;                 /* enum api_dialect, or DIALECT_COUNT for /v1 */
    uint8_t cmd;                     /* enum cmd_kind */
    bool close;
    bool http10;
    bool head_only;
    uint8_t variant; /* for the codec's own use: e.g. push and get answer with different texts */
};

struct problem {
    int status;        /* HTTP status in /v1 */
    enum err err;      /* OK, or what the engine said */
    const char *code;  /* stable word, e.g. "bad_field" */
    char field[64];    /* JSON path of the bad field, or "" */
    char detail[200];  /* one sentence for people */
    const char *allow; /* 405 */
};

/* The items of a batch that are still to be decoded. */
struct api_batch {
    enum cmd_kind kind; /* PUSH or FINISH */
    struct bytes rest;
    bool ndjson; /* else: the inside of a JSON array */
    uint32_t done;
    uint32_t line;      /* NDJSON: of the item decoded last, the first being 1 */
    struct bytes topic; /* PUSH */
};

struct call {
    enum call_kind kind;
    struct response_format format;
    struct cmd cmd;
    struct api_batch batch;
    struct problem problem;
};

/* Decodes a request. Whatever is allocated for it lives in `scratch`. `call->cmd` borrows from
 * both. */
void api_decode(const struct api_site *site, const struct api_limits *limits,
                const struct http_request *request, int64_t now_us, struct arena *scratch,
                struct call *call);

/* Where a response goes. */
struct api_output {
    const struct response_format *format;
    struct bytes date;
    struct buf *out;
};

/* A whole response with this body. */
void api_send(const struct api_output *output, int status, const char *content_type,
              struct bytes body);

/* A whole HTTP response for a command's reply. `date` as in http_response. */
void api_reply(const struct response_format *format, const struct reply *reply, int64_t now_us,
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
