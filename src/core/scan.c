/*
 * Commands that may visit all jobs, or change many of them: in slices, one a tick, so that no turn
 * is long. Jobs in memory have no order by topic and due time (it would slow down every push), so a
 * page of delayed or reserved jobs is found by reading the whole pool of jobs once.
 *
 * A scan goes through steps: POOL visits every place of the pool; HEADS takes the first job of its
 * topic and state repeatedly; PAGE changes the jobs that POOL has found, after which POOL begins
 * again if more are wanted than a page has room for.
 */
#include "base/check.h"
#include "core/core_internal.h"
#include "core/far.h"

enum {
    AT_ONCE_MAX = 20000, /* jobs' places visited within core_apply */
    LOOKS = 10000,       /* the same, within a tick */
    CHANGES = 250,       /* jobs changed in a tick even if the budget is spent */
    PAGE_MAX = 1000,
    KICK_PAGE_MAX = 10000, /* 240 KB: a client may kick any number of jobs */
    LOOK_NS = 12,
    ASKED_MAX = 64,    /* searches that core_searches() asks about */
    SPENT_LOOKS = 512, /* places between two checks of the budget */
    TURN_NS = 20,      /* for checking whether a scan may run */
    OFFER_NS = 250,    /* for a place that goes into the page */
    CHANGE_NS = 1500,
};

/* ---- one job ---- */

static void change(struct core *core, struct scan *scan, uint32_t number)
{
    scan->changed++;
    budget_spend(core->budget, CHANGE_NS);
    if (scan->kind == CMD_KICK_TOPIC) {
        core_kick(core, number);
        return;
    }
    topics_at(&core->topics, core_job(core, number)->topic)->deleted++;
    core->totals.deleted++;
    core_retire(core, number, END_DELETED);
    core_forget(core, number);
}

/* Adds the entry to the page. The heap costs time only if the entry belongs to the page. */
static void offer(struct core *core, struct scan *scan, const struct top_k_entry *entry)
{
    struct top_k *page = scan->walk ? &scan->walk->found : &scan->page;
    bool enters =
        page->count < page->max || (page->max && page->before(NULL, entry, page->entries));
    top_k_offer(page, entry);
    if (enters)
        budget_spend(core->budget, OFFER_NS);
}

static void look(struct core *core, struct scan *scan, uint32_t number)
{
    const struct job *job = core_job(core, number);
    if (job->state != scan->state || job->topic != scan->topic)
        return;
    if (scan->kind == CMD_CLEAR_TOPIC) {
        change(core, scan, number);
        return;
    }
    struct top_k_entry entry = {.due_us = job->due_us, .seq = job->seq, .number = number};
    struct top_k_entry after = {.due_us = scan->after.first, .seq = scan->after.seq};
    if (scan->page.before(NULL, &after, &entry))
        offer(core, scan, &entry);
}

/* Is the job still as the scan saw it? If it has ended, its memory may be freed, too. */
static bool is_as_seen(const struct core *core, const struct scan *scan,
                       const struct top_k_entry *entry)
{
    if (!pool_has(&core->jobs, entry->number))
        return false;
    const struct job *job = core_job(core, entry->number);
    return job->state == scan->state && job->seq == entry->seq && job->due_us == entry->due_us;
}

/* ---- slices; true: the step is over ---- */

/* Has this slice changed as many jobs as it may? */
static bool enough(const struct core *core, uint32_t changes)
{
    return changes >= CHANGES && budget_spent(core->budget);
}

static bool step_pool(struct core *core, struct scan *scan, uint32_t looks)
{
    const struct topic *topic = topics_at(&core->topics, scan->topic);
    uint32_t looked = 0, before = scan->changed;
    bool over = false;
    for (; !over && looked < looks && !enough(core, scan->changed - before); looked++) {
        if (looked && looked % SPENT_LOOKS == 0 &&
            (int64_t)looked * LOOK_NS > core->budget->left_ns)
            break;
        scan->next = pool_next(&core->jobs, scan->next);
        over = scan->next == POOL_NONE || topic->jobs[scan->state] == 0 ||
               (scan->kind == CMD_CLEAR_TOPIC && scan->changed == scan->max);
        if (!over)
            look(core, scan, scan->next++);
    }
    budget_spend(core->budget, (int64_t)looked * LOOK_NS);
    return over || pool_next(&core->jobs, scan->next) == POOL_NONE;
}

