/*
 * Commands on the delayed, ready or buried jobs of a topic, some of which are far. The store finds
 * the first of them in its slices, the disk's threads read their records, and the jobs arrive in
 * the core for a visit; the command is executed as if all jobs were in memory, and then the
 * unchanged ones depart again. CLEAR_TOPIC deletes jobs one by one as their records are read,
 * because otherwise the core would have to search all jobs; delayed jobs do not even arrive for
 * that.
 *
 * A command that only asks when the first job is due reads its record, without a visit. A peek at
 * the first ready job needs the job that the core would hand out first, whatever its due time. A
 * few such look-ups run at once.
 *
 * Only one visit runs at a time, the others wait: a job must not depart after one visit while the
 * next one, which has not read it, looks for it in memory. For the same reason the store lets no
 * jobs of the topic depart during a visit; they depart before the next visit begins. So a command
 * on a topic that is visited waits even if all of its far jobs are in memory for that: the core may
 * search for several turns, and would miss those that have departed by then.
 *
 * Nor do jobs of a topic depart while the core searches it for another reason. When some are held
 * up by that, further such commands wait here until they have departed, or clients that list a
 * topic all the time would keep it in memory. While there are many searches, those of other topics
 * wait as well, because the core asks no details of so many.
 */
#include "base/check.h"
#include "base/mem.h"
#include "core/far.h"
#include "core/front.h"
#include "engine/embedded/parts.h"
#include "store/far.h"

enum {
    PAGE_MAX = 1000,
    LOOKS_MAX = 8, /* look-ups at a time: each holds a slice's block, or its index */
    ARRIVE_NS = 2000,
    STEPS_MIN = 16, /* records handled even if the budget is spent */
};

enum visit_step {
    VISIT_BEGINS,
    VISIT_READS,  /* its page */
    VISIT_TAKES,  /* the page's jobs in */
    VISIT_ASKS,   /* the core, which has not answered yet */
    VISIT_LEAVES, /* the jobs depart again */
};

/* Allocated in one block with copies of what the command borrowed. */
struct far_visit {
    struct waiting_reply head; /* its ticket is the client's */
    struct list link;
    struct embedded *embedded;
    struct cmd cmd;
    struct ticket inner; /* the command's, once it is done in the core */
    enum visit_step step;
    struct far_page page;
    struct far_fetch first; /* of the first ready job, in place of a page; or of the page's next
                               job, if that has a long body */
    bool reading;           /* store_far_page_end() is due */
    bool fetching;          /* store_far_fetch_end() is due */
    bool read;              /* the page has come */
    bool answered;          /* the client's ticket was answered, or cancelled */
    bool rests;             /* begin_again() has let a turn go by */
    uint32_t here;          /* jobs of the page that are in memory now */
    uint32_t next;          /* of the page's records */
    uint32_t cleared;       /* CLEAR_TOPIC: jobs that were deleted */
    bool goes_behind; /* no job of the last page could be used: the next page begins behind it */
    int64_t behind_us;
    uint64_t behind_seq;
};

static bool only_looks(const struct far_visit *visit)
{
    return visit->cmd.kind == CMD_TOPIC;
}

/* The visit can continue, in far_visit_turn(). */
static void make_ready(struct far_visit *visit)
{
    visit->embedded->busy = true;
    if (!only_looks(visit))
        return;
    list_remove(&visit->link);
    list_add_tail(&visit->embedded->far_visits.ready, &visit->link);
}

/* Does the command search the jobs of a topic that another one visits? */
static bool meets_visit(const struct embedded *embedded, const struct cmd *cmd)
{
    struct bytes topic;
    return far_visit_topic(embedded, &topic) && bytes_eq(topic, cmd->topic.topic);
}

