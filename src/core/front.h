/*
 * Ready far jobs, in the order in which they are handed out: which of them must be in memory next.
 */
#ifndef LATERD_CORE_FRONT_H
#define LATERD_CORE_FRONT_H

#include "core/core.h"

enum { CORE_FRONT_LEAST = 32, CORE_FRONT_MAX = 256 };

/* The far jobs that are handed out next from a topic, in order: as many as its waiting consumers
   want, but CORE_FRONT_LEAST at least and CORE_FRONT_MAX at most. */
struct core_front {
    uint32_t topic, count;
    bool many; /* they want more than one */
    struct {
        uint64_t seq, where;
    } jobs[CORE_FRONT_MAX];
};

/*
 * Finds the next topic with waiting consumers whose first ready job is far, and the first of its
 * far ready jobs, in order. Their records should be read and passed to core_front_arrive(); until
 * then no job of the topic is handed out. False: there is no such topic, or no far job may come:
 * core_limits::memory_bytes is exceeded and 1,024 jobs or more are reserved. O(count log count):
 * some 10 µs for 32 jobs.
 */
bool core_front(struct core *core, struct core_front *out_front);
/* Would core_front() return true? O(1). */
bool core_front_wanted(const struct core *core);
/*
 * core_arrive() for a job named by core_front(): it does not depart again. False: it is not far any
 * more; or it is, but the record is not the one in the index. In the second case call
 * core_front_unread(), or core_front() will return the job forever.
 */
bool core_front_arrive(struct core *core, const struct event *event);
/* The record of a job named by core_front() cannot be read: other jobs are handed out before it
   until core_front_retry(). O(CORE_FRONT_MAX). */
void core_front_unread(struct core *core, uint32_t topic_number, uint64_t seq, uint64_t where);
/* Puts jobs that core_front_unread() took out of the order back, up to 1,000 a call; true = there
   are more. */
bool core_front_retry(struct core *core);
/* The first ready job of the topic, if it is far: its number and the place of its record, for a
   PEEK. False: it is not far. O(1). */
bool core_front_first(struct core *core, struct bytes topic, uint64_t *out_seq,
                      uint64_t *out_where);

#endif
