/* Writes answers. Members are in the order of the original's classes; missing values are null. */
#include "proto/sdmq/sdmq.h"
#include "proto/settings/job_properties.h"

enum { MILLISECOND_US = 1000, SECOND_US = 1000 * 1000 };

static const char json_type[] = "application/json;charset=UTF-8";

/* What sdmq's status numbers are in a job that is handed out. */
static int status_of(enum job_state state)
{
    switch (state) {
    case JOB_DELAYED: return 1;
    case JOB_READY:
    case JOB_RESERVED: return 2;
    case JOB_GONE: return 3;
    case JOB_BURIED: return 6;
    case JOB_STATES: break;
    }
    return 0;
}

static void send_failure(const struct api_output *output, const struct problem *problem)
{
    struct buf body = {0};
    buf_add_str(&body, "{\"success\":false,\"code\":500,\"message\":");
    json_add_text(&body, bytes_str(problem->detail), JSON_STYLE_PLAIN);
    buf_add_str(&body, ",\"data\":null}");
    api_send_problem(output, problem, json_type, buf_bytes(&body));
    buf_fini(&body);
}

static void begin_success(struct buf *body)
{
    buf_add_str(body, "{\"success\":true,\"code\":200,\"message\":null,\"data\":");
}

static void end_success(const struct api_output *output, struct buf *body)
{
    buf_add_char(body, '}');
    api_send(output, 200, json_type, buf_bytes(body));
    buf_fini(body);
}

static void send_nothing(const struct api_output *output)
{
    struct buf body = {0};
    begin_success(&body);
    buf_add_str(&body, "null");
    end_success(output, &body);
}

static void send_text(const struct api_output *output, struct bytes text)
{
    struct buf body = {0};
    begin_success(&body);
    json_add_text(&body, text, JSON_STYLE_PLAIN);
    end_success(output, &body);
}

static void add_member(struct buf *out, const char *key, struct bytes text)
{
    buf_add_str(out, key);
    if (text.len)
        json_add_text(out, text, JSON_STYLE_PLAIN);
    else
        buf_add_str(out, "null");
}

static void add_number(struct buf *out, const char *key, int64_t number)
{
    buf_add_str(out, key);
    buf_add_i64(out, number);
}

static void add_job(struct buf *out, const struct job_view *job)
{
    struct arena scratch = {0};
    struct job_properties properties;
    if (job_properties_read(job->properties, &scratch, &properties, NULL))
        properties = (struct job_properties){0}; /* another daemon's, a newer one */
    int64_t create_ms =
        properties.create_ms ? properties.create_ms : job->created_us / MILLISECOND_US;
    add_member(out, "{\"topic\":", job->topic);
    add_member(out, ",\"subtopic\":", properties.subtopic);
    buf_add_str(out, ",\"id\":");
    api_add_id(out, &job->ref, JSON_STYLE_PLAIN);
    add_member(out, ",\"bizKey\":", properties.biz_key);
    add_number(out, ",\"delay\":", job->due_us / MILLISECOND_US - create_ms);
    add_number(out, ",\"ttl\":", job->ttr_us / SECOND_US + (job->ttr_us % SECOND_US != 0));
    buf_add_str(out, ",\"body\":");
    json_add_text(out, job->body, JSON_STYLE_PLAIN);
    add_member(out, ",\"extendData\":", properties.extend_data);
    add_number(out, ",\"createTime\":", create_ms);
    add_number(out, ",\"status\":", status_of(job->state));
    add_number(out, ",\"priority\":", properties.rank ? properties.rank : job->priority);
    buf_add_char(out, '}');
    arena_fini(&scratch);
}

static void send_job(const struct api_output *output, const struct job_view *job)
{
    struct buf body = {0};
    begin_success(&body);
    add_job(&body, job);
    end_success(output, &body);
}

static void send_id(const struct api_output *output, const struct job_ref *ref)
{
    struct buf body = {0};
    begin_success(&body);
    api_add_id(&body, ref, JSON_STYLE_PLAIN);
    end_success(output, &body);
}

void sdmq_reply(const struct api_output *output, const struct reply *reply)
{
    enum cmd_kind kind = (enum cmd_kind)output->format->cmd;
    struct problem problem;
    if (api_is_failure(output, reply, &problem)) {
        problem.status = 200;
        send_failure(output, &problem);
    } else if (kind == CMD_PUSH) {
        send_id(output, &reply->jobs[0].ref);
    } else if (kind == CMD_RESERVE && reply->err == OK && reply->count > 0) {
        send_job(output, &reply->jobs[0]);
    } else {
        send_nothing(output);
    }
}

void sdmq_problem(const struct api_output *output, const struct problem *problem)
{
    send_failure(output, problem);
}

static void send_count(const struct api_output *output, int64_t took_us, const char *verb,
                       uint64_t rows)
{
    struct buf text = {0};
    buf_addf(&text, "花费了%lld ms，%s %llu 行数据", (long long)(took_us / MILLISECOND_US), verb,
             (unsigned long long)rows);
    send_text(output, buf_bytes(&text));
    buf_fini(&text);
}

void sdmq_restored(const struct api_output *output, const struct api_restored *restored)
{
    if (restored->single)
        send_nothing(output);
    else
        send_count(output, restored->took_us, "恢复", restored->rows);
}

void sdmq_cleared(const struct api_output *output, int64_t took_us, uint64_t jobs)
{
    send_count(output, took_us, "删除", jobs);
}
