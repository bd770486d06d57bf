#include "cli/import/redis_layout.h"

#include <stdlib.h>

#include "base/rfc3339.h"
#include "proto/json.h"
#include "proto/msgpack_read.h"

enum { SECOND_US = 1000000, MS_US = 1000, JSON_DEPTH = 32 };

enum err redis_layout_read(const char *name, enum redis_layout *out_layout)
{
    static const char *const names[] = {
        [LAYOUT_DELAY_QUEUE] = "delay-queue",
        [LAYOUT_SDMQ] = "sdmq",
        [LAYOUT_DELAYQUEUE_JAVA] = "delayqueue-java",
    };
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            *out_layout = (enum redis_layout)i;
            return OK;
        }
    }
    return ERR_NOT_FOUND;
}

/* ---- names of keys ---- */

static bool has_one(const char *pattern, const char *percent)
{
    const char *at = strchr(pattern, '%');
    return at && at[1] == percent[1] && !strchr(at + 1, '%');
}

bool redis_names_good(const struct redis_names *names)
{
    return has_one(names->bucket, "%d") && has_one(names->queue, "%s") && *names->prefix;
}

/* What stands in `key` where the pattern has its %d or %s. False: it is not made of it. */
static bool fits(const char *pattern, struct bytes key, struct bytes *out_part)
{
    struct bytes before = bytes_of(pattern, strcspn(pattern, "%"));
    struct bytes after = bytes_str(pattern + before.len + 2);
    if (key.len < before.len + after.len || !bytes_starts(key, before) ||
        !bytes_eq(bytes_of(key.at + key.len - after.len, after.len), after))
        return false;
    *out_part = bytes_of(key.at + before.len, key.len - before.len - after.len);
    return true;
}

static bool is_number(struct bytes text)
{
    uint64_t number;
    return bytes_to_u64(text, &number);
}

static enum redis_role role_in_delay_queue(const struct redis_names *names, struct bytes key,
                                           enum redis_type type)
{
    struct bytes part;
    if (type == TYPE_STRING)
        return ROLE_JOB;
    if (type == TYPE_ZSET && fits(names->bucket, key, &part) && is_number(part))
        return ROLE_BUCKET;
    return type == TYPE_LIST && fits(names->queue, key, &part) ? ROLE_READY : ROLE_FOREIGN;
}

/* "PREFIX:NAME:…", and "PREFIX:NAME:ready:LOCK" where several servers took turns. */
static enum redis_role role_in_sdmq(const struct redis_names *names, struct bytes key,
                                    enum redis_type type)
{
    struct bytes prefix = bytes_str(names->prefix);
    if (!bytes_starts(key, prefix) || key.len <= prefix.len || key.at[prefix.len] != ':')
        return ROLE_FOREIGN;
    const char *colon = memrchr(key.at, ':', key.len);
    struct bytes last = bytes_of(colon + 1, (size_t)(key.at + key.len - colon - 1));
    if (bytes_eq(last, BYTES("LOCK")))
        return ROLE_LOCK;
    if (colon == key.at + prefix.len)
        return ROLE_FOREIGN;
    if (type == TYPE_HASH && bytes_eq(last, BYTES("pools")))
        return ROLE_POOL;
    if (type == TYPE_LIST && bytes_eq(last, BYTES("ready")))
        return ROLE_READY;
    return type == TYPE_ZSET && is_number(last) ? ROLE_BUCKET : ROLE_FOREIGN;
}

static enum redis_role role_in_java(struct bytes key, enum redis_type type)
{
    struct bytes part;
    if (type == TYPE_HASH && bytes_eq(key, BYTES("delayQueueJobPool")))
        return ROLE_POOL;
    if (type == TYPE_ZSET && fits("delayBucket%d", key, &part) && is_number(part))
        return ROLE_BUCKET;
    return type == TYPE_LIST ? ROLE_READY : ROLE_FOREIGN;
}

