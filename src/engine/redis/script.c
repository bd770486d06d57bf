/*
 * Encodes requests: which script executes a command, and the request's bytes, written in one pass
 * to the send buffer.
 */
#include "engine/redis/script.h"

#include "base/check.h"
#include "base/codec.h"
#include "base/hash.h"
#include "base/mem.h"
#include "engine/redis/notice_codec.h"
#include "engine/redis/queue_clock.h"
#include "engine/redis/script_parts.h"

#define CHANNEL_END ":notice"

enum {
    REQUEST_BYTES = 44, /* of ARGV[1]: see add_request() */
    BOUNDS_AT = 20,     /* there */
};

/* ---- the space ---- */

enum err script_space_init(struct script_space *space, struct bytes prefix, uint32_t partitions,
                           const char daemon[8])
{
    if (prefix.len == 0 || prefix.len > SCRIPT_PREFIX_MAX || partitions == 0 ||
        partitions > SCRIPT_PARTITIONS_MAX || memchr(prefix.at, '{', prefix.len) ||
        memchr(prefix.at, '}', prefix.len))
        return ERR_INVALID;
    *space = (struct script_space){.partitions = partitions};
    space->ahead_us = mem_zalloc(partitions * sizeof(*space->ahead_us));
    space->behind_us = mem_zalloc(partitions * sizeof(*space->behind_us));
    space->at_once_us = mem_zalloc(partitions * sizeof(*space->at_once_us));
    space->newest = mem_zalloc(partitions * sizeof(*space->newest));
    memcpy(space->prefix, prefix.at, prefix.len);
    memcpy(space->daemon, daemon, sizeof(space->daemon));
    for (enum script_kind kind = 0; kind < SCRIPT_COUNT; kind++) {
        script_write(&space->scripts[kind].text, kind);
        script_sha1(script_text(space, kind), space->scripts[kind].digest);
    }
    return OK;
}

void script_space_fini(struct script_space *space)
{
    for (enum script_kind kind = 0; kind < SCRIPT_COUNT; kind++)
        buf_fini(&space->scripts[kind].text);
    mem_free(space->ahead_us);
    mem_free(space->behind_us);
    mem_free(space->at_once_us);
    mem_free(space->newest);
    space->ahead_us = NULL;
    space->behind_us = space->at_once_us = NULL;
    space->newest = NULL;
}

struct bytes script_text(const struct script_space *space, enum script_kind kind)
{
    return buf_bytes(&space->scripts[kind].text);
}

const char *script_digest(const struct script_space *space, enum script_kind kind)
{
    return space->scripts[kind].digest;
}

static size_t put(char *room, size_t at, struct bytes text)
{
    memcpy(room + at, text.at, text.len);
    return at + text.len;
}

static size_t put_number(char *room, size_t at, uint32_t number)
{
    char digits[10];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    while (count)
        room[at++] = digits[--count];
    return at;
}

struct bytes script_tag(const struct script_space *space, uint32_t partition, char *room)
{
    size_t len = put(room, 0, BYTES("{"));
    len = put(room, len, bytes_str(space->prefix));
    len = put(room, len, BYTES(":"));
    len = put_number(room, len, partition);
    return bytes_of(room, put(room, len, BYTES("}")));
}

struct bytes notice_channel(const struct script_space *space, uint32_t partition,
                            enum notice_readers readers, char *room)
{
    size_t len = script_tag(space, partition, room).len;
    len = put(room, len, BYTES(CHANNEL_END));
    if (space->db) {
        len = put(room, len, BYTES(":"));
        len = put_number(room, len, space->db);
    }
    if (readers == NOTICE_TO_US) {
        len = put(room, len, BYTES(":"));
        len = put(room, len, bytes_of(space->daemon, SCRIPT_NAME));
    }
    return bytes_of(room, len);
}

int64_t script_time_in(const struct script_space *space, uint32_t partition, int64_t us)
{
    int64_t there;
    if (us == INT64_MAX)
        return SCRIPT_FOREVER;
    if (__builtin_add_overflow(us, space->ahead_us[partition], &there))
        there = us < 0 ? 0 : SCRIPT_FOREVER;
    if (there < 0)
        return 0;
    return there < SCRIPT_FOREVER ? there : SCRIPT_FOREVER - 1;
}

