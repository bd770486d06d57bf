/*
 * What port/disk.h promises, held against both implementations: Linux's and the simulator's.
 */
#include "disk_bed.h"

static void is_zeros_and_keeps_what_is_written(struct disk *disk, bool reserve)
{
    struct disk_file *file = make_as(disk, "one", 5 * DISK_ALIGN, reserve);
    char *block = mem_aligned(DISK_ALIGN, DISK_ALIGN);
    uint64_t size = 0;
    size_t len = 0;
    assert_int_equal(disk->verbs->size(disk, file, &size), OK);
    assert_int_equal(size, 5 * DISK_ALIGN);
    memset(block, 'a', DISK_ALIGN);
    write_block(disk, file, block, 2);
    for (int fresh = 0; fresh < 2; fresh++) {
        struct disk_file *again;
        assert_int_equal(disk->verbs->open(disk, "one", fresh, &again), OK);
        for (uint64_t i = 0; i < 5; i++) {
            memset(block, 'z', DISK_ALIGN);
            assert_int_equal(
                disk->verbs->read(disk, again, i * DISK_ALIGN, block, DISK_ALIGN, &len), OK);
            assert_int_equal(len, DISK_ALIGN);
            assert_int_equal(block[0], i == 2 ? 'a' : 0);
            assert_int_equal(block[DISK_ALIGN - 1], i == 2 ? 'a' : 0);
        }
        assert_int_equal(disk->verbs->read(disk, again, 2 * DISK_ALIGN - 3, block, 5, &len), OK);
        assert_memory_equal(block, "\0\0\0aa", 5); /* unaligned reads work, too */
        disk->verbs->close(disk, again);
    }
    mem_free(block);
    disk->verbs->close(disk, file);
}

static void a_made_file_is_zeros_and_keeps_what_is_written(void **state)
{
    is_zeros_and_keeps_what_is_written(((struct fixture *)*state)->disk, false);
}

static void a_file_whose_room_is_reserved_reads_as_zeros(void **state)
{
    is_zeros_and_keeps_what_is_written(((struct fixture *)*state)->disk, true);
}

static void zeros_behind_a_write_change_nothing_else(void **state)
{
    struct disk *disk = ((struct fixture *)*state)->disk;
    size_t blocks = 4 + DISK_ZEROS_MAX / DISK_ALIGN, len = 0;
    struct disk_file *file = make_as(disk, "one", blocks * DISK_ALIGN, true);
    char *block = mem_aligned(DISK_ALIGN, DISK_ALIGN);
    memset(block, 'z', DISK_ALIGN);
    write_block(disk, file, block, blocks - 1);
    memset(block, 'a', DISK_ALIGN);
    struct disk_op op = {.verb = DISK_WRITE_SYNC,
                         .lane = LANE_COMMIT,
                         .file = file,
                         .data = block,
                         .len = DISK_ALIGN,
                         .offset = DISK_ALIGN,
                         .zeros = DISK_ZEROS_MAX};
    assert_int_equal(do_op(disk, &op), OK);
    for (uint64_t i = 0; i < blocks; i++) {
        assert_int_equal(disk->verbs->read(disk, file, i * DISK_ALIGN, block, DISK_ALIGN, &len),
                         OK);
        assert_int_equal(len, DISK_ALIGN);
        char wanted = i == 1 ? 'a' : i + 1 == blocks ? 'z' : '\0';
        assert_int_equal(block[0], wanted);
        assert_int_equal(block[DISK_ALIGN - 1], wanted);
    }
    uint64_t size = 0;
    assert_int_equal(disk->verbs->size(disk, file, &size), OK);
    assert_int_equal(size, blocks * DISK_ALIGN);
    mem_free(block);
    disk->verbs->close(disk, file);
}

static void write_at(struct disk *disk, struct disk_file *file, const char *text, uint64_t offset)
{
    struct disk_op write = {.verb = DISK_WRITE,
                            .lane = LANE_BACKGROUND,
                            .file = file,
                            .data = text,
                            .len = strlen(text),
                            .offset = offset};
    assert_int_equal(do_op(disk, &write), OK);
}

