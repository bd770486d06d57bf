/* Commands on topics, and the two lists with their cursors. */
#include "base/rfc3339.h"
#include "proto/api/v1.h"
#include "proto/base64.h"
#include "proto/settings/topic_settings.h"

enum { LIST_LIMIT = 100 }; /* entries of a page by default */

/* ---- parameters of the query ---- */

static bool bad_parameter(const struct v1_call *v1, const char *name, const char *detail)
{
    return api_refuse(v1->input.problem, 400, "bad_parameter", name, detail);
}

static bool read_boolean(const struct v1_call *v1, const char *name, struct bytes value,
                         bool *out_is)
{
    bool yes = bytes_eq(value, BYTES("true"));
    if (!yes && !bytes_eq(value, BYTES("false")))
        return bad_parameter(v1, name, "this must be true or false");
    *out_is = yes;
    return true;
}

/* For a query that may have this parameter alone; *is stays what it is if it has none. */
static bool read_only_boolean(const struct v1_call *v1, const char *name, bool *is)
{
    struct bytes rest = v1->request->query, given, value;
    while (http_query_next(&rest, &given, &value)) {
        if (!bytes_eq(given, bytes_str(name))) {
            (void)api_refuse_name(v1->input.problem, given, "unknown_parameter",
                                  "the parameter here is ");
            api_problem_add(v1->input.problem, name);
            return false;
        }
        if (!read_boolean(v1, name, value, is))
            return false;
    }
    return true;
}

/* ---- settings, and the version that they must have ---- */

static bool bad_header(const struct v1_call *v1, const char *name)
{
    return api_refuse(v1->input.problem, 400, "bad_header", name,
                      "this must be the version that an answer gave as ETag, in its quotes, such "
                      "as \"17\"; If-None-Match: * is for settings that are not there yet");
}

/* If-Match: "17", or If-None-Match: *. */
static bool read_condition(const struct v1_call *v1, struct cmd_topic *topic)
{
    struct bytes match = v1->request->if_match;
    if (v1->request->if_none_match.len) {
        topic->if_version = true;
        topic->version = 0;
        v1->call->format.variant = V1_FIRST;
        return bytes_eq(v1->request->if_none_match, BYTES("*")) || bad_header(v1, "If-None-Match");
    }
    if (match.len == 0)
        return true;
    topic->if_version = true;
    return (match.len > 2 && match.at[0] == '"' && match.at[match.len - 1] == '"' &&
            bytes_to_u64(bytes_of(match.at + 1, match.len - 2), &topic->version)) ||
           bad_header(v1, "If-Match");
}

/* A longer ttr would be cut at each push. One that was set before the limit was lowered must not
 * keep anybody from pausing the topic's target. */
static bool ttr_fits(const struct v1_call *v1, const struct topic_settings *settings)
{
    char room[DURATION_ROOM];
    int64_t most_us = v1->input.limits->ttr_max_us;
    if (settings->ttr_us <= most_us || settings->paused)
        return true;
    (void)api_refuse(v1->input.problem, 400, "bad_field", "ttr",
                     "the ttr is over limits.ttr_seconds");
    v1->input.problem->config_key = "limits.ttr_seconds";
    api_problem_addf(v1->input.problem, ", which is %s", duration_print(most_us, room));
    return false;
}

bool v1_decode_configure(const struct v1_call *v1)
{
    static const struct bytes nothing = {"{}", 2};
    struct cmd_topic topic = {.topic = v1->part};
    struct topic_settings settings;
    struct settings_problem problem;
    struct buf text = {0};
    if (v1->request->body.len == 0)
        return api_refuse(v1->input.problem, 400, "missing_body", "",
                          "send the settings as JSON, such as {\"retry\":\"alipay\"}; {} takes "
                          "them away");
    v1->call->probes = true; /* unless the client takes what does not exist yet, too */
    if (!read_only_boolean(v1, "check_secrets", &v1->call->probes) || !read_condition(v1, &topic))
        return false;
    if (topic_settings_read(v1->request->body, v1->input.scratch, &settings, &problem))
        return v1_refuse_settings(v1->input.problem, &problem);
    if (!ttr_fits(v1, &settings))
        return false;
    topic_settings_write(&settings, &text);
    if (!bytes_eq(buf_bytes(&text), nothing))
        topic.settings = arena_copy(v1->input.scratch, buf_bytes(&text));
    buf_fini(&text);
    v1->call->cmd.topic = topic;
    v1->call->probes &= !settings.paused; /* nothing is sent: bad days are no reason to refuse it */
    if (topic.settings.len > TOPIC_SETTINGS_MAX) {
        (void)api_refuse(v1->input.problem, 400, "settings_too_large", "", "");
        api_problem_addf(v1->input.problem, "the settings have %zu bytes, the limit is %d",
                         topic.settings.len, TOPIC_SETTINGS_MAX);
        return false;
    }
    return true;
}

