/*
 * The tables of segments and slices, and how much of each lives.
 */
#include "store/log/segments.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/log/segments_parts.h"
#include "store/slices/slices.h"

enum { GONE_LEAST = 64 }; /* numbers that forget_gone() takes out of the table at a time */

/* ---- the table ---- */

/* Makes room for numbers up to this one. */
static void grow_table(struct segments *segments, uint32_t number)
{
    size_t count = (size_t)(number - segments->number_base) + 1;
    size_t old = segments->number_next - segments->number_base;
    size_t item = sizeof(*segments->by_number);
    segments->by_number = mem_realloc(segments->by_number, count * item);
    memset(segments->by_number + old, 0, (count - old) * item);
    segments->number_next = number + 1;
}

static struct segment *new_segment(struct segments *segments, uint32_t number, uint64_t size_bytes)
{
    struct segment *segment = mem_zalloc(sizeof(*segment));
    segment->segments = segments;
    segment->number = number;
    segment->state = SEGMENT_STALLED;
    segment->size_bytes = size_bytes;
    segment->end = BLOCK;
    list_init(&segment->link);
    list_init(&segment->open_link);
    return segment;
}

struct segment *segments_add(struct segments *segments, uint32_t number, uint64_t size_bytes)
{
    CHECK(number >= segments->number_base);
    if (number >= segments->number_next)
        grow_table(segments, number);
    struct segment *segment = new_segment(segments, number, size_bytes);
    segments->by_number[number - segments->number_base] = segment;
    return segment;
}

/*
 * Numbers are never given again. So the table begins with the oldest segment that is there, or it
 * would grow for as long as the process lives. O(numbers in the table): not more than twice those
 * from that segment on.
 */
static void forget_gone(struct segments *segments)
{
    uint32_t count = segments->number_next - segments->number_base, gone = 0;
    while (gone < count && !segments->by_number[gone])
        gone++;
    if (gone < GONE_LEAST || gone < count / 2)
        return;
    memmove(segments->by_number, segments->by_number + gone,
            (count - gone) * sizeof(*segments->by_number));
    segments->number_base += gone; /* grow_table() frees the rest of the memory */
}

static void note_less(struct segments *segments, const struct segment *segment)
{
    segments->copies_less =
        segments->copies_less || segment->size_bytes > segments->options->segment_bytes;
}

static void note_more(struct segments *segments, const struct segment *segment)
{
    uint64_t copies = segments_copies(segments, segment);
    if (copies > segments->copies_max)
        segments->copies_max = copies;
}

static void drop(struct segments *segments, struct segment *segment)
{
    CHECK(segment->pins == 0);
    note_less(segments, segment);
    if (segment->state != SEGMENT_STALLED)
        segments->disk_bytes -= segment->size_bytes;
    CHECK(segments->live_bytes >= segment->live_bytes && segments->live_jobs >= segment->live_jobs);
    segments->live_bytes -= segment->live_bytes;
    segments->live_jobs -= segment->live_jobs;
    segments->slice_log_bytes -= segment->slice_log_bytes;
    segments->by_number[segment->number - segments->number_base] = NULL;
    segments_close_file(segments, segment);
    segments->damaged -= segment->damaged;
    list_remove(&segment->link);
    mem_free(segment);
}

/* ---- slices ---- */

/* Index in segments::slices of the slice with this number, or where it would be inserted. Each end
   of a far job asks twice; so there is no branch on a comparison, which would be guessed wrongly
   half of the time. */
static uint32_t slice_place(const struct segments *segments, uint32_t number)
{
    uint32_t low = 0; /* all in front of it have lower numbers, … */
    for (uint32_t left = segments->slice_count; left > 0;) { /* … so may the next `left` ones */
        uint32_t half = (left + 1) / 2;
        bool lower = segments->slices[low + half - 1].number < number;
        low += lower ? half : 0;
        left -= half;
    }
    return low;
}

static struct segment *find_slice(const struct segments *segments, uint32_t number)
{
    uint32_t at = slice_place(segments, number);
    bool found = at < segments->slice_count && segments->slices[at].number == number;
    return found ? segments->slices[at].segment : NULL;
}

struct segment *segments_slice_from(const struct segments *segments, uint32_t number)
{
    uint32_t at = slice_place(segments, number);
    return at < segments->slice_count ? segments->slices[at].segment : NULL;
}