/* Not even where there is no such place. */
static void what_is_fetched_is_read_as_ever(void **state)
{
    struct fixture *fixture = *state;
    struct disk *disk = fixture->disk;
    struct disk_file *file = make(disk, "file", (size_t)3 * 128 * 1024);
    char bytes[8];
    size_t len;
    write_at(disk, file, "tail", 300000);
    disk->verbs->fetch(disk, file, 0, 0);
    disk->verbs->fetch(disk, file, 1, (uint64_t)3 * 128 * 1024 + 5);
    disk->verbs->fetch(disk, file, UINT64_C(1) << 40, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(disk->verbs->read(disk, file, 299999, bytes, sizeof(bytes), &len), OK);
        assert_int_equal(len, sizeof(bytes));
        assert_memory_equal(bytes, "\0tail\0\0\0", 8);
        disk->verbs->exact(disk, file);
    }
    disk->verbs->close(disk, file);
    struct disk_op read = {.verb = DISK_READ,
                           .lane = LANE_READ,
                           .name = "file",
                           .into = bytes,
                           .len = sizeof(bytes),
                           .offset = 299999,
                           .exact = true,
                           .ahead = UINT64_C(1) << 20}; /* more than there is */
    assert_int_equal(do_op(disk, &read), OK);
    assert_memory_equal(bytes, "\0tail\0\0\0", 8);
    disk->verbs->close(disk, read.file);
}

static void reading_past_the_end_gives_less(void **state)
{
    struct disk *disk = ((struct fixture *)*state)->disk;
    struct disk_file *file = make(disk, "one", DISK_ALIGN);
    char *block = mem_aligned(DISK_ALIGN, 2 * DISK_ALIGN);
    size_t len = 7;
    assert_int_equal(disk->verbs->read(disk, file, 0, block, 2 * DISK_ALIGN, &len), OK);
    assert_int_equal(len, DISK_ALIGN);
    assert_int_equal(disk->verbs->read(disk, file, 4 * DISK_ALIGN, block, DISK_ALIGN, &len), OK);
    assert_int_equal(len, 0);
    mem_free(block);
    disk->verbs->close(disk, file);
}

static void replace_and_remove_change_names(void **state)
{
    struct disk *disk = ((struct fixture *)*state)->disk;
    struct disk_file *file;
    char room[8] = {0};
    size_t len;
    struct disk_op replace = {
        .verb = DISK_REPLACE, .lane = LANE_BACKGROUND, .name = "two", .data = "old", .len = 3};
    assert_int_equal(do_op(disk, &replace), OK);
    replace.data = "newer";
    replace.len = 5;
    assert_int_equal(do_op(disk, &replace), OK);
    assert_int_equal(disk->verbs->open(disk, "two", DISK_CACHED, &file), OK);
    assert_int_equal(disk->verbs->read(disk, file, 0, room, sizeof(room), &len), OK);
    assert_int_equal(len, 5);
    assert_memory_equal(room, "newer", 5);
    struct disk_op remove_op = {.verb = DISK_REMOVE, .lane = LANE_BACKGROUND, .name = "two"};
    assert_int_equal(do_op(disk, &remove_op), OK);
    disk->verbs->close(disk, file);
    assert_int_equal(disk->verbs->open(disk, "two", DISK_CACHED, &file), ERR_NOT_FOUND);
    assert_int_equal(do_op(disk, &remove_op), OK); /* gone is gone */
}

/* Larger than the pieces in which it is written (CACHED_PIECE in os/disk_file.c). */
static void a_large_file_is_replaced_byte_for_byte(void **state)
{
    struct disk *disk = ((struct fixture *)*state)->disk;
    struct disk_file *file;
    size_t size = 2 * 256 * 1024 + 4097, len;
    char *wrote = mem_alloc(size), *got = mem_alloc(size + 1);
    for (size_t i = 0; i < size; i++)
        wrote[i] = (char)(i * 0x9e3779b1u >> 24); /* no two pieces are alike */
    struct disk_op replace = {
        .verb = DISK_REPLACE, .lane = LANE_BACKGROUND, .name = "two", .data = wrote, .len = size};
    assert_int_equal(do_op(disk, &replace), OK);
    assert_int_equal(disk->verbs->open(disk, "two", DISK_CACHED, &file), OK);
    assert_int_equal(disk->verbs->read(disk, file, 0, got, size + 1, &len), OK);
    assert_int_equal(len, size);
    assert_memory_equal(got, wrote, size);
    disk->verbs->close(disk, file);
    mem_free(wrote);
    mem_free(got);
}

