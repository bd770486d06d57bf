/* What a request's JSON says, field by field, each with its own refusal. */
#include "base/rfc3339.h"
#include "proto/api/v1.h"
#include "proto/base64.h"

enum { MILLISECOND_US = 1000 };

/* One field under way. */
struct reader {
    const struct v1_input *input;
    struct v1_fields *fields;
    const struct json_value *value;
    const char *name;
};

static bool bad(const struct reader *reader, const char *detail)
{
    return api_refuse(reader->input->problem, 400, "bad_field", reader->name, detail);
}

/* The same with the limit's value behind it. */
static bool bad_limit(const struct reader *reader, const char *detail, uint32_t limit)
{
    (void)bad(reader, detail);
    api_problem_addf(reader->input->problem, ", which is %u", limit);
    return false;
}

static bool bad_time_limit(const struct reader *reader, const char *detail, int64_t limit_us)
{
    char room[DURATION_ROOM];
    (void)bad(reader, detail);
    api_problem_addf(reader->input->problem, ", which is %s", duration_print(limit_us, room));
    return false;
}

/* A flaw as api_id_flaw() names it, after the words "the id ". */
static bool bad_part(const struct reader *reader, const char *subject, const char *flaw)
{
    (void)bad(reader, subject);
    api_problem_add(reader->input->problem, flaw);
    return false;
}

static bool read_string(const struct reader *reader, struct bytes *out_text)
{
    if (reader->value->kind != JSON_KIND_STRING)
        return bad(reader, "this must be a string");
    *out_text = json_text(reader->value, reader->input->scratch);
    return true;
}

/* A duration string, or a number of milliseconds. */
static bool value_duration(const struct json_value *value, struct arena *scratch, int64_t *out_us)
{
    int64_t ms;
    if (value->kind == JSON_KIND_STRING)
        return duration_read(json_text(value, scratch), out_us);
    return json_int(value, &ms) && ms >= 0 && !__builtin_mul_overflow(ms, MILLISECOND_US, out_us);
}

static bool read_duration(const struct reader *reader, int64_t *out_us)
{
    return value_duration(reader->value, reader->input->scratch, out_us) ||
           bad(reader, "this must be a duration such as \"1h30m\" or \"250ms\", or a whole number "
                       "of milliseconds");
}

static bool read_count(const struct reader *reader, int64_t least, int64_t most, uint32_t *out)
{
    int64_t number;
    if (!json_int(reader->value, &number) || number < least || number > most)
        return false;
    *out = (uint32_t)number;
    return true;
}

/* ---- the fields ---- */

static bool read_id(const struct reader *reader)
{
    if (!read_string(reader, &reader->fields->id))
        return false;
    const char *flaw = api_id_flaw(reader->fields->id);
    return !flaw || bad_part(reader, "the id ", flaw);
}

static bool read_delay(const struct reader *reader)
{
    int64_t delay_us;
    if (v1_given(reader->fields, V1_DUE))
        return bad(reader, "delay and due exclude each other");
    if (!read_duration(reader, &delay_us))
        return false;
    if (delay_us > MOMENT_MAX_US - reader->input->now_us)
        return bad(reader, "this is past the year 9999");
    reader->fields->due_us = reader->input->now_us + delay_us;
    return true;
}

static bool read_due(const struct reader *reader)
{
    int64_t *due_us = &reader->fields->due_us;
    int64_t ms;
    if (v1_given(reader->fields, V1_DELAY))
        return bad(reader, "delay and due exclude each other");
    if (reader->value->kind == JSON_KIND_STRING) {
        if (rfc3339_read(json_text(reader->value, reader->input->scratch), due_us))
            return true;
    } else if (json_int(reader->value, &ms) && ms >= 0 && ms <= MOMENT_MAX_US / MILLISECOND_US) {
        *due_us = ms * MILLISECOND_US; /* a number below 0 is a mistake, rather than a time */
        return true;
    }
    return bad(reader, "this must be an RFC 3339 time such as \"2030-01-31T08:00:00Z\", or whole "
                       "milliseconds since 1970");
}

static bool read_ttr(const struct reader *reader)
{
    int64_t *ttr_us = &reader->fields->ttr_us;
    if (!read_duration(reader, ttr_us))
        return false;
    if (*ttr_us < 1)
        return bad(reader, "the ttr must be longer than nothing");
    if (*ttr_us > reader->input->limits->ttr_max_us)
        return bad_time_limit(reader, "the ttr is over limits.ttr_seconds",
                              reader->input->limits->ttr_max_us);
    return true;
}

static bool read_priority(const struct reader *reader)
{
    return read_count(reader, 0, UINT32_MAX, &reader->fields->priority) ||
           bad(reader, "the priority must be a whole number, 0 … 4294967295");
}

