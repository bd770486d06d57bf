/*
 * Which places of a log are damaged, what they held as far as can be told, and whether anything
 * that lives depends on it. Recovery asks whether it may go on; salvage asks what can still be had.
 *
 * Where a good batch should be and is not, there is a region. Its bytes are read as batches and
 * records all the same: those records are suspects, because none of their fields is protected but
 * the bodies. Each is compared with what good batches say: a job's record is dead if a later good
 * record names its place and length as what it ended or replaced; an end is proven if the record
 * that it names is there, with the same number and length. A region is harmless if it can be taken
 * apart without a rest and all of it is of no consequence: then a log without it says the same.
 *
 * One damaged byte never makes a suspect look harmless that is not: it cannot change two fields so
 * that they agree with another record. Only a change of state (MOVE) has nothing to compare it
 * with; it counts as harmless only where the damage has been found elsewhere in the region.
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
    bool opaque;                      /* it cannot be read, or taken apart without a rest */
    bool located;                     /* damage was found in it where it does no harm */
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
    struct stored died; /* what it says that it ended or replaced; MOVE: its job's record */
    uint64_t died_seq;  /* proven: that job's number */
    bool body_good;     /* JOB: content type and body are what the client sent, and so is seq;
                           NOTE, SETTINGS: all of it is */
    bool body_hurt;     /* JOB: they are not, and were not spoiled on purpose either */
    bool dead;          /* JOB: it was ended or replaced later */
    bool proven;        /* `died` is just what it says */
    bool superseded;    /* a later record repeats all that it says */
    bool known_before;  /* the log has an earlier record of a job of that number, or id */
    bool seq_known;     /* the same, of that number */
    bool harmless;
};

struct suspect_key {
    uint64_t key;
    uint32_t suspect;
};

/* Suspects by a key; several may have the same. */
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
    uint64_t proven; /* batches up to this one were durable */
    struct region *regions;
    size_t region_count;
    struct suspect *suspects;
    size_t suspect_count, suspect_cap;
    struct suspect_index by_place, by_died, by_seq, by_name; /* name: id, or topic's */
};

/* A batch that is as it was written. */
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

/* Reads the log twice. `segments` are those that the manifest does not call dead. ERR_AGAIN. */
enum err damage_survey(struct disk *disk, const struct directory *directory, size_t first_segment,
                       struct damage *out_damage) MUST_USE;
void damage_fini(struct damage *damage);

/* The region that begins there, or NULL. */
struct region *damage_region(const struct damage *damage, uint32_t number, uint64_t offset);
/* Is the place in a region? */
bool damage_covers(const struct damage *damage, uint64_t where);
/* Reads the log again, in order: its good batches and its regions. */
enum err damage_read(struct damage *damage, const struct damage_reader *reader) MUST_USE;
/* "batch 7" or "batches 7 to 9", into the room. */
const char *damage_batches(uint64_t first, uint64_t last, char room[static DAMAGE_BATCHES_ROOM]);
/* One line for people: what the suspect is, and what may have become of it. */
void damage_describe(const struct suspect *suspect, char *out_line, size_t room);

#endif