/* Converts a due time. A job that is due at once is due at once by the partition's clock, too, and
 * not before the last such job. */
static int64_t due_in(const struct script_space *space, const struct script_call *call,
                      int64_t due_us)
{
    int64_t there_us = script_time_in(space, call->partition, due_us);
    int64_t now_us = call->now_us - space->behind_us[call->partition];
    int64_t at_once_us = script_time_in(space, call->partition, now_us);
    int64_t *last_us = &space->at_once_us[call->partition];
    if (due_us > call->now_us)
        return there_us;
    if (*last_us > at_once_us && *last_us - at_once_us < QUEUE_CLOCK_CLOSE_US)
        at_once_us = *last_us;
    if (there_us < at_once_us)
        return there_us;
    *last_us = at_once_us;
    return at_once_us;
}

int64_t script_time_out(const struct script_space *space, uint32_t partition, int64_t us)
{
    return us >= SCRIPT_FOREVER ? INT64_MAX : us - space->ahead_us[partition];
}

int64_t script_span_in(int64_t us)
{
    return us < SCRIPT_FOREVER ? us : SCRIPT_FOREVER;
}

/* ---- requests in RESP ---- */

static size_t put_length(char *room, size_t at, char mark, size_t length)
{
    CHECK(length <= UINT32_MAX);
    room[at++] = mark;
    at = put_number(room, at, (uint32_t)length);
    return put(room, at, BYTES("\r\n"));
}

/* Appends one argument, which consists of these pieces. */
static void add_pieces(struct buf *out, const struct bytes *pieces, size_t count)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++)
        len += pieces[i].len;
    buf_reserve(out, len + 16);
    size_t at = put_length(out->at, out->len, '$', len);
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].len)
            at = put(out->at, at, pieces[i]);
    }
    out->len = put(out->at, at, BYTES("\r\n"));
}

static void add_pair(struct buf *out, struct bytes a, struct bytes b)
{
    add_pieces(out, (const struct bytes[]){a, b}, 2);
}

void script_add(struct buf *out, struct bytes argument)
{
    add_pair(out, argument, (struct bytes){0});
}

void script_add_i64(struct buf *out, int64_t number)
{
    char digits[20];
    size_t at = sizeof(digits);
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (number < 0)
        digits[--at] = '-';
    script_add(out, bytes_of(digits + at, sizeof(digits) - at));
}

static void put_place(char *request, uint32_t place)
{
    request[10] = (char)(place >> 8);
    request[11] = (char)(place & 255);
}

static void put_bounds(char *request, const struct script_call *call)
{
    put_u64(request + BOUNDS_AT, (uint64_t)call->least_us);
    put_u64(request + BOUNDS_AT + 8, (uint64_t)(call->queue_us ? call->most_us : SCRIPT_FOREVER));
    put_u64(request + BOUNDS_AT + 16, (uint64_t)call->queue_us);
}

/* Appends ARGV[1]: '0' to '3' (is it resent, is it sent because of ASK), the place in the ring of
 * answers, the number, and the bounds of the clock. */
static void add_request(struct buf *out, const struct script_space *space,
                        const struct script_call *call)
{
    char request[REQUEST_BYTES];
    request[0] = '0';
    request[1] = 'a';
    memcpy(request + 2, space->daemon, 8);
    put_place(request, call->place);
    put_u64(request + 12, call->number);
    put_bounds(request, call);
    script_add(out, bytes_of(request, sizeof(request)));
}

enum { KEYS = 4 };

void script_begin(struct buf *out, const struct script_space *space, const struct script_call *call,
                  enum script_kind kind, uint32_t arguments)
{
    const struct bytes ends[KEYS] = {BYTES(":h"), BYTES(":d"), BYTES(":l"), BYTES(":o")};
    char room[SCRIPT_PREFIX_MAX + 16];
    struct bytes tag = script_tag(space, call->partition, room);
    buf_reserve(out, 16);
    out->len = put_length(out->at, out->len, '*', 3 + KEYS + 1 + arguments);
    script_add(out, BYTES("EVALSHA"));
    script_add(out, bytes_of(script_digest(space, kind), SCRIPT_DIGEST));
    script_add(out, BYTES("4"));
    for (int i = 0; i < KEYS; i++)
        add_pair(out, tag, ends[i]);
    add_request(out, space, call);
}