enum redis_role redis_role_of(const struct redis_names *names, struct bytes key,
                              enum redis_type type)
{
    switch (names->layout) {
    case LAYOUT_DELAY_QUEUE: return role_in_delay_queue(names, key, type);
    case LAYOUT_SDMQ: return role_in_sdmq(names, key, type);
    case LAYOUT_DELAYQUEUE_JAVA: return role_in_java(key, type);
    }
    return ROLE_FOREIGN;
}

/* ---- numbers ---- */

/* Of a count of `unit_us` since 1970. False: before that, or past what RFC 3339 can name. */
static bool time_of(int64_t count, int64_t unit_us, int64_t *out_us)
{
    if (count < 0 || count > RFC3339_MAX_US / unit_us)
        return false;
    *out_us = count * unit_us;
    return true;
}

/* What Redis answers as a score: "1516000000123", or "1.516000000123e+12" from old versions. */
enum err redis_score_us(enum redis_layout layout, struct bytes score, int64_t *out_us)
{
    int64_t unit_us = layout == LAYOUT_DELAY_QUEUE ? SECOND_US : MS_US;
    uint64_t whole;
    if (bytes_to_u64(score, &whole) && whole <= INT64_MAX)
        return time_of((int64_t)whole, unit_us, out_us) ? OK : ERR_CORRUPT;
    char room[64], *end;
    if (score.len == 0 || score.len >= sizeof(room))
        return ERR_CORRUPT;
    memcpy(room, score.at, score.len);
    room[score.len] = '\0';
    double number = strtod(room, &end); /* Redis' own type: up to 2^53 it is exact */
    if (*end != '\0' || !(number >= 0 && number < 1e15))
        return ERR_CORRUPT;
    return time_of((int64_t)number, unit_us, out_us) ? OK : ERR_CORRUPT;
}

/* ---- JSON ---- */

/* An integer, as a number, as a string, or as ["java.lang.Long",7]; `text` is its digits. */
static bool whole_number(const struct json_value *value, struct bytes *out_text)
{
    struct json_value item = *value;
    struct bytes digits = value->text;
    int64_t number;
    if (value->kind == JSON_KIND_ARRAY) {
        struct json json;
        json_init(&json, value->text, JSON_DEPTH);
        if (!json_open(&json, JSON_KIND_ARRAY) || !json_item(&json, &item) ||
            item.kind != JSON_KIND_STRING || !json_item(&json, &item))
            return false;
        digits = item.text;
    }
    if (item.kind == JSON_KIND_STRING && !item.escaped)
        item.kind = JSON_KIND_NUMBER; /* json_int looks at the digits alone */
    if (item.kind != JSON_KIND_NUMBER || !json_int(&item, &number))
        return false;
    *out_text = digits;
    return true;
}

/* The first of an object's members that is called like one of `names`. */
static bool member_named(struct bytes object, const char *const *names,
                         struct json_value *out_value)
{
    struct json json;
    struct json_value name, value;
    json_init(&json, object, JSON_DEPTH);
    if (!json_open(&json, JSON_KIND_OBJECT))
        return false;
    while (json_member(&json, &name, &value)) {
        for (unsigned i = 0; names[i]; i++) {
            if (!name.escaped && bytes_eq(name.text, bytes_str(names[i]))) {
                *out_value = value;
                return true;
            }
        }
    }
    return false;
}

enum err redis_member_id(enum redis_layout layout, struct bytes member, struct arena *arena,
                         struct bytes *out_id)
{
    static const char *const names[] = {"delayQueueJobId", "delayQueueJodId", "jobId", "id", NULL};
    struct json json;
    struct json_value value;
    struct bytes id = member;
    if (layout == LAYOUT_DELAYQUEUE_JAVA) {
        json_init(&json, member, JSON_DEPTH);
        if (!json_value(&json, &value) || !json_end(&json))
            return ERR_CORRUPT;
        if (value.kind == JSON_KIND_OBJECT && !member_named(value.text, names, &value))
            return ERR_CORRUPT;
        if (!whole_number(&value, &id))
            return ERR_CORRUPT;
    }
    if (id.len == 0)
        return ERR_CORRUPT;
    *out_id = arena_copy(arena, id);
    return OK;
}

