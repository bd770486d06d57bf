/* Commands on one job or on a list of them, and reserve. */
#include "proto/api/v1.h"
#include "proto/settings/attempt_note.h"

/* The fields that the body of a request may have; none for other commands. */
static const uint64_t fields_of[CMD_KINDS] = {
    [CMD_FINISH] = V1_BIT(V1_LEASE),
    [CMD_RELEASE] = V1_BIT(V1_LEASE) | V1_BIT(V1_DELAY) | V1_BIT(V1_DUE) | V1_BIT(V1_PRIORITY) |
                    V1_BIT(V1_REASON) | V1_BIT(V1_CODE),
    [CMD_TOUCH] = V1_BIT(V1_LEASE) | V1_BIT(V1_TTR),
    [CMD_BURY] = V1_BIT(V1_LEASE) | V1_BIT(V1_PRIORITY) | V1_BIT(V1_REASON) | V1_BIT(V1_CODE),
    [CMD_RESCHEDULE] = V1_BIT(V1_DELAY) | V1_BIT(V1_DUE) | V1_BIT(V1_PRIORITY) | V1_BIT(V1_BODY) |
                       V1_BIT(V1_BODY_BASE64) | V1_BIT(V1_CONTENT_TYPE),
};

/* The note of a consumer's failed attempt, in its stored form. */
static struct bytes make_note(const struct v1_call *v1, const struct v1_fields *fields)
{
    struct attempt_note note = {.reason = fields->reason, .took_us = -1};
    struct buf text = {0};
    if (!v1_given(fields, V1_REASON) && !v1_given(fields, V1_CODE))
        return (struct bytes){0};
    attempt_note_write(&note, &text);
    if (text.len == 0) /* the code alone: without a note it would not be kept */
        buf_add_str(&text, "{}");
    struct bytes copy = arena_copy(v1->input.scratch, buf_bytes(&text));
    buf_fini(&text);
    return copy;
}

bool v1_decode_job(const struct v1_call *v1)
{
    struct v1_fields fields;
    struct cmd_job job = {0};
    if (!v1_read_body(&v1->input, v1->request->body, fields_of[v1->kind], &fields))
        return false;
    bool timed = v1_given(&fields, V1_DELAY) || v1_given(&fields, V1_DUE);
    bool bodied = v1_given(&fields, V1_BODY) || v1_given(&fields, V1_BODY_BASE64);
    if (v1->kind == CMD_RESCHEDULE && fields.given == 0)
        return api_refuse(v1->input.problem, 400, "nothing_to_change", "",
                          "give at least one of delay, due, priority, body, body_base64");
    if (v1_given(&fields, V1_CONTENT_TYPE) && !bodied)
        return api_refuse(v1->input.problem, 400, "bad_field", "content_type",
                          "the content type changes only together with the body");
    if (!job_ref_parse(v1->part, &job.ref))
        return api_refuse(v1->input.problem, 400, "bad_path", "id", "this is not an id");
    job.lease = fields.lease;
    job.has_delay = timed && v1->kind == CMD_RELEASE;
    job.has_due = timed && v1->kind == CMD_RESCHEDULE;
    job.due_us = fields.due_us;
    job.has_priority = v1_given(&fields, V1_PRIORITY);
    job.priority = fields.priority;
    job.has_ttr = v1_given(&fields, V1_TTR);
    job.ttr_us = fields.ttr_us;
    job.has_body = bodied;
    job.body_kind = fields.body_kind;
    job.body = fields.body;
    job.content_type = fields.content_type;
    job.note = make_note(v1, &fields);
    job.note_code = fields.code;
    job.brief = v1->kind == CMD_FINISH || v1->kind == CMD_DELETE; /* the answer has no body */
    v1->call->cmd.job = job;
    return true;
}

bool v1_decode_attempts(const struct v1_call *v1)
{
    v1->call->format.variant = V1_ATTEMPTS;
    return v1_decode_job(v1);
}

bool v1_decode_history(const struct v1_call *v1)
{
    if (!v1->input.limits->keeps_history)
        return api_refuse(v1->input.problem, 404, "history_off", "",
                          v1->input.limits->no_history
                              ? "no history of jobs is kept: engine = redis keeps none"
                              : "no history of jobs is kept: set store.history, to 30d for "
                                "instance, and restart laterd");
    v1->call->format.variant = V1_HISTORY;
    if (!v1_decode_job(v1))
        return false;
    v1->call->cmd.job.history = true;
    return true;
}