/* Must the command wait although none of the topic's jobs is far? */
static bool must_wait(const struct embedded *embedded, const struct cmd *cmd)
{
    bool searches = cmd->kind == CMD_LIST || cmd->kind == CMD_PEEK ||
                    cmd->kind == CMD_CLEAR_TOPIC || cmd->kind == CMD_KICK_TOPIC;
    if (searches && core_searches_many(embedded->core) && store_far_departs(embedded->store))
        return true;
    return searches &&
           (meets_visit(embedded, cmd) || store_far_departs_of(embedded->store, cmd->topic.topic));
}

bool far_visit_begin(struct embedded *embedded, const struct cmd *cmd, struct ticket *ticket,
                     enum submitted *out_submitted)
{
    struct far_after after;
    if (!core_wants_far(embedded->core, cmd, &after) && !must_wait(embedded, cmd))
        return false;
    struct far_visit *visit = mem_zalloc(sizeof(*visit) + cmd->topic.topic.len +
                                         cmd->topic.cursor.len + cmd->topic.settings.len);
    visit->head = (struct waiting_reply){.ticket = ticket, .why = WAITS_FOR_VISIT};
    visit->embedded = embedded;
    visit->cmd = *cmd;
    char *room = bytes_move_to((char *)(visit + 1), &visit->cmd.topic.topic);
    room = bytes_move_to(room, &visit->cmd.topic.cursor);
    (void)bytes_move_to(room, &visit->cmd.topic.settings);
    struct far_visits *visits = &embedded->far_visits;
    list_add_tail(only_looks(visit) ? &visits->lookups : &visits->waiting, &visit->link);
    embedded->read_waiter_count++;
    embedded->busy = true; /* for far_visit_turn() */
    if (ticket)
        ticket->held = &visit->head;
    *out_submitted = ticket ? SUBMIT_PARKED : SUBMIT_ANSWERED;
    return true;
}

/* ---- the page ---- */

static void page_read(struct far_page *page)
{
    struct far_visit *visit = page->owner;
    visit->read = true;
    make_ready(visit);
}

static void first_read(struct far_fetch *fetch)
{
    struct far_visit *visit = fetch->owner;
    bool good = !fetch->err && fetch->event.job.seq == visit->page.seq;
    visit->page.err = fetch->err ? fetch->err : good ? OK : ERR_DAMAGED;
    visit->page.events = &fetch->event;
    visit->page.count = good;
    visit->read = true;
    make_ready(visit);
}

static bool peeks_ready(const struct far_visit *visit)
{
    return visit->cmd.kind == CMD_PEEK && visit->cmd.topic.state == JOB_READY;
}

/* False: the topic's first ready job is in memory. */
static bool read_first(struct far_visit *visit)
{
    struct embedded *embedded = visit->embedded;
    uint64_t seq, where;
    if (!core_front_first(embedded->core, visit->cmd.topic.topic, &seq, &where))
        return false;
    visit->page = (struct far_page){.state = JOB_READY, .seq = seq};
    visit->first = (struct far_fetch){.where = where, .done = first_read, .owner = visit};
    visit->fetching = core_is_far(embedded->core, seq, where);
    visit->read = !visit->fetching; /* else its entry is stale, and there is nothing to read */
    visit->next = visit->here = 0;
    if (visit->fetching)
        store_far_fetch(embedded->store, &visit->first);
    return true;
}

/* The job that was first has ended, or is reserved, since: another one is the first now. */
static bool is_first_lost(const struct far_visit *visit)
{
    return peeks_ready(visit) && visit->here == 0 &&
           !core_is_far(visit->embedded->core, visit->page.seq, visit->first.where);
}

