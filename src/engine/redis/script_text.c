/*
 * The texts of the scripts: the files in src/engine/redis/scripts, taken in when this is assembled
 * (mk/redis.mk names them as its sources). Each script is clock.lua, marks.lua, common.lua, those
 * of the shared files that it needs, close.lua before a reserve, its own file: see `scripts`. The
 * common cases of push, reserve, end and promote come before all that they do not need: to make
 * functions takes time, too. turn.lua has the first three, with all that they need, as functions.
 * Where they say HEAD.…, COMPACT.…, SHORT.… or LONG.…, the text has the number or the format from
 * job_head.h instead. Comments and indentation are left out: a third of what each server would be
 * sent. Lines stay, so that an error's line is that of the files.
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
TEXT(marks);
TEXT(common);
TEXT(record);
TEXT(notify);
TEXT(job);
TEXT(entry);
TEXT(walk);
TEXT(room);
TEXT(counts);
TEXT(close);
TEXT(open);
TEXT(rebuild);
TEXT(heartbeat);
TEXT(reap_dead);
TEXT(promote);
TEXT(promote_slow);
TEXT(push);
TEXT(push_slow);
TEXT(reserve);
TEXT(reserve_slow);
TEXT(reserve_jobs);
TEXT(end);
TEXT(end_slow);
TEXT(turn);
TEXT(change);
TEXT(get);
TEXT(list);
TEXT(sweep);
TEXT(topic);
TEXT(count_due);
TEXT(set_clock);
TEXT(settings);
TEXT(journal);
TEXT(restore);
TEXT(resync);

/* ---- HEAD.…, COMPACT.…, SHORT.…, LONG.… ---- */

struct head_field {
    const char *name, *format;
    size_t at, bytes;
};

#define HEAD_ROW(name, format, bytes)    {#name, format, JOB_HEAD_##name, bytes},
#define COMPACT_ROW(name, format, bytes) {#name, format, JOB_COMPACT_##name, bytes},
#define SHORT_ROW(name, format, bytes)   {#name, format, JOB_SHORT_##name, bytes},
#define LONG_ROW(name, format, bytes)    {#name, format, JOB_LONG_##name, bytes},
static const struct head_field head_fields[] = {JOB_HEAD_FIELDS(HEAD_ROW)};
static const struct head_field compact_fields[] = {JOB_COMPACT_FIELDS(COMPACT_ROW)};
static const struct head_field short_fields[] = {JOB_SHORT_FIELDS(SHORT_ROW)};
static const struct head_field long_fields[] = {JOB_LONG_FIELDS(LONG_ROW)};
#undef HEAD_ROW
#undef COMPACT_ROW
#undef SHORT_ROW
#undef LONG_ROW

struct head_list {
    const char *begin; /* in front of a field's name */
    const struct head_field *fields;
    size_t count, bytes;
};

static const struct head_list lists[] = {
    {"HEAD.", head_fields, sizeof(head_fields) / sizeof(head_fields[0]), JOB_HEAD_BYTES},
    {"COMPACT.", compact_fields, sizeof(compact_fields) / sizeof(compact_fields[0]),
     JOB_COMPACT_BYTES},
    {"SHORT.", short_fields, sizeof(short_fields) / sizeof(short_fields[0]), JOB_SHORT_BYTES},
    {"LONG.", long_fields, sizeof(long_fields) / sizeof(long_fields[0]), JOB_LONG_BYTES},
};
enum { LISTS = sizeof(lists) / sizeof(lists[0]) };

