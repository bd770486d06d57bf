/*
 * Write buffers: each is a copy in memory of a range of a segment's file. Batches are encoded into
 * the last buffer and written from there. Written buffers are kept as a cache of
 * options.recent_bytes, so that recent records are read without the disk. Main thread only; the
 * commit thread reads them.
 *
 * Invariant: buffers are in the order of their batches; only the last one may have no sealed batch.
 */
#ifndef LATERD_STORE_WRITE_BUFFER_H
#define LATERD_STORE_WRITE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "base/discard.h"
#include "base/list.h"

/* Bytes [start, start + used) of a segment's file, as they are or will be on disk. */
struct write_buffer {
    uint32_t number;  /* of the segment */
    struct list link; /* write_buffers::list, oldest first */
    uint64_t start;
    size_t used; /* sealed batches; the open one lies behind */
    size_t cap;
    uint64_t batch_last; /* the last sealed batch in it; 0 = none */
    char *at;
};

struct write_buffers {
    struct list list; /* write_buffer::link */
    uint64_t bytes;
    size_t usual;              /* bytes of one; less for tiny segments */
    struct write_buffer *idle; /* one kept for the next use, or NULL */
    struct discard *discard;   /* for those larger than usual; NULL: they are freed at once */
};

void write_buffers_init(struct write_buffers *buffers, uint64_t segment_bytes,
                        struct discard *discard);
void write_buffers_fini(struct write_buffers *buffers);
/* Adds a buffer of at least `least` bytes at the end. The caller sets `number` and `start`. */
struct write_buffer *write_buffers_add(struct write_buffers *buffers, size_t least);
void write_buffers_drop(struct write_buffers *buffers, struct write_buffer *buffer);
/* Frees the oldest buffers until the rest has at most `recent_bytes`, but none with batches above
   `written`. */
void write_buffers_trim(struct write_buffers *buffers, uint64_t recent_bytes, uint64_t written);
struct write_buffer *write_buffers_last(const struct write_buffers *buffers); /* or NULL */
/* The newest buffer of this segment that begins at or before this offset, or NULL. It may end
   before the offset. O(buffers). */
const struct write_buffer *write_buffers_find(const struct write_buffers *buffers, uint32_t number,
                                              uint64_t offset);
void write_buffers_valid(const struct write_buffers *buffers); /* CHECKs the invariant. O(count) */

#endif
