/*
 * Makes the segments' files ahead, and knows how much room there is. On a full disk, or at the
 * limit, it makes smaller files, so that jobs can still be ended and the cleaner can work.
 */
#include <errno.h>

#include "base/check.h"
#include "store/log/segments_parts.h"
#include "store/record.h"

enum {
    SPARES = 2,             /* segments made ahead: one to write, one for the cleaner */
    SPARES_REUSED = 4,      /* a file that leaves the log is kept while there are fewer spares */
    RETRY_US = 1000 * 1000, /* a full disk is tried again after this time, … */
    REOPEN_US = 100 * 1000, /* … and after this time if no descriptor was free */
    BULK_BYTES = 48 * 1024, /* the default of options.bulk_bytes */
};

/*
 * Zeros written ahead save each commit a change of the file's extents, which takes about 100 us
 * whatever its size, but they double the bytes written. So they are written for small commits,
 * where latency matters, and not for large ones, which need the disk's bandwidth
 * (docs/decisions/0098-segments-are-filled-with-zeros-for-small-commits-only.md). Hysteresis:
 * commits count as small again below two thirds of the limit.
 */
bool segments_in_bulk(struct segments *segments)
{
    uint64_t bulk = segments->options->bulk_bytes ? segments->options->bulk_bytes : BULK_BYTES;
    uint64_t commit = log_commit_bytes(segments->store->log);
    segments->bulk = commit >= (segments->bulk ? bulk / 3 * 2 : bulk);
    return segments->bulk;
}

/* The first segment of the log whose file is not made yet: batches wait for it. Or NULL. */
static struct segment *first_unmade(const struct segments *segments)
{
    struct segment *first = NULL;
    for (struct list *link = segments->log.prev; link != &segments->log; link = link->prev) {
        struct segment *segment = segment_of_link(link);
        if (segment->state == SEGMENT_HEADED)
            break; /* so are all before it */
        if (segment->state != SEGMENT_READY)
            first = segment;
    }
    return first;
}

/* No room for this spare: shrinks it to what the cleaner needs to free room, but not below what the
   batch needs that it is made for. False: no smaller. */
static bool shrink_spare(const struct segments *segments, struct segment *spare)
{
    uint64_t wanted = segments->wanted_bytes, usual = segments->options->segment_bytes;
    if (wanted && wanted < spare->size_bytes && wanted >= spare->least_bytes) {
        spare->size_bytes = wanted;
        return true;
    }
    spare->size_bytes = usual > spare->least_bytes ? usual : spare->least_bytes; /* next time */
    return false;
}

/*
 * No room for this segment: halves its size, but not below what its batches need, because ends of
 * jobs may be among them, and ends free room. Only the first segment that batches wait for: a later
 * one would take room that the first needs. False: it is not tried again now.
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
    log_segment_shrunk(segments->store->log, segment);
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
        segment->filled = op->reserve ? 0 : segment->size_bytes;
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
    if (op->err == ERR_AGAIN) { /* segments_make_spares tries again */
        segments->starved = true;
        segments->retry_at_us = segments->store->now_us + REOPEN_US;
        return;
    }
    if (op->err != ERR_DISK_FULL) {
        store_fail(segments->store, op->sys_errno);
        return;
    }
    segments->full = ERR_DISK_FULL;
    segments->too_large = op->sys_errno == EFBIG;
    segments->retry_at_us = segments->store->now_us + RETRY_US;
    if (shrink(segments, segment))
        make(segments, segment);
}

static bool above_limit(const struct segments *segments, const struct segment *segment)
{
    uint64_t max_bytes = segments->options->max_bytes;
    return max_bytes && segments_store_bytes(segments) + segment->size_bytes > max_bytes;
}

/* Bytes for files that disk and limit have left. */
static uint64_t left_bytes(const struct segments *segments)
{
    uint64_t free_bytes = segments->disk->verbs->room(segments->disk);
    uint64_t max_bytes = segments->options->max_bytes, used = segments_store_bytes(segments);
    uint64_t left = max_bytes > used ? max_bytes - used : 0;
    return max_bytes && left < free_bytes ? left : free_bytes;
}

