/*
 * The words that everything is written in: bytes, buffers, arenas, pools.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/ascii.h"
#include "base/backoff.h"
#include "base/blocks.h"
#include "base/bytes.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/rfc3339.h"
#include "base/take_until.h"
#include "base/time_us.h"

static void numbers_must_be_digits_and_fit(void **state)
{
    (void)state;
    uint64_t number = 5;
    assert_true(bytes_to_u64(BYTES("18446744073709551615"), &number));
    assert_true(number == UINT64_MAX);
    assert_true(bytes_to_u64(BYTES("007"), &number));
    assert_int_equal(number, 7);
    assert_true(bytes_to_u64(BYTES("18446744073709551609"), &number));
    assert_true(number == UINT64_MAX - 6);
    assert_true(bytes_to_u64(BYTES("00000000000000000007"), &number));
    static const char *const bad[] = {"",
                                      "18446744073709551616",
                                      "18446744073709551620",
                                      "99999999999999999999",
                                      "1844674407370955161/",
                                      "1844674407370955161:",
                                      "+1",
                                      "-1",
                                      " 1",
                                      "1 ",
                                      "1\xb0",
                                      "0x1",
                                      "000000000000000000001"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(bytes_to_u64(bytes_str(bad[i]), &number));
        assert_int_equal(number, 7); /* untouched on failure */
    }
}

static void bytes_compare_as_unsigned_and_shorter_first(void **state)
{
    (void)state;
    assert_true(bytes_cmp(BYTES("a"), BYTES("b")) < 0);
    assert_true(bytes_cmp(BYTES("a"), BYTES("ab")) < 0);
    assert_true(bytes_cmp(BYTES("\xff"), BYTES("a")) > 0);
    assert_true(bytes_cmp((struct bytes){0}, BYTES("")) == 0);
    assert_true(bytes_eq((struct bytes){0}, BYTES("")));
    assert_true(bytes_eq_nocase(BYTES("Content-Length"), BYTES("content-lENGTH")));
    assert_false(bytes_eq_nocase(BYTES("[\\]"), BYTES("{|}"))); /* only letters have cases */
    assert_true(bytes_starts(BYTES("abc"), BYTES("ab")));
    assert_false(bytes_starts(BYTES("a"), BYTES("ab")));
    assert_true(bytes_starts_nocase(BYTES("ABc"), BYTES("aB")));
    assert_false(bytes_starts_nocase(BYTES("A"), BYTES("aB")));
}

/* Words of eight bytes are compared at a time: a difference is found wherever it is. */
static void two_bytes_are_the_same_letter_or_differ_anywhere(void **state)
{
    (void)state;
    char ours[26], theirs[sizeof(ours)];
    for (size_t len = 1; len <= sizeof(ours); len++) {
        memset(ours, 'm', len);
        memset(theirs, 'M', len);
        for (size_t i = 0; i < len; i++) {
            for (unsigned pair = 0; pair < 256 * 256; pair += i ? 7 : 1) {
                ours[i] = (char)(pair >> 8);
                theirs[i] = (char)pair;
                bool same = ascii_lower(ours[i]) == ascii_lower(theirs[i]);
                if (bytes_eq_nocase(bytes_of(ours, len), bytes_of(theirs, len)) != same)
                    fail_msg("bytes %x at %zu of %zu", pair, i, len);
            }
            ours[i] = theirs[i] = 'm';
        }
    }
}

static void copies_lie_behind_each_other(void **state)
{
    (void)state;
    char room[8] = "";
    struct bytes letters = BYTES("abc"), nothing = {0};
    char *end = bytes_move_to(room, &letters);
    assert_ptr_equal(letters.at, room);
    assert_ptr_equal(bytes_move_to(end, &nothing), end);
    end = bytes_put(end, BYTES("de"));
    assert_ptr_equal(end, room + 5);
    assert_string_equal(room, "abcde");
}

static void percent_encoding_is_decoded_or_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *means; /* NULL: refused */
    } cases[] = {
        {"", ""},      {"a%2Fb%3a", "a/b:"},     {"%41", "A"},       {"1234567", "1234567"},
        {"%", NULL},   {"123456%37", "1234567"}, {"12345678", NULL}, {"1234567%38", NULL},
        {"%4", NULL},  {"a%zz", NULL},           {"%00", NULL},      {"%e4%bd%a0", "\xe4\xbd\xa0"},
        {"%%41", NULL}};
    char room[8];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool good = percent_decode(bytes_str(cases[i].text), room, sizeof(room));
        assert_int_equal(good, cases[i].means != NULL);
        if (good)
            assert_string_equal(room, cases[i].means);
    }
    assert_false(percent_decode(bytes_of("a\0b", 3), room, sizeof(room)));
}

