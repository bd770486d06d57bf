/*
 * Sets keys: the reader of each kind of value. The rows are in config_keys.c, numbers in
 * config_numbers.c, the texts about keys in config_print.c, the file in config_file.c.
 */
#include "server/config/config.h"

#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/check.h"
#include "proto/http/host.h"
#include "proto/sdmq/job_id.h"
#include "proto/settings/rate.h"
#include "server/config/config_parts.h"

static bool is_none(const char *value)
{
    return value[0] == '\0' || strcmp(value, "none") == 0;
}

/* Reads the dialect behind the comma, if there is one. False: it is unknown. */
static bool read_dialect(const char *comma, enum api_dialect *out_dialect,
                         struct config_error *out_error)
{
    const char *name = comma ? comma + 1 + strspn(comma + 1, " ") : "delay-queue";
    for (enum api_dialect i = 0; i < DIALECT_COUNT; i++) {
        if (strcmp(name, api_dialect_name(i)) == 0) {
            *out_dialect = i;
            return true;
        }
    }
    (void)snprintf(out_error->text, sizeof(out_error->text), "http: unknown dialect \"%s\"; %s",
                   name,
                   strchr(name, ':') ? "each further address has a line, or a --http, of its own"
                                     : "known are delay-queue, delayqueue-java, sdmq and none");
    return false;
}

enum err config_add_listener(struct config *config, enum protocol_kind protocol, const char *value,
                             struct config_error *out_error)
{
    const struct protocol *speaks = &protocols[protocol];
    struct config_listeners *listeners = &config->listeners[protocol];
    if (is_none(value)) {
        listeners->count = 0;
        return OK;
    }
    const char *comma = speaks->dialects ? strchr(value, ',') : NULL;
    size_t len = comma ? (size_t)(comma - value) : strlen(value);
    if (listeners->count == CONFIG_LISTENERS_MAX) {
        (void)snprintf(out_error->text, sizeof(out_error->text), "%s: more than %d addresses",
                       speaks->option, CONFIG_LISTENERS_MAX);
        return ERR_INVALID;
    }
    if (len == 0 || len >= CONFIG_ADDRESS_MAX) {
        (void)snprintf(out_error->text, sizeof(out_error->text),
                       "%s = %.60s: the address must have 1 to %d bytes, such as 127.0.0.1:%s",
                       speaks->option, value, CONFIG_ADDRESS_MAX - 1, speaks->port);
        return ERR_INVALID;
    }
    struct config_listener *listener = &listeners->at[listeners->count];
    listener->dialect = speaks->dialect;
    if (speaks->dialects && !read_dialect(comma, &listener->dialect, out_error))
        return ERR_INVALID;
    memcpy(listener->address, value, len);
    listener->address[len] = '\0';
    listeners->count++;
    return OK;
}

static bool set_hosts(struct config *config, const char *value)
{
    struct bytes rest = bytes_str(value), name;
    size_t used = strlen(config->hosts);
    while (host_next_name(&rest, &name)) {
        if (!host_is_name(name) || used + name.len + 2 > sizeof(config->hosts))
            return false;
        config->hosts[used++] = ' ';
        memcpy(config->hosts + used, name.at, name.len);
        used += name.len;
        config->hosts[used] = '\0';
    }
    return true;
}

static bool set_word(void *base, const struct config_key *key, const char *value)
{
    size_t len = strlen(value);
    if (len >= CONFIG_WORD_MAX)
        return false;
    memcpy((char *)base + key->at, value, len + 1);
    return true;
}

/* A part of ids: what stands in an address or a name, and no more. */
static bool set_host(struct config *config, const struct config_key *key, const char *value)
{
    static const char digits[] = "0123456789.:-_[]";
    for (const char *at = value; *at; at++) {
        if (!ascii_is_letter(*at) && !strchr(digits, *at))
            return false;
    }
    return strlen(value) <= SDMQ_HOST_MAX && set_word(config, key, value);
}

