/* Checks of the complete configuration, and where each value came from. */
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/check.h"
#include "core/core.h"
#include "server/config/config_parts.h"

struct config_place config_place(const struct config *config, const char *section, const char *name)
{
    const struct config_key *key = config_find(section, name);
    CHECK(key);
    return config->places[key - config_keys];
}

struct config_place_text config_place_text(struct config_place place)
{
    struct config_place_text text = {.text = ""};
    if (place.path)
        (void)snprintf(text.text, sizeof(text.text), "%.160s:%u: ", place.path, place.line);
    return text;
}

/* ---- values that do not fit together ---- */

struct checking {
    const struct config *config;
    struct config_error *error;
    bool refused; /* the first reason is shown */
};

static int64_t value_of(const struct checking *checking, const struct config_key *key)
{
    int64_t value;
    memcpy(&value, (const char *)checking->config + key->at, sizeof(value));
    return value;
}

/* "limits.request_bytes (8M, the default)" */
static void add_other(struct checking *checking, struct buf *out, const struct config_key *key)
{
    const struct config_place *place = &checking->config->places[key - config_keys];
    buf_addf(out, "%s.%s (", key->section, key->name);
    config_add_number(out, key->kind, value_of(checking, key));
    if (place->path)
        buf_addf(out, " in line %u)", place->line);
    else
        buf_add_str(out, ", the default)");
}

/* Begins "FILE:LINE: section.key = value: " at `key`, or at the other one if no file set the
   first. */
static void begin(struct checking *checking, struct buf *out, const struct config_key *key,
                  const struct config_key *other)
{
    const struct config_place *places = checking->config->places;
    struct config_place place = places[key - config_keys];
    if (!place.path && other)
        place = places[other - config_keys];
    buf_add_str(out, config_place_text(place).text);
    buf_addf(out, "%s.%s = ", key->section, key->name);
    config_add_number(out, key->kind, value_of(checking, key));
    buf_add_str(out, places[key - config_keys].path || !other ? ": " : " (the default): ");
}

static void refuse(struct checking *checking, struct buf *text)
{
    buf_add_char(text, '\0');
    if (!checking->refused)
        (void)snprintf(checking->error->text, sizeof(checking->error->text), "%s", text->at);
    checking->refused = true;
    buf_fini(text);
}

/* `key` must not be above the value of `other`. */
static void check_order(struct checking *checking, const char *section, const char *name,
                        const char *other_section, const char *other_name)
{
    const struct config_key *key = config_find(section, name);
    const struct config_key *other = config_find(other_section, other_name);
    struct buf text = {0};
    if (value_of(checking, key) <= value_of(checking, other))
        return;
    begin(checking, &text, key, other);
    buf_add_str(&text, "must not be above ");
    add_other(checking, &text, other);
    refuse(checking, &text);
}

static void check_store(struct checking *checking)
{
    const struct config *config = checking->config;
    const struct config_key *segment = config_find("store", "segment_bytes");
    const struct config_key *most = config_find("store", "max_bytes");
    struct buf text = {0};
    if (config->segment_bytes % 4096 != 0) {
        begin(checking, &text, segment, NULL);
        buf_add_str(&text, "must be a multiple of 4096");
        refuse(checking, &text);
    } else if (config->max_bytes && config->max_bytes < 4 * config->segment_bytes) {
        begin(checking, &text, most, segment);
        buf_add_str(&text, "must be 0, or at least ");
        config_add_number(&text, KIND_BYTES, 4 * config->segment_bytes);
        buf_add_str(&text, ", four times ");
        add_other(checking, &text, segment);
        refuse(checking, &text);
    }
}

static void check_memory(struct checking *checking)
{
    struct buf text = {0};
    if (!checking->config->memory_bytes || checking->config->memory_bytes >= CONFIG_MEMORY_MIN)
        return;
    begin(checking, &text, config_find("limits", "memory_bytes"), NULL);
    buf_add_str(&text, "must be 0, or at least ");
    config_add_number(&text, KIND_BYTES, CONFIG_MEMORY_MIN);
    buf_add_str(&text, ": laterd itself takes about that much");
    refuse(checking, &text);
}

static void check_jobs(struct checking *checking)
{
    struct buf text = {0};
    if (checking->config->engine == ENGINE_REDIS ||
        checking->config->jobs <= (int64_t)CORE_JOBS_MAX)
        return;
    begin(checking, &text, config_find("limits", "jobs"), NULL);
    buf_addf(&text, "must not be above %llu: the embedded engine holds no more",
             (unsigned long long)CORE_JOBS_MAX);
    refuse(checking, &text);
}

