/*
 * Owns the core, the store and the replies that wait for the disk. Each held reply is a copy in
 * the arena of its list: one arena gathers while the other waits for its sync.
 *
 * Invariant: a held reply's batch is later than the store's durable one, but for those that are let
 * go in the next turns because this one's budget is spent.
 */
#include "engine/embedded/embedded.h"

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/embedded/describe.h"

enum {
    TICK_STEPS = 256,             /* of the timers' wheels in a turn */
    UNREAD_WAIT_US = 1000 * 1000, /* before a job whose body could not be read is tried again */
    MATCH_JOBS = 1000,            /* handed out a turn */
    RELEASE_NS = 300,             /* work for letting a held reply go, besides writing it */
    RELEASE_MIN = 16,             /* let go in a turn though the budget be spent */
    READ_NS = 1000,               /* work for reading a body, and */
    READ_BYTES_PER_NS = 4,        /* for checking and copying it */
    COLD_NS = 100000,             /* for one that the system has to fetch from the disk */
    COLD_READS = 8,               /* of those in a turn, if the rest can wait */
    RELOCATE_BUDGET = 4096,       /* jobs looked at a turn while cleaning a damaged segment */
    TOPICS_BUDGET = 256,          /* topics looked at a turn while cleaning */
};

/* A reply that waits for the disk. The ticket is NULL when its asker has gone. */
struct held {
    struct held *next;
    struct ticket *ticket;
    uint64_t batch;
    struct reply reply;
    struct job_view job;
};

struct held_list {
    struct held *first;
    struct held **last;
    struct arena arena;
};

/*
 * Replies that wait for one kind of durability, in the order of their batches. New ones gather
 * while older ones wait, so that an arena falls empty however steady the stream is.
 */
struct held_queue {
    struct held_list waiting;
    struct held_list gathering; /* all of them later than those that wait */
};

/* A body kept in memory, when there is no disk; struct stored::where is its block's handle. */
struct memory_body {
    size_t content_type_len;
    char bytes[];
};

/* A job that was reserved, and then its body could not be read. */
struct unread {
    uint64_t seq;
    uint64_t lease;
    enum err err;
};

struct embedded {
    struct engine engine;
    struct event_sink sink;
    struct core_callbacks core_callbacks;
    struct store_callbacks store_callbacks;
    struct core *core;
    struct store *store;
    struct budget *budget; /* see engine_verbs::use_budget */
    struct budget unlimited;
    enum durability durability;
    enum durability asked; /* by the command being applied; between commands the server's own */
    const struct cmd_topic *stats; /* the CMD_TOPICS with `stats` that is being applied; or NULL */
    int64_t now_us;
    bool busy; /* the last slice of work left some over */
    bool draining;
    bool replaying;
    int64_t progress_said_us;
    uint64_t held_count;
    uint64_t durable, synced;  /* batches up to these are, as the store has told */
    struct held_queue writing; /* for the server's durability */
    struct held_queue syncing; /* pushes that want more than that */
    struct arena scratch;      /* bodies of the reply being given */
    struct blocks bodies;      // struct memory_body
    struct buf unread;         /* struct unread: jobs reserved and not handed out */
    uint32_t cold_reads;       /* bodies fetched from the disk in this turn */
};

static struct embedded *of_engine(struct engine *engine)
{
    return (struct embedded *)engine; /* its first member */
}

/* ---- events: what the core wants kept ---- */

static struct stored keep_in_memory(struct embedded *embedded, const struct event *event)
{
    struct stored stored = {0};
    if (event->record.where && event->kind != EVENT_MOVE)
        blocks_give(&embedded->bodies, event->record.where);
    if (event->kind == EVENT_JOB) {
        stored.where =
            blocks_take(&embedded->bodies,
                        sizeof(struct memory_body) + event->content_type.len + event->body.len);
        struct memory_body *body = blocks_at(&embedded->bodies, stored.where);
        body->content_type_len = event->content_type.len;
        if (event->content_type.len)
            memcpy(body->bytes, event->content_type.at, event->content_type.len);
        if (event->body.len)
            memcpy(body->bytes + event->content_type.len, event->body.at, event->body.len);
    }
    return stored;
}

