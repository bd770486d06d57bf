/*
 * Pages of a topic's far jobs: in the order of due time, or backwards, each once, whatever is
 * loaded, ends and departs around them.
 */
#include "slice_bed.h"

enum { JOBS = 1200, PAGE = 37 };

struct listed {
    uint64_t seqs[JOBS];
    unsigned count;
};

static void page_ended(struct far_page *page)
{
    *(bool *)page->owner = true;
}

/* Waits for it; between two of its blocks the model may do something. */
static void read_page(struct model *model, struct far_page *page,
                      void (*meanwhile)(struct model *model))
{
    bool ended = false;
    page->done = page_ended;
    page->owner = &ended;
    store_far_page(model->store, page);
    while (!ended) {
        store_turn(model->store, ++model->now_us);
        (void)sim_disk_step(model->disk, LANE_READ);
        store_poll(model->store);
        if (meanwhile)
            meanwhile(model);
    }
    assert_int_equal(page->err, OK);
    assert_true(page->count <= page->max);
}

static bool in_order(const struct event *a, const struct event *b, bool backwards)
{
    const struct event *first = backwards ? b : a, *second = backwards ? a : b;
    return first->job.due_us != second->job.due_us ? first->job.due_us < second->job.due_us
                                                   : first->job.seq < second->job.seq;
}

/* All pages, one after the other. */
static void list_state(struct model *model, enum job_state state, bool backwards, uint32_t max,
                       struct listed *out_listed, void (*meanwhile)(struct model *model))
{
    int64_t due_us = backwards ? INT64_MAX : INT64_MIN;
    uint64_t seq = backwards ? UINT64_MAX : 0;
    bool more = true;
    out_listed->count = 0;
    while (more) {
        struct far_page page = {.topic = BYTES("topic"),
                                .state = state,
                                .due_us = due_us,
                                .seq = seq,
                                .backwards = backwards,
                                .max = max};
        struct event before = {.job = {.due_us = due_us, .seq = seq}};
        read_page(model, &page, meanwhile);
        for (uint32_t i = 0; i < page.count; i++) {
            assert_true(in_order(&before, &page.events[i], backwards));
            assert_int_equal(page.events[i].job.state, state);
            before = page.events[i];
            due_us = before.job.due_us;
            seq = before.job.seq;
            assert_true(out_listed->count < JOBS);
            out_listed->seqs[out_listed->count++] = seq;
        }
        assert_true(page.count > 0 || !page.more);
        more = page.more;
        store_far_page_end(model->store, &page);
    }
}

static void list_all(struct model *model, bool backwards, uint32_t max, struct listed *out_listed,
                     void (*meanwhile)(struct model *model))
{
    list_state(model, JOB_DELAYED, backwards, max, out_listed, meanwhile);
}

/* All that are far, and perhaps some that came back as they were changed: never one that ended. */
static void assert_lists_all_far(struct model *model, const struct listed *listed)
{
    unsigned far = 0, listed_far = 0;
    for (size_t i = 0; i < model->job_count; i++)
        far += model->jobs[i].live && model->jobs[i].far;
    for (unsigned i = 0; i < listed->count; i++) {
        const struct model_job *job = model_find(model, listed->seqs[i]);
        assert_true(job && job->live);
        listed_far += job->far;
    }
    assert_int_equal(listed_far, far);
}

static void begin_many(struct model *model)
{
    begin_far(model, JOBS);
    model_settle(model);
    for (size_t i = 0; i < model->job_count; i += 9)
        model_end(model, &model->jobs[i]);
    for (size_t i = 4; i < model->job_count; i += 9)
        model_move(model, &model->jobs[i]); /* they are in memory */
    model_settle(model);
}

static void a_topics_far_jobs_are_listed_in_order_and_backwards(void **state)
{
    static const uint32_t sizes[] = {1, 7, PAGE, JOBS};
    (void)state;
    static struct listed there, back;
    struct model model;
    begin_many(&model);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        list_all(&model, false, sizes[i], &there, NULL);
        assert_lists_all_far(&model, &there);
        list_all(&model, true, sizes[i], &back, NULL);
        assert_int_equal(back.count, there.count);
        for (unsigned k = 0; k < back.count; k++)
            assert_int_equal(back.seqs[k], there.seqs[there.count - 1 - k]);
    }
    model_fini(&model);
}