/* NULL: there is no such field. */
static const struct head_field *field_of(const struct head_list *list, struct bytes name)
{
    CHECK(list->fields); /* for clang's analyzer, which cannot prove it */
    for (size_t i = 0; i < list->count; i++) {
        if (bytes_eq(name, bytes_str(list->fields[i].name)))
            return &list->fields[i];
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

/* Removes the suffix `end` from the word. False: it does not end with it. */
static bool takes_end(struct bytes *word, struct bytes end)
{
    if (word->len < end.len || memcmp(word->at + word->len - end.len, end.at, end.len) != 0)
        return false;
    word->len -= end.len;
    return true;
}

/* Appends the replacement of HEAD.word: see job_head.h. An unknown word is a bug in the scripts. */
static void add_word(struct buf *out, const struct head_list *list, struct bytes word)
{
    const struct bytes between = BYTES("_TO_");
    const struct head_field *field = field_of(list, word);
    const char *to = memmem(word.at, word.len, between.at, between.len);
    if (field) {
        buf_add_u64(out, field->at + 1);
    } else if (bytes_eq(word, BYTES("BYTES")) || bytes_eq(word, BYTES("TOPIC"))) {
        buf_add_u64(out, list->bytes + (word.at[0] == 'T'));
    } else if (to) {
        size_t rest = (size_t)(to - word.at) + between.len;
        add_format(out, field_of(list, bytes_of(word.at, (size_t)(to - word.at))),
                   field_of(list, bytes_of(word.at + rest, word.len - rest)));
    } else if (takes_end(&word, BYTES("_END"))) {
        field = field_of(list, word);
        CHECK(field);
        buf_add_u64(out, field->at + field->bytes);
    } else {
        CHECK(takes_end(&word, BYTES("_FORMAT")));
        add_format(out, field_of(list, word), field_of(list, word));
    }
}

static bool in_word(char c)
{
    return (c >= 'A' && c <= 'Z') || c == '_';
}

/* The list whose name (HEAD and the like) stands before this point; NULL: none does. */
static const struct head_list *list_before(const char *text, const char *point)
{
    for (size_t i = 0; i < LISTS; i++) {
        size_t len = strlen(lists[i].begin) - 1;
        if ((size_t)(point - text) >= len && memcmp(point - len, lists[i].begin, len) == 0)
            return &lists[i];
    }
    return NULL;
}

static void add_code(struct buf *out, struct bytes code)
{
    const char *done = code.at, *end = code.at + code.len, *point = code.at;
    while ((point = memchr(point, '.', (size_t)(end - point)))) {
        const struct head_list *list = list_before(done, point);
        const char *word = ++point;
        if (!list)
            continue;
        while (point < end && in_word(*point))
            point++;
        buf_add(out, done, (size_t)(word - done) - strlen(list->begin));
        add_word(out, list, bytes_of(word, (size_t)(point - word)));
        done = point;
    }
    buf_add(out, done, (size_t)(end - done));
}

/* ---- removing comments and indentation ---- */

struct bytes script_code(struct bytes line)
{
    const char *begin = line.at, *end = line.at + line.len;
    char quote = '\0';
    while (begin < end && *begin == ' ')
        begin++;
    const char *at = begin;
    for (; at < end; at++) {
        if (quote && *at == '\\' && at + 1 < end) {
            at++;
        } else if (quote) {
            quote = *at == quote ? '\0' : quote;
        } else if (*at == '\'' || *at == '"') {
            quote = *at;
        } else if (*at == '[' && at + 1 < end) {
            CHECK(at[1] != '[' && at[1] != '='); /* strings with other quotes are not supported */
        } else if (*at == '-' && at + 1 < end && at[1] == '-') {
            CHECK(end - at == 2 || at[2] != '['); /* nor are comments of several lines */
            break;
        }
    }
    while (at > begin && at[-1] == ' ')
        at--;
    return bytes_of(begin, (size_t)(at - begin));
}

static void add_text(struct buf *out, struct bytes text)
{
    const char *at = text.at, *end = text.at + text.len, *line_end;
    for (; (line_end = memchr(at, '\n', (size_t)(end - at))); at = line_end + 1) {
        add_code(out, script_code(bytes_of(at, (size_t)(line_end - at))));
        buf_add_char(out, '\n');
    }
    CHECK(at == end);
}

/* Arguments: the indexes where the keys and the arguments of a request begin, and their number. */
static const char begin_slow_path[] =
    "local function slow_path(keys, base, count)\n"
    "local KEYS, ARGV = KEYS, ARGV\n"
    "if #ARGV > count then\n"
    "KEYS, ARGV = { unpack(KEYS, keys + 1, keys + 4) }, { unpack(ARGV, base + 1, base + count) }\n"
    "end\n";

static const char begin_slow_path_of_promote[] = "local function slow_path()\n";

struct script_file {
    const char *at, *end;
};

#define FILE_OF(name)                                                                              \
    {                                                                                              \
        script_##name##_text, script_##name##_text_end                                             \
    }
#define ADD(out, name) add_file((out), (struct script_file)FILE_OF(name))

/* ---- what each is made of ---- */

/* The shared files behind common.lua, in this order. */
static const struct script_file shared[] = {FILE_OF(record), FILE_OF(notify), FILE_OF(job),
                                            FILE_OF(entry),  FILE_OF(walk),   FILE_OF(room),
                                            FILE_OF(counts)};
enum {
    RECORD = 1 << 0,
    NOTIFY = 1 << 1,
    JOB = 1 << 2 | RECORD | NOTIFY, /* with the files that it needs, as the others */
    ENTRY = 1 << 3 | RECORD,        /* of all scripts that change jobs */
    WALK = 1 << 4,
    ROOM = 1 << 5 | NOTIFY,
    COUNTS = 1 << 6,
};

static const struct {
    unsigned shared;
    struct script_file own;
    struct script_file slow; /* if it has a fast path: what follows the shared files */
} scripts[SCRIPT_COUNT] = {
    [SCRIPT_OPEN] = {ENTRY, FILE_OF(open), {0}},
    [SCRIPT_REBUILD] = {JOB | COUNTS, FILE_OF(rebuild), {0}},
    [SCRIPT_HEARTBEAT] = {0, FILE_OF(heartbeat), {0}},
    [SCRIPT_REAP_DEAD] = {JOB | ENTRY, FILE_OF(reap_dead), {0}},
    [SCRIPT_PROMOTE] = {JOB | ENTRY | COUNTS, FILE_OF(promote), FILE_OF(promote_slow)},
    [SCRIPT_PUSH] = {JOB | ENTRY | ROOM, FILE_OF(push), FILE_OF(push_slow)},
    [SCRIPT_RESERVE] = {ENTRY, FILE_OF(reserve), FILE_OF(reserve_slow)},
    [SCRIPT_END] = {JOB | ENTRY, FILE_OF(end), FILE_OF(end_slow)},
    [SCRIPT_CHANGE] = {JOB | ENTRY, FILE_OF(change), {0}},
    [SCRIPT_GET] = {JOB, FILE_OF(get), {0}},
    [SCRIPT_LIST] = {RECORD | WALK, FILE_OF(list), {0}},
    [SCRIPT_SWEEP] = {JOB | ENTRY | WALK, FILE_OF(sweep), {0}},
    [SCRIPT_TOPIC] = {JOB | ROOM, FILE_OF(topic), {0}},
    [SCRIPT_COUNT_DUE] = {0, FILE_OF(count_due), {0}},
    [SCRIPT_SET_CLOCK] = {0, FILE_OF(set_clock), {0}},
    [SCRIPT_SETTINGS] = {JOB | ROOM, FILE_OF(settings), {0}},
    [SCRIPT_JOURNAL] = {0, FILE_OF(journal), {0}},
    [SCRIPT_RESTORE] = {JOB, FILE_OF(restore), {0}},
    [SCRIPT_RESYNC] = {JOB | ENTRY, FILE_OF(resync), {0}},
};

static void add_file(struct buf *out, struct script_file file)
{
    add_text(out, bytes_of(file.at, (uintptr_t)file.end - (uintptr_t)file.at));
}

/* Is it part of turn.lua? */
static bool is_hot(enum script_kind kind)
{
    return kind == SCRIPT_PUSH || kind == SCRIPT_RESERVE || kind == SCRIPT_END;
}

static void add_shared(struct buf *out, enum script_kind kind)
{
    for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++) {
        if (scripts[kind].shared >> i & 1)
            add_file(out, shared[i]);
    }
}

/* Of a reserve. */
static void add_job_functions(struct buf *out)
{
    buf_add_str(out, "local function job_functions()\n");
    add_shared(out, SCRIPT_RESERVE);
    ADD(out, reserve_jobs);
    buf_add_str(out, "end\n");
}

/* Appends the script's own file, and the shared files that it needs behind marks.lua. */
static void add_body(struct buf *out, enum script_kind kind)
{
    bool has_slow_path = scripts[kind].slow.at;
    if (kind == SCRIPT_RESERVE)
        ADD(out, close);
    if (has_slow_path)
        buf_add_str(out, is_hot(kind) ? begin_slow_path : begin_slow_path_of_promote);
    ADD(out, common);
    if (kind == SCRIPT_RESERVE)
        add_job_functions(out);
    else
        add_shared(out, kind);
    if (has_slow_path) {
        add_file(out, scripts[kind].slow);
        buf_add_str(out, "end\n");
    }
    add_file(out, scripts[kind].own);
}

/* A function of turn.lua: the script of that kind, for `many` requests, whose arguments are behind
 * so many others, and mostly about jobs of that topic (nil: who knows). `routes` has a byte for
 * each request, behind so many others: its partition's place in KEYS (nil: all are for one). */
static void add_part(struct buf *out, const char *name, enum script_kind kind)
{
    buf_addf(out,
             "local function %s(KEYS, ARGV, routes, routes_from, args_from, many, likely_topic)\n",
             name);
    add_body(out, kind);
    buf_add_str(out, "end\n");
}

void script_write(struct buf *out, enum script_kind kind)
{
    ADD(out, clock);
    ADD(out, marks);
    if (kind != SCRIPT_TURN) {
        if (is_hot(kind))
            buf_add_str(
                out,
                "local routes, routes_from, args_from, many, likely_topic = nil, 0, 0, nil, nil\n");
        add_body(out, kind);
        return;
    }
    add_part(out, "ends", SCRIPT_END);
    add_part(out, "pushes", SCRIPT_PUSH);
    add_part(out, "reserves", SCRIPT_RESERVE);
    ADD(out, turn);
}
