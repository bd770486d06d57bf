/*
 * Builds the file of one slice, job by job, in order of due time: in memory, or in pieces that
 * leave it as soon as they are complete. Any one thread at a time. Pure, except that it allocates
 * memory.
 */
#ifndef LATERD_STORE_SLICE_BUILD_H
#define LATERD_STORE_SLICE_BUILD_H

#include "base/discard.h"
#include "base/map.h"
#include "core/event.h"
#include "store/slices/slice_format.h"

struct disk_pieces;

struct slice_build {
    struct slice_head head;
    uint32_t tag;             /* of the store */
    struct disk_pieces *to;   /* where complete bytes go, set behind slice_build_begin(); or NULL */
    char *image;              /* the file's bytes so far, without those that have gone there … */
    size_t gone;              /* … which are so many */
    size_t len;               /* of the file */
    size_t cap;               /* of `image` */
    size_t block;             /* offset of the open block's header; 0: none is open */
    struct slice_fence fence; /* of the open block */
    struct buf fences, topics, index;
    struct buf topics_at;    /* uint32_t: where each topic begins in `topics` */
    struct map topics_map;   /* by name, numbers of topics */
    struct slice_index last; /* the last entry */
};

/* Begins a slice, in a zeroed struct or after slice_build_reset(). `number`: the slice's, not 0. */
void slice_build_begin(struct slice_build *build, const struct store_id *id, uint32_t number);
/* Discards the slice. Keeps the memory of the image and of the index for the next slice; other
   large memory goes to `spent`. */
void slice_build_reset(struct slice_build *build, struct discard *spent);
/* Bytes of memory that it has. O(1). */
size_t slice_build_kept(const struct slice_build *build);
/* Frees 1 MiB of the memory that slice_build_reset() kept, or what is left of it. */
void slice_build_less(struct slice_build *build);
void slice_build_fini(struct slice_build *build); /* does nothing to a zeroed one */

/* Does a record of this size fit into the slice? An empty slice takes a record of any size. */
bool slice_build_room(const struct slice_build *build, size_t record_bytes);
/*
 * Adds a job: `record` is its encoded record of `len` bytes, `id_hash` the hash of the client's id,
 * or 0 without one. Of `job` it reads number, due time and topic; in a slice of ready jobs also
 * priority, order and creation time. Jobs must be added in order of due time. Returns the record's
 * offset in the file. O(len), plus O(SLICE_BLOCK_BYTES) when a block is complete.
 */
uint64_t slice_build_add(struct slice_build *build, const struct event *job, uint64_t id_hash,
                         const void *record, size_t len);
/* Completes the file: writes the last block's header, the sections and the head. It then has
   build->len bytes, a multiple of BLOCK; they are in build->image, or all have gone. O(jobs). */
void slice_build_end(struct slice_build *build);

#endif
