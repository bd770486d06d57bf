#include "engine/redis/partition_init.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "engine/redis/clock_sync.h"
#include "engine/redis/script_parts.h"

enum {
    AGAIN_US = 100 * 1000,           /* after a call that failed */
    LOG_EVERY_US = 10 * 1000 * 1000, /* one line for the loss of all partitions */
    NEW_US = 5 * 1000 * 1000,        /* by then the notices about a new queue have come */
    REBUILD_AGAIN_US = 500 * 1000,   /* far below the lease of who rebuilds: see rebuild.lua */
    OLDER_US = 5 * 1000 * 1000,      /* by then the leader may have converted it */
};

static int64_t now_of(const struct partition_init *partition_init)
{
    return partition_init->options.loop->now_us;
}

/* Their number is a guess: the first one tells whether it is right, before others are created. */
static bool waits_for_first(const struct opening *opening)
{
    const struct partition_init *partition_init = opening->partition_init;
    return partition_init->options.space->guessed && opening->partition > 0 &&
           !partition_init->openings[0].was_there;
}

static bool wants(const struct opening *opening)
{
    const struct partition_init *partition_init = opening->partition_init;
    struct script_requests *calls = partition_init->options.calls;
    return partition_init->started && !opening->pending && !waits_for_first(opening) &&
           (opening->again || script_requests_wants_places(calls, opening->partition) ||
            !script_requests_is_open(calls, opening->partition)) &&
           script_requests_node(calls, opening->partition);
}

/* It may have to be opened: checks that in this turn. */
static void look(struct opening *opening)
{
    if (wants(opening))
        loop_arm(opening->partition_init->options.loop, &opening->timer, opening->at_us);
}

/* Logs that a partition had to be created again: Redis has lost its data. */
static void report_lost(struct partition_init *partition_init)
{
    int64_t now_us = now_of(partition_init);
    if (partition_init->logged_us && now_us - partition_init->logged_us < LOG_EVERY_US)
        return;
    partition_init->logged_us = now_us;
    log_event(
        LOG_ERROR, "redis_lost_data", "prefix=%s hint=\"%s\"",
        partition_init->options.space->prefix,
        "its jobs are gone, the queue goes on empty: see appendonly in docs/redis-recipes.md");
}

/* ---- a sorted set was lost ---- */

static void rebuild_step(struct opening *opening);

static void rebuild_from_start(struct opening *opening)
{
    opening->from[0] = '0';
    opening->from[1] = '\0';
    rebuild_step(opening);
}

static void begin_rebuilding(struct opening *opening, enum script_rebuild what)
{
    opening->rebuilding = true;
    opening->what = what;
    opening->then_what = REBUILD_CONVERT;
    opening->partition_init->rebuilding += what != REBUILD_CONVERT;
    rebuild_from_start(opening);
}

static void end_rebuilding(struct opening *opening, bool done)
{
    struct partition_init *partition_init = opening->partition_init;
    opening->rebuilding = false;
    partition_init->rebuilding -= opening->what != REBUILD_CONVERT;
    if (opening->what == REBUILD_CONVERT && opening->then_what != REBUILD_CONVERT) {
        begin_rebuilding(opening, opening->then_what);
        return;
    }
    if (!done && opening->what == REBUILD_ALL)
        script_requests_halfway(partition_init->options.calls, opening->partition);
    if (!done)
        return; /* of layout 2: the next open finds the loss again */
    if (opening->what == REBUILD_CONVERT) {
        log_event(LOG_INFO, "redis_converted", "partition=%u layout=%u", opening->partition,
                  SCRIPT_LAYOUT);
        return;
    }
    log_event(LOG_INFO, "redis_rebuilt", "partition=%u", opening->partition);
    partition_init->options.opened(partition_init->options.owner, opening->partition, false);
    partition_init->options.forgotten(partition_init->options.owner);
}

/* Looks again whether what was lost is restored: another daemon does that, or Redis was away. */
static void rebuild_later(struct opening *opening)
{
    loop_arm(opening->partition_init->options.loop, &opening->rebuild_again,
             now_of(opening->partition_init) + REBUILD_AGAIN_US);
}

static void time_to_rebuild(struct timer *timer)
{
    struct opening *opening = LIST_ENTRY(timer, struct opening, rebuild_again);
    if (opening->partition_init->started)
        rebuild_from_start(opening);
}

