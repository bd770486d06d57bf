#include "base/budget.h"

enum { NS_PER_US = 1000 };

static void look_again(struct budget *budget, int64_t looked_us)
{
    budget->meter->looked_us = looked_us;
    budget->meter->left_ns = budget->left_ns;
    budget->look_ns = budget->left_ns - BUDGET_LOOK_NS;
}

void budget_look(struct budget *budget)
{
    struct budget_meter *meter = budget->meter;
    int64_t now_us = meter->slow ? meter->cpu_us(meter) : meter->now_us(meter);
    if (meter->looked_us) {
        int64_t took_ns = (now_us - meter->looked_us) * NS_PER_US;
        int64_t beyond_ns = took_ns - (meter->left_ns - budget->left_ns);
        if (meter->slow && beyond_ns > 0) {
            budget->left_ns -= beyond_ns;
            meter->slow = BUDGET_SLOW_LOOKS;
        } else if (meter->slow) {
            if (--meter->slow == 0)
                now_us = meter->now_us(meter);
        } else if (beyond_ns > BUDGET_LOOK_NS) { /* or somebody else had the processor */
            meter->slow = BUDGET_SLOW_LOOKS;
            now_us = meter->cpu_us(meter);
        }
    }
    look_again(budget, now_us);
}
