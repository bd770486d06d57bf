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
    uint64_t segment_bytes;  /* of one segment: 256 KiB … 1 GiB, a multiple of DISK_ALIGN */
    uint64_t max_bytes;      /* all files together; 0 = as much as the file system has */
    uint64_t recent_bytes;   /* memory for recently written batches: bodies read without the disk */
    bool buffered;           /* write now, sync later: durability interval or os */
    int64_t interval_us;     /* buffered: sync this often; 0 = leave it to the system */
    int64_t inline_us;       /* commits are made in the turn while they take less, those of 32 KiB
                                and more while they take less than half of it; 0 = never */
    uint64_t follower_bytes; /* of the log, that may be kept for followers; 0 = 1 GiB */
    uint32_t files_max;      /* segments' files kept open, at least 4; 0 = 64 */
    uint32_t body_max;       /* bytes of the largest body that can come */
    int64_t now_us;
    uint64_t id_seed;    /* for the simulator: makes the id of a new store; 0 = random */
    uint64_t epoch;      /* who leads: rises with each election; 0 = there are none */
    uint64_t boot_first; /* a new store: as if it had been opened so often, for salvage */
    /*
     * Jobs that are due later than this from now may leave the log for slices when it is cleaned;
     * 0 = none. Those of a slice come back half of it before they are due. And above so many bytes
     * of log it is cleaned for their sake; 0 = 256 MiB.
     */
    int64_t horizon_us;
    uint64_t checkpoint_bytes;
    int64_t history_us;   /* what happened to jobs is kept for so long; 0 = not at all */
    uint64_t spill_bytes; /* a run of jobs that leave the log may gather so much, however little
                             memory there is; 0 = 4 MiB */
    uint32_t slices_few;  /* above so many slices no small ones are made; 0 = 64 */
    uint64_t image_jobs;  /* with so many far jobs a close in order leaves an image; 0 = 65,536 */
    /* New segments are not filled with zeros while a sync has so much to write; 0 = 48 KiB. */
    uint64_t bulk_bytes;
    /* A small commit into one that is not writes so many zeros behind itself; a multiple of
       DISK_ALIGN, DISK_ZEROS_MAX at most; 0 = that. */
    uint64_t zeros_bytes;
    bool never_cleans; /* no segment is freed, whatever dies: for who cannot relocate */
};

/* Why a store could not be opened, for people. After OK the text is a notice, or empty. */
struct store_error {
    char file[DISK_NAME_MAX];
    uint64_t offset;
    char text[256]; /* what is wrong, what is lost, what to do */
};

/* What the cleaner tells of a segment that it cannot read, for the log. */
enum store_notice {
    STORE_UNREAD,    /* a read failed: it is tried again */
    STORE_DAMAGED,   /* once for each segment: reading does not help; cleaning goes round it */
    STORE_SET_ASIDE, /* it is out of the log, and kept under another name; jobs lost their bodies */
    STORE_FAR_WAITS, /* no memory for far jobs that draw near; said once a minute while that is so
                      */
    STORE_FOLLOWER_DROPPED, /* the log is not kept for it any more; `text` has its name */
};

enum { FAR_SOON_MAX = 16, FAR_PARTS = 98 };

/* How far the opening of a store is. */
struct store_opening {
    bool indexes; /* the log has been replayed, and the indexes of slices are being read */
    uint64_t done_bytes, all_bytes; /* of the one or the other */
};

