#include "cli/show.h"

#include <stdlib.h>
#include <time.h>

#include "base/rfc3339.h"
#include "cli/text.h"
#include "port/clock.h"
#include "proto/base64.h"

const char *show_string(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

uint64_t show_count(const json_t *object, const char *key)
{
    json_int_t number = json_integer_value(json_object_get(object, key));
    return number < 0 ? 0 : (uint64_t)number;
}

void show_value(const json_t *object, const char *key, struct buf *out)
{
    const json_t *value = json_object_get(object, key);
    if (json_is_string(value)) {
        text_add_safe(out, bytes_of(json_string_value(value), json_string_length(value)));
    } else if (value && !json_is_null(value)) {
        char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        text_add_safe(out, bytes_str(text ? text : "?"));
        free(text); /* jansson's */
    }
}

const char *show_safe(const json_t *object, const char *key, struct buf *room)
{
    room->len = 0;
    show_value(object, key, room);
    buf_add_char(room, '\0');
    return room->at;
}

void show_cell(struct table *table, const json_t *object, const char *key)
{
    struct buf text = {0};
    show_value(object, key, &text);
    table_cell(table, buf_bytes(&text));
    buf_fini(&text);
}

void show_line_problem(const json_t *problem, struct buf *out)
{
    struct buf detail = {0};
    show_value(problem, "detail", &detail);
    struct bytes text = buf_bytes(&detail);
    size_t cut = strlen("line ");
    bool numbered = text.len > cut && memcmp(text.at, "line ", cut) == 0;
    while (numbered && cut < text.len && text.at[cut] >= '0' && text.at[cut] <= '9')
        cut++;
    if (numbered && text.len - cut > 2 && memcmp(text.at + cut, ": ", 2) == 0)
        text = bytes_of(text.at + cut + 2, text.len - cut - 2);
    show_value(problem, "field", out);
    buf_add_str(out, *show_string(problem, "field") ? ": " : "");
    buf_add_bytes(out, text);
    buf_fini(&detail);
}

/* The time alone. False: it is none, or has no name here, and stands there as it came. */
static bool add_time(const json_t *object, const char *key, struct buf *out, int64_t *out_at_us)
{
    const json_t *value = json_object_get(object, key);
    char text[TEXT_ROOM] = "", zone[8] = "";
    int64_t at_us = 0;
    bool known = json_is_integer(value)
                     ? !__builtin_mul_overflow(json_integer_value(value), 1000, &at_us)
                     : rfc3339_read(bytes_str(show_string(object, key)), &at_us);
    int64_t at_ms = at_us / 1000;
    time_t at_s = (time_t)(at_ms / 1000);
    struct tm local;
    if (!known || at_ms < 0 || !localtime_r(&at_s, &local) ||
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local) == 0 ||
        strftime(zone, sizeof(zone), "%z", &local) == 0) {
        show_value(object, key, out); /* also a year that has no name */
        return false;
    }
    buf_addf(out, "%s.%03d %s", text, (int)(at_ms % 1000), zone);
    *out_at_us = at_ms * 1000;
    return true;
}

void show_time_alone(const json_t *object, const char *key, struct buf *out)
{
    int64_t at_us;
    (void)add_time(object, key, out, &at_us); /* what came stands there */
}

void show_time(const json_t *object, const char *key, struct buf *out)
{
    char room[TEXT_ROOM];
    int64_t at_us;
    if (!add_time(object, key, out, &at_us))
        return;
    int64_t left_us = at_us - clock_wall_us();
    if (left_us >= 0)
        buf_addf(out, " (in %s)", duration_text(left_us, room));
    else
        buf_addf(out, " (%s ago)", duration_text(-left_us, room));
}

void show_time_cell(struct table *table, const json_t *object, const char *key)
{
    struct buf text = {0};
    show_time(object, key, &text);
    table_cell(table, buf_bytes(&text));
    buf_fini(&text);
}

