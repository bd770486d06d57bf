/* What /v1 answers: jobs, topics and problems as JSON. */
#include <stdio.h>

#include "base/rfc3339.h"
#include "proto/api/v1.h"
#include "proto/base64.h"
#include "proto/settings/header_codec.h"

enum { MILLISECOND_US = 1000, RETRY_SOON_S = 1, RETRY_LATER_S = 10 };

/* Room that is made for a job, without its body, at once. Most take less. */
enum { JOB_BYTES = 512 };

static const char json_type[] = "application/json";

/* ---- words ---- */

static void add_time(struct buf *out, const char *key, int64_t us)
{
    buf_add_str(out, key); /* ,"key":" */
    rfc3339_add(out, us);
    buf_add_char(out, '"');
}

static void add_number(struct buf *out, const char *key, int64_t number)
{
    buf_add_str(out, key); /* ,"key": */
    buf_add_i64(out, number);
}

static void add_milliseconds(struct buf *out, int64_t us)
{
    buf_add_i64(out, us / MILLISECOND_US);
    if (us % MILLISECOND_US) { /* 0.25 ms is 0.250, so that nothing is lost */
        int64_t rest = us % MILLISECOND_US;
        char digits[4] = {'.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10),
                          (char)('0' + rest % 10)};
        buf_add(out, digits, sizeof(digits));
    }
}

/* ---- jobs ---- */

static void add_body(struct buf *out, const struct job_view *job)
{
    if (job->body_kind == BODY_JSON) {
        buf_add_str(out, ",\"body\":");
        buf_add_bytes(out, job->body);
    } else if (bytes_is_utf8(job->body)) {
        buf_add_str(out, ",\"body\":");
        json_add_text(out, job->body, JSON_STYLE_PLAIN);
    } else {
        buf_add_str(out, ",\"body_base64\":\"");
        base64_write(out, job->body);
        buf_add_char(out, '"');
    }
    if (job->content_type.len) {
        buf_add_str(out, ",\"content_type\":");
        json_add_text(out, job->content_type, JSON_STYLE_PLAIN);
    }
}

/* In a form that a push takes again: milliseconds, or a string where those are not whole. */
static void add_retry(struct buf *out, const struct job_view *job)
{
    buf_add_str(out, ",\"retry\":[");
    for (unsigned i = 0; i < job->retry_count; i++) {
        int64_t wait_us = job->retry_us[i];
        if (i)
            buf_add_char(out, ',');
        if (wait_us % MILLISECOND_US == 0) {
            buf_add_i64(out, wait_us / MILLISECOND_US);
        } else {
            buf_add_char(out, '"');
            buf_add_i64(out, wait_us);
            buf_add_str(out, "us\"");
        }
    }
    buf_add_char(out, ']');
}

/* Appends the job's properties, in the form of a push. */
static void add_properties(struct buf *out, const struct job_view *job)
{
    struct arena scratch = {0};
    struct job_properties properties;
    if (job->properties.len == 0)
        return;
    if (job_properties_read(job->properties, &scratch, &properties, NULL) == OK) {
        if (properties.url.len)
            settings_add_text(out, "url", properties.url);
        if (properties.key.len)
            settings_add_text(out, "key", properties.key);
        if (properties.header_count) {
            settings_add_key(out, "headers");
            headers_write(properties.headers, properties.header_count, out);
        }
        if (properties.amqp.len)
            settings_add_base64(out, "amqp", properties.amqp);
        job_labels_write(&properties, true, out);
    }
    arena_fini(&scratch);
}

/* ---- failed attempts ---- */

static void add_note_fields(struct buf *out, const struct attempt_note *note, bool with_response)
{
    if (note->reason.len)
        settings_add_text(out, "reason", note->reason);
    if (note->address.len)
        settings_add_text(out, "address", note->address);
    if (note->took_us >= 0)
        settings_add_number(out, "ms", note->took_us / MILLISECOND_US);
    if (with_response && note->response.len && bytes_is_utf8(note->response)) {
        settings_add_text(out, "response", note->response);
    } else if (with_response && note->response.len) {
        buf_add_str(out, ",\"response_base64\":\"");
        base64_write(out, note->response);
        buf_add_char(out, '"');
    }
}

