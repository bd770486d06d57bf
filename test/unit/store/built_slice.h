/* Slices of jobs that never were in the log, in a store of a model (store_model.h), which knows the
 * jobs. */
#ifndef LATERD_TEST_STORE_BUILT_SLICE_H
#define LATERD_TEST_STORE_BUILT_SLICE_H

#include "base/far_hash.h"
#include "store/far.h"
#include "store/slices/far_record.h"
#include "store/slices/slice_build.h"
#include "store/slices/slices_parts.h"
#include "store_model.h"

static inline struct stored build_job(struct model *model, struct slice_build *build, uint64_t seq,
                                      int64_t due_us, size_t body_bytes)
{
    char *body = mem_zalloc(body_bytes);
    uint32_t version = 1;
    memcpy(body, &version, sizeof(version));
    struct event job = {
        .kind = EVENT_JOB,
        .job = {.seq = seq, .state = JOB_DELAYED, .due_us = due_us},
        .id = bytes_of(&seq, sizeof(seq)),
        .topic = BYTES("topic"),
        .body = bytes_of(body, body_bytes),
    };
    size_t len = far_record_bytes(&job);
    char *record = mem_alloc(len);
    far_record_encode(&job, len, record);
    uint64_t id_hash = far_hash_id(store_far_key(model->store), job.id);
    uint64_t offset = slice_build_add(build, &job, id_hash, record, len);
    mem_free(record);
    mem_free(body);
    return (struct stored){.where = where_of(build->head.number, offset), .bytes = (uint32_t)len};
}

/* A slice as spill.c makes one, of jobs that are due one minute after the other; the model knows
   them. */
static inline struct slice *build_slice(struct model *model, int64_t due_us, unsigned jobs,
                                        size_t body_bytes)
{
    struct slices *slices = model->store->slices;
    struct slice_build build = {0};
    char name[DISK_NAME_MAX];
    uint64_t live_bytes = 0;
    slice_build_begin(&build, &model->store->id, segments_take_number(model->store->segments));
    for (unsigned i = 0; i < jobs; i++, due_us += 60000000) {
        struct model_job *job = model_add(model, model->seq_next++);
        job->live = job->far = job->unknown = true;
        job->due_us = due_us;
        job->stored = build_job(model, &build, job->seq, due_us, body_bytes);
        live_bytes += job->stored.bytes;
    }
    slice_build_end(&build);
    struct slice_fence *fences = mem_alloc(build.head.blocks * sizeof(*fences));
    assert_int_equal(slice_fences_decode(&build.head, build.image + build.head.data_end, fences),
                     OK);
    slice_name(build.head.number, name);
    sim_disk_put(model->disk, name, build.image, build.len);
    struct slice *slice = slices_add(slices, &build.head, fences);
    struct slice_record part = {.number = build.head.number,
                                .from = 1,
                                .to = (uint32_t)(build.head.data_end / BLOCK),
                                .jobs = jobs};
    slice_note_topic(slice, BYTES("topic"));
    slices_name_part(slices, slice, &part, live_bytes, 0);
    slices_made(slices, slice);
    slice_build_fini(&build);
    return slice;
}

#endif
