/*
 * What the files of the engine share, and nobody else: engine.c owns its parts and serves the port,
 * command.c has the commands that are under way.
 *
 * A ticket under way names in `held` what works for it: a waiter (then `parked` is set), else an
 * pending command of command.c, which goes on without the ticket (command_orphan).
 */
#ifndef LATERD_ENGINE_REDIS_ENGINE_PARTS_H
#define LATERD_ENGINE_REDIS_ENGINE_PARTS_H

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
    bool journal_behind;     /* as the last heartbeat's answer says: pushes are refused somewhere */
    uint64_t restored_topic; /* of the last push that a restore has made, the hash, */
    int64_t restored_due_us; /* and its due time */
    struct fanout_counts kicked;  /* what the last kick of few jobs has left */
    struct gathering *kept_stats; /* of command.c: the last ones that took many calls; NULL: none */
    struct gathering *renewed_stats; /* the next ones, which are being gathered; NULL: none */
    int64_t kept_stats_us, renew_stats_at_us;
    struct redis_error reason; /* see redis_reason_of_turn */
    bool has_reason;
    int64_t reason_us;         /* the turn's time */
    int64_t stats_us;          /* when `stats` was true; 0: never */
    struct engine_stats stats; /* as of the last answer to a CMD_TOPICS that asked for them */
    struct arena scratch;
    struct budget *budget; /* see engine_verbs::use_budget; or NULL */
    struct timer give_up;  /* starting, leaving: not beyond this */
    struct timer report;   /* starting: to say that it takes long */
    bool late;             /* it has been given up */
    bool standby;          /* see redis_engine_serve() */
    uint64_t serves_after; /* members::heartbeats, above which all is known that was before it */
    bool draining, leaving;
    bool told; /* leaving: Redis was told so */
};

/* A command on one job; on topics. See engine_verbs::submit. */
enum submitted command_on_job(struct redis_engine *redis, uint32_t partition, const struct cmd *cmd,
                              struct ticket *ticket);
enum submitted command_on_topics(struct redis_engine *redis, const struct cmd *cmd,
                                 struct ticket *ticket);
/* Why Redis does not serve us now, a clause without addresses, names and passwords; false: it does.
   Looks at each partition. */
bool redis_reason(const struct redis_engine *redis, struct redis_error *out_reason);
/* The same as it was at its first call in this turn; NULL: it serves us. Until the turn's end. */
const char *redis_reason_of_turn(struct redis_engine *redis);
/* What of the command Redis could not hold: ERR_UNSUPPORTED of script_route(). */
void redis_why_refused(const struct cmd *cmd, struct redis_error *out_reason);
/* engine_verbs::describe. */
void redis_describe(const struct redis_engine *redis, struct metric_sink *sink);
/* The engine ends. */
void command_forget_stats(struct redis_engine *redis);
/* Nobody waits for the answer any more. */
void command_orphan(void *held);

/* The job was reserved for somebody who has gone; its body is damaged. `owner`: the engine. */
void command_give_back(void *owner, const struct job_view *job);
void command_bury_damaged(void *owner, const struct job_view *job);

#endif
