/* Pushes: one job, a JSON array of jobs, or NDJSON. */
#include "proto/api/v1.h"

static const uint32_t push_fields =
    V1_BIT(V1_ID) | V1_BIT(V1_DELAY) | V1_BIT(V1_DUE) | V1_BIT(V1_TTR) | V1_BIT(V1_PRIORITY) |
    V1_BIT(V1_BODY) | V1_BIT(V1_BODY_BASE64) | V1_BIT(V1_CONTENT_TYPE) | V1_BIT(V1_RETRY) |
    V1_BIT(V1_IF_EXISTS) | V1_BIT(V1_DURABILITY) | V1_BIT(V1_STATE);

/* Only one state may be asked for by name: the others follow from the due time. */
static bool state_fits(const struct v1_input *input, const struct v1_fields *fields)
{
    if (!v1_given(fields, V1_STATE))
        return true;
    if (fields->state != JOB_BURIED)
        return api_refuse(input->problem, 400, "bad_field", "state",
                          "a job can be pushed as buried only; else its due time says what it is");
    if (v1_given(fields, V1_DELAY) || v1_given(fields, V1_DUE))
        return api_refuse(input->problem, 400, "bad_field", "state",
                          "a buried job waits for a kick: leave out delay and due");
    return true;
}

static void make_push(const struct v1_input *input, struct bytes topic,
                      const struct v1_fields *fields, struct cmd *out_cmd)
{
    bool timed = v1_given(fields, V1_DELAY) || v1_given(fields, V1_DUE);
    *out_cmd = (struct cmd){
        .kind = CMD_PUSH,
        .push =
            {
                .id = fields->id,
                .topic = topic,
                .due_us = timed ? fields->due_us : input->now_us,
                .ttr_us = v1_given(fields, V1_TTR) ? fields->ttr_us : input->limits->ttr_us,
                .priority = fields->priority,
                .buried = v1_given(fields, V1_STATE),
                .if_exists = fields->if_exists,
                .durability = fields->durability,
                .body_kind = fields->body_kind,
                .content_type = fields->content_type,
                .body = fields->body,
                .retry_us = fields->retry_us,
                .retry_count = fields->retry_count,
            },
    };
}

bool v1_read_push(const struct v1_input *input, struct bytes topic, struct bytes text,
                  struct cmd *out_cmd)
{
    struct v1_fields fields;
    if (!v1_read_body(input, text, push_fields, &fields) || !state_fits(input, &fields))
        return false;
    make_push(input, topic, &fields, out_cmd);
    return true;
}

static bool is_array(struct bytes body)
{
    size_t i = 0;
    while (i < body.len && (body.at[i] == ' ' || (body.at[i] >= '\t' && body.at[i] <= '\r')))
        i++;
    return i < body.len && body.at[i] == '[';
}

bool v1_decode_pushes(const struct v1_call *v1)
{
    if (v1_is_ndjson(v1->request->content_type))
        return v1_begin_lines(v1);
    if (v1->request->body.len == 0)
        return api_refuse(v1->input.problem, 400, "missing_body", "",
                          "the request has no body: send the job as JSON, such as "
                          "{\"body\":\"hello\"}; {} is a job with an empty body");
    if (is_array(v1->request->body))
        return v1_begin_array(v1, v1->request->body);
    return v1_read_push(&v1->input, v1->part, v1->request->body, &v1->call->cmd);
}
