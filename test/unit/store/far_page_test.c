/*
 * Pages of a topic's far jobs: in the order of due time, or backwards, each once, whatever is
 * loaded, ends and departs around them.
 */
#include "slice_bed.h"
#include "store/slices/slices_parts.h"

enum { JOBS = 1200, PAGE = 37 };

struct listed {
    uint64_t seqs[2 * JOBS];
    unsigned count;
};

static void page_ended(struct far_page *page)
{
    *(bool *)page->owner = true;
}

/* Waits for it, whatever comes; between two of its blocks the model may do something. */
static void end_page(struct model *model, struct far_page *page,
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
}

static void read_page(struct model *model, struct far_page *page,
                      void (*meanwhile)(struct model *model))
{
    end_page(model, page, meanwhile);
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
        assert_int_equal(listed.count, far_of(&model, JOB_BURIED));
        list_state(&model, JOB_DELAYED, backwards, PAGE, &listed, NULL);
        assert_int_equal(listed.count, far_of(&model, JOB_DELAYED));
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

/* ---- what is read ---- */

static bool is_listed(const struct listed *listed, uint64_t seq)
{
    bool found = false;
    for (unsigned k = 0; k < listed->count && !found; k++)
        found = listed->seqs[k] == seq;
    return found;
}

static uint64_t block_bytes(const struct model *model)
{
    const struct slices *slices = model->store->slices;
    uint64_t bytes = 0;
    for (const struct list *link = slices->all.next; link != &slices->all; link = link->next) {
        const struct slice *slice = LIST_ENTRY(link, const struct slice, link);
        bytes += slice->live_jobs ? slice->head.data_end - BLOCK : 0;
    }
    return bytes;
}

static uint64_t read_bytes(const struct model *model)
{
    return far_pages_read_bytes(model->store->far_pages);
}

/* Small pages, each of which begins where the last one ended, in both directions. */
static void who_goes_through_all_pages_reads_each_block_once(void **state)
{
    (void)state;
    static struct listed listed;
    struct model model;
    begin_many(&model);
    uint64_t all = block_bytes(&model), before = read_bytes(&model);
    for (int backwards = 0; backwards < 2; backwards++) {
        list_all(&model, backwards, PAGE, &listed, NULL);
        assert_lists_all_far(&model, &listed);
        print_message("%u jobs, %u slices of %llu bytes: %llu were read\n", listed.count,
                      slices_count(model.store->slices), (unsigned long long)all,
                      (unsigned long long)(read_bytes(&model) - before));
        assert_true(read_bytes(&model) - before <= all);
        before = read_bytes(&model);
    }
    far_pages_valid(model.store->far_pages);
    model_fini(&model);
}

/* Memory for a fraction of the slices' blocks: they are read again, but not for each page. */
static void with_little_memory_blocks_are_read_again_but_not_for_each_page(void **state)
{
    (void)state;
    static struct listed there, back;
    struct model model;
    begin_many(&model);
    uint64_t all = block_bytes(&model), pages = JOBS / PAGE;
    for (size_t limit = 100000; limit >= 10000; limit /= 10) {
        far_pages_limit(model.store->far_pages, limit);
        uint64_t before = read_bytes(&model);
        list_all(&model, false, PAGE, &there, NULL);
        assert_lists_all_far(&model, &there);
        print_message("%zu bytes of memory: %llu of %llu were read\n", limit,
                      (unsigned long long)(read_bytes(&model) - before), (unsigned long long)all);
        assert_true(read_bytes(&model) - before < all * (limit > 50000 ? pages / 2 : JOBS));
        list_all(&model, true, PAGE, &back, NULL);
        assert_int_equal(back.count, there.count);
        for (unsigned k = 0; k < back.count; k++)
            assert_int_equal(back.seqs[k], there.seqs[there.count - 1 - k]);
        assert_true(far_pages_held_bytes(model.store->far_pages) < 2 * limit + PAGE * 1024);
    }
    model_fini(&model);
}

/* Of each block there is memory for a part: that is read, and the rest when it comes. */
static void with_memory_for_a_part_of_each_block_it_is_read_about_once(void **state)
{
    enum { LIMIT = 300000, BACKWARDS = 4 };
    (void)state;
    static struct listed there, back;
    struct model model;
    begin_many(&model);
    uint64_t all = block_bytes(&model);
    assert_true(all > 2 * LIMIT);
    far_pages_limit(model.store->far_pages, LIMIT);
    uint64_t before = read_bytes(&model);
    list_all(&model, false, PAGE, &there, NULL);
    uint64_t forwards = read_bytes(&model) - before;
    assert_lists_all_far(&model, &there);
    list_all(&model, true, PAGE, &back, NULL);
    uint64_t backwards = read_bytes(&model) - before - forwards;
    print_message("%llu bytes: %llu were read, backwards %llu\n", (unsigned long long)all,
                  (unsigned long long)forwards, (unsigned long long)backwards);
    assert_true(forwards <= all * 5 / 4 && backwards <= all * BACKWARDS);
    assert_int_equal(back.count, there.count);
    for (unsigned k = 0; k < back.count; k++)
        assert_int_equal(back.seqs[k], there.seqs[there.count - 1 - k]);
    far_pages_valid(model.store->far_pages);
    model_fini(&model);
}

/* One of which so many bytes lie before it in its block. */
static const struct model_job *some_far_job(const struct model *model, size_t from)
{
    while (!model->jobs[from].live || !model->jobs[from].far)
        from++;
    return &model->jobs[from];
}

static void of_a_damaged_block_that_is_read_in_parts_the_other_jobs_are_listed(void **state)
{
    (void)state;
    static struct listed there;
    for (unsigned i = 0; i < 8; i++) {
        struct model model;
        char name[DISK_NAME_MAX];
        begin_many(&model);
        const struct model_job *damaged = some_far_job(&model, 100 + i * 97);
        uint64_t where = damaged->stored.where;
        slice_name(where_segment(where), name);
        assert_true(sim_disk_flip(model.disk, name, 8 * (where_offset(where) + 100) + i));
        far_pages_limit(model.store->far_pages, 200000);
        list_all(&model, i % 2, PAGE, &there, NULL);
        assert_false(is_listed(&there, damaged->seq));
        for (size_t k = 0; k < model.job_count; k++)
            if (model.jobs[k].live && model.jobs[k].far && &model.jobs[k] != damaged)
                assert_true(is_listed(&there, model.jobs[k].seq));
        model_fini(&model);
    }
}

static void page_from(struct model *model, struct far_page *page, const struct event *after)
{
    *page = (struct far_page){
        .topic = BYTES("topic"), .state = JOB_DELAYED, .due_us = INT64_MIN, .max = PAGE};
    if (after) {
        page->due_us = after->job.due_us;
        page->seq = after->job.seq;
    }
    read_page(model, page, NULL);
}

/* A client that has not got its page asks again; or uses but the first half of it. */
static void a_page_that_is_asked_for_again_is_the_same_and_reads_nothing(void **state)
{
    (void)state;
    struct model model;
    struct far_page first, again, half, next;
    begin_many(&model);
    page_from(&model, &first, NULL);
    uint64_t before = read_bytes(&model);
    page_from(&model, &again, NULL);
    assert_int_equal(again.count, first.count);
    for (uint32_t i = 0; i < first.count; i++)
        assert_int_equal(again.events[i].job.seq, first.events[i].job.seq);
    page_from(&model, &half, &first.events[PAGE / 2]);
    for (uint32_t i = 0; i < PAGE - PAGE / 2 - 1; i++)
        assert_int_equal(half.events[i].job.seq, first.events[PAGE / 2 + 1 + i].job.seq);
    assert_true(read_bytes(&model) - before <= (uint64_t)2 * SLICE_BLOCK_BYTES);
    before = read_bytes(&model);
    page_from(&model, &next, NULL); /* that is behind the walk: it is read once more */
    assert_int_equal(next.events[0].job.seq, first.events[0].job.seq);
    assert_true(read_bytes(&model) > before);
    store_far_page_end(model.store, &first);
    store_far_page_end(model.store, &again);
    store_far_page_end(model.store, &half);
    store_far_page_end(model.store, &next);
    model_fini(&model);
}

/* What is kept for the next page is given up when memory is short, and after a while. */
static bool no_room(struct store_callbacks *callbacks)
{
    (void)callbacks;
    return false;
}

static void what_is_kept_for_the_next_page_goes_when_memory_is_short_or_nobody_comes(void **state)
{
    (void)state;
    struct model model;
    struct far_page page;
    struct event last;
    begin_many(&model);
    page_from(&model, &page, NULL);
    assert_true(far_pages_held_bytes(model.store->far_pages) > 0);
    last = page.events[page.count - 1];
    store_far_page_end(model.store, &page);
    model.callbacks.far_room = no_room;
    store_turn(model.store, ++model.now_us);
    assert_int_equal(far_pages_held_bytes(model.store->far_pages), 0);
    page_from(&model, &page, &last);
    assert_int_equal(page.count, PAGE);
    store_far_page_end(model.store, &page);
    model.callbacks.far_room = NULL;
    page_from(&model, &page, &last);
    store_far_page_end(model.store, &page);
    assert_true(far_pages_held_bytes(model.store->far_pages) > 0);
    int64_t until_us = far_pages_next_us(model.store->far_pages);
    assert_true(until_us > model.now_us && until_us < INT64_MAX);
    model.now_us = until_us;
    store_turn(model.store, model.now_us);
    assert_int_equal(far_pages_held_bytes(model.store->far_pages), 0);
    model_fini(&model);
}

/* What was read and kept for the next page is all gone by then. */
static void jobs_that_have_ended_are_left_out_a_few_in_a_turn(void **state)
{
    (void)state;
    enum { DROPS = 20 };
    struct model model;
    struct far_page page;
    struct event last;
    begin_many(&model);
    page_from(&model, &page, NULL);
    last = page.events[page.count - 1];
    store_far_page_end(model.store, &page);
    size_t held_bytes = far_pages_held_bytes(model.store->far_pages);
    for (size_t i = 0; i + 1 < model.job_count; i++)
        if (model.jobs[i].live)
            model_end(&model, &model.jobs[i]);
    far_pages_limit_drops(model.store->far_pages, DROPS);
    int64_t began_us = model.now_us;
    page_from(&model, &page, &last);
    unsigned turns = (unsigned)(model.now_us - began_us); /* of a microsecond each */
    print_message("%zu bytes were held, %u turns\n", held_bytes, turns);
    assert_true(page.count <= 1 && turns > 5);
    store_far_page_end(model.store, &page);
    model_fini(&model);
}

/* How far the listing had come when a job became far. */
static struct event come_to[2 * JOBS];
static bool noted[2 * JOBS];

static struct event before_all(bool backwards)
{
    struct event last = {.job = {.due_us = backwards ? INT64_MAX : INT64_MIN}};
    last.job.seq = backwards ? UINT64_MAX : 0;
    return last;
}

static struct far_page page_behind(const struct event *last, bool backwards)
{
    return (struct far_page){.topic = BYTES("topic"),
                             .state = JOB_DELAYED,
                             .due_us = last->job.due_us,
                             .seq = last->job.seq,
                             .backwards = backwards,
                             .max = PAGE};
}

static void note_far(const struct model *model, struct event last)
{
    for (size_t i = 0; i < model->job_count; i++) {
        if (!noted[i] && model->jobs[i].far)
            come_to[i] = last;
        noted[i] = model->jobs[i].far;
    }
}

/* Jobs that are far, behind where the listing was when they became so, and not listed. */
static unsigned count_missed(const struct model *model, const struct listed *listed, bool backwards)
{
    unsigned missed = 0, late = 0;
    for (size_t i = 0; i < model->job_count; i++) {
        const struct model_job *job = &model->jobs[i];
        struct event at = {.job = {.due_us = job->due_us, .seq = job->seq}};
        bool due = in_order(&come_to[i], &at, backwards);
        bool found = is_listed(listed, job->seq);
        missed += job->live && job->far && due && !found;
        late += found && i >= JOBS;
    }
    assert_true(late > 0);
    return missed;
}

/* Between two pages others leave the log, and are due before what has been read. The next page
   begins behind the last one, or within it, as one does that has jobs in memory as well. */
static void jobs_that_become_far_between_two_pages_are_listed(void **state)
{
    (void)state;
    static struct listed there;
    struct model model;
    for (uint32_t turn = 0; turn < 4; turn++) {
        bool more = true, backwards = turn % 2;
        struct event last = before_all(backwards);
        begin_many(&model);
        memset(noted, 0, sizeof(noted));
        note_far(&model, last);
        uint64_t before = read_bytes(&model);
        for (there.count = 0; more;) {
            struct far_page page = page_behind(&last, backwards);
            read_page(&model, &page, NULL);
            uint32_t used = turn < 2 || !page.more ? page.count : page.count - page.count / 3;
            for (uint32_t i = 0; i < used && there.count < JOBS; i++) {
                assert_true(in_order(&last, &page.events[i], backwards));
                last.job = page.events[i].job;
                there.seqs[there.count++] = last.job.seq;
            }
            more = page.more && there.count < JOBS;
            store_far_page_end(model.store, &page);
            for (int i = 0; i < 20 && model.job_count < JOBS + JOBS / 8; i++)
                assert_int_equal(model_push(&model), OK);
            model_settle(&model);
            note_far(&model, last);
        }
        assert_true(there.count < JOBS);
        assert_int_equal(count_missed(&model, &there, backwards), 0);
        assert_true(read_bytes(&model) - before <= block_bytes(&model) * 3 / 2);
        model_fini(&model);
    }
}

/* Jobs that are due with so much time between one and the next, or before that. */
static void push_in_a_row(struct model *model, int64_t from_us, int64_t step_us, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        model->at_us = from_us + step_us * i;
        assert_int_equal(model_push(model), OK);
        if (i % 8 == 0)
            model_turn(model);
    }
}

