/*
 * Chooses the dialect, and has what all dialects share. The paths of /v1 and of the server's own
 * pages are served whatever the root dialect is.
 */
#include "proto/api/api.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/block16.h"
#include "base/rfc3339.h"
#include "proto/api/api_parts.h"
#include "proto/http/host.h"
#include "proto/sdmq/sdmq.h"

const char *api_dialect_name(enum api_dialect dialect)
{
    switch (dialect) {
    case DIALECT_DELAY_QUEUE: return "delay-queue";
    case DIALECT_DELAYQUEUE_JAVA: return "delayqueue-java";
    case DIALECT_SDMQ: return "sdmq";
    case DIALECT_NONE: return "none";
    case DIALECT_COUNT: break;
    }
    return "v1";
}

struct bytes api_guess_id(struct bytes request)
{
    const struct bytes heads[] = {BYTES("DELETE /v1/jobs/"), BYTES("GET /v1/jobs/")};
    if (request.len == 0 || request.at[0] == 'P') /* POST, most often */
        return (struct bytes){0};
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        if (!bytes_starts(request, heads[i]))
            continue;
        const char *id = request.at + heads[i].len;
        size_t left = request.len - heads[i].len;
        const char *end = memchr(id, ' ', left < JOB_ID_MAX + 1 ? left : JOB_ID_MAX + 1);
        bool plain = end && end > id && *id != '@' && !memchr(id, '%', (size_t)(end - id));
        return plain ? bytes_of(id, (size_t)(end - id)) : (struct bytes){0};
    }
    return (struct bytes){0};
}

/* Where a member "id" may begin in the block at `at`, a bit for each byte. */
static unsigned id_marks(const char *at)
{
    block16 quotes = (block16)(block16_at(at) == '"');
    block16 names = (block16)(block16_at(at + 1) == 'i') & (block16)(block16_at(at + 2) == 'd');
    return block16_top_bits(quotes & names);
}

/* The text of the string behind the name, if it is one that needs no decoding and has come whole.
 */
static struct bytes id_behind(struct bytes text, size_t name)
{
    static const char key[] = "\"id\":";
    size_t at = name + sizeof(key) - 1;
    if (text.len < at || memcmp(text.at + name, key, sizeof(key) - 1) != 0)
        return (struct bytes){0};
    while (at < text.len && text.at[at] == ' ')
        at++;
    if (at == text.len || text.at[at] != '"')
        return (struct bytes){0};
    const char *id = text.at + ++at;
    size_t left = text.len - at, max = left < JOB_ID_MAX + 1 ? left : JOB_ID_MAX + 1;
    const char *end = memchr(id, '"', max);
    return end ? bytes_of(id, (size_t)(end - id)) : (struct bytes){0};
}

uint32_t api_guess_ids(struct bytes text, struct bytes *out_ids, uint32_t max)
{
    enum { BEYOND = sizeof(block16) + 2 }; /* bytes that id_marks() reads */
    uint32_t count = 0;
    for (size_t at = 0; at + BEYOND <= text.len && count < max; at += sizeof(block16)) {
        unsigned marks = id_marks(text.at + at);
        for (; marks && count < max; marks &= marks - 1) {
            out_ids[count] = id_behind(text, at + (unsigned)__builtin_ctz(marks));
            count += out_ids[count].len > 0;
        }
    }
    return count;
}

int api_status(enum err err)
{
    switch (err) {
    case OK: return 200;
    case ERR_EMPTY: return 204;
    case ERR_INVALID: return 400;
    case ERR_NOT_FOUND: return 404;
    case ERR_JOB_TARGET: return 403;
    case ERR_EXISTS:
    case ERR_PUSHED_TOPIC:
    case ERR_NOT_EMPTY:
    case ERR_STALE_LEASE:
    case ERR_WRONG_STATE: return 409;
    case ERR_VERSION: return 412;
    case ERR_TOO_LARGE: return 413;
    case ERR_JOBS_LIMIT:
    case ERR_TOPICS_LIMIT:
    case ERR_WAITERS_LIMIT: return 429;
    case ERR_UNSUPPORTED: return 501;
    case ERR_MEMORY_LIMIT:
    case ERR_STORE_FAILED:
    case ERR_DRAINING:
    case ERR_JOURNAL_DOWN:
    case ERR_JOURNAL_BEHIND:
    case ERR_NOT_LEADER:
    case ERR_RECOVERING:
    case ERR_AGAIN: return 503;
    /* 507 and not 503: trying again soon does not help, an operator must make room. */
    case ERR_DISK_LIMIT:
    case ERR_DISK_FULL: return 507;
    case ERR_DAMAGED:
    case ERR_IO:
    case ERR_CORRUPT:
    case ERR_LOCKED:
    case ERR_COUNT: break;
    }
    return 500;
}

/* ---- what the dialects share ---- */