/* Would a spare take the room that is kept for copies of a large segment? */
static bool takes_copies_room(const struct segments *segments, const struct segment *segment)
{
    return segments->copies_max > 0 && segment->least_bytes == 0 && segment->batch_first == 0 &&
           left_bytes(segments) < segment->size_bytes + segments->copies_max;
}

/* Why this file cannot be made; or OK. */
static enum err lacks_room(const struct segments *segments, const struct segment *segment)
{
    if (above_limit(segments, segment))
        return ERR_DISK_LIMIT;
    if (!takes_copies_room(segments, segment))
        return OK;
    uint64_t need = segment->size_bytes + segments->copies_max;
    return segments->disk->verbs->room(segments->disk) < need ? ERR_DISK_FULL : ERR_DISK_LIMIT;
}

static void make(struct segments *segments, struct segment *segment)
{
    CHECK(segment->state == SEGMENT_STALLED);
    enum err why;
    while ((why = lacks_room(segments, segment)) != OK) {
        segments->full = why;
        segments->too_large = false;
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
        .reserve = segments_in_bulk(segments) && !segments->full,
        .done = made,
        .owner = segment,
    };
    segment_name(segment->number, segment->make.name);
    segments->disk->verbs->submit(segments->disk, &segment->make);
}

/* `least_bytes`: of the batch that needs it, with a header; 0: it is made ahead. */
static struct segment *add_spare(struct segments *segments, uint64_t size_bytes,
                                 uint64_t least_bytes)
{
    struct segment *segment = segments_add(segments, segments->number_next, size_bytes);
    segment->least_bytes = least_bytes;
    list_add_tail(&segments->spares, &segment->link);
    segments->spare_count++;
    if (!segments->full || !first_unmade(segments)) /* what batches wait for comes first */
        make(segments, segment);
    return segment;
}

/* The next file to make, or NULL. Those in the log come first: batches wait for them. */
static struct segment *most_wanted(const struct segments *segments)
{
    struct segment *unmade = first_unmade(segments);
    for (struct list *link = segments->spares.next; link != &segments->spares && !unmade;
         link = link->next)
        if (segment_of_link(link)->state != SEGMENT_READY)
            unmade = segment_of_link(link);
    return unmade;
}

/* The number of spares of the usual size. Smaller ones were made because the disk was full. */
static unsigned whole_spares(const struct segments *segments)
{
    unsigned count = 0;
    for (struct list *link = segments->spares.next; link != &segments->spares; link = link->next)
        count += segment_of_link(link)->size_bytes >= segments->options->segment_bytes;
    return count;
}

/* Near the limit, the file's space is needed for slices and history, so it is freed. */
bool segments_may_reuse(const struct segments *segments, const struct segment *segment)
{
    bool usual = segment->size_bytes == segments->options->segment_bytes;
    return usual && !segment->damaged && !segments->options->never_reuses && !segments->full &&
           !above_limit(segments, segment) && whole_spares(segments) < SPARES_REUSED &&
           !segments->store->closing;
}

void segments_note_history(struct segments *segments, uint64_t bytes)
{
    if (bytes < segments->history_bytes)
        segments->retry_at_us = segments->store->now_us; /* there may be room now */
    segments->history_bytes = bytes;
}

uint64_t segments_kept_bytes(const struct segments *segments)
{
    return 2 * segments->options->segment_bytes + segments->copies_max;
}

/*
 * Each usual file has room for its bytes without the header, paddings of batches, and what the next
 * record is too long for; if records are long, two neighbouring ones are half full at least. A
 * record that is alone has a file that fits it, with the EPOCH record in front.
 */
uint64_t segments_copies(const struct segments *segments, const struct segment *segment)
{
    uint64_t usual = segments->options->segment_bytes;
    uint64_t live = segment->live_bytes + segment->slice_log_bytes;
    if (segment->size_bytes <= usual || live == 0 || segments->options->never_cleans)
        return 0;
    CHECK(segment->live_jobs > 0 || segment->slice_log_bytes > 0);
    uint64_t waste = segment->record_max + 4 * BLOCK, bytes;
    if (segment->live_jobs == 1 && segment->slice_log_bytes == 0)
        bytes = batch_bytes(live + (segments->options->epoch ? RECORD_EPOCH_BYTES : 0)) + BLOCK;
    else
        bytes = (live / (waste < usual / 2 ? usual - waste : usual / 2) + 1) * usual;
    return bytes > usual ? bytes : 0;
}

