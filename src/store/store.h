/*
 * The embedded store: an append-only log of the core's events, cut into segments, with group
 * commit, checkpoints and recovery. docs/disk-format.md has every byte.
 *
 * How it is used in a turn: append() as the core emits; at the turn's end store_turn(), which
 * hands the open batch to the disk if none is under way; when a batch is durable,
 * callbacks->durable(). One thread; the disk's own threads are behind port/disk.h.
 *
 * Invariants
 * S1 Batches are numbered 1, 2, 3 … without a gap over the life of the store.
 * S2 One batch is under way at a time; a batch says which number was durable when it was sealed.
 * S3 No write ever touches a block that holds an earlier batch.
 * S4 A segment is removed only after all its live jobs are durable elsewhere and the manifest
 *    that no longer names it is durable. If bodies in it could not be read it is renamed instead.
 * S5 After a write or sync failed nothing becomes durable any more: store_failed() stays true.
 */
#ifndef LATERD_STORE_STORE_H
#define LATERD_STORE_STORE_H

#include "base/discard.h"
#include "port/disk.h"
#include "store/callbacks.h"

struct store;

struct store_options {
    struct disk *disk;
    uint64_t segment_bytes; /* of one segment: 256 KiB … 1 GiB, a multiple of DISK_ALIGN */
    uint64_t max_bytes;     /* all files together; 0 = as much as the file system has */
    uint64_t recent_bytes; /* memory for recently written batches, whose bodies are read without the
                              disk */
    bool buffered;         /* write now, sync later: durability interval or os */
    int64_t interval_us;   /* buffered: sync this often; 0 = leave it to the system */
    int64_t inline_us;     /* commits are made in the turn while they take less than half of this;
                              after a slower one the disk's thread makes the next four; 0 = never in
                              the turn */
    uint64_t follower_bytes; /* bytes of the log above which segments are no longer kept for
                                followers; 0 = 1 GiB */
    uint32_t files_max;      /* segments' files kept open, at least 4; 0 = 64 */
    uint32_t body_max;       /* bytes of the largest body that clients may send */
    int64_t now_us;          /* the time of the opening, since the epoch */
    uint64_t id_seed;        /* for the simulator: seed of a new store's id; 0 = random */
    uint64_t epoch; /* the epoch of the leader, which rises with each election; 0 = there are no
                       elections */
    uint64_t boot_first; /* for salvage: a new store counts as opened this often already */
    /*
     * Jobs that are due further ahead than this may move from the log to slices when it is cleaned;
     * 0 = none may. They come back to memory when they are due in half of this time. A log larger
     * than `checkpoint_bytes` is cleaned in order to move such jobs; 0 = 256 MiB.
     */
    int64_t horizon_us;
    uint64_t checkpoint_bytes;
    /* With a horizon: of ready, and of buried jobs that have changed since their records in slices
       were written no more than this, about, stay in memory (callbacks->relocate_changed). */
    uint64_t ready_in_memory, buried_in_memory;
    /* The same of jobs that were put off until far beyond the horizon; 0 = 10,000. */
    uint64_t put_off_in_memory;
    int64_t history_us;   /* the history of jobs is kept this long; 0 = there is none */
    uint64_t spill_bytes; /* bytes that a run of far jobs for a slice may have, even if memory is
                             short; 0 = 4 MiB */
    uint32_t slices_few;  /* with more slices than this, no small ones are made; 0 = 64 */
    uint64_t image_jobs;  /* a clean close with this many far jobs or more leaves an image of their
                             index; 0 = 65,536 */
    int64_t image_us;     /* writing it may take this long; 0 = 20 seconds */
    /* New segments are not filled with zeros while a sync writes this many bytes or more; 0 = 48
       KiB. */
    uint64_t bulk_bytes;
    /* A small commit into a segment without zeros writes this many zeros behind itself; a multiple
       of DISK_ALIGN, at most DISK_ZEROS_MAX; 0 = DISK_ZEROS_MAX. */
    uint64_t zeros_bytes;
    /* A batch has no more bytes than this, unless one record has; the log takes over the memory of
       larger bodies (decision 0146). Less in tests; 0 = BATCH_FULL. */
    uint64_t batch_full;
    struct discard *discard; /* frees large memory in pieces; NULL: it is freed at once */
    bool never_reuses;       /* the file of a segment that has left the log is removed */
    bool never_cleans;       /* never free a segment: for callers that cannot relocate */
    bool unfinished; /* opens though a salvage into the directory is not complete: it is ours */
};

