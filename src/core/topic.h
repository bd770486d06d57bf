/*
 * A topic: its ready jobs, buried jobs, waiting consumers, pause and counters. Topics are made when
 * they are first named and stay while they hold anything, or have settings; idle ones are evicted,
 * oldest first, only when limits.topics is reached, so that their counters last.
 */
#ifndef LATERD_CORE_TOPIC_H
#define LATERD_CORE_TOPIC_H

#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "core/cmd.h"
#include "core/far_ready.h"
#include "core/name_order.h"
#include "core/rate.h"
#include "core/ready_heap.h"

/* Opaque bytes that are kept with a topic. */
struct topic_settings {
    uint64_t version;     /* a server-made number: grows over all topics, is never given again */
    struct stored stored; /* their record */
    size_t len;           /* bytes, at least 1 */
    char bytes[];
};

struct topic {
    struct bytes name; /* mem_alloc'd */
    uint64_t name_hash;
    uint64_t made;   /* its serial number among all topics ever made, from 1; 0: it was forgotten */
    uint32_t number; /* its own, in the pool; used again when it is forgotten */
    struct ready_heap ready;
    struct far_ready far_ready;         /* the order of the ready jobs that are far */
    uint32_t buried_first, buried_last; /* list through job::prev, next; first is kicked first */
    struct list waiting;                // wait_link::of_topic, first come first served
    struct list place;                  // in topics::idle, servable or hungry, or in none
    bool servable;                      /* is in topics::servable */
    bool idle;                          /* is in topics::idle */
    bool hungry;                        /* is in topics::hungry */
    uint32_t pins;                      /* scans in progress that need the topic to stay */
    uint32_t kicker; /* generation of the parked KICK_TOPIC whose turn it is; 0: none */
    uint64_t mark;   /* the last reserve that parked on it: finds topics named twice */
    uint32_t timer_prev, timer_next; /* on the wheel of pauses */
    int64_t pause_until_us;          /* 0 = not paused */
    int64_t pause_us;                /* the whole length of that pause */
    uint64_t jobs[JOB_STATES];
    uint64_t far[JOB_STATES]; /* of `jobs`, those that are not in memory: core/far.c */
    uint64_t urgent;          /* ready ones with a priority below PRIORITY_URGENT */
    uint64_t waiters;
    uint64_t pushed, reserved, finished, deleted, timeouts, released, buried, kicked, pauses;
    struct topic_settings *settings; /* mem_alloc'd; NULL: none */
    struct rate push_rate, reserve_rate, finish_rate;
    struct lateness lateness;
};

struct topics {
    struct pool pool;
    struct map by_name;
    struct name_order order; /* the same, sorted */
    struct topic
        *recent; /* the last result of topics_get_or_create(): the next one is likely the same */
    struct list idle;        // topic::place, longest idle first
    struct list servable;    // topic::place: has ready jobs and waiters and is not paused
    struct list hungry;      // topic::place: the same, but its first ready job is far
    const struct pool *jobs; /* borrowed */
    uint32_t max;
    uint64_t key;
    uint64_t made; /* topics that were ever made */
};

/* `jobs` is borrowed: its places in topics' heaps are numbers of that pool. */
void topics_init(struct topics *topics, const struct pool *jobs, uint32_t max, uint64_t hash_key);
void topics_fini(struct topics *topics);
struct topic *topics_find(const struct topics *topics, struct bytes name); /* or NULL */
/* Finds the topic, or creates it. ERR_TOPICS_LIMIT: there are `max`, and none is idle. */
enum err topics_get_or_create(struct topics *topics, struct bytes name,
                              struct topic **out_topic) MUST_USE;
/* Removes an idle topic and its counters. */
void topics_forget(struct topics *topics, struct topic *topic);
static inline struct topic *topics_at(const struct topics *topics, uint32_t number)
{
    return pool_at(&topics->pool, number);
}
/* The number of the next topic at or after `number`, or POOL_NONE: goes through all in O(pool). */
uint32_t topics_next(const struct topics *topics, uint32_t number);
/* How many of the topic's jobs in this state are in memory. */
static inline uint64_t topic_in_memory(const struct topic *topic, enum job_state state)
{
    return topic->jobs[state] - topic->far[state];
}
/* The first ready job in order, if it is in memory; else POOL_NONE. O(1). */
static inline uint32_t topic_first_ready(const struct topic *topic, const struct pool *jobs)
{
    uint32_t first = ready_heap_first(&topic->ready);
    bool far = topic->far_ready.count > 0 && first != POOL_NONE &&
               far_ready_before(&topic->far_ready.entries[0], pool_at(jobs, first));
    return far ? POOL_NONE : first;
}
/* The entry of the first ready job in order, if it is far; else NULL. O(1). */
static inline const struct far_ready_entry *topic_first_far(const struct topic *topic,
                                                            const struct pool *jobs)
{
    bool far = topic->far_ready.count > 0 && topic_first_ready(topic, jobs) == POOL_NONE;
    return far ? topic->far_ready.entries : NULL;
}
/* Call after any change to a topic's jobs, waiters or pause: moves the topic to the list where it
   belongs now (idle, servable, hungry, or none). */
void topics_relist(struct topics *topics, struct topic *topic);
void topics_valid(const struct topics *topics);

#endif
