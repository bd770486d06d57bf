/*
 * Jobs come back from the journal of a queue in Redis: port/restore.h, in the daemon that writes
 * the journal. The rows are read by the journal itself (journal_verbs::restore); here is what is of
 * Redis:
 *
 *     all:  begin in each partition ─▶ MySQL has its entries up to there ─▶ rows are read ─▶ end
 *
 * From begin to end each job that ends in a partition, by whichever daemon, leaves word there
 * (scripts/restore.lua), and a row's push is left out in the same step in which that is looked for.
 * Rows whose job this queue named by its number are pushed under an id, which has another
 * partition: so that of the number is asked first.
 *
 * Nothing of this depends on clocks or leases. Whoever takes the journal over ends what goes on in
 * each partition; pushes that come late then are refused.
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
/* No run is there any more. */
void redis_restore_fini(struct redis_restore *restore);
void redis_restore_start(struct redis_restore *restore);
/* The feed asks Redis how much waits in that partition. */
void redis_restore_looks(struct redis_restore *restore, uint32_t partition);
/* Is a restore of all under way, which must know that soon? */
bool redis_restore_goes_on(const struct redis_restore *restore);
/* Each time that the feed looks. */
void redis_restore_look(struct redis_restore *restore);
/* We write the journal from now on: what others have left goes. */
void redis_restore_opened(struct redis_restore *restore);
/* The journal is closed: what is under way ends with an error. */
void redis_restore_closed(struct redis_restore *restore);

#endif
