/*
 * Owns the segments: which there are, their files, how much of each still lives. Files are made
 * ahead (spares), because making one costs a hundred commits, and because a disk that turns out
 * full must leave room enough for ending jobs and for cleaning.
 *
 * Numbers are names only, never used twice; the log's order is that of the batches.
 */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/internal.h"

static struct segment *of_link(struct list *link)
{
    return LIST_ENTRY(link, struct segment, link);
}

/* ---- the table ---- */

struct segment *segment_add(struct store *store, uint32_t number, uint64_t size_bytes)
{
    CHECK(number >= store->number_base);
    if (number >= store->number_next) {
        size_t count = (size_t)(number - store->number_base) + 1;
        size_t old = store->number_next - store->number_base;
        size_t item = sizeof(*store->by_number);
        store->by_number = mem_realloc(store->by_number, count * item);
        memset(store->by_number + old, 0, (count - old) * item);
        store->number_next = number + 1;
    }
    struct segment *segment = mem_zalloc(sizeof(*segment));
    segment->store = store;
    segment->number = number;
    segment->state = SEGMENT_STALLED;
    segment->size_bytes = size_bytes;
    segment->end = BLOCK;
    list_init(&segment->link);
    list_init(&segment->open_link);
    store->by_number[number - store->number_base] = segment;
    return segment;
}

void segment_drop(struct store *store, struct segment *segment)
{
    if (segment->state != SEGMENT_STALLED)
        store->disk_bytes -= segment->size_bytes;
    store->live_bytes -= segment->live_bytes;
    store->live_jobs -= segment->live_jobs;
    store->by_number[segment->number - store->number_base] = NULL;
    segment_close(store, segment);
    store->damaged_segments -= segment->damaged;
    list_remove(&segment->link);
    mem_free(segment);
}

struct segment *segment_find(const struct store *store, uint32_t number)
{
    if (number < store->number_base || number >= store->number_next)
        return NULL;
    return store->by_number[number - store->number_base];
}

struct segment *segment_tail(const struct store *store)
{
    return list_empty(&store->log) ? NULL : of_link(store->log.prev);
}

struct segment *segment_first(const struct store *store)
{
    return list_empty(&store->log) ? NULL : of_link(store->log.next);
}

struct segment *segment_after(const struct store *store, const struct segment *segment)
{
    return segment->link.next == &store->log ? NULL : of_link(segment->link.next);
}

/* ---- making files ---- */

/* The first segment of the log whose file is not there: batches wait for it. NULL: all are. */
static struct segment *first_unmade(const struct store *store)
{
    struct segment *first = NULL;
    for (struct list *link = store->log.prev; link != &store->log; link = link->prev) {
        struct segment *segment = of_link(link);
        if (segment->state == SEGMENT_HEADED)
            break; /* so are all before it */
        if (segment->state != SEGMENT_READY)
            first = segment;
    }
    return first;
}

/* A spare that cannot be had whole is made as small as the cleaner needs: it makes the room. */
static bool shrink_spare(const struct store *store, struct segment *spare)
{
    if (store->wanted_bytes && store->wanted_bytes < spare->size_bytes) {
        spare->size_bytes = store->wanted_bytes;
        return true;
    }
    spare->size_bytes = store->options.segment_bytes; /* for the next try */
    return false;
}

/*
 * The last resort without room: the segment that batches wait for is made with half the size, down
 * to what they need, because ends of jobs may be among them, and ends give the room back. Only the
 * first such segment: a later one would take away what the first must have.
 */
static bool shrink(struct store *store, struct segment *segment)
{
    if (!segment->batch_first)
        return shrink_spare(store, segment);
    const struct batch *open = store->open;
    uint64_t need = segment->end;
    if (open && open->segment == segment)
        need += batch_bytes(open->payload_bytes);
    if (need < segment->least_bytes)
        need = segment->least_bytes;
    if (store->failed || segment != first_unmade(store) || segment->size_bytes <= need)
        return false;
    uint64_t half = segment->size_bytes / 2 / BLOCK * BLOCK;
    segment->size_bytes = half > need ? half : need;
    return true;
}

