/*
 * The format of a slice (a file of far jobs sorted by due time, all delayed, all ready or all
 * buried) and of the log's SLICE records. docs/disk-format.md has the layout.
 *
 *     head (a block) | blocks of records, each a batch with a header | fences | topics | index
 *
 * A fence is an entry of the sparse index: the first due time, offset and job count of a block. The
 * index has one entry for each job. A slice is written once and never changed; which part of it is
 * in use, and which records are dead, is in the log.
 *
 * Pure; any thread. Decoders trust no byte.
 */
#ifndef LATERD_STORE_SLICE_FORMAT_H
#define LATERD_STORE_SLICE_FORMAT_H

#include "base/bytes.h"
#include "base/err.h"
#include "core/job.h"
#include "store/format.h"

enum {
    SLICE_BLOCK_BYTES = 64 * 1024,     /* bytes of a block of records, about */
    SLICE_DATA_MAX = 16 * 1024 * 1024, /* bytes of all blocks, unless one record has more */
    /* No slice has more bytes: 64 MiB of one record, 13 of topics, 24 of the index. */
    SLICE_FILE_MAX = 256 * 1024 * 1024,
    SLICE_UNIT = 32, /* bytes; at most one record begins in each unit */
    SLICE_FENCE_BYTES = 16,
    SLICE_TOPICS_MAX = 65535,
    SLICE_INDEX_MAX = 10 + 10 + 8 + 3 + 5 + 10, /* bytes of one index entry, at most */
    SLICE_RECORD_HEAD = 48,                     /* bytes of a SLICE record in front of `dead` */
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

/* Offsets of the sections in the file; they follow the blocks. */
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

/* What is known of a block without reading it. */
struct slice_fence {
    int64_t due_us;  /* of its first job; never lower than that of the block before */
    uint32_t offset; /* of its header in the file, in blocks of BLOCK bytes */
    uint32_t jobs;
    uint64_t seq; /* number of its first job; not in the file; 0: not known */
};

void slice_fence_encode(const struct slice_fence *fence, void *at);
/* Decodes the whole section, head->blocks fences. ERR_CORRUPT: not a valid section of this slice.
 */
enum err slice_fences_decode(const struct slice_head *head, const void *section,
                             struct slice_fence *out_fences) MUST_USE;

/* Iterates over the topics' names. */
struct slice_topics {
    const char *at, *end;
};
/* ERR_NOT_FOUND: there is no more. ERR_CORRUPT. */
enum err slice_topics_next(struct slice_topics *topics, struct bytes *out_name) MUST_USE;

/* Iterates over the index: one entry for each job, in the order of the records. */
struct slice_index {
    const char *at, *end;
    const struct slice_head *head;
    /* The current entry. `seq` and `id_hash` are not adjacent on purpose: a compiler would copy
       them with one load, which stalls until both stores are complete. */
    uint64_t offset; /* of its record in the file */
    uint64_t seq;
    uint32_t topic;
    uint32_t priority; /* of a ready job, else 0; … */
    int64_t rank_us;   /* … so is job_rank_us() */
    uint64_t id_hash;  /* 0: the job has no id of a client */
};
void slice_index_init(struct slice_index *index, const struct slice_head *head,
                      const void *section);
/* Advances to the next entry. ERR_NOT_FOUND: that was all. ERR_CORRUPT: not a valid entry. */
enum err slice_index_next(struct slice_index *index) MUST_USE;
/* Encodes an entry as the difference to `last`, the entry before it (for the first entry: zeros and
   offset BLOCK). entry->head must be set. Returns how many bytes it has. */
size_t slice_index_encode(const struct slice_index *last, const struct slice_index *entry,
                          char room[static SLICE_INDEX_MAX]);

/*
 * A SLICE record of the log. A part says that the records from offset `from` up to (not including)
 * `to` are in use from now on, except the dead ones; their jobs have left segment `left`. A whole
 * record (`whole`) repeats what all SLICE records and deaths before it said.
 */
struct slice_record {
    uint32_t number;
    bool whole;
    uint32_t from, to;   /* in blocks of BLOCK bytes */
    uint32_t jobs;       /* live records in that range */
    uint32_t left;       /* part: the segment that the jobs left, … */
    uint64_t left_bytes; /* … and bytes of their records there */
    const char *dead;    /* the dead records in that range: varints, the distance of each from the
                            one before it, the first from `from`, in SLICE_UNITs */
    uint32_t dead_bytes;
};

size_t slice_record_bytes(const struct slice_record *record); /* a multiple of eight */
void slice_record_encode(const struct slice_record *record, void *to);
/* Decodes a record of `len` bytes (its own length field); `dead` is borrowed. False: not valid. */
bool slice_record_decode(const void *at, size_t len, struct slice_record *out_record);

/* "slice-0000002a" ⇄ 0x2a. False: not such a name. */
void slice_name(uint32_t number, char out_name[DISK_NAME_MAX]);
bool slice_name_parse(const char *name, uint32_t *out_number);
/* The same for "slice-0000002a.tmp", a file that was not completed before a crash. */
void slice_tmp_name(uint32_t number, char out_name[DISK_NAME_MAX]);
bool slice_tmp_name_parse(const char *name, uint32_t *out_number);

static inline uint32_t slice_unit(uint64_t offset)
{
    return (uint32_t)(offset / SLICE_UNIT);
}

#endif