static void a_time_stops_at_never(void **state)
{
    (void)state;
    assert_true(time_add(INT64_MAX - 1, 1) == INT64_MAX);
    assert_true(time_add(INT64_MAX - 1, 2) == INT64_MAX);
    assert_true(time_add(INT64_MAX, INT64_MAX) == INT64_MAX);
    assert_true(time_add(5, -7) == -2);
    assert_true(time_earlier(INT64_MAX, 3) == 3 && time_earlier(-1, 3) == -1);
}

static void a_rest_doubles_until_its_bound(void **state)
{
    (void)state;
    assert_int_equal(backoff_after(100, 5000), 200);
    assert_int_equal(backoff_after(2500, 5000), 5000);
    assert_int_equal(backoff_after(4000, 5000), 5000);
    assert_int_equal(backoff_after(5000, 5000), 5000);
}

static void a_text_is_taken_apart_at_its_marks(void **state)
{
    (void)state;
    struct bytes text = BYTES("a,,b");
    assert_true(bytes_eq(take_until(&text, ','), BYTES("a")) && text.len == 2);
    assert_true(bytes_eq(take_until(&text, ','), BYTES("")) && text.len == 1);
    assert_true(bytes_eq(take_until(&text, ','), BYTES("b")) && text.len == 0);
    assert_true(bytes_eq(take_until(&text, ','), BYTES("")) && text.len == 0);
}

static bool is_utf8(const char *text)
{
    return bytes_is_utf8(bytes_str(text));
}

