/*
 * The engine's verbs, opening and closing. Replies that cannot be sent at once are kept by
 * commit_waiters.c and bodies.c.
 */
#include <errno.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/far.h"
#include "core/replay.h"
#include "engine/embedded/describe.h"
#include "engine/embedded/parts.h"
#include "store/far.h"

enum {
    TICK_STEPS = 256,                /* of the timers' wheels in a turn */
    MATCH_JOBS = 1000,               /* handed out a turn */
    ROOM_LASTS_US = 2 * 1000 * 1000, /* after this time with room, store_has_room is logged */
};

static struct embedded *of_engine(struct engine *engine)
{
    return (struct embedded *)engine; /* its first member */
}

/* ---- events: changes of the core, for the store ---- */

static struct stored sink_emit(struct event_sink *sink, const struct event *event)
{
    struct embedded *embedded = LIST_ENTRY(sink, struct embedded, sink);
    if (!embedded->store)
        return memory_records_keep(&embedded->bodies.memory, event);
    if (event->kind == EVENT_GONE && embedded->feed.journal && embedded->feed.journal->wants_ended)
        journal_feed_ended(embedded, event);
    if (embedded->feed.resyncing)
        journal_resync_note_event(embedded, event);
    return store_append(embedded->store, event);
}

static void sink_died(struct event_sink *sink, struct stored record)
{
    struct embedded *embedded = LIST_ENTRY(sink, struct embedded, sink);
    if (embedded->store_callbacks.store) /* in replay, embedded::store is not there yet */
        store_died(embedded->store_callbacks.store, record);
    else
        memory_records_forget(&embedded->bodies.memory, record.where);
}

static void batch_durable(struct store_callbacks *callbacks, uint64_t batch)
{
    LIST_ENTRY(callbacks, struct embedded, store_callbacks)->durable = batch;
}

static void batch_synced(struct store_callbacks *callbacks, uint64_t batch)
{
    LIST_ENTRY(callbacks, struct embedded, store_callbacks)->synced = batch;
}

/* The store has failed: waiting replies are answered in this turn and the next ones, see
   commit_release(). */
static void store_broke(struct store_callbacks *callbacks, int sys_errno)
{
    (void)callbacks;
    log_event(LOG_ERROR, "store_failed",
              "error=\"%s\" hint=\"nothing is acknowledged any more; %s, then restart laterd\"",
              strerror(sys_errno),
              sys_errno == EFBIG ? "a file may not be so large: raise LimitFSIZE= of the systemd "
                                   "unit, or ulimit -f"
                                 : "look at the disk");
}

static void log_full(const struct embedded *embedded)
{
    struct store_shortage shortage;
    store_shortage(embedded->store, &shortage);
    log_event(
        LOG_WARN, "store_full",
        "why=%s free_bytes=%llu kept_bytes=%llu segment_bytes=%llu hint=\"pushes are refused; "
        "%s\"",
        shortage.too_large ? "file_size_limit" : err_name(shortage.err),
        (unsigned long long)shortage.free_bytes, (unsigned long long)shortage.kept_bytes,
        (unsigned long long)shortage.segment_bytes,
        shortage.err == ERR_DISK_LIMIT ? "raise store.max_bytes, or finish jobs"
        : shortage.too_large
            ? "a file of segment_bytes is above the limit of a file's size: raise LimitFSIZE= of "
              "the systemd unit, or ulimit -f, and restart, or lower store.segment_bytes"
        : shortage.kept_bytes > 2 * shortage.segment_bytes
            ? "two segments are kept free, and room for a copy of the largest job that is larger "
              "than one: make room on the disk, or finish jobs, such ones first"
            : "two segments are kept free: make room on the disk, finish jobs, or, on a "
              "small disk, lower store.segment_bytes");
}

/*
 * Logs once when the store has no room, and once when it has had room for a while, because that may
 * change with each segment. Returns when to call it again.
 */
