#include "store/history/history.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/far.h"
#include "store/history/history_parts.h"
#include "store/job_history.h"
#include "store/slices/spill.h"

enum {
    FLUSH_BYTES = 2 * 1024 * 1024, /* size of the table in memory that starts a flush to a file */
    WAITING_MAX = 64 * 1024,       /* of entries that are not in the log yet */
    TURN_ENTRIES = 2000,           /* built in one turn: up to 1 µs each, … */
    SORTS_AS_ONE = 4,              /* … the same cost as sorting so many */
    AGAIN_US = 100 * 1000,         /* until the next try, if no descriptor was free */
    YIELD_US = 1000 * 1000,        /* between checks whether far jobs lack room */
};

/* ---- files ---- */

struct history_file *history_file_new(struct history *history, uint32_t number,
                                      const struct history_head *head, const char *fences)
{
    struct history_fence *decoded = mem_alloc(((size_t)head->blocks + 1) * sizeof(*decoded));
    if (history_fences_decode(head, fences, decoded)) {
        mem_free(decoded);
        return NULL;
    }
    struct history_file *file = mem_zalloc(sizeof(*file));
    file->number = number;
    file->head = *head;
    file->fences = decoded;
    history->file_count++;
    history->bytes += head->size_bytes;
    history->entries += head->entries;
    segments_note_history(history->store->segments, history->bytes);
    return file;
}

static void file_free(struct history *history, struct history_file *file)
{
    CHECK(file->users == 0);
    history->file_count--;
    history->bytes -= file->head.size_bytes;
    history->entries -= file->head.entries;
    segments_note_history(history->store->segments, history->bytes);
    list_remove(&file->link);
    mem_free(file->fences);
    mem_free(file);
}

void history_retire(struct history *history, struct history_file *file)
{
    list_remove(&file->link);
    list_add_tail(&history->retired, &file->link);
}

static struct history_file *oldest(const struct history *history)
{
    return list_empty(&history->files) ? NULL
                                       : LIST_ENTRY(history->files.next, struct history_file, link);
}

bool history_has_room(const struct history *history, uint64_t bytes)
{
    const struct store *store = history->store;
    uint64_t max_bytes = store->options.max_bytes;
    uint64_t used = segments_store_bytes(store->segments);
    uint64_t spare =
        2 * store->options
                .segment_bytes; /* segments.c keeps so much for spares, and has used some of it */
    uint64_t made = segments_room(store->segments);
    spare = (made < spare ? spare - made : 0) + segments_copies_max(store->segments);
    if (cleaner_may_want_checkpoint(store->cleaner, spill_room_bytes(store)) &&
        spill_would_have_room(store, history->bytes))
        spare += spill_room_bytes(store); /* else far jobs would stay in memory */
    return !segments_full(store->segments) &&
           store->disk->verbs->room(store->disk) > bytes + spare &&
           (max_bytes == 0 || used + bytes + spare <= max_bytes);
}

static void removed(struct disk_op *op)
{
    struct history *history = op->owner;
    struct history_file *file = LIST_ENTRY(history->retired.next, struct history_file, link);
    history->removing = false;
    if (op->err && op->err != ERR_NOT_FOUND) {
        store_fail(history->store, op->sys_errno);
        return;
    }
    history->retry_at_us = history->store->now_us; /* there may be room now */
    file_free(history, file);
}

/* Removes one file at a time. A file without searches moves to the front of the waiting ones. */
static void remove_retired(struct history *history)
{
    if (history->removing)
        return;
    for (struct list *link = history->retired.next; link != &history->retired; link = link->next) {
        struct history_file *file = LIST_ENTRY(link, struct history_file, link);
        if (file->users > 0)
            continue;
        list_remove(link);
        list_add_head(&history->retired, link);
        history->remove = (struct disk_op){
            .verb = DISK_REMOVE, .lane = LANE_BACKGROUND, .done = removed, .owner = history};
        history_name(file->number, history->remove.name);
        history->removing = true;
        history->store->disk->verbs->submit(history->store->disk, &history->remove);
        return;
    }
}

/* Retires the oldest file, to free disk space, unless one is being removed already. False: there is
   no file. */
