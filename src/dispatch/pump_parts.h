/*
 * Internal declarations of the pump: lanes (a topic with a target) and shipments (a job that the
 * pump holds). Only the pump's own files include this.
 *
 * A lane:   IDLE ─something changed▶ QUEUED ─pump_step▶ RESERVING ─jobs, or none▶ QUEUED
 *                                      ├─ its receiver is busy ▶ BLOCKED ─▶ QUEUED
 *                                      ├─ no token, an error ▶ WAITING ─timer▶ QUEUED
 *                                      └─ held back by itself ▶ IDLE
 * A shipment: HELD (for its key, for a slot) ▶ SENT ▶ ENDING (its command waits for its turn, or
 * for its answer) ▶ freed.
 */
#ifndef LATERD_DISPATCH_PUMP_PARTS_H
#define LATERD_DISPATCH_PUMP_PARTS_H

#include "base/arena.h"
#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "dispatch/bucket.h"
#include "dispatch/origin.h"
#include "dispatch/pump.h"

struct job_properties;

enum {
    PUMP_SINKS_MAX = 64,
    RESERVE_MAX = 64,     /* jobs in one reserve */
    HELD_MAX = 256,       /* jobs of a lane that wait for their key; up to twice for a while */
    READY_MAX = 256,      /* jobs of a lane that are first of their key and wait for more than a
                             slot; of those beyond, who wait for a time are given back */
    HELD_BYTES_PART = 16, /* they may use this fraction (1/16) of the pump's memory */
    SHARE = 4,            /* a lane's share of the free slots is multiplied by this */
    LEASE_SPARE_US = 10000000, /* a lease is longer than the delivery may take, by this */
    SEND_SPARE_US = 4000000,   /* a job is not sent if less than this is left of that */
};

struct push_sink {
    enum target_type type;
    char *broker;
    size_t broker_len;
    struct sink *sink;
};

enum lane_state { LANE_IDLE, LANE_QUEUED, LANE_BLOCKED, LANE_WAITING, LANE_RESERVING };

/* A topic with a target, or one that had one and still has jobs under way. */
struct lane {
    uint32_t number; /* in pump::lanes */
    enum lane_state state;
    enum held_why why; /* IDLE, BLOCKED, WAITING */
    struct pump *pump;
    char *name; /* NULL: it is free */
    size_t name_len;
    uint64_t hash;
    struct settings_kept *kept; /* NULL: it no longer has a target */
    struct push_sink *sink;     /* NULL: there is none for its target */
    struct origin *origin;      /* of its target; NULL: each job has its own URL */
    struct list place;          // pump::ring (QUEUED), origin::blocked (BLOCKED)
    struct list pausing;        // pump::pausing
    const char *pause_why;      /* while it is in pump::pausing */
    bool stopped;               /* the pump has paused it, until its settings change */
    struct timer timer;         /* WAITING */
    struct ticket ticket;       /* RESERVING */
    uint32_t reserve_next;      /* jobs to ask for in the next reserve, if the credit allows it */
    uint32_t reserving;         /* jobs asked for in the reserve under way */
    uint32_t window;            /* deliveries under way at most: grows from 1 to the concurrency */
    uint32_t in_flight;         /* shipments with a slot */
    uint32_t ready;             /* shipments in pump::ready */
    uint32_t shipments;         /* all of them: */
    struct list all;            // shipment::of_lane
    struct bucket bucket;
    int64_t not_before_us; /* after an error: nothing is reserved before this time */
    int64_t backoff_us;
    int64_t failing_us;     /* since when all deliveries have failed; 0: the last one did not */
    int64_t active_us;      /* when a delivery was under way last */
    struct key_order *keys; /* order by key: key_order.h; NULL: no order */
    /* With order by key: keeps_order()'s result; 0: another daemon may send its jobs. */
    uint64_t ours;
};

/* The memory of a reply, in which large bodies of some shipments are. */
struct reply_share {
    struct reply_hold *hold;
    uint32_t users;
};

enum shipment_state { SHIP_HELD, SHIP_SENT, SHIP_ENDING };