static bool body_fits(const struct reader *reader)
{
    if (reader->fields->body.len <= reader->input->limits->body_bytes)
        return true;
    api_problem_body(reader->input->problem, 413, reader->name, reader->fields->body.len,
                     reader->input->limits);
    return false;
}

static bool read_body(const struct reader *reader)
{
    struct v1_fields *fields = reader->fields;
    if (v1_given(fields, V1_BODY_BASE64))
        return bad(reader, "body and body_base64 exclude each other");
    bool string = reader->value->kind == JSON_KIND_STRING;
    fields->body_kind = string ? BODY_BYTES : BODY_JSON;
    fields->body = string ? json_text(reader->value, reader->input->scratch) : reader->value->text;
    return body_fits(reader);
}

static bool read_body_base64(const struct reader *reader)
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

static bool read_content_type(const struct reader *reader)
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

static bool read_retry(const struct reader *reader)
{
    struct v1_fields *fields = reader->fields;
    struct json json;
    struct json_value item;
    if (reader->value->kind != JSON_KIND_ARRAY)
        return bad(reader, "the retry schedule must be an array of durations");
    json_init(&json, reader->value->text, JSON_DEPTH_MAX);
    fields->retry_us = arena_alloc(reader->input->scratch, RETRY_STEPS_MAX * sizeof(int64_t));
    if (!json_open(&json, JSON_KIND_ARRAY))
        return bad(reader, json.wrong);
    while (json_item(&json, &item)) {
        int64_t wait_us;
        if (fields->retry_count == RETRY_STEPS_MAX)
            return bad(reader, "the retry schedule has more than 64 steps");
        if (!value_duration(&item, reader->input->scratch, &wait_us) || wait_us > MOMENT_MAX_US / 2)
            return bad(reader, "each step must be a duration such as \"10m\", or a whole number of "
                               "milliseconds");
        fields->retry_us[fields->retry_count++] = wait_us;
    }
    return true;
}

/* One of the words; its place in the list. */
static bool read_word(const struct reader *reader, const char *const *words, unsigned *out_place)
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

static bool read_if_exists(const struct reader *reader)
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

static bool read_durability(const struct reader *reader)
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

static bool read_lease(const struct reader *reader)
{
    struct bytes text;
    if (!read_string(reader, &text))
        return false;
    return (bytes_to_u64(text, &reader->fields->lease) && reader->fields->lease != 0) ||
           bad(reader, "this is not a lease as /v1/reserve gives them");
}

static bool read_ref(const struct reader *reader)
{
    struct bytes text;
    if (!read_string(reader, &text))
        return false;
    return job_ref_parse(text, &reader->fields->ref) || bad(reader, "an id is 1 … 255 bytes");
}

/* Its items are read one by one, when their turn comes. */
static bool read_jobs(const struct reader *reader)
{
    if (reader->value->kind != JSON_KIND_ARRAY)
        return bad(reader, "the jobs must be an array of objects");
    reader->fields->jobs = reader->value->text;
    return true;
}

static bool is_listed(const struct v1_fields *fields, struct bytes topic)
{
    for (uint32_t i = 0; i < fields->topic_count; i++) {
        if (bytes_eq(fields->topics[i], topic))
            return true;
    }
    return false;
}

static bool read_topics(const struct reader *reader)
{
    struct v1_fields *fields = reader->fields;
    uint32_t most = reader->input->limits->reserve_topics;
    struct json json;
    struct json_value item;
    if (reader->value->kind != JSON_KIND_ARRAY)
        return bad(reader, "the topics must be an array of names");
    json_init(&json, reader->value->text, JSON_DEPTH_MAX);
    fields->topics = arena_alloc(reader->input->scratch, most * sizeof(struct bytes));
    if (!json_open(&json, JSON_KIND_ARRAY))
        return bad(reader, json.wrong);
    while (json_item(&json, &item)) {
        if (item.kind != JSON_KIND_STRING)
            return bad(reader, "the topics must be an array of names");
        struct bytes topic = json_text(&item, reader->input->scratch);
        const char *flaw = api_topic_flaw(topic);
        if (flaw)
            return bad_part(reader, "a topic's name ", flaw);
        if (is_listed(fields, topic))
            continue;
        if (fields->topic_count == most)
            return bad_limit(reader, "there are more topics than limits.reserve_topics", most);
        fields->topics[fields->topic_count++] = topic;
    }
    return fields->topic_count > 0 || bad(reader, "at least one topic is needed");
}

