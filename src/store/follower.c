/*
 * Batches are read from the log's write buffers while they are there. Else a window of the
 * segment's file is read: at once if it is in the page cache, else by the disk's threads, for one
 * follower at a time. Large batches are read by these threads, wherever they are.
 */
#include "store/follower.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/internal.h"
#include "store/record.h"

enum { WINDOW_BYTES = 256 * 1024 };

/* Bytes of a segment's file. Zeroed: there are none. */
struct window {
    char *bytes;
    size_t cap, len; /* so many were asked for, and were there */
    uint32_t segment;
    uint64_t start;   /* the first one's offset */
    uint64_t synced;  /* they are as they were when batches up to this one were durable */
    uint64_t checked; /* the large batch that the window begins with; 0: it has none */
    bool whole;       /* … and its checksum matches */
};

struct follower {
    struct followers *followers;
    char name[FOLLOWER_NAME_MAX]; /* empty: this entry is free */
    enum follower_state state;
    uint64_t cursor;
    uint64_t read;   /* it has received all batches up to this one */
    uint32_t number; /* of the segment with the next batch; 0: not found yet … */
    uint64_t offset; /* … its offset … */
    uint64_t batch;  /* … and its number, or a lower one during the search */
    struct window window;
    enum err read_err; /* of the last cold read */
};

struct followers {
    struct store *store;
    struct follower each[FOLLOWERS_MAX];
    struct follower
        *reader; /* the follower whose read is under way; NULL: none, or it was removed */
    bool reading;
    struct disk_op op;
    struct window window;   /* being read; only the read uses it until it has ended */
    struct batch_head head; /* of the large batch that it will begin with, … */
    uint64_t key;           /* … of a segment with this key */
    uint64_t dropped;
    uint64_t looks; /* segments that were examined to find one: for tests */
};

static void window_fini(struct window *window)
{
    mem_free(window->bytes);
    *window = (struct window){.bytes = NULL};
}

static bool in_use(const struct follower *follower)
{
    return follower->name[0] != '\0';
}

static bool needs(const struct follower *follower, uint64_t batch)
{
    return in_use(follower) && follower->state == FOLLOWER_READS && follower->cursor < batch;
}

/* ---- reads of the disk ---- */

/* Ends the read, with or without success. */
static void end_read(struct followers *followers, enum err err)
{
    struct follower *follower = followers->reader;
    followers->reader = NULL;
    if (follower)
        follower->read_err = err == ERR_NOT_FOUND ? ERR_IO : err;
    if (follower && !err) {
        window_fini(&follower->window);
        follower->window = followers->window;
        followers->window = (struct window){.bytes = NULL};
    }
    window_fini(&followers->window);
}

static void read_ended(struct disk_op *op)
{
    struct followers *followers = op->owner;
    struct segments *segments = followers->store->segments;
    struct segment *segment = segments_find(segments, followers->window.segment);
    CHECK(followers->reading && segment);
    followers->reading = false;
    followers->window.len = op->got;
    segments_read_end(segments, segment, op);
    end_read(followers, op->err);
}

static void begin_read(struct followers *followers, struct follower *follower, size_t len)
{
    const struct segment *segment = segments_find(followers->store->segments, follower->number);
    uint64_t left = segment->end - follower->offset;
    size_t want = left < WINDOW_BYTES && left >= len ? (size_t)left : WINDOW_BYTES;
    want = want < len ? len : want;
    followers->window = (struct window){
        .bytes = mem_aligned(BLOCK, want),
        .cap = want,
        .segment = follower->number,
        .start = follower->offset,
        .synced = log_synced(followers->store->log),
    };
    followers->reader = follower;
}

/* By the disk's threads. */
static void read_window(struct followers *followers, void (*inspect)(struct disk_op *op))
{
    struct segments *segments = followers->store->segments;
    const struct window *window = &followers->window;
    followers->reading = true;
    followers->op = (struct disk_op){
        .into = window->bytes,
        .len = window->cap,
        .offset = window->start,
        .inspect = inspect,
        .done = read_ended,
        .owner = followers,
    };
    segments_read(segments, segments_find(segments, window->segment), &followers->op);
}

/* Reads `len` bytes at the follower's position into its window. ERR_AGAIN: a read is under way. */
static enum err fill_window(struct follower *follower, size_t len)
{
    struct followers *followers = follower->followers;
    struct segments *segments = followers->store->segments;
    struct window *window = &followers->window;
    enum err err = follower->read_err;
    follower->read_err = OK;
    if (followers->reading || err)
        return err ? err : ERR_AGAIN;
    begin_read(followers, follower, len);
    err = segments_read_cached(segments, segments_find(segments, window->segment), window->start,
                               window->bytes, window->cap, &window->len);
    if (err != ERR_AGAIN) {
        end_read(followers, err);
        err = follower->read_err;
        follower->read_err = OK;
        return err;
    }
    read_window(followers, NULL);
    return ERR_AGAIN;
}

