/*
 * Connects the parts: opening, a turn, admission, reading bodies, closing. internal.h lists the
 * parts.
 */
#include "store/store.h"

#include "base/check.h"
#include "base/codec.h"
#include "base/mem.h"
#include "port/clock.h"
#include "store/far.h"
#include "store/internal.h"
#include "store/record.h"
#include "store/slices/far_image.h"

enum {
    ENDING_BYTES = 64, /* kept back for ending a live job */
};

/* What a record can need beyond the payload bytes: its head, topic, retry waits, padding. */
enum { RECORD_EXTRA = RECORD_JOB_HEAD + TOPIC_NAME_MAX + RETRY_STEPS_MAX * 8 + 8 };

unsigned store_descriptors(uint32_t files_max)
{
    enum {
        OF_DISK = 3 + 1, /* directory twice, lock, events */
        MANIFEST = 2,    /* for writing and for reading */
        SECOND = 8,      /* of files written, made, or read past the cache */
        /* Each may open one; 1: the cleaner. */
        READS = BODY_READS_UNDER_WAY_MAX + FAR_READS_UNDER_WAY_MAX + SLICE_READS_MAX + 1 +
                FOLLOWERS_MAX,
        OTHERS = OF_DISK + MANIFEST + SECOND + READS,
    };
    if (files_max == 0)
        files_max = FILES_OPEN_MAX;
    return (files_max < FILES_OPEN_MIN ? FILES_OPEN_MIN : files_max) + OTHERS;
}

void store_fail(struct store *store, int sys_errno)
{
    if (store->failed)
        return;
    store->failed = true;
    store->callbacks->failed(store->callbacks, sys_errno);
}

/* ---- opening and closing ---- */

/* Waits until a new store has room for its first batch. */
static enum err make_first(struct store *store, struct store_error *out_error)
{
    char name[DISK_NAME_MAX];
    unsigned long long segment_bytes = store->options.segment_bytes;
    enum err err = segments_make_first(store->segments);
    if (!err)
        return OK;
    segment_name(segments_number_next(store->segments) - 1, name);
    if (err == ERR_DISK_FULL) {
        store_error_set(out_error, name, 0,
                        segments_too_large(store->segments)
                            ? "a first segment of %llu bytes is above the limit of a file's size: "
                              "raise LimitFSIZE= of the systemd unit, or ulimit -f, or lower "
                              "store.segment_bytes"
                            : "the file system has no room for a first segment of %llu bytes: make "
                              "room, or lower store.segment_bytes",
                        segment_bytes);
        return err;
    }
    store_error_set(out_error, name, 0, "%s",
                    err == ERR_DISK_LIMIT ? "store.max_bytes leaves no room for a first segment"
                    : err == ERR_AGAIN    ? "no file descriptor is free for a first segment"
                                          : "a first segment cannot be made");
    return err;
}

static bool disk_busy(const struct store *store)
{
    return log_busy(store->log) || manifest_busy(store->manifest) || cleaner_busy(store->cleaner) ||
           followers_reading(store->followers) || slices_busy(store->slices) ||
           history_busy(store->history);
}

static void store_free(struct store *store)
{
    /* A segment just made may start something more. */
    while (segments_making(store->segments) || disk_busy(store)) {
        store->disk->verbs->wait(store->disk);
        (void)store->disk->verbs->poll(store->disk);
    }
    followers_free(store->followers);
    body_reads_free(store->body_reads); /* first: they use the segments */
    far_pages_free(store->far_pages);
    far_reads_free(store->far_reads);
    cleaner_free(store->cleaner);
    history_free(store->history);
    slices_free(store->slices);
    log_free(store->log);
    segments_free(store->segments);
    manifest_free(store->manifest);
    mem_free(store);
}

