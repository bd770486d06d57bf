/*
 * All that is intact in the history files of a store that nobody has open, past any damage, for
 * `later salvage`. Nothing is written.
 *
 * A file in which all is intact has its batches: what the log says of those is left out. Of a file
 * that is damaged anywhere the blocks that are good are taken, wherever they lie, but for entries
 * that the log has, too. A file that was merged into another one is left out.
 */
#ifndef LATERD_STORE_HISTORY_RESCUE_H
#define LATERD_STORE_HISTORY_RESCUE_H

#include "store/history/history_format.h"

struct history_rescue;

/* `fault` is called for each damaged place, while history_rescue_new() reads all files. It keeps of
   them 64 bytes each. ERR_IO: the directory cannot be listed. */
struct history_rescue_options {
    struct disk *disk;
    const struct store_id *id; /* of the store */
    void (*fault)(void *ctx, const char *name, uint64_t offset, const char *text);
    void *ctx;
};
enum err history_rescue_new(const struct history_rescue_options *options,
                            struct history_rescue **out_rescue) MUST_USE;
void history_rescue_free(struct history_rescue *rescue); /* NULL does nothing */

/* Has an intact file what happened in this batch of the log? */
bool history_rescue_covers(const struct history_rescue *rescue, uint64_t batch);
/* Is there a damaged file, so that what the log has must be noted before the replay? */
bool history_rescue_is_incomplete(const struct history_rescue *rescue);
/* An entry of the log, of a batch that is not covered. Takes 8 bytes. */
void history_rescue_note(struct history_rescue *rescue, struct bytes entry);

/* All entries, of each id the older ones first as far as that can be told. `each` may end it with
   an error. One file at a time is in memory. */
enum err history_rescue_replay(struct history_rescue *rescue,
                               enum err (*each)(void *ctx, const struct happening *happening),
                               void *ctx) MUST_USE;

#endif
