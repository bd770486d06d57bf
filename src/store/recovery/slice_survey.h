/*
 * For verify and salvage, of a store that nobody has open: compares what the log says about slices
 * with what their files contain, and reads on behind damage. Waits for the disk; writes nothing.
 */
#ifndef LATERD_STORE_SLICE_SURVEY_H
#define LATERD_STORE_SLICE_SURVEY_H

#include "store/record.h"
#include "store/recovery/directory.h"

/* What the log says about one slice. */
struct slice_liveness {
    uint32_t number;
    bool logged;    /* a SLICE record was seen; else only deaths, which are repeated further on */
    uint32_t named; /* the file is in use up to this offset, in blocks of BLOCK bytes */
    uint64_t live;  /* live records, if the log is complete */
    uint64_t *dead; /* bitmap of dead records, one bit for each SLICE_UNIT */
    size_t dead_words;
};

/* A struct of zeros is empty. */
struct slice_liveness_set {
    struct slice_liveness *at; /* by number */
    size_t count;
};

void slice_liveness_fini(struct slice_liveness_set *liveness);
/* In the order of the log: */
void slice_liveness_apply(struct slice_liveness_set *liveness, const struct slice_record *record);
/* The record at this place died. Does nothing if the place is in no slice. */
void slice_liveness_mark_dead(struct slice_liveness_set *liveness, uint64_t where);
/* Does the log that was read say whether the record at this place lives? */
bool slice_liveness_knows(const struct slice_liveness_set *liveness, uint64_t where);
/* Does it live, as far as the log has been read? */
bool slice_liveness_is_live(const struct slice_liveness_set *liveness, uint64_t where);
/* How many records of the slice live; 0: none, or the log does not mention the slice. */
uint64_t slice_liveness_count(const struct slice_liveness_set *liveness, uint32_t number);

struct slice_reader {
    void *ctx;
    /* An intact job. An error ends the reading with it. */
    enum err (*job)(void *ctx, const struct record *record, uint64_t where);
    /* The same of one that was found in a damaged block, while the index is damaged, too: it may be
       in the body of another one, which a client has written. May be NULL. */
    enum err (*stray)(void *ctx, const struct record *record, uint64_t where);
    /* The index names a job whose record at this place is damaged. This and `fault` may be NULL. */
    void (*lost)(void *ctx, uint64_t seq, uint64_t where);
    /* The file is damaged at this offset. `whole`: `lost` is called for every job concerned;
       false without it. */
    void (*fault)(void *ctx, const char *name, uint64_t offset, const char *text, bool whole);
};

/*
 * Reads the file of a slice into memory, SLICE_FILE_MAX bytes of it at most, and reports what is in
 * it. ERR_IO, ERR_AGAIN (no descriptor is free): it cannot be opened. *out_bytes: those read.
 */
enum err slice_survey(struct disk *disk, const struct store_id *id, uint32_t number,
                      const struct slice_reader *reader, uint64_t *out_bytes) MUST_USE;

#endif