/* A job that the pump has reserved. */
struct shipment {
    struct delivery delivery;
    struct pump *pump;
    struct lane *lane;          /* NULL: a trial */
    struct pump_trial *trial;   /* NULL: a job, or a cancelled trial */
    struct settings_kept *kept; /* holds delivery.target */
    struct origin *origin;      /* NULL: not known yet */
    struct origin *of_key;      /* limits of its key; NULL: none */
    struct key_entry *entry;    /* order by key; or NULL */
    struct reply_share *share;  /* that delivery.body is in; NULL: it is in the room */
    struct list all;            // pump::shipments
    struct list of_lane;        // lane::all
    struct list place;          // pump::outbox (ENDING), pump::ready (HELD)
    struct timer timer;         /* HELD: the lease must be renewed; ENDING: tried again */
    struct ticket ticket;
    struct cmd_job end; /* ENDING */
    enum cmd_kind end_kind;
    enum shipment_state state;
    bool ready;            /* it is in pump::ready */
    bool slot;             /* counted in in_flight of pump and lane */
    bool pending;          /* its ticket is under way in the engine */
    bool outcome_unwanted; /* ENDING: the answer is not needed */
    bool own_url; /* sent to the job's own URL: its outcome does not concern the topic's target */
    int64_t lease_us; /* when the lease ends */
    int64_t wait_us;  /* from a failure of this attempt to the next one */
    bool last;        /* no attempt follows this one */
    struct buf note;
    size_t bytes; /* counted in pump_counts::bytes */
    char room[];  /* what the delivery points to */
};

struct pump {
    struct pump_options options;
    struct pump_counts counts;
    struct registry_listener listener;
    struct push_sink sinks[PUMP_SINKS_MAX];
    unsigned sink_count;
    struct pool lanes;
    struct map by_topic;
    struct origins origins;
    struct list ring; // lane::place: lanes that may reserve, in turn
    uint32_t ring_count;
    struct list pausing;      // lane::pausing
    struct list outbox;       // shipment::place: those with a command to submit
    struct list calls;        // key_queue::call: keys whose first job is to be kicked
    struct list ended_orders; // key_order::ended
    struct list ready;        // shipment::place: those that may be sent when there is a slot
    uint32_t ready_count;
    uint32_t ready_left;   /* of these, how many shipments_step() has still to look at */
    bool woken;            /* since it began to: those looked at before may be sent now */
    struct list shipments; // shipment::all
    uint32_t recheck_next; /* the next lane of recheck_step(); POOL_NONE: done */
    bool again;            /* the ring has lanes that may be able to reserve at once */
    bool draining;
    uint32_t trials; /* under way */
    uint64_t random;
    struct schedule standard; /* of jobs without a schedule, in topics without one */
    struct arena scratch;
    struct buf text;
};

/* ---- lane.c ---- */

/* Of a pump without lanes. */
void lanes_init(struct pump *pump);
/* Queues the lane, if it is idle, because something has changed that lets it reserve. */
void lane_want(struct lane *lane);
/* Its turn comes, whatever it waits for: queues it. A reserve under way goes on, unless it is no
   longer allowed, or there is no token for a job: then it is cancelled first. */
void lane_visit(struct lane *lane);
/* The lane's turn in the ring: reserves, or sets its state and the reason. */
void lane_reserve(struct lane *lane);
/* Stops sending to its target until its settings change. `why`: "gone" or "failing". */
void lane_pause(struct lane *lane, const char *why);
/* With order by key: begins or stops to send the topic's jobs, as keeps_order() says. */
void lane_update_owner(struct lane *lane);
/* True: with order by key, and another daemon may send its jobs, so this one must not. */
bool lane_is_others(const struct lane *lane);
/* The topic has these settings now, or none (NULL): makes, changes or ends its lane, which begins
   again: with a window of one, and without errors. Holds `kept`. */
void lane_configure(struct pump *pump, struct bytes topic, struct settings_kept *kept);
/* Frees it if it has no target and nothing under way. */
void lane_settle(struct lane *lane);
/* Cancels its reserve. It must have no shipments. */
void lane_free(struct lane *lane);
/* Stores the pauses that lane_pause() has noted. Not within a callback of the engine. */
void lanes_submit_pauses(struct pump *pump);
/* The receiver may have credit: queues the next lane that waits for it. */
void origin_wake(struct pump *pump, struct origin *origin);
/* The receiver of this target and URL, with one user more: origin_release(). NULL: HTTP without a
   URL, or with one that has no host. O(length) */
