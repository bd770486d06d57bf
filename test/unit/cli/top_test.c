/* What later top draws: it fits the screen, and the busiest topics are on it. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/screen.h"
#include "cli/text.h"
#include "cli/top_view.h"

static json_t *parsed(const char *text)
{
    json_t *value = json_loads(text, 0, NULL);
    assert_non_null(value);
    return value;
}

static json_t *stats_of(const char *pushed)
{
    char text[1024];
    (void)snprintf(text, sizeof(text),
                   "{\"version\":\"0.1.0\",\"uptime_ms\":5000,\"now_ms\":10000,\"topics\":3,"
                   "\"jobs\":{\"delayed\":123456789,\"ready\":7,\"reserved\":1,\"buried\":2},"
                   "\"due_within\":{\"1m\":1,\"5m\":2,\"1h\":3,\"1d\":4},"
                   "\"lateness_ms\":{\"p50\":0.1,\"p90\":0.2,\"p99\":0.3},"
                   "\"totals\":{\"pushed\":%s,\"reserved\":1,\"finished\":2,\"timeouts\":3,"
                   "\"released\":4,\"deleted\":5,\"buried\":67,\"kicked\":89}}",
                   pushed);
    return parsed(text);
}

static void add_topic(struct busiest *busiest, const char *name, double rate, uint64_t ready)
{
    json_t *topic = json_pack("{ss s{sf} sI}", "name", name, "rates", "pushed", rate, "ready",
                              (json_int_t)ready);
    assert_non_null(topic);
    busiest_add(busiest, topic);
    json_decref(topic);
}

/* The n-th line of a page, without its end. */
static struct bytes line_of(struct bytes page, size_t number)
{
    for (size_t i = 0; i < page.len; i++) {
        const char *end = memchr(page.at + i, '\n', page.len - i);
        size_t len = end ? (size_t)(end - page.at) - i : page.len - i;
        if (number-- == 0)
            return bytes_of(page.at + i, len);
        i += len;
    }
    return BYTES("");
}

static size_t lines_in(struct bytes page)
{
    size_t count = 0;
    for (size_t i = 0; i < page.len; i++)
        count += page.at[i] == '\n';
    return count;
}

static const char *found(const struct buf *page, const char *text)
{
    return memmem(page->at, page->len, text, strlen(text));
}

static void render(struct buf *page, const struct busiest *busiest, struct screen_size size)
{
    json_t *stats = stats_of("1234567890");
    struct top_view view = {.stats = stats, .busiest = busiest, .seen = 3};
    view.before = (struct stats_sample){.at_ms = 9000, .valid = true};
    top_view_add(page, &view, size.columns, size.lines);
    json_decref(stats);
}

static void everything_fits_on_80_columns_and_24_lines(void **state)
{
    struct busiest busiest = {0};
    struct buf page = {0};
    (void)state;
    add_topic(&busiest, "close-orders-that-are-unpaid-after-thirty-minutes", 10, 1);
    add_topic(&busiest, "关闭三十分钟内未支付的订单并且通知客户", 5, 1234567);
    add_topic(&busiest, "mail", 1, 1);
    for (int i = 0; i < 40; i++)
        add_topic(&busiest, "other", 0, 0);
    render(&page, &busiest, (struct screen_size){.columns = 80, .lines = 24});
    assert_in_range(lines_in(buf_bytes(&page)), 20, 24);
    for (size_t i = 0; i < lines_in(buf_bytes(&page)); i++)
        assert_in_range(text_width(line_of(buf_bytes(&page), i)), 0, 80);
    assert_non_null(found(&page, "buried   kicked\n"));
    assert_non_null(found(&page, "totals     1,234M"));
    assert_non_null(found(&page, "      67       89\n"));
    assert_non_null(found(&page, "close-orders-"));
    assert_non_null(found(&page, "…"));
    buf_fini(&page);
    busiest_fini(&busiest);
}

static void rows_of_wide_and_cut_names_end_in_the_same_column(void **state)
{
    struct busiest busiest = {0};
    struct buf page = {0};
    size_t width = 0, rows = 0;
    (void)state;
    add_topic(&busiest, "关闭三十分钟内未支付的订单并且通知客户", 5, 1);
    add_topic(&busiest, "订单", 4, 1);
    add_topic(&busiest, "mail", 3, 1);
    render(&page, &busiest, (struct screen_size){.columns = 80, .lines = 24});
    size_t first = lines_in(buf_bytes(&page)) - 3;
    for (size_t i = first; i < first + 3; i++, rows++) {
        size_t this = text_width(line_of(buf_bytes(&page), i));
        assert_true(rows == 0 || this == width);
        width = this;
    }
    assert_in_range(width, 60, 80);
    buf_fini(&page);
    busiest_fini(&busiest);
}

static void a_narrow_terminal_gets_the_totals_in_two_rows(void **state)
{
    struct busiest busiest = {0};
    struct buf page = {0};
    (void)state;
    add_topic(&busiest, "mail", 3, 1);
    render(&page, &busiest, (struct screen_size){.columns = 60, .lines = 40});
    assert_non_null(found(&page, "pushed reserved finished timeouts\n"));
    assert_non_null(found(&page, "released  deleted   buried   kicked\n"));
    buf_fini(&page);
    busiest_fini(&busiest);
}

static void the_busiest_stand_first_whatever_the_order_in_which_they_come(void **state)
{
    struct busiest busiest = {0};
    char name[32];
    (void)state;
    for (unsigned i = 0; i < 3 * BUSIEST_MAX; i++) {
        unsigned rate = i * 7919 % (3 * BUSIEST_MAX); /* each once */
        (void)snprintf(name, sizeof(name), "t%u", rate);
        add_topic(&busiest, name, rate, 0);
    }
    assert_int_equal(busiest.count, BUSIEST_MAX);
    for (unsigned i = 0; i < BUSIEST_MAX; i++) {
        (void)snprintf(name, sizeof(name), "t%u", 3 * BUSIEST_MAX - 1 - i);
        assert_string_equal(json_string_value(json_object_get(busiest.topics[i], "name")), name);
    }
    busiest_fini(&busiest);
}

static void a_frame_is_cut_at_the_edge_and_never_within_a_character(void **state)
{
    struct buf out = {0};
    (void)state;
    screen_frame(BYTES("abcdef\n中文ab\nx\nhidden\n"),
                 (struct screen_size){.columns = 3, .lines = 3}, &out);
    buf_add_char(&out, '\0');
    /* No wipe behind a full line: it would take its last character with it on some terminals. */
    assert_string_equal(out.at, "\x1b[H"
                                "abc\r\n"
                                "中\x1b[K\r\n"
                                "x\x1b[K");
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_fits_on_80_columns_and_24_lines),
        cmocka_unit_test(rows_of_wide_and_cut_names_end_in_the_same_column),
        cmocka_unit_test(a_narrow_terminal_gets_the_totals_in_two_rows),
        cmocka_unit_test(the_busiest_stand_first_whatever_the_order_in_which_they_come),
        cmocka_unit_test(a_frame_is_cut_at_the_edge_and_never_within_a_character),
    };
    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* as later has it */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
