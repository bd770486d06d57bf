/*
 * Commands on a topic, and the scans of all jobs that listing and clearing may need. Jobs have no
 * order by topic and due time in memory (it would cost every push), so a page is found by reading
 * the whole pool once: at once if it is small, else in slices, one a tick.
 */
#include "base/check.h"
#include "base/mem.h"
#include "core/state.h"

enum {
    AT_ONCE_MAX = 20000, /* jobs' places looked at within core_apply */
    SLICE = 10000,       /* the same, in a tick: well below a millisecond */
    PAGE_MAX = 1000,
};

static void reply_err(struct core *core, enum cmd_kind kind, void *asker, enum err err)
{
    core_reply(core, asker, &(struct reply){.err = err, .kind = kind});
}

static void reply_number(struct core *core, enum cmd_kind kind, void *asker, uint32_t number)
{
    struct job_view view;
    core_view(core, core_job(core, number), &view);
    core_reply(core, asker, &(struct reply){.kind = kind, .count = 1, .jobs = &view});
}

/* ---- topics ---- */

static void view_topic(const struct core *core, const struct topic *topic,
                       struct topic_view *out_view)
{
    uint32_t first = queue_first(&topic->ready);
    *out_view = (struct topic_view){
        .name = topic->name,
        .waiters = topic->waiters,
        .pause_until_us = topic->pause_until_us,
        .pause_us = topic->pause_until_us ? topic->pause_us : 0,
        .urgent = topic->urgent,
        .oldest_ready_us = first == POOL_NONE ? 0 : core_job(core, first)->due_us,
        .pushed = topic->pushed,
        .reserved = topic->reserved,
        .finished = topic->finished,
        .deleted = topic->deleted,
        .timeouts = topic->timeouts,
        .released = topic->released,
        .buried = topic->buried,
        .kicked = topic->kicked,
        .pauses = topic->pauses,
        .pushed_10s = rate_last(&topic->push_rate, core->now_us),
        .reserved_10s = rate_last(&topic->reserve_rate, core->now_us),
        .finished_10s = rate_last(&topic->finish_rate, core->now_us),
        .lateness = &topic->lateness,
    };
    for (int state = 0; state < JOB_STATES; state++)
        out_view->jobs[state] = topic->jobs[state];
}

static bool name_before(const void *ctx, const struct page_entry *a, const struct page_entry *b)
{
    const struct topics *topics = ctx;
    return bytes_cmp(topics_at(topics, a->number)->name, topics_at(topics, b->number)->name) < 0;
}

static void list_all_topics(struct core *core, void *asker)
{
    const struct topics *topics = &core->topics;
    struct topic_view *views = mem_alloc((topics->pool.count + 1) * sizeof(*views));
    uint32_t count = 0;
    for (uint32_t i = topics_next(topics, 0); i != POOL_NONE; i = topics_next(topics, i + 1))
        view_topic(core, topics_at(topics, i), &views[count++]);
    core_reply(core, asker, &(struct reply){.kind = CMD_TOPICS, .count = count, .topics = views});
    mem_free(views);
}

static void list_topics(struct core *core, const struct cmd_topic *cmd, void *asker)
{
    struct page page;
    page_init(&page, cmd->max < PAGE_MAX ? cmd->max : PAGE_MAX, name_before, &core->topics);
    const struct topics *topics = &core->topics;
    for (uint32_t i = topics_next(topics, 0); i != POOL_NONE; i = topics_next(topics, i + 1)) {
        if (bytes_cmp(topics_at(topics, i)->name, cmd->topic) > 0)
            page_offer(&page, &(struct page_entry){.number = i});
    }
    page_sort(&page);
    struct topic_view *views = mem_alloc(page.count * sizeof(*views));
    for (uint32_t i = 0; i < page.count; i++)
        view_topic(core, topics_at(topics, page.entries[i].number), &views[i]);
    core_reply(core, asker,
               &(struct reply){
                   .kind = CMD_TOPICS, .count = page.count, .more = page.more, .topics = views});
    mem_free(views);
    page_fini(&page);
}

void core_set_pause(struct core *core, struct topic *topic, int64_t until_us)
{
    if (topic->pause_until_us && topic->pause_until_us != INT64_MAX)
        wheel_remove(&core->pauses, topic->number);
    topic->pause_until_us = until_us;
    topic->pause_us = until_us - core->now_us;
    if (until_us && until_us != INT64_MAX)
        wheel_add(&core->pauses, topic->number);
    topics_file(&core->topics, topic);
}

