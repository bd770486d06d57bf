/*
 * port/engine.h for a laterd that does not serve. It waits to lead: every command is refused with
 * ERR_NOT_LEADER, and the reply has the leader's URL, if it is known. Or it reads its store: every
 * command is refused with ERR_RECOVERING and the progress. Single-threaded; all calls are O(1).
 */
#ifndef LATERD_ENGINE_WAITING_WAITING_H
#define LATERD_ENGINE_WAITING_WAITING_H

#include "port/engine.h"
#include "port/member.h"

struct waiting_engine {
    struct engine engine;
    const struct member *member; /* borrowed; NULL: it always recovers */
    const char *own;             /* borrowed: our URL, or "": a leader with this URL is ourselves */
    const char *recovers; /* the progress of the recovery, borrowed; NULL: it waits to lead */
    char why[MEMBER_URL_MAX + MEMBER_WHY_MAX];
};

/* `own`: the URL where clients reach us, or "". */
void waiting_init(struct waiting_engine *waiting, const struct member *member, const char *own);

/* Sets the progress of the recovery, a text (borrowed); NULL: it waits to lead again. */
void waiting_recovers(struct waiting_engine *waiting, const char *how_far);

#endif
