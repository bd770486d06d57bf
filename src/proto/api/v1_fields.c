/* Reads each field of a request's JSON, with its own refusal; v1_object.c has the object around. */
#include <string.h>

#include "base/rfc3339.h"
#include "proto/api/topic_list.h"
#include "proto/api/v1.h"
#include "proto/base64.h"
#include "proto/settings/attempt_note.h"
#include "proto/settings/header_codec.h"
#include "proto/settings/schedule.h"
#include "proto/settings/settings_reader.h"
#include "proto/settings/target_codec.h"
#include "proto/settings/target_url.h"

enum { MILLISECOND_US = 1000, V1_KICKS_MAX = 1000000 };

static bool bad(const struct v1_reader *reader, const char *detail)
{
    return api_refuse(reader->input->problem, 400, "bad_field", reader->name, detail);
}

/* The same with the limit's value behind it. `key`: of the configuration, or NULL. */
static bool bad_limit(const struct v1_reader *reader, const char *detail, const char *key,
                      uint32_t limit)
{
    (void)bad(reader, detail);
    reader->input->problem->config_key = key;
    api_problem_addf(reader->input->problem, ", which is %u", limit);
    return false;
}

static bool bad_time_limit(const struct v1_reader *reader, const char *detail, const char *key,
                           int64_t limit_us)
{
    char room[DURATION_ROOM];
    (void)bad(reader, detail);
    reader->input->problem->config_key = key;
    api_problem_addf(reader->input->problem, ", which is %s", duration_print(limit_us, room));
    return false;
}

/* A flaw as api_id_flaw() names it, after the words "the id ". */
static bool bad_part(const struct v1_reader *reader, const char *subject, const char *flaw)
{
    (void)bad(reader, subject);
    api_problem_add(reader->input->problem, flaw);
    return false;
}

static bool read_string(const struct v1_reader *reader, struct bytes *out_text)
{
    if (reader->value->kind != JSON_KIND_STRING)
        return bad(reader, "this must be a string");
    *out_text = json_text(reader->value, reader->input->scratch);
    return true;
}

static bool read_duration(const struct v1_reader *reader, int64_t *out_us)
{
    return settings_duration_value(reader->value, reader->input->scratch, out_us) ||
           bad(reader, SETTINGS_DURATION_WANTED);
}

static bool read_count(const struct v1_reader *reader, int64_t least, int64_t most, uint32_t *out)
{
    int64_t number;
    if (!json_int(reader->value, &number) || number < least || number > most)
        return false;
    *out = (uint32_t)number;
    return true;
}

/* ---- the fields ---- */

static bool read_id(const struct v1_reader *reader)
{
    if (!read_string(reader, &reader->fields->id))
        return false;
    const char *flaw = api_id_flaw(reader->fields->id);
    return !flaw || bad_part(reader, "the id ", flaw);
}

static bool read_delay(const struct v1_reader *reader)
{
    int64_t delay_us;
    if (v1_given(reader->fields, V1_DUE) || v1_given(reader->fields, V1_LEVEL))
        return bad(reader, "delay, due and level exclude each other");
    if (!read_duration(reader, &delay_us))
        return false;
    if (delay_us > RFC3339_MAX_US - reader->input->now_us)
        return bad(reader, "this is past the year 9999");
    reader->fields->due_us = reader->input->now_us + delay_us;
    return true;
}

/* Times that were probably sent in seconds (2001 to 5138); as milliseconds they are in 1970. */
#define SECONDS_SINCE_MIN INT64_C(1000000000)
#define SECONDS_SINCE_MAX INT64_C(100000000000)

/*
 * An RFC 3339 time, or whole milliseconds since 1970. Numbers of the first days of 1970 are a year,
 * or a duration, that a client has sent as a time: they are refused, but for 0. `hint` says where a
 * duration goes.
 */