static void pause_topic(struct core *core, const struct cmd *cmd, void *asker)
{
    struct topic *topic;
    int64_t until_us = cmd->kind == CMD_PAUSE ? cmd->topic.pause_until_us : 0;
    if (until_us <= core->now_us)
        until_us = 0; /* over already */
    enum err err = topics_need(&core->topics, cmd->topic.topic, &topic);
    if (!err)
        topic->pauses += cmd->kind == CMD_PAUSE;
    if (!err && topic->pause_until_us != until_us) {
        core_set_pause(core, topic, until_us);
        core_say_pause(core, topic);
    }
    reply_err(core, cmd->kind, asker, err);
}

static void kick_buried(struct core *core, const struct topic *topic, uint32_t max, void *asker)
{
    uint32_t count = 0;
    for (; count < max && topic->buried_first != POOL_NONE; count++)
        core_kick(core, topic->buried_first);
    core_reply(core, asker,
               &(struct reply){.kind = CMD_KICK_TOPIC,
                               .count = count,
                               .more = topic->buried_first != POOL_NONE});
}

/* ---- scans ---- */

static bool due_before(const void *ctx, const struct page_entry *a, const struct page_entry *b)
{
    (void)ctx;
    return a->due_us != b->due_us ? a->due_us < b->due_us : a->seq < b->seq;
}

static void clear_one(struct core *core, uint32_t number)
{
    topics_at(&core->topics, core_job(core, number)->topic)->deleted++;
    core->totals.deleted++;
    core_retire(core, number);
    core_forget(core, number);
}

static void scan_one(struct core *core, struct scan *scan, uint32_t number)
{
    const struct job *job = core_job(core, number);
    if (job->state != scan->state || job->topic != scan->topic)
        return;
    if (scan->kind == CMD_CLEAR_TOPIC) {
        clear_one(core, number);
        scan->cleared++;
        return;
    }
    struct page_entry entry = {.due_us = job->due_us, .seq = job->seq, .number = number};
    struct page_entry cursor = {.due_us = scan->after_due_us, .seq = scan->after_seq};
    if (due_before(NULL, &cursor, &entry))
        page_offer(&scan->page, &entry);
}

/* Looks at up to `count` places. True: there is more to look at. */
static bool scan_some(struct core *core, struct scan *scan, uint32_t count)
{
    const struct topic *topic = topics_at(&core->topics, scan->topic);
    for (; count > 0 && scan->next < core->jobs.used; count--, scan->next++) {
        if (topic->jobs[scan->state] == 0 ||
            (scan->kind == CMD_CLEAR_TOPIC && scan->cleared == scan->max))
            return false;
        scan_one(core, scan, scan->next);
    }
    return scan->next < core->jobs.used;
}

/* Is the job still what it was when the scan saw it? */
static bool is_as_seen(const struct scan *scan, const struct page_entry *entry,
                       const struct job *job)
{
    return job->state == scan->state && job->seq == entry->seq && job->due_us == entry->due_us;
}

/* Replies with those of the page that are still what they were when they were seen. */
static void reply_page(struct core *core, struct scan *scan)
{
    struct page *page = &scan->page;
    struct reply reply = {.kind = CMD_LIST, .more = page->more};
    page_sort(page);
    reply.jobs = core_views(core, page->count);
    reply.next_due_us = scan->after_due_us;
    reply.next_seq = scan->after_seq;
    for (uint32_t i = 0; i < page->count; i++) {
        const struct page_entry *entry = &page->entries[i];
        const struct job *job = core_job(core, entry->number);
        reply.next_due_us = entry->due_us;
        reply.next_seq = entry->seq;
        if (is_as_seen(scan, entry, job))
            core_view(core, job, &reply.jobs[reply.count++]);
    }
    core_reply(core, scan->asker, &reply);
}

/* One topic's counts; the scan has found its first delayed job. */
static void reply_topic(struct core *core, const struct scan *scan)
{
    struct topic_view view;
    view_topic(core, topics_at(&core->topics, scan->topic), &view);
    if (scan->page.count)
        view.next_due_us = scan->page.entries[0].due_us;
    core_reply(core, scan->asker, &(struct reply){.kind = CMD_TOPIC, .count = 1, .topics = &view});
}