struct store_callbacks {
    /* Set by store_open() before the first call of any: for store_died() while replaying. */
    struct store *store;
    /* Recovery: one event after another, in log order. An error ends the opening with it. */
    enum err (*replay)(struct store_callbacks *callbacks, const struct event *event);
    /*
     * Recovery: an event of the job with this number, and id if there is one, will come soon; for
     * prefetching. Not told for all, and of an event that then does not come. May be NULL.
     */
    void (*expect)(struct store_callbacks *callbacks, const struct job_ref *ref);
    /*
     * Recovery, before the events of a batch, and not for all: what the clock showed when they were
     * written; 0: not known. May be NULL.
     */
    void (*clock)(struct store_callbacks *callbacks, int64_t clock_us);
    /* Recovery, some times in each tenth of a second unless the disk is slow. An error ends the
       opening with it: what is on disk then is what a kill -9 would have left. */
    enum err (*progress)(struct store_callbacks *callbacks, const struct store_opening *opening);
    /* Recovery: one line for each thing that is damaged, before store_open is ERR_CORRUPT. */
    void (*finding)(struct store_callbacks *callbacks, const char *line);
    /* All batches up to this number are as durable as asked for. */
    void (*durable)(struct store_callbacks *callbacks, uint64_t batch);
    /* Buffered: all batches up to this number are on disk. */
    void (*synced)(struct store_callbacks *callbacks, uint64_t batch);
    /* A write or sync failed (S5); every answer that waits must be a failure now. */
    void (*failed)(struct store_callbacks *callbacks, int sys_errno);
    /*
     * Checkpoint: the record of this event, at `where`, is in a segment that is to be deleted. If
     * it is still the newest of what it tells of, append that again (core_relocate).
     */
    void (*relocate)(struct store_callbacks *callbacks, const struct event *event, uint64_t where);
    /*
     * Checkpoint: the records at places from `first` up to (not with) `end` cannot be read. Appends
     * again, without their bodies, the jobs that live there (core_relocate_unread): a slice of the
     * work, from *cursor on, which is 0 at first. True: there is more.
     */
    bool (*relocate_unread)(struct store_callbacks *callbacks, uint64_t first, uint64_t end,
                            uint32_t *cursor);
    /*
     * Checkpoint: changes (EVENT_MOVE) of jobs whose records lie in slices cannot be read. Appends
     * such an event again for each job whose record is where store_move_unread() says so
     * (core_relocate_moves): a slice of the work, as above. NULL: there are no such jobs.
     */
    bool (*relocate_moves)(struct store_callbacks *callbacks, uint32_t *cursor);
    /* Checkpoint: the same with all that has no place of its own, and with what else lives at those
       places and need not be read (core_relocate_topics). */
    bool (*relocate_rest)(struct store_callbacks *callbacks, uint64_t first, uint64_t end,
                          uint32_t *cursor);
    /*
     * The next ones are of far jobs, whose records lie in slices and which the core need not have
     * in memory. `spill` NULL: no job becomes far. A store that has slices is not opened without
     * `arrive` and `replay_far`.
     *
     * Checkpoint: may the job, whose record is this event's and lies at `where`, become far? Only
     * if that is its newest record, and it is delayed until after `due_after_us`, or ready or
     * buried and one of too many. True: `out_job` is all of the job as it is now, its bytes
     * borrowed from `event`; the job stays where it is until depart(). False: it is relocated, or
     * has no record there any more.
     */
    bool (*spill)(struct store_callbacks *callbacks, const struct event *event, uint64_t where,
                  int64_t due_after_us, struct event *out_job);
    /*
     * What spill() gave of this job is durable at `record`. True: the job has not changed since,
     * and is far from now on. False: it has; what is at `record` is of no use. Emits nothing.
     */
    bool (*depart)(struct store_callbacks *callbacks, uint64_t seq, struct stored record);
    /* So many jobs, FAR_SOON_MAX at most, will be asked for at once, by depart() or (`departs`
       false) by spill() or relocate(): there is time to fetch them. May be NULL. */
    void (*soon)(struct store_callbacks *callbacks, const uint64_t *seqs, uint32_t count,
                 bool departs);
    /*
     * Is somebody going through a topic's far jobs, who has read some of them? Until he is done
     * jobs of that topic do not depart: he would see them neither here nor there. May be NULL.
     */
    bool (*far_visited)(struct store_callbacks *callbacks, struct bytes *out_topic);
    /*
     * A far job's slice is emptied: its record is `event`, and event->record says where. The core
     * has it in memory from now on, its record stays where it is. False: it is not far at that
     * place (any more). Called again after a restart.
     */
    bool (*arrive)(struct store_callbacks *callbacks, const struct event *event);
    /*
     * The same of a delayed job that draws near. If it is due, the core may leave it far, as a
     * ready one: far_page finds it there when all of its block has been told of. NULL: arrive().
     */
    bool (*near)(struct store_callbacks *callbacks, const struct event *event);
    /* May far jobs come now, as far as memory is concerned? NULL: always. False: asked again. */
    bool (*far_room)(struct store_callbacks *callbacks);
    /* How much memory there is beyond what is used now, in bytes. May be NULL: enough. */
    uint64_t (*memory_left)(struct store_callbacks *callbacks);
    /*
     * The clock in microseconds, only to see how long work takes in a turn; it never goes back, and
     * stands still in a simulated life. May be NULL: what work is estimated to take is believed.
     */
    int64_t (*clock_us)(struct store_callbacks *callbacks);
    /* Recovery, after all events: about so many far jobs come now. May be NULL. */
    void (*far_begin)(struct store_callbacks *callbacks, uint64_t jobs);
    /*
     * These jobs are far, but for those that the core has in memory, and their records there. If it
     * has an older record of one in memory, that is dropped, and not told of. An error ends the
     * opening with it.
     */
    enum err (*replay_far)(struct store_callbacks *callbacks, const struct far_job *jobs,
                           uint32_t count);
    /* No more come, if far_begin() was called; again, until nothing more (`*out_more`) is to be
       done for those that came. ERR_CORRUPT: one came twice. May be NULL. */
    enum err (*far_end)(struct store_callbacks *callbacks, bool *out_more);
    /*
     * Closing in order: appends a part of an image of all that is known of jobs whose records lie
     * in slices (store_slice_state()) to `out`; all FAR_PARTS in order, and no other call between
     * them. False: there can be none now, and no part more is asked for. May be NULL.
     */
    bool (*far_image)(struct store_callbacks *callbacks, uint32_t part, struct buf *out);
    /*
     * Recovery, after all events, instead of far_begin() to far_end(): these parts are what
     * far_image() gave, of just this store. ERR_CORRUPT: they are not, and nothing was taken of
     * any; far_begin() comes next. NULL if far_image() is.
     */
    enum err (*far_image_take)(struct store_callbacks *callbacks, uint32_t part,
                               struct bytes image);
    /* No more parts come: nothing is to be kept of those that came. */
    void (*far_image_drop)(struct store_callbacks *callbacks);
    /* A segment is damaged. */
    void (*notice)(struct store_callbacks *callbacks, enum store_notice notice,
                   const struct store_error *error);
};

