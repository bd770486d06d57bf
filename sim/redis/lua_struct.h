/*
 * Redis' Lua library `struct` (Roberto Ierusalimschy's, 0.2): pack, unpack and size, with the
 * formats < > = b B h H i I (with a width of 1 to 8) and c (with a width). Nothing is aligned.
 */
#ifndef LATERD_SIM_REDIS_LUA_STRUCT_H
#define LATERD_SIM_REDIS_LUA_STRUCT_H

struct lua_State;

/* Makes the global table `struct`. */
void sim_lua_struct(struct lua_State *lua);

#endif
