/*
 * Internal declarations of /v1: v1.c finds the call, v1_object.c and v1_fields.c read a request's
 * JSON, v1_push.c, v1_job.c and v1_topic.c make commands of it, v1_batch.c goes through batches of
 * them, v1_reply.c and v1_history.c write answers. Strict: an unknown field or parameter, or a
 * wrong type, is refused with its name, because a typo that is silently ignored makes a job run at
 * the wrong time.
 */
#ifndef LATERD_PROTO_API_V1_H
#define LATERD_PROTO_API_V1_H

#include "proto/api/api_parts.h"
#include "proto/settings/job_properties.h"

/* All fields of all calls. */
enum v1_field {
    V1_ID,
    V1_DELAY,
    V1_DUE,
    V1_TTR,
    V1_PRIORITY,
    V1_BODY,
    V1_BODY_BASE64,
    V1_CONTENT_TYPE,
    V1_RETRY,
    V1_IF_EXISTS,
    V1_DURABILITY,
    V1_LEASE,
    V1_TOPICS,
    V1_WAIT,
    V1_MAX,
    V1_FOR,
    V1_STATE,
    V1_REF,  /* the id of an existing job; V1_ID is that of a new one */
    V1_JOBS, /* the items of a batch */
    V1_CREATE,
    V1_URL, /* for deliveries: properties of the job */
    V1_TARGET,
    V1_KEY,
    V1_HEADERS,
    V1_AMQP,
    V1_BIZ_KEY, /* labels, in the order of enum job_label */
    V1_SUBTOPIC,
    V1_TAGS,
    V1_EXTEND_DATA,
    V1_CREATE_TIME,
    V1_RANK,
    V1_LEVEL,  /* a delay by RocketMQ's name */
    V1_REASON, /* why a job is released or buried */
    V1_CODE,
    V1_CODES, /* of replay: which of them */
    V1_FROM,
    V1_TO,
    V1_SINCE,
    V1_KICKS,   /* of replay: how many, at most */
    V1_CREATED, /* of a push that moves a job from another queue: its attributes there */
    V1_ATTEMPT,
    V1_FAILURES,
    V1_EXPIRE, /* of restore: those that are past their due time, too */
    V1_FIELD_COUNT
};

#define V1_BIT(field) (UINT64_C(1) << (field))
#define V1_LABELS                                                                                  \
    (V1_BIT(V1_BIZ_KEY) | V1_BIT(V1_SUBTOPIC) | V1_BIT(V1_TAGS) | V1_BIT(V1_EXTEND_DATA) |         \
     V1_BIT(V1_CREATE_TIME) | V1_BIT(V1_RANK))

/* The fields of the request. Only those whose bit is in `given` are valid. */
struct v1_fields {
    uint64_t given;
    struct bytes id;
    int64_t due_us; /* of delay or due */
    int64_t ttr_us;
    uint32_t priority;
    enum body_kind body_kind;
    struct bytes body;
    struct bytes content_type;
    int64_t *retry_us;
    uint8_t retry_count;
    enum if_exists if_exists;
    enum durability durability;
    uint64_t lease;
    struct bytes *topics;
    uint32_t topic_count;
    int64_t wait_us;
    uint32_t max;
    int64_t for_us;
    enum job_state state; /* JOB_GONE: all */
    bool create;
    int64_t created_us;
    uint16_t attempt, failures;
    bool expire;
    struct job_properties *properties; /* of URL … RANK; NULL: none is given */
    struct bytes reason;
    uint16_t code;
    uint16_t code_first, code_last; /* of CODES */
    int64_t from_us, to_us;         /* of FROM or SINCE, and TO */
    struct job_ref ref;
    struct bytes jobs; /* the array as it was sent */
};

static inline bool v1_given(const struct v1_fields *fields, enum v1_field field)
{
    return (fields->given & V1_BIT(field)) != 0;
}

/* The context of reading a request's JSON. */
struct v1_input {
    const struct api_limits *limits;
    int64_t now_us;
    struct arena *scratch;
    struct problem *problem; /* where a refusal goes */
};

