/*
 * The wheel links objects of a pool by number, and timers are embedded in other objects: so each
 * armed timer has a small item in the pool, which points to it.
 *
 * Invariant: a timer is armed if, and only if, its item is on the wheel and points to it.
 */
#include "base/timers.h"

#include "base/check.h"

struct timer_item {
    uint32_t prev, next; /* the wheel's */
    struct timer *timer;
};

static int64_t due_us(const void *ctx, const void *item)
{
    (void)ctx;
    return ((const struct timer_item *)item)->timer->at_us;
}

void timers_init(struct timers *timers, int64_t now_us)
{
    pool_init(&timers->pool, sizeof(struct timer_item));
    wheel_init(&timers->wheel, &timers->pool, offsetof(struct timer_item, prev), due_us, NULL,
               now_us);
}

void timers_fini(struct timers *timers)
{
    pool_fini(&timers->pool);
}

static void free_item(struct timers *timers, struct timer *timer)
{
    timer->armed = false;
    pool_give(&timers->pool, timer->number);
}

void timer_cancel(struct timers *timers, struct timer *timer)
{
    if (!timer->armed)
        return;
    wheel_remove(&timers->wheel, timer->number);
    free_item(timers, timer);
}

void timer_arm(struct timers *timers, struct timer *timer, int64_t at_us)
{
    CHECK(timer->expired);
    if (timer->armed && timer->at_us == at_us)
        return;
    timer_cancel(timers, timer);
    if (at_us == INT64_MAX)
        return;
    timer->at_us = at_us;
    timer->armed = true;
    timer->number = pool_take(&timers->pool);
    struct timer_item *item = pool_at(&timers->pool, timer->number);
    item->timer = timer;
    wheel_add(&timers->wheel, timer->number);
}

void timer_arm_by(struct timers *timers, struct timer *timer, int64_t at_us)
{
    if (!timer->armed || at_us < timer->at_us)
        timer_arm(timers, timer, at_us);
}

bool timers_expire(struct timers *timers, int64_t now_us, uint32_t *budget)
{
    uint32_t number = wheel_pop(&timers->wheel, now_us, budget);
    if (number == POOL_NONE)
        return false;
    struct timer_item *item = pool_at(&timers->pool, number);
    struct timer *timer = item->timer;
    CHECK(timer->armed && timer->number == number && timer->at_us <= now_us);
    free_item(timers, timer);
    timer->expired(timer);
    return true;
}
