/* The JSON reader and writer: what is taken, what is refused, what values say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/json.h"

enum { DEPTH = 8 };

/* NULL: the text is one JSON value. */
static const char *flaw(const char *text)
{
    struct json json;
    struct json_value value;
    json_init(&json, bytes_str(text), DEPTH);
    return json_value(&json, &value) && json_end(&json) ? NULL : json.wrong;
}

static void well_formed_texts_are_taken(void **state)
{
    (void)state;
    static const char *const texts[] = {"null",
                                        "true",
                                        "false",
                                        "0",
                                        "-0",
                                        "12",
                                        "-1.5",
                                        "1e3",
                                        "1E-3",
                                        "1.5e+10",
                                        "\"\"",
                                        "\"a\"",
                                        "\"\\u0041\\n\\\"\\\\\\/\\b\\f\\r\\t\"",
                                        "\"\\ud83d\\ude00\"",
                                        "\"é😀\"",
                                        "\"\x7f\"",
                                        "[]",
                                        "{}",
                                        "[ ]",
                                        "{ }",
                                        "[1,2]",
                                        "[[[]]]",
                                        "{\"a\":{\"b\":[1,{}]}}",
                                        " \t\r\n1 \t\r\n",
                                        "{\"a\":1,\"a\":2}",
                                        "[[[[[[[[1]]]]]]]]",
                                        "123456789012345678901234567890",
                                        "\"a long string of plain ASCII, past eight bytes\""};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (flaw(texts[i]))
            fail_msg("%s: %s", texts[i], flaw(texts[i]));
    }
}

/* One flaw each. */
static const char *const malformed[] = {"",
                                        " ",
                                        "nul",
                                        "nulll",
                                        "True",
                                        "tru",
                                        "+1",
                                        "01",
                                        "-",
                                        "-a",
                                        "1.",
                                        ".5",
                                        "1e",
                                        "1e+",
                                        "0x1",
                                        "1 2",
                                        "NaN",
                                        "Infinity",
                                        "-Infinity",
                                        "'a'",
                                        "\"",
                                        "\"a",
                                        "\"\\",
                                        "\"\\x\"",
                                        "\"\\u\"",
                                        "\"\\u12\"",
                                        "\"\\u12g4\"",
                                        "\"\\ud800\"",
                                        "\"\\ud800x\"",
                                        "\"\\ud800\\n\"",
                                        "\"\\ud800\\u0041\"",
                                        "\"\\udc00\"",
                                        "\"\\udc00\\ud800\"",
                                        "\"\n\"",
                                        "\"\t\"",
                                        "\"\x01\"",
                                        "\"\x80\"",
                                        "\"\xc0\x80\"",
                                        "\"\xed\xa0\x80\"",
                                        "\"\xf4\x90\x80\x80\"",
                                        "\"\xe2\x82\"",
                                        "\"\xff\"",
                                        "[",
                                        "]",
                                        "[1",
                                        "[1,",
                                        "[1,]",
                                        "[,1]",
                                        "[1 2]",
                                        "[1}",
                                        "{",
                                        "}",
                                        "{\"a\"",
                                        "{\"a\":",
                                        "{\"a\":1",
                                        "{\"a\":1,",
                                        "{\"a\":1,}",
                                        "{a:1}",
                                        "{\"a\" 1}",
                                        "{1:1}",
                                        "{,}",
                                        "{\"a\":1]",
                                        "{\"a\":1 \"b\":2}",
                                        "[1]]",
                                        "{}{}",
                                        "// a\n1",
                                        "1 // a",
                                        "/* a */ 1",
                                        "[[[[[[[[[1]]]]]]]]]",
                                        "\xef\xbb\xbf\x31",
                                        "{\"\xff\":1}",
                                        "[\"a\":1]"};

static void malformed_texts_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        if (!flaw(malformed[i]))
            fail_msg("taken: %s", malformed[i]);
    }
}

/* Strings are read in blocks: a byte is judged the same wherever it is, behind any number of
 * blocks.
 */