static bool step_heads(struct core *core, struct scan *scan)
{
    const struct topic *topic = topics_at(&core->topics, scan->topic);
    uint32_t before = scan->changed;
    while (scan->changed < scan->max && topic_in_memory(topic, scan->state) > 0) {
        if (enough(core, scan->changed - before))
            return false;
        change(core, scan, core_topic_first(topic, scan->state));
    }
    return true;
}

static bool step_page(struct core *core, struct scan *scan)
{
    uint32_t before = scan->changed;
    for (; scan->next < scan->page.count; scan->next++) {
        const struct top_k_entry *entry = &scan->page.entries[scan->next];
        if (enough(core, scan->changed - before))
            return false;
        if (is_as_seen(core, scan, entry))
            change(core, scan, entry->number);
    }
    return true;
}

static void begin_page(struct scan *scan)
{
    uint32_t max = scan->max - scan->changed;
    uint32_t most = scan->kind == CMD_KICK_TOPIC ? KICK_PAGE_MAX : PAGE_MAX;
    top_k_init(&scan->page, max < most ? max : most,
               scan->backwards ? top_k_due_after : top_k_due_before, NULL);
}

/* The page's jobs were kicked. True: no more are requested, or there are no more. */
static bool kicked_enough(struct scan *scan)
{
    if (!scan->page.more || scan->changed >= scan->max)
        return true;
    top_k_fini(&scan->page);
    begin_page(scan);
    scan->step = SCAN_POOL;
    scan->next = 0;
    return false;
}

/* Runs one slice. True: the scan is complete, and can be answered. */
static bool scan_run(struct core *core, struct scan *scan, uint32_t looks)
{
    switch (scan->step) {
    case SCAN_POOL:
        if (!step_pool(core, scan, looks))
            return false;
        if (scan->kind != CMD_KICK_TOPIC)
            return true;
        scan->step = SCAN_PAGE;
        scan->next = 0;
        return step_page(core, scan) && kicked_enough(scan);
    case SCAN_HEADS: return step_heads(core, scan);
    case SCAN_PAGE: return step_page(core, scan) && kicked_enough(scan);
    }
    return true; /* there is no other step */
}

/* ---- answers ---- */

/* Views the next jobs of a walk. False: it does not know the next ones any more. */
static bool view_walk(struct core *core, struct list_walk *walk, uint32_t most, struct reply *reply)
{
    enum err err = OK;
    reply->jobs = core_views(core, most);
    while (reply->count < most && !err) {
        struct top_k_entry entry;
        err = list_walk_take(core, walk, &entry);
        if (err)
            break;
        core_view(core, core_job(core, entry.number), &reply->jobs[reply->count++]);
    }
    budget_spend(core->budget, (int64_t)reply->count * OFFER_NS);
    return reply->count == most || (err == ERR_NOT_FOUND && !walk->cut);
}

/* Replies with the next page of a walk, and keeps it for the one after that. False: it has ended
   without a reply, and a scan of all jobs is needed. */
static bool reply_from_walk(struct core *core, struct list_walk *walk, uint32_t max, void *ctx)
{
    const struct topic *topic = topics_at(&core->topics, walk->topic);
    struct reply reply = {.kind = CMD_LIST};
    char room[CURSOR_BYTES];
    uint32_t most = max < PAGE_MAX ? max : PAGE_MAX;
    if (!view_walk(core, walk, most, &reply)) {
        list_walk_end(walk);
        return false;
    }
    bool far = topic->far[walk->state] > 0 && reply.count == most;
    if (reply.count > 0 && (far || list_walk_more(core, walk))) {
        struct listing listing = core_listing(topic->name, walk->state, walk->backwards);
        reply.cursor = cursor_write(&listing, &walk->after, room);
        list_walk_keep(core, walk);
    } else {
        list_walk_end(walk);
    }
    core_reply(core, ctx, &reply);
    return true;
}

/* The scan has filled its walk. False: too many of those jobs have left; the scan begins again. */
static bool answer_by_walk(struct core *core, struct scan *scan)
{
    struct list_walk *walk = scan->walk;
    scan->walk = NULL;
    list_walk_found(walk);
    budget_spend(core->budget, (int64_t)walk->found.count * LOOK_NS);
    if (reply_from_walk(core, walk, scan->max, scan->ctx))
        return true;
    scan->next = 0;
    return false;
}

