/* How long to rest before the next attempt, while attempts fail. Pure; any thread; O(1). */
#ifndef LATERD_BASE_BACKOFF_H
#define LATERD_BASE_BACKOFF_H

#include <stdint.h>

/* The rest behind one of `last`: twice as long, but not longer than `most`. In one unit, below half
   of what 63 bits hold. */
static inline int64_t backoff_after(int64_t last, int64_t most)
{
    return last * 2 < most ? last * 2 : most;
}

#endif