static bool read_time(const struct v1_reader *reader, const char *hint, int64_t *out_us)
{
    int64_t ms;
    if (reader->value->kind == JSON_KIND_STRING) {
        if (rfc3339_read(json_text(reader->value, reader->input->scratch), out_us))
            return true;
    } else if (!json_int(reader->value, &ms)) {
        /* refused below */
    } else if (ms > 0 && ms < SECONDS_SINCE_MIN) {
        (void)bad(reader, "");
        api_problem_addf(reader->input->problem,
                         "%lld would be a time in January 1970: times are RFC 3339 such as "
                         "\"2030-01-31T08:00:00Z\", or milliseconds since 1970%s",
                         (long long)ms, hint);
        return false;
    } else if (ms >= SECONDS_SINCE_MIN && ms < SECONDS_SINCE_MAX) {
        return bad(reader, "these look like seconds since 1970: times are milliseconds since 1970, "
                           "or RFC 3339 such as \"2030-01-31T08:00:00Z\"");
    } else if (ms >= 0 && ms <= RFC3339_MAX_US / MILLISECOND_US) {
        *out_us = ms * MILLISECOND_US; /* a number below 0 is a mistake, rather than a time */
        return true;
    }
    return bad(
        reader,
        "this must be an RFC 3339 time with its zone, such as \"2030-01-31T08:00:00Z\", or whole "
        "milliseconds since 1970; the latest is the end of the year 9999");
}

/* 0 (as before 1970) is how a client says "at once": as a time it would go before all that waits,
   and count as decades late. */
static bool read_due(const struct v1_reader *reader)
{
    int64_t *due_us = &reader->fields->due_us;
    if (v1_given(reader->fields, V1_DELAY) || v1_given(reader->fields, V1_LEVEL))
        return bad(reader, "delay, due and level exclude each other");
    bool good = read_time(reader, "; a time from now is a delay", due_us);
    *due_us = *due_us > 0 ? *due_us : reader->input->now_us;
    return good;
}

static bool read_ttr(const struct v1_reader *reader)
{
    int64_t *ttr_us = &reader->fields->ttr_us;
    if (!read_duration(reader, ttr_us))
        return false;
    if (*ttr_us < 1)
        return bad(reader, "the ttr must be longer than nothing");
    if (*ttr_us > reader->input->limits->ttr_max_us)
        return bad_time_limit(reader, "the ttr is over limits.ttr_seconds", "limits.ttr_seconds",
                              reader->input->limits->ttr_max_us);
    return true;
}

static bool read_priority(const struct v1_reader *reader)
{
    return read_count(reader, 0, UINT32_MAX, &reader->fields->priority) ||
           bad(reader, "the priority must be a whole number, 0 … 4294967295");
}

static bool body_fits(const struct v1_reader *reader)
{
    if (reader->fields->body.len <= reader->input->limits->body_bytes)
        return true;
    api_problem_body(reader->input->problem, 413, reader->name, reader->fields->body.len,
                     reader->input->limits);
    return false;
}

static bool read_body(const struct v1_reader *reader)
{
    struct v1_fields *fields = reader->fields;
    if (v1_given(fields, V1_BODY_BASE64))
        return bad(reader, "body and body_base64 exclude each other");
    bool string = reader->value->kind == JSON_KIND_STRING;
    fields->body_kind = string ? BODY_BYTES : BODY_JSON;
    fields->body = string ? json_text(reader->value, reader->input->scratch) : reader->value->text;
    return body_fits(reader);
}

static bool read_body_base64(const struct v1_reader *reader)
{
    struct v1_fields *fields = reader->fields;
    struct bytes text;
    if (v1_given(fields, V1_BODY))
        return bad(reader, "body and body_base64 exclude each other");
    if (!read_string(reader, &text))
        return false;
    if (!base64_read(text, reader->input->scratch, &fields->body))
        return bad(reader, "this must be base64 with padding (RFC 4648, section 4)");
    fields->body_kind = BODY_BYTES;
    return body_fits(reader);
}

static bool read_content_type(const struct v1_reader *reader)
{
    struct bytes *type = &reader->fields->content_type;
    if (!read_string(reader, type))
        return false;
    if (type->len > CONTENT_TYPE_MAX)
        return bad(reader, "the content type is longer than 127 bytes");
    for (size_t i = 0; i < type->len; i++) {
        if (type->at[i] < ' ' || type->at[i] >= 0x7f)
            return bad(reader, "the content type must be printable ASCII");
    }
    return true;
}

/* ---- fields that the codecs of settings read ---- */

