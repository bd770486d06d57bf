/*
 * What a listing of far jobs has passed is not read for its next pages, though it comes to slices
 * only meanwhile.
 */
#include "slice_bed.h"
#include "store/slices/slices_parts.h"

enum { ROW = 600, EARLIER = 600, SOME = 20, STEP_US = 1000, SEGMENT = 512 * 1024 };

static void page_ended(struct far_page *page)
{
    *(bool *)page->owner = true;
}

/* Reads the page behind *last, and moves that to its end. False: it is the last one. */
static bool turn_page(struct model *model, struct event *last)
{
    bool ended = false;
    struct far_page page = {.topic = BYTES("topic"),
                            .state = JOB_DELAYED,
                            .due_us = last->job.due_us,
                            .seq = last->job.seq,
                            .max = SOME,
                            .done = page_ended,
                            .owner = &ended};
    store_far_page(model->store, &page);
    while (!ended) {
        store_turn(model->store, ++model->now_us);
        (void)sim_disk_step(model->disk, LANE_READ);
        store_poll(model->store);
    }
    assert_int_equal(page.err, OK);
    if (page.count)
        last->job = page.events[page.count - 1].job;
    bool more = page.more;
    store_far_page_end(model->store, &page);
    return more;
}

static void push_in_a_row(struct model *model, int64_t from_us, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        model->at_us = from_us + STEP_US * i;
        assert_int_equal(model_push(model), OK);
        if (i % 8 == 0)
            model_turn(model);
    }
    model_settle(model);
}

/* Of blocks that end behind this time, or before that (passed). */
static uint64_t block_bytes(const struct model *model, int64_t at_us, bool passed)
{
    const struct slices *slices = model->store->slices;
    uint64_t bytes = 0;
    for (const struct list *link = slices->all.next; link != &slices->all; link = link->next) {
        const struct slice *slice = LIST_ENTRY(link, const struct slice, link);
        for (uint32_t i = 0; i < slice->head.blocks; i++) {
            bool last = i + 1 == slice->head.blocks;
            int64_t end_us = last ? slice->head.due_last_us : slice->fences[i + 1].due_us;
            uint64_t end = last ? slice->head.data_end / BLOCK : slice->fences[i + 1].offset;
            if ((end_us < at_us) == passed)
                bytes += (end - slice->fences[i].offset) * BLOCK;
        }
    }
    return bytes;
}

static void blocks_that_a_listing_has_passed_are_not_read(void **state)
{
    (void)state;
    struct model model;
    struct event last = {.job = {.due_us = INT64_MIN}};
    far_model(&model, 5);
    model.body_bytes = 2000;
    model.options.segment_bytes = SEGMENT;
    model.options.checkpoint_bytes = SEGMENT;
    assert_int_equal(model_open(&model), OK);
    int64_t origin_us = model.now_us + INT64_C(1000) * MODEL_DELAY_US;
    push_in_a_row(&model, origin_us, ROW);
    assert_true(turn_page(&model, &last) && turn_page(&model, &last));
    push_in_a_row(&model, origin_us - INT64_C(2) * EARLIER * STEP_US, EARLIER);
    assert_true(block_bytes(&model, origin_us, true) > SEGMENT / 2);
    while (turn_page(&model, &last))
        continue;
    uint64_t read = far_pages_read_bytes(model.store->far_pages);
    print_message("%llu bytes were read, %llu are of blocks that were passed\n",
                  (unsigned long long)read,
                  (unsigned long long)block_bytes(&model, origin_us, true));
    assert_true(read > 0 && read <= block_bytes(&model, origin_us, false));
    model_fini(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_that_a_listing_has_passed_are_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
