/*
 * What recover.c shares with recover_tail.c, recover_new.c and recover_files.c. Nobody else
 * includes this.
 */
#ifndef LATERD_STORE_RECOVER_PARTS_H
#define LATERD_STORE_RECOVER_PARTS_H

#include "store/internal.h"
#include "store/recovery/damage.h"

/* Where a batch is in its segment. */
struct batch_place {
    uint64_t number, offset;
};

struct recovery {
    struct store *store;
    struct store_error *error;
    struct directory directory;
    bool clean;       /* closed cleanly, and both slots of the manifest are intact */
    size_t leftovers; /* directory.found below this index were cleaned: to be removed */
    uint64_t seq_mark;
    uint64_t batch_next;      /* the number expected next */
    uint64_t proven;          /* the highest batch that something calls durable */
    unsigned skipped_regions; /* damaged regions that were skipped: nothing live depends on them */
    bool surveyed;            /* `damage` is set, because damage was found */
    struct damage damage;
    /* Of the last segment: */
    struct batch_place known[2];     /* at or in front of `unproven_at`; and a later one */
    uint64_t unproven_at;            /* offset of the first batch above `proven`, or of the end */
    uint64_t dirty_first, dirty_end; /* bytes behind the end that are not zero */
    uint64_t epoch;                  /* of the last batch that has one */
    struct batch_walk walk;
};

/*
 * After the log was replayed: was the store closed cleanly? That is so if the manifest says so and
 * names the last batch of the log. Then nothing was written behind that batch, and all spare
 * segments are complete.
 */
bool recovery_in_order(const struct recovery *recovery);

/* Of the last segment, whose batches were replayed up to its end so far: searches the bytes behind
   it for non-zero blocks, and for a batch that proves the bad one durable. ERR_IO, or what
   callbacks->progress returned. */
enum err recover_survey_tail(struct recovery *recovery, const struct segment *segment,
                             struct walker *walker) MUST_USE;
/* Makes the end of the log durable: rewrites batches that are not proven, and zeros a torn tail.
   With OK, recovery::error may hold a notice. Errors as above. */
enum err recover_settle_tail(struct recovery *recovery, struct segment *segment,
                             struct walker *walker) MUST_USE;

/* Makes a new store in an empty directory: its id, and the manifest. ERR_DISK_FULL, ERR_IO. */
enum err recover_new(struct recovery *recovery) MUST_USE;
/* Makes the secret of segment_key(), if the manifest has none, which may be an older one: then it
   learns here that segments have keys. ERR_IO. */
enum err recover_secret(struct recovery *recovery) MUST_USE;

/* Last step: adds unused segments as spares, and removes files that a crash left incomplete. */
enum err recover_unused(struct recovery *recovery) MUST_USE;
/* Removes segments that were cleaned before a crash; damaged ones are set aside. */
enum err recover_leftovers(struct recovery *recovery) MUST_USE;

#endif
