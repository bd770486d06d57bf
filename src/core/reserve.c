/*
 * Reserving jobs, and waiting for them. A parked reserve (a waiter) is in the list of each topic
 * that it named and in the wheel `waits`; it is always removed from all of them together, so it is
 * answered once.
 */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "core/core_internal.h"

enum {
    TAKE_MIN = 64,     /* a reserve takes this many jobs even if the budget is spent, … */
    TAKE_TOPICS = 256, /* … of up to so many topics; of more topics fewer, but one */
    TAKE_NS = 1500,    /* estimated work of one job taken and added to the reply */
    BODY_NS = 1000,    /* kept of the budget for each taken job: the engine reads its body, … */
    BODY_BYTES_PER_NS = 4, /* … checks and copies it */
    TOPIC_NS = 50,         /* for finding a topic, or taking a waiter off one */
    LINK_NS = 500,         /* for waiting on a topic, which may have to be made */
    CANDIDATE_NS = 4,      /* for comparing one topic's first job */
    ENDS_MIN = 16,         /* waits that end in a tick even if the budget is spent, … */
    ENDS_TOPICS = 64,      /* … where one counts as several if it is on more topics than this */
    LEAVE_TOPICS = 16,     /* a waiter on more topics than this leaves them in later ticks, … */
    LEAVE_MIN = 64,        /* … as many of them in a tick even if the budget is spent */
    HUNGRY_TURN = 256,     /* hungry topics that are served in a turn while memory is short */
    FAR_WAIT_US = 1000,    /* after its wait a waiter looks this often for its far job … */
    FAR_WAIT_MAX_US = 1000 * 1000, /* … and no longer */
};

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
        core->candidate_names =
            mem_realloc(core->candidate_names, core->candidates_cap * sizeof(struct bytes));
    }
    core->candidates[place] = topic;
}

/*
 * The best job in memory of the first `count` candidates. POOL_NONE: there is none, or (*out_far is
 * set) a far job comes before it, which is being read.
 */
static uint32_t choose(const struct core *core, uint32_t count, bool listed_order, bool *out_far)
{
    uint32_t best = POOL_NONE;
    const struct far_ready_entry *best_far = NULL;
    for (uint32_t i = 0; i < count && !(listed_order && (best_far || best != POOL_NONE)); i++) {
        const struct topic *topic = core->candidates[i];
        uint32_t first = ready_heap_first(&topic->ready);
        if (topic->pause_until_us)
            continue;
        const struct far_ready_entry *far =
            topic->far_ready.count ? topic_first_far(topic, &core->jobs) : NULL;
        if (far && core_front_room(core)) {
            if (!best_far || far_ready_precedes(far, best_far))
                best_far = far;
            continue;
        }
        if (first == POOL_NONE)
            continue;
        if (best == POOL_NONE || ready_heap_before(core_job(core, first), core_job(core, best)))
            best = first;
    }
    bool waits =
        best_far && (best == POOL_NONE || far_ready_before(best_far, core_job(core, best)));
    *out_far |= waits;
    return waits ? POOL_NONE : best;
}

/* How many jobs a reserve takes of so many topics even if the budget is spent. */
static uint32_t take_least(uint32_t topics)
{
    uint32_t least = topics > TAKE_TOPICS ? TAKE_MIN * TAKE_TOPICS / topics : TAKE_MIN;
    return least ? least : 1;
}

/* Leases the jobs that `wanted` asks for, from the first `count` candidates, into the scratch of
   views. *out_far: it would have been more jobs if a far job had been in memory. */
static uint32_t take(struct core *core, uint32_t count, const struct wanted *wanted, bool *out_far)
{
    uint32_t taken = 0, least = take_least(count);
    uint64_t body_bytes = 0;
    int64_t bodies_ns = 0;
    while (taken < wanted->max && body_bytes < RESERVE_BODY_BYTES &&
           (taken < least || core->budget->left_ns > bodies_ns)) {
        uint32_t number = choose(core, count, wanted->listed_order, out_far);
        if (number == POOL_NONE)
            break;
        core_lease(core, number, wanted->bound, wanted->ttr_us, wanted->by);
        struct job_view *views = core_views(core, taken + 1);
        core_view(core, core_job(core, number), &views[taken]);
        body_bytes += views[taken].body_len;
        bodies_ns += BODY_NS + views[taken].body_len / BODY_BYTES_PER_NS;
        taken++;
        budget_spend(core->budget, TAKE_NS + (int64_t)count * CANDIDATE_NS);
    }
    return taken;
}

