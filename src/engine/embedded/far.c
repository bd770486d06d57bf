/*
 * Commands that name a far job: one that the core does not have in memory, because its record is in
 * a slice of the store. The core knows the possible places of the record. The job arrives in the
 * core, and the command is executed as on any other job; if the job was not changed, it departs
 * again to the same place.
 *
 * A record in the page cache is read at once, and the command is executed in this turn: a client
 * that sends many commands need not wait for each. Otherwise the disk's threads read the record,
 * and the command waits, as a copy: other commands are executed before it (SUBMIT_PARKED).
 *
 * A record that was read is used only if the job is still far, at that place; otherwise the command
 * begins again. So two commands on one job need no further ordering: each is executed within one
 * turn, on the state at that time.
 *
 * A far job that is changed is first written to the log completely, so that later records of moves
 * never refer to a record in a slice that is not loaded.
 */
#include "core/far.h"
#include "base/check.h"
#include "base/mem.h"
#include "core/far_image.h"
#include "core/replay.h"
#include "engine/embedded/parts.h"
#include "store/far.h"

/* Work for handling a record that was read, and for writing it to the log again. */
enum { READ_NS = 1000, ARRIVE_NS = 2000, BODY_BYTES_PER_NS = 4 };

/* Allocated in one block with copies of what the command borrowed. */
struct far_command {
    struct waiting_reply head;
    struct list link;
    struct embedded *embedded;
    struct cmd cmd;
    struct buf body; /* which came in memory of its own (cmd_push::memory), not in the block */
    struct far_fetch fetch;
    uint32_t tried_count;
    /* The last places whose records were of other jobs, so that they are not read again; candidates
       may change between two reads. */
    uint64_t tried[FAR_CANDIDATES_MAX];
};

/* ---- the job has arrived ---- */

/* True: a push that first checks whether a job of a given number lives. */
static bool asks_number(const struct cmd *cmd)
{
    return cmd->kind == CMD_PUSH && cmd->push.number;
}

static struct job_ref named_by(const struct cmd *cmd)
{
    if (asks_number(cmd))
        return (struct job_ref){.seq = cmd->push.number};
    if (cmd->kind == CMD_PUSH)
        return (struct job_ref){.id = cmd->push.id};
    return cmd->job.ref;
}

static bool is_named(const struct cmd *cmd, const struct event *event)
{
    struct job_ref ref = named_by(cmd);
    return ref.id.len ? bytes_eq(ref.id, event->id) : ref.seq == event->job.seq;
}

/* True: the command would change the delayed or buried job without ending it, if it is not
   refused. */
static bool changes_job(const struct cmd *cmd)
{
    return (cmd->kind == CMD_RUN || cmd->kind == CMD_KICK || cmd->kind == CMD_RESCHEDULE ||
            cmd->kind == CMD_RESERVE_JOB);
}

enum err far_may_stay(const struct embedded *embedded, const struct event *event)
{
    if (store_failed(embedded->store))
        return ERR_STORE_FAILED;
    if (!core_has_memory(embedded->core))
        return ERR_MEMORY_LIMIT;
    size_t payload =
        event->id.len + event->content_type.len + event->body.len + event->properties.len;
    return store_admit(embedded->store, payload);
}

void far_write_again(struct embedded *embedded, const struct event *event, struct buf *memory)
{
    struct event again = *event;
    again.memory = memory;
    bool written = core_relocate(embedded->core, &again, event->record.where);
    CHECK(written);            /* it has just arrived */
    if (!memory || memory->at) /* else the thread that writes a large body copies it */
        budget_spend(embedded->budget, (int64_t)event->body.len / BODY_BYTES_PER_NS);
}

static void answer_kept(struct ticket *ticket)
{
    if (ticket)
        ticket->answered(ticket, &(struct reply){.kind = CMD_PUSH, .kept = true});
}

static bool asks_history(const struct cmd *cmd)
{
    return cmd->kind == CMD_GET && cmd->job.history;
}

/* `memory`: that of the event, or NULL. Who takes it over keeps it beyond this call. */
static enum submitted do_on_arrived(struct embedded *embedded, struct cmd *cmd,
                                    struct ticket *ticket, const struct event *event,
                                    struct buf *memory)
{
    if (cmd->kind == CMD_RESCHEDULE && cmd->job.has_body)
        cmd->job.properties = event->properties; /* which it keeps */
    if (changes_job(cmd) && core_allows(embedded->core, cmd))
        far_write_again(embedded, event, memory);
    enum submitted submitted = asks_history(cmd) ? history_look(embedded, cmd, ticket)
                                                 : embedded_do(embedded, cmd, ticket);
    (void)core_return(embedded->core, event->job.seq, event->record); /* if it is as it was */
    return submitted;
}

