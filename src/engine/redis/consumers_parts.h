/*
 * Internal declarations of consumers*.c (the waiting consumers) and fetch*.c (reserving jobs for
 * them in Redis).
 */
#ifndef LATERD_ENGINE_REDIS_CONSUMERS_PARTS_H
#define LATERD_ENGINE_REDIS_CONSUMERS_PARTS_H

#include "engine/redis/consumers.h"

/* A group's place in a topic. */
struct place {
    struct list in_topic; // topic::groups
    struct wait_group *group;
    struct topic *topic;
};

/* What a group has requested from a partition. */
struct partition_fetches {
    int64_t us;         /* the last time */
    uint64_t last_call; /* its number */
    uint32_t calls;     /* under way */
    uint32_t left_out;  /* of these: see wait_group::left_out */
    uint32_t shared;    /* of these: others may bring their jobs, and then they are not done */
    uint32_t left; /* jobs that are ready there, as its last answer counted them; 0: it did not */
    uint32_t planned; /* jobs to be requested there as soon as its server has answered others */
    bool unplanned; /* these are no longer in wait_group::requested: others may be asked for them */
};

struct wait_group {
    struct consumers *consumers;
    struct list place;    // consumers::groups
    struct list dirty;    // consumers::dirty, or in no list
    struct list waiters;  // waiter::place, first come first
    struct list settling; // waiter::settling: those that are not parked, or have some jobs
    uint64_t waiter_count;
    struct place *topics;
    uint32_t topic_count;
    bool listed_order; /* of several topics: of one the order is no option */
    bool bound;
    int64_t ttr_us;      /* see cmd_reserve */
    uint32_t calls;      /* under way */
    uint32_t silent;     /* of these, calls that are overdue, and no longer waited for */
    uint32_t left_out;   /* of these, calls that consumers who have some jobs do not wait for */
    uint64_t wanted;     /* jobs, by all waiters */
    uint64_t requested;  /* jobs, by calls under way and planned; without those that are left out */
    uint64_t planned;    /* jobs, in all partitions: see fetch_parts.h */
    uint64_t came_jobs;  /* by the last answers: each counts half as much as the next, */
    uint64_t came_bytes; /* and what was in them */
    struct partition_fetches *at; /* for each partition */
    int64_t suspect_since_us;     /* since when all partitions seem empty; 0: they do not */
    enum err nothing;             /* and what it was */
    uint32_t awaited_probes;      /* calls under way that reserving waits for, until `probe`: */
    int64_t probe_deadline_us;
    struct timer probe;         /* the end of that time; not armed: it is over */
    struct list timed_requests; // fetch_request::place, by probe_end_us: probes, and for jobs of
                                // partitions not known yet, or whose server may be silent
    struct timer first_probe;   /* armed while there are such: the first is left out then */
    struct timer
        taken_rested;      /* partitions that are TAKEN are fetched from then: see fetch_taken() */
    uint64_t verify_round; /* the last round in which it was checked: consumers::verify */
};

static inline int64_t consumers_now_us(const struct consumers *consumers)
{
    return consumers->options.loop->now_us;
}

/* NULL: it is none of the group's, nor of another one's. */
static inline struct topic *topic_of(const struct wait_group *group, const struct job_view *job)
{
    if (group->topic_count == 1)
        return group->topics[0].topic;
    return topic_cache_find(&group->consumers->topic_cache, job->topic);
}

/* The time of wait_group::first_probe is up. The jobs that those partitions have not brought are
 * asked of other partitions as well, and waiters that have got some jobs are answered without them.
 * Jobs that come later are handed out as usual, or given back. */
void wait_group_end_first_probe(struct timer *timer);
/* Marks the group to be handled in the next match. */
void wait_group_touch(struct wait_group *group);
/* Reserves the wanted jobs where there may be some, and answers waiters that get nothing more. */
void wait_group_step(struct wait_group *group);
/* True: something that we believe of a partition must be checked. Either we have assumed for too
 * long that it is empty; or another daemon was notified of a job there, and that daemon may hang.
 */
bool wait_group_is_suspect(const struct wait_group *group);
/* The answer for a consumer without a job: ERR_EMPTY; ERR_AGAIN if a partition could not be asked,
 * or has not answered for so long that it may have jobs. */
enum err wait_group_nothing(struct wait_group *group);
/* Sends a reserve right behind a promote that is under way to the partition. */
void wait_group_fetch_behind(struct wait_group *group, uint32_t partition);
/* We were notified of a ready job, and do not need it: has another daemon notified. */
void consumers_pass_on(struct consumers *consumers, struct bytes name, uint32_t partition);
/* The same, but not before the next match has ended, and if no consumer here needs it then. */
void consumers_take_or_pass_on(struct consumers *consumers, struct topic *topic,
                               uint32_t partition);
/* Delivers the jobs of a call, which was written at `requested_us`, to the waiters, first come
 * first served; gives back jobs that are not wanted any more, or whose reservation is too old or
 * over. */
void wait_group_hand_out(struct wait_group *group, uint32_t partition, int64_t requested_us,
                         struct job_view *jobs, uint32_t count);
/* The number of the last call of a group that has a reserve from this topic under way to the
 * partition, or a probe, which will be answered as soon; 0: there is none. `wholly`: a reserve that
 * brings all it asks for, if that is there, and surely asks for this topic: one in listed order may
 * ask only for the topics before it. */
uint64_t consumers_requesting_call(const struct topic *topic, uint32_t partition, bool wholly);
/* Frees a group without waiters and calls. */
void wait_group_free_if_over(struct wait_group *group);
/* Answers the waiter with the jobs that it has got, or with `err` if it has none. */
void waiter_end(struct waiter *waiter, enum err err);

#endif
