/*
 * Splits the stream into command lines and bodies, and parses the lines. A line or body that is
 * complete in the input is used in place; one that comes in pieces is collected in beanstalk::line
 * and beanstalk::body.
 *
 *     LINE ─put▶ BODY ─▶ LINE
 *     LINE ─put too big▶ SWALLOW ─▶ LINE
 *     LINE ─224 bytes without an end▶ SKIP_LINE ─its end▶ LINE
 *     LINE ─a line of HTTP▶ the end
 *
 * A line ends at the first CR LF, however the stream is split, and is parsed only when it is
 * complete: so the same commands and refusals result from any split. Each return to LINE gives
 * READY or BAD.
 */
#include "proto/beanstalk/beanstalk.h"

enum {
    CRLF = 2,
    PUT_WORD = 4,                        /* bytes of "put " */
    KEEP_BODY_BYTES = 1024,              /* kept for the next body */
    TRUST_BODY_BYTES = 64 * 1024 + CRLF, /* up to this, a body gets its buffer when announced */
};

/* ---- one line ---- */

/* What follows a command's word. */
enum shape {
    SHAPE_ALONE,    /* nothing */
    SHAPE_ANYTHING, /* any arguments, which are ignored */
    SHAPE_ID,
    SHAPE_TUBE,
    SHAPE_RELEASE, /* id, priority, delay */
    SHAPE_BURY,    /* id, priority */
    SHAPE_KICK,    /* bound */
    SHAPE_TIMEOUT, /* timeout */
    SHAPE_PAUSE,   /* tube, delay */
};

struct word {
    struct bytes text;
    enum beanstalk_cmd cmd;
    enum shape shape;
};

#define WORD(text, cmd, shape)                                                                     \
    {                                                                                              \
        {(text), sizeof(text) - 1}, BEANSTALK_##cmd, SHAPE_##shape                                 \
    }

/*
 * All commands but put, which begin_put() parses. Frequent ones come first, and a word comes before
 * those that it is a prefix of. As in beanstalkd, the line need only begin with a word, so
 * "statsfoo" is a malformed "stats"; an entry that ends in a space does not match without it.
 */
static const struct word words[] = {
    WORD("delete ", DELETE, ID),
    WORD("reserve-with-timeout ", RESERVE_WITH_TIMEOUT, TIMEOUT),
    WORD("reserve-job ", RESERVE_JOB, ID),
    WORD("reserve", RESERVE, ALONE),
    WORD("release ", RELEASE, RELEASE),
    WORD("touch ", TOUCH, ID),
    WORD("use ", USE, TUBE),
    WORD("watch ", WATCH, TUBE),
    WORD("ignore ", IGNORE, TUBE),
    WORD("bury ", BURY, BURY),
    WORD("kick ", KICK, KICK),
    WORD("kick-job ", KICK_JOB, ID),
    WORD("stats-job ", STATS_JOB, ID),
    WORD("stats-tube ", STATS_TUBE, TUBE),
    WORD("stats", STATS, ALONE),
    WORD("peek ", PEEK, ID),
    WORD("peek-ready", PEEK_READY, ALONE),
    WORD("peek-delayed", PEEK_DELAYED, ALONE),
    WORD("peek-buried", PEEK_BURIED, ALONE),
    WORD("pause-tube", PAUSE_TUBE, PAUSE),
    WORD("list-tubes-watched", LIST_TUBES_WATCHED, ALONE),
    WORD("list-tubes", LIST_TUBES, ALONE),
    WORD("list-tube-used", LIST_TUBE_USED, ALONE),
    WORD("quit", QUIT, ANYTHING),
};

enum { WORDS = sizeof(words) / sizeof(words[0]) };

/* The rest of a line that is being read; at `end` is the line's CR LF. */
struct rest {
    const char *at;
    const char *end;
};

static const struct word *word_of(struct bytes line)
{
    for (unsigned i = 0; i < WORDS; i++) {
        const struct bytes *text = &words[i].text;
        if (line.len >= text->len && line.at[0] == text->at[0] &&
            memcmp(line.at, text->at, text->len) == 0)
            return &words[i];
    }
    return NULL;
}

/* Twenty digits or more: many zeros, or a number that may not fit. */
static bool read_long(const char *first, const char *end, uint64_t max, uint64_t *out_number)
{
    while (first < end - 1 && *first == '0')
        first++;
    return bytes_to_u64(bytes_of(first, (size_t)(end - first)), out_number) && *out_number <= max;
}