/*
 * Callbacks that do nothing, for who wants few of them: copy it, and set those. Nothing may die in
 * such a store, because nothing is relocated.
 */
extern const struct store_callbacks store_idle_callbacks;

/*
 * Opens or makes the store in the disk's directory: takes the lock, replays every event, makes the
 * tail durable. ERR_LOCKED, ERR_IO, ERR_DISK_FULL, ERR_UNSUPPORTED (a newer version wrote it),
 * ERR_AGAIN (no descriptor is free), ERR_CORRUPT (acknowledged data is damaged: never cut silently;
 * damage that touches nothing that lives is a notice).
 */
enum err store_open(const struct store_options *options, struct store_callbacks *callbacks,
                    struct store **out_store, struct store_error *out_error) MUST_USE;

/*
 * The epoch in which the store in the disk's directory was opened last; 0: never with one, or there
 * is no store. Takes no lock, changes nothing. Errors as store_open().
 */
enum err store_last_epoch(struct disk *disk, uint64_t *out_epoch) MUST_USE;

/*
 * How many descriptors a store may have open at most, its directory and lock included: whoever
 * takes connections leaves it so many. Should they be missing all the same, nothing fails: what
 * needs one waits, and is tried again.
 */
unsigned store_descriptors(uint32_t files_max);

/* Writes what is open, marks the log as cleanly ended, waits for the disk, gives back the lock. */
void store_close(struct store *store);

/* Numbers that must never be given again, as of opening: the first free ones. */
uint64_t store_seq_first(const struct store *store);
uint64_t store_lease_first(const struct store *store);
/* Its 16 bytes of identity, made when the store was; borrowed. */
const uint8_t *store_identity(const struct store *store);

