/*
 * Tests that cut the power, flip a bit or fail a call at each point in turn try every SIM_EVERY-th
 * point, and all of them if it is not set. `make sanitize` sets it: a life takes twenty times as
 * long there, and what the sanitizers look for is in the code that each life runs. So tests that
 * play a number of lives play a tenth of them then, and two at least.
 */
#ifndef LATERD_TEST_EVERY_H
#define LATERD_TEST_EVERY_H

#include <stdlib.h>

static inline unsigned sim_every(void)
{
    static unsigned every;
    if (!every) {
        const char *text = getenv("SIM_EVERY");
        every = text ? (unsigned)strtoul(text, NULL, 10) : 1;
        every = every ? every : 1;
    }
    return every;
}

static inline unsigned sim_lives(unsigned all)
{
    unsigned some = all / 10 < 2 ? 2 : all / 10;
    return sim_every() == 1 || all < some ? all : some;
}

#endif