static void a_byte_of_a_string_is_judged_anywhere(void **state)
{
    (void)state;
    char text[64];
    for (size_t len = 3; len <= sizeof(text); len++) {
        for (size_t i = 1; i + 1 < len; i++) {
            for (int c = 0; c < 256; c++) {
                struct json json;
                struct json_value value;
                memset(text, 'a', len);
                text[0] = text[len - 1] = '"';
                text[i] = (char)c;
                json_init(&json, bytes_of(text, len), 8);
                bool good = json_value(&json, &value) && json_end(&json);
                bool plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
                if (good != plain || (good && value.text.len != len - 2))
                    fail_msg("byte %d at %zu of %zu", c, i, len);
            }
        }
    }
}

static void depth_is_limited_the_same_entered_or_skipped(void **state)
{
    (void)state;
    struct json json;
    struct json_value value;
    json_init(&json, BYTES("[[[1]]]"), 2);
    assert_true(json_open(&json, JSON_KIND_ARRAY));
    assert_false(json_item(&json, &value));
    assert_non_null(strstr(json.wrong, "limits.json_depth"));
    json_init(&json, BYTES("[[[1]]]"), 3);
    assert_true(json_open(&json, JSON_KIND_ARRAY));
    assert_true(json_item(&json, &value));
    assert_false(json_item(&json, &value));
    assert_true(json_end(&json));
}

static void a_million_brackets_do_no_harm(void **state)
{
    (void)state;
    size_t len = 1000000;
    char *text = malloc(len);
    struct json json;
    struct json_value value;
    assert_non_null(text);
    memset(text, '[', len);
    json_init(&json, bytes_of(text, len), UINT32_MAX);
    assert_false(json_value(&json, &value));
    free(text);
}

static void members_come_in_order_with_their_text(void **state)
{
    (void)state;
    struct json json;
    struct json_value name, value;
    struct arena arena = {0};
    json_init(&json, BYTES(" { \"a\" : [1, 2] , \"\\u0062\":\"x\\ny\" } "), DEPTH);
    assert_true(json_open(&json, JSON_KIND_OBJECT));
    assert_true(json_member(&json, &name, &value));
    assert_true(bytes_eq(json_text(&name, &arena), BYTES("a")));
    assert_int_equal(value.kind, JSON_KIND_ARRAY);
    assert_true(bytes_eq(value.text, BYTES("[1, 2]")));
    assert_true(json_member(&json, &name, &value));
    assert_true(bytes_eq(json_text(&name, &arena), BYTES("b")));
    assert_true(bytes_eq(json_text(&value, &arena), BYTES("x\ny")));
    assert_false(json_member(&json, &name, &value));
    assert_true(json_end(&json));
    arena_fini(&arena);
}

static void strings_mean_what_their_escapes_say(void **state)
{
    (void)state;
    const struct {
        const char *text;
        struct bytes means;
    } cases[] = {
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", BYTES("\"\\/\b\f\n\r\t")},
        {"\"\\u0000\"", {"\0", 1}},
        {"\"a\\u00e9b\"", BYTES("aéb")},
        {"\"\\u20ac\"", BYTES("€")},
        {"\"\\ud83d\\uDE00\"", BYTES("😀")},
        {"\"\\uffff\"", BYTES("\xef\xbf\xbf")},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct json json;
        struct json_value value;
        struct arena arena = {0};
        json_init(&json, bytes_str(cases[i].text), DEPTH);
        assert_true(json_value(&json, &value));
        assert_true(bytes_eq(json_text(&value, &arena), cases[i].means));
        arena_fini(&arena);
    }
}