static struct stored sink_emit(struct event_sink *sink, const struct event *event)
{
    struct embedded *embedded = LIST_ENTRY(sink, struct embedded, sink);
    if (!embedded->store)
        return keep_in_memory(embedded, event);
    return store_append(embedded->store, event);
}

/* ---- replies: now, or when they are durable ---- */

/* A push may ask for more than the server's setting. Asking for less gets what all others get. */
static bool wants_sync(const struct embedded *embedded)
{
    return embedded->asked == DURABILITY_SYNC && embedded->durability != DURABILITY_SYNC;
}

/* What a view borrows from the core must be our own while the view waits. */
static void keep_borrowed(struct arena *arena, struct job_view *job, bool brief)
{
    if (brief) {
        job->ref.id = job->topic = (struct bytes){0};
        job->retry_us = NULL;
        job->retry_count = 0;
        return;
    }
    struct bytes schedule = bytes_of(job->retry_us, job->retry_count * sizeof(int64_t));
    job->ref.id = arena_copy(arena, job->ref.id);
    job->topic = arena_copy(arena, job->topic);
    job->retry_us = (const int64_t *)(const void *)arena_copy(arena, schedule).at;
}

static void hold_reply(struct embedded *embedded, struct ticket *ticket, const struct reply *reply)
{
    struct held_list *list =
        wants_sync(embedded) ? &embedded->syncing.gathering : &embedded->writing.gathering;
    struct held *held = arena_alloc(&list->arena, sizeof(*held));
    held->next = NULL;
    held->ticket = ticket;
    held->batch = store_promised(embedded->store);
    held->reply = *reply;
    held->reply.topics = NULL;
    if (reply->jobs && reply->count) {
        CHECK(reply->count == 1); /* a change answers with one job at most */
        held->job = reply->jobs[0];
        held->job.content_type = (struct bytes){0}; /* a change's reply does not show them */
        held->job.body = (struct bytes){0};
        keep_borrowed(&list->arena, &held->job, ticket->brief);
        held->reply.jobs = &held->job;
    }
    *list->last = held;
    list->last = &held->next;
    ticket->held = held;
    embedded->held_count++;
}

static void note_unread(struct embedded *embedded, const struct job_view *job, enum err err)
{
    buf_add(&embedded->unread,
            &(struct unread){.seq = job->ref.seq, .lease = job->lease, .err = err},
            sizeof(struct unread));
}

/*
 * Fills in content types and bodies. A job whose body cannot be read is taken out of the reply; so
 * are the last of many jobs whose bodies have to be fetched from the disk: they go back, for the
 * next reserve.
 */
static void read_bodies(struct embedded *embedded, struct reply *reply)
{
    uint32_t good = 0;
    for (uint32_t i = 0; i < reply->count; i++) {
        struct job_view *job = &reply->jobs[i];
        enum err err = OK;
        if (embedded->cold_reads >= COLD_READS && good > 0) {
            note_unread(embedded, job, ERR_AGAIN);
            continue;
        }
        uint64_t cold_before = embedded->store ? store_cold_reads(embedded->store) : 0;
        budget_spend(embedded->budget, READ_NS + job->body_len / READ_BYTES_PER_NS);
        if (embedded->store) {
            struct body_place place = {
                .seq = job->ref.seq,
                .where = job->where,
                .content_type_len = job->content_type_len,
                .body_len = job->body_len,
            };
            err = store_read(embedded->store, &place, &embedded->scratch, &job->content_type,
                             &job->body);
            uint32_t cold = (uint32_t)(store_cold_reads(embedded->store) - cold_before);
            embedded->cold_reads += cold;
            budget_spend(embedded->budget, (int64_t)cold * COLD_NS);
        } else {
            const struct memory_body *body = blocks_at(&embedded->bodies, job->where);
            job->content_type = bytes_of(body->bytes, body->content_type_len);
            job->body = bytes_of(body->bytes + body->content_type_len, job->body_len);
        }
        if (!err) {
            reply->jobs[good++] = *job;
            continue;
        }
        log_event(LOG_ERROR, err == ERR_DAMAGED ? "body_damaged" : "body_unread",
                  "job=%llu error=%s", (unsigned long long)job->ref.seq, err_name(err));
        if (cmd_traits(reply->kind)->takes_jobs)
            note_unread(embedded, job, err);
        reply->err = err;
    }
    if (good)
        reply->err = OK;
    reply->count = good;
}

