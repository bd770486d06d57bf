/*
 * The image of the index of far jobs: a file beside the log that a clean close writes and the next
 * opening reads, instead of the indexes of all slices, and then removes. It names the opening, the
 * last batch and the slices that it belongs to; if these do not match, it is ignored and the
 * indexes are read. So it is only an optimisation: nothing is lost without it. The contents of its
 * parts are defined by the callbacks far_image() and far_image_take(). Main thread only.
 */
#ifndef LATERD_STORE_FAR_IMAGE_H
#define LATERD_STORE_FAR_IMAGE_H

#include "store/format.h"

struct disk;
struct slices;
struct store;

#define FAR_IMAGE_NAME     "far-index"
#define FAR_IMAGE_TMP_NAME "far-index.tmp"

/*
 * Writes the image if there are at least store_options::image_jobs far jobs and the disk has room.
 * Called by a clean close, when the log is durable and complete. Leaves no image if the disk fails
 * or if writing takes longer than store_options::image_us. Waits for the disk. O(far jobs + jobs in
 * memory); takes memory for one part of the image.
 */
void far_image_write(struct store *store);

/*
 * Opening, after the log was replayed: passes the image to the callbacks. `clean`: the manifest, if
 * the store was closed cleanly, else NULL. OK: the core knows all far jobs now. ERR_NOT_FOUND:
 * there is no image of this store's state; the core has none of it. Other errors come from the
 * callbacks and end the opening.
 */
enum err far_image_read(struct store *store, const struct manifest *clean) MUST_USE;

/*
 * `later verify`, of a store that nobody has open: reads the image and verifies its checksums.
 * `clean`: the manifest of a cleanly closed store. Returns NULL if the image is intact, or, with
 * *out_bytes 0, if it belongs to another version or state and will be ignored; else what is wrong,
 * as a constant text. *out_bytes: bytes verified. Waits for the disk. O(bytes).
 */
const char *far_image_check(struct disk *disk, const struct manifest *clean, uint64_t *out_bytes);

#endif
