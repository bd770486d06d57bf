#include "cli/text.h"

#include <stdio.h>
#include <wchar.h>

#include "base/check.h"
#include "base/rfc3339.h"

enum err duration_parse(const char *text, int64_t *out_us)
{
    if (strcmp(text, "0") == 0) {
        *out_us = 0;
        return OK;
    }
    return duration_read(bytes_str(text), out_us) ? OK : ERR_INVALID;
}

const char *duration_text(int64_t us, char *room)
{
    const char *sign = us < 0 ? "-" : "";
    uint64_t rest = us < 0 ? 0 - (uint64_t)us : (uint64_t)us;
    uint64_t s = rest / 1000000;
    int wanted;
    if (rest < 10000)
        wanted =
            snprintf(room, TEXT_ROOM, "%s%llu.%02llu ms", sign, (unsigned long long)(rest / 1000),
                     (unsigned long long)(rest % 1000 / 10));
    else if (rest < 1000000)
        wanted = snprintf(room, TEXT_ROOM, "%s%llu ms", sign, (unsigned long long)(rest / 1000));
    else if (s < 60)
        wanted = snprintf(room, TEXT_ROOM, "%s%llu.%llu s", sign, (unsigned long long)s,
                          (unsigned long long)(rest % 1000000 / 100000));
    else if (s < 3600)
        wanted = snprintf(room, TEXT_ROOM, "%s%llum %llus", sign, (unsigned long long)(s / 60),
                          (unsigned long long)(s % 60));
    else if (s < 86400)
        wanted = snprintf(room, TEXT_ROOM, "%s%lluh %llum", sign, (unsigned long long)(s / 3600),
                          (unsigned long long)(s % 3600 / 60));
    else
        wanted = snprintf(room, TEXT_ROOM, "%s%llud %lluh", sign, (unsigned long long)(s / 86400),
                          (unsigned long long)(s % 86400 / 3600));
    CHECK(wanted > 0 && wanted < TEXT_ROOM);
    return room;
}

const char *duration_exact(int64_t us, char *room)
{
    static const struct {
        const char *name;
        int64_t us;
    } units[] = {{"d", INT64_C(86400000000)},
                 {"h", INT64_C(3600000000)},
                 {"m", 60000000},
                 {"s", 1000000},
                 {"ms", 1000},
                 {"us", 1}};
    size_t len = 0;
    CHECK(us >= 0);
    (void)snprintf(room, TEXT_ROOM, "0s");
    /* The longest, 106751991d4h54s775ms807us with an m, has 27 bytes. */
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (us < units[i].us)
            continue;
        int added = snprintf(room + len, TEXT_ROOM - len, "%lld%s", (long long)(us / units[i].us),
                             units[i].name);
        CHECK(added > 0 && (size_t)added < TEXT_ROOM - len);
        len += (size_t)added;
        us %= units[i].us;
    }
    return room;
}

const char *count_text(uint64_t count, char *room)
{
    char *at = room + TEXT_ROOM - 1;
    unsigned digits = 0;
    *at = '\0';
    do {
        if (digits > 0 && digits % 3 == 0)
            *--at = ',';
        *--at = (char)('0' + count % 10);
        count /= 10;
        digits++;
    } while (count);
    return at;
}

const char *size_text(uint64_t bytes, char *room)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned power = 0;
    while (power + 1 < sizeof(names) / sizeof(names[0]) && bytes >> (10 * (power + 1)) != 0)
        power++;
    uint64_t whole = bytes >> (10 * power);
    uint64_t tenth = power ? ((bytes >> (10 * (power - 1))) & 1023) * 10 / 1024 : 0;
    int wanted = power ? snprintf(room, TEXT_ROOM, "%llu.%llu %s", (unsigned long long)whole,
                                  (unsigned long long)tenth, names[power])
                       : snprintf(room, TEXT_ROOM, "%llu B", (unsigned long long)whole);
    CHECK(wanted > 0 && wanted < TEXT_ROOM);
    return room;
}

enum err number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *out_number)
{
    uint64_t number;
    if (!bytes_to_u64(bytes_str(text), &number) || number < min || number > max)
        return ERR_INVALID;
    *out_number = number;
    return OK;
}

static void add_safe(struct buf *out, struct bytes text, bool lines)
{
    bool utf8 = bytes_is_utf8(text);
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        bool passes = c >= 0x20 && c != 0x7f && (c < 0x80 || utf8);
        /* U+0080 … U+009F are control characters too, and some terminals obey them. */
        if (utf8 && c == 0xc2 && (unsigned char)text.at[i + 1] < 0xa0) {
            buf_add_char(out, '?');
            i++;
            continue;
        }
        if (lines && (c == '\n' || c == '\t'))
            passes = true;
        buf_add_char(out, passes ? (char)c : '?');
    }
}

void text_add_safe(struct buf *out, struct bytes text)
{
    add_safe(out, text, false);
}

void text_add_safe_lines(struct buf *out, struct bytes text)
{
    add_safe(out, text, true);
}

