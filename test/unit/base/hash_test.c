/*
 * The state in which a checksum leaves the processor: the upper halves of its vector registers are
 * empty, else each instruction on a lower half waits for what was in them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/mem.h"

enum { LENGTH_MAX = 64 * 1024 };

#if defined(__x86_64__)
#include <cpuid.h>

/* Can the processor say which of its registers are in use? */
static bool tells_use(void)
{
    enum { LEAF = 0xd, SUBLEAF = 1, XGETBV_OF_ONE = 4 };
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx") && __get_cpuid_count(LEAF, SUBLEAF, &a, &b, &c, &d) &&
           a & XGETBV_OF_ONE;
}

static bool upper_halves_in_use(void)
{
    enum { AVX = 4 };
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
    return low & AVX;
}

static void fill_upper_halves(void)
{
    __asm__ volatile("vcmptrueps %%ymm0, %%ymm0, %%ymm0" ::: "xmm0");
}
#else
static bool tells_use(void)
{
    return false;
}

static bool upper_halves_in_use(void)
{
    return false;
}

static void fill_upper_halves(void)
{
}
#endif

static void the_upper_halves_of_vector_registers_are_empty_behind_a_checksum(void **state)
{
    (void)state;
    char *bytes = mem_zalloc(LENGTH_MAX);
    if (!tells_use())
        skip();
    fill_upper_halves();
    assert_true(upper_halves_in_use());
    for (size_t len = 241; len <= LENGTH_MAX; len += len / 4) {
        uint64_t hash = hash_of(bytes, len);
        assert_false(upper_halves_in_use());
        fill_upper_halves();
        uint64_t seeded = hash_seeded(bytes, len, 7);
        assert_false(upper_halves_in_use());
        fill_upper_halves();
        assert_true(hash != seeded);
    }
    (void)hash_of(bytes, LENGTH_MAX); /* leaves them empty */
    for (size_t len = 0; len <= 240; len++) {
        (void)hash_of(bytes, len);
        (void)hash_seeded(bytes, len, 7);
        assert_false(upper_halves_in_use());
    }
    mem_free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_upper_halves_of_vector_registers_are_empty_behind_a_checksum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
