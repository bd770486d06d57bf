/*
 * Owns the Lua states. `running`: a script runs; scripts do not nest.
 */
#include "sim/redis/lua_run.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "engine/redis/script_parts.h"
#include "sim/redis/commands.h"
#include "sim/redis/lua_struct.h"

enum { WORDS_MAX = 8192 };

struct compiled {
    XXH128_hash_t hash;
    char sha[LUA_SHA_DIGITS];
    lua_State *lua; /* its own */
    int on_error;   /* in Lua's registry: Redis' own error handler */
    int function;   /* there, too */
};

static struct {
    struct compiled all[LUA_SCRIPTS_MAX];
    uint32_t count;
    struct sim_lua_host *host;
    bool running;
    uint64_t work, bytes; /* see sim_lua_work */
    struct sim_lua_ledger ledger;
} state;

/* ---- answers of commands, from RESP ---- */

static size_t take_line(struct bytes *in, struct bytes *out_line)
{
    const char *end = memchr(in->at, '\r', in->len);
    CHECK(end);
    *out_line = bytes_of(in->at + 1, (size_t)(end - in->at) - 1);
    size_t used = (size_t)(end - in->at) + 2;
    *in = bytes_of(in->at + used, in->len - used);
    return used;
}

static long long number_of(struct bytes line)
{
    char room[32] = "";
    memcpy(room, line.at, line.len < sizeof(room) - 1 ? line.len : sizeof(room) - 1);
    return strtoll(room, NULL, 10);
}

static void push_field(lua_State *lua, const char *name, struct bytes text)
{
    lua_newtable(lua);
    lua_pushlstring(lua, text.at, text.len);
    lua_setfield(lua, -2, name);
}

/* Pushes the first answer of `in`, and removes it from `in`. */
static void push_reply(lua_State *lua, struct bytes *in)
{
    struct bytes line;
    char kind = in->at[0];
    (void)take_line(in, &line); /* the simulation wrote it */
    state.work++;
    long long number = kind == '+' || kind == '-' ? 0 : number_of(line);
    luaL_checkstack(lua, 8, "an answer is too deep");
    switch (kind) {
    case '+': push_field(lua, "ok", line); break;
    case '-': push_field(lua, "err", line); break;
    case ':': lua_pushnumber(lua, (lua_Number)number); break;
    case '$':
        if (number < 0) {
            lua_pushboolean(lua, 0);
            break;
        }
        lua_pushlstring(lua, in->at, (size_t)number);
        *in = bytes_of(in->at + number + 2, in->len - (size_t)number - 2);
        break;
    default:
        lua_createtable(lua, (int)number, 0);
        for (int i = 1; i <= number; i++) {
            push_reply(lua, in);
            lua_rawseti(lua, -2, i);
        }
    }
}

/* ---- redis.* ---- */

/* As Redis' luaRaiseError: raises a table, to which the error handler adds the line. */
static int raise_text(lua_State *lua, const char *text)
{
    push_field(lua, "err", bytes_str(text));
    return lua_error(lua);
}

static int call_command(lua_State *lua, bool raise)
{
    static struct bytes words[WORDS_MAX];
    static char numbers[WORDS_MAX][DOUBLE_TEXT_BYTES];
    static struct buf answer;
    int count = lua_gettop(lua);
    if (count == 0)
        return raise_text(lua,
                          "ERR Please specify at least one argument for this redis.call() call");
    CHECK(count <= WORDS_MAX);
    state.work += (uint64_t)count;
    for (int i = 0; i < count; i++) {
        if (lua_type(lua, i + 1) == LUA_TNUMBER) {
            words[i] = double_text(lua_tonumber(lua, i + 1), numbers[i]);
        } else {
            words[i].at = lua_tolstring(lua, i + 1, &words[i].len);
            if (!words[i].at)
                return raise_text(
                    lua, "ERR Lua redis lib command arguments must be strings or integers");
        }
    }
    answer.len = 0;
    state.host->call(state.host, (struct sim_lua_words){.at = words, .count = (uint32_t)count},
                     &answer);
    struct bytes in = buf_bytes(&answer);
    state.bytes += in.len;
    bool failed = in.at[0] == '-';
    push_reply(lua, &in);
    return raise && failed ? lua_error(lua) : 1;
}

static int redis_call(lua_State *lua)
{
    return call_command(lua, true);
}

static int redis_pcall(lua_State *lua)
{
    return call_command(lua, false);
}

