/*
 * A resync of the journal of a queue in Redis, in the daemon that writes it: each job is entered as
 * it is (scripts/resync.lua), and so is that no job of an unfinished row is there; with these
 * entries, which come between those of changes, MySQL gets what the queue holds.
 *
 * Nothing stops for it. The scripts make no more entries than MySQL takes.
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
/* No call is under way any more. NULL does nothing. */
void redis_resync_free(struct redis_resync *all);
/* As journal_control_verbs have them. */
enum err redis_resync_begin(struct redis_resync *all, const char **out_why);
void redis_resync_status(const struct redis_resync *all, struct resync_status *out_status);
/* Each time that the feed looks. */
void redis_resync_look(struct redis_resync *all);
/* The journal's cursor is known; the database says whether one goes on. */
void redis_resync_joined(struct redis_resync *all);
/* The journal is to be closed. `opens_again`: it was fenced, and this daemon opens another one,
   with which a resync that is under way begins again; else that has failed, unless it is what has
   the journal opened again. */
void redis_resync_closed(struct redis_resync *all, bool opens_again);
/* Entries come all the time. */
bool redis_resync_goes_on(const struct redis_resync *all);
/* The journal that is opened next begins a resync: its cursor is set, whatever it was. */
bool redis_resync_wants(const struct redis_resync *all);
void redis_resync_describe(const struct redis_resync *all, struct metric_sink *sink);

#endif
