#include "store/segments.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/internal.h"

enum {
    SPARES = 2,             /* segments made ahead: one to write, one for the cleaner */
    RETRY_US = 1000 * 1000, /* a full disk is asked again so often */
    REOPEN_US = 100 * 1000, /* no descriptor was free: tried again so often */
};

struct segments {
    struct store *store;
    const struct store_options *options;
    struct disk *disk;
    struct list log;            /* segment::link; by batch_first; the last takes new batches */
    struct list spares;         /* segment::link; by number */
    struct segment **by_number; /* [number - number_base]; NULL: gone */
    uint32_t number_base, number_next;
    struct list open_files; /* segment::open_link; the one not used for longest first */
    uint32_t spare_count, log_count, files_open;
    uint32_t making;     /* files that are being made */
    uint64_t spare_room; /* of the spares whose files are there, without their headers */
    uint32_t damaged;    /* segments of the log, … */
    uint32_t set_aside;  /* … and those that were set aside */
    uint64_t disk_bytes; /* of all segments' files, made or being made */
    uint64_t live_bytes, live_jobs;
    enum err full;         /* OK, ERR_DISK_FULL or ERR_DISK_LIMIT */
    bool starved;          /* no descriptor was free for a new segment's file */
    int64_t retry_at_us;   /* full or starved: when to ask again */
    uint64_t free_bytes;   /* what the disk said it has, in this turn; UINT64_MAX: was not asked */
    uint64_t wanted_bytes; /* full: the cleaner could work with a spare of so many; 0: it can */
};

static struct segment *of_link(struct list *link)
{
    return LIST_ENTRY(link, struct segment, link);
}

/* ---- the table ---- */

static struct segment *add(struct segments *segments, uint32_t number, uint64_t size_bytes)
{
    CHECK(number >= segments->number_base);
    if (number >= segments->number_next) {
        size_t count = (size_t)(number - segments->number_base) + 1;
        size_t old = segments->number_next - segments->number_base;
        size_t item = sizeof(*segments->by_number);
        segments->by_number = mem_realloc(segments->by_number, count * item);
        memset(segments->by_number + old, 0, (count - old) * item);
        segments->number_next = number + 1;
    }
    struct segment *segment = mem_zalloc(sizeof(*segment));
    segment->segments = segments;
    segment->number = number;
    segment->state = SEGMENT_STALLED;
    segment->size_bytes = size_bytes;
    segment->end = BLOCK;
    list_init(&segment->link);
    list_init(&segment->open_link);
    segments->by_number[number - segments->number_base] = segment;
    return segment;
}

static void close_file(struct segments *segments, struct segment *segment)
{
    segment->close_after_reads = segment->reading > 0;
    if (!segment->file || segment->close_after_reads)
        return;
    segments->disk->verbs->close(segments->disk, segment->file);
    segment->file = NULL;
    segments->files_open--;
    list_remove(&segment->open_link);
}

static void drop(struct segments *segments, struct segment *segment)
{
    CHECK(segment->pins == 0);
    if (segment->state != SEGMENT_STALLED)
        segments->disk_bytes -= segment->size_bytes;
    CHECK(segments->live_bytes >= segment->live_bytes && segments->live_jobs >= segment->live_jobs);
    segments->live_bytes -= segment->live_bytes;
    segments->live_jobs -= segment->live_jobs;
    segments->by_number[segment->number - segments->number_base] = NULL;
    close_file(segments, segment);
    segments->damaged -= segment->damaged;
    list_remove(&segment->link);
    mem_free(segment);
}

/* ---- life ---- */

struct segments *segments_new(struct store *store)
{
    struct segments *segments = mem_zalloc(sizeof(*segments));
    segments->store = store;
    segments->options = &store->options;
    segments->disk = store->disk;
    list_init(&segments->log);
    list_init(&segments->spares);
    list_init(&segments->open_files);
    return segments;
}

void segments_free(struct segments *segments)
{
    if (!segments)
        return;
    CHECK(!segments_making(segments));
    while (!list_empty(&segments->log))
        drop(segments, segments_first(segments));
    while (!list_empty(&segments->spares))
        drop(segments, of_link(segments->spares.next));
    CHECK(segments->disk_bytes == 0 && segments->live_jobs == 0 && segments->files_open == 0);
    mem_free(segments->by_number);
    mem_free(segments);
}