/* Replies with the page's jobs that are still as the scan saw them. */
static void reply_page(struct core *core, struct scan *scan)
{
    struct top_k *page = &scan->page;
    struct reply reply = {.kind = CMD_LIST};
    struct cursor end = scan->after;
    char room[CURSOR_BYTES];
    top_k_sort(page);
    reply.jobs = core_views(core, page->count);
    for (uint32_t i = 0; i < page->count; i++) {
        const struct top_k_entry *entry = &page->entries[i];
        end = (struct cursor){.first = entry->due_us, .seq = entry->seq};
        if (is_as_seen(core, scan, entry))
            core_view(core, core_job(core, entry->number), &reply.jobs[reply.count++]);
    }
    const struct topic *topic = topics_at(&core->topics, scan->topic);
    /* As many far jobs were loaded as a page can have, so there may be more behind them. */
    bool far = topic->far[scan->state] > 0 && page->count == page->max;
    if (page->more || (far && page->count > 0)) {
        struct listing listing = core_listing(topic->name, scan->state, scan->backwards);
        reply.cursor = cursor_write(&listing, &end, room);
    }
    core_reply(core, scan->ctx, &reply);
}

/* One topic's counts; the scan has found its first delayed job that is not due. */
static void reply_topic(struct core *core, const struct scan *scan)
{
    struct topic_view view;
    core_view_topic(core, topics_at(&core->topics, scan->topic), &view);
    if (scan->page.count)
        view.next_due_us = scan->page.entries[0].due_us;
    core_reply(core, scan->ctx, &(struct reply){.kind = CMD_TOPIC, .count = 1, .topics = &view});
}

/* One job, the first of its topic and state; NOT_FOUND if it has left that state meanwhile. */
static void reply_first(struct core *core, const struct scan *scan)
{
    const struct top_k_entry *first = scan->page.entries;
    if (scan->page.count && is_as_seen(core, scan, first))
        core_reply_job(core, CMD_PEEK, scan->ctx, core_job(core, first->number));
    else
        core_reply_err(core, CMD_PEEK, scan->ctx, ERR_NOT_FOUND);
}

static void reply_changed(struct core *core, const struct scan *scan)
{
    const struct topic *topic = topics_at(&core->topics, scan->topic);
    bool more = scan->step == SCAN_PAGE ? scan->page.more : topic->jobs[scan->state] > 0;
    more = more || topic->far[scan->state] > 0;
    core_reply(core, scan->ctx,
               &(struct reply){.kind = scan->kind, .count = scan->changed, .more = more});
}

/* False: the scan goes on. */
static bool scan_answer(struct core *core, struct scan *scan)
{
    if (scan->walk)
        return answer_by_walk(core, scan);
    if (scan->kind == CMD_LIST)
        reply_page(core, scan);
    else if (scan->kind == CMD_TOPIC)
        reply_topic(core, scan);
    else if (scan->kind == CMD_PEEK)
        reply_first(core, scan);
    else
        reply_changed(core, scan);
    return true;
}

/* ---- life ---- */

void core_scan_free(struct core *core, struct scan *scan)
{
    struct topic *topic = topics_at(&core->topics, scan->topic);
    list_remove(&scan->of_core);
    core->searches -= scan->kind != CMD_TOPIC;
    topic->pins--;
    if (topic->kicker == scan->generation)
        topic->kicker = 0;
    topics_relist(&core->topics, topic);
    top_k_fini(&scan->page);
    list_walk_end(scan->walk);
    scan->generation = 0;
    pool_give(&core->scan_pool, scan->number);
}

static void park(struct core *core, const struct scan *scan, uint64_t *out_parked)
{
    struct topic *topic = topics_at(&core->topics, scan->topic);
    uint32_t number = pool_take(&core->scan_pool);
    CHECK(number < SCAN_HANDLE);
    struct scan *parked = pool_at(&core->scan_pool, number);
    *parked = *scan;
    parked->number = number;
    parked->generation = core_next_generation(core);
    list_add_tail(&core->scans, &parked->of_core);
    core->searches += parked->kind != CMD_TOPIC;
    topic->pins++;
    topics_relist(&core->topics, topic);
    *out_parked = (uint64_t)parked->generation << 32 | SCAN_HANDLE | number;
}

/* READY and BURIED jobs of a topic are in lists; the others must be searched. */
static enum scan_step first_step(const struct cmd *cmd)
{
    bool changes = cmd->kind == CMD_KICK_TOPIC || cmd->kind == CMD_CLEAR_TOPIC;
    bool at_hand = cmd->topic.state == JOB_READY || cmd->topic.state == JOB_BURIED;
    return changes && at_hand ? SCAN_HEADS : SCAN_POOL;
}

