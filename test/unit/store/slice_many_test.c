/*
 * What a turn costs when there are ten thousand slices, in steps: slices that were looked at, and
 * nodes of heaps that were compared. It must be no more than with ten, but for the depth of a heap,
 * or a fixed portion where all must be looked at.
 */
#include "built_slice.h"
#include "store_work.h"

enum {
    FEW = 10,
    MANY = 10000,
    JOBS = 12,                 /* of a slice … */
    JOB_BYTES = 20000,         /* … that fill some blocks */
    TURNS_MAX = 4 * MANY,      /* until something must be done */
    DEPTH = 3 * 14,            /* steps of a heap's operation with many nodes: 3 for each level */
    PORTION = 256,             /* slices that pages look at in a turn … */
    SURVEY = 16,               /* … and those that the survey of due jobs does */
    AT_ONCE = SLICE_LOADS_MAX, /* blocks that a turn may begin to load */
};

#define HOUR_US (INT64_C(3600) * 1000000)
#define DAY_US  (24 * HOUR_US)

/* ---- slices from nowhere ---- */

static struct slice *add_slice(struct model *model, int64_t due_us)
{
    return build_slice(model, due_us, JOBS, JOB_BYTES);
}

/* One that only counts: its jobs are the first one's, and nothing of it is ever read. `more_bytes`:
 * so much larger; its first job is dead then. */
static void add_distant(struct model *model, const struct slice *like, int64_t due_us,
                        uint64_t more_bytes)
{
    static const char first_dead[] = {0}; /* a varint: no units behind the part's first */
    struct slices *slices = model->store->slices;
    struct slice_head head = like->head;
    struct slice_fence *fences = mem_alloc(head.blocks * sizeof(*fences));
    head.number = segments_take_number(model->store->segments);
    memcpy(fences, like->fences, head.blocks * sizeof(*fences));
    for (uint32_t i = 0; i < head.blocks; i++)
        fences[i].due_us += due_us - head.due_first_us;
    head.due_last_us += due_us - head.due_first_us;
    head.due_first_us = due_us;
    head.data_end += more_bytes;
    head.size_bytes += more_bytes;
    struct slice *slice = slices_add(slices, &head, fences);
    struct slice_record part = {
        .number = head.number, .from = 1, .to = (uint32_t)(head.data_end / BLOCK), .jobs = JOBS};
    if (more_bytes) {
        part.jobs--;
        part.dead = first_dead;
        part.dead_bytes = sizeof(first_dead);
    }
    slice_note_topic(slice, BYTES("topic"));
    slices_name_part(slices, slice, &part, JOB_BYTES, 0);
    slices_made(slices, slice);
}

/* ---- turns ---- */

static uint64_t steps_of(const struct model *model)
{
    const struct slices *slices = model->store->slices;
    return slices->looks + slices->by_load.steps + slices->by_dead.steps;
}

struct turns {
    uint64_t count, steps_max;
};

static void turn(struct model *model, struct turns *turns)
{
    uint64_t before = steps_of(model);
    model->now_us += 1000;
    store_turn(model->store, model->now_us);
    model_disk_works(model);
    store_poll(model->store);
    uint64_t steps = steps_of(model) - before;
    turns->steps_max = steps > turns->steps_max ? steps : turns->steps_max;
    turns->count++;
    assert_true(turns->count < TURNS_MAX);
}

/* `count` slices, nine of which can be read; the others' jobs are due later. */
static void begin(struct model *model, unsigned count)
{
    enum { NEAR = 9 };
    struct slice *first = NULL;
    model_init(model, 2);
    model_use_slices(model);
    model->options.horizon_us = HOUR_US;
    model->options.checkpoint_bytes = UINT64_C(1) << 40;
    model->options.segment_bytes = UINT64_C(1) << 18;
    assert_int_equal(model_open(model), OK);
    for (int i = 0; i < NEAR; i++) {
        struct slice *slice = add_slice(model, model->now_us + 2 * HOUR_US + i * 60000000);
        first = first ? first : slice;
    }
    for (unsigned i = NEAR; i < count; i++) {
        add_distant(model, first, model->now_us + 2 * DAY_US + i * INT64_C(1000000), 0);
        if (i % 64 == 0)
            turn(model, &(struct turns){0});
    }
    for (struct turns turns = {0}; slice_due_next_us(model->store->slices) <= model->now_us;)
        turn(model, &turns);
    store_valid(model->store);
    assert_int_equal(slices_count(model->store->slices), count);
}

