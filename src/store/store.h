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

#include "base/arena.h"
#include "base/list.h"
#include "core/event.h"
#include "port/disk.h"

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
    /* With a horizon: of buried jobs whose records lie in slices of other jobs no more than this,
       about, stay in memory (callbacks->relocate_buried). */
    uint64_t buried_in_memory;
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
    bool never_reuses; /* the file of a segment that has left the log is removed */
    bool never_cleans; /* never free a segment: for callers that cannot relocate */
};

/* Why a store could not be opened, for people. After OK the text is a notice, or empty. */
struct store_error {
    char file[DISK_NAME_MAX];
    uint64_t offset;
    char text[256]; /* what is wrong, what is lost, what to do */
};

/* Notices of the store, for the log. */
enum store_notice {
    STORE_UNREAD,    /* a read of the cleaner failed; it will be tried again */
    STORE_DAMAGED,   /* once for each segment: retrying does not help; cleaning skips what is
                        damaged */
    STORE_SET_ASIDE, /* the segment left the log and is kept under another name; jobs lost their
                        bodies */
    STORE_FAR_WAITS, /* far jobs whose due time is near wait for memory; at most once a minute */
    STORE_FOLLOWER_DROPPED, /* the log is no longer kept for this follower; `text` is its name */
};

enum { FAR_SOON_MAX = 16, FAR_PARTS = 98 };

/* Progress of store_open(). */
struct store_opening {
    bool indexes; /* false: the log is being replayed; true: that is done, and the indexes of slices
                     are being read */
    uint64_t done_bytes, all_bytes; /* of the log, or of the indexes */
};

