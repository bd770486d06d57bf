/*
 * Looking through a block of a slice in parts, beside looking through all of it at once: parts of
 * any size, in both directions, with records longer than a part, and with damage.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "store/format.h"
#include "store/slices/far_record.h"
#include "store/slices/far_scan.h"
#include "store/slices/slice_build.h"

enum { JOBS = 900, BODY_MAX = 3000, NUMBER = 7 };

static const struct store_id id = {.bytes = {1, 2, 3}};
static uint32_t rnd_state;

static uint32_t rnd(uint32_t below)
{
    rnd_state = rnd_state * 1664525 + 1013904223;
    return (rnd_state >> 8) % below;
}

struct bed {
    struct slice_build build;
    struct slice_fence *fences;
};

static void add_job(struct bed *bed, uint64_t seq, int64_t due_us)
{
    static char body[BODY_MAX];
    struct event job = {
        .kind = EVENT_JOB,
        .job = {.seq = seq, .state = JOB_DELAYED, .due_us = due_us},
        .topic = rnd(3) ? BYTES("topic") : BYTES("other"),
        .body = bytes_of(body, rnd(20) ? rnd(200) : rnd(BODY_MAX)),
    };
    size_t len = far_record_bytes(&job);
    char *record = mem_alloc(len);
    memset(body, (int)rnd(256), job.body.len);
    far_record_encode(&job, len, record);
    (void)slice_build_add(&bed->build, &job, 0, record, len);
    mem_free(record);
}

static void begin(struct bed *bed, uint32_t seed)
{
    int64_t due_us = 1000;
    *bed = (struct bed){.fences = NULL};
    rnd_state = seed;
    slice_build_begin(&bed->build, &id, NUMBER);
    for (uint64_t seq = 1; seq <= JOBS; seq++, due_us += rnd(3))
        add_job(bed, seq, due_us);
    slice_build_end(&bed->build);
    bed->fences = mem_alloc(bed->build.head.blocks * sizeof(*bed->fences));
    assert_int_equal(slice_fences_decode(&bed->build.head,
                                         bed->build.image + bed->build.head.data_end, bed->fences),
                     OK);
    assert_true(bed->build.head.blocks >= 3);
}

static void end(struct bed *bed)
{
    mem_free(bed->fences);
    slice_build_fini(&bed->build);
    assert_int_equal(mem_used(), 0);
}

static struct far_scan scan_of(const struct bed *bed, uint32_t block, bool backwards)
{
    const struct slice_head *head = &bed->build.head;
    uint64_t offset = (uint64_t)bed->fences[block].offset * BLOCK;
    uint64_t block_end =
        block + 1 < head->blocks ? (uint64_t)bed->fences[block + 1].offset * BLOCK : head->data_end;
    return (struct far_scan){
        .topic = BYTES("topic"),
        .after = backwards ? (struct job_place){INT64_MAX, UINT64_MAX}
                           : (struct job_place){INT64_MIN, 0},
        .backwards = backwards,
        .keep_bytes = SIZE_MAX,
        .number = NUMBER,
        .block = block,
        .store_tag = store_tag(&id),
        .jobs = bed->fences[block].jobs,
        .block_bytes = (uint32_t)(block_end - offset),
        .offset = offset,
    };
}

/* Reads so many bytes of what is left, in a piece of memory of just that size. */
static void run(const struct bed *bed, struct far_scan *scan, size_t len)
{
    uint32_t at = scan->backwards ? 0 : scan->rest.at;
    size_t room = (scan->backwards && scan->rest.records ? scan->rest.at : scan->block_bytes) - at;
    len = len < room && !scan->backwards ? len : room;
    char *bytes = mem_alloc(len);
    memcpy(bytes, bed->build.image + scan->offset + at, len);
    scan->at = at;
    scan->bytes = bytes;
    scan->len = len;
    far_scan_run(scan);
    mem_free(bytes);
}

/* The places of all matches of the block, in the order of the file. */
static uint32_t all_of(const struct bed *bed, uint32_t block, uint64_t *out_where)
{
    struct far_scan scan = scan_of(bed, block, false);
    run(bed, &scan, SIZE_MAX);
    assert_false(scan.broken);
    assert_int_equal(scan.left.records, 0);
    uint32_t count = scan.match_count;
    for (uint32_t i = 0; i < count; i++)
        out_where[i] = scan.matches[i].where;
    far_scan_fini(&scan);
    return count;
}

static void assert_behind(const struct far_scan *scan, struct job_place last)
{
    const struct far_merge order = {.backwards = scan->backwards};
    for (uint32_t i = 0; i < scan->match_count; i++)
        assert_true(far_merge_before(&order, &last, &scan->matches[i].place));
}

/* Part by part. */
static unsigned in_parts(const struct bed *bed, uint32_t block, bool backwards, size_t least,
                         uint64_t *out_where, uint32_t *out_count)
{
    struct far_scan scan = scan_of(bed, block, backwards);
    struct job_place last = scan.after;
    unsigned parts = 0;
    *out_count = 0;
    do {
        scan.keep_bytes = 1 + rnd(4000);
        run(bed, &scan, least + rnd(3000));
        while (scan.need_bytes)
            run(bed, &scan, scan.need_bytes);
        assert_false(scan.broken);
        assert_behind(&scan, last);
        for (uint32_t i = 0; i < scan.match_count; i++) {
            uint32_t from_end = backwards ? scan.match_count - 1 - i : i;
            out_where[(*out_count)++] = scan.matches[from_end].where;
        }
        last = scan.behind;
        scan.rest = scan.left;
        assert_true(++parts <= scan.jobs);
    } while (scan.left.records > 0);
    far_scan_fini(&scan);
    return parts;
}