/* One field under way. */
struct v1_reader {
    const struct v1_input *input;
    struct v1_fields *fields;
    const struct json_value *value;
    const char *name;
};

/* A field of some call: its name, and who reads it. `read` returns false after a refusal. */
struct v1_known_field {
    struct bytes name;
    bool (*read)(const struct v1_reader *reader);
};

extern const struct v1_known_field v1_known[V1_FIELD_COUNT];

/* Reads a whole request body; an empty one has no fields. */
bool v1_read_body(const struct v1_input *input, struct bytes body, uint64_t allowed,
                  struct v1_fields *out_fields);
/* Sets the problem of text that is not JSON: with the place, counted from `begin`, the first byte
   of what the client sent, or of its line. */
bool v1_refuse_json(const struct v1_input *input, const struct json *json, const char *begin);

/* Is it a media type of lines of JSON? Parameters behind it do not matter. */
bool v1_is_ndjson(struct bytes content_type);

/* A state by its name, "ready" and so on. False: no state has it. */
bool v1_read_state(struct bytes text, enum job_state *out_state);

/* Sets the problem of a cursor that is not one of this listing. Returns false. */
bool v1_refuse_cursor(struct problem *problem);

/* What an answer shows, where one command has several. V1_FIRST: the request had If-None-Match. */
enum v1_variant { V1_PLAIN, V1_ATTEMPTS, V1_HISTORY, V1_FIRST };

/* A request whose route is known. */
struct v1_call {
    struct v1_input input;
    const struct http_request *request;
    struct bytes part;  /* of the path, percent-decoded: the topic's name, the job's id, or empty */
    enum cmd_kind kind; /* of the route */
    struct call *call;
};

/*
 * The decoders of the routes, which a table in v1.c names. Each fills in v1->call: its cmd, whose
 * kind is that of the route already, or another call::kind with what belongs to it. The bytes there
 * are borrowed from the request and from input.scratch. False: input.problem says what is wrong.
 * O(bytes of the request).
 */
bool v1_decode_pushes(const struct v1_call *v1);
bool v1_decode_finishes(const struct v1_call *v1);
bool v1_decode_gets(const struct v1_call *v1);
bool v1_decode_job(const struct v1_call *v1);
bool v1_decode_reserve(const struct v1_call *v1);
bool v1_decode_topic(const struct v1_call *v1);
bool v1_decode_list(const struct v1_call *v1);
bool v1_decode_due(const struct v1_call *v1);
bool v1_decode_configure(const struct v1_call *v1);
bool v1_decode_attempts(const struct v1_call *v1);
bool v1_decode_history(const struct v1_call *v1);
bool v1_decode_restore(const struct v1_call *v1);
bool v1_decode_resync(const struct v1_call *v1);
bool v1_decode_replay(const struct v1_call *v1);
bool v1_decode_test(const struct v1_call *v1);

/* Sets the problem of settings, a schedule or a target as that of the request. Returns false. */
bool v1_refuse_settings(struct problem *problem, const struct settings_problem *settings);

/* Appends the note of an attempt (cmd_job::note), as fields behind others. */
void v1_add_note(struct buf *out, struct bytes text, bool with_response);
/* What happened to a job. */
void v1_add_history(struct buf *out, const struct reply *reply, int64_t now_us);

/* Begin a batch of v1->kind: of the lines of the request's body, or of the items of an array. */
bool v1_begin_lines(const struct v1_call *v1);
bool v1_begin_array(const struct v1_call *v1, struct bytes array);

/* One item of a batch, as JSON; what is empty has no fields. */
bool v1_read_push(const struct v1_input *input, struct bytes topic, struct bytes text,
                  struct cmd *out_cmd);
bool v1_read_finish(const struct v1_input *input, struct bytes text, struct cmd *out_cmd);
bool v1_read_get(const struct v1_input *input, struct bytes text, struct cmd *out_cmd);

#endif
