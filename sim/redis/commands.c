#include "sim/redis/commands.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"

static const char WRONG_TYPE[] =
    "WRONGTYPE Operation against a key holding the wrong kind of value";
static const char NOT_INTEGER[] = "ERR value is not an integer or out of range";
static const char SYNTAX[] = "ERR syntax error";

/* ---- RESP ---- */

void resp_array(struct buf *out, size_t count)
{
    buf_add_char(out, '*');
    buf_add_u64(out, count);
    buf_add(out, "\r\n", 2);
}

void resp_bulk(struct buf *out, struct bytes bytes)
{
    buf_add_char(out, '$');
    buf_add_u64(out, bytes.len);
    buf_add(out, "\r\n", 2);
    buf_add_bytes(out, bytes);
    buf_add(out, "\r\n", 2);
}

void resp_nil(struct buf *out)
{
    buf_add_str(out, "$-1\r\n");
}

void resp_integer(struct buf *out, int64_t number)
{
    buf_add_char(out, ':');
    buf_add_i64(out, number);
    buf_add(out, "\r\n", 2);
}

void resp_error(struct buf *out, const char *text)
{
    buf_add_char(out, '-');
    buf_add_str(out, text);
    buf_add(out, "\r\n", 2);
}

void resp_ok(struct buf *out)
{
    buf_add_str(out, "+OK\r\n");
}

struct bytes double_text(double number, char room[DOUBLE_TEXT_BYTES])
{
    if (signbit(number) || !(number < 1e16) || number > (double)(uint64_t)number)
        return bytes_of(room, (size_t)snprintf(room, DOUBLE_TEXT_BYTES, "%.17g", number));
    char *at = room + DOUBLE_TEXT_BYTES;
    uint64_t whole = (uint64_t)number;
    do
        *--at = (char)('0' + whole % 10);
    while (whole /= 10);
    return bytes_of(at, (size_t)(room + DOUBLE_TEXT_BYTES - at));
}

void resp_double(struct buf *out, double number)
{
    char room[DOUBLE_TEXT_BYTES];
    resp_bulk(out, double_text(number, room));
}

/* ---- words ---- */

static struct bytes word(const struct command_run *run, uint32_t at)
{
    return run->words[at];
}

static bool is_word(const struct command_run *run, uint32_t at, const char *text)
{
    return bytes_eq_nocase(word(run, at), bytes_str(text));
}

enum { DIGITS_SAFE = 15 }; /* any number type holds so many digits exactly */

/* As Redis' string2ll: no spaces, no plus, no leading zeros. */
static bool read_integer(struct bytes text, int64_t *out_number)
{
    char room[32], again[32];
    uint64_t plain;
    if (text.len == 0 || text.len >= sizeof(room))
        return false;
    if (text.len <= DIGITS_SAFE && text.at[0] != '0' && bytes_to_u64(text, &plain)) {
        *out_number = (int64_t)plain;
        return true;
    }
    memcpy(room, text.at, text.len);
    room[text.len] = '\0';
    errno = 0;
    long long number = strtoll(room, NULL, 10);
    (void)snprintf(again, sizeof(again), "%lld", number);
    *out_number = number;
    return !errno && strcmp(room, again) == 0;
}

static bool read_double(struct bytes text, double *out_number)
{
    char room[128], *end;
    uint64_t plain;
    if (text.len == 0 || text.len >= sizeof(room) || text.at[0] == ' ')
        return false;
    if (text.len <= DIGITS_SAFE && bytes_to_u64(text, &plain)) {
        *out_number = (double)plain;
        return true;
    }
    memcpy(room, text.at, text.len);
    room[text.len] = '\0';
    *out_number = strtod(room, &end);
    return end == room + text.len && !isnan(*out_number);
}

/* Finds the command's key. False: it has another kind, and WRONGTYPE was answered. */
static bool key_of(struct command_run *run, enum value_kind kind, struct value **out_value)
{
    *out_value = keyspace_find(run->keys, run->db, word(run, 1));
    if (!*out_value || (*out_value)->kind == kind)
        return true;
    resp_error(run->out, WRONG_TYPE);
    return false;
}

static struct value *need_key(struct command_run *run, struct value *value, enum value_kind kind)
{
    return value ? value : keyspace_add(run->keys, run->db, word(run, 1), kind);
}

