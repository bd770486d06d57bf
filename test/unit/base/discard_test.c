/* Large buffers are given back a piece at a time, small ones at once. */
#include "base/discard.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/mem.h"

enum {
    PIECE = DISCARD_PIECE_BYTES,
    ROUNDED_BYTES = 64 * 1024, /* of all blocks together, by the allocator */
};

static struct buf filled(size_t bytes)
{
    struct buf buf = {0};
    buf_reserve_to(&buf, bytes, bytes);
    memset(buf.at, 7, bytes);
    buf.len = bytes;
    return buf;
}

static void a_small_buffer_goes_at_once(void **state)
{
    (void)state;
    struct discard discard = {0};
    size_t before = mem_used();
    struct buf buf = filled(1000);
    discard_buf(&discard, &buf);
    assert_true(buf.at == NULL && buf.cap == 0);
    assert_int_equal(mem_used(), before);
    assert_false(discard_step(&discard));
}

static void large_ones_go_a_piece_a_step(void **state)
{
    (void)state;
    enum { FIRST = 5, SECOND = 3 };
    struct discard discard = {0};
    size_t before = mem_used();
    struct buf first = filled((size_t)FIRST * PIECE + 1), second = filled((size_t)SECOND * PIECE);
    discard_buf(&discard, &first);
    discard_buf(&discard, &second);
    unsigned steps = 0;
    size_t used = mem_used();
    assert_int_equal(discard.bytes, (size_t)(FIRST + SECOND) * PIECE + 1);
    for (bool more = true; more; steps++) {
        more = discard_step(&discard);
        assert_in_range(mem_used() - before, discard.bytes, discard.bytes + ROUNDED_BYTES);
        assert_true(mem_used() <= used && used - mem_used() <= (size_t)PIECE + 64 * 1024);
        used = mem_used();
    }
    assert_int_equal(mem_used(), before);
    assert_int_equal(discard.bytes, 0);
    assert_true(steps >= FIRST + SECOND && steps <= FIRST + SECOND + 2);
}

static void the_end_gives_back_all(void **state)
{
    (void)state;
    struct discard discard = {0};
    size_t before = mem_used();
    struct buf first = filled(4 * (size_t)PIECE), second = filled(2 * (size_t)PIECE);
    discard_buf(&discard, &first);
    discard_buf(&discard, &second);
    (void)discard_step(&discard);
    assert_true(discard.bytes > 0);
    discard_fini(&discard);
    assert_int_equal(discard.bytes, 0);
    assert_int_equal(mem_used(), before);
}

/* As many pieces as a budget allows, and one if it allows nothing. */
static void pieces_go_until_the_budget_is_spent(void **state)
{
    (void)state;
    struct discard discard = {0};
    struct buf buf = filled(20 * (size_t)PIECE);
    struct budget budget = {0};
    assert_false(discard_some(&discard, &budget));
    discard_buf(&discard, &buf);
    assert_true(discard_some(&discard, &budget));
    assert_int_equal(discard.bytes, 19 * (size_t)PIECE);
    assert_true(budget_spent(&budget));
    budget_begin(&budget, 500 * 1000);
    assert_true(discard_some(&discard, &budget));
    assert_in_range(discard.bytes, 10 * (size_t)PIECE, 17 * (size_t)PIECE);
    assert_true(budget_spent(&budget));
    budget_begin(&budget, BUDGET_UNLIMITED);
    assert_false(discard_some(&discard, &budget));
    assert_int_equal(discard.bytes, 0);
}

/* Blocks of an arena, of which many are no larger than a piece. */
static void an_arena_goes_a_piece_a_step(void **state)
{
    (void)state;
    struct discard discard = {0};
    struct arena arena = {0};
    size_t before = mem_used();
    for (unsigned i = 0; i < 10 * 1000; i++)
        (void)arena_alloc(&arena, 1000);
    size_t used = mem_used();
    arena_reset_deferred(&arena, &discard);
    assert_true(arena.held > 0 && used - mem_used() <= (size_t)PIECE);
    arena_fini_deferred(&arena, &discard);
    assert_true(used - mem_used() <= (size_t)PIECE);
    unsigned steps = 0;
    used = mem_used();
    for (bool more = true; more; steps++) {
        more = discard_step(&discard);
        assert_true(mem_used() < used && used - mem_used() <= (size_t)PIECE + 64 * 1024);
        used = mem_used();
    }
    assert_int_equal(mem_used(), before);
    assert_in_range(steps, 10, 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_buffer_goes_at_once),
        cmocka_unit_test(large_ones_go_a_piece_a_step),
        cmocka_unit_test(pieces_go_until_the_budget_is_spent),
        cmocka_unit_test(the_end_gives_back_all),
        cmocka_unit_test(an_arena_goes_a_piece_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