void api_problem_set(struct problem *problem, int status, const char *code, const char *field,
                     const char *detail)
{
    *problem = (struct problem){.status = status, .err = ERR_INVALID, .code = code};
    memcpy(problem->field, field, strnlen(field, sizeof(problem->field) - 1));
    memcpy(problem->detail, detail, strnlen(detail, sizeof(problem->detail) - 1));
}

bool api_refuse_name(struct problem *problem, struct bytes name, const char *code,
                     const char *detail)
{
    char text[sizeof(problem->field)] = "";
    size_t len = name.len < sizeof(text) ? name.len : sizeof(text) - 1;
    while (len && !bytes_is_utf8(bytes_of(name.at, len)))
        len--; /* do not cut a character in two */
    memcpy(text, name.at, len);
    return api_refuse(problem, 400, code, text, detail);
}

void api_problem_add(struct problem *problem, const char *text)
{
    size_t len = strnlen(problem->detail, sizeof(problem->detail) - 1);
    size_t room = sizeof(problem->detail) - 1 - len;
    memcpy(problem->detail + len, text, strnlen(text, room));
}

void api_problem_addf(struct problem *problem, const char *format, ...)
{
    char text[sizeof(problem->detail)];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments); /* cut to fit */
    va_end(arguments);
    api_problem_add(problem, text);
}

void api_problem_of(struct problem *problem, const struct api_limits *limits,
                    const struct reply *reply)
{
    enum err err = reply->err;
    static const struct api_limits none;
    const struct api_limits *of = limits ? limits : &none;
    uint64_t limit = err == ERR_JOBS_LIMIT      ? of->jobs
                     : err == ERR_TOPICS_LIMIT  ? of->topics
                     : err == ERR_WAITERS_LIMIT ? of->waiters
                     : err == ERR_MEMORY_LIMIT  ? of->memory_bytes
                     : err == ERR_DISK_LIMIT    ? of->disk_bytes
                                                : 0;
    api_problem_set(problem, api_status(err), err_name(err), "", err_text(err));
    if (limit)
        api_problem_addf(problem, "; the limit is %llu", (unsigned long long)limit);
    if (reply->why && err == ERR_AGAIN) /* it is more precise than the usual text, and longer */
        api_problem_set(problem, problem->status, problem->code, "", "not now, try again");
    problem->err = err;
    if (reply->why) {
        api_problem_add(problem, ": ");
        api_problem_add(problem, reply->why);
    }
}

bool api_is_failure(const struct api_output *output, const struct reply *reply,
                    struct problem *out_problem)
{
    enum cmd_kind kind = (enum cmd_kind)output->format->cmd;
    bool nothing = reply->err == ERR_EMPTY || reply->err == ERR_NOT_FOUND ||
                   (reply->err == ERR_DRAINING && kind == CMD_RESERVE);
    if (reply->err == OK || (nothing && kind != CMD_PUSH))
        return false;
    api_problem_of(out_problem, output->format->limits, reply);
    return true;
}

void api_problem_body(struct problem *problem, int status, const char *field, uint64_t bytes,
                      const struct api_limits *limits)
{
    api_problem_set(problem, status, err_name(ERR_TOO_LARGE), field, "");
    problem->config_key = "limits.body_bytes";
    api_problem_addf(problem, "the body has %llu bytes; limits.body_bytes is %u",
                     (unsigned long long)bytes, limits->body_bytes);
}

void api_refuse_call(struct call *call, int status, const char *code, const char *detail)
{
    call->kind = CALL_PROBLEM;
    api_problem_set(&call->problem, status, code, "", detail);
}

static void respond(const struct api_output *output, int status, const char *allow,
                    const char *content_type, struct bytes body)
{
    const struct response_format *format = output->format;
    struct http_response response = {
        .status = status,
        .content_type = content_type,
        .allow = allow ? bytes_str(allow) : (struct bytes){0},
        .close = format->close,
        .http10_keep_alive = format->http10 && !format->close,
        .head_only = format->head_only,
        .date = output->date,
    };
    http_respond(output->out, &response, body);
}

void api_send(const struct api_output *output, int status, const char *content_type,
              struct bytes body)
{
    respond(output, status, NULL, content_type, body);
}

void api_send_problem(const struct api_output *output, const struct problem *problem,
                      const char *content_type, struct bytes body)
{
    respond(output, problem->status, problem->allow, content_type, body);
}

const char *api_topic_flaw(struct bytes name)
{
    if (name.len == 0)
        return "is empty";
    if (name.len > TOPIC_NAME_MAX)
        return "is longer than 200 bytes";
    if (!bytes_is_printable(name))
        return "has a control character";
    return bytes_is_utf8(name) ? NULL : "is not valid UTF-8";
}

