/*
 * port/engine.h of a laterd that waits for its turn to lead: every command is refused with
 * ERR_NOT_LEADER, and the reply says where the leader is, if that is known.
 */
#ifndef LATERD_ENGINE_WAITING_WAITING_H
#define LATERD_ENGINE_WAITING_WAITING_H

#include "port/engine.h"
#include "port/member.h"

struct waiting_engine {
    struct engine engine;
    const struct member *member; /* borrowed */
    char why[MEMBER_URL_MAX + MEMBER_WHY_MAX];
};

void waiting_init(struct waiting_engine *waiting, const struct member *member);

/* "the leader is http://…", or why there is none: a clause, good until the next call. */
const char *waiting_why(struct waiting_engine *waiting);

#endif