static int redis_error_reply(lua_State *lua)
{
    size_t len;
    const char *text = luaL_checklstring(lua, 1, &len);
    bool code = memchr(text, ' ', len) != NULL;
    size_t skip = text[0] == '-';
    if (code)
        push_field(lua, "err", bytes_of(text + skip, len - skip));
    else {
        lua_pushfstring(lua, "ERR %s", text + skip);
        const char *whole = lua_tolstring(lua, -1, &len);
        push_field(lua, "err", bytes_of(whole, len));
    }
    return 1;
}

static int redis_status_reply(lua_State *lua)
{
    size_t len;
    const char *text = luaL_checklstring(lua, 1, &len);
    push_field(lua, "ok", bytes_of(text, len));
    return 1;
}

static int redis_sha1hex(lua_State *lua)
{
    size_t len;
    char digits[SCRIPT_DIGEST];
    const char *text = luaL_checklstring(lua, 1, &len);
    script_sha1(bytes_of(text, len), digits);
    lua_pushlstring(lua, digits, sizeof(digits));
    return 1;
}

/* ---- globals ---- */

static int no_such_global(lua_State *lua)
{
    const char *name = luaL_checkstring(lua, 2);
    return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'", name);
}

static int no_new_global(lua_State *lua)
{
    (void)lua_tostring(lua, 2);
    return luaL_error(lua, "Attempt to modify a readonly table");
}

static void forbid_globals(lua_State *lua)
{
    lua_pushvalue(lua, LUA_GLOBALSINDEX);
    lua_newtable(lua);
    lua_pushcfunction(lua, no_such_global);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, no_new_global);
    lua_setfield(lua, -2, "__newindex");
    lua_setmetatable(lua, -2);
    lua_pop(lua, 1);
}

static void set_global(lua_State *lua, const char *name) /* pops its value */
{
    lua_pushstring(lua, name);
    lua_insert(lua, -2);
    lua_rawset(lua, LUA_GLOBALSINDEX);
}

static void set_words(lua_State *lua, const char *name, struct sim_lua_words words)
{
    lua_createtable(lua, (int)words.count, 0);
    for (uint32_t i = 0; i < words.count; i++) {
        lua_pushlstring(lua, words.at[i].at, words.at[i].len);
        lua_rawseti(lua, -2, (int)i + 1);
    }
    set_global(lua, name);
}

/* ---- memory ---- */

enum { GRAIN_BYTES = 16, SMALL_BYTES = 256, CHUNK_BYTES = 64 * 1024 };

struct spare {
    struct spare *next;
};

static struct {
    struct spare *spare[SMALL_BYTES / GRAIN_BYTES + 1]; /* by size, in grains */
    char *at;                                           /* the unused rest of a chunk */
    size_t left;
} pool;

static void *small_take(size_t grains)
{
    struct spare *spare = pool.spare[grains];
    if (spare) {
        pool.spare[grains] = spare->next;
        return spare;
    }
    if (pool.left < grains * GRAIN_BYTES) {
        pool.at = mem_alloc(CHUNK_BYTES);
        pool.left = CHUNK_BYTES;
    }
    pool.at += grains * GRAIN_BYTES;
    pool.left -= grains * GRAIN_BYTES;
    return pool.at - grains * GRAIN_BYTES;
}

static void give(void *at, size_t bytes)
{
    size_t grains = (bytes + GRAIN_BYTES - 1) / GRAIN_BYTES;
    if (bytes > SMALL_BYTES) {
        mem_free(at);
    } else if (at) {
        ((struct spare *)at)->next = pool.spare[grains];
        pool.spare[grains] = at;
    }
}

/* Half of a script's work is to allocate and free small objects. So freed ones are kept for the
   next object of their size, until the process ends. */
static void *allocate(void *user, void *old, size_t old_bytes, size_t bytes)
{
    (void)user;
    size_t grains = (bytes + GRAIN_BYTES - 1) / GRAIN_BYTES;
    if (bytes > SMALL_BYTES && old_bytes > SMALL_BYTES)
        return mem_realloc(old, bytes);
    if (bytes && bytes <= SMALL_BYTES && grains == (old_bytes + GRAIN_BYTES - 1) / GRAIN_BYTES)
        return old;
    void *new = bytes == 0 ? NULL : bytes > SMALL_BYTES ? mem_alloc(bytes) : small_take(grains);
    if (new &&old)
        memcpy(new, old, old_bytes < bytes ? old_bytes : bytes);
    give(old, old_bytes);
    return new;
}

