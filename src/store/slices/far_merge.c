#include "store/slices/far_merge.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum {
    SMALL_BYTES = 2048,      /* runs with more are not joined */
    SAMPLE_MAX = 255,        /* runs from which the median is computed */
    JOIN_BYTES = 512 * 1024, /* about so many are copied at the beginning of a page to join runs */
    NO_CLASS = -1,
};

/* Jobs of one block, or of several that have few jobs. The records are in one piece of memory, in
   the order of the jobs, so that the memory of the last ones can be freed. */
struct far_run {
    struct merge_job *jobs;
    char *records;
    uint32_t count;
    uint32_t next; /* jobs before this one were taken or dropped */
    uint32_t left; /* jobs that were not released */
    uint32_t at;   /* index in the heap, while it has jobs that were not taken */
    int class;     /* index in far_merge::small; NO_CLASS: it is not there */
    size_t bytes;  /* of memory, with what a cut has not freed yet */
};

bool far_merge_before(const struct far_merge *merge, const struct job_place *a,
                      const struct job_place *b)
{
    const struct job_place *first = merge->backwards ? b : a;
    const struct job_place *second = merge->backwards ? a : b;
    return first->due_us != second->due_us ? first->due_us < second->due_us
                                           : first->seq < second->seq;
}

/* ---- runs ---- */

/* Records begin at multiples of eight, as in their block. */
static size_t record_room(const struct merge_job *job)
{
    return (job->len + 7) & ~(size_t)7;
}

/* Bytes of the records of its first `count` jobs. */
static size_t records_bytes(const struct far_run *run, uint32_t count)
{
    if (count == 0)
        return 0;
    const struct merge_job *last = &run->jobs[count - 1];
    return (size_t)(last->record - run->records) + record_room(last);
}

static void point_to_records(struct far_run *run)
{
    const char *at = run->records;
    for (uint32_t i = 0; i < run->count; i++) {
        run->jobs[i].record = at;
        at += record_room(&run->jobs[i]);
    }
}

/* Bytes of the jobs and their records. */
static size_t contents_bytes(const struct far_run *run)
{
    return run->count * sizeof(*run->jobs) + records_bytes(run, run->count);
}

/* Updates run->bytes and merge->bytes after the run's size changed. */
static void run_count_bytes(struct far_merge *merge, struct far_run *run)
{
    CHECK(merge->bytes >= run->bytes);
    merge->bytes -= run->bytes;
    run->bytes = sizeof(*run) + contents_bytes(run);
    merge->bytes += run->bytes;
}

/* Removes it from far_merge::small: it will not be joined. */
static void forget_small(struct far_merge *merge, struct far_run *run)
{
    if (run->class != NO_CLASS)
        merge->small[run->class] = NULL;
    run->class = NO_CLASS;
}

static void run_free(struct far_merge *merge, struct far_run *run)
{
    CHECK(merge->bytes >= run->bytes);
    forget_small(merge, run);
    merge->bytes -= run->bytes;
    mem_free(run->jobs);
    mem_free(run->records);
    mem_free(run);
}

/* Releases a job. False: it was the last one, and the run, not in the heap, was freed. */
static bool run_release(struct far_merge *merge, struct far_run *run)
{
    CHECK(run->left > 0);
    if (--run->left > 0)
        return true;
    run_free(merge, run);
    return false;
}

/*
 * Drops the jobs from the `count`-th on; they were not taken. Their memory is freed only if it is
 * half of what the run has, because freeing a little of each of many runs takes too long. False:
 * there are none.
 */
static bool run_shorten(struct far_merge *merge, struct far_run *run, uint32_t count)
{
    CHECK(count >= run->next && count <= run->count);
    if (count == run->count)
        return false;
    run->left -= run->count - count;
    run->count = count;
    if (contents_bytes(run) > (run->bytes - sizeof(*run)) / 2)
        return true;
    if (count > 0) {
        size_t bytes = records_bytes(run, count);
        uintptr_t before = (uintptr_t)run->records;
        run->jobs = mem_realloc(run->jobs, count * sizeof(*run->jobs));
        run->records = mem_realloc(run->records, bytes);
        if ((uintptr_t)run->records != before)
            point_to_records(run);
    }
    run_count_bytes(merge, run);
    return true;
}

/* ---- the heap ---- */

static bool runs_before(const struct far_merge *merge, const struct far_run *a,
                        const struct far_run *b)
{
    return far_merge_before(merge, &a->jobs[a->next].place, &b->jobs[b->next].place);
}

static void heap_set(struct far_merge *merge, uint32_t at, struct far_run *run)
{
    merge->runs[at] = run;
    run->at = at;
}

