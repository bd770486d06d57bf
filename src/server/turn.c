/*
 * The order of a turn: the second file a newcomer reads, after ARCHITECTURE.md.
 *
 *   sleep      until the next thing is due, bytes come, or a disk operation ends
 *   clock      is read, and again before each connection's bytes: see server_look_at_clock
 *   begin      finished syncs release their replies; what is due becomes ready
 *   gather     all bytes that came are decoded and applied, and all who left are forgotten
 *   expire     connections whose time is up are closed; jobs on their way to them come back
 *   match      ready jobs meet waiting consumers
 *   flush      answers that wait for no disk go out
 *   end        the turn's changes go to the disk as one batch
 *   flush      so do the answers to what that made durable
 *
 * Why in this order: clients that left, or that are given up, are known before jobs are matched
 * (P6). What is asked of the engine after `match` (a connection that closes in `flush` gives back
 * the jobs it holds) makes another turn at once: it would wait for one that nobody wants. All
 * changes of a turn share one sync, and while it runs the next turn gathers, so the busier the
 * server, the more changes share a sync. All reading comes before all writing, so a turn costs one
 * read and one write a connection, however many commands a client sent (two writes if some answers
 * wait for the disk, and some do not: a job that is due is not to wait while the disk is written).
 *
 * Each stage works in slices of bounded size. What is left over is done in the next turn, which
 * then does not sleep: so the first of 100,000 jobs due at one instant is handed out at once,
 * and no client waits for all the others.
 */
#include "server/server.h"
#include "server/session.h"

void server_look_at_clock(struct server *server)
{
    server->now_us = server->clock->now_us(server->clock);
    server->engine->verbs->time(server->engine, server->now_us);
}

int64_t server_turn(struct server *server)
{
    struct engine *engine = server->engine;

    server_look_at_clock(server);
    server->counts.turns++;
    engine->verbs->begin(engine);
    server->net->verbs->gather(server->net, &server->handler);
    sessions_expire(server);
    server->turn_again = false;
    engine->verbs->match(engine);
    sessions_flush(server);
    int64_t next_us = engine->verbs->end(engine);
    sessions_flush(server);
    if (server->turn_again)
        return server->now_us;
    int64_t sessions_us = sessions_next_us(server);
    return sessions_us < next_us ? sessions_us : next_us;
}

void server_sleep(struct server *server, int64_t until_us)
{
    server->net->verbs->sleep(server->net, until_us);
}
