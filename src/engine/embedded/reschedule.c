/*
 * RESCHEDULE with a new body keeps the job's properties. The core does not have them; they are in
 * the record that will be replaced. If that is not in memory the disk's threads read it, and the
 * command waits, as a copy: other commands are executed before it (SUBMIT_PARKED).
 *
 * Properties never change while a job lives, so those that were read are valid if the job of that
 * name still has the same number; if not, the command begins again.
 */
#include "base/check.h"
#include "base/mem.h"
#include "engine/embedded/parts.h"

/* Allocated in one block with copies of what the command borrowed. */
struct rescheduling {
    struct waiting_reply head;
    struct list link;
    struct embedded *embedded;
    struct cmd cmd;
    struct buf body; /* which came in memory of its own (cmd_job::memory), not in the block */
    struct body_fetch fetch;
};

static void fetched(struct body_fetch *fetch)
{
    struct rescheduling *rescheduling = fetch->owner;
    list_remove(&rescheduling->link);
    list_add_tail(&rescheduling->embedded->reschedulings.whole, &rescheduling->link);
}

static void wait_for_record(struct embedded *embedded, const struct cmd *cmd, struct ticket *ticket,
                            const struct job_view *job)
{
    const struct cmd_job *args = &cmd->job;
    size_t body_bytes = args->memory ? 0 : args->body.len;
    struct rescheduling *rescheduling =
        mem_zalloc(sizeof(*rescheduling) + args->ref.id.len + args->content_type.len + body_bytes);
    rescheduling->head = (struct waiting_reply){.ticket = ticket, .why = WAITS_FOR_PROPERTIES};
    rescheduling->embedded = embedded;
    rescheduling->cmd = *cmd;
    char *room = (char *)(rescheduling + 1);
    room = bytes_move_to(room, &rescheduling->cmd.job.ref.id);
    room = bytes_move_to(room, &rescheduling->cmd.job.content_type);
    if (args->memory)
        rescheduling->cmd.job.memory = buf_take(&rescheduling->body, args->memory);
    else
        (void)bytes_move_to(room, &rescheduling->cmd.job.body);
    rescheduling->fetch.place = bodies_place(job);
    rescheduling->fetch.done = fetched;
    rescheduling->fetch.owner = rescheduling;
    list_add_tail(&embedded->reschedulings.reading, &rescheduling->link);
    embedded->read_waiter_count++;
    store_fetch(embedded->store, &rescheduling->fetch);
    if (ticket)
        ticket->held = &rescheduling->head;
}

static void refuse(const struct cmd *cmd, struct ticket *ticket, enum err err)
{
    if (ticket)
        ticket->answered(ticket, &(struct reply){.err = err, .kind = cmd->kind});
}

/*
 * If the properties are damaged the command fails: without them a job with a target of its own
 * would be sent to another one.
 */
bool reschedule_begin(struct embedded *embedded, const struct cmd *cmd, struct ticket *ticket,
                      enum submitted *out_submitted)
{
    struct job_view job;
    if (cmd->kind != CMD_RESCHEDULE || !cmd->job.has_body ||
        !core_show(embedded->core, &cmd->job.ref, &job) || !job.record_bytes)
        return false;
    struct cmd whole = *cmd;
    enum err err = bodies_read(embedded, &job);
    whole.job.properties = job.properties;
    *out_submitted = SUBMIT_ANSWERED;
    if (err == ERR_AGAIN) {
        wait_for_record(embedded, cmd, ticket, &job);
        *out_submitted = ticket ? SUBMIT_PARKED : SUBMIT_ANSWERED;
    } else if (err) {
        refuse(cmd, ticket, err);
    } else {
        *out_submitted = embedded_do(embedded, &whole, ticket);
    }
    arena_reset(&embedded->bodies.scratch);
    return true;
}

static void end(struct rescheduling *rescheduling)
{
    struct embedded *embedded = rescheduling->embedded;
    store_fetch_end(embedded->store, &rescheduling->fetch);
    list_remove(&rescheduling->link);
    embedded->read_waiter_count--;
    discard_buf(&embedded->discard, &rescheduling->body);
    mem_free(rescheduling);
}

static void resume(struct embedded *embedded, struct rescheduling *rescheduling)
{
    struct ticket *ticket = rescheduling->head.ticket;
    struct cmd *cmd = &rescheduling->cmd;
    struct job_view job;
    bool same = core_show(embedded->core, &cmd->job.ref, &job) &&
                job.ref.seq == rescheduling->fetch.place.seq;
    if (ticket)
        ticket->held = NULL;
    if (same && rescheduling->fetch.err) {
        refuse(cmd, ticket, rescheduling->fetch.err);
    } else if (same) {
        cmd->job.properties = rescheduling->fetch.content.properties;
        (void)embedded_do(embedded, cmd, ticket); /* answers the ticket, now or later */
    } else {
        (void)embedded_submit(embedded, cmd, ticket); /* the same */
    }
    end(rescheduling);
}

void reschedule_turn(struct embedded *embedded)
{
    struct list *whole = &embedded->reschedulings.whole;
    for (unsigned steps = 0; !list_empty(whole); steps++) {
        if (steps > 0 && budget_spent(embedded->budget)) {
            embedded->busy = true;
            return;
        }
        resume(embedded, LIST_ENTRY(whole->next, struct rescheduling, link));
    }
}

static void give_up(struct list *list)
{
    while (!list_empty(list)) {
        struct rescheduling *rescheduling = LIST_ENTRY(list->next, struct rescheduling, link);
        if (rescheduling->head.ticket)
            rescheduling->head.ticket->held = NULL;
        refuse(&rescheduling->cmd, rescheduling->head.ticket, ERR_STORE_FAILED);
        end(rescheduling);
    }
}

void reschedule_fail_all(struct embedded *embedded)
{
    give_up(&embedded->reschedulings.whole);
    give_up(&embedded->reschedulings.reading);
}

void reschedulings_init(struct reschedulings *reschedulings)
{
    list_init(&reschedulings->reading);
    list_init(&reschedulings->whole);
}
