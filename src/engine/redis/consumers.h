/*
 * Reserves, and the consumers who wait for jobs: parked here, first come first served, and served
 * when a job becomes ready. Nothing is polled.
 *
 * Consumers who ask for the same topics in the same way stand in one line (`struct line`): their
 * wants are added up, and one script call takes jobs for many of them. No more jobs are asked for
 * than there are wants, so none is taken that nobody is there for, but for consumers who leave
 * meanwhile: those jobs are given back.
 *
 * Where nothing is known (watched.h), all partitions are looked at together, and then only those
 * that have jobs are asked for some, the best first. Of the jobs that a line takes at a time, each
 * comes from another partition as long as there are more partitions than wants: so one reserve of
 * one job takes the best of all partitions' first ones, as far as this daemon knows them. It does
 * not know of a job that came through another daemon, or became due, in a partition that had others
 * ready already; what it knows of such a partition is looked up again after STALE_US.
 */
#ifndef LATERD_ENGINE_REDIS_CONSUMERS_H
#define LATERD_ENGINE_REDIS_CONSUMERS_H

#include "engine/redis/call.h"
#include "engine/redis/topic_cache.h"
#include "port/engine.h"

struct line;

/* One parked reserve. */
struct waiter {
    struct list place; // line::waiters
    struct line *line;
    struct ticket *ticket;
    uint32_t max;
    bool parked; /* it waits for a job, not only for an answer */
    int64_t deadline_us;
    size_t in_heap; /* its place in waits::heap */
    /* What it has got so far, when that is less than it wants: */
    struct arena arena;
    struct job_view *jobs;
    uint32_t job_count;
    size_t got_bytes; /* of their bodies */
};

struct waits_options {
    const struct script_space *space;
    struct calls *calls;
    uint32_t waiters_max;
    int64_t timeout_us; /* a reserve that does not wait is answered within */
    /* The job was reserved for somebody who has gone. */
    void (*give_back)(void *owner, const struct job_view *job);
    /* A reserved job's body is not what was pushed. */
    void (*damaged)(void *owner, const struct job_view *job);
    void *owner;
};

struct waits {
    struct waits_options options;
    struct topic_cache topic_cache;
    struct list lines;    // line::place
    struct list dirty;    // line::dirty: to be looked at
    struct waiter **heap; /* by deadline_us, soonest first */
    size_t heap_count, heap_cap;
    struct line *lucky;   /* what came due last was for this one: see waits_promoting */
    uint32_t luck;        /* how often in a row */
    struct arena scratch; /* of the answer being read */
    bool subscribed;      /* notices are heard */
    enum err drained;     /* what consumers are told who would wait */
    int64_t again_us;     /* the soonest of topic::again_us */
    int64_t patience_us;  /* the soonest of line::patience_us */
    int64_t now_us;
    struct lateness lateness; /* of jobs handed out here */
    struct lateness_histogram lateness_histogram;
};

void waits_init(struct waits *waits, const struct waits_options *options);
void waits_fini(struct waits *waits);

void waits_reserve(struct waits *waits, const struct cmd_reserve *reserve, struct ticket *ticket);
void waits_cancel(struct waits *waits, struct waiter *waiter);
/* Answers all who wait, and all who would, with this. */
void waits_drain(struct waits *waits, enum err err);

/* There may be ready jobs of the topic in the partition. */
void waits_ready(struct waits *waits, struct bytes name, uint32_t partition);
/* Makes what is due ready there: a call under way, which tells what it has done. */
void waits_promoting(struct waits *waits, uint32_t partition);
void waits_promoted(struct waits *waits, struct bytes name, uint32_t partition);
/* An answer from there shows a ready job. */
void waits_see(struct waits *waits, const struct job_view *job, uint32_t partition);
/* What we know is worth nothing: our marks may be gone. */
void waits_forget(struct waits *waits);
/* Notices are heard from now on, or not any more. Forgets, too. */
void waits_subscribed(struct waits *waits, bool subscribed);

/* Ends waits whose time is up. */
void waits_tick(struct waits *waits, int64_t now_us);
/* Asks for jobs where there may be some. */
void waits_match(struct waits *waits);
int64_t waits_next_us(const struct waits *waits);
uint64_t waits_count(const struct waits *waits);
/* NULL: nobody has asked for it lately. */
const struct topic *waits_topic(const struct waits *waits, struct bytes name);
/* A job was handed out. */
void waits_handed(struct waits *waits, const struct job_view *job);

#endif
