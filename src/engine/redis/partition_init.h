/*
 * Opens partitions: before anything else is sent to a partition over a new connection, or at a
 * node that has it newly, the script `open` makes sure that it is there and as ours are. Until it
 * is answered, calls to the partition wait (script_requests_is_open).
 */
#ifndef LATERD_ENGINE_REDIS_PARTITION_INIT_H
#define LATERD_ENGINE_REDIS_PARTITION_INIT_H

#include "engine/redis/script_request.h"

struct partition_init;

struct opening {
    struct partition_init *partition_init;
    uint32_t partition;
    bool asked;
    uint32_t places; /* of our ring, as it says */
    bool again;      /* although it is open */
    bool older; /* what an older layout left is there, and stays: see script_space::leaves_older */
    bool was_there;   /* when it was opened before, */
    int64_t since_us; /* for the first time then */
    int64_t at_us;    /* not before */
    struct timer timer;
    bool rebuilding; /* jobs are put where they belong, one after the other: */
    bool all;        /* what a lost sorted set held, and not only what an older layout left */
    bool then_all;   /* a set was found to be lost meanwhile */
    char from[26];   /* where that goes on: a cursor, good only at the server that gave it: */
    const struct node *scanned_at; /* NULL: that may have become another server */
};

struct partition_init_options {
    const struct script_space *space;
    struct script_requests *calls;
    struct loop *loop;
    /* The partition is not as ours are: it is one of so many. */
    void (*refused)(void *owner, uint32_t stored_partitions);
    /* This key of the partition is none of ours: it has another type. Repeated while it is so. */
    void (*stray)(void *owner, struct bytes key);
    /* It is open, at a server that may have lost what the one before had told us. */
    void (*opened)(void *owner, uint32_t partition);
    /* The partition does not know us (any more): what we left there is gone. */
    void (*forgotten)(void *owner);
    void *owner;
};

struct partition_init {
    struct partition_init_options options;
    struct opening *openings; /* one for each partition */
    int64_t said_us;          /* that data were lost; 0: never */
    uint32_t rebuilding;      /* partitions that a set was lost of */
    bool started;
};

void partition_init_init(struct partition_init *partition_init,
                         const struct partition_init_options *options);
void partition_init_fini(struct partition_init *partition_init);

/* Redis is there and fit. */
void partition_init_start(struct partition_init *partition_init);
/* We leave: opens nothing any more. */
void partition_init_stop(struct partition_init *partition_init);
/* Servers have come, or partitions have moved: opens what is not open there. */
void partition_init_moved(struct partition_init *partition_init);
/* See script_requests_options::to_open. */
void partition_init_look(struct partition_init *partition_init, uint32_t partition);
/* Older layouts are not left as they are any more: what was, is converted. */
void partition_init_convert(struct partition_init *partition_init);
/* Is a partition left as an older layout has it? */
bool partition_init_leaves_older(const struct partition_init *partition_init);
/* What we left in the partition may be gone: opens it again, while calls go on. */
void partition_init_again(struct partition_init *partition_init, uint32_t partition);
/* Another daemon made the partition: what was there is gone. */
void partition_init_lost(struct partition_init *partition_init, uint32_t partition);

/* Buckets of jobs were lost, and are made again: says so. */
void partition_init_missing(uint32_t partition);

/* A promote said that a sorted set was lost. */
void partition_init_rebuild(struct partition_init *partition_init, uint32_t partition);

#endif