static void drop_if_empty(struct command_run *run, struct value *value)
{
    if (value && value->count == 0)
        keyspace_drop(run->keys, value);
}

/* ---- hashes ---- */

static void run_hset(struct command_run *run)
{
    struct value *value;
    int64_t added = 0;
    if (run->count % 2) {
        resp_error(run->out, "ERR wrong number of arguments for 'hset' command");
        return;
    }
    if (!key_of(run, VALUE_HASH, &value))
        return;
    value = need_key(run, value, VALUE_HASH);
    for (uint32_t i = 2; i < run->count; i += 2)
        added += hash_set(value, word(run, i), word(run, i + 1));
    run->dirty = true;
    resp_integer(run->out, added);
}

static void add_field(struct command_run *run, const struct value *value, struct bytes field)
{
    struct buf *content = value ? hash_get(value, field) : NULL;
    if (content)
        resp_bulk(run->out, buf_bytes(content));
    else
        resp_nil(run->out);
}

static void run_hget(struct command_run *run)
{
    struct value *value;
    if (key_of(run, VALUE_HASH, &value))
        add_field(run, value, word(run, 2));
}

static void run_hmget(struct command_run *run)
{
    struct value *value;
    if (!key_of(run, VALUE_HASH, &value))
        return;
    resp_array(run->out, run->count - 2);
    for (uint32_t i = 2; i < run->count; i++)
        add_field(run, value, word(run, i));
}

static void run_hgetall(struct command_run *run)
{
    struct value *value;
    if (!key_of(run, VALUE_HASH, &value))
        return;
    resp_array(run->out, value ? 2 * value->count : 0);
    for (size_t i = 0; value && i < value->count; i++) {
        resp_bulk(run->out, value->items[i].member);
        resp_bulk(run->out, buf_bytes(&value->items[i].value));
    }
}

/* The position of a field in the order of HSCAN. It depends on the field only, so a scan returns
   each field that exists from its begin to its end. Each server has its own order. */
static uint64_t scan_place(const struct command_run *run, struct bytes field)
{
    return (hash_seeded(field.at, field.len, run->keys->scan_order) >> 1) + 1;
}

static int compare_places(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return left[0] < right[0] ? -1 : left[0] > right[0];
}

/* A cursor is the position of the last field returned. */
static void run_hscan(struct command_run *run)
{
    struct value *value;
    uint64_t from = 0, most = 10;
    if (!bytes_to_u64(word(run, 2), &from) ||
        (run->count == 5 && !bytes_to_u64(word(run, 4), &most))) {
        resp_error(run->out, "ERR invalid cursor");
        return;
    }
    if (!key_of(run, VALUE_HASH, &value))
        return;
    uint64_t(*rows)[2] = mem_alloc(((value ? value->count : 0) + 1) * sizeof(*rows));
    size_t count = 0;
    for (size_t i = 0; value && i < value->count; i++) {
        rows[count][0] = scan_place(run, value->items[i].member);
        rows[count][1] = i;
        count += rows[count][0] > from;
    }
    qsort(rows, count, sizeof(*rows), compare_places);
    size_t shown = most < count ? (size_t)most : count;
    char cursor[24];
    uint64_t last = shown < count ? rows[shown - 1][0] : 0;
    int len = snprintf(cursor, sizeof(cursor), "%llu", (unsigned long long)last);
    resp_array(run->out, 2);
    resp_bulk(run->out, bytes_of(cursor, (size_t)len));
    resp_array(run->out, 2 * shown);
    for (size_t i = 0; i < shown; i++) {
        const struct value_item *item = &value->items[rows[i][1]];
        resp_bulk(run->out, item->member);
        resp_bulk(run->out, buf_bytes(&item->value));
    }
    mem_free(rows);
}

static void run_hdel(struct command_run *run)
{
    struct value *value;
    int64_t gone = 0;
    if (!key_of(run, VALUE_HASH, &value))
        return;
    for (uint32_t i = 2; value && i < run->count; i++)
        gone += hash_remove(value, word(run, i));
    drop_if_empty(run, value);
    run->dirty = gone > 0;
    resp_integer(run->out, gone);
}

static void run_hexists(struct command_run *run)
{
    struct value *value;
    if (key_of(run, VALUE_HASH, &value))
        resp_integer(run->out, value && hash_get(value, word(run, 2)));
}