/* On a thread of the disk. */
static void check_large(struct disk_op *op)
{
    struct followers *followers = op->owner;
    struct window *window = &followers->window;
    window->whole = op->got >= batch_bytes(followers->head.payload_bytes) &&
                    batch_whole(&followers->head, window->bytes, followers->key);
}

/* Reads the batch at the follower's position into a window that begins with it, and checks it.
   ERR_AGAIN: a read is under way. */
static enum err read_large(struct follower *follower, const struct batch_head *head, uint64_t key)
{
    struct followers *followers = follower->followers;
    const struct window *window = &follower->window;
    enum err err = follower->read_err;
    if (window->bytes && window->segment == follower->number && window->start == follower->offset &&
        window->checked == head->number)
        return OK;
    follower->read_err = OK;
    if (followers->reading || err)
        return err ? err : ERR_AGAIN;
    begin_read(followers, follower, batch_bytes(head->payload_bytes));
    followers->window.checked = head->number;
    followers->head = *head;
    followers->key = key;
    read_window(followers, check_large);
    return ERR_AGAIN;
}

/* `len` bytes at the follower's position, as they were when batch `read` + 1 was durable. */
static enum err bytes_at(struct follower *follower, size_t len, const char **out_at)
{
    const struct log *log = follower->followers->store->log;
    const struct window *window = &follower->window;
    size_t recent_len = 0;
    const char *recent = log_recent(log, where_of(follower->number, follower->offset), &recent_len);
    if (recent && recent_len >= len) {
        *out_at = recent;
        return OK;
    }
    for (int i = 0; i < 2; i++) {
        bool inside = window->bytes && window->segment == follower->number &&
                      window->synced > follower->read && follower->offset >= window->start &&
                      follower->offset - window->start + len <= window->len;
        if (inside) {
            *out_at = window->bytes + (follower->offset - window->start);
            return OK;
        }
        enum err err = i == 0 ? fill_window(follower, len) : ERR_IO;
        if (err)
            return err;
    }
    return ERR_IO;
}

/* ---- reading the log in order ---- */

/* Continues at the segment's first batch. */
static void enter(struct follower *follower, const struct segment *segment)
{
    follower->number = segment->number;
    follower->offset = BLOCK;
    follower->batch = segment->batch_first;
}

/* Finds the segment of the batch behind `read`. The batch itself is found by reading the segment.
   O(segments); called at the beginning, and at the end of the log. */
static bool find_segment(struct follower *follower)
{
    const struct segments *segments = follower->followers->store->segments;
    const struct segment *found = NULL;
    for (const struct segment *segment = segments_first(segments);
         segment && segment->batch_first <= follower->read + 1;
         segment = segments_after(segments, segment), follower->followers->looks++)
        found = segment;
    if (found)
        enter(follower, found);
    return found != NULL;
}

/* Continues with the next segment. Batches that were not found in this one are lost, and
   skipped. */
static void leave_segment(struct follower *follower, const struct segment *segment)
{
    const struct segment *next = segments_after(follower->followers->store->segments, segment);
    uint64_t batch_end = next ? next->batch_first : log_synced(follower->followers->store->log) + 1;
    if (batch_end > follower->read + 1)
        follower->read = batch_end - 1;
    follower->number = 0;
    if (next)
        enter(follower, next);
}

static void notify_batch(struct follower *follower, struct follower_callbacks *callbacks,
                         const struct batch_head *head, const char *batch)
{
    struct batch_walk walk;
    uint64_t records = log_records(follower->followers->store->log);
    if (callbacks->whole) {
        callbacks->whole(callbacks, head, batch);
        follower->read = head->number;
        return;
    }
    batch_walk_init(&walk, batch, head->payload_bytes);
    enum err err = batch_walk_next(&walk); /* reads the epoch, too */
    callbacks->batch(callbacks, head->number, walk.epoch, head->clock_us);
    for (; err == OK; err = batch_walk_next(&walk)) {
        if (walk.record.copy)
            continue;
        walk.record.event.record = (struct stored){0};
        callbacks->event(callbacks, head->number, &walk.record.event);
    }
    CHECK(log_records(follower->followers->store->log) ==
          records); /* the callbacks appended nothing */
    follower->read = head->number;
}

