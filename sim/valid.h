/*
 * How often a test that takes thousands of steps looks at a whole structure (store_valid(),
 * core_valid()): after each, but under the sanitizers after every 17th. There such a look takes ten
 * times as long, it was up to two thirds of a test, and what the steps leave is looked at after
 * each by the same test without sanitizers. A prime number: a loop that looks at two places has its
 * turn at both.
 */
#ifndef LATERD_SIM_VALID_H
#define LATERD_SIM_VALID_H

#include <stdbool.h>

#ifdef __SANITIZE_ADDRESS__
enum { VALID_EVERY = 17 };
#else
enum { VALID_EVERY = 1 };
#endif

/* True: look now. */
static inline bool valid_now(void)
{
    static unsigned steps;
    return steps++ % VALID_EVERY == 0;
}

#endif
