#include "store/recovery/strays.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct stray {
    uint64_t seq;   /* 0: forgotten */
    const char *id; /* in strays::ids */
    uint8_t id_len;
};

struct stray_seq {
    uint64_t seq;
    size_t at; /* in strays::jobs */
};

bool strays_believes(const struct strays *strays, uint64_t seq)
{
    return strays->seq_end == 0 || seq < strays->seq_end;
}

void strays_note_slice(struct strays *strays, uint32_t number)
{
    for (size_t i = strays->slice_count; i > 0; i--) /* mostly the last one */
        if (strays->slices[i - 1] == number)
            return;
    if (strays->slice_count == strays->slice_cap) {
        strays->slice_cap = strays->slice_cap ? strays->slice_cap * 2 : 16;
        strays->slices = mem_realloc(strays->slices, strays->slice_cap * sizeof(*strays->slices));
    }
    strays->slices[strays->slice_count++] = number;
}

void strays_add(struct strays *strays, const struct event *event)
{
    if (event->id.len == 0 || event->id.len > JOB_ID_MAX)
        return;
    if (strays->count == strays->cap) {
        strays->cap = strays->cap ? strays->cap * 2 : 64;
        strays->jobs = mem_realloc(strays->jobs, strays->cap * sizeof(*strays->jobs));
    }
    struct stray *stray = &strays->jobs[strays->count++];
    stray->seq = event->job.seq;
    stray->id = arena_copy(&strays->ids, event->id).at;
    stray->id_len = (uint8_t)event->id.len;
}

static int compare_id(const struct stray *stray, struct bytes id)
{
    size_t len = stray->id_len < id.len ? stray->id_len : id.len;
    int order = memcmp(stray->id, id.at, len);
    return order ? order : (int)stray->id_len - (int)id.len;
}

static int by_id(const void *left, const void *right)
{
    const struct stray *a = left;
    const struct stray *b = right;
    int order = compare_id(a, bytes_of(b->id, b->id_len));
    return order ? order : a->seq < b->seq ? -1 : a->seq > b->seq;
}

static int by_seq(const void *left, const void *right)
{
    const struct stray_seq *a = left;
    const struct stray_seq *b = right;
    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

void strays_sort(struct strays *strays)
{
    if (strays->count == 0)
        return;
    qsort(strays->jobs, strays->count, sizeof(*strays->jobs), by_id);
    strays->seqs = mem_alloc(strays->count * sizeof(*strays->seqs));
    for (size_t i = 0; i < strays->count; i++)
        strays->seqs[i] = (struct stray_seq){strays->jobs[i].seq, i};
    qsort(strays->seqs, strays->count, sizeof(*strays->seqs), by_seq);
}

/* The core accepts one stray of each number. */
static void forget(struct strays *strays, uint64_t seq)
{
    const struct stray_seq wanted = {.seq = seq}, *found;
    if (strays->count == 0)
        return;
    found = bsearch(&wanted, strays->seqs, strays->count, sizeof(wanted), by_seq);
    if (found)
        strays->jobs[found->at].seq = 0;
}

bool strays_hides(struct strays *strays, const struct event *event, uint64_t *out_seq)
{
    size_t low = 0; /* becomes the index of the first of the id */
    if (event->kind != EVENT_JOB || strays->count == 0)
        return false;
    forget(strays, event->job.seq);
    if (event->id.len == 0)
        return false;
    for (size_t high = strays->count; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (compare_id(&strays->jobs[middle], event->id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < strays->count && compare_id(&strays->jobs[low], event->id) == 0; low++) {
        struct stray *stray = &strays->jobs[low];
        if (stray->seq <= event->job.seq)
            continue;
        *out_seq = stray->seq;
        stray->seq = 0;
        return true;
    }
    return false;
}

void strays_fini(struct strays *strays)
{
    mem_free(strays->slices);
    mem_free(strays->jobs);
    mem_free(strays->seqs);
    arena_fini(&strays->ids);
}
