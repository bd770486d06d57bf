/* A command that somebody else sends to a simulated Redis, and one that loses a daemon's record. */
#ifndef LATERD_TEST_REDIS_FORGET_H
#define LATERD_TEST_REDIS_FORGET_H

#include "engine/redis/engine_parts.h"
#include "sim/redis/server.h"

static inline void tell_server(struct sim_redis *server, struct bytes command)
{
    struct sim_redis_conn *conn = sim_redis_accept(server);
    sim_redis_input(conn, command);
    sim_redis_hang_up(conn);
}

/* Of the prefix "q": also the list of names, which each daemon puts itself back into. */
static inline void forget_heartbeats_of(struct sim_redis *server, const struct redis_engine *daemon)
{
    struct buf forget = {0};
    buf_addf(&forget, "*4\r\n$4\r\nHDEL\r\n$7\r\n{q:0}:h\r\n$1\r\nr\r\n$9\r\nh");
    buf_add(&forget, daemon->space.daemon, SCRIPT_NAME);
    buf_addf(&forget, "\r\n");
    tell_server(server, buf_bytes(&forget));
    buf_fini(&forget);
}

#endif
