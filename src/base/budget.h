/*
 * The work that may still be done before other connections must be served, in nanoseconds of CPU.
 *
 * What work costs is estimated beforehand, at the loop that does it, and not measured: the core
 * reads no clock, and a simulated life must be the same twice. A loop whose length a client decides
 * spends for each step, stops when the budget is spent, and leaves the rest to the next turn. One
 * step may overdraw it; so a step must be small.
 */
#ifndef LATERD_BASE_BUDGET_H
#define LATERD_BASE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define BUDGET_UNLIMITED (INT64_MAX / 2) /* for tests, recovery and the end */

struct budget {
    int64_t left_ns;
};

static inline void budget_spend(struct budget *budget, int64_t cost_ns)
{
    budget->left_ns -= cost_ns;
}

static inline bool budget_spent(const struct budget *budget)
{
    return budget->left_ns <= 0;
}

#endif
