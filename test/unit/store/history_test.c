/*
 * The history of jobs beside a model of it: a list of all that happened, each with the batch that
 * it went into. After any crash a look-up finds what is of the batches that were found, and nothing
 * twice. Tiny segments: flushes happen with every cleaning, merges with every eighth.
 */
#include "history_bed.h"
#include "store/history/history_parts.h"
#include "store/slices/spill.h"
#include "test/unit/support/every.h"

enum { TURNS = 120 };

static bool live_and_die(uint64_t seed, uint64_t cut_at, uint64_t power_seed)
{
    static struct past past;
    past_init(&past, seed);
    struct model *model = &past.model;
    sim_disk_cold(model->disk, seed % 2);
    sim_disk_cut_at(model->disk, cut_at);
    if (model_open(model) == OK) {
        work(&past, TURNS);
        model_close(model);
    }
    bool cut = sim_disk_cut(model->disk);
    if (cut) {
        model->store = NULL;
        sim_disk_power(model->disk, power_seed);
        assert_int_equal(model_open(model), OK);
        sim_disk_cut_at(model->disk, UINT64_MAX);
        uint64_t batch = store_durable(model->store);
        model_check(model);
        forget(&past, batch);
        check(&past);
        work(&past, 40);
        model_settle(model);
        check(&past);
        model_close(model);
        assert_int_equal(model_open(model), OK);
        check(&past);
    }
    model_fini(model);
    return cut;
}

static void a_life_has_flushes_and_merges_in_it(void **state)
{
    (void)state;
    static struct past past;
    struct store_stats stats;
    past_init(&past, 3);
    assert_int_equal(model_open(&past.model), OK);
    uint32_t most = 0, merged = 0;
    uint64_t before = 0;
    for (int i = 0; i < 12; i++) {
        work(&past, 60);
        store_stats(past.model.store, &stats);
        merged += stats.history_files < before;
        before = stats.history_files;
        most = stats.history_files > most ? (uint32_t)stats.history_files : most;
    }
    print_message("%u files at most\n", most);
    assert_true(most > 4 && most < 24 && merged > 0);
    model_settle(&past.model);
    check(&past);
    store_stats(past.model.store, &stats);
    assert_true(stats.history_entries > 0 && stats.history_lost == 0);
    model_fini(&past.model);
}

static void p1_a_cut_at_every_point_loses_no_happening_and_shows_none_twice(void **state)
{
    (void)state;
    uint64_t lives = 0;
    for (uint64_t seed = 1; seed <= 4; seed++)
        for (uint64_t cut_at = 0; live_and_die(seed, cut_at, cut_at * 31 + seed);
             cut_at += sim_every())
            lives++;
    print_message("%llu lives\n", (unsigned long long)lives);
    assert_true(lives > 500 / sim_every());
}

static void what_is_too_old_goes_with_its_files(void **state)
{
    (void)state;
    static struct past past;
    struct store_stats stats;
    struct history_find all;
    past_init(&past, 5);
    struct model *model = &past.model;
    model->options.history_us = INT64_C(3600) * 1000000;
    assert_int_equal(model_open(model), OK);
    work(&past, 200);
    model_settle(model);
    store_stats(model->store, &stats);
    assert_true(stats.history_files > 0);
    model->now_us += INT64_C(2 * 3600) * 1000000;
    model_settle(model);
    store_stats(model->store, &stats);
    assert_int_equal(stats.history_files, 0);
    assert_int_equal(stats.history_bytes, 0);
    find(&past, 2, 10, &all);
    assert_int_equal(all.count, 0);
    store_history_find_end(model->store, &all);
    model_fini(model);
}

/* All of it to one job, and in files. */
static void happen_often(struct past *past, int count, size_t note_bytes)
{
    past_init(past, 6);
    assert_int_equal(model_open(&past->model), OK);
    for (int i = 0; i < count; i++) {
        happen(past, 4, true, note_bytes);
        if (i % 50 == 0) {
            (void)model_push(&past->model);
            model_turn(&past->model);
        }
    }
    model_settle(&past->model);
}