/* Is a part of the slice that begins with this job in use, while others are still to come? */
static bool is_making(const struct model *model, int64_t due_us)
{
    const struct list *all = &model->store->slices->all;
    for (const struct list *link = all->next; link != all; link = link->next) {
        const struct slice *slice = LIST_ENTRY(link, const struct slice, link);
        if (slice->making && slice->named > 1 && slice->fences[0].due_us == due_us)
            return true;
    }
    return false;
}

/* They begin behind the beginning of the block that was read last, and before the page's end: the
   search comes to their block by itself. */
static void of_a_block_that_begins_within_the_last_page_each_job_comes_once(void **state)
{
    enum { ROW = 600, LATE = 900, WITHIN = 5, STEP_US = 1000, SEGMENT = 512 * 1024, SOME = 20 };
    (void)state;
    for (int backwards = 0; backwards < 2; backwards++) {
        struct model model;
        static struct listed there;
        far_model(&model, 5);
        model.body_bytes = 2000;
        model.options.segment_bytes = SEGMENT;
        model.options.checkpoint_bytes = SEGMENT;
        assert_int_equal(model_open(&model), OK);
        int64_t origin_us = model.now_us + INT64_C(1000) * MODEL_DELAY_US;
        push_in_a_row(&model, origin_us, STEP_US, ROW);
        model_settle(&model);
        struct event last = before_all(backwards);
        memset(noted, 0, sizeof(noted));
        note_far(&model, last);
        there.count = 0;
        for (bool more = true, late_come = false; more;) {
            struct far_page page = page_behind(&last, backwards);
            page.max = SOME;
            read_page(&model, &page, NULL);
            for (uint32_t i = 0; i < page.count; i++) {
                assert_true(in_order(&last, &page.events[i], backwards));
                last.job = page.events[i].job;
                there.seqs[there.count++] = last.job.seq;
            }
            more = page.more;
            store_far_page_end(model.store, &page);
            if (!late_come) {
                late_come = true;
                int64_t step_us = backwards ? -STEP_US : STEP_US;
                int64_t from_us = last.job.due_us - WITHIN * step_us + STEP_US / 2;
                uint32_t number = segments_tail(model.store->segments)->number;
                while (segments_tail(model.store->segments)->number == number)
                    push_in_a_row(&model, origin_us + ROW * STEP_US, 0, 1);
                for (int i = 0; i < LATE && !is_making(&model, from_us); i++)
                    push_in_a_row(&model, from_us + step_us * i, 0, 1);
                assert_true(backwards || is_making(&model, from_us));
            }
            note_far(&model, last);
        }
        unsigned late = 0;
        for (size_t i = 0; i < model.job_count; i++) {
            const struct model_job *job = &model.jobs[i];
            struct event at = {.job = {.due_us = job->due_us, .seq = job->seq}};
            bool due = job->far && in_order(&come_to[i], &at, backwards);
            assert_true(!due || is_listed(&there, job->seq));
            late += due && i >= ROW;
        }
        assert_true(late > WITHIN);
        model_fini(&model);
    }
}

