/*
 * A resync of the journal of a queue in Redis, in the daemon that writes it: the scripts make an
 * entry for each job (scripts/resync.lua), and for each unfinished row whose job does not exist.
 * With these entries, among those of changes, MySQL gets the contents of the queue.
 *
 * The queue is served meanwhile. The scripts make no more entries than MySQL can take.
 */
#ifndef LATERD_ENGINE_REDIS_JOURNAL_RESYNC_H
#define LATERD_ENGINE_REDIS_JOURNAL_RESYNC_H

#include "engine/redis/script_request.h"
#include "port/journal.h"
#include "port/journal_control.h"

struct redis_journal_feed;
struct redis_resync;

/* Lives as long as the feed. */
struct redis_resync *redis_resync_new(struct redis_journal_feed *feed);
/* No call may be under way. NULL does nothing. */
void redis_resync_free(struct redis_resync *resync);
/* As journal_control_verbs have them. */
enum err redis_resync_begin(struct redis_resync *resync, const char **out_why);
void redis_resync_status(const struct redis_resync *resync, struct resync_status *out_status);
/* To be called in each step of the feed. */
void redis_resync_look(struct redis_resync *resync);
/* The journal's cursor is known: continues a resync that the database has noted. */
void redis_resync_joined(struct redis_resync *resync);
/* The journal will be closed. `opens_again`: it was fenced, and this daemon opens another one, with
   which a running resync begins again. Else a running resync fails, unless the journal is closed
   for the resync itself. */
void redis_resync_closed(struct redis_resync *resync, bool opens_again);
/* True: a resync is running, so that new entries come all the time. */
bool redis_resync_is_running(const struct redis_resync *resync);
/* True: the journal that is opened next must begin a resync, which sets its cursor. */
bool redis_resync_wants(const struct redis_resync *resync);
void redis_resync_describe(const struct redis_resync *resync, struct metric_sink *sink);

#endif
