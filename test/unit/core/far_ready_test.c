/*
 * The order of ready jobs that are not in memory, against searching all of them for the first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/far_ready.h"

enum { ENTRIES = 3000, STEPS = 30000 };

static uint64_t below(uint64_t *random, uint64_t bound) /* splitmix64 */
{
    uint64_t mix = *random += 0x9e3779b97f4a7c15ull;
    mix = (mix ^ mix >> 30) * 0xbf58476d1ce4e5b9ull;
    mix = (mix ^ mix >> 27) * 0x94d049bb133111ebull;
    return (mix ^ mix >> 31) % bound;
}

static struct far_ready_entry some_entry(uint64_t *random, uint64_t seq)
{
    return (struct far_ready_entry){.priority = (uint32_t)below(random, 3),
                                    .rank_us = (int64_t)below(random, 5) - 2,
                                    .seq = seq,
                                    .where = seq * 3};
}

/* Is there one in the heap before this one? */
static unsigned count_before(const struct far_ready *heap, const struct far_ready_entry *entry)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < heap->count; i++)
        count += far_ready_precedes(&heap->entries[i], entry);
    return count;
}

static void the_first_is_always_the_first_of_all(void **state)
{
    (void)state;
    uint64_t random = 1;
    struct far_ready heap = {0};
    for (uint64_t step = 1; step <= STEPS; step++) {
        bool grows = heap.count == 0 || (heap.count < ENTRIES && below(&random, 5) > step / 8000);
        struct far_ready_entry entry = some_entry(&random, step);
        if (grows)
            far_ready_add(&heap, &entry);
        else
            far_ready_remove(&heap, (uint32_t)below(&random, heap.count));
        if (step % 50)
            continue;
        far_ready_valid(&heap);
        if (heap.count)
            assert_int_equal(count_before(&heap, &heap.entries[0]), 0);
    }
    while (heap.count) {
        struct far_ready_entry first = heap.entries[0];
        far_ready_remove(&heap, 0);
        assert_true(heap.count == 0 || far_ready_precedes(&first, &heap.entries[0]));
    }
    assert_int_equal(mem_used(), 0); /* an empty one has no memory */
}

static void the_next_ones_come_in_order(void **state)
{
    (void)state;
    uint64_t random = 7;
    struct far_ready heap = {0};
    uint32_t places[FAR_READY_NEXT_MAX];
    assert_int_equal(far_ready_next(&heap, places, FAR_READY_NEXT_MAX), 0);
    for (uint64_t i = 1; i <= 500; i++) {
        struct far_ready_entry entry = some_entry(&random, i);
        far_ready_add(&heap, &entry);
        uint32_t max = (uint32_t)below(&random, FAR_READY_NEXT_MAX + 1);
        uint32_t count = far_ready_next(&heap, places, max);
        assert_int_equal(count, heap.count < max ? heap.count : max);
        for (uint32_t k = 0; k < count; k++)
            assert_int_equal(count_before(&heap, &heap.entries[places[k]]), k);
    }
    far_ready_fini(&heap);
}

static void a_job_does_not_come_behind_its_own_entry(void **state)
{
    (void)state;
    struct job job = {.seq = 5, .priority = 3, .due_us = 70, .created_us = 20};
    struct far_ready_entry entry = {.priority = 3, .rank_us = 70, .seq = 5};
    assert_false(far_ready_before(&entry, &job));
    entry.seq = 4;
    assert_true(far_ready_before(&entry, &job));
    job.order = ORDER_ARRIVAL;
    assert_false(far_ready_before(&entry, &job));
    job.priority = 4;
    assert_true(far_ready_before(&entry, &job));
}

/* A sixteenth is free at most, also when most have left. */
static void p8_an_entry_takes_at_most_30_bytes(void **state)
{
    (void)state;
    struct far_ready heap = {0};
    for (uint64_t seq = 1; seq <= 300000; seq++)
        far_ready_add(&heap, &(struct far_ready_entry){.rank_us = (int64_t)seq, .seq = seq});
    assert_in_range(mem_used() / heap.count, 28, 30);
    while (heap.count > 100000)
        far_ready_remove(&heap, 0);
    assert_in_range(mem_used() / heap.count, 28, 33);
    far_ready_fini(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_always_the_first_of_all),
        cmocka_unit_test(the_next_ones_come_in_order),
        cmocka_unit_test(a_job_does_not_come_behind_its_own_entry),
        cmocka_unit_test(p8_an_entry_takes_at_most_30_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
