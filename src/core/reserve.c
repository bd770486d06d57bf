/*
 * Taking jobs, and waiting for them. A parked reserve (a waiter) hangs on each topic that it
 * listed and on the wheel of waits; whoever takes it off takes it off everywhere, so it is
 * answered once.
 */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "core/state.h"

enum { TAKE_BYTES = 16 * 1024 * 1024 }; /* bodies handed out at once: no more after so many */

static struct waiter *waiter_at(const struct core *core, uint32_t number)
{
    return pool_at(&core->waiters, number);
}

static void candidate_add(struct core *core, uint32_t place, struct topic *topic)
{
    if (place == core->candidates_cap) {
        core->candidates_cap = place ? place * 2 : 16;
        core->candidates =
            mem_realloc(core->candidates, core->candidates_cap * sizeof(struct topic *));
    }
    core->candidates[place] = topic;
}

/* The job to hand out next from the first `count` candidates, or POOL_NONE. */
static uint32_t choose(const struct core *core, uint32_t count, bool listed_order)
{
    uint32_t best = POOL_NONE;
    for (uint32_t i = 0; i < count; i++) {
        const struct topic *topic = core->candidates[i];
        uint32_t first = queue_first(&topic->ready);
        if (first == POOL_NONE || topic->pause_until_us)
            continue;
        if (listed_order)
            return first;
        if (best == POOL_NONE || queue_before(core_job(core, first), core_job(core, best)))
            best = first;
    }
    return best;
}

/* Leases what is wanted from the first `count` candidates into the scratch of views. */
static uint32_t take(struct core *core, uint32_t count, const struct wanted *wanted)
{
    uint32_t taken = 0;
    uint64_t body_bytes = 0;
    while (taken < wanted->max && body_bytes < TAKE_BYTES) {
        uint32_t number = choose(core, count, wanted->listed_order);
        if (number == POOL_NONE)
            break;
        core_lease(core, number, wanted->bound);
        struct job_view *views = core_views(core, taken + 1);
        core_view(core, core_job(core, number), &views[taken]);
        body_bytes += views[taken].body_len;
        taken++;
    }
    return taken;
}

static void reply_taken(struct core *core, void *asker, uint32_t taken)
{
    core_reply(core, asker,
               &(struct reply){.kind = CMD_RESERVE, .count = taken, .jobs = core->views});
}

/* Takes the waiter off its topics and its wheel and frees it. The asker is still to be answered. */
static void unpark(struct core *core, uint32_t number)
{
    struct waiter *waiter = waiter_at(core, number);
    wheel_remove(&core->waits, number);
    for (uint32_t i = 0; i < waiter->link_count; i++) {
        struct topic *topic = topics_at(&core->topics, waiter->links[i].topic);
        list_remove(&waiter->links[i].of_topic);
        topic->waiters--;
        topics_file(&core->topics, topic);
    }
    if (waiter->links != &waiter->one)
        mem_free(waiter->links);
    waiter->generation = 0;
    pool_give(&core->waiters, number);
}

/* Hangs the waiter on one more topic, unless it hangs there already. */
static enum err link_topic(struct core *core, uint32_t number, struct bytes name)
{
    struct waiter *waiter = waiter_at(core, number);
    struct topic *topic;
    enum err err = topics_need(&core->topics, name, &topic);
    if (err || topic->mark == core->mark)
        return err;
    topic->mark = core->mark;
    struct wait_link *link = &waiter->links[waiter->link_count++];
    link->topic = topic->number;
    link->waiter = number;
    list_add_tail(&topic->waiting, &link->of_topic);
    topic->waiters++; /* from here on it is not idle: the next topic cannot push it out */
    topics_file(&core->topics, topic);
    return OK;
}

static struct wanted wanted_of(const struct cmd_reserve *cmd)
{
    return (struct wanted){.max = cmd->max, .listed_order = cmd->listed_order, .bound = cmd->bound};
}

static enum err park(struct core *core, const struct cmd_reserve *cmd, void *asker,
                     uint64_t *out_parked)
{
    if (core->waiters.count + core->scan_count >= core->limits.waiters)
        return ERR_WAITERS_LIMIT;
    uint32_t number = pool_take(&core->waiters);
    CHECK(number < SCAN_HANDLE);
    struct waiter *waiter = waiter_at(core, number);
    waiter->generation = core_next_generation(core);
    waiter->asker = asker;
    waiter->wanted = wanted_of(cmd);
    waiter->until_us = time_add(core->now_us, cmd->wait_us);
    waiter->links = &waiter->one;
    if (cmd->topic_count > 1)
        waiter->links = mem_alloc(cmd->topic_count * sizeof(struct wait_link));
    wheel_add(&core->waits, number);
    core->mark++;
    for (uint32_t i = 0; i < cmd->topic_count; i++) {
        enum err err = link_topic(core, number, cmd->topics[i]);
        if (err) {
            unpark(core, number);
            return err;
        }
    }
    *out_parked = (uint64_t)waiter->generation << 32 | number;
    return OK;
}