/* DELETE: ?if_empty=true, and If-Match. */
static bool read_removal(const struct v1_call *v1, struct cmd_topic *topic)
{
    return read_only_boolean(v1, "if_empty", &topic->if_empty) && read_condition(v1, topic);
}

bool v1_decode_replay(const struct v1_call *v1)
{
    uint64_t allowed =
        V1_BIT(V1_CODES) | V1_BIT(V1_FROM) | V1_BIT(V1_TO) | V1_BIT(V1_SINCE) | V1_BIT(V1_KICKS);
    struct v1_fields fields;
    if (!v1_read_body(&v1->input, v1->request->body, allowed, &fields))
        return false;
    bool from = v1_given(&fields, V1_FROM) || v1_given(&fields, V1_SINCE);
    v1->call->kind = CALL_REPLAY;
    v1->call->replay = (struct api_replay){
        .topic = v1->part,
        .has_code = v1_given(&fields, V1_CODES),
        .code_first = fields.code_first,
        .code_last = fields.code_last,
        .has_time = from || v1_given(&fields, V1_TO),
        .from_us = fields.from_us,
        .to_us = v1_given(&fields, V1_TO) ? fields.to_us : INT64_MAX,
        .max = v1_given(&fields, V1_KICKS) ? fields.max : v1->input.limits->batch_jobs,
    };
    return true;
}

bool v1_decode_topic(const struct v1_call *v1)
{
    uint64_t allowed = 0;
    struct v1_fields fields;
    if (v1->kind == CMD_PAUSE)
        allowed = V1_BIT(V1_FOR) | V1_BIT(V1_CREATE);
    else if (v1->kind == CMD_KICK_TOPIC)
        allowed = V1_BIT(V1_MAX);
    else if (v1->kind == CMD_CLEAR_TOPIC)
        allowed = V1_BIT(V1_MAX) | V1_BIT(V1_STATE);
    if (!v1_read_body(&v1->input, v1->request->body, allowed, &fields))
        return false;
    if (v1->kind == CMD_CLEAR_TOPIC && !v1_given(&fields, V1_STATE))
        return api_refuse(v1->input.problem, 400, "missing_field", "state",
                          "clear needs the state whose jobs to delete, or \"all\"");
    if (v1->kind == CMD_REMOVE_TOPIC || (v1->kind == CMD_CLEAR_TOPIC && fields.state == JOB_GONE))
        v1->call->kind = CALL_CLEAR;
    v1->call->cmd.topic = (struct cmd_topic){
        .topic = v1->part,
        .max = v1_given(&fields, V1_MAX) ? fields.max : v1->input.limits->batch_jobs,
        .must_exist = v1->kind == CMD_PAUSE && !fields.create,
        .state = v1->kind == CMD_KICK_TOPIC ? JOB_BURIED : fields.state,
        .pause_until_us = v1_given(&fields, V1_FOR) ? v1->input.now_us + fields.for_us : INT64_MAX,
    };
    return v1->kind != CMD_REMOVE_TOPIC || read_removal(v1, &v1->call->cmd.topic);
}

/* ---- lists ---- */

static bool bad_limit(const struct v1_call *v1, bool too_many)
{
    (void)bad_parameter(v1, "limit", "this must be 1 … limits.batch_jobs");
    v1->input.problem->config_key = too_many ? "limits.batch_jobs" : NULL;
    api_problem_addf(v1->input.problem, ", which is %u", v1->input.limits->batch_jobs);
    return false;
}

bool v1_refuse_cursor(struct problem *problem)
{
    return api_refuse(problem, 400, "bad_parameter", "cursor",
                      "this is not a cursor of this listing, from a page with the same topic, "
                      "state and order: begin again without a cursor");
}

/* A listing of topics continues behind a name; a listing of jobs at the engine's cursor. */
static bool read_cursor(const struct v1_call *v1, struct bytes text, struct cmd_topic *topic)
{
    if (v1->kind == CMD_LIST)
        return (text.len && base64url_read(text, v1->input.scratch, &topic->cursor)) ||
               v1_refuse_cursor(v1->input.problem);
    if (api_topic_flaw(text) != NULL)
        return bad_parameter(v1, "cursor", "this is not a cursor from an earlier page");
    topic->topic = text;
    return true;
}

