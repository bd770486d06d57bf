/*
 * What three older delay queue servers keep in Redis, as bytes in and jobs out. Pure: no
 * connection, no clock. redis_source.h reads the keys, docs/migrate-*.md name the layouts.
 *
 *   delay-queue      a string for each job, named by its id, of MessagePack; sorted sets
 *                    "dq_bucket_%d" of ids by Unix seconds; lists "dq_queue_%s" of ids
 *   sdmq             a hash "io.sdmq:NAME:pools" of id → JSON; sorted sets "io.sdmq:NAME:%d"
 *                    of ids by Unix ms; a list "io.sdmq:NAME:ready" of ids
 *   delayqueue-java  a hash "delayQueueJobPool" of id → JSON; sorted sets "delayBucket%d" of
 *                    items by Unix ms; for each topic a list of ids, named by the topic
 */
#ifndef LATERD_CLI_IMPORT_REDIS_LAYOUT_H
#define LATERD_CLI_IMPORT_REDIS_LAYOUT_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"
#include "proto/settings/job_properties.h"

enum redis_layout {
    LAYOUT_DELAY_QUEUE,
    LAYOUT_SDMQ,
    LAYOUT_DELAYQUEUE_JAVA,
};

enum redis_type { TYPE_STRING, TYPE_LIST, TYPE_ZSET, TYPE_HASH, TYPE_OTHER };

/* The role of a key in the layout. */
enum redis_role {
    ROLE_FOREIGN, /* not of this layout */
    ROLE_JOB,     /* delay-queue: it may be a job, which its value shows */
    ROLE_POOL,    /* a hash of jobs */
    ROLE_BUCKET,  /* a sorted set of ids by time */
    ROLE_READY,   /* a list of ids */
    ROLE_LOCK,    /* of the old server's own, nothing to bring over */
};

/* The old server's configured names of keys; commands/import.c has the usual ones. */
struct redis_names {
    enum redis_layout layout;
    const char *bucket; /* delay-queue: with one %d */
    const char *queue;  /* delay-queue: with one %s */
    const char *prefix; /* sdmq: before the first colon */
};

/* Borrows from what it was read of, or from the arena. */
struct redis_job {
    struct bytes id;
    struct bytes topic;
    struct bytes body;
    int64_t due_us;
    int64_t ttr_us; /* 0: the layout has none */
    uint32_t priority;
    struct job_properties labels; /* sdmq: the labels of its client; its priority is the rank */
    bool finished;                /* sdmq: done or deleted, and only not yet swept */
};

/* By its name: "delay-queue", "sdmq" or "delayqueue-java". ERR_NOT_FOUND: it is none of these. */
enum err redis_layout_read(const char *name, enum redis_layout *out_layout) MUST_USE;

/* True: a bucket's pattern has one %d, a queue's one %s, and the prefix is not empty. */
bool redis_names_good(const struct redis_names *names);

/* By the key's name and type, in the layout of `names`. */
enum redis_role redis_role_of(const struct redis_names *names, struct bytes key,
                              enum redis_type type);

/*
 * The id in a member of a bucket, an entry of a list or a field of a pool; delayqueue-java writes
 * 7, "7", ["java.lang.Long",7] or an object. ERR_CORRUPT: there is none in it.
 */
enum err redis_member_id(enum redis_layout layout, struct bytes member, struct arena *arena,
                         struct bytes *out_id) MUST_USE;

/* A bucket's score in the layout's unit. ERR_CORRUPT: no time of these centuries. */
enum err redis_score_us(enum redis_layout layout, struct bytes score, int64_t *out_us) MUST_USE;

/*
 * The job in a value; `id` is its key's or field's. ERR_INVALID: it was never a job of this
 * layout. ERR_CORRUPT: it should be one, *out_why says what is wrong.
 */
enum err redis_job_read(enum redis_layout layout, struct bytes id, struct bytes value,
                        struct arena *arena, struct redis_job *out_job,
                        const char **out_why) MUST_USE;

#endif
