/*
 * Pushes: one job, a JSON array of jobs, or NDJSON. A batch is looked through before its first job
 * is pushed, so that a broken array or too long a batch changes nothing.
 */
#include "proto/api_v1.h"

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

static bool refuse_batch_size(const struct v1_input *input)
{
    return api_refuse(input->problem, 413, "batch_too_large", "",
                      "the batch has more jobs than limits.batch_jobs");
}

/* The next line that is not blank; false: none is left. `line_number` counts all of them. */
static bool next_line(struct bytes *rest, struct bytes *out_line, uint32_t *line_number)
{
    while (rest->len) {
        const char *end = memchr(rest->at, '\n', rest->len);
        size_t len = end ? (size_t)(end - rest->at) : rest->len, step = len + (end != NULL);
        *out_line = bytes_of(rest->at, len);
        *rest = bytes_of(rest->at + step, rest->len - step);
        ++*line_number;
        for (size_t i = 0; i < len; i++) {
            if (!strchr(" \t\r", out_line->at[i]) || out_line->at[i] == '\0')
                return true;
        }
    }
    return false;
}

static bool begin_lines(const struct v1_call *v1)
{
    struct bytes rest = v1->request->body, line;
    uint32_t count = 0, line_number = 0;
    while (next_line(&rest, &line, &line_number)) {
        if (++count > v1->input.limits->batch_jobs)
            return refuse_batch_size(&v1->input);
    }
    v1->call->kind = CALL_PUSHES;
    v1->call->pushes =
        (struct api_pushes){.rest = v1->request->body, .ndjson = true, .topic = v1->part};
    return true;
}

static bool begin_array(const struct v1_call *v1)
{
    struct json json;
    struct json_value item;
    uint32_t count = 0;
    json_init(&json, v1->request->body, v1->input.limits->json_depth);
    if (!json_open(&json, JSON_KIND_ARRAY))
        return v1_refuse_json(&v1->input, &json);
    struct bytes inside = bytes_of(json.at, (size_t)(json.end - json.at));
    while (json_item(&json, &item)) {
        if (++count > v1->input.limits->batch_jobs)
            return refuse_batch_size(&v1->input);
    }
    if (!json_end(&json))
        return v1_refuse_json(&v1->input, &json);
    v1->call->kind = CALL_PUSHES;
    v1->call->pushes = (struct api_pushes){.rest = inside, .topic = v1->part};
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
    struct v1_fields fields;
    if (v1_is_ndjson(v1->request->content_type))
        return begin_lines(v1);
    if (is_array(v1->request->body))
        return begin_array(v1);
    if (!v1_read_body(&v1->input, v1->request->body, push_fields, &fields) ||
        !state_fits(&v1->input, &fields))
        return false;
    make_push(&v1->input, v1->part, &fields, &v1->call->cmd);
    return true;
}

/* The next item of an array that is known to be well-formed. */
static bool next_item(struct api_pushes *pushes, struct bytes *out_item)
{
    struct json json;
    struct json_value item;
    json_init(&json, pushes->rest, JSON_DEPTH_MAX);
    json.depth = 1;
    json.fresh = pushes->done == 0;
    if (!json_item(&json, &item))
        return false;
    *out_item = item.text;
    if (item.kind == JSON_KIND_STRING) /* shown with its quotes, to be refused as what it is */
        *out_item = bytes_of(item.text.at - 1, item.text.len + 2);
    pushes->rest = bytes_of(json.at, (size_t)(json.end - json.at));
    return true;
}

/* An item's refusal begins with where it stands, for whoever looks for it in a long file. */
static void name_line(struct problem *problem, uint32_t line_number)
{
    struct buf detail = {0};
    buf_add_str(&detail, "line ");
    buf_add_u64(&detail, line_number);
    buf_add_str(&detail, ": ");
    buf_add_str(&detail, problem->detail);
    buf_add_char(&detail, '\0');
    memset(problem->detail, 0, sizeof(problem->detail));
    api_problem_add(problem, detail.at);
    buf_fini(&detail);
}

bool api_pushes_next(struct api_pushes *pushes, const struct api_limits *limits, int64_t now_us,
                     struct arena *scratch, struct cmd *out_cmd, struct problem *out_problem)
{
    struct v1_input input = {
        .limits = limits, .now_us = now_us, .scratch = scratch, .problem = out_problem};
    struct v1_fields fields;
    struct bytes item;
    *out_problem = (struct problem){0};
    if (!(pushes->ndjson ? next_line(&pushes->rest, &item, &pushes->line)
                         : next_item(pushes, &item)))
        return false;
    pushes->done++;
    if (v1_read_body(&input, item, push_fields, &fields) && state_fits(&input, &fields))
        make_push(&input, pushes->topic, &fields, out_cmd);
    else if (pushes->ndjson)
        name_line(out_problem, pushes->line);
    return true;
}
