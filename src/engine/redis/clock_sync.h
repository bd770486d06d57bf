/*
 * Updates the estimates of all partitions' clocks (queue_clock.h) by their scripts' answers: reads
 * a clock that contradicts its estimate, sets it after a leap of Redis' clock, and maintains
 * script_space::ahead_us. One thread.
 */
#ifndef LATERD_ENGINE_REDIS_CLOCK_SYNC_H
#define LATERD_ENGINE_REDIS_CLOCK_SYNC_H

#include "engine/redis/script_request.h"

/* Puts the bounds of its partition's clock into a new call. */
void clock_sync_bound(struct script_request *call);
/* The same for a request that is about to be sent, perhaps long after it was written. */
void clock_sync_bound_again(struct script_request *call);

/* Takes the time of an answer that was clamped to the bounds. */
void clock_sync_note_answer(const struct script_request *call, const struct bytes *parts,
                            uint32_t count);
/* Takes the clock of an answer that was not clamped: of open and set_clock. `created`: the open has
 * created the partition. */
void clock_sync_read(const struct script_request *call, const struct bytes *parts, uint32_t count,
                     bool created);
/* We are not registered in the partition any more, because others considered us dead: our machine
 * may have been stopped, and its clock with it; unless the clock of another partition has shown
 * since that it was not. */
void clock_sync_forgotten(struct script_requests *calls, uint32_t partition);
/* Takes a heartbeat's answer, which says how often the clock of partition 0 was set. */
void clock_sync_heartbeat(struct script_requests *calls, const struct bytes *parts, uint32_t count);
/* A promote's answer says how often the clock of its partition was set: it is read if that is more
 * often than we know. */
void clock_sync_promoted(struct script_requests *calls, uint32_t partition, uint64_t set_count);

/* Another daemon has set the partition's clock, or may have: reads it, unless it is not known yet.
 * Otherwise nothing would tell us while Redis' own clock goes on: requests have the shift that we
 * know. Where the notice is lost, the clock is read when a client's request is answered there and
 * it was not read for a second. */
void clock_sync_was_set(struct script_requests *calls, uint32_t partition);

#endif
