/*
 * The walker on a damaged disk. What it makes of batches is shown by the tests of those who walk:
 * recovery, verify, salvage, rot.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "sim/disk.h"
#include "store/recovery/walker.h"

enum { FILE_BYTES = 4 << 20, BAD_FROM = 2 << 20, NUMBER = 1 };

static struct disk_verbs counting;
static const struct disk_verbs *real;
static unsigned reads, failed;

static enum err count_read(struct disk *disk, struct disk_file *file, uint64_t offset, void *at,
                           size_t len, size_t *out_len)
{
    enum err err = real->read(disk, file, offset, at, len, out_len);
    reads++;
    failed += err != OK;
    return err;
}

/* One bad block may cost each wide read that begins before it, and then a block at a time. */
static void a_bad_sector_fails_few_reads(void **state)
{
    struct sim_disk *sim = sim_disk_new();
    struct disk *disk = sim_disk_port(sim);
    char name[DISK_NAME_MAX];
    struct walker walker;
    (void)state;
    char *zeros = mem_zalloc(FILE_BYTES);
    segment_name(NUMBER, name);
    sim_disk_put(sim, name, zeros, FILE_BYTES);
    sim_disk_bad(sim, name, BAD_FROM, BAD_FROM + 1);
    real = disk->verbs;
    counting = *real;
    counting.read = count_read;
    disk->verbs = &counting;

    const struct walker_of of = {.number = NUMBER, .size_bytes = FILE_BYTES};
    assert_int_equal(walker_open(&walker, disk, &of, DISK_CACHED), OK);
    unsigned places[PLACE_END] = {0};
    for (; walker_classify(&walker) != PLACE_END; walker_next(&walker))
        places[walker.kind]++;
    assert_int_equal(places[PLACE_UNREAD], 1);
    assert_int_equal(places[PLACE_BLANK], FILE_BYTES / BLOCK - 2); /* and the header */
    assert_true(failed <= 3); /* the wide one, and the block itself */
    assert_true(reads < 2 * (1 << 20) / BLOCK);
    walker_close(&walker);
    disk->verbs = real;
    sim_disk_free(sim);
    mem_free(zeros);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_sector_fails_few_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