/* A member that holds an integer. False: it is not there, null, or something else. */
static bool read_int(struct bytes object, const char *name, int64_t *out_number)
{
    const char *const names[] = {name, NULL};
    struct json_value value;
    struct bytes digits;
    if (!member_named(object, names, &value) || !whole_number(&value, &digits))
        return false;
    value = (struct json_value){.kind = JSON_KIND_NUMBER, .text = digits};
    return json_int(&value, out_number);
}

/* A member that holds a string; null is an empty one. */
static bool read_text(struct bytes object, const char *name, struct arena *arena,
                      struct bytes *out_text)
{
    const char *const names[] = {name, NULL};
    struct json_value value;
    if (!member_named(object, names, &value))
        return false;
    if (value.kind == JSON_KIND_NULL)
        *out_text = BYTES("");
    else if (value.kind == JSON_KIND_STRING)
        *out_text = json_text(&value, arena);
    else
        return false;
    return true;
}

/* What sdmq keeps of a job besides id, topic, times and body; fastjson leaves null members out. */
static void read_labels(struct bytes object, struct arena *arena, struct redis_job *job)
{
    struct job_properties *labels = &job->labels;
    int64_t ttl, priority;
    (void)read_text(object, "bizKey", arena, &labels->biz_key);
    (void)read_text(object, "subtopic", arena, &labels->subtopic);
    (void)read_text(object, "extendData", arena, &labels->extend_data);
    if (read_int(object, "priority", &priority) && priority >= 0 && priority <= UINT32_MAX)
        labels->rank = (uint32_t)priority;
    if (read_int(object, "ttl", &ttl) && ttl > 0)
        (void)time_of(ttl, SECOND_US, &job->ttr_us); /* else it has none */
}

static const char *read_sdmq(struct bytes object, struct arena *arena, struct redis_job *job)
{
    enum { FINISHED = 3, DELETED = 4 };
    int64_t delay, created, status;
    if (!read_text(object, "id", arena, &job->id) ||
        !read_text(object, "topic", arena, &job->topic))
        return "it has no id or no topic";
    if (!read_int(object, "delay", &delay) || !read_int(object, "createTime", &created))
        return "it has no delay or no createTime";
    if (!read_text(object, "body", arena, &job->body)) /* fastjson leaves null members out */
        job->body = BYTES("");
    if (created < 0 || delay > INT64_MAX - created ||
        !time_of(created + delay < 0 ? 0 : created + delay, MS_US, &job->due_us))
        return "its time is out of range";
    if (read_int(object, "status", &status))
        job->finished = status == FINISHED || status == DELETED;
    job->labels.create_ms = created <= RFC3339_MAX_US / MS_US ? created : 0;
    read_labels(object, arena, job);
    return NULL;
}

static const char *read_java(struct bytes object, struct bytes id, struct arena *arena,
                             struct redis_job *job)
{
    int64_t due, ttr, number;
    struct json_value digits = {.kind = JSON_KIND_NUMBER, .text = id};
    if (!read_int(object, "id", &number) || !json_int(&digits, &due) || due != number)
        return "its id is not that of its field";
    job->id = id;
    if (!read_text(object, "topic", arena, &job->topic))
        return "it has no topic";
    if (!read_text(object, "message", arena, &job->body))
        return "it has no message";
    if (!read_int(object, "delayTime", &due) || !read_int(object, "ttrTime", &ttr))
        return "it has no delayTime or no ttrTime";
    if (!time_of(due, MS_US, &job->due_us) || !time_of(ttr, SECOND_US, &job->ttr_us))
        return "its time is out of range";
    return NULL;
}

