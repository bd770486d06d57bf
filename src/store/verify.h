/* What `later verify` does. */
#ifndef LATERD_STORE_VERIFY_H
#define LATERD_STORE_VERIFY_H

#include "port/disk.h"

/*
 * Reads every byte of a store that nobody has open, and calls print_line() for
 * each finding. OK: all could be read; out_counts->bad is the number of damaged places. Else the
 * store's root is damaged (ERR_CORRUPT), not readable, or not there (ERR_NOT_FOUND). If the log is
 * damaged, it is read up to three times more, to find out what was there. Waits for the disk.
 */
struct store_counts {
    uint64_t segments, batches, records, jobs, live_jobs, bytes, bad;
    uint64_t slices, slice_jobs; /* files of far jobs, and jobs in them, including ended ones */
    uint64_t history_files, history_entries;
    /* The damage concerns up to `hit_jobs` jobs that live, or may live (the record of a job's end
     * is damaged), and up to `hit_topics` settings or pauses of topics. For `unknown` places that
     * cannot be determined. All 0: nothing that lives is concerned, and the store can be opened. */
    uint64_t hit_jobs, hit_topics, unknown;
    uint64_t spares; /* of `bad`: files with nothing in them, which the next opening removes */
};
struct store_watcher {
    void (*print_line)(void *ctx, const char *line);
    /* After each 16 MiB: bytes read so far, of all. May be NULL. */
    void (*progress)(void *ctx, uint64_t done_bytes, uint64_t all_bytes);
    void *ctx;
};
enum err store_verify(struct disk *disk, const struct store_watcher *watcher,
                      struct store_counts *out_counts) MUST_USE;

#endif