static void operations_of_a_lane_end_in_order(void **state)
{
    struct disk *disk = ((struct fixture *)*state)->disk;
    struct disk_file *file = make(disk, "one", 64 * DISK_ALIGN);
    char *blocks = mem_aligned(DISK_ALIGN, 64 * DISK_ALIGN);
    struct disk_op ops[64];
    done_count = 0;
    for (int i = 0; i < 64; i++) {
        memset(blocks + i * DISK_ALIGN, i, DISK_ALIGN);
        ops[i] = (struct disk_op){.verb = DISK_WRITE,
                                  .lane = LANE_COMMIT,
                                  .file = file,
                                  .data = blocks + i * DISK_ALIGN,
                                  .len = DISK_ALIGN,
                                  .offset = (uint64_t)(i / 2) * DISK_ALIGN,
                                  .done = done};
        disk->verbs->submit(disk, &ops[i]);
    }
    while (done_count < 64) {
        disk->verbs->wait(disk);
        (void)disk->verbs->poll(disk);
    }
    size_t len;
    for (int i = 0; i < 32; i++) {
        assert_int_equal(
            disk->verbs->read(disk, file, (uint64_t)i * DISK_ALIGN, blocks, DISK_ALIGN, &len), OK);
        assert_int_equal(blocks[17], i * 2 + 1); /* the later write of each pair */
    }
    disk->verbs->wait(disk); /* nothing is under way: returns at once */
    mem_free(blocks);
    disk->verbs->close(disk, file);
}

static void a_write_without_sync_need_not_be_aligned_and_the_file_grows_with_it(void **state)
{
    struct disk *disk = ((struct fixture *)*state)->disk;
    struct disk_file *file = make(disk, "one", DISK_ALIGN);
    struct disk_op sync = {.verb = DISK_SYNC, .lane = LANE_BACKGROUND, .file = file};
    char bytes[16];
    uint64_t size;
    size_t len;
    write_at(disk, file, "0123456789", DISK_ALIGN + 3);
    write_at(disk, file, "abcde", 1);
    assert_int_equal(do_op(disk, &sync), OK);
    assert_int_equal(disk->verbs->size(disk, file, &size), OK);
    assert_int_equal(size, DISK_ALIGN + 13);
    assert_int_equal(disk->verbs->read(disk, file, DISK_ALIGN, bytes, sizeof(bytes), &len), OK);
    assert_int_equal(len, 13);
    assert_memory_equal(bytes,
                        "\0\0\0"
                        "0123456789",
                        13);
    assert_int_equal(disk->verbs->read(disk, file, 0, bytes, 8, &len), OK);
    assert_memory_equal(bytes, "\0abcde\0\0", 8);
    disk->verbs->close(disk, file);
}

static void the_lock_is_for_one(void **state)
{
    struct fixture *fixture = *state;
    struct disk *disk = fixture->disk;
    assert_int_equal(disk->verbs->lock(disk, DISK_TO_WRITE), OK);
    if (fixture->os) {
        struct os_disk *other;
        assert_int_equal(os_disk_new(fixture->directory, &other), OK);
        struct disk *port = os_disk_port(other);
        assert_int_equal(port->verbs->lock(port, DISK_TO_WRITE), ERR_LOCKED);
        disk->verbs->unlock(disk);
        assert_int_equal(port->verbs->lock(port, DISK_TO_WRITE), OK);
        os_disk_free(other);
    } else {
        assert_int_equal(disk->verbs->lock(disk, DISK_TO_WRITE), ERR_LOCKED);
        disk->verbs->unlock(disk);
    }
    assert_int_equal(disk->verbs->lock(disk, DISK_TO_WRITE), OK);
    disk->verbs->unlock(disk);
}

static void count_name(void *ctx, const char *name)
{
    if (strcmp(name, "one") == 0 || strcmp(name, "two") == 0)
        ++*(int *)ctx;
}

static void list_names_each_file_once(void **state)
{
    struct disk *disk = ((struct fixture *)*state)->disk;
    int count = 0;
    disk->verbs->close(disk, make(disk, "one", DISK_ALIGN));
    disk->verbs->close(disk, make(disk, "two", DISK_ALIGN));
    assert_int_equal(disk->verbs->list(disk, count_name, &count), OK);
    assert_int_equal(count, 2);
}