void segments_begin(struct segments *segments, uint32_t base, uint32_t next)
{
    CHECK(!segments->by_number && base <= next && next > 0);
    segments->number_base = base;
    segments->number_next = next;
    segments->by_number = mem_zalloc((size_t)(next - base + 1) * sizeof(*segments->by_number));
}

struct segment *segments_take(struct segments *segments, uint32_t number, uint64_t size_bytes,
                              uint64_t batch_first)
{
    const struct segment *tail = segments_tail(segments);
    CHECK(!tail || tail->batch_first <= batch_first);
    struct segment *segment = add(segments, number, size_bytes);
    segment->state = SEGMENT_HEADED;
    segment->batch_first = batch_first;
    list_add_tail(&segments->log, &segment->link);
    segments->log_count++;
    segments->disk_bytes += size_bytes;
    return segment;
}

void segments_take_spare(struct segments *segments, uint32_t number, uint64_t size_bytes,
                         struct disk_file *file)
{
    struct segment *segment = add(segments, number, size_bytes);
    segment->state = SEGMENT_READY;
    segments_opened(segments, segment, file);
    segments->disk_bytes += size_bytes;
    list_add_tail(&segments->spares, &segment->link);
    segments->spare_count++;
    segments->spare_room += size_bytes - BLOCK;
}

bool segments_want_spare(const struct segments *segments)
{
    return segments->spare_count < SPARES;
}

void segments_note_damage(struct segments *segments, struct segment *segment)
{
    segments->damaged += !segment->damaged;
    segment->damaged = true;
}

void segments_set_aside(struct segments *segments, uint32_t count)
{
    segments->set_aside += count;
}

/* ---- which there are ---- */

struct segment *segments_find(const struct segments *segments, uint32_t number)
{
    if (number < segments->number_base || number >= segments->number_next)
        return NULL;
    return segments->by_number[number - segments->number_base];
}

struct segment *segments_tail(const struct segments *segments)
{
    return list_empty(&segments->log) ? NULL : of_link(segments->log.prev);
}

struct segment *segments_first(const struct segments *segments)
{
    return list_empty(&segments->log) ? NULL : of_link(segments->log.next);
}

struct segment *segments_after(const struct segments *segments, const struct segment *segment)
{
    return segment->link.next == &segments->log ? NULL : of_link(segment->link.next);
}

struct segment *segments_before(const struct segments *segments, const struct segment *segment)
{
    return segment->link.prev == &segments->log ? NULL : of_link(segment->link.prev);
}

uint32_t segments_number_next(const struct segments *segments)
{
    return segments->number_next;
}

uint64_t segments_bytes(const struct segments *segments)
{
    return segments->disk_bytes;
}

uint64_t segments_live_jobs(const struct segments *segments)
{
    return segments->live_jobs;
}

uint64_t segments_live_bytes(const struct segments *segments)
{
    return segments->live_bytes;
}

void segments_grow(struct segment *segment, uint64_t bytes)
{
    CHECK(bytes % BLOCK == 0 && bytes <= segment->size_bytes - segment->end);
    segment->end += bytes;
}

/*
 * The file of the one before was open for writing: what is read of it from now on opens it again,
 * for reading alone.
 */
void segments_headed(struct segments *segments, struct segment *segment)
{
    CHECK(segment->state == SEGMENT_READY);
    segment->state = SEGMENT_HEADED;
    if (segment->link.prev != &segments->log)
        close_file(segments, of_link(segment->link.prev));
}

void segments_drop_first(struct segments *segments)
{
    CHECK(segments->log_count > 1); /* the last one takes new batches */
    drop(segments, segments_first(segments));
    segments->log_count--;
    segments->retry_at_us = segments->store->now_us; /* there may be room now */
}

/* ---- making files ---- */