static void make(struct store *store, struct segment *segment);

static void made(struct disk_op *op)
{
    struct segment *segment = op->owner;
    struct store *store = segment->store;
    if (op->err == OK) {
        segment->state = SEGMENT_READY;
        segment_opened(store, segment, op->file);
        store->starved = false;
        store->retry_at_us = store->now_us; /* is there room for the next? */
        wal_start_next(store);
        return;
    }
    segment->state = SEGMENT_STALLED;
    store->disk_bytes -= segment->size_bytes;
    if (op->err == ERR_AGAIN) { /* segment_provide tries again */
        store->starved = true;
        store->retry_at_us = store->now_us + REOPEN_US;
        return;
    }
    if (op->err != ERR_DISK_FULL) {
        wal_fail(store, op->sys_errno);
        return;
    }
    store->full = ERR_DISK_FULL;
    store->retry_at_us = store->now_us + RETRY_US;
    if (shrink(store, segment))
        make(store, segment);
}

static bool above_limit(const struct store *store, const struct segment *segment)
{
    uint64_t max_bytes = store->options.max_bytes;
    return max_bytes && store->disk_bytes + segment->size_bytes + MANIFEST_BYTES > max_bytes;
}

static void make(struct store *store, struct segment *segment)
{
    CHECK(segment->state == SEGMENT_STALLED);
    while (above_limit(store, segment)) {
        store->full = ERR_DISK_LIMIT;
        store->retry_at_us = store->now_us + RETRY_US;
        if (!shrink(store, segment))
            return;
    }
    segment->state = SEGMENT_MAKING;
    store->disk_bytes += segment->size_bytes;
    segment->make = (struct disk_op){
        .verb = DISK_MAKE,
        .lane = LANE_BACKGROUND,
        .len = segment->size_bytes,
        .done = made,
        .owner = segment,
    };
    segment_name(segment->number, segment->make.name);
    store->disk->verbs->submit(store->disk, &segment->make);
}

static struct segment *add_spare(struct store *store, uint64_t size_bytes)
{
    struct segment *segment = segment_add(store, store->number_next, size_bytes);
    list_add_tail(&store->spares, &segment->link);
    store->spare_count++;
    if (!store->full || !first_unmade(store)) /* else those that batches wait for come first */
        make(store, segment);
    return segment;
}

/* The file that is wanted most. Those in the log come first: batches wait for them. */
static struct segment *most_wanted(const struct store *store)
{
    struct segment *unmade = first_unmade(store);
    for (struct list *link = store->spares.next; link != &store->spares && !unmade;
         link = link->next)
        if (of_link(link)->state != SEGMENT_READY)
            unmade = of_link(link);
    return unmade;
}

/* Those of less than the usual size do not count: they are last resorts. */
static unsigned whole_spares(const struct store *store)
{
    unsigned count = 0;
    for (struct list *link = store->spares.next; link != &store->spares; link = link->next)
        count += of_link(link)->size_bytes >= store->options.segment_bytes;
    return count;
}

static uint64_t kept_bytes(const struct store *store)
{
    return 2 * store->options.segment_bytes;
}

/* Bytes of files that are being made, and bytes that are placed in files not made yet. */
static uint64_t unmade_bytes(const struct store *store, uint64_t *out_owed)
{
    uint64_t making = 0;
    *out_owed = 0;
    for (struct list *link = store->spares.next; link != &store->spares; link = link->next)
        if (of_link(link)->state == SEGMENT_MAKING)
            making += of_link(link)->size_bytes;
    for (struct list *link = store->log.prev; link != &store->log; link = link->prev) {
        struct segment *segment = of_link(link);
        if (segment->state == SEGMENT_READY || segment->state == SEGMENT_HEADED)
            break; /* so are all before it */
        if (segment->state == SEGMENT_MAKING)
            making += segment->size_bytes;
        *out_owed += segment->end;
        if (store->open && store->open->segment == segment)
            *out_owed += batch_bytes(store->open->payload_bytes);
    }
    return making;
}

