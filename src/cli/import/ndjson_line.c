#include "cli/import/ndjson_line.h"

#include "base/rfc3339.h"
#include "core/job.h"
#include "proto/json.h"

#define USUAL_PREFIX "x"

/* Members that a push does not have, or that come from elsewhere. All others are passed on: a job
 * of a newer laterd may have more, and the server refuses what it does not know. */
static const char *const left_out[] = {
    "id",       "topic",       "state",        "due_ms",     "ttr_ms", "lease",
    "deadline", "deadline_ms", "last_failure", "body_bytes", "result",
};

static bool is_left_out(struct bytes name)
{
    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++) {
        if (bytes_eq(name, bytes_str(left_out[i])))
            return true;
    }
    return false;
}

static void add_member(struct buf *out, struct bytes name, const struct json_value *value)
{
    bool quoted = value->kind == JSON_KIND_STRING;
    buf_add_str(out, ",\"");
    buf_add_bytes(out, name);
    buf_add_str(out, quoted ? "\":\"" : "\":");
    buf_add_bytes(out, value->text);
    if (quoted)
        buf_add_char(out, '"');
}

/* 60000 or 0.250: milliseconds, as a duration of whole microseconds. */
static bool add_ttr(struct buf *out, struct bytes text)
{
    enum { PARTS = 1000 };
    uint64_t whole = 0, rest = 0;
    const char *point = text.len ? memchr(text.at, '.', text.len) : NULL;
    size_t len = point ? (size_t)(point - text.at) : text.len;
    if (!bytes_to_u64(bytes_of(text.at, len), &whole) || whole > INT64_MAX / PARTS)
        return false;
    if (point && (text.len - len != 4 || !bytes_to_u64(bytes_of(point + 1, 3), &rest)))
        return false;
    buf_addf(out, ",\"ttr\":\"%lluus\"", (unsigned long long)(whole * PARTS + rest));
    return true;
}

/* Members that are needed for more than to be copied. */
struct members {
    struct json_value id, topic, state, created, ttr;
    bool retry, noted;
};

static void note_member(struct members *members, struct bytes name, const struct json_value *value)
{
    const struct {
        const char *name;
        struct json_value *at;
    } kept[] = {
        {"id", &members->id},           {"topic", &members->topic}, {"state", &members->state},
        {"created", &members->created}, {"ttr_ms", &members->ttr},
    };
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        if (bytes_eq(name, bytes_str(kept[i].name)))
            *kept[i].at = *value;
    }
    members->retry = members->retry || bytes_eq(name, BYTES("retry"));
    members->noted = members->noted || bytes_eq(name, BYTES("last_failure"));
}

/*
 * A number that the old server made is none for a client to choose. With the time when it was made
 * it names the same job in every export, and no other.
 */
static bool choose_id(const struct members *members, const char *prefix, struct arena *scratch,
                      struct ndjson_job *out_job)
{
    struct job_ref ref;
    struct buf text = {0};
    int64_t created_us;
    out_job->old_id = out_job->id = json_text(&members->id, scratch);
    if (!job_ref_parse(out_job->old_id, &ref))
        return false;
    if (ref.id.len)
        return true;
    if (members->created.kind != JSON_KIND_STRING ||
        !rfc3339_read(json_text(&members->created, scratch), &created_us))
        return false;
    buf_addf(&text, "%s%llu.%lld", prefix ? prefix : USUAL_PREFIX, (unsigned long long)ref.seq,
             (long long)created_us);
    out_job->id = arena_copy(scratch, buf_bytes(&text));
    out_job->renamed = true;
    buf_fini(&text);
    return true;
}

static bool state_is_known(struct bytes text)
{
    for (enum job_state state = JOB_DELAYED; state < JOB_STATES; state++) {
        if (bytes_eq(text, bytes_str(job_state_name(state))))
            return true;
    }
    return false;
}

enum err ndjson_push_line(struct bytes job, const char *prefix, struct arena *scratch,
                          struct buf *out_line, struct ndjson_job *out_job, const char **out_why)
{
    struct members members = {0};
    struct ndjson_job found = {0};
    struct json json;
    struct json_value name, value;
    struct buf rest = {0};
    json_init(&json, job, JSON_DEPTH_MAX);
    if (!json_open(&json, JSON_KIND_OBJECT)) {
        *out_why = "the job is no object";
        return ERR_INVALID;
    }
    while (json_member(&json, &name, &value)) {
        struct bytes key = json_text(&name, scratch);
        note_member(&members, key, &value);
        if (!is_left_out(key))
            add_member(&rest, name.text, &value);
    }
    *out_why = json.wrong;
    if (!*out_why &&
        (members.id.kind != JSON_KIND_STRING || members.topic.kind != JSON_KIND_STRING ||
         members.state.kind != JSON_KIND_STRING))
        *out_why = "the job has no id, topic or state";
    if (!*out_why && !state_is_known(members.state.text))
        *out_why = "the job's state is none of delayed, ready, reserved and buried";
    if (!*out_why && !choose_id(&members, prefix, scratch, &found))
        *out_why = "the job's id or the time of its making is none";
    if (!*out_why && members.ttr.kind == JSON_KIND_NUMBER && !add_ttr(&rest, members.ttr.text))
        *out_why = "ttr_ms is no number of milliseconds";
    if (!*out_why) {
        found.topic = json_text(&members.topic, scratch);
        found.reserved = bytes_eq(members.state.text, BYTES("reserved"));
        found.noted = members.noted;
        buf_add_str(out_line, "{\"id\":");
        json_add_text(out_line, found.id, JSON_STYLE_PLAIN);
        buf_add_str(out_line, ",\"if_exists\":\"keep\"");
        if (bytes_eq(members.state.text, BYTES("buried")))
            buf_add_str(out_line, ",\"state\":\"buried\"");
        if (!members.retry) /* else it would have its new topic's */
            buf_add_str(out_line, ",\"retry\":[]");
        buf_add_bytes(out_line, buf_bytes(&rest));
        buf_add_str(out_line, "}\n");
        *out_job = found;
    }
    buf_fini(&rest);
    return *out_why ? ERR_INVALID : OK;
}