void show_lateness(const json_t *object, int label_width, struct buf *out)
{
    static const char *const keys[] = {"last_minute", "all_time"};
    static const char *const names[] = {"last minute", "all time"};
    static const char *const percentiles[] = {"p50", "p90", "p99"};
    const json_t *lateness = json_object_get(object, "lateness_ms");
    for (size_t i = 0; lateness && i < sizeof(keys) / sizeof(keys[0]); i++) {
        const json_t *span = json_object_get(lateness, keys[i]);
        buf_addf(out, "%-*s %-11s", label_width, i ? "" : "lateness", names[i]);
        for (size_t j = 0; j < sizeof(percentiles) / sizeof(percentiles[0]); j++) {
            char room[TEXT_ROOM];
            double ms = json_number_value(json_object_get(span, percentiles[j]));
            /* 0: no value was measured, since values are above their bucket's lower bound. */
            buf_addf(out, "  %s %s", percentiles[j],
                     ms > 0 ? duration_text((int64_t)(ms * 1000), room) : "-");
        }
        buf_add_char(out, '\n');
    }
}

void show_body(const json_t *job, struct buf *out)
{
    const json_t *body = json_object_get(job, "body");
    const json_t *packed = json_object_get(job, "body_base64");
    const json_t *raw = json_object_get(job, "body_json");
    if (raw) {
        buf_add(out, json_string_value(raw), json_string_length(raw));
    } else if (packed) {
        struct bytes text = bytes_str(show_string(job, "body_base64")), data;
        struct arena scratch = {0};
        buf_add_bytes(out, base64_read(text, &scratch, &data) ? data : text);
        arena_fini(&scratch);
    } else if (json_is_string(body)) {
        buf_add(out, json_string_value(body), json_string_length(body));
    }
}

static void add_member(const json_t *object, const char *key, struct buf *out)
{
    if (!json_object_get(object, key))
        return;
    buf_addf(out, "%-9s ", key);
    show_value(object, key, out);
    buf_add_char(out, '\n');
}

static void add_target(const json_t *target, struct buf *out)
{
    static const char *const places[] = {"broker",    "exchange", "routing_key", "topic",
                                         "partition", "subject",  "kind",        "key"};
    bool http = strcmp(show_string(target, "type"), "http") == 0;
    buf_add_str(out, "target    ");
    show_value(target, "type", out);
    if (http) {
        buf_add_char(out, ' ');
        buf_add_str(out, json_object_get(target, "url") ? "" : "(each job brings its url)");
        show_value(target, "url", out);
    }
    /* A key of http is a file of its certificate. */
    for (size_t i = 0; !http && i < sizeof(places) / sizeof(places[0]); i++) {
        if (!json_object_get(target, places[i]))
            continue;
        buf_addf(out, "  %s ", places[i]);
        show_value(target, places[i], out);
    }
    buf_add_char(out, '\n');
}

void show_settings(const json_t *topic, struct buf *out)
{
    static const char *const keys[] = {"retry",       "attempts", "ttr",   "jitter",
                                       "concurrency", "rate",     "burst", "key_concurrency",
                                       "key_rate",    "order"};
    const json_t *settings = json_object_get(topic, "settings");
    const json_t *target = json_object_get(settings, "target");
    if (target)
        add_target(target, out);
    if (json_is_true(json_object_get(settings, "paused"))) {
        const char *why = show_string(settings, "paused_why");
        buf_add_str(out, "target    PAUSED");
        if (*why) {
            buf_add_str(out, " (");
            show_value(settings, "paused_why", out);
            buf_add_char(out, ')');
        }
        buf_add_str(out, ": nothing is sent until `later topic set ");
        show_value(topic, "name", out);
        buf_add_str(out, " --resumed`\n");
    }
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        add_member(settings, keys[i], out);
}

