/*
 * A reader of settings for tests of dispatch/: words between spaces, "http://host/path" is a
 * target, and so on. The real one (proto/settings) has its own tests.
 */
#ifndef LATERD_TEST_SETTINGS_DOUBLE_H
#define LATERD_TEST_SETTINGS_DOUBLE_H

#include <stdio.h>

#include "core/job.h"
#include "proto/settings/topic_settings.h"

static inline uint64_t double_number(struct bytes word, size_t from)
{
    uint64_t number = 0;
    (void)bytes_to_u64(bytes_of(word.at + from, word.len - from), &number);
    return number;
}

static inline bool double_word(struct bytes word, struct arena *scratch,
                               struct topic_settings *settings)
{
    struct target *target = &settings->target;
    if (bytes_starts(word, BYTES("http"))) {
        target->type = TARGET_HTTP;
        target->http.url = arena_copy(scratch, word);
        target->http.success_first = 200;
        target->http.success_last = 299;
    } else if (bytes_starts(word, BYTES("own"))) { /* each job has its own URL */
        target->type = TARGET_HTTP;
    } else if (bytes_starts(word, BYTES("amqp="))) {
        target->type = TARGET_AMQP;
        target->broker = arena_copy(scratch, bytes_of(word.at + 5, word.len - 5));
    } else if (bytes_starts(word, BYTES("retry="))) { /* milliseconds; may come several times */
        settings->has_retry = true;
        settings->retry.waits_us[settings->retry.count++] = (int64_t)double_number(word, 6) * 1000;
    } else if (bytes_starts(word, BYTES("once"))) {
        settings->has_retry = true;
    } else if (bytes_starts(word, BYTES("attempts="))) {
        settings->attempts_max = (uint16_t)double_number(word, 9);
    } else if (bytes_starts(word, BYTES("jitter="))) {
        settings->jitter_permille = (uint16_t)double_number(word, 7);
    } else if (bytes_starts(word, BYTES("concurrency="))) {
        settings->concurrency = (uint32_t)double_number(word, 12);
    } else if (bytes_starts(word, BYTES("rate="))) { /* a second */
        settings->rate_count = (uint32_t)double_number(word, 5);
        settings->rate_us = 1000000;
    } else if (bytes_starts(word, BYTES("burst="))) {
        settings->burst = (uint32_t)double_number(word, 6);
    } else if (bytes_starts(word, BYTES("bykey"))) {
        settings->order = ORDER_BY_KEY;
    } else if (bytes_starts(word, BYTES("paused"))) {
        settings->paused = true;
    } else {
        return false;
    }
    return true;
}

static inline enum err double_read(struct bytes text, struct arena *scratch,
                                   struct topic_settings *out_settings,
                                   struct settings_problem *out_problem)
{
    struct topic_settings settings = {0};
    for (size_t from = 0, to = 0; to <= text.len; to++) {
        if (to < text.len && text.at[to] != ' ')
            continue;
        if (to > from && !double_word(bytes_of(text.at + from, to - from), scratch, &settings)) {
            (void)snprintf(out_problem->field, sizeof(out_problem->field), "word");
            return ERR_INVALID;
        }
        from = to + 1;
    }
    *out_settings = settings;
    return OK;
}

#endif
