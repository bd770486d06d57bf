/*
 * Receivers: a scheme, host and port, a unix socket, or a broker. What is limited by receiver is
 * here: how many deliveries are under way, the circuit breaker, how long it asked us to wait,
 * and at which rate. The same is kept for each key of a topic that has limits by key.
 *
 * An origin lives while a topic's target or a delivery is to it. The last ORIGINS_IDLE of those
 * that nobody uses are kept as well, and up to ORIGINS_IDLE_MOST while the oldest limits anything:
 * so breaker and rate outlive a single delivery. One thread.
 */
#ifndef LATERD_DISPATCH_ORIGIN_H
#define LATERD_DISPATCH_ORIGIN_H

#include "base/bytes.h"
#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "base/timers.h"
#include "core/target.h"
#include "dispatch/breaker.h"
#include "dispatch/bucket.h"

enum { ORIGINS_IDLE = 1024, ORIGINS_IDLE_MOST = 8192, ORIGIN_NAME_MAX = TARGET_URL_MAX + 16 };

struct origin {
    uint32_t number; /* in origins::pool */
    uint32_t users;  /* lanes and deliveries */
    uint64_t hash;
    char *name; /* "https://example.com:443" */
    size_t name_len;
    uint32_t in_flight;
    uint32_t most; /* of those */
    struct breaker breaker;
    struct bucket bucket; /* push.host_rate, or a key's rate */
    int64_t hold_us;      /* it asked us not to come before */
    int64_t slot_us;      /* where the last job that was given back was put: see origin_slot() */
    int64_t took_us;      /* how long a delivery takes, on average */
    struct list blocked;  // lane::place: those that wait for it, first come first
    struct list idle;     // origins::idle, while it has no users
    struct timer timer;   /* the owner's: when breaker or hold end */
    void *user;
};

struct origins {
    struct pool pool;
    struct map by_name;
    struct list idle; // origin::idle, the one idle for longest first
    uint32_t idle_count;
    uint64_t hash_key;
};

void origins_init(struct origins *origins, uint64_t hash_key);
void origins_fini(struct origins *origins);

/* The name of where a target and a URL (of HTTP) lead to. False: the URL has no host. */
bool origin_name(const struct target *target, struct bytes url, struct buf *out_name);

/* The origin of this name, one user more; made if it is not there: then `most` is 0. */
struct origin *origins_take(struct origins *origins, struct bytes name);
/* One user less. Its timer must not be armed unless it has users. O(1) in the long run */
void origins_give(struct origins *origins, struct origin *origin, int64_t now_us);

/* How many more may be sent to it now. */
uint32_t origin_credit(struct origin *origin, int64_t now_us);
/* One is sent, and has ended. */
void origin_sent(struct origin *origin);
void origin_ended(struct origin *origin);
/* When there may be credit again, if time is all that it waits for; else a past time. */
int64_t origin_until_us(const struct origin *origin);
/* Its limits, if they are not these already; `rate_us` 0: no rate. */
void origin_limit(struct origin *origin, uint32_t most, uint32_t rate_count, int64_t rate_us,
                  int64_t now_us);

/*
 * When a job should come again that was reserved and cannot be sent now: jobs are given back as far
 * apart as the receiver takes them, so each comes about once more. Up to an hour after breaker and
 * bucket allow it if a rate says how far; up to a minute if only deliveries so far do: then a job
 * comes once a minute.
 */
int64_t origin_slot(struct origin *origin, int64_t now_us);

/* Tells its breaker. When that closes, what the outage has taught is forgotten: slots that are far
   away, and how long deliveries took. */
enum breaker_change origin_outcome(struct origin *origin, bool unhealthy, int64_t now_us,
                                   uint32_t failures_max);

void origin_took(struct origin *origin, int64_t took_us); /* for the average */

#endif