/*
 * Executes the command if the job's record is in memory. False: it is not, or the case is not that
 * simple, and the command has to wait.
 */
static bool do_at_once(struct embedded *embedded, const struct cmd *cmd, struct ticket *ticket,
                       const uint64_t *places, uint32_t count, enum submitted *out_submitted)
{
    struct far_room room;
    struct event event;
    for (uint32_t i = 0; i < count; i++) {
        budget_spend(embedded->budget, READ_NS);
        if (store_far_cached(embedded->store, places[i], &room, &event))
            return false;
        if (!is_named(cmd, &event))
            continue;
        if (asks_number(cmd)) {
            answer_kept(ticket);
            *out_submitted = SUBMIT_ANSWERED;
            return true;
        }
        budget_spend(embedded->budget, ARRIVE_NS);
        if (embedded_delete_far(embedded, cmd, &event, ticket, out_submitted))
            return true;
        if ((changes_job(cmd) && far_may_stay(embedded, &event)) ||
            !core_arrive(embedded->core, &event))
            return false;
        struct cmd copy = *cmd;
        *out_submitted = do_on_arrived(embedded, &copy, ticket, &event, NULL);
        return true;
    }
    return false;
}

/* ---- a copy of the command ---- */

static size_t borrowed_bytes(const struct cmd *cmd)
{
    const struct cmd_push *push = &cmd->push;
    const struct cmd_job *job = &cmd->job;
    if (cmd->kind == CMD_PUSH)
        return push->retry_count * sizeof(push->retry_us[0]) + push->id.len + push->topic.len +
               push->content_type.len + (push->memory ? 0 : push->body.len) + push->properties.len;
    return job->ref.id.len + job->note.len + job->by.len + job->content_type.len +
           (job->memory ? 0 : job->body.len) + job->properties.len;
}

static void copy_push(struct cmd_push *push, struct buf *body, char *room)
{
    struct bytes retry = bytes_of(push->retry_us, push->retry_count * sizeof(push->retry_us[0]));
    room = bytes_move_to(room, &retry);
    push->retry_us = (const int64_t *)(const void *)retry.at;
    room = bytes_move_to(room, &push->id);
    room = bytes_move_to(room, &push->topic);
    room = bytes_move_to(room, &push->content_type);
    if (push->memory)
        push->memory = buf_take(body, push->memory);
    else
        room = bytes_move_to(room, &push->body);
    (void)bytes_move_to(room, &push->properties);
}

static void copy_job(struct cmd_job *job, struct buf *body, char *room)
{
    room = bytes_move_to(room, &job->ref.id);
    room = bytes_move_to(room, &job->note);
    room = bytes_move_to(room, &job->by);
    room = bytes_move_to(room, &job->content_type);
    if (job->memory)
        job->memory = buf_take(body, job->memory);
    else
        room = bytes_move_to(room, &job->body);
    (void)bytes_move_to(room, &job->properties);
}

/* ---- one record after the other ---- */

static bool was_tried(const struct far_command *command, uint64_t where)
{
    for (uint32_t i = 0; i < command->tried_count && i < FAR_CANDIDATES_MAX; i++) {
        if (command->tried[i] == where)
            return true;
    }
    return false;
}

/* The next possible place of the job's record. False: there is no other. */
static bool next_place(const struct far_command *command, uint64_t *out_where)
{
    uint64_t places[FAR_CANDIDATES_MAX];
    struct job_ref ref = named_by(&command->cmd);
    uint32_t count = core_far_only(command->embedded->core, &ref, false, places);
    for (uint32_t i = 0; i < count; i++) {
        if (!was_tried(command, places[i])) {
            *out_where = places[i];
            return true;
        }
    }
    return false;
}

static void fetched(struct far_fetch *fetch)
{
    struct far_command *command = fetch->owner;
    list_remove(&command->link);
    list_add_tail(&command->embedded->far_commands.whole, &command->link);
    command->embedded->busy = true; /* the record is handled in the next turn, without a sleep */
}

static void fetch(struct far_command *command, uint64_t where)
{
    struct embedded *embedded = command->embedded;
    command->fetch = (struct far_fetch){.where = where, .done = fetched, .owner = command};
    list_add_tail(&embedded->far_commands.reading, &command->link);
    store_far_fetch(embedded->store, &command->fetch);
}

