/*
 * For salvage.c, which reads the log, and salvage_slices.c, which reads far jobs: a salvage under
 * way.
 */
#ifndef LATERD_STORE_SALVAGE_PARTS_H
#define LATERD_STORE_SALVAGE_PARTS_H

#include "store/recovery/aside.h"
#include "store/recovery/damage.h"
#include "store/recovery/salvage.h"
#include "store/recovery/slice_survey.h"
#include "store/recovery/strays.h"

struct salvage {
    struct disk *disk;
    bool locked;
    struct salvage_callbacks *callbacks;
    struct directory directory;
    size_t first_segment; /* index in directory.found; those before were cleaned */
    struct damage damage;
    struct slice_liveness_set liveness; /* of slices, by the log's intact batches */
    struct salvage_counts counts;
    bool begin_lost;  /* the log's first segments are missing */
    bool has_history; /* the log's intact batches have history entries */
    uint32_t told;    /* the last slice of which it was said that all are taken */
    uint32_t opaque;  /* the last slice that count_unknown() counted */
    uint64_t seq_mark;
    uint64_t lease_max; /* of the intact batches */
    int64_t clock_max_us;
    uint64_t done_bytes, all_bytes, reported_bytes;
    struct disk_file *file; /* of the last body that was read, … */
    uint32_t file_number;   /* … and its segment; 0: none */
    struct aside aside;
    struct strays strays;
    bool lacks_liveness;  /* may_lack_liveness() */
    uint64_t far_seq_end; /* behind the numbers of all far jobs that are in their places */
};

void salvage_print(struct salvage *salvage, const char *line);
/* Reports and counts a file that is missing or damaged. */
void salvage_report_fault(struct salvage *salvage, const char *file, const char *fault);
/* Reports a job that was found at any offset of a damaged block, and is left out. */
void salvage_report_unbelieved(struct salvage *salvage, uint64_t seq);

/* damage_reader::region of a reading for slices or history alone. What a damaged region said of
   them is lost: a job twice is better than a lost job. */
enum err salvage_skip_region(void *ctx, struct region *region);

/* ---- salvage_slices.c ---- */

/* Replays the far jobs, before the log, because that has the later changes of them. After
   damage_survey(). */
enum err salvage_replay_slices(struct salvage *salvage);

#endif