struct store_callbacks {
    /* Set by store_open() before it calls any callback, so that they can call store_died() during
       replay. */
    struct store *store;
    /* Recovery: called for each event, in log order. An error ends store_open() with it. */
    enum err (*replay)(struct store_callbacks *callbacks, const struct event *event);
    /*
     * Recovery, a prefetch hint: an event of the job with this number, and id if there is one, will
     * come soon. Some events come without a hint, some hints without an event. May be NULL.
     */
    void (*prefetch)(struct store_callbacks *callbacks, const struct job_ref *ref);
    /*
     * Recovery, before the events of some batches: the clock when they were written; 0: not known.
     * May be NULL.
     */
    void (*clock)(struct store_callbacks *callbacks, int64_t clock_us);
    /* Recovery: called several times in each tenth of a second, unless the disk is slow. An error
       ends store_open() with it; the disk is then as a kill -9 would have left it. */
    enum err (*progress)(struct store_callbacks *callbacks, const struct store_opening *opening);
    /* Recovery: a line for each damaged part, before store_open() returns ERR_CORRUPT. */
    void (*finding)(struct store_callbacks *callbacks, const char *line);
    /* All batches up to this number are as durable as asked for. */
    void (*durable)(struct store_callbacks *callbacks, uint64_t batch);
    /* Buffered: all batches up to this number are on disk. */
    void (*synced)(struct store_callbacks *callbacks, uint64_t batch);
    /* A write or sync failed (S5); every waiting answer must be a failure now. */
    void (*failed)(struct store_callbacks *callbacks, int sys_errno);
    /*
     * Checkpoint: the segment with this event's record, at `where`, will be deleted. If it is still
     * the newest record of what it describes, append it again (core_relocate).
     */
    void (*relocate)(struct store_callbacks *callbacks, const struct event *event, uint64_t where);
    /*
     * Checkpoint: the records at places from `first` up to (not including) `end` cannot be read.
     * Append the jobs that live there again, without their bodies (core_relocate_unread), in
     * slices, from *cursor on, which is 0 at first. True: there is more.
     */
    bool (*relocate_unread)(struct store_callbacks *callbacks, uint64_t first, uint64_t end,
                            uint32_t *cursor);
    /*
     * Checkpoint: EVENT_MOVEs of jobs whose records lie in slices cannot be read. Append such an
     * event again for each job whose record is at a place for which store_move_unread() is true
     * (core_relocate_moves), in slices as above. NULL: there are no such jobs.
     */
    bool (*relocate_moves)(struct store_callbacks *callbacks, uint32_t *cursor);
    /*
     * Too many buried jobs are in memory, and this is one, whose record at `where` lies in a slice
     * of other jobs. If it may leave memory, append it again (core_relocate_buried): then cleaning
     * moves it to a slice of buried jobs. False: it must stay, and is not asked for again
     * until it changes. NULL: all stay.
     */
    bool (*relocate_buried)(struct store_callbacks *callbacks, const struct event *event,
                            uint64_t where);
    /* Checkpoint: append again what has no place of its own, and what else lives at those places
     * and need not be read (core_relocate_topics), in slices as above. */
    bool (*relocate_rest)(struct store_callbacks *callbacks, uint64_t first, uint64_t end,
                          uint32_t *cursor);
    /*
     * The next ones are for far jobs, whose records lie in slices and which the core need not have
     * in memory. `spill` NULL: no job becomes far. A store that has slices is not opened without
     * `arrive` and `replay_far`.
     *
     * Checkpoint: may the job of this event, whose record lies at `where`, become far? Only if that
     * is its newest record, and it is delayed until after `due_after_us`, or ready or buried and
     * beyond the number of such jobs kept in memory. True: `out_job` is the complete present state
     * of the job, its bytes borrowed from `event`; the job stays where it is until depart(). False:
     * it is relocated, or has no record there any more.
     */
    bool (*spill)(struct store_callbacks *callbacks, const struct event *event, uint64_t where,
                  int64_t due_after_us, struct event *out_job);
    /*
     * The record that spill() returned for this job is durable at `record`. True: the job has not
     * changed since, and is far from now on. False: it has changed; the record is dead. Emits no
     * event.
     */
    bool (*depart)(struct store_callbacks *callbacks, uint64_t seq, struct stored record);
    /* Prefetch hint: depart() (`departs`), or spill() or relocate(), will be called for all of
       these jobs, FAR_SOON_MAX at most. May be NULL. */
    void (*soon)(struct store_callbacks *callbacks, const uint64_t *seqs, uint32_t count,
                 bool departs);
    /*
     * The topic of a command that goes through a topic's far jobs, after it has read some. Jobs of
     * that topic do not depart until it is done, because the command would find them neither in
     * memory nor among the far ones. False: there is no such command. May be NULL.
     */
    bool (*far_visited)(struct store_callbacks *callbacks, struct bytes *out_topic);
    /*
     * Brings a far job back to memory, because its slice is being emptied: `event` is its record,
     * which stays where it is, at event->record. False: no job is far at that place (any more).
     * Called again after a restart.
     */
    bool (*arrive)(struct store_callbacks *callbacks, const struct event *event);
    /*
     * arrive() for a delayed job whose due time is near. If it is due, the core may leave it far,
     * as a ready job, which far_page finds once its whole block has been passed to this. NULL:
     * arrive().
     */
    bool (*near)(struct store_callbacks *callbacks, const struct event *event);
    /* Is there memory to bring far jobs back now? False: is called again later. NULL: always. */
    bool (*far_room)(struct store_callbacks *callbacks);
    /* How many bytes of memory are left below the limit. NULL: enough. */
    uint64_t (*memory_left)(struct store_callbacks *callbacks);
    /*
     * The clock in microseconds, used only to measure how long work in a turn takes. It never goes
     * back, and stands still in the simulator. NULL: estimates are used instead.
     */
    int64_t (*clock_us)(struct store_callbacks *callbacks);
    /* Recovery, after all events: about `jobs` far jobs follow. May be NULL. */
    void (*far_begin)(struct store_callbacks *callbacks, uint64_t jobs);
    /*
     * Recovery: these jobs are far, with their records at these places, except those that the core
     * has in memory. If the core has an older record of a job in memory, it drops that without
     * reporting it. An error ends store_open() with it.
     */
    enum err (*replay_far)(struct store_callbacks *callbacks, const struct far_job *jobs,
                           uint32_t count);
    /* Recovery, after far_begin(): no more far jobs follow. Called again while *out_more is true:
       work remains for those that came. ERR_CORRUPT: a job came twice. May be NULL. */
    enum err (*far_end)(struct store_callbacks *callbacks, bool *out_more);
    /*
     * Clean close: appends one part of an image of what is known of jobs whose records lie in
     * slices (store_slice_state()) to `out`. Called for all FAR_PARTS in order, with no other call
     * between. False: no image can be made now; no more parts are requested. May be NULL.
     */
    bool (*far_image)(struct store_callbacks *callbacks, uint32_t part, struct buf *out);
    /*
     * Recovery, after all events, instead of far_begin() to far_end(): takes the parts that
     * far_image() made of exactly this store. ERR_CORRUPT: not a valid image; nothing of it was
     * kept, and far_begin() follows. NULL if far_image() is.
     */
    enum err (*far_image_take)(struct store_callbacks *callbacks, uint32_t part,
                               struct bytes image);
    /*
     * Recovery, after all events and before far_image_take(): the records of these jobs are at
     * these places, in slices. If the core has an older record of one in memory, it drops that
     * without reporting it; the image or far_begin() follows. NULL if far_image() is.
     */
    void (*drop_older)(struct store_callbacks *callbacks, const struct far_job *jobs,
                       uint32_t count);
    /* Discards the parts that far_image_take() was given. */
    void (*far_image_drop)(struct store_callbacks *callbacks);
    /* A notice, for the log. */
    void (*notice)(struct store_callbacks *callbacks, enum store_notice notice,
                   const struct store_error *error);
};