static bool retire_oldest(struct history *history)
{
    struct history_file *file = oldest(history);
    if (!list_empty(&history->retired))
        return true;
    if (file && !file->merging)
        history_retire(history, file);
    return file != NULL;
}

/* Not while segments are being made in the room of the file that was removed last. */
static bool jobs_lack_room(const struct history *history)
{
    const struct segments *segments = history->store->segments;
    return segments_full(segments) && !segments_making(segments) &&
           segments_next_us(segments) > history->store->now_us;
}

/* Must far jobs stay in memory, because history has the room that slices of them need? */
static bool far_jobs_lack_room(struct history *history)
{
    const struct store *store = history->store;
    if (store->now_us < history->yield_at_us || history->file_count == 0 ||
        !cleaner_wants_checkpoint(store->cleaner))
        return false;
    history->yield_at_us = store->now_us + YIELD_US;
    return !spill_would_have_room(store, 0) && spill_would_have_room(store, history->bytes);
}

/* Retires files that are too old, unless history is off; and the oldest if jobs have no room. */
static void expire(struct history *history)
{
    struct history_file *file = oldest(history);
    if (jobs_lack_room(history) || far_jobs_lack_room(history))
        (void)retire_oldest(history);
    else if (file && !file->merging && history->keep_us > 0 &&
             file->head.at_last_us < history->store->now_us - history->keep_us)
        history_retire(history, file);
}

/* ---- adding entries ---- */

static void write_record(struct history *history, struct bytes entry, bool promised)
{
    if (segments_full(history->store->segments))
        return; /* the last room is for ends of jobs, so the entry is in memory only */
    log_append_history(history->store->log, entry, promised);
}

/* Writes waiting entries to the log, before a later one. */
static void write_waiting(struct history *history)
{
    uint16_t len;
    for (size_t at = 0; at < history->waiting.len; at += sizeof(len) + len) {
        memcpy(&len, history->waiting.at + at, sizeof(len));
        write_record(history, bytes_of(history->waiting.at + at + sizeof(len), len), false);
    }
    history->waiting.len = 0;
}

static void wait_for_batch(struct history *history, struct bytes entry)
{
    uint16_t len = (uint16_t)entry.len;
    buf_add(&history->waiting, &len, sizeof(len));
    buf_add_bytes(&history->waiting, entry);
    if (history->waiting.len > WAITING_MAX)
        write_waiting(history);
}

/*
 * A reservation by a connection is not in the log, and its entry must not cause a write of its own:
 * it waits until another record begins a batch.
 */
void store_history_add(struct store *store, const struct happening *happening)
{
    struct history *history = store->history;
    char room[HISTORY_ENTRY_MAX];
    if (history->keep_us == 0 || store->failed)
        return;
    struct bytes entry = bytes_of(room, history_entry_encode(happening, room));
    if (!happening->promised && !log_is_open(store->log)) {
        wait_for_batch(history, entry);
    } else {
        write_waiting(history);
        write_record(history, entry, happening->promised);
    }
    /* If it was not written to the log, it belongs to the next batch. */
    uint64_t batch = log_batch(store->log) + !log_is_open(store->log);
    history_table_add(&history->table, history_key(history->key, happening->seq, happening->id),
                      entry, batch);
}

void history_drain(struct history *history)
{
    write_waiting(history);
}

/* ---- a flush ---- */

static bool is_pressed(const struct history *history)
{
    return history->wanted || history->table.bytes >= FLUSH_BYTES;
}

/* Begins a flush: seals the open batch, so that all entries of the table belong to sealed batches.
 */
static void freeze(struct history *history)
{
    struct log *log = history->store->log;
    write_waiting(history);
    if (log_batch(log) < history->table.batch_first) { /* the log lacks its entries, because the
                                                          disk was full: no file can have them */
        history->lost += history->table.count;
        history_table_clear(&history->table);
        history->wanted = false;
        return;
    }
    log_seal_open(log);
    history->frozen = history->table;
    history->frozen_last = log_batch(log);
    history->table = (struct history_table){0};
    history->step = FLUSH_SYNC;
}

static void end_flush(struct history *history)
{
    history_table_clear(&history->frozen);
    history_image_discard(&history->image, &history->spent);
    history_sort_fini(&history->sort);
    history->step = FLUSH_IDLE;
    history->wanted = false;
}

