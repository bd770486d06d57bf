/*
 * Runs scripts for Redis, unchanged, under the Lua version that Redis embeds (5.1), with
 * redis.call, pcall, error_reply, status_reply, sha1hex and the library `struct`. Numbers, strings
 * and errors are converted in both directions as in Redis 7.0. Redis' other libraries (cjson, bit,
 * cmsgpack) are missing, because no script of ours uses them.
 *
 * A text is compiled once, no matter how many servers load it, and has a Lua state of its own,
 * which a script cannot keep anything in, because globals are forbidden, as in Redis. Redis has one
 * for all scripts: its collector would visit all of them again and again, and what a script has
 * dropped would have left the processor's cache before it is used again. One thread.
 */
#ifndef LATERD_SIM_REDIS_LUA_RUN_H
#define LATERD_SIM_REDIS_LUA_RUN_H

#include "base/bytes.h"
#include "base/err.h"

enum { LUA_SHA_DIGITS = 40, LUA_SCRIPTS_MAX = 256 };

struct sim_lua_words {
    const struct bytes *at;
    uint32_t count;
};

/* The callback for a script's commands. */
struct sim_lua_host {
    /* redis.call: appends the command's answer, in RESP. The words are valid until it returns. */
    void (*call)(struct sim_lua_host *host, struct sim_lua_words words, struct buf *out);
};

/* Compiles the text, unless it was compiled before. ERR_INVALID: an error was appended to
   out_error, in RESP. */
enum err sim_lua_load(struct bytes text, uint32_t *out_script, struct buf *out_error) MUST_USE;
/* The script's digest in hex digits, not NUL-terminated. */
const char *sim_lua_sha(uint32_t script);
/* UINT32_MAX: no script of any server has this digest. */
uint32_t sim_lua_find(struct bytes sha);
/* Runs it: appends its answer to `out`, in RESP. */
void sim_lua_run(uint32_t script, struct sim_lua_words keys, struct sim_lua_words arguments,
                 struct sim_lua_host *host, struct buf *out);

/* The work of the last script that grows with data: the number of words of its commands, and of
   parts of their answers. */
uint64_t sim_lua_work(void);
/* The bytes of these answers. */
uint64_t sim_lua_bytes(void);

/* Totals of all scripts, on all servers, since the caller zeroed it. */
struct sim_lua_ledger {
    uint64_t runs;
    uint64_t most_work, most_bytes; /* of one run; see sim_lua_work, sim_lua_bytes */
};

struct sim_lua_ledger *sim_lua_ledger(void);

#endif