void show_response(const json_t *attempt, struct buf *out)
{
    const json_t *response = json_object_get(attempt, "response");
    struct bytes packed = bytes_str(show_string(attempt, "response_base64")), data;
    struct bytes text = bytes_of(json_string_value(response), json_string_length(response));
    struct arena scratch = {0};
    if (!response && base64_read(packed, &scratch, &data))
        text = data; /* in another encoding than UTF-8: its ASCII still says much */
    while (text.len > 0 && (text.at[text.len - 1] == '\n' || text.at[text.len - 1] == '\r'))
        text.len--;
    text_add_safe(out, text);
    arena_fini(&scratch);
}

void show_failure(const json_t *failure, struct buf *out)
{
    show_time(failure, "time", out);
    if (show_count(failure, "code") > 0)
        buf_addf(out, " code %d", (int)json_integer_value(json_object_get(failure, "code")));
    if (json_object_get(failure, "reason")) {
        buf_add_str(out, ": ");
        show_value(failure, "reason", out);
    }
}

/* As --ttr takes it. */
static void show_ttr(const json_t *job, struct buf *out)
{
    char room[TEXT_ROOM];
    int64_t us;
    if (!__builtin_mul_overflow(json_integer_value(json_object_get(job, "ttr_ms")), 1000, &us) &&
        us >= 0)
        buf_add_str(out, duration_exact(us, room));
}

/* The waits between attempts, as --retry takes them, and why the last attempt failed. */
static void show_retries(const json_t *job, struct buf *out)
{
    const json_t *retry = json_object_get(job, "retry"), *wait;
    const json_t *failure = json_object_get(job, "last_failure");
    char room[TEXT_ROOM];
    size_t i;
    json_array_foreach(retry, i, wait)
    {
        int64_t us = 0;
        buf_add_str(out, i ? "," : "retry     ");
        if (json_is_string(wait)) /* of microseconds: "1500us" */
            text_add_safe(out, bytes_str(json_string_value(wait)));
        else if (!__builtin_mul_overflow(json_integer_value(wait), 1000, &us) && us >= 0)
            buf_add_str(out, duration_exact(us, room));
    }
    if (i > 0)
        buf_add_char(out, '\n');
    if (!failure)
        return;
    buf_add_str(out, "failed    ");
    show_failure(failure, out);
    buf_add_char(out, '\n');
}

void show_job(const json_t *job, struct buf *out)
{
    static const struct {
        const char *label;
        const char *key;
    } fields[] = {
        {"id", "id"},
        {"topic", "topic"},
        {"state", "state"},
        {"lease", "lease"},
        {"due", "due_ms"},
        {"deadline", "deadline_ms"},
        {"created", "created"},
        {"ttr", "ttr_ms"},
        {"priority", "priority"},
        {"attempt", "attempt"},
        {"failures", "failures"},
        {"type", "content_type"},
        {"url", "url"},
        {"key", "key"},
        {"headers", "headers"},
        {"biz key", "biz_key"},
        {"subtopic", "subtopic"},
        {"tags", "tags"},
        {"extend", "extend_data"},
        {"made", "create_time"},
        {"rank", "rank"},
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const char *key = fields[i].key;
        if (!json_object_get(job, key))
            continue;
        buf_addf(out, "%-9s ", fields[i].label);
        if (strcmp(key, "due_ms") == 0 || strcmp(key, "deadline_ms") == 0 ||
            strcmp(key, "created") == 0 || strcmp(key, "create_time") == 0)
            show_time(job, key, out);
        else if (strcmp(key, "ttr_ms") == 0)
            show_ttr(job, out);
        else
            show_value(job, key, out);
        buf_add_char(out, '\n');
    }
    show_retries(job, out);
    struct buf body = {0};
    show_body(job, &body);
    if (body.len > 0) {
        buf_add_char(out, '\n');
        text_add_safe_lines(out, buf_bytes(&body));
        if (body.at[body.len - 1] != '\n')
            buf_add_char(out, '\n');
    }
    buf_fini(&body);
}
