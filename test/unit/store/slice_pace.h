/* How fast blocks of slices are read in the background. */
#ifndef LATERD_TEST_STORE_SLICE_PACE_H
#define LATERD_TEST_STORE_SLICE_PACE_H

#include "slice_bed.h"
#include "store/slices/slices_parts.h"

enum {
    LONG = 200 * 1024, /* a body: its block is three times as long as others */
    LONG_JOBS = 60,
    LONG_SEGMENT = 1024 * 1024,
};

/* What a test saw: blocks whose read began, and their bytes. */
struct pace {
    unsigned blocks;
    uint64_t bytes;
};

/* Far jobs of so many bytes. */
static inline void begin_long(struct model *model, size_t body_bytes)
{
    far_model(model, 5);
    model->delay_us = INT64_C(1000) * MODEL_DELAY_US;
    model->body_bytes = body_bytes;
    model->options.segment_bytes = LONG_SEGMENT;
    assert_int_equal(model_open(model), OK);
    for (unsigned i = 0; i < (unsigned)LONG_JOBS * LONG / body_bytes; i++) {
        assert_int_equal(model_push(model), OK);
        if (i % 8 == 0)
            model_turn(model);
    }
    settle_for(model, 4);
    assert_true(far_of(model, JOB_DELAYED) > (unsigned)LONG_JOBS / 2);
}

/* Some seconds. After each block it waits 5 ms for each 64 KiB, and 5 ms at least. */
static inline struct pace watch_pace(struct model *model,
                                     const struct block_read *(*read_of)(const struct slices *))
{
    enum { STEP_US = 1000, STEPS = 3000, FULL = 64 * 1024, PAUSE_US = 5000 };
    struct pace pace = {0};
    uint64_t last = 0;
    int64_t next_us = INT64_MIN;
    for (int i = 0; i < STEPS; i++) {
        store_turn(model->store, model->now_us += STEP_US);
        const struct block_read *read = read_of(model->store->slices);
        uint64_t place = read && read->slice
                             ? where_of(read->slice->head.number, block_read_offset(read))
                             : last;
        if (place != last) {
            assert_true(model->now_us >= next_us);
            int64_t pause_us = PAUSE_US * (int64_t)read->len / FULL;
            next_us = model->now_us + (pause_us > PAUSE_US ? pause_us : PAUSE_US);
            pace.blocks++;
            pace.bytes += read->len;
        }
        last = place;
        model_disk_works(model);
        store_poll(model->store);
    }
    return pace;
}

#endif
