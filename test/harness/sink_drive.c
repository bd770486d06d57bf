/*
 * Drives the sink of one broker without a queue: takes deliveries from tests as lines on standard
 * input, and prints their outcomes on standard output.
 *
 *   sink_drive PLUGIN.so URL [window=N] [timeout=MS] [ca=FILE]
 *
 *   send ID EXCHANGE KEY BODY     a delivery; "-" is the empty text
 *   kept ID HEX BODY              one that came by [amqp_in]: delivery::amqp
 *   many N EXCHANGE KEY BYTES     N of them, ids 1 … N; then "many N delivered failed other us"
 *   close MS                      closes the sink, with so much grace; ends
 *
 *   ready 1 | ready 0 WHY         whenever it changes
 *   done ID KIND REASON           delivered, failed, refused, gone, unsent
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mem.h"
#include "os/clock.h"
#include "os/loop.h"
#include "os/signals.h"
#include "sink/plugin.h"

enum { LINE_BYTES = 1 << 20 };

struct shipment {
    struct delivery delivery;
    struct target target;
    char text[]; /* of its line */
};

struct flood {
    unsigned wanted, sent, counts[OUTCOME_KINDS], done;
    int64_t begun_us;
    char exchange[128], key[128], *body;
    size_t body_len;
};

static struct loop *loop;
static struct sink *sink;
static int64_t timeout_us = 10000000;
static struct flood flood;
static unsigned in_flight;

static const char *const kinds[] = {"delivered", "failed", "refused", "gone", "unsent"};

static void told(struct delivery *delivery, const struct outcome *outcome)
{
    struct shipment *shipment = LIST_ENTRY(delivery, struct shipment, delivery);
    in_flight--;
    (void)printf("done %.*s %s %.*s\n", (int)delivery->id.len, delivery->id.at,
                 kinds[outcome->kind], (int)outcome->reason.len, outcome->reason.at);
    (void)fflush(stdout);
    mem_free(shipment);
}

static void counted(struct delivery *delivery, const struct outcome *outcome)
{
    in_flight--;
    flood.counts[outcome->kind]++;
    flood.done++;
    mem_free(LIST_ENTRY(delivery, struct shipment, delivery));
}

static void changed(struct sink *of)
{
    const char *why = "";
    bool ready = of->verbs->ready(of, &why);
    (void)printf("ready %d%s%s\n", ready, ready ? "" : " ", ready ? "" : why);
    (void)fflush(stdout);
}

static struct bytes word(const char *text)
{
    return strcmp(text, "-") == 0 ? bytes_of("", 0) : bytes_str(text);
}

static struct shipment *shipment_new(const char *id, const char *exchange, const char *key)
{
    struct shipment *shipment = mem_zalloc(sizeof(*shipment) + LINE_BYTES / 64);
    struct delivery *delivery = &shipment->delivery;
    (void)snprintf(shipment->text, LINE_BYTES / 64, "%s", id);
    shipment->target.type = TARGET_AMQP;
    shipment->target.amqp.exchange = word(exchange);
    shipment->target.amqp.routing_key = word(key);
    *delivery = (struct delivery){.done = told,
                                  .target = &shipment->target,
                                  .topic = BYTES("orders"),
                                  .key = BYTES("k7"),
                                  .id = bytes_str(shipment->text),
                                  .message_id = bytes_str(shipment->text),
                                  .attempt = 1,
                                  .due_us = 1800000000000000,
                                  .timeout_us = timeout_us};
    in_flight++;
    return shipment;
}

/* Copies what must stay until the outcome into memory that is not freed: a test is short. */
static void send_line(char *words)
{
    char *id = strtok_r(words, " ", &words), *exchange = strtok_r(NULL, " ", &words);
    char *key = strtok_r(NULL, " ", &words), *body = words;
    struct shipment *shipment = shipment_new(id, strdup(exchange), strdup(key));
    shipment->delivery.body = bytes_str(strdup(body));
    sink->verbs->send(sink, &shipment->delivery);
}

static void send_kept(char *words)
{
    char *id = strtok_r(words, " ", &words), *hex = strtok_r(NULL, " ", &words), *body = words;
    size_t len = strlen(hex) / 2;
    char *kept = mem_alloc(len + 1);
    for (size_t i = 0; i < len; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        kept[i] = (char)strtoul(pair, NULL, 16);
    }
    struct shipment *shipment = shipment_new(id, "-", "-");
    shipment->delivery.amqp = bytes_of(kept, len);
    shipment->delivery.body = bytes_str(strdup(body));
    sink->verbs->send(sink, &shipment->delivery);
}