const char *api_id_flaw(struct bytes id)
{
    struct job_ref ref;
    if (id.len == 0)
        return "is empty";
    if (id.len > JOB_ID_MAX)
        return "is longer than 255 bytes";
    if (!bytes_is_printable(id))
        return "has a control character";
    if (!bytes_is_utf8(id))
        return "is not valid UTF-8";
    if (!job_ref_parse(id, &ref) || ref.id.len == 0)
        return "has the form of the server's own ids, an at sign and a number";
    return NULL;
}

static bool has_char(struct bytes text, char c)
{
    return text.len && memchr(text.at, c, text.len) != NULL;
}

/* Is the text its own decoded form? */
static bool is_plain(struct bytes text, bool plus_is_space)
{
    return !has_char(text, '%') && !has_char(text, '\0') && !(plus_is_space && has_char(text, '+'));
}

static bool api_unescape(struct bytes text, bool plus_is_space, struct arena *scratch,
                         struct bytes *out_text)
{
    struct buf room = {0};
    struct bytes decoded;
    if (is_plain(text, plus_is_space)) {
        *out_text = arena_copy(scratch, text);
        return true;
    }
    bool good = http_percent_decode(text, plus_is_space, &room, &decoded);
    if (good)
        *out_text = arena_copy(scratch, decoded);
    buf_fini(&room);
    return good;
}

bool api_unescape_path(struct bytes text, struct arena *scratch, struct bytes *out_text)
{
    return api_unescape(text, false, scratch, out_text);
}

bool api_unescape_query(struct bytes text, struct arena *scratch, struct bytes *out_text)
{
    return api_unescape(text, true, scratch, out_text);
}

bool api_read_wait(const struct api_limits *limits, struct bytes text, int64_t *out_us)
{
    uint64_t ms;
    int64_t wait_us;
    if (bytes_to_u64(text, &ms)) {
        if (ms > INT64_MAX / 1000)
            return false;
        wait_us = (int64_t)ms * 1000;
    } else if (!duration_read(text, &wait_us)) {
        return false;
    }
    if (wait_us < 0 || wait_us > limits->wait_us)
        return false;
    *out_us = wait_us;
    return true;
}

void api_add_id(struct buf *out, const struct job_ref *ref, enum json_style format)
{
    char room[JOB_TEXT_ID_MAX];
    json_add_text(out, job_ref_text(ref, room), format);
}

/* ---- which dialect ---- */

static bool is_below_v1(struct bytes path)
{
    return bytes_starts(path, BYTES("/v1")) && (path.len == 3 || path.at[3] == '/');
}

/* The server's own pages. */
static bool decode_page(const struct http_request *request, struct call *call)
{
    static const struct {
        struct bytes path;
        enum call_kind kind;
    } pages[] = {
        {{"/", 1}, CALL_ROOT},
        {{"/healthz", 8}, CALL_HEALTHZ},
        {{"/readyz", 7}, CALL_READYZ},
        {{"/metrics", 8}, CALL_METRICS},
        {{"/v1/stats", 9}, CALL_STATS},
        {{"/v1/openapi.json", 16}, CALL_OPENAPI},
        {{"/v1/limits", 10}, CALL_LIMITS},
        {{"/v1/cluster", 11}, CALL_CLUSTER},
        {{"/v1/journal", 11}, CALL_JOURNAL},
    };
    struct bytes rest = request->query, name, value;
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        if (!bytes_eq(request->path, pages[i].path))
            continue;
        call->format.dialect = DIALECT_COUNT;
        call->kind = pages[i].kind;
        if (request->method != HTTP_M_GET && request->method != HTTP_M_HEAD) {
            api_refuse_call(call, 405, "method_not_allowed", "this page can only be read");
            call->problem.allow = "GET, HEAD";
        } else if (is_below_v1(request->path) && http_query_next(&rest, &name, &value)) {
            call->kind = CALL_PROBLEM;
            (void)api_refuse_name(&call->problem, name, "unknown_parameter",
                                  "this page takes no query parameters");
        }
        return true;
    }
    return false;
}

/*
 * Refuses changes requested by a web page of another origin. Such a page may read what the browser
 * lets it read, but change nothing: a browser sends simple requests to any address without a
 * preflight, also to a local server. In the root dialects every call changes something, also GET.
 */
static bool refuse_cross_site(const struct http_request *request, bool is_v1, struct call *call)
{
    bool reads = request->method == HTTP_M_GET || request->method == HTTP_M_HEAD;
    bool always_200 = call->format.dialect == DIALECT_DELAY_QUEUE && !is_v1;
    if (!request->cross_site || (is_v1 && reads))
        return false;
    if (is_v1)
        call->format.dialect = DIALECT_COUNT;
    api_refuse_call(call, always_200 ? 200 : 403, "cross_site",
                    "a web page of another origin may not change anything here (Origin, "
                    "Sec-Fetch-Site)");
    return true;
}

