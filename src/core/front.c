/*
 * The order of a topic's ready jobs if some of them are far. The first job in memory is reserved
 * only if no entry of topic::far_ready comes before it. Otherwise, if consumers wait, the topic is
 * `hungry`: the engine reads the records of its first far jobs and brings them to memory.
 *
 * An entry is stale if its job is not far any more and will not return to that place. The entry of
 * a job that is in memory only for a visit is kept, because the job returns.
 */
#include "core/front.h"
#include "base/check.h"
#include "core/core_internal.h"
#include "core/far.h"

enum {
    SETTLE_MAX = 128, /* stale first entries that are removed at a time */
    SWEEP_STEPS = 4,  /* entries checked with each change, while … */
    SWEEP_LEAST = 64, /* … if at least this many, and more than half, may be stale */
    RESERVED_MAX =
        1024, /* when memory is short: far jobs are loaded only while fewer jobs are reserved */
    RETRY_ENTRIES = 1000, /* a turn */
    ENTRY_NS = 400,       /* for an entry that is visited … */
    NEXT_NS = 150,        /* … and for finding one that comes next */
    WAITER_NS = 20,       /* for a waiter whose demand is counted */
    WAITERS_MAX = 1024,   /* that are looked at: any number of clients may have gone at once */
    SHOWN_LOOKS = 8,      /* entries examined to find the first one that is not stale */
};

/* ---- stale entries ---- */

static bool is_stale(const struct core *core, const struct far_ready_entry *entry)
{
    if (core_is_far_ready(core, entry->seq, entry->where))
        return false;
    uint32_t number = index_find(&core->index, &(struct job_ref){.seq = entry->seq});
    const struct job *job = number == POOL_NONE ? NULL : core_job(core, number);
    return !job || job->where != entry->where || job->state != JOB_READY || !job->leaving;
}

static void sweep(const struct core *core, struct topic *topic)
{
    struct far_ready *heap = &topic->far_ready;
    for (unsigned i = 0; i < SWEEP_STEPS && heap->count > 0; i++) {
        heap->swept = heap->swept < heap->count ? heap->swept : 0;
        if (is_stale(core, &heap->entries[heap->swept]))
            far_ready_remove(heap, heap->swept);
        else
            heap->swept++;
    }
}

void core_front_purge(const struct core *core, struct topic *topic)
{
    struct far_ready *heap = &topic->far_ready;
    for (uint32_t place = heap->count; place > 0; place--) {
        while (place <= heap->count && is_stale(core, &heap->entries[place - 1]))
            far_ready_remove(heap, place - 1);
    }
}

void core_front_settle(struct core *core, struct topic *topic)
{
    struct far_ready *heap = &topic->far_ready;
    unsigned steps = 0;
    for (; steps < SETTLE_MAX && heap->count > 0 && is_stale(core, heap->entries); steps++)
        far_ready_remove(heap, 0);
    if (heap->count > SWEEP_LEAST && heap->count / 2 > topic->far[JOB_READY])
        sweep(core, topic);
    budget_spend(core->budget, (int64_t)steps * ENTRY_NS);
}

/* ---- finding the next far jobs ---- */

bool core_front_room(const struct core *core)
{
    return core_has_memory(core) || core->totals.jobs[JOB_RESERVED] < RESERVED_MAX;
}

/* How many jobs the topic's waiting consumers request; counts up to CORE_FRONT_MAX. */
static uint32_t wanted_of_topic(struct core *core, const struct topic *topic)
{
    uint32_t wanted = 0, waiters = 0;
    for (const struct list *at = topic->waiting.next;
         at != &topic->waiting && wanted < CORE_FRONT_MAX && waiters < WAITERS_MAX; at = at->next) {
        const struct wait_link *link = LIST_ENTRY(at, const struct wait_link, of_topic);
        const struct waiter *waiter = pool_at(&core->waiters, link->waiter);
        uint32_t left = waiter->gone ? 0 : CORE_FRONT_MAX - wanted; /* it gets no job */
        wanted += waiter->wanted.max < left ? waiter->wanted.max : left;
        waiters++;
    }
    budget_spend(core->budget, (int64_t)waiters * WAITER_NS);
    return wanted;
}

/* Collects the first entries whose jobs are far, without those that are in memory for a visit. */
static void find_first(struct core *core, const struct topic *topic, struct core_front *out_front)
{
    uint32_t places[CORE_FRONT_MAX];
    uint32_t wanted = wanted_of_topic(core, topic);
    uint32_t count = far_ready_next(&topic->far_ready, places,
                                    wanted > CORE_FRONT_LEAST ? wanted : CORE_FRONT_LEAST);
    budget_spend(core->budget, (int64_t)count * NEXT_NS);
    out_front->topic = topic->number;
    out_front->count = 0;
    out_front->many = wanted > 1;
    for (uint32_t i = 0; i < count; i++) {
        const struct far_ready_entry *entry = &topic->far_ready.entries[places[i]];
        if (!core_is_far_ready(core, entry->seq, entry->where))
            continue;
        out_front->jobs[out_front->count].seq = entry->seq;
        out_front->jobs[out_front->count++].where = entry->where;
    }
}