bool v1_refuse_settings(struct problem *problem, const struct settings_problem *settings)
{
    return api_refuse(problem, 400, settings->code, settings->field, settings->detail);
}

/* Reads the field by a codec of proto/settings, into `into`. */
static bool read_by(const struct v1_reader *reader,
                    bool (*read)(struct settings_reader *settings, void *into), void *into)
{
    struct settings_problem problem;
    struct settings_reader settings;
    settings_reader_init(&settings, reader->input->scratch, reader->name, &problem);
    settings.value = *reader->value;
    return read(&settings, into) || v1_refuse_settings(reader->input->problem, &problem);
}

static bool by_schedule(struct settings_reader *settings, void *into)
{
    return schedule_read(settings, into);
}

static bool by_url(struct settings_reader *settings, void *into)
{
    struct job_properties *properties = into;
    return url_read(settings, &properties->url);
}

static bool by_target(struct settings_reader *settings, void *into)
{
    struct job_properties *properties = into;
    struct target target;
    if (!job_target_read(settings, &target))
        return false;
    properties->url = target.http.url;
    properties->header_count = target.header_count;
    memcpy(properties->headers, target.headers, sizeof(target.headers));
    return true;
}

static bool by_key(struct settings_reader *settings, void *into)
{
    struct job_properties *properties = into;
    return job_key_read(settings, &properties->key);
}

static bool by_headers(struct settings_reader *settings, void *into)
{
    struct job_properties *properties = into;
    return headers_read(settings, properties->headers, &properties->header_count);
}

static bool by_amqp(struct settings_reader *settings, void *into)
{
    struct job_properties *properties = into;
    return settings_base64(settings, &properties->amqp) &&
           (properties->amqp.len > 0 || settings_bad(settings, "this must not be empty"));
}

/* What by_label() reads, and where to. */
struct label_field {
    enum job_label label;
    struct job_properties *properties;
};

static bool by_label(struct settings_reader *settings, void *into)
{
    struct label_field *field = into;
    return job_label_read(settings, field->label, field->properties);
}

static bool read_retry(const struct v1_reader *reader)
{
    struct schedule *schedule = arena_alloc(reader->input->scratch, sizeof(*schedule));
    if (!read_by(reader, by_schedule, schedule))
        return false;
    reader->fields->retry_us = schedule->waits_us;
    reader->fields->retry_count = schedule->count;
    return true;
}

static struct job_properties *properties_of(const struct v1_reader *reader)
{
    struct v1_fields *fields = reader->fields;
    if (!fields->properties) {
        fields->properties = arena_alloc(reader->input->scratch, sizeof(*fields->properties));
        *fields->properties = (struct job_properties){0};
    }
    return fields->properties;
}

static bool excluded_by_target(const struct v1_reader *reader)
{
    return bad(reader, "url and headers stand either in target or beside it");
}

static bool read_url(const struct v1_reader *reader)
{
    if (v1_given(reader->fields, V1_TARGET))
        return excluded_by_target(reader);
    return read_by(reader, by_url, properties_of(reader));
}

static bool read_headers(const struct v1_reader *reader)
{
    if (v1_given(reader->fields, V1_TARGET))
        return excluded_by_target(reader);
    return read_by(reader, by_headers, properties_of(reader));
}

static bool read_target(const struct v1_reader *reader)
{
    if (v1_given(reader->fields, V1_URL) || v1_given(reader->fields, V1_HEADERS))
        return excluded_by_target(reader);
    return read_by(reader, by_target, properties_of(reader));
}

static bool read_key(const struct v1_reader *reader)
{
    return read_by(reader, by_key, properties_of(reader));
}

static bool read_amqp(const struct v1_reader *reader)
{
    return read_by(reader, by_amqp, properties_of(reader));
}

static bool read_label(const struct v1_reader *reader)
{
    struct label_field field = {.label = job_label_named(bytes_str(reader->name)),
                                .properties = properties_of(reader)};
    return read_by(reader, by_label, &field);
}

static bool read_level(const struct v1_reader *reader)
{
    uint32_t level;
    if (v1_given(reader->fields, V1_DELAY) || v1_given(reader->fields, V1_DUE))
        return bad(reader, "delay, due and level exclude each other");
    if (!read_count(reader, 1, DELAY_LEVELS, &level))
        return bad(reader, "the level must be a whole number, 1 (1s) … 18 (2h)");
    reader->fields->due_us = reader->input->now_us + delay_level_us(level);
    return true;
}

