/*
 * The contents of one transaction: complete batches of the log, decoded, with one entry for each
 * changed job (the last image, updated by later changes) and one for each change.
 *
 * Pure: no clock, no database. Bytes are borrowed from the batches, which must stay as long as the
 * group is not reset.
 */
#ifndef LATERD_JOURNAL_GROUP_H
#define LATERD_JOURNAL_GROUP_H

#include "base/arena.h"
#include "port/journal.h"
#include "store/record.h"

/* The tables' status numbers, which are sdmq's. */
enum journal_status_number {
    STATUS_DELAYED = 1,
    STATUS_READY = 2, /* and reserved */
    STATUS_FINISHED = 3,
    STATUS_DELETED = 4,
    STATUS_BURIED = 6, /* unfinished to sdmq's queries, too */
};

/* Which part of a job's row changes. */
enum group_change {
    GROUP_IMAGE,  /* all: the row is inserted or overwritten */
    GROUP_MOVE,   /* status, due time, priority, failures */
    GROUP_STATUS, /* its status alone */
    GROUP_ABSENT, /* the same, if the row is unfinished */
};

struct group_job {
    struct bytes id; /* as the table has it */
    enum group_change change;
    enum journal_status_number status;
    int64_t due_us; /* IMAGE, MOVE: as all below */
    uint32_t priority;
    uint16_t failures;
    int64_t at_us;      /* when the last change was written */
    uint64_t batch;     /* … and in which batch */
    const char *record; /* IMAGE: its JOB record */
    size_t record_bytes;
};

struct group_log {
    struct bytes id;
    uint32_t stream; /* journal_batch::stream: the partition of a queue in Redis; else 0 */
    enum journal_status_number status;
    int64_t at_us;
};

struct group {
    uint8_t store[JOURNAL_STORE_BYTES]; /* part of the ids of jobs without an id of their own */
    bool log_all;                       /* log entries for all changes; false: only for ends */
    struct arena arena;
    struct group_job *jobs;
    unsigned job_count, job_cap;
    struct group_log *logs;
    unsigned log_count, log_cap;
    uint32_t *slots; /* hash table of jobs by id: index + 1, 0 is free */
    unsigned slot_count;
    uint64_t batch; /* the last numbered one; 0: there is none */
    int64_t at_us;  /* clock of the last one of any kind */
    bool resync_begins, resync_ends;
};

void group_init(struct group *group, const uint8_t store[JOURNAL_STORE_BYTES], bool log_all);
void group_fini(struct group *group);
void group_reset(struct group *group); /* empty; keeps its memory */

/* Adds a batch, which must have been given after all others in the group. ERR_CORRUPT: a record
   cannot be decoded; the records before it were added. O(records). */
enum err group_add(struct group *group, const struct journal_batch *batch) MUST_USE;

enum { JOURNAL_ID_ROOM = 48 }; /* bytes of an id that journal_id_write() writes, and a NUL */

/*
 * Writes the table's id of a job without an id of its own: in the API it is "@N"; in the table,
 * which other stores may have written before, "@N.S", with S the first 16 hex digits of the store's
 * identity. Returns the length.
 */
size_t journal_id_write(uint64_t seq, const uint8_t store[JOURNAL_STORE_BYTES],
                        char room[static JOURNAL_ID_ROOM]);
/* The N of "@N.S" of this store; 0: it is another id. */
uint64_t journal_id_read(struct bytes id, const uint8_t store[JOURNAL_STORE_BYTES]);

#endif