/*
 * Any spaces, then digits, as many as there are, up to `max`. It needs no end: each line is
 * followed by its CR LF, and CR is no digit.
 */
static inline bool take_number(struct rest *rest, uint64_t max, uint64_t *out_number)
{
    const char *at = rest->at;
    uint64_t number = 0;
    unsigned digit;
    while (*at == ' ')
        at++;
    const char *first = at;
    for (; (digit = (unsigned char)*at - (unsigned)'0') <= 9; at++)
        number = number * 10 + digit;
    rest->at = at;
    *out_number = number;
    size_t count = (size_t)(at - first);
    if (count - 1 >= 19) /* none, or so many digits that `number` may have overflowed */
        return count > 0 && read_long(first, at, max, out_number);
    return number <= max;
}

static inline bool take_u64(struct rest *rest, uint64_t *out_number)
{
    return take_number(rest, UINT64_MAX, out_number);
}

static inline bool take_u32(struct rest *rest, uint32_t *out_number)
{
    uint64_t number;
    bool good = take_number(rest, UINT32_MAX, &number);
    *out_number = (uint32_t)number;
    return good;
}

enum loose { LOOSE_NONE, LOOSE_NUMBER, LOOSE_TOO_LONG };

/*
 * Reads a number as strtol() does. beanstalkd uses strtol() for two commands, and clients may
 * depend on that ("reserve-with-timeout 0.5"): white space and a sign may come before the number,
 * and anything behind it is ignored. A number above `max` is malformed. beanstalkd keeps only the
 * low 32 bits, so that a very long time-out becomes a short one, and a negative one never ends.
 * Here both are UINT32_MAX.
 */
static enum loose take_loose(const struct rest *rest, uint64_t max, uint32_t *out_number)
{
    struct rest digits = *rest;
    uint64_t number;
    while (digits.at < digits.end &&
           (*digits.at == ' ' || (*digits.at >= '\t' && *digits.at <= '\r')))
        digits.at++;
    bool negative = digits.at < digits.end && *digits.at == '-';
    if (negative || (digits.at < digits.end && *digits.at == '+'))
        digits.at++;
    if (digits.at == digits.end || *digits.at < '0' || *digits.at > '9')
        return LOOSE_NONE;
    if (!take_number(&digits, max, &number))
        return LOOSE_TOO_LONG;
    *out_number = (negative && number) || number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
    return LOOSE_NUMBER;
}

static bool take_pause(struct rest *rest, struct beanstalk_request *request)
{
    while (rest->at < rest->end && *rest->at == ' ')
        rest->at++;
    const char *space = memchr(rest->at, ' ', (size_t)(rest->end - rest->at));
    if (!space)
        return false;
    request->tube = bytes_of(rest->at, (size_t)(space - rest->at));
    rest->at = space;
    return beanstalk_name_valid(request->tube) && take_u32(rest, &request->delay_s);
}

/* Reads what follows the word; false: it is not as it must be. */
static bool take_arguments(enum shape shape, struct rest rest, struct beanstalk_request *request)
{
    switch (shape) {
    case SHAPE_ALONE: break;
    case SHAPE_ID:
        if (!take_u64(&rest, &request->id))
            return false;
        break;
    case SHAPE_TUBE:
        request->tube = bytes_of(rest.at, (size_t)(rest.end - rest.at));
        return beanstalk_name_valid(request->tube);
    case SHAPE_RELEASE:
        if (!take_u64(&rest, &request->id) || !take_u32(&rest, &request->priority) ||
            !take_u32(&rest, &request->delay_s))
            return false;
        break;
    case SHAPE_BURY:
        if (!take_u64(&rest, &request->id) || !take_u32(&rest, &request->priority))
            return false;
        break;
    case SHAPE_KICK: return take_loose(&rest, UINT64_MAX, &request->bound) == LOOSE_NUMBER;
    case SHAPE_TIMEOUT: return take_loose(&rest, INT64_MAX, &request->timeout_s) != LOOSE_TOO_LONG;
    case SHAPE_PAUSE:
        if (!take_pause(&rest, request))
            return false;
        break;
    case SHAPE_ANYTHING: return true;
    }
    return rest.at == rest.end;
}

static enum beanstalk_progress refuse(struct beanstalk *beanstalk, enum beanstalk_word word)
{
    beanstalk->refusal = word;
    return BEANSTALK_BAD;
}

