/*
 * Converts a configuration to the options of the parts: the only place that assigns keys to parts.
 * The program (src/laterd) and the simulator (sim/world.c) build their engine and server by it, so
 * that what is simulated is what runs; each adds only what struct platform holds. A key that only
 * the server needs is not here: server/ reads it from server_options::config.
 *
 * All functions are pure; what they return borrows from `config` and `platform`.
 */
#ifndef LATERD_SERVER_ASSEMBLE_H
#define LATERD_SERVER_ASSEMBLE_H

#include "engine/embedded/embedded.h"
#ifndef LATERD_NO_REDIS
#include "engine/redis/redis.h"
#endif
#include "port/sink.h"
#include "server/config/config.h"
#include "server/server.h"
#include "sink/webhook.h"

/* What is not configured: the implementations of the ports, facts of the machine, random
   numbers. */
struct platform {
    struct clock *clock;
    struct loop *loop;
    struct worker *worker;
    struct sink *webhook;              /* NULL: there is none */
    const struct sink_table *brokers;  /* NULL: there are none */
    struct disk *disk;                 /* NULL: nothing is kept on disk */
    const char *data_dir;              /* absolute path of its directory; NULL: not known */
    uint64_t epoch;                    /* see store_options::epoch; 0: there is no election */
    int64_t inline_commit_us;          /* see store_options::inline_us */
    uint32_t store_files_max;          /* see store_options::files_max */
    uint64_t memory_available;         /* bytes that this process may use; 0: there is no limit */
    int64_t (*east_us)(int64_t at_us); /* see api_limits::east_us */
    char host[SERVER_HOST_MAX];        /* the machine's first address; empty: not known */
    /* Random numbers; of the simulator, made from its seed. */
    uint64_t hash_key;
    uint64_t lease_key; /* makes embedded_options::lease_first */
    uint64_t instance;
    uint64_t store_id; /* see store_options::id_seed; 0: the store takes a random one */
};

/* limits.memory_bytes; if it is 0, three quarters of what is available. 0: no limit. */
uint64_t assemble_memory_bytes(const struct config *config, const struct platform *platform);

/*
 * How many files of segments and slices a store may keep open, in a process that may have
 * `descriptors` descriptors. It is half of what is left after limits.connections and 256 more; the
 * other half is for connections that we open, and all else. At least a sixteenth of `descriptors`,
 * but no more than 1,024 for that reason alone; at most 16,384, because an open file takes some
 * 1.5 KiB of the kernel's memory.
 */
uint32_t assemble_store_files(const struct config *config, uint64_t descriptors);

struct core_limits assemble_limits(const struct config *config, const struct platform *platform);

/* The clock is read once, for `now_us`. */
struct embedded_options assemble_embedded(const struct config *config,
                                          const struct platform *platform);
/* Without the journal itself. */
struct embedded_journal assemble_journal(const struct config *config);

#ifndef LATERD_NO_REDIS
/* `url` and `sentinel_password`: what redis.url and redis.sentinel_password stand for. */
struct redis_options assemble_redis(const struct config *config, const struct platform *platform,
                                    const struct redis_url *url, const char *sentinel_password);
#endif

/* Of [push]; platform->loop is set. */
struct webhook_options assemble_webhook(const struct config *config,
                                        const struct platform *platform);

/* All but the engine and the listeners, which the caller fills in. */
struct server_options assemble_server(const struct config *config, const struct platform *platform);

#endif