static struct store *store_new(const struct store_options *options,
                               struct store_callbacks *callbacks)
{
    struct store *store = mem_zalloc(sizeof(*store));
    store->options = *options;
    store->disk = options->disk;
    store->callbacks = callbacks;
    callbacks->store = store;
    store->now_us = options->now_us;
    if (store->options.files_max == 0)
        store->options.files_max = FILES_OPEN_MAX;
    if (store->options.files_max < FILES_OPEN_MIN)
        store->options.files_max = FILES_OPEN_MIN;
    if (store->options.batch_full == 0)
        store->options.batch_full = BATCH_FULL;
    store->manifest = manifest_new(store);
    store->segments = segments_new(store);
    store->slices = slices_new(store);
    store->far_reads = far_reads_new(store);
    store->far_pages = far_pages_new(store);
    store->log = log_new(store);
    store->history = history_new(store);
    store->cleaner = cleaner_new(store);
    store->followers = followers_new(store);
    store->body_reads = body_reads_new(store);
    return store;
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
                        err == ERR_LOCKED
                            ? "another laterd (or `later verify`) has this directory open"
                            : "the lock file cannot be made or locked");
        return err;
    }
    int64_t start_us = clock_monotonic_us(); /* for a statistic only */
    struct store *store = store_new(options, callbacks);
    err = recover(store, out_error);
    if (!err)
        err = make_first(store, out_error);
    if (err) {
        store->failed = store->closing = true; /* no more operations are begun */
        store_free(store);
        disk->verbs->unlock(disk);
        return err;
    }
    store->recovery_us = clock_monotonic_us() - start_us;
    *out_store = store;
    return OK;
}