static bool has_nul(struct bytes line)
{
    return memchr(line.at, '\0', line.len) != NULL;
}

bool beanstalk_is_command(struct bytes line)
{
    if (line.len == 0 || line.at[0] < 'a' || line.at[0] > 'z')
        return false; /* most lines of HTTP: its methods are in capitals */
    bool http = memmem(line.at, line.len, " HTTP/", 6) != NULL;
    return !http && (bytes_starts(line, BYTES("put ")) || word_of(line) != NULL);
}

/*
 * Does the line begin a request of HTTP, or is it the header line that each one has? No command of
 * beanstalkd begins so. A word such as "PUT 1" is a command in the wrong case: a method is followed
 * by a path or a URL.
 */
static bool is_http(struct bytes line)
{
    static const struct bytes methods[] = {
        {"GET ", 4},    {"POST ", 5},  {"HEAD ", 5},    {"PUT ", 4},   {"OPTIONS ", 8},
        {"DELETE ", 7}, {"PATCH ", 6}, {"CONNECT ", 8}, {"TRACE ", 6},
    };
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (!bytes_starts(line, methods[i]))
            continue;
        char next = line.len > methods[i].len ? line.at[methods[i].len] : ' ';
        return (next < '0' || next > '9') && next != '-' && next != ' ';
    }
    return line.len >= 5 && bytes_eq_nocase(bytes_of(line.at, 5), BYTES("host:"));
}

/*
 * A body that is too big is skipped even if something follows its size, as in beanstalkd: skipping
 * is safer than executing it.
 */
static enum beanstalk_progress begin_put(struct beanstalk *beanstalk, struct bytes line)
{
    struct beanstalk_request *request = &beanstalk->request;
    struct rest rest = {.at = line.at + PUT_WORD, .end = line.at + line.len};
    uint32_t size;
    *request = (struct beanstalk_request){.cmd = BEANSTALK_PUT};
    if (!take_u32(&rest, &request->priority) || !take_u32(&rest, &request->delay_s) ||
        !take_u32(&rest, &request->ttr_s) || !take_u32(&rest, &size))
        return refuse(beanstalk, BEANSTALK_BAD_FORMAT);
    bool too_big = size > beanstalk->body_max;
    if (rest.at != rest.end && (!too_big || has_nul(line)))
        return refuse(beanstalk, BEANSTALK_BAD_FORMAT);
    beanstalk->refusal = BEANSTALK_JOB_TOO_BIG; /* of SWALLOW */
    beanstalk->stage = too_big ? BEANSTALK_SWALLOW : BEANSTALK_BODY;
    beanstalk->left = (uint64_t)size + CRLF;
    beanstalk->body.len = 0;
    return BEANSTALK_MORE;
}

/* A whole line, without its CR LF. */
static enum beanstalk_progress read_line(struct beanstalk *beanstalk, struct bytes line)
{
    if (line.len >= PUT_WORD && memcmp(line.at, "put ", PUT_WORD) == 0)
        return begin_put(beanstalk, line);
    bool nul = has_nul(line);
    const struct word *word = word_of(line);
    if (!word && is_http(line))
        return BEANSTALK_HTTP;
    if (nul) /* whether the word is known or not */
        return refuse(beanstalk, BEANSTALK_BAD_FORMAT);
    if (!word)
        return refuse(beanstalk, BEANSTALK_UNKNOWN_COMMAND);
    struct rest rest = {.at = line.at + word->text.len, .end = line.at + line.len};
    beanstalk->request = (struct beanstalk_request){.cmd = word->cmd};
    if (!take_arguments(word->shape, rest, &beanstalk->request))
        return refuse(beanstalk, BEANSTALK_BAD_FORMAT);
    return BEANSTALK_READY;
}

/* ---- the stream ---- */

/* Takes the first `len` bytes away from *in. */
static struct bytes cut(struct bytes *in, size_t len)
{
    struct bytes head = bytes_of(in->at, len);
    *in = bytes_of(in->at + len, in->len - len);
    return head;
}

/*
 * How long the line at the start of `in` is, its CR LF included; 0 if the end is not there.
 * `before` is the byte that came before `in`: the CR may have come with another piece.
 */
static inline size_t line_end(char before, struct bytes in)
{
    for (size_t from = 0; from < in.len;) {
        const char *newline = memchr(in.at + from, '\n', in.len - from);
        if (!newline)
            break;
        from = (size_t)(newline - in.at) + 1;
        if ((from > 1 ? newline[-1] : before) == '\r')
            return from;
    }
    return 0;
}

