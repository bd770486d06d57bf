/*
 * Jobs of one kind that are to leave the log: their records, as a slice will have them, and the
 * order in which they are due.
 *
 * Pure but for memory. Nobody outside this folder includes this.
 */
#ifndef LATERD_STORE_SPILL_GATHER_H
#define LATERD_STORE_SPILL_GATHER_H

#include "base/bytes.h"
#include "core/event.h"

enum {
    GATHER_RECORD_MAX = 1024 * 1024, /* bytes of one record */
    GATHER_AHEAD = 16,               /* records that are fetched while others are built */
};

/* A job that is to leave. */
struct spilled {
    uint64_t seq;
    const char *record;
    struct stored old; /* where it is in the log … */
    uint64_t where;    /* … and will be in the slice */
    uint32_t len;
};

/* When it is the job's turn. */
struct turn_of {
    int64_t due_us;
    uint32_t job; /* its number: see gather_job() */
};

/* Zeroed is empty. */
struct spill_gather {
    struct buf jobs;   /* struct spilled, as they were added */
    struct buf heap;   /* struct turn_of: those that were not taken, the first to be due on top */
    struct buf chunks; /* char *: memory for records */
    size_t chunk_used; /* of the last one */
    uint64_t record_bytes;
};

void gather_fini(struct spill_gather *gather); /* it is empty after that */

/* A job, whose record in the log is `old`, and whose record in a slice will have `len` bytes,
   GATHER_RECORD_MAX at most. Copies all. O(log jobs). */
void gather_add(struct spill_gather *gather, const struct event *job, struct stored old,
                size_t len);
/* Memory that it takes, without what chunks have left over. */
uint64_t gather_bytes(const struct spill_gather *gather);
/* Good until the next gather_add(). */
struct spilled *gather_job(const struct spill_gather *gather, uint32_t number);
/* Are there jobs that were not taken? */
bool gather_left(const struct spill_gather *gather);
/* Takes the next jobs in order, by due time and number, GATHER_AHEAD at most, and asks the
   processor to fetch their records. Returns how many. */
uint32_t gather_take(struct spill_gather *gather, struct turn_of out_next[static GATHER_AHEAD]);
void gather_put_back(struct spill_gather *gather, struct turn_of job);

#endif