bool segments_is_slice(const struct segments *segments, uint64_t where)
{
    return segments->slice_count > 0 && find_slice(segments, where_segment(where)) != NULL;
}

uint32_t segments_take_number(struct segments *segments)
{
    uint32_t number = segments->number_next;
    grow_table(segments, number);
    return number;
}

bool segments_note_number(struct segments *segments, uint32_t number)
{
    if (number < segments->number_next)
        return true;
    if (number == UINT32_MAX || number - segments->number_base >= SEGMENT_SPAN_MAX)
        return false;
    grow_table(segments, number);
    return true;
}

struct segment *segments_add_slice(struct segments *segments, uint32_t number, uint64_t size_bytes,
                                   struct slice *slice)
{
    uint32_t at = slice_place(segments, number);
    CHECK(!segments_find(segments, number));
    if (segments->slice_count == segments->slice_cap) {
        segments->slice_cap = segments->slice_cap ? segments->slice_cap * 2 : 64;
        segments->slices =
            mem_realloc(segments->slices, segments->slice_cap * sizeof(*segments->slices));
    }
    struct segment *segment = new_segment(segments, number, size_bytes);
    segment->state = SEGMENT_SLICE;
    segment->slice = slice;
    segment->end = size_bytes;
    memmove(segments->slices + at + 1, segments->slices + at,
            (segments->slice_count - at) * sizeof(*segments->slices));
    segments->slices[at] = (struct numbered_slice){.number = number, .segment = segment};
    segments->slice_count++;
    segments->slice_bytes += size_bytes;
    return segment;
}

void segments_drop_slice(struct segments *segments, struct segment *segment)
{
    uint32_t at = slice_place(segments, segment->number);
    CHECK(segment->state == SEGMENT_SLICE && segment->pins == 0);
    CHECK(at < segments->slice_count && segments->slices[at].segment == segment);
    segments->slice_count--;
    memmove(segments->slices + at, segments->slices + at + 1,
            (segments->slice_count - at) * sizeof(*segments->slices));
    segments->slice_bytes -= segment->size_bytes;
    segments_close_file(segments, segment);
    segments->damaged -= segment->damaged;
    segments->retry_at_us = segments->store->now_us; /* room became free */
    mem_free(segment);
}

uint64_t segments_slice_bytes(const struct segments *segments)
{
    return segments->slice_bytes;
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
        drop(segments, segment_of_link(segments->spares.next));
    CHECK(segments->disk_bytes == 0 && segments->live_jobs == 0 && segments->files_open == 0);
    CHECK(segments->slice_count == 0); /* slices_free() comes first */
    mem_free(segments->slices);
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
                              uint64_t batch_first, uint64_t key)
{
    const struct segment *tail = segments_tail(segments);
    CHECK(!tail || tail->batch_first <= batch_first);
    struct segment *segment = segments_add(segments, number, size_bytes);
    segment->state = SEGMENT_HEADED;
    segment->filled = size_bytes; /* mostly true; if not, commits take longer */
    segment->batch_first = batch_first;
    segment->key = key;
    list_add_tail(&segments->log, &segment->link);
    segments->log_count++;
    segments->disk_bytes += size_bytes;
    return segment;
}

static struct segment *take_spare(struct segments *segments, uint32_t number, uint64_t size_bytes,
                                  struct disk_file *file)
{
    struct segment *segment = segments_add(segments, number, size_bytes);
    segment->state = SEGMENT_READY;
    segment->filled = size_bytes; /* as in segments_take() */
    segments_opened(segments, segment, file);
    segments->disk_bytes += size_bytes;
    list_add_tail(&segments->spares, &segment->link);
    segments->spare_count++;
    segments->spare_room += size_bytes - BLOCK;
    return segment;
}

void segments_take_spare(struct segments *segments, uint32_t number, uint64_t size_bytes,
                         struct disk_file *file)
{
    (void)take_spare(segments, number, size_bytes, file);
}

