/*
 * The pump: a consumer inside laterd for all topics that have a target. It reserves their due jobs
 * within its credit, gives each to the sink of the target's type, and finishes, releases or buries
 * it by the outcome, always with the lease. README.md says in which order to read the files.
 *
 * It reaches the engine only through struct pump_door, and never from within a callback of the
 * engine: what a callback causes is kept in lists, which pump_step() handles, once a turn and in
 * slices.
 *
 * Single-threaded, on the loop's thread.
 */
#ifndef LATERD_DISPATCH_PUMP_H
#define LATERD_DISPATCH_PUMP_H

#include "base/budget.h"
#include "dispatch/registry.h"
#include "port/engine.h"
#include "port/loop.h"
#include "port/sink.h"

struct pump;
struct shipment;

/* The pump's access to the engine, and to the turn. */
struct pump_door {
    /* As engine_verbs::submit and cancel. Not called from within a callback of the engine. */
    enum submitted (*submit)(struct pump_door *door, const struct cmd *cmd, struct ticket *ticket);
    void (*cancel)(struct pump_door *door, struct ticket *ticket);
    /* Called when pump_step() has work: the next turn must not sleep. */
    void (*wake)(struct pump_door *door);
    /* As engine_verbs::keeps_order; NULL: always. */
    uint64_t (*keeps_order)(struct pump_door *door, struct bytes topic);
};

struct pump_options {
    struct loop *loop;
    struct registry *registry;
    struct pump_door *door;
    struct budget *budget;      /* of the turn's stage; callbacks of the engine spend it, too */
    uint64_t random;            /* seed of hash keys and jitter */
    uint32_t concurrency;       /* deliveries under way at most; at least 1 */
    uint32_t host_concurrency;  /* the same, to one HTTP receiver */
    uint32_t host_rate_count;   /* deliveries to one HTTP receiver … */
    int64_t host_rate_us;       /* … per this time; 0: no limit */
    uint32_t breaker_failures;  /* failures in a row that open the breaker */
    int64_t timeout_us;         /* of a delivery, if its topic sets none */
    int64_t retry_after_max_us; /* upper bound of a receiver's Retry-After */
    bool shared;                /* other processes may push the same topics */
    bool refuses_urls;          /* jobs with a URL of their own are buried */
    bool leaves_ordered;        /* topics with order by key are left to other daemons */
    int64_t disable_after_us;   /* a target that only failed for this long is paused; 0: never */
    uint64_t memory_bytes;      /* limit for the jobs that the pump holds; at least 1 MiB */
};

/* The options are copied; what they point to is borrowed for the pump's life. From now on it is the
   registry's listener. */
struct pump *pump_new(const struct pump_options *options);
/*
 * All sinks must be closed before, so that nothing is under way in them. Jobs that the pump still
 * holds are given back, without waiting for the answer.
 */
void pump_free(struct pump *pump);
/*
 * Gives back all jobs, as pump_free(), while sinks still have deliveries, whose memory stays. For a
 * process that ends beside the thread of a sink: nothing else may be called afterwards.
 */
void pump_give_up(struct pump *pump);

/*
 * Targets of this type are sent to this sink; `broker` is the NAME of their broker, or empty: any.
 * The pump sets the sink's `changed` and `user`. Borrowed. Must be called before the first step.
 */
void pump_add_sink(struct pump *pump, enum target_type type, struct bytes broker,
                   struct sink *sink);

/* Once a turn: handles the lists until the budget is spent. True: there is more to do. */
bool pump_step(struct pump *pump);

/* To be called when results of keeps_order() may have changed. */
void pump_order_changed(struct pump *pump);

/* Stops reserving. Deliveries that were sent go on; other jobs are given back. */
void pump_drain(struct pump *pump);
/* True: it holds no job. After pump_drain() it stays true. */
bool pump_idle(const struct pump *pump);

/* ---- trials ---- */