/* The first segment of the log whose file is not there: batches wait for it. NULL: all are. */
static struct segment *first_unmade(const struct segments *segments)
{
    struct segment *first = NULL;
    for (struct list *link = segments->log.prev; link != &segments->log; link = link->prev) {
        struct segment *segment = of_link(link);
        if (segment->state == SEGMENT_HEADED)
            break; /* so are all before it */
        if (segment->state != SEGMENT_READY)
            first = segment;
    }
    return first;
}

/* A spare for which there is no room is made as small as the cleaner needs: it makes the room. */
static bool shrink_spare(const struct segments *segments, struct segment *spare)
{
    if (segments->wanted_bytes && segments->wanted_bytes < spare->size_bytes) {
        spare->size_bytes = segments->wanted_bytes;
        return true;
    }
    spare->size_bytes = segments->options->segment_bytes; /* for the next try */
    return false;
}

/*
 * The last resort without room: the segment that batches wait for is made with half the size, down
 * to what they need, because ends of jobs may be among them, and ends give the room back. Only the
 * first such segment: a later one would take away what the first must have.
 */
static bool shrink(struct segments *segments, struct segment *segment)
{
    if (!segment->batch_first)
        return shrink_spare(segments, segment);
    uint64_t need = segment->end + log_open_bytes(segments->store->log, segment);
    if (need < segment->least_bytes)
        need = segment->least_bytes;
    if (segments->store->failed || segment != first_unmade(segments) || segment->size_bytes <= need)
        return false;
    uint64_t half = segment->size_bytes / 2 / BLOCK * BLOCK;
    segment->size_bytes = half > need ? half : need;
    return true;
}

static void make(struct segments *segments, struct segment *segment);

static void made(struct disk_op *op)
{
    struct segment *segment = op->owner;
    struct segments *segments = segment->segments;
    segments->making--;
    if (op->err == OK) {
        segment->state = SEGMENT_READY;
        if (!segment->batch_first)
            segments->spare_room += segment->size_bytes - BLOCK;
        segments_opened(segments, segment, op->file);
        segments->starved = false;
        segments->retry_at_us = segments->store->now_us; /* is there room for the next? */
        log_start_next(segments->store->log);
        return;
    }
    segment->state = SEGMENT_STALLED;
    segments->disk_bytes -= segment->size_bytes;
    if (op->err == ERR_AGAIN) { /* segments_provide tries again */
        segments->starved = true;
        segments->retry_at_us = segments->store->now_us + REOPEN_US;
        return;
    }
    if (op->err != ERR_DISK_FULL) {
        store_fail(segments->store, op->sys_errno);
        return;
    }
    segments->full = ERR_DISK_FULL;
    segments->retry_at_us = segments->store->now_us + RETRY_US;
    if (shrink(segments, segment))
        make(segments, segment);
}

static bool above_limit(const struct segments *segments, const struct segment *segment)
{
    uint64_t max_bytes = segments->options->max_bytes;
    return max_bytes && segments->disk_bytes + segment->size_bytes + MANIFEST_BYTES > max_bytes;
}

static void make(struct segments *segments, struct segment *segment)
{
    CHECK(segment->state == SEGMENT_STALLED);
    while (above_limit(segments, segment)) {
        segments->full = ERR_DISK_LIMIT;
        segments->retry_at_us = segments->store->now_us + RETRY_US;
        if (!shrink(segments, segment))
            return;
    }
    segment->state = SEGMENT_MAKING;
    segments->making++;
    segments->disk_bytes += segment->size_bytes;
    segment->make = (struct disk_op){
        .verb = DISK_MAKE,
        .lane = LANE_BACKGROUND,
        .len = segment->size_bytes,
        .done = made,
        .owner = segment,
    };
    segment_name(segment->number, segment->make.name);
    segments->disk->verbs->submit(segments->disk, &segment->make);
}

static struct segment *add_spare(struct segments *segments, uint64_t size_bytes)
{
    struct segment *segment = add(segments, segments->number_next, size_bytes);
    list_add_tail(&segments->spares, &segment->link);
    segments->spare_count++;
    if (!segments->full || !first_unmade(segments)) /* what batches wait for comes first */
        make(segments, segment);
    return segment;
}

