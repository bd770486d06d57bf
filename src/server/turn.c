/*
 * The order of a turn: the second file a newcomer reads, after ARCHITECTURE.md.
 *
 *   sleep      until the next thing is due, bytes come, or a disk operation ends
 *   clock      is read, and again before each connection's bytes are dealt with: a delay must not
 *              count from before it was asked for (P3), and a turn with many connections is
 *              milliseconds long when others have the processor
 *   begin      finished syncs release their replies; what is due becomes ready
 *   gather     all bytes that came are decoded and applied, and all who left are forgotten
 *   batches    requests with many commands, and those that the worker has decoded, go on
 *   expire     timers that are due do their work: connections whose time is up are closed
 *   requeue    jobs of clients that have gone come back
 *   clear      topics that are cleared in slices lose another one
 *   restore    jobs that a journal has read are pushed
 *   push       settings that are new are read; outcomes of deliveries end their jobs; the pump
 *              reserves for topics with a target
 *   match      ready jobs meet waiting consumers, the pump's reserves too
 *   flush      answers that wait for no disk go out
 *   end        the turn's changes go to the disk as one batch
 *   flush      so do the answers to what that made durable
 *
 * Why in this order: clients that left, or that are given up, are known before jobs are matched
 * (P6). What is asked of the engine after `match` (a connection that closes in `flush` gives back
 * the jobs that it held) makes another turn at once: it would wait for one that nobody wants.
 * All changes of a turn share one sync, and while it runs the next turn gathers, so the busier the
 * server, the more changes share a sync. All reading comes before all writing, so a turn costs one
 * read and one write a connection, however many commands a client sent (two writes if some answers
 * wait for the disk, and some do not: a job that is due is not to wait while the disk is written).
 *
 * With an election (port/member.h) a turn begins only, and what was answered leaves only, before
 * the deadline by which we lead: a process that was stopped and wakes hands out nothing, and
 * acknowledges nothing.
 *
 * At the very end the buffers of connections are counted, and some are closed if it is too much;
 * memory of what has gone is given back to the system: a chunk of each kind, and of large buffers
 * what the budget allows. While much of it waits, less is read.
 *
 * Each stage has a budget of work (base/budget.h), and each connection a share of that of `gather`.
 * What is left over is done in the next turn, which then does not sleep: so the first of 100,000
 * jobs due at one instant is handed out at once, and no client waits for all the others, whatever
 * they send.
 */
#include "server/batch.h"
#include "server/beanstalk/session.h"
#include "server/clear_all.h"
#include "server/clearing.h"
#include "server/listing.h"
#include "server/replay.h"
#include "server/requeue.h"
#include "server/restore.h"

/*
 * How the work of a turn is shared out, in percent of TURN_NS. All stages together may spend 135 %,
 * 4.05 ms, and each may overdraw its share by one step (one request, one reply with its bodies;
 * each loop behind the first one of a stage, by one of its own): planned below the 5 ms that no
 * turn may take. When the store's cleaner has work that does not wait, it takes up to 2 ms of each
 * turn, and the stages have so much less: it says in the turn before how long it will be at most
 * (decision 102).
 */
enum { TURN_NS = 3 * 1000 * 1000 };
enum {
    BEGIN_SHARE = 20,
    GATHER_SHARE = 30,
    BATCH_SHARE = 10,
    EXPIRE_SHARE = 5,
    REQUEUE_SHARE = 10,
    PUSH_SHARE = 10,
    MATCH_SHARE = 15,
    END_SHARE = 10,
    FLUSH_SHARE = 10, /* twice */
    SETTLE_SHARE = 5,
    ALL_SHARES = 135,
    FREEING_SHARE = 20, /* of that of `gather`, see MUCH_DISCARDED_BYTES */
};
/* While so much memory waits to be freed, it is freed in a part of `gather`'s share: reading fills
   more, and faster than the share of `settle` alone would free it (P8). */
enum { MUCH_DISCARDED_BYTES = 4 * DISCARD_PIECE_BYTES };
_Static_assert(BEGIN_SHARE + GATHER_SHARE + BATCH_SHARE + EXPIRE_SHARE + REQUEUE_SHARE +
                       PUSH_SHARE + MATCH_SHARE + END_SHARE + 2 * FLUSH_SHARE + SETTLE_SHARE ==
                   ALL_SHARES,
               "all of them");

int64_t turn_plan_ns(int64_t turn_ns, int64_t excluded_next_ns)
{
    int64_t plan_ns = turn_ns - excluded_next_ns * 100 / ALL_SHARES;
    return plan_ns > turn_ns / 4 ? plan_ns : turn_ns / 4;
}