/* One job, the first of its topic and state; NOT_FOUND if it has left that state meanwhile. */
static void reply_first(struct core *core, const struct scan *scan)
{
    const struct page_entry *first = scan->page.entries;
    if (scan->page.count && is_as_seen(scan, first, core_job(core, first->number)))
        reply_number(core, CMD_PEEK, scan->asker, first->number);
    else
        reply_err(core, CMD_PEEK, scan->asker, ERR_NOT_FOUND);
}

/* Kicks the jobs of the page, soonest due first. */
static void kick_page(struct core *core, struct scan *scan)
{
    uint32_t count = 0;
    page_sort(&scan->page);
    for (uint32_t i = 0; i < scan->page.count; i++) {
        const struct page_entry *entry = &scan->page.entries[i];
        if (!is_as_seen(scan, entry, core_job(core, entry->number)))
            continue;
        core_kick(core, entry->number);
        count++;
    }
    core_reply(core, scan->asker,
               &(struct reply){.kind = CMD_KICK_TOPIC, .count = count, .more = scan->page.more});
}

static void scan_end(struct core *core, struct scan *scan)
{
    const struct topic *topic = topics_at(&core->topics, scan->topic);
    if (scan->kind == CMD_LIST)
        reply_page(core, scan);
    else if (scan->kind == CMD_TOPIC)
        reply_topic(core, scan);
    else if (scan->kind == CMD_PEEK)
        reply_first(core, scan);
    else if (scan->kind == CMD_KICK_TOPIC)
        kick_page(core, scan);
    else
        core_reply(core, scan->asker,
                   &(struct reply){.kind = CMD_CLEAR_TOPIC,
                                   .count = scan->cleared,
                                   .more = topic->jobs[scan->state] > 0});
}

void core_scan_free(struct core *core, struct scan *scan)
{
    struct topic *topic = topics_at(&core->topics, scan->topic);
    list_remove(&scan->of_core);
    core->scan_count--;
    topic->pins--;
    topics_file(&core->topics, topic);
    page_fini(&scan->page);
    mem_free(scan);
}

static void scan_topic(struct core *core, struct topic *topic, const struct cmd *cmd, void *asker,
                       uint64_t *out_parked)
{
    struct scan scan = {
        .kind = cmd->kind,
        .asker = asker,
        .topic = topic->number,
        .state = cmd->topic.state,
        .max = cmd->topic.max,
        .after_due_us = cmd->topic.after_due_us,
        .after_seq = cmd->topic.after_seq,
    };
    bool shows = cmd->kind != CMD_KICK_TOPIC; /* what it shows is a page, what it kicks is all */
    page_init(&scan.page, shows && scan.max > PAGE_MAX ? PAGE_MAX : scan.max, due_before, NULL);
    if (!scan_some(core, &scan, core->jobs.used <= AT_ONCE_MAX ? AT_ONCE_MAX : 1)) {
        scan_end(core, &scan);
        page_fini(&scan.page);
        return;
    }
    if (core->waiters.count + core->scan_count >= core->limits.waiters) {
        page_fini(&scan.page);
        reply_err(core, cmd->kind, asker, ERR_WAITERS_LIMIT);
        return;
    }
    struct scan *parked = mem_alloc(sizeof(*parked));
    *parked = scan;
    parked->generation = core_next_generation(core);
    list_add_tail(&core->scans, &parked->of_core);
    core->scan_count++;
    topic->pins++;
    topics_file(&core->topics, topic);
    *out_parked = (uint64_t)parked->generation << 32 | SCAN_HANDLE;
}

bool core_scan_step(struct core *core)
{
    if (list_empty(&core->scans))
        return false;
    struct scan *scan = LIST_ENTRY(core->scans.next, struct scan, of_core);
    if (scan_some(core, scan, SLICE)) { /* the others' turn */
        list_remove(&scan->of_core);
        list_add_tail(&core->scans, &scan->of_core);
    } else {
        scan_end(core, scan);
        core_scan_free(core, scan);
    }
    return !list_empty(&core->scans);
}

void core_scan_cancel(struct core *core, uint32_t generation)
{
    for (struct list *at = core->scans.next; at != &core->scans; at = at->next) {
        struct scan *scan = LIST_ENTRY(at, struct scan, of_core);
        if (scan->generation == generation) {
            core_scan_free(core, scan);
            return;
        }
    }
}

