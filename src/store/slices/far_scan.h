/*
 * Searches a block of a slice, or a part of it, for the jobs of one topic behind a position, up to
 * as many bytes as the caller has memory for. Reports what is left of the block.
 *
 * A whole block is checked by its checksum. Of a part each record is checked by its own sums, which
 * is why a part can be used without the rest of its block.
 *
 * Any thread, mostly the disk's read threads: uses only the struct. Pure, except that it allocates
 * memory. Trusts no byte. Used by src/store/slices only.
 */
#ifndef LATERD_STORE_FAR_SCAN_H
#define LATERD_STORE_FAR_SCAN_H

#include "base/bytes.h"
#include "store/slices/far_blocks.h"
#include "store/slices/far_merge.h"

/* A struct of zeros is empty; what it allocates is kept for the next block. */
struct far_scan {
    /* What is looked for: */
    struct bytes topic;     /* borrowed */
    struct job_place after; /* only jobs behind this one … */
    bool backwards;         /* … or in front of it; the last ones are kept, not the first */
    size_t keep_bytes;      /* stop when records of so many bytes are kept */
    /* Where: */
    uint32_t number, block; /* the slice's number; its block's, from 0 */
    uint64_t store_tag;
    uint32_t jobs;          /* records in the block */
    uint32_t block_bytes;   /* of the block in the file */
    struct block_rest rest; /* the part of it to search; zeros: all */
    bool salvage;           /* it is damaged: keep every intact record */
    /* What was read: */
    uint64_t offset; /* of the block in the file */
    uint32_t at;     /* of `bytes` in the block */
    const char *bytes;
    size_t len; /* of `bytes` */
    /* Out: */
    bool broken; /* a record is not valid where one must be: run again with `salvage` */
    struct merge_job *matches; /* in the order of the file; `record` points into `bytes` */
    uint32_t match_count, match_cap;
    size_t matched_bytes, looked_bytes; /* of the matches; of all records looked at */
    struct block_rest left;             /* of the block; no records: nothing is left */
    struct job_place behind;            /* what is left is behind this */
    size_t need_bytes; /* not 0: not even one record was read whole: read so many bytes from
                          the same offset */
};

/* O(records * log bytes read, at worst). */
void far_scan_run(struct far_scan *scan);
void far_scan_fini(struct far_scan *scan);

#endif