/* The file that is wanted most. Those in the log come first: batches wait for them. */
static struct segment *most_wanted(const struct segments *segments)
{
    struct segment *unmade = first_unmade(segments);
    for (struct list *link = segments->spares.next; link != &segments->spares && !unmade;
         link = link->next)
        if (of_link(link)->state != SEGMENT_READY)
            unmade = of_link(link);
    return unmade;
}

/* Those of less than the usual size do not count: they are last resorts. */
static unsigned whole_spares(const struct segments *segments)
{
    unsigned count = 0;
    for (struct list *link = segments->spares.next; link != &segments->spares; link = link->next)
        count += of_link(link)->size_bytes >= segments->options->segment_bytes;
    return count;
}

static uint64_t kept_bytes(const struct segments *segments)
{
    return 2 * segments->options->segment_bytes;
}

/* Bytes of files that are being made, and bytes that are placed in files not made yet. */
static uint64_t unmade_bytes(const struct segments *segments, uint64_t *out_owed)
{
    uint64_t making = 0;
    *out_owed = 0;
    for (struct list *link = segments->spares.next; link != &segments->spares; link = link->next)
        if (of_link(link)->state == SEGMENT_MAKING)
            making += of_link(link)->size_bytes;
    for (struct list *link = segments->log.prev; link != &segments->log; link = link->prev) {
        struct segment *segment = of_link(link);
        if (segment->state == SEGMENT_READY || segment->state == SEGMENT_HEADED)
            break; /* so are all before it */
        if (segment->state == SEGMENT_MAKING)
            making += segment->size_bytes;
        *out_owed += segment->end + log_open_bytes(segments->store->log, segment);
    }
    return making;
}

bool segments_scarce(const struct segments *segments)
{
    uint64_t room = segments_room(segments);
    uint64_t max_bytes = segments->options->max_bytes;
    uint64_t more = segments->free_bytes;
    uint64_t owed;
    if (room >= kept_bytes(segments))
        return false;
    uint64_t making = unmade_bytes(segments, &owed);
    if (max_bytes) {
        uint64_t used = segments->disk_bytes - making + MANIFEST_BYTES;
        uint64_t left = max_bytes > used ? max_bytes - used : 0;
        more = left < more ? left : more;
    }
    return more < kept_bytes(segments) + owed - room;
}

/* The disk counts as full before it is: while it still has room enough to clean. It is asked only
 * while spares are missing. */
static void watch(struct segments *segments)
{
    bool ask = segments_room(segments) < kept_bytes(segments);
    segments->free_bytes = ask ? segments->disk->verbs->room(segments->disk) : UINT64_MAX;
    if (segments->full || !segments_scarce(segments))
        return;
    uint64_t free_bytes = segments->free_bytes;
    segments->free_bytes = UINT64_MAX;
    segments->full = segments_scarce(segments) ? ERR_DISK_LIMIT : ERR_DISK_FULL;
    segments->free_bytes = free_bytes;
    segments->retry_at_us = segments->store->now_us;
}

void segments_provide(struct segments *segments)
{
    if (segments->store->failed || segments->store->closing)
        return;
    watch(segments);
    if ((segments->full || segments->starved) && segments->store->now_us < segments->retry_at_us)
        return;
    /* While one is being made there is nothing to do: made() says more, or the next try. */
    segments->retry_at_us = segments->store->now_us + RETRY_US;
    struct segment *unmade = most_wanted(segments);
    bool enough = whole_spares(segments) >= SPARES;
    if (unmade && unmade->state == SEGMENT_STALLED)
        make(segments, unmade);
    else if (segments->full && !unmade && enough && !segments_scarce(segments))
        segments->full = OK; /* nothing is wanted that is not there */
    else if (segments->full && !unmade && !enough)
        (void)add_spare(segments, segments->options->segment_bytes); /* is there room again? */
    while (!segments->full && whole_spares(segments) < SPARES)
        (void)add_spare(segments, segments->options->segment_bytes);
}

enum err segments_full(const struct segments *segments)
{
    return segments->full;
}

int64_t segments_next_us(const struct segments *segments)
{
    return segments->full || segments->starved ? segments->retry_at_us : INT64_MAX;
}

bool segments_making(const struct segments *segments)
{
    return segments->making > 0;
}