/* The response is for the list of attempts alone: it may be long. */
void v1_add_note(struct buf *out, struct bytes text, bool with_response)
{
    struct arena scratch = {0};
    struct attempt_note note;
    if (attempt_note_read(text, &scratch, &note) == OK)
        add_note_fields(out, &note, with_response);
    arena_fini(&scratch);
}

static void add_failure(struct buf *out, int64_t at_us, unsigned code, struct bytes text,
                        bool with_response)
{
    add_time(out, "{\"time\":\"", at_us);
    if (code)
        add_number(out, ",\"code\":", code);
    if (text.len)
        v1_add_note(out, text, with_response);
    buf_add_char(out, '}');
}

static void add_last_failure(struct buf *out, const struct job_view *job)
{
    struct bytes text = {0};
    if (!job->last_note_us)
        return;
    if (job->note_count)
        text = job->notes[job->note_count - 1].text;
    settings_add_key(out, "last_failure");
    add_failure(out, job->last_note_us, job->last_code, text, false);
}

/* What every answer about a job begins with; the brace stays open. */
static void add_job_head(struct buf *out, const struct job_view *job)
{
    buf_reserve(out, JOB_BYTES);
    buf_add_str(out, "{\"id\":");
    api_add_id(out, &job->ref, JSON_STYLE_PLAIN);
    if (job->topic.len) {
        buf_add_str(out, ",\"topic\":");
        json_add_text(out, job->topic, JSON_STYLE_PLAIN);
    }
    if (job->state != JOB_GONE) {
        buf_add_str(out, ",\"state\":\"");
        buf_add_str(out, job_state_name(job->state));
        buf_add_char(out, '"');
    }
    add_time(out, ",\"due\":\"", job->due_us);
    add_number(out, ",\"due_ms\":", job->due_us / MILLISECOND_US);
}

/* What all answers that show a job have of it; the brace stays open. */
static void add_job_members(struct buf *out, const struct job_view *job)
{
    add_job_head(out, job);
    add_number(out, ",\"priority\":", job->priority);
    buf_add_str(out, ",\"ttr_ms\":");
    add_milliseconds(out, job->ttr_us);
    add_time(out, ",\"created\":\"", job->created_us);
    add_number(out, ",\"attempt\":", job->attempt);
    add_number(out, ",\"failures\":", job->failures);
    if (job->state == JOB_RESERVED) {
        buf_add_str(out, ",\"lease\":\"");
        buf_add_u64(out, job->lease);
        buf_add_char(out, '"');
        add_time(out, ",\"deadline\":\"", job->until_us);
        add_number(out, ",\"deadline_ms\":", job->until_us / MILLISECOND_US);
    }
    if (job->retry_count)
        add_retry(out, job);
    add_last_failure(out, job);
}

static void add_job(struct buf *out, const struct job_view *job, bool with_body)
{
    if (with_body)
        buf_reserve(out, JOB_BYTES + job->body.len);
    add_job_members(out, job);
    if (with_body) {
        add_properties(out, job);
        add_body(out, job);
    } else {
        add_number(out, ",\"body_bytes\":", job->body_len);
    }
    buf_add_char(out, '}');
}

/* The failed attempts that are kept, oldest first. */
static void add_attempts(struct buf *out, const struct job_view *job)
{
    add_job_head(out, job);
    add_number(out, ",\"attempt\":", job->attempt);
    add_number(out, ",\"failures\":", job->failures);
    if (job->retry_count)
        add_retry(out, job);
    buf_add_str(out, ",\"attempts\":[");
    for (unsigned i = 0; i < job->note_count; i++) {
        const struct job_note *note = &job->notes[i];
        if (i)
            buf_add_char(out, ',');
        add_failure(out, note->at_us, note->code, note->text, true);
    }
    buf_add_str(out, "]}");
}

static void add_jobs(struct buf *out, const struct reply *reply, bool with_body)
{
    buf_add_str(out, "{\"jobs\":[");
    for (uint32_t i = 0; i < reply->count; i++) {
        if (i)
            buf_add_char(out, ',');
        add_job(out, &reply->jobs[i], with_body);
    }
    buf_add_char(out, ']');
}

