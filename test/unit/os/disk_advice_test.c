/*
 * What the system is told of reads to come, by whom posix_fadvise() is called here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/disk.h"

enum { CALLS_MAX = 16, KIB = 1024, FILE_BYTES = 1024 * KIB };

static struct {
    int advice;
    off_t offset, len;
} calls[CALLS_MAX];
static unsigned count;

int posix_fadvise(int fd, off_t offset, off_t len, int advice)
{
    (void)fd;
    assert_true(count < CALLS_MAX);
    calls[count].advice = advice;
    calls[count].offset = offset;
    calls[count++].len = len;
    return 0;
}

struct bed {
    char dir[32];
    struct os_disk *os;
    struct disk *disk;
};

static int set_up(void **state)
{
    struct bed *bed = mem_zalloc(sizeof(*bed));
    memcpy(bed->dir, "/tmp/laterd-advice-XXXXXX", 26);
    assert_non_null(mkdtemp(bed->dir));
    assert_int_equal(os_disk_new(bed->dir, &bed->os), OK);
    bed->disk = os_disk_port(bed->os);
    struct disk_op make = {.verb = DISK_MAKE,
                           .lane = LANE_BACKGROUND,
                           .name = "x",
                           .len = FILE_BYTES,
                           .reserve = true};
    bed->disk->verbs->run(bed->disk, &make);
    assert_int_equal(make.err, OK);
    bed->disk->verbs->close(bed->disk, make.file);
    count = 0;
    *state = bed;
    return 0;
}

static int tear_down(void **state)
{
    struct bed *bed = *state;
    struct disk_op remove = {.verb = DISK_REMOVE, .lane = LANE_BACKGROUND, .name = "x"};
    bed->disk->verbs->run(bed->disk, &remove);
    os_disk_free(bed->os);
    assert_int_equal(rmdir(bed->dir), 0);
    mem_free(bed);
    return 0;
}

/* Through `file`; NULL: it is opened. */
static struct disk_file *read_some(struct bed *bed, struct disk_file *file, bool exact,
                                   uint64_t ahead)
{
    char bytes[64];
    struct disk_op op = {.verb = DISK_READ,
                         .lane = LANE_READ,
                         .name = "x",
                         .file = file,
                         .into = bytes,
                         .len = sizeof(bytes),
                         .offset = 8 * KIB,
                         .exact = exact,
                         .ahead = ahead};
    bed->disk->verbs->run(bed->disk, &op);
    assert_int_equal(op.err, OK);
    return op.file;
}

static void nothing_is_said_of_a_read_that_asks_for_nothing(void **state)
{
    struct bed *bed = *state;
    bed->disk->verbs->close(bed->disk, read_some(bed, NULL, false, 0));
    assert_int_equal(count, 0);
}

/* For all later reads through the same descriptor. */
static void exact_reads_are_announced_once_for_each_descriptor(void **state)
{
    struct bed *bed = *state;
    struct disk_file *file = read_some(bed, NULL, true, 0);
    (void)read_some(bed, file, true, 0);
    bed->disk->verbs->close(bed->disk, file);
    assert_int_equal(count, 1);
    assert_int_equal(bed->disk->verbs->open(bed->disk, "x", DISK_CACHED, &file), OK);
    assert_int_equal(count, 1);
    bed->disk->verbs->exact(bed->disk, file);
    bed->disk->verbs->close(bed->disk, file);
    assert_int_equal(count, 2);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(calls[i].advice, POSIX_FADV_RANDOM);
        assert_int_equal(calls[i].offset, 0);
        assert_int_equal(calls[i].len, 0);
    }
}

/* With the read's own bytes, in pieces that Linux takes. */
static void what_is_read_ahead_is_asked_for(void **state)
{
    struct bed *bed = *state;
    bed->disk->verbs->close(bed->disk, read_some(bed, NULL, false, 200 * KIB));
    assert_int_equal(count, 2);
    assert_int_equal(calls[0].offset, 8 * KIB);
    assert_int_equal(calls[0].len, 128 * KIB);
    assert_int_equal(calls[1].offset, (8 + 128) * KIB);
    assert_int_equal(calls[1].len, 64 + (200 - 128) * KIB);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(calls[i].advice, POSIX_FADV_WILLNEED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_said_of_a_read_that_asks_for_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(exact_reads_are_announced_once_for_each_descriptor, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_read_ahead_is_asked_for, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