static bool direct_refused; /* reading past the page cache gives EINVAL, as on some file systems */

/* Stands in for the C library's. */
ssize_t pread(int fd, void *at, size_t len, off_t offset)
{
    if (direct_refused && fcntl(fd, F_GETFL) & O_DIRECT) {
        errno = EINVAL;
        return -1;
    }
    return syscall(SYS_pread64, fd, at, len, offset);
}

static void a_fresh_read_needs_no_direct_reads(void **state)
{
    struct disk *disk = ((struct fixture *)*state)->disk;
    struct disk_file *file = make(disk, "one", 2 * DISK_ALIGN);
    char *blocks = mem_aligned(DISK_ALIGN, 2 * DISK_ALIGN);
    size_t len = 0;
    memset(blocks, 'a', 2 * DISK_ALIGN);
    struct disk_op op = {.verb = DISK_WRITE_SYNC, .file = file, .data = blocks, .len = DISK_ALIGN};
    assert_int_equal(do_op(disk, &op), OK);
    disk->verbs->close(disk, file);
    assert_int_equal(disk->verbs->open(disk, "one", DISK_FRESH, &file), OK);
    direct_refused = true;
    enum err err = disk->verbs->read(disk, file, 0, blocks, 2 * DISK_ALIGN, &len);
    direct_refused = false;
    assert_int_equal(err, OK);
    assert_int_equal(len, 2 * DISK_ALIGN);
    assert_int_equal(blocks[DISK_ALIGN - 1], 'a');
    assert_int_equal(blocks[DISK_ALIGN], 0);
    disk->verbs->close(disk, file);
    mem_free(blocks);
}

/* Of an open file, past the page cache or not: as the file system likes. */
static void a_direct_read_brings_what_was_written(void **state)
{
    struct disk *disk = ((struct fixture *)*state)->disk;
    struct disk_file *file = make(disk, "one", 3 * DISK_ALIGN);
    char *blocks = mem_aligned(DISK_ALIGN, 2 * DISK_ALIGN);
    assert_false(disk->verbs->is_direct(disk, file));
    memset(blocks, 'd', DISK_ALIGN);
    write_block(disk, file, blocks, 2);
    for (int round = 0; round < 3; round++) {
        struct disk_op read = {.verb = DISK_READ,
                               .lane = LANE_READ,
                               .file = file,
                               .direct = true,
                               .into = blocks,
                               .len = 2 * DISK_ALIGN,
                               .offset = DISK_ALIGN + (round == 2 ? 5 : 0)};
        memset(blocks, 'x', 2 * DISK_ALIGN);
        direct_refused = round == 1;
        enum err err = do_op(disk, &read);
        direct_refused = false;
        assert_int_equal(err, OK);
        assert_int_equal(read.got, 2 * DISK_ALIGN - (round == 2 ? 5 : 0));
        assert_int_equal(blocks[0], 0);
        assert_int_equal(blocks[read.got - 1], 'd');
    }
    disk->verbs->close(disk, file);
    mem_free(blocks);
}

static bool room_refused; /* the file system cannot reserve room */

/* Stands in for the C library's. */
int fallocate(int fd, int mode, off_t offset, off_t len)
{
    if (room_refused) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return (int)syscall(SYS_fallocate, fd, mode, offset, len);
}

/* So a commit into it does not fail for want of room. */
static void p8_a_made_file_has_its_blocks(void **state)
{
    struct fixture *fixture = *state;
    for (int way = 0; way < 4; way++) {
        char path[sizeof(fixture->directory) + 8];
        struct stat status;
        room_refused = way / 2;
        struct disk_file *file = make_as(fixture->disk, "one", 64 * DISK_ALIGN, way % 2);
        room_refused = false;
        (void)snprintf(path, sizeof(path), "%s/one", fixture->directory);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_size, 64 * DISK_ALIGN);
        assert_true(status.st_blocks * 512 >= 64 * DISK_ALIGN);
        fixture->disk->verbs->close(fixture->disk, file);
    }
}