static void end_list(struct buf *out, struct bytes cursor)
{
    if (cursor.len) {
        buf_add_str(out, ",\"cursor\":\"");
        base64url_write(out, cursor);
        buf_add_char(out, '"');
    }
    buf_add_char(out, '}');
}

static void add_list(struct buf *out, const struct reply *reply)
{
    add_jobs(out, reply, false);
    end_list(out, reply->cursor);
}

void api_list_job(struct buf *out, const struct job_view *job)
{
    add_job_members(out, job);
    add_properties(out, job);
    add_number(out, ",\"body_bytes\":", job->body_len);
    buf_add_char(out, '}');
}

static void add_pushed(struct buf *out, const struct reply *reply)
{
    add_job_head(out, &reply->jobs[0]);
    if (reply->jobs[0].retry_count)
        add_retry(out, &reply->jobs[0]);
    buf_add_str(out, reply->kept       ? ",\"result\":\"kept\"}"
                     : reply->replaced ? ",\"result\":\"replaced\"}"
                                       : ",\"result\":\"created\"}");
}

/* ---- topics ---- */

static void add_quantiles(struct buf *out, const struct lateness *lateness, enum lateness_span span,
                          int64_t now_us)
{
    enum { COUNT = 4 };
    static const char *const keys[COUNT] = {"{\"p50\":", ",\"p90\":", ",\"p99\":", ",\"p999\":"};
    static const unsigned per_mille[COUNT] = {500, 900, 990, 999};
    int64_t late_us[COUNT];
    lateness_quantiles_us(lateness, span, now_us, per_mille, late_us, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        buf_add_str(out, keys[i]);
        add_milliseconds(out, late_us[i]);
    }
    buf_add_char(out, '}');
}

void api_add_lateness(struct buf *out, const struct lateness *lateness, int64_t now_us)
{
    buf_add_str(out, ",\"lateness_ms\":{\"last_minute\":");
    add_quantiles(out, lateness, LATENESS_LAST_MINUTE, now_us);
    buf_add_str(out, ",\"all_time\":");
    add_quantiles(out, lateness, LATENESS_ALL_TIME, now_us);
    buf_add_char(out, '}');
}

/* Counts of ten seconds as rates a second. */
static void add_rates(struct buf *out, const struct topic_view *topic)
{
    const struct {
        const char *key;
        uint32_t count;
    } rates[] = {
        {",\"rates\":{\"pushed\":", topic->pushed_10s},
        {",\"reserved\":", topic->reserved_10s},
        {",\"finished\":", topic->finished_10s},
    };
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        buf_add_str(out, rates[i].key);
        buf_add_u64(out, rates[i].count / 10);
        buf_add_char(out, '.');
        buf_add_u64(out, rates[i].count % 10);
    }
    buf_add_char(out, '}');
}

static void add_topic(struct buf *out, const struct topic_view *topic, int64_t now_us)
{
    const struct {
        const char *key;
        uint64_t count;
    } counts[] = {
        {",\"delayed\":", topic->jobs[JOB_DELAYED]},
        {",\"ready\":", topic->jobs[JOB_READY]},
        {",\"reserved\":", topic->jobs[JOB_RESERVED]},
        {",\"buried\":", topic->jobs[JOB_BURIED]},
        {",\"waiters\":", topic->waiters},
        {",\"totals\":{\"pushed\":", topic->pushed},
        {",\"reserved\":", topic->reserved},
        {",\"finished\":", topic->finished},
        {",\"deleted\":", topic->deleted},
        {",\"timeouts\":", topic->timeouts},
        {",\"released\":", topic->released},
        {",\"buried\":", topic->buried},
        {",\"kicked\":", topic->kicked},
    };
    buf_add_str(out, "{\"name\":");
    json_add_text(out, topic->name, JSON_STYLE_PLAIN);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        buf_add_str(out, counts[i].key);
        buf_add_u64(out, counts[i].count);
    }
    buf_add_char(out, '}'); /* of the totals */
    add_rates(out, topic);
    buf_add_str(out, topic->pause_until_us ? ",\"paused\":true" : ",\"paused\":false");
    if (topic->pause_until_us && topic->pause_until_us != INT64_MAX)
        add_time(out, ",\"paused_until\":\"", topic->pause_until_us);
    if (topic->oldest_ready_us)
        add_time(out, ",\"oldest_ready\":\"", topic->oldest_ready_us);
    if (topic->next_due_us)
        add_time(out, ",\"next_due\":\"", topic->next_due_us);
    if (topic->lateness)
        api_add_lateness(out, topic->lateness, now_us);
    if (topic->held)
        settings_add_text(out, "held", bytes_str(topic->held));
    if (topic->held_by.len)
        settings_add_text(out, "held_by", topic->held_by);
    if (topic->settings.len) {
        settings_add_key(out, "settings");
        buf_add_bytes(out, topic->settings); /* it was checked when it was set */
        add_number(out, ",\"version\":", (int64_t)topic->version);
    }
    buf_add_char(out, '}');
}