static void check_listeners(struct checking *checking)
{
    unsigned listeners = 0;
    struct buf text = {0};
    for (unsigned i = 0; i < PROTOCOL_KINDS; i++)
        listeners += checking->config->listeners[i].count;
    if (listeners)
        return;
    struct config_place place = config_place(checking->config, "server", "http");
    if (!place.path)
        place = config_place(checking->config, "server", "beanstalk");
    buf_add_str(&text, config_place_text(place).text);
    buf_add_str(&text,
                "server.http, server.beanstalk and server.sdmq are all none: there must be a "
                "listener, such as http = 127.0.0.1:9277");
    refuse(checking, &text);
}

static void check_attempts(struct checking *checking)
{
    struct buf text = {0};
    if (checking->config->attempts != 1)
        return;
    begin(checking, &text, config_find("defaults", "attempts"), NULL);
    buf_add_str(&text, "must be 0, or at least 2: a job without a second attempt is its consumer's "
                       "to bury");
    refuse(checking, &text);
}

/* The lag is counted in whole segments, and the last one is always counted. */
static void check_lag(struct checking *checking)
{
    const struct config *config = checking->config;
    const struct config_key *segment = config_find("store", "segment_bytes");
    struct buf text = {0};
    if (config->journal_lag_bytes >= 2 * config->segment_bytes)
        return;
    begin(checking, &text, config_find("journal", "max_lag"), segment);
    buf_add_str(&text, "must be at least ");
    config_add_number(&text, KIND_BYTES, 2 * config->segment_bytes);
    buf_add_str(&text, ", twice ");
    add_other(checking, &text, segment);
    refuse(checking, &text);
}

static void check_journal(struct checking *checking)
{
    struct buf text = {0};
    if (!checking->config->journal_url[0])
        return;
    if (checking->config->engine != ENGINE_REDIS) {
        check_lag(checking);
        return;
    }
    if (checking->config->journal_mode != JOURNAL_MODE_BEFORE)
        return;
    buf_add_str(&text, config_place_text(config_place(checking->config, "journal", "mode")).text);
    buf_add_str(&text, "journal.mode = before needs engine = embedded: with engine = redis another "
                       "daemon may be the one that writes to MySQL");
    refuse(checking, &text);
}

static void check_history(struct checking *checking)
{
    struct buf text = {0};
    if (!checking->config->history_us || checking->config->engine != ENGINE_REDIS)
        return;
    buf_add_str(&text, config_place_text(config_place(checking->config, "store", "history")).text);
    buf_add_str(&text, "store.history needs engine = embedded: with engine = redis what happens to "
                       "jobs is not kept; leave it out, or set it to 0");
    refuse(checking, &text);
}

static bool is_plain(const char *text, const char *others)
{
    for (; *text; text++) {
        if (!ascii_is_letter(*text) && !ascii_is_digit(*text) && !strchr(others, *text))
            return false;
    }
    return true;
}

static void refuse_word(struct checking *checking, const char *name, const char *value,
                        const char *why)
{
    const struct config_key *key = config_find("member", name);
    struct buf text = {0};
    buf_add_str(&text, config_place_text(checking->config->places[key - config_keys]).text);
    buf_addf(&text, "member.%s = %.100s: %s", name, value, why);
    refuse(checking, &text);
}

static void check_member(struct checking *checking)
{
    enum { NAME_MAX = 64, URL_MAX = 200 };
    const char *name = checking->config->member_name, *url = checking->config->member_advertise;
    size_t host = strncmp(url, "http://", 7) == 0 ? 7 : strncmp(url, "https://", 8) == 0 ? 8 : 0;
    bool starts = host && url[host] && url[host] != ':' && url[host] != '/';
    if (!name[0] || strlen(name) >= NAME_MAX || !is_plain(name, ".-_"))
        refuse_word(checking, "name", name, "must be 1 to 63 letters, digits, ., - or _");
    if (url[0] && (!starts || strlen(url) > URL_MAX || !is_plain(url, ".-_:/[]%~")))
        refuse_word(checking, "advertise", url,
                    "must be a URL such as http://queue1.example:9277, up to 200 bytes");
}

enum err config_check(const struct config *config, struct config_error *out_error)
{
    struct checking checking = {.config = config, .error = out_error};
    check_listeners(&checking);
    check_order(&checking, "limits", "body_bytes", "limits", "request_bytes");
    check_store(&checking);
    check_memory(&checking);
    check_jobs(&checking);
    check_attempts(&checking);
    check_journal(&checking);
    check_history(&checking);
    check_member(&checking);
    check_order(&checking, "defaults", "ttr", "limits", "ttr_seconds");
    if (!checking.refused)
        checking.refused = !config_sections_check(config, out_error);
    return checking.refused ? ERR_INVALID : OK;
}