/*
 * Does the reply say that something has been changed for good? "Not found" and "exists" do, too: to
 * a client that asks a second time they say that the job is gone, or kept, and the change that made
 * it so may not be durable yet.
 */
static bool tells_of_change(const struct embedded *embedded, const struct reply *reply)
{
    bool tells = reply->err == OK || reply->err == ERR_NOT_FOUND || reply->err == ERR_EXISTS;
    return embedded->store && cmd_traits(reply->kind)->changes && tells;
}

static bool must_wait(const struct embedded *embedded)
{
    if (wants_sync(embedded))
        return store_promised(embedded->store) > store_synced(embedded->store);
    return store_promised(embedded->store) > store_durable(embedded->store);
}

static void answer_with_stats(struct embedded *embedded, struct ticket *ticket,
                              const struct reply *reply)
{
    struct engine_stats stats;
    struct reply full = *reply;
    embedded_stats(embedded->core, embedded->store, embedded->now_us, embedded->stats->due_within,
                   &stats);
    full.stats = &stats;
    ticket->answered(ticket, &full);
}

static void core_replied(struct core_callbacks *callbacks, void *ctx, const struct reply *reply)
{
    struct embedded *embedded = LIST_ENTRY(callbacks, struct embedded, core_callbacks);
    struct ticket *ticket = ctx;
    bool tells = tells_of_change(embedded, reply);
    if (!ticket)
        return; /* nobody asks */
    ticket->parked = 0;
    if (tells && store_failed(embedded->store)) { /* a long search that began before the failure */
        ticket->answered(ticket, &(struct reply){.err = ERR_STORE_FAILED, .kind = reply->kind});
        return;
    }
    if (tells && must_wait(embedded)) {
        if (wants_sync(embedded))
            store_want_sync(embedded->store);
        hold_reply(embedded, ticket, reply);
        return;
    }
    if (cmd_traits(reply->kind)->shows_bodies && reply->err == OK) {
        struct reply full = *reply;
        read_bodies(embedded, &full);
        ticket->answered(ticket, &full);
        arena_reset(&embedded->scratch); /* not at the turn's end: a turn reads many bodies */
        return;
    }
    if (embedded->stats) {
        answer_with_stats(embedded, ticket, reply);
        return;
    }
    ticket->answered(ticket, reply);
}

static void answer_held(struct embedded *embedded, struct held *held, enum err err)
{
    struct ticket *ticket = held->ticket;
    embedded->held_count--;
    if (!ticket)
        return;
    ticket->held = NULL;
    if (err) {
        struct reply failed = {.err = err, .kind = held->reply.kind};
        ticket->answered(ticket, &failed);
        return;
    }
    ticket->answered(ticket, &held->reply);
}

/*
 * Takes out and answers those whose batch is durable (or, with an error, all of them) until the
 * budget is spent. False: there are more.
 */
static bool release(struct embedded *embedded, struct held_list *list, uint64_t durable,
                    enum err err)
{
    unsigned released = 0;
    while (list->first && (err || list->first->batch <= durable)) {
        if (released++ >= RELEASE_MIN && budget_spent(embedded->budget))
            return false;
        budget_spend(embedded->budget, RELEASE_NS);
        struct held *held = list->first;
        list->first = held->next;
        if (!list->first)
            list->last = &list->first;
        answer_held(embedded, held, err);
    }
    if (!list->first)
        arena_reset(&list->arena);
    return true;
}

