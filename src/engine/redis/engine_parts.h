/*
 * Internal declarations of the engine: engine.c implements the port, engine_parts.c makes the parts
 * and passes events between them, command.c has the commands that are under way.
 *
 * ticket::held of a pending ticket is a struct waiter (then `parked` is set), or a pending command
 * of command.c, which continues if the ticket is cancelled (command_orphan).
 */
#ifndef LATERD_ENGINE_REDIS_ENGINE_PARTS_H
#define LATERD_ENGINE_REDIS_ENGINE_PARTS_H

#include "engine/redis/fanout.h"
#include "engine/redis/journal_feed.h"
#include "engine/redis/partition_init.h"
#include "engine/redis/preflight.h"
#include "engine/redis/rates.h"
#include "engine/redis/redis.h"
#include "engine/redis/requeue.h"
#include "engine/redis/settings_sync.h"
#include "engine/redis/subscription.h"

struct gathering;

struct redis_engine {
    struct engine engine;
    struct redis_options options;
    struct script_space space;
    struct topology topology;
    struct topology_callbacks topology_callbacks;
    struct script_requests calls;
    struct partition_init partition_init;
    struct members members;
    struct promoter promoter;
    struct consumers consumers;
    struct redis_requeue requeue;
    struct settings_sync settings;
    struct subscription subscription;
    struct preflight preflight;
    struct rates rates;
    struct redis_journal_feed journal;
    bool journal_behind;          /* the last heartbeat's answer: some partition refuses pushes */
    uint64_t restored_topic;      /* hash of the topic of the last restoring push, … */
    int64_t restored_due_us;      /* … and its due time */
    struct fanout_counts kicked;  /* jobs left by the last kick of few jobs */
    struct gathering *kept_stats; /* of command.c: the last ones that took many calls; NULL: none */
    struct gathering *renewed_stats; /* the next ones, which are being gathered; NULL: none */
    int64_t kept_stats_us, renew_stats_at_us;
    struct redis_error reason; /* see redis_reason_of_turn */
    bool has_reason;
    int64_t reason_us;         /* the turn's time */
    int64_t stats_us;          /* the time of `stats`; 0: never */
    struct engine_stats stats; /* of the last answer to a CMD_TOPICS with statistics */
    struct arena scratch;
    struct budget *budget; /* see engine_verbs::use_budget; or NULL */
    struct timer give_up;  /* time limit of starting, and of leaving */
    struct timer report;   /* starting: when to log that it takes long */
    bool late;             /* `give_up` has expired */
    bool standby;          /* see redis_engine_serve() */
    uint64_t serves_after; /* above this count of members::heartbeats, all changes are known that
                              were made before serving */
    bool draining, leaving;
    bool leave_sent; /* leaving: the request that tells it to Redis was sent */
};

/* Makes all parts, from `options` and `space`, which are filled in. Connections begin to open. */
void redis_make_parts(struct redis_engine *redis);
/* True: every partition is open, so that calls to it are sent. O(partitions). */
bool redis_reaches_all(const struct redis_engine *redis);

/* Submits a command on one job, or on topics. See engine_verbs::submit. */
enum submitted command_on_job(struct redis_engine *redis, uint32_t partition, const struct cmd *cmd,
                              struct ticket *ticket);
enum submitted command_on_topics(struct redis_engine *redis, const struct cmd *cmd,
                                 struct ticket *ticket);
/* Why Redis cannot be used now: a clause without addresses, names and passwords. False: it can.
   O(partitions). */
bool redis_reason(const struct redis_engine *redis, struct redis_error *out_reason);
/* The same, computed once a turn; NULL: it can be used. Valid until the turn's end. */
const char *redis_reason_of_turn(struct redis_engine *redis);
/* What a start waits for, with the server's address: temporary faults only, since a permanent one
   ends it. */
void redis_why_waits(const struct redis_engine *redis, struct redis_error *out_error);
/* Which part of the command cannot be kept in Redis, after ERR_UNSUPPORTED of script_route(). */
void redis_why_refused(const struct cmd *cmd, struct redis_error *out_reason);
/* engine_verbs::describe. */
void redis_describe(const struct redis_engine *redis, struct metric_sink *sink);
/* At the engine's end: frees kept statistics. */
void command_forget_stats(struct redis_engine *redis);
/* The ticket was cancelled: the command continues without it. */
void command_orphan(void *held);

/* Give back a job whose consumer has gone; bury one whose body is damaged. `owner`: the engine. */
void command_give_back(void *owner, const struct job_view *job);
void command_bury_damaged(void *owner, const struct job_view *job);

#endif
