/*
 * The `delay-queue` dialect: five calls, JSON in, {"code","message","data"} out, always 200 (except
 * 403 for an unknown host, see api.c). Texts, their order and the escapes are those of the
 * original Go server, which clients compare with. Decoding follows Go's rules where they differ
 * from ours: names match without case, unknown ones are skipped, the last of two wins, null leaves
 * a field unset, an escape that is half of a surrogate pair is U+FFFD.
 */
#include "base/rfc3339.h"
#include "proto/api/api_parts.h"
#include "proto/api/topic_list.h"

#define SECOND_US INT64_C(1000000)

/* The fields of the original's structs; one struct for all calls. */
struct fields {
    struct bytes id, topic, body;
    int64_t delay_s, ttr_s;
};

static const char parse_failed[] = "解析json失败";

static void refuse(struct call *call, const char *message)
{
    api_refuse_call(call, 200, "refused", message);
}

static void refuse_body(const struct api_input *input, struct bytes body, struct call *call)
{
    call->kind = CALL_PROBLEM;
    api_problem_body(&call->problem, 200, "body", body.len, input->limits);
}

static void refuse_ttr(const struct api_input *input, struct call *call)
{
    char room[DURATION_ROOM];
    refuse(call, "ttr: over limits.ttr_seconds");
    api_problem_addf(&call->problem, ", which is %s",
                     duration_print(input->limits->ttr_max_us, room));
}

/* ---- decoding ---- */

static bool read_text(const struct json_value *value, struct arena *scratch, struct bytes *field)
{
    if (value->kind == JSON_KIND_STRING)
        *field = json_text(value, scratch);
    return value->kind == JSON_KIND_STRING || value->kind == JSON_KIND_NULL;
}

static bool read_int(const struct json_value *value, int64_t *field)
{
    return value->kind == JSON_KIND_NULL || json_int(value, field);
}

static bool read_member(struct bytes name, const struct json_value *value, struct arena *scratch,
                        struct fields *fields)
{
    switch (name.len) {
    case 2:
        if (bytes_eq_nocase(name, BYTES("id")))
            return read_text(value, scratch, &fields->id);
        break;
    case 3:
        if (bytes_eq_nocase(name, BYTES("ttr")))
            return read_int(value, &fields->ttr_s);
        break;
    case 4:
        if (bytes_eq_nocase(name, BYTES("body")))
            return read_text(value, scratch, &fields->body);
        break;
    case 5:
        if (bytes_eq_nocase(name, BYTES("topic")))
            return read_text(value, scratch, &fields->topic);
        if (bytes_eq_nocase(name, BYTES("delay")))
            return read_int(value, &fields->delay_s);
        break;
    default: break;
    }
    return true;
}

static bool read_fields(const struct api_input *input, struct fields *fields)
{
    struct json json, whole;
    struct json_value name, value;
    json_init(&json, input->request->body, input->limits->json_depth);
    json.takes_halves = true;
    whole = json;
    if (json_value(&whole, &value) && value.kind == JSON_KIND_NULL)
        return json_end(&whole); /* Go decodes null into nothing */
    if (!json_open(&json, JSON_KIND_OBJECT))
        return false;
    while (json_member(&json, &name, &value)) {
        if (!read_member(json_text(&name, input->scratch), &value, input->scratch, fields))
            return false;
    }
    return json_end(&json);
}

/* Length of the white space (Unicode's, as Go's strings.TrimSpace) a text begins with. */
static size_t space_at(struct bytes text)
{
    static const struct bytes wide[] = {
        {"\xc2\x85", 2},     {"\xc2\xa0", 2},     {"\xe1\x9a\x80", 3}, {"\xe2\x80\xa8", 3},
        {"\xe2\x80\xa9", 3}, {"\xe2\x80\xaf", 3}, {"\xe2\x81\x9f", 3}, {"\xe3\x80\x80", 3},
    };
    if (text.len == 0)
        return 0;
    unsigned char c = (unsigned char)text.at[0];
    if (c < 0x80)
        return c == ' ' || (c >= '\t' && c <= '\r');
    for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++) {
        if (bytes_starts(text, wide[i]))
            return wide[i].len;
    }
    /* U+2000 … U+200A */
    return text.len >= 3 && memcmp(text.at, "\xe2\x80", 2) == 0 &&
                   (unsigned char)text.at[2] >= 0x80 && (unsigned char)text.at[2] <= 0x8a
               ? 3
               : 0;
}

