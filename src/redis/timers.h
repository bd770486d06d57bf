/*
 * The timer of each partition: one daemon at a time makes what is due ready there. It owns the
 * partition by a lease of two seconds, which it renews each second, and which another daemon takes
 * over when it ends. Two owners would do no harm, and none only makes jobs late: the lease is for
 * efficiency.
 *
 * The renewals of all partitions go out together, once a second; beyond that the owner sleeps until
 * the next job is due, or a notice says that one is due sooner.
 */
#ifndef LATERD_REDIS_TIMERS_H
#define LATERD_REDIS_TIMERS_H

#include "redis/call.h"

struct timer {
    struct timers *timers;
    uint32_t partition;
    bool owner;
    bool hello_asked, promote_asked;
    bool hurry; /* a notice came while promote was under way */
    int64_t hello_sent_us;
    int64_t hello_at_us;   /* INT64_MAX: not before it is started */
    int64_t promote_at_us; /* of the owner */
};

struct timers_options {
    struct script_space *space; /* whose ahead_us is kept here */
    struct calls *calls;
    /* Hello was answered with ERR_INVALID: the partition is not as ours are. */
    void (*refused)(void *owner, uint32_t stored_partitions);
    /* A partition does not know us (any more): Redis may have lost what we left there. */
    void (*forgotten)(void *owner);
    void *owner;
};

struct timers {
    struct timers_options options;
    struct timer *timers; /* one for each partition */
    int64_t now_us;
    bool started;
    bool leaving;
};

void timers_init(struct timers *timers, const struct timers_options *options);
void timers_fini(struct timers *timers);

/* Redis is there and fit: says hello everywhere. */
void timers_start(struct timers *timers);
/* The partition is not there: hello, now. */
void timers_hello(struct timers *timers, uint32_t partition);
/* A notice: something is due at this time. */
void timers_due(struct timers *timers, uint32_t partition, int64_t due_us);
/* Notices may have been missed: looks what is due everywhere. */
void timers_look(struct timers *timers);
/* Gives up all leases: others may take over at once. */
void timers_leave(struct timers *timers);

void timers_tick(struct timers *timers, int64_t now_us);
int64_t timers_next_us(const struct timers *timers);

#endif
