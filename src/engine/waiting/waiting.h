/*
 * port/engine.h of a laterd that does not serve yet. It waits for its turn to lead: every command
 * is refused with ERR_NOT_LEADER, and the reply says where the leader is, if that is known. Or it
 * reads its store: ERR_RECOVERING, and how far it is.
 */
#ifndef LATERD_ENGINE_WAITING_WAITING_H
#define LATERD_ENGINE_WAITING_WAITING_H

#include "port/engine.h"
#include "port/member.h"

struct waiting_engine {
    struct engine engine;
    const struct member *member; /* borrowed; NULL: it always recovers */
    const char *own;      /* borrowed: our URL, by which a leader's is known as ours; or "" */
    const char *recovers; /* borrowed; NULL: it waits for its turn */
    char why[MEMBER_URL_MAX + MEMBER_WHY_MAX];
};

/* `own`: where clients reach us, or "". */
void waiting_init(struct waiting_engine *waiting, const struct member *member, const char *own);

/* From now on it recovers, and is so far; NULL: it waits for its turn again. */
void waiting_recovers(struct waiting_engine *waiting, const char *how_far);

/* "the leader is http://…", why there is none, or how far it is: a clause, good until the next
   call. */
const char *waiting_why(struct waiting_engine *waiting);

#endif
