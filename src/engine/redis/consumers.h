/*
 * Reserves, and the consumers that wait for jobs: they are parked here, first come first served,
 * and served when a job becomes ready. There is no polling.
 *
 * Consumers that reserve from the same topics with the same options form one `struct wait_group`:
 * their numbers of wanted jobs are added up, and one script call reserves jobs for many of them. No
 * more jobs are reserved than are wanted; jobs for consumers that leave meanwhile are given back.
 *
 * From which partitions jobs are reserved:
 * - If nothing is known (topic_cache.h), all partitions are probed first (fetch_parts.h). Then jobs
 *   are reserved only where there are some, the best first. A consumer that wants more than 32 jobs
 *   needs no probe if it wants at least one of each partition that may have some: all are asked.
 * - If fewer jobs are wanted than there are partitions, each job of one consumer comes from another
 *   partition: a reserve of one job takes the best of the first jobs of all partitions, as far as
 *   this daemon knows them.
 * - Jobs for several consumers come from few partitions, if they are close to the best ones
 *   (RANK_CLOSE_US), even if this daemon does not know all of them: Redis takes what is there.
 * - If pushes that are under way from here make as many jobs ready as are wanted, no other jobs are
 *   requested.
 * - This daemon does not know of a job that came through another daemon, or became due, in a
 *   partition that had ready jobs already. Such a partition is read again after STALE_US.
 *
 * Single-threaded.
 */
#ifndef LATERD_ENGINE_REDIS_CONSUMERS_H
#define LATERD_ENGINE_REDIS_CONSUMERS_H

#include "base/budget.h"
#include "engine/redis/script_request.h"
#include "engine/redis/topic_cache.h"
#include "port/engine.h"

struct wait_group;

/* One parked reserve. */
struct waiter {
    struct list place;    // wait_group::waiters
    struct list settling; // wait_group::settling, or in no list
    struct wait_group *group;
    struct ticket *ticket;
    uint32_t max;
    bool parked; /* it waits for a job, not only for the answer of a call */
    int64_t asked_us;
    struct timer deadline;
    /* The jobs that it has got so far, fewer than it wants: */
    struct arena arena;
    struct job_view *jobs;
    uint32_t job_count;
    size_t got_bytes; /* of their bodies and properties */
};

struct consumers_options {
    const struct script_space *space;
    struct script_requests *calls;
    struct loop *loop;
    uint32_t waiters_max;
    int64_t timeout_us; /* a reserve that does not wait is answered within this time */
    /* How long we trust that a partition is empty, where another daemon may get the notice instead
       of us, or where no notices are received. */
    int64_t believe_us;
    /* Consumers wait, and a partition of which no notices are received will be looked at: jobs that
       are due there must be ready by then, though the daemon that makes them so may not know. */
    void (*looking)(void *owner, uint32_t partition);
    /* Called for a job that was reserved for a consumer that has gone. */
    void (*give_back)(void *owner, const struct job_view *job);
    /* Called for a reserved job whose body does not match its checksum. */
    void (*damaged)(void *owner, const struct job_view *job);
    void *owner;
};

struct consumers {
    struct consumers_options options;
    struct topic_cache topic_cache;
    struct list groups;           // wait_group::place
    struct list dirty;            // wait_group::dirty: to be handled in match
    struct list notified_alone;   // topic::notified_alone: only we were notified of a ready job
    size_t waiters;               /* of all groups */
    struct wait_group *hit_group; /* got the last promoted jobs: see consumers_promoting() */
    uint32_t hit_streak;          /* how often in a row */
    uint64_t last_call;           /* the number of the last call for jobs, or probe; from 1 */
    int64_t answer_us;            /* how long answers to reserves take, usually; 0: not known */
    struct arena scratch;         /* of the answer being read */
    bool *subscribed;             /* [partition]: its notices are received */
    enum err drained;             /* the answer to reserves that would wait; OK: not draining */
    bool drains;                  /* some may be parked still */
    struct timer again;           /* for the earliest of topic::again_us */
    struct timer verify;          /* while consumers wait: to check old knowledge of partitions */
    uint64_t verify_round;        /* from 1; groups with the same verify_round are done */
    struct lateness lateness;     /* of jobs handed out here */
    struct lateness_histogram lateness_histogram;
};

void consumers_init(struct consumers *consumers, const struct consumers_options *options);
void consumers_fini(struct consumers *consumers);

enum submitted consumers_reserve(struct consumers *consumers, const struct cmd_reserve *reserve,
                                 struct ticket *ticket);
void consumers_cancel(struct consumers *consumers, struct waiter *waiter);
/* Answers all parked reserves, and all later ones that would wait, with `err`; as far as the budget
   goes (NULL: it has no end), the rest in consumers_match(). */
void consumers_drain(struct consumers *consumers, enum err err, struct budget *budget);

/* To whom a notice was published. */
enum notified {
    NOTIFIED_ALONE, /* only to us: if we need no job there, another daemon must be notified */
    NOTIFIED_ALL,   /* every daemon that waits; or we are the only one */
    NOTIFIED_OTHER  /* another daemon was notified to take the job: no consumer is woken here */
};

/* There may be ready jobs of the topic in the partition. */
void consumers_ready(struct consumers *consumers, struct bytes name, uint32_t partition,
                     enum notified notified);
/* A promote to the partition is under way. */
void consumers_promoting(struct consumers *consumers, uint32_t partition);
void consumers_promoted(struct consumers *consumers, struct bytes name, uint32_t partition);
/* An answer from the partition contains a ready job; `became`: it is so by what was asked, which
 * has neither found it there nor replaced another one, so there is one ready job more. */
void consumers_see(struct consumers *consumers, const struct job_view *job, uint32_t partition,
                   bool became);
/* A push of a job that is due is under way. Returns its topic, for consumers_pushed(); NULL: nobody
 * has asked for it lately. */
struct topic *consumers_pushing(struct consumers *consumers, struct bytes name);
/* The push was answered, or is given up. */
void consumers_pushed(struct topic *topic);
/* Drops all knowledge of partitions, because our marks may be gone. */
void consumers_forget(struct consumers *consumers);
/* The partition's notices are received from now on, or no longer. Drops what is known of it. */
void consumers_subscribed(struct consumers *consumers, uint32_t partition, bool subscribed);

/* Once a turn: reserves jobs where there may be some, for the groups that are dirty, as far as the
   budget goes (NULL: it has no end), for one of them at least. */
void consumers_match(struct consumers *consumers, struct budget *budget);
/* True: consumers_match() has something to do. */
bool consumers_wait_for_match(const struct consumers *consumers);
uint64_t consumers_count(const struct consumers *consumers);
/* What is known of the topic; NULL: no reserve has asked for it lately. */
const struct topic *consumers_topic(const struct consumers *consumers, struct bytes name);
/* A job was delivered to a consumer: counts its lateness. */
void consumers_delivered(struct consumers *consumers, const struct job_view *job);

#endif