static enum err read_json(enum redis_layout layout, struct bytes id, struct bytes value,
                          struct arena *arena, struct redis_job *job, const char **out_why)
{
    struct json json;
    struct json_value object;
    json_init(&json, value, JSON_DEPTH);
    const char *why = "it is no JSON";
    if (json_value(&json, &object) && json_end(&json))
        why = object.kind != JSON_KIND_OBJECT ? "it is no JSON object"
              : layout == LAYOUT_SDMQ         ? read_sdmq(object.text, arena, job)
                                              : read_java(object.text, id, arena, job);
    if (!why && !bytes_eq(job->id, id))
        why = "its id is not that of its field";
    if (why)
        *out_why = why;
    return why ? ERR_CORRUPT : OK;
}

/* ---- MessagePack ---- */

static bool take_time(const struct msgpack_value *value, int64_t *out_us)
{
    return value->kind == MSGPACK_UNSIGNED && value->number <= INT64_MAX &&
           time_of((int64_t)value->number, SECOND_US, out_us);
}

static bool take_text(const struct msgpack_value *value, struct bytes *out_text)
{
    *out_text = value->text;
    return value->kind == MSGPACK_TEXT;
}

static bool take_member(unsigned number, const struct msgpack_value *value, struct redis_job *job)
{
    switch (number) {
    case 1: return take_text(value, &job->topic);
    case 2: return take_text(value, &job->id);
    case 3: return take_time(value, &job->due_us);
    case 4: return take_time(value, &job->ttr_us);
    default: return take_text(value, &job->body);
    }
}

/* Which of the members "1" … "5" has this name; 0: none of them. */
static unsigned member_number(const struct msgpack_value *name)
{
    bool one = name->kind == MSGPACK_TEXT && name->text.len == 1 && name->text.at[0] >= '1' &&
               name->text.at[0] <= '5';
    return one ? (unsigned)(name->text.at[0] - '0') : 0;
}

/* Reads the members, each once; others are ignored. Returns NULL, or what is wrong. */
static const char *take_members(struct msgpack *msgpack, uint64_t count, struct redis_job *job)
{
    static const char broken[] = "its MessagePack is broken";
    enum { ALL = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 };
    unsigned seen = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct msgpack_value name, value;
        if (!msgpack_next(msgpack, &name) || !msgpack_skip(msgpack, &name) ||
            !msgpack_next(msgpack, &value) || !msgpack_skip(msgpack, &value))
            return broken;
        unsigned number = member_number(&name);
        if (number == 0)
            continue;
        if (seen & 1U << number)
            return "a member stands in it twice";
        seen |= 1U << number;
        if (!take_member(number, &value, job))
            return "a member of it has the wrong type, or a time is out of range";
    }
    if (!msgpack_end(msgpack))
        return broken;
    return seen == ALL ? NULL : "a member of it is missing";
}

static enum err read_msgpack(struct bytes id, struct bytes value, struct redis_job *job,
                             const char **out_why)
{
    struct msgpack msgpack;
    struct msgpack_value map;
    msgpack_init(&msgpack, value);
    if (!msgpack_next(&msgpack, &map) || map.kind != MSGPACK_MAP)
        return ERR_INVALID;
    const char *why = take_members(&msgpack, map.number, job);
    if (!why && !bytes_eq(job->id, id))
        why = "its id is not its key";
    if (why)
        *out_why = why;
    return why ? ERR_CORRUPT : OK;
}

enum err redis_job_read(enum redis_layout layout, struct bytes id, struct bytes value,
                        struct arena *arena, struct redis_job *out_job, const char **out_why)
{
    struct redis_job job = {.finished = false};
    enum err err = layout == LAYOUT_DELAY_QUEUE
                       ? read_msgpack(id, value, &job, out_why)
                       : read_json(layout, id, value, arena, &job, out_why);
    if (!err)
        *out_job = job;
    return err;
}
