/*
 * Warnings about values that are allowed but probably not intended: printed at the start and by
 * --check-config; laterd starts nevertheless.
 */
#include <stddef.h>
#include <string.h>

#include "server/config/config_parts.h"

/* "FILE:LINE: warning: section.name" */
static void begin(const struct config *config, struct buf *out, const struct config_key *key)
{
    buf_add_str(out, config_place_text(config->places[key - config_keys]).text);
    buf_addf(out, "warning: %s.%s", key->section, key->name);
}

/* Warns of large times without a unit: they are seconds, but may have been meant as hours or
   days. */
static void add_bare_times(const struct config *config, struct buf *out)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        int64_t us;
        if (key->kind != KIND_LONG_TIME || !config->places[i].bare_time)
            continue;
        memcpy(&us, (const char *)config + key->at, sizeof(us));
        long long seconds = us / 1000000;
        if (seconds == 0)
            continue;
        begin(config, out, key);
        buf_addf(
            out,
            " = %lld is %lld second%s: write %llds, or %lldm, %lldh, %lldd if you mean those\n",
            seconds, seconds, seconds == 1 ? "" : "s", seconds, seconds, seconds, seconds);
    }
}

/* Keys of [redis] without engine = redis: the jobs would be on the local disk, unexpectedly. */
static void add_unused_redis(const struct config *config, struct buf *out)
{
    const struct config_key *url = config_find("redis", "url");
    if (config->engine == ENGINE_REDIS || !config->places[url - config_keys].path)
        return; /* also where the file sets the default: whoever wrote it expects jobs there */
    begin(config, out, url);
    buf_add_str(out,
                " is set, but nothing is kept there: that needs engine = redis under [engine]\n");
}

/* Of the keys of a section that a file set, the first, and how many more there are. */
static void add_unused_section(const struct config *config, struct buf *out, const char *section,
                               const char *why)
{
    const struct config_key *first = NULL;
    unsigned others = 0;
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        /* redis.url and store.data_dir have warnings of their own; another url is empty here. */
        if (strcmp(key->section, section) != 0 || !config->places[i].path ||
            key->kind == KIND_DIR || strcmp(key->name, "url") == 0)
            continue;
        others += first != NULL;
        first = first ? first : key;
    }
    if (!first)
        return;
    begin(config, out, first);
    if (others)
        buf_addf(out, ", and %u more of [%s],", others, section);
    buf_addf(out, " ha%s no effect: %s\n", others ? "ve" : "s", why);
}

static void add_unused_sections(const struct config *config, struct buf *out)
{
    bool on_redis = config->engine == ENGINE_REDIS;
    add_unused_section(config, out, on_redis ? "store" : "redis",
                       on_redis ? "engine = redis keeps nothing on this disk"
                                : "that needs engine = redis under [engine]");
    if (!config->journal_url[0])
        add_unused_section(config, out, "journal", "there is no journal without journal.url");
    if (!config->member_url[0])
        add_unused_section(config, out, "member", "there is no election without member.url");
}

/* Jobs leave memory only while the log is above checkpoint_bytes. */
static void add_unused_spilling(const struct config *config, struct buf *out)
{
    static const char *const names[] = {"horizon", "checkpoint_bytes", "ready_in_memory",
                                        "buried_in_memory"};
    bool above_max = config->max_bytes && config->max_bytes <= config->checkpoint_bytes;
    if (config->engine == ENGINE_REDIS || (config->horizon_us && !above_max))
        return;
    for (size_t i = config->horizon_us ? 0 : 1; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct config_key *key = config_find("store", names[i]);
        if (!config->places[key - config_keys].path)
            continue;
        begin(config, out, key);
        if (!config->horizon_us) {
            buf_add_str(out, " has no effect: with store.horizon = 0 no job leaves memory\n");
            continue;
        }
        buf_add_str(out, " has no effect: store.max_bytes (");
        config_add_number(out, KIND_BYTES, config->max_bytes);
        buf_add_str(out, ") keeps the log below store.checkpoint_bytes (");
        config_add_number(out, KIND_BYTES, config->checkpoint_bytes);
        buf_add_str(out, ")\n");
    }
}

/* "?tls=verify", alone or among other options. */
static bool verifies_mysql(const char *url)
{
    const char *query = strncmp(url, "mysql://", 8) == 0 ? strchr(url, '?') : NULL;
    return query && strstr(query, "tls=verify");
}

/* What $NAME and file:PATH stand for is not known here. Without a url no key has an effect. */
static bool may_verify(const char *url)
{
    return !url[0] || url[0] == '$' || strncmp(url, "file:", 5) == 0 || verifies_mysql(url);
}

/* Authorities that no certificate is compared with. */
static void add_unused_ca(const struct config *config, struct buf *out)
{
    bool rediss = strncmp(config->member_url, "rediss", 6) == 0;
    if (config->member_ca[0] && !rediss && !may_verify(config->member_url)) {
        begin(config, out, config_find("member", "ca"));
        buf_add_str(out, " has no effect: that needs a member.url with rediss:// or tls=verify\n");
    }
    if (config->journal_ca[0] && !may_verify(config->journal_url)) {
        begin(config, out, config_find("journal", "ca"));
        buf_add_str(out, " has no effect: that needs a journal.url with tls=verify\n");
    }
}