static void rename_gives_a_file_another_name(void **state)
{
    struct disk *disk = ((struct fixture *)*state)->disk;
    struct disk_file *file = make(disk, "one", DISK_ALIGN);
    disk->verbs->close(disk, file);
    disk->verbs->close(disk, make(disk, "two", 2 * DISK_ALIGN));
    struct disk_op op = {
        .verb = DISK_RENAME, .lane = LANE_BACKGROUND, .name = "one", .data = "two"};
    uint64_t size = 0;
    assert_int_equal(do_op(disk, &op), OK);
    assert_int_equal(disk->verbs->open(disk, "one", DISK_CACHED, &file), ERR_NOT_FOUND);
    assert_int_equal(disk->verbs->open(disk, "two", DISK_CACHED, &file), OK);
    assert_int_equal(disk->verbs->size(disk, file, &size), OK);
    assert_int_equal(size, DISK_ALIGN);
    disk->verbs->close(disk, file);
    assert_int_not_equal(do_op(disk, &op), OK); /* there is no "one" any more */
}

static void count_inspected(struct disk_op *op)
{
    ++*(int *)op->owner;
    assert_int_equal(((const char *)op->into)[0], 'r');
}

static void reads_of_the_read_lane_bring_what_is_in_the_file(void **state)
{
    struct disk *disk = ((struct fixture *)*state)->disk;
    struct disk_file *file = make(disk, "read", 3 * DISK_ALIGN);
    char *block = mem_aligned(DISK_ALIGN, 2 * DISK_ALIGN);
    memset(block, 'r', DISK_ALIGN);
    write_block(disk, file, block, 2);
    int inspected = 0;
    for (int round = 0; round < 4; round++) { /* of an open file; opened; past the page cache */
        struct disk_op read = {.verb = DISK_READ,
                               .lane = LANE_READ,
                               .file = round == 0 ? file : NULL,
                               .name = "read",
                               .fresh = round > 1,
                               .into = block,
                               .len = 2 * DISK_ALIGN,
                               .offset = 2 * DISK_ALIGN,
                               .inspect = count_inspected,
                               .owner = &inspected};
        memset(block, 'x', 2 * DISK_ALIGN);
        if (round == 3) { /* not aligned, and not at the end */
            read.offset = 2 * DISK_ALIGN + 5;
            read.len = 100;
        }
        assert_int_equal(do_op(disk, &read), OK);
        assert_int_equal(read.got, round == 3 ? 100 : DISK_ALIGN);
        assert_true(block[0] == 'r' && block[read.got - 1] == 'r');
        assert_int_equal(inspected, round + 1);
        assert_non_null(read.file);
        if (round > 0) /* it opened one, which is ours */
            disk->verbs->close(disk, read.file);
    }
    struct disk_op behind = {.verb = DISK_READ,
                             .lane = LANE_READ,
                             .file = file,
                             .into = block,
                             .len = DISK_ALIGN,
                             .offset = 5 * DISK_ALIGN};
    assert_int_equal(do_op(disk, &behind), OK);
    assert_int_equal(behind.got, 0);
    struct disk_op missing = {.verb = DISK_READ,
                              .lane = LANE_READ,
                              .name = "missing",
                              .into = block,
                              .len = DISK_ALIGN,
                              .inspect = count_inspected,
                              .owner = &inspected};
    assert_int_equal(do_op(disk, &missing), ERR_NOT_FOUND);
    assert_null(missing.file);
    assert_int_equal(inspected, 4); /* of what could not be read there is nothing to look at */
    disk->verbs->close(disk, file);
    mem_free(block);
}

static void fill(struct disk_op *op)
{
    memset((char *)(uintptr_t)op->data, 'p', op->len);
}

static void an_operation_is_prepared_before_it_is_done(void **state)
{
    struct disk *disk = ((struct fixture *)*state)->disk;
    struct disk_file *file = make(disk, "one", DISK_ALIGN);
    char *block = mem_aligned(DISK_ALIGN, DISK_ALIGN);
    size_t len = 0;
    struct disk_op op = {.verb = DISK_WRITE_SYNC,
                         .lane = LANE_COMMIT,
                         .file = file,
                         .data = block,
                         .len = DISK_ALIGN,
                         .prepare = fill};
    memset(block, 'a', DISK_ALIGN);
    assert_int_equal(do_op(disk, &op), OK);
    memset(block, 'a', DISK_ALIGN);
    assert_int_equal(disk->verbs->read(disk, file, 0, block, DISK_ALIGN, &len), OK);
    assert_int_equal(block[7], 'p');
    mem_free(block);
    disk->verbs->close(disk, file);
}