/* A slice cannot be read, again and again another one: in the end all are listed, in order, once.
 */
static void a_block_that_cannot_be_read_ends_a_page_and_not_the_listing(void **state)
{
    (void)state;
    static struct listed there;
    struct model model;
    for (int backwards = 0; backwards < 2; backwards++) {
        struct event last = before_all(backwards);
        unsigned failed = 0, tries = 0;
        begin_many(&model);
        there.count = 0;
        for (bool more = true; more; tries++) {
            char name[DISK_NAME_MAX];
            const struct model_job *job = &model.jobs[tries * 37 % JOBS];
            bool bad = tries % 2 == 0 && job->live && job->far;
            struct far_page page = page_behind(&last, backwards);
            (void)snprintf(name, sizeof(name), "slice-%08x", (unsigned)(job->stored.where >> 32));
            if (tries % 8 == 0)
                far_pages_limit(model.store->far_pages, tries % 16 ? 50000 : FAR_WALKS_BYTES);
            if (tries % 5 == 0) /* it begins from nothing */
                store_turn(model.store, model.now_us += 20 * INT64_C(1000000));
            if (bad)
                sim_disk_bad(model.disk, name, 0, UINT64_MAX);
            end_page(&model, &page, NULL);
            if (bad)
                sim_disk_bad(model.disk, name, 0, 0);
            assert_true(page.err == OK || (bad && page.err == ERR_IO));
            failed += page.err != OK;
            more = page.err || page.more;
            for (uint32_t i = 0; i < page.count && !page.err; i++) {
                assert_true(in_order(&last, &page.events[i], backwards));
                last.job = page.events[i].job;
                there.seqs[there.count++] = last.job.seq;
            }
            store_far_page_end(model.store, &page);
        }
        assert_true(failed > 0);
        assert_lists_all_far(&model, &there);
        store_valid(model.store);
        model_fini(&model);
    }
}

