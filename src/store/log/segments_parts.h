/*
 * What the segments' three files share: segments.c knows which there are, segments_make.c makes
 * their files, segments_files.c opens and reads them. Nobody else includes this.
 */
#ifndef LATERD_STORE_SEGMENTS_PARTS_H
#define LATERD_STORE_SEGMENTS_PARTS_H

#include "store/internal.h"

/* A slice in segments::slices. Its number is beside the pointer, so that a search reads nothing
 * else. */
struct numbered_slice {
    uint32_t number;
    struct segment *segment;
};

struct segments {
    struct store *store;
    const struct store_options *options;
    struct disk *disk;
    struct list log;               /* segment::link; by batch_first; the last takes new batches */
    struct list spares;            /* segment::link; by number */
    struct segment **by_number;    /* [number - number_base]; NULL: gone, or a slice's number */
    uint32_t number_base;          /* no segment of the log and no spare has a lower number */
    uint32_t number_next;          /* nor this one or a higher one */
    struct list open_files;        /* segment::open_link; the least recently used first */
    struct numbered_slice *slices; /* by number, slice_count of them */
    uint32_t slice_count, slice_cap;
    uint64_t slice_bytes;   /* of their files */
    uint64_t history_bytes; /* of history files */
    uint32_t spare_count, log_count, files_open;
    uint32_t making;     /* files that are being made */
    uint64_t spare_room; /* of the spares whose files are there, without their headers */
    uint32_t damaged;    /* segments of the log, … */
    uint32_t set_aside;  /* … and those that were set aside */
    uint64_t reused;     /* files that became spares since the start */
    uint64_t disk_bytes; /* of all segments' files, made or being made */
    uint64_t live_bytes, live_jobs, slice_log_bytes;
    uint64_t copies_max;   /* the most of segments_copies() of all, or more, … */
    bool copies_less;      /* … because some died: see watch() */
    enum err full;         /* OK, ERR_DISK_FULL or ERR_DISK_LIMIT */
    bool too_large;        /* ERR_DISK_FULL: by the limit of a file's size, not by the disk */
    bool bulk;             /* see segments_in_bulk() */
    bool starved;          /* no descriptor was free for a new segment's file */
    int64_t retry_at_us;   /* full or starved: when to ask again */
    uint64_t free_bytes;   /* what the disk said it has, in this turn; UINT64_MAX: was not asked */
    uint64_t wanted_bytes; /* full: the cleaner needs a spare of this size to go on; 0: none */
};

static inline struct segment *segment_of_link(struct list *link)
{
    return LIST_ENTRY(link, struct segment, link);
}

/* ---- segments.c ---- */

/* A new one in the table, STALLED and in no list. */
struct segment *segments_add(struct segments *segments, uint32_t number, uint64_t size_bytes);

#endif
