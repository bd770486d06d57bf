/*
 * Figures of an open store, for metrics and the log.
 */
#ifndef LATERD_STORE_STATS_H
#define LATERD_STORE_STATS_H

#include "store/store.h"

enum { SYNC_BUCKETS = 24 }; /* bucket b counts syncs that took below 2^b * 16 µs */

struct store_stats {
    uint64_t segments, disk_bytes, live_bytes;
    uint64_t live_jobs;                   /* and notes of jobs, and topics' settings */
    uint64_t segment_first, segment_tail; /* numbers of the oldest segment and of the last one */
    uint64_t segment_bytes;               /* of one segment at most */
    uint64_t segments_reused;             /* files of segments that became spares, since opening */
    uint64_t batches, bytes_written, records;
    uint64_t syncs, sync_us_sum;
    uint64_t sync_us[SYNC_BUCKETS];
    uint64_t checkpoints, relocated_jobs;
    uint64_t cold_reads;       /* bodies that were not in memory */
    uint64_t damaged_segments; /* in the log, or set aside under another name */
    uint64_t recovered_events, dropped_tail_bytes;
    uint64_t followers, followers_dropped; /* dropped: since opening */
    /* Of the follower that is furthest behind: what it has not acknowledged, in whole segments. */
    uint64_t follower_lag_batches, follower_lag_bytes;
    int64_t recovery_us;                /* how long store_open took */
    uint64_t slices, slice_bytes;       /* files of far jobs */
    uint64_t slice_jobs;                /* of live_jobs: their records lie in slices */
    uint64_t spilled_jobs, loaded_jobs; /* since opening: moved to slices, brought back to memory */
    bool far_image;                     /* the opening has used an image of the index */
    bool far_waits;                     /* store_far_waits(): … */
    uint64_t far_late_jobs;             /* … and about how many of those are due already */
    uint64_t emptied_slices; /* mostly dead slices whose rest was moved back to the log */
    bool keeps_history;
    uint64_t history_files, history_bytes;
    uint64_t history_entries,
        history_table_bytes;   /* in files and in memory; bytes of those in memory */
    uint64_t history_lost;     /* entries, since opening: the disk was full */
    int64_t history_oldest_us; /* of the files' entries; 0: there is none */
};
void store_stats(const struct store *store, struct store_stats *out_stats);

#endif