/* Appends each path, with a line end behind it. */
static bool set_paths(struct config *config, const char *value)
{
    size_t used = strlen(config->push_unix_sockets);
    while (*value) {
        size_t blanks = strspn(value, ", \t");
        size_t len = strcspn(value + blanks, ",");
        const char *path = value + blanks;
        value = path + len;
        while (len && (path[len - 1] == ' ' || path[len - 1] == '\t'))
            len--;
        if (len == 0)
            continue;
        /* The system's limit of a path is 107 bytes. */
        if (path[0] != '/' || len > 107 || used + len + 2 > sizeof(config->push_unix_sockets))
            return false;
        memcpy(config->push_unix_sockets + used, path, len);
        used += len;
        config->push_unix_sockets[used++] = '\n';
        config->push_unix_sockets[used] = '\0';
    }
    return true;
}

static bool set_rule(struct config *config, const struct config_key *key, const char *value,
                     struct config_error *error)
{
    const char *problem = NULL;
    struct bytes text = bytes_str(value);
    enum err err = key->kind == KIND_ALLOW
                       ? address_rule_add_allow(&config->push_rule, text, &problem)
                       : address_rule_set_ports(&config->push_rule, text, &problem);
    if (err)
        (void)snprintf(error->text, sizeof(error->text), "push.%s = %.60s: %s", key->name, value,
                       problem);
    return err == OK;
}

static bool set_proxy(struct config *config, const struct config_key *key, const char *value)
{
    static const char *const schemes[] = {"http://", "https://", "socks5h://"};
    bool good = value[0] == '\0';
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        good = good ||
               (strncmp(value, schemes[i], strlen(schemes[i])) == 0 && value[strlen(schemes[i])]);
    return good && set_word(config, key, value);
}

static bool set_level(struct config *config, const char *value)
{
    for (enum log_level level = 0; level < LOG_LEVELS; level++) {
        if (strcmp(value, log_level_name(level)) == 0) {
            config->log_level = level;
            return true;
        }
    }
    return false;
}

static bool set_durability(struct config *config, const char *value)
{
    if (strcmp(value, "sync") == 0) {
        config->durability = DURABILITY_SYNC;
        return true;
    }
    if (strcmp(value, "os") == 0) {
        config->durability = DURABILITY_OS;
        return true;
    }
    if (strncmp(value, "interval:", 9) != 0 ||
        config_time_is_bare(bytes_str(value + 9)) || /* ms or s, as other times? */
        !config_duration(bytes_str(value + 9), 1000, &config->interval_us) ||
        config->interval_us < 1000 || config->interval_us > 60000000)
        return false;
    config->durability = DURABILITY_INTERVAL;
    return true;
}

static bool set_engine(struct config *config, const char *value)
{
    bool redis = strcmp(value, "redis") == 0;
    if (!redis && strcmp(value, "embedded") != 0)
        return false;
    config->engine = redis ? ENGINE_REDIS : ENGINE_EMBEDDED;
    return true;
}

static bool set_retry(struct config *config, const char *value, struct config_error *error)
{
    struct schedule schedule;
    const char *why = "it is too long";
    size_t len = strlen(value);
    if (len >= sizeof(config->retry) || !schedule_read_words(bytes_str(value), &schedule, &why)) {
        (void)snprintf(error->text, sizeof(error->text), "retry = %.60s: %s", value, why);
        return false;
    }
    memcpy(config->retry, value, len + 1);
    return true;
}

static bool set_rate(char room[CONFIG_RATE_MAX], const char *value)
{
    uint32_t count;
    int64_t us;
    size_t len = strlen(value);
    bool none = strcmp(value, "0") == 0;
    if (len >= CONFIG_RATE_MAX || (!none && !rate_read(bytes_of(value, len), &count, &us)))
        return false;
    memcpy(room, value, len + 1);
    return true;
}

static bool set_job_targets(struct config *config, const char *value)
{
    static const char *const names[] = {
        [JOB_TARGETS_TOPIC] = "topic", [JOB_TARGETS_ANY] = "any", [JOB_TARGETS_OFF] = "off"};
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(value, names[i]) == 0) {
            config->job_targets = (enum config_job_targets)i;
            return true;
        }
    }
    return false;
}

struct schedule config_default_retry(const struct config *config)
{
    struct schedule schedule = {0};
    const char *why;
    bool good = schedule_read_words(bytes_str(config->retry), &schedule, &why);
    CHECK(good); /* set_retry() has checked it */
    schedule_limit(&schedule, (unsigned)config->attempts);
    return schedule;
}

/* A text that fits, and is not empty. */
static bool set_text(char *room, size_t room_bytes, const char *value)
{
    size_t len = strlen(value);
    if (len == 0 || len >= room_bytes)
        return false;
    memcpy(room, value, len + 1);
    return true;
}

