/*
 * Asks Redis for the jobs that a line wants, and reads what comes. A line never has more jobs asked
 * for (`asked`) than its waiters want, at the time of asking.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "engine/redis/consumers_parts.h"

enum {
    AGAIN_US = 500 * 1000,   /* after a call that failed */
    JOBS_AT_ONCE = 256,      /* of one call: bodies may be large */
    PATIENCE_US = 20 * 1000, /* with looks: after that those partitions count that have answered */
    STALE_US = 100 * 1000, /* what is known of others' changes may be so old, where that matters */
};

/* One call for the line's first `topics` topics. */
struct ask {
    struct line *line;
    uint32_t topics;
    uint32_t max; /* jobs; 0: it only looks */
    bool behind;  /* a promote: it may bring nothing */
    bool awaited; /* nothing is asked for before this look is answered */
    bool silent;
};

/* What a line knows of a partition, of some of its topics. */
struct spot {
    uint32_t partition;
    enum hint_kind best;
    bool unsure, stale;
    struct script_rank first; /* READY */
};

/* ---- what is known ---- */

static struct spot look_up(const struct line *line, uint32_t from, uint32_t to, uint32_t partition)
{
    int64_t old_us = line->consumers->now_us - STALE_US;
    struct spot spot = {.partition = partition};
    for (uint32_t i = from; i < to; i++) {
        const struct hint *hints = &line->topics[i].topic->hints[partition];
        bool ready = hints->what == READY;
        if (ready && (spot.best < READY || rank_compare(hints->first, spot.first) < 0))
            spot.first = hints->first;
        if (hints->what > (uint8_t)spot.best)
            spot.best = (enum hint_kind)hints->what;
        spot.unsure = spot.unsure || hints->what == UNKNOWN;
        spot.stale = spot.stale || ((ready || hints->what == TAKEN) && hints->at_us <= old_us);
    }
    return spot;
}

static bool is_unsure(const struct spot *spot)
{
    return spot->unsure;
}

static bool is_stale(const struct spot *spot)
{
    return spot->stale;
}

static bool is_taken(const struct spot *spot)
{
    return spot->best == TAKEN;
}

static bool is_noticed(const struct spot *spot)
{
    return spot->best == NOTICED;
}

static bool is_hopeful(const struct spot *spot)
{
    return spot->best >= NOTICED;
}

/* A set of partitions that are not being asked. */
struct spots {
    struct spot *at; /* in the scratch */
    uint32_t count;
};

static struct spots find_spots(const struct line *line, uint32_t from, uint32_t to,
                               bool (*fits)(const struct spot *spot))
{
    uint32_t partitions = line->consumers->options.space->partitions;
    struct spots found = {
        .at = arena_alloc(&line->consumers->scratch, partitions * sizeof(*found.at)),
    };
    for (uint32_t i = 0; i < partitions; i++) {
        struct spot spot = look_up(line, from, to, i);
        if (!line->asking[i] && fits(&spot))
            found.at[found.count++] = spot;
    }
    return found;
}

/* What was left when the call was done. */
static void learn(const struct ask *ask, uint32_t partition, const struct script_answer *answer)
{
    const struct consumers *consumers = ask->line->consumers;
    for (uint32_t i = 0; i < ask->topics; i++) {
        struct hint *hints = &ask->line->topics[i].topic->hints[partition];
        struct script_rank first;
        switch (script_first(consumers->options.space, partition, answer, i, &first)) {
        case SCRIPT_FIRST:
            *hints = (struct hint){.what = READY, .first = first, .at_us = consumers->now_us};
            break;
        case SCRIPT_NONE:
            if (hints->news)
                break;
            /* Without notices it is UNKNOWN again when they are heard. */
            hints->what = answer->marked || !consumers->subscribed ? EMPTY : TAKEN;
            hints->at_us = consumers->now_us;
            break;
        case SCRIPT_UNSEEN:
            if (answer->firsts.len == 0)
                hints->what = NOTICED;
            break;
        }
    }
}

/* ---- answers ---- */

static void bury_damaged(struct consumers *consumers, const struct script_parts *parts)
{
    struct job_view *jobs = arena_alloc(&consumers->scratch, JOBS_AT_ONCE * sizeof(*jobs));
    uint32_t found = script_damaged(consumers->options.space, parts, jobs, JOBS_AT_ONCE);
    for (uint32_t i = 0; i < found; i++)
        consumers->options.damaged(consumers->options.owner, &jobs[i]);
}