struct origin *origin_of(struct lane *lane, const struct target *target, struct bytes url);
/* The limits of the lane's jobs with this key, with one user more; NULL: there are none. */
struct origin *origin_of_key(struct lane *lane, struct bytes key);
/* One user of the origin less; NULL does nothing. */
void origin_release(struct pump *pump, struct origin *origin);
/* The sink of this target's type and broker; NULL: there is none. O(sinks) */
struct push_sink *sink_of(struct pump *pump, const struct target *target);
/* Its limit of deliveries under way, from its settings (which it must have) and the server's. */
uint32_t lane_concurrency(const struct lane *lane);

/* ---- shipment.c ---- */

/* Fills the room behind a shipment. */
struct packer {
    char *at;
};

/* Copies the bytes into the room; returns the copy. */
static inline struct bytes pack(struct packer *packer, struct bytes bytes)
{
    packer->at = bytes_move_to(packer->at, &bytes);
    return bytes;
}

/* A shipment with room_bytes of room behind it; the caller sets its lane, if it has one. */
struct shipment *shipment_new(struct pump *pump, size_t room_bytes);
/* One of the lane, for this job. shipment_copy.c */
struct shipment *shipment_of(struct lane *lane, const struct job_view *view, size_t room_bytes);
/* The same, with a copy of the job, in which only a body above 256 KiB may be borrowed: from `hold`
   (which may be NULL) by *io_share. */
struct shipment *shipment_copy(struct lane *lane, const struct job_view *view,
                               const struct job_properties *properties, struct reply_hold *hold,
                               struct reply_share **io_share);
/* Called within the answer to a reserve: takes the job, or gives it back. *io_share is NULL at the
   answer's first job, and dropped behind its last. */
void shipment_arrive(struct lane *lane, const struct job_view *view, struct reply_hold *hold,
                     struct reply_share **io_share);
/* The job ends, or comes back, by this command, with what shipment::end says. */
void shipment_end_by(struct shipment *shipment, enum cmd_kind kind);
/* One user less; NULL does nothing. */
void reply_share_drop(struct reply_share *share);
/* Gives the job back without counting an attempt. `due_us` 0: to its former place in the queue. Its
   ticket must not be under way. */
void shipment_return(struct shipment *shipment, int64_t due_us);
/* It may be sent when there is a slot: adds it to pump::ready, or moves it to the end there. */
void shipment_make_ready(struct shipment *shipment);
/* Submits the commands of the outbox, and sends what is ready. True: there is more. */
bool shipments_step(struct pump *pump);
/* Gives back the jobs of this lane that are not sent. O(its shipments), about a thousand at most.
 */
void shipments_give_back(struct lane *lane);
void shipments_end(struct pump *pump);     /* for pump_free(): gives back and frees all */
void shipments_give_up(struct pump *pump); /* the same, but frees nothing that a sink has */

/* ---- outcome.c ---- */

/* The job was sent, or could not be, and this came of it: notes it, and ends the shipment. */
void shipment_apply_outcome(struct shipment *shipment, const struct outcome *outcome);
/* The job can never be sent: buries it, with the reason as its note. */
void shipment_refuse(struct shipment *shipment, struct bytes reason);

/* ---- for all of them ---- */

static inline struct bytes lane_name(const struct lane *lane)
{
    return bytes_of(lane->name, lane->name_len);
}

static inline bool lane_is_ordered(const struct lane *lane)
{
    return lane->keys && lane->kept && lane->kept->settings.order == ORDER_BY_KEY;
}

static inline int64_t pump_now(const struct pump *pump)
{
    return pump->options.loop->now_us;
}

static inline void pump_wake(struct pump *pump)
{
    pump->woken = true;
    pump->options.door->wake(pump->options.door);
}

/* How long a delivery to the target may take: by its settings, else by the server's. */
static inline int64_t pump_timeout_us(const struct pump *pump, const struct target *target)
{
    bool own = target->type == TARGET_HTTP && target->http.timeout_us;
    return own ? target->http.timeout_us : pump->options.timeout_us;
}

static inline uint32_t pump_slots(const struct pump *pump)
{
    uint32_t used = pump->counts.in_flight, most = pump->options.concurrency;
    return used < most ? most - used : 0;
}

static inline bool pump_has_memory(const struct pump *pump)
{
    return pump->counts.bytes < pump->options.memory_bytes;
}

static inline uint64_t pump_random(struct pump *pump) /* splitmix64 */
{
    uint64_t x = pump->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static inline enum submitted pump_submit(struct pump *pump, const struct cmd *cmd,
                                         struct ticket *ticket)
{
    pump->counts.commands++;
    return pump->options.door->submit(pump->options.door, cmd, ticket);
}

#endif