/* Replies with a page that continues where a walk stopped. False: no walk stopped there. */
static bool list_from_walk(struct core *core, const struct topic *topic, const struct cmd *cmd,
                           const struct cursor *after, void *ctx)
{
    struct list_walk *walk =
        list_walk_find(core, topic, cmd->topic.state, cmd->topic.backwards, after);
    return walk && reply_from_walk(core, walk, cmd->topic.max, ctx);
}

void core_scan(struct core *core, const struct topic *topic, const struct cmd *cmd,
               const struct cursor *after, void *ctx, uint64_t *out_parked)
{
    bool backwards = cmd->kind == CMD_LIST && cmd->topic.backwards;
    bool goes_on = cmd->kind == CMD_LIST && after && pool_span(&core->jobs) > AT_ONCE_MAX;
    if (goes_on && list_from_walk(core, topic, cmd, after, ctx))
        return;
    struct scan scan = {
        .kind = cmd->kind,
        .step = first_step(cmd),
        .ctx = ctx,
        .topic = topic->number,
        .state = cmd->topic.state,
        .max = cmd->topic.max,
        .after = cmd->kind == CMD_TOPIC ? core_all_due(core)
                 : after                ? *after
                                        : core_before_all(backwards),
        .backwards = backwards,
    };
    bool kicks = scan.kind == CMD_KICK_TOPIC;
    if ((scan.step == SCAN_HEADS || kicks) && scan.max > topic->jobs[scan.state])
        scan.max = (uint32_t)topic->jobs[scan.state]; /* not those that are pushed later */
    begin_page(&scan);
    if (goes_on && core_has_memory(core))
        scan.walk = list_walk_new(core, topic, scan.state, backwards, after);
    bool small = scan.step == SCAN_HEADS || pool_span(&core->jobs) <= AT_ONCE_MAX;
    if (scan_run(core, &scan, small ? AT_ONCE_MAX : 1) && scan_answer(core, &scan)) {
        top_k_fini(&scan.page);
    } else if (core->waiters.count + core->scan_pool.count < core->limits.waiters) {
        park(core, &scan, out_parked);
    } else if (scan.changed) { /* some were changed, and there are more */
        reply_changed(core, &scan);
        top_k_fini(&scan.page);
    } else {
        core_reply_err(core, cmd->kind, ctx, ERR_WAITERS_LIMIT);
        top_k_fini(&scan.page);
        list_walk_end(scan.walk);
    }
}

/*
 * Commands that kick delayed jobs of one topic run one after another: otherwise each would find the
 * same jobs, and search again for those that another has kicked.
 */
static bool is_its_turn(struct core *core, const struct scan *scan)
{
    struct topic *topic = topics_at(&core->topics, scan->topic);
    budget_spend(core->budget, TURN_NS);
    if (scan->kind != CMD_KICK_TOPIC || scan->step == SCAN_HEADS)
        return true;
    if (topic->kicker == 0)
        topic->kicker = scan->generation;
    return topic->kicker == scan->generation;
}

bool core_scan_step(struct core *core)
{
    uint64_t count = core->scan_pool.count;
    for (uint64_t i = 0; i < count && (i == 0 || !budget_spent(core->budget)); i++) {
        struct scan *scan = LIST_ENTRY(core->scans.next, struct scan, of_core);
        if (is_its_turn(core, scan) && scan_run(core, scan, LOOKS) && scan_answer(core, scan)) {
            core_scan_free(core, scan);
        } else { /* to the end of the list: other scans come first next time */
            list_remove(&scan->of_core);
            list_add_tail(&core->scans, &scan->of_core);
        }
    }
    return !list_empty(&core->scans);
}

bool core_searches(const struct core *core, bool (*may_have)(const void *ctx, struct bytes topic),
                   const void *ctx)
{
    bool found = core->searches > ASKED_MAX;
    uint32_t left = core->searches;
    for (const struct list *at = core->scans.next; left > 0 && !found; at = at->next) {
        const struct scan *scan = LIST_ENTRY(at, const struct scan, of_core);
        left -= scan->kind != CMD_TOPIC;
        found =
            scan->kind != CMD_TOPIC && may_have(ctx, topics_at(&core->topics, scan->topic)->name);
    }
    return found;
}

bool core_searches_many(const struct core *core)
{
    return core->searches >= ASKED_MAX;
}

void core_scan_cancel(struct core *core, uint32_t number, uint32_t generation)
{
    if (!pool_has(&core->scan_pool, number))
        return;
    struct scan *scan = pool_at(&core->scan_pool, number);
    if (scan->generation == generation)
        core_scan_free(core, scan);
}
