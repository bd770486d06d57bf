/*
 * Opens partitions: before anything else is sent to a partition over a new connection, or at a
 * node that has it newly, the script `open` makes sure that it is there and as ours are. Until it
 * is answered, calls to the partition wait (calls_is_open).
 */
#ifndef LATERD_ENGINE_REDIS_PARTITION_INIT_H
#define LATERD_ENGINE_REDIS_PARTITION_INIT_H

#include "engine/redis/call.h"

struct opener;

struct opening {
    struct opener *opener;
    uint32_t partition;
    bool asked;
    bool again;       /* although it is open */
    bool was_there;   /* when it was opened before, */
    int64_t since_us; /* for the first time then */
    int64_t at_us;    /* not before */
};

struct opener_options {
    const struct script_space *space;
    struct calls *calls;
    /* The partition is not as ours are: it is one of so many. */
    void (*refused)(void *owner, uint32_t stored_partitions);
    /* It is open, at a server that may have lost what the one before had told us. */
    void (*opened)(void *owner, uint32_t partition);
    /* The partition does not know us (any more): what we left there is gone. */
    void (*forgotten)(void *owner);
    void *owner;
};

struct opener {
    struct opener_options options;
    struct opening *openings; /* one for each partition */
    int64_t now_us;
    int64_t said_us; /* that data were lost; 0: never */
    bool started;
};

void opener_init(struct opener *opener, const struct opener_options *options);
void opener_fini(struct opener *opener);

/* Redis is there and fit. */
void opener_start(struct opener *opener);
/* What we left in the partition may be gone: opens it again, while calls go on. */
void opener_again(struct opener *opener, uint32_t partition);
/* Another daemon made the partition: what was there is gone. */
void opener_lost(struct opener *opener, uint32_t partition);

void opener_tick(struct opener *opener, int64_t now_us);
int64_t opener_next_us(const struct opener *opener);

#endif