bool segment_scarce(const struct store *store)
{
    uint64_t room = segment_room(store);
    uint64_t max_bytes = store->options.max_bytes;
    uint64_t more = store->free_bytes;
    uint64_t owed;
    if (room >= kept_bytes(store))
        return false;
    uint64_t making = unmade_bytes(store, &owed);
    if (max_bytes) {
        uint64_t used = store->disk_bytes - making + MANIFEST_BYTES;
        uint64_t left = max_bytes > used ? max_bytes - used : 0;
        more = left < more ? left : more;
    }
    return more < kept_bytes(store) + owed - room;
}

/*
 * The disk counts as full before it is: while it still has room enough to clean. It is asked only
 * while spares are missing.
 */
static void watch(struct store *store)
{
    bool ask = segment_room(store) < kept_bytes(store);
    store->free_bytes = ask ? store->disk->verbs->room(store->disk) : UINT64_MAX;
    if (store->full || !segment_scarce(store))
        return;
    uint64_t free_bytes = store->free_bytes;
    store->free_bytes = UINT64_MAX;
    store->full = segment_scarce(store) ? ERR_DISK_LIMIT : ERR_DISK_FULL;
    store->free_bytes = free_bytes;
    store->retry_at_us = store->now_us;
}

void segment_provide(struct store *store)
{
    if (store->failed || store->closing)
        return;
    watch(store);
    if ((store->full || store->starved) && store->now_us < store->retry_at_us)
        return;
    /* While one is being made there is nothing to do: made() says more, or the next try. */
    store->retry_at_us = store->now_us + RETRY_US;
    struct segment *unmade = most_wanted(store);
    bool enough = whole_spares(store) >= SPARES;
    if (unmade && unmade->state == SEGMENT_STALLED)
        make(store, unmade);
    else if (store->full && !unmade && enough && !segment_scarce(store))
        store->full = OK; /* nothing is wanted that is not there */
    else if (store->full && !unmade && !enough)
        (void)add_spare(store, store->options.segment_bytes); /* is there room again? */
    while (!store->full && whole_spares(store) < SPARES)
        (void)add_spare(store, store->options.segment_bytes);
}

/* The better one for what needs little: there already, and as small as can be. */
static bool better(const struct segment *spare, const struct segment *best)
{
    bool ready = spare->state == SEGMENT_READY;
    if (ready != (best->state == SEGMENT_READY))
        return ready;
    return spare->size_bytes < best->size_bytes;
}

struct segment *segment_next(struct store *store, uint64_t bytes, uint64_t batch_first)
{
    struct segment *best = NULL;
    for (struct list *link = store->spares.next; link != &store->spares; link = link->next) {
        struct segment *spare = of_link(link);
        bool fits = spare->size_bytes >= bytes + BLOCK;
        if (fits && (!best || better(spare, best)))
            best = spare;
    }
    if (!best) {
        uint64_t size_bytes = store->options.segment_bytes;
        if (size_bytes < bytes + BLOCK)
            size_bytes = bytes + BLOCK; /* one record larger than a segment has its own */
        best = add_spare(store, size_bytes);
    }
    list_remove(&best->link);
    store->spare_count--;
    list_add_tail(&store->log, &best->link);
    store->log_count++;
    best->batch_first = batch_first;
    best->least_bytes = bytes + BLOCK;
    segment_provide(store);
    return best;
}

uint64_t segment_unused(const struct store *store)
{
    const struct segment *tail = segment_tail(store);
    uint64_t bytes = tail && tail->state != SEGMENT_STALLED ? tail->size_bytes : 0;
    for (struct list *link = store->spares.next; link != &store->spares; link = link->next)
        if (of_link(link)->state != SEGMENT_STALLED)
            bytes += of_link(link)->size_bytes;
    return bytes;
}

uint64_t segment_room(const struct store *store)
{
    uint64_t room = 0;
    const struct segment *tail = segment_tail(store);
    if (tail && (tail->state == SEGMENT_READY || tail->state == SEGMENT_HEADED)) {
        uint64_t open = store->open ? batch_bytes(store->open->payload_bytes) : 0;
        room += tail->size_bytes - tail->end - open;
    }
    for (struct list *link = store->spares.next; link != &store->spares; link = link->next)
        if (of_link(link)->state == SEGMENT_READY)
            room += of_link(link)->size_bytes - BLOCK;
    return room;
}

