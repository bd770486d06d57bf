/*
 * Who holds which job over the beanstalkd protocol. There a job is named by its number alone and
 * belongs to the connection that reserved it, so the server keeps the lease on the client's behalf.
 *
 * A hold may outlive its reservation (the ttr ran out, somebody finished the job over HTTP): the
 * engine then refuses the lease, which is the proof. Finding one is O(1), all else O(log holds of
 * the connection).
 */
#ifndef LATERD_SERVER_BEANSTALK_RESERVATIONS_H
#define LATERD_SERVER_BEANSTALK_RESERVATIONS_H

#include "base/map.h"
#include "base/pool.h"
#include "core/cmd.h"

struct beanstalk_hold {
    struct beanstalk_held *holder;
    uint32_t place;  /* in the holder's heap */
    uint32_t number; /* in beanstalk_holds::pool */
    uint64_t seq;
    uint64_t lease;
    int64_t ttr_us;
    int64_t until_us;
    uint64_t end; /* where its answer ends, as session_end() counts; 0: it has surely arrived */
};

/* What one connection holds: a heap, the hold that ends first at its top. Zeroed is empty. */
struct beanstalk_held {
    struct beanstalk_hold **heap;
    uint32_t count;
    uint32_t cap;
};

/* All holds of all connections, by job. */
struct beanstalk_holds {
    struct pool pool;
    struct map by_seq;
};

void beanstalk_holds_init(struct beanstalk_holds *holds);
void beanstalk_holds_fini(struct beanstalk_holds *holds);

/*
 * The holder has reserved the job. An older hold on it, whoever's, is stale by that and goes (P4).
 * `end` is UINT64_MAX until the caller knows better.
 */
struct beanstalk_hold *beanstalk_holds_add(struct beanstalk_holds *holds,
                                           struct beanstalk_held *holder,
                                           const struct job_view *job);
/* The holder's hold on this job, or NULL. The holder may be NULL: it holds nothing. */
struct beanstalk_hold *beanstalk_holds_find(const struct beanstalk_holds *holds,
                                            const struct beanstalk_held *holder, uint64_t seq);
void beanstalk_holds_extend(struct beanstalk_hold *hold, int64_t until_us);
void beanstalk_holds_drop(struct beanstalk_holds *holds, struct beanstalk_hold *hold);

/* The hold that ends first, after those whose ttr has run out are dropped; or NULL. The same. */
struct beanstalk_hold *beanstalk_holds_soonest(struct beanstalk_holds *holds,
                                               struct beanstalk_held *holder, int64_t now_us);

void beanstalk_held_fini(struct beanstalk_held *holder); /* it must be empty */
void beanstalk_held_valid(const struct beanstalk_held *holder);

#endif
