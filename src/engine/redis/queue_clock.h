/*
 * This daemon's estimate of a partition's clock. That clock is Redis' time plus the partition's
 * field `o`, the shift. Due times and ends of leases are by this clock, the queue's time.
 *
 * Redis' clock may leap, because it is set, or another server takes over. The daemon's clock does
 * not (port/clock.h). So each request has bounds of the times that the queue's clock can show, and
 * the script clamps its time to them: no job is early, whatever Redis' clock shows. If the time in
 * an answer was at a bound, the clock is read; if it has leapt, `o` is set so that the queue's time
 * continues as if it had not. So all daemons agree on it, also those that start later. Redis' new
 * time is never adopted, because clients see times by the daemons' clocks.
 *
 * Several daemons may disagree. A daemon's clock may stand still (its machine was stopped), but not
 * run ahead. So if another daemon has set the clock since, and what it set is ahead of our
 * estimate, we adopt the clock; but not if the clock shows more than is possible since then,
 * because then it has leapt once more. A daemon that has just started may have read a clock that
 * had leapt, so it adopts the clock if any other daemon has set it since. If none has, this daemon,
 * like one that the partition does not know any more because others considered it dead, gives
 * others HOLD_US to set the clock, while it keeps its bounds, and then adopts it. Any other daemon
 * sets the clock.
 *
 * Pure: time is an argument. "Ours" is the daemon's clock.
 */
#ifndef LATERD_ENGINE_REDIS_QUEUE_CLOCK_H
#define LATERD_ENGINE_REDIS_QUEUE_CLOCK_H

#include "engine/redis/script_answer.h"

enum { QUEUE_CLOCK_CLOSE_US = 10 * 1000 }; /* smaller differences of clocks are ignored */

struct queue_clock {
    bool known;
    bool may_have_stood_still;       /* the partition did not know us any more: see above */
    int64_t least_us, most_us;       /* bounds of how far the queue's clock is ahead of ours */
    int64_t agreed_us;               /* when the last answer within the bounds came; ours */
    int64_t agreed_sent_us;          /* when its request was sent: until then there was no leap */
    int64_t shift_us;                /* `o` */
    uint64_t set_count;              /* how often it was set */
    int64_t adopted_us;              /* when the estimate was adopted; ours */
    int64_t others_may_set_until_us; /* after a leap: other daemons may set it until then; 0: no */
    /* Slow answers since it has leapt, and what all of them together tell: bounds of how far Redis'
       own clock is ahead of ours, when the last one came (ours). */
    struct {
        unsigned count;
        int64_t least_us, most_us, read_us;
    } slow;
    /* TO_SET, and no answer since: the bounds before, which hold if it was not set, so that
       `set_count` is this one. */
    bool to_set;
    uint64_t to_set_count;
    int64_t unset_least_us, unset_most_us;
    /* How far we have set it back last, when (ours), how far Redis' own clock was ahead, and the
       count before. */
    struct {
        int64_t by_us, at_us, own_least_us, own_most_us;
        uint64_t set_count;
    } put_back;
};

/* Sets the bounds in a request that is sent now; none if nothing is known yet. */
void queue_clock_bound(const struct queue_clock *clock, int64_t now_us, struct script_call *call);

/* Does an answer contradict the estimate? */
enum queue_clock_suspect { CLOCK_AGREES, CLOCK_DRIFTS, CLOCK_LEAPT };

/*
 * Compares the estimate with an answer to `call`, not one from the ring: it was made at `queue_us`,
 * between `sent_us` and `read_us` by our clock. DRIFTS: the clock should be read sometime; LEAPT:
 * now.
 */
enum queue_clock_suspect queue_clock_compare(struct queue_clock *clock,
                                             const struct script_call *call, int64_t queue_us,
                                             int64_t sent_us, int64_t read_us);

/* The answer of a script that does not clamp its time. */
struct queue_clock_reading {
    struct script_clock clock;
    bool created;             /* the request created the partition: nobody else has set the clock */
    int64_t sent_us, read_us; /* ours; `read_us` is not before the answer came */
};

enum queue_clock_verdict {
    CLOCK_KEPT,    /* the estimate is right, or may be: read the clock again later */
    CLOCK_ADOPTED, /* nothing was known, or others set the clock: it is the estimate now */
    CLOCK_TO_SET,  /* it has leapt: add *out_by_us to the clock; the estimate expects that */
    CLOCK_TO_READ, /* it has leapt, but the answer was slow: read it again now */
};

/* *out_by_us (ADOPTED, TO_SET): the difference between clock and estimate; TO_SET: what must be
 * added to the clock. */
enum queue_clock_verdict queue_clock_read(struct queue_clock *clock,
                                          const struct queue_clock_reading *reading,
                                          int64_t *out_by_us);

#endif