/* ---- numbers as text ---- */

int __sprintf_chk(char *out, int flag, size_t room, const char *format, ...);
int __vsprintf_chk(char *out, int flag, size_t room, const char *format, va_list arguments);

enum { NUMBER_DIGITS = 14 }; /* LUA_NUMBER_FMT */

/*
 * Lua makes texts of numbers by sprintf(), which is a twelfth of what a life on Redis takes. This
 * one is found by liblua before that of the C library, and writes whole numbers at once, as nearly
 * all are. Where liblua calls another function, it is not used.
 */
int __sprintf_chk(char *out, int flag, size_t room, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int len = -1;
    if (strcmp(format, LUA_NUMBER_FMT) == 0) {
        va_list copy;
        va_copy(copy, arguments);
        double number = va_arg(copy, double);
        va_end(copy);
        if (number >= 0 && number < 1e14 && !signbit(number) && number <= (double)(int64_t)number) {
            char digits[DOUBLE_TEXT_BYTES];
            struct bytes text = double_text(number, digits);
            CHECK(text.len <= NUMBER_DIGITS && text.len < room);
            memcpy(out, text.at, text.len);
            out[text.len] = '\0';
            len = (int)text.len;
        }
    }
    if (len < 0)
        len = __vsprintf_chk(out, flag, room, format, arguments);
    va_end(arguments);
    return len;
}

/* ---- a state ---- */

/* The error handler of Redis 7.0; only its name differs. */
static const char ERROR_HANDLER[] = "local dbg = debug\n"
                                    "return function(err)\n"
                                    "  local i = dbg.getinfo(2,'nSl')\n"
                                    "  if i and i.what == 'C' then\n"
                                    "    i = dbg.getinfo(3,'nSl')\n"
                                    "  end\n"
                                    "  if type(err) ~= 'table' then\n"
                                    "    err = {err='ERR ' .. tostring(err)}\n"
                                    "  end\n"
                                    "  if (i) then\n"
                                    "    err['source'] = i.source\n"
                                    "    err['line'] = i.currentline\n"
                                    "  end\n"
                                    "  return err\n"
                                    "end\n";

enum { REDIS_VERSION_NUM = 0x070000 };

static lua_State *state_new(int *out_on_error)
{
    static const luaL_Reg functions[] = {{"call", redis_call},
                                         {"pcall", redis_pcall},
                                         {"error_reply", redis_error_reply},
                                         {"status_reply", redis_status_reply},
                                         {"sha1hex", redis_sha1hex},
                                         {NULL, NULL}};
    static const char *const removed[] = {"debug",  "os",     "io",       "package", "require",
                                          "module", "dofile", "loadfile", "print"};
    lua_State *lua = lua_newstate(allocate, NULL);
    CHECK(lua);
    luaL_openlibs(lua);
    CHECK(luaL_loadbuffer(lua, ERROR_HANDLER, sizeof(ERROR_HANDLER) - 1, "@handler") == 0);
    CHECK(lua_pcall(lua, 0, 1, 0) == 0);
    *out_on_error = luaL_ref(lua, LUA_REGISTRYINDEX);
    luaL_register(lua, "redis", functions);
    lua_pushnumber(lua, REDIS_VERSION_NUM);
    lua_setfield(lua, -2, "REDIS_VERSION_NUM");
    lua_pop(lua, 1);
    sim_lua_struct(lua);
    for (size_t i = 0; i < sizeof(removed) / sizeof(removed[0]); i++) {
        lua_pushnil(lua);
        set_global(lua, removed[i]);
    }
    forbid_globals(lua);
    return lua;
}

enum err sim_lua_load(struct bytes text, uint32_t *out_script, struct buf *out_error)
{
    XXH128_hash_t hash = XXH3_128bits(text.at, text.len);
    hash_leave_vectors(text.len);
    for (uint32_t i = 0; i < state.count; i++) {
        if (XXH128_isEqual(state.all[i].hash, hash)) {
            *out_script = i;
            return OK;
        }
    }
    CHECK(state.count < LUA_SCRIPTS_MAX);
    struct compiled *compiled = &state.all[state.count];
    lua_State *lua = state_new(&compiled->on_error);
    if (luaL_loadbuffer(lua, text.at, text.len, "@user_script")) {
        buf_addf(out_error, "-ERR Error compiling script (new function): %s\r\n",
                 lua_tostring(lua, -1));
        lua_close(lua);
        return ERR_INVALID;
    }
    compiled->hash = hash;
    compiled->lua = lua;
    script_sha1(text, compiled->sha);
    compiled->function = luaL_ref(lua, LUA_REGISTRYINDEX);
    *out_script = state.count++;
    return OK;
}

