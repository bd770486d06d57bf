/* Commands on topics, and the two lists with their cursors. */
#include "proto/api/v1.h"
#include "proto/base64.h"

enum { LIST_LIMIT = 100 }; /* entries of a page when nothing is said */

bool v1_decode_topic(const struct v1_call *v1)
{
    uint32_t allowed = 0;
    struct v1_fields fields;
    if (v1->kind == CMD_PAUSE)
        allowed = V1_BIT(V1_FOR) | V1_BIT(V1_CREATE);
    else if (v1->kind == CMD_KICK_TOPIC)
        allowed = V1_BIT(V1_MAX);
    else if (v1->kind == CMD_CLEAR_TOPIC)
        allowed = V1_BIT(V1_MAX) | V1_BIT(V1_STATE);
    if (!v1_read_body(&v1->input, v1->request->body, allowed, &fields))
        return false;
    if (v1->kind == CMD_CLEAR_TOPIC && !v1_given(&fields, V1_STATE))
        return api_refuse(v1->input.problem, 400, "missing_field", "state",
                          "clear needs the state whose jobs to delete, or \"all\"");
    if (v1->kind == CMD_REMOVE_TOPIC || (v1->kind == CMD_CLEAR_TOPIC && fields.state == JOB_GONE))
        v1->call->kind = CALL_CLEAR;
    v1->call->cmd.topic = (struct cmd_topic){
        .topic = v1->part,
        .max = v1_given(&fields, V1_MAX) ? fields.max : v1->input.limits->batch_jobs,
        .must_exist = v1->kind == CMD_PAUSE && !fields.create,
        .state = v1->kind == CMD_KICK_TOPIC ? JOB_BURIED : fields.state,
        .pause_until_us = v1_given(&fields, V1_FOR) ? v1->input.now_us + fields.for_us : INT64_MAX,
    };
    return true;
}

/* ---- lists ---- */

static bool bad_parameter(const struct v1_call *v1, const char *name, const char *detail)
{
    return api_refuse(v1->input.problem, 400, "bad_parameter", name, detail);
}

static bool bad_limit(const struct v1_call *v1)
{
    (void)bad_parameter(v1, "limit", "this must be 1 … limits.batch_jobs");
    api_problem_addf(v1->input.problem, ", which is %u", v1->input.limits->batch_jobs);
    return false;
}

bool v1_refuse_cursor(struct problem *problem)
{
    return api_refuse(problem, 400, "bad_parameter", "cursor",
                      "this is not a cursor of this listing, from a page with the same topic and "
                      "state: begin again without a cursor");
}

/* Topics go on behind a name; where jobs go on only the engine knows. */
static bool read_cursor(const struct v1_call *v1, struct bytes text, struct cmd_topic *topic)
{
    if (v1->kind == CMD_LIST)
        return (text.len && base64url_read(text, v1->input.scratch, &topic->cursor)) ||
               v1_refuse_cursor(v1->input.problem);
    if (api_topic_flaw(text) != NULL)
        return bad_parameter(v1, "cursor", "this is not a cursor from an earlier page");
    topic->topic = text;
    return true;
}

static bool read_parameter(const struct v1_call *v1, struct bytes name, struct bytes value,
                           struct cmd_topic *topic)
{
    bool jobs = v1->kind == CMD_LIST;
    uint64_t limit;
    if (bytes_eq(name, BYTES("limit"))) {
        if (!bytes_to_u64(value, &limit) || limit < 1 || limit > v1->input.limits->batch_jobs)
            return bad_limit(v1);
        topic->max = (uint32_t)limit;
    } else if (bytes_eq(name, BYTES("cursor"))) {
        return read_cursor(v1, value, topic);
    } else if (jobs && bytes_eq(name, BYTES("state"))) {
        if (!v1_read_state(value, &topic->state))
            return bad_parameter(v1, "state",
                                 "the state must be delayed, ready, reserved or buried");
    } else {
        return api_refuse_name(v1->input.problem, name, "unknown_parameter",
                               jobs ? "the parameters here are state, cursor and limit"
                                    : "the parameters here are cursor and limit");
    }
    return true;
}

bool v1_decode_list(const struct v1_call *v1)
{
    struct bytes rest = v1->request->query, name, value;
    struct v1_fields none;
    struct cmd_topic topic = {.topic = v1->part, .max = LIST_LIMIT, .state = JOB_DELAYED};
    if (topic.max > v1->input.limits->batch_jobs)
        topic.max = v1->input.limits->batch_jobs;
    if (!v1_read_body(&v1->input, v1->request->body, 0, &none))
        return false;
    while (http_query_next(&rest, &name, &value)) {
        if (!api_unescape(value, true, v1->input.scratch, &value))
            return api_refuse_name(v1->input.problem, name, "bad_parameter",
                                   "this has a percent sign without two hex digits");
        if (!read_parameter(v1, name, value, &topic))
            return false;
    }
    v1->call->cmd.topic = topic;
    return true;
}
