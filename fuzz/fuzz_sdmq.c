/*
 * The sdmq dialect against any job: what a push is made of is within the limits, and a job that is
 * handed out can be pushed again as it is shown and is the same job then: no field is lost or
 * changed on the way.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "proto/api/api.h"
#include "proto/sdmq/job_id.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const int64_t now_us = INT64_C(1700000000123456);

static const struct api_limits limits = {
    .body_bytes = 4000,
    .json_depth = 16,
    .wait_us = 60000000,
    .block_us = 178000000,
    .ttr_us = 60000000,
    .ttr_max_us = INT64_C(86400000000),
};

static void decode(struct bytes body, struct arena *scratch, struct call *call)
{
    struct http_request request = {.method = HTTP_M_POST,
                                   .target = BYTES("/push"),
                                   .path = BYTES("/push"),
                                   .body = body,
                                   .keep_alive = true};
    struct api_site site = {.root = DIALECT_SDMQ, .any_host = true};
    api_decode(&site, &limits, &request, now_us, scratch, call);
    if (call->kind == CALL_PROBLEM) {
        CHECK(call->problem.status == 200 && call->problem.detail[0]);
        return;
    }
    const struct cmd_push *push = &call->cmd.push;
    CHECK(call->kind == CALL_CMD && call->cmd.kind == CMD_PUSH);
    CHECK(push->id.len <= JOB_ID_MAX && push->topic.len >= 1 && push->topic.len <= TOPIC_NAME_MAX);
    CHECK(push->due_us >= 0 && push->ttr_us >= 1 && push->body.len <= limits.body_bytes);
    CHECK(push->properties.len <= JOB_PROPERTIES_MAX);
    CHECK((push->id.len == 0) == (call->id_begin.len > 0));
    CHECK(call->id_begin.len + SDMQ_HOST_MAX + 1 + SNOWFLAKE_ROOM <= JOB_ID_MAX);
}

/* The job of a push as /get shows it: the object behind "data". */
static struct bytes shown(const struct cmd_push *push, struct buf *out)
{
    static const char data[] = "\"data\":", status[] = "\"status\":2,\"priority\":";
    struct response_format format = {.dialect = DIALECT_SDMQ, .cmd = CMD_RESERVE};
    struct job_view job = {.ref.id = push->id,
                           .topic = push->topic,
                           .state = JOB_RESERVED,
                           .due_us = push->due_us,
                           .ttr_us = push->ttr_us,
                           .created_us = now_us,
                           .body = push->body,
                           .properties = push->properties};
    struct reply reply = {.kind = CMD_RESERVE, .count = 1, .jobs = &job};
    api_reply(&format, &reply, now_us, BYTES("now"), out);
    char *begin = memmem(out->at, out->len, data, sizeof(data) - 1);
    CHECK(begin && out->at[out->len - 1] == '}');
    begin += sizeof(data) - 1;
    char *end = out->at + out->len - 1;
    /* The last one: a body may have the same in it. A job with this status is refused. */
    for (char *at = end - sizeof(status); at > begin; at--) {
        if (memcmp(at, status, sizeof(status) - 1) == 0) {
            at[9] = '0';
            break;
        }
    }
    return bytes_of(begin, (size_t)(end - begin));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena scratch = {0};
    struct buf out = {0};
    struct call call = {.kind = CALL_CMD}, again = {.kind = CALL_CMD};
    char *exact = mem_alloc(size + 1); /* so that one byte too far is seen */
    memcpy(exact, data, size);
    decode(bytes_of(exact, size), &scratch, &call);
    struct cmd_push *push = &call.cmd.push;
    /* What is due before 1970 is due in 1970. */
    if (call.kind == CALL_CMD && push->id.len && push->due_us > 1000) {
        decode(shown(push, &out), &scratch, &again);
        const struct cmd_push *same = &again.cmd.push;
        CHECK(again.kind == CALL_CMD);
        CHECK(bytes_eq(same->id, push->id) && bytes_eq(same->topic, push->topic));
        CHECK(bytes_eq(same->body, push->body) && bytes_eq(same->properties, push->properties));
        CHECK(same->due_us == push->due_us && same->ttr_us == push->ttr_us);
    }
    mem_free(exact);
    buf_fini(&out);
    arena_fini(&scratch);
    return 0;
}
