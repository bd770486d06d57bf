#include "store/spill_gather.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/far_record.h"

enum { CHUNK_BYTES = GATHER_RECORD_MAX };

/* Of a job, besides its record. */
enum { GATHERED_BYTES = sizeof(struct spilled) + sizeof(struct turn_of) };

/* ---- the heap: four children each, so that those of one lie in a line of the cache ---- */

enum { CHILDREN = 4 };

static struct turn_of *heap_at(const struct spill_gather *gather, size_t place)
{
    return (struct turn_of *)(void *)gather->heap.at + place;
}

static size_t heap_count(const struct spill_gather *gather)
{
    return gather->heap.len / sizeof(struct turn_of);
}

static bool before(const struct spill_gather *gather, const struct turn_of *a,
                   const struct turn_of *b)
{
    return a->due_us != b->due_us
               ? a->due_us < b->due_us
               : gather_job(gather, a->job)->seq < gather_job(gather, b->job)->seq;
}

void gather_put_back(struct spill_gather *gather, struct turn_of job)
{
    buf_add(&gather->heap, &job, sizeof(job));
    size_t at = heap_count(gather) - 1;
    while (at > 0 && before(gather, &job, heap_at(gather, (at - 1) / CHILDREN))) {
        *heap_at(gather, at) = *heap_at(gather, (at - 1) / CHILDREN);
        at = (at - 1) / CHILDREN;
    }
    *heap_at(gather, at) = job;
}

/* Of the children of `at`, of which there is one, the first to be due. */
static size_t first_child(const struct spill_gather *gather, size_t at)
{
    size_t first = CHILDREN * at + 1, count = heap_count(gather);
    for (size_t child = first + 1; child <= CHILDREN * at + CHILDREN && child < count; child++)
        if (before(gather, heap_at(gather, child), heap_at(gather, first)))
            first = child;
    return first;
}

static struct turn_of heap_pop(struct spill_gather *gather)
{
    struct turn_of top = *heap_at(gather, 0);
    struct turn_of last = *heap_at(gather, heap_count(gather) - 1);
    gather->heap.len -= sizeof(last);
    size_t count = heap_count(gather), at = 0;
    while (CHILDREN * at + 1 < count) {
        size_t child = first_child(gather, at);
        if (!before(gather, heap_at(gather, child), &last))
            break;
        *heap_at(gather, at) = *heap_at(gather, child);
        at = child;
    }
    if (count > 0)
        *heap_at(gather, at) = last;
    return top;
}

/* ---- adding ---- */

/* Memory for a record. */
static char *take_room(struct spill_gather *gather, size_t len)
{
    CHECK(len <= CHUNK_BYTES);
    if (!gather->chunks.len || CHUNK_BYTES - gather->chunk_used < len) {
        char *chunk = mem_alloc(CHUNK_BYTES);
        buf_add(&gather->chunks, &chunk, sizeof(chunk));
        gather->chunk_used = 0;
    }
    char *chunk;
    memcpy(&chunk, gather->chunks.at + gather->chunks.len - sizeof(chunk), sizeof(chunk));
    char *at = chunk + gather->chunk_used;
    gather->chunk_used += len;
    return at;
}

void gather_add(struct spill_gather *gather, const struct event *job, struct stored old, size_t len)
{
    char *at = take_room(gather, len);
    far_record_encode(job, len, at);
    gather->record_bytes += len;
    struct spilled taken = {.seq = job->job.seq, .record = at, .old = old, .len = (uint32_t)len};
    uint32_t number = (uint32_t)(gather->jobs.len / sizeof(taken));
    buf_add(&gather->jobs, &taken, sizeof(taken));
    gather_put_back(gather, (struct turn_of){.due_us = job->job.due_us, .job = number});
}

uint64_t gather_bytes(const struct spill_gather *gather)
{
    return gather->record_bytes + gather->jobs.len / sizeof(struct spilled) * GATHERED_BYTES;
}

/* ---- taking ---- */

struct spilled *gather_job(const struct spill_gather *gather, uint32_t number)
{
    return (struct spilled *)(void *)gather->jobs.at + number;
}

bool gather_left(const struct spill_gather *gather)
{
    return gather->heap.len > 0;
}

uint32_t gather_take(struct spill_gather *gather, struct turn_of out_next[static GATHER_AHEAD])
{
    enum { LINE = 64, FETCHED = 512 };
    uint32_t count = 0;
    for (; count < GATHER_AHEAD && heap_count(gather) > 0; count++) {
        out_next[count] = heap_pop(gather);
        __builtin_prefetch(gather_job(gather, out_next[count].job));
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct spilled *job = gather_job(gather, out_next[i].job);
        for (uint32_t at = 0; at < job->len && at < FETCHED; at += LINE)
            __builtin_prefetch(job->record + at);
    }
    return count;
}

/* ---- the end ---- */

void gather_fini(struct spill_gather *gather)
{
    for (size_t at = 0; at < gather->chunks.len; at += sizeof(char *)) {
        char *chunk;
        memcpy(&chunk, gather->chunks.at + at, sizeof(chunk));
        mem_free(chunk);
    }
    buf_fini(&gather->chunks);
    buf_fini(&gather->jobs);
    buf_fini(&gather->heap);
    *gather = (struct spill_gather){0};
}
