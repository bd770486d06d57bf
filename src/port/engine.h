/*
 * What the server needs of a queue, wherever it lives: the embedded engine (core + store, in
 * server/embedded) or a shared one (redis/). Commands go in, each is answered once.
 */
#ifndef LATERD_PORT_ENGINE_H
#define LATERD_PORT_ENGINE_H

#include "core/cmd.h"

struct engine {
    const struct engine_verbs *verbs;
};

/*
 * One command under way. Owned by the asker; must stay until `answered` was called or cancel()
 * returned.
 */
struct ticket {
    void (*answered)(struct ticket *ticket, const struct reply *reply);
    uint64_t engine_word; /* the engine's own */
    void *engine_next;
};

struct engine_verbs {
    /* Does the command; `answered` comes now or later. Nothing of `cmd` is kept. */
    void (*submit)(struct engine *engine, const struct cmd *cmd, struct ticket *ticket);
    /* The asker has gone: a parked reserve takes no job; no answer comes (P6). */
    void (*cancel)(struct engine *engine, struct ticket *ticket);
};

#endif