static bool read_wait(const struct reader *reader)
{
    if (!read_duration(reader, &reader->fields->wait_us))
        return false;
    return reader->fields->wait_us <= reader->input->limits->wait_us ||
           bad_time_limit(reader, "the wait is over limits.wait_seconds",
                          reader->input->limits->wait_us);
}

static bool read_max(const struct reader *reader)
{
    return read_count(reader, 1, reader->input->limits->batch_jobs, &reader->fields->max) ||
           bad_limit(reader, "this must be a whole number, 1 … limits.batch_jobs",
                     reader->input->limits->batch_jobs);
}

static bool read_for(const struct reader *reader)
{
    if (!read_duration(reader, &reader->fields->for_us))
        return false;
    return reader->fields->for_us <= MOMENT_MAX_US - reader->input->now_us ||
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
static bool read_state(const struct reader *reader)
{
    struct bytes text;
    if (!read_string(reader, &text))
        return false;
    reader->fields->state = JOB_GONE;
    return bytes_eq(text, BYTES("all")) || v1_read_state(text, &reader->fields->state) ||
           bad(reader, "the state must be delayed, ready, reserved or buried; to clear, also all");
}

static bool read_create(const struct reader *reader)
{
    reader->fields->create = bytes_eq(reader->value->text, BYTES("true"));
    return reader->value->kind == JSON_KIND_BOOL || bad(reader, "this must be true or false");
}

/* ---- the object ---- */

static const struct {
    const char *name;
    bool (*read)(const struct reader *reader);
} known[V1_FIELD_COUNT] = {
    [V1_ID] = {"id", read_id},
    [V1_DELAY] = {"delay", read_delay},
    [V1_DUE] = {"due", read_due},
    [V1_TTR] = {"ttr", read_ttr},
    [V1_PRIORITY] = {"priority", read_priority},
    [V1_BODY] = {"body", read_body},
    [V1_BODY_BASE64] = {"body_base64", read_body_base64},
    [V1_CONTENT_TYPE] = {"content_type", read_content_type},
    [V1_RETRY] = {"retry", read_retry},
    [V1_IF_EXISTS] = {"if_exists", read_if_exists},
    [V1_DURABILITY] = {"durability", read_durability},
    [V1_LEASE] = {"lease", read_lease},
    [V1_TOPICS] = {"topics", read_topics},
    [V1_WAIT] = {"wait", read_wait},
    [V1_MAX] = {"max", read_max},
    [V1_FOR] = {"for", read_for},
    [V1_STATE] = {"state", read_state},
    [V1_REF] = {"id", read_ref},
    [V1_JOBS] = {"jobs", read_jobs},
    [V1_CREATE] = {"create", read_create},
};

static bool read_field(const struct v1_input *input, struct bytes name,
                       const struct json_value *value, uint32_t allowed, struct v1_fields *fields)
{
    enum v1_field field = V1_ID;
    while (field < V1_FIELD_COUNT &&
           (!(allowed & V1_BIT(field)) || !bytes_eq(name, bytes_str(known[field].name))))
        field++;
    if (field == V1_FIELD_COUNT)
        return api_refuse_name(input->problem, name, "unknown_field",
                               "this call has no field of that name");
    if (v1_given(fields, field))
        return api_refuse_name(input->problem, name, "duplicate_field",
                               "this field was given twice");
    struct reader reader = {
        .input = input, .fields = fields, .value = value, .name = known[field].name};
    if (!known[field].read(&reader))
        return false;
    fields->given |= V1_BIT(field);
    return true;
}

bool v1_refuse_json(const struct v1_input *input, const struct json *json)
{
    (void)api_refuse(input->problem, 400, "bad_json", "", json->wrong);
    if (json->too_deep)
        api_problem_addf(input->problem, ", which is %u", input->limits->json_depth);
    return false;
}

bool v1_read_object(const struct v1_input *input, struct json *json, uint32_t allowed,
                    struct v1_fields *out_fields)
{
    struct json_value name, value;
    *out_fields = (struct v1_fields){0};
    if (!json_open(json, JSON_KIND_OBJECT))
        return v1_refuse_json(input, json);
    while (json_member(json, &name, &value)) {
        if (!read_field(input, json_text(&name, input->scratch), &value, allowed, out_fields))
            return false;
    }
    return !json->wrong || v1_refuse_json(input, json);
}

bool v1_read_body(const struct v1_input *input, struct bytes body, uint32_t allowed,
                  struct v1_fields *out_fields)
{
    struct json json;
    *out_fields = (struct v1_fields){0};
    if (body.len == 0)
        return true;
    json_init(&json, body, input->limits->json_depth);
    if (!v1_read_object(input, &json, allowed, out_fields))
        return false;
    return json_end(&json) || v1_refuse_json(input, &json);
}
