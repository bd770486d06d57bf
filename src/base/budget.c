#include "base/budget.h"

enum { NS_PER_US = 1000 };

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void read_cpu(struct budget_meter *meter)
{
    meter->last_cpu_us = meter->cpu_us(meter);
    meter->estimated_ns = 0;
}

/* The clock has used the budget up. What of that the thread did not use itself, it gets back; if
 * there is no earlier reading in this turn to compare with, all of it. */
static void check_charged(struct budget *budget)
{
    struct budget_meter *meter = budget->meter;
    int64_t before_us = meter->last_cpu_us, estimated_ns = meter->estimated_ns, beyond_ns = 0;
    read_cpu(meter);
    if (before_us)
        beyond_ns = larger((meter->last_cpu_us - before_us) * NS_PER_US - estimated_ns, 0);
    budget->left_ns += larger(meter->charged_ns - beyond_ns, 0);
    if (beyond_ns > meter->charged_ns / 2)
        meter->sampled_turns = BUDGET_SAMPLED_TURNS;
    meter->charged_ns = 0;
}

void budget_read_meter(struct budget *budget)
{
    struct budget_meter *meter = budget->meter;
    int64_t now_us = meter->now_us(meter), estimated_ns = meter->last_left_ns - budget->left_ns;
    meter->estimated_ns += estimated_ns;
    if (!meter->last_cpu_us && meter->sampled_turns) {
        meter->sampled_turns--;
        read_cpu(meter);
    }
    if (meter->last_reading_us) {
        int64_t beyond_ns = larger((now_us - meter->last_reading_us) * NS_PER_US - estimated_ns, 0);
        budget->left_ns -= beyond_ns;
        meter->charged_ns += beyond_ns;
    }
    if (budget->left_ns <= 0 && meter->charged_ns)
        check_charged(budget);
    meter->last_reading_us = now_us;
    meter->last_left_ns = budget->left_ns;
    /* Once the budget is used up by estimate, what was charged beyond it is checked. */
    budget->next_reading_ns = larger(budget->left_ns - BUDGET_METER_NS, 0);
    if (budget->left_ns <= 0)
        budget->next_reading_ns = budget->left_ns - BUDGET_METER_NS;
}