/* ---- jobs that are due at one instant ---- */

enum { LARGE_SEGMENT = 512 * 1024, INSTANT_PAGE = 20 };

/* Several slices of many blocks each, all of them at one instant. */
static void begin_instant(struct model *model)
{
    far_model(model, 5);
    model->at_us = model->now_us + INT64_C(1000) * MODEL_DELAY_US;
    model->body_bytes = 2000;
    model->options.segment_bytes = LARGE_SEGMENT;
    model->options.checkpoint_bytes = LARGE_SEGMENT;
    assert_int_equal(model_open(model), OK);
    for (unsigned i = 0; i < JOBS; i++) {
        assert_int_equal(model_push(model), OK);
        if (i % 8 == 0)
            model_turn(model);
    }
    model_settle(model);
}

/* What is kept for the next page goes if memory is short. */
static void a_turn(struct model *model)
{
    store_turn(model->store, ++model->now_us);
}

static void assert_reads_at_most(struct model *model, bool backwards, uint64_t most)
{
    static struct listed listed;
    uint64_t before = read_bytes(model), fetched = sim_disk_fetched(model->disk);
    list_all(model, backwards, INSTANT_PAGE, &listed, a_turn);
    assert_true((sim_disk_fetched(model->disk) > fetched) != backwards);
    assert_lists_all_far(model, &listed);
    for (unsigned i = 1; i < listed.count; i++)
        assert_true((listed.seqs[i] > listed.seqs[i - 1]) != backwards);
    print_message("%u jobs in %u slices: %llu bytes were read, of %llu\n", listed.count,
                  slices_count(model->store->slices),
                  (unsigned long long)(read_bytes(model) - before),
                  (unsigned long long)block_bytes(model));
    assert_true(listed.count > JOBS / 2 && read_bytes(model) - before <= most);
}