/* ---- why a job is released or buried, and which of them are replayed ---- */

static bool read_reason(const struct v1_reader *reader)
{
    if (!read_string(reader, &reader->fields->reason))
        return false;
    return reader->fields->reason.len <= NOTE_REASON_MAX ||
           bad_limit(reader, "the reason is longer than the limit of bytes", NULL, NOTE_REASON_MAX);
}

static bool read_code(const struct v1_reader *reader)
{
    uint32_t code;
    if (!read_count(reader, 1, UINT16_MAX, &code))
        return bad(reader, "the code must be a whole number, 1 … 65535");
    reader->fields->code = (uint16_t)code;
    return true;
}

/* 503, "503" or "5xx" */
static bool read_codes(const struct v1_reader *reader)
{
    struct v1_fields *fields = reader->fields;
    struct bytes text = reader->value->text;
    uint64_t code;
    if (reader->value->kind == JSON_KIND_STRING)
        text = json_text(reader->value, reader->input->scratch);
    if (text.len == 3 && text.at[0] >= '1' && text.at[0] <= '9' && text.at[1] == 'x' &&
        text.at[2] == 'x') {
        fields->code_first = (uint16_t)((text.at[0] - '0') * 100);
        fields->code_last = (uint16_t)(fields->code_first + 99);
        return true;
    }
    if (!bytes_to_u64(text, &code) || code > UINT16_MAX)
        return bad(reader, "this must be the code of a failure, such as 503 or \"5xx\"; 0 is one "
                           "without a code, such as a time-out");
    fields->code_first = fields->code_last = (uint16_t)code;
    return true;
}

static bool read_from(const struct v1_reader *reader)
{
    if (v1_given(reader->fields, V1_SINCE))
        return bad(reader, "from and since exclude each other");
    return read_time(reader, "; a time before now is since", &reader->fields->from_us);
}

static bool read_to(const struct v1_reader *reader)
{
    return read_time(reader, "", &reader->fields->to_us);
}

/* Reads a duration, and subtracts it from the present time. */
static bool read_since(const struct v1_reader *reader)
{
    int64_t span_us;
    if (v1_given(reader->fields, V1_FROM))
        return bad(reader, "from and since exclude each other");
    if (!read_duration(reader, &span_us))
        return false;
    int64_t now_us = reader->input->now_us;
    reader->fields->from_us = span_us < now_us ? now_us - span_us : 0;
    return true;
}

static bool read_kicks(const struct v1_reader *reader)
{
    return read_count(reader, 1, V1_KICKS_MAX, &reader->fields->max) ||
           bad(reader, "this must be a whole number, 1 … 1000000");
}

/* A later time is now: clocks differ between servers. */
static bool read_created(const struct v1_reader *reader)
{
    int64_t now_us = reader->input->now_us, *created_us = &reader->fields->created_us;
    if (!read_time(reader, "", created_us))
        return false;
    *created_us = *created_us > now_us ? now_us : *created_us;
    return *created_us > 0 || bad(reader, "this must be a time after 1970");
}

static bool read_past_count(const struct v1_reader *reader, uint16_t *out_count)
{
    uint32_t count;
    if (!read_count(reader, 0, UINT16_MAX, &count))
        return bad(reader, "this must be a whole number, 0 … 65535");
    *out_count = (uint16_t)count;
    return true;
}

static bool read_attempt(const struct v1_reader *reader)
{
    return read_past_count(reader, &reader->fields->attempt);
}

static bool read_failures(const struct v1_reader *reader)
{
    return read_past_count(reader, &reader->fields->failures);
}

/* One of the words; its place in the list. */
static bool read_word(const struct v1_reader *reader, const char *const *words, unsigned *out_place)
{
    struct bytes text;
    if (!read_string(reader, &text))
        return false;
    for (unsigned i = 0; words[i]; i++) {
        if (bytes_eq(text, bytes_str(words[i]))) {
            *out_place = i;
            return true;
        }
    }
    (void)bad(reader, "this is not one of ");
    for (unsigned i = 0; words[i]; i++) {
        api_problem_add(reader->input->problem, i ? ", " : "");
        api_problem_add(reader->input->problem, words[i]);
    }
    return false;
}