/* True: the index has no job of this number. */
static bool number_is_free(const struct embedded *embedded, const struct cmd *cmd)
{
    uint64_t places[FAR_CANDIDATES_MAX];
    return core_far_find(embedded->core, &(struct job_ref){.seq = cmd->push.number}, places) == 0;
}

bool far_begin(struct embedded *embedded, const struct cmd *cmd, struct ticket *ticket,
               enum submitted *out_submitted)
{
    uint64_t places[FAR_CANDIDATES_MAX];
    struct cmd by_id;
    enum cmd_subject subject = cmd_traits(cmd->kind)->subject;
    if (subject == CMD_ON_TOPICS)
        return far_visit_begin(embedded, cmd, ticket, out_submitted);
    if (!core_any_far(embedded->core))
        return false;
    if (subject != CMD_ON_JOB && (subject != CMD_ON_NEW_JOB || !cmd->push.id.len))
        return false;
    if (asks_number(cmd) && number_is_free(embedded, cmd)) {
        by_id = *cmd;
        by_id.push.number = 0;
        cmd = &by_id;
    }
    struct job_ref ref = named_by(cmd);
    uint32_t count = core_far_only(embedded->core, &ref, subject == CMD_ON_NEW_JOB, places);
    if (count == 0)
        return false;
    if (do_at_once(embedded, cmd, ticket, places, count, out_submitted))
        return true;
    struct far_command *command = mem_zalloc(sizeof(*command) + borrowed_bytes(cmd));
    command->head = (struct waiting_reply){.ticket = ticket, .why = WAITS_FOR_FAR};
    command->embedded = embedded;
    command->cmd = *cmd;
    if (cmd->kind == CMD_PUSH)
        copy_push(&command->cmd.push, &command->body, (char *)(command + 1));
    else
        copy_job(&command->cmd.job, &command->body, (char *)(command + 1));
    embedded->read_waiter_count++;
    fetch(command, places[0]);
    if (ticket)
        ticket->held = &command->head;
    *out_submitted = ticket ? SUBMIT_PARKED : SUBMIT_ANSWERED;
    return true;
}

static void end(struct far_command *command)
{
    struct embedded *embedded = command->embedded;
    store_far_fetch_end(embedded->store, &command->fetch);
    list_remove(&command->link);
    embedded->read_waiter_count--;
    discard_buf(&embedded->discard, &command->body);
    mem_free(command);
}

static void refuse(struct far_command *command, enum err err)
{
    struct ticket *ticket = command->head.ticket;
    if (!ticket)
        return;
    ticket->held = NULL;
    ticket->answered(ticket, &(struct reply){.err = err, .kind = command->cmd.kind});
}

/* ---- the record has come ---- */

/* No far job has the number; a job that came back to memory meanwhile may have it. */
static void resume_by_id(struct far_command *command, struct ticket *ticket)
{
    struct job_ref ref = named_by(&command->cmd);
    if (core_holds(command->embedded->core, &ref)) {
        answer_kept(ticket);
        return;
    }
    command->cmd.push.number = 0;
    (void)embedded_submit(command->embedded, &command->cmd, ticket);
}

/* There is no such far job: it came back to memory, or never existed. */
static void resume_without_job(struct far_command *command)
{
    struct ticket *ticket = command->head.ticket;
    enum submitted submitted;
    if (ticket)
        ticket->held = NULL;
    if (asks_number(&command->cmd))
        resume_by_id(command, ticket);
    else if (asks_history(&command->cmd))
        (void)history_look(command->embedded, &command->cmd, ticket);
    else if (!reschedule_begin(command->embedded, &command->cmd, ticket, &submitted))
        (void)embedded_do(command->embedded, &command->cmd, ticket); /* answers the ticket */
}

/* True: the job that the command names is still far, at the place that was read. */
static bool is_candidate(const struct far_command *command)
{
    uint64_t places[FAR_CANDIDATES_MAX];
    struct job_ref ref = named_by(&command->cmd);
    uint32_t count = core_far_find(command->embedded->core, &ref, places);
    for (uint32_t i = 0; i < count; i++) {
        if (places[i] == command->fetch.where)
            return true;
    }
    return false;
}

/* False: the command continues at another place. */
static bool try_next(struct far_command *command)
{
    uint64_t where;
    if (!next_place(command, &where)) {
        resume_without_job(command);
        return true;
    }
    store_far_fetch_end(command->embedded->store, &command->fetch);
    list_remove(&command->link);
    fetch(command, where);
    return false;
}