/* In the life that made the slices, and in the next one, which has to learn their order. */
static void of_jobs_at_one_instant_a_page_reads_but_its_own_blocks(void **state)
{
    enum { BLOCKS_A_PAGE = 3, PAGES = JOBS / INSTANT_PAGE + 1 };
    (void)state;
    struct model model;
    begin_instant(&model);
    uint64_t all = block_bytes(&model);
    assert_true(slices_count(model.store->slices) >= 3 && all > 24 * (uint64_t)SLICE_BLOCK_BYTES);
    for (int again = 0; again < 2; again++) {
        for (int backwards = 0; backwards < 2; backwards++) {
            model.callbacks.far_room = NULL;
            assert_reads_at_most(&model, backwards, all + all / 8);
            far_pages_limit(model.store->far_pages, all / 8);
            assert_reads_at_most(&model, backwards, (backwards ? 3 : 2) * all);
            far_pages_limit(model.store->far_pages, FAR_WALKS_BYTES);
            model.callbacks.far_room = no_room; /* nothing is kept from page to page */
            assert_reads_at_most(&model, backwards,
                                 (uint64_t)PAGES * BLOCKS_A_PAGE * SLICE_BLOCK_BYTES);
        }
        model.callbacks.far_room = NULL;
        model_close(&model);
        assert_int_equal(model_open(&model), OK);
    }
    model_fini(&model);
}

