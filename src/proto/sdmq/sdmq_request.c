/*
 * Decoding. The original reads with Jackson: unknown members are skipped, null leaves a member
 * unset, a number may stand in a string and a text be a number; of two members of one name the last
 * one counts. Names match with their case.
 */
#include "base/rfc3339.h"
#include "proto/sdmq/job_id.h"
#include "proto/sdmq/sdmq.h"
#include "proto/settings/job_properties.h"

#define SECOND_US INT64_C(1000000)

enum { MILLISECOND_US = 1000, STATUS_WAIT_PUT = 0, STATUS_RESTORE = 5 };

/* The members of a push; the defaults are zeros as in the original, except createTime, which is
   now. */
struct fields {
    struct bytes id, topic, subtopic, biz_key, body, extend_data;
    int64_t delay_ms, ttl_s, create_ms, priority, status;
};

static void refuse(struct call *call, const char *message)
{
    api_refuse_call(call, 200, "refused", message);
}

static bool refuse_field(struct call *call, const char *name, const char *rule)
{
    refuse(call, name);
    api_problem_addf(&call->problem, ": %s", rule);
    return false;
}

/* ---- the members of a push ---- */

static bool read_text(const struct json_value *value, struct arena *scratch, struct bytes *field)
{
    switch (value->kind) {
    case JSON_KIND_NULL: *field = bytes_of(NULL, 0); return true;
    case JSON_KIND_STRING: *field = json_text(value, scratch); return true;
    case JSON_KIND_BOOL:
    case JSON_KIND_NUMBER: *field = value->text; return true;
    case JSON_KIND_ARRAY:
    case JSON_KIND_OBJECT: break;
    }
    return false;
}

/*
 * A number with a fraction or an exponent, which loses its fraction: "1.8e6", or "1800000.0" as
 * PHP and Python write it. False: it does not fit.
 */
static bool read_truncated(struct bytes text, int64_t *field)
{
    enum { EXPONENT_MAX = 400 };
    bool negative = text.at[0] == '-', in_fraction = false;
    int exponent = 0, sign = 1, whole = 0; /* whole: digits in front of the point */
    size_t i = negative, mantissa = i;
    while (i < text.len && (text.at[i] | 0x20) != 'e') {
        in_fraction |= text.at[i] == '.';
        whole += !in_fraction;
        i++;
    }
    size_t end = i++;
    if (i < text.len && (text.at[i] == '-' || text.at[i] == '+'))
        sign = text.at[i++] == '-' ? -1 : 1;
    for (; i < text.len; i++)
        exponent = exponent < EXPONENT_MAX ? exponent * 10 + text.at[i] - '0' : EXPONENT_MAX;
    int64_t number = 0;
    int places = whole + sign * exponent; /* digits in front of the point, once it has moved */
    for (int place = 0; place < places; place++) {
        if (mantissa < end && text.at[mantissa] == '.')
            mantissa++;
        int digit = mantissa < end ? text.at[mantissa++] - '0' : 0;
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_sub_overflow(number, digit, &number))
            return false;
    }
    if (!negative && number == INT64_MIN)
        return false;
    *field = negative ? number : -number;
    return true;
}

static bool read_number(const struct json_value *value, struct arena *scratch, int64_t *field)
{
    struct json_value number = *value;
    if (value->kind == JSON_KIND_NULL)
        return true;
    if (value->kind == JSON_KIND_STRING) {
        number.kind = JSON_KIND_NUMBER;
        number.text = json_text(value, scratch);
        return number.text.len == 0 || json_int(&number, field); /* "" is as null */
    }
    return json_int(&number, field) ||
           (value->kind == JSON_KIND_NUMBER && read_truncated(value->text, field));
}

static const struct {
    const char *name;
    size_t at; /* in struct fields */
    bool is_text;
} members[] = {
    {"id", offsetof(struct fields, id), true},
    {"topic", offsetof(struct fields, topic), true},
    {"subtopic", offsetof(struct fields, subtopic), true},
    {"bizKey", offsetof(struct fields, biz_key), true},
    {"body", offsetof(struct fields, body), true},
    {"extendData", offsetof(struct fields, extend_data), true},
    {"delay", offsetof(struct fields, delay_ms), false},
    {"ttl", offsetof(struct fields, ttl_s), false},
    {"createTime", offsetof(struct fields, create_ms), false},
    {"priority", offsetof(struct fields, priority), false},
    {"status", offsetof(struct fields, status), false},
};

