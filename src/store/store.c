/*
 * The store's life: opening, a turn, admission, reading bodies, closing. The work is in recover.c,
 * wal.c, segment.c and checkpoint.c.
 */
#include <time.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/internal.h"

/* What a record can need beyond the payload bytes: its head, topic, retry waits, padding. */
enum { RECORD_EXTRA = RECORD_JOB_HEAD + TOPIC_NAME_MAX + RETRY_STEPS_MAX * 8 + 8 };

/* For a statistic only: nothing the store does depends on it. */
static int64_t monotonic_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with this clock */
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

unsigned store_descriptors(uint32_t files_max)
{
    /* Directory, lock, events; the manifest's two; second ones of the files that are written, of
       one being made, and of one that is read past the cache. */
    enum { OTHERS = 3 + 2 + 7 };
    if (files_max == 0)
        files_max = FILES_OPEN_MAX;
    return (files_max < FILES_OPEN_MIN ? FILES_OPEN_MIN : files_max) + OTHERS;
}

/* A new store must have a place for its first batch before it says that it is open. */
static enum err make_first(struct store *store, struct store_error *out_error)
{
    segment_provide(store);
    if (!list_empty(&store->log))
        return OK;
    struct segment *spare = LIST_ENTRY(store->spares.next, struct segment, link);
    while (spare->state == SEGMENT_MAKING) {
        store->disk->verbs->wait(store->disk);
        (void)store->disk->verbs->poll(store->disk);
    }
    if (spare->state == SEGMENT_READY)
        return OK;
    enum err err = store->failed ? ERR_IO : store->starved ? ERR_AGAIN : store->full;
    store_error_set(out_error, spare->make.name, 0,
                    err == ERR_DISK_LIMIT  ? "store.max_bytes leaves no room for a first segment"
                    : err == ERR_DISK_FULL ? "the file system has no room for a first segment"
                    : err == ERR_AGAIN     ? "no file descriptor is free for a first segment"
                                           : "a first segment cannot be made");
    return err;
}

static void wait_for_disk(struct store *store)
{
    while (store->step != COMMIT_IDLE || store->manifest_busy ||
           store->checkpoint.step == CHECKPOINT_REMOVE) {
        store->disk->verbs->wait(store->disk);
        (void)store->disk->verbs->poll(store->disk);
    }
}

static bool making(const struct list *head)
{
    for (const struct list *link = head->next; link != head; link = link->next)
        if (LIST_ENTRY(link, struct segment, link)->state == SEGMENT_MAKING)
            return true;
    return false;
}

static void store_free(struct store *store)
{
    while (making(&store->log) || making(&store->spares)) {
        store->disk->verbs->wait(store->disk);
        (void)store->disk->verbs->poll(store->disk);
    }
    wait_for_disk(store); /* a segment just made may have started one more */
    while (!list_empty(&store->log))
        segment_drop(store, segment_first(store));
    while (!list_empty(&store->spares))
        segment_drop(store, LIST_ENTRY(store->spares.next, struct segment, link));
    checkpoint_fini(store);
    wal_fini(store);
    if (store->manifest_file)
        store->disk->verbs->close(store->disk, store->manifest_file);
    mem_free(store->manifest_slot);
    mem_free(store->by_number);
    mem_free(store);
}

enum err store_open(const struct store_options *options, struct store_callbacks *callbacks,
                    struct store **out_store, struct store_error *out_error)
{
    struct disk *disk = options->disk;
    CHECK(options->segment_bytes >= 4 * BLOCK && options->segment_bytes % BLOCK == 0);
    *out_error = (struct store_error){0};
    enum err err = disk->verbs->lock(disk, DISK_TO_WRITE);
    if (err) {
        store_error_set(out_error, "LOCK", 0,
                        err == ERR_LOCKED ? "another laterd has this directory open"
                                          : "the lock file cannot be made or locked");
        return err;
    }
    int64_t start_us = monotonic_us();
    struct store *store = mem_zalloc(sizeof(*store));
    store->options = *options;
    store->disk = disk;
    store->callbacks = callbacks;
    store->now_us = options->now_us;
    store->last_commit_us = store->last_sync_us = options->now_us;
    store->clock_us = store->clock_wanted_us = INT64_MIN;
    list_init(&store->log);
    list_init(&store->spares);
    list_init(&store->open_files);
    if (store->options.files_max == 0)
        store->options.files_max = FILES_OPEN_MAX;
    if (store->options.files_max < FILES_OPEN_MIN)
        store->options.files_max = FILES_OPEN_MIN;
    store->manifest_slot = mem_aligned(BLOCK, BLOCK);
    wal_init(store);
    err = recover(store, out_error);
    if (!err)
        err = make_first(store, out_error);
    if (err) {
        store->failed = store->closing = true; /* nothing more is begun */
        store_free(store);
        disk->verbs->unlock(disk);
        return err;
    }
    store->stats.recovery_us = monotonic_us() - start_us;
    *out_store = store;
    return OK;
}

/* Writes all that is gathered. False: there is no room for it, or the disk failed. */
static bool drain(struct store *store)
{
    while (!store->failed && (store->open || !list_empty(&store->sealed) ||
                              store->step != COMMIT_IDLE || store->synced < store->written)) {
        bool busy = store->step != COMMIT_IDLE || store->manifest_busy || making(&store->log);
        uint64_t written = store->written;
        wal_turn(store);
        busy = busy || store->step != COMMIT_IDLE;
        if (!busy && store->written == written)
            return false; /* a segment's file could not be made */
        if (!busy)
            continue; /* the commit was made in the turn: there is nothing to wait for */
        store->disk->verbs->wait(store->disk);
        (void)store->disk->verbs->poll(store->disk);
    }
    return !store->failed;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    struct disk *disk = store->disk;
    store->closing = true;
    bool whole = drain(store);
    wal_write_clock(store);
    whole = drain(store) && whole;
    wait_for_disk(store);
    if (whole && !store->failed)
        whole = manifest_write_now(store, true) == OK;
    store->failed = !whole; /* the next opening recovers then; nothing is lost by that */
    store_free(store);
    disk->verbs->unlock(disk);
}

