#include "cli/bulk.h"

#include "base/check.h"
#include "cli/limits.h"

bool bulk_full(struct bulk *bulk, size_t more_bytes)
{
    if (bulk->count == 0)
        return false;
    return bulk->count >= BULK_LINES || bulk->text.len + more_bytes > BULK_BYTES;
}

void bulk_add(struct bulk *bulk)
{
    CHECK(bulk->count < BULK_LINES);
    bulk->ends[bulk->count++] = bulk->text.len;
}

static int post(struct bulk *bulk, struct bytes target, unsigned count, json_t **out_answer)
{
    size_t start = bulk->sent > 0 ? bulk->ends[bulk->sent - 1] : 0;
    struct client_request request = {
        .method = "POST",
        .target = target,
        .content_type = "application/x-ndjson",
        .body = bytes_of(bulk->text.at + start, bulk->ends[bulk->sent + count - 1] - start),
    };
    return cli_call_bytes(bulk->cli, &request, out_answer);
}

/* What became of a line: it is a job, or there is a problem. */
static bool is_result(const json_t *result)
{
    return json_object_get(result, "job") || json_object_get(result, "problem");
}

/* Passes on the results. There must be one for each line, or it is not a laterd. */
static int take_all(struct bulk *bulk, unsigned count, const json_t *answer)
{
    const json_t *results = json_object_get(answer, "results"), *result;
    size_t i;
    unsigned taken = 0;
    json_array_foreach(results, i, result)
    {
        if (i >= count || !is_result(result))
            break;
        bulk->take(bulk->ctx, bulk->sent + (unsigned)i, result);
        taken++;
    }
    if (taken == count && json_array_size(results) == count)
        return EXIT_DONE;
    cli_message(bulk->cli, "the server answered for %u jobs of %u", taken, count);
    return EXIT_REFUSED;
}

/* A line that is too large by itself was refused like any other: those behind it are sent. */
static json_t *too_large(const struct bulk *bulk)
{
    size_t start = bulk->sent > 0 ? bulk->ends[bulk->sent - 1] : 0;
    struct buf why = {0}, limit = {0};
    limits_add_named(bulk->cli, "limits.request_bytes", &limit);
    buf_addf(&why, "the job has %zu bytes as JSON; ", bulk->ends[bulk->sent] - start);
    buf_add_bytes(&why, limit.len ? buf_bytes(&limit) : BYTES("that is over limits.request_bytes"));
    buf_add_char(&why, '\0');
    json_t *answer = json_pack("{s[{si s{ss ss}}]}", "results", "status", 413, "problem", "code",
                               "body_too_large", "detail", why.at);
    CHECK(answer);
    buf_fini(&limit);
    buf_fini(&why);
    return answer;
}

int bulk_send(struct bulk *bulk, struct bytes target)
{
    struct cli *cli = bulk->cli;
    int code = EXIT_DONE;
    bulk->sent = 0;
    uint64_t most = bulk->count > 0 ? limits_of(cli, LIMIT_BATCH) : 0;
    while (code == EXIT_DONE && bulk->sent < bulk->count) {
        json_t *answer = NULL;
        uint64_t left = bulk->count - bulk->sent, count;
        count = left < most ? left : most;
        bool alone;
        do {
            alone = count == 1;
            cli->may_halve = true;
            code = post(bulk, target, (unsigned)count, &answer);
        } while (limits_halve(cli, code, &count) && !alone);
        if (alone && code == EXIT_REFUSED && cli->over_limit) {
            answer = too_large(bulk);
            code = EXIT_DONE;
            count = 1;
        } else {
            most = count < left ? count : most; /* larger batches are not tried again */
        }
        if (code == EXIT_DONE)
            code = take_all(bulk, (unsigned)count, answer);
        if (code == EXIT_DONE)
            bulk->sent += (unsigned)count;
        json_decref(answer);
    }
    bulk->text.len = 0;
    bulk->count = 0;
    return code;
}

void bulk_fini(struct bulk *bulk)
{
    buf_fini(&bulk->text);
}
