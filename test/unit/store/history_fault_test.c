/*
 * Jobs' history on bad disks. Call 1, 2, 3 … of a life fails, with EIO and with ENOSPC: nothing
 * that was acknowledged is missing, but what the store says that it has lost. And bits of its files
 * flip, files are cut or gone: nothing is shown that did not happen, a look-up that misses
 * something says so, verify names each place, and no job is concerned.
 */
#include <errno.h>

#include "base/codec.h"
#include "base/hash.h"
#include "history_bed.h"
#include "store/history/history_format.h"
#include "store/internal.h"
#include "store_files.h"
#include "store_lives.h"
#include "test/unit/support/every.h"

enum { TURNS = 100 };

struct outcome {
    bool ended; /* the call was never reached */
    bool failed, refused, lost, yielded;
};

/* A look-up on a disk that may fail; what it finds is looked at when the disk works again. */
static void look(struct past *past)
{
    struct history_find some;
    find(past, (unsigned)model_random(&past->model, IDS), 10, &some);
    assert_true(some.err == OK || some.err == ERR_IO);
    store_history_find_end(past->model.store, &some);
}

/* Without room the oldest goes for jobs' sake; nothing else is missing. */
static void check_after(struct past *past, int sys_errno, struct outcome *outcome)
{
    if (sys_errno == ENOSPC)
        outcome->yielded |= check_youngest(past) > 0;
    else
        check(past);
}

static struct outcome live_with_fault(uint64_t seed, uint64_t fail_at, int sys_errno)
{
    static struct past past;
    struct outcome outcome = {0};
    struct store_stats stats = {0};
    past_init(&past, seed);
    struct model *model = &past.model;
    sim_disk_cold(model->disk, seed % 2);
    sim_disk_fail_at(model->disk, fail_at, sys_errno);
    if (model_open(model) == OK) {
        for (int i = 0; i < 10 && !model->failed; i++) {
            work(&past, TURNS / 10);
            if (!model->failed)
                look(&past);
        }
        model_settle(model);
        store_stats(model->store, &stats);
        outcome.failed = model->failed;
        model_close(model);
    } else {
        outcome.refused = true;
    }
    outcome.ended = sim_disk_points(model->disk) <= fail_at;
    outcome.lost = stats.history_lost > 0;
    forget(&past, open_after_fault(model, seed, fail_at));
    check_after(&past, sys_errno, &outcome);
    work(&past, 20);
    model_settle(model);
    check_after(&past, sys_errno, &outcome);
    model_fini(model);
    return outcome;
}

static struct outcome fail_every_call(int sys_errno)
{
    unsigned failed = 0, refused = 0, lost = 0, yielded = 0;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        for (uint64_t call = 0;; call += sim_every()) {
            struct outcome outcome = live_with_fault(seed, call, sys_errno);
            failed += outcome.failed;
            refused += outcome.refused;
            lost += outcome.lost;
            yielded += outcome.yielded;
            if (outcome.ended)
                break;
        }
    }
    print_message("failed %u, refused to open %u, lost history %u, yielded %u\n", failed, refused,
                  lost, yielded);
    return (struct outcome){.failed = failed > 100 / sim_every(),
                            .refused = refused > 5 / sim_every(),
                            .lost = lost > 0,
                            .yielded = yielded > 0};
}

static void p1_p7_a_failed_call_loses_no_happening(void **state)
{
    (void)state;
    struct outcome all = fail_every_call(EIO);
    assert_true(all.failed && all.refused && !all.lost && !all.yielded);
}

static void p1_p8_a_call_without_room_loses_no_happening(void **state)
{
    (void)state;
    struct outcome all = fail_every_call(ENOSPC);
    assert_true(all.failed && all.refused && !all.lost);
}

/* ---- damaged files ---- */

/* How many lines are missing. A look-up that misses one says so; what is shown has happened. */
static unsigned missing_lines(struct past *past)
{
    unsigned missing = 0;
    for (unsigned id = 0; id < IDS; id++) {
        struct history_find all;
        uint32_t at = 0;
        unsigned missed = 0;
        find(past, id, LINES_MAX, &all);
        assert_int_equal(all.err, OK);
        for (size_t i = 0; i < past->count; i++) {
            bool there = at < all.count && all.happenings[at].lease == i;
            assert_true(!there || past->lines[i].id == id);
            missed += past->lines[i].id == id && past->lines[i].promised && !there;
            at += there;
        }
        assert_int_equal(at, all.count);
        assert_true(missed == 0 || all.damaged);
        store_history_find_end(past->model.store, &all);
        missing += missed;
    }
    return missing;
}

