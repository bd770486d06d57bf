#include "server/pump_stage.h"

#include "proto/settings/rate.h"
#include "server/door.h"
#include "server/server.h"

enum { MEMORY_SHARE = 8 }; /* the jobs that the pump holds may take an eighth of all memory, … */
#define MEMORY_UNLIMITED (UINT64_C(256) << 20) /* … or, if that has no limit, this many bytes */

static const struct principal pump_principal = {.protocol = PROTOCOL_KINDS, .name = "push"};

static struct server *server_of(struct pump_door *door)
{
    return LIST_ENTRY(door, struct server, pump_stage.door);
}

static enum submitted submit(struct pump_door *door, const struct cmd *cmd, struct ticket *ticket)
{
    return server_submit(server_of(door), &pump_principal, cmd, ticket);
}

static void cancel(struct pump_door *door, struct ticket *ticket)
{
    server_cancel(server_of(door), ticket);
}

static void wake(struct pump_door *door)
{
    server_of(door)->turn_again = true;
}

static uint64_t keeps_order(struct pump_door *door, struct bytes topic)
{
    const struct engine *engine = server_of(door)->engine;
    return engine->verbs->keeps_order(engine, topic);
}

static void add_sinks(struct pump *pump, const struct server_options *options)
{
    if (options->webhook)
        pump_add_sink(pump, TARGET_HTTP, (struct bytes){0}, options->webhook);
    for (unsigned i = 0; options->brokers && i < options->brokers->count; i++) {
        const struct sink_entry *entry = &options->brokers->at[i];
        pump_add_sink(pump, entry->type, entry->name, entry->sink);
    }
}

void pump_stage_begin(struct server *server)
{
    const struct server_options *options = &server->options;
    const struct config *config = options->config;
    uint64_t memory_bytes = options->limits.memory_bytes;
    server->registry = registry_new(
        &(struct registry_options){.hash_key = options->hash_key, .read = topic_settings_read});
    uint32_t rate_count = 0;
    int64_t rate_us = 0;
    (void)rate_read(bytes_str(config->push_host_rate), &rate_count, &rate_us); /* "0" is none */
    bool shared = config->push_ordered == ORDERED_AUTO && server->engine->verbs->keeps_order;
    server->pump_stage.door = (struct pump_door){.submit = submit,
                                                 .cancel = cancel,
                                                 .wake = wake,
                                                 .keeps_order = shared ? keeps_order : NULL};
    server->pump_stage.pump = pump_new(&(struct pump_options){
        .loop = server->loop,
        .registry = server->registry,
        .door = &server->pump_stage.door,
        .budget = &server->budget,
        .random = options->hash_key,
        .concurrency = (uint32_t)config->push_concurrency,
        .host_concurrency = (uint32_t)config->push_host_concurrency,
        .host_rate_count = rate_count,
        .host_rate_us = rate_us,
        .breaker_failures = (uint32_t)config->push_breaker_failures,
        .timeout_us = config->push_timeout_us,
        .retry_after_max_us = config->push_retry_after_max_us,
        .disable_after_us = config->push_disable_after_us,
        .shared = server->engine->verbs->keeps_order != NULL,
        .refuses_urls = config->job_targets == JOB_TARGETS_OFF,
        .leaves_ordered = config->push_ordered == ORDERED_OFF,
        .memory_bytes = memory_bytes ? memory_bytes / MEMORY_SHARE : MEMORY_UNLIMITED,
    });
    add_sinks(server->pump_stage.pump, options);
    if (server->engine->verbs->observe_settings)
        server->engine->verbs->observe_settings(server->engine,
                                                registry_observer(server->registry));
}

bool pump_stage_step(struct server *server)
{
    const struct engine *engine = server->engine;
    uint64_t changes = engine->verbs->order_changes ? engine->verbs->order_changes(engine) : 0;
    if (changes != server->pump_stage.order_changes)
        pump_order_changed(server->pump_stage.pump);
    server->pump_stage.order_changes = changes;
    bool more = registry_step(server->registry, &server->budget);
    more |= pump_step(server->pump_stage.pump);
    return more;
}

void pump_stage_end(struct server *server)
{
    if (server->engine->verbs->observe_settings)
        server->engine->verbs->observe_settings(server->engine, NULL);
    pump_free(server->pump_stage.pump);
    registry_free(server->registry);
}
