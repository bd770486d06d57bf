/*
 * The texts of the scripts: the files in src/engine/redis/scripts, taken in when this is assembled
 * (mk/redis.mk names them as its sources). Each script is clock.lua, common.lua, marks.lua, job.lua
 * (all but reserve), walk.lua if it goes through a topic, room.lua if it makes them, its own file.
 * The common cases of push, reserve and end come before all that they do not need: to make
 * functions takes time, too. Where they say HEAD.…, the text has the number or the format from
 * job_head.h instead.
 */
#include <string.h>

#include "base/check.h"
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

TEXT(clock);
TEXT(common);
TEXT(marks);
TEXT(job);
TEXT(walk);
TEXT(room);
TEXT(open);
TEXT(rebuild);
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
TEXT(set_clock);

/* ---- HEAD.… ---- */

struct head_field {
    const char *name, *format;
    size_t at, bytes;
};

#define ROW(name, format, bytes) {#name, format, JOB_HEAD_##name, bytes},
static const struct head_field fields[] = {JOB_HEAD_FIELDS(ROW)};
#undef ROW

/* NULL: there is no such field. */
static const struct head_field *field_of(struct bytes name)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (bytes_eq(name, bytes_str(fields[i].name)))
            return &fields[i];
    }
    return NULL;
}

static void add_format(struct buf *out, const struct head_field *first,
                       const struct head_field *last)
{
    CHECK(first && last && first <= last);
    buf_add_str(out, "'<");
    for (; first <= last; first++)
        buf_add_str(out, first->format);
    buf_add_char(out, '\'');
}

/* Takes `end` off the word. False: it does not end so. */
static bool takes_end(struct bytes *word, struct bytes end)
{
    if (word->len < end.len || memcmp(word->at + word->len - end.len, end.at, end.len) != 0)
        return false;
    word->len -= end.len;
    return true;
}

/* What stands for HEAD.word: see job_head.h. A word that means nothing is a bug of the scripts. */
static void add_word(struct buf *out, struct bytes word)
{
    const struct bytes between = BYTES("_TO_");
    const struct head_field *field = field_of(word);
    const char *to = memmem(word.at, word.len, between.at, between.len);
    if (field) {
        buf_add_u64(out, field->at + 1);
    } else if (bytes_eq(word, BYTES("BYTES")) || bytes_eq(word, BYTES("TOPIC"))) {
        buf_add_u64(out, JOB_HEAD_BYTES + (word.at[0] == 'T'));
    } else if (to) {
        size_t rest = (size_t)(to - word.at) + between.len;
        add_format(out, field_of(bytes_of(word.at, (size_t)(to - word.at))),
                   field_of(bytes_of(word.at + rest, word.len - rest)));
    } else if (takes_end(&word, BYTES("_END"))) {
        field = field_of(word);
        CHECK(field);
        buf_add_u64(out, field->at + field->bytes);
    } else {
        CHECK(takes_end(&word, BYTES("_FORMAT")));
        add_format(out, field_of(word), field_of(word));
    }
}

static bool in_word(char c)
{
    return (c >= 'A' && c <= 'Z') || c == '_';
}

static void add_text(struct buf *out, struct bytes text)
{
    const struct bytes begin = BYTES("HEAD.");
    const char *found;
    while ((found = memmem(text.at, text.len, begin.at, begin.len))) {
        buf_add(out, text.at, (size_t)(found - text.at));
        text = bytes_of(found + begin.len, text.len - (size_t)(found - text.at) - begin.len);
        size_t len = 0;
        while (len < text.len && in_word(text.at[len]))
            len++;
        add_word(out, bytes_of(text.at, len));
        text = bytes_of(text.at + len, text.len - len);
    }
    buf_add_bytes(out, text);
}

#define ADD(out, name)                                                                             \
    add_text((out), bytes_of(script_##name##_text, (uintptr_t)script_##name##_text_end -           \
                                                       (uintptr_t)script_##name##_text))

void script_write(struct buf *out, enum script_kind kind)
{
    bool hot = kind == SCRIPT_PUSH || kind == SCRIPT_RESERVE || kind == SCRIPT_END;
    ADD(out, clock);
    if (hot)
        buf_add_str(out, "local function other(KEYS, ARGV)\n");
    ADD(out, common);
    ADD(out, marks);
    if (kind != SCRIPT_RESERVE)
        ADD(out, job);
    if (kind == SCRIPT_LIST || kind == SCRIPT_SWEEP)
        ADD(out, walk);
    if (kind == SCRIPT_PUSH || kind == SCRIPT_TOPIC)
        ADD(out, room);
    switch (kind) {
    case SCRIPT_OPEN: ADD(out, open); break;
    case SCRIPT_REBUILD: ADD(out, rebuild); break;
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
    case SCRIPT_SET_CLOCK: ADD(out, set_clock); break;
    case SCRIPT_COUNT: break;
    }
    if (hot)
        buf_add_str(out, "end\n");
    if (kind == SCRIPT_PUSH)
        ADD(out, push);
    if (kind == SCRIPT_RESERVE)
        ADD(out, reserve);
    if (kind == SCRIPT_END)
        ADD(out, end);
}