enum err segments_make_first(struct segments *segments)
{
    segments_provide(segments);
    if (!list_empty(&segments->log))
        return OK;
    CHECK(!list_empty(&segments->spares));
    const struct segment *spare = of_link(segments->spares.next);
    while (spare->state == SEGMENT_MAKING) {
        segments->disk->verbs->wait(segments->disk);
        (void)segments->disk->verbs->poll(segments->disk);
    }
    if (spare->state == SEGMENT_READY)
        return OK;
    return segments->store->failed ? ERR_IO : segments->starved ? ERR_AGAIN : segments->full;
}

void segments_cleaner_wants(struct segments *segments, uint64_t bytes)
{
    if (bytes > segments->wanted_bytes && bytes <= segments->free_bytes)
        segments->retry_at_us = segments->store->now_us; /* before ends of jobs take that room */
    segments->wanted_bytes = bytes;
}

/* The better one for what needs little: there already, and as small as can be. */
static bool better(const struct segment *spare, const struct segment *best)
{
    bool ready = spare->state == SEGMENT_READY;
    if (ready != (best->state == SEGMENT_READY))
        return ready;
    return spare->size_bytes < best->size_bytes;
}

struct segment *segments_next(struct segments *segments, uint64_t bytes, uint64_t batch_first)
{
    struct segment *best = NULL;
    for (struct list *link = segments->spares.next; link != &segments->spares; link = link->next) {
        struct segment *spare = of_link(link);
        bool fits = spare->size_bytes >= bytes + BLOCK;
        if (fits && (!best || better(spare, best)))
            best = spare;
    }
    if (!best) {
        uint64_t size_bytes = segments->options->segment_bytes;
        if (size_bytes < bytes + BLOCK)
            size_bytes = bytes + BLOCK; /* one record larger than a segment has its own */
        best = add_spare(segments, size_bytes);
    }
    list_remove(&best->link);
    segments->spare_count--;
    if (best->state == SEGMENT_READY)
        segments->spare_room -= best->size_bytes - BLOCK;
    list_add_tail(&segments->log, &best->link);
    segments->log_count++;
    best->batch_first = batch_first;
    best->least_bytes = bytes + BLOCK;
    segments_provide(segments);
    return best;
}

uint64_t segments_unused(const struct segments *segments)
{
    const struct segment *tail = segments_tail(segments);
    uint64_t bytes = tail && tail->state != SEGMENT_STALLED ? tail->size_bytes : 0;
    for (struct list *link = segments->spares.next; link != &segments->spares; link = link->next)
        if (of_link(link)->state != SEGMENT_STALLED)
            bytes += of_link(link)->size_bytes;
    return bytes;
}

uint64_t segments_room(const struct segments *segments)
{
    const struct segment *tail = segments_tail(segments);
    uint64_t room = segments->spare_room;
    if (tail && (tail->state == SEGMENT_READY || tail->state == SEGMENT_HEADED))
        room += tail->size_bytes - tail->end - log_open_bytes(segments->store->log, tail);
    return room;
}

uint64_t segments_lack(const struct segments *segments, uint64_t bytes, uint64_t record_max)
{
    const struct segment *tail = segments_tail(segments);
    uint64_t room = segments_room(segments), between = record_max + BLOCK;
    uint64_t places = tail && (tail->state == SEGMENT_READY || tail->state == SEGMENT_HEADED);
    for (struct list *link = segments->spares.next; link != &segments->spares; link = link->next) {
        bool ready = of_link(link)->state == SEGMENT_READY;
        if (ready && of_link(link)->size_bytes - BLOCK >= bytes)
            return 0; /* one file takes them all */
        places += ready;
    }
    uint64_t all = bytes + places * between, least = between + 3 * BLOCK;
    bool fits = places > 0 && room >= all - between;
    uint64_t lack = all > room + least ? all - room : least;
    return fits ? 0 : (lack + 2 * BLOCK - 1) / BLOCK * BLOCK; /* with a header */
}

/* ---- open files ---- */

/*
 * May its file be closed? Not while a commit or a read uses it, nor while there may be something in
 * it that is not synced: a new descriptor would not hear of an error of the old one's writes.
 */
