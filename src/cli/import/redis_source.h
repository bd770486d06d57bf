/*
 * Reads an older server's Redis for an import: first the place of every id (buckets and ready
 * lists), then one job after another with its due time. Owns the connection and the index of ids;
 * sends only SCAN, TYPE, ZSCAN, LRANGE, HSCAN and GET, in batches, so that nothing is changed and
 * Redis is never blocked for long. Memory: about 100 bytes and the id for each job, whatever its
 * body.
 */
#ifndef LATERD_CLI_IMPORT_REDIS_SOURCE_H
#define LATERD_CLI_IMPORT_REDIS_SOURCE_H

#include "base/map.h"
#include "base/pool.h"
#include "cli/import/redis_layout.h"
#include "client/redis/url.h"

enum redis_place {
    PLACE_READY,    /* in a ready list, or its time has come */
    PLACE_DELAYED,  /* in a bucket, by its due time */
    PLACE_RESERVED, /* popped and not finished: in a bucket by the end of its ttr */
    PLACE_STRAY,    /* in the pool alone, where the old server would never find it */
    PLACE_COUNT
};

struct redis_source {
    void (*print_line)(void *ctx, const char *line); /* what cannot be used, for people */
    /* A job, borrowed for the call. Not OK: reading stops, with that as its result. */
    enum err (*job)(void *ctx, const struct redis_job *job, enum redis_place place);
    void *ctx;
    struct redis_names names;
    int64_t now_us;
    char error[256]; /* after ERR_IO: what went wrong */

    uint64_t foreign;  /* keys that are not of the layout */
    uint64_t broken;   /* jobs and entries that cannot be read */
    uint64_t gone;     /* ids in buckets and lists whose job was finished */
    uint64_t finished; /* jobs that are marked as done */
    uint64_t found;    /* keys that are of the layout, jobs in strings not counted */

    struct redisContext *redis;
    struct arena arena;   /* ids and names of keys */
    struct arena scratch; /* of one job */
    struct pool places;   // struct place
    struct map by_id;     /* of the places */
    struct pool keys;     // struct source_key
    uint64_t ready_count;
    uint32_t pool; /* from 1, the one that is being read */
};

/* Set say, job, ctx, names and now_us before. ERR_IO: see error. */
enum err redis_source_open(struct redis_source *source, const struct redis_url *url,
                           int64_t timeout_us) MUST_USE;
void redis_source_close(struct redis_source *source);

/* Scans all keys, and reads buckets and lists. ERR_IO: see error. */
enum err redis_source_survey(struct redis_source *source) MUST_USE;

/* Calls job() for each. ERR_IO: see error, or what job() answered. */
enum err redis_source_read(struct redis_source *source) MUST_USE;

#endif
