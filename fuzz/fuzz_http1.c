/*
 * HTTP/1.1 under random bytes. The oracle: however the stream is cut, the same requests and the
 * same refusal come out. The first byte of the input chooses the cuts.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "proto/http/http1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Small limits, so that the fuzzer reaches them. */
static const struct http_limits limits = {
    .line_bytes = 256, .headers = 8, .header_bytes = 512, .body_bytes = 128};

static void note(struct buf *log, const struct http1 *http, enum http_progress progress)
{
    const struct http_request *request = &http->request;
    if (progress == HTTP_BAD) {
        buf_addf(log, "bad %d %s", http->status, http->reason);
        return;
    }
    buf_addf(log, "%d %d ", request->method, request->keep_alive);
    buf_add_bytes(log, request->target);
    buf_add_char(log, ' ');
    buf_add_bytes(log, request->path);
    buf_add_char(log, ' ');
    buf_add_bytes(log, request->query);
    buf_add_char(log, ' ');
    buf_add_bytes(log, request->host);
    buf_add_char(log, ' ');
    buf_add_bytes(log, request->content_type);
    buf_add_char(log, ' ');
    buf_add_bytes(log, request->body);
    buf_add_char(log, '\n');
}

/* Feeds a piece in memory of its own, so that the sanitizer sees a step past its end. */
static bool feed(struct http1 *http, const uint8_t *at, size_t size, struct buf *log)
{
    char *copy = malloc(size);
    size_t used = 0;
    enum http_progress progress = HTTP_MORE;
    CHECK(copy);
    memcpy(copy, at, size);
    while (used < size && progress != HTTP_BAD) {
        size_t step = 0;
        progress = http1_feed(http, bytes_of(copy + used, size - used), &step);
        used += step;
        CHECK(used <= size);
        CHECK(progress != HTTP_MORE || used == size);
        if (progress == HTTP_READY || progress == HTTP_BAD)
            note(log, http, progress);
        if (progress == HTTP_READY)
            http1_next(http);
    }
    free(copy);
    return progress != HTTP_BAD;
}

/* Pieces of pseudo-random length up to `longest`. */
static void run(const uint8_t *data, size_t size, size_t longest, struct buf *log)
{
    struct http1 http;
    uint32_t seed = (uint32_t)longest;
    bool good = true;
    http1_init(&http, &limits);
    for (size_t at = 0; good && at < size;) {
        seed = seed * 1664525 + 1013904223;
        size_t len = 1 + (seed >> 16) % longest;
        if (len > size - at)
            len = size - at;
        good = feed(&http, data + at, len, log);
        at += len;
    }
    if (good && http1_midway(&http))
        buf_add_str(log, "midway");
    http1_fini(&http);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole = {0}, cut = {0};
    if (size < 2)
        return 0;
    struct http1 http;
    http1_init(&http, &limits);
    if (feed(&http, data + 1, size - 1, &whole) && http1_midway(&http))
        buf_add_str(&whole, "midway");
    http1_fini(&http);
    run(data + 1, size - 1, 1u + data[0], &cut);
    CHECK(bytes_eq(buf_bytes(&whole), buf_bytes(&cut)));
    buf_fini(&whole);
    buf_fini(&cut);
    return 0;
}