static void all_is_shown_of_a_job_that_has_many_blocks_of_a_file(void **state)
{
    (void)state;
    static struct past past;
    struct store_stats stats;
    struct history_find all;
    enum { COUNT = 3000, NOTE_BYTES = 300, IN_FILES = 8 * 1024 * 1024 / 10 };
    happen_often(&past, COUNT, NOTE_BYTES);
    store_stats(past.model.store, &stats);
    assert_true(stats.history_bytes > IN_FILES && stats.history_files < 4);
    check(&past);
    for (uint32_t max = 1; max <= COUNT; max += 411) {
        find(&past, 4, max, &all);
        assert_int_equal(all.count, max);
        assert_true(all.more);
        for (uint32_t i = 0; i < max; i++)
            assert_int_equal(all.happenings[i].lease, COUNT - max + i);
        store_history_find_end(past.model.store, &all);
    }
    model_fini(&past.model);
}

static void the_newest_are_shown_of_many(void **state)
{
    (void)state;
    static struct past past;
    struct history_find some;
    happen_often(&past, 3000, 0);
    find(&past, 4, 100, &some);
    assert_int_equal(some.count, 100);
    assert_true(some.more);
    assert_int_equal(some.happenings[0].lease, 2900);
    assert_int_equal(some.happenings[99].lease, 2999);
    store_history_find_end(past.model.store, &some);
    check(&past);
    model_fini(&past.model);
}

static void a_look_up_that_nobody_waits_for_harms_nothing(void **state)
{
    (void)state;
    static struct past past;
    past_init(&past, 7);
    past.model.options.recent_bytes = 1;
    assert_int_equal(model_open(&past.model), OK);
    work(&past, 200);
    struct history_find find = {.ref = {.seq = 2}, .max = 10, .done = found};
    store_history_find(past.model.store, &find);
    store_turn(past.model.store, past.model.now_us);
    store_history_find_end(past.model.store, &find);
    model_settle(&past.model);
    check(&past);
    model_fini(&past.model);
}

/* So much of it to the job with the number 2, within one turn. */
static void happen_at_once(struct past *past, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        store_history_add(past->model.store, &(struct happening){.what = HAPPENED_RESERVED,
                                                                 .state = JOB_RESERVED,
                                                                 .promised = true,
                                                                 .seq = 2,
                                                                 .at_us = past->model.now_us,
                                                                 .lease = i});
}

/* A turn. Returns how many entries were sorted, built or looked at. */
static uint64_t steps_of_turn(struct past *past)
{
    struct store *store = past->model.store;
    uint64_t before = store->history->steps;
    store_turn(store, ++past->model.now_us);
    uint64_t after = store->history->steps;
    model_disk_works(&past->model);
    store_poll(store);
    assert_int_equal(store->history->steps, after);
    return after - before;
}

static void a_flush_of_a_job_that_much_happens_to_takes_short_turns(void **state)
{
    (void)state;
    static struct past past;
    struct history_find some;
    uint64_t steps = 0;
    enum { COUNT = 120000, TURN_STEPS = 10000 };
    past_init(&past, 8);
    assert_int_equal(model_open(&past.model), OK);
    happen_at_once(&past, COUNT);
    for (int i = 0; i < 2000 && steps < 2 * COUNT; i++) {
        uint64_t of_turn = steps_of_turn(&past);
        assert_true(of_turn <= TURN_STEPS);
        steps += of_turn;
    }
    assert_int_equal(steps, 2 * COUNT); /* sorted once, built once */
    model_settle(&past.model);
    find(&past, 1, 100, &some);
    assert_int_equal(some.count, 100);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(some.happenings[i].lease, COUNT - 100 + i);
    store_history_find_end(past.model.store, &some);
    model_fini(&past.model);
}

/* Each sees a thousand entries in memory, which is some hundred microseconds. */
static void many_who_ask_at_once_are_answered_in_short_turns(void **state)
{
    (void)state;
    static struct past past;
    enum { ASKERS = 50, SHOWN = 1000, TURN_STEPS = 10 * SHOWN };
    static struct history_find finds[ASKERS];
    static bool ended[ASKERS];
    past_init(&past, 9);
    assert_int_equal(model_open(&past.model), OK);
    happen_at_once(&past, 2 * SHOWN);
    uint64_t before = past.model.store->history->steps;
    for (unsigned i = 0; i < ASKERS; i++) {
        ended[i] = false;
        finds[i] = (struct history_find){
            .ref = {.seq = 2}, .max = SHOWN, .done = found, .owner = &ended[i]};
        store_history_find(past.model.store, &finds[i]);
    }
    assert_int_equal(past.model.store->history->steps, before);
    for (int turn = 0; turn < 1000 && !ended[ASKERS - 1]; turn++)
        assert_true(steps_of_turn(&past) <= TURN_STEPS);
    for (unsigned i = 0; i < ASKERS; i++) {
        assert_true(ended[i]);
        assert_int_equal(finds[i].count, SHOWN);
        store_history_find_end(past.model.store, &finds[i]);
    }
    model_fini(&past.model);
}

