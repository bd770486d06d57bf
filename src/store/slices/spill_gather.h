/*
 * Jobs of one kind that are to leave the log: their records, as a slice will have them.
 *
 * The main thread adds, and forgets; between the two, while a slice is made of them, they are the
 * disk's thread's, which sorts them and takes (spill_build.h). Pure but for memory. Nobody outside
 * this folder includes this.
 */
#ifndef LATERD_STORE_SPILL_GATHER_H
#define LATERD_STORE_SPILL_GATHER_H

#include "base/bytes.h"
#include "base/discard.h"
#include "core/event.h"

struct far_draft;

enum { GATHER_RECORD_MAX = 1024 * 1024 }; /* bytes of one record */

/* A job that is to leave. */
struct spilled {
    uint64_t seq;
    int64_t due_us;
    const char *record;
    uint32_t old_bytes; /* of its record in the log */
    uint32_t len;       /* of `record` */
};

/* Memory for records that is free. It is taken from here and comes back, for pages that the system
   gives fresh take as long as all else that is done with a record. Zeroed is empty. */
struct gather_room {
    struct buf chunks;    /* char *: GATHER_RECORD_MAX bytes each */
    struct discard spent; /* what is not used again: freed a piece a turn */
};

/* Of both. */
uint64_t gather_room_bytes(const struct gather_room *room);
/* Gives one chunk back. False: there is none. */
bool gather_room_less(struct gather_room *room);
void gather_room_fini(struct gather_room *room); /* it is empty after that */

/* Zeroed is empty. */
struct spill_gather {
    struct buf jobs;   /* struct spilled: as they were added, or sorted */
    size_t taken;      /* so many of them are in slices */
    struct buf chunks; /* char *: memory for records */
    size_t chunk_used; /* of the last one */
    uint64_t record_bytes;
};

/* Its memory for records goes to `room`. It is empty after that. */
void gather_fini(struct spill_gather *gather, struct gather_room *room);

/* A job that fits into a record of at most GATHER_RECORD_MAX bytes, of which `draft` is the
   beginning and `content_sum` the content's sum. Copies all. None was taken yet. */
void gather_add(struct spill_gather *gather, struct gather_room *room, const struct event *job,
                const struct far_draft *draft, uint64_t content_sum, uint32_t old_bytes);
/* Memory that it takes, without what chunks have left over. */
uint64_t gather_bytes(const struct spill_gather *gather);
/* Are there jobs that were not taken? */
bool gather_left(const struct spill_gather *gather);

/* By due time and number. O(jobs), some 30 ns each. */
void gather_sort(struct spill_gather *gather);
static inline size_t gather_count(const struct spill_gather *gather)
{
    return gather->jobs.len / sizeof(struct spilled);
}
/* Good until the next gather_add(). */
static inline const struct spilled *gather_job(const struct spill_gather *gather, size_t number)
{
    return (const struct spilled *)(const void *)gather->jobs.at + number;
}

#endif
