/*
 * The heap of nodes against an array of their keys.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/mem.h"

enum { NODES = 500 };

struct thing {
    struct heap_node node;
    bool in;
};

static uint64_t mixed(uint64_t *random) /* splitmix64 */
{
    uint64_t mix = *random += 0x9e3779b97f4a7c15ull;
    mix = (mix ^ mix >> 30) * 0xbf58476d1ce4e5b9ull;
    mix = (mix ^ mix >> 27) * 0x94d049bb133111ebull;
    return mix ^ mix >> 31;
}

static void check(const struct heap *heap, const struct thing *things)
{
    uint32_t count = 0;
    int64_t least = INT64_MAX;
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(things[i].in, things[i].node.place != 0);
        if (!things[i].in)
            continue;
        count++;
        least = things[i].node.key < least ? things[i].node.key : least;
    }
    assert_int_equal(heap->count, count);
    assert_true(count == 0 ? !heap_first(heap) : heap_first(heap)->key == least);
    heap_valid(heap);
}

static void nodes_come_change_and_leave_and_the_least_is_first(void **state)
{
    (void)state;
    static struct thing things[NODES];
    struct heap heap = {0};
    uint64_t random = 1;
    for (int step = 0; step < 20000; step++) {
        struct thing *thing = &things[mixed(&random) % NODES];
        bool filling = step / 4000 % 2 == 0;
        if (mixed(&random) % 10 < (filling ? 7 : 3)) {
            heap_put(&heap, &thing->node, (int64_t)(mixed(&random) % 100) - 50);
            thing->in = true;
        } else {
            heap_remove(&heap, &thing->node);
            thing->in = false;
        }
        if (step % 50 == 0)
            check(&heap, things);
    }
    int64_t last = INT64_MIN;
    while (heap_first(&heap)) {
        struct thing *first = LIST_ENTRY(heap_first(&heap), struct thing, node);
        assert_true(first->node.key >= last);
        last = first->node.key;
        heap_remove(&heap, &first->node);
        first->in = false;
    }
    check(&heap, things);
    assert_null(heap.nodes); /* an empty one takes no memory */
}

static void keys_may_be_as_low_and_as_high_as_can_be(void **state)
{
    (void)state;
    struct heap heap = {0};
    struct heap_node low = {0}, high = {0};
    heap_put(&heap, &high, INT64_MAX);
    heap_put(&heap, &low, INT64_MIN);
    assert_ptr_equal(heap_first(&heap), &low);
    heap_put(&heap, &low, INT64_MAX);
    heap_put(&heap, &high, 0);
    assert_ptr_equal(heap_first(&heap), &high);
    heap_fini(&heap);
    assert_null(heap_first(&heap));
}

/* Which is why there is a heap. */
static void no_operation_looks_at_many(void **state)
{
    enum { MANY = 100000, STEPS_MAX = 2 * 17 + 17 };
    (void)state;
    struct heap heap = {0};
    struct heap_node *nodes = mem_zalloc(MANY * sizeof(*nodes));
    uint64_t random = 7;
    for (uint32_t i = 0; i < 3 * MANY; i++) {
        uint64_t before = heap.steps;
        struct heap_node *node = i < MANY ? &nodes[i] : &nodes[mixed(&random) % MANY];
        if (i % 3 == 2)
            heap_remove(&heap, node);
        else
            heap_put(&heap, node, (int64_t)(mixed(&random) >> 1));
        assert_true(heap.steps - before <= STEPS_MAX);
    }
    heap_valid(&heap);
    heap_fini(&heap);
    mem_free(nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_come_change_and_leave_and_the_least_is_first),
        cmocka_unit_test(keys_may_be_as_low_and_as_high_as_can_be),
        cmocka_unit_test(no_operation_looks_at_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
