/*
 * Internals of the core, for its own files only: struct core, and which file does what.
 *
 *     apply.c    push and the commands on one job        core.c    life, ticks, the next wake
 *     reserve.c  taking jobs, waiting for them           replay.c  events back into state
 *     scan.c     commands that look at or change many    inspect.c totals, digest, validity
 *     transitions.c  the moves of a job and their events     topic_commands.c  commands on a topic
 *     settings.c     topics' settings        notes.c    notes of failed attempts
 *     far.c      jobs that are not in memory          history.c reports happenings to the sink
 *     far_replay.c  the same at a start               far_image.c   the same as bytes, for that
 *     front.c    the order of ready far jobs      list_walk.c   what a LIST keeps for its next page
 *
 * Invariants
 * C1 A job is linked where its state says: DELAYED in the wheel `delays`, READY in its topic's
 *    heap, RESERVED in the wheel `leases`, BURIED in its topic's list. core_link() adds it there,
 *    core_unlink() removes it, and both keep the counts. During replay, until core_replayed(), jobs
 *    are linked nowhere.
 * C2 A job is READY only from its due time on. Once the clock has reached that (job::was_due), this
 *    is true until the job gets another due time, even if the clock is set back over a restart. So
 *    a waiting job is READY if it was due or is due now, else DELAYED.
 * C3 A lease number is given once. A job has a lease if, and only if, it is RESERVED.
 * C4 Every change that must survive is emitted to the sink before its command is answered.
 * C5 A far job is counted as DELAYED, READY or BURIED, and is in core::far by its number and its
 *    id. It is neither in the pool nor in a wheel, heap or list. A READY one has an entry in its
 *    topic's `far_ready`, or in far_jobs::unread.
 */
#ifndef LATERD_CORE_CORE_INTERNAL_H
#define LATERD_CORE_CORE_INTERNAL_H

#include "base/cursor.h"
#include "base/far_index.h"
#include "base/list.h"
#include "base/wheel.h"
#include "core/core.h"
#include "core/far.h"
#include "core/index.h"
#include "core/job_extra.h"
#include "core/list_walk.h"
#include "core/notes.h"
#include "core/retry.h"
#include "core/top_k.h"
#include "core/topic.h"

/* Links a parked reserve to one of its topics. */
struct wait_link {
    struct list of_topic; // topic::waiting
    uint32_t topic;
    uint32_t waiter;
};

/* The options of a reserve, without its topics. */
struct wanted {
    uint32_t max;
    bool listed_order;
    bool bound;
    int64_t ttr_us;  /* 0: the jobs' own */
    struct bytes by; /* borrowed: cmd_reserve::by */
};

struct waiter {
    uint32_t prev, next; /* on the wheel of waits */
    uint32_t generation; /* half of the handle; 0 = free */
    struct wanted wanted;
    int64_t until_us; /* its wait ends then, or soon after: core_end_waits() */
    int64_t over_us;  /* its wait ended then, and it still waits for a far job to be read; else 0 */
    void *ctx;
    bool gone; /* it was cancelled, and leaves its topics: in core::gone, and on no wheel */
    uint32_t link_count;
    struct wait_link *links; /* in the order listed; `one`, or mem_alloc'd */
    struct wait_link one;
};

enum scan_step {
    SCAN_POOL,  /* examines all jobs in memory, and collects the wanted ones */
    SCAN_HEADS, /* changes the first job of the topic in this state, repeatedly */
    SCAN_PAGE,  /* changes the jobs that SCAN_POOL collected */
};

/* A command that examines all jobs or changes many, a portion in each tick. */
struct scan {
    struct list of_core; // core::scans
    uint32_t number;     /* of core::scan_pool, once it is parked … */
    uint32_t generation; /* … and with that its handle; 0 = free */
    enum cmd_kind kind;  /* LIST, PEEK, KICK_TOPIC, CLEAR_TOPIC, or TOPIC (its first delayed job) */
    enum scan_step step;
    void *ctx;
    uint32_t topic; /* pinned */
    enum job_state state;
    uint32_t next;       /* POOL: number in the jobs' pool; PAGE: index in the page */
    uint32_t max;        /* jobs shown or changed at most */
    uint32_t changed;    /* KICK_TOPIC, CLEAR_TOPIC: jobs so far */
    struct cursor after; /* LIST: `first` is a due time; `second` is not used */
    bool backwards;      /* LIST */
    struct top_k page;
    struct list_walk *walk; /* LIST: what is found goes there, for more than this page; or NULL */
};

