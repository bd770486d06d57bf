/*
 * Every command goes through server_submit(), whatever its protocol; nothing else in server/ calls
 * the engine's submit or cancel (tools/banned-code.txt). So everything that depends on the client
 * is here: counting, and admit() in door.c, which may refuse. Permissions and quotas would go into
 * admit(); `struct principal` would then say more of the client, and what a kind of command
 * requires would be a column of cmd_table (core/cmd.c).
 *
 * Here a push also gets the retry schedule and ttr of its topic's settings if it has none of its
 * own, and a reserve on a topic with a target is refused (ERR_PUSHED_TOPIC). Both use the registry
 * of settings, in memory.
 */
#ifndef LATERD_SERVER_DOOR_H
#define LATERD_SERVER_DOOR_H

#include <stdbool.h>

#include "base/err.h"
#include "port/engine.h"
#include "server/protocol.h"

struct server;

/* The sender of commands. Each session has one from its beginning. */
struct principal {
    enum protocol_kind protocol;            /* PROTOCOL_KINDS: the server itself */
    const struct server_listener *listener; /* where the connection came in; NULL: the server */
    /* Its name in the history of jobs that it reserves; NULL: no history is kept. Must stay in
       place until everything that it submitted is answered or cancelled. */
    const char *name;
};

/* The server itself, which gives back jobs, restores them, and takes those that brokers bring. */
extern const struct principal principal_server;

/*
 * Executes the command, or refuses it; engine_verbs::submit says how and when it is answered. What
 * this principal may not do, or the server does not accept now, is answered at once (ERR_DRAINING:
 * pushes are refused). `ticket` NULL: the answer is not needed. Single-threaded; O(1) besides the
 * engine's work.
 */
enum submitted server_submit(struct server *server, const struct principal *principal,
                             const struct cmd *cmd, struct ticket *ticket);

/* True: the topic has a target, so that clients cannot reserve its jobs. */
bool server_is_pushed(struct server *server, struct bytes topic);

/* The answer is no longer needed: none comes, and a parked reserve takes no job (P6). */
void server_cancel(struct server *server, struct ticket *ticket);

/* OK, or why pushes are refused now, for all clients. */
enum err server_health(const struct server *server);

/* OK, or ERR_MEMORY_LIMIT: nothing that stays for long may be added now. */
enum err server_admit_memory(const struct server *server);

#endif