static bool read_if_exists(const struct v1_reader *reader)
{
    static const char *const words[] = {
        [IF_EXISTS_REJECT] = "reject",
        [IF_EXISTS_REPLACE] = "replace",
        [IF_EXISTS_KEEP] = "keep",
        NULL,
    };
    unsigned place;
    if (!read_word(reader, words, &place))
        return false;
    reader->fields->if_exists = (enum if_exists)place;
    return true;
}

static bool read_durability(const struct v1_reader *reader)
{
    static const char *const words[] = {
        [DURABILITY_DEFAULT] = "default",
        [DURABILITY_SYNC] = "sync",
        [DURABILITY_INTERVAL] = "interval",
        [DURABILITY_OS] = "os",
        NULL,
    };
    unsigned place;
    if (!read_word(reader, words, &place))
        return false;
    reader->fields->durability = (enum durability)place;
    return true;
}

static bool read_lease(const struct v1_reader *reader)
{
    struct bytes text;
    if (!read_string(reader, &text))
        return false;
    return (bytes_to_u64(text, &reader->fields->lease) && reader->fields->lease != 0) ||
           bad(reader, "this is not a lease as /v1/reserve gives them");
}

static bool read_ref(const struct v1_reader *reader)
{
    struct bytes text;
    if (!read_string(reader, &text))
        return false;
    return job_ref_parse(text, &reader->fields->ref) || bad(reader, "an id is 1 … 255 bytes");
}

/* Its items are read one by one, when their turn comes. */
static bool read_jobs(const struct v1_reader *reader)
{
    if (reader->value->kind != JSON_KIND_ARRAY)
        return bad(reader, "the jobs must be an array of objects");
    reader->fields->jobs = reader->value->text;
    return true;
}

static bool read_topics(const struct v1_reader *reader)
{
    struct v1_fields *fields = reader->fields;
    uint32_t most = reader->input->limits->reserve_topics;
    struct topic_list list;
    struct json json;
    struct json_value item;
    if (reader->value->kind != JSON_KIND_ARRAY)
        return bad(reader, "the topics must be an array of names");
    json_init(&json, reader->value->text, JSON_DEPTH_MAX);
    topic_list_init(&list, reader->input->scratch, most);
    if (!json_open(&json, JSON_KIND_ARRAY))
        return bad(reader, json.wrong);
    while (json_item(&json, &item)) {
        if (item.kind != JSON_KIND_STRING)
            return bad(reader, "the topics must be an array of names");
        struct bytes topic = json_text(&item, reader->input->scratch);
        const char *flaw = api_topic_flaw(topic);
        if (flaw)
            return bad_part(reader, "a topic's name ", flaw);
        if (!topic_list_add(&list, topic))
            return bad_limit(reader, "there are more topics than limits.reserve_topics",
                             "limits.reserve_topics", most);
    }
    fields->topics = list.at;
    fields->topic_count = list.count;
    return list.count > 0 || bad(reader, "at least one topic is needed");
}

static bool read_wait(const struct v1_reader *reader)
{
    if (!read_duration(reader, &reader->fields->wait_us))
        return false;
    return reader->fields->wait_us <= reader->input->limits->wait_us ||
           bad_time_limit(reader, "the wait is over limits.wait_seconds", "limits.wait_seconds",
                          reader->input->limits->wait_us);
}

static bool read_max(const struct v1_reader *reader)
{
    uint32_t most = reader->input->limits->batch_jobs;
    int64_t max;
    const char *key = json_int(reader->value, &max) && max > most ? "limits.batch_jobs" : NULL;
    return read_count(reader, 1, most, &reader->fields->max) ||
           bad_limit(reader, "this must be a whole number, 1 … limits.batch_jobs", key, most);
}

static bool read_for(const struct v1_reader *reader)
{
    if (!read_duration(reader, &reader->fields->for_us))
        return false;
    return reader->fields->for_us <= RFC3339_MAX_US - reader->input->now_us ||
           bad(reader, "this is past the year 9999");
}

