/*
 * Reading a store that cannot be opened: everything in it that is intact, past any damage. Nothing
 * is written. Used by `later salvage`.
 *
 * salvage_open(), then salvage_replay() tells of all events in log order, as recovery does; then
 * salvage_read() gives the bodies, and salvage_history() what happened to jobs.
 */
#ifndef LATERD_STORE_SALVAGE_H
#define LATERD_STORE_SALVAGE_H

#include "store/store.h"

struct salvage;

enum salvage_trust {
    SALVAGE_INTACT,
    /* From a damaged batch: its body is what the client sent, but its state, due time, name or
       topic may not be. MOVE: all of it may be wrong. */
    SALVAGE_DOUBTFUL,
    /* JOB: the same, and it was found among bytes that could not be taken apart: a client may have
       written them. It must not take the place of a job that lives: ERR_CORRUPT then. */
    SALVAGE_STRAY,
};

struct salvage_callbacks {
    /* An error ends the replay with it. The event's bytes are borrowed until it returns. */
    enum err (*replay)(struct salvage_callbacks *callbacks, const struct event *event,
                       enum salvage_trust trust);
    /* Before a batch's events: the time when they were logged, or 0 if that is not known. */
    void (*clock)(struct salvage_callbacks *callbacks, int64_t clock_us);
    /* salvage_history(): one thing that happened; borrowed. An error ends it with that. May be NULL
       if that is not called. */
    enum err (*happened)(struct salvage_callbacks *callbacks, const struct happening *happening);
    /* A line for people: what is damaged, lost or doubtful. */
    void (*print_line)(struct salvage_callbacks *callbacks, const char *line);
    /* Now and then: bytes read so far of all. May be NULL. */
    void (*progress)(struct salvage_callbacks *callbacks, uint64_t done_bytes, uint64_t all_bytes);
};

struct salvage_counts {
    uint64_t segments, batches;
    uint64_t damaged_batches;
    uint64_t bad_files;      /* files that are missing, damaged or cut; told one by one */
    uint64_t cut_files;      /* of these: segments that are shorter than they were made */
    uint64_t lost_jobs;      /* told one by one */
    uint64_t history;        /* things that happened, told so far */
    uint64_t opaque_regions; /* places of which nobody knows what was in them */
    uint64_t seq_first;      /* numbers from here on were never given to a job */
    uint64_t boot;           /* openings so far, or more: leases below it may have been given */
};

/*
 * `lock`: take the directory's lock; else nobody else may be using it. ERR_LOCKED, ERR_NOT_FOUND
 * (no store), ERR_UNSUPPORTED (a newer version wrote it), ERR_IO, ERR_CORRUPT (nothing of it is
 * known); out_error says more.
 */
enum err salvage_open(struct disk *disk, bool lock, struct salvage_callbacks *callbacks,
                      struct salvage **out_salvage, struct store_error *out_error) MUST_USE;
enum err salvage_replay(struct salvage *salvage) MUST_USE;
/* After that: what happened to jobs, of each id the oldest first, as far as it is intact in history
   files and in the log. What is damaged is told of, and counted among bad_files. Reads the log once
   or twice more if there is some. */
enum err salvage_history(struct salvage *salvage) MUST_USE;
void salvage_counts(const struct salvage *salvage, struct salvage_counts *out_counts);

struct salvage_body {
    struct event event; /* the job's: content type, body and properties are of use */
    bool aside; /* from a segment that was set aside: it may be one that was replaced later */
};

/*
 * A job's content type, body and properties, into the arena: from the place that its event told, or
 * from a segment that was set aside. ERR_DAMAGED: they are lost.
 */
enum err salvage_read(struct salvage *salvage, uint64_t seq, uint64_t where, struct arena *arena,
                      struct salvage_body *out_body) MUST_USE;

/* The note of an attempt at job `seq`, from the place that its event told. Its bytes are in the
   arena. ERR_DAMAGED: it is lost. */
enum err salvage_read_note(struct salvage *salvage, uint64_t seq, uint64_t where,
                           struct arena *arena, struct event *out_event) MUST_USE;

void salvage_close(struct salvage *salvage); /* NULL does nothing */

#endif
