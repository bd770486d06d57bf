#include "store/slices/spill_gather.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/slices/far_record.h"
#include "store/slices/spill_build.h"

enum { CHUNK_BYTES = GATHER_RECORD_MAX + sizeof(struct spilled_names) };

/* Bytes of memory of a job besides its record: its names, two copies, for sorting, and what leaves.
 */
enum {
    GATHERED_BYTES =
        sizeof(struct spilled_names) + 2 * sizeof(struct spilled) + sizeof(struct leaving)
};

/* ---- memory ---- */

static char *chunk_at(const struct buf *chunks, size_t number)
{
    char *chunk;
    memcpy(&chunk, chunks->at + number * sizeof(chunk), sizeof(chunk));
    return chunk;
}

static size_t chunk_count(const struct buf *chunks)
{
    return chunks->len / sizeof(char *);
}

uint64_t gather_room_bytes(const struct gather_room *room)
{
    return (uint64_t)chunk_count(&room->chunks) * CHUNK_BYTES + room->jobs.cap + room->spare.cap +
           room->spent.bytes;
}

bool gather_room_less(struct gather_room *room)
{
    size_t count = chunk_count(&room->chunks);
    bool more = count > 0 || room->jobs.cap + room->spare.cap > 0;
    discard_buf(&room->spent, &room->jobs);
    discard_buf(&room->spent, &room->spare);
    if (count > 0) {
        mem_free(chunk_at(&room->chunks, count - 1));
        room->chunks.len -= sizeof(char *);
    }
    return more;
}

void gather_room_fini(struct gather_room *room)
{
    while (gather_room_less(room))
        continue;
    buf_fini(&room->chunks);
    discard_fini(&room->spent);
}

static char *take_chunk(struct gather_room *room)
{
    size_t count = chunk_count(&room->chunks);
    if (count == 0)
        return mem_alloc(CHUNK_BYTES);
    char *chunk = chunk_at(&room->chunks, count - 1);
    room->chunks.len -= sizeof(chunk);
    return chunk;
}

/* Takes memory for a record. */
static char *take_room(struct spill_gather *gather, struct gather_room *room, size_t len)
{
    CHECK(len <= CHUNK_BYTES);
    if (!gather->chunks.len || CHUNK_BYTES - gather->chunk_used < len) {
        char *chunk = take_chunk(room);
        buf_add(&gather->chunks, &chunk, sizeof(chunk));
        gather->chunk_used = 0;
    }
    char *at = chunk_at(&gather->chunks, chunk_count(&gather->chunks) - 1) + gather->chunk_used;
    gather->chunk_used += len;
    return at;
}

/* Keeps the larger one of the two, as *kept. */
static void keep_larger(struct gather_room *room, struct buf *kept, struct buf *used)
{
    if (used->cap > kept->cap) {
        struct buf swapped = *kept;
        *kept = *used;
        *used = swapped;
    }
    kept->len = 0;
    discard_buf(&room->spent, used);
}

void gather_fini(struct spill_gather *gather, struct gather_room *room)
{
    if (gather->chunks.len)
        buf_add(&room->chunks, gather->chunks.at, gather->chunks.len);
    buf_fini(&gather->chunks);
    keep_larger(room, &room->jobs, &gather->jobs);
    keep_larger(room, &room->spare, &gather->spare);
    *gather = (struct spill_gather){0};
}

/* ---- adding ---- */

/* For its first job. */
static void take_tables(struct spill_gather *gather, struct gather_room *room)
{
    gather->jobs = room->jobs;
    gather->spare = room->spare;
    room->jobs = room->spare = (struct buf){0};
}

void gather_add(struct spill_gather *gather, struct gather_room *room, const struct event *job,
                const struct far_draft *draft, uint64_t content_sum, uint32_t old_bytes)
{
    CHECK(gather->taken == 0);
    if (!gather->jobs.cap)
        take_tables(gather, room);
    struct spilled_names *names =
        (struct spilled_names *)(void *)take_room(gather, room, sizeof(*names) + draft->len);
    char *record = (char *)(names + 1);
    *names = (struct spilled_names){
        .id_at = (uint32_t)far_record_end(job, draft, content_sum, record),
        .id_len = (uint16_t)job->id.len,
        .topic_len = (uint16_t)job->topic.len,
    };
    gather->record_bytes += draft->len;
    buf_reserve(&gather->jobs, sizeof(struct spilled));
    struct spilled *added = (struct spilled *)(void *)(gather->jobs.at + gather->jobs.len);
    *added = (struct spilled){
        .seq = job->job.seq,
        .due_us = job->job.due_us,
        .record = record,
        .old_bytes = old_bytes,
        .len = (uint32_t)draft->len,
    };
    gather->jobs.len += sizeof(*added);
}