/* ---- batches of finishes and of gets ---- */

/* Begins a batch of the items of "jobs". `missing`: what is said of a request without it. */
static bool begin_jobs(const struct v1_call *v1, const char *missing)
{
    struct v1_fields fields;
    if (!v1_read_body(&v1->input, v1->request->body, V1_BIT(V1_JOBS), &fields))
        return false;
    if (!v1_given(&fields, V1_JOBS))
        return api_refuse(v1->input.problem, 400, "missing_field", "jobs", missing);
    return v1_begin_array(v1, fields.jobs);
}

/* The fields of one of these items, which must name its job. */
static bool read_item(const struct v1_input *input, struct bytes text, uint64_t allowed,
                      const char *missing, struct v1_fields *out_fields)
{
    if (!v1_read_body(input, text, allowed, out_fields))
        return false;
    return v1_given(out_fields, V1_REF) ||
           api_refuse(input->problem, 400, "missing_field", "id", missing);
}

bool v1_read_finish(const struct v1_input *input, struct bytes text, struct cmd *out_cmd)
{
    struct v1_fields fields;
    if (!read_item(input, text, V1_BIT(V1_REF) | V1_BIT(V1_LEASE),
                   "each job to finish needs its id", &fields))
        return false;
    *out_cmd = (struct cmd){.kind = CMD_FINISH,
                            .job = {.ref = fields.ref, .lease = fields.lease, .brief = true}};
    return true;
}

bool v1_decode_finishes(const struct v1_call *v1)
{
    return begin_jobs(v1, "finish needs the jobs: {\"jobs\":[{\"id\":\"a\",\"lease\":\"1\"}]}");
}

bool v1_read_get(const struct v1_input *input, struct bytes text, struct cmd *out_cmd)
{
    struct v1_fields fields;
    if (!read_item(input, text, V1_BIT(V1_REF), "each job to get needs its id", &fields))
        return false;
    *out_cmd = (struct cmd){.kind = CMD_GET, .job = {.ref = fields.ref}};
    return true;
}

bool v1_decode_gets(const struct v1_call *v1)
{
    return begin_jobs(v1, "get needs the jobs: {\"jobs\":[{\"id\":\"a\"}]}");
}

/* ---- reserve ---- */

bool v1_decode_reserve(const struct v1_call *v1)
{
    uint64_t allowed = V1_BIT(V1_TOPICS) | V1_BIT(V1_WAIT) | V1_BIT(V1_MAX);
    struct v1_fields fields;
    if (!v1_read_body(&v1->input, v1->request->body, allowed, &fields))
        return false;
    if (!v1_given(&fields, V1_TOPICS))
        return api_refuse(v1->input.problem, 400, "missing_field", "topics",
                          "reserve needs the topics to take jobs from");
    v1->call->cmd.reserve = (struct cmd_reserve){
        .topics = fields.topics,
        .topic_count = fields.topic_count,
        .max = v1_given(&fields, V1_MAX) ? fields.max : 1,
        .wait_us = v1_given(&fields, V1_WAIT) ? fields.wait_us : 0,
    };
    return true;
}

bool v1_decode_restore(const struct v1_call *v1)
{
    static const uint64_t allowed = V1_BIT(V1_REF) | V1_BIT(V1_EXPIRE);
    struct v1_fields fields;
    char room[JOB_TEXT_ID_MAX];
    if (!v1_read_body(&v1->input, v1->request->body, allowed, &fields))
        return false;
    v1->call->kind = CALL_RESTORE;
    v1->call->restore = (struct api_restore){
        .skip_overdue = v1_given(&fields, V1_EXPIRE) && !fields.expire,
    };
    if (v1_given(&fields, V1_REF))
        v1->call->restore.id = arena_copy(v1->input.scratch, job_ref_text(&fields.ref, room));
    return true;
}

bool v1_decode_resync(const struct v1_call *v1)
{
    struct v1_fields fields;
    if (!v1_read_body(&v1->input, v1->request->body, 0, &fields))
        return false;
    v1->call->kind = CALL_RESYNC;
    return true;
}
