/*
 * What the files of the waits share, and nobody else: consumers.c has who waits, fetch.c asks Redis
 * for their jobs.
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

/* What a group has asked a partition for. */
struct asked {
    int64_t us;     /* the last time */
    uint32_t calls; /* under way */
    uint32_t left;  /* jobs that are ready there, as its last answer counted them; 0: it did not */
};

struct wait_group {
    struct consumers *consumers;
    struct list place;   // consumers::groups
    struct list dirty;   // consumers::dirty, or nowhere
    struct list waiters; // waiter::place, first come first
    struct place *topics;
    uint32_t topic_count;
    bool listed_order, bound;
    int64_t ttr_us;   /* see cmd_reserve */
    uint64_t settles; /* waiters for whom settle() would do something: see there */
    uint32_t calls;   /* under way */
    uint32_t silent;  /* of these, the ones whose time is up: nobody waits for them any more */
    uint64_t wanted;  /* jobs, by all waiters */
    uint64_t asked;   /* jobs, by calls under way */
    struct asked *at; /* for each partition */
    int64_t suspect_since_us; /* when wait_group_nothing() was found out; 0: no more so */
    enum err nothing;         /* and what it was */
    uint32_t looking;         /* calls under way that nothing is asked for before, until: */
    int64_t probe_deadline_us;
    struct timer probe;    /* armed for that time, or it is over */
    uint64_t verify_round; /* in which it was looked at last: see consumers::verify */
};

static inline int64_t consumers_now_us(const struct consumers *consumers)
{
    return consumers->options.loop->now_us;
}

/* In the next turn's match something may be done for it. */
void wait_group_touch(struct wait_group *group);
/* Asks for what is wanted where there may be some, and answers those for whom nothing more comes.
 */
void wait_group_step(struct wait_group *group);
/* That a partition is empty, where that may be wrong, was believed for so long that it is to look.
 */
bool wait_group_is_suspect(const struct wait_group *group);
/* What is told who has got no job: ERR_EMPTY, or ERR_AGAIN where a partition could not be asked, or
 * has not answered for so long that it may have some. */
enum err wait_group_nothing(struct wait_group *group);
/* Asks behind a promote that is under way to the partition. */
void wait_group_ask_behind(struct wait_group *group, uint32_t partition);
/* We were told of a ready job and do not ask for it: another daemon is to. */
void consumers_pass_on(struct consumers *consumers, struct bytes name, uint32_t partition);
/* Jobs that the call to the partition has brought: to those who wait, first come first served; what
 * nobody wants, or has been reserved for too long, is given back. */
void wait_group_hand_out(struct wait_group *group, uint32_t partition, struct job_view *jobs,
                         uint32_t count);
/* Nothing more comes: what it has got, or `err`. */
void waiter_end(struct waiter *waiter, enum err err);

#endif