void segments_reused(struct segments *segments, uint32_t number, uint64_t size_bytes,
                     struct disk_file *file)
{
    CHECK(!segments_find(segments, number) && segments->store->secret != 0);
    struct segment *segment = take_spare(segments, number, size_bytes, file);
    segment->key = segment_key(segments->store->secret, number);
    segments->reused++;
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

/* ---- finding segments ---- */

struct segment *segments_find(const struct segments *segments, uint32_t number)
{
    struct segment *segment = NULL;
    if (number >= segments->number_base && number < segments->number_next)
        segment = segments->by_number[number - segments->number_base];
    return segment || segments->slice_count == 0 ? segment : find_slice(segments, number);
}

struct segment *segments_tail(const struct segments *segments)
{
    return list_empty(&segments->log) ? NULL : segment_of_link(segments->log.prev);
}

struct segment *segments_first(const struct segments *segments)
{
    return list_empty(&segments->log) ? NULL : segment_of_link(segments->log.next);
}

struct segment *segments_after(const struct segments *segments, const struct segment *segment)
{
    return segment->link.next == &segments->log ? NULL : segment_of_link(segment->link.next);
}

struct segment *segments_before(const struct segments *segments, const struct segment *segment)
{
    return segment->link.prev == &segments->log ? NULL : segment_of_link(segment->link.prev);
}

uint32_t segments_number_next(const struct segments *segments)
{
    return segments->number_next;
}

uint64_t segments_bytes(const struct segments *segments)
{
    return segments->disk_bytes;
}

uint64_t segments_store_bytes(const struct segments *segments)
{
    return segments->disk_bytes + segments->slice_bytes + segments->history_bytes + MANIFEST_BYTES;
}

uint64_t segments_live_jobs(const struct segments *segments)
{
    return segments->live_jobs;
}

uint64_t segments_live_bytes(const struct segments *segments)
{
    return segments->live_bytes;
}

uint64_t segments_slice_log_bytes(const struct segments *segments)
{
    return segments->slice_log_bytes;
}

void segments_grow(struct segment *segment, uint64_t bytes)
{
    CHECK(bytes % BLOCK == 0 && bytes <= segment->size_bytes - segment->end);
    segment->end += bytes;
}

void segments_note_filled(struct segment *segment, uint64_t end)
{
    CHECK(end <= segment->size_bytes);
    if (end > segment->filled)
        segment->filled = end;
}

/* The segment before was open for writing. Later reads open it again, read-only. */
void segments_headed(struct segments *segments, struct segment *segment)
{
    CHECK(segment->state == SEGMENT_READY);
    segment->state = SEGMENT_HEADED;
    if (segment->link.prev != &segments->log)
        segments_close_file(segments, segment_of_link(segment->link.prev));
}

void segments_drop_first(struct segments *segments)
{
    CHECK(segments->log_count > 1); /* the last one takes new batches */
    drop(segments, segments_first(segments));
    forget_gone(segments);
    segments->log_count--;
    segments->retry_at_us = segments->store->now_us; /* there may be room now */
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
    segments_file_name(segment, name);
    store_error_set(&error, name, offset, "%s", text);
    segments->store->callbacks->notice(segments->store->callbacks, STORE_DAMAGED, &error);
}

/* ---- live records ---- */

void segments_record_lives(struct segments *segments, struct segment *segment, struct stored stored)
{
    segment->live_bytes += stored.bytes;
    segment->live_jobs++;
    if (stored.bytes > segment->record_max)
        segment->record_max = stored.bytes;
    segments->live_bytes += stored.bytes;
    segments->live_jobs++;
    note_more(segments, segment);
}

bool segments_record_died(struct segments *segments, struct stored stored)
{
    struct segment *segment = segments_find(segments, where_segment(stored.where));
    if (!segment)
        return true; /* its segment was cleaned and removed before */
    if (segment->slice)
        return slices_record_died(segments->store->slices, segment->slice, stored);
    if (segment->live_jobs == 0 || segment->live_bytes < stored.bytes)
        return false;
    note_less(segments, segment);
    segment->live_bytes -= stored.bytes;
    segment->live_jobs--;
    segments->live_bytes -= stored.bytes;
    segments->live_jobs--;
    return true;
}

bool segments_leave(struct segments *segments, uint32_t number, uint64_t jobs, uint64_t bytes)
{
    struct segment *segment = segments_find(segments, number);
    if (!segment)
        return true;
    if (segment->slice || segment->live_jobs < jobs || segment->live_bytes < bytes)
        return false;
    note_less(segments, segment);
    segment->live_bytes -= bytes;
    segment->live_jobs -= jobs;
    segments->live_bytes -= bytes;
    segments->live_jobs -= jobs;
    return true;
}

void segments_add_slice_log(struct segments *segments, uint32_t number, uint64_t bytes,
                            uint64_t moves)
{
    struct segment *segment = segments_find(segments, number);
    if (!segment || segment->slice)
        return;
    segment->slice_log_bytes += bytes;
    segment->slice_log_moves += moves;
    segments->slice_log_bytes += bytes;
    note_more(segments, segment);
}

void segments_remove_slice_log(struct segments *segments, uint32_t number, uint64_t bytes,
                               uint64_t moves)
{
    struct segment *segment = segments_find(segments, number);
    if (!segment || segment->slice)
        return;
    CHECK(segment->slice_log_bytes >= bytes && segment->slice_log_moves >= moves);
    note_less(segments, segment);
    segment->slice_log_bytes -= bytes;
    segment->slice_log_moves -= moves;
    segments->slice_log_bytes -= bytes;
}

void segments_stats(const struct segments *segments, struct store_stats *out_stats)
{
    const struct segment *first = segments_first(segments), *tail = segments_tail(segments);
    out_stats->segments = segments->log_count;
    out_stats->disk_bytes = segments_store_bytes(segments);
    out_stats->live_bytes = segments->live_bytes;
    out_stats->live_jobs = segments->live_jobs;
    out_stats->damaged_segments = segments->damaged + segments->set_aside;
    out_stats->segment_first = first ? first->number : 0;
    out_stats->segment_tail = tail ? tail->number : 0;
    out_stats->segment_bytes = segments->options->segment_bytes;
    out_stats->segments_reused = segments->reused;
}

/* ---- invariants ---- */

struct sums {
    uint32_t count, open, damaged, making;
    uint64_t disk_bytes, live_bytes, live_jobs, slice_log_bytes, spare_room, slice_bytes;
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
    CHECK(!segment->key || segment->filled == segment->size_bytes);
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
    sums->slice_log_bytes += segment->slice_log_bytes;
}

static uint64_t slices_files_valid(const struct segments *segments, struct sums *sums)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < segments->slice_count; i++) {
        const struct segment *segment = segments->slices[i].segment;
        CHECK(segment->number == segments->slices[i].number);
        CHECK(i == 0 || segment->number > segments->slices[i - 1].number);
        CHECK(segment->state == SEGMENT_SLICE && segment->slice);
        CHECK(segments_find(segments, segment->number) == segment);
        CHECK(segment->live_jobs == 0 && segment->end == segment->size_bytes);
        CHECK(segment->pins >= segment->reading);
        bytes += segment->size_bytes;
        sums->open += segment->file != NULL;
        sums->damaged += segment->damaged;
    }
    return bytes;
}

