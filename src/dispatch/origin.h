/*
 * Receivers: a scheme, host and port, a Unix socket, or a place of a broker: an exchange with its
 * routing key, a topic, a subject, a key. Limits by receiver are kept here:
 * the number of deliveries under way, the circuit breaker, the pause that the receiver asked for,
 * and the rate. The same is kept for each key of a topic that has limits by key.
 *
 * An origin lives while a topic's target or a delivery uses it. The last ORIGINS_IDLE of the unused
 * ones are kept as well, and up to ORIGINS_IDLE_MOST while the oldest one still limits anything: so
 * breaker and rate survive a single delivery. Single-threaded.
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

enum { ORIGINS_IDLE = 1024, ORIGINS_IDLE_MOST = 8192 };

struct origin {
    uint32_t number; /* in origins::pool */
    uint32_t users;  /* lanes and deliveries */
    uint64_t hash;
    char *name; /* "https://example.com:443" */
    size_t name_len;
    uint32_t in_flight;
    uint32_t most; /* deliveries under way, at most */
    struct breaker breaker;
    struct bucket bucket; /* push.host_rate, or a key's rate */
    int64_t hold_us;      /* the receiver asked to send nothing before this time */
    int64_t slot_us;      /* the due time of the last job that was given back: origin_slot() */
    int64_t took_us;      /* mean duration of a delivery */
    struct list blocked;  // lane::place: lanes that wait for it, first come first
    struct list idle;     // origins::idle, while it has no users
    struct timer timer;   /* the owner's: when breaker or hold_us end */
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

/*
 * Appends the name of the receiver of a topic's target and (for HTTP) a URL. False: the URL has no
 * host. Each place of a broker (an exchange with a routing key, a topic, a subject) has a name
 * of its own: if one takes nothing (a stream without a leader, a queue without a majority), only
 * its breaker opens. Places that differ only by the keys of jobs share one name.
 */
bool origin_name(const struct target *target, struct bytes topic, struct bytes url,
                 struct buf *out_name);

/* The origin of this name, with one user more. A new one has `most` = 0. O(1). */
struct origin *origins_take(struct origins *origins, struct bytes name);
/* One user less; with no users left its timer must not be armed. Amortized O(1). */
void origins_give(struct origins *origins, struct origin *origin, int64_t now_us);

/* How many more deliveries may be sent to it now. */
uint32_t origin_credit(struct origin *origin, int64_t now_us);
/* A delivery was sent; a delivery has ended. */
void origin_sent(struct origin *origin);
void origin_ended(struct origin *origin);
/* When there may be credit again, if only time is missing; else a past time. */
int64_t origin_until_us(const struct origin *origin);
/* Sets its limits, if they differ: `rate_count` deliveries per `rate_us`; `rate_us` 0: no rate. */
void origin_limit(struct origin *origin, uint32_t most, uint32_t rate_count, int64_t rate_us,
                  int64_t now_us);

/*
 * The due time for a job that was reserved and cannot be sent now. Jobs are given back as far apart
 * as the receiver takes them, so that each is reserved about once more. The time is up to an hour
 * after breaker and bucket allow a delivery if the distance comes from a rate, and up to a minute
 * if it is only estimated from past deliveries.
 */
int64_t origin_slot(struct origin *origin, int64_t now_us);

/* Notes an answer for its breaker. When the breaker closes, slot_us and took_us are reset, because
   they were measured during the outage. */
enum breaker_change origin_outcome(struct origin *origin, bool unhealthy, int64_t now_us,
                                   uint32_t failures_max);

void origin_took(struct origin *origin, int64_t took_us); /* for the average */

#endif
