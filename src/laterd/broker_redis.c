#include "laterd/broker_redis.h"

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

#include "client/redis/url.h"
#include "os/tls.h"
#include "sink/redis_sink.h"
#include "sink/reference.h"

static enum err read_url(const struct broker_options *options, struct redis_url *out_url,
                         struct broker_error *out_error)
{
    struct buf text = {0};
    struct redis_error error = {.text = ""};
    static const char named[] = "redis.url";
    enum err err = reference_read(options->url, &text, error.text, sizeof(error.text));
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
    return read_url(options, &url, out_error);
}

static void closed(void *owner)
{
    tls_free(owner);
}

static enum err redis_open(const struct broker_options *options, struct sink **out_sink,
                           struct broker_error *out_error)
{
    struct redis_url url;
    struct tls *tls = NULL;
    enum err err = read_url(options, &url, out_error);
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
    *out_sink = redis_sink_new(&(struct redis_sink_options){.loop = options->loop,
                                                            .name = options->name,
                                                            .url = &url,
                                                            .sentinel_user = "",
                                                            .sentinel_password = "",
                                                            .tls = tls,
                                                            .timeout_us = options->timeout_us,
                                                            .closed = closed,
                                                            .owner = tls});
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
