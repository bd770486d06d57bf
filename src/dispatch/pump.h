/*
 * The pump: a consumer inside laterd for all topics that have a target. It reserves their due jobs
 * within its credit, gives each to the sink of the target's type, and finishes, releases or buries
 * it by what came of that, always with the lease. README.md says in which order to read.
 *
 * It reaches the engine through struct pump_door alone, and never from inside an answer: what an
 * answer causes is kept in lists, which pump_step() goes through, once a turn and in slices.
 *
 * One thread: the loop's.
 */
#ifndef LATERD_DISPATCH_PUMP_H
#define LATERD_DISPATCH_PUMP_H

#include "base/budget.h"
#include "dispatch/registry.h"
#include "port/engine.h"
#include "port/loop.h"
#include "port/sink.h"

struct pump;

/* The way to the engine, and to the turn. */
struct pump_door {
    /* As engine_verbs::submit and cancel. Not called from inside an answer. */
    enum submitted (*submit)(struct pump_door *door, const struct cmd *cmd, struct ticket *ticket);
    void (*cancel)(struct pump_door *door, struct ticket *ticket);
    /* pump_step() is wanted at once: the next turn must not sleep. */
    void (*wake)(struct pump_door *door);
    /* As engine_verbs::keeps_order; NULL: always. */
    uint64_t (*keeps_order)(struct pump_door *door, struct bytes topic);
};

struct pump_options {
    struct loop *loop;
    struct registry *registry;
    struct pump_door *door;
    struct budget *budget;      /* of the turn's stage; spent from, also by answers */
    uint64_t random;            /* keys hash tables, and makes jitter */
    uint32_t concurrency;       /* deliveries under way; at least 1 */
    uint32_t host_concurrency;  /* the same to one receiver of HTTP */
    uint32_t host_rate_count;   /* to one receiver of HTTP: so many … */
    int64_t host_rate_us;       /* … in so long; 0: no limit */
    uint32_t breaker_failures;  /* in a row, that open the breaker */
    int64_t timeout_us;         /* of a delivery, unless its topic says */
    int64_t retry_after_max_us; /* a receiver that asks for more waits as long as this */
    bool shared;                /* other processes may push the same topics */
    bool refuses_urls;          /* jobs that bring a URL of their own are buried */
    bool leaves_ordered;        /* topics with order by key are all another daemon's */
    int64_t disable_after_us;   /* a target that failed for so long is paused; 0: never */
    uint64_t memory_bytes;      /* of the jobs that it holds; at least 1 MiB */
};

struct pump *pump_new(const struct pump_options *options);
/*
 * The sinks are closed already, so that nothing is under way in them. Jobs that it still holds are
 * given back, without an answer.
 */
void pump_free(struct pump *pump);

/*
 * Targets of this type go to this sink; `broker` is its NAME, or empty: whatever name. The sink's
 * `changed` and `user` become the pump's. Borrowed; before the first step.
 */
void pump_add_sink(struct pump *pump, enum target_type type, struct bytes broker,
                   struct sink *sink);

/* For the turn: does what there is to do, as far as the budget goes. True: there is more. */
bool pump_step(struct pump *pump);

/* What keeps_order says may have changed. */
void pump_order_changed(struct pump *pump);

/* Reserves nothing any more. What is sent already may end; what is not is given back. */
void pump_drain(struct pump *pump);
/* Does it hold no job? After pump_drain() it stays so. */
bool pump_idle(const struct pump *pump);

/* ---- a test ---- */

/* One delivery to a topic's target, without a job. Owned by whoever asks, until `done`. */
struct pump_test {
    /* Never from inside pump_test_send(). */
    void (*done)(struct pump_test *test, const struct outcome *outcome);
    struct bytes topic, content_type, body; /* copied */
    enum body_kind body_kind;
    void *shipment; /* the pump's */
};

/*
 * Sends it now, whatever the limits and breakers are, even if the target is paused. ERR_NOT_FOUND:
 * the topic has no target; ERR_INVALID: its jobs bring their own URLs; ERR_UNSUPPORTED: nothing
 * here sends to such targets; ERR_DRAINING; ERR_AGAIN: the sink is not ready, or too much is under
 * way.
 */
enum err pump_test_send(struct pump *pump, struct pump_test *test) MUST_USE;
/* Nobody waits for it any more: `done` is not called. */
void pump_test_cancel(struct pump *pump, struct pump_test *test);

/* ---- what it tells ---- */

enum { PUMP_BUCKETS = 12 };

/* Why a topic's jobs are not reserved now, though it has a target. */
enum held_why {
    HELD_NOT,     /* they are */
    HELD_PAUSED,  /* the target is paused */
    HELD_SINK,    /* nothing here sends to it, or the broker is away */
    HELD_BREAKER, /* the breaker is open, or the receiver asked us to wait */
    HELD_HOST,    /* as many as allowed are under way to the receiver */
    HELD_TOPIC,   /* the same of the topic */
    HELD_RATE,    /* the topic's rate, or the receiver's: then pump_held_by() names that */
    HELD_SHARE,   /* push.concurrency: others have their share, too */
    HELD_KEYS,    /* too many wait for jobs of their key before them */
    HELD_OTHERS,  /* order by key, which another daemon keeps, or is about to: push.ordered */
    HELD_ERROR,   /* the engine could not do it: tried again soon */
    HELD_WHYS
};
const char *held_why_name(enum held_why why);
/* Of one topic, as of now. HELD_NOT as well if it has no target. O(1) */
enum held_why pump_held(struct pump *pump, struct bytes topic);
/* The receiver whose breaker, places or rate this is; empty: the topic's own. Good until the next
   step of the pump. O(1) */
struct bytes pump_held_by(struct pump *pump, struct bytes topic);

/* Counters only grow; gauges are as of now. */
struct pump_counts {
    uint64_t outcomes[OUTCOME_KINDS]; /* attempts by what became of them */
    uint64_t took_us[PUMP_BUCKETS];   /* by how long they took: pump_bound_us() */
    uint64_t took_us_sum;
    uint64_t returned;        /* reserved, and given back without an attempt */
    uint64_t stale;           /* the lease had ended before the outcome was known */
    uint64_t buried;          /* schedule used up, or refused for good */
    uint64_t opened;          /* breakers */
    uint64_t targets_paused;  /* by us: gone, failing */
    uint64_t commands;        /* to the engine */
    uint32_t topics;          /* gauges: topics with a target */
    uint32_t in_flight;       /* deliveries */
    uint64_t bytes;           /* of jobs that it holds */
    uint64_t keyed;           /* jobs that have a place in the order of a key */
    uint32_t held[HELD_WHYS]; /* topics by why they are held back */
};
const struct pump_counts *pump_counts(const struct pump *pump);
int64_t pump_bound_us(unsigned bucket); /* of the last one INT64_MAX */
void pump_describe_sinks(const struct pump *pump, struct metric_sink *metrics);

void pump_valid(const struct pump *pump); /* CHECKs lists and counts. O(all) */

#endif
