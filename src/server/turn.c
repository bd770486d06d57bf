/*
 * The order of a turn: the second file a newcomer reads, after ARCHITECTURE.md.
 *
 *   sleep      until the next timer or due job, input, or the end of a disk operation
 *   clock      is read; again before each connection's input is handled, because a delay must not
 *              count from before it was requested (P3), and a turn with many connections can take
 *              milliseconds when other processes use the processor
 *   begin      releases the replies of finished syncs, and makes due jobs ready
 *   gather     decodes and executes all input; handles the ends of connections
 *   batches    takes what the worker has decoded or encoded, and continues requests with many
 *              commands
 *   expire     calls due timers, which for example close connections whose time is up; continues
 *              surveys of all tubes; tells connections that the server drains
 *   requeue    gives back the jobs of clients that have gone, and continues commands that take many
 *              turns: clearing topics, replaying buried jobs, listing jobs with their properties,
 *              restoring jobs from a journal, showing topics in /metrics
 *   push       reads new settings; ends jobs by the outcomes of their deliveries; reserves jobs of
 *              topics with a target (the pump)
 *   match      gives ready jobs to waiting consumers, including the pump; sends the requests of an
 *              engine that needs servers, so that these work during `flush`
 *   flush      sends the answers that need not wait for the disk
 *   end        writes the turn's changes to the disk as one batch
 *   flush      sends the answers whose changes that has made durable
 *
 * Why in this order: clients that have left, or were closed, are known before jobs are matched
 * (P6). If the engine is given a command after `match` (a connection that closes in `flush` gives
 * back its jobs), another turn follows at once; otherwise the jobs would wait for the next event.
 * All changes of a turn share one sync, and the next turn gathers while it runs: the busier the
 * server, the more changes share a sync. All reading comes before all writing, so a turn costs one
 * read and one write per connection, however many commands a client sent (two writes if only some
 * of its answers wait for the disk: a job that is due must not wait for a write).
 *
 * In an election (port/member.h) a turn does nothing, and answers are not sent, after the deadline
 * of our lead: a process that was stopped and continues hands out no job and acknowledges nothing.
 *
 * At the very end the memory of connections' buffers is checked against its limit, and some
 * connections are closed if it is exceeded; freed memory is returned to the system: a chunk of each
 * kind, and large buffers as far as the budget goes. While much memory waits to be freed, less is
 * read.
 *
 * Each stage has a budget of work (base/budget.h), and each connection a share of the budget of
 * `gather`. The rest is done in the next turn, which follows without a sleep: so the first of
 * 100,000 jobs due at the same time is handed out at once, and no client waits for all others,
 * whatever they send.
 */
#include "server/beanstalk/session.h"
#include "server/http/batch.h"
#include "server/http/clear_all.h"
#include "server/http/clearing.h"
#include "server/http/listing.h"
#include "server/http/replay.h"
#include "server/http/restore.h"
#include "server/http/scrape.h"
#include "server/requeue.h"

/*
 * The shares of the stages, in percent of TURN_NS. All stages together may spend 135 %, 4.05 ms,
 * and each may overdraw its share by one step (one request, or one reply with its bodies; every
 * further loop of a stage, by one step of its own): that stays below the 5 ms that no turn may
 * exceed. If the store's cleaner has urgent work, it takes up to 2 ms of each turn, announced in
 * the turn before, and the stages have that much less (decision 102).
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
    FREEING_SHARE = 20, /* taken from GATHER_SHARE, see MUCH_DISCARDED_BYTES */
};
/* While more memory than this waits to be freed, FREEING_SHARE moves from `gather` to freeing:
   reading would otherwise fill memory faster than SETTLE_SHARE alone frees it (P8). */
enum { MUCH_DISCARDED_BYTES = 4 * DISCARD_PIECE_BYTES };
_Static_assert(BEGIN_SHARE + GATHER_SHARE + BATCH_SHARE + EXPIRE_SHARE + REQUEUE_SHARE +
                       PUSH_SHARE + MATCH_SHARE + END_SHARE + 2 * FLUSH_SHARE + SETTLE_SHARE ==
                   ALL_SHARES,
               "ALL_SHARES is the sum of all shares");

int64_t turn_plan_ns(int64_t turn_ns, int64_t excluded_next_ns)
{
    int64_t plan_ns = turn_ns - excluded_next_ns * 100 / ALL_SHARES;
    return plan_ns > turn_ns / 4 ? plan_ns : turn_ns / 4;
}