/* Executes the command on the job whose record was read. False: the job is no longer there. */
static bool do_on_record(struct far_command *command)
{
    struct embedded *embedded = command->embedded;
    const struct event *event = &command->fetch.event;
    struct ticket *ticket = command->head.ticket;
    enum submitted submitted; /* not used: the ticket is answered later */
    if (ticket)
        ticket->held = NULL;
    if (embedded_delete_far(embedded, &command->cmd, event, ticket, &submitted))
        return true;
    if (!core_arrive(embedded->core, event))
        return false;
    (void)do_on_arrived(embedded, &command->cmd, ticket, event,
                        store_far_fetch_memory(&command->fetch));
    return true;
}

static void resume(struct far_command *command)
{
    struct embedded *embedded = command->embedded;
    const struct event *event = &command->fetch.event;
    bool over = true, there = is_candidate(command);
    enum err err = command->fetch.err;
    bool named = !err && is_named(&command->cmd, event);
    if (named && changes_job(&command->cmd))
        err = far_may_stay(embedded, event);
    budget_spend(embedded->budget, ARRIVE_NS);
    if (there && !err && !named) {
        command->tried[command->tried_count++ % FAR_CANDIDATES_MAX] = command->fetch.where;
        over = try_next(command);
    } else if (!there) {
        over = try_next(command);
    } else if (asks_number(&command->cmd)) { /* it lives, though its record may be damaged */
        if (command->head.ticket)
            command->head.ticket->held = NULL;
        answer_kept(command->head.ticket);
    } else if (err || !named || !do_on_record(command)) {
        if (asks_history(&command->cmd))
            resume_without_job(command); /* it can only be found by its number now */
        else
            refuse(command, err ? err : ERR_DAMAGED);
    }
    if (over)
        end(command);
}

void far_turn(struct embedded *embedded)
{
    struct list *whole = &embedded->far_commands.whole;
    for (unsigned steps = 0; !list_empty(whole); steps++) {
        if (steps > 0 && budget_spent(embedded->budget)) {
            embedded->busy = true;
            return;
        }
        resume(LIST_ENTRY(whole->next, struct far_command, link));
    }
}

/* ---- cancelling ---- */

void far_cancel(struct waiting_reply *reply)
{
    end((struct far_command *)reply); /* its first member */
}

static void give_up(struct list *list)
{
    while (!list_empty(list)) {
        struct far_command *command = LIST_ENTRY(list->next, struct far_command, link);
        refuse(command, ERR_STORE_FAILED);
        end(command);
    }
}

void far_fail_all(struct embedded *embedded)
{
    give_up(&embedded->far_commands.whole);
    give_up(&embedded->far_commands.reading);
}

void far_commands_init(struct far_commands *commands)
{
    list_init(&commands->reading);
    list_init(&commands->whole);
}

/* ---- the store's callbacks ---- */

/* The first callbacks come before the store is open and embedded::store is set. */
static struct core *core_of(struct store_callbacks *callbacks)
{
    struct embedded *embedded = LIST_ENTRY(callbacks, struct embedded, store_callbacks);
    if (!embedded->has_far)
        core_use_far_key(embedded->core, store_far_key(callbacks->store));
    embedded->has_far = true;
    return embedded->core;
}

static bool spill(struct store_callbacks *callbacks, const struct event *event, uint64_t where,
                  int64_t due_after_us, struct event *out_job)
{
    const struct embedded *embedded = LIST_ENTRY(callbacks, struct embedded, store_callbacks);
    return core_spill(core_of(callbacks), event, where, due_after_us, out_job) &&
           (!embedded->feed.resyncing || out_job->job.state != JOB_READY);
}

/* True: the job must stay in memory: a resync of the journal lists ready jobs there, after it has
   listed the far ones. */
static bool stays_for_journal(const struct embedded *embedded, uint64_t seq)
{
    struct job_view job;
    return embedded->feed.resyncing &&
           core_show(embedded->core, &(struct job_ref){.seq = seq}, &job) && job.state == JOB_READY;
}

static bool depart(struct store_callbacks *callbacks, uint64_t seq, struct stored record)
{
    const struct embedded *embedded = LIST_ENTRY(callbacks, struct embedded, store_callbacks);
    return !stays_for_journal(embedded, seq) && core_depart(core_of(callbacks), seq, record);
}

_Static_assert((int)FAR_SOON_MAX <= (int)CORE_SOON_MAX, "the core takes as many");

