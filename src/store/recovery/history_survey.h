/*
 * Reads the history files of a store that nobody has open, every byte, for `later verify`.
 */
#ifndef LATERD_STORE_HISTORY_SURVEY_H
#define LATERD_STORE_HISTORY_SURVEY_H

#include "store/history/history_format.h"

struct history_survey {
    void (*fault)(void *ctx, const char *name, uint64_t offset, const char *text);
    void *ctx;
    const struct store_id *id; /* of the store */
    uint64_t files, entries, bytes;
};

/* Appends the number (uint32_t) of each complete history file in the directory to `out_numbers`.
   Incomplete ones are left out: the next opening removes them. ERR_IO. */
enum err history_numbers(struct disk *disk, struct buf *out_numbers) MUST_USE;

/* The last batch of the log that a history file of this store has: it was durable, and so were all
   before it. 0: there is none. A file whose header cannot be read says nothing. O(files). */
uint64_t history_last_batch(struct disk *disk, const struct store_id *id);

/* Calls `fault` for each place that is damaged, and where a file is missing between others. ERR_IO:
 * the directory cannot be listed. */
enum err history_survey(struct disk *disk, struct history_survey *survey) MUST_USE;

#endif