/* A ready far job whose record could not be read: it is in no topic's heap until
   core_front_retry(). */
struct far_unread {
    struct far_ready_entry entry;
    uint32_t topic;
};

/* Jobs whose records lie in slices of the store, and which are not in memory. */
struct far_jobs {
    struct far_index places; /* by a job's number and, if it has one, by its client's id */
    uint64_t key;            /* of the hashes of ids */
    uint64_t count;
    uint64_t in_state[JOB_STATES], with_id;       /* of them */
    bool waits;                                   /* see core_far_waits() */
    int64_t (*due_by)(void *ctx, uint64_t where); /* see core_use_far_due(); or NULL */
    void *due_ctx;
    int64_t spare_until_us; /* until then memory of jobs that have departed is kept */
    struct far_soon {
        uint64_t seq;
        uint64_t id_hash, in_memory; /* of its id: by far_hash_id(), and by index_hash_id() */
        uint32_t number;             /* in the jobs' pool */
    } soon[CORE_SOON_MAX];           /* what core_fetch() has computed for core_depart() */
    uint32_t soon_count;
    uint32_t soon_next; /* those before this one have departed, or stayed */
    struct far_replay {
        uint64_t *in_memory; /* bits of jobs in memory, by the hash of the number; NULL: … */
        uint64_t mask;       /* … not between core_far_begin() and core_far_end() */
        size_t bytes;
    } replay;
    struct buf unread; /* struct far_unread: ready ones whose records could not be read */
    struct far_taking {
        struct buf counts;   /* while an image is read: its table of topics; else empty */
        struct bytes rest;   /* topics of it whose ready heap has not been read */
        struct topic *topic; /* whose ready heap is being read */
        uint64_t left;       /* entries of it still to be read … */
        uint64_t urgent;     /* … and how many of these are urgent */
    } taking;
};

struct core {
    struct core_limits limits;
    struct event_sink *sink;
    struct core_callbacks *callbacks;
    struct budget *budget; /* see core_use_budget */
    struct budget unlimited;
    int64_t now_us;      /* never goes back */
    int64_t unlogged_us; /* see core_unlogged_us() */
    uint64_t seq_next;
    uint64_t lease_next;
    bool replaying;
    bool replay_untimed;     /* the events being replayed were logged without the time */
    int64_t replay_clock_us; /* the log's clock so far; INT64_MIN = not known */
    struct list scans;       // scan::of_core
    uint32_t searches;       /* of these, all but those of TOPIC */
    struct list walks;       // list_walk::link
    struct pool jobs;
    struct pool extras; /* of jobs, what only some have */
    struct index index;
    struct far_jobs far;
    struct notes notes;
    struct topics topics;
    struct retries retries;
    struct wheel delays; /* jobs by due_us */
    struct wheel leases; /* jobs by until_us */
    struct wheel waits;  /* waiters by until_us */
    struct wheel pauses; /* topics by pause_until_us */
    struct pool waiters;
    struct list gone; // waiter::one.of_topic
    struct pool scan_pool;
    bool held;                 /* core_match() can hand out nothing until far jobs have been read */
    bool holds_leases;         /* core_hold_leases() */
    uint32_t generation;       /* of the last parked command */
    uint64_t mark;             /* see topic::mark */
    struct topic **candidates; /* scratch of reserve … */
    struct bytes *candidate_names; /* … and the topics' names for its reply */
    uint32_t candidates_cap;
    struct job_view brief_view; /* the view in replies to brief commands; the fields that they do
                                   not show stay zero */
    struct job_view *views;     /* scratch of other replies */
    uint32_t views_cap;
    struct core_totals totals; /* all but topics, waiters and the next numbers */
};

/*
 * far.c: core_add_far() adds a job whose record lies in a slice of jobs in this state to the index
 * and the counts of far jobs, and a ready one to its topic's far_ready. False: the index cannot
 * hold it; nothing has changed. core_take_far() removes it from index and counts; its entry in
 * far_ready becomes stale.
 */