static void reply_taken(struct core *core, void *ctx, uint32_t taken,
                        const struct cmd_reserve *reserve)
{
    core_reply(core, ctx,
               &(struct reply){
                   .kind = CMD_RESERVE, .count = taken, .jobs = core->views, .reserve = reserve});
}

static void unlink_topic(struct core *core, struct wait_link *link)
{
    struct topic *topic = topics_at(&core->topics, link->topic);
    list_remove(&link->of_topic);
    topic->waiters--;
    topics_relist(&core->topics, topic);
    budget_spend(core->budget, TOPIC_NS);
}

static void free_waiter(struct core *core, uint32_t number)
{
    struct waiter *waiter = waiter_at(core, number);
    if (waiter->links != &waiter->one)
        mem_free(waiter->links);
    waiter->generation = 0;
    pool_give(&core->waiters, number);
}

/* Unlinks the waiter from its topics and its wheel, and frees it. The caller answers its client. */
static void unpark(struct core *core, uint32_t number)
{
    struct waiter *waiter = waiter_at(core, number);
    wheel_remove(&core->waits, number);
    for (uint32_t i = 0; i < waiter->link_count; i++)
        unlink_topic(core, &waiter->links[i]);
    free_waiter(core, number);
}

static bool is_gone(const struct core *core, const struct wait_link *link)
{
    return waiter_at(core, link->waiter)->gone;
}

/*
 * The client has gone, and gets no job. All that have are known before jobs are matched, in one
 * turn, and each may be on thousands of topics: the waiter leaves them in later ticks.
 */
static void leave_later(struct core *core, uint32_t number)
{
    struct waiter *waiter = waiter_at(core, number);
    wheel_remove(&core->waits, number);
    waiter->gone = true;
    waiter->ctx = NULL;
    waiter->wanted.by = (struct bytes){0};
    waiter->one.waiter = number; /* `one` is not used: the waiter has more topics */
    list_add_tail(&core->gone, &waiter->one.of_topic);
}

bool core_leave_topics(struct core *core)
{
    for (unsigned steps = 0; !list_empty(&core->gone); steps++) {
        struct waiter *waiter = LIST_ENTRY(core->gone.next, struct waiter, one.of_topic);
        if (steps >= LEAVE_MIN && budget_spent(core->budget))
            return true;
        if (waiter->link_count == 0) {
            list_remove(&waiter->one.of_topic);
            free_waiter(core, waiter->one.waiter);
            continue;
        }
        struct wait_link *link = &waiter->links[--waiter->link_count];
        if (!list_empty(&link->of_topic)) /* else core_match() has met it */
            unlink_topic(core, link);
    }
    return false;
}

/* Adds the waiter to a topic's list, unless it is in it already. */
static enum err link_topic(struct core *core, uint32_t number, struct bytes name)
{
    struct waiter *waiter = waiter_at(core, number);
    struct topic *topic;
    enum err err = topics_get_or_create(&core->topics, name, &topic);
    if (err || topic->mark == core->mark)
        return err;
    topic->mark = core->mark;
    struct wait_link *link = &waiter->links[waiter->link_count++];
    link->topic = topic->number;
    link->waiter = number;
    list_add_tail(&topic->waiting, &link->of_topic);
    topic->waiters++; /* from here on it is not idle: creating the next topic cannot evict it */
    topics_relist(&core->topics, topic);
    return OK;
}

static struct wanted wanted_of(const struct cmd_reserve *cmd)
{
    return (struct wanted){.max = cmd->max,
                           .listed_order = cmd->listed_order,
                           .bound = cmd->bound,
                           .ttr_us = cmd->ttr_us,
                           .by = cmd->by};
}

