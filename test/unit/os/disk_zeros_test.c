/*
 * A write with zeros behind its data, on a system whose pwritev() fails: nothing else of the disk
 * uses that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/disk.h"

enum { FILE_BYTES = 1024 * 1024, ZEROS = 16 * DISK_ALIGN };

static unsigned calls;
static int fails_with;

ssize_t pwritev(int fd, const struct iovec *pieces, int count, off_t offset)
{
    (void)fd, (void)pieces, (void)count, (void)offset;
    calls++;
    errno = fails_with;
    return -1;
}

/* How a write of one block ends if pwritev() fails so. */
static enum err write_when(int failed)
{
    char dir[] = "/tmp/laterd-zeros-XXXXXX";
    struct os_disk *os;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(os_disk_new(dir, &os), OK);
    struct disk *disk = os_disk_port(os);
    char *block = mem_aligned(DISK_ALIGN, DISK_ALIGN);
    memset(block, 'x', DISK_ALIGN);
    struct disk_op make = {
        .verb = DISK_MAKE,
        .lane = LANE_BACKGROUND,
        .name = "x",
        .len = FILE_BYTES,
        .reserve = true,
    };
    disk->verbs->run(disk, &make);
    assert_int_equal(make.err, OK);
    struct disk_op write = {
        .verb = DISK_WRITE_SYNC,
        .lane = LANE_COMMIT,
        .file = make.file,
        .data = block,
        .len = DISK_ALIGN,
        .offset = DISK_ALIGN,
        .zeros = ZEROS,
    };
    struct disk_op remove = {.verb = DISK_REMOVE, .lane = LANE_BACKGROUND, .name = "x"};
    calls = 0;
    fails_with = failed;
    disk->verbs->run(disk, &write);
    assert_int_equal(calls, 1);
    disk->verbs->close(disk, make.file);
    disk->verbs->run(disk, &remove);
    os_disk_free(os);
    mem_free(block);
    assert_int_equal(rmdir(dir), 0);
    return write.err;
}

/* It may be a sync that failed, which the system tells once. */
static void s5_an_error_of_a_write_with_zeros_is_final(void **state)
{
    (void)state;
    assert_int_equal(write_when(EIO), ERR_IO);
}

static void a_write_goes_without_zeros_where_there_is_no_room_for_them(void **state)
{
    (void)state;
    assert_int_equal(write_when(ENOSPC), OK);
    assert_int_equal(write_when(EINVAL), OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s5_an_error_of_a_write_with_zeros_is_final),
        cmocka_unit_test(a_write_goes_without_zeros_where_there_is_no_room_for_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