static bool read_parameter(const struct v1_call *v1, struct bytes name, struct bytes value,
                           struct cmd_topic *topic)
{
    bool jobs = v1->kind == CMD_LIST;
    uint64_t limit;
    if (bytes_eq(name, BYTES("limit"))) {
        bool number = bytes_to_u64(value, &limit);
        if (!number || limit < 1 || limit > v1->input.limits->batch_jobs)
            return bad_limit(v1, number && limit > 0);
        topic->max = (uint32_t)limit;
    } else if (bytes_eq(name, BYTES("cursor"))) {
        return read_cursor(v1, value, topic);
    } else if (jobs && bytes_eq(name, BYTES("properties"))) {
        bool wanted;
        if (!read_boolean(v1, "properties", value, &wanted))
            return false;
        v1->call->kind = wanted ? CALL_LIST : CALL_CMD;
    } else if (jobs && bytes_eq(name, BYTES("order"))) {
        topic->backwards = bytes_eq(value, BYTES("desc"));
        if (!topic->backwards && !bytes_eq(value, BYTES("asc")))
            return bad_parameter(v1, "order", "this must be asc or desc");
    } else if (jobs && bytes_eq(name, BYTES("state"))) {
        if (!v1_read_state(value, &topic->state))
            return bad_parameter(v1, "state",
                                 "the state must be delayed, ready, reserved or buried");
    } else {
        return api_refuse_name(
            v1->input.problem, name, "unknown_parameter",
            jobs ? "the parameters here are state, order, cursor, limit and properties"
                 : "the parameters here are cursor and limit");
    }
    return true;
}

bool v1_decode_list(const struct v1_call *v1)
{
    struct bytes rest = v1->request->query, name, value;
    struct v1_fields none;
    struct cmd_topic topic = {.topic = v1->part, .max = LIST_LIMIT, .state = JOB_DELAYED};
    if (topic.max > v1->input.limits->batch_jobs)
        topic.max = v1->input.limits->batch_jobs;
    if (!v1_read_body(&v1->input, v1->request->body, 0, &none))
        return false;
    while (http_query_next(&rest, &name, &value)) {
        if (!api_unescape_query(value, v1->input.scratch, &value))
            return api_refuse_name(v1->input.problem, name, "bad_parameter",
                                   "this has a percent sign without two hex digits");
        if (!read_parameter(v1, name, value, &topic))
            return false;
    }
    v1->call->cmd.topic = topic;
    return true;
}

/* ---- counts of due jobs ---- */

static bool bad_within(const struct v1_call *v1)
{
    return bad_parameter(v1, "within",
                         "this must be 1 … 64 durations with commas between them, none shorter "
                         "than the one in front of it, such as 1m,1h,30d");
}

static bool read_within(const struct v1_call *v1, struct bytes text, struct cmd_topic *topic)
{
    int64_t *until_us = arena_alloc(v1->input.scratch, DUE_TIMES_MAX * sizeof(*until_us));
    topic->until_us = until_us;
    topic->until_count = 0;
    for (size_t at = 0; at <= text.len;) {
        size_t end = at;
        int64_t span_us;
        while (end < text.len && text.at[end] != ',')
            end++;
        if (topic->until_count == DUE_TIMES_MAX ||
            !duration_read(bytes_of(text.at + at, end - at), &span_us))
            return bad_within(v1);
        int64_t at_us = time_add(v1->input.now_us, span_us);
        if (topic->until_count && at_us < until_us[topic->until_count - 1])
            return bad_within(v1);
        until_us[topic->until_count++] = at_us;
        at = end + 1;
    }
    return true;
}

bool v1_decode_due(const struct v1_call *v1)
{
    struct bytes rest = v1->request->query, name, value;
    struct cmd_topic *topic = &v1->call->cmd.topic;
    struct v1_fields none;
    *topic = (struct cmd_topic){0};
    if (!v1_read_body(&v1->input, v1->request->body, 0, &none))
        return false;
    while (http_query_next(&rest, &name, &value)) {
        if (!bytes_eq(name, BYTES("within")))
            return api_refuse_name(v1->input.problem, name, "unknown_parameter",
                                   "the parameter here is within");
        if (!api_unescape_query(value, v1->input.scratch, &value) || !read_within(v1, value, topic))
            return bad_within(v1);
    }
    return topic->until_count > 0 || bad_within(v1);
}
