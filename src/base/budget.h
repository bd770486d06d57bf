/*
 * The work that may still be done before other connections must be served, in nanoseconds of
 * processor time.
 *
 * What work costs is estimated beforehand, at the loop that does it: the core reads no clock, and a
 * simulated life must be the same twice. A loop whose length a client decides spends for each step,
 * stops when the budget is spent, and leaves the rest to the next turn. One step may overdraw it;
 * so a step must be small. A loop that comes behind others of its stage does one step though they
 * have spent all: else it would get nothing for as long as they have work.
 *
 * Where memory is slow, work takes several times the estimate. So a budget can have a meter: the
 * clock is looked at each BUDGET_LOOK_NS of estimated work. If more time has gone by than
 * estimated, the thread's processor time is looked at from then on, and what the work takes of it
 * beyond the estimate is spent, too.
 */
#ifndef LATERD_BASE_BUDGET_H
#define LATERD_BASE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define BUDGET_UNLIMITED (INT64_MAX / 2) /* for tests, recovery and the end */

enum {
    BUDGET_LOOK_NS = 50 * 1000,
    BUDGET_SLOW_LOOKS = 100, /* as estimated, before work counts as fast again */
};

struct budget_meter {
    int64_t (*now_us)(
        struct budget_meter *meter); /* any clock that costs next to nothing to read */
    int64_t (*cpu_us)(struct budget_meter *meter); /* the thread's processor time: a system call */
    int64_t looked_us; /* by the clock that is looked at; 0: not yet since budget_begin() */
    int64_t left_ns;   /* of the budget at that time */
    unsigned slow;     /* work took longer than estimated: looks for which `cpu_us` is looked at */
};

struct budget {
    int64_t left_ns;
    int64_t look_ns;            /* the clock is looked at when so much is left */
    struct budget_meter *meter; /* NULL: the estimates are believed */
    int64_t beside_ns; /* of the next turn so much at most is taken by work that was left out */
};

/* So much may be spent from here on. Reads no clock: the first BUDGET_LOOK_NS go by the estimate,
 * so that each stage does some work, whatever those before it took. */
static inline void budget_begin(struct budget *budget, int64_t ns)
{
    budget->left_ns = ns;
    budget->look_ns = ns - BUDGET_LOOK_NS;
    if (budget->meter)
        budget->meter->looked_us = 0;
}

void budget_look(struct budget *budget);

/* What was done since the last look has a bound of its own: it is not spent from this budget. In
 * the next turn it takes `next_ns` at most, whatever is planned for that. */
static inline void budget_leave_out(struct budget *budget, int64_t next_ns)
{
    budget->beside_ns = next_ns;
    if (budget->meter)
        budget->meter->looked_us = 0;
}

static inline void budget_spend(struct budget *budget, int64_t cost_ns)
{
    budget->left_ns -= cost_ns;
    if (budget->meter && budget->left_ns <= budget->look_ns)
        budget_look(budget);
}

static inline bool budget_spent(const struct budget *budget)
{
    return budget->left_ns <= 0;
}

#endif