static void move_list(struct held_list *to, struct held_list *from)
{
    struct arena arena = to->arena;
    to->first = from->first;
    to->last = from->first ? from->last : &to->first;
    to->arena = from->arena;
    from->first = NULL;
    from->last = &from->first;
    from->arena = arena;
}

/* What has gathered waits from now on, if nothing older does. */
static void advance(struct held_queue *queue)
{
    if (!queue->waiting.first && queue->gathering.first)
        move_list(&queue->waiting, &queue->gathering);
}

static bool release_queue(struct embedded *embedded, struct held_queue *queue, uint64_t durable,
                          enum err err)
{
    bool all = release(embedded, &queue->waiting, durable, err);
    advance(queue);
    return all && release(embedded, &queue->waiting, durable, err);
}

/* Lets go what is durable, as far as the budget goes; the rest in the next turn, without sleep. */
static void release_durable(struct embedded *embedded)
{
    bool all = release_queue(embedded, &embedded->writing, embedded->durable, OK);
    all &= release_queue(embedded, &embedded->syncing, embedded->synced, OK);
    embedded->busy = embedded->busy || !all;
}

/* Nothing more will be durable: answers all of them, with the error where it is not. */
static void release_all(struct embedded *embedded, enum err err)
{
    struct budget *budget = embedded->budget;
    embedded->unlimited.left_ns = BUDGET_UNLIMITED;
    embedded->budget = &embedded->unlimited;
    release_durable(embedded);
    bool all = release_queue(embedded, &embedded->writing, 0, err);
    all &= release_queue(embedded, &embedded->syncing, 0, err);
    CHECK(all);
    embedded->budget = budget;
}

static void batch_durable(struct store_callbacks *callbacks, uint64_t batch)
{
    LIST_ENTRY(callbacks, struct embedded, store_callbacks)->durable = batch;
}

static void batch_synced(struct store_callbacks *callbacks, uint64_t batch)
{
    LIST_ENTRY(callbacks, struct embedded, store_callbacks)->synced = batch;
}

static void queue_init(struct held_queue *queue)
{
    queue->waiting.last = &queue->waiting.first;
    queue->gathering.last = &queue->gathering.first;
}

static void queue_fini(struct held_queue *queue)
{
    arena_fini(&queue->waiting.arena);
    arena_fini(&queue->gathering.arena);
}

static void store_broke(struct store_callbacks *callbacks, int sys_errno)
{
    struct embedded *embedded = LIST_ENTRY(callbacks, struct embedded, store_callbacks);
    log_event(LOG_ERROR, "store_failed",
              "error=\"%s\" hint=\"nothing is acknowledged any more; look at the disk, then "
              "restart laterd\"",
              strerror(sys_errno));
    release_all(embedded, ERR_STORE_FAILED);
}

/* ---- recovery and checkpoint ---- */

static enum err replay(struct store_callbacks *callbacks, const struct event *event)
{
    return core_replay(LIST_ENTRY(callbacks, struct embedded, store_callbacks)->core, event);
}

static void replay_clock(struct store_callbacks *callbacks, int64_t clock_us)
{
    core_replay_clock(LIST_ENTRY(callbacks, struct embedded, store_callbacks)->core, clock_us);
}

static void replay_progress(struct store_callbacks *callbacks, uint64_t done_bytes,
                            uint64_t all_bytes)
{
    (void)callbacks;
    log_event(LOG_INFO, "recovering", "done_mb=%llu of_mb=%llu",
              (unsigned long long)(done_bytes >> 20), (unsigned long long)(all_bytes >> 20));
}

static void replay_finding(struct store_callbacks *callbacks, const char *line)
{
    (void)callbacks;
    log_event(LOG_ERROR, "store_damaged", "text=\"%s\"", line);
}

static void relocate(struct store_callbacks *callbacks, uint64_t seq, uint64_t where,
                     struct bytes content_type, struct bytes body)
{
    (void)core_relocate(LIST_ENTRY(callbacks, struct embedded, store_callbacks)->core, seq, where,
                        content_type,
                        body); /* false: the job has gone or moved, nothing to relocate */
}

