/*
 * Reservations of beanstalkd clients. In that protocol a job is named by its number only and
 * belongs to the connection that reserved it, so the server keeps the lease for the client. A
 * reservation here may outlive the engine's (the ttr ran out, or the job was finished over HTTP):
 * the engine then refuses the lease. Look-ups are O(1), all else O(log reservations of the
 * connection).
 */
#ifndef LATERD_SERVER_BEANSTALK_RESERVATIONS_H
#define LATERD_SERVER_BEANSTALK_RESERVATIONS_H

#include "base/discard.h"
#include "base/map.h"
#include "base/pool.h"
#include "core/cmd.h"

struct beanstalk_reservation {
    struct beanstalk_holder *holder;
    uint32_t place;  /* in the holder's heap */
    uint32_t number; /* in beanstalk_reservations::pool */
    uint64_t seq;
    uint64_t lease;
    int64_t ttr_us;
    int64_t until_us;
    uint64_t end; /* where its answer ends, as session_end() counts; 0: it has surely arrived */
};

/* What is kept of a reservation while a command that ends it is under way. */
struct beanstalk_lease {
    uint64_t seq;
    uint64_t lease; /* 0: there was no reservation */
    int64_t ttr_us, until_us;
};

/* What one connection holds: a heap, the reservation that ends first at its top. Zeroed is
   empty. */
struct beanstalk_holder {
    struct beanstalk_reservation **heap;
    uint32_t count;
    uint32_t cap;
};

/* All reservations of all connections, by job. */
struct beanstalk_reservations {
    struct pool pool;
    struct map by_seq;
};

void beanstalk_reservations_init(struct beanstalk_reservations *reservations);
void beanstalk_reservations_fini(struct beanstalk_reservations *reservations);

/*
 * The holder has reserved the job. An older reservation of the job, of any client, is stale now and
 * is dropped (P4). `end` is UINT64_MAX until the caller sets it.
 */
struct beanstalk_reservation *beanstalk_reservations_add(
    struct beanstalk_reservations *reservations, struct beanstalk_holder *holder,
    const struct job_view *job);
/* The holder's reservation of this job, or NULL. The holder may be NULL: it holds nothing. */
struct beanstalk_reservation *beanstalk_reservations_find(
    const struct beanstalk_reservations *reservations, const struct beanstalk_holder *holder,
    uint64_t seq);
void beanstalk_reservations_extend(struct beanstalk_reservation *reservation, int64_t until_us);
void beanstalk_reservations_drop(struct beanstalk_reservations *reservations,
                                 struct beanstalk_reservation *reservation);

/* The job was touched over HTTP: whoever holds it here holds it until then. */
void beanstalk_reservations_touched(struct beanstalk_reservations *reservations,
                                    const struct job_view *job);

/* The end of the reservation was refused, and its lease is good still: the holder has it again, if
   nobody reserved the job meanwhile. `lease` 0: does nothing. */
void beanstalk_reservations_put_back(struct beanstalk_reservations *reservations,
                                     struct beanstalk_holder *holder,
                                     const struct beanstalk_lease *lease);

/* One of the holder's whose ttr has run out, or NULL. The holder may be NULL, too. O(1). */
static inline struct beanstalk_reservation *beanstalk_reservations_ended(
    const struct beanstalk_holder *holder, int64_t now_us)
{
    bool ended = holder && holder->count && holder->heap[0]->until_us <= now_us;
    return ended ? holder->heap[0] : NULL;
}
/* The reservation that ends first, after those whose ttr has run out are dropped; or NULL. The
   holder may be NULL, too. */
struct beanstalk_reservation *beanstalk_reservations_soonest(
    struct beanstalk_reservations *reservations, struct beanstalk_holder *holder, int64_t now_us);

/* It must be empty. What it had is given back by `discard`. */
void beanstalk_holder_fini(struct beanstalk_holder *holder, struct discard *discard);
/* CHECKs the heap's order and places. O(reservations). */
void beanstalk_holder_valid(const struct beanstalk_holder *holder);

#endif
