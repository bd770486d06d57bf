/*
 * What the store tells its owner, and asks of it: while it is opened, when batches are durable, at
 * checkpoints, and for far jobs. The embedded engine answers from the core.
 */
#ifndef LATERD_STORE_CALLBACKS_H
#define LATERD_STORE_CALLBACKS_H

#include "base/bytes.h"
#include "core/event.h"
#include "port/disk.h"

struct store;

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
     * Too many buried or ready jobs are in memory, or jobs that were delayed until after
     * `due_after_us`, and this may be one. Its record at `where` lies in a slice, and says how it
     * was before. If it may leave memory, append it again (core_relocate_changed): then cleaning
     * moves it to a slice of such jobs. NULL: all stay.
     */
    enum changed_verdict (*relocate_changed)(struct store_callbacks *callbacks,
                                             const struct event *event, uint64_t where,
                                             int64_t due_after_us);
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
     * it is relocated, or has no record there any more. `out_job` may be `event` itself; then it
     * may have become that state also if this is false.
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
    /* Prefetch hint, while the record of the far job of this number is verified: what the core has
       of it will be needed next. May be NULL. */
    void (*far_soon)(struct store_callbacks *callbacks, uint64_t seq);
    /*
     * Does a command go through the jobs of a topic for which `may_have` is true: those in memory,
     * or the far ones, after it has read some? Such jobs do not depart until it is done, because
     * the command would find them neither in memory nor among the far ones. May be NULL.
     */
    bool (*far_visited)(struct store_callbacks *callbacks,
                        bool (*may_have)(const void *ctx, struct bytes topic), const void *ctx);
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

#endif