static unsigned count_far(const struct model *model)
{
    unsigned far = 0;
    for (size_t i = 0; i < model->job_count; i++)
        far += model->jobs[i].live && model->jobs[i].far;
    return far;
}

/* All near jobs come, block by block. */
static uint64_t load_steps(unsigned count)
{
    struct model model;
    struct turns turns = {0};
    begin(&model, count);
    model.now_us += 3 * HOUR_US;
    while (count_far(&model) > 0)
        turn(&model, &turns);
    assert_true(turns.count < 2000);
    store_valid(model.store);
    model_fini(&model);
    return turns.steps_max;
}

static void loading_costs_a_turn_no_more_with_ten_thousand_slices(void **state)
{
    (void)state;
    uint64_t few = load_steps(FEW), many = load_steps(MANY);
    print_message("at most %llu steps a turn, with many %llu\n", (unsigned long long)few,
                  (unsigned long long)many);
    assert_true(few > 0 && many <= few + AT_ONCE * DEPTH + SURVEY);
}

/* Slices that are mostly dead go back to the log. */
static uint64_t empty_steps(unsigned count)
{
    struct model model;
    struct turns turns = {0};
    begin(&model, count);
    for (size_t i = 0; i < model.job_count; i++) {
        if (i % JOBS == 0)
            continue;
        model.jobs[i].far = false; /* what its end says of it is known: it need not be read */
        model_end(&model, &model.jobs[i]);
    }
    while (model.store->slices->emptied < 6)
        turn(&model, &turns);
    assert_true(turns.count < 2000);
    store_valid(model.store);
    model_fini(&model);
    return turns.steps_max;
}

static void emptying_costs_a_turn_no_more_with_ten_thousand_slices(void **state)
{
    (void)state;
    uint64_t few = empty_steps(FEW), many = empty_steps(MANY);
    print_message("at most %llu steps a turn, with many %llu\n", (unsigned long long)few,
                  (unsigned long long)many);
    assert_true(few > 0 && many <= few + 2 * DEPTH + SURVEY);
}

/* ---- what the log has about slices, when it is cleaned ---- */

/* Writes SLICE records of all slices again. Returns how many turns that took. */
static unsigned write_again(struct model *model, uint64_t *out_words_max)
{
    struct slices *slices = model->store->slices;
    uint64_t batch = store_batch(model->store) + 1;
    unsigned turns = 0;
    *out_words_max = 0;
    for (bool more = true; more; turns++) {
        uint64_t before = slices->words;
        more = slices_write_again(slices, batch);
        uint64_t words = slices->words - before;
        *out_words_max = words > *out_words_max ? words : *out_words_max;
        turn(model, &(struct turns){0});
    }
    for (struct list *link = slices->all.next; link != &slices->all; link = link->next)
        assert_true(LIST_ENTRY(link, struct slice, link)->logged >= batch);
    return turns;
}

static void what_is_dead_in_large_slices_is_written_again_in_portions(void **state)
{
    enum { SLICES = 600, MIB = 1024 * 1024, WORDS_MAX = 264 * 1024 };
    (void)state;
    struct model model;
    uint64_t small, large;
    begin(&model, FEW);
    const struct slice *first = LIST_ENTRY(model.store->slices->all.next, struct slice, link);
    model_settle(&model);
    unsigned turns = write_again(&model, &small);
    for (unsigned i = 0; i < SLICES; i++)
        add_distant(&model, first, model.now_us + 2 * DAY_US, 15 * MIB);
    model_settle(&model);
    unsigned many_turns = write_again(&model, &large);
    print_message("%llu words in a turn, %u turns; with large slices %llu, %u\n",
                  (unsigned long long)small, turns, (unsigned long long)large, many_turns);
    assert_true(large > 0 && large <= WORDS_MAX);
    assert_true(many_turns > 10 && many_turns < SLICES / 10);
    store_valid(model.store);
    model_fini(&model);
}

/* ---- pages ---- */

static void page_ended(struct far_page *page)
{
    *(bool *)page->owner = true;
}