bool segment_fits(const struct store *store, uint64_t bytes, uint64_t record_max)
{
    const struct segment *tail = segment_tail(store);
    uint64_t room = segment_room(store);
    bool whole = false; /* one file takes them all */
    uint64_t places = tail && (tail->state == SEGMENT_READY || tail->state == SEGMENT_HEADED);
    for (struct list *link = store->spares.next; link != &store->spares; link = link->next) {
        if (of_link(link)->state != SEGMENT_READY)
            continue;
        whole = whole || of_link(link)->size_bytes - BLOCK >= bytes;
        places++;
    }
    return whole || (places > 0 && room >= bytes + (places - 1) * (record_max + BLOCK));
}

/* ---- open files ---- */

/*
 * May its file be closed? Not while a commit uses it, nor while there may be something in it that
 * is not synced: a new descriptor would not hear of an error of the old one's writes.
 */
static bool closable(const struct store *store, const struct segment *segment)
{
    const struct segment *next = segment_after(store, segment);
    if (store->step != COMMIT_IDLE && store->commit.file == segment->file)
        return false;
    if (segment->state == SEGMENT_READY)
        return true; /* it holds zeros, and they are synced */
    return segment->batch_first && next && next->state == SEGMENT_HEADED;
}

/* Closes the file that was not used for longest. Of many segments few cannot be closed. */
static void close_idlest(struct store *store)
{
    for (struct list *link = store->open_files.next; link != &store->open_files;
         link = link->next) {
        struct segment *segment = LIST_ENTRY(link, struct segment, open_link);
        if (closable(store, segment)) {
            segment_close(store, segment);
            return;
        }
    }
}

void segment_close(struct store *store, struct segment *segment)
{
    if (!segment->file)
        return;
    store->disk->verbs->close(store->disk, segment->file);
    segment->file = NULL;
    store->files_open--;
    list_remove(&segment->open_link);
}

void segment_opened(struct store *store, struct segment *segment, struct disk_file *file)
{
    if (store->files_open >= store->options.files_max)
        close_idlest(store);
    segment->file = file;
    store->files_open++;
    list_add_tail(&store->open_files, &segment->open_link);
}

enum err segment_file(struct store *store, struct segment *segment, struct disk_file **out_file)
{
    if (!segment->file) {
        struct disk_file *file;
        char name[DISK_NAME_MAX];
        segment_name(segment->number, name);
        enum err err = store->disk->verbs->open(store->disk, name, false, &file);
        if (err)
            return err;
        segment_opened(store, segment, file);
    } else {
        list_remove(&segment->open_link);
        list_add_tail(&store->open_files, &segment->open_link);
    }
    *out_file = segment->file;
    return OK;
}

/* ---- damage ---- */

void segment_damaged(struct store *store, struct segment *segment, uint64_t offset,
                     const char *text)
{
    struct store_error error;
    char name[DISK_NAME_MAX];
    if (segment->damaged)
        return;
    segment->damaged = true;
    store->damaged_segments++;
    segment_name(segment->number, name);
    store_error_set(&error, name, offset, "%s", text);
    store->callbacks->notice(store->callbacks, STORE_DAMAGED, &error);
}

/* ---- what lives ---- */

void segment_live(struct store *store, struct segment *segment, struct stored stored)
{
    segment->live_bytes += stored.bytes;
    segment->live_jobs++;
    if (stored.bytes > segment->record_max)
        segment->record_max = stored.bytes;
    store->live_bytes += stored.bytes;
    store->live_jobs++;
}

bool segment_dies(struct store *store, struct stored stored)
{
    struct segment *segment = segment_find(store, where_segment(stored.where));
    if (!segment)
        return true; /* its segment was cleaned and has gone before it */
    if (segment->live_jobs == 0 || segment->live_bytes < stored.bytes)
        return false;
    segment->live_bytes -= stored.bytes;
    segment->live_jobs--;
    store->live_bytes -= stored.bytes;
    store->live_jobs--;
    return true;
}