static bool relocate_unread(struct store_callbacks *callbacks, uint64_t first, uint64_t end,
                            uint32_t *cursor)
{
    struct core *core = LIST_ENTRY(callbacks, struct embedded, store_callbacks)->core;
    return core_relocate_unread(core, first, end, cursor, RELOCATE_BUDGET);
}

static bool relocate_rest(struct store_callbacks *callbacks, uint32_t *cursor)
{
    struct core *core = LIST_ENTRY(callbacks, struct embedded, store_callbacks)->core;
    return core_relocate_topics(core, cursor, TOPICS_BUDGET);
}

static void store_notice(struct store_callbacks *callbacks, enum store_notice notice,
                         const struct store_error *error)
{
    static const struct {
        enum log_level level;
        const char *event;
    } lines[] = {
        [STORE_UNREAD] = {LOG_WARN, "segment_unread"},
        [STORE_DAMAGED] = {LOG_ERROR, "segment_damaged"},
        [STORE_SET_ASIDE] = {LOG_ERROR, "segment_set_aside"},
        [STORE_FOLLOWER_DROPPED] = {LOG_ERROR, "follower_dropped"},
    };
    (void)callbacks;
    log_event(lines[notice].level, lines[notice].event, "file=%s offset=%llu text=\"%s\"",
              error->file, (unsigned long long)error->offset, error->text);
}

/* ---- the engine port ---- */

/*
 * A failed read may pass; the wait lets other jobs of the topic go first. One that was not tried
 * keeps its place.
 */
static void give_back(struct embedded *embedded, const struct unread *unread)
{
    struct cmd cmd = {
        .kind = CMD_RELEASE,
        .job = {.ref.seq = unread->seq,
                .lease = unread->lease,
                .why = RELEASE_UNDELIVERED,
                .has_delay = unread->err != ERR_AGAIN,
                .due_us = embedded->now_us + UNREAD_WAIT_US},
    };
    /* The job may have gone meanwhile: then there is nothing to give back. */
    core_apply(embedded->core, embedded->now_us, &cmd, NULL, NULL);
}

/* A body that is damaged stays so: an operator must see it. */
static void settle_unread(struct embedded *embedded)
{
    struct buf list = embedded->unread; /* taking back hands nothing out, so nothing is added */
    for (size_t i = 0; i < list.len; i += sizeof(struct unread)) {
        struct unread unread;
        memcpy(&unread, list.at + i, sizeof(unread));
        if (unread.err == ERR_DAMAGED)
            core_bury_damaged(embedded->core, embedded->now_us, unread.seq);
        else
            give_back(embedded, &unread);
    }
    embedded->unread.len = 0;
}

/* A consumer that waits gets what it would get if it asked now: see admit(). */
static void stop_serving_if_failed(struct embedded *embedded)
{
    if (embedded->store && store_failed(embedded->store))
        core_drain(embedded->core, ERR_STORE_FAILED);
}

static void engine_use_budget(struct engine *engine, struct budget *budget)
{
    struct embedded *embedded = of_engine(engine);
    embedded->unlimited.left_ns = BUDGET_UNLIMITED;
    embedded->budget = budget ? budget : &embedded->unlimited;
    core_use_budget(embedded->core, budget);
}

static void engine_time(struct engine *engine, int64_t now_us)
{
    of_engine(engine)->now_us = now_us;
}

static void engine_begin(struct engine *engine)
{
    struct embedded *embedded = of_engine(engine);
    embedded->busy = false;
    embedded->cold_reads = 0;
    if (embedded->store)
        store_poll(embedded->store);
    release_durable(embedded);
    stop_serving_if_failed(embedded);
    embedded->busy |= core_tick(embedded->core, embedded->now_us, TICK_STEPS);
    embedded->busy |= blocks_trim(&embedded->bodies);
}