/* The next batch is a large one, and durable. */
static enum err step_large(struct follower *follower, struct follower_callbacks *callbacks,
                           const struct batch_head *head, uint64_t key)
{
    enum err err = read_large(follower, head, key);
    if (err)
        return err;
    if (!follower->window.whole) {
        follower->window.checked = 0;
        follower->offset += BLOCK; /* as in step() */
        return OK;
    }
    char *batch = follower->window.bytes;
    follower->window = (struct window){.bytes = NULL};
    callbacks->large(callbacks, head, batch); /* it owns the bytes now */
    follower->read = head->number;
    follower->batch = head->number + 1;
    follower->offset += batch_bytes(head->payload_bytes);
    return OK;
}

/* Decodes the head of a batch that belongs at the follower's position, or behind it. */
static bool decode_head(const struct follower *follower, const struct segment *segment,
                        const char *at, struct batch_head *out_head)
{
    return batch_head_decode(at, segment->end - follower->offset, out_head) == FORMAT_GOOD &&
           out_head->segment == segment->number &&
           out_head->store_tag == follower->followers->store->tag &&
           out_head->number >= follower->batch;
}

/* Reads one batch, or skips one block without a valid batch. */
static enum err step(struct follower *follower, struct follower_callbacks *callbacks,
                     size_t *out_bytes)
{
    struct store *store = follower->followers->store;
    struct segment *segment = segments_find(store->segments, follower->number);
    struct batch_head head;
    const char *at;
    *out_bytes = 0;
    if (!segment && !find_segment(follower))
        return ERR_IO;
    segment = segments_find(store->segments, follower->number);
    if (follower->offset >= segment->end) {
        leave_segment(follower, segment);
        return OK;
    }
    *out_bytes = BLOCK;
    enum err err = bytes_at(follower, BLOCK, &at);
    if (err)
        return err;
    bool good = decode_head(follower, segment, at, &head);
    size_t whole = good ? batch_bytes(head.payload_bytes) : 0;
    if (good && callbacks->large && whole > callbacks->large_bytes &&
        head.number > follower->read && head.number <= log_synced(store->log)) {
        *out_bytes = whole;
        return step_large(follower, callbacks, &head, segment->key);
    }
    if (good)
        err = bytes_at(follower, whole, &at);
    if (err)
        return err;
    if (!good || !batch_whole(&head, at, segment->key)) {
        follower->offset += BLOCK; /* damage without live records: recovery skipped it */
        return OK;
    }
    if (head.number >
        log_synced(store->log)) { /* batches before it were lost, without live records */
        follower->read = log_synced(store->log);
        return OK;
    }
    if (head.number > follower->read)
        notify_batch(follower, callbacks, &head, at);
    follower->offset += whole;
    follower->batch = head.number + 1;
    *out_bytes = whole;
    return OK;
}

enum err follower_read(struct follower *follower, struct follower_callbacks *callbacks,
                       size_t budget_bytes, bool *out_more)
{
    CHECK(in_use(follower));
    const struct log *log = follower->followers->store->log;
    *out_more = false;
    if (follower->state == FOLLOWER_DROPPED)
        return ERR_WRONG_STATE;
    for (size_t done = 0; follower->read < log_synced(log);) {
        size_t bytes;
        if (done > 0 && done >= budget_bytes) {
            *out_more = true;
            return OK;
        }
        enum err err = step(follower, callbacks, &bytes);
        if (err)
            return err;
        done += bytes;
    }
    return OK;
}

/* ---- names and cursors ---- */

/* Begins behind everything appended so far. Seals the open batch, which would get more records. */
static void begin_at_end(struct follower *follower)
{
    struct log *log = follower->followers->store->log;
    log_seal_open(log);
    follower->state = FOLLOWER_READS;
    follower->cursor = follower->read = log_batch(log);
    follower->number = 0;
}

/* Makes everything appended durable, and completes a pending write of the manifest. */
static enum err settle(struct store *store)
{
    log_want_sync(store->log);
    if (!store_drain(store))
        return store->failed ? ERR_STORE_FAILED : ERR_DISK_FULL;
    while (manifest_busy(store->manifest)) {
        store->disk->verbs->wait(store->disk);
        store_poll(store);
    }
    return store->failed ? ERR_STORE_FAILED : OK;
}

/* Name and cursor must be durable before later batches: after a kill, the next process would begin
   the follower behind them. */