static void give_pieces(struct disk_op *op, struct disk_pieces *to)
{
    char text[8] = "xxxx";
    to->put(to, text, 4, 0);
    memcpy(text, "piece", 5); /* which is ours again */
    to->put(to, text, 5, 4);
    to->put(to, op->owner, 4, 0);
}

static void the_bytes_of_a_file_may_be_made_while_it_is_written(void **state)
{
    struct disk *disk = ((struct fixture *)*state)->disk;
    struct disk_file *file;
    char room[16] = "", text[] = "one ";
    size_t len = 0;
    struct disk_op replace = {.verb = DISK_REPLACE,
                              .lane = LANE_BACKGROUND,
                              .name = "one",
                              .give = give_pieces,
                              .owner = text};
    assert_int_equal(do_op(disk, &replace), OK);
    assert_int_equal(disk->verbs->open(disk, "one", DISK_CACHED, &file), OK);
    assert_int_equal(disk->verbs->read(disk, file, 0, room, sizeof(room), &len), OK);
    assert_int_equal(len, 9);
    assert_memory_equal(room, "one piece", 9);
    disk->verbs->close(disk, file);
}

/* A file outside of the directory, and its name inside. */
static void plant_link(const struct fixture *fixture, const char *name, char *target)
{
    char path[128];
    victim_path(fixture, target);
    (void)snprintf(path, sizeof(path), "%s/%s", fixture->directory, name);
    FILE *victim = fopen(target, "w");
    assert_non_null(victim);
    assert_int_equal(fputs("untouched", victim) >= 0, 1);
    assert_int_equal(fclose(victim), 0);
    assert_int_equal(symlink(target, path), 0);
}

static void check_victim(const char *target)
{
    char text[16] = "";
    FILE *victim = fopen(target, "r");
    assert_non_null(victim);
    assert_non_null(fgets(text, sizeof(text), victim));
    assert_int_equal(fclose(victim), 0);
    assert_string_equal(text, "untouched");
    assert_int_equal(unlink(target), 0);
}

static void nothing_is_made_or_replaced_through_a_symbolic_link(void **state)
{
    struct fixture *fixture = *state;
    struct disk *disk = fixture->disk;
    char target[128];
    plant_link(fixture, "MANIFEST.tmp", target);
    struct disk_op op = {
        .verb = DISK_REPLACE, .lane = LANE_BACKGROUND, .name = "MANIFEST", .data = "new", .len = 3};
    assert_int_equal(do_op(disk, &op), OK);
    check_victim(target);
    plant_link(fixture, "wal-00000001", target);
    disk->verbs->close(disk, make(disk, "wal-00000001", DISK_ALIGN));
    check_victim(target);
}

static void nothing_is_opened_or_locked_through_a_symbolic_link(void **state)
{
    struct fixture *fixture = *state;
    struct disk *disk = fixture->disk;
    struct disk_file *file;
    char target[128];
    plant_link(fixture, "LOCK", target);
    assert_int_equal(disk->verbs->lock(disk, DISK_TO_WRITE), ERR_IO);
    check_victim(target);
    plant_link(fixture, "wal-00000001", target);
    assert_int_equal(disk->verbs->open(disk, "wal-00000001", DISK_CACHED, &file), ERR_IO);
    assert_int_equal(disk->verbs->open(disk, "wal-00000001", DISK_FRESH, &file), ERR_IO);
    check_victim(target);
}

/* Opening it for reading alone would wait for a writer. */
static void a_pipe_in_the_directory_is_not_opened(void **state)
{
    struct fixture *fixture = *state;
    struct disk_file *file;
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/wal-00000001", fixture->directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(fixture->disk->verbs->open(fixture->disk, "wal-00000001", DISK_CACHED, &file),
                     ERR_IO);
}

static void without_descriptors_opening_says_to_try_again(void **state)
{
    struct disk *disk = ((struct fixture *)*state)->disk;
    struct rlimit before, none;
    struct disk_file *file = make(disk, "one", DISK_ALIGN);
    disk->verbs->close(disk, file);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 3;
    struct disk_op op = {
        .verb = DISK_MAKE, .lane = LANE_BACKGROUND, .name = "two", .len = DISK_ALIGN};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    enum err opened = disk->verbs->open(disk, "one", DISK_CACHED, &file);
    enum err made = do_op(disk, &op);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(opened, ERR_AGAIN);
    assert_int_equal(made, ERR_AGAIN);
    assert_int_equal(do_op(disk, &op), OK);
    disk->verbs->close(disk, op.file);
}