/* For this turn: what comes of it is for the next one. */
static void plan(struct server *server)
{
    int64_t turn_ns = server->options.turn_ns ? server->options.turn_ns : TURN_NS;
    server->plan_ns = turn_plan_ns(turn_ns, server->budget.excluded_next_ns);
}

static void begin_stage(struct server *server, int share)
{
    budget_begin(&server->budget, server->plan_ns * share / 100);
}

/* The time by which a turn is measured. */
static int64_t meter_us(const struct server *server)
{
    struct clock *clock = server->loop->clock;
    bool cpu = server->options.config->turn_cpu && clock->cpu_us;
    return cpu ? clock->cpu_us(clock) : clock->now_us(clock);
}

static void count_turn(struct server *server, int64_t began_us)
{
    int64_t took_us = meter_us(server) - began_us;
    unsigned bucket = 0;
    while (bucket < TURN_BUCKETS - 1 && took_us > turn_bound_us(bucket))
        bucket++;
    server->counts.turn_us[bucket]++;
    server->counts.turn_us_sum += (uint64_t)took_us;
}

int64_t turn_bound_us(unsigned bucket)
{
    static const int64_t bounds_us[TURN_BUCKETS - 1] = {100, 300, 1000, 2000, 5000, 20000, 100000};
    return bucket < TURN_BUCKETS - 1 ? bounds_us[bucket] : INT64_MAX;
}

/* What the worker has done goes on, as far as the budget goes. True: there is more. */
static bool take_work(struct server *server)
{
    struct worker *worker = server->worker;
    while (worker && worker->verbs->poll(worker)) {
        if (budget_spent(&server->budget))
            return true;
    }
    return false;
}

/* Commands that take many turns go on. Hardly ever is there one, so that is seen here: a turn that
 * wakes for one request is to run through little code. */
static bool long_commands_go_on(struct server *server)
{
    bool more = false;
    if (!list_empty(&server->requeues))
        more |= requeue_step(server);
    if (!list_empty(&server->clearings))
        more |= clearings_go_on(server);
    if (!list_empty(&server->clear_alls))
        more |= clear_alls_go_on(server);
    if (!list_empty(&server->replays))
        more |= replays_go_on(server);
    if (!list_empty(&server->listings))
        more |= listings_go_on(server);
    if (!list_empty(&server->restores))
        more |= restores_go_on(server);
    return more;
}

/* One of the two flushes. */
static bool flush(struct server *server)
{
    begin_stage(server, FLUSH_SHARE);
    return server_leads(server) && sessions_flush(server);
}

int64_t server_turn(struct server *server)
{
    struct engine *engine = server->engine;

    int64_t began_us = loop_update_time(server->loop);
    if (!server_leads(server))
        return began_us; /* main.c ends it */
    if (server->options.config->turn_cpu)
        began_us = meter_us(server);
    server->counts.turns++;
    plan(server);
    begin_stage(server, BEGIN_SHARE);
    engine->verbs->begin(engine);
    int freeing = server->discard.bytes > MUCH_DISCARDED_BYTES ? FREEING_SHARE : 0;
    begin_stage(server, GATHER_SHARE - freeing);
    bool more = server->loop->verbs->gather(server->loop, &server->share);
    begin_stage(server, BATCH_SHARE);
    server->turn_again = false; /* the stages from here on may be wanted again by later ones */
    more |= take_work(server);
    more |= batches_step(server);
    begin_stage(server, EXPIRE_SHARE);
    more |= loop_expire(server->loop, &server->share);
    more |= beanstalk_surveys_step(server);
    begin_stage(server, REQUEUE_SHARE);
    more |= long_commands_go_on(server);
    begin_stage(server, PUSH_SHARE);
    more |= push_step(server);
    begin_stage(server, MATCH_SHARE);
    engine->verbs->match(engine);
    more |= flush(server);
    begin_stage(server, END_SHARE);
    int64_t next_us = engine->verbs->end(engine);
    more |= flush(server);
    begin_stage(server, SETTLE_SHARE + freeing);
    buffers_settle(server);
    more |= server_trim(server);
    count_turn(server, began_us);
    if (server->turn_again || more)
        return server->loop->now_us;
    int64_t timer_us = timers_next_us(&server->loop->timers);
    return timer_us < next_us ? timer_us : next_us;
}

void server_sleep(struct server *server, int64_t until_us)
{
    loop_sleep(server->loop, until_us);
}