static void halves_of_pairs_are_taken_on_request(void **state)
{
    (void)state;
    const struct {
        const char *text;
        struct bytes means;
    } cases[] = {
        {"\"\\ud800\"", BYTES("\xef\xbf\xbd")},
        {"\"\\udc00x\"", BYTES("\xef\xbf\xbdx")},
        {"\"\\ud83d\\u0041\"", BYTES("\xef\xbf\xbd\x41")},
        {"\"\\ud83d\\ud83d\\ude00\"", BYTES("\xef\xbf\xbd😀")},
        {"\"\\udbff\\n\"", BYTES("\xef\xbf\xbd\n")},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct json json;
        struct json_value value;
        struct arena arena = {0};
        assert_non_null(flaw(cases[i].text));
        json_init(&json, bytes_str(cases[i].text), DEPTH);
        json.takes_halves = true;
        assert_true(json_value(&json, &value) && json_end(&json));
        assert_true(bytes_eq(json_text(&value, &arena), cases[i].means));
        arena_fini(&arena);
    }
}

static void only_integers_that_fit_are_integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        int64_t number;
    } cases[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"7", true, 7},
        {"-7", true, -7},
        {"1.0", false, 0},
        {"1e3", false, 0},
        {"\"1\"", false, 0},
        {"null", false, 0},
        {"9223372036854775807", true, INT64_MAX},
        {"9223372036854775808", false, 0},
        {"-9223372036854775808", true, INT64_MIN},
        {"-9223372036854775809", false, 0},
        {"99999999999999999999999", false, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct json json;
        struct json_value value;
        int64_t number = 0;
        json_init(&json, bytes_str(cases[i].text), DEPTH);
        assert_true(json_value(&json, &value));
        assert_int_equal(json_int(&value, &number), cases[i].good);
        assert_int_equal(number, cases[i].number);
    }
}

static void the_writer_escapes_what_it_must(void **state)
{
    (void)state;
    const struct {
        struct bytes text;
        const char *plain, *html;
    } cases[] = {
        {{NULL, 0}, "\"\"", "\"\""},
        {BYTES("a\"b\\c/"), "\"a\\\"b\\\\c/\"", "\"a\\\"b\\\\c/\""},
        {BYTES("\n\r\t\b\f\x1f\x7f"), "\"\\n\\r\\t\\u0008\\u000c\\u001f\x7f\"",
         "\"\\n\\r\\t\\u0008\\u000c\\u001f\x7f\""},
        {BYTES("<a>&é😀"), "\"<a>&é😀\"", "\"\\u003ca\\u003e\\u0026é😀\""},
        {BYTES("\xe2\x80\xa8\xe2\x80\xa9\xe2\x82\xac"), "\"\xe2\x80\xa8\xe2\x80\xa9€\"",
         "\"\\u2028\\u2029€\""},
        {BYTES("a\xff\xe2\x82z"), "\"a\\ufffd\\ufffd\\ufffdz\"", "\"a\\ufffd\\ufffd\\ufffdz\""},
    };
    struct buf out = {0};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        out.len = 0;
        json_add_text(&out, cases[i].text, JSON_STYLE_PLAIN);
        assert_true(bytes_eq(buf_bytes(&out), bytes_str(cases[i].plain)));
        out.len = 0;
        json_add_text(&out, cases[i].text, JSON_STYLE_HTML);
        assert_true(bytes_eq(buf_bytes(&out), bytes_str(cases[i].html)));
    }
    buf_fini(&out);
}

/* ---- the writer beside one that writes a character at a time ---- */

static void add_character(struct buf *out, struct bytes c, enum json_style style)
{
    unsigned char first = (unsigned char)c.at[0];
    bool html = style == JSON_STYLE_HTML;
    if (first == '"' || first == '\\')
        buf_addf(out, "\\%c", first);
    else if (first == '\n' || first == '\r' || first == '\t')
        buf_addf(out, "\\%c", first == '\n' ? 'n' : first == '\r' ? 'r' : 't');
    else if (first < ' ' || (html && (first == '<' || first == '>' || first == '&')))
        buf_addf(out, "\\u%04x", first);
    else if (html && bytes_eq(c, BYTES("\u2028")))
        buf_add_str(out, "\\u2028");
    else if (html && bytes_eq(c, BYTES("\u2029")))
        buf_add_str(out, "\\u2029");
    else
        buf_add_bytes(out, c);
}