/* They are listed all the same, as they were before blocks had an order. */
static void jobs_at_one_instant_are_listed_though_an_index_is_damaged(void **state)
{
    (void)state;
    struct model model;
    begin_instant(&model);
    model_close(&model);
    assert_int_equal(model_open(&model), OK);
    const struct segment *segment = segments_slice_from(model.store->segments, 0);
    char name[DISK_NAME_MAX];
    slice_name(segment->number, name);
    uint64_t index_at = slice_index_at(&segment->slice->head);
    assert_true(sim_disk_flip(model.disk, name, 8 * index_at + 3));
    assert_int_equal(model.notices[STORE_DAMAGED], 0);
    for (int backwards = 0; backwards < 2; backwards++) {
        assert_reads_at_most(&model, backwards, UINT64_MAX);
        assert_int_equal(model.notices[STORE_DAMAGED], 1);
        assert_string_equal(model.noticed.file, name);
        assert_int_equal(model.noticed.offset, index_at);
    }
    model_fini(&model);
}

/* A page that needs it fails, and does not try again by itself; later ones do. */
static void jobs_at_one_instant_are_listed_when_an_index_can_be_read_again(void **state)
{
    (void)state;
    struct model model;
    begin_instant(&model);
    uint64_t all = block_bytes(&model);
    model_close(&model);
    assert_int_equal(model_open(&model), OK);
    const struct segment *segment = segments_slice_from(model.store->segments, 0);
    char name[DISK_NAME_MAX];
    slice_name(segment->number, name);
    sim_disk_bad(model.disk, name, slice_index_at(&segment->slice->head), UINT64_MAX);
    for (int tries = 0; tries < 3; tries++) {
        struct event first = before_all(false);
        struct far_page page = page_behind(&first, false);
        end_page(&model, &page, NULL);
        assert_int_equal(page.err, ERR_IO);
        store_far_page_end(model.store, &page);
        assert_int_equal(model.notices[STORE_UNREAD], 1);
        assert_string_equal(model.noticed.file, name);
    }
    sim_disk_bad(model.disk, name, 0, 0);
    assert_reads_at_most(&model, false, all + all / 4);
    assert_int_equal(model.notices[STORE_DAMAGED], 0);
    model_fini(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topics_far_jobs_are_listed_in_order_and_backwards),
        cmocka_unit_test(buried_and_delayed_jobs_are_listed_apart),
        cmocka_unit_test(what_is_loaded_is_not_listed),
        cmocka_unit_test(jobs_that_stay_far_are_listed_though_others_come_and_go),
        cmocka_unit_test(who_goes_through_all_pages_reads_each_block_once),
        cmocka_unit_test(with_little_memory_blocks_are_read_again_but_not_for_each_page),
        cmocka_unit_test(with_memory_for_a_part_of_each_block_it_is_read_about_once),
        cmocka_unit_test(of_a_damaged_block_that_is_read_in_parts_the_other_jobs_are_listed),
        cmocka_unit_test(a_page_that_is_asked_for_again_is_the_same_and_reads_nothing),
        cmocka_unit_test(jobs_that_have_ended_are_left_out_a_few_in_a_turn),
        cmocka_unit_test(what_is_kept_for_the_next_page_goes_when_memory_is_short_or_nobody_comes),
        cmocka_unit_test(a_block_that_cannot_be_read_ends_a_page_and_not_the_listing),
        cmocka_unit_test(jobs_that_become_far_between_two_pages_are_listed),
        cmocka_unit_test(of_a_block_that_begins_within_the_last_page_each_job_comes_once),
        cmocka_unit_test(of_jobs_at_one_instant_a_page_reads_but_its_own_blocks),
        cmocka_unit_test(jobs_at_one_instant_are_listed_though_an_index_is_damaged),
        cmocka_unit_test(jobs_at_one_instant_are_listed_when_an_index_can_be_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
