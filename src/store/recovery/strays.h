/*
 * For `later salvage`: far jobs that were found at any offset of a damaged block, and may be in the
 * body of another one, which a client has written. Pure.
 */
#ifndef LATERD_STORE_STRAYS_H
#define LATERD_STORE_STRAYS_H

#include "base/arena.h"
#include "core/event.h"

struct stray;
struct stray_seq;

struct strays {
    uint64_t seq_end; /* the store has given out no number from this on; 0: not known */
    uint32_t *slices; /* those in which there are such jobs */
    size_t slice_count, slice_cap;
    struct stray *jobs; /* those with an id; after strays_sort() by id, then number */
    size_t count, cap;
    struct arena ids;
    struct stray_seq *seqs; /* strays_sort(): the same jobs by number */
};

/* Can it be a number of the store? Another one would use up those of the new store. */
bool strays_believes(const struct strays *strays, uint64_t seq);

void strays_note_slice(struct strays *strays, uint32_t number);
/* Does nothing if the job has no id. */
void strays_add(struct strays *strays, const struct event *event);
void strays_sort(struct strays *strays);
/*
 * Of two jobs with one id that of the higher number is right, but not if a client may have written
 * it. True: a stray hides the known job of the event, and is forgotten; *out_seq is its number. A
 * stray with the event's own number is replaced by it, and is forgotten, too.
 */
bool strays_hides(struct strays *strays, const struct event *event, uint64_t *out_seq);
void strays_fini(struct strays *strays);

#endif