bool v1_read_state(struct bytes text, enum job_state *out_state)
{
    for (enum job_state state = JOB_DELAYED; state < JOB_STATES; state++) {
        if (bytes_eq(text, bytes_str(job_state_name(state)))) {
            *out_state = state;
            return true;
        }
    }
    return false;
}

/* "all" is for clear alone; a push refuses it as it refuses the others. */
static bool read_state(const struct v1_reader *reader)
{
    struct bytes text;
    if (!read_string(reader, &text))
        return false;
    reader->fields->state = JOB_GONE;
    return bytes_eq(text, BYTES("all")) || v1_read_state(text, &reader->fields->state) ||
           bad(reader, "the state must be delayed, ready, reserved or buried; to clear, also all");
}

static bool read_create(const struct v1_reader *reader)
{
    reader->fields->create = bytes_eq(reader->value->text, BYTES("true"));
    return reader->value->kind == JSON_KIND_BOOL || bad(reader, "this must be true or false");
}

static bool read_expire(const struct v1_reader *reader)
{
    reader->fields->expire = bytes_eq(reader->value->text, BYTES("true"));
    return reader->value->kind == JSON_KIND_BOOL || bad(reader, "this must be true or false");
}

/* ---- all of them ---- */

#define FIELD(name, read)                                                                          \
    {                                                                                              \
        {(name), sizeof(name) - 1}, (read)                                                         \
    }

const struct v1_known_field v1_known[V1_FIELD_COUNT] = {
    [V1_ID] = FIELD("id", read_id),
    [V1_DELAY] = FIELD("delay", read_delay),
    [V1_DUE] = FIELD("due", read_due),
    [V1_TTR] = FIELD("ttr", read_ttr),
    [V1_PRIORITY] = FIELD("priority", read_priority),
    [V1_BODY] = FIELD("body", read_body),
    [V1_BODY_BASE64] = FIELD("body_base64", read_body_base64),
    [V1_CONTENT_TYPE] = FIELD("content_type", read_content_type),
    [V1_RETRY] = FIELD("retry", read_retry),
    [V1_IF_EXISTS] = FIELD("if_exists", read_if_exists),
    [V1_DURABILITY] = FIELD("durability", read_durability),
    [V1_LEASE] = FIELD("lease", read_lease),
    [V1_TOPICS] = FIELD("topics", read_topics),
    [V1_WAIT] = FIELD("wait", read_wait),
    [V1_MAX] = FIELD("max", read_max),
    [V1_FOR] = FIELD("for", read_for),
    [V1_STATE] = FIELD("state", read_state),
    [V1_REF] = FIELD("id", read_ref),
    [V1_JOBS] = FIELD("jobs", read_jobs),
    [V1_CREATE] = FIELD("create", read_create),
    [V1_URL] = FIELD("url", read_url),
    [V1_TARGET] = FIELD("target", read_target),
    [V1_KEY] = FIELD("key", read_key),
    [V1_HEADERS] = FIELD("headers", read_headers),
    [V1_AMQP] = FIELD("amqp", read_amqp),
    [V1_BIZ_KEY] = FIELD("biz_key", read_label),
    [V1_SUBTOPIC] = FIELD("subtopic", read_label),
    [V1_TAGS] = FIELD("tags", read_label),
    [V1_EXTEND_DATA] = FIELD("extend_data", read_label),
    [V1_CREATE_TIME] = FIELD("create_time", read_label),
    [V1_RANK] = FIELD("rank", read_label),
    [V1_LEVEL] = FIELD("level", read_level),
    [V1_REASON] = FIELD("reason", read_reason),
    [V1_CODE] = FIELD("code", read_code),
    [V1_CODES] = FIELD("code", read_codes),
    [V1_FROM] = FIELD("from", read_from),
    [V1_TO] = FIELD("to", read_to),
    [V1_SINCE] = FIELD("since", read_since),
    [V1_EXPIRE] = FIELD("expire", read_expire),
    [V1_KICKS] = FIELD("max", read_kicks),
    [V1_CREATED] = FIELD("created", read_created),
    [V1_ATTEMPT] = FIELD("attempt", read_attempt),
    [V1_FAILURES] = FIELD("failures", read_failures),
};
#undef FIELD
