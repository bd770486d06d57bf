/*
 * Restores jobs of a queue in Redis from its journal: port/restore.h, in the daemon that writes the
 * journal. The journal itself reads the rows (journal_verbs::restore); this file does Redis' part:
 *
 *     all:  begin in each partition ─▶ MySQL has its entries up to there ─▶ rows are read ─▶ end
 *
 * From begin to end each job that ends in a partition, by any daemon, is recorded there
 * (scripts/restore.lua), and the push of a row is skipped, in the same script call that checks this
 * record. Rows whose job has a number of this queue are pushed with an id, which may be in another
 * partition: so the number's partition is asked first.
 *
 * This does not depend on clocks or leases. A daemon that takes over the journal ends restores in
 * each partition; pushes of them that come later are refused.
 */
#ifndef LATERD_ENGINE_REDIS_JOURNAL_RESTORE_H
#define LATERD_ENGINE_REDIS_JOURNAL_RESTORE_H

#include "engine/redis/script_request.h"
#include "port/journal.h"

struct redis_journal_feed;
struct restore_stream; /* a partition's */

struct redis_restore {
    struct restore restore;
    struct redis_journal_feed *feed;
    struct restore_stream *streams; /* NULL: not started */
    struct list runs;               // restore_run::place
    char why[240];                  /* see restore_verbs::begin */
};

void redis_restore_init(struct redis_restore *restore, struct redis_journal_feed *feed);
/* All runs must be closed. */
void redis_restore_fini(struct redis_restore *restore);
void redis_restore_start(struct redis_restore *restore);
/* To be called when the feed asks Redis for the lag of the partition. */
void redis_restore_looks(struct redis_restore *restore, uint32_t partition);
/* True: a restore of all jobs is under way, which needs the lag often. */
bool redis_restore_is_running(const struct redis_restore *restore);
/* To be called in each step of the feed. */
void redis_restore_look(struct redis_restore *restore);
/* We are the writer from now on: ends restores that others have left. */
void redis_restore_opened(struct redis_restore *restore);
/* The journal is closed: restores under way end with an error. */
void redis_restore_closed(struct redis_restore *restore);

#endif
