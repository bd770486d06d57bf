/*
 * The `delayqueue-java` dialect: three calls with form or query parameters, JSON out. Its ids are
 * numbers, which clients may parse as such, so a server-made id is shown as its bare number here;
 * a client's id that looks like a number (pushed through another dialect) gets a '=' before it, so
 * that no two jobs are ever shown by one name.
 */
#include "base/rfc3339.h"
#include "proto/api/api_parts.h"

#define SECOND_US INT64_C(1000000)

enum { MILLISECOND_US = 1000 };

/* How a pop is answered: data is a job or null; an array. */
enum pop_variant { POP_ONE, POP_MANY };

static const char json_type[] = "application/json;charset=UTF-8";

static void refuse(struct call *call, const char *exception)
{
    api_refuse_call(call, 200, "refused", exception);
}

static void refuse_body(const struct api_input *input, struct bytes body, struct call *call)
{
    call->kind = CALL_PROBLEM;
    api_problem_body(&call->problem, 200, "message", body.len, input->limits);
}

static void refuse_ttr(const struct api_input *input, struct call *call)
{
    char room[DURATION_ROOM];
    refuse(call, "ttrTime: over limits.ttr_seconds");
    api_problem_addf(&call->problem, ", which is %s",
                     duration_print(input->limits->ttr_max_us, room));
}

/* ---- decoding ---- */

enum parameter {
    PARAMETER_TOPIC,
    PARAMETER_DELAY_TIME,
    PARAMETER_TTR_TIME,
    PARAMETER_MESSAGE,
    PARAMETER_WAIT,
    PARAMETER_MAX,
    PARAMETER_ID,
    PARAMETERS
};

/* A request's parameters, the first of each name. */
struct parameters {
    const struct api_input *input;
    bool there[PARAMETERS];
    struct bytes raw[PARAMETERS]; /* not decoded */
};

static void note_parameter(struct parameters *parameters, struct bytes name, struct bytes value)
{
    static const struct bytes names[PARAMETERS] = {
        [PARAMETER_TOPIC] = {"topic", 5},
        [PARAMETER_DELAY_TIME] = {"delayTime", 9},
        [PARAMETER_TTR_TIME] = {"ttrTime", 7},
        [PARAMETER_MESSAGE] = {"message", 7},
        [PARAMETER_WAIT] = {"wait", 4},
        [PARAMETER_MAX] = {"max", 3},
        [PARAMETER_ID] = {"id", 2},
    };
    for (int i = 0; i < PARAMETERS; i++) {
        if (parameters->there[i] || !bytes_eq(name, names[i]))
            continue;
        parameters->there[i] = true;
        parameters->raw[i] = value;
        return;
    }
}

/* From the query, then from the form, in one pass: a form of 128 KiB may have 64,000. */
static void read_parameters(const struct api_input *input, struct parameters *out_parameters)
{
    struct bytes places[] = {input->request->query, input->request->body}, name, value;
    *out_parameters = (struct parameters){.input = input};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        while (http_query_next(&places[i], &name, &value))
            note_parameter(out_parameters, name, value);
    }
}

/* Decoded; false: not there, or badly encoded. */
static bool parameter(const struct parameters *parameters, enum parameter wanted,
                      struct bytes *out_value)
{
    return parameters->there[wanted] &&
           api_unescape_query(parameters->raw[wanted], parameters->input->scratch, out_value);
}

static bool read_due(const struct parameters *parameters, int64_t *out_us)
{
    struct bytes text;
    uint64_t ms;
    if (!parameter(parameters, PARAMETER_DELAY_TIME, &text))
        return false;
    if (bytes_to_u64(text, &ms) && ms <= (uint64_t)(RFC3339_MAX_US / MILLISECOND_US))
        *out_us = (int64_t)ms * MILLISECOND_US;
    else if (!rfc3339_read_local(text, parameters->input->limits->east_us, out_us))
        return false;
    *out_us = *out_us > 0 ? *out_us : parameters->input->now_us; /* as in /v1 */
    return true;
}