/*
 * Could a job with so many bytes (id, content type, body, properties) be kept now, and later be
 * ended? ERR_STORE_FAILED, ERR_DISK_FULL, ERR_DISK_LIMIT, ERR_AGAIN (the disk is far behind).
 */
enum err store_admit(const struct store *store, size_t payload_bytes) MUST_USE;

/*
 * Appends an event to the open batch. `seq_next` is the core's next server-made number, kept as
 * the high-water mark. Only after store_admit for pushes; other events always have room.
 */
struct stored store_append(struct store *store, const struct event *event);
/* What lived at this place died, and no event will say so: event_sink::died. */
void store_died(struct store *store, struct stored record);
void store_seq_note(struct store *store, uint64_t seq_next);
/*
 * Something that no event tells happened at this time (a job fell due): before long there will be a
 * batch of this time or later, an empty one if nothing else is to be written. Within 0.1 s, but one
 * such batch a second at most; none while the disk is full.
 */
void store_clock_note(struct store *store, int64_t at_us);
/* The core's next lease: once a turn, and before store_close. */
void store_lease_note(struct store *store, uint64_t lease_next);

/* The batch of the last event appended. */
uint64_t store_batch(const struct store *store);
/* The batch that an answer must wait for so that all promised so far is durable. */
uint64_t store_promised(const struct store *store);
uint64_t store_durable(const struct store *store);
uint64_t store_synced(const struct store *store);
/* Buffered: have all appended so far synced as soon as can be, and callbacks->synced() told of it.
 */
void store_want_sync(struct store *store);

/*
 * The end of a turn: seals and hands over the open batch if it is wanted (promised events, or old
 * enough, or large) and none is under way; does a bounded slice of checkpoint work.
 */
void store_turn(struct store *store, int64_t now_us);
/* From now on: do consumers wait for jobs that fall due? Then a turn waits for small commits only.
 */
void store_latency_first(struct store *store, bool latency_first);
int64_t store_next_us(
    const struct store *store);       /* when store_turn wants to be called; or INT64_MAX */
void store_poll(struct store *store); /* handles operations that have ended: disk->poll */

/* A job's record: what the core knows of it; lengths in bytes. */
struct body_place {
    uint64_t seq;
    uint64_t where;
    size_t content_type_len;
    size_t body_len;
    uint32_t record_bytes; /* struct stored::bytes, if the job has properties; else 0 */
    bool is_note;          /* it is a note's: of it only seq, where and record_bytes count */
};

/* What only the record has. */
struct body_content {
    struct bytes content_type, body, properties;
    struct note_head note; /* of a note, whose text is the body */
};

/*
 * Copies what a job's record alone has into the arena, if it is in memory (a recent batch, what was
 * read ahead, the page cache), and checks it against the checksum made from the client's bytes.
 * Does not wait. ERR_DAMAGED; ERR_AGAIN: they are to be fetched. So are records above 128 KiB, but
 * for those that are not in their file yet: a turn has no time to copy them.
 */
enum err store_read(struct store *store, const struct body_place *place, struct arena *arena,
                    struct body_content *out_content) MUST_USE;

enum body_fetch_state { FETCH_NONE, FETCH_QUEUED, FETCH_READING, FETCH_ENDED };

/*
 * One body that is read by the disk's threads. The caller fills in the first three fields and keeps
 * all of it where it is from store_fetch() to store_fetch_end().
 */
struct body_fetch {
    struct body_place place;
    /* It has ended: `err`, and on OK the bytes, good until store_fetch_end(). Called once, from
       store_poll() or store_turn(), never from store_fetch(); may call store_fetch_end() alone. */
    void (*done)(struct body_fetch *fetch);
    void *owner;                 /* for done */
    enum err err;                /* out: OK, ERR_IO, ERR_DAMAGED */
    struct body_content content; /* out */
    enum body_fetch_state state; /* the store's, as all that follows */
    bool alone;                  /* an earlier read failed, perhaps of its neighbours only */
    char *bytes;                 /* what the outputs lie in */
    uint32_t segment;            /* that cannot go before it has been read */
    struct list link;            /* body_reads::queue or body_read::fetches */
};

