/*
 * Commands on topics: calls to all partitions, whose answers are combined into one. Pure: the
 * engine sends the calls.
 */
#ifndef LATERD_ENGINE_REDIS_FANOUT_H
#define LATERD_ENGINE_REDIS_FANOUT_H

#include "base/discard.h"
#include "engine/redis/script.h"

/*
 * The engine's loop:
 *     fanout_new(space, cmd)
 *     for each partition p: while fanout_wants(fanout, p): fanout_encode(fanout, …), send;
 *         on the answer fanout_take(fanout, p, parts …), then check all p again
 *     when fanout_done(fanout): fanout_reply(fanout, …), answer, free
 * Long commands take several calls to a partition, each with bounded work. Kicking and clearing
 * call a few partitions at a time, the other commands all at once. The first error ends it.
 */
struct fanout;

/* How many jobs of one topic in one state each partition had at the last count. */
struct fanout_counts {
    uint64_t topic; /* hash of its name */
    enum job_state state;
    uint32_t *jobs; /* by partition; may be outdated */
};

struct fanout *fanout_new(const struct script_space *space, const struct cmd *cmd);
/* `discard` frees what it has of topics, a piece at a time; NULL: it is freed now. */
void fanout_free(struct fanout *fanout, struct discard *discard);
/* Before the first call: KICK_TOPIC calls only partitions that have jobs by these counts, if the
 * counts are of its topic, and there are enough. If they turn out to be outdated, all partitions
 * are called. O(partitions) */
void fanout_direct(struct fanout *fanout, const struct fanout_counts *counts);
/* When it is done: updates the counts by what it has counted and kicked, if it has.
   O(partitions) */
void fanout_keep_counts(const struct fanout *fanout, struct fanout_counts *counts);
/* KICK_TOPIC: may jobs of the partition have been made ready? */
bool fanout_touched(const struct fanout *fanout, uint32_t partition);
/* Should a call to this partition be sent now? False while one is under way. */
bool fanout_wants(const struct fanout *fanout, uint32_t partition);
/* Appends the request of the next call, to call->partition. */
void fanout_encode(struct fanout *fanout, struct buf *out, const struct script_call *call);
/* Takes an answer, and copies what it keeps. ERR_CORRUPT as script_read(). */
enum err fanout_take(struct fanout *fanout, uint32_t partition, const struct bytes *parts,
                     uint32_t count) MUST_USE;
bool fanout_done(const struct fanout *fanout); /* answered; nothing under way */
/* The result of TOPICS with `stats` and `due_within`: see struct engine_stats. */
const uint64_t *fanout_due_within(const struct fanout *fanout);
/* The same command: the sums of all topics, and how many they are. O(1). */
const struct topic_view *fanout_sums(const struct fanout *fanout, uint32_t *out_topics);
/* The same command, when it is done: the next reply shows up to `max` topics after this name, which
   is borrowed until then. */
void fanout_turn_to(struct fanout *fanout, struct bytes after, uint32_t max);
/* The reply's bytes live until fanout_free(), its topics until the next reply. The caller adds
 * rates, lateness and waiters, which are not in Redis. O(page). */
void fanout_reply(struct fanout *fanout, struct reply *out_reply);

#endif
