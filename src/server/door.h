/*
 * The one door between those who ask and the queue: every command of the program goes through
 * server_submit(), whoever asks by whatever protocol, and nothing else calls the engine's submit or
 * cancel. So this is the place for what depends on who asks: permission, quota, counting.
 */
#ifndef LATERD_SERVER_DOOR_H
#define LATERD_SERVER_DOOR_H

#include "base/err.h"
#include "port/engine.h"
#include "server/protocol.h"

struct server;

enum peer_kind {
    PEER_CLIENT, /* of a listener */
    PEER_SERVER, /* we ourselves: a job comes back whose client has gone */
};

/* Who asks. Each session has one from its beginning on; a tenant will be named here. */
struct principal {
    enum peer_kind peer;
    enum protocol_kind protocol;            /* PEER_SERVER: PROTOCOL_KINDS, none */
    const struct server_listener *listener; /* PEER_CLIENT: where the connection came in */
};

/*
 * Does the command, or refuses it: engine_verbs::submit says what is answered, and when. What this
 * principal may not do, or the server does not take now, is answered at once (ERR_DRAINING: pushes
 * are refused). `ticket` NULL: nobody wants to know. One thread; O(1) besides the engine's work.
 */
enum submitted server_submit(struct server *server, const struct principal *principal,
                             const struct cmd *cmd, struct ticket *ticket);

/* Nobody waits for it any more: no answer comes, a parked reserve takes no job (P6). */
void server_cancel(struct server *server, struct ticket *ticket);

/* OK, or why pushes are not taken now, whoever asks. */
enum err server_health(const struct server *server);

/* OK, or ERR_MEMORY_LIMIT: nothing that is kept for long may be added now. */
enum err server_admit_memory(const struct server *server);

#endif