static int64_t report_full(struct embedded *embedded)
{
    int64_t now_us = embedded->loop->now_us;
    bool full = store_full(embedded->store);
    if (full && !embedded->full.logged)
        log_full(embedded);
    embedded->full.logged = embedded->full.logged || full;
    if (full)
        embedded->full.seen_us = now_us;
    if (!embedded->full.logged)
        return INT64_MAX;
    int64_t over_us = embedded->full.seen_us + ROOM_LASTS_US;
    if (full || now_us < over_us)
        return over_us;
    embedded->full.logged = false;
    log_event(LOG_INFO, "store_has_room", "hint=\"pushes are taken again\"");
    return INT64_MAX;
}

/* ---- replies: at once, or when they are durable ---- */

/*
 * True: the reply implies a change, so it must wait until that change is durable. This includes
 * "not found" and "exists": they tell a client that repeats a request that its job is gone, or
 * stored, and the change that made it so may not be durable yet.
 */
static bool is_of_change(const struct embedded *embedded, const struct reply *reply)
{
    bool of_change = reply->err == OK || reply->err == ERR_NOT_FOUND || reply->err == ERR_EXISTS;
    return embedded->store && cmd_traits(reply->kind)->changes && of_change;
}

static void answer_with_stats(struct embedded *embedded, struct ticket *ticket,
                              const struct reply *reply)
{
    struct engine_stats stats;
    struct reply full = *reply;
    embedded_stats(embedded->core, embedded->store, embedded->loop->now_us,
                   embedded->stats->due_within, &stats);
    full.stats = &stats;
    ticket->answered(ticket, &full);
}

static void core_replied(struct core_callbacks *callbacks, void *ctx, const struct reply *reply)
{
    struct embedded *embedded = LIST_ENTRY(callbacks, struct embedded, core_callbacks);
    struct ticket *ticket = ctx;
    bool of_change = is_of_change(embedded, reply);
    if (!ticket)
        return; /* nobody needs the answer */
    ticket->parked = 0;
    if (of_change && store_failed(embedded->store)) { /* of a search begun before the failure */
        ticket->answered(ticket, &(struct reply){.err = ERR_STORE_FAILED, .kind = reply->kind});
        return;
    }
    if (of_change && commit_wait(embedded, ticket, reply))
        return;
    if (cmd_traits(reply->kind)->shows_bodies && reply->err == OK)
        bodies_reply(embedded, ticket, reply);
    else if (reply->due && embedded->has_far)
        due_wait(embedded, ticket, reply);
    else if (embedded->stats)
        answer_with_stats(embedded, ticket, reply);
    else
        ticket->answered(ticket, reply);
}

/* ---- the engine port ---- */

/* After a failure, or while it drains, a consumer that waits gets what it would get if it asked
   now: see admit(). All of them do, but in slices. */
static void stop_serving(struct embedded *embedded)
{
    if (embedded->store && store_failed(embedded->store))
        embedded->busy |= core_drain(embedded->core, ERR_STORE_FAILED);
    else if (embedded->draining)
        embedded->busy |= core_drain(embedded->core, ERR_DRAINING);
    else if (journal_feed_stops(embedded))
        embedded->busy |= core_drain(embedded->core, ERR_JOURNAL_DOWN);
}

static void engine_use_budget(struct engine *engine, struct budget *budget)
{
    struct embedded *embedded = of_engine(engine);
    embedded->unlimited.left_ns = BUDGET_UNLIMITED;
    embedded->budget = budget ? budget : &embedded->unlimited;
    core_use_budget(embedded->core, budget);
}

/* Is there a reply or a command that waits for something to be read, or a job that goes back since
 * it could not be read? */
static bool something_is_read(const struct embedded *embedded)
{
    return embedded->read_waiter_count > 0 || embedded->fronts.count > 0 ||
           embedded->bodies.unread.len > 0;
}

/* Continues everything that waits for reads. */
static void read_waiters_turn(struct embedded *embedded)
{
    core_hold_leases(embedded->core, !bodies_renew_leases(embedded));
    bodies_turn(embedded);
    reschedule_turn(embedded);
    far_turn(embedded);
    far_visit_turn(embedded);
    front_turn(embedded);
    history_answer_turn(embedded);
    due_turn(embedded);
}