bool core_add_far(struct core *core, const struct job *job, enum job_state state) MUST_USE;
void core_take_far(struct core *core, const struct job *job, enum job_state state);
/* Has the due time of the delayed far job come, now or before the clock was set back? */
bool core_far_is_due(const struct core *core, const struct event *event);
/* Far jobs of a topic that are in this state; `urgent` as in topic::urgent. */
struct far_count {
    enum job_state state;
    uint64_t jobs, with_id, urgent;
};
/* Adds to the counts of far jobs; the numbers are modulo 2^64, so that it can subtract as well. */
void core_count_far(struct core *core, struct topic *topic, const struct far_count *by);

static inline struct job *core_job(const struct core *core, uint32_t number)
{
    return pool_at(&core->jobs, number);
}

/* Whole seconds from now until then, rounded up, within what statistics can show. */
static inline uint32_t seconds_until(int64_t now_us, int64_t then_us)
{
    int64_t span_us;
    if (then_us <= now_us)
        return 0;
    if (__builtin_sub_overflow(then_us, now_us, &span_us) || span_us / 1000000 >= UINT32_MAX)
        return UINT32_MAX;
    return (uint32_t)((span_us + 999999) / 1000000);
}

/*
 * Has the timing wheel room for the number of one more job? Must be checked before a job is
 * created: a job of one size may need a new chunk while chunks of all other sizes have room.
 */
static inline bool core_has_free_number(const struct core *core)
{
    return core->jobs.count < CORE_JOBS_MAX && pool_fits(&core->jobs, WHEEL_ITEMS_MAX);
}

static inline void count_up(uint16_t *count) /* stops at its largest value */
{
    if (*count < UINT16_MAX)
        ++*count;
}

/* ---- transitions.c ---- */

/* Takes the job off its wheel, heap or list, so that its fields may change. core_link() must
   follow. */
struct job *core_unlink(struct core *core, uint32_t number);
/* The rest of core_unlink() for a job that wheel_pop() has already taken off its wheel. */
void core_unlink_popped(struct core *core, const struct job *job);
/* Moves the unlinked (or new) job to the state and links it there. */
void core_link(struct core *core, uint32_t number, enum job_state state);
/* The job gets another due time. */
static inline void core_set_due(struct job *job, int64_t due_us)
{
    job->due_us = due_us;
    job->was_due = false;
}

/* DELAYED, or READY if the job is or was due already. */
enum job_state core_waiting_state(const struct core *core, const struct job *job);

/* The parts of a job that only its record has. */
struct job_content {
    struct bytes content_type, body, properties;
    struct buf *memory; /* cmd_push::memory, or NULL */
};

/* event::promised of the events that a function emits: does an answer wait for them? */
enum { NOT_PROMISED = false, PROMISED = true };

/* The job's state as it is written to the log. */
struct job_now core_job_now(const struct core *core, const struct job *job);
/* Emits a whole job. The sink returns its new place; the old record dies. */
void core_emit_job(struct core *core, struct job *job, const struct job_content *content,
                   bool promised);
void core_emit_move(struct core *core, const struct job *job, bool promised);
void core_emit_pause(struct core *core, const struct topic *topic);

/* Reserves a job: a ready one, or by name a delayed or buried one. ttr_us 0: its own. `by`:
   cmd_reserve::by. */
void core_lease(struct core *core, uint32_t number, bool bound, int64_t ttr_us, struct bytes by);
/* Ends the lease of an unlinked job. */
void core_end_lease(struct core *core, struct job *job);
/* A reserved job's attempt failed: it is delayed by its retry schedule, or buried when that is used
   up. */
void core_fail(struct core *core, uint32_t number, bool promised);
void core_bury(struct core *core, uint32_t number, bool promised);
void core_make_ready(struct core *core, uint32_t number); /* runs it now */
void core_kick(struct core *core, uint32_t number);       /* BURIED or DELAYED */

/*
 * A job ends in two steps, so that a reply can still show it: core_retire() takes it out of the
 * queue and emits that; core_forget() frees its memory.
 */
