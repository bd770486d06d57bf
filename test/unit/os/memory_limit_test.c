/*
 * How much memory control groups leave us, in a file system made up for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/memory_limit.h"

#define MACHINE ((uint64_t)16 << 30)

static char root[64];

static int make_root(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof(root), "/tmp/memory_limit_test.XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command);
}

static void put(const char *path, const char *text)
{
    char whole[512];
    int len = snprintf(whole, sizeof(whole), "%s%s", root, path);
    assert_true(len > 0 && (size_t)len < sizeof(whole));
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        (void)mkdir(whole, 0700); /* may be there */
        *at = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void finds(uint64_t bytes, const char *source_end)
{
    struct memory_limit limit;
    memory_limit_find(root, MACHINE, &limit);
    assert_int_equal(limit.bytes, bytes);
    size_t len = strlen(limit.source), end = strlen(source_end);
    assert_true(len >= end);
    assert_string_equal(limit.source + len - end, source_end);
}

static void a_path_is_that_of_the_hierarchy_with_memory(void **state)
{
    (void)state;
    struct bytes path = {0};
    struct bytes hybrid = BYTES("12:cpu,cpuacct:/cpu\n4:hugetlb,memory:/docker/abc\n"
                                "1:name=systemd:/sys\n0::/system.slice/laterd.service\n");
    assert_true(cgroup_path(hybrid, CGROUP_V1, &path));
    assert_true(bytes_eq(path, BYTES("/docker/abc")));
    assert_true(cgroup_path(hybrid, CGROUP_V2, &path));
    assert_true(bytes_eq(path, BYTES("/system.slice/laterd.service")));
    assert_true(cgroup_path(BYTES("0::/with:colon"), CGROUP_V2, &path));
    assert_true(bytes_eq(path, BYTES("/with:colon")));
    static const char *const none[] = {
        "", "\n\n", "0", "0:", "0::", "0::relative", ":::", "junk\n"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_false(cgroup_path(bytes_str(none[i]), CGROUP_V2, &path));
        assert_false(cgroup_path(bytes_str(none[i]), CGROUP_V1, &path));
    }
    assert_false(cgroup_path(BYTES("3:memory_recursiveprot:/a\n"), CGROUP_V1, &path));
}

static void a_limit_is_a_number_and_max_is_none(void **state)
{
    (void)state;
    uint64_t bytes = 7;
    assert_true(cgroup_limit(BYTES("268435456\n"), &bytes));
    assert_int_equal(bytes, 268435456);
    assert_true(cgroup_limit(BYTES("0"), &bytes));
    assert_int_equal(bytes, 0);
    static const char *const none[] = {"",     "\n",      "max\n",
                                       "-1\n", "12 34\n", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_false(cgroup_limit(bytes_str(none[i]), &bytes));
    assert_int_equal(bytes, 0);
}

static void without_groups_it_is_the_machine(void **state)
{
    (void)state;
    finds(MACHINE, "machine");
    put("/proc/self/cgroup", "0::/\n");
    finds(MACHINE, "machine");
    struct memory_limit limit;
    memory_limit_find("/nonexistent", 0, &limit);
    assert_true(limit.bytes == UINT64_MAX);
    assert_string_equal(limit.source, "unknown");
}

static void p8_a_group_of_v2_limits_by_max_and_by_high(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/system.slice/laterd.service\n");
    put("/sys/fs/cgroup/system.slice/laterd.service/memory.max", "268435456\n");
    put("/sys/fs/cgroup/system.slice/laterd.service/memory.high", "max\n");
    finds(268435456, "/laterd.service/memory.max");
    put("/sys/fs/cgroup/system.slice/laterd.service/memory.high", "200000000\n");
    finds(200000000, "/laterd.service/memory.high");
}

static void p8_a_group_above_limits_as_well(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/a/b/c\n");
    put("/sys/fs/cgroup/a/b/c/memory.max", "3000\n");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    finds(3000, "/a/b/c/memory.max");
    put("/sys/fs/cgroup/a/memory.max", "2000\n");
    finds(2000, "/sys/fs/cgroup/a/memory.max");
    put("/sys/fs/cgroup/memory.max", "1000\n");
    finds(1000, "/sys/fs/cgroup/memory.max");
}

static void p8_a_container_that_sees_its_group_as_the_root_is_limited(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "4:memory:/docker/0123\n0::/../../elsewhere\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
    finds(5000, "/memory/memory.limit_in_bytes");
    put("/sys/fs/cgroup/unified/memory.max", "4000\n");
    finds(4000, "/unified/memory.max");
}

static void p8_a_group_of_v1_limits(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "4:memory:/a/b\n");
    put("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
    finds(MACHINE, "machine"); /* that is its word for none */
    put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "6000\n");
    finds(6000, "/memory/a/memory.limit_in_bytes");
}

static void the_real_one_is_not_above_the_machine(void **state)
{
    (void)state;
    struct memory_limit limit;
    uint64_t machine = memory_of_machine();
    assert_true(machine > 0);
    memory_limit_find("", machine, &limit);
    assert_true(limit.bytes > 0 && limit.bytes <= machine);
}

#define TEST(claim) cmocka_unit_test_setup_teardown(claim, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_path_is_that_of_the_hierarchy_with_memory),
        TEST(a_limit_is_a_number_and_max_is_none),
        TEST(without_groups_it_is_the_machine),
        TEST(p8_a_group_of_v2_limits_by_max_and_by_high),
        TEST(p8_a_group_above_limits_as_well),
        TEST(p8_a_container_that_sees_its_group_as_the_root_is_limited),
        TEST(p8_a_group_of_v1_limits),
        TEST(the_real_one_is_not_above_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
