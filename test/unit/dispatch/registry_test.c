/* dispatch/registry: settings as the engine tells them, read when they are wanted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/list.h"
#include "base/mem.h"
#include "dispatch/registry.h"
#include "test/unit/dispatch/settings_double.h"

struct seen {
    struct registry_listener listener;
    struct registry *registry;
    unsigned calls, with_settings;
    uint64_t version;
};

static void note(struct registry_listener *listener, struct bytes topic, struct settings_kept *kept)
{
    struct seen *seen = LIST_ENTRY(listener, struct seen, listener);
    seen->calls++;
    seen->with_settings += kept != NULL;
    seen->version = kept ? kept->version : 0;
    assert_true(!kept || registry_find(seen->registry, topic, NULL) == &kept->settings);
}

static void begin(struct seen *seen)
{
    *seen = (struct seen){.listener.changed = note};
    seen->registry = registry_new(&(struct registry_options){.hash_key = 7, .read = double_read});
    registry_listen(seen->registry, &seen->listener);
}

static void report(struct seen *seen, const char *topic, uint64_t version, const char *text)
{
    struct settings_observer *observer = registry_observer(seen->registry);
    observer->changed(observer, bytes_str(topic), version, bytes_str(text));
}

static void settings_are_found_at_once_and_told_by_the_step(void **state)
{
    (void)state;
    struct seen seen;
    uint64_t version = 0;
    size_t before = mem_used();
    begin(&seen);
    assert_null(registry_find(seen.registry, BYTES("orders"), NULL));
    report(&seen, "orders", 3, "http://a/ retry=5000 concurrency=4");
    const struct topic_settings *found = registry_find(seen.registry, BYTES("orders"), &version);
    assert_non_null(found);
    assert_int_equal(version, 3);
    assert_int_equal(found->concurrency, 4);
    assert_true(bytes_eq(found->target.http.url, BYTES("http://a/")));
    assert_true(registry_is_pushed(seen.registry, BYTES("orders")));
    assert_int_equal(seen.calls, 0);
    assert_true(registry_wants_step(seen.registry));
    assert_false(registry_step(seen.registry, NULL));
    assert_int_equal(seen.calls, 1);
    assert_int_equal(seen.version, 3);
    report(&seen, "orders", 3, "http://a/ retry=5000 concurrency=4"); /* nothing new */
    assert_false(registry_wants_step(seen.registry));
    registry_free(seen.registry);
    assert_int_equal(mem_used(), before);
}

static void settings_that_are_taken_away_are_gone(void **state)
{
    (void)state;
    struct seen seen;
    struct bytes text;
    uint64_t version;
    begin(&seen);
    report(&seen, "orders", 1, "http://a/");
    (void)registry_step(seen.registry, NULL);
    assert_true(registry_text(seen.registry, BYTES("orders"), &text, &version));
    assert_true(bytes_eq(text, BYTES("http://a/")));
    report(&seen, "orders", 2, "");
    assert_null(registry_find(seen.registry, BYTES("orders"), NULL));
    assert_false(registry_is_pushed(seen.registry, BYTES("orders")));
    assert_false(registry_text(seen.registry, BYTES("orders"), &text, &version));
    assert_int_equal(registry_count(seen.registry), 0);
    (void)registry_step(seen.registry, NULL);
    assert_int_equal(seen.calls, 2);
    assert_int_equal(seen.with_settings, 1);
    registry_free(seen.registry);
}

/* A Redis that failed over or was restored has lost the last change: its engine tells what there is
   now, which has the version that it had. */
static void a_change_that_was_lost_is_taken_back(void **state)
{
    (void)state;
    struct seen seen;
    begin(&seen);
    report(&seen, "orders", 1, "http://a/");
    report(&seen, "orders", 5, "http://b/");
    (void)registry_step(seen.registry, NULL);
    report(&seen, "orders", 1, "http://a/");
    const struct topic_settings *found = registry_find(seen.registry, BYTES("orders"), NULL);
    assert_true(bytes_eq(found->target.http.url, BYTES("http://a/")));
    (void)registry_step(seen.registry, NULL);
    assert_int_equal(seen.version, 1);
    report(&seen, "orders", 1, "http://c/"); /* set since then, with a version that was lost */
    found = registry_find(seen.registry, BYTES("orders"), NULL);
    assert_true(bytes_eq(found->target.http.url, BYTES("http://c/")));
    (void)registry_step(seen.registry, NULL);
    report(&seen, "orders", 2, "http://c/");
    report(&seen, "orders", 1, "http://c/"); /* what changes have to name, "if_version" */
    uint64_t version;
    (void)registry_find(seen.registry, BYTES("orders"), &version);
    assert_int_equal(version, 1);
    (void)registry_step(seen.registry, NULL);
    report(&seen, "orders", 0, ""); /* all is lost */
    assert_false(registry_is_pushed(seen.registry, BYTES("orders")));
    (void)registry_step(seen.registry, NULL);
    assert_int_equal(seen.calls, 5);
    assert_int_equal(registry_count(seen.registry), 0);
    registry_free(seen.registry);
}