static bool read_member(struct bytes name, const struct json_value *value, struct arena *scratch,
                        struct call *call, struct fields *fields)
{
    size_t i = 0, count = sizeof(members) / sizeof(members[0]);
    while (i < count && !bytes_eq(name, bytes_str(members[i].name)))
        i++;
    if (i == count)
        return true;
    char *field = (char *)fields + members[i].at;
    bool good = members[i].is_text ? read_text(value, scratch, (struct bytes *)(void *)field)
                                   : read_number(value, scratch, (int64_t *)(void *)field);
    return good || refuse_field(call, members[i].name,
                                members[i].is_text ? "this must be a string"
                                                   : "this must be a whole number");
}

static bool read_fields(const struct api_input *input, struct call *call, struct fields *fields)
{
    struct json json;
    struct json_value name, value;
    json_init(&json, input->request->body, input->limits->json_depth);
    if (json_open(&json, JSON_KIND_OBJECT)) {
        while (json_member(&json, &name, &value)) {
            if (!read_member(json_text(&name, input->scratch), &value, input->scratch, call,
                             fields))
                return false;
        }
        if (json_end(&json))
            return true;
    }
    refuse(call, "the request must have a job as a JSON object: ");
    api_problem_add(&call->problem, json.wrong);
    return false;
}

/* ---- a push ---- */

static bool is_line(struct bytes text, size_t bytes_max)
{
    return text.len <= bytes_max && bytes_is_printable(text);
}

static bool check_texts(const struct api_input *input, const struct fields *fields,
                        struct call *call)
{
    const char *flaw;
    if (fields->topic.len == 0) {
        refuse(call, "参数topic错误");
        return false;
    }
    if ((flaw = api_topic_flaw(fields->topic)) != NULL)
        return refuse_field(call, "参数topic错误: the topic", flaw);
    if (fields->id.len && (flaw = api_id_flaw(fields->id)) != NULL)
        return refuse_field(call, "id", flaw);
    if (!is_line(fields->biz_key, JOB_BIZ_KEY_MAX))
        return refuse_field(call, "bizKey", "up to 128 bytes without control characters");
    if (!is_line(fields->subtopic, JOB_SUBTOPIC_MAX))
        return refuse_field(call, "subtopic", "up to 250 bytes without control characters");
    if (fields->extend_data.len > JOB_EXTEND_DATA_MAX ||
        (fields->extend_data.len && memchr(fields->extend_data.at, '\0', fields->extend_data.len)))
        return refuse_field(call, "extendData", "up to 2000 bytes without NUL");
    if (fields->body.len <= input->limits->body_bytes)
        return true;
    call->kind = CALL_PROBLEM;
    api_problem_body(&call->problem, 200, "body", fields->body.len, input->limits);
    return false;
}

static bool check_numbers(const struct api_input *input, const struct fields *fields,
                          struct call *call)
{
    int64_t due_ms;
    if (fields->status != STATUS_WAIT_PUT && fields->status != STATUS_RESTORE) {
        refuse(call, "任务");
        if (fields->id.len)
            api_problem_addf(&call->problem, "%.*s", (int)fields->id.len, fields->id.at);
        api_problem_add(&call->problem, "状态异常");
        return false;
    }
    if (fields->create_ms < 0 || fields->create_ms > RFC3339_MAX_US / MILLISECOND_US)
        return refuse_field(call, "createTime", "milliseconds since 1970, up to the year 9999");
    if (__builtin_add_overflow(fields->create_ms, fields->delay_ms, &due_ms) ||
        due_ms > RFC3339_MAX_US / MILLISECOND_US - 1)
        return refuse_field(call, "delay", "createTime + delay is past the year 9999");
    if (fields->priority < 0 || fields->priority > UINT32_MAX)
        return refuse_field(call, "priority", "0 to 4294967295; lower goes first");
    if (fields->ttl_s < 0 || fields->ttl_s > input->limits->ttr_max_us / SECOND_US) {
        (void)refuse_field(call, "ttl", "seconds, up to limits.ttr_seconds");
        api_problem_addf(&call->problem, ", which is %lld",
                         (long long)(input->limits->ttr_max_us / SECOND_US));
        return false;
    }
    return true;
}

