/* Which call of /v1 a request is: a table of paths, and what holds for all calls. */
#include "proto/api/v1.h"

#include <string.h>

enum { PARTS_MAX = 5 };

/* "{}" stands for a topic's name or a job's id. */
static const struct route {
    const char *parts[PARTS_MAX]; /* after /v1 */
    enum http_method method;
    enum cmd_kind kind;
    bool (*decode)(const struct v1_call *v1);
} routes[] = {
    {{"topics", "{}", "jobs"}, HTTP_M_POST, CMD_PUSH, v1_decode_pushes},
    {{"reserve"}, HTTP_M_POST, CMD_RESERVE, v1_decode_reserve},
    {{"finish"}, HTTP_M_POST, CMD_FINISH, v1_decode_finishes},
    {{"get"}, HTTP_M_POST, CMD_GET, v1_decode_gets},
    {{"restore"}, HTTP_M_POST, CMD_PUSH, v1_decode_restore},
    {{"journal", "resync"}, HTTP_M_POST, CMD_TOPICS, v1_decode_resync},
    {{"jobs", "{}", "finish"}, HTTP_M_POST, CMD_FINISH, v1_decode_job},
    {{"jobs", "{}", "release"}, HTTP_M_POST, CMD_RELEASE, v1_decode_job},
    {{"jobs", "{}", "touch"}, HTTP_M_POST, CMD_TOUCH, v1_decode_job},
    {{"jobs", "{}", "bury"}, HTTP_M_POST, CMD_BURY, v1_decode_job},
    {{"jobs", "{}", "kick"}, HTTP_M_POST, CMD_KICK, v1_decode_job},
    {{"jobs", "{}", "run"}, HTTP_M_POST, CMD_RUN, v1_decode_job},
    {{"jobs", "{}"}, HTTP_M_GET, CMD_GET, v1_decode_job},
    {{"jobs", "{}", "attempts"}, HTTP_M_GET, CMD_GET, v1_decode_attempts},
    {{"jobs", "{}", "history"}, HTTP_M_GET, CMD_GET, v1_decode_history},
    {{"jobs", "{}"}, HTTP_M_DELETE, CMD_DELETE, v1_decode_job},
    {{"jobs", "{}"}, HTTP_M_PATCH, CMD_RESCHEDULE, v1_decode_job},
    {{"due"}, HTTP_M_GET, CMD_DUE, v1_decode_due},
    {{"topics"}, HTTP_M_GET, CMD_TOPICS, v1_decode_list},
    {{"topics", "{}"}, HTTP_M_GET, CMD_TOPIC, v1_decode_topic},
    {{"topics", "{}"}, HTTP_M_PUT, CMD_CONFIGURE_TOPIC, v1_decode_configure},
    {{"topics", "{}"}, HTTP_M_DELETE, CMD_REMOVE_TOPIC, v1_decode_topic},
    {{"topics", "{}", "replay"}, HTTP_M_POST, CMD_KICK_TOPIC, v1_decode_replay},
    {{"topics", "{}", "test"}, HTTP_M_POST, CMD_TOPIC, v1_decode_test},
    {{"topics", "{}", "jobs"}, HTTP_M_GET, CMD_LIST, v1_decode_list},
    {{"topics", "{}", "pause"}, HTTP_M_POST, CMD_PAUSE, v1_decode_topic},
    {{"topics", "{}", "resume"}, HTTP_M_POST, CMD_RESUME, v1_decode_topic},
    {{"topics", "{}", "kick"}, HTTP_M_POST, CMD_KICK_TOPIC, v1_decode_topic},
    {{"topics", "{}", "clear"}, HTTP_M_POST, CMD_CLEAR_TOPIC, v1_decode_topic},
};

enum { ROUTE_COUNT = sizeof(routes) / sizeof(routes[0]) };

/*
 * Cuts what follows "/v1/" at its slashes; the number of parts, or PARTS_MAX if there are more.
 * "/v1" itself, and what a listener without a root dialect is asked for elsewhere, have none, and
 * are no calls.
 */
static unsigned cut_path(struct bytes path, struct bytes *parts)
{
    unsigned count = 0;
    if (!bytes_starts(path, BYTES("/v1/")))
        return 0;
    const char *part = path.at + sizeof("/v1/") - 1, *end = path.at + path.len, *slash = part;
    while (slash && count < PARTS_MAX) {
        slash = memchr(part, '/', (size_t)(end - part));
        parts[count++] = bytes_of(part, (size_t)((slash ? slash : end) - part));
        part = slash ? slash + 1 : end;
    }
    return count;
}

static bool is_route(const struct route *route, const struct bytes *parts, unsigned count)
{
    if (count == PARTS_MAX || route->parts[count])
        return false; /* the path has too many parts, or too few: most routes end here */
    for (unsigned i = 0; i < count; i++) {
        const char *wanted = route->parts[i];
        if (!wanted || (strcmp(wanted, "{}") != 0 && !bytes_eq(parts[i], bytes_str(wanted))))
            return false;
    }
    return true;
}

/* The methods a path knows, as the Allow header says it; NULL: there is no such path. */
static const char *allowed_methods(const struct bytes *parts, unsigned count)
{
    unsigned methods = 0;
    for (unsigned i = 0; i < ROUTE_COUNT; i++) {
        if (is_route(&routes[i], parts, count))
            methods |= 1u << routes[i].method;
    }
    switch (methods) {
    case 0: return NULL;
    case 1u << HTTP_M_POST: return "POST";
    case 1u << HTTP_M_GET: return "GET, HEAD";
    case 1u << HTTP_M_GET | 1u << HTTP_M_POST: return "GET, HEAD, POST";
    case 1u << HTTP_M_GET | 1u << HTTP_M_PUT | 1u << HTTP_M_DELETE: return "GET, HEAD, PUT, DELETE";
    default: return "GET, HEAD, PATCH, DELETE";
    }
}