static void add_topics(struct buf *out, const struct reply *reply, int64_t now_us)
{
    buf_add_str(out, "{\"topics\":[");
    for (uint32_t i = 0; i < reply->count; i++) {
        if (i)
            buf_add_char(out, ',');
        add_topic(out, &reply->topics[i], now_us);
    }
    buf_add_char(out, ']');
    if (reply->more && reply->count) {
        buf_add_str(out, ",\"cursor\":");
        json_add_text(out, reply->topics[reply->count - 1].name, JSON_STYLE_PLAIN);
    }
    buf_add_char(out, '}');
}

static void add_due(struct buf *out, const struct reply *reply)
{
    buf_add_str(out, "{\"due\":[");
    for (uint32_t i = 0; i < reply->count; i++) {
        if (i)
            buf_add_char(out, ',');
        add_time(out, "{\"until\":\"", reply->until_us[i]);
        add_number(out, ",\"until_ms\":", reply->until_us[i] / MILLISECOND_US);
        add_number(out, ",\"jobs\":", (int64_t)reply->due[i]);
        buf_add_char(out, '}');
    }
    buf_add_str(out, "]}");
}

/* ---- answers ---- */

static void add_changed(struct buf *out, const struct reply *reply)
{
    add_number(out, "{\"jobs\":", reply->count);
    buf_add_str(out, reply->more ? ",\"more\":true}" : ",\"more\":false}");
}

static void add_removed(struct buf *out, const struct reply *reply)
{
    add_number(out, "{\"jobs\":", reply->count);
    buf_add_str(out, reply->more ? ",\"removed\":false}" : ",\"removed\":true}");
}

/* The answer's body; nothing for a command that is answered 204. */
static void add_answer(struct buf *out, const struct reply *reply, enum cmd_kind kind,
                       int64_t now_us)
{
    switch (kind) {
    case CMD_PUSH: add_pushed(out, reply); break;
    case CMD_RESERVE:
        add_jobs(out, reply, true);
        buf_add_char(out, '}');
        break;
    case CMD_RELEASE:
    case CMD_TOUCH:
    case CMD_BURY:
    case CMD_KICK:
    case CMD_RUN:
    case CMD_RESCHEDULE:
        if (reply->count)
            add_job(out, &reply->jobs[0], false);
        break;
    case CMD_RESERVE_JOB:
    case CMD_PEEK:
    case CMD_GET: add_job(out, &reply->jobs[0], true); break;
    case CMD_KICK_TOPIC:
    case CMD_CLEAR_TOPIC: add_changed(out, reply); break;
    case CMD_REMOVE_TOPIC: add_removed(out, reply); break;
    case CMD_TOPICS: add_topics(out, reply, now_us); break;
    case CMD_TOPIC: add_topic(out, &reply->topics[0], now_us); break;
    case CMD_LIST: add_list(out, reply); break;
    case CMD_DUE: add_due(out, reply); break;
    case CMD_CONFIGURE_TOPIC:
        add_number(out, "{\"version\":", (int64_t)reply->version);
        buf_add_char(out, '}');
        break;
    case CMD_FINISH:
    case CMD_DELETE:
    case CMD_PAUSE:
    case CMD_RESUME: break;
    }
}