/* It may have 32 MiB, which the system takes back in milliseconds. */
static void the_memory_of_a_merge_is_freed_later_and_without_an_event(void **state)
{
    enum { MERGED = 8, ENTRIES = 180 };
    (void)state;
    static struct past past;
    past_init(&past, 9);
    struct model *model = &past.model;
    assert_int_equal(model_open(model), OK);
    const struct history *history = model->store->history;
    for (int i = 0; i < MERGED - 1; i++)
        add_file(&past, ENTRIES);
    for (unsigned i = 0; i < ENTRIES; i++)
        happen(&past, 2, true, 300);
    for (int turn = 0; turn < 5000 && !history->spent.bytes; turn++) {
        assert_int_equal(model_push(model), OK);
        model_end(model, &model->jobs[--model->job_count]);
        model_turn(model);
    }
    assert_true(history->spent.bytes >= MERGED * ENTRIES * 300);
    assert_true(store_next_us(model->store) <= model->now_us);
    store_turn(model->store, ++model->now_us);
    assert_int_equal(history->spent.bytes, 0); /* it was one piece */
    model_fini(model);
}

/* Turned off and on again: what happened meanwhile is not known, all else is. */
static void it_can_be_turned_off_and_on(void **state)
{
    (void)state;
    static struct past past;
    struct store_stats stats;
    past_init(&past, 9);
    struct model *model = &past.model;
    int64_t keep_us = model->options.history_us;
    assert_int_equal(model_open(model), OK);
    work(&past, 100);
    model_settle(model);
    model_close(model);
    model->options.history_us = 0;
    assert_int_equal(model_open(model), OK);
    store_stats(model->store, &stats);
    uint64_t files = stats.history_files;
    assert_true(files > 0);
    model_work(model, 10); /* too few to clean a segment, with which its history would go */
    model_close(model);
    model->options.history_us = keep_us;
    assert_int_equal(model_open(model), OK);
    store_stats(model->store, &stats);
    assert_int_equal(stats.history_files, files);
    check(&past);
    model_fini(model);
}

/* The line of the youngest entry of this id. */
static uint64_t newest_of(const struct past *past, unsigned id)
{
    size_t i = past->count;
    while (i > 0 && past->lines[i - 1].id != id)
        i--;
    assert_true(i > 0);
    return i - 1;
}

static void at_the_limit_the_oldest_goes_and_the_newest_is_kept(void **state)
{
    (void)state;
    static struct past past;
    struct store_stats stats;
    past_init(&past, 10);
    struct model *model = &past.model;
    assert_int_equal(model_open(model), OK);
    for (int i = 0; i < 4; i++)
        add_file(&past, 200);
    model_close(model);
    model->options.max_bytes = sim_disk_used(model->disk) + 3 * MODEL_SEGMENT;
    assert_int_equal(model_open(model), OK);
    store_stats(model->store, &stats);
    int64_t oldest_us = stats.history_oldest_us;
    for (int i = 0; i < 100; i++) { /* little lives, much happens */
        for (int j = 0; j < 10; j++)
            happen(&past, (unsigned)(j % 4), true, 200);
        struct model_job *job = model_pick(model);
        if (job)
            model_end(model, job);
        (void)model_push(model);
        model_turn(model);
    }
    model_settle(model);
    store_stats(model->store, &stats);
    assert_int_equal(stats.history_lost, 0);
    assert_true(stats.history_files > 0 && stats.history_oldest_us > oldest_us);
    model_close(model);
    assert_int_equal(model_open(model), OK);
    struct history_find all;
    find(&past, 2, LINES_MAX, &all);
    assert_true(all.count > 0);
    assert_int_equal(all.happenings[all.count - 1].lease, newest_of(&past, 2));
    store_history_find_end(model->store, &all);
    model_fini(model);
}