/* The number in a line behind its first byte; *at is moved behind the line. */
static size_t take_length(const char **at, const char *end)
{
    size_t len = 0;
    for ((*at)++; *at < end && **at != '\r'; (*at)++)
        len = 10 * len + (size_t)(**at - '0');
    *at += 2;
    CHECK(*at <= end);
    return len;
}

/* The rest of the request from this word on; word 0 is EVALSHA. */
static struct bytes from_word(struct bytes request, uint32_t word)
{
    const char *at = request.at, *end = request.at + request.len;
    (void)take_length(&at, end);
    while (word-- > 0) {
        size_t len = take_length(&at, end);
        CHECK(len + 2 <= (size_t)(end - at));
        at += len + 2;
    }
    return bytes_of(at, (size_t)(end - at));
}

enum { KEYS_AT = 3, ARGUMENTS_AT = KEYS_AT + KEYS }; /* words */

struct bytes script_argument(struct bytes request, uint32_t index)
{
    struct bytes rest = from_word(request, ARGUMENTS_AT + index - 1);
    const char *at = rest.at, *end = rest.at + rest.len;
    size_t len = take_length(&at, end);
    CHECK(len <= (size_t)(end - at));
    return bytes_of(at, len);
}

enum {
    JOINED_KINDS = 3,
    JOINED_MAX = 127, /* requests */
};

static enum script_kind kind_of(const struct script_joined *join)
{
    return join->ends ? SCRIPT_END : SCRIPT_PUSH;
}

/* How many arguments a request has, without the keys. */
static uint32_t arguments_of(struct bytes request)
{
    const char *at = request.at;
    return (uint32_t)take_length(&at, request.at + request.len) - ARGUMENTS_AT;
}

static void add_keys(struct buf *out, struct bytes request)
{
    struct bytes keys = from_word(request, KEYS_AT);
    keys.len -= from_word(request, ARGUMENTS_AT).len;
    buf_add_bytes(out, keys);
}

void script_join(struct buf *out, const struct script_space *space,
                 const struct script_joined *join)
{
    const uint32_t counts[JOINED_KINDS] = {join->ends, join->pushes, join->reserves};
    uint32_t count = counts[0] + counts[1] + counts[2], arguments = 0, first = 0;
    /* In the order in which they come: the first request for each; of each request its place. */
    uint32_t partitions[JOINED_MAX], partition_count = 0;
    char about[2 * JOINED_KINDS + JOINED_MAX] = {0}, *routes = about + 2 * JOINED_KINDS;
    CHECK(count <= JOINED_MAX);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = 0;
        while (place < partition_count &&
               join->partitions[partitions[place]] != join->partitions[i])
            place++;
        if (place == partition_count)
            partitions[partition_count++] = i;
        routes[i] = (char)place;
    }
    /* The scripts of one kind are for one partition; that of reserves is for one request. */
    bool turns = partition_count > 1 || (counts[0] != count && counts[1] != count);
    for (uint32_t kind = 0; kind < JOINED_KINDS; first += counts[kind++]) {
        uint32_t each = counts[kind] ? arguments_of(join->requests[first]) : 0;
        about[kind] = (char)counts[kind];
        about[JOINED_KINDS + kind] = (char)each;
        arguments += counts[kind] * each;
    }
    buf_reserve(out, 16);
    out->len =
        put_length(out->at, out->len, '*', KEYS_AT + KEYS * partition_count + turns + arguments);
    script_add(out, BYTES("EVALSHA"));
    script_add(out,
               bytes_of(script_digest(space, turns ? SCRIPT_TURN : kind_of(join)), SCRIPT_DIGEST));
    script_add_i64(out, KEYS * (int64_t)partition_count);
    for (uint32_t i = 0; i < partition_count; i++)
        add_keys(out, join->requests[partitions[i]]);
    if (turns)
        script_add(out, bytes_of(about, 2 * JOINED_KINDS + (partition_count > 1 ? count : 0)));
    for (uint32_t i = 0; i < count; i++)
        buf_add_bytes(out, from_word(join->requests[i], ARGUMENTS_AT));
}

