/*
 * Keeps what is known of the clocks of all partitions (queue_clock.h) by the answers of their
 * scripts: asks for a clock that is not where it should be, sets it right after a leap of Redis'
 * clock, and keeps script_space::ahead_us. One thread.
 */
#ifndef LATERD_ENGINE_REDIS_CLOCK_SYNC_H
#define LATERD_ENGINE_REDIS_CLOCK_SYNC_H

#include "engine/redis/script_request.h"

/* Puts the bounds of its partition's clock into a new call. */
void clock_sync_bound(struct script_request *call);
/* The same, into a request that is written and about to be sent: perhaps long after. */
void clock_sync_bound_again(struct script_request *call);

/* An answer of a script that keeps to the bounds. */
void clock_sync_heard(const struct script_request *call, const struct bytes *parts, uint32_t count);
/* The answer of one that does not: open and set_clock. */
void clock_sync_read(const struct script_request *call, const struct bytes *parts, uint32_t count);
/* The partition does not know us any more, because others took us for dead: perhaps our machine was
 * stopped, and its clock with it. Not if the clock of another partition has shown since that it was
 * not. */
void clock_sync_forgotten(struct script_requests *calls, uint32_t partition);
/* A heartbeat's answer, which says how often the clock of partition 0 was set. */
void clock_sync_heartbeat(struct script_requests *calls, const struct bytes *parts, uint32_t count);

#endif
