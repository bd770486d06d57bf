/*
 * How far the opening of a store is, and how long it will still take, in words: for /readyz, the
 * refusals meanwhile, and the service manager. Told the time, by a clock that nobody sets.
 */
#ifndef LATERD_LATERD_RECOVERING_H
#define LATERD_LATERD_RECOVERING_H

#include "store/store.h"

enum { RECOVERING_ROOM = 128 };

/* Zeroed: nothing is known yet. */
struct recovering {
    int64_t begun_us;          /* since when it has been told how far it is; 0: it has not */
    int64_t part_us;           /* … in this part: the log, or the indexes, … */
    struct store_opening part; /* … and how far it was then */
    char text[RECOVERING_ROOM];
};

/* It is so far now. `text` is up to date after that. */
void recovering_note(struct recovering *recovering, const struct store_opening *opening,
                     int64_t now_us);

#endif