static void rebuilt(void *owner, struct script_request *call, enum err err,
                    const struct bytes *parts, uint32_t count)
{
    struct opening *opening = owner;
    struct script_parts received = {.partition = opening->partition, .at = parts, .count = count};
    struct script_answer answer;
    bool is_first = strcmp(opening->from, "0") == 0;
    /* By REBUILD_LOST, Redis knows where to continue. */
    bool lost_cursor =
        opening->what != REBUILD_LOST && !is_first && call->answered_by != opening->scanned_at;
    opening->scanned_at = call->answered_by;
    if (!err)
        err = script_read_answer(opening->partition_init->options.space, &received, &answer);
    if (!err && lost_cursor) {
        rebuild_from_start(opening);
        return;
    }
    if (!err && (count != 2 || parts[1].len >= sizeof(opening->from)))
        err = ERR_CORRUPT;
    bool is_anothers = !err && answer.more && bytes_eq(parts[1], BYTES("0"));
    if (opening->what == REBUILD_LOST && (err || is_anothers)) {
        rebuild_later(opening);
        return;
    }
    if (err || !answer.more) {
        end_rebuilding(opening, !err);
        if (!err && answer.lost) /* meanwhile, or before */
            partition_init_rebuild(opening->partition_init, opening->partition);
        return;
    }
    memcpy(opening->from, parts[1].at, parts[1].len);
    opening->from[parts[1].len] = '\0';
    rebuild_step(opening);
}

static void rebuild_step(struct opening *opening)
{
    struct partition_init *partition_init = opening->partition_init;
    struct script_request *call =
        script_requests_new_unkept(partition_init->options.calls, opening->partition);
    script_encode_rebuild(&call->request, partition_init->options.space, &call->id,
                          bytes_str(opening->from), opening->what);
    script_requests_send(call, opening, rebuilt);
}

static void rebuild(struct opening *opening, enum script_rebuild what, const char *reason,
                    const char *hint)
{
    if (opening->rebuilding &&
        (opening->what != REBUILD_CONVERT || opening->then_what != REBUILD_CONVERT)) {
        if (what == REBUILD_ALL && opening->then_what == REBUILD_LOST)
            opening->then_what = what; /* at its end it says what is lost */
        return;
    }
    log_event(LOG_ERROR, "redis_unfit", "partition=%u reason=\"%s\" hint=\"%s\"",
              opening->partition, reason, hint);
    opening->then_what = what;
    if (!opening->rebuilding)
        begin_rebuilding(opening, what);
}

/* Moves jobs of an older layout to their buckets. They can be used meanwhile. */
static void convert(struct opening *opening)
{
    opening->older = opening->partition_init->options.space->leaves_older;
    if (!opening->rebuilding && !opening->older)
        begin_rebuilding(opening, REBUILD_CONVERT);
}

void partition_init_missing(uint32_t partition)
{
    log_event(LOG_ERROR, "redis_unfit", "partition=%u reason=\"%s\" hint=\"%s\"", partition,
              "keys with jobs were lost, and the jobs in them are gone",
              "set maxmemory-policy to noeviction, and let nobody else write to these keys");
}

void partition_init_rebuild(struct partition_init *partition_init, uint32_t partition)
{
    rebuild(&partition_init->openings[partition], REBUILD_LOST,
            "a sorted set of the queue was lost, and is made again from the jobs' heads",
            "set maxmemory-policy to noeviction, and let nobody else write to these keys");
}

/* A script may have removed a job from one sorted set without adding it to another: checks all
   jobs. */
static void look_after_error(struct opening *opening)
{
    struct partition *partition =
        &opening->partition_init->options.calls->partitions[opening->partition];
    if (!partition->halfway)
        return;
    partition->halfway = false;
    if (opening->rebuilding &&
        opening->what != REBUILD_CONVERT) /* the rebuild under way may have passed that job */
        script_requests_halfway(opening->partition_init->options.calls, opening->partition);
    else
        rebuild(opening, REBUILD_ALL,
                "a script was stopped halfway, or a repair could not end: all jobs are looked at",
                "let nobody else write to these keys, nor take rights from laterd's user");
}

/* ---- opening ---- */

/* When to open it again: an answer of a call from before we began to lead is outdated. */
static int64_t again_us(const struct opening *opening)
{
    if (!opening->older)
        return AGAIN_US;
    return opening->partition_init->options.space->leaves_older ? OLDER_US : 0;
}

/* Another daemon has made the queue again, after Redis lost it, with another number of partitions:
   its jobs are not where we would look for them. */
static void refused(const struct opening *opening, uint32_t partitions)
{
    const struct partition_init *partition_init = opening->partition_init;
    script_requests_close(partition_init->options.calls, opening->partition);
    partition_init->options.refused(partition_init->options.owner, partitions);
}

