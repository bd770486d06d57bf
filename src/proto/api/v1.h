/*
 * The inside of /v1: api_v1.c finds the call, api_v1_fields.c reads what a request's JSON says,
 * api_v1_push.c, api_v1_job.c and api_v1_topic.c make commands of it, api_v1_batch.c goes through
 * batches of them, api_v1_reply.c answers.
 *
 * Strict: a field, parameter or type that is not expected is refused by name, because a typo that
 * is silently ignored is a job that runs at the wrong time.
 */
#ifndef LATERD_PROTO_API_V1_H
#define LATERD_PROTO_API_V1_H

#include "proto/api/api_parts.h"

/* The fields there are, in any call. */
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
    V1_REF,  /* the id of a job that is there; V1_ID is that of a new one */
    V1_JOBS, /* the items of a batch */
    V1_CREATE,
    V1_FIELD_COUNT
};

#define V1_BIT(field) (1u << (field))

/* The fields of the request. Only those whose bit is in `given` are valid. */
struct v1_fields {
    uint32_t given;
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
    struct job_ref ref;
    struct bytes jobs; /* the array as it was sent */
};

static inline bool v1_given(const struct v1_fields *fields, enum v1_field field)
{
    return (fields->given & V1_BIT(field)) != 0;
}

/* What reading a request's JSON has at hand. */
struct v1_input {
    const struct api_limits *limits;
    int64_t now_us;
    struct arena *scratch;
    struct problem *problem; /* where a refusal goes */
};

/* Reads the object that comes next in `json`; fields outside `allowed` are refused. */
bool v1_read_object(const struct v1_input *input, struct json *json, uint32_t allowed,
                    struct v1_fields *out_fields);
/* Reads a whole request body; an empty one has no fields. */
bool v1_read_body(const struct v1_input *input, struct bytes body, uint32_t allowed,
                  struct v1_fields *out_fields);
/* The problem of JSON that is none. */
bool v1_refuse_json(const struct v1_input *input, const struct json *json);

bool v1_is_ndjson(struct bytes content_type);

bool v1_read_state(struct bytes text, enum job_state *out_state);

/* The problem of a cursor that is not one of the listing that is asked for; false. */
bool v1_refuse_cursor(struct problem *problem);

/* The calls: a path's parts are decoded. False: the problem is filled in. */
struct v1_call {
    struct v1_input input;
    const struct http_request *request;
    struct bytes part;  /* the topic's name or the job's id */
    enum cmd_kind kind; /* of the route */
    struct call *call;
};

bool v1_decode_pushes(const struct v1_call *v1);
bool v1_decode_finishes(const struct v1_call *v1);
bool v1_decode_job(const struct v1_call *v1);
bool v1_decode_reserve(const struct v1_call *v1);
bool v1_decode_topic(const struct v1_call *v1);
bool v1_decode_list(const struct v1_call *v1);

/* Begin a batch of v1->kind: of the lines of the request's body, or of the items of an array. */
bool v1_begin_lines(const struct v1_call *v1);
bool v1_begin_array(const struct v1_call *v1, struct bytes array);

/* One item of a batch, as JSON; what is empty has no fields. */
bool v1_read_push(const struct v1_input *input, struct bytes topic, struct bytes text,
                  struct cmd *out_cmd);
bool v1_read_finish(const struct v1_input *input, struct bytes text, struct cmd *out_cmd);

#endif