/* False: no jobs of the topic are far any more. */
static bool read_page(struct far_visit *visit)
{
    struct far_after after;
    const struct cmd_topic *cmd = &visit->cmd.topic;
    if (peeks_ready(visit))
        return read_first(visit);
    if (!core_wants_far(visit->embedded->core, &visit->cmd, &after))
        return false;
    if (visit->goes_behind && after.state == visit->page.state) { /* the same state as before */
        after.due_us = visit->behind_us;
        after.seq = visit->behind_seq;
    }
    uint32_t max = cmd->max < PAGE_MAX ? cmd->max : PAGE_MAX;
    visit->page = (struct far_page){
        .topic = cmd->topic,
        .state = after.state,
        .due_us = after.due_us,
        .seq = after.seq,
        .backwards = after.backwards,
        .max = after.one ? 1 : max,
        .with_bodies = visit->cmd.kind == CMD_KICK_TOPIC, /* they are written again */
        .done = page_read,
        .owner = visit,
    };
    visit->reading = true;
    visit->embedded->far_visits.looks += only_looks(visit);
    visit->read = false;
    visit->next = visit->here = 0;
    store_far_page(visit->embedded->store, &visit->page);
    return true;
}

static void end_page(struct far_visit *visit)
{
    if (visit->reading) {
        store_far_page_end(visit->embedded->store, &visit->page);
        visit->embedded->far_visits.looks -= only_looks(visit);
    }
    if (visit->fetching)
        store_far_fetch_end(visit->embedded->store, &visit->first);
    visit->reading = visit->fetching = visit->read = false;
}

/* ---- arriving and leaving ---- */

static struct cmd delete_of(const struct event *event)
{
    return (struct cmd){.kind = CMD_DELETE, .job = {.ref.seq = event->job.seq, .brief = true}};
}

/* Deletes the job, if it need not arrive for that. */
static bool clear_far(struct far_visit *visit, const struct event *event)
{
    struct embedded *embedded = visit->embedded;
    struct cmd cmd = delete_of(event);
    if (visit->page.state != JOB_DELAYED ||
        !core_delete_far(embedded->core, embedded->loop->now_us, &cmd, event, NULL))
        return false;
    visit->cleared++;
    visit->here++;
    return true;
}

static void clear_one(struct far_visit *visit, const struct event *event)
{
    struct embedded *embedded = visit->embedded;
    struct cmd cmd = delete_of(event);
    (void)core_apply(embedded->core, embedded->loop->now_us, &cmd, NULL);
    visit->cleared++;
}

/* True: the job is in memory, at its place in the order of the page. False: it has ended, or
   differs from its record in the slice: it has become due, or was kicked during an earlier visit.
 */
static bool is_here(const struct far_visit *visit, const struct event *event)
{
    struct job_view job;
    return core_show(visit->embedded->core, &(struct job_ref){.seq = event->job.seq}, &job) &&
           job.state == visit->page.state && job.due_us == event->job.due_us;
}

/* The page has the job twice: it counts once, or jobs in memory that are due behind far ones not on
   the page would be shown before them. */
static bool comes_again(const struct far_visit *visit, const struct event *event)
{
    return visit->next > 0 && visit->page.events[visit->next - 1].job.seq == event->job.seq;
}

/* `memory`: of the event, or NULL. */
static enum err take_one(struct far_visit *visit, const struct event *event, struct buf *memory)
{
    struct embedded *embedded = visit->embedded;
    bool kicks = visit->cmd.kind == CMD_KICK_TOPIC;
    bool clears = visit->cmd.kind == CMD_CLEAR_TOPIC;
    enum err err = kicks ? far_may_stay(embedded, event) : OK;
    budget_spend(embedded->budget, ARRIVE_NS);
    if (err || (clears && clear_far(visit, event)))
        return err;
    bool arrived = core_arrive(embedded->core, event), here = is_here(visit, event);
    visit->here += here && !comes_again(visit, event);
    if (!arrived || !here)
        return OK;
    if (clears)
        clear_one(visit, event);
    if (kicks)
        far_write_again(embedded, event, memory);
    return OK;
}

/* ---- long bodies, which a page does not have ---- */

static void body_read(struct far_fetch *fetch)
{
    struct far_visit *visit = fetch->owner;
    visit->read = true;
    make_ready(visit);
}

