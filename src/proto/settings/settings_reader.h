/*
 * Common code of the codecs in this folder: reads a JSON object field by field, and reports errors
 * with the path of the field. Strict: unknown and duplicate fields are refused. Pure.
 */
#ifndef LATERD_PROTO_SETTINGS_SETTINGS_READER_H
#define LATERD_PROTO_SETTINGS_SETTINGS_READER_H

#include "base/arena.h"
#include "proto/json.h"

/* Why settings, a schedule or a job's target are refused. */
struct settings_problem {
    const char *code; /* a stable word: "bad_field", "unknown_field" … */
    char field[64];   /* JSON path of the bad field, such as "target.success.status", or "" */
    char detail[200]; /* one sentence for people */
};

enum { SETTINGS_PATH_MAX = 256, SETTINGS_DEPTH = 8, SETTINGS_FIELDS_MAX = 32 };

struct settings_reader {
    struct arena *scratch;
    struct settings_problem *problem;
    struct json_value value; /* the present value: of the field being read */
    void *into;              /* the struct that the object's fields are read into */
    size_t path_len;
    char path[SETTINGS_PATH_MAX]; /* of the present field; truncated if it is longer */
};

struct settings_field {
    const char *name;
    bool (*read)(struct settings_reader *reader);
};

/* A reader of fields below `path` ("" at the top). */
void settings_reader_init(struct settings_reader *reader, struct arena *scratch, const char *path,
                          struct settings_problem *problem);

/* Refuses the present value; returns false. A longer text is truncated. */
bool settings_bad(struct settings_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Reads the object `text`, with its braces, into `into`. *out_given, unless NULL, gets a bit for
 * each field that was there, by its place in `fields`.
 */
bool settings_object(struct settings_reader *reader, struct bytes text,
                     const struct settings_field *fields, size_t field_count, void *into,
                     uint32_t *out_given);
/* The same of the value that is being read, which must be an object. */
bool settings_inner_object(struct settings_reader *reader, const struct settings_field *fields,
                           size_t field_count, void *into, uint32_t *out_given);

/*
 * Goes through the members of the object, or the items of the array, that is being read: `each` is
 * called with reader->value and its path; `name` is empty for an item.
 */
bool settings_members(struct settings_reader *reader,
                      bool (*each)(struct settings_reader *reader, struct bytes name));
bool settings_items(struct settings_reader *reader, bool (*each)(struct settings_reader *reader));

/* Appends a member, or an item, to the path; the caller restores path_len afterwards. */
void settings_path_member(struct settings_reader *reader, struct bytes name);

/* ---- values; each refuses what it cannot read ---- */

/* A string of up to `bytes_max` bytes; borrowed from the input, or in `scratch`. */
bool settings_text(struct settings_reader *reader, size_t bytes_max, struct bytes *out_text);
/* A whole number, `least` … `most`. */
bool settings_number(struct settings_reader *reader, int64_t least, int64_t most,
                     int64_t *out_number);
bool settings_bool(struct settings_reader *reader, bool *out_is);
/* The text of the refusal of an invalid duration; has a hint for years, which must be given in
 * days. */
#define SETTINGS_DURATION_WANTED                                                                   \
    "this must be a duration such as \"250ms\", \"1h30m\" or \"3650d\", or a whole number of "     \
    "milliseconds"
/* A duration such as "1h30m", or whole milliseconds; without a refusal. */
bool settings_duration_value(const struct json_value *value, struct arena *scratch,
                             int64_t *out_us);
/* The same with a refusal, also of one that is not `least_us` … `most_us`. */
bool settings_duration(struct settings_reader *reader, int64_t least_us, int64_t most_us,
                       int64_t *out_us);
/* One of the words, up to a NULL; its place in the list. */
bool settings_word(struct settings_reader *reader, const char *const *words, unsigned *out_place);
/* Base64 with padding. */
bool settings_base64(struct settings_reader *reader, struct bytes *out_data);

/* ---- writing ---- */

/* ,"key": with the comma unless it is the first of its object. */
void settings_add_key(struct buf *out, const char *key);
void settings_add_text(struct buf *out, const char *key, struct bytes text);
void settings_add_base64(struct buf *out, const char *key, struct bytes data);
void settings_add_number(struct buf *out, const char *key, int64_t number);
void settings_add_duration(struct buf *out, const char *key, int64_t us);
/* A duration as settings_duration() reads it: "90s", "1500ms". */
void settings_put_duration(struct buf *out, int64_t us);

#endif
