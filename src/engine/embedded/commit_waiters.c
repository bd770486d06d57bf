/*
 * Owns the replies to changes that wait for the disk (promise P1). Each is a copy in the arena of
 * its list: one arena collects new replies while the other waits for its sync.
 *
 * Invariant: the batch of a waiting reply is not durable yet, except for replies that are sent in
 * the next turns because this turn's budget is spent.
 */
#include "base/check.h"
#include "engine/embedded/parts.h"

enum {
    RELEASE_NS = 300, /* work for releasing a reply, without writing it */
    RELEASE_MIN = 16, /* released in a turn even if the budget is spent */
};

struct commit_waiter {
    struct waiting_reply head;
    struct commit_waiter *next;
    uint64_t batch;
    struct reply *reply; /* NULL: a brief one, of which only this is kept: */
    struct {
        enum err err;
        enum cmd_kind kind;
        uint32_t count;
        bool kept;
        bool shows; /* a job with this number and state */
        enum job_state state;
        uint64_t seq;
    } brief;
};

/* True: the command asks for more durability than the server's setting. (Less is not possible.) */
static bool wants_sync(const struct embedded *embedded)
{
    return embedded->cmd_durability == DURABILITY_SYNC && embedded->durability != DURABILITY_SYNC;
}

/* Copies the view with everything that it borrows from the core. */
static struct job_view *keep_view(struct arena *arena, const struct job_view *from)
{
    struct job_view *job = arena_alloc(arena, sizeof(*job));
    *job = *from;
    job->content_type = (struct bytes){0}; /* a change's reply does not show them */
    job->body = (struct bytes){0};
    struct bytes schedule = bytes_of(job->retry_us, job->retry_count * sizeof(int64_t));
    job->ref.id = arena_copy(arena, job->ref.id);
    job->topic = arena_copy(arena, job->topic);
    job->retry_us = (const int64_t *)(const void *)arena_copy(arena, schedule).at;
    return job;
}

static struct reply *keep_reply(struct arena *arena, const struct reply *from)
{
    struct reply *reply = arena_alloc(arena, sizeof(*reply));
    *reply = *from;
    reply->topics = NULL;
    if (from->jobs && from->count)
        reply->jobs = keep_view(arena, from->jobs);
    return reply;
}

static void keep_brief(struct commit_waiter *waiter, const struct reply *reply)
{
    waiter->reply = NULL;
    waiter->brief.err = reply->err;
    waiter->brief.kind = reply->kind;
    waiter->brief.count = reply->count;
    waiter->brief.kept = reply->kept;
    waiter->brief.shows = reply->jobs && reply->count;
    if (waiter->brief.shows) {
        waiter->brief.state = reply->jobs->state;
        waiter->brief.seq = reply->jobs->ref.seq;
    }
}

/* As it was kept, in embedded::brief_reply and embedded::brief_view. */
static const struct reply *brief_reply(struct embedded *embedded,
                                       const struct commit_waiter *waiter)
{
    struct reply *reply = &embedded->brief_reply;
    reply->err = waiter->brief.err;
    reply->kind = waiter->brief.kind;
    reply->count = waiter->brief.count;
    reply->kept = waiter->brief.kept;
    reply->jobs = waiter->brief.shows ? &embedded->brief_view : NULL;
    embedded->brief_view.ref.seq = waiter->brief.seq;
    embedded->brief_view.state = waiter->brief.state;
    return reply;
}

bool commit_wait(struct embedded *embedded, struct ticket *ticket, const struct reply *reply)
{
    bool sync = wants_sync(embedded);
    uint64_t promised = store_promised(embedded->store);
    uint64_t durable = sync ? store_synced(embedded->store) : store_durable(embedded->store);
    if (promised <= journal_feed_gate(embedded, durable))
        return false;
    struct commit_waiter_list *list =
        sync ? &embedded->syncing.gathering : &embedded->writing.gathering;
    if (sync)
        store_want_sync(embedded->store);
    CHECK(!reply->jobs || reply->count <= 1); /* a change answers with one job at most */
    struct commit_waiter *waiter = arena_alloc(&list->arena, sizeof(*waiter));
    waiter->head = (struct waiting_reply){.ticket = ticket};
    waiter->next = NULL;
    waiter->batch = promised;
    if (ticket->brief)
        keep_brief(waiter, reply);
    else
        waiter->reply = keep_reply(&list->arena, reply);
    *list->last = waiter;
    list->last = &waiter->next;
    ticket->held = &waiter->head;
    embedded->commit_waiter_count++;
    return true;
}