/* With a lane's first operation: whoever submits it does the work, and hears of the end as ever. */
static int submit_without_threads(const struct fixture *fixture)
{
    struct disk_op op = {
        .verb = DISK_MAKE, .lane = LANE_BACKGROUND, .name = "made", .len = 4096, .done = done};
    const struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_NPROC, &none) || (geteuid() == 0 && setuid(65534))) /* root has no limit */
        return 2;
    fixture->disk->verbs->submit(fixture->disk, &op);
    bool early = done_count > 0;
    fixture->disk->verbs->wait(fixture->disk);
    bool told = fixture->disk->verbs->poll(fixture->disk) == 1 && done_count == 1;
    return early || !told || op.err ? 1 : 0;
}

static void without_threads_the_work_is_done_all_the_same(void **state)
{
    const struct fixture *fixture = *state;
    int status;
    assert_int_equal(chmod(fixture->directory, 0777), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(submit_without_threads(fixture));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void a_directory_that_others_can_write_to_is_noticed(void **state)
{
    struct fixture *fixture = *state;
    struct os_disk_owner owner;
    assert_false(os_disk_exposed(fixture->os, &owner));
    assert_int_equal(chmod(fixture->directory, 0750), 0);
    assert_false(os_disk_exposed(fixture->os, &owner));
    assert_int_equal(chmod(fixture->directory, 0720), 0);
    assert_true(os_disk_exposed(fixture->os, &owner));
    assert_int_equal(owner.mode, 0720);
    assert_int_equal(owner.uid, geteuid());
    assert_int_equal(chmod(fixture->directory, 0702), 0);
    assert_true(os_disk_exposed(fixture->os, &owner));
    assert_int_equal(chmod(fixture->directory, 0700), 0);
}

static void the_eventfd_tells_of_an_end(void **state)
{
    struct fixture *fixture = *state;
    struct disk_op op = {
        .verb = DISK_REMOVE, .lane = LANE_BACKGROUND, .name = "nothing", .done = done};
    fixture->disk->verbs->submit(fixture->disk, &op);
    struct pollfd pollfd = {.fd = os_disk_eventfd(fixture->os), .events = POLLIN};
    assert_int_equal(poll(&pollfd, 1, 60000), 1);
    assert_int_equal(fixture->disk->verbs->poll(fixture->disk), 1);
    assert_int_equal(done_count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(a_made_file_is_zeros_and_keeps_what_is_written),
        BOTH(a_file_whose_room_is_reserved_reads_as_zeros),
        BOTH(zeros_behind_a_write_change_nothing_else),
        BOTH(what_is_fetched_is_read_as_ever),
        BOTH(reading_past_the_end_gives_less),
        BOTH(reads_of_the_read_lane_bring_what_is_in_the_file),
        BOTH(a_direct_read_brings_what_was_written),
        BOTH(replace_and_remove_change_names),
        BOTH(a_large_file_is_replaced_byte_for_byte),
        BOTH(operations_of_a_lane_end_in_order),
        BOTH(a_write_without_sync_need_not_be_aligned_and_the_file_grows_with_it),
        BOTH(the_lock_is_for_one),
        BOTH(list_names_each_file_once),
        BOTH(rename_gives_a_file_another_name),
        BOTH(an_operation_is_prepared_before_it_is_done),
        BOTH(the_bytes_of_a_file_may_be_made_while_it_is_written),
        cmocka_unit_test_setup_teardown(nothing_is_made_or_replaced_through_a_symbolic_link,
                                        os_setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_opened_or_locked_through_a_symbolic_link,
                                        os_setup, teardown),
        cmocka_unit_test_setup_teardown(a_pipe_in_the_directory_is_not_opened, os_setup, teardown),
        cmocka_unit_test_setup_teardown(without_descriptors_opening_says_to_try_again, os_setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(without_threads_the_work_is_done_all_the_same, os_setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_directory_that_others_can_write_to_is_noticed, os_setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_fresh_read_needs_no_direct_reads, os_setup, teardown),
        cmocka_unit_test_setup_teardown(p8_a_made_file_has_its_blocks, os_setup, teardown),
        cmocka_unit_test_setup_teardown(the_eventfd_tells_of_an_end, os_setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
