/*
 * What a core knows of far jobs, as bytes: a clean close leaves them for the next start.
 * docs/disk-format.md describes them.
 */
#ifndef LATERD_CORE_FAR_IMAGE_H
#define LATERD_CORE_FAR_IMAGE_H

#include "core/far.h"

enum { CORE_FAR_IMAGE_PARTS = 98 };

/*
 * A clean close: appends one part of an image of all jobs whose records lie in slices to `out`.
 * Call it for all parts in order, with no other call between them. False: no image can be made now,
 * or the memory limit is reached; request no more parts.
 */
bool core_far_image(struct core *core, const struct far_places *places, uint32_t part,
                    struct buf *out) MUST_USE;
/*
 * At a start, after the log has been replayed, instead of core_far_begin() to core_far_end(): takes
 * the parts of the image in order. The store must be as it was when the image was made.
 * ERR_CORRUPT: not a valid image; no part of it was kept.
 */
enum err core_far_image_take(struct core *core, const struct far_places *places, uint32_t part,
                             struct bytes image) MUST_USE;
/* Discards the parts of an image that were taken so far. */
void core_far_image_drop(struct core *core);

#endif