static struct bytes trim(struct bytes text)
{
    size_t step;
    while ((step = space_at(text)) > 0)
        text = bytes_of(text.at + step, text.len - step);
    for (;;) {
        size_t len = 0; /* of the white space the text ends with */
        for (size_t wide = 1; wide <= 3 && wide <= text.len && len == 0; wide++) {
            if (space_at(bytes_of(text.at + text.len - wide, wide)) == wide)
                len = wide;
        }
        if (len == 0)
            return text;
        text.len -= len;
    }
}

static void decode_push(const struct api_input *input, struct fields *fields, struct call *call)
{
    struct bytes id = trim(fields->id), topic = trim(fields->topic), body = trim(fields->body);
    if (id.len == 0)
        refuse(call, "job id不能为空");
    else if (topic.len == 0)
        refuse(call, "topic 不能为空");
    else if (fields->delay_s <= 0 || fields->delay_s > INT64_C(1) << 31)
        refuse(call, "delay 取值范围1 - (2^31 - 1)");
    else if (fields->ttr_s <= 0 || fields->ttr_s > 86400)
        refuse(call, "ttr 取值范围1 - 86400");
    else if (api_id_flaw(id))
        refuse(call, "job id: up to 255 bytes of UTF-8, no control characters, not @number");
    else if (api_topic_flaw(topic))
        refuse(call, "topic: up to 200 bytes of UTF-8, no control characters");
    else if (fields->ttr_s * SECOND_US > input->limits->ttr_max_us)
        refuse_ttr(input, call);
    else if (body.len > input->limits->body_bytes)
        refuse_body(input, body, call);
    else
        call->cmd = (struct cmd){
            .kind = CMD_PUSH,
            .push =
                {
                    .id = id,
                    .topic = topic,
                    .due_us = input->now_us + fields->delay_s * SECOND_US,
                    .ttr_us = fields->ttr_s * SECOND_US,
                    .if_exists = IF_EXISTS_REPLACE,
                    .body = body,
                },
        };
}

static void decode_pop(const struct api_input *input, struct fields *fields, struct call *call)
{
    struct bytes rest = trim(fields->topic);
    struct topic_list topics;
    topic_list_init(&topics, input->scratch, input->limits->reserve_topics);
    while (rest.len) {
        const char *comma = memchr(rest.at, ',', rest.len);
        struct bytes part = bytes_of(rest.at, comma ? (size_t)(comma - rest.at) : rest.len);
        size_t step = part.len + (comma != NULL);
        rest = bytes_of(rest.at + step, rest.len - step);
        if (part.len == 0)
            continue;
        if (api_topic_flaw(part)) {
            refuse(call, "topic: up to 200 bytes of UTF-8, no control characters");
            return;
        }
        if (!topic_list_add(&topics, part)) {
            refuse(call, "topic: more topics than limits.reserve_topics");
            api_problem_addf(&call->problem, ", which is %u", input->limits->reserve_topics);
            return;
        }
    }
    if (topics.count == 0) {
        refuse(call, "topic不能为空");
        return;
    }
    call->cmd = (struct cmd){
        .kind = CMD_RESERVE,
        .reserve = {.topics = topics.at,
                    .topic_count = topics.count,
                    .max = 1,
                    .wait_us = input->limits->block_us,
                    .listed_order = true},
    };
}

static void decode_job(const struct api_input *input, enum cmd_kind kind, struct fields *fields,
                       struct call *call)
{
    struct bytes id = trim(fields->id);
    call->cmd = (struct cmd){.kind = kind};
    call->cmd.job.is_done = bytes_eq(input->request->path, BYTES("/finish"));
    if (id.len == 0)
        refuse(call, "job id不能为空");
    else if (!job_ref_parse(id, &call->cmd.job.ref))
        refuse(call, "job id: up to 255 bytes");
}

