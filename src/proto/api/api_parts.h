/*
 * Internal declarations of the dialects: texts of refusals, checks of names, writing of responses.
 * Each dialect has a decode, a reply and a problem function; api.c chooses.
 */
#ifndef LATERD_PROTO_API_API_PARTS_H
#define LATERD_PROTO_API_API_PARTS_H

#include "proto/api/api.h"
#include "proto/json.h"

/* The input of decoding a request. */
struct api_input {
    const struct api_limits *limits;
    const struct http_request *request;
    int64_t now_us;
    struct arena *scratch;
};

void delay_queue_decode(const struct api_input *input, struct call *call);
void delay_queue_reply(const struct api_output *output, const struct reply *reply);
void delay_queue_problem(const struct api_output *output, const struct problem *problem);

void delayqueue_java_decode(const struct api_input *input, struct call *call);
void delayqueue_java_reply(const struct api_output *output, const struct reply *reply);
void delayqueue_java_problem(const struct api_output *output, const struct problem *problem);

/* Decodes any path, including "/v1" and unknown ones. */
void v1_decode(const struct api_input *input, struct call *call);
void v1_reply(const struct api_output *output, const struct reply *reply, int64_t now_us);
void v1_problem(const struct api_output *output, const struct problem *problem);

void v1_restored(const struct api_output *output, const struct api_restored *restored);

/* Fills in a problem; detail and field are cut to fit. */
void api_problem_set(struct problem *problem, int status, const char *code, const char *field,
                     const char *detail);
/* Appends to the detail, cut to fit. */
void api_problem_add(struct problem *problem, const char *text);
void api_problem_addf(struct problem *problem, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Why the engine refused, with the limit's value if it was one; `limits` may be NULL. */
void api_problem_of(struct problem *problem, const struct api_limits *limits,
                    const struct reply *reply);
/*
 * True: the reply is an error in the older dialects: *out_problem. It is a success for them that
 * there was nothing to reserve, to find or to delete.
 */
bool api_is_failure(const struct api_output *output, const struct reply *reply,
                    struct problem *out_problem);
/* Sets the problem of a body that is too large, with its number of bytes. */
void api_problem_body(struct problem *problem, int status, const char *field, uint64_t bytes,
                      const struct api_limits *limits);
/* api_problem_set() for `return`: always false, and inline, so that compilers and readers see
   that. */
static inline bool api_refuse(struct problem *problem, int status, const char *code,
                              const char *field, const char *detail)
{
    api_problem_set(problem, status, code, field, detail);
    return false;
}
/* Refuses (400) a field or parameter of that name, which is cut to fit; false. */
bool api_refuse_name(struct problem *problem, struct bytes name, const char *code,
                     const char *detail);
/* Refuses a call, which becomes CALL_PROBLEM. */
void api_refuse_call(struct call *call, int status, const char *code, const char *detail);

/* api_send() for a problem: with its status, and its methods if it has some (405). */
void api_send_problem(const struct api_output *output, const struct problem *problem,
                      const char *content_type, struct bytes body);

/* NULL if a topic may have this name, else why not, to be read after "the topic". */
const char *api_topic_flaw(struct bytes name);
/* NULL if a client may choose this id, else why not, to be read after "the id". */
const char *api_id_flaw(struct bytes id);

/* Percent-decodes into the arena; in a query (or a form) a plus sign is a space. False: a bad
   escape, or NUL. */
bool api_unescape_path(struct bytes text, struct arena *scratch, struct bytes *out_text);
bool api_unescape_query(struct bytes text, struct arena *scratch, struct bytes *out_text);

/* How long a poll waits: a duration such as 30s, or milliseconds, up to api_limits::wait_us. */
bool api_read_wait(const struct api_limits *limits, struct bytes text, int64_t *out_us);

/* The text of an id, as JSON. */
void api_add_id(struct buf *out, const struct job_ref *ref, enum json_style format);

#endif