/* The store opens, has all its jobs, and goes on with its history. */
static unsigned open_damaged(struct past *past)
{
    struct model *model = &past->model;
    assert_int_equal(model_open(model), OK);
    model_check(model);
    unsigned missing = missing_lines(past);
    size_t count = past->count;
    happen(past, 3, true, 0);
    model_settle(model);
    assert_int_equal(past->count, count + 1);
    assert_int_equal(missing_lines(past), missing);
    model_close(model);
    past->count = count;
    return missing;
}

static void no_flipped_bit_of_a_file_shows_what_did_not_happen(void **state)
{
    (void)state;
    static struct past past;
    unsigned flips = 0, lost = 0;
    uint64_t bytes = UINT64_MAX;
    char name[DISK_NAME_MAX];
    for (unsigned place = 0; place < FILES; place++) {
        for (uint64_t byte = 0; byte < bytes; flips++) {
            struct store_counts counts;
            build(&past);
            bytes = name_of_file(&past, place, name);
            assert_true(sim_disk_flip(past.model.disk, name, byte * 8 + byte % 8));
            struct findings findings = verify(&past, &counts);
            assert_true(findings.lines >= 1);
            assert_string_equal(findings.file, name);
            lost += open_damaged(&past) > 0;
            model_fini(&past.model);
            byte += (byte < 100 ? 7 : 499) * sim_every();
        }
    }
    print_message("%u flips, %u of them lost something\n", flips, lost);
    assert_true(flips > 200 / sim_every() && lost > 100 / sim_every());
}

static void a_file_that_was_cut_is_told_of(void **state)
{
    (void)state;
    static struct past past;
    static char copy[256 * 1024];
    uint64_t bytes = UINT64_MAX;
    char name[DISK_NAME_MAX];
    for (unsigned place = 0; place < FILES; place++) {
        for (uint64_t len = 0; len < bytes; len += 1021 * sim_every()) {
            struct store_counts counts;
            uint64_t there;
            build(&past);
            bytes = name_of_file(&past, place, name);
            assert_true(bytes < sizeof(copy));
            memcpy(copy, sim_disk_file(past.model.disk, name, &there), (size_t)len);
            sim_disk_put(past.model.disk, name, copy, (size_t)len);
            assert_string_equal(verify(&past, &counts).file, name);
            assert_true(open_damaged(&past) > 0);
            model_fini(&past.model);
        }
    }
}

/* How verify says which batches were in the file with this place among those of build(), when it
   has been deleted. */
static const char *gap_before(const struct past *past, unsigned place)
{
    static char text[128];
    uint64_t first = 0, last = 0;
    for (unsigned i = 0; i < 2; i++) { /* the one before it, the one behind */
        struct history_head head;
        uint64_t there;
        char name[DISK_NAME_MAX];
        (void)name_of_file(past, place - 1 + i, name);
        assert_int_equal(history_head_decode(sim_disk_file(past->model.disk, name, &there), &head),
                         FORMAT_GOOD);
        first = i == 0 ? head.batch_last + 1 : first;
        last = head.batch_first - 1;
    }
    (void)snprintf(text, sizeof(text), "that of batches %llu to %llu", (unsigned long long)first,
                   (unsigned long long)last);
    return text;
}

/* The oldest one may have been too old, and of the newest nobody knew yet. */
static void a_file_that_is_gone_is_told_of_by_its_neighbours(void **state)
{
    (void)state;
    static struct past past;
    for (unsigned place = 1; place + 1 < FILES; place++) {
        struct store_counts counts;
        char name[DISK_NAME_MAX], next[DISK_NAME_MAX];
        build(&past);
        (void)name_of_file(&past, place, name);
        (void)name_of_file(&past, place + 1, next);
        assert_true(sim_disk_delete(past.model.disk, name));
        struct findings findings = verify(&past, &counts);
        assert_string_equal(findings.file, next);
        assert_non_null(strstr(findings.text, gap_before(&past, place)));
        assert_true(open_damaged(&past) > 0);
        model_fini(&past.model);
    }
}

