/*
 * The consumers' part of a turn: what the groups that have changed reserve, what other daemons are
 * notified of instead, and the end of all waits.
 */
#include "engine/redis/consumers_parts.h"

/* Reserving waits for the answers to probes: not for a silent server's, which may take long. */
static bool topic_is_probed(const struct topic *topic)
{
    for (const struct list *at = topic->groups.next; at != &topic->groups; at = at->next) {
        const struct wait_group *group = LIST_ENTRY(at, struct place, in_topic)->group;
        if (group->awaited_probes && group->probe_deadline_us > consumers_now_us(group->consumers))
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

/* Topics of groups with probes under way wait until these are answered, or their time is over. */
static void pass_on(struct consumers *consumers)
{
    struct list *next;
    for (struct list *at = consumers->notified_alone.next; at != &consumers->notified_alone;
         at = next) {
        struct topic *topic = LIST_ENTRY(at, struct topic, notified_alone);
        next = at->next;
        if (!topic_is_probed(topic))
            pass_on_topic(consumers, topic);
    }
}

void consumers_match(struct consumers *consumers)
{
    struct list now; /* a group that becomes dirty again meanwhile is handled in the next turn */
    list_init(&now);
    while (!list_empty(&consumers->dirty)) {
        struct list *node = consumers->dirty.next;
        list_remove(node);
        list_add_tail(&now, node);
    }
    while (!list_empty(&now)) {
        struct wait_group *group = LIST_ENTRY(now.next, struct wait_group, dirty);
        list_remove(&group->dirty);
        wait_group_step(group);
        arena_reset(&consumers->scratch);
        wait_group_free_if_over(group);
    }
    pass_on(consumers);
}

bool consumers_wait_for_match(const struct consumers *consumers)
{
    return !list_empty(&consumers->dirty);
}

/* ---- the end of all waits ---- */

static void drain_group(struct wait_group *group, enum err err)
{
    struct list *next;
    for (struct list *at = group->waiters.next; at != &group->waiters; at = next) {
        struct waiter *waiter = LIST_ENTRY(at, struct waiter, place);
        next = at->next;
        if (waiter->parked)
            waiter_end(waiter, err);
    }
    wait_group_touch(group);
}

void consumers_drain(struct consumers *consumers, enum err err)
{
    consumers->drained = err;
    for (struct list *at = consumers->groups.next; at != &consumers->groups; at = at->next)
        drain_group(LIST_ENTRY(at, struct wait_group, place), err);
}