/* Where the limit keeps the log below checkpoint_bytes no slice is ever made. */
static void p8_history_has_the_room_that_no_slice_can_take(void **state)
{
    (void)state;
    static struct past past;
    struct store_stats stats;
    past_init(&past, 10);
    struct model *model = &past.model;
    assert_int_equal(model_open(model), OK);
    for (int i = 0; i < 4; i++)
        add_file(&past, 200);
    model_close(model);
    model_use_slices(model);
    model->options.max_bytes = sim_disk_used(model->disk) + 3 * MODEL_SEGMENT;
    model->options.checkpoint_bytes = model->options.max_bytes;
    assert_int_equal(model_open(model), OK);
    for (int i = 0; i < 1000; i++) {
        happen(&past, (unsigned)(i % 4), true, 200);
        struct model_job *job = i % 10 ? NULL : model_pick(model);
        if (job)
            model_end(model, job);
        if (i % 10 == 9) {
            (void)model_push(model);
            model_turn(model);
        }
    }
    model_settle(model);
    store_stats(model->store, &stats);
    assert_int_equal(stats.history_lost, 0);
    assert_true(stats.history_files > 0);
    model_fini(model);
}

/* One file that goes makes room enough: the others stay. */
static void a_full_disk_takes_no_more_history_than_it_needs(void **state)
{
    (void)state;
    static struct past past;
    struct store_stats stats;
    past_init(&past, 11);
    struct model *model = &past.model;
    assert_int_equal(model_open(model), OK);
    for (int i = 0; i < 5; i++)
        add_file(&past, 200);
    store_stats(model->store, &stats);
    uint64_t files = stats.history_files;
    sim_disk_capacity(model->disk, sim_disk_used(model->disk) + 8192);
    bool full = false;
    for (int i = 0; i < 400 && !full; i++) {
        (void)model_push(model);
        model_turn(model);
        store_stats(model->store, &stats);
        full = stats.history_files < files;
    }
    assert_true(full);
    for (int i = 0; i < 30; i++) {
        model_turn(model);
        model_disk_works(model);
        store_poll(model->store);
    }
    store_stats(model->store, &stats);
    assert_true(stats.history_files >= files - 2);
    model_fini(model);
}

static void a_file_that_cannot_be_read_now_is_there_when_it_can(void **state)
{
    (void)state;
    for (unsigned place = 0; place < 5; place++)
        for (int head = 0; head < (place < 4 ? 2 : 1); head++) {
            static struct past past;
            char name[DISK_NAME_MAX];
            past_init(&past, 12);
            struct model *model = &past.model;
            assert_int_equal(model_open(model), OK);
            for (int i = 0; i < 5; i++)
                add_file(&past, 5);
            model_close(model);
            uint64_t bytes = name_of_file(&past, place, name);
            uint64_t bit = head ? 800 : bytes * 8 - 1; /* of its fences */
            assert_true(sim_disk_flip(model->disk, name, bit));
            assert_int_equal(model_open(model), OK);
            for (int i = 0; i < 12; i++)
                add_file(&past, 5);
            model_close(model);
            assert_true(sim_disk_flip(model->disk, name, bit));
            assert_int_equal(model_open(model), OK);
            check(&past);
            model_fini(model);
        }
}

static void a_disk_that_cannot_read_a_file_keeps_the_store_from_opening(void **state)
{
    (void)state;
    static struct past past;
    char name[DISK_NAME_MAX];
    past_init(&past, 13);
    struct model *model = &past.model;
    assert_int_equal(model_open(model), OK);
    add_file(&past, 5);
    model_close(model);
    (void)name_of_file(&past, 0, name);
    sim_disk_bad(model->disk, name, 0, 100);
    assert_int_equal(model_open(model), ERR_IO);
    assert_string_equal(model->error.file, name);
    model->store = NULL;
    sim_disk_bad(model->disk, name, 0, 0);
    assert_int_equal(model_open(model), OK);
    check(&past);
    model_fini(model);
}

static void turned_off_it_yields_to_jobs(void **state)
{
    (void)state;
    static struct past past;
    struct store_stats stats;
    past_init(&past, 14);
    struct model *model = &past.model;
    assert_int_equal(model_open(model), OK);
    for (int i = 0; i < 5; i++)
        add_file(&past, 200);
    model_close(model);
    model->options.history_us = 0;
    model->options.max_bytes = sim_disk_used(model->disk) + MODEL_SEGMENT;
    assert_int_equal(model_open(model), OK);
    store_stats(model->store, &stats);
    uint64_t files = stats.history_files;
    assert_true(files > 1);
    for (int i = 0; i < 300; i++) {
        (void)model_push(model);
        model_turn(model);
    }
    store_stats(model->store, &stats);
    assert_true(stats.history_files < files);
    model_fini(model);
}

