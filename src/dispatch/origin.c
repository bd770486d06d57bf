#include "dispatch/origin.h"

#include <xxhash.h>

#include "base/check.h"
#include "base/mem.h"

enum { SLOT_LEAST_US = 50000, TOOK_LEAST_US = 1000, TOOK_FIRST_US = 100000 };
#define SLOT_MOST_US INT64_C(3600000000)
/* How far slots may be ahead if they are estimated from past deliveries, which may be outdated. */
#define SLOT_GUESSED_MOST_US INT64_C(60000000)

static bool name_is(const void *ctx, uint32_t number, const void *key)
{
    const struct origin *origin = pool_at(ctx, number);
    return bytes_eq(bytes_of(origin->name, origin->name_len), *(const struct bytes *)key);
}

void origins_init(struct origins *origins, uint64_t hash_key)
{
    *origins = (struct origins){.hash_key = hash_key};
    pool_init(&origins->pool, sizeof(struct origin));
    map_init(&origins->by_name, name_is, &origins->pool);
    list_init(&origins->idle);
}

static void origin_free(struct origins *origins, struct origin *origin)
{
    CHECK(origin->users == 0 && list_empty(&origin->blocked));
    list_remove(&origin->idle);
    origins->idle_count--;
    map_remove(&origins->by_name, origin->hash, origin->number);
    mem_free(origin->name);
    pool_give(&origins->pool, origin->number);
}

void origins_fini(struct origins *origins)
{
    while (!list_empty(&origins->idle))
        origin_free(origins, LIST_ENTRY(origins->idle.next, struct origin, idle));
    map_fini(&origins->by_name);
    pool_fini(&origins->pool);
}

/* ---- names ---- */

static void add_lower(struct buf *out, struct bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        buf_add_char(out, c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c);
    }
}

/* The part between "//" and the path, without user and password. */
static struct bytes authority_of(struct bytes url, struct bytes *out_scheme)
{
    size_t colon = 0, end, from;
    while (colon < url.len && url.at[colon] != ':')
        colon++;
    *out_scheme = bytes_of(url.at, colon);
    if (colon + 3 > url.len || url.at[colon + 1] != '/' || url.at[colon + 2] != '/')
        return bytes_of(url.at, 0);
    from = end = colon + 3;
    for (; end < url.len && !strchr("/?#\\", url.at[end]); end++) {
        if (url.at[end] == '@')
            from = end + 1;
    }
    return bytes_of(url.at + from, end - from);
}

static bool has_port(struct bytes authority)
{
    for (size_t i = authority.len; i > 0 && authority.at[i - 1] != ']'; i--) {
        if (authority.at[i - 1] == ':')
            return true;
    }
    return false;
}

static bool http_name(const struct target *target, struct bytes url, struct buf *out_name)
{
    struct bytes scheme;
    if (target->http.unix_socket.len) {
        buf_add_str(out_name, "unix:");
        buf_add_bytes(out_name, target->http.unix_socket);
        return true;
    }
    struct bytes authority = authority_of(url, &scheme);
    if (!authority.len)
        return false;
    add_lower(out_name, scheme);
    buf_add_str(out_name, "://");
    add_lower(out_name, authority);
    if (!has_port(authority))
        buf_add_str(out_name, bytes_eq_nocase(scheme, BYTES("https")) ? ":443" : ":80");
    return true;
}

/* The name gets into the log, between quotation marks. */
static void add_safe(struct buf *out, struct bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        buf_add_char(out, (unsigned char)c < ' ' || c == '"' || c == '\\' ? '?' : c);
    }
}

/* With {topic} filled in. */
static void add_place(struct buf *out, struct bytes place, struct bytes topic)
{
    static const char word[] = "{topic}";
    size_t from = 0, at = 0, len = sizeof(word) - 1;
    while (at < place.len) {
        bool fill = at + len <= place.len && memcmp(place.at + at, word, len) == 0;
        if (fill) {
            add_safe(out, bytes_of(place.at + from, at - from));
            add_safe(out, topic);
            from = at + len;
        }
        at += fill ? len : 1;
    }
    if (from < at)
        add_safe(out, bytes_of(place.at + from, at - from));
}

static void broker_name(const struct target *target, struct bytes topic, struct buf *out_name)
{
    buf_add_str(out_name, target_type_name(target->type));
    buf_add_char(out_name, ':');
    buf_add_bytes(out_name, target->broker);
    buf_add_char(out_name, '/');
    switch (target->type) {
    case TARGET_AMQP:
        add_place(out_name, target->amqp.exchange, topic);
        buf_add_char(out_name, '/');
        add_place(out_name, target->amqp.routing_key, topic);
        break;
    case TARGET_KAFKA:
        add_place(out_name, target->kafka.topic, topic);
        if (target->kafka.has_partition)
            buf_addf(out_name, "/%d", (int)target->kafka.partition);
        break;
    case TARGET_NATS: add_place(out_name, target->nats.subject, topic); break;
    case TARGET_REDIS: add_place(out_name, target->redis.key, topic); break;
    case TARGET_NONE:
    case TARGET_HTTP:
    case TARGET_TYPES: break;
    }
}