/*
 * Asks for a body for which store_read() was ERR_AGAIN. The reads begin in store_turn(), in the
 * order of the fetches, several at a time; neighbours in a segment are read together. Any number of
 * fetches may be asked for: those that have not ended take no memory beyond struct body_fetch. The
 * record need not stay where it is: its segment is kept until it has been read. O(1).
 */
void store_fetch(struct store *store, struct body_fetch *fetch);
/*
 * What `content` of an ended fetch lies in: the caller's from now on, to be freed by mem_free(), on
 * any thread. NULL: it brought nothing. store_fetch_end() is due all the same. O(1).
 */
char *store_fetch_take(struct store *store, struct body_fetch *fetch) MUST_USE;
/* Frees what it brought; if it has not ended, it never will. O(1). Does nothing to an ended one. */
void store_fetch_end(struct store *store, struct body_fetch *fetch);

/*
 * These bodies are likely to be wanted next: brings them to memory, unless there is more urgent
 * work. A hint; `places` in the order in which they will be wanted. O(count * reads under way).
 */
void store_read_ahead(struct store *store, const struct body_place *places, uint32_t count);
/* Was something asked for since the last call that a read ahead had brought, or should have? */
bool store_wants_read_ahead(struct store *store);

/* How many bodies had to be fetched so far. O(1). */
uint64_t store_cold_reads(const struct store *store);
/* Bytes of memory that reads hold: under way, kept, and in fetches not ended. O(1). */
size_t store_read_bytes(const struct store *store);

/* ---- far jobs ---- */

/* Jobs wait to depart until nobody visits their topic: no visit should begin before they have. */
bool store_far_departs(const struct store *store);
/* Far jobs draw near, and callbacks->far_room() says that they must wait: until all of them are
   there, nothing else should take the memory that becomes free. O(1). */
bool store_far_waits(const struct store *store);

/* callbacks->relocate_moves: is the last change of the job whose record lies there one that cannot
   be read? O(log slices). */
bool store_move_unread(const struct store *store, uint64_t where);

/* The state of the jobs in the slice that the place is in; JOB_GONE: it is in none. O(log slices).
 */
enum job_state store_slice_state(const struct store *store, uint64_t where);

/* In callbacks->far_begin: may a job whose record is at this place be told of as a far one, too,
   because that is in a slice, or in a segment that jobs have left for one? O(log slices). */
bool store_may_be_far(const struct store *store, uint64_t where);

/* Seeds the hashes of clients' ids in slices' indexes: fixed for the life of the store. O(1). */
uint64_t store_far_key(const struct store *store);

/*
 * The record of one far job that is read by the disk's threads. The caller fills in `where`, `done`
 * and `owner`, and keeps all of it where it is from store_far_fetch() to store_far_fetch_end().
 */
struct far_fetch {
    uint64_t where;
    /* It has ended: `err`, and on OK `event`, an EVENT_JOB with all that the record has, good until
       store_far_fetch_end(). Called once, from store_poll() or store_turn(), never from
       store_far_fetch(); may call store_far_fetch_end() alone. */
    void (*done)(struct far_fetch *fetch);
    void *owner;        /* for done */
    enum err err;       /* out: OK, ERR_IO, ERR_DAMAGED (no record begins there, or it is rotten) */
    struct event event; /* out */
    struct far_read *read; /* the store's */
};

enum { FAR_ROOM_BYTES = 4096 };

struct far_room {
    int64_t retry_us[RETRY_STEPS_MAX];
    _Alignas(8) char bytes[FAR_ROOM_BYTES];
};

/*
 * Reads the record at a place in a slice at once. `out_event`, as that of a far_fetch, borrows from
 * `room`. ERR_AGAIN: it is not all in memory, or too long for the room; ERR_DAMAGED. O(its bytes).
 */
enum err store_far_cached(struct store *store, uint64_t where, struct far_room *room,
                          struct event *out_event) MUST_USE;

