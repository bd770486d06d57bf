#include "store/recovery/aside.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/log/segments.h"
#include "store/recovery/directory.h"

/* A job with a good body. */
struct aside_job {
    uint64_t seq;
    uint64_t batch;  /* the last good batch header before it; 0: none */
    uint64_t offset; /* of its record */
    uint32_t len;
    uint32_t number; /* of the segment */
};

static void aside_found(void *ctx, const char *name)
{
    struct buf *numbers = ctx;
    uint32_t number;
    if (aside_name_parse(name, &number))
        buf_add(numbers, &number, sizeof(number));
}

static int by_seq(const void *left, const void *right)
{
    const struct aside_job *a = left;
    const struct aside_job *b = right;
    if (a->seq != b->seq)
        return a->seq < b->seq ? -1 : 1;
    if (a->batch != b->batch)
        return a->batch < b->batch ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* Adds the intact jobs of a segment that was set aside; `bytes` are its file. */
static void take_jobs(struct aside *aside, uint32_t number, const char *bytes, size_t len)
{
    struct record record;
    uint32_t tag = store_tag(aside->id);
    uint64_t batch = 0;
    for (size_t at = 0; len - at >= RECORD_JOB_HEAD;) {
        struct batch_head head;
        if (at % BLOCK == 0 && batch_head_decode(bytes + at, len - at, &head) == FORMAT_GOOD &&
            head.segment == number && head.store_tag == tag)
            batch = head.number;
        bool whole = !record_decode(bytes + at, len - at, &record) &&
                     record.event.kind == EVENT_JOB && record_body_good(&record);
        if (whole && aside->count == aside->cap) {
            aside->cap = aside->cap ? aside->cap * 2 : 64;
            aside->jobs = mem_realloc(aside->jobs, aside->cap * sizeof(*aside->jobs));
        }
        CHECK(!whole || aside->count < aside->cap);
        if (whole)
            aside->jobs[aside->count++] = (struct aside_job){
                .seq = record.event.job.seq,
                .batch = batch,
                .offset = at,
                .len = (uint32_t)record.len,
                .number = number,
            };
        at += whole ? record.len : 8;
    }
}

static void read_segment(struct aside *aside, uint32_t number)
{
    char name[DISK_NAME_MAX];
    struct file_bytes file; /* what cannot be read is zeros, in which there are no jobs */
    aside_name(number, name);
    if (directory_read_file(aside->disk, name, SEGMENT_FILE_MAX, &file))
        return;
    if (file.size_bytes > file.len)
        aside->fault(aside->ctx, name, "it is longer than a segment can be: the rest is not read");
    take_jobs(aside, number, file.at, file.len);
    mem_free(file.at);
}

/* The newest intact record of the job in segments that were set aside, or NULL. */
static const struct aside_job *find_job(struct aside *aside, uint64_t seq)
{
    if (!aside->loaded) {
        struct buf numbers = {0};
        aside->loaded = true;
        if (aside->disk->verbs->list(aside->disk, aside_found, &numbers) == OK) {
            for (size_t i = 0; i < numbers.len; i += sizeof(uint32_t)) {
                uint32_t number;
                memcpy(&number, numbers.at + i, sizeof(number));
                read_segment(aside, number);
            }
        }
        buf_fini(&numbers);
        if (aside->count)
            qsort(aside->jobs, aside->count, sizeof(*aside->jobs), by_seq);
    }
    size_t low = 0; /* becomes the index behind the last with that number */
    for (size_t high = aside->count; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (aside->jobs[middle].seq <= seq)
            low = middle + 1;
        else
            high = middle;
    }
    CHECK(low <= aside->count);
    bool found = low > 0 && aside->jobs[low - 1].seq == seq;
    return found ? &aside->jobs[low - 1] : NULL;
}

enum err aside_read(struct aside *aside, uint64_t seq, struct arena *arena,
                    struct record *out_record)
{
    char name[DISK_NAME_MAX];
    struct disk_file *file;
    const struct aside_job *job = find_job(aside, seq);
    if (!job)
        return ERR_DAMAGED;
    char *at = arena_alloc(arena, job->len);
    aside_name(job->number, name);
    if (aside->disk->verbs->open(aside->disk, name, DISK_CACHED, &file))
        return ERR_DAMAGED;
    enum err err = directory_read_all(aside->disk, file, job->offset, at, job->len);
    aside->disk->verbs->close(aside->disk, file);
    if (err || record_decode(at, job->len, out_record) || out_record->event.kind != EVENT_JOB ||
        out_record->event.job.seq != seq || !record_body_good(out_record))
        return ERR_DAMAGED; /* the disk gives other bytes than before */
    return OK;
}

void aside_fini(struct aside *aside)
{
    mem_free(aside->jobs);
}