/* Drops the frozen table. The next file covers its batches as well, so no opening replays them. */
static void give_up(struct history *history)
{
    history->lost += history->frozen.count;
    end_flush(history);
}

static void await_sync(struct history *history)
{
    struct store *store = history->store;
    if (log_synced(store->log) < history->frozen_last) {
        if (store->options.buffered && is_pressed(history))
            log_want_sync(store->log);
        return;
    }
    CHECK(history->frozen_last > history->covered); /* recovery starts no log that ends before */
    history->image.head = (struct history_head){
        .id = store->id,
        .batch_first = history->covered + 1,
        .batch_last = history->frozen_last,
    };
    buf_reserve(&history->image.bytes, history->frozen.bytes);
    history_image_begin(&history->image);
    history->number = history->number_next++;
    history->bucket = 0;
    history->step = FLUSH_BUILD;
}

static void build_one(struct history *history, const struct history_node *node)
{
    struct happening happening;
    size_t len;
    enum err err = history_entry_decode(node->entry, node->len, &happening, &len);
    CHECK(!err); /* this process has encoded it, or decoded it before */
    history_image_add(&history->image, node->key, bytes_of(node->entry, node->len),
                      happening.at_us);
}

/* All entries of a job are in one bucket, maybe many: a turn may end within it. */
static void build(struct history *history)
{
    const struct history_node *node;
    uint32_t sorted;
    for (unsigned work = 0; work < SORTS_AS_ONE * TURN_ENTRIES;) {
        if ((sorted = history_sort_group(&history->sort)) > 0) {
            work += sorted;
            history->steps += sorted;
        } else if ((node = history_sort_next(&history->sort)) != NULL) {
            build_one(history, node);
            work += SORTS_AS_ONE;
            history->steps++;
        } else if (history->bucket < HISTORY_BUCKETS) {
            history_sort_begin(&history->sort, &history->frozen, history->bucket++);
        } else {
            history_image_end(&history->image);
            history->step = FLUSH_WRITE;
            return;
        }
    }
}

/* Writes the file again later, while memory has room for new entries. */
static void put_off(struct history *history)
{
    history->retry_at_us = history->store->now_us + AGAIN_US;
    if (history->table.bytes >= FLUSH_BYTES)
        give_up(history);
}

/* Retires the oldest file in favour of new entries, if a flush is urgent. False: not urgent, or
   there is no file. */
static bool make_room(struct history *history)
{
    return is_pressed(history) && retire_oldest(history);
}

static void written(struct disk_op *op)
{
    struct history *history = op->owner;
    history->writing = false;
    if (op->err == ERR_AGAIN || op->err == ERR_DISK_FULL) {
        if (op->err == ERR_DISK_FULL)
            (void)make_room(history); /* if there is less room than the disk had reported */
        put_off(history);
        return;
    }
    if (op->err) {
        store_fail(history->store, op->sys_errno);
        return;
    }
    const struct history_head *head = &history->image.head;
    struct history_file *file =
        history_file_new(history, history->number, head, history->image.bytes.at + head->data_end);
    CHECK(file); /* it was encoded just before */
    list_add_tail(&history->files, &file->link);
    history->covered = head->batch_last;
    end_flush(history);
}

static void write_file(struct history *history)
{
    struct store *store = history->store;
    if (store->now_us < history->retry_at_us)
        return;
    if (!history_has_room(history, history->image.bytes.len)) {
        history->retry_at_us = store->now_us + AGAIN_US;
        bool jobs_wait = history->wanted && !segments_full(store->segments);
        if (!make_room(history) && (jobs_wait || history->table.bytes >= FLUSH_BYTES))
            give_up(history);
        return;
    }
    history->write = (struct disk_op){
        .verb = DISK_REPLACE,
        .lane = LANE_BACKGROUND,
        .data = history->image.bytes.at,
        .len = history->image.bytes.len,
        .done = written,
        .owner = history,
    };
    history_name(history->number, history->write.name);
    history->writing = true;
    store->disk->verbs->submit(store->disk, &history->write);
}

