#include "sim/redis/lua_struct.h"

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"

enum { WIDTH_MAX = 8 };

struct format {
    const char *at;
    bool big; /* the highest byte first */
};

struct item {
    char kind;    /* 'i' signed, 'I' not, 'c' bytes; '\0': the end */
    size_t width; /* bytes */
};

static size_t take_width(struct format *format, size_t otherwise)
{
    size_t width = 0;
    if (*format->at < '0' || *format->at > '9')
        return otherwise;
    while (*format->at >= '0' && *format->at <= '9')
        width = 10 * width + (size_t)(*format->at++ - '0');
    return width;
}

static struct item next_item(lua_State *lua, struct format *format)
{
    for (;;) {
        char letter = *format->at;
        size_t width;
        if (letter == '\0')
            return (struct item){0};
        format->at++;
        switch (letter) {
        case '<':
        case '=': format->big = false; break;
        case '>': format->big = true; break;
        case ' ': break;
        case 'b':
        case 'B': return (struct item){letter == 'b' ? 'i' : 'I', 1};
        case 'h':
        case 'H': return (struct item){letter == 'h' ? 'i' : 'I', 2};
        case 'i':
        case 'I':
            width = take_width(format, sizeof(int));
            if (width < 1 || width > WIDTH_MAX)
                luaL_error(lua, "integral size %d is larger than limit of %d", (int)width,
                           WIDTH_MAX);
            return (struct item){letter, width};
        case 'c': return (struct item){'c', take_width(format, 1)};
        default: luaL_argerror(lua, 1, lua_pushfstring(lua, "invalid format option '%c'", letter));
        }
    }
}

static int lua_pack(lua_State *lua)
{
    struct format format = {.at = luaL_checkstring(lua, 1)};
    struct item item;
    luaL_Buffer out;
    int argument = 2;
    lua_pushnil(lua); /* separates the arguments from the buffer's values */
    luaL_buffinit(lua, &out);
    while ((item = next_item(lua, &format)).kind) {
        if (item.kind == 'c') {
            size_t len;
            const char *text = luaL_checklstring(lua, argument, &len);
            size_t width = item.width ? item.width : len;
            luaL_argcheck(lua, len >= width, argument + 1, "string too short"); /* as in Redis */
            luaL_addlstring(&out, text, width);
        } else {
            char bytes[WIDTH_MAX];
            lua_Number number = luaL_checknumber(lua, argument);
            uint64_t value = number < 0 ? (uint64_t)(int64_t)number : (uint64_t)number;
            for (size_t i = 0; i < item.width; i++)
                bytes[format.big ? item.width - 1 - i : i] = (char)(value >> (8 * i));
            luaL_addlstring(&out, bytes, item.width);
        }
        argument++;
    }
    luaL_pushresult(&out);
    return 1;
}

static lua_Number read_number(const char *at, struct item item, bool big)
{
    uint64_t value = 0;
    CHECK(item.width >= 1 && item.width <= 8);
    for (size_t i = 0; i < item.width; i++)
        value = value << 8 | (unsigned char)at[big ? i : item.width - 1 - i];
    if (item.kind == 'I')
        return (lua_Number)value;
    unsigned spare = (unsigned)(64 - 8 * item.width);
    return (lua_Number)((int64_t)(value << spare) >> spare);
}

static int lua_unpack(lua_State *lua)
{
    struct format format = {.at = luaL_checkstring(lua, 1)};
    struct item item;
    size_t len;
    int count = 0;
    const char *data = luaL_checklstring(lua, 2, &len);
    lua_Integer first = luaL_optinteger(lua, 3, 1);
    luaL_argcheck(lua, first > 0, 3, "offset must be 1 or greater");
    size_t at = (size_t)first - 1;
    while ((item = next_item(lua, &format)).kind) {
        luaL_argcheck(lua, item.width <= len && at <= len - item.width, 2, "data string too short");
        luaL_checkstack(lua, 2, "too many results");
        if (item.kind == 'c')
            lua_pushlstring(lua, data + at, item.width);
        else
            lua_pushnumber(lua, read_number(data + at, item, format.big));
        at += item.width;
        count++;
    }
    lua_pushinteger(lua, (lua_Integer)at + 1);
    return count + 1;
}

static int lua_size(lua_State *lua)
{
    struct format format = {.at = luaL_checkstring(lua, 1)};
    struct item item;
    size_t size = 0;
    while ((item = next_item(lua, &format)).kind)
        size += item.width;
    lua_pushinteger(lua, (lua_Integer)size);
    return 1;
}

void sim_lua_struct(lua_State *lua)
{
    static const luaL_Reg functions[] = {
        {"pack", lua_pack}, {"unpack", lua_unpack}, {"size", lua_size}, {NULL, NULL}};
    luaL_register(lua, "struct", functions);
    lua_pop(lua, 1);
}
