/*
 * Settings of topics: opaque bytes with a version, kept until they are removed. The core has the
 * bytes in memory; each change is a complete new record.
 *
 * Versions are server-made numbers, from the same counter as those of jobs. That never goes back,
 * not even over crashes, so no version is given twice. They grow over all topics, with gaps.
 */
#include "base/check.h"
#include "base/mem.h"
#include "core/core_internal.h"

enum { SETTINGS_BYTES_PER_NS = 4 }; /* estimated work of storing them */

static struct bytes settings_of(const struct topic *topic)
{
    return topic->settings ? bytes_of(topic->settings->bytes, topic->settings->len)
                           : (struct bytes){0};
}

static struct stored emit(struct core *core, const struct topic *topic, uint64_t version,
                          bool promised)
{
    return core->sink->emit(core->sink, &(struct event){
                                            .kind = EVENT_SETTINGS,
                                            .promised = promised,
                                            .job = {.seq = version},
                                            .topic = topic->name,
                                            .body = settings_of(topic),
                                        });
}

static void died(struct core *core, struct stored record)
{
    if (core->sink->died && record.where)
        core->sink->died(core->sink, record);
}

/* Replaces the settings; empty: removes them. The caller emits their record. */
static void replace(struct core *core, struct topic *topic, uint64_t version, struct bytes bytes)
{
    struct topic_settings *old = topic->settings;
    topic->settings = NULL;
    if (bytes.len) {
        topic->settings = mem_alloc(sizeof(*topic->settings) + bytes.len);
        topic->settings->version = version;
        topic->settings->stored = (struct stored){0};
        topic->settings->len = bytes.len;
        memcpy(topic->settings->bytes, bytes.at, bytes.len);
    }
    if (old)
        died(core, old->stored);
    mem_free(old);
    topics_relist(&core->topics, topic);
}

/* Returns the version. */
static uint64_t change(struct core *core, struct topic *topic, struct bytes bytes)
{
    uint64_t version = core->seq_next++;
    replace(core, topic, version, bytes);
    struct stored stored = emit(core, topic, version, PROMISED);
    if (topic->settings)
        topic->settings->stored = stored;
    if (core->callbacks->settings)
        core->callbacks->settings(core->callbacks, topic->name, version, settings_of(topic));
    budget_spend(core->budget, (int64_t)bytes.len / SETTINGS_BYTES_PER_NS);
    return version;
}

void core_unset_settings(struct core *core, struct topic *topic)
{
    if (topic->settings)
        (void)change(core, topic, (struct bytes){0}); /* no version was required */
}

static enum err check(const struct core *core, const struct cmd_topic *cmd, uint64_t version)
{
    if (cmd->settings.len > TOPIC_SETTINGS_MAX)
        return ERR_INVALID;
    if (cmd->if_version && cmd->version != version)
        return ERR_VERSION;
    bool full = core->limits.memory_bytes && mem_used() > core->limits.memory_bytes;
    return full && cmd->settings.len ? ERR_MEMORY_LIMIT : OK;
}

void core_configure(struct core *core, const struct cmd_topic *cmd, void *ctx)
{
    struct topic *topic = topics_find(&core->topics, cmd->topic);
    uint64_t version = topic && topic->settings ? topic->settings->version : 0;
    struct reply reply = {.kind = CMD_CONFIGURE_TOPIC, .version = version};
    reply.err = check(core, cmd, version);
    if (!reply.err && cmd->settings.len) {
        reply.err = topics_get_or_create(&core->topics, cmd->topic, &topic);
        if (!reply.err)
            reply.version = change(core, topic, cmd->settings);
    } else if (!reply.err && version) {
        core_unset_settings(core, topic);
        reply.version = 0;
    }
    core_reply(core, ctx, &reply);
}

/* ---- replay, checkpoints ---- */

enum err core_replay_settings(struct core *core, const struct event *event)
{
    struct topic *topic;
    uint64_t version = event->job.seq;
    if (version == 0 || version == UINT64_MAX || event->body.len > TOPIC_SETTINGS_MAX)
        return ERR_CORRUPT;
    enum err err = topics_get_or_create(&core->topics, event->topic, &topic);
    if (err)
        return err == ERR_INVALID ? ERR_CORRUPT : err;
    core_number_from(core, version + 1, 0); /* so it is not given again */
    if (topic->settings && topic->settings->version > version) {
        died(core, event->record); /* an older record */
        return OK;
    }
    replace(core, topic, version, event->body);
    if (topic->settings)
        topic->settings->stored = event->record;
    return OK;
}

bool core_relocate_settings(struct core *core, struct topic *topic, uint64_t first, uint64_t end)
{
    struct topic_settings *settings = topic->settings;
    if (!settings || settings->stored.where < first || settings->stored.where >= end)
        return false;
    struct stored old = settings->stored;
    settings->stored = emit(core, topic, settings->version, NOT_PROMISED);
    died(core, old);
    return true;
}

void core_each_settings(const struct core *core,
                        void (*each)(void *ctx, struct bytes topic, uint64_t version,
                                     struct bytes settings),
                        void *ctx)
{
    const struct topics *topics = &core->topics;
    for (uint32_t i = topics_next(topics, 0); i != POOL_NONE; i = topics_next(topics, i + 1)) {
        const struct topic *topic = topics_at(topics, i);
        if (topic->settings)
            each(ctx, topic->name, topic->settings->version, settings_of(topic));
    }
}