struct bytes script_pushed_topic(struct bytes request)
{
    struct bytes counted = script_argument(request, 7); /* '#p' and the topic: see push.lua */
    return bytes_of(counted.at + 2, counted.len - 2);
}

/* The request's ARGV[1], writable. */
static char *request_of(char *request, size_t len)
{
    struct bytes argument = script_argument(bytes_of(request, len), 1);
    char *mark = request + (argument.at - request);
    CHECK(argument.len == REQUEST_BYTES && *mark >= '0' && *mark <= '3');
    return mark;
}

void script_mark_again(char *request, size_t len)
{
    char *mark = request_of(request, len);
    *mark = (char)(*mark | 1);
}

void script_mark_importing(char *request, size_t len, bool importing)
{
    char *mark = request_of(request, len);
    *mark = (char)((*mark & ~2) | (importing ? 2 : 0));
}

void script_set_bounds(char *request, size_t len, const struct script_call *call)
{
    put_bounds(request_of(request, len), call);
}

void script_set_place(char *request, size_t len, uint32_t place)
{
    CHECK(place < SCRIPT_RING);
    put_place(request_of(request, len), place);
}

/* ---- push ---- */

/* The checksum of content type and body. */
static uint64_t content_sum(struct bytes content_type, struct bytes body)
{
    uint64_t sum = hash_of(body.at, body.len);
    return content_type.len ? hash_seeded(content_type.at, content_type.len, sum) : sum;
}

static void put_small(char *at, uint64_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (char)(number >> 8 * i);
}

static uint32_t seconds_until(int64_t now_us, int64_t due_us)
{
    if (due_us <= now_us)
        return 0;
    uint64_t seconds = ((uint64_t)due_us - (uint64_t)now_us + 999999) / 1000000;
    return seconds < UINT32_MAX ? (uint32_t)seconds : UINT32_MAX;
}

enum {
    RECORD_ROOM =
        JOB_LONG_BYTES + TOPIC_NAME_MAX + JOB_ID_MAX + RETRY_STEPS_MAX * 8 + CONTENT_TYPE_MAX
};

/* Writes the part of a pushed job's record that does not depend on its number, and returns its
 * length. All forms have the same first bytes; the compact and the short form agree up to the
 * creation time. The script chooses between these two when it knows the number. */
static size_t put_fixed(char *at, const struct cmd_push *push, int64_t due_us, int64_t now_us,
                        bool is_apart, size_t *out_len)
{
    uint64_t ttr_us = (uint64_t)script_span_in(push->ttr_us),
             sum = content_sum(push->content_type, push->body);
    uint32_t delay_s = seconds_until(now_us, push->due_us);
    bool is_short = !push->content_type.len && !is_apart && push->priority <= UINT16_MAX &&
                    ttr_us % 1000000 == 0 && ttr_us / 1000000 <= UINT16_MAX && delay_s < 1U << 24;
    unsigned form = JOB_IS_RECORD | (is_short ? JOB_IS_COMPACT : JOB_IS_LONG) |
                    (is_apart ? JOB_IS_APART : 0) |
                    (push->order == ORDER_ARRIVAL ? JOB_IN_ARRIVAL : 0) |
                    (push->properties.len ? JOB_HAS_PROPERTIES : 0) |
                    (push->body_kind == BODY_JSON ? JOB_IS_JSON : 0);
    put_u8(at + JOB_LONG_FORM, (uint8_t)form);
    put_u8(at + JOB_LONG_ID_LEN, (uint8_t)push->id.len);
    put_u8(at + JOB_LONG_TOPIC_LEN, (uint8_t)push->topic.len);
    put_u8(at + JOB_LONG_RETRIES, push->retry_count);
    if (is_short) {
        put_u16(at + JOB_SHORT_PRIORITY, (uint16_t)push->priority);
        put_u16(at + JOB_SHORT_TTR, (uint16_t)(ttr_us / 1000000));
        put_small(at + JOB_SHORT_DELAY_S, delay_s, 3);
        put_small(at + JOB_SHORT_DUE, (uint64_t)due_us, 7);
        put_u64(at + JOB_SHORT_CONTENT_SUM, sum);
        *out_len = JOB_SHORT_BYTES;
        return JOB_SHORT_CREATED;
    }
    put_u32(at + JOB_LONG_PRIORITY, push->priority);
    put_small(at + JOB_LONG_TTR, ttr_us, 7);
    put_u32(at + JOB_LONG_DELAY_S, delay_s);
    put_small(at + JOB_LONG_DUE, (uint64_t)due_us, 7);
    put_u64(at + JOB_LONG_CONTENT_SUM, sum);
    put_u8(at + JOB_LONG_TYPE_LEN, (uint8_t)push->content_type.len);
    put_u32(at + JOB_LONG_BODY_LEN, (uint32_t)push->body.len);
    *out_len = JOB_LONG_BYTES;
    return JOB_LONG_CREATED;
}