/* Must the whole record be read? Not of a job that has left its place since. */
static bool lacks_body(const struct far_visit *visit, const struct event *event)
{
    return visit->cmd.kind == CMD_KICK_TOPIC && event->body.len && !event->body.at &&
           core_is_far(visit->embedded->core, event->job.seq, event->record.where);
}

static bool waits_for_body(const struct far_visit *visit)
{
    return visit->step == VISIT_TAKES && visit->fetching && !visit->read;
}

/* Takes the page's next job, whose record is read first. False: it is not there yet. */
static bool take_long(struct far_visit *visit, const struct event *event, enum err *out_err)
{
    struct embedded *embedded = visit->embedded;
    if (!visit->fetching) {
        visit->first =
            (struct far_fetch){.where = event->record.where, .done = body_read, .owner = visit};
        visit->fetching = true;
        visit->read = false;
        store_far_fetch(embedded->store, &visit->first);
        return false;
    }
    if (!visit->read)
        return false;
    *out_err = visit->first.err;
    if (!*out_err && visit->first.event.job.seq != event->job.seq)
        *out_err = ERR_DAMAGED;
    if (!*out_err)
        *out_err = take_one(visit, &visit->first.event, store_far_fetch_memory(&visit->first));
    else if (*out_err == ERR_DAMAGED) /* it stays where it is; the others are kicked */
        *out_err = OK;
    store_far_fetch_end(embedded->store, &visit->first);
    visit->fetching = false;
    return true;
}

/* True: all have arrived, or *out_err says why not. */
static bool take_all(struct far_visit *visit, enum err *out_err)
{
    bool kicks = visit->cmd.kind == CMD_KICK_TOPIC;
    *out_err = OK;
    for (unsigned steps = 0; visit->next < visit->page.count && !*out_err; steps++) {
        if (steps >= STEPS_MIN && budget_spent(visit->embedded->budget))
            return false;
        const struct event *event = &visit->page.events[visit->next];
        bool is_long = (kicks && visit->fetching) || lacks_body(visit, event);
        if (is_long && !take_long(visit, event, out_err))
            return false;
        if (!is_long)
            *out_err = take_one(visit, event, NULL);
        visit->next += *out_err == OK; /* else it has not come, and does not leave */
    }
    return true;
}

/* Unchanged jobs depart. True: all have departed that can. */
static bool leave_all(struct far_visit *visit)
{
    for (unsigned steps = 0; visit->next > 0; steps++) {
        if (steps >= STEPS_MIN && budget_spent(visit->embedded->budget))
            return false;
        const struct event *event = &visit->page.events[--visit->next];
        budget_spend(visit->embedded->budget, ARRIVE_NS);
        (void)core_return(visit->embedded->core, event->job.seq, event->record);
    }
    return true;
}

/* ---- the command ---- */

/* Answers with the due time of the topic's first job, in memory or far. */
static void answer_topic(const struct far_visit *visit, struct ticket *ticket,
                         const struct reply *reply)
{
    struct reply whole = *reply;
    struct topic_view view = *reply->topics;
    int64_t far_us = visit->page.events[0].job.due_us;
    if (view.next_due_us == 0 || far_us < view.next_due_us)
        view.next_due_us = far_us;
    whole.topics = &view;
    ticket->answered(ticket, &whole);
}

/* Far jobs that cannot be read are counted, but CLEAR_TOPIC must not be repeated for them without
 * an end.
 */
static void answer_cleared(const struct far_visit *visit, struct ticket *ticket,
                           const struct reply *reply)
{
    struct reply whole = *reply;
    whole.more = whole.more && (whole.count > 0 || visit->page.more);
    ticket->answered(ticket, &whole);
}

