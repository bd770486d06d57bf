/*
 * Reads batches out of a segment's file through a window that grows to the largest batch. What is
 * not a whole batch of this store and segment is none.
 */
#ifndef LATERD_STORE_SCAN_H
#define LATERD_STORE_SCAN_H

#include "base/err.h"
#include "port/disk.h"
#include "store/format.h"

struct scan {
    struct disk *disk;
    struct disk_file *file;
    uint64_t size_bytes; /* of the file */
    uint32_t number;     /* of the segment */
    uint32_t tag;        /* of the store */
    char *window;
    size_t cap;
    uint64_t start; /* the window holds bytes [start, start + len) of the file */
    size_t len;
    size_t wanted; /* so many are being brought */
    size_t asked;  /* so many were to be brought: fewer came only at the end of the file */
    bool narrow;   /* read no more than is asked for: what is beyond may be unreadable */
    /*
     * Brings up to `want` bytes at `start` of the file into the window. ERR_AGAIN: not yet; who
     * asks the scan again later calls scan_brought() before. NULL: the disk is waited for.
     */
    enum err (*bring)(struct scan *scan, size_t want, size_t *out_len);
    void *owner; /* for bring */
};

void scan_init(struct scan *scan, struct disk *disk, struct disk_file *file, uint64_t size_bytes,
               size_t window_bytes);
void scan_fini(struct scan *scan);
/* So many of the bytes that `bring` was last asked for are there now. */
void scan_brought(struct scan *scan, size_t len);
/* What was read is not to be believed a second time. */
void scan_forget(struct scan *scan);
/* Makes `len` bytes at `offset` (a multiple of BLOCK) visible; fewer at the end of the file. */
enum err scan_bytes(struct scan *scan, uint64_t offset, size_t len, const char **out_at,
                    size_t *out_len) MUST_USE;
/*
 * Looks for a whole batch of this store and segment at `offset`. Outputs on FORMAT_GOOD; good until
 * the next call.
 */
enum err scan_batch(struct scan *scan, uint64_t offset, enum format_verdict *out_verdict,
                    struct batch_head *out_head, const char **out_batch) MUST_USE;

#endif
