/*
 * Reads the object that is the JSON of a request: finds the reader of each member (v1_fields.c),
 * and refuses members that are not known, or not allowed in this call.
 */
#include <string.h>

#include "base/typo.h"
#include "proto/api/v1.h"

/* The field that `name` is probably a typing mistake for, or NULL. */
static const char *meant_field(struct bytes name, uint64_t allowed)
{
    struct typo typo;
    typo_begin(&typo, name.at, name.len);
    for (unsigned field = V1_ID; field < V1_FIELD_COUNT; field++) {
        if (allowed & V1_BIT(field))
            typo_add(&typo, v1_known[field].name.at);
    }
    return typo.meant;
}

/* Names the field that was probably meant, or those that there are, as many as the sentence has
   room for. */
static bool refuse_unknown(const struct v1_input *input, struct bytes name, uint64_t allowed)
{
    static const char more[] = " …";
    struct problem *problem = input->problem;
    const char *before = " ";
    const char *meant = meant_field(name, allowed);
    (void)api_refuse_name(problem, name, "unknown_field",
                          !allowed ? "this call has no fields"
                          : meant  ? "there is no field of that name here"
                                   : "there is no field of that name here, but");
    if (meant) {
        api_problem_addf(problem, "; did you mean %s?", meant);
        return false;
    }
    for (unsigned field = V1_ID; field < V1_FIELD_COUNT; field++) {
        if (!(allowed & V1_BIT(field)))
            continue;
        const char *text = v1_known[field].name.at;
        size_t len = strlen(problem->detail) + strlen(before) + strlen(text) + sizeof(more);
        bool fits = len < sizeof(problem->detail);
        api_problem_addf(problem, "%s%s", fits ? before : more, fits ? text : "");
        if (!fits)
            return false;
        before = ", ";
    }
    return false;
}

/* The one of the allowed fields that has this name; V1_FIELD_COUNT: none has. */
static enum v1_field find_field(struct bytes name, uint64_t allowed)
{
    for (uint64_t left = allowed; left; left &= left - 1) { /* without its lowest bit */
        enum v1_field field = (enum v1_field)__builtin_ctzll(left);
        if (bytes_eq(name, v1_known[field].name))
            return field;
    }
    return V1_FIELD_COUNT;
}

static bool read_field(const struct v1_input *input, struct bytes name,
                       const struct json_value *value, uint64_t allowed, struct v1_fields *fields)
{
    enum v1_field field = find_field(name, allowed);
    if (field == V1_FIELD_COUNT)
        return refuse_unknown(input, name, allowed);
    if (v1_given(fields, field))
        return api_refuse_name(input->problem, name, "duplicate_field",
                               "this field was given twice");
    struct v1_reader reader = {
        .input = input, .fields = fields, .value = value, .name = v1_known[field].name.at};
    if (!v1_known[field].read(&reader))
        return false;
    fields->given |= V1_BIT(field);
    return true;
}

bool v1_refuse_json(const struct v1_input *input, const struct json *json, const char *begin)
{
    (void)api_refuse(input->problem, 400, "bad_json", "", json->wrong);
    input->problem->config_key = json->too_deep ? "limits.json_depth" : NULL;
    if (json->too_deep)
        api_problem_addf(input->problem, ", which is %u", input->limits->json_depth);
    else if (json->wrong_at)
        api_problem_addf(input->problem, ", at byte %zu", (size_t)(json->wrong_at - begin) + 1);
    return false;
}

/* Reads the object that comes next in `json`; fields outside `allowed` are refused. `fields` is
   zeroed. */
static bool read_object(const struct v1_input *input, struct json *json, uint64_t allowed,
                        struct v1_fields *fields)
{
    struct json_value name, value;
    const char *begin = json->at;
    if (!json_open(json, JSON_KIND_OBJECT))
        return v1_refuse_json(input, json, begin);
    while (json_member(json, &name, &value)) {
        if (!read_field(input, json_text(&name, input->scratch), &value, allowed, fields))
            return false;
    }
    return !json->wrong || v1_refuse_json(input, json, begin);
}

bool v1_read_body(const struct v1_input *input, struct bytes body, uint64_t allowed,
                  struct v1_fields *out_fields)
{
    struct json json;
    *out_fields = (struct v1_fields){0};
    if (body.len == 0)
        return true;
    json_init(&json, body, input->limits->json_depth);
    if (!read_object(input, &json, allowed, out_fields))
        return false;
    return json_end(&json) || v1_refuse_json(input, &json, body.at);
}