static void add_slowly(struct buf *out, struct bytes text, enum json_style style)
{
    buf_add_char(out, '"');
    while (text.len) {
        size_t len = 1;
        while (len <= 4 && len <= text.len && !bytes_is_utf8(bytes_of(text.at, len)))
            len++;
        if (len > 4 || len > text.len) {
            buf_add_str(out, "\\ufffd");
            len = 1;
        } else {
            add_character(out, bytes_of(text.at, len), style);
        }
        text = bytes_of(text.at + len, text.len - len);
    }
    buf_add_char(out, '"');
}

/* From memory of just this size, so that reading past its end is found. */
static void is_written_as_slowly(struct bytes text)
{
    static const enum json_style styles[] = {JSON_STYLE_PLAIN, JSON_STYLE_HTML};
    char *copy = malloc(text.len + 1);
    assert_non_null(copy);
    bytes_put(copy + 1, text);
    for (size_t i = 0; i < 2; i++) {
        struct buf out = {0}, expected = {0};
        json_add_text(&out, bytes_of(copy + 1, text.len), styles[i]);
        add_slowly(&expected, text, styles[i]);
        if (!bytes_eq(buf_bytes(&out), buf_bytes(&expected)))
            fail_msg("style %zu: %zu bytes, written as %zu instead of %zu", i, text.len, out.len,
                     expected.len);
        buf_fini(&out);
        buf_fini(&expected);
    }
    free(copy);
}

static void every_byte_is_written_right_anywhere(void **state)
{
    (void)state;
    char text[50];
    for (size_t len = 1; len <= sizeof(text); len++) {
        memset(text, 'a', len);
        for (size_t i = 0; i < len; i++) {
            for (int c = 0; c < 256; c++) {
                text[i] = (char)c;
                is_written_as_slowly(bytes_of(text, len));
            }
            text[i] = 'a';
        }
    }
}

/* Of pieces that are rare in some texts and frequent in others; some are longer than the writer
   reserves room for at once. */
static void any_text_is_written_right(void **state)
{
    static const char *const pieces[] = {"\"",     "\\",   "\n",       "\x01", "\x7f",     "<",
                                         ">",      "&",    "é",        "€",    "😀",        "\u2028",
                                         "\u2029", "\xff", "\xe2\x80", "\xe2", "\xed\xa0", "/"};
    enum { PIECES = sizeof(pieces) / sizeof(pieces[0]) };
    uint64_t random = 1;
    (void)state;
    for (unsigned round = 0; round < 20000; round++) {
        struct buf text = {0};
        unsigned one_in = 1u << round % 8;
        size_t len = round % 500 == 0 ? 4096 - 8 + round / 500 : round / 7 % 70;
        while (text.len < len) {
            random = random * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX */
            unsigned choice = (unsigned)(random >> 40);
            if (choice % one_in == 0)
                buf_add_str(&text, pieces[choice / one_in % PIECES]);
            else
                buf_add_char(&text, (char)(' ' + choice % 95));
        }
        is_written_as_slowly(buf_bytes(&text));
        buf_fini(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(well_formed_texts_are_taken),
        cmocka_unit_test(malformed_texts_are_refused),
        cmocka_unit_test(a_byte_of_a_string_is_judged_anywhere),
        cmocka_unit_test(depth_is_limited_the_same_entered_or_skipped),
        cmocka_unit_test(a_million_brackets_do_no_harm),
        cmocka_unit_test(members_come_in_order_with_their_text),
        cmocka_unit_test(strings_mean_what_their_escapes_say),
        cmocka_unit_test(halves_of_pairs_are_taken_on_request),
        cmocka_unit_test(only_integers_that_fit_are_integers),
        cmocka_unit_test(the_writer_escapes_what_it_must),
        cmocka_unit_test(every_byte_is_written_right_anywhere),
        cmocka_unit_test(any_text_is_written_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
