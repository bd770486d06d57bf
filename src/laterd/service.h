/*
 * What laterd serves with: the engine, what jobs are sent by, and the server on top. Without an
 * election it is there from the start to the end. With one ([member]) it is there while we lead;
 * before, between and after there is a server that waits (engine/waiting).
 *
 * While a store is opened for longer than a moment, a server like the one that waits answers HTTP:
 * how far it is. Others wait in the queues of their sockets until it serves.
 *
 *     WAITING ──leads──▶ store locked: tried again; epoch too low: raised ──▶ SERVING
 *        ▲                                                                     │
 *        └──────────── the deadline has passed, or it cannot be opened ◀───────┘
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
    struct server *server; /* NULL: not yet */
    bool leaving;          /* the sinks have been told to end, and have not been closed */
    struct server *left;   /* LEAVING: the one that led, until they have ended; NULL: none led */
    struct sink *left_webhook;    /* the same: the webhooks'; or NULL */
    int64_t left_us;              /* LEAVING: since then; os_boot_us() */
    int64_t journal_us;           /* the same of the journal, whose thread has not ended; or 0 */
    int64_t leaving_told_us;      /* the same: when it was last told that it takes so long; or 0 */
    struct recovering recovering; /* of the store that is being opened */
    int64_t turned_us, told_us;   /* while it is: the last turn, and word to the manager; times of
                                     os_boot_us() */
    uint64_t epoch;               /* SERVING in an election: with this one; else 0 */
    int64_t open_at_us;           /* WAITING: not before this */
    bool said_locked;             /* it was logged that the store is */
    struct member_log member_log;
    bool member_news;  /* since it was looked at last */
    int64_t log_at_us; /* when it wants to look by itself */
};

/* Opens all there is to serve with, or begins to wait. 0, or the exit status of a start that
   failed, which was said on standard error; end it all the same. A stop signal while a store is
   being recovered ends the process. */
int service_begin(struct service *service) MUST_USE;

/*
 * With an election: begins to serve, or stops, as the member says. After each turn, and when
 * member::changed is called; waits for nothing but the recovery of a store, while which the server
 * that waits goes on, and a stop signal ends the process. Returns when it wants
 * to be called next; INT64_MAX: after the next turn.
 */
int64_t service_look(struct service *service);

/* The server is freed, the engine closed; then others may lead. If a sink's thread has not ended
   after five seconds the engine is closed all the same, and the process exits with `status`: it
   does not return. */
void service_end(struct service *service, int status);

#endif