static bool closable(const struct segments *segments, const struct segment *segment)
{
    const struct segment *next = segments_after(segments, segment);
    if (segment->reading > 0 || log_writes_to(segments->store->log, segment->file))
        return false;
    if (segment->state == SEGMENT_READY)
        return true; /* it holds zeros, and they are synced */
    return segment->batch_first && next && next->state == SEGMENT_HEADED;
}

/* Closes the file that was not used for longest. Of many segments few cannot be closed. */
static void close_idlest(struct segments *segments)
{
    for (struct list *link = segments->open_files.next; link != &segments->open_files;
         link = link->next) {
        struct segment *segment = LIST_ENTRY(link, struct segment, open_link);
        if (closable(segments, segment)) {
            close_file(segments, segment);
            return;
        }
    }
}

void segments_opened(struct segments *segments, struct segment *segment, struct disk_file *file)
{
    if (segments->files_open >= segments->options->files_max)
        close_idlest(segments);
    segment->file = file;
    segments->files_open++;
    list_add_tail(&segments->open_files, &segment->open_link);
}

enum err segments_file(struct segments *segments, struct segment *segment,
                       struct disk_file **out_file)
{
    if (!segment->file) {
        struct disk_file *file;
        char name[DISK_NAME_MAX];
        segment_name(segment->number, name);
        enum err err = segments->disk->verbs->open(segments->disk, name, false, &file);
        if (err)
            return err;
        segments_opened(segments, segment, file);
    } else {
        list_remove(&segment->open_link);
        list_add_tail(&segments->open_files, &segment->open_link);
    }
    *out_file = segment->file;
    return OK;
}

void segments_pin(struct segment *segment)
{
    segment->pins++;
}

void segments_unpin(struct segment *segment)
{
    CHECK(segment->pins > segment->reading);
    segment->pins--;
}

void segments_read(struct segments *segments, struct segment *segment, struct disk_op *op)
{
    segment->pins++;
    segment->reading++;
    op->verb = DISK_READ;
    op->lane = LANE_READ;
    if (!op->fresh)
        op->file = segment->file;
    segment_name(segment->number, op->name);
    segments->disk->verbs->submit(segments->disk, op);
}

/* What it opened is the segment's from now on, unless that has one already. */
static void take_file(struct segments *segments, struct segment *segment, const struct disk_op *op)
{
    if (!op->file || op->fresh || op->file == segment->file)
        return;
    if (segment->file)
        segments->disk->verbs->close(segments->disk, op->file);
    else
        segments_opened(segments, segment, op->file);
}

enum err segments_read_cached(struct segments *segments, struct segment *segment, uint64_t offset,
                              void *at, size_t len, size_t *out_len)
{
    struct disk_file *file;
    if (!segment->file)
        return ERR_AGAIN; /* opening it may have to wait for the disk, too */
    enum err err = segments_file(segments, segment, &file);
    return err ? err
               : segments->disk->verbs->read_cached(segments->disk, file, offset, at, len, out_len);
}

void segments_read_end(struct segments *segments, struct segment *segment, struct disk_op *op)
{
    CHECK(segment->reading > 0 && segment->pins >= segment->reading);
    take_file(segments, segment, op);
    segment->pins--;
    segment->reading--;
    if (segment->close_after_reads && segment->reading == 0)
        close_file(segments, segment);
}

/* ---- damage ---- */

void segments_damaged(struct segments *segments, struct segment *segment, uint64_t offset,
                      const char *text)
{
    struct store_error error;
    char name[DISK_NAME_MAX];
    if (segment->damaged)
        return;
    segment->damaged = true;
    segments->damaged++;
    segment_name(segment->number, name);
    store_error_set(&error, name, offset, "%s", text);
    segments->store->callbacks->notice(segments->store->callbacks, STORE_DAMAGED, &error);
}

/* ---- what lives ---- */

void segments_live(struct segments *segments, struct segment *segment, struct stored stored)
{
    segment->live_bytes += stored.bytes;
    segment->live_jobs++;
    if (stored.bytes > segment->record_max)
        segment->record_max = stored.bytes;
    segments->live_bytes += stored.bytes;
    segments->live_jobs++;
}