static void soon(struct store_callbacks *callbacks, const uint64_t *seqs, uint32_t count,
                 bool departs)
{
    /* Not core_of(): without a horizon this is called, too, for jobs that are relocated. */
    core_fetch(LIST_ENTRY(callbacks, struct embedded, store_callbacks)->core, seqs, count, departs);
}

static void far_soon(struct store_callbacks *callbacks, uint64_t seq)
{
    core_fetch_far(core_of(callbacks), &(struct job_ref){.seq = seq});
}

static bool far_visited(struct store_callbacks *callbacks,
                        bool (*may_have)(const void *ctx, struct bytes topic), const void *ctx)
{
    const struct embedded *embedded = LIST_ENTRY(callbacks, struct embedded, store_callbacks);
    struct bytes topic;
    return (far_visit_topic(embedded, &topic) && may_have(ctx, topic)) ||
           core_searches(embedded->core, may_have, ctx);
}

static bool arrive(struct store_callbacks *callbacks, const struct event *event)
{
    return core_arrive(core_of(callbacks), event);
}

static bool near(struct store_callbacks *callbacks, const struct event *event)
{
    return core_near(core_of(callbacks), event);
}

static bool far_room(struct store_callbacks *callbacks)
{
    return core_has_memory(core_of(callbacks));
}

static uint64_t memory_left(struct store_callbacks *callbacks)
{
    /* Not core_of(): without a horizon the cleaner asks this, too, before it frees its window. */
    return core_memory_left(LIST_ENTRY(callbacks, struct embedded, store_callbacks)->core);
}

static int64_t clock_us(struct store_callbacks *callbacks)
{
    const struct loop *loop = LIST_ENTRY(callbacks, struct embedded, store_callbacks)->loop;
    return loop->clock ? loop->clock->now_us(loop->clock) : loop->now_us;
}

static int64_t due_by(void *store, uint64_t where)
{
    return store_far_due_by(store, where);
}

void far_opened(struct embedded *embedded)
{
    if (store_far_was_later(embedded->store))
        core_use_far_due(embedded->core, due_by, embedded->store);
}

static enum job_state state_at(void *store, uint64_t where)
{
    return store_slice_state(store, where);
}

static bool may_be_twice(void *store, uint64_t where)
{
    return store_may_be_far(store, where);
}

static struct far_places places_of(const struct store_callbacks *callbacks)
{
    return (struct far_places){
        .state_at = state_at, .may_be_twice = may_be_twice, .ctx = callbacks->store};
}

static void replay_far_begin(struct store_callbacks *callbacks, uint64_t jobs)
{
    struct far_places places = places_of(callbacks);
    core_far_begin(core_of(callbacks), jobs, &places);
}

static enum err replay_far(struct store_callbacks *callbacks, const struct far_job *jobs,
                           uint32_t count)
{
    return core_replay_far(core_of(callbacks), jobs, count);
}

static enum err replay_far_end(struct store_callbacks *callbacks, bool *out_more)
{
    return core_far_end(core_of(callbacks), out_more);
}

_Static_assert((int)FAR_PARTS == (int)CORE_FAR_IMAGE_PARTS, "the store keeps as many");

static bool far_image(struct store_callbacks *callbacks, uint32_t part, struct buf *out)
{
    struct far_places places = places_of(callbacks);
    return core_far_image(core_of(callbacks), &places, part, out);
}

static enum err far_image_take(struct store_callbacks *callbacks, uint32_t part, struct bytes image)
{
    struct far_places places = places_of(callbacks);
    return core_far_image_take(core_of(callbacks), &places, part, image);
}

static void drop_older(struct store_callbacks *callbacks, const struct far_job *jobs,
                       uint32_t count)
{
    core_drop_older(core_of(callbacks), jobs, count);
}

static void far_image_drop(struct store_callbacks *callbacks)
{
    core_far_image_drop(core_of(callbacks));
}

void far_callbacks(struct store_callbacks *callbacks)
{
    callbacks->spill = spill;
    callbacks->depart = depart;
    callbacks->soon = soon;
    callbacks->far_soon = far_soon;
    callbacks->far_visited = far_visited;
    callbacks->arrive = arrive;
    callbacks->near = near;
    callbacks->far_room = far_room;
    callbacks->memory_left = memory_left;
    callbacks->clock_us = clock_us;
    callbacks->far_begin = replay_far_begin;
    callbacks->replay_far = replay_far;
    callbacks->far_end = replay_far_end;
    callbacks->far_image = far_image;
    callbacks->far_image_take = far_image_take;
    callbacks->drop_older = drop_older;
    callbacks->far_image_drop = far_image_drop;
}
