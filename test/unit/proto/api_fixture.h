/* A request as the dialects see it, and their answers as text: shared by the api tests. */
#ifndef LATERD_TEST_API_FIXTURE_H
#define LATERD_TEST_API_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/api/api.h"

#define NOW_US    INT64_C(1700000000123456)
#define SECOND_US INT64_C(1000000)

static int64_t eight_hours_east(int64_t at_us)
{
    (void)at_us; /* as in Shanghai, which sets no clocks */
    return 8 * 3600 * SECOND_US;
}

static const struct api_limits fixture_limits = {
    .body_bytes = 100,
    .json_depth = 8,
    .batch_jobs = 5,
    .reserve_topics = 3,
    .wait_us = 600 * SECOND_US,
    .block_us = 178 * SECOND_US,
    .ttr_us = 60 * SECOND_US,
    .ttr_max_us = 86400 * SECOND_US,
    .east_us = eight_hours_east,
};

static struct arena fixture_arena;
static struct buf fixture_out;

struct ask {
    enum http_method method;
    const char *target; /* path and query */
    const char *type;   /* Content-Type, or NULL */
    bool compressed;    /* it has a Content-Encoding that says so */
    const char *body;
    bool cross_site;
    const char *host; /* or NULL */
    const char *if_match, *if_none_match;
    const struct api_limits *limits; /* or NULL: fixture_limits */
};

static inline struct bytes text_or_nothing(const char *text)
{
    return text ? bytes_str(text) : bytes_of(NULL, 0);
}

/* The call is good until fixture_done(). */
static inline struct call ask(enum api_dialect dialect, struct ask asked)
{
    struct call call = {.kind = CALL_CMD};
    size_t path_len = strcspn(asked.target, "?");
    struct http_request request = {
        .method = asked.method,
        .target = bytes_str(asked.target),
        .path = bytes_of(asked.target, path_len),
        .query =
            asked.target[path_len] ? bytes_str(asked.target + path_len + 1) : bytes_of(NULL, 0),
        .content_type = text_or_nothing(asked.type),
        .compressed = asked.compressed,
        .body = text_or_nothing(asked.body),
        .keep_alive = true,
        .cross_site = asked.cross_site,
        .host = text_or_nothing(asked.host),
        .if_match = text_or_nothing(asked.if_match),
        .if_none_match = text_or_nothing(asked.if_none_match),
    };
    struct api_site site = {.root = dialect, .hosts = BYTES("queue.example, other.example")};
    const struct api_limits *limits = asked.limits ? asked.limits : &fixture_limits;
    api_decode(&site, limits, &request, NOW_US, &fixture_arena, &call);
    return call;
}

static inline void fixture_done(void)
{
    arena_fini(&fixture_arena);
    buf_fini(&fixture_out);
}

/* Of a group of tests. */
static inline int fixture_tear_down(void **state)
{
    (void)state;
    fixture_done();
    return 0;
}

/* The body of what was answered last, ended by a NUL. */
static inline const char *answered(void)
{
    buf_add_char(&fixture_out, '\0');
    const char *end = strstr(fixture_out.at, "\r\n\r\n");
    assert_non_null(end);
    return end + 4;
}

static inline int status(void)
{
    assert_true(fixture_out.len > 12);
    return (int)strtol(fixture_out.at + 9, NULL, 10);
}

static inline const char *answer(const struct call *call, const struct reply *reply)
{
    fixture_out.len = 0;
    api_reply(&call->format, reply, NOW_US, bytes_of(NULL, 0), &fixture_out);
    return answered();
}

static inline const char *refusal(const struct call *call)
{
    assert_int_equal(call->kind, CALL_PROBLEM);
    fixture_out.len = 0;
    api_problem(&call->format, &call->problem, bytes_of(NULL, 0), &fixture_out);
    return answered();
}

static inline void assert_text(struct bytes got, const char *want)
{
    if (!bytes_eq(got, bytes_str(want)))
        fail_msg("want %s, got %.*s", want, (int)got.len, got.at);
}

#endif