static void run_hlen(struct command_run *run)
{
    struct value *value;
    if (key_of(run, VALUE_HASH, &value))
        resp_integer(run->out, value ? (int64_t)value->count : 0);
}

static void run_hincrby(struct command_run *run)
{
    struct value *value;
    int64_t add, number = 0, sum;
    char text[32];
    if (!read_integer(word(run, 3), &add)) {
        resp_error(run->out, NOT_INTEGER);
        return;
    }
    if (!key_of(run, VALUE_HASH, &value))
        return;
    struct buf *old = value ? hash_get(value, word(run, 2)) : NULL;
    if (old && !read_integer(buf_bytes(old), &number)) {
        resp_error(run->out, "ERR hash value is not an integer");
        return;
    }
    if (__builtin_add_overflow(number, add, &sum)) {
        resp_error(run->out, "ERR increment or decrement would overflow");
        return;
    }
    value = need_key(run, value, VALUE_HASH);
    int len = snprintf(text, sizeof(text), "%lld", (long long)sum);
    (void)hash_set(value, word(run, 2),
                   bytes_of(text, (size_t)len)); /* no matter whether it is new */
    run->dirty = true;
    resp_integer(run->out, sum);
}

/* ---- sorted sets ---- */

static void run_zadd(struct command_run *run)
{
    struct value *value;
    bool only_new = false, only_old = false, only_less = false;
    uint32_t from = 2;
    int64_t added = 0;
    double score;
    for (; from < run->count; from++) {
        if (is_word(run, from, "nx"))
            only_new = true;
        else if (is_word(run, from, "xx"))
            only_old = true;
        else if (is_word(run, from, "lt"))
            only_less = true;
        else
            break;
    }
    if ((run->count - from) % 2 || run->count == from) {
        resp_error(run->out, SYNTAX);
        return;
    }
    for (uint32_t i = from; i < run->count; i += 2) {
        if (!read_double(word(run, i), &score)) {
            resp_error(run->out, "ERR value is not a valid float");
            return;
        }
    }
    if (!key_of(run, VALUE_ZSET, &value))
        return;
    for (uint32_t i = from; i < run->count; i += 2) {
        size_t at = value ? zset_find(value, word(run, i + 1)) : SIZE_MAX;
        (void)read_double(word(run, i), &score); /* it was checked above */
        if ((only_new && at != SIZE_MAX) || (only_old && at == SIZE_MAX))
            continue;
        if (at != SIZE_MAX &&
            (only_less ? value->items[at].score <= score
                       : !(value->items[at].score < score || value->items[at].score > score)))
            continue;
        value = need_key(run, value, VALUE_ZSET);
        if (at == SIZE_MAX)
            zset_add(value, word(run, i + 1), score);
        else
            zset_move(value, at, score);
        added += at == SIZE_MAX;
        run->dirty = true;
    }
    resp_integer(run->out, added);
}

static void run_zrem(struct command_run *run)
{
    struct value *value;
    int64_t gone = 0;
    if (!key_of(run, VALUE_ZSET, &value))
        return;
    for (uint32_t i = 2; value && i < run->count; i++) {
        size_t at = zset_find(value, word(run, i));
        if (at == SIZE_MAX)
            continue;
        zset_remove_at(value, at);
        gone++;
    }
    drop_if_empty(run, value);
    run->dirty = gone > 0;
    resp_integer(run->out, gone);
}

static void add_score(struct command_run *run, const struct value *value, struct bytes member)
{
    size_t at = value ? zset_find(value, member) : SIZE_MAX;
    if (at == SIZE_MAX)
        resp_nil(run->out);
    else
        resp_double(run->out, value->items[at].score);
}

static void run_zscore(struct command_run *run)
{
    struct value *value;
    if (key_of(run, VALUE_ZSET, &value))
        add_score(run, value, word(run, 2));
}

static void run_zmscore(struct command_run *run)
{
    struct value *value;
    if (!key_of(run, VALUE_ZSET, &value))
        return;
    resp_array(run->out, run->count - 2);
    for (uint32_t i = 2; i < run->count; i++)
        add_score(run, value, word(run, i));
}

static void run_zcard(struct command_run *run)
{
    struct value *value;
    if (key_of(run, VALUE_ZSET, &value))
        resp_integer(run->out, value ? (int64_t)value->count : 0);
}