static enum beanstalk_progress feed_line(struct beanstalk *beanstalk, struct bytes *in)
{
    uint32_t had = beanstalk->line_len;
    size_t room = BEANSTALK_LINE_MAX - had;
    struct bytes window = bytes_of(in->at, in->len < room ? in->len : room);
    size_t len = line_end(had ? beanstalk->line[had - 1] : '\0', window);
    struct bytes line = cut(in, len ? len : window.len);
    if (len == 0 || had) {
        memcpy(beanstalk->line + had, line.at, line.len);
        line = bytes_of(beanstalk->line, had + line.len);
    }
    if (len) {
        beanstalk->line_len = 0;
        return read_line(beanstalk, bytes_of(line.at, line.len - CRLF));
    }
    beanstalk->line_len = (uint32_t)line.len;
    if (line.len < BEANSTALK_LINE_MAX)
        return BEANSTALK_MORE;
    if (is_http(line))
        return BEANSTALK_HTTP; /* a long path; later lines are ignored, too */
    beanstalk->stage = BEANSTALK_SKIP_LINE;
    return BEANSTALK_MORE;
}

/* The last byte of beanstalk::line is the last that was skipped. */
static enum beanstalk_progress feed_skip_line(struct beanstalk *beanstalk, struct bytes *in)
{
    size_t len = line_end(beanstalk->line[BEANSTALK_LINE_MAX - 1], *in);
    if (len == 0) {
        beanstalk->line[BEANSTALK_LINE_MAX - 1] = in->at[in->len - 1];
        (void)cut(in, in->len);
        return BEANSTALK_MORE;
    }
    (void)cut(in, len);
    beanstalk->line_len = 0;
    beanstalk->stage = BEANSTALK_LINE;
    return refuse(beanstalk, BEANSTALK_BAD_FORMAT);
}

static enum beanstalk_progress feed_swallow(struct beanstalk *beanstalk, struct bytes *in)
{
    uint64_t len = beanstalk->left < in->len ? beanstalk->left : in->len;
    (void)cut(in, (size_t)len);
    beanstalk->left -= len;
    if (beanstalk->left)
        return BEANSTALK_MORE;
    beanstalk->stage = BEANSTALK_LINE;
    return BEANSTALK_BAD; /* `refusal` was set when the line was read */
}

static enum beanstalk_progress feed_body(struct beanstalk *beanstalk, struct bytes *in)
{
    struct buf *body = &beanstalk->body;
    size_t len = beanstalk->left < in->len ? (size_t)beanstalk->left : in->len;
    struct bytes whole = cut(in, len);
    if (len < beanstalk->left || body->len) {
        /* A larger body gets memory only as it comes: announcing one is cheap. */
        if (body->len == 0 && beanstalk->left <= TRUST_BODY_BYTES)
            buf_reserve(body, (size_t)beanstalk->left);
        buf_reserve_to(body, len, body->len + (size_t)beanstalk->left);
        buf_add_bytes(body, whole);
        whole = buf_bytes(body);
    }
    beanstalk->left -= len;
    if (beanstalk->left)
        return BEANSTALK_MORE;
    beanstalk->stage = BEANSTALK_LINE;
    whole.len -= CRLF;
    if (memcmp(whole.at + whole.len, "\r\n", CRLF) != 0)
        return refuse(beanstalk, BEANSTALK_EXPECTED_CRLF);
    beanstalk->request.body = whole;
    return BEANSTALK_READY;
}

/* ---- a put that is complete in the input ---- */

enum {
    DIGITS_MAX = 7,                                         /* of a plain number */
    PLAIN_PUT_MAX = PUT_WORD + 4 * (DIGITS_MAX + 1) + CRLF, /* bytes of its line */
};

/*
 * Parses one to seven digits that are followed by the byte `end`; else NULL. Eight bytes are
 * handled together: the digits are shifted to the upper end of a word, filled up with zeros, and
 * then added up in pairs, fours and all.
 */
static inline const char *plain_number(const char *at, char end, uint64_t *out_number)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    uint64_t values = word ^ EACH_BYTE('0');
    uint64_t others = (values | (values + EACH_BYTE(0x76))) & EACH_BYTE(0x80); /* no digits */
    unsigned bits = others ? (unsigned)__builtin_ctzll(others) & ~7u : 0;      /* of the digits */
    if (bits == 0 || at[bits / 8] != end)
        return NULL;
    values <<= 64 - bits;
    values = values * 10 + (values >> 8); /* in each second byte a pair */
    uint64_t high = (values & 0x000000ff000000ff) * (100 + (UINT64_C(1000000) << 32));
    uint64_t low = (values >> 16 & 0x000000ff000000ff) * (1 + (UINT64_C(10000) << 32));
    *out_number = (high + low) >> 32;
    return at + bits / 8 + 1;
}