static void flush(struct history *history)
{
    if (history->writing)
        return;
    switch (history->step) {
    case FLUSH_IDLE:
        if (history->table.count > 0 && is_pressed(history))
            freeze(history);
        break;
    case FLUSH_SYNC: await_sync(history); break;
    case FLUSH_BUILD: build(history); break;
    case FLUSH_WRITE: write_file(history); break;
    }
}

bool history_let_go(struct history *history, uint64_t batch)
{
    bool frozen = history->frozen.count > 0 && history->frozen.batch_first <= batch;
    bool in_table = history->table.count > 0 && history->table.batch_first <= batch;
    if ((!frozen && !in_table) || segments_full(history->store->segments))
        return true;
    history->wanted = true;
    return false;
}

/* ---- the turn ---- */

/* History is off, and nothing is left of a time when it was on. */
static bool is_off(const struct history *history)
{
    return history->keep_us == 0 && list_empty(&history->files) && list_empty(&history->retired);
}

/* A function of its own, so that turns without a history save no registers for it. */
static __attribute__((noinline)) void work(struct history *history)
{
    if (history->store->failed || history->store->closing)
        return;
    if (history->waiting.len > 0 && log_is_open(history->store->log))
        write_waiting(history);
    if (history->keep_us > 0) {
        flush(history);
        history_merge_turn(history->merge);
    }
    expire(history);
    remove_retired(history);
}

void history_turn(struct history *history)
{
    if (!list_empty(&history->searches))
        history_searches_turn(history);
    (void)discard_step(&history->spent);
    if (!is_off(history))
        work(history);
}

static int64_t flush_next_us(const struct history *history)
{
    const struct store *store = history->store;
    int64_t now_us = store->now_us;
    if (history->writing)
        return INT64_MAX;
    switch (history->step) {
    case FLUSH_IDLE: return history->table.count > 0 && is_pressed(history) ? now_us : INT64_MAX;
    case FLUSH_SYNC: return log_synced(store->log) >= history->frozen_last ? now_us : INT64_MAX;
    case FLUSH_BUILD: return now_us;
    case FLUSH_WRITE: return history->retry_at_us > now_us ? history->retry_at_us : now_us;
    }
    return INT64_MAX;
}

int64_t history_next_us(const struct history *history)
{
    const struct store *store = history->store;
    int64_t now_us = store->now_us;
    int64_t next_us = history_searches_next_us(history);
    next_us = next_us > now_us && !history->spent.first ? next_us : now_us;
    if (history->keep_us == 0 || store->failed || store->closing)
        return next_us;
    if (history_merge_works(history->merge))
        return now_us;
    int64_t flush_us = flush_next_us(history);
    return flush_us < next_us ? flush_us : next_us;
}

bool history_busy(const struct history *history)
{
    return history->writing || history->removing || history->reading > 0 ||
           history_merge_busy(history->merge);
}

/* ---- opening ---- */

struct found_history {
    struct history *history;
    struct buf numbers; /* uint32_t, of complete files … */
    struct buf halves;  /* … and of files that were being written */
};

static void found_name(void *ctx, const char *name)
{
    struct found_history *found = ctx;
    uint32_t number;
    bool half_made;
    if (!history_name_parse(name, &number, &half_made))
        return;
    buf_add(half_made ? &found->halves : &found->numbers, &number, sizeof(number));
    if (number >= found->history->number_next && number < UINT32_MAX)
        found->history->number_next = number + 1;
}

enum err history_file_read(struct disk *disk, struct disk_file *file, struct history_head *out_head,
                           char **out_fences)
{
    *out_head = (struct history_head){0};
    char *block = mem_aligned(BLOCK, BLOCK);
    uint64_t size_bytes = 0;
    enum err err = directory_read_all(disk, file, 0, block, BLOCK);
    enum format_verdict verdict = err ? FORMAT_BAD : history_head_decode(block, out_head);
    mem_free(block);
    enum err size_err = disk->verbs->size(disk, file, &size_bytes);
    if (err || size_err)
        return err ? err : size_err;
    bool whole = out_head->size_bytes == size_bytes;
    out_head->size_bytes = size_bytes; /* with padding */
    if (verdict != FORMAT_GOOD)
        return verdict == FORMAT_NEWER ? ERR_UNSUPPORTED : ERR_CORRUPT;
    if (!whole)
        return ERR_CORRUPT;
    size_t len = (size_t)out_head->blocks * HISTORY_FENCE_BYTES;
    char *fences = mem_alloc(len + 1);
    err = directory_read_all(disk, file, out_head->data_end, fences, len);
    if (err)
        mem_free(fences);
    else
        *out_fences = fences;
    return err;
}

