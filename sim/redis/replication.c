/*
 * The log consists of entries: length (4 bytes), database (1), and words, each with its length (4).
 */
#include "base/check.h"
#include "base/codec.h"
#include "base/mem.h"
#include "sim/redis/server_parts.h"

enum { ENTRY_HEAD = 9, WORDS_MAX = 8192 };

static void add_u32(struct buf *out, uint32_t number)
{
    char room[4];
    put_u32(room, number);
    buf_add(out, room, sizeof(room));
}

void log_add(struct sim_redis *redis, unsigned db, const struct bytes *words, uint32_t count)
{
    size_t len = 0;
    for (uint32_t i = 0; i < count; i++)
        len += 4 + words[i].len;
    add_u32(&redis->log, (uint32_t)len);
    buf_add_char(&redis->log, (char)db);
    add_u32(&redis->log, count);
    for (uint32_t i = 0; i < count; i++) {
        add_u32(&redis->log, (uint32_t)words[i].len);
        buf_add_bytes(&redis->log, words[i]);
    }
}

static void add_mark(struct sim_redis *redis, struct log_mark mark)
{
    if (redis->mark_count == redis->mark_cap) {
        redis->mark_cap = redis->mark_cap ? 2 * redis->mark_cap : 64;
        redis->marks = mem_realloc(redis->marks, redis->mark_cap * sizeof(*redis->marks));
    }
    redis->marks[redis->mark_count++] = mark;
}

void log_mark(struct sim_redis *redis)
{
    size_t before = redis->mark_count ? redis->marks[redis->mark_count - 1].end : 0;
    if (redis->log.len != before)
        add_mark(redis, (struct log_mark){.end = redis->log.len, .at_us = redis->now_us});
}

/* ---- reading the log ---- */

static void apply_words(struct sim_redis *redis, unsigned db, const struct bytes *words,
                        uint32_t count, bool live)
{
    static struct buf nowhere;
    const struct command *command = command_find(words[0]);
    struct command_run run = {.keys = &redis->keys,
                              .db = db,
                              .now_us = redis->now_us,
                              .words = words,
                              .count = count,
                              .out = &nowhere};
    nowhere.len = 0;
    if (command)
        command->run(&run);
    else if (live &&
             bytes_eq_nocase(words[0],
                             BYTES("spublish"))) /* a sharded message; the count is not needed */
        (void)sim_redis_spublish(redis, words[1], words[2]);
    else if (live)
        (void)sim_redis_publish(redis, words[1], words[2]);
}

/* Executes the log's entries in [from, to). */
static void apply(struct sim_redis *redis, size_t from, size_t to, bool live)
{
    static struct bytes words[WORDS_MAX];
    size_t at = from;
    while (at < to) {
        const char *entry = redis->log.at + at;
        uint32_t len = get_u32(entry), count = get_u32(entry + 5);
        unsigned db = (unsigned char)entry[4];
        CHECK(count > 0 && count <= WORDS_MAX);
        const char *word = entry + ENTRY_HEAD;
        for (uint32_t i = 0; i < count; i++) {
            words[i] = bytes_of(word + 4, get_u32(word));
            word += 4 + words[i].len;
        }
        apply_words(redis, db, words, count, live);
        at += ENTRY_HEAD + len;
    }
    CHECK(at == to);
}

static size_t marked_end(const struct sim_redis *redis)
{
    return redis->mark_count ? redis->marks[redis->mark_count - 1].end : 0;
}

/* Drops the log behind the first `marks` marks, and rebuilds the keys from the rest. */
static void cut_log(struct sim_redis *redis, size_t marks)
{
    redis->mark_count = marks;
    redis->log.len = marked_end(redis);
    if (redis->saved > redis->log.len)
        redis->saved = redis->log.len;
    keyspace_clear(&redis->keys);
    apply(redis, 0, redis->log.len, false);
}

/* ---- replicas ---- */

