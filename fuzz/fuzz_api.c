/*
 * The dialects under random requests: whatever comes, a command is within its limits, and every
 * answer is a whole HTTP response whose body, if it says so, is JSON (as jansson reads it).
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "proto/api/api.h"
#include "proto/http/host.h"
#include "proto/sdmq/job_id.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const int64_t now_us = INT64_C(1700000000123456);

/* A zone that sets its clocks every other month. */
static int64_t east_us(int64_t at_us)
{
    return at_us / INT64_C(5270400000000) % 2 ? INT64_C(7200000000) : -INT64_C(3600000000);
}

static const struct api_limits limits = {
    .east_us = east_us,
    .body_bytes = 200,
    .json_depth = 16,
    .batch_jobs = 10,
    .reserve_topics = 4,
    .wait_us = 60000000,
    .block_us = 178000000,
    .ttr_us = 60000000,
    .ttr_max_us = INT64_C(86400000000),
};

static void check_push(const struct cmd_push *push)
{
    CHECK(push->id.len <= JOB_ID_MAX && push->topic.len >= 1 && push->topic.len <= TOPIC_NAME_MAX);
    CHECK(push->due_us >= 0 && push->ttr_us >= 1 && push->body.len <= limits.body_bytes);
    CHECK(push->content_type.len <= CONTENT_TYPE_MAX && push->retry_count <= RETRY_STEPS_MAX);
    CHECK(bytes_is_utf8(push->id) && bytes_is_utf8(push->topic));
    for (unsigned i = 0; i < push->retry_count; i++)
        CHECK(push->retry_us[i] >= 0);
}

static void check_cmd(const struct cmd *cmd)
{
    switch (cmd_traits(cmd->kind)->subject) {
    case CMD_ON_NEW_JOB: check_push(&cmd->push); break;
    case CMD_ON_READY_JOBS:
        CHECK(cmd->reserve.topic_count >= 1 && cmd->reserve.topic_count <= limits.reserve_topics);
        CHECK(cmd->reserve.max >= 1 && cmd->reserve.wait_us >= 0);
        break;
    case CMD_ON_JOB:
        CHECK(cmd->job.ref.id.len <= JOB_ID_MAX && cmd->job.body.len <= limits.body_bytes);
        CHECK(!cmd->job.has_ttr || cmd->job.ttr_us >= 1);
        break;
    case CMD_ON_TOPICS: CHECK(cmd->topic.max >= 1 && cmd->topic.topic.len <= TOPIC_NAME_MAX); break;
    }
}

