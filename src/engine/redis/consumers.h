/*
 * Reserves, and the consumers who wait for jobs: parked here, first come first served, and served
 * when a job becomes ready. Nothing is polled.
 *
 * Consumers who ask for the same topics in the same way are one `struct wait_group`:
 * their wants are added up, and one script call takes jobs for many of them. No more jobs are asked
 * for than there are wants, so none is taken that nobody is there for, but for consumers who leave
 * meanwhile: those jobs are given back.
 *
 * Where nothing is known (topic_cache.h), all partitions are looked at together, and then only
 * those that have jobs are asked for some, the best first. Of the jobs that a group takes at a
 * time, each comes from another partition as long as there are more partitions than wants: so one
 * reserve of one job takes the best of all partitions' first ones, as far as this daemon knows
 * them. It does not know of a job that came through another daemon, or became due, in a partition
 * that had others ready already; what it knows of such a partition is looked up again after
 * STALE_US.
 */
#ifndef LATERD_ENGINE_REDIS_CONSUMERS_H
#define LATERD_ENGINE_REDIS_CONSUMERS_H

#include "engine/redis/script_request.h"
#include "engine/redis/topic_cache.h"
#include "port/engine.h"

struct wait_group;

/* One parked reserve. */
struct waiter {
    struct list place; // wait_group::waiters
    struct wait_group *group;
    struct ticket *ticket;
    uint32_t max;
    bool parked; /* it waits for a job, not only for an answer */
    int64_t asked_us;
    struct timer deadline;
    /* What it has got so far, when that is less than it wants: */
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
    int64_t timeout_us; /* a reserve that does not wait is answered within */
    /* That a partition is empty, where another daemon may be told instead of us, or nothing is
       heard. */
    int64_t believe_us;
    /* The job was reserved for somebody who has gone. */
    void (*give_back)(void *owner, const struct job_view *job);
    /* A reserved job's body is not what was pushed. */
    void (*damaged)(void *owner, const struct job_view *job);
    void *owner;
};

struct consumers {
    struct consumers_options options;
    struct topic_cache topic_cache;
    struct list groups;           // wait_group::place
    struct list dirty;            // wait_group::dirty: to be looked at
    struct list told;             // topic::told: we alone know of a ready job there
    size_t waiters;               /* of all groups */
    struct wait_group *hit_group; /* what came due last was for this one: see consumers_promoting */
    uint32_t hit_streak;          /* how often in a row */
    struct arena scratch;         /* of the answer being read */
    bool *heard;                  /* for each partition: its notices are heard */
    enum err drained;             /* what consumers are told who would wait */
    struct timer again;           /* the soonest of topic::again_us */
    struct timer verify;          /* to look what is believed for too long: while somebody waits */
    uint64_t verify_round;        /* from 1 on; wait_group::verify_round: it has had its turn */
    struct lateness lateness;     /* of jobs handed out here */
    struct lateness_histogram lateness_histogram;
};

void consumers_init(struct consumers *consumers, const struct consumers_options *options);
void consumers_fini(struct consumers *consumers);

enum submitted consumers_reserve(struct consumers *consumers, const struct cmd_reserve *reserve,
                                 struct ticket *ticket);
void consumers_cancel(struct consumers *consumers, struct waiter *waiter);
/* Answers all who wait, and all who would, with this. */
void consumers_drain(struct consumers *consumers, enum err err);

/* How a notice was told. */
enum told {
    TOLD_US,  /* alone: if we need no job there, another is to be told */
    TOLD_ALL, /* whoever waits looks; or nobody else waits */
    TOLD_HINT /* another is told to take the job: nobody is woken for it here */
};

/* There may be ready jobs of the topic in the partition. */
void consumers_ready(struct consumers *consumers, struct bytes name, uint32_t partition,
                     enum told told);
/* Makes what is due ready there: a call under way, which tells what it has done. */
void consumers_promoting(struct consumers *consumers, uint32_t partition);
void consumers_promoted(struct consumers *consumers, struct bytes name, uint32_t partition);
/* An answer from there shows a ready job. */
void consumers_see(struct consumers *consumers, const struct job_view *job, uint32_t partition);
/* What we know is worth nothing: our marks may be gone. */
void consumers_forget(struct consumers *consumers);
/* The partition's notices are heard from now on, or not any more. Forgets what is known of it. */
void consumers_heard(struct consumers *consumers, uint32_t partition, bool heard);

/* Asks for jobs where there may be some. */
void consumers_match(struct consumers *consumers);
/* There is something to do for that, which came since. */
bool consumers_wait_for_match(const struct consumers *consumers);
uint64_t consumers_count(const struct consumers *consumers);
/* NULL: nobody has asked for it lately. */
const struct topic *consumers_topic(const struct consumers *consumers, struct bytes name);
/* A job was handed out. */
void consumers_delivered(struct consumers *consumers, const struct job_view *job);

#endif