/* Appends ARGV[4], the parts outside of the record: properties, if there are any, with their
 * checksum and the length of both before them; and the content, if it is apart. */
static void add_apart(struct buf *out, const struct cmd_push *push, bool is_apart)
{
    char start[2 + JOB_SUM_BYTES];
    struct bytes properties = push->properties, pieces[4];
    size_t count = 0;
    if (properties.len) {
        put_u16(start, (uint16_t)(JOB_SUM_BYTES + properties.len));
        put_u64(start + 2, hash_of(properties.at, properties.len));
        pieces[count++] = bytes_of(start, sizeof(start));
        pieces[count++] = properties;
    }
    if (is_apart) {
        pieces[count++] = push->content_type;
        pieces[count++] = push->body;
    }
    add_pieces(out, pieces, count);
}

/* Appends ARGV[2] to [4]: the record of a new job without the creation time, and the rest. */
static void add_record(struct buf *out, const struct cmd_push *push, int64_t due_us, int64_t now_us)
{
    char record[RECORD_ROOM];
    size_t len;
    bool is_apart = push->content_type.len + push->body.len > JOB_INLINE_MAX;
    size_t made_at = put_fixed(record, push, due_us, now_us, is_apart, &len);
    len = put(record, len, push->topic);
    if (push->id.len)
        len = put(record, len, push->id);
    for (uint8_t i = 0; i < push->retry_count; i++, len += 8)
        put_u64(record + len, (uint64_t)script_span_in(push->retry_us[i]));
    if (!is_apart && push->content_type.len)
        len = put(record, len, push->content_type);
    script_add(out, bytes_of(record, made_at));
    size_t rest = made_at + SCRIPT_MADE_BYTES;
    struct bytes inlined = bytes_of(push->body.at, is_apart ? 0 : push->body.len);
    add_pair(out, bytes_of(record + rest, len - rest), inlined);
    add_apart(out, push, is_apart);
}

static size_t put_big_endian(char *room, size_t at, uint64_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        room[at + i] = (char)(number >> 8 * (bytes - 1 - i));
    return at + bytes;
}

/* Appends a job's place in a sorted set without the parts that the script adds: the number at its
 * end, and the arrival before that. */
static void add_place(struct buf *out, const struct cmd_push *push, int64_t due_us)
{
    char place[1 + TOPIC_NAME_MAX + 4 + 8];
    place[0] = (char)push->topic.len;
    size_t len = put(place, 1, push->topic);
    len = put_big_endian(place, len, push->priority, 4);
    if (push->order != ORDER_ARRIVAL)
        len = put_big_endian(place, len, (uint64_t)due_us, 8);
    script_add(out, bytes_of(place, len));
}

/* The same for its place while it is delayed. */
static void add_delayed_place(struct buf *out, const struct cmd_push *push, int64_t due_us)
{
    char place[2 + TOPIC_NAME_MAX + 8 + 4];
    place[0] = 'w';
    place[1] = (char)push->topic.len;
    size_t len = put(place, 2, push->topic);
    len = put_big_endian(place, len, (uint64_t)due_us, 8);
    len = put_big_endian(place, len, push->priority, 4);
    script_add(out, bytes_of(place, len));
}

