/*
 * A new store that is only written, for later salvage: made in an empty directory, filled, closed,
 * and read again. Until it is closed the directory has a MANIFEST_UNFINISHED_NAME: first a mark
 * that is written before anything else, then the manifest, by that name. So laterd refuses to start
 * on what a salvage has left that was interrupted: it would serve a part of the jobs, or none.
 */
#ifndef LATERD_CLI_SALVAGE_TARGET_H
#define LATERD_CLI_SALVAGE_TARGET_H

#include "store/store.h"
#include "store/verify.h"

struct salvage_target {
    struct disk *disk;
    struct store_callbacks callbacks;
    struct store *store;
    uint64_t seq_first;
    size_t pending;          /* bytes appended since the disk last got some */
    int64_t now_us;          /* when it was opened */
    uint64_t history_given;  /* by salvage_target_history() … */
    uint64_t history_logged; /* … those of them that the log had room for … */
    uint64_t history_kept;   /* … and, after salvage_target_close(), that are in the store */
    bool failed;
    int sys_errno; /* failed: why */
};

struct salvage_start {
    struct disk *disk; /* borrowed until the target is closed; its directory is empty */
    uint64_t boot;     /* openings of the old store */
    uint64_t seq_first;
    int64_t now_us;
};

/* Creates the store. ERR_LOCKED, ERR_IO, ERR_DISK_FULL; out_error says more. */
enum err salvage_target_open(struct salvage_target *target, const struct salvage_start *start,
                             struct store_error *out_error) MUST_USE;

/* Waits until so many bytes can be appended. ERR_DISK_FULL, ERR_STORE_FAILED. */
enum err salvage_target_room(struct salvage_target *target, size_t bytes, int64_t now_us) MUST_USE;
struct stored salvage_target_append(struct salvage_target *target, const struct event *event);

/*
 * Keeps what happened to a job, behind all jobs: it is left out, and no error, if there is no room
 * for it. ERR_STORE_FAILED.
 */
enum err salvage_target_history(struct salvage_target *target, const struct happening *happening,
                                int64_t now_us) MUST_USE;

/* Closes a store that is not whole, and will not be. */
void salvage_target_abandon(struct salvage_target *target);

/*
 * Writes the rest and closes the store; then reads every byte of it. OK: it is intact and holds
 * `jobs` jobs. ERR_STORE_FAILED: a write failed. ERR_CORRUPT: it does not hold them; `say` got the
 * reason.
 */
enum err salvage_target_close(struct salvage_target *target, uint64_t jobs,
                              const struct store_watcher *watcher) MUST_USE;

#endif