bool segments_dies(struct segments *segments, struct stored stored)
{
    struct segment *segment = segments_find(segments, where_segment(stored.where));
    if (!segment)
        return true; /* its segment was cleaned and has gone before it */
    if (segment->live_jobs == 0 || segment->live_bytes < stored.bytes)
        return false;
    segment->live_bytes -= stored.bytes;
    segment->live_jobs--;
    segments->live_bytes -= stored.bytes;
    segments->live_jobs--;
    return true;
}

void segments_stats(const struct segments *segments, struct store_stats *out_stats)
{
    const struct segment *first = segments_first(segments), *tail = segments_tail(segments);
    out_stats->segments = segments->log_count;
    out_stats->disk_bytes = segments->disk_bytes + MANIFEST_BYTES;
    out_stats->live_bytes = segments->live_bytes;
    out_stats->live_jobs = segments->live_jobs;
    out_stats->damaged_segments = segments->damaged + segments->set_aside;
    out_stats->segment_first = first ? first->number : 0;
    out_stats->segment_tail = tail ? tail->number : 0;
    out_stats->segment_bytes = segments->options->segment_bytes;
}

/* ---- invariants ---- */

struct sums {
    uint32_t count, open, damaged, making;
    uint64_t disk_bytes, live_bytes, live_jobs, spare_room;
};

static void segment_valid(const struct segments *segments, const struct segment *segment,
                          struct sums *sums)
{
    bool made = segment->state == SEGMENT_READY || segment->state == SEGMENT_HEADED;
    CHECK(segment->segments == segments && segments_find(segments, segment->number) == segment);
    CHECK(segment->size_bytes >= 2 * BLOCK && segment->size_bytes % BLOCK == 0);
    CHECK(segment->end >= BLOCK && segment->end <= segment->size_bytes);
    CHECK(segment->end % BLOCK == 0);
    CHECK(segment->live_bytes <= segment->end + log_open_bytes(segments->store->log, segment));
    CHECK(segment->live_jobs <= segment->live_bytes);
    CHECK(!segment->file || made);
    CHECK(segment->pins >= segment->reading);
    CHECK(!segment->close_after_reads || segment->reading > 0);
    CHECK((segment->file == NULL) == list_empty(&segment->open_link));
    sums->count++;
    sums->open += segment->file != NULL;
    sums->damaged += segment->damaged;
    sums->making += segment->state == SEGMENT_MAKING;
    sums->disk_bytes += segment->state == SEGMENT_STALLED ? 0 : segment->size_bytes;
    sums->live_bytes += segment->live_bytes;
    sums->live_jobs += segment->live_jobs;
}

void segments_valid(const struct segments *segments)
{
    struct sums sums = {0};
    uint64_t batch_first = 0;
    bool headed = true;
    for (struct list *link = segments->log.next; link != &segments->log; link = link->next) {
        const struct segment *segment = of_link(link);
        segment_valid(segments, segment, &sums);
        CHECK(segment->batch_first > batch_first); /* G1 */
        CHECK(headed || segment->state != SEGMENT_HEADED);
        headed = segment->state == SEGMENT_HEADED;
        batch_first = segment->batch_first;
    }
    CHECK(sums.count == segments->log_count);
    CHECK(sums.live_bytes == segments->live_bytes &&
          sums.live_jobs == segments->live_jobs); /* G2 */
    sums.count = 0;
    for (struct list *link = segments->spares.next; link != &segments->spares; link = link->next) {
        const struct segment *spare = of_link(link);
        segment_valid(segments, spare, &sums);
        CHECK(spare->state != SEGMENT_HEADED && spare->batch_first == 0);
        CHECK(spare->live_jobs == 0 && spare->end == BLOCK);
        sums.spare_room += spare->state == SEGMENT_READY ? spare->size_bytes - BLOCK : 0;
    }
    CHECK(sums.count == segments->spare_count);
    CHECK(sums.open == segments->files_open && sums.damaged == segments->damaged); /* G3 */
    CHECK(sums.disk_bytes == segments->disk_bytes);
    CHECK(sums.making == segments->making && sums.spare_room == segments->spare_room);
    CHECK(!segments->full || segments->full == ERR_DISK_FULL || segments->full == ERR_DISK_LIMIT);
}
