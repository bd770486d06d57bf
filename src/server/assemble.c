#include "server/assemble.h"

uint64_t assemble_memory_bytes(const struct config *config, const struct platform *platform)
{
    return config->memory_bytes ? (uint64_t)config->memory_bytes
                                : platform->memory_available / 4 * 3;
}

struct core_limits assemble_limits(const struct config *config, const struct platform *platform)
{
    return (struct core_limits){
        .jobs = (uint64_t)config->jobs,
        .topics = (uint32_t)config->topics,
        .waiters = (uint32_t)config->waiters,
        .memory_bytes = assemble_memory_bytes(config, platform),
        .ready_in_memory = (uint64_t)config->ready_in_memory,
        .buried_in_memory = (uint64_t)config->buried_in_memory,
    };
}

uint32_t assemble_store_files(const struct config *config, uint64_t descriptors)
{
    enum { PART = 16, PART_MOST = 1024, MOST = 16 * 1024, OTHERS = 256 };
    uint64_t others = (uint64_t)config->connections + OTHERS;
    uint64_t part = descriptors / PART < PART_MOST ? descriptors / PART : PART_MOST;
    uint64_t left = descriptors > others ? (descriptors - others) / 2 : 0;
    uint64_t files = left > part ? left : part;
    return files == 0 ? 1 : (uint32_t)(files < MOST ? files : MOST); /* 0 would mean: not told */
}

/* Clients of beanstalkd have a limit of their own; the store keeps the bodies of all. */
static uint32_t body_max(const struct config *config)
{
    return (uint32_t)(config->body_bytes > config->job_bytes ? config->body_bytes
                                                             : config->job_bytes);
}

/* If pushes are refused beyond the limit, the follower is not dropped there; a full disk drops
   it. */
static uint64_t follower_bytes(const struct config *config)
{
    if (!config->journal_url[0])
        return 0;
    bool refuses = config->journal_on_lag == JOURNAL_ON_LAG_REFUSE;
    return refuses ? UINT64_MAX : (uint64_t)config->journal_lag_bytes;
}

struct embedded_options assemble_embedded(const struct config *config,
                                          const struct platform *platform)
{
    int64_t now_us = platform->clock->now_us(platform->clock);
    return (struct embedded_options){
        .limits = assemble_limits(config, platform),
        .store =
            {
                .disk = platform->disk,
                .segment_bytes = (uint64_t)config->segment_bytes,
                .horizon_us = config->horizon_us,
                .checkpoint_bytes = (uint64_t)config->checkpoint_bytes,
                .history_us = config->history_us,
                .max_bytes = (uint64_t)config->max_bytes,
                .recent_bytes = (uint64_t)config->recent_bytes,
                .buffered = config->durability != DURABILITY_SYNC,
                .interval_us = config->interval_us,
                .inline_us = platform->inline_commit_us,
                .files_max = platform->store_files_max,
                .body_max = body_max(config),
                .follower_bytes = follower_bytes(config),
                .now_us = now_us,
                .id_seed = platform->store_id,
                .epoch = platform->epoch,
            },
        /* Where `later backup` finds it, from whatever folder it is started in. */
        .directory = platform->data_dir ? platform->data_dir : config->data_dir,
        .durability = config->durability,
        .hash_key = platform->hash_key,
        .lease_first = platform->lease_key >> 2, /* far from the end of 64 bits */
        .now_us = now_us,
        .loop = platform->loop,
    };
}

struct embedded_journal assemble_journal(const struct config *config)
{
    return (struct embedded_journal){
        .before = config->journal_mode == JOURNAL_MODE_BEFORE,
        .refuse = config->journal_on_lag == JOURNAL_ON_LAG_REFUSE,
        .max_lag_bytes = (uint64_t)config->journal_lag_bytes,
        .max_lag_us = config->journal_lag_us,
    };
}

#ifndef LATERD_NO_REDIS

/* Of a job's entry for the journal: topic, id, content type, properties, schedule, numbers. */
enum { ENTRY_BYTES = 8 * 1024 };

struct redis_options assemble_redis(const struct config *config, const struct platform *platform,
                                    const struct redis_url *url, const char *sentinel_password)
{
    return (struct redis_options){
        .url = *url,
        .sentinel_user = config->sentinel_user,
        .sentinel_password = sentinel_password,
        .prefix = config->redis_prefix,
        .partitions = (uint32_t)config->redis_partitions,
        .order = (enum redis_order)config->redis_order,
        .timeout_us = config->redis_timeout_us,
        .wait_replicas = (unsigned)config->redis_wait_replicas,
        .jobs_max = (uint64_t)config->jobs,
        .topics_max = (uint32_t)config->topics,
        .waiters_max = (uint32_t)config->waiters,
        .journal_bytes = config->journal_url[0] ? (uint64_t)config->journal_lag_bytes : 0,
        .journal_job_bytes = (uint64_t)body_max(config) + ENTRY_BYTES,
        .journal_lag_us = config->journal_lag_us,
        .journal_detaches = config->journal_on_lag == JOURNAL_ON_LAG_DETACH,
        .loop = platform->loop,
    };
}

#endif

struct webhook_options assemble_webhook(const struct config *config,
                                        const struct platform *platform)
{
    enum { IDLE_CONNECTIONS = 256 };
    return (struct webhook_options){
        .loop = platform->loop,
        .rule = &config->push_rule,
        .timeout_us = config->push_timeout_us,
        .connect_timeout_us = config->push_connect_us,
        .response_bytes = (uint64_t)config->push_response_bytes,
        .proxy = config->push_proxy,
        .unix_sockets = config->push_unix_sockets,
        .idle_connections = IDLE_CONNECTIONS,
    };
}

static struct api_limits api_limits(const struct config *config, const struct platform *platform)
{
    struct core_limits limits = assemble_limits(config, platform);
    return (struct api_limits){
        .body_bytes = (uint32_t)config->body_bytes,
        .json_depth = (uint32_t)config->json_depth,
        .batch_jobs = (uint32_t)config->batch_jobs,
        .reserve_topics = (uint32_t)config->reserve_topics,
        .wait_us = config->wait_us,
        .keeps_history = config->history_us > 0,
        .no_history = config->engine == ENGINE_REDIS,
        .block_us = config->block_us,
        .ttr_us = config->ttr_us,
        .ttr_max_us = config->ttr_max_us,
        .east_us = platform->east_us,
        .jobs = limits.jobs,
        .topics = limits.topics,
        .waiters = limits.waiters,
        /* jobs are in Redis, so its memory counts, not ours */
        .memory_bytes = config->engine == ENGINE_REDIS ? 0 : limits.memory_bytes,
        .disk_bytes = (uint64_t)config->max_bytes,
    };
}

struct server_options assemble_server(const struct config *config, const struct platform *platform)
{
    struct server_options options = {
        .config = config,
        .loop = platform->loop,
        .worker = platform->worker,
        .webhook = platform->webhook,
        .brokers = platform->brokers,
        .api = api_limits(config, platform),
        .http =
            {
                .line_bytes = (uint32_t)config->line_bytes,
                .headers = (uint32_t)config->headers,
                .header_bytes = (uint32_t)config->header_bytes,
                .body_bytes = (uint64_t)config->request_bytes,
            },
        .limits = assemble_limits(config, platform),
        .hash_key = platform->hash_key,
        .instance = platform->instance,
    };
    memcpy(options.host, platform->host, sizeof(options.host));
    return options;
}
