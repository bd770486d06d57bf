/*
 * Images of stretches of segments' files, in memory: batches are encoded into the last one, written
 * from there, and stay readable without the disk for as long as options.recent_bytes allows.
 *
 * Invariant: they are in the order of their batches; only the last one may hold no sealed batch.
 */
#ifndef LATERD_STORE_WRITE_BUFFER_H
#define LATERD_STORE_WRITE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

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
};

void write_buffers_init(struct write_buffers *buffers, uint64_t segment_bytes);
void write_buffers_fini(struct write_buffers *buffers);
/* A new one behind the others, of `least` bytes or more. The caller says which place it shows. */
struct write_buffer *write_buffers_add(struct write_buffers *buffers, size_t least);
void write_buffers_drop(struct write_buffers *buffers, struct write_buffer *buffer);
/* Forgets the oldest above `recent_bytes` whose batches, up to `written`, are on disk. */
void write_buffers_trim(struct write_buffers *buffers, uint64_t recent_bytes, uint64_t written);
struct write_buffer *write_buffers_last(const struct write_buffers *buffers); /* or NULL */
/* The newest one that begins at the place or before it, or NULL. It may end before it. O(count) */
const struct write_buffer *write_buffers_find(const struct write_buffers *buffers, uint32_t number,
                                              uint64_t offset);
void write_buffers_valid(const struct write_buffers *buffers); /* CHECKs the invariant. O(count) */

#endif
