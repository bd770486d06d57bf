/*
 * What the journal writes of bytes that clients chose: an SQL literal is read back as the same
 * bytes and ends where it should; a row of any job has eleven values, and becomes the same job
 * again; what is read of any extend_data and any URL is bounded.
 */
#include "base/check.h"
#include "base/mem.h"
#include "journal/extend.h"
#include "journal/sql.h"
#include "journal/url.h"
#include "store/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char meant(char letter)
{
    switch (letter) {
    case '0': return '\0';
    case 'n': return '\n';
    case 'r': return '\r';
    case 'Z': return '\x1a';
    default: return letter;
    }
}

/* Reads a literal as a server does. Returns the bytes it took. */
static size_t read_literal(struct bytes sql, struct buf *out)
{
    CHECK(sql.len >= 2 && sql.at[0] == '\'');
    for (size_t i = 1; i < sql.len; i++) {
        if (sql.at[i] == '\'')
            return i + 1;
        if (sql.at[i] == '\\') {
            CHECK(++i < sql.len);
            buf_add_char(out, meant(sql.at[i]));
        } else {
            buf_add_char(out, sql.at[i]);
        }
    }
    CHECK(!"a literal without an end");
    return 0;
}

static void try_text(struct bytes text)
{
    struct buf sql = {0}, back = {0};
    sql_add_text(&sql, text);
    CHECK(read_literal(buf_bytes(&sql), &back) == sql.len);
    CHECK(bytes_eq(buf_bytes(&back), text));
    buf_fini(&sql);
    buf_fini(&back);
}

/* Value number `which` of "(v,v,…)". */
static void value(struct bytes tuple, unsigned which, struct buf *out)
{
    unsigned at_value = 0;
    size_t at = 1;
    while (at < tuple.len && tuple.at[at] != ')') {
        struct buf text = {0};
        struct bytes rest = bytes_of(tuple.at + at, tuple.len - at);
        if (rest.at[0] == '\'') {
            at += read_literal(rest, &text);
        } else {
            while (at < tuple.len && tuple.at[at] != ',' && tuple.at[at] != ')')
                buf_add_char(&text, tuple.at[at++]);
        }
        if (at_value++ == which)
            buf_add_bytes(out, buf_bytes(&text));
        buf_fini(&text);
        if (at < tuple.len && tuple.at[at] == ',')
            at++;
    }
    CHECK(at + 1 == tuple.len && at_value == 11);
}

static void compare(struct bytes tuple, const struct event *event)
{
    struct buf id = {0}, topic = {0}, body = {0}, extend = {0};
    struct arena arena = {0};
    struct cmd_push push;
    const char *why = NULL;
    value(tuple, 0, &id);
    value(tuple, 2, &topic);
    value(tuple, 6, &body);
    value(tuple, 10, &extend);
    struct extend_row row = {.id = buf_bytes(&id),
                             .topic = buf_bytes(&topic),
                             .body = buf_bytes(&body),
                             .extend_data = buf_bytes(&extend),
                             .status = STATUS_DELAYED};
    enum err err = extend_push(&row, &arena, &push, &why);
    CHECK(!err);
    CHECK(bytes_eq(push.id, event->id) && bytes_eq(push.topic, event->topic));
    CHECK(bytes_eq(push.body, event->body));
    if (bytes_is_utf8(event->properties))
        CHECK(bytes_eq(push.properties, event->properties));
    arena_fini(&arena);
    buf_fini(&id);
    buf_fini(&topic);
    buf_fini(&body);
    buf_fini(&extend);
}

static void try_row(struct bytes text)
{
    static const struct sql_place place = {.host = "h/1"};
    static const uint8_t store[JOURNAL_STORE_BYTES];
    size_t third = text.len / 3 < 200 ? text.len / 3 : 200;
    struct group group;
    struct buf sql = {0};
    struct event event = {.kind = EVENT_JOB,
                          .id = bytes_of(text.at, third),
                          .topic = bytes_of(text.at + third, third),
                          .body = text,
                          .properties = bytes_of(text.at, third),
                          .ttr_us = 1000,
                          .job = {.seq = 1, .state = JOB_DELAYED}};
    if (third == 0)
        return;
    size_t len = record_bytes(&event);
    struct journal_batch *batch = mem_zalloc(sizeof(*batch) + BATCH_HEAD + len);
    batch->number = 1;
    batch->payload_bytes = (uint32_t)len;
    record_encode(&event, len, batch->at + BATCH_HEAD);
    group_init(&group, store, true);
    if (group_add(&group, batch) == OK) {
        CHECK(group.job_count == 1 && group.log_count == 1);
        enum err err = sql_add_job(&sql, &group.jobs[0], &place);
        CHECK(!err);
        compare(buf_bytes(&sql), &event);
    }
    group_fini(&group);
    buf_fini(&sql);
    mem_free(batch);
}

static void try_reading(struct bytes text)
{
    struct extend_row row = {.id = BYTES("a"), .topic = BYTES("t"), .extend_data = text};
    struct arena arena = {0};
    struct journal_url url;
    struct cmd_push push;
    const char *why = NULL;
    if (extend_push(&row, &arena, &push, &why))
        CHECK(why);
    else
        CHECK(push.retry_count <= RETRY_STEPS_MAX && push.ttr_us > 0 && push.due_us >= 0);
    why = NULL;
    if (journal_url_read(text, &url, &why))
        CHECK(why);
    else
        CHECK(url.port && url.user[0] && url.database[0]);
    arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = bytes_of(data, size);
    try_text(text);
    try_row(text);
    try_reading(text);
    return 0;
}
