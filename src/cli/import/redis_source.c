#include "cli/import/redis_source.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>

#include "base/hash.h"
#include "cli/text.h"

enum {
    PAGE = 1000,   /* elements requested at once */
    SAID_MAX = 10, /* of what cannot be used; the rest is only counted */
    WORDS = 5,     /* of a command, at most */
};

#define PAGE_TEXT "1000"

/* Where an id stands. */
struct place {
    struct bytes id;
    int64_t bucket_us; /* the earliest; INT64_MAX: in no bucket */
    uint64_t ready;    /* from 1, its turn in the ready lists; 0: in none */
    uint32_t pool;     /* from 1, the one that its job was read from; 0: it was not yet */
};

struct source_key {
    struct bytes name;
    enum redis_role role;
};

static bool has_id(const void *ctx, uint32_t number, const void *key)
{
    const struct place *place = pool_at(ctx, number);
    return bytes_eq(place->id, *(const struct bytes *)key);
}

/* The place of an id that lives as long as the source. */
static struct place *place_of(struct redis_source *source, struct bytes id)
{
    uint64_t hash = hash_of(id.at, id.len);
    uint32_t number = map_find(&source->by_id, hash, &id);
    if (number == MAP_NONE) {
        number = pool_take(&source->places);
        struct place *place = pool_at(&source->places, number);
        place->id = arena_copy(&source->arena, id);
        place->bucket_us = INT64_MAX;
        map_add(&source->by_id, hash, number);
    }
    return pool_at(&source->places, number);
}

/* Names what cannot be used, the first ones of it. */
static void print_line(struct redis_source *source, const char *what, struct bytes name,
                       const char *why)
{
    uint64_t count = source->foreign + source->broken;
    struct buf line = {0};
    if (count > SAID_MAX + 1)
        return;
    if (count == SAID_MAX + 1) {
        source->print_line(source->ctx, "… and more of them: the end has the counts");
        return;
    }
    buf_addf(&line, "%s ", what);
    text_add_safe(&line, bytes_of(name.at, name.len < 200 ? name.len : 200));
    buf_addf(&line, ": %s", why);
    buf_add_char(&line, '\0');
    source->print_line(source->ctx, line.at);
    buf_fini(&line);
}

static void report_foreign(struct redis_source *source, struct bytes key, const char *why)
{
    source->foreign++;
    print_line(source, "key", key, why);
}

static void report_broken(struct redis_source *source, const char *what, struct bytes name,
                          const char *why)
{
    source->broken++;
    print_line(source, what, name, why);
}

/* ---- asking ---- */

static enum err fail(struct redis_source *source, const char *why)
{
    (void)snprintf(source->error, sizeof(source->error), "%s", why);
    return ERR_IO;
}

static struct bytes text_of(const redisReply *reply)
{
    bool text = reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS ||
                reply->type == REDIS_REPLY_ERROR;
    return text ? bytes_of(reply->str, (size_t)reply->len) : BYTES("");
}

static void append(struct redis_source *source, const struct bytes *words, int count)
{
    const char *at[WORDS];
    size_t len[WORDS];
    for (int i = 0; i < count; i++) {
        at[i] = words[i].at;
        len[i] = words[i].len;
    }
    (void)redisAppendCommandArgv(source->redis, count, at, len); /* the reply has the error */
}

/* The next answer, to be freed. An error answer of Redis is ERR_IO, unless `errors_pass`. */
static enum err receive(struct redis_source *source, bool errors_pass, redisReply **out_reply)
{
    void *reply = NULL;
    if (redisGetReply(source->redis, &reply) != REDIS_OK)
        return fail(source, source->redis->err == REDIS_ERR_IO && errno == EAGAIN
                                ? "no answer in time"
                                : source->redis->errstr);
    redisReply *answer = reply;
    if (answer->type == REDIS_REPLY_ERROR && !errors_pass) {
        enum err err = fail(source, answer->str);
        freeReplyObject(reply);
        return err;
    }
    *out_reply = answer;
    return OK;
}