void core_retire(struct core *core, uint32_t number, enum event_end end);
/* The same for a job that is in no index and not linked (core_restore_apart()). */
void core_retire_apart(struct core *core, uint32_t number, enum event_end end);
/* core_retire() without an event. The next event that the caller emits must name the record
   returned here as dead. */
struct stored core_retire_unlogged(struct core *core, uint32_t number);
void core_forget(struct core *core, uint32_t number);

void core_view(const struct core *core, const struct job *job, struct job_view *out_view);
struct job_view *core_views(struct core *core, uint32_t count); /* room for `count` views */
void core_reply(struct core *core, void *ctx, const struct reply *reply);
void core_reply_err(struct core *core, enum cmd_kind kind, void *ctx, enum err err);
void core_reply_job(struct core *core, enum cmd_kind kind, void *ctx, const struct job *job);
/* In `room`; or, if all that is needed is .ref.seq and .state, in core::brief_view. */
static inline struct job_view *core_view_for(struct core *core, const struct job *job, bool brief,
                                             struct job_view *room)
{
    if (!brief) {
        core_view(core, job, room);
        return room;
    }
    core->brief_view.ref.seq = job->seq;
    core->brief_view.state = (enum job_state)job->state;
    return &core->brief_view;
}

/* ---- history.c ---- */

/* Reports what has just happened to the job, after its event. See core_happened(). */
void core_emit_happening(struct core *core, const struct job *job, enum happening_kind what,
                         const struct job_note *why);
/* The same, if a history of jobs is kept; costs only this branch if none is. `why` NULL: no reason
   was given. */
static inline void core_happened(struct core *core, const struct job *job, enum happening_kind what,
                                 const struct job_note *why)
{
    if (core->sink->happened)
        core_emit_happening(core, job, what, why);
}
/* A push replaced the job of that number, which no longer exists. */
void core_emit_replaced(struct core *core, uint64_t old_seq, const struct job *job);

/* ---- reserve.c ---- */

/* As core_apply(): 0, or the handle of what is parked. */
uint64_t core_reserve(struct core *core, const struct cmd_reserve *cmd, void *ctx);
bool core_end_waits(struct core *core, uint32_t steps); /* true = more to do */
void core_cancel_wait(struct core *core, uint32_t number, uint32_t generation);
bool core_leave_topics(struct core *core); /* of cancelled waiters; true = more to do */

/* ---- topic_commands.c ---- */

uint64_t core_topic_cmd(struct core *core, const struct cmd *cmd, void *ctx); /* the same */
void core_set_pause(struct core *core, struct topic *topic, int64_t until_us);
void core_view_topic(const struct core *core, const struct topic *topic,
                     struct topic_view *out_view);

/* The topic's first READY or BURIED job, or POOL_NONE. */
static inline uint32_t core_topic_first(const struct topic *topic, enum job_state state)
{
    return state == JOB_READY ? ready_heap_first(&topic->ready) : topic->buried_first;
}

/* Identifies the listing that a CMD_LIST's cursor belongs to. */
static inline struct listing core_listing(struct bytes topic, enum job_state state, bool backwards)
{
    return (struct listing){
        .engine = CURSOR_EMBEDDED, .state = (uint8_t)state, .backwards = backwards, .topic = topic};
}

/* Where such a listing begins. */
static inline struct cursor core_before_all(bool backwards)
{
    return backwards ? (struct cursor){.first = INT64_MAX, .seq = UINT64_MAX}
                     : (struct cursor){.first = INT64_MIN};
}

/* Behind all jobs that are due by now: delayed ones among them are about to become ready. */
static inline struct cursor core_all_due(const struct core *core)
{
    return (struct cursor){.first = core->now_us, .seq = UINT64_MAX};
}

/* ---- notes.c ---- */

/* Keeps a note of the job's attempt that ends now. Call it before the event of that end, so that a
   durable end has its note. Does nothing if the text is empty or the memory limit is exceeded. */