/* One response, and nothing else; JSON if it says JSON. */
static void check_response(const struct response_format *format, const struct buf *out)
{
    static const char end[] = "\r\n\r\n";
    struct bytes text = buf_bytes(out);
    CHECK(bytes_starts(text, BYTES("HTTP/1.1 ")));
    const char *body = memmem(text.at, text.len, end, 4);
    CHECK(body);
    size_t head_len = (size_t)(body - text.at) + 4, body_len = text.len - head_len;
    if (format->head_only)
        CHECK(body_len == 0);
    else if (body_len && memmem(text.at, head_len, "json", 4)) {
        json_error_t error;
        json_t *json =
            json_loadb(body + 4, body_len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
        CHECK(json);
        json_decref(json);
    }
}

/* A reply that shows a job made of the push itself. */
static void answer(const struct call *call, struct buf *out)
{
    const struct cmd_push *push = &call->cmd.push;
    struct lateness lateness = {0};
    struct job_view job = {.ref.seq = 7,
                           .topic = BYTES("t"),
                           .state = JOB_RESERVED,
                           .due_us = now_us,
                           .until_us = now_us + 1,
                           .ttr_us = 1,
                           .created_us = now_us,
                           .lease = UINT64_MAX,
                           .body = BYTES("x")};
    struct topic_view topic = {.name = BYTES("t"), .lateness = &lateness};
    struct reply reply = {
        .kind = call->cmd.kind, .count = 1, .jobs = &job, .topics = &topic, .more = true};
    if (call->cmd.kind == CMD_PUSH) {
        job.ref.id = push->id;
        job.topic = push->topic;
        job.due_us = push->due_us;
        job.body = push->body;
        job.body_kind = push->body_kind;
        job.retry_us = push->retry_us;
        job.retry_count = push->retry_count;
    }
    api_reply(&call->format, &reply, now_us, BYTES("now"), out);
    check_response(&call->format, out);
    for (enum err err = ERR_NOT_FOUND; err < ERR_COUNT; err++) {
        struct reply bad = {.err = err, .kind = call->cmd.kind};
        out->len = 0;
        api_reply(&call->format, &bad, now_us, BYTES("now"), out);
        check_response(&call->format, out);
    }
}

static void do_batch(struct call *call, struct arena *scratch, struct buf *out)
{
    struct buf results = {0};
    struct cmd cmd;
    struct problem problem;
    struct job_view job = {.ref.seq = 1, .state = JOB_READY};
    struct reply reply = {.kind = call->batch.kind, .count = 1, .jobs = &job};
    uint32_t failed = 0;
    while (api_batch_next(&call->batch, &limits, now_us, scratch, &cmd, &problem)) {
        if (problem.status == 0)
            check_cmd(&cmd);
        failed += problem.status != 0;
        api_batch_result(&call->format, &results, &reply, problem.status ? &problem : NULL);
    }
    CHECK(call->batch.done <= limits.batch_jobs);
    api_batch_reply(&call->format, buf_bytes(&results), failed, BYTES("now"), out);
    check_response(&call->format, out);
    buf_fini(&results);
}

static void handle(enum api_dialect dialect, const struct http_request *request)
{
    struct arena scratch = {0};
    struct buf out = {0};
    struct call call = {.kind = CALL_CMD};
    struct api_site site = {.root = dialect, .hosts = BYTES("a.example, b")};
    bool known = host_is_known(request->body, site.hosts);
    CHECK(!known || host_is_known(host_without_port(request->body), site.hosts));
    api_decode(&site, &limits, request, now_us, &scratch, &call);
    switch (call.kind) {
    case CALL_CMD:
    case CALL_CLEAR:
    case CALL_LIST:
    case CALL_DELETE:
        check_cmd(&call.cmd);
        CHECK(call.id_begin.len + SDMQ_HOST_MAX + 1 + SNOWFLAKE_ROOM <= JOB_ID_MAX);
        answer(&call, &out);
        break;
    case CALL_RESTORE:
        CHECK(call.restore.id.len <= JOB_ID_MAX);
        api_restored(&call.format,
                     &(struct api_restored){.rows = 7, .single = call.restore.id.len > 0},
                     BYTES("now"), &out);
        check_response(&call.format, &out);
        break;
    case CALL_CLEAR_ALL:
        api_cleared(&call.format, 1000, 7, BYTES("now"), &out);
        check_response(&call.format, &out);
        break;
    case CALL_BATCH: do_batch(&call, &scratch, &out); break;
    case CALL_PROBLEM:
        CHECK(call.problem.status >= 200 && call.problem.detail[0]);
        api_problem(&call.format, &call.problem, BYTES("now"), &out);
        check_response(&call.format, &out);
        break;
    case CALL_REPLAY:
    case CALL_TEST:
    case CALL_HEALTHZ:
    case CALL_READYZ:
    case CALL_METRICS:
    case CALL_OPENAPI:
    case CALL_STATS:
    case CALL_ROOT:
    case CALL_LIMITS:
    case CALL_RESYNC:
    case CALL_CLUSTER:
    case CALL_JOURNAL: break;
    }
    buf_fini(&out);
    arena_fini(&scratch);
}

/* Input: dialect, method and content type in a byte; target up to a line end; body. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct bytes types[] = {
        {"", 0}, {"application/json", 16}, {"application/x-ndjson", 20}, {"text/plain", 10}};
    if (size < 2)
        return 0;
    char *copy = malloc(size - 1); /* exact, so that the sanitizer sees a step past the end */
    CHECK(copy);
    memcpy(copy, data + 1, size - 1);
    struct bytes text = bytes_of(copy, size - 1);
    const char *end = memchr(text.at, '\n', text.len);
    size_t target_len = end ? (size_t)(end - text.at) : text.len;
    const char *mark = memchr(text.at, '?', target_len);
    size_t path_len = mark ? (size_t)(mark - text.at) : target_len;
    struct http_request request = {
        .method = (enum http_method)(data[0] >> 4 & 7),
        .target = bytes_of(text.at, target_len),
        .path = bytes_of(text.at, path_len),
        .query = mark ? bytes_of(mark + 1, target_len - path_len - 1) : bytes_of(NULL, 0),
        .content_type = types[data[0] >> 2 & 3],
        .body = end ? bytes_of(end + 1, text.len - target_len - 1) : bytes_of(NULL, 0),
    };
    if (path_len)
        handle((enum api_dialect)(data[0] & 3), &request);
    free(copy);
    return 0;
}
