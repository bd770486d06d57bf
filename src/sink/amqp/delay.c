#include "sink/amqp/delay.h"

#include <math.h>

#include "core/job.h"

static struct bytes bytes_from(amqp_bytes_t text)
{
    return bytes_of(text.bytes, text.len);
}

/* ---- x-delay ---- */

/* A number that does not fit becomes the nearest one that does. */
static int64_t from_double(double number)
{
    if (isnan(number))
        return 0;
    if (number >= 9e18)
        return INT64_MAX;
    return number <= -9e18 ? INT64_MIN : (int64_t)number; /* towards zero */
}

static int64_t from_u64(uint64_t number)
{
    return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

static bool from_text(struct bytes text, int64_t *out_ms)
{
    bool minus = text.len && text.at[0] == '-';
    uint64_t number = 0;
    if (text.len && (minus || text.at[0] == '+'))
        text = bytes_of(text.at + 1, text.len - 1);
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        if (number < UINT64_C(1) << 59) /* beyond that it is far too long already */
            number = 10 * number + (uint64_t)(text.at[i] - '0');
    }
    if (text.len == 0)
        return false;
    *out_ms = minus ? -from_u64(number) : from_u64(number);
    return true;
}

static int64_t from_decimal(amqp_decimal_t decimal)
{
    int64_t number = (int32_t)decimal.value;
    for (unsigned i = 0; i < decimal.decimals && number; i++)
        number /= 10;
    return number;
}

bool rabbit_delay_read(const amqp_field_value_t *value, int64_t *out_ms)
{
    switch ((amqp_field_value_kind_t)value->kind) {
    case AMQP_FIELD_KIND_I8: *out_ms = (int)value->value.i8; return true;
    case AMQP_FIELD_KIND_U8: *out_ms = value->value.u8; return true;
    case AMQP_FIELD_KIND_I16: *out_ms = value->value.i16; return true;
    case AMQP_FIELD_KIND_U16: *out_ms = value->value.u16; return true;
    case AMQP_FIELD_KIND_I32: *out_ms = value->value.i32; return true;
    case AMQP_FIELD_KIND_U32: *out_ms = value->value.u32; return true;
    case AMQP_FIELD_KIND_I64: *out_ms = value->value.i64; return true;
    case AMQP_FIELD_KIND_U64: *out_ms = from_u64(value->value.u64); return true;
    case AMQP_FIELD_KIND_F32: *out_ms = from_double((double)value->value.f32); return true;
    case AMQP_FIELD_KIND_F64: *out_ms = from_double(value->value.f64); return true;
    case AMQP_FIELD_KIND_DECIMAL: *out_ms = from_decimal(value->value.decimal); return true;
    case AMQP_FIELD_KIND_UTF8:
    case AMQP_FIELD_KIND_BYTES: return from_text(bytes_from(value->value.bytes), out_ms);
    case AMQP_FIELD_KIND_BOOLEAN:
    case AMQP_FIELD_KIND_ARRAY:
    case AMQP_FIELD_KIND_TIMESTAMP:
    case AMQP_FIELD_KIND_TABLE:
    case AMQP_FIELD_KIND_VOID: break;
    }
    return false;
}

amqp_field_value_t rabbit_delay_turned(int64_t ms)
{
    int64_t turned = ms == INT64_MIN ? INT64_MAX : -ms;
    if (turned >= INT32_MIN && turned <= INT32_MAX)
        return (amqp_field_value_t){.kind = AMQP_FIELD_KIND_I32, .value.i32 = (int32_t)turned};
    return (amqp_field_value_t){.kind = AMQP_FIELD_KIND_I64, .value.i64 = turned};
}

/* ---- all of them ---- */

static amqp_field_value_t *header(amqp_table_t *headers, struct bytes name)
{
    for (int i = 0; i < headers->num_entries; i++) {
        if (bytes_eq(bytes_from(headers->entries[i].key), name))
            return &headers->entries[i].value;
    }
    return NULL;
}

/* False: it is not a text. */
static bool text_of(const amqp_field_value_t *value, struct bytes *out)
{
    if (value->kind != AMQP_FIELD_KIND_UTF8 && value->kind != AMQP_FIELD_KIND_BYTES)
        return false;
    *out = bytes_from(value->value.bytes);
    return true;
}

static bool is_true(const amqp_field_value_t *value)
{
    struct bytes text;
    int64_t number;
    if (value->kind == AMQP_FIELD_KIND_BOOLEAN)
        return value->value.boolean;
    if (rabbit_delay_read(value, &number))
        return number != 0;
    return text_of(value, &text) && bytes_eq_nocase(text, BYTES("true"));
}

static bool read_if_exists(const amqp_field_value_t *value, enum if_exists *out)
{
    struct bytes text;
    if (!text_of(value, &text))
        return false;
    if (bytes_eq(text, BYTES("reject")))
        *out = IF_EXISTS_REJECT;
    else if (bytes_eq(text, BYTES("replace")))
        *out = IF_EXISTS_REPLACE;
    else if (bytes_eq(text, BYTES("keep")))
        *out = IF_EXISTS_KEEP;
    else
        return false;
    return true;
}

const char *rabbit_headers_take(amqp_table_t *headers, struct intake_message *out_message)
{
    amqp_field_value_t *delay = header(headers, BYTES("x-delay"));
    const amqp_field_value_t *id = header(headers, BYTES("x-laterd-id"));
    const amqp_field_value_t *if_exists = header(headers, BYTES("x-laterd-if-exists"));
    const amqp_field_value_t *cancel = header(headers, BYTES("x-laterd-cancel"));
    int64_t ms = 0;
    out_message->delay_us = 0;
    out_message->id = bytes_of("", 0);
    out_message->if_exists = IF_EXISTS_REPLACE;
    out_message->cancel = cancel && is_true(cancel);
    if (delay && rabbit_delay_read(delay, &ms) && ms > 0) {
        *delay = rabbit_delay_turned(ms);
        out_message->delay_us = (ms < RABBIT_DELAY_MOST_MS ? ms : RABBIT_DELAY_MOST_MS) * 1000;
    }
    if (id && (!text_of(id, &out_message->id) || out_message->id.len == 0 ||
               out_message->id.len > JOB_ID_MAX || out_message->id.at[0] == '@' ||
               !bytes_is_utf8(out_message->id) || !bytes_is_printable(out_message->id)))
        return "x-laterd-id is not UTF-8 of 1 to 255 bytes, without control characters, that does "
               "not begin with @";
    if (if_exists && !read_if_exists(if_exists, &out_message->if_exists))
        return "x-laterd-if-exists is not reject, replace or keep";
    if (out_message->cancel && !id)
        return "x-laterd-cancel without x-laterd-id";
    return NULL;
}