/* Which state the command wants, and what to do in another. */
static const char *wanted_state(enum cmd_kind kind)
{
    static const char *const texts[CMD_KINDS] = {
        [CMD_FINISH] = "only a reserved job can be finished; DELETE takes it from any state",
        [CMD_RELEASE] = "only a reserved job can be released; reserve it first",
        [CMD_TOUCH] = "only a reserved job can be touched; reserve it first",
        [CMD_BURY] = "only a reserved job can be buried; reserve it first",
        [CMD_KICK] = "only a buried or delayed job can be kicked; a holder can release it",
        [CMD_RUN] = "only a delayed job can be run now; kick a buried one",
        [CMD_RESCHEDULE] =
            "only a delayed job can be changed; push it again with \"if_exists\":\"replace\"",
    };
    return texts[kind] ? texts[kind] : err_text(ERR_WRONG_STATE);
}

/* The settings are not the ones that the request named; the reply has the version of those that are
 * there. */
static void add_version(struct problem *problem, bool first, uint64_t version)
{
    api_problem_set(problem, problem->status, problem->code, "",
                    first     ? "the topic has settings already"
                    : version ? "the settings do not have the version that If-Match names"
                              : "the topic has no settings, and If-Match names a version");
    if (version)
        api_problem_addf(problem,
                         "; their version is %llu now: read them, and send that in If-Match",
                         (unsigned long long)version);
}

static struct problem problem_of(const struct response_format *format, const struct reply *reply,
                                 enum cmd_kind kind)
{
    enum err err = reply->err;
    struct problem problem;
    api_problem_of(&problem, format->limits, reply);
    bool of_job = cmd_traits(kind)->subject == CMD_ON_JOB;
    if (err == ERR_NOT_FOUND)
        api_problem_set(&problem, problem.status, problem.code, "",
                        of_job ? "no such job" : "no such topic");
    if (err == ERR_NOT_FOUND && kind == CMD_GET && format->variant == V1_HISTORY)
        api_problem_set(&problem, problem.status, problem.code, "",
                        "nothing is known of such a job: it never was, or what happened to it is "
                        "older than store.history");
    if (err == ERR_NOT_FOUND && kind == CMD_PAUSE)
        api_problem_set(&problem, problem.status, problem.code, "",
                        "there is no such topic: push a job to it first, or pause it with "
                        "\"create\":true");
    if (err == ERR_WRONG_STATE) {
        api_problem_set(&problem, problem.status, problem.code, "", "the job is ");
        api_problem_add(&problem, job_state_name(reply->state));
        api_problem_add(&problem, ": ");
        api_problem_add(&problem, wanted_state(kind));
    }
    if (err == ERR_NOT_EMPTY)
        api_problem_set(&problem, problem.status, problem.code, "",
                        "the topic holds jobs: leave out if_empty to delete them, too");
    if (err == ERR_VERSION)
        add_version(&problem, format->variant == V1_FIRST, reply->version);
    if (err == ERR_INVALID && kind == CMD_LIST) /* all else was checked before */
        (void)v1_refuse_cursor(&problem);
    problem.err = err;
    return problem;
}