/*
 * Callbacks that do nothing, for callers that need only a few: copy this and set those. No record
 * may die in such a store, because nothing is relocated.
 */
extern const struct store_callbacks store_idle_callbacks;

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

/* Names a record of a job or note; lengths in bytes. */
struct body_place {
    uint64_t seq;
    uint64_t where;
    size_t content_type_len;
    size_t body_len;
    uint32_t record_bytes; /* struct stored::bytes, if the job has properties; else 0 */
    bool is_note;          /* a note's record: only seq, where and record_bytes are used */
};

/* The parts of a record that the core does not have in memory. */
struct body_content {
    struct bytes content_type, body, properties;
    struct note_head note; /* of a note, whose text is the body */
};

/*
 * Copies content type, body and properties into the arena, if they are in memory (a recent batch,
 * what was read ahead, the page cache), and verifies the checksum made from the client's bytes.
 * Does not wait. ERR_DAMAGED; ERR_AGAIN: use store_fetch(). ERR_AGAIN also for records above 128
 * KiB, unless they are not in their file yet, because copying them takes a turn too long. O(their
 * bytes).
 */
enum err store_read(struct store *store, const struct body_place *place, struct arena *arena,
                    struct body_content *out_content) MUST_USE;

enum body_fetch_state { FETCH_NONE, FETCH_QUEUED, FETCH_READING, FETCH_ENDED };

/*
 * One body that is read by the disk's threads. The caller sets the first three fields and must not
 * move the struct from store_fetch() to store_fetch_end().
 */
struct body_fetch {
    struct body_place place;
    /* Called once when it has ended, from store_poll() or store_turn(), never from store_fetch();
     * may call only store_fetch_end(). `err` is set, and on OK `content`, valid until
     * store_fetch_end(). */
    void (*done)(struct body_fetch *fetch);
    void *owner;                 /* for done */
    enum err err;                /* out: OK, ERR_IO, ERR_DAMAGED */
    struct body_content content; /* out */
    enum body_fetch_state state; /* internal, as all that follows */
    bool alone;                  /* an earlier read failed, perhaps of its neighbours only */
    char *bytes;                 /* the memory of `content` */
    uint32_t segment;            /* is pinned until it has been read */
    struct list link;            /* body_reads::queue or body_read::fetches */
};

/*
 * Reads a body for which store_read() returned ERR_AGAIN. Reads start in store_turn(), in the order
 * of the fetches, several at a time; adjacent records of a segment are read together. There is no
 * limit on fetches: one that has not ended takes no memory beyond struct body_fetch. The record may
 * be relocated meanwhile; its segment is kept until it has been read. O(1).
 */
void store_fetch(struct store *store, struct body_fetch *fetch);
/*
 * Passes the memory of `content` of an ended fetch to the caller, to be freed by mem_free(), on any
 * thread. NULL: there is none. store_fetch_end() must be called all the same. O(1).
 */
char *store_fetch_take(struct store *store, struct body_fetch *fetch) MUST_USE;
/* Frees what it brought; if it has not ended, it never will. O(1). Does nothing to an ended one. */
void store_fetch_end(struct store *store, struct body_fetch *fetch);

/*
 * A hint: these bodies will likely be needed next, in this order. Reads them ahead unless there are
 * more urgent reads. O(count * reads under way).
 */
void store_read_ahead(struct store *store, const struct body_place *places, uint32_t count);
/* Since the last call, was a body read that a read ahead had brought, or should have? */
bool store_wants_read_ahead(struct store *store);

