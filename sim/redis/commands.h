/*
 * Redis' commands on keys, as the Redis engine and its scripts use them: words in, RESP out, with
 * Redis 7.0's own types and errors. No connection, no clock: see sim/redis/server.h.
 */
#ifndef LATERD_SIM_REDIS_COMMANDS_H
#define LATERD_SIM_REDIS_COMMANDS_H

#include "sim/redis/values.h"

enum command_flags {
    COMMAND_WRITE = 1,       /* changes keys */
    COMMAND_DENY_OOM = 2,    /* refused when memory is full */
    COMMAND_LOADING = 4,     /* answered while the data is being loaded */
    COMMAND_NO_SCRIPT = 8,   /* not for scripts */
    COMMAND_NO_AUTH = 16,    /* answered before a password was given */
    COMMAND_SUBSCRIBER = 32, /* answered in a connection that has subscribed */
    COMMAND_CHANNELS = 64    /* its keys are sharded channels */
};

/* One command that is carried out. */
struct command_run {
    struct keyspace *keys;
    unsigned db;
    int64_t now_us; /* the server's clock */
    const struct bytes *words;
    uint32_t count;
    struct buf *out; /* RESP is appended */
    bool dirty;      /* it changed something, and goes to replicas */
    void *owner;     /* of the server's own commands */
};

struct command {
    const char *name;        /* in small letters */
    int arity;               /* words; negative: at least so many */
    unsigned flags;          /* of command_flags */
    int first_key, last_key; /* words that are keys, 0: none; EVAL and EVALSHA have their own way */
    void (*run)(struct command_run *run);
};

/* NULL: no such command on keys. Letters compare without case. */
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

/* As Redis writes it: %.17g. Whole numbers, which most are, are written faster. The text is in
 * `room`. */
struct bytes double_text(double number, char room[DOUBLE_TEXT_BYTES]);

#endif