static unsigned far_of(const struct model *model, bool buried)
{
    unsigned count = 0;
    for (size_t i = 0; i < model->job_count; i++) {
        const struct model_job *job = &model->jobs[i];
        count += job->live && job->far && job->buried == buried;
    }
    return count;
}

static void buried_and_delayed_jobs_are_listed_apart(void **state)
{
    (void)state;
    static struct listed listed;
    struct model model;
    far_model(&model, 5);
    model.buries = 3;
    model.delay_us = INT64_C(1000) * MODEL_DELAY_US;
    model.body_bytes = 500;
    assert_int_equal(model_open(&model), OK);
    for (unsigned i = 0; i < JOBS / 2; i++) {
        assert_int_equal(model_push(&model), OK);
        if (i % 8 == 0)
            model_turn(&model);
    }
    model_settle(&model);
    for (int backwards = 0; backwards < 2; backwards++) {
        list_state(&model, JOB_BURIED, backwards, PAGE, &listed, NULL);
        assert_true(listed.count > JOBS / 10);
        assert_int_equal(listed.count, far_of(&model, true));
        list_state(&model, JOB_DELAYED, backwards, PAGE, &listed, NULL);
        assert_int_equal(listed.count, far_of(&model, false));
    }
    model_fini(&model);
}

/* The first blocks have been loaded, some could not be read. */
static void what_is_loaded_is_not_listed(void **state)
{
    (void)state;
    static struct listed there, back;
    struct model model;
    begin_many(&model);
    for (int step = 0; step < 8; step++) {
        char name[DISK_NAME_MAX];
        const struct model_job *job = &model.jobs[(size_t)(step * 131)];
        (void)snprintf(name, sizeof(name), "slice-%08x", (unsigned)(job->stored.where >> 32));
        sim_disk_bad(model.disk, name, 0, UINT64_MAX);
        model.now_us += INT64_C(100) * MODEL_DELAY_US;
        model_settle(&model);
        sim_disk_bad(model.disk, name, 0, 0);
        list_all(&model, false, PAGE, &there, NULL);
        assert_lists_all_far(&model, &there);
        list_all(&model, true, PAGE, &back, NULL);
        assert_int_equal(back.count, there.count);
        model_settle(&model);
    }
    assert_true(there.count < JOBS / 2);
    model_fini(&model);
}

static void works(struct model *model)
{
    model_act(model);
    model_turn(model);
}

/* Those that are far before and after are all there. */
static void jobs_that_stay_far_are_listed_though_others_come_and_go(void **state)
{
    (void)state;
    static struct listed there;
    struct model model;
    for (int backwards = 0; backwards < 2; backwards++) {
        static uint64_t far[2 * JOBS];
        unsigned count = 0, missed = 0;
        begin_many(&model);
        model.callbacks.spill = NULL; /* nothing more departs, as an engine sees to it */
        for (size_t i = 0; i < model.job_count; i++)
            if (model.jobs[i].live && model.jobs[i].far)
                far[count++] = model.jobs[i].seq;
        list_all(&model, backwards, PAGE, &there, works);
        for (unsigned i = 0; i < count; i++) {
            const struct model_job *job = model_find(&model, far[i]);
            bool found = false;
            for (unsigned k = 0; k < there.count && !found; k++)
                found = there.seqs[k] == far[i];
            missed += job->live && job->far && !found;
        }
        assert_int_equal(missed, 0);
        assert_true(there.count > JOBS / 4);
        model_fini(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topics_far_jobs_are_listed_in_order_and_backwards),
        cmocka_unit_test(buried_and_delayed_jobs_are_listed_apart),
        cmocka_unit_test(what_is_loaded_is_not_listed),
        cmocka_unit_test(jobs_that_stay_far_are_listed_though_others_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
