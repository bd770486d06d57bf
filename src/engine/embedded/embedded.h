/*
 * The embedded engine: core and store behind port/engine.h. It is where promise P1 is kept: a
 * reply to a change is held here until the batch that holds the change is durable, and becomes
 * ERR_STORE_FAILED if it never will be (P7).
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
    const char *directory;      /* of the store, for people who ask; NULL: not told. Borrowed */
    enum durability durability; /* of changes that do not say; never DEFAULT */
    uint64_t hash_key;
    /*
     * Without a disk, where leases begin (0 is 1): random, so that no process gives the lease of an
     * earlier one again. A store knows which were given.
     */
    uint64_t lease_first;
    int64_t now_us;          /* when it is opened; later */
    const struct loop *loop; /* says what time it is; borrowed */
    /* Called while the store is opened, as store_callbacks::progress, which may end it; NULL:
       nobody is told. It may run turns of the loop, but for those of this engine. */
    enum err (*opening)(void *owner, const struct store_opening *opening);
    void *opening_owner;
};

/* Opens the store and replays it. On failure out_error says why, for people. */
enum err embedded_open(const struct embedded_options *options, struct embedded **out_embedded,
                       struct store_error *out_error) MUST_USE;
/*
 * Answers what is still held, closes the store cleanly: another process may open it then. Only
 * embedded_close() may follow, which takes 50 ms for each million jobs that it frees. NULL does
 * nothing.
 */
void embedded_leave(struct embedded *embedded);
/* Leaves the store, if that has not been done, and frees all. NULL does nothing. */
void embedded_close(struct embedded *embedded);

/* How the log is written to a journal. */
struct embedded_journal {
    struct journal *journal; /* borrowed until embedded_close() */
    bool before;             /* replies to changes wait until it has committed them */
    bool refuse;             /* too late: pushes are refused; false: it is given up */
    uint64_t max_lag_bytes;
    int64_t max_lag_us;
};

/*
 * From now on the journal is given every change. Waits for the disk: before the first turn. There
 * must be a store. Errors as follower_open().
 */
enum err embedded_follow(struct embedded *embedded,
                         const struct embedded_journal *options) MUST_USE;

/* Who brings the journal to what the queue holds; NULL: there is no journal. */
struct journal_control *embedded_journal_control(struct embedded *embedded);

struct engine *embedded_engine(struct embedded *embedded);

/* For metrics, statistics and tests; borrowed. The store is NULL without a disk. */
const struct core *embedded_core(const struct embedded *embedded);
const struct store *embedded_store(const struct embedded *embedded);
/* Replies that wait for the disk: for a commit, or for bodies. */
uint64_t embedded_waiting_replies(const struct embedded *embedded);

#endif
