/*
 * Batches of one command: a JSON array of items, or NDJSON. A whole batch is checked before its
 * first item is done, so that a broken array or too long a batch changes nothing.
 */
#include <stdio.h>

#include "proto/api/v1.h"

/* False: a batch of `count` items is too large. */
static bool size_fits(const struct v1_input *input, uint32_t count)
{
    if (count <= input->limits->batch_jobs)
        return true;
    (void)api_refuse(input->problem, 413, "batch_too_large", "", "");
    input->problem->config_key = "limits.batch_jobs";
    api_problem_addf(input->problem, "the batch has %u jobs; limits.batch_jobs is %u", count,
                     input->limits->batch_jobs);
    return false;
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

static void begin(const struct v1_call *v1, struct bytes items, bool ndjson, size_t longest)
{
    v1->call->kind = CALL_BATCH;
    v1->call->format.cmd = (uint8_t)v1->kind;
    v1->call->batch = (struct api_batch){
        .kind = v1->kind, .rest = items, .ndjson = ndjson, .topic = v1->part, .longest = longest};
}

bool v1_begin_lines(const struct v1_call *v1)
{
    struct bytes rest = v1->request->body, line;
    uint32_t count = 0, line_number = 0;
    size_t longest = 0;
    for (; next_line(&rest, &line, &line_number); count++)
        longest = line.len > longest ? line.len : longest;
    if (!size_fits(&v1->input, count))
        return false;
    begin(v1, v1->request->body, true, longest);
    return true;
}

bool v1_begin_array(const struct v1_call *v1, struct bytes array)
{
    struct json json;
    struct json_value item;
    uint32_t count = 0;
    size_t longest = 0;
    json_init(&json, array, v1->input.limits->json_depth);
    if (!json_open(&json, JSON_KIND_ARRAY))
        return v1_refuse_json(&v1->input, &json, array.at);
    struct bytes inside = bytes_of(json.at, (size_t)(json.end - json.at));
    for (; json_item(&json, &item); count++)
        longest = item.text.len > longest ? item.text.len : longest;
    if (!json_end(&json))
        return v1_refuse_json(&v1->input, &json, array.at);
    if (!size_fits(&v1->input, count))
        return false;
    begin(v1, inside, false, longest);
    return true;
}

/* The next item of an array that is known to be well-formed. */
static bool next_item(struct api_batch *batch, struct bytes *out_item)
{
    struct json json;
    struct json_value item;
    json_init(&json, batch->rest, JSON_DEPTH_MAX);
    json.depth = 1;
    json.fresh = batch->done == 0;
    if (!json_item(&json, &item))
        return false;
    *out_item = item.text;
    if (item.kind ==
        JSON_KIND_STRING) /* with its quotes, so that the refusal shows it as a string */
        *out_item = bytes_of(item.text.at - 1, item.text.len + 2);
    batch->rest = bytes_of(json.at, (size_t)(json.end - json.at));
    return true;
}

/* An item's refusal begins with its place, so that it can be found in a long file. What has no room
   behind it goes by whole words. */
static void name_line(struct problem *problem, uint32_t line_number)
{
    static const char more[] = " …";
    struct buf detail = {0};
    buf_add_str(&detail, "line ");
    buf_add_u64(&detail, line_number);
    buf_add_str(&detail, ": ");
    buf_add_str(&detail, problem->detail);
    if (detail.len >= sizeof(problem->detail)) {
        detail.len = sizeof(problem->detail) - sizeof(more);
        while (detail.at[detail.len] != ' ') /* the first is behind "line" */
            detail.len--;
        buf_add_str(&detail, more);
    }
    buf_add_char(&detail, '\0');
    memset(problem->detail, 0, sizeof(problem->detail));
    api_problem_add(problem, detail.at);
    buf_fini(&detail);
}

/* "jobs":[…] of a finish or a get: an item that is no object is reported with its index. */
static bool is_object(const struct api_batch *batch, struct bytes item, struct problem *problem)
{
    char field[sizeof(problem->field)];
    if (batch->kind == CMD_PUSH || (item.len && item.at[0] == '{'))
        return true;
    (void)snprintf(field, sizeof(field), "jobs[%u]", batch->done - 1);
    return api_refuse(problem, 400, "bad_field", field,
                      "this must be an object such as {\"id\":\"a\"}");
}

/* The text of the next item, which counts as done. */
static bool take_text(struct api_batch *batch, struct bytes *out_item)
{
    bool some = batch->ndjson ? next_line(&batch->rest, out_item, &batch->line)
                              : next_item(batch, out_item);
    batch->done += some;
    return some;
}

bool api_batch_skip(struct api_batch *batch, size_t *out_bytes)
{
    struct bytes item = {0};
    bool some = take_text(batch, &item);
    *out_bytes = item.len;
    return some;
}

bool api_batch_next(struct api_batch *batch, const struct api_limits *limits, int64_t now_us,
                    struct arena *scratch, struct cmd *out_cmd, struct problem *out_problem)
{
    struct v1_input input = {
        .limits = limits, .now_us = now_us, .scratch = scratch, .problem = out_problem};
    struct bytes item;
    *out_problem = (struct problem){0};
    if (!take_text(batch, &item))
        return false;
    if (!is_object(batch, item, out_problem))
        return true;
    bool good = batch->kind == CMD_FINISH ? v1_read_finish(&input, item, out_cmd)
                : batch->kind == CMD_GET  ? v1_read_get(&input, item, out_cmd)
                                          : v1_read_push(&input, batch->topic, item, out_cmd);
    if (!good && batch->ndjson)
        name_line(out_problem, batch->line);
    return true;
}