/* How many bodies had to be read from the disk so far. O(1). */
uint64_t store_cold_reads(const struct store *store);
/* Bytes of memory of reads under way, of cached bytes, and of fetches not ended. O(1). */
size_t store_read_bytes(const struct store *store);

/* ---- far jobs ---- */

/* Some jobs cannot depart until no command goes through their topic's far jobs; no such command
 * should begin before they have. */
bool store_far_departs(const struct store *store);
/* Far jobs whose due time is near wait because callbacks->far_room() returned false; until all of
   them are in memory, nothing else should take memory that becomes free. O(1). */
bool store_far_waits(const struct store *store);

/* For callbacks->relocate_moves: is the last MOVE of the job whose record lies there unreadable?
   O(log slices). */
bool store_move_unread(const struct store *store, uint64_t where);

/* The state of the jobs in the slice at this place; JOB_GONE: no slice is there. O(log slices). */
enum job_state store_slice_state(const struct store *store, uint64_t where);

/* In callbacks->far_begin: may replay_far() name a job whose record is at this place, because that
 * is in a slice, or in a segment from which jobs have moved to one? O(log slices). */
bool store_may_be_far(const struct store *store, uint64_t where);

/* The seed for hashes of clients' ids in slices' indexes; fixed for the life of the store. O(1). */
uint64_t store_far_key(const struct store *store);

/*
 * The record of one far job that is read by the disk's threads. The caller sets `where`, `done` and
 * `owner`, and must not move the struct from store_far_fetch() to store_far_fetch_end().
 */
struct far_fetch {
    uint64_t where;
    /* Called once when it has ended, from store_poll() or store_turn(), never from
     * store_far_fetch(); may call only store_far_fetch_end(). `err` is set, and on OK `event`, an
     * EVENT_JOB with all of the record, valid until store_far_fetch_end(). */
    void (*done)(struct far_fetch *fetch);
    void *owner;  /* for done */
    enum err err; /* out: OK, ERR_IO, ERR_DAMAGED (no record begins there, or it is damaged) */
    struct event event;    /* out */
    struct far_read *read; /* the store's */
};

enum { FAR_ROOM_BYTES = 4096 };

struct far_room {
    int64_t retry_us[RETRY_STEPS_MAX];
    _Alignas(8) char bytes[FAR_ROOM_BYTES];
};

/*
 * Reads the record at a place in a slice without waiting. `out_event`, as that of a far_fetch,
 * borrows from `room`. ERR_AGAIN: it is not all in memory, or too long for the room; ERR_DAMAGED.
 * O(its bytes).
 */
enum err store_far_cached(struct store *store, uint64_t where, struct far_room *room,
                          struct event *out_event) MUST_USE;

/*
 * Reads the record at a place in a slice: one read of the disk, or two if it is long, unless it is
 * in memory. There is no limit on fetches; some are read at a time, the others wait in order. The
 * slice is kept until the record has been read. O(1).
 */
void store_far_fetch(struct store *store, struct far_fetch *fetch);
/* Frees what it brought; if it has not ended, it never will. O(1). Does nothing to an ended one. */
void store_far_fetch_end(struct store *store, struct far_fetch *fetch);

/*
 * The first far jobs of a topic, in the order of due time and number, or the last ones, backwards.
 * The caller sets the fields above `done`, `done` and `owner`, and must not move the struct from
 * store_far_page() to store_far_page_end().
 */
struct far_page {
    struct bytes topic;
    enum job_state state; /* JOB_DELAYED, JOB_READY or JOB_BURIED */
    int64_t due_us;       /* only jobs that come after (backwards: before) this due time … */
    uint64_t seq;         /* … and number */
    bool backwards;       /* in descending order, from the last one on */
    uint32_t max;         /* number of jobs at most; at least 1 */
    bool with_bodies;     /* false: only the length of a body is set */
    /* Called once when it has ended, from store_far_page(), store_poll() or store_turn(). `err` is
     * set, and on OK all below it, valid until store_far_page_end(). */
    void (*done)(struct far_page *page);
    void *owner;                /* for done */
    enum err err;               /* out: OK, ERR_IO, ERR_AGAIN (no descriptor is free) */
    uint32_t count;             /* out: may be less than `max` if the jobs are long */
    struct event *events;       /* out: EVENT_JOBs with their places */
    bool more;                  /* out: there may be more jobs behind them */
    struct far_page_read *read; /* the store's */
};

