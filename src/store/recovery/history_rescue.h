/*
 * For `later salvage`: reads every intact entry from the history files of a store that nobody has
 * open. Waits for the disk; writes nothing.
 *
 * An intact file covers its batches, so the log's entries of those batches are duplicates. From a
 * damaged file every intact block is used, except entries that the log has as well. A file that was
 * merged into another one is skipped.
 */
#ifndef LATERD_STORE_HISTORY_RESCUE_H
#define LATERD_STORE_HISTORY_RESCUE_H

#include "store/history/history_format.h"

struct history_rescue;

/* history_rescue_new() reads all files and calls `fault` for each damaged place. Keeps 64 bytes of
   memory for each file. ERR_IO: the directory cannot be listed. */
struct history_rescue_options {
    struct disk *disk;
    const struct store_id *id; /* of the store */
    void (*fault)(void *ctx, const char *name, uint64_t offset, const char *text);
    void *ctx;
};
enum err history_rescue_new(const struct history_rescue_options *options,
                            struct history_rescue **out_rescue) MUST_USE;
void history_rescue_free(struct history_rescue *rescue); /* NULL does nothing */

/* Does an intact file have the entries of this batch of the log? */
bool history_rescue_covers(const struct history_rescue *rescue, uint64_t batch);
/* Is any file damaged? Then the log's entries must be passed to history_rescue_note() before
   history_rescue_replay(). */
bool history_rescue_is_incomplete(const struct history_rescue *rescue);
/* Notes an entry of the log whose batch no intact file covers. Takes 8 bytes of memory. */
void history_rescue_note(struct history_rescue *rescue, struct bytes entry);

/* Calls `each` for every entry, those of one id oldest first as far as the files tell. An error of
   `each` ends the replay. One file at a time is in memory. */
enum err history_rescue_replay(struct history_rescue *rescue,
                               enum err (*each)(void *ctx, const struct happening *happening),
                               void *ctx) MUST_USE;

#endif