/* Strings are made here where possible, because each one made by the script costs Redis time. */
enum { PAST_BYTES = 7 + 2 + 2, RESTORE_BYTES = 8 + 1 };

/* Writes the creation time and attempts of a job that is imported, and of a restored one which
 * restore it belongs to and whether the journal has it. Empty for a new job. */
static struct bytes put_past(char *room, const struct script_space *space,
                             const struct script_call *call, const struct cmd_push *push)
{
    size_t len = 0;
    if (push->created_us || push->reserves || push->failures) {
        int64_t created_us = push->created_us ? push->created_us : call->now_us;
        put_small(room, (uint64_t)script_time_in(space, call->partition, created_us), 7);
        put_u16(room + 7, push->reserves);
        put_u16(room + 9, push->failures);
        len = PAST_BYTES;
    }
    if (push->restore) {
        put_u64(room + len, push->restore);
        len += 8;
        if (push->written)
            room[len++] = '=';
    }
    return bytes_of(room, len);
}

/* The ninth argument is the order (one byte), then put_past(). */
bool script_pushes_restored(struct bytes request)
{
    return script_argument(request, 9).len % PAST_BYTES > 8;
}

static void ask_push(struct buf *out, const struct script_space *space,
                     const struct script_call *call, const struct cmd_push *push)
{
    static const char exists[] = {
        [IF_EXISTS_REJECT] = 'j', [IF_EXISTS_REPLACE] = 'p', [IF_EXISTS_KEEP] = 'k'};
    int64_t due_us = due_in(space, call, push->due_us);
    struct bytes order = push->order == ORDER_ARRIVAL ? BYTES("a") : BYTES("d");
    char past_room[PAST_BYTES + RESTORE_BYTES];
    struct bytes past = put_past(past_room, space, call, push);
    script_begin(out, space, call, SCRIPT_PUSH, 12);
    add_record(out, push, due_us, call->now_us);
    script_add_i64(out, due_us);
    add_place(out, push, due_us);
    add_pair(out, BYTES("#p"), push->topic);
    add_pair(out, push->id.len ? BYTES("i") : BYTES(""), push->id);
    add_pair(out, push->buried ? BYTES("b") : order, past);
    script_add(out, bytes_of(&exists[push->if_exists], 1));
    script_add_i64(out, space->jobs_max ? (int64_t)space->jobs_max : SCRIPT_FOREVER);
    script_add_i64(out, space->topics_max);
    add_delayed_place(out, push, due_us);
}

/* ---- one job ---- */

/* Appends ARGV[3] to [5]: the job, by id or by the eight bytes of its number, and the lease. */
static void add_ref(struct buf *out, const struct cmd_job *job)
{
    char name[8];
    script_add(out, job->ref.id);
    script_add(out, bytes_of(name, put_big_endian(name, 0, job->ref.seq, sizeof(name))));
    /* Leases above 2^53 - 1 were never given. SCRIPT_FOREVER was not either. */
    script_add_i64(out, job->lease <= SCRIPT_FOREVER ? (int64_t)job->lease : SCRIPT_FOREVER);
}

/* The operations of end.lua and change.lua. */
static const char letters[CMD_KINDS] = {
    [CMD_FINISH] = 'f',  [CMD_DELETE] = 'd', [CMD_RESERVE_JOB] = 'v',
    [CMD_RELEASE] = 'l', [CMD_TOUCH] = 't',  [CMD_BURY] = 'b',
    [CMD_KICK] = 'k',    [CMD_RUN] = 'r',    [CMD_RESCHEDULE] = 's',
};

bool script_asks_briefly(struct bytes request)
{
    struct bytes options = script_argument(request, 6);
    return options.len && options.at[options.len - 1] == 'b';
}

