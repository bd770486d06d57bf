/*
 * The heap of ready jobs against searching all of them for the first; and the page, a heap too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/ready_heap.h"
#include "core/top_k.h"

enum { JOBS = 400, STEPS = 20000 };

static uint64_t below(uint64_t *random, uint64_t bound) /* splitmix64 */
{
    uint64_t mix = *random += 0x9e3779b97f4a7c15ull;
    mix = (mix ^ mix >> 30) * 0xbf58476d1ce4e5b9ull;
    mix = (mix ^ mix >> 27) * 0x94d049bb133111ebull;
    return (mix ^ mix >> 31) % bound;
}

static uint32_t first_of(const struct pool *jobs, const bool *in)
{
    uint32_t first = POOL_NONE;
    for (uint32_t i = 0; i < JOBS; i++) {
        if (in[i] &&
            (first == POOL_NONE || ready_heap_before(pool_at(jobs, i), pool_at(jobs, first))))
            first = i;
    }
    return first;
}

/* Of the heap: each of the first ones, in order, and no other. */
static void check_next(const struct ready_heap *queue, const struct pool *jobs, const bool *in)
{
    uint32_t numbers[READY_HEAP_NEXT_MAX], before = 0;
    uint32_t count = ready_heap_next(queue, jobs, numbers, READY_HEAP_NEXT_MAX);
    uint32_t most = queue->count < READY_HEAP_NEXT_MAX ? queue->count : READY_HEAP_NEXT_MAX;
    assert_int_equal(count, most);
    for (uint32_t i = 1; i < count; i++)
        assert_true(ready_heap_before(pool_at(jobs, numbers[i - 1]), pool_at(jobs, numbers[i])));
    for (uint32_t i = 0; i < JOBS && count > 0; i++)
        before += in[i] && ready_heap_before(pool_at(jobs, i), pool_at(jobs, numbers[count - 1]));
    assert_int_equal(before, count ? count - 1 : 0);
}

static void the_first_is_always_the_first_of_all(void **state)
{
    (void)state;
    uint64_t random = 1;
    struct pool jobs;
    struct ready_heap queue = {0};
    bool in[JOBS] = {false};
    pool_init(&jobs, sizeof(struct job));
    for (uint32_t i = 0; i < JOBS; i++)
        ((struct job *)pool_at(&jobs, pool_take(&jobs)))->seq = JOBS - i;
    for (int step = 0; step < STEPS; step++) {
        uint32_t number = (uint32_t)below(&random, JOBS);
        struct job *job = pool_at(&jobs, number);
        if (in[number]) {
            ready_heap_remove(&queue, &jobs, number);
        } else {
            job->priority = (uint32_t)below(&random, 3);
            job->due_us = (int64_t)below(&random, 5) - 2;
            ready_heap_add(&queue, &jobs, number);
        }
        in[number] = !in[number];
        ready_heap_valid(&queue, &jobs);
        assert_int_equal(ready_heap_first(&queue), first_of(&jobs, in));
        if (step % 16 == 0)
            check_next(&queue, &jobs, in);
    }
    for (uint32_t number; (number = ready_heap_first(&queue)) != POOL_NONE;)
        ready_heap_remove(&queue, &jobs, number);
    ready_heap_fini(&queue);
    pool_fini(&jobs);
    assert_int_equal(mem_used(), 0);
}

/* Of a large one little is empty: a sixteenth when it has just grown, an eighth while it shrinks.
 */
static void a_burst_gives_its_memory_back(void **state)
{
    (void)state;
    struct pool jobs;
    struct ready_heap queue = {0};
    pool_init(&jobs, sizeof(struct job));
    for (uint32_t i = 0; i < 100000; i++) {
        uint32_t number = pool_take(&jobs);
        ((struct job *)pool_at(&jobs, number))->seq = i + 1;
        ready_heap_add(&queue, &jobs, number);
    }
    assert_true(queue.cap <= 106250);
    for (uint32_t i = 0; i < 100000; i++) {
        assert_int_equal(ready_heap_first(&queue), i); /* equal otherwise: in order of arrival */
        ready_heap_remove(&queue, &jobs, i);
        assert_true(queue.cap <= 1024 || queue.cap - queue.cap / 16 * 2 <= queue.count);
    }
    assert_true(queue.cap <= 64);
    ready_heap_fini(&queue);
    pool_fini(&jobs);
}

static bool earlier(const void *ctx, const struct top_k_entry *a, const struct top_k_entry *b)
{
    (void)ctx;
    return a->due_us != b->due_us ? a->due_us < b->due_us : a->seq < b->seq;
}

static void a_page_holds_the_first_in_order(void **state)
{
    (void)state;
    uint64_t random = 3;
    for (uint32_t max = 1; max < 200; max += 7) {
        for (uint32_t offered = 0; offered < 300; offered += 37) {
            struct top_k page;
            top_k_init(&page, max, earlier, NULL);
            uint32_t step = 1 + 2 * (uint32_t)below(&random, 50);
            for (uint32_t i = 0; i < offered; i++) {
                uint32_t due = (i * step + 3) % 512;
                top_k_offer(&page, &(struct top_k_entry){.due_us = due, .seq = i});
            }
            top_k_sort(&page);
            assert_int_equal(page.count, offered < max ? offered : max);
            assert_int_equal(page.more, offered > max);
            for (uint32_t i = 1; i < page.count; i++)
                assert_true(earlier(NULL, &page.entries[i - 1], &page.entries[i]));
            uint32_t below_last = 0; /* whatever was left out comes after the last one shown */
            for (uint32_t i = 0; i < offered && page.more; i++)
                below_last += (i * step + 3) % 512 <= page.entries[page.count - 1].due_us;
            assert_true(!page.more || below_last == page.count);
            top_k_fini(&page);
        }
    }
    assert_int_equal(mem_used(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_always_the_first_of_all),
        cmocka_unit_test(a_burst_gives_its_memory_back),
        cmocka_unit_test(a_page_holds_the_first_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