static enum err park(struct core *core, const struct cmd_reserve *cmd, void *ctx,
                     uint64_t *out_parked)
{
    if (core->waiters.count + core->scan_pool.count >= core->limits.waiters)
        return ERR_WAITERS_LIMIT;
    uint32_t number = pool_take(&core->waiters);
    CHECK(number < SCAN_HANDLE);
    struct waiter *waiter = waiter_at(core, number);
    waiter->generation = core_next_generation(core);
    waiter->ctx = ctx;
    waiter->wanted = wanted_of(cmd);
    waiter->until_us = time_add(core->now_us, cmd->wait_us);
    waiter->over_us = 0;
    waiter->gone = false;
    waiter->links = &waiter->one;
    if (cmd->topic_count > 1)
        waiter->links = mem_alloc(cmd->topic_count * sizeof(struct wait_link));
    wheel_add(&core->waits, number);
    core->mark++;
    budget_spend(core->budget, (int64_t)cmd->topic_count * LINK_NS);
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

uint64_t core_reserve(struct core *core, const struct cmd_reserve *cmd, void *ctx)
{
    uint64_t parked = 0;
    uint32_t count = 0, taken = 0;
    struct wanted wanted = wanted_of(cmd);
    bool behind_others = false, far = false;
    /*
     * A new reserve does not overtake parked ones: core_match serves them in order, and even a
     * reserve that may not wait is parked until that is done, see core_end_waits.
     */
    for (uint32_t i = 0; i < cmd->topic_count && !behind_others; i++) {
        struct topic *topic = topics_find(&core->topics, cmd->topics[i]);
        if (!topic)
            continue;
        behind_others = topic->servable;
        candidate_add(core, count++, topic);
    }
    budget_spend(core->budget, (int64_t)cmd->topic_count * TOPIC_NS);
    if (count && !behind_others)
        taken = take(core, count, &wanted, &far);
    if (taken) {
        reply_taken(core, ctx, taken, cmd);
        return 0;
    }
    bool waits = cmd->wait_us > 0 || behind_others || far;
    enum err err = waits ? park(core, cmd, ctx, &parked) : ERR_EMPTY;
    if (err)
        core_reply(core, ctx, &(struct reply){.err = err, .kind = CMD_RESERVE});
    return parked;
}

/* What is left of the waiter's command now. Its topics become the candidates. */
static struct cmd_reserve rest_of_reserve(struct core *core, const struct waiter *waiter)
{
    for (uint32_t i = 0; i < waiter->link_count; i++)
        core->candidate_names[i] = core->candidates[i]->name;
    return (struct cmd_reserve){
        .topics = core->candidate_names,
        .topic_count = waiter->link_count,
        .max = waiter->wanted.max,
        .wait_us = waiter->until_us > core->now_us ? waiter->until_us - core->now_us : 0,
        .ttr_us = waiter->wanted.ttr_us,
        .listed_order = waiter->wanted.listed_order,
        .bound = waiter->wanted.bound,
        .by = waiter->wanted.by,
    };
}

/* Gives the waiter the jobs that its topics have, up to `max`, and answers it. Returns how many; 0:
   none, maybe because a far job has to come first (*out_far). */
static uint32_t serve(struct core *core, uint32_t number, uint32_t max, bool *out_far)
{
    struct waiter *waiter = waiter_at(core, number);
    for (uint32_t i = 0; i < waiter->link_count; i++)
        candidate_add(core, i, topics_at(&core->topics, waiter->links[i].topic));
    struct wanted wanted = waiter->wanted;
    wanted.max = wanted.max < max ? wanted.max : max;
    uint32_t taken = take(core, waiter->link_count, &wanted, out_far);
    if (taken) {
        void *ctx = waiter->ctx;
        struct cmd_reserve reserve = rest_of_reserve(core, waiter);
        unpark(core, number);
        reply_taken(core, ctx, taken, &reserve);
    }
    return taken;
}

/*
 * There is no memory for far jobs, so waiters of hungry topics get jobs in memory that come later
 * in the order, as new reserves do. HUNGRY_TURN topics a turn, in rotation. True: a waiter was
 * served, so the next turn may serve others.
 */
static bool match_hungry(struct core *core, uint32_t jobs)
{
    struct list *hungry = &core->topics.hungry;
    uint32_t before = jobs;
    for (unsigned i = 0; i < HUNGRY_TURN && jobs > 0 && !list_empty(hungry); i++) {
        struct topic *topic = LIST_ENTRY(hungry->next, struct topic, place);
        struct wait_link *link = LIST_ENTRY(topic->waiting.next, struct wait_link, of_topic);
        bool far = false;
        if ((i > 0 && budget_spent(core->budget)) || core_front_room(core))
            break;
        if (is_gone(core, link)) {
            unlink_topic(core, link);
            continue;
        }
        if (topic->ready.count > 0)
            jobs -= serve(core, link->waiter, jobs, &far);
        budget_spend(core->budget, TOPIC_NS);
        if (topic->hungry) { /* to the end of the list: other topics come first next time */
            list_remove(&topic->place);
            list_add_tail(hungry, &topic->place);
        }
    }
    return jobs < before && !list_empty(hungry);
}

bool core_match(struct core *core, int64_t now_us, uint32_t jobs)
{
    if (now_us > core->now_us)
        core->now_us = now_us;
    struct list *servable = &core->topics.servable;
    /* The first topic whose first waiter got nothing, because a far job of another of its topics
       comes first. When the loop is at this topic again, no waiter can get a job. */
    const struct topic *held = NULL;
    core->held = false;
    while (jobs > 0 && !budget_spent(core->budget) && !list_empty(servable)) {
        struct topic *topic = LIST_ENTRY(servable->next, struct topic, place);
        if (topic == held) {
            core->held = true;
            return false;
        }
        struct wait_link *link = LIST_ENTRY(topic->waiting.next, struct wait_link, of_topic);
        bool far = false;
        if (is_gone(core, link)) {
            unlink_topic(core, link);
            continue;
        }
        uint32_t taken = serve(core, link->waiter, jobs, &far);
        CHECK(taken <= jobs && (taken > 0 || far)); /* a servable topic has a job for its waiter */
        jobs -= taken;
        held = taken ? NULL : held ? held : topic;
        budget_spend(core->budget, TOPIC_NS);
        if (topic->servable) { /* to the end of the list: other topics come first next time */
            list_remove(&topic->place);
            list_add_tail(servable, &topic->place);
        }
    }
    bool more = match_hungry(core, jobs);
    return more || !list_empty(servable);
}

/* Does one of the waiter's topics have earlier waiters that may still be served? */
static bool is_behind(const struct core *core, const struct waiter *waiter)
{
    for (uint32_t i = 0; i < waiter->link_count; i++) {
        const struct topic *topic = topics_at(&core->topics, waiter->links[i].topic);
        if (topic->servable && topic->waiting.next != &waiter->links[i].of_topic)
            return true;
    }
    return false;
}

/* May the waiter, whose wait is over, wait longer for a far job that the disk is reading? Up to
   FAR_WAIT_MAX_US from the first call: a disk that hangs must not hold up clients that asked for a
   short wait. */
static bool extend_wait(const struct core *core, struct waiter *waiter)
{
    if (waiter->over_us == 0)
        waiter->over_us = core->now_us;
    return core->now_us - waiter->over_us < FAR_WAIT_MAX_US;
}

static void wait_again(struct core *core, uint32_t number, int64_t us)
{
    wheel_remove(&core->waits, number);
    waiter_at(core, number)->until_us = core->now_us + us;
    wheel_add(&core->waits, number);
}

/* The wait is over: serves the waiter, lets it wait a little longer, or answers ERR_EMPTY. */
static void end_wait(struct core *core, uint32_t number)
{
    struct waiter *waiter = waiter_at(core, number);
    bool behind = is_behind(core, waiter), held = behind && core->held, far = false;
    if (behind && !held) {
        wait_again(core, number, 1);
        return;
    }
    if (!held && serve(core, number, UINT32_MAX, &far))
        return;
    if ((held || far) && extend_wait(core, waiter)) {
        wait_again(core, number, FAR_WAIT_US);
        return;
    }
    void *ctx = waiter->ctx;
    unpark(core, number);
    core_reply_err(core, CMD_RESERVE, ctx, ERR_EMPTY);
}

/*
 * Ends the waits that are over. A job that became ready in time is still reserved, but not for a
 * waiter that core_match has not reached yet: that waiter is checked again a microsecond later,
 * when those before it have been served. A waiter whose far job is being read is checked again a
 * millisecond later.
 */
bool core_end_waits(struct core *core, uint32_t steps)
{
    for (uint32_t ended = 0; ended < ENDS_MIN || !budget_spent(core->budget);) {
        uint32_t number = wheel_pop(&core->waits, core->now_us, &steps);
        if (number == POOL_NONE)
            return steps == 0;
        wheel_add(&core->waits, number); /* unpark() expects it there */
        uint32_t links = waiter_at(core, number)->link_count;
        ended += 1 + links / ENDS_TOPICS;
        budget_spend(core->budget, TAKE_NS + (int64_t)links * TOPIC_NS);
        end_wait(core, number);
    }
    return true;
}

void core_cancel_wait(struct core *core, uint32_t number, uint32_t generation)
{
    if (!pool_has(&core->waiters, number))
        return;
    const struct waiter *waiter = waiter_at(core, number);
    if (waiter->generation != generation || waiter->gone)
        return;
    if (waiter->link_count > LEAVE_TOPICS)
        leave_later(core, number);
    else
        unpark(core, number);
}

bool core_drain(struct core *core, enum err err)
{
    uint32_t number = pool_next(&core->waiters, 0);
    for (uint32_t ended = 0; number != POOL_NONE; number = pool_next(&core->waiters, number + 1)) {
        const struct waiter *waiter = waiter_at(core, number);
        if (!waiter->generation || waiter->gone)
            continue;
        if (ended >= ENDS_MIN && budget_spent(core->budget))
            return true;
        ended += 1 + waiter->link_count / ENDS_TOPICS;
        budget_spend(core->budget, TAKE_NS);
        void *ctx = waiter->ctx;
        unpark(core, number);
        core_reply(core, ctx, &(struct reply){.err = err, .kind = CMD_RESERVE});
    }
    return false;
}

/* ---- between reserving and delivering ---- */

/* The job that is reserved under this lease, or POOL_NONE. */
static uint32_t find_leased(struct core *core, int64_t now_us, uint64_t seq, uint64_t lease)
{
    if (now_us > core->now_us)
        core->now_us = now_us;
    uint32_t number = index_find(&core->index, &(struct job_ref){.seq = seq});
    if (number == POOL_NONE)
        return POOL_NONE;
    const struct job *job = core_job(core, number);
    return job->state == JOB_RESERVED && job_lease(&core->extras, job) == lease ? number
                                                                                : POOL_NONE;
}

void core_bury_damaged(struct core *core, int64_t now_us, uint64_t seq, uint64_t lease)
{
    uint32_t number = find_leased(core, now_us, seq, lease);
    if (number == POOL_NONE)
        return;
    core_bury(core, number, NOT_PROMISED);
    core_happened(core, core_job(core, number), HAPPENED_BURIED, NULL);
}

bool core_restart_lease(struct core *core, int64_t now_us, uint64_t seq, uint64_t lease,
                        int64_t run_us, int64_t *out_until_us)
{
    uint32_t number = find_leased(core, now_us, seq, lease);
    if (number == POOL_NONE)
        return false;
    struct job *job = core_unlink(core, number);
    int64_t until_us = time_add(core->now_us, run_us);
    job_extra(&core->extras, job)->until_us = until_us;
    core_link(core, number, JOB_RESERVED);
    if (!job->bound)
        core_emit_move(core, job, NOT_PROMISED);
    *out_until_us = until_us;
    return true;
}

uint32_t core_next_ready(const struct core *core, struct bytes topic, const struct job **out_jobs,
                         uint32_t max)
{
    uint32_t numbers[NEXT_READY_MAX];
    const struct topic *from = topics_find(&core->topics, topic);
    CHECK(max <= NEXT_READY_MAX);
    uint32_t count = from ? ready_heap_next(&from->ready, &core->jobs, numbers, max) : 0;
    for (uint32_t i = 0; i < count; i++)
        out_jobs[i] = core_job(core, numbers[i]);
    return count;
}
