/*
 * A run: far jobs that leave the log while its oldest segment is cleaned. They are gathered, sorted
 * by due time, delayed, ready and buried ones apart, written to slices, and only when a slice is on
 * disk the core is asked, job by job, to let go of them: until then they live where they were.
 *
 * When what is gathered takes half of the memory that was left (limits.memory_bytes), and more than
 * store_options::spill_bytes, those jobs go first, and the cleaner walks on: if there are enough of
 * a kind for a slice, for until then it takes what memory it needs. Of a kind of which there are
 * too few they are kept for the next run.
 *
 *     gather (the cleaner walks) ─▶ build, write ─▶ depart ─▶ build the next … ─▶ done
 *                                         └──no room──▶ given up: they are relocated
 *
 * To sort them and to build the slice is work of the disk's thread, which writes it: what it reads
 * and writes is nobody else's meanwhile. The main thread copies records, and asks the core.
 */
#ifndef LATERD_STORE_SPILL_H
#define LATERD_STORE_SPILL_H

#include "core/event.h"

struct record;
struct segment;
struct spill;
struct store;

/* Jobs that were gone through, and bytes of their records: a job is walked over, and departs. Of
   the bytes, those that the turn has copied. */
struct clean_work {
    uint64_t jobs, bytes, copied;
};

struct spill *spill_new(struct store *store);
void spill_free(struct spill *spill); /* NULL does nothing; not while busy */

/* Jobs of this segment may be offered from now on. False: none may leave the log now. */
bool spill_begin(struct spill *spill, const struct segment *segment);
/* The same for more jobs of the segment that was begun with. False: none may leave, and
   those that were kept are dropped. */
bool spill_go_on(struct spill *spill, const struct segment *segment);
/* What was taken is to go before more is offered. */
bool spill_full(const struct spill *spill);
/* Memory that what was taken takes. */
uint64_t spill_gathered_bytes(const struct spill *spill);
/* The job's record, at this place of the segment, is live perhaps; its body is good. True: it is
   taken. */
bool spill_offer(struct spill *spill, const struct record *record, struct stored place);
/*
 * Goes on with what was taken: a bounded piece of work, added to *work. True: it is over. `last`:
 * no spill_go_on() follows, so what is not enough for a slice is not kept.
 * *out_left: some jobs are still where they were, and must be relocated.
 */
bool spill_turn(struct spill *spill, bool last, struct clean_work *work, bool *out_left);
/* When spill_turn() has something to do; INT64_MAX: the disk is at it. */
int64_t spill_next_us(const struct spill *spill);
/* Between runs: gives memory back that was kept for the next one, if that has not come for long, or
   memory is short: a MiB at a time, for the system takes 0.1 ms and more for that. */
void spill_rest(struct spill *spill);
int64_t spill_rest_us(const struct spill *spill);         /* wants that then; or INT64_MAX */
bool spill_busy(const struct spill *spill);               /* the disk writes for it */
bool spill_held_up(const struct spill *spill);            /* by who visits a topic's jobs */
uint64_t spill_departed_bytes(const struct spill *spill); /* of records that left the segment */
uint64_t spill_departed_jobs(const struct spill *spill);  /* since opening */

#endif