static void flood_on(void)
{
    while (flood.sent < flood.wanted && in_flight < 4000) {
        char id[32];
        (void)snprintf(id, sizeof(id), "%u", ++flood.sent);
        struct shipment *shipment = shipment_new(id, flood.exchange, flood.key);
        shipment->delivery.done = counted;
        shipment->delivery.body = bytes_of(flood.body, flood.body_len);
        sink->verbs->send(sink, &shipment->delivery);
    }
    if (!flood.wanted || flood.done < flood.wanted)
        return;
    unsigned failed = flood.counts[OUTCOME_FAILED], delivered = flood.counts[OUTCOME_DELIVERED];
    (void)printf("many %u %u %u %u %lld\n", flood.wanted, delivered, failed,
                 flood.wanted - delivered - failed,
                 (long long)(loop_update_time(loop) - flood.begun_us));
    (void)fflush(stdout);
    mem_free(flood.body);
    flood = (struct flood){.wanted = 0};
}

static void begin_flood(const char *words)
{
    unsigned count, body_bytes;
    if (sscanf(words, "%u %127s %127s %u", &count, flood.exchange, flood.key, &body_bytes) != 4)
        return;
    flood.body = mem_zalloc(body_bytes + 1);
    memset(flood.body, 'x', body_bytes);
    flood.body_len = body_bytes;
    flood.begun_us = loop->now_us;
    flood.wanted = count;
}

/* False: it is closed. */
static bool take_line(char *line)
{
    if (strncmp(line, "send ", 5) == 0)
        send_line(line + 5);
    else if (strncmp(line, "kept ", 5) == 0)
        send_kept(line + 5);
    else if (strncmp(line, "many ", 5) == 0)
        begin_flood(line + 5);
    else if (strncmp(line, "close ", 6) == 0) {
        sink->verbs->close(sink, atoll(line + 6) * 1000);
        return false;
    }
    return true;
}

static void read_lines(struct watch *watch, unsigned what)
{
    static char room[LINE_BYTES];
    static size_t used;
    (void)what;
    ssize_t got = read(watch->fd, room + used, sizeof(room) - used - 1);
    if (got <= 0)
        exit(0); /* the test has gone */
    used += (size_t)got;
    room[used] = '\0';
    for (char *end; (end = strchr(room, '\n'));) {
        *end = '\0';
        if (!take_line(room))
            exit(in_flight != 0);
        used -= (size_t)(end + 1 - room);
        memmove(room, end + 1, used + 1);
    }
}

static struct broker_options options_of(int argc, char **argv)
{
    struct broker_options options = {.name = "test",
                                     .url = argv[2],
                                     .ca = "",
                                     .certificate = "",
                                     .key = "",
                                     .window = 1000,
                                     .heartbeat_us = 2000000,
                                     .timeout_us = 5000000,
                                     .loop = loop};
    for (int i = 3; i < argc; i++) {
        if (strncmp(argv[i], "window=", 7) == 0)
            options.window = (uint32_t)atoi(argv[i] + 7);
        else if (strncmp(argv[i], "timeout=", 8) == 0)
            timeout_us = atoll(argv[i] + 8) * 1000;
        else if (strncmp(argv[i], "ca=", 3) == 0)
            options.ca = argv[i] + 3;
    }
    return options;
}

int main(int argc, char **argv)
{
    struct os_clock clock;
    struct broker_error error = {.text = ""};
    os_clock_init(&clock);
    struct os_loop *os_loop = os_loop_new(&clock.clock, 16);
    void *library = argc > 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    const struct plugin *plugin = library ? dlsym(library, PLUGIN_SYMBOL) : NULL;
    if (!plugin || !os_loop) {
        (void)fprintf(stderr, "sink_drive PLUGIN.so URL …: %s\n", library ? "" : dlerror());
        return 2;
    }
    (void)signals_catch();
    loop = os_loop_port(os_loop);
    struct broker_options options = options_of(argc, argv);
    if (plugin->check(&options, &error) || plugin->open(&options, &sink, &error)) {
        (void)fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    sink->changed = changed;
    struct watch input = {.ready = read_lines, .fd = STDIN_FILENO};
    if (loop->verbs->watch(loop, &input, LOOP_READ))
        return 2;
    for (;;) {
        loop_turn(loop, loop->now_us + 100000);
        flood_on();
    }
}