/* While the files are read, jobs take the room that was there when it began. */
static void p8_a_merge_stays_below_the_limit(void **state)
{
    (void)state;
    static struct past past;
    struct store_stats stats;
    past_init(&past, 26);
    struct model *model = &past.model;
    assert_int_equal(model_open(model), OK);
    const struct history *history = model->store->history;
    for (int i = 0; i < 7; i++)
        add_file(&past, 150);
    for (int i = 0; i < 150; i++)
        happen(&past, 2, true, 300);
    for (int i = 0;
         i < 1000 && !history_merge_works(history->merge) && !history_merge_busy(history->merge);
         i++) {
        struct model_job *job = model_pick(model);
        if (job)
            model_end(model, job);
        (void)model_push(model);
        model_turn(model);
    }
    assert_true(history_merge_works(history->merge) || history_merge_busy(history->merge));
    uint64_t most = sim_disk_used(model->disk) + MODEL_SEGMENT;
    model->store->options.max_bytes = most;
    for (int i = 0; i < 100; i++) {
        store_turn(model->store, model->now_us);
        model->now_us += 30000;
        model_disk_works(model);
        store_poll(model->store);
        assert_true(sim_disk_used(model->disk) <= most);
    }
    check(&past);
    model->store->options.max_bytes = 0; /* now it is done */
    model_settle(model);
    store_stats(model->store, &stats);
    assert_true(stats.history_files < 8);
    check(&past);
    model_fini(model);
}

/* ---- far jobs ---- */

enum { FAR_JOBS = 400 };

/* A store with files of history, and jobs in its log that are due in the far future; closed. */
static void build_beside_far_jobs(struct past *past)
{
    struct model *model = &past->model;
    past_init(past, 23);
    model->body_bytes = 300;
    assert_int_equal(model_open(model), OK);
    for (int i = 0; i < 6; i++)
        add_file(past, 150);
    model->delay_us = INT64_C(1000) * MODEL_DELAY_US;
    for (unsigned i = 0; i < FAR_JOBS; i++) {
        assert_int_equal(model_push(model), OK);
        if (i % 8 == 0)
            model_turn(model);
    }
    model_settle(model);
    model_close(model);
    model_use_slices(model);
    model->delay_us = INT64_C(1000) * MODEL_DELAY_US;
}

/* History takes no room that far jobs need to leave memory, and all files together stay below the
   limit. `limited`: store.max_bytes leaves so little room, else the disk does. */
static void far_jobs_leave_beside(bool limited)
{
    static struct past past;
    struct model *model = &past.model;
    struct store_stats stats;
    build_beside_far_jobs(&past);
    uint64_t most = sim_disk_used(model->disk) + MODEL_SEGMENT / 2;
    if (limited)
        model->options.max_bytes = most;
    else
        sim_disk_capacity(model->disk, most);
    assert_int_equal(model_open(model), OK);
    store_stats(model->store, &stats);
    uint64_t files = stats.history_files;
    for (int i = 0; i < 600; i++) {
        store_turn(model->store, model->now_us);
        if (i % 4 == 0)
            (void)model_push(model);
        model->now_us += 30000;
        model_disk_works(model);
        store_poll(model->store);
        if (valid_now())
            store_valid(model->store);
        assert_true(sim_disk_used(model->disk) <= most);
    }
    store_stats(model->store, &stats);
    print_message("%llu of %llu files of history left, %llu jobs in slices\n",
                  (unsigned long long)stats.history_files, (unsigned long long)files,
                  (unsigned long long)stats.slice_jobs);
    assert_true(stats.slice_jobs > 0 && stats.history_files < files);
    model->options.max_bytes = 0;
    sim_disk_capacity(model->disk, 0);
    model_close(model);
    assert_int_equal(model_open(model), OK);
    model_check(model);
    model_fini(model);
}

static void p8_far_jobs_leave_memory_beside_history_on_a_full_disk(void **state)
{
    (void)state;
    far_jobs_leave_beside(false);
}

static void p8_far_jobs_and_history_stay_below_the_limit_together(void **state)
{
    (void)state;
    far_jobs_leave_beside(true);
}

