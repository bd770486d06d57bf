/*
 * The promoter of each partition: one daemon at a time, its owner (see members.h), makes what is
 * due ready there. It sleeps until the next job is due, or a notice says that one is due sooner;
 * where no notices are heard, no longer than about a second.
 *
 * The owner also gives back what dead daemons held there: when one has died or left, when it
 * becomes the owner, since the one before may have died at it, and once more when one that had left
 * word there shortly before its death is old enough to be told from one that has just come.
 */
#ifndef LATERD_ENGINE_REDIS_PROMOTER_H
#define LATERD_ENGINE_REDIS_PROMOTER_H

#include "engine/redis/members.h"

struct duty {
    struct promoter *promoter;
    uint32_t partition;
    bool owner;
    bool promote_asked, forget_asked;
    bool promote_again;    /* a notice came while promote was under way */
    bool unheard;          /* a promote's answer was lost: `missed` is to be told */
    int64_t promote_at_us; /* of the owner: something is due, as far as it was told */
    int64_t look_at_us;    /* it looks then anyhow; INT64_MAX: notices are heard */
    int64_t forget_at_us;  /* the dead are to be forgotten; INT64_MAX: none are */
    uint64_t forget_from;  /* where that goes on; 0: at the start */
    int64_t young_at_us;   /* the first of those that were left alone since the start is old */
    uint64_t gone;         /* members::gone, when they were last */
    int64_t buckets_at_us; /* all buckets were looked at, with promote */
    uint64_t checked; /* so many calls of clients had been made there when promote was asked last */
    struct timer promote, forget;
};

struct promoter_options {
    const struct script_space *space;
    struct script_requests *calls;
    struct loop *loop;
    const struct members *members;
    const bool *heard;  /* for each partition: its notices are heard … */
    int64_t believe_us; /* … else nothing is believed for longer */
    /* A promote is under way to the partition: what is sent now is done after it. */
    void (*promoting)(void *owner, uint32_t partition);
    /* By its answer, the topic has ready jobs there, and our mark is gone. */
    void (*promoted)(void *owner, struct bytes topic, uint32_t partition);
    /* A sorted set of the partition was lost, or a bucket of jobs. */
    void (*lost)(void *owner, uint32_t partition, bool is_set);
    /* Such an answer was lost. Told when the next one has come: while Redis refuses or is silent,
       there is nothing to look for. */
    void (*missed)(void *owner);
    void *owner;
};

struct promoter {
    struct promoter_options options;
    struct duty *duties; /* one for each partition */
    struct buf living;
    uint32_t leaving; /* calls under way by which we forget ourselves */
};

void promoter_init(struct promoter *promoter, const struct promoter_options *options);
void promoter_fini(struct promoter *promoter);

/* A notice: something is due at this time. */
void promoter_due(struct promoter *promoter, uint32_t partition, int64_t due_us);
/* Notices may have been missed: looks what is due everywhere. */
void promoter_look(struct promoter *promoter);
/* About once a second: where clients did something since the last promote, looks though nothing be
 * due, whether all is there. Where all is idle nothing is asked. */
void promoter_check(struct promoter *promoter);
/* Gives back all that our own connections hold: call it until there is no more to wait for. */
void promoter_leave(struct promoter *promoter);

/* See members_options::changed. */
void promoter_members_changed(struct promoter *promoter);

#endif