static const struct route *find_route(struct call *call, enum http_method method,
                                      const struct bytes *parts, unsigned count)
{
    if (method == HTTP_M_HEAD)
        method = HTTP_M_GET;
    for (unsigned i = 0; i < ROUTE_COUNT; i++) {
        if (routes[i].method == method && is_route(&routes[i], parts, count))
            return &routes[i];
    }
    const char *allow = allowed_methods(parts, count);
    if (allow) {
        api_refuse_call(call, 405, "method_not_allowed", "this path takes only ");
        api_problem_add(&call->problem, allow);
    } else {
        api_refuse_call(call, 404, "no_such_path",
                        "there is no such call; GET /v1/openapi.json lists all there are");
    }
    call->problem.allow = allow;
    return NULL;
}

/* Is the Content-Type this media type, with parameters or without? */
static bool is_type(struct bytes content_type, struct bytes media)
{
    if (!bytes_starts_nocase(content_type, media))
        return false;
    char next = content_type.len > media.len ? content_type.at[media.len] : ';';
    return next == ';' || next == ' ' || next == '\t';
}

bool v1_is_ndjson(struct bytes content_type)
{
    return is_type(content_type, BYTES("application/x-ndjson")) ||
           is_type(content_type, BYTES("application/ndjson")) ||
           is_type(content_type, BYTES("application/jsonl"));
}

/*
 * What curl and browsers send unasked (form data, plain text) is refused: a page in a browser may
 * send just these to any address without asking, so they must not do anything here.
 */
static bool may_read(const struct v1_call *v1)
{
    struct bytes type = v1->request->content_type;
    if (v1->request->body.len == 0 || is_type(type, BYTES("")) ||
        is_type(type, BYTES("application/json")) || (v1->kind == CMD_PUSH && v1_is_ndjson(type)))
        return true;
    return api_refuse(v1->input.problem, 415, "unsupported_media_type", "",
                      "the body must be JSON: send it with Content-Type: application/json");
}

/* A compressed body would be refused as JSON that is wrong, which helps nobody. */
static bool is_uncompressed(const struct v1_call *v1)
{
    if (v1->request->body.len == 0 || !v1->request->compressed)
        return true;
    return api_refuse(v1->input.problem, 415, "unsupported_media_type", "",
                      "the body has a Content-Encoding that compresses: send it as it is");
}

/* No call has more parameters than are kept here: behind so many there is one that the decoders
   refuse as unknown. */
static bool names_differ(const struct v1_call *v1)
{
    enum { NAMES = 8 };
    struct bytes rest = v1->request->query, names[NAMES], value;
    for (unsigned count = 0; count < NAMES && http_query_next(&rest, &names[count], &value);
         count++) {
        for (unsigned i = 0; i < count; i++) {
            if (bytes_eq(names[i], names[count]))
                return api_refuse_name(v1->input.problem, names[count], "bad_parameter",
                                       "this parameter was given twice");
        }
    }
    return true;
}

static bool has_query_for(const struct v1_call *v1)
{
    if (v1->request->query.len == 0 || v1->kind == CMD_TOPICS || v1->kind == CMD_LIST ||
        v1->kind == CMD_REMOVE_TOPIC || v1->kind == CMD_CONFIGURE_TOPIC || v1->kind == CMD_DUE)
        return names_differ(v1); /* their decoders look at the rest */
    struct bytes rest = v1->request->query, name = {0}, value;
    (void)http_query_next(&rest, &name, &value); /* without one it is refused as well */
    return api_refuse_name(v1->input.problem, name, "unknown_parameter",
                           "this call takes no query parameters");
}

/* The topic or id in the path. */
static bool read_part(struct v1_call *v1, struct bytes raw)
{
    bool is_job = cmd_traits(v1->kind)->subject == CMD_ON_JOB;
    const char *field = is_job ? "id" : "topic";
    if (!api_unescape_path(raw, v1->input.scratch, &v1->part))
        return api_refuse(v1->input.problem, 400, "bad_path", field,
                          "the path has a percent sign without two hex digits, or a NUL");
    if (is_job) {
        struct job_ref ref;
        return (job_ref_parse(v1->part, &ref) && bytes_is_utf8(v1->part)) ||
               api_refuse(v1->input.problem, 400, "bad_path", field,
                          "an id is 1 … 255 bytes of UTF-8");
    }
    const char *flaw = api_topic_flaw(v1->part);
    if (!flaw)
        return true;
    api_problem_set(v1->input.problem, 400, "bad_path", field, "the topic ");
    api_problem_add(v1->input.problem, flaw);
    return false;
}

void v1_decode(const struct api_input *input, struct call *call)
{
    struct bytes parts[PARTS_MAX];
    unsigned count = cut_path(input->request->path, parts);
    const struct route *route = find_route(call, input->request->method, parts, count);
    if (!route)
        return;
    struct v1_call v1 = {
        .input = {.limits = input->limits,
                  .now_us = input->now_us,
                  .scratch = input->scratch,
                  .problem = &call->problem},
        .request = input->request,
        .kind = route->kind,
        .call = call,
    };
    call->cmd.kind = route->kind;
    if (!may_read(&v1) || !is_uncompressed(&v1) || !has_query_for(&v1) ||
        (count > 1 && !read_part(&v1, parts[1])) || !route->decode(&v1))
        call->kind = CALL_PROBLEM;
}