/*
 * For a page that made its own name point to this server (DNS rebinding) the browser sees one
 * origin, and lets the page read answers, too. So every request is refused, in each dialect, even
 * those for the server's own pages.
 */
static bool refuse_unknown_host(const struct api_site *site, const struct http_request *request,
                                struct call *call)
{
    if (site->any_host || host_is_known(request->host, site->hosts))
        return false;
    if (is_below_v1(request->path))
        call->format.dialect = DIALECT_COUNT;
    api_refuse_call(call, 403, "unknown_host",
                    "the request's Host is no name of this server: ask for it by IP address or as "
                    "localhost, or add the name to server.hosts in its configuration");
    return true;
}

void api_decode(const struct api_site *site, const struct api_limits *limits,
                const struct http_request *request, int64_t now_us, struct arena *scratch,
                struct call *call)
{
    struct api_input input = {
        .limits = limits, .request = request, .now_us = now_us, .scratch = scratch};
    enum api_dialect root = site->root;
    call->kind = CALL_CMD;
    call->id_begin = (struct bytes){0};
    call->format = (struct response_format){
        .limits = limits,
        .dialect = (uint8_t)root,
        .close = !request->keep_alive,
        .http10 = request->http10,
        .head_only = request->method == HTTP_M_HEAD,
    };
    if (refuse_unknown_host(site, request, call))
        return;
    bool is_v1 = is_below_v1(request->path) || root == DIALECT_NONE || root == DIALECT_COUNT;
    if (root == DIALECT_DELAY_QUEUE && !is_v1 && request->method == HTTP_M_POST) {
        if (!refuse_cross_site(request, is_v1, call))
            delay_queue_decode(&input, call); /* the hot path: pages are looked for last */
        if (call->kind == CALL_PROBLEM && call->problem.status == 404 && request->path.len > 1)
            (void)decode_page(request, call); /* which may not be POSTed; / is 404, as in Go */
    } else if (decode_page(request, call) || refuse_cross_site(request, is_v1, call)) {
        return;
    } else if (is_v1) {
        call->format.dialect = DIALECT_COUNT;
        v1_decode(&input, call);
    } else if (root == DIALECT_DELAYQUEUE_JAVA) {
        delayqueue_java_decode(&input, call);
    } else if (root == DIALECT_SDMQ) {
        sdmq_decode(&input, call);
    } else {
        delay_queue_decode(&input, call);
    }
    if (call->kind == CALL_CMD || call->kind == CALL_CLEAR || call->kind == CALL_REPLAY ||
        call->kind == CALL_TEST || call->kind == CALL_DELETE || call->kind == CALL_LIST)
        call->format.cmd = (uint8_t)call->cmd.kind;
}

void api_reply(const struct response_format *format, const struct reply *reply, int64_t now_us,
               struct bytes date, struct buf *out)
{
    struct buf body = {0};
    api_reply_through(format, reply, now_us, date, &body, out);
    buf_fini(&body);
}

void api_reply_through(const struct response_format *format, const struct reply *reply,
                       int64_t now_us, struct bytes date, struct buf *body, struct buf *out)
{
    struct api_output output = {.format = format, .date = date, .body = body, .out = out};
    switch ((enum api_dialect)format->dialect) {
    case DIALECT_DELAY_QUEUE: delay_queue_reply(&output, reply); break;
    case DIALECT_DELAYQUEUE_JAVA: delayqueue_java_reply(&output, reply); break;
    case DIALECT_SDMQ: sdmq_reply(&output, reply); break;
    case DIALECT_NONE:
    case DIALECT_COUNT: v1_reply(&output, reply, now_us); break;
    }
}

void api_problem(const struct response_format *format, const struct problem *problem,
                 struct bytes date, struct buf *out)
{
    struct api_output output = {.format = format, .date = date, .out = out};
    switch ((enum api_dialect)format->dialect) {
    case DIALECT_DELAY_QUEUE: delay_queue_problem(&output, problem); break;
    case DIALECT_DELAYQUEUE_JAVA: delayqueue_java_problem(&output, problem); break;
    case DIALECT_SDMQ: sdmq_problem(&output, problem); break;
    case DIALECT_NONE:
    case DIALECT_COUNT: v1_problem(&output, problem); break;
    }
}

void api_restored(const struct response_format *format, const struct api_restored *restored,
                  struct bytes date, struct buf *out)
{
    struct api_output output = {.format = format, .date = date, .out = out};
    if (format->dialect == DIALECT_SDMQ)
        sdmq_restored(&output, restored);
    else
        v1_restored(&output, restored);
}

void api_cleared(const struct response_format *format, int64_t took_us, uint64_t jobs,
                 struct bytes date, struct buf *out)
{
    sdmq_cleared(&(struct api_output){.format = format, .date = date, .out = out}, took_us, jobs);
}