static enum err enroll(struct follower *follower, const char name[FOLLOWER_NAME_MAX])
{
    struct store *store = follower->followers->store;
    manifest_use(store->manifest, FEATURE_FOLLOWERS); /* not earlier: a feature is never removed */
    memcpy(follower->name, name, FOLLOWER_NAME_MAX);
    begin_at_end(follower);
    if (!manifest_write_now(store->manifest)) {
        log_mark_copies(store->log); /* the manifest has the feature bit for it */
        return OK;
    }
    *follower = (struct follower){.followers = follower->followers};
    store_fail(store, EIO);
    return ERR_STORE_FAILED;
}

static struct follower *find(struct followers *followers, const char name[FOLLOWER_NAME_MAX])
{
    for (unsigned i = 0; i < FOLLOWERS_MAX; i++)
        if (memcmp(followers->each[i].name, name, FOLLOWER_NAME_MAX) == 0)
            return &followers->each[i];
    return NULL;
}

enum err follower_open(struct store *store, struct bytes name, struct follower **out_follower)
{
    static const char nobody[FOLLOWER_NAME_MAX];
    char padded[FOLLOWER_NAME_MAX] = {0};
    if (name.len == 0 || name.len > FOLLOWER_NAME_MAX || memchr(name.at, '\0', name.len))
        return ERR_INVALID;
    memcpy(padded, name.at, name.len);
    struct follower *follower = find(store->followers, padded);
    if (follower) {
        *out_follower = follower;
        return OK;
    }
    if (store->failed)
        return ERR_STORE_FAILED;
    follower = find(store->followers, nobody);
    if (!follower)
        return ERR_JOBS_LIMIT;
    enum err err = settle(store);
    if (!err)
        err = enroll(follower, padded);
    if (!err)
        *out_follower = follower;
    return err;
}

static void forget_window(struct follower *follower)
{
    if (follower->followers->reader == follower)
        follower->followers->reader = NULL; /* the read under way is ignored */
    window_fini(&follower->window);
    follower->read_err = OK;
}

void follower_restart(struct follower *follower)
{
    CHECK(in_use(follower));
    forget_window(follower);
    begin_at_end(follower);
    manifest_write(follower->followers->store->manifest);
}

/* The first batch that the cleaner keeps: it works on the oldest segment, if there are others. */
static uint64_t first_kept(const struct segments *segments)
{
    const struct segment *first = segments_first(segments);
    const struct segment *next = first ? segments_after(segments, first) : NULL;
    if (next && next->batch_first)
        return next->batch_first;
    return first ? first->batch_first : 1;
}

bool follower_resume(struct follower *follower, uint64_t batch)
{
    const struct store *store = follower->followers->store;
    CHECK(in_use(follower) && follower->state == FOLLOWER_DROPPED);
    if (batch + 1 < first_kept(store->segments) || batch > log_synced(store->log))
        return false;
    forget_window(follower);
    follower->state = FOLLOWER_READS;
    follower->cursor = follower->read = batch;
    follower->number = 0;
    manifest_write(store->manifest);
    return true;
}

void follower_remove(struct follower *follower)
{
    struct followers *followers = follower->followers;
    forget_window(follower);
    *follower = (struct follower){.followers = followers};
    manifest_write(followers->store->manifest);
}

enum follower_state follower_state(const struct follower *follower)
{
    return follower->state;
}

uint64_t follower_cursor(const struct follower *follower)
{
    return follower->cursor;
}

void follower_ack(struct follower *follower, uint64_t batch)
{
    CHECK(in_use(follower) && batch <= log_synced(follower->followers->store->log));
    if (follower->state == FOLLOWER_DROPPED || batch <= follower->cursor)
        return;
    follower->cursor = batch;
    if (batch <= follower->read)
        return;
    follower->read = batch; /* an earlier process had read it */
    follower->number = 0;
}

/* ---- for the store's parts ---- */

struct followers *followers_new(struct store *store)
{
    struct followers *followers = mem_zalloc(sizeof(*followers));
    followers->store = store;
    for (unsigned i = 0; i < FOLLOWERS_MAX; i++)
        followers->each[i].followers = followers;
    return followers;
}

void followers_free(struct followers *followers)
{
    if (!followers)
        return;
    CHECK(!followers->reading);
    for (unsigned i = 0; i < FOLLOWERS_MAX; i++)
        window_fini(&followers->each[i].window);
    mem_free(followers);
}

void followers_begin(struct followers *followers, const struct manifest *manifest)
{
    uint64_t batch_last = log_synced(followers->store->log);
    for (unsigned i = 0; i < FOLLOWERS_MAX; i++) {
        const struct manifest_follower *found = &manifest->followers[i];
        struct follower *follower = &followers->each[i];
        memcpy(follower->name, found->name, FOLLOWER_NAME_MAX);
        if (!in_use(follower))
            continue;
        /* A cursor before the log's beginning or beyond its end: files were exchanged by hand. */
        bool lost = found->cursor + 1 < manifest->batch_first || found->cursor > batch_last;
        follower->state = found->dropped || lost ? FOLLOWER_DROPPED : FOLLOWER_READS;
        follower->cursor = found->cursor < batch_last ? found->cursor : batch_last;
        follower->read = follower->cursor;
    }
    if (manifest->incompatible & FEATURE_FOLLOWERS)
        log_mark_copies(followers->store->log);
}

