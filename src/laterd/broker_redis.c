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

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "laterd/redis_login.h"
#include "os/tls.h"
#include "sink/redis_sink.h"

struct redis_broker {
    struct sink *sink;
    struct tls *tls;
    struct redis_login login;
    const char *name; /* in the configuration */
};

static enum err read_login(struct redis_login *login, const char *url,
                           struct broker_error *out_error)
{
    struct redis_error error = {.text = ""};
    *login = (struct redis_login){.url = url, .sentinel_password = ""};
    enum err err = redis_login_read(login, &error);
    (void)snprintf(out_error->text, sizeof(out_error->text), "url: %.220s",
                   redis_url_clause(error.text));
    return err;
}

static enum err make_tls(const struct broker_options *options, struct tls **out_tls,
                         struct broker_error *out_error)
{
    struct tls_options wanted = {
        .keys = "", .ca = options->ca, .certificate = options->certificate, .key = options->key};
    struct tls_error error = {.text = ""};
    enum err err = tls_client_new(&wanted, out_tls, &error);
    (void)snprintf(out_error->text, sizeof(out_error->text), "%.230s", error.text);
    return err;
}

/* Files of TLS are read only if some are named: a reload names none. */
static enum err redis_check(const struct broker_options *options, struct broker_error *out_error)
{
    struct redis_login login;
    struct tls *tls = NULL;
    bool names_files = options->ca[0] || options->certificate[0] || options->key[0];
    enum err err = read_login(&login, options->url, out_error);
    if (!err && login.now.url.tls && names_files)
        err = make_tls(options, &tls, out_error);
    tls_free(tls);
    return err;
}

static void lost(void *owner)
{
    redis_login_again(&((struct redis_broker *)owner)->login);
}

static void log_in_changed(struct redis_login *login)
{
    redis_sink_log_in_as(((struct redis_broker *)login->owner)->sink, &login->now.url);
}

static void log_in_unread(struct redis_login *login, const char *why)
{
    const struct redis_broker *broker = login->owner;
    log_event(LOG_WARN, "broker_url_unread", "name=%s reason=\"url: %s\" hint=\"%s\"", broker->name,
              redis_url_clause(why), "user and password stay those that it had before");
}

static void closed(void *owner)
{
    struct redis_broker *broker = owner;
    redis_login_stop(&broker->login);
    tls_free(broker->tls);
    mem_free(broker);
}

static enum err redis_open(const struct broker_options *options, struct sink **out_sink,
                           struct broker_error *out_error)
{
    struct redis_login login;
    struct tls *tls = NULL;
    enum err err = read_login(&login, options->url, out_error);
    if (!err && login.now.url.tls)
        err = make_tls(options, &tls, out_error);
    if (err)
        return err;
    struct redis_broker *broker = mem_zalloc(sizeof(*broker));
    login.loop = options->loop;
    login.changed = log_in_changed;
    login.unread = log_in_unread;
    login.owner = broker;
    *broker = (struct redis_broker){.tls = tls, .login = login, .name = options->name};
    broker->sink = redis_sink_new(&(struct redis_sink_options){.loop = options->loop,
                                                               .name = options->name,
                                                               .url = &login.now.url,
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