/*
 * Opens the store in the disk's directory, or creates it: takes the lock, replays every event,
 * makes the tail durable. ERR_LOCKED, ERR_IO, ERR_DISK_FULL, ERR_UNSUPPORTED (written by a newer
 * version), ERR_AGAIN (no descriptor is free), ERR_CORRUPT (acknowledged data is damaged; it is
 * never dropped silently). Damage that affects nothing that lives is only a notice in out_error.
 */
enum err store_open(const struct store_options *options, struct store_callbacks *callbacks,
                    struct store **out_store, struct store_error *out_error) MUST_USE;

/*
 * The epoch of the latest opening of the store in the disk's directory; 0: it had none, or there is
 * no store. Takes no lock and changes nothing. Errors as store_open().
 */
enum err store_last_epoch(struct disk *disk, uint64_t *out_epoch) MUST_USE;

/*
 * How many descriptors a store opens at most, including its directory and lock; a server must limit
 * its connections accordingly. If none is free, nothing fails: operations that need one are tried
 * again.
 */
unsigned store_descriptors(uint32_t files_max);

/* Writes the open batch, marks the log as cleanly closed, waits for the disk, releases the lock. */
void store_close(struct store *store);

/* As of opening: the first numbers that were never given. */
uint64_t store_seq_first(const struct store *store);
uint64_t store_lease_first(const struct store *store);
/* The store's identity, 16 bytes, made when it was created; borrowed. */
const uint8_t *store_identity(const struct store *store);

/*
 * Is there room for a job with this many bytes (id, content type, body, properties), and for ending
 * it later? ERR_STORE_FAILED, ERR_DISK_FULL, ERR_DISK_LIMIT, ERR_AGAIN (the disk is far behind).
 * O(1).
 */
enum err store_admit(const struct store *store, size_t payload_bytes) MUST_USE;

/*
 * Appends an event to the open batch, and returns the place of its record, if it has one. Pushes
 * only after store_admit(); other events always have room. O(its bytes).
 */
struct stored store_append(struct store *store, const struct event *event);
/* The record at this place died without an event: event_sink::died. */
void store_died(struct store *store, struct stored record);
/* The core's next server-made number, kept as a high-water mark. */
void store_seq_note(struct store *store, uint64_t seq_next);
/*
 * Something happened at `at_us` that no event records (a job became due): within 0.1 s a batch with
 * this time or later is written, an empty one if necessary, but at most one such batch a second,
 * and none while the disk is full.
 */
void store_clock_note(struct store *store, int64_t at_us);
/* The core's next lease. Call it once a turn, and before store_close(). */
void store_lease_note(struct store *store, uint64_t lease_next);

/* The batch of the last event appended. */
uint64_t store_batch(const struct store *store);
/* The batch that an answer must wait for so that all promised events so far are durable. */
uint64_t store_promised(const struct store *store);
/* The last batch that is as durable as options.buffered asks for, and the last that is synced. */
uint64_t store_durable(const struct store *store);
uint64_t store_synced(const struct store *store);
/* Buffered: syncs everything appended so far as soon as possible, then calls
   callbacks->synced(). */
void store_want_sync(struct store *store);

/*
 * The end of a turn: seals and writes the open batch if it is due (promised events, or old enough,
 * or large) and none is under way; does bounded checkpoint work.
 */
void store_turn(struct store *store, int64_t now_us);
/* Consumers now wait (or no longer wait) for jobs that become due. While they do, the turn makes
   only small commits itself. */
void store_latency_first(struct store *store, bool latency_first);
/* When store_turn() is to be called next; or INT64_MAX. */
int64_t store_next_us(const struct store *store);
/* How long the next store_turn() cleans the log at most, in microseconds, besides one step: up to 2
   ms. */
int64_t store_cleaning_us(const struct store *store);
void store_poll(struct store *store); /* handles disk operations that have ended */

/* Has a write or sync failed (S5)? */
bool store_failed(const struct store *store);
bool store_full(const struct store *store); /* no new segments can be made, so pushes are refused */

/* Why store_full(), for the log. */
struct store_shortage {
    enum err err;   /* ERR_DISK_FULL, ERR_DISK_LIMIT; OK: it is not full */
    bool too_large; /* ERR_DISK_FULL: a file may not be so large: RLIMIT_FSIZE, or the disk's */
    uint64_t free_bytes;    /* the disk has so many now, … */
    uint64_t kept_bytes;    /* … and so many are kept free, on it or in spare segments */
    uint64_t segment_bytes; /* of which the latter is a multiple */
};
void store_shortage(const struct store *store, struct store_shortage *out_shortage);

/*
 * CHECKs the invariants of all parts, for tests and the simulator. O(segments + batches that wait
 * for the disk).
 */
void store_valid(const struct store *store);

#endif