/* May the command be done at all? Reading goes on whatever happens; consumers are not held up. */
static enum err admit(const struct embedded *embedded, const struct cmd *cmd)
{
    const struct cmd_traits *traits = cmd_traits(cmd->kind);
    if (!embedded->store)
        return OK;
    if (store_failed(embedded->store) && (traits->changes || traits->takes_jobs))
        return ERR_STORE_FAILED;
    if (cmd->kind == CMD_PUSH)
        return store_admit(embedded->store,
                           cmd->push.id.len + cmd->push.content_type.len + cmd->push.body.len);
    if (cmd->kind == CMD_RESCHEDULE && cmd->job.has_body)
        return store_admit(embedded->store, cmd->job.content_type.len + cmd->job.body.len);
    return OK;
}

static enum durability durability_of(const struct embedded *embedded, const struct cmd *cmd)
{
    bool says = cmd->kind == CMD_PUSH && cmd->push.durability != DURABILITY_DEFAULT;
    return says ? cmd->push.durability : embedded->durability;
}

static enum submitted submit_refused(const struct cmd *cmd, struct ticket *ticket, enum err err)
{
    if (ticket)
        ticket->answered(ticket, &(struct reply){.err = err, .kind = cmd->kind});
    return SUBMIT_ANSWERED;
}

static enum submitted engine_submit(struct engine *engine, const struct cmd *cmd,
                                    struct ticket *ticket)
{
    struct embedded *embedded = of_engine(engine);
    CHECK(ticket || !cmd_traits(cmd->kind)->takes_jobs);
    if (ticket) {
        ticket->parked = 0;
        ticket->held = NULL;
    }
    enum err err = admit(embedded, cmd);
    if (err)
        return submit_refused(cmd, ticket, err);
    embedded->asked = durability_of(embedded, cmd);
    struct cmd now;
    if (cmd->kind == CMD_RESERVE && embedded->draining) {
        now = *cmd;
        now.reserve.wait_us = 0;
        cmd = &now;
    }
    embedded->stats = cmd->kind == CMD_TOPICS && cmd->topic.stats ? &cmd->topic : NULL;
    uint64_t held_before = embedded->held_count;
    uint64_t parked = 0;
    core_apply(embedded->core, embedded->now_us, cmd, ticket, &parked);
    embedded->asked = embedded->durability;
    embedded->stats = NULL;
    if (!parked)
        return embedded->held_count == held_before ? SUBMIT_ANSWERED : SUBMIT_PENDING;
    if (!ticket)
        return SUBMIT_ANSWERED;
    ticket->parked = parked; /* not answered yet: the ticket is still there */
    return SUBMIT_PARKED;
}

static void engine_cancel(struct engine *engine, struct ticket *ticket)
{
    if (ticket->parked)
        core_cancel(of_engine(engine)->core, ticket->parked);
    if (ticket->held)
        ((struct held *)ticket->held)->ticket = NULL;
    ticket->parked = 0;
    ticket->held = NULL;
}

static void engine_match(struct engine *engine)
{
    struct embedded *embedded = of_engine(engine);
    if (core_match(embedded->core, embedded->now_us, MATCH_JOBS))
        embedded->busy = true;
}

/* What no event tells the store, and a restart must know. */
static void note_marks(struct embedded *embedded)
{
    store_lease_note(embedded->store, core_lease_next(embedded->core));
    store_clock_note(embedded->store, core_unlogged_us(embedded->core));
}

static int64_t engine_end(struct engine *engine)
{
    struct embedded *embedded = of_engine(engine);
    settle_unread(embedded);
    if (embedded->store) {
        store_latency_first(embedded->store, core_is_awaited(embedded->core));
        note_marks(embedded);
        store_turn(embedded->store, embedded->now_us);
        release_durable(embedded);
        stop_serving_if_failed(embedded);
    }
    int64_t next_us = embedded->busy ? embedded->now_us : core_next_us(embedded->core);
    if (embedded->store) {
        int64_t store_us = store_next_us(embedded->store);
        if (store_us < next_us)
            next_us = store_us;
        advance(&embedded->writing);
        advance(&embedded->syncing);
    }
    return next_us;
}

