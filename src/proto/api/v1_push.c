/* Pushes: one job, a JSON array of jobs, or NDJSON. */
#include "proto/api/v1.h"

enum { MILLISECOND_US = 1000 };

static const uint64_t push_fields =
    V1_BIT(V1_ID) | V1_BIT(V1_DELAY) | V1_BIT(V1_DUE) | V1_BIT(V1_TTR) | V1_BIT(V1_PRIORITY) |
    V1_BIT(V1_BODY) | V1_BIT(V1_BODY_BASE64) | V1_BIT(V1_CONTENT_TYPE) | V1_BIT(V1_RETRY) |
    V1_BIT(V1_IF_EXISTS) | V1_BIT(V1_DURABILITY) | V1_BIT(V1_STATE) | V1_BIT(V1_LEVEL) |
    V1_BIT(V1_URL) | V1_BIT(V1_TARGET) | V1_BIT(V1_KEY) | V1_BIT(V1_HEADERS) | V1_BIT(V1_AMQP) |
    V1_BIT(V1_CREATED) | V1_BIT(V1_ATTEMPT) | V1_BIT(V1_FAILURES) | V1_LABELS;

/* The fields of a test delivery to a topic's target, which is not stored. */
static const uint64_t test_fields =
    V1_BIT(V1_BODY) | V1_BIT(V1_BODY_BASE64) | V1_BIT(V1_CONTENT_TYPE);

static bool is_timed(const struct v1_fields *fields)
{
    return v1_given(fields, V1_DELAY) || v1_given(fields, V1_DUE) || v1_given(fields, V1_LEVEL);
}

/*
 * Only one state may be given by name: the others follow from the due time. A dead letter that is
 * moved here from another queue was due once.
 */
static bool state_fits(const struct v1_input *input, const struct v1_fields *fields)
{
    if (!v1_given(fields, V1_STATE))
        return true;
    if (fields->state != JOB_BURIED)
        return api_refuse(input->problem, 400, "bad_field", "state",
                          "a job can be pushed as buried only; else its due time says what it is");
    if (is_timed(fields) && !v1_given(fields, V1_CREATED))
        return api_refuse(input->problem, 400, "bad_field", "state",
                          "a buried job waits for a kick: leave out delay, due and level");
    return true;
}

/* Encodes url, key, headers, amqp and labels. */
static bool pack_properties(const struct v1_input *input, const struct v1_fields *fields,
                            struct bytes *out_properties)
{
    struct settings_problem problem;
    struct buf text = {0};
    *out_properties = (struct bytes){0};
    if (!fields->properties)
        return true;
    enum err err = job_properties_write(fields->properties, &text, &problem);
    if (!err)
        *out_properties = arena_copy(input->scratch, buf_bytes(&text));
    buf_fini(&text);
    return !err || v1_refuse_settings(input->problem, &problem);
}

/* The due time: as given, or, with a rank, the first time after it that encodes the rank. */
static int64_t due_of(const struct v1_input *input, const struct v1_fields *fields)
{
    int64_t due_us = is_timed(fields) ? fields->due_us : input->now_us;
    if (!v1_given(fields, V1_RANK))
        return due_us;
    int64_t ranked_us = job_due_with_rank(due_us / MILLISECOND_US, fields->properties->rank);
    return ranked_us < due_us ? ranked_us + MILLISECOND_US : ranked_us;
}

static void make_push(const struct v1_input *input, struct bytes topic,
                      const struct v1_fields *fields, struct cmd *out_cmd)
{
    *out_cmd = (struct cmd){
        .kind = CMD_PUSH,
        .push =
            {
                .id = fields->id,
                .topic = topic,
                .due_us = due_of(input, fields),
                .ttr_us = v1_given(fields, V1_TTR) ? fields->ttr_us : input->limits->ttr_us,
                .priority = fields->priority,
                .buried = v1_given(fields, V1_STATE),
                .created_us = fields->created_us,
                .reserves = fields->attempt,
                .failures = fields->failures,
                .if_exists = fields->if_exists,
                .durability = fields->durability,
                .body_kind = fields->body_kind,
                .content_type = fields->content_type,
                .body = fields->body,
                .retry_us = fields->retry_us,
                .retry_count = fields->retry_count,
                .retry_given = v1_given(fields, V1_RETRY),
                .ttr_is_default = !v1_given(fields, V1_TTR),
                .own_target = fields->properties && fields->properties->url.len,
                .own_route = fields->properties && fields->properties->amqp.len,
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
    return pack_properties(input, &fields, &out_cmd->push.properties);
}

bool v1_decode_test(const struct v1_call *v1)
{
    struct v1_fields fields;
    struct cmd *cmd = &v1->call->cmd;
    if (!v1_read_body(&v1->input, v1->request->body, test_fields, &fields))
        return false;
    v1->call->kind = CALL_TEST;
    make_push(&v1->input, v1->part, &fields, cmd);
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
