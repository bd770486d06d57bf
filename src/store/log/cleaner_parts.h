/*
 * What the two files of the cleaner share: cleaner.c cleans the oldest segment, cleaner_worth.c
 * says when that is worth it. Nobody else includes this.
 */
#ifndef LATERD_STORE_CLEANER_PARTS_H
#define LATERD_STORE_CLEANER_PARTS_H

#include "store/internal.h"
#include "store/record.h"
#include "store/recovery/scan.h"
#include "store/slices/spill.h"

enum {
    CLEANER_TURN_BYTES = 256 * 1024, /* read in one turn */
};

enum clean_step {
    CLEAN_IDLE,
    CLEAN_WALK,     /* relocating the live jobs of the oldest segment */
    CLEAN_SPILL,    /* far jobs go to slices */
    CLEAN_UNREAD,   /* relocating those whose records cannot be read */
    CLEAN_MOVES,    /* the same for changes of jobs whose records lie in slices */
    CLEAN_SLICES,   /* telling again what was told of slices */
    CLEAN_REST,     /* relocating what has no place of its own */
    CLEAN_DURABLE,  /* waiting for the batch with the last of them */
    CLEAN_MANIFEST, /* waiting for the manifest that no longer names it */
    CLEAN_REMOVE,   /* waiting for the file to go */
};

struct cleaner {
    struct store *store;
    const struct store_options *options;
    struct disk *disk;
    struct segments *segments;
    struct log *log;
    enum clean_step step;
    struct segment *segment; /* the oldest, or NULL: idle */
    uint64_t offset;         /* CLEAN_WALK: the batch being relocated, or the next */
    uint64_t batch_next;     /* its number */
    const char *batch;       /* it, in the scan's window; NULL: not read yet … */
    struct batch_walk walk;  /* … and its records that are still to be relocated */
    bool seeking;            /* the batch at `offset` is damaged: looking for the next good one */
    unsigned tries;          /* how often it could not be read … */
    int64_t retry_at_us;     /* … and when it is tried again */
    struct disk_file *fresh; /* the same segment past the page cache, while retrying */
    bool reading;            /* the disk's threads bring the scan's window … */
    struct disk_op read;     /* … and say of it, … */
    enum err read_err;       /* … when it failed, why */
    uint64_t lost_jobs;      /* so many had no body that can be read */
    uint32_t cursor;         /* CLEAN_UNREAD, CLEAN_MOVES, CLEAN_REST */
    uint64_t batch_last;     /* CLEAN_DURABLE: wait for this one */
    uint64_t round_end;      /* full: batches before this are of the round under way … */
    uint64_t round_dead;     /* … and when it was over, so many bytes were still not alive */
    bool round_over;
    struct spill *spill;
    bool walks_on;            /* CLEAN_SPILL: the walk is to go on where it is */
    bool left;                /* a run has gone since the walk began: jobs may have stayed */
    bool spilled;             /* far jobs of the segment have gone, or cannot: none is offered */
    uint64_t checkpoint_from; /* bytes written: below, the log is not cleaned for far jobs' sake */
    uint64_t copied_from;     /* needed bytes of the segment when its cleaning began */
    uint64_t wait_times; /* the next is waited for so many times as long; 0: none was cleaned */
    uint64_t idle_end;   /* batches up to this one may go for far jobs' sake all the same, … */
    uint64_t idle_bytes; /* … up to a later one when so many bytes have come, … */
    int64_t idle_us;     /* … a segment at this time, at the earliest */
    bool opened;         /* they are those of this log */
    uint64_t appended;   /* cleaner_bytes_appended() of the last turn … */
    uint64_t
        behind_bytes; /* … and what has come since the log was too large, in bytes gone through */
    int64_t allowed_us;     /* no step but the first of the next turn begins later than this */
    struct clean_work work; /* of a step, … */
    struct clean_work turn; /* … of all steps of the last turn that had one, … */
    uint64_t segment_jobs;  /* … and of all steps of this segment */
    struct scan scan;
    struct disk_op remove;
    uint32_t reuse_number; /* DISK_REUSE: that of the spare which the file becomes … */
    char *spare_head;      /* … and its header, BLOCK bytes */
    char aside_name[DISK_NAME_MAX];
    uint64_t checkpoints, relocated_jobs;
};

/* ---- cleaner_worth.c ---- */

/*
 * Is cleaning the oldest segment worth it? As long as the log is larger than twice what is needed,
 * a pass over all of it writes at most as much as it frees. So does cleaning one without live jobs,
 * unless it is full of what is told of slices.
 */
bool cleaner_worth_it(struct cleaner *cleaner, const struct segment *oldest);
/* Is there a quarter more to clean than should be? */
bool cleaner_is_behind(const struct cleaner *cleaner);
/* When an idle store has something to clean. */
int64_t cleaner_idle_next_us(const struct cleaner *cleaner);
/*
 * May batches up to this one go? Followers keep them, up to a limit; on a full disk not at all,
 * because what is kept for them is refused to clients.
 */
bool cleaner_let_go(struct cleaner *cleaner, uint64_t batch);
/* Written, or to be written. */
uint64_t cleaner_bytes_appended(const struct cleaner *cleaner);
/* A segment was cleaned, and so many bytes of it were written again, so many left for slices: the
   next one is waited for how many times as long as it takes for as much that is new to come? */
uint64_t cleaner_wait_times(const struct cleaner *cleaner, uint64_t copied_bytes,
                            uint64_t departed_bytes);

#endif
