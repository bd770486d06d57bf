/*
 * Timers on a timing wheel: any number of `struct timer`, each embedded in another struct. A timer
 * is armed for a time and expires once, at or after that time, never before.
 *
 * Arming and cancelling are O(1). A timer that is armed costs 16 bytes beside itself. Times are
 * microseconds of the clock that the owner of the timers reads; they never go back.
 *
 * One thread. Pure.
 */
#ifndef LATERD_BASE_TIMERS_H
#define LATERD_BASE_TIMERS_H

#include "base/wheel.h"

struct timer {
    /* Called when the timer expires, after it was disarmed; may arm it again, or free it. */
    void (*expired)(struct timer *timer);
    int64_t at_us;   /* when it expires; not armed: the time that it was armed for last */
    uint32_t number; /* in timers::pool */
    bool armed;      /* false in a zeroed timer */
};

struct timers {
    struct pool pool; // struct timer_item, see timers.c
    struct wheel wheel;
};

/* Must not move while timers are armed. */
void timers_init(struct timers *timers, int64_t now_us);
void timers_fini(struct timers *timers); /* armed timers never expire */

/* Arms the timer for `at_us`, or again if it is armed. A past time: it expires in the next
   timers_expire(). INT64_MAX: the same as cancelling. */
void timer_arm(struct timers *timers, struct timer *timer, int64_t at_us);
void timer_cancel(struct timers *timers, struct timer *timer); /* if it is armed */

/* Arms the timer, unless it is armed for this time or an earlier one. */
void timer_arm_by(struct timers *timers, struct timer *timer, int64_t at_us);

static inline bool timer_is_armed(const struct timer *timer)
{
    return timer->armed;
}

/*
 * Takes the next timer that is due at `now_us` off the wheel and calls its `expired`. False: none
 * was due, or `*budget` steps of work were not enough to find one (`*budget` is 0 then, and this
 * should be called again). Lowers `*budget` by the steps taken, as wheel_pop does.
 */
bool timers_expire(struct timers *timers, int64_t now_us, uint32_t *budget);

/* When timers_expire() should be called next; may be earlier than the first timer, never later.
   INT64_MAX: no timer is armed. O(1). */
static inline int64_t timers_next_us(const struct timers *timers)
{
    return wheel_next_us(&timers->wheel);
}

/* Frees a chunk of memory of timers that are no longer armed. True: there is more. */
static inline bool timers_trim(struct timers *timers)
{
    return pool_trim(&timers->pool);
}

#endif
