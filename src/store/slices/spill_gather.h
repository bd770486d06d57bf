/*
 * Copies of jobs of one kind that are to leave the log, with their records in the format of slices.
 *
 * The main thread adds and frees them. In between, the disk's background thread sorts them and
 * builds slices of them (spill_build.h); the main thread does not touch them then. Pure, except
 * that it allocates memory. Used by src/store/slices only.
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
    const char *record; /* a struct spilled_names is in front of it */
    uint32_t old_bytes; /* of its record in the log */
    uint32_t len;       /* of `record` */
};

/* Where the names are in a record, so that whoever builds a slice need not decode it. */
struct spilled_names {
    uint32_t id_at; /* offset of the client's id; the topic's name follows it */
    uint16_t id_len, topic_len;
};

/* Free memory, kept from run to run, because page faults of new memory would double the time for a
   record. A struct of zeros is empty. */
struct gather_room {
    struct buf chunks;      /* char *: for records; each holds one of GATHER_RECORD_MAX bytes */
    struct buf jobs, spare; /* spill_gather::jobs and spare of the next run */
    struct discard spent;   /* large memory to be freed, a piece in each turn */
};

/* Bytes of all of it. O(1). */
uint64_t gather_room_bytes(const struct gather_room *room);
/* Frees one chunk, or has the rest freed in turns. False: there is none. O(1). */
bool gather_room_less(struct gather_room *room);
void gather_room_fini(struct gather_room *room); /* frees all; the struct is empty then */

/* A struct of zeros is empty. */
struct spill_gather {
    struct buf jobs;   /* struct spilled: as they were added, or sorted */
    struct buf spare;  /* the same size, for sorting */
    size_t taken;      /* how many of them are in slices already */
    struct buf chunks; /* char *: memory for records */
    size_t chunk_used; /* of the last one */
    uint64_t record_bytes;
};

/* Empties it; its memory goes to `room`. O(chunks). */
void gather_fini(struct spill_gather *gather, struct gather_room *room);

/* Adds a copy of a job whose record in a slice has at most GATHER_RECORD_MAX bytes. `draft`: from
   far_record_begin(); `content_sum`: see far_record_end(); `old_bytes`: of its record in the log.
   Only before the first job was taken. O(bytes). */
void gather_add(struct spill_gather *gather, struct gather_room *room, const struct event *job,
                const struct far_draft *draft, uint64_t content_sum, uint32_t old_bytes);
/* Bytes of memory that the copies take, without the unused ends of chunks. O(1). */
uint64_t gather_bytes(const struct spill_gather *gather);
/* Are there jobs that are in no slice yet? O(1). */
bool gather_left(const struct spill_gather *gather);

/* Sorts by due time and number. O(jobs), some 30 ns each (a radix sort). */
void gather_sort(struct spill_gather *gather);
static inline size_t gather_count(const struct spill_gather *gather)
{
    return gather->jobs.len / sizeof(struct spilled);
}
/* The job at this position; valid until the next gather_add(). */
static inline const struct spilled *gather_job(const struct spill_gather *gather, size_t number)
{
    return (const struct spilled *)(const void *)gather->jobs.at + number;
}

static inline const struct spilled_names *spilled_names(const struct spilled *job)
{
    return (const struct spilled_names *)(const void *)job->record - 1;
}

#endif