static void decode_push(const struct parameters *parameters, struct call *call)
{
    const struct api_input *input = parameters->input;
    struct bytes topic, message, ttr;
    int64_t due_us;
    uint64_t ttr_s;
    if (!parameter(parameters, PARAMETER_TOPIC, &topic) || api_topic_flaw(topic))
        refuse(call, "topic: 1 to 200 bytes of UTF-8, no control characters");
    else if (!read_due(parameters, &due_us))
        refuse(call, "delayTime: epoch milliseconds, or yyyy-MM-dd HH:mm:ss");
    else if (!parameter(parameters, PARAMETER_TTR_TIME, &ttr) || !bytes_to_u64(ttr, &ttr_s) ||
             ttr_s < 1)
        refuse(call, "ttrTime: seconds, 1 at least");
    else if (ttr_s > (uint64_t)(input->limits->ttr_max_us / SECOND_US))
        refuse_ttr(input, call);
    else if (!parameter(parameters, PARAMETER_MESSAGE, &message))
        refuse(call, "message: missing or badly encoded");
    else if (message.len > input->limits->body_bytes)
        refuse_body(input, message, call);
    else
        call->cmd = (struct cmd){
            .kind = CMD_PUSH,
            .push = {.topic = topic,
                     .due_us = due_us,
                     .ttr_us = (int64_t)ttr_s * SECOND_US,
                     .body = message},
        };
}

/* Reads the number of jobs, if the client gives one. False: refused. */
static bool read_max(const struct parameters *parameters, struct call *call, uint32_t *out_max)
{
    uint32_t most = parameters->input->limits->batch_jobs;
    struct bytes text;
    uint64_t max;
    *out_max = 1;
    call->format.variant = POP_ONE;
    if (!parameter(parameters, PARAMETER_MAX, &text))
        return true;
    if (!bytes_to_u64(text, &max) || max < 1 || max > most) {
        refuse(call, "max: 1 to limits.batch_jobs");
        api_problem_addf(&call->problem, ", which is %u", most);
        return false;
    }
    *out_max = (uint32_t)max;
    call->format.variant = POP_MANY;
    return true;
}

static void decode_pop(const struct parameters *parameters, struct bytes raw, struct call *call)
{
    const struct api_input *input = parameters->input;
    struct bytes *topic = arena_alloc(input->scratch, sizeof(*topic)), wait;
    int64_t wait_us = 0; /* as in the original */
    uint32_t max;
    if (!api_unescape_path(raw, input->scratch, topic) || api_topic_flaw(*topic)) {
        refuse(call, "topic: 1 to 200 bytes of UTF-8, no control characters");
        return;
    }
    if (parameter(parameters, PARAMETER_WAIT, &wait) &&
        !api_read_wait(input->limits, wait, &wait_us)) {
        refuse(call, "wait: a duration such as 30s, or milliseconds, up to limits.wait_seconds");
        return;
    }
    if (!read_max(parameters, call, &max))
        return;
    call->cmd = (struct cmd){
        .kind = CMD_RESERVE,
        .reserve = {.topics = topic, .topic_count = 1, .max = max, .wait_us = wait_us},
    };
}

static bool is_number(struct bytes text)
{
    uint64_t number;
    return bytes_to_u64(text, &number);
}

/* Ids as add_id shows them. */
static bool read_ref(struct bytes text, struct job_ref *out_ref)
{
    uint64_t seq;
    if (bytes_to_u64(text, &seq)) {
        *out_ref = (struct job_ref){.seq = seq};
        return true;
    }
    if (text.len && text.at[0] == '=' && is_number(bytes_of(text.at + 1, text.len - 1)))
        text = bytes_of(text.at + 1, text.len - 1);
    return job_ref_parse(text, out_ref);
}

static void decode_finish(const struct parameters *parameters, struct call *call)
{
    struct bytes id;
    call->cmd = (struct cmd){.kind = CMD_DELETE,
                             .job.is_done = true}; /* from any state, as in the original */
    if (!parameter(parameters, PARAMETER_ID, &id) || !read_ref(id, &call->cmd.job.ref))
        refuse(call, "id: 1 to 255 bytes");
}