static void answer(struct embedded *embedded, const struct commit_waiter *waiter, enum err err)
{
    struct ticket *ticket = waiter->head.ticket;
    embedded->commit_waiter_count--;
    if (!ticket)
        return;
    const struct reply *reply = waiter->reply ? waiter->reply : brief_reply(embedded, waiter);
    ticket->held = NULL;
    if (err)
        ticket->answered(ticket, &(struct reply){.err = err, .kind = reply->kind});
    else
        ticket->answered(ticket, reply);
}

/*
 * Removes and answers the replies whose batch is durable (with an error, all others, too) until the
 * budget is spent. False: there are more.
 */
static bool release(struct embedded *embedded, struct commit_waiter_list *list, uint64_t durable,
                    enum err err)
{
    unsigned released = 0;
    if (!list->first)
        return true;
    while (list->first && (err || list->first->batch <= durable)) {
        if (released++ >= RELEASE_MIN && budget_spent(embedded->budget))
            return false;
        budget_spend(embedded->budget, RELEASE_NS);
        struct commit_waiter *waiter = list->first;
        list->first = waiter->next;
        if (!list->first)
            list->last = &list->first;
        answer(embedded, waiter, waiter->batch <= durable ? OK : err);
    }
    if (!list->first)
        arena_reset_deferred(&list->arena, &embedded->discard);
    return true;
}

static void move_list(struct commit_waiter_list *to, struct commit_waiter_list *from)
{
    struct arena arena = to->arena;
    to->first = from->first;
    to->last = from->first ? from->last : &to->first;
    to->arena = from->arena;
    from->first = NULL;
    from->last = &from->first;
    from->arena = arena;
}

static void advance(struct commit_waiters *waiters)
{
    if (!waiters->waiting.first && waiters->gathering.first)
        move_list(&waiters->waiting, &waiters->gathering);
}

static bool release_both(struct embedded *embedded, struct commit_waiters *waiters,
                         uint64_t durable, enum err err)
{
    bool all = release(embedded, &waiters->waiting, durable, err);
    advance(waiters);
    return all && release(embedded, &waiters->waiting, durable, err);
}

static bool release_queues(struct embedded *embedded, enum err err)
{
    uint64_t durable = journal_feed_gate(embedded, embedded->durable);
    uint64_t synced = journal_feed_gate(embedded, embedded->synced);
    bool all = release_both(embedded, &embedded->writing, durable, err);
    return release_both(embedded, &embedded->syncing, synced, err) && all;
}

void commit_release(struct embedded *embedded)
{
    enum err err = OK;
    if (embedded->commit_waiter_count == 0)
        return;
    if (embedded->store && store_failed(embedded->store))
        err = ERR_STORE_FAILED;
    else if (journal_feed_stops(embedded))
        err = ERR_JOURNAL_DOWN;
    if (!release_queues(embedded, err))
        embedded->busy = true;
}

void commit_release_all(struct embedded *embedded)
{
    struct budget *budget = embedded->budget;
    embedded->unlimited.left_ns = BUDGET_UNLIMITED;
    embedded->budget = &embedded->unlimited;
    bool all = release_queues(embedded, ERR_STORE_FAILED);
    CHECK(all);
    embedded->budget = budget;
}

void commit_advance(struct embedded *embedded)
{
    advance(&embedded->writing);
    advance(&embedded->syncing);
}

void commit_waiters_init(struct commit_waiters *waiters)
{
    waiters->waiting.last = &waiters->waiting.first;
    waiters->gathering.last = &waiters->gathering.first;
}

void commit_waiters_fini(struct commit_waiters *waiters)
{
    arena_fini(&waiters->waiting.arena);
    arena_fini(&waiters->gathering.arena);
}
