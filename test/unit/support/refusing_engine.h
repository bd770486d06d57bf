/*
 * An engine that refuses the next commands of a kind, as one in Redis may at any time. Included by
 * tests.
 */
#ifndef LATERD_TEST_REFUSING_ENGINE_H
#define LATERD_TEST_REFUSING_ENGINE_H

#include "port/engine.h"

static struct {
    const struct engine_verbs *real;
    struct engine_verbs verbs;
    enum cmd_kind kind;
    enum err err;
    unsigned left; /* so many more are refused */
} refusing;

static inline enum submitted refusing_submit(struct engine *engine, const struct cmd *cmd,
                                             struct ticket *ticket)
{
    if (cmd->kind != refusing.kind || refusing.left == 0)
        return refusing.real->submit(engine, cmd, ticket);
    refusing.left--;
    if (ticket)
        ticket->answered(ticket, &(struct reply){.err = refusing.err, .kind = cmd->kind});
    return SUBMIT_ANSWERED;
}

/* From now on, until the engine ends. */
static inline void refuse_next(struct engine *engine, enum cmd_kind kind, unsigned count,
                               enum err err)
{
    if (engine->verbs != &refusing.verbs)
        refusing.real = engine->verbs;
    refusing.verbs = *refusing.real;
    refusing.verbs.submit = refusing_submit;
    refusing.kind = kind;
    refusing.left = count;
    refusing.err = err;
    engine->verbs = &refusing.verbs;
}

#endif
