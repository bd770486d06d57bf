#include "base/budget.h"

enum { NS_PER_US = 1000 };

static void note_reading(struct budget *budget, int64_t reading_us)
{
    budget->meter->last_reading_us = reading_us;
    budget->meter->left_ns = budget->left_ns;
    budget->next_reading_ns = budget->left_ns - BUDGET_METER_NS;
}

void budget_read_meter(struct budget *budget)
{
    struct budget_meter *meter = budget->meter;
    int64_t now_us = meter->slow ? meter->cpu_us(meter) : meter->now_us(meter);
    if (meter->last_reading_us) {
        int64_t took_ns = (now_us - meter->last_reading_us) * NS_PER_US;
        int64_t beyond_ns = took_ns - (meter->left_ns - budget->left_ns);
        if (meter->slow && beyond_ns > 0) {
            budget->left_ns -= beyond_ns;
            meter->slow = BUDGET_SLOW_READINGS;
        } else if (meter->slow) {
            if (--meter->slow == 0)
                now_us = meter->now_us(meter);
        } else if (beyond_ns > BUDGET_METER_NS) { /* or another process used the processor */
            meter->slow = BUDGET_SLOW_READINGS;
            now_us = meter->cpu_us(meter);
        }
    }
    note_reading(budget, now_us);
}
