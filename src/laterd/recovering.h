/*
 * The progress of opening a store, and an estimate of the time left, as text: for /readyz, for
 * refused requests, and for the service manager. Pure: times are arguments, of a monotonic clock.
 */
#ifndef LATERD_LATERD_RECOVERING_H
#define LATERD_LATERD_RECOVERING_H

#include "store/store.h"

enum { RECOVERING_ROOM = 128 };

/* Zeroed: no progress is known yet. */
struct recovering {
    int64_t begun_us;          /* time of the first recovering_note(); 0: none yet */
    int64_t part_us;           /* when the current part (the log, or the indexes) began */
    struct store_opening part; /* the progress at part_us */
    char text[RECOVERING_ROOM];
};

/* Notes the progress, and updates `text`. */
void recovering_note(struct recovering *recovering, const struct store_opening *opening,
                     int64_t now_us);

#endif