static void inner_answered(struct ticket *inner, const struct reply *reply)
{
    struct far_visit *visit = LIST_ENTRY(inner, struct far_visit, inner);
    struct ticket *ticket = visit->head.ticket;
    visit->answered = true;
    make_ready(visit); /* its jobs leave */
    if (!ticket)
        return;
    visit->head.ticket = NULL;
    ticket->held = NULL;
    if (only_looks(visit) && reply->topics && visit->read && visit->page.count)
        answer_topic(visit, ticket, reply);
    else if (visit->cmd.kind == CMD_CLEAR_TOPIC && visit->read)
        answer_cleared(visit, ticket, reply);
    else
        ticket->answered(ticket, reply);
}

static void refuse(struct far_visit *visit, enum err err)
{
    inner_answered(&visit->inner, &(struct reply){.err = err, .kind = visit->cmd.kind});
    visit->step = VISIT_LEAVES;
}

static void reply_cleared(struct far_visit *visit)
{
    struct embedded *embedded = visit->embedded;
    struct reply reply = {
        .kind = CMD_CLEAR_TOPIC,
        .count = visit->cleared,
        .more = core_state_count(embedded->core, visit->cmd.topic.topic, visit->page.state) > 0};
    embedded->core_callbacks.reply(&embedded->core_callbacks, &visit->inner, &reply);
}

static void ask(struct far_visit *visit)
{
    visit->step = VISIT_ASKS;
    visit->inner = (struct ticket){.answered = inner_answered};
    if (visit->cleared) {
        reply_cleared(visit);
        return;
    }
    /* Jobs in memory may be due after far ones that are not on the page. */
    if (visit->here && visit->page.more && visit->cmd.topic.max > visit->here)
        visit->cmd.topic.max = visit->here;
    (void)embedded_do(visit->embedded, &visit->cmd, &visit->inner);
}

static void go_behind(struct far_visit *visit)
{
    if (visit->page.count) {
        const struct event *last = &visit->page.events[visit->page.count - 1];
        visit->goes_behind = true;
        visit->behind_us = last->job.due_us;
        visit->behind_seq = last->job.seq;
    }
    visit->step = VISIT_LEAVES;
}

/* There may be very many stale entries: when the budget is spent it goes on in the next turn. */
static void begin_again(struct far_visit *visit)
{
    visit->rests = !visit->rests && budget_spent(visit->embedded->budget);
    if (!visit->rests)
        visit->step = VISIT_LEAVES;
}

static void take(struct far_visit *visit)
{
    enum err err = visit->page.err;
    bool failed = store_failed(visit->embedded->store);
    if (!err && failed && cmd_traits(visit->cmd.kind)->changes)
        err = ERR_STORE_FAILED;
    if (only_looks(visit) && !err) {
        ask(visit);
        return;
    }
    if (!err && !take_all(visit, &err))
        return;
    if (is_first_lost(visit))
        begin_again(visit);
    else if (err)
        refuse(visit, err);
    else if (visit->here == 0 && visit->page.more)
        go_behind(visit); /* all of them have ended or changed meanwhile */
    else
        ask(visit);
}

/* Does a slice of its work. True: it waits, or the budget is spent. */
static bool work(struct far_visit *visit)
{
    switch (visit->step) {
    case VISIT_BEGINS:
        if (visit->answered)
            visit->step = VISIT_LEAVES;
        else if (read_page(visit))
            visit->step = VISIT_READS;
        else
            ask(visit);
        return false;
    case VISIT_READS:
        if (!visit->read)
            return true;
        visit->step = visit->answered ? VISIT_LEAVES : VISIT_TAKES;
        return false;
    case VISIT_TAKES:
        if (visit->answered) { /* cancelled: the core must not hold a ticket of what is freed */
            visit->step = VISIT_LEAVES;
            return false;
        }
        take(visit);
        visit->embedded->busy |= visit->step == VISIT_TAKES && !waits_for_body(visit);
        return visit->step == VISIT_TAKES;
    case VISIT_ASKS:
        if (visit->answered)
            visit->step = VISIT_LEAVES;
        return !visit->answered;
    case VISIT_LEAVES:
        if (!leave_all(visit)) {
            visit->embedded->busy = true;
            return true;
        }
        end_page(visit);
        visit->step = VISIT_BEGINS; /* again, unless it was answered */
        return visit->answered;
    }
    return true; /* there is no other step */
}