/* The original's other members of a job, besides id, topic, times and body. */
static bool pack_properties(const struct api_input *input, const struct fields *fields,
                            struct call *call, struct bytes *out_properties)
{
    struct job_properties properties = {
        .biz_key = fields->biz_key,
        .subtopic = fields->subtopic,
        .extend_data = fields->extend_data,
        .create_ms = fields->create_ms,
        .rank = (uint32_t)fields->priority,
    };
    struct settings_problem problem;
    struct buf text = {0};
    enum err err = job_properties_write(&properties, &text, &problem);
    if (!err)
        *out_properties = arena_copy(input->scratch, buf_bytes(&text));
    buf_fini(&text);
    if (err)
        refuse(call, problem.detail);
    return !err;
}

/* What an id begins with that the server makes: "topic:" or "topic:bizKey:". */
static bool begin_id(const struct api_input *input, const struct fields *fields, struct call *call)
{
    struct buf text = {0};
    buf_add_bytes(&text, fields->topic);
    buf_add_char(&text, ':');
    if (fields->biz_key.len) {
        buf_add_bytes(&text, fields->biz_key);
        buf_add_char(&text, ':');
    }
    bool fits = text.len + SDMQ_HOST_MAX + 1 + SNOWFLAKE_ROOM <= JOB_ID_MAX;
    if (fits)
        call->id_begin = arena_copy(input->scratch, buf_bytes(&text));
    else
        refuse(call, "topic and bizKey are too long for an id that is made of them: give an id");
    buf_fini(&text);
    return fits;
}

static void decode_push(const struct api_input *input, struct call *call)
{
    struct fields fields = {.create_ms = input->now_us / MILLISECOND_US};
    struct bytes properties = {0};
    bool read = read_fields(input, call, &fields);
    if (fields.create_ms == 0) /* from clients whose language has no null */
        fields.create_ms = input->now_us / MILLISECOND_US;
    if (!read || !check_texts(input, &fields, call) || !check_numbers(input, &fields, call) ||
        !pack_properties(input, &fields, call, &properties) ||
        (fields.id.len == 0 && !begin_id(input, &fields, call)))
        return;
    int64_t due_ms = fields.create_ms + fields.delay_ms;
    call->cmd = (struct cmd){
        .kind = CMD_PUSH,
        .push = {.id = fields.id,
                 .topic = fields.topic,
                 .due_us = job_due_with_rank(due_ms < 0 ? 0 : due_ms, (uint32_t)fields.priority),
                 .ttr_us = fields.ttl_s ? fields.ttl_s * SECOND_US : input->limits->ttr_us,
                 .ttr_is_default = fields.ttl_s == 0,
                 /* An id that is made here is new: if it should not be, nothing is lost. */
                 .if_exists = fields.id.len ? IF_EXISTS_REPLACE : IF_EXISTS_REJECT,
                 .body = fields.body,
                 .properties = properties},
    };
}

/* ---- the others ---- */

/* A parameter of the query; false: it is not there, or badly encoded. */
static bool parameter(const struct api_input *input, const char *wanted, struct bytes *out_value)
{
    struct bytes query = input->request->query, name, value;
    while (http_query_next(&query, &name, &value)) {
        if (bytes_eq(name, bytes_str(wanted)))
            return api_unescape_query(value, input->scratch, out_value);
    }
    return false;
}

/* Reads the id. False: refused. */
static bool read_id(const struct api_input *input, struct call *call, struct bytes *out_id)
{
    static const char *const names[] = {"jobId", "id", "JobId"};
    struct bytes text = {0};
    struct job_ref ref;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && text.len == 0; i++)
        (void)parameter(input, names[i], &text);
    if (text.len && job_ref_parse(text, &ref)) {
        *out_id = text;
        return true;
    }
    refuse(call, text.len ? "jobId: up to 255 bytes" : "JobId 不能为空");
    return false;
}

/* Ends a job in any state; it is no error if it does not exist. */
static void decode_end(const struct api_input *input, bool is_done, struct call *call)
{
    struct bytes id;
    call->cmd = (struct cmd){.kind = CMD_DELETE, .job.is_done = is_done};
    if (read_id(input, call, &id))
        (void)job_ref_parse(id, &call->cmd.job.ref); /* read_id() has */
}

static void decode_delete(const struct api_input *input, struct call *call)
{
    decode_end(input, false, call);
    if (call->kind == CALL_CMD)
        call->kind = CALL_DELETE;
}

static void decode_finish(const struct api_input *input, struct call *call)
{
    decode_end(input, true, call);
}