/* What is EMPTY now may not be at that time: a pause ends there. */
static void again_at(const struct ask *ask, int64_t again_us)
{
    struct consumers *consumers = ask->line->consumers;
    for (uint32_t i = 0; i < ask->topics; i++) {
        struct topic *topic = ask->line->topics[i].topic;
        if (again_us < topic->again_us)
            topic->again_us = again_us;
    }
    if (again_us < consumers->again_us)
        consumers->again_us = again_us;
}

/* A call that failed: those who do not wait are told; the others wait on. */
static void ask_failed(const struct ask *ask, uint32_t partition, enum err err)
{
    struct line *line = ask->line;
    struct list *next;
    for (uint32_t i = 0; i < ask->topics; i++) {
        struct hint *hints = &line->topics[i].topic->hints[partition];
        if (!hints->news)
            hints->what = EMPTY; /* until then: */
    }
    again_at(ask, line->consumers->now_us + AGAIN_US);
    for (struct list *at = line->waiters.next; at != &line->waiters; at = next) {
        struct waiter *waiter = LIST_ENTRY(at, struct waiter, place);
        next = at->next;
        if (!waiter->parked)
            waiter_end(waiter, err);
    }
}

static void take_answer(const struct ask *ask, const struct script_parts *said,
                        const struct script_answer *answer)
{
    struct consumers *consumers = ask->line->consumers;
    learn(ask, said->partition, answer);
    if (ask->behind && answer->count == 0)
        consumers->luck = 0;
    if (answer->next_us != INT64_MAX)
        again_at(ask, answer->next_us);
    if (answer->reply.err == ERR_DAMAGED || answer->reply.count < answer->count)
        bury_damaged(consumers, said);
    if (!answer->reply.err)
        line_hand_out(ask->line, answer->reply.jobs, answer->reply.count);
}

static void asked(void *owner, struct call *call, enum err err, const struct bytes *parts,
                  uint32_t count)
{
    struct ask *ask = owner;
    struct line *line = ask->line;
    struct consumers *consumers = line->consumers;
    struct script_parts said = {.partition = call->id.partition, .at = parts, .count = count};
    struct script_answer answer;
    line->calls--;
    line->looking -= ask->awaited;
    line->silent -= ask->silent;
    line->asked -= ask->silent ? 0 : ask->max;
    line->asking[said.partition] = false;
    if (!err)
        err =
            script_read(consumers->options.space, CMD_RESERVE, &said, &consumers->scratch, &answer);
    if (err)
        ask_failed(ask, said.partition, err);
    else
        take_answer(ask, &said, &answer);
    arena_reset(&consumers->scratch);
    mem_free(ask);
    line_touch(line);
}

/* Its partition is silent: the others may give what was asked for there, and whoever has got
 * something already goes with that. */
static void asked_long_ago(void *owner)
{
    struct ask *ask = owner;
    ask->silent = true;
    ask->line->silent++;
    ask->line->asked -= ask->max;
    line_touch(ask->line);
}

/* ---- asking ---- */

static struct ask *ask_new(struct line *line, uint32_t topics, uint32_t max)
{
    struct ask *ask = mem_alloc(sizeof(*ask));
    *ask = (struct ask){.line = line, .topics = topics, .max = max};
    line->calls++;
    line->asked += max;
    return ask;
}

/* NULL: the partition has too many requests unanswered. */
static struct ask *ask_for(struct line *line, uint32_t topics, uint32_t partition, uint32_t max)
{
    struct consumers *consumers = line->consumers;
    struct call *call = calls_new(consumers->options.calls, partition);
    if (!call)
        return NULL;
    struct bytes *names = arena_alloc(&consumers->scratch, topics * sizeof(*names));
    for (uint32_t i = 0; i < topics; i++) {
        names[i] = topic_name(line->topics[i].topic);
        line->topics[i].topic->hints[partition].news = false;
    }
    struct cmd_reserve reserve = {
        .topics = names,
        .topic_count = topics,
        .max = max,
        .listed_order = line->listed_order,
        .bound = line->bound,
    };
    struct ask *ask = ask_new(line, topics, max);
    script_ask_reserve(&call->request, consumers->options.space, &call->id, &reserve, max,
                       consumers->subscribed);
    call->must = max > 0;
    call->late = asked_long_ago;
    line->asking[partition] = true;
    calls_send(call, ask, asked);
    return ask;
}

static uint64_t open_wants(const struct line *line)
{
    return line->wanted > line->asked ? line->wanted - line->asked : 0;
}

