#include "proto/settings/attempt_note.h"

enum {
    MILLISECOND_US = 1000,
    ADDRESS_MAX = 64,
    ESCAPE_MAX = 6,      /* bytes of one character, at most */
    RESPONSE_FRAME = 32, /* ,"response_base64":"…"} */
    UTF8_TAIL_MAX = 3,   /* bytes that a cut may leave of a character */
    JOB_NOTE_ROOM = JOB_NOTE_MAX - RESPONSE_FRAME,
};

/* The beginning of a text, up to `max` bytes, without half a character. */
static struct bytes cut(struct bytes text, size_t max)
{
    if (text.len <= max)
        return text;
    size_t len = max;
    while (len && ((unsigned char)text.at[len] & 0xc0) == 0x80 && max - len < UTF8_TAIL_MAX + 1)
        len--;
    return bytes_of(text.at, len);
}

/* As much of it as has room once it is escaped. */
static struct bytes cut_escaped(struct bytes text, size_t room)
{
    size_t used = 0, i = 0;
    while (i < text.len) {
        unsigned char c = (unsigned char)text.at[i];
        size_t step = c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t' ? 2
                      : c < ' '                                                    ? ESCAPE_MAX
                                                                                   : 1;
        if (used + step > room)
            break;
        used += step;
        i++;
    }
    return cut(text, i);
}

static void add_response(struct bytes response, struct buf *text)
{
    size_t room = text->len < JOB_NOTE_ROOM ? JOB_NOTE_ROOM - text->len : 0;
    size_t good = bytes_utf8_prefix(response);
    if (good + UTF8_TAIL_MAX >= response.len) { /* it may have been cut within a character */
        struct bytes shown = cut_escaped(bytes_of(response.at, good), room);
        if (shown.len)
            settings_add_text(text, "response", shown);
        return;
    }
    size_t most = room / 4 * 3;
    settings_add_base64(text, "response_base64",
                        bytes_of(response.at, response.len < most ? response.len : most));
}

/* The text up to its first byte that is not UTF-8, so that the output is never longer than 2 *
   max. */
static struct bytes short_text(struct bytes text, size_t max)
{
    text.len = bytes_utf8_prefix(text);
    return cut_escaped(cut(text, max), 2 * max);
}

void attempt_note_write(const struct attempt_note *note, struct buf *out)
{
    struct buf text = {0};
    buf_add_char(&text, '{');
    if (note->reason.len)
        settings_add_text(&text, "reason", short_text(note->reason, NOTE_REASON_MAX));
    if (note->address.len)
        settings_add_text(&text, "address", short_text(note->address, ADDRESS_MAX));
    if (note->took_us > 0)
        settings_add_number(&text, "ms", note->took_us / MILLISECOND_US);
    else if (note->took_us == 0)
        settings_add_number(&text, "ms", 0);
    if (note->response.len)
        add_response(note->response, &text);
    buf_add_char(&text, '}');
    if (text.len > 2)
        buf_add_bytes(out, buf_bytes(&text));
    buf_fini(&text);
}

/* ---- reading ---- */

static struct attempt_note *of(struct settings_reader *reader)
{
    return reader->into;
}

static bool read_reason(struct settings_reader *reader)
{
    return settings_text(reader, JOB_NOTE_MAX, &of(reader)->reason);
}

static bool read_address(struct settings_reader *reader)
{
    return settings_text(reader, JOB_NOTE_MAX, &of(reader)->address);
}

static bool read_ms(struct settings_reader *reader)
{
    int64_t ms;
    if (!settings_number(reader, 0, INT64_MAX / MILLISECOND_US, &ms))
        return false;
    of(reader)->took_us = ms * MILLISECOND_US;
    return true;
}

static bool read_response(struct settings_reader *reader)
{
    return settings_text(reader, JOB_NOTE_MAX, &of(reader)->response);
}

static bool read_response_base64(struct settings_reader *reader)
{
    return settings_base64(reader, &of(reader)->response);
}

enum err attempt_note_read(struct bytes text, struct arena *scratch, struct attempt_note *out_note)
{
    static const struct settings_field fields[] = {
        {"reason", read_reason},
        {"address", read_address},
        {"ms", read_ms},
        {"response", read_response},
        {"response_base64", read_response_base64},
    };
    struct attempt_note note = {.took_us = -1};
    struct settings_problem unwanted;
    struct settings_reader reader;
    settings_reader_init(&reader, scratch, "", &unwanted);
    if (text.len &&
        !settings_object(&reader, text, fields, sizeof(fields) / sizeof(fields[0]), &note, NULL))
        return ERR_INVALID;
    *out_note = note;
    return OK;
}