uint64_t store_seq_first(const struct store *store)
{
    return store->seq_first;
}

uint64_t store_lease_first(const struct store *store)
{
    return store->lease_first;
}

void store_clock_note(struct store *store, int64_t at_us)
{
    if (store->clock_wanted_us <= store->clock_us)
        store->clock_asked_us = at_us;
    store->clock_wanted_us = at_us;
}

void store_lease_note(struct store *store, uint64_t lease_next)
{
    if (lease_next <= store->lease_next)
        return;
    store->lease_next = lease_next;
    if (lease_next > store->manifest.lease_mark - LEASE_AHEAD / 2)
        manifest_write(store);
}

void store_seq_note(struct store *store, uint64_t seq_next)
{
    if (seq_next > store->seq_next)
        store->seq_next = seq_next;
}

enum err store_admit(const struct store *store, size_t payload_bytes)
{
    if (store->failed)
        return ERR_STORE_FAILED;
    uint64_t need = batch_bytes(payload_bytes + RECORD_EXTRA);
    uint64_t max_bytes = store->options.max_bytes;
    if (max_bytes && need + BLOCK > max_bytes)
        return ERR_DISK_LIMIT;
    if (!store->full && segment_scarce(store)) /* the next turn says so */
        return max_bytes ? ERR_DISK_LIMIT : ERR_DISK_FULL;
    /*
     * While the disk is full, room is kept back, so that finish and delete go on: for the record
     * that ends each job, and two segments' worth for cleaning the oldest one, with what is ended
     * meanwhile.
     */
    uint64_t kept = 2 * store->options.segment_bytes + (store->live_jobs + 1) * ENDING_BYTES;
    if (store->full && segment_room(store) < need + kept)
        return store->full;
    if (store->sealed_bytes > BACKLOG_MAX || store->seq_next + SEQ_AHEAD / 8 >= store->seq_mark)
        return ERR_AGAIN;
    return OK;
}

void store_turn(struct store *store, int64_t now_us)
{
    store->now_us = now_us;
    segment_provide(store);
    checkpoint_turn(store);
    wal_turn(store);
}

int64_t store_next_us(const struct store *store)
{
    if (store->failed)
        return INT64_MAX;
    int64_t next_us = wal_next_us(store);
    int64_t checkpoint_us = checkpoint_next_us(store);
    if (checkpoint_us < next_us)
        next_us = checkpoint_us;
    if ((store->full || store->starved) && store->retry_at_us < next_us)
        next_us = store->retry_at_us;
    return next_us;
}

void store_poll(struct store *store)
{
    (void)store->disk->verbs->poll(store->disk);
}

static enum err read_record(struct store *store, uint64_t where, char *at, size_t len)
{
    struct segment *segment = segment_find(store, where_segment(where));
    struct disk_file *file = NULL;
    size_t got = 0;
    uint64_t offset = where_offset(where);
    if (!segment || segment->state != SEGMENT_HEADED || offset + len > segment->end)
        return ERR_DAMAGED;
    enum err err = segment_file(store, segment, &file);
    if (!err)
        err = store->disk->verbs->read_cached(store->disk, file, offset, at, len, &got);
    if (err == ERR_AGAIN && file) {
        store->stats.cold_reads++;
        err = store->disk->verbs->read(store->disk, file, offset, at, len, &got);
    }
    if (err == ERR_NOT_FOUND)
        return ERR_IO;
    return err ? err : got == len ? OK : ERR_DAMAGED;
}

enum err store_read(struct store *store, const struct body_place *place, struct arena *arena,
                    struct bytes *out_content_type, struct bytes *out_body)
{
    size_t len = RECORD_JOB_HEAD + place->content_type_len + place->body_len;
    size_t recent_len = 0;
    const char *recent = wal_recent(store, place->where, &recent_len);
    char *at = arena_alloc(arena, len);
    enum err err = OK;
    if (recent && recent_len >= len)
        memcpy(at, recent, len);
    else
        err = recent ? ERR_DAMAGED : read_record(store, place->where, at, len);
    if (!err)
        err = record_body(at, len, place->seq, place->content_type_len, place->body_len);
    if (err)
        return err;
    *out_content_type = bytes_of(at + RECORD_JOB_HEAD, place->content_type_len);
    *out_body = bytes_of(at + RECORD_JOB_HEAD + place->content_type_len, place->body_len);
    return OK;
}

uint64_t store_cold_reads(const struct store *store)
{
    return store->stats.cold_reads;
}

bool store_failed(const struct store *store)
{
    return store->failed;
}

bool store_full(const struct store *store)
{
    return store->full != OK;
}

void store_stats(const struct store *store, struct store_stats *out_stats)
{
    *out_stats = store->stats;
    out_stats->segments = store->log_count;
    out_stats->disk_bytes = store->disk_bytes + MANIFEST_BYTES;
    out_stats->live_bytes = store->live_bytes;
    out_stats->live_jobs = store->live_jobs;
    out_stats->damaged_segments = store->damaged_segments;
    const struct segment *first = segment_first(store), *tail = segment_tail(store);
    out_stats->segment_first = first ? first->number : 0;
    out_stats->segment_tail = tail ? tail->number : 0;
    out_stats->segment_bytes = store->options.segment_bytes;
}
