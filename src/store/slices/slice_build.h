/*
 * Makes the bytes of one slice in memory, job by job in order of due time. Pure but for memory.
 */
#ifndef LATERD_STORE_SLICE_BUILD_H
#define LATERD_STORE_SLICE_BUILD_H

#include "base/discard.h"
#include "base/map.h"
#include "core/event.h"
#include "store/slices/slice_format.h"

struct slice_build {
    struct slice_head head;
    uint32_t tag; /* of the store */
    char *image;  /* the file's bytes, as far as they are made */
    size_t len, cap;
    size_t block;             /* offset of the open block's header; 0: none is open */
    struct slice_fence fence; /* of the open block */
    struct buf fences, topics, index;
    struct buf topics_at;    /* uint32_t: where each topic begins in `topics` */
    struct map topics_map;   /* by name, numbers of topics */
    struct slice_index last; /* the last entry */
};

/* Of a zeroed one, or after slice_build_reset(). `number` is not 0. */
void slice_build_begin(struct slice_build *build, const struct store_id *id, uint32_t number);
/* Forgets the slice, and keeps the memory of the image for the next one; what else is large goes to
   `spent`. */
void slice_build_reset(struct slice_build *build, struct discard *spent);
/* Gives 1 MiB of that back, or what there is. */
void slice_build_less(struct slice_build *build);
void slice_build_fini(struct slice_build *build); /* does nothing to a zeroed one */

/* Is there room for a record of so many bytes? There is for one of any size in an empty slice. */
bool slice_build_room(const struct slice_build *build, size_t record_bytes);
/*
 * Adds a job: `record` is its encoded record, `job` what that says, `id_hash` 0 without a client's
 * id. Jobs come in order of due time. Returns the offset of the record in the file. O(bytes of it),
 * and each SLICE_BLOCK_BYTES once those.
 */
uint64_t slice_build_add(struct slice_build *build, const struct event *job, uint64_t id_hash,
                         const void *record, size_t len);
/* Writes sections and head: build->image has build->len bytes, a multiple of BLOCK. */
void slice_build_end(struct slice_build *build);

#endif