bool store_drain(struct store *store)
{
    while (!store->failed && !log_empty(store->log)) {
        bool busy = log_busy(store->log) || manifest_busy(store->manifest) ||
                    segments_making(store->segments);
        uint64_t written = log_written(store->log);
        log_turn(store->log);
        busy = busy || log_busy(store->log) || manifest_busy(store->manifest);
        if (!busy && log_written(store->log) == written)
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
    history_drain(store->history);
    bool whole = store_drain(store);
    log_write_clock(store->log);
    whole = store_drain(store) && whole;
    while (disk_busy(store)) {
        disk->verbs->wait(disk);
        (void)disk->verbs->poll(disk);
    }
    if (whole && !store->failed) {
        far_image_write(store);
        whole = manifest_write_clean(store->manifest) == OK;
    }
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

const uint8_t *store_identity(const struct store *store)
{
    return store->id.bytes;
}

/* ---- calls of the parts ---- */

void store_clock_note(struct store *store, int64_t at_us)
{
    log_clock_note(store->log, at_us);
}

void store_lease_note(struct store *store, uint64_t lease_next)
{
    manifest_lease_note(store->manifest, lease_next);
}

void store_seq_note(struct store *store, uint64_t seq_next)
{
    log_seq_note(store->log, seq_next);
}

struct stored store_append(struct store *store, const struct event *event)
{
    return log_append(store->log, event);
}

void store_died(struct store *store, struct stored record)
{
    bool lived = segments_record_died(store->segments, record);
    CHECK(lived); /* else the core named a record that does not exist, or is dead already */
}

uint64_t store_batch(const struct store *store)
{
    return log_batch(store->log);
}

uint64_t store_promised(const struct store *store)
{
    return log_promised(store->log);
}

uint64_t store_durable(const struct store *store)
{
    return log_written(store->log);
}

uint64_t store_synced(const struct store *store)
{
    return log_synced(store->log);
}

void store_want_sync(struct store *store)
{
    log_want_sync(store->log);
}

void store_latency_first(struct store *store, bool latency_first)
{
    log_latency_first(store->log, latency_first);
}

bool store_failed(const struct store *store)
{
    return store->failed;
}

bool store_full(const struct store *store)
{
    return segments_full(store->segments) != OK;
}

void store_shortage(const struct store *store, struct store_shortage *out_shortage)
{
    *out_shortage = (struct store_shortage){
        .err = segments_full(store->segments),
        .too_large = segments_too_large(store->segments),
        .free_bytes = store->disk->verbs->room(store->disk),
        .kept_bytes = segments_kept_bytes(store->segments),
        .segment_bytes = store->options.segment_bytes,
    };
}

bool store_move_unread(const struct store *store, uint64_t where)
{
    return cleaner_wants_move(store->cleaner, where);
}

uint64_t store_far_key(const struct store *store)
{
    uint64_t key = get_u64(store->id.bytes);
    return key ? key : 1;
}

uint64_t store_far_due_until(const struct store *store, int64_t limit_us)
{
    return slices_far_due_until(store->slices, limit_us);
}

bool store_far_due(struct store *store, struct far_due *due, uint32_t most)
{
    return slices_far_due(store->slices, due, most);
}

/* ---- a turn ---- */

/*
 * While the disk is full, room is reserved so that finish and delete still work: for the record
 * that ends each job, and two segments for cleaning the oldest one and for what is ended meanwhile.
 */
static uint64_t reserved_room(const struct store *store)
{
    uint64_t jobs = segments_live_jobs(store->segments) + slices_live_jobs(store->slices);
    return 2 * store->options.segment_bytes + (jobs + 1) * ENDING_BYTES;
}

enum err store_admit(const struct store *store, size_t payload_bytes)
{
    if (store->failed)
        return ERR_STORE_FAILED;
    uint64_t need = batch_bytes(payload_bytes + RECORD_EXTRA);
    uint64_t max_bytes = store->options.max_bytes;
    if (max_bytes && need + BLOCK > max_bytes)
        return ERR_DISK_LIMIT;
    const struct segments *segments = store->segments;
    enum err full = segments_full(segments);
    if (!full && segments_scarce(segments, need)) /* the next turn updates `full` */
        return segments_scarce_why(segments, need);
    if (full &&
        (segments_alone(segments, need) || segments_room(segments) < need + reserved_room(store)))
        return full;
    if (log_is_behind(store->log))
        return ERR_AGAIN;
    return OK;
}

void store_turn(struct store *store, int64_t now_us)
{
    store->now_us = now_us;
    segments_make_spares(store->segments);
    history_turn(store->history);
    cleaner_turn(store->cleaner);
    slices_turn(store->slices);
    log_turn(store->log);
    body_reads_turn(store->body_reads);
    far_reads_turn(store->far_reads);
    far_pages_turn(store->far_pages);
}

int64_t store_cleaning_us(const struct store *store)
{
    return cleaner_allowed_us(store->cleaner);
}

int64_t store_next_us(const struct store *store)
{
    int64_t next_us = body_reads_next_us(store->body_reads);
    next_us = time_earlier(next_us, far_reads_next_us(store->far_reads));
    next_us = time_earlier(next_us, far_pages_next_us(store->far_pages));
    next_us = time_earlier(next_us, history_next_us(store->history));
    if (store->failed)
        return next_us; /* only reads go on */
    next_us = time_earlier(next_us, log_next_us(store->log));
    next_us = time_earlier(next_us, cleaner_next_us(store->cleaner));
    next_us = time_earlier(next_us, slices_next_us(store->slices));
    return time_earlier(next_us, segments_next_us(store->segments));
}

void store_poll(struct store *store)
{
    (void)store->disk->verbs->poll(store->disk);
}

void store_stats(const struct store *store, struct store_stats *out_stats)
{
    *out_stats = (struct store_stats){
        .cold_reads = store->cold_reads,
        .recovered_events = store->recovered_events,
        .dropped_tail_bytes = store->dropped_tail_bytes,
        .recovery_us = store->recovery_us,
    };
    segments_stats(store->segments, out_stats);
    log_stats(store->log, out_stats);
    cleaner_stats(store->cleaner, out_stats);
    followers_stats(store->followers, out_stats);
    slices_stats(store->slices, out_stats);
    history_stats(store->history, out_stats);
}

void store_valid(const struct store *store)
{
    manifest_valid(store->manifest);
    segments_valid(store->segments);
    log_valid(store->log);
    cleaner_valid(store->cleaner);
    followers_valid(store->followers);
    body_reads_valid(store->body_reads);
    slices_valid(store->slices);
    far_reads_valid(store->far_reads);
    far_pages_valid(store->far_pages);
    history_valid(store->history);
}