static enum err ask(struct redis_source *source, const struct bytes *words, int count,
                    redisReply **out_reply)
{
    append(source, words, count);
    return receive(source, false, out_reply);
}

/* ---- going through many things ---- */

typedef enum err page_fn(struct redis_source *source, const redisReply *page);

/* SCAN (of no key), HSCAN or ZSCAN from the beginning to the end, a page at a time. */
static enum err scan(struct redis_source *source, struct bytes command, const struct bytes *key,
                     page_fn *look)
{
    char cursor[32] = "0";
    enum err err;
    do {
        struct bytes words[WORDS] = {command};
        int count = 1;
        redisReply *reply;
        if (key)
            words[count++] = *key;
        words[count++] = bytes_str(cursor);
        words[count++] = BYTES("COUNT");
        words[count++] = BYTES(PAGE_TEXT);
        err = ask(source, words, count, &reply);
        if (err)
            return err;
        if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
            reply->element[1]->type != REDIS_REPLY_ARRAY ||
            text_of(reply->element[0]).len >= sizeof(cursor))
            err = fail(source, "this is not how a Redis answers SCAN");
        else
            err = look(source, reply->element[1]);
        if (!err)
            (void)snprintf(cursor, sizeof(cursor), "%s", reply->element[0]->str); /* it fits */
        freeReplyObject(reply);
    } while (!err && strcmp(cursor, "0") != 0);
    return err;
}

static enum redis_type type_of(struct bytes name)
{
    return bytes_eq(name, BYTES("string")) ? TYPE_STRING
           : bytes_eq(name, BYTES("list")) ? TYPE_LIST
           : bytes_eq(name, BYTES("zset")) ? TYPE_ZSET
           : bytes_eq(name, BYTES("hash")) ? TYPE_HASH
                                           : TYPE_OTHER;
}

static void note_key(struct redis_source *source, struct bytes name, struct bytes type)
{
    if (bytes_eq(type, BYTES("none")))
        return; /* it went away after SCAN showed it */
    enum redis_role role = redis_role_of(&source->names, name, type_of(type));
    switch (role) {
    case ROLE_FOREIGN: report_foreign(source, name, "not of this layout"); break;
    case ROLE_JOB:
    case ROLE_LOCK: break;
    case ROLE_POOL:
    case ROLE_BUCKET:
    case ROLE_READY: {
        struct source_key *key = pool_at(&source->keys, pool_take(&source->keys));
        key->name = arena_copy(&source->arena, name);
        key->role = role;
        source->found++;
    }
    }
}

static enum err scan_keys(struct redis_source *source, const redisReply *page)
{
    enum err err = OK;
    for (size_t i = 0; i < page->elements; i++)
        append(source, (struct bytes[]){BYTES("TYPE"), text_of(page->element[i])}, 2);
    for (size_t i = 0; i < page->elements && !err; i++) {
        redisReply *type;
        err = receive(source, false, &type);
        if (err)
            break;
        note_key(source, text_of(page->element[i]), text_of(type));
        freeReplyObject(type);
    }
    return err;
}

static enum err read_bucket(struct redis_source *source, const redisReply *page)
{
    for (size_t i = 0; i + 1 < page->elements; i += 2) {
        struct bytes member = text_of(page->element[i]), id;
        int64_t us;
        if (redis_member_id(source->names.layout, member, &source->scratch, &id)) {
            report_broken(source, "bucket entry", member, "it is no id");
        } else if (redis_score_us(source->names.layout, text_of(page->element[i + 1]), &us)) {
            report_broken(source, "bucket entry", member, "its time is out of range");
        } else {
            struct place *place = place_of(source, id);
            place->bucket_us = us < place->bucket_us ? us : place->bucket_us;
        }
    }
    arena_reset(&source->scratch);
    return OK;
}

