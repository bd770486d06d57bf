/*
 * A survey of damage in a log: which parts are damaged, what they contained as far as that can be
 * determined, and whether anything that lives depends on them. Recovery uses it to decide whether
 * the store may open; salvage uses it to find what can still be recovered.
 *
 * A region is a part of the log where a good batch should be and is not. Its bytes are parsed as
 * batches and records anyway. These records are suspects: their bodies have checksums, but no other
 * field is protected. Each suspect is compared with the records of good batches. A job's record is
 * dead if a later good record names its place and length as what it ended or replaced. An end is
 * proven if the record that it names exists, with the same number and length. A region is harmless
 * if it can be parsed completely and none of its records matters: then replaying the log without it
 * gives the same state.
 *
 * In a file that was used again, jobs of the earlier segment lie behind the last batch. If that is
 * damaged, a job behind its records (or its first block, if that is lost) counts as dead unless it
 * is proven, or its number is higher than all in good batches before: then it was pushed after that
 * segment had left the log.
 *
 * A single damaged byte cannot make a suspect look harmless, because it cannot change two fields so
 * that they match another record. Only a change of state (MOVE) cannot be compared with anything;
 * it counts as harmless only if the damage was located elsewhere in the region. What happened to
 * jobs (HISTORY records) matters to none of them: if it can be decoded, it is stepped over.
 *
 * Waits for the disk.
 */
#ifndef LATERD_STORE_DAMAGE_H
#define LATERD_STORE_DAMAGE_H

#include "store/log/segments.h"
#include "store/record.h"
#include "store/recovery/directory.h"
#include "store/recovery/walker.h"

struct region {
    uint32_t number;     /* of the segment */
    uint64_t start, end; /* bytes of the file; equal: the segment that had the batches is missing */
    uint64_t batch_first, batch_last; /* the batches that should be there */
    bool opaque;                      /* it cannot be read, or not parsed completely */
    bool mixed;                       /* bytes of an earlier segment may be in it, … */
    uint64_t own_end;                 /* … but not before this offset of the file */
    uint64_t seq_before;              /* the highest number of a job in good batches before it */
    bool located;                     /* the damage was found, in a place where it does no harm */
    bool harmless;
    char *bytes;                       /* as read; what cannot be read is zeros */
    size_t first_suspect, suspect_end; /* damage::suspects */
};

/* A record of a damaged batch. */
struct suspect {
    uint32_t region;
    enum event_kind kind;
    uint64_t seq;
    uint64_t where; /* its place */
    const char *at; /* its bytes, in region::bytes */
    size_t len;
    struct stored died; /* the record that it claims to end or replace; MOVE: its job's record */
    uint64_t died_seq;  /* with `proven`: that job's number */
    bool body_good;     /* JOB: content type, body and seq match their checksum; NOTE, SETTINGS: the
                           whole record does */
    bool body_damaged;  /* JOB: they do not match, and were not invalidated on purpose either */
    bool dead;          /* JOB: it was ended or replaced later, or is an earlier segment's */
    bool proven;        /* the record that `died` names exists as it says */
    bool superseded;    /* a later record repeats everything that it says */
    bool known_before;  /* the log has an earlier record of a job with that number or id */
    bool seq_known;     /* the log has an earlier record of a job with that number */
    bool harmless;
};

struct suspect_key {
    uint64_t key;
    uint32_t suspect;
};

/* A sorted array of suspects by a key; several may have the same key. */
struct suspect_index {
    struct suspect_key *at;
    size_t count;
};

enum { DAMAGE_BATCHES_ROOM = 64 };

struct damage {
    struct disk *disk;
    uint32_t tag;
    const struct directory *directory; /* borrowed */
    const struct found *segments;      /* of the log, in order; the same */
    size_t segment_count;
    uint64_t proven;  /* batches up to this one were durable */
    uint64_t seq_max; /* of the good batches read so far */
    struct region *regions;
    size_t region_count;
    struct suspect *suspects;
    size_t suspect_count, suspect_cap;
    struct suspect_index by_place, by_died, by_seq, by_name; /* name: id, or topic's */
};

/* A batch with a valid checksum. */
struct good_batch {
    uint32_t number; /* of the segment */
    uint64_t offset;
    const struct batch_head *head;
    const char *at;
};

struct damage_reader {
    enum err (*batch)(void *ctx, const struct good_batch *batch);
    enum err (*region)(void *ctx, struct region *region); /* in its place among the batches */
    void *ctx;
};

/* Surveys the log, which it reads twice: the segments directory->found[first_segment] and up.
   ERR_AGAIN: no descriptor is free. */
enum err damage_survey(struct disk *disk, const struct directory *directory, size_t first_segment,
                       struct damage *out_damage) MUST_USE;
void damage_fini(struct damage *damage);

/* The region that begins at this offset of segment `number`, or NULL. */
struct region *damage_region(const struct damage *damage, uint32_t number, uint64_t offset);
/* Is the place of a record in a region? */
bool damage_covers(const struct damage *damage, uint64_t where);
/* Reads the log again, in order: its good batches and its regions. */
enum err damage_read(struct damage *damage, const struct damage_reader *reader) MUST_USE;
/* Writes "batch 7" or "batches 7 to 9" into `room` and returns it. */
const char *damage_batches(uint64_t first, uint64_t last, char room[static DAMAGE_BATCHES_ROOM]);
/* Writes a line for the operator: what the suspect is, and what may have happened to it. */
void damage_describe(const struct suspect *suspect, char *out_line, size_t room);

#endif