/* One end of a range, by score or by bytes. */
struct bound {
    double score;
    struct bytes member;
    int infinite; /* by bytes: -1 or +1, '-' or '+' */
    bool open;
};

static bool read_score_bound(struct bytes text, struct bound *out_bound)
{
    bool open = text.len && text.at[0] == '(';
    *out_bound = (struct bound){.open = open};
    return read_double(bytes_of(text.at + open, text.len - open), &out_bound->score);
}

static bool read_lex_bound(struct bytes text, struct bound *out_bound)
{
    *out_bound = (struct bound){0};
    if (bytes_eq(text, BYTES("-")) || bytes_eq(text, BYTES("+"))) {
        out_bound->infinite = text.at[0] == '-' ? -1 : 1;
        return true;
    }
    if (text.len == 0 || (text.at[0] != '[' && text.at[0] != '('))
        return false;
    out_bound->open = text.at[0] == '(';
    out_bound->member = bytes_of(text.at + 1, text.len - 1);
    return true;
}

/* Is the item before the lower bound (side -1), or behind the upper bound (1)? */
static bool outside(const struct value_item *item, const struct bound *bound, bool by_lex, int side)
{
    int order;
    if (by_lex && bound->infinite)
        return bound->infinite != side;
    if (by_lex)
        order = bytes_cmp(item->member, bound->member);
    else
        order = (item->score > bound->score) - (item->score < bound->score);
    return order == 0 ? bound->open : (order > 0) == (side > 0);
}

static bool read_bounds(struct command_run *run, bool by_lex, struct bound *low, struct bound *high)
{
    bool good = by_lex
                    ? read_lex_bound(word(run, 2), low) && read_lex_bound(word(run, 3), high)
                    : read_score_bound(word(run, 2), low) && read_score_bound(word(run, 3), high);
    if (!good)
        resp_error(run->out, by_lex ? "ERR min or max not valid string range item"
                                    : "ERR min or max is not a float");
    return good;
}