bool segments_copies_fit(const struct segments *segments, const struct segment *segment)
{
    uint64_t copies = segments_copies(segments, segment);
    return copies == 0 || copies <= left_bytes(segments);
}

uint64_t segments_copies_max(const struct segments *segments)
{
    return segments->copies_max;
}

uint64_t segments_spare_room(const struct segments *segments)
{
    return segments->spare_room;
}

/* O(segments). */
static void renew_copies_max(struct segments *segments)
{
    segments->copies_max = 0;
    segments->copies_less = false;
    for (struct list *link = segments->log.next; link != &segments->log; link = link->next) {
        uint64_t copies = segments_copies(segments, segment_of_link(link));
        if (copies > segments->copies_max)
            segments->copies_max = copies;
    }
    CHECK(segments->copies_max == 0 || !segments->options->never_cleans);
}

/* Bytes of files that are being made, and bytes that are placed in files not made yet; or, if they
   get no more batches (`closed`), all bytes of these. */
static uint64_t unmade_bytes(const struct segments *segments, bool closed, uint64_t *out_pending)
{
    uint64_t making = 0;
    *out_pending = 0;
    for (struct list *link = segments->spares.next; link != &segments->spares; link = link->next)
        if (segment_of_link(link)->state == SEGMENT_MAKING)
            making += segment_of_link(link)->size_bytes;
    for (struct list *link = segments->log.prev; link != &segments->log; link = link->prev) {
        struct segment *segment = segment_of_link(link);
        if (segment->state == SEGMENT_READY || segment->state == SEGMENT_HEADED)
            break; /* so are all before it */
        if (segment->state == SEGMENT_MAKING)
            making += segment->size_bytes;
        *out_pending += closed ? segment->size_bytes
                               : segment->end + log_open_bytes(segments->store->log, segment);
    }
    return making;
}

bool segments_alone(const struct segments *segments, uint64_t bytes)
{
    return bytes + BLOCK > segments->options->segment_bytes;
}

/*
 * A batch that is alone cannot use what is left of the last segment, nor can any batch behind it,
 * and its file comes on top of what is kept. So does the file of the copy that the cleaner may have
 * to make of it, or of one that is there: in front of it nothing could be cleaned otherwise.
 */
static bool is_scarce(const struct segments *segments, uint64_t bytes, uint64_t more)
{
    bool alone = segments_alone(segments, bytes);
    uint64_t usual = segments->options->segment_bytes;
    uint64_t own = alone ? bytes + BLOCK : 0;
    uint64_t copy = segments->options->never_cleans ? 0 : own;
    uint64_t copies = segments->copies_max > copy ? segments->copies_max : copy;
    uint64_t room = own || copies ? segments->spare_room : segments_room(segments);
    uint64_t kept = (alone ? 3 : 2) * usual; /* one takes what comes next */
    uint64_t max_bytes = segments->options->max_bytes;
    uint64_t pending;
    if (own == 0 && copies == 0 && room >= kept)
        return false;
    uint64_t making = unmade_bytes(segments, alone, &pending);
    if (max_bytes) {
        uint64_t used = segments_store_bytes(segments) - making;
        uint64_t left = max_bytes > used ? max_bytes - used : 0;
        more = left < more ? left : more;
    }
    uint64_t lack = kept + pending > room ? kept + pending - room : 0;
    return more < lack + own + copies;
}

bool segments_scarce(const struct segments *segments, uint64_t bytes)
{
    uint64_t more = segments->free_bytes;
    if (segments_alone(segments, bytes)) { /* watch() does not look while there are enough spares */
        uint64_t free_bytes = segments->disk->verbs->room(segments->disk);
        more = free_bytes < more ? free_bytes : more;
    }
    return is_scarce(segments, bytes, more);
}

enum err segments_scarce_why(const struct segments *segments, uint64_t bytes)
{
    return is_scarce(segments, bytes, UINT64_MAX) ? ERR_DISK_LIMIT : ERR_DISK_FULL;
}