static void p8_new_history_leaves_the_room_that_slices_need(void **state)
{
    enum { TURNS_MANY = 2500, CAPACITY = 24 * MODEL_SEGMENT };
    (void)state;
    static struct past past;
    struct model *model = &past.model;
    struct store_stats stats;
    past_init(&past, 25);
    model_use_slices(model);
    model->body_bytes = 300;
    model->delay_us = INT64_C(1000) * MODEL_DELAY_US;
    sim_disk_capacity(model->disk, CAPACITY);
    assert_int_equal(model_open(model), OK);
    uint64_t files = 0, written = 0;
    for (int i = 0; i < TURNS_MANY; i++) {
        happen(&past, 2, true, 300);
        if (i % 4 == 0)
            (void)model_push(model);
        store_turn(model->store, model->now_us);
        model->now_us += 30000;
        model_disk_works(model);
        store_poll(model->store);
        store_stats(model->store, &stats);
        if (stats.history_files > files) { /* a segment may have been made since */
            uint64_t room = CAPACITY - sim_disk_used(model->disk);
            assert_true(room >= 3 * MODEL_SEGMENT ||
                        !spill_would_have_room(model->store, model->store->history->bytes));
            written++;
        }
        files = stats.history_files;
    }
    print_message("%llu files of history written, %llu left, %llu jobs in slices\n",
                  (unsigned long long)written, (unsigned long long)files,
                  (unsigned long long)stats.slice_jobs);
    assert_true(written > 5 && stats.slice_jobs > 0);
    model_fini(model);
}

/* What a stop leaves for the next start counts as well. */
static void p8_an_image_of_far_jobs_stays_below_the_limit_beside_history(void **state)
{
    (void)state;
    static struct past past;
    struct model *model = &past.model;
    struct store_stats stats;
    build_beside_far_jobs(&past);
    assert_int_equal(model_open(model), OK);
    for (int i = 0; i < 10; i++)
        model_settle(model);
    store_stats(model->store, &stats);
    assert_true(stats.slice_jobs > FAR_JOBS / 2);
    uint64_t most = sim_disk_used(model->disk) + 1000;
    model->store->options.max_bytes = most;
    model_close(model);
    assert_true(sim_disk_used(model->disk) <= most);
    assert_int_equal(model_open(model), OK);
    model_check(model);
    model_fini(model);
}

/* Seven small files are not worth writing a large one again. */
static void a_large_file_is_not_written_again_for_small_ones(void **state)
{
    (void)state;
    static struct past past;
    char name[DISK_NAME_MAX];
    past_init(&past, 15);
    assert_int_equal(model_open(&past.model), OK);
    add_file(&past, 500);
    uint64_t bytes = name_of_file(&past, 0, name);
    assert_true(bytes > 100 * 1024);
    for (int i = 0; i < 12; i++)
        add_file(&past, 5);
    assert_non_null(sim_disk_file(past.model.disk, name, &bytes));
    check(&past);
    model_fini(&past.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_life_has_flushes_and_merges_in_it),
        cmocka_unit_test(p1_a_cut_at_every_point_loses_no_happening_and_shows_none_twice),
        cmocka_unit_test(what_is_too_old_goes_with_its_files),
        cmocka_unit_test(all_is_shown_of_a_job_that_has_many_blocks_of_a_file),
        cmocka_unit_test(the_newest_are_shown_of_many),
        cmocka_unit_test(a_look_up_that_nobody_waits_for_harms_nothing),
        cmocka_unit_test(a_flush_of_a_job_that_much_happens_to_takes_short_turns),
        cmocka_unit_test(many_who_ask_at_once_are_answered_in_short_turns),
        cmocka_unit_test(the_memory_of_a_merge_is_freed_later_and_without_an_event),
        cmocka_unit_test(it_can_be_turned_off_and_on),
        cmocka_unit_test(at_the_limit_the_oldest_goes_and_the_newest_is_kept),
        cmocka_unit_test(p8_history_has_the_room_that_no_slice_can_take),
        cmocka_unit_test(a_full_disk_takes_no_more_history_than_it_needs),
        cmocka_unit_test(a_file_that_cannot_be_read_now_is_there_when_it_can),
        cmocka_unit_test(a_disk_that_cannot_read_a_file_keeps_the_store_from_opening),
        cmocka_unit_test(turned_off_it_yields_to_jobs),
        cmocka_unit_test(p8_a_merge_stays_below_the_limit),
        cmocka_unit_test(p8_far_jobs_leave_memory_beside_history_on_a_full_disk),
        cmocka_unit_test(p8_far_jobs_and_history_stay_below_the_limit_together),
        cmocka_unit_test(p8_new_history_leaves_the_room_that_slices_need),
        cmocka_unit_test(p8_an_image_of_far_jobs_stays_below_the_limit_beside_history),
        cmocka_unit_test(a_large_file_is_not_written_again_for_small_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