/* Spreads what is wanted: to each as much as to the others, if it suffices for all of them. */
static void ask_all(struct line *line, uint32_t topics, struct spots spots)
{
    uint64_t open = open_wants(line);
    uint64_t count = open < spots.count ? open : spots.count;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t left = count - i;
        uint64_t share = (open_wants(line) + left - 1) / left;
        (void)ask_for(line, topics, spots.at[i].partition,
                      share < JOBS_AT_ONCE ? (uint32_t)share : JOBS_AT_ONCE);
    }
}

static void look_at_all(struct line *line, struct spots spots, bool awaited)
{
    struct consumers *consumers = line->consumers;
    if (awaited && !line->looking)
        line->patience_us = consumers->now_us + PATIENCE_US;
    for (uint32_t i = 0; i < spots.count; i++) {
        struct ask *ask = ask_for(line, line->topic_count, spots.at[i].partition, 0);
        if (ask && awaited) {
            ask->awaited = true;
            line->looking++;
        }
    }
    if (line->looking && line->patience_us < consumers->patience_us)
        consumers->patience_us = line->patience_us;
}

static int compare_spots(const void *a_at, const void *b_at)
{
    const struct spot *a = a_at, *b = b_at;
    int order = rank_compare(a->first, b->first);
    return order ? order : (a->partition > b->partition) - (a->partition < b->partition);
}

/* Asks where there are jobs of these topics, the best first. False: nowhere. */
static bool ask_hopeful(struct line *line, uint32_t from, uint32_t to)
{
    struct spots spots = find_spots(line, from, to, is_hopeful);
    struct spots noticed = find_spots(line, from, to, is_noticed);
    if (noticed.count && spots.count > open_wants(line)) { /* which is the best? */
        look_at_all(line, noticed, true);
        return true;
    }
    qsort(spots.at, spots.count, sizeof(*spots.at), compare_spots);
    ask_all(line, to, spots);
    return spots.count > 0;
}

/* Where the order of the list counts, nothing of a topic is asked for before all before it have
 * answered that they have nothing. */
static bool ask_in_order(struct line *line)
{
    for (uint32_t i = 0; i < line->topic_count; i++) {
        if (ask_hopeful(line, i, i + 1) || line->calls > line->silent)
            return true;
    }
    return false;
}

/* Nobody has asked there yet; false: they are being looked at, and may have better jobs than what
 * is known. */
static bool ask_unsure(struct line *line)
{
    struct spots unsure = find_spots(line, 0, line->topic_count, is_unsure);
    bool alone = unsure.count == 1 && line->calls == line->silent &&
                 find_spots(line, 0, line->topic_count, is_hopeful).count == 0;
    if (alone)
        ask_all(line, line->topic_count, unsure);
    else
        look_at_all(line, unsure, true);
    return !line->looking || line->patience_us <= line->consumers->now_us;
}

static void ask_taken(struct line *line)
{
    struct spots taken = find_spots(line, 0, line->topic_count, is_taken);
    if (taken.count == 1 || (!line->listed_order && taken.count <= open_wants(line)))
        ask_all(line, line->topic_count, taken);
    else
        look_at_all(line, taken, true);
}

void line_ask_behind(struct line *line, uint32_t partition)
{
    uint64_t open = open_wants(line);
    bool ordered = line->listed_order && line->topic_count > 1;
    if (!open || ordered || line->asking[partition])
        return;
    struct ask *ask = ask_for(line, line->topic_count, partition,
                              open < JOBS_AT_ONCE ? (uint32_t)open : JOBS_AT_ONCE);
    if (ask)
        ask->behind = true;
}

static void line_ask(struct line *line)
{
    if (!ask_unsure(line) || !open_wants(line))
        return;
    if (!(line->listed_order ? ask_in_order(line) : ask_hopeful(line, 0, line->topic_count)))
        ask_taken(line);
    else
        look_at_all(line, find_spots(line, 0, line->topic_count, is_stale), false);
}

/*
 * Nothing is under way, and nowhere is known to be anything: who does not wait, or has got some
 * jobs, is answered. Most lines have none of these, and may be long.
 */
static void settle(struct line *line)
{
    struct list *next;
    for (struct list *at = line->waiters.next; at != &line->waiters && line->settles; at = next) {
        struct waiter *waiter = LIST_ENTRY(at, struct waiter, place);
        next = at->next;
        if (waiter->job_count || !waiter->parked)
            waiter_end(waiter, line->silent ? ERR_AGAIN : ERR_EMPTY);
    }
}

void line_step(struct line *line)
{
    if (open_wants(line))
        line_ask(line);
    if (line->calls == line->silent)
        settle(line);
}
