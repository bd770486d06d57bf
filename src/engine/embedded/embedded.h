/*
 * The embedded engine: core and store behind port/engine.h. It keeps promise P1: the reply to a
 * change waits here until the batch with the change is durable, and becomes ERR_STORE_FAILED if it
 * never will be (P7). Single-threaded.
 */
#ifndef LATERD_ENGINE_EMBEDDED_EMBEDDED_H
#define LATERD_ENGINE_EMBEDDED_EMBEDDED_H

#include "core/core.h"
#include "port/engine.h"
#include "port/journal.h"
#include "port/loop.h"
#include "store/store.h"

struct embedded;

struct embedded_options {
    struct core_limits limits;
    struct store_options store; /* .disk NULL: keep nothing on disk, bodies stay in memory */
    const char *directory;      /* of the store, shown in statistics; NULL: not shown. Borrowed */
    enum durability durability; /* of changes without a setting of their own; never DEFAULT */
    uint64_t hash_key;
    /*
     * Without a disk: the first lease number (0 means 1). Random, so that no process reuses a lease
     * of an earlier one. With a disk, the store knows which leases were used.
     */
    uint64_t lease_first;
    int64_t now_us;          /* the time while it is opened; afterwards … */
    const struct loop *loop; /* … loop::now_us; borrowed */
    /* Called while the store is opened, as store_callbacks::progress: an error ends the opening. It
       may run turns of the loop, but not of this engine. NULL: not called. */
    enum err (*opening)(void *owner, const struct store_opening *opening);
    void *opening_owner;
};

/* Opens the store and replays it. Errors as store_open(), without a disk none; out_error says why,
   for people. Waits for the disk. O(bytes of the log). */
enum err embedded_open(const struct embedded_options *options, struct embedded **out_embedded,
                       struct store_error *out_error) MUST_USE;
/*
 * Answers all waiting commands and closes the store cleanly, so that another process may open it.
 * Only embedded_close() may follow, which takes 50 ms per million jobs to free them. NULL does
 * nothing.
 */
void embedded_stop(struct embedded *embedded);
/* Calls embedded_stop(), if that has not been done, and frees everything. NULL does nothing. */
void embedded_close(struct embedded *embedded);

/* How the changes in the log are written to a journal. */
struct embedded_journal {
    struct journal *journal; /* borrowed until embedded_close() */
    bool before;             /* replies to changes wait until the journal has committed them */
    bool refuse;             /* above the lag limit pushes are refused; false: it is given up */
    uint64_t max_lag_bytes;
    int64_t max_lag_us;
};

/*
 * From now on every change is given to the journal. Must be called before the first turn, because
 * it waits for the disk. There must be a store. Errors as follower_open().
 */
enum err embedded_follow(struct embedded *embedded,
                         const struct embedded_journal *options) MUST_USE;

/* The journal's health and resync; NULL: there is no journal. */
struct journal_control *embedded_journal_control(struct embedded *embedded);

/* The port; valid until embedded_close(). */
struct engine *embedded_engine(struct embedded *embedded);

/* For metrics, statistics and tests; borrowed. The store is NULL without a disk. */
const struct core *embedded_core(const struct embedded *embedded);
const struct store *embedded_store(const struct embedded *embedded);
/* The number of replies that wait for a commit, or for bodies from the disk. */
uint64_t embedded_waiting_replies(const struct embedded *embedded);

#endif