/* The number of marks that both logs have in common. */
static size_t common_marks(const struct sim_redis *redis, const struct sim_redis *master)
{
    size_t common = 0;
    while (common < redis->mark_count && common < master->mark_count &&
           redis->marks[common].end == master->marks[common].end)
        common++;
    while (common > 0 && memcmp(redis->log.at, master->log.at, redis->marks[common - 1].end) != 0)
        common--;
    return common;
}

static void take_marks(struct sim_redis *redis, size_t upto)
{
    const struct sim_redis *master = redis->master;
    while (redis->mark_count < upto) {
        struct log_mark mark = master->marks[redis->mark_count];
        size_t from = marked_end(redis);
        buf_add(&redis->log, master->log.at + from, mark.end - from);
        add_mark(redis, mark);
        apply(redis, from, mark.end, true);
    }
}

void replica_take(struct sim_redis *redis)
{
    const struct sim_redis *master = redis->master;
    if (!master || redis->settings.lag_us == INT64_MAX)
        return;
    size_t upto = redis->mark_count;
    while (upto < master->mark_count &&
           master->marks[upto].at_us + redis->settings.lag_us <= redis->now_us)
        upto++;
    take_marks(redis, upto);
}

int64_t replica_next_us(const struct sim_redis *redis)
{
    const struct sim_redis *master = redis->master;
    if (!master || redis->settings.lag_us == INT64_MAX || redis->mark_count >= master->mark_count)
        return INT64_MAX;
    return master->marks[redis->mark_count].at_us + redis->settings.lag_us;
}

void sim_redis_catch_up(struct sim_redis *redis)
{
    if (redis->master)
        take_marks(redis, redis->master->mark_count);
}

int64_t replicas_with(const struct sim_redis *redis, size_t end)
{
    int64_t count = 0;
    for (unsigned i = 0; i < redis->replica_count; i++)
        count += marked_end(redis->replicas[i]) >= end;
    return count;
}

void replica_leave(struct sim_redis *redis)
{
    struct sim_redis *master = redis->master;
    for (unsigned i = 0; master && i < master->replica_count; i++) {
        if (master->replicas[i] == redis)
            master->replicas[i] = master->replicas[--master->replica_count];
    }
    redis->master = NULL;
}

static void close_all(struct sim_redis *redis)
{
    for (struct list *at = redis->conns.next; at != &redis->conns; at = at->next)
        LIST_ENTRY(at, struct sim_redis_conn, place)->closed = true;
}

void sim_redis_follow(struct sim_redis *redis, struct sim_redis *master)
{
    redis->promotions += redis->master && !master;
    replica_leave(redis);
    close_all(redis);
    if (!master)
        return;
    CHECK(master != redis && master->replica_count < SIM_REDIS_REPLICAS_MAX);
    while (master->master) /* it became a replica, too */
        master = master->master;
    CHECK(master != redis);
    master->replicas[master->replica_count++] = redis;
    redis->master = master;
    size_t common = common_marks(redis, master);
    if (common < redis->mark_count)
        cut_log(redis, common);
}

/* ---- saving and restarting ---- */

void sim_redis_save(struct sim_redis *redis)
{
    redis->saved = marked_end(redis);
}

void sim_redis_restart(struct sim_redis *redis, enum sim_redis_kept kept)
{
    size_t marks = redis->mark_count;
    redis->starts++;
    redis->keys.scan_order += UINT16_MAX + 1U;
    close_all(redis);
    memset(redis->known, 0, sizeof(redis->known));
    if (kept == SIM_REDIS_KEEPS_NOTHING)
        marks = 0;
    while (kept == SIM_REDIS_KEEPS_SAVED && marks > 0 && redis->marks[marks - 1].end > redis->saved)
        marks--;
    cut_log(redis, marks);
    /* Its replicas drop what it has lost. */
    for (unsigned i = 0; i < redis->replica_count; i++) {
        struct sim_redis *replica = redis->replicas[i];
        size_t common = common_marks(replica, redis);
        if (common < replica->mark_count)
            cut_log(replica, common);
    }
}
