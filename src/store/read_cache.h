/*
 * Bytes of segments' files that were read lately, up to READ_CACHE_BYTES: a body is mostly read
 * together with its neighbours, which are often wanted soon. The least recently used ones go first.
 * What is cached must not change in its file any more.
 *
 * Main thread only. Used by body_read.c only.
 */
#ifndef LATERD_STORE_READ_CACHE_H
#define LATERD_STORE_READ_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

enum {
    READ_CACHE_BYTES = 4 << 20,
    READ_CACHE_PIECE_BYTES = 128 * 1024, /* no read has more */
    READ_CACHE_LISTS = 256, /* a power of two: as many as there are reads of one body, at most */
};

struct cached_read;

/* A read has bytes of one or two aligned pieces of its file, and is in the list of each. */
struct cached_piece {
    struct list link; // read_cache::pieces
    struct cached_read *read;
};

struct cached_read {
    struct list used; // read_cache::used
    struct cached_piece pieces[2];
    uint32_t segment;
    uint64_t start, end; /* of the segment's file */
    char *bytes;
};

struct read_cache {
    struct list used;                     // cached_read::used; least recently used first
    struct list pieces[READ_CACHE_LISTS]; // cached_piece::link, hashed by place
    size_t bytes;                         /* of all reads */
    uint64_t looks;                       /* reads examined by read_cache_find(): for tests */
};

void read_cache_init(struct read_cache *cache);
void read_cache_fini(struct read_cache *cache);

/* Adds the bytes from `start` to before `end` of the segment's file, and takes them over
   (mem_free). There is at least one, and at most READ_CACHE_PIECE_BYTES. */
void read_cache_add(struct read_cache *cache, uint32_t segment, uint64_t start, uint64_t end,
                    char *bytes);

/* A read that has all bytes from `start` to before `end`; NULL: none. Valid until the next
   read_cache_add(). O(1), as long as few reads overlap. */
struct cached_read *read_cache_find(struct read_cache *cache, uint32_t segment, uint64_t start,
                                    uint64_t end);

/* The read was used: all others go before it. */
void read_cache_touch(struct read_cache *cache, struct cached_read *read);

/* CHECKs the invariants. O(reads) */
void read_cache_valid(const struct read_cache *cache);

#endif
