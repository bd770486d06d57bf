/*
 * The promoter: in each partition one daemon, its owner (see members.h), makes due jobs ready. It
 * sleeps until the next job is due, or until a notice says that one is due sooner; where no notices
 * are received, about a second at most.
 *
 * The owner also gives back the jobs of dead daemons in its partitions ("forget"): when a daemon
 * has died or left, and once more members_options::alive_us later, because what it had sent may be
 * done after the first look (its requests are given up by then); when the partition was opened, or
 * has again what it had lost; when it becomes the owner, because
 * the former owner may have died before it had finished; and once more for daemons that wrote to
 * the partition shortly before they died: at first they cannot be distinguished from daemons that
 * have just started.
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
    int64_t forget_at_us;  /* when to give back jobs of dead daemons; INT64_MAX: there are none */
    uint64_t forget_from;  /* where that goes on; 0: at the start */
    int64_t young_at_us;   /* when the first daemon that was too young to be reaped is old enough */
    bool once_more;        /* a daemon has gone: what it has sent may come after the first look */
    int64_t again_at_us;   /* of that, the second look; INT64_MAX: none is to come */
    uint64_t gone;         /* members::gone at the last time */
    int64_t helped_at_us;  /* see promoter_help() */
    int64_t buckets_at_us; /* when a promote, or an open, has checked all buckets last */
    uint64_t checked;      /* number of clients' calls to the partition at the last promote */
    struct timer promote, forget;
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
/* The partition was opened, or what it had lost is there again: what was read there before may be
 * wrong, of jobs that are due, and of what dead daemons have left. An open checks all buckets. */
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
