/*
 * What JSON and HTTP cost: decoding a push of a 256-byte body by our reader and by jansson, and the
 * whole way of a request through proto/: parse, route, decode, encode the answer. Prints
 * nanoseconds per operation, the best of five rounds (noise only ever adds).
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "proto/api/api.h"
#include "proto/json.h"

enum { OPERATIONS = 300000, ROUNDS = 5 };

static char body[512];
static char request[1024];

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with this clock */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static size_t read_ours(void)
{
    struct json json;
    struct json_value name, value;
    struct arena arena = {0};
    size_t sum = 0;
    json_init(&json, bytes_str(body), 32);
    CHECK(json_open(&json, JSON_KIND_OBJECT));
    while (json_member(&json, &name, &value))
        sum += value.kind == JSON_KIND_STRING ? json_text(&value, &arena).len : value.text.len;
    CHECK(json_end(&json));
    arena_fini(&arena);
    return sum;
}

static size_t read_jansson(void)
{
    json_error_t error;
    json_t *root = json_loads(body, 0, &error);
    CHECK(root);
    size_t sum = json_string_length(json_object_get(root, "topic")) +
                 json_string_length(json_object_get(root, "id")) +
                 json_string_length(json_object_get(root, "body")) +
                 (size_t)json_integer_value(json_object_get(root, "delay")) +
                 (size_t)json_integer_value(json_object_get(root, "ttr"));
    json_decref(root);
    return sum;
}

static struct http1 http;
static struct arena scratch;
static struct buf out;

static const struct api_limits limits = {
    .body_bytes = 1 << 20, .json_depth = 32, .ttr_max_us = INT64_MAX};

static size_t parse_http(void)
{
    size_t used;
    CHECK(http1_feed(&http, bytes_str(request), &used) == HTTP_READY);
    http1_next(&http);
    return used;
}

static size_t whole_request(void)
{
    size_t used;
    struct call call;
    CHECK(http1_feed(&http, bytes_str(request), &used) == HTTP_READY);
    arena_reset(&scratch);
    api_decode(&(struct api_site){.root = DIALECT_DELAY_QUEUE}, &limits, &http.request,
               INT64_C(1700000000000000), &scratch, &call);
    CHECK(call.kind == CALL_CMD);
    struct reply reply = {.kind = CMD_PUSH};
    out.len = 0;
    api_reply(&call.format, &reply, 0, BYTES("Sun, 06 Nov 1994 08:49:37 GMT"), &out);
    http1_next(&http);
    return out.len;
}

static void measure(const char *name, size_t (*operation)(void))
{
    int64_t best_ns = INT64_MAX;
    size_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t start_ns = now_ns();
        for (int i = 0; i < OPERATIONS; i++)
            sum += operation();
        int64_t took_ns = now_ns() - start_ns;
        if (took_ns < best_ns)
            best_ns = took_ns;
    }
    printf("%-44s %5lld ns  (%zu)\n", name, (long long)(best_ns / OPERATIONS), sum % 10);
}

int main(void)
{
    const struct http_limits http_limits = {
        .line_bytes = 8192, .headers = 64, .header_bytes = 16384, .body_bytes = 1 << 21};
    char text[257];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    (void)snprintf(body, sizeof(body),
                   "{\"topic\":\"orders\",\"id\":\"15702398321\",\"delay\":3600,\"ttr\":120,"
                   "\"body\":\"%s\"}",
                   text); /* it fits */
    (void)snprintf(request, sizeof(request),
                   "POST /push HTTP/1.1\r\nHost: 127.0.0.1:9277\r\nUser-Agent: bench/1.0\r\n"
                   "Accept: */*\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                   strlen(body), body); /* it fits */
    http1_init(&http, &http_limits);
    measure("JSON of a push, our reader", read_ours);
    measure("JSON of a push, jansson", read_jansson);
    measure("HTTP head and body", parse_http);
    measure("whole push: parse, route, decode, answer", whole_request);
    http1_fini(&http);
    arena_fini(&scratch);
    buf_fini(&out);
    return 0;
}