static void engine_drain(struct engine *engine)
{
    struct embedded *embedded = of_engine(engine);
    embedded->draining = true;
    core_drain(embedded->core, ERR_DRAINING);
}

static enum err engine_health(const struct engine *engine)
{
    const struct embedded *embedded = (const struct embedded *)engine;
    if (embedded->draining)
        return ERR_DRAINING;
    return embedded->store ? store_admit(embedded->store, 0) : OK;
}

static void engine_describe(const struct engine *engine, struct metric_sink *sink)
{
    embedded_describe(((const struct embedded *)engine)->store, sink);
}

static const struct engine_verbs verbs = {
    .use_budget = engine_use_budget,
    .time = engine_time,
    .begin = engine_begin,
    .submit = engine_submit,
    .cancel = engine_cancel,
    .match = engine_match,
    .end = engine_end,
    .drain = engine_drain,
    .health = engine_health,
    .describe = engine_describe,
};

/* ---- life ---- */

enum err embedded_open(const struct embedded_options *options, struct embedded **out_embedded,
                       struct store_error *out_error)
{
    struct embedded *embedded = mem_zalloc(sizeof(*embedded));
    embedded->engine.verbs = &verbs;
    embedded->sink.emit = sink_emit;
    embedded->core_callbacks.reply = core_replied;
    embedded->store_callbacks = (struct store_callbacks){
        .replay = replay,
        .clock = replay_clock,
        .progress = replay_progress,
        .finding = replay_finding,
        .durable = batch_durable,
        .synced = batch_synced,
        .failed = store_broke,
        .relocate = relocate,
        .relocate_unread = relocate_unread,
        .relocate_rest = relocate_rest,
        .notice = store_notice,
    };
    embedded->unlimited.left_ns = BUDGET_UNLIMITED;
    embedded->budget = &embedded->unlimited;
    embedded->durability = options->durability;
    embedded->asked = options->durability;
    embedded->now_us = options->now_us;
    blocks_init(&embedded->bodies);
    queue_init(&embedded->writing);
    queue_init(&embedded->syncing);
    embedded->core = core_new(&(struct core_options){
        .limits = options->limits,
        .sink = &embedded->sink,
        .callbacks = &embedded->core_callbacks,
        .now_us = options->now_us,
        .hash_key = options->hash_key,
        .lease_first = options->store.disk || !options->lease_first ? 1 : options->lease_first,
        .seq_first = 1,
    });
    if (options->store.disk) {
        enum err err =
            store_open(&options->store, &embedded->store_callbacks, &embedded->store, out_error);
        if (err) {
            core_free(embedded->core);
            mem_free(embedded);
            return err;
        }
        core_number_from(embedded->core, store_seq_first(embedded->store),
                         store_lease_first(embedded->store));
    }
    core_replayed(embedded->core, options->now_us);
    *out_embedded = embedded;
    return OK;
}

static void free_memory_body(void *ctx, const struct job *job)
{
    blocks_give(ctx, job->where);
}

void embedded_close(struct embedded *embedded)
{
    if (!embedded)
        return;
    if (embedded->store) {
        note_marks(embedded);
        store_close(embedded->store); /* tells batch_durable() of the last ones */
    } else {
        core_each(embedded->core, free_memory_body, &embedded->bodies);
    }
    release_all(embedded, ERR_STORE_FAILED);
    core_free(embedded->core);
    queue_fini(&embedded->writing);
    queue_fini(&embedded->syncing);
    arena_fini(&embedded->scratch);
    buf_fini(&embedded->unread);
    blocks_fini(&embedded->bodies);
    mem_free(embedded);
}

struct engine *embedded_engine(struct embedded *embedded)
{
    return &embedded->engine;
}

const struct core *embedded_core(const struct embedded *embedded)
{
    return embedded->core;
}

const struct store *embedded_store(const struct embedded *embedded)
{
    return embedded->store;
}

uint64_t embedded_held(const struct embedded *embedded)
{
    return embedded->held_count;
}