void followers_fill(const struct followers *followers, struct manifest *manifest)
{
    uint64_t batch_last = log_synced(followers->store->log);
    for (unsigned i = 0; i < FOLLOWERS_MAX; i++) {
        const struct follower *follower = &followers->each[i];
        struct manifest_follower *to = &manifest->followers[i];
        memcpy(to->name, follower->name, FOLLOWER_NAME_MAX);
        to->cursor = follower->cursor < batch_last ? follower->cursor : batch_last;
        to->dropped = follower->state == FOLLOWER_DROPPED;
    }
}

bool followers_need(const struct followers *followers, uint64_t batch)
{
    for (unsigned i = 0; i < FOLLOWERS_MAX; i++)
        if (needs(&followers->each[i], batch))
            return true;
    return false;
}

void followers_drop(struct followers *followers, uint64_t batch)
{
    struct store_callbacks *callbacks = followers->store->callbacks;
    for (unsigned i = 0; i < FOLLOWERS_MAX; i++) {
        struct follower *follower = &followers->each[i];
        struct store_error error;
        if (!needs(follower, batch))
            continue;
        forget_window(follower);
        follower->state = FOLLOWER_DROPPED;
        followers->dropped++;
        store_error_set(&error, MANIFEST_NAME, 0,
                        "follower %.*s has read up to batch %llu and stayed away too long: the log "
                        "is not kept for it any more",
                        FOLLOWER_NAME_MAX, follower->name, (unsigned long long)follower->cursor);
        callbacks->notice(callbacks, STORE_FOLLOWER_DROPPED, &error);
    }
}

uint64_t followers_looks(const struct followers *followers)
{
    return followers->looks;
}

bool followers_reading(const struct followers *followers)
{
    return followers->reading;
}

/* Bytes of the segments with batches behind the cursor. O(segments behind it) */
static uint64_t lag_bytes(const struct followers *followers, uint64_t cursor)
{
    const struct segments *segments = followers->store->segments;
    uint64_t bytes = 0;
    for (const struct segment *segment = segments_tail(segments); segment;
         segment = segments_before(segments, segment)) {
        if (segment->end > BLOCK && cursor < log_batch(followers->store->log))
            bytes += segment->end - BLOCK;
        if (segment->batch_first <= cursor + 1)
            break;
    }
    return bytes;
}

uint64_t follower_lag_bytes(const struct follower *follower)
{
    bool behind = follower->cursor < log_synced(follower->followers->store->log);
    return behind ? lag_bytes(follower->followers, follower->cursor) : 0;
}

void followers_stats(const struct followers *followers, struct store_stats *out_stats)
{
    uint64_t furthest = UINT64_MAX;
    out_stats->followers_dropped = followers->dropped;
    for (unsigned i = 0; i < FOLLOWERS_MAX; i++) {
        const struct follower *follower = &followers->each[i];
        if (!in_use(follower))
            continue;
        out_stats->followers++;
        if (follower->state == FOLLOWER_READS && follower->cursor < furthest)
            furthest = follower->cursor;
    }
    uint64_t synced = log_synced(followers->store->log);
    if (furthest >= synced)
        return;
    out_stats->follower_lag_batches = synced - furthest;
    out_stats->follower_lag_bytes = lag_bytes(followers, furthest);
}

void followers_valid(const struct followers *followers)
{
    const struct log *log = followers->store->log;
    const struct segment *first = segments_first(followers->store->segments);
    CHECK(followers->reading == (followers->window.bytes != NULL));
    CHECK(followers->reading || !followers->reader);
    for (unsigned i = 0; i < FOLLOWERS_MAX; i++) {
        const struct follower *follower = &followers->each[i];
        CHECK(follower->followers == followers && follower->window.len <= follower->window.cap);
        if (!in_use(follower)) {
            CHECK(follower->cursor == 0 && !follower->window.bytes);
            CHECK(followers->reader != follower);
            continue;
        }
        CHECK(follower->cursor <= follower->read && follower->read <= log_batch(log)); /* F1 */
        bool kept = !first || follower->cursor + 1 >= first->batch_first;
        CHECK(kept || follower->state == FOLLOWER_DROPPED); /* F2 */
    }
}
