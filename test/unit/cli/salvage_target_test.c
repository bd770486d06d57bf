/* The store that `later salvage` makes: what it says that it has kept, and when it can be opened.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cli/salvage_target.h"
#include "sim/disk.h"
#include "store/recovery/directory.h"
#include "store/stats.h"
#include "store/verify.h"

enum { TOLD_MAX = 400000, MIB = 1024 * 1024 };

static void print_line(void *ctx, const char *line)
{
    (void)ctx;
    print_message("%s\n", line);
}

/* Things that happened which a server finds in it. */
static uint64_t found(struct sim_disk *disk)
{
    struct store_callbacks callbacks = store_idle_callbacks;
    struct store_options options = {.disk = sim_disk_port(disk),
                                    .segment_bytes = 16 * MIB,
                                    .now_us = 2000000,
                                    .history_us = INT64_C(30) * 86400 * 1000000};
    struct store_error error;
    struct store_stats stats;
    struct store *store;
    assert_int_equal(store_open(&options, &callbacks, &store, &error), OK);
    store_stats(store, &stats);
    store_close(store);
    return stats.history_entries;
}

/* Tells of so much that happened, and closes. */
static struct salvage_target filled(uint64_t room, uint64_t told)
{
    struct sim_disk *disk = sim_disk_new();
    struct salvage_target target;
    struct store_error error;
    struct store_watcher watcher = {.print_line = print_line};
    struct salvage_start start = {.disk = sim_disk_port(disk), .now_us = 1000000, .seq_first = 2};
    sim_disk_eager(disk, true);
    sim_disk_capacity(disk, room);
    assert_int_equal(salvage_target_open(&target, &start, &error), OK);
    for (uint64_t i = 0; i < told; i++) {
        struct happening happening = {.what = HAPPENED_RESERVED,
                                      .state = JOB_RESERVED,
                                      .promised = true,
                                      .seq = 1,
                                      .at_us = 1000000,
                                      .id = BYTES("an-id-of-a-client")};
        assert_int_equal(salvage_target_history(&target, &happening, 1000000 + (int64_t)i), OK);
    }
    assert_int_equal(salvage_target_close(&target, 0, &watcher), OK);
    assert_int_equal(found(disk), target.history_kept);
    sim_disk_free(disk);
    assert_int_equal(mem_used(), 0);
    return target;
}

static void all_that_is_told_is_kept_where_there_is_room(void **state)
{
    (void)state;
    assert_int_equal(filled(0, 1000).history_kept, 1000);
}

static void what_a_full_disk_has_not_kept_is_not_counted_as_kept(void **state)
{
    (void)state;
    struct salvage_target target = filled(40 * MIB, TOLD_MAX);
    print_message("%llu of %u kept\n", (unsigned long long)target.history_kept, TOLD_MAX);
    assert_true(target.history_kept > 0 && target.history_kept < TOLD_MAX / 2);
}

/* Could a server begin with what is there? */
static enum err opening(struct disk *disk)
{
    struct directory found = {0};
    struct store_error error;
    enum err err = directory_read(disk, &found, &error);
    bool there = found.manifest_there;
    directory_fini(&found);
    return err ? err : there ? OK : ERR_NOT_FOUND;
}

static void a_store_that_is_not_whole_is_none_that_opens(void **state)
{
    struct sim_disk *disk = sim_disk_new();
    struct salvage_target target;
    struct store_error error;
    struct store_watcher watcher = {.print_line = print_line};
    struct salvage_start start = {.disk = sim_disk_port(disk), .now_us = 1000000, .seq_first = 2};
    (void)state;
    assert_int_equal(salvage_target_open(&target, &start, &error), OK);
    assert_int_equal(opening(sim_disk_port(disk)), ERR_CORRUPT);
    salvage_target_abandon(&target);
    assert_int_equal(opening(sim_disk_port(disk)), ERR_CORRUPT);
    sim_disk_free(disk);
    disk = sim_disk_new();
    start.disk = sim_disk_port(disk);
    assert_int_equal(salvage_target_open(&target, &start, &error), OK);
    assert_int_equal(salvage_target_close(&target, 1, &watcher), ERR_CORRUPT); /* it has none */
    assert_int_equal(opening(sim_disk_port(disk)), ERR_CORRUPT);
    sim_disk_free(disk);
    assert_int_equal(mem_used(), 0);
}

/* Whenever it is killed: before the mark there is nothing, after the last renaming there is all. */
static void a_salvage_that_is_killed_leaves_no_store_that_opens(void **state)
{
    enum { POINTS_MAX = 1000 };
    struct store_watcher watcher = {.print_line = print_line};
    static const enum err stages[] = {ERR_NOT_FOUND, ERR_CORRUPT, OK};
    unsigned stage = 0, refused = 0;
    bool whole = false;
    (void)state;
    for (uint64_t number = 0; !whole && number < POINTS_MAX; number++) {
        struct sim_disk *disk = sim_disk_new();
        struct salvage_start start = {.disk = sim_disk_port(disk), .now_us = 1, .seq_first = 2};
        struct salvage_target target;
        struct store_error error;
        enum err done = ERR_IO;
        sim_disk_eager(disk, true);
        sim_disk_cut_at(disk, number);
        if (salvage_target_open(&target, &start, &error) == OK)
            done = salvage_target_close(&target, 0, &watcher);
        whole = !sim_disk_cut(disk);
        assert_int_equal(done == OK, whole);
        sim_disk_kill(disk);
        enum err err = opening(sim_disk_port(disk));
        if (err != stages[stage])
            stage++;
        assert_true(stage < 3 && err == stages[stage]);
        refused += err == ERR_CORRUPT;
        sim_disk_free(disk);
        assert_int_equal(mem_used(), 0);
    }
    assert_true(whole && stage == 2 && refused > 4);
}

static void a_store_that_cannot_be_made_leaves_none(void **state)
{
    struct sim_disk *disk = sim_disk_new();
    struct salvage_target target;
    struct store_error error;
    struct salvage_start start = {.disk = sim_disk_port(disk), .now_us = 1000000, .seq_first = 2};
    (void)state;
    sim_disk_capacity(disk, 64 * 1024); /* enough for a manifest, and for no segment */
    assert_int_equal(salvage_target_open(&target, &start, &error), ERR_DISK_FULL);
    assert_int_equal(opening(sim_disk_port(disk)), ERR_CORRUPT);
    sim_disk_free(disk);
    assert_int_equal(mem_used(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_that_is_not_whole_is_none_that_opens),
        cmocka_unit_test(a_salvage_that_is_killed_leaves_no_store_that_opens),
        cmocka_unit_test(a_store_that_cannot_be_made_leaves_none),
        cmocka_unit_test(all_that_is_told_is_kept_where_there_is_room),
        cmocka_unit_test(what_a_full_disk_has_not_kept_is_not_counted_as_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