/* Braces would make a hash tag of their own, and scatter the keys of a partition over a cluster. */
static bool set_prefix(struct config *config, const char *value)
{
    return !strpbrk(value, "{}") &&
           set_text(config->redis_prefix, sizeof(config->redis_prefix), value);
}

static bool set_number(void *base, const struct config_key *key, const char *value)
{
    int64_t number = 0;
    struct bytes text = bytes_str(value);
    uint64_t count;
    bool good = false;
    if (key->kind == KIND_BYTES)
        good = config_bytes(text, &number);
    else if (key->kind == KIND_SECONDS || key->kind == KIND_LONG_TIME)
        good = config_duration(text, 1000000, &number);
    else if (bytes_to_u64(text, &count) && count <= INT64_MAX)
        good = (number = (int64_t)count, true);
    if (!good || number < key->least || number > key->most)
        return false;
    memcpy((char *)base + key->at, &number, sizeof(number));
    return true;
}

bool config_set_field(void *base, const struct config_key *key, const char *value)
{
    bool word = key->kind == KIND_WORD || key->kind == KIND_SECRET;
    return word ? set_word(base, key, value) : set_number(base, key, value);
}

bool config_set(struct config *config, const struct config_key *key, const char *value,
                struct config_error *error)
{
    switch (key->kind) {
    case KIND_LISTENER:
        return config_add_listener(config, (enum protocol_kind)key->at, value, error) == OK;
    case KIND_DIR:
        config->data_dir_given = true;
        return set_text(config->data_dir, sizeof(config->data_dir), value);
    case KIND_URL: return set_text(config->redis_url, sizeof(config->redis_url), value);
    case KIND_PREFIX: return set_prefix(config, value);
    case KIND_ENGINE: return set_engine(config, value);
    case KIND_HOSTS: return set_hosts(config, value);
    case KIND_ALLOW:
    case KIND_PORTS: return set_rule(config, key, value, error);
    case KIND_PATHS: return set_paths(config, value);
    case KIND_PROXY: return set_proxy(config, key, value);
    case KIND_HOST: return set_host(config, key, value);
    case KIND_RATE: return set_rate(config->push_host_rate, value);
    case KIND_RETRY: return set_retry(config, value, error);
    case KIND_JOB_TARGETS: return set_job_targets(config, value);
    case KIND_LEVEL: return set_level(config, value);
    case KIND_DURABILITY: return set_durability(config, value);
    case KIND_WORD:
    case KIND_SECRET:
    case KIND_COUNT:
    case KIND_BYTES:
    case KIND_SECONDS:
    case KIND_LONG_TIME: return config_set_field(config, key, value);
    case KIND_CHOICE: return config_set_choice(config, key, value);
    case KIND_OFFSET: return config_set_offset(config, key, value);
    case KIND_BROKER_TYPE:
    case KIND_NAME: break; /* of named sections only */
    }
    return false;
}

void config_init(struct config *config)
{
    struct config_error error;
    *config = (struct config){0};
    for (size_t i = 0; i < config_key_count; i++) {
        bool good = config_set(config, &config_keys[i], config_keys[i].initial, &error);
        CHECK(good);
    }
    config->data_dir_given = false;
}

const struct config_key *config_find(const char *section, const char *name)
{
    for (size_t i = 0; i < config_key_count; i++) {
        if (strcmp(config_keys[i].section, section) == 0 && strcmp(config_keys[i].name, name) == 0)
            return &config_keys[i];
    }
    return NULL;
}

bool config_is_section(struct bytes name)
{
    for (size_t i = 0; i < config_key_count; i++) {
        if (bytes_eq(bytes_str(config_keys[i].section), name))
            return true;
    }
    return false;
}

void config_known_hosts(const struct config *config, struct buf *out)
{
    buf_add_str(out, config->hosts);
    for (enum protocol_kind kind = 0; kind < PROTOCOL_KINDS; kind++) {
        const struct config_listeners *listeners = &config->listeners[kind];
        for (unsigned i = 0; i < listeners->count && protocols[kind].http; i++) {
            struct bytes name = host_without_port(bytes_str(listeners->at[i].address));
            if (!host_is_name(name))
                continue; /* a path, or an address in brackets */
            buf_add_char(out, ' ');
            buf_add_bytes(out, name);
        }
    }
}
