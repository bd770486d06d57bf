#include "sink/headers.h"

#include <stdio.h>

#include "base/rfc3339.h"

struct bytes sink_content_type(const struct delivery *delivery)
{
    if (delivery->content_type.len)
        return delivery->content_type;
    return delivery->body_kind == BODY_JSON ? BYTES("application/json")
                                            : BYTES("application/octet-stream");
}

struct bytes sink_label_header(enum delivery_label label)
{
    static const char *const names[DELIVERY_LABELS] = {
        [DELIVERY_BIZ_KEY] = "laterd-biz-key",
        [DELIVERY_SUBTOPIC] = "laterd-subtopic",
        [DELIVERY_TAGS] = "laterd-tags",
        [DELIVERY_EXTEND_DATA] = "laterd-extend-data",
    };
    return bytes_str(names[label]);
}

static bool is_ours(struct bytes name)
{
    return bytes_starts_nocase(name, BYTES("laterd-"));
}

/* True: a job may have a header of that name. Headers nats-… control that broker. */
static bool is_free(struct bytes name)
{
    return !is_ours(name) && !bytes_starts_nocase(name, BYTES("nats-"));
}

static void add(struct sink_headers *out, struct bytes name, struct bytes value)
{
    out->all[out->count++] = (struct target_header){.name = name, .value = value};
}

static bool among(const struct target_header *headers, unsigned count, struct bytes name)
{
    for (unsigned i = 0; i < count; i++) {
        if (bytes_eq_nocase(headers[i].name, name))
            return true;
    }
    return false;
}

/* Written into what is left of the room; 63 bytes are enough for a number and a time. */
static struct bytes write_numbers(struct sink_headers *out, const struct delivery *delivery,
                                  struct bytes *out_due)
{
    struct buf due = {0};
    rfc3339_add(&due, delivery->due_us);
    int len = snprintf(out->room, sizeof(out->room), "%u", delivery->attempt);
    size_t due_len = due.len < sizeof(out->room) - (size_t)len ? due.len : 0;
    if (due_len)
        memcpy(out->room + len, due.at, due_len);
    *out_due = bytes_of(out->room + len, due_len);
    buf_fini(&due);
    return bytes_of(out->room, (size_t)len);
}

void sink_headers_make(struct sink_headers *out, const struct delivery *delivery)
{
    const struct target *target = delivery->target;
    const struct bytes type_name = BYTES("content-type");
    struct bytes due, attempt;
    out->count = 0;
    attempt = write_numbers(out, delivery, &due);
    if (!among(target->headers, target->header_count, type_name) &&
        !among(delivery->headers, delivery->header_count, type_name))
        add(out, type_name, sink_content_type(delivery));
    add(out, BYTES("laterd-message-id"), delivery->message_id);
    add(out, BYTES("laterd-job-id"), delivery->id);
    add(out, BYTES("laterd-topic"), delivery->topic);
    add(out, BYTES("laterd-attempt"), attempt);
    add(out, BYTES("laterd-due"), due);
    if (delivery->key.len)
        add(out, BYTES("laterd-key"), delivery->key);
    for (enum delivery_label i = 0; i < DELIVERY_LABELS; i++) {
        if (delivery->labels[i].len)
            add(out, sink_label_header(i), delivery->labels[i]);
    }
    out->own_count = out->count;
    for (unsigned i = 0; i < target->header_count; i++) {
        struct bytes name = target->headers[i].name;
        if (!is_ours(name) && !among(delivery->headers, delivery->header_count, name))
            add(out, name, target->headers[i].value);
    }
    for (unsigned i = 0; i < delivery->header_count && i < TARGET_HEADERS_MAX; i++) {
        if (is_free(delivery->headers[i].name))
            add(out, delivery->headers[i].name, delivery->headers[i].value);
    }
}