static uint64_t page_steps(unsigned count, struct turns *out_turns)
{
    struct model model;
    struct turns turns = {0};
    bool ended = false;
    begin(&model, count);
    struct far_page page = {.topic = BYTES("topic"),
                            .state = JOB_DELAYED,
                            .due_us = INT64_MIN,
                            .max = 20,
                            .done = page_ended,
                            .owner = &ended};
    uint64_t before = steps_of(&model);
    store_far_page(model.store, &page);
    assert_true(steps_of(&model) - before <= PORTION);
    while (!ended)
        turn(&model, &turns);
    assert_true(page.err == OK && page.count == 20 && page.more);
    assert_int_equal(page.events[0].job.seq, model.jobs[0].seq);
    for (uint32_t i = 1; i < page.count; i++)
        assert_true(page.events[i].job.due_us >= page.events[i - 1].job.due_us);
    assert_true(page.events[19].job.due_us <= model.jobs[5].due_us);
    store_far_page_end(model.store, &page);
    model_fini(&model);
    *out_turns = turns;
    return turns.steps_max;
}

static void a_page_looks_at_a_portion_of_the_slices_in_a_turn(void **state)
{
    (void)state;
    struct turns few_turns, many_turns;
    uint64_t few = page_steps(FEW, &few_turns), many = page_steps(MANY, &many_turns);
    print_message("at most %llu steps a turn, %llu turns; with many %llu, %llu\n",
                  (unsigned long long)few, (unsigned long long)few_turns.count,
                  (unsigned long long)many, (unsigned long long)many_turns.count);
    assert_true(many <= PORTION + SURVEY + DEPTH);
    assert_true(many_turns.count < MANY / PORTION + 50);
}

/* All pages of so many jobs: returns how many jobs they had, in order. */
static uint64_t read_pages(struct model *model, bool backwards, uint32_t max, struct turns *turns)
{
    bool ended = false, more = true;
    uint64_t seen = 0;
    struct far_page page = {.topic = BYTES("topic"),
                            .state = JOB_DELAYED,
                            .due_us = backwards ? INT64_MAX : INT64_MIN,
                            .seq = backwards ? UINT64_MAX : 0,
                            .backwards = backwards,
                            .max = max,
                            .done = page_ended,
                            .owner = &ended};
    while (more) {
        ended = false;
        store_far_page(model->store, &page);
        while (!ended)
            turn(model, turns);
        assert_int_equal(page.err, OK);
        for (uint32_t i = 0; i < page.count; i++, seen++) {
            const struct job_now *job = &page.events[i].job;
            assert_true(backwards ? job->due_us <= page.due_us : job->due_us >= page.due_us);
            page.due_us = job->due_us;
            page.seq = job->seq;
        }
        more = page.more;
        store_far_page_end(model->store, &page);
    }
    return seen;
}

/* So many slices that overlap, not in the order of their times. */
static void open_overlapping(struct model *model, int slices)
{
    model_init(model, 2);
    model_use_slices(model);
    model->options.checkpoint_bytes = UINT64_C(1) << 40;
    model->options.segment_bytes = UINT64_C(1) << 20;
    assert_int_equal(model_open(model), OK);
    for (int i = 0; i < slices; i++)
        (void)add_slice(model, DAY_US + (i * 7 % slices) * INT64_C(100000000));
}

static void pages_of_slices_that_overlap_have_each_job_once(void **state)
{
    enum { SLICES = 200 };
    static const uint32_t sizes[] = {50, SLICES * JOBS + 1};
    (void)state;
    struct model model;
    struct turns turns = {0};
    open_overlapping(&model, SLICES);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(read_pages(&model, i % 2, sizes[i / 2], &turns), SLICES * JOBS);
    far_pages_limit(model.store->far_pages, SLICES * JOB_BYTES); /* of each a job, about */
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(read_pages(&model, i % 2, sizes[0], &turns), SLICES * JOBS);
    assert_true(turns.steps_max <= PORTION + SURVEY + DEPTH);
    model_fini(&model);
}

/* ---- how many are due ---- */