uint64_t gather_bytes(const struct spill_gather *gather)
{
    return gather->record_bytes + gather_count(gather) * GATHERED_BYTES;
}

bool gather_left(const struct spill_gather *gather)
{
    return gather->taken < gather_count(gather);
}

/* ---- order ---- */

enum {
    DIGIT_BITS = 11,
    DIGITS = 1 << DIGIT_BITS,
    FIRST_BITS = 2 * DIGIT_BITS, /* of the keys' span, by which all jobs are sorted first */
    MOVES = 4, /* places that a job moves after that, on average: more digits are quicker then */
};

enum spilled_key { BY_SEQ, BY_DUE };

/* The key as an unsigned number of the same order. */
static uint64_t key_of(const struct spilled *job, enum spilled_key key)
{
    return key == BY_SEQ ? job->seq : (uint64_t)job->due_us ^ UINT64_C(1) << 63;
}

/* Stable sort by one digit of the key. */
static void sort_digit(const struct spilled *from, struct spilled *to, size_t count,
                       enum spilled_key key, uint64_t least, unsigned shift)
{
    uint32_t starts[DIGITS] = {0}, before = 0;
    for (size_t i = 0; i < count; i++)
        starts[(key_of(&from[i], key) - least) >> shift & (DIGITS - 1)]++;
    for (uint32_t i = 0; i < DIGITS; i++) {
        uint32_t here = starts[i];
        starts[i] = before;
        before += here;
    }
    for (size_t i = 0; i < count; i++)
        to[starts[(key_of(&from[i], key) - least) >> shift & (DIGITS - 1)]++] = from[i];
}

/* The keys of the jobs: from `least` on, in so many bits. */
struct span {
    enum spilled_key key;
    uint64_t least;
    unsigned bits;
};

/* Sorts from the digit at bit `shift` to the highest one: O(jobs) for each, which swaps *jobs and
 *spare. */
static void sort_digits(struct spilled **jobs, struct spilled **spare, size_t count,
                        const struct span *span, unsigned shift)
{
    for (; shift < span->bits; shift += DIGIT_BITS) {
        sort_digit(*jobs, *spare, count, span->key, span->least, shift);
        struct spilled *swapped = *jobs;
        *jobs = *spare;
        *spare = swapped;
    }
}

/* Insertion sort of jobs that are at or near their places; stable. False: too many are not, and it
   has sorted some. O(jobs). */
static bool settle(struct spilled *jobs, size_t count, enum spilled_key key)
{
    uint64_t left = MOVES * (uint64_t)count;
    for (size_t i = 1; i < count; i++) {
        uint64_t of_job = key_of(&jobs[i], key);
        if (key_of(&jobs[i - 1], key) <= of_job)
            continue;
        struct spilled job = jobs[i];
        size_t at = i;
        for (; at > 0 && key_of(&jobs[at - 1], key) > of_job; at--)
            jobs[at] = jobs[at - 1];
        jobs[at] = job;
        if (i - at > left)
            return false;
        left -= i - at;
    }
    return true;
}

/* By the first bits of the span, which tell most jobs apart; by all digits where they do not. */
static void sort_by(struct spilled **jobs, struct spilled **spare, size_t count,
                    enum spilled_key key)
{
    uint64_t least = UINT64_MAX, most = 0, last = 0;
    bool sorted = true;
    for (size_t i = 0; i < count; i++) {
        uint64_t of_job = key_of(&(*jobs)[i], key);
        least = of_job < least ? of_job : least;
        most = of_job > most ? of_job : most;
        sorted = sorted && of_job >= last;
        last = of_job;
    }
    if (sorted)
        return;
    struct span span = {
        .key = key,
        .least = least,
        .bits = 64u - (unsigned)__builtin_clzll(most - least), /* not 0: they are not sorted */
    };
    if (span.bits > FIRST_BITS) {
        sort_digits(jobs, spare, count, &span, span.bits - FIRST_BITS);
        if (settle(*jobs, count, key))
            return;
    }
    sort_digits(jobs, spare, count, &span, 0);
}

void gather_sort(struct spill_gather *gather)
{
    size_t count = gather_count(gather);
    CHECK(gather->taken == 0 && count <= UINT32_MAX);
    buf_reserve(&gather->spare, gather->jobs.len);
    struct spilled *jobs = (struct spilled *)(void *)gather->jobs.at;
    struct spilled *spare = (struct spilled *)(void *)gather->spare.at, *first = jobs;
    sort_by(&jobs, &spare, count, BY_SEQ);
    sort_by(&jobs, &spare, count, BY_DUE);
    if (jobs != first) {
        struct buf sorted = gather->spare;
        sorted.len = gather->jobs.len;
        gather->spare = gather->jobs;
        gather->spare.len = 0;
        gather->jobs = sorted;
    }
}
