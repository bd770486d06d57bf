#include "proto/msgpack_read.h"

void msgpack_init(struct msgpack *msgpack, struct bytes text)
{
    *msgpack = (struct msgpack){.at = text.at, .end = text.at + text.len};
}

bool msgpack_end(const struct msgpack *msgpack)
{
    return msgpack->at == msgpack->end;
}

static bool take(struct msgpack *msgpack, uint64_t len, struct bytes *out_bytes)
{
    if ((uint64_t)(msgpack->end - msgpack->at) < len)
        return false;
    *out_bytes = bytes_of(msgpack->at, (size_t)len);
    msgpack->at += len;
    return true;
}

/* A big-endian number of 1, 2, 4 or 8 bytes. */
static bool take_number(struct msgpack *msgpack, unsigned len, uint64_t *out_number)
{
    struct bytes bytes;
    uint64_t number = 0;
    if (!take(msgpack, len, &bytes))
        return false;
    for (size_t i = 0; i < len; i++)
        number = number << 8 | (unsigned char)bytes.at[i];
    *out_number = number;
    return true;
}

/* What follows a first byte from 0xc0 on: a number, a length, or a body. */
struct form {
    enum msgpack_kind kind;
    unsigned char number_bytes;
    unsigned char body_bytes; /* if there is no length */
};

/* 0xc1 is not used. NEGATIVE stands for signed, whatever the sign. */
enum { FORMS_FIRST = 0xc0, FORMS_UNUSED = 0xc1, FORMS_END = 0xe0 };

static const struct form forms[FORMS_END - FORMS_FIRST] = {
    {MSGPACK_NIL, 0, 0},        {MSGPACK_NIL, 0, 0},       {MSGPACK_BOOL, 0, 0},
    {MSGPACK_BOOL, 0, 0},       {MSGPACK_TEXT, 1, 0},      {MSGPACK_TEXT, 2, 0},
    {MSGPACK_TEXT, 4, 0},       {MSGPACK_EXTENSION, 1, 0}, {MSGPACK_EXTENSION, 2, 0},
    {MSGPACK_EXTENSION, 4, 0},  {MSGPACK_FLOAT, 0, 4},     {MSGPACK_FLOAT, 0, 8},
    {MSGPACK_UNSIGNED, 1, 0},   {MSGPACK_UNSIGNED, 2, 0},  {MSGPACK_UNSIGNED, 4, 0},
    {MSGPACK_UNSIGNED, 8, 0},   {MSGPACK_NEGATIVE, 1, 0},  {MSGPACK_NEGATIVE, 2, 0},
    {MSGPACK_NEGATIVE, 4, 0},   {MSGPACK_NEGATIVE, 8, 0},  {MSGPACK_EXTENSION, 0, 1},
    {MSGPACK_EXTENSION, 0, 2},  {MSGPACK_EXTENSION, 0, 4}, {MSGPACK_EXTENSION, 0, 8},
    {MSGPACK_EXTENSION, 0, 16}, {MSGPACK_TEXT, 1, 0},      {MSGPACK_TEXT, 2, 0},
    {MSGPACK_TEXT, 4, 0},       {MSGPACK_ARRAY, 2, 0},     {MSGPACK_ARRAY, 4, 0},
    {MSGPACK_MAP, 2, 0},        {MSGPACK_MAP, 4, 0},
};

static bool take_form(struct msgpack *msgpack, const struct form *form, struct msgpack_value *value)
{
    uint64_t number = form->body_bytes;
    struct bytes body;
    if (form->number_bytes && !take_number(msgpack, form->number_bytes, &number))
        return false;
    value->kind = form->kind;
    switch (form->kind) {
    case MSGPACK_TEXT: return take(msgpack, number, &value->text);
    case MSGPACK_EXTENSION: return take(msgpack, number + 1, &body); /* its type is a byte more */
    case MSGPACK_FLOAT: return take(msgpack, number, &body);
    case MSGPACK_NEGATIVE:
        if ((number >> (form->number_bytes * 8 - 1) & 1) == 0)
            value->kind = MSGPACK_UNSIGNED;
        break;
    case MSGPACK_NIL:
    case MSGPACK_BOOL:
    case MSGPACK_UNSIGNED:
    case MSGPACK_ARRAY:
    case MSGPACK_MAP: break;
    }
    value->number = number;
    return true;
}

bool msgpack_next(struct msgpack *msgpack, struct msgpack_value *out_value)
{
    struct msgpack_value value = {.kind = MSGPACK_NIL};
    uint64_t number;
    bool good = true;
    if (!take_number(msgpack, 1, &number))
        return false;
    unsigned first = (unsigned)number;
    if (first < 0x80) {
        value.kind = MSGPACK_UNSIGNED;
        value.number = first;
    } else if (first < 0xa0) {
        value.kind = first < 0x90 ? MSGPACK_MAP : MSGPACK_ARRAY;
        value.number = first & 0x0f;
    } else if (first < 0xc0) {
        value.kind = MSGPACK_TEXT;
        good = take(msgpack, first & 0x1f, &value.text);
    } else if (first < FORMS_END) {
        good = first != FORMS_UNUSED && take_form(msgpack, &forms[first - FORMS_FIRST], &value);
    } else {
        value.kind = MSGPACK_NEGATIVE;
    }
    if (good)
        *out_value = value;
    return good;
}

static uint64_t contained(const struct msgpack_value *value)
{
    return value->kind == MSGPACK_MAP     ? 2 * value->number
           : value->kind == MSGPACK_ARRAY ? value->number
                                          : 0;
}

bool msgpack_skip(struct msgpack *msgpack, const struct msgpack_value *value)
{
    struct msgpack_value inner;
    /* A count of values still to come does for depth. Each takes a byte at least. */
    for (uint64_t left = contained(value); left > 0; left += contained(&inner) - 1) {
        if (left > (uint64_t)(msgpack->end - msgpack->at) || !msgpack_next(msgpack, &inner))
            return false;
    }
    return true;
}
