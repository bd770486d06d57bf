#include "base/budget.h"

enum { NS_PER_US = 1000 };

void budget_look(struct budget *budget)
{
    struct budget_meter *meter = budget->meter;
    int64_t now_us = meter->now_us(meter);
    if (meter->looked_us) {
        int64_t took_ns = (now_us - meter->looked_us) * NS_PER_US;
        int64_t estimated_ns = meter->left_ns - budget->left_ns;
        if (took_ns > estimated_ns)
            budget->left_ns -= took_ns - estimated_ns;
    }
    meter->looked_us = now_us;
    meter->left_ns = budget->left_ns;
    budget->look_ns = budget->left_ns - BUDGET_LOOK_NS;
}