void delay_queue_decode(const struct api_input *input, struct call *call)
{
    static const struct {
        struct bytes path;
        enum cmd_kind kind;
    } calls[] = {
        {{"/push", 5}, CMD_PUSH},     {{"/pop", 4}, CMD_RESERVE},
        {{"/finish", 7}, CMD_DELETE}, /* one handler with /delete in the original */
        {{"/delete", 7}, CMD_DELETE}, {{"/get", 4}, CMD_GET},
    };
    struct fields fields = {0};
    size_t i = 0, count = sizeof(calls) / sizeof(calls[0]);
    while (i < count && !bytes_eq(input->request->path, calls[i].path))
        i++;
    if (i == count)
        api_refuse_call(call, 404, "not_found", "404 page not found");
    else if (!read_fields(input, &fields))
        refuse(call, parse_failed);
    else if (calls[i].kind == CMD_PUSH)
        decode_push(input, &fields, call);
    else if (calls[i].kind == CMD_RESERVE)
        decode_pop(input, &fields, call);
    else
        decode_job(input, calls[i].kind, &fields, call);
}

/* ---- replying ---- */

enum { JOB_BYTES = 512 }; /* room for a job, without its body; most take less */

static const char text_plain[] = "text/plain; charset=utf-8";

static void add_job(struct buf *out, const struct job_view *job, bool whole)
{
    if (whole) {
        buf_add_str(out, "{\"topic\":");
        json_add_text(out, job->topic, JSON_STYLE_HTML);
        buf_add_str(out, ",\"id\":");
    } else {
        buf_add_str(out, "{\"id\":");
    }
    api_add_id(out, &job->ref, JSON_STYLE_HTML);
    if (whole) {
        buf_add_str(out, ",\"delay\":");
        buf_add_i64(out, job->due_us / SECOND_US); /* absolute, as the original keeps it */
        buf_add_str(out, ",\"ttr\":");
        buf_add_i64(out, job->ttr_us / SECOND_US);
    }
    buf_add_str(out, ",\"body\":");
    json_add_text(out, job->body, JSON_STYLE_HTML);
    buf_add_char(out, '}');
}

static void send_failure(const struct api_output *output, int status, const char *message)
{
    struct buf body = {0};
    buf_add_str(&body, "{\"code\":1,\"message\":");
    json_add_text(&body, bytes_str(message), JSON_STYLE_HTML);
    buf_add_str(&body, ",\"data\":null}");
    api_send(output, status, text_plain, buf_bytes(&body));
    buf_fini(&body);
}

void delay_queue_reply(const struct api_output *output, const struct reply *reply)
{
    enum cmd_kind kind = (enum cmd_kind)output->format->cmd;
    struct problem problem;
    if (api_is_failure(output, reply, &problem)) {
        send_failure(output, 200, problem.detail);
    } else if (kind == CMD_PUSH) {
        api_send(output, 200, text_plain,
                 BYTES("{\"code\":0,\"message\":\"添加成功\",\"data\":null}"));
    } else if (reply->err != OK || reply->count == 0 || kind == CMD_DELETE) {
        api_send(output, 200, text_plain,
                 BYTES("{\"code\":0,\"message\":\"操作成功\",\"data\":null}"));
    } else {
        struct buf body = {0};
        buf_reserve(&body, JOB_BYTES + reply->jobs[0].body.len);
        buf_add_str(&body, "{\"code\":0,\"message\":\"操作成功\",\"data\":");
        add_job(&body, &reply->jobs[0], kind == CMD_GET);
        buf_add_char(&body, '}');
        api_send(output, 200, text_plain, buf_bytes(&body));
        buf_fini(&body);
    }
}

void delay_queue_problem(const struct api_output *output, const struct problem *problem)
{
    if (problem->status == 404)
        api_send(output, 404, text_plain, BYTES("404 page not found\n"));
    else
        send_failure(output, problem->status, problem->detail);
}