bool origin_name(const struct target *target, struct bytes topic, struct bytes url,
                 struct buf *out_name)
{
    if (target->type == TARGET_HTTP)
        return http_name(target, url, out_name);
    broker_name(target, topic, out_name);
    return true;
}

/* ---- users ---- */

struct origin *origins_take(struct origins *origins, struct bytes name)
{
    uint64_t hash = XXH3_64bits_withSeed(name.at, name.len, origins->hash_key);
    uint32_t number = map_find(&origins->by_name, hash, &name);
    struct origin *origin;
    if (number != MAP_NONE) {
        origin = pool_at(&origins->pool, number);
        if (origin->users++ == 0) {
            list_remove(&origin->idle);
            origins->idle_count--;
        }
        return origin;
    }
    number = pool_take(&origins->pool);
    origin = pool_at(&origins->pool, number);
    origin->number = number;
    origin->users = 1;
    origin->hash = hash;
    origin->name = mem_alloc(name.len + 1);
    memcpy(origin->name, name.at, name.len);
    origin->name_len = name.len;
    origin->took_us = TOOK_FIRST_US;
    list_init(&origin->blocked);
    list_init(&origin->idle);
    map_add(&origins->by_name, hash, number);
    return origin;
}

/* True: the origin limits nothing now: a new one would allow no more. */
static bool is_as_new(struct origin *origin, int64_t now_us)
{
    bucket_fill(&origin->bucket, now_us);
    return origin->bucket.filled >= origin->bucket.full && origin->breaker.failures == 0 &&
           origin->hold_us <= now_us;
}

void origins_give(struct origins *origins, struct origin *origin, int64_t now_us)
{
    if (!origin)
        return;
    CHECK(origin->users > 0);
    if (--origin->users > 0)
        return;
    CHECK(origin->in_flight == 0 && !timer_is_armed(&origin->timer));
    list_add_tail(&origins->idle, &origin->idle);
    origins->idle_count++;
    while (origins->idle_count > ORIGINS_IDLE) {
        struct origin *oldest = LIST_ENTRY(origins->idle.next, struct origin, idle);
        if (origins->idle_count <= ORIGINS_IDLE_MOST && !is_as_new(oldest, now_us))
            break;
        origin_free(origins, oldest);
    }
}

/* ---- credit ---- */

uint32_t origin_credit(struct origin *origin, int64_t now_us)
{
    if (now_us < origin->hold_us)
        return 0;
    uint32_t tokens = bucket_tokens(&origin->bucket, now_us);
    uint32_t places = breaker_admits(&origin->breaker, now_us, origin->in_flight, origin->most);
    return tokens < places ? tokens : places;
}

void origin_sent(struct origin *origin)
{
    origin->in_flight++;
    bucket_take(&origin->bucket);
}

void origin_ended(struct origin *origin)
{
    CHECK(origin->in_flight > 0);
    origin->in_flight--;
}

int64_t origin_until_us(const struct origin *origin)
{
    int64_t until_us = breaker_is_open(&origin->breaker) ? origin->breaker.until_us : 0;
    if (origin->bucket.count && bucket_next_us(&origin->bucket) > until_us)
        until_us = bucket_next_us(&origin->bucket);
    return until_us > origin->hold_us ? until_us : origin->hold_us;
}

void origin_limit(struct origin *origin, uint32_t most, uint32_t rate_count, int64_t rate_us,
                  int64_t now_us)
{
    if (origin->most != most)
        origin->slot_us = 0; /* slots given by the old limit do not count */
    origin->most = most;
    bucket_limit(&origin->bucket, rate_count, rate_us, 0, now_us);
}

int64_t origin_slot(struct origin *origin, int64_t now_us)
{
    int64_t apart_us = origin->took_us / (origin->most ? origin->most : 1);
    int64_t most_us = SLOT_GUESSED_MOST_US;
    if (origin->bucket.count && apart_us <= origin->bucket.per_us / origin->bucket.count) {
        apart_us = origin->bucket.per_us / origin->bucket.count;
        most_us = SLOT_MOST_US; /* a rate is exact, no estimate */
    }
    if (apart_us < TOOK_LEAST_US)
        apart_us = TOOK_LEAST_US;
    if (apart_us > most_us)
        apart_us = most_us;
    int64_t least_us = now_us + SLOT_LEAST_US;
    if (origin_until_us(origin) > least_us)
        least_us = origin_until_us(origin);
    origin->slot_us += apart_us;
    if (origin->slot_us < least_us)
        origin->slot_us = least_us;
    if (origin->slot_us > least_us + most_us) /* start at the front again: not all at the end */
        origin->slot_us = least_us + apart_us;
    return origin->slot_us;
}

enum breaker_change origin_outcome(struct origin *origin, bool unhealthy, int64_t now_us,
                                   uint32_t failures_max)
{
    enum breaker_change change = breaker_outcome(&origin->breaker, unhealthy, now_us, failures_max);
    if (change == BREAKER_CLOSED) {
        origin->slot_us = 0;
        origin->took_us = TOOK_FIRST_US;
    }
    return change;
}

void origin_took(struct origin *origin, int64_t took_us)
{
    if (took_us < TOOK_LEAST_US)
        took_us = TOOK_LEAST_US;
    origin->took_us += (took_us - origin->took_us) / 8;
}