/* READY and BURIED jobs of a topic are at hand; the others must be looked for. */
static bool clear_at_hand(struct core *core, const struct topic *topic, const struct cmd_topic *cmd,
                          void *asker)
{
    bool ready = cmd->state == JOB_READY;
    if (!ready && cmd->state != JOB_BURIED)
        return false;
    uint32_t count = 0;
    for (; count < cmd->max && topic->jobs[cmd->state] > 0; count++)
        clear_one(core, ready ? queue_first(&topic->ready) : topic->buried_first);
    core_reply(core, asker,
               &(struct reply){
                   .kind = CMD_CLEAR_TOPIC, .count = count, .more = topic->jobs[cmd->state] > 0});
    return true;
}

static const struct cmd *first_in(enum cmd_kind kind, enum job_state state, uint32_t max,
                                  struct cmd *room)
{
    *room = (struct cmd){
        .kind = kind,
        .topic = {.state = state, .max = max, .after_due_us = INT64_MIN},
    };
    return room;
}

static void view_or_scan(struct core *core, struct topic *topic, const struct cmd *cmd, void *asker,
                         uint64_t *out_parked)
{
    struct cmd scan;
    if (!cmd->topic.brief) {
        scan_topic(core, topic, first_in(CMD_TOPIC, JOB_DELAYED, 1, &scan), asker, out_parked);
        return;
    }
    struct topic_view view;
    view_topic(core, topic, &view);
    core_reply(core, asker, &(struct reply){.kind = CMD_TOPIC, .count = 1, .topics = &view});
}

static void kick_topic(struct core *core, struct topic *topic, const struct cmd_topic *cmd,
                       void *asker, uint64_t *out_parked)
{
    struct cmd scan;
    bool delayed = cmd->state == JOB_DELAYED;
    if (cmd->state == JOB_GONE)
        delayed = topic->jobs[JOB_BURIED] == 0;
    if (delayed)
        scan_topic(core, topic, first_in(CMD_KICK_TOPIC, JOB_DELAYED, cmd->max, &scan), asker,
                   out_parked);
    else
        kick_buried(core, topic, cmd->max, asker);
}

/* The first READY and BURIED jobs are at hand; the others must be looked for. */
static void peek(struct core *core, struct topic *topic, const struct cmd *cmd, void *asker,
                 uint64_t *out_parked)
{
    struct cmd scan;
    enum job_state state = cmd->topic.state;
    if (topic->jobs[state] == 0)
        reply_err(core, CMD_PEEK, asker, ERR_NOT_FOUND);
    else if (state == JOB_READY)
        reply_number(core, CMD_PEEK, asker, queue_first(&topic->ready));
    else if (state == JOB_BURIED)
        reply_number(core, CMD_PEEK, asker, topic->buried_first);
    else
        scan_topic(core, topic, first_in(CMD_PEEK, state, 1, &scan), asker, out_parked);
}

void core_topic_cmd(struct core *core, const struct cmd *cmd, void *asker, uint64_t *out_parked)
{
    if (cmd->kind == CMD_TOPICS) {
        if (cmd->topic.all)
            list_all_topics(core, asker);
        else
            list_topics(core, &cmd->topic, asker);
        return;
    }
    struct topic *topic = topics_find(&core->topics, cmd->topic.topic);
    if (topic && topic->idle && cmd->topic.in_use)
        topic = NULL; /* it is there for its counters only */
    if (cmd->kind == CMD_PAUSE && (topic || !cmd->topic.in_use)) {
        pause_topic(core, cmd, asker);
        return;
    }
    if (!topic) {
        reply_err(core, cmd->kind, asker, ERR_NOT_FOUND);
        return;
    }
    if (cmd->kind == CMD_RESUME) {
        pause_topic(core, cmd, asker);
    } else if (cmd->kind == CMD_TOPIC) {
        view_or_scan(core, topic, cmd, asker, out_parked);
    } else if (cmd->kind == CMD_KICK_TOPIC) {
        kick_topic(core, topic, &cmd->topic, asker, out_parked);
    } else if (cmd->topic.state <= JOB_GONE || cmd->topic.state >= JOB_STATES) {
        reply_err(core, cmd->kind, asker, ERR_INVALID);
    } else if (cmd->kind == CMD_PEEK) {
        peek(core, topic, cmd, asker, out_parked);
    } else if (cmd->kind == CMD_LIST || !clear_at_hand(core, topic, &cmd->topic, asker)) {
        scan_topic(core, topic, cmd, asker, out_parked);
    }
}