enum log_end { CLEAN, KILLED, DIRTY, LOG_ENDS };

/* The log and the manifest as they are now; to be freed by file_copies_fini(). */
struct file_copies {
    struct file_list list;
    char *bytes[FILES_MAX];
    uint64_t len[FILES_MAX];
};

static bool is_of_history(const char *name)
{
    return strncmp(name, "hist-", 5) == 0;
}

static void copy_log(const struct model *model, struct file_copies *out_copies)
{
    list_files(model, &out_copies->list);
    for (size_t i = 0; i < out_copies->list.count; i++) {
        const char *at = sim_disk_file(model->disk, out_copies->list.names[i], &out_copies->len[i]);
        out_copies->bytes[i] = mem_alloc(out_copies->len[i] + 1);
        memcpy(out_copies->bytes[i], at, out_copies->len[i]);
    }
}

/* Puts the older log back, but leaves the history as it is. */
static void put_log_back(const struct model *model, struct file_copies *copies)
{
    struct file_list now;
    list_files(model, &now);
    for (size_t i = 0; i < now.count; i++)
        assert_true(is_of_history(now.names[i]) || sim_disk_delete(model->disk, now.names[i]));
    for (size_t i = 0; i < copies->list.count; i++) {
        if (!is_of_history(copies->list.names[i]))
            sim_disk_put(model->disk, copies->list.names[i], copies->bytes[i], copies->len[i]);
        mem_free(copies->bytes[i]);
    }
}

/* Goes on until the log's last file has room; returns its number. */
static uint32_t last_file(struct model *model)
{
    const struct segment *tail = segments_tail(model->store->segments);
    while (tail->size_bytes - tail->end < 2 * BLOCK) {
        assert_int_equal(model_push(model), OK);
        model_settle(model);
        tail = segments_tail(model->store->segments);
    }
    return tail->number;
}

/* Something is behind the end of the log. */
static void dirty_the_end(const struct model *model, uint32_t number)
{
    char name[DISK_NAME_MAX];
    uint64_t len = 0;
    segment_name(number, name);
    assert_non_null(sim_disk_file(model->disk, name, &len));
    assert_true(sim_disk_flip(model->disk, name, len * 8 - 1));
}

/* A file is written when its batches are durable: a log that ends before has lost some. */
static void p2_a_log_that_ends_before_its_history_is_refused(void **state)
{
    (void)state;
    static struct past past;
    static struct file_copies copies;
    struct store_counts counts;
    char name[DISK_NAME_MAX];
    for (enum log_end end = CLEAN; end < LOG_ENDS; end++) {
        struct model *model = &past.model;
        build(&past);
        uint32_t last = 0;
        if (end != CLEAN) {
            assert_int_equal(model_open(model), OK);
            model_settle(model);
            last = last_file(model);
        }
        copy_log(model, &copies);
        if (end == CLEAN)
            assert_int_equal(model_open(model), OK);
        add_file(&past, 150);
        model_close(model);
        put_log_back(model, &copies);
        if (end == DIRTY)
            dirty_the_end(model, last);
        assert_true(verify(&past, &counts).lines > 0);
        assert_int_equal(model_open(model), ERR_CORRUPT);
        assert_non_null(strstr(model->error.text, "later salvage DIR NEW"));
        assert_non_null(
            strstr(model->error.text, end == DIRTY ? "is damaged" : "the jobs' history has them"));
        (void)name_of_file(&past, FILES, name);
        assert_true(sim_disk_delete(model->disk, name)); /* nothing else shows it */
        if (end != DIRTY)                                /* then it tells of a torn tail */
            assert_int_equal(verify(&past, &counts).lines, 0);
        model_fini(model);
    }
}

static void a_file_that_is_gone_is_not_missed_if_it_may_have_been_too_old(void **state)
{
    (void)state;
    static struct past past;
    struct store_counts counts;
    char name[DISK_NAME_MAX];
    build(&past);
    (void)name_of_file(&past, 0, name);
    assert_true(sim_disk_delete(past.model.disk, name));
    assert_int_equal(verify(&past, &counts).lines, 0);
    assert_int_equal(counts.history_files, FILES - 1);
    model_fini(&past.model);
}

