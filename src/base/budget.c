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

/* The charged time that others had the processor, since the last reading of `cpu_us`. */
static int64_t read_time_of_others(struct budget_meter *meter)
{
    int64_t before_us = meter->last_cpu_us, estimated_ns = meter->estimated_ns;
    read_cpu(meter);
    int64_t own_ns = (meter->last_cpu_us - before_us) * NS_PER_US - estimated_ns;
    return meter->charged_ns - larger(own_ns, 0);
}

/* When a stage reads the clock for the first time: it is compared with its own time alone. */
static void read_cpu_at_first_look(struct budget_meter *meter)
{
    if (!meter->last_cpu_us) {
        if (!meter->sampled_turns)
            return;
        meter->sampled_turns--;
    }
    read_cpu(meter);
}

/* The budget is used up by what was charged: gives back what the thread did not use itself. */
static void check_charged(struct budget *budget)
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
    meter->charged_ns = 0;
}

void budget_read_meter(struct budget *budget)
{
    struct budget_meter *meter = budget->meter;
    int64_t now_us = meter->now_us(meter), estimated_ns = meter->last_left_ns - budget->left_ns;
    meter->estimated_ns += estimated_ns;
    if (!meter->last_reading_us) {
        read_cpu_at_first_look(meter);
    } else {
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
