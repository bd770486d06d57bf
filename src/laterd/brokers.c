#include "laterd/brokers.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "laterd/broker_redis.h"
#include "laterd/complain.h"
#include "laterd/plugin_file.h"
#include "sink/reference.h"

/* The Debian package of the library that each type's plugin is linked with; "": built in. */
static const char *package_of(enum target_type type)
{
    switch (type) {
    case TARGET_AMQP: return "librabbitmq4";
    case TARGET_KAFKA: return "librdkafka1";
    case TARGET_NATS: return "libnats3.4";
    case TARGET_REDIS:
    case TARGET_NONE:
    case TARGET_HTTP:
    case TARGET_TYPES: break;
    }
    return "";
}

/* ---- loading ---- */

static const char *place_of(const struct config_broker *broker)
{
    static struct config_place_text text;
    text = config_place_text(broker->named.place);
    return text.text;
}

_Static_assert(offsetof(struct plugin, version) == offsetof(struct plugin_head, version),
               "a plugin begins with a plugin_head");

static int load(struct brokers *brokers, const struct config_broker *broker)
{
    if (broker->type == TARGET_REDIS) {
        brokers->plugins[broker->type] = &broker_redis;
        return 0;
    }
    char key[CONFIG_NAME_MAX + sizeof("[broker.]")];
    (void)snprintf(key, sizeof(key), "[broker.%s]", broker->named.name); /* it fits */
    const struct plugin *plugin =
        plugin_file_load(&(struct plugin_wanted){.name = config_broker_type(broker->type),
                                                 .symbol = PLUGIN_SYMBOL,
                                                 .abi = PLUGIN_ABI,
                                                 .package = package_of(broker->type),
                                                 .place = place_of(broker),
                                                 .key = key});
    if (plugin && plugin->type != broker->type)
        complain("%s%s: the plugin laterd-%s.so is of another type: install it again",
                 place_of(broker), key, config_broker_type(broker->type));
    if (!plugin || plugin->type != broker->type)
        return EXIT_FAILURE;
    brokers->plugins[broker->type] = plugin;
    return 0;
}

static struct broker_options options_of(const struct config_broker *broker, struct loop *loop)
{
    return (struct broker_options){
        .name = broker->named.name,
        .url = broker->url,
        .ca = broker->ca,
        .certificate = broker->certificate,
        .key = broker->key,
        .window = (uint32_t)broker->window,
        .heartbeat_us = broker->heartbeat_us,
        .timeout_us = broker->timeout_us,
        .loop = loop,
    };
}

/* Without that file or variable the broker counts as unreachable: no reason not to start. */
static void warn_unreadable(const struct config_broker *broker, const struct broker_error *error)
{
    const char *what_now = broker->type == TARGET_REDIS ? "laterd cannot lead without it"
                           : broker->url[0] == '$'
                               ? "its jobs wait until laterd is started with it"
                               : "it is looked for again at each attempt to connect; its jobs "
                                 "wait until then";
    complain("%swarning: [broker.%s] %s: %s", place_of(broker), broker->named.name, error->text,
             what_now);
}

/* A pipe can be read once only, by whoever opens the broker; and its writer may not be there yet.
 */
static bool is_pipe(const char *path)
{
    struct stat status;
    return path[0] && stat(path, &status) == 0 && S_ISFIFO(status.st_mode);
}

static bool is_in_pipe(const char *url)
{
    static const char file[] = "file:";
    size_t len = sizeof(file) - 1;
    return strncmp(url, file, len) == 0 && is_pipe(url + len);
}

/* What the url of a plugin's broker refers to: the plugin itself looks for it when it connects. */
static enum err check_reference(const struct config_broker *broker, struct broker_error *out_error)
{
    struct buf plain = {0};
    char why[sizeof(out_error->text) - sizeof("url: ")];
    if (broker->type == TARGET_REDIS || !reference_is(broker->url) || is_in_pipe(broker->url))
        return OK;
    enum err err = reference_read(broker->url, &plain, why, sizeof(why));
    if (plain.at)
        explicit_bzero(plain.at, plain.len);
    buf_fini(&plain);
    if (err)
        (void)snprintf(out_error->text, sizeof(out_error->text), "url: %s", why);
    return err ? ERR_NOT_FOUND : OK; /* a line that is too long may get shorter */
}

