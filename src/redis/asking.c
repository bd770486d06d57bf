/*
 * Asks Redis for the jobs that a line wants, and reads what comes. A line never has more jobs asked
 * for (`asked`) than its waiters want, at the time of asking.
 */
#include "base/mem.h"
#include "redis/waits_parts.h"

enum {
    AGAIN_US = 500 * 1000, /* after a call that failed */
    JOBS_AT_ONCE = 256,    /* of one call: bodies may be large */
};

/* One call for jobs, of the line's first `topics` topics. */
struct ask {
    struct line *line;
    bool silent;
    uint32_t topics;
    uint32_t max;
    uint64_t notices; /* line_notices() when it was made */
};

static uint64_t line_notices(const struct line *line, uint32_t topics)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < topics; i++)
        sum += line->topics[i].topic->notices;
    return sum;
}

static enum knowledge line_knows(const struct line *line, uint32_t topics, uint32_t partition)
{
    enum knowledge best = EMPTY;
    for (uint32_t i = 0; i < topics; i++) {
        if (line->topics[i].topic->known[partition] > best)
            best = line->topics[i].topic->known[partition];
    }
    return best;
}

static void ask_learns(const struct ask *ask, uint32_t partition, enum knowledge knowledge)
{
    for (uint32_t i = 0; i < ask->topics; i++)
        ask->line->topics[i].topic->known[partition] = (uint8_t)knowledge;
}

static void bury_damaged(struct waits *waits, const struct script_parts *parts)
{
    struct job_view *jobs = arena_alloc(&waits->scratch, JOBS_AT_ONCE * sizeof(*jobs));
    uint32_t found = script_damaged(waits->options.space, parts, jobs, JOBS_AT_ONCE);
    for (uint32_t i = 0; i < found; i++)
        waits->options.damaged(waits->options.owner, &jobs[i]);
}

/* What is EMPTY now may not be at that time: a pause ends there. */
static void again_at(const struct ask *ask, int64_t again_us)
{
    struct waits *waits = ask->line->waits;
    for (uint32_t i = 0; i < ask->topics; i++) {
        struct topic *topic = ask->line->topics[i].topic;
        if (again_us < topic->again_us)
            topic->again_us = again_us;
    }
    if (again_us < waits->again_us)
        waits->again_us = again_us;
}

/* A call that failed: those who do not wait are told; the others wait on. */
static void ask_failed(const struct ask *ask, enum err err)
{
    struct line *line = ask->line;
    struct list *next;
    again_at(ask, line->waits->now_us + AGAIN_US);
    for (struct list *at = line->waiters.next; at != &line->waiters; at = next) {
        struct waiter *waiter = LIST_ENTRY(at, struct waiter, place);
        next = at->next;
        if (!waiter->parked)
            waiter_end(waiter, err);
    }
}

static void asked(void *owner, struct call *call, enum err err, const struct bytes *parts,
                  uint32_t count)
{
    struct ask *ask = owner;
    struct line *line = ask->line;
    struct waits *waits = line->waits;
    uint32_t partition = call->id.partition;
    struct script_answer answer = {.err = OK};
    struct script_parts said = {.partition = partition, .at = parts, .count = count};
    line->calls--;
    line->silent -= ask->silent;
    line->asked -= ask->silent ? 0 : ask->max;
    line->asking[partition] = false;
    if (!err)
        err = script_read(waits->options.space, CMD_RESERVE, &said, &waits->scratch, &answer);
    if (err) {
        ask_learns(ask, partition, EMPTY); /* until again_us */
        ask_failed(ask, err);
    } else {
        bool news = line_notices(line, ask->topics) != ask->notices;
        bool marked = waits->subscribed && answer.reply.count < ask->max && !answer.more;
        ask_learns(ask, partition, marked && !news ? EMPTY : LIKELY);
        if (answer.next_us != INT64_MAX)
            again_at(ask, answer.next_us);
        if (answer.reply.err == ERR_DAMAGED || answer.reply.count < answer.count)
            bury_damaged(waits, &said);
        if (!answer.reply.err)
            line_hand_out(line, answer.reply.jobs, answer.reply.count);
        if (!waits->subscribed && answer.reply.count < ask->max)
            ask_learns(ask, partition, EMPTY); /* UNKNOWN again when notices are heard */
    }
    arena_reset(&waits->scratch);
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

static bool ask_for(struct line *line, uint32_t topic_count, uint32_t partition, uint32_t max)
{
    struct waits *waits = line->waits;
    struct call *call = calls_new(waits->options.calls, partition);
    if (!call)
        return false;
    struct bytes *topics = arena_alloc(&waits->scratch, line->topic_count * sizeof(struct bytes));
    for (uint32_t i = 0; i < topic_count; i++)
        topics[i] = topic_name(line->topics[i].topic);
    struct cmd_reserve reserve = {
        .topics = topics,
        .topic_count = topic_count,
        .max = max,
        .listed_order = line->listed_order,
        .bound = line->bound,
    };
    struct ask *ask = mem_alloc(sizeof(*ask));
    *ask = (struct ask){
        .line = line,
        .topics = topic_count,
        .max = max,
        .notices = line_notices(line, topic_count),
    };
    script_ask_reserve(&call->request, waits->options.space, &call->id, &reserve, max,
                       waits->subscribed);
    call->must = true;
    call->late = asked_long_ago;
    line->calls++;
    line->asked += max;
    line->asking[partition] = true;
    calls_send(call, ask, asked);
    return true;
}

static uint32_t count_partitions(const struct line *line, uint32_t topics, enum knowledge knowledge)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < line->waits->options.space->partitions; i++)
        count += !line->asking[i] && line_knows(line, topics, i) == knowledge;
    return count;
}

/* Spreads what is wanted over the partitions of which we know this; true: all is asked for. */
static bool ask_those(struct line *line, uint32_t topics, enum knowledge knowledge)
{
    uint32_t partitions = line->waits->options.space->partitions;
    uint32_t left = count_partitions(line, topics, knowledge);
    uint32_t first = line->turn;
    for (uint32_t i = 0; i < partitions && left && line->asked < line->wanted; i++) {
        uint32_t partition = (first + i) % partitions;
        if (line->asking[partition] || line_knows(line, topics, partition) != knowledge)
            continue;
        uint64_t open = line->wanted - line->asked;
        uint64_t share = (open + left - 1) / left;
        left--;
        line->turn = (partition + 1) % partitions;
        if (!ask_for(line, topics, partition,
                     share < JOBS_AT_ONCE ? (uint32_t)share : JOBS_AT_ONCE))
            return false;
    }
    return line->asked >= line->wanted;
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

/* Where the order of the list counts, nothing of a topic is asked for before all before it have
 * answered that they have nothing. */
static void ask_in_order(struct line *line)
{
    for (uint32_t topics = 1; topics <= line->topic_count; topics++) {
        if (line->asked >= line->wanted || ask_those(line, topics, LIKELY) ||
            ask_those(line, topics, UNKNOWN) || line->calls > line->silent)
            return;
    }
}

void line_step(struct line *line)
{
    if (line->listed_order)
        ask_in_order(line);
    else if (line->asked < line->wanted && !ask_those(line, line->topic_count, LIKELY))
        (void)ask_those(line, line->topic_count, UNKNOWN); /* what is asked for is in `asked` */
    if (line->calls == line->silent)
        settle(line);
}