/* May the character be in a path unescaped (RFC 3986, 2.3)? */
static bool is_unreserved(char c)
{
    char letter = (char)(c | 0x20);
    return (letter >= 'a' && letter <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_' || c == '~' || c == '@';
}

/* The path of a pushed job, for the Location header. */
static void add_location(struct buf *out, const struct job_ref *ref)
{
    static const char hex[] = "0123456789ABCDEF";
    char room[JOB_TEXT_ID_MAX];
    struct bytes id = job_ref_text(ref, room);
    buf_add_bytes(out, BYTES("/v1/jobs/"));
    while (id.len) {
        size_t plain = 0;
        while (plain < id.len && is_unreserved(id.at[plain]))
            plain++;
        buf_add(out, id.at, plain);
        id = bytes_of(id.at + plain, id.len - plain);
        if (id.len) {
            unsigned char c = (unsigned char)id.at[0];
            char escape[3] = {'%', hex[c >> 4], hex[c & 15]};
            buf_add(out, escape, sizeof(escape));
            id = bytes_of(id.at + 1, id.len - 1);
        }
    }
}

/* 201. The location is written behind the body, which saves a buffer. */
static void send_created(const struct api_output *output, const struct job_ref *ref,
                         struct buf *body)
{
    const struct response_format *format = output->format;
    size_t len = body->len;
    add_location(body, ref);
    struct http_response response = {
        .status = 201,
        .content_type = json_type,
        .location = bytes_of(body->at + len, body->len - len),
        .close = format->close,
        .http10_keep_alive = format->http10 && !format->close,
        .date = output->date,
    };
    http_respond(output->out, &response, bytes_of(body->at, len));
}

/* 200, with the version of a topic's settings. */
static void send_versioned(const struct api_output *output, uint64_t version, struct bytes body)
{
    const struct response_format *format = output->format;
    char etag[24];
    int len = snprintf(etag, sizeof(etag), "\"%llu\"", (unsigned long long)version);
    struct http_response response = {
        .status = 200,
        .content_type = json_type,
        .etag = bytes_of(etag, version ? (size_t)len : 0),
        .close = format->close,
        .http10_keep_alive = format->http10 && !format->close,
        .head_only = format->head_only,
        .date = output->date,
    };
    http_respond(output->out, &response, body);
}

void v1_reply(const struct api_output *output, const struct reply *reply, int64_t now_us)
{
    enum cmd_kind kind = (enum cmd_kind)output->format->cmd;
    struct buf *body = output->body;
    body->len = 0;
    if (reply->err == ERR_EMPTY && kind == CMD_RESERVE) {
        api_send(output, 204, NULL, bytes_of(NULL, 0));
        return;
    }
    if (reply->err != OK) {
        struct problem problem = problem_of(output->format, reply, kind);
        v1_problem(output, &problem);
        return;
    }
    if (kind == CMD_GET && output->format->variant == V1_ATTEMPTS)
        add_attempts(body, &reply->jobs[0]);
    else if (kind == CMD_GET && output->format->variant == V1_HISTORY)
        v1_add_history(body, reply, now_us);
    else
        add_answer(body, reply, kind, now_us);
    if (kind == CMD_CONFIGURE_TOPIC || kind == CMD_TOPIC)
        send_versioned(output, kind == CMD_TOPIC ? reply->topics[0].version : reply->version,
                       buf_bytes(body));
    else if (body->len == 0)
        api_send(output, 204, NULL, bytes_of(NULL, 0));
    else if (kind == CMD_PUSH && !reply->kept)
        send_created(output, &reply->jobs[0].ref, body);
    else
        api_send(output, 200, json_type, buf_bytes(body));
}

void api_test_reply(const struct response_format *format, const struct api_test_result *result,
                    struct bytes date, struct buf *out)
{
    struct api_output output = {.format = format, .date = date, .out = out};
    struct buf body = {0};
    buf_add_str(&body, "{\"outcome\":\"");
    buf_add_str(&body, result->outcome);
    buf_add_char(&body, '"');
    if (result->code)
        add_number(&body, ",\"code\":", result->code);
    add_note_fields(&body, &result->note, true);
    buf_add_char(&body, '}');
    api_send(&output, 200, json_type, buf_bytes(&body));
    buf_fini(&body);
}

void api_replay_reply(const struct response_format *format, const struct replay_counts *counts,
                      struct bytes date, struct buf *out)
{
    struct api_output output = {.format = format, .date = date, .out = out};
    struct buf body = {0};
    add_number(&body, "{\"looked_at\":", (int64_t)counts->looked_at);
    add_number(&body, ",\"kicked\":", (int64_t)counts->kicked);
    buf_add_str(&body, counts->more ? ",\"more\":true}" : ",\"more\":false}");
    api_send(&output, 200, json_type, buf_bytes(&body));
    buf_fini(&body);
}

/* ---- problems ---- */

static void add_problem(struct buf *out, const struct problem *problem)
{
    buf_add_str(out, "{\"type\":\"about:blank\",\"title\":");
    json_add_text(out, http_status_text(problem->status), JSON_STYLE_PLAIN);
    add_number(out, ",\"status\":", problem->status);
    buf_add_str(out, ",\"code\":");
    json_add_text(out, bytes_str(problem->code), JSON_STYLE_PLAIN);
    if (problem->field[0]) {
        buf_add_str(out, ",\"field\":");
        json_add_text(out, bytes_str(problem->field), JSON_STYLE_PLAIN);
    }
    if (problem->config_key) {
        buf_add_str(out, ",\"config_key\":");
        json_add_text(out, bytes_str(problem->config_key), JSON_STYLE_PLAIN);
    }
    buf_add_str(out, ",\"detail\":");
    json_add_text(out, bytes_str(problem->detail), JSON_STYLE_PLAIN);
    buf_add_char(out, '}');
}

void v1_problem(const struct api_output *output, const struct problem *problem)
{
    const struct response_format *format = output->format;
    struct buf body = {0};
    add_problem(&body, problem);
    struct http_response response = {
        .status = problem->status,
        .content_type = "application/problem+json",
        .close = format->close,
        .http10_keep_alive = format->http10 && !format->close,
        .head_only = format->head_only,
        .date = output->date,
    };
    if (problem->status == 429)
        response.retry_after_s = RETRY_SOON_S;
    else if (problem->status == 503)
        response.retry_after_s = problem->err == ERR_STORE_FAILED ? RETRY_LATER_S : RETRY_SOON_S;
    if (problem->allow)
        response.allow = bytes_str(problem->allow);
    http_respond(output->out, &response, buf_bytes(&body));
    buf_fini(&body);
}

/* ---- batches ---- */

void api_batch_result(const struct response_format *format, struct buf *results,
                      const struct reply *reply, const struct problem *problem)
{
    struct problem engine;
    if (results->len)
        buf_add_char(results, ',');
    if (!problem && reply->err != OK) {
        engine = problem_of(format, reply, reply->kind);
        problem = &engine;
    }
    if (problem) {
        add_number(results, "{\"status\":", problem->status);
        buf_add_str(results, ",\"problem\":");
        add_problem(results, problem);
    } else if (reply->kind == CMD_FINISH) {
        add_number(results, "{\"status\":", 204);
    } else if (reply->kind == CMD_GET) {
        add_number(results, "{\"status\":", 200);
        buf_add_str(results, ",\"job\":");
        add_job(results, &reply->jobs[0], true);
    } else {
        add_number(results, "{\"status\":", reply->kept ? 200 : 201);
        buf_add_str(results, ",\"job\":");
        add_pushed(results, reply);
    }
    buf_add_char(results, '}');
}

void api_batch_reply(const struct response_format *format, struct bytes results, uint32_t failed,
                     struct bytes date, struct buf *out)
{
    struct api_output output = {.format = format, .date = date, .out = out};
    struct buf body = {0};
    add_number(&body, "{\"failed\":", failed);
    buf_add_str(&body, ",\"results\":[");
    buf_add_bytes(&body, results);
    buf_add_str(&body, "]}");
    api_send(&output, 200, json_type, buf_bytes(&body));
    buf_fini(&body);
}

void api_list_reply(const struct response_format *format, struct bytes jobs, struct bytes cursor,
                    struct bytes date, struct buf *out)
{
    struct api_output output = {.format = format, .date = date, .out = out};
    struct buf body = {0};
    buf_add_str(&body, "{\"jobs\":[");
    buf_add_bytes(&body, jobs);
    buf_add_char(&body, ']');
    end_list(&body, cursor);
    api_send(&output, 200, json_type, buf_bytes(&body));
    buf_fini(&body);
}

void v1_restored(const struct api_output *output, const struct api_restored *restored)
{
    struct buf body = {0};
    add_number(&body, "{\"rows\":", (int64_t)restored->rows);
    add_number(&body, ",\"created\":", (int64_t)restored->created);
    add_number(&body, ",\"kept\":", (int64_t)restored->kept);
    add_number(&body, ",\"refused\":", (int64_t)restored->refused);
    add_number(&body, ",\"ms\":", restored->took_us / MILLISECOND_US);
    buf_add_char(&body, '}');
    api_send(output, 200, json_type, buf_bytes(&body));
    buf_fini(&body);
}