static void sift_down(struct far_merge *merge, uint32_t at)
{
    struct far_run *run = merge->runs[at];
    for (uint32_t child; (child = 2 * at + 1) < merge->run_count; at = child) {
        if (child + 1 < merge->run_count &&
            runs_before(merge, merge->runs[child + 1], merge->runs[child]))
            child++;
        if (!runs_before(merge, merge->runs[child], run))
            break;
        heap_set(merge, at, merge->runs[child]);
    }
    heap_set(merge, at, run);
}

/* Sifts the run up from the free place `at`. */
static void sift_up(struct far_merge *merge, uint32_t at, struct far_run *run)
{
    for (; at > 0 && runs_before(merge, run, merge->runs[(at - 1) / 2]); at = (at - 1) / 2)
        heap_set(merge, at, merge->runs[(at - 1) / 2]);
    heap_set(merge, at, run);
}

static void heap_push(struct far_merge *merge, struct far_run *run)
{
    if (merge->run_count == merge->run_cap) {
        merge->run_cap = merge->run_cap ? 2 * merge->run_cap : 16;
        merge->runs = mem_realloc(merge->runs, merge->run_cap * sizeof(struct far_run *));
    }
    sift_up(merge, merge->run_count++, run);
}

static void heap_remove(struct far_merge *merge, const struct far_run *run)
{
    uint32_t at = run->at;
    CHECK(at < merge->run_count && merge->runs[at] == run);
    struct far_run *last = merge->runs[--merge->run_count];
    if (last == run)
        return;
    sift_up(merge, at, last);
    sift_down(merge, last->at);
}

/* Advances the first run by one job, and restores the heap. */
static void heap_step(struct far_merge *merge)
{
    struct far_run *run = merge->runs[0];
    CHECK(run->next < run->count);
    if (++run->next == run->count) {
        forget_small(merge, run);
        merge->runs[0] = merge->runs[--merge->run_count];
    }
    if (merge->run_count > 0)
        sift_down(merge, 0);
}

/* ---- small runs ---- */

/* log2 of the number of its jobs that were not taken, rounded down; NO_CLASS: it is large. */
static int class_of(const struct far_run *run)
{
    uint32_t count = run->count - run->next;
    int class = 31 - __builtin_clz(count);
    return class < FAR_MERGE_CLASSES && run->bytes < SMALL_BYTES ? class : NO_CLASS;
}

/* No job that was taken is still kept, so far_merge::taken has no pointer to the run. */
static bool is_whole(const struct far_run *run)
{
    return run->left == run->count - run->next;
}

/* Moves the next job of `from` to the end of `run`, which has room. */
static void move_next(struct far_run *run, struct far_run *from, size_t *records_end)
{
    struct merge_job *job = &run->jobs[run->count++];
    *job = from->jobs[from->next++];
    memcpy(run->records + *records_end, job->record, job->len);
    job->record = run->records + *records_end;
    *records_end += record_room(job);
}

/* Merges two runs into a new one, and frees them. O(jobs and bytes of both). */
static struct far_run *join(struct far_merge *merge, struct far_run *a, struct far_run *b)
{
    uint32_t count = a->count - a->next + b->count - b->next;
    size_t end = 0;
    struct far_run *run = mem_zalloc(sizeof(*run));
    run->class = NO_CLASS;
    run->left = count;
    run->jobs = mem_alloc(count * sizeof(*run->jobs));
    run->records = mem_alloc(records_bytes(a, a->count) + records_bytes(b, b->count));
    heap_remove(merge, a);
    heap_remove(merge, b);
    while (a->next < a->count && b->next < b->count)
        move_next(run, runs_before(merge, a, b) ? a : b, &end);
    while (a->next < a->count)
        move_next(run, a, &end);
    while (b->next < b->count)
        move_next(run, b, &end);
    run_count_bytes(merge, run);
    run_free(merge, a);
    run_free(merge, b);
    heap_push(merge, run);
    return run;
}

/*
 * A topic with few jobs in each of many blocks would have as many runs as blocks. So a small run is
 * joined with another one of its class, and the result again. Each job is copied a few times, and
 * there are only a few small runs besides the large ones. Returns the bytes copied.
 */
static size_t join_small(struct far_merge *merge, struct far_run *run)
{
    size_t bytes = 0;
    int class;
    forget_small(merge, run);
    while ((class = class_of(run)) != NO_CLASS) {
        struct far_run *other = merge->small[class];
        if (!other || !is_whole(other)) {
            if (other)
                forget_small(merge, other); /* far_merge_begin() joins it when it is whole again */
            merge->small[class] = run;
            run->class = class;
            return bytes;
        }
        run = join(merge, run, other);
        bytes += run->bytes;
    }
    return bytes;
}

/* ---- adding ---- */

static bool job_before(const struct far_merge *merge, const struct merge_job *a,
                       const struct merge_job *b)
{
    return far_merge_before(merge, &a->place, &b->place);
}

