#include "store/slices/spill_build.h"

#include <string.h>

#include "base/check.h"
#include "base/far_hash.h"
#include "base/prefetch.h"
#include "store/log/segments.h"
#include "store/slices/far_record.h"
#include "store/slices/slices.h"
#include "store/slices/spill_gather.h"

enum { AHEAD = 16 }; /* records that are prefetched */

/* Prefetches a job's record: records are in memory in the order of the log, not of due time. */
static void fetch(const struct spill_gather *gather, size_t number)
{
    enum { LINE = 64, FETCHED = 512 };
    if (number >= gather_count(gather))
        return;
    const struct spilled *job = gather_job(gather, number);
    const char *at = (const char *)spilled_names(job), *end = job->record + job->len;
    for (const char *last = at + FETCHED; at < end && at < last; at += LINE)
        prefetch_read(at);
}

/* What slice_build_add() reads of a job. The rank of a ready one is in its record alone. */
static void read_job(const struct spilled *job, enum job_state state, struct event *out_job)
{
    if (state == JOB_READY) {
        bool good = far_record_glance(job->record, job->len, out_job);
        CHECK(good); /* gather_add() has encoded it */
        return;
    }
    const struct spilled_names *names = spilled_names(job);
    out_job->kind = EVENT_JOB;
    out_job->job.seq = job->seq;
    out_job->job.due_us = job->due_us;
    out_job->id = bytes_of(job->record + names->id_at, names->id_len);
    out_job->topic = bytes_of(out_job->id.at + names->id_len, names->topic_len);
}

static void build_one(struct spill_build *build, const struct spilled *job)
{
    struct event event; /* not zeroed, because it is long */
    read_job(job, build->slice.head.state, &event);
    uint64_t id_hash = far_hash_id(build->far_key, event.id);
    uint64_t offset = slice_build_add(&build->slice, &event, id_hash, job->record, job->len);
    struct buf *all = &build->leaving;
    buf_reserve(all, sizeof(struct leaving));
    *(struct leaving *)(void *)(all->at + all->len) = (struct leaving){
        .seq = job->seq,
        .where = where_of(build->slice.head.number, offset),
        .len = job->len,
        .old_bytes = job->old_bytes,
    };
    all->len += sizeof(struct leaving);
}

/* Here, not in the main thread, because there may be 65,535 topics. */
static void note_topics(struct spill_build *build)
{
    const struct buf *section = &build->slice.topics;
    struct slice_topics topics = {section->at, section->at + section->len};
    struct bytes name;
    memset(build->topics, 0, sizeof(build->topics));
    while (slice_topics_next(&topics, &name) == OK)
        slice_topic_bits(build->topics, name);
}

void spill_build_run(struct spill_build *build)
{
    struct spill_gather *gather = build->gather;
    CHECK(build->slice.head.jobs == 0); /* a slice is built only once */
    if (gather->taken == 0)
        gather_sort(gather);
    for (size_t i = 0; i < AHEAD; i++)
        fetch(gather, gather->taken + i);
    for (; gather_left(gather); gather->taken++) {
        const struct spilled *job = gather_job(gather, gather->taken);
        if (!slice_build_room(&build->slice, job->len))
            break;
        fetch(gather, gather->taken + AHEAD);
        build_one(build, job);
    }
    slice_build_end(&build->slice);
    note_topics(build);
}
