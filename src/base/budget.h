/*
 * How much more work may be done before other connections must be served, in nanoseconds of
 * processor time. Single-threaded; all calls are O(1).
 *
 * The cost of work is estimated in advance, at the loop that does it: the core reads no clock, and
 * a simulated life must be the same each time. A loop whose length a client decides charges each
 * step, stops when the budget is spent, and leaves the rest to the next turn. One step may overdraw
 * the budget, so steps must be small. A loop that comes after others in its stage does one step
 * even if they have spent everything, so that it makes progress.
 *
 * On a machine with slow memory, work takes several times the estimate. So a budget can have a
 * meter, which reads the clock after each BUDGET_METER_NS of estimated work. If more time has
 * passed than was estimated, it also reads the thread's processor time from then on, and charges
 * what the work took beyond the estimate.
 */
#ifndef LATERD_BASE_BUDGET_H
#define LATERD_BASE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define BUDGET_UNLIMITED (INT64_MAX / 2) /* for tests, recovery and shutdown */

enum {
    BUDGET_METER_NS = 50 * 1000,
    BUDGET_SLOW_READINGS = 100, /* readings without excess before work counts as fast again */
};

struct budget_meter {
    int64_t (*now_us)(
        struct budget_meter *meter); /* any clock that costs next to nothing to read */
    int64_t (*cpu_us)(struct budget_meter *meter); /* the thread's processor time: a system call */
    int64_t
        last_reading_us; /* the last reading of the clock in use; 0: none since budget_begin() */
    int64_t left_ns;     /* of the budget, at that reading */
    unsigned
        slow; /* how many more readings use `cpu_us`, because work took longer than estimated */
};

struct budget {
    int64_t left_ns;
    int64_t next_reading_ns;    /* the next reading is due when this much is left */
    struct budget_meter *meter; /* NULL: only estimates count */
    int64_t excluded_next_ns;   /* how much of the next turn excluded work will take at most */
};

/* Starts a budget of `ns`. Reads no clock: the first BUDGET_METER_NS are charged as estimated, so
   that each stage does some work, however long those before it took. */
static inline void budget_begin(struct budget *budget, int64_t ns)
{
    budget->left_ns = ns;
    budget->next_reading_ns = ns - BUDGET_METER_NS;
    if (budget->meter)
        budget->meter->last_reading_us = 0;
}

/* For budget_spend(): reads the meter's clock, and charges what work took beyond its estimate. */
void budget_read_meter(struct budget *budget);

/* Does not charge the time since the last reading: the work done in it has a limit of its own. In
   the next turn it will take at most `next_ns`. */
static inline void budget_exclude_elapsed(struct budget *budget, int64_t next_ns)
{
    budget->excluded_next_ns = next_ns;
    if (budget->meter)
        budget->meter->last_reading_us = 0;
}

/* Charges a step of work that is estimated at `cost_ns`. */
static inline void budget_spend(struct budget *budget, int64_t cost_ns)
{
    budget->left_ns -= cost_ns;
    if (budget->meter && budget->left_ns <= budget->next_reading_ns)
        budget_read_meter(budget);
}

static inline bool budget_spent(const struct budget *budget)
{
    return budget->left_ns <= 0;
}

#endif