static void topics_whose_settings_went_leave_no_memory_behind(void **state)
{
    (void)state;
    enum { TOPICS = 10000 };
    struct seen seen;
    char name[32];
    begin(&seen);
    size_t before = mem_used();
    for (unsigned i = 0; i < 2 * TOPICS; i++) {
        (void)snprintf(name, sizeof(name), "topic-%u", i % TOPICS);
        report(&seen, name, i + 1, i < TOPICS ? "http://a/" : "");
        (void)registry_step(seen.registry, NULL);
    }
    assert_int_equal(seen.calls, 2 * TOPICS);
    assert_true((mem_used() - before) / TOPICS < 64); /* the table keeps its size */
    registry_free(seen.registry);
}

static unsigned readings;

static enum err counted_read(struct bytes text, struct arena *scratch,
                             struct topic_settings *out_settings,
                             struct settings_problem *out_problem)
{
    readings++;
    return double_read(text, scratch, out_settings, out_problem);
}

static void settings_that_are_looked_up_often_are_not_read_again(void **state)
{
    (void)state;
    struct seen seen = {.registry = NULL};
    char name[32];
    seen.registry = registry_new(&(struct registry_options){.hash_key = 7, .read = counted_read});
    report(&seen, "busy", 1, "http://a/");
    for (unsigned i = 0; i < 2 * REGISTRY_KEPT; i++) {
        (void)snprintf(name, sizeof(name), "topic-%u", i);
        report(&seen, name, 1, "http://b/");
        assert_non_null(registry_find(seen.registry, bytes_str(name), NULL));
        assert_non_null(registry_find(seen.registry, BYTES("busy"), NULL));
    }
    unsigned had = readings;
    assert_non_null(registry_find(seen.registry, BYTES("busy"), NULL));
    assert_non_null(registry_find(seen.registry, bytes_str(name), NULL));
    assert_int_equal(readings, had);
    assert_int_equal(had, 2 * (1 + 2 * REGISTRY_KEPT)); /* to learn the size, then for good */
    registry_free(seen.registry);
}

static void what_cannot_be_read_counts_as_none_and_is_shown_as_it_is(void **state)
{
    (void)state;
    struct seen seen;
    struct bytes text;
    uint64_t version;
    begin(&seen);
    report(&seen, "orders", 1, "http://a/ nonsense");
    assert_null(registry_find(seen.registry, BYTES("orders"), NULL));
    assert_false(registry_is_pushed(seen.registry, BYTES("orders")));
    assert_true(registry_text(seen.registry, BYTES("orders"), &text, &version));
    assert_int_equal(version, 1);
    (void)registry_step(seen.registry, NULL);
    assert_int_equal(seen.calls, 1);
    assert_int_equal(seen.with_settings, 0);
    registry_free(seen.registry);
}

static void held_settings_outlive_a_change(void **state)
{
    (void)state;
    struct seen seen;
    size_t before = mem_used();
    begin(&seen);
    report(&seen, "orders", 1, "http://a/");
    struct settings_kept *kept = registry_hold(seen.registry, BYTES("orders"));
    report(&seen, "orders", 2, "http://b/");
    (void)registry_step(seen.registry, NULL);
    assert_true(bytes_eq(kept->settings.target.http.url, BYTES("http://a/")));
    settings_drop(kept);
    registry_free(seen.registry);
    assert_int_equal(mem_used(), before);
}

/* Settings of 100,000 topics: told in slices, and little memory for each. */
static void many_topics_make_no_turn_long(void **state)
{
    (void)state;
    enum { TOPICS = 100000 };
    struct seen seen;
    char name[32];
    begin(&seen);
    size_t before = mem_used();
    for (unsigned i = 0; i < TOPICS; i++) {
        (void)snprintf(name, sizeof(name), "topic-%u", i);
        report(&seen, name, i + 1, "http://example.com/hook concurrency=5");
    }
    unsigned turns = 0;
    bool more = true;
    for (; more; turns++) {
        unsigned had = seen.calls;
        struct budget budget = {.left_ns = 300000};
        more = registry_step(seen.registry, &budget);
        assert_true(seen.calls - had <= 51);
    }
    assert_true(turns > TOPICS / 60);
    assert_int_equal(seen.with_settings, TOPICS);
    assert_true((mem_used() - before) / TOPICS < 300);
    assert_int_equal(registry_count(seen.registry), TOPICS);
    assert_non_null(registry_find(seen.registry, BYTES("topic-77"), NULL)); /* read once more */
    registry_free(seen.registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_found_at_once_and_told_by_the_step),
        cmocka_unit_test(settings_that_are_taken_away_are_gone),
        cmocka_unit_test(a_change_that_was_lost_is_taken_back),
        cmocka_unit_test(topics_whose_settings_went_leave_no_memory_behind),
        cmocka_unit_test(settings_that_are_looked_up_often_are_not_read_again),
        cmocka_unit_test(what_cannot_be_read_counts_as_none_and_is_shown_as_it_is),
        cmocka_unit_test(held_settings_outlive_a_change),
        cmocka_unit_test(many_topics_make_no_turn_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