/* Prints the plugin's error, with the line of the configuration if it concerns the url. */
static int complain_options(const struct config_broker *broker, enum err err,
                            const struct broker_error *error)
{
    struct config_broker named = *broker;
    if (strncmp(error->text, "url: ", 5) == 0 && broker->url_line)
        named.named.place.line = broker->url_line;
    complain("%s[broker.%s] %s", place_of(&named), broker->named.name, error->text);
    return err == ERR_INVALID ? EXIT_WRONG_CONFIG : EXIT_FAILURE;
}

/* `elected`: brokers are opened when we lead, and that of Redis, which reads its files then only,
   may be without them until then. */
static int check(const struct plugin *plugin, const struct config_broker *broker, bool elected)
{
    struct broker_options options = options_of(broker, NULL);
    struct broker_error error = {.text = ""};
    bool redis = broker->type == TARGET_REDIS;
    if (redis && is_in_pipe(broker->url))
        return 0;
    if (redis && (is_pipe(options.ca) || is_pipe(options.certificate) || is_pipe(options.key)))
        options.ca = options.certificate = options.key = "";
    if (!redis && is_in_pipe(broker->url))
        complain("%swarning: [broker.%s] url: %s is a pipe, which can be read once, and it is read "
                 "again when the connection has ended: use a file",
                 place_of(broker), broker->named.name, broker->url);
    enum err err = plugin->check(&options, &error);
    if (!err)
        err = check_reference(broker, &error);
    bool waits = redis ? elected && err != ERR_INVALID : err == ERR_NOT_FOUND;
    if (err && waits)
        warn_unreadable(broker, &error);
    return err && !waits ? complain_options(broker, err, &error) : 0;
}

int brokers_load(const struct config *config, struct brokers *out_brokers)
{
    int status = 0;
    *out_brokers = (struct brokers){.table = {.at = NULL}};
    for (unsigned i = 0; i < config->broker_count && !status; i++) {
        const struct config_broker *broker = &config->brokers[i];
        if (!out_brokers->plugins[broker->type])
            status = load(out_brokers, broker);
        if (!status)
            status =
                check(out_brokers->plugins[broker->type], broker, config->member_url[0] != '\0');
    }
    return status;
}

/* Of a plugin that is not loaded no more is known than how its URLs begin. */
static enum err check_scheme(const struct config_broker *broker)
{
    static const char *const schemes[TARGET_TYPES][2] = {
        [TARGET_AMQP] = {"amqp://", "amqps://"},
        [TARGET_KAFKA] = {"kafka://", "kafkas://"},
        [TARGET_NATS] = {"nats://", "nats+tls://"},
    };
    struct broker_error error;
    struct bytes url = bytes_str(broker->url);
    const char *plain = schemes[broker->type][0], *tls = schemes[broker->type][1];
    if (!plain || reference_is(broker->url) || bytes_starts_nocase(url, bytes_str(plain)) ||
        bytes_starts_nocase(url, bytes_str(tls)))
        return OK;
    (void)snprintf(error.text, sizeof(error.text), "url: must begin with %s or %s", plain, tls);
    (void)complain_options(broker, ERR_INVALID, &error);
    return ERR_INVALID;
}

enum err brokers_check(const struct brokers *loaded, const struct config *config)
{
    for (unsigned i = 0; i < config->broker_count; i++) {
        const struct config_broker *broker = &config->brokers[i];
        const struct plugin *plugin =
            broker->type == TARGET_REDIS ? &broker_redis : loaded->plugins[broker->type];
        struct broker_options options = options_of(broker, NULL);
        struct broker_error error = {.text = ""};
        options.ca = options.certificate = options.key = ""; /* no files are read here */
        if (!plugin && check_scheme(broker))
            return ERR_INVALID;
        if (!plugin || reference_is(broker->url) || plugin->check(&options, &error) != ERR_INVALID)
            continue;
        (void)complain_options(broker, ERR_INVALID, &error);
        return ERR_INVALID;
    }
    return OK;
}

/* ---- opening and closing ---- */