/* Files that are for TLS, and what is for sentinels, with a redis.url that has none of it. What
 * $NAME and file:PATH stand for is not known here. */
static void add_unused_of_redis(const struct config *config, struct buf *out)
{
    static const char *const names[] = {"tls_ca", "tls_certificate", "tls_key", "sentinel_user",
                                        "sentinel_password"};
    enum { OF_TLS = 3 };
    bool tls = strncmp(config->redis_url, "rediss", 6) == 0;
    bool sentinels = strstr(config->redis_url, "+sentinel://") != NULL;
    if (config->engine != ENGINE_REDIS)
        return; /* add_unused_sections() warns */
    if (config->redis_url[0] == '$' || strncmp(config->redis_url, "file:", 5) == 0)
        return;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct config_key *key = config_find("redis", names[i]);
        const char *value = (const char *)config + key->at; /* a word */
        if (!value[0] || (i < OF_TLS ? tls : sentinels))
            continue;
        begin(config, out, key);
        buf_addf(out, " has no effect: that needs a redis.url with %s\n",
                 i < OF_TLS ? "rediss" : "+sentinel://");
    }
}

/* The same of brokers. What $NAME and file:PATH stand for is not known here. */
static void add_unused_of_brokers(const struct config *config, struct buf *out)
{
    static const char *const schemes[TARGET_TYPES] = {[TARGET_AMQP] = "amqps://",
                                                      [TARGET_KAFKA] = "kafkas://",
                                                      [TARGET_NATS] = "nats+tls://",
                                                      [TARGET_REDIS] = "rediss"};
    for (unsigned i = 0; i < config->broker_count; i++) {
        const struct config_broker *broker = &config->brokers[i];
        const char *name = broker->ca[0]            ? "ca"
                           : broker->certificate[0] ? "certificate"
                           : broker->key[0]         ? "key"
                                                    : NULL;
        const char *scheme = schemes[broker->type];
        if (!name || !scheme || broker->url[0] == '$' || strncmp(broker->url, "file:", 5) == 0 ||
            bytes_starts_nocase(bytes_str(broker->url), bytes_str(scheme)))
            continue;
        buf_addf(out, "%swarning: [broker.%s] %s has no effect: that needs a url with %s\n",
                 config_place_text(broker->named.place).text, broker->named.name, name, scheme);
    }
}

/* Memory that is promised to one purpose, of which there is less for all. */
static void add_beyond_memory(const struct config *config, struct buf *out)
{
    static const char *const names[][3] = {
        {"store", "recent_bytes", "pushes are refused when so much is filled"},
        {"limits", "buffer_bytes", "no connection is closed before pushes are refused"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct config_key *key = config_find(names[i][0], names[i][1]);
        int64_t bytes;
        memcpy(&bytes, (const char *)config + key->at, sizeof(bytes));
        if (!config->memory_bytes || bytes < config->memory_bytes ||
            (config->engine == ENGINE_REDIS && key->at == offsetof(struct config, recent_bytes)))
            continue;
        begin(config, out, key);
        buf_add_str(out, " (");
        config_add_number(out, KIND_BYTES, bytes);
        buf_add_str(out, ") is not below limits.memory_bytes (");
        config_add_number(out, KIND_BYTES, config->memory_bytes);
        buf_addf(out, "): %s\n", names[i][2]);
    }
}

/*
 * Jobs that are allowed, and for which max_bytes never has room. One that is larger than a segment
 * needs a file of its own, and room for a copy of it besides the four segments that are in use or
 * kept (store/log/segments_make.c).
 */
static void add_unreachable_jobs(const struct config *config, struct buf *out)
{
    enum { BLOCK_BYTES = 4096, RECORD_BYTES = 8192 }; /* what a job has beside its body, at most */
    bool beanstalk = config->job_bytes > config->body_bytes;
    const struct config_key *most = config_find("store", "max_bytes");
    int64_t body = beanstalk ? config->job_bytes : config->body_bytes;
    int64_t usual = config->segment_bytes - RECORD_BYTES - 2 * BLOCK_BYTES;
    int64_t room = config->max_bytes - 4 * config->segment_bytes - 4 * BLOCK_BYTES;
    int64_t alone = room / 2 - RECORD_BYTES - 2 * BLOCK_BYTES;
    int64_t largest = alone > usual ? alone : usual;
    if (config->engine == ENGINE_REDIS || !config->max_bytes || body <= largest)
        return;
    begin(config, out, most);
    buf_add_str(out, " (");
    config_add_number(out, KIND_BYTES, config->max_bytes);
    buf_addf(out, ") has room for jobs of %lldK; larger ones, up to %s (", (long long)largest >> 10,
             beanstalk ? "beanstalk.job_bytes" : "limits.body_bytes");
    config_add_number(out, KIND_BYTES, body);
    buf_add_str(out, "), are refused\n");
}

void config_add_warnings(const struct config *config, struct buf *out)
{
    add_unused_redis(config, out);
    add_unused_sections(config, out);
    add_bare_times(config, out);
    add_unused_spilling(config, out);
    add_unused_ca(config, out);
    add_unused_of_redis(config, out);
    add_unused_of_brokers(config, out);
    add_beyond_memory(config, out);
    add_unreachable_jobs(config, out);
}
