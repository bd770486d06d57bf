/*
 * The consumers' part of a turn: what the groups that have changed reserve, what other daemons are
 * notified of instead, and the end of all waits.
 */
#include "engine/redis/consumers_parts.h"

enum {
    GROUP_NS = 4000, /* work for a group: mostly a call, … */
    WAITER_NS = 500, /* … and for the end of a wait, without that of who gets the answer */
};

/* `steps` counts what was done in this turn: something is, even with a budget that is spent. */
static bool may_go_on(const struct budget *budget, unsigned steps)
{
    return !budget || steps == 0 || !budget_spent(budget);
}

static void spend(struct budget *budget, int64_t ns)
{
    if (budget)
        budget_spend(budget, ns);
}

/* A group that has not had its step may need the jobs; and reserving waits for the answers to
   probes: not for a silent server's, which may take long. */
static bool topic_waits(const struct topic *topic)
{
    for (const struct list *at = topic->groups.next; at != &topic->groups; at = at->next) {
        const struct wait_group *group = LIST_ENTRY(at, struct place, in_topic)->group;
        if (!list_empty(&group->dirty) ||
            (group->awaited_probes &&
             group->probe_deadline_us > consumers_now_us(group->consumers)))
            return true;
    }
    return false;
}

uint64_t consumers_requesting_call(const struct topic *topic, uint32_t partition, bool wholly)
{
    for (const struct list *at = topic->groups.next; at != &topic->groups; at = at->next) {
        const struct wait_group *group = LIST_ENTRY(at, struct place, in_topic)->group;
        const struct partition_fetches *fetches = &group->at[partition];
        if (wholly && group->listed_order)
            continue;
        if (fetches->calls > (wholly ? fetches->shared : 0) && !(wholly && group->awaited_probes))
            return fetches->last_call;
    }
    return 0;
}

/* Only we were notified of ready jobs, and no consumer here needs them: notifies another daemon.
 * Not while a reserve is under way: it may find no job because it came before, and then we need
 * it. */
static void pass_on_topic(struct consumers *consumers, struct topic *topic)
{
    bool later = false;
    for (uint32_t i = 0; i < consumers->options.space->partitions; i++) {
        struct hint *hint = &topic->hints[i];
        if (hint->notified_alone && consumers_requesting_call(topic, i, false)) {
            later = true;
            continue;
        }
        if (hint->notified_alone)
            consumers_pass_on(consumers, topic_name(topic), i);
        hint->notified_alone = false;
    }
    if (!later)
        list_remove(&topic->notified_alone);
}

/* Topics of groups that wait for their step, or with probes under way, are left until then. */
static void pass_on(struct consumers *consumers)
{
    struct list *next;
    for (struct list *at = consumers->notified_alone.next; at != &consumers->notified_alone;
         at = next) {
        struct topic *topic = LIST_ENTRY(at, struct topic, notified_alone);
        next = at->next;
        if (!topic_waits(topic))
            pass_on_topic(consumers, topic);
    }
}

/* ---- the end of all waits ---- */

/* False: the budget is spent; each wait that ends is one of the steps. */
static bool drain_group(struct wait_group *group, struct budget *budget, unsigned *io_steps)
{
    struct list *next;
    bool ended = false;
    for (struct list *at = group->waiters.next; at != &group->waiters; at = next) {
        struct waiter *waiter = LIST_ENTRY(at, struct waiter, place);
        next = at->next;
        if (!waiter->parked)
            continue;
        if (!may_go_on(budget, *io_steps))
            return false;
        waiter_end(waiter, group->consumers->drained);
        ++*io_steps;
        ended = true;
        spend(budget, WAITER_NS);
    }
    if (ended)
        wait_group_touch(group);
    return true;
}

static void drain_some(struct consumers *consumers, struct budget *budget)
{
    unsigned steps = 0;
    struct list *next;
    for (struct list *at = consumers->groups.next; at != &consumers->groups; at = next) {
        struct wait_group *group = LIST_ENTRY(at, struct wait_group, place);
        next = at->next;
        if (!drain_group(group, budget, &steps))
            return;
        wait_group_free_if_over(group); /* so that the next slice does not go through it again */
    }
    consumers->drains = false;
}

void consumers_drain(struct consumers *consumers, enum err err, struct budget *budget)
{
    consumers->drained = err;
    consumers->drains = true;
    drain_some(consumers, budget);
}

/* ---- the turn ---- */

static void move_all(struct list *from, struct list *to)
{
    while (!list_empty(from)) {
        struct list *node = from->prev;
        list_remove(node);
        list_add_head(to, node);
    }
}

void consumers_match(struct consumers *consumers, struct budget *budget)
{
    struct list now; /* a group that becomes dirty again meanwhile is handled in the next turn */
    if (consumers->drains)
        drain_some(consumers, budget);
    list_init(&now);
    move_all(&consumers->dirty, &now);
    for (unsigned steps = 0; !list_empty(&now) && may_go_on(budget, steps); steps++) {
        struct wait_group *group = LIST_ENTRY(now.next, struct wait_group, dirty);
        list_remove(&group->dirty);
        wait_group_step(group);
        arena_reset(&consumers->scratch);
        wait_group_free_if_over(group);
        spend(budget, GROUP_NS);
    }
    move_all(&now, &consumers->dirty);
    pass_on(consumers);
}

bool consumers_wait_for_match(const struct consumers *consumers)
{
    return consumers->drains || !list_empty(&consumers->dirty);
}
