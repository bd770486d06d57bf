/*
 * For `later salvage`: reads everything that is intact from a store that cannot be opened. Waits
 * for the disk; writes nothing.
 *
 * Call salvage_open(), then salvage_replay(), which passes all events to the callbacks in log
 * order, as recovery does. After that salvage_read() returns the jobs' bodies, and
 * salvage_history() the history.
 */
#ifndef LATERD_STORE_SALVAGE_H
#define LATERD_STORE_SALVAGE_H

#include "base/arena.h"
#include "store/store.h"

struct salvage;

enum salvage_trust {
    SALVAGE_INTACT,
    /* From a damaged batch: the body has a valid checksum, but state, due time, name or topic may
       be wrong. MOVE: everything may be wrong. */
    SALVAGE_DOUBTFUL,
    /* JOB: as DOUBTFUL, and it was found in bytes that cannot be parsed, which may be a body that a
       client wrote. It must not replace a live job: return ERR_CORRUPT then. */
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
    /* After each 16 MiB: bytes of the log read so far, of all. May be NULL. */
    void (*progress)(struct salvage_callbacks *callbacks, uint64_t done_bytes, uint64_t all_bytes);
};

struct salvage_counts {
    uint64_t segments, batches;
    uint64_t damaged_batches;
    uint64_t bad_files;      /* missing, damaged or truncated files; each was reported */
    uint64_t cut_files;      /* of these: truncated segments */
    uint64_t lost_jobs;      /* each was reported */
    uint64_t history;        /* entries of the history passed to `happened` so far */
    uint64_t opaque_regions; /* damaged regions whose contents are unknown */
    uint64_t seq_first;      /* numbers from here on were never given to a job */
    uint64_t boot;           /* an upper bound of the openings so far; leases depend on it */
};

/*
 * `lock`: takes the directory's lock; otherwise the caller ensures that nobody uses the store.
 * ERR_LOCKED, ERR_NOT_FOUND (no store), ERR_UNSUPPORTED (a newer version wrote it), ERR_IO,
 * ERR_CORRUPT (manifest and all segments' headers are damaged); out_error says more. O(files); a
 * segment with a damaged header is read.
 */
enum err salvage_open(struct disk *disk, bool lock, struct salvage_callbacks *callbacks,
                      struct salvage **out_salvage, struct store_error *out_error) MUST_USE;
/* Once. Reads the log three or four times. An error of callbacks->replay; ERR_AGAIN (no descriptor
   is free). */
enum err salvage_replay(struct salvage *salvage) MUST_USE;
/* After salvage_replay(): passes the intact entries of the history, from files and from the log, to
   `happened`; those of one id oldest first. Reports damaged files and counts them in bad_files.
   Reads the log once or twice more if there is a history. */
enum err salvage_history(struct salvage *salvage) MUST_USE;
/* After salvage_replay(). O(1). */
void salvage_counts(const struct salvage *salvage, struct salvage_counts *out_counts);

struct salvage_body {
    struct event event; /* the job's; only content type, body and properties are valid */
    bool aside; /* from a segment that was set aside: the job may have been replaced later */
};

/*
 * Reads a job's content type, body and properties into the arena, from `where`, the place in its
 * event, or from a segment that was set aside. ERR_DAMAGED: they are lost.
 */
enum err salvage_read(struct salvage *salvage, uint64_t seq, uint64_t where, struct arena *arena,
                      struct salvage_body *out_body) MUST_USE;

/* Reads the note of an attempt at job `seq` from `where`, the place in its event, into the arena.
   ERR_DAMAGED: it is lost. */
enum err salvage_read_note(struct salvage *salvage, uint64_t seq, uint64_t where,
                           struct arena *arena, struct event *out_event) MUST_USE;

/* Names the file that salvage_read() reads for a place, and the offset in it. O(segments). */
void salvage_place(const struct salvage *salvage, uint64_t where, char name[DISK_NAME_MAX],
                   uint64_t *out_offset);

void salvage_close(struct salvage *salvage); /* NULL does nothing */

#endif