static void engine_begin(struct engine *engine)
{
    struct embedded *embedded = of_engine(engine);
    embedded->busy = false;
    if (embedded->store)
        store_poll(embedded->store);
    commit_release(embedded);
    if (something_is_read(embedded))
        read_waiters_turn(embedded);
    stop_serving(embedded);
    embedded->busy |= core_tick(embedded->core, embedded->loop->now_us, TICK_STEPS);
    core_hold_leases(embedded->core, false);
    if (!embedded->store)
        embedded->busy |= memory_records_trim(&embedded->bodies.memory);
    embedded->busy |= discard_some(&embedded->discard, embedded->budget);
}

/* Checks whether the command may be executed now. Commands that only read are always allowed, and
   consumers may always wait. */
static enum err admit(const struct embedded *embedded, const struct cmd *cmd)
{
    const struct cmd_traits *traits = cmd_traits(cmd->kind);
    if (!embedded->store)
        return OK;
    if (store_failed(embedded->store) && (traits->changes || traits->takes_jobs))
        return ERR_STORE_FAILED;
    if (embedded->feed.journal) {
        enum err err = journal_feed_admit(embedded, cmd);
        if (err)
            return err;
    }
    if (cmd->kind == CMD_PUSH)
        return store_admit(embedded->store, cmd->push.id.len + cmd->push.content_type.len +
                                                cmd->push.body.len + cmd->push.properties.len);
    if (cmd->kind == CMD_CONFIGURE_TOPIC && cmd->topic.settings.len)
        return store_admit(embedded->store, cmd->topic.settings.len);
    if (cmd->kind == CMD_RESCHEDULE && cmd->job.has_body)
        return store_admit(embedded->store,
                           cmd->job.content_type.len + cmd->job.body.len + cmd->job.properties.len);
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

/* Changes the command as the engine's state requires, in a copy in `room`; else returns `cmd`. */
static const struct cmd *adjust(struct embedded *embedded, const struct cmd *cmd, struct cmd *room)
{
    embedded->stats = cmd->kind == CMD_TOPICS && cmd->topic.stats ? &cmd->topic : NULL;
    if (cmd->kind == CMD_RESERVE && embedded->draining) {
        *room = *cmd;
        room->reserve.wait_us = 0;
        return room;
    }
    bool noted = cmd_keeps_note(cmd) && cmd->job.note.len > 0;
    if (noted && embedded->store && store_admit(embedded->store, cmd->job.note.len)) {
        *room = *cmd;
        room->job.note.len = 0; /* the last room of a full disk is for ends of jobs */
        return room;
    }
    return cmd;
}

/* The result of a command that the core has executed. */
__attribute__((always_inline)) static inline enum submitted outcome(const struct embedded *embedded,
                                                                    struct ticket *ticket,
                                                                    uint64_t waiting_before,
                                                                    uint64_t parked)
{
    if (!parked && embedded_waiting_replies(embedded) == waiting_before)
        return SUBMIT_ANSWERED;
    if (!ticket)
        return SUBMIT_ANSWERED;
    if (!parked) {
        const struct waiting_reply *reply = ticket->held;
        return reply->may_park ? SUBMIT_PARKED : SUBMIT_PENDING;
    }
    ticket->parked = parked; /* not answered yet, so the ticket is valid */
    return SUBMIT_PARKED;
}

/* Inlined into submit, which is called for each command: that saves it 20 instructions of 2,850. */
__attribute__((always_inline)) static inline enum submitted do_command(struct embedded *embedded,
                                                                       const struct cmd *cmd,
                                                                       struct ticket *ticket)
{
    enum err err = admit(embedded, cmd);
    if (err)
        return submit_refused(cmd, ticket, err);
    embedded->cmd_durability = durability_of(embedded, cmd);
    struct cmd room;
    if (cmd->kind != CMD_PUSH) /* pushes, the most frequent commands, are never changed */
        cmd = adjust(embedded, cmd, &room);
    uint64_t waiting_before = embedded_waiting_replies(embedded);
    uint64_t parked = core_apply(embedded->core, embedded->loop->now_us, cmd, ticket);
    embedded->cmd_durability = embedded->durability;
    embedded->stats = NULL;
    return outcome(embedded, ticket, waiting_before, parked);
}

enum submitted embedded_do(struct embedded *embedded, const struct cmd *cmd, struct ticket *ticket)
{
    return do_command(embedded, cmd, ticket);
}

bool embedded_delete_far(struct embedded *embedded, const struct cmd *cmd,
                         const struct event *event, struct ticket *ticket,
                         enum submitted *out_submitted)
{
    uint64_t waiting_before = embedded_waiting_replies(embedded);
    if (admit(embedded, cmd) ||
        !core_delete_far(embedded->core, embedded->loop->now_us, cmd, event, ticket))
        return false;
    *out_submitted = outcome(embedded, ticket, waiting_before, 0);
    return true;
}

__attribute__((always_inline)) static inline enum submitted submit(struct embedded *embedded,
                                                                   const struct cmd *cmd,
                                                                   struct ticket *ticket)
{
    enum submitted submitted;
    if (cmd->kind == CMD_GET && cmd->job.history)
        return history_look_up(embedded, cmd, ticket);
    if (embedded->has_far && far_begin(embedded, cmd, ticket, &submitted))
        return submitted;
    if (cmd->kind == CMD_RESCHEDULE && reschedule_begin(embedded, cmd, ticket, &submitted))
        return submitted;
    return do_command(embedded, cmd, ticket);
}

enum submitted embedded_submit(struct embedded *embedded, const struct cmd *cmd,
                               struct ticket *ticket)
{
    return submit(embedded, cmd, ticket);
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
    return submit(embedded, cmd, ticket);
}

/* In a store without far jobs what is fetched would not be far away. */
static void engine_soon(struct engine *engine, struct bytes id)
{
    const struct embedded *embedded = of_engine(engine);
    if (embedded->has_far)
        core_fetch_far(embedded->core, &(struct job_ref){.id = id});
}

static bool engine_wants_new(const struct engine *engine)
{
    const struct embedded *embedded = (const struct embedded *)engine; /* its first member */
    return embedded->has_far && core_any_far(embedded->core);
}

static void engine_soon_new(struct engine *engine, const struct bytes *ids, uint32_t count)
{
    core_fetch_new(of_engine(engine)->core, ids, count);
}

static void engine_cancel(struct engine *engine, struct ticket *ticket)
{
    if (ticket->parked)
        core_cancel(of_engine(engine)->core, ticket->parked);
    struct waiting_reply *reply = ticket->held;
    if (reply) {
        reply->ticket = NULL;
        if (reply->why == WAITS_FOR_BODIES)
            bodies_cancel(of_engine(engine), reply);
        else if (reply->why == WAITS_FOR_FAR)
            far_cancel(reply);
        else if (reply->why == WAITS_FOR_VISIT)
            far_visit_cancel(reply);
        else if (reply->why == WAITS_FOR_HISTORY)
            history_cancel(reply);
    }
    ticket->parked = 0;
    ticket->held = NULL;
}

static void engine_match(struct engine *engine)
{
    struct embedded *embedded = of_engine(engine);
    if ((embedded->store && store_failed(embedded->store)) || journal_feed_stops(embedded))
        return; /* stop_serving() answers those that wait */
    if (core_match(embedded->core, embedded->loop->now_us, MATCH_JOBS))
        embedded->busy = true;
}

/* Tells the store values that are in no event, and that a restart needs. */
static void note_marks(struct embedded *embedded)
{
    store_lease_note(embedded->store, core_lease_next(embedded->core));
    store_clock_note(embedded->store, core_unlogged_us(embedded->core));
}

/* What most turns have no use for is asked whether there is something to do, not called: where a
   turn brings a single request, its time goes into code that has left the processor's cache. */
static int64_t engine_end(struct engine *engine)
{
    struct embedded *embedded = of_engine(engine);
    if (something_is_read(embedded))
        bodies_turn(embedded);
    if (embedded->store) {
        if (embedded->has_far)
            front_turn(embedded);
        if (embedded->bodies.ahead_count > 0)
            bodies_read_ahead(embedded);
        store_latency_first(embedded->store, core_is_awaited(embedded->core));
        note_marks(embedded);
        store_turn(embedded->store, embedded->loop->now_us);
        /* The cleaner limits its own work. */
        budget_exclude_elapsed(embedded->budget, store_cleaning_us(embedded->store) * 1000);
        core_far_waits(embedded->core, store_far_waits(embedded->store));
        if (embedded->feed.journal)
            journal_feed_turn(embedded);
        commit_release(embedded);
        stop_serving(embedded);
    }
    embedded->busy |= embedded->discard.first != NULL; /* begin() frees it */
    int64_t next_us = embedded->busy ? embedded->loop->now_us : core_next_us(embedded->core);
    if (embedded->read_waiter_count > 0)
        next_us = time_earlier(next_us, bodies_renew_next_us(embedded));
    if (embedded->store) {
        next_us = time_earlier(next_us, store_next_us(embedded->store));
        next_us = time_earlier(next_us, report_full(embedded));
        if (embedded->feed.journal)
            next_us = time_earlier(next_us, journal_resync_next_us(embedded));
        if (embedded->has_far)
            next_us = time_earlier(next_us, front_next_us(embedded));
        commit_advance(embedded);
    }
    return next_us;
}

static void engine_drain(struct engine *engine)
{
    struct embedded *embedded = of_engine(engine);
    embedded->draining = true;
    embedded->busy = true;
}

static enum err engine_health(const struct engine *engine)
{
    const struct embedded *embedded = (const struct embedded *)engine;
    if (embedded->draining)
        return ERR_DRAINING;
    enum err err = embedded->store ? store_admit(embedded->store, 0) : OK;
    return err ? err : journal_feed_health(embedded);
}

static void engine_describe(const struct engine *engine, struct metric_sink *sink)
{
    const struct embedded *embedded = (const struct embedded *)engine;
    embedded_describe(embedded->core, embedded->store, sink);
    if (sink->fact && embedded->store && embedded->directory)
        sink->fact(sink, &(struct fact){
                             .name = "data_dir", .type = FACT_TEXT, .text = embedded->directory});
    journal_feed_describe(embedded, sink);
}

static void settings_changed(struct core_callbacks *callbacks, struct bytes topic, uint64_t version,
                             struct bytes settings)
{
    struct embedded *embedded = LIST_ENTRY(callbacks, struct embedded, core_callbacks);
    for (unsigned i = 0; i < embedded->observer_count; i++)
        embedded->observers[i]->changed(embedded->observers[i], topic, version, settings);
}

static void notify_settings(void *ctx, struct bytes topic, uint64_t version, struct bytes settings)
{
    struct settings_observer *observer = ctx;
    observer->changed(observer, topic, version, settings);
}

static void engine_observe_settings(struct engine *engine, struct settings_observer *observer)
{
    struct embedded *embedded = of_engine(engine);
    if (!observer) { /* unregistered */
        embedded->observer_count = 0;
        return;
    }
    CHECK(embedded->observer_count < OBSERVERS_MAX);
    embedded->observers[embedded->observer_count++] = observer;
    core_each_settings(embedded->core, notify_settings, observer);
}

static const struct engine_verbs verbs = {
    .use_budget = engine_use_budget,
    .begin = engine_begin,
    .submit = engine_submit,
    .soon = engine_soon,
    .soon_new = engine_soon_new,
    .wants_new = engine_wants_new,
    .cancel = engine_cancel,
    .match = engine_match,
    .end = engine_end,
    .drain = engine_drain,
    .health = engine_health,
    .observe_settings = engine_observe_settings,
    .describe = engine_describe,
};

/* ---- life ---- */

static void set_callbacks(struct embedded *embedded, const struct embedded_options *options)
{
    embedded->engine.verbs = &verbs;
    embedded->sink.emit = sink_emit;
    embedded->sink.died = sink_died;
    embedded->core_callbacks.reply = core_replied;
    embedded->core_callbacks.settings = settings_changed;
    embedded->store_callbacks = (struct store_callbacks){
        .durable = batch_durable,
        .synced = batch_synced,
        .failed = store_broke,
    };
    relocate_callbacks(&embedded->store_callbacks);
    far_callbacks(&embedded->store_callbacks);
    if (options->store.disk && options->store.history_us > 0)
        embedded->sink.happened = history_record;
}

static void init_parts(struct embedded *embedded)
{
    bodies_init(&embedded->bodies);
    reschedulings_init(&embedded->reschedulings);
    far_commands_init(&embedded->far_commands);
    far_visits_init(&embedded->far_visits);
    fronts_init(&embedded->fronts);
    list_init(&embedded->questions);
    list_init(&embedded->questions_ended);
    list_init(&embedded->due_counts);
    commit_waiters_init(&embedded->writing);
    commit_waiters_init(&embedded->syncing);
}

enum err embedded_open(const struct embedded_options *options, struct embedded **out_embedded,
                       struct store_error *out_error)
{
    struct embedded *embedded = mem_zalloc(sizeof(*embedded));
    set_callbacks(embedded, options);
    init_parts(embedded);
    embedded->unlimited.left_ns = BUDGET_UNLIMITED;
    embedded->budget = &embedded->unlimited;
    embedded->durability = options->durability;
    embedded->cmd_durability = options->durability;
    embedded->loop = options->loop;
    embedded->directory = options->directory;
    embedded->opening =
        (struct opening_report){.report = options->opening, .owner = options->opening_owner};
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
        struct store_options store = options->store;
        store.discard = &embedded->discard;
        store.ready_in_memory = options->limits.ready_in_memory;
        store.buried_in_memory = options->limits.buried_in_memory;
        enum err err = store_open(&store, &embedded->store_callbacks, &embedded->store, out_error);
        if (err) {
            core_free(embedded->core);
            mem_free(embedded);
            return err;
        }
        far_opened(embedded);
        core_number_from(embedded->core, store_seq_first(embedded->store),
                         store_lease_first(embedded->store));
    }
    core_replayed(embedded->core, options->now_us);
    *out_embedded = embedded;
    return OK;
}

