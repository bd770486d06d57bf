/* What free() leaves in the heap goes back to the system a piece in a turn, and is used again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "os/heap_return.h"

#if defined(__SANITIZE_ADDRESS__)
#define OWN_HEAP 1
#elif defined(__has_feature)
#define OWN_HEAP __has_feature(address_sanitizer)
#else
#define OWN_HEAP 0
#endif

enum { PIECES = 1024, PIECE = 64 * 1024, MIB = 1024 * 1024, SECOND_US = 1000000 };

static char *pieces[PIECES];

static size_t resident_bytes(void)
{
    size_t pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu %zu", &pages, &resident), 2);
    (void)fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void fill(void)
{
    for (unsigned i = 0; i < PIECES; i++) {
        pieces[i] = mem_alloc(PIECE);
        memset(pieces[i], (int)i, PIECE);
    }
}

/* Every n-th stays. */
static void free_all_but(unsigned each)
{
    for (unsigned i = 0; i < PIECES; i++) {
        if (each && i % each == 0)
            continue;
        mem_free(pieces[i]);
        pieces[i] = NULL;
    }
}

/* Until it has no more to do. Returns the turns. */
static unsigned run(struct heap_return *heap, int64_t now_us)
{
    unsigned turns = 0;
    for (int64_t next_us = now_us; next_us != INT64_MAX; turns++) {
        now_us = next_us;
        next_us = heap_return_turn(heap, now_us, mem_used());
        assert_true(next_us >= now_us && turns < 10 * PIECES);
    }
    return turns;
}

static void free_memory_goes_back_a_piece_in_a_turn(void **state)
{
    struct heap_return heap = {.used_max = 0};
    (void)state;
    if (OWN_HEAP)
        skip();
    fill();
    (void)run(&heap, 1);
    size_t filled = resident_bytes();
    assert_int_equal(heap.dropped, 0);
    free_all_but(0);
    assert_true(resident_bytes() + 4 * MIB > filled); /* free() leaves it there */
    int64_t next_us = heap_return_turn(&heap, 2, mem_used());
    assert_int_equal(next_us, 2 + SECOND_US); /* it may be wanted again at once */
    assert_int_equal(heap_return_turn(&heap, next_us, mem_used()), next_us);
    for (unsigned i = 0; i < 3; i++) {
        size_t before = resident_bytes();
        (void)heap_return_turn(&heap, next_us, mem_used());
        assert_true(before <= resident_bytes() + 2 * MIB);
    }
    assert_true(run(&heap, next_us) >= 50);
    assert_true(resident_bytes() + 56 * MIB < filled);
    assert_int_equal(heap.state, HEAP_IDLE);
    assert_null(heap.chunks);
}

static void what_is_used_stays_and_what_was_dropped_can_be_used(void **state)
{
    struct heap_return heap = {.used_max = 0};
    (void)state;
    fill();
    (void)run(&heap, 1);
    free_all_but(64); /* 4 MiB between them */
    (void)run(&heap, 2);
    if (!OWN_HEAP)
        assert_true(heap.dropped >= 40);
    for (unsigned i = 0; i < PIECES; i += 64)
        for (unsigned k = 0; k < PIECE; k += 97)
            assert_int_equal((unsigned char)pieces[i][k], (unsigned char)i);
    for (unsigned i = 0; i < PIECES; i++) {
        if (pieces[i])
            continue;
        pieces[i] = mem_zalloc(PIECE);
        for (unsigned k = 0; k < PIECE; k += 97)
            assert_int_equal(pieces[i][k], 0);
    }
    free_all_but(0);
    (void)run(&heap, 3);
    assert_int_equal(mem_used(), 0);
}

/* A little less, or for a moment only: that is not worth the work. */
static void it_waits_until_far_less_is_used_for_a_second(void **state)
{
    struct heap_return heap = {.used_max = 0};
    (void)state;
    assert_int_equal(heap_return_turn(&heap, 1, 100 * MIB), INT64_MAX);
    assert_int_equal(heap_return_turn(&heap, 2, 97 * MIB), INT64_MAX);
    assert_int_equal(heap_return_turn(&heap, 3, 90 * MIB), 3 + SECOND_US);
    assert_int_equal(heap_return_turn(&heap, 4, 97 * MIB), INT64_MAX);
    assert_int_equal(heap_return_turn(&heap, 5, 90 * MIB), 5 + SECOND_US);
    assert_int_equal(heap.state, HEAP_IDLE);
    assert_int_equal(heap_return_turn(&heap, 5 + SECOND_US, 90 * MIB), 5 + SECOND_US);
    assert_int_equal(heap.state, HEAP_DROPPING);
    (void)run(&heap, 5 + SECOND_US);
    assert_int_equal(heap_return_turn(&heap, 6 + 2 * SECOND_US, 90 * MIB), INT64_MAX); /* once */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_memory_goes_back_a_piece_in_a_turn),
        cmocka_unit_test(what_is_used_stays_and_what_was_dropped_can_be_used),
        cmocka_unit_test(it_waits_until_far_less_is_used_for_a_second),
    };
    heap_return_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
