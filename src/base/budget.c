#include "base/budget.h"

enum { NS_PER_US = 1000 };

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What was charged before counts as the thread's own. */
static void read_cpu(struct budget_meter *meter)
{
    meter->last_cpu_us = meter->cpu_us(meter);
    meter->estimated_ns = -meter->charged_ns;
    if (!meter->sampled_turns)
        meter->sampled_turns = 1;
}

/* The charged time that others had the processor. */
static int64_t read_time_of_others(struct budget_meter *meter)
{
    int64_t before_us = meter->last_cpu_us, estimated_ns = meter->estimated_ns;
    read_cpu(meter);
    int64_t own_ns = (meter->last_cpu_us - before_us) * NS_PER_US - estimated_ns;
    return meter->charged_ns - larger(own_ns, 0);
}

/* Charges have used the budget up, and the turn its time: gives back what the thread did not use
 * itself. */
static void credit_others(struct budget *budget)
{
    struct budget_meter *meter = budget->meter;
    if (meter->last_cpu_us) {
        int64_t credit_ns = larger(read_time_of_others(meter), 0);
        budget->left_ns += credit_ns;
        if (credit_ns < meter->charged_ns / 2)
            meter->sampled_turns = BUDGET_SAMPLED_TURNS;
    } else { /* unknown who used the time: half of what the estimates alone would have left stays */
        read_cpu(meter);
        budget->left_ns = (budget->left_ns + meter->charged_ns) / 2;
    }
    meter->charged_ns = meter->estimated_ns = 0;
}

/* Gives back what was charged, as far as the turn has time. */
static void take_turn_time(struct budget *budget, int64_t turn_left_ns)
{
    int64_t left_ns = smaller(budget->left_ns + budget->meter->charged_ns, turn_left_ns);
    budget->meter->charged_ns -= left_ns - budget->left_ns;
    budget->left_ns = left_ns;
}

void budget_read_meter(struct budget *budget)
{
    struct budget_meter *meter = budget->meter;
    if (!meter)
        return;
    int64_t now_us = meter->now_us(meter), estimated_ns = meter->last_left_ns - budget->left_ns;
    int64_t turn_left_ns = meter->turn_end_ns - now_us * NS_PER_US;
    meter->estimated_ns += estimated_ns;
    if (meter->last_reading_us) {
        int64_t beyond_ns = larger((now_us - meter->last_reading_us) * NS_PER_US - estimated_ns, 0);
        budget->left_ns -= beyond_ns;
        meter->charged_ns += beyond_ns;
    }
    bool used_up = budget->left_ns <= 0 && budget->left_ns + meter->charged_ns > 0;
    if (used_up && turn_left_ns > 0)
        take_turn_time(budget, turn_left_ns);
    else if (used_up)
        credit_others(budget);
    else if (meter->sampled_turns && !meter->last_cpu_us && turn_left_ns < budget->left_ns / 2)
        read_cpu(meter);
    meter->last_reading_us = now_us;
    meter->last_left_ns = budget->left_ns;
    /* Once the budget is used up by estimate, what was charged beyond it is checked. */
    budget->next_reading_ns = larger(budget->left_ns - BUDGET_METER_NS, 0);
    if (budget->left_ns <= 0)
        budget->next_reading_ns = budget->left_ns - BUDGET_METER_NS;
}