/*
 * Keeps a file that cannot be read, because another version, or another try, may read it. If its
 * header names its batches, it keeps its place among the others.
 */
static void keep_unread(struct history *history, uint32_t number, struct history_head *head)
{
    bool ours = store_id_eq(&head->id, &history->store->id) && head->batch_first > 0 &&
                head->batch_last >= head->batch_first;
    bool nameless = head->version == 0;
    head->blocks = 0;
    head->entries = 0;
    head->fences_sum = hash_of("", 0);
    head->data_end = BLOCK;
    struct history_file *file = history_file_new(history, number, head, "");
    CHECK(file);
    file->damaged = true;
    file->nameless = nameless;
    list_add_tail(ours ? &history->files : &history->strays, &file->link);
}

static enum err load(struct history *history, uint32_t number, struct store_error *out_error)
{
    struct disk *disk = history->store->disk;
    struct disk_file *disk_file;
    struct history_head head = {0};
    char *fences = NULL;
    char name[DISK_NAME_MAX];
    history_name(number, name);
    enum err err = disk->verbs->open(disk, name, DISK_CACHED, &disk_file);
    if (!err) {
        err = history_file_read(disk, disk_file, &head, &fences);
        disk->verbs->close(disk, disk_file);
    }
    if (err && err != ERR_CORRUPT && err != ERR_UNSUPPORTED) {
        store_error_set(out_error, name, 0, "this part of the jobs' history cannot be read");
        return err;
    }
    struct history_file *file = NULL;
    if (!err && store_id_eq(&head.id, &history->store->id))
        file = history_file_new(history, number, &head, fences);
    mem_free(fences);
    if (file) {
        list_add_tail(&history->files, &file->link);
        return OK;
    }
    keep_unread(history, number, &head);
    if (!out_error->text[0])
        store_error_set(out_error, name, 0,
                        "notice: this part of the jobs' history is damaged, of another store or of "
                        "a newer laterd; it is not shown, and no job is concerned");
    return OK;
}

static bool is_before(const struct history_file *a, const struct history_file *b)
{
    return a->head.batch_first != b->head.batch_first ? a->head.batch_first < b->head.batch_first
                                                      : a->head.batch_last > b->head.batch_last;
}

/*
 * A merged file that cannot be read makes way for its inputs, if they are still there: it becomes a
 * stray. False: the last file so far is no such file.
 */
static bool takes_place_of_unread(struct history *history, const struct history_file *file)
{
    struct history_file *last = LIST_ENTRY(history->files.prev, struct history_file, link);
    if (list_empty(&history->files) || !last->damaged || file->damaged)
        return false;
    list_remove(&last->link);
    list_add_tail(&history->strays, &last->link);
    return true;
}

/* Sorts files by their batches. Removes files that were merged but not removed before a crash. */
static void put_in_order(struct history *history)
{
    struct list all;
    uint64_t covered = 0;
    list_init(&all);
    while (!list_empty(&history->files)) {
        struct list *first = history->files.next;
        for (struct list *link = first; link != &history->files; link = link->next)
            if (is_before(LIST_ENTRY(link, struct history_file, link),
                          LIST_ENTRY(first, struct history_file, link)))
                first = link;
        list_remove(first);
        list_add_tail(&all, first);
    }
    while (!list_empty(&all)) {
        struct history_file *file = LIST_ENTRY(all.next, struct history_file, link);
        bool kept = file->head.batch_first > covered || takes_place_of_unread(history, file);
        list_remove(&file->link);
        list_add_tail(kept ? &history->files : &history->retired, &file->link);
        covered = kept ? file->head.batch_last : covered;
    }
    history->covered = covered;
}