static void a_file_that_was_not_completed_is_none(void **state)
{
    (void)state;
    static struct past past;
    struct store_counts counts;
    char name[DISK_NAME_MAX];
    build(&past);
    history_tmp_name(999, name);
    sim_disk_put(past.model.disk, name, "half", 4);
    assert_int_equal(verify(&past, &counts).lines, 0);
    assert_int_equal(counts.history_files, FILES);
    model_fini(&past.model);
}

/* An operator does other things about each of them. */
static void verify_says_what_is_wrong_with_a_file_whose_checksums_are_right(void **state)
{
    enum { VERSION_AT = 8, ID_AT = 16, HEAD_SUM_AT = BLOCK - 8, KIND_AT = HISTORY_BLOCK_HEAD };
    static const char *const says[] = {"a newer laterd wrote it", "it belongs to another store",
                                       "an entry is not valid"};
    static struct past past;
    static char copy[256 * 1024];
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct store_counts counts;
        char name[DISK_NAME_MAX], *block = copy + BLOCK;
        uint64_t there;
        build(&past);
        uint64_t bytes = name_of_file(&past, 1, name);
        assert_true(bytes < sizeof(copy));
        memcpy(copy, sim_disk_file(past.model.disk, name, &there), (size_t)bytes);
        if (i == 0)
            put_u32(copy + VERSION_AT, 2);
        else if (i == 1)
            copy[ID_AT] = (char)(copy[ID_AT] ^ 1);
        else
            block[KIND_AT] = HAPPENINGS;
        put_u64(copy + HEAD_SUM_AT, hash_of(copy, HEAD_SUM_AT));
        put_u64(block, hash_of(block + 8, get_u32(block + 8) - 8));
        sim_disk_put(past.model.disk, name, copy, (size_t)bytes);
        struct findings findings = verify(&past, &counts);
        assert_string_equal(findings.file, name);
        assert_non_null(strstr(findings.text, says[i]));
        /* What belongs to another store has none of the batches of this one. */
        assert_int_equal(findings.lines, i == 1 ? 2 : 1);
        assert_true((strstr(findings.text, "is missing") != NULL) == (i == 1));
        model_fini(&past.model);
    }
}

/* A merge would begin with them again and again, and read up to 32 MiB each time. */
static void files_with_an_unreadable_one_are_read_once_a_minute(void **state)
{
    enum { MERGED = 8, ENTRIES = 180 };
    (void)state;
    static struct past past;
    struct store_stats stats;
    char name[DISK_NAME_MAX];
    past_init(&past, 9);
    struct model *model = &past.model;
    assert_int_equal(model_open(model), OK);
    for (int i = 0; i < MERGED - 1; i++)
        add_file(&past, ENTRIES);
    (void)name_of_file(&past, 2, name);
    sim_disk_bad(model->disk, name, DISK_ALIGN, UINT64_MAX);
    add_file(&past, ENTRIES);
    uint64_t points = sim_disk_points(model->disk);
    for (int i = 0; i < 5; i++) /* half a minute */
        model_settle(model);
    assert_in_range(sim_disk_points(model->disk) - points, 0, 40);
    sim_disk_bad(model->disk, name, 0, 0);
    for (int i = 0; i < 10; i++)
        model_settle(model);
    store_stats(model->store, &stats);
    assert_true(stats.history_files < MERGED);
    model_fini(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p1_p7_a_failed_call_loses_no_happening),
        cmocka_unit_test(p1_p8_a_call_without_room_loses_no_happening),
        cmocka_unit_test(no_flipped_bit_of_a_file_shows_what_did_not_happen),
        cmocka_unit_test(files_with_an_unreadable_one_are_read_once_a_minute),
        cmocka_unit_test(a_file_that_was_cut_is_told_of),
        cmocka_unit_test(a_file_that_is_gone_is_told_of_by_its_neighbours),
        cmocka_unit_test(p2_a_log_that_ends_before_its_history_is_refused),
        cmocka_unit_test(a_file_that_is_gone_is_not_missed_if_it_may_have_been_too_old),
        cmocka_unit_test(a_file_that_was_not_completed_is_none),
        cmocka_unit_test(verify_says_what_is_wrong_with_a_file_whose_checksums_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