/*
 * Reads the record at a place in a slice: one read of the disk, or two if it is long, unless it is
 * in memory. Any number may be asked for; some are under way at a time, the others wait in order.
 * The slice stays until it has been read. O(1).
 */
void store_far_fetch(struct store *store, struct far_fetch *fetch);
/* Frees what it brought; if it has not ended, it never will. O(1). Does nothing to an ended one. */
void store_far_fetch_end(struct store *store, struct far_fetch *fetch);

/*
 * The first far jobs of a topic, in the order of due time and number, or the last ones, backwards.
 * The caller fills in what is above `err`, and keeps all of it where it is from store_far_page() to
 * store_far_page_end().
 */
struct far_page {
    struct bytes topic;
    enum job_state state; /* JOB_DELAYED, JOB_READY or JOB_BURIED */
    int64_t due_us;       /* only jobs that come after (backwards: before) this due time … */
    uint64_t seq;         /* … and number */
    bool backwards;       /* the last ones, the very last of them first */
    uint32_t max;         /* so many at most; at least 1 */
    bool with_bodies;     /* else of a body only its length is known */
    /* It has ended: `err`, and on OK all below it, good until store_far_page_end(). Called once,
       from store_far_page(), store_poll() or store_turn(). */
    void (*done)(struct far_page *page);
    void *owner;                /* for done */
    enum err err;               /* out: OK, ERR_IO, ERR_AGAIN (no descriptor is free) */
    uint32_t count;             /* out: fewer than `max` if they are long, too */
    struct event *events;       /* out: EVENT_JOBs with their places */
    bool more;                  /* out: there may be others behind them */
    struct far_page_read *read; /* the store's */
};

/*
 * Reads the blocks of slices that may have such jobs, one by one: few, if many of the jobs that are
 * due early belong to the topic; of slices that have any of it all, if few do. Jobs that come back
 * or end meanwhile may be told of or not. Each turn looks at 256 slices at most, for all pages.
 *
 * What was read of a block behind the page is kept for the page that begins there: who goes through
 * all of them, one way or backwards, reads each block once, or a few times if there are more slices
 * than memory for a block of each (far_page.h). With max 1 nothing is kept.
 */
void store_far_page(struct store *store, struct far_page *page);
/* Frees what it brought; if it has not ended, it never will. O(1). Does nothing to an ended one. */
void store_far_page_end(struct store *store, struct far_page *page);

/*
 * About how many far jobs are due by then. Of few slices they are counted; of many it is what a
 * survey has found, within the last ten seconds, for the nearest of these times: now, in 1 min, in
 * 5 min, in 1 h, in 1 d, ever. O(16 slices' blocks).
 */
uint64_t store_far_due_until(const struct store *store, int64_t limit_us);

enum { FAR_DUE_TIMES_MAX = 64 };

/* How many far jobs are due by some times: the caller fills in what is above `next_slice`. */
struct far_due {
    const int64_t *until_us; /* these times, which rise, … */
    uint32_t count;          /* … so many: at most FAR_DUE_TIMES_MAX */
    uint64_t *jobs;          /* to each is added how many are due then or before */
    uint32_t next_slice;     /* the store's; 0 at first */
};

/*
 * Counts in up to `most` slices more. False: it has been through all of them. Exact, but that jobs
 * are taken to be spread evenly over the time of a block (64 KiB) that one of the times falls into;
 * and that those that come, go or come back to memory between the calls are counted or not.
 * O(times) for a slice; O(its blocks and dead bits) if a time falls into it.
 */
bool store_far_due(struct store *store, struct far_due *due, uint32_t most);

/* ---- history: what happened to jobs ---- */

/* Keeps it, if options.history_us says so, with the events of the same command. O(1). */
void store_history_add(struct store *store, const struct happening *happening);

/*
 * What happened to the jobs that had an id. The caller fills in what is above `err`, and keeps all
 * of it where it is from store_history_find() to store_history_find_end().
 */