int brokers_open(struct brokers *brokers, const struct config *config, struct loop *loop)
{
    brokers->table.at = brokers->entries;
    for (unsigned i = 0; i < config->broker_count; i++) {
        const struct config_broker *broker = &config->brokers[i];
        const struct plugin *plugin = brokers->plugins[broker->type];
        struct broker_options options = options_of(broker, loop);
        struct broker_error error = {.text = ""};
        struct sink_entry *entry = &brokers->entries[i];
        *entry = (struct sink_entry){.name = bytes_str(broker->named.name), .type = broker->type};
        enum err err = plugin->open(&options, &entry->sink, &error);
        if (err)
            return complain_options(broker, err, &error);
        brokers->table.count++;
        log_event(LOG_INFO, "broker_opened", "name=%s type=%s library=\"%s\"", broker->named.name,
                  config_broker_type(broker->type), plugin->library);
    }
    return 0;
}

int brokers_open_intakes(struct brokers *brokers, const struct config *config,
                         struct server *server)
{
    for (unsigned i = 0; i < config->amqp_in_count; i++) {
        const struct config_amqp_in *in = &config->amqp_ins[i];
        const struct config_broker *broker = config_broker(config, bytes_str(in->broker));
        struct intake_options options = {
            .name = in->named.name,
            .broker = options_of(broker, server->loop),
            .queue = in->queue,
            .target = in->target,
            .prefetch = (uint32_t)in->prefetch,
            .body_max = (uint32_t)config->body_bytes,
        };
        const struct server_intake_options ours = {
            .name = in->named.name, .topic = in->topic, .broker = in->broker};
        struct broker_error error = {.text = ""};
        struct intake *intake;
        if (brokers->plugins[broker->type]->open_intake(&options, &intake, &error)) {
            complain("%s[amqp_in.%s] %s", config_place_text(in->named.place).text, in->named.name,
                     error.text);
            return EXIT_FAILURE;
        }
        brokers->intakes[brokers->intake_count++] = server_intake_new(server, &ours, intake);
    }
    return 0;
}

static void stop_sink(struct sink *sink)
{
    if (sink->verbs->stop)
        sink->verbs->stop(sink, 0);
}

static bool sink_stopped(struct sink *sink)
{
    return !sink->verbs->stop || sink->verbs->stopped(sink);
}

void brokers_stop(struct brokers *brokers)
{
    for (unsigned i = 0; i < brokers->intake_count; i++)
        server_intake_stop(brokers->intakes[i]);
    for (unsigned i = 0; i < brokers->table.count; i++)
        stop_sink(brokers->entries[i].sink);
}

bool brokers_stopped(struct brokers *brokers, struct bytes *out_name)
{
    bool all = true; /* each is asked: it may have to be interrupted */
    for (unsigned i = 0; i < brokers->intake_count; i++) {
        if (server_intake_stopped(brokers->intakes[i]))
            continue;
        *out_name = bytes_str(server_intake_name(brokers->intakes[i]));
        all = false;
    }
    for (unsigned i = 0; i < brokers->table.count; i++) {
        if (sink_stopped(brokers->entries[i].sink))
            continue;
        *out_name = brokers->entries[i].name;
        all = false;
    }
    return all;
}

static bool closes_at_once(struct sink *sink)
{
    return sink->verbs->threadless || sink_stopped(sink);
}

bool brokers_close_stopped(struct brokers *brokers, struct bytes *out_name)
{
    for (unsigned i = brokers->intake_count; i-- > 0;) {
        if (!server_intake_stopped(brokers->intakes[i])) {
            *out_name = bytes_str(server_intake_name(brokers->intakes[i]));
            continue;
        }
        server_intake_free(brokers->intakes[i]);
        brokers->intakes[i] = brokers->intakes[--brokers->intake_count];
    }
    for (unsigned i = brokers->table.count; i-- > 0;) {
        struct sink *sink = brokers->entries[i].sink;
        if (!closes_at_once(sink)) {
            *out_name = brokers->entries[i].name;
            continue;
        }
        sink->verbs->close(sink, 0);
        brokers->entries[i] = brokers->entries[--brokers->table.count];
    }
    return !brokers->intake_count && !brokers->table.count;
}

void brokers_close_intakes(struct brokers *brokers)
{
    while (brokers->intake_count)
        server_intake_free(brokers->intakes[--brokers->intake_count]);
}

void brokers_close(struct brokers *brokers, int64_t grace_us)
{
    for (unsigned i = 0; i < brokers->table.count; i++)
        brokers->entries[i].sink->verbs->close(brokers->entries[i].sink, grace_us);
    brokers->table.count = 0;
}
