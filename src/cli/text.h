/*
 * Text for people: durations, counts and sizes, tables with aligned columns. Pure: no clock, no
 * terminal; output goes to a buf.
 */
#ifndef LATERD_CLI_TEXT_H
#define LATERD_CLI_TEXT_H

#include "base/bytes.h"
#include "base/err.h"

enum {
    TEXT_ROOM = 32,    /* bytes of room for any of the short texts below, NUL included */
    TABLE_COLUMNS = 12 /* at most */
};

/*
 * "250ms" "90s" "1h30m" "2d12h" "0"; units us ms s m h d w, whole numbers, largest unit first or
 * not. A bare number other than 0 is ERR_INVALID: its unit would be a guess.
 */
enum err duration_parse(const char *text, int64_t *out_us) MUST_USE;

/* "0.35 ms" "12 ms" "1.5 s" "2m 5s" "3h 4m" "5d 2h", for reading, not for parsing. */
const char *duration_text(int64_t us, char *room);

/* The whole duration as duration_parse() takes it: "1h30m" "5s" "1s500us" "0s". For what people
 * copy into an option. `us` is not negative. */
const char *duration_exact(int64_t us, char *room);

const char *count_text(uint64_t count, char *room); /* "1,234,567" */
const char *size_text(uint64_t bytes, char *room);  /* "12.3 MiB" */

/* The ending of a noun after a count: "1 job", "2 jobs". */
static inline const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* Decimal digits, min … max. ERR_INVALID. */
enum err number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *out_number) MUST_USE;

/*
 * Adds `text` so that a terminal shows it and obeys nothing in it: control characters become '?',
 * and so do bytes that are not UTF-8. With …_lines, line ends and tabs pass.
 */
void text_add_safe(struct buf *out, struct bytes text);
void text_add_safe_lines(struct buf *out, struct bytes text);

/*
 * Columns that a terminal gives the text: two to a wide character such as 中, none to a combining
 * one. Needs a UTF-8 LC_CTYPE; under another every character counts as one.
 */
size_t text_width(struct bytes text);
/* The bytes of the first character of a text that is not empty, and its columns. */
size_t text_first(struct bytes text, size_t *out_width);
/* The text, cut so that it takes up to `columns`, and ending in … if it was cut. */
void text_add_cut(struct buf *out, struct bytes text, size_t columns);

/*
 * Names the argument number `index` (from 0) of a usage text: "BODY, @FILE or -" is number 1 of
 * "[options] TOPIC BODY | @FILE | -". Adds nothing if there is none. O(length of the text).
 */
void text_add_argument(struct buf *out, const char *synopsis, unsigned index);

/* Escapes everything but A-Z a-z 0-9 - . _ ~ as %XX, so that it is one part of a path. */
void url_add_part(struct buf *out, struct bytes text);

/*
 * A zeroed table is empty. Columns are as wide as their widest cell so far, two spaces apart: a
 * long table may be written in parts.
 */
struct table {
    unsigned columns;
    size_t widths[TABLE_COLUMNS];
    size_t most[TABLE_COLUMNS]; /* longer cells are cut with …; 0: none is */
    bool right[TABLE_COLUMNS];  /* numbers stand to the right */
    struct buf text;            /* all cells, one after another */
    struct buf ends;            /* size_t: where each cell ends in `text` */
};

void table_cell(struct table *table, struct bytes text); /* made safe for terminals */
void table_cell_str(struct table *table, const char *text);
void table_write(struct table *table, struct buf *out); /* empties it, but keeps the widths */
void table_fini(struct table *table);

#endif
