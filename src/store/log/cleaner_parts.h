/*
 * What the files of the cleaner share: cleaner.c cleans the oldest segment, cleaner_read.c reads
 * it, cleaner_worth.c says when that is worth it. Nobody else includes this, but tests.
 */
#ifndef LATERD_STORE_CLEANER_PARTS_H
#define LATERD_STORE_CLEANER_PARTS_H

#include "store/internal.h"
#include "store/record.h"
#include "store/recovery/scan.h"
#include "store/slices/spill.h"

enum {
    CLEANER_TURN_BYTES = 256 * 1024, /* read in one turn; SPILL_WINDOW where a read is a thread's
                                        wake-up and copies nothing: past the page cache */
};

enum clean_step {
    CLEAN_IDLE,
    CLEAN_WALK,     /* relocating the live jobs of the oldest segment */
    CLEAN_SPILL,    /* far jobs go to slices */
    CLEAN_UNREAD,   /* relocating jobs whose records cannot be read */
    CLEAN_MOVES,    /* the same for MOVEs of jobs whose records lie in slices */
    CLEAN_SLICES,   /* appending the SLICE records of the segment again */
    CLEAN_REST,     /* relocating what has no place of its own */
    CLEAN_DURABLE,  /* waiting for the batch with the last of them */
    CLEAN_MANIFEST, /* waiting for the manifest that no longer names it */
    CLEAN_REMOVE,   /* waiting for the file to go */
};

/* Reads the segment that is being cleaned, batch by batch. */
struct clean_reader {
    struct scan scan;        /* over its file; its window is there while CLEAN_WALK */
    uint64_t offset;         /* of the batch being relocated, or of the next */
    uint64_t batch_next;     /* its number */
    const char *batch;       /* it, in the scan's window; NULL: not read yet … */
    struct batch_walk walk;  /* … and its records that are still to be relocated */
    bool seeking;            /* the batch at `offset` is damaged: looking for the next good one */
    unsigned tries;          /* how often it could not be read … */
    int64_t retry_at_us;     /* … and when it is tried again */
    struct disk_file *fresh; /* the same segment past the page cache, while retrying */
    bool reading;            /* the disk's threads fill the scan's window … */
    struct disk_op read;     /* … by this operation, … */
    enum err read_err;       /* … which ended with this */
};

/* When the next segment is cleaned: cleaner_worth.c. */
struct clean_pace {
    uint64_t round_end;  /* disk full: the present round has the batches before this … */
    uint64_t round_dead; /* … and left this many dead bytes, once it was over */
    bool round_over;
    uint64_t checkpoint_from; /* bytes written; below this no cleaning just to move far jobs */
    uint64_t wait_times;      /* factor of the wait for the next segment; 0: none was cleaned yet */
    uint64_t idle_end;        /* idle rounds: the present one has the batches up to this, … */
    uint64_t idle_bytes;      /* … the next begins at this log_new_bytes(), … */
    int64_t idle_us;  /* … and the next segment is cleaned at this time, at the earliest */
    int64_t short_us; /* no round begins for want of memory before this time */
    bool opened;      /* idle_end and idle_bytes were set for this log */
};

struct cleaner {
    struct store *store;
    const struct store_options *options;
    struct disk *disk;
    struct segments *segments;
    struct log *log;
    struct spill *spill;
    struct clean_pace pace;
    uint64_t checkpoints, relocated_jobs; /* since opening */

    /* Of the segment being cleaned: */
    enum clean_step step;
    struct segment *segment; /* the oldest, or NULL: idle */
    struct clean_reader reader;
    uint32_t cursor;       /* CLEAN_UNREAD, CLEAN_MOVES, CLEAN_REST */
    bool walks_on;         /* CLEAN_SPILL: the walk continues afterwards at reader.offset */
    bool left;             /* jobs of a run may have stayed since the walk began */
    bool spilled;          /* no (more) jobs of it can go to slices */
    uint64_t lost_jobs;    /* jobs whose body cannot be read */
    uint64_t copied_from;  /* bytes needed of it when its cleaning began */
    uint64_t segment_jobs; /* jobs of all steps for it */
    uint64_t batch_last;   /* CLEAN_DURABLE: wait for this one */
    struct disk_op remove;
    char aside_name[DISK_NAME_MAX];
    uint32_t reuse_number; /* DISK_REUSE: that of the spare which the file becomes … */
    char *spare_head;      /* … and its header, BLOCK bytes */

    /* How much a turn may do: */
    uint64_t appended;      /* cleaner_bytes_appended() of the last turn */
    uint64_t behind_bytes;  /* the backlog since the log became too large, see count_behind() */
    int64_t allowed_us;     /* in the next turn only the first step may begin later than this */
    struct clean_work work; /* of the last step, … */
    struct clean_work turn; /* … of all steps of the last turn with any */
};

/* ---- cleaner_read.c ---- */

/* Begins to read at reader.offset: the scan gets its window. */
void cleaner_open_scan(struct cleaner *cleaner);
/* Its window may be used again: spill_keep_window(). */
void cleaner_close_scan(struct cleaner *cleaner);
void cleaner_read_fini(struct cleaner *cleaner); /* at the end, in whatever step it is */
/* Reads the next batch into the window, reader.batch. False: not yet, it is being read or will be
   tried again; call again in a later turn. After the last try reader.seeking is set. */
bool cleaner_read_batch(struct cleaner *cleaner);
/* While reader.seeking, tests one block: is there a good batch at reader.offset? False: the read
   has not ended yet, or must be repeated. `batch_end`: the number of the next segment's first
   batch. */
bool cleaner_seek_batch(struct cleaner *cleaner, uint64_t batch_end);

/* ---- cleaner_worth.c ---- */

/*
 * Is cleaning the oldest segment worth it? Yes while the log is larger than twice what is needed: a
 * pass over all of it then writes at most as much as it frees. Yes without live jobs, unless SLICE
 * records and MOVEs fill half of it.
 */
bool cleaner_worth_it(struct cleaner *cleaner, const struct segment *oldest);
/* Is the log more than a quarter larger than the limit of checkpoints? */
bool cleaner_is_behind(const struct cleaner *cleaner);
/* When an idle store has something to clean, in microseconds; INT64_MAX: never. */
int64_t cleaner_idle_next_us(const struct cleaner *cleaner);
/*
 * May batches up to this one be removed? Followers keep them, up to a limit. Beyond it, and on a
 * full disk, where clients need the room, those followers are dropped.
 */
bool cleaner_let_go(struct cleaner *cleaner, uint64_t batch);
/* Bytes of batches since opening, written or not yet. */
uint64_t cleaner_bytes_appended(const struct cleaner *cleaner);
/* A segment was cleaned: `copied_bytes` were appended again, `departed_bytes` went to slices. The
   next one is due when this many times `copied_bytes` of new records have been appended. */
uint64_t cleaner_wait_times(const struct cleaner *cleaner, uint64_t copied_bytes,
                            uint64_t departed_bytes);

#endif