/* One delivery to a topic's target, without a job: POST /v1/topics/{t}/test. Owned by the caller;
   must live until `done`, or until it is cancelled. */
struct pump_trial {
    /* Called once, never within pump_trial_send(). */
    void (*done)(struct pump_trial *trial, const struct outcome *outcome);
    struct bytes topic, content_type, body; /* copied */
    enum body_kind body_kind;
    struct shipment *shipment; /* the pump's; NULL: it has ended */
};

/*
 * Sends it now, regardless of limits and breakers, even if the target is paused. ERR_NOT_FOUND: the
 * topic has no target; ERR_INVALID: its jobs bring their own URLs; ERR_UNSUPPORTED: there is no
 * sink for such targets; ERR_DRAINING; ERR_AGAIN: the sink is not ready, or too many deliveries are
 * under way.
 */
enum err pump_trial_send(struct pump *pump, struct pump_trial *trial) MUST_USE;
/* Forgets the trial: `done` will not be called. */
void pump_trial_cancel(struct pump_trial *trial);

/* ---- state and metrics ---- */

enum { PUMP_BUCKETS = 12 };

/* Why a topic's jobs are not reserved now, though it has a target. */
enum held_why {
    HELD_NOT,     /* they are reserved */
    HELD_PAUSED,  /* the target is paused */
    HELD_SINK,    /* there is no sink for it, or its broker is unreachable */
    HELD_BREAKER, /* the breaker is open, or the receiver asked us to wait */
    HELD_HOST,    /* the receiver's limit of deliveries under way is reached */
    HELD_TOPIC,   /* the topic's limit of deliveries under way is reached */
    HELD_RATE,    /* the topic's rate, or the receiver's: then pump_held_by() names that */
    HELD_SHARE,   /* push.concurrency is reached, or other topics use their shares */
    HELD_KEYS,    /* too many jobs wait for earlier jobs of their keys */
    HELD_OTHERS, /* order by key, and another daemon sends this topic, or soon will: push.ordered */
    HELD_ERROR,  /* the engine returned an error: tried again soon */
    HELD_WHYS
};
const char *held_why_name(enum held_why why);
/* For one topic, now. Also HELD_NOT if it has no target. O(1) */
enum held_why pump_held(struct pump *pump, struct bytes topic);
/* The name of the receiver whose breaker, limit or rate holds the topic back; empty: the topic's
   own does. Valid until the next step of the pump. O(1) */
struct bytes pump_held_by(struct pump *pump, struct bytes topic);

/* Counters, and gauges of the present state. */
struct pump_counts {
    uint64_t outcomes[OUTCOME_KINDS]; /* attempts, by outcome */
    uint64_t took_us[PUMP_BUCKETS];   /* attempts, by duration: pump_bound_us() */
    uint64_t took_us_sum;
    uint64_t returned;        /* jobs given back without an attempt */
    uint64_t stale;           /* jobs whose lease had ended before the outcome was known */
    uint64_t buried;          /* jobs whose schedule was used up, or that were refused */
    uint64_t opened;          /* openings of breakers */
    uint64_t targets_paused;  /* by the pump: gone, or failing */
    uint64_t commands;        /* submitted to the engine */
    uint64_t key_looks;       /* jobs of a key that were gone through: for tests */
    uint32_t topics;          /* gauges: topics with a target */
    uint32_t in_flight;       /* deliveries */
    uint64_t bytes;           /* of jobs that the pump holds */
    uint64_t keyed;           /* jobs that have a place in the order of a key */
    uint32_t held[HELD_WHYS]; /* topics, by the reason why they are held back */
};
const struct pump_counts *pump_counts(const struct pump *pump);
int64_t pump_bound_us(unsigned bucket); /* upper bound of a bucket; INT64_MAX of the last one */
void pump_describe_sinks(const struct pump *pump, struct metric_sink *metrics);

void pump_valid(const struct pump *pump); /* CHECKs lists and counts. O(lanes + shipments) */

#endif
