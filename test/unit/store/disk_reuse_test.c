/*
 * DISK_REUSE of port/disk.h, by both implementations: a file gets a new beginning and a new name,
 * if nobody else needs its bytes.
 */
#include "disk_bed.h"

static struct disk_op reuse_op(const char *block)
{
    return (struct disk_op){.verb = DISK_REUSE,
                            .lane = LANE_BACKGROUND,
                            .name = "one",
                            .to_name = "two",
                            .data = block,
                            .len = DISK_ALIGN};
}

/* A file of two blocks of 'o'. */
static void make_one(struct disk *disk, char *block)
{
    struct disk_file *file = make(disk, "one", 2 * DISK_ALIGN);
    memset(block, 'o', DISK_ALIGN);
    write_block(disk, file, block, 0);
    write_block(disk, file, block, 1);
    disk->verbs->close(disk, file);
}

static void a_file_that_is_used_again_has_a_new_name_and_a_new_beginning(void **state)
{
    struct disk *disk = ((struct fixture *)*state)->disk;
    struct disk_file *file;
    char *block = mem_aligned(DISK_ALIGN, DISK_ALIGN);
    char back[2 * DISK_ALIGN];
    size_t len = 0;
    make_one(disk, block);
    memset(block, 'n', DISK_ALIGN);
    struct disk_op op = reuse_op(block);
    assert_int_equal(do_op(disk, &op), OK);
    assert_non_null(op.file);
    assert_int_equal(disk->verbs->open(disk, "one", DISK_CACHED, &file), ERR_NOT_FOUND);
    assert_int_equal(disk->verbs->read(disk, op.file, 0, back, sizeof(back), &len), OK);
    assert_true(len == sizeof(back) && back[0] == 'n' && back[DISK_ALIGN - 1] == 'n');
    assert_true(back[DISK_ALIGN] == 'o' && back[len - 1] == 'o');
    memset(block, 'w', DISK_ALIGN);
    write_block(disk, op.file, block, 1); /* past the page cache, too */
    assert_int_equal(disk->verbs->open(disk, "two", DISK_FRESH, &file), OK);
    assert_int_equal(disk->verbs->hold(disk, file), OK); /* a backup of the new segment may */
    disk->verbs->close(disk, op.file);
    assert_int_equal(disk->verbs->read(disk, file, DISK_ALIGN, block, DISK_ALIGN, &len), OK);
    assert_true(len == DISK_ALIGN && block[0] == 'w');
    disk->verbs->close(disk, file);
    op.file = NULL;
    assert_int_equal(do_op(disk, &op), OK); /* there is no "one" any more */
    assert_null(op.file);
    mem_free(block);
}

/* A backup reads it: what it has opened must stay as it was. */
static void p8_a_file_that_is_held_is_removed_and_not_used_again(void **state)
{
    struct fixture *fixture = *state;
    struct disk *disk = fixture->disk;
    struct os_disk *other = NULL;
    struct disk *reader = disk;
    struct disk_file *file;
    char *block = mem_aligned(DISK_ALIGN, DISK_ALIGN);
    size_t len = 0;
    make_one(disk, block);
    if (fixture->os) /* as another process does */
        assert_int_equal(os_disk_new(fixture->directory, &other), 0);
    if (other)
        reader = os_disk_port(other);
    assert_int_equal(reader->verbs->open(reader, "one", DISK_CACHED, &file), OK);
    assert_int_equal(reader->verbs->hold(reader, file), OK);
    struct disk_op op = reuse_op(block);
    assert_int_equal(do_op(disk, &op), OK);
    assert_null(op.file);
    assert_int_equal(reader->verbs->read(reader, file, 0, block, DISK_ALIGN, &len), OK);
    assert_true(len == DISK_ALIGN && block[0] == 'o');
    reader->verbs->close(reader, file);
    assert_int_equal(disk->verbs->open(disk, "one", DISK_CACHED, &file), ERR_NOT_FOUND);
    assert_int_equal(disk->verbs->open(disk, "two", DISK_CACHED, &file), ERR_NOT_FOUND);
    if (other)
        os_disk_free(other);
    mem_free(block);
}

/* A backup has the file itself, by a hard link. */
static void p8_a_file_with_another_link_is_removed_and_not_used_again(void **state)
{
    struct fixture *fixture = *state;
    char from[sizeof(fixture->directory) + 8], to[sizeof(fixture->directory) + 8];
    char *block = mem_aligned(DISK_ALIGN, DISK_ALIGN);
    struct disk_file *file;
    size_t len = 0;
    make_one(fixture->disk, block);
    (void)snprintf(from, sizeof(from), "%s/one", fixture->directory);
    (void)snprintf(to, sizeof(to), "%s/kept", fixture->directory);
    assert_int_equal(link(from, to), 0);
    memset(block, 'n', DISK_ALIGN);
    struct disk_op op = reuse_op(block);
    assert_int_equal(do_op(fixture->disk, &op), OK);
    assert_null(op.file);
    assert_int_equal(fixture->disk->verbs->open(fixture->disk, "kept", DISK_CACHED, &file), OK);
    assert_int_equal(fixture->disk->verbs->read(fixture->disk, file, 0, block, DISK_ALIGN, &len),
                     OK);
    assert_true(block[0] == 'o');
    fixture->disk->verbs->close(fixture->disk, file);
    mem_free(block);
}

/* A disk that writes to another place, or a full directory: the file is of no use, so it goes. */
static void p8_a_file_for_whose_new_beginning_is_no_room_is_removed(void **state)
{
    struct fixture *fixture = *state;
    char *block = mem_aligned(DISK_ALIGN, DISK_ALIGN);
    struct disk_file *file;
    for (uint64_t call = 0; call < 3; call++) {
        struct disk_op op = reuse_op(block);
        make_one(fixture->disk, block);
        sim_disk_fail_at(fixture->sim, sim_disk_points(fixture->sim) + call, ENOSPC);
        assert_int_equal(do_op(fixture->disk, &op), OK);
        assert_null(op.file);
        for (int i = 0; i < 2; i++)
            assert_int_equal(
                fixture->disk->verbs->open(fixture->disk, i ? "two" : "one", DISK_CACHED, &file),
                ERR_NOT_FOUND);
    }
    mem_free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(a_file_that_is_used_again_has_a_new_name_and_a_new_beginning),
        BOTH(p8_a_file_that_is_held_is_removed_and_not_used_again),
        cmocka_unit_test_setup_teardown(p8_a_file_for_whose_new_beginning_is_no_room_is_removed,
                                        sim_setup, teardown),
        cmocka_unit_test_setup_teardown(p8_a_file_with_another_link_is_removed_and_not_used_again,
                                        os_setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