enum err history_begin(struct history *history, struct store_error *out_error)
{
    struct disk *disk = history->store->disk;
    struct found_history found = {.history = history};
    history->key = store_far_key(history->store);
    enum err err = disk->verbs->list(disk, found_name, &found);
    for (size_t at = 0; at < found.numbers.len && !err; at += sizeof(uint32_t)) {
        uint32_t number;
        memcpy(&number, found.numbers.at + at, sizeof(number));
        err = load(history, number, out_error);
    }
    for (size_t at = 0; at < found.halves.len && !err; at += sizeof(uint32_t)) {
        uint32_t number;
        struct disk_op op = {.verb = DISK_REMOVE, .lane = LANE_BACKGROUND};
        memcpy(&number, found.halves.at + at, sizeof(number));
        history_tmp_name(number, op.name);
        disk->verbs->run(disk, &op);
        err = op.err;
    }
    buf_fini(&found.numbers);
    buf_fini(&found.halves);
    put_in_order(history);
    return err;
}

void history_replay(struct history *history, struct bytes entry, uint64_t batch)
{
    struct happening happening;
    size_t len;
    if (history->keep_us == 0 || batch <= history->covered ||
        history_entry_decode(entry.at, entry.len, &happening, &len))
        return;
    history_table_add(&history->table, history_key(history->key, happening.seq, happening.id),
                      entry, batch);
}

uint64_t history_covered(const struct history *history)
{
    return history->covered;
}

/* ---- life ---- */

struct history *history_new(struct store *store)
{
    struct history *history = mem_zalloc(sizeof(*history));
    history->store = store;
    history->keep_us = store->options.history_us;
    history->retry_at_us = history->yield_at_us = INT64_MIN;
    history->merge = history_merge_new(history);
    list_init(&history->files);
    list_init(&history->retired);
    list_init(&history->strays);
    list_init(&history->searches);
    return history;
}

void history_free(struct history *history)
{
    if (!history)
        return;
    CHECK(!history_busy(history));
    history_searches_fini(history);
    history_merge_free(history->merge);
    while (!list_empty(&history->files))
        file_free(history, LIST_ENTRY(history->files.next, struct history_file, link));
    while (!list_empty(&history->retired))
        file_free(history, LIST_ENTRY(history->retired.next, struct history_file, link));
    while (!list_empty(&history->strays))
        file_free(history, LIST_ENTRY(history->strays.next, struct history_file, link));
    history_table_clear(&history->table);
    history_table_clear(&history->frozen);
    history_image_fini(&history->image);
    discard_fini(&history->spent);
    buf_fini(&history->waiting);
    history_sort_fini(&history->sort);
    mem_free(history);
}

void history_stats(const struct history *history, struct store_stats *out_stats)
{
    const struct history_file *file = oldest(history);
    out_stats->keeps_history = history->keep_us > 0;
    out_stats->history_files = history->file_count;
    out_stats->history_bytes = history->bytes;
    out_stats->history_entries = history->entries + history->table.count + history->frozen.count;
    out_stats->history_table_bytes = history->table.bytes + history->frozen.bytes;
    out_stats->history_lost = history->lost;
    out_stats->history_oldest_us = file ? file->head.at_first_us : 0;
}

void history_valid(const struct history *history)
{
    uint64_t covered = 0, bytes = 0;
    uint32_t count = 0;
    const struct list *link;
    for (link = history->files.next; link != &history->files; link = link->next, count++) {
        const struct history_file *file = LIST_ENTRY(link, const struct history_file, link);
        CHECK(file->head.batch_first > covered); /* H1 */
        covered = file->head.batch_last;
        bytes += file->head.size_bytes;
    }
    CHECK(covered <= history->covered || history->keep_us == 0);
    for (link = history->retired.next; link != &history->retired; link = link->next, count++)
        bytes += LIST_ENTRY(link, const struct history_file, link)->head.size_bytes;
    for (link = history->strays.next; link != &history->strays; link = link->next, count++)
        bytes += LIST_ENTRY(link, const struct history_file, link)->head.size_bytes;
    CHECK(count == history->file_count && bytes == history->bytes);
    CHECK(history->frozen.count == 0 || history->frozen.batch_first > history->covered);
    CHECK(history->frozen.count == 0 || history->step != FLUSH_IDLE);
    CHECK(history->table.count == 0 || history->step == FLUSH_IDLE ||
          history->table.batch_first >= history->frozen_last);
}
