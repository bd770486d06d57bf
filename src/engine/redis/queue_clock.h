/*
 * What a daemon knows of a partition's clock, the queue's time there: Redis' own time, moved by the
 * partition's field `o`. Due times and ends of leases are by this clock.
 *
 * Redis' clock may leap: somebody sets it, or another server takes over. The daemon's own does not
 * (port/clock.h), so it says with each request which times the queue's clock can show, and the
 * script keeps to that: nothing is early, whatever Redis' clock shows. If an answer was at one of
 * these bounds, the clock is asked for; if it has leapt, `o` is set so that the queue's time goes
 * on as if it had not. So all daemons, and those that start later, agree on it, and Redis' new time
 * is never adopted: there is no need, since clients see times by the daemons' clocks.
 *
 * Whom to believe: a daemon's clock may stand still (its machine was stopped), but not run ahead.
 * So if another has set the clock since, and what it showed then is ahead of what we believe now,
 * we believe that one; but not if the clock shows more than it can since then, for it has leapt
 * once more. A daemon that has just come may have read a clock that had leapt: it
 * believes any other that has set it since. If none has, it, and one that others took for dead, so
 * that the partition does not know it any more, give others HOLD_US to set it, in which they keep
 * their bounds, and then believe the clock. Any other daemon sets it right itself.
 *
 * Pure: time is an argument. "Ours" is the daemon's clock.
 */
#ifndef LATERD_ENGINE_REDIS_QUEUE_CLOCK_H
#define LATERD_ENGINE_REDIS_QUEUE_CLOCK_H

#include "engine/redis/script.h"

enum { QUEUE_CLOCK_CLOSE_US = 10 * 1000 }; /* clocks that differ by less are taken for one */

struct queue_clock {
    bool known;
    bool may_have_stood_still; /* the partition did not know us any more: see above */
    int64_t least_us, most_us; /* the queue's clock is ahead of ours by something between these */
    int64_t agreed_us;         /* when an answer agreed last with that; ours */
    int64_t agreed_sent_us;    /* when that was asked for: Redis' own clock had not leapt by then */
    int64_t shift_us;          /* `o` */
    uint64_t set_count;        /* how often it was set */
    int64_t adopted_us;        /* when we began to believe it; ours */
    int64_t others_may_set_until_us; /* a leap was seen, which others may know better; 0: none */
};

/* Puts the bounds into a request that is sent now. Nothing is known yet: it has none. */
void queue_clock_bound(const struct queue_clock *clock, int64_t now_us, struct script_call *call);

/* How sure an answer makes it that the queue's clock is not where we believe it. */
enum queue_clock_suspect { CLOCK_AGREES, CLOCK_DRIFTS, CLOCK_LEAPT };

/*
 * An answer to `call`, that is not one kept from before: it was made at `queue_us`, between when
 * the call was sent and when the answer was read, both by our clock. DRIFTS: the clock should be
 * asked for sometime; LEAPT: now.
 */
enum queue_clock_suspect queue_clock_heard(struct queue_clock *clock,
                                           const struct script_call *call, int64_t queue_us,
                                           int64_t sent_us, int64_t read_us);

/* The answer of a script that does not hold its time between bounds. */
struct queue_clock_reading {
    struct script_clock told;
    int64_t sent_us, read_us; /* ours; read not before the answer had come */
};

enum queue_clock_verdict {
    CLOCK_KEPT,    /* it is where we believed it, or may be, and is to be asked again later */
    CLOCK_ADOPTED, /* it was not known, or others set it: we believe it from now on */
    CLOCK_TO_SET,  /* it has leapt, and is to be set by *out_by_us, which is then believed */
};

/* *out_by_us (ADOPTED, TO_SET): how far it is from where we believed it; TO_SET: with the sign
 * that sets it right. */
enum queue_clock_verdict queue_clock_read(struct queue_clock *clock,
                                          const struct queue_clock_reading *reading,
                                          int64_t *out_by_us);

#endif
