/*
 * Redis' commands on keys, as far as the Redis engine and its scripts use them: words in, RESP out,
 * with the types and errors of Redis 7.0. Connections and the clock are in sim/redis/server.h.
 */
#ifndef LATERD_SIM_REDIS_COMMANDS_H
#define LATERD_SIM_REDIS_COMMANDS_H

#include "sim/redis/values.h"

enum command_flags {
    COMMAND_WRITE = 1,       /* changes keys */
    COMMAND_DENY_OOM = 2,    /* refused when memory is full */
    COMMAND_LOADING = 4,     /* allowed while the data is being loaded */
    COMMAND_NO_SCRIPT = 8,   /* refused in scripts */
    COMMAND_NO_AUTH = 16,    /* allowed before a password was given */
    COMMAND_SUBSCRIBER = 32, /* allowed on a connection that has subscribed */
    COMMAND_CHANNELS = 64    /* its keys are sharded channels */
};

/* The execution of one command. */
struct command_run {
    struct keyspace *keys;
    unsigned db;
    int64_t now_us; /* the server's clock */
    const struct bytes *words;
    uint32_t count;
    struct buf *out; /* RESP is appended */
    bool dirty;      /* it changed something, so replicas must execute it */
    void *owner;     /* context of the server's own commands */
};

struct command {
    const char *name;        /* in lower case */
    int arity;               /* number of words; negative: at least so many */
    unsigned flags;          /* enum command_flags */
    int first_key, last_key; /* words that are keys, 0: none; not for EVAL and EVALSHA */
    void (*run)(struct command_run *run);
};

/* NULL: there is no such command on keys. The name's case does not matter. */
const struct command *command_find(struct bytes name);

/* ---- RESP ---- */

void resp_array(struct buf *out, size_t count);
void resp_bulk(struct buf *out, struct bytes bytes);
void resp_nil(struct buf *out);
void resp_integer(struct buf *out, int64_t number);
void resp_error(struct buf *out, const char *text); /* "ERR …", without '-' and line end */
void resp_ok(struct buf *out);
void resp_double(struct buf *out, double number);

enum { DOUBLE_TEXT_BYTES = 32 };

/* Formats a number as Redis does: %.17g. Whole numbers have a faster path. The text is in `room`.
 */
struct bytes double_text(double number, char room[DOUBLE_TEXT_BYTES]);

#endif