static void opened(void *owner, struct script_request *call, enum err err,
                   const struct bytes *parts, uint32_t count)
{
    struct opening *opening = owner;
    struct partition_init *partition_init = opening->partition_init;
    struct script_parts received = {.partition = opening->partition, .at = parts, .count = count};
    struct script_answer answer;
    opening->pending = false;
    if (!err)
        err = script_read_answer(partition_init->options.space, &received, &answer);
    opening->older = !err && answer.err == ERR_WRONG_STATE;
    if (err || answer.err) {
        opening->at_us = now_of(partition_init) + again_us(opening);
        look(opening);
        if (!err && count == 2)
            partition_init->options.stray(partition_init->options.owner, parts[1]);
        else if (!err && !opening->older)
            refused(opening, answer.count);
        return;
    }
    if (answer.replaced && opening->was_there)
        report_lost(partition_init);
    if (!opening->was_there)
        opening->since_us = now_of(partition_init);
    opening->was_there = true;
    opening->scanned_at = NULL;
    if (answer.count && !answer.replaced && !answer.state) /* other daemons considered us dead */
        clock_sync_forgotten(partition_init->options.calls, opening->partition);
    clock_sync_read(call, parts, count, answer.replaced);
    if (answer.count)
        script_requests_give_up(partition_init->options.calls, opening->partition);
    script_requests_open(partition_init->options.calls, opening->partition, call->addressed,
                         opening->places);
    look(opening); /* it may have moved meanwhile, or must be opened once more */
    if (opening->partition == 0)
        partition_init_moved(partition_init); /* those that waited for it */
    partition_init->options.opened(partition_init->options.owner, opening->partition, true);
    if (answer.count)
        partition_init->options.forgotten(partition_init->options.owner);
    if (answer.missed)
        partition_init_missing(opening->partition);
    if (answer.lost)
        partition_init_rebuild(partition_init, opening->partition);
    else if (answer.look)
        convert(opening);
    look_after_error(opening);
}

static void open_it(struct opening *opening)
{
    struct partition_init *partition_init = opening->partition_init;
    struct script_request *call =
        script_requests_new_unkept(partition_init->options.calls, opening->partition);
    const struct queue_clock *clock =
        &partition_init->options.calls->partitions[opening->partition].clock;
    opening->places = script_requests_places(partition_init->options.calls, opening->partition);
    call->id.late_us = partition_init->options.calls->options.timeout_us;
    script_encode_open(&call->request, partition_init->options.space, &call->id, opening->places,
                       clock->known ? clock->set_count + 1 : 0);
    call->urgent = call->reads_clock = true;
    opening->again = false;
    opening->pending = true;
    script_requests_send(call, opening, opened);
}

static void time_to_open(struct timer *timer)
{
    struct opening *opening = LIST_ENTRY(timer, struct opening, timer);
    if (wants(opening))
        open_it(opening);
}

void partition_init_lost(struct partition_init *partition_init, uint32_t partition)
{
    const struct opening *opening = &partition_init->openings[partition];
    /* Otherwise it may be the notice of the first creation, which came after we had opened it. */
    if (opening->was_there && now_of(partition_init) - opening->since_us >= NEW_US)
        report_lost(partition_init);
    partition_init_again(partition_init, partition);
}

void partition_init_again(struct partition_init *partition_init, uint32_t partition)
{
    partition_init->openings[partition].again = true;
    look(&partition_init->openings[partition]);
}

void partition_init_convert(struct partition_init *partition_init)
{
    for (uint32_t i = 0; i < partition_init->options.space->partitions; i++) {
        struct opening *opening = &partition_init->openings[i];
        opening->at_us = opening->older ? 0 : opening->at_us;
        if (opening->older)
            partition_init_again(partition_init, i);
    }
}

bool partition_init_leaves_older(const struct partition_init *partition_init)
{
    bool leaves = false;
    for (uint32_t i = 0; i < partition_init->options.space->partitions; i++)
        leaves = leaves || partition_init->openings[i].older;
    return leaves;
}

void partition_init_look(struct partition_init *partition_init, uint32_t partition)
{
    look(&partition_init->openings[partition]);
}

void partition_init_moved(struct partition_init *partition_init)
{
    for (uint32_t i = 0; i < partition_init->options.space->partitions; i++)
        look(&partition_init->openings[i]);
}

void partition_init_start(struct partition_init *partition_init)
{
    partition_init->started = true;
    partition_init_moved(partition_init);
}

void partition_init_stop(struct partition_init *partition_init)
{
    partition_init->started = false;
}

void partition_init_init(struct partition_init *partition_init,
                         const struct partition_init_options *options)
{
    *partition_init = (struct partition_init){.options = *options};
    partition_init->openings = mem_zalloc(options->space->partitions * sizeof(struct opening));
    for (uint32_t i = 0; i < options->space->partitions; i++)
        partition_init->openings[i] = (struct opening){.partition_init = partition_init,
                                                       .partition = i,
                                                       .timer.expired = time_to_open,
                                                       .rebuild_again.expired = time_to_rebuild};
}

void partition_init_fini(struct partition_init *partition_init)
{
    for (uint32_t i = 0; partition_init->openings && i < partition_init->options.space->partitions;
         i++) {
        loop_cancel(partition_init->options.loop, &partition_init->openings[i].timer);
        loop_cancel(partition_init->options.loop, &partition_init->openings[i].rebuild_again);
    }
    mem_free(partition_init->openings);
    partition_init->openings = NULL;
}
