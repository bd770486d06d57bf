/*
 * MessagePack without a tree: a pull reader. It allocates nothing, so a few bytes that announce an
 * array of four billion elements cost nothing (msgpack-c allocates the elements first, which is why
 * we have our own). The format is that of github.com/msgpack/msgpack, spec.md. Pure.
 */
#ifndef LATERD_PROTO_MSGPACK_READ_H
#define LATERD_PROTO_MSGPACK_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

enum msgpack_kind {
    MSGPACK_NIL,
    MSGPACK_BOOL,
    MSGPACK_UNSIGNED, /* an integer from 0 up, however it was written */
    MSGPACK_NEGATIVE,
    MSGPACK_FLOAT,
    MSGPACK_TEXT, /* str and bin: older encoders have only one of them */
    MSGPACK_ARRAY,
    MSGPACK_MAP,
    MSGPACK_EXTENSION
};

struct msgpack_value {
    enum msgpack_kind kind;
    uint64_t number;   /* UNSIGNED; of an ARRAY its elements, of a MAP its pairs */
    struct bytes text; /* TEXT; borrowed from the input */
};

struct msgpack {
    const char *at;
    const char *end;
};

/* A reader of `text`, which is borrowed for as long as the reader and its values are used. */
void msgpack_init(struct msgpack *msgpack, struct bytes text);

/* The next value; of an array or a map only its head. False: at the end, cut, or no MessagePack. */
bool msgpack_next(struct msgpack *msgpack, struct msgpack_value *out_value);

/* Skips the contents of an array or a map of any depth, without recursion. False as above. O(bytes
 * skipped). */
bool msgpack_skip(struct msgpack *msgpack, const struct msgpack_value *value);

/* Has all been read? */
bool msgpack_end(const struct msgpack *msgpack);

#endif