/* Insertion sort: O(1) for each job that comes in order, and slices are sorted. */
static void put_in_order(const struct far_merge *merge, struct far_run *run, struct merge_job job)
{
    uint32_t at = run->count++;
    for (; at > 0 && job_before(merge, &job, &run->jobs[at - 1]); at--)
        run->jobs[at] = run->jobs[at - 1];
    run->jobs[at] = job;
}

void far_merge_add(struct far_merge *merge, const struct merge_job *jobs, uint32_t count)
{
    struct far_run *run = mem_zalloc(sizeof(*run));
    size_t bytes = 0;
    run->class = NO_CLASS;
    run->jobs = mem_alloc((count + 1) * sizeof(*run->jobs));
    for (uint32_t i = 0; i < count; i++) {
        const struct merge_job *job = &jobs[merge->backwards ? count - 1 - i : i];
        if (merge->cut && far_merge_before(merge, &merge->bound, &job->place))
            continue;
        put_in_order(merge, run, *job);
        bytes += record_room(job);
    }
    char *at = run->records = mem_alloc(bytes + 1);
    for (uint32_t i = 0; i < run->count; i++) {
        memcpy(at, run->jobs[i].record, run->jobs[i].len);
        at += record_room(&run->jobs[i]);
    }
    point_to_records(run);
    run->left = run->count;
    run_count_bytes(merge, run);
    if (run->count == 0) {
        run_free(merge, run);
        return;
    }
    heap_push(merge, run);
    (void)join_small(merge, run);
}

/* ---- a page ---- */

static const struct merge_job *taken_at(const struct far_merge *merge, uint32_t at)
{
    return &merge->taken[at].run->jobs[merge->taken[at].job];
}

const struct job_place *far_merge_last(const struct far_merge *merge)
{
    uint32_t kept = merge->kept;
    return merge->served < merge->taken_count ? &taken_at(merge, merge->taken_count - 1)->place
           : kept > 0                         ? &taken_at(merge, kept - 1)->place
           : merge->rewound                   ? &merge->reached
                                              : &merge->after;
}

bool far_merge_has(const struct far_merge *merge, const struct job_place *after)
{
    const struct job_place *last = far_merge_last(merge);
    return !far_merge_before(merge, after, &merge->after) && !far_merge_before(merge, last, after);
}

void far_merge_begin(struct far_merge *merge, struct job_place after)
{
    uint32_t count = merge->kept;
    while (merge->served < merge->taken_count)
        merge->taken[count++] = merge->taken[merge->served++];
    uint32_t gone = 0;
    size_t joined = 0;
    while (gone < count && !far_merge_before(merge, &after, &taken_at(merge, gone)->place)) {
        struct far_run *run = merge->taken[gone++].run;
        if (run_release(merge, run) && is_whole(run) && run->class == NO_CLASS &&
            joined < JOIN_BYTES)
            joined += join_small(merge, run);
    }
    merge->taken_count = count - gone;
    if (gone > 0 && merge->taken_count > 0)
        memmove(merge->taken, merge->taken + gone, merge->taken_count * sizeof(*merge->taken));
    merge->kept = merge->served = 0;
    merge->after = after;
    merge->rewound = false;
    const struct merge_job *next;
    while ((next = far_merge_next(merge)) && !far_merge_before(merge, &after, &next->place))
        far_merge_drop(merge);
}

/* All from this one on are returned again, those that were dropped among them, too. Of the run's
   jobs that were taken this is the first but for those that are given back after it. */
static void give_back(struct far_merge *merge, const struct merge_taken *taken)
{
    struct far_run *run = taken->run;
    bool in_heap = run->next < run->count;
    CHECK(run->next <= run->count);
    CHECK(taken->job < run->next);
    run->next = taken->job;
    run->left = run->count - run->next;
    if (in_heap)
        sift_up(merge, run->at, run);
    else
        heap_push(merge, run);
}

void far_merge_rewind(struct far_merge *merge)
{
    struct job_place reached = *far_merge_last(merge);
    CHECK(!far_merge_before(merge, &reached, &merge->after));
    while (merge->taken_count > 0) {
        uint32_t i = --merge->taken_count;
        if (i < merge->kept || i >= merge->served)
            give_back(merge, &merge->taken[i]);
    }
    merge->kept = merge->served = 0;
    merge->rewound = true;
    merge->reached = reached;
}

const struct merge_job *far_merge_next(const struct far_merge *merge)
{
    if (merge->served < merge->taken_count)
        return taken_at(merge, merge->served);
    return merge->run_count ? &merge->runs[0]->jobs[merge->runs[0]->next] : NULL;
}

