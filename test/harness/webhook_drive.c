/*
 * Sends webhooks by the sink alone, without a server, for tests: a delivery is a line of JSON on
 * standard input, its outcome a line on standard output, in the order in which they end. The
 * arguments are those of [push], as name=value. At the end of the input the sink is closed, with a
 * grace of `grace_ms`.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mem.h"
#include "os/clock.h"
#include "os/loop.h"
#include "sink/webhook.h"

struct parcel {
    struct delivery delivery;
    struct target target;
    struct target_header headers[TARGET_HEADERS_MAX];
    json_t *json;
};

static struct sink *sink;
static unsigned under_way, done_count;
static bool ended;

static struct bytes text(const json_t *json, const char *name)
{
    const json_t *value = json_object_get(json, name);
    if (!json_is_string(value))
        return (struct bytes){0};
    return bytes_of(json_string_value(value), json_string_length(value));
}

static long long number(const json_t *json, const char *name, long long otherwise)
{
    const json_t *value = json_object_get(json, name);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static void job_done(struct delivery *delivery, const struct outcome *outcome)
{
    static const char *const kinds[] = {"delivered", "failed", "refused", "gone", "unsent"};
    struct parcel *parcel = LIST_ENTRY(delivery, struct parcel, delivery);
    struct buf response = {0};
    for (size_t i = 0; i < outcome->response.len; i++)
        buf_addf(&response, "%02x", (unsigned)(unsigned char)outcome->response.at[i]);
    buf_add_char(&response, '\0');
    json_t *line = json_pack(
        "{s:s%, s:s, s:i, s:b, s:I, s:I, s:s%, s:s%, s:s}", "id", delivery->id.at, delivery->id.len,
        "kind", kinds[outcome->kind], "code", outcome->code, "unhealthy", outcome->unhealthy,
        "retry_after_us", (json_int_t)outcome->retry_after_us, "took_us",
        (json_int_t)outcome->took_us, "address", outcome->address.len ? outcome->address.at : "",
        outcome->address.len, "reason", outcome->reason.len ? outcome->reason.at : "",
        outcome->reason.len, "response", response.at);
    buf_fini(&response);
    (void)json_dumpf(line, stdout, JSON_COMPACT);
    (void)putchar('\n');
    (void)fflush(stdout);
    json_decref(line);
    json_decref(parcel->json);
    mem_free(parcel);
    under_way--;
    done_count++;
}

static uint8_t read_headers(const json_t *json, struct target_header *headers)
{
    uint8_t count = 0;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)json, name, value)
    {
        headers[count++] =
            (struct target_header){bytes_str(name), bytes_str(json_string_value(value))};
    }
    return count;
}

static void read_http(const json_t *json, struct target_http *http)
{
    size_t i;
    json_t *value;
    http->unix_socket = text(json, "unix_socket");
    http->success_first = (uint16_t)number(json, "success_first", 200);
    http->success_last = (uint16_t)number(json, "success_last", 299);
    http->success_body = text(json, "success_body");
    http->encoding = number(json, "cloudevents", 0) ? ENCODING_CLOUDEVENTS : ENCODING_PLAIN;
    http->event_type = text(json, "event_type");
    http->ca = text(json, "ca");
    http->certificate = text(json, "certificate");
    http->key = text(json, "key_file");
    json_array_foreach(json_object_get(json, "sign"), i, value)
    {
        http->sign[http->sign_count++] = bytes_str(json_string_value(value));
    }
    json_array_foreach(json_object_get(json, "bury_on"), i, value)
    {
        http->bury_on[http->bury_on_count++] = (uint16_t)json_integer_value(value);
    }
}

static void send_line(const char *line)
{
    json_error_t error;
    struct parcel *parcel = mem_zalloc(sizeof(*parcel));
    const json_t *json = parcel->json = json_loads(line, JSON_ALLOW_NUL, &error);
    if (!json) {
        (void)fprintf(stderr, "driver: %s\n", error.text);
        exit(2);
    }
    parcel->target.type = TARGET_HTTP;
    read_http(json, &parcel->target.http);
    parcel->target.header_count =
        read_headers(json_object_get(json, "target_headers"), parcel->target.headers);
    struct bytes id = text(json, "id"), topic = text(json, "topic");
    parcel->delivery = (struct delivery){
        .done = job_done,
        .target = &parcel->target,
        .url = text(json, "url"),
        .headers = parcel->headers,
        .header_count = read_headers(json_object_get(json, "headers"), parcel->headers),
        .topic = topic.len ? topic : BYTES("t"),
        .id = id,
        .content_type = text(json, "content_type"),
        .body = text(json, "body"),
        .body_kind = number(json, "json", 0) ? BODY_JSON : BODY_BYTES,
        .message_id = text(json, "message_id").len ? text(json, "message_id") : BYTES("msg_1"),
        .attempt = (uint32_t)number(json, "attempt", 1),
        .due_us = number(json, "due_us", 0),
        .timeout_us = number(json, "timeout_us", 0),
    };
    under_way++;
    sink->verbs->send(sink, &parcel->delivery);
}

/* ---- the input ---- */