/* The disk counts as full while it still has enough room for cleaning. Checked only while spares
   are missing. */
static void watch(struct segments *segments)
{
    segments->free_bytes = UINT64_MAX;
    if (segments->copies_max == 0 && segments_room(segments) >= segments_kept_bytes(segments))
        return;
    segments->free_bytes = segments->disk->verbs->room(segments->disk);
    if (segments->copies_less && (segments->full || segments_scarce(segments, 0)))
        renew_copies_max(segments);
    if (segments->full || !segments_scarce(segments, 0))
        return;
    segments->full = segments_scarce_why(segments, 0);
    segments->too_large = false;
    segments->retry_at_us = segments->store->now_us;
}

void segments_make_spares(struct segments *segments)
{
    if (segments->store->failed || segments->store->closing)
        return;
    watch(segments);
    if ((segments->full || segments->starved) && segments->store->now_us < segments->retry_at_us)
        return;
    /* Nothing to do while one is being made: made() or the next try continues. */
    segments->retry_at_us = segments->store->now_us + RETRY_US;
    struct segment *unmade = most_wanted(segments);
    bool enough = whole_spares(segments) >= SPARES;
    if (unmade && unmade->state == SEGMENT_STALLED)
        make(segments, unmade);
    else if (segments->full && !unmade && enough && !segments_scarce(segments, 0))
        segments->full = OK; /* all wanted files exist */
    else if (segments->full && !unmade && !enough)
        (void)add_spare(segments, segments->options->segment_bytes, 0); /* is there room again? */
    while (!segments->full && whole_spares(segments) < SPARES)
        (void)add_spare(segments, segments->options->segment_bytes, 0);
}

enum err segments_full(const struct segments *segments)
{
    return segments->full;
}

bool segments_too_large(const struct segments *segments)
{
    return segments->full == ERR_DISK_FULL && segments->too_large;
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
    segments_make_spares(segments);
    if (!list_empty(&segments->log))
        return OK;
    CHECK(!list_empty(&segments->spares));
    const struct segment *spare = segment_of_link(segments->spares.next);
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

bool segments_want_spare(const struct segments *segments)
{
    return segments->spare_count < SPARES;
}

/* Is `spare` the better choice? One that is made already, and then the smallest. */
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
        struct segment *spare = segment_of_link(link);
        bool fits = spare->size_bytes >= bytes + BLOCK;
        if (fits && (!best || better(spare, best)))
            best = spare;
    }
    if (!best) {
        uint64_t size_bytes = segments->options->segment_bytes;
        if (size_bytes < bytes + BLOCK)
            size_bytes = bytes + BLOCK; /* a record larger than a segment gets one of its own */
        best = add_spare(segments, size_bytes, bytes + BLOCK);
    }
    list_remove(&best->link);
    segments->spare_count--;
    if (best->state == SEGMENT_READY)
        segments->spare_room -= best->size_bytes - BLOCK;
    list_add_tail(&segments->log, &best->link);
    segments->log_count++;
    best->batch_first = batch_first;
    best->least_bytes = bytes + BLOCK;
    segments_make_spares(segments);
    return best;
}

uint64_t segments_unused(const struct segments *segments)
{
    const struct segment *tail = segments_tail(segments);
    uint64_t bytes = tail && tail->state != SEGMENT_STALLED ? tail->size_bytes : 0;
    for (struct list *link = segments->spares.next; link != &segments->spares; link = link->next)
        if (segment_of_link(link)->state != SEGMENT_STALLED)
            bytes += segment_of_link(link)->size_bytes;
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
        bool ready = segment_of_link(link)->state == SEGMENT_READY;
        if (ready && segment_of_link(link)->size_bytes - BLOCK >= bytes)
            return 0; /* they fit into one file */
        places += ready;
    }
    uint64_t all = bytes + places * between, least = between + 3 * BLOCK;
    bool fits = places > 0 && room >= all - between;
    uint64_t lack = all > room + least ? all - room : least;
    return fits ? 0 : (lack + 2 * BLOCK - 1) / BLOCK * BLOCK; /* with a header */
}
