/*
 * The history of jobs: passes the core's events to the store; a request for a job's history waits
 * until the disk's threads have searched the store.
 */
#include "base/check.h"
#include "base/mem.h"
#include "core/far.h"
#include "engine/embedded/parts.h"
#include "store/job_history.h"

enum {
    HAPPENINGS_MAX = 1000, /* shown of one id */
    ANSWER_NS = 1500,      /* work for an answer, without what its receiver does with it, … */
    HAPPENING_NS = 50,     /* … and for each entry in it */
};

/* Allocated in one block with the id. */
struct history_question {
    struct waiting_reply head;
    struct list link; // embedded::questions, or ::questions_ended
    struct embedded *embedded;
    struct history_find find;
};

void history_record(struct event_sink *sink, const struct happening *happening)
{
    store_history_add(LIST_ENTRY(sink, struct embedded, sink)->store, happening);
}

/* It is answered, or freed, in the next turn, without a sleep. */
static void set_ended(struct history_question *question)
{
    list_remove(&question->link);
    list_add_tail(&question->embedded->questions_ended, &question->link);
    question->embedded->busy = true;
}

static void found(struct history_find *find)
{
    set_ended(find->owner);
}

void history_cancel(struct waiting_reply *reply)
{
    set_ended(LIST_ENTRY(reply, struct history_question, head));
}

/* A job that lives may be named by its number, though its client has chosen an id. */
static struct job_ref named_by(const struct embedded *embedded, const struct cmd *cmd)
{
    struct job_view job;
    bool by_number = cmd->job.ref.id.len == 0;
    if (by_number && core_show(embedded->core, &cmd->job.ref, &job) && job.ref.id.len)
        return job.ref;
    return cmd->job.ref;
}

static void refuse(struct ticket *ticket, enum err err)
{
    if (ticket)
        ticket->answered(ticket, &(struct reply){.err = err, .kind = CMD_GET});
}

enum submitted history_look_up(struct embedded *embedded, const struct cmd *cmd,
                               struct ticket *ticket)
{
    enum submitted submitted;
    if (!embedded->store || !ticket) {
        refuse(ticket, ERR_NOT_FOUND);
        return SUBMIT_ANSWERED;
    }
    /* The id of a far job, under which its history is, is in its record. */
    bool by_number = cmd->job.ref.id.len == 0;
    if (by_number && embedded->has_far && far_begin(embedded, cmd, ticket, &submitted))
        return submitted;
    return history_look(embedded, cmd, ticket);
}

enum submitted history_look(struct embedded *embedded, const struct cmd *cmd, struct ticket *ticket)
{
    CHECK(ticket);
    struct job_ref ref = named_by(embedded, cmd);
    struct history_question *question = mem_zalloc(sizeof(*question) + ref.id.len);
    char *id = (char *)(question + 1);
    if (ref.id.len)
        memcpy(id, ref.id.at, ref.id.len);
    question->head = (struct waiting_reply){.ticket = ticket, .why = WAITS_FOR_HISTORY};
    question->embedded = embedded;
    question->find = (struct history_find){
        .ref = {.seq = ref.seq, .id = bytes_of(id, ref.id.len)},
        .max = HAPPENINGS_MAX,
        .done = found,
        .owner = question,
    };
    list_add_tail(&embedded->questions, &question->link);
    embedded->read_waiter_count++;
    ticket->held = &question->head;
    store_history_find(embedded->store, &question->find);
    return SUBMIT_PARKED;
}

static void end(struct history_question *question)
{
    struct embedded *embedded = question->embedded;
    store_history_find_end(embedded->store, &question->find);
    list_remove(&question->link);
    embedded->read_waiter_count--;
    mem_free(question);
}

/* In memory or not: a job may fall due while it is far. */
static bool lives(const struct embedded *embedded, const struct history_find *find)
{
    uint64_t places[FAR_CANDIDATES_MAX];
    struct job_ref ref = {0};
    if (find->count > 0)
        ref.seq = find->happenings[find->count - 1].seq;
    return ref.seq &&
           (core_holds(embedded->core, &ref) || core_far_find(embedded->core, &ref, places) > 0);
}

static void answer(struct history_question *question)
{
    const struct history_find *find = &question->find;
    struct ticket *ticket = question->head.ticket;
    enum err err = find->err;
    if (!err && find->count == 0)
        err = find->damaged ? ERR_DAMAGED : ERR_NOT_FOUND;
    ticket->held = NULL;
    ticket->answered(ticket, &(struct reply){.err = err,
                                             .kind = CMD_GET,
                                             .more = find->more,
                                             .damaged = find->damaged,
                                             .happenings = find->happenings,
                                             .happening_count = err ? 0 : find->count,
                                             .happens_on = lives(question->embedded, find)});
}

static struct history_question *first_of(struct list *questions)
{
    return LIST_ENTRY(questions->next, struct history_question, link);
}

/* Does not look at those that are still searched for: there may be one for each connection. */
void history_answer_turn(struct embedded *embedded)
{
    struct list *ended = &embedded->questions_ended;
    for (unsigned steps = 0; !list_empty(ended); steps++) {
        struct history_question *question = first_of(ended);
        if (steps > 0 && budget_spent(embedded->budget)) {
            embedded->busy = true;
            return;
        }
        budget_spend(embedded->budget, ANSWER_NS + (int64_t)question->find.count * HAPPENING_NS);
        if (question->head.ticket)
            answer(question);
        end(question);
    }
}

static void fail_all(struct list *questions)
{
    while (!list_empty(questions)) {
        struct history_question *question = first_of(questions);
        if (question->head.ticket)
            question->head.ticket->held = NULL;
        refuse(question->head.ticket, ERR_STORE_FAILED);
        end(question);
    }
}

void history_fail_all(struct embedded *embedded)
{
    fail_all(&embedded->questions);
    fail_all(&embedded->questions_ended);
}