/*
 * The fast path: parses a put that is complete, with its body, and has plain numbers, as most are.
 * False: it is not, and nothing was done. The result is that of LINE and BODY, at half the cost.
 */
static bool take_plain_put(struct beanstalk *beanstalk, struct bytes in, size_t *out_used)
{
    uint64_t priority, delay, ttr, size;
    if (in.len < PLAIN_PUT_MAX + sizeof(uint64_t) || memcmp(in.at, "put ", PUT_WORD) != 0)
        return false;
    const char *at = plain_number(in.at + PUT_WORD, ' ', &priority);
    if (!at || !(at = plain_number(at, ' ', &delay)) || !(at = plain_number(at, ' ', &ttr)) ||
        !(at = plain_number(at, '\r', &size)) || *at != '\n')
        return false;
    size_t line = (size_t)(at + 1 - in.at);
    if (size > beanstalk->body_max || in.len - line < size + CRLF)
        return false;
    const char *end = in.at + line + size;
    if (end[0] != '\r' || end[1] != '\n')
        return false;
    struct beanstalk_request *request = &beanstalk->request;
    request->cmd = BEANSTALK_PUT;
    request->id = 0;
    request->priority = (uint32_t)priority;
    request->delay_s = (uint32_t)delay;
    request->ttr_s = (uint32_t)ttr;
    request->body = bytes_of(in.at + line, (size_t)size);
    *out_used = line + (size_t)size + CRLF;
    return true;
}

void beanstalk_init(struct beanstalk *beanstalk, uint32_t body_max)
{
    *beanstalk = (struct beanstalk){.body_max = body_max};
}

void beanstalk_fini(struct beanstalk *beanstalk)
{
    buf_fini(&beanstalk->body);
}

static __attribute__((noinline)) enum beanstalk_progress feed(struct beanstalk *beanstalk,
                                                              struct bytes in, size_t *out_used)
{
    enum beanstalk_progress progress = BEANSTALK_MORE;
    struct bytes rest = in;
    while (rest.len && progress == BEANSTALK_MORE) {
        switch (beanstalk->stage) {
        case BEANSTALK_LINE: progress = feed_line(beanstalk, &rest); break;
        case BEANSTALK_BODY: progress = feed_body(beanstalk, &rest); break;
        case BEANSTALK_SWALLOW: progress = feed_swallow(beanstalk, &rest); break;
        case BEANSTALK_SKIP_LINE: progress = feed_skip_line(beanstalk, &rest); break;
        }
    }
    *out_used = in.len - rest.len;
    return progress;
}

enum beanstalk_progress beanstalk_feed(struct beanstalk *beanstalk, struct bytes in,
                                       size_t *out_used)
{
    if (beanstalk->stage == BEANSTALK_LINE && beanstalk->line_len == 0 &&
        take_plain_put(beanstalk, in, out_used))
        return BEANSTALK_READY;
    return feed(beanstalk, in, out_used);
}

void beanstalk_next(struct beanstalk *beanstalk)
{
    beanstalk->body.len = 0;
    if (beanstalk->body.cap > KEEP_BODY_BYTES)
        buf_shrink(&beanstalk->body, KEEP_BODY_BYTES);
}

bool beanstalk_midway(const struct beanstalk *beanstalk)
{
    return beanstalk->stage != BEANSTALK_LINE || beanstalk->line_len > 0;
}

/* One bit for each ASCII byte that a name may have: $ ( ) + - . / ; 0-9, then A-Z _ a-z. */
static const uint64_t name_bytes[2] = {0x0bffeb1000000000, 0x07fffffe87fffffe};

bool beanstalk_name_valid(struct bytes name)
{
    if (name.len == 0 || name.len > BEANSTALK_NAME_MAX || name.at[0] == '-')
        return false;
    for (size_t i = 0; i < name.len; i++) {
        unsigned char byte = (unsigned char)name.at[i];
        if (byte > 127 || (name_bytes[byte / 64] >> byte % 64 & 1) == 0)
            return false;
    }
    return true;
}