struct history_find {
    struct job_ref ref; /* by a number only a job without an id of its client's is found */
    uint32_t max;       /* the newest so many, at least 1; fewer if their texts are long */
    /* It has ended: `err`, and on OK all below it, good until store_history_find_end(). Called
       once, from store_turn(); may call store_history_find_end() alone. */
    void (*done)(struct history_find *find);
    void *owner;                        /* for done */
    enum err err;                       /* out: OK, ERR_IO */
    uint32_t count;                     /* out */
    bool more;                          /* out: there may be older ones */
    bool damaged;                       /* out: a place that may have had some cannot be read, or is
                                           missing */
    const struct happening *happenings; /* out: the oldest first */
    struct history_search *search;      /* the store's */
};

/* At most one read of the disk for each history file, by its threads; O(files). */
void store_history_find(struct store *store, struct history_find *find);
/* Frees what it brought; if it has not ended, it never will. Does nothing to an ended one. */
void store_history_find_end(struct store *store, struct history_find *find);

bool store_failed(const struct store *store);
bool store_full(const struct store *store); /* the disk refuses new segments: pushes are refused */

enum { SYNC_BUCKETS = 24 }; /* bucket b counts syncs that took below 2^b * 16 µs */

struct store_stats {
    uint64_t segments, disk_bytes, live_bytes;
    uint64_t live_jobs;                   /* and notes of jobs, and topics' settings */
    uint64_t segment_first, segment_tail; /* numbers of the oldest and of the one being written */
    uint64_t segment_bytes;               /* of one segment at most */
    uint64_t batches, bytes_written, records;
    uint64_t syncs, sync_us_sum;
    uint64_t sync_us[SYNC_BUCKETS];
    uint64_t checkpoints, relocated_jobs;
    uint64_t cold_reads;       /* bodies that were not in memory */
    uint64_t damaged_segments; /* in the log, or set aside under another name */
    uint64_t recovered_events, dropped_tail_bytes;
    uint64_t followers, followers_dropped; /* dropped: since opening */
    /* Of the one furthest behind: what it has not acknowledged, by segments. */
    uint64_t follower_lag_batches, follower_lag_bytes;
    int64_t recovery_us;                /* how long store_open took */
    uint64_t slices, slice_bytes;       /* files of far jobs */
    uint64_t slice_jobs;                /* of live_jobs: their records lie in slices */
    uint64_t spilled_jobs, loaded_jobs; /* since opening: left the log, came near again */
    bool far_image;                     /* the opening took the index from an image */
    bool far_waits;                     /* store_far_waits(): … */
    uint64_t far_late_jobs;             /* … so many of those, about, are due already */
    uint64_t emptied_slices;            /* mostly dead ones whose rest went back to the log */
    bool keeps_history;
    uint64_t history_files, history_bytes;
    uint64_t history_entries, history_table_bytes; /* those in memory, too; and what they take */
    uint64_t history_lost;                         /* entries, since opening: the disk was full */
    int64_t history_oldest_us;                     /* of the files' entries; 0: there is none */
};
void store_stats(const struct store *store, struct store_stats *out_stats);

/*
 * CHECKs the invariants of all parts, for tests and the simulator: between calls, after any step.
 * O(segments + batches that wait for the disk).
 */
void store_valid(const struct store *store);

/*
 * `later verify`: reads every byte of a store that nobody has open. Calls `say` with one line per
 * finding. OK: all could be read; out_counts->bad says how many places are damaged. Else the
 * store's root is damaged (ERR_CORRUPT), not ours, or not there.
 */
struct store_counts {
    uint64_t segments, batches, records, jobs, live_jobs, bytes, bad;
    uint64_t slices, slice_jobs; /* files of far jobs, and jobs in them, ended ones too */
    uint64_t history_files, history_entries;
};
struct store_watcher {
    void (*print_line)(void *ctx, const char *line);
    /* Now and then: bytes read so far of all. NULL: nobody wants to know. */
    void (*progress)(void *ctx, uint64_t done_bytes, uint64_t all_bytes);
    void *ctx;
};
enum err store_verify(struct disk *disk, const struct store_watcher *watcher,
                      struct store_counts *out_counts) MUST_USE;

#endif
