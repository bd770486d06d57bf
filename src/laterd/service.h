/*
 * What laterd serves with: the engine, the sinks and the server on top. Without an election they
 * exist from start to end. With one ([member]) they exist while we lead; at other times there is a
 * server that waits (engine/waiting), and refuses all commands.
 *
 * While the opening of a store takes longer than OPENING_US, such a waiting server answers HTTP
 * with the progress. Clients of other protocols wait in the sockets' backlogs until it serves.
 *
 * In an election:
 *
 *     WAITING ──we lead──▶ opening ──all is open──▶ SERVING
 *        ▲                    │                        │
 *        │                    │ it failed              │ the deadline has passed
 *        │                    ▼                        │
 *        └─all have ended─ LEAVING ◀───────────────────┘
 *
 * LEAVING: threads that may hang end in later turns, first those of the sinks (`leaving`), then
 * that of the journal (`journal_us`). Until then nothing is opened, and a lead is given back. An
 * opening that failed because another process has the store locked is tried again soon; if the
 * store's epoch is above ours, the member raises ours first.
 */
#ifndef LATERD_LATERD_SERVICE_H
#define LATERD_LATERD_SERVICE_H

#include "engine/waiting/waiting.h"
#include "laterd/command_line.h"
#include "laterd/engine.h"
#include "laterd/listeners.h"
#include "laterd/member_log.h"
#include "laterd/recovering.h"
#include "os/loop.h"

struct service {
    struct command_line *line; /* these four are borrowed */
    struct platform *platform;
    struct os_loop *loop;
    struct listeners *listeners;
    struct laterd_engine engine;
    struct waiting_engine waiting;
    struct server *server;        /* NULL: not yet */
    bool leaving;                 /* the sinks were stopped, and are not closed yet */
    struct server *former_server; /* LEAVING: the one that led; NULL: none did */
    struct sink *former_webhook;  /* LEAVING: its webhook sink; or NULL */
    int64_t leaving_since_us;     /* LEAVING: its beginning; os_boot_us() */
    int64_t journal_us;           /* LEAVING: since the journal's thread is waited for; or 0 */
    int64_t leaving_logged_us;    /* LEAVING: when leaving_long was logged last; or 0 */
    struct recovering recovering; /* of the store that is being opened */
    int64_t last_turn_us;         /* while a store is opened: of the last turn; os_boot_us() */
    int64_t notified_us;          /* the same: of the last notification of systemd */
    uint64_t epoch;               /* SERVING in an election: our epoch; else 0 */
    int64_t open_at_us;           /* WAITING: do not open before this time */
    bool locked_logged;           /* store_locked was logged */
    struct member_log member_log;
    bool member_dirty; /* the member has changed since member_log_update() */
    int64_t log_at_us; /* when to call member_log_update() again */
};

/* Opens everything and serves, or begins to wait. Returns 0, or the exit status, with the reason on
   standard error; call service_end() in either case. A stop signal while a store is being recovered
   ends the process. */
int service_begin(struct service *service) MUST_USE;

/*
 * In an election: begins to serve, or stops, as the member says. To be called after each turn, and
 * when member::changed was called. Waits only for the recovery of a store; meanwhile the waiting
 * server goes on, and a stop signal ends the process. Returns when it must be called next;
 * INT64_MAX: after the next turn.
 */
int64_t service_update(struct service *service);

/* Frees the server, resigns, so that others may lead, and closes the rest. If a sink's thread has
   not ended after five seconds, all jobs are given back, the engine is closed and the process exits
   with `status`: then it does not return. */
void service_end(struct service *service, int status);

#endif
