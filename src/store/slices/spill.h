/*
 * Spilling: while the cleaner empties the oldest segment of the log, jobs that may become far are
 * moved to slices. A run gathers copies of them, in three kinds (delayed, ready, buried), sorts
 * each kind by due time and writes slices. Only when a slice is on disk does the core remove its
 * jobs from memory, one by one (callbacks->depart); until then the record in the segment counts.
 *
 * If the gathered copies take more than store_options::spill_bytes and more than the memory that is
 * left below limits.memory_bytes, the run ends early and its slices are written before the cleaner
 * walks on; but only if there are enough jobs of some kind for a slice. Kinds with too few jobs are
 * kept for the next run.
 *
 *     gather (the cleaner walks) ─▶ build, write ─▶ depart ─▶ build the next … ─▶ done
 *                                         └──disk full──▶ given up: the jobs are relocated
 *
 * The disk's background thread sorts the jobs, and builds the slice while it writes it, piece by
 * piece; the main thread does not touch that memory meanwhile. The main thread copies records and
 * calls the core.
 */
#ifndef LATERD_STORE_SPILL_H
#define LATERD_STORE_SPILL_H

#include "core/event.h"

struct record;
struct segment;
struct spill;
struct store;

/* Work done by the cleaner in a step: jobs visited and bytes of their records (a job that leaves is
   visited twice: by the walk and when it departs), and bytes copied. */
struct clean_work {
    uint64_t jobs, bytes, copied;
};

/* Bytes that must be free, on the disk and below max_bytes, or no slice is made. */
uint64_t spill_room_bytes(const struct store *store);
/* Are they free, if so many bytes of the store's other files are removed before? */
bool spill_would_have_room(const struct store *store, uint64_t freed);

struct spill *spill_new(struct store *store);
void spill_free(struct spill *spill); /* NULL does nothing; not while busy */

/* Begins the first run of a segment: its jobs may be offered from now on. False: no job may leave
   the log now (log too small, no room on the disk, too many slices). */
bool spill_begin(struct spill *spill, const struct segment *segment);
/* Begins another run of the same segment. False: no job may leave the log now; the jobs kept from
   earlier runs are dropped from the gathered copies. */
bool spill_go_on(struct spill *spill, const struct segment *segment);
/* Should the run end now, because its copies take too much memory? O(1). */
bool spill_full(const struct spill *spill);
/* Bytes of memory of the gathered copies. O(1). */
uint64_t spill_gathered_bytes(const struct spill *spill);
/* Offers a JOB record at this place of the segment, whose body is intact. True: its job may become
   far, and a copy was gathered. False: the caller must relocate the record if it is live. Either
   way record->event may have become the state in which the job is now. */
bool spill_offer(struct spill *spill, struct record *record, struct stored place);
/*
 * Does a bounded piece of the run's work, and adds it to *work. True: the run is over. `last`: no
 * spill_go_on() follows, so jobs that are too few for a slice are not kept. *out_left: some jobs
 * may still be in the segment (they changed meanwhile, or the run was given up), so the segment
 * must be walked again.
 */
bool spill_turn(struct spill *spill, bool last, struct clean_work *work, bool *out_left);
/* When spill_turn() has work; INT64_MAX: it waits for the disk. */
int64_t spill_next_us(const struct spill *spill);
/* A window of SPILL_WINDOW bytes, aligned to BLOCK, for who reads a segment; to be returned, for
   the next segment: it is kept as other memory of a run is. Where there are no runs it goes when
   the cleaner rests. */
enum { SPILL_WINDOW = 1024 * 1024 };
char *spill_take_window(struct spill *spill);
void spill_keep_window(struct spill *spill, char *window);
/* Between runs: frees memory that was kept for the next run, if there was none for ten seconds or
   memory is short: 1 MiB in each call, because freeing that takes 0.1 ms or more. */
void spill_rest(struct spill *spill);
int64_t spill_rest_us(const struct spill *spill); /* when to call it; INT64_MAX: never */
bool spill_busy(const struct spill *spill);       /* a disk operation is under way */
/* The slice whose jobs callbacks->far_visited keeps from departing, or has kept until just now;
   NULL: there is none. */
const struct slice *spill_held_up(const struct spill *spill);
uint64_t spill_departed_bytes(const struct spill *spill); /* of records that left the segment */
uint64_t spill_departed_jobs(const struct spill *spill);  /* since opening */

#endif
