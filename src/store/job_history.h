/*
 * What happened to jobs, if options.history_us is not 0: adds to it, and finds it by a job's id.
 */
#ifndef LATERD_STORE_JOB_HISTORY_H
#define LATERD_STORE_JOB_HISTORY_H

#include "store/store.h"

/* Records it, if options.history_us is not 0, together with the events of the same command.
   O(1). */
void store_history_add(struct store *store, const struct happening *happening);

/*
 * What happened to the jobs that had an id. The caller sets `ref`, `max`, `done` and `owner`, and
 * must not move the struct from store_history_find() to store_history_find_end().
 */
struct history_find {
    struct job_ref ref; /* a number finds only a job without a client's id */
    uint32_t max; /* number of the newest entries, at least 1; fewer are returned if their texts are
                     long */
    /* Called once when it has ended, from store_turn(); may call only store_history_find_end().
     * `err` is set, and on OK all below it, valid until store_history_find_end(). */
    void (*done)(struct history_find *find);
    void *owner;    /* for done */
    enum err err;   /* out: OK, ERR_IO */
    uint32_t count; /* out */
    bool more;      /* out: there may be older ones */
    bool damaged;   /* out: some may be missing, because a file cannot be read or is gone */
    const struct happening *happenings; /* out: the oldest first */
    struct history_search *search;      /* the store's */
};

/* At most one read of the disk for each history file, by its threads; O(files). */
void store_history_find(struct store *store, struct history_find *find);
/* Frees what it brought; if it has not ended, it never will. Does nothing to an ended one. */
void store_history_find_end(struct store *store, struct history_find *find);

#endif