static void parts_have_what_the_block_has(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed < 20; seed++) {
        static uint64_t all[JOBS], parts[JOBS];
        struct bed bed;
        begin(&bed, seed);
        for (uint32_t block = 0; block < bed.build.head.blocks; block++) {
            uint32_t count = all_of(&bed, block, all), found;
            assert_true(count > 0);
            for (int backwards = 0; backwards < 2; backwards++) {
                unsigned reads = in_parts(&bed, block, backwards, BATCH_HEAD, parts, &found);
                assert_true(reads > 5 || bed.fences[block].jobs < 50);
                assert_int_equal(found, count);
                for (uint32_t i = 0; i < count; i++)
                    assert_int_equal(parts[i], all[backwards ? count - 1 - i : i]);
            }
        }
        end(&bed);
    }
}

/* Only those behind the position. */
static void jobs_up_to_the_position_are_left_out(void **state)
{
    (void)state;
    struct bed bed;
    begin(&bed, 3);
    for (int backwards = 0; backwards < 2; backwards++) {
        struct far_scan scan = scan_of(&bed, 1, backwards);
        run(&bed, &scan, SIZE_MAX);
        uint32_t count = scan.match_count, middle = count / 3;
        scan.after = scan.matches[middle].place;
        run(&bed, &scan, SIZE_MAX);
        assert_int_equal(scan.match_count, backwards ? middle : count - middle - 1);
        far_scan_fini(&scan);
    }
    end(&bed);
}

/* What is wrong is found by the block's sum, or by the record's own; the others are whole. */
static void of_a_damaged_block_the_records_that_are_whole_are_found(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed < 200; seed++) {
        static uint64_t all[JOBS], parts[JOBS];
        struct bed bed;
        begin(&bed, 5);
        uint32_t count = all_of(&bed, 1, all), found = 0;
        struct far_scan scan = scan_of(&bed, 1, seed % 2);
        rnd_state = seed;
        uint64_t at = scan.offset + BATCH_HEAD + rnd(scan.block_bytes - 2 * BLOCK);
        bed.build.image[at] ^= (char)(1 << rnd(8));
        run(&bed, &scan, SIZE_MAX);
        assert_true(scan.broken && scan.match_count == 0);
        scan.salvage = true;
        run(&bed, &scan, SIZE_MAX);
        assert_false(scan.broken);
        assert_true(scan.match_count + 1 >= count && scan.match_count <= count);
        for (uint32_t i = 0; i < scan.match_count; i++)
            parts[found++] = scan.matches[i].where;
        for (uint32_t i = 0, k = 0; i < found; i++, k++) {
            while (k < count && all[k] != parts[i])
                k++;
            assert_true(k < count); /* nothing but what was there */
        }
        far_scan_fini(&scan);
        end(&bed);
    }
}

/* A record's length that is none does not make it ask for more and more. */
static void of_a_part_with_a_wrong_length_is_said_that_it_is_broken(void **state)
{
    static const uint32_t lengths[] = {0, 8, FAR_RECORD_MIN, 4096, 40000, UINT32_MAX};
    (void)state;
    struct bed bed;
    begin(&bed, 21);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct far_scan scan = scan_of(&bed, 1, false);
        memcpy(bed.build.image + scan.offset + BATCH_HEAD, &lengths[i], sizeof(lengths[i]));
        run(&bed, &scan, BATCH_HEAD + 10);
        for (unsigned tries = 0; scan.need_bytes; tries++) {
            assert_true(tries < 2);
            run(&bed, &scan, scan.need_bytes);
        }
        assert_true(scan.broken);
        far_scan_fini(&scan);
    }
    end(&bed);
}

/* Any bytes, in a part or a whole block. */
static void no_bytes_make_it_read_beyond_them(void **state)
{
    (void)state;
    struct bed bed;
    begin(&bed, 9);
    for (unsigned i = 0; i < 3000; i++) {
        struct far_scan scan = scan_of(&bed, rnd(2), rnd(2));
        scan.salvage = rnd(3) == 0;
        scan.keep_bytes = rnd(3) ? rnd(5000) + 1 : SIZE_MAX;
        if (rnd(2))
            scan.rest = (struct block_rest){.at = rnd(scan.block_bytes / 8) * 8 + 8,
                                            .records = rnd(scan.jobs) + 1};
        bed.build.image[scan.offset + rnd(scan.block_bytes)] ^= (char)(1 << rnd(8));
        run(&bed, &scan, rnd(9000));
        assert_true(scan.match_count <= scan.jobs && scan.left.records <= scan.jobs);
        far_scan_fini(&scan);
    }
    end(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_have_what_the_block_has),
        cmocka_unit_test(jobs_up_to_the_position_are_left_out),
        cmocka_unit_test(of_a_damaged_block_the_records_that_are_whole_are_found),
        cmocka_unit_test(of_a_part_with_a_wrong_length_is_said_that_it_is_broken),
        cmocka_unit_test(no_bytes_make_it_read_beyond_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