/* Sets the time that this turn's stages share. It begins at `now_us`. */
static void plan(struct server *server, int64_t now_us)
{
    int64_t turn_ns = server->options.turn_ns ? server->options.turn_ns : TURN_NS;
    server->percent_ns = turn_plan_ns(turn_ns, server->budget.excluded_next_ns) / 100;
    budget_begin_turn(&server->budget, now_us);
}

static void begin_stage(struct server *server, enum turn_stage stage, int share)
{
    turn_meter_look(&server->turn_meter, stage);
    budget_begin(&server->budget, server->percent_ns * share);
}

/* Of a turn that begins now, by the clock. */
static void begin_turn(struct server *server, int64_t now_us)
{
    struct clock *clock = server->loop->clock;
    server->counts.turns++;
    if (server->options.config->turn_cpu && clock->cpu_us)
        turn_meter_begin(&server->turn_meter, clock, now_us);
    plan(server, now_us);
}

static void count_turn(struct server *server, int64_t began_us)
{
    struct clock *clock = server->loop->clock;
    int64_t took_us = server->turn_meter.clock ? turn_meter_end(&server->turn_meter)
                                               : clock->now_us(clock) - began_us;
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

/* Calls `done` of the worker's finished work, until the budget is spent. True: there is more. */
static bool poll_worker(struct server *server)
{
    struct worker *worker = server->worker;
    while (worker && worker->verbs->poll(worker)) {
        if (budget_spent(&server->budget))
            return true;
    }
    return false;
}

/* Continues commands that take many turns. There are hardly ever any, so the lists are checked
 * here: a turn for a single request should run little code. */
static bool continue_long_commands(struct server *server)
{
    bool more = false;
    if (!list_empty(&server->requeues))
        more |= requeue_step(server);
    if (!list_empty(&server->clearings))
        more |= clearings_step(server);
    if (!list_empty(&server->clear_alls))
        more |= clear_alls_step(server);
    if (!list_empty(&server->replays))
        more |= replays_step(server);
    if (!list_empty(&server->listings))
        more |= listings_step(server);
    if (!list_empty(&server->scrapes))
        more |= scrapes_step(server);
    if (!list_empty(&server->restores))
        more |= restores_step(server);
    return more;
}

/* One of the two flushes. True: there is more to send. */
static bool flush(struct server *server, enum turn_stage stage)
{
    begin_stage(server, stage, FLUSH_SHARE);
    return server_leads(server) && sessions_flush(server);
}

int64_t server_turn(struct server *server)
{
    struct engine *engine = server->engine;

    int64_t began_us = loop_update_time(server->loop);
    if (!server_leads(server))
        return began_us; /* service_update() ends this server */
    begin_turn(server, began_us);
    begin_stage(server, STAGE_BEGIN, BEGIN_SHARE);
    engine->verbs->begin(engine);
    int freeing = server_discarded(server) > MUCH_DISCARDED_BYTES ? FREEING_SHARE : 0;
    begin_stage(server, STAGE_GATHER, GATHER_SHARE - freeing);
    bool more = server->loop->verbs->gather(server->loop, &server->share);
    begin_stage(server, STAGE_BATCHES, BATCH_SHARE);
    server->turn_again = false; /* set if a later stage makes work for an earlier one */
    more |= poll_worker(server);
    if (!list_empty(&server->batches))
        more |= batches_step(server);
    begin_stage(server, STAGE_EXPIRE, EXPIRE_SHARE);
    more |= loop_expire(server->loop, &server->share);
    if (!list_empty(&server->beanstalk.surveys))
        more |= beanstalk_surveys_step(server);
    more |= sessions_drain(server);
    begin_stage(server, STAGE_REQUEUE, REQUEUE_SHARE);
    more |= continue_long_commands(server);
    begin_stage(server, STAGE_PUSH, PUSH_SHARE);
    more |= pump_stage_step(server);
    begin_stage(server, STAGE_MATCH, MATCH_SHARE);
    engine->verbs->match(engine);
    more |= flush(server, STAGE_FLUSH);
    begin_stage(server, STAGE_END, END_SHARE);
    int64_t next_us = engine->verbs->end(engine);
    more |= flush(server, STAGE_FLUSH_DURABLE);
    begin_stage(server, STAGE_SETTLE, SETTLE_SHARE + freeing);
    buffers_settle(server);
    more |= server_trim(server);
    count_turn(server, began_us);
    if (server->turn_again || more)
        return server->loop->now_us;
    return time_earlier(next_us, timers_next_us(&server->loop->timers));
}

void server_sleep(struct server *server, int64_t until_us)
{
    loop_sleep(server->loop, until_us);
}
