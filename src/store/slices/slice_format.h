/*
 * The bytes of a slice, a file of far jobs sorted by due time, delayed, ready or buried ones, and
 * of the log's records about slices. docs/disk-format.md draws them.
 *
 *     head (a block) | blocks of records, each a batch with a header | fences | topics | index
 *
 * A slice is made whole and never changed. What of it is in use, and what has died, is in the log.
 *
 * Pure. Decoders trust no byte.
 */
#ifndef LATERD_STORE_SLICE_FORMAT_H
#define LATERD_STORE_SLICE_FORMAT_H

#include "base/bytes.h"
#include "base/err.h"
#include "core/job.h"
#include "store/format.h"

enum {
    SLICE_BLOCK_BYTES = 64 * 1024,     /* of a block of records, about */
    SLICE_DATA_MAX = 16 * 1024 * 1024, /* of all blocks, unless one record has more */
    SLICE_UNIT = 32,                   /* bytes: no two records begin in the same unit */
    SLICE_FENCE_BYTES = 16,
    SLICE_TOPICS_MAX = 65535,
    SLICE_INDEX_MAX = 10 + 10 + 8 + 3 + 5 + 10, /* bytes of one entry, at most */
    SLICE_RECORD_HEAD = 48,                     /* of a SLICE record, in front of the dead */
};

#define SLICE_NAME "slice-%08x"

struct slice_head {
    uint32_t version;
    struct store_id id;
    uint32_t number;
    uint64_t size_bytes; /* of the file */
    uint64_t data_end;   /* offset behind the last block of records */
    uint32_t jobs, blocks, topics;
    enum job_state state; /* of its jobs: JOB_DELAYED, JOB_READY or JOB_BURIED */
    int64_t due_first_us, due_last_us;
    uint64_t topics_bytes, index_bytes; /* of those sections */
    uint64_t fences_sum, topics_sum, index_sum;
};

/* Where a section lies; they follow one another behind the blocks. */
static inline uint64_t slice_topics_at(const struct slice_head *head)
{
    return head->data_end + (uint64_t)head->blocks * SLICE_FENCE_BYTES;
}

static inline uint64_t slice_index_at(const struct slice_head *head)
{
    return slice_topics_at(head) + head->topics_bytes;
}

/* `block` is BLOCK bytes. The output is written on FORMAT_GOOD only. */
void slice_head_encode(const struct slice_head *head, void *block);
enum format_verdict slice_head_decode(const void *block, struct slice_head *out_head);

/* A block of records: what is known of it without reading it. */
struct slice_fence {
    int64_t due_us;  /* of its first job; later blocks' are not before it */
    uint32_t offset; /* of its header in the file, in blocks of BLOCK bytes */
    uint32_t jobs;
    uint64_t seq; /* of its first job; not in the file; 0: not known */
};

void slice_fence_encode(const struct slice_fence *fence, void *at);
/* All of the section, head->blocks of them. ERR_CORRUPT: they are not of such a slice. */
enum err slice_fences_decode(const struct slice_head *head, const void *section,
                             struct slice_fence *out_fences) MUST_USE;

/* Goes through the topics' names. */
struct slice_topics {
    const char *at, *end;
};
/* ERR_NOT_FOUND: there is no more. ERR_CORRUPT. */
enum err slice_topics_next(struct slice_topics *topics, struct bytes *out_name) MUST_USE;

/* Goes through the index: one entry for each job, in the order of the records. */
struct slice_index {
    const char *at, *end;
    const struct slice_head *head;
    /* Of the entry told of last. Number and hash are not neighbours: compilers copy such ones
       together, for which the processor waits until both have been written. */
    uint64_t offset; /* of its record in the file */
    uint64_t seq;
    uint32_t topic;
    uint32_t priority; /* of a ready job, else 0; … */
    int64_t rank_us;   /* … so is job_rank_us() */
    uint64_t id_hash;  /* 0: the job has no id of a client */
};
void slice_index_init(struct slice_index *index, const struct slice_head *head,
                      const void *section);
/* ERR_NOT_FOUND: there is no more. ERR_CORRUPT: what is there is no entry. */
enum err slice_index_next(struct slice_index *index) MUST_USE;
/* Writes the entry, of a slice with its `head`, behind `last` (zeros and offset BLOCK for the
   first); returns its bytes. */
size_t slice_index_encode(const struct slice_index *last, const struct slice_index *entry,
                          char room[static SLICE_INDEX_MAX]);

/*
 * The log's record about a slice. A part says that the records from `from` up to (not with) `to`,
 * offsets in the file, are in use from now on, but for the dead ones; jobs that it took over left
 * the segment of that number. A whole one repeats what all before it said.
 */
struct slice_record {
    uint32_t number;
    bool whole;
    uint32_t from, to;   /* in blocks of BLOCK bytes */
    uint32_t jobs;       /* records between that live */
    uint32_t left;       /* a part: the segment that had them, … */
    uint64_t left_bytes; /* … and bytes of their records there */
    const char *dead;    /* offsets of the dead records between, in units, as varints: how far each
                            is behind the one before it, the first behind `from` */
    uint32_t dead_bytes;
};

size_t slice_record_bytes(const struct slice_record *record); /* a multiple of eight */
void slice_record_encode(const struct slice_record *record, void *to);
/* `len` bytes, as the record says it has; `dead` is borrowed. False: it is none. */
bool slice_record_decode(const void *at, size_t len, struct slice_record *out_record);

/* "slice-0000002a" ⇄ 0x2a. False: not such a name. */
void slice_name(uint32_t number, char out_name[DISK_NAME_MAX]);
bool slice_name_parse(const char *name, uint32_t *out_number);
/* The same for "slice-0000002a.tmp": one that was being written when the power went. */
void slice_tmp_name(uint32_t number, char out_name[DISK_NAME_MAX]);
bool slice_tmp_name_parse(const char *name, uint32_t *out_number);

static inline uint32_t slice_unit(uint64_t offset)
{
    return (uint32_t)(offset / SLICE_UNIT);
}

#endif