static void ask_end(struct buf *out, const struct script_space *space,
                    const struct script_call *call, const struct cmd *cmd)
{
    char options[3];
    size_t count = 0;
    if (cmd->job.is_done)
        options[count++] = 'd';
    if (cmd->job.if_free)
        options[count++] = 'f';
    if (cmd->job.brief)
        options[count++] = 'b';
    script_begin(out, space, call, SCRIPT_END, 5);
    script_add(out, bytes_of(&letters[cmd->kind], 1));
    add_ref(out, &cmd->job);
    script_add(out, bytes_of(options, count));
}

static void add_maybe(struct buf *out, bool given, int64_t number)
{
    if (given)
        script_add_i64(out, number);
    else
        script_add(out, (struct bytes){0});
}

static struct bytes change_options(const struct cmd *cmd)
{
    if (cmd->kind == CMD_RESERVE_JOB && cmd->job.bound)
        return BYTES("b");
    if (cmd->kind == CMD_RELEASE && cmd->job.why == RELEASE_UNDELIVERED)
        return BYTES("u");
    if (cmd->kind == CMD_RELEASE && cmd->job.why == RELEASE_ABANDONED)
        return BYTES("x");
    return (struct bytes){0};
}

static void ask_change(struct buf *out, const struct script_space *space,
                       const struct script_call *call, const struct cmd *cmd)
{
    const struct cmd_job *job = &cmd->job;
    bool has_due = (cmd->kind == CMD_RELEASE && job->has_delay) ||
                   ((cmd->kind == CMD_RESCHEDULE || cmd->kind == CMD_RUN) && job->has_due);
    bool has_priority = job->has_priority && (cmd->kind == CMD_RELEASE || cmd->kind == CMD_BURY ||
                                              cmd->kind == CMD_RESCHEDULE);
    bool has_body = cmd->kind == CMD_RESCHEDULE && job->has_body;
    bool has_note = job->note.len && cmd_keeps_note(cmd);
    script_begin(out, space, call, SCRIPT_CHANGE, has_body || has_note ? 10 : 9);
    script_add(out, bytes_of(&letters[cmd->kind], 1));
    add_ref(out, job);
    script_add(out, change_options(cmd));
    add_maybe(out, has_due, due_in(space, call, job->due_us));
    add_maybe(out, has_priority, job->priority);
    add_maybe(out, cmd->kind == CMD_TOUCH && job->has_ttr, script_span_in(job->ttr_us));
    char about[14]; /* in the format of record_of() in scripts/record.lua */
    if (has_note) {
        put_u16(about, job->note_code);
        script_add(out, bytes_of(about, 2));
        script_add(out, job->note);
        return;
    }
    if (!has_body) {
        script_add(out, (struct bytes){0});
        return;
    }
    put_u8(about, (uint8_t)job->body_kind);
    put_u8(about + 1, (uint8_t)job->content_type.len);
    put_u32(about + 2, (uint32_t)job->body.len);
    put_u64(about + 6, content_sum(job->content_type, job->body));
    script_add(out, bytes_of(about, sizeof(about)));
    add_pair(out, job->content_type, job->body);
}

static void ask_get(struct buf *out, const struct script_space *space,
                    const struct script_call *call, const struct cmd_job *job)
{
    script_begin(out, space, call, SCRIPT_GET, 4);
    script_add(out, (struct bytes){0}); /* ARGV[2] */
    add_ref(out, job);
}

void script_encode(struct buf *out, const struct script_space *space,
                   const struct script_call *call, const struct cmd *cmd)
{
    enum cmd_subject subject = cmd_traits(cmd->kind)->subject;
    bool configures = cmd->kind == CMD_CONFIGURE_TOPIC;
    /* script_route() allows no other */
    CHECK(subject == CMD_ON_NEW_JOB || subject == CMD_ON_JOB || configures);
    if (cmd->kind == CMD_PUSH)
        ask_push(out, space, call, &cmd->push);
    else if (configures)
        script_encode_configure(out, space, call, &cmd->topic);
    else if (cmd->kind == CMD_GET)
        ask_get(out, space, call, &cmd->job);
    else if (cmd->kind == CMD_FINISH || cmd->kind == CMD_DELETE)
        ask_end(out, space, call, cmd);
    else
        ask_change(out, space, call, cmd);
}