bool core_front_wanted(const struct core *core)
{
    return !list_empty(&core->topics.hungry) && core_front_room(core);
}

bool core_front(struct core *core, struct core_front *out_front)
{
    struct list *hungry = &core->topics.hungry;
    if (!core_front_wanted(core))
        return false;
    struct topic *topic = LIST_ENTRY(hungry->next, struct topic, place);
    core_front_settle(core, topic);
    find_first(core, topic, out_front);
    topics_relist(&core->topics, topic);
    if (topic->hungry) { /* to the end of the list: other topics come first next time */
        list_remove(&topic->place);
        list_add_tail(hungry, &topic->place);
    }
    return true;
}

bool core_front_arrive(struct core *core, const struct event *event)
{
    bool arrived = core_arrive(core, event);
    uint32_t number = index_find(&core->index, &(struct job_ref){.seq = event->job.seq});
    struct topic *topic = topics_find(&core->topics, event->topic);
    core->held = false; /* perhaps */
    if (arrived && number != POOL_NONE)
        core_job(core, number)->leaving = false;
    if (topic) {
        core_front_settle(core, topic);
        topics_relist(&core->topics, topic);
    }
    return arrived;
}

bool core_front_first(struct core *core, struct bytes name, uint64_t *out_seq, uint64_t *out_where)
{
    struct topic *topic = topics_find(&core->topics, name);
    if (!topic || topic->far_ready.count == 0)
        return false;
    core_front_settle(core, topic);
    topics_relist(&core->topics, topic);
    const struct far_ready_entry *first = topic_first_far(topic, &core->jobs);
    if (!first)
        return false;
    *out_seq = first->seq;
    *out_where = first->where;
    return true;
}

int64_t core_front_due_us(const struct core *core, const struct topic *topic)
{
    const struct far_ready *heap = &topic->far_ready;
    uint32_t places[SHOWN_LOOKS] = {0}, number = ready_heap_first(&topic->ready);
    uint32_t count = topic->far[JOB_READY] > 0 && heap->count > 0;
    const struct job *job = number == POOL_NONE ? NULL : core_job(core, number);
    const struct far_ready_entry *entry = NULL;
    if (count && is_stale(core, heap->entries)) /* rare */
        count = far_ready_next(heap, places, SHOWN_LOOKS);
    for (uint32_t i = 0; i < count; i++) {
        entry = &heap->entries[places[i]];
        if (!is_stale(core, entry) || (job && !far_ready_before(entry, job)))
            break;
    }
    bool far = entry && (!job || far_ready_before(entry, job));
    return far ? entry->rank_us : job ? job->due_us : 0;
}

/* ---- records that cannot be read ---- */

void core_front_unread(struct core *core, uint32_t topic_number, uint64_t seq, uint64_t where)
{
    struct topic *topic = topics_at(&core->topics, topic_number);
    struct far_ready *heap = &topic->far_ready;
    uint32_t places[CORE_FRONT_MAX];
    uint32_t count = far_ready_next(heap, places, CORE_FRONT_MAX);
    budget_spend(core->budget, (int64_t)count * NEXT_NS);
    core->held = false; /* perhaps */
    for (uint32_t i = 0; i < count; i++) {
        struct far_unread unread = {.entry = heap->entries[places[i]], .topic = topic_number};
        if (unread.entry.seq != seq || unread.entry.where != where)
            continue;
        far_ready_remove(heap, places[i]);
        buf_add(&core->far.unread, &unread, sizeof(unread));
        break;
    }
    topics_relist(&core->topics, topic);
}

bool core_front_retry(struct core *core)
{
    struct buf *unread = &core->far.unread;
    for (unsigned i = 0; i < RETRY_ENTRIES && unread->len > 0; i++) {
        struct far_unread again;
        unread->len -= sizeof(again);
        memcpy(&again, unread->at + unread->len, sizeof(again));
        if (is_stale(core, &again.entry)) /* the topic of a stale entry may be gone */
            continue;
        struct topic *topic = topics_at(&core->topics, again.topic);
        far_ready_add(&topic->far_ready, &again.entry);
        topics_relist(&core->topics, topic);
        budget_spend(core->budget, ENTRY_NS);
    }
    bool more = unread->len > 0;
    if (!more)
        buf_fini(unread);
    return more;
}