static void forget_record(void *ctx, const struct job *job)
{
    memory_records_forget(ctx, job->where);
}

void embedded_stop(struct embedded *embedded)
{
    if (!embedded || embedded->stopped)
        return;
    embedded->stopped = true;
    history_fail_all(embedded);
    journal_resync_close(embedded);
    due_fail_all(embedded);
    far_visit_fail_all(embedded);
    front_fail_all(embedded);
    far_fail_all(embedded);
    reschedule_fail_all(embedded);
    bodies_fail_all(embedded);
    CHECK(embedded->read_waiter_count == 0);
    if (embedded->store) {
        note_marks(embedded);
        journal_feed_end(embedded);
        store_close(embedded->store); /* calls batch_durable() for the last batches */
    } else {
        core_each(embedded->core, forget_record, &embedded->bodies.memory);
        core_drop_all_notes(embedded->core);
    }
    embedded->store = NULL;
    commit_release_all(embedded);
}

void embedded_close(struct embedded *embedded)
{
    if (!embedded)
        return;
    embedded_stop(embedded);
    core_free(embedded->core);
    commit_waiters_fini(&embedded->writing);
    commit_waiters_fini(&embedded->syncing);
    discard_fini(&embedded->discard);
    bodies_fini(&embedded->bodies);
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

uint64_t embedded_waiting_replies(const struct embedded *embedded)
{
    return embedded->commit_waiter_count + embedded->read_waiter_count;
}