static struct buf input;

static void read_input(struct watch *watch, unsigned what)
{
    char room[65536];
    (void)what;
    ssize_t len = read(watch->fd, room, sizeof(room));
    if (len <= 0)
        ended = true;
    else
        buf_add(&input, room, (size_t)len);
    char *end;
    while (input.len && (end = memchr(input.at, '\n', input.len))) {
        *end = '\0';
        send_line(input.at);
        buf_drop(&input, (size_t)(end - input.at) + 1);
    }
}

static const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
    size_t len = strlen(name);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], name, len) == 0 && argv[i][len] == '=')
            return argv[i] + len + 1;
    }
    return otherwise;
}

static int64_t option_ms(int argc, char **argv, const char *name, const char *otherwise)
{
    return (int64_t)strtoll(option(argc, argv, name, otherwise), NULL, 10) * 1000;
}

int main(int argc, char **argv)
{
    static struct os_clock clock;
    static struct address_rule rule;
    struct watch watch = {.ready = read_input, .fd = STDIN_FILENO};
    const char *problem = "";
    os_clock_init(&clock);
    struct os_loop *os_loop = os_loop_new(&clock.clock, 16);
    struct loop *loop = os_loop_port(os_loop);
    char sockets[1024];
    (void)snprintf(sockets, sizeof(sockets), "%s\n", option(argc, argv, "unix_sockets", ""));
    if (address_rule_add_allow(&rule, bytes_str(option(argc, argv, "allow", "")), &problem) ||
        address_rule_set_ports(&rule, bytes_str(option(argc, argv, "ports", "1+")), &problem)) {
        (void)fprintf(stderr, "driver: %s\n", problem);
        return 2;
    }
    struct webhook_options options = {
        .loop = loop,
        .rule = &rule,
        .timeout_us = option_ms(argc, argv, "timeout_ms", "15000"),
        .connect_timeout_us = option_ms(argc, argv, "connect_timeout_ms", "5000"),
        .response_bytes = strtoull(option(argc, argv, "response_bytes", "65536"), NULL, 10),
        .proxy = option(argc, argv, "proxy", ""),
        .unix_sockets = sockets,
        .idle_connections = 512,
    };
    sink = webhook_new(&options);
    enum err err = loop->verbs->watch(loop, &watch, LOOP_READ);
    CHECK(sink && !err);
    while (!ended)
        loop_turn(loop, loop->now_us + 1000000);
    (void)loop->verbs->watch(loop, &watch, 0);
    const char *why = "";
    bool ready = sink->verbs->ready(sink, &why);
    (void)fprintf(stderr, "driver: ready=%d %s\n", ready, why);
    (void)fprintf(stderr, "driver: mem_used=%zu\n", mem_used());
    sink->verbs->close(sink, option_ms(argc, argv, "grace_ms", "60000"));
    CHECK(under_way == 0);
    os_loop_free(os_loop);
    buf_fini(&input);
    return 0;
}