static void decode_get(const struct api_input *input, struct bytes raw, struct call *call)
{
    struct bytes *topic = arena_alloc(input->scratch, sizeof(*topic)), wait;
    int64_t wait_us = input->limits->block_us;
    if (!api_unescape_path(raw, input->scratch, topic) || api_topic_flaw(*topic)) {
        refuse(call, "参数topic错误");
        return;
    }
    if (parameter(input, "wait", &wait) && !api_read_wait(input->limits, wait, &wait_us)) {
        refuse(call, "wait: a duration such as 30s, or milliseconds, up to limits.wait_seconds");
        return;
    }
    call->cmd = (struct cmd){
        .kind = CMD_RESERVE,
        .reserve = {.topics = topic, .topic_count = 1, .max = 1, .wait_us = wait_us},
    };
}

static void decode_restore_job(const struct api_input *input, struct call *call)
{
    struct bytes id;
    if (!read_id(input, call, &id))
        return;
    call->kind = CALL_RESTORE;
    call->restore = (struct api_restore){.id = id};
}

static void decode_restore_path(const struct api_input *input, struct bytes raw, struct call *call)
{
    struct job_ref ref;
    struct bytes id;
    if (!api_unescape_path(raw, input->scratch, &id) || !job_ref_parse(id, &ref)) {
        refuse(call, "jobId: up to 255 bytes");
        return;
    }
    call->kind = CALL_RESTORE;
    call->restore = (struct api_restore){.id = id};
}

/* As Spring reads a Boolean. */
static bool read_bool(struct bytes text, bool *out_is)
{
    static const char *const yes[] = {"true", "on", "yes", "1"};
    static const char *const no[] = {"false", "off", "no", "0"};
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        if (bytes_eq_nocase(text, bytes_str(yes[i])) || bytes_eq_nocase(text, bytes_str(no[i]))) {
            *out_is = bytes_eq_nocase(text, bytes_str(yes[i]));
            return true;
        }
    }
    return false;
}

static void decode_restore(const struct api_input *input, struct call *call)
{
    struct bytes text;
    bool expire = true;
    if (parameter(input, "expire", &text) && text.len && !read_bool(text, &expire)) {
        refuse(call, "expire: true or false");
        return;
    }
    call->kind = CALL_RESTORE;
    call->restore = (struct api_restore){.skip_overdue = !expire};
}

static void decode_clear_all(const struct api_input *input, struct call *call)
{
    (void)input;
    call->kind = CALL_CLEAR_ALL;
}

/* ---- which call ---- */

static const struct {
    struct bytes path;
    bool is_post;
    void (*decode)(const struct api_input *input, struct call *call);
} calls[] = {
    {{"/push", 5}, true, decode_push},        {{"/delete", 7}, false, decode_delete},
    {{"/finish", 7}, false, decode_finish},   {{"/reStoreJob", 11}, false, decode_restore_job},
    {{"/reStore", 8}, false, decode_restore}, {{"/clearAll", 9}, false, decode_clear_all},
};

static bool check_method(const struct api_input *input, bool is_post, struct call *call)
{
    enum http_method wanted = is_post ? HTTP_M_POST : HTTP_M_GET;
    if (input->request->method == wanted)
        return true;
    api_refuse_call(call, 405, "method_not_allowed",
                    is_post ? "this call is a POST" : "this call is a GET");
    call->problem.allow = is_post ? "POST" : "GET";
    return false;
}

/* A path that begins with `start`, with something behind it. */
static bool is_below(struct bytes path, struct bytes start, struct bytes *out_rest)
{
    if (!bytes_starts(path, start) || path.len == start.len)
        return false;
    *out_rest = bytes_of(path.at + start.len, path.len - start.len);
    return true;
}

void sdmq_decode(const struct api_input *input, struct call *call)
{
    struct bytes path = input->request->path, rest;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (!bytes_eq(path, calls[i].path))
            continue;
        if (check_method(input, calls[i].is_post, call))
            calls[i].decode(input, call);
        return;
    }
    if (is_below(path, BYTES("/get/"), &rest)) {
        if (check_method(input, false, call))
            decode_get(input, rest, call);
    } else if (is_below(path, BYTES("/reStore/"), &rest)) {
        if (check_method(input, false, call))
            decode_restore_path(input, rest, call);
    } else {
        api_refuse_call(call, 404, "not_found", "there is nothing at this path");
    }
}
