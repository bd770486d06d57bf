/*
 * The image of the index of far jobs, in a file beside the log: written when the store is closed in
 * order, read by the next opening instead of the indexes of all slices, and removed by it. It says
 * of which opening, batch and slices it is: of any others it is of no use, and the indexes are read
 * as if it were not there. Nothing depends on it; nobody but store_open() reads it. What the
 * callbacks say is in its parts is theirs.
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
 * Writes it, if there are store_options::image_jobs far ones or more, and room on the disk. The log
 * is durable, and nothing more is appended. An error of the disk is no error: there is no image
 * then; nor is one left if its writing took longer than store_options::image_us. O(far jobs and
 * jobs in memory), and memory for one part of the image.
 */
void far_image_write(struct store *store);

/*
 * The log has been replayed. OK: all that live in slices have been told of. ERR_NOT_FOUND: there is
 * none that fits; nothing was told of. Other errors are the callbacks', and end the opening.
 */
enum err far_image_read(struct store *store, const struct manifest *clean) MUST_USE;

/*
 * Reads the file that is there and compares all its sums, beside no open store. `clean`: the
 * manifest, which says that the store was closed in order. NULL: it is whole, or
 * (`*out_bytes` is 0) of another version or close, and will not be taken; else what is wrong, as a
 * constant text. `*out_bytes`: so many were looked at. O(bytes).
 */
const char *far_image_check(struct disk *disk, const struct manifest *clean, uint64_t *out_bytes);

#endif
