/*
 * Salvage brings what happened to jobs, as far as it is intact: nothing twice, nothing that did not
 * happen, of each id in its order; of a damaged file all but what was in the damaged block.
 */
#include "history_bed.h"
#include "store/history/history_format.h"
#include "store/recovery/salvage.h"
#include "test/unit/support/every.h"

struct rescued {
    struct salvage_callbacks callbacks;
    struct past *past;
    uint64_t newest[IDS]; /* lease of the last one + 1 */
    unsigned found, lines;
};

static enum err ignore_event(struct salvage_callbacks *callbacks, const struct event *event,
                             enum salvage_trust trust)
{
    (void)callbacks;
    (void)event;
    (void)trust;
    return OK;
}

static void ignore_clock(struct salvage_callbacks *callbacks, int64_t clock_us)
{
    (void)callbacks;
    (void)clock_us;
}

static void count_line(struct salvage_callbacks *callbacks, const char *line)
{
    assert_true(line[0]);
    LIST_ENTRY(callbacks, struct rescued, callbacks)->lines++;
}

static enum err take(struct salvage_callbacks *callbacks, const struct happening *happening)
{
    struct rescued *rescued = LIST_ENTRY(callbacks, struct rescued, callbacks);
    assert_true(happening->lease < rescued->past->count);
    struct line *line = &rescued->past->lines[happening->lease];
    assert_int_equal(happening->seq, line->id + 1);
    assert_false(line->found);
    assert_true(happening->lease >= rescued->newest[line->id]);
    rescued->newest[line->id] = happening->lease + 1;
    line->found = true;
    rescued->found++;
    return OK;
}

/* How many of those that must be there are missing. */
static unsigned salvage(struct past *past, struct salvage_counts *out_counts)
{
    struct rescued rescued = {
        .callbacks = {.replay = ignore_event,
                      .clock = ignore_clock,
                      .print_line = count_line,
                      .happened = take},
        .past = past,
    };
    struct salvage *salvage;
    struct store_error error;
    unsigned missing = 0;
    for (size_t i = 0; i < past->count; i++)
        past->lines[i].found = false;
    assert_int_equal(
        salvage_open(past->model.options.disk, true, &rescued.callbacks, &salvage, &error), OK);
    assert_int_equal(salvage_replay(salvage), OK);
    assert_int_equal(salvage_history(salvage), OK);
    salvage_counts(salvage, out_counts);
    salvage_close(salvage);
    assert_int_equal(out_counts->history, rescued.found);
    assert_int_equal(out_counts->bad_files + out_counts->damaged_batches > 0, rescued.lines > 0);
    for (size_t i = 0; i < past->count; i++)
        missing += past->lines[i].promised && !past->lines[i].found;
    return missing;
}

static void all_of_an_intact_store_is_found(void **state)
{
    (void)state;
    static struct past past;
    struct salvage_counts counts;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        past_init(&past, seed);
        assert_int_equal(model_open(&past.model), OK);
        work(&past, 300); /* with files that are merged, and more in the log */
        model_settle(&past.model);
        model_close(&past.model);
        assert_int_equal(salvage(&past, &counts), 0);
        assert_int_equal(counts.bad_files, 0);
        model_fini(&past.model);
    }
}

/* The log has some of what is in files: nothing of it is told twice. */
static void all_is_found_once_though_no_file_has_its_header(void **state)
{
    (void)state;
    static struct past past;
    struct salvage_counts counts;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        unsigned files = 0;
        past_init(&past, seed);
        assert_int_equal(model_open(&past.model), OK);
        work(&past, 300);
        model_close(&past.model);
        for (unsigned number = 0; number < 1000; number++) {
            char name[DISK_NAME_MAX];
            history_name(number, name);
            files += sim_disk_flip(past.model.disk, name, 100);
        }
        assert_int_equal(salvage(&past, &counts), 0);
        assert_true(files > 0 && counts.bad_files == files);
        model_fini(&past.model);
    }
}

/* After a crash at any point: what is left of a merge is not told twice. */
static void nothing_is_told_twice_after_a_crash(void **state)
{
    (void)state;
    static struct past past;
    for (uint64_t cut_at = 100;; cut_at += 3 * sim_every()) {
        struct salvage_counts counts;
        past_init(&past, 2);
        sim_disk_cut_at(past.model.disk, cut_at);
        assert_int_equal(model_open(&past.model), OK);
        work(&past, 200);
        uint64_t durable = past.model.acknowledged;
        model_close(&past.model);
        bool cut = sim_disk_cut(past.model.disk);
        past.model.store = NULL;
        sim_disk_power(past.model.disk, cut_at);
        for (size_t i = 0; i < past.count; i++)
            past.lines[i].promised &= past.lines[i].batch <= durable;
        assert_int_equal(salvage(&past, &counts), 0);
        model_fini(&past.model);
        if (!cut)
            break;
    }
}

static void of_a_damaged_file_only_the_damaged_block_is_lost(void **state)
{
    (void)state;
    static struct past past;
    unsigned flips = 0, lost = 0, most = 0;
    uint64_t bytes = UINT64_MAX;
    char name[DISK_NAME_MAX];
    for (unsigned place = 0; place < FILES; place++) {
        for (uint64_t byte = 0; byte < bytes; flips++) {
            struct salvage_counts counts;
            build(&past);
            bytes = name_of_file(&past, place, name);
            assert_true(sim_disk_flip(past.model.disk, name, byte * 8 + byte % 8));
            unsigned missing = salvage(&past, &counts);
            assert_true(counts.bad_files > 0);
            assert_true(missing == 0 || byte >= BLOCK); /* the header is not needed */
            most = missing > most ? missing : most;
            lost += missing > 0;
            model_fini(&past.model);
            byte += (byte < 100 ? 7 : 499) * sim_every();
        }
    }
    print_message("%u flips, %u lost something, %u at most\n", flips, lost, most);
    assert_true(lost > 100 / sim_every() && most * 300 < HISTORY_BLOCK_BYTES + 300 * IDS);
}

static void of_a_file_that_was_cut_whole_blocks_are_kept(void **state)
{
    (void)state;
    static struct past past;
    static char copy[256 * 1024];
    struct salvage_counts counts;
    uint64_t there;
    char name[DISK_NAME_MAX];
    build(&past);
    uint64_t bytes = name_of_file(&past, 1, name);
    memcpy(copy, sim_disk_file(past.model.disk, name, &there), (size_t)bytes);
    sim_disk_put(past.model.disk, name, copy, (size_t)bytes - 100);
    unsigned missing = salvage(&past, &counts);
    assert_true(missing > 0 && missing * 300 < HISTORY_BLOCK_BYTES + 300 * IDS);
    assert_true(counts.bad_files == 1 && bytes > HISTORY_BLOCK_BYTES + BLOCK);
    assert_true(sim_disk_delete(past.model.disk, name)); /* nobody can know of it */
    assert_true(salvage(&past, &counts) > missing);
    model_fini(&past.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_an_intact_store_is_found),
        cmocka_unit_test(all_is_found_once_though_no_file_has_its_header),
        cmocka_unit_test(nothing_is_told_twice_after_a_crash),
        cmocka_unit_test(of_a_damaged_file_only_the_damaged_block_is_lost),
        cmocka_unit_test(of_a_file_that_was_cut_whole_blocks_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