static void jobs_that_are_due_are_counted_by_a_survey(void **state)
{
    (void)state;
    struct model model;
    struct turns turns = {0};
    begin(&model, MANY);
    assert_int_equal(store_far_due_until(model.store, model.now_us + HOUR_US), 0);
    uint64_t near = store_far_due_until(model.store, model.now_us + DAY_US);
    assert_int_equal(near, 9 * JOBS);
    assert_int_equal(store_far_due_until(model.store, INT64_MAX), MANY * JOBS);
    model.now_us += DAY_US + HOUR_US; /* others come within a day */
    model.callbacks.far_room = NULL;
    turns.count = 0;
    while (store_far_due_until(model.store, model.now_us + DAY_US) <= near)
        turn(&model, &turns);
    assert_true(turns.count > MANY / 2 / SURVEY);
    model_fini(&model);
}

/* By the model: those that live and are due by then. */
static uint64_t due_by(const struct model *model, int64_t until_us)
{
    uint64_t due = 0;
    for (size_t i = 0; i < model->job_count; i++)
        due += model->jobs[i].live && model->jobs[i].due_us <= until_us;
    return due;
}

/* Jobs of the blocks that the time falls into: so many may be counted wrongly. */
static uint64_t unsure(const struct model *model, int64_t until_us)
{
    uint64_t jobs = 0;
    for (struct list *link = model->store->slices->all.next; link != &model->store->slices->all;
         link = link->next) {
        const struct slice *slice = LIST_ENTRY(link, struct slice, link);
        for (uint32_t i = 0; i < slice->head.blocks; i++) {
            bool last = i + 1 == slice->head.blocks;
            int64_t end_us = last ? slice->head.due_last_us : slice->fences[i + 1].due_us;
            if (slice->fences[i].due_us <= until_us && until_us < end_us)
                jobs += slice->fences[i].jobs;
        }
    }
    return jobs;
}

/* Counts in portions; no call looks at more slices than it may. */
static void count_due(struct model *model, const int64_t *until_us, uint32_t times, uint64_t *jobs)
{
    struct far_due due = {.until_us = until_us, .count = times, .jobs = jobs};
    struct slices *slices = model->store->slices;
    memset(jobs, 0, times * sizeof(*jobs));
    for (bool more = true; more;) {
        uint64_t before = slices->looks;
        more = store_far_due(model->store, &due, 7);
        assert_true(slices->looks - before <= 7);
    }
}

/* Slices that overlap, some of whose jobs have died: more of the early ones. */
static void jobs_due_by_any_times_are_counted_to_a_block(void **state)
{
    enum { SLICES = 60, TIMES = FAR_DUE_TIMES_MAX };
    (void)state;
    struct model model;
    int64_t until_us[TIMES];
    uint64_t jobs[TIMES], wrong = 0, all = 0;
    open_overlapping(&model, SLICES);
    for (size_t i = 0; i < model.job_count; i++) {
        model.jobs[i].far = false; /* what its end says of it is known: it need not be read */
        if (i % JOBS < 5 && i % 3)
            model_end(&model, &model.jobs[i]);
    }
    until_us[0] = 0;
    for (unsigned i = 1; i < TIMES; i++)
        until_us[i] = DAY_US + i * INT64_C(110000000);
    until_us[TIMES - 1] = INT64_MAX;
    count_due(&model, until_us, TIMES, jobs);
    for (unsigned i = 0; i < TIMES; i++) {
        uint64_t right = due_by(&model, until_us[i]);
        uint64_t off = jobs[i] > right ? jobs[i] - right : right - jobs[i];
        assert_true(off <= unsure(&model, until_us[i]));
        assert_true(i == 0 || jobs[i] >= jobs[i - 1]);
        wrong += off;
        all += right;
    }
    assert_int_equal(jobs[0], 0);
    assert_int_equal(jobs[TIMES - 1], due_by(&model, INT64_MAX));
    print_message("%llu of %llu off\n", (unsigned long long)wrong, (unsigned long long)all);
    assert_true(wrong * 50 <= all);
    model_fini(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loading_costs_a_turn_no_more_with_ten_thousand_slices),
        cmocka_unit_test(emptying_costs_a_turn_no_more_with_ten_thousand_slices),
        cmocka_unit_test(what_is_dead_in_large_slices_is_written_again_in_portions),
        cmocka_unit_test(a_page_looks_at_a_portion_of_the_slices_in_a_turn),
        cmocka_unit_test(pages_of_slices_that_overlap_have_each_job_once),
        cmocka_unit_test(jobs_that_are_due_are_counted_by_a_survey),
        cmocka_unit_test(jobs_due_by_any_times_are_counted_to_a_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
