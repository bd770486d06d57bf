/* What was read from segments' files stays findable, up to a limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/mem.h"
#include "store/read_cache.h"

enum { PIECE = READ_CACHE_PIECE_BYTES, FIT = READ_CACHE_BYTES / PIECE };

static void add(struct read_cache *cache, uint32_t segment, uint64_t start, uint64_t end)
{
    char *bytes = mem_alloc((size_t)(end - start));
    memset(bytes, (int)segment, (size_t)(end - start));
    read_cache_add(cache, segment, start, end, bytes);
    read_cache_valid(cache);
}

static void what_is_partly_cached_is_not_found(void **state)
{
    struct read_cache cache;
    (void)state;
    read_cache_init(&cache);
    add(&cache, 3, 1000, 2000);
    assert_non_null(read_cache_find(&cache, 3, 1000, 2000));
    assert_non_null(read_cache_find(&cache, 3, 1500, 1501));
    assert_null(read_cache_find(&cache, 3, 999, 1500));
    assert_null(read_cache_find(&cache, 3, 1500, 2001));
    assert_null(read_cache_find(&cache, 4, 1000, 2000));
    read_cache_fini(&cache);
}

static void a_read_is_found_in_both_pieces_that_it_reaches_into(void **state)
{
    struct read_cache cache;
    (void)state;
    read_cache_init(&cache);
    add(&cache, 1, PIECE - 10, PIECE + 10);
    struct cached_read *read = read_cache_find(&cache, 1, PIECE - 10, PIECE);
    assert_non_null(read);
    assert_ptr_equal(read, read_cache_find(&cache, 1, PIECE, PIECE + 10));
    assert_ptr_equal(read, read_cache_find(&cache, 1, PIECE - 1, PIECE + 1));
    read_cache_fini(&cache);
}

static void the_read_that_was_not_used_for_longest_goes_first(void **state)
{
    struct read_cache cache;
    (void)state;
    read_cache_init(&cache);
    for (uint32_t i = 1; i <= FIT; i++)
        add(&cache, i, 0, PIECE);
    assert_int_equal(cache.bytes, READ_CACHE_BYTES);
    read_cache_touch(&cache, read_cache_find(&cache, 1, 0, PIECE));
    add(&cache, FIT + 1, 5, 6);
    assert_null(read_cache_find(&cache, 2, 0, 1));
    assert_non_null(read_cache_find(&cache, 1, 0, 1));
    struct cached_read *last = read_cache_find(&cache, FIT + 1, 5, 6);
    assert_non_null(last);
    assert_int_equal(last->bytes[0], FIT + 1);
    read_cache_fini(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_partly_cached_is_not_found),
        cmocka_unit_test(a_read_is_found_in_both_pieces_that_it_reaches_into),
        cmocka_unit_test(the_read_that_was_not_used_for_longest_goes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
