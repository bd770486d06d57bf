/*
 * A file that replaces another is written back piece by piece, by whom sync_file_range() is called
 * here: an error that it reports is not reported again by the sync (decision 123).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/disk.h"

enum { PIECE = 256 * 1024, PIECES = 4 };

static int begin_fails, wait_fails; /* an errno, or 0 */
static unsigned begun, waited;

int sync_file_range(int fd, off_t offset, off_t len, unsigned flags)
{
    (void)fd;
    assert_int_equal(len, PIECE);
    if (flags & SYNC_FILE_RANGE_WAIT_AFTER) {
        assert_int_equal(offset, waited++ * PIECE);
        errno = wait_fails;
        return wait_fails ? -1 : 0;
    }
    assert_int_equal(offset, begun++ * PIECE);
    errno = begin_fails;
    return begin_fails ? -1 : 0;
}

static enum err replace(int begin, int wait)
{
    char dir[] = "/tmp/laterd-flush-XXXXXX";
    struct os_disk *os;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(os_disk_new(dir, &os), OK);
    struct disk *disk = os_disk_port(os);
    char *data = mem_zalloc(PIECES * PIECE);
    struct disk_op write = {.verb = DISK_REPLACE,
                            .lane = LANE_BACKGROUND,
                            .name = "x",
                            .data = data,
                            .len = PIECES * PIECE};
    begin_fails = begin, wait_fails = wait, begun = waited = 0;
    disk->verbs->run(disk, &write);
    struct disk_op remove = {.verb = DISK_REMOVE, .lane = LANE_BACKGROUND, .name = "x"};
    disk->verbs->run(disk, &remove);
    mem_free(data);
    os_disk_free(os);
    assert_int_equal(rmdir(dir), 0);
    return write.err;
}

static void each_piece_is_begun_and_the_one_before_awaited(void **state)
{
    (void)state;
    assert_int_equal(replace(0, 0), OK);
    assert_int_equal(begun, PIECES);
    assert_int_equal(waited, PIECES - 1);
}

static void p1_an_error_of_the_disk_fails_the_write_whatever_its_number(void **state)
{
    static const int numbers[] = {EIO, ENODATA, ENOLINK, EREMOTEIO, ETIMEDOUT, EILSEQ, EINVAL};
    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        assert_int_equal(replace(0, numbers[i]), ERR_IO);
    assert_int_equal(replace(0, ENOSPC), ERR_DISK_FULL);
    assert_int_equal(replace(EIO, 0), ERR_IO);
    assert_int_equal(replace(EROFS, 0), ERR_IO);
}

static void without_this_call_the_sync_does_it_all(void **state)
{
    static const int numbers[] = {ENOSYS, EINVAL, EOPNOTSUPP, ESPIPE, EPERM};
    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        assert_int_equal(replace(numbers[i], EIO), OK);
        assert_int_equal(waited, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_piece_is_begun_and_the_one_before_awaited),
        cmocka_unit_test(p1_an_error_of_the_disk_fails_the_write_whatever_its_number),
        cmocka_unit_test(without_this_call_the_sync_does_it_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