void delayqueue_java_decode(const struct api_input *input, struct call *call)
{
    struct bytes path = input->request->path, pop = BYTES("/pop/");
    enum http_method method = input->request->method;
    bool push = bytes_eq(path, BYTES("/push")), finish = bytes_eq(path, BYTES("/finish"));
    bool popping = bytes_starts(path, pop) && path.len > pop.len;
    if (!push && !finish && !popping) {
        api_refuse_call(call, 404, "not_found", "there is nothing at this path");
    } else if (popping ? method != HTTP_M_GET : method != HTTP_M_POST) {
        api_refuse_call(call, 405, "method_not_allowed", "Request method not supported");
        call->problem.allow = popping ? "GET" : "POST";
    } else {
        struct parameters parameters;
        read_parameters(input, &parameters);
        if (push)
            decode_push(&parameters, call);
        else if (finish)
            decode_finish(&parameters, call);
        else
            decode_pop(&parameters, bytes_of(path.at + pop.len, path.len - pop.len), call);
    }
}

/* ---- replying ---- */

static void add_id(struct buf *out, const struct job_ref *ref)
{
    if (ref->id.len && !is_number(ref->id)) {
        json_add_text(out, ref->id, JSON_STYLE_PLAIN);
        return;
    }
    buf_add_char(out, '"');
    if (ref->id.len) {
        buf_add_char(out, '=');
        buf_add_bytes(out, ref->id);
    } else {
        buf_add_u64(out, ref->seq);
    }
    buf_add_char(out, '"');
}

static void add_job(struct buf *out, const struct job_view *job)
{
    buf_add_str(out, "{\"id\":");
    add_id(out, &job->ref);
    buf_add_str(out, ",\"topic\":");
    json_add_text(out, job->topic, JSON_STYLE_PLAIN);
    buf_add_str(out, ",\"delayTime\":");
    buf_add_i64(out, job->due_us / MILLISECOND_US);
    buf_add_str(out, ",\"ttrTime\":");
    buf_add_i64(out, job->ttr_us / SECOND_US);
    buf_add_str(out, ",\"message\":");
    json_add_text(out, job->body, JSON_STYLE_PLAIN);
    buf_add_char(out, '}');
}

/* Writes the jobs of a pop; `count` may be 0. */
static void add_popped(struct buf *out, const struct reply *reply, uint32_t count, bool many)
{
    buf_add_str(out, many ? "[" : count ? "" : "null");
    for (uint32_t i = 0; i < count; i++) {
        if (i)
            buf_add_char(out, ',');
        add_job(out, &reply->jobs[i]);
    }
    if (many)
        buf_add_char(out, ']');
}

static void send_failure(const struct api_output *output, const struct problem *problem)
{
    struct buf body = {0};
    buf_add_str(&body, "{\"code\":1,\"msg\":\"系统异常，请联系管理员\",\"exception\":");
    json_add_text(&body, bytes_str(problem->detail), JSON_STYLE_PLAIN);
    buf_add_char(&body, '}');
    api_send_problem(output, problem, json_type, buf_bytes(&body));
    buf_fini(&body);
}

void delayqueue_java_problem(const struct api_output *output, const struct problem *problem)
{
    send_failure(output, problem);
}

void delayqueue_java_reply(const struct api_output *output, const struct reply *reply)
{
    enum cmd_kind kind = (enum cmd_kind)output->format->cmd;
    struct problem problem;
    struct buf body = {0};
    if (api_is_failure(output, reply, &problem)) {
        problem.status = 200;
        send_failure(output, &problem);
        return;
    }
    buf_add_str(&body, "{\"code\":0,\"msg\":\"操作成功！\"");
    if (kind == CMD_PUSH) {
        buf_add_str(&body, ",\"data\":");
        add_id(&body, &reply->jobs[0].ref);
    } else if (kind == CMD_RESERVE) {
        buf_add_str(&body, ",\"data\":");
        add_popped(&body, reply, reply->err ? 0 : reply->count,
                   output->format->variant == POP_MANY);
    }
    buf_add_char(&body, '}');
    api_send(output, 200, json_type, buf_bytes(&body));
    buf_fini(&body);
}
