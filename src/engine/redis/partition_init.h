/*
 * Opens partitions. Before other calls to a partition over a new connection, or at a new node of
 * the partition, the script `open` creates it if needed, and checks its layout. Until it is
 * answered, calls to the partition wait (script_requests_is_open).
 */
#ifndef LATERD_ENGINE_REDIS_PARTITION_INIT_H
#define LATERD_ENGINE_REDIS_PARTITION_INIT_H

#include "engine/redis/script_request.h"

struct partition_init;

struct opening {
    struct partition_init *partition_init;
    uint32_t partition;
    bool pending;     /* `open` is under way … */
    uint32_t places;  /* … and registers this many places of our ring */
    bool again;       /* open it again although it is open */
    bool older;       /* it has an older layout, and keeps it: see script_space::leaves_older */
    bool was_there;   /* it was opened before, … */
    int64_t since_us; /* … for the first time then */
    int64_t at_us;    /* do not open it before */
    struct timer timer;
    bool rebuilding;               /* script_encode_rebuild() calls are under way … */
    enum script_rebuild what;      /* … for this, … */
    enum script_rebuild then_what; /* … and then, if that was found meanwhile, for this */
    struct timer rebuild_again;    /* another daemon does it, or the call has failed */
    char from[26]; /* the cursor of the next call, valid only at the server that gave it: … */
    const struct node *scanned_at; /* … this node; NULL: that may be another server now */
};

struct partition_init_options {
    const struct script_space *space;
    struct script_requests *calls;
    struct loop *loop;
    /* The queue in Redis was made with this other number of partitions. */
    void (*refused)(void *owner, uint32_t stored_partitions);
    /* This key of the partition has another type, so another program made it. Called repeatedly
       while that is so. */
    void (*stray)(void *owner, struct bytes key);
    /* It is open, at a server that may not have all changes that an earlier one had answered; or,
       if not all buckets were just checked, what it had lost is there again. */
    void (*opened)(void *owner, uint32_t partition, bool buckets_checked);
    /* This daemon is not registered in the partition any more, so its marks are gone. */
    void (*forgotten)(void *owner);
    void *owner;
};

struct partition_init {
    struct partition_init_options options;
    struct opening *openings; /* one for each partition */
    int64_t logged_us;        /* when lost data was logged last; 0: never */
    uint32_t rebuilding;      /* partitions that rebuild a lost sorted set */
    bool started;
};

void partition_init_init(struct partition_init *partition_init,
                         const struct partition_init_options *options);
void partition_init_fini(struct partition_init *partition_init);

/* Preflight has succeeded: begins to open partitions. */
void partition_init_start(struct partition_init *partition_init);
/* Opens nothing any more, because this daemon leaves. */
void partition_init_stop(struct partition_init *partition_init);
/* There are new servers, or partitions have moved: opens those that are not open where they are. */
void partition_init_moved(struct partition_init *partition_init);
/* See script_requests_options::to_open. */
void partition_init_look(struct partition_init *partition_init, uint32_t partition);
/* Converts partitions with an older layout; script_space::leaves_older was cleared. */
void partition_init_convert(struct partition_init *partition_init);
/* Does any partition keep an older layout? */
bool partition_init_leaves_older(const struct partition_init *partition_init);
/* This daemon may not be registered any more: opens the partition again. Calls need not wait. */
void partition_init_again(struct partition_init *partition_init, uint32_t partition);
/* Another daemon created the partition, so its data was lost. */
void partition_init_lost(struct partition_init *partition_init, uint32_t partition);

/* Logs that buckets of jobs were lost, and were created again. */
void partition_init_missing(uint32_t partition);

/* A promote has found that a sorted set was lost. */
void partition_init_rebuild(struct partition_init *partition_init, uint32_t partition);

#endif
