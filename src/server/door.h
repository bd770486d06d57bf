/*
 * Every command goes through server_submit(), by whatever protocol it came, and nothing else in
 * server/ calls the engine's submit or cancel (tools/banned-code.txt). So what depends on the
 * client stands here: counting, and admit() in door.c, which may refuse. Permissions and quotas,
 * when there are some, go into admit(); `struct principal` then says more of the client, and what a
 * kind of command needs becomes a column of cmd_table (core/cmd.c).
 *
 * Here a push gets what its topic's settings say and it does not: retry schedule and ttr; and a
 * reserve on a topic with a target is refused (ERR_PUSHED_TOPIC). Both look into the registry of
 * settings, in memory.
 */
#ifndef LATERD_SERVER_DOOR_H
#define LATERD_SERVER_DOOR_H

#include <stdbool.h>

#include "base/err.h"
#include "port/engine.h"
#include "server/protocol.h"

struct server;

/* Who sends commands. Each session has one from its beginning on. */
struct principal {
    enum protocol_kind protocol; /* PROTOCOL_KINDS: the server itself, which gives back jobs */
    const struct server_listener *listener; /* where the connection came in; NULL: the server */
    const char *name; /* for the history of jobs that it reserves; NULL: nobody keeps one. Stays
                         where it is until all that it has sent is answered or cancelled */
};

/*
 * Does the command, or refuses it: engine_verbs::submit says what is answered, and when. What this
 * principal may not do, or the server does not take now, is answered at once (ERR_DRAINING: pushes
 * are refused). `ticket` NULL: nobody wants to know. One thread; O(1) besides the engine's work.
 */
enum submitted server_submit(struct server *server, const struct principal *principal,
                             const struct cmd *cmd, struct ticket *ticket);

/* Has the topic a target, so that clients cannot reserve its jobs? */
bool server_is_pushed(struct server *server, struct bytes topic);

/* Nobody waits for it any more: no answer comes, a parked reserve takes no job (P6). */
void server_cancel(struct server *server, struct ticket *ticket);

/* OK, or why pushes are not taken now, whoever asks. */
enum err server_health(const struct server *server);

/* OK, or ERR_MEMORY_LIMIT: nothing that is kept for long may be added now. */
enum err server_admit_memory(const struct server *server);

#endif