/* The first index that is not before `low`. By bytes, all scores must be equal. */
static size_t first_inside(const struct value *value, const struct bound *low, bool by_lex)
{
    size_t from = 0, to = value->count;
    while (from < to) {
        size_t middle = (from + to) / 2;
        if (outside(&value->items[middle], low, by_lex, -1))
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static void count_range(struct command_run *run, bool by_lex)
{
    struct value *value;
    struct bound low, high;
    int64_t count = 0;
    if (!read_bounds(run, by_lex, &low, &high) || !key_of(run, VALUE_ZSET, &value))
        return;
    for (size_t i = value ? first_inside(value, &low, by_lex) : 0; value && i < value->count; i++) {
        if (outside(&value->items[i], &high, by_lex, 1))
            break;
        count++;
    }
    resp_integer(run->out, count);
}

static void run_zremrangebylex(struct command_run *run)
{
    struct value *value;
    struct bound low, high;
    int64_t gone = 0;
    if (!read_bounds(run, true, &low, &high) || !key_of(run, VALUE_ZSET, &value))
        return;
    size_t at = value ? first_inside(value, &low, true) : 0;
    for (; value && at < value->count && !outside(&value->items[at], &high, true, 1); gone++)
        zset_remove_at(value, at);
    drop_if_empty(run, value);
    run->dirty = gone > 0;
    resp_integer(run->out, gone);
}

static void run_zcount(struct command_run *run)
{
    count_range(run, false);
}

static void run_zlexcount(struct command_run *run)
{
    count_range(run, true);
}

/* Reads LIMIT and WITHSCORES. False: an error was answered. */
static bool read_limit(struct command_run *run, int64_t *skip, int64_t *most, bool *scores)
{
    uint32_t at = 4;
    while (at < run->count) {
        if (scores && is_word(run, at, "withscores")) {
            *scores = true;
            at++;
        } else if (is_word(run, at, "limit") && at + 2 < run->count) {
            if (!read_integer(word(run, at + 1), skip) || !read_integer(word(run, at + 2), most)) {
                resp_error(run->out, NOT_INTEGER);
                return false;
            }
            at += 3;
        } else {
            resp_error(run->out, SYNTAX);
            return false;
        }
    }
    return true;
}

static void add_item(struct command_run *run, const struct value_item *item, bool scores)
{
    resp_bulk(run->out, item->member);
    if (scores)
        resp_double(run->out, item->score);
}

static void add_items(struct command_run *run, const struct value *value, size_t from, size_t to,
                      bool scores)
{
    resp_array(run->out, (to - from) * (scores ? 2 : 1));
    for (size_t i = from; i < to; i++)
        add_item(run, &value->items[i], scores);
}

static void show_range(struct command_run *run, bool by_lex)
{
    struct value *value;
    struct bound low, high;
    int64_t skip = 0, most = -1;
    bool scores = false;
    if (!read_limit(run, &skip, &most, by_lex ? NULL : &scores) ||
        !read_bounds(run, by_lex, &low, &high) || !key_of(run, VALUE_ZSET, &value))
        return;
    if (!value || skip < 0) {
        resp_array(run->out, 0);
        return;
    }
    size_t from = first_inside(value, &low, by_lex), to;
    from = (size_t)skip > value->count - from ? value->count : from + (size_t)skip;
    for (to = from; to < value->count && (most < 0 || to - from < (size_t)most); to++) {
        if (outside(&value->items[to], &high, by_lex, 1))
            break;
    }
    add_items(run, value, from, to, scores);
}

static void run_zrangebyscore(struct command_run *run)
{
    show_range(run, false);
}

/* A range from the highest down; its bounds are given in that order. */
static void reverse_range(struct command_run *run, bool lex)
{
    struct value *value;
    struct bound low, high;
    int64_t skip = 0, most = -1;
    bool scores = false;
    if (!read_limit(run, &skip, &most, &scores) || !read_bounds(run, lex, &high, &low) ||
        !key_of(run, VALUE_ZSET, &value))
        return;
    size_t from = value ? first_inside(value, &low, lex) : 0, to = value ? value->count : 0;
    while (to > from && outside(&value->items[to - 1], &high, lex, 1))
        to--;
    size_t count = skip < 0 || (size_t)skip >= to - from ? 0 : to - from - (size_t)skip;
    if (most >= 0 && (size_t)most < count)
        count = (size_t)most;
    resp_array(run->out, count * (scores ? 2 : 1));
    for (size_t i = 0; i < count; i++)
        add_item(run, &value->items[to - 1 - (size_t)skip - i], scores);
}

static void run_zrevrangebyscore(struct command_run *run)
{
    reverse_range(run, false);
}

static void run_zrangebylex(struct command_run *run)
{
    show_range(run, true);
}

/* From the highest member down. */
static void run_zrevrangebylex(struct command_run *run)
{
    reverse_range(run, true);
}

static void run_zrange(struct command_run *run)
{
    struct value *value;
    int64_t from, to;
    bool scores = run->count == 5 && is_word(run, 4, "withscores");
    if (run->count > 4 && !scores) {
        resp_error(run->out, SYNTAX);
        return;
    }
    if (!read_integer(word(run, 2), &from) || !read_integer(word(run, 3), &to)) {
        resp_error(run->out, NOT_INTEGER);
        return;
    }
    if (!key_of(run, VALUE_ZSET, &value))
        return;
    int64_t count = value ? (int64_t)value->count : 0;
    from = from < 0 ? from + count : from;
    from = from < 0 ? 0 : from;
    to = to < 0 ? to + count : to;
    to = to >= count ? count - 1 : to;
    if (from > to || from >= count)
        resp_array(run->out, 0);
    else
        add_items(run, value, (size_t)from, (size_t)to + 1, scores);
}

/* ---- others ---- */

static void run_time(struct command_run *run)
{
    char text[32];
    resp_array(run->out, 2);
    int len = snprintf(text, sizeof(text), "%lld", (long long)(run->now_us / 1000000));
    resp_bulk(run->out, bytes_of(text, (size_t)len));
    len = snprintf(text, sizeof(text), "%lld", (long long)(run->now_us % 1000000));
    resp_bulk(run->out, bytes_of(text, (size_t)len));
}

static void run_set(struct command_run *run)
{
    struct value *value = keyspace_find(run->keys, run->db, word(run, 1));
    if (value)
        keyspace_drop(run->keys, value);
    value = keyspace_add(run->keys, run->db, word(run, 1), VALUE_STRING);
    buf_add_bytes(&value->string, word(run, 2));
    run->dirty = true;
    resp_ok(run->out);
}

static void run_get(struct command_run *run)
{
    struct value *value;
    if (!key_of(run, VALUE_STRING, &value))
        return;
    if (value)
        resp_bulk(run->out, buf_bytes(&value->string));
    else
        resp_nil(run->out);
}

static void run_del(struct command_run *run)
{
    int64_t gone = 0;
    for (uint32_t i = 1; i < run->count; i++) {
        struct value *value = keyspace_find(run->keys, run->db, word(run, i));
        if (value)
            keyspace_drop(run->keys, value);
        gone += value != NULL;
    }
    run->dirty = gone > 0;
    resp_integer(run->out, gone);
}

static void run_exists(struct command_run *run)
{
    int64_t there = 0;
    for (uint32_t i = 1; i < run->count; i++)
        there += keyspace_find(run->keys, run->db, word(run, i)) != NULL;
    resp_integer(run->out, there);
}

static void run_rename(struct command_run *run)
{
    struct value *value = keyspace_find(run->keys, run->db, word(run, 1));
    struct value *other = keyspace_find(run->keys, run->db, word(run, 2));
    if (!value) {
        resp_error(run->out, "ERR no such key");
        return;
    }
    if (other && other != value)
        keyspace_drop(run->keys, other);
    if (other != value)
        keyspace_rename(run->keys, value, word(run, 2));
    run->dirty = true;
    resp_ok(run->out);
}

static void run_flushall(struct command_run *run)
{
    keyspace_clear(run->keys);
    run->dirty = true;
    resp_ok(run->out);
}

static const struct command *look_up(struct bytes name)
{
    enum { W = COMMAND_WRITE, M = COMMAND_DENY_OOM, L = COMMAND_LOADING };
    static const struct command all[] = {
        {"hget", 3, 0, 1, 1, run_hget},
        {"hset", -4, W | M, 1, 1, run_hset},
        {"hmget", -3, 0, 1, 1, run_hmget},
        {"hdel", -3, W, 1, 1, run_hdel},
        {"hincrby", 4, W | M, 1, 1, run_hincrby},
        {"hexists", 3, 0, 1, 1, run_hexists},
        {"hgetall", 2, 0, 1, 1, run_hgetall},
        {"hscan", -3, 0, 1, 1, run_hscan},
        {"hlen", 2, 0, 1, 1, run_hlen},
        {"zadd", -4, W | M, 1, 1, run_zadd},
        {"zrem", -3, W, 1, 1, run_zrem},
        {"zremrangebylex", 4, W, 1, 1, run_zremrangebylex},
        {"zscore", 3, 0, 1, 1, run_zscore},
        {"zmscore", -3, 0, 1, 1, run_zmscore},
        {"zcard", 2, 0, 1, 1, run_zcard},
        {"zcount", 4, 0, 1, 1, run_zcount},
        {"zlexcount", 4, 0, 1, 1, run_zlexcount},
        {"zrange", -4, 0, 1, 1, run_zrange},
        {"zrangebyscore", -4, 0, 1, 1, run_zrangebyscore},
        {"zrevrangebyscore", -4, 0, 1, 1, run_zrevrangebyscore},
        {"zrangebylex", -4, 0, 1, 1, run_zrangebylex},
        {"zrevrangebylex", -4, 0, 1, 1, run_zrevrangebylex},
        {"time", 1, L, 0, 0, run_time},
        {"set", 3, W | M, 1, 1, run_set},
        {"get", 2, 0, 1, 1, run_get},
        {"del", -2, W, 1, -1, run_del},
        {"rename", 3, W, 1, 2, run_rename},
        {"exists", -2, 0, 1, -1, run_exists},
        {"flushall", -1, W, 0, 0, run_flushall},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (bytes_eq_nocase(name, bytes_str(all[i].name)))
            return &all[i];
    }
    return NULL;
}

/* Replicas execute the same few commands again and again. */
const struct command *command_find(struct bytes name)
{
    enum { KEPT = 256 };
    static const struct command *kept[KEPT];
    const struct command **place = &kept[hash_of(name.at, name.len) % KEPT];
    if (!*place || !bytes_eq_nocase(name, bytes_str((*place)->name)))
        *place = look_up(name);
    return *place;
}
