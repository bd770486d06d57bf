/*
 * Reads the batches of a segment's file through a buffer (the window) that grows to the largest
 * batch. Only complete batches of this store and this segment, with a valid checksum, are returned.
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
    uint64_t key;        /* of the segment */
    char *window;
    size_t cap;
    uint64_t start; /* the window holds bytes [start, start + len) of the file */
    size_t len;
    size_t wanted;    /* bytes that are being read */
    size_t requested; /* bytes that were requested; fewer came only at the end of the file */
    bool narrow;      /* read no more than needed, because the bytes behind may be unreadable */
    /*
     * Reads up to `want` bytes at `start` of the file into the window. ERR_AGAIN: the read is under
     * way; call scan_read_ended() when it has ended, then repeat the call of the scan. NULL: the
     * scan reads by itself and waits for the disk.
     */
    enum err (*read_window)(struct scan *scan, size_t want, size_t *out_len);
    void *owner; /* for read_window */
};

void scan_init(struct scan *scan, struct disk *disk, struct disk_file *file, uint64_t size_bytes,
               size_t window_bytes);
/* The same with a window that the caller has, of `window_bytes` at least, aligned to BLOCK. It is
   the scan's until scan_take_window(). */
void scan_init_in(struct scan *scan, struct disk *disk, struct disk_file *file, uint64_t size_bytes,
                  char *window, size_t window_bytes);
/* Returns the window to the caller; only scan_fini() may follow. */
char *scan_take_window(struct scan *scan);
void scan_fini(struct scan *scan);
/* Makes a new window, because somebody has taken over the memory of the old one. */
void scan_renew_window(struct scan *scan, size_t window_bytes);
/* The read that `read_window` began has ended: the window has `len` bytes. */
void scan_read_ended(struct scan *scan, size_t len);
/* Discards the window, so that the bytes are read again. */
void scan_discard(struct scan *scan);
/* Reads `len` bytes at `offset` (a multiple of BLOCK) into the window; fewer at the end of the
   file. Valid until the next call. ERR_IO; ERR_AGAIN: see `read_window`. */
enum err scan_bytes(struct scan *scan, uint64_t offset, size_t len, const char **out_at,
                    size_t *out_len) MUST_USE;
/* Is there a whole batch of this store and segment at `offset`? On OK *out_verdict is set, and on
   FORMAT_GOOD the other outputs, valid until the next call. Errors as scan_bytes(). */
enum err scan_batch(struct scan *scan, uint64_t offset, enum format_verdict *out_verdict,
                    struct batch_head *out_head, const char **out_batch) MUST_USE;

#endif
