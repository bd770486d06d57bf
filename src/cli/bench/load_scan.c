/*
 * What an answer looks like, in HTTP/1.1 and in beanstalkd's protocol. Run once for every answer,
 * so nothing is copied, and of HTTP's head only Content-Length is read.
 */
#include "cli/bench/load.h"

enum { LINE_MAX_BYTES = 256 }; /* no answer of beanstalkd has a longer first line */

static bool starts_nocase(const char *at, const char *end, struct bytes name)
{
    return (size_t)(end - at) >= name.len && bytes_eq_nocase(bytes_of(at, name.len), name);
}

bool load_scan_http(struct bytes in, struct load_answer *out_answer, size_t *out_len, bool *out_bad)
{
    const char *end = in.len > 0 ? memmem(in.at, in.len, "\r\n\r\n", 4) : NULL;
    uint64_t length = 0;
    bool sized = false;
    *out_bad = false;
    if (!end)
        return false;
    /* "HTTP/1.1 200": the three digits stand at a fixed place. */
    *out_bad = end - in.at < 12 || memcmp(in.at, "HTTP/1.1 ", 9) != 0;
    if (*out_bad)
        return false;
    int status = (in.at[9] - '0') * 100 + (in.at[10] - '0') * 10 + (in.at[11] - '0');
    for (const char *line = in.at; !sized && (line = memchr(line, '\n', (size_t)(end - line)));) {
        line++;
        if (!starts_nocase(line, end, BYTES("content-length:")))
            continue;
        for (line += 15; *line == ' ' || *line == '\t';)
            line++;
        for (; *line >= '0' && *line <= '9' && length < INT32_MAX; line++)
            length = length * 10 + (uint64_t)(*line - '0');
        sized = true;
    }
    *out_bad = !sized && status != 204;
    size_t head = (size_t)(end - in.at) + 4;
    if (*out_bad || in.len - head < length)
        return false;
    const char *line_end = memchr(in.at, '\r', in.len); /* there is one: the head's end has it */
    out_answer->status = status;
    out_answer->line = bytes_of(in.at, (size_t)(line_end - in.at));
    out_answer->id = BYTES("");
    out_answer->body = bytes_of(in.at + head, (size_t)length);
    *out_len = head + (size_t)length;
    return true;
}

/* What follows the first word, and how that counts. */
static const struct reply {
    const char *word;
    int status;
    bool has_id, has_body; /* "<id>", "<bytes>" and the data */
} replies[] = {
    /* What comes most stands first: the list is searched in order. */
    {"INSERTED", 201, true, false},  {"RESERVED", 200, true, true},
    {"DELETED", 200, false, false},  {"TIMED_OUT", 204, false, false},
    {"USING", 200, false, false},    {"WATCHING", 200, false, false},
    {"PAUSED", 200, false, false},   {"KICKED", 200, false, false},
    {"OK", 200, false, true},        {"FOUND", 200, true, true},
    {"RELEASED", 200, false, false}, {"DEADLINE_SOON", 204, false, false},
};

/* Any other word of capital letters is a refusal. NULL: "HTTP/1.1", and other protocols' words. */
static const struct reply *reply_of(struct bytes word)
{
    static const struct reply refusal = {.status = 400};
    for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
        if (bytes_eq(word, bytes_str(replies[i].word)))
            return &replies[i];
    }
    for (size_t i = 0; i < word.len; i++) {
        if ((word.at[i] < 'A' || word.at[i] > 'Z') && word.at[i] != '_')
            return NULL;
    }
    return &refusal;
}

/* Takes the next word of a line off it. */
static struct bytes next_word(struct bytes *rest)
{
    const char *space = rest->len > 0 ? memchr(rest->at, ' ', rest->len) : NULL;
    size_t len = space ? (size_t)(space - rest->at) : rest->len;
    struct bytes word = bytes_of(rest->at, len);
    size_t skip = space ? len + 1 : len;
    *rest = bytes_of(rest->at + skip, rest->len - skip);
    return word;
}

bool load_scan_beanstalk(struct bytes in, struct load_answer *out_answer, size_t *out_len,
                         bool *out_bad)
{
    size_t look = in.len < LINE_MAX_BYTES ? in.len : LINE_MAX_BYTES;
    const char *end = look > 0 ? memchr(in.at, '\n', look) : NULL;
    *out_bad = !end && look == LINE_MAX_BYTES;
    if (!end)
        return false;
    size_t head = (size_t)(end - in.at) + 1;
    struct bytes line = bytes_of(in.at, head >= 2 ? head - 2 : 0), rest = line;
    *out_bad = line.len == 0 || in.at[head - 2] != '\r' || line.at[0] < 'A' || line.at[0] > 'Z';
    if (*out_bad)
        return false;
    const struct reply *reply = reply_of(next_word(&rest));
    *out_bad = !reply;
    if (*out_bad)
        return false;
    struct bytes id = reply->has_id ? next_word(&rest) : BYTES("");
    uint64_t length = 0;
    *out_bad = (reply->has_id && id.len == 0) ||
               (reply->has_body && (!bytes_to_u64(rest, &length) || length > INT32_MAX));
    size_t len = head + (reply->has_body ? (size_t)length + 2 : 0);
    if (*out_bad || in.len < len)
        return false;
    out_answer->status = reply->status;
    out_answer->line = line;
    out_answer->id = id;
    out_answer->body = bytes_of(in.at + head, (size_t)length);
    *out_len = len;
    return true;
}