static enum err read_list(struct redis_source *source, struct bytes key)
{
    size_t got = PAGE;
    for (uint64_t start = 0; got == PAGE; start += PAGE) {
        char from[24], to[24];
        redisReply *page;
        (void)snprintf(from, sizeof(from), "%llu", (unsigned long long)start);
        (void)snprintf(to, sizeof(to), "%llu", (unsigned long long)(start + PAGE - 1));
        struct bytes words[] = {BYTES("LRANGE"), key, bytes_str(from), bytes_str(to)};
        enum err err = ask(source, words, 4, &page);
        if (err)
            return err;
        got = page->elements;
        for (size_t i = 0; i < got; i++) {
            struct bytes member = text_of(page->element[i]), id;
            if (redis_member_id(source->names.layout, member, &source->scratch, &id)) {
                report_broken(source, "entry of a ready list", member, "it is no id");
                continue;
            }
            struct place *place = place_of(source, id);
            if (place->ready == 0)
                place->ready = ++source->ready_count;
        }
        arena_reset(&source->scratch);
        freeReplyObject(page);
    }
    return OK;
}

enum err redis_source_survey(struct redis_source *source)
{
    enum err err = scan(source, BYTES("SCAN"), NULL, scan_keys);
    for (uint32_t i = pool_next(&source->keys, 0); i != POOL_NONE && !err;
         i = pool_next(&source->keys, i + 1)) {
        const struct source_key *key = pool_at(&source->keys, i);
        if (key->role == ROLE_BUCKET)
            err = scan(source, BYTES("ZSCAN"), &key->name, read_bucket);
        else if (key->role == ROLE_READY)
            err = read_list(source, key->name);
    }
    return err;
}

/* ---- jobs ---- */

/*
 * A bucket's entry that is due is compared with the job's own time, and the later of the two
 * counts. Ready jobs are due now, a microsecond apart, so that they stay in their lists' order.
 */
static enum redis_place settle(const struct redis_source *source, const struct place *place,
                               struct redis_job *job)
{
    if (place->ready) {
        job->due_us = source->now_us - (int64_t)(source->ready_count - place->ready);
        return PLACE_READY;
    }
    if (place->bucket_us == INT64_MAX)
        return PLACE_STRAY;
    bool popped = place->bucket_us > job->due_us;
    job->due_us = popped ? place->bucket_us : job->due_us;
    if (job->due_us <= source->now_us)
        return PLACE_READY;
    return popped ? PLACE_RESERVED : PLACE_DELAYED;
}

/* `field` names it for people; it may be written differently than its id. */
static enum err take_value(struct redis_source *source, struct bytes field, struct bytes value)
{
    enum redis_layout layout = source->names.layout;
    struct redis_job job;
    struct bytes id;
    const char *why = "its name is no id";
    enum err err = redis_member_id(layout, field, &source->scratch, &id);
    if (!err)
        err = redis_job_read(layout, id, value, &source->scratch, &job, &why);
    if (err == ERR_INVALID) {
        report_foreign(source, field, "not of this layout");
        return OK;
    }
    if (err) {
        report_broken(source, "job", field, why);
        return OK;
    }
    struct place *place = place_of(source, id);
    if (place->pool && place->pool != source->pool)
        report_broken(source, "job", field, "its id is in two pools; the first is taken");
    if (place->pool)
        return OK; /* SCAN may show a key twice */
    place->pool = source->pool;
    if (job.finished) {
        source->finished++;
        return OK;
    }
    enum redis_place where = settle(source, place, &job);
    return source->job(source->ctx, &job, where);
}

static enum err read_pool(struct redis_source *source, const redisReply *page)
{
    enum err err = OK;
    for (size_t i = 0; i + 1 < page->elements && !err; i += 2) {
        err = take_value(source, text_of(page->element[i]), text_of(page->element[i + 1]));
        arena_reset(&source->scratch);
    }
    return err;
}