static void utf8_is_what_rfc_3629_says(void **state)
{
    (void)state;
    static const char *const good[] = {"",
                                       "ascii",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf",
                                       "mixed \xe4\xbb\xbb\xe5\x8a\xa1 text"};
    static const char *const bad[] = {
        "\x80",             /* a continuation alone */
        "\xc0\xaf",         /* overlong in two */
        "\xc1\xbf",         /* the same */
        "\xe0\x9f\xbf",     /* overlong in three */
        "\xed\xa0\x80",     /* a surrogate */
        "\xf0\x8f\xbf\xbf", /* overlong in four */
        "\xf4\x90\x80\x80", /* past the last */
        "\xf5\x80\x80\x80", /* no such start */
        "\xff",             /* nor this */
        "\xe4\xbb",         /* cut off */
        "a\xc2",            /* the same */
        "\xe4\xbbz",        /* broken off */
        "\xf0\x90\x80z",    /* the same */
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(is_utf8(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(is_utf8(bad[i]));
    assert_true(bytes_is_utf8(bytes_of("a\0b", 3))); /* NUL is a character */
}

static void text_without_control_characters_is_printable(void **state)
{
    (void)state;
    assert_true(bytes_is_printable(bytes_str("")));
    assert_true(bytes_is_printable(bytes_str(" ~\xc3\xa4\xff")));
    assert_false(bytes_is_printable(bytes_str("a\n")));
    assert_false(bytes_is_printable(bytes_str("\x1f")));
    assert_false(bytes_is_printable(bytes_str("\x7f")));
    assert_false(bytes_is_printable(bytes_of("a\0b", 3)));
}

/* Words of eight bytes are judged at a time: a wrong byte is found wherever it is. */
static void a_wrong_byte_is_found_anywhere(void **state)
{
    (void)state;
    char text[75];
    for (size_t len = 1; len <= sizeof(text); len++) {
        memset(text, 'a', len);
        assert_true(bytes_is_printable(bytes_of(text, len)));
        assert_int_equal(bytes_utf8_prefix(bytes_of(text, len)), len);
        for (size_t i = 0; i < len; i++) {
            for (int c = 0; c < 256; c++) {
                text[i] = (char)c;
                if (bytes_is_printable(bytes_of(text, len)) == (c < ' ' || c == 0x7f))
                    fail_msg("byte %d at %zu of %zu", c, i, len);
            }
            text[i] = '\xff';
            assert_int_equal(bytes_utf8_prefix(bytes_of(text, len)), i);
            text[i] = 'a';
        }
    }
}

/* Every one- and two-byte start is judged as decoding it would. */
static void every_two_byte_sequence_is_judged_right(void **state)
{
    (void)state;
    for (unsigned first = 0; first < 256; first++) {
        for (unsigned second = 0; second < 256; second++) {
            char text[2] = {(char)first, (char)second};
            bool ascii = first < 0x80 && second < 0x80;
            bool pair = first >= 0xc2 && first <= 0xdf && second >= 0x80 && second <= 0xbf;
            assert_int_equal(bytes_is_utf8(bytes_of(text, 2)), ascii || pair);
        }
    }
}

/* Around each power of ten, where a number gets another digit. */
static void numbers_are_written_as_printf_writes_them(void **state)
{
    (void)state;
    uint64_t power = 1;
    for (int digits = 1; digits <= 20; digits++, power *= 10) {
        for (uint64_t number = power - 1; number <= power + 1; number++) {
            char expected[24];
            struct buf buf = {0};
            buf_add_u64(&buf, number);
            (void)snprintf(expected, sizeof(expected), "%" PRIu64, number);
            assert_true(bytes_eq(buf_bytes(&buf), bytes_str(expected)));
            buf_fini(&buf);
        }
    }
}

/* Every 86,413 s: all hours, minutes, seconds, days of the year, leap years. */
static void moments_are_written_as_strftime_writes_them(void **state)
{
    (void)state;
    static const int64_t fractions_us[] = {0, 7000, 120000, 999000, 1, 10, 100, 999999};
    struct buf buf = {0};
    int64_t count = 0;
    for (int64_t second = 0; second < INT64_C(4102444800); second += 86413, count++) {
        char text[24], expected[40];
        struct tm date;
        time_t at = second;
        int64_t fraction_us = fractions_us[count % 8];
        assert_true(strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", gmtime_r(&at, &date)) == 19);
        bool whole_ms = fraction_us % 1000 == 0;
        (void)snprintf(expected, sizeof(expected), "%s.%0*dZ", text, whole_ms ? 3 : 6,
                       (int)(whole_ms ? fraction_us / 1000 : fraction_us));
        buf.len = 0;
        rfc3339_add(&buf, second * 1000000 + fraction_us);
        assert_true(bytes_eq(buf_bytes(&buf), bytes_str(expected)));
    }
    buf_fini(&buf);
}

static void a_buffer_grows_and_forgets(void **state)
{
    (void)state;
    struct buf buf = {0};
    buf_add_str(&buf, "n=");
    buf_add_u64(&buf, UINT64_MAX);
    buf_add_char(&buf, ' ');
    buf_add_i64(&buf, INT64_MIN);
    buf_add_char(&buf, ' ');
    buf_add_u64(&buf, 0);
    buf_addf(&buf, " %s-%d", "x", 7);
    assert_true(
        bytes_eq(buf_bytes(&buf), BYTES("n=18446744073709551615 -9223372036854775808 0 x-7")));
    buf_drop(&buf, 2);
    assert_true(bytes_starts(buf_bytes(&buf), BYTES("1844")));
    buf_drop(&buf, buf.len);
    assert_int_equal(buf.len, 0);
    for (int i = 0; i < 100000; i++)
        buf_add(&buf, "0123456789", 10);
    assert_int_equal(buf.len, 1000000);
    assert_memory_equal(buf.at + 999990, "0123456789", 10);
    size_t cap = buf.cap;
    buf_shrink(&buf, 1000);
    assert_int_equal(buf.cap, cap); /* it is not empty */
    buf.len = 0;
    buf_shrink(&buf, 1000);
    assert_true(buf.cap <= 1000);
    buf_fini(&buf);
    buf_fini(&buf); /* freeing a zeroed one does nothing */
    assert_int_equal(mem_used(), 0);
}

static void an_arena_gives_aligned_rooms_that_do_not_overlap(void **state)
{
    (void)state;
    struct arena arena = {0};
    for (int round = 0; round < 3; round++) {
        unsigned char *rooms[300];
        for (size_t i = 0; i < 300; i++) {
            size_t size = i * i % 5000;
            rooms[i] = arena_alloc(&arena, size);
            assert_int_equal((uintptr_t)rooms[i] % 16, 0);
            memset(rooms[i], (int)i & 0xff, size);
        }
        for (size_t i = 0; i < 300; i++) {
            for (size_t at = 0; at < i * i % 5000; at++)
                assert_int_equal(rooms[i][at], i & 0xff);
        }
        arena_reset(&arena);
    }
    (void)arena_alloc(&arena, 8 << 20); /* a large one is not kept */
    arena_reset(&arena);
    assert_true(mem_used() <= (1 << 20) + 4096);
    struct bytes copy = arena_copy(&arena, BYTES("text"));
    assert_true(bytes_eq(copy, BYTES("text")));
    arena_fini(&arena);
    assert_int_equal(mem_used(), 0);
}

static void pages_are_zeroed_counted_and_given_back(void **state)
{
    (void)state;
    char *pages = mem_pages(10000);
    size_t used = mem_used();
    assert_true(used >= 12288 && used < 16384);
    for (size_t i = 0; i < 12288; i++)
        assert_int_equal(pages[i], 0);
    memset(pages, 1, 12288);
    mem_pages_free(pages, 10000);
    mem_pages_free(NULL, 10000);
    assert_int_equal(mem_used(), 0);
}

static void pages_keep_their_bytes_when_there_are_more_or_fewer(void **state)
{
    enum { SMALL = 3 * 4096, LARGE = 300 * 4096 };
    (void)state;
    char *beside, *pages = mem_pages(SMALL);
    memset(pages, 1, SMALL);
    beside = mem_pages(SMALL); /* there may be no room for more at the same address */
    pages = mem_pages_resize(pages, SMALL, LARGE);
    for (size_t i = 0; i < LARGE; i++)
        assert_int_equal(pages[i], i < SMALL);
    assert_true(mem_used() >= LARGE + SMALL && mem_used() < LARGE + SMALL + 8192);
    memset(pages, 2, LARGE);
    pages = mem_pages_resize(pages, LARGE, 4096);
    for (size_t i = 0; i < 4096; i++)
        assert_int_equal(pages[i], 2);
    pages = mem_pages_resize(pages, 4096, SMALL);
    for (size_t i = 0; i < SMALL; i++)
        assert_int_equal(pages[i], i < 4096 ? 2 : 0);
    mem_pages_free(pages, SMALL);
    mem_pages_free(beside, SMALL);
    assert_int_equal(mem_used(), 0);
}

struct object {
    uint64_t words[5];
};

enum { OBJECTS = 3 * 4096 }; /* in three chunks */

static void a_pool_gives_zeroed_objects_and_uses_numbers_again(void **state)
{
    (void)state;
    struct pool pool;
    pool_init(&pool, sizeof(struct object));
    for (uint32_t i = 0; i < OBJECTS; i++) {
        assert_int_equal(pool_take(&pool), i);
        struct object *object = pool_at(&pool, i);
        for (int word = 0; word < 5; word++)
            assert_int_equal(object->words[word], 0);
        memset(object, 0xee, sizeof(*object));
    }
    struct object *first = pool_at(&pool, 0);
    for (uint32_t i = 0; i < 100; i++)
        pool_give(&pool, i * 7);
    pool_valid(&pool);
    assert_int_equal(pool.count, OBJECTS - 100);
    for (uint32_t i = 0; i < 100; i++) {
        struct object *object = pool_at(&pool, pool_take(&pool));
        assert_int_equal(object->words[0], 0);
        assert_int_equal(object->words[4], 0);
    }
    assert_int_equal(pool.chunk_count, 3);      /* no new number */
    assert_ptr_equal(pool_at(&pool, 0), first); /* objects never move */
    pool_fini(&pool);
    assert_int_equal(mem_used(), 0);
}

static void p8_a_pool_gives_empty_chunks_back_one_at_a_time(void **state)
{
    (void)state;
    struct pool pool;
    pool_init(&pool, sizeof(struct object));
    uint32_t keeper = 0;
    for (uint32_t i = 0; i < OBJECTS; i++)
        (void)pool_take(&pool);
    size_t full = mem_used();
    for (uint32_t i = 0; i < OBJECTS; i++) {
        if (i != keeper)
            pool_give(&pool, i);
    }
    ((struct object *)pool_at(&pool, keeper))->words[4] = 42;
    pool_valid(&pool);
    assert_int_equal(mem_used(), full); /* the caller says when */
    assert_true(pool_has_spare(&pool));
    assert_false(pool_trim(&pool)); /* one empty chunk is kept */
    assert_false(pool_trim(&pool));
    pool_valid(&pool);
    assert_true(mem_used() <= full - 4096 * sizeof(struct object));
    assert_true(mem_used() >= full - 4097 * sizeof(struct object));
    assert_int_equal(((struct object *)pool_at(&pool, keeper))->words[4], 42);
    pool_give(&pool, keeper);
    assert_false(pool_trim(&pool));
    for (uint32_t i = 0; i < OBJECTS; i++) /* what was given back comes again, under its numbers */
        assert_true(pool_take(&pool) < OBJECTS);
    assert_int_equal(mem_used(), full);
    pool_valid(&pool);
    pool_fini(&pool);
    assert_int_equal(mem_used(), 0);
}

static void new_objects_fill_the_chunk_that_was_begun(void **state)
{
    (void)state;
    struct pool pool;
    pool_init(&pool, sizeof(struct object));
    for (uint32_t i = 0; i < OBJECTS; i++)
        (void)pool_take(&pool);
    for (uint32_t i = 0; i < OBJECTS; i += 2)
        pool_give(&pool, i);
    uint32_t chunk = pool_take(&pool) >> pool.bits;
    for (uint32_t i = 1; i < 4096 / 2; i++)
        assert_int_equal(pool_take(&pool) >> pool.bits, chunk);
    pool_fini(&pool);
}

/* Objects of 12, 16, … 44 bytes, each filled to its end with a mark of its own. */
static void objects_of_several_sizes_share_numbers_and_keep_apart(void **state)
{
    enum { SIZES = 9, MOST = 60000, STEPS = 300000 };
    static uint8_t marks[MOST + SIZES * 4096]; /* 0: not live */
    (void)state;
    struct pool pool;
    uint64_t random = 5;
    pool_init_sizes(&pool, 12, 4, SIZES);
    memset(marks, 0, sizeof(marks));
    for (uint32_t step = 0; step < STEPS; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint32_t size = (uint32_t)(random >> 40) % SIZES;
        uint32_t number = (uint32_t)(random >> 20) % (uint32_t)sizeof(marks);
        bool growing = step / 50000 % 2 == 0;
        if (growing && pool.count < MOST) {
            number = pool_take_sized(&pool, size);
            assert_true(number < sizeof(marks) && !marks[number] && number < pool_end(&pool));
            assert_int_equal(pool_bytes_of(&pool, number), 12 + 4 * size);
            marks[number] = (uint8_t)(1 + step % 255);
            memset(pool_at(&pool, number), marks[number], 12 + 4 * (size_t)size);
        } else if (marks[number]) {
            const uint8_t *object = pool_at(&pool, number);
            assert_int_equal(object[4], marks[number]);
            assert_int_equal(object[pool_bytes_of(&pool, number) - 1], marks[number]);
            pool_give(&pool, number);
            marks[number] = 0;
        }
        if (step % 5000 == 0) /* else spare chunks wait for objects of other sizes */
            (void)pool_trim(&pool);
        if (step % 10000 == 0)
            pool_valid(&pool);
    }
    for (uint32_t i = 0; i < sizeof(marks); i++)
        if (marks[i])
            pool_give(&pool, i);
    assert_true(pool_has_spare(&pool)); /* of all sizes */
    for (uint32_t i = 0; i < 3 * 4096; i++) {
        uint32_t number = pool_take_sized(&pool, SIZES - 1);
        assert_int_equal(pool_bytes_of(&pool, number), 12 + 4 * (SIZES - 1));
    }
    pool_valid(&pool);
    while (pool_trim(&pool))
        ;
    pool_valid(&pool);
    assert_int_equal(pool.count, 3 * 4096);
    pool_fini(&pool);
    assert_int_equal(mem_used(), 0);
}

/* So that who had many objects once is not refused after that. */
static void a_pool_that_was_full_and_was_emptied_fits_as_many_again(void **state)
{
    enum { SIZES = 3, NUMBERS = 8 * 4096 };
    static uint32_t taken[NUMBERS];
    (void)state;
    struct pool pool;
    uint32_t most = 0;
    pool_init_sizes(&pool, 12, 4, SIZES);
    for (int round = 0; round < 3; round++) {
        uint32_t count = 0;
        for (; pool_fits(&pool, NUMBERS); count++) {
            taken[count] = pool_take_sized(&pool, count % SIZES);
            assert_true(taken[count] < NUMBERS);
        }
        most = round == 0 ? count : most;
        assert_in_range(count, NUMBERS / 4, NUMBERS);
        assert_int_equal(count, most);
        assert_in_range(pool_end(&pool), 0, NUMBERS);
        pool_valid(&pool);
        while (count > 0)
            pool_give(&pool, taken[--count]);
        while (pool_trim(&pool))
            ;
    }
    pool_fini(&pool);
    assert_int_equal(mem_used(), 0);
}

/* Random takes, gives and trims against an array of what lives. */
static void going_through_a_pool_shows_every_live_object_and_none_without_memory(void **state)
{
    (void)state;
    static bool lives[OBJECTS];
    struct pool pool;
    uint64_t random = 1;
    memset(lives, 0, sizeof(lives));
    pool_init(&pool, sizeof(struct object));
    for (int step = 0; step < 200000; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint32_t number = (uint32_t)(random >> 40) % OBJECTS;
        bool growing = step / 40000 % 2 == 0;
        if (lives[number] && (!growing || step % 3 == 0)) {
            ((struct object *)pool_at(&pool, number))->words[1] = 0;
            pool_give(&pool, number);
            lives[number] = false;
        } else if (growing && pool.count < OBJECTS) {
            number = pool_take(&pool);
            assert_true(number < OBJECTS && !lives[number]);
            ((struct object *)pool_at(&pool, number))->words[1] = 1;
            lives[number] = true;
        }
        (void)pool_trim(&pool);
        if (step % 10000)
            continue;
        uint32_t seen = 0;
        for (uint32_t i = pool_next(&pool, 0); i != POOL_NONE; i = pool_next(&pool, i + 1)) {
            assert_true(pool_has(&pool, i));
            bool live = ((const struct object *)pool_at(&pool, i))->words[1] == 1;
            assert_int_equal(live, lives[i]);
            seen += live;
        }
        assert_int_equal(seen, pool.count);
        pool_valid(&pool);
    }
    pool_fini(&pool);
    assert_int_equal(mem_used(), 0);
}

static void a_set_of_blocks_has_blocks_of_every_size_and_gives_them_back(void **state)
{
    (void)state;
    static uint64_t handles[5000];
    struct blocks blocks;
    blocks_init(&blocks);
    for (size_t size = 1; size < 5000; size++) {
        handles[size] = blocks_take(&blocks, size);
        assert_true(handles[size] != 0);
        assert_int_equal((uintptr_t)blocks_at(&blocks, handles[size]) % 8, 0);
        memset(blocks_at(&blocks, handles[size]), (int)size, size);
    }
    for (size_t size = 1; size < 5000; size++) {
        const unsigned char *at = blocks_at(&blocks, handles[size]);
        assert_int_equal(at[0], (unsigned char)size);
        assert_int_equal(at[size - 1], (unsigned char)size);
        blocks_give(&blocks, handles[size]);
    }
    for (unsigned size = 1; size < BLOCKS_SIZES; size++) {
        uint32_t bytes = blocks.pools[size].size_bytes, less = blocks.pools[size - 1].size_bytes;
        assert_true(bytes > less && bytes * 4 <= less * 5);
    }
    while (blocks_trim(&blocks))
        continue;
    assert_int_equal(blocks.spare, 0);
    assert_true(mem_used() < BLOCKS_SIZES * ((size_t)600 << 10));
    blocks_fini(&blocks);
    assert_int_equal(mem_used(), 0);
}

static void what_others_say_makes_no_lines_in_the_log(void **state)
{
    static const char expected[] = "error=\"a\\x0ab\\x0d\\x1b[31m\\x7f \xc3\xa9\\\" x=\\\"\\\\\"\n";
    char line[256];
    int ends[2], before = dup(STDERR_FILENO);
    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    log_event(LOG_ERROR, "away", "error=\"%s\"", "a\nb\r\x1b[31m\x7f \xc3\xa9\" x=\"\\");
    assert_int_equal(dup2(before, STDERR_FILENO), STDERR_FILENO);
    ssize_t len = read(ends[0], line, sizeof(line));
    assert_true(len > 0);
    assert_ptr_equal(memchr(line, '\n', (size_t)len), line + len - 1);
    assert_non_null(memmem(line, (size_t)len, expected, sizeof(expected) - 1));
    (void)close(before);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void a_signal_handler_logs_lines_of_the_same_form(void **state)
{
    char lines[512];
    int ends[2], before = dup(STDERR_FILENO);
    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    log_event(LOG_WARN, "ended", "hint=\"%s\"", "now");
    log_event_in_handler(LOG_WARN, "ended", "hint=\"now\"");
    assert_int_equal(dup2(before, STDERR_FILENO), STDERR_FILENO);
    ssize_t len = read(ends[0], lines, sizeof(lines));
    assert_true(len > 0 && len % 2 == 0);
    size_t half = (size_t)len / 2;
    /* "2026-11-24T23:00:00.123Z": the hours, at least, are the same but once a day */
    assert_memory_equal(lines + 24, lines + half + 24, half - 24);
    for (size_t i = 0; i < 24; i++)
        assert_int_equal(lines[i] >= '0' && lines[i] <= '9',
                         lines[half + i] >= '0' && lines[half + i] <= '9');
    (void)close(before);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void a_line_of_the_log_has_its_numbers_and_is_cut_to_fit(void **state)
{
    static const char expected[] =
        " warn facts a=-5 b=7 c=-8 d=18446744073709551615 e=0755 f=9 g=abc h=de i=%\n";
    char line[2048], text[3000];
    int ends[2], before = dup(STDERR_FILENO);
    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    log_event(LOG_WARN, "facts", "a=%d b=%u c=%lld d=%llu e=%04o f=%zu g=%.3s h=%.*s i=%%", -5, 7u,
              -8LL, 18446744073709551615ULL, 0755u, (size_t)9, "abcd", 2, "def");
    ssize_t len = read(ends[0], line, sizeof(line));
    memset(text, '\n', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_event(LOG_WARN, "long", "text=\"%s\"", text);
    ssize_t long_len = read(ends[0], text, sizeof(text));
    assert_int_equal(dup2(before, STDERR_FILENO), STDERR_FILENO);
    assert_true(len > 0 && long_len > 1000 && long_len <= 1024);
    assert_non_null(memmem(line, (size_t)len, expected, sizeof(expected) - 1));
    assert_memory_equal(text + long_len - 6, "\\x0a\"", 5); /* no half of an escape */
    assert_int_equal(text[long_len - 1], '\n');
    (void)close(before);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_must_be_digits_and_fit),
        cmocka_unit_test(bytes_compare_as_unsigned_and_shorter_first),
        cmocka_unit_test(two_bytes_are_the_same_letter_or_differ_anywhere),
        cmocka_unit_test(copies_lie_behind_each_other),
        cmocka_unit_test(percent_encoding_is_decoded_or_refused),
        cmocka_unit_test(a_time_stops_at_never),
        cmocka_unit_test(a_rest_doubles_until_its_bound),
        cmocka_unit_test(a_text_is_taken_apart_at_its_marks),
        cmocka_unit_test(utf8_is_what_rfc_3629_says),
        cmocka_unit_test(text_without_control_characters_is_printable),
        cmocka_unit_test(a_wrong_byte_is_found_anywhere),
        cmocka_unit_test(every_two_byte_sequence_is_judged_right),
        cmocka_unit_test(numbers_are_written_as_printf_writes_them),
        cmocka_unit_test(moments_are_written_as_strftime_writes_them),
        cmocka_unit_test(a_buffer_grows_and_forgets),
        cmocka_unit_test(an_arena_gives_aligned_rooms_that_do_not_overlap),
        cmocka_unit_test(pages_are_zeroed_counted_and_given_back),
        cmocka_unit_test(pages_keep_their_bytes_when_there_are_more_or_fewer),
        cmocka_unit_test(a_pool_gives_zeroed_objects_and_uses_numbers_again),
        cmocka_unit_test(p8_a_pool_gives_empty_chunks_back_one_at_a_time),
        cmocka_unit_test(new_objects_fill_the_chunk_that_was_begun),
        cmocka_unit_test(objects_of_several_sizes_share_numbers_and_keep_apart),
        cmocka_unit_test(a_pool_that_was_full_and_was_emptied_fits_as_many_again),
        cmocka_unit_test(going_through_a_pool_shows_every_live_object_and_none_without_memory),
        cmocka_unit_test(a_set_of_blocks_has_blocks_of_every_size_and_gives_them_back),
        cmocka_unit_test(what_others_say_makes_no_lines_in_the_log),
        cmocka_unit_test(a_line_of_the_log_has_its_numbers_and_is_cut_to_fit),
        cmocka_unit_test(a_signal_handler_logs_lines_of_the_same_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