/*
 * Reads the blocks of slices that may have such jobs, one by one: few blocks if many of the jobs
 * that are due early belong to the topic; if few do, all blocks of the slices that have any. Jobs
 * that arrive or end meanwhile may be included or not. Each turn handles 256 slices at most, for
 * all pages.
 *
 * What was read of a block behind the page is kept for the page that begins there. So a caller that
 * reads all pages in order reads each block once, forwards or backwards. If memory does not suffice
 * for a block of each slice, blocks are read in parts (far_page.h), backwards a few times each.
 * With max 1 nothing is kept.
 */
void store_far_page(struct store *store, struct far_page *page);
/* Frees what it brought; if it has not ended, it never will. O(1). Does nothing to an ended one. */
void store_far_page_end(struct store *store, struct far_page *page);

/*
 * About how many far jobs are due by `limit_us`. With few slices they are counted. With many this
 * is the result of a survey of the last ten seconds, for the nearest of these times: now, in 1 min,
 * 5 min, 1 h, 1 d, ever. O(16 slices' blocks).
 */
uint64_t store_far_due_until(const struct store *store, int64_t limit_us);

enum { FAR_DUE_TIMES_MAX = 64 };

/* How many far jobs are due by given times. The caller sets the fields above `next_slice`. */
struct far_due {
    const int64_t *until_us; /* the times, ascending, … */
    uint32_t count;          /* … at most FAR_DUE_TIMES_MAX */
    uint64_t *jobs;          /* for each time, the number of jobs due by then is added here */
    uint32_t next_slice;     /* internal; 0 at first */
};

/*
 * Counts in up to `most` more slices. False: all slices have been counted. Exact, except that jobs
 * of a block (64 KiB) in which one of the times falls are assumed to be spread evenly over the
 * block's time, and that jobs that depart, end or arrive between the calls may be counted or not.
 * O(times) for a slice; O(its blocks and dead bits) if a time falls into it.
 */
bool store_far_due(struct store *store, struct far_due *due, uint32_t most);

/* ---- history: what happened to jobs ---- */

/* Records it, if options.history_us is not 0, together with the events of the same command.
   O(1). */
void store_history_add(struct store *store, const struct happening *happening);

/*
 * What happened to the jobs that had an id. The caller sets `ref`, `max`, `done` and `owner`, and
 * must not move the struct from store_history_find() to store_history_find_end().
 */
struct history_find {
    struct job_ref ref; /* a number finds only a job without a client's id */
    uint32_t max; /* number of the newest entries, at least 1; fewer are returned if their texts are
                     long */
    /* Called once when it has ended, from store_turn(); may call only store_history_find_end().
     * `err` is set, and on OK all below it, valid until store_history_find_end(). */
    void (*done)(struct history_find *find);
    void *owner;    /* for done */
    enum err err;   /* out: OK, ERR_IO */
    uint32_t count; /* out */
    bool more;      /* out: there may be older ones */
    bool damaged;   /* out: some may be missing, because a file cannot be read or is gone */
    const struct happening *happenings; /* out: the oldest first */
    struct history_search *search;      /* the store's */
};

/* At most one read of the disk for each history file, by its threads; O(files). */
void store_history_find(struct store *store, struct history_find *find);
/* Frees what it brought; if it has not ended, it never will. Does nothing to an ended one. */
void store_history_find_end(struct store *store, struct history_find *find);

/* Has a write or sync failed (S5)? */
bool store_failed(const struct store *store);
bool store_full(const struct store *store); /* no new segments can be made, so pushes are refused */

/* Why store_full(), for the log. */
struct store_shortage {
    enum err err;           /* ERR_DISK_FULL, ERR_DISK_LIMIT; OK: it is not full */
    uint64_t free_bytes;    /* the disk has so many now, … */
    uint64_t kept_bytes;    /* … and so many are kept free, on it or in spare segments */
    uint64_t segment_bytes; /* of which the latter is a multiple */
};
void store_shortage(const struct store *store, struct store_shortage *out_shortage);

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

/*
 * CHECKs the invariants of all parts, for tests and the simulator. O(segments + batches that wait
 * for the disk).
 */
void store_valid(const struct store *store);

/*
 * For `later verify`: reads every byte of a store that nobody has open, and calls print_line() for
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
