/*
 * The promoter: in each partition one daemon, its owner (see members.h), makes due jobs ready. It
 * sleeps until the next job is due, or until a notice says that one is due sooner; where no notices
 * are received, about a second at most.
 *
 * The owner also reaps: it gives back the jobs that dead daemons had reserved in its partitions. It
 * does that
 * - when a daemon has died or left, and once more members_options::alive_us later: what the daemon
 *   had sent may be executed after the first look, but not after the second one;
 * - when the partition was opened, or has again what it had lost;
 * - when it becomes the owner: the former one may have died before it had finished;
 * - once more for daemons that wrote to the partition shortly before they died: at first they look
 *   like daemons that have just started.
 *
 * Single-threaded.
 */
#ifndef LATERD_ENGINE_REDIS_PROMOTER_H
#define LATERD_ENGINE_REDIS_PROMOTER_H

#include "engine/redis/members.h"

struct duty {
    struct promoter *promoter;
    uint32_t partition;
    bool owner;
    bool promote_pending, reap_pending;
    bool promote_again;    /* a notice came while promote was under way */
    bool answer_lost;      /* a promote's answer was lost: `missed` must be called */
    int64_t promote_at_us; /* the next due time that the owner knows of */
    int64_t look_at_us;    /* promote then in any case; INT64_MAX: notices are received */
    int64_t reap_at_us;    /* when to give back jobs of dead daemons; INT64_MAX: there are none */
    uint64_t reap_from;    /* where that continues; 0: at the start */
    int64_t young_at_us;   /* when the first daemon that was too young to be reaped is old enough */
    bool once_more;        /* a daemon has gone: a second look must follow this one */
    int64_t again_at_us;   /* when that second look is due; INT64_MAX: none is */
    uint64_t gone;         /* members::gone when it was looked at last */
    int64_t helped_at_us;  /* see promoter_help() */
    int64_t buckets_at_us; /* when a promote, or an open, has checked all buckets last */
    uint64_t checked;      /* number of clients' calls to the partition at the last promote */
    struct timer promote, reap;
};

struct promoter_options {
    const struct script_space *space;
    struct script_requests *calls;
    struct loop *loop;
    struct members *members;
    const bool *subscribed; /* [partition]: its notices are received … */
    int64_t believe_us;     /* … else a known due time is trusted for this long only */
    /* A promote was sent to the partition: calls that are sent now are executed after it. */
    void (*promoting)(void *owner, uint32_t partition);
    /* The promote has made jobs of the topic ready there, and removed our mark. */
    void (*promoted)(void *owner, struct bytes topic, uint32_t partition);
    /* Redis has lost a sorted set of the partition, or a bucket of jobs. */
    void (*lost)(void *owner, uint32_t partition, bool is_set);
    /* The answer to a promote was lost. Called when the next answer has come, because before that
       Redis could not be asked. */
    void (*missed)(void *owner);
    void *owner;
};

struct promoter {
    struct promoter_options options;
    struct duty *duties; /* [partition] */
    struct buf living;
    uint32_t leaving; /* calls under way that give back our own jobs */
};

void promoter_init(struct promoter *promoter, const struct promoter_options *options);
void promoter_fini(struct promoter *promoter);

/* Handles a notice: a job is due at this time. */
void promoter_due(struct promoter *promoter, uint32_t partition, int64_t due_us);
/* The partition was opened, or has again what it had lost: what is known of its due jobs, and of
 * jobs of dead daemons, may be wrong. `buckets_checked`: it was opened, which checks all buckets.
 */
void promoter_opened(struct promoter *promoter, uint32_t partition, bool buckets_checked);
/* Jobs of the partition are about to be looked for, and the owner may have missed a notice that
 * they are due: sends a promote, whoever owns it. */
void promoter_help(struct promoter *promoter, uint32_t partition);
/* Notices may have been missed: promotes in all partitions. */
void promoter_look(struct promoter *promoter);
/* To be called about once a second: in partitions that clients used since the last promote, sends a
 * promote even if nothing is due, which finds lost keys. Idle partitions cost nothing. */
void promoter_check(struct promoter *promoter);
/* Gives back all jobs that our own connections hold; to be called until `leaving` is 0. */
void promoter_leave(struct promoter *promoter);

/* See members_options::changed. */
void promoter_members_changed(struct promoter *promoter);

#endif