/* One character of UTF-8; a byte that begins none stands for itself. */
static size_t decode(struct bytes text, uint32_t *out_code)
{
    unsigned char first = (unsigned char)text.at[0];
    size_t len = first < 0xc2 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 1;
    uint32_t code = len == 1 ? first : first & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (i >= text.len || ((unsigned char)text.at[i] & 0xc0) != 0x80) {
            *out_code = '?';
            return 1;
        }
        code = code << 6 | ((unsigned char)text.at[i] & 0x3f);
    }
    *out_code = code;
    return len;
}

size_t text_first(struct bytes text, size_t *out_width)
{
    uint32_t code;
    size_t len = decode(text, &code);
    int width = wcwidth((wchar_t)code); /* glibc's wchar_t is the code point */
    *out_width = width < 0 ? 1 : (size_t)width;
    return len;
}

size_t text_width(struct bytes text)
{
    size_t sum = 0, width;
    while (text.len > 0) {
        size_t len = text_first(text, &width);
        text = bytes_of(text.at + len, text.len - len);
        sum += width;
    }
    return sum;
}

void text_add_cut(struct buf *out, struct bytes text, size_t columns)
{
    size_t used = 0, width;
    if (text_width(text) <= columns) {
        buf_add_bytes(out, text);
        return;
    }
    while (text.len > 0) {
        size_t len = text_first(text, &width);
        if (used + width + 1 > columns) /* one is kept for the … */
            break;
        buf_add(out, text.at, len);
        text = bytes_of(text.at + len, text.len - len);
        used += width;
    }
    if (columns > 0)
        buf_add_str(out, "…");
}

/* The next word of a synopsis that is not an option, "[…]"; of length 0: there is none. */
static struct bytes next_word(const char **at)
{
    for (;;) {
        *at += strspn(*at, " ");
        if (**at != '[')
            break;
        *at += strcspn(*at, "]");
        *at += strcspn(*at, " "); /* also the dots of "[--lease LEASE]…" */
    }
    struct bytes word = bytes_of(*at, strcspn(*at, " "));
    *at += word.len;
    return word;
}

void text_add_argument(struct buf *out, const char *synopsis, unsigned index)
{
    static const char dots[] = "…";
    size_t dots_len = sizeof(dots) - 1;
    const char *at = synopsis;
    struct bytes word = next_word(&at);
    for (unsigned argument = 0; word.len > 0; argument++) {
        struct bytes next;
        for (bool first = true;; first = false) {
            next = next_word(&at);
            bool more = bytes_eq(next, BYTES("|"));
            if (word.len > dots_len && memcmp(word.at + word.len - dots_len, dots, dots_len) == 0)
                word.len -= dots_len;
            if (argument == index) {
                buf_add_str(out, first ? "" : more ? ", " : " or ");
                buf_add_bytes(out, word);
            }
            if (!more)
                break;
            word = next_word(&at);
        }
        word = next;
    }
}

void url_add_part(struct buf *out, struct bytes text)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            c == '-' || c == '.' || c == '_' || c == '~') {
            buf_add_char(out, (char)c);
        } else {
            char escape[3] = {'%', hex[c >> 4], hex[c & 15]};
            buf_add(out, escape, sizeof(escape));
        }
    }
}

void table_cell(struct table *table, struct bytes text)
{
    size_t most = table->most[table->ends.len / sizeof(size_t) % table->columns];
    struct buf safe = {0};
    text_add_safe(&safe, text);
    if (safe.len > 0 && most > 0)
        text_add_cut(&table->text, buf_bytes(&safe), most);
    else
        buf_add(&table->text, safe.at, safe.len);
    buf_fini(&safe);
    buf_add(&table->ends, &table->text.len, sizeof(table->text.len));
}

void table_cell_str(struct table *table, const char *text)
{
    table_cell(table, bytes_str(text));
}

static struct bytes table_at(const struct table *table, size_t index)
{
    size_t start = 0, end;
    if (index > 0)
        memcpy(&start, table->ends.at + (index - 1) * sizeof(start), sizeof(start));
    memcpy(&end, table->ends.at + index * sizeof(end), sizeof(end));
    return bytes_of(table->text.at + start, end - start);
}

static void add_spaces(struct buf *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        buf_add_char(out, ' ');
}

void table_write(struct table *table, struct buf *out)
{
    size_t cells = table->ends.len / sizeof(size_t), blanks = 0;
    CHECK(table->columns > 0 && table->columns <= TABLE_COLUMNS && cells % table->columns == 0);
    for (size_t i = 0; i < cells; i++) {
        size_t width = text_width(table_at(table, i)), *widest = &table->widths[i % table->columns];
        *widest = width > *widest ? width : *widest;
    }
    for (size_t i = 0; i < cells; i++) {
        unsigned column = (unsigned)(i % table->columns);
        struct bytes cell = table_at(table, i);
        size_t padding = table->widths[column] - text_width(cell);
        if (table->right[column])
            blanks += padding;
        if (cell.len > 0) { /* blanks wait for something behind them: a line does not end in them */
            add_spaces(out, blanks);
            buf_add_bytes(out, cell);
            blanks = 0;
        }
        blanks += (table->right[column] ? 0 : padding) + 2;
        if (column + 1 == table->columns) {
            buf_add_char(out, '\n');
            blanks = 0;
        }
    }
    table->text.len = table->ends.len = 0;
}

void table_fini(struct table *table)
{
    buf_fini(&table->text);
    buf_fini(&table->ends);
}
