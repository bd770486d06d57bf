/*
 * Slices of a store that nobody has open, for verify and salvage: what the log says of them, and
 * what really lies in their files, past any damage. The disk is waited for; nothing is written.
 */
#ifndef LATERD_STORE_SLICE_SURVEY_H
#define LATERD_STORE_SLICE_SURVEY_H

#include "store/record.h"
#include "store/recovery/directory.h"

/* What the log says of one slice. */
struct slice_fate {
    uint32_t number;
    bool told;      /* else only deaths are known, and are told again further on */
    uint32_t named; /* blocks of BLOCK bytes of the file that are in use */
    uint64_t live;  /* records that live, if the log is whole */
    uint64_t *dead; /* bits, one for each SLICE_UNIT */
    size_t dead_words;
};

/* Zeroed is empty. */
struct slice_fates {
    struct slice_fate *at; /* by number */
    size_t count;
};

void slice_fates_fini(struct slice_fates *fates);
/* In the order of the log: */
void slice_fates_told(struct slice_fates *fates, const struct slice_record *record);
/* The record at this place died; does nothing if that is in no slice. */
void slice_fates_died(struct slice_fates *fates, uint64_t where);
/* Does the record at this place live, by all that was told? */
bool slice_fates_alive(const struct slice_fates *fates, uint64_t where);
/* How many records of the slice live; 0: the log tells nothing of it, or all have died. */
uint64_t slice_fates_live(const struct slice_fates *fates, uint32_t number);

struct slice_reader {
    void *ctx;
    /* An intact job. An error ends the reading with it. */
    enum err (*job)(void *ctx, const struct record *record, uint64_t where);
    /* By the index a job's record is there, and it is damaged. */
    void (*lost)(void *ctx, uint64_t seq, uint64_t where);
    /* Something is not as it must be. `whole`: of which jobs that is, `lost` tells. */
    void (*fault)(void *ctx, const char *name, uint64_t offset, const char *text, bool whole);
};

/*
 * Reads all of a slice's file, into memory. ERR_IO, ERR_AGAIN: it cannot be opened. `*out_bytes`:
 * so many it has.
 */
enum err slice_survey(struct disk *disk, const struct store_id *id, uint32_t number,
                      const struct slice_reader *reader, uint64_t *out_bytes) MUST_USE;

#endif
