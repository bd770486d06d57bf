/* Files of a damaged directory are read whole, but no more of them than such a file can have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "sim/disk.h"
#include "store/recovery/directory.h"

enum { FILE_BYTES = 3 * BLOCK + 100 };

static struct sim_disk *disk_with_file(const char *name)
{
    struct sim_disk *sim = sim_disk_new();
    char *bytes = mem_alloc(FILE_BYTES);
    memset(bytes, 'x', FILE_BYTES);
    sim_disk_put(sim, name, bytes, FILE_BYTES);
    mem_free(bytes);
    return sim;
}

static void read_up_to(struct sim_disk *sim, uint64_t bytes_max, size_t len)
{
    struct file_bytes file;
    assert_int_equal(directory_read_file(sim_disk_port(sim), "f", bytes_max, &file), OK);
    assert_int_equal(file.len, len);
    assert_int_equal(file.size_bytes, FILE_BYTES);
    assert_false(file.unread);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(file.at[i], 'x');
    assert_true(bytes_all_zero(file.at + len, BLOCK)); /* decoders may look so far */
    mem_free(file.at);
}

static void a_file_is_read_as_far_as_is_asked(void **state)
{
    (void)state;
    struct sim_disk *sim = disk_with_file("f");
    read_up_to(sim, UINT64_MAX, FILE_BYTES);
    read_up_to(sim, FILE_BYTES, FILE_BYTES);
    read_up_to(sim, FILE_BYTES - 1, FILE_BYTES - 1);
    read_up_to(sim, BLOCK, BLOCK);
    read_up_to(sim, BLOCK + 1, BLOCK + 1);
    read_up_to(sim, 0, 0);
    sim_disk_free(sim);
}

static void what_cannot_be_read_is_zeros(void **state)
{
    (void)state;
    struct sim_disk *sim = disk_with_file("f");
    struct file_bytes file;
    sim_disk_bad(sim, "f", BLOCK, BLOCK + 1);
    assert_int_equal(directory_read_file(sim_disk_port(sim), "f", UINT64_MAX, &file), OK);
    assert_true(file.unread && file.len == FILE_BYTES);
    assert_true(file.at[BLOCK - 1] == 'x' && file.at[2 * BLOCK] == 'x');
    assert_true(bytes_all_zero(file.at + BLOCK, BLOCK));
    mem_free(file.at);
    assert_int_equal(directory_read_file(sim_disk_port(sim), "g", 1, &file), ERR_NOT_FOUND);
    sim_disk_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_as_far_as_is_asked),
        cmocka_unit_test(what_cannot_be_read_is_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