/* Reads all keys as strings, because their types are not known; Redis refuses the others. */
static enum err read_strings(struct redis_source *source, const redisReply *page)
{
    enum err err = OK;
    for (size_t i = 0; i < page->elements; i++)
        append(source, (struct bytes[]){BYTES("GET"), text_of(page->element[i])}, 2);
    for (size_t i = 0; i < page->elements && !err; i++) {
        redisReply *value;
        err = receive(source, true, &value);
        if (err)
            break;
        if (value->type == REDIS_REPLY_STRING)
            err = take_value(source, text_of(page->element[i]), text_of(value));
        else if (value->type == REDIS_REPLY_ERROR &&
                 !bytes_starts(text_of(value), BYTES("WRONGTYPE")))
            err = fail(source, value->str);
        freeReplyObject(value);
        arena_reset(&source->scratch);
    }
    return err;
}

/* Was the pool gone through? SCAN may have shown its key twice, and then each of its jobs would
 * seem to be in two. There are few pools. */
static bool is_read(const struct redis_source *source, uint32_t number)
{
    const struct source_key *key = pool_at(&source->keys, number);
    for (uint32_t i = pool_next(&source->keys, 0); i < number;
         i = pool_next(&source->keys, i + 1)) {
        const struct source_key *before = pool_at(&source->keys, i);
        if (before->role == ROLE_POOL && bytes_eq(before->name, key->name))
            return true;
    }
    return false;
}

enum err redis_source_read(struct redis_source *source)
{
    enum err err = OK;
    source->pool = 1;
    if (source->names.layout == LAYOUT_DELAY_QUEUE)
        err = scan(source, BYTES("SCAN"), NULL, read_strings);
    for (uint32_t i = pool_next(&source->keys, 0); i != POOL_NONE && !err;
         i = pool_next(&source->keys, i + 1)) {
        const struct source_key *key = pool_at(&source->keys, i);
        source->pool = i + 1;
        if (key->role == ROLE_POOL && !is_read(source, i))
            err = scan(source, BYTES("HSCAN"), &key->name, read_pool);
    }
    for (uint32_t i = pool_next(&source->places, 0); i != POOL_NONE && !err;
         i = pool_next(&source->places, i + 1)) {
        const struct place *place = pool_at(&source->places, i);
        source->gone += place->pool == 0;
    }
    return err;
}

/* ---- the connection ---- */

static enum err send_hello(struct redis_source *source, const struct redis_url *url)
{
    char db[16];
    redisReply *reply;
    enum err err = OK;
    struct bytes auth[] = {BYTES("AUTH"), bytes_str(url->user), bytes_str(url->password)};
    if (url->password[0] && url->user[0])
        err = ask(source, auth, 3, &reply);
    else if (url->password[0])
        err = ask(source, (struct bytes[]){auth[0], auth[2]}, 2, &reply);
    if (err)
        return err;
    if (url->password[0])
        freeReplyObject(reply);
    (void)snprintf(db, sizeof(db), "%u", url->db); /* it fits */
    err = ask(source, (struct bytes[]){BYTES("SELECT"), bytes_str(db)}, 2, &reply);
    if (!err)
        freeReplyObject(reply);
    return err;
}

enum err redis_source_open(struct redis_source *source, const struct redis_url *url,
                           int64_t timeout_us)
{
    const struct redis_address *address = &url->addresses[0];
    struct timeval timeout = {.tv_sec = timeout_us / 1000000, .tv_usec = timeout_us % 1000000};
    pool_init(&source->places, sizeof(struct place));
    pool_init(&source->keys, sizeof(struct source_key));
    map_init(&source->by_id, has_id, &source->places);
    source->redis = address->host[0] == '/'
                        ? redisConnectUnixWithTimeout(address->host, timeout)
                        : redisConnectWithTimeout(address->host, address->port, timeout);
    if (!source->redis || source->redis->err)
        return fail(source, source->redis ? source->redis->errstr : "no memory");
    if (redisSetTimeout(source->redis, timeout) != REDIS_OK)
        return fail(source, source->redis->errstr);
    return send_hello(source, url);
}

void redis_source_close(struct redis_source *source)
{
    if (source->redis)
        redisFree(source->redis);
    source->redis = NULL;
    map_fini(&source->by_id);
    pool_fini(&source->places);
    pool_fini(&source->keys);
    arena_fini(&source->arena);
    arena_fini(&source->scratch);
}
