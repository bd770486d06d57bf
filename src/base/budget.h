/*
 * How much more work may be done before other connections must be served, in nanoseconds of
 * processor time.
 *
 * The cost of work is estimated in advance, at the loop that does it: the core reads no clock, and
 * a simulated life must be the same each time. A loop whose length a client decides charges each
 * step, stops when the budget is spent, and leaves the rest to the next turn. One step may overdraw
 * the budget, so steps must be small. A loop that comes after others in its stage does one step
 * even if they have spent everything, so that it makes progress.
 *
 * On a machine with slow memory, work takes several times the estimate. So a budget can have a
 * meter, which reads a clock after each BUDGET_METER_NS of estimated work and charges the time that
 * passed beyond the estimate. The thread cannot have used more processor time than has passed: as
 * long as the whole turn has taken less than half of the budgets that were begun in it, a budget
 * that such charges have used up gets back what is left of that half, though never more than the
 * estimates have left of it. Beyond that, another process may have had the processor for some of
 * the time. So the thread's processor time is read, and the charged time that the thread did not
 * use itself is credited back. If there is no earlier reading in the stage to compare with, the
 * budget becomes half of what the estimates alone would have left.
 *
 * A reading is a system call, so it is made only when the turn has used its time. A reading to
 * compare with is made before that, when the turn has half of the time left that the stage may
 * need: after another reading in the same turn, and in BUDGET_SAMPLED_TURNS turns from one on in
 * which the thread itself used up a budget.
 */
#ifndef LATERD_BASE_BUDGET_H
#define LATERD_BASE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define BUDGET_UNLIMITED (INT64_MAX / 2) /* for tests, recovery and the end */

enum {
    BUDGET_METER_NS = 50 * 1000,
    BUDGET_SAMPLED_TURNS = 20, /* one in which the thread's own work used up a budget, and more */
};

struct budget_meter {
    /* Any clock that costs next to nothing to read. */
    int64_t (*now_us)(struct budget_meter *meter);
    /* The thread's processor time: a system call. */
    int64_t (*cpu_us)(struct budget_meter *meter);
    int64_t last_reading_us; /* the last reading of `now_us`; 0: none since budget_begin() */
    int64_t last_left_ns;    /* of the budget, then, or at budget_begin() */
    int64_t charged_ns;      /* beyond the estimate, by `now_us`, since budget_begin() */
    int64_t turn_end_ns;     /* when, by `now_us`, the turn will have taken half of the budgets that
                                were begun in it */
    int64_t last_cpu_us;     /* the last reading of `cpu_us`; 0: none since budget_begin() */
    int64_t estimated_ns;    /* of work since that reading, less what was charged before it */
    unsigned sampled_turns;  /* in so many turns, this one included, `cpu_us` is read to compare
                                with */
};

struct budget {
    int64_t left_ns;
    int64_t next_reading_ns;    /* the next reading is due when this much is left */
    struct budget_meter *meter; /* NULL: only estimates count */
    int64_t excluded_next_ns;   /* what excluded work takes of the next turn at most */
};

/* A new turn begins at `now_us` by the meter's clock. */
static inline void budget_begin_turn(struct budget *budget, int64_t now_us)
{
    if (budget->meter) {
        budget->meter->turn_end_ns = now_us * 1000;
        if (budget->meter->sampled_turns)
            budget->meter->sampled_turns--;
    }
}

/* Starts a budget of `ns`. Reads no clock: the first BUDGET_METER_NS are charged as estimated, so
   that each stage does some work, however long those before it took. */
static inline void budget_begin(struct budget *budget, int64_t ns)
{
    struct budget_meter *meter = budget->meter;
    if (meter) {
        meter->last_left_ns = ns;
        meter->last_reading_us = meter->last_cpu_us = meter->charged_ns = 0;
        meter->turn_end_ns += ns / 2;
    }
    budget->left_ns = ns;
    budget->next_reading_ns = meter ? ns - BUDGET_METER_NS : INT64_MIN;
}

/* For budget_spend(): charges the time beyond the estimate. Does nothing without a meter. */
void budget_read_meter(struct budget *budget);

/* Does not charge the time since the last reading: that work has a limit of its own, which was
   announced in the turn before, and will take at most `next_ns` of the next turn. */
static inline void budget_exclude_elapsed(struct budget *budget, int64_t next_ns)
{
    struct budget_meter *meter = budget->meter;
    if (meter) {
        meter->last_reading_us = meter->last_cpu_us = meter->charged_ns = 0;
        meter->turn_end_ns += budget->excluded_next_ns;
    }
    budget->excluded_next_ns = next_ns;
}

static inline void budget_spend(struct budget *budget, int64_t cost_ns)
{
    budget->left_ns -= cost_ns;
    if (budget->left_ns <= budget->next_reading_ns)
        budget_read_meter(budget);
}

static inline bool budget_spent(const struct budget *budget)
{
    return budget->left_ns <= 0;
}

#endif