void core_note(struct core *core, struct job *job, struct bytes text, uint16_t code);
void core_drop_notes(struct core *core, uint64_t seq); /* if there are any */
void core_view_notes(const struct core *core, const struct job *job, struct job_view *view);
enum err core_replay_note(struct core *core, const struct event *event) MUST_USE;
void core_replayed_notes(struct core *core); /* drops those without a job */
bool core_relocate_note(struct core *core, const struct event *event, uint64_t where);
/* As core_relocate_unread(): notes whose texts cannot be read are lost. */
bool core_drop_unread_notes(struct core *core, uint64_t first, uint64_t end, uint32_t *cursor,
                            uint32_t budget);

/* ---- replay.c ---- */

/* OK if this program could have emitted the event; else ERR_CORRUPT. */
enum err core_check_job_event(const struct event *event) MUST_USE;
/* Makes a job as the event describes it and adds it to the index; it is not linked yet. Returns its
   number. */
uint32_t core_restore_job(struct core *core, const struct event *event, const struct topic *topic);
/* The same, but the job is not added to the index. */
uint32_t core_restore_apart(struct core *core, const struct event *event,
                            const struct topic *topic);
/* Ends a job that is not linked, without an event. */
void core_drop_job(struct core *core, uint32_t number);

/* ---- far.c ---- */

/* May the ready job leave memory? With more in memory than should stay, each topic keeps its share
   of them: the first ones in order, about. O(1). */
bool core_is_behind_front(const struct core *core, const struct job *job);
/* Is the job of this number far, and ready, its record at this place? */
bool core_is_far_ready(const struct core *core, uint64_t seq, uint64_t where);
/*
 * For a job that has just become due and is neither linked nor counted: if no consumer waits for
 * it, enough ready jobs of the topic are in memory and it has not changed since it came from a
 * slice, it leaves memory and is far and ready. False: it stays in memory; nothing has changed.
 */
bool core_depart_due(struct core *core, uint32_t number);
/*
 * Makes a job in memory from the record of a delayed far job, and removes it from the far jobs. The
 * new job is in no index and linked nowhere: the caller must end it at once. POOL_NONE: no delayed
 * far job has this record; nothing has changed.
 */
uint32_t core_take_apart(struct core *core, const struct event *event);
/* Does a far job have this number or this id? May be a false positive. Not for use in replay. */
bool core_has_far(const struct core *core, uint64_t seq, struct bytes id);

/* ---- front.c ---- */

/* Call after a change of the topic's ready jobs: removes the first entries of far_ready while they
   are stale, and a few others while more than half are stale. */
void core_front_settle(struct core *core, struct topic *topic);
/* Removes all stale entries of the topic's far_ready. O(entries * log entries). */
void core_front_purge(const struct core *core, struct topic *topic);
/* May far jobs be brought to memory to be handed out? */
bool core_front_room(const struct core *core);
/* The due time of the topic's first ready job, in memory or far; of a far one of ORDER_ARRIVAL the
   time of its arrival, which is not later. 0: there is none. About, behind many stale entries.
   O(1). */
int64_t core_front_due_us(const struct core *core, const struct topic *topic);

/* ---- settings.c ---- */

void core_configure(struct core *core, const struct cmd_topic *cmd, void *ctx);
/* Removes the topic's settings; emits that if it had any. */
void core_unset_settings(struct core *core, struct topic *topic);
enum err core_replay_settings(struct core *core, const struct event *event) MUST_USE;
/* Emits them again if their record is at a place from `first` up to (not including) `end`. */
bool core_relocate_settings(struct core *core, struct topic *topic, uint64_t first, uint64_t end);

/* ---- scan.c ---- */

/* This bit is set in the low half of a scan's handle, and in no waiter's. */
#define SCAN_HANDLE UINT32_C(0x80000000)

/* LIST, PEEK, TOPIC, KICK_TOPIC and CLEAR_TOPIC: answered at once if that is little work. `after`:
 * the position in the LIST's cursor; NULL: from the start. */
void core_scan(struct core *core, const struct topic *topic, const struct cmd *cmd,
               const struct cursor *after, void *ctx, uint64_t *out_parked);
bool core_scan_step(struct core *core); /* a slice of each scan; true = more to do */
void core_scan_cancel(struct core *core, uint32_t number, uint32_t generation);
void core_scan_free(struct core *core, struct scan *scan);

uint32_t core_next_generation(struct core *core); /* never 0 */

#endif
