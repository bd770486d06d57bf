/*
 * A URL that names a file is read again when a connection has ended, on a thread of its own,
 * because the loop's thread must not wait for a disk: the next attempt to connect logs in with the
 * user and password that the file has then.
 */
#include "laterd/broker_redis.h"

#include <stdatomic.h>
#include <stdio.h>

#ifdef LATERD_NO_REDIS

static enum err refuse(struct broker_error *out_error)
{
    (void)snprintf(out_error->text, sizeof(out_error->text),
                   "type = redis: this laterd was built without Redis");
    return ERR_INVALID;
}

static enum err redis_check(const struct broker_options *options, struct broker_error *out_error)
{
    (void)options;
    return refuse(out_error);
}

static enum err redis_open(const struct broker_options *options, struct sink **out_sink,
                           struct broker_error *out_error)
{
    (void)options;
    (void)out_sink;
    return refuse(out_error);
}

#else

#include "base/backoff.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "client/redis/url.h"
#include "os/thread.h"
#include "os/tls.h"
#include "sink/redis_sink.h"
#include "sink/reference.h"

enum {
    LOOK_US = 5 * 1000,        /* a link waits longer before it connects again */
    LOOK_MAX_US = 1000 * 1000, /* of a file that cannot be read for long (NFS, a pipe) */
};

/* What the thread reads. It may outlive the broker: the last one that has it frees it. */
struct reading {
    atomic_uint users;
    atomic_bool done; /* `url` and `error` are set; `err` says which */
    enum err err;
    struct redis_url url;
    struct broker_error error;
    size_t bytes;
    char text[]; /* the URL in the configuration */
};

struct redis_broker {
    struct sink *sink;
    struct loop *loop;
    struct tls *tls;
    struct reading *reading; /* under way; NULL: none */
    struct timer look;       /* while one is under way: is it done? … */
    int64_t look_us;         /* … and if not, how long until the next look */
    bool complained;
    const char *name, *text; /* in the configuration: its name and the URL */
};

static enum err read_url(const char *reference, struct redis_url *out_url,
                         struct broker_error *out_error)
{
    struct buf text = {0};
    struct redis_error error = {.text = ""};
    static const char named[] = "redis.url";
    enum err err = reference_read(reference, &text, error.text, sizeof(error.text));
    if (!err)
        err = redis_url_read(bytes_str(text.at), out_url, &error);
    buf_fini(&text);
    const char *why = error.text;
    why += strncmp(why, named, strlen(named)) == 0 ? strlen(named) : 0; /* its url is another key */
    why += strspn(why, ": ");
    (void)snprintf(out_error->text, sizeof(out_error->text), "url: %.220s", why);
    return err;
}

/* What a reference names may still be missing at check(), but not at open(). */
static enum err redis_check(const struct broker_options *options, struct broker_error *out_error)
{
    struct redis_url url;
    if (reference_is(options->url))
        return OK;
    return read_url(options->url, &url, out_error);
}

/* ---- the URL is read again ---- */

static void reading_drop(struct reading *reading)
{
    if (!reading || atomic_fetch_sub(&reading->users, 1) > 1)
        return;
    explicit_bzero(reading, reading->bytes);
    mem_free(reading);
}

static void *read_again(void *arg)
{
    struct reading *reading = arg;
    reading->err = read_url(reading->text, &reading->url, &reading->error);
    atomic_store(&reading->done, true);
    reading_drop(reading);
    return NULL;
}

/* Logged once until it can be read again. The log-in that was there before stays. */
static void complain_unread(struct redis_broker *broker, const struct reading *reading)
{
    if (reading->err && !broker->complained)
        log_event(LOG_WARN, "broker_url_unread", "name=%s reason=\"%s\" hint=\"%s\"", broker->name,
                  reading->error.text, "user and password stay those that it had before");
    broker->complained = reading->err != OK;
}

static void look(struct timer *timer)
{
    struct redis_broker *broker = LIST_ENTRY(timer, struct redis_broker, look);
    struct reading *reading = broker->reading;
    if (!atomic_load(&reading->done)) {
        broker->look_us = backoff_after(broker->look_us, LOOK_MAX_US);
        loop_arm(broker->loop, &broker->look, broker->loop->now_us + broker->look_us);
        return;
    }
    complain_unread(broker, reading);
    if (!reading->err)
        redis_sink_log_in_as(broker->sink, &reading->url);
    broker->reading = NULL;
    reading_drop(reading);
}

static void lost(void *owner)
{
    struct redis_broker *broker = owner;
    if (broker->reading || strncmp(broker->text, "file:", 5) != 0)
        return;
    size_t text_bytes = strlen(broker->text) + 1;
    struct reading *reading = mem_zalloc(sizeof(*reading) + text_bytes);
    reading->bytes = sizeof(*reading) + text_bytes;
    memcpy(reading->text, broker->text, text_bytes);
    atomic_init(&reading->users, 2);
    if (thread_start_detached(read_again, reading)) { /* the next one that is lost tries again */
        mem_free(reading);
        return;
    }
    broker->reading = reading;
    broker->look_us = LOOK_US;
    loop_arm(broker->loop, &broker->look, broker->loop->now_us + broker->look_us);
}

static void closed(void *owner)
{
    struct redis_broker *broker = owner;
    loop_cancel(broker->loop, &broker->look);
    reading_drop(broker->reading);
    tls_free(broker->tls);
    mem_free(broker);
}

static enum err redis_open(const struct broker_options *options, struct sink **out_sink,
                           struct broker_error *out_error)
{
    struct redis_url url;
    struct tls *tls = NULL;
    enum err err = read_url(options->url, &url, out_error);
    if (!err && url.tls) {
        struct tls_options wanted = {.keys = "",
                                     .ca = options->ca,
                                     .certificate = options->certificate,
                                     .key = options->key};
        struct tls_error error = {.text = ""};
        err = tls_client_new(&wanted, &tls, &error);
        (void)snprintf(out_error->text, sizeof(out_error->text), "%.230s", error.text);
    }
    if (err)
        return err;
    struct redis_broker *broker = mem_zalloc(sizeof(*broker));
    *broker = (struct redis_broker){.loop = options->loop,
                                    .tls = tls,
                                    .name = options->name,
                                    .text = options->url,
                                    .look.expired = look};
    broker->sink = redis_sink_new(&(struct redis_sink_options){.loop = options->loop,
                                                               .name = options->name,
                                                               .url = &url,
                                                               .sentinel_user = "",
                                                               .sentinel_password = "",
                                                               .tls = tls,
                                                               .timeout_us = options->timeout_us,
                                                               .lost = lost,
                                                               .closed = closed,
                                                               .owner = broker});
    *out_sink = broker->sink;
    return OK;
}

#endif

const struct plugin broker_redis = {
    .abi = PLUGIN_ABI,
    .version = LATERD_VERSION,
    .type = TARGET_REDIS,
    .library = "client/redis of laterd",
    .check = redis_check,
    .open = redis_open,
};