const char *sim_lua_sha(uint32_t script)
{
    return state.all[script].sha;
}

uint32_t sim_lua_find(struct bytes sha)
{
    for (uint32_t i = 0; i < state.count; i++) {
        if (bytes_eq_nocase(sha, bytes_of(state.all[i].sha, LUA_SHA_DIGITS)))
            return i;
    }
    return UINT32_MAX;
}

/* ---- answers of scripts ---- */

static bool add_named(lua_State *lua, const char *name, char mark, struct buf *out)
{
    size_t len;
    lua_pushstring(lua, name);
    lua_rawget(lua, -2);
    bool there = lua_type(lua, -1) == LUA_TSTRING;
    if (there) {
        const char *text = lua_tolstring(lua, -1, &len);
        buf_add_char(out, mark);
        buf_add(out, text, len);
        buf_add(out, "\r\n", 2);
    }
    lua_pop(lua, 1);
    return there;
}

/* Appends the value on top of the stack as RESP, and pops it. */
static void add_value(lua_State *lua, struct buf *out)
{
    size_t len;
    int type = lua_type(lua, -1);
    luaL_checkstack(lua, 8, "an answer is too deep");
    if (type == LUA_TSTRING) {
        const char *text = lua_tolstring(lua, -1, &len);
        resp_bulk(out, bytes_of(text, len));
    } else if (type == LUA_TNUMBER) {
        resp_integer(out, (int64_t)lua_tonumber(lua, -1));
    } else if (type == LUA_TBOOLEAN && lua_toboolean(lua, -1)) {
        resp_integer(out, 1);
    } else if (type != LUA_TTABLE) {
        resp_nil(out);
    } else if (!add_named(lua, "err", '-', out) && !add_named(lua, "ok", '+', out)) {
        struct buf parts = {0};
        size_t count = 0;
        for (;; count++) {
            lua_rawgeti(lua, -1, (int)count + 1);
            if (lua_isnil(lua, -1))
                break;
            add_value(lua, &parts);
        }
        lua_pop(lua, 1); /* the nil */
        resp_array(out, count);
        buf_add_bytes(out, buf_bytes(&parts));
        buf_fini(&parts);
    }
    lua_pop(lua, 1);
}

/* The error is a table; Redis' text has the error, the script and the line. */
static void add_failure(lua_State *lua, uint32_t script, struct buf *out)
{
    lua_getfield(lua, -1, "err");
    lua_getfield(lua, -2, "source");
    lua_getfield(lua, -3, "line");
    const char *text = lua_tostring(lua, -3), *source = lua_tostring(lua, -2);
    const char *line = lua_tostring(lua, -1);
    buf_addf(out, "-%s", text ? text : "ERR unknown error");
    if (source && line)
        buf_addf(out, " script: %.40s, on %s:%s.", state.all[script].sha, source, line);
    buf_add(out, "\r\n", 2);
    lua_pop(lua, 4);
}

void sim_lua_run(uint32_t script, struct sim_lua_words keys, struct sim_lua_words arguments,
                 struct sim_lua_host *host, struct buf *out)
{
    CHECK(script < state.count && !state.running);
    lua_State *lua = state.all[script].lua;
    state.host = host;
    state.work = state.bytes = 0;
    state.running = true;
    lua_rawgeti(lua, LUA_REGISTRYINDEX, state.all[script].on_error);
    set_words(lua, "KEYS", keys);
    set_words(lua, "ARGV", arguments);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, state.all[script].function);
    if (lua_pcall(lua, 0, 1, -2))
        add_failure(lua, script, out);
    else
        add_value(lua, out);
    lua_pop(lua, 1); /* the handler */
    CHECK(lua_gettop(lua) == 0);
    state.running = false;
    state.ledger.runs++;
    if (state.work > state.ledger.most_work)
        state.ledger.most_work = state.work;
    if (state.bytes > state.ledger.most_bytes)
        state.ledger.most_bytes = state.bytes;
}

uint64_t sim_lua_work(void)
{
    return state.work;
}

uint64_t sim_lua_bytes(void)
{
    return state.bytes;
}

struct sim_lua_ledger *sim_lua_ledger(void)
{
    return &state.ledger;
}
