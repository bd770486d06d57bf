/*
 * Internal declarations of fetch.c (which partitions are asked for jobs), fetch_shares.c (for how
 * many), and fetch_call.c (one call, and what its answer means).
 */
#ifndef LATERD_ENGINE_REDIS_FETCH_PARTS_H
#define LATERD_ENGINE_REDIS_FETCH_PARTS_H

#include "engine/redis/consumers_parts.h"

enum {
    JOBS_AT_ONCE = 32,  /* requested by one call: each takes Redis some ten microseconds */
    CALLS_AT_ONCE = 32, /* to one server, for one who wants many: others wait behind them */
    /* Topics in probes of one server. Each takes Redis some five microseconds, half as long as a
       job: so many take no longer than CALLS_AT_ONCE calls for JOBS_AT_ONCE jobs. */
    PROBED_AT_ONCE = 1024,
    /* See wait_group_probe_us(): */
    PROBE_US = 20 * 1000,       /* Redis may do CALLS_AT_ONCE for another meanwhile */
    PROBE_MOST_US = 100 * 1000, /* for a Redis that is far away, or slow */
    PROBE_ANSWERS = 4,          /* usual ones, one after the other */
};

/* How jobs are requested from a partition. */
struct fetch_options {
    bool counts;   /* it is to say how many more jobs there are */
    bool unmarked; /* it leaves no mark, though it may bring fewer than it is asked for */
    const struct script_rank *shares_until; /* see struct script_share */
};

/* One request for the group's first `topics` topics. */
struct fetch_request {
    struct list place; // wait_group::timed_requests, or nowhere
    struct wait_group *group;
    int64_t us;      /* when it was written */
    uint64_t number; /* they are sent in this order: see consumers::last_call */
    uint32_t partition;
    uint32_t topics;
    uint32_t max;  /* jobs; 0: a probe, which reserves nothing and reports what is ready */
    bool behind;   /* sent right after a promote: it may find nothing */
    bool waits;    /* a consumer is parked: its mark asks for a notice */
    bool awaited;  /* reserving waits for the answer to this probe */
    bool silent;   /* not answered for too long: no longer waited for */
    bool left_out; /* its jobs are no longer in wait_group::requested: others may be asked for them;
                      and counted in wait_group::left_out */
    bool shares;   /* counted in partition_fetches::shared */
    bool if_silent;       /* in timed_requests: left out then only if its server is silent */
    int64_t probe_end_us; /* in timed_requests: it is left out then */
};

/* What is known of some of a group's topics in one partition. */
struct candidate {
    uint32_t partition;
    enum hint_kind best;
    bool unsure, stale, empty_long;
    bool noticed;             /* one of the topics is NOTICED, whatever the others are */
    bool near_best;           /* READY: its first job is close to the best one of all candidates */
    struct script_rank first; /* READY: of the best known job */
    uint32_t close_jobs;      /* READY: see struct hint, of that job's topic */
    int64_t taken_us;         /* since when one of the topics is TAKEN; INT64_MAX: none is */
    uint32_t share;           /* jobs to request */
};

/* Partitions without a call under way or planned. */
struct candidates {
    struct candidate *at; /* in the scratch */
    uint32_t count;
    bool others_may; /* of a cluster: what a silent server does not give is asked of others */
    bool shared;     /* for several consumers, of one server: up to `until`, what one has beside
                        the jobs that it is asked for comes instead of others' */
    bool unmarked;   /* what they do not bring comes by pushes that are under way */
    bool counts;     /* more is wanted than a call into each brings: they say how much they have */
    struct script_rank until;
};

/* What is known of the group's topics from `from` to before `to` in the partition. O(topics) */
struct candidate wait_group_look_up(const struct wait_group *group, uint32_t from, uint32_t to,
                                    uint32_t partition);
/* The first waiter wants more jobs than one call may request. Then, and where more consumers wait
 * than a call into each partition serves, Redis counts the jobs that are left, and partitions are
 * asked by several calls at once, according to these counts. */
bool wait_group_wants_many(const struct wait_group *group);
/* Jobs that the waiters still take. For one that wants many: no more than its answer has room for,
 * by the size of the jobs that it has got, or that others got before it has any. */
uint64_t wait_group_wants(const struct wait_group *group);
/* Of these, jobs that are not requested yet. */
uint64_t wait_group_open_wants(const struct wait_group *group);
/* Requests up to `max` jobs (0: a probe) of the group's first `topics` topics from the
 * partition. The request lives until it is answered, which is not before this turn's end. */
struct fetch_request *wait_group_fetch_for(struct wait_group *group, uint32_t topics,
                                           uint32_t partition, uint32_t max,
                                           struct fetch_options how);
/* How long an answer is waited for before others are asked: a few times as long as answers of Redis
 * have taken lately, but not less than PROBE_US, nor more than PROBE_MOST_US. */
int64_t wait_group_probe_us(const struct wait_group *group);
/* It is left out if it is not answered within wait_group_probe_us(); if `if_silent` is set and its
 * server has answered others lately, as under load, it has as much time again and again. Not before
 * those that came before it: the time may have become shorter since.
 * wait_group_arm_first_probe() must follow. */
void fetch_request_leave_out_later(struct fetch_request *fetch);
void wait_group_arm_first_probe(struct wait_group *group);

/* The partition is open, so that calls are sent to its server, and this has answered something in
 * the last wait_group_probe_us(). */
bool wait_group_is_answered(const struct wait_group *group, uint32_t partition);
/* Of the candidates, in their order and place, those whose servers are not silent. One is if it has
 * at least `least` (1 or more) calls of the group to answer, all of these are left out, and nothing
 * was heard of it lately. O(1) while fewer are left out, else O(partitions). */
struct candidates wait_group_answering(const struct wait_group *group, struct candidates candidates,
                                       uint32_t least);

/* Of the candidates, in their order and place, those that may be probed now: a server has
 * PROBED_AT_ONCE topics in probes and calls of the group to answer, or CALLS_AT_ONCE if these are
 * fewer. It has more than that to answer when one is left out, so there is another step. O(1) while
 * there are few, else O(partitions) */
struct candidates wait_group_with_room_for_probes(const struct wait_group *group,
                                                  struct candidates candidates);

/* Requests the wanted jobs from the candidates: of each, in order, as many as its `share` says, or
 * one (0), until as many are requested as are wanted; if more are wanted, equal shares of the rest.
 * What one call does not bring is requested by several, where the last answer has counted so many.
 * For one who wants many, a server that has CALLS_AT_ONCE to answer is asked later. If others may
 * have jobs (candidates::others_may), what a server does not give that is silent for
 * wait_group_probe_us() is asked of them. */
void wait_group_fetch_all(struct wait_group *group, uint32_t topics, struct candidates candidates);
/* Requests its share of `open` jobs from each candidate, by as many calls as needed, and as soon as
 * its server has few to answer: see wait_group_fetch_planned(). Changes their order. */
void wait_group_fetch_shares(struct wait_group *group, struct candidates candidates, uint64_t open);
/*
 * Redis does all that it has read from one client before it serves another. So of a reserve of many
 * jobs each server has CALLS_AT_ONCE at most, and is sent more here as it answers; if it does not,
 * others may be asked for what is planned. (Probes count, but are sent beyond that, up to
 * PROBED_AT_ONCE topics: each is short, and all are needed before the first job. A server that has
 * answered none of CALLS_AT_ONCE within wait_group_probe_us() gets neither.) What nobody needs any
 * more is not requested. To be called in each step of the group. O(partitions) while something is
 * planned.
 */
void wait_group_fetch_planned(struct wait_group *group);

#endif
