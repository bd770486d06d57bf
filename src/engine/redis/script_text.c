/*
 * The texts of the scripts: the files in src/engine/redis/scripts, taken in when this is assembled
 * (mk/redis.mk names them as its sources). Each script is common.lua, job.lua (all but reserve),
 * walk.lua if it goes through a topic, room.lua if it makes them, its own file. The common cases of
 * push, reserve and end come before all that they do not need: to make functions takes time, too.
 */
#include "engine/redis/script_parts.h"

#define TEXT(name)                                                                                 \
    __asm__(".pushsection .rodata\n"                                                               \
            "script_" #name "_text:\n"                                                             \
            ".incbin \"src/engine/redis/scripts/" #name ".lua\"\n"                                 \
            "script_" #name "_text_end:\n"                                                         \
            ".byte 0\n"                                                                            \
            ".popsection\n");                                                                      \
    extern const char script_##name##_text[];                                                      \
    extern const char script_##name##_text_end[]

TEXT(common);
TEXT(job);
TEXT(walk);
TEXT(room);
TEXT(open);
TEXT(heartbeat);
TEXT(reap_dead);
TEXT(promote);
TEXT(push);
TEXT(push_other);
TEXT(reserve);
TEXT(reserve_other);
TEXT(end);
TEXT(end_other);
TEXT(change);
TEXT(get);
TEXT(list);
TEXT(sweep);
TEXT(topic);

#define ADD(out, name)                                                                             \
    buf_add((out), script_##name##_text,                                                           \
            (uintptr_t)script_##name##_text_end - (uintptr_t)script_##name##_text)

void script_write(struct buf *out, enum script_kind kind)
{
    if (kind == SCRIPT_PUSH)
        ADD(out, push);
    if (kind == SCRIPT_RESERVE)
        ADD(out, reserve);
    if (kind == SCRIPT_END)
        ADD(out, end);
    ADD(out, common);
    if (kind != SCRIPT_RESERVE)
        ADD(out, job);
    if (kind == SCRIPT_LIST || kind == SCRIPT_SWEEP)
        ADD(out, walk);
    if (kind == SCRIPT_PUSH || kind == SCRIPT_TOPIC)
        ADD(out, room);
    switch (kind) {
    case SCRIPT_OPEN: ADD(out, open); break;
    case SCRIPT_HEARTBEAT: ADD(out, heartbeat); break;
    case SCRIPT_REAP_DEAD: ADD(out, reap_dead); break;
    case SCRIPT_PROMOTE: ADD(out, promote); break;
    case SCRIPT_PUSH: ADD(out, push_other); break;
    case SCRIPT_RESERVE: ADD(out, reserve_other); break;
    case SCRIPT_END: ADD(out, end_other); break;
    case SCRIPT_CHANGE: ADD(out, change); break;
    case SCRIPT_GET: ADD(out, get); break;
    case SCRIPT_LIST: ADD(out, list); break;
    case SCRIPT_SWEEP: ADD(out, sweep); break;
    case SCRIPT_TOPIC: ADD(out, topic); break;
    case SCRIPT_COUNT: break;
    }
}