void far_merge_take(struct far_merge *merge)
{
    if (merge->served < merge->taken_count) {
        merge->taken[merge->kept++] = merge->taken[merge->served++];
        return;
    }
    CHECK(merge->run_count > 0);
    if (merge->kept == merge->taken_cap) {
        merge->taken_cap = merge->taken_cap ? 2 * merge->taken_cap : 64;
        merge->taken = mem_realloc(merge->taken, merge->taken_cap * sizeof(*merge->taken));
    }
    struct far_run *run = merge->runs[0];
    merge->taken[merge->kept++] = (struct merge_taken){.run = run, .job = run->next};
    merge->taken_count = merge->served = merge->kept;
    heap_step(merge);
}

void far_merge_drop(struct far_merge *merge)
{
    if (merge->served < merge->taken_count) {
        (void)run_release(merge, merge->taken[merge->served++].run);
        return;
    }
    CHECK(merge->run_count > 0);
    struct far_run *run = merge->runs[0];
    heap_step(merge);
    (void)run_release(merge, run);
}

/* ---- less memory ---- */

/* How many of the run's jobs are not behind the bound; jobs that were taken are included. */
static uint32_t count_up_to(const struct far_merge *merge, const struct far_run *run,
                            const struct job_place *bound)
{
    uint32_t low = run->next, high = run->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (far_merge_before(merge, bound, &run->jobs[middle].place))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool cut(struct far_merge *merge, struct job_place bound)
{
    uint32_t count = merge->run_count;
    bool some = false;
    if (merge->cut && far_merge_before(merge, &merge->bound, &bound))
        return false;
    merge->cut = true;
    merge->bound = bound;
    merge->run_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct far_run *run = merge->runs[i];
        some |= run_shorten(merge, run, count_up_to(merge, run, &bound));
        if (run->next < run->count)
            heap_push(merge, run); /* at most i are in the heap: runs[i + 1 …] is not overwritten */
        else if (run->left == 0)
            run_free(merge, run);
        else
            forget_small(merge, run);
    }
    return some;
}

void far_merge_cut(struct far_merge *merge, struct job_place bound)
{
    (void)cut(merge, bound);
}

static const struct job_place *middle_of(const struct far_run *run)
{
    return &run->jobs[run->next + (run->count - run->next - 1) / 2].place;
}

/*
 * The bound is the median of the runs' middle jobs; with more than SAMPLE_MAX runs, of a sample. So
 * about half of the runs keep at least half of their jobs, and the others lose as much.
 */
bool far_merge_cut_half(struct far_merge *merge)
{
    struct job_place middles[SAMPLE_MAX];
    uint32_t step = merge->run_count / SAMPLE_MAX + 1, count = 0;
    for (uint32_t i = 0; i < merge->run_count; i += step, count++) {
        struct job_place place = *middle_of(merge->runs[i]);
        uint32_t at = count;
        for (; at > 0 && far_merge_before(merge, &place, &middles[at - 1]); at--)
            middles[at] = middles[at - 1];
        middles[at] = place;
    }
    return count > 0 && cut(merge, middles[(count - 1) / 2]);
}

void far_merge_pass_bound(struct far_merge *merge)
{
    CHECK(merge->cut && !far_merge_next(merge) && merge->kept == 0);
    merge->cut = false;
}

/* ---- life ---- */

/* Jobs that were taken are released first, because they point into runs. */
bool far_merge_free_some(struct far_merge *merge, uint32_t most)
{
    for (; most > 0 && merge->taken_count > 0; most--) {
        uint32_t i = --merge->taken_count;
        if (i < merge->kept || i >= merge->served)
            (void)run_release(merge, merge->taken[i].run);
        merge->served = merge->served < i ? merge->served : i;
        merge->kept = merge->kept < i ? merge->kept : i;
    }
    for (; most > 0 && merge->run_count > 0; most--)
        run_free(merge,
                 merge->runs[--merge->run_count]); /* whole, with all jobs that are left in it */
    return merge->taken_count > 0 || merge->run_count > 0;
}

void far_merge_fini(struct far_merge *merge)
{
    while (far_merge_free_some(merge, UINT32_MAX))
        ;
    CHECK(merge->bytes == 0);
    mem_free(merge->runs);
    mem_free(merge->taken);
}

void far_merge_valid(const struct far_merge *merge)
{
    CHECK(merge->kept <= merge->served && merge->served <= merge->taken_count);
    for (uint32_t i = 0; i < merge->run_count; i++) {
        const struct far_run *run = merge->runs[i];
        CHECK(run->next < run->count && run->left >= run->count - run->next);
        CHECK(i == 0 || !runs_before(merge, run, merge->runs[(i - 1) / 2]));
        CHECK(run->at == i && (run->class == NO_CLASS || merge->small[run->class] == run));
        CHECK(!merge->cut ||
              !far_merge_before(merge, &merge->bound, &run->jobs[run->count - 1].place));
        for (uint32_t k = 1; k < run->count; k++)
            CHECK(!job_before(merge, &run->jobs[k], &run->jobs[k - 1]));
    }
}