static void end(struct far_visit *visit)
{
    struct embedded *embedded = visit->embedded;
    end_page(visit);
    list_remove(&visit->link);
    embedded->read_waiter_count--;
    mem_free(visit);
}

/* The next look-up to continue, or else to begin; NULL: all wait for the disk, or for other
   commands. */
static struct far_visit *next_look(const struct far_visits *visits)
{
    const struct list *from = !list_empty(&visits->ready) ? &visits->ready : &visits->lookups;
    bool none = list_empty(from) || (from == &visits->lookups && visits->looks >= LOOKS_MAX);
    return none ? NULL : LIST_ENTRY(from->next, struct far_visit, link);
}

static void look(struct embedded *embedded)
{
    struct far_visit *visit;
    for (unsigned steps = 0; (visit = next_look(&embedded->far_visits)) != NULL; steps++) {
        if (steps >= STEPS_MIN && budget_spent(embedded->budget)) {
            embedded->busy = true;
            return;
        }
        list_remove(&visit->link);
        list_add_tail(&embedded->far_visits.looking, &visit->link);
        budget_spend(embedded->budget, ARRIVE_NS);
        while (!work(visit))
            ;
        if (visit->step == VISIT_BEGINS)
            end(visit);
    }
}

static struct far_visit *first_visit(const struct embedded *embedded)
{
    const struct list *waiting = &embedded->far_visits.waiting;
    return list_empty(waiting) ? NULL : LIST_ENTRY(waiting->next, struct far_visit, link);
}

bool far_visit_topic(const struct embedded *embedded, struct bytes *out_topic)
{
    const struct far_visit *visit = first_visit(embedded);
    if (!visit || visit->step == VISIT_BEGINS)
        return false;
    *out_topic = visit->cmd.topic.topic;
    return true;
}

void far_visit_turn(struct embedded *embedded)
{
    struct list *waiting = &embedded->far_visits.waiting;
    look(embedded);
    struct far_visit *visit;
    while ((visit = first_visit(embedded)) != NULL) {
        if (visit->step == VISIT_BEGINS && store_far_departs(embedded->store))
            return; /* the store's turn comes within a millisecond, and then ours */
        while (!work(visit))
            ;
        if (visit->step != VISIT_BEGINS)
            return;
        end(visit);
        if (!list_empty(waiting) && budget_spent(embedded->budget)) {
            embedded->busy = true;
            return;
        }
    }
}

void far_visit_cancel(struct waiting_reply *reply)
{
    struct far_visit *visit = (struct far_visit *)reply; /* its first member */
    struct embedded *embedded = visit->embedded;
    if (visit->step == VISIT_ASKS && !visit->answered)
        embedded->engine.verbs->cancel(&embedded->engine, &visit->inner);
    visit->answered = true;
    make_ready(visit);
}

static void give_up(struct embedded *embedded, struct list *list)
{
    while (!list_empty(list)) {
        struct far_visit *visit = LIST_ENTRY(list->next, struct far_visit, link);
        if (visit->step == VISIT_ASKS && !visit->answered)
            embedded->engine.verbs->cancel(&embedded->engine, &visit->inner);
        if (!visit->answered)
            refuse(visit, ERR_STORE_FAILED);
        end(visit);
    }
}

void far_visit_fail_all(struct embedded *embedded)
{
    give_up(embedded, &embedded->far_visits.waiting);
    give_up(embedded, &embedded->far_visits.lookups);
    give_up(embedded, &embedded->far_visits.looking);
    give_up(embedded, &embedded->far_visits.ready);
}

void far_visits_init(struct far_visits *visits)
{
    list_init(&visits->waiting);
    list_init(&visits->lookups);
    list_init(&visits->looking);
    list_init(&visits->ready);
}
