/* What is checked when all is read, and where each value came from. */
#include <stdio.h>

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

/* Begins "FILE:LINE: section.key = value: " at `key`, or at the other one if no file set the first.
 */
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
    buf_add_str(&text, "server.http and server.beanstalk are both none: there must be a listener, "
                       "such as http = 127.0.0.1:9277");
    refuse(checking, &text);
}

enum err config_check(const struct config *config, struct config_error *out_error)
{
    struct checking checking = {.config = config, .error = out_error};
    check_listeners(&checking);
    check_order(&checking, "limits", "body_bytes", "limits", "request_bytes");
    check_store(&checking);
    check_jobs(&checking);
    check_order(&checking, "defaults", "ttr", "limits", "ttr_seconds");
    return checking.refused ? ERR_INVALID : OK;
}
