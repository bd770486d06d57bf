/*
 * What all parts of an open store share. Each part is a struct that only its own file knows; the
 * others reach it by its functions. Nobody outside this folder includes this.
 *
 *     log       batches on their way to the disk            log.h
 *     segments  the files that batches lie in               segments.h
 *     cleaner   checkpoints: frees the oldest segment       cleaner.h
 *     manifest  the root: what is true of all of it         manifest.h
 *     followers readers of the log that keep their place    follower.h
 *     bodies    reads of those that are not in memory       body_read.h
 *     slices    files of far jobs, sorted by due time       slices.h
 *     far reads reads of single records in those            far_read.h
 *     far pages the next jobs of a topic in those           far_page.h
 *     history   what happened to jobs, and its files        history.h
 */
#ifndef LATERD_STORE_INTERNAL_H
#define LATERD_STORE_INTERNAL_H

#include "store/body_read.h"
#include "store/follower.h"
#include "store/format.h"
#include "store/history/history.h"
#include "store/log/cleaner.h"
#include "store/log/log.h"
#include "store/log/manifest.h"
#include "store/log/segments.h"
#include "store/recovery/directory.h"
#include "store/slices/far_page.h"
#include "store/slices/far_read.h"
#include "store/slices/slices.h"
#include "store/store.h"

enum {
    FILES_OPEN_MAX = 64, /* segments' files kept open, if options do not say */
    FILES_OPEN_MIN = 4,  /* the last segment's, the next one's, a spare's, a reader's */
};

struct store {
    struct store_options options;
    struct disk *disk;
    struct store_callbacks *callbacks;
    struct store_id id;
    uint32_t tag;    /* of the id */
    uint64_t secret; /* of segment_key() */
    uint64_t boot;   /* openings, this one included */
    int64_t now_us;
    bool failed;  /* S5; set by store_fail(), and when opening or closing fails */
    bool closing; /* no new work is started */
    struct manifest_writer *manifest;
    struct segments *segments;
    struct log *log;
    struct cleaner *cleaner;
    struct followers *followers;
    struct body_reads *body_reads;
    struct slices *slices;
    struct far_reads *far_reads;
    struct far_pages *far_pages;
    struct history *history;
    uint64_t seq_first, lease_first;
    uint64_t distant_bytes; /* at opening: the log's records of jobs that could be far, dead too */
    uint64_t cold_reads, recovered_events, dropped_tail_bytes;
    int64_t recovery_us;
    struct store_opening opening; /* while it is being opened */
    uint64_t unreported_bytes;    /* read since callbacks->progress was called last */
};

/* After this nothing becomes durable any more (S5). Calls callbacks->failed once. */
void store_fail(struct store *store, int sys_errno);
/* Writes everything that was appended. False: there is no room for it, or the disk failed. */
bool store_drain(struct store *store);

/*
 * recover.c, during opening: so many bytes of store_opening::all_bytes were read; or, the second,
 * so many that are not among these (some are read twice), or what takes as long was done. Both call
 * callbacks->progress for each MiB, which takes some milliseconds, and return what that returns.
 */
enum err store_opening_read(struct store *store, uint64_t bytes) MUST_USE;
enum err store_opening_worked(struct store *store, uint64_t bytes) MUST_USE;

/* recover.c: finds where the log ends, replays it, makes its end durable, and begins all parts. */
enum err recover(struct store *store, struct store_error *out_error) MUST_USE;

#endif