void core_reserve(struct core *core, const struct cmd_reserve *cmd, void *asker,
                  uint64_t *out_parked)
{
    uint32_t count = 0, taken = 0;
    struct wanted wanted = wanted_of(cmd);
    bool behind_others = false;
    for (uint32_t i = 0; i < cmd->topic_count; i++) {
        const struct topic *topic = topics_find(&core->topics, cmd->topics[i]);
        behind_others = behind_others || (topic && topic->servable);
    }
    /*
     * Nobody overtakes those who wait already. core_match serves them all in order, in this very
     * turn: at once if the asker cannot wait for that.
     */
    if (behind_others && cmd->wait_us <= 0)
        behind_others = core_match(core, core->now_us, UINT32_MAX);
    for (uint32_t i = 0; i < cmd->topic_count && !behind_others; i++) {
        struct topic *topic = topics_find(&core->topics, cmd->topics[i]);
        if (topic)
            candidate_add(core, count++, topic);
    }
    if (count)
        taken = take(core, count, &wanted);
    if (taken) {
        reply_taken(core, asker, taken);
        return;
    }
    enum err err = cmd->wait_us > 0 ? park(core, cmd, asker, out_parked) : ERR_EMPTY;
    if (err)
        core_reply(core, asker, &(struct reply){.err = err, .kind = CMD_RESERVE});
}

/* Gives the waiter what its topics have, up to `max`, and answers it. Returns how many; 0: none. */
static uint32_t serve(struct core *core, uint32_t number, uint32_t max)
{
    struct waiter *waiter = waiter_at(core, number);
    for (uint32_t i = 0; i < waiter->link_count; i++)
        candidate_add(core, i, topics_at(&core->topics, waiter->links[i].topic));
    struct wanted wanted = waiter->wanted;
    wanted.max = wanted.max < max ? wanted.max : max;
    uint32_t taken = take(core, waiter->link_count, &wanted);
    if (taken) {
        void *asker = waiter->asker;
        unpark(core, number);
        reply_taken(core, asker, taken);
    }
    return taken;
}

bool core_match(struct core *core, int64_t now_us, uint32_t budget)
{
    if (now_us > core->now_us)
        core->now_us = now_us;
    struct list *servable = &core->topics.servable;
    while (budget > 0 && !list_empty(servable)) {
        struct topic *topic = LIST_ENTRY(servable->next, struct topic, place);
        const struct wait_link *link = LIST_ENTRY(topic->waiting.next, struct wait_link, of_topic);
        uint32_t taken = serve(core, link->waiter, budget);
        CHECK(taken > 0 && taken <= budget); /* a servable topic has a job for its waiter */
        budget -= taken;
        if (topic->servable) { /* the others' turn */
            list_remove(&topic->place);
            list_add_tail(servable, &topic->place);
        }
    }
    return !list_empty(servable);
}

bool core_end_waits(struct core *core, uint32_t budget)
{
    for (;;) {
        uint32_t number = wheel_pop(&core->waits, core->now_us, &budget);
        if (number == POOL_NONE)
            return budget == 0;
        wheel_add(&core->waits, number);     /* unpark() takes it off */
        if (serve(core, number, UINT32_MAX)) /* a job came just in time */
            continue;
        void *asker = waiter_at(core, number)->asker;
        unpark(core, number);
        core_reply(core, asker, &(struct reply){.err = ERR_EMPTY, .kind = CMD_RESERVE});
    }
}

void core_cancel_wait(struct core *core, uint32_t number, uint32_t generation)
{
    if (number < core->waiters.used && waiter_at(core, number)->generation == generation)
        unpark(core, number);
}

void core_drain(struct core *core, enum err err)
{
    if (core->waiters.count == 0)
        return;
    for (uint32_t i = 0; i < core->waiters.used; i++) {
        if (!waiter_at(core, i)->generation)
            continue;
        void *asker = waiter_at(core, i)->asker;
        unpark(core, i);
        core_reply(core, asker, &(struct reply){.err = err, .kind = CMD_RESERVE});
    }
}
