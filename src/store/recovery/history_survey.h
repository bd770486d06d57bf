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

/* Calls `fault` for each place that is damaged, and where a file is missing between others. ERR_IO:
 * the directory cannot be listed. */
enum err history_survey(struct disk *disk, struct history_survey *survey) MUST_USE;

#endif
