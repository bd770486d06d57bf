/* Which keys have different values in two configurations: what a reload cannot apply. */
#include <string.h>

#include "server/config/config_parts.h"

static bool same_text(const void *a, const void *b, size_t at)
{
    return strcmp((const char *)a + at, (const char *)b + at) == 0;
}

static bool same_number(const void *a, const void *b, size_t at)
{
    return memcmp((const char *)a + at, (const char *)b + at, sizeof(int64_t)) == 0;
}

static bool same_listeners(const struct config_listeners *a, const struct config_listeners *b)
{
    for (unsigned i = 0; i < a->count && i < b->count; i++) {
        if (strcmp(a->at[i].address, b->at[i].address) != 0 || a->at[i].dialect != b->at[i].dialect)
            return false;
    }
    return a->count == b->count;
}

static bool same_allow(const struct address_rule *a, const struct address_rule *b)
{
    return a->allow_count == b->allow_count &&
           memcmp(a->allow, b->allow, a->allow_count * sizeof(a->allow[0])) == 0;
}

static bool same_ports(const struct address_rule *a, const struct address_rule *b)
{
    return a->port_count == b->port_count &&
           memcmp(a->ports, b->ports, a->port_count * sizeof(a->ports[0])) == 0;
}

static bool same_durability(const struct config *a, const struct config *b)
{
    return a->durability == b->durability &&
           (a->durability != DURABILITY_INTERVAL || a->interval_us == b->interval_us);
}

/* A key whose `at` is an offset in both a configuration and an entry of a section. */
static bool same_field(const void *a, const void *b, const struct config_key *key)
{
    bool number = key->kind == KIND_COUNT || key->kind == KIND_BYTES || key->kind == KIND_SECONDS ||
                  key->kind == KIND_LONG_TIME || key->kind == KIND_CHOICE ||
                  key->kind == KIND_OFFSET;
    return number ? same_number(a, b, key->at) : same_text(a, b, key->at);
}

static bool same_value(const struct config *a, const struct config *b, const struct config_key *key)
{
    switch (key->kind) {
    case KIND_LISTENER: return same_listeners(&a->listeners[key->at], &b->listeners[key->at]);
    case KIND_DIR: return strcmp(a->data_dir, b->data_dir) == 0;
    case KIND_LEVEL: return a->log_level == b->log_level;
    case KIND_ENGINE: return a->engine == b->engine;
    case KIND_URL: return strcmp(a->redis_url, b->redis_url) == 0;
    case KIND_PREFIX: return strcmp(a->redis_prefix, b->redis_prefix) == 0;
    case KIND_DURABILITY: return same_durability(a, b);
    case KIND_HOSTS: return strcmp(a->hosts, b->hosts) == 0;
    case KIND_ALLOW: return same_allow(&a->push_rule, &b->push_rule);
    case KIND_PORTS: return same_ports(&a->push_rule, &b->push_rule);
    case KIND_PATHS: return strcmp(a->push_unix_sockets, b->push_unix_sockets) == 0;
    case KIND_RATE: return strcmp(a->push_host_rate, b->push_host_rate) == 0;
    case KIND_JOB_TARGETS: return a->job_targets == b->job_targets;
    case KIND_RETRY: return strcmp(a->retry, b->retry) == 0;
    case KIND_PROXY:
    case KIND_HOST:
    case KIND_WORD:
    case KIND_SECRET:
    case KIND_COUNT:
    case KIND_BYTES:
    case KIND_SECONDS:
    case KIND_LONG_TIME:
    case KIND_CHOICE:
    case KIND_OFFSET: return same_field(a, b, key);
    case KIND_BROKER_TYPE:
    case KIND_NAME: break; /* of named sections only */
    }
    return true;
}

/* ---- named sections ---- */

static const char *name_of(const char *entry)
{
    return ((const struct config_named *)(const void *)entry)->name;
}

static const char *entry_of(const struct config *config, const struct config_section *section,
                            const char *name)
{
    for (unsigned i = 0; i < config_entry_count(config, section); i++) {
        if (strcmp(name_of(config_entry(config, section, i)), name) == 0)
            return config_entry(config, section, i);
    }
    return NULL;
}

static bool same_type(const char *a, const char *b, const struct config_key *key)
{
    return memcmp(a + key->at, b + key->at, sizeof(enum target_type)) == 0;
}

static void add_entry_differences(const char *a, const char *b,
                                  const struct config_section *section, struct buf *out)
{
    for (unsigned i = 0; i < section->key_count; i++) {
        const struct config_key *key = &section->key[i];
        bool same = key->kind == KIND_BROKER_TYPE ? same_type(a, b, key) : same_field(a, b, key);
        if (!same)
            buf_addf(out, "%s%s.%s.%s", out->len ? " " : "", section->word, name_of(a), key->name);
    }
}

/* Appends the sections of `a`: those that `b` has not, and the keys that differ if `keys`. */
static void add_sections(const struct config *a, const struct config *b, bool keys, struct buf *out)
{
    for (unsigned s = 0; s < config_section_count; s++) {
        const struct config_section *section = &config_sections[s];
        for (unsigned i = 0; i < config_entry_count(a, section); i++) {
            const char *entry = config_entry(a, section, i);
            const char *other = entry_of(b, section, name_of(entry));
            if (!other)
                buf_addf(out, "%s%s.%s", out->len ? " " : "", section->word, name_of(entry));
            else if (keys)
                add_entry_differences(entry, other, section, out);
        }
    }
}

void config_add_differences(const struct config *a, const struct config *b, struct buf *out)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (!same_value(a, b, key))
            buf_addf(out, "%s%s.%s", out->len ? " " : "", key->section, key->name);
    }
    add_sections(a, b, true, out);
    add_sections(b, a, false, out);
}