void segments_valid(const struct segments *segments)
{
    struct sums sums = {0};
    uint64_t batch_first = 0;
    bool headed = true;
    for (struct list *link = segments->log.next; link != &segments->log; link = link->next) {
        const struct segment *segment = segment_of_link(link);
        segment_valid(segments, segment, &sums);
        CHECK(segment->batch_first > batch_first); /* G1 */
        CHECK(headed || segment->state != SEGMENT_HEADED);
        CHECK(segments_copies(segments, segment) <= segments->copies_max);
        headed = segment->state == SEGMENT_HEADED;
        batch_first = segment->batch_first;
    }
    CHECK(sums.count == segments->log_count);
    CHECK(sums.live_bytes == segments->live_bytes &&
          sums.live_jobs == segments->live_jobs && /* G2 */
          sums.slice_log_bytes == segments->slice_log_bytes);
    sums.count = 0;
    for (struct list *link = segments->spares.next; link != &segments->spares; link = link->next) {
        const struct segment *spare = segment_of_link(link);
        segment_valid(segments, spare, &sums);
        CHECK(spare->state != SEGMENT_HEADED && spare->batch_first == 0);
        CHECK(spare->live_jobs == 0 && spare->end == BLOCK);
        sums.spare_room += spare->state == SEGMENT_READY ? spare->size_bytes - BLOCK : 0;
    }
    CHECK(sums.count == segments->spare_count);
    sums.slice_bytes = slices_files_valid(segments, &sums);
    CHECK(sums.slice_bytes == segments->slice_bytes);
    CHECK(sums.open == segments->files_open && sums.damaged == segments->damaged); /* G3 */
    CHECK(sums.disk_bytes == segments->disk_bytes);
    CHECK(sums.making == segments->making && sums.spare_room == segments->spare_room);
    CHECK(!segments->full || segments->full == ERR_DISK_FULL || segments->full == ERR_DISK_LIMIT);
}
